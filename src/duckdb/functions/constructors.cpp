#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/types.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "duckdb/support/wkb_prefetch.hpp"

namespace duckdb {

namespace {

using vibespatial::WkbSlice;
using VibeType = vibespatial::GeometryType;

//===----------------------------------------------------------------------===//
// From numbers
//===----------------------------------------------------------------------===//
//! Columns of DOUBLE, read row by row; one row is enough when all are constant
class DoubleColumns {
public:
	explicit DoubleColumns(DataChunk &args) : formats(args.ColumnCount()), constant(args.AllConstant()) {
		rows = constant ? 1 : args.size();
		for (idx_t i = 0; i < args.ColumnCount(); i++) {
			args.data[i].ToUnifiedFormat(args.size(), formats[i]);
			all_valid = all_valid && formats[i].validity.AllValid();
		}
	}
	bool IsNull(idx_t row) const {
		if (all_valid) {
			return false;
		}
		for (auto &format : formats) {
			if (!format.validity.RowIsValid(format.sel->get_index(row))) {
				return true;
			}
		}
		return false;
	}
	double Get(idx_t column, idx_t row) const {
		auto &format = formats[column];
		return UnifiedVectorFormat::GetData<double>(format)[format.sel->get_index(row)];
	}

	vector<UnifiedVectorFormat> formats;
	bool constant;
	bool all_valid = true;
	idx_t rows;
};

//! Rows of WKB of one size, made by `write(output, columns, row)`
template <class WRITE>
void ExecuteFromDoubles(DataChunk &args, Vector &result, idx_t size, WRITE &&write) {
	DoubleColumns columns(args);
	result.SetVectorType(VectorType::FLAT_VECTOR);
	auto strings = MutableData<string_t>(result);
	WkbColumn column(result, columns.rows, size);
	for (idx_t row = 0; row < columns.rows; row++) {
		if (columns.IsNull(row)) {
			FlatVector::SetNull(result, row, true);
			continue;
		}
		write(WkbOutput(column.Data(row)), columns, row);
		strings[row] = column.Row(row);
	}
	if (columns.constant) {
		result.SetVectorType(VectorType::CONSTANT_VECTOR);
	}
}

struct ST_Point {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteFromDoubles(args, result, WKB_HEADER_SIZE + 2 * sizeof(double),
		                   [](WkbOutput out, const DoubleColumns &columns, idx_t row) {
			                   out.Header(VibeType::POINT, vibespatial::VERTEX_XY);
			                   out.Ordinate(columns.Get(0, row));
			                   out.Ordinate(columns.Get(1, row));
		                   });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Point", "The point with the given coordinates. Two NaN give POINT EMPTY.")
		    .Category("construction")
		    .Example("ST_Point(1, 2)", "POINT (1 2)")
		    .Overload({{"x", LogicalType::DOUBLE}, {"y", LogicalType::DOUBLE}}, LogicalType::GEOMETRY(), Execute)
		    .Register(loader);
	}
};

struct ST_MakePoint {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		DoubleColumns columns(args);
		if (columns.all_valid) {
			// The arguments are the columns of the structure
			for (idx_t i = 0; i < args.ColumnCount(); i++) {
				StructField(result, i).Reference(args.data[i]);
			}
			result.SetVectorType(columns.constant ? VectorType::CONSTANT_VECTOR : VectorType::FLAT_VECTOR);
			return;
		}
		result.SetVectorType(VectorType::FLAT_VECTOR);
		for (idx_t row = 0; row < columns.rows; row++) {
			if (columns.IsNull(row)) {
				FlatVector::SetNull(result, row, true);
				continue;
			}
			for (idx_t i = 0; i < args.ColumnCount(); i++) {
				MutableData<double>(StructField(result, i))[row] = columns.Get(i, row);
			}
		}
		if (columns.constant) {
			result.SetVectorType(VectorType::CONSTANT_VECTOR);
		}
	}

	static void Register(ExtensionLoader &loader) {
		const SqlFunction::Parameter x {"x", LogicalType::DOUBLE}, y {"y", LogicalType::DOUBLE},
		    z {"z", LogicalType::DOUBLE}, m {"m", LogicalType::DOUBLE};
		SqlFunction("ST_MakePoint", "The point with the given coordinates, as a structure that casts to GEOMETRY by "
		                            "itself.")
		    .Category("construction")
		    .Example("ST_MakePoint(1, 2)", "POINT (1 2)")
		    .Example("ST_MakePoint(1, 2, 3)", "POINT Z (1 2 3)")
		    .Overload({x, y}, PointType(2), Execute)
		    .Overload({x, y, z}, PointType(3), Execute)
		    .Overload({x, y, z, m}, PointType(4), Execute)
		    .Register(loader);
	}
};

