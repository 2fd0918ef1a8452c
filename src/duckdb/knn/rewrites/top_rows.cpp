// The first rows of each partition by distance
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/knn/neighbours.hpp"
#include "duckdb/knn/rewrites/distance.hpp"
#include "duckdb/knn/rewrites/rewrites.hpp"
#include "duckdb/optimizer/column_binding_replacer.hpp"
#include "duckdb/parser/constraints/unique_constraint.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"

namespace duckdb {

namespace knn_rewrites {

namespace {

using join_rewrites::ReplaceThrough;

enum class Side : uint8_t { NONE, LEFT, RIGHT, BOTH };

//! Which child of a join an expression reads
Side SideOf(const Expression &expr, const JoinTables &tables) {
	bool left = false, right = false, other = false;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(expr, [&](const BoundColumnRefExpression &column) {
		auto index = BindingOf(column).table_index;
		if (tables.left.count(index)) {
			left = true;
		} else if (tables.right.count(index)) {
			right = true;
		} else {
			other = true;
		}
	});
	return other || (left && right) ? Side::BOTH : left ? Side::LEFT : right ? Side::RIGHT : Side::NONE;
}

bool IsColumn(const Expression &expr, const ColumnBinding &binding) {
	return expr.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
	       BindingOf(expr.Cast<BoundColumnRefExpression>()) == binding;
}

//! number <= k, number < k + 1, number = 1, or one of them the other way round
bool IsCut(ClientContext &context, Expression &expr, const ColumnBinding &number, uint64_t &k) {
	if (!IsComparison(expr)) {
		return false;
	}
	auto type = expr.GetExpressionType();
	auto left = LeftOf(expr).get(), right = RightOf(expr).get();
	if (IsColumn(*right, number)) {
		std::swap(left, right);
		type = FlipComparisonExpression(type);
	}
	Value value;
	if (!IsColumn(*left, number) || !ConstantOf(context, *right, value) || !TryCast(value, LogicalType::BIGINT)) {
		return false;
	}
	auto limit = BigIntValue::Get(value);
	if (type == ExpressionType::COMPARE_LESSTHAN && limit > 1) {
		k = NumericCast<uint64_t>(limit - 1);
		return true;
	}
	bool is_cut =
	    type == ExpressionType::COMPARE_LESSTHANOREQUALTO || (type == ExpressionType::COMPARE_EQUAL && limit == 1);
	if (!is_cut || limit < 1) {
		return false;
	}
	k = NumericCast<uint64_t>(limit);
	return true;
}

//! Whether a scan gives no two rows with the same values of these columns
bool IsKey(LogicalGet &get, const vector<unique_ptr<Expression>> &columns) {
	auto table = get.GetTable();
	if (!table) {
		return false;
	}
	unordered_set<idx_t> found;
	for (auto &column : columns) {
		if (column->GetExpressionType() != ExpressionType::BOUND_COLUMN_REF) {
			continue;
		}
		auto &binding = BindingOf(column->Cast<BoundColumnRefExpression>());
		if (binding.table_index != get.table_index) {
			continue;
		}
		auto &id = get.GetColumnIds()[binding.column_index];
		if (id.IsRowIdColumn()) {
			return true;
		}
		if (!id.IsVirtualColumn()) {
			found.insert(id.GetPrimaryIndex());
		}
	}
	for (auto &constraint : table->GetConstraints()) {
		if (constraint->type != ConstraintType::UNIQUE || !constraint->Cast<UniqueConstraint>().IsPrimaryKey()) {
			continue;
		}
		bool all = true;
		for (auto &index : constraint->Cast<UniqueConstraint>().GetLogicalIndexes(table->GetColumns())) {
			all = all && found.count(index.index);
		}
		return all;
	}
	return false;
}

//! Whether no two rows of `op` are in the same partition
bool IsUnique(Plan &plan, LogicalOperator &op, const vector<unique_ptr<Expression>> &partitions) {
	reference<LogicalOperator> at = op;
	while (at.get().type == LogicalOperatorType::LOGICAL_FILTER) {
		at = *at.get().children[0];
	}
	if (at.get().type == LogicalOperatorType::LOGICAL_GET) {
		return IsKey(at.get().Cast<LogicalGet>(), partitions);
	}
	if (!GivesDistinctRows(plan, at.get())) {
		return false;
	}
	for (auto &binding : at.get().GetColumnBindings()) {
		bool found = false;
		for (auto &partition : partitions) {
			found = found || IsColumn(*partition, binding);
		}
		if (!found) {
			return false;
		}
	}
	return true;
}

//! What a window reads, traced down to the join below it
class WindowInput {
public:
	//! False where something other than projections and filters stands above an inner join
	bool Find(unique_ptr<LogicalOperator> &input) {
		reference<unique_ptr<LogicalOperator>> at = input;
		while (true) {
			auto &here = *at.get();
			switch (here.type) {
			case LogicalOperatorType::LOGICAL_PROJECTION:
				for (auto &expr : here.expressions) {
					if (expr->IsVolatile()) {
						return false;
					}
				}
				projections.push_back(here.Cast<LogicalProjection>());
				Trace({here.Cast<LogicalProjection>()});
				break;
			case LogicalOperatorType::LOGICAL_FILTER:
				if (!here.Cast<LogicalFilter>().projection_map.empty()) {
					return false;
				}
				for (auto &expr : here.expressions) {
					conjuncts.push_back(expr->Copy());
				}
				break;
			case LogicalOperatorType::LOGICAL_ANY_JOIN:
				if (here.Cast<LogicalAnyJoin>().join_type != JoinType::INNER) {
					return false;
				}
				conjuncts.push_back(here.Cast<LogicalAnyJoin>().condition->Copy());
				join = here;
				break;
			case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
				join = here;
				break;
			default:
				return false;
			}
			if (join) {
				LogicalFilter::SplitPredicates(conjuncts);
				return true;
			}
			at = here.children[0];
		}
	}

