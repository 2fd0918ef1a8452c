//===----------------------------------------------------------------------===//
// engine/overlay/known_polygons.hpp
//
// Polygons that many overlays read, such as those of a pinned table: what each overlay would have to find out of their WKB, found once
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/arrangement.hpp"
#include "geometry/wkb_edit.hpp"

#include <atomic>
#include <vector>

namespace vibespatial {

class KnownPolygons {
public:
	//! A ring, of which the first vertex is not repeated
	struct Ring {
		vibe::Box box;
		//! Its length along x
		double run;
		//! Its first vertex among those of all rings
		uint64_t start;
		//! Of its coordinates in the WKB of its row
		uint32_t offset;
		uint32_t count;
		OverlayChain::Kind kind;
		uint8_t stride;
		//! OverlayChain::Weight()
		int8_t weight;
	};
	//! Rings and polygons of some rows
	struct Counts {
		size_t rings = 0;
		size_t polygons = 0;
		//! As an aggregate counts them: EMPTY is one
		size_t members = 0;
		size_t vertices = 0;
	};

	//! The WKB of each row, or null for NULL
	KnownPolygons(const WkbSlice *rows, size_t count, Parallel &parallel);

	size_t Rows() const {
		return members.size();
	}
	//! Of all rings
	size_t Vertices() const {
		return vertices;
	}
	//! Of what is known
	size_t Bytes() const {
		return rings.size() * (sizeof(Ring) + 1) + (first_ring.size() + members.size()) * sizeof(uint32_t);
	}
	const CountedVector<Ring> &Rings() const {
		return rings;
	}
	//! Whether some overlay has found a polygon to be valid, by its first ring
	bool IsValid(uint32_t ring) const {
		return valid[ring].load(std::memory_order_relaxed) != 0;
	}
	void NoteValid(uint32_t ring) const {
		valid[ring].store(1, std::memory_order_relaxed);
	}
	//! Adds those of a row. False where it is anything but polygons that an overlay reads where they are, or NULL.
	bool Count(size_t row, Counts &counts) const;
	//! Of a row: [FirstRing(row), FirstRing(row + 1))
	uint32_t FirstRing(size_t row) const {
		return first_ring[row];
	}
	//! Has a net take its rings from a device that has them. `number`: that of a ring of the net, or OverlayChain::NOT_KNOWN; any thread may
	//! call it.
	void UseResident(OverlayNet &net, OverlayDevice &device, Parallel &parallel,
	                 std::function<uint32_t(size_t ring)> number) const;
	//! Whether a device can keep all rings
	bool FitDevice() const {
		return vertices < ResidentRing::NOT_RESIDENT;
	}
	//! All rings, for a device that keeps them; `net_rings` and the WKB must outlive it
	OverlayNet All(const WkbSlice *rows, std::vector<vibe::NetRing> &net_rings) const;

private:
	static constexpr uint32_t NOT_USABLE = UINT32_MAX;
	//! What one thread reads
	struct Share {
		CountedVector<Ring> rings;
		CountedVector<uint32_t> rings_of_row;
	};

	void Read(const WkbSlice *rows, size_t begin, size_t end, Share &share);

	CountedVector<Ring> rings;
	//! Of each row, and the end of the last one
	CountedVector<uint32_t> first_ring;
	//! Of each row: Counts::members, or NOT_USABLE
	CountedVector<uint32_t> members;
	//! By ring
	mutable CountedVector<std::atomic<uint8_t>> valid;
	size_t vertices = 0;
};

//! Rows of known polygons with their WKB, which is read where the device is not up to something
struct KnownRows {
	const KnownPolygons *polygons;
	//! Of all rows, by number
	const WkbSlice *wkb;
};

} // namespace vibespatial
