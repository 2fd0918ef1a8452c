// Unions of the geometries of a table: its rows come from the device where it is pinned
#include "duckdb/functions/functions.hpp"
#include "duckdb/overlay/pinned_scan.hpp"
#include "duckdb/overlay/pinned_union.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

namespace {

//! How often a column is read by an expression, and all columns that are
class ColumnUses {
public:
	void Add(const Expression &expr) {
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    expr, [&](const BoundColumnRefExpression &column) { uses[BindingOf(column)]++; });
	}
	idx_t Of(const ColumnBinding &column) const {
		auto found = uses.find(column);
		return found == uses.end() ? 0 : found->second;
	}

private:
	column_binding_map_t<idx_t> uses;
};

//! The unions of an aggregate that read a column of geometries as it is; all of one column, which nothing else of the aggregate reads
vector<reference<Expression>> FindUnions(LogicalAggregate &aggregate, ColumnUses &uses, ColumnBinding &geometry) {
	vector<reference<Expression>> unions;
	for (auto &group : aggregate.groups) {
		uses.Add(*group);
	}
	for (auto &expr : aggregate.expressions) {
		uses.Add(*expr);
		if (!IsUnionAggregate(*expr)) {
			continue;
		}
		auto &call = expr->Cast<BoundAggregateExpression>();
		ColumnBinding column;
		if (call.IsDistinct() || HasOrder(call) || !IsGeometryColumn(*ChildrenOf(call)[0], column)) {
			continue;
		}
		if (!unions.empty() && column != geometry) {
			return {};
		}
		geometry = column;
		unions.push_back(*expr);
	}
	return uses.Of(geometry) == unions.size() ? unions : vector<reference<Expression>>();
}

//! The operator above the scan of a table, below projections that hand the geometry on and do not read it; null where there is none
optional_ptr<unique_ptr<LogicalOperator>> FindSide(LogicalAggregate &aggregate, ColumnUses &uses,
                                                   ColumnBinding &geometry) {
	reference<unique_ptr<LogicalOperator>> slot = aggregate.children[0];
	while (slot.get()->type == LogicalOperatorType::LOGICAL_PROJECTION) {
		auto &projection = slot.get()->Cast<LogicalProjection>();
		ColumnBinding below;
		if (geometry.table_index != projection.table_index ||
		    !IsGeometryColumn(*projection.expressions[geometry.column_index], below)) {
			return nullptr;
		}
		for (auto &expr : projection.expressions) {
			uses.Add(*expr);
		}
		if (uses.Of(below) != 1) {
			return nullptr;
		}
		geometry = below;
		slot = projection.children[0];
	}
	const auto type = slot.get()->type;
	const bool is_scan = type == LogicalOperatorType::LOGICAL_GET || type == LogicalOperatorType::LOGICAL_FILTER;
	return is_scan ? &slot.get() : nullptr;
}

//! Whether operators above tell the scan which rows they want, once they know
bool IsToldWhichRows(LogicalOperator &side) {
	reference<LogicalOperator> op = side;
	while (op.get().type != LogicalOperatorType::LOGICAL_GET) {
		op = *op.get().children[0];
	}
	return op.get().Cast<LogicalGet>().dynamic_filters != nullptr;
}

} // namespace

void PlanPinnedUnion(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	auto &aggregate = op->Cast<LogicalAggregate>();
	ColumnUses uses;
	ColumnBinding geometry;
	auto unions = FindUnions(aggregate, uses, geometry);
	if (unions.empty()) {
		return;
	}
	auto side = FindSide(aggregate, uses, geometry);
	PinnedScan scan;
	if (!side || !FindPinnedScan(context, **side, BoundColumnRefExpression(LogicalType::GEOMETRY(), geometry), scan) ||
	    !PinnedTables::Get(context)->Find(scan.table, scan.geometry)) {
		return;
	}
	if (IsToldWhichRows(**side)) {
		scan.why_not = "a join above wants some of its groups only";
	}
	const auto bindings = (*side)->GetColumnBindings();
	vector<bool> needed(bindings.size());
	idx_t position = 0;
	for (idx_t i = 0; i < bindings.size(); i++) {
		if (bindings[i] == geometry) {
			position = i;
		} else {
			needed[i] = uses.Of(bindings[i]) > 0;
		}
	}
	const auto table = scan.table.text;
	auto found = make_shared_ptr<PinnedUnion>();
	auto pinned = make_uniq<LogicalPinnedScan>(std::move(*side), std::move(scan), std::move(needed), position, found);
	*side = std::move(pinned);
	// Groups come out before aggregates
	vector<LogicalPinnedUnion::Column> columns;
	for (idx_t i = 0; i < aggregate.expressions.size(); i++) {
		for (auto &call : unions) {
			if (&call.get() == aggregate.expressions[i].get()) {
				columns.push_back({aggregate.groups.size() + i, ReadPinnedUnion(call.get(), found)});
			}
		}
	}
	op = make_uniq<LogicalPinnedUnion>(std::move(op), std::move(columns), std::move(found), table);
}

} // namespace join_rewrites

} // namespace duckdb
