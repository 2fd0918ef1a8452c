#include "duckdb/functions/native.hpp"

#include "duckdb/support/compat.hpp"
#include "duckdb/common/types/geometry.hpp"
#include "duckdb/common/types/geometry_crs.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"

namespace duckdb {

namespace {

constexpr const char *NAME = "vibe_from_native";

//! Makes a vector flat throughout, as DuckDB's own conversion wants it. Returns whether there is a NULL below its rows.
bool Flatten(Vector &vector, idx_t count, bool inside = false) {
	vector.Flatten(count);
	bool has_null = inside && !FlatVector::Validity(vector).AllValid();
	if (vector.GetType().id() == LogicalTypeId::LIST) {
		return Flatten(ListChild(vector), ListVector::GetListSize(vector), true) || has_null;
	}
	if (vector.GetType().id() == LogicalTypeId::STRUCT) {
		for (idx_t i = 0; i < StructType::GetChildCount(vector.GetType()); i++) {
			has_null = Flatten(StructField(vector, i), count, true) || has_null;
		}
	}
	return has_null;
}

//! Throws for a NULL inside of a geometry, which has no meaning. Those that no row leads to are left from empty lists.
void RefuseNull(Vector &vector, idx_t begin, idx_t end) {
	auto &validity = FlatVector::Validity(vector);
	for (idx_t i = begin; i < end; i++) {
		if (!validity.RowIsValid(i)) {
			throw vibespatial::GeometryError("a part of a geometry is NULL");
		}
		if (vector.GetType().id() == LogicalTypeId::LIST) {
			auto &entry = ListVector::GetData(vector)[i];
			RefuseNull(ListChild(vector), entry.offset, entry.offset + entry.length);
		}
	}
	if (vector.GetType().id() == LogicalTypeId::STRUCT) {
		for (idx_t i = 0; i < StructType::GetChildCount(vector.GetType()); i++) {
			RefuseNull(StructField(vector, i), begin, end);
		}
	}
}

//! A point without one of its coordinates is NULL
void ForgetHalfPoints(Vector &points, Vector &result, idx_t count) {
	for (idx_t field = 0; field < StructType::GetChildCount(points.GetType()); field++) {
		auto &validity = FlatVector::Validity(StructField(points, field));
		for (idx_t i = 0; !validity.AllValid() && i < count; i++) {
			if (!validity.RowIsValid(i)) {
				FlatVector::SetNull(result, i, true);
			}
		}
	}
}

struct FromNative {
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		auto geometry = ParseEncoding(args.data[1].GetValue(0).ToString());
		auto vertex = ParseVertex(args.data[0].GetType());
		auto count = args.size();
		// What is made flat here may be shared with others
		Vector values(args.data[0].GetType());
		values.Reference(args.data[0]);
		bool has_null = Flatten(values, count);
		auto &validity = FlatVector::Validity(values);
		for (idx_t i = 0; has_null && geometry != GeometryType::POINT && i < count; i++) {
			if (validity.RowIsValid(i)) {
				RefuseNull(values, i, i + 1);
			}
		}
		result.SetVectorType(VectorType::FLAT_VECTOR);
		Geometry::FromVectorizedFormat(values, result, count, geometry, vertex, 0);
		if (has_null && geometry == GeometryType::POINT) {
			ForgetHalfPoints(values, result, count);
		}
		if (args.AllConstant()) {
			result.SetVectorType(VectorType::CONSTANT_VECTOR);
		}
	}

	static string ConstantText(ClientContext &context, Expression &argument, const char *what) {
		if (!argument.IsFoldable()) {
			throw BinderException("%s: the %s must be a constant", NAME, what);
		}
		auto value = ExpressionExecutor::EvaluateScalar(context, argument);
		if (value.IsNull()) {
			throw BinderException("%s: the %s must not be NULL", NAME, what);
		}
		return value.ToString();
	}

	static GeometryType ParseEncoding(const string &text) {
		static const std::pair<const char *, GeometryType> NAMES[] = {
		    {"point", GeometryType::POINT},
		    {"linestring", GeometryType::LINESTRING},
		    {"polygon", GeometryType::POLYGON},
		    {"multipoint", GeometryType::MULTIPOINT},
		    {"multilinestring", GeometryType::MULTILINESTRING},
		    {"multipolygon", GeometryType::MULTIPOLYGON}};
		for (auto &entry : NAMES) {
			if (StringUtil::CIEquals(text, entry.first)) {
				return entry.second;
			}
		}
		throw BinderException("%s: '%s' is no encoding: use point, linestring, polygon, multipoint, multilinestring or "
		                      "multipolygon",
		                      NAME, text);
	}

