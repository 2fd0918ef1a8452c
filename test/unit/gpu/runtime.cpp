#include "catch.hpp"

#include "engine/gpu/runtime/runtime.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

using namespace vibespatial;

namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
	return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void Sleep(int milliseconds) {
	std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

//! What a function finds in a process of its own, whose runtime has not begun to open a plug-in and cannot find one
template <class FUNCTION>
bool HoldsInChild(FUNCTION &&function) {
	std::fflush(nullptr);
	const pid_t child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		setenv("VIBESPATIAL_GPU_FOLDER", "/nowhere", 1);
		_exit(GpuRuntime::Get().GetPhase() == GpuRuntime::Phase::NOT_STARTED && function(GpuRuntime::Get()) ? 0 : 1);
	}
	int status = 0;
	REQUIRE(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

//! When the plug-in was looked for, which fails
double MillisecondsToOpening(GpuRuntime &runtime, Clock::time_point begin) {
	while (runtime.GetPhase() == GpuRuntime::Phase::OPENING && MillisecondsSince(begin) < 30000) {
		Sleep(1);
	}
	return runtime.GetPhase() == GpuRuntime::Phase::FAILED ? MillisecondsSince(begin) : 0;
}

} // namespace

TEST_CASE("The plug-in is opened at once, or when no operator is at work", "[runtime]") {
	CHECK(HoldsInChild([](GpuRuntime &runtime) {
		runtime.StartInBackground({}, "test");
		return MillisecondsToOpening(runtime, Clock::now()) > 0;
	}));
	CHECK(HoldsInChild([](GpuRuntime &runtime) {
		const auto begin = Clock::now();
		runtime.StartWhenQuiet({}, "test");
		return MillisecondsToOpening(runtime, begin) >= 100;
	}));
	const bool is_after_the_last = HoldsInChild([](GpuRuntime &runtime) {
		const auto begin = Clock::now();
		runtime.StartWhenQuiet({}, "test");
		for (int i = 0; i < 3; i++) {
			GpuRuntime::Work work, another;
			Sleep(90);
		}
		return MillisecondsToOpening(runtime, begin) >= 270 + 100;
	});
	CHECK(is_after_the_last);
}

TEST_CASE("Operators that do not end hold the plug-in up for a second", "[runtime]") {
	CHECK(HoldsInChild([](GpuRuntime &runtime) {
		const GpuRuntime::Work work;
		const auto begin = Clock::now();
		runtime.StartWhenQuiet({}, "test");
		return MillisecondsToOpening(runtime, begin) >= 1000;
	}));
}

TEST_CASE("Whoever waits for the plug-in has it opened at once", "[runtime]") {
	CHECK(HoldsInChild([](GpuRuntime &runtime) {
		const GpuRuntime::Work work;
		const auto begin = Clock::now();
		runtime.StartWhenQuiet({}, "test");
		std::string why_not;
		// Asked without waiting, it is not
		const bool is_quiet = !runtime.Engine(0, why_not) && why_not == "the GPU engine is still being opened";
		return is_quiet && !runtime.Engine(30, why_not) && runtime.GetPhase() == GpuRuntime::Phase::FAILED &&
		       MillisecondsSince(begin) < 1000;
	}));
	CHECK(HoldsInChild([](GpuRuntime &runtime) {
		const GpuRuntime::Work work;
		const auto begin = Clock::now();
		runtime.StartWhenQuiet({}, "test");
		runtime.StartInBackground({}, "another");
		const auto opened = MillisecondsToOpening(runtime, begin);
		return opened > 0 && opened < 1000;
	}));
}

TEST_CASE("A process ends, forks and closes its databases without waiting for a plug-in that nobody has touched",
          "[runtime]") {
	const auto begin = Clock::now();
	CHECK(HoldsInChild([](GpuRuntime &runtime) {
		const GpuRuntime::Work work;
		runtime.StartWhenQuiet({}, "test");
		const auto closing = Clock::now();
		runtime.Quiesce(30);
		const bool is_closed = MillisecondsSince(closing) < 900;
		const bool may_start = HoldsInChild([](GpuRuntime &) { return true; });
		std::exit(is_closed && may_start && runtime.GetPhase() == GpuRuntime::Phase::OPENING ? 0 : 1);
		return false;
	}));
	CHECK(MillisecondsSince(begin) < 1000);
}
