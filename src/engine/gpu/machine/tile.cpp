// A tile of a join.
#include "engine/gpu/machine/join.hpp"
#include "engine/gpu/machine/pinned.hpp"
#include "engine/gpu/machine/refine.hpp"
#include "engine/gpu/machine/shapes.hpp"
#include "engine/relate/relate.hpp"

namespace vibespatial {

using vibe::PairList;
using vibe::SideView;
using vibe::Vec2;

namespace {

//! Candidates that a tile has room for at first, for each of its rows
constexpr uint64_t CANDIDATES_PER_ROW = 4;

//! The counters of a tile: what is searched for, and what becomes of it
struct Search {
	vibe::u64 candidates;
	vibe::u64 wide;
	vibe::u64 left;
};
struct Outcome {
	vibe::u64 kept;
	vibe::u64 open;
};
struct Head {
	Search search;
	Outcome outcome;
};

//! Numbers of pinned memory; from the last one on those of the shapes
enum : size_t { PINNED_POINTS, PINNED_HEAD, PINNED_RESULT, PINNED_OPEN, PINNED_LEFT, PINNED_SHAPES };

//! Events of the machine
enum : size_t { BEGUN, COPIED, COMPUTED, READ };

//! Bit l: a point at the location l of an area makes a pair with it
uint32_t AnswersOf(const JoinCondition &condition) {
	uint32_t answers = 0;
	for (auto &term : condition.any_of) {
		if (term.kind == JoinTerm::RELATE) {
			for (auto location : {vibe::LOC_INTERIOR, vibe::LOC_BOUNDARY}) {
				answers |= PointInArea(term.predicate, true).answer[location] ? 1u << location : 0;
			}
		} else if (term.kind == JoinTerm::DISTANCE) {
			answers |= 1u << vibe::LOC_INTERIOR; // what cells with a reach say of all that is near
		}
	}
	return answers;
}

class MachineTile : public GpuTile {
public:
	MachineTile(std::unique_ptr<Machine> machine_p, const std::shared_ptr<MachineBuild> &build_p,
	            const JoinCondition &condition)
	    : held(build_p), build(*held), condition(condition), made(std::move(machine_p)), machine(*made),
	      shapes(machine, "join", PINNED_SHAPES), answers(AnswersOf(condition)) {
	}

	Vec2 *Points(size_t capacity) override {
		machine.Use();
		return static_cast<Vec2 *>(machine.Pinned(PINNED_POINTS, capacity * sizeof(Vec2)));
	}
	uint8_t *Block(size_t number) override {
		machine.Use();
		return shapes.Block(number);
	}
	uint64_t HostBytes() const override {
		return machine.PinnedBytes();
	}

	void Begin(const GpuTileInput &input_p) override {
		machine.Use();
		if (!(input_p.use_cells ? build.HasCells() : build.HasRows())) {
			throw GpuError("the build side is not on the device");
		}
		input = input_p;
		result = GpuTileResult {};
		machine.Record(BEGUN);
		Upload();
		machine.Record(COPIED);
		const uint64_t least = machine.limits.least_pairs;
		candidate_capacity = std::max(candidate_capacity, std::max(least, CANDIDATES_PER_ROW * input.count));
		kept_capacity = std::max(kept_capacity, std::max(least, uint64_t(input.count)));
		open_capacity = std::max(open_capacity, least);
		Run();
	}

