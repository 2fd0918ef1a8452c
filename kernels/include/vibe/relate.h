//===----------------------------------------------------------------------===//
// vibe/relate.h
//
// Promise: the exact DE-9IM matrix of two geometries of any types, for valid input. (Invalid input: an answer that depends
// on nothing but the input, and is transposed where the geometries are exchanged.) Collections follow union semantics:
// areas first, then lines, then points.
//
// Every region, edge and node of the overlay of two geometries borders on one of their edges. So each edge of either
// geometry is walked from contact to contact: the pieces between contacts give the cells of dimension 1 (the piece) and 2
// (what lies left and right of it), the contacts those of dimension 0. What a piece lies in follows from the piece before
// it, by crossing an edge or by the order of edges around a vertex. Contacts are input vertices or crossings of two
// interiors, and no crossing is ever computed: signs of orient2d place them.
// (Egenhofer & Franzosa 1991 for the model; the walk is in the spirit of Davis' RelateNG, 2024.)
//
// Where neither geometry has members that overlap one another, the order of two crossings on one edge does not matter
// and is not asked for, so the answer is exact on all finite coordinates; for collections with overlapping
// members see CompareCrossings for the range.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/lane.h"
#include "vibe/shape.h"
#include "vibe/sort.h"

namespace vibe {

//! Edge `edge` of the walked shape meets edge `other` of shape number `shape` (0 or 1)
struct EdgeContact {
	u32 edge;
	u32 other;
	u8 shape;
	SegmentContact contact;
};

//! A vertex on the walked edge at which contact `index` begins, ends or is
struct WalkEvent {
	Vec2 at;
	u32 index;
};

//! A crossing on the walked edge: between nodes (slot even) or at a node (slot odd)
struct WalkCrossing {
	u32 slot;
	u32 index;
};

//! An edge of an element as it leaves a node in direction from -> to
struct EdgeEnd {
	Vec2 from;
	Vec2 to;
	u32 element;
	bool left_in; // the element's interior lies left of it
};

//! The elements that have an edge through a node: which one, and whether there are more
struct Incidence {
	u32 count; // 2: two or more
	u32 first;

	VIBE_HD void Add(u32 element) {
		if (count == 0) {
			count = 1;
			first = element;
		} else if (element != first) {
			count = 2;
		}
	}
};

//! An edge of the other shape near a run of edges
struct NearEdge {
	Box box;
	u32 edge;
};

//! Memory of one computation. ARRAY<T> is a growable array: Push, Size, operator[], Clear, Resize; IsFull() where nothing more can be
//! pushed, Overflowed() where something was. The first three belong to all lanes, of which each may push: all of them call
//! Restart(lane) to clear such an array, and Settle(lane) when they have pushed.
template <template <class> class ARRAY>
struct RelateWork {
	ARRAY<EdgeContact> contacts; // first shape's edge, second shape's edge
	ARRAY<EdgeContact> walk;     // contacts of the walked shape, by edge
	ARRAY<u32> tally;            // where there are several lanes: contacts of each edge
	ARRAY<WalkEvent> events;
	ARRAY<WalkCrossing> crossings;
	ARRAY<u32> active;
	ARRAY<u32> node;
	ARRAY<NearEdge> near;
	ARRAY<EdgeEnd> ends;
	ARRAY<u8> flags[2];
};

namespace relate_detail {

//! No two contacts of a walk are alike
struct ByEdge {
	VIBE_HD bool operator()(const EdgeContact &a, const EdgeContact &b) const {
		if (a.edge != b.edge) {
			return a.edge < b.edge;
		}
		return a.shape != b.shape ? a.shape < b.shape : a.other < b.other;
	}
};

struct AlongEdge {
	Vec2 p, q;
	VIBE_HD bool operator()(const WalkEvent &a, const WalkEvent &b) const {
		return IsBefore(p, q, a.at, b.at);
	}
};

//! Angle from the +x axis, counter-clockwise
VIBE_HD_NOINLINE int CompareAngle(const EdgeEnd &a, const EdgeEnd &b) {
	bool a_lower = a.to.y < a.from.y || (a.to.y == a.from.y && a.to.x < a.from.x);
	bool b_lower = b.to.y < b.from.y || (b.to.y == b.from.y && b.to.x < b.from.x);
	if (a_lower != b_lower) {
		return a_lower ? 1 : -1;
	}
	if (a.from == b.from) {
		return -Orient2d(a.from, a.to, b.to);
	}
	return -CrossSign(a.from, a.to, b.from, b.to);
}

struct ByAngle {
	VIBE_HD bool operator()(const EdgeEnd &a, const EdgeEnd &b) const {
		return CompareAngle(a, b) < 0;
	}
};

constexpr u8 IN_LEFT = 1;
constexpr u8 IN_RIGHT = 2;
constexpr u8 UNKNOWN = 4;

VIBE_HD int Compare(u32 a, u32 b) {
	return a < b ? -1 : a > b ? 1 : 0;
}

VIBE_HD int Compare(const Vec2 &a, const Vec2 &b) {
	return a.x < b.x ? -1 : a.x > b.x ? 1 : a.y < b.y ? -1 : a.y > b.y ? 1 : 0;
}

VIBE_HD int Compare(const ShapeRing &a, const ShapeRing &b) {
	const int ends = Compare(a.end, b.end);
	const int elements = ends != 0 ? ends : Compare(a.element, b.element);
	return elements != 0 ? elements : Compare(2u * a.is_area + a.interior_left, 2u * b.is_area + b.interior_left);
}

//! The first of `count` items for which differs(i); `count` where there is none
template <class DIFFERS>
VIBE_HD u32 FirstDifference(const Lane &lane, u32 count, const DIFFERS &differs) {
	for (u32 base = 0; base < count; base += lane.count) {
		const u32 i = base + lane.number;
		const u32 first = lane.First(i < count && differs(i));
		if (first < lane.count) {
			return base + first;
		}
	}
	return count;
}

//! A total order of shapes: by the size of their boxes, then by the first thing that differs. 0: nothing does.
VIBE_HD_NOINLINE int CompareShapes(const ShapeView &a, const ShapeView &b, const Lane &lane) {
	const double size_a = (a.box.max_x - a.box.min_x) + (a.box.max_y - a.box.min_y);
	const double size_b = (b.box.max_x - b.box.min_x) + (b.box.max_y - b.box.min_y);
	int order = size_a < size_b ? -1 : size_a > size_b ? 1 : Compare(a.vertex_count, b.vertex_count);
	order = order != 0 ? order : Compare(a.point_count, b.point_count);
	order = order != 0 ? order : Compare(a.ring_count, b.ring_count);
	if (order != 0) {
		return order;
	}
	u32 i = FirstDifference(lane, a.vertex_count, [&](u32 k) { return Compare(a.Vertex(k), b.Vertex(k)) != 0; });
	if (i < a.vertex_count) {
		return Compare(a.Vertex(i), b.Vertex(i));
	}
	i = FirstDifference(lane, a.point_count, [&](u32 k) { return Compare(a.points[k], b.points[k]) != 0; });
	if (i < a.point_count) {
		return Compare(a.points[i], b.points[i]);
	}
	i = FirstDifference(lane, a.ring_count, [&](u32 k) { return Compare(a.rings[k], b.rings[k]) != 0; });
	return i < a.ring_count ? Compare(a.rings[i], b.rings[i]) : 0;
}

} // namespace relate_detail

template <template <class> class ARRAY>
class Relater {
public:
	//! No end of the work
	static constexpr u32 ANY_STEPS = ~0u;

