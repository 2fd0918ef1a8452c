#include "gpu_plugin/device/shapes.hpp"

#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/launch.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

using vibe::ShapeMemory;
using vibe::ShapeView;
using vibe::WkbRow;

static_assert(ShapeRows::BLOCK_BYTES == PinnedBlocks::BLOCK_BYTES, "blocks are there before a query asks");
static_assert(WkbLayout::STEP_BYTES == CopySlots::SLOT_BYTES, "a step goes through a slot");

static void Launch(CudaEngine &engine, DeviceStream &stream, const vibe::u8 *wkb, const WkbRow *rows, uint32_t count,
                   const ShapeView *packed, ShapeMemory shapes, uint32_t leave_empty, ShapeView *views, vibe::u32 *left,
                   vibe::u64 *left_count) {
	void *arguments[] = {Address(wkb),         Address(rows),  Address(count), Address(packed),    Address(shapes),
	                     Address(leave_empty), Address(views), Address(left),  Address(left_count)};
	engine.Launch("wkb_encode", "wkb_shapes", count, stream, arguments);
}

static void CopyPinned(DeviceStream &stream, void *to, const void *from, size_t bytes) {
	CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream.Handle()), "a copy to the device");
}

void DeviceShapes::Upload(const ShapeRows &rows, size_t first, size_t count_p, GpuTimes &times) {
	constexpr size_t BLOCK = ShapeRows::BLOCK_BYTES;
	count = static_cast<uint32_t>(count_p);
	// What was begun before and failed may still read the numbers of its rows
	stream.Synchronize();
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
	// A load of whole words may begin before the bytes that it is for, and end behind
	auto *bytes = Temporary<vibe::u8>(" wkb", wkb_bytes + 8);
	for (size_t at = 0; at < wkb_bytes; at += BLOCK) {
		const size_t block = first_block + at / BLOCK, size = std::min(BLOCK, wkb_bytes - at);
		if (rows.IsOwn(block)) {
			stream.CopyToDevice(bytes + at, rows.Block(block), size);
		} else {
			CopyPinned(stream, bytes + at, rows.Block(block), size);
		}
	}
	auto *numbers = static_cast<WkbRow *>(stream.Pinned(pinned, std::max<size_t>(count * sizeof(WkbRow), 1)));
	for (size_t i = 0; i < count; i++) {
		numbers[i] = rows.Rows()[first + i];
		if (numbers[i].size == WkbRow::PACKED) {
			numbers[i].begin -= static_cast<uint32_t>(packed_begin);
		} else {
			numbers[i].begin -= numbers[i].size > 0 ? static_cast<uint32_t>(first_block * BLOCK) : 0;
		}
	}
	auto *to = Temporary<WkbRow>(" rows", count);
	CopyPinned(stream, to, numbers, count * sizeof(WkbRow));
	wkb = bytes;
	wkb_rows = to;
	times.bytes_to_device += wkb_bytes + count * sizeof(WkbRow);
	packed = nullptr;
	if (packed_begin < packed_end) {
		UploadPacked(rows, packed_begin, packed_end, times);
	}
}

void DeviceShapes::UploadPacked(const ShapeRows &rows, size_t begin, size_t end, GpuTimes &times) {
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
		stream.CopyToDevice(data + used, piece->bytes.data(), piece->bytes.size());
		used += piece->bytes.size();
	}
	auto *to = Temporary<ShapeView>(" packed views", views.size());
	stream.CopyToDevice(to, views.data(), views.size() * sizeof(ShapeView));
	packed = to + before;
	times.bytes_to_device += bytes + views.size() * sizeof(ShapeView);
}

const ShapeView *DeviceShapes::Decode(bool leave_empty, vibe::u32 *left, vibe::u64 *left_count) {
	const size_t capacity = vibe::MostShapeBytes(wkb_bytes, count);
	shapes = ShapeMemory {Temporary<vibe::u8>(" shapes", capacity), Temporary<vibe::u64>(" used", 1), capacity};
	CheckCuda(cudaMemsetAsync(shapes.used, 0, sizeof(*shapes.used), stream.Handle()), "memory");
	auto *to = Temporary<ShapeView>(" views", count);
	Launch(engine, stream, wkb, wkb_rows, count, packed, shapes, leave_empty ? 1 : 0, to, left, left_count);
	views = to;
	return views;
}

