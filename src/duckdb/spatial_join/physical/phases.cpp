#include "duckdb/spatial_join/physical/phases.hpp"

namespace duckdb {

//===----------------------------------------------------------------------===//
// What the phases share
//===----------------------------------------------------------------------===//
optional_ptr<SpatialGroups> PhaseWork::Groups() {
	if (op.has_aggregate && !groups) {
		groups = make_uniq<SpatialGroups>(source.context, op);
	}
	return groups.get();
}

void PhaseWork::End() {
	if (groups) {
		lock_guard<mutex> guard(state.lock);
		state.groups->Combine(*groups);
	}
}

void ProbingWork::BeginUnit() {
	if (!probe) {
		probe = make_uniq<SpatialProbe>(source.context, op);
		gather = make_uniq<BuildGather>(*op.layout, op.right_columns);
	}
}

void ProbingWork::EndProbing() {
	lock_guard<mutex> guard(state.lock);
	state.AddProbe(*probe);
}

PartReader::PartReader(const PhysicalSpatialJoin &op) {
	chunk.InitializeEmpty(op.children[0].get().types);
}

bool PartReader::Fetch(SpatialPartitions &partitions, idx_t part, idx_t index) {
	auto &rows = *partitions.probe_rows.Part(part);
	if (index >= rows.ChunkCount()) {
		return false;
	}
	if (!reader) {
		reader = make_uniq<RowReader>(*partitions.probe_layout);
	}
	auto &fetched = reader->Fetch(rows, index);
	for (idx_t i = 0; i < chunk.ColumnCount(); i++) {
		chunk.data[i].Reference(fetched.data[i]);
	}
	SetRowCount(chunk, fetched.size());
	numbers = MutableData<int64_t>(fetched.data[chunk.ColumnCount()]);
	return true;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//
namespace {

class GroupsWork : public PhaseWork {
public:
	using PhaseWork::PhaseWork;

	bool Next(DataChunk &result) override {
		lock_guard<mutex> guard(state.lock);
		state.groups->Emit(unit * STANDARD_VECTOR_SIZE, result);
		return false;
	}
};

class GroupsPhase : public SourcePhase {
public:
	using SourcePhase::SourcePhase;

	//! No work of any join goes to the device after this
	idx_t Begin() override {
		state.pairs_dispatch.Finish(state.probed_rows);
		if (!op.has_aggregate) {
			return 0;
		}
		if (!state.pairs_dispatch.Counts().empty()) {
			state.groups->AddCounted(*state.build, state.pairs_dispatch.Counts());
		}
		return (state.groups->Count() + STANDARD_VECTOR_SIZE - 1) / STANDARD_VECTOR_SIZE;
	}
	idx_t MaxThreads(idx_t, idx_t) const override {
		return 1;
	}
	unique_ptr<PhaseWork> NewWork() override {
		return make_uniq<GroupsWork>(source);
	}
};

} // namespace

unique_ptr<SourcePhase> MakeGroupsPhase(SpatialSource &source) {
	return make_uniq<GroupsPhase>(source);
}

} // namespace duckdb
