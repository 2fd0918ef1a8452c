//===----------------------------------------------------------------------===//
//                         vibespatial
//
// test/sqllogic/session.hpp
//
//
//===----------------------------------------------------------------------===//

#pragma once

#include "duckdb.hpp"

#include <map>
#include <string>
#include <vector>

namespace sqllogic {

//! The database under test: its connections, the extensions loaded into it and the engine it runs on
class Session {
public:
	//! extension and spatial are paths, empty where there is none; scratch is a folder for spilled data;
	//! verify turns on DuckDB's query verification on every connection
	Session(std::string extension, std::string spatial, std::string engine, std::string scratch, bool verify);

	//! Opens a database (an empty path: in memory) and loads again what was loaded before
	void Open(const std::string &path, bool read_only);
	//! Closes the database with all its connections and opens it again
	void Restart();

	//! Whether LoadVibespatial, LoadSpatial have something to load
	bool HasVibespatial() const;
	bool HasSpatial() const;
	void LoadVibespatial();
	void LoadSpatial();
	//! Whether an extension is part of this program or loaded already
	bool IsLoaded(const std::string &name);

	//! The connection of that name, made when first asked for
	duckdb::Connection &GetConnection(const std::string &name);

	//! Selects an engine on the default connection; returns the error, empty if there is none
	std::string TrySetEngine(const std::string &name);
	//! Whether the database has the setting that selects the engine
	bool HasEngineSetting();

private:
	void Load(const std::string &path);
	void SetEngine(duckdb::Connection &connection);
	//! Turns query verification on where it was asked for
	void SetVerification(duckdb::Connection &connection);

private:
	std::string extension;
	std::string spatial;
	std::string engine;
	std::string scratch;
	bool verify;

	std::string database_path;
	bool database_read_only = false;
	//! Paths of the loaded extensions, in the order of loading
	std::vector<std::string> loaded;
	duckdb::unique_ptr<duckdb::DuckDB> database;
	std::map<std::string, duckdb::unique_ptr<duckdb::Connection>> connections;
};

} // namespace sqllogic
