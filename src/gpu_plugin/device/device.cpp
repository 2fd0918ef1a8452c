#include "gpu_plugin/device/device.hpp"

#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/load_functions.hpp"
#include "gpu_plugin/compile/device_loss.hpp"
#include "gpu_plugin/compile/temporary_variable.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <future>
#include <link.h>
#include <rmm/version_config.hpp>
#include <unistd.h>

namespace vibespatial {

namespace {

using Clock = std::chrono::steady_clock;

//! Steps that are kept
constexpr size_t MAX_STEPS = 4096;

//! The share of free memory that is used where no limit is set
constexpr double SHARE_OF_FREE = 0.9;

//! Double precision so many times slower than single is slow: it is 2 on the cards made for it, 32 or 64 on others
constexpr int SLOW_FP64 = 8;

//! Threads of a multiprocessor, where the driver does not tell how many it runs of a kernel
constexpr uint64_t THREADS_IF_UNKNOWN = 1024;

//! How long the end of the process waits for a thread, which may be stuck in a driver that was shut down already
constexpr double EXIT_SECONDS = 1;

std::atomic<CudaEngine *> current {nullptr};
pid_t owner = 0;

//! Not in a forked child, which has none of the threads
void ShutdownAtExit() {
	auto *engine = current.load();
	if (engine && getpid() == owner) {
		engine->Shutdown();
	}
}

} // namespace

CudaEngine::CudaEngine(const GpuOptions &options)
    : epoch(Clock::now()), epoch_us(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count()),
      libraries(options), precompiler(options, libraries, epoch), options(options), primitives(libraries),
      streams(std::make_unique<StreamPool>()), resident(options.resident_limit),
      pins([this] { return MemoryLimit(); }) {
	owner = getpid();
	std::atexit(ShutdownAtExit);
	coming_up = BackgroundThread([this] {
		try {
			BringUp();
		} catch (const std::exception &exception) {
			streams->Blocks().DropPrepared();
			SetAbsent(GpuDevice(), exception.what());
		}
		// Registered again, to run before what CUDA's libraries have registered since
		std::atexit(ShutdownAtExit);
	});
	// Not before: one that could not be made is not shut down
	current = this;
}

void CudaEngine::Shutdown() {
	if (shut_down.exchange(true)) {
		return;
	}
	{
		std::lock_guard<std::mutex> guard(lock);
		stop_calibrating = true;
	}
	StopLoadingAhead();
	coming_up.JoinWithin(EXIT_SECONDS);
	loading_ahead.JoinWithin(EXIT_SECONDS);
	calibrating.JoinWithin(EXIT_SECONDS);
	opening_libraries.JoinWithin(EXIT_SECONDS);
	precompiler.Stop(EXIT_SECONDS);
}

void CudaEngine::StopLoadingAhead() {
	{
		std::lock_guard<std::mutex> guard(lock);
		no_more_ahead = true;
	}
	changed.notify_all();
}

void CudaEngine::Quiesce(double timeout_seconds) {
	const auto begin = Clock::now();
	StopLoadingAhead();
	{
		std::unique_lock<std::mutex> guard(lock);
		changed.wait_for(guard, std::chrono::duration<double>(timeout_seconds), [&] {
			return state == State::ABSENT || (state == State::UP && libraries_open && !loading_functions);
		});
	}
	const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
	precompiler.WaitForLoads(std::max(0.0, timeout_seconds - spent));
}

int64_t CudaEngine::MicrosOf(Clock::time_point at) const {
	return epoch_us + std::chrono::duration_cast<std::chrono::microseconds>(at - epoch).count();
}

double CudaEngine::EndStep(const char *lane, const std::string &name, Clock::time_point begin) {
	const auto now = Clock::now();
	AddStep(GpuStep {lane, name, MicrosOf(begin), MicrosOf(now)});
	return std::chrono::duration<double, std::milli>(now - begin).count();
}

void CudaEngine::AddStep(const GpuStep &step) {
	std::lock_guard<std::mutex> guard(steps_lock);
	steps.push_back(step);
	if (steps.size() > MAX_STEPS) {
		steps.pop_front();
	}
}

std::vector<GpuStep> CudaEngine::Steps() {
	std::vector<GpuStep> rows;
	for (auto &status : precompiler.Status()) {
		if (status.state == KernelState::READY || status.state == KernelState::FAILED) {
			auto micros = [&](double ms) { return epoch_us + static_cast<int64_t>(ms * 1000); };
			const auto how = status.source.empty() ? "failed" : status.source;
			rows.push_back(
			    GpuStep {"compile", status.name + " (" + how + ")", micros(status.begin_ms), micros(status.end_ms)});
		}
	}
	std::lock_guard<std::mutex> guard(steps_lock);
	rows.insert(rows.end(), steps.begin(), steps.end());
	return rows;
}

void CudaEngine::SetAbsent(GpuDevice found, const std::string &why) {
	found.present = false;
	found.error = why;
	{
		std::lock_guard<std::mutex> guard(lock);
		device = found;
		state = State::ABSENT;
	}
	changed.notify_all();
	precompiler.Refuse("no GPU: " + why);
}

void CudaEngine::BringUp() {
	GpuDevice found;
	std::string identity;
	std::future<void> prepared;
	auto absent = [&](const std::string &why) {
		if (prepared.valid()) {
			prepared.wait();
			streams->Blocks().DropPrepared();
		}
		SetAbsent(found, why);
	};
	auto &driver = libraries.Driver();
	if (!driver) {
		absent(driver.component.detail);
		return;
	}
	// Beside the driver's start
	try {
		prepared = std::async(std::launch::async, [this] { streams->Blocks().Prepare(); });
	} catch (const std::exception &) { // NOLINT: it is pinned without that, only later
	}
	// Two hardware queues, unless the user has set their number: the driver takes about 8 ms for each of the default eight, and reads
	// the number from the environment only
	TemporaryVariable few_queues("CUDA_DEVICE_MAX_CONNECTIONS", "2");
	auto begin = Clock::now();
	int count = 0;
	auto status = cudaGetDeviceCount(&count);
	found.driver_ms = EndStep("start", "driver", begin);
	cudaDriverGetVersion(&found.driver_version);
	if (status != cudaSuccess || count == 0) {
		cudaGetLastError();
		absent(status == cudaSuccess ? "the driver knows no device"
		                             : std::string("the driver is there, but: ") + cudaGetErrorString(status));
		return;
	}
	if (options.device < 0 || options.device >= count) {
		absent("vibe_gpu_device is " + std::to_string(options.device) + ", and there are " + std::to_string(count) +
		       " devices, numbered from 0");
		return;
	}
	int major = 0, minor = 0;
	status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options.device);
	if (status == cudaSuccess) {
		status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, options.device);
	}
	if (status != cudaSuccess) {
		absent(std::string("the device: ") + cudaGetErrorString(status));
		return;
	}
	found.capability = major * 10 + minor;
	// Kernels are looked up while the context is made, and the large libraries of the compilers are opened. On a busy machine the start of
	// a thread takes milliseconds, which the context does not wait for.
	opening_libraries = BackgroundThread([this, capability = found.capability] {
		try {
			precompiler.Start(capability);
		} catch (const std::exception &exception) {
			precompiler.Refuse(std::string("no thread for kernels: ") + exception.what());
		}
		const auto from = Clock::now();
		libraries.Cccl();
		const double spent = EndStep("start", "libraries", from);
		{
			std::lock_guard<std::mutex> guard(lock);
			device.libraries_ms = spent;
			libraries_open = true;
		}
		changed.notify_all();
	});
	try {
		begin = Clock::now();
		CheckCuda(cudaSetDevice(options.device), "the device");
		CheckCuda(cudaFree(nullptr), "the device's context");
		found.context_ms = EndStep("start", "context", begin);
		cudaDeviceProp properties;
		CheckCuda(cudaGetDeviceProperties(&properties, options.device), "the device");
		found.name = properties.name;
		found.processors = properties.multiProcessorCount;
		CheckCuda(
		    cudaDeviceGetAttribute(&found.fp64_ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, options.device),
		    "the device");
		rough_edges = options.fp32_filter == Fp32Filter::ON ||
		              (options.fp32_filter == Fp32Filter::AUTO && found.fp64_ratio >= SLOW_FP64);
		identity = found.name + " " + std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes)) + " driver " +
		           std::to_string(found.driver_version);
		size_t free_bytes = 0, total_bytes = 0;
		CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "the device's memory");
		found.free_memory = free_bytes;
		found.total_memory = total_bytes;
		{
			std::lock_guard<std::mutex> guard(lock);
			found.libraries_ms = device.libraries_ms;
			device = found;
		}
		// Before kernels are loaded, which would wait for it in the driver
		begin = Clock::now();
		if (prepared.valid()) {
			prepared.wait();
		}
		streams->Blocks().PinPrepared();
		found.memory_ms = EndStep("start", "pinned memory", begin);
		precompiler.SetLoader([this](const std::string &name, bool is_unit, const std::string &payload) {
			Load(name, is_unit, payload);
		});
		begin = Clock::now();
		MakeMemory();
		streams->Take();
		found.memory_ms += EndStep("start", "memory", begin);
	} catch (const std::exception &exception) {
		absent(exception.what());
		return;
	}
	{
		std::lock_guard<std::mutex> guard(lock);
		device.memory_ms = found.memory_ms;
		device.present = true;
		device.error.clear();
		state = State::UP;
	}
	changed.notify_all();
	if (rough_edges) {
		precompiler.Request({"point_in_polygon_rough"}, "start", false);
	}
	try {
		loading_ahead = BackgroundThread([this] { LoadAhead(); });
	} catch (const std::exception &) { // NOLINT: functions are loaded when they are launched
	}
	try {
		calibrating = BackgroundThread([this, identity] { Calibrate(identity); });
	} catch (const std::exception &) { // NOLINT: vibe_gpu_info() says that nothing was measured
	}
}

