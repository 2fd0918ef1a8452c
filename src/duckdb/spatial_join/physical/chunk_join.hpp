//===----------------------------------------------------------------------===//
// duckdb/spatial_join/physical/chunk_join.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/spatial_join/groups.hpp"
#include "duckdb/spatial_join/physical.hpp"
#include "duckdb/spatial_join/probe.hpp"

namespace duckdb {

//! Turns the pairs of one probe chunk into output rows, or into updates of an aggregate
class SpatialChunkJoin {
public:
	SpatialChunkJoin(const PhysicalSpatialJoin &op, SpatialProbe &probe, BuildGather &gather,
	                 optional_ptr<SpatialGroups> groups = nullptr)
	    : op(op), probe(probe), gather(gather), groups(groups) {
	}

	//! The next rows of the whole join for this chunk; returns whether there may be more
	bool Next(DataChunk &result) {
		if (groups) {
			groups->AddPairs(probe, true);
			return false;
		}
		switch (op.join_type) {
		case JoinType::SEMI:
		case JoinType::ANTI:
			probe.FindAll();
			EmitFound(result, op.join_type == JoinType::SEMI);
			return false;
		case JoinType::MARK:
			probe.FindAll();
			EmitMarked(result);
			return false;
		case JoinType::RIGHT_SEMI:
		case JoinType::RIGHT_ANTI:
			probe.FindAll();
			return false;
		default:
			break;
		}
		auto count = probe.Next();
		if (count > 0) {
			EmitPairs(result, count);
			return true;
		}
		if (op.join_type == JoinType::LEFT || op.join_type == JoinType::OUTER) {
			EmitFound(result, false);
		}
		return false;
	}

	//! The pairs of the last SpatialProbe::Next()
	void EmitPairs(DataChunk &result, idx_t count) {
		idx_t column = 0;
		EmitLeft(result, column, probe.probe_rows, count);
		auto &gathered = gather.Gather(probe.Build(), probe.build_rows, count);
		for (idx_t i = 0; i < op.right_columns.size(); i++) {
			result.data[column++].Reference(gathered.data[i]);
		}
		SetRowCount(result, count);
	}

	//! The probe rows that have a match, or those that have none
	void EmitFound(DataChunk &result, bool found) {
		SelectionVector rows(STANDARD_VECTOR_SIZE);
		idx_t count = 0;
		for (idx_t i = 0; i < probe.Input().size(); i++) {
			if (probe.found[i] == found && !probe.IsDropped(i)) {
				rows.set_index(count++, i);
			}
		}
		if (count > 0) {
			EmitProbeRows(result, rows, count);
		}
	}

	//! All probe rows
	void EmitMarked(DataChunk &result) {
		SelectionVector rows(STANDARD_VECTOR_SIZE);
		idx_t count = 0;
		for (idx_t i = 0; i < probe.Input().size(); i++) {
			if (!probe.IsDropped(i)) {
				rows.set_index(count++, i);
			}
		}
		if (count > 0) {
			EmitProbeRows(result, rows, count);
		}
	}

	//! Probe rows with their mark, or with NULLs in the columns of the build side
	void EmitProbeRows(DataChunk &result, const SelectionVector &rows, idx_t count) {
		idx_t column = 0;
		EmitLeft(result, column, rows, count);
		if (op.join_type == JoinType::MARK) {
			auto &mark = result.data[column++];
			mark.SetVectorType(VectorType::FLAT_VECTOR);
			for (idx_t i = 0; i < count; i++) {
				MutableData<bool>(mark)[i] = probe.found[rows.get_index(i)];
			}
		}
		for (; column < result.ColumnCount(); column++) {
			SetNull(result.data[column]);
		}
		SetRowCount(result, count);
	}

	static void SetNull(Vector &vector) {
		vector.SetVectorType(VectorType::CONSTANT_VECTOR);
		ConstantVector::SetNull(vector, true);
	}

private:
	void EmitLeft(DataChunk &result, idx_t &column, const SelectionVector &rows, idx_t count) {
		for (auto left : op.left_columns) {
			auto &vector = result.data[column++];
			if (op.left_is_unread) {
				SetNull(vector);
			} else {
				vector.Slice(probe.Input().data[left], rows, count);
			}
		}
	}

	const PhysicalSpatialJoin &op;
	SpatialProbe &probe;
	BuildGather &gather;
	optional_ptr<SpatialGroups> groups;
};

} // namespace duckdb
