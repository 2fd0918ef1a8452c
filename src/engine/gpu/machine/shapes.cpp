#include "engine/gpu/machine/shapes.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

using vibe::ShapeMemory;
using vibe::ShapeView;
using vibe::WkbRow;

static_assert(WkbLayout::STEP_BYTES <= Machine::MOST_WRITTEN, "one Write() sends a step");

static void LaunchShapes(Machine &machine, const vibe::u8 *wkb, const WkbRow *rows, uint32_t count,
                         const ShapeView *packed, ShapeMemory shapes, bool leave_empty, ShapeView *views,
                         vibe::u32 *left, vibe::u64 *left_count) {
	machine.Launch("wkb_codec", "wkb_shapes", count, wkb, rows, count, packed, shapes,
	               static_cast<uint32_t>(leave_empty), views, left, left_count);
}

void MachineShapes::Upload(const ShapeRows &rows, size_t first, size_t count_p) {
	constexpr size_t BLOCK = ShapeRows::BLOCK_BYTES;
	count = static_cast<uint32_t>(count_p);
	// A batch that was started and failed may still read its row numbers
	machine.Synchronize();
	// The blocks and the packed shapes of these rows
	size_t begin = SIZE_MAX, end = 0, packed_begin = SIZE_MAX, packed_end = 0;
	for (size_t i = first; i < first + count; i++) {
		const auto &row = rows.Rows()[i];
		if (row.size == WkbRow::PACKED) {
			packed_begin = std::min<size_t>(packed_begin, row.begin);
			packed_end = row.begin + 1;
		} else if (row.size > 0) {
			begin = std::min<size_t>(begin, row.begin);
			end = row.begin + row.size;
		}
	}
	const size_t first_block = begin < end ? begin / BLOCK : 0;
	wkb_bytes = begin < end ? end - first_block * BLOCK : 0;
	// Loads of whole words may begin before the WKB that they are for, and end behind it
	auto *bytes = Temporary<vibe::u8>(" wkb", wkb_bytes + 8);
	for (size_t at = 0; at < wkb_bytes; at += BLOCK) {
		const size_t block = first_block + at / BLOCK, size = std::min(BLOCK, wkb_bytes - at);
		if (rows.IsOwn(block)) {
			machine.Put(bytes + at, rows.Block(block), size);
		} else {
			machine.PutPinned(bytes + at, rows.Block(block), size);
		}
	}
	auto *numbers = static_cast<WkbRow *>(machine.Pinned(pinned, std::max<size_t>(count * sizeof(WkbRow), 1)));
	for (size_t i = 0; i < count; i++) {
		numbers[i] = rows.Rows()[first + i];
		if (numbers[i].size == WkbRow::PACKED) {
			numbers[i].begin -= static_cast<uint32_t>(packed_begin);
		} else {
			numbers[i].begin -= numbers[i].size > 0 ? static_cast<uint32_t>(first_block * BLOCK) : 0;
		}
	}
	auto *to = Temporary<WkbRow>(" rows", count);
	machine.PutPinned(to, numbers, count * sizeof(WkbRow));
	wkb = bytes;
	wkb_rows = to;
	packed = nullptr;
	if (packed_begin < packed_end) {
		UploadPacked(rows, packed_begin, packed_end);
	}
}

void MachineShapes::UploadPacked(const ShapeRows &rows, size_t begin, size_t end) {
	// Only the pieces that have some of them
	std::vector<const PackedShapes *> wanted;
	size_t bytes = 0, at = 0, before = 0;
	for (auto &piece : rows.packed) {
		const size_t next = at + piece.views.size();
		if (at < end && next > begin) {
			before = wanted.empty() ? begin - at : before;
			wanted.push_back(&piece);
			bytes += piece.bytes.size();
		}
		at = next;
	}
	auto *data = Temporary<uint8_t>(" packed shapes", bytes);
	std::vector<ShapeView> views;
	size_t used = 0;
	for (auto *piece : wanted) {
		for (auto &view : piece->views) {
			views.push_back(PackedShapes::At(view, data + used));
		}
		machine.Put(data + used, piece->bytes.data(), piece->bytes.size());
		used += piece->bytes.size();
	}
	auto *to = Temporary<ShapeView>(" packed views", views.size());
	machine.Put(to, views.data(), views.size() * sizeof(ShapeView));
	packed = to + before;
}

const ShapeView *MachineShapes::Decode(bool leave_empty, vibe::u32 *left, vibe::u64 *left_count) {
	const size_t capacity = vibe::MostShapeBytes(wkb_bytes, count);
	auto *memory = Temporary<vibe::u8>(" shapes", capacity);
	auto *used = machine.TemporaryZeros<vibe::u64>(name + " used", 1);
	auto *views = Temporary<ShapeView>(" views", count);
	LaunchShapes(machine, wkb, wkb_rows, count, packed, ShapeMemory {memory, used, capacity}, leave_empty, views, left,
	             left_count);
	return views;
}

namespace {

//! The shapes of one group of a layout
class BuildGroup {
public:
	BuildGroup(Machine &machine, const GpuRows &rows, Parallel &parallel, const WkbLayout::Group &group)
	    : machine(machine), rows(rows), parallel(parallel), first(rows.layout->Begin(group.begin)),
	      count(rows.layout->End(group.end - 1) - first), bytes(group.bytes),
	      numbers(rows.layout->numbers.data() + first) {
		auto &layout = *rows.layout;
		size_t step_bytes = 0;
		for (size_t number = group.begin; number < group.end; number++) {
			auto &part = layout.parts[number];
			// Small parts share a step
			if (steps.empty() || !part.cuts.empty() || step_bytes + part.bytes > WkbLayout::STEP_BYTES) {
				steps.push_back(layout.Begin(number) - first);
				step_bytes = 0;
			}
			for (auto row : part.cuts) {
				steps.push_back(row - first);
			}
			step_bytes = part.cuts.empty() ? step_bytes + part.bytes : part.last_bytes;
		}
	}

