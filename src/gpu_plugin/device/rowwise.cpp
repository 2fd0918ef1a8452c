// Functions of one geometry, row by row: WKB goes up and is decoded into columns (vibe::RowsView), of which come a number for each row,
// or WKB again, written by the device.
#include "gpu_plugin/device/bulk.hpp"
#include "gpu_plugin/device/shapes.hpp"
#include "vibe/wkb.h"

namespace vibespatial {

namespace {

//! Pinned memory of a stream, by number; from the last one on that of the WKB
enum : size_t { PINNED_RESULTS, PINNED_VALUES, PINNED_BEGINS, PINNED_SHAPES };

class DeviceRowwise : public DeviceBulk {
public:
	DeviceRowwise(CudaEngine &engine, const BulkTask &task)
	    : DeviceBulk(engine, task), wkb(engine, stream, *memory, "rowwise", PINNED_SHAPES) {
	}

	uint8_t *Block(bool, size_t number) override {
		engine.UseDevice();
		return wkb.Block(number);
	}

	void Begin(const BulkInput &input) override {
		Start(input);
		rows = static_cast<uint32_t>(count);
		wkb.Upload(input.left->Shapes(), input.first, count, result.times);
		Record(COPIED);
		const auto view = Decode();
		if (task.kind == BulkTask::CENTROID) {
			Centroids(view);
		} else if (task.kind == BulkTask::FLIP) {
			size_t bytes = 0;
			for (size_t i = input.first; i < input.first + count; i++) {
				bytes += input.left->Shapes().Rows()[i].size;
			}
			auto flipped = view;
			std::swap(flipped.x, flipped.y);
			Encode(flipped, bytes);
		} else {
			Measure(view);
		}
		result.results = Read(PINNED_RESULTS, results, count);
		Record(READ);
	}

private:
	//! The columns, in memory that is enough for any rows of so many bytes: nobody waits for the number of vertices
	vibe::RowsView Decode() {
		constexpr size_t COLUMNS = 4;
		const size_t bytes = wkb.Bytes(), nodes = bytes / vibe::WKB_LEAST_MEMBER, rings = bytes / sizeof(uint32_t),
		             vertices = bytes / sizeof(vibe::Vec2);
		auto *counts = Zeros<vibe::i32>("rowwise counts", COLUMNS * (count + 1));
		auto *begins = Memory<vibe::i32>("rowwise begins", COLUMNS * (count + 1));
		auto of = [&](vibe::i32 *columns, size_t column) { return columns + column * (count + 1); };
		results = Memory<vibe::u8>("rowwise results", count);
		Launch("wkb_encode", "wkb_counts", count, wkb.Wkb(), wkb.Rows(), rows, of(counts, 0), of(counts, 1),
		       of(counts, 2), of(counts, 3), results);
		const vibe::i32 zero = 0;
		for (size_t column = 0; column < COLUMNS; column++) {
			engine.Algorithms().ExclusiveScan("exclusive_scan_i32", of(counts, column), of(begins, column), count + 1,
			                                  &zero, stream, *memory);
		}
		const vibe::WkbColumns columns {
		    Memory<vibe::u8>("rowwise types", nodes),      Memory<vibe::u32>("rowwise children", nodes),
		    Memory<vibe::u8>("rowwise families", nodes),   Memory<vibe::u32>("rowwise parts", nodes + 1),
		    Memory<vibe::u32>("rowwise rings", rings + 1), Memory<double>("rowwise x", vertices),
		    Memory<double>("rowwise y", vertices)};
		Launch("wkb_encode", "wkb_decode", count, wkb.Wkb(), wkb.Rows(), rows, results, of(begins, 0), of(begins, 1),
		       of(begins, 2), of(begins, 3), columns);
		return vibe::RowsView {reinterpret_cast<const vibe::u32 *>(of(begins, 0)),
		                       reinterpret_cast<const vibe::u32 *>(of(begins, 1)),
		                       columns.node_type,
		                       columns.node_children,
		                       columns.part_family,
		                       columns.part_ring,
		                       columns.ring_start,
		                       columns.x,
		                       columns.y};
	}

	void Measure(const vibe::RowsView &view) {
		auto *numbers = Memory<double>("rowwise numbers", count);
		if (task.kind == BulkTask::AREA) {
			Launch("point_constructive", "row_areas", count, view, rows, numbers);
		} else {
			const auto family = task.kind == BulkTask::LENGTH ? vibe::FAMILY_LINE : vibe::FAMILY_POLYGON;
			Launch("point_constructive", "row_lengths", count, view, rows, static_cast<uint32_t>(family), numbers);
		}
		Record(COMPUTED);
		result.numbers = Read(PINNED_VALUES, numbers, count);
	}

	void Centroids(const vibe::RowsView &view) {
		constexpr size_t POINT_BYTES = vibe::WKB_HEADER_BYTES + sizeof(vibe::Vec2);
		auto *x = Memory<double>("rowwise centroids", 2 * count), *y = x + count;
		auto *bytes = Memory<vibe::u8>("rowwise wkb out", count * POINT_BYTES);
		Launch("point_constructive", "row_centroids", count, view, rows, x, y);
		Launch("wkb_encode", "encode_points", count, x, y, rows, bytes);
		Record(COMPUTED);
		result.wkb = Read(PINNED_VALUES, bytes, count * POINT_BYTES);
		point_begins.resize(count + 1);
		for (size_t i = 0; i <= count; i++) {
			point_begins[i] = static_cast<int64_t>(i * POINT_BYTES);
		}
		result.wkb_begin = point_begins.data();
	}

	//! WKB of at most so many bytes
	void Encode(const vibe::RowsView &view, size_t most) {
		auto *sizes = Zeros<vibe::i64>("rowwise sizes", count + 1),
		     *begins = Memory<vibe::i64>("rowwise places", count + 1);
		auto *bytes = Memory<vibe::u8>("rowwise wkb out", most);
		const vibe::i64 zero = 0;
		Launch("wkb_encode", "wkb_sizes", count, view, rows, sizes);
		engine.Algorithms().ExclusiveScan("exclusive_scan_i64", sizes, begins, count + 1, &zero, stream, *memory);
		Launch("wkb_encode", "wkb_rows", count, view, rows, begins, bytes);
		Record(COMPUTED);
		result.wkb = Read(PINNED_VALUES, bytes, most);
		result.wkb_begin = reinterpret_cast<const int64_t *>(Read(PINNED_BEGINS, begins, count + 1));
	}

	DeviceShapes wkb;
	uint32_t rows = 0;
	vibe::u8 *results = nullptr;
	std::vector<int64_t> point_begins;
};

} // namespace

std::unique_ptr<GpuBulk> MakeRowwise(CudaEngine &engine, const BulkTask &task) {
	return std::make_unique<DeviceRowwise>(engine, task);
}

} // namespace vibespatial
