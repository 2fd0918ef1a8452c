#include "duckdb/knn/neighbours.hpp"

#include "duckdb/execution/operator/projection/physical_projection.hpp"
#include "duckdb/knn/dispatch.hpp"
#include "duckdb/knn/pinned_right.hpp"
#include "duckdb/operators/collect_rows.hpp"
#include "duckdb/operators/resolve_columns.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

LogicalNeighbours::LogicalNeighbours(TableIndex table_index, KnnRequest request, unique_ptr<Expression> left_geometry,
                                     unique_ptr<Expression> right_geometry, unique_ptr<LogicalOperator> left,
                                     unique_ptr<LogicalOperator> right, unique_ptr<Expression> residual)
    : table_index(table_index), request(std::move(request)) {
	expressions.push_back(std::move(left_geometry));
	expressions.push_back(std::move(right_geometry));
	if (residual) {
		expressions.push_back(std::move(residual));
	}
	children.push_back(std::move(left));
	children.push_back(std::move(right));
}

bool LogicalNeighbours::Is(const LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR && dynamic_cast<const LogicalNeighbours *>(&op);
}

unique_ptr<Expression> LogicalNeighbours::OwnColumn(idx_t column) const {
	return make_uniq<BoundColumnRefExpression>(column == RANK ? LogicalType::BIGINT : LogicalType::DOUBLE,
	                                           ColumnBinding(table_index, ProjectionIndex(column)));
}

optional_ptr<Expression> LogicalNeighbours::Residual() const {
	return expressions.size() > RESIDUAL ? expressions[RESIDUAL].get() : nullptr;
}

void LogicalNeighbours::SetColumns(vector<idx_t> left, vector<idx_t> right) {
	has_columns = true;
	columns[0] = std::move(left);
	columns[1] = std::move(right);
}

vector<idx_t> LogicalNeighbours::ColumnsOf(idx_t side) {
	if (has_columns) {
		return columns[side];
	}
	vector<idx_t> result;
	auto count = children[side]->GetColumnBindings().size();
	for (idx_t i = 0; i < count; i++) {
		result.push_back(i);
	}
	return result;
}

string LogicalNeighbours::GetName() const {
	return "VIBE_KNN";
}

string LogicalNeighbours::GetExtensionName() const {
	return "vibespatial";
}

void LogicalNeighbours::Serialize(Serializer &) const {
	throw NotImplementedException("%s has no serialized form", GetName());
}

InsertionOrderPreservingMap<string> LogicalNeighbours::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Distance"] = request.distance;
	result["Neighbours"] = to_string(request.k);
	if (auto residual = Residual()) {
		result["Residual"] = residual->ToString();
	}
	SetParamsEstimatedCardinality(result);
	return result;
}

vector<ColumnBinding> LogicalNeighbours::GetColumnBindings() {
	// In the order of PhysicalKnn: left_row, right_row, distance, rank. Nobody reads the row numbers.
	vector<ColumnBinding> result;
	for (auto column : {idx_t(2), idx_t(3), DISTANCE, RANK}) {
		result.emplace_back(table_index, ProjectionIndex(column));
	}
	for (idx_t side = 0; side < 2; side++) {
		auto bindings = children[side]->GetColumnBindings();
		for (auto column : ColumnsOf(side)) {
			result.push_back(bindings[column]);
		}
	}
	return result;
}

vector<TableIndex> LogicalNeighbours::GetTableIndex() const {
	return {table_index};
}

idx_t LogicalNeighbours::EstimateCardinality(ClientContext &context) {
	auto left = children[0]->EstimateCardinality(context);
	auto right = children[1]->EstimateCardinality(context);
	auto each = MaxValue<idx_t>(1, MinValue<idx_t>(request.k, right));
	auto most = NumericLimits<int64_t>::Maximum();
	SetEstimatedCardinality(left > idx_t(most) / each ? idx_t(most) : left * each);
	return estimated_cardinality;
}

void LogicalNeighbours::ResolveTypes() {
	types = {LogicalType::BIGINT, LogicalType::BIGINT, LogicalType::DOUBLE, LogicalType::BIGINT};
	for (idx_t side = 0; side < 2; side++) {
		for (auto column : ColumnsOf(side)) {
			types.push_back(children[side]->types[column]);
		}
	}
}

void LogicalNeighbours::ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) {
	for (idx_t side = 0; side < 2; side++) {
		resolver.VisitOperator(*children[side]);
		resolver.VisitExpression(&expressions[side]);
	}
	if (Residual()) {
		ResolveColumns(resolver, GetColumnBindings(), expressions[RESIDUAL]);
	}
	bindings = GetColumnBindings();
}

PhysicalOperator &LogicalNeighbours::CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) {
	auto deterministic = GetDeterministic(context);
	auto collect = [&](idx_t side) -> PhysicalCollectRows & {
		// Before the child is planned, which takes its expressions out of it
		auto used = ColumnsOf(side);
		reference<PhysicalOperator> child = planner.CreatePlan(*children[side]);
		auto &geometry = expressions[side];
		vector<idx_t> kept;
		if (geometry->GetExpressionClass() == ExpressionClass::BOUND_REF) {
			kept.push_back(IndexOf(geometry->Cast<BoundReferenceExpression>()));
			kept.insert(kept.end(), used.begin(), used.end());
		} else {
			vector<LogicalType> projected {ReturnTypeOf(*geometry)};
			vector<unique_ptr<Expression>> values;
			values.push_back(std::move(geometry));
			kept.push_back(0);
			for (auto column : used) {
				kept.push_back(projected.size());
				projected.push_back(child.get().types[column]);
				values.push_back(make_uniq<BoundReferenceExpression>(child.get().types[column], column));
			}
			auto &projection = planner.Make<PhysicalProjection>(std::move(projected), std::move(values),
			                                                    child.get().estimated_cardinality);
			projection.children.push_back(child.get());
			child = projection;
		}
		return planner.Make<PhysicalCollectRows>(context, child.get(), std::move(kept), deterministic)
		    .Cast<PhysicalCollectRows>();
	};
	auto &left = collect(0);
	auto &right = collect(1);
	auto residual = Residual() ? std::move(expressions[RESIDUAL]) : nullptr;
	auto engine = KnnDispatch::DescribePlan(context, left.estimated_cardinality, request.k);
	if (pinned_right) {
		vector<idx_t> used(right.columns.begin() + 1, right.columns.end()); // the geometry comes first
		auto plan = make_shared_ptr<PinnedRight::Plan>(PinnedRight::Plan {std::move(*pinned_right), std::move(used),
		                                                                  right.children[0].get().types, request,
		                                                                  left.estimated_cardinality});
		const auto table = PinnedRight::Describe(context, *plan);
		engine = table.empty() ? engine : "gpu (the points are pinned: " + table + ")";
		right.find_elsewhere = [plan](ClientContext &client) { return PinnedRight::Find(client, *plan); };
	}
	return planner.Make<PhysicalKnn>(*this, request, std::move(engine), left, right, deterministic,
	                                 std::move(residual));
}

} // namespace duckdb
