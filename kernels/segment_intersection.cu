//===----------------------------------------------------------------------===//
// segment_intersection
//
// Promise: exact. The edges of a net (vibe/net.h) in strips: which of them meet, and how deep it is beside them. One thread
// an edge or an entry. failed[part] is set where the CPU has to do a part: there are too many edges in a strip. Then nothing
// else is said of the part. `reach`: as a part of an edge's largest coordinate, how near ends of others have to be to cut it.
//===----------------------------------------------------------------------===//
#include "vibe/net.h"
#include "vibe/thread.h"

//! In how many strips each edge is, and a zero
extern "C" __global__ void strip_counts(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                        double reach, vibe::i32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i > count) {
		return;
	}
	counts[i] = 0;
	if (i < count && edges[i].part != vibe::NetEdge::NO_PART) {
		const vibe::StripRange range(parts[edges[i].part], edges[i], vibe::ReachOf(edges[i], reach));
		counts[i] = (vibe::i32)(range.last - range.first + 1);
	}
}

extern "C" __global__ void strip_entries(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                         double reach, const vibe::i32 *starts, vibe::u64 *keys, vibe::i32 *ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::NetEdge edge = edges[i];
	if (edge.part == vibe::NetEdge::NO_PART) {
		return;
	}
	const vibe::NetPart part = parts[edge.part];
	const double own_reach = vibe::ReachOf(edge, reach);
	const vibe::u32 first = vibe::StripRange(part, edge, own_reach).first;
	for (vibe::i32 at = starts[i]; at < starts[i + 1]; at++) {
		const vibe::u32 strip = first + (vibe::u32)(at - starts[i]);
		double low, high;
		vibe::RangeInStrip(part, edge, own_reach, strip, low, high);
		keys[at] = part.Key(strip, low);
		ids[at] = (vibe::i32)i;
	}
}

//! Calls visit(first, second) for the edge of an entry of an active part and those of the entries after it in the strip that
//! may meet it there, until that says true
template <class VISIT>
__device__ inline void VisitMeeting(const vibe::NetEdge *edges, const vibe::NetPart *parts,
                                    const vibe::NetEntries &entries, vibe::u64 entry, double reach,
                                    const vibe::u8 *active, vibe::u8 *failed, VISIT &visit) {
	const vibe::u32 first = (vibe::u32)entries.edges[entry];
	const vibe::NetEdge edge = edges[first];
	if (!active[edge.part] || failed[edge.part]) {
		return;
	}
	const vibe::NetPart part = parts[edge.part];
	const vibe::u32 strip = (vibe::u32)(entries.keys[entry] >> 32) - part.first_strip;
	const double own_reach = vibe::ReachOf(edge, reach);
	double low, high;
	vibe::RangeInStrip(part, edge, own_reach, strip, low, high);
	const vibe::u64 last_key = part.Key(strip, high);
	for (vibe::u64 k = entry + 1; k < entries.count && entries.keys[k] <= last_key; k++) {
		if (k - entry > entries.most) {
			failed[edge.part] = 1;
			return;
		}
		const vibe::u32 second = (vibe::u32)entries.edges[k];
		const double both = own_reach + vibe::ReachOf(edges[second], reach);
		if (edges[second].a.x - both <= edge.b.x && edges[second].b.x + both >= edge.a.x && visit(first, second)) {
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
	double reach;
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
		if (reach == 0 || !vibe::VisitNearEnds(edges[first], edges[second], reach, *this)) {
			vibe::VisitCuts(edges[first], edges[second], *this);
		}
		return false;
	}
};

//! Where edges have to be cut: `total` points, in no order, as many as there is room for. A pair that shares two strips may
//! give its points twice. counts: those of each edge.
extern "C" __global__ void find_cuts(const vibe::NetEdge *edges, const vibe::NetPart *parts, vibe::NetEntries entries,
                                     double reach, const vibe::u8 *active, vibe::NetCut *cuts, vibe::u64 capacity,
                                     vibe::u64 *total, vibe::u32 *counts, vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < entries.count) {
		FindCuts visit {edges, cuts, capacity, total, counts, reach, {0, 0}};
		VisitMeeting(edges, parts, entries, i, reach, active, failed, visit);
	}
}