	//! Several lanes call everything together, each with arrays of its own but for those that RelateWork names. Each gives up after so
	//! many steps.
	VIBE_HD Relater(const ShapeView &a, const ShapeView &b, const Target &target, RelateWork<ARRAY> &work,
	                const Lane &lane = Lane {0, 1}, u32 max_steps = ANY_STEPS)
	    : shape {&a, &b}, target(target), work(work), matrix(Cell(LOC_EXTERIOR, LOC_EXTERIOR, 2)), lane(lane),
	      steps(max_steps) {
	}

	//! The matrix, or as much of it as decides the target
	VIBE_HD Matrix Run() {
		if (MayBeTheSame() && !Spend(shape[0]->vertex_count / (SAME_PER_STEP * lane.count))) {
			return matrix;
		}
		// Where rings of an invalid polygon cross, what is found depends on the shape that is walked first, so that must not
		// be the caller's choice. The one with the larger box comes first: contacts are found by those of its edges that meet
		// the box of the other one.
		if (relate_detail::CompareShapes(*shape[0], *shape[1], lane) >= 0) {
			return RunInOrder();
		}
		Swap(shape[0], shape[1]);
		target = target.Exchanged();
		return Transpose(RunInOrder());
	}

	//! What Run() returned is not the matrix: the steps or the memory did not suffice
	VIBE_HD bool GaveUp() const {
		return gave_up;
	}

	//! Where a point lies in a shape: areas, lines, points, in this order
	VIBE_HD_NOINLINE Location Locate(const ShapeView &s, const Vec2 &p) {
		if (!s.box.Covers(p.x, p.y)) {
			return LOC_EXTERIOR;
		}
		u32 boundaries = 0;
		for (u32 k = 0; k < s.element_count; k++) {
			Location location = LocateInElement(s, k, p);
			if (location == LOC_INTERIOR) {
				return LOC_INTERIOR;
			}
			boundaries += location == LOC_BOUNDARY;
		}
		if (boundaries > 0) {
			return boundaries > 1 && FillsNeighbourhood(s, p) ? LOC_INTERIOR : LOC_BOUNDARY;
		}
		return LocateBesideAreas(s, p);
	}

private:
	//! Steps of a search for contacts, which takes so many edges a step more, and of a point that is located. One contact that is walked is
	//! the least.
	static constexpr u32 SEARCH_STEPS = 1, EDGES_PER_STEP = 4, LOCATE_STEPS = 2;
	//! Edges of which one of several lanes finds the contacts at a time
	static constexpr u32 TURN = 4, TURNS = ShapeView::FANOUT / TURN;
	//! Vertices that are compared in a step
	static constexpr u32 SAME_PER_STEP = 64;
	//! Contacts of shapes that are not mixed are walked in sections of so many, each by one lane
	static constexpr u32 SECTION = 8;

	const ShapeView *shape[2];
	Target target;
	RelateWork<ARRAY> &work;
	Matrix matrix;
	const Lane lane;
	u32 steps;
	bool gave_up = false;
	bool in_order; // contacts were found by the first shape's edges and then by the second's
	bool areas;    // both shapes are areas whose members do not overlap

	// The edge being walked: of shape `own`, ring `ring`
	int own;
	const ShapeRing *ring;
	u32 edge;
	Vec2 p, q;
	u32 count_left[2], count_right[2]; // elements of each shape left and right of the piece
	u32 line_overlaps;                 // lines of the other shape that run along the piece

	//! False when that was too much
	VIBE_HD bool Spend(u32 count) {
		gave_up = gave_up || steps < count || work.contacts.Overflowed() || work.walk.Overflowed();
		if (!gave_up && steps != ANY_STEPS) {
			steps -= count;
		}
		return !gave_up;
	}

	//! What all lanes have found by now; true when that is enough
	VIBE_HD bool Agree() {
		matrix = lane.Union(matrix);
		gave_up = lane.Any(gave_up);
		return gave_up || target.Decided(matrix);
	}

	VIBE_HD_NOINLINE Matrix RunInOrder() {
		BeyondBox(0);
		BeyondBox(1);
		if (target.Decided(matrix)) {
			return matrix;
		}
		areas = IsOneArea(*shape[0]) && IsOneArea(*shape[1]);
		if (areas && AreTheSame()) {
			return matrix | Cell(LOC_INTERIOR, LOC_INTERIOR, 2) | Cell(LOC_BOUNDARY, LOC_BOUNDARY, 1);
		}
		if (FindContacts()) {
			return matrix;
		}
		if (areas && work.contacts.Size() > 0 && (matrix & matrix_detail::II) == 0) {
			// Contacts are in the order of the first shape's edges
			for (int k = 0; k < 2; k++) {
				if (shape[1 - k]->ring_count == 1) {
					WalkAround(k);
					return matrix;
				}
			}
		}
		// The side with fewer edges first: it often decides alone
		const int first = shape[0]->vertex_count < shape[1]->vertex_count ? 0 : 1;
		for (int k = 0; k < 2; k++) {
			if (Points(first ^ k) || Walk(first ^ k)) {
				return matrix;
			}
		}
		return matrix;
	}

	//! What sticks out of the other's box is outside the other. Predicates are refuted by boxes before they come here; found
	//! here, too, their answers are those of the whole matrix, whatever the walk makes of rings that cross themselves.
	VIBE_HD void BeyondBox(int number) {
		const ShapeView &s = *shape[number];
		if (s.mixed || s.dimension < 0 || shape[1 - number]->box.Covers(s.box)) {
			return;
		}
		own = number;
		Found(LOC_INTERIOR, LOC_EXTERIOR, s.dimension);
		if (s.dimension == 2) {
			Found(LOC_BOUNDARY, LOC_EXTERIOR, 1);
		}
	}

	//! Both walks where the other shape is one ring and no contact has shown that the interiors meet. Whether they do is
	//! settled by the first walk and one piece of the ring (see WalkOnePiece), for every target alike: the second walk
	//! has no say in it. On valid input it never differs.
	VIBE_HD_NOINLINE void WalkAround(int k) {
		if (Walk(k) || ((matrix & matrix_detail::II) == 0 && WalkOnePiece(1 - k))) {
			return;
		}
		const bool apart = (matrix & matrix_detail::II) == 0;
		if (apart && target.NeedsInteriors()) {
			return;
		}
		Walk(1 - k);
		if (apart) {
			matrix &= ~Cell(LOC_INTERIOR, LOC_INTERIOR, 2);
		}
	}

	//===------------------------------------------------------------------===//
	// Contacts
	//===------------------------------------------------------------------===//
	//! The edges of t that meet a box
	template <class FINDER>
	struct NearGatherer {
		FINDER &finder;
		const ShapeView &t;
		Box box;
		ARRAY<NearEdge> &near;
		VIBE_HD bool operator()(u32 i) {
			Box edge_box = EdgeBox(t.Vertex(i), t.Vertex(i + 1));
			if (!edge_box.Intersects(box)) {
				return false;
			}
			if (near.IsFull()) {
				finder.r.in_order = false;
				if (finder.MeetNear()) {
					return true;
				}
			}
			near.Push(NearEdge {edge_box, i});
			return false;
		}
	};

