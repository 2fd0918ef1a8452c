#include "engine/index/box_tree.hpp"

#include "catch.hpp"

#include "three_threads.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

using namespace vibespatial;
using vibe::Box;

namespace {

std::vector<uint32_t> Visited(const BoxTree &tree, const Box &query) {
	std::vector<uint32_t> ids;
	tree.Visit(query, [&](uint32_t id) {
		ids.push_back(id);
		return false;
	});
	std::sort(ids.begin(), ids.end());
	return ids;
}

//! Boxes that meet the query and were not visited, and items visited twice or too far away
size_t Wrong(const BoxTree &tree, const std::vector<Box> &boxes, const Box &query) {
	std::vector<uint32_t> visits(boxes.size(), 0);
	for (uint32_t id : Visited(tree, query)) {
		visits[id]++;
	}
	size_t wrong = 0;
	// A float is at most 2^-23 of its value away, or a denormal; each side may be off by that much
	auto near = [](double low, double high) {
		return low <= high || low - high <= (std::fabs(low) + std::fabs(high)) * 4e-7 + 4e-45 || low > FLT_MAX ||
		       high < -FLT_MAX;
	};
	for (uint32_t id = 0; id < boxes.size(); id++) {
		const uint32_t times = visits[id];
		const Box &box = boxes[id];
		if (!box.IsEmpty() && box.Intersects(query)) {
			wrong += times != 1;
		} else {
			const bool may = !box.IsEmpty() && near(box.min_x, query.max_x) && near(query.min_x, box.max_x) &&
			                 near(box.min_y, query.max_y) && near(query.min_y, box.max_y);
			wrong += times > (may ? 1u : 0u);
		}
	}
	return wrong;
}

struct Random {
	std::mt19937_64 engine {11};

	double Uniform(double from, double to) {
		return std::uniform_real_distribution<double>(from, to)(engine);
	}
	Box Around(double extent, double size) {
		const double x = Uniform(-extent, extent), y = Uniform(-extent, extent);
		return Box {x, y, x + Uniform(0, size), y + Uniform(0, size)};
	}
};

} // namespace

TEST_CASE("box tree: nothing, one, EMPTY", "[box_tree]") {
	Serial serial;
	CHECK(Visited(BoxTree(nullptr, 0, serial), Box {-1, -1, 1, 1}).empty());
	std::vector<Box> boxes(3, Box::Empty());
	CHECK(Visited(BoxTree(boxes.data(), 3, serial), Box {-1, -1, 1, 1}).empty());
	boxes[1] = Box {0, 0, 1, 1};
	const BoxTree tree(boxes.data(), 3, serial);
	CHECK(tree.Count() == 1);
	CHECK(Visited(tree, Box {1, 1, 2, 2}) == std::vector<uint32_t> {1});
	CHECK(Visited(tree, Box {1.5, 1, 2, 2}).empty());
	CHECK(Visited(tree, Box::Empty()).empty());
	const double infinity = std::numeric_limits<double>::infinity();
	CHECK(Visited(tree, Box {-infinity, -infinity, infinity, infinity}) == std::vector<uint32_t> {1});
}

TEST_CASE("box tree: sizes around full nodes", "[box_tree]") {
	Serial serial;
	Random random;
	for (size_t count : {1, 2, 15, 16, 17, 255, 256, 257, 4095, 4097}) {
		std::vector<Box> boxes;
		boxes.reserve(count);
		for (size_t i = 0; i < count; i++) {
			boxes.push_back(random.engine() % 10 == 0 ? Box::Empty() : random.Around(100, 10));
		}
		const BoxTree tree(boxes.data(), count, serial);
		size_t wrong = 0;
		for (int i = 0; i < 10; i++) {
			wrong += Wrong(tree, boxes, random.Around(110, i % 2 ? 0 : 60));
		}
		CHECK(wrong == 0);
		CHECK(Visited(tree, Box {-1e9, -1e9, 1e9, 1e9}).size() == tree.Count());
		CHECK(tree.MemoryUsage() <= BoxTree::EstimateMemory(count));
	}
}

