#include "engine/gpu/machine/refine.hpp"

#include <algorithm>

namespace vibespatial {

using vibe::LimitView;
using vibe::PairList;

//! The limit where no pair can have so many vertices
static constexpr uint32_t ANY_VERTICES = ~uint32_t(0);

//! Threads for relating so many pairs, in whole blocks. Their slabs take no more than a share of the device's memory: the tiles of
//! other threads need some, too.
static uint64_t RelateThreads(const Machine &machine, uint64_t pairs) {
	constexpr uint64_t SHARE = 32;
	const auto &limits = machine.limits;
	const uint64_t wanted = (std::min(pairs, limits.relate_threads) + limits.block - 1) / limits.block;
	const uint64_t most = machine.MemoryLimit() / SHARE / (limits.relate_slab * limits.block);
	return std::max<uint64_t>(1, std::min(wanted, most)) * limits.block;
}

void MeasureHausdorff(Machine &machine, const PairSides &sides, const PairList &pairs, double *distances) {
	const uint64_t looping = machine.limits.looping_threads, threads = std::min<uint64_t>(looping, pairs.capacity);
	const bool large = !sides.left.points && !sides.right.points && sides.has_large;
	const auto measure = [&](bool of_large) {
		machine.Launch("segment_distance", "hausdorff_distances", of_large ? looping : threads, sides.left, sides.right,
		               pairs, static_cast<uint32_t>(of_large), large ? machine.limits.measure_vertices : ANY_VERTICES,
		               distances);
	};
	measure(false);
	if (large) {
		measure(true);
	}
}

void RefinePairs(Machine &machine, const PairSides &sides, const JoinTerm &term, const LimitView &limits,
                 const PairList &pairs, double *distances) {
	const auto &left = sides.left, &right = sides.right;
	const auto predicate = static_cast<uint32_t>(term.predicate);
	const uint64_t looping = machine.limits.looping_threads, threads = std::min<uint64_t>(looping, pairs.capacity);
	const uint32_t max_vertices = machine.limits.relate_vertices;
	const bool shapes_only = !left.points && !right.points;
	const bool large = shapes_only && sides.has_large;
	const auto measure = [&](const LimitView &within, bool empty_is_near, bool of_large, uint32_t most) {
		machine.Launch("segment_distance", "shape_distances", of_large ? looping : threads, left, right, pairs, within,
		               static_cast<uint32_t>(empty_is_near), static_cast<uint32_t>(of_large), most, distances);
	};
	const uint32_t measure_vertices = large ? machine.limits.measure_vertices : ANY_VERTICES;
	if (term.kind == JoinTerm::BOXES) {
		machine.Launch("spatial_query", "box_pairs", threads, left, right, pairs);
	} else if (term.kind == JoinTerm::DISTANCE && left.points && right.points && !distances) {
		machine.Launch("point_distance", "points_within", threads, left, right, pairs, limits);
	} else if (term.kind == JoinTerm::DISTANCE) {
		measure(limits, term.empty_is_near, false, measure_vertices);
		if (large) {
			measure(limits, term.empty_is_near, true, measure_vertices);
		}
	} else if (!shapes_only) {
		machine.Launch("point_binary_relations", "point_relations", threads, left, right, pairs, predicate,
		               static_cast<uint32_t>(left.points != nullptr));
	} else {
		// Shapes intersect where their distance is 0, which a warp finds faster than a thread relates them
		const bool by_distance = large && term.predicate == vibe::PREDICATE_INTERSECTS;
		if (by_distance) {
			measure(LimitView {0, nullptr, nullptr, false, false}, false, true, measure_vertices);
		}
		if (sides.has_points) {
			machine.Launch("multipoint_binary_relations", "multipoint_relations", threads, left, right, pairs,
			               predicate, max_vertices);
		}
		const uint64_t walkers = RelateThreads(machine, pairs.capacity);
		const vibe::u64 slab = machine.limits.relate_slab;
		auto *arena = machine.Temporary<vibe::u8>("relate arena", walkers * slab);
		machine.Launch("polygon_predicates", "relate_pairs", walkers, left, right, pairs, predicate, max_vertices,
		               arena, slab, static_cast<uint32_t>(sides.has_points),
		               by_distance ? measure_vertices : ANY_VERTICES, static_cast<vibe::Matrix *>(nullptr));
	}
}

} // namespace vibespatial
