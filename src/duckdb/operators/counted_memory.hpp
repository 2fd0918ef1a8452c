//===----------------------------------------------------------------------===//
// duckdb/operators/counted_memory.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/storage/buffer_manager.hpp"

namespace duckdb {

//! Memory that is not DuckDB's own, counted with its manager. Growing throws DuckDB's out-of-memory error.
class CountedMemory {
public:
	explicit CountedMemory(ClientContext &context) : manager(BufferManager::GetBufferManager(context)) {
	}
	~CountedMemory() {
		manager.FreeReservedMemory(size);
	}
	//! False, with nothing changed, where there is not so much
	bool TryResize(idx_t bytes) {
		try {
			Resize(bytes);
		} catch (const OutOfMemoryException &) {
			return false;
		}
		return true;
	}
	//! Throws with nothing changed
	void Resize(idx_t bytes) {
		const auto before = size;
		try {
			while (bytes > size) {
				const auto more = MinValue<idx_t>(bytes - size, STEP);
				manager.ReserveMemory(more);
				size += more;
			}
		} catch (...) {
			Shrink(before);
			throw;
		}
		Shrink(bytes);
	}
	idx_t Size() const {
		return size;
	}

private:
	void Shrink(idx_t bytes) {
		manager.FreeReservedMemory(size - bytes);
		size = bytes;
	}

	//! While DuckDB looks for room, a reservation that may fail counts as used, and whatever other threads ask for meanwhile fails with it. So
	//! little is asked for at a time, and only the last step can fail. A large one would also have DuckDB flush its allocator.
	static constexpr idx_t STEP = idx_t(1) << 20;

	BufferManager &manager;
	idx_t size = 0;
};

} // namespace duckdb
