//===----------------------------------------------------------------------===//
// engine/gpu/machine/neighbours.hpp
//
// Nearest neighbours: knn_points of point_distance.cu for points among points, and the kernels of shape_neighbours.cu for all others.
// Copies and kernels of a tile are queued at once, and the host waits once. All memory stays for the next tile.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/neighbours.hpp"
#include "engine/gpu/machine/join.hpp"

namespace vibespatial {

//! A search among the rows of a MachineBuild
std::unique_ptr<GpuSearch> MakeSearch(std::unique_ptr<Machine> machine, const std::shared_ptr<MachineBuild> &build,
                                      uint32_t k, double most);

} // namespace vibespatial
