// Which kernels work needs: no more than it may launch. That it is no less, the engine of test/python/fake_engine.cpp checks at every
// launch.
#include "catch.hpp"

#include "engine/dispatch/needs.hpp"
#include "engine/dispatch/operation.hpp"

#include <algorithm>

using namespace vibespatial;

namespace {

JoinCondition Relate(vibe::Predicate predicate) {
	JoinCondition condition;
	condition.any_of = {JoinTerm {JoinTerm::RELATE, predicate, false}};
	return condition;
}

JoinCondition Within(JoinLimit from) {
	JoinCondition condition;
	condition.any_of = {JoinTerm {JoinTerm::DISTANCE, vibe::PREDICATE_INTERSECTS, false}};
	condition.limit_from = from;
	return condition;
}

bool IsPart(const KernelNames &some, const KernelNames &all) {
	return std::all_of(some.begin(), some.end(),
	                   [&](const std::string &name) { return std::count(all.begin(), all.end(), name) == 1; });
}

const SideKinds ANY, POINTS = SideKinds::Points(), SMALL = SideKinds::Shapes(false, false),
                     LARGE = SideKinds::Shapes(false, true), MULTIPOINTS = SideKinds::Shapes(true, false);

} // namespace

TEST_CASE("needs: a tile waits for what it launches", "[dispatch]") {
	const auto intersects = Relate(vibe::PREDICATE_INTERSECTS), touches = Relate(vibe::PREDICATE_TOUCHES);
	const auto near = Within(JoinLimit::CONSTANT);
	CHECK(CellNeeds(intersects) == KernelNames {"point_in_polygon"});
	CHECK(CellNeeds(near) == KernelNames {"point_near_cells"});
	CHECK(TileNeeds(intersects, POINTS, SMALL) == KernelNames {"spatial_query", "point_binary_relations"});
	CHECK(TileNeeds(intersects, SMALL, SMALL) == KernelNames {"spatial_query", "wkb_codec", "polygon_predicates"});
	CHECK(TileNeeds(intersects, SMALL, LARGE) ==
	      KernelNames {"spatial_query", "wkb_codec", "polygon_predicates", "segment_distance"});
	CHECK(TileNeeds(touches, SMALL, LARGE) == KernelNames {"spatial_query", "wkb_codec", "polygon_predicates"});
	CHECK(TileNeeds(touches, MULTIPOINTS, SMALL) ==
	      KernelNames {"spatial_query", "wkb_codec", "polygon_predicates", "multipoint_binary_relations"});
	CHECK(TileNeeds(near, POINTS, POINTS) == KernelNames {"spatial_query", "point_distance"});
	CHECK(TileNeeds(near, SMALL, POINTS) == KernelNames {"spatial_query", "wkb_codec", "segment_distance"});
	auto boxes = intersects;
	boxes.any_of[0].kind = JoinTerm::BOXES;
	CHECK(TileNeeds(boxes, POINTS, POINTS) == KernelNames {"spatial_query"});
	boxes.any_of.push_back(intersects.any_of[0]);
	CHECK(TileNeeds(boxes, POINTS, SMALL) == KernelNames {"spatial_query", "point_binary_relations"});
	CHECK(BuildNeeds(POINTS, false).empty());
	CHECK(BuildNeeds(SMALL, false) == KernelNames {"wkb_codec"});
	CHECK(BuildNeeds(POINTS, true) == KernelNeeds(KernelSet::BOX_INDEX));
}

TEST_CASE("needs: a join asks for what its tiles may need, cells first", "[dispatch]") {
	const auto all = KernelNeeds(KernelSet::SPATIAL_JOIN);
	for (auto &condition : {Relate(vibe::PREDICATE_INTERSECTS), Relate(vibe::PREDICATE_WITHIN),
	                        Within(JoinLimit::CONSTANT), Within(JoinLimit::PROBE)}) {
		for (auto &probe : {ANY, POINTS, SMALL, LARGE, MULTIPOINTS}) {
			for (auto &build : {ANY, POINTS, SMALL, LARGE, MULTIPOINTS}) {
				const auto some = JoinNeeds(condition, probe, build);
				CHECK(IsPart(some, all));
				CHECK(IsPart(TileNeeds(condition, probe, build), some));
				CHECK(IsPart(some, JoinNeeds(condition, ANY, ANY)));
			}
		}
	}
	const auto intersects = Relate(vibe::PREDICATE_INTERSECTS);
	CHECK(JoinNeeds(intersects, POINTS, LARGE)[0] == "point_in_polygon");
	CHECK(JoinNeeds(Within(JoinLimit::CONSTANT), POINTS, LARGE)[0] == "point_near_cells");
	// No cells where each row has a distance of its own, or the probe side no points
	for (auto &without : {JoinNeeds(Within(JoinLimit::PROBE), POINTS, LARGE), JoinNeeds(intersects, LARGE, LARGE),
	                      JoinNeeds(intersects, POINTS, POINTS)}) {
		CHECK_FALSE(IsPart({"point_in_polygon"}, without));
		CHECK_FALSE(IsPart({"point_near_cells"}, without));
	}
	CHECK_FALSE(IsPart({"polygon_predicates"}, JoinNeeds(intersects, POINTS, LARGE)));
}

