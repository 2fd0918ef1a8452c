#include "engine/cpu/relate.hpp"

#include "engine/cpu/intersects.hpp"

namespace vibespatial {

using vibe::Matrix;
using vibe::Predicate;

static Matrix Run(const vibe::ShapeView &a, const vibe::ShapeView &b, const vibe::Target &target,
                  RelateScratch &scratch) {
	return vibe::Relater<GrowingArray>(a, b, target, scratch).Run();
}

Matrix Relate(const vibe::ShapeView &a, const vibe::ShapeView &b, RelateScratch &scratch) {
	return Run(a, b, vibe::Target {0, 0, 0}, scratch);
}

//! What the boxes and dimensions alone can rule out
static bool BoxesRefute(Predicate predicate, const vibe::ShapeView &a, const vibe::ShapeView &b) {
	switch (predicate) {
	case vibe::PREDICATE_CONTAINS:
	case vibe::PREDICATE_COVERS:
	case vibe::PREDICATE_CONTAINS_PROPERLY:
		return !a.box.Covers(b.box) || a.dimension < b.dimension;
	case vibe::PREDICATE_WITHIN:
	case vibe::PREDICATE_COVERED_BY:
	case vibe::PREDICATE_WITHIN_PROPERLY:
		return !b.box.Covers(a.box) || b.dimension < a.dimension;
	case vibe::PREDICATE_EQUALS:
		return !a.box.Covers(b.box) || !b.box.Covers(a.box) || a.dimension != b.dimension;
	case vibe::PREDICATE_OVERLAPS:
		return a.dimension != b.dimension;
	case vibe::PREDICATE_CROSSES:
		return a.dimension == b.dimension && a.dimension != 1;
	case vibe::PREDICATE_TOUCHES:
		return a.dimension == 0 && b.dimension == 0;
	default:
		return false;
	}
}

bool Evaluate(Predicate predicate, const vibe::ShapeView &a, const vibe::ShapeView &b, RelateScratch &scratch) {
	if (a.dimension < 0 || b.dimension < 0) {
		return vibe::Holds(predicate, 0, a.dimension, b.dimension);
	}
	if (!a.box.Intersects(b.box)) {
		return predicate == vibe::PREDICATE_DISJOINT;
	}
	if (BoxesRefute(predicate, a, b)) {
		return false;
	}
	if ((predicate == vibe::PREDICATE_INTERSECTS || predicate == vibe::PREDICATE_DISJOINT) && IsLinesOrArea(a) &&
	    IsLinesOrArea(b)) {
		return Intersect(a, b) == (predicate == vibe::PREDICATE_INTERSECTS);
	}
	Matrix matrix = Run(a, b, vibe::TargetOf(predicate, a.dimension, b.dimension), scratch);
	return vibe::Holds(predicate, matrix, a.dimension, b.dimension);
}

vibe::Location Locate(const vibe::ShapeView &shape, const vibe::Vec2 &point, RelateScratch &scratch) {
	return vibe::Relater<GrowingArray>(shape, shape, vibe::Target {0, 0, 0}, scratch).Locate(shape, point);
}

PointInArea::PointInArea(Predicate predicate, bool point_is_left) {
	using namespace vibe;
	for (auto location : {LOC_INTERIOR, LOC_BOUNDARY, LOC_EXTERIOR}) {
		Matrix matrix =
		    Cell(LOC_INTERIOR, location, 0) | Cell(LOC_EXTERIOR, LOC_INTERIOR, 2) | Cell(LOC_EXTERIOR, LOC_BOUNDARY, 1);
		answer[location] = point_is_left ? Holds(predicate, matrix, 0, 2) : Holds(predicate, Transpose(matrix), 2, 0);
	}
}

std::string MatrixToString(Matrix matrix) {
	std::string text(9, 'F');
	for (int i = 0; i < 9; i++) {
		int dimension = vibe::CellDimension(matrix, i / 3, i % 3);
		if (dimension >= 0) {
			text[static_cast<size_t>(i)] = static_cast<char>('0' + dimension);
		}
	}
	return text;
}

} // namespace vibespatial
