// The phase BuildRows
#include "duckdb/spatial_join/physical/chunk_join.hpp"
#include "duckdb/spatial_join/physical/phases.hpp"

namespace duckdb {

namespace {

//! A part has many vectors of rows; this many are worth a thread where the build side is not partitioned
constexpr idx_t VECTORS_PER_THREAD = 10;

class BuildRowsWork : public PhaseWork {
public:
	using PhaseWork::PhaseWork;

	void BeginUnit() override {
		if (!gather) {
			gather = make_uniq<BuildGather>(*op.layout, op.right_columns);
		}
		if (state.partitions) {
			LoadPart();
			begin = 0;
			end = part->Count();
		} else {
			begin = unit * STANDARD_VECTOR_SIZE;
			end = MinValue<idx_t>(begin + STANDARD_VECTOR_SIZE, state.build->Count());
		}
	}
	bool Next(DataChunk &result) override {
		if (begin >= end) {
			return false;
		}
		auto &build = part ? *part : *state.build;
		auto next = MinValue<idx_t>(begin + STANDARD_VECTOR_SIZE, end);
		uint32_t rows[STANDARD_VECTOR_SIZE];
		idx_t count = 0;
		for (auto row = begin; row < next; row++) {
			if (build.IsMatched(row) == (op.join_type == JoinType::RIGHT_SEMI)) {
				rows[count++] = NumericCast<uint32_t>(row);
			}
		}
		begin = next;
		if (auto groups = Groups()) {
			groups->AddRest(build, rows, count);
		} else if (count > 0) {
			Emit(build, rows, count, result);
		}
		return true;
	}
	void EndUnit() override {
		part.reset();
	}

private:
	//! The rows of the part that may still have to come out; Parts has kept no others
	void LoadPart() {
		part = make_uniq<SpatialBuild>(source.context, op, std::move(state.partitions->build_rows.Part(unit)),
		                               state.matched);
		vibespatial::Serial serial;
		part->Load(serial);
		if (op.has_aggregate) {
			lock_guard<mutex> guard(state.lock);
			state.groups->NumberBuild(*part);
		}
	}

	void Emit(const SpatialBuild &build, const uint32_t *rows, idx_t count, DataChunk &result) {
		idx_t column = 0;
		for (; column < op.left_columns.size(); column++) {
			SpatialChunkJoin::SetNull(result.data[column]);
		}
		auto &gathered = gather->Gather(build, rows, count);
		for (idx_t i = 0; i < op.right_columns.size(); i++) {
			result.data[column++].Reference(gathered.data[i]);
		}
		SetRowCount(result, count);
	}

	unique_ptr<BuildGather> gather;
	//! With partitions
	unique_ptr<SpatialBuild> part;
	//! The rows of the unit that are left
	idx_t begin = 0;
	idx_t end = 0;
};

class BuildRowsPhase : public SourcePhase {
public:
	using SourcePhase::SourcePhase;

	idx_t Begin() override {
		if (!op.MarksBuild()) {
			return 0;
		}
		return state.partitions ? state.partitions->grid.PartCount()
		                        : (state.build->Count() + STANDARD_VECTOR_SIZE - 1) / STANDARD_VECTOR_SIZE;
	}
	idx_t MaxThreads(idx_t units, idx_t) const override {
		return op.has_aggregate ? 1 : MaxValue<idx_t>(1, units / VECTORS_PER_THREAD);
	}
	unique_ptr<PhaseWork> NewWork() override {
		return make_uniq<BuildRowsWork>(source);
	}
};

} // namespace

unique_ptr<SourcePhase> MakeBuildRowsPhase(SpatialSource &source) {
	return make_uniq<BuildRowsPhase>(source);
}

} // namespace duckdb
