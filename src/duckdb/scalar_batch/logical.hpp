//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/logical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "engine/gpu/interface/scalar.hpp"

namespace duckdb {

//! VIBE_SCALAR_BATCH: computes calls of functions of one or two geometries for many rows at a time. It emits columns of its child, then
//! one column for each call. The calls are its expressions; all run the same kernel.
class LogicalScalarBatch : public LogicalExtensionOperator {
public:
	LogicalScalarBatch(TableIndex table_index, unique_ptr<LogicalOperator> child);

	//! The table of the call columns
	TableIndex table_index;
	//! The columns of the child that are emitted
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

//! Translates a call into what the GPU engine computes; false for calls that it does not, and for functions of other extensions. One
//! of two geometries may be a constant.
bool FindScalarTask(const Expression &call, vibespatial::ScalarTask &task);

//! Whether an argument is a constant geometry, not NULL
bool IsConstantGeometry(const Expression &argument);

//! Puts VIBE_SCALAR_BATCH below filters, projections and aggregates whose calls go to the GPU, and requests its kernels
void PlanScalarBatches(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan);

} // namespace duckdb
