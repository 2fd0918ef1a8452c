#include "catch.hpp"

#include "engine/dispatch/thresholds.hpp"

#include <cmath>
#include <functional>
#include <limits>

using namespace vibespatial;

namespace {

GpuFigures With(const std::function<void(GpuFigures &)> &change) {
	auto figures = Thresholds::Reference();
	change(figures);
	return figures;
}

bool AreSame(const Thresholds &a, const Thresholds &b) {
	for (size_t i = 0; i < Operations().size(); i++) {
		if (a.Rows(static_cast<Operation>(i)) != b.Rows(static_cast<Operation>(i))) {
			return false;
		}
	}
	return a.PaysFrom(1e9, 50) == b.PaysFrom(1e9, 50);
}

} // namespace

TEST_CASE("The figures of the reference machine give its thresholds", "[thresholds]") {
	const Thresholds there;
	const std::pair<Operation, uint64_t> measured[] = {{Operation::BOX_INDEX, 1000000},
	                                                   {Operation::JOIN_POINTS, 10000},
	                                                   {Operation::JOIN_SHAPES, 30000},
	                                                   {Operation::JOIN_PINNED, 1000},
	                                                   {Operation::PIN, 1},
	                                                   {Operation::KNN, 100000},
	                                                   {Operation::KNN_SHAPES, 100000},
	                                                   {Operation::KNN_PINNED, 20000},
	                                                   {Operation::FILTER_POINTS, 3000000},
	                                                   {Operation::FILTER_SHAPES, 30000},
	                                                   {Operation::SCALAR_PAIRS, 300000},
	                                                   {Operation::SCALAR_HAUSDORFF, 100000},
	                                                   {Operation::UNION_AGG, 10000},
	                                                   {Operation::UNION_GROUPS, 30000},
	                                                   {Operation::OVERLAY_PAIRS, 300000},
	                                                   {Operation::SCALAR_ROWS, OperationInfo::NEVER},
	                                                   {Operation::SCALAR_HULLS, 10000},
	                                                   {Operation::SCALAR_SIMPLIFY, 10000},
	                                                   {Operation::RELATE, OperationInfo::NO_GPU}};
	for (auto &entry : measured) {
		CHECK(there.Rows(entry.first) == entry.second);
	}
	CHECK(there.PaysFrom(10e6, 0) == Approx(3));
	CHECK(there.PaysFrom(0, 100) == 2);
	CHECK_FALSE(there.AreCalibrated());
	const Thresholds here(Thresholds::Reference());
	CHECK(here.AreCalibrated());
	CHECK(AreSame(here, there));
	// Another measurement of such a machine
	for (const double noise : {0.7, 0.9, 1.1, 1.4}) {
		CHECK(AreSame(Thresholds(With([&](GpuFigures &figures) {
			              figures.launch_us *= noise;
			              figures.to_device_gbs *= noise;
			              figures.from_device_gbs /= noise;
			              figures.edges_per_us *= noise;
		              })),
		              there));
	}
	// A better device next to the same cores
	CHECK(AreSame(Thresholds(With([&](GpuFigures &figures) {
		              figures.launch_us /= 5;
		              figures.to_device_gbs *= 8;
		              figures.from_device_gbs *= 8;
		              figures.edges_per_us *= 5;
	              })),
	              there));
}

