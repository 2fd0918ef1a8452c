//===----------------------------------------------------------------------===//
// gpu_plugin/compile/helper_process.hpp
//
// Specs compile in processes of their own: inside one process NVRTC's front end holds one lock, and what it prints, leaks
// or crashes on stays outside of the database. The helper (vibespatial-compile) sends each kernel through a pipe as soon
// as it has it. It ends with the process that started it: when its standard input does, by a signal of the system, and when it finds
// another parent than --parent says. It needs neither /dev nor /proc, and the host may have closed descriptors 0 to 2 and may reap
// its children.
//===----------------------------------------------------------------------===//
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace vibespatial {

struct HelperJob {
	std::string program;
	std::vector<std::string> specs;
	int capability;
	bool precompiled_headers;
	//! Where the helper looks for libraries
	std::string folder;
	std::vector<std::string> library_folders;
	//! For each kernel; a helper that is silent for longer is ended
	double timeout_seconds;
};

//! What came of one spec: the payload, or why there is none
struct HelperResult {
	std::string name;
	bool good;
	std::string payload;
	std::string error;
	//! The helper was gone before its turn came
	bool not_tried = false;
};

//! Runs the helper and reports every spec of the job once, as its result comes. `stopped` is asked several times a second.
void RunHelper(const HelperJob &job, const std::function<void(HelperResult &&)> &report,
               const std::function<bool()> &stopped);

//! The helper's side: one result into the pipe; false when nobody reads it any more
bool WriteHelperResult(int fd, const HelperResult &result);

} // namespace vibespatial
