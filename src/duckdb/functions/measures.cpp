#include "duckdb/support/crs.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/types.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "duckdb/support/wkb_prefetch.hpp"
#include "engine/measure/measure.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/measure.h"

namespace duckdb {

namespace {

using vibespatial::WkbSlice;
using VibeType = vibespatial::GeometryType;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//
//! ST_Area, ST_Length, ST_Perimeter: one number of the bytes
template <double (*MEASURE)(const uint8_t *wkb, size_t size)>
struct ST_Measure {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		WkbPrefetch prefetch(args.data[0], args.size());
		UnaryExecutor::Execute<string_t, double>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			prefetch.Next();
			return MEASURE(WkbData(wkb), wkb.GetSize());
		});
	}

	static void Register(ExtensionLoader &loader, const string &name, const string &description, const string &geometry,
	                     const string &value) {
		SqlFunction(name, description)
		    .Category("measure")
		    .Example(name + "('" + geometry + "'::GEOMETRY)", value)
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE, Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

//! What rewrites make of ST_Length(ST_MakeLine(a, b))
struct Vibe_SegmentLength {
	static double Length(const string_t &start, const string_t &end) {
		const WkbSlice ends[] = {Slice(start), Slice(end)};
		if (vibespatial::IsPlainPoint(ends[0].data, ends[0].size) &&
		    vibespatial::IsPlainPoint(ends[1].data, ends[1].size)) {
			const auto a = ends[0].data + WKB_HEADER_SIZE, b = ends[1].data + WKB_HEADER_SIZE;
			using vibespatial::LoadDouble;
			return vibe::SegmentLength(LoadDouble(a), LoadDouble(a + sizeof(double)), LoadDouble(b),
			                           LoadDouble(b + sizeof(double)));
		}
		const auto line = WithFunctionName("ST_MakeLine", [&]() { return vibespatial::MakeLine({ends[0], ends[1]}); });
		return vibespatial::Length(const_data_ptr_cast(line.data()), line.size());
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		WkbPrefetch start_prefetch(args.data[0], args.size()), end_prefetch(args.data[1], args.size());
		BinaryExecutor::Execute<string_t, string_t, double>(args.data[0], args.data[1], result, args.size(),
		                                                    [&](const string_t &start, const string_t &end) {
			                                                    start_prefetch.Next();
			                                                    end_prefetch.Next();
			                                                    return Length(start, end);
		                                                    });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("vibe_segment_length",
		            "The same as ST_Length(ST_MakeLine(start, end)), without making the line of two points.")
		    .Category("measure")
		    .Example("vibe_segment_length(ST_Point(0, 0), ST_Point(3, 4))", "5.0")
		    .Overload({{"start", LogicalType::GEOMETRY()}, {"end", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE,
		              Execute)
		    .Register(loader);
	}
};

struct ST_Centroid {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		WkbPrefetch prefetch(args.data[0], args.size());
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			prefetch.Next();
			const auto data = WkbData(wkb);
			const auto vertex_type = vibespatial::ReadWkbHeader(data, wkb.GetSize()).vertex_type;
			const auto width = vibespatial::VertexWidth(vertex_type);
			const auto centroid = vibespatial::Centroid(data, wkb.GetSize());
			const auto nan = std::numeric_limits<double>::quiet_NaN();
			return EmitWkb(result, WKB_HEADER_SIZE + width * sizeof(double), [&](WkbOutput out) {
				out.Header(VibeType::POINT, vertex_type);
				out.Ordinate(centroid.empty ? nan : centroid.x);
				out.Ordinate(centroid.empty ? nan : centroid.y);
				for (idx_t i = 2; i < width; i++) {
					out.Ordinate(centroid.empty ? nan : centroid.extra[i - 2]);
				}
			});
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Centroid",
		            "The centre of mass of the parts of the highest dimension: of polygons by area, of lines by "
		            "length, of points their mean. Polygons of no area count as lines, lines of no length as points. "
		            "POINT EMPTY without vertices.")
		    .Category("measure")
		    .Example("ST_Centroid('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))'::GEOMETRY)", "POINT (2 2)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// The box
//===----------------------------------------------------------------------===//
//! The box of a geometry; false when there is none: without vertices, or when all X or all Y are NaN
bool TryGetBox(const string_t &wkb, vibe::Box &box) {
	return vibespatial::WkbBounds(WkbData(wkb), wkb.GetSize(), box) > 0 && box.min_x <= box.max_x &&
	       box.min_y <= box.max_y;
}

struct ST_Envelope {
	static string_t Envelope(const string_t &wkb, Vector &result) {
		vibe::Box box;
		const auto has_box = TryGetBox(wkb, box);
		if (has_box && (box.min_x != box.max_x || box.min_y != box.max_y)) {
			const double corners[] = {box.min_x, box.min_y, box.max_x, box.min_y, box.max_x,
			                          box.max_y, box.min_x, box.max_y, box.min_x, box.min_y};
			return EmitWkb(result, ENVELOPE_SIZE, [&](WkbOutput out) {
				out.Header(VibeType::POLYGON, vibespatial::VERTEX_XY);
				out.Count(1);
				out.Count(5);
				out.Bytes(corners, sizeof(corners));
			});
		}
		const auto nan = std::numeric_limits<double>::quiet_NaN();
		return EmitWkb(result, WKB_HEADER_SIZE + 2 * sizeof(double), [&](WkbOutput out) {
			out.Header(VibeType::POINT, vibespatial::VERTEX_XY);
			out.Ordinate(has_box ? box.min_x : nan);
			out.Ordinate(has_box ? box.min_y : nan);
		});
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(),
		                                           [&](const string_t &wkb) { return Envelope(wkb, result); });
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Envelope",
		            "The smallest rectangle around a geometry, as a polygon; a point when it is no larger, POINT "
		            "EMPTY for EMPTY.")
		    .Category("measure")
		    .Example("ST_Envelope('LINESTRING (0 0, 3 4)'::GEOMETRY)", "POLYGON ((0 0, 3 0, 3 4, 0 4, 0 0))")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

struct ST_Extent {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		const auto constant = args.AllConstant();
		const auto rows = constant ? 1 : args.size();
		result.SetVectorType(VectorType::FLAT_VECTOR);
		double *columns[4];
		for (idx_t i = 0; i < 4; i++) {
			columns[i] = MutableData<double>(StructField(result, i));
		}
		UnifiedVectorFormat input;
		args.data[0].ToUnifiedFormat(args.size(), input);
		auto strings = UnifiedVectorFormat::GetData<string_t>(input);
		WkbPrefetch prefetch(args.data[0], args.size());
		for (idx_t row = 0; row < rows; row++) {
			prefetch.Next();
			const auto index = input.sel->get_index(row);
			vibe::Box box;
			if (!input.validity.RowIsValid(index) || !TryGetBox(strings[index], box)) {
				FlatVector::SetNull(result, row, true);
				continue;
			}
			columns[0][row] = box.min_x;
			columns[1][row] = box.min_y;
			columns[2][row] = box.max_x;
			columns[3][row] = box.max_y;
		}
		if (constant) {
			result.SetVectorType(VectorType::CONSTANT_VECTOR);
		}
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Extent", "The smallest box around a geometry, as a structure of its limits; NULL for EMPTY.")
		    .Category("measure")
		    .Example("ST_Extent('LINESTRING (0 0, 3 4)'::GEOMETRY)", "BOX(0 0, 3 4)")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, BoxType(), Execute, SqlFunction::Infallible)
		    .Register(loader);
	}
};

//! One limit of the box in X or Y; NaN is passed over
template <double vibe::Box::*LIMIT, double vibe::Box::*MIN, double vibe::Box::*MAX>
struct ST_BoxLimit {
	//! The same as of the polygon that a box becomes, whose limits may be given in any order
	static void ExecuteBox(Vector &boxes, Vector &result, idx_t count) {
		constexpr idx_t FIRST = MIN == &vibe::Box::min_x ? 0 : 1;
		const bool constant = boxes.GetVectorType() == VectorType::CONSTANT_VECTOR;
		if (!constant) {
			boxes.Flatten(count);
		}
		UnifiedVectorFormat rows, first, second;
		boxes.ToUnifiedFormat(count, rows);
		StructField(boxes, FIRST).ToUnifiedFormat(count, first);
		StructField(boxes, FIRST + 2).ToUnifiedFormat(count, second);
		result.SetVectorType(VectorType::FLAT_VECTOR);
		auto values = MutableData<double>(result);
		for (idx_t row = 0; row < (constant ? 1 : count); row++) {
			const auto at = first.sel->get_index(row), other = second.sel->get_index(row);
			const bool valid = rows.validity.RowIsValid(rows.sel->get_index(row)) && first.validity.RowIsValid(at) &&
			                   second.validity.RowIsValid(other);
			const auto a = valid ? UnifiedVectorFormat::GetData<double>(first)[at] : 0.0;
			const auto b = valid ? UnifiedVectorFormat::GetData<double>(second)[other] : 0.0;
			// NaN is passed over
			values[row] = a != a || (LIMIT == MIN ? b < a : b > a) ? b : a;
			if (!valid || values[row] != values[row]) {
				FlatVector::SetNull(result, row, true);
			}
		}
		if (constant) {
			result.SetVectorType(VectorType::CONSTANT_VECTOR);
		}
	}

	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		if (args.data[0].GetType().id() == LogicalTypeId::STRUCT) {
			return ExecuteBox(args.data[0], result, args.size());
		}
		WkbPrefetch prefetch(args.data[0], args.size());
		ExecuteOrNull<string_t, double>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			prefetch.Next();
			vibe::Box box;
			vibespatial::WkbBounds(WkbData(wkb), wkb.GetSize(), box);
			return box.*MIN <= box.*MAX ? std::optional<double>(box.*LIMIT) : std::nullopt;
		});
	}
};

