#include "engine/index/box_tree.hpp"

#include "vibe/curve.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

namespace vibespatial {

using vibe::Box;
using vibe::NodeBox;

namespace {

//! Items of one step of a parallel pass
constexpr size_t STEP_ITEMS = 65536;
constexpr size_t STEP_NODES = 4096;

//! vibe::HilbertCode by a table, four bits of each axis at a time
class HilbertCurve {
public:
	HilbertCurve() {
		for (uint32_t orientation = 0; orientation < 4; orientation++) {
			for (uint32_t xy = 0; xy < 256; xy++) {
				vibe::HilbertWalk walk {orientation & 1, orientation >> 1};
				uint32_t code = 0;
				for (int bit = 3; bit >= 0; bit--) {
					code = code << 2 | walk.Enter(xy >> (bit + 4) & 1, xy >> bit & 1);
				}
				steps[orientation * 256 + xy] = static_cast<uint16_t>(code << 2 | (walk.turn | walk.mirror << 1));
			}
		}
	}
	uint32_t Code(uint32_t x, uint32_t y) const {
		uint32_t orientation = 0, code = 0;
		for (int shift = 12; shift >= 0; shift -= 4) {
			const uint32_t step = steps[orientation * 256 + ((x >> shift & 15) << 4 | (y >> shift & 15))];
			code = code << 8 | step >> 2;
			orientation = step & 3;
		}
		return code;
	}

private:
	std::array<uint16_t, 1024> steps;
};

struct Item {
	uint32_t code;
	uint32_t id;
};

//! Whole steps of `step` items in [0, count)
template <class USE>
void ForRanges(Parallel &parallel, size_t count, size_t step, const USE &use) {
	const size_t steps = (count + step - 1) / step;
	if (steps == 1) {
		use(0, size_t(0), count);
		return;
	}
	parallel.For(steps, [&](size_t i) { use(i, i * step, std::min(count, (i + 1) * step)); });
}

} // namespace

BoxTree::Query::Query(const Box &box) {
	const auto bounds = NodeBox::Of(box);
	min_x = Floats {bounds.min_x, bounds.min_x, bounds.min_x, bounds.min_x};
	min_y = Floats {bounds.min_y, bounds.min_y, bounds.min_y, bounds.min_y};
	max_x = Floats {bounds.max_x, bounds.max_x, bounds.max_x, bounds.max_x};
	max_y = Floats {bounds.max_y, bounds.max_y, bounds.max_y, bounds.max_y};
}

size_t BoxTree::EstimateMemory(size_t count) {
	// Estimates may be of more than a tree can hold
	size_t total = count * sizeof(uint32_t);
	size_t level = count;
	do {
		level = (level + FANOUT - 1) / FANOUT;
		total += level * sizeof(Node);
	} while (level > 1);
	return total;
}

size_t BoxTree::EstimateBuildMemory(size_t count) {
	// Sorting needs the items twice and is over before the nodes are there
	return std::max(2 * count * sizeof(Item), EstimateMemory(count));
}

size_t BoxTree::MemoryUsage() const {
	return ids.capacity() * sizeof(uint32_t) + nodes.capacity() * sizeof(Node);
}

//! Fills `ids`: the items that are not EMPTY, along the curve
void BoxTree::Sort(const Box *boxes, size_t count, Parallel &parallel) {
	const size_t steps = (count + STEP_ITEMS - 1) / STEP_ITEMS;
	std::vector<Box> step_box(steps, Box::Empty());
	std::vector<size_t> step_begin(steps + 1, 0);
	ForRanges(parallel, count, STEP_ITEMS, [&](size_t step, size_t begin, size_t end) {
		Box all = Box::Empty();
		size_t here = 0;
		for (size_t i = begin; i < end; i++) {
			if (!boxes[i].IsEmpty()) {
				all.Add(boxes[i]);
				here++;
			}
		}
		step_box[step] = all;
		step_begin[step + 1] = here;
	});
	Box all = Box::Empty();
	for (size_t step = 0; step < steps; step++) {
		all.Add(step_box[step]);
		step_begin[step + 1] += step_begin[step];
	}
	const size_t kept = step_begin.back();
	ids.resize(kept);
	if (kept == 0) {
		return;
	}

	// Arrays without initial values: the passes write all of it
	std::unique_ptr<Item[]> items(new Item[kept]), other(new Item[kept]);
	const auto grid = vibe::CurveGrid<16>::Over(all);
	const HilbertCurve curve;
	ForRanges(parallel, count, STEP_ITEMS, [&](size_t step, size_t begin, size_t end) {
		Item *to = items.get() + step_begin[step];
		for (size_t i = begin; i < end; i++) {
			const Box &box = boxes[i];
			if (!box.IsEmpty()) {
				*to++ = Item {curve.Code(grid.x.Place(box.min_x, box.max_x), grid.y.Place(box.min_y, box.max_y)),
				              static_cast<uint32_t>(i)};
			}
		}
	});

	// Radix sort, a byte at a time, lowest first; a step's items go where the counts of all steps before it end
	const size_t step_items = std::max(STEP_ITEMS, kept / (4 * parallel.Threads()) + 1);
	const size_t sort_steps = (kept + step_items - 1) / step_items;
	std::vector<std::array<size_t, 256>> place(sort_steps);
	for (int shift = 0; shift < 32; shift += 8) {
		ForRanges(parallel, kept, step_items, [&](size_t step, size_t begin, size_t end) {
			// Two sets of counts: equal neighbours would wait for each other
			std::array<uint32_t, 256> even {}, odd {};
			size_t i = begin;
			for (; i + 1 < end; i += 2) {
				even[items[i].code >> shift & 255]++;
				odd[items[i + 1].code >> shift & 255]++;
			}
			if (i < end) {
				even[items[i].code >> shift & 255]++;
			}
			for (size_t byte = 0; byte < 256; byte++) {
				place[step][byte] = size_t(even[byte]) + odd[byte];
			}
		});
		size_t total = 0;
		bool one_byte = false;
		for (size_t byte = 0; byte < 256; byte++) {
			const size_t before = total;
			for (auto &step : place) {
				const size_t here = step[byte];
				step[byte] = total;
				total += here;
			}
			one_byte = one_byte || total - before == kept;
		}
		if (one_byte) {
			continue;
		}
		ForRanges(parallel, kept, step_items, [&](size_t step, size_t begin, size_t end) {
			auto next = place[step];
			for (size_t i = begin; i < end; i++) {
				other[next[items[i].code >> shift & 255]++] = items[i];
			}
		});
		items.swap(other);
	}
	ForRanges(parallel, kept, STEP_ITEMS, [&](size_t, size_t begin, size_t end) {
		for (size_t i = begin; i < end; i++) {
			ids[i] = items[i].id;
		}
	});
}

static void RequireNumbers(size_t count) {
	if (count >= std::numeric_limits<uint32_t>::max()) {
		throw std::length_error("BoxTree: more items than 32 bits can number");
	}
}

BoxTree::BoxTree(const Box *boxes, size_t count, Parallel &parallel) {
	RequireNumbers(count);
	Sort(boxes, count, parallel);
	if (ids.empty()) {
		return;
	}
	levels = vibe::NodeLevels::Of(ids.size());
	nodes.resize(levels.NodeCount());

	ForRanges(parallel, levels.begin[1], STEP_NODES, [&](size_t, size_t begin, size_t end) {
		constexpr size_t AHEAD = 32;
		for (size_t n = begin; n < end; n++) {
			for (uint32_t k = 0; k < FANOUT; k++) {
				const size_t item = n * FANOUT + k;
				if (item + AHEAD < ids.size()) {
					__builtin_prefetch(&boxes[ids[item + AHEAD]]);
				}
				const auto box = item < ids.size() ? NodeBox::Of(boxes[ids[item]]) : NodeBox::Nothing();
				box.Store(nodes[n].children, k);
			}
		}
	});
	for (uint32_t l = 1; l < levels.count; l++) {
		const Node *below = nodes.data() + levels.begin[l - 1];
		const size_t below_count = levels.begin[l] - levels.begin[l - 1];
		Node *here = nodes.data() + levels.begin[l];
		ForRanges(parallel, levels.begin[l + 1] - levels.begin[l], STEP_NODES, [&](size_t, size_t begin, size_t end) {
			for (size_t n = begin; n < end; n++) {
				for (uint32_t k = 0; k < FANOUT; k++) {
					const size_t child = n * FANOUT + k;
					const auto box = child < below_count ? NodeBox::Around(below[child].children) : NodeBox::Nothing();
					box.Store(here[n].children, k);
				}
			}
		});
	}
}

BoxTree BoxTree::FromParts(UninitializedVector<uint32_t> ids, UninitializedVector<vibe::PackedNode> nodes) {
	RequireNumbers(ids.size());
	BoxTree tree;
	tree.levels = vibe::NodeLevels::Of(ids.size());
	if (nodes.size() != tree.levels.NodeCount()) {
		throw std::invalid_argument("BoxTree: the nodes are not those of so many items");
	}
	tree.ids = std::move(ids);
	tree.nodes = std::move(nodes);
	return tree;
}

} // namespace vibespatial
