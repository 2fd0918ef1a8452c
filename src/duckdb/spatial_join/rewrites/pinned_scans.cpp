// Joins with a table, searches for neighbours in one, and unions: what they would ask of the table if it were pinned when they run
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/knn/neighbours.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

namespace {

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

//! column IS NOT NULL
bool IsGeometryPresent(const Expression &term, const ColumnBinding &geometry) {
	if (term.GetExpressionType() != ExpressionType::OPERATOR_IS_NOT_NULL) {
		return false;
	}
	ColumnBinding column;
	return IsGeometryColumn(*ChildrenOf(term.Cast<BoundOperatorExpression>())[0], column) && column == geometry;
}

//! The columns of the probe side, through filters and projections
class ScanColumns {
public:
	explicit ScanColumns(LogicalOperator &side) {
		for (auto &binding : side.GetColumnBindings()) {
			bindings.push_back(binding);
			are_columns.push_back(true);
		}
	}
	void Through(LogicalProjection &projection) {
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (!are_columns[i] || bindings[i].table_index != projection.table_index) {
				are_columns[i] = false;
				continue;
			}
			auto &expr = *projection.expressions[bindings[i].column_index];
			are_columns[i] = expr.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF;
			if (are_columns[i]) {
				bindings[i] = BindingOf(expr.Cast<BoundColumnRefExpression>());
			}
		}
	}
	//! Empty for what is no column of the table
	vector<string> Names(LogicalGet &get) const {
		vector<string> names(bindings.size());
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (!are_columns[i] || !FindName(get, bindings[i], names[i])) {
				names[i].clear();
			}
		}
		return names;
	}

private:
	vector<ColumnBinding> bindings;
	vector<bool> are_columns;
};

//! Why a join reads its probe side whether it is pinned or not; empty where it need not
string WhyNot(const LogicalSpatialJoin &join) {
	return join.spatial.left_limit ? "the distance is computed from its rows" : string();
}

} // namespace

bool FindPinnedScan(ClientContext &context, LogicalOperator &side, const Expression &key, PinnedScan &scan) {
	ColumnBinding geometry;
	if (!IsGeometryColumn(key, geometry)) {
		return false;
	}
	ScanColumns columns(side);
	vector<unique_ptr<Expression>> conditions;
	reference<LogicalOperator> op = side;
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
			columns.Through(projection);
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
	if (!table || !table->IsDuckTable() || FunctionName(get) != "seq_scan" || !FindName(get, geometry, scan.geometry)) {
		return false;
	}
	scan.table = PinnedName::Of(*table);
	scan.columns = columns.Names(get);
	if (!ReadsAllRows(get)) {
		scan.why_not = "the query asks for a sample, or a part, of its rows";
	}
	auto add = [&](const Expression &condition) {
		if (IsGeometryPresent(condition, geometry)) {
			scan.only_present = true;
			return true;
		}
		const bool is_read = AddClauses(
		    context, condition,
		    [&](const ColumnBinding &binding, string &name) { return FindName(get, binding, name); }, scan.clauses);
		if (!is_read) {
			scan.why_not = "the filter " + condition.ToString() + " is no comparison of pinned columns and constants";
		}
		return is_read;
	};
	for (auto &condition : conditions) {
		add(*condition);
	}
	if (!VisitFilters(get, [&](idx_t, const Expression &term) { return add(term); }) && scan.why_not.empty()) {
		scan.why_not = "the scan has a filter that is no comparison of pinned columns and constants";
	}
	return true;
}

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

void FindPinnedScans(ClientContext &context, unique_ptr<LogicalOperator> &slot) {
	for (auto &child : slot->children) {
		FindPinnedScans(context, child);
	}
	if (slot->type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
		PlanPinnedUnion(context, slot);
	}
	auto &plan = *slot;
	if (LogicalNeighbours::Is(plan)) {
		auto &neighbours = static_cast<LogicalNeighbours &>(plan);
		auto right = make_uniq<PinnedScan>();
		if (FindPinnedScan(context, *neighbours.children[1], *neighbours.expressions[1], *right)) {
			neighbours.pinned_right = std::move(right);
		}
	}
	if (!IsSpatialJoin(plan)) {
		return;
	}
	auto &join = AsSpatialJoin(plan);
	auto scan = make_uniq<PinnedScan>();
	scan->why_not = WhyNot(join);
	if (FindPinnedScan(context, *join.children[0], *join.spatial.left, *scan)) {
		join.pinned_scan = std::move(scan);
	}
	auto build = make_uniq<PinnedScan>();
	if (FindPinnedScan(context, *join.children[1], *join.spatial.right, *build)) {
		join.pinned_build = std::move(build);
	}
}

} // namespace join_rewrites

} // namespace duckdb
