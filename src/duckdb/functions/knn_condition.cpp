// The optimizer puts an operator in the place of the joins that have it as a condition: duckdb/knn/rewrites/join_condition.cpp
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/support/crs.hpp"
#include "duckdb/support/function_builder.hpp"

namespace duckdb {

namespace {

struct ST_KNN {
	static void Execute(DataChunk &, ExpressionState &, Vector &) {
		throw vibespatial::GeometryError(
		    "this is a condition of a join, and has no value for a pair of geometries. Write it in the "
		    "ON of an INNER or LEFT JOIN, or in WHERE, by itself or joined to other conditions by AND");
	}

	static Value ConstantOf(ClientContext &context, BoundFunction &function, const Expression &argument,
	                        const char *what) {
		if (argument.HasParameter()) {
			// Bound again when the statement is executed
			throw ParameterNotResolvedException();
		}
		if (!argument.IsFoldable()) {
			throw BinderException("%s: %s must be a constant, not %s", NameOf(function), what, argument.ToString());
		}
		return ExpressionExecutor::EvaluateScalar(context, argument);
	}

	static void Settle(ClientContext &context, BoundFunction &function,
	                   const vector<unique_ptr<Expression>> &arguments) {
		PropagateCrs(function, arguments);
		auto k = ConstantOf(context, function, *arguments[2], "k");
		if (k.IsNull() || !TryCast(k, LogicalType::BIGINT) || BigIntValue::Get(k) < 1) {
			throw BinderException("%s: k must be at least 1, not %s", NameOf(function), k.ToString());
		}
		if (arguments.size() == 3) {
			return;
		}
		auto spheroid = ConstantOf(context, function, *arguments[3], "use_spheroid");
		if (spheroid.IsNull() || !TryCast(spheroid, LogicalType::BOOLEAN) || BooleanValue::Get(spheroid)) {
			throw BinderException("%s: distances are planar, use_spheroid must be false, not %s", NameOf(function),
			                      spheroid.ToString());
		}
	}

	//! NULL for k is an error, too
	static void Customize(ScalarFunction &function) {
		SetBindByValues<Settle>(function);
		function.SetNullHandling(FunctionNullHandling::SPECIAL_HANDLING);
	}

	static void Register(ExtensionLoader &loader) {
		const SqlFunction::Parameter query {"query", LogicalType::GEOMETRY()};
		const SqlFunction::Parameter object {"object", LogicalType::GEOMETRY()};
		const SqlFunction::Parameter k {"k", LogicalType::BIGINT};
		SqlFunction(
		    "ST_KNN",
		    "A condition of a join: the row of object is one of the k nearest to the row of query, by ST_Distance. It "
		    "stands "
		    "in the ON of an INNER or LEFT JOIN, or in WHERE; other conditions apply to the neighbours that it finds. "
		    "k is a constant, and use_spheroid must be false.")
		    .Category("distance")
		    .Example("(SELECT string_agg(b.name) FROM (VALUES ('POINT (0 0)'::GEOMETRY)) a(geom) JOIN (VALUES ('near', "
		             "'POINT (1 0)'::GEOMETRY), ('far', 'POINT (9 0)'::GEOMETRY)) b(name, geom) ON ST_KNN(a.geom, "
		             "b.geom, 1))",
		             "near")
		    .Overload({query, object, k}, LogicalType::BOOLEAN, Execute, Customize)
		    .Overload({query, object, k, {"use_spheroid", LogicalType::BOOLEAN}}, LogicalType::BOOLEAN, Execute,
		              Customize)
		    .Register(loader);
	}
};

} // namespace

void RegisterKnnCondition(ExtensionLoader &loader) {
	ST_KNN::Register(loader);
}

} // namespace duckdb
