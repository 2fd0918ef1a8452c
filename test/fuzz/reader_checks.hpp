//===----------------------------------------------------------------------===//
// reader_checks.hpp
//
// What must hold for any bytes given to the readers of WKB and GeoJSON. A reader may refuse them with a GeometryError and nothing else,
// all readers must agree, the GPU's among them, and what is read must come back. Inputs lie in heap buffers of their exact size, so
// that AddressSanitizer sees a read past the end by one byte. Both fuzzers use it.
//===----------------------------------------------------------------------===//
#pragma once

#include "wkb_bytes.hpp"

#include "geometry/checks.hpp"
#include "geometry/error.hpp"
#include "geometry/geojson.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_visit.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vibespatial {
namespace fuzz {

using wkb_test::Data;

//! The bytes alone in a heap block
class Exact {
public:
	explicit Exact(const std::string &bytes) : size(bytes.size()), block(new uint8_t[bytes.size()]) {
		std::memcpy(block.get(), bytes.data(), size);
	}
	const uint8_t *Data() const {
		return block.get();
	}
	const char *Text() const {
		return reinterpret_cast<const char *>(block.get());
	}
	const size_t size;

private:
	std::unique_ptr<uint8_t[]> block;
};

struct Statistics {
	uint64_t accepted = 0;
	uint64_t refused = 0;
	std::map<std::string, uint64_t> reasons;

	void Refuse(const std::string &message) {
		refused++;
		reasons[message.substr(0, message.find_first_of(":0123456789"))]++;
	}
};

inline std::string current_input;

//! Ends the process where something does not hold, with the input in hexadecimal
inline void Require(bool holds, const char *what) {
	if (holds) {
		return;
	}
	std::printf("FAILED: %s\ninput: ", what);
	for (unsigned char byte : current_input) {
		std::printf("%02x", byte);
	}
	std::printf("\n");
	std::fflush(stdout);
	std::abort();
}

//! The message of the GeometryError that `action` throws; empty when it throws none
template <class ACTION>
std::string ErrorOf(ACTION action) {
	try {
		action();
		return std::string();
	} catch (const GeometryError &error) {
		Require(*error.what() != '\0', "an error has words");
		return error.what();
	}
}

//! Reads every byte it is shown
struct Toucher {
	uint64_t vertices = 0;
	uint64_t sum = 0;

