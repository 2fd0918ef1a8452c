#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/constructive/boundary.hpp"
#include "engine/constructive/buffer.hpp"
#include "engine/constructive/hull.hpp"
#include "engine/constructive/make_valid.hpp"
#include "engine/constructive/node_lines.hpp"
#include "engine/constructive/precision.hpp"
#include "engine/constructive/simplify.hpp"
#include "engine/relate/validity.hpp"

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
			CountValue(wkb.GetSize());
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
struct ST_Boundary {
	//! Copies rings
	static string_t EmitRings(Vector &result, const string_t &wkb,
	                          const vibespatial::CountedVector<vibespatial::WkbVertices> &rings) {
		const auto header = vibespatial::ReadWkbHeader(WkbData(wkb), wkb.GetSize());
		const bool single = header.type == vibespatial::GeometryType::POLYGON && rings.size() == 1;
		idx_t size = single ? 0 : WKB_HEADER_SIZE + WKB_COUNT_SIZE;
		for (auto &ring : rings) {
			size += WKB_HEADER_SIZE + WKB_COUNT_SIZE + ring.count * ring.stride;
		}
		RequireValueSize(size);
		return EmitWkb(result, size, [&](WkbOutput out) {
			if (!single) {
				out.Header(vibespatial::GeometryType::MULTILINESTRING, header.vertex_type);
				out.Count(UnsafeNumericCast<uint32_t>(rings.size()));
			}
			for (auto &ring : rings) {
				out.Header(vibespatial::GeometryType::LINESTRING, header.vertex_type);
				out.Count(ring.count);
				out.Bytes(ring.coords, ring.count * ring.stride);
			}
		});
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		vibespatial::CountedVector<vibespatial::WkbVertices> rings;
		vibespatial::GeometryBatch input;
		vibespatial::GeometryBatch output;
		ExecuteOrNull<string_t, string_t>(args.data[0], result, args.size(),
		                                  [&](const string_t &wkb) -> std::optional<string_t> {
			                                  if (vibespatial::TryBoundaryRings(Slice(wkb), rings)) {
				                                  return EmitRings(result, wkb, rings);
			                                  }
			                                  input.Clear();
			                                  output.Clear();
			                                  vibespatial::ReadWkb(WkbData(wkb), wkb.GetSize(), input);
			                                  vibespatial::Boundary(input, 0, output);
			                                  if (!output.valid[0]) {
				                                  return std::nullopt;
			                                  }
			                                  return EmitRow(result, output);
		                                  });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(
		    "ST_Boundary",
		    "The ends of lines, the rings of polygons; EMPTY for points, NULL for collections, which have none.")
		    .Category("constructive")
		    .Example("ST_Boundary('LINESTRING (0 0, 1 1, 2 0)'::GEOMETRY)", "MULTIPOINT (0 0, 2 0)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute)
		    .Register(loader);
	}
};

struct ST_ConvexHull {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		vibespatial::GeometryBatch scratch;
		vibespatial::GeometryBatch output;
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			output.Clear();
			vibespatial::ConvexHull(WkbData(wkb), wkb.GetSize(), scratch, output);
			return EmitRow(result, output);
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_ConvexHull",
		            "The smallest convex polygon around a geometry; a line or a point when it is flat.")
		    .Category("constructive")
		    .Example("ST_ConvexHull('MULTIPOINT (0 0, 4 0, 4 4, 0 4, 2 2)'::GEOMETRY)",
		             "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))")
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

//===----------------------------------------------------------------------===//
// On the overlay core
//===----------------------------------------------------------------------===//
//! What these work with, kept from row to row. A large geometry is worked on by all threads.
class OverlayRows {
public:
	explicit OverlayRows(ExpressionState &state) : threads(state.GetContext()) {
	}

