#include "duckdb/arrow/geoarrow.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/common/arrow/arrow_type_extension.hpp"
#include "duckdb/common/arrow/schema_metadata.hpp"
#include "duckdb/common/types/geometry_crs.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/register_once.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/function/function_binder.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/operator/logical_projection.hpp"
#include "duckdb/planner/planner_extension.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "geometry/error.hpp"

// The schema of a result is made from its types, before there is a row, and so is the memory that rows are written to. A
// native encoding therefore is a type of its own, STRUCT(x DOUBLE, y DOUBLE) under the name GEOARROW_POINT or the like,
// with the CRS beside the name. DuckDB finds the extension type by that name.

namespace duckdb {

using vibespatial::GeoArrowSpan;
using vibespatial::GeoArrowTarget;
using vibespatial::GeoArrowType;
using vibespatial::GeoArrowWriter;
using vibespatial::GeometryError;
using Kind = vibespatial::GeometryType;

namespace {

constexpr const char *SETTING = "vibe_arrow_encoding";
constexpr const char *FUNCTION = "vibe_geoarrow";
//! Before the encoding, in the name of an extension type that no schema ever has
constexpr const char *PREFIX = "vibespatial.";

constexpr Kind KINDS[] = {Kind::POINT,      Kind::LINESTRING,      Kind::POLYGON,
                          Kind::MULTIPOINT, Kind::MULTILINESTRING, Kind::MULTIPOLYGON};
const char *const KIND_NAMES[] = {"point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"};
const char *const DIMENSIONS[] = {"", "_z", "_m", "_zm"};
const char *const AXES[] = {"xy", "xyz", "xym", "xyzm"};
constexpr const char *INTERLEAVED = "_interleaved";
//! The property of a type
constexpr const char *CRS = "crs";

string EncodingName(const GeoArrowType &type) {
	return string(KIND_NAMES[uint8_t(type.kind) - 1]) + DIMENSIONS[type.vertex_type] +
	       (type.interleaved ? INTERLEAVED : "");
}

//! Calls `visit(type)` for every native encoding
template <class VISIT>
void VisitEncodings(VISIT &&visit) {
	for (auto kind : KINDS) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			for (auto interleaved : {false, true}) {
				GeoArrowType type;
				type.kind = kind;
				type.vertex_type = vertex_type;
				type.interleaved = interleaved;
				visit(type);
			}
		}
	}
}

bool TryParseEncoding(const string &encoding, GeoArrowType &result) {
	bool found = false;
	VisitEncodings([&](const GeoArrowType &type) {
		if (EncodingName(type) == encoding) {
			result = type;
			found = true;
		}
	});
	return found;
}

//! The vectors that DuckDB's ArrowAppender takes
LogicalType StorageType(const GeoArrowType &type) {
	LogicalType storage;
	if (type.interleaved) {
		storage = LogicalType::ARRAY(LogicalType::DOUBLE, type.Width());
	} else {
		child_list_t<LogicalType> axes;
		for (auto axis : string(AXES[type.vertex_type])) {
			axes.emplace_back(string(1, axis), LogicalType::DOUBLE);
		}
		storage = LogicalType::STRUCT(std::move(axes));
	}
	for (uint32_t level = 0; level < type.Levels(); level++) {
		storage = LogicalType::LIST(std::move(storage));
	}
	return storage;
}

string ColumnTypeName(const GeoArrowType &type) {
	return "GEOARROW_" + StringUtil::Upper(EncodingName(type));
}

//! `geometry` is a GEOMETRY, or a type that was made here
LogicalType ColumnType(const LogicalType &geometry, const GeoArrowType &type) {
	auto info = make_uniq<ExtensionTypeInfo>();
	if (GeoType::HasCRS(geometry)) {
		info->properties[CRS] = Value(GeoType::GetCRS(geometry).GetDefinition());
	}
	return WithExtensionInfo(WithAlias(StorageType(type), ColumnTypeName(type)), std::move(info));
}

//! The GEOMETRY that a type was made of
LogicalType GeometryOf(const LogicalType &type) {
	auto info = type.GetExtensionInfo();
	if (info) {
		auto crs = info->properties.find(CRS);
		if (crs != info->properties.end() && !crs->second.IsNull()) {
			return LogicalType::GEOMETRY(StringValue::Get(crs->second));
		}
	}
	return LogicalType::GEOMETRY();
}

//===----------------------------------------------------------------------===//
// The schema
//===----------------------------------------------------------------------===//

