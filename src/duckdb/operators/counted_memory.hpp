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
	void Resize(idx_t bytes) {
		if (bytes > size) {
			manager.ReserveMemory(bytes - size);
		} else {
			manager.FreeReservedMemory(size - bytes);
		}
		size = bytes;
	}
	idx_t Size() const {
		return size;
	}

private:
	BufferManager &manager;
	idx_t size = 0;
};

} // namespace duckdb
