// A GPU plug-in without a GPU: the chains of kernels of the real one on the host's machine, and faults and delays as FAKE_GPU says.
// For tests of what is around the engine.
#include "host_machine.hpp"

#include "engine/dispatch/operation.hpp"
#include "engine/gpu/interface/version.hpp"
#include "engine/gpu/machine/block_pool.hpp"
#include "engine/gpu/machine/scalar.hpp"
#include "engine/gpu/machine/join.hpp"
#include "engine/gpu/machine/neighbours.hpp"
#include "engine/gpu/machine/overlay.hpp"
#include "engine/gpu/machine/pinned.hpp"
#include "engine/gpu/machine/shared_memory.hpp"
#include "engine/gpu/machine/tree.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>

using namespace vibespatial;

static bool Wants(const char *what) {
	auto fault = std::getenv("FAKE_GPU");
	return fault && std::string(fault) == what;
}

//! The text of a device that is lost, from its first answer on
static constexpr const char *LOST = "the device was lost: it is a fake; restart the process to use it again";
static std::atomic<bool> is_lost {false};

//! Kernels that somebody has waited for: launching others is an error, as it is on a device that has not loaded them
class WarmKernels {
public:
	static WarmKernels &Get() {
		static auto *kernels = new WarmKernels();
		return *kernels;
	}
	//! FAKE_GPU_WARM: only these become ready
	static bool CanBeReady(const std::string &name) {
		auto only = std::getenv("FAKE_GPU_WARM");
		return !Wants("cold") && (!only || ("," + std::string(only) + ",").find("," + name + ",") != std::string::npos);
	}
	void Add(const std::string &name) {
		std::lock_guard<std::mutex> guard(lock);
		names.insert(name);
	}
	void Require(const std::string &name) {
		std::lock_guard<std::mutex> guard(lock);
		if (names.count(name) == 0) {
			throw GpuError("nobody has waited for " + name);
		}
	}

private:
	std::mutex lock;
	std::set<std::string> names;
};

//! Pinned memory as the plug-in has it, from the C library
class FakePool : public BlockPool {
public:
	FakePool() : BlockPool(2 * RANGE_BYTES) {
	}
	static FakePool &Get() {
		static auto *pool = new FakePool(); // machines may live until the process ends
		return *pool;
	}

private:
	char *NewRange(size_t bytes) override {
		return static_cast<char *>(::operator new(bytes));
	}
	void FreeRange(char *range, size_t) noexcept override {
		::operator delete(range);
	}
};

class FakeMachine : public host_cuda::Machine {
public:
	FakeMachine() : host_cuda::Machine(true, Processors(), UsesRoughEdges()), blocks(FakePool::Get()) {
	}
	//! FAKE_GPU_ROUGH: slow in double precision; or vibe_gpu_fp32 is on
	static std::atomic<bool> &UsesRoughEdges() {
		static std::atomic<bool> uses {false};
		return uses;
	}
	//! FAKE_GPU_PROCESSORS: of so many multiprocessors
	static uint64_t Processors() {
		auto number = std::getenv("FAKE_GPU_PROCESSORS");
		return number ? std::strtoull(number, nullptr, 10) : 2;
	}
	std::shared_ptr<void> AllocateShared(size_t bytes) override {
		if (Wants("never room") || (Wants("no room") && bytes > 1000)) {
			throw GpuMemoryError("the fake device has no room");
		}
		return Allocate(bytes);
	}
	void *Pinned(size_t number, size_t bytes) override {
		return blocks.Get(number, bytes);
	}
	uint64_t PinnedBytes() const override {
		return Wants("large host memory") ? uint64_t(1) << 40 : blocks.Bytes();
	}
	uint64_t PinnedSize(size_t number) const override {
		return blocks.Bytes(number);
	}
	void Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) override {
		WarmKernels::Get().Require("exclusive_scan_i32");
		host_cuda::Machine::Scan(in, out, count);
	}
	void Scan(const vibe::i64 *in, vibe::i64 *out, uint64_t count) override {
		WarmKernels::Get().Require("exclusive_scan_i64");
		host_cuda::Machine::Scan(in, out, count);
	}
	void SegmentedReduce(Reduction reduction, const double *in, double *out, uint64_t segments, const vibe::i32 *begin,
	                     const vibe::i32 *end) override {
		WarmKernels::Get().Require(reduction == Reduction::MIN ? "segmented_reduce_min_f64"
		                                                       : "segmented_reduce_max_f64");
		host_cuda::Machine::SegmentedReduce(reduction, in, out, segments, begin, end);
	}
	void Sort(const vibe::u64 *keys, vibe::u64 *keys_out, const vibe::i32 *values, vibe::i32 *values_out,
	          uint64_t count, int bits) override {
		WarmKernels::Get().Require("radix_sort_u64_i32");
		host_cuda::Machine::Sort(keys, keys_out, values, values_out, count, bits);
	}