//! One child of `schema`, which the holder owns
ArrowSchema &AddChildren(DuckDBArrowSchemaHolder &holder, ArrowSchema &schema, const vector<string> &names) {
	holder.nested_children.emplace_back();
	auto &children = holder.nested_children.back();
	children.resize(names.size());
	holder.nested_children_ptr.emplace_back();
	auto &pointers = holder.nested_children_ptr.back();
	for (idx_t i = 0; i < names.size(); i++) {
		auto &child = children[i];
		child = ArrowSchema {};
		// As all children of DuckDB's schemas: what they need is the holder's
		child.release = schema.release;
		auto name = make_unsafe_uniq_array<char>(names[i].size() + 1);
		memcpy(name.get(), names[i].c_str(), names[i].size() + 1);
		holder.owned_type_names.push_back(std::move(name));
		child.name = holder.owned_type_names.back().get();
		child.format = "g";
		pointers.push_back(&child);
	}
	schema.n_children = NumericCast<int64_t>(names.size());
	schema.children = pointers.data();
	return children[0];
}

//! What geoarrow.wkb says of the CRS, which DuckDB writes
string ColumnMetadata(DuckDBArrowSchemaHolder &holder, const LogicalType &type, ClientContext &context) {
	auto wkb = DBConfig::GetConfig(context).GetArrowExtension(ArrowExtensionMetadata("geoarrow.wkb", "", "", ""));
	ArrowSchema schema {};
	ArrowTypeExtension::PopulateArrowSchema(holder, schema, type, context, wkb);
	return ArrowSchemaMetadata(schema.metadata).GetOption(ArrowSchemaMetadata::ARROW_METADATA_KEY);
}

void PopulateSchema(DuckDBArrowSchemaHolder &holder, ArrowSchema &schema, const LogicalType &type,
                    ClientContext &context, const ArrowTypeExtension &extension) {
	GeoArrowType native;
	TryParseEncoding(extension.GetInfo().GetExtensionName().substr(strlen(PREFIX)), native);
	const auto options = context.GetClientProperties();
	if (native.Levels() > 0 && options.arrow_use_list_view &&
	    options.arrow_output_version >= ArrowFormatVersion::V1_4) {
		throw InvalidInputException(
		    "%s: native GeoArrow is made of lists, not of list views. Run SET arrow_output_list_view = false, "
		    "or SET %s = 'wkb'.",
		    EncodingName(native), SETTING);
	}
	if (native.Levels() > 0 && options.arrow_offset_size == ArrowOffsetSize::LARGE) {
		throw InvalidInputException(
		    "%s: native GeoArrow has offsets of 32 bits. Run SET arrow_large_buffer_size = false, or SET "
		    "%s = 'wkb'.",
		    EncodingName(native), SETTING);
	}
	ArrowSchemaMetadata metadata;
	metadata.AddOption(ArrowSchemaMetadata::ARROW_EXTENSION_NAME,
	                   string("geoarrow.") + KIND_NAMES[uint8_t(native.kind) - 1]);
	metadata.AddOption(ArrowSchemaMetadata::ARROW_METADATA_KEY, ColumnMetadata(holder, GeometryOf(type), context));
	holder.metadata_info.emplace_back(metadata.SerializeMetadata());
	schema.metadata = holder.metadata_info.back().get();

	// The names that GeoArrow recommends, from the vertices upwards
	const char *parts = native.kind == Kind::MULTIPOINT ? "points" : "vertices";
	const char *lists = native.kind == Kind::MULTILINESTRING ? "linestrings" : "rings";
	const char *const names[] = {parts, lists, "polygons"};
	reference<ArrowSchema> at = schema;
	for (auto level = native.Levels(); level > 0; level--) {
		at.get().format = "+l";
		at = AddChildren(holder, at.get(), {names[level - 1]});
	}
	const string axes = AXES[native.vertex_type];
	if (native.interleaved) {
		const char *const formats[] = {"+w:2", "+w:3", "+w:4"};
		at.get().format = formats[native.Width() - 2];
		AddChildren(holder, at.get(), {axes});
	} else {
		at.get().format = "+s";
		vector<string> fields;
		for (auto axis : axes) {
			fields.emplace_back(1, axis);
		}
		AddChildren(holder, at.get(), fields);
	}
}

//===----------------------------------------------------------------------===//
// The rows
//===----------------------------------------------------------------------===//

static_assert(sizeof(GeoArrowSpan) == sizeof(list_entry_t), "spans are DuckDB's list entries");

