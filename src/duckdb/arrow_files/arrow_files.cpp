#include "duckdb/arrow_files/arrow_files.hpp"

#include "duckdb/main/config.hpp"
#include "duckdb/main/settings.hpp"
#include "duckdb/support/settings.hpp"

#include "engine/arrow/arrow_runtime.hpp"

namespace duckdb {

namespace {

constexpr const char *LIBRARY_SETTING = "vibe_arrow_library";

void CheckPath(const string &source, const string &path) {
	if (!path.empty() && path[0] != '/') {
		throw InvalidInputException("%s = '%s': an absolute path is wanted, of libarrow or of its folder", source,
		                            path);
	}
}

void SetLibrary(ClientContext &context, SetScope scope, Value &value) {
	if (scope == SetScope::SESSION) {
		throw InvalidInputException("%s is of the whole process: SET GLOBAL %s", LIBRARY_SETTING, LIBRARY_SETTING);
	}
	auto path = value.IsNull() ? string() : StringValue::Get(value);
	if (!path.empty() && !HasExternalAccess(context)) {
		throw PermissionException("%s cannot be set while enable_external_access is off", LIBRARY_SETTING);
	}
	CheckPath(LIBRARY_SETTING, path);
	value = Value(path);
}

} // namespace

const vibespatial::ArrowFiles &GetArrowFiles(ClientContext &context) {
	auto &runtime = vibespatial::ArrowRuntime::Get();
	auto files = runtime.IfOpen();
	if (files) {
		return *files;
	}
	if (!HasExternalAccess(context)) {
		throw PermissionException("the Arrow plug-in is not open, and is not opened while enable_external_access is "
		                          "off; a query on an Arrow file before that opens it");
	}
	Value library;
	context.TryGetCurrentSetting(LIBRARY_SETTING, library);
	string why_not;
	files = runtime.Files(library.IsNull() ? string() : StringValue::Get(library), why_not);
	if (!files) {
		throw MissingExtensionException("%s", why_not);
	}
	return *files;
}

void RegisterArrowFiles(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	auto library = SettingDefault(LIBRARY_SETTING, Value(""), [](const string &variable, Value &path) {
		CheckPath(variable, StringValue::Get(path));
	});
	config.AddExtensionOption(LIBRARY_SETTING,
	                          "The libarrow that Arrow files are read and written with, or its folder; empty: where it "
	                          "is found. Of the whole "
	                          "process, and fixed once an Arrow file was opened",
	                          LogicalType::VARCHAR, library, SetLibrary, SetScope::GLOBAL);
	RegisterReadArrow(loader);
	RegisterCopyArrow(loader);
}

} // namespace duckdb
