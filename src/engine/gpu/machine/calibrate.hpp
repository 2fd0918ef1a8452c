//===----------------------------------------------------------------------===//
// engine/gpu/machine/calibrate.hpp
//
// Measures a device in a few milliseconds
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/figures.hpp"
#include "engine/gpu/machine/machine.hpp"

namespace vibespatial {

//! Needs the unit `calibration`, and a device that does nothing else. Of several measurements the best counts. Throws GpuError, also where
//! the device finds other counts than the host.
GpuFigures MeasureFigures(Machine &machine);

} // namespace vibespatial
