#include "engine/dispatch/timeline.hpp"

#include <pthread.h>

namespace vibespatial {

static int64_t Micros(Timeline::Clock::time_point at) {
	return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
}

Timeline &Timeline::Get() {
	static auto *timeline = new Timeline(); // queries may still run while the process ends
	return *timeline;
}

Timeline::Timeline() {
	// A child that is forked while another thread adds a step would find the lock taken for ever
	pthread_atfork([] { Get().lock.lock(); }, [] { Get().lock.unlock(); }, [] { Get().lock.unlock(); });
}

void Timeline::Add(TimelineStep step) {
	std::lock_guard<std::mutex> guard(lock);
	steps.push_back(std::move(step));
	if (steps.size() > CAPACITY) {
		steps.pop_front();
	}
}

void Timeline::Add(uint64_t query, const char *lane, const std::string &name, Clock::time_point begin,
                   Clock::time_point end, uint64_t bytes) {
	Add(TimelineStep {query, lane, name, Micros(begin), Micros(end), bytes});
}

void Timeline::AddWork(uint64_t query, const std::string &name, Clock::time_point begin, const GpuTimes &times) {
	auto at = Micros(begin);
	const auto add = [&](const char *lane, double milliseconds, uint64_t bytes) {
		if (milliseconds > 0 || bytes > 0) {
			const auto end = at + static_cast<int64_t>(milliseconds * 1000);
			Add(TimelineStep {query, lane, name, at, end, bytes});
			at = end;
		}
	};
	add("upload", times.to_device_ms, times.bytes_to_device);
	add("kernels", times.kernel_ms, 0);
	add("download", times.from_device_ms, times.bytes_from_device);
}

std::vector<TimelineStep> Timeline::Steps() {
	std::lock_guard<std::mutex> guard(lock);
	return std::vector<TimelineStep>(steps.begin(), steps.end());
}

} // namespace vibespatial