struct FindMeetings {
	const vibe::NetEdge *edges;
	vibe::u8 *meet;

	__device__ bool operator()(vibe::u32 first, vibe::u32 second) {
		if (!vibe::MeetInside(edges[first], edges[second])) {
			return false;
		}
		meet[edges[first].part] = 1;
		return true;
	}
};

//! Of the active parts those of which two edges meet elsewhere than in ends of both
extern "C" __global__ void find_meetings(const vibe::NetEdge *edges, const vibe::NetPart *parts,
                                         vibe::NetEntries entries, const vibe::u8 *active, vibe::u8 *meet,
                                         vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < entries.count && !meet[edges[entries.edges[i]].part]) {
		FindMeetings visit {edges, meet};
		VisitMeeting(edges, parts, entries, i, 0, active, failed, visit);
	}
}

struct FindDoubtful {
	const vibe::NetEdge *edges;
	vibe::u32 count;
	vibe::u8 *doubtful;

	__device__ bool operator()(vibe::u32 first, vibe::u32 second) {
		const vibe::NetEdge &e = edges[first], &f = edges[second];
		if (e.polygon != f.polygon) {
			return false;
		}
		const bool share = e.a == f.a || e.a == f.b || e.b == f.a || e.b == f.b;
		const bool follow = first < second ? Follow(first, second) : Follow(second, first);
		if ((share && (!follow || (e.a == f.a && e.b == f.b))) || vibe::MeetInside(e, f)) {
			doubtful[e.polygon] = 1;
		}
		return false;
	}
	//! Of the edges of a polygon that is one ring
	__device__ bool Follow(vibe::u32 i, vibe::u32 k) const {
		const vibe::u32 polygon = edges[i].polygon;
		return k == i + 1 ||
		       ((i == 0 || edges[i - 1].polygon != polygon) && (k + 1 == count || edges[k + 1].polygon != polygon));
	}
};

//! Polygons of one ring each, whose edges come in their order: those of which two edges meet elsewhere than one follows the
//! other may not be valid
extern "C" __global__ void find_doubtful(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                         vibe::NetEntries entries, const vibe::u8 *active, vibe::u8 *failed,
                                         vibe::u8 *doubtful) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < entries.count) {
		FindDoubtful visit {edges, count, doubtful};
		VisitMeeting(edges, parts, entries, i, 0, active, failed, visit);
	}
}

//! How many edges each part has
extern "C" __global__ void part_counts(const vibe::NetEdge *edges, vibe::u32 count, vibe::u32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		vibe::CountOne(counts, edges[i].part);
	}
}

//! How deep it is below each edge, or each that leads others (nullptr: all do): the edges of its part that pass below its
//! left end tell
extern "C" __global__ void depths_below(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetHop *least,
                                        const vibe::NetPart *parts, vibe::NetEntries entries, vibe::NetRule rule,
                                        vibe::u8 *failed, vibe::i32 *depths) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count || failed[edges[i].part] || (least && least[i].Leader() != i)) {
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
			depth = rule.Sum(depth, other.rise);
		}
	}
	depths[i] = depth;
}

//! The boundary of what is inside: `total` edges, in no order, of the parts that did not fail. Their rises are 1 where the inside is
//! above, and -1 where it is below. labels (nullptr: not wanted): NetLabel of all edges.
extern "C" __global__ void net_boundary(const vibe::NetEdge *edges, vibe::u32 count, const vibe::i32 *depths,
                                        vibe::NetRule rule, const vibe::u8 *failed, vibe::NetEdge *out,
                                        vibe::u64 *total, vibe::u8 *labels) {
	const vibe::u64 i = vibe::ThreadIndex();
	bool taken = false, above = false;
	if (i < count && labels) {
		labels[i] = 0;
	}
	if (i < count && !failed[edges[i].part]) {
		const vibe::i32 depth = rule.Sum(depths[i], edges[i].rise);
		above = rule.Inside(depth);
		taken = above != rule.Inside(depths[i]);
		if (labels) {
			labels[i] = vibe::NetLabel::Of(depths[i], depth);
		}
	}
	const vibe::u64 at = vibe::Reserve(total, taken ? 1 : 0);
	if (taken) {
		out[at] = edges[i];
		out[at].rise = above ? 1 : -1;
	}
}
