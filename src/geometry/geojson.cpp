#include "geometry/geojson.hpp"

#include "geometry/error.hpp"
#include "geometry/json.hpp"
#include "geometry/number.hpp"
#include "geometry/wkb.hpp"

#include <algorithm>
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

} // namespace

void ReadGeoJson(const char *text, size_t size, GeometryBatch &batch) {
	// No node, ring or vertex takes less than 2 characters
	batch.RequireRoom(size / 2);
	const JsonTree tree(text, size);
	const auto mark = batch.GetMark();
	try {
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

class GeoJsonWriter {
public:
	GeoJsonWriter(const GeometryBatch &batch, size_t row)
	    : batch(batch), has_z(batch.vertex_type[row] & VERTEX_Z), node(batch.row_node[row]), part(batch.row_part[row]) {
	}

	std::string Write() {
		Geometry();
		return std::move(out);
	}

private:
	//! The geometry at `node`, which moves on past it
	void Geometry() {
		const auto type = batch.node_type[node];
		const auto children = batch.node_children[node];
		out += "{\"type\":\"";
		out += TYPE_NAMES[static_cast<uint8_t>(type)];
		if (type == GeometryType::GEOMETRYCOLLECTION) {
			node++;
			out += "\",\"geometries\":";
			List(0, children, [&](uint32_t) { Geometry(); });
		} else {
			out += "\",\"coordinates\":";
			if (IsLeaf(type)) {
				node++;
				Coordinates(type);
			} else {
				node += 1 + children;
				Members(static_cast<GeometryType>(static_cast<uint8_t>(type) - 3), children);
			}
		}
		out.push_back('}');
	}

	void Members(GeometryType type, uint32_t count) {
		out.push_back('[');
		bool first = true;
		for (uint32_t i = 0; i < count; i++) {
			if (type == GeometryType::POINT && VertexBegin(part) == VertexEnd(part)) {
				part++;
				continue;
			}
			if (!first) {
				out.push_back(',');
			}
			first = false;
			Coordinates(type);
		}
		out.push_back(']');
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
			out += "[]";
		} else {
			Position(VertexBegin(current));
		}
	}

	void Positions(uint32_t begin, uint32_t end) {
		List(begin, end, [&](uint32_t i) { Position(i); });
	}

	void Position(uint32_t i) {
		poll();
		held.Reach(out.capacity());
		out.push_back('[');
		Number(batch.x[i]);
		out.push_back(',');
		Number(batch.y[i]);
		if (has_z) {
			out.push_back(',');
			Number(batch.z[i]);
		}
		out.push_back(']');
	}

	void Number(double value) {
		if (!vibe::IsFinite(value)) {
			throw GeometryError("a coordinate is NaN or infinite, and GeoJSON has no number for it");
		}
		AppendJsonNumber(value, out);
	}

	template <class ELEMENT>
	void List(uint32_t begin, uint32_t end, ELEMENT element) {
		out.push_back('[');
		for (auto i = begin; i < end; i++) {
			if (i > begin) {
				out.push_back(',');
			}
			element(i);
		}
		out.push_back(']');
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
	std::string out;
	HeldMemory held;
	Poll poll;
};

} // namespace

std::string WriteGeoJson(const GeometryBatch &batch, size_t row) {
	if (!batch.valid[row]) {
		throw GeometryError("NULL has no GeoJSON");
	}
	return GeoJsonWriter(batch, row).Write();
}

} // namespace vibespatial
