//===----------------------------------------------------------------------===//
// neighbour_rows.hpp
//
// Geometries for searches for neighbours, and the device's searches against those of the CPU
//===----------------------------------------------------------------------===//
#pragma once

#include "catch.hpp"
#include "three_threads.hpp"
#include "wkt_rows.hpp"

#include "engine/gpu/interface/neighbours.hpp"
#include "engine/join/knn.hpp"
#include "geometry/wkb.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace neighbour_test {

using namespace vibespatial;

//! NULL where the bytes are empty
struct Rows {
	std::vector<std::string> wkb;

	void Text(const std::string &text) {
		wkb.emplace_back();
		if (!text.empty()) {
			GeometryBatch batch;
			wkt_test::ReadWkt(text, batch);
			wkb.back() = WriteWkb(batch, 0);
		}
	}
	void Point(double x, double y) {
		std::string bytes(21, '\0');
		bytes[0] = bytes[1] = 1;
		std::memcpy(&bytes[5], &x, sizeof(x));
		std::memcpy(&bytes[13], &y, sizeof(y));
		wkb.push_back(bytes);
	}
	JoinRows Get() const {
		JoinRows rows;
		for (auto &bytes : wkb) {
			auto data = reinterpret_cast<const uint8_t *>(bytes.data());
			rows.push_back(JoinRow {bytes.empty() ? nullptr : data, static_cast<uint32_t>(bytes.size())});
		}
		return rows;
	}
};

//! Of all types, on a small grid, so that many distances are equal
inline Rows Mixed(uint32_t seed, size_t count) {
	std::mt19937 random(seed);
	auto at = [&] { return std::to_string(random() % 40) + " " + std::to_string(random() % 40); };
	auto box = [&] {
		auto x = random() % 40, y = random() % 40, w = 1 + random() % 4;
		auto corner = [](size_t cx, size_t cy) { return std::to_string(cx) + " " + std::to_string(cy); };
		return "((" + corner(x, y) + ", " + corner(x + w, y) + ", " + corner(x + w, y + w) + ", " + corner(x, y) + "))";
	};
	Rows rows;
	for (size_t i = 0; i < count; i++) {
		switch (random() % 10) {
		case 0:
			rows.Text(random() % 2 ? "" : "POLYGON EMPTY");
			break;
		case 1:
			rows.Text("LINESTRING (" + at() + ", " + at() + ", " + at() + ")");
			break;
		case 2:
			rows.Text("MULTIPOINT (" + at() + ", " + at() + ")");
			break;
		case 3:
			rows.Text("MULTIPOLYGON (" + box() + ", " + box() + ")");
			break;
		case 4:
			rows.Text("GEOMETRYCOLLECTION (POINT (" + at() + "), POLYGON " + box() + ", LINESTRING EMPTY)");
			break;
		case 5:
			rows.Text("POLYGON " + box());
			break;
		case 6: {
			// Large enough to be kept
			std::string line = "LINESTRING (" + at();
			for (int n = 0; n < 80; n++) {
				line += ", " + at();
			}
			rows.Text(line + ")");
			break;
		}
		default:
			rows.Text("POINT (" + at() + ")");
		}
	}
	return rows;
}

//! A polygon with so many vertices, and a hole in it
inline std::string Ring(double x, double y, double radius, size_t vertices, bool hole) {
	auto ring = [&](double r) {
		std::string text;
		for (size_t i = 0; i <= vertices; i++) {
			const double angle = 6.283185307179586 * double(i % vertices) / double(vertices);
			text += (i > 0 ? ", " : "(") + std::to_string(x + r * std::cos(angle)) + " " +
			        std::to_string(y + r * std::sin(angle));
		}
		return text + ")";
	};
	return "POLYGON (" + ring(radius) + (hole ? ", " + ring(radius / 2) : "") + ")";
}

struct Case {
	std::string name;
	Rows left;
	Rows right;
	std::vector<uint32_t> ks {1, 5, 33};
	//! The device searches for all of them
	bool all_on_device = true;
};

