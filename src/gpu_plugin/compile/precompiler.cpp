#include "gpu_plugin/compile/precompiler.hpp"

#include "gpu_plugin/compile/compilers.hpp"
#include "gpu_plugin/compile/faults.hpp"
#include "gpu_plugin/compile/helper_process.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <sched.h>
#include <sys/sysinfo.h>

namespace vibespatial {

namespace {

//! Memory of one compiler
constexpr uint64_t WORKER_MEMORY = 700ull << 20;
//! With fewer workers than this, specs of one algorithm share a process and its precompiled headers
constexpr uint32_t MANY_WORKERS = 8;
constexpr uint32_t MAX_WORKERS = 32;

//! Radix sorts take two to three times as long as all else: begun first, they end with the others
int CompileRank(const KernelSpec &spec) {
	return std::strcmp(spec.algorithm, "radix_sort") == 0 ? 0 : 1;
}

} // namespace

uint32_t Precompiler::DefaultWorkers() {
	cpu_set_t set;
	CPU_ZERO(&set);
	uint32_t cores = 1;
	if (sched_getaffinity(0, sizeof(set), &set) == 0) {
		cores = static_cast<uint32_t>(CPU_COUNT(&set));
	}
	struct sysinfo info;
	uint64_t by_memory = cores;
	if (sysinfo(&info) == 0) {
		const uint64_t available = (uint64_t(info.freeram) + info.bufferram) * info.mem_unit;
		// Page cache counts as used there, and gives way
		by_memory =
		    std::max<uint64_t>(1, std::max(available, uint64_t(info.totalram) * info.mem_unit / 2) / WORKER_MEMORY);
	}
	return static_cast<uint32_t>(std::max<uint64_t>(1, std::min<uint64_t>({cores, by_memory, MAX_WORKERS})));
}

Precompiler::Precompiler(const GpuOptions &options_p, Libraries &libraries, Clock::time_point epoch)
    : libraries(libraries), epoch(epoch), options(options_p) {
	for (auto &unit : KernelUnits()) {
		auto &kernel = kernels[unit.name];
		kernel.status.kind = "unit";
		kernel.status.name = unit.name;
		kernel.is_unit = true;
	}
	for (auto &spec : KernelSpecs()) {
		auto &kernel = kernels[spec.name];
		kernel.status.kind = "spec";
		kernel.status.name = spec.name;
		kernel.is_unit = false;
	}
	cache = std::make_shared<KernelCache>(options.cache_dir, options.cache_limit);
	pack.OpenTrusted(options.folder + "/kernels.pack");
}

Precompiler::~Precompiler() {
	Stop();
}

void Precompiler::Stop(double timeout_seconds) {
	std::vector<BackgroundThread> ending;
	{
		std::lock_guard<std::mutex> guard(lock);
		stopping = true;
		ending.swap(threads);
	}
	changed.notify_all();
	for (auto &thread : ending) {
		thread.JoinWithin(timeout_seconds);
	}
}

void Precompiler::WaitForLoads(double timeout_seconds) {
	std::unique_lock<std::mutex> guard(lock);
	changed.wait_for(guard, std::chrono::duration<double>(timeout_seconds), [&] {
		if (looking > 0 || loading > 0) {
			return false;
		}
		for (auto &entry : kernels) {
			if (capability > 0 && entry.second.status.state == KernelState::PENDING && !entry.second.missed) {
				return false;
			}
		}
		return true;
	});
}

double Precompiler::Millis(Clock::time_point at) const {
	return std::chrono::duration<double, std::milli>(at - epoch).count();
}

uint32_t Precompiler::Workers() const {
	return options.compile_workers > 0 ? std::min(options.compile_workers, MAX_WORKERS) : DefaultWorkers();
}

void Precompiler::Start(int capability_p) {
	std::lock_guard<std::mutex> guard(lock);
	if (stopping) {
		return;
	}
	capability = capability_p;
	changed.notify_all();
	StartThreads();
}

void Precompiler::StartThreads() {
	// More than the compilers: what lies on disk must not wait behind them
	const size_t count = std::min<size_t>(Workers() + 4, kernels.size());
	try {
		threads.reserve(count);
		while (threads.size() < count) {
			threads.emplace_back([this] { Worker(); });
		}
	} catch (const std::exception &) {
		if (threads.empty()) {
			throw;
		}
	}
}

void Precompiler::SetLoader(Loader loader_p) {
	std::lock_guard<std::mutex> guard(lock);
	loader = std::move(loader_p);
	changed.notify_all();
}

void Precompiler::Refuse(const std::string &reason) {
	std::lock_guard<std::mutex> guard(lock);
	refused = reason;
	for (auto &entry : kernels) {
		if (entry.second.status.state == KernelState::PENDING) {
			entry.second.status.state = KernelState::FAILED;
			entry.second.status.error = reason;
		}
	}
	changed.notify_all();
}

void Precompiler::Configure(const GpuOptions &new_options) {
	std::lock_guard<std::mutex> guard(lock);
	if (new_options.cache_dir != options.cache_dir || new_options.cache_limit != options.cache_limit) {
		cache = std::make_shared<KernelCache>(new_options.cache_dir, new_options.cache_limit);
	}
	const bool source_changed = new_options.kernel_source != options.kernel_source;
	options = new_options;
	for (auto &entry : kernels) {
		auto &kernel = entry.second;
		// What failed for want of a source may have one now
		if (source_changed && kernel.status.state == KernelState::FAILED && refused.empty()) {
			kernel.status.state = KernelState::IDLE;
			kernel.missed = false;
		}
	}
	if (capability > 0 && refused.empty() && !stopping) {
		StartThreads();
	}
	changed.notify_all();
}

void Precompiler::Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent) {
	std::lock_guard<std::mutex> guard(lock);
	for (auto &name : names) {
		const auto found = kernels.find(name);
		if (found == kernels.end()) {
			continue;
		}
		auto &kernel = found->second;
		if (kernel.status.state == KernelState::PENDING && urgent && !kernel.urgent) {
			kernel.urgent = true;
			kernel.status.requested_by += ", " + requested_by;
		}
		if (kernel.status.state != KernelState::IDLE) {
			continue;
		}
		kernel.status.requested_by = requested_by;
		kernel.urgent = urgent;
		kernel.order = next_order++;
		kernel.requested = Clock::now();
		kernel.missed = false;
		kernel.status.error = refused;
		kernel.status.state = refused.empty() ? KernelState::PENDING : KernelState::FAILED;
	}
	changed.notify_all();
}

