#include "catch.hpp"

#include "engine/dispatch/dispatch.hpp"

using namespace vibespatial;

TEST_CASE("Without an engine the CPU is selected unless the GPU was asked for", "[dispatch]") {
	auto &index = FindKernel("box_index");
	auto &refine = FindKernel("relate");
	REQUIRE(index.HasGpu());
	REQUIRE_FALSE(refine.HasGpu());

	auto cpu = Decide(ExecutionMode::CPU, index, UINT64_MAX);
	CHECK(cpu.selected == ExecutionMode::CPU);
	CHECK(cpu.reason == "vibe_execution_mode is cpu");

	auto few = Decide(ExecutionMode::AUTO, index, index.threshold_rows - 1);
	CHECK(few.selected == ExecutionMode::CPU);
	CHECK(few.reason.find("below the threshold") != std::string::npos);

	auto many = Decide(ExecutionMode::AUTO, index, index.threshold_rows);
	CHECK(many.selected == ExecutionMode::CPU);
	CHECK(many.reason == "no GPU engine: not started");

	auto gpu = Decide(ExecutionMode::GPU, index, 1);
	CHECK(gpu.selected == ExecutionMode::GPU);
	CHECK(gpu.engine == nullptr);

	auto none = Decide(ExecutionMode::GPU, refine, 1);
	CHECK(none.requested == ExecutionMode::GPU);
	CHECK(none.selected == ExecutionMode::CPU);
	CHECK(none.reason == "relate has no GPU variant");

	auto &rows = FindKernel("scalar_rows");
	CHECK(rows.HasGpu());
	auto never = Decide(ExecutionMode::AUTO, rows, UINT64_MAX);
	CHECK(never.selected == ExecutionMode::CPU);
	CHECK(never.reason.find("the CPU is done sooner") != std::string::npos);
	CHECK(Decide(ExecutionMode::AUTO, rows, 1, 0).reason == "no GPU engine: not started");
	CHECK(Decide(ExecutionMode::GPU, rows, 1).selected == ExecutionMode::GPU);

	CHECK_THROWS_AS(FindKernel("knitting"), std::invalid_argument);
}

TEST_CASE("Kernels say what they promise", "[dispatch]") {
	for (auto &kernel : Kernels()) {
		std::string variants = kernel.variants;
		CHECK(kernel.HasGpu() == (variants == "cpu, gpu"));
		CHECK_FALSE(std::string(kernel.guarantee).empty());
		CHECK(&FindKernel(kernel.name) == &kernel);
	}
}