	VIBE_HD static Box EdgeBox(const Vec2 &a, const Vec2 &b) {
		return Box {Min(a.x, b.x), Min(a.y, b.y), Max(a.x, b.x), Max(a.y, b.y)};
	}

	//! The contacts of edges of s with edges of t, by edge of s. Edges that follow one another lie close together: t is
	//! searched once for a run of them.
	struct ContactFinder {
		Relater &r;
		const ShapeView &s;
		const ShapeView &t;
		u32 t_end; // only the edges before this
		u8 t_number;
		ARRAY<EdgeContact> *out;
		bool stop_at_first;
		bool within; // s and t are one shape
		bool areas;  // both are areas
		bool lines;  // both are lines, and no more
		u32 run[ShapeView::FANOUT];
		u32 count;
		Box all;

		//! Edge e of s; true when no more contacts are needed
		VIBE_HD bool operator()(u32 e) {
			Box box = EdgeBox(s.Vertex(e), s.Vertex(e + 1));
			if (!box.Intersects(t.box)) {
				return false;
			}
			if (count > 0 && run[0] / ShapeView::FANOUT != e / ShapeView::FANOUT && Finish()) {
				return true;
			}
			run[count++] = e;
			all.Add(box);
			return false;
		}

		//! The edges gathered so far
		VIBE_HD_NOINLINE bool Finish() {
			if (!r.Spend(SEARCH_STEPS + count / EDGES_PER_STEP)) {
				return true;
			}
			r.work.near.Clear();
			NearGatherer<ContactFinder> gatherer {*this, t, all, r.work.near};
			if (VisitEdges(t, 0, t_end, TestBox {all}, gatherer) || MeetNear()) {
				return true;
			}
			count = 0;
			all = Box::Empty();
			return false;
		}

		//! The edges gathered so far and those near them
		VIBE_HD_NOINLINE bool MeetNear() {
			u32 near_count = r.work.near.Size();
			if (!r.Spend(near_count / ShapeView::FANOUT)) {
				return true;
			}
			for (u32 k = 0; k < count && near_count > 0; k++) {
				Vec2 p = s.Vertex(run[k]), q = s.Vertex(run[k] + 1);
				Box box = EdgeBox(p, q);
				for (u32 n = 0; n < near_count; n++) {
					const NearEdge &near = r.work.near[n];
					if (near.box.Intersects(box) && Meet(run[k], p, q, near.edge)) {
						return true;
					}
				}
			}
			r.work.near.Clear();
			return false;
		}

		VIBE_HD bool Meet(u32 e, const Vec2 &p, const Vec2 &q, u32 i) {
			Vec2 a = t.Vertex(i), b = t.Vertex(i + 1);
			if (within && !r.SelfContactCounts(s, e, i)) {
				return false;
			}
			SegmentContact contact = Contact(p, q, a, b);
			if (contact.kind == CONTACT_NONE) {
				return false;
			}
			if (stop_at_first) {
				return true;
			}
			if (lines && contact.kind == CONTACT_CROSS) {
				return r.LinesCross(p, q, a, b);
			}
			out->Push(EdgeContact {e, i, t_number, contact});
			return areas && r.AreasMeet(contact.kind, s.rings[s.vertex_ring[e]], t.rings[t.vertex_ring[i]],
			                            IsBefore(p, q, a, b));
		}
	};

	VIBE_HD static bool IsOneArea(const ShapeView &s) {
		return s.element_count == 1 && !s.mixed && s.AreaVertexEnd() == s.vertex_count && s.point_count == 0;
	}

	VIBE_HD static bool IsLinesOnly(const ShapeView &s) {
		return s.element_count == 0 && s.point_count == 0 && !s.mixed;
	}

	//! Two lines cross: a node by itself, after which nothing lies in another place than before. So it is not kept, as there
	//! may be as many as pairs of edges. True when it decides the target.
	VIBE_HD bool LinesCross(const Vec2 &a, const Vec2 &b, const Vec2 &c, const Vec2 &d) {
		own = 0;
		Found(EndAtCrossing(*shape[0], a, b, c, d) ? LOC_BOUNDARY : LOC_INTERIOR,
		      EndAtCrossing(*shape[1], a, b, c, d) ? LOC_BOUNDARY : LOC_INTERIOR, 0);
		return target.Decided(matrix);
	}

	VIBE_HD bool MayBeTheSame() const {
		return shape[0]->vertex_count == shape[1]->vertex_count && shape[0]->box.Covers(shape[1]->box) &&
		       shape[1]->box.Covers(shape[0]->box);
	}

	//! Vertex by vertex, as a geometry of a join with itself is
	VIBE_HD_NOINLINE bool AreTheSame() const {
		using relate_detail::FirstDifference;
		const ShapeView &s = *shape[0];
		const ShapeView &t = *shape[1];
		if (s.vertex_count != t.vertex_count || s.ring_count != t.ring_count) {
			return false;
		}
		return FirstDifference(lane, s.vertex_count, [&](u32 i) { return s.Vertex(i) != t.Vertex(i); }) ==
		           s.vertex_count &&
		       FirstDifference(lane, s.ring_count, [&](u32 i) {
			       return s.rings[i].begin != t.rings[i].begin || s.rings[i].interior_left != t.rings[i].interior_left;
		       }) == s.ring_count;
	}

	//! What a contact of two boundaries says by itself; true when it decides the target. `same_way`: overlapping edges run in
	//! one direction
	VIBE_HD bool AreasMeet(ContactKind kind, const ShapeRing &a, const ShapeRing &b, bool same_way) {
		if (kind == CONTACT_OVERLAP) {
			// Next to all but a few points of the piece nothing else of either is near
			bool same_side = (a.interior_left == b.interior_left) == same_way;
			matrix |= Cell(LOC_BOUNDARY, LOC_BOUNDARY, 1);
			matrix |= same_side ? Cell(LOC_INTERIOR, LOC_INTERIOR, 2)
			                    : Cell(LOC_INTERIOR, LOC_EXTERIOR, 2) | Cell(LOC_EXTERIOR, LOC_INTERIOR, 2);
			return target.Decided(matrix);
		}
		matrix |= Cell(LOC_BOUNDARY, LOC_BOUNDARY, 0);
		if (kind == CONTACT_CROSS) {
			// Other rings may touch the crossing with a vertex, and those of both together leave nothing in common. Where one
			// geometry has no other rings it is half of the neighbourhood, and the other's edge goes through that.
			bool a_alone = shape[0]->ring_count == 1, b_alone = shape[1]->ring_count == 1;
			if (a_alone || b_alone) {
				matrix |= Cell(LOC_INTERIOR, LOC_INTERIOR, 2) | Cell(LOC_INTERIOR, LOC_EXTERIOR, 2) |
				          Cell(LOC_EXTERIOR, LOC_INTERIOR, 2);
			}
			if (a_alone) {
				matrix |= Cell(LOC_INTERIOR, LOC_BOUNDARY, 1) | Cell(LOC_EXTERIOR, LOC_BOUNDARY, 1);
			}
			if (b_alone) {
				matrix |= Cell(LOC_BOUNDARY, LOC_INTERIOR, 1) | Cell(LOC_BOUNDARY, LOC_EXTERIOR, 1);
			}
		}
		return target.Decided(matrix);
	}

