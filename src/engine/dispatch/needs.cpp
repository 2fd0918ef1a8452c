#include "engine/dispatch/needs.hpp"

#include "engine/dispatch/operation.hpp"
#include "engine/gpu/runtime/runtime.hpp"

#include <algorithm>

namespace vibespatial {

void AddNames(KernelNames &names, const KernelNames &more) {
	for (auto &name : more) {
		if (std::find(names.begin(), names.end(), name) == names.end()) {
			names.push_back(name);
		}
	}
}

//! What RefinePairs() launches for a term; `measures`: the distances themselves are asked for
static KernelNames RefineNeeds(const JoinTerm &term, const SideKinds &left, const SideKinds &right, bool measures) {
	KernelNames names;
	const bool both_points = left.points && right.points, a_side_of_points = left.points || right.points;
	const bool both_shapes = left.shapes && right.shapes, a_side_of_shapes = left.shapes || right.shapes;
	switch (term.kind) {
	case JoinTerm::BOXES:
		names.emplace_back("spatial_query");
		break;
	case JoinTerm::DISTANCE:
		if (both_points && !measures) {
			names.emplace_back("point_distance");
		}
		if (a_side_of_shapes || measures) {
			names.emplace_back("segment_distance");
		}
		break;
	case JoinTerm::RELATE:
		if (a_side_of_points) {
			names.emplace_back("point_binary_relations");
		}
		if (!both_shapes) {
			break;
		}
		names.emplace_back("polygon_predicates");
		if (left.multipoints || right.multipoints) {
			names.emplace_back("multipoint_binary_relations");
		}
		if (term.predicate == vibe::PREDICATE_INTERSECTS && (left.large || right.large)) {
			names.emplace_back("segment_distance");
		}
		break;
	}
	return names;
}

//! Whether a build side may have cells for the condition: JoinIndex builds them for predicates, or for one distance
static bool MayUseCells(const JoinCondition &condition) {
	const auto &terms = condition.any_of;
	return (terms.size() == 1 && terms[0].kind == JoinTerm::DISTANCE && condition.limit_from == JoinLimit::CONSTANT) ||
	       std::all_of(terms.begin(), terms.end(), [](const JoinTerm &term) { return term.kind == JoinTerm::RELATE; });
}

KernelNames CellNeeds(const JoinCondition &condition) {
	// Cells have a reach where there is a distance, which is then the only term
	const bool near = condition.any_of.size() == 1 && condition.any_of[0].kind == JoinTerm::DISTANCE;
	if (near) {
		return {"point_near_cells"};
	}
	auto *engine = GpuRuntime::Get().IfOpen();
	return {engine && engine->UsesRoughEdges() ? "point_in_polygon_rough" : "point_in_polygon"};
}

KernelNames BuildNeeds(const SideKinds &build, bool packs_tree) {
	KernelNames names;
	if (packs_tree) {
		names = KernelNeeds(KernelSet::BOX_INDEX);
	}
	if (build.shapes) {
		AddNames(names, {"wkb_codec"});
	}
	return names;
}

KernelNames TileNeeds(const JoinCondition &condition, const SideKinds &probe, const SideKinds &build) {
	KernelNames names {"spatial_query"};
	if (probe.shapes) {
		AddNames(names, {"wkb_codec"});
	}
	for (auto &term : condition.any_of) {
		AddNames(names, RefineNeeds(term, probe, build, false));
	}
	return names;
}

KernelNames JoinNeeds(const JoinCondition &condition, const SideKinds &probe, const SideKinds &build) {
	KernelNames names;
	if (probe.points && build.shapes && MayUseCells(condition)) {
		names = CellNeeds(condition);
	}
	AddNames(names, BuildNeeds(build, true));
	AddNames(names, TileNeeds(condition, probe, build));
	return names;
}

KernelNames FilterNeeds() {
	return {"pinned_rows"};
}

KernelNames NeighbourNeeds(const SideKinds &left, const SideKinds &right) {
	KernelNames names;
	// Tiles of points, and tiles with other geometries
	if (left.points && right.points) {
		names.emplace_back("point_distance");
	}
	if (left.shapes || right.shapes) {
		AddNames(names, {"shape_neighbours", "wkb_codec"});
	}
	return names;
}

KernelNames PinnedNeighbourNeeds(const SideKinds &left) {
	KernelNames names {"pinned_neighbours", "indexing"};
	if (left.shapes) {
		names.emplace_back("wkb_codec");
	}
	return names;
}

KernelNames ScalarNeeds(const ScalarTask &task, const SideKinds &left, const SideKinds &right) {
	switch (task.kind) {
	case ScalarTask::AREA:
	case ScalarTask::LENGTH:
	case ScalarTask::PERIMETER:
	case ScalarTask::CENTROID:
		return {"wkb_codec", "measures", "exclusive_scan_i32"};
	case ScalarTask::FLIP:
		return {"wkb_codec", "exclusive_scan_i32", "exclusive_scan_i64"};
	case ScalarTask::OVERLAY:
	case ScalarTask::OVERLAY_AREA:
		return KernelNeeds(KernelSet::UNION_AGG);
	case ScalarTask::HULL:
	case ScalarTask::SIMPLIFY:
		return {"wkb_codec", "constructive", "exclusive_scan_i32", "exclusive_scan_i64"};
	default:
		break;
	}
	KernelNames names;
	if (left.shapes || right.shapes) {
		names.emplace_back("wkb_codec");
	}
	if (task.kind == ScalarTask::HAUSDORFF) {
		AddNames(names, {"segment_distance"});
		return names;
	}
	const auto kind = task.kind == ScalarTask::RELATE ? JoinTerm::RELATE : JoinTerm::DISTANCE;
	AddNames(names, RefineNeeds(JoinTerm {kind, task.predicate, false}, left, right, task.GivesNumbers()));
	return names;
}

} // namespace vibespatial
