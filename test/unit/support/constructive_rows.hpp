//===----------------------------------------------------------------------===//
// constructive_rows.hpp
//
// Geometries for functions that make others of their vertices, and the comparison of a device's results with the CPU's, byte by byte
//===----------------------------------------------------------------------===//
#pragma once

#include "wkb_bytes.hpp"

#include "engine/constructive/hull.hpp"
#include "engine/constructive/simplify.hpp"
#include "engine/gpu/interface/scalar.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace constructive_test {

using namespace vibespatial; // NOLINT: of tests
using wkb_test::Wkb;

class RandomRows {
public:
	explicit RandomRows(unsigned seed) : random(seed) {
	}

	//! Of any type but collections, which are the CPU's; one in some has no sense
	std::string Row() {
		vertices = random() % 20 == 0 ? 60 + random() % 900 : 1 + random() % 24;
		style = random() % 9;
		switch (random() % 16) {
		case 0:
			return wkb_test::Empty(wkb_test::TYPES[random() % 6], 0);
		case 1:
			return Damaged();
		case 2:
		case 3:
			return Multi(GeometryType::MULTIPOLYGON, [&] { return Polygon(); });
		case 4:
			return Multi(GeometryType::MULTILINESTRING, [&] { return Line(); });
		case 5:
		case 6:
			return Multi(GeometryType::MULTIPOINT, [&] { return Point(); });
		case 7:
			return Point();
		case 8:
		case 9:
		case 10:
			return Polygon();
		default:
			return Line();
		}
	}

private:
	double Unit() {
		return std::uniform_real_distribution<double>(-1, 1)(random);
	}
	//! The next vertex, of which number i of n has a place on a circle
	vibe::Vec2 Place(size_t i, size_t n) {
		const double angle = 2 * M_PI * double(i) / double(n), t = Unit();
		switch (style) {
		case 0: // a small raster: repeats, lines of many vertices
			return {double(int(random() % 4)), double(int(random() % 4))};
		case 1: // one line, up to rounding
			return {t * 3, t * 0.1};
		case 2: // one line
			return {double(int(random() % 9)) * 3, double(int(random() % 9))};
		case 3: // all corners
			return {std::cos(angle) * 7, std::sin(angle) * 7};
		case 4: // so large that sums overflow
			return {Unit() * 1.7e308, Unit() * 1.7e308};
		case 5: // so small that products vanish
			return {Unit() * 1e-300, random() % 2 ? Unit() * 1e-320 : 0};
		case 6: // both zeros
			return {random() % 2 ? 0.0 : -0.0, random() % 3 == 0 ? -0.0 : double(int(random() % 2))};
		case 7: // a wave that stays near to its chords
			return {double(i) * 0.1, std::sin(double(i) * 0.3) + Unit() * 0.01};
		default:
			return {Unit() * 180, Unit() * 90};
		}
	}
	void AddVertices(Wkb &wkb, size_t count, bool closed) {
		vibe::Vec2 first {0, 0};
		for (size_t i = 0; i < count; i++) {
			auto p = Place(i, count);
			first = i == 0 ? p : first;
			if (closed && i + 1 == count) {
				p = first;
			}
			if (i > 0 && random() % 12 == 0 && !(closed && i + 1 == count)) {
				p = last;
			}
			wkb.Doubles({p.x, p.y});
			last = p;
		}
	}
	std::string Point() {
		const auto p = Place(random() % 9, 9);
		return Wkb().Header(GeometryType::POINT).Doubles({p.x, p.y}).bytes;
	}
	std::string Line() {
		const auto count = vertices < 2 && random() % 4 ? 2 : vertices;
		Wkb wkb;
		wkb.Header(GeometryType::LINESTRING).Count(uint32_t(count));
		AddVertices(wkb, count, random() % 4 == 0);
		return wkb.bytes;
	}
	std::string Polygon() {
		const uint32_t rings = random() % 4 ? 1 : 1 + random() % 3;
		Wkb wkb;
		wkb.Header(GeometryType::POLYGON).Count(rings);
		for (uint32_t ring = 0; ring < rings; ring++) {
			// Some have too few vertices, or are open: a hull does not mind
			const auto count = random() % 20 == 0 ? random() % 4 : 4 + vertices / rings;
			wkb.Count(uint32_t(count));
			AddVertices(wkb, count, random() % 30 != 0);
		}
		return wkb.bytes;
	}
	template <class MEMBER>
	std::string Multi(GeometryType type, const MEMBER &member) {
		const uint32_t count = type == GeometryType::MULTIPOINT ? uint32_t(vertices) : 1 + random() % 4;
		vertices = type == GeometryType::MULTIPOINT ? 1 : vertices / count + 1;
		Wkb wkb;
		wkb.Header(type).Count(count);
		for (uint32_t i = 0; i < count; i++) {
			const auto of = static_cast<GeometryType>(static_cast<uint8_t>(type) - 3);
			wkb.Append(random() % 12 == 0 ? wkb_test::Empty(of, 0) : member());
		}
		return wkb.bytes;
	}
	std::string Damaged() {
		auto bytes = random() % 2 ? Line() : Polygon();
		switch (random() % 4) {
		case 0:
			return bytes.substr(0, random() % bytes.size());
		case 1: // Z
			return wkb_test::Sample(wkb_test::TYPES[random() % 7], 1 + random() % 3);
		case 2:
			return Wkb().Header(GeometryType::GEOMETRYCOLLECTION).Count(1).Append(bytes).bytes;
		default: {
			const double values[] = {wkb_test::NaN, wkb_test::INF, -wkb_test::INF};
			if (bytes.size() >= 29) {
				bytes.replace(bytes.size() - 8 * (1 + random() % 2), 8,
				              reinterpret_cast<const char *>(values + random() % 3), 8);
			}
			return bytes;
		}
		}
	}

