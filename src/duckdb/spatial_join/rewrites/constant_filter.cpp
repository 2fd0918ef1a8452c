// Filters by a constant geometry: with many rows a SEMI join with a build side of one row, which the GPU can run
#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

namespace join_rewrites {

namespace {

//! predicate(column, constant)
bool IsConstantTerm(ClientContext &context, const JoinTables &tables, const Expression &conjunct,
                    SpatialCondition &spatial) {
	vector<unique_ptr<Expression>> alone;
	alone.push_back(conjunct.Copy());
	if (conjunct.IsVolatile() || !SpatialCondition::Take(context, tables, alone, spatial) || spatial.residual) {
		return false;
	}
	for (auto &term : spatial.condition.any_of) {
		if (term.kind == vibespatial::JoinTerm::BOXES) {
			return false; // a scan compares boxes itself, at almost no cost
		}
	}
	return true;
}

//! Whether each constant has so few vertices that the CPU answers while it reads the row
bool AreSmall(ClientContext &context, const vector<SpatialCondition> &terms) {
	//! WKB of about 60 vertices. An estimate: a distance from a point was slower on a device, a polygon of thousands of vertices faster.
	constexpr idx_t MAX_SMALL_BYTES = 1024;
	for (auto &term : terms) {
		Value value;
		if (!term.right->IsFoldable() || !ExpressionExecutor::TryEvaluateScalar(context, *term.right, value) ||
		    (!value.IsNull() && StringValue::Get(value).size() > MAX_SMALL_BYTES)) {
			return false;
		}
	}
	return true;
}

//! One decision for all terms of a filter. A join does not preserve the order of rows: mode auto leaves ordered rows to the CPU, mode
//! gpu does not.
bool GoesToDevice(ClientContext &context, LogicalOperator &input, const vector<SpatialCondition> &terms, idx_t rows,
                  bool ordered) {
	OperatorDispatch dispatch(context, "FILTER");
	auto min_rows = GetGpuMinRows(context);
	// A join that counts asks the pinned table; any other decides when it runs
	const bool is_pinned = terms.size() == 1 && !ordered && IsPinned(context, input, *terms[0].left);
	auto operation = is_pinned ? vibespatial::Operation::JOIN_PINNED : vibespatial::Operation::FILTER_POINTS;
	auto decision = vibespatial::Decide(dispatch.Mode(), operation, rows, min_rows);
	if (decision.IsGpu() && dispatch.Mode() == vibespatial::ExecutionMode::AUTO) {
		if (ordered) {
			decision.selected = vibespatial::ExecutionMode::CPU;
			decision.reason = "rows stay in their order; with preserve_insertion_order = false the GPU could have them";
		} else if (!is_pinned && min_rows < 0 && AreSmall(context, terms)) {
			decision.selected = vibespatial::ExecutionMode::CPU;
			decision.reason = to_string(rows) + " rows: a constant of so few vertices takes less than the scan";
		}
	}
	if (decision.IsGpu()) {
		return true; // the join logs the event
	}
	dispatch.LogCpu(vibespatial::Operation::FILTER_POINTS, decision, rows);
	return false;
}

//! The rows of `op` for which the condition is true
unique_ptr<LogicalOperator> JoinWithConstant(Binder &binder, unique_ptr<LogicalOperator> op, SpatialCondition spatial) {
	auto constant = make_uniq<LogicalDummyScan>(binder.GenerateTableIndex());
	constant->SetEstimatedCardinality(1);
	auto result = make_uniq<LogicalSpatialJoin>(JoinType::SEMI, std::move(spatial), std::move(op), std::move(constant));
	result->points_operation = vibespatial::Operation::FILTER_POINTS;
	result->shapes_operation = vibespatial::Operation::FILTER_SHAPES;
	return std::move(result);
}

} // namespace

bool RewriteConstantFilter(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &op, bool ordered) {
	auto &filter = op->Cast<LogicalFilter>();
	auto tables = JoinTables::OfFilter(*filter.children[0]);
	vector<unique_ptr<Expression>> conjuncts, rest;
	for (auto &expr : filter.expressions) {
		conjuncts.push_back(expr->Copy());
	}
	LogicalFilter::SplitPredicates(conjuncts);
	vector<SpatialCondition> taken;
	for (auto &conjunct : conjuncts) {
		SpatialCondition spatial;
		if (IsConstantTerm(context, tables, *conjunct, spatial)) {
			taken.push_back(std::move(spatial));
		} else {
			rest.push_back(std::move(conjunct));
		}
	}
	if (taken.empty() ||
	    !GoesToDevice(context, *filter.children[0], taken, Cardinality(context, *filter.children[0]), ordered)) {
		return false;
	}
	auto left_columns = MapColumns(filter.projection_map, filter.children[0]->GetColumnBindings().size());
	auto result = std::move(filter.children[0]);
	if (!rest.empty()) {
		// The cheap conditions run first
		auto below = make_uniq<LogicalFilter>();
		below->expressions = std::move(rest);
		CopyCardinality(*result, *below);
		below->children.push_back(std::move(result));
		result = std::move(below);
	}
	for (auto &spatial : taken) {
		auto &input = *result;
		result = JoinWithConstant(binder, std::move(result), std::move(spatial));
		CopyCardinality(input, *result);
	}
	CopyCardinality(filter, *result);
	AsSpatialJoin(*result).left_columns = std::move(left_columns);
	op = std::move(result);
	return true;
}

bool RewriteScanFilters(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &op, bool ordered) {
	auto &get = op->Cast<LogicalGet>();
	if (!HasFilters(get.table_filters) || !get.children.empty()) {
		return false;
	}
	auto tables = JoinTables::OfFilter(get);
	auto &column_ids = get.GetColumnIds();
	vector<SpatialCondition> taken;
	vector<idx_t> positions;
	auto rest = TakeFilters(get, [&](idx_t position, const Expression &term) {
		SpatialCondition spatial;
		if (!IsConstantTerm(context, tables, term, spatial)) {
			return false;
		}
		taken.push_back(std::move(spatial));
		positions.push_back(position);
		return true;
	});
	if (taken.empty()) {
		return false;
	}
	auto estimated = Cardinality(context, get);
	auto rows = estimated;
	if (!HasFilters(rest)) {
		get.has_estimated_cardinality = false;
		rows = get.EstimateCardinality(context);
		get.SetEstimatedCardinality(estimated);
	}
	if (!GoesToDevice(context, get, taken, rows, ordered)) {
		return false;
	}
	get.table_filters = std::move(rest);
	get.SetEstimatedCardinality(rows);
	// The geometry columns must come out of the scan now, but not out of the join
	auto &ids = get.projection_ids;
	auto left_columns = MapColumns({}, get.GetColumnBindings().size());
	auto before = ids;
	for (auto position : positions) {
		if (!ids.empty() && std::find(ids.begin(), ids.end(), ProjectionIndex(position)) == ids.end()) {
			ids.push_back(ProjectionIndex(position));
		}
	}
	if (ids.size() > before.size() && ids.size() == column_ids.size()) {
		// A scan that emits all columns has no projection, and emits them in the order of column_ids
		left_columns.assign(before.begin(), before.end());
		ids.clear();
	}
	for (auto &spatial : taken) {
		op = JoinWithConstant(binder, std::move(op), std::move(spatial));
		op->SetEstimatedCardinality(estimated);
	}
	AsSpatialJoin(*op).left_columns = std::move(left_columns);
	return true;
}

} // namespace join_rewrites

} // namespace duckdb