TEST_CASE("A slower bus, slower kernels and more cores raise thresholds, fewer cores lower them", "[thresholds]") {
	const Thresholds there;
	const auto pcie3 = [](GpuFigures &figures) {
		figures.to_device_gbs = 12;
		figures.from_device_gbs = 12;
	};
	const auto one_way = [](GpuFigures &figures) { figures.from_device_gbs = 12; };
	const auto slow_fp64 = [](GpuFigures &figures) { figures.edges_per_us /= 4; };
	const auto slow_launches = [](GpuFigures &figures) { figures.launch_us *= 10; };
	const auto cores = [](GpuFigures &figures) { figures.cores = 48; };
	for (auto &change :
	     std::vector<std::function<void(GpuFigures &)>> {pcie3, one_way, slow_fp64, slow_launches, cores}) {
		const Thresholds here(With(change));
		bool higher = false;
		for (size_t i = 0; i < Operations().size(); i++) {
			const auto operation = static_cast<Operation>(i);
			CHECK(here.Rows(operation) >= there.Rows(operation));
			higher |= here.Rows(operation) > there.Rows(operation);
		}
		CHECK(higher);
		CHECK(here.PaysFrom(1e9, 50) >= there.PaysFrom(1e9, 50));
	}
	// What only a bus costs
	CHECK(Thresholds(With(pcie3)).PaysFrom(1e9, 0) == Approx(2 + 100 + (45. / 12 - 1) * 1e3 / 40));
	CHECK(Thresholds(With(slow_launches)).PaysFrom(0, 0) == Approx(2 * (1 + 0.25 * 9)));
	CHECK(Thresholds(With(slow_fp64)).PaysFrom(0, 100) == Approx(2 + 100 * 0.2 * 3));
	// A bus so slow that nothing is gained
	CHECK(Thresholds(With([](GpuFigures &figures) { figures.to_device_gbs = 1; })).Rows(Operation::JOIN_POINTS) ==
	      OperationInfo::NEVER);
	// What lies on the device already waits for no bus
	CHECK(Thresholds(With(pcie3)).Rows(Operation::JOIN_PINNED) == 1000);
	const Thresholds few(With([](GpuFigures &figures) { figures.cores = 4; }));
	CHECK(few.Rows(Operation::JOIN_POINTS) < 10000);
	CHECK(few.Rows(Operation::JOIN_POINTS) >= 10000 / 16);
	// No threshold of their own
	CHECK(few.Rows(Operation::PIN) == 1);
	CHECK(few.Rows(Operation::SCALAR_ROWS) == OperationInfo::NEVER);
	CHECK(few.Rows(Operation::DISTANCE) == OperationInfo::NO_GPU);
}

TEST_CASE("Figures that are nonsense change nothing, and say so", "[thresholds]") {
	const Thresholds there;
	CHECK(Thresholds::Reference().Problem().empty());
	for (const double bad : {0., -1., double(NAN), double(INFINITY), 1e300}) {
		for (auto field : {&GpuFigures::launch_us, &GpuFigures::to_device_gbs, &GpuFigures::from_device_gbs,
		                   &GpuFigures::edges_per_us}) {
			const auto figures = With([&](GpuFigures &all) { all.*field = bad; });
			CHECK(figures.Problem().find("was measured as") != std::string::npos);
			CHECK(AreSame(Thresholds(figures), there));
			CHECK_FALSE(Thresholds(figures).AreCalibrated());
		}
	}
	const auto failed = With([](GpuFigures &figures) { figures.error = "no kernel"; });
	CHECK(failed.Problem() == "no kernel");
	CHECK(AreSame(Thresholds(failed), there));
	CHECK_FALSE(With([](GpuFigures &figures) { figures.cores = 0; }).Problem().empty());
}

TEST_CASE("Figures survive a file", "[thresholds]") {
	const auto before = With([](GpuFigures &figures) { figures.launch_us = 1.0 / 3; });
	GpuFigures after;
	REQUIRE(GpuFigures::FromText(before.ToText(), after));
	CHECK(after.launch_us == before.launch_us);
	CHECK(after.edges_per_us == before.edges_per_us);
	CHECK(after.cores == before.cores);
	for (const char *text : {"", "figures 2\n1 2 3 4 5\n", "figures 1\n1 2 3 4\n", "figures 1\n1 2 x 4 5\n"}) {
		CHECK_FALSE(GpuFigures::FromText(text, after));
	}
	CHECK(before.Describe().find("16 cores") != std::string::npos);
}
