//===----------------------------------------------------------------------===//
// vibe/matrix.h
//
// The DE-9IM matrix as 27 bits, and the named predicates over it. A cell's dimension F, 0, 1, 2 is written 000, 001,
// 011, 111, so that a cell grows by OR: findings can be collected in any order, by any number of threads.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

enum Location : u8 { LOC_INTERIOR = 0, LOC_BOUNDARY = 1, LOC_EXTERIOR = 2 };

using Matrix = u32;

VIBE_HD constexpr int CellShift(int a, int b) {
	return 3 * (3 * a + b);
}

//! "The cell (a, b) has at least dimension `dimension`"
VIBE_HD constexpr Matrix Cell(int a, int b, int dimension) {
	return ((2u << dimension) - 1u) << CellShift(a, b);
}

//! Dimension of a cell, -1 for F
VIBE_HD int CellDimension(Matrix m, int a, int b) {
	u32 bits = (m >> CellShift(a, b)) & 7u;
	return bits == 0 ? -1 : bits == 1 ? 0 : bits == 3 ? 1 : 2;
}

VIBE_HD Matrix Transpose(Matrix m) {
	Matrix t = 0;
	for (int a = 0; a < 3; a++) {
		for (int b = 0; b < 3; b++) {
			t |= ((m >> CellShift(a, b)) & 7u) << CellShift(b, a);
		}
	}
	return t;
}

enum Predicate : u8 {
	PREDICATE_RELATE = 0, // the whole matrix
	PREDICATE_INTERSECTS,
	PREDICATE_DISJOINT,
	PREDICATE_CONTAINS,
	PREDICATE_WITHIN,
	PREDICATE_COVERS,
	PREDICATE_COVERED_BY,
	PREDICATE_CONTAINS_PROPERLY,
	PREDICATE_WITHIN_PROPERLY,
	PREDICATE_TOUCHES,
	PREDICATE_CROSSES,
	PREDICATE_OVERLAPS,
	PREDICATE_EQUALS
};

namespace matrix_detail {
constexpr Matrix II = Cell(0, 0, 0), IB = Cell(0, 1, 0), IE = Cell(0, 2, 0);
constexpr Matrix BI = Cell(1, 0, 0), BB = Cell(1, 1, 0), BE = Cell(1, 2, 0);
constexpr Matrix EI = Cell(2, 0, 0), EB = Cell(2, 1, 0);
constexpr Matrix II_LINE = Cell(0, 0, 1);
} // namespace matrix_detail

//! When the search may stop: findings only ever add to the matrix
struct Target {
	//! Any of these: the predicate is decided (false, or for `true_any` true)
	Matrix false_any;
	Matrix true_any;
	//! All of these: true (0 = never)
	Matrix true_all;

	VIBE_HD bool Decided(Matrix m) const {
		return (m & (false_any | true_any)) != 0 || (true_all != 0 && (m & true_all) == true_all);
	}
	//! The same with the geometries exchanged
	VIBE_HD Target Exchanged() const {
		return Target {Transpose(false_any), Transpose(true_any), Transpose(true_all)};
	}
	//! Where the interiors have no point in common, nothing else of the matrix is asked for
	VIBE_HD bool NeedsInteriors() const {
		return true_any == 0 &&
		       ((true_all & matrix_detail::II) != 0 || (false_any == matrix_detail::II && true_all == 0));
	}
};

VIBE_HD Target TargetOf(Predicate predicate, int dim_a, int dim_b) {
	using namespace matrix_detail;
	switch (predicate) {
	case PREDICATE_INTERSECTS:
	case PREDICATE_DISJOINT:
		return Target {0, II | IB | BI | BB, 0};
	case PREDICATE_CONTAINS:
	case PREDICATE_COVERS:
		return Target {EI | EB, 0, 0};
	case PREDICATE_WITHIN:
	case PREDICATE_COVERED_BY:
		return Target {IE | BE, 0, 0};
	case PREDICATE_CONTAINS_PROPERLY:
		return Target {EI | EB | BI | BB, 0, 0};
	case PREDICATE_WITHIN_PROPERLY:
		return Target {IE | BE | IB | BB, 0, 0};
	case PREDICATE_TOUCHES:
		return Target {II, 0, 0};
	case PREDICATE_CROSSES:
		if (dim_a < dim_b) {
			return Target {0, 0, II | IE};
		}
		if (dim_a > dim_b) {
			return Target {0, 0, II | EI};
		}
		return Target {II_LINE & ~II, 0, 0};
	case PREDICATE_OVERLAPS:
		return Target {0, 0, (dim_a == 1 ? II_LINE : II) | IE | EI};
	case PREDICATE_EQUALS:
		return Target {IE | BE | EI | EB, 0, 0};
	default:
		return Target {0, 0, 0};
	}
}

//! The predicate, from a matrix that is whole or on which its target is decided
VIBE_HD bool Holds(Predicate predicate, Matrix m, int dim_a, int dim_b) {
	using namespace matrix_detail;
	switch (predicate) {
	case PREDICATE_INTERSECTS:
		return (m & (II | IB | BI | BB)) != 0;
	case PREDICATE_DISJOINT:
		return (m & (II | IB | BI | BB)) == 0;
	case PREDICATE_CONTAINS:
		return (m & II) != 0 && (m & (EI | EB)) == 0;
	case PREDICATE_WITHIN:
		return (m & II) != 0 && (m & (IE | BE)) == 0;
	case PREDICATE_COVERS:
		return (m & (II | IB | BI | BB)) != 0 && (m & (EI | EB)) == 0;
	case PREDICATE_COVERED_BY:
		return (m & (II | IB | BI | BB)) != 0 && (m & (IE | BE)) == 0;
	case PREDICATE_CONTAINS_PROPERLY:
		return (m & II) != 0 && (m & (EI | EB | BI | BB)) == 0;
	case PREDICATE_WITHIN_PROPERLY:
		return (m & II) != 0 && (m & (IE | BE | IB | BB)) == 0;
	case PREDICATE_TOUCHES:
		return (m & II) == 0 && (m & (IB | BI | BB)) != 0;
	case PREDICATE_CROSSES:
		if (dim_a < dim_b) {
			return (m & II) != 0 && (m & IE) != 0;
		}
		if (dim_a > dim_b) {
			return (m & II) != 0 && (m & EI) != 0;
		}
		return dim_a == 1 && CellDimension(m, 0, 0) == 0;
	case PREDICATE_OVERLAPS:
		if (dim_a != dim_b || (m & IE) == 0 || (m & EI) == 0) {
			return false;
		}
		return dim_a == 1 ? CellDimension(m, 0, 0) == 1 : (m & II) != 0;
	case PREDICATE_EQUALS:
		return (m & (IE | BE | EI | EB)) == 0 && ((m & II) != 0 || (dim_a < 0 && dim_b < 0));
	default:
		return false;
	}
}

//! Does the matrix match a pattern of nine characters out of T F * 0 1 2? (checked by the caller)
VIBE_HD bool MatchesPattern(Matrix m, const char *pattern) {
	for (int i = 0; i < 9; i++) {
		int dimension = CellDimension(m, i / 3, i % 3);
		switch (pattern[i]) {
		case '*':
			break;
		case 'T':
		case 't':
			if (dimension < 0) {
				return false;
			}
			break;
		case 'F':
		case 'f':
			if (dimension >= 0) {
				return false;
			}
			break;
		default:
			if (dimension != pattern[i] - '0') {
				return false;
			}
		}
	}
	return true;
}

} // namespace vibe
