#include "duckdb/knn/left_tile.hpp"

#include "geometry/wkb.hpp"

namespace duckdb {

using vibespatial::JoinRow;
using vibespatial::Neighbour;
using vibespatial::ShapeRows;

bool LeftChunk::Fetch(const ColumnDataCollection &rows, ColumnDataParallelScanState &next) {
	if (!rows.Scan(next, scan, chunk)) {
		return false;
	}
	chunk.data[0].ToUnifiedFormat(chunk.size(), geometries);
	queries.clear();
	return true;
}

JoinRow LeftChunk::GeometryOf(idx_t row) const {
	auto at = geometries.sel->get_index(row);
	if (!geometries.validity.RowIsValid(at)) {
		return JoinRow {nullptr, 0};
	}
	auto &wkb = UnifiedVectorFormat::GetData<string_t>(geometries)[at];
	return JoinRow {const_data_ptr_cast(wkb.GetData()), NumericCast<uint32_t>(wkb.GetSize())};
}

std::vector<JoinRow> LeftTile::FirstRows(const ColumnDataCollection &rows, unique_ptr<LeftChunk> &first) {
	std::vector<JoinRow> result;
	ColumnDataParallelScanState scan;
	rows.InitializeScan(scan);
	first = make_uniq<LeftChunk>(rows);
	if (first->Fetch(rows, scan)) {
		for (idx_t row = 0; row < first->chunk.size(); row++) {
			result.push_back(first->GeometryOf(row));
		}
	}
	return result;
}

void LeftTile::Load(const ColumnDataCollection &rows, ColumnDataParallelScanState &next, idx_t most,
                    KnnDispatch &dispatch) {
	idx_t bytes = 0;
	for (size = 0; size < most && bytes < MOST_BYTES; size++) {
		if (size == chunks.size()) {
			chunks.push_back(make_uniq<LeftChunk>(rows));
		}
		auto &chunk = *chunks[size];
		if (!chunk.Fetch(rows, next)) {
			break;
		}
		for (idx_t row = 0; row < chunk.chunk.size(); row++) {
			bytes += chunk.GeometryOf(row).size;
		}
	}
	is_begun = false;
	found = nullptr;
	if (size == 0 || !dispatch.OnGpu()) {
		return;
	}
	const bool tried = dispatch.Try([&] {
		if (!search) {
			search = dispatch.NewSearch();
		}
		size_t count = 0;
		begun = OperatorDispatch::Now();
		if (!AddPoints(dispatch.TakesShapes(), count)) {
			count = AddShapes();
			if (count > 0) {
				search->BeginShapes(shapes);
			}
		} else if (count > 0) {
			search->BeginPoints(count);
		}
		is_begun = count > 0;
	});
	if (!tried) {
		LeaveToCpu();
	}
}

bool LeftTile::AddPoints(bool takes_shapes, size_t &count) {
	auto points = search->Points(RowCount());
	for (idx_t i = 0; i < size; i++) {
		auto &chunk = *chunks[i];
		chunk.queries.assign(chunk.chunk.size(), LeftChunk::NONE);
		for (idx_t row = 0; row < chunk.chunk.size(); row++) {
			auto geometry = chunk.GeometryOf(row);
			if (!geometry.data) {
				continue;
			}
			if (vibespatial::TryReadPoint(geometry.data, geometry.size, points[count])) {
				chunk.queries[row] = NumericCast<uint32_t>(count++);
			} else if (takes_shapes && ShapeRows::IsForDevice(geometry.data, geometry.size)) {
				return false;
			}
		}
	}
	return true;
}

size_t LeftTile::AddShapes() {
	shapes.Clear([this](size_t block) { return search->Block(block); });
	for (idx_t i = 0; i < size; i++) {
		auto &chunk = *chunks[i];
		chunk.queries.assign(chunk.chunk.size(), LeftChunk::NONE);
		for (idx_t row = 0; row < chunk.chunk.size(); row++) {
			auto geometry = chunk.GeometryOf(row);
			if (geometry.data && ShapeRows::IsForDevice(geometry.data, geometry.size)) {
				chunk.queries[row] = NumericCast<uint32_t>(shapes.Count());
				shapes.AddWkb(geometry.data, geometry.size);
			}
		}
	}
	return shapes.Count();
}

void LeftTile::Finish(KnnDispatch &dispatch) {
	if (!is_begun) {
		return;
	}
	is_begun = false;
	const bool done = dispatch.Try([&] {
		found = &search->Finish();
		dispatch.AddTile(begun, found->times);
	});
	if (!done) {
		LeaveToCpu();
	}
}

void LeftTile::LeaveToCpu() {
	found = nullptr;
	for (idx_t i = 0; i < size; i++) {
		chunks[i]->queries.clear();
	}
}

idx_t LeftTile::RowCount() const {
	idx_t rows = 0;
	for (idx_t i = 0; i < size; i++) {
		rows += chunks[i]->chunk.size();
	}
	return rows;
}

bool LeftTile::Neighbours(const LeftChunk &chunk, idx_t row, std::vector<Neighbour> &result) const {
	if (!found || chunk.queries.empty() || chunk.queries[row] == LeftChunk::NONE) {
		return false;
	}
	auto query = chunk.queries[row];
	auto count = found->found[query];
	if (count == vibe::NEAREST_OPEN) {
		return false;
	}
	result.clear();
	for (uint32_t n = 0; n < count; n++) {
		result.push_back(Neighbour {found->Distance(query, n), found->Row(query, n)});
	}
	return true;
}

} // namespace duckdb
