//===----------------------------------------------------------------------===//
// engine/dispatch/timeline.hpp
//
// What queries spend their time on, step by step: vibe_timeline() shows it, with what the GPU engine adds of its own start
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace vibespatial {

struct TimelineStep {
	//! The number of the query (QueryText::id)
	uint64_t query = 0;
	//! scan, sink, index, wait, upload, kernels, download or emit
	std::string lane;
	std::string name;
	//! Microseconds since 1970
	int64_t begin_us = 0;
	int64_t end_us = 0;
	//! That were copied
	uint64_t bytes = 0;
};

//! The last steps of the process. Any thread may call any of it.
class Timeline {
public:
	static constexpr size_t CAPACITY = 16384;
	typedef std::chrono::system_clock Clock;

	static Timeline &Get();

	void Add(TimelineStep step);
	void Add(uint64_t query, const char *lane, const std::string &name, Clock::time_point begin, Clock::time_point end,
	         uint64_t bytes = 0);
	//! A piece of work on the device that began then: its upload, kernels and download, which follow each other
	void AddWork(uint64_t query, const std::string &name, Clock::time_point begin, const GpuTimes &times);
	//! In the order they were added
	std::vector<TimelineStep> Steps();

private:
	Timeline();

	std::mutex lock;
	std::deque<TimelineStep> steps;
};

} // namespace vibespatial