	//! Returns true when the contacts found decide the target
	VIBE_HD_NOINLINE bool FindContacts() {
		work.contacts.Restart(lane);
		in_order = lane.count == 1;
		if (!shape[0]->box.Intersects(shape[1]->box)) {
			return false;
		}
		const ShapeView &s = *shape[0];
		const ShapeView &t = *shape[1];
		bool one_decides = target.true_any != 0;
		bool lines = IsLinesOnly(s) && IsLinesOnly(t);
		ContactFinder finder {*this, s,  t, t.vertex_count, 1, &work.contacts, one_decides, false, areas,
		                      lines, {}, 0, Box::Empty()};
		if (lane.count > 1) {
			FindInTurns(finder);
		} else if (VisitEdges(s, 0, s.vertex_count, TestBox {t.box}, finder) || finder.Finish()) {
			if (one_decides && !gave_up) {
				matrix |= target.true_any;
			}
			return true;
		}
		work.contacts.Settle(lane);
		return Agree();
	}

	//! As one lane finds them, but each takes some edges in turn
	VIBE_HD_NOINLINE void FindInTurns(ContactFinder &finder) {
		const ShapeView &s = finder.s;
		const u32 runs = (s.vertex_count + ShapeView::FANOUT - 1) / ShapeView::FANOUT;
		const auto meets = [&](u32 run) { return s.level_count == 0 || s.boxes[run].Intersects(finder.t.box); };
		// Are they too many?
		u32 meeting = 0, all;
		for (u32 run = lane.number; run < runs; run += lane.count) {
			meeting += meets(run);
		}
		lane.Before(meeting, all);
		gave_up = gave_up || (u64)all * TURNS / lane.count * (SEARCH_STEPS + TURN / EDGES_PER_STEP) > steps;
		bool done = false;
		for (u32 turn = lane.number; lane.Any(turn < TURNS * runs && !gave_up); turn += lane.count) {
			while (turn < TURNS * runs && !meets(turn / TURNS)) {
				turn += lane.count;
			}
			const u64 begin = (u64)turn * TURN;
			for (u64 i = begin; i < begin + TURN && i < s.vertex_count; i++) {
				if (s.IsEdge((u32)i)) {
					finder((u32)i);
				}
			}
			done = finder.count > 0 && finder.Finish();
			if (done && finder.stop_at_first && !gave_up) {
				matrix |= target.true_any;
			}
			if (Agree()) {
				return;
			}
		}
	}

	//! Contacts inside a shape with overlapping members matter where a member's boundary meets another member; within one
	//! element only as vertices on an edge, and neighbours on a ring meet by definition
	VIBE_HD bool SelfContactCounts(const ShapeView &s, u32 e, u32 i) const {
		if (e == i) {
			return false;
		}
		u32 r = s.vertex_ring[e];
		if (r != s.vertex_ring[i]) {
			return true;
		}
		u32 lo = e < i ? e : i, hi = e < i ? i : e;
		const ShapeRing &ring = s.rings[r];
		return !(hi == lo + 1 || (lo == ring.begin && hi + 2 == ring.end));
	}

	//! A contact as shape `number` sees it: with its own edge first
	VIBE_HD EdgeContact ContactOf(int number, u32 i) const {
		EdgeContact c = work.contacts[i];
		c.shape = (u8)(1 - number);
		if (number == 1) {
			Swap(c.edge, c.other);
		}
		return c;
	}

	//! The contacts of a shape, in order
	VIBE_HD_NOINLINE void CollectWalk(int number) {
		if (lane.count > 1) {
			CollectTogether(number);
			return;
		}
		work.walk.Clear();
		for (u32 i = 0; i < work.contacts.Size(); i++) {
			work.walk.Push(ContactOf(number, i));
		}
		const ShapeView &s = *shape[number];
		if (s.mixed && s.element_count > 0) {
			ContactFinder finder {*this, s,  s, s.AreaVertexEnd(), (u8)number, &work.walk, false, true, false,
			                      false, {}, 0, Box::Empty()};
			VisitEdges(s, 0, s.vertex_count, TestBox {s.box}, finder);
			finder.Finish();
		}
		if (number == 0 && in_order && !s.mixed) {
			return;
		}
		const relate_detail::ByEdge before;
		bool sorted = true;
		for (u32 i = 1; i < work.walk.Size() && sorted; i++) {
			sorted = !before(work.walk[i], work.walk[i - 1]);
		}
		if (!sorted && Spend(work.walk.Size() / 2)) {
			Sort(work.walk, 0, work.walk.Size(), before);
		}
	}

	//! As one lane does, but sorted by counting the contacts of each edge, or of neighbours where there is no room for each. The
	//! shape is not mixed.
	VIBE_HD_NOINLINE void CollectTogether(int number) {
		const u32 size = work.contacts.Size();
		double least = Infinity(), greatest = -1;
		for (u32 i = lane.number; i < size; i += lane.count) {
			const u32 e = ContactOf(number, i).edge;
			least = Min(least, (double)e);
			greatest = Max(greatest, (double)e);
		}
		least = lane.Least(least);
		greatest = -lane.Least(-greatest);
		work.walk.Restart(lane);
		work.walk.Resize(size);
		if (size == 0) {
			return;
		}
		const u32 first = (u32)least, range = (u32)greatest - first;
		u32 shift = 0;
		while ((range >> shift) >= work.tally.Capacity()) {
			shift++;
		}
		const u32 groups = (range >> shift) + 1;
		work.tally.Resize(groups);
		for (u32 g = lane.number; g < groups; g += lane.count) {
			work.tally[g] = 0;
		}
		lane.Sync();
		for (u32 i = lane.number; i < size; i += lane.count) {
			Lane::Add(&work.tally[(ContactOf(number, i).edge - first) >> shift], 1);
		}
		lane.Sync();
		u32 before = 0;
		for (u32 base = 0; base < groups; base += lane.count) {
			const u32 g = base + lane.number;
			u32 total;
			const u32 begin = before + lane.Before(g < groups ? work.tally[g] : 0, total);
			if (g < groups) {
				work.tally[g] = begin;
			}
			before += total;
		}
		lane.Sync();
		for (u32 i = lane.number; i < size; i += lane.count) {
			const EdgeContact c = ContactOf(number, i);
			work.walk[Lane::Add(&work.tally[(c.edge - first) >> shift], 1)] = c;
		}
		lane.Sync();
		// Each group now ends where its number says
		for (u32 g = lane.number; g < groups; g += lane.count) {
			const u32 begin = g == 0 ? 0 : work.tally[g - 1];
			Sort(work.walk, begin, work.tally[g], relate_detail::ByEdge());
		}
		lane.Sync();
	}

	//===------------------------------------------------------------------===//
	// Findings
	//===------------------------------------------------------------------===//
	VIBE_HD void Found(Location own_location, Location other_location, int dimension) {
		matrix |=
		    own == 0 ? Cell(own_location, other_location, dimension) : Cell(other_location, own_location, dimension);
	}

	VIBE_HD void SetFlags(int number, u32 element, u8 flags) {
		using namespace relate_detail;
		u8 &slot = work.flags[number][element];
		u8 old = slot;
		count_left[number] += ((flags & IN_LEFT) != 0) - ((old & IN_LEFT) != 0);
		count_right[number] += ((flags & IN_RIGHT) != 0) - ((old & IN_RIGHT) != 0);
		slot = flags;
	}

