#include "engine/index/partition_grid.hpp"

#include "catch.hpp"

#include <random>
#include <set>

using namespace vibespatial;
using vibe::Box;

static std::set<uint32_t> PartsOf(const PartitionGrid &grid, const Box &box) {
	std::set<uint32_t> parts;
	grid.Visit(box, [&](uint32_t part) {
		CHECK(part < grid.PartCount());
		CHECK(parts.insert(part).second);
	});
	CHECK(!parts.empty());
	return parts;
}

TEST_CASE("Two boxes that meet are together in the part of their pair", "[partition_grid]") {
	std::mt19937_64 random(7);
	// Mostly in one corner; some outside of all that was sampled
	auto box = [&](double most) {
		std::exponential_distribution<double> place(1);
		std::uniform_real_distribution<double> size(0, most);
		double x = place(random), y = place(random);
		return Box {x, y, x + size(random), y + size(random)};
	};
	std::vector<Box> sample;
	std::vector<double> weights;
	for (int i = 0; i < 2000; i++) {
		sample.push_back(box(0.1));
		weights.push_back(1);
	}
	for (uint32_t parts : {1u, 2u, 7u, 64u, 256u, 1000u}) {
		PartitionGrid grid(sample, weights, parts);
		CHECK(grid.PartCount() == std::min(parts, PartitionGrid::MAX_PARTS));
		std::vector<Box> boxes;
		boxes.reserve(302);
		for (int i = 0; i < 300; i++) {
			boxes.push_back(box(i % 10 == 0 ? 4 : 0.3));
		}
		boxes.push_back(Box {-1e300, -1e300, 1e300, 1e300});
		boxes.push_back(Box {-50, -50, -49, -49});
		std::vector<std::set<uint32_t>> visited;
		for (auto &one : boxes) {
			visited.push_back(PartsOf(grid, one));
			CHECK(visited.back().count(grid.PartOf(one.min_x, one.min_y)) == 1);
		}
		for (size_t i = 0; i < boxes.size(); i++) {
			for (size_t k = 0; k < boxes.size(); k++) {
				if (boxes[i].Intersects(boxes[k])) {
					auto part = grid.PartOf(boxes[i], boxes[k]);
					CHECK((visited[i].count(part) == 1 && visited[k].count(part) == 1));
					CHECK(part == grid.PartOf(boxes[k], boxes[i]));
				}
			}
		}
	}
}

TEST_CASE("Parts have about equal weight", "[partition_grid]") {
	std::mt19937_64 random(8);
	std::normal_distribution<double> place(0, 1);
	std::vector<Box> sample;
	std::vector<double> weights;
	for (int i = 0; i < 20000; i++) {
		double x = place(random), y = place(random);
		sample.push_back(Box {x, y, x, y});
		weights.push_back(1);
	}
	PartitionGrid grid(sample, weights, 8);
	std::vector<int> count(8);
	for (auto &box : sample) {
		count[grid.PartOf(box.min_x, box.min_y)]++;
	}
	for (auto c : count) {
		CHECK(c > 20000 / 8 / 2);
		CHECK(c < 20000 / 8 * 2);
	}
}

TEST_CASE("Samples without extent, or none, still make parts", "[partition_grid]") {
	PartitionGrid none({}, {}, 4);
	CHECK(PartsOf(none, Box {0, 0, 1, 1}).size() == 1);
	PartitionGrid one({Box {3, 3, 3, 3}}, {1}, 4);
	CHECK(PartsOf(one, Box {0, 0, 9, 9}).size() == 1);
	CHECK(one.PartOf(Box::Empty(), Box::Empty()) == 0);
	CHECK(one.PartOf(Box::Empty(), Box {0, 0, 1, 1}) == one.PartOf(0.0, 0.0));
}
