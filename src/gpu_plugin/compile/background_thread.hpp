//===----------------------------------------------------------------------===//
// gpu_plugin/compile/background_thread.hpp
//
// A thread that is waited for, but not for ever: at the end of a process it may be stuck in a driver that was taken down. One that is
// left to itself goes on while the process ends, so it must not use objects that end with the process.
//===----------------------------------------------------------------------===//
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace vibespatial {

class BackgroundThread {
public:
	BackgroundThread() = default;
	//! Throws where no thread can be started. What the work throws ends the thread, not the process.
	explicit BackgroundThread(std::function<void()> work) : ended(std::make_shared<Ended>()) {
		auto state = ended;
		try {
			thread = std::thread([state, work = std::move(work)] {
				try {
					work();
				} catch (...) { // NOLINT: who waits for its result has a time limit
				}
				std::lock_guard<std::mutex> guard(state->lock);
				state->yes = true;
				state->changed.notify_all();
			});
		} catch (const std::system_error &error) {
			throw std::runtime_error(std::string("no thread could be started: ") + error.what());
		}
	}
	BackgroundThread(BackgroundThread &&) = default;
	BackgroundThread &operator=(BackgroundThread &&) = default;

	//! Whether it ended in that time; else it is left to itself
	bool JoinWithin(double timeout_seconds) {
		if (!thread.joinable()) {
			return true;
		}
		{
			std::unique_lock<std::mutex> guard(ended->lock);
			if (!ended->changed.wait_for(guard, std::chrono::duration<double>(timeout_seconds),
			                             [&] { return ended->yes; })) {
				thread.detach();
				return false;
			}
		}
		thread.join();
		return true;
	}

private:
	struct Ended {
		std::mutex lock;
		std::condition_variable changed;
		bool yes = false;
	};
	std::shared_ptr<Ended> ended;
	std::thread thread;
};

} // namespace vibespatial
