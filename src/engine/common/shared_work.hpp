//===----------------------------------------------------------------------===//
// engine/common/shared_work.hpp
//
// One piece of work, done once by all the threads that need its result
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "geometry/work_scope.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

namespace vibespatial {

class SharedWork : public Parallel {
public:
	//! `threads`: how many may come. `poll` is called before each step, and throws to stop the work.
	explicit SharedWork(size_t threads_p = 1, std::function<void()> poll_p = nullptr)
	    : threads(threads_p), poll(std::move(poll_p)) {
	}

	//! The first thread to come leads: it runs `work`, whose steps all other threads that come take part in. Everyone returns
	//! when all is done. What a step throws, everyone throws.
	void Run(const std::function<void(Parallel &)> &work) {
		std::unique_lock<std::mutex> guard(lock);
		if (state == State::WAITING) {
			state = State::RUNNING;
			guard.unlock();
			std::exception_ptr thrown;
			try {
				work(*this);
			} catch (...) {
				thrown = std::current_exception();
			}
			guard.lock();
			error = thrown;
			state = State::DONE;
			changed.notify_all();
		}
		while (state != State::DONE) {
			if (next < count) {
				TakeSteps(guard, Clock::time_point::max());
			} else {
				changed.wait(guard);
			}
		}
		if (error) {
			std::rethrow_exception(error);
		}
	}

	//! Takes part until all is done. When `patience` runs out before, calls `again`, while the work cannot end, and returns.
	void Help(std::chrono::milliseconds patience, const std::function<void()> &again) {
		const auto until = Clock::now() + patience;
		std::unique_lock<std::mutex> guard(lock);
		while (state != State::DONE) {
			if (Clock::now() >= until) {
				again();
				return;
			}
			if (next < count) {
				TakeSteps(guard, until);
			} else {
				changed.wait_until(guard, until);
			}
		}
	}

	size_t Threads() const override {
		return threads;
	}
	void For(size_t step_count, const std::function<void(size_t)> &step_p) override {
		std::unique_lock<std::mutex> guard(lock);
		step = &step_p;
		scope = WorkScope::Current();
		next = 0;
		count = step_count;
		step_error = nullptr;
		changed.notify_all();
		TakeSteps(guard, Clock::time_point::max());
		idle.wait(guard, [&] { return running == 0; });
		next = 0;
		count = 0;
		if (step_error) {
			std::rethrow_exception(step_error);
		}
	}

private:
	enum class State { WAITING, RUNNING, DONE };
	using Clock = std::chrono::steady_clock;

	//! One step after the other without the lock, until none is left or the time is over. As long as it is counted in `running`,
	//! there is no other For.
	void TakeSteps(std::unique_lock<std::mutex> &guard, Clock::time_point until) {
		running++;
		guard.unlock();
		// Who helps works for the one who leads
		const WorkScope::Use use(scope);
		std::exception_ptr thrown;
		try {
			while (Clock::now() < until) {
				const auto mine = next++;
				if (mine >= count) {
					break;
				}
				if (poll) {
					poll();
				}
				(*step)(mine);
			}
		} catch (...) {
			thrown = std::current_exception();
			next = count;
		}
		guard.lock();
		if (thrown) {
			step_error = thrown;
		}
		if (--running == 0) {
			idle.notify_one();
		}
	}

	const size_t threads;
	const std::function<void()> poll;
	std::mutex lock;
	//! There are steps, or all is done
	std::condition_variable changed;
	//! For the one who leads: nobody has a step any more
	std::condition_variable idle;
	State state = State::WAITING;
	std::exception_ptr error;
	const std::function<void(size_t)> *step = nullptr;
	//! Of the thread that leads
	WorkScope *scope = nullptr;
	//! Beyond `count` where threads looked for more
	std::atomic<size_t> next {0};
	size_t count = 0;
	size_t running = 0;
	std::exception_ptr step_error;
};

} // namespace vibespatial
