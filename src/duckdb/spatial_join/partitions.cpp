#include "duckdb/spatial_join/partitions.hpp"

namespace duckdb {

using vibespatial::JoinRow;

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//
PartRows::PartRows(ClientContext &context, shared_ptr<TupleDataLayout> layout, idx_t parts) : counts(parts) {
	for (idx_t i = 0; i < parts; i++) {
		collections.push_back(make_uniq<TupleDataCollection>(context, layout, MemoryTag::EXTENSION));
		states.push_back(make_uniq<TupleDataAppendState>());
		selections.emplace_back(STANDARD_VECTOR_SIZE);
	}
}

void PartRows::Append(DataChunk &chunk, const vector<uint32_t> &parts, const vector<sel_t> &rows) {
	std::fill(counts.begin(), counts.end(), 0);
	for (idx_t i = 0; i < rows.size(); i++) {
		selections[parts[i]].set_index(counts[parts[i]]++, rows[i]);
	}
	for (idx_t part = 0; part < counts.size(); part++) {
		if (counts[part] == 0) {
			continue;
		}
		if (collections[part]->Count() == 0) {
			collections[part]->InitializeAppend(*states[part]);
		}
		collections[part]->Append(*states[part], chunk, selections[part], counts[part]);
	}
}

void PartRows::Flush() {
	for (idx_t part = 0; part < collections.size(); part++) {
		if (collections[part]->Count() > 0) {
			collections[part]->FinalizePinState(states[part]->pin_state);
		}
	}
}

void PartRows::Combine(PartRows &other) {
	for (idx_t part = 0; part < collections.size(); part++) {
		collections[part]->Combine(std::move(other.collections[part]));
	}
}

RowReader::RowReader(const TupleDataLayout &layout) {
	for (column_t column = 0; column < layout.ColumnCount(); column++) {
		columns.push_back(column);
	}
	TupleDataCollection::InitializeChunkState(state, layout.GetTypes(), columns);
	chunk.Initialize(Allocator::DefaultAllocator(), layout.GetTypes());
}

DataChunk &RowReader::Fetch(TupleDataCollection &rows, idx_t chunk_index) {
	iterator = make_uniq<TupleDataChunkIterator>(rows, TupleDataPinProperties::UNPIN_AFTER_DONE, chunk_index,
	                                             chunk_index + 1, true);
	auto count = iterator->GetCurrentChunkCount();
	chunk.Reset();
	TupleDataCollection::ResetCachedCastVectors(state, columns);
	auto &all = *FlatVector::IncrementalSelectionVector();
	rows.Gather(iterator->GetChunkState().row_locations, all, count, columns, chunk, all, state.cached_cast_vectors);
	SetRowCount(chunk, count);
	return chunk;
}

//===----------------------------------------------------------------------===//
// Cutting
//===----------------------------------------------------------------------===//
static shared_ptr<TupleDataLayout> ProbeLayout(const PhysicalSpatialJoin &op) {
	auto types = op.children[0].get().types;
	types.push_back(LogicalType::BIGINT); // the number of the row
	auto layout = make_shared_ptr<TupleDataLayout>();
	layout->Initialize(types, TupleDataValidityType::CAN_HAVE_NULL_VALUES);
	return layout;
}

SpatialPartitions::SpatialPartitions(ClientContext &context, const PhysicalSpatialJoin &op,
                                     const std::vector<vibe::Box> &sample, const std::vector<double> &weights,
                                     idx_t parts)
    : grid(sample, weights, NumericCast<uint32_t>(parts)), probe_layout(ProbeLayout(op)),
      build_rows(context, op.layout, grid.PartCount()), probe_rows(context, probe_layout, grid.PartCount()),
      context(context), op(op) {
}

vibe::Box SpatialPartitions::ProbeReach(const JoinRow &row, const double *limit) const {
	bool constant = op.condition.limit_from == vibespatial::JoinLimit::CONSTANT;
	return op.condition.Reach(row, limit ? *limit : constant ? op.condition.limit : 0);
}

vibe::Box SpatialPartitions::BuildReach(data_ptr_t row) const {
	return op.condition.Reach(op.GeometryOf(row), op.limit_column == DConstants::INVALID_INDEX ? 0 : op.LimitOf(row));
}

template <class F>
void SpatialPartitions::VisitParts(const vibe::Box &reach, bool is_null, F &&use) const {
	if (!reach.IsEmpty()) {
		grid.Visit(reach, use);
		return;
	}
	// An EMPTY geometry has no place: where it can match, it does so everywhere or among its like
	auto count = !is_null && op.condition.EmptyIsNear() ? grid.PartCount() : 1;
	for (uint32_t part = 0; part < count; part++) {
		use(part);
	}
}

void SpatialPartitions::CutBuild(vibespatial::Parallel &parallel, unique_ptr<TupleDataCollection> rows) {
	constexpr idx_t CHUNKS_PER_STEP = 64;
	idx_t chunks = rows->ChunkCount();
	// As many writers as threads: each holds blocks of every part
	auto steps = MinValue<idx_t>(parallel.Threads(), (chunks + CHUNKS_PER_STEP - 1) / CHUNKS_PER_STEP);
	std::atomic<idx_t> next {0};
	parallel.For(steps, [&](size_t) {
		PartRows local(context, op.layout, grid.PartCount());
		RowReader reader(*op.layout);
		vector<uint32_t> parts;
		vector<sel_t> selected;
		for (auto index = next++; index < chunks; index = next++) {
			if (context.IsInterrupted()) {
				throw InterruptException();
			}
			auto &chunk = reader.Fetch(*rows, index);
			auto locations = reader.Locations();
			parts.clear();
			selected.clear();
			for (idx_t i = 0; i < chunk.size(); i++) {
				bool is_null = op.GeometryOf(locations[i]).data == nullptr;
				VisitParts(BuildReach(locations[i]), is_null, [&](uint32_t part) {
					parts.push_back(part);
					selected.push_back(NumericCast<sel_t>(i));
				});
			}
			local.Append(chunk, parts, selected);
		}
		local.Flush();
		lock_guard<mutex> guard(lock);
		build_rows.Combine(local);
	});
}

void SpatialPartitions::KeepRest(const SpatialBuild &build, uint32_t part) {
	vector<column_t> columns;
	for (column_t column = 0; column < op.layout->ColumnCount(); column++) {
		columns.push_back(column);
	}
	BuildGather gather(*op.layout, columns);
	auto rest = make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION);
	TupleDataAppendState append_state;
	rest->InitializeAppend(append_state);
	uint32_t rows[STANDARD_VECTOR_SIZE];
	idx_t count = 0;
	for (idx_t row = 0; row < build.Count(); row++) {
		bool open = op.join_type == JoinType::RIGHT_SEMI || !build.IsMatched(row);
		if (open && HomeOf(BuildReach(build.Location(row))) == part) {
			rows[count++] = NumericCast<uint32_t>(row);
		}
		if (count == STANDARD_VECTOR_SIZE || (row + 1 == build.Count() && count > 0)) {
			rest->Append(append_state, gather.Gather(build, rows, count));
			count = 0;
		}
	}
	rest->FinalizePinState(append_state.pin_state);
	build_rows.Part(part) = std::move(rest);
}