bool Precompiler::Wait(const std::string &name, const std::string &requested_by, double timeout_seconds,
                       std::string &error) {
	Request({name}, requested_by, true);
	std::unique_lock<std::mutex> guard(lock);
	const auto found = kernels.find(name);
	if (found == kernels.end()) {
		error = name + " is no kernel of vibespatial";
		return false;
	}
	auto &status = found->second.status;
	changed.wait_for(guard, std::chrono::duration<double>(timeout_seconds),
	                 [&] { return status.state == KernelState::READY || status.state == KernelState::FAILED; });
	if (status.state == KernelState::READY) {
		return true;
	}
	error = status.state == KernelState::FAILED
	            ? "kernel " + name + ": " + status.error
	            : "kernel " + name + " was not ready in " + std::to_string(timeout_seconds) + " s";
	return false;
}

std::vector<std::string> Precompiler::EnsureWarm(const std::vector<std::string> &names, double timeout_seconds) {
	Request(names, "vibe_ensure_warm", true);
	std::unique_lock<std::mutex> guard(lock);
	auto settled = [&] {
		for (auto &name : names) {
			const auto found = kernels.find(name);
			if (found != kernels.end() && found->second.status.state != KernelState::READY &&
			    found->second.status.state != KernelState::FAILED) {
				return false;
			}
		}
		return true;
	};
	changed.wait_for(guard, std::chrono::duration<double>(timeout_seconds), settled);
	std::vector<std::string> cold;
	for (auto &name : names) {
		const auto found = kernels.find(name);
		if (found == kernels.end() || found->second.status.state != KernelState::READY) {
			cold.push_back(name);
		}
	}
	return cold;
}

