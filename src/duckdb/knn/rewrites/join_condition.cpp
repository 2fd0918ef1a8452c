// ST_KNN as the condition of a join. Its rows depend on which rows of the right side there are, so it is placed in the plan as it was
// written, before any rule of DuckDB moves a condition below the join.
#include "duckdb/expressions/condition.hpp"
#include "duckdb/knn/neighbours.hpp"
#include "duckdb/knn/rewrites/distance.hpp"
#include "duckdb/knn/rewrites/rewrites.hpp"
#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/optimizer/column_binding_replacer.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"

namespace duckdb {

namespace {

using namespace knn_rewrites;

//! A call of ST_KNN(query, object, k) or ST_KNN(query, object, k, use_spheroid); null for everything else
optional_ptr<BoundFunctionExpression> KnnOf(Expression &expr) {
	auto found = OurFunction(expr, "knn", 3);
	return found ? found : OurFunction(expr, "knn", 4);
}

template <class VISIT>
void VisitKnn(Expression &expr, VISIT &&visit) {
	if (KnnOf(expr)) {
		visit(expr);
	}
	ExpressionIterator::EnumerateChildren(expr, [&](unique_ptr<Expression> &child) { VisitKnn(*child, visit); });
}

bool HasKnn(Expression &expr) {
	bool found = false;
	VisitKnn(expr, [&](Expression &) { found = true; });
	return found;
}

bool HasKnn(LogicalOperator &op) {
	bool found = false;
	LogicalOperatorVisitor::EnumerateExpressions(
	    op, [&](unique_ptr<Expression> *expr) { found = found || HasKnn(**expr); });
	for (auto &child : op.children) {
		found = found || HasKnn(*child);
	}
	return found;
}

[[noreturn]] void Refuse(Expression &knn, const string &reason) {
	throw BinderException("%s: %s", FunctionName(*KnnOf(knn)), reason);
}

bool ReadsColumns(const Expression &expr) {
	bool found = false;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
	    expr, [&](const BoundColumnRefExpression &) { found = true; });
	return found;
}

bool ReadsOnly(const Expression &expr, const unordered_set<TableIndex> &tables) {
	bool only = true;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(expr, [&](const BoundColumnRefExpression &column) {
		only = only && tables.count(BindingOf(column).table_index);
	});
	return only;
}

bool ReadsFrom(const Expression &expr, const unordered_set<TableIndex> &tables) {
	bool from = false;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(expr, [&](const BoundColumnRefExpression &column) {
		from = from || tables.count(BindingOf(column).table_index);
	});
	return from;
}

unordered_set<TableIndex> TablesIn(const Expression &expr) {
	unordered_set<TableIndex> result;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
	    expr, [&](const BoundColumnRefExpression &column) { result.insert(BindingOf(column).table_index); });
	return result;
}

unordered_set<TableIndex> TablesOf(LogicalOperator &op) {
	unordered_set<TableIndex> result;
	LogicalJoin::GetTableReferences(op, result);
	return result;
}

bool IsJoin(const LogicalOperator &op) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
	case LogicalOperatorType::LOGICAL_ANY_JOIN:
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
	case LogicalOperatorType::LOGICAL_DELIM_JOIN:
	case LogicalOperatorType::LOGICAL_ASOF_JOIN:
	case LogicalOperatorType::LOGICAL_POSITIONAL_JOIN:
	case LogicalOperatorType::LOGICAL_DEPENDENT_JOIN:
		return true;
	default:
		return LogicalNeighbours::Is(op);
	}
}

//! Whether the rows below `op` are there once for each value of an outer query
bool IsCorrelated(Plan &plan, LogicalOperator &op, LogicalOperator &top) {
	if (op.type == LogicalOperatorType::LOGICAL_DELIM_GET) {
		return true;
	}
	if (op.type == LogicalOperatorType::LOGICAL_CTE_REF) {
		return ReadsOuterRows(plan, op.Cast<LogicalCTERef>(), top);
	}
	for (idx_t i = 0; i < op.children.size(); i++) {
		// The right side of such a join reads the values of its left side
		bool is_inside = i == 1 && op.type == LogicalOperatorType::LOGICAL_DELIM_JOIN;
		if (!is_inside && IsCorrelated(plan, *op.children[i], top)) {
			return true;
		}
	}
	return false;
}

