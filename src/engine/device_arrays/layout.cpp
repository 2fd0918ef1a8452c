#include "engine/device_arrays/layout.hpp"

#include <cstdlib>
#include <cstring>

namespace vibespatial {

namespace {

constexpr const char *EXTENSION_NAME = "ARROW:extension:name";
constexpr const char *WKB_NAME = "geoarrow.wkb";

using Kind = ArrowLayout::Kind;

//! Bytes of a value of fixed size; 0 for all else
uint64_t FixedWidth(const std::string &format) {
	static const std::pair<const char *, uint64_t> WIDTHS[] = {
	    {"c", 1},   {"C", 1},   {"s", 2},   {"S", 2},   {"e", 2},   {"i", 4},   {"I", 4},   {"f", 4},
	    {"l", 8},   {"L", 8},   {"g", 8},   {"tdD", 4}, {"tdm", 8}, {"tts", 4}, {"ttm", 4}, {"ttu", 8},
	    {"ttn", 8}, {"tDs", 8}, {"tDm", 8}, {"tDu", 8}, {"tDn", 8}, {"tiM", 4}, {"tiD", 8}, {"tin", 16}};
	for (auto &entry : WIDTHS) {
		if (format == entry.first) {
			return entry.second;
		}
	}
	if (format.compare(0, 2, "ts") == 0 && format.size() >= 4 && format[3] == ':') {
		return 8;
	}
	if (format.compare(0, 2, "w:") == 0) {
		return std::strtoull(format.c_str() + 2, nullptr, 10);
	}
	if (format.compare(0, 2, "d:") == 0) {
		// d:precision,scale or d:precision,scale,bits
		const auto scale = format.find(',');
		const auto bits = scale == std::string::npos ? scale : format.find(',', scale + 1);
		return bits == std::string::npos ? 16 : std::strtoull(format.c_str() + bits + 1, nullptr, 10) / 8;
	}
	return 0;
}

std::vector<std::pair<std::string, std::string>> ReadMetadata(const char *at) {
	std::vector<std::pair<std::string, std::string>> result;
	const auto number = [&] {
		int32_t value = 0;
		std::memcpy(&value, at, sizeof(value));
		at += sizeof(value);
		return value;
	};
	const auto text = [&] {
		const auto size = number();
		std::string value(at, static_cast<size_t>(size));
		at += size;
		return value;
	};
	for (auto left = at ? number() : 0; left > 0; left--) {
		auto key = text();
		result.emplace_back(std::move(key), text());
	}
	return result;
}

[[noreturn]] void Refuse(const std::string &path, const std::string &what, const std::string &cure) {
	throw DeviceArrayError("column \"" + path + "\" is " + what + ", which has no place on the GPU: " + cure);
}

Kind ReadKind(const ArrowSchema &schema, const std::string &path, ArrowLayout &layout) {
	const auto &format = layout.format;
	if (schema.dictionary) {
		Refuse(path, "an ENUM or another dictionary", "cast it to VARCHAR");
	}
	if (format == "n") {
		return Kind::NOTHING;
	}
	if (format == "b") {
		return Kind::BITS;
	}
	if (format == "u" || format == "z" || format == "U" || format == "Z") {
		layout.is_large = format == "U" || format == "Z";
		return Kind::BYTES;
	}
	if (format == "+l" || format == "+L" || format == "+m") {
		layout.is_large = format == "+L";
		return Kind::LIST;
	}
	if (format == "+s") {
		return Kind::STRUCT;
	}
	if (format.compare(0, 3, "+w:") == 0) {
		layout.width = std::strtoull(format.c_str() + 3, nullptr, 10);
		return Kind::FIXED_LIST;
	}
	layout.width = FixedWidth(format);
	if (layout.width > 0) {
		return Kind::FIXED;
	}
	if (format == "vu" || format == "vz" || format == "+vl" || format == "+vL") {
		Refuse(path, "a view (Arrow format " + format + ")",
		       "SET produce_arrow_string_view = false, and arrow_output_list_view = false");
	}
	Refuse(path, "of a type with Arrow format " + format, "leave it out, or cast it to another type");
}

} // namespace

ArrowLayout ArrowLayout::Read(const ArrowSchema &schema, const std::string &path) {
	ArrowLayout layout;
	layout.format = schema.format;
	layout.name = schema.name ? schema.name : "";
	layout.flags = schema.flags;
	layout.metadata = ReadMetadata(schema.metadata);
	layout.kind = ReadKind(schema, path, layout);
	for (int64_t i = 0; i < schema.n_children; i++) {
		const auto &child = *schema.children[i];
		layout.children.push_back(Read(child, path.empty() ? (child.name ? child.name : "") : path));
	}
	return layout;
}

bool ArrowLayout::IsWkb() const {
	for (auto &entry : metadata) {
		if (entry.first == EXTENSION_NAME && entry.second == WKB_NAME) {
			return kind == Kind::BYTES;
		}
	}
	return false;
}

ArrowLayout ArrowLayout::Native(const GeoArrowType &type) const {
	static const char *const KINDS[] = {"",           "point",           "linestring",  "polygon",
	                                    "multipoint", "multilinestring", "multipolygon"};
	static const char *const AXES[] = {"xy", "xyz", "xym", "xyzm"};
	ArrowLayout vertices;
	vertices.kind = Kind::STRUCT;
	vertices.format = "+s";
	for (auto *axis = AXES[type.vertex_type]; *axis; axis++) {
		ArrowLayout ordinate;
		ordinate.kind = Kind::FIXED;
		ordinate.format = "g";
		ordinate.width = sizeof(double);
		ordinate.name = std::string(1, *axis);
		vertices.children.push_back(std::move(ordinate));
	}
	const auto levels = type.Levels();
	// The names that GeoArrow recommends, from the vertices upwards
	const char *parts = type.kind == GeometryType::MULTIPOINT ? "points" : "vertices";
	const char *lists = type.kind == GeometryType::MULTILINESTRING ? "linestrings" : "rings";
	const char *const names[] = {parts, lists, "polygons"};
	auto result = std::move(vertices);
	for (auto level = levels; level > 0; level--) {
		ArrowLayout list;
		list.kind = Kind::LIST;
		list.format = "+l";
		result.name = names[levels - level];
		list.children.push_back(std::move(result));
		result = std::move(list);
	}
	result.name = name;
	result.flags = flags;
	result.metadata = metadata;
	for (auto &entry : result.metadata) {
		if (entry.first == EXTENSION_NAME) {
			entry.second = std::string("geoarrow.") + KINDS[static_cast<uint8_t>(type.kind)];
		}
	}
	return result;
}

std::string ArrowLayout::MetadataBytes() const {
	std::string bytes;
	const auto number = [&](size_t value) {
		const auto narrow = static_cast<int32_t>(value);
		bytes.append(reinterpret_cast<const char *>(&narrow), sizeof(narrow));
	};
	if (metadata.empty()) {
		return bytes;
	}
	number(metadata.size());
	for (auto &entry : metadata) {
		number(entry.first.size());
		bytes += entry.first;
		number(entry.second.size());
		bytes += entry.second;
	}
	return bytes;
}

} // namespace vibespatial