std::vector<KernelStatus> Precompiler::Status() const {
	std::lock_guard<std::mutex> guard(lock);
	std::vector<KernelStatus> rows;
	const auto now = Clock::now();
	auto add = [&](const char *name) {
		auto &kernel = kernels.at(name);
		rows.push_back(kernel.status);
		auto &row = rows.back();
		if (row.state == KernelState::PENDING) {
			row.queue_ms = std::chrono::duration<double, std::milli>(now - kernel.requested).count();
		} else if (row.state == KernelState::COMPILING) {
			row.wall_ms = std::chrono::duration<double, std::milli>(now - kernel.begun).count();
		}
		if (row.state == KernelState::IDLE && row.error.empty()) {
			row.error = refused;
		}
	};
	for (auto &unit : KernelUnits()) {
		add(unit.name);
	}
	for (auto &spec : KernelSpecs()) {
		add(spec.name);
	}
	return rows;
}

std::vector<GpuComponent> Precompiler::Components() {
	std::lock_guard<std::mutex> guard(lock);
	GpuComponent pack_row, cache_row;
	pack_row.name = "release pack";
	pack_row.path = pack.Path();
	pack_row.found = pack.IsOpen();
	if (pack.IsOpen()) {
		pack_row.version = VIBESPATIAL_VERSION;
		pack_row.detail = std::to_string(pack.Count()) + " kernels for";
		for (auto built_for : pack.Capabilities()) {
			pack_row.detail += " sm_" + std::to_string(built_for);
		}
	} else {
		pack_row.detail = pack.Problem() + "; make builds it";
	}
	cache_row.name = "disk cache";
	cache_row.path = cache->Folder();
	cache_row.found = cache->Usable();
	const auto contents = cache->Measure();
	const auto problem = cache->Problem();
	cache_row.detail = cache->Usable()
	                       ? std::to_string(contents.files) + " kernels, " + std::to_string(contents.bytes) + " of " +
	                             std::to_string(options.cache_limit) + " bytes"
	                       : "";
	if (!problem.empty()) {
		cache_row.detail += (cache_row.detail.empty() ? "" : "; ") + problem;
	}
	return {pack_row, cache_row};
}

std::shared_ptr<KernelCache> Precompiler::Cache() const {
	std::lock_guard<std::mutex> guard(lock);
	return cache;
}

KernelKey Precompiler::KeyOf(const Kernel &kernel) {
	return kernel.is_unit ? UnitKey(*FindUnit(kernel.status.name), capability, libraries)
	                      : SpecKey(*FindSpec(kernel.status.name), capability, libraries);
}

void Precompiler::Begin(Kernel &kernel) {
	kernel.status.state = KernelState::COMPILING;
	kernel.begun = Clock::now();
	kernel.status.begin_ms = Millis(kernel.begun);
	kernel.status.queue_ms = std::chrono::duration<double, std::milli>(kernel.begun - kernel.requested).count();
}

