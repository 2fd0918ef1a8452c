// vibespatial-compile: compiles kernels in a process of its own, and builds the release pack. No device is needed.
//
//   vibespatial-compile specs --capability 90 --folder F [--library-folder L].. [--pch] [--threads N] [--parent PID] NAME..
//       compiles CCCL specs and writes each result to descriptor 3; what the GPU engine runs (helper_process.hpp).
//       More threads than one are for measuring: the compiler's front end takes one at a time
//   vibespatial-compile pack --capabilities 80,90 --folder F [--library-folder L].. [--workers N] --output FILE
//       compiles all units and specs for these and writes the pack
//   vibespatial-compile warm --capability 90 --folder F [--cache D] [--source auto|pack|jit] [--cache-limit BYTES]
//                       [--workers N] [--timeout SECONDS] [--compile-timeout SECONDS] [NAME..]
//       does what the engine does in the background, without a device, and prints one line for each kernel
#include "gpu_plugin/compile/compilers.hpp"
#include "gpu_plugin/compile/helper_process.hpp"
#include "gpu_plugin/compile/precompiler.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

using namespace vibespatial; // NOLINT: a program of one file

namespace {

struct Arguments {
	GpuOptions options;
	std::vector<int> capabilities;
	std::string output;
	bool pch = false;
	int threads = 1;
	double timeout = 600;
	//! The process that waits for the results; 0: nobody in particular
	pid_t parent = 0;
	std::vector<std::string> names;
};

std::vector<int> ParseNumbers(const std::string &text) {
	std::vector<int> numbers;
	for (size_t at = 0; at < text.size();) {
		const auto comma = std::min(text.find(',', at), text.size());
		numbers.push_back(std::atoi(text.substr(at, comma - at).c_str()));
		at = comma + 1;
	}
	return numbers;
}

Arguments Parse(int count, char **words) {
	Arguments arguments;
	for (int i = 2; i < count; i++) {
		const std::string word = words[i];
		auto value = [&]() -> std::string {
			if (i + 1 >= count) {
				throw std::runtime_error(word + " needs a value");
			}
			return words[++i];
		};
		if (word == "--capability" || word == "--capabilities") {
			arguments.capabilities = ParseNumbers(value());
		} else if (word == "--folder") {
			arguments.options.folder = value();
		} else if (word == "--library-folder") {
			arguments.options.library_folders.push_back(value());
		} else if (word == "--cache") {
			arguments.options.cache_dir = value();
		} else if (word == "--cache-limit") {
			arguments.options.cache_limit = std::strtoull(value().c_str(), nullptr, 10);
		} else if (word == "--source") {
			const auto source = value();
			arguments.options.kernel_source = source == "pack"  ? KernelSource::PACK
			                                  : source == "jit" ? KernelSource::JIT
			                                                    : KernelSource::AUTO;
		} else if (word == "--workers") {
			arguments.options.compile_workers = static_cast<uint32_t>(std::atoi(value().c_str()));
		} else if (word == "--timeout") {
			arguments.timeout = std::atof(value().c_str());
		} else if (word == "--compile-timeout") {
			arguments.options.compile_timeout_seconds = static_cast<uint32_t>(std::atoi(value().c_str()));
		} else if (word == "--output") {
			arguments.output = value();
		} else if (word == "--threads") {
			arguments.threads = std::atoi(value().c_str());
		} else if (word == "--parent") {
			arguments.parent = static_cast<pid_t>(std::atoi(value().c_str()));
		} else if (word == "--pch") {
			arguments.pch = true;
		} else if (word.compare(0, 2, "--") == 0) {
			throw std::runtime_error("unknown option " + word);
		} else {
			arguments.names.push_back(word);
		}
	}
	if (arguments.capabilities.empty()) {
		throw std::runtime_error("--capability is missing");
	}
	return arguments;
}

//! The folder of this program, where nobody names another
std::string OwnFolder() {
	char path[PATH_MAX];
	const auto length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
	return program.substr(0, program.rfind('/'));
}

//! Ends the process when whoever holds the other end of its standard input is gone, also where the system sends no signal
void EndWithInput() {
	try {
		std::thread([] {
			char byte;
			ssize_t got;
			do {
				got = read(0, &byte, 1);
			} while (got > 0 || (got < 0 && errno == EINTR));
			_exit(1);
		}).detach();
	} catch (const std::exception &) { // NOLINT: the signal is enough on most systems
	}
}

int Specs(const Arguments &arguments) {
	// The helper is of use to its parent alone, which may be process 1 of a container
	if (arguments.parent != 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != arguments.parent) {
			return 1;
		}
		EndWithInput();
	}
	// For tests of those who wait for it
	if (const char *fault = std::getenv("VIBESPATIAL_COMPILE_FAULT")) {
		if (std::strcmp(fault, "crash") == 0) {
			std::abort();
		}
		if (std::strcmp(fault, "hang") == 0) {
			pause();
		}
		if (std::strcmp(fault, "garbage") == 0) {
			return write(3, "this is no kernel, by no means at all", 37) == 37 ? 0 : 1;
		}
	}
	Libraries libraries(arguments.options, true);
	std::atomic<size_t> next {0};
	std::atomic<bool> good {true};
	std::mutex lock;
	auto work = [&] {
		for (size_t i = next++; good && i < arguments.names.size(); i = next++) {
			auto &name = arguments.names[i];
			HelperResult result {name, false, "", "", false};
			if (auto *spec = FindSpec(name)) {
				result.good = CompileSpec(*spec, arguments.capabilities[0], libraries, arguments.pch, result.payload,
				                          result.error);
			} else {
				result.error = name + " is no spec of vibespatial";
			}
			std::lock_guard<std::mutex> guard(lock);
			good = good && WriteHelperResult(3, result);
		}
	};
	std::vector<std::thread> threads;
	for (int i = 1; i < arguments.threads; i++) {
		threads.emplace_back(work);
	}
	work();
	for (auto &thread : threads) {
		thread.join();
	}
	return good ? 0 : 1;
}

