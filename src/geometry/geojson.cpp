#include "geometry/geojson.hpp"

#include "geometry/error.hpp"
#include "geometry/json.hpp"
#include "geometry/number.hpp"
#include "geometry/wkb_visit.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

namespace vibespatial {

static const char *const TYPE_NAMES[] = {nullptr,      "Point",           "LineString",   "Polygon",
                                         "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"};

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//
namespace {

class GeoJsonReader {
public:
	GeoJsonReader(const JsonTree &tree, GeometryBatch &batch) : tree(tree), batch(batch) {
	}

	void Read() {
		const auto before = batch.GetMark();
		// Whether there is a Z shows at the last vertex: all get one, and a row without takes them back
		batch.BeginRow(TypeOf(tree.Root()), VERTEX_Z);
		Geometry(tree.Root(), 0);
		batch.EndRow();
		if (!has_z) {
			DropZ(before);
		}
	}

private:
	[[noreturn]] static void Fail(const std::string &problem) {
		throw GeometryError("not a GeoJSON geometry: " + problem);
	}

	GeometryType TypeOf(const JsonValue &value) const {
		if (value.kind != JsonKind::OBJECT) {
			Fail("an object expected");
		}
		const auto name = tree.Find(value, "type");
		if (!name) {
			Fail("it has no member \"type\"");
		}
		if (name->kind != JsonKind::STRING) {
			Fail("\"type\" is not a string");
		}
		for (uint8_t code = 1; code <= static_cast<uint8_t>(GeometryType::GEOMETRYCOLLECTION); code++) {
			if (JsonTree::Equals(*name, TYPE_NAMES[code])) {
				return static_cast<GeometryType>(code);
			}
		}
		if (JsonTree::Equals(*name, "Feature") || JsonTree::Equals(*name, "FeatureCollection")) {
			Fail("it is a " + std::string(name->text, name->length) + "; give the \"geometry\" member of a feature");
		}
		constexpr size_t SHOWN = 40;
		Fail("unknown type \"" + std::string(name->text, std::min<size_t>(name->length, SHOWN)) + "\"");
	}

	const JsonValue &ArrayMember(const JsonValue &object, const char *name) const {
		const auto value = tree.Find(object, name);
		if (!value) {
			Fail(std::string("it has no member \"") + name + "\"");
		}
		if (value->kind != JsonKind::ARRAY) {
			Fail(std::string("\"") + name + "\" is not an array");
		}
		return *value;
	}

	void Geometry(const JsonValue &value, uint32_t depth) {
		if (depth == WKB_MAX_DEPTH) {
			Fail("collections nest more than " + std::to_string(WKB_MAX_DEPTH) + " deep");
		}
		const auto type = TypeOf(value);
		if (type == GeometryType::GEOMETRYCOLLECTION) {
			const auto &members = ArrayMember(value, "geometries");
			batch.BeginNode(type, members.count);
			for (auto member = tree.First(members); member; member = tree.Next(*member)) {
				Geometry(*member, depth + 1);
			}
			return;
		}
		const auto &coordinates = ArrayMember(value, "coordinates");
		if (IsLeaf(type)) {
			Leaf(type, coordinates);
			return;
		}
		const auto member_type = static_cast<GeometryType>(static_cast<uint8_t>(type) - 3);
		batch.BeginNode(type, coordinates.count);
		for (auto member = tree.First(coordinates); member; member = tree.Next(*member)) {
			RequireArray(*member);
			if (member_type == GeometryType::POINT && member->count == 0) {
				FailPosition();
			}
			Leaf(member_type, *member);
		}
	}

	void Leaf(GeometryType type, const JsonValue &coordinates) {
		batch.BeginNode(type, 0);
		batch.BeginPart(FamilyOf(type));
		if (type == GeometryType::POLYGON) {
			for (auto ring = tree.First(coordinates); ring; ring = tree.Next(*ring)) {
				RequireArray(*ring);
				batch.BeginRing();
				Positions(*ring);
			}
		} else if (coordinates.count > 0) {
			batch.BeginRing();
			if (type == GeometryType::POINT) {
				Position(coordinates);
			} else {
				Positions(coordinates);
			}
		}
	}

