#include "engine/constructive/remove_repeated_points.hpp"

#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/wkb_output.hpp"

namespace duckdb {

namespace {

struct ST_RemoveRepeatedPoints {
	vibespatial::GeometryBatch input;
	vibespatial::GeometryBatch output;

	string_t Remove(const string_t &wkb, double tolerance, Vector &result) {
		input.Clear();
		output.Clear();
		vibespatial::ReadWkb(WkbData(wkb), wkb.GetSize(), input);
		vibespatial::RemoveRepeatedPoints(input, 0, tolerance, output);
		return EmitRow(result, output);
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ST_RemoveRepeatedPoints rows;
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(),
		                                           [&](const string_t &wkb) { return rows.Remove(wkb, 0, result); });
	}

	static void ExecuteTolerance(DataChunk &args, ExpressionState &, Vector &result) {
		ST_RemoveRepeatedPoints rows;
		BinaryExecutor::Execute<string_t, double, string_t>(
		    args.data[0], args.data[1], result, args.size(),
		    [&](const string_t &wkb, double tolerance) { return rows.Remove(wkb, tolerance, result); });
	}

	static void Register(ExtensionLoader &loader) {
		const SqlFunction::Parameter geom {"geom", LogicalType::GEOMETRY()};
		SqlFunction("ST_RemoveRepeatedPoints",
		            "The geometry without vertices that repeat the one before them, or lie within a tolerance of it. "
		            "The ends of a line stay, and a ring that would be left with fewer than four vertices stays as it "
		            "is. Points do not change.")
		    .Category("constructive")
		    .Example("ST_RemoveRepeatedPoints('LINESTRING (0 0, 0 0, 1 1, 1 1, 2 0)'::GEOMETRY)",
		             "LINESTRING (0 0, 1 1, 2 0)")
		    .Example("ST_RemoveRepeatedPoints('LINESTRING (0 0, 0.5 0, 5 0, 6 0)'::GEOMETRY, 1)",
		             "LINESTRING (0 0, 6 0)")
		    .Overload({geom}, LogicalType::GEOMETRY(), Execute)
		    .Overload({geom, {"tolerance", LogicalType::DOUBLE}}, LogicalType::GEOMETRY(), ExecuteTolerance)
		    .Register(loader);
	}
};

} // namespace

void RegisterRemoveRepeatedPoints(ExtensionLoader &loader) {
	ST_RemoveRepeatedPoints::Register(loader);
}

} // namespace duckdb