int Pack(Arguments arguments) {
	if (arguments.output.empty()) {
		throw std::runtime_error("--output is missing");
	}
	struct Job {
		const KernelUnit *unit;
		std::vector<const KernelSpec *> specs;
		int capability;
	};
	const auto workers =
	    arguments.options.compile_workers > 0 ? arguments.options.compile_workers : Precompiler::DefaultWorkers();
	std::vector<Job> jobs;
	for (auto capability : arguments.capabilities) {
		std::vector<std::string> algorithms;
		for (auto &spec : KernelSpecs()) {
			// Few workers: specs of one algorithm share its precompiled headers
			bool joined = false;
			for (auto &job : jobs) {
				if (workers < 8 && job.capability == capability && !job.specs.empty() &&
				    std::strcmp(job.specs[0]->algorithm, spec.algorithm) == 0) {
					job.specs.push_back(&spec);
					joined = true;
					break;
				}
			}
			if (!joined) {
				jobs.push_back(Job {nullptr, {&spec}, capability});
			}
		}
		for (auto &unit : KernelUnits()) {
			jobs.push_back(Job {&unit, {}, capability});
		}
	}
	Libraries libraries(arguments.options, true);
	libraries.NvrtcVersion();
	std::mutex lock;
	std::vector<KernelPack::Item> items;
	std::vector<std::string> errors;
	// What the last pack has of the same source, made by the same compilers, need not be made again
	KernelPack before;
	before.Open(arguments.output);
	auto reuse = [&](const KernelKey &key) {
		std::string payload;
		if (!before.LoadSame(key, payload)) {
			return false;
		}
		items.push_back(KernelPack::Item {key, payload});
		return true;
	};
	size_t reused = 0;
	for (auto &job : jobs) {
		if (job.unit) {
			const bool known = reuse(UnitKey(*job.unit, job.capability, libraries));
			reused += known;
			job.unit = known ? nullptr : job.unit;
		}
		for (auto spec = job.specs.begin(); spec != job.specs.end();) {
			const bool known = reuse(SpecKey(**spec, job.capability, libraries));
			reused += known;
			spec = known ? job.specs.erase(spec) : spec + 1;
		}
	}
	jobs.erase(std::remove_if(jobs.begin(), jobs.end(), [](const Job &job) { return !job.unit && job.specs.empty(); }),
	           jobs.end());
	std::atomic<size_t> next {0};
	char self[PATH_MAX];
	const auto length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	auto add = [&](const KernelKey &key, const std::string &payload) {
		std::lock_guard<std::mutex> guard(lock);
		items.push_back(KernelPack::Item {key, payload});
	};
	auto fail = [&](const std::string &name, int capability, const std::string &error) {
		std::lock_guard<std::mutex> guard(lock);
		errors.push_back(name + " for sm_" + std::to_string(capability) + ": " + error);
	};
	auto work = [&] {
		for (size_t i = next++; i < jobs.size(); i = next++) {
			auto &job = jobs[i];
			if (job.unit) {
				std::string payload, error;
				if (CompileUnit(*job.unit, job.capability, libraries, nullptr, payload, error)) {
					add(UnitKey(*job.unit, job.capability, libraries), payload);
				} else {
					fail(job.unit->name, job.capability, error);
				}
				continue;
			}
			HelperJob helper;
			helper.program.assign(self, static_cast<size_t>(length));
			helper.capability = job.capability;
			helper.precompiled_headers = job.specs.size() > 1;
			helper.folder = arguments.options.folder;
			helper.library_folders = arguments.options.library_folders;
			helper.timeout_seconds = arguments.timeout;
			for (auto *spec : job.specs) {
				helper.specs.emplace_back(spec->name);
			}
			RunHelper(
			    helper,
			    [&](HelperResult &&result) {
				    if (result.good) {
					    add(SpecKey(*FindSpec(result.name), job.capability, libraries), result.payload);
				    } else {
					    fail(result.name, job.capability, result.error);
				    }
			    },
			    [] { return false; });
		}
	};
	std::vector<std::thread> threads;
	for (uint32_t i = 1; i < workers; i++) {
		threads.emplace_back(work);
	}
	work();
	for (auto &thread : threads) {
		thread.join();
	}
	for (auto &error : errors) {
		std::fprintf(stderr, "vibespatial: %s\n", error.c_str());
	}
	if (!errors.empty()) {
		return 1;
	}
	std::sort(items.begin(), items.end(), [](const KernelPack::Item &a, const KernelPack::Item &b) {
		return a.key.capability != b.key.capability ? a.key.capability < b.key.capability : a.key.name < b.key.name;
	});
	KernelPack::Write(arguments.output, items);
	// Read back as the engine reads it
	KernelPack pack;
	if (!pack.Open(arguments.output)) {
		throw std::runtime_error(pack.Problem());
	}
	for (auto &item : items) {
		std::string payload, used, error;
		if (!pack.Load(item.key, payload, used, error) || payload != item.payload) {
			throw std::runtime_error("the pack does not read back: " + error);
		}
	}
	std::printf("%zu kernels in %s, %zu of them from before\n", items.size(), arguments.output.c_str(), reused);
	return 0;
}