	//! make(input, overlay, parallel, output) appends the row that is made of the geometry, which is row 0 of `input`
	template <class MAKE>
	string_t Run(const string_t &wkb, Vector &result, const MAKE &make) {
		Read(wkb);
		Make(wkb.GetSize(), make);
		return EmitRow(result, output);
	}
	const vibespatial::GeometryBatch &Read(const string_t &wkb) {
		input.Clear();
		vibespatial::ReadWkb(WkbData(wkb), wkb.GetSize(), input);
		return input;
	}
	//! As Run(), of what was read
	template <class MAKE>
	const vibespatial::GeometryBatch &Make(idx_t size, const MAKE &make) {
		output.Clear();
		if (size < LARGE) {
			make(input, overlay, serial, output);
		} else {
			threads.Run([&](vibespatial::Parallel &parallel) { make(input, overlay, parallel, output); });
		}
		return output;
	}

private:
	//! Bytes of WKB from which on other threads are called: 2,048 vertices may take a tenth of a second if their edges cross
	static constexpr idx_t LARGE = 1 << 15;

	vibespatial::GeometryBatch input;
	vibespatial::GeometryBatch output;
	vibespatial::Overlay overlay;
	vibespatial::Serial serial;
	TaskThreads threads;
};

struct ST_Buffer {
	static string_t Buffer(OverlayRows &rows, const string_t &wkb, double distance,
	                       const vibespatial::BufferStyle &style, Vector &result) {
		return rows.Run(wkb, result, [&](auto &input, auto &overlay, auto &parallel, auto &output) {
			vibespatial::Buffer(input, 0, distance, style, overlay, parallel, output);
		});
	}

	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		OverlayRows rows(state);
		const vibespatial::BufferStyle style;
		BinaryExecutor::Execute<string_t, double, string_t>(
		    args.data[0], args.data[1], result, args.size(),
		    [&](const string_t &wkb, double distance) { return Buffer(rows, wkb, distance, style, result); });
	}

	static void ExecuteRound(DataChunk &args, ExpressionState &state, Vector &result) {
		OverlayRows rows(state);
		vibespatial::BufferStyle style;
		TernaryExecutor::Execute<string_t, double, int32_t, string_t>(
		    args.data[0], args.data[1], args.data[2], result, args.size(),
		    [&](const string_t &wkb, double distance, int32_t segments) {
			    style.quad_segs = segments;
			    return Buffer(rows, wkb, distance, style, result);
		    });
	}

	static void ExecuteStyled(DataChunk &args, ExpressionState &state, Vector &result) {
		OverlayRows rows(state);
		vibespatial::BufferStyle style;
		ExecuteSix<string_t, double, int32_t, string_t, string_t, double, string_t>(
		    args, result,
		    [&](const string_t &wkb, double distance, int32_t segments, const string_t &cap, const string_t &join,
		        double mitre_limit) {
			    style.quad_segs = segments;
			    style.cap = Style<vibespatial::BufferCap>(cap, "cap", {"CAP_ROUND", "CAP_FLAT", "CAP_SQUARE"});
			    style.join = Style<vibespatial::BufferJoin>(join, "join", {"JOIN_ROUND", "JOIN_MITRE", "JOIN_BEVEL"});
			    style.mitre_limit = mitre_limit;
			    return Buffer(rows, wkb, distance, style, result);
		    });
	}

	//! The value whose place among the names is that of the text, in upper or lower case
	template <class STYLE>
	static STYLE Style(const string_t &text, const string &what, const vector<string> &names) {
		for (idx_t i = 0; i < names.size(); i++) {
			if (StringUtil::CIEquals(text.GetString(), names[i])) {
				return static_cast<STYLE>(i);
			}
		}
		throw vibespatial::GeometryError("unknown " + what + " style '" + text.GetString() + "', known are " +
		                                 StringUtil::Join(names, ", "));
	}

