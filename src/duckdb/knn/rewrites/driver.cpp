// The order of the rewrites, and what is left to do when DuckDB's rules have run
#include "duckdb/knn/logical.hpp"
#include "duckdb/knn/neighbours.hpp"
#include "duckdb/knn/rewrites/rewrites.hpp"
#include "duckdb/operators/geometry_kinds.hpp"
#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"

namespace duckdb {

namespace {

using namespace knn_rewrites;

//! Children first: a correlated subquery looks for neighbours below it. Returns whether it changed anything.
bool Rewrite(Plan &plan, unique_ptr<LogicalOperator> &op) {
	bool changed = false;
	for (auto &child : op->children) {
		changed = Rewrite(plan, child) || changed;
	}
	switch (op->type) {
	case LogicalOperatorType::LOGICAL_FILTER:
		return RewriteTopRows(plan, op) || changed;
	case LogicalOperatorType::LOGICAL_DELIM_JOIN:
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
		return RewriteLateral(plan, op) || changed;
	default:
		return changed;
	}
}

typedef std::function<void(const ColumnBinding &)> visit_binding_t;

void VisitColumns(LogicalOperator &op, const visit_binding_t &visit) {
	LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) {
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    **expr, [&](const BoundColumnRefExpression &column) { visit(BindingOf(column)); });
	});
}

//! Moves the conditions of a filter that read the left side alone below the operator
void PushLeft(unique_ptr<LogicalOperator> &op) {
	auto &filter = op->Cast<LogicalFilter>();
	auto &neighbours = static_cast<LogicalNeighbours &>(*filter.children[0]);
	auto bindings = neighbours.children[0]->GetColumnBindings();
	auto below = make_uniq<LogicalFilter>();
	for (idx_t i = 0; i < filter.expressions.size();) {
		auto &expr = filter.expressions[i];
		bool is_left = !expr->IsVolatile();
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    *expr, [&](const BoundColumnRefExpression &column) {
			    is_left = is_left && std::find(bindings.begin(), bindings.end(), BindingOf(column)) != bindings.end();
		    });
		if (is_left) {
			below->expressions.push_back(std::move(expr));
			filter.expressions.erase_at(i);
		} else {
			i++;
		}
	}
	if (!below->expressions.empty()) {
		below->children.push_back(std::move(neighbours.children[0]));
		neighbours.children[0] = std::move(below);
	}
	if (filter.expressions.empty() && filter.projection_map.empty()) {
		auto child = std::move(filter.children[0]);
		op = std::move(child);
	}
}

//! `op` says which columns of its input it reads: those of the operator, below filters, that nobody reads do not come out of it
void PruneColumns(LogicalOperator &op) {
	vector<ColumnBinding> read;
	vector<reference<LogicalFilter>> filters;
	VisitColumns(op, [&](const ColumnBinding &binding) { read.push_back(binding); });
	reference<LogicalOperator> at = *op.children[0];
	for (; at.get().type == LogicalOperatorType::LOGICAL_FILTER; at = *at.get().children[0]) {
		VisitColumns(at.get(), [&](const ColumnBinding &binding) { read.push_back(binding); });
		filters.push_back(at.get().Cast<LogicalFilter>());
	}
	if (!LogicalNeighbours::Is(at.get())) {
		return;
	}
	auto &neighbours = static_cast<LogicalNeighbours &>(at.get());
	if (auto residual = neighbours.Residual()) {
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    *residual, [&](const BoundColumnRefExpression &column) { read.push_back(BindingOf(column)); });
	}
	for (auto &filter : filters) {
		// All of its columns, so that its map need not change
		auto bindings = neighbours.GetColumnBindings();
		if (!filter.get().projection_map.empty() && filters.size() > 1) {
			return;
		}
		for (auto position : filter.get().projection_map) {
			read.push_back(bindings[position]);
		}
	}
	auto before = neighbours.GetColumnBindings();
	vector<idx_t> columns[2];
	for (idx_t side = 0; side < 2; side++) {
		auto bindings = neighbours.children[side]->GetColumnBindings();
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (std::find(read.begin(), read.end(), bindings[i]) != read.end()) {
				columns[side].push_back(i);
			}
		}
	}
	neighbours.SetColumns(std::move(columns[0]), std::move(columns[1]));
	auto after = neighbours.GetColumnBindings();
	for (auto &filter : filters) {
		for (auto &position : filter.get().projection_map) {
			auto found = std::find(after.begin(), after.end(), before[position]);
			position = ProjectionIndex(NumericCast<idx_t>(found - after.begin()));
		}
	}
}

void Finish(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	if (op->type == LogicalOperatorType::LOGICAL_FILTER && LogicalNeighbours::Is(*op->children[0])) {
		PushLeft(op);
	}
	for (auto &child : op->children) {
		Finish(context, child);
	}
	if (LogicalNeighbours::Is(*op)) {
		// DuckDB estimates what its join order reaches, which stops here
		op->EstimateCardinality(context);
	}
	if (op->type == LogicalOperatorType::LOGICAL_PROJECTION ||
	    op->type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
		PruneColumns(*op);
	}
}

//! Of both kinds of the operator, when DuckDB's rules have run
void RequestKernels(ClientContext &context, LogicalOperator &op) {
	for (auto &child : op.children) {
		RequestKernels(context, *child);
	}
	if (op.type != LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR || op.GetName() != "VIBE_KNN") {
		return;
	}
	const bool is_rewritten = LogicalNeighbours::Is(op);
	const idx_t right = is_rewritten ? 1 : static_cast<LogicalKnn &>(op).left_count;
	vibespatial::SideKinds kinds[2];
	for (idx_t side = 0; side < 2; side++) {
		kinds[side] = FindGeometryKinds(context, *op.children[side], *op.expressions[side == 0 ? 0 : right]);
	}
	auto &kernels =
	    is_rewritten ? static_cast<LogicalNeighbours &>(op).request.kernels : static_cast<LogicalKnn &>(op).kernels;
	kernels = vibespatial::NeighbourNeeds(kinds[0], kinds[1]);
	OperatorDispatch::RequestKernels(context, kernels, "VIBE_KNN", kinds[0].AreKnown() && kinds[1].AreKnown());
}

bool HasNeighbours(const LogicalOperator &op) {
	if (LogicalNeighbours::Is(op)) {
		return true;
	}
	for (auto &child : op.children) {
		if (HasNeighbours(*child)) {
			return true;
		}
	}
	return false;
}

} // namespace

void RewriteNeighbours(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &root) {
	Plan plan {context, binder, root};
	if (Rewrite(plan, root)) {
		RemoveSharedRows(root);
	}
}

void FinishNeighbours(ClientContext &context, unique_ptr<LogicalOperator> &plan) {
	if (HasNeighbours(*plan)) {
		Finish(context, plan);
	}
	RequestKernels(context, *plan);
}

} // namespace duckdb
