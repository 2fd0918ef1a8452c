#include "engine/cpu/box_tree.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>

namespace vibespatial {

using vibe::Box;

namespace {

//! Items of one step of a parallel pass
constexpr size_t STEP_ITEMS = 65536;
constexpr size_t STEP_NODES = 4096;

//! The next float towards zero's other side: up for direction 1, down for -1
float Next(float value, int direction) {
	if (value == 0) {
		return static_cast<float>(direction) * std::numeric_limits<float>::denorm_min();
	}
	int32_t bits;
	std::memcpy(&bits, &value, sizeof(bits));
	bits += (value > 0) == (direction > 0) ? 1 : -1;
	std::memcpy(&value, &bits, sizeof(bits));
	return value;
}

float RoundDown(double value) {
	const float near = static_cast<float>(value);
	return near > value ? Next(near, -1) : near;
}

float RoundUp(double value) {
	const float near = static_cast<float>(value);
	return near < value ? Next(near, 1) : near;
}

//! A Hilbert curve of 16 bits an axis, four bits of each axis at a time. The curve of a square goes through its quarters
//! in an order that its orientation (one of four) decides, and so does the orientation of each quarter.
class HilbertCurve {
public:
	HilbertCurve() {
		for (uint32_t orientation = 0; orientation < 4; orientation++) {
			for (uint32_t xy = 0; xy < 256; xy++) {
				uint32_t turn = orientation & 1, mirror = orientation >> 1, code = 0;
				for (int bit = 3; bit >= 0; bit--) {
					uint32_t x = (xy >> (bit + 4) & 1) ^ mirror, y = (xy >> bit & 1) ^ mirror;
					if (turn) {
						std::swap(x, y);
					}
					// The basic curve: up, right, down; its first quarter is turned, its last turned the other way
					const uint32_t quarter = x == 0 ? y : 3 - y;
					code = code << 2 | quarter;
					if (quarter == 0) {
						turn ^= 1;
					} else if (quarter == 3) {
						turn ^= 1;
						mirror ^= 1;
					}
				}
				steps[orientation * 256 + xy] = static_cast<uint16_t>(code << 2 | (turn | mirror << 1));
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

//! Where centres lie on an axis of 2^16 places
struct Axis {
	double from;
	double per_unit;

	Axis(double min, double max) : from(min), per_unit(65536 / (max - min)) {
		// No extent, or one beyond doubles: all in one place is a poor order, but an order
		if (!std::isfinite(per_unit)) {
			per_unit = 0;
		}
	}
	uint32_t Place(double min, double max) const {
		const double place = ((min * 0.5 + max * 0.5) - from) * per_unit;
		return place >= 65535 ? 65535 : place > 0 ? static_cast<uint32_t>(place) : 0;
	}
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
	const float bounds[] = {RoundDown(box.min_x), RoundDown(box.min_y), RoundUp(box.max_x), RoundUp(box.max_y)};
	min_x = Floats {bounds[0], bounds[0], bounds[0], bounds[0]};
	min_y = Floats {bounds[1], bounds[1], bounds[1], bounds[1]};
	max_x = Floats {bounds[2], bounds[2], bounds[2], bounds[2]};
	max_y = Floats {bounds[3], bounds[3], bounds[3], bounds[3]};
}

size_t BoxTree::EstimateMemory(size_t count) {
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
	const Axis x(all.min_x, all.max_x), y(all.min_y, all.max_y);
	const HilbertCurve curve;
	ForRanges(parallel, count, STEP_ITEMS, [&](size_t step, size_t begin, size_t end) {
		Item *to = items.get() + step_begin[step];
		for (size_t i = begin; i < end; i++) {
			const Box &box = boxes[i];
			if (!box.IsEmpty()) {
				*to++ = Item {curve.Code(x.Place(box.min_x, box.max_x), y.Place(box.min_y, box.max_y)),
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

BoxTree::BoxTree(const Box *boxes, size_t count, Parallel &parallel) {
	if (count >= std::numeric_limits<uint32_t>::max()) {
		throw std::length_error("BoxTree: more items than 32 bits can number");
	}
	Sort(boxes, count, parallel);
	if (ids.empty()) {
		return;
	}
	size_t total = 0;
	size_t level = ids.size();
	do {
		level = (level + FANOUT - 1) / FANOUT;
		total += level;
		level_begin[++level_count] = static_cast<uint32_t>(total);
	} while (level > 1);
	nodes.resize(total);

	constexpr float NOTHING = std::numeric_limits<float>::quiet_NaN();
	ForRanges(parallel, level_begin[1], STEP_NODES, [&](size_t, size_t begin, size_t end) {
		constexpr size_t AHEAD = 32;
		for (size_t n = begin; n < end; n++) {
			Node &node = nodes[n];
			for (uint32_t k = 0; k < FANOUT; k++) {
				const size_t item = n * FANOUT + k;
				if (item + AHEAD < ids.size()) {
					__builtin_prefetch(&boxes[ids[item + AHEAD]]);
				}
				const bool there = item < ids.size();
				const Box &box = boxes[ids[there ? item : 0]];
				node.min_x[k / 4][k % 4] = there ? RoundDown(box.min_x) : NOTHING;
				node.min_y[k / 4][k % 4] = there ? RoundDown(box.min_y) : NOTHING;
				node.max_x[k / 4][k % 4] = there ? RoundUp(box.max_x) : NOTHING;
				node.max_y[k / 4][k % 4] = there ? RoundUp(box.max_y) : NOTHING;
			}
		}
	});
	for (uint32_t l = 1; l < level_count; l++) {
		const Node *below = nodes.data() + level_begin[l - 1];
		const size_t below_count = level_begin[l] - level_begin[l - 1];
		Node *here = nodes.data() + level_begin[l];
		ForRanges(parallel, level_begin[l + 1] - level_begin[l], STEP_NODES, [&](size_t, size_t begin, size_t end) {
			for (size_t n = begin; n < end; n++) {
				for (uint32_t k = 0; k < FANOUT; k++) {
					const size_t child = n * FANOUT + k;
					float box[4] = {NOTHING, NOTHING, NOTHING, NOTHING};
					if (child < below_count) {
						// The first of a node's children is always there, and no comparison prefers NaN to it
						const Node &from = below[child];
						box[0] = from.min_x[0][0], box[1] = from.min_y[0][0];
						box[2] = from.max_x[0][0], box[3] = from.max_y[0][0];
						for (uint32_t c = 1; c < FANOUT; c++) {
							box[0] = from.min_x[c / 4][c % 4] < box[0] ? from.min_x[c / 4][c % 4] : box[0];
							box[1] = from.min_y[c / 4][c % 4] < box[1] ? from.min_y[c / 4][c % 4] : box[1];
							box[2] = from.max_x[c / 4][c % 4] > box[2] ? from.max_x[c / 4][c % 4] : box[2];
							box[3] = from.max_y[c / 4][c % 4] > box[3] ? from.max_y[c / 4][c % 4] : box[3];
						}
					}
					here[n].min_x[k / 4][k % 4] = box[0];
					here[n].min_y[k / 4][k % 4] = box[1];
					here[n].max_x[k / 4][k % 4] = box[2];
					here[n].max_y[k / 4][k % 4] = box[3];
				}
			}
		});
	}
}

} // namespace vibespatial