	void Part(vibe::Family) {
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		vertices += count;
		for (size_t i = 0; i < count * stride; i++) {
			sum += coords[i];
		}
	}
};

inline bool SameMark(const GeometryBatch::Mark &a, const GeometryBatch::Mark &b) {
	return a.rows == b.rows && a.nodes == b.nodes && a.parts == b.parts && a.rings == b.rings &&
	       a.vertices == b.vertices && a.z == b.z && a.m == b.m;
}

//! The columns of a batch hang together
inline void RequireSound(const GeometryBatch &batch) {
	const auto rows = batch.RowCount();
	Require(batch.row_node.size() == rows + 1 && batch.row_node.back() == batch.node_type.size(), "nodes add up");
	Require(batch.row_part.size() == rows + 1 && batch.row_part.back() == batch.part_family.size(), "parts add up");
	Require(batch.part_ring.size() == batch.part_family.size() + 1 &&
	            batch.part_ring.back() + 1 == batch.ring_start.size(),
	        "rings add up");
	Require(batch.ring_start.back() == batch.x.size() && batch.y.size() == batch.x.size(), "vertices add up");
	Require(batch.z.empty() || batch.z.size() == batch.x.size(), "z is as long as x");
	Require(batch.m.empty() || batch.m.size() == batch.x.size(), "m is as long as x");
}

inline bool HasEmptyPoint(const GeometryBatch &batch, size_t row) {
	for (auto part = batch.row_part[row]; part < batch.row_part[row + 1]; part++) {
		if (batch.part_family[part] == vibe::FAMILY_POINT && batch.part_ring[part] == batch.part_ring[part + 1]) {
			return true;
		}
	}
	return false;
}

//! The GPU's reader, compiled for the host: accepts the same bytes, and gives the same columns and the same bytes back
inline void RequireDeviceReader(const Exact &input, bool accepted, const GeometryBatch &batch, size_t row,
                                const std::string &written) {
	vibe::WkbCounts counts;
	Require(vibe::CountWkb(input.Data(), input.size, counts) == accepted, "the GPU's reader accepts the same");
	if (!accepted) {
		return;
	}
	const auto node = batch.row_node[row], part = batch.row_part[row];
	const auto ring = batch.part_ring[part], vertex = batch.ring_start[ring];
	Require(counts.nodes == batch.row_node[row + 1] - node && counts.parts == batch.row_part[row + 1] - part &&
	            counts.rings + ring + 1 == batch.ring_start.size() && counts.vertices + vertex == batch.x.size(),
	        "the GPU's reader counts the same");
	// Heap blocks of their exact size: a write past the end is seen
	std::vector<uint8_t> node_type(counts.nodes), part_family(counts.parts);
	std::vector<uint32_t> node_children(counts.nodes), part_ring(counts.parts + 1), ring_start(counts.rings + 1);
	std::vector<double> x(counts.vertices), y(counts.vertices);
	vibe::WkbFiller filler {{node_type.data(), node_children.data(), part_family.data(), part_ring.data(),
	                         ring_start.data(), x.data(), y.data()},
	                        {0, 0, 0, 0}};
	vibe::WkbReader reader(input.Data(), input.size);
	vibe::WalkWkb(reader, filler);
	filler.Finish();
	bool same = true;
	for (uint32_t i = 0; i < counts.nodes; i++) {
		same = same && node_type[i] == static_cast<uint8_t>(batch.node_type[node + i]) &&
		       node_children[i] == batch.node_children[node + i];
	}
	for (uint32_t i = 0; i < counts.parts; i++) {
		same =
		    same && part_family[i] == batch.part_family[part + i] && part_ring[i] + ring == batch.part_ring[part + i];
	}
	for (uint32_t i = 0; i < counts.rings; i++) {
		same = same && ring_start[i] + vertex == batch.ring_start[ring + i];
	}
	if (counts.vertices > 0) {
		same = same && std::memcmp(x.data(), &batch.x[vertex], counts.vertices * sizeof(double)) == 0 &&
		       std::memcmp(y.data(), &batch.y[vertex], counts.vertices * sizeof(double)) == 0;
	}
	Require(same, "the GPU's reader gives the same columns");
	if (batch.vertex_type[row] == VERTEX_XY) {
		const uint32_t row_node[] = {0, counts.nodes}, row_part[] = {0, counts.parts};
		const vibe::RowsView rows {
		    row_node,          row_part, node_type.data(), node_children.data(), part_family.data(), part_ring.data(),
		    ring_start.data(), x.data(), y.data()};
		vibe::WkbWriter size {nullptr, 0};
		size.Row(rows, 0);
		Require(size.size == written.size(), "the GPU's writer measures the same");
		std::vector<uint8_t> bytes(size.size);
		vibe::WkbWriter writer {bytes.data(), 0};
		writer.Row(rows, 0);
		Require(std::memcmp(bytes.data(), written.data(), written.size()) == 0, "the GPU's writer writes the same");
	}
}

class WkbCheck {
public:
	//! Whether the bytes are WKB
	bool Run(const std::string &bytes, Statistics &statistics) {
		current_input = bytes;
		if (batch.RowCount() > 32) {
			batch.Clear();
		}
		const Exact input(bytes);
		const auto before = batch.GetMark();
		const auto problem = ErrorOf([&]() { ReadWkb(input.Data(), input.size, batch); });

		Toucher toucher;
		Require(ErrorOf([&]() { VisitWkb(input.Data(), input.size, toucher); }) == problem, "VisitWkb agrees");
		vibe::Box box;
		uint64_t vertices = 0;
		Require(ErrorOf([&]() { vertices = WkbBounds(input.Data(), input.size, box); }) == problem, "WkbBounds agrees");
		WkbHeader header {GeometryType::INVALID, 0};
		const auto no_header = ErrorOf([&]() { header = ReadWkbHeader(input.Data(), input.size); });
		double x;
		double y;
		const auto no_point = ErrorOf([&]() { ReadWkbPoint(input.Data(), input.size, x, y); });
		Require(no_point.empty() == (problem.empty() && header.type == GeometryType::POINT), "ReadWkbPoint agrees");

		if (!problem.empty()) {
			Require(SameMark(before, batch.GetMark()), "the batch is as it was");
			RequireSound(batch);
			RequireDeviceReader(input, false, batch, 0, std::string());
			statistics.Refuse(problem);
			return false;
		}
		statistics.accepted++;
		Require(no_header.empty(), "ReadWkbHeader agrees");
		RequireSound(batch);
		const auto row = batch.RowCount() - 1;
		Require(row == before.rows && batch.type[row] == header.type, "one row more");
		Require(vertices == batch.x.size() - before.vertices && toucher.vertices == vertices, "all vertices are there");
		const auto bounds = batch.Bounds(row);
		Require(bounds.min_x == box.min_x && bounds.min_y == box.min_y && bounds.max_x == box.max_x &&
		            bounds.max_y == box.max_y,
		        "the bounds agree");
		Require(IsUsable(batch, row) == UsabilityProblem(batch, row).empty(), "both checks agree");

		const auto written = WriteWkb(batch, row);
		// The NaN of an EMPTY point may have other bits
		Require(written == bytes || (written.size() == bytes.size() && HasEmptyPoint(batch, row)), "round trip");
		RequireDeviceReader(input, true, batch, row, written);
		GeometryBatch again;
		ReadWkb(Data(written), written.size(), again);
		Require(WriteWkb(again, 0) == written, "second round trip");

		std::string text;
		const auto no_text = ErrorOf([&]() { text = WriteGeoJson(batch, row); });
		if (no_text.empty()) {
			Require(ErrorOf([&]() { ReadGeoJson(text.data(), text.size(), again); }).empty(), "GeoJSON is read back");
			Require(WriteGeoJson(again, 1) == text, "GeoJSON round trip");
		}
		return true;
	}

private:
	GeometryBatch batch;
};

class GeoJsonCheck {
public:
	bool Run(const std::string &text, Statistics &statistics) {
		current_input = text;
		if (batch.RowCount() > 32) {
			batch.Clear();
		}
		const Exact input(text);
		const auto before = batch.GetMark();
		const auto problem = ErrorOf([&]() { ReadGeoJson(input.Text(), input.size, batch); });
		RequireSound(batch);
		if (!problem.empty()) {
			Require(SameMark(before, batch.GetMark()), "the batch is as it was");
			Require(problem.find("GeoJSON") != std::string::npos, "the error says GeoJSON");
			statistics.Refuse(problem);
			return false;
		}
		statistics.accepted++;
		const auto row = batch.RowCount() - 1;
		const auto wkb = WriteWkb(batch, row);
		GeometryBatch again;
		ReadWkb(Data(wkb), wkb.size(), again);
		Require(WriteWkb(again, 0) == wkb, "WKB of GeoJSON");
		const auto written = WriteGeoJson(batch, row);
		ReadGeoJson(written.data(), written.size(), again);
		Require(WriteGeoJson(again, 1) == written, "GeoJSON round trip");
		return true;
	}

private:
	GeometryBatch batch;
};

} // namespace fuzz
} // namespace vibespatial
