//===----------------------------------------------------------------------===//
// engine/gpu/machine/net_rings.hpp
//
// The rings of a net on their way to a device, or those that it has already
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/gpu/machine/machine.hpp"

#include <vector>

namespace vibespatial {

//! Bytes of vertices that are sent at once: enough for a copy to be quick, and few enough for all threads to have some
constexpr size_t RINGS_AT_ONCE = size_t(1) << 19;

//! What the strips of a part are made from
struct PartExtent {
	vibe::Box box = vibe::Box::Empty();
	//! Of all edges together, along x
	double run = 0;
	size_t count = 0;

	void Add(const vibe::Vec2 &a, const vibe::Vec2 &b) {
		box.Add(a.x, a.y);
		box.Add(b.x, b.y);
		run += vibe::Abs(b.x - a.x);
		count++;
	}
	void Add(const PartExtent &other) {
		box.Add(other.box);
		run += other.run;
		count += other.count;
	}
};

//! Vertices that stay
class MachineRings : public GpuRings {
public:
	explicit MachineRings(MachineArray<vibe::Vec2> vertices_p) : vertices(std::move(vertices_p)) {
	}
	const MachineArray<vibe::Vec2> vertices;
};

//! Sends the vertices of all rings of a net, which gives them their weights; returns the extent of each part
std::vector<PartExtent> WriteRings(const OverlayNet &net, Machine &machine, vibe::Vec2 *to, Parallel &parallel);

//! Rings that a net begins with
struct PlacedRings {
	//! Of the rings that were sent, in their order
	MachineArray<vibe::Vec2> sent;
	//! The first vertex of each ring, where the device had some of them; else nothing, and all were sent
	MachineArray<const vibe::Vec2 *> places;
	//! Of each part
	std::vector<PartExtent> extents;
};
//! Sends the rings that the device does not have
PlacedRings PlaceRings(const OverlayNet &net, Machine &machine, Parallel &parallel);

} // namespace vibespatial