std::vector<Precompiler::Kernel *> Precompiler::Next(bool &compile, bool &precompiled_headers) {
	Kernel *look_up = nullptr, *first = nullptr;
	auto before = [](const Kernel &a, const Kernel *b) {
		return !b || a.urgent > b->urgent || (a.urgent == b->urgent && a.order < b->order);
	};
	auto compile_before = [&](const Kernel &a, const Kernel *b) {
		if (!b || a.urgent != b->urgent) {
			return before(a, b);
		}
		const int rank_a = a.is_unit ? 1 : CompileRank(*FindSpec(a.status.name));
		const int rank_b = b->is_unit ? 1 : CompileRank(*FindSpec(b->status.name));
		return rank_a != rank_b ? rank_a < rank_b : before(a, b);
	};
	for (auto &entry : kernels) {
		auto &kernel = entry.second;
		if (kernel.status.state != KernelState::PENDING) {
			continue;
		}
		if (!kernel.missed) {
			if (before(kernel, look_up)) {
				look_up = &kernel;
			}
		} else if (compile_before(kernel, first)) {
			first = &kernel;
		}
	}
	compile = false;
	if (look_up) {
		return {look_up};
	}
	const auto workers = Workers();
	if (!first || compiling >= workers) {
		return {};
	}
	if (looking > 0 && workers < MANY_WORKERS && !first->is_unit) {
		// What is being looked up may turn out to belong to the same group
		return {};
	}
	compile = true;
	precompiled_headers = false;
	std::vector<Kernel *> group {first};
	if (!first->is_unit && workers < MANY_WORKERS) {
		const std::string algorithm = FindSpec(first->status.name)->algorithm;
		for (auto &entry : kernels) {
			auto &kernel = entry.second;
			if (&kernel != first && !kernel.is_unit && kernel.missed && kernel.status.state == KernelState::PENDING &&
			    kernel.urgent == first->urgent && algorithm == FindSpec(kernel.status.name)->algorithm) {
				group.push_back(&kernel);
			}
		}
		precompiled_headers = group.size() > 1;
	}
	return group;
}

void Precompiler::Worker() {
	std::unique_lock<std::mutex> guard(lock);
	while (!stopping) {
		bool compile = false, precompiled_headers = false;
		const auto work = Next(compile, precompiled_headers);
		if (work.empty()) {
			changed.wait(guard);
			continue;
		}
		for (auto *kernel : work) {
			Begin(*kernel);
		}
		auto &busy = compile ? compiling : looking;
		busy++;
		const char *problem = nullptr;
		try {
			if (!compile) {
				LookUp(*work[0], guard);
			} else if (work[0]->is_unit) {
				CompileUnits(*work[0], guard);
			} else {
				CompileSpecs(work, precompiled_headers, guard);
			}
		} catch (const std::bad_alloc &) {
			problem = "no memory";
		} catch (...) {
			problem = "failed";
		}
		if (!guard.owns_lock()) {
			guard.lock();
		}
		for (auto *kernel : work) {
			if (problem && kernel->status.state == KernelState::COMPILING) {
				kernel->status.error = problem; // so short that it needs no memory
				kernel->status.state = KernelState::FAILED;
			}
		}
		busy--;
		changed.notify_all();
	}
}

bool Precompiler::WaitForLoader(Kernel &kernel, std::string &why_not) {
	std::unique_lock<std::mutex> guard(lock);
	const auto begin = Clock::now();
	changed.wait(guard, [&] { return loader || !refused.empty() || stopping; });
	const auto waited = Clock::now() - begin;
	kernel.begun += waited;
	kernel.status.begin_ms = Millis(kernel.begun);
	kernel.status.queue_ms += std::chrono::duration<double, std::milli>(waited).count();
	if (!loader) {
		why_not = refused.empty() ? "the process is ending" : refused;
		return false;
	}
	loading++;
	return true;
}

void Precompiler::Finish(Kernel &kernel, const std::string &payload, const char *source) {
	std::string error;
	if (!WaitForLoader(kernel, error)) {
		Fail(kernel, error);
		return;
	}
	try {
		Faults::Get().Check(Fault::COMPILE);
		loader(kernel.status.name, kernel.is_unit, payload);
	} catch (const std::exception &exception) {
		error = exception.what();
		error = error.empty() ? "not loaded" : error;
	}
	std::lock_guard<std::mutex> guard(lock);
	loading--;
	const auto now = Clock::now();
	auto &status = kernel.status;
	status.source = source;
	status.bytes = payload.size();
	status.wall_ms = std::chrono::duration<double, std::milli>(now - kernel.begun).count();
	status.end_ms = Millis(now);
	status.error = error;
	status.state = error.empty() ? KernelState::READY : KernelState::FAILED;
	changed.notify_all();
}

