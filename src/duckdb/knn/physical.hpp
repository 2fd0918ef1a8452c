//===----------------------------------------------------------------------===//
// duckdb/knn/physical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/types/row/tuple_data_layout.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/operators/collect_rows.hpp"
#include "engine/dispatch/needs.hpp"

#include <limits>

namespace duckdb {

//! What is asked for of each left row
struct KnnRequest {
	uint64_t k;
	double max_distance = std::numeric_limits<double>::infinity();
	//! An EMPTY geometry is at distance 0 of all others, as ST_Distance says; else it has no neighbours and is nobody's
	bool empty_is_near = false;
	//! Rows whose distance is NULL come after all others, as in ORDER BY; else they are nobody's neighbours
	bool null_is_last = false;
	//! A left row without neighbours comes out once, with NULLs on the right
	bool outer = false;
	//! As errors name it
	const char *function = "vibe_knn";
	//! For EXPLAIN
	string distance = string();
	//! The kernels that a GPU may need for it
	vibespatial::KernelNames kernels = vibespatial::NeighbourNeeds(vibespatial::SideKinds(), vibespatial::SideKinds());
};

//! VIBE_KNN. Both children are collected, so that their rows have numbers. The source's threads index the right side together, then
//! each takes chunks of the left one: rows come out by left row and rank wherever DuckDB keeps the order of a scan.
class PhysicalKnn : public ReportingOperator<PhysicalOperator> {
public:
	//! The children are PhysicalCollectRows: the geometry, then the columns that come out
	PhysicalKnn(PhysicalPlan &plan, LogicalOperator &knn, KnnRequest request, string planned_engine,
	            PhysicalOperator &left, PhysicalOperator &right, bool deterministic,
	            unique_ptr<Expression> residual = nullptr);

	const KnnRequest request;
	const string planned_engine;
	const bool deterministic;
	//! With request.outer: what else must hold for a row and its neighbour, over the columns that come out
	const unique_ptr<Expression> residual;
	//! What comes out before the columns of the children: left_row, right_row, distance, rank
	static constexpr idx_t OWN_COLUMNS = 4;
	//! Of the rows of the right side
	shared_ptr<TupleDataLayout> layout;

	const PhysicalCollectRows &Left() const {
		return children[0].get().Cast<PhysicalCollectRows>();
	}
	const PhysicalCollectRows &Right() const {
		return children[1].get().Cast<PhysicalCollectRows>();
	}

	string GetName() const override;
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	// Pipeline construction
	vector<const_reference<PhysicalOperator>> GetSources() const override;
	void BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) override;

	// Source interface
	bool IsSource() const override {
		return true;
	}
	bool ParallelSource() const override {
		return true;
	}
	OrderPreservationType SourceOrder() const override {
		return deterministic ? OrderPreservationType::FIXED_ORDER : OrderPreservationType::INSERTION_ORDER;
	}
	bool SupportsPartitioning(const OperatorPartitionInfo &partition_info) const override {
		return !partition_info.RequiresPartitionColumns();
	}
	OperatorPartitionData GetPartitionData(ExecutionContext &context, DataChunk &chunk, GlobalSourceState &gstate,
	                                       LocalSourceState &lstate,
	                                       const OperatorPartitionInfo &partition_info) const override;
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override;
	unique_ptr<LocalSourceState> GetLocalSourceState(ExecutionContext &context,
	                                                 GlobalSourceState &gstate) const override;
	ProgressData GetProgress(ClientContext &context, GlobalSourceState &gstate) const override;
	InsertionOrderPreservingMap<string> Report(GlobalSourceState &gstate) const override;

protected:
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override;
};

} // namespace duckdb