void WriteRows(const GeoArrowType &type, Vector &source, Vector &result, idx_t count) {
	UnifiedVectorFormat format;
	ToUnified(source, count, format);
	auto rows = UnifiedVectorFormat::GetData<string_t>(format);
	GeoArrowWriter writer(type);
	for (idx_t i = 0; i < count; i++) {
		const auto row = format.sel->get_index(i);
		if (format.validity.RowIsValid(row)) {
			writer.Count(WkbData(rows[row]), rows[row].GetSize());
		}
	}
	GeoArrowTarget target;
	reference<Vector> at = result;
	for (uint32_t level = 0; level < type.Levels(); level++) {
		const auto below = writer.Counts().below[level];
		ListVector::Reserve(at.get(), below);
		ListVector::SetListSize(at.get(), below);
		target.spans[level] = reinterpret_cast<GeoArrowSpan *>(MutableData<list_entry_t>(at.get()));
		at = ListChild(at.get());
	}
	for (uint32_t axis = 0; axis < type.Width(); axis++) {
		if (type.interleaved) {
			target.axis[axis] = MutableData<double>(ArrayChild(at.get())) + axis;
		} else {
			target.axis[axis] = MutableData<double>(StructField(at.get(), axis));
		}
	}
	target.step = type.interleaved ? type.Width() : 1;
	auto &validity = MutableValidity(result);
	for (idx_t i = 0; i < count; i++) {
		const auto row = format.sel->get_index(i);
		if (format.validity.RowIsValid(row)) {
			writer.Write(i, WkbData(rows[row]), rows[row].GetSize(), target);
		} else {
			// The NULL is that of the row: what is inside a geometry never is one
			validity.SetInvalid(i);
			writer.WriteNull(i, target);
		}
	}
}

//===----------------------------------------------------------------------===//
// What asks for it: a function, and a setting that puts the function around the columns of a result
//===----------------------------------------------------------------------===//

struct VibeGeoArrow {
	static void SettleTypes(ClientContext &context, BoundFunction &function,
	                        const vector<unique_ptr<Expression>> &arguments) {
		if (arguments[1]->HasParameter()) {
			throw ParameterNotResolvedException();
		}
		if (!arguments[1]->IsFoldable()) {
			throw BinderException(*arguments[1], "%s: the encoding must be a constant", FUNCTION);
		}
		auto encoding = ExpressionExecutor::EvaluateScalar(context, *arguments[1]);
		if (encoding.IsNull()) {
			return;
		}
		auto &type = ReturnTypeOf(*arguments[0]);
		if (type.id() == LogicalTypeId::GEOMETRY) {
			ArgumentTypesOf(function)[0] = type;
		}
		ResultTypeOf(function) = GeoArrowColumnType(ArgumentTypesOf(function)[0], encoding.ToString());
	}
	static void Execute(DataChunk &args, ExpressionState &, Vector &result) {
		GeometryToGeoArrow(args.data[0], result, args.size());
		if (args.AllConstant()) {
			result.SetVectorType(VectorType::CONSTANT_VECTOR);
		}
	}
	static void Register(ExtensionLoader &loader) {
		SqlFunction(FUNCTION, "A geometry in a native encoding of GeoArrow: coordinates in structs or arrays, in "
		                      "lists. Arrow results carry "
		                      "it as such, with the CRS. The encoding is a constant: point, linestring, polygon, "
		                      "multipoint, multilinestring or "
		                      "multipolygon, then _z, _m or _zm for the dimensions, then _interleaved.")
		    .Category("conversion")
		    .Example("vibe_geoarrow('POINT (1 2)'::GEOMETRY, 'point')", "{'x': 1.0, 'y': 2.0}")
		    .Overload({{"geom", LogicalType::GEOMETRY()}, {"encoding", LogicalType::VARCHAR}}, LogicalType::GEOMETRY(),
		              Execute, SetBindByValues<SettleTypes>)
		    .Register(loader);
	}
};

string CheckEncoding(const string &encoding) {
	auto lower = StringUtil::Lower(encoding);
	GeoArrowType type;
	if (lower != "wkb" && !TryParseEncoding(lower, type)) {
		throw InvalidInputException(
		    "'%s' is no GeoArrow encoding. There are 'wkb', 'point', 'linestring', 'polygon', 'multipoint', "
		    "'multilinestring' and 'multipolygon', the last six also with _z, _m or _zm, and then with "
		    "_interleaved: 'multipolygon_z_interleaved'",
		    encoding);
	}
	return lower;
}

void SetEncoding(ClientContext &, SetScope, Value &value) {
	value = Value(value.IsNull() ? "wkb" : CheckEncoding(StringValue::Get(value)));
}

