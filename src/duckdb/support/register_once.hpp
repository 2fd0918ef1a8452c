//===----------------------------------------------------------------------===//
// duckdb/support/register_once.hpp
//
// A LOAD that failed half-way, as for want of memory, is tried again by the user. DuckDB keeps what was registered until then, and
// refuses it the second time or takes it twice.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/storage/object_cache.hpp"

namespace duckdb {

class RegisteredNames : public ObjectCacheEntry {
public:
	static string ObjectType() {
		return "vibespatial_registered";
	}
	string GetObjectType() override {
		return ObjectType();
	}
	optional_idx GetEstimatedCacheMemory() const override {
		return optional_idx();
	}

	//! LOAD runs on one thread at a time
	unordered_set<string> names;
};

//! Calls `registration` unless it succeeded before under that name, in the same database
template <class REGISTRATION>
void RegisterOnce(ExtensionLoader &loader, const string &name, REGISTRATION &&registration) {
	auto &cache = loader.GetDatabaseInstance().GetObjectCache();
	auto registered = cache.GetOrCreate<RegisteredNames>(RegisteredNames::ObjectType());
	if (registered->names.insert(name).second) {
		try {
			registration();
		} catch (...) {
			registered->names.erase(name);
			throw;
		}
	}
}

} // namespace duckdb
