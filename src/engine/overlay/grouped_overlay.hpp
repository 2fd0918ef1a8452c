//===----------------------------------------------------------------------===//
// engine/overlay/grouped_overlay.hpp
//
// Many small overlays at once on a device, each a part of one net: unions of groups of polygons that are united in one piece, or overlays
// of two geometries of polygons. A device pays for many of them together, where it would not for one.
//
// Promise: the same bits as Overlay's.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/input.hpp"

#include <memory>
#include <vector>

namespace vibespatial {

class OverlayRings;

class GroupedOverlay {
public:
	//! Vertices from which on groups are united without waiting for more. Estimate.
	static constexpr size_t ENOUGH = size_t(1) << 22;

	//! NetRule::MANY is for groups, all others are for pairs
	explicit GroupedOverlay(const vibe::NetRule &rule = {vibe::NetRule::MANY, 0});

	//! Adds a group. False, and nothing is added, if it is not for this: it has anything but polygons, only one of them, or so many that
	//! it is divided into parts. The bytes are read again by Run().
	bool Add(const WkbSlice *geometries, size_t count);
	//! Adds a pair. False, and nothing is added, if one of the two is not a POLYGON or MULTIPOLYGON, is EMPTY or not usable. The bytes
	//! are read again by Run(). Throws GeometryError for malformed WKB.
	bool AddPair(WkbSlice left, WkbSlice right);
	//! Those that were added
	size_t Groups() const {
		return groups.size();
	}
	size_t Vertices() const {
		return vertex_count;
	}

	//! The overlay of each group or pair as WKB; empty where it is left to the caller, because the device or a polygon is not up to it.
	//! Clears the input.
	std::vector<CountedVector<uint8_t>> Run(OverlayDevice &device, Parallel &parallel);
	//! The same as areas; NaN where they are left to the caller
	std::vector<double> Areas(OverlayDevice &device, Parallel &parallel);

private:
	struct Group {
		std::unique_ptr<OverlayInput> input;
		uint32_t first_ring;
		uint32_t first_polygon;
		bool left = false;
	};
	//! Takes the result of a group, with all coordinates times `scale`. Any thread may call it.
	using Take = std::function<void(size_t group, const OverlayRings &rings, double scale)>;

	void Push(std::unique_ptr<OverlayInput> input);
	void LeaveInvalid(const std::vector<uint8_t> &doubtful, Parallel &parallel);
	void Make(OverlayDevice &device, Parallel &parallel, const Take &take);
	void Build(const UnitedNet &united, Parallel &parallel, const Take &take) const;

	vibe::NetRule rule;
	std::vector<Group> groups;
	size_t ring_count = 0;
	size_t polygon_count = 0;
	size_t vertex_count = 0;
};

} // namespace vibespatial
