//===----------------------------------------------------------------------===//
// duckdb/operators/chunk_exchange.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

#include <chrono>
#include <condition_variable>

namespace duckdb {

//! Chunks that threads with something left to scan give to those with nothing
class ChunkExchange {
public:
	//! A thread scans, and scans no more
	void Begin() {
		scanning++;
	}
	void End() {
		lock_guard<mutex> guard(lock);
		if (--scanning == 0) {
			changed.notify_all();
		}
	}
	//! A copy, where somebody waits for one
	bool Give(ClientContext &context, DataChunk &chunk) {
		if (given >= takers) {
			return false;
		}
		auto copy = make_uniq<DataChunk>();
		copy->Initialize(Allocator::Get(context), chunk.GetTypes());
		chunk.Copy(*copy);
		lock_guard<mutex> guard(lock);
		if (takers == 0) {
			return false;
		}
		chunks.push_back(std::move(copy));
		given = chunks.size();
		changed.notify_one();
		return true;
	}
	//! Uses what others give until they scan no more, or give nothing for a while: a thread may be needed elsewhere
	template <class USE>
	void Take(const USE &use) {
		constexpr std::chrono::milliseconds PATIENCE {1};
		unique_lock<mutex> guard(lock);
		takers++;
		while (true) {
			changed.wait_for(guard, PATIENCE, [&] { return !chunks.empty() || scanning == 0; });
			if (chunks.empty()) {
				break;
			}
			auto chunk = std::move(chunks.back());
			chunks.pop_back();
			given = chunks.size();
			guard.unlock();
			use(*chunk);
			guard.lock();
		}
		takers--;
	}

private:
	mutex lock;
	std::condition_variable changed;
	//! Whoever takes looks again before it leaves
	vector<unique_ptr<DataChunk>> chunks;
	atomic<idx_t> given {0};
	atomic<idx_t> takers {0};
	atomic<idx_t> scanning {0};
};

} // namespace duckdb
