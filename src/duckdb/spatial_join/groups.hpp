//===----------------------------------------------------------------------===//
// duckdb/spatial_join/groups.hpp
//
// Aggregates over the pairs of a spatial join: each pair updates the states of its group, and is forgotten
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/execution/aggregate_hashtable.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/execution/operator/aggregate/aggregate_object.hpp"
#include "duckdb/spatial_join/probe.hpp"
#include "duckdb/storage/arena_allocator.hpp"

namespace duckdb {

//! Groups by number: the order in which they were first seen
class GroupNumbers {
public:
	GroupNumbers(ClientContext &context, const vector<LogicalType> &types);

	void Number(DataChunk &groups, uint32_t *numbers);
	idx_t Count() const {
		return count;
	}
	const ColumnDataCollection &Values() const {
		return values;
	}

private:
	GroupedAggregateHashTable table;
	ColumnDataCollection values;
	idx_t count = 0;
};

//! The states of aggregates, by group
class GroupStates {
public:
	GroupStates(ClientContext &context, const vector<unique_ptr<Expression>> &aggregates);
	~GroupStates();

	//! One row of arguments for each group number; no numbers: all are of the first group
	void Update(DataChunk &arguments, const uint32_t *groups, idx_t count);
	//! The same row of arguments (constant vectors) `times` times, for one group
	void UpdateOften(DataChunk &arguments, uint32_t group, uint64_t times);
	//! `mapped`: the numbers here of the other's groups; none: the same
	void Combine(GroupStates &other, const vector<uint32_t> &mapped);
	bool Has(idx_t group) const {
		return group < touched.size() && touched[group];
	}
	//! The results of some groups into columns of a chunk, from `column` on
	void Finalize(const uint32_t *groups, idx_t count, DataChunk &result, idx_t column);

private:
	static constexpr idx_t GROUPS_PER_BLOCK = 1024;

	//! Before a group's state is asked for
	void Fit(idx_t group);
	data_ptr_t State(idx_t group) {
		return blocks[group / GROUPS_PER_BLOCK].get() + (group % GROUPS_PER_BLOCK) * width;
	}

	vector<AggregateObject> objects;
	vector<idx_t> offsets;
	idx_t width = 0;
	ArenaAllocator arena;
	vector<unsafe_unique_array<data_t>> blocks;
	//! Groups that have had a row
	vector<uint8_t> touched;
	Vector states;
};

//! The aggregate of a join, of one thread or of all
class SpatialGroups {
public:
	SpatialGroups(ClientContext &context, const PhysicalSpatialJoin &op);

	//! Numbers the groups of a build side whose columns they are
	void NumberBuild(SpatialBuild &build);
	//! All pairs of the probe's chunk; with `rest` also the rows that met nothing, where the join keeps them
	void AddPairs(SpatialProbe &probe, bool rest);
	//! Rows that are pairs with NULLs: of the probe side, of the build side
	void AddRest(DataChunk &input, const SelectionVector &rows, idx_t count);
	void AddRest(SpatialBuild &build, const uint32_t *rows, idx_t count);
	//! So many pairs for each row of a build side, where the probe side has no part in groups and arguments
	void AddCounted(SpatialBuild &build, const std::vector<uint64_t> &pairs);
	void Combine(SpatialGroups &other);

	idx_t Count() const {
		return !HasGroups() ? 1 : numbers ? numbers->Count() : 0;
	}
	//! The results of the groups from `begin` on, at most a chunk of them; returns how many there are
	idx_t Emit(idx_t begin, DataChunk &result);

private:
	//! The arguments and groups that come from the probe side
	void Evaluate(DataChunk &input);
	//! Pairs of rows of the evaluated chunk and of a build side; no build side: with NULLs
	void Add(const SelectionVector &rows, optional_ptr<SpatialBuild> build, const uint32_t *build_rows, idx_t count);

	bool HasGroups() const;
	GroupNumbers &Numbers();

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	unique_ptr<GroupNumbers> numbers;
	GroupStates states;

	ExpressionExecutor probe_executor;
	DataChunk probe_arguments;
	ExpressionExecutor group_executor;
	DataChunk group_chunk;
	uint32_t row_groups[STANDARD_VECTOR_SIZE];
	BuildGather gather;
	//! What the arguments are for a row of NULLs
	DataChunk null_probe;
	DataChunk null_build;
	//! The arguments of pairs, in the order of the aggregates
	DataChunk arguments;
	SelectionVector zeros;
};

} // namespace duckdb