	const GpuTileResult &Finish() override {
		machine.Use();
		const auto &head = *static_cast<const Head *>(machine.Pinned(PINNED_HEAD, sizeof(Head)));
		const auto &found = head.outcome;
		while (true) {
			machine.Await(READ);
			result.times.to_device_ms += machine.Between(BEGUN, COPIED);
			result.times.kernel_ms += machine.Between(COPIED, COMPUTED);
			result.times.from_device_ms += machine.Between(COMPUTED, READ);
			const bool missed = head.search.candidates > candidate_capacity;
			if (!missed && found.kept <= kept_capacity && found.open <= open_capacity) {
				break;
			}
			// Once more with as much room as there are pairs: at least these are known
			if (input.output == GpuOutput::PAIRS) {
				Reserve(PINNED_RESULT, 2 * found.kept * sizeof(uint32_t));
			}
			candidate_capacity = std::max<uint64_t>(candidate_capacity, head.search.candidates);
			kept_capacity = std::max<uint64_t>(kept_capacity, found.kept);
			open_capacity = std::max<uint64_t>(open_capacity, found.open);
			machine.Record(BEGUN);
			machine.Record(COPIED);
			if (missed) {
				Run();
			} else {
				Keep();
			}
		}
		result.candidates = head.search.candidates;
		result.open = found.open;
		if (input.output == GpuOutput::PAIRS) {
			result.pairs = found.kept;
			Fetch(kept, found.kept, copied_pairs, PINNED_RESULT, result.probe, result.build);
		} else if (input.output == GpuOutput::COUNTS) {
			result.counts = static_cast<const uint32_t *>(machine.Pinned(PINNED_RESULT, 0));
		} else {
			result.found = static_cast<const uint8_t *>(machine.Pinned(PINNED_RESULT, 0));
		}
		Fetch(open, found.open, 0, PINNED_OPEN, result.open_probe, result.open_build);
		FetchLeft(head.search.left);
		machine.AddBytes(result.times);
		return result;
	}

	void ReadPinned(const GpuTileInput &input_p, Vec2 *to) override {
		machine.Use();
		input = input_p;
		UsePinned();
		machine.Get(to, probe.points, input.count * sizeof(Vec2));
	}

private:
	//! A list of pairs in temporary memory
	PairList List(const char *name, uint64_t capacity, vibe::u64 *total, bool with_results) {
		const uint64_t bytes = capacity * (2 * sizeof(uint32_t) + (with_results ? 1 : 0));
		auto *at = reinterpret_cast<uint32_t *>(machine.Temporary<vibe::u8>(name, bytes));
		return PairList {at, at + capacity, with_results ? reinterpret_cast<vibe::u8 *>(at + 2 * capacity) : nullptr,
		                 total, capacity};
	}

	void Upload() {
		if (input.shapes) {
			shapes.Upload(*input.shapes, input.first, input.count);
		} else if (input.pinned) {
			UsePinned();
		} else {
			auto *points = machine.Temporary<Vec2>("join points", input.first + input.count) + input.first;
			const auto *from = static_cast<const Vec2 *>(machine.Pinned(PINNED_POINTS, 0)) + input.first;
			machine.PutPinned(points, from, input.count * sizeof(Vec2));
			probe = SideView {nullptr, points};
		}
		probe_limits = nullptr;
		if (input.limits) {
			auto *to = machine.Temporary<double>("join limits", input.count);
			machine.Put(to, input.limits + input.first, input.count * sizeof(double));
			probe_limits = to;
		}
	}

	//! The rows where they are, or those that pass the filter
	void UsePinned() {
		const auto &pinned = static_cast<const MachinePinnedRows &>(*input.pinned);
		const auto &segment = pinned.segments[input.segment];
		const size_t first = input.offset + input.first;
		probe = SideView {segment.shapes ? segment.shapes + first : nullptr,
		                  segment.shapes ? nullptr : segment.points.at + first};
		if (!input.filter || input.filter->empty()) {
			return;
		}
		const auto count = static_cast<uint32_t>(input.count), from = static_cast<uint32_t>(first);
		const auto filter = pinned.Filter(input.segment, *input.filter);
		if (segment.shapes) {
			auto *passing = machine.Temporary<vibe::ShapeView>("join passing shapes", count);
			machine.Launch("pinned_rows", "mask_shapes", count, segment.shapes, from, count, filter, passing);
			probe.shapes = passing;
		} else {
			auto *passing = machine.Temporary<Vec2>("join points", count);
			machine.Launch("pinned_rows", "mask_points", count, static_cast<const Vec2 *>(segment.points.at), from,
			               count, filter, passing);
			probe.points = passing;
		}
	}

	//! Looks for candidates, decides them and keeps what is asked for
	void Run() {
		const auto count = static_cast<uint32_t>(input.count);
		search = machine.TemporaryZeros<Search>("join search", 1);
		if (input.shapes) {
			left = machine.Temporary<vibe::u32>("join left", count);
			probe = SideView {shapes.Decode(input.leave_empty, left, &search->left), nullptr};
		}
		if (!input.use_cells) {
			candidates = List("join candidates", candidate_capacity, &search->candidates, true);
			candidates.most = candidate_capacity;
			Refine(count);
		}
		Keep();
	}

