#include "engine/cpu/shared_work.hpp"

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