	void Positions(const JsonValue &array) {
		for (auto position = tree.First(array); position; position = tree.Next(*position)) {
			RequireArray(*position);
			Position(*position);
		}
	}

	void Position(const JsonValue &array) {
		double axes[3] = {0, 0, 0};
		size_t axis = 0;
		for (auto number = tree.First(array); number; number = tree.Next(*number), axis++) {
			if (number->kind != JsonKind::NUMBER) {
				Fail("a position holds something other than numbers");
			}
			if (axis < 3) {
				axes[axis] = number->number;
			}
		}
		if (axis < 2) {
			FailPosition();
		}
		poll();
		has_z |= axis > 2;
		batch.AddVertex(axes[0], axes[1], axes[2], 0);
	}

	static void RequireArray(const JsonValue &value) {
		if (value.kind != JsonKind::ARRAY) {
			Fail("\"coordinates\" holds something other than an array where one is expected");
		}
	}

	[[noreturn]] static void FailPosition() {
		Fail("a position has fewer than 2 numbers");
	}

	void DropZ(const GeometryBatch::Mark &before) {
		batch.vertex_type.back() = VERTEX_XY;
		if (before.z == 0) {
			batch.z.clear();
		} else {
			std::fill(batch.z.begin() + before.z, batch.z.end(), std::numeric_limits<double>::quiet_NaN());
		}
	}

	const JsonTree &tree;
	GeometryBatch &batch;
	bool has_z = false;
	Poll poll;
};

//! Reads what most writers write, {"type":..,"coordinates":..}, in one pass and without a tree. It stops at anything else, an
//! error included, and leaves that to GeoJsonReader.
class PlainGeoJsonReader {
public:
	PlainGeoJsonReader(const char *text, size_t size, GeometryBatch &batch)
	    : pos(text), end(text + size), batch(batch) {
	}

	//! False, with a row begun, for anything else
	bool Read() {
		SkipSpace();
		GeometryType type;
		if (!Take('{') || !TakeWord("\"type\"") || !Take(':') || !TakeType(type) || !Take(',') ||
		    !TakeWord("\"coordinates\"") || !Take(':')) {
			return false;
		}
		batch.BeginRow(type, VERTEX_XY);
		if (!(IsLeaf(type) ? Leaf(type) : Members(type)) || !Take('}') || pos != end) {
			return false;
		}
		batch.EndRow();
		return true;
	}

private:
	void SkipSpace() {
		// Most is no space: one comparison
		while (pos < end && *pos <= ' ' && (*pos == ' ' || *pos == '\n' || *pos == '\r' || *pos == '\t')) {
			pos++;
		}
	}
	//! The character, and the space after it
	bool Take(char c) {
		if (pos == end || *pos != c) {
			return false;
		}
		pos++;
		SkipSpace();
		return true;
	}
	template <size_t SIZE>
	bool TakeWord(const char (&word)[SIZE]) {
		if (size_t(end - pos) < SIZE - 1 || std::memcmp(pos, word, SIZE - 1) != 0) {
			return false;
		}
		pos += SIZE - 1;
		SkipSpace();
		return true;
	}
	bool TakeType(GeometryType &type) {
		if (pos == end || *pos != '"') {
			return false;
		}
		const auto first = pos + 1;
		const auto last = static_cast<const char *>(std::memchr(first, '"', end - first));
		for (auto code = static_cast<uint8_t>(GeometryType::POINT);
		     last && code < static_cast<uint8_t>(GeometryType::GEOMETRYCOLLECTION); code++) {
			if (std::strlen(TYPE_NAMES[code]) == size_t(last - first) &&
			    std::memcmp(TYPE_NAMES[code], first, last - first) == 0) {
				type = static_cast<GeometryType>(code);
				pos = last + 1;
				SkipSpace();
				return true;
			}
		}
		return false;
	}

