//===----------------------------------------------------------------------===//
// duckdb/spatial_join/logical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/common/enums/join_type.hpp"
#include "duckdb/parquet/covering.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "duckdb/planner/table_filter.hpp"

namespace duckdb {

//! Where the box of the build side is pushed to
struct ProbeScan {
	shared_ptr<DynamicTableFilterSet> filters;
	ProjectionIndex column_index;
	LogicalType type;
	//! The column with the boxes of the geometries, when there is one
	optional_idx covering_index;
	Covering covering;
};

//! An aggregate taken into the join: all its groups are of one side, each of its arguments is
struct SpatialAggregate {
	TableIndex group_index;
	TableIndex aggregate_index;
	vector<unique_ptr<Expression>> groups;
	bool groups_from_left;
	//! BoundAggregateExpressions
	vector<unique_ptr<Expression>> aggregates;
	//! Of all their arguments, one after the other
	vector<bool> argument_from_left;
};

//! VIBE_SPATIAL_JOIN: the left child probes, the right child is built. Its output has the bindings of the operators that it
//! stands for.
class LogicalSpatialJoin : public LogicalExtensionOperator {
public:
	LogicalSpatialJoin(JoinType join_type, SpatialCondition spatial, unique_ptr<LogicalOperator> left,
	                   unique_ptr<LogicalOperator> right);

	JoinType join_type;
	//! MARK: the table index of the mark
	TableIndex mark_index {};
	SpatialCondition spatial;
	//! Columns of the children that come out, all of them named
	vector<idx_t> left_columns;
	vector<idx_t> right_columns;
	//! The one column of the left child that comes out is there for its rows alone: nobody reads it
	bool left_is_unread = false;
	//! What the choice of an engine goes by
	const char *kernel = "join_points";
	vector<ProbeScan> probe_scans;
	unique_ptr<SpatialAggregate> aggregate;

	//! All columns of both children come out
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