void DeviceShapes::Read(PackedShapes &result) {
	uint64_t used = 0;
	stream.CopyFromDevice(&used, shapes.used, sizeof(used));
	result.bytes.resize(used);
	result.views.resize(count);
	stream.CopyFromDevice(result.bytes.data(), shapes.at, used);
	stream.CopyFromDevice(result.views.data(), views, count * sizeof(ShapeView));
	// From addresses to offsets
	const auto base = uintptr_t(0) - reinterpret_cast<uintptr_t>(shapes.at);
	for (auto &view : result.views) {
		view = PackedShapes::At(view, reinterpret_cast<const uint8_t *>(base)); // NOLINT: a difference
	}
}

void CudaEngine::ReadShapes(const ShapeRows &rows, PackedShapes &result, std::vector<uint32_t> &left) {
	GpuTimes times;
	Need({"wkb_encode"}, "shapes", times);
	UseDevice();
	auto held = CurrentMemory();
	auto lease = streams->Take();
	DeviceShapes shapes(*this, *lease, *held, "shapes", 0);
	auto list = held->Allocate((rows.Count() + 2) * sizeof(uint32_t), lease->View());
	auto *total = static_cast<vibe::u64 *>(list.data());
	auto *at = reinterpret_cast<vibe::u32 *>(total + 1);
	CheckCuda(cudaMemsetAsync(total, 0, sizeof(*total), lease->Handle()), "memory");
	shapes.Upload(rows, 0, rows.Count(), times);
	shapes.Decode(false, at, total);
	shapes.Read(result);
	uint64_t count = 0;
	lease->CopyFromDevice(&count, total, sizeof(count));
	left.resize(count);
	lease->CopyFromDevice(left.data(), at, count * sizeof(uint32_t));
}

namespace {

//! A group of a layout becomes shapes
class BuildGroup {
public:
	BuildGroup(CudaEngine &engine, DeviceStream &stream, DeviceMemory &memory, const GpuRows &rows, Parallel &parallel,
	           const WkbLayout::Group &group)
	    : engine(engine), stream(stream), memory(memory), rows(rows), parallel(parallel),
	      first(rows.layout->Begin(group.begin)), count(rows.layout->End(group.end - 1) - first), bytes(group.bytes),
	      numbers(rows.layout->numbers.data() + first) {
		auto &layout = *rows.layout;
		size_t step_bytes = 0;
		for (size_t number = group.begin; number < group.end; number++) {
			auto &part = layout.parts[number];
			// Small ones go together
			if (steps.empty() || !part.cuts.empty() || step_bytes + part.bytes > WkbLayout::STEP_BYTES) {
				steps.push_back(layout.Begin(number) - first);
				step_bytes = 0;
			}
			for (auto row : part.cuts) {
				steps.push_back(row - first);
			}
			step_bytes = part.cuts.empty() ? step_bytes + part.bytes : part.last_bytes;
			for (auto row : part.packed) {
				packed.push_back(static_cast<uint32_t>(row - first));
			}
		}
	}

	void Make(ShapeView *views, const std::function<void *(size_t bytes)> &allocate) {
		auto wkb = memory.Allocate(bytes + 8, stream.View());
		auto left = memory.Allocate(count * sizeof(uint32_t), stream.View());
		Write(static_cast<char *>(wkb.data()));
		CopyNumbers(numbers);
		// Counted first: no more memory is kept than they need
		auto counted = Run(wkb, nullptr, nullptr, 0, views, left);
		const uint64_t capacity = counted.used;
		counted = Run(wkb, nullptr, allocate(capacity), capacity, views, left);
		const size_t known = packed.size();
		packed.resize(known + counted.left);
		if (counted.left > 0) {
			stream.CopyFromDevice(packed.data() + known, left.data(), counted.left * sizeof(uint32_t));
		}
		if (!packed.empty()) {
			auto *shapes = Pack(allocate);
			Run(wkb, shapes, wkb.data(), 0, views, left);
		}
	}

private:
	//! What the kernel counts
	struct Counters {
		vibe::u64 used;
		vibe::u64 left;
	};

