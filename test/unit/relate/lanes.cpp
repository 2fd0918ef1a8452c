// Several threads that relate two shapes together: what one thread finds. On a device they are a warp.
#include "engine/relate/relate.hpp"

#include "catch.hpp"

#include "many_vertices.hpp"

#include "vibe/arena.h"

#include <condition_variable>
#include <mutex>
#include <thread>

using namespace vibespatial;

namespace {

//! Threads that meet after each step
class Threads : public vibe::LaneGroup {
public:
	static constexpr vibe::u32 COUNT = 3;

	const double *Share(vibe::u32 number, double value) override {
		std::unique_lock<std::mutex> guard(lock);
		// Who reads the values of one round may still do so while others write those of the next
		const unsigned mine = round;
		auto *of_round = values[mine % 2];
		of_round[number] = value;
		if (++arrived == COUNT) {
			arrived = 0;
			round++;
			all_are_here.notify_all();
		} else {
			all_are_here.wait(guard, [&] { return round != mine; });
		}
		return of_round;
	}

private:
	std::mutex lock;
	std::condition_variable all_are_here;
	double values[2][COUNT] = {};
	unsigned round = 0;
	vibe::u32 arrived = 0;
};

struct Counts {
	size_t wrong = 0, open = 0, done = 0;
};

//! All pairs of the shapes, their matrices and one predicate each, by several threads with so much memory
Counts RelateAll(const ManyVertices &shapes, uint64_t bytes, vibe::u32 max_steps) {
	Threads group;
	std::vector<uint64_t> slab(bytes / 8);
	Counts counts;
	std::vector<std::thread> threads;
	threads.reserve(Threads::COUNT);
	for (vibe::u32 number = 0; number < Threads::COUNT; number++) {
		threads.emplace_back([&, number] {
			const vibe::Lane lane {number, Threads::COUNT, &group};
			RelateScratch scratch;
			unsigned turn = 0;
			for (auto &a : shapes.views) {
				for (auto &b : shapes.views) {
					for (const bool whole : {true, false}) {
						const auto predicate =
						    static_cast<vibe::Predicate>(whole ? 0 : 1 + turn++ % vibe::PREDICATE_EQUALS);
						bool answer;
						if (!whole && vibe::BoxesDecide(predicate, a, b, answer)) {
							continue;
						}
						vibe::Matrix matrix = 0;
						const auto target = vibe::TargetOf(predicate, a.dimension, b.dimension);
						const bool done = vibe::RelateWithin(a, b, target, reinterpret_cast<vibe::u8 *>(slab.data()),
						                                     bytes, lane, max_steps, matrix);
						if (number > 0) {
							continue;
						}
						counts.done += done;
						counts.open += !done;
						if (done && whole) {
							counts.wrong += matrix != Relate(a, b, scratch);
						} else if (done) {
							counts.wrong += vibe::Holds(predicate, matrix, a.dimension, b.dimension) !=
							                Evaluate(predicate, a, b, scratch);
						}
					}
				}
			}
		});
	}
	for (auto &thread : threads) {
		thread.join();
	}
	return counts;
}

} // namespace

TEST_CASE("several threads find what one finds of two shapes", "[relate]") {
	const ManyVertices shapes(7);
	const auto all = RelateAll(shapes, 4 << 20, vibe::Relater<GrowingArray>::ANY_STEPS);
	CHECK(all.wrong == 0);
	CHECK(all.open == 0);
	CHECK(all.done > 800);
}

TEST_CASE("several threads leave pairs that they have no memory or steps for", "[relate]") {
	const ManyVertices shapes(7);
	const auto little = RelateAll(shapes, 64 << 10, vibe::Relater<GrowingArray>::ANY_STEPS);
	CHECK(little.wrong == 0);
	CHECK(little.open > 10);
	CHECK(little.done > 300);
	// As little as a warp has: contacts of neighbouring edges are counted together
	const auto least = RelateAll(shapes, 16 << 10, vibe::Relater<GrowingArray>::ANY_STEPS);
	CHECK(least.wrong == 0);
	CHECK(least.done > 200);
	const auto hasty = RelateAll(shapes, 4 << 20, 10);
	CHECK(hasty.wrong == 0);
	CHECK(hasty.open > 200);
	CHECK(hasty.done > 300);
	CHECK(RelateAll(shapes, 1 << 10, 10).done == 0);
}
