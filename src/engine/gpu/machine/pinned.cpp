#include "engine/gpu/machine/pinned.hpp"

#include "engine/gpu/machine/neighbours.hpp"
#include "engine/gpu/machine/net_rings.hpp"
#include "engine/gpu/machine/shapes.hpp"

#include <algorithm>
#include <limits>

namespace vibespatial {

//! Pinned tables take this share of the device's memory at most: queries need some, too
static constexpr uint64_t SHARE_OF_PINS = 3, ALL_SHARES = 4;
//! Bits of a code on the curve
static constexpr int CODE_BITS = 32;
//! A segment that the estimate has no room for has so many rows at least
static constexpr uint64_t LEAST_ROWS = 1024;

bool PinnedNumbers::Fit(const PinnedRows &rows, PinnedNumbers &numbers) {
	size_t most = 1;
	for (size_t i = 0; i < rows.Segments(); i++) {
		most = std::max(most, rows.Count(i));
	}
	numbers = PinnedNumbers();
	while (numbers.row_bits < 31 && size_t(1) << numbers.row_bits < most) {
		numbers.row_bits++;
	}
	return most <= size_t(1) << numbers.row_bits && rows.Segments() << numbers.row_bits <= size_t(1) << 32;
}

vibe::PinnedFilter MachinePinnedRows::Filter(size_t number, const PinnedTerms &terms) const {
	if (terms.size() > vibe::PinnedFilter::MAX_RANGES) {
		throw GpuError("a filter of more ranges than a kernel takes");
	}
	vibe::PinnedFilter filter {};
	const auto &segment = segments[number];
	for (auto &term : terms) {
		filter.ranges[filter.count++] = vibe::PinnedRange {segment.values[term.column].at,
		                                                   segment.nulls[term.column].at,
		                                                   term.low,
		                                                   term.high,
		                                                   widths[term.column],
		                                                   static_cast<vibe::u8>(term.null_passes),
		                                                   static_cast<vibe::u8>(term.ends_clause)};
	}
	return filter;
}

MachinePinned::MachinePinned(MachinePins &pins, MachineFactory machines_p, const PinnedLayout &layout)
    : pins(pins), machines(std::move(machines_p)), expected_rows(layout.rows),
      rows(std::make_shared<MachinePinnedRows>()), last_use(pins.NextUse()) {
	rows->widths = layout.widths;
}

template <class T>
MachineArray<T> MachinePinned::New(Machine &on, uint64_t count) {
	pins.MakeRoom(count * sizeof(T));
	auto array = on.New<T>(count);
	bytes += count * sizeof(T);
	return array;
}

PinnedSegment MachinePinned::NewSegment(size_t capacity) {
	PinnedSegment segment;
	segment.capacity = capacity;
	for (auto width : rows->widths) {
		segment.values.push_back(New<vibe::u8>(capacity * width));
		segment.nulls.emplace_back();
	}
	return segment;
}

size_t MachinePinned::SegmentWithRoom() {
	auto &segments = rows->segments;
	if (last_points == NONE || segments[last_points].count == segments[last_points].capacity) {
		const uint64_t most = machine->limits.pinned_rows, so_far = row_count;
		auto segment =
		    NewSegment(std::min(most, std::max(LEAST_ROWS, expected_rows > so_far ? expected_rows - so_far : 0)));
		segment.points = New<vibe::Vec2>(segment.capacity);
		last_points = segments.size();
		segments.push_back(std::move(segment));
	}
	return last_points;
}

void MachinePinned::AddColumns(PinnedSegment &segment, const PinnedInput &input, size_t begin, size_t size) {
	for (size_t i = 0; i < rows->widths.size(); i++) {
		const auto &column = input.columns[i];
		const size_t width = rows->widths[i];
		machine->Put(segment.values[i].at + segment.count * width, column.values + begin * width, size * width);
		if (!column.nulls) {
			if (segment.nulls[i].at) {
				machine->Zero(segment.nulls[i].at + segment.count, size);
			}
			continue;
		}
		if (!segment.nulls[i].at) {
			segment.nulls[i] = New<vibe::u8>(segment.capacity);
			machine->Zero(segment.nulls[i].at, segment.capacity);
		}
		machine->Put(segment.nulls[i].at + segment.count, column.nulls + begin, size);
	}
	segment.count += size;
	row_count += size;
}

void MachinePinned::AddPoints(const PinnedInput &input) {
	for (size_t i = 0; i < input.count; i++) {
		const auto &point = input.points[i];
		if (point.x == point.x) {
			extent.min_x = std::min(extent.min_x, point.x);
			extent.min_y = std::min(extent.min_y, point.y);
			extent.max_x = std::max(extent.max_x, point.x);
			extent.max_y = std::max(extent.max_y, point.y);
		}
	}
	for (size_t begin = 0; begin < input.count;) {
		auto &segment = rows->segments[SegmentWithRoom()];
		const size_t size = std::min(input.count - begin, segment.capacity - segment.count);
		machine->Put(segment.points.at + segment.count, input.points + begin, size * sizeof(vibe::Vec2));
		segment.present += size_t(std::count_if(input.points + begin, input.points + begin + size,
		                                        [](const vibe::Vec2 &point) { return point.x == point.x; }));
		AddColumns(segment, input, begin, size);
		begin += size;
	}
}

void MachinePinned::AddShapes(const PinnedInput &input) {
	Serial serial;
	WkbLayout layout(input.count);
	for (size_t part = 0; part < layout.parts.size(); part++) {
		layout.Read(part, input.wkb);
	}
	layout.MakeGroups(serial);
	GpuRows device_rows;
	device_rows.count = input.count;
	device_rows.wkb = input.wkb;
	device_rows.layout = &layout;
	auto segment = NewSegment(input.count);
	BuildShapes shapes(
	    *machine,
	    [&](size_t size) {
		    const auto array = New<vibe::u8>(std::max<size_t>(size, 8));
		    segment.held.push_back(array.held);
		    return array.at;
	    },
	    device_rows, serial);
	AddLeftShapes(shapes.LeftRows(), input.wkb, input.pack, serial,
	              [&](const std::vector<PackedShapes> &pieces) { shapes.Add(pieces, serial); });
	segment.shapes = shapes.Views();
	segment.kind = PinnedKind {true, shapes.has_points, shapes.has_large};
	AddColumns(segment, input, 0, input.count);
	machine->Synchronize();
	rows->segments.push_back(std::move(segment));
}

size_t MachinePinned::Add(const PinnedInput &input) {
	std::lock_guard<std::mutex> guard(lock);
	if (!machine) {
		machine = machines();
	}
	machine->Use();
	if (input.points) {
		AddPoints(input);
	} else {
		AddShapes(input);
	}
	return rows->segments.size() - 1;
}

void MachinePinned::Sort(PinnedSegment &segment) {
	const auto count = static_cast<vibe::u32>(segment.count);
	const uint64_t before = bytes;
	const auto order = machine->New<vibe::i32>(count);
	{
		const auto keys = machine->New<vibe::u64>(count), sorted_keys = machine->New<vibe::u64>(count);
		const auto unsorted = machine->New<vibe::i32>(count);
		machine->Launch("pinned_rows", "point_codes", count, static_cast<const vibe::Vec2 *>(segment.points.at), count,
		                extent, keys.at, unsorted.at);
		machine->Sort(keys.at, sorted_keys.at, unsorted.at, order.at, count, CODE_BITS);
		machine->Synchronize();
	}
	PinnedSegment sorted;
	sorted.count = sorted.capacity = count;
	sorted.present = segment.present;
	sorted.points = New<vibe::Vec2>(count);
	const auto *by = static_cast<const vibe::i32 *>(order.at);
	machine->Launch("pinned_rows", "gather_points", count, static_cast<const vibe::Vec2 *>(segment.points.at), by,
	                count, sorted.points.at);
	auto gather = [&](const MachineArray<vibe::u8> &from, vibe::u32 width) {
		auto to = New<vibe::u8>(uint64_t(count) * width);
		machine->Launch("pinned_rows", "gather_values", count, static_cast<const vibe::u8 *>(from.at), width, by, count,
		                to.at);
		return to;
	};
	for (size_t i = 0; i < rows->widths.size(); i++) {
		sorted.values.push_back(gather(segment.values[i], rows->widths[i]));
		sorted.nulls.push_back(segment.nulls[i].at ? gather(segment.nulls[i], 1) : MachineArray<vibe::u8>());
	}
	machine->Synchronize();
	const uint64_t added = bytes - before;
	uint64_t freed = segment.points.count * sizeof(vibe::Vec2);
	for (size_t i = 0; i < rows->widths.size(); i++) {
		freed += segment.values[i].count + segment.nulls[i].count;
	}
	segment = std::move(sorted);
	bytes = before + added - freed;
}

void MachinePinned::Finish(const std::function<void()> &poll, GpuTimes &times) {
	std::lock_guard<std::mutex> guard(lock);
	if (machine) {
		machine->Use();
		const auto begin = std::chrono::steady_clock::now();
		for (auto &segment : rows->segments) {
			if (poll) {
				poll();
			}
			if (!segment.shapes) {
				Sort(segment);
			}
		}
		times.kernel_ms += machine->EndStep(begin);
		machine->AddBytes(times);
		machine.reset();
	}
	is_finished = true;
}

std::shared_ptr<const PinnedRows> MachinePinned::Use() {
	std::lock_guard<std::mutex> guard(lock);
	last_use = pins.NextUse();
	return is_finished ? std::shared_ptr<const PinnedRows>(rows) : nullptr;
}

namespace {

class MachinePinnedReader : public PinnedReader {
public:
	MachinePinnedReader(std::unique_ptr<Machine> machine_p, std::shared_ptr<const MachinePinnedRows> rows_p)
	    : machine(std::move(machine_p)), rows(std::move(rows_p)) {
	}

