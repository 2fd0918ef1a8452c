//===----------------------------------------------------------------------===//
// duckdb/support/function_builder.hpp
//
// One SQL function, from its description to the catalog. A function is a struct with Execute and Register:
//
//   struct ST_Area {
//       static void Execute(DataChunk &args, ExpressionState &state, Vector &result);
//       static void Register(ExtensionLoader &loader) {
//           SqlFunction("ST_Area", "The area of the polygons in a geometry, 0 if there are none.")
//               .Category("measure")
//               .Example("ST_Area('POLYGON ((0 0, 2 0, 2 2, 0 0))'::GEOMETRY)", "2.0")
//               .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE, Execute)
//               .Register(loader);
//       }
//   };
//
// Overload() takes as its last argument what else the ScalarFunction needs:
//   [](ScalarFunction &function) { SetBind<PropagateCrs, MakeData>(function); }
// Unless that changes it: NULL in gives NULL out, types are settled by PropagateCrs (duckdb/support/crs.hpp), and the function
// may throw. Execute runs in a QueryScope (duckdb/support/query_scope.hpp). It may throw vibespatial::GeometryError: the user sees
// "Invalid Input Error: ST_Area: <message>".
//
// Aggregate() stands in the place of Overload() for an aggregate, whose callbacks name the function themselves.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/function/aggregate_function.hpp"
#include "duckdb/function/scalar_function.hpp"
#include "duckdb/parser/parsed_data/create_function_info.hpp"
#include "geometry/error.hpp"

#include <functional>

namespace duckdb {

//! Runs `body` and puts the name of the SQL function in front of what it says is wrong with a geometry
template <class BODY>
auto WithFunctionName(const string &name, BODY &&body) -> decltype(body()) {
	try {
		return body();
	} catch (const vibespatial::GeometryError &error) {
		throw InvalidInputException("%s: %s", name, error.what());
	}
}

class SqlFunction {
public:
	struct Parameter {
		string name;
		LogicalType type;
	};
	using customize_t = std::function<void(ScalarFunction &function)>;

	//! `name` starts with ST_, or with vibe_ for what only we have
	SqlFunction(string name, string description);

	SqlFunction &Category(string category);
	//! An expression and what it gives, as text; shown as "expression -- result"
	SqlFunction &Example(string expression, string result);
	//! A second name for the same function
	SqlFunction &Alias(string name);
	SqlFunction &Overload(vector<Parameter> parameters, LogicalType result, scalar_function_t execute,
	                      const customize_t &customize = nullptr);
	SqlFunction &Aggregate(vector<Parameter> parameters, AggregateFunction function);

	//! Adds the overloads whose argument types nobody has registered under the ST_ name, so that those of `spatial` stay
	//! when it was loaded first (and replace ours when it is loaded later), and all of them under the vibe_ name.
	//! Aggregates: duckdb/expressions/aggregate_names.hpp
	void Register(ExtensionLoader &loader) const;

	//! For Overload(): the function throws on no geometry, so that the optimizer may move it freely
	static void Infallible(ScalarFunction &function) {
		function.SetErrorMode(FunctionErrors::CANNOT_ERROR);
	}
	//! Whether a function in a plan is one that was built here: `spatial` has some of the same names
	static bool IsOurs(const BoundScalarFunction &function);
	//! What mode gpu says of a function in a plan that the CPU computes; null if it is none of ours
	static optional_ptr<const CpuFunction> OnCpu(const BoundScalarFunction &function);
	//! ST_MakeEnvelope -> vibe_makeenvelope
	static string VibeName(const string &name);

private:
	void RegisterName(ExtensionLoader &loader, const string &registered_name) const;
	void RegisterScalars(ExtensionLoader &loader, const string &registered_name) const;
	void RegisterAggregates(ExtensionLoader &loader, const string &registered_name) const;
	//! What the catalog says of an overload
	FunctionDescription Describe(const vector<Parameter> &overload_parameters, const string &registered_name) const;

	string name;
	vector<string> aliases;
	string description;
	vector<string> categories;
	vector<string> examples;
	//! Those of each overload, or of each aggregate: a function has one or the other
	vector<vector<Parameter>> parameters;
	vector<ScalarFunction> overloads;
	vector<AggregateFunction> aggregates;
};

} // namespace duckdb
