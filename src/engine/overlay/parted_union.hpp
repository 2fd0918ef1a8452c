//===----------------------------------------------------------------------===//
// engine/overlay/parted_union.hpp
//
// A union of many polygons in two steps: first parts of neighbouring polygons, each by one core in its cache or all of them
// by a GPU; then the boundaries of all parts together. Edges inside of a part are gone before the second step.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/input.hpp"
#include "engine/overlay/rings.hpp"

namespace vibespatial {

//! Runs one union. The arrangement and the rings are where the result goes.
class PartedUnion {
public:
	//! `device`: may be null
	PartedUnion(OverlayInput &input, OverlayArrangement &arrangement, OverlayRings &rings, OverlayDevice *device,
	            Parallel &parallel)
	    : input(input), arrangement(arrangement), rings(rings), device(device), parallel(parallel),
	      chains(input.chains) {
	}

	//! Whether a union is divided into parts
	static bool IsLarge(const OverlayInput &input);
	//! Whether an overlay is a union of enough polygons, and of nothing else
	static bool IsFor(const OverlayInput &input, const OverlayArrangement &arrangement, const OverlayRule &rule);

	//! `unchecked`: polygons may be invalid. Only a device can do that, and false means that nothing was done: there is none,
	//! it failed, or a polygon is invalid. Otherwise always true.
	bool Run(const OverlayRule &rule, bool unchecked);

private:
	//! Chains [begin, end), and the position on a Hilbert curve
	struct Polygon {
		uint32_t code;
		uint32_t begin;
		uint32_t end;
	};
	//! Polygons [start[i], start[i + 1]) are part i
	struct Parts {
		CountedVector<Polygon> polygons;
		std::vector<size_t> start {0};

		size_t Count() const {
			return start.size() - 1;
		}
	};

	vibe::Box BoxOf(const Polygon &polygon) const;
	uint64_t Hash(const Polygon &polygon) const;
	//! The polygons along a Hilbert curve
	CountedVector<Polygon> Ordered() const;
	//! The boundary of each part that is marked in `open`, a run of edges
	std::vector<EdgeRuns> ReduceParts(const Parts &parts, const std::vector<uint8_t> &open) const;
	bool HasDevice();
	//! False if the device failed or, with `unchecked`, a polygon is invalid
	bool UniteOnDevice(const Parts &parts, bool unchecked, UnitedNet &united);
	//! Checks those that the device has doubts about
	bool AreValid(const Parts &parts, const std::vector<uint8_t> &doubtful) const;

	OverlayInput &input;
	OverlayArrangement &arrangement;
	OverlayRings &rings;
	OverlayDevice *device;
	Parallel &parallel;
	CountedVector<OverlayChain> &chains;
	//! Whether the device takes this union; -1: not asked yet
	int takes = -1;
};

} // namespace vibespatial
