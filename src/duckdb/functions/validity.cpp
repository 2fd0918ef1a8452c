#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/relate/simple.hpp"
#include "engine/relate/validity.hpp"

namespace duckdb {

namespace {

//! A function of one geometry as a row of a batch
template <class RESULT, class COMPUTE>
void ExecuteOnRows(DataChunk &args, Vector &result, COMPUTE &&compute) {
	vibespatial::GeometryBatch batch;
	UnaryExecutor::Execute<string_t, RESULT>(args.data[0], result, args.size(), [&](const string_t &wkb) {
		batch.Clear();
		vibespatial::ReadWkb(WkbData(wkb), wkb.GetSize(), batch);
		return compute(batch);
	});
}

struct ST_IsValid {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOnRows<bool>(args, result,
		                    [](const vibespatial::GeometryBatch &batch) { return vibespatial::IsValid(batch, 0); });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(
		    "ST_IsValid",
		    "Whether a geometry is valid by the OGC simple features rules: finite coordinates, closed rings that do "
		    "not cross, holes inside their shell. ST_IsValidReason says what is wrong.")
		    .Category("validity")
		    .Example("ST_IsValid('POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))'::GEOMETRY)", "false")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::BOOLEAN, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_IsValidReason {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOnRows<string_t>(args, result, [&](const vibespatial::GeometryBatch &batch) {
			return StringVector::AddString(result, vibespatial::ValidityReason(batch, 0));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_IsValidReason", "'Valid Geometry', or what is wrong with a geometry and where.")
		    .Category("validity")
		    .Example("ST_IsValidReason('POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))'::GEOMETRY)", "Self-intersection[1 1]")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::VARCHAR, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_IsSimple {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOnRows<bool>(args, result,
		                    [](const vibespatial::GeometryBatch &batch) { return vibespatial::IsSimple(batch, 0); });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(
		    "ST_IsSimple",
		    "Whether a geometry does not cross or touch itself: lines may meet only at their endpoints, points must "
		    "be distinct, and each ring is checked by itself.")
		    .Category("validity")
		    .Example("ST_IsSimple('LINESTRING (0 0, 2 2, 2 0, 0 2)'::GEOMETRY)", "false")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::BOOLEAN, Execute)
		    .Register(loader);
	}
};

struct ST_IsRing {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOnRows<bool>(args, result, [](const vibespatial::GeometryBatch &batch) {
			// before the type is looked at: what ST_IsSimple refuses is refused here
			const auto simple = vibespatial::IsSimple(batch, 0);
			if (batch.type[0] != vibespatial::GeometryType::LINESTRING || batch.IsEmpty(0)) {
				return false;
			}
			return simple && batch.x.front() == batch.x.back() && batch.y.front() == batch.y.back();
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_IsRing", "Whether a geometry is a closed and simple line.")
		    .Category("validity")
		    .Example("ST_IsRing('LINESTRING (0 0, 1 0, 1 1, 0 0)'::GEOMETRY)", "true")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::BOOLEAN, Execute)
		    .Register(loader);
	}
};

} // namespace

void RegisterValidity(ExtensionLoader &loader) {
	ST_IsValid::Register(loader);
	ST_IsValidReason::Register(loader);
	ST_IsSimple::Register(loader);
	ST_IsRing::Register(loader);
}

} // namespace duckdb
