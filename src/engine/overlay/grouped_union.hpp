//===----------------------------------------------------------------------===//
// engine/overlay/grouped_union.hpp
//
// Unions of many groups of polygons at once on a device, each group a part of one net. It is for groups that are united in one piece: a
// device pays for many of them together, where it would not for one.
//
// Promise: the same bits as Overlay's.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/input.hpp"

#include <memory>
#include <vector>

namespace vibespatial {

class GroupedUnion {
public:
	//! Vertices from which on groups are united without waiting for more. Estimate.
	static constexpr size_t ENOUGH = size_t(1) << 22;

	//! Adds a group. False, and nothing is added, if it is not for this: it has anything but polygons, only one of them, or so many that
	//! it is divided into parts. The bytes are read again by Run().
	bool Add(const WkbSlice *geometries, size_t count);
	size_t Groups() const {
		return groups.size();
	}
	size_t Vertices() const {
		return vertex_count;
	}

	//! The union of each group as WKB; empty where it is left to the caller, because the device or a polygon is not up to it. Clears the
	//! input.
	std::vector<CountedVector<uint8_t>> Run(OverlayDevice &device, Parallel &parallel);

private:
	struct Group {
		std::unique_ptr<OverlayInput> input;
		uint32_t first_ring;
		uint32_t first_polygon;
		bool left = false;
	};

	void LeaveInvalid(const std::vector<uint8_t> &doubtful, Parallel &parallel);
	void Write(const UnitedNet &united, Parallel &parallel, std::vector<CountedVector<uint8_t>> &out) const;

	std::vector<Group> groups;
	size_t ring_count = 0;
	size_t polygon_count = 0;
	size_t vertex_count = 0;
};

} // namespace vibespatial
