//===----------------------------------------------------------------------===//
// duckdb/overlay/pinned_union.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/collect_rows.hpp"
#include "duckdb/pinned/polygons.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"

namespace duckdb {

//! The union of rows of a pinned table, as the aggregate would make it
class RowUnion {
public:
	virtual ~RowUnion() = default;
	//! As a string of `result`; several threads may call it
	virtual string_t Unite(const PinnedPolygons &pinned, const uint32_t *numbers, idx_t count, Vector &result) = 0;
};

//! VIBE_PINNED_UNION: above an aggregate that unites geometries of a table. Where the table is pinned when the query runs, the aggregate has
//! left the numbers of rows in the place of unions; this makes them, of all groups at once.
class LogicalPinnedUnion : public LogicalExtensionOperator {
public:
	//! A column of the child with unions
	struct Column {
		idx_t number;
		shared_ptr<RowUnion> unite;
	};
	LogicalPinnedUnion(unique_ptr<LogicalOperator> child, vector<Column> columns, shared_ptr<PinnedUnion> found,
	                   string table);

	const vector<Column> columns;
	const shared_ptr<PinnedUnion> found;
	const string table;

	string GetName() const override {
		return "VIBE_PINNED_UNION";
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

class PhysicalPinnedUnion : public PhysicalOperator {
public:
	//! The child is PhysicalCollectRows
	PhysicalPinnedUnion(PhysicalPlan &plan, const LogicalPinnedUnion &logical, PhysicalOperator &child);

	const vector<LogicalPinnedUnion::Column> columns;
	const shared_ptr<PinnedUnion> found;
	const string table;

	ColumnDataCollection &Rows() const {
		return children[0].get().Cast<PhysicalCollectRows>().Rows();
	}
	string GetName() const override {
		return "VIBE_PINNED_UNION";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	// Pipeline construction
	vector<const_reference<PhysicalOperator>> GetSources() const override {
		return {*this};
	}
	void BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) override;

	// Source interface
	bool IsSource() const override {
		return true;
	}
	bool ParallelSource() const override {
		return true;
	}
	OrderPreservationType SourceOrder() const override {
		return OrderPreservationType::NO_ORDER;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override;

protected:
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override;
};

} // namespace duckdb
