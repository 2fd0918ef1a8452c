//===----------------------------------------------------------------------===//
// engine/input/condition.hpp
//
// The spatial condition of a join, as both engines read it
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/input/row.hpp"
#include "vibe/relate.h"

#include <cstdint>
#include <vector>

namespace vibespatial {

//! One term of a condition, read as term(probe, build)
struct JoinTerm {
	enum Kind : uint8_t {
		RELATE,   // a named predicate
		DISTANCE, // at most a limit apart
		BOXES     // the boxes meet
	};
	Kind kind;
	vibe::Predicate predicate;
	//! DISTANCE: an EMPTY geometry is at distance 0 of everything (ST_Distance), instead of near nothing (ST_DWithin)
	bool empty_is_near;
};

//! Where a limit comes from; SUM: each side has its part of it
enum class JoinLimit : uint8_t { NONE, CONSTANT, PROBE, BUILD, SUM };

//! A pair meets the condition when it meets one of the terms. At most one of them is a DISTANCE.
struct JoinCondition {
	std::vector<JoinTerm> any_of;
	JoinLimit limit_from = JoinLimit::NONE;
	double limit = 0;
	//! The limit is what ST_Distance is compared with, as SQL compares: NaN is above all numbers, and `strict` tells < from <=
	bool compared = false;
	bool strict = false;

	//! The limit of a row whose limit is NULL
	static constexpr double NO_LIMIT = -__builtin_huge_val();
	//! At most this far; negative is never
	double Effective(double value) const;
	//! An EMPTY geometry can be near all others
	bool EmptyIsNear() const;
	//! All that a row can match meets this box; EMPTY for rows that are EMPTY or NULL. `part`: what the row itself, or the
	//! constant, brings to the limit
	vibe::Box Reach(const JoinRow &row, double part) const;
};

} // namespace vibespatial
