// The phases of a partitioned join: Parts and UnmatchedProbe
#include "duckdb/spatial_join/physical/chunk_join.hpp"
#include "duckdb/spatial_join/physical/phases.hpp"

namespace duckdb {

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//
namespace {

//! A part while it is joined
struct JoinedPart {
	JoinedPart(ClientContext &context, uint32_t number)
	    : number(number), work(ThreadCount(context), CancelPoll(context)) {
	}
	const uint32_t number;
	//! Builds the index with the threads that have taken the part
	vibespatial::SharedWork work;
	unique_ptr<SpatialBuild> build;
	std::atomic<idx_t> next_chunk {0};
	//! Threads that have taken it, under the lock of the phase
	idx_t users = 0;
};

class PartsPhase : public SourcePhase {
public:
	using SourcePhase::SourcePhase;

	idx_t Begin() override {
		return state.partitions ? state.partitions->grid.PartCount() : 0;
	}
	idx_t MaxThreads(idx_t, idx_t threads) const override {
		return threads;
	}
	unique_ptr<PhaseWork> NewWork() override;
	//! All threads take the same part until one of them finds no chunk in it
	bool Take(PhaseWork &work, PhaseUnits &units) override;
	//! A thread has found no chunk in the part. The last one frees it.
	void Release(shared_ptr<JoinedPart> part);

private:
	mutex lock;
	shared_ptr<JoinedPart> current;
};

class PartsWork : public ProbingWork {
public:
	PartsWork(SpatialSource &source, PartsPhase &phase) : ProbingWork(source), phase(phase), rows(source.op) {
	}

	bool Next(DataChunk &result) override {
		part->work.Run([&](vibespatial::Parallel &parallel) { BuildPart(parallel); });
		if (!in_chunk && !BeginChunk()) {
			return false;
		}
		in_chunk = NextOfChunk(result);
		return true;
	}
	void EndUnit() override {
		probe->EndBuild();
		phase.Release(std::move(part));
	}
	void End() override {
		PhaseWork::End();
		EndProbing();
	}

	shared_ptr<JoinedPart> part;

private:
	void BuildPart(vibespatial::Parallel &parallel) {
		auto &partitions = *state.partitions;
		part->build = make_uniq<SpatialBuild>(source.context, op, std::move(partitions.build_rows.Part(part->number)),
		                                      state.matched);
		part->build->Build(parallel, state.index_dispatch, state.threads,
		                   partitions.probe_rows.Part(part->number)->Count(), state.pairs_dispatch.UseOfBuild());
		state.pairs_dispatch.SetPart(*part->build);
		lock_guard<mutex> guard(state.lock);
		if (op.has_aggregate) {
			state.groups->NumberBuild(*part->build);
		}
		state.part_indexes.Add(*part->build);
	}

	bool BeginChunk() {
		auto &partitions = *state.partitions;
		if (!rows.Fetch(partitions, part->number, part->next_chunk++)) {
			return false;
		}
		auto &chunk = rows.Chunk();
		probe->SetInput(chunk);
		if (part->build->Join().OnDevice() && !state.pairs_dispatch.KindIsKnown()) {
			state.pairs_dispatch.DecideAgain(probe->FirstRows(), nullptr);
		}
		probe->Begin(*part->build, &partitions, part->number);
		part->build->CountMemory();
		return true;
	}

	//! Returns whether the chunk may have more rows
	bool NextOfChunk(DataChunk &result) {
		SpatialChunkJoin join(op, *probe, *gather);
		if (auto groups = Groups()) {
			groups->AddPairs(*probe, false);
		} else if (op.join_type == JoinType::INNER || op.join_type == JoinType::LEFT ||
		           op.join_type == JoinType::RIGHT || op.join_type == JoinType::OUTER) {
			auto count = probe->Next();
			if (count > 0) {
				join.EmitPairs(result, count);
				return true;
			}
		} else {
			probe->FindAll();
		}
		auto &found = source.probe_found;
		if (op.join_type == JoinType::SEMI) {
			// A row comes out of the first part in which it matches
			for (idx_t i = 0; i < probe->Input().size(); i++) {
				probe->found[i] = probe->found[i] && !found.Set(rows.NumberOf(i));
			}
			join.EmitFound(result, true);
		} else if (op.KeepsProbe()) {
			for (idx_t i = 0; i < probe->Input().size(); i++) {
				if (probe->found[i]) {
					found.Set(rows.NumberOf(i));
				}
			}
		}
		return false;
	}

