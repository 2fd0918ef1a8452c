// Searches for neighbours on a device. Needs what device.cpp needs. VIBESPATIAL_TEST_SCALE is how many times as many rows are searched for as
// on the host (10): fewer for the tools that watch every access.
#include "device_engine.hpp"
#include "neighbour_rows.hpp"

#include "engine/dispatch/operation.hpp"

#include <cstdlib>

using namespace vibespatial;

TEST_CASE("The device finds the same neighbours as the CPU", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	for (auto set : {KernelSet::KNN, KernelSet::KNN_SHAPES}) {
		REQUIRE(engine->EnsureWarm(KernelNeeds(set), 120).empty());
	}
	const neighbour_test::Searches device {[=] { return engine->NewBuild(); },
	                                       [=](const std::shared_ptr<GpuBuild> &build, uint32_t k, double most) {
		                                       return engine->NewSearch(build, k, most);
	                                       }};
	const char *scale = std::getenv("VIBESPATIAL_TEST_SCALE");
	for (auto &input : neighbour_test::Cases(scale ? std::strtoull(scale, nullptr, 10) : 10)) {
		for (auto k : input.ks) {
			// The CPU takes a while for a thousand neighbours of each
			const size_t step = k < 1000 ? 7 : 97;
			neighbour_test::Check(device, input, k, HUGE_VAL, step);
			neighbour_test::Check(device, input, k, 0.5, step);
		}
	}
}
