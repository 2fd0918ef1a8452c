#include "engine/relate/relate.hpp"

#include "engine/relate/intersects.hpp"

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

bool Evaluate(Predicate predicate, const vibe::ShapeView &a, const vibe::ShapeView &b, RelateScratch &scratch) {
	bool answer;
	if (vibe::BoxesDecide(predicate, a, b, answer)) {
		return answer;
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
