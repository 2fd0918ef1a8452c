// Needs a device and the plug-in in the folder that VIBESPATIAL_GPU_FOLDER names: without, these cases say so and pass over.
#include "device_engine.hpp"

#include "engine/gpu/interface/shared_memory.hpp"
#include "engine/index/box_tree.hpp"
#include "engine/join/knn.hpp"
#include "geometry/wkb.hpp"
#include "vibe/box_node.h"

#include <catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

using namespace vibespatial; // NOLINT: a test
using vibe::Box;

namespace {

std::vector<Box> RandomBoxes(size_t count, unsigned seed, double size, double empty_share) {
	std::mt19937_64 random(seed);
	std::uniform_real_distribution<double> place(-180, 180), length(0, size), chance(0, 1);
	std::vector<Box> boxes(count);
	for (auto &box : boxes) {
		const double x = place(random), y = place(random) / 2;
		box = chance(random) < empty_share ? Box::Empty() : Box {x, y, x + length(random), y + length(random)};
	}
	return boxes;
}

void RequireSameTree(GpuEngine &engine, const std::vector<Box> &boxes) {
	GpuTimes times;
	Serial serial;
	const auto packed = engine.PackBoxes(boxes.data(), boxes.size(), serial, times);
	const BoxTree expected(boxes.data(), boxes.size(), serial);
	REQUIRE(packed.ids == expected.Ids());
	REQUIRE(packed.nodes.size() == expected.NodeCount());
	// Missing children are NaN: compared by their bits
	REQUIRE((packed.nodes.empty() ||
	         std::memcmp(packed.nodes.data(), expected.Nodes(), packed.nodes.size() * sizeof(vibe::PackedNode)) == 0));
}

} // namespace

TEST_CASE("Every primitive gives what the standard library gives", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	const auto wrong = engine->SelfTest();
	INFO((wrong.empty() ? "" : wrong[0]));
	REQUIRE(wrong.empty());
}

TEST_CASE("The device packs the same tree as the CPU", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	for (size_t count : {0, 1, 2, 15, 16, 17, 255, 256, 257, 4096, 4097, 100000, 3000001}) {
		RequireSameTree(*engine, RandomBoxes(count, static_cast<unsigned>(count), 0.5, 0));
		RequireSameTree(*engine, RandomBoxes(count, static_cast<unsigned>(count) + 1, 5, 0.3));
	}
	RequireSameTree(*engine, std::vector<Box>(1000, Box::Empty()));
	RequireSameTree(*engine, std::vector<Box>(1000, Box {1, 2, 1, 2}));
	// No extent on one axis, huge and tiny numbers, both zeros
	std::vector<Box> odd;
	for (int i = 0; i < 5000; i++) {
		const double x = (i % 7 - 3) * std::pow(10.0, i % 300 - 150);
		odd.push_back(Box {x, -0.0, x, 0.0});
	}
	RequireSameTree(*engine, odd);
	const double most = std::numeric_limits<double>::max();
	odd.push_back(Box {-most, -most, most, most});
	RequireSameTree(*engine, odd);
}

TEST_CASE("Threads share the device", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	std::vector<std::thread> threads;
	threads.reserve(8);
	std::vector<int> good(8, 0);
	for (unsigned t = 0; t < 8; t++) {
		threads.emplace_back([&, t] {
			bool same = true;
			for (unsigned round = 0; round < 5; round++) {
				const auto boxes = RandomBoxes(50000 + 1000 * t, t * 100 + round, 1, 0.1);
				GpuTimes times;
				Serial serial;
				const auto packed = engine->PackBoxes(boxes.data(), boxes.size(), serial, times);
				const BoxTree expected(boxes.data(), boxes.size(), serial);
				same = same && packed.ids == expected.Ids();
			}
			good[t] = same;
		});
	}
	for (auto &thread : threads) {
		thread.join();
	}
	REQUIRE(good == std::vector<int>(8, 1));
}

TEST_CASE("Every memory tier works, and a limit holds", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	const auto boxes = RandomBoxes(200000, 77, 1, 0);
	for (auto tier : {MemoryTier::POOL, MemoryTier::MANAGED, MemoryTier::SAFE}) {
		auto options = TestOptions();
		options.memory_tier = tier;
		engine->Configure(options);
		RequireSameTree(*engine, boxes);
	}
	auto options = TestOptions();
	options.memory_limit = 4 << 20;
	engine->Configure(options);
	GpuTimes times;
	Serial serial;
	REQUIRE_THROWS_AS(engine->PackBoxes(boxes.data(), boxes.size(), serial, times), GpuError);
	engine->Configure(TestOptions());
	RequireSameTree(*engine, boxes);
	uint64_t used = 0, temporaries = 0;
	for (auto &row : engine->Memory()) {
		if (row.name == "device memory") {
			used = row.bytes;
		} else if (row.name == "temporary storage") {
			temporaries += row.bytes;
		}
	}
	// Nothing but the temporary storage stays
	REQUIRE(used == temporaries);
	REQUIRE(temporaries > 0);
}

TEST_CASE("device: is measured when nobody works on it, once for all processes", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	if (engine->Device().name == "Fake") {
		CHECK(engine->Figures() == nullptr);
		return;
	}
	for (int i = 0; i < 100 && !engine->Figures(); i++) {
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
	}
	const auto *figures = engine->Figures();
	REQUIRE(figures);
	WARN(engine->Device().name << ": " << figures->Describe() << " (" << figures->source << ")");
	INFO(figures->Problem());
	CHECK(figures->Problem().empty());
	CHECK(engine->Figures() == figures);
}

TEST_CASE("device: memory for others is counted, and goes back with its last owner", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	const auto shared = [&] {
		for (auto &row : engine->Memory()) {
			if (row.name == "device arrays") {
				return row.bytes;
			}
		}
		return ~uint64_t(0);
	};
	// More than one slot of a copy
	const std::vector<uint8_t> bytes(5 << 20, 7);
	REQUIRE(shared() == 0);
	auto memory = engine->NewSharedMemory();
	const auto name = memory->Device();
	REQUIRE((name.type == DeviceName::CUDA ? name.number >= 0 : name.type == DeviceName::CPU && name.number == -1));
	auto first = memory->New(bytes.size()), second = memory->New(100);
	memory->Put(first.get(), bytes.data(), bytes.size());
	memory->Put(second.get(), bytes.data(), 0);
	memory->Finish();
	REQUIRE(reinterpret_cast<uintptr_t>(second.get()) % 8 == 0);
	REQUIRE(shared() == bytes.size() + 100);
	memory.reset();
	// Other memory than that of before, which is still there
	auto options = TestOptions();
	options.memory_limit = 64 << 20;
	engine->Configure(options);
	REQUIRE(shared() == bytes.size() + 100);
	std::thread([&] { first.reset(); }).join();
	REQUIRE(shared() == 100);
	second.reset();
	REQUIRE(shared() == 0);
	if (name.type == DeviceName::CUDA) {
		memory = engine->NewSharedMemory();
		REQUIRE_THROWS_AS(memory->New(256 << 20), GpuMemoryError);
		REQUIRE(shared() == 0);
		memory.reset();
	}
	engine->Configure(TestOptions());
}
