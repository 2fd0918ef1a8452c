// Needs a device, as device.cpp does
#include "device_engine.hpp"

#include <catch.hpp>
#include <chrono>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace vibespatial; // NOLINT: a test

TEST_CASE("A forked child ends at once", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	const auto child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		// What a program's end does, the plug-in's part of it included
		std::exit(7);
	}
	int status = 0;
	pid_t ended = 0;
	for (int i = 0; i < 100 && ended == 0; i++) {
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
		ended = waitpid(child, &status, WNOHANG);
	}
	if (ended == 0) {
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
	}
	REQUIRE(ended == child);
	REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 7));
	// The engine of this process goes on
	REQUIRE(engine->SelfTest().empty());
}