	//! The elements of an array; `element` reads one and the space after it
	template <class ELEMENT>
	bool Array(const ELEMENT &element) {
		if (!Take('[')) {
			return false;
		}
		if (Take(']')) {
			return true;
		}
		do {
			if (!element()) {
				return false;
			}
		} while (Take(','));
		return Take(']');
	}

	bool Members(GeometryType type) {
		const auto member_type = static_cast<GeometryType>(static_cast<uint8_t>(type) - 3);
		const auto node = batch.node_children.size();
		batch.BeginNode(type, 0);
		return Array([&]() {
			batch.node_children[node]++;
			// A member that is no position is an error
			const auto vertices = batch.x.size();
			return Leaf(member_type) && (member_type != GeometryType::POINT || batch.x.size() > vertices);
		});
	}

	bool Leaf(GeometryType type) {
		batch.BeginNode(type, 0);
		batch.BeginPart(FamilyOf(type));
		if (type == GeometryType::POLYGON) {
			return Array([&]() {
				batch.BeginRing();
				return Positions();
			});
		}
		const auto before = pos;
		if (Take('[') && Take(']')) {
			return true;
		}
		pos = before;
		batch.BeginRing();
		return type == GeometryType::POINT ? Position() : Positions();
	}

	bool Positions() {
		return Array([&]() { return Position(); });
	}

	bool Position() {
		poll();
		double axes[3];
		size_t count = 0;
		if (!Take('[')) {
			return false;
		}
		do {
			if (count == 3 || !Number(axes[count++])) {
				return false;
			}
		} while (Take(','));
		if (count < 2 || !Take(']')) {
			return false;
		}
		// The first vertex decides for all
		if (count != width) {
			if (width != 0) {
				return false;
			}
			width = count;
			if (count == 3) {
				batch.vertex_type.back() = VERTEX_Z;
				batch.z.resize(batch.x.size(), std::numeric_limits<double>::quiet_NaN());
			}
		}
		batch.AddVertex(axes[0], axes[1], count == 3 ? axes[2] : 0, 0);
		return true;
	}

	//! Digits are added to `mantissa`, which holds 19 of them
	bool Digits(uint64_t &mantissa) {
		const auto first = pos;
		for (; pos < end && static_cast<unsigned char>(*pos - '0') < 10; pos++) {
			mantissa = mantissa * 10 + static_cast<unsigned char>(*pos - '0');
		}
		return pos > first;
	}

	bool Number(double &number) {
		static constexpr double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
		                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
		constexpr ptrdiff_t MOST_DIGITS = 19;
		constexpr uint64_t MOST_EXACT = uint64_t(1) << 53;
		const auto first = pos;
		const bool negative = pos < end && *pos == '-';
		pos += negative;
		const auto digits = pos;
		const bool zero = pos < end && *pos == '0';
		uint64_t mantissa = 0;
		if (!Digits(mantissa) || (zero && pos - digits > 1)) {
			return false;
		}
		const bool fraction = pos < end && *pos == '.';
		pos += fraction;
		const auto places_from = pos;
		if (fraction && !Digits(mantissa)) {
			return false;
		}
		const auto places = pos - places_from;
		if (pos < end && (*pos == 'e' || *pos == 'E')) {
			pos++;
			pos += pos < end && (*pos == '-' || *pos == '+');
			uint64_t ignored = 0;
			if (!Digits(ignored)) {
				return false;
			}
		} else if (pos - digits - fraction <= MOST_DIGITS && mantissa <= MOST_EXACT && places < MOST_DIGITS) {
			// Both are exact, so that the quotient is rounded once
			number = static_cast<double>(mantissa) / POWERS[places];
			// An integer has no negative zero
			number = negative && (fraction || mantissa != 0) ? -number : number;
			SkipSpace();
			return true;
		}
		if (std::from_chars(first, pos, number).ec != std::errc()) {
			return false;
		}
		SkipSpace();
		return true;
	}

