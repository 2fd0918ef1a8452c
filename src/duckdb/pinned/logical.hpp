//===----------------------------------------------------------------------===//
// duckdb/pinned/logical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/pinned/tables.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"

namespace duckdb {

//! What is pinned: columns of the child, first the geometries, then those beside each of them, then the place of a row in the table
struct PinRequest {
	PinnedName table;
	vector<string> geometries;
	vector<PinnedTable::Column> columns;
	//! False: the rows have none that are known
	bool has_places = false;

	//! Of all columns beside a geometry
	vector<LogicalType> Types() const {
		vector<LogicalType> types;
		for (auto &column : columns) {
			types.push_back(column.type);
		}
		if (has_places) {
			types.push_back(LogicalType::UINTEGER);
		}
		return types;
	}
};

//! VIBE_PIN: brings the rows of its child to the device, and says what it has brought
class LogicalPin : public LogicalExtensionOperator {
public:
	//! The columns of the request are those of the child
	LogicalPin(TableIndex table_index, PinRequest request, unique_ptr<LogicalOperator> child,
	           const vector<LogicalType> &types);

	const TableIndex table_index;
	const PinRequest request;

	string GetName() const override {
		return "VIBE_PIN";
	}
	string GetExtensionName() const override {
		return "vibespatial";
	}
	bool SupportSerialization() const override {
		return false;
	}
	void Serialize(Serializer &serializer) const override;
	InsertionOrderPreservingMap<string> ParamsToString() const override;
	vector<ColumnBinding> GetColumnBindings() override;
	vector<TableIndex> GetTableIndex() const override {
		return {table_index};
	}
	void ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) override;
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override;

	//! Of what comes out
	static vector<string> Names() {
		return {"table_name", "geometry", "columns", "rows", "bytes"};
	}

protected:
	void ResolveTypes() override;
};

} // namespace duckdb