	std::mt19937 random;
	size_t vertices = 0;
	unsigned style = 0;
	vibe::Vec2 last {0, 0};
};

inline std::vector<std::string> Rows(unsigned seed, size_t count) {
	RandomRows random(seed);
	std::vector<std::string> rows;
	rows.reserve(count);
	for (size_t i = 0; i < count; i++) {
		rows.push_back(random.Row());
	}
	return rows;
}

//! None, small and large ones, and one that leaves nothing
inline double Tolerance(size_t row) {
	const double tolerances[] = {0, 0.01, 0.3, 2, 50, 1e-301, 1e305, wkb_test::INF};
	return tolerances[row % 8];
}

//! What the CPU makes of a row; false where it refuses it
inline bool MakeOnCpu(const ScalarTask &task, const std::string &row, double tolerance, std::string &made) {
	GeometryBatch scratch, out;
	try {
		if (task.kind == ScalarTask::HULL) {
			ConvexHull(wkb_test::Data(row), row.size(), scratch, out);
		} else {
			ReadWkb(wkb_test::Data(row), row.size(), scratch);
			Simplify(scratch, 0, tolerance, out);
		}
	} catch (const GeometryError &) {
		return false;
	}
	made = WriteWkb(out, 0);
	return true;
}

struct Compared {
	//! The CPU's bytes, other bytes
	size_t same = 0, wrong = 0;
	//! Left to the CPU before and after the device has seen them; of the latter, those that the CPU does not refuse; refused by the CPU and
	//! not left to it
	size_t not_asked = 0, open = 0, sound = 0, accepted = 0;
	//! Results by type, and those of other bytes than their row
	size_t types[8] = {}, changed = 0;
};

inline Compared Compare(GpuScalarBatch &batch, const ScalarTask &task, const std::vector<std::string> &rows) {
	ScalarSide side;
	side.Clear([&](size_t block) { return batch.Block(true, block); });
	side.BeginShapes();
	std::vector<bool> asked;
	std::vector<double> tolerances;
	for (auto &row : rows) {
		tolerances.push_back(Tolerance(tolerances.size()));
		asked.push_back(task.IsForDevice(wkb_test::Data(row), row.size()));
		if (asked.back()) {
			side.AddWkb(wkb_test::Data(row), row.size());
		} else {
			side.AddNothing();
		}
	}
	Compared compared;
	// In pieces, of which one has memory of the piece before
	const size_t piece = rows.size() / 3 + 1;
	for (size_t first = 0; first < rows.size(); first += piece) {
		ScalarInput input;
		input.first = first;
		input.count = std::min(piece, rows.size() - first);
		input.left = &side;
		input.limits = task.kind == ScalarTask::SIMPLIFY ? tolerances.data() : nullptr;
		batch.Begin(input);
		auto &result = batch.Finish();
		for (size_t i = 0; i < input.count; i++) {
			auto &row = rows[first + i];
			std::string expected;
			if (!asked[first + i]) {
				compared.not_asked++;
				continue;
			}
			const std::string found(result.wkb + result.wkb_begin[i], result.wkb + result.wkb_begin[i + 1]);
			const bool is_open = result.results[i] == vibe::PAIR_OPEN;
			if (!MakeOnCpu(task, row, tolerances[first + i], expected)) {
				compared.accepted += !is_open;
				compared.open++;
			} else if (is_open) {
				compared.open++;
				compared.sound++;
			} else if (found != expected) {
				compared.wrong++;
			} else {
				compared.same++;
				compared.types[static_cast<uint8_t>(found[1])]++;
				compared.changed += found != row;
			}
		}
	}
	return compared;
}

} // namespace constructive_test
