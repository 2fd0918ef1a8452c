// Functions of one geometry, row by row: the device decodes WKB into columns (vibe::RowsView), and makes of them a number for each
// row, or WKB again.
#include "engine/gpu/machine/scalar.hpp"
#include "engine/gpu/machine/shapes.hpp"
#include "vibe/hull.h"
#include "vibe/simplify.h"

namespace vibespatial {

namespace {

//! Numbers of pinned memory; from the last one on those of the WKB
enum : size_t { PINNED_RESULTS, PINNED_VALUES, PINNED_BEGINS, PINNED_SHAPES };

class Rowwise : public MachineScalarBatch {
public:
	Rowwise(std::unique_ptr<Machine> machine_p, const ScalarTask &task)
	    : MachineScalarBatch(std::move(machine_p), task), wkb(*machine, "rowwise", PINNED_SHAPES) {
	}

	uint8_t *Block(bool, size_t number) override {
		machine->Use();
		return wkb.Block(number);
	}

	void Begin(const ScalarInput &input) override {
		Start(input);
		rows = static_cast<uint32_t>(count);
		wkb.Upload(input.left->Shapes(), input.first, count);
		auto *tolerances = machine->Temporary<double>("rowwise tolerances", input.limits ? count : 0);
		if (input.limits) {
			Put(tolerances, input.limits + input.first, count);
		}
		machine->Record(COPIED);
		const auto view = Decode();
		unread = nullptr;
		if (task.kind == ScalarTask::CENTROID) {
			Centroids(view);
		} else if (task.kind == ScalarTask::FLIP) {
			auto flipped = view;
			std::swap(flipped.x, flipped.y);
			Encode(flipped, WkbBytes(input));
		} else if (task.kind == ScalarTask::HULL) {
			Hulls(view, WkbBytes(input));
		} else if (task.kind == ScalarTask::SIMPLIFY) {
			Simplify(view, tolerances, WkbBytes(input));
		} else {
			Measure(view);
		}
		result.results = Read(PINNED_RESULTS, results, count);
		machine->Record(READ);
	}

	const ScalarResult &Finish() override {
		if (unread) {
			// How long they are is known by now
			machine->Use();
			machine->Await(READ);
			result.wkb = Read(PINNED_VALUES, unread, static_cast<size_t>(result.wkb_begin[count]));
			machine->Record(READ);
			unread = nullptr;
		}
		return MachineScalarBatch::Finish();
	}

private:
	size_t WkbBytes(const ScalarInput &input) const {
		size_t bytes = 0;
		for (size_t i = input.first; i < input.first + count; i++) {
			bytes += input.left->Shapes().Rows()[i].size;
		}
		return bytes;
	}