	const char *pos;
	const char *end;
	GeometryBatch &batch;
	//! Numbers of a position; 0 before the first
	size_t width = 0;
	Poll poll;
};

} // namespace

void ReadGeoJson(const char *text, size_t size, GeometryBatch &batch) {
	// No node, ring or vertex takes less than 2 characters
	batch.RequireRoom(size / 2);
	const auto mark = batch.GetMark();
	try {
		if (PlainGeoJsonReader(text, size, batch).Read()) {
			return;
		}
		batch.Rollback(mark);
		const JsonTree tree(text, size);
		GeoJsonReader(tree, batch).Read();
	} catch (...) {
		batch.Rollback(mark);
		throw;
	}
}

//===----------------------------------------------------------------------===//
// Writer
//===----------------------------------------------------------------------===//
namespace {

//! Text in memory that grows
class GeoJsonText {
protected:
	explicit GeoJsonText(CountedVector<char> &text) : text(text), out(text.data()), end(out + text.size()) {
	}

	std::string_view Text() const {
		return std::string_view(text.data(), out - text.data());
	}
	void Put(char c) {
		Reserve(1);
		*out++ = c;
	}
	void Put(const char *word) {
		const auto length = std::strlen(word);
		Reserve(length);
		std::memcpy(out, word, length);
		out += length;
	}
	void Begin(GeometryType type) {
		Put("{\"type\":\"");
		Put(TYPE_NAMES[static_cast<uint8_t>(type)]);
		Put(type == GeometryType::GEOMETRYCOLLECTION ? "\",\"geometries\":" : "\",\"coordinates\":");
	}
	void Position(double x, double y, const double *z) {
		poll();
		Reserve(3 * (JSON_NUMBER_CHARS + 1) + 1);
		*out++ = '[';
		Number(x);
		*out++ = ',';
		Number(y);
		if (z) {
			*out++ = ',';
			Number(*z);
		}
		*out++ = ']';
	}

private:
	void Number(double value) {
		if (!vibe::IsFinite(value)) {
			throw GeometryError("a coordinate is NaN or infinite, and GeoJSON has no number for it");
		}
		out = WriteJsonNumber(value, out);
	}
	void Reserve(size_t chars) {
		if (size_t(end - out) < chars) {
			const auto size = size_t(out - text.data());
			text.resize(std::max(2 * text.size(), size + chars));
			out = text.data() + size;
			end = text.data() + text.size();
		}
	}

	CountedVector<char> &text;
	char *out;
	char *end;
	Poll poll;
};

class GeoJsonWriter : private GeoJsonText {
public:
	GeoJsonWriter(const GeometryBatch &batch, size_t row, CountedVector<char> &text)
	    : GeoJsonText(text), batch(batch), has_z(batch.vertex_type[row] & VERTEX_Z), node(batch.row_node[row]),
	      part(batch.row_part[row]) {
	}

	std::string_view Write() {
		Geometry();
		return Text();
	}

private:
	//! The geometry at `node`, which moves on past it
	void Geometry() {
		const auto type = batch.node_type[node];
		const auto children = batch.node_children[node];
		Begin(type);
		if (type == GeometryType::GEOMETRYCOLLECTION) {
			node++;
			List(0, children, [&](uint32_t) { Geometry(); });
		} else {
			if (IsLeaf(type)) {
				node++;
				Coordinates(type);
			} else {
				node += 1 + children;
				Members(static_cast<GeometryType>(static_cast<uint8_t>(type) - 3), children);
			}
		}
		Put('}');
	}

	void Members(GeometryType type, uint32_t count) {
		Put('[');
		bool first = true;
		for (uint32_t i = 0; i < count; i++) {
			if (type == GeometryType::POINT && VertexBegin(part) == VertexEnd(part)) {
				part++;
				continue;
			}
			if (!first) {
				Put(',');
			}
			first = false;
			Coordinates(type);
		}
		Put(']');
	}

