#include "duckdb/support/crs.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/register_once.hpp"
#include "duckdb/support/types.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "duckdb/support/wkb_prefetch.hpp"
#include "geometry/wkb_visit.hpp"

namespace duckdb {

namespace {

using vibespatial::WkbSlice;
using vibespatial::WkbVertices;
using VibeType = vibespatial::GeometryType;

vibespatial::WkbHeader Header(const string_t &wkb) {
	return vibespatial::ReadWkbHeader(WkbData(wkb), wkb.GetSize());
}

//===----------------------------------------------------------------------===//
// Ordinates of points
//===----------------------------------------------------------------------===//
enum class Axis { X, Y, Z, M };

//! The ordinate of a point; false when it is EMPTY or has no such ordinate
template <Axis AXIS>
inline bool PointOrdinate(const string_t &wkb, double &value) {
	vibespatial::WkbCursor cursor(WkbData(wkb), wkb.GetSize());
	const auto header = cursor.TakeHeader();
	if (header.type != VibeType::POINT) {
		vibespatial::RequireType(header.type, VibeType::POINT);
	}
	const auto stride = vibespatial::VertexWidth(header.vertex_type) * sizeof(double);
	const auto coords = cursor.Take(stride);
	auto at = coords;
	switch (AXIS) {
	case Axis::X:
		break;
	case Axis::Y:
		at += sizeof(double);
		break;
	case Axis::Z:
		at += 2 * sizeof(double);
		if (!(header.vertex_type & vibespatial::VERTEX_Z)) {
			return false;
		}
		break;
	case Axis::M:
		at += stride - sizeof(double);
		if (!(header.vertex_type & vibespatial::VERTEX_M)) {
			return false;
		}
		break;
	}
	value = vibespatial::LoadDouble(at);
	return !vibespatial::IsEmptyPoint(coords, stride);
}

template <Axis AXIS>
struct ST_Ordinate {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOrNull<string_t, double>(args.data[0], result, args.size(), [](const string_t &wkb) {
			double value = 0;
			return PointOrdinate<AXIS>(wkb, value) ? std::optional<double>(value) : std::nullopt;
		});
	}

	static void Register(ExtensionLoader &loader, const string &axis, const string &point, const string &value) {
		SqlFunction("ST_" + axis, "The " + axis +
		                              " coordinate of a point; NULL when it is EMPTY or has none. Other "
		                              "types are refused.")
		    .Category("accessor")
		    .Example("ST_" + axis + "('" + point + "'::GEOMETRY)", value)
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE, Execute)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// Counts and types
//===----------------------------------------------------------------------===//
struct VertexCounter {
	uint64_t vertices = 0;

