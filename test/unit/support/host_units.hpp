//===----------------------------------------------------------------------===//
// host_units.hpp
//
// All units of the GPU, compiled for the host: the kernels of a unit are in a namespace of its own, where helpers of two units do
// not clash
//===----------------------------------------------------------------------===//
#pragma once

#include "host_cuda.hpp"

// What the units include, outside of their namespaces
#include "vibe/arena.h"
#include "vibe/box_node.h"
#include "vibe/cell_hits.h"
#include "vibe/cells.h"
#include "vibe/curve.h"
#include "vibe/distance.h"
#include "vibe/hausdorff.h"
#include "vibe/hull.h"
#include "vibe/measure.h"
#include "vibe/nearest.h"
#include "vibe/net.h"
#include "vibe/orient2d.h"
#include "vibe/pairs.h"
#include "vibe/pinned.h"
#include "vibe/points.h"
#include "vibe/rough.h"
#include "vibe/shape_build.h"
#include "vibe/simplify.h"
#include "vibe/thread.h"
#include "vibe/wkb.h"

namespace bounds_unit {
#include "kernels/bounds.cu"
}
namespace calibration_unit {
#include "kernels/calibration.cu"
}
namespace constructive_unit {
#include "kernels/constructive.cu"
}
namespace indexing_unit {
#include "kernels/indexing.cu"
}
namespace hilbert_codes_unit {
#include "kernels/hilbert_codes.cu"
}
namespace multipoint_binary_relations_unit {
#include "kernels/multipoint_binary_relations.cu"
}
namespace overlay_rings_unit {
#include "kernels/overlay_rings.cu"
}
namespace overlay_split_unit {
#include "kernels/overlay_split.cu"
}
namespace pinned_neighbours_unit {
#include "kernels/pinned_neighbours.cu"
}
namespace pinned_rows_unit {
#include "kernels/pinned_rows.cu"
}
namespace point_binary_relations_unit {
#include "kernels/point_binary_relations.cu"
}
namespace measures_unit {
#include "kernels/measures.cu"
}
namespace point_distance_unit {
#include "kernels/point_distance.cu"
}
namespace point_in_polygon_unit {
#include "kernels/point_in_polygon.cu"
}
namespace point_in_polygon_rough_unit {
#include "kernels/point_in_polygon_rough.cu"
}
namespace point_near_cells_unit {
#include "kernels/point_near_cells.cu"
}
namespace polygon_predicates_unit {
#include "kernels/polygon_predicates.cu"
}
namespace segment_distance_unit {
#include "kernels/segment_distance.cu"
}
namespace segment_intersection_unit {
#include "kernels/segment_intersection.cu"
}
namespace shape_neighbours_unit {
#include "kernels/shape_neighbours.cu"
}
namespace spatial_query_unit {
#include "kernels/spatial_query.cu"
}
namespace wkb_codec_unit {
#include "kernels/wkb_codec.cu"
}
