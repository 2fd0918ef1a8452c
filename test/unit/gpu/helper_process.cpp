#include "gpu_plugin/compile/helper_process.hpp"
#include "temporary_folder.hpp"

#include <atomic>
#include <catch.hpp>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

using vibespatial::HelperJob;
using vibespatial::HelperResult;

namespace {

//! A shell script in place of the helper; $RESULTS is a file with the result of one spec, as the helper writes it
struct Script {
	explicit Script(const std::string &lines) {
		job.program = folder.path + "/helper";
		std::ofstream(job.program) << "#!/bin/sh\nRESULTS=" << folder.path << "/results\n" << lines << "\n";
		chmod(job.program.c_str(), 0755);
		const int fd = open((folder.path + "/results").c_str(), O_WRONLY | O_CREAT, 0600);
		WriteHelperResult(fd, HelperResult {"one", true, "payload", "", false});
		close(fd);
		job.specs = {"one"};
		job.capability = 90;
		job.precompiled_headers = false;
		job.folder = folder.path;
		job.timeout_seconds = 20;
	}
	std::vector<HelperResult> Run() {
		std::vector<HelperResult> results;
		RunHelper(
		    job, [&](HelperResult &&result) { results.push_back(std::move(result)); }, [] { return false; });
		return results;
	}

	TemporaryFolder folder;
	HelperJob job;
};

//! What came of one spec: the payload, or the error
std::string Outcome(Script &script) {
	const auto results = script.Run();
	return results.size() != 1 ? "not one result" : results[0].good ? results[0].payload : results[0].error;
}

double Seconds(const std::function<void()> &work) {
	const auto begin = std::chrono::steady_clock::now();
	work();
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

TEST_CASE("A helper's result, status and signal are reported", "[gpu][helper_process]") {
	Script good("cat $RESULTS >&3"), status("exit 3"), killed("kill -9 $$"), silent("exit 0"),
	    printing("echo why >&2; exit 4");
	CHECK(Outcome(good) == "payload");
	CHECK(Outcome(status) == "the compile helper ended with status 3");
	CHECK(Outcome(killed) == "the compile helper was ended by signal 9");
	CHECK(Outcome(silent) == "the compile helper ended with status 0");
	CHECK(Outcome(printing) == "the compile helper ended with status 4: why\n");
	Script missing("");
	missing.job.program += "-none";
	CHECK(Outcome(missing).find("could not be started") != std::string::npos);
}

TEST_CASE("The helper is told who its parent is, and its input ends with it", "[gpu][helper_process]") {
	Script script(
	    "for word; do [ \"$last\" = --parent ] && [ \"$word\" = $PPID ] && cat $RESULTS >&3; last=$word; done");
	CHECK(Outcome(script) == "payload");
	// It does not end before: this one waits for it
	Script waits("read line; cat $RESULTS >&3");
	waits.job.timeout_seconds = 1;
	CHECK(Outcome(waits).find("gave no kernel for 1 seconds") != std::string::npos);
	// Once all results are there, the input ends
	Script ends("cat $RESULTS >&3; read line; touch $RESULTS.ended");
	CHECK(Outcome(ends) == "payload");
	CHECK(access((ends.folder.path + "/results.ended").c_str(), F_OK) == 0);
}

TEST_CASE("A helper that does not end is ended", "[gpu][helper_process]") {
	Script hangs("exec sleep 100");
	hangs.job.timeout_seconds = 0.5;
	CHECK(Seconds([&] { CHECK(Outcome(hangs).find("gave no kernel") != std::string::npos); }) < 5);
	// Also after it has sent everything
	Script lingers("cat $RESULTS >&3; exec sleep 100");
	CHECK(Seconds([&] { CHECK(Outcome(lingers) == "payload"); }) < 15);
}

TEST_CASE("The host may reap the helper", "[gpu][helper_process]") {
	Script good("cat $RESULTS >&3"), status("exit 3"), hangs("exec sleep 100");
	hangs.job.timeout_seconds = 0.5;
	auto check = [&] {
		CHECK(Outcome(good) == "payload");
		const auto how = Outcome(status);
		CHECK((how == "the compile helper ended, and this process was not told how" ||
		       how == "the compile helper ended with status 3"));
		CHECK(Seconds([&] { CHECK(Outcome(hangs).find("gave no kernel") != std::string::npos); }) < 5);
	};
	SECTION("because it ignores the signal") {
		const auto before = signal(SIGCHLD, SIG_IGN);
		check();
		signal(SIGCHLD, before);
	}
	SECTION("because it waits for all children") {
		std::atomic<bool> stop {false};
		std::thread reaper([&] {
			while (!stop) {
				waitpid(-1, nullptr, WNOHANG);
			}
		});
		check();
		stop = true;
		reaper.join();
	}
}

TEST_CASE("The host may have closed its first descriptors", "[gpu][helper_process]") {
	// Each set of the first four
	for (int closed = 1; closed < 16; closed++) {
		Script script("echo printed; echo printed >&2; cat $RESULTS >&3");
		const pid_t child = fork();
		if (child == 0) {
			for (int fd = 0; fd < 4; fd++) {
				if (closed & (1 << fd)) {
					close(fd);
				}
			}
			_exit(Outcome(script) == "payload" ? 0 : 1);
		}
		int status = 0;
		waitpid(child, &status, 0);
		INFO(closed);
		CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
	}
}