protected:
	void DoLaunch(const char *unit, const char *entry_point, uint64_t threads,
	              const LaunchArguments &arguments) override {
		WarmKernels::Get().Require(unit);
		host_cuda::Machine::DoLaunch(unit, entry_point, threads, arguments);
	}

private:
	NumberedBlocks blocks;
};

static std::unique_ptr<vibespatial::Machine> NewMachine() {
	return std::make_unique<FakeMachine>();
}

//! Faults of work that begins on so many rows, and ends
static void FailToBegin(size_t rows) {
	if (Wants("failed launch")) {
		throw GpuError("the fake device does not start");
	}
	if (Wants("no room") && rows > 3) {
		throw GpuMemoryError("the fake device has no room");
	}
}

static void FailToFinish(size_t rows) {
	if (Wants("lost for good")) {
		is_lost = true;
		throw GpuError(LOST);
	}
	static std::atomic<int> finished {0};
	if (Wants("lost") && ++finished > 1) {
		throw GpuError("the fake device was lost");
	}
	if ((Wants("late no room") && rows > 3) || Wants("never room")) {
		throw GpuMemoryError("the fake device has no room");
	}
}

static void FailAtOnce() {
	if (Wants("failure")) {
		throw GpuError("the fake device fell off");
	}
}

static void FailLate() {
	if (Wants("late failure")) {
		throw GpuError("the fake device fell off");
	}
}

class FakeBuild : public GpuBuild {
public:
	bool HasRows() const override {
		return build->HasRows();
	}
	bool HasCells() const override {
		return build->HasCells();
	}
	uint64_t Bytes() const override {
		return build->Bytes();
	}
	std::unique_ptr<GpuRowUpload> BeginRows(const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times) override {
		if (Wants("failed rows")) {
			throw GpuError("the fake device takes no rows");
		}
		if (!rows.tree) {
			FailAtOnce();
			if (Wants("nonsense")) {
				throw GpuError("the fake device packs no BoxTree");
			}
		}
		return build->BeginRows(rows, parallel, tree_times);
	}
	void SetCells(const CellIndex::Pieces &pieces, size_t rows, Parallel &parallel, GpuTimes &times) override {
		if (Wants("failed cells")) {
			throw GpuMemoryError("the fake device has no room");
		}
		build->SetCells(pieces, rows, parallel, times);
	}

	const std::shared_ptr<MachineBuild> build = std::make_shared<MachineBuild>(NewMachine);
};

class FakeTile : public GpuTile {
public:
	explicit FakeTile(std::unique_ptr<GpuTile> tile) : tile(std::move(tile)) {
	}
	vibe::Vec2 *Points(size_t capacity) override {
		return tile->Points(capacity);
	}
	uint8_t *Block(size_t number) override {
		return tile->Block(number);
	}
	uint64_t HostBytes() const override {
		return tile->HostBytes();
	}
	void Begin(const GpuTileInput &input) override {
		FailToBegin(input.count);
		count = input.count;
		tile->Begin(input);
	}
	const GpuTileResult &Finish() override {
		FailToFinish(count);
		return tile->Finish();
	}
	void ReadPinned(const GpuTileInput &input, vibe::Vec2 *to) override {
		if (Wants("lost") || Wants("lost for good")) {
			throw GpuError("the fake device was lost");
		}
		tile->ReadPinned(input, to);
	}

private:
	const std::unique_ptr<GpuTile> tile;
	size_t count = 0;
};

class FakeScalarBatch : public GpuScalarBatch {
public:
	explicit FakeScalarBatch(std::unique_ptr<GpuScalarBatch> batch) : batch(std::move(batch)) {
	}
	uint8_t *Block(bool left, size_t number) override {
		return batch->Block(left, number);
	}
	uint64_t HostBytes() const override {
		return batch->HostBytes();
	}
	void Begin(const ScalarInput &input) override {
		FailToBegin(input.count);
		count = input.count;
		batch->Begin(input);
	}
	const ScalarResult &Finish() override {
		FailToFinish(count);
		return batch->Finish();
	}

private:
	const std::unique_ptr<GpuScalarBatch> batch;
	size_t count = 0;
};

