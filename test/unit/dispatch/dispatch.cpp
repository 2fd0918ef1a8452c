#include "catch.hpp"

#include "engine/dispatch/dispatch.hpp"
#include "engine/gpu/runtime/runtime.hpp"

using namespace vibespatial;

TEST_CASE("Without an engine the CPU is selected unless the GPU was asked for", "[dispatch]") {
	const auto index = Operation::BOX_INDEX, refine = Operation::RELATE, rows = Operation::SCALAR_ROWS;
	REQUIRE(InfoOf(index).HasGpu());
	REQUIRE_FALSE(InfoOf(refine).HasGpu());

	CHECK(Decide(ExecutionMode::CPU, index, UINT64_MAX).Describe() == "cpu (vibe_execution_mode is cpu)");

	if (GpuRuntime::DeviceIsPossible()) {
		const auto threshold = InfoOf(index).gpu_from_rows;
		CHECK(Decide(ExecutionMode::AUTO, index, threshold - 1).Describe() ==
		      "cpu (999999 rows: below the threshold of 1000000)");
		CHECK(Decide(ExecutionMode::AUTO, index, threshold).Describe() == "cpu (no GPU engine: not started)");
		CHECK(Decide(ExecutionMode::AUTO, rows, 7).Describe() ==
		      "cpu (7 rows: the CPU is faster at any number of rows)");
		CHECK(Decide(ExecutionMode::AUTO, rows, 1, 0).Describe() == "cpu (no GPU engine: not started)");
	} else {
		// Few rows or many: what matters is that there is no device
		for (uint64_t count : {uint64_t(1), UINT64_MAX}) {
			CHECK(Decide(ExecutionMode::AUTO, index, count).Describe() == "cpu (there is no NVIDIA GPU)");
			CHECK(Decide(ExecutionMode::AUTO, rows, count, 0).Describe() == "cpu (there is no NVIDIA GPU)");
		}
	}

	auto gpu = Decide(ExecutionMode::GPU, index, 1);
	CHECK(gpu.IsGpu());
	CHECK(gpu.engine == nullptr);
	CHECK(Decide(ExecutionMode::GPU, rows, 1).IsGpu());
	CHECK(Decide(ExecutionMode::GPU, refine, 1).Describe() == "cpu (relate has no GPU variant)");
}

TEST_CASE("Operations say what they promise and need", "[dispatch]") {
	for (size_t i = 0; i < Operations().size(); i++) {
		const auto operation = static_cast<Operation>(i);
		auto &info = InfoOf(operation);
		INFO(info.name);
		CHECK_FALSE(std::string(info.guarantee).empty());
		CHECK(info.HasGpu() == (info.kernels != KernelSet::NONE));
		CHECK(KernelNeeds(operation).empty() == !info.HasGpu());
	}
	CHECK(FindKernelSet("spatial_join") == KernelSet::SPATIAL_JOIN);
	CHECK(FindKernelSet("knitting") == KernelSet::NONE);
	CHECK(FindKernelSet("") == KernelSet::NONE);
}

static DispatchEvent LastEvent() {
	return DispatchLog::Get().Events().back();
}