//! The rows among which neighbours are searched
void CheckObjects(Plan &plan, Expression &knn, LogicalOperator &op) {
	if (IsJoin(op)) {
		Refuse(knn,
		       "the second geometry is a column of a join. Put that join into a subquery, (SELECT .. FROM .. JOIN ..), "
		       "to search among its rows");
	}
	if (IsCorrelated(plan, op, op)) {
		Refuse(knn, "the second geometry must not depend on rows of an outer query");
	}
}

KnnRequest RequestOf(ClientContext &context, BoundFunctionExpression &knn) {
	auto &arguments = ChildrenOf(knn);
	Value k;
	if (!ConstantOf(context, *arguments[2], k) || !TryCast(k, LogicalType::BIGINT) || BigIntValue::Get(k) < 1) {
		Refuse(knn, "k must be a constant of at least 1");
	}
	KnnRequest request {NumericCast<uint64_t>(BigIntValue::Get(k))};
	request.function = "ST_KNN";
	request.distance = StringUtil::Format("ST_Distance(%s, %s)", arguments[0]->ToString(), arguments[1]->ToString());
	return request;
}

//! Every operator above computes the distance no more, but reads it
void UseDistanceAbove(LogicalOperator &op, const LogicalOperator &stop, const DistanceBetween &distance,
                      const Expression &column) {
	if (&op == &stop) {
		return;
	}
	LogicalOperatorVisitor::EnumerateExpressions(
	    op, [&](unique_ptr<Expression> *expr) { UseDistance(*expr, distance, column); });
	for (auto &child : op.children) {
		UseDistanceAbove(*child, stop, distance, column);
	}
}

//! Tables that are joined by inner joins alone. It is all the same whether a condition stands in ON or in WHERE.
class InnerJoins {
public:
	InnerJoins(Plan &plan, unique_ptr<LogicalOperator> &slot) : plan(plan), slot(slot) {
		Collect(slot);
		LogicalFilter::SplitPredicates(conditions);
	}

	bool HasCondition() {
		for (auto &condition : conditions) {
			if (KnnOf(*condition)) {
				return true;
			}
		}
		return false;
	}

	//! Neighbours first, all other conditions after them
	void Rewrite() {
		for (auto &leaf : leaves) {
			relations.push_back(std::move(leaf.get()));
		}
		for (auto next = NextCall(); next.IsValid(); next = NextCall()) {
			auto knn = std::move(conditions[next.GetIndex()]);
			conditions.erase_at(next.GetIndex());
			Place(std::move(knn));
		}
		auto result = std::move(relations[0]);
		for (idx_t i = 1; i < relations.size(); i++) {
			result = LogicalCrossProduct::Create(std::move(result), std::move(relations[i]));
		}
		slot = WithFilter(std::move(result), std::move(conditions));
		for (auto &placed : found) {
			UseDistanceAbove(*plan.root, placed.neighbours, placed.distance,
			                 *placed.neighbours.OwnColumn(LogicalNeighbours::DISTANCE));
		}
	}

private:
	struct Placed {
		LogicalNeighbours &neighbours;
		DistanceBetween distance;
	};