	//! The bytes, from where they are straight into what the device reads
	void Write(char *to) {
		parallel.For(steps.size(), [&](size_t step) {
			const size_t begin = steps[step], end = step + 1 < steps.size() ? steps[step + 1] : count;
			const size_t at = numbers[begin].begin, next = end < count ? numbers[end].begin : bytes;
			engine.UseDevice();
			stream.WriteToDevice(to + at, next - at, [&](char *slot) {
				for (size_t i = begin; i < end; i++) {
					if (numbers[i].size != WkbRow::PRESENT && numbers[i].size > 0) {
						std::memcpy(slot + (numbers[i].begin - at), rows.wkb[first + i].data, numbers[i].size);
					}
				}
			});
		});
	}
	void CopyNumbers(const WkbRow *from) {
		if (number_memory.size() == 0) {
			number_memory = memory.Allocate(count * sizeof(WkbRow), stream.View());
		}
		stream.CopyToDevice(number_memory.data(), from, count * sizeof(WkbRow), parallel);
	}
	//! Without `to` they are only counted
	Counters Run(const rmm::device_buffer &wkb, const ShapeView *shapes, void *to, uint64_t capacity, ShapeView *views,
	             rmm::device_buffer &left) {
		auto counters = memory.Allocate(sizeof(Counters), stream.View());
		auto *at = static_cast<Counters *>(counters.data());
		CheckCuda(cudaMemsetAsync(at, 0, sizeof(Counters), stream.Handle()), "memory");
		Launch(engine, stream, static_cast<const vibe::u8 *>(wkb.data()),
		       static_cast<const WkbRow *>(number_memory.data()), static_cast<uint32_t>(count), shapes,
		       ShapeMemory {static_cast<vibe::u8 *>(to), &at->used, capacity}, 0, views + first,
		       static_cast<vibe::u32 *>(left.data()), &at->left);
		Counters result {};
		stream.CopyFromDevice(&result, at, sizeof(result));
		return result;
	}
	//! Shapes of the rows that the CPU packs; from here on these are all that is asked for
	const ShapeView *Pack(const std::function<void *(size_t bytes)> &allocate) {
		constexpr size_t ROWS_PER_PIECE = 256;
		std::vector<PackedShapes> pieces((packed.size() + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE);
		parallel.For(pieces.size(), [&](size_t step) {
			for (size_t i = step * ROWS_PER_PIECE; i < std::min(packed.size(), (step + 1) * ROWS_PER_PIECE); i++) {
				rows.pack(first + packed[i], pieces[step]);
			}
		});
		size_t total = 0;
		for (auto &piece : pieces) {
			total += piece.bytes.size();
		}
		auto *to = static_cast<uint8_t *>(allocate(total));
		std::vector<ShapeView> views;
		for (auto &piece : pieces) {
			for (auto &view : piece.views) {
				views.push_back(PackedShapes::At(view, to));
			}
			stream.CopyToDevice(to, piece.bytes.data(), piece.bytes.size(), parallel);
			to += piece.bytes.size();
		}
		view_memory = memory.Allocate(views.size() * sizeof(ShapeView), stream.View());
		stream.CopyToDevice(view_memory.data(), views.data(), views.size() * sizeof(ShapeView), parallel);
		std::vector<WkbRow> asked(count, WkbRow {0, WkbRow::PRESENT});
		for (size_t i = 0; i < packed.size(); i++) {
			asked[packed[i]] = WkbRow {static_cast<uint32_t>(i), WkbRow::PACKED};
		}
		CopyNumbers(asked.data());
		return static_cast<const ShapeView *>(view_memory.data());
	}

	CudaEngine &engine;
	DeviceStream &stream;
	DeviceMemory &memory;
	const GpuRows &rows;
	Parallel &parallel;
	const size_t first;
	const size_t count;
	const size_t bytes;
	//! Of the rows from the first on
	const WkbRow *const numbers;
	std::vector<size_t> steps;
	std::vector<uint32_t> packed;
	rmm::device_buffer number_memory;
	rmm::device_buffer view_memory;
};

} // namespace

const ShapeView *MakeShapes(CudaEngine &engine, DeviceStream &stream, DeviceMemory &memory, const GpuRows &rows,
                            Parallel &parallel, const std::function<void *(size_t bytes)> &allocate, bool &has_points,
                            bool &has_large) {
	auto *views = static_cast<ShapeView *>(allocate(rows.count * sizeof(ShapeView)));
	for (auto &part : rows.layout->parts) {
		has_points = has_points || part.has_points;
		has_large = has_large || part.has_large;
	}
	for (auto &group : rows.layout->groups) {
		BuildGroup(engine, stream, memory, rows, parallel, group).Make(views, allocate);
	}
	return views;
}

} // namespace vibespatial
