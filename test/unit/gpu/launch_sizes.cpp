// Launches fit the device: as many threads as it runs at once, on one multiprocessor as on many, and the same answers
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/scalar.hpp"
#include "wkb_bytes.hpp"

#include <map>
#include <random>

using namespace vibespatial;
using wkb_test::Wkb;

namespace {

//! Threads of the launches, by entry point
typedef std::map<std::string, std::vector<uint64_t>> Launches;

class Watched : public host_cuda::Machine {
public:
	Watched(uint64_t processors, uint64_t memory, Launches &launches)
	    : host_cuda::Machine(false, processors), memory(memory), launches(launches) {
	}
	uint64_t MemoryLimit() const override {
		return memory;
	}

protected:
	void DoLaunch(const char *unit, const char *entry_point, uint64_t threads,
	              const LaunchArguments &arguments) override {
		launches[entry_point].push_back(threads);
		host_cuda::Machine::DoLaunch(unit, entry_point, threads, arguments);
	}

private:
	const uint64_t memory;
	Launches &launches;
};

void AddSquares(ScalarSide &side, size_t count, unsigned seed) {
	std::mt19937 random(seed);
	side.Clear();
	side.BeginShapes();
	for (size_t i = 0; i < count; i++) {
		const double x = random() % 4, y = random() % 4, end = 1 + random() % 3;
		const auto square = Wkb()
		                        .Header(GeometryType::POLYGON)
		                        .Count(1)
		                        .Count(5)
		                        .Doubles({x, y, x + end, y, x + end, y + end, x, y + end, x, y})
		                        .bytes;
		side.AddWkb(reinterpret_cast<const uint8_t *>(square.data()), square.size());
	}
}

constexpr size_t ROWS = 9000;
constexpr uint64_t MUCH_MEMORY = uint64_t(1) << 40;

std::vector<uint8_t> Answers(uint64_t processors, uint64_t memory, ScalarTask::Kind kind, Launches &launches) {
	ScalarTask task;
	task.kind = kind;
	task.predicate = vibe::PREDICATE_TOUCHES;
	ScalarSide left, right;
	AddSquares(left, ROWS, 1);
	AddSquares(right, ROWS, 2);
	const std::vector<double> limits(ROWS, 1);
	ScalarInput input;
	input.count = ROWS;
	input.left = &left;
	input.right = &right;
	input.limits = kind == ScalarTask::WITHIN ? limits.data() : nullptr;
	auto batch = MakeScalarBatch(std::make_unique<Watched>(processors, memory, launches), task);
	batch->Begin(input);
	const auto &result = batch->Finish();
	return std::vector<uint8_t>(result.results, result.results + ROWS);
}

} // namespace

TEST_CASE("Launches whose threads take items in turn fill the device", "[launch]") {
	const uint64_t block = host_cuda::SmallLimits().block, part = host_cuda::SmallLimits().relate_part;
	std::vector<uint8_t> touching, near;
	for (const uint64_t processors : {1, 20, 132, 5000}) {
		INFO(processors << " multiprocessors");
		Launches launches;
		const auto touch = Answers(processors, MUCH_MEMORY, ScalarTask::RELATE, launches);
		const auto within = Answers(processors, MUCH_MEMORY, ScalarTask::WITHIN, launches);
		// No more threads than pairs, and for relations a part of the device, at least a block
		const auto of_pairs = (ROWS + block - 1) / block;
		CHECK((launches["shape_distances"] == std::vector<uint64_t> {std::min<uint64_t>(processors * block, ROWS)}));
		CHECK((launches["relate_pairs"] ==
		       std::vector<uint64_t> {std::min<uint64_t>(std::max<uint64_t>(1, processors / part), of_pairs) * block}));
		if (touching.empty()) {
			touching = touch;
			near = within;
			CHECK(std::count(touch.begin(), touch.end(), vibe::PAIR_TRUE) > 100);
			CHECK(std::count(within.begin(), within.end(), vibe::PAIR_FALSE) > 100);
		}
		CHECK((touch == touching));
		CHECK((within == near));
	}
}

TEST_CASE("Relations take a share of the device's memory", "[launch]") {
	const auto limits = host_cuda::SmallLimits();
	Launches launches;
	// Room for three blocks in the share
	const uint64_t memory = 32 * 3 * limits.block * limits.relate_slab;
	const auto little = Answers(132, memory, ScalarTask::RELATE, launches);
	CHECK((launches["relate_pairs"] == std::vector<uint64_t> {3 * limits.block}));
	CHECK((little == Answers(132, MUCH_MEMORY, ScalarTask::RELATE, launches)));
}
