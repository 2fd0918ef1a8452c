#include "engine/gpu/runtime/runtime.hpp"

#include "engine/common/library_folders.hpp"
#include "engine/common/trusted_file.hpp"
#include "engine/gpu/interface/version.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace vibespatial {

namespace {

constexpr const char *PLUGIN = "libvibespatial_cuda.so";
//! In the order they are loaded: the second needs the first
struct Library {
	const char *name;
	const char *package;
};
constexpr Library LIBRARIES[] = {{"librapids_logger.so", "rapids_logger"}, {"librmm.so", "librmm"}};
constexpr const char *GET_LIBRARIES = "pip install librmm-cu13==26.8.0";
//! The process ends without the opening after this long
constexpr std::chrono::seconds EXIT_PATIENCE {5};

bool Exists(const std::string &path) {
	return access(path.c_str(), R_OK) == 0;
}

std::string Variable(const char *name) {
	auto value = std::getenv(name);
	return value ? value : "";
}

std::vector<std::string> GpuFolders(const GpuOptions &options) {
	if (!options.folder.empty()) {
		return {options.folder};
	}
	auto given = Variable("VIBESPATIAL_GPU_FOLDER");
	if (!given.empty()) {
		return {given};
	}
	return PluginFolders();
}

std::string FindPlugin(const GpuOptions &options, std::string &folder, std::string &why_not) {
	std::string searched;
	for (auto &candidate : GpuFolders(options)) {
		auto path = candidate + "/" + PLUGIN;
		if (Exists(path)) {
			folder = candidate;
			return path;
		}
		searched += (searched.empty() ? "" : " or ") + candidate;
	}
	why_not = std::string(PLUGIN) + " was not found in " + searched +
	          ": this installation has no GPU plug-in; 'make' builds it";
	return "";
}

//! Empty where it is in none of the folders; the loader may still know it
std::string FindLibrary(const Library &library, const std::string &folder, const GpuOptions &options,
                        const std::vector<std::string> &packages) {
	std::vector<std::string> candidates = options.library_folders;
	candidates.push_back(folder);
	for (auto &given : SplitFolders(Variable("VIBESPATIAL_LIBRARY_PATH"))) {
		candidates.push_back(given);
	}
	for (auto &package : packages) {
		candidates.push_back(package + "/" + library.package + "/lib64");
	}
	if (!FolderVariable("CONDA_PREFIX").empty()) {
		candidates.push_back(FolderVariable("CONDA_PREFIX") + "/lib");
	}
	std::string unused;
	for (auto &candidate : candidates) {
		auto path = candidate + "/" + library.name;
		if (Exists(path) && IsTrustedLibrary(path, unused)) {
			return path;
		}
	}
	return "";
}

std::string LoaderError() {
	auto error = dlerror();
	return error ? error : "the loader does not say why";
}

} // namespace

GpuRuntime &GpuRuntime::Get() {
	static auto *runtime = new GpuRuntime();
	return *runtime;
}

GpuRuntime::GpuRuntime() {
	// A child has none of the engine's threads, and must not find a lock that one of them held
	pthread_atfork([] { Get().BeforeFork(); }, [] { Get().AfterFork(); }, [] { Get().InChild(); });
}

void GpuRuntime::BeforeFork() {
	configuring.lock();
	lock.lock();
}

void GpuRuntime::AfterFork() {
	lock.unlock();
	configuring.unlock();
}

