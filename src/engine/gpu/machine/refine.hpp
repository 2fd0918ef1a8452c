//===----------------------------------------------------------------------===//
// engine/gpu/machine/refine.hpp
//
// Decides pairs of geometries on a machine: those of a join's candidates, and those of a function of two geometries
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/machine/machine.hpp"
#include "engine/input/condition.hpp"
#include "vibe/pairs.h"

namespace vibespatial {

//! The geometries that pairs are of
struct PairSides {
	vibe::SideView left {};
	vibe::SideView right {};
	//! Some shapes are points, or large
	bool has_points = false;
	bool has_large = false;
};

//! Starts to decide one term for all pairs: merges true, false or open into their results. With `distances`, which are for a
//! DISTANCE alone, it writes the distances instead.
void RefinePairs(Machine &machine, const PairSides &sides, const JoinTerm &term, const vibe::LimitView &limits,
                 const vibe::PairList &pairs, double *distances = nullptr);

//! Starts to compute the Hausdorff distances of all pairs
void MeasureHausdorff(Machine &machine, const PairSides &sides, const vibe::PairList &pairs, double *distances);

} // namespace vibespatial
