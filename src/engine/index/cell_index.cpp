#include "engine/index/cell_index.hpp"

#include <algorithm>
#include <cmath>

namespace vibespatial {

using vibe::MovedSide;
using vibe::PassesBelow;
using vibe::Vec2;
using Edge = vibe::CellEdge;

CellIndex::~CellIndex() = default;

size_t CellIndex::MemoryUsage() const {
	return (size_t(top.last_column) + 1) * (size_t(top.last_row) + 1) * sizeof(uint32_t) + vertex_count * sizeof(Vec2) +
	       pool_units * sizeof(Unit) + chunks.capacity() * sizeof(Unit *);
}

CellIndex::Pieces CellIndex::GetPieces() const {
	static_assert(CHUNK_BYTES == CHUNK_UNITS * sizeof(Unit), "chunks of the pool have no gaps between them");
	Pieces pieces {};
	pieces.view.box = box;
	pieces.view.top = top;
	pieces.view.reach = reach;
	pieces.top_words = top_words.get();
	pieces.top_word_count = (size_t(top.last_column) + 1) * (size_t(top.last_row) + 1);
	pieces.chunks.assign(chunks.begin(), chunks.end());
	pieces.vertices = vertices.get();
	pieces.vertex_count = vertex_count;
	return pieces;
}

vibe::CellReach CellIndex::ReachOf(double limit, const vibe::Box &box) {
	using vibe::CellReach;
	const double largest = std::max(std::max(std::fabs(box.min_x), std::fabs(box.max_x)),
	                                std::max(std::fabs(box.min_y), std::fabs(box.max_y)));
	const bool is_served = limit == 0 || (limit >= CellReach::SMALLEST && limit >= largest * CellReach::SMALLEST_SHARE);
	if (box.IsEmpty() || !is_served || !(limit <= CellReach::LARGEST && largest <= CellReach::LARGEST)) {
		return CellReach::None();
	}
	double square = limit * limit;
	while (std::sqrt(square) > limit) {
		square = std::nextafter(square, 0);
	}
	for (double next; std::sqrt(next = std::nextafter(square, HUGE_VAL)) <= limit;) {
		square = next;
	}
	// The distances that are computed are off by less than 1e-12 of them
	return CellReach {limit, square, limit * (1 + 1e-9), limit * (1 - 1e-9)};
}

namespace {

typedef double Pair __attribute__((vector_size(16)));
typedef int64_t PairMask __attribute__((vector_size(16)));

//! Comparisons of up to 64 vertices with a point and with the reference point, a bit for each vertex
struct Compared {
	uint64_t left, right;         // of p
	uint64_t below, above;        // p
	uint64_t beyond, beyond_line; // greater than the x of the reference point, than its y

