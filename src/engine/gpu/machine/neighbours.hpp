//===----------------------------------------------------------------------===//
// engine/gpu/machine/neighbours.hpp
//
// The nearest points: the kernel knn_points of point_distance.cu over the tree of engine/join/knn.cpp. Promise: what the CPU finds,
// bit by bit.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/machine/machine.hpp"

namespace vibespatial {

//! Uploads a tree of points. `ready` is called before each search: it waits for the kernels, and adds to the times.
std::unique_ptr<GpuPoints> MakePoints(MachineFactory machines, std::function<void(GpuTimes &)> ready,
                                      const float *nodes, const UninitializedVector<uint32_t> &ids,
                                      const UninitializedVector<double> &leaves, Parallel &parallel, GpuTimes &times);

} // namespace vibespatial