//! A box is taken as it is: an overload of its own would make the type of a text in its place ambiguous
void TakeBox(BoundFunction &bound_function, const vector<unique_ptr<Expression>> &arguments) {
	if (ReturnTypeOf(*arguments[0]) == BoxType()) {
		ArgumentTypesOf(bound_function)[0] = BoxType();
	} else {
		PropagateCrs(bound_function, arguments);
	}
}
void TakesBoxes(ScalarFunction &function) {
	SetBind<TakeBox>(function);
	SqlFunction::Infallible(function);
}

//! The least and the greatest Z or M
template <uint8_t AXIS>
struct AxisRange {
	double min = std::numeric_limits<double>::infinity();
	double max = -std::numeric_limits<double>::infinity();

	void Part(vibe::Family) {
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		// M is the last ordinate, Z the third
		auto at = coords + (AXIS == vibespatial::VERTEX_M ? stride - sizeof(double) : 2 * sizeof(double));
		for (uint32_t i = 0; i < count; i++, at += stride) {
			const auto value = vibespatial::LoadDouble(at);
			min = vibe::Min(min, value);
			max = vibe::Max(max, value);
		}
	}
};

template <uint8_t AXIS, double AxisRange<AXIS>::*LIMIT>
struct ST_AxisLimit {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		ExecuteOrNull<string_t, double>(args.data[0], result, args.size(), [](const string_t &wkb) {
			AxisRange<AXIS> range;
			if (vibespatial::ReadWkbHeader(WkbData(wkb), wkb.GetSize()).vertex_type & AXIS) {
				vibespatial::VisitWkb(WkbData(wkb), wkb.GetSize(), range);
			}
			return range.min <= range.max ? std::optional<double>(range.*LIMIT) : std::nullopt;
		});
	}
};

