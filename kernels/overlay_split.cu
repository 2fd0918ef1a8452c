//===----------------------------------------------------------------------===//
// overlay_split
//
// Promise: exact. Edges of a net (vibe/net.h) from rings, as a set without equal ones, and their pieces where they are
// cut. One thread a vertex, an edge or a cut. Counts are followed by a zero, so that their exclusive scan ends with the sum.
//===----------------------------------------------------------------------===//
#include "vibe/net.h"
#include "vibe/thread.h"

//! The edge that starts at each vertex. `places`: of the first vertex of each ring; null: at its start.
extern "C" __global__ void ring_edges(const vibe::Vec2 *vertices, const vibe::Vec2 *const *places, vibe::u32 count,
                                      const vibe::NetRing *rings, vibe::u32 ring_count, vibe::NetRule rule,
                                      vibe::NetEdge *edges) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	// The last ring that starts here or before
	vibe::u32 begin = 0, end = ring_count;
	while (end - begin > 1) {
		const vibe::u32 mid = begin + (end - begin) / 2;
		if (rings[mid].start <= i) {
			begin = mid;
		} else {
			end = mid;
		}
	}
	const vibe::NetRing ring = rings[begin];
	const vibe::u32 ring_end = begin + 1 == ring_count ? count : rings[begin + 1].start;
	const vibe::Vec2 *first = places ? places[begin] : vertices + ring.start;
	const vibe::u64 at = i - ring.start;
	const vibe::Vec2 p = first[at], q = first[i + 1 == ring_end ? 0 : at + 1];
	const bool forward = vibe::LexicographicLess(p, q);
	edges[i] = vibe::NetEdge {forward ? p : q, forward ? q : p, forward ? ring.weight : rule.Turned(ring.weight),
	                          ring.polygon, p == q ? vibe::NetEdge::NO_PART : ring.part};
}

//! Equal edges have equal keys, those of one strip follow each other, and what is no edge comes last
extern "C" __global__ void edge_keys(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                     vibe::u64 *keys, vibe::i32 *ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::NetEdge &edge = edges[i];
	ids[i] = (vibe::i32)i;
	keys[i] = ~0ULL;
	if (edge.part != vibe::NetEdge::NO_PART) {
		const vibe::NetPart &part = parts[edge.part];
		keys[i] = (vibe::u64)(part.first_strip + part.StripOf(edge.a.x)) << 32 | vibe::HashOf(edge);
	}
}

//! The first of equal edges becomes all of them; kept[i]: it separates something. Sorted by key.
extern "C" __global__ void unite_edges(vibe::NetEdge *edges, const vibe::u64 *keys, const vibe::i32 *ids,
                                       vibe::u32 count, vibe::NetRule rule, vibe::i32 *kept) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i > count) {
		return;
	}
	kept[i] = 0;
	if (i == count || edges[ids[i]].part == vibe::NetEdge::NO_PART) {
		return;
	}
	// Ends, part and key of edges are not changed here, and all else of an edge only by the first that is equal to it
	vibe::NetEdge &edge = edges[ids[i]];
	const vibe::u64 key = keys[i];
	for (vibe::u64 k = i; k-- > 0 && keys[k] == key;) {
		if (vibe::SameEdge(edges[ids[k]], edge)) {
			return;
		}
	}
	vibe::i32 rise = edge.rise;
	vibe::u32 polygon = edge.polygon;
	for (vibe::u64 k = i + 1; k < count && keys[k] == key; k++) {
		const vibe::NetEdge &other = edges[ids[k]];
		if (vibe::SameEdge(other, edge)) {
			rise = rule.Sum(rise, other.rise);
			polygon = polygon == other.polygon ? polygon : vibe::NetEdge::NO_POLYGON;
		}
	}
	edge.rise = rise;
	edge.polygon = polygon;
	kept[i] = rise != 0;
}

//! Those that are kept, in their order
extern "C" __global__ void gather_edges(const vibe::NetEdge *edges, const vibe::i32 *ids, vibe::u32 count,
                                        const vibe::i32 *positions, vibe::NetEdge *out) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count && positions[i] != positions[i + 1]) {
		out[positions[i]] = edges[ids[i]];
	}
}

//! Cuts to their edges
extern "C" __global__ void place_cuts(const vibe::NetCut *cuts, vibe::u32 count, const vibe::i32 *starts,
                                      vibe::Vec2 *points) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		points[starts[cuts[i].edge] + cuts[i].rank] = cuts[i].point;
	}
}

struct CountPieces {
	vibe::i32 count;

	VIBE_HD void operator()(const vibe::NetEdge &, bool) {
		count++;
	}
};

struct WritePieces {
	vibe::NetRule rule;
	vibe::NetEdge *to;

	VIBE_HD void operator()(const vibe::NetEdge &piece, bool turned) {
		*to = piece;
		to->rise = turned ? rule.Turned(piece.rise) : piece.rise;
		to++;
	}
};

//! Sorts the cuts of each edge along it, and counts its pieces
extern "C" __global__ void count_pieces(const vibe::NetEdge *edges, vibe::u32 count, const vibe::i32 *starts,
                                        vibe::Vec2 *points, vibe::i32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i > count) {
		return;
	}
	CountPieces pieces {0};
	if (i < count) {
		const vibe::u32 cuts = (vibe::u32)(starts[i + 1] - starts[i]);
		vibe::SortCuts(edges[i], points + starts[i], cuts);
		vibe::VisitPieces(edges[i], points + starts[i], cuts, pieces);
	}
	counts[i] = pieces.count;
}

extern "C" __global__ void write_pieces(const vibe::NetEdge *edges, vibe::u32 count, const vibe::i32 *starts,
                                        const vibe::Vec2 *points, const vibe::i32 *positions, vibe::NetRule rule,
                                        vibe::NetEdge *out) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		WritePieces write {rule, out + positions[i]};
		vibe::VisitPieces(edges[i], points + starts[i], (vibe::u32)(starts[i + 1] - starts[i]), write);
	}
}