void CudaEngine::MakeMemory() {
	size_t free_bytes = 0, total_bytes = 0;
	CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "the device's memory");
	uint64_t limit = static_cast<uint64_t>(static_cast<double>(free_bytes) * SHARE_OF_FREE);
	MemoryTier tier;
	{
		std::lock_guard<std::mutex> guard(lock);
		if (options.memory_limit > 0) {
			limit = std::min<uint64_t>(options.memory_limit, total_bytes);
		}
		tier = options.memory_tier;
	}
	auto made = std::make_shared<DeviceMemory>(tier, limit, [this] { return FreeCaches(); });
	std::lock_guard<std::mutex> guard(lock);
	memory = std::move(made);
}

size_t CudaEngine::FreeCaches() {
	const size_t freed = resident.Free() + streams->FreeTemporaries();
	return freed > 0 ? freed : pins.Free();
}

std::shared_ptr<DeviceMemory> CudaEngine::CurrentMemory() {
	std::lock_guard<std::mutex> guard(lock);
	return memory;
}

bool CudaEngine::WaitForDevice(double timeout_seconds, std::string &error) {
	std::unique_lock<std::mutex> guard(lock);
	changed.wait_for(guard, std::chrono::duration<double>(timeout_seconds), [&] { return state != State::COMING; });
	error = state == State::COMING ? "the device is still coming up" : device.error;
	if (DeviceLoss::IsLost()) {
		error = DeviceLoss::Text();
	}
	return state == State::UP && !DeviceLoss::IsLost();
}

