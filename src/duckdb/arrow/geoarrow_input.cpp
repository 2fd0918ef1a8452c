#include "duckdb/arrow/geoarrow.hpp"

#include "duckdb/common/arrow/arrow_type_extension.hpp"
#include "duckdb/common/arrow/schema_metadata.hpp"
#include "duckdb/common/types/geometry.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/function/table/arrow.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "geometry/error.hpp"

#include <functional>

// DuckDB converts an Arrow array into a vector of a storage type, which is fixed for each name of an extension type, and
// then calls us to make the column of it. A native GeoArrow column would become lists of lists of structs on that way, in
// one of many shapes, and DuckDB trusts every offset in it. So the storage type is one that makes DuckDB follow the
// first child of each level down to the doubles, and only point at them: DOUBLE[1] of DOUBLE[1] and so on. That gives
// us the batch that the array belongs to, and a place in it: the address of the first doubles plus the offsets of all
// levels plus the first row. FindColumn() takes the array from that, and src/geometry/geoarrow.cpp does the rest with
// all lengths known.

namespace duckdb {

using vibespatial::GeoArrowArray;
using vibespatial::GeoArrowColumn;
using vibespatial::GeoArrowType;
using vibespatial::GeometryError;
using Kind = vibespatial::GeometryType;

namespace {

//===----------------------------------------------------------------------===//
// The schema
//===----------------------------------------------------------------------===//

//! The format of an ArrowSchema, never nullptr
string Format(const ArrowSchema &schema) {
	return schema.format ? schema.format : "";
}

[[noreturn]] void RefuseSchema(const string &name, const string &why) {
	throw InvalidInputException("%s: %s. Write the column again with a current GeoArrow library, or as geoarrow.wkb.",
	                            name, why);
}

//! The dimensions that names such as "xyz" spell
bool TryVertexType(const string &axes, uint8_t &vertex_type) {
	const char *const names[] = {"xy", "xyz", "xym", "xyzm"};
	for (uint8_t i = 0; i < 4; i++) {
		if (axes == names[i]) {
			vertex_type = i;
			return true;
		}
	}
	return false;
}

//! A struct of doubles: the names of its fields in a row, or nothing where it is something else
string StructAxes(const ArrowSchema &schema) {
	string axes;
	for (int64_t i = 0; i < schema.n_children; i++) {
		auto &child = *schema.children[i];
		if (Format(child) != "g" || child.dictionary || !child.name) {
			return string();
		}
		axes += child.name;
	}
	return axes;
}

GeoArrowType BoxType(const string &name, const ArrowSchema &schema) {
	GeoArrowType type;
	type.kind = Kind::POLYGON;
	type.box = true;
	const auto axes = Format(schema) == "+s" ? StructAxes(schema) : string();
	const char *const names[] = {"xminyminxmaxymax", "xminyminzminxmaxymaxzmax", "xminyminmminxmaxymaxmmax",
	                             "xminyminzminmminxmaxymaxzmaxmmax"};
	for (uint8_t i = 0; i < 4; i++) {
		if (axes == names[i]) {
			type.vertex_type = i;
			return type;
		}
	}
	RefuseSchema(
	    name, "a struct of the doubles xmin, ymin, xmax, ymax is expected (with zmin, zmax, mmin, mmax between them)");
}

GeoArrowType NativeType(const string &name, Kind kind, const ArrowSchema &schema) {
	GeoArrowType type;
	type.kind = kind;
	auto at = &schema;
	for (uint32_t level = 0; level < type.Levels(); level++) {
		const auto format = Format(*at);
		const bool large = format == "+L";
		if ((format != "+l" && !large) || at->n_children != 1) {
			RefuseSchema(name, "lists nested " + to_string(type.Levels()) + " deep are expected, not format '" +
			                       format + "' at level " + to_string(level + 1));
		}
		if (level > 0 && large != type.large) {
			RefuseSchema(name, "lists with offsets of 32 and of 64 bits are mixed");
		}
		type.large = large;
		at = at->children[0];
	}
	const auto format = Format(*at);
	if (format == "+s" && TryVertexType(StructAxes(*at), type.vertex_type)) {
		return type;
	}
	if (at->n_children == 1 && Format(*at->children[0]) == "g" && !at->children[0]->dictionary) {
		type.interleaved = true;
		const string axes = at->children[0]->name ? at->children[0]->name : "";
		if (format == "+w:2") {
			type.vertex_type = vibespatial::VERTEX_XY;
			return type;
		}
		if (format == "+w:3") {
			type.vertex_type = axes == "xym" ? vibespatial::VERTEX_M : vibespatial::VERTEX_Z;
			return type;
		}
		if (format == "+w:4") {
			type.vertex_type = vibespatial::VERTEX_Z | vibespatial::VERTEX_M;
			return type;
		}
	}
	RefuseSchema(
	    name, "vertices are expected to be structs of the doubles x, y (z, m) or fixed-size lists of 2 to 4 doubles, "
	          "not format '" +
	              format + "'");
}

//! GEOMETRY with the CRS of the metadata. DuckDB's own geoarrow.wkb reads it, so that the same metadata means the same
//! for every encoding.
LogicalType GeometryOf(ClientContext &context, const ArrowSchema &schema, const ArrowSchemaMetadata &metadata) {
	auto &config = DBConfig::GetConfig(context);
	auto wkb = config.GetArrowExtension(ArrowExtensionMetadata("geoarrow.wkb", "", "", ""));
	ArrowSchema binary = schema;
	binary.format = "z";
	return wkb.GetType(context, binary, metadata)->GetDuckType();
}

//===----------------------------------------------------------------------===//
// From a vector of the storage type to the Arrow array
//===----------------------------------------------------------------------===//

//! What the vector of the storage type holds in the end, in place of doubles
struct Place {
	//! First doubles + offsets of all levels + first row
	const uint8_t *address;
	const ArrowArray *batch;
	uint64_t type_bits;
};

uint64_t TypeBits(const GeoArrowType &type) {
	return type.vertex_type | (type.interleaved ? 4 : 0) | (type.large ? 8 : 0);
}

//! Of the vector that DuckDB pointed at Arrow's doubles
template <uint64_t BITS>
void PutPlace(ClientContext &, Vector &source, Vector &result, idx_t count) {
	if (count == 0) {
		return;
	}
	reference<Vector> doubles = source;
	while (doubles.get().GetType().id() == LogicalTypeId::ARRAY) {
		doubles = ArrayChild(doubles.get());
	}
	const Place place {FlatVector::GetData(doubles.get()), BatchOf(doubles.get()), BITS};
	static_assert(sizeof(Place) <= STANDARD_VECTOR_SIZE * sizeof(double), "a vector has room for a place");
	memcpy(MutableData<double>(result), &place, sizeof(place));
}

using put_place_t = void (*)(ClientContext &, Vector &, Vector &, idx_t);

template <uint64_t... BITS>
put_place_t PutPlaceOf(uint64_t bits, std::integer_sequence<uint64_t, BITS...>) {
	static constexpr put_place_t FUNCTIONS[] = {PutPlace<BITS>...};
	return FUNCTIONS[bits];
}

//! DOUBLE, or a DOUBLE[1] nested so deep
LogicalType StorageType(uint32_t depth) {
	return depth == 0 ? LogicalType::DOUBLE : LogicalType::ARRAY(StorageType(depth - 1), 1);
}

unique_ptr<ArrowType> StorageArrowType(uint32_t depth) {
	if (depth == 0) {
		return make_uniq<ArrowType>(LogicalType::DOUBLE);
	}
	return make_uniq<ArrowType>(StorageType(depth), make_uniq<ArrowArrayInfo>(StorageArrowType(depth - 1), 1));
}

unique_ptr<ArrowType> ColumnArrowType(LogicalType geometry, const GeoArrowType &type) {
	auto below = StorageArrowType(type.Levels());
	below->extension_data = make_shared_ptr<ArrowTypeExtensionData>(
	    LogicalType::DOUBLE, StorageType(type.Levels()),
	    PutPlaceOf(TypeBits(type), std::make_integer_sequence<uint64_t, 16>()), nullptr);
	return make_uniq<ArrowType>(std::move(geometry), make_uniq<ArrowArrayInfo>(std::move(below), 1));
}

//! An array whose shape fits: children and buffers as the type has them
bool TryArray(const ArrowArray &array, int64_t children, int64_t buffers, GeoArrowArray &result) {
	if (array.n_children != children || array.n_buffers != buffers || array.dictionary || !array.buffers) {
		return false;
	}
	result.validity = array.null_count == 0 ? nullptr : static_cast<const uint8_t *>(array.buffers[0]);
	result.data = buffers > 1 ? array.buffers[1] : nullptr;
	result.offset = array.offset;
	result.length = array.length;
	return true;
}

bool TryColumn(const ArrowArray &array, const GeoArrowType &type, GeoArrowColumn &column) {
	column.type = type;
	auto at = &array;
	for (uint32_t level = 0; level < type.Levels(); level++) {
		if (!TryArray(*at, 1, 2, column.list[level])) {
			return false;
		}
		at = at->children[0];
	}
	const auto leaves = type.interleaved ? 1 : type.Width();
	if (!TryArray(*at, leaves, 1, column.vertices)) {
		return false;
	}
	for (uint32_t axis = 0; axis < leaves; axis++) {
		if (!TryArray(*at->children[axis], 0, 2, column.leaf[axis])) {
			return false;
		}
	}
	return true;
}

//! Whether two columns are the same memory from their first rows on
bool IsSame(const GeoArrowColumn &left, int64_t left_first, const GeoArrowColumn &right, int64_t right_first) {
	const auto levels = left.type.Levels();
	for (uint32_t level = 0; level < levels; level++) {
		const auto &a = left.list[level];
		const auto &b = right.list[level];
		const bool is_outer = level == 0;
		if (a.data != b.data || a.offset + (is_outer ? left_first : 0) != b.offset + (is_outer ? right_first : 0)) {
			return false;
		}
	}
	for (uint32_t axis = 0; axis < (left.type.interleaved ? 1 : left.type.Width()); axis++) {
		if (left.leaf[axis].data != right.leaf[axis].data || left.leaf[axis].offset != right.leaf[axis].offset) {
			return false;
		}
	}
	return left.vertices.offset + (levels == 0 ? left_first : 0) ==
	       right.vertices.offset + (levels == 0 ? right_first : 0);
}

struct FoundColumn {
	GeoArrowColumn column;
	int64_t first;
};

//! Every array of the batch in which the place is a row with as many behind it
void FindColumns(const ArrowArray &array, const GeoArrowType &type, const Place &place, int64_t count,
                 vector<FoundColumn> &found) {
	FoundColumn candidate;
	if (TryColumn(array, type, candidate.column)) {
		auto offsets = candidate.column.vertices.offset + candidate.column.leaf[0].offset;
		for (uint32_t level = 0; level < type.Levels(); level++) {
			offsets += candidate.column.list[level].offset;
		}
		const auto bytes =
		    reinterpret_cast<intptr_t>(place.address) - reinterpret_cast<intptr_t>(candidate.column.leaf[0].data);
		candidate.first = bytes / 8 - offsets;
		const auto length = candidate.column.Rows().length;
		if (bytes % 8 == 0 && candidate.first >= 0 && candidate.first <= length && count <= length - candidate.first) {
			bool is_new = true;
			for (auto &other : found) {
				is_new = is_new && !IsSame(candidate.column, candidate.first, other.column, other.first);
			}
			if (is_new) {
				found.push_back(candidate);
			}
		}
	}
	for (int64_t i = 0; i < array.n_children; i++) {
		FindColumns(*array.children[i], type, place, count, found);
	}
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

//! The rows that the result's validity says are there, as strings of the result
void Convert(const FoundColumn &found, Vector &result, idx_t count) {
	auto &column = found.column;
	auto &validity = FlatVector::Validity(result);
	auto strings = MutableData<string_t>(result);
	const auto is_valid = [&](size_t i) { return validity.RowIsValid(i); };
	if (column.type.kind == Kind::POINT) {
		vibespatial::CheckGeoArrowPoints(column, found.first, count, is_valid);
		WkbColumn block(result, count, vibespatial::PointWkbSize(column.type));
		vibespatial::WriteGeoArrowPoints(column, found.first, count, reinterpret_cast<uint8_t *>(block.Data(0)));
		for (idx_t i = 0; i < count; i++) {
			strings[i] = block.Row(i);
		}
		return;
	}
	vector<uint64_t> sizes(count);
	vibespatial::MeasureGeoArrow(column, found.first, count, sizes.data(), is_valid);
	// Memory for many rows at once
	constexpr uint64_t BLOCK = 1 << 20;
	for (idx_t begin = 0; begin < count;) {
		uint64_t bytes = 0;
		auto end = begin;
		for (; end < count && (end == begin || bytes + sizes[end] <= BLOCK); end++) {
			RequireValueSize(sizes[end]);
			bytes += sizes[end];
		}
		// Never short enough for a string_t to hold it by itself
		auto block = StringVector::EmptyString(result, MaxValue<idx_t>(bytes, string_t::INLINE_LENGTH + 1));
		auto out = reinterpret_cast<uint8_t *>(block.GetDataWriteable());
		for (; begin < end; begin++) {
			if (!is_valid(begin)) {
				continue;
			}
			const auto next = vibespatial::WriteGeoArrowWkb(column, found.first + int64_t(begin), out);
			strings[begin] = string_t(reinterpret_cast<const char *>(out), UnsafeNumericCast<uint32_t>(sizes[begin]));
			out = next;
		}
	}
}

//! Whether two columns that are not the same memory hold the same geometries all the same, such as EMPTY ones only
bool HasSameRows(const FoundColumn &left, const FoundColumn &right, const Vector &result, idx_t count) {
	Vector a(result.GetType(), count), b(result.GetType(), count);
	MutableValidity(a).Copy(FlatVector::Validity(result), count);
	MutableValidity(b).Copy(FlatVector::Validity(result), count);
	try {
		Convert(left, a, count);
		Convert(right, b, count);
	} catch (const GeometryError &) {
		return false;
	}
	for (idx_t i = 0; i < count; i++) {
		if (FlatVector::Validity(result).RowIsValid(i) &&
		    FlatVector::GetData<string_t>(a)[i] != FlatVector::GetData<string_t>(b)[i]) {
			return false;
		}
	}
	return true;
}

template <Kind KIND, bool BOX>
void ArrowToGeometry(ClientContext &, Vector &source, Vector &result, idx_t count) {
	if (count == 0) {
		return;
	}
	Place place;
	memcpy(&place, FlatVector::GetData(ArrayChild(source)), sizeof(place));
	GeoArrowType type;
	type.kind = KIND;
	type.box = BOX;
	type.vertex_type = place.type_bits & 3;
	type.interleaved = (place.type_bits & 4) != 0;
	type.large = (place.type_bits & 8) != 0;
	vector<FoundColumn> found;
	if (place.batch) {
		FindColumns(*place.batch, type, place, NumericCast<int64_t>(count), found);
	}
	if (found.empty()) {
		throw InvalidInputException(
		    "GeoArrow: a native column whose lengths do not fit its batch, or whose buffers are not aligned "
		    "to 8 bytes. Copy it, or write it as geoarrow.wkb.");
	}
	try {
		for (idx_t other = 1; other < found.size(); other++) {
			if (!HasSameRows(found[0], found[other], result, count)) {
				throw InvalidInputException(
				    "GeoArrow: two columns of a batch share their coordinates, but not their offsets, and "
				    "cannot be told apart. Copy one of them.");
			}
		}
		Convert(found[0], result, count);
		SetRowCount(result, count);
	} catch (const GeometryError &error) {
		throw InvalidInputException("GeoArrow: %s", error.what());
	}
}

template <Kind KIND, bool BOX>
unique_ptr<ArrowType> NativeArrowType(ClientContext &context, const ArrowSchema &schema,
                                      const ArrowSchemaMetadata &metadata) {
	const auto name = metadata.GetOption(ArrowSchemaMetadata::ARROW_EXTENSION_NAME);
	const auto type = BOX ? BoxType(name, schema) : NativeType(name, KIND, schema);
	return ColumnArrowType(GeometryOf(context, schema, metadata), type);
}

//===----------------------------------------------------------------------===//
// Well-known text
//===----------------------------------------------------------------------===//

unique_ptr<ArrowType> TextArrowType(ClientContext &context, const ArrowSchema &schema,
                                    const ArrowSchemaMetadata &metadata) {
	const auto format = Format(schema);
	ArrowVariableSizeType size;
	if (format == "u") {
		size = ArrowVariableSizeType::NORMAL;
	} else if (format == "U") {
		size = ArrowVariableSizeType::SUPER_SIZE;
	} else if (format == "vu") {
		size = ArrowVariableSizeType::VIEW;
	} else {
		RefuseSchema("geoarrow.wkt", "strings are expected, not format '" + format + "'");
	}
	return make_uniq<ArrowType>(GeometryOf(context, schema, metadata), make_uniq<ArrowStringInfo>(size));
}

void TextToGeometry(ClientContext &, Vector &source, Vector &result, idx_t count) {
	auto texts = FlatVector::GetData<string_t>(source);
	auto strings = MutableData<string_t>(result);
	auto &validity = FlatVector::Validity(result);
	for (idx_t i = 0; i < count; i++) {
		if (validity.RowIsValid(i)) {
			Geometry::FromString(texts[i], strings[i], result, true);
		}
	}
	SetRowCount(result, count);
}

//! Registers one name, unless another extension has it
void RegisterType(const DBConfig &config, const char *name, get_type_t get_type,
                  shared_ptr<ArrowTypeExtensionData> data) {
	if (config.HasArrowExtension(ArrowExtensionMetadata(name, "", "", ""))) {
		return;
	}
	// DuckDB takes the first extension type of a GEOMETRY for results, which is its own geoarrow.wkb
	config.RegisterArrowExtension(ArrowTypeExtension(name, nullptr, get_type, std::move(data)));
}

template <Kind KIND, bool BOX>
void RegisterNative(const DBConfig &config, const char *name) {
	RegisterType(config, name, NativeArrowType<KIND, BOX>,
	             make_shared_ptr<ArrowTypeExtensionData>(LogicalType::GEOMETRY(), StorageType(1),
	                                                     ArrowToGeometry<KIND, BOX>, nullptr));
}

} // namespace

void RegisterGeoArrowInput(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	RegisterNative<Kind::POINT, false>(config, "geoarrow.point");
	RegisterNative<Kind::LINESTRING, false>(config, "geoarrow.linestring");
	RegisterNative<Kind::POLYGON, false>(config, "geoarrow.polygon");
	RegisterNative<Kind::MULTIPOINT, false>(config, "geoarrow.multipoint");
	RegisterNative<Kind::MULTILINESTRING, false>(config, "geoarrow.multilinestring");
	RegisterNative<Kind::MULTIPOLYGON, false>(config, "geoarrow.multipolygon");
	RegisterNative<Kind::POLYGON, true>(config, "geoarrow.box");
	RegisterType(config, "geoarrow.wkt", TextArrowType,
	             make_shared_ptr<ArrowTypeExtensionData>(LogicalType::GEOMETRY(), LogicalType::VARCHAR, TextToGeometry,
	                                                     nullptr));
}

} // namespace duckdb
