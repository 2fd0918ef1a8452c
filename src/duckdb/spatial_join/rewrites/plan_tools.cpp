#include "duckdb/spatial_join/rewrites/plan_tools.hpp"

namespace duckdb {

namespace join_rewrites {

bool IsSpatialJoin(const LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR && op.GetName() == "VIBE_SPATIAL_JOIN";
}

LogicalSpatialJoin &AsSpatialJoin(LogicalOperator &op) {
	return static_cast<LogicalSpatialJoin &>(op);
}

bool HasOperator(const LogicalOperator &op, LogicalOperatorType type) {
	if (op.type == type) {
		return true;
	}
	for (auto &child : op.children) {
		if (HasOperator(*child, type)) {
			return true;
		}
	}
	return false;
}

bool HasSpatialJoin(const LogicalOperator &op) {
	if (IsSpatialJoin(op)) {
		return true;
	}
	for (auto &child : op.children) {
		if (HasSpatialJoin(*child)) {
			return true;
		}
	}
	return false;
}

idx_t Cardinality(ClientContext &context, LogicalOperator &op) {
	return op.has_estimated_cardinality ? op.estimated_cardinality : op.EstimateCardinality(context);
}

void CopyCardinality(const LogicalOperator &from, LogicalOperator &to) {
	to.estimated_cardinality = from.estimated_cardinality;
	to.has_estimated_cardinality = from.has_estimated_cardinality;
}

vector<idx_t> MapColumns(const vector<ProjectionIndex> &map, idx_t count) {
	vector<idx_t> result(map.begin(), map.end());
	for (idx_t i = 0; map.empty() && i < count; i++) {
		result.push_back(i);
	}
	return result;
}

void SkipProjections(reference<unique_ptr<LogicalOperator>> &slot, vector<reference<LogicalProjection>> &projections) {
	while (slot.get()->type == LogicalOperatorType::LOGICAL_PROJECTION) {
		projections.push_back(slot.get()->Cast<LogicalProjection>());
		slot = slot.get()->children[0];
	}
}

void ReplaceThrough(unique_ptr<Expression> &expr, const vector<reference<LogicalProjection>> &projections) {
	for (auto &projection : projections) {
		ReplaceColumns(expr, [&](const ColumnBinding &binding) -> unique_ptr<Expression> {
			auto &expressions = projection.get().expressions;
			return binding.table_index == projection.get().table_index ? expressions[binding.column_index]->Copy()
			                                                           : nullptr;
		});
	}
}

optional_ptr<LogicalSpatialJoin> FindInnerJoin(unique_ptr<LogicalOperator> &subquery,
                                               vector<reference<LogicalProjection>> &projections) {
	reference<unique_ptr<LogicalOperator>> slot = subquery;
	SkipProjections(slot, projections);
	if (!IsSpatialJoin(*slot.get())) {
		return nullptr;
	}
	auto &join = AsSpatialJoin(*slot.get());
	return join.join_type == JoinType::INNER && !join.aggregate ? &join : nullptr;
}

void ChooseBuildSide(ClientContext &context, LogicalSpatialJoin &join) {
	if ((join.join_type == JoinType::SEMI || join.join_type == JoinType::ANTI) &&
	    Cardinality(context, *join.children[0]) < Cardinality(context, *join.children[1])) {
		join.join_type = join.join_type == JoinType::SEMI ? JoinType::RIGHT_SEMI : JoinType::RIGHT_ANTI;
		std::swap(join.children[0], join.children[1]);
		std::swap(join.left_columns, join.right_columns);
		join.spatial.Flip();
	}
}

} // namespace join_rewrites

} // namespace duckdb
