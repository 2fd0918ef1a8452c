#include "duckdb/support/casts.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/types.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "geometry/geojson.hpp"

#include "duckdb/common/types/geometry.hpp"

namespace duckdb {

namespace {

struct ST_GeomFromText {
	//! The geometry as DuckDB's own reader understands the text; false, with its complaint, when it does not
	static bool TryParse(const string_t &text, Vector &result, string_t &geometry, string &problem) {
		vibespatial::PollCall(text.GetSize());
		vibespatial::HeldMemory held;
		if (text.GetSize() >= vibespatial::LEAST_COUNTED) {
			// There are no more numbers than what separates them. The reader's array grows to twice its size, beside the old one.
			const auto numbers = std::count_if(text.GetData(), text.GetData() + text.GetSize(),
			                                   [](char c) { return c == ' ' || c == ',' || c == '('; });
			held.Reach(3 * sizeof(double) * UnsafeNumericCast<idx_t>(numbers));
			CountValue(sizeof(double) * UnsafeNumericCast<idx_t>(numbers));
		}
		try {
			return Geometry::FromString(text, geometry, result, true);
		} catch (const std::exception &error) {
			problem = ErrorData(error).RawMessage();
			return false;
		}
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &text) {
			string_t geometry;
			string problem;
			if (!TryParse(text, result, geometry, problem)) {
				throw vibespatial::GeometryError(problem);
			}
			return geometry;
		});
	}

	static void ExecuteIgnoring(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOrNull<string_t, bool, string_t>(
		    args.data[0], args.data[1], result, args.size(),
		    [&](const string_t &text, bool ignore_invalid) -> std::optional<string_t> {
			    string_t geometry;
			    string problem;
			    if (!TryParse(text, result, geometry, problem)) {
				    if (!ignore_invalid) {
					    throw vibespatial::GeometryError(problem);
				    }
				    return std::nullopt;
			    }
			    return geometry;
		    });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_GeomFromText",
		            "The geometry of a well-known text. With ignore_invalid, text that is not valid gives NULL "
		            "instead of an error.")
		    .Category("conversion")
		    .Example("ST_GeomFromText('POINT (1 2)')", "POINT (1 2)")
		    .Example("ST_GeomFromText('nowhere', true)", "NULL")
		    .Overload({{"wkt", LogicalType::VARCHAR}}, LogicalType::GEOMETRY(), Execute)
		    .Overload({{"wkt", LogicalType::VARCHAR}, {"ignore_invalid", LogicalType::BOOLEAN}},
		              LogicalType::GEOMETRY(), ExecuteIgnoring)
		    .Register(loader);
	}
};

struct ST_GeomFromGeoJSON {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		vibespatial::GeometryBatch batch;
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &text) {
			batch.Clear();
			vibespatial::ReadGeoJson(text.GetData(), text.GetSize(), batch);
			return EmitRow(result, batch);
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_GeomFromGeoJSON", "The geometry of a GeoJSON geometry object.")
		    .Category("conversion")
		    .Example("ST_GeomFromGeoJSON('{\"type\":\"Point\",\"coordinates\":[1.0,2.0]}')", "POINT (1 2)")
		    .Overload({{"geojson", LogicalType::VARCHAR}}, LogicalType::GEOMETRY(), Execute)
		    .Overload({{"geojson", LogicalType::JSON()}}, LogicalType::GEOMETRY(), Execute)
		    .Register(loader);
	}
};

struct ST_AsGeoJSON {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		vibespatial::GeometryBatch batch;
		vibespatial::CountedVector<char> memory;
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			const auto text = vibespatial::WriteGeoJson(WkbData(wkb), wkb.GetSize(), batch, memory);
			CountValue(text.size());
			return StringVector::AddString(result, text.data(), text.size());
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_AsGeoJSON",
		            "The geometry as a GeoJSON geometry object. M is left out; NaN and infinite coordinates are "
		            "refused.")
		    .Category("conversion")
		    .Example("ST_AsGeoJSON('POINT (1 2)'::GEOMETRY)", "{\"type\":\"Point\",\"coordinates\":[1.0,2.0]}")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::JSON(), Execute)
		    .Register(loader);
	}
};

//! DuckDB has st_astext of a GEOMETRY, under this spelling; without that of a BOX_2D the implicit cast would make a polygon
//! of the box. Numbers are written as in a geometry: enough digits to read the same double. A text may stand for a geometry, as
//! where there is no choice: a literal would be either of the two.
struct ST_AsText {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &geometry) {
			return GeometryText(result, geometry);
		});
	}
	static void ExecuteText(DataChunk &args, ExpressionState &state, Vector &result) {
		DataChunk geometries;
		geometries.Initialize(Allocator::Get(state.GetContext()), {LogicalType::GEOMETRY()});
		VectorOperations::Cast(state.GetContext(), args.data[0], geometries.data[0], args.size());
		SetRowCount(geometries, args.size());
		Execute(geometries, state, result);
	}
	static void ExecuteBox(DataChunk &args, ExpressionState &, Vector &result) {
		BoxText(args.data[0], result, args.size());
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("st_astext", "The well-known text of a geometry, or BOX(xmin ymin, xmax ymax) of a box.")
		    .Category("conversion")
		    .Example("st_astext('POINT (1 2)'::GEOMETRY)", "POINT (1 2)")
		    .Example("st_astext(ST_Extent('LINESTRING (0 0, 3 4)'::GEOMETRY))", "BOX(0 0, 3 4)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::VARCHAR, Execute)
		    .Overload({{"box", BoxType()}}, LogicalType::VARCHAR, ExecuteBox, SqlFunction::Infallible)
		    .Overload({{"geom", LogicalType::VARCHAR}}, LogicalType::VARCHAR, ExecuteText)
		    .Register(loader);
	}
};

} // namespace

void RegisterFormats(ExtensionLoader &loader) {
	ST_GeomFromText::Register(loader);
	ST_GeomFromGeoJSON::Register(loader);
	ST_AsGeoJSON::Register(loader);
	ST_AsText::Register(loader);
}

} // namespace duckdb
