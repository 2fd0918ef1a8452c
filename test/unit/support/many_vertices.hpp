//===----------------------------------------------------------------------===//
// many_vertices.hpp
//
// Shapes of many vertices that overlap, adjoin, contain and cross one another, lie apart, or are invalid.
//===----------------------------------------------------------------------===//
#pragma once

#include "wkt_rows.hpp"

#include "engine/shape/shape.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

class ManyVertices {
public:
	vibespatial::GeometryBatch batch;
	std::vector<std::unique_ptr<vibespatial::Shape>> shapes;
	std::vector<vibe::ShapeView> views;

	explicit ManyVertices(unsigned seed) : seed(seed), random(seed) {
		for (int i = 0; i < 4; i++) {
			Add("POLYGON (" + Cell(i % 2, i / 2, 1) + ")");
		}
		Add("POLYGON (" + Cell(0, 0, 2) + ")");
		Add("POLYGON (" + Cell(0, 0, 2) + ")");
		Add("POLYGON (" + Cell(1, 1, 1) + ", " + Star(80, 1.5, 1.5, 0.2, 0.3) + ")");
		Add("POLYGON (" + Cell(-1, -1, 4) + ", " + Cell(0, 0, 2) + ")");
		for (const double x : {0.2, 1.0, 1.5}) {
			Add("POLYGON (" + Star(150 + static_cast<int>(100 * x), x, 1, 0.2, 1) + ")");
		}
		Add("POLYGON (" + Star(90, 0.5, 0.5, 0.05, 0.1) + ")");
		Add("POLYGON (" + Tangle(60) + ")");
		Add("POLYGON (" + Tangle(25) + ")");
		// Islands, most of which meet nothing
		std::string islands;
		for (int i = 0; i < 40; i++) {
			const int column = i % 8, row = i / 8;
			islands += (i > 0 ? ", (" : "(") + Star(9, 0.5 * column - 1, 0.5 * row - 0.5, 0.1, 0.2) + ")";
		}
		Add("MULTIPOLYGON (" + islands + ")");
		// Edges that many others meet
		Add("POLYGON ((-3 1, 5 1, 5 1.5, -3 1.5, -3 1))");
		Add("POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))");
		Add("LINESTRING (-3 0, 5 2, 5 -3, -3 0)");
		// Where their ends lie depends on the order of what they meet
		Add("LINESTRING (-3 0.3, 5 1.7)");
		Add("MULTILINESTRING ((0.1 -3, 1.4 1), (1.4 1, 1.1 5), (-3 1.9, 0.6 1.2, 5 0.1))");
		Add("LINESTRING " + Cell(0, 1, 1));
		for (const int steps : {100, 300}) {
			Add("LINESTRING " + Walk(steps));
		}
		Add("MULTILINESTRING (" + Walk(60) + ", " + Walk(40) + ", (5 5, 6 6), (9 9, 9 8, 9 9))");
		Add("MULTIPOINT (0 0, 1 1, 1 1.5, 7 7)");
		std::string points;
		for (int i = 0; i < 90; i++) {
			const int column = i % 10, row = i / 10;
			points += (i > 0 ? ", " : "") + At(0.25 * column, 0.25 * row);
		}
		Add("MULTIPOINT (" + points + ")");
		Add("POINT (1 1)");
		// More edges than a warp counts contacts of one by one
		Add("POLYGON (" + Star(700, 1, 1, 0.5, 0.9) + ")");
	}

private:
	static std::string At(double x, double y) {
		return std::to_string(x) + " " + std::to_string(y);
	}
	void Add(const std::string &text) {
		wkt_test::ReadWkt(text, batch);
		shapes.push_back(std::make_unique<vibespatial::Shape>());
		shapes.back()->Build(batch.View(batch.RowCount() - 1));
		views.push_back(shapes.back()->View());
	}
	double Random(double least, double greatest) {
		return std::uniform_real_distribution<double>(least, greatest)(random);
	}
	//! A side of a cell of the grid, without its end; the same vertices for both cells
	void Side(int x, int y, bool is_vertical, std::vector<std::pair<double, double>> &vertices) const {
		constexpr int PIECES = 37;
		for (int i = 0; i < PIECES; i++) {
			const double along = double(i) / PIECES;
			const double off = i == 0 ? 0 : 0.05 * std::sin(7 * i + 3 * x + 5 * y + (is_vertical ? seed : 0));
			vertices.emplace_back(is_vertical ? x + off : x + along, is_vertical ? y + along : y + off);
		}
	}
	//! A square of cells of the grid, whose borders are crooked
	std::string Cell(int x, int y, int size) const {
		std::vector<std::pair<double, double>> around, side;
		const auto add = [&](int sx, int sy, bool is_vertical, bool is_backwards) {
			side.clear();
			Side(sx, sy, is_vertical, side);
			if (is_backwards) {
				side.erase(side.begin());
				side.emplace_back(sx + (is_vertical ? 0 : 1), sy + (is_vertical ? 1 : 0));
				std::reverse(side.begin(), side.end());
			}
			around.insert(around.end(), side.begin(), side.end());
		};
		for (int i = 0; i < size; i++) {
			add(x + i, y, false, false);
		}
		for (int i = 0; i < size; i++) {
			add(x + size, y + i, true, false);
		}
		for (int i = size - 1; i >= 0; i--) {
			add(x + i, y + size, false, true);
		}
		for (int i = size - 1; i >= 0; i--) {
			add(x, y + i, true, true);
		}
		std::string text;
		for (const auto &vertex : around) {
			text += At(vertex.first, vertex.second) + ", ";
		}
		return "(" + text + At(around[0].first, around[0].second) + ")";
	}
	std::string Star(int corners, double x, double y, double least, double greatest) {
		std::string first, text;
		for (int i = 0; i < corners; i++) {
			const double angle = 2 * M_PI * i / corners, r = Random(least, greatest);
			const std::string vertex = At(x + r * std::cos(angle), y + r * std::sin(angle));
			first = i == 0 ? vertex : first;
			text += vertex + ", ";
		}
		return "(" + text + first + ")";
	}
	//! A ring that crosses itself and runs along itself
	std::string Tangle(int corners) {
		std::string first, text;
		for (int i = 0; i < corners; i++) {
			const std::string vertex =
			    At(0.25 * static_cast<double>(random() % 9), 0.25 * static_cast<double>(random() % 9));
			first = i == 0 ? vertex : first;
			text += vertex + ", ";
		}
		return "(" + text + first + ")";
	}
	//! A line on a raster, over itself and others
	std::string Walk(int steps) {
		std::string text;
		int x = 0, y = 0;
		for (int i = 0; i <= steps; i++) {
			text += (i > 0 ? ", " : "") + At(0.25 * x, 0.25 * y);
			(random() % 2 == 0 ? x : y) += random() % 2 == 0 ? 1 : -1;
		}
		return "(" + text + ")";
	}

	unsigned seed;
	std::mt19937 random;
};
