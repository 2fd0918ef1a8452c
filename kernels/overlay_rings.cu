//===----------------------------------------------------------------------===//
// overlay_rings
//
// Promise: exact. From the edges of a net (vibe/net.h) that meet in their ends only to the chains that they make, and from
// the boundary of an overlay to its rings. Ways along edges are doubled, step by step, until they know what they need. One thread
// an edge, an end of an edge or a ring.
//===----------------------------------------------------------------------===//
#include "vibe/net.h"
#include "vibe/thread.h"

//! All edges into one part
extern "C" __global__ void join_parts(const vibe::NetEdge *edges, vibe::u32 count, vibe::NetEdge *out) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		out[i] = edges[i];
		out[i].part = 0;
	}
}

//! Both ends of each edge: where they are, hashed; ids: twice the edge, one more for its head
extern "C" __global__ void end_keys(const vibe::NetEdge *edges, vibe::u32 count, vibe::u64 *keys, vibe::i32 *ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= 2 * (vibe::u64)count) {
		return;
	}
	const vibe::NetEdge &edge = edges[i / 2];
	keys[i] = vibe::HashOf(i % 2 == 0 ? edge.Tail() : edge.Head(), edge.part);
	ids[i] = (vibe::i32)i;
}

//! For each edge the one of its part that goes on where it ends, if only that does; none where more edges meet. crowded[i]: that is
//! so, `any`: somewhere. Sorted by key.
extern "C" __global__ void link_edges(const vibe::NetEdge *edges, const vibe::u64 *keys, const vibe::i32 *ids,
                                      vibe::u32 count, vibe::u32 *links, vibe::u8 *crowded, vibe::u32 *any) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= 2 * (vibe::u64)count || ids[i] % 2 == 0) {
		return;
	}
	const vibe::u32 edge = (vibe::u32)ids[i] / 2, part = edges[edge].part;
	const vibe::Vec2 p = edges[edge].Head();
	vibe::u32 others = 0, link = vibe::NetHop::NONE;
	const auto look = [&](vibe::u64 k) {
		const vibe::NetEdge &other = edges[ids[k] / 2];
		if (other.part == part && (ids[k] % 2 == 0 ? other.Tail() : other.Head()) == p) {
			others++;
			link = ids[k] % 2 == 0 ? (vibe::u32)ids[k] / 2 : vibe::NetHop::NONE;
		}
		return others < 2;
	};
	for (vibe::u64 k = i; k-- > 0 && keys[k] == keys[i] && look(k);) {
	}
	for (vibe::u64 k = i + 1; k < 2 * (vibe::u64)count && keys[k] == keys[i] && look(k); k++) {
	}
	const bool alone = others == 1 && link != vibe::NetHop::NONE;
	links[edge] = alone ? link : vibe::NetHop::NONE;
	crowded[edge] = alone ? 0 : 1;
	if (!alone) {
		*any = 1;
	}
}

//! Parts of an intersection in which both sides touch in a line or in a point: they have an edge whose label says so, or all edges that
//! end in a point say so together. Also those where too many end in a point. Sorted by key.
extern "C" __global__ void touching_parts(const vibe::NetEdge *edges, const vibe::u64 *keys, const vibe::i32 *ids,
                                          vibe::u32 count, const vibe::u8 *labels, vibe::u8 *parts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= 2 * (vibe::u64)count) {
		return;
	}
	vibe::u8 label = labels[ids[i] / 2];
	if (label & vibe::NetLabel::COVERED) {
		return;
	}
	const vibe::NetEdge edge = edges[ids[i] / 2];
	const vibe::Vec2 p = ids[i] % 2 == 0 ? edge.Tail() : edge.Head();
	const bool is_line = vibe::NetLabel::Touches(label);
	vibe::u32 seen = 0;
	const auto look = [&](vibe::u64 k) {
		const vibe::NetEdge &other = edges[ids[k] / 2];
		if (other.part == edge.part && (ids[k] % 2 == 0 ? other.Tail() : other.Head()) == p) {
			label |= labels[ids[k] / 2];
		}
		return (label & vibe::NetLabel::COVERED) == 0 && ++seen < vibe::NET_MOST_IN_POINT;
	};
	for (vibe::u64 k = i; k-- > 0 && keys[k] == keys[i] && look(k);) {
	}
	for (vibe::u64 k = i + 1; k < 2 * (vibe::u64)count && keys[k] == keys[i] && look(k); k++) {
	}
	if (is_line || vibe::NetLabel::Touches(label) || seen >= vibe::NET_MOST_IN_POINT) {
		parts[edge.part] = 1;
	}
}