void RegisterLimit(ExtensionLoader &loader, const string &axis, bool min, scalar_function_t execute) {
	auto name = "ST_" + axis + (min ? "Min" : "Max");
	auto geometry = axis == "Z"   ? "LINESTRING Z (0 1 2, 3 4 5)"
	                : axis == "M" ? "LINESTRING M (0 1 2, 3 4 5)"
	                              : "LINESTRING (0 1, 3 4)";
	const auto first = axis == "X" ? 0 : axis == "Y" ? 1 : 2;
	SqlFunction(name, string("The ") + (min ? "least " : "greatest ") + axis + " of a geometry; NULL when it is EMPTY" +
	                      (first == 2 ? " or has none." : "."))
	    .Category("measure")
	    .Example(name + "('" + geometry + "'::GEOMETRY)", to_string(min ? first : first + 3) + ".0")
	    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE, std::move(execute),
	              first < 2 ? TakesBoxes : SqlFunction::Infallible)
	    .Register(loader);
}

} // namespace

void RegisterMeasures(ExtensionLoader &loader) {
	ST_Measure<vibespatial::Area>::Register(loader, "ST_Area",
	                                        "The area of the polygons of a geometry; 0 when it has none.",
	                                        "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "16.0");
	ST_Measure<vibespatial::Length>::Register(loader, "ST_Length",
	                                          "The length of the lines of a geometry, in X and Y; 0 when it has none.",
	                                          "LINESTRING (0 0, 3 4)", "5.0");
	ST_Measure<vibespatial::Perimeter>::Register(
	    loader, "ST_Perimeter",
	    "The length of all rings of the polygons of a geometry, in X and Y; 0 when it has none.",
	    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "16.0");
	Vibe_SegmentLength::Register(loader);
	ST_Centroid::Register(loader);
	ST_Envelope::Register(loader);
	ST_Extent::Register(loader);

	using vibe::Box;
	RegisterLimit(loader, "X", true, ST_BoxLimit<&Box::min_x, &Box::min_x, &Box::max_x>::Execute);
	RegisterLimit(loader, "X", false, ST_BoxLimit<&Box::max_x, &Box::min_x, &Box::max_x>::Execute);
	RegisterLimit(loader, "Y", true, ST_BoxLimit<&Box::min_y, &Box::min_y, &Box::max_y>::Execute);
	RegisterLimit(loader, "Y", false, ST_BoxLimit<&Box::max_y, &Box::min_y, &Box::max_y>::Execute);
	constexpr auto Z = vibespatial::VERTEX_Z;
	constexpr auto M = vibespatial::VERTEX_M;
	RegisterLimit(loader, "Z", true, ST_AxisLimit<Z, &AxisRange<Z>::min>::Execute);
	RegisterLimit(loader, "Z", false, ST_AxisLimit<Z, &AxisRange<Z>::max>::Execute);
	RegisterLimit(loader, "M", true, ST_AxisLimit<M, &AxisRange<M>::min>::Execute);
	RegisterLimit(loader, "M", false, ST_AxisLimit<M, &AxisRange<M>::max>::Execute);
}

} // namespace duckdb
