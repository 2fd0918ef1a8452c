//===----------------------------------------------------------------------===//
// segment_intersection
//
// Promise: exact. The edges of a net (vibe/net.h) in strips: which of them meet, and how deep it is beside them. One thread
// an edge or an entry. failed[part] is set where the CPU has to do a part: edges that meet anew after they were cut, or too
// many in a strip. Then nothing else is said of the part.
//===----------------------------------------------------------------------===//
#include "vibe/net.h"
#include "vibe/thread.h"

//! In how many strips each edge is, and a zero
extern "C" __global__ void strip_counts(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                        vibe::i32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i > count) {
		return;
	}
	counts[i] = 0;
	if (i < count) {
		const vibe::NetPart &part = parts[edges[i].part];
		counts[i] = (vibe::i32)(part.StripOf(edges[i].b.x) - part.StripOf(edges[i].a.x) + 1);
	}
}

extern "C" __global__ void strip_entries(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                         const vibe::i32 *starts, vibe::u64 *keys, vibe::i32 *ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::NetEdge edge = edges[i];
	const vibe::NetPart part = parts[edge.part];
	const vibe::u32 first = part.StripOf(edge.a.x);
	for (vibe::i32 at = starts[i]; at < starts[i + 1]; at++) {
		const vibe::u32 strip = first + (vibe::u32)(at - starts[i]);
		double low, high;
		vibe::RangeInStrip(part, edge, strip, low, high);
		keys[at] = part.Key(strip, low);
		ids[at] = (vibe::i32)i;
	}
}

//! Calls visit(first, second) for the edge of an entry and those of the entries after it in the strip that may meet it there;
//! where that says true the part has failed
template <class VISIT>
__device__ inline void VisitMeeting(const vibe::NetEdge *edges, const vibe::NetPart *parts,
                                    const vibe::NetEntries &entries, vibe::u64 entry, vibe::u8 *failed, VISIT &visit) {
	const vibe::u32 first = (vibe::u32)entries.edges[entry];
	const vibe::NetEdge edge = edges[first];
	if (failed[edge.part]) {
		return;
	}
	const vibe::NetPart part = parts[edge.part];
	const vibe::u32 strip = (vibe::u32)(entries.keys[entry] >> 32) - part.first_strip;
	double low, high;
	vibe::RangeInStrip(part, edge, strip, low, high);
	const vibe::u64 last_key = part.Key(strip, high);
	for (vibe::u64 k = entry + 1; k < entries.count && entries.keys[k] <= last_key; k++) {
		if (k - entry > entries.most) {
			failed[edge.part] = 1;
			return;
		}
		const vibe::u32 second = (vibe::u32)entries.edges[k];
		if (edges[second].a.x <= edge.b.x && edges[second].b.x >= edge.a.x && visit(first, second)) {
			failed[edge.part] = 1;
			return;
		}
	}
}

struct FindCuts {
	const vibe::NetEdge *edges;
	vibe::NetCut *cuts;
	vibe::u64 capacity;
	vibe::u64 *total;
	vibe::u32 *counts;
	vibe::u32 index[2];

	__device__ void Add(vibe::u32 edge, const vibe::Vec2 &p) {
		const vibe::u64 at = vibe::AtomicAdd(total, 1ULL);
		const vibe::u32 rank = vibe::AtomicAdd(counts + edge, 1u);
		if (at < capacity) {
			cuts[at] = vibe::NetCut {p, edge, rank};
		}
	}
	__device__ void Touch(bool second, const vibe::Vec2 &p) {
		Add(index[second ? 1 : 0], p);
	}
	__device__ void Cross(const vibe::Vec2 &p) {
		Add(index[0], p);
		Add(index[1], p);
	}
	__device__ bool operator()(vibe::u32 first, vibe::u32 second) {
		index[0] = first;
		index[1] = second;
		vibe::VisitCuts(edges[first], edges[second], *this);
		return false;
	}
};

//! Where edges have to be cut: `total` points, in no order, as many as there is room for. A pair that shares two strips may
//! give its points twice. counts: those of each edge.
extern "C" __global__ void find_cuts(const vibe::NetEdge *edges, const vibe::NetPart *parts, vibe::NetEntries entries,
                                     vibe::NetCut *cuts, vibe::u64 capacity, vibe::u64 *total, vibe::u32 *counts,
                                     vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < entries.count) {
		FindCuts visit {edges, cuts, capacity, total, counts, {0, 0}};
		VisitMeeting(edges, parts, entries, i, failed, visit);
	}
}

struct FindMeetings {
	const vibe::NetEdge *edges;

	__device__ bool operator()(vibe::u32 first, vibe::u32 second) {
		return vibe::MeetInside(edges[first], edges[second]);
	}
};

//! The parts of which two edges meet elsewhere than in ends of both
extern "C" __global__ void find_meetings(const vibe::NetEdge *edges, const vibe::NetPart *parts,
                                         vibe::NetEntries entries, vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < entries.count) {
		FindMeetings visit {edges};
		VisitMeeting(edges, parts, entries, i, failed, visit);
	}
}

//! How deep it is below each edge: the edges of its part that pass below its left end
extern "C" __global__ void depths_below(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                        vibe::NetEntries entries, vibe::u8 *failed, vibe::i32 *depths) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count || failed[edges[i].part]) {
		return;
	}
	const vibe::NetEdge edge = edges[i];
	const vibe::NetPart part = parts[edge.part];
	const vibe::u32 strip = part.StripOf(edge.a.x);
	const vibe::u64 last_key = part.Key(strip, edge.a.y);
	const vibe::u64 begin = entries.Find((vibe::u64)(part.first_strip + strip) << 32);
	vibe::i32 depth = 0;
	for (vibe::u64 k = begin; k < entries.count && entries.keys[k] <= last_key; k++) {
		if (k - begin > entries.most) {
			failed[edge.part] = 1;
			return;
		}
		const vibe::NetEdge &other = edges[entries.edges[k]];
		if (vibe::PassesBelow(other, edge)) {
			depth += other.rise;
		}
	}
	depths[i] = depth;
}

//! The boundary of what is 1 or deeper: `total` edges, in no order, of the parts that did not fail
extern "C" __global__ void union_boundary(const vibe::NetEdge *edges, vibe::u32 count, const vibe::i32 *depths,
                                          const vibe::u8 *failed, vibe::NetEdge *out, vibe::u64 *total) {
	const vibe::u64 i = vibe::ThreadIndex();
	bool taken = false, above = false;
	if (i < count && !failed[edges[i].part]) {
		above = depths[i] + edges[i].rise >= 1;
		taken = above != (depths[i] >= 1);
	}
	const vibe::u64 at = vibe::Reserve(total, taken ? 1 : 0);
	if (taken) {
		out[at] = edges[i];
		out[at].rise = above ? 1 : -1;
	}
}
