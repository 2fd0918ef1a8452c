#include "duckdb/settings.hpp"

#include "duckdb/main/config.hpp"

#include <cstdlib>

namespace duckdb {

//! The mode in lower case. `source` is what the user set: the setting or the environment variable
static string CheckExecutionMode(const string &source, const string &value) {
	auto mode = StringUtil::Lower(value);
	if (mode == "auto" || mode == "cpu") {
		return mode;
	}
	if (mode == "gpu") {
		throw InvalidInputException("%s = 'gpu': this build of vibespatial has no GPU engine; use 'auto' or 'cpu'",
		                            source);
	}
	throw InvalidInputException("%s = '%s': the execution mode is one of 'auto', 'cpu', 'gpu'", source, value);
}

static void SetExecutionMode(ClientContext &, SetScope, Value &parameter) {
	auto value = parameter.IsNull() ? string() : StringValue::Get(parameter);
	parameter = Value(CheckExecutionMode("vibe_execution_mode", value));
}

void RegisterSettings(ExtensionLoader &loader) {
	const char *variable = "VIBESPATIAL_EXECUTION_MODE";
	auto environment = std::getenv(variable);
	auto mode = environment && *environment ? CheckExecutionMode(variable, environment) : string("auto");

	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	config.AddExtensionOption("vibe_execution_mode", "Where vibespatial computes: auto, cpu or gpu",
	                          LogicalType::VARCHAR, Value(mode), SetExecutionMode);
	config.AddExtensionOption("vibe_deterministic",
	                          "Rows of a spatial join come in a stable order, whatever the number of threads",
	                          LogicalType::BOOLEAN, Value::BOOLEAN(false));
	config.AddExtensionOption("vibe_join_partitions",
	                          "Cut the build side of spatial joins into so many parts; 0: as many as memory asks for",
	                          LogicalType::UBIGINT, Value::UBIGINT(0));
}

} // namespace duckdb
