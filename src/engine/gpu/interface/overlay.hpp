//===----------------------------------------------------------------------===//
// engine/gpu/interface/overlay.hpp
//
// How an overlay asks for a device without knowing whose it is.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/pages_vector.hpp"
#include "vibe/net.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace vibespatial {

//! Rings of polygons in parts: first each part is united for itself, then what is left of all. No coordinate is -0.
struct OverlayNet {
	//! Of vertices and of edges
	static constexpr size_t MAX_COUNT = size_t(1) << 28;

	//! Reads the vertices of a ring, and says what its weight is; several threads may ask
	std::function<int32_t(size_t ring, vibe::Vec2 *out)> read;
	size_t vertex_count = 0;
	//! In the order of their vertices; the first starts at 0. Their weights come with reading.
	vibe::NetRing *rings = nullptr;
	size_t ring_count = 0;
	size_t parts = 0;
	//! Of all rings
	vibe::Box box = vibe::Box::Empty();
	//! Else the parts are all that is wanted
	bool whole = false;

	//! Asked before anything else: are these polygons valid, 1 for each that the device has doubts about? None: all are.
	std::function<bool(const std::vector<uint8_t> &doubtful)> are_valid;
	size_t polygons = 0;

	using Edges = PagesVector<vibe::NetEdge>;
	//! Adds the boundaries of the parts that the device could not do: those that are 1
	std::function<void(const std::vector<uint8_t> &failed, Edges &edges)> rest;
};

//! How far a device came
struct UnitedNet {
	enum class State : uint8_t {
		//! Nothing was done, for not all polygons are valid
		INVALID,
		//! `edges`: the boundary of each part's union, what OverlayArrangement::TakeAreas takes
		PARTS,
		//! `edges`: the boundary of all
		WHOLE,
		//! The same, sorted as EdgeBefore does, with what OverlaySweep says of its edges
		LINKED,
		//! The same as rings
		RINGS
	};

	State state = State::PARTS;
	OverlayNet::Edges edges;
	PagesVector<uint32_t> next;
	CountedVector<uint8_t> crowded;
	//! For each edge that may be the lower one at the first vertex of a hole
	PagesVector<uint32_t> under;
	//! In the order of their first vertices
	PagesVector<vibe::Vec2> vertices;
	std::vector<vibe::UnitedRing> rings;
	//! For each part: 1 where the CPU had to do it
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