TEST_CASE("box tree: threads build the same tree", "[box_tree]") {
	Serial serial;
	ThreeThreads threads;
	Random random;
	std::vector<Box> boxes;
	boxes.reserve(300000);
	for (size_t i = 0; i < 300000; i++) {
		boxes.push_back(i % 1000 == 0 ? Box::Empty() : random.Around(100, 0.1));
	}
	const BoxTree one(boxes.data(), boxes.size(), serial), many(boxes.data(), boxes.size(), threads);
	CHECK(one.MemoryUsage() == BoxTree::EstimateMemory(one.Count()));
	size_t wrong = 0, hits = 0, looks = 0;
	for (int i = 0; i < 20; i++) {
		const Box query = random.Around(100, 3);
		wrong += Wrong(one, boxes, query);
		wrong += Visited(one, query) != Visited(many, query);
		hits += Visited(one, query).size();
	}
	CHECK(wrong == 0);
	CHECK(hits > 0);
	// Neighbours are together: a small query sees little of the tree in between
	one.Visit(Box {0, 0, 0.5, 0.5}, [&](uint32_t id) {
		looks += !boxes[id].Intersects(Box {-1, -1, 1, 1});
		return false;
	});
	CHECK(looks == 0);
}

TEST_CASE("box tree: nothing is missed by rounding", "[box_tree]") {
	Serial serial;
	Random random;
	for (const double scale : {1.0, 1e-30, 1e-44, 1e-46, 1e-300, 1e30, 3e38, 1e39, 1e300}) {
		std::vector<Box> boxes;
		for (int i = 0; i < 500; i++) {
			const Box box = random.Around(scale, scale * (i % 3) * 0.1);
			boxes.push_back(box);
			// Beside it, one double away and touching
			const double infinity = std::numeric_limits<double>::infinity();
			boxes.push_back(Box {std::nextafter(box.max_x, infinity), box.min_y, box.max_x + scale * 0.01, box.max_y});
			boxes.push_back(Box {box.max_x, box.max_y, box.max_x + scale * 0.1, box.max_y + scale * 0.1});
		}
		const BoxTree tree(boxes.data(), boxes.size(), serial);
		size_t wrong = 0;
		for (int i = 0; i < 60; i++) {
			const Box box = boxes[random.engine() % boxes.size()];
			wrong += Wrong(tree, boxes, box);
			wrong += Wrong(tree, boxes, Box {box.max_x, box.max_y, box.max_x, box.max_y});
		}
		CHECK(wrong == 0);
	}
}

TEST_CASE("box tree: magnitudes together, and equal boxes", "[box_tree]") {
	Serial serial;
	Random random;
	std::vector<Box> boxes;
	for (int i = 0; i < 600; i++) {
		const double x = random.Uniform(-1, 1) * std::pow(10, random.Uniform(-307, 307));
		const double y = random.Uniform(-1, 1) * std::pow(10, random.Uniform(-307, 307));
		boxes.push_back(Box {x, y, x + std::fabs(y) * 0.5, y + std::fabs(x) * 0.5});
		boxes.push_back(Box {1, 1, 1, 1});
	}
	const BoxTree tree(boxes.data(), boxes.size(), serial);
	size_t wrong = 0;
	for (int i = 0; i < 200; i++) {
		wrong += Wrong(tree, boxes, boxes[random.engine() % boxes.size()]);
	}
	CHECK(wrong == 0);
	CHECK(Visited(tree, Box {1, 1, 1, 1}).size() >= 600);
}

TEST_CASE("box tree: the visitor may stop", "[box_tree]") {
	Serial serial;
	std::vector<Box> boxes(1000, Box {0, 0, 1, 1});
	const BoxTree tree(boxes.data(), boxes.size(), serial);
	size_t seen = 0;
	tree.Visit(Box {0, 0, 1, 1}, [&](uint32_t) { return ++seen == 37; });
	CHECK(seen == 37);
}
