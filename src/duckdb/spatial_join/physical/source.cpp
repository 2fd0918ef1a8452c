// The source of a spatial join: what is known only when the probe side has been read. Threads take units of the current phase; a thread
// that finds none waits until the next phase begins.
//
//   Parts           joins the parts of a partitioned build side
//   Tiles           finishes tiles that were not sent to the device yet
//   HeldChunks      joins chunks that scanning threads left to all threads
//   UnmatchedProbe  emits probe rows that matched in no part
//   BuildRows       emits build rows by whether they matched
//   Groups          emits the results of an aggregate
//
// Every phase needs the results of those before it: rows without a match are known after the last pair, groups after the last row. Most
// joins have at most one of them.
#include "duckdb/spatial_join/physical/phases.hpp"
#include "duckdb/support/function_builder.hpp"

namespace duckdb {

namespace {

class SpatialJoinGlobalSource : public GlobalSourceState {
public:
	SpatialJoinGlobalSource(ClientContext &context, const PhysicalSpatialJoin &op) : source(context, op) {
		phases.push_back(MakePartsPhase(source));
		phases.push_back(MakeTilesPhase(source));
		phases.push_back(MakeHeldChunksPhase(source));
		phases.push_back(MakeUnmatchedProbePhase(source));
		phases.push_back(MakeBuildRowsPhase(source));
		phases.push_back(MakeGroupsPhase(source));
		SpatialJoinState::Get(op).pairs_dispatch.EndProbe();
		FindPhase();
		max_threads = op.deterministic || IsDone() ? 1 : phases[current]->MaxThreads(units.count, ThreadCount(context));
	}

	idx_t MaxThreads() override {
		return max_threads;
	}

	// Under the lock
	bool IsDone() const {
		return current == phases.size();
	}
	//! Gives a thread its next unit of the current phase
	bool Take(unique_ptr<PhaseWork> &work) {
		if (work) {
			return phases[current]->Take(*work, units);
		}
		auto made = phases[current]->NewWork();
		if (!phases[current]->Take(*made, units)) {
			return false;
		}
		busy_threads++;
		work = std::move(made);
		return true;
	}
	//! The thread found no unit; returns whether all threads have ended the phase
	bool EndWork(optional_ptr<PhaseWork> work) {
		if (work) {
			work->End();
			busy_threads--;
		}
		return busy_threads == 0;
	}
	void NextPhase() {
		current++;
		FindPhase();
	}

	PhaseUnits units;

private:
	//! The first phase from the current one on that has units
	void FindPhase() {
		units.next = 0;
		units.count = 0;
		for (; !IsDone(); current++) {
			units.count = phases[current]->Begin();
			if (units.count > 0) {
				return;
			}
		}
	}

	SpatialSource source;
	vector<unique_ptr<SourcePhase>> phases;
	idx_t current = 0;
	//! Threads that have taken a unit of the current phase and not ended their work in it
	idx_t busy_threads = 0;
	idx_t max_threads;
};

class SpatialJoinLocalSource : public LocalSourceState {
public:
	//! In the current phase, if this thread has taken a unit of it
	unique_ptr<PhaseWork> work;
	bool in_unit = false;
};

} // namespace

unique_ptr<GlobalSourceState> PhysicalSpatialJoin::GetGlobalSourceState(ClientContext &context) const {
	return make_uniq<SpatialJoinGlobalSource>(context, *this);
}

unique_ptr<LocalSourceState> PhysicalSpatialJoin::GetLocalSourceState(ExecutionContext &, GlobalSourceState &) const {
	return make_uniq<SpatialJoinLocalSource>();
}

ProgressData PhysicalSpatialJoin::GetProgress(ClientContext &, GlobalSourceState &gstate) const {
	// Does not take the lock: DuckDB calls this under its executor's lock, and a thread that unblocks tasks takes that one under ours
	auto &units = gstate.Cast<SpatialJoinGlobalSource>().units;
	ProgressData result;
	result.total = static_cast<double>(MaxValue<idx_t>(1, units.count.load()));
	result.done = MinValue(result.total, static_cast<double>(units.next.load()));
	return result;
}

SourceResultType PhysicalSpatialJoin::GetDataInternal(ExecutionContext &context, DataChunk &chunk,
                                                      OperatorSourceInput &input) const {
	return WithFunctionName(function, [&] { return Emit(context, chunk, input); });
}

SourceResultType PhysicalSpatialJoin::Emit(ExecutionContext &context, DataChunk &chunk,
                                           OperatorSourceInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSource>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSource>();
	const QueryScope scope(context.client);
	while (true) {
		if (context.client.IsInterrupted()) {
			throw InterruptException();
		}
		if (local.in_unit) {
			bool has_more = local.work->Next(chunk);
			if (!has_more) {
				local.in_unit = false;
			}
			if (chunk.size() > 0) {
				return SourceResultType::HAVE_MORE_OUTPUT;
			}
			continue;
		}
		if (local.work) {
			local.work->EndUnit();
		}
		unique_ptr<PhaseWork> ended; // freed without the lock
		auto guard = LockState(global);
		if (global.IsDone()) {
			guard.unlock();
			SourceFinished(context, global);
			return SourceResultType::FINISHED;
		}
		if (global.Take(local.work)) {
			guard.unlock();
			local.work->BeginUnit();
			local.in_unit = true;
			continue;
		}
		ended = std::move(local.work);
		if (!global.EndWork(ended.get())) {
			return BlockSource(global, guard, input.interrupt_state);
		}
		global.NextPhase();
		UnblockTasks(global, guard);
	}
}

} // namespace duckdb