	void Collect(unique_ptr<LogicalOperator> &at) {
		auto &op = *at;
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_FILTER:
			if (!op.Cast<LogicalFilter>().projection_map.empty()) {
				break;
			}
			for (auto &expr : op.expressions) {
				conditions.push_back(expr->Copy());
			}
			Collect(op.children[0]);
			return;
		case LogicalOperatorType::LOGICAL_ANY_JOIN:
			if (op.Cast<LogicalAnyJoin>().join_type != JoinType::INNER) {
				break;
			}
			conditions.push_back(op.Cast<LogicalAnyJoin>().condition->Copy());
			CollectBoth(op);
			return;
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN: {
			auto &join = op.Cast<LogicalComparisonJoin>();
			if (join.join_type != JoinType::INNER || HasPredicate(join)) {
				break;
			}
			for (auto &condition : CopyConditions(join)) {
				conditions.push_back(std::move(condition));
			}
			CollectBoth(op);
			return;
		}
		case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
			CollectBoth(op);
			return;
		default:
			break;
		}
		leaves.push_back(at);
	}
	void CollectBoth(LogicalOperator &op) {
		Collect(op.children[0]);
		Collect(op.children[1]);
	}

	//! The first call whose query side no other one finds neighbours in: tables whose rows are found are joined to those that look for
	//! them, and could not be searched afterwards
	optional_idx NextCall() {
		optional_idx first;
		for (idx_t i = 0; i < conditions.size(); i++) {
			auto knn = KnnOf(*conditions[i]);
			if (!knn) {
				continue;
			}
			first = first.IsValid() ? first : optional_idx(i);
			bool waits = false;
			for (idx_t k = 0; k < conditions.size() && !waits; k++) {
				auto other = k != i ? KnnOf(*conditions[k]) : nullptr;
				waits = other && ReadsFrom(*ChildrenOf(*knn)[0], TablesIn(*ChildrenOf(*other)[1]));
			}
			if (!waits) {
				return i;
			}
		}
		return first;
	}

	//! Makes one relation of those that the neighbours come from
	void Place(unique_ptr<Expression> condition) {
		auto &knn = *KnnOf(*condition);
		auto &arguments = ChildrenOf(knn);
		vector<idx_t> queries;
		optional_idx object;
		for (idx_t i = 0; i < relations.size(); i++) {
			auto tables = TablesOf(*relations[i]);
			bool is_query = ReadsFrom(*arguments[0], tables);
			if (is_query) {
				queries.push_back(i);
			}
			if (!ReadsFrom(*arguments[1], tables)) {
				continue;
			}
			if (is_query) {
				PlaceBelow(*relations[i], std::move(condition));
				return;
			}
			if (!ReadsOnly(*arguments[1], tables)) {
				Refuse(knn, "the second geometry must come from one table");
			}
			object = i;
		}
		if (!object.IsValid()) {
			Refuse(knn, "the second geometry must be a column of a joined table");
		}
		CheckObjects(plan, knn, *relations[object.GetIndex()]);
		auto request = RequestOf(plan.context, knn);
		const DistanceBetween distance(*arguments[0], *arguments[1]);
		auto right = std::move(relations[object.GetIndex()]);
		auto left = TakeQueries(queries);
		auto left_tables = TablesOf(*left);
		vector<unique_ptr<Expression>> left_conditions;
		for (idx_t i = 0; i < conditions.size();) {
			auto &other = conditions[i];
			bool is_left =
			    !other->IsVolatile() && !HasKnn(*other) && ReadsColumns(*other) && ReadsOnly(*other, left_tables);
			if (is_left) {
				left_conditions.push_back(std::move(other));
			}
			if (is_left || TakeLimit(plan.context, *other, distance, request)) {
				conditions.erase_at(i);
			} else {
				i++;
			}
		}
		bool is_volatile = knn.IsVolatile();
		auto result = make_uniq<LogicalNeighbours>(
		    plan.binder.GenerateTableIndex(), std::move(request), std::move(arguments[0]), std::move(arguments[1]),
		    WithFilter(std::move(left), std::move(left_conditions)), std::move(right));
		if (!is_volatile) {
			found.push_back(Placed {*result, DistanceBetween(*result->expressions[0], *result->expressions[1])});
		}
		relations.push_back(std::move(result));
		for (idx_t i = 0; i < relations.size();) {
			if (relations[i]) {
				i++;
			} else {
				relations.erase_at(i);
			}
		}
	}

	//! The rows that look for neighbours: one row for constants
	unique_ptr<LogicalOperator> TakeQueries(const vector<idx_t> &queries) {
		unique_ptr<LogicalOperator> result;
		for (auto i : queries) {
			result = result ? LogicalCrossProduct::Create(std::move(result), std::move(relations[i]))
			                : std::move(relations[i]);
		}
		if (!result) {
			result = make_uniq<LogicalDummyScan>(plan.binder.GenerateTableIndex());
		}
		return result;
	}

	//! Both geometries come from one relation: a subquery in the same condition may have been joined to the tables
	void PlaceBelow(LogicalOperator &relation, unique_ptr<Expression> condition) {
		switch (relation.type) {
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
		case LogicalOperatorType::LOGICAL_DELIM_JOIN:
		case LogicalOperatorType::LOGICAL_DEPENDENT_JOIN:
		case LogicalOperatorType::LOGICAL_ANY_JOIN: {
			auto type = relation.Cast<LogicalJoin>().join_type;
			if ((type == JoinType::MARK || type == JoinType::SINGLE) &&
			    ReadsOnly(*condition, TablesOf(*relation.children[0]))) {
				vector<unique_ptr<Expression>> moved;
				moved.push_back(std::move(condition));
				relation.children[0] = WithFilter(std::move(relation.children[0]), std::move(moved));
				return;
			}
			break;
		}
		default:
			break;
		}
		Refuse(*condition,
		       "the geometries must come from two sides of an INNER or LEFT JOIN, in whose ON it stands, or from two "
		       "tables of FROM .. WHERE");
	}

	Plan &plan;
	unique_ptr<LogicalOperator> &slot;
	vector<reference<unique_ptr<LogicalOperator>>> leaves;
	vector<unique_ptr<LogicalOperator>> relations;
	vector<unique_ptr<Expression>> conditions;
	vector<Placed> found;
};

