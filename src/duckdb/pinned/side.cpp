#include "duckdb/pinned/side.hpp"

#include "duckdb/support/wkb_output.hpp"

namespace duckdb {

string PinnedSide::WhyNot(const PinnedTable &table, const PinnedScan &scan, const vector<bool> &needed, bool keeps) {
	if (keeps && table.has_empty_points && scan.only_present) {
		return "it has EMPTY points, and the filter by IS NOT NULL would take them for NULL";
	}
	for (idx_t i = 0; i < needed.size(); i++) {
		if (!needed[i]) {
			continue;
		}
		auto &name = scan.columns[i];
		if (name.empty()) {
			return "the query reads what is computed from its rows, or their row ids";
		}
		if (name != scan.geometry && !table.FindColumn(name).IsValid()) {
			return "the query reads column \"" + name + "\", which is not pinned";
		}
		if (name == scan.geometry && table.has_more_ordinates) {
			return "the query reads column \"" + name + "\", and some of its points have Z or M, which are not pinned";
		}
		if (name == scan.geometry && keeps && table.has_empty_points) {
			return "the query reads column \"" + name + "\", and its EMPTY points cannot be told from NULL";
		}
	}
	return string();
}

PinnedSide::PinnedSide(ClientContext &context, PinnedTable &table, vibespatial::GpuPinned &device,
                       const PinnedScan &scan, const vector<LogicalType> &types, const vector<bool> &needed,
                       const std::shared_ptr<const vibespatial::PinnedRows> &rows, shared_ptr<const HostColumn> shapes,
                       const vibespatial::PinnedTerms &filter, vibespatial::Parallel &parallel,
                       vibespatial::GpuTimes &times)
    : types(types), filter(filter), only_present(scan.only_present), shapes(std::move(shapes)),
      filter_columns(table.columns.size()) {
	// Where rows come out, the points are always asked for: the CPU reads them where the device fails
	vector<idx_t> numbers;
	if (!needed.empty()) {
		numbers.push_back(HostRows::POINTS);
	}
	for (auto &term : filter) {
		numbers.push_back(term.column);
	}
	for (idx_t i = 0; i < needed.size(); i++) {
		if (needed[i] && scan.columns[i] != scan.geometry) {
			numbers.push_back(table.FindColumn(scan.columns[i]).GetIndex());
		}
	}
	auto columns = table.host_rows->Bring(context, device, rows, numbers, parallel, times);
	idx_t next = 0;
	if (!needed.empty()) {
		points = columns[next++];
	}
	for (auto &term : filter) {
		filter_columns[term.column] = columns[next++];
	}
	for (idx_t i = 0; i < needed.size(); i++) {
		if (needed[i]) {
			sources.push_back(Source {i, scan.columns[i] == scan.geometry ? nullptr : columns[next++]});
		}
	}
}

namespace {

//! The rows of a chunk that a filter keeps
class ChunkFilter {
public:
	explicit ChunkFilter(const vector<shared_ptr<const HostColumn>> &columns)
	    : columns(columns), values(columns.size()), nulls(columns.size()) {
	}