struct ST_MakeEnvelope {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteFromDoubles(args, result, ENVELOPE_SIZE, [](WkbOutput out, const DoubleColumns &columns, idx_t row) {
			PutEnvelope(out, columns.Get(0, row), columns.Get(1, row), columns.Get(2, row), columns.Get(3, row));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_MakeEnvelope", "The rectangle between two corners, as a polygon. The corners are taken as they "
		                               "are given.")
		    .Category("construction")
		    .Example("ST_MakeEnvelope(0, 0, 2, 3)", "POLYGON ((0 0, 0 3, 2 3, 2 0, 0 0))")
		    .Overload({{"min_x", LogicalType::DOUBLE},
		               {"min_y", LogicalType::DOUBLE},
		               {"max_x", LogicalType::DOUBLE},
		               {"max_y", LogicalType::DOUBLE}},
		              LogicalType::GEOMETRY(), Execute)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// From geometries
//===----------------------------------------------------------------------===//
//! A column of GEOMETRY[], read list by list
class GeometryLists {
public:
	explicit GeometryLists(Vector &lists) {
		ListChild(lists).ToUnifiedFormat(ListVector::GetListSize(lists), members);
	}
	//! The geometries of a list, with a slice without bytes for NULL; valid until the next call
	std::vector<WkbSlice> &Get(list_entry_t list) {
		auto strings = UnifiedVectorFormat::GetData<string_t>(members);
		slices.resize(list.length);
		for (idx_t i = 0; i < list.length; i++) {
			auto index = members.sel->get_index(list.offset + i);
			slices[i] = members.validity.RowIsValid(index) ? Slice(strings[index]) : WkbSlice {nullptr, 0};
		}
		return slices;
	}

private:
	UnifiedVectorFormat members;
	std::vector<WkbSlice> slices;
};

struct ST_MakeLine {
	static void ExecutePair(DataChunk &args, ExpressionState &, Vector &result) {
		WkbColumn column(result, args.AllConstant() ? 1 : args.size(), vibespatial::LineSize(2));
		idx_t row = 0;
		WkbPrefetch start_prefetch(args.data[0], args.size()), end_prefetch(args.data[1], args.size());
		BinaryExecutor::Execute<string_t, string_t, string_t>(
		    args.data[0], args.data[1], result, args.size(), [&](const string_t &start, const string_t &end) {
			    start_prefetch.Next();
			    end_prefetch.Next();
			    const WkbSlice ends[] = {Slice(start), Slice(end)};
			    if (vibespatial::TryMakeLine(ends, 2, data_ptr_cast(column.Data(row)))) {
				    return column.Row(row++);
			    }
			    return EmitWkb(result, vibespatial::MakeLine({ends[0], ends[1]}));
		    });
	}

	static void ExecuteList(DataChunk &args, ExpressionState &, Vector &result) {
		GeometryLists lists(args.data[0]);
		UnaryExecutor::Execute<list_entry_t, string_t>(args.data[0], result, args.size(), [&](list_entry_t list) {
			const auto &points = lists.Get(list);
			const auto size = vibespatial::LineSize(points.size());
			RequireValueSize(size);
			CountValue(size);
			auto line = StringVector::EmptyString(result, size);
			if (vibespatial::TryMakeLine(points.data(), points.size(), data_ptr_cast(line.GetDataWriteable()))) {
				line.Finalize();
				return line;
			}
			return EmitWkb(result, vibespatial::MakeLine(points));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_MakeLine", "The line through points, in their order. NULL in a list and EMPTY points are left "
		                           "out; a missing Z or M becomes 0.")
		    .Category("construction")
		    .Example("ST_MakeLine(ST_Point(0, 0), ST_Point(1, 1))", "LINESTRING (0 0, 1 1)")
		    .Example("ST_MakeLine([ST_Point(0, 0), ST_Point(1, 1), ST_Point(2, 0)])", "LINESTRING (0 0, 1 1, 2 0)")
		    .Overload({{"start", LogicalType::GEOMETRY()}, {"end", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(),
		              ExecutePair)
		    .Overload({{"geoms", LogicalType::LIST(LogicalType::GEOMETRY())}}, LogicalType::GEOMETRY(), ExecuteList)
		    .Register(loader);
	}
};

struct ST_MakePolygon {
	static void ExecuteShell(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &shell) {
			return EmitWkb(result, vibespatial::MakePolygon(Slice(shell), {}));
		});
	}

	static void ExecuteHoles(DataChunk &args, ExpressionState &, Vector &result) {
		GeometryLists holes(args.data[1]);
		BinaryExecutor::Execute<string_t, list_entry_t, string_t>(
		    args.data[0], args.data[1], result, args.size(), [&](const string_t &shell, list_entry_t list) {
			    return EmitWkb(result, vibespatial::MakePolygon(Slice(shell), holes.Get(list)));
		    });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_MakePolygon", "The polygon with a closed line as its shell and, if given, closed lines as its "
		                              "holes. A missing Z or M becomes 0.")
		    .Category("construction")
		    .Example("ST_MakePolygon('LINESTRING (0 0, 1 0, 1 1, 0 0)'::GEOMETRY)", "POLYGON ((0 0, 1 0, 1 1, 0 0))")
		    .Overload({{"shell", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), ExecuteShell)
		    .Overload({{"shell", LogicalType::GEOMETRY()}, {"holes", LogicalType::LIST(LogicalType::GEOMETRY())}},
		              LogicalType::GEOMETRY(), ExecuteHoles)
		    .Register(loader);
	}
};

struct ST_Collect {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		GeometryLists lists(args.data[0]);
		UnaryExecutor::Execute<list_entry_t, string_t>(args.data[0], result, args.size(), [&](list_entry_t list) {
			return EmitCollection(result, lists.Get(list));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Collect",
		            "One geometry of many: a multi geometry when all are points, lines or polygons, else a "
		            "collection. NULL and EMPTY are left out. The result has Z or M if any argument has, EMPTY ones "
		            "included; a missing one becomes 0.")
		    .Category("construction")
		    .Example("ST_Collect([ST_Point(1, 2), ST_Point(3, 4)])", "MULTIPOINT (1 2, 3 4)")
		    .Overload({{"geoms", LogicalType::LIST(LogicalType::GEOMETRY())}}, LogicalType::GEOMETRY(), Execute)
		    .Register(loader);
	}
};

} // namespace

void RegisterConstructors(ExtensionLoader &loader) {
	ST_Point::Register(loader);
	ST_MakePoint::Register(loader);
	ST_MakeEnvelope::Register(loader);
	ST_MakeLine::Register(loader);
	ST_MakePolygon::Register(loader);
	ST_Collect::Register(loader);
}

} // namespace duckdb
