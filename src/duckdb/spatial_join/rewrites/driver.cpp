// The order of the rewrites
#include "duckdb/operators/geometry_kinds.hpp"
#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

namespace {

using namespace join_rewrites;

//! Whether the order of a child's rows is visible above the operator
bool PassesOrder(LogicalOperatorType type, idx_t child) {
	switch (type) {
	case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
	case LogicalOperatorType::LOGICAL_DISTINCT:
	case LogicalOperatorType::LOGICAL_ORDER_BY:
	case LogicalOperatorType::LOGICAL_TOP_N:
	case LogicalOperatorType::LOGICAL_EXCEPT:
	case LogicalOperatorType::LOGICAL_INTERSECT:
		return false;
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
	case LogicalOperatorType::LOGICAL_DELIM_JOIN:
	case LogicalOperatorType::LOGICAL_ANY_JOIN:
		return child == 0;
	default:
		return true;
	}
}

class Driver {
public:
	Driver(ClientContext &context, Binder &binder) : context(context), binder(binder) {
	}

	//! Rewrites the children before the operator: EXISTS, marks and aggregates look for a spatial join below them.
	//! `ordered`: the order of the operator's rows is visible above.
	void Rewrite(unique_ptr<LogicalOperator> &op, bool ordered) {
		for (idx_t i = 0; i < op->children.size(); i++) {
			Rewrite(op->children[i], ordered && PassesOrder(op->type, i));
		}
		switch (op->type) {
		case LogicalOperatorType::LOGICAL_ANY_JOIN:
			RewriteAnyJoin(context, op);
			break;
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
			// A join with a spatial condition of its own needs no look at its subquery
			if (!RewriteMixedJoin(context, op)) {
				RewriteSharedRowsJoin(context, op);
			}
			break;
		case LogicalOperatorType::LOGICAL_DELIM_JOIN:
			RewriteDelimJoin(context, op);
			break;
		case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
			// After RewriteSharedRowsJoin(), which removes the second reference
			InlineSharedRows(op);
			break;
		case LogicalOperatorType::LOGICAL_FILTER:
			RewriteFilter(op, ordered);
			break;
		case LogicalOperatorType::LOGICAL_GET:
			RewriteScanFilters(context, binder, op, ordered);
			break;
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
			FuseAggregate(context, op);
			break;
		default:
			break;
		}
	}

private:
	void RewriteFilter(unique_ptr<LogicalOperator> &op, bool ordered) {
		// May leave a filter without conditions
		TakeMarkFilter(context, op->Cast<LogicalFilter>());
		if (DropEmptyFilter(op)) {
			return;
		}
		// A join by the whole condition is better than a filter by a part of it
		if (!RewriteFilterOverJoin(context, op)) {
			RewriteConstantFilter(context, binder, op, ordered);
		}
	}

	ClientContext &context;
	Binder &binder;
};

//! When all joins stand as they will run: what each of them needs, as far as that is known
void RequestKernels(ClientContext &context, LogicalOperator &op) {
	for (auto &child : op.children) {
		RequestKernels(context, *child);
	}
	if (!IsSpatialJoin(op)) {
		return;
	}
	auto &join = AsSpatialJoin(op);
	join.probe_kinds = FindGeometryKinds(context, *join.children[0], *join.spatial.left);
	join.build_kinds = FindGeometryKinds(context, *join.children[1], *join.spatial.right);
	auto kernels = vibespatial::JoinNeeds(join.spatial.condition, join.probe_kinds, join.build_kinds);
	// Without the kinds, some of them are not needed
	OperatorDispatch::RequestKernels(context, kernels, "VIBE_SPATIAL_JOIN",
	                                 join.probe_kinds.AreKnown() && join.build_kinds.AreKnown());
}

} // namespace

void RewriteSpatialJoins(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan) {
	Value ordered;
	context.TryGetCurrentSetting("preserve_insertion_order", ordered);
	Driver(context, binder).Rewrite(plan, ordered.IsNull() || BooleanValue::Get(ordered));
	// When all joins stand as they will run: a scan may be below several of them
	PruneColumns(*plan);
	FindProbeScans(context, *plan);
	if (GetRewrites(context)) {
		// After the filters that became joins are gone
		PushConstantBoxes(context, *plan);
	}
	FindPinnedScans(context, plan);
	RequestKernels(context, *plan);
}

} // namespace duckdb