	static void Register(ExtensionLoader &loader) {
		const SqlFunction::Parameter geom {"geom", LogicalType::GEOMETRY()};
		const SqlFunction::Parameter distance {"distance", LogicalType::DOUBLE};
		const SqlFunction::Parameter segments {"num_triangles", LogicalType::INTEGER};
		SqlFunction(
		    "ST_Buffer",
		    "All that lies within a distance of a geometry. A negative distance takes a margin off polygons. A quarter "
		    "circle is drawn with num_triangles segments, 8 unless told. cap_style (CAP_ROUND, CAP_FLAT, CAP_SQUARE) "
		    "is "
		    "for the ends of lines and for points, join_style (JOIN_ROUND, JOIN_MITRE, JOIN_BEVEL) for corners; a "
		    "mitre ends at mitre_limit distances from its corner.")
		    .Category("constructive")
		    .Example("ST_Buffer('POINT (0 0)'::GEOMETRY, 1, 1)", "POLYGON ((-1 0, 0 -1, 1 0, 0 1, -1 0))")
		    .Overload({geom, distance}, LogicalType::GEOMETRY(), Execute)
		    .Overload({geom, distance, segments}, LogicalType::GEOMETRY(), ExecuteRound)
		    .Overload({geom,
		               distance,
		               segments,
		               {"cap_style", LogicalType::VARCHAR},
		               {"join_style", LogicalType::VARCHAR},
		               {"mitre_limit", LogicalType::DOUBLE}},
		              LogicalType::GEOMETRY(), ExecuteStyled)
		    .Register(loader);
	}
};

struct ST_MakeValid {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		OverlayRows rows(state);
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			if (vibespatial::IsValid(rows.Read(wkb), 0)) {
				return StringVector::AddStringOrBlob(result, wkb);
			}
			const auto &made = rows.Make(wkb.GetSize(), [&](auto &input, auto &overlay, auto &parallel, auto &output) {
				vibespatial::MakeValid(input, 0, overlay, parallel, output);
			});
			return EmitRow(result, made);
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(
		    "ST_MakeValid",
		    "A valid geometry from the rings and lines of one that is not; a valid one stays as it is. The interior "
		    "follows the even-odd rule. Parts that enclose no area are kept as lines and points.")
		    .Category("constructive")
		    .Example("ST_MakeValid('POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))'::GEOMETRY)",
		             "MULTIPOLYGON (((0 0, 1 1, 0 2, 0 0)), ((1 1, 2 0, 2 2, 1 1)))")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute)
		    .Register(loader);
	}
};

struct ST_ReducePrecision {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		OverlayRows rows(state);
		BinaryExecutor::Execute<string_t, double, string_t>(
		    args.data[0], args.data[1], result, args.size(), [&](const string_t &wkb, double grid) {
			    if (grid == 0) {
				    return StringVector::AddStringOrBlob(result, wkb);
			    }
			    return rows.Run(wkb, result, [&](auto &input, auto &overlay, auto &parallel, auto &output) {
				    vibespatial::ReducePrecision(input, 0, grid, overlay, parallel, output);
			    });
		    });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_ReducePrecision",
		            "The geometry with its coordinates at multiples of precision; 0 changes nothing. Polygons come out "
		            "valid. What collapses is dropped.")
		    .Category("constructive")
		    .Example("ST_ReducePrecision('LINESTRING (0.12 0.57, 1.234 5.678)'::GEOMETRY, 0.1)",
		             "LINESTRING (0.1 0.6, 1.2 5.7)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}, {"precision", LogicalType::DOUBLE}}, LogicalType::GEOMETRY(),
		              Execute)
		    .Register(loader);
	}
};

struct ST_Node {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		OverlayRows rows(state);
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			return rows.Run(wkb, result, [&](auto &input, auto &overlay, auto &parallel, auto &output) {
				vibespatial::NodeLines(input, 0, overlay, parallel, output);
			});
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Node", "All lines and rings of a geometry, cut where they meet.")
		    .Category("constructive")
		    .Example("ST_Node('MULTILINESTRING ((0 0, 2 2), (0 2, 2 0))'::GEOMETRY)",
		             "MULTILINESTRING ((0 0, 1 1), (0 2, 1 1), (1 1, 2 0), (1 1, 2 2))")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute)
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
	ST_Boundary::Register(loader);
	ST_ConvexHull::Register(loader);
	ST_Simplify::Register(loader);
	ST_Buffer::Register(loader);
	ST_MakeValid::Register(loader);
	ST_ReducePrecision::Register(loader);
	ST_Node::Register(loader);
}

} // namespace duckdb
