// Joins that count pairs with the points of a table: what they would ask of the table if it were pinned when they run
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

namespace {

//! Nothing of the probe side is needed but how many pairs each build row has
bool OnlyCounts(const LogicalSpatialJoin &join) {
	if (!join.aggregate || join.join_type != JoinType::INNER || join.spatial.residual || join.spatial.left_limit) {
		return false;
	}
	auto &aggregate = *join.aggregate;
	for (auto from_left : aggregate.argument_from_left) {
		if (from_left) {
			return false;
		}
	}
	return aggregate.groups.empty() || !aggregate.groups_from_left;
}

//! A column of the table itself
bool FindName(LogicalGet &get, const ColumnBinding &binding, string &name) {
	auto &ids = get.GetColumnIds();
	if (binding.table_index != get.table_index || binding.column_index >= ids.size()) {
		return false;
	}
	auto &id = ids[binding.column_index];
	if (id.IsVirtualColumn() || id.HasChildren()) {
		return false;
	}
	name = NameOf(get.GetColumnName(id));
	return true;
}

//! column IS NOT NULL: a row without a geometry meets nothing anyway
bool IsGeometryPresent(const Expression &term, const ColumnBinding &geometry) {
	if (term.GetExpressionType() != ExpressionType::OPERATOR_IS_NOT_NULL) {
		return false;
	}
	ColumnBinding column;
	return IsGeometryColumn(*ChildrenOf(term.Cast<BoundOperatorExpression>())[0], column) && column == geometry;
}

bool FindScan(ClientContext &context, LogicalSpatialJoin &join, PinnedScan &scan) {
	ColumnBinding geometry;
	if (!OnlyCounts(join) || !IsGeometryColumn(*join.spatial.left, geometry)) {
		return false;
	}
	vector<unique_ptr<Expression>> conditions;
	reference<LogicalOperator> op = *join.children[0];
	while (op.get().type != LogicalOperatorType::LOGICAL_GET) {
		if (op.get().type == LogicalOperatorType::LOGICAL_FILTER) {
			for (auto &condition : op.get().expressions) {
				conditions.push_back(condition->Copy());
			}
		} else if (op.get().type == LogicalOperatorType::LOGICAL_PROJECTION) {
			auto &projection = op.get().Cast<LogicalProjection>();
			ColumnBinding below;
			if (geometry.table_index != projection.table_index ||
			    !IsGeometryColumn(*projection.expressions[geometry.column_index], below)) {
				return false;
			}
			geometry = below;
			for (auto &condition : conditions) {
				ReplaceThrough(condition, {projection});
			}
		} else {
			return false;
		}
		op = *op.get().children[0];
	}
	auto &get = op.get().Cast<LogicalGet>();
	auto table = get.GetTable();
	if (!table || !table->IsDuckTable() || FunctionName(get) != "seq_scan" || !ReadsAllRows(get) ||
	    !FindName(get, geometry, scan.geometry)) {
		return false;
	}
	auto add = [&](const Expression &condition) {
		return IsGeometryPresent(condition, geometry) ||
		       AddClauses(
		           context, condition,
		           [&](const ColumnBinding &binding, string &name) { return FindName(get, binding, name); },
		           scan.clauses);
	};
	for (auto &condition : conditions) {
		if (!add(*condition)) {
			return false;
		}
	}
	if (!VisitFilters(get, [&](idx_t, const Expression &term) { return add(term); })) {
		return false;
	}
	scan.table = PinnedName::Of(*table);
	return true;
}

} // namespace

bool IsPinned(ClientContext &context, LogicalOperator &input, const Expression &geometry) {
	ColumnBinding column;
	reference<LogicalOperator> op = input;
	while (op.get().type == LogicalOperatorType::LOGICAL_FILTER) {
		op = *op.get().children[0];
	}
	if (op.get().type != LogicalOperatorType::LOGICAL_GET || !IsGeometryColumn(geometry, column)) {
		return false;
	}
	auto &get = op.get().Cast<LogicalGet>();
	auto table = get.GetTable();
	string name;
	if (!table || !table->IsDuckTable() || !FindName(get, column, name)) {
		return false;
	}
	auto pinned = PinnedTables::Get(context)->Find(PinnedName::Of(*table), name);
	return pinned && pinned->WhyNot(context).empty();
}

void FindPinnedScans(ClientContext &context, LogicalOperator &plan) {
	for (auto &child : plan.children) {
		FindPinnedScans(context, *child);
	}
	if (!IsSpatialJoin(plan)) {
		return;
	}
	auto scan = make_uniq<PinnedScan>();
	if (FindScan(context, AsSpatialJoin(plan), *scan)) {
		AsSpatialJoin(plan).pinned_scan = std::move(scan);
	}
}

} // namespace join_rewrites

} // namespace duckdb
