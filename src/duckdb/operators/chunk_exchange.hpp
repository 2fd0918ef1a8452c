//===----------------------------------------------------------------------===//
// duckdb/operators/chunk_exchange.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"

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
	//! A copy, where somebody waits for one and the chunk is not too large for that
	bool Give(ClientContext &context, DataChunk &chunk) {
		if (given >= takers || HasLongStrings(chunk)) {
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
	//! A copy takes more memory than goes uncounted
	static bool HasLongStrings(DataChunk &chunk) {
		idx_t bytes = 0;
		for (auto &vector : chunk.data) {
			if (vector.GetType().InternalType() != PhysicalType::VARCHAR) {
				continue;
			}
			UnifiedVectorFormat format;
			ToUnified(vector, chunk.size(), format);
			auto strings = UnifiedVectorFormat::GetData<string_t>(format);
			for (idx_t i = 0; i < chunk.size(); i++) {
				auto row = format.sel->get_index(i);
				bytes += format.validity.RowIsValid(row) ? strings[row].GetSize() : 0;
			}
		}
		return bytes > MAX_BYTES;
	}
	static constexpr idx_t MAX_BYTES = idx_t(4) << 20;

	mutex lock;
	std::condition_variable changed;
	//! Whoever takes looks again before it leaves
	vector<unique_ptr<DataChunk>> chunks;
	atomic<idx_t> given {0};
	atomic<idx_t> takers {0};
	atomic<idx_t> scanning {0};
};

} // namespace duckdb
