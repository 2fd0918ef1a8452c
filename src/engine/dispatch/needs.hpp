//===----------------------------------------------------------------------===//
// engine/dispatch/needs.hpp
//
// Which kernels a piece of work launches, by what is known of it: its predicates and distances, and the kinds of geometries on both
// sides. A plan asks for what it may need, and work waits for what it launches. engine/gpu/machine has the launches themselves.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/scalar.hpp"
#include "engine/input/condition.hpp"

#include <string>
#include <vector>

namespace vibespatial {

//! Units and specs
typedef std::vector<std::string> KernelNames;

//! What one side may have; all of it where nothing is known
struct SideKinds {
	//! Nothing but POINTs, which travel as coordinates
	bool points = true;
	//! Rows that travel as WKB, and whether there may be (MULTI)POINTs and large ones among them
	bool shapes = true;
	bool multipoints = true;
	bool large = true;

	bool AreKnown() const {
		return points != shapes;
	}
	static SideKinds Points() {
		return SideKinds {true, false, false, false};
	}
	static SideKinds Shapes(bool multipoints, bool large) {
		return SideKinds {false, true, multipoints, large};
	}
};

//! A tile of points that are looked up in the cells of a build side
KernelNames CellNeeds(const JoinCondition &condition);
//! The rows of a build side, and their tree where the device packs it
KernelNames BuildNeeds(const SideKinds &build, bool packs_tree);
//! A tile that asks the tree
KernelNames TileNeeds(const JoinCondition &condition, const SideKinds &probe, const SideKinds &build);
//! All that a join may need, what it needs first in front
KernelNames JoinNeeds(const JoinCondition &condition, const SideKinds &probe, const SideKinds &build);
//! A filter of pinned rows
KernelNames FilterNeeds();
//! A search for neighbours: the right side, and tiles of the left one
KernelNames NeighbourNeeds(const SideKinds &left, const SideKinds &right);
//! The same among pinned points
KernelNames PinnedNeighbourNeeds(const SideKinds &left);
//! A function, row by row; one of one geometry has no right side
KernelNames ScalarNeeds(const ScalarTask &task, const SideKinds &left, const SideKinds &right);

//! Adds those that are not there yet
void AddNames(KernelNames &names, const KernelNames &more);

} // namespace vibespatial
