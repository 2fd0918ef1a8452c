#include "engine/gpu/machine/refine.hpp"

#include <algorithm>

namespace vibespatial {

using vibe::LimitView;
using vibe::LongPairs;
using vibe::PairList;

//! The limit where no pair can have so many vertices, or take so many steps
static constexpr uint32_t ANY_VERTICES = ~uint32_t(0), ANY_STEPS = ~uint32_t(0);

static constexpr const char *RELATE_UNIT = "polygon_predicates", *RELATE_ENTRY = "relate_pairs";

//! Threads for relating so many pairs, in whole blocks. Their slabs take no more than a share of the device's memory: the tiles of
//! other threads need some, too.
static uint64_t RelateThreads(Machine &machine, uint64_t pairs) {
	constexpr uint64_t SHARE = 32;
	const auto &limits = machine.limits;
	const uint64_t wanted =
	    std::min((pairs + limits.block - 1) / limits.block,
	             machine.ThreadsAtOnce(RELATE_UNIT, RELATE_ENTRY) / limits.block / limits.relate_part);
	const uint64_t most = machine.MemoryLimit() / SHARE / (limits.relate_slab * limits.block);
	return std::max<uint64_t>(1, std::min(wanted, most)) * limits.block;
}

void MeasureHausdorff(Machine &machine, const PairSides &sides, const PairList &pairs, double *distances) {
	const bool large = !sides.left.points && !sides.right.points && sides.has_large;
	const auto measure = [&](bool of_large) {
		machine.LaunchLooping("segment_distance", "hausdorff_distances", of_large ? Machine::ANY_ITEMS : pairs.capacity,
		                      sides.left, sides.right, pairs, static_cast<uint32_t>(of_large),
		                      large ? machine.limits.measure_vertices : ANY_VERTICES, distances);
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
	const uint64_t most = pairs.capacity;
	const bool shapes_only = !left.points && !right.points;
	const bool large = shapes_only && sides.has_large;
	const uint32_t measure_vertices = large ? machine.limits.measure_vertices : ANY_VERTICES;
	const auto measure = [&](const LimitView &within, bool empty_is_near, bool of_large) {
		machine.LaunchLooping("segment_distance", "shape_distances", of_large ? Machine::ANY_ITEMS : most, left, right,
		                      pairs, within, static_cast<uint32_t>(empty_is_near), static_cast<uint32_t>(of_large),
		                      measure_vertices, distances);
	};
	if (term.kind == JoinTerm::BOXES) {
		machine.LaunchLooping("spatial_query", "box_pairs", most, left, right, pairs);
	} else if (term.kind == JoinTerm::DISTANCE && left.points && right.points && !distances) {
		machine.LaunchLooping("point_distance", "points_within", most, left, right, pairs, limits);
	} else if (term.kind == JoinTerm::DISTANCE) {
		measure(limits, term.empty_is_near, false);
		if (large) {
			measure(limits, term.empty_is_near, true);
		}
	} else if (!shapes_only) {
		machine.LaunchLooping("point_binary_relations", "point_relations", most, left, right, pairs, predicate,
		                      static_cast<uint32_t>(left.points != nullptr));
	} else {
		// Shapes intersect where their distance is 0, which a warp finds faster than a thread relates them
		const bool by_distance = large && term.predicate == vibe::PREDICATE_INTERSECTS;
		if (by_distance) {
			measure(LimitView {0, nullptr, nullptr, false, false}, false, true);
		}
		if (sides.has_points) {
			machine.LaunchLooping("multipoint_binary_relations", "multipoint_relations", most, left, right, pairs,
			                      predicate, machine.limits.relate_points);
		}
		const uint64_t walkers = RelateThreads(machine, pairs.capacity), bytes = walkers * machine.limits.relate_slab;
		auto *arena = machine.Temporary<vibe::u8>("relate arena", bytes);
		LongPairs rest {nullptr, nullptr, nullptr};
		if (large) {
			auto *counts = machine.TemporaryZeros<vibe::u64>("relate counts", 2);
			rest = LongPairs {machine.Temporary<vibe::u32>("relate rest", most), counts, counts + 1};
		}
		const auto relate = [&](uint64_t threads, uint64_t slab, bool together, uint32_t max_steps) {
			machine.Launch(RELATE_UNIT, RELATE_ENTRY, threads, left, right, pairs, predicate,
			               sides.has_points ? machine.limits.relate_points : 0, arena, static_cast<vibe::u64>(slab),
			               by_distance ? measure_vertices : ANY_VERTICES, rest, static_cast<uint32_t>(together),
			               max_steps, static_cast<vibe::Matrix *>(nullptr));
		};
		relate(walkers, machine.limits.relate_slab, false, large ? machine.limits.relate_steps : ANY_STEPS);
		if (large) {
			// In the same memory
			const uint64_t slab = machine.limits.relate_warp_slab, block = machine.limits.block;
			relate(std::min(machine.ThreadsAtOnce(RELATE_UNIT, RELATE_ENTRY), bytes / slab / block * block), slab, true,
			       machine.limits.relate_warp_steps);
		}
	}
}

} // namespace vibespatial