GpuDevice CudaEngine::Device() {
	std::unique_lock<std::mutex> guard(lock);
	auto copy = device;
	const bool up = state == State::UP;
	guard.unlock();
	if (DeviceLoss::IsLost()) {
		copy.present = false;
		copy.error = DeviceLoss::Text();
		return copy;
	}
	if (up && cudaSetDevice(copy.present ? options.device : 0) == cudaSuccess) {
		size_t free_bytes = 0, total_bytes = 0;
		if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
			copy.free_memory = free_bytes;
		}
	}
	return copy;
}

std::vector<GpuComponent> CudaEngine::Components() {
	std::vector<GpuComponent> rows;
	rows.push_back(libraries.Driver().component);
	rows.push_back(libraries.Nvrtc().component);
	rows.push_back(libraries.NvJitLink().component);
	rows.push_back(libraries.Cccl().component);
	rows.push_back(libraries.CcclHeaders());
	GpuComponent rmm;
	rmm.name = "librmm";
	rmm.found = true; // the plug-in is linked with it
	link_map *map = nullptr;
	if (void *handle = dlopen("librmm.so", RTLD_NOW | RTLD_NOLOAD)) {
		if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void *>(&map)) == 0 && map) {
			rmm.path = map->l_name;
		}
		dlclose(handle);
	}
	rmm.version = std::to_string(RMM_VERSION_MAJOR) + "." + std::to_string(RMM_VERSION_MINOR) + "." +
	              std::to_string(RMM_VERSION_PATCH);
	rows.push_back(rmm);
	rows.push_back(libraries.Helper());
	for (auto &row : precompiler.Components()) {
		rows.push_back(row);
	}
	return rows;
}

void CudaEngine::Configure(const GpuOptions &new_options) {
	bool memory_changed;
	std::shared_ptr<DeviceMemory> held;
	{
		std::lock_guard<std::mutex> guard(lock);
		if (new_options.device != options.device && state == State::UP) {
			throw GpuError("device " + std::to_string(options.device) +
			               " is in use: vibe_gpu_device must be set (VIBESPATIAL_GPU_DEVICE) before the engine starts");
		}
		memory_changed =
		    new_options.memory_tier != options.memory_tier || new_options.memory_limit != options.memory_limit;
		held = DeviceLoss::IsLost() ? nullptr : memory;
	}
	if (memory_changed && held) {
		// Work in progress keeps its memory; idle caches would keep theirs for ever
		CheckCuda(cudaSetDevice(options.device), "the device");
		FreeCaches();
		while (pins.Free() > 0) {
		}
	}
	resident.SetLimit(new_options.resident_limit);
	{
		std::lock_guard<std::mutex> guard(lock);
		options = new_options;
	}
	precompiler.Configure(new_options);
	if (memory_changed && held) {
		held.reset();
		MakeMemory();
	}
}