TEST_CASE("needs: neighbours and functions by the kinds of their geometries", "[dispatch]") {
	CHECK(NeighbourNeeds(POINTS, POINTS) == KernelNeeds(KernelSet::KNN));
	CHECK(NeighbourNeeds(POINTS, SMALL) == KernelNames {"shape_neighbours", "wkb_codec"});
	CHECK(NeighbourNeeds(LARGE, POINTS) == KernelNames {"shape_neighbours", "wkb_codec"});
	// Tiles of points among points, and tiles of others
	CHECK(NeighbourNeeds(ANY, POINTS) == KernelNames {"point_distance", "shape_neighbours", "wkb_codec"});
	CHECK(PinnedNeighbourNeeds(POINTS) == KernelNames {"pinned_neighbours", "indexing"});
	CHECK(IsPart(PinnedNeighbourNeeds(ANY), KernelNeeds(KernelSet::KNN_PINNED)));
	CHECK(IsPart(KernelNeeds(KernelSet::KNN_PINNED), PinnedNeighbourNeeds(ANY)));
	CHECK(IsPart(NeighbourNeeds(ANY, ANY), KernelNeeds(KernelSet::KNN_SHAPES)));
	CHECK(IsPart(KernelNeeds(KernelSet::KNN_SHAPES), NeighbourNeeds(ANY, ANY)));

	const auto needs = [](ScalarTask::Kind kind, const SideKinds &left, const SideKinds &right) {
		ScalarTask task;
		task.kind = kind;
		return ScalarNeeds(task, left, right);
	};
	CHECK(needs(ScalarTask::RELATE, POINTS, SMALL) == KernelNames {"wkb_codec", "point_binary_relations"});
	CHECK(needs(ScalarTask::WITHIN, POINTS, POINTS) == KernelNames {"point_distance"});
	CHECK(needs(ScalarTask::DISTANCE, POINTS, POINTS) == KernelNames {"segment_distance"});
	CHECK(needs(ScalarTask::HAUSDORFF, SMALL, SMALL) == KernelNames {"wkb_codec", "segment_distance"});
	for (auto kind : {ScalarTask::RELATE, ScalarTask::WITHIN, ScalarTask::DISTANCE, ScalarTask::HAUSDORFF}) {
		CHECK(IsPart(needs(kind, ANY, ANY), KernelNeeds(KernelSet::SCALAR_PAIRS)));
	}
	for (auto kind : {ScalarTask::AREA, ScalarTask::LENGTH, ScalarTask::CENTROID, ScalarTask::FLIP, ScalarTask::HULL,
	                  ScalarTask::SIMPLIFY}) {
		CHECK(IsPart(needs(kind, ANY, ANY), KernelNeeds(KernelSet::SCALAR_ROWS)));
	}
	CHECK_FALSE(IsPart({"measures"}, needs(ScalarTask::FLIP, ANY, ANY)));
	CHECK(needs(ScalarTask::OVERLAY, ANY, ANY) == KernelNeeds(Operation::OVERLAY_PAIRS));
	CHECK(needs(ScalarTask::OVERLAY_AREA, LARGE, SMALL) == KernelNeeds(Operation::OVERLAY_PAIRS));
	// The exact orientation takes long to compile
	CHECK(IsPart({"constructive"}, needs(ScalarTask::HULL, ANY, ANY)));
	CHECK_FALSE(IsPart({"constructive"}, needs(ScalarTask::AREA, ANY, ANY)));
}