//! Puts vibe_geoarrow around the geometries of a result
void EncodeResult(PlannerExtensionInput &input, BoundStatement &statement) {
	Value setting;
	if (!input.context.TryGetCurrentSetting(SETTING, setting) || setting.IsNull() ||
	    StringValue::Get(setting) == "wkb") {
		return;
	}
	bool any = false;
	for (auto &type : statement.types) {
		any = any || type.id() == LogicalTypeId::GEOMETRY;
	}
	if (!any || !statement.plan || statement.plan->type == LogicalOperatorType::LOGICAL_EXECUTE) {
		return;
	}
	statement.plan->ResolveOperatorTypes();
	const auto bindings = statement.plan->GetColumnBindings();
	vector<unique_ptr<Expression>> columns;
	FunctionBinder binder(input.context);
	for (idx_t i = 0; i < bindings.size(); i++) {
		auto column = make_uniq<BoundColumnRefExpression>(statement.names[i], statement.types[i], bindings[i]);
		if (statement.types[i].id() != LogicalTypeId::GEOMETRY) {
			columns.push_back(std::move(column));
			continue;
		}
		vector<unique_ptr<Expression>> arguments;
		arguments.push_back(std::move(column));
		arguments.push_back(make_uniq<BoundConstantExpression>(setting));
		ErrorData error;
		auto call = binder.BindScalarFunction(DEFAULT_SCHEMA, FUNCTION, std::move(arguments), error);
		if (!call) {
			error.Throw();
		}
		call->SetAlias(statement.names[i]);
		statement.types[i] = ReturnTypeOf(*call);
		columns.push_back(std::move(call));
	}
	auto projection = make_uniq<LogicalProjection>(input.binder.GenerateTableIndex(), std::move(columns));
	projection->AddChild(std::move(statement.plan));
	projection->ResolveOperatorTypes();
	statement.plan = std::move(projection);
}

} // namespace

LogicalType GeoArrowColumnType(const LogicalType &geometry, const string &encoding) {
	const auto name = CheckEncoding(encoding);
	GeoArrowType type;
	if (TryParseEncoding(name, type)) {
		return ColumnType(geometry, type);
	}
	return GeoType::HasCRS(geometry) ? LogicalType::GEOMETRY(GeoType::GetCRS(geometry)) : LogicalType::GEOMETRY();
}

void GeometryToGeoArrow(Vector &source, Vector &result, idx_t count) {
	GeoArrowType type;
	bool is_native = false;
	VisitEncodings([&](const GeoArrowType &candidate) {
		if (result.GetType().GetAlias() == ColumnTypeName(candidate)) {
			type = candidate;
			is_native = true;
		}
	});
	if (!is_native) {
		return result.Reinterpret(source);
	}
	try {
		WriteRows(type, source, result, count);
	} catch (const GeometryError &error) {
		throw InvalidInputException(
		    "GeoArrow encoding '%s': %s. Choose a kind that takes all rows, with SET %s or %s(geom, "
		    "encoding); 'wkb' takes any.",
		    EncodingName(type), error.what(), SETTING, FUNCTION);
	}
}

void RegisterGeoArrowOutput(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	VisitEncodings([&](const GeoArrowType &type) {
		RegisterOnce(loader, PREFIX + EncodingName(type), [&] {
			config.RegisterArrowExtension(ArrowTypeExtension(
			    PREFIX + EncodingName(type), PopulateSchema, nullptr,
			    make_shared_ptr<ArrowTypeExtensionData>(ColumnType(LogicalType::GEOMETRY(), type), StorageType(type))));
		});
	});
	VibeGeoArrow::Register(loader);
	auto encoding = SettingDefault(SETTING, Value("wkb"), [](const string &variable, Value &value) {
		try {
			value = Value(CheckEncoding(StringValue::Get(value)));
		} catch (const InvalidInputException &error) {
			throw InvalidInputException("%s: %s", variable, ErrorData(error).RawMessage());
		}
	});
	config.AddExtensionOption(
	    SETTING,
	    "How geometries leave in Arrow results: wkb, or a native GeoArrow encoding such as point, "
	    "multipolygon_z or linestring_interleaved",
	    LogicalType::VARCHAR, encoding, SetEncoding, SetScope::SESSION);
	RegisterOnce(loader, "planner", [&] {
		PlannerExtension extension;
		extension.post_bind_function = EncodeResult;
		PlannerExtension::Register(config, std::move(extension));
	});
}

} // namespace duckdb