	//! By the names of the coordinates, below all lists
	static VertexType ParseVertex(const LogicalType &type) {
		if (type.id() == LogicalTypeId::LIST) {
			return ParseVertex(ListType::GetChildType(type));
		}
		string names;
		if (type.id() == LogicalTypeId::STRUCT) {
			for (auto &child : StructType::GetChildTypes(type)) {
				names += StringUtil::Lower(NameOf(child.first)) + " ";
			}
		}
		if (names == "x y ") {
			return VertexType::XY;
		}
		if (names == "x y z ") {
			return VertexType::XYZ;
		}
		if (names == "x y m ") {
			return VertexType::XYM;
		}
		if (names == "x y z m ") {
			return VertexType::XYZM;
		}
		throw BinderException("%s: coordinates are a struct of x, y and maybe z and m, not %s", NAME, type.ToString());
	}

	static void Bind(ClientContext &context, BoundFunction &bound_function,
	                 const vector<unique_ptr<Expression>> &arguments) {
		auto type = ReturnTypeOf(*arguments[0]);
		if (type.id() == LogicalTypeId::UNKNOWN) {
			throw ParameterNotResolvedException();
		}
		auto encoding = ParseEncoding(ConstantText(context, *arguments[1], "encoding"));
		auto vertex = type.id() == LogicalTypeId::SQLNULL ? VertexType::XY : ParseVertex(type);
		auto wanted = Geometry::GetVectorizedType(encoding, vertex);
		auto depth = [](const LogicalType &of) {
			idx_t result = 0;
			for (auto at = of; at.id() == LogicalTypeId::LIST; at = ListType::GetChildType(at)) {
				result++;
			}
			return result;
		};
		if (type.id() != LogicalTypeId::SQLNULL && depth(type) != depth(wanted)) {
			throw BinderException("%s: a %s is a %s, not %s", NAME,
			                      StringUtil::Lower(ConstantText(context, *arguments[1], "encoding")),
			                      wanted.ToString(), type.ToString());
		}
		auto geometry = LogicalType::GEOMETRY();
		if (arguments.size() == 3) {
			auto crs = CoordinateReferenceSystem::TryIdentify(
			    context, ConstantText(context, *arguments[2], "coordinate reference system"));
			if (crs) {
				geometry = LogicalType::GEOMETRY(*crs);
			}
		}
		ArgumentTypesOf(bound_function)[0] = wanted;
		ResultTypeOf(bound_function) = geometry;
	}

	static void Customize(ScalarFunction &function) {
		SetBindByValues<Bind>(function);
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(NAME,
		            "The geometry of a value in one of GeoParquet's and GeoArrow's native encodings, by its name: "
		            "structs of x and y, and lists of them. With a third argument it is in that coordinate "
		            "reference system.")
		    .Category("conversion")
		    .Example("vibe_from_native([{'x': 1.0, 'y': 2.0}, {'x': 3.0, 'y': 4.0}], 'linestring')",
		             "LINESTRING (1 2, 3 4)")
		    .Overload({{"value", LogicalType::ANY}, {"encoding", LogicalType::VARCHAR}}, LogicalType::GEOMETRY(),
		              Execute, Customize)
		    .Overload({{"value", LogicalType::ANY}, {"encoding", LogicalType::VARCHAR}, {"crs", LogicalType::VARCHAR}},
		              LogicalType::GEOMETRY(), Execute, Customize)
		    .Register(loader);
	}
};

} // namespace

optional_ptr<const Expression> NativeArgument(const Expression &expr) {
	if (expr.GetExpressionType() != ExpressionType::BOUND_FUNCTION) {
		return nullptr;
	}
	auto &function = expr.Cast<BoundFunctionExpression>();
	return FunctionName(function) == NAME && SqlFunction::IsOurs(FunctionOf(function)) ? ChildrenOf(function)[0].get()
	                                                                                   : nullptr;
}

void RegisterNative(ExtensionLoader &loader) {
	FromNative::Register(loader);
}

} // namespace duckdb