	Compared(const Vec2 *vertices, uint32_t count, const Vec2 &p, const Vec2 &reference) {
		const Pair at_p {p.x, p.y}, at_reference {reference.x, reference.y};
		PairMask less {0, 0}, more {0, 0}, more_than_reference {0, 0}, bit {1, 1};
		for (uint32_t i = 0; i < count; i++) {
			const Pair vertex {vertices[i].x, vertices[i].y};
			less |= (vertex < at_p) & bit;
			more |= (vertex > at_p) & bit;
			more_than_reference |= (vertex > at_reference) & bit;
			bit += bit;
		}
		left = static_cast<uint64_t>(less[0]);
		below = static_cast<uint64_t>(less[1]);
		right = static_cast<uint64_t>(more[0]);
		above = static_cast<uint64_t>(more[1]);
		beyond = static_cast<uint64_t>(more_than_reference[0]);
		beyond_line = static_cast<uint64_t>(more_than_reference[1]);
	}
};

//! A bit for each vertex that differs from the next one
uint64_t Changes(uint64_t bits) {
	return bits ^ bits >> 1;
}

} // namespace

vibe::Location CellIndex::LocateAmong(const Partial *&partial, const Vec2 &reference, const Vec2 &p,
                                      const Extent &path) const {
	bool inside = partial->inside, on = false, more;
	do {
		if (!partial->extent.Meets(path)) {
			more = partial->more;
			partial++;
			continue;
		}
		const uint64_t edges = (uint64_t(1) << partial->edges) - 1;
		const Vec2 *const at = &vertices[partial->begin];
		more = partial->more;
		const Compared is(at, partial->edges + 1u, p, reference);
		partial++;

		const uint64_t across = Changes(is.above) & edges; // edges that cross y = p.y, the first part of the path
		const uint64_t along = Changes(is.beyond) & edges; // and x = reference.x, its second part
		const uint64_t level = ~(is.above | is.below) & (edges | edges << 1);
		if (level != 0) {
			// p may be a vertex or lie on a horizontal edge
			on = on || (level & ~(is.left | is.right)) != 0 || (level & level >> 1 & Changes(is.right) & edges) != 0;
		}
		// Most edges lie entirely on one side of p and of the reference line
		const uint64_t passes_left = is.left & is.left >> 1;
		const uint64_t beside_p = passes_left | (is.right & is.right >> 1);
		const uint64_t beside_line = ~Changes(is.beyond_line);
		uint64_t crossed = across & ~along & beside_p & ~(passes_left ^ is.beyond);
		crossed |= along & ~across & beside_line & (is.beyond_line ^ is.above);
		crossed |=
		    across & along & beside_p & beside_line & (passes_left ^ is.above >> 1 ^ is.beyond_line ^ is.beyond >> 1);
		inside ^= __builtin_parityll(crossed);

		uint64_t open = (across & ~beside_p) | (along & ~beside_line);
		for (; open != 0; open &= open - 1) {
			const int i = __builtin_ctzll(open);
			const Edge edge {at[i], at[i + 1]};
			const bool is_across = across >> i & 1, is_along = along >> i & 1;
			int side = 0;
			if (is_across) {
				side = vibe::Orient2d(edge.a, edge.b, p);
				on = on || side == 0;
			}
			if (is_across && is_along) {
				inside ^= side != MovedSide(edge, reference);
			} else if (is_across) {
				const bool left = (side > 0) != (edge.b.y > p.y);
				inside ^= left == (edge.a.x > reference.x);
			} else {
				inside ^= PassesBelow(edge, reference) == (edge.a.y > p.y);
			}
		}
	} while (more);
	return on ? vibe::LOC_BOUNDARY : inside ? vibe::LOC_INTERIOR : vibe::LOC_EXTERIOR;
}

bool CellIndex::IsNearAmong(const Partial *partial, const Partial *end, const Vec2 &p, const Extent &around) const {
	const vibe::Box box = reach.Around(p);
	const Pair low {box.min_x, box.min_y}, high {box.max_x, box.max_y};
	for (; partial < end; partial++) {
		if (!partial->extent.Meets(around)) {
			continue;
		}
		const Vec2 *const at = &vertices[partial->begin];
		PairMask less {0, 0}, more {0, 0}, bit {1, 1};
		for (uint32_t i = 0; i <= partial->edges; i++) {
			const Pair vertex {at[i].x, at[i].y};
			less |= (vertex < low) & bit;
			more |= (vertex > high) & bit;
			bit += bit;
		}
		// Edges that lie on one side of the box
		const PairMask far = (less & less >> 1) | (more & more >> 1);
		uint64_t open = ~static_cast<uint64_t>(far[0] | far[1]) & ((uint64_t(1) << partial->edges) - 1);
		for (; open != 0; open &= open - 1) {
			const int i = __builtin_ctzll(open);
			if (reach.Has(p, at[i], at[i + 1])) {
				return true;
			}
		}
	}
	return false;
}

vibe::Location CellIndex::FindAmong(const Partial *&partial, const Vec2 &reference, const Vec2 &p, const Extent &path,
                                    const Extent &around) const {
	const Partial *const first = partial;
	if (partial->is_line) {
		while (partial->more) {
			partial++;
		}
		partial++;
	} else if (LocateAmong(partial, reference, p, path) != vibe::LOC_EXTERIOR) {
		return vibe::LOC_INTERIOR;
	}
	return IsNearAmong(first, partial, p, around) ? vibe::LOC_INTERIOR : vibe::LOC_EXTERIOR;
}

} // namespace vibespatial
