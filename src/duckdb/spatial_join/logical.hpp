//===----------------------------------------------------------------------===//
// duckdb/spatial_join/logical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/common/enums/join_type.hpp"
#include "duckdb/parquet/covering.hpp"
#include "duckdb/pinned/tables.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "duckdb/planner/table_filter.hpp"
#include "engine/dispatch/needs.hpp"
#include "engine/dispatch/operation.hpp"

namespace duckdb {

//! A scan of the probe side that takes the box of the build side as a dynamic filter
struct ProbeScan {
	shared_ptr<DynamicTableFilterSet> filters;
	ProjectionIndex column_index;
	LogicalType type;
	//! The column with the bounding boxes of the geometries, if there is one
	optional_idx covering_index;
	Covering covering;
};

//! An aggregate that the join computes: all groups are columns of one side, each argument reads one side
struct SpatialAggregate {
	TableIndex group_index;
	TableIndex aggregate_index;
	vector<unique_ptr<Expression>> groups;
	bool groups_from_left;
	//! BoundAggregateExpressions
	vector<unique_ptr<Expression>> aggregates;
	//! For the arguments of all aggregates, one after the other
	vector<bool> argument_from_left;
};

//! VIBE_SPATIAL_JOIN: the left child is the probe side, the right child the build side. Its output has the bindings of the operators that
//! it replaces.
class LogicalSpatialJoin : public LogicalExtensionOperator {
public:
	LogicalSpatialJoin(JoinType join_type, SpatialCondition spatial, unique_ptr<LogicalOperator> left,
	                   unique_ptr<LogicalOperator> right);

	JoinType join_type;
	//! MARK: the table index of the mark
	TableIndex mark_index {};
	SpatialCondition spatial;
	//! The columns of the children that are emitted; no column is implied
	vector<idx_t> left_columns;
	vector<idx_t> right_columns;
	//! The one column of the left child that is emitted only counts rows: no operator reads it
	bool left_is_unread = false;
	//! What dispatch decides: for points on the left side, and for other geometries
	vibespatial::Operation points_operation = vibespatial::Operation::JOIN_POINTS;
	vibespatial::Operation shapes_operation = vibespatial::Operation::JOIN_SHAPES;
	vector<ProbeScan> probe_scans;
	//! What is asked of the probe side, where that is a table that may be pinned
	unique_ptr<PinnedScan> pinned_scan;
	//! The build side, where that is one
	unique_ptr<PinnedScan> pinned_build;
	//! What statistics and types tell of the geometries
	vibespatial::SideKinds probe_kinds;
	vibespatial::SideKinds build_kinds;
	unique_ptr<SpatialAggregate> aggregate;

	//! Emits all columns of both children that the join type allows
	void SetAllColumns();
	bool EmitsLeft() const;
	bool EmitsRight() const;

	string GetName() const override;
	string GetExtensionName() const override;
	bool SupportSerialization() const override {
		return false;
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override;
	vector<ColumnBinding> GetColumnBindings() override;
	void ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) override;
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override;

protected:
	void ResolveTypes() override;
};

} // namespace duckdb
