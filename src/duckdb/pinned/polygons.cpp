#include "duckdb/pinned/polygons.hpp"

#include "duckdb/pinned/held.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/dispatch/dispatch.hpp"

#include <algorithm>
#include <cstring>

namespace duckdb {

using vibespatial::Operation;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//
shared_ptr<PinnedPolygons> PinnedPolygons::Find(ClientContext &context, const Plan &plan,
                                                vibespatial::Parallel &parallel) {
	shared_ptr<PinnedPolygons> polygons(new PinnedPolygons(plan));
	if (GetExecutionMode(context) == vibespatial::ExecutionMode::CPU) {
		return polygons;
	}
	PinnedTables::Get(context)->FreeInvalid();
	polygons->table = PinnedTables::Get(context)->Find(plan.scan.table, plan.scan.geometry);
	if (!polygons->table) {
		return polygons;
	}
	HeldByQuery<PinnedPolygons>::Add(context, "vibespatial_pinned_polygons", polygons);
	const auto text = polygons->table->table.text;
	const auto why = polygons->WhyNot(context, parallel);
	if (why.empty()) {
		polygons->note = "the geometries are pinned: " + text;
		polygons->table->hits++;
	} else {
		polygons->Release();
		polygons->note = "pinned " + text + " is not used: " + why;
	}
	return polygons;
}

void PinnedPolygons::Release() {
	rows.reset();
	wkb = vibespatial::PagesVector<vibespatial::WkbSlice>();
	passing = vibespatial::PagesVector<uint8_t>();
	held.clear();
	known.reset();
	side.reset();
	device.reset();
	table.reset();
}

string PinnedPolygons::WhyNot(ClientContext &context, vibespatial::Parallel &parallel) {
	auto why = table->WhyNot(context, plan.scan, filter);
	if (!why.empty()) {
		return why;
	}
	if (GetDeterministic(context)) {
		return "vibe_deterministic asks for its rows in the order of the table";
	}
	why = PinnedSide::WhyNot(*table, plan.scan, plan.needed, false);
	if (!why.empty()) {
		return why;
	}
	device = table->OnDevice();
	rows = device ? device->Use() : nullptr;
	const auto shapes = table->host_rows->Shapes();
	if (!rows || (table->has_shapes && !shapes)) {
		return "it was evicted, since the device's memory was needed";
	}
	idx_t bytes = 0;
	for (idx_t segment = 0; segment < rows->Segments(); segment++) {
		if (!rows->Kind(segment).are_shapes) {
			return "some of its rows are kept as points";
		}
		bytes += shapes->segments[segment]->SizeInBytes();
	}
	const auto mode = GetExecutionMode(context);
	const auto min_rows = GetGpuMinRows(context);
	const auto decision = vibespatial::Decide(mode, Operation::UNION_AGG, bytes / sizeof(vibe::Vec2), min_rows);
	if (!decision.IsGpu()) {
		return decision.reason;
	}
	//! A scan may pass over row groups that have none of the rows that a filter keeps; here all rows are looked at
	constexpr idx_t FEW = 16;
	if (mode == vibespatial::ExecutionMode::AUTO && min_rows < 0 && !filter.empty() &&
	    plan.expected_rows < table->rows / FEW) {
		return "the filter is expected to keep few of its rows";
	}
	return Bring(context, parallel);
}

string PinnedPolygons::Bring(ClientContext &context, vibespatial::Parallel &parallel) {
	const auto shapes = table->host_rows->Shapes();
	idx_t count = 0;
	for (idx_t segment = 0; segment < rows->Segments(); segment++) {
		first.push_back(count);
		count += rows->Count(segment);
	}
	if (count > NumericLimits<uint32_t>::Maximum()) {
		return "it has too many rows";
	}
	try {
		// The device has filtered the rows: no columns are needed for that
		vibespatial::GpuTimes times;
		side = make_uniq<PinnedSide>(context, *table, *device, plan.scan, plan.types, plan.needed, rows, shapes,
		                             vibespatial::PinnedTerms(), parallel, times);
		if (!filter.empty()) {
			passing.resize(count);
			Filter();
		}
		for (idx_t segment = 0; segment < rows->Segments(); segment++) {
			for (idx_t chunk = 0; chunk * STANDARD_VECTOR_SIZE < rows->Count(segment); chunk++) {
				if (IsRead(segment, chunk)) {
					pieces.emplace_back(segment, chunk);
				}
			}
		}
		wkb.resize(count);
		held.resize(rows->Segments());
		known = table->host_rows->Polygons();
		const bool all = !known;
		parallel.For(held.size(), [&](size_t segment) { Hold(*shapes, segment, all); });
		if (!known) {
			known = table->host_rows->MakePolygons(context, wkb, parallel);
		}
	} catch (const vibespatial::GpuError &error) {
		return error.what();
	} catch (const OutOfMemoryException &error) {
		return string("there is no room for its geometries in host memory: ") + error.what();
	}
	return string();
}

void PinnedPolygons::Filter() {
	auto reader = device->NewReader(rows);
	for (idx_t segment = 0; segment < rows->Segments(); segment++) {
		reader->ReadPassing(segment, filter, passing.data() + first[segment]);
	}
}

bool PinnedPolygons::IsRead(idx_t segment, idx_t chunk) const {
	if (passing.empty()) {
		return true;
	}
	const auto begin = chunk * STANDARD_VECTOR_SIZE;
	const auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, rows->Count(segment) - begin);
	return memchr(passing.data() + first[segment] + begin, 1, count) != nullptr;
}