	//! Keeps what is asked for of the candidates, or of the cells
	void Keep() {
		const auto count = static_cast<uint32_t>(input.count);
		const size_t rows = build.row_count;
		auto *outcome = machine.TemporaryZeros<Outcome>("join outcome", 1);
		uint32_t *counts = nullptr;
		vibe::u8 *found = nullptr;
		if (input.output == GpuOutput::COUNTS) {
			counts = machine.TemporaryZeros<uint32_t>("join counts", rows);
		} else if (input.output == GpuOutput::FOUND) {
			found = machine.TemporaryZeros<vibe::u8>("join found", count);
		}
		const bool pairs = input.output == GpuOutput::PAIRS;
		kept = List("join pairs", pairs ? kept_capacity : 1, &outcome->kept, false);
		open = List("join open pairs", open_capacity, &outcome->open, false);
		if (input.use_cells) {
			const bool near = build.cells.reach.limit >= 0;
			const char *unit = near ? "point_near_cells" : "point_in_polygon";
			const auto look_up = [&](const char *entry, const char *near_entry, const char *rough_entry, auto *out) {
				if (build.rough.vertices) {
					machine.Launch("point_in_polygon_rough", rough_entry, count, build.cells, build.rough, probe.points,
					               count, answers, *out);
				} else {
					machine.Launch(unit, near ? near_entry : entry, count, build.cells, probe.points, count, answers,
					               *out);
				}
			};
			if (pairs) {
				look_up("cell_pairs", "near_pairs", "rough_pairs", &kept);
			} else if (counts) {
				look_up("cell_counts", "near_counts", "rough_counts", &counts);
			} else {
				look_up("cell_found", "near_found", "rough_found", &found);
			}
		} else {
			machine.LaunchLooping("spatial_query", "keep_pairs", candidate_capacity, candidates,
			                      static_cast<uint32_t>(input.output), kept, counts, found, open);
		}
		machine.Record(COMPUTED);

		auto *head = static_cast<Head *>(machine.Pinned(PINNED_HEAD, sizeof(Head)));
		machine.GetPinned(&head->search, search, sizeof(Search));
		machine.GetPinned(&head->outcome, outcome, sizeof(Outcome));
		copied_pairs = 0;
		if (counts) {
			Read(PINNED_RESULT, counts, rows * sizeof(uint32_t));
		} else if (found) {
			Read(PINNED_RESULT, found, count);
		} else {
			// Mostly all of them; Finish() reads the rest
			copied_pairs = std::min<uint64_t>(kept_capacity, count);
			const size_t bytes = copied_pairs * sizeof(uint32_t);
			auto *to = static_cast<char *>(machine.Pinned(PINNED_RESULT, 2 * bytes));
			machine.GetPinned(to, kept.left, bytes);
			machine.GetPinned(to + bytes, kept.right, bytes);
		}
		machine.Record(READ);
	}

	//! The candidates of the tile, and what the condition says of them
	void Refine(uint32_t count) {
		const auto from = condition.limit_from;
		vibe::LimitView limits {0, nullptr, nullptr, false, false};
		bool skip_negative = false;
		if (from != JoinLimit::NONE) {
			limits = vibe::LimitView {condition.limit,
			                          from == JoinLimit::PROBE || from == JoinLimit::SUM ? probe_limits : nullptr,
			                          from == JoinLimit::BUILD || from == JoinLimit::SUM ? build.limits : nullptr,
			                          condition.compared, condition.strict};
			skip_negative = condition.any_of.size() == 1 && from != JoinLimit::SUM;
		}
		SearchTree(count, limits, static_cast<uint32_t>(skip_negative));
		PairSides sides;
		sides.left = probe;
		sides.right = build.side;
		const auto kind = input.pinned ? input.pinned->Kind(input.segment) : PinnedKind();
		sides.has_points = build.has_points || kind.has_points || (input.shapes && input.shapes->HasPoints());
		sides.has_large = build.has_large || kind.has_large || (input.shapes && input.shapes->HasLarge());
		const uint64_t at_once = machine.limits.pairs_at_once;
		for (uint64_t begin = 0; begin < candidates.capacity; begin += at_once) {
			if (begin > 0 && input.poll) {
				machine.Synchronize();
				input.poll();
			}
			const auto some = candidates.From(begin, std::min<uint64_t>(at_once, candidates.capacity - begin));
			for (auto &term : condition.any_of) {
				RefinePairs(machine, sides, term, limits, some);
			}
		}
	}