//! Where more than two edges of a boundary meet: the way goes on around the area on its left. failed[0]: there are too many.
extern "C" __global__ void link_crowded(const vibe::NetEdge *edges, const vibe::u64 *keys, const vibe::i32 *ids,
                                        vibe::u32 count, const vibe::u8 *crowded, vibe::u32 *links, vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= 2 * (vibe::u64)count || ids[i] % 2 == 0 || !crowded[ids[i] / 2]) {
		return;
	}
	const vibe::NetEdge edge = edges[ids[i] / 2];
	const vibe::Vec2 p = edge.Head();
	vibe::u32 link = vibe::NetHop::NONE, seen = 0;
	const auto look = [&](vibe::u64 k) {
		const vibe::u32 other = (vibe::u32)ids[k] / 2;
		if (ids[k] % 2 == 0 && edges[other].part == edge.part && edges[other].Tail() == p &&
		    (link == vibe::NetHop::NONE ||
		     vibe::ClockwiseBefore(p, edge.Tail(), edges[other].Head(), edges[link].Head()))) {
			link = other;
		}
		return ++seen < vibe::NET_MOST_IN_POINT;
	};
	for (vibe::u64 k = i; k-- > 0 && keys[k] == keys[i] && look(k);) {
	}
	for (vibe::u64 k = i + 1; k < 2 * (vibe::u64)count && keys[k] == keys[i] && look(k); k++) {
	}
	links[ids[i] / 2] = link;
	if (seen >= vibe::NET_MOST_IN_POINT) {
		failed[0] = 1;
	}
}

//! The first hop of every edge
extern "C" __global__ void first_hops(const vibe::u32 *links, vibe::u32 count, vibe::NetHop *hops) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		hops[i] = vibe::NetHop {links[i], (vibe::u32)i | (links[i] == vibe::NetHop::NONE ? 0 : vibe::NetHop::GOES_ON)};
	}
}

//! Hops twice as far, with the least value on the way; `changed` as long as any falls
extern "C" __global__ void least_hops(const vibe::NetHop *hops, vibe::u32 count, vibe::NetHop *out,
                                      vibe::u32 *changed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	vibe::NetHop hop = hops[i];
	if (hop.to != vibe::NetHop::NONE) {
		const vibe::NetHop next = hops[hop.to];
		if (next.value < hop.value) {
			hop.value = next.value;
			*changed = 1;
		}
		hop.to = next.to;
	}
	out[i] = hop;
}

//! Hops along rings up to the edge before the leader; the value is how far that is
extern "C" __global__ void ring_hops(const vibe::u32 *links, const vibe::NetHop *least, vibe::u32 count,
                                     vibe::NetHop *hops) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		const bool last = links[i] == least[i].Leader();
		hops[i] = last ? vibe::NetHop {vibe::NetHop::NONE, 0} : vibe::NetHop {links[i], 1};
	}
}

//! Hops twice as far, with the sum of both; `changed` as long as any goes on
extern "C" __global__ void far_hops(const vibe::NetHop *hops, vibe::u32 count, vibe::NetHop *out, vibe::u32 *changed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	vibe::NetHop hop = hops[i];
	if (hop.to != vibe::NetHop::NONE) {
		const vibe::NetHop next = hops[hop.to];
		hop = vibe::NetHop {next.to, hop.value + next.value};
		*changed = 1;
	}
	out[i] = hop;
}

//! From the depth below the leader of each chain to that of all its edges: what is on either side of a chain stays there
extern "C" __global__ void chain_depths(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetHop *least,
                                        const vibe::i32 *leader_depths, vibe::i32 *depths) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::u32 leader = least[i].Leader();
	const vibe::i32 rise = edges[i].rise, leader_rise = edges[leader].rise;
	const vibe::i32 deepest = leader_depths[leader] + (leader_rise > 0 ? leader_rise : 0);
	depths[i] = deepest - (rise > 0 ? rise : 0);
}

