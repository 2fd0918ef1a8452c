#include "catch.hpp"

#include "engine/dispatch/events.hpp"

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
