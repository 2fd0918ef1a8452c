//===----------------------------------------------------------------------===//
// three_threads.hpp
//
// Steps on three threads at a time, so that tests (and a race detector) see what the serial order hides.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"

#include <thread>
#include <vector>

class ThreeThreads : public vibespatial::Parallel {
public:
	size_t Threads() const override {
		return 3;
	}
	void For(size_t count, const std::function<void(size_t)> &step) override {
		std::vector<std::thread> threads;
		threads.reserve(3);
		for (size_t first = 0; first < 3; first++) {
			threads.emplace_back([&step, first, count] {
				for (size_t i = first; i < count; i += 3) {
					step(i);
				}
			});
		}
		for (auto &thread : threads) {
			thread.join();
		}
	}
};
