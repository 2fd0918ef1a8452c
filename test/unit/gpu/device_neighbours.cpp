// Searches for neighbours on a device
#include "device_engine.hpp"
#include "neighbour_rows.hpp"

#include "engine/dispatch/operation.hpp"

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
	for (auto &input : neighbour_test::Cases(true)) {
		for (auto k : input.ks) {
			neighbour_test::Check(device, input, k, HUGE_VAL, 7);
			neighbour_test::Check(device, input, k, 0.5, 7);
		}
	}
}