	//! The coordinates of the leaf at `part`, which moves on past it
	void Coordinates(GeometryType type) {
		const auto current = part++;
		if (type == GeometryType::POLYGON) {
			List(batch.part_ring[current], batch.part_ring[current + 1],
			     [&](uint32_t ring) { Positions(batch.ring_start[ring], batch.ring_start[ring + 1]); });
		} else if (type == GeometryType::LINESTRING) {
			Positions(VertexBegin(current), VertexEnd(current));
		} else if (VertexBegin(current) == VertexEnd(current)) {
			Put("[]");
		} else {
			Position(VertexBegin(current));
		}
	}

	void Positions(uint32_t begin, uint32_t end) {
		List(begin, end, [&](uint32_t i) { Position(i); });
	}

	void Position(uint32_t i) {
		GeoJsonText::Position(batch.x[i], batch.y[i], has_z ? &batch.z[i] : nullptr);
	}

	template <class ELEMENT>
	void List(uint32_t begin, uint32_t end, ELEMENT element) {
		Put('[');
		for (auto i = begin; i < end; i++) {
			if (i > begin) {
				Put(',');
			}
			element(i);
		}
		Put(']');
	}

	uint32_t VertexBegin(uint32_t p) const {
		return batch.ring_start[batch.part_ring[p]];
	}
	uint32_t VertexEnd(uint32_t p) const {
		return batch.ring_start[batch.part_ring[p + 1]];
	}

	const GeometryBatch &batch;
	const bool has_z;
	uint32_t node;
	uint32_t part;
};

//! Writes a point, a line or a polygon straight from its bytes, which are walked
class GeoJsonLeafWriter : private GeoJsonText {
public:
	explicit GeoJsonLeafWriter(CountedVector<char> &text) : GeoJsonText(text) {
	}

	std::string_view Write(const uint8_t *wkb, size_t size) {
		WalkWkb(wkb, size, *this);
		// EMPTY has no ring
		Put(rings == 0 ? "[]}" : type == GeometryType::POLYGON ? "]}" : "}");
		return Text();
	}

	void Row(WkbHeader header) {
		type = header.type;
		has_z = header.vertex_type & VERTEX_Z;
		Begin(type);
	}
	void Node(GeometryType, uint32_t) {
	}
	void Part(vibe::Family) {
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		if (type == GeometryType::POLYGON) {
			Put(rings == 0 ? '[' : ',');
		}
		rings++;
		if (type == GeometryType::POINT) {
			Vertex(coords);
			return;
		}
		Put('[');
		for (uint32_t i = 0; i < count; i++, coords += stride) {
			if (i > 0) {
				Put(',');
			}
			Vertex(coords);
		}
		Put(']');
	}

private:
	void Vertex(const uint8_t *coords) {
		const double z = has_z ? LoadDouble(coords + 2 * sizeof(double)) : 0;
		Position(LoadDouble(coords), LoadDouble(coords + sizeof(double)), has_z ? &z : nullptr);
	}

	GeometryType type = GeometryType::INVALID;
	bool has_z = false;
	uint32_t rings = 0;
};

} // namespace

std::string_view WriteGeoJson(const GeometryBatch &batch, size_t row, CountedVector<char> &text) {
	if (!batch.valid[row]) {
		throw GeometryError("NULL has no GeoJSON");
	}
	return GeoJsonWriter(batch, row, text).Write();
}

std::string_view WriteGeoJson(const uint8_t *wkb, size_t size, GeometryBatch &scratch, CountedVector<char> &text) {
	if (IsLeaf(ReadWkbHeader(wkb, size).type)) {
		return GeoJsonLeafWriter(text).Write(wkb, size);
	}
	scratch.Clear();
	ReadWkb(wkb, size, scratch);
	return WriteGeoJson(scratch, 0, text);
}

std::string WriteGeoJson(const GeometryBatch &batch, size_t row) {
	CountedVector<char> text;
	return std::string(WriteGeoJson(batch, row, text));
}

} // namespace vibespatial