	VIBE_HD void ResetFlags(int number) {
		using namespace relate_detail;
		count_left[number] = 0;
		count_right[number] = 0;
		const u32 elements = shape[number]->element_count;
		if (work.flags[number].Size() != elements) {
			work.flags[number].Resize(elements);
		}
		for (u32 k = 0; k < elements; k++) {
			work.flags[number][k] = UNKNOWN;
		}
	}

	//! The own element counts with its interior's side all along
	VIBE_HD bool IsOwn(int number, u32 element) const {
		return number == own && ring->is_area && ring->element == element;
	}

	//! Elements not yet met on this ring: v lies on none of their boundaries
	VIBE_HD_NOINLINE void LocateUnknown(const Vec2 &v) {
		using namespace relate_detail;
		for (int number = 0; number < 2; number++) {
			if (number == own && !shape[own]->mixed) {
				continue;
			}
			for (u32 k = 0; k < shape[number]->element_count; k++) {
				if ((work.flags[number][k] & UNKNOWN) == 0) {
					continue;
				}
				Spend(LOCATE_STEPS);
				Location location = LocateInElement(*shape[number], k, v);
				// On a boundary it would be a contact, and those are settled around the node
				SetFlags(number, k, location == LOC_INTERIOR ? (u8)(IN_LEFT | IN_RIGHT) : (u8)0);
			}
		}
	}

	VIBE_HD Location PieceLocation(int number) const {
		bool left = count_left[number] > 0, right = count_right[number] > 0;
		if (left && right) {
			return LOC_INTERIOR;
		}
		if (left || right) {
			return LOC_BOUNDARY;
		}
		bool line = number == own ? !ring->is_area : line_overlaps > 0;
		return line ? LOC_INTERIOR : LOC_EXTERIOR;
	}

	VIBE_HD_NOINLINE bool Piece() {
		int other = 1 - own;
		Found(PieceLocation(own), PieceLocation(other), 1);
		Found(count_left[own] > 0 ? LOC_INTERIOR : LOC_EXTERIOR, count_left[other] > 0 ? LOC_INTERIOR : LOC_EXTERIOR,
		      2);
		Found(count_right[own] > 0 ? LOC_INTERIOR : LOC_EXTERIOR, count_right[other] > 0 ? LOC_INTERIOR : LOC_EXTERIOR,
		      2);
		return target.Decided(matrix);
	}

	//===------------------------------------------------------------------===//
	// Nodes
	//===------------------------------------------------------------------===//
	struct EndGatherer {
		Relater &r;
		const ShapeView &s;
		Vec2 v;
		VIBE_HD bool operator()(u32 i) {
			Vec2 a = s.Vertex(i), b = s.Vertex(i + 1);
			if (OnSegment(a, b, v)) {
				r.PushEnds(s, i, v);
			}
			return false;
		}
	};

	//! The one or two ends of edge i of s at v, which lies on it
	VIBE_HD_NOINLINE void PushEnds(const ShapeView &s, u32 i, const Vec2 &v) {
		Vec2 a = s.Vertex(i), b = s.Vertex(i + 1);
		const ShapeRing &r = s.rings[s.vertex_ring[i]];
		if (b != v) {
			work.ends.Push(EdgeEnd {v, b, r.element, r.interior_left});
		}
		if (a != v) {
			work.ends.Push(EdgeEnd {v, a, r.element, !r.interior_left});
		}
	}

	//! Do the elements around work.ends, taken together, fill the whole circle?
	VIBE_HD_NOINLINE bool EndsFillCircle() {
		using namespace relate_detail;
		u32 n = work.ends.Size();
		Sort(work.ends, 0, n, ByAngle());
		for (u32 i = 0; i < n; i++) {
			if (i + 1 < n && CompareAngle(work.ends[i], work.ends[i + 1]) == 0) {
				continue; // the gap after a direction follows its last end
			}
			// For each element, the last of its ends at or before this gap tells whether it covers the gap
			bool covered = false;
			for (u32 j = 0; j < n && !covered; j++) {
				u32 k = (i + n - j) % n;
				if (!work.ends[k].left_in) {
					continue;
				}
				bool superseded = false;
				for (u32 l = 0; l < j && !superseded; l++) {
					superseded = work.ends[(i + n - l) % n].element == work.ends[k].element;
				}
				covered = !superseded;
			}
			if (!covered) {
				return false;
			}
		}
		return n > 0;
	}

	VIBE_HD_NOINLINE bool FillsNeighbourhood(const ShapeView &s, const Vec2 &v) {
		work.ends.Clear();
		EndGatherer gatherer {*this, s, v};
		VisitEdges(s, 0, s.AreaVertexEnd(), TestBox {Box {v.x, v.y, v.x, v.y}}, gatherer);
		return EndsFillCircle();
	}

	//! Is the direction v -> to inside the element whose ends at v are work.ends[begin..]? None of them points that way.
	VIBE_HD_NOINLINE bool DirectionInside(const Vec2 &v, const Vec2 &to, u32 begin) const {
		// The first end met when turning clockwise from the direction has the sector on its left
		u32 best = begin;
		int best_side = 0;
		for (u32 k = begin; k < work.ends.Size(); k++) {
			const EdgeEnd &end = work.ends[k];
			// Clockwise from the direction: the right half first, then straight back, then the left half
			int side = Orient2d(v, to, end.to);
			int rank = side < 0 ? 0 : side == 0 ? 1 : 2;
			if (k == begin || rank < best_side) {
				best = k;
				best_side = rank;
			} else if (rank == best_side && rank != 1 && Orient2d(v, work.ends[best].to, end.to) > 0) {
				best = k;
			}
		}
		return work.ends[best].left_in;
	}

	VIBE_HD const ShapeRing &RingOf(const EdgeContact &c) const {
		const ShapeView &s = *shape[c.shape];
		return s.rings[s.vertex_ring[c.other]];
	}

	//! Location of the node at vertex v in a shape, given the contacts at it (work.node) and the elements' flags on
	//! the piece before it
	VIBE_HD_NOINLINE Location NodeLocation(int number, const Vec2 &v) {
		const ShapeView &s = *shape[number];
		if (number == own && !s.mixed) {
			if (ring->is_area) {
				return LOC_BOUNDARY;
			}
			return ListHas(s.ends, s.end_count, v) ? LOC_BOUNDARY : LOC_INTERIOR;
		}
		Incidence incidence = OwnIncidence(number);
		bool line = number == own && !ring->is_area;
		for (u32 i = 0; i < work.node.Size(); i++) {
			const EdgeContact &c = work.walk[work.node[i]];
			if (c.shape != number) {
				continue;
			}
			const ShapeRing &r = RingOf(c);
			if (r.is_area) {
				incidence.Add(r.element);
			} else {
				line = true;
			}
		}
		if (s.element_count > incidence.count && InsideAnotherElement(number)) {
			return LOC_INTERIOR;
		}
		if (incidence.count > 0) {
			return incidence.count > 1 && FillsNeighbourhood(s, v) ? LOC_INTERIOR : LOC_BOUNDARY;
		}
		if (line) {
			return ListHas(s.ends, s.end_count, v) ? LOC_BOUNDARY : LOC_INTERIOR;
		}
		return ListHas(s.points, s.point_count, v) ? LOC_INTERIOR : LOC_EXTERIOR;
	}