	//! Adds the rows that the device could not read to `left_rows`
	void Make(ShapeView *views, const MachineMemory &allocate, std::vector<uint32_t> &left_rows) {
		const auto wkb = machine.New<vibe::u8>(bytes + 8);
		const auto left = machine.New<vibe::u32>(count);
		const auto device_numbers = machine.New<WkbRow>(count);
		Write(wkb.at);
		machine.Put(device_numbers.at, numbers, count * sizeof(WkbRow), parallel);
		auto run = [&](void *to, uint64_t capacity) {
			const auto counters = machine.NewZeros<Counters>(1);
			LaunchShapes(machine, wkb.at, device_numbers.at, static_cast<uint32_t>(count), nullptr,
			             ShapeMemory {static_cast<vibe::u8 *>(to), &counters.at->used, capacity}, false, views + first,
			             left.at, &counters.at->left);
			return machine.Value(counters.at);
		};
		// The first run counts, so that the build side keeps no more memory than the shapes need
		const uint64_t capacity = run(nullptr, 0).used;
		const auto counted = run(allocate(capacity), capacity);
		const size_t known = left_rows.size();
		left_rows.resize(known + counted.left);
		machine.Get(left_rows.data() + known, left.at, counted.left * sizeof(uint32_t));
		for (size_t i = known; i < left_rows.size(); i++) {
			left_rows[i] += static_cast<uint32_t>(first);
		}
	}

private:
	//! Counters of the kernel
	struct Counters {
		vibe::u64 used;
		vibe::u64 left;
	};

	//! Each thread copies WKB straight into memory that the device reads
	void Write(vibe::u8 *to) {
		parallel.For(steps.size(), [&](size_t step) {
			const size_t begin = steps[step], end = step + 1 < steps.size() ? steps[step + 1] : count;
			const size_t at = numbers[begin].begin, next = end < count ? numbers[end].begin : bytes;
			machine.Use();
			machine.Write(to + at, next - at, [&](void *slot) {
				for (size_t i = begin; i < end; i++) {
					if (numbers[i].size != WkbRow::PRESENT && numbers[i].size > 0) {
						std::memcpy(static_cast<char *>(slot) + (numbers[i].begin - at), rows.wkb[first + i].data,
						            numbers[i].size);
					}
				}
			});
		});
	}

	Machine &machine;
	const GpuRows &rows;
	Parallel &parallel;
	const size_t first;
	const size_t count;
	const size_t bytes;
	//! Of the rows from the first on
	const WkbRow *const numbers;
	std::vector<size_t> steps;
};

} // namespace

BuildShapes::BuildShapes(Machine &machine, MachineMemory allocate, const GpuRows &rows, Parallel &parallel)
    : machine(machine), allocate(std::move(allocate)) {
	views = static_cast<ShapeView *>(this->allocate(rows.count * sizeof(ShapeView)));
	for (auto &part : rows.layout->parts) {
		has_points = has_points || part.has_points;
		has_large = has_large || part.has_large;
		left_rows.insert(left_rows.end(), part.packed.begin(), part.packed.end());
	}
	for (auto &group : rows.layout->groups) {
		BuildGroup(machine, rows, parallel, group).Make(views, this->allocate, left_rows);
	}
	std::sort(left_rows.begin(), left_rows.end());
}

void BuildShapes::Add(const std::vector<PackedShapes> &pieces, Parallel &parallel) {
	size_t total = 0, added = 0;
	for (auto &piece : pieces) {
		total += piece.bytes.size();
		added += piece.views.size();
	}
	if (added == 0) {
		return;
	}
	auto *to = static_cast<uint8_t *>(allocate(total));
	std::vector<ShapeView> packed;
	for (auto &piece : pieces) {
		for (auto &view : piece.views) {
			packed.push_back(PackedShapes::At(view, to));
		}
		machine.Put(to, piece.bytes.data(), piece.bytes.size(), parallel);
		to += piece.bytes.size();
	}
	const auto device_packed = machine.New<ShapeView>(added);
	machine.Put(device_packed.at, packed.data(), added * sizeof(ShapeView), parallel);
	// The kernel puts the views of these rows in their places, and passes over the rows between them
	const size_t first = left_rows[next], count = left_rows[next + added - 1] - first + 1;
	std::vector<WkbRow> numbers(count, WkbRow {0, WkbRow::PRESENT});
	for (size_t i = 0; i < added; i++) {
		numbers[left_rows[next + i] - first] = WkbRow {static_cast<uint32_t>(i), WkbRow::PACKED};
	}
	next += added;
	const auto device_numbers = machine.New<WkbRow>(count);
	machine.Put(device_numbers.at, numbers.data(), count * sizeof(WkbRow), parallel);
	const auto unused = machine.NewZeros<vibe::u64>(1);
	LaunchShapes(machine, nullptr, device_numbers.at, static_cast<uint32_t>(count), device_packed.at,
	             ShapeMemory {reinterpret_cast<vibe::u8 *>(unused.at), unused.at, 0}, false, views + first, nullptr,
	             nullptr);
	machine.Synchronize();
}

} // namespace vibespatial
