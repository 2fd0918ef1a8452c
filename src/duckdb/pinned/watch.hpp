//===----------------------------------------------------------------------===//
// duckdb/pinned/watch.hpp
//
// Which attached databases have been changed. DuckDB has no number that moves with the changes of a table, or of a database: its last
// commit moves with every query. So the transactions of all connections are watched.
// Promise: a change that a transaction can see is known here before that transaction asks, or the transaction that made it is still
// known as one that makes changes.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/storage/object_cache.hpp"
#include "duckdb/support/compat.hpp"

namespace duckdb {

class MetaTransaction;
class WatchedConnection;

//! Of a database instance. Any thread may call any of it.
class TransactionWatch : public ObjectCacheEntry {
public:
	//! To be called when the extension is loaded
	static void Register(ExtensionLoader &loader);
	static shared_ptr<TransactionWatch> Get(ClientContext &context);

	//! The moment at which the transaction of the context began; false where it began before the extension was loaded
	bool BeganAt(ClientContext &context, uint64_t &moment);
	//! Whether a change of the database was committed since a transaction that began at this moment
	bool HasChanged(AttachedDatabase &database, uint64_t moment);
	//! Whether a transaction of another connection has begun to change it and is not known to have ended
	bool IsChanging(AttachedDatabase &database, ClientContext &context);

	static string ObjectType() {
		return "vibespatial_transactions";
	}
	string GetObjectType() override {
		return ObjectType();
	}
	optional_idx GetEstimatedCacheMemory() const override {
		return optional_idx();
	}

private:
	friend class WatchedConnection;

	mutex lock;
	//! Grows with every change
	uint64_t now = 1;
	//! The last change of each database, by address: one that is reused has a change too many
	unordered_map<const AttachedDatabase *, uint64_t> changes;
	//! The last commit of a transaction that nobody told about what it has changed
	uint64_t unknown_change = 0;
	unordered_set<WatchedConnection *> connections;
};

} // namespace duckdb
