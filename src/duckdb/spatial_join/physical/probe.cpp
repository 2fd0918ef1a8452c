// The streaming part of a spatial join: chunks of the probe side come in, and are joined, sent to the device, partitioned, or left to
// another thread
#include "duckdb/spatial_join/physical/chunk_join.hpp"
#include "duckdb/spatial_join/physical/state.hpp"
#include "duckdb/support/function_builder.hpp"

namespace duckdb {

namespace {

//! A thread joins this many chunks itself before it leaves any to others: a LIMIT may need no more
constexpr idx_t CHUNKS_BEFORE_HOLDING = 2;
constexpr idx_t MAX_HELD_ROWS_PER_THREAD = DEFAULT_ROW_GROUP_SIZE;

class SpatialJoinOperatorState : public CachingOperatorState {
public:
	SpatialJoinOperatorState(ClientContext &context, const PhysicalSpatialJoin &op)
	    : probe(context, op), gather(*op.layout, op.right_columns) {
		if (op.has_aggregate) {
			groups = make_uniq<SpatialGroups>(context, op);
		}
	}

	SpatialProbe probe;
	BuildGather gather;
	unique_ptr<SpatialGroups> groups;
	//! The device looks for pairs: chunks are collected for it
	bool on_device = false;
	//! The last chunk with known pairs has more output
	bool in_chunk = false;
	//! Where the build side is partitioned: the rows of this thread
	unique_ptr<PartRows> part_rows;
	unique_ptr<ColumnDataCollection> held;
	ColumnDataAppendState held_append;
	idx_t chunks_probed = 0;
	//! The current input has been taken; this call continues with it
	bool begun = false;

	//! Leaves the chunk to an idle thread, or holds it back for the source; false where this thread joins it
	bool LeaveToOthers(ClientContext &context, SpatialJoinState &global, DataChunk &input) {
		if (chunks_probed < CHUNKS_BEFORE_HOLDING || !probe.IsLight()) {
			return false;
		}
		if (groups && global.exchange.Give(context, input)) {
			return true;
		}
		if (!global.holds || (held && (held->Count() >= MAX_HELD_ROWS_PER_THREAD ||
		                               held->SizeInBytes() >= global.max_held_bytes_per_thread))) {
			return false;
		}
		if (!held) {
			held = make_uniq<ColumnDataCollection>(context, input.GetTypes());
			held->InitializeAppend(held_append);
		}
		held->Append(held_append, input);
		return true;
	}

	void Finalize(const PhysicalOperator &op, ExecutionContext &context) override {
		auto &global = SpatialJoinState::Get(op);
		const QueryScope scope(context.client);
		WithFunctionName(op.Cast<PhysicalSpatialJoin>().function, [&] {
			if (on_device) {
				probe.EndCollecting();
			}
			TakeFromOthers(global);
		});
		// This thread is idle from now on: others may hold chunks back for it
		global.holds = global.may_hold;
		lock_guard<mutex> guard(global.lock);
		if (held && global.held) {
			global.held->Combine(*held);
		} else if (held) {
			global.held = std::move(held);
		}
		if (groups) {
			global.groups->Combine(*groups);
		}
		if (part_rows) {
			part_rows->Flush();
			global.partitions->probe_rows.Combine(*part_rows);
		}
		global.AddProbe(probe);
	}

private:
	//! With an aggregate, a thread at the end of its scan joins chunks of others: it need not emit any rows for them
	void TakeFromOthers(SpatialJoinState &global) {
		if (groups && chunks_probed > 0) {
			global.exchange.End();
		}
		if (!groups || !global.may_hold || global.holds) {
			return;
		}
		global.exchange.Take([&](DataChunk &chunk) {
			probe.SetInput(chunk);
			probe.Begin(*global.build);
			groups->AddPairs(probe, true);
			global.build->CountMemory();
		});
	}
};

} // namespace

unique_ptr<OperatorState> PhysicalSpatialJoin::GetOperatorState(ExecutionContext &context) const {
	return make_uniq<SpatialJoinOperatorState>(context.client, *this);
}

OperatorResultType PhysicalSpatialJoin::ExecuteInternal(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
                                                        GlobalOperatorState &, OperatorState &state) const {
	return WithFunctionName(function, [&] { return Probe(context, input, chunk, state); });
}

OperatorResultType PhysicalSpatialJoin::Probe(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
                                              OperatorState &state_p) const {
	auto &state = state_p.Cast<SpatialJoinOperatorState>();
	auto &global = SpatialJoinState::Get(*this);
	const QueryScope scope(context.client);
	if (global.pairs_dispatch.NeedsNoScan()) {
		return OperatorResultType::FINISHED;
	}
	if (global.partitions) {
		auto &partitions = *global.partitions;
		if (!state.part_rows) {
			state.part_rows = make_uniq<PartRows>(context.client, partitions.probe_layout, partitions.grid.PartCount());
		}
		state.probe.SetInput(input);
		partitions.CutProbe(input, state.probe.Geometries(), state.probe.Limits(), *state.part_rows);
		return OperatorResultType::NEED_MORE_INPUT;
	}
	if (!state.begun) {
		state.probe.SetInput(input);
		if (global.pairs_dispatch.IsActive() && !global.pairs_dispatch.KindIsKnown()) {
			global.pairs_dispatch.DecideAgain(state.probe.FirstRows(), global.build.get());
		}
		state.on_device = state.on_device || global.pairs_dispatch.IsActive();
	}
	if (state.on_device) {
		if (!state.begun) {
			state.probe.Collect(*global.build);
			state.begun = true;
		}
		while (state.in_chunk || state.probe.NextChunk()) {
			state.in_chunk = SpatialChunkJoin(*this, state.probe, state.gather, state.groups.get()).Next(chunk);
			if (chunk.size() > 0) {
				return OperatorResultType::HAVE_MORE_OUTPUT;
			}
		}
		state.begun = false;
		return OperatorResultType::NEED_MORE_INPUT;
	}
	if (!state.begun) {
		if (state.LeaveToOthers(context.client, global, input)) {
			return OperatorResultType::NEED_MORE_INPUT;
		}
		if (state.groups && state.chunks_probed == 0) {
			global.exchange.Begin();
		}
		state.probe.Begin(*global.build);
		state.chunks_probed++;
		global.build->CountMemory();
		state.begun = true;
	}
	if (SpatialChunkJoin(*this, state.probe, state.gather, state.groups.get()).Next(chunk)) {
		return OperatorResultType::HAVE_MORE_OUTPUT;
	}
	state.begun = false;
	return OperatorResultType::NEED_MORE_INPUT;
}

} // namespace duckdb
