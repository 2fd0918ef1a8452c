#include "engine/input/condition.hpp"

#include "engine/shape/part_boxes.hpp"
#include "vibe/distance.h"

#include <cstring>

namespace vibespatial {

using vibe::Box;
using vibe::Vec2;

PointBytes WritePoint(const Vec2 &point) {
	PointBytes bytes {1, 1, 0, 0, 0};
	std::memcpy(bytes.data() + 5, &point.x, sizeof(double));
	std::memcpy(bytes.data() + 13, &point.y, sizeof(double));
	return bytes;
}

double JoinCondition::Effective(double value) const {
	return vibe::EffectiveLimit(value, compared, strict);
}

bool JoinCondition::EmptyIsNear() const {
	for (auto &term : any_of) {
		if (term.kind == JoinTerm::DISTANCE && term.empty_is_near) {
			return true;
		}
	}
	return false;
}

Box JoinCondition::Reach(const JoinRow &row, double part) const {
	Box box = Box::Empty();
	if (!row.data) {
		return box;
	}
	Vec2 point;
	if (TryReadPoint(row.data, row.size, point)) {
		box.Add(point.x, point.y);
	} else {
		PartBoxes reader;
		reader.parts = nullptr;
		VisitWkb(row.data, row.size, reader);
		box = reader.whole;
	}
	double limit = Effective(part);
	return !box.IsEmpty() && limit > 0 ? Grow(box, limit) : box;
}

} // namespace vibespatial
