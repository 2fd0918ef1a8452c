//===----------------------------------------------------------------------===//
// engine/cpu/overlay_device.hpp
//
// How an overlay asks for a device without knowing whose it is.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/parallel.hpp"
#include "engine/uninitialized.hpp"
#include "vibe/net.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vibespatial {

//! Parts to unite, each for itself: rings of polygons, or edges where there are no rings. No coordinate is -0.
struct OverlayNet {
	//! Of vertices and of edges
	static constexpr size_t MAX_COUNT = size_t(1) << 28;

	const vibe::Vec2 *vertices = nullptr;
	size_t vertex_count = 0;
	//! In the order of their vertices; the first starts at 0
	const vibe::NetRing *rings = nullptr;
	size_t ring_count = 0;
	const vibe::NetEdge *edges = nullptr;
	size_t edge_count = 0;
	size_t parts = 0;
};

struct UnitedNet {
	//! The boundary of each part's union: what OverlayArrangement::TakeAreas takes, in no order
	UninitializedVector<vibe::NetEdge> edges;
	//! For each part: 1 where the CPU has to do it. It has no edges then.
	std::vector<uint8_t> failed;
};

class OverlayDevice {
public:
	virtual ~OverlayDevice() = default;

	//! Shall a union of so many vertices go there?
	virtual bool Takes(size_t vertices) = 0;
	//! False when the device does nothing of it
	virtual bool Unite(const OverlayNet &net, Parallel &parallel, UnitedNet &united) = 0;
};

} // namespace vibespatial