//! The conditions of an outer join; empty for what is none
vector<unique_ptr<Expression>> OuterConditions(LogicalOperator &op) {
	vector<unique_ptr<Expression>> result;
	if (op.type == LogicalOperatorType::LOGICAL_ANY_JOIN) {
		result.push_back(op.Cast<LogicalAnyJoin>().condition->Copy());
	} else if (op.type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN) {
		result = CopyConditions(op.Cast<LogicalComparisonJoin>());
	} else {
		return result;
	}
	auto type = op.Cast<LogicalJoin>().join_type;
	if (type != JoinType::LEFT && type != JoinType::RIGHT) {
		result.clear();
	}
	LogicalFilter::SplitPredicates(result);
	return result;
}

//! The neighbours with NULLs on the right where a row has none, under new bindings: DuckDB knows the columns of the right side as those of
//! a table, and may have found that they are never NULL
void ProjectOuter(Plan &plan, unique_ptr<LogicalNeighbours> neighbours, unique_ptr<LogicalOperator> &op) {
	const auto table_index = plan.binder.GenerateTableIndex();
	vector<unique_ptr<Expression>> expressions;
	ColumnBindingReplacer replacer;
	for (idx_t side = 0; side < 2; side++) {
		auto &child = *neighbours->children[side];
		child.ResolveOperatorTypes();
		auto bindings = child.GetColumnBindings();
		for (idx_t i = 0; i < bindings.size(); i++) {
			unique_ptr<Expression> column = make_uniq<BoundColumnRefExpression>(child.types[i], bindings[i]);
			replacer.replacement_bindings.emplace_back(bindings[i],
			                                           ColumnBinding(table_index, ProjectionIndex(expressions.size())));
			expressions.push_back(side == 0 ? std::move(column) : NullWithoutNeighbour(*neighbours, std::move(column)));
		}
	}
	const BoundColumnRefExpression distance(LogicalType::DOUBLE,
	                                        ColumnBinding(table_index, ProjectionIndex(expressions.size())));
	expressions.push_back(neighbours->OwnColumn(LogicalNeighbours::DISTANCE));
	auto left_geometry = neighbours->expressions[0]->Copy();
	auto right_geometry = neighbours->expressions[1]->Copy();
	auto projection = make_uniq<LogicalProjection>(table_index, std::move(expressions));
	projection->children.push_back(std::move(neighbours));
	op = std::move(projection);
	replacer.stop_operator = *op;
	replacer.VisitOperator(*plan.root);
	// An expression may have a value where its column is NULL, and there is no distance
	if (right_geometry->GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF && !left_geometry->IsVolatile()) {
		replacer.VisitExpression(&left_geometry);
		replacer.VisitExpression(&right_geometry);
		UseDistanceAbove(*plan.root, *op, DistanceBetween(*left_geometry, *right_geometry), distance);
	}
}