class FakeSearch : public GpuSearch {
public:
	explicit FakeSearch(std::unique_ptr<GpuSearch> search) : search(std::move(search)) {
	}
	vibe::Vec2 *Points(size_t capacity) override {
		return search->Points(capacity);
	}
	uint8_t *Block(size_t number) override {
		return search->Block(number);
	}
	uint64_t HostBytes() const override {
		return search->HostBytes();
	}
	void BeginPoints(size_t count) override {
		FailToBegin(count);
		search->BeginPoints(count);
	}
	void BeginShapes(const ShapeRows &shapes) override {
		FailToBegin(shapes.Count());
		search->BeginShapes(shapes);
	}
	const GpuNeighbours &Finish() override {
		FailLate();
		auto &result = search->Finish();
		FailToFinish(result.count);
		return result;
	}

private:
	const std::unique_ptr<GpuSearch> search;
};

class FakeUnion : public GpuOverlay {
public:
	using GpuOverlay::GpuOverlay;
	void Finish(OverlayNet::Edges &&others, bool whole, UnitedNet &united) override {
		GpuOverlay::Finish(std::move(others), whole, united);
		FailLate();
	}
	void FinishParts(UnitedNet &united) override {
		GpuOverlay::FinishParts(united);
		FailLate();
	}
};