void CudaEngine::Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent) {
	precompiler.Request(names, requested_by, urgent);
}

std::vector<std::string> CudaEngine::EnsureWarm(const std::vector<std::string> &names, double timeout_seconds) {
	return precompiler.EnsureWarm(names, timeout_seconds);
}

std::vector<KernelStatus> CudaEngine::Status() {
	return precompiler.Status();
}

uint64_t CudaEngine::MemoryLimit() {
	auto held = CurrentMemory();
	return held ? held->Limit() : 0;
}

std::vector<GpuMemoryRow> CudaEngine::Memory() {
	std::vector<GpuMemoryRow> rows;
	if (auto held = CurrentMemory()) {
		held->Report(rows);
	}
	resident.Report(rows);
	pins.Report(rows);
	shares.Report(rows);
	streams->Report(rows);
	return rows;
}

void CudaEngine::Load(const std::string &name, bool is_unit, const std::string &payload) {
	CheckCuda(cudaSetDevice(options.device), "the device");
	cudaLibrary_t library = nullptr;
	if (is_unit) {
		CheckCuda(cudaLibraryLoadData(&library, payload.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
		          name.c_str());
	} else {
		library = primitives.Load(name, payload);
	}
	std::lock_guard<std::mutex> guard(lock);
	if (is_unit) {
		units[name] = library;
	}
	loaded.emplace_back(name, library);
	changed.notify_all();
}

void CudaEngine::LoadAhead() {
	std::unique_lock<std::mutex> guard(lock);
	while (true) {
		changed.wait(guard, [&] { return no_more_ahead || !loaded.empty(); });
		const auto begin = Clock::now();
		loading_functions = true;
		while (!no_more_ahead && !loaded.empty()) {
			const auto next = loaded.front();
			loaded.pop_front();
			guard.unlock();
			try {
				CheckCuda(cudaSetDevice(options.device), "the device");
				LoadFunctions(next.second, next.first.c_str());
			} catch (const std::exception &) { // NOLINT: who launches it is told
			}
			guard.lock();
		}
		loading_functions = false;
		changed.notify_all();
		if (no_more_ahead) {
			return;
		}
		EndStep("start", "functions", begin);
	}
}

cudaKernel_t CudaEngine::Kernel(const char *unit, const char *entry_point) {
	cudaLibrary_t library;
	{
		std::lock_guard<std::mutex> guard(lock);
		const auto found = units.find(unit);
		if (found == units.end()) {
			throw GpuError(std::string("unit ") + unit + " was not loaded");
		}
		library = found->second;
	}
	cudaKernel_t kernel = nullptr;
	CheckCuda(cudaLibraryGetKernel(&kernel, library, entry_point), entry_point);
	return kernel;
}

uint64_t CudaEngine::ThreadsAtOnce(cudaKernel_t kernel, uint64_t block) {
	std::unique_lock<std::mutex> guard(lock);
	const auto processors = static_cast<uint64_t>(std::max(1, device.processors));
	const auto known = blocks_at_once.find(kernel);
	if (known != blocks_at_once.end()) {
		return processors * known->second * block;
	}
	guard.unlock();
	int blocks = 0;
	if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reinterpret_cast<const void *>(kernel),
	                                                  static_cast<int>(block), 0) != cudaSuccess) {
		// A launch of any size is right; what is wrong with the device, if it is that, the launch says
		cudaGetLastError();
		blocks = static_cast<int>(THREADS_IF_UNKNOWN / block);
	}
	guard.lock();
	const auto made = blocks_at_once.emplace(kernel, static_cast<uint64_t>(std::max(1, blocks)));
	return processors * made.first->second * block;
}

void CudaEngine::UseDevice() {
	if (!no_more_ahead.load(std::memory_order_relaxed)) {
		StopLoadingAhead();
	}
	CheckCuda(cudaSetDevice(options.device), "the device");
}

void CudaEngine::Need(const std::vector<std::string> &names, const char *requested_by, GpuTimes &times) {
	const auto begin = Clock::now();
	StopLoadingAhead();
	double timeout;
	{
		std::lock_guard<std::mutex> guard(lock);
		timeout = options.kernel_timeout_seconds;
	}
	precompiler.Request(names, requested_by, true);
	std::string error;
	if (!WaitForDevice(timeout, error)) {
		throw GpuError(error);
	}
	for (auto &name : names) {
		const double left = timeout - std::chrono::duration<double>(Clock::now() - begin).count();
		if (!precompiler.Wait(name, requested_by, std::max(left, 0.0), error)) {
			throw GpuError(error);
		}
	}
	UseDevice();
	times.wait_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

} // namespace vibespatial