//! What searches can go wrong with; so many times as many rows
inline std::vector<Case> Cases(size_t scale) {
	std::mt19937_64 random(21);
	std::uniform_real_distribution<double> place(0, 40);
	auto points = [&](size_t count, double by, double shift, bool whole) {
		Rows rows;
		for (size_t i = 0; i < count; i++) {
			const double x = place(random), y = place(random);
			rows.Point(by * (shift + (whole ? std::round(x) : x)), by * (shift + (whole ? std::round(y) : y)));
		}
		return rows;
	};
	std::vector<Case> cases;
	Case buildings {"points among small polygons", points(500 * scale, 1, 0, false), Rows(), {1, 5, 32, 33, 100}};
	for (size_t i = 0; i < 700 * scale; i++) {
		buildings.right.Text(Ring(place(random), place(random), 0.1, 4 + random() % 6, false));
	}
	cases.push_back(buildings);

	Case nested {"points in, on and between nested polygons with holes", points(400, 1, 0, true), Rows(), {1, 4, 40}};
	for (int i = 1; i < 60; i++) {
		auto corner = [](double x, double y) { return std::to_string(x) + " " + std::to_string(y); };
		auto box = [&](double by) {
			const double low = 20 - by, high = 20 + by;
			return "(" + corner(low, low) + ", " + corner(high, low) + ", " + corner(high, high) + ", " +
			       corner(low, high) + ", " + corner(low, low) + ")";
		};
		nested.right.Text("POLYGON (" + box(i * 0.5) + (i % 3 ? ", " + box(i * 0.25) : "") + ")");
	}
	cases.push_back(nested);

	cases.push_back(
	    Case {"points among all types", points(300 * scale, 1, 0, true), Mixed(31, 400 * scale), {1, 6, 40, 1000}});
	cases.push_back(
	    Case {"all types among all types", Mixed(32, 150 * scale), Mixed(33, 300 * scale), {1, 6, 40}, false});
	cases.push_back(
	    Case {"all types among points", Mixed(34, 150 * scale), points(600 * scale, 1, 0, true), {1, 6, 40}, false});
	cases.push_back(Case {"points among points",
	                      points(300 * scale, 1, 0, true),
	                      points(2000 * scale, 1, 0, true),
	                      {1, 5, 32, 33, 1000}});

	Case equal {"more neighbours than rows, all equal", points(50, 1, 0, false), Rows(), {1, 7, 100}};
	Case collinear {"everything on a line", Rows(), Rows(), {1, 7, 100}};
	for (int i = 0; i < 40; i++) {
		equal.right.Text("POLYGON ((10 10, 20 10, 20 20, 10 10))");
		const auto x = std::to_string(i / 2);
		collinear.right.Text("LINESTRING (" + x + " " + x + ", " + std::to_string(i) + " " + std::to_string(i) + ")");
		collinear.left.Point(i * 0.75 - 3, i * 0.75 - 3);
	}
	equal.right.Text("");
	equal.right.Text("POLYGON EMPTY");
	cases.push_back(equal);
	cases.push_back(collinear);

	Case parts {"rows of many parts", points(300, 1, 0, true), Rows(), {1, 3, 64}};
	for (int i = 0; i < 80; i++) {
		std::string text = "MULTIPOINT (";
		for (int part = 0; part < 12; part++) {
			text += (part ? ", " : "") + std::to_string(int(place(random))) + " " + std::to_string(int(place(random)));
		}
		parts.right.Text(text + ")");
	}
	cases.push_back(parts);

	// Larger than what the device reads, and than what one thread should walk
	Case large {"large polygons", points(300, 1, 0, false), Rows(), {1, 3}};
	for (int i = 0; i < 6; i++) {
		large.right.Text(Ring(place(random), place(random), 6, i % 2 ? 3000 : 700, i % 3 == 0));
	}
	cases.push_back(large);
	auto large_left = large;
	large_left.name = "large polygons on the left";
	std::swap(large_left.left, large_left.right);
	large_left.all_on_device = false;
	cases.push_back(large_left);

	for (const double by : {1e-200, 1e-150, 1e-25, 1e9, 1e25, 1e150, 1e200, 1e300}) {
		for (const double shift : {0.0, 1e6}) {
			Case far {"coordinates times " + std::to_string(by),
			          points(60, by, shift, true),
			          points(80, by, shift, true),
			          {1, 9, 50}};
			for (int i = 0; i < 60; i++) {
				// Text has too few digits
				GeometryBatch batch;
				wkt_test::ReadWkt("LINESTRING (0 0, 1 0, 2 5)", batch);
				auto bytes = WriteWkb(batch, 0);
				for (size_t at = 9; at < bytes.size(); at += sizeof(double)) {
					const double value = by * (shift + std::round(place(random)));
					std::memcpy(&bytes[at], &value, sizeof(value));
				}
				far.right.wkb.push_back(bytes);
			}
			cases.push_back(far);
		}
	}
	return cases;
}

