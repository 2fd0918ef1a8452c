#include "engine/common/shared_work.hpp"

#include "catch.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace vibespatial;

TEST_CASE("Threads that come do the steps of one leader, once", "[shared_work]") {
	for (int round = 0; round < 50; round++) {
		SharedWork work(4);
		std::atomic<int> leaders {0}, steps {0}, after {0};
		std::vector<std::thread> threads;
		threads.reserve(4);
		for (int i = 0; i < 4; i++) {
			threads.emplace_back([&] {
				work.Run([&](Parallel &parallel) {
					leaders++;
					for (int phase = 1; phase <= 3; phase++) {
						parallel.For(20, [&](size_t) { steps++; });
						if (steps != 20 * phase) {
							throw std::runtime_error("a step was still running");
						}
					}
				});
				after += steps == 60;
			});
		}
		for (auto &thread : threads) {
			thread.join();
		}
		CHECK(leaders == 1);
		CHECK(steps == 60);
		CHECK(after == 4);
	}
}

TEST_CASE("What a step throws, everyone throws, and no more steps start", "[shared_work]") {
	SharedWork work(2);
	std::atomic<int> steps {0}, caught {0};
	std::vector<std::thread> threads;
	threads.reserve(2);
	for (int i = 0; i < 2; i++) {
		threads.emplace_back([&] {
			try {
				work.Run([&](Parallel &parallel) {
					parallel.For(1000000, [&](size_t step) {
						steps++;
						if (step == 3) {
							throw std::runtime_error("three");
						}
					});
				});
			} catch (const std::runtime_error &) {
				caught++;
			}
		});
	}
	for (auto &thread : threads) {
		thread.join();
	}
	CHECK(caught == 2);
	CHECK(steps < 1000000);
	CHECK_THROWS(work.Run([](Parallel &) {}));
}

TEST_CASE("A poll that throws stops the work before its next step", "[shared_work]") {
	int polls = 0, steps = 0;
	SharedWork work(1, [&] {
		if (++polls == 5) {
			throw std::runtime_error("cancelled");
		}
	});
	CHECK_THROWS(work.Run([&](Parallel &parallel) { parallel.For(100, [&](size_t) { steps++; }); }));
	CHECK(steps == 4);
}

TEST_CASE("Helpers do steps, go when their patience ends, and never lead", "[shared_work]") {
	using std::chrono::milliseconds;
	SharedWork work(2);
	std::atomic<int> returned {0}, again {0};
	work.Help(milliseconds(1), [&] { again++; }); // nobody leads yet
	CHECK(again == 1);

	// Two steps that wait for each other: only two threads get past them
	std::atomic<int> inside {0};
	std::thread helper([&] {
		work.Help(milliseconds(60000), [&] { again++; });
		returned++;
	});
	work.Run([&](Parallel &parallel) {
		parallel.For(2, [&](size_t) {
			inside++;
			while (inside < 2) {
				std::this_thread::yield();
			}
		});
	});
	helper.join();
	CHECK(returned == 1);
	CHECK(again == 1);
	work.Help(milliseconds(60000), [&] { again++; }); // all is done
	CHECK(again == 1);
}

TEST_CASE("What a helper's step throws, the leader throws", "[shared_work]") {
	SharedWork work(2);
	const auto leader = std::this_thread::get_id();
	std::thread helper([&] { work.Help(std::chrono::milliseconds(60000), [] {}); });
	std::atomic<bool> thrown {false};
	CHECK_THROWS_AS(work.Run([&](Parallel &parallel) {
		parallel.For(2, [&](size_t) {
			if (std::this_thread::get_id() != leader) {
				thrown = true;
				throw std::runtime_error("helper");
			}
			while (!thrown) {
				std::this_thread::yield();
			}
		});
	}),
	                std::runtime_error);
	helper.join();
}

TEST_CASE("A piece of work is done once, beside the first steps or without any", "[shared_work]") {
	for (int loops : {0, 1, 3}) {
		for (bool with_work : {false, true}) {
			SharedWork work(2);
			std::atomic<int> steps {0}, done {0}, after_first {0};
			work.Run([&](Parallel &parallel) {
				Beside both(parallel, with_work ? std::function<void()>([&] { done++; }) : nullptr);
				for (int i = 0; i < loops; i++) {
					std::vector<std::atomic<int>> seen(20);
					both.For(20, [&](size_t step) {
						seen[step]++;
						steps++;
					});
					for (auto &one : seen) {
						CHECK(one == 1);
					}
					after_first = i == 0 ? done.load() : after_first.load();
				}
				both.Finish();
			});
			CHECK(steps == 20 * loops);
			CHECK(done == with_work);
			CHECK(after_first == (with_work && loops > 0));
		}
	}
	SharedWork work(2);
	CHECK_THROWS_AS(work.Run([](Parallel &parallel) {
		Beside both(parallel, [] { throw std::runtime_error("beside"); });
		both.For(3, [](size_t) {});
	}),
	                std::runtime_error);
}
