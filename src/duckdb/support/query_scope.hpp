//===----------------------------------------------------------------------===//
// duckdb/support/query_scope.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/storage/buffer_manager.hpp"
#include "geometry/work_scope.hpp"

namespace duckdb {

//! Work for a query on the calling thread, until the end of the block: it ends with DuckDB's error when the query is cancelled,
//! and its memory is counted by DuckDB's manager, whose out-of-memory error it ends with where there is not enough
class QueryScope final : public vibespatial::WorkScope {
public:
	explicit QueryScope(ClientContext &context) : context(context), use(this) {
	}

	void Check() override {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
	}

private:
	//! Kept memory may outlive the query, and a prepared statement even the database
	class Account final : public vibespatial::MemoryAccount {
	public:
		explicit Account(ClientContext &context) : database(context.db) {
		}

	private:
		void Reserve(size_t bytes) override {
			auto owner = database.lock();
			if (!owner) {
				return;
			}
			auto &manager = BufferManager::GetBufferManager(*owner);
			idx_t reserved = 0;
			try {
				while (reserved < bytes) {
					const auto more = MinValue<idx_t>(bytes - reserved, MOST);
					manager.ReserveMemory(more);
					reserved += more;
				}
			} catch (...) {
				manager.FreeReservedMemory(reserved);
				throw;
			}
		}
		void Free(size_t bytes) noexcept override {
			auto owner = database.lock();
			if (owner) {
				BufferManager::GetBufferManager(*owner).FreeReservedMemory(bytes);
			}
		}

		//! As CountedMemory does: what is asked for counts as used, also where it fails
		static constexpr idx_t MOST = idx_t(1) << 20;

		weak_ptr<DatabaseInstance> database;
	};

	vibespatial::MemoryAccount *MakeAccount() override {
		return new Account(context);
	}

	ClientContext &context;
	const Use use;
};

} // namespace duckdb
