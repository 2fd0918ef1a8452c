#include "catch.hpp"

#include "engine/dispatch/timeline.hpp"

using namespace vibespatial;

TEST_CASE("The timeline keeps the last steps, and lays the parts of a piece of work end to end", "[dispatch]") {
	auto &timeline = Timeline::Get();
	const auto begin = Timeline::Clock::time_point(std::chrono::seconds(1000));
	GpuTimes times;
	times.to_device_ms = 2;
	times.kernel_ms = 3;
	times.from_device_ms = 0.5;
	times.bytes_to_device = 70;
	times.bytes_from_device = 8;
	timeline.Add(7, "scan", "build side", begin, begin + std::chrono::milliseconds(4), 5);
	timeline.AddWork(8, "tile", begin, times);
	timeline.AddWork(9, "nothing", begin, GpuTimes());
	const auto steps = timeline.Steps();
	REQUIRE(steps.size() >= 4);
	const auto *last = &steps[steps.size() - 4];
	CHECK(last[0].query == 7);
	CHECK(last[0].lane == "scan");
	CHECK(last[0].end_us - last[0].begin_us == 4000);
	CHECK(last[0].bytes == 5);
	const char *lanes[] = {"upload", "kernels", "download"};
	const int64_t ends[] = {1000002000, 1000005000, 1000005500};
	const uint64_t bytes[] = {70, 0, 8};
	for (int i = 0; i < 3; i++) {
		auto &step = last[1 + i];
		CHECK(step.query == 8);
		CHECK(step.name == "tile");
		CHECK(step.lane == lanes[i]);
		CHECK(step.begin_us == (i == 0 ? 1000000000 : ends[i - 1]));
		CHECK(step.end_us == ends[i]);
		CHECK(step.bytes == bytes[i]);
	}
	for (size_t i = 0; i < Timeline::CAPACITY; i++) {
		timeline.Add(10, "emit", "rows", begin, begin);
	}
	CHECK(timeline.Steps().size() == Timeline::CAPACITY);
	CHECK(timeline.Steps()[0].query == 10);
}