class FakeEngine : public GpuEngine {
public:
	explicit FakeEngine(const GpuOptions &options) : options(options) {
	}
	bool WaitForDevice(double timeout, std::string &error) override {
		if (Wants("late device")) {
			// Comes up when somebody waits for it, and goes with the next join
			std::this_thread::sleep_for(std::chrono::milliseconds(timeout > 0 ? 20 : 0));
			is_up = is_up || timeout > 0;
			return is_up;
		}
		if (Wants("slow device")) {
			std::this_thread::sleep_for(std::chrono::duration<double>(timeout));
			return false;
		}
		error = Device().error;
		return error.empty();
	}
	GpuDevice Device() override {
		GpuDevice device;
		device.present = !Wants("no device") && options.device < 2;
		device.name = "Fake";
		device.capability = 90;
		device.fp64_ratio = std::getenv("FAKE_GPU_ROUGH") ? 64 : 2;
		device.processors = static_cast<int>(FakeMachine::Processors());
		device.error = device.present       ? ""
		               : options.device < 2 ? "the fake device is not there"
		                                    : "vibe_gpu_device is " + std::to_string(options.device);
		if (is_lost) {
			device.present = false;
			device.error = LOST;
		}
		return device;
	}
	std::vector<GpuComponent> Components() override {
		GpuComponent component;
		component.name = "options";
		component.found = true;
		component.detail = std::to_string(options.memory_limit) + " " + options.cache_dir + " " +
		                   std::to_string(options.kernel_timeout_seconds);
		return {component};
	}
	bool UsesRoughEdges() override {
		return FakeMachine::UsesRoughEdges();
	}
	//! FAKE_GPU_FIGURES: launch_us, GB/s to the device and back, edges_per_us, cores
	const GpuFigures *Figures() override {
		static const GpuFigures *figures = []() -> const GpuFigures * {
			auto text = std::getenv("FAKE_GPU_FIGURES");
			auto made = new GpuFigures();
			made->source = "fake";
			return text && std::sscanf(text, "%lf %lf %lf %lf %u", &made->launch_us, &made->to_device_gbs,
			                           &made->from_device_gbs, &made->edges_per_us, &made->cores) == 5
			           ? made
			           : nullptr;
		}();
		return figures;
	}
	void Configure(const GpuOptions &changed) override {
		while (changed.memory_limit != options.memory_limit && pins.Free() > 0) {
		}
		options = changed;
	}
	void Request(const std::vector<std::string> &names, const std::string &requested_by, bool) override {
		std::lock_guard<std::mutex> guard(lock);
		if (Wants("no device")) {
			return;
		}
		for (auto &name : names) {
			bool known = false;
			for (auto &status : all) {
				known |= status.name == name;
			}
			if (!known) {
				KernelStatus status;
				status.name = name;
				status.kind = "unit";
				status.requested_by = requested_by;
				status.state = WarmKernels::CanBeReady(name) ? KernelState::READY : KernelState::COMPILING;
				status.source = status.state == KernelState::READY ? "pack" : "";
				if (Wants("failed kernel")) {
					status.state = KernelState::FAILED;
					status.error = "the fake compiler gave up";
				}
				status.begin_ms = 1;
				status.end_ms = 2;
				all.push_back(status);
			}
		}
	}
	std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout) override {
		if (Wants("failed kernel")) {
			return names;
		}
		std::vector<std::string> cold;
		for (auto &name : names) {
			if (WarmKernels::CanBeReady(name)) {
				WarmKernels::Get().Add(name);
			} else {
				cold.push_back(name);
			}
		}
		if (!cold.empty()) {
			std::this_thread::sleep_for(std::chrono::duration<double>(timeout));
		}
		return cold;
	}
	std::vector<KernelStatus> Status() override {
		std::lock_guard<std::mutex> guard(lock);
		return all;
	}
	std::vector<GpuMemoryRow> Memory() override {
		auto &pinned = FakePool::Get();
		std::vector<GpuMemoryRow> rows {GpuMemoryRow {"pool", "fake", 1, 2, 3},
		                                GpuMemoryRow {"pinned staging", "fake", pinned.Bytes(), pinned.PeakBytes(), 1}};
		pins.Report(rows);
		shares.Report(rows);
		return rows;
	}
	uint64_t MemoryLimit() override {
		return options.memory_limit;
	}
	void Quiesce(double) override {
	}
	std::vector<GpuStep> Steps() override {
		return {};
	}
	void AddStep(const GpuStep &) override {
	}
	PackedBoxes PackBoxes(const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) override {
		FailAtOnce();
		EnsureWarm(KernelNeeds(KernelSet::BOX_INDEX), 0);
		auto packed = vibespatial::PackBoxes(*NewMachine(), boxes, count, parallel, times);
		if (Wants("nonsense")) {
			packed.ids.push_back(0);
		}
		return packed;
	}
	std::shared_ptr<GpuBuild> FindBuild(const BuildKey &key) override {
		std::lock_guard<std::mutex> guard(lock);
		is_up = false;
		auto found = builds.find(key);
		return found == builds.end() ? nullptr : found->second;
	}
	std::shared_ptr<GpuBuild> NewBuild() override {
		return std::make_shared<FakeBuild>();
	}
	void KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) override {
		std::lock_guard<std::mutex> guard(lock);
		if (options.resident_limit > 0) {
			builds[key] = build;
		}
	}
	std::unique_ptr<GpuTile> NewTile(const std::shared_ptr<GpuBuild> &build, const JoinCondition &condition) override {
		return std::make_unique<FakeTile>(
		    MakeTile(NewMachine(), std::static_pointer_cast<FakeBuild>(build)->build, condition));
	}
	std::shared_ptr<GpuPinned> NewPinned(const PinnedLayout &layout) override {
		return pins.New(NewMachine, layout);
	}
	std::unique_ptr<GpuSharedMemory> NewSharedMemory() override {
		FailAtOnce();
		return shares.New(NewMachine());
	}
	std::unique_ptr<GpuSearch> NewSearch(const std::shared_ptr<GpuBuild> &build, uint32_t k, double most) override {
		FailAtOnce();
		return std::make_unique<FakeSearch>(
		    MakeSearch(NewMachine(), std::static_pointer_cast<FakeBuild>(build)->build, k, most));
	}
	std::unique_ptr<GpuScalarBatch> NewScalarBatch(const ScalarTask &task) override {
		return std::make_unique<FakeScalarBatch>(MakeScalarBatch(NewMachine(), task));
	}
	std::unique_ptr<GpuUnion> BeginUnion(const OverlayNet &net, Parallel &parallel) override {
		FailAtOnce();
		if (Wants("no room") || (Wants("room for few") && net.parts > 3)) {
			throw GpuMemoryError("the fake device has no room");
		}
		EnsureWarm(KernelNeeds(KernelSet::UNION_AGG), 0);
		return std::make_unique<FakeUnion>(NewMachine(), net, parallel);
	}
	std::vector<std::string> SelfTest() override {
		return {};
	}

private:
	GpuOptions options;
	std::atomic<bool> is_up {false};
	std::mutex lock;
	std::map<BuildKey, std::shared_ptr<GpuBuild>> builds;
	std::vector<KernelStatus> all;
	MachinePins pins {[this] { return options.memory_limit; }};
	MachineShares shares;
};

extern "C" __attribute__((visibility("default"))) GpuEngine *
vibespatial_open_engine(const char *interface_version, const GpuOptions *options, const char **error) {
	if (Wants("slow")) {
		std::this_thread::sleep_for(std::chrono::seconds(2));
	}
	if (Wants("refusal") || std::string(interface_version) != VIBESPATIAL_ENGINE_INTERFACE) {
		*error = "the plug-in is for another interface";
		return nullptr;
	}
	const auto filter = options->fp32_filter;
	FakeMachine::UsesRoughEdges() =
	    filter == Fp32Filter::ON || (filter == Fp32Filter::AUTO && std::getenv("FAKE_GPU_ROUGH"));
	return new FakeEngine(*options);
}
