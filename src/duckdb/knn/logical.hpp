//===----------------------------------------------------------------------===//
// duckdb/knn/logical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "engine/dispatch/needs.hpp"

namespace duckdb {

//! VIBE_KNN: for every row of the left child its nearest rows of the right one. What comes out: left_row, right_row, distance,
//! rank, then columns of the left child and of the right one.
class LogicalKnn : public LogicalExtensionOperator {
public:
	//! The expressions are columns of the children: the left geometry and the left columns that come out, then the right ones
	LogicalKnn(TableIndex table_index, uint64_t k, double max_distance, vector<unique_ptr<Expression>> left_columns,
	           vector<unique_ptr<Expression>> right_columns, unique_ptr<LogicalOperator> left,
	           unique_ptr<LogicalOperator> right);

	const TableIndex table_index;
	const uint64_t k;
	const double max_distance;
	//! So many expressions are of the left child
	const idx_t left_count;
	//! KnnRequest::kernels
	vibespatial::KernelNames kernels = vibespatial::NeighbourNeeds(vibespatial::SideKinds(), vibespatial::SideKinds());

	string GetName() const override;
	string GetExtensionName() const override;
	bool SupportSerialization() const override {
		return false;
	}
	//! Says that it cannot: who wants to copy a CTE then keeps the one
	void Serialize(Serializer &serializer) const override;
	InsertionOrderPreservingMap<string> ParamsToString() const override;
	vector<ColumnBinding> GetColumnBindings() override;
	vector<TableIndex> GetTableIndex() const override;
	idx_t EstimateCardinality(ClientContext &context) override;
	void ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) override;
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override;

protected:
	void ResolveTypes() override;
};

} // namespace duckdb
