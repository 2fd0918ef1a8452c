#include "duckdb/pinned/watch.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/main/connection_manager.hpp"
#include "duckdb/planner/extension_callback.hpp"
#include "duckdb/support/register_once.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

namespace duckdb {

static constexpr const char *CONNECTION_KEY = "vibespatial_transactions";

//! The transactions of a connection, one after the other. DuckDB calls it in the thread of the connection.
class WatchedConnection : public ClientContextState {
public:
	WatchedConnection(shared_ptr<TransactionWatch> watch_p, ClientContext &context, bool is_active)
	    : watch(std::move(watch_p)), context(context), is_unknown(is_active) {
		lock_guard<mutex> guard(watch->lock);
		watch->connections.insert(this);
	}
	~WatchedConnection() override {
		lock_guard<mutex> guard(watch->lock);
		watch->connections.erase(this);
	}

	void TransactionBegin(MetaTransaction &transaction, ClientContext &) override {
		lock_guard<mutex> guard(watch->lock);
		active = &transaction;
		is_unknown = false;
		began_at = watch->now;
	}
	//! The changes are visible to others already
	void TransactionCommit(MetaTransaction &transaction, ClientContext &) override {
		lock_guard<mutex> guard(watch->lock);
		if (auto changed = transaction.ModifiedDatabase()) {
			watch->changes[changed.get()] = ++watch->now;
		}
		active = nullptr;
		is_unknown = false;
	}
	using ClientContextState::TransactionRollback;
	//! Where a commit fails, its changes may be visible all the same: databases are committed one after the other, and a checkpoint comes last
	void TransactionRollback(MetaTransaction &transaction, ClientContext &, optional_ptr<ErrorData> error) override {
		lock_guard<mutex> guard(watch->lock);
		auto changed = transaction.ModifiedDatabase();
		if (error && changed) {
			watch->changes[changed.get()] = ++watch->now;
		}
		active = nullptr;
		is_unknown = false;
	}
	using ClientContextState::QueryEnd;
	//! A commit that threw tells nobody
	void QueryEnd(ClientContext &) override {
		lock_guard<mutex> guard(watch->lock);
		if ((active || is_unknown) && !context.transaction.HasActiveTransaction()) {
			watch->unknown_change = ++watch->now;
			active = nullptr;
			is_unknown = false;
		}
	}

	const shared_ptr<TransactionWatch> watch;
	ClientContext &context;
	// Under the lock of the watch
	optional_ptr<MetaTransaction> active;
	//! There is a transaction that began before the connection was watched
	bool is_unknown;
	uint64_t began_at = 0;
};

namespace {

class ConnectionCallback : public ExtensionCallback {
public:
	explicit ConnectionCallback(shared_ptr<TransactionWatch> watch) : watch(std::move(watch)) {
	}
	void OnConnectionOpened(ClientContext &context) override {
		Watch(context, false);
	}
	void Watch(ClientContext &context, bool is_active) {
		context.registered_state->GetOrCreate<WatchedConnection>(CONNECTION_KEY, watch, context, is_active);
	}

private:
	const shared_ptr<TransactionWatch> watch;
};

} // namespace

void TransactionWatch::Register(ExtensionLoader &loader) {
	RegisterOnce(loader, "transactions", [&] {
		auto &database = loader.GetDatabaseInstance();
		auto watch = database.GetObjectCache().GetOrCreate<TransactionWatch>(ObjectType());
		auto callback = make_shared_ptr<ConnectionCallback>(watch);
		ExtensionCallback::Register(DBConfig::GetConfig(database), callback);
		for (auto &context : ConnectionManager::Get(database).GetConnectionList()) {
			callback->Watch(*context, context->transaction.HasActiveTransaction());
		}
	});
}

shared_ptr<TransactionWatch> TransactionWatch::Get(ClientContext &context) {
	return ObjectCache::GetObjectCache(context).GetOrCreate<TransactionWatch>(ObjectType());
}

bool TransactionWatch::BeganAt(ClientContext &context, uint64_t &moment) {
	lock_guard<mutex> guard(lock);
	for (auto connection : connections) {
		if (&connection->context == &context && connection->active) {
			moment = connection->began_at;
			return true;
		}
	}
	return false;
}

bool TransactionWatch::HasChanged(AttachedDatabase &database, uint64_t moment) {
	lock_guard<mutex> guard(lock);
	auto found = changes.find(&database);
	return unknown_change > moment || (found != changes.end() && found->second > moment);
}

bool TransactionWatch::IsChanging(AttachedDatabase &database, ClientContext &context) {
	lock_guard<mutex> guard(lock);
	for (auto connection : connections) {
		if (&connection->context == &context) {
			continue;
		}
		// If the transaction has committed what we can see, it had told of the database before: we see that, too. If it has not, either
		// answer is right. It stays alive until it has passed TransactionCommit() or TransactionRollback(), which wait for the lock.
		if (connection->is_unknown || (connection->active && connection->active->ModifiedDatabase() == &database)) {
			return true;
		}
	}
	return false;
}

} // namespace duckdb