void GpuRuntime::InChild() {
	at_work = 0; // whoever counted is not in this process
	if (awaits_quiet) {
		phase = Phase::NOT_STARTED;
		awaits_quiet = false;
		wishes.clear();
	} else if (phase == Phase::OPENING || phase == Phase::OPEN) {
		phase = Phase::FAILED;
		failure = "this process was forked from one that had opened the GPU engine, which does not survive that";
		engine.store(nullptr, std::memory_order_release);
		forked = true;
	}
	AfterFork();
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//
void GpuRuntime::SetOptions(const GpuOptions &changed_options) {
	std::lock_guard<std::mutex> one_at_a_time(configuring);
	GpuEngine *open;
	{
		std::lock_guard<std::mutex> guard(lock);
		options = changed_options;
		options_version++;
		open = phase == Phase::OPEN ? IfOpen() : nullptr;
	}
	if (open) {
		Tell(*open, changed_options);
	}
}

void GpuRuntime::Tell(GpuEngine &open, const GpuOptions &given) {
	auto told = given;
	std::string unused;
	FindPlugin(given, told.folder, unused);
	open.Configure(told);
}

GpuOptions GpuRuntime::Options() {
	std::lock_guard<std::mutex> guard(lock);
	return options;
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//
GpuEngine *GpuRuntime::IfOpen() const {
	return engine.load(std::memory_order_acquire);
}

//! Since no operator is at work. A query that follows LOAD at once comes within it.
static constexpr std::chrono::milliseconds QUIET(100);
//! A query that is not done by then loses less by the start of the driver than it may gain by the device
static constexpr std::chrono::milliseconds MOST_DELAY(1000);

GpuRuntime::Work::Work() {
	Get().at_work++;
}

GpuRuntime::Work::~Work() {
	auto &runtime = Get();
	runtime.last_work = std::chrono::steady_clock::now().time_since_epoch().count();
	runtime.at_work--;
}

bool GpuRuntime::AwaitQuiet() {
	using Clock = std::chrono::steady_clock;
	constexpr std::chrono::milliseconds STEP(10);
	const auto begin = Clock::now();
	const auto is_quiet = [&] {
		const Clock::time_point last {Clock::duration(last_work)};
		return at_work <= 0 && Clock::now() >= std::max(begin, last) + QUIET;
	};
	std::unique_lock<std::mutex> guard(lock);
	while (!exiting && !is_wanted && !is_quiet() && Clock::now() < begin + MOST_DELAY) {
		changed.wait_for(guard, STEP);
	}
	awaits_quiet = false;
	return !exiting;
}

void GpuRuntime::Start(std::unique_lock<std::mutex> &guard, Opening opening) {
	static_cast<void>(guard); // held
	phase = Phase::OPENING;
	awaits_quiet = opening == Opening::WHEN_QUIET;
	is_wanted = false;
	if (!started) {
		started = true;
		std::atexit([] { Get().AtExit(); });
	}
	try {
		std::thread([this, opening] {
			try {
				if (opening == Opening::WHEN_QUIET && !AwaitQuiet()) {
					std::lock_guard<std::mutex> held(lock);
					phase = Phase::NOT_STARTED;
					changed.notify_all();
					return;
				}
				Open();
			} catch (...) {
				// Not even memory for a reason. This text needs none.
				std::lock_guard<std::mutex> held(lock);
				phase = IfOpen() ? Phase::OPEN : Phase::FAILED;
				failure = "out of memory";
				changed.notify_all();
			}
		}).detach();
	} catch (const std::exception &error) {
		phase = Phase::FAILED;
		failure = std::string("no thread could be started to open the GPU engine: ") + error.what();
	}
}

void GpuRuntime::StartInBackground(const std::vector<std::string> &names, const std::string &requested_by,
                                   bool urgent) {
	Request(names, requested_by, urgent, Opening::AT_ONCE);
}

void GpuRuntime::StartWhenQuiet(const std::vector<std::string> &names, const std::string &requested_by) {
	Request(names, requested_by, false, Opening::WHEN_QUIET);
}

void GpuRuntime::RequestIfStarted(const std::vector<std::string> &names, const std::string &requested_by, bool urgent) {
	Request(names, requested_by, urgent, Opening::NONE);
}

void GpuRuntime::Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent,
                         Opening opening) {
	std::unique_lock<std::mutex> guard(lock);
	if (phase == Phase::OPEN) {
		guard.unlock();
		IfOpen()->Request(names, requested_by, urgent);
		return;
	}
	if (phase == Phase::FAILED || exiting || (phase == Phase::NOT_STARTED && opening == Opening::NONE)) {
		return;
	}
	wishes.push_back(Wish {names, requested_by, urgent});
	if (phase == Phase::NOT_STARTED) {
		Start(guard, opening);
	} else if (opening == Opening::AT_ONCE) {
		Hurry(guard);
	}
}

void GpuRuntime::Hurry(std::unique_lock<std::mutex> &guard) {
	static_cast<void>(guard); // held
	is_wanted = true;
	changed.notify_all();
}

GpuEngine *GpuRuntime::Engine(double wait_seconds, std::string &why_not) {
	std::unique_lock<std::mutex> guard(lock);
	if (exiting) {
		why_not = "the process is ending";
		return nullptr;
	}
	// What was missing may have been installed since
	if (phase == Phase::NOT_STARTED || (phase == Phase::FAILED && !forked)) {
		Start(guard, Opening::AT_ONCE);
	} else if (wait_seconds > 0) {
		Hurry(guard);
	}
	changed.wait_for(guard, std::chrono::duration<double>(std::max(0.0, wait_seconds)),
	                 [&] { return phase != Phase::OPENING; });
	if (phase == Phase::OPEN) {
		return IfOpen();
	}
	why_not = phase == Phase::FAILED ? failure : "the GPU engine is still being opened";
	return nullptr;
}

void GpuRuntime::Open() {
	GpuOptions used;
	uint64_t version;
	{
		std::lock_guard<std::mutex> guard(lock);
		used = options;
		version = options_version;
	}
	const auto now = [] {
		const auto since = std::chrono::system_clock::now().time_since_epoch();
		return int64_t(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
	};
	const auto begin = now();
	std::string error;
	GpuEngine *opened = nullptr;
	try {
		opened = OpenPlugin(used, error);
	} catch (const std::exception &thrown) {
		error = std::string("opening the GPU plug-in failed: ") + thrown.what();
	} catch (...) {
		error = "opening the GPU plug-in failed";
	}
	{
		std::lock_guard<std::mutex> guard(lock);
		failure.swap(error);
		if (!opened) {
			phase = Phase::FAILED;
			wishes.clear();
		}
	}
	if (opened) {
		const auto attempt = [&](const auto &work) {
			try {
				work();
			} catch (const std::exception &thrown) {
				std::lock_guard<std::mutex> guard(lock);
				failure = thrown.what();
			}
		};
		attempt([&] { opened->AddStep(GpuStep {"start", "plug-in", begin, now()}); });
		// What was set and asked for meanwhile, before others see the engine. Options that it refuses keep it from no kernel.
		std::vector<Wish> granted;
		bool is_new = false;
		while (!Publish(*opened, granted, used, version, is_new)) {
			if (is_new) {
				attempt([&] { Tell(*opened, used); });
			}
			for (auto &wish : granted) {
				attempt([&] { opened->Request(wish.names, wish.requested_by, wish.urgent); });
			}
		}
	}
	changed.notify_all();
}

bool GpuRuntime::Publish(GpuEngine &opened, std::vector<Wish> &granted, GpuOptions &used, uint64_t &version,
                         bool &is_new) {
	std::lock_guard<std::mutex> guard(lock);
	granted.clear();
	granted.swap(wishes);
	is_new = version != options_version;
	version = options_version;
	used = options;
	if (is_new || !granted.empty()) {
		return false;
	}
	engine.store(&opened, std::memory_order_release);
	phase = Phase::OPEN;
	return true;
}

GpuEngine *GpuRuntime::OpenPlugin(const GpuOptions &given, std::string &error) {
	auto used = given;
	auto path = FindPlugin(given, used.folder, error);
	if (path.empty()) {
		return nullptr;
	}
	for (auto &folder : SplitFolders(Variable("VIBESPATIAL_LIBRARY_PATH"))) {
		used.library_folders.push_back(folder);
	}
	if (!IsTrustedFile(path, error)) {
		error = "the GPU plug-in is not used: " + error;
		return nullptr;
	}
	if (!FileContains(path, VIBESPATIAL_ENGINE_INTERFACE)) {
		error = path + " is no GPU plug-in of vibespatial, or was built with another interface than the extension (" +
		        VIBESPATIAL_ENGINE_INTERFACE + "): install both from the same package";
		return nullptr;
	}
	// By full path, so that the loader knows them by name when the plug-in asks
	auto packages = PackageFolders();
	for (auto &library : LIBRARIES) {
		auto found = FindLibrary(library, used.folder, given, packages);
		if (!found.empty()) {
			dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
		} else if (!IsSafeForLoader(library.name, error)) {
			return nullptr;
		}
	}
	dlerror();
	auto handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		error = "the GPU plug-in could not be loaded: " + LoaderError();
		for (auto &library : LIBRARIES) {
			if (error.find(library.name) != std::string::npos) {
				error += std::string("; '") + GET_LIBRARIES +
				         "' gets it (VIBESPATIAL_LIBRARY_PATH names other folders to look in)";
				break;
			}
		}
		return nullptr;
	}
	auto open = reinterpret_cast<OpenEngineFunction>(dlsym(handle, "vibespatial_open_engine"));
	if (!open) {
		error = path + " is no GPU plug-in of vibespatial: " + LoaderError();
		dlclose(handle);
		return nullptr;
	}
	// Runs before the plug-in's own end: an opening in progress must not see that
	std::atexit([] { Get().AtExit(); });
	const char *reason = nullptr;
	auto opened = open(VIBESPATIAL_ENGINE_INTERFACE, &used, &reason);
	if (!opened) {
		error = path + ": " + (reason ? reason : "the plug-in does not say why it opens no engine");
	}
	return opened;
}

void GpuRuntime::Quiesce(double timeout_seconds) {
	{
		std::unique_lock<std::mutex> guard(lock);
		changed.wait_for(guard, std::chrono::duration<double>(timeout_seconds),
		                 [&] { return phase != Phase::OPENING || awaits_quiet; });
	}
	if (auto opened = IfOpen()) {
		opened->Quiesce(timeout_seconds);
	}
}

void GpuRuntime::AtExit() {
	std::unique_lock<std::mutex> guard(lock);
	if (exiting) {
		return; // waited already
	}
	exiting = true;
	changed.notify_all();
	changed.wait_for(guard, EXIT_PATIENCE, [&] { return phase != Phase::OPENING; });
}

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//
GpuRuntime::Phase GpuRuntime::GetPhase() {
	std::lock_guard<std::mutex> guard(lock);
	return phase;
}

std::string GpuRuntime::State() {
	std::lock_guard<std::mutex> guard(lock);
	switch (phase) {
	case Phase::NOT_STARTED:
		return "not started";
	case Phase::OPENING:
		return "being opened";
	case Phase::OPEN:
		return failure.empty() ? "open" : "open, but " + failure;
	default:
		return failure;
	}
}

std::string GpuRuntime::PluginPath(std::string &why_not) {
	std::string folder;
	return FindPlugin(Options(), folder, why_not);
}

std::vector<GpuComponent> GpuRuntime::Libraries() {
	std::string folder, unused;
	auto given = Options();
	FindPlugin(given, folder, unused);
	auto packages = PackageFolders();
	std::vector<GpuComponent> result;
	for (auto &library : LIBRARIES) {
		GpuComponent component;
		component.name = library.name;
		component.path = FindLibrary(library, folder, given, packages);
		component.found = !component.path.empty();
		if (!component.found) {
			component.detail = std::string("not found; '") + GET_LIBRARIES + "' gets it";
		}
		result.push_back(std::move(component));
	}
	return result;
}

bool GpuRuntime::DeviceIsPossible() {
	for (auto path : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvmap"}) {
		if (access(path, F_OK) == 0) {
			return true;
		}
	}
	return false;
}

const char *GpuRuntime::NoDeviceText() {
	return "no NVIDIA device: none of /dev/nvidiactl, /dev/nvidia0, /dev/dxg, /dev/nvmap is there";
}

} // namespace vibespatial