	//! The columns, in memory that is enough for any rows of so many bytes, so that nothing waits for the number of vertices
	vibe::RowsView Decode() {
		constexpr size_t COLUMNS = 4;
		const size_t bytes = wkb.Bytes(), nodes = bytes / vibe::WKB_LEAST_MEMBER, rings = MostRings(),
		             vertices = MostVertices();
		auto *counts = machine->TemporaryZeros<vibe::i32>("rowwise counts", COLUMNS * (count + 1));
		auto *begins = machine->Temporary<vibe::i32>("rowwise begins", COLUMNS * (count + 1));
		auto of = [&](vibe::i32 *columns, size_t column) { return columns + column * (count + 1); };
		results = machine->Temporary<vibe::u8>("rowwise results", count);
		machine->Launch("wkb_codec", "wkb_counts", count, wkb.Wkb(), wkb.Rows(), rows, of(counts, 0), of(counts, 1),
		                of(counts, 2), of(counts, 3), results);
		for (size_t column = 0; column < COLUMNS; column++) {
			machine->Scan(of(counts, column), of(begins, column), count + 1);
		}
		const vibe::WkbColumns columns {machine->Temporary<vibe::u8>("rowwise types", nodes),
		                                machine->Temporary<vibe::u32>("rowwise children", nodes),
		                                machine->Temporary<vibe::u8>("rowwise families", nodes),
		                                machine->Temporary<vibe::u32>("rowwise parts", nodes + 1),
		                                machine->Temporary<vibe::u32>("rowwise rings", rings + 1),
		                                machine->Temporary<double>("rowwise x", vertices),
		                                machine->Temporary<double>("rowwise y", vertices)};
		row_vertex = of(begins, 3);
		machine->Launch("wkb_codec", "wkb_decode", count, wkb.Wkb(), wkb.Rows(), rows, results, of(begins, 0),
		                of(begins, 1), of(begins, 2), row_vertex, columns);
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

	size_t MostRings() const {
		return wkb.Bytes() / sizeof(uint32_t);
	}
	size_t MostVertices() const {
		return wkb.Bytes() / sizeof(vibe::Vec2);
	}

	void Measure(const vibe::RowsView &view) {
		auto *numbers = machine->Temporary<double>("rowwise numbers", count);
		if (task.kind == ScalarTask::AREA) {
			machine->Launch("measures", "row_areas", count, view, rows, numbers);
		} else {
			const auto family = task.kind == ScalarTask::LENGTH ? vibe::FAMILY_LINE : vibe::FAMILY_POLYGON;
			machine->Launch("measures", "row_lengths", count, view, rows, static_cast<uint32_t>(family), numbers);
		}
		machine->Record(COMPUTED);
		result.numbers = Read(PINNED_VALUES, numbers, count);
	}

	void Centroids(const vibe::RowsView &view) {
		constexpr size_t POINT_BYTES = vibe::WKB_HEADER_BYTES + sizeof(vibe::Vec2);
		auto *x = machine->Temporary<double>("rowwise centroids", 2 * count), *y = x + count;
		auto *bytes = machine->Temporary<vibe::u8>("rowwise wkb out", count * POINT_BYTES);
		machine->Launch("measures", "row_centroids", count, view, rows, x, y);
		machine->Launch("wkb_codec", "encode_points", count, x, y, rows, bytes);
		machine->Record(COMPUTED);
		result.wkb = Read(PINNED_VALUES, bytes, count * POINT_BYTES);
		point_begins.resize(count + 1);
		for (size_t i = 0; i <= count; i++) {
			point_begins[i] = static_cast<int64_t>(i * POINT_BYTES);
		}
		result.wkb_begin = point_begins.data();
	}

	//! WKB of at most so many bytes
	void Encode(const vibe::RowsView &view, size_t most) {
		auto *sizes = machine->TemporaryZeros<vibe::i64>("rowwise sizes", count + 1),
		     *begins = machine->Temporary<vibe::i64>("rowwise places", count + 1);
		auto *bytes = machine->Temporary<vibe::u8>("rowwise wkb out", most);
		machine->Launch("wkb_codec", "wkb_sizes", count, view, rows, sizes);
		machine->Scan(sizes, begins, count + 1);
		machine->Launch("wkb_codec", "wkb_rows", count, view, rows, begins, bytes);
		machine->Record(COMPUTED);
		result.wkb = Read(PINNED_VALUES, bytes, most);
		result.wkb_begin = reinterpret_cast<const int64_t *>(Read(PINNED_BEGINS, begins, count + 1));
	}

	void Hulls(const vibe::RowsView &view, size_t wkb_bytes) {
		auto *vertices = machine->Temporary<vibe::u32>("rowwise outer", MostVertices()),
		     *corners = machine->Temporary<vibe::u32>("rowwise corners", MostVertices() + count),
		     *corner_counts = machine->Temporary<vibe::u32>("rowwise corner counts", count);
		auto *sizes = machine->TemporaryZeros<vibe::i64>("rowwise sizes", count + 1),
		     *begins = machine->Temporary<vibe::i64>("rowwise places", count + 1);
		auto *bytes = machine->Temporary<vibe::u8>("rowwise wkb out", vibe::MostHullBytes(wkb_bytes, count));
		machine->Launch("constructive", "hull_corners", count, view, rows, row_vertex, results, vertices, corners,
		                corner_counts, sizes);
		machine->Scan(sizes, begins, count + 1);
		machine->Launch("constructive", "hull_rows", count, view, rows, row_vertex, corners, corner_counts, begins,
		                bytes);
		ReadLater(begins, bytes);
	}

	void Simplify(const vibe::RowsView &view, const double *tolerances, size_t wkb_bytes) {
		auto *kept = machine->Temporary<vibe::u32>("rowwise kept", MostVertices()),
		     *ring_kept = machine->Temporary<vibe::u32>("rowwise ring kept", MostRings());
		auto *sizes = machine->TemporaryZeros<vibe::i64>("rowwise sizes", count + 1),
		     *begins = machine->Temporary<vibe::i64>("rowwise places", count + 1);
		// Nothing gets longer
		auto *bytes = machine->Temporary<vibe::u8>("rowwise wkb out", wkb_bytes);
		machine->Launch("constructive", "simplify_rings", count, view, rows, tolerances, results, kept, ring_kept,
		                sizes);
		machine->Scan(sizes, begins, count + 1);
		machine->Launch("constructive", "simplified_rows", count, view, rows, kept, ring_kept, begins, bytes);
		ReadLater(begins, bytes);
	}

	//! WKB that is shorter than the room for it: Finish() reads it
	void ReadLater(const vibe::i64 *begins, const vibe::u8 *bytes) {
		machine->Record(COMPUTED);
		result.wkb_begin = reinterpret_cast<const int64_t *>(Read(PINNED_BEGINS, begins, count + 1));
		unread = bytes;
	}

	MachineShapes wkb;
	uint32_t rows = 0;
	vibe::u8 *results = nullptr;
	//! The first vertex of each row
	const vibe::i32 *row_vertex = nullptr;
	const vibe::u8 *unread = nullptr;
	std::vector<int64_t> point_begins;
};

} // namespace

std::unique_ptr<GpuScalarBatch> MakeRowwise(std::unique_ptr<Machine> machine, const ScalarTask &task) {
	return std::make_unique<Rowwise>(std::move(machine), task);
}

} // namespace vibespatial