	void Part(vibe::Family) {
	}
	void Ring(uint32_t count, const uint8_t *, size_t) {
		vertices += count;
	}
};

uint64_t VertexCount(const string_t &wkb) {
	VertexCounter counter;
	vibespatial::VisitWkb(WkbData(wkb), wkb.GetSize(), counter);
	return counter.vertices;
}

struct ST_NPoints {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, uint32_t>(args.data[0], result, args.size(), [](const string_t &wkb) {
			return NumericCast<uint32_t>(VertexCount(wkb));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_NPoints", "The number of vertices, closing vertices of rings included.")
		    .Alias("ST_NumPoints")
		    .Category("accessor")
		    .Example("ST_NPoints('LINESTRING (0 0, 1 1, 2 0)'::GEOMETRY)", "3")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::UINTEGER, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_NumGeometries {
	static int32_t Count(const string_t &wkb) {
		vibespatial::WkbCursor cursor(WkbData(wkb), wkb.GetSize());
		if (!vibespatial::IsLeaf(cursor.TakeHeader().type)) {
			return NumericCast<int32_t>(cursor.TakeCount());
		}
		return VertexCount(wkb) > 0;
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, int32_t>(args.data[0], result, args.size(), Count);
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_NumGeometries",
		            "The number of members of a multi geometry or collection; of other types 1, or 0 "
		            "when EMPTY.")
		    .Alias("ST_NGeometries")
		    .Category("accessor")
		    .Example("ST_NumGeometries('MULTIPOINT (1 2, 3 4)'::GEOMETRY)", "2")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::INTEGER, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_GeometryType {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, uint8_t>(args.data[0], result, args.size(), [](const string_t &wkb) {
			return static_cast<uint8_t>(static_cast<uint8_t>(Header(wkb).type) - 1);
		});
	}

	static void SettleTypes(BoundFunction &bound_function, const vector<unique_ptr<Expression>> &arguments) {
		PropagateCrs(bound_function, arguments);
		ResultTypeOf(bound_function) = GeometryTypeEnum();
	}

	static void Register(ExtensionLoader &loader) {
		// ORDER BY looks a named type up in the catalog
		RegisterOnce(loader, "GEOMETRY_TYPE", [&] { loader.RegisterType("GEOMETRY_TYPE", GeometryTypeEnum()); });
		SqlFunction("ST_GeometryType", "The type of a geometry, as an enumeration: POINT, LINESTRING, POLYGON, "
		                               "MULTIPOINT, MULTILINESTRING, MULTIPOLYGON or GEOMETRYCOLLECTION.")
		    .Category("accessor")
		    .Example("ST_GeometryType('POINT (1 2)'::GEOMETRY)", "POINT")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::ANY, Execute,
		              [](ScalarFunction &function) {
			              SetBind<SettleTypes>(function);
			              SqlFunction::Infallible(function);
		              })
		    .Register(loader);
	}
};

struct ST_Dimension {
	struct Walker {
		int32_t dimension = 0;

		void Row(vibespatial::WkbHeader) {
		}
		void Node(VibeType type, uint32_t) {
			if (type != VibeType::GEOMETRYCOLLECTION) {
				dimension = MaxValue(dimension, (int32_t(type) - 1) % 3);
			}
		}
		void Part(vibe::Family) {
		}
		void Ring(uint32_t, const uint8_t *, size_t) {
		}
	};

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, int32_t>(args.data[0], result, args.size(), [](const string_t &wkb) {
			Walker walker;
			vibespatial::WalkWkb(WkbData(wkb), wkb.GetSize(), walker);
			return walker.dimension;
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Dimension",
		            "0 for points, 1 for lines, 2 for polygons, also when EMPTY; the largest of the members "
		            "for a collection.")
		    .Category("accessor")
		    .Example("ST_Dimension('POLYGON ((0 0, 1 0, 1 1, 0 0))'::GEOMETRY)", "2")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::INTEGER, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_IsEmpty {
	static bool IsEmpty(const string_t &wkb) {
		vibespatial::WkbCursor cursor(WkbData(wkb), wkb.GetSize());
		const auto header = cursor.TakeHeader();
		if (header.type == VibeType::POINT) {
			const auto stride = vibespatial::VertexWidth(header.vertex_type) * sizeof(double);
			return vibespatial::IsEmptyPoint(cursor.Take(stride), stride);
		}
		// a count of 0 is EMPTY in all other types; what a larger one counts may be EMPTY, but not the vertices of a line
		const auto count = cursor.TakeCount();
		return count == 0 || (header.type != VibeType::LINESTRING && VertexCount(wkb) == 0);
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, bool>(args.data[0], result, args.size(), IsEmpty);
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_IsEmpty", "Whether a geometry has no vertices.")
		    .Category("accessor")
		    .Example("ST_IsEmpty('POINT EMPTY'::GEOMETRY)", "true")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::BOOLEAN, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_IsClosed {
	struct Walker {
		bool any = false;
		bool closed = true;
		//! A line that has not shown its vertices: EMPTY lines never do
		bool pending = false;

		void Row(vibespatial::WkbHeader) {
		}
		void Node(VibeType, uint32_t) {
		}
		void Part(vibe::Family) {
			closed = closed && !pending;
			pending = true;
			any = true;
		}
		void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
			pending = false;
			closed = closed && count > 1 && vibespatial::IsClosed(WkbVertices {count, coords, stride});
		}
	};

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		WkbPrefetch prefetch(args.data[0], args.size(), WkbPrefetch::HEAD_AND_TAIL);
		UnaryExecutor::Execute<string_t, bool>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			prefetch.Next();
			const auto type = Header(wkb).type;
			if (type != VibeType::LINESTRING && type != VibeType::MULTILINESTRING) {
				throw vibespatial::GeometryError(string("a LINESTRING or MULTILINESTRING is needed, not a ") +
				                                 vibespatial::TypeName(type));
			}
			if (type == VibeType::LINESTRING) {
				const auto vertices = vibespatial::LineVertices(Slice(wkb));
				return vertices.count > 1 && vibespatial::IsClosed(vertices);
			}
			Walker walker;
			vibespatial::WalkWkb(WkbData(wkb), wkb.GetSize(), walker);
			return walker.any && walker.closed && !walker.pending;
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_IsClosed",
		            "Whether a line ends where it starts; for a multi line, whether all of its lines do. EMPTY "
		            "lines do not; other types are refused.")
		    .Category("accessor")
		    .Example("ST_IsClosed('LINESTRING (0 0, 1 0, 1 1, 0 0)'::GEOMETRY)", "true")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::BOOLEAN, Execute)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// Parts of lines and polygons
//===----------------------------------------------------------------------===//
string_t EmitVertex(Vector &result, const WkbVertices &vertices, uint32_t index, uint8_t vertex_type) {
	return EmitWkb(result, WKB_HEADER_SIZE + vertices.stride, [&](WkbOutput out) {
		out.Header(VibeType::POINT, vertex_type);
		out.Bytes(vertices.coords + index * vertices.stride, vertices.stride);
	});
}

string_t EmitLine(Vector &result, const WkbVertices &vertices, uint8_t vertex_type) {
	const auto size = vertices.count * vertices.stride;
	return EmitWkb(result, WKB_HEADER_SIZE + WKB_COUNT_SIZE + size, [&](WkbOutput out) {
		out.Header(VibeType::LINESTRING, vertex_type);
		out.Count(vertices.count);
		out.Bytes(vertices.coords, size);
	});
}

//! The `index`-th vertex of a line, from 1, or from -1 backwards; NULL when there is none
std::optional<string_t> LineVertex(const string_t &wkb, int64_t index, Vector &result) {
	const auto header = Header(wkb);
	if (header.type == VibeType::LINESTRING) {
		const auto vertices = vibespatial::LineVertices(Slice(wkb));
		const auto place = index < 0 ? index + vertices.count : index - 1;
		if (place >= 0 && place < vertices.count) {
			return EmitVertex(result, vertices, UnsafeNumericCast<uint32_t>(place), header.vertex_type);
		}
	}
	return std::nullopt;
}

template <int64_t INDEX>
struct ST_LineEnd {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		WkbPrefetch prefetch(args.data[0], args.size(), INDEX > 0 ? WkbPrefetch::HEAD : WkbPrefetch::HEAD_AND_TAIL);
		ExecuteOrNull<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			prefetch.Next();
			return LineVertex(wkb, INDEX, result);
		});
	}

	static void Register(ExtensionLoader &loader, const string &name, const string &end, const string &example) {
		SqlFunction(name, "The " + end + " point of a line; NULL for an EMPTY line and for other types.")
		    .Category("accessor")
		    .Example(name + "('LINESTRING (0 0, 1 1, 2 0)'::GEOMETRY)", example)
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_PointN {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOrNull<string_t, int32_t, string_t>(
		    args.data[0], args.data[1], result, args.size(),
		    [&](const string_t &wkb, int32_t index) { return LineVertex(wkb, index, result); });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_PointN",
		            "A vertex of a line, counted from 1, or from -1 backwards; NULL when there is none and for "
		            "other types.")
		    .Category("accessor")
		    .Example("ST_PointN('LINESTRING (0 0, 1 1, 2 0)'::GEOMETRY, 2)", "POINT (1 1)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}, {"index", LogicalType::INTEGER}}, LogicalType::GEOMETRY(),
		              Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_ExteriorRing {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOrNull<string_t, string_t>(args.data[0], result, args.size(),
		                                  [&](const string_t &wkb) -> std::optional<string_t> {
			                                  const auto header = Header(wkb);
			                                  if (header.type != VibeType::POLYGON) {
				                                  return std::nullopt;
			                                  }
			                                  WkbVertices shell {0, nullptr, 0};
			                                  vibespatial::PolygonRing(Slice(wkb), 0, shell);
			                                  return EmitLine(result, shell, header.vertex_type);
		                                  });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_ExteriorRing", "The shell of a polygon, as a line; NULL for other types.")
		    .Category("accessor")
		    .Example("ST_ExteriorRing('POLYGON ((0 0, 1 0, 1 1, 0 0))'::GEOMETRY)", "LINESTRING (0 0, 1 0, 1 1, 0 0)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_InteriorRingN {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOrNull<string_t, int64_t, string_t>(
		    args.data[0], args.data[1], result, args.size(),
		    [&](const string_t &wkb, int64_t n) -> std::optional<string_t> {
			    const auto header = Header(wkb);
			    if (header.type == VibeType::POLYGON && n > 0) {
				    WkbVertices hole {0, nullptr, 0};
				    if (vibespatial::PolygonRing(Slice(wkb), static_cast<uint64_t>(n), hole)) {
					    return EmitLine(result, hole, header.vertex_type);
				    }
			    }
			    return std::nullopt;
		    });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_InteriorRingN",
		            "A hole of a polygon, as a line, counted from 1; NULL when there is none and for other "
		            "types.")
		    .Category("accessor")
		    .Example("ST_InteriorRingN('POLYGON ((0 0, 9 0, 9 9, 0 0), (2 1, 3 1, 3 2, 2 1))'::GEOMETRY, 1)",
		             "LINESTRING (2 1, 3 1, 3 2, 2 1)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}, {"n", LogicalType::BIGINT}}, LogicalType::GEOMETRY(), Execute,
		              SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_NumInteriorRings {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOrNull<string_t, int32_t>(args.data[0], result, args.size(),
		                                 [](const string_t &wkb) -> std::optional<int32_t> {
			                                 vibespatial::WkbCursor cursor(WkbData(wkb), wkb.GetSize());
			                                 if (cursor.TakeHeader().type != VibeType::POLYGON) {
				                                 return std::nullopt;
			                                 }
			                                 const auto rings = NumericCast<int32_t>(cursor.TakeCount());
			                                 return MaxValue(rings - 1, 0);
		                                 });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_NumInteriorRings", "The number of holes of a polygon; NULL for other types.")
		    .Alias("ST_NInteriorRings")
		    .Category("accessor")
		    .Example("ST_NumInteriorRings('POLYGON ((0 0, 9 0, 9 9, 0 0), (2 1, 3 1, 3 2, 2 1))'::GEOMETRY)", "1")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::INTEGER, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// All parts
//===----------------------------------------------------------------------===//
struct ST_Dump {
	//! Makes `values` the list of `lists` in row `row`
	static void AppendList(Vector &lists, idx_t row, const int32_t *values, idx_t count) {
		const auto offset = ListVector::GetListSize(lists);
		ListVector::Reserve(lists, offset + count);
		std::copy(values, values + count, MutableData<int32_t>(ListChild(lists)) + offset);
		MutableData<list_entry_t>(lists)[row] = list_entry_t(offset, count);
		ListVector::SetListSize(lists, offset + count);
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		auto &geometries = StructField(ListChild(result), 0);
		auto &paths = StructField(ListChild(result), 1);
		UnaryExecutor::Execute<string_t, list_entry_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			const auto offset = ListVector::GetListSize(result);
			vibespatial::Dump(Slice(wkb), [&](WkbSlice leaf, const int32_t *path, size_t depth) {
				const auto row = ListVector::GetListSize(result);
				ListVector::Reserve(result, row + 1);
				MutableData<string_t>(geometries)[row] =
				    StringVector::AddStringOrBlob(geometries, reinterpret_cast<const char *>(leaf.data), leaf.size);
				AppendList(paths, row, path, depth);
				ListVector::SetListSize(result, row + 1);
			});
			return list_entry_t(offset, ListVector::GetListSize(result) - offset);
		});
	}

	static void Register(ExtensionLoader &loader) {
		auto part =
		    LogicalType::STRUCT({{"geom", LogicalType::GEOMETRY()}, {"path", LogicalType::LIST(LogicalType::INTEGER)}});
		SqlFunction("ST_Dump",
		            "The points, lines and polygons of a geometry, each with the places, from 1, that lead to it.")
		    .Category("accessor")
		    .Example("ST_Dump('MULTIPOINT (1 2, 3 4)'::GEOMETRY)",
		             "[{'geom': 'POINT (1 2)', 'path': [1]}, {'geom': 'POINT (3 4)', 'path': [2]}]")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::LIST(part), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

} // namespace

void RegisterAccessors(ExtensionLoader &loader) {
	ST_Ordinate<Axis::X>::Register(loader, "X", "POINT (1 2)", "1.0");
	ST_Ordinate<Axis::Y>::Register(loader, "Y", "POINT (1 2)", "2.0");
	ST_Ordinate<Axis::Z>::Register(loader, "Z", "POINT Z (1 2 3)", "3.0");
	ST_Ordinate<Axis::M>::Register(loader, "M", "POINT M (1 2 4)", "4.0");
	ST_NPoints::Register(loader);
	ST_NumGeometries::Register(loader);
	ST_GeometryType::Register(loader);
	ST_Dimension::Register(loader);
	ST_IsEmpty::Register(loader);
	ST_IsClosed::Register(loader);
	ST_LineEnd<1>::Register(loader, "ST_StartPoint", "first", "POINT (0 0)");
	ST_LineEnd<-1>::Register(loader, "ST_EndPoint", "last", "POINT (2 0)");
	ST_PointN::Register(loader);
	ST_ExteriorRing::Register(loader);
	ST_InteriorRingN::Register(loader);
	ST_NumInteriorRings::Register(loader);
	ST_Dump::Register(loader);
}

} // namespace duckdb
