//===----------------------------------------------------------------------===//
// engine/scalar/overlay_batch.hpp
//
// Overlays of two columns of polygons on the GPU, the pairs of a batch in one net (engine/overlay/grouped_overlay.hpp).
// Promise: the geometries of Overlay, or the areas of them, to the bit. Pairs that the device cannot do are left open.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/gpu/interface/scalar.hpp"
#include "engine/overlay/grouped_overlay.hpp"

#include <functional>
#include <memory>

namespace vibespatial {

//! GpuEngine::BeginUnion
using BeginUnion = std::function<std::unique_ptr<GpuUnion>(const OverlayNet &net, Parallel &parallel)>;

//! Calls a function with the threads that are free
using WithThreads = std::function<void(const std::function<void(Parallel &)> &)>;

//! The threads share a batch. `enough`: vertices from which on a net is sent without waiting for more pairs.
std::unique_ptr<GpuScalarBatch> MakeOverlayBatch(const ScalarTask &task, BeginUnion begin, WithThreads threads,
                                                 size_t enough = GroupedOverlay::ENOUGH);

} // namespace vibespatial
