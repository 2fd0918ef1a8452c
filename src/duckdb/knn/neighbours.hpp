//===----------------------------------------------------------------------===//
// duckdb/knn/neighbours.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/knn/physical.hpp"
#include "duckdb/pinned/tables.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "duckdb/support/compat.hpp"

namespace duckdb {

//! VIBE_KNN in place of a cross product whose rows are cut to the nearest of each left row (rewrites.hpp). The columns of both
//! children pass through it under their own bindings, as through a join.
class LogicalNeighbours : public LogicalExtensionOperator {
public:
	//! The geometries are expressions over one child each. With request.outer there may be a further condition on a row and its neighbour.
	LogicalNeighbours(TableIndex table_index, KnnRequest request, unique_ptr<Expression> left_geometry,
	                  unique_ptr<Expression> right_geometry, unique_ptr<LogicalOperator> left,
	                  unique_ptr<LogicalOperator> right, unique_ptr<Expression> residual = nullptr);

	//! Columns of its own
	static constexpr idx_t RANK = 0;
	static constexpr idx_t DISTANCE = 1;

	const TableIndex table_index;
	KnnRequest request;
	//! What is asked of the right side, where that is a table that may be pinned
	unique_ptr<PinnedScan> pinned_right;

	unique_ptr<Expression> OwnColumn(idx_t column) const;
	optional_ptr<Expression> Residual() const;
	//! Afterwards only these columns of the children come out
	void SetColumns(vector<idx_t> left, vector<idx_t> right);
	static bool Is(const LogicalOperator &op);

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

private:
	//! Of `expressions`, after those of both sides
	static constexpr idx_t RESIDUAL = 2;

	vector<idx_t> ColumnsOf(idx_t side);

	bool has_columns = false;
	vector<idx_t> columns[2];
};

} // namespace duckdb
