//===----------------------------------------------------------------------===//
// duckdb/overlay/pinned_scan.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/pinned/polygons.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"

namespace duckdb {

//! VIBE_PINNED_SCAN: above the scan of a table whose geometries are united. Where the table is pinned when the query runs, the first rows of
//! the scan are the last: the rows come from the pin.
class LogicalPinnedScan : public LogicalExtensionOperator {
public:
	//! `needed`: the columns of the child that are read beside the geometry
	LogicalPinnedScan(unique_ptr<LogicalOperator> child, PinnedScan scan, vector<bool> needed, idx_t geometry,
	                  shared_ptr<PinnedUnion> found);

	const PinnedScan scan;
	const vector<bool> needed;
	const idx_t geometry;
	const shared_ptr<PinnedUnion> found;

	string GetName() const override {
		return "VIBE_PINNED_SCAN";
	}
	string GetExtensionName() const override {
		return "vibespatial";
	}
	bool SupportSerialization() const override {
		return false;
	}
	void Serialize(Serializer &serializer) const override;
	InsertionOrderPreservingMap<string> ParamsToString() const override;
	vector<ColumnBinding> GetColumnBindings() override {
		return children[0]->GetColumnBindings();
	}
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override;

protected:
	void ResolveTypes() override {
		types = children[0]->types;
	}
};

class PhysicalPinnedScan : public PhysicalOperator {
public:
	PhysicalPinnedScan(PhysicalPlan &plan, const LogicalPinnedScan &logical, PhysicalOperator &child);

	const PinnedPolygons::Plan asked;
	const shared_ptr<PinnedUnion> found;

	string GetName() const override {
		return "VIBE_PINNED_SCAN";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	// Operator interface
	bool ParallelOperator() const override {
		return true;
	}
	unique_ptr<GlobalOperatorState> GetGlobalOperatorState(ClientContext &context) const override;
	unique_ptr<OperatorState> GetOperatorState(ExecutionContext &context) const override;
	OperatorResultType Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
	                           GlobalOperatorState &gstate, OperatorState &state) const override;
};

} // namespace duckdb
