//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/logical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "engine/gpu/interface/bulk.hpp"

namespace duckdb {

//! VIBE_BULK: columns of its child, and one for each call of a function of one geometry or two, whose rows are computed many at a
//! time. The calls are its expressions, all of one kernel.
class LogicalBulk : public LogicalExtensionOperator {
public:
	LogicalBulk(TableIndex table_index, unique_ptr<LogicalOperator> child);

	//! Of the calls
	TableIndex table_index;
	//! Columns of the child that come out
	vector<idx_t> columns;

	string GetName() const override;
	string GetExtensionName() const override;
	bool SupportSerialization() const override {
		return false;
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override;
	vector<ColumnBinding> GetColumnBindings() override;
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override;

protected:
	void ResolveTypes() override;
};

//! What a call asks of its geometries, one of two may be a constant; false for all but our own functions
bool FindBulkTask(const Expression &call, vibespatial::BulkTask &task);

//! An argument with the same geometry in all rows
bool IsConstantGeometry(const Expression &argument);

//! Puts VIBE_BULK below filters, projections and aggregates over as many rows as the GPU is for, and asks for its kernels
void PutBulk(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan);

} // namespace duckdb
