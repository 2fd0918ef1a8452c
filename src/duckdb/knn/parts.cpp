#include "duckdb/knn/parts.hpp"

#include "duckdb/knn/left_tile.hpp"
#include "duckdb/support/task_parallel.hpp"

#include <array>

namespace duckdb {

using vibespatial::KnnIndex;
using vibespatial::Neighbour;

KnnParts::KnnParts(ClientContext &context, KnnDispatch &dispatch, uint64_t k)
    : dispatch(dispatch), memory(context), k(k), poll(CancelPoll(context)) {
}

void KnnParts::Search(const KnnIndex &index, const ColumnDataCollection &left, idx_t tile_chunks, idx_t tile_bytes,
                      vibespatial::Parallel &parallel) {
	const auto part_rows = (index.RowCount() + dispatch.PartCount() - 1) / dispatch.PartCount();
	ranks = MinValue<idx_t>(k, index.RowCount());
	const auto left_rows = left.Count();
	const auto found_bytes = left_rows * (sizeof(uint32_t) + ranks * (sizeof(double) + sizeof(uint32_t)));
	if (!memory.TryResize(found_bytes + KnnIndex::EstimateMemory(part_rows) + parallel.Threads() * tile_bytes)) {
		dispatch.LeaveParts(
		    "the right side needs more than device memory, and memory_limit has no room to search it in parts");
		return;
	}
	counts.assign(left_rows, 0);
	distances.resize(left_rows * ranks);
	rows.resize(left_rows * ranks);
	for (idx_t first = 0; first < index.RowCount(); first += part_rows) {
		const auto part = index.Part(first, MinValue<idx_t>(part_rows, index.RowCount() - first), parallel);
		if (part->ItemCount() == 0) {
			rows_done += left_rows;
			continue;
		}
		if (!dispatch.UploadPart(*part, parallel)) {
			Drop();
			return;
		}
		ColumnDataParallelScanState scan;
		left.InitializeScan(scan);
		parallel.For(parallel.Threads(), [&](size_t) { SearchPart(first, left, scan, tile_chunks); });
		if (!dispatch.OnGpu()) {
			Drop();
			return;
		}
	}
	dispatch.FinishParts();
	memory.Resize(found_bytes);
}

void KnnParts::SearchPart(idx_t first_row, const ColumnDataCollection &left, ColumnDataParallelScanState &scan,
                          idx_t tile_chunks) {
	std::array<LeftTile, 2> tiles;
	std::vector<Neighbour> found, merged;
	tiles[0].Load(left, scan, tile_chunks, dispatch);
	for (idx_t current = 0; tiles[current].Size() > 0 && dispatch.OnGpu(); current = 1 - current) {
		// The device works on the next ones meanwhile
		poll();
		tiles[1 - current].Load(left, scan, tile_chunks, dispatch);
		auto &tile = tiles[current];
		tile.Finish(dispatch);
		for (idx_t i = 0; i < tile.Size(); i++) {
			auto &chunk = tile.Chunk(i);
			for (idx_t row = 0; row < chunk.chunk.size(); row++) {
				const auto left_row = chunk.FirstRow() + row;
				if (tile.Neighbours(chunk, row, found)) {
					Add(left_row, found, first_row, merged);
				} else {
					counts[left_row] = OPEN;
				}
			}
		}
		rows_done += tile.RowCount();
	}
}

void KnnParts::Add(idx_t left_row, const std::vector<Neighbour> &found, idx_t first_row,
                   std::vector<Neighbour> &merged) {
	auto &count = counts[left_row];
	if (count == OPEN) {
		return;
	}
	auto *distance = distances.data() + left_row * ranks;
	auto *row = rows.data() + left_row * ranks;
	// Rows of this part come after those of the parts before, so a tie is theirs
	merged.clear();
	for (idx_t before = 0, now = 0; merged.size() < ranks && (before < count || now < found.size());) {
		if (now == found.size() || (before < count && distance[before] <= found[now].distance)) {
			merged.push_back(Neighbour {distance[before], row[before]});
			before++;
		} else {
			merged.push_back(Neighbour {found[now].distance, NumericCast<uint32_t>(first_row + found[now].row)});
			now++;
		}
	}
	count = NumericCast<uint32_t>(merged.size());
	for (idx_t i = 0; i < merged.size(); i++) {
		distance[i] = merged[i].distance;
		row[i] = merged[i].row;
	}
}

bool KnnParts::Find(idx_t left_row, std::vector<Neighbour> &result) const {
	if (counts.empty() || counts[left_row] == OPEN) {
		return false;
	}
	result.clear();
	for (idx_t i = left_row * ranks; i < left_row * ranks + counts[left_row]; i++) {
		result.push_back(Neighbour {distances[i], rows[i]});
	}
	return true;
}

void KnnParts::Drop() {
	counts = vector<uint32_t>();
	distances = vibespatial::UninitializedVector<double>();
	rows = vibespatial::UninitializedVector<uint32_t>();
	memory.Resize(0);
}

} // namespace duckdb
