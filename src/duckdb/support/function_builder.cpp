#include "duckdb/support/function_builder.hpp"

#include "duckdb/support/crs.hpp"
#include "duckdb/support/query_scope.hpp"

#include "duckdb/catalog/catalog_entry/scalar_function_catalog_entry.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/parser/parsed_data/create_aggregate_function_info.hpp"
#include "duckdb/parser/parsed_data/create_scalar_function_info.hpp"

namespace duckdb {

SqlFunction::SqlFunction(string name, string description) : name(std::move(name)), description(std::move(description)) {
}

SqlFunction &SqlFunction::Category(string category) {
	categories.push_back(std::move(category));
	return *this;
}

SqlFunction &SqlFunction::Example(string expression, string result) {
	examples.push_back(expression + " -- " + result);
	return *this;
}

SqlFunction &SqlFunction::Alias(string alias) {
	aliases.push_back(std::move(alias));
	return *this;
}

SqlFunction &SqlFunction::Overload(vector<Parameter> overload_parameters, LogicalType result, scalar_function_t execute,
                                   const customize_t &customize) {
	vector<LogicalType> types;
	for (auto &parameter : overload_parameters) {
		types.push_back(parameter.type);
	}
	ScalarFunction function(Identifier(name), std::move(types), std::move(result), std::move(execute));
	SetBind<PropagateCrs>(function);
	function.SetFallible();
	if (customize) {
		customize(function);
	}
	parameters.push_back(std::move(overload_parameters));
	overloads.push_back(std::move(function));
	return *this;
}

SqlFunction &SqlFunction::Aggregate(vector<Parameter> aggregate_parameters, AggregateFunction function) {
	parameters.push_back(std::move(aggregate_parameters));
	aggregates.push_back(std::move(function));
	return *this;
}

//! What our functions carry with them
struct OurFunction : public ScalarFunctionInfo {
	explicit OurFunction(const string &name) : on_cpu(CpuFunction::Scalar(name)) {
	}
	const CpuFunction on_cpu;
};

optional_ptr<const CpuFunction> SqlFunction::OnCpu(const BoundScalarFunction &function) {
	if (!function.HasExtraFunctionInfo()) {
		return nullptr;
	}
	auto ours = dynamic_cast<const OurFunction *>(&function.GetExtraFunctionInfo());
	return ours ? &ours->on_cpu : nullptr;
}

bool SqlFunction::IsOurs(const BoundScalarFunction &function) {
	return OnCpu(function) != nullptr;
}

string SqlFunction::VibeName(const string &name) {
	auto lower = StringUtil::Lower(name);
	return StringUtil::StartsWith(lower, "st_") ? "vibe_" + lower.substr(3) : lower;
}

//! Whether the catalog has something under this name that a new overload would clash with
static bool IsTaken(ExtensionLoader &loader, const string &name, const ScalarFunction &function) {
	auto entry = loader.TryGetFunction(Identifier(name));
	if (!entry) {
		return false;
	}
	// aggregates and macros share their names with scalar functions and cannot be extended
	if (entry->type != CatalogType::SCALAR_FUNCTION_ENTRY) {
		return true;
	}
	// arguments only: two overloads that differ in nothing but their result could never be told apart
	return HasOverload(entry->Cast<ScalarFunctionCatalogEntry>().functions, function);
}

FunctionDescription SqlFunction::Describe(const vector<Parameter> &overload_parameters,
                                          const string &registered_name) const {
	FunctionDescription entry;
	entry.description = description;
	entry.categories = categories;
	for (auto &parameter : overload_parameters) {
		entry.parameter_names.push_back(parameter.name);
		entry.parameter_types.push_back(parameter.type);
	}
	for (auto &example : examples) {
		entry.examples.push_back(StringUtil::Replace(example, name + "(", registered_name + "("));
	}
	return entry;
}

void SqlFunction::RegisterScalars(ExtensionLoader &loader, const string &registered_name) const {
	ScalarFunctionSet set {Identifier(registered_name)};
	vector<FunctionDescription> descriptions;
	for (idx_t i = 0; i < overloads.size(); i++) {
		auto function = overloads[i];
		if (IsTaken(loader, registered_name, function)) {
			continue;
		}
		SetName(function, registered_name);
		const auto info = make_shared_ptr<OurFunction>(name);
		function.SetExtraFunctionInfo(info);
		auto execute = ExecuteOf(function);
		SetExecute(function, [execute, registered_name, info](DataChunk &args, ExpressionState &state, Vector &result) {
			// An expression that is stored, such as one of an index, may be executed for no client
			std::optional<QueryScope> scope;
			std::optional<CpuWork> work;
			if (state.HasContext()) {
				scope.emplace(state.GetContext());
				// Constants, which have no input, are part of the planning
				if (CpuWork::IsLogged(state.GetContext()) && state.root.executor->chunk) {
					work.emplace(state.GetContext(), info->on_cpu);
				}
			}
			WithFunctionName(registered_name, [&]() { execute(args, state, result); });
			if (work) {
				work->Finish(args.size());
			}
		});
		descriptions.push_back(Describe(parameters[i], registered_name));
		NameParameters(function, descriptions.back().parameter_names);
		set.AddFunction(function);
	}
	if (set.functions.empty()) {
		return;
	}
	CreateScalarFunctionInfo info(std::move(set));
	info.on_conflict = OnCreateConflict::ALTER_ON_CONFLICT;
	info.descriptions = std::move(descriptions);
	info.alias_of = Identifier(name);
	loader.RegisterFunction(std::move(info));
}

void SqlFunction::RegisterAggregates(ExtensionLoader &loader, const string &registered_name) const {
	// An aggregate cannot be extended by another's overloads
	if (loader.TryGetFunction(Identifier(registered_name))) {
		return;
	}
	AggregateFunctionSet set {Identifier(registered_name)};
	vector<FunctionDescription> descriptions;
	for (idx_t i = 0; i < aggregates.size(); i++) {
		auto function = aggregates[i];
		SetName(function, registered_name);
		descriptions.push_back(Describe(parameters[i], registered_name));
		NameParameters(function, descriptions.back().parameter_names);
		set.AddFunction(std::move(function));
	}
	CreateAggregateFunctionInfo info(std::move(set));
	info.descriptions = std::move(descriptions);
	info.alias_of = Identifier(name);
	loader.RegisterFunction(std::move(info));
}

void SqlFunction::RegisterName(ExtensionLoader &loader, const string &registered_name) const {
	if (aggregates.empty()) {
		RegisterScalars(loader, registered_name);
	} else {
		RegisterAggregates(loader, registered_name);
	}
}

void SqlFunction::Register(ExtensionLoader &loader) const {
	RegisterName(loader, name);
	auto vibe_name = VibeName(name);
	if (vibe_name != name) {
		RegisterName(loader, vibe_name);
	}
	for (auto &alias : aliases) {
		RegisterName(loader, alias);
		RegisterName(loader, VibeName(alias));
	}
}

} // namespace duckdb
