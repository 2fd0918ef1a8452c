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

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace vibespatial {

class OverlayRings;
class OverlayShells;

class GroupedOverlay {
public:
	//! Vertices from which on groups are united, and pairs are sent, without waiting for more. Estimate.
	static constexpr size_t ENOUGH = size_t(1) << 22;

	using Pair = std::pair<WkbSlice, WkbSlice>;
	//! Numbers of rows
	struct KnownGroup {
		const uint32_t *numbers;
		size_t count;
	};

	//! NetRule::MANY is for groups, all others are for pairs
	explicit GroupedOverlay(const vibe::NetRule &rule = {vibe::NetRule::MANY, 0});

	//! Adds a group. False, and nothing is added, if it is not for this: it has anything but polygons, only one of them, or so many that
	//! it is divided into parts. The bytes are read again by Run().
	bool Add(const WkbSlice *geometries, size_t count);
	//! Whether a group is so large that it is divided into parts. Says so of no other, but not of all, since it reads no coordinates.
	static bool IsTooLarge(const WkbSlice *geometries, size_t count);
	//! Adds groups of rows of known polygons: numbers(i) gives the numbers of group i, and how many they are; any thread may call it. Groups
	//! that are not for this are left to the caller. All groups are of the same polygons, or none is.
	void AddKnown(const KnownRows &rows, size_t count, const std::function<KnownGroup(size_t)> &numbers,
	              Parallel &parallel);
	//! Adds the pairs pair(0) .. pair(count - 1); any thread may call it. Those of which one is null, not a POLYGON or MULTIPOLYGON, EMPTY,
	//! malformed or not usable are left to the caller. The bytes are read again by Run().
	void AddPairs(size_t count, const std::function<Pair(size_t)> &pair, Parallel &parallel);
	//! Those that were added
	size_t Groups() const {
		return groups.size();
	}
	size_t Vertices() const {
		return vertex_count;
	}

	//! The overlay of each group or pair as WKB, one after the other in memory that `allocate` gives for all of them. Returns where each
	//! begins, and where the last one ends. Nothing where it is left to the caller, because the device or a polygon is not up to it. Clears
	//! the input.
	std::vector<size_t> Run(OverlayDevice &device, Parallel &parallel,
	                        const std::function<uint8_t *(size_t)> &allocate);
	//! The same as areas; NaN where they are left to the caller
	std::vector<double> Areas(OverlayDevice &device, Parallel &parallel);

private:
	//! A group or a pair: its coordinates need no scale
	struct Group {
		//! Of a group; the rings of a pair are those of a share
		std::unique_ptr<OverlayInput> input;
		const OverlayChain *chains = nullptr;
		uint32_t rings = 0;
		uint32_t polygons = 0;
		size_t vertices = 0;
		// Those of the groups before
		uint32_t first_ring = 0;
		uint32_t first_polygon = 0;
		size_t first_vertex = 0;
		bool left = false;
	};
	//! The rings of pairs that follow each other, read by one thread
	struct Share {
		CountedVector<OverlayChain> chains;
		//! Points of those that were clipped
		PagesVector<vibe::Vec2> near;
	};
	//! What a device made, sorted by group
	struct Results {
		UnitedNet united;
		std::vector<size_t> ring_start;
		std::vector<size_t> edge_start;
		//! The groups are divided into so many steps, each of which one thread does
		size_t steps = 0;
	};
	// Take the result of a group. Any thread may call them, the groups of a step one after the other.
	using TakeShells = std::function<void(size_t step, size_t group, const OverlayShells &shells)>;
	using TakeRings = std::function<void(size_t step, size_t group, const OverlayRings &rings)>;

	//! False if it is not for this
	bool ReadGroup(std::unique_ptr<OverlayInput> input, Group &group) const;
	void AddShare(size_t begin, size_t end, const std::function<Pair(size_t)> &pair, Share &share);
	bool ReadPair(const Pair &pair, OverlayInput &input, Share &share) const;
	void LeaveInvalid(const std::vector<uint8_t> &doubtful, Parallel &parallel);
	void Make(OverlayDevice &device, Parallel &parallel, Results &results);
	bool AreShells(const Results &results, size_t group) const;
	OverlayShells ShellsOf(const Results &results, size_t group) const;
	//! Those that are not left to the caller
	void Visit(const Results &results, Parallel &parallel, const TakeShells &take_shells,
	           const TakeRings &take_rings) const;
	void Clear();

	vibe::NetRule rule;
	std::vector<Group> groups;
	std::vector<Share> shares;
	size_t vertex_count = 0;
};

} // namespace vibespatial