	VIBE_HD Incidence OwnIncidence(int number) const {
		return number == own && ring->is_area ? Incidence {1, ring->element} : Incidence {0, 0};
	}

	//! Is there an element around the node that has no contact there?
	VIBE_HD_NOINLINE bool InsideAnotherElement(int number) const {
		using namespace relate_detail;
		for (u32 k = 0; k < shape[number]->element_count; k++) {
			if (work.flags[number][k] != (IN_LEFT | IN_RIGHT)) {
				continue;
			}
			bool touched = IsOwn(number, k);
			for (u32 i = 0; i < work.node.Size() && !touched; i++) {
				const EdgeContact &c = work.walk[work.node[i]];
				touched = c.shape == number && RingOf(c).is_area && RingOf(c).element == k;
			}
			if (!touched) {
				return true;
			}
		}
		return false;
	}

	//! Location of a crossing that is no vertex; the edges through it are work.node
	VIBE_HD_NOINLINE Location CrossingLocation(int number) {
		const ShapeView &s = *shape[number];
		Incidence incidence = OwnIncidence(number);
		bool line = number == own && !ring->is_area;
		bool end = false;
		work.ends.Clear();
		if (incidence.count > 0) {
			PushBothWays(p, q, *ring);
		}
		for (u32 i = 0; i < work.node.Size(); i++) {
			const EdgeContact &c = work.walk[work.node[i]];
			const ShapeRing &r = RingOf(c);
			Vec2 a = shape[c.shape]->Vertex(c.other), b = shape[c.shape]->Vertex(c.other + 1);
			bool asks = (number == own && line) || (c.shape == number && !r.is_area);
			if (asks && c.contact.kind == CONTACT_CROSS) {
				end = end || EndAtCrossing(s, p, q, a, b);
			}
			if (c.shape != number) {
				continue;
			}
			if (r.is_area) {
				incidence.Add(r.element);
				PushBothWays(a, b, r);
			} else {
				line = true;
			}
		}
		if (s.element_count > incidence.count && InsideAnotherElement(number)) {
			return LOC_INTERIOR;
		}
		if (incidence.count > 0) {
			return incidence.count > 1 && EndsFillCircle() ? LOC_INTERIOR : LOC_BOUNDARY;
		}
		if (line) {
			return end ? LOC_BOUNDARY : LOC_INTERIOR;
		}
		return LOC_EXTERIOR;
	}

	//! An edge through a crossing leaves it in both directions
	VIBE_HD void PushBothWays(const Vec2 &a, const Vec2 &b, const ShapeRing &r) {
		work.ends.Push(EdgeEnd {a, b, r.element, r.interior_left});
		work.ends.Push(EdgeEnd {b, a, r.element, !r.interior_left});
	}

	//! The node at vertex v; `out` when the walk goes on from it along this edge
	VIBE_HD_NOINLINE bool VertexNode(const Vec2 &v, bool out) {
		using namespace relate_detail;
		// Where the walk of a ring begins here: the elements with a contact are settled below, the others located
		for (u32 i = 0; i < work.node.Size(); i++) {
			const EdgeContact &c = work.walk[work.node[i]];
			const ShapeRing &r = RingOf(c);
			if (r.is_area && work.flags[c.shape][r.element] == UNKNOWN) {
				SetFlags(c.shape, r.element, 0);
			}
		}
		LocateUnknown(v);
		Location own_location = NodeLocation(own, v);
		Location other_location = NodeLocation(1 - own, v);
		Found(own_location, other_location, 0);
		if (target.Decided(matrix)) {
			return true;
		}
		if (!out) {
			return false;
		}
		// What the piece after the node lies in, for each element with a contact here
		for (u32 i = 0; i < work.node.Size(); i++) {
			const EdgeContact &c = work.walk[work.node[i]];
			const ShapeRing &r = RingOf(c);
			if (!r.is_area || IsOwn(c.shape, r.element)) {
				continue;
			}
			bool settled = false;
			for (u32 j = 0; j < i && !settled; j++) {
				const EdgeContact &d = work.walk[work.node[j]];
				settled = d.shape == c.shape && RingOf(d).is_area && RingOf(d).element == r.element;
			}
			if (settled) {
				continue;
			}
			work.ends.Clear();
			u8 flags = UNKNOWN;
			for (u32 j = i; j < work.node.Size(); j++) {
				const EdgeContact &d = work.walk[work.node[j]];
				if (d.shape != c.shape || !RingOf(d).is_area || RingOf(d).element != r.element) {
					continue;
				}
				const ShapeView &t = *shape[d.shape];
				// A piece along the element's boundary: overlaps that reach past v
				if (d.contact.kind == CONTACT_OVERLAP && OverlapGoesOn(d, v)) {
					Vec2 a = t.Vertex(d.other), b = t.Vertex(d.other + 1);
					bool left = RingOf(d).interior_left == IsBefore(p, q, a, b);
					flags = left ? IN_LEFT : IN_RIGHT;
					break;
				}
				PushEnds(t, d.other, v);
			}
			if (flags == UNKNOWN) {
				flags = DirectionInside(v, q, 0) ? (u8)(IN_LEFT | IN_RIGHT) : (u8)0;
			}
			SetFlags(c.shape, r.element, flags);
		}
		return false;
	}

	//! Overlaps are noted from the first shape's edge; on the way p -> q the far end is past v unless it is v
	VIBE_HD bool OverlapGoesOn(const EdgeContact &c, const Vec2 &v) const {
		return IsBefore(p, q, v, c.contact.first) || IsBefore(p, q, v, c.contact.second);
	}

	//===------------------------------------------------------------------===//
	// Walk
	//===------------------------------------------------------------------===//
	//! One edge with its contacts work.walk[begin, end)
	VIBE_HD_NOINLINE bool WalkEdge(u32 begin, u32 end) {
		using namespace relate_detail;
		p = shape[own]->Vertex(edge);
		q = shape[own]->Vertex(edge + 1);
		work.events.Clear();
		work.crossings.Clear();
		work.active.Clear();
		line_overlaps = 0;
		for (u32 i = begin; i < end; i++) {
			const SegmentContact &c = work.walk[i].contact;
			if (c.kind == CONTACT_CROSS) {
				work.crossings.Push(WalkCrossing {0, i});
				continue;
			}
			work.events.Push(WalkEvent {c.first, i});
			if (c.kind == CONTACT_OVERLAP) {
				work.events.Push(WalkEvent {c.second, i});
			}
		}
		Sort(work.events, 0, work.events.Size(), AlongEdge {p, q});
		PlaceCrossings();

		bool first_piece = work.events.Size() == 0 || work.events[0].at != p;
		if (first_piece) {
			LocateUnknown(p);
		}
		u32 crossing = 0, node = 0, event = 0;
		bool open = first_piece; // a piece of positive length lies before the next contact
		while (true) {
			if (open) {
				if (Piece() || Crossings(crossing, 2 * node)) {
					return true;
				}
			}
			if (event == work.events.Size()) {
				return false;
			}
			Vec2 v = work.events[event].at;
			bool out = v != q;
			if (!out && !IsLastOfLine()) {
				return false; // the next edge begins with this node
			}
			work.node.Clear();
			u32 group = event;
			while (event < work.events.Size() && work.events[event].at == v) {
				work.node.Push(work.events[event].index);
				event++;
			}
			for (u32 i = 0; i < work.active.Size(); i++) {
				if (!EndsAt(work.active[i], v)) {
					work.node.Push(work.active[i]);
				}
			}
			for (; crossing < work.crossings.Size() && work.crossings[crossing].slot == 2 * node + 1; crossing++) {
				work.node.Push(work.crossings[crossing].index);
			}
			if (VertexNode(v, out)) {
				return true;
			}
			UpdateActive(group, event, v);
			node++;
			open = out;
		}
	}