	unique_ptr<Expression> order;
	vector<unique_ptr<Expression>> partitions;
	vector<unique_ptr<Expression>> conjuncts;
	vector<reference<LogicalProjection>> projections;
	optional_ptr<LogicalOperator> join;

private:
	void Trace(const vector<reference<LogicalProjection>> &projection) {
		ReplaceThrough(order, projection);
		for (auto list : {&partitions, &conjuncts}) {
			for (auto &expr : *list) {
				ReplaceThrough(expr, projection);
			}
		}
	}
};

} // namespace

bool RewriteTopRows(Plan &plan, unique_ptr<LogicalOperator> &op) {
	auto &filter = op->Cast<LogicalFilter>();
	reference<unique_ptr<LogicalOperator>> slot = filter.children[0];
	vector<reference<LogicalProjection>> above;
	join_rewrites::SkipProjections(slot, above);
	if (slot.get()->type != LogicalOperatorType::LOGICAL_WINDOW) {
		return false;
	}
	auto &window = slot.get()->Cast<LogicalWindow>();
	if (window.expressions.size() != 1 ||
	    window.expressions[0]->GetExpressionClass() != ExpressionClass::BOUND_WINDOW) {
		return false;
	}
	auto &row_number = window.expressions[0]->Cast<BoundWindowExpression>();
	auto &orders = OrdersOf(row_number);
	if (!IsRowNumber(row_number) || orders.size() != 1 || PartitionsOf(row_number).empty() ||
	    orders[0].type != OrderType::ASCENDING || orders[0].null_order != OrderByNullType::NULLS_LAST) {
		return false;
	}
	// The conditions on the row number: the first that cuts counts, others stay
	const ColumnBinding number(window.window_index, ProjectionIndex(0));
	vector<unique_ptr<Expression>> conditions;
	for (auto &expr : filter.expressions) {
		conditions.push_back(expr->Copy());
	}
	LogicalFilter::SplitPredicates(conditions);
	KnnRequest request {0};
	idx_t cut = 0;
	for (; cut < conditions.size(); cut++) {
		auto traced = conditions[cut]->Copy();
		ReplaceThrough(traced, above);
		if (IsCut(plan.context, *traced, number, request.k)) {
			break;
		}
	}
	if (cut == conditions.size()) {
		return false;
	}

	WindowInput input;
	input.order = orders[0].expression->Copy();
	for (auto &partition : PartitionsOf(row_number)) {
		input.partitions.push_back(partition->Copy());
	}
	if (!input.Find(window.children[0])) {
		return false;
	}
	auto &join = *input.join;
	JoinTables tables(join);
	auto of = Side::NONE;
	for (auto &partition : input.partitions) {
		auto side = SideOf(*partition, tables);
		if (side == Side::BOTH || side == Side::NONE || partition->IsVolatile() || (of != Side::NONE && side != of)) {
			return false;
		}
		of = side;
	}
	const auto other = of == Side::LEFT ? Side::RIGHT : Side::LEFT;
	auto distance = OurFunction(*input.order, "distance", 2);
	if (!distance || distance->IsVolatile()) {
		return false;
	}
	auto &arguments = ChildrenOf(*distance);
	const idx_t first = SideOf(*arguments[0], tables) == of ? 0 : 1;
	if (SideOf(*arguments[first], tables) != of || SideOf(*arguments[1 - first], tables) != other) {
		return false;
	}
	const DistanceBetween measured(*arguments[0], *arguments[1]);
	request.empty_is_near = true;
	request.null_is_last = true;
	request.function = "ST_Distance";
	request.distance = input.order->ToString();
	vector<unique_ptr<Expression>> left_conditions, right_conditions;
	for (auto &conjunct : input.conjuncts) {
		auto side = SideOf(*conjunct, tables);
		if (conjunct->IsVolatile()) {
			return false;
		}
		if (side == Side::BOTH) {
			if (!TakeLimit(plan.context, *conjunct, measured, request)) {
				return false;
			}
		} else {
			(side == other ? right_conditions : left_conditions).push_back(std::move(conjunct));
		}
	}

	// From here on the plan changes
	if (input.projections.empty()) {
		// Its positions would be those of the join
		filter.projection_map.clear();
	}
	const idx_t left_child = of == Side::LEFT ? 0 : 1;
	bool unique = IsUnique(plan, *join.children[left_child], input.partitions);
	auto left = WithFilter(std::move(join.children[left_child]), std::move(left_conditions));
	auto right = WithFilter(std::move(join.children[1 - left_child]), std::move(right_conditions));
	bool is_window = unique && input.projections.empty();
	auto result = make_uniq<LogicalNeighbours>(is_window ? window.window_index : plan.binder.GenerateTableIndex(),
	                                           std::move(request), arguments[first]->Copy(),
	                                           arguments[1 - first]->Copy(), std::move(left), std::move(right));
	auto &neighbours = *result;
	unique_ptr<LogicalOperator> rows = std::move(result);
	if (!input.projections.empty()) {
		auto &top = input.projections[0].get();
		const vector<reference<LogicalProjection>> rest(input.projections.begin() + 1, input.projections.end());
		auto expressions = std::move(top.expressions);
		for (auto &expr : expressions) {
			auto alias = expr->GetAlias();
			ReplaceThrough(expr, rest);
			expr->SetAlias(alias);
			UseDistance(expr, measured, *neighbours.OwnColumn(LogicalNeighbours::DISTANCE));
		}
		const auto rank = expressions.size();
		if (unique) {
			expressions.push_back(neighbours.OwnColumn(LogicalNeighbours::RANK));
		}
		const auto table_index = top.table_index;
		auto projection = make_uniq<LogicalProjection>(table_index, std::move(expressions));
		projection->children.push_back(std::move(rows));
		rows = std::move(projection);
		if (unique) {
			auto &below = *rows;
			slot.get() = std::move(rows);
			ColumnBindingReplacer replacer;
			replacer.replacement_bindings.emplace_back(number, ColumnBinding(table_index, ProjectionIndex(rank)));
			replacer.stop_operator = below;
			replacer.VisitOperator(*plan.root);
			for (auto &expr : conditions) {
				replacer.VisitExpression(&expr);
			}
		}
	} else if (unique) {
		slot.get() = std::move(rows);
	} else {
		orders[0].expression = neighbours.OwnColumn(LogicalNeighbours::DISTANCE);
	}
	if (!unique) {
		// The nearest rows of a partition are among those of its left rows
		window.children[0] = std::move(rows);
		// Keeps DuckDB from making an aggregate of the window: where rows are equally far, that mixes columns of several
		auto &comparison = *conditions[cut];
		bool flipped = LeftOf(comparison)->GetExpressionType() != ExpressionType::BOUND_COLUMN_REF;
		auto &column = flipped ? RightOf(comparison) : LeftOf(comparison);
		conditions.push_back(MakeComparison(ExpressionType::COMPARE_GREATERTHANOREQUALTO, column->Copy(),
		                                    make_uniq<BoundConstantExpression>(Value::BIGINT(1))));
		filter.expressions = std::move(conditions);
		return true;
	}
	conditions.erase_at(cut);
	filter.expressions = std::move(conditions);
	if (filter.expressions.empty()) {
		auto child = std::move(filter.children[0]);
		op = std::move(child);
	}
	return true;
}

} // namespace knn_rewrites

} // namespace duckdb