int Warm(const Arguments &arguments) {
	const auto epoch = std::chrono::steady_clock::now();
	Libraries libraries(arguments.options, true);
	Precompiler precompiler(arguments.options, libraries, epoch);
	auto names = arguments.names;
	if (names.empty()) {
		for (auto &unit : KernelUnits()) {
			names.emplace_back(unit.name);
		}
		for (auto &spec : KernelSpecs()) {
			names.emplace_back(spec.name);
		}
	}
	precompiler.Start(arguments.capabilities[0]);
	precompiler.SetLoader([](const std::string &, bool, const std::string &) {});
	const auto cold = precompiler.EnsureWarm(names, arguments.timeout);
	static const char *const STATES[] = {"idle", "pending", "compiling", "ready", "failed"};
	for (auto &row : precompiler.Status()) {
		if (row.state != KernelState::IDLE) {
			std::printf("%s %s %s %s %.1f %.1f %llu %s\n", row.kind.c_str(), row.name.c_str(),
			            STATES[static_cast<int>(row.state)], row.source.empty() ? "-" : row.source.c_str(),
			            row.queue_ms, row.wall_ms, static_cast<unsigned long long>(row.bytes), row.error.c_str());
		}
	}
	for (auto &component : precompiler.Components()) {
		std::printf("%s: %s\n", component.name.c_str(), component.detail.c_str());
	}
	return cold.empty() ? 0 : 1;
}

} // namespace

int main(int count, char **words) {
	const std::string what = count > 1 ? words[1] : "";
	try {
		if (what != "specs" && what != "pack" && what != "warm") {
			throw std::runtime_error("the first argument is specs, pack or warm");
		}
		auto arguments = Parse(count, words);
		if (arguments.options.folder.empty()) {
			arguments.options.folder = OwnFolder();
		}
		return what == "specs" ? Specs(arguments) : what == "pack" ? Pack(arguments) : Warm(arguments);
	} catch (const std::exception &exception) {
		std::fprintf(stderr, "vibespatial-compile: %s\n", exception.what());
		return 2;
	}
}
