#include "isolate.hpp"
#include "test_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <stdexcept>

using namespace sqllogic;

static const char *const USAGE =
    "usage: vibespatial_sqllogic [options] FILE_OR_DIR...\n"
    "  --extension PATH  vibespatial.duckdb_extension; without it, files that require vibespatial are skipped\n"
    "  --engine NAME     cpu, gpu or all (default: every engine that is present)\n"
    "  --spatial PATH    spatial.duckdb_extension; without it, files that require spatial are skipped\n"
    "  --data DIR        what {DATA_DIR} stands for (default: data)\n"
    "  --slow            run .test_slow files as well\n"
    "  --verify          run every statement under PRAGMA enable_verification\n"
    "  --timeout N       seconds a file may take (default: 600; 0: no limit)\n"
    "  -v                print every file with its time\n";

class UsageError : public std::runtime_error {
	using std::runtime_error::runtime_error;
};

//! DuckDB takes a path without a slash for the name of an extension
static std::string ExistingFile(const std::string &path) {
	if (!std::filesystem::is_regular_file(path)) {
		throw UsageError("no such file: " + path);
	}
	return std::filesystem::absolute(path).string();
}

static unsigned ParseSeconds(const std::string &text) {
	if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos) {
		throw UsageError("--timeout: not a number of seconds: " + text);
	}
	return static_cast<unsigned>(std::stoul(text));
}

//! Returns false if only the usage was asked for
static bool ParseOptions(int argc, char **argv, Options &options) {
	for (int i = 1; i < argc; i++) {
		std::string argument = argv[i];
		auto value = [&]() -> std::string {
			if (i + 1 == argc) {
				throw UsageError(argument + " needs a value");
			}
			return argv[++i];
		};
		if (argument == "--extension") {
			options.extension = ExistingFile(value());
		} else if (argument == "--spatial") {
			options.spatial = ExistingFile(value());
		} else if (argument == "--data") {
			options.data = value();
		} else if (argument == "--engine") {
			options.engine = value();
			auto &names = EngineNames();
			if (options.engine != "all" && std::find(names.begin(), names.end(), options.engine) == names.end()) {
				throw UsageError("--engine: unknown engine '" + options.engine + "'");
			}
		} else if (argument == "--slow") {
			options.slow = true;
		} else if (argument == "--verify") {
			options.verify = true;
		} else if (argument == "--timeout") {
			options.timeout = ParseSeconds(value());
		} else if (argument == "-v") {
			options.verbose = true;
		} else if (argument == "-h" || argument == "--help") {
			return false;
		} else if (argument[0] == '-') {
			throw UsageError("unknown option " + argument);
		} else {
			options.paths.push_back(argument);
		}
	}
	if (options.paths.empty()) {
		throw UsageError("no files given");
	}
	options.data = std::filesystem::absolute(options.data).string();
	return true;
}

static bool IsSlow(const std::string &path) {
	return std::filesystem::path(path).extension() == ".test_slow";
}

//! The files to run, those of a folder in the order of their names
static std::vector<std::string> FindFiles(const std::vector<std::string> &paths) {
	std::vector<std::string> files;
	for (auto &path : paths) {
		if (!std::filesystem::is_directory(path)) {
			if (!std::filesystem::exists(path)) {
				throw UsageError("no such file or folder: " + path);
			}
			files.push_back(path);
			continue;
		}
		std::vector<std::string> found;
		for (auto &entry : std::filesystem::recursive_directory_iterator(path)) {
			auto extension = entry.path().extension();
			if (entry.is_regular_file() && (extension == ".test" || extension == ".test_slow")) {
				found.push_back(entry.path().string());
			}
		}
		if (found.empty()) {
			throw UsageError("no .test files in " + path);
		}
		std::sort(found.begin(), found.end());
		files.insert(files.end(), found.begin(), found.end());
	}
	return files;
}

static std::string UnitName(const std::string &file, const std::string &engine) {
	return file + " [" + engine + "]";
}

static int Summarize(size_t passed, size_t failed, size_t skipped) {
	std::cout << "sqllogic: " << passed << " passed, " << failed << " failed, " << skipped << " skipped" << std::endl;
	return failed == 0 ? 0 : 1;
}

static int RunAll(const Options &options) {
	auto files = FindFiles(options.paths);

	// Without the extension there is nothing to select: the engine is only a name, for skipif and onlyif
	std::vector<std::string> engines {options.engine == "all" ? "cpu" : options.engine};
	if (!options.extension.empty()) {
		auto probe = ProbeIsolated(options);
		engines = probe.engines;
		if (engines.empty()) {
			std::cout << probe.error;
			return Summarize(0, files.size(), 0);
		}
		if (options.verbose) {
			std::cout << probe.error;
		}
	}

	size_t passed = 0, failed = 0, skipped = 0;
	for (auto &file : files) {
		for (auto &engine : engines) {
			auto unit = UnitName(file, engine);
			if (IsSlow(file) && !options.slow) {
				skipped++;
				std::cout << "SKIP " << unit << ": slow (--slow runs it)" << std::endl;
				continue;
			}
			auto start = std::chrono::steady_clock::now();
			auto result = RunIsolated(options, file, engine);
			std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
			switch (result.verdict) {
			case Verdict::PASSED:
				passed++;
				if (options.verbose) {
					char seconds[32];
					snprintf(seconds, sizeof(seconds), "%.2f s", elapsed.count());
					std::cout << "PASS " << unit << " " << seconds << std::endl;
				}
				break;
			case Verdict::SKIPPED:
				skipped++;
				std::cout << "SKIP " << unit << ": " << result.message << std::endl;
				break;
			default:
				failed++;
				std::cout << "FAIL " << unit << "\n" << result.message << "\n" << std::endl;
				break;
			}
		}
	}
	return Summarize(passed, failed, skipped);
}

int main(int argc, char **argv) {
	try {
		Options options;
		if (!ParseOptions(argc, argv, options)) {
			std::cout << USAGE;
			return 0;
		}
		return RunAll(options);
	} catch (UsageError &error) {
		std::cerr << "vibespatial_sqllogic: " << error.what() << "\n" << USAGE;
		return 2;
	} catch (std::exception &error) {
		std::cerr << "vibespatial_sqllogic: " << error.what() << "\n";
		return 1;
	}
}