//! Edges as they come: y of their left ends
extern "C" __global__ void start_y_keys(const vibe::NetEdge *edges, vibe::u32 count, vibe::u64 *keys, vibe::i32 *ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		keys[i] = vibe::OrderedBits(edges[i].a.y);
		ids[i] = (vibe::i32)i;
	}
}

//! Edges in the order of `ids`: x of their left ends
extern "C" __global__ void start_x_keys(const vibe::NetEdge *edges, const vibe::i32 *ids, vibe::u32 count,
                                        vibe::u64 *keys) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		keys[i] = vibe::OrderedBits(edges[ids[i]].a.x);
	}
}

//! The same: their parts
extern "C" __global__ void part_keys(const vibe::NetEdge *edges, const vibe::i32 *ids, vibe::u32 count,
                                     vibe::u64 *keys) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		keys[i] = edges[ids[i]].part;
	}
}

//! Edges by part and left ends, then by their right ones; `ids` are sorted by the former. `failed`: too many start in a point.
extern "C" __global__ void sort_edges(const vibe::NetEdge *edges, const vibe::i32 *ids, vibe::u32 count,
                                      vibe::NetEdge *out, vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::NetEdge edge = edges[ids[i]];
	// Its place among those that start in the same point
	const auto starts_there = [&](vibe::u64 k) { return edges[ids[k]].a == edge.a && edges[ids[k]].part == edge.part; };
	vibe::u64 begin = i, before = 0;
	for (vibe::u64 k = i; k-- > 0 && i - k < vibe::NET_MOST_IN_POINT && starts_there(k); begin = k) {
		before += vibe::LexicographicLess(edges[ids[k]].b, edge.b);
	}
	vibe::u64 k = i + 1;
	for (; k < count && k - begin < vibe::NET_MOST_IN_POINT && starts_there(k); k++) {
		before += vibe::LexicographicLess(edges[ids[k]].b, edge.b);
	}
	if (k - begin >= vibe::NET_MOST_IN_POINT) {
		failed[edge.part] = 1;
		return;
	}
	out[begin + before] = edge;
}

//! Parts in which more than two edges meet somewhere
extern "C" __global__ void crowded_parts(const vibe::NetEdge *edges, const vibe::u8 *crowded, vibe::u32 count,
                                         vibe::u8 *parts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count && crowded[i]) {
		parts[edges[i].part] = 1;
	}
}

//! 1 for the edges of parts that are not marked; 0 for all others, and at the end
extern "C" __global__ void count_unmarked(const vibe::NetEdge *edges, vibe::u32 count, const vibe::u8 *marked,
                                          vibe::i32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i <= count) {
		counts[i] = i < count && !marked[edges[i].part] ? 1 : 0;
	}
}

//! Edges of parts that are marked, and those of all others, both in their order; `positions` are those of the latter
extern "C" __global__ void split_marked(const vibe::NetEdge *edges, vibe::u32 count, const vibe::u8 *marked,
                                        const vibe::i32 *positions, vibe::NetEdge *out_marked, vibe::NetEdge *out) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	if (marked[edges[i].part]) {
		out_marked[i - (vibe::u64)positions[i]] = edges[i];
	} else {
		out[positions[i]] = edges[i];
	}
}

//! For the leader of each ring: 1, and the ring's vertices; 0 for all others, and a zero at the end
extern "C" __global__ void count_rings(const vibe::NetHop *least, const vibe::NetHop *far, vibe::u32 count,
                                       vibe::i32 *rings, vibe::i32 *vertices) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i > count) {
		return;
	}
	const bool leads = i < count && least[i].Leader() == i;
	rings[i] = leads ? 1 : 0;
	vertices[i] = leads ? (vibe::i32)(far[i].value + 1) : 0;
}

