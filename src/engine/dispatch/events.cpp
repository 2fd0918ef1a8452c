#include "engine/dispatch/events.hpp"

#include <chrono>
#include <pthread.h>

namespace vibespatial {

DispatchLog &DispatchLog::Get() {
	static auto *log = new DispatchLog(); // queries may still run while the process ends
	return *log;
}

DispatchLog::DispatchLog() {
	// A child that is forked while another thread adds an event would find the lock taken for ever
	pthread_atfork([] { Get().lock.lock(); }, [] { Get().lock.unlock(); }, [] { Get().lock.unlock(); });
}

void DispatchLog::Add(DispatchEvent event) {
	auto now = std::chrono::system_clock::now().time_since_epoch();
	std::lock_guard<std::mutex> guard(lock);
	event.sequence = ++last;
	event.time = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
	events.push_back(std::move(event));
	if (events.size() > CAPACITY) {
		events.pop_front();
	}
}

std::vector<DispatchEvent> DispatchLog::Events() {
	std::lock_guard<std::mutex> guard(lock);
	return std::vector<DispatchEvent>(events.begin(), events.end());
}

} // namespace vibespatial