//! Where a test gets the device's side from
struct Searches {
	std::function<std::shared_ptr<GpuBuild>()> new_build;
	std::function<std::unique_ptr<GpuSearch>(const std::shared_ptr<GpuBuild> &build, uint32_t k, double most)>
	    new_search;
};

//! Rows and bits of the device against those of the CPU, in two tiles; of every so many rows
inline void Check(const Searches &device, const Case &input, uint32_t k, double most, size_t step = 1) {
	INFO(input.name << ", k " << k << ", at most " << most);
	KnnIndex index(input.right.Get());
	ThreeThreads threads;
	index.Build(threads);
	const auto build = device.new_build();
	GpuTimes times;
	index.Upload(*build, threads, times);
	REQUIRE(times.bytes_to_device > 0);
	const auto search = device.new_search(build, k, most);
	KnnSearch expected(index, k, most, [] {});
	const auto rows = input.left.Get();
	size_t wrong = 0, open = 0, neighbours = 0;
	for (size_t tile = 0; tile < 2; tile++) {
		const size_t begin = tile * (rows.size() / 3), end = tile == 0 ? rows.size() / 3 : rows.size();
		std::vector<JoinRow> sent;
		auto *points = search->Points(end - begin);
		size_t count = 0;
		ShapeRows shapes;
		shapes.Clear([&](size_t block) { return search->Block(block); });
		for (size_t i = begin; i < end; i++) {
			if (rows[i].data && ShapeRows::IsForDevice(rows[i].data, rows[i].size)) {
				count += TryReadPoint(rows[i].data, rows[i].size, points[sent.size()]);
				shapes.AddWkb(rows[i].data, rows[i].size);
				sent.push_back(rows[i]);
			} else if (rows[i].data) {
				open++;
			}
		}
		// Once as points, if they are, and once as shapes
		for (const bool as_points : {true, false}) {
			if (sent.empty() || (as_points && count < sent.size())) {
				continue;
			}
			if (as_points) {
				search->BeginPoints(sent.size());
			} else {
				search->BeginShapes(shapes);
			}
			const auto &found = search->Finish();
			REQUIRE(found.count == sent.size());
			for (size_t i = 0; i < sent.size(); i += step) {
				if (found.found[i] == vibe::NEAREST_OPEN) {
					open++;
					continue;
				}
				const auto &list = expected.Find(sent[i]);
				neighbours += list.size();
				wrong += found.found[i] != list.size();
				for (size_t n = 0; n < std::min<size_t>(found.found[i], list.size()); n++) {
					wrong += found.Row(i, n) != list[n].row ||
					         vibe::Bits(found.Distance(i, n)) != vibe::Bits(list[n].distance);
				}
			}
		}
	}
	REQUIRE(wrong == 0);
	REQUIRE((neighbours > 0 || most < 1));
	REQUIRE((open == 0) == input.all_on_device);
}

} // namespace neighbour_test