	VIBE_HD bool EndsAt(u32 index, const Vec2 &v) const {
		const SegmentContact &c = work.walk[index].contact;
		return c.first == v || c.second == v;
	}

	//! Overlaps that begin or end at the node of events [begin, end)
	VIBE_HD void UpdateActive(u32 begin, u32 end, const Vec2 &v) {
		for (u32 i = begin; i < end; i++) {
			u32 index = work.events[i].index;
			const EdgeContact &c = work.walk[index];
			if (c.contact.kind != CONTACT_OVERLAP) {
				continue;
			}
			bool is_line = c.shape != own && !RingOf(c).is_area;
			if (OverlapGoesOn(c, v)) {
				work.active.Push(index);
				line_overlaps += is_line;
				continue;
			}
			for (u32 k = 0; k < work.active.Size(); k++) {
				if (work.active[k] == index) {
					work.active[k] = work.active[work.active.Size() - 1];
					work.active.Resize(work.active.Size() - 1);
					line_overlaps -= is_line;
					break;
				}
			}
		}
	}

	VIBE_HD bool IsLastOfLine() const {
		return !ring->is_area && edge + 2 == ring->end;
	}

	struct ByPlace {
		const Relater &r;
		VIBE_HD bool operator()(const WalkCrossing &a, const WalkCrossing &b) const {
			if (a.slot != b.slot) {
				return a.slot < b.slot;
			}
			return r.OrderMatters() && (a.slot & 1) == 0 && r.CompareCrossing(a, b) < 0;
		}
	};

	VIBE_HD bool OrderMatters() const {
		return shape[0]->mixed || shape[1]->mixed;
	}

	VIBE_HD_NOINLINE int CompareCrossing(const WalkCrossing &a, const WalkCrossing &b) const {
		const EdgeContact &c = work.walk[a.index];
		const EdgeContact &d = work.walk[b.index];
		const ShapeView &s = *shape[c.shape];
		const ShapeView &t = *shape[d.shape];
		return CompareCrossings(p, q, s.Vertex(c.other), s.Vertex(c.other + 1), t.Vertex(d.other),
		                        t.Vertex(d.other + 1));
	}

	//! Puts each crossing between the vertices on the edge, or on one of them
	VIBE_HD_NOINLINE void PlaceCrossings() {
		u32 n = work.crossings.Size();
		if (n == 0) {
			return;
		}
		// Nodes are the distinct places among the events; a binary search over events finds the place, a count its number
		for (u32 i = 0; i < n; i++) {
			const EdgeContact &c = work.walk[work.crossings[i].index];
			const ShapeView &t = *shape[c.shape];
			Vec2 a = t.Vertex(c.other), b = t.Vertex(c.other + 1);
			int p_side = Orient2d(a, b, p);
			u32 lo = 0, hi = work.events.Size();
			while (lo < hi) {
				u32 mid = lo + (hi - lo) / 2;
				if (Orient2d(a, b, work.events[mid].at) == p_side) {
					lo = mid + 1;
				} else {
					hi = mid;
				}
			}
			u32 nodes_before = 0;
			for (u32 k = 0; k < lo; k++) {
				nodes_before += k == 0 || work.events[k - 1].at != work.events[k].at;
			}
			bool at_node = lo < work.events.Size() && Orient2d(a, b, work.events[lo].at) == 0;
			work.crossings[i].slot = 2 * nodes_before + (at_node ? 1 : 0);
		}
		if (n > 1) {
			Sort(work.crossings, 0, n, ByPlace {*this});
		}
	}

	//! The crossings of one slot between nodes, and the pieces between them
	VIBE_HD_NOINLINE bool Crossings(u32 &crossing, u32 slot) {
		using namespace relate_detail;
		while (crossing < work.crossings.Size() && work.crossings[crossing].slot == slot) {
			work.node.Clear();
			u32 group = crossing;
			do {
				work.node.Push(work.crossings[crossing].index);
				crossing++;
			} while (OrderMatters() && crossing < work.crossings.Size() && work.crossings[crossing].slot == slot &&
			         CompareCrossing(work.crossings[group], work.crossings[crossing]) == 0);
			u32 crossed = work.node.Size();
			for (u32 i = 0; i < work.active.Size(); i++) {
				work.node.Push(work.active[i]);
			}
			Location own_location = CrossingLocation(own);
			Location other_location = CrossingLocation(1 - own);
			Found(own_location, other_location, 0);
			for (u32 i = 0; i < crossed; i++) {
				const EdgeContact &c = work.walk[work.node[i]];
				const ShapeRing &r = RingOf(c);
				if (r.is_area && !IsOwn(c.shape, r.element)) {
					SetFlags(c.shape, r.element, (u8)(work.flags[c.shape][r.element] ^ (IN_LEFT | IN_RIGHT)));
				}
			}
			if (Piece()) {
				return true;
			}
		}
		return false;
	}

	//! All edges of a shape; true when the target is decided
	VIBE_HD_NOINLINE bool Walk(int number) {
		own = number;
		CollectWalk(number);
		if (Agree()) {
			return true;
		}
		// Beside lines and points alone, nothing has to be found out where a section begins
		const bool is_whole = OrderMatters() || (lane.count == 1 && shape[1 - own]->element_count == 0);
		const u32 size = work.walk.Size(), section = is_whole ? size : SECTION;
		for (u64 base = 0; base < size; base += (u64)lane.count * section) {
			const u64 begin = base + (u64)lane.number * section;
			if (begin < size) {
				WalkSection((u32)begin, begin + section < size ? (u32)(begin + section) : size);
			}
			if (Agree()) {
				return true;
			}
		}
		const ShapeView &s = *shape[number];
		for (u32 base = 0; base < s.ring_count; base += lane.count) {
			const u32 r = base + lane.number;
			if (r < s.ring_count && !HasContact(s.rings[r])) {
				WalkFree(r);
			}
			if (Agree()) {
				return true;
			}
		}
		return false;
	}

	VIBE_HD void BeginRing(u32 r) {
		using namespace relate_detail;
		ring = &shape[own]->rings[r];
		line_overlaps = 0;
		ResetFlags(0);
		ResetFlags(1);
		if (ring->is_area) {
			SetFlags(own, ring->element, ring->interior_left ? IN_LEFT : IN_RIGHT);
		}
	}

