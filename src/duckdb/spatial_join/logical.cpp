#include "duckdb/spatial_join/logical.hpp"

#include "duckdb/operators/resolve_columns.hpp"
#include "duckdb/spatial_join/physical.hpp"
#include "duckdb/planner/expression/bound_aggregate_expression.hpp"

namespace duckdb {

LogicalSpatialJoin::LogicalSpatialJoin(JoinType join_type, SpatialCondition spatial_p, unique_ptr<LogicalOperator> left,
                                       unique_ptr<LogicalOperator> right)
    : join_type(join_type), spatial(std::move(spatial_p)) {
	children.push_back(std::move(left));
	children.push_back(std::move(right));
	SetAllColumns();
}

void LogicalSpatialJoin::SetAllColumns() {
	left_columns.clear();
	right_columns.clear();
	for (idx_t i = 0; EmitsLeft() && i < children[0]->GetColumnBindings().size(); i++) {
		left_columns.push_back(i);
	}
	for (idx_t i = 0; EmitsRight() && i < children[1]->GetColumnBindings().size(); i++) {
		right_columns.push_back(i);
	}
}

bool LogicalSpatialJoin::EmitsLeft() const {
	return join_type != JoinType::RIGHT_SEMI && join_type != JoinType::RIGHT_ANTI;
}

bool LogicalSpatialJoin::EmitsRight() const {
	return join_type != JoinType::SEMI && join_type != JoinType::ANTI && join_type != JoinType::MARK;
}

string LogicalSpatialJoin::GetName() const {
	return "VIBE_SPATIAL_JOIN";
}

string LogicalSpatialJoin::GetExtensionName() const {
	return "vibespatial";
}

InsertionOrderPreservingMap<string> LogicalSpatialJoin::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Join Type"] = EnumUtil::ToString(join_type);
	result["Predicate"] = spatial.text;
	if (spatial.residual) {
		result["Residual"] = spatial.residual->ToString();
	}
	if (aggregate) {
		string names;
		for (auto &expr : aggregate->aggregates) {
			names += (names.empty() ? "" : "\n") + expr->ToString();
		}
		result["Aggregates"] = names;
	}
	SetParamsEstimatedCardinality(result);
	return result;
}

vector<ColumnBinding> LogicalSpatialJoin::GetColumnBindings() {
	vector<ColumnBinding> result;
	if (aggregate) {
		for (idx_t i = 0; i < aggregate->groups.size(); i++) {
			result.emplace_back(aggregate->group_index, ProjectionIndex(i));
		}
		for (idx_t i = 0; i < aggregate->aggregates.size(); i++) {
			result.emplace_back(aggregate->aggregate_index, ProjectionIndex(i));
		}
		return result;
	}
	auto left = children[0]->GetColumnBindings();
	auto right = children[1]->GetColumnBindings();
	for (auto column : left_columns) {
		result.push_back(left[column]);
	}
	if (join_type == JoinType::MARK) {
		result.emplace_back(mark_index, ProjectionIndex(0));
	}
	for (auto column : right_columns) {
		result.push_back(right[column]);
	}
	return result;
}

void LogicalSpatialJoin::ResolveTypes() {
	types.clear();
	if (aggregate) {
		for (auto &group : aggregate->groups) {
			types.push_back(ReturnTypeOf(*group));
		}
		for (auto &expr : aggregate->aggregates) {
			types.push_back(ReturnTypeOf(*expr));
		}
		return;
	}
	for (auto column : left_columns) {
		types.push_back(children[0]->types[column]);
	}
	if (join_type == JoinType::MARK) {
		types.push_back(LogicalType::BOOLEAN);
	}
	for (auto column : right_columns) {
		types.push_back(children[1]->types[column]);
	}
}

void LogicalSpatialJoin::ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) {
	auto resolve_side = [&](bool left) {
		resolver.VisitOperator(*children[left ? 0 : 1]);
		resolver.VisitExpression(left ? &spatial.left : &spatial.right);
		auto &limit = left ? spatial.left_limit : spatial.right_limit;
		if (limit) {
			resolver.VisitExpression(&limit);
		}
		if (!aggregate) {
			return;
		}
		for (auto &group : aggregate->groups) {
			if (aggregate->groups_from_left == left) {
				resolver.VisitExpression(&group);
			}
		}
		idx_t position = 0;
		for (auto &expr : aggregate->aggregates) {
			for (auto &argument : ChildrenOf(expr->Cast<BoundAggregateExpression>())) {
				if (aggregate->argument_from_left[position++] == left) {
					resolver.VisitExpression(&argument);
				}
			}
		}
	};
	resolve_side(true);
	resolve_side(false);
	if (spatial.residual) {
		auto both = children[0]->GetColumnBindings();
		auto right = children[1]->GetColumnBindings();
		both.insert(both.end(), right.begin(), right.end());
		ResolveColumns(resolver, std::move(both), spatial.residual);
	}
	bindings = GetColumnBindings();
}

PhysicalOperator &LogicalSpatialJoin::CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) {
	auto &left = planner.CreatePlan(*children[0]);
	auto &right = planner.CreatePlan(*children[1]);
	return planner.Make<PhysicalSpatialJoin>(context, *this, left, right);
}

} // namespace duckdb
