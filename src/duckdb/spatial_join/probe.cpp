#include "duckdb/spatial_join/probe.hpp"

#include <algorithm>
#include <chrono>

namespace duckdb {

static_assert(vibespatial::JOIN_CHUNK_ROWS == STANDARD_VECTOR_SIZE, "the engine's chunks are chunks of DuckDB");

SpatialProbe::SpatialProbe(ClientContext &context, const PhysicalSpatialJoin &op)
    : probe_rows(STANDARD_VECTOR_SIZE), context(context), op(op),
      one_is_enough(op.join_type == JoinType::SEMI || op.join_type == JoinType::ANTI || op.join_type == JoinType::MARK),
      key_executor(context, op.probe_keys), residual_gather(*op.layout, op.residual_right),
      residual_sel(STANDARD_VECTOR_SIZE) {
	vector<LogicalType> types;
	for (auto &key : op.probe_keys) {
		types.push_back(ReturnTypeOf(*key));
	}
	keys.Initialize(Allocator::Get(context), types);
	if (op.residual) {
		residual_executor = make_uniq<ExpressionExecutor>(context, *op.residual);
		vector<LogicalType> residual_types;
		for (auto column : op.residual_left) {
			residual_types.push_back(op.children[0].get().types[column]);
		}
		for (auto column : op.residual_right) {
			residual_types.push_back(op.layout->GetTypes()[column]);
		}
		residual_chunk.InitializeEmpty(residual_types);
	}
}

void SpatialProbe::SetInput(DataChunk &chunk) {
	input = chunk;
	auto count = chunk.size();
	keys.Reset();
	key_executor.Execute(chunk, keys);
	UnifiedVectorFormat format;
	keys.data[0].ToUnifiedFormat(count, format);
	auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
	row_bytes = 0;
	auto read = [&](idx_t i, idx_t at) {
		rows[i].data = const_data_ptr_cast(geometries[at].GetData());
		rows[i].size = static_cast<uint32_t>(geometries[at].GetSize()); // a string_t's own
		row_bytes += rows[i].size;
	};
	are_points = false;
	has_nulls = false;
	if (!format.sel->IsSet() && format.validity.AllValid()) {
		vibespatial::PlainPoints points;
		idx_t next = 0;
		for (are_points = true; next < count && are_points; next++) {
			read(next, next);
			are_points = points.Read(rows[next], point_x[next], point_y[next]);
		}
		are_points = are_points && points.All();
		for (; next < count; next++) {
			read(next, next);
		}
	} else {
		for (idx_t i = 0; i < count; i++) {
			auto at = format.sel->get_index(i);
			if (format.validity.RowIsValid(at)) {
				read(i, at);
			} else {
				rows[i].data = nullptr;
			}
		}
	}
	if (op.probe_keys.size() > 1) {
		UnifiedVectorFormat limit_format;
		keys.data[1].ToUnifiedFormat(count, limit_format);
		auto values = UnifiedVectorFormat::GetData<double>(limit_format);
		for (idx_t i = 0; i < count; i++) {
			auto at = limit_format.sel->get_index(i);
			limits[i] = limit_format.validity.RowIsValid(at) ? values[at] : vibespatial::JoinCondition::NO_LIMIT;
		}
	}
	memset(found, 0, sizeof(found));
}

bool SpatialProbe::ArePoints() {
	if (!are_points) {
		are_points = vibespatial::ReadPoints(rows, input->size(), point_x, point_y, has_nulls);
	}
	return are_points;
}

ChunkInput SpatialProbe::StreamInput() {
	ChunkInput result(*input);
	result.rows = rows;
	result.count = input->size();
	result.bytes = row_bytes;
	result.limits = Limits();
	result.x = are_points ? point_x : nullptr;
	result.y = are_points ? point_y : nullptr;
	result.has_nulls = has_nulls;
	return result;
}

void SpatialProbe::EndBuild() {
	if (stream) {
		counts.Add(stream->Counts());
		stream.reset();
	}
}

void SpatialProbe::SetBuild(SpatialBuild &build_p, optional_ptr<const SpatialPartitions> partitions_p,
                            uint32_t part_p) {
	if (part != part_p) {
		EndBuild();
	}
	build = build_p;
	partitions = partitions_p;
	part = part_p;
	if (!stream) {
		bool first_only = one_is_enough && !op.residual && !partitions;
		stream = make_uniq<vibespatial::JoinStream>(build->Join(), first_only);
	}
}

void SpatialProbe::Begin(SpatialBuild &build_p, optional_ptr<const SpatialPartitions> partitions_p, uint32_t part_p) {
	SetBuild(build_p, partitions_p, part_p);
	probed_rows += input->size();
	if (build->Join().OnDevice()) {
		ArePoints();
	}
	stream->Begin(StreamInput(), one_is_enough ? found : nullptr);
}

void SpatialProbe::Collect(SpatialBuild &build_p) {
	SetBuild(build_p);
	ArePoints();
	stream->Collect(StreamInput());
}

void SpatialProbe::EndCollecting() {
	stream->EndCollecting();
}

void SpatialProbe::Resume(SpatialBuild &build_p, idx_t left_tile) {
	SetBuild(build_p);
	stream->Resume(left_tile);
}

void SpatialProbe::Resume(SpatialBuild &build_p, const PinnedWork &pinned, idx_t piece) {
	SetBuild(build_p);
	if (!pinned_rows) {
		pinned_rows = make_uniq<PinnedSideReader>(context, *pinned.side);
		may_drop = op.KeepsProbe() && pinned.side->HasFilter();
	}
	pinned_piece = pinned.pieces[piece];
	stream->BeginPinned(pinned.probe, pinned_piece);
}

void SpatialProbe::ReadPinned(const vibespatial::JoinChunk &chunk) {
	const auto number = pinned_piece.begin / STANDARD_VECTOR_SIZE + chunk.number;
	const auto found_end = chunk.found + (chunk.found ? chunk.count : 0);
	const bool any = op.KeepsProbe() || chunk.pairs > 0 || std::find(chunk.found, found_end, 1) != found_end;
	input = pinned_rows->Read(pinned_piece.segment, number, chunk.count, !any);
	if (may_drop) {
		pinned_rows->FindDropped(pinned_piece.segment, number, chunk.count, dropped);
		has_dropped = true;
	}
}

bool SpatialProbe::NextChunk() {
	vibespatial::JoinChunk chunk;
	if (!stream->NextChunk(chunk)) {
		return false;
	}
	if (pinned_rows) {
		ReadPinned(chunk);
	} else {
		input = static_cast<TileChunks &>(*chunk.payload).Chunk(chunk.number);
	}
	probed_rows += chunk.count;
	memset(found, 0, sizeof(found));
	for (idx_t i = 0; chunk.found && i < chunk.count; i++) {
		found[i] = chunk.found[i] != 0;
		pairs += found[i];
	}
	return true;
}

//! A pair is found in every part that has both its rows. One of these parts keeps it.
idx_t SpatialProbe::KeepOwn(idx_t count) {
	idx_t kept = 0;
	for (idx_t i = 0; i < count; i++) {
		auto row = probe_rows.get_index(i);
		auto probe_reach = partitions->ProbeReach(rows[row], Limits() ? limits + row : nullptr);
		auto build_reach = partitions->BuildReach(build->Location(build_rows[i]));
		if (partitions->grid.PartOf(probe_reach, build_reach) == part) {
			probe_rows.set_index(kept, row);
			build_rows[kept++] = build_rows[i];
		}
	}
	return kept;
}

idx_t SpatialProbe::ApplyResidual(idx_t count) {
	idx_t column = 0;
	for (auto left : op.residual_left) {
		residual_chunk.data[column++].Slice(input->data[left], probe_rows, count);
	}
	auto &gathered = residual_gather.Gather(*build, build_rows, count);
	for (idx_t i = 0; i < op.residual_right.size(); i++) {
		residual_chunk.data[column++].Reference(gathered.data[i]);
	}
	SetRowCount(residual_chunk, count);
	auto kept = residual_executor->SelectExpression(residual_chunk, residual_sel);
	for (idx_t i = 0; i < kept; i++) {
		auto from = residual_sel.get_index(i);
		probe_rows.set_index(i, probe_rows.get_index(from));
		build_rows[i] = build_rows[from];
	}
	return kept;
}

//! Adds its lifetime to a sum
class TimedScope {
public:
	explicit TimedScope(double &sum) : sum(sum), begin(std::chrono::steady_clock::now()) {
	}
	~TimedScope() {
		sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
	}

private:
	double &sum;
	std::chrono::steady_clock::time_point begin;
};

idx_t SpatialProbe::Next() {
	TimedScope timed(seconds);
	while (true) {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
		idx_t count = stream->Next(probe_rows.data(), build_rows, STANDARD_VECTOR_SIZE);
		if (count == 0) {
			return 0;
		}
		if (partitions) {
			count = KeepOwn(count);
		}
		if (op.residual && count > 0) {
			count = ApplyResidual(count);
		}
		for (idx_t i = 0; i < count; i++) {
			found[probe_rows.get_index(i)] = true;
		}
		if (op.MarksBuild()) {
			for (idx_t i = 0; i < count; i++) {
				build->SetMatched(build_rows[i]);
			}
		}
		pairs += count;
		if (count > 0) {
			return count;
		}
	}
}

void SpatialProbe::FindAll() {
	while (Next() > 0) {
	}
}

} // namespace duckdb