	void Read(const PinnedOutput &to) override {
		machine->Use();
		const auto &segment = rows->segments[to.segment];
		if (to.points) {
			machine->Get(to.points, segment.points.at + to.begin, to.count * sizeof(vibe::Vec2));
		}
		for (auto &column : to.columns) {
			const size_t width = rows->widths[column.number];
			machine->Get(column.values, segment.values[column.number].at + to.begin * width, to.count * width);
			if (const auto *nulls = segment.nulls[column.number].at) {
				machine->Get(column.nulls, nulls + to.begin, to.count);
			} else {
				std::fill(column.nulls, column.nulls + to.count, uint8_t(0));
			}
		}
	}
	void ReadPassing(size_t segment, const PinnedTerms &filter, uint8_t *to) override {
		machine->Use();
		const auto count = static_cast<vibe::u32>(rows->Count(segment));
		auto *passes = machine->Temporary<vibe::u8>("passing rows", count);
		machine->Launch("pinned_rows", "passing_rows", count, rows->Filter(segment, filter), count, passes);
		machine->Get(to, passes, count);
	}
	void AddBytes(GpuTimes &times) override {
		machine->AddBytes(times);
	}

private:
	const std::unique_ptr<Machine> machine;
	const std::shared_ptr<const MachinePinnedRows> rows;
};

} // namespace

std::unique_ptr<PinnedReader> MachinePinned::NewReader(std::shared_ptr<const PinnedRows> rows_p) {
	return std::make_unique<MachinePinnedReader>(machines(), std::static_pointer_cast<const MachinePinnedRows>(rows_p));
}

PinnedTree MachinePinned::MakeTree(Machine &on, const PinnedSegment &segment, uint64_t &tree_bytes) {
	PinnedTree tree;
	const auto points = static_cast<vibe::u32>(segment.present);
	tree.levels = vibe::NodeLevels::Of((points + vibe::NODE_FANOUT - 1) / vibe::NODE_FANOUT);
	tree.nodes = New<vibe::PackedNode>(on, tree.levels.NodeCount());
	tree_bytes += tree.nodes.count * sizeof(vibe::PackedNode);
	auto *nodes = tree.nodes.at->children;
	for (vibe::u32 level = 0; level < tree.levels.count; level++) {
		const auto begin = tree.levels.begin[level], count = tree.levels.begin[level + 1] - begin;
		const uint64_t children = uint64_t(count) * vibe::NODE_FANOUT;
		if (level == 0) {
			on.Launch("pinned_neighbours", "pinned_leaves", children,
			          static_cast<const vibe::Vec2 *>(segment.points.at), points, count, nodes);
		} else {
			const auto below = tree.levels.begin[level - 1];
			on.Launch("indexing", "pack_level", children, nodes, below, begin - below, begin, count);
		}
	}
	return tree;
}

std::unique_ptr<GpuSearch> MachinePinned::NewSearch(const PinnedSearchInput &input) {
	auto on = machines();
	auto searched = std::static_pointer_cast<const MachinePinnedRows>(input.rows);
	{
		std::lock_guard<std::mutex> guard(searched->made_lock);
		if (searched->trees.empty()) {
			std::vector<PinnedTree> trees;
			uint64_t tree_bytes = 0;
			try {
				for (const auto &segment : searched->segments) {
					trees.push_back(MakeTree(*on, segment, tree_bytes));
				}
				on->Synchronize(); // others read them
			} catch (...) {
				bytes -= tree_bytes;
				throw;
			}
			searched->trees = std::move(trees);
		}
	}
	return MakePinnedSearch(std::move(on), std::move(searched), input);
}

std::shared_ptr<const GpuRings> MachinePinned::Rings(const std::shared_ptr<const PinnedRows> &of) {
	const auto &held = static_cast<const MachinePinnedRows &>(*of);
	std::lock_guard<std::mutex> guard(held.made_lock);
	return held.rings;
}

std::shared_ptr<const GpuRings> MachinePinned::SendRings(const std::shared_ptr<const PinnedRows> &of,
                                                         const OverlayNet &net, Parallel &parallel, GpuTimes &times) {
	const auto &held = static_cast<const MachinePinnedRows &>(*of);
	std::lock_guard<std::mutex> guard(held.made_lock);
	if (!held.rings) {
		const auto on = machines();
		const auto begin = std::chrono::steady_clock::now();
		auto vertices = New<vibe::Vec2>(*on, net.vertex_count);
		try {
			WriteRings(net, *on, vertices.at, parallel);
		} catch (...) {
			bytes -= net.vertex_count * sizeof(vibe::Vec2);
			throw;
		}
		times.to_device_ms += on->EndStep(begin);
		on->AddBytes(times);
		held.rings = std::make_shared<const MachineRings>(std::move(vertices));
	}
	return held.rings;
}

bool MachinePinned::IsResident() const {
	std::lock_guard<std::mutex> guard(lock);
	return is_finished && rows;
}

uint64_t MachinePinned::Evict() {
	if (!is_finished) {
		return 0; // rows are being added, maybe by this thread, under the lock
	}
	std::lock_guard<std::mutex> guard(lock);
	if (!rows || rows.use_count() > 1) {
		return 0;
	}
	rows.reset();
	return bytes.exchange(0);
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//
std::shared_ptr<GpuPinned> MachinePins::New(MachineFactory machines, const PinnedLayout &layout) {
	auto made = std::make_shared<MachinePinned>(*this, std::move(machines), layout);
	std::lock_guard<std::mutex> guard(lock);
	tables.remove_if([](const std::weak_ptr<MachinePinned> &table) { return table.expired(); });
	tables.push_back(made);
	return made;
}

std::vector<std::shared_ptr<MachinePinned>> MachinePins::All() {
	std::lock_guard<std::mutex> guard(lock);
	std::vector<std::shared_ptr<MachinePinned>> all;
	for (auto &table : tables) {
		if (auto held = table.lock()) {
			all.push_back(std::move(held));
		}
	}
	// Others use them meanwhile
	std::vector<std::pair<uint64_t, std::shared_ptr<MachinePinned>>> by_use;
	by_use.reserve(all.size());
	for (auto &table : all) {
		by_use.emplace_back(table->LastUse(), table);
	}
	std::sort(by_use.begin(), by_use.end());
	std::transform(by_use.begin(), by_use.end(), all.begin(), [](const auto &entry) { return entry.second; });
	return all;
}

uint64_t MachinePins::FreeOne(const std::vector<std::shared_ptr<MachinePinned>> &all) {
	for (auto &table : all) {
		if (auto freed = table->Evict()) {
			return freed;
		}
	}
	return 0;
}

uint64_t MachinePins::Free() {
	return FreeOne(All());
}

void MachinePins::MakeRoom(uint64_t bytes) {
	const auto all = All();
	uint64_t used = 0;
	for (auto &table : all) {
		used += table->Bytes();
	}
	const uint64_t device = limit();
	const uint64_t most = device == 0 ? std::numeric_limits<uint64_t>::max() : device / ALL_SHARES * SHARE_OF_PINS;
	while (used + bytes > most) {
		const auto freed = FreeOne(all);
		if (freed == 0) {
			throw GpuMemoryError("pinned tables take three quarters of the device's memory at most, " +
			                     std::to_string(most) + " bytes, and need " + std::to_string(used + bytes) +
			                     ": SET vibe_gpu_memory_limit, or vibe_unpin others");
		}
		used -= std::min(used, freed);
	}
	used += bytes;
	for (auto before = peak.load(); before < used && !peak.compare_exchange_weak(before, used);) {
	}
}

void MachinePins::Report(std::vector<GpuMemoryRow> &rows) {
	uint64_t bytes = 0, resident = 0;
	for (auto &table : All()) {
		bytes += table->Bytes();
		resident += table->IsResident() ? 1 : 0;
	}
	rows.push_back(
	    GpuMemoryRow {"pinned tables", "vibe_pin: count is how many are on the device", bytes, peak.load(), resident});
}

} // namespace vibespatial
