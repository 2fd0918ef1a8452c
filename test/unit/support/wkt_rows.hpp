//===----------------------------------------------------------------------===//
// wkt_rows.hpp
//
// Geometries as well-known text, so that tests read like SQL. Takes what these tests write: upper case, Z, M and ZM
// after the type, EMPTY, members of a MULTIPOINT with or without brackets.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"
#include "geometry/number.hpp"

#include <cctype>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace wkt_test {

using vibespatial::GeometryBatch;
using vibespatial::GeometryType;

constexpr const char *NAMES[] = {"",           "POINT",           "LINESTRING",   "POLYGON",
                                 "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"};

class WktReader {
public:
	WktReader(const std::string &text_p, GeometryBatch &batch_p) : text(text_p), batch(batch_p) {
	}

	void Row() {
		const auto start = at;
		const auto type = Type();
		batch.BeginRow(type, vertex_type);
		at = start;
		Geometry();
		batch.EndRow();
	}

private:
	void Blanks() {
		while (at < text.size() && text[at] == ' ') {
			at++;
		}
	}
	bool Take(char c) {
		Blanks();
		if (at < text.size() && text[at] == c) {
			at++;
			return true;
		}
		return false;
	}
	void Need(char c) {
		if (!Take(c)) {
			throw std::runtime_error("test text: " + text);
		}
	}
	std::string Word() {
		Blanks();
		std::string word;
		while (at < text.size() && std::isalpha(text[at])) {
			word += text[at++];
		}
		return word;
	}
	bool TakeWord(const char *wanted) {
		const auto start = at;
		if (Word() == wanted) {
			return true;
		}
		at = start;
		return false;
	}
	GeometryType Type() {
		const auto word = Word();
		for (uint8_t code = 1; code < 8; code++) {
			if (word == NAMES[code]) {
				vertex_type = TakeWord("ZM") ? 3 : TakeWord("M") ? 2 : TakeWord("Z") ? 1 : 0;
				return GeometryType(code);
			}
		}
		throw std::runtime_error("test text: " + text);
	}
	//! Members of the list that starts here
	uint32_t Members() const {
		uint32_t members = 1;
		int depth = 0;
		for (auto i = at; i < text.size() && depth >= 0; i++) {
			depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
			members += depth == 0 && text[i] == ',';
		}
		return members;
	}
	void Geometry() {
		const auto type = Type();
		if (IsLeaf(type)) {
			Leaf(type);
			return;
		}
		if (TakeWord("EMPTY")) {
			batch.BeginNode(type, 0);
			return;
		}
		Need('(');
		batch.BeginNode(type, Members());
		do {
			if (type == GeometryType::GEOMETRYCOLLECTION) {
				Geometry();
			} else {
				Leaf(GeometryType(uint8_t(type) - 3));
			}
		} while (Take(','));
		Need(')');
	}
	void Leaf(GeometryType type) {
		batch.BeginNode(type, 0);
		batch.BeginPart(vibespatial::FamilyOf(type));
		if (TakeWord("EMPTY")) {
			return;
		}
		if (type == GeometryType::POINT) {
			const bool bracket = Take('(');
			batch.BeginRing();
			Vertex();
			if (bracket) {
				Need(')');
			}
			return;
		}
		if (type == GeometryType::LINESTRING) {
			Ring();
			return;
		}
		Need('(');
		do {
			Ring();
		} while (Take(','));
		Need(')');
	}
	void Ring() {
		batch.BeginRing();
		if (TakeWord("EMPTY")) {
			return;
		}
		Need('(');
		do {
			Vertex();
		} while (Take(','));
		Need(')');
	}
	void Vertex() {
		double v[4] = {0, 0, 0, 0};
		for (size_t i = 0; i < vibespatial::VertexWidth(vertex_type); i++) {
			char *end;
			v[i] = std::strtod(text.c_str() + at, &end);
			at = end - text.c_str();
		}
		batch.AddVertex(v[0], v[1], v[2], vertex_type == 2 ? v[2] : v[3]);
	}

	const std::string text;
	GeometryBatch &batch;
	size_t at = 0;
	uint8_t vertex_type = 0;
};

//! Appends a row
inline void ReadWkt(const std::string &text, GeometryBatch &batch) {
	WktReader(text, batch).Row();
}

//! One row, with other rows before and after it, so that offsets count
struct WktRow {
	GeometryBatch batch;
	static constexpr size_t ROW = 1;

	explicit WktRow(const std::string &text) {
		ReadWkt("POLYGON ((7 7, 9 7, 9 9, 7 7), (8 8, 8 8, 8 8, 8 8))", batch);
		ReadWkt(text, batch);
		ReadWkt("GEOMETRYCOLLECTION (LINESTRING (3 1, 1 3), POINT (1 1))", batch);
	}
};

class WktWriter {
public:
	WktWriter(const GeometryBatch &batch_p, size_t row)
	    : batch(batch_p), vertex_type(batch_p.vertex_type[row]), node(batch_p.row_node[row]),
	      part(batch_p.row_part[row]) {
	}

	std::string Geometry() {
		static constexpr const char *AXES[] = {"", " Z", " M", " ZM"};
		const auto type = batch.node_type[node];
		return std::string(NAMES[uint8_t(type)]) + AXES[vertex_type] + " " + Body(type);
	}

private:
	std::string Body(GeometryType type) {
		const auto members = batch.node_children[node++];
		std::string body;
		if (IsLeaf(type)) {
			const auto p = part++;
			for (auto ring = batch.part_ring[p]; ring < batch.part_ring[p + 1]; ring++) {
				body += (body.empty() ? "" : ", ") + Ring(ring);
			}
			return body.empty() ? "EMPTY" : type == GeometryType::POLYGON ? "(" + body + ")" : body;
		}
		for (uint32_t i = 0; i < members; i++) {
			const bool mixed = type == GeometryType::GEOMETRYCOLLECTION;
			body += (i ? ", " : "") + (mixed ? Geometry() : Body(batch.node_type[node]));
		}
		return members ? "(" + body + ")" : "EMPTY";
	}
	std::string Ring(uint32_t ring) const {
		std::string body;
		for (auto i = batch.ring_start[ring]; i < batch.ring_start[ring + 1]; i++) {
			body += (body.empty() ? "" : ", ") + vibespatial::FormatNumber(batch.x[i]);
			body += " " + vibespatial::FormatNumber(batch.y[i]);
			body += vertex_type & 1 ? " " + vibespatial::FormatNumber(batch.z[i]) : "";
			body += vertex_type & 2 ? " " + vibespatial::FormatNumber(batch.m[i]) : "";
		}
		return "(" + body + ")";
	}

	const GeometryBatch &batch;
	const uint8_t vertex_type;
	uint32_t node;
	uint32_t part;
};

inline std::string WriteWkt(const GeometryBatch &batch, size_t row) {
	return batch.valid[row] ? WktWriter(batch, row).Geometry() : "NULL";
}

} // namespace wkt_test
