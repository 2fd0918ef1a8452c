// What runs before and after DuckDB's own rules
#include "duckdb/planning/optimizer.hpp"

#include "duckdb/expressions/condition.hpp"
#include "duckdb/expressions/rewrites.hpp"
#include "duckdb/knn/rewrites/rewrites.hpp"
#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/planner/planner_extension.hpp"
#include "duckdb/planning/collect_lists.hpp"
#include "duckdb/planning/engines.hpp"
#include "duckdb/planning/view_filters.hpp"
#include "duckdb/scalar_batch/logical.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"
#include "duckdb/support/register_once.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

namespace {

void RunAfterDuckDB(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan);

bool HasOtherExtensions(ClientContext &context) {
	for (auto &extension : OptimizerExtension::Iterate(context)) {
		if (extension.optimize_function && extension.optimize_function != RunAfterDuckDB) {
			return true;
		}
	}
	return false;
}

//! Whether or not the plan is optimized
void RunAfterBinding(PlannerExtensionInput &input, BoundStatement &statement) {
	if (statement.plan) {
		RewriteJoinConditions(input.context, input.binder, statement.plan, false);
	}
}

//! Conditions still stand as they were written
void RunBeforeDuckDB(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	RewriteJoinConditions(input.context, input.optimizer.binder, plan, true);
	if (GetRewrites(input.context)) {
		RewriteExpressions(input.context, *plan);
		CollectWithoutLists(input.context, *plan);
	}
	// A recursive CTE runs its plan many times
	if (GetRewrites(input.context) && !join_rewrites::HasOperator(*plan, LogicalOperatorType::LOGICAL_RECURSIVE_CTE)) {
		RewriteNeighbours(input.context, input.optimizer.binder, plan);
	}
	if (GetRewrites(input.context)) {
		MoveFiltersBelowViews(plan);
	}
	// Last: expressions are not rewritten while they are hidden
	if (HasOtherExtensions(input.context)) {
		HideSpatialPredicates(*plan);
	}
}

//! Filters have been pushed down, joins have been ordered, and cardinalities have been estimated
void RunAfterDuckDB(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	bool hidden = RestoreSpatialPredicates(*plan);
	FinishNeighbours(input.context, plan);
	// A recursive CTE runs its plan many times. DuckDB's own joins are made for that, ours would build an index each time.
	if (!join_rewrites::HasOperator(*plan, LogicalOperatorType::LOGICAL_RECURSIVE_CTE)) {
		RewriteSpatialJoins(input.context, input.optimizer.binder, plan);
		// After the joins, which answer a predicate without computing it for every pair
		PlanScalarBatches(input.context, input.optimizer.binder, plan);
	}
	NameEngines(input.context, *plan);
	RequireGpuFunctions(input.context, *plan);
	if (!hidden) {
		return;
	}
	// The extensions before us have run on a plan with hidden predicates: they run again on what is left of them
	for (auto &extension : OptimizerExtension::Iterate(input.context)) {
		if (extension.optimize_function == RunAfterDuckDB) {
			break;
		}
		if (extension.optimize_function) {
			OptimizerExtensionInput other {input.context, input.optimizer, extension.optimizer_info.get()};
			extension.optimize_function(other, plan);
		}
	}
}

//! Lives as long as the database. The process may end soon after the database is closed, and CUDA must not be starting then.
struct GpuGuard : public OptimizerExtensionInfo {
	~GpuGuard() override {
		constexpr double TIMEOUT_SECONDS = 2;
		vibespatial::GpuRuntime::Get().Quiesce(TIMEOUT_SECONDS);
	}
};

} // namespace

void RegisterOptimizer(ExtensionLoader &loader) {
	RegisterOnce(loader, "optimizer", [&] {
		OptimizerExtension extension;
		extension.optimizer_info = make_shared_ptr<GpuGuard>();
		extension.pre_optimize_function = RunBeforeDuckDB;
		extension.optimize_function = RunAfterDuckDB;
		auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
		OptimizerExtension::Register(config, std::move(extension));
		PlannerExtension planning;
		planning.post_bind_function = RunAfterBinding;
		PlannerExtension::Register(config, std::move(planning));
	});
}

} // namespace duckdb