void SpatialPartitions::CutProbe(DataChunk &input, const JoinRow *geometries, const double *limits, PartRows &local) {
	DataChunk numbered;
	numbered.InitializeEmpty(probe_layout->GetTypes());
	for (idx_t i = 0; i < input.ColumnCount(); i++) {
		numbered.data[i].Reference(input.data[i]);
	}
	Vector numbers(LogicalType::BIGINT);
	auto first = probe_count.fetch_add(input.size());
	for (idx_t i = 0; i < input.size(); i++) {
		MutableData<int64_t>(numbers)[i] = NumericCast<int64_t>(first + i);
	}
	numbered.data[input.ColumnCount()].Reference(numbers);
	SetRowCount(numbered, input.size());

	vector<uint32_t> parts;
	vector<sel_t> selected;
	for (idx_t i = 0; i < input.size(); i++) {
		if (!geometries[i].data && !op.KeepsProbe()) {
			continue;
		}
		auto reach = ProbeReach(geometries[i], limits ? limits + i : nullptr);
		VisitParts(reach, geometries[i].data == nullptr, [&](uint32_t part) {
			parts.push_back(part);
			selected.push_back(NumericCast<sel_t>(i));
		});
	}
	local.Append(numbered, parts, selected);
}

} // namespace duckdb
