#include "session.hpp"

#include "duckdb/main/config.hpp"

#include <algorithm>

namespace sqllogic {

static constexpr const char *ENGINE_SETTING = "vibe_execution_mode";

static std::string Quote(const std::string &text) {
	std::string result = "'";
	for (auto c : text) {
		result += c;
		if (c == '\'') {
			result += c;
		}
	}
	return result + "'";
}

//! Runs SQL of the runner's own; any error is an exception
static duckdb::unique_ptr<duckdb::QueryResult> Run(duckdb::Connection &connection, const std::string &sql) {
	duckdb::unique_ptr<duckdb::QueryResult> result = connection.Query(sql);
	if (result->HasError()) {
		result->ThrowError(sql + ": ");
	}
	return result;
}

static bool HasRows(duckdb::Connection &connection, const std::string &from) {
	return Run(connection, "SELECT count(*) FROM " + from)->Fetch()->GetValue(0, 0).GetValue<int64_t>() > 0;
}

Session::Session(std::string extension_p, std::string spatial_p, std::string engine_p, std::string scratch_p,
                 bool verify)
    : extension(std::move(extension_p)), spatial(std::move(spatial_p)), engine(std::move(engine_p)),
      scratch(std::move(scratch_p)), verify(verify) {
}

void Session::Open(const std::string &path, bool read_only) {
	connections.clear();
	database.reset();
	database_path = path;
	database_read_only = read_only;

	duckdb::DBConfig config;
	config.SetOptionByName("allow_unsigned_extensions", duckdb::Value::BOOLEAN(true));
	// A DuckDB that was built from its sources may add the commit to the version that the footers of extensions name
	auto has_commit = std::string(duckdb::DuckDB::LibraryVersion()).find("-0-g") != std::string::npos;
	config.SetOptionByName("allow_extensions_metadata_mismatch", duckdb::Value::BOOLEAN(has_commit));
	// Nothing of the machine the test runs on gets in: no extension of the user's, no spilling into the current folder
	config.SetOptionByName("autoload_known_extensions", duckdb::Value::BOOLEAN(false));
	config.SetOptionByName("autoinstall_known_extensions", duckdb::Value::BOOLEAN(false));
	config.SetOptionByName("extension_directory", duckdb::Value(scratch + "/extensions"));
	config.SetOptionByName("temp_directory", duckdb::Value(scratch + "/spill"));
	if (read_only) {
		config.SetOptionByName("access_mode", duckdb::Value("read_only"));
	}
	database = duckdb::make_uniq<duckdb::DuckDB>(path.empty() ? ":memory:" : path, &config);
	for (auto &extension_path : loaded) {
		Run(GetConnection(""), "LOAD " + Quote(extension_path));
	}
	SetEngine(GetConnection(""));
}

void Session::Restart() {
	Open(database_path, database_read_only);
}

bool Session::HasVibespatial() const {
	return !extension.empty();
}

bool Session::HasSpatial() const {
	return !spatial.empty();
}

void Session::LoadVibespatial() {
	Load(extension);
}

void Session::LoadSpatial() {
	Load(spatial);
}

void Session::Load(const std::string &path) {
	if (std::find(loaded.begin(), loaded.end(), path) != loaded.end()) {
		return;
	}
	Run(GetConnection(""), "LOAD " + Quote(path));
	loaded.push_back(path);
	for (auto &entry : connections) {
		SetEngine(*entry.second);
	}
}

bool Session::IsLoaded(const std::string &name) {
	return HasRows(GetConnection(""), "duckdb_extensions() WHERE loaded AND extension_name = " + Quote(name));
}

duckdb::Connection &Session::GetConnection(const std::string &name) {
	auto &connection = connections[name];
	if (!connection) {
		connection = duckdb::make_uniq<duckdb::Connection>(*database);
		SetVerification(*connection);
		SetEngine(*connection);
	}
	return *connection;
}

bool Session::HasEngineSetting() {
	return HasRows(GetConnection(""), "duckdb_settings() WHERE name = " + Quote(ENGINE_SETTING));
}

std::string Session::TrySetEngine(const std::string &name) {
	auto result = GetConnection("").Query(std::string("SET ") + ENGINE_SETTING + " = " + Quote(name));
	return result->HasError() ? result->GetError() : "";
}

void Session::SetEngine(duckdb::Connection &connection) {
	if (std::find(loaded.begin(), loaded.end(), extension) == loaded.end() || engine.empty() || !HasEngineSetting()) {
		return;
	}
	Run(connection, std::string("SET ") + ENGINE_SETTING + " = " + Quote(engine));
}

void Session::SetVerification(duckdb::Connection &connection) {
	if (!verify) {
		return;
	}
	Run(connection, "PRAGMA enable_verification");
	if (std::string(duckdb::DuckDB::LibraryVersion()).compare(0, 3, "v1.") == 0) {
		return;
	}
	// Since 2.0 a query is not run in all ways and compared, but in the one way that is chosen: the file has the results
	for (auto setting : {"column_bindings = true", "serializer = true", "stats = true",
	                     "vector = 'dictionary_operator'", "statement = 'serialize_statement'"}) {
		Run(connection, std::string("SET debug_verify_") + setting);
	}
}

} // namespace sqllogic