	void SearchTree(uint32_t count, const vibe::LimitView &limits, uint32_t skip_negative) {
		const uint32_t visits = machine.limits.wide_visits;
		//! A smaller tree is not worth a second launch
		const bool may_be_wide = build.tree.items / 4 > visits;
		vibe::WideRows wide {nullptr, &search->wide, visits};
		if (may_be_wide) {
			wide.rows = machine.Temporary<vibe::u32>("join wide rows", count);
		}
		machine.Launch("spatial_query", "tree_pairs", count, build.tree, probe, count, limits, skip_negative, wide,
		               candidates);
		if (may_be_wide) {
			machine.LaunchLooping("spatial_query", "wide_pairs", Machine::ANY_ITEMS, build.tree, probe, limits,
			                      skip_negative, wide, candidates);
		}
	}

	//! Pinned memory that is going to be so large
	void Reserve(size_t pinned, uint64_t bytes) {
		const auto before = machine.PinnedSize(pinned);
		if (input.reserve && bytes > before) {
			input.reserve(bytes - before);
		}
	}

	void Read(size_t pinned, const void *from, size_t bytes) {
		machine.GetPinned(machine.Pinned(pinned, std::max<size_t>(bytes, 1)), from, bytes);
	}

	//! The pairs of a list, some of which were copied already
	void Fetch(const PairList &list, uint64_t count, uint64_t copied, size_t pinned, const uint32_t *&probe_rows,
	           const uint32_t *&build_rows) {
		const uint64_t bytes = 2 * std::max(count, copied) * sizeof(uint32_t);
		Reserve(pinned, bytes);
		auto *at = static_cast<uint32_t *>(machine.Pinned(pinned, bytes));
		uint64_t room = copied;
		if (count > copied) {
			machine.GetPinned(at, list.left, count * sizeof(uint32_t));
			machine.GetPinned(at + count, list.right, count * sizeof(uint32_t));
			machine.Synchronize();
			room = count;
		}
		AddFirst(at, count);
		probe_rows = at;
		build_rows = at + room;
	}

	void FetchLeft(uint64_t count) {
		if (count == 0) {
			return;
		}
		auto *at = static_cast<uint32_t *>(machine.Pinned(PINNED_LEFT, count * sizeof(uint32_t)));
		machine.GetPinned(at, left, count * sizeof(uint32_t));
		machine.Synchronize();
		AddFirst(at, count);
		result.left = at;
		result.left_count = count;
	}

	//! Rows that are numbered from the first of the input on become rows of the tile
	void AddFirst(uint32_t *rows, uint64_t count) const {
		for (uint64_t i = 0; input.first > 0 && i < count; i++) {
			rows[i] += static_cast<uint32_t>(input.first);
		}
	}

	const std::shared_ptr<MachineBuild> held;
	const MachineBuild &build;
	const JoinCondition condition;
	const std::unique_ptr<Machine> made;
	Machine &machine;
	MachineShapes shapes;
	const uint32_t answers;
	GpuTileInput input;
	GpuTileResult result;
	SideView probe {};
	Search *search = nullptr;
	vibe::u32 *left = nullptr;
	PairList candidates {};
	const double *probe_limits = nullptr;
	PairList kept {};
	PairList open {};
	uint64_t candidate_capacity = 0;
	uint64_t kept_capacity = 0;
	uint64_t open_capacity = 0;
	uint64_t copied_pairs = 0;
};

} // namespace

std::unique_ptr<GpuTile> MakeTile(std::unique_ptr<Machine> machine, const std::shared_ptr<MachineBuild> &build,
                                  const JoinCondition &condition) {
	return std::make_unique<MachineTile>(std::move(machine), build, condition);
}

} // namespace vibespatial