//! The blocks with the WKB of a segment stay in memory, so that nothing of it is copied
void PinnedPolygons::Hold(const HostColumn &shapes, idx_t segment, bool all) {
	auto &from = *shapes.segments[segment];
	auto &to = held[segment];
	ColumnDataParallelScanState scan;
	ColumnDataLocalScanState local;
	DataChunk chunk;
	from.InitializeScan(scan, ColumnDataScanProperties::ALLOW_ZERO_COPY);
	from.InitializeScanChunk(scan.scan_state, chunk);
	idx_t at, of_segment, row;
	for (idx_t number = 0; from.NextScanIndex(scan.scan_state, at, of_segment, row); number++) {
		if (!all && !IsRead(segment, number)) {
			continue;
		}
		from.ScanAtIndex(scan, local, chunk, at, of_segment, row);
		auto geometries = FlatVector::GetData<string_t>(chunk.data[0]);
		auto &validity = FlatVector::Validity(chunk.data[0]);
		auto *next = wkb.data() + first[segment] + number * STANDARD_VECTOR_SIZE;
		for (idx_t i = 0; i < chunk.size(); i++) {
			auto &slice = next[i];
			if (!validity.RowIsValid(i)) {
				slice = vibespatial::WkbSlice {nullptr, 0};
				continue;
			}
			slice = vibespatial::WkbSlice {const_data_ptr_cast(geometries[i].GetData()), geometries[i].GetSize()};
			if (geometries[i].IsInlined()) {
				to.small.push_back(make_uniq<vector<uint8_t>>(slice.data, slice.data + slice.size));
				slice.data = to.small.back()->data();
			}
		}
		for (auto &block : local.current_chunk_state.handles) {
			to.blocks.push_back(std::move(block.second));
		}
		local.current_chunk_state.handles.clear();
	}
}

std::shared_ptr<const vibespatial::GpuRings> PinnedPolygons::Rings(vibespatial::Parallel &parallel,
                                                                   vibespatial::GpuTimes &times) const {
	//! A query that unites less than this part of them sends its own
	constexpr idx_t PART = 8;
	auto rings = device->Rings(rows);
	if (rings || !known->FitDevice() || expected < known->Vertices() / PART) {
		return rings;
	}
	std::vector<vibe::NetRing> net_rings;
	return device->SendRings(rows, known->All(wkb.data(), net_rings), parallel, times);
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//
PinnedPolygonsReader::PinnedPolygonsReader(ClientContext &context, PinnedPolygons &polygons)
    : polygons(polygons), values(context, *polygons.side), passing(STANDARD_VECTOR_SIZE) {
}

bool PinnedPolygonsReader::Next(DataChunk &chunk) {
	auto &plan = polygons.plan;
	while (true) {
		const idx_t piece = polygons.next_piece++;
		if (piece >= polygons.pieces.size()) {
			return false;
		}
		const auto segment = polygons.pieces[piece].first, number = polygons.pieces[piece].second;
		const auto begin = number * STANDARD_VECTOR_SIZE;
		const auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, polygons.rows->Count(segment) - begin);
		const auto first = polygons.first[segment] + begin;
		idx_t kept = 0;
		for (idx_t i = 0; i < count; i++) {
			passing.set_index(kept, i);
			kept += polygons.Passes(first + i) ? 1 : 0;
		}
		if (kept == 0) {
			continue;
		}
		auto &from = values.Read(segment, number, count, false);
		for (idx_t i = 0; i < plan.types.size(); i++) {
			auto &column = chunk.data[i];
			if (i == plan.geometry) {
				auto numbers = MutableData<string_t>(column);
				for (idx_t row = 0; row < count; row++) {
					const auto of_table = static_cast<uint32_t>(first + row);
					if (polygons.wkb[of_table].data) {
						numbers[row] = string_t(reinterpret_cast<const char *>(&of_table), sizeof(of_table));
					} else {
						MutableValidity(column).SetInvalid(row);
					}
				}
			} else if (plan.needed[i]) {
				column.Reference(from.data[i]);
			} else {
				column.SetVectorType(VectorType::CONSTANT_VECTOR); // nobody reads it
				ConstantVector::SetNull(column, true);
			}
		}
		SetRowCount(chunk, count);
		if (kept < count) {
			chunk.Slice(passing, kept);
		}
		return true;
	}
}

} // namespace duckdb
