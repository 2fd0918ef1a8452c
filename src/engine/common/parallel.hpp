//===----------------------------------------------------------------------===//
// engine/common/parallel.hpp
//
// How the engine asks for more than one thread without knowing whose threads they are.
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

namespace vibespatial {

//! Runs independent steps on the threads that there are; the host decides which
class Parallel {
public:
	virtual ~Parallel() = default;

	//! How many steps may run at the same time
	virtual size_t Threads() const = 0;
	//! Runs step(0) .. step(count - 1), in any order, and returns when none is running any more. Throws what a step
	//! throws; no step starts after that, nor after the query was cancelled (which throws too). Not called from a step.
	virtual void For(size_t count, const std::function<void(size_t)> &step) = 0;
};

//! The calling thread alone
class Serial : public Parallel {
public:
	size_t Threads() const override {
		return 1;
	}
	void For(size_t count, const std::function<void(size_t)> &step) override {
		for (size_t i = 0; i < count; i++) {
			step(i);
		}
	}
};

//! Threads of another, and a piece of work that one of them does beside the first steps
class Beside : public Parallel {
public:
	Beside(Parallel &threads_p, std::function<void()> work_p) : threads(threads_p), work(std::move(work_p)) {
	}

	size_t Threads() const override {
		return threads.Threads();
	}
	void For(size_t count, const std::function<void(size_t)> &step) override {
		if (!work) {
			threads.For(count, step);
			return;
		}
		const auto once = std::move(work);
		work = nullptr;
		threads.For(count + 1, [&](size_t i) { i == 0 ? once() : step(i - 1); });
	}
	//! Where there were no steps
	void Finish() {
		if (work) {
			For(0, [](size_t) {});
		}
	}

private:
	Parallel &threads;
	std::function<void()> work;
};

//! Calls work(0) .. work(count - 1), which may differ in how long they take, on the threads that there are
template <class WORK>
void ForEach(Parallel &parallel, size_t count, WORK &&work) {
	const size_t shares = std::min(count, parallel.Threads() * 32);
	parallel.For(shares, [&](size_t share) {
		for (auto i = count * share / shares; i < count * (share + 1) / shares; i++) {
			work(i);
		}
	});
}

//! Calls work(begin, end) for shares of 0 .. count - 1, on the threads that there are
template <class WORK>
void InShares(Parallel &parallel, size_t count, WORK &&work) {
	constexpr size_t LEAST = 4096;
	const size_t shares = std::max(size_t(1), std::min(count / LEAST, parallel.Threads() * 4));
	parallel.For(shares, [&](size_t share) { work(count * share / shares, count * (share + 1) / shares); });
}

} // namespace vibespatial
