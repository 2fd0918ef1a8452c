#include "duckdb/overlay/pinned_scan.hpp"

#include "duckdb/support/task_parallel.hpp"

namespace duckdb {

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//
LogicalPinnedScan::LogicalPinnedScan(unique_ptr<LogicalOperator> child, PinnedScan scan_p, vector<bool> needed,
                                     idx_t geometry, shared_ptr<PinnedUnion> found)
    : scan(std::move(scan_p)), needed(std::move(needed)), geometry(geometry), found(std::move(found)) {
	estimated_cardinality = child->estimated_cardinality;
	has_estimated_cardinality = child->has_estimated_cardinality;
	children.push_back(std::move(child));
}

void LogicalPinnedScan::Serialize(Serializer &) const {
	throw NotImplementedException("%s has no serialized form", GetName());
}

InsertionOrderPreservingMap<string> LogicalPinnedScan::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Table"] = scan.table.text;
	SetParamsEstimatedCardinality(result);
	return result;
}

PhysicalOperator &LogicalPinnedScan::CreatePlan(ClientContext &, PhysicalPlanGenerator &planner) {
	auto &child = planner.CreatePlan(*children[0]);
	return planner.Make<PhysicalPinnedScan>(*this, child);
}

PhysicalPinnedScan::PhysicalPinnedScan(PhysicalPlan &plan, const LogicalPinnedScan &logical, PhysicalOperator &child)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, logical.types, logical.estimated_cardinality),
      asked {logical.scan, logical.types, logical.needed, logical.geometry, logical.estimated_cardinality},
      found(logical.found) {
	children.push_back(child);
}

InsertionOrderPreservingMap<string> PhysicalPinnedScan::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Operator"] = GetName(); // DuckDB's text has no names of extension operators
	result["Table"] = asked.scan.table.text;
	SetEstimatedCardinality(result, estimated_cardinality);
	return result;
}

//===----------------------------------------------------------------------===//
// Operator
//===----------------------------------------------------------------------===//
namespace {

class PinnedScanGlobalState : public GlobalOperatorState {
public:
	explicit PinnedScanGlobalState(ClientContext &context) : looking(ThreadCount(context), CancelPoll(context)) {
	}
	//! All threads that have rows look for the table together
	PinnedPolygons &Find(ClientContext &context, const PhysicalPinnedScan &op) {
		looking.Run([&](vibespatial::Parallel &parallel) {
			const QueryScope scope(context);
			polygons = PinnedPolygons::Find(context, op.asked, parallel);
			op.found->Set(polygons);
		});
		return *polygons;
	}

private:
	vibespatial::SharedWork looking;
	shared_ptr<PinnedPolygons> polygons;
};

class PinnedScanState : public OperatorState {
public:
	unique_ptr<PinnedPolygonsReader> reader;
};

} // namespace

unique_ptr<GlobalOperatorState> PhysicalPinnedScan::GetGlobalOperatorState(ClientContext &context) const {
	return make_uniq<PinnedScanGlobalState>(context);
}

unique_ptr<OperatorState> PhysicalPinnedScan::GetOperatorState(ExecutionContext &) const {
	return make_uniq<PinnedScanState>();
}

OperatorResultType PhysicalPinnedScan::Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
                                               GlobalOperatorState &gstate, OperatorState &state_p) const {
	auto &polygons = gstate.Cast<PinnedScanGlobalState>().Find(context.client, *this);
	if (!polygons.HasRows()) {
		chunk.Reference(input);
		return OperatorResultType::NEED_MORE_INPUT;
	}
	auto &state = state_p.Cast<PinnedScanState>();
	if (!state.reader) {
		state.reader = make_uniq<PinnedPolygonsReader>(context.client, polygons);
	}
	return state.reader->Next(chunk) ? OperatorResultType::HAVE_MORE_OUTPUT : OperatorResultType::FINISHED;
}

} // namespace duckdb
