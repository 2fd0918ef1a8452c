#include "duckdb/spatial_join/probe.hpp"

#include <chrono>

namespace duckdb {

SpatialProbe::SpatialProbe(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads)
    : probe_rows(STANDARD_VECTOR_SIZE), context(context), op(op), threads(threads),
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
	tile_bytes = 0;
	auto read = [&](idx_t i, idx_t at) {
		tile[i].data = const_data_ptr_cast(geometries[at].GetData());
		tile[i].size = static_cast<uint32_t>(geometries[at].GetSize()); // a string_t's own
		tile_bytes += tile[i].size;
	};
	are_points = false;
	if (!format.sel->IsSet() && format.validity.AllValid()) {
		vibespatial::PlainPoints points;
		idx_t next = 0;
		for (are_points = true; next < count && are_points; next++) {
			read(next, next);
			are_points = points.Read(tile[next], point_x[next], point_y[next]);
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
				tile[i].data = nullptr;
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

void SpatialProbe::Begin(SpatialBuild &build_p, optional_ptr<const SpatialPartitions> partitions_p, uint32_t part_p) {
	// The build side of another part may come to lie where the last one was
	bool same = probe && part == part_p;
	build = build_p;
	partitions = partitions_p;
	part = part_p;
	bool one_is_enough =
	    op.join_type == JoinType::SEMI || op.join_type == JoinType::ANTI || op.join_type == JoinType::MARK;
	if (!same) {
		if (probe) {
			counts.Add(probe->counts);
			counts.Add(shares->Counts());
		}
		bool first_only = one_is_enough && !op.residual && !partitions;
		probe = make_uniq<vibespatial::JoinProbe>(build->Index(), CancelPoll(context));
		probe->SetOrdered(op.deterministic);
		probe->SetFirstOnly(first_only);
		shares = make_uniq<vibespatial::JoinShares>(
		    build->Index(), CancelPoll(context),
		    [&](const std::function<void(vibespatial::Parallel &)> &work) { threads.Run(work); });
		shares->SetFirstOnly(first_only);
	}
	probed_rows += input->size();
	auto done = one_is_enough ? found : nullptr;
	if (threads.Count() > 1 && !op.deterministic && vibespatial::JoinShares::Pays(input->size(), tile_bytes)) {
		source = Source::SHARES;
		shares->Begin(tile, input->size(), Limits(), done);
	} else {
		source = Source::PROBE;
		probe->Begin(tile, input->size(), Limits(), done, are_points ? point_x : nullptr,
		             are_points ? point_y : nullptr);
	}
}

void SpatialProbe::BeginPairs(SpatialBuild &build_p, DataChunk &chunk, const uint32_t *probe_p,
                              const uint32_t *build_rows_p, idx_t count,
                              optional_ptr<const SpatialPartitions> partitions_p, uint32_t part_p) {
	build = build_p;
	input = chunk;
	partitions = partitions_p;
	part = part_p;
	source = Source::KNOWN;
	known_probe = probe_p;
	known_build = build_rows_p;
	known_count = count;
	probed_rows += chunk.size();
	memset(found, 0, sizeof(found));
}

void SpatialProbe::BeginFound(SpatialBuild &build_p, DataChunk &chunk, const uint8_t *found_p) {
	BeginPairs(build_p, chunk, nullptr, nullptr, 0);
	for (idx_t i = 0; i < chunk.size(); i++) {
		found[i] = found_p[i] != 0;
		pairs += found[i];
	}
}

idx_t SpatialProbe::NextCandidates() {
	idx_t count;
	switch (source) {
	case Source::PROBE:
		return probe->Next(probe_rows.data(), build_rows, STANDARD_VECTOR_SIZE);
	case Source::SHARES:
		return shares->Next(probe_rows.data(), build_rows, STANDARD_VECTOR_SIZE);
	case Source::KNOWN:
		break;
	}
	count = MinValue<idx_t>(known_count, STANDARD_VECTOR_SIZE);
	memcpy(probe_rows.data(), known_probe, count * sizeof(uint32_t));
	memcpy(build_rows, known_build, count * sizeof(uint32_t));
	known_probe += count;
	known_build += count;
	known_count -= count;
	return count;
}

//! A pair is found in every part that both its rows are in, and kept in one
idx_t SpatialProbe::KeepOwn(idx_t count) {
	idx_t kept = 0;
	for (idx_t i = 0; i < count; i++) {
		auto row = probe_rows.get_index(i);
		auto probe_reach = partitions->ProbeReach(tile[row], Limits() ? limits + row : nullptr);
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

//! Adds the time until it goes to a sum
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
		idx_t count = NextCandidates();
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
