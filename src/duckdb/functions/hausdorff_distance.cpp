#include "engine/measure/hausdorff.hpp"

#include "duckdb/support/compat.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/prepared_argument.hpp"

namespace duckdb {

namespace {

struct ST_HausdorffDistance {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &local = PreparedLocalState::Begin(args, state);
		auto measure = [&](const string_t &geom1, const string_t &geom2) {
			auto &left = local.left.GetShape(geom1);
			auto &right = local.right.GetShape(geom2);
			const bool empty = left.dimension < 0 || right.dimension < 0;
			return empty ? std::nullopt : std::optional<double>(vibespatial::HausdorffDistance(left, right));
		};
		ExecuteOrNull<string_t, string_t, double>(args.data[0], args.data[1], result, args.size(), measure);
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(
		    "ST_HausdorffDistance",
		    "The discrete Hausdorff distance: how far the vertices of either geometry are from the points, lines "
		    "and rings of the other one, at most. A measure of how similar two geometries are. NULL when one is "
		    "EMPTY.")
		    .Category("measure")
		    .Example("ST_HausdorffDistance('LINESTRING (0 0, 2 0)'::GEOMETRY, 'LINESTRING (0 1, 1 3, 2 1)'::GEOMETRY)",
		             "3.0")
		    .Overload({{"geom1", LogicalType::GEOMETRY()}, {"geom2", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE,
		              Execute, PreparedArguments)
		    .Register(loader);
	}
};

} // namespace

void RegisterHausdorffDistance(ExtensionLoader &loader) {
	ST_HausdorffDistance::Register(loader);
}

} // namespace duckdb
