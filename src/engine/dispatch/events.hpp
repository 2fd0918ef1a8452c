//===----------------------------------------------------------------------===//
// engine/dispatch/events.hpp
//
// What was decided and what happened, piece of work by piece of work: vibe_dispatch_log() shows it
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vibespatial {

//! The text of a query, and whose it is: who may read the log need not be allowed to read every text in it
struct QueryText {
	//! Numbers that this process gave, never twice
	uint64_t database = 0;
	uint64_t connection = 0;
	std::string text;
	//! Of the query itself, also never twice; 0 for none
	uint64_t id = 0;
};

struct DispatchEvent {
	//! From 1, without gaps; the log writes it
	uint64_t sequence = 0;
	//! Microseconds since 1970; the log writes it
	int64_t time = 0;
	QueryText query;
	std::string operator_name;
	std::string operation;
	//! auto, cpu or gpu
	std::string requested;
	//! cpu or gpu
	std::string selected;
	//! cpu, gpu, or none where the work failed
	std::string actual;
	std::string reason;
	uint64_t rows = 0;
	//! Of those: what each did, nobody where the work failed
	uint64_t rows_on_device = 0;
	uint64_t rows_on_cpu = 0;
	//! Pairs that the device found and left to the CPU to decide
	uint64_t open_pairs = 0;
	uint64_t bytes_to_device = 0;
	uint64_t bytes_from_device = 0;
	double wait_ms = 0;
	double to_device_ms = 0;
	double kernel_ms = 0;
	double from_device_ms = 0;
	double total_ms = 0;
	//! The device was selected, and the work was done elsewhere
	bool fallback = false;
	//! The kernels that the work waited for, and where each came from: pack, disk, jit, or why it did not come
	std::vector<std::pair<std::string, std::string>> kernels;
	//! How long it waited for them; part of wait_ms
	double kernel_wait_ms = 0;
};

//! The last events of the process
class DispatchLog {
public:
	static constexpr size_t CAPACITY = 4096;

	static DispatchLog &Get();

	void Add(DispatchEvent event);
	//! Oldest first
	std::vector<DispatchEvent> Events();

private:
	DispatchLog();

	std::mutex lock;
	std::deque<DispatchEvent> events;
	uint64_t last = 0;
};

} // namespace vibespatial