	void Fetch(const vibespatial::PinnedTerms &terms, idx_t segment, idx_t number) {
		for (idx_t i = 0; i < columns.size(); i++) {
			if (!columns[i]) {
				continue;
			}
			DataChunk chunk;
			columns[i]->Initialize(chunk);
			columns[i]->Fetch(segment, number, chunk);
			values[i].clear();
			nulls[i].clear();
			AppendPinned(chunk.data[0], chunk.size(), values[i], nulls[i]);
		}
		filter.count = 0;
		for (auto &term : terms) {
			auto &range = filter.ranges[filter.count++];
			range.values = values[term.column].data();
			range.nulls = nulls[term.column].data();
			range.low = term.low;
			range.high = term.high;
			range.width = PinnedWidth(columns[term.column]->types[0]);
			range.null_passes = term.null_passes;
			range.ends_clause = term.ends_clause;
		}
	}
	bool Keeps(idx_t row) const {
		return vibe::PassesFilter(filter, row);
	}

private:
	const vector<shared_ptr<const HostColumn>> &columns;
	vector<vector<uint8_t>> values;
	vector<vector<uint8_t>> nulls;
	vibe::PinnedFilter filter {};
};

template <class POINT_AT>
void WritePoints(const POINT_AT &point_at, idx_t count, Vector &result) {
	auto strings = MutableData<string_t>(result);
	char wkb[WKB_HEADER_SIZE + 2 * sizeof(double)];
	for (idx_t i = 0; i < count; i++) {
		const vibe::Vec2 point = point_at(i);
		if (point.x != point.x) {
			MutableValidity(result).SetInvalid(i);
			continue;
		}
		WkbOutput out(wkb);
		out.Header(vibespatial::GeometryType::POINT, 0);
		out.Ordinate(point.x);
		out.Ordinate(point.y);
		strings[i] = StringVector::AddStringOrBlob(result, wkb, sizeof(wkb));
	}
}

} // namespace

void WritePinnedPoints(const vibe::Vec2 *points, idx_t count, Vector &result) {
	WritePoints([&](idx_t i) { return points[i]; }, count, result);
}

void PinnedSide::ReadPoints(idx_t segment, idx_t begin, idx_t count, vibe::Vec2 *to) const {
	DataChunk chunk;
	points->Initialize(chunk);
	ChunkFilter chunk_filter(filter_columns);
	for (idx_t done = 0; done < count; done += STANDARD_VECTOR_SIZE) {
		const auto number = (begin + done) / STANDARD_VECTOR_SIZE;
		points->Fetch(segment, number, chunk);
		chunk_filter.Fetch(filter, segment, number);
		auto x = FlatVector::GetData<double>(chunk.data[0]), y = FlatVector::GetData<double>(chunk.data[1]);
		for (idx_t i = 0; i < MinValue<idx_t>(STANDARD_VECTOR_SIZE, count - done); i++) {
			const bool passes = chunk_filter.Keeps(i);
			to[done + i] = passes ? vibe::Vec2 {x[i], y[i]} : vibe::Vec2 {vibe::NoCoordinate(), vibe::NoCoordinate()};
		}
	}
}

void PinnedSide::ReadShapes(idx_t segment, const std::vector<size_t> &rows,
                            const vibespatial::PinnedProbe::Visit &visit) const {
	DataChunk chunk;
	shapes->Initialize(chunk);
	ChunkFilter chunk_filter(filter_columns);
	auto current = DConstants::INVALID_INDEX;
	for (auto row : rows) {
		const idx_t number = row / STANDARD_VECTOR_SIZE, at = row % STANDARD_VECTOR_SIZE;
		if (number != current) {
			current = number;
			shapes->Fetch(segment, number, chunk);
			chunk_filter.Fetch(filter, segment, number);
		}
		vibespatial::JoinRow wkb {nullptr, 0};
		if (FlatVector::Validity(chunk.data[0]).RowIsValid(at) && chunk_filter.Keeps(at)) {
			auto &geometry = FlatVector::GetData<string_t>(chunk.data[0])[at];
			wkb.data = const_data_ptr_cast(geometry.GetData());
			wkb.size = static_cast<uint32_t>(geometry.GetSize());
		}
		visit(row, wkb);
	}
}

PinnedSideReader::PinnedSideReader(ClientContext &context, const PinnedSide &side)
    : side(side), fetched(side.sources.size()) {
	vector<bool> needed(side.types.size());
	for (idx_t i = 0; i < side.sources.size(); i++) {
		auto &source = side.sources[i];
		needed[source.column] = true;
		(source.from ? *source.from : *side.points).Initialize(fetched[i]);
	}
	if (side.shapes) {
		side.shapes->Initialize(fetched_shapes);
	}
	result.Initialize(Allocator::Get(context), side.types, needed);
}

void PinnedSideReader::FindDropped(idx_t segment, idx_t chunk, idx_t count, bool *dropped) const {
	ChunkFilter filter(side.filter_columns);
	filter.Fetch(side.filter, segment, chunk);
	for (idx_t i = 0; i < count; i++) {
		dropped[i] = !filter.Keeps(i);
	}
	if (side.only_present && side.HasShapes(segment)) {
		DataChunk shapes;
		side.shapes->Initialize(shapes);
		side.shapes->Fetch(segment, chunk, shapes);
		auto &validity = FlatVector::Validity(shapes.data[0]);
		for (idx_t i = 0; i < count; i++) {
			dropped[i] = dropped[i] || !validity.RowIsValid(i);
		}
	} else if (side.only_present) {
		DataChunk points;
		side.points->Initialize(points);
		side.points->Fetch(segment, chunk, points);
		auto x = FlatVector::GetData<double>(points.data[0]);
		for (idx_t i = 0; i < count; i++) {
			dropped[i] = dropped[i] || x[i] != x[i];
		}
	}
}

DataChunk &PinnedSideReader::Read(idx_t segment, idx_t chunk, idx_t count, bool is_empty) {
	result.Reset();
	for (idx_t i = 0; i < side.sources.size() && !is_empty; i++) {
		auto &source = side.sources[i];
		auto &column = result.data[source.column];
		if (source.from) {
			source.from->Fetch(segment, chunk, fetched[i]);
			column.Reference(fetched[i].data[0]);
		} else if (side.HasShapes(segment)) {
			side.shapes->Fetch(segment, chunk, fetched_shapes);
			column.Reference(fetched_shapes.data[0]);
		} else {
			side.points->Fetch(segment, chunk, fetched[i]);
			auto x = FlatVector::GetData<double>(fetched[i].data[0]);
			auto y = FlatVector::GetData<double>(fetched[i].data[1]);
			WritePoints([&](idx_t row) { return vibe::Vec2 {x[row], y[row]}; }, count, column);
		}
	}
	SetRowCount(result, count);
	return result;
}

} // namespace duckdb