	PartsPhase &phase;
	PartReader rows;
};

unique_ptr<PhaseWork> PartsPhase::NewWork() {
	return make_uniq<PartsWork>(source, *this);
}

bool PartsPhase::Take(PhaseWork &work, PhaseUnits &units) {
	lock_guard<mutex> guard(lock);
	if (!current && units.next < units.count) {
		current = make_shared_ptr<JoinedPart>(source.context, NumericCast<uint32_t>(units.next++));
	}
	if (!current) {
		return false;
	}
	current->users++;
	static_cast<PartsWork &>(work).part = current;
	return true;
}

void PartsPhase::Release(shared_ptr<JoinedPart> part) {
	bool is_last;
	{
		lock_guard<mutex> guard(lock);
		if (current == part) {
			current.reset();
		}
		is_last = --part->users == 0;
	}
	if (is_last && op.MarksBuild()) {
		state.partitions->KeepRest(*part->build, part->number);
	}
}

//===----------------------------------------------------------------------===//
// UnmatchedProbe
//===----------------------------------------------------------------------===//
class UnmatchedProbeWork : public ProbingWork {
public:
	explicit UnmatchedProbeWork(SpatialSource &source) : ProbingWork(source), rows(source.op) {
	}

	void BeginUnit() override {
		ProbingWork::BeginUnit();
		next_chunk = 0;
	}
	//! A row that lies in several parts is dealt with in its home part
	bool Next(DataChunk &result) override {
		auto &partitions = *state.partitions;
		if (!rows.Fetch(partitions, unit, next_chunk++)) {
			return false;
		}
		auto &chunk = rows.Chunk();
		probe->SetInput(chunk);
		SelectionVector selected(STANDARD_VECTOR_SIZE);
		idx_t count = 0;
		for (idx_t i = 0; i < chunk.size(); i++) {
			auto reach = partitions.ProbeReach(probe->Geometries()[i], probe->Limits() ? probe->Limits() + i : nullptr);
			bool found = source.probe_found.Has(rows.NumberOf(i));
			if (partitions.HomeOf(reach) == unit && (op.join_type == JoinType::MARK || !found)) {
				probe->found[i] = found;
				selected.set_index(count++, i);
			}
		}
		if (auto groups = Groups()) {
			groups->AddRest(chunk, selected, count);
		} else if (count > 0) {
			SpatialChunkJoin(op, *probe, *gather).EmitProbeRows(result, selected, count);
		}
		return true;
	}

private:
	PartReader rows;
	idx_t next_chunk = 0;
};

class UnmatchedProbePhase : public SourcePhase {
public:
	using SourcePhase::SourcePhase;

	idx_t Begin() override {
		return op.KeepsProbe() && state.partitions ? state.partitions->grid.PartCount() : 0;
	}
	idx_t MaxThreads(idx_t, idx_t threads) const override {
		return threads;
	}
	unique_ptr<PhaseWork> NewWork() override {
		return make_uniq<UnmatchedProbeWork>(source);
	}
};

} // namespace

unique_ptr<SourcePhase> MakePartsPhase(SpatialSource &source) {
	return make_uniq<PartsPhase>(source);
}

unique_ptr<SourcePhase> MakeUnmatchedProbePhase(SpatialSource &source) {
	return make_uniq<UnmatchedProbePhase>(source);
}

} // namespace duckdb
