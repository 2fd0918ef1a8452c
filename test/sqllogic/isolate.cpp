#include "isolate.hpp"

#include "test_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sqllogic {

namespace {

//! A folder that lives as long as this object
class TemporaryDirectory {
public:
	TemporaryDirectory() {
		path = (std::filesystem::temp_directory_path() / "vibespatial_sqllogic_XXXXXX").string();
		if (!mkdtemp(&path[0])) {
			throw std::runtime_error("cannot make the folder " + path);
		}
	}
	~TemporaryDirectory() {
		std::error_code ignored;
		std::filesystem::remove_all(path, ignored);
	}

	std::string path;
};

//! Text in shared memory; what does not fit is cut off
template <size_t CAPACITY>
class SharedText {
public:
	void Set(const std::string &text) {
		size = std::min(text.size(), CAPACITY);
		std::memcpy(data, text.data(), size);
	}
	std::string Get() const {
		return std::string(data, size);
	}

private:
	size_t size;
	char data[CAPACITY];
};

//! What the child leaves for its parent
struct Report {
	Verdict verdict;
	SharedText<65536> message;
	//! The command in work, for the case that it never returns
	size_t line;
	SharedText<4096> sql;
};

//! A Report that parent and child both see
class SharedReport {
public:
	SharedReport() {
		auto memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED) {
			throw std::runtime_error("cannot map shared memory");
		}
		report = new (memory) Report();
	}
	~SharedReport() {
		munmap(report, sizeof(Report));
	}
	Report *operator->() {
		return report;
	}

private:
	Report *report;
};

//! Forks, runs the work in the child and returns how the child ended; empty if it ended well
std::string RunChild(unsigned timeout, const std::function<void()> &work) {
	std::cout.flush();
	auto child = fork();
	if (child < 0) {
		throw std::runtime_error("cannot fork");
	}
	if (child == 0) {
		alarm(timeout);
		work();
		// Not _exit: what the extension does at the end of a process is tested as well
		std::exit(0);
	}
	int status;
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR) {
			throw std::runtime_error("cannot wait for the child");
		}
	}
	if (WIFSIGNALED(status)) {
		auto signal = WTERMSIG(status);
		return signal == SIGALRM ? "timed out after " + std::to_string(timeout) + " s"
		                         : std::string("crashed (") + strsignal(signal) + ")";
	}
	auto code = WEXITSTATUS(status);
	return code == 0 ? "" : "the process ended with exit code " + std::to_string(code);
}

std::string ShowStatement(const std::string &sql) {
	return sql.empty() ? "" : "\nstatement\n" + sql;
}

//! The child has one report; a plain function needs to find it
SharedReport *current_report = nullptr;

void NoteProgress(size_t line, const std::string &sql) {
	(*current_report)->line = line;
	(*current_report)->sql.Set(sql);
}

} // namespace

TestResult RunIsolated(const Options &options, const std::string &path, const std::string &engine) {
	TemporaryDirectory directory;
	SharedReport report;
	current_report = &report;
	auto problem = RunChild(options.timeout, [&]() {
		auto result = RunTestFile(options, path, engine, directory.path, NoteProgress);
		report->message.Set(result.message);
		report->verdict = result.verdict;
	});
	current_report = nullptr;

	TestResult result;
	result.verdict = report->verdict;
	result.message = report->message.Get();
	if (!problem.empty() && result.verdict != Verdict::FAILED) {
		// With a verdict the file was done: the end of the process went wrong
		auto at_exit = result.verdict != Verdict::NONE;
		auto place = report->line ? path + ":" + std::to_string(report->line) : path;
		result.message = at_exit ? path + ": " + problem + " at the end of the process"
		                         : place + ": " + problem + ShowStatement(report->sql.Get());
		result.verdict = Verdict::FAILED;
	} else if (result.verdict == Verdict::NONE) {
		result.message =
		    path + ":" + std::to_string(report->line) + ": the process ended early" + ShowStatement(report->sql.Get());
		result.verdict = Verdict::FAILED;
	}
	return result;
}

EngineProbe ProbeIsolated(const Options &options) {
	TemporaryDirectory directory;
	SharedReport report;
	auto problem = RunChild(options.timeout, [&]() {
		auto probe = ProbeEngines(options, directory.path);
		std::string names;
		for (auto &name : probe.engines) {
			names += name + " ";
		}
		report->sql.Set(names);
		report->message.Set(probe.error);
	});
	EngineProbe probe;
	if (!problem.empty()) {
		probe.error = "loading the extension: " + problem + "\n";
		return probe;
	}
	probe.engines = SplitWords(report->sql.Get());
	probe.error = report->message.Get();
	return probe;
}

} // namespace sqllogic