void Precompiler::Fail(Kernel &kernel, const std::string &error) {
	std::lock_guard<std::mutex> guard(lock);
	const auto now = Clock::now();
	kernel.status.wall_ms = std::chrono::duration<double, std::milli>(now - kernel.begun).count();
	kernel.status.end_ms = Millis(now);
	kernel.status.error = error;
	kernel.status.state = KernelState::FAILED;
	changed.notify_all();
}

void Precompiler::LookUp(Kernel &kernel, std::unique_lock<std::mutex> &guard) {
	const auto source = options.kernel_source;
	const auto held = cache;
	guard.unlock();
	std::string payload, error;
	bool found = false;
	if (!kernel.is_unit && !libraries.Cccl()) {
		// Not even a finished one can be launched
		error = libraries.Cccl().component.detail;
		Fail(kernel, error);
		guard.lock();
		return;
	}
	const auto key = KeyOf(kernel);
	if (source != KernelSource::PACK && held->Load(key, payload)) {
		Finish(kernel, payload, "disk");
		found = true;
	} else if (source != KernelSource::JIT) {
		std::string used;
		if (!pack.IsOpen()) {
			error = pack.Problem();
		} else if (pack.Load(key, payload, used, error)) {
			Finish(kernel, payload, "pack");
			found = true;
		}
	}
	if (!found && source == KernelSource::PACK) {
		Fail(kernel, error + " (vibe_kernel_source is 'pack')");
		found = true;
	}
	guard.lock();
	if (!found) {
		kernel.missed = true;
		kernel.status.state = KernelState::PENDING;
		changed.notify_all();
	}
}

void Precompiler::CompileUnits(Kernel &kernel, std::unique_lock<std::mutex> &guard) {
	const auto held = cache;
	guard.unlock();
	std::string payload, error;
	if (CompileUnit(*FindUnit(kernel.status.name), capability, libraries, &stopping, payload, error)) {
		Finish(kernel, payload, "jit");
		held->Store(KeyOf(kernel), payload);
	} else {
		Fail(kernel, error);
	}
	guard.lock();
}

void Precompiler::CompileSpecs(const std::vector<Kernel *> &group, bool precompiled_headers,
                               std::unique_lock<std::mutex> &guard) {
	const auto held = cache;
	HelperJob job;
	job.timeout_seconds = options.compile_timeout_seconds;
	job.folder = options.folder;
	job.library_folders = options.library_folders;
	guard.unlock();
	auto &helper = libraries.Helper();
	auto &headers = libraries.CcclHeaders();
	std::map<std::string, Kernel *> by_name;
	for (auto *kernel : group) {
		by_name[kernel->status.name] = kernel;
		job.specs.push_back(kernel->status.name);
	}
	if (!helper.found || !headers.found) {
		for (auto *kernel : group) {
			Fail(*kernel, helper.found ? headers.detail : helper.detail);
		}
		guard.lock();
		return;
	}
	job.program = helper.path;
	// The helper takes the libraries that were found here: it may have no way of its own to them
	for (auto *component :
	     {&libraries.Nvrtc().component, &libraries.NvJitLink().component, &libraries.Cccl().component}) {
		job.library_folders.push_back(component->path.substr(0, component->path.rfind('/')));
	}
	job.library_folders.push_back(headers.path);
	job.capability = capability;
	job.precompiled_headers = precompiled_headers;
	RunHelper(
	    job,
	    [&](HelperResult &&result) {
		    auto &kernel = *by_name.at(result.name);
		    if (result.good) {
			    Finish(kernel, result.payload, "jit");
			    held->Store(KeyOf(kernel), result.payload);
		    } else if (result.not_tried && !stopping) {
			    std::lock_guard<std::mutex> relock(lock);
			    kernel.status.state = KernelState::PENDING;
			    changed.notify_all();
		    } else {
			    Fail(kernel, result.error);
		    }
	    },
	    [this] { return stopping.load(); });
	guard.lock();
}

} // namespace vibespatial
