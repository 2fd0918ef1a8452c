// Functions of two geometries, row by row: both sides go up, the refinement of a join runs over the pairs (i, i), or (i, 0) where
// one geometry is for all rows, and one answer a row comes back.
#include "engine/gpu/machine/scalar.hpp"
#include "engine/gpu/machine/refine.hpp"
#include "engine/gpu/machine/shapes.hpp"

#include <cstring>

namespace vibespatial {

namespace {

//! Numbers of pinned memory; from the last one on those of the shapes, left and right in turn
enum : size_t { PINNED_RESULTS, PINNED_DISTANCES, PINNED_SHAPES };

JoinTerm TermOf(const ScalarTask &task) {
	return JoinTerm {task.kind == ScalarTask::RELATE ? JoinTerm::RELATE : JoinTerm::DISTANCE, task.predicate, false};
}

class Pairwise : public MachineScalarBatch {
public:
	Pairwise(std::unique_ptr<Machine> machine_p, const ScalarTask &task)
	    : MachineScalarBatch(std::move(machine_p), task), left_shapes(*machine, "pairwise left", PINNED_SHAPES, 2),
	      right_shapes(*machine, "pairwise right", PINNED_SHAPES + 1, 2), term(TermOf(task)) {
	}

	uint8_t *Block(bool left, size_t number) override {
		machine->Use();
		return (left ? left_shapes : right_shapes).Block(number);
	}

	void Begin(const ScalarInput &input) override {
		Start(input);
		PairSides sides;
		sides.left = Upload(*input.left, input, input.left_is_constant, left_shapes, "pairwise points left");
		sides.right = Upload(*input.right, input, input.right_is_constant, right_shapes, "pairwise points right");
		sides.has_points = input.left->Shapes().HasPoints() || input.right->Shapes().HasPoints();
		sides.has_large = input.left->Shapes().HasLarge() || input.right->Shapes().HasLarge();
		const double *limits = nullptr;
		if (input.limits) {
			auto *to = machine->Temporary<double>("pairwise limits", count);
			Put(to, input.limits + input.first, count);
			limits = to;
		}
		const auto pairs = Number(input);
		machine->Record(COPIED);
		Decode(left_shapes, sides.left);
		Decode(right_shapes, sides.right);
		// A constant side has one row: the other one's row has the limit of a pair
		const bool by_right = input.left_is_constant, by_left = !by_right;
		double *distances = task.GivesNumbers() ? machine->Temporary<double>("pairwise distances", count) : nullptr;
		if (task.kind == ScalarTask::HAUSDORFF) {
			MeasureHausdorff(*machine, sides, pairs, distances);
		} else {
			RefinePairs(*machine, sides, term,
			            vibe::LimitView {0, by_left ? limits : nullptr, by_right ? limits : nullptr, false, false},
			            pairs, distances);
		}
		machine->Record(COMPUTED);
		result.results = Read(PINNED_RESULTS, pairs.results, count);
		if (distances) {
			result.numbers = Read(PINNED_DISTANCES, distances, count);
		}
		machine->Record(READ);
	}

private:
	vibe::SideView Upload(const ScalarSide &side, const ScalarInput &input, bool is_constant, MachineShapes &shapes,
	                      const char *name) {
		const size_t first = is_constant ? 0 : input.first, size = is_constant ? 1 : count;
		if (side.IsPoints()) {
			auto *points = machine->Temporary<vibe::Vec2>(name, size);
			Put(points, side.Points().data() + first, size);
			return vibe::SideView {nullptr, points};
		}
		shapes.Upload(side.Shapes(), first, size);
		return vibe::SideView {nullptr, nullptr};
	}
	//! Rows that the device could not read are unknown, so their pairs stay open
	static void Decode(MachineShapes &shapes, vibe::SideView &side) {
		if (!side.points) {
			side.shapes = shapes.Decode(false, nullptr, nullptr);
		}
	}

	//! The pairs, none of them decided
	vibe::PairList Number(const ScalarInput &input) {
		// The first two words are how many there are
		numbers.resize(2 + count);
		const uint64_t total = count;
		std::memcpy(numbers.data(), &total, sizeof(total));
		for (size_t i = 0; i < count; i++) {
			numbers[2 + i] = static_cast<uint32_t>(i);
		}
		auto *to = machine->Temporary<uint32_t>("pairwise numbers", numbers.size());
		Put(to, numbers.data(), numbers.size());
		auto *results = machine->TemporaryZeros<vibe::u8>("pairwise results", count);
		auto rows_of = [&](bool is_constant, const char *name) {
			return is_constant ? machine->TemporaryZeros<uint32_t>(name, count) : to + 2;
		};
		return vibe::PairList {rows_of(input.left_is_constant, "pairwise rows left"),
		                       rows_of(input.right_is_constant, "pairwise rows right"), results,
		                       reinterpret_cast<vibe::u64 *>(to), count};
	}

	MachineShapes left_shapes;
	MachineShapes right_shapes;
	const JoinTerm term;
	std::vector<uint32_t> numbers;
};

} // namespace

std::unique_ptr<GpuScalarBatch> MakePairwise(std::unique_ptr<Machine> machine, const ScalarTask &task) {
	return std::make_unique<Pairwise>(std::move(machine), task);
}

} // namespace vibespatial