TEST_CASE("A dispatch leaves one event that says what became of the work", "[dispatch]") {
	const auto before = DispatchLog::Get().Events().size();
	{
		Dispatch undecided(Operation::KNN, ExecutionMode::GPU, "TEST", {1, 2, "SELECT 1"});
		Dispatch cpu(Operation::KNN, ExecutionMode::CPU, "TEST", {1, 2, "SELECT 1"});
		cpu.Decide(5, -1);
		CHECK(cpu.Describe() == "cpu (vibe_execution_mode is cpu)");
	}
	CHECK(DispatchLog::Get().Events().size() == before);

	GpuTimes times;
	times.kernel_ms = 2;
	times.bytes_to_device = 10;
	{
		Dispatch dispatch(Operation::KNN, ExecutionMode::GPU, "TEST", {1, 2, "SELECT 2"});
		dispatch.Decide(5, -1);
		CHECK(dispatch.OnGpu());
		CHECK_THROWS_AS(dispatch.Engine(), GpuError);
		dispatch.AddRows(5);
		dispatch.AddTimes(times);
		dispatch.AddTimes(times);
		dispatch.CountPieces(3, 1);
		dispatch.AddRowsOnCpu(4);
		dispatch.AddOpenPairs(6);
		dispatch.AddNote("rows decided by the CPU");
		dispatch.Finish("tiles");
		dispatch.Finish("tiles");
	}
	CHECK(DispatchLog::Get().Events().size() == before + 1);
	auto event = LastEvent();
	CHECK(event.query.text == "SELECT 2");
	CHECK(event.query.connection == 2);
	CHECK(event.operation == "knn");
	CHECK(event.selected == "gpu");
	CHECK(event.actual == "gpu");
	CHECK(event.rows == 5);
	CHECK(event.kernel_ms == 4);
	CHECK(event.bytes_to_device == 20);
	CHECK_FALSE(event.fallback);
	CHECK(event.reason == "vibe_execution_mode is gpu; 1 tiles on the CPU, for lack of device memory; "
	                      "rows decided by the CPU");
	CHECK(event.rows_on_cpu == 4);
	CHECK(event.rows_on_device == event.rows - 4);
	CHECK(event.open_pairs == 6);

	{
		Dispatch dispatch(Operation::JOIN_POINTS, ExecutionMode::GPU, "TEST", {1, 2, "SELECT 3"});
		dispatch.Decide(5, -1);
		dispatch.DecideAgain(Operation::JOIN_SHAPES, 5, -1);
		CHECK_FALSE(dispatch.Fail("the device is gone")); // mode gpu: the caller throws
		CHECK_FALSE(dispatch.Fail("another thread saw it, too"));
		CHECK_FALSE(dispatch.OnGpu());
	}
	event = LastEvent();
	CHECK(event.operation == "join_shapes");
	CHECK(event.actual == "none");
	CHECK(event.reason == "the device is gone");
	CHECK(event.rows_on_device + event.rows_on_cpu == 0);

	{
		Dispatch dispatch(Operation::UNION_AGG, ExecutionMode::GPU, "TEST", {1, 2, "SELECT 4"});
		dispatch.Decide(5, -1);
		dispatch.AddRows(5);
		dispatch.RunOutOfMemory("no room");
		CHECK_FALSE(dispatch.OnGpu());
		CHECK(dispatch.Describe() == "fell back from gpu: cpu (no room)");
	}
	CHECK(LastEvent().fallback);
	CHECK(LastEvent().rows_on_cpu == 5);
	CHECK(LastEvent().rows_on_device == 0);
	{
		Dispatch dispatch(Operation::KNN, ExecutionMode::GPU, "TEST", {1, 2, "SELECT 5"});
		dispatch.Decide(5, -1);
		dispatch.KeepOnCpu("lines are not for it");
		CHECK(dispatch.Describe() == "cpu (lines are not for it)");
	}
	CHECK(LastEvent().selected == "cpu");
	CHECK_FALSE(LastEvent().fallback);
	{
		// A decision that was made for several
		Dispatch dispatch(Operation::BOX_INDEX, ExecutionMode::GPU, "TEST", {1, 2, "SELECT 6"});
		dispatch.SetDecision(Decision {ExecutionMode::GPU, "as the others", nullptr});
		dispatch.CountPieces(0, 0);
		dispatch.SetTime(7);
		CHECK(dispatch.Reason() == "as the others");
	}
	event = LastEvent();
	CHECK(event.selected == "gpu");
	CHECK(event.actual == "cpu"); // no piece was done by the GPU
	CHECK_FALSE(event.fallback);
	CHECK(event.total_ms == 7);
}