//! The vertices of all rings, from the tail of their leader on, and the rings in the order of these. `holes` counts those that
//! are holes, whose `under` is the lower one of the edges of their first vertex.
extern "C" __global__ void write_rings(const vibe::NetEdge *edges, const vibe::u32 *links, const vibe::NetHop *least,
                                       const vibe::NetHop *far, vibe::u32 count, const vibe::i32 *ring_at,
                                       const vibe::i32 *vertex_at, vibe::Vec2 *vertices, vibe::UnitedRing *rings,
                                       vibe::u32 *holes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::u32 leader = least[i].Leader();
	const vibe::u32 start = (vibe::u32)vertex_at[leader], end = (vibe::u32)vertex_at[leader + 1];
	vertices[end - 1 - far[i].value] = edges[i].Tail();
	if (far[i].value != 0) {
		return;
	}
	// The leader leaves the first vertex of the ring, or it arrives there. Both edges of that lie to its right.
	const bool leaves = edges[leader].rise > 0;
	const vibe::u32 out = leaves ? leader : links[leader], in = leaves ? (vibe::u32)i : leader;
	const bool shell = vibe::Orient2d(edges[out].a, edges[out].b, edges[in].b) > 0;
	vibe::UnitedRing &ring = rings[ring_at[leader]];
	ring.start = start;
	ring.count = end - start;
	ring.first = leaves ? 0 : 1;
	ring.under = shell ? vibe::UnitedRing::NONE : in;
	ring.polygon = edges[leader].polygon;
	ring.part = edges[leader].part;
	ring.shell = shell ? 1 : 0;
	if (!shell) {
		vibe::AtomicAdd(holes, 1u);
	}
}

//! Rings whose edges are not all of one polygon have none
extern "C" __global__ void ring_polygons(const vibe::NetEdge *edges, const vibe::NetHop *least, vibe::u32 count,
                                         const vibe::i32 *ring_at, vibe::UnitedRing *rings) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count && edges[i].polygon != edges[least[i].Leader()].polygon) {
		rings[ring_at[least[i].Leader()]].polygon = vibe::NetEdge::NO_POLYGON;
	}
}

//! The edge next below the left end of an edge, or none; `failed` as in segment_intersection
__device__ inline vibe::u32 EdgeUnder(const vibe::NetEdge *edges, const vibe::NetPart *parts,
                                      const vibe::NetEntries &entries, vibe::u32 index, vibe::u8 *failed) {
	const vibe::NetEdge edge = edges[index];
	const vibe::NetPart part = parts[edge.part];
	const vibe::u32 strip = part.StripOf(edge.a.x);
	const vibe::u64 last_key = part.Key(strip, edge.a.y);
	const vibe::u64 begin = entries.Find((vibe::u64)(part.first_strip + strip) << 32);
	vibe::u32 under = vibe::NetHop::NONE;
	for (vibe::u64 k = begin; k < entries.count && entries.keys[k] <= last_key; k++) {
		if (k - begin > entries.most) {
			failed[edge.part] = 1;
			return vibe::NetHop::NONE;
		}
		const vibe::u32 other = (vibe::u32)entries.edges[k];
		if (vibe::PassesBelow(edges[other], edge) &&
		    (under == vibe::NetHop::NONE || vibe::LiesAbove(edges[other], edges[under]))) {
			under = other;
		}
	}
	return under;
}

//! From the lower edge of a hole to the ring of the edge next below its first vertex
extern "C" __global__ void rings_under(const vibe::NetEdge *edges, const vibe::NetPart *parts, vibe::NetEntries entries,
                                       const vibe::NetHop *least, const vibe::i32 *ring_at, vibe::UnitedRing *rings,
                                       vibe::u32 ring_count, vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= ring_count || rings[i].shell) {
		return;
	}
	const vibe::u32 under = EdgeUnder(edges, parts, entries, rings[i].under, failed);
	if (under == vibe::NetHop::NONE) {
		failed[rings[i].part] = 1;
		return;
	}
	rings[i].under = (vibe::u32)ring_at[least[under].Leader()];
}

//! For each edge that may be the lower one at the first vertex of a hole: the edge next below that
extern "C" __global__ void edges_under(const vibe::NetEdge *edges, vibe::u32 count, const vibe::NetPart *parts,
                                       vibe::NetEntries entries, const vibe::u32 *links, const vibe::u8 *crowded,
                                       vibe::u32 *under, vibe::u8 *failed) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	// It arrives at its left end, from where another one leaves to the right
	const bool lowest = edges[i].rise < 0 && (crowded[i] || edges[links[i]].rise > 0);
	under[i] = lowest ? EdgeUnder(edges, parts, entries, (vibe::u32)i, failed) : vibe::NetHop::NONE;
}
