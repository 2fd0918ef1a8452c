#include "catch.hpp"

#include "engine/dispatch/events.hpp"

#include <atomic>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using vibespatial::DispatchEvent;
using vibespatial::DispatchLog;

TEST_CASE("The log keeps the last events, numbered without gaps", "[events]") {
	auto &log = DispatchLog::Get();
	auto before = log.Events();
	auto first = before.empty() ? 1 : before.back().sequence + 1;
	for (size_t i = 0; i < DispatchLog::CAPACITY + 10; i++) {
		DispatchEvent event;
		event.rows = i;
		log.Add(std::move(event));
	}
	auto events = log.Events();
	REQUIRE(events.size() == DispatchLog::CAPACITY);
	CHECK(events.front().rows == 10);
	CHECK(events.front().sequence == first + 10);
	CHECK(events.back().rows == DispatchLog::CAPACITY + 9);
	for (size_t i = 1; i < events.size(); i++) {
		CHECK(events[i].sequence == events[i - 1].sequence + 1);
		CHECK(events[i].time >= events[i - 1].time - 1000000);
	}
}

TEST_CASE("A child that is forked while another thread writes the log can write it", "[events]") {
	std::atomic<bool> stop {false};
	std::thread writer([&] {
		while (!stop) {
			DispatchLog::Get().Add(DispatchEvent());
		}
	});
	int good = 0;
	for (int i = 0; i < 50; i++) {
		const auto child = fork();
		if (child == 0) {
			alarm(10); // a child that waits for a lock for ever
			DispatchLog::Get().Add(DispatchEvent());
			_exit(DispatchLog::Get().Events().empty() ? 1 : 0);
		}
		int status = 0;
		waitpid(child, &status, 0);
		good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	stop = true;
	writer.join();
	CHECK(good == 50);
}
