//===----------------------------------------------------------------------===//
// duckdb/pinned/held.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/main/client_context_state.hpp"

namespace duckdb {

//! What the queries of a connection hold of pinned tables. The plan of a prepared statement keeps what its last execution has found, and
//! rows that are held are not evicted: so it is released when the query ends.
template <class ROWS>
class HeldByQuery : public ClientContextState {
public:
	//! `name`: differs from type to type
	static void Add(ClientContext &context, const string &name, const shared_ptr<ROWS> &rows) {
		auto held = context.registered_state->GetOrCreate<HeldByQuery>(name);
		lock_guard<mutex> guard(held->lock);
		held->rows.push_back(rows);
	}
	void QueryEnd() override {
		vector<weak_ptr<ROWS>> ended;
		{
			lock_guard<mutex> guard(lock);
			ended.swap(rows);
		}
		for (auto &row : ended) {
			if (auto kept = row.lock()) {
				kept->Release();
			}
		}
	}

private:
	mutex lock;
	vector<weak_ptr<ROWS>> rows;
};

} // namespace duckdb
