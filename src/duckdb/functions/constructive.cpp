#include "duckdb/functions/functions.hpp"

#include "duckdb/function_builder.hpp"
#include "duckdb/wkb_output.hpp"
#include "engine/cpu/boundary.hpp"
#include "engine/cpu/hull.hpp"
#include "engine/cpu/simplify.hpp"

namespace duckdb {

namespace {

//===----------------------------------------------------------------------===//
// The same vertices in another arrangement
//===----------------------------------------------------------------------===//
//! ST_Reverse, ST_FlipCoordinates: bytes to as many bytes
template <void (*EDIT)(vibespatial::WkbSlice geometry, uint8_t *out)>
struct ST_Edit {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			auto edited = StringVector::EmptyString(result, wkb.GetSize());
			EDIT(Slice(wkb), reinterpret_cast<uint8_t *>(edited.GetDataWriteable()));
			edited.Finalize();
			return edited;
		});
	}

	static void Register(ExtensionLoader &loader, const string &name, const string &description,
	                     const string &example) {
		SqlFunction(name, description)
		    .Category("constructive")
		    .Example(name + "('LINESTRING (0 1, 2 3)'::GEOMETRY)", example)
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_Force2D {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			if (vibespatial::ReadWkbHeader(WkbData(wkb), wkb.GetSize()).vertex_type == vibespatial::VERTEX_XY) {
				return StringVector::AddStringOrBlob(result, wkb);
			}
			return EmitWkb(result, vibespatial::WithVertexType(Slice(wkb), vibespatial::VERTEX_XY));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Force2D", "The geometry without Z and M.")
		    .Category("constructive")
		    .Example("ST_Force2D('POINT ZM (1 2 3 4)'::GEOMETRY)", "POINT (1 2)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_Multi {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			return EmitWkb(result, vibespatial::Multi(Slice(wkb)));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Multi",
		            "The geometry as a multi geometry with one member; multi geometries and collections stay as they "
		            "are.")
		    .Category("constructive")
		    .Example("ST_Multi('POINT (1 2)'::GEOMETRY)", "MULTIPOINT (1 2)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// New geometries
//===----------------------------------------------------------------------===//
//! ST_Boundary, ST_ConvexHull: row to row
template <void (*CONSTRUCT)(const vibespatial::GeometryBatch &batch, size_t row, vibespatial::GeometryBatch &out)>
struct ST_Construct {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		vibespatial::GeometryBatch input;
		vibespatial::GeometryBatch output;
		UnaryExecutor::ExecuteWithNulls<string_t, string_t>(
		    args.data[0], result, args.size(), [&](const string_t &wkb, ValidityMask &mask, idx_t row) {
			    input.Clear();
			    output.Clear();
			    vibespatial::ReadWkb(WkbData(wkb), wkb.GetSize(), input);
			    CONSTRUCT(input, 0, output);
			    if (!output.valid[0]) {
				    mask.SetInvalid(row);
				    return string_t();
			    }
			    return EmitRow(result, output);
		    });
	}

	static void Register(ExtensionLoader &loader, const string &name, const string &description, const string &geometry,
	                     const string &example) {
		SqlFunction(name, description)
		    .Category("constructive")
		    .Example(name + "('" + geometry + "'::GEOMETRY)", example)
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute)
		    .Register(loader);
	}
};

struct ST_Simplify {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		vibespatial::GeometryBatch input;
		vibespatial::GeometryBatch output;
		BinaryExecutor::Execute<string_t, double, string_t>(
		    args.data[0], args.data[1], result, args.size(), [&](const string_t &wkb, double tolerance) {
			    input.Clear();
			    output.Clear();
			    vibespatial::ReadWkb(WkbData(wkb), wkb.GetSize(), input);
			    vibespatial::Simplify(input, 0, tolerance, output);
			    return EmitRow(result, output);
		    });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Simplify",
		            "The geometry with fewer vertices (Douglas-Peucker): those left out are within the tolerance of "
		            "the segments that replace them. Rings that collapse are dropped.")
		    .Category("constructive")
		    .Example("ST_Simplify('LINESTRING (0 0, 1 0.1, 2 0)'::GEOMETRY, 0.5)", "LINESTRING (0 0, 2 0)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}, {"tolerance", LogicalType::DOUBLE}}, LogicalType::GEOMETRY(),
		              Execute)
		    .Register(loader);
	}
};

} // namespace

void RegisterConstructive(ExtensionLoader &loader) {
	ST_Edit<vibespatial::Reverse>::Register(
	    loader, "ST_Reverse", "The geometry with every line and ring run backwards.", "LINESTRING (2 3, 0 1)");
	ST_Edit<vibespatial::FlipCoordinates>::Register(loader, "ST_FlipCoordinates",
	                                                "The geometry with X and Y exchanged.", "LINESTRING (1 0, 3 2)");
	ST_Force2D::Register(loader);
	ST_Multi::Register(loader);
	ST_Construct<vibespatial::Boundary>::Register(
	    loader, "ST_Boundary",
	    "The ends of lines, the rings of polygons; EMPTY for points, NULL for collections, which have none.",
	    "LINESTRING (0 0, 1 1, 2 0)", "MULTIPOINT (0 0, 2 0)");
	ST_Construct<vibespatial::ConvexHull>::Register(
	    loader, "ST_ConvexHull", "The smallest convex polygon around a geometry; a line or a point when it is flat.",
	    "MULTIPOINT (0 0, 4 0, 4 4, 0 4, 2 2)", "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))");
	ST_Simplify::Register(loader);
}

} // namespace duckdb
