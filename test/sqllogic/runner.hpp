//===----------------------------------------------------------------------===//
//                         vibespatial
//
// test/sqllogic/runner.hpp
//
//
//===----------------------------------------------------------------------===//

#pragma once

#include <string>
#include <vector>

namespace sqllogic {

struct Options {
	//! Paths, empty where not given
	std::string extension;
	std::string spatial;
	std::string data = "data";
	//! "cpu", "gpu" or "all"
	std::string engine = "all";
	bool slow = false;
	//! Whether DuckDB runs each query in several ways and compares the results
	bool verify = false;
	bool verbose = false;
	//! Seconds a file may take; 0: as long as it likes
	unsigned timeout = 600;
	std::vector<std::string> paths;
};

enum class Verdict : int { NONE, PASSED, FAILED, SKIPPED };

//! Called before each command with its line and its SQL, if it has any
using ProgressFunction = void (*)(size_t line, const std::string &sql);

struct TestResult {
	Verdict verdict = Verdict::NONE;
	//! Why the file was skipped, or how and where it failed
	std::string message;
};

//! Runs one file on one engine, in this process; test_dir is an empty folder that the file may use
TestResult RunTestFile(const Options &options, const std::string &path, const std::string &engine,
                       const std::string &test_dir, ProgressFunction progress);

struct EngineProbe {
	//! The engines that are there
	std::vector<std::string> engines;
	//! Why the extension does not load, or why an engine is not there
	std::string error;
};

//! Finds the engines that the extension offers, out of those that the options ask for
EngineProbe ProbeEngines(const Options &options, const std::string &test_dir);

} // namespace sqllogic