	//! The edges whose first contacts are among work.walk[begin, end). What lies around the first of them is found anew. (So both engines
	//! make the same of invalid rings, whatever the number of lanes.) True when nothing else matters.
	VIBE_HD_NOINLINE bool WalkSection(u32 begin, u32 end) {
		const u32 size = work.walk.Size();
		u32 next = begin;
		while (next > 0 && next < end && work.walk[next].edge == work.walk[next - 1].edge) {
			next++;
		}
		bool begun = false;
		while (next < end) {
			const u32 first = next;
			edge = work.walk[first].edge;
			while (next < size && work.walk[next].edge == edge) {
				next++;
			}
			if (!Spend(next - first)) {
				return true;
			}
			if (!begun || edge >= ring->end) {
				begun = true;
				BeginRing(shape[own]->vertex_ring[edge]);
				const bool is_first = first == 0 || work.walk[first - 1].edge < ring->begin;
				if (!ring->is_area && is_first && StartOfLine(first)) {
					return true;
				}
			}
			if (WalkEdge(first, next)) {
				return true;
			}
			const bool is_last = next == size || work.walk[next].edge >= ring->end;
			line_overlaps = is_last ? 0 : line_overlaps;
			if (!ring->is_area && is_last && (edge + 2 < ring->end || LastEndIsFree(first, next)) &&
			    FreeEnd(ring->end - 1)) {
				return true;
			}
		}
		return false;
	}

	VIBE_HD bool HasContact(const ShapeRing &r) const {
		u32 lo = 0, hi = work.walk.Size();
		while (lo < hi) {
			const u32 mid = lo + (hi - lo) / 2;
			if (work.walk[mid].edge < r.begin) {
				lo = mid + 1;
			} else {
				hi = mid;
			}
		}
		return lo < work.walk.Size() && work.walk[lo].edge < r.end;
	}

	//! A ring without contacts
	VIBE_HD_NOINLINE void WalkFree(u32 r) {
		if (!Spend(1)) {
			return;
		}
		BeginRing(r);
		LocateUnknown(shape[own]->Vertex(ring->begin));
		if (!Piece() && !ring->is_area && !FreeEnd(ring->begin)) {
			FreeEnd(ring->end - 1);
		}
	}

	//! One edge of a shape of a single ring, when the other has been walked: nowhere do the two interiors meet beside the
	//! other's edges. Then the ring cannot pass into the other's interior: the sector between the ring, just inside, and the
	//! first of the other's edges would be such a place. One piece tells whether all of it is inside.
	VIBE_HD_NOINLINE bool WalkOnePiece(int number) {
		using namespace relate_detail;
		own = number;
		ring = &shape[number]->rings[0];
		line_overlaps = 0;
		ResetFlags(0);
		ResetFlags(1);
		SetFlags(own, ring->element, ring->interior_left ? IN_LEFT : IN_RIGHT);
		edge = FirstContact(number);
		work.walk.Restart(lane);
		for (u32 i = lane.number; i < work.contacts.Size(); i += lane.count) {
			EdgeContact c = ContactOf(number, i);
			if (c.edge == edge) {
				work.walk.Push(c);
			}
		}
		work.walk.Settle(lane);
		if (lane.number == 0) {
			Sort(work.walk, 0, work.walk.Size(), ByEdge());
			WalkEdge(0, work.walk.Size());
		}
		return Agree();
	}

	//! The edge of a shape at the first contact, in the order of the first shape's edges and then of the second's
	VIBE_HD u32 FirstContact(int number) const {
		if (in_order) {
			return number == 0 ? work.contacts[0].edge : work.contacts[0].other;
		}
		double first[2] = {Infinity(), Infinity()};
		for (int k = 0; k < 2; k++) {
			for (u32 i = lane.number; i < work.contacts.Size(); i += lane.count) {
				const EdgeContact &c = work.contacts[i];
				if (k == 0 || c.edge == first[0]) {
					first[k] = Min(first[k], (double)(k == 0 ? c.edge : c.other));
				}
			}
			first[k] = lane.Least(first[k]);
		}
		return (u32)first[number];
	}

	//! The start of a line, where no contact is
	VIBE_HD bool StartOfLine(u32 first) {
		Vec2 start = shape[own]->Vertex(ring->begin);
		u32 first_edge = work.walk[first].edge;
		if (first_edge == ring->begin) {
			for (u32 i = first; i < work.walk.Size() && work.walk[i].edge == first_edge; i++) {
				if (ContactAt(i, start)) {
					return false;
				}
			}
		}
		LocateUnknown(start);
		return FreeEnd(ring->begin);
	}

	VIBE_HD bool LastEndIsFree(u32 first, u32 next) const {
		Vec2 last = shape[own]->Vertex(ring->end - 1);
		for (u32 i = next; i > first && work.walk[i - 1].edge + 2 == ring->end; i--) {
			if (ContactAt(i - 1, last)) {
				return false;
			}
		}
		return true;
	}

	VIBE_HD bool ContactAt(u32 index, const Vec2 &v) const {
		const SegmentContact &c = work.walk[index].contact;
		return c.kind != CONTACT_CROSS && (c.first == v || (c.kind == CONTACT_OVERLAP && c.second == v));
	}

	//! A line's end without a contact: it lies in what the piece at it lies in
	VIBE_HD_NOINLINE bool FreeEnd(u32 vertex) {
		Vec2 v = shape[own]->Vertex(vertex);
		work.node.Clear();
		Found(NodeLocation(own, v), NodeLocation(1 - own, v), 0);
		return target.Decided(matrix);
	}

	//! The points of a shape
	VIBE_HD_NOINLINE bool Points(int number) {
		own = number;
		const ShapeView &s = *shape[number];
		for (u32 base = 0; base < s.point_count; base += lane.count) {
			const u32 i = base + lane.number;
			if (i < s.point_count && Spend(LOCATE_STEPS)) {
				Vec2 v = s.points[i];
				Location here = s.mixed ? Locate(s, v) : LOC_INTERIOR;
				Found(here, Locate(*shape[1 - number], v), 0);
			}
			if (Agree()) {
				return true;
			}
		}
		return false;
	}
};

namespace relate_detail {

//! What the boxes and dimensions alone can rule out
VIBE_HD bool BoxesRefute(Predicate predicate, const ShapeView &a, const ShapeView &b) {
	switch (predicate) {
	case PREDICATE_CONTAINS:
	case PREDICATE_COVERS:
	case PREDICATE_CONTAINS_PROPERLY:
		return !a.box.Covers(b.box) || a.dimension < b.dimension;
	case PREDICATE_WITHIN:
	case PREDICATE_COVERED_BY:
	case PREDICATE_WITHIN_PROPERLY:
		return !b.box.Covers(a.box) || b.dimension < a.dimension;
	case PREDICATE_EQUALS:
		return !a.box.Covers(b.box) || !b.box.Covers(a.box) || a.dimension != b.dimension;
	case PREDICATE_OVERLAPS:
		return a.dimension != b.dimension;
	case PREDICATE_CROSSES:
		return a.dimension == b.dimension && a.dimension != 1;
	case PREDICATE_TOUCHES:
		return a.dimension == 0 && b.dimension == 0;
	default:
		return false;
	}
}

} // namespace relate_detail

//! Whether boxes and dimensions decide a predicate, and its answer
VIBE_HD bool BoxesDecide(Predicate predicate, const ShapeView &a, const ShapeView &b, bool &answer) {
	if (a.dimension < 0 || b.dimension < 0) {
		answer = Holds(predicate, 0, a.dimension, b.dimension);
		return true;
	}
	if (!a.box.Intersects(b.box)) {
		answer = predicate == PREDICATE_DISJOINT;
		return true;
	}
	answer = false;
	return relate_detail::BoxesRefute(predicate, a, b);
}

} // namespace vibe
