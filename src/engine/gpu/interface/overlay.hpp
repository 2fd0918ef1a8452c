//===----------------------------------------------------------------------===//
// engine/gpu/interface/overlay.hpp
//
// A union of many polygons on a device, or overlays of many pairs: what goes there, the steps, and what comes back.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/pages_vector.hpp"
#include "engine/gpu/interface/engine.hpp"
#include "vibe/net.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

class KnownPolygons;

//! Vertices of rings that stay on the device (engine/gpu/interface/pinned.hpp)
class GpuRings {
public:
	virtual ~GpuRings() = default;
};

//! A ring of a net that is among them, or not
struct ResidentRing {
	static constexpr uint32_t NOT_RESIDENT = UINT32_MAX;

	//! Its first vertex
	uint32_t start = NOT_RESIDENT;
	int32_t weight = 0;
	vibe::Box box = vibe::Box::Empty();
	//! Its length along x
	double run = 0;
};

//! Polygons in parts. Each part is united by itself first, then the unions of the parts are united; or each part is an overlay of two
//! geometries by itself. No coordinate is -0.
struct OverlayNet {
	using Edges = PagesVector<vibe::NetEdge>;

	//! The most vertices, and the most edges, that a device takes
	static constexpr size_t MAX_COUNT = size_t(1) << 28;

	vibe::NetRule rule {vibe::NetRule::MANY, 0};
	//! Writes the vertices of a ring to `out` and returns the ring's weight. Called by several threads while the work begins.
	std::function<int32_t(size_t ring, vibe::Vec2 *out)> read;
	//! Rings that the device has are not read; called by several threads, too
	std::shared_ptr<const GpuRings> resident;
	std::function<ResidentRing(size_t ring)> resident_ring;
	size_t vertex_count = 0;
	//! In the order of their vertices; the first starts at 0. `read`, or `resident_ring`, gives their weights.
	vibe::NetRing *rings = nullptr;
	size_t ring_count = 0;
	size_t parts = 0;
	//! Throws when the work is not wanted any more; asked by the calling thread between the kernels. May be missing.
	std::function<void()> poll;
	//! Of all rings
	vibe::Box box = vibe::Box::Empty();
};

//! What a device made of a net
struct UnitedNet {
	enum class State : uint8_t {
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
	//! Of GpuUnion::FinishParts(): how far each part came, WHOLE or RINGS. `rings` are sorted by part, and `edges` have theirs.
	std::vector<State> parts;
};

//! A union on a device (GpuEngine::BeginUnion). The caller takes the steps in this order and does between them what the device
//! leaves to it. Each throws GpuError.
class GpuUnion {
public:
	virtual ~GpuUnion() = default;

	//! May be left out. One byte for each polygon, 1 if the polygon may be invalid; polygons with holes are not checked.
	virtual std::vector<uint8_t> FindDoubtful(size_t polygons) = 0;
	//! Unites each part by itself, or makes the overlay of each pair. One byte for each part, 1 if the device could not do it: for one, an
	//! intersection with lines or points.
	virtual std::vector<uint8_t> UniteParts() = 0;
	//! `others`: the boundaries of the parts that the device could not do. `whole`: also unites the parts.
	virtual void Finish(OverlayNet::Edges &&others, bool whole, UnitedNet &united) = 0;
	//! Instead of Finish(), where each part is an overlay by itself. Parts that UniteParts() could not do have nothing.
	virtual void FinishParts(UnitedNet &united) = 0;

	//! Of the steps so far
	GpuTimes times;
	//! Parts that the device could not do, and their vertices
	size_t parts_left = 0;
	size_t vertices_left = 0;
	//! The parts are done, and the device could not unite them
	bool whole_is_left = false;
};

//! Where the engine of an overlay finds a device (duckdb/overlay/dispatch.hpp)
class OverlayDevice {
public:
	using Steps = std::function<void(GpuUnion &on_device)>;
	virtual ~OverlayDevice() = default;

	//! Whether a union of so many vertices goes to the device
	virtual bool Takes(size_t vertices) = 0;
	//! Takes the steps. False if the device failed or had no room: the result is void then.
	virtual bool Unite(const OverlayNet &net, Parallel &parallel, const Steps &steps) = 0;
	//! The rings of known polygons (engine/overlay/known_polygons.hpp), in their order; null where the device does not have them
	virtual std::shared_ptr<const GpuRings> Resident(const KnownPolygons &, Parallel &) {
		return nullptr;
	}
};

} // namespace vibespatial