//! A LEFT JOIN, or a RIGHT JOIN with the sides swapped
void RewriteOuter(Plan &plan, unique_ptr<LogicalOperator> &op) {
	auto conditions = OuterConditions(*op);
	idx_t at = 0;
	while (at < conditions.size() && !KnnOf(*conditions[at])) {
		at++;
	}
	if (at == conditions.size()) {
		return;
	}
	auto condition = std::move(conditions[at]);
	conditions.erase_at(at);
	auto &knn = *KnnOf(*condition);
	auto &arguments = ChildrenOf(knn);
	const idx_t query = op->Cast<LogicalJoin>().join_type == JoinType::LEFT ? 0 : 1;
	if (!ReadsOnly(*arguments[0], TablesOf(*op->children[query])) || !ReadsColumns(*arguments[1]) ||
	    !ReadsOnly(*arguments[1], TablesOf(*op->children[1 - query]))) {
		Refuse(knn, "in an outer join the first geometry comes from the side that keeps all its rows, the second one "
		            "from the other");
	}
	auto right = std::move(op->children[1 - query]);
	// DuckDB has put the conditions on this side here. A table or a subquery has no filter at its top.
	while (right->type == LogicalOperatorType::LOGICAL_FILTER) {
		for (auto &expr : right->expressions) {
			conditions.push_back(std::move(expr));
		}
		auto child = std::move(right->children[0]);
		right = std::move(child);
	}
	CheckObjects(plan, knn, *right);
	auto request = RequestOf(plan.context, knn);
	request.outer = true;
	const DistanceBetween distance(*arguments[0], *arguments[1]);
	unique_ptr<Expression> residual, guard;
	const auto query_tables = TablesOf(*op->children[query]);
	for (auto &other : conditions) {
		if (TakeLimit(plan.context, *other, distance, request)) {
			continue;
		}
		if (!other->IsVolatile() && !HasKnn(*other) && ReadsColumns(*other) && ReadsOnly(*other, query_tables)) {
			guard = AndOf(std::move(guard), std::move(other));
			continue;
		}
		residual = AndOf(std::move(residual), std::move(other));
	}
	if (guard) {
		arguments[0] = NullUnless(std::move(guard), std::move(arguments[0]));
	}
	auto left = std::move(op->children[query]);
	ProjectOuter(plan,
	             make_uniq<LogicalNeighbours>(plan.binder.GenerateTableIndex(), std::move(request),
	                                          std::move(arguments[0]), std::move(arguments[1]), std::move(left),
	                                          std::move(right), std::move(residual)),
	             op);
}

void Rewrite(Plan &plan, unique_ptr<LogicalOperator> &op, bool is_decorrelated) {
	InnerJoins joins(plan, op);
	if (joins.HasCondition()) {
		joins.Rewrite();
	} else if (is_decorrelated ||
	           !join_rewrites::HasOperator(*plan.root, LogicalOperatorType::LOGICAL_DEPENDENT_JOIN)) {
		// Bindings change, and a dependent join remembers them
		RewriteOuter(plan, op);
	}
	const bool is_dependent = op->type == LogicalOperatorType::LOGICAL_DEPENDENT_JOIN;
	for (idx_t i = 0; i < op->children.size(); i++) {
		if (is_decorrelated || !is_dependent || i == 0) {
			Rewrite(plan, op->children[i], is_decorrelated);
		}
	}
}

void RefuseRest(LogicalOperator &op) {
	LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) {
		VisitKnn(**expr, [&](Expression &knn) {
			Refuse(
			    knn,
			    "this is a condition of a join. Write it in the ON of an INNER or LEFT JOIN, or in WHERE, by itself or "
			    "joined to other conditions by AND");
		});
	});
	for (auto &child : op.children) {
		RefuseRest(*child);
	}
}

} // namespace

void RewriteJoinConditions(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &root,
                           bool is_decorrelated) {
	if (!HasKnn(*root)) {
		return;
	}
	Plan plan {context, binder, root};
	Rewrite(plan, root, is_decorrelated);
	if (is_decorrelated) {
		RefuseRest(*root);
	}
}

} // namespace duckdb
