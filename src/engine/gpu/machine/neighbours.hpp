//===----------------------------------------------------------------------===//
// engine/gpu/machine/neighbours.hpp
//
// Nearest neighbours: knn_points of point_distance.cu for points among points, the kernels of shape_neighbours.cu for all others, and those
// of pinned_neighbours.cu among the points of a pinned table.
// Copies and kernels of a tile are queued at once, and the host waits once. All memory stays for the next tile.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/neighbours.hpp"
#include "engine/gpu/machine/join.hpp"
#include "engine/gpu/machine/pinned.hpp"

namespace vibespatial {

//! A search among the rows of a MachineBuild
std::unique_ptr<GpuSearch> MakeSearch(std::unique_ptr<Machine> machine, const std::shared_ptr<MachineBuild> &build,
                                      uint32_t k, double most);
//! Among the points of a pinned table, whose trees are there
std::unique_ptr<GpuSearch> MakePinnedSearch(std::unique_ptr<Machine> machine,
                                            std::shared_ptr<const MachinePinnedRows> rows,
                                            const PinnedSearchInput &input);

} // namespace vibespatial
