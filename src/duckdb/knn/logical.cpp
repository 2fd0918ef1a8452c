#include "duckdb/knn/logical.hpp"

#include "duckdb/execution/column_binding_resolver.hpp"
#include "duckdb/operators/collect_rows.hpp"
#include "duckdb/knn/dispatch.hpp"
#include "duckdb/knn/physical.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

LogicalKnn::LogicalKnn(TableIndex table_index, uint64_t k, double max_distance,
                       vector<unique_ptr<Expression>> left_columns, vector<unique_ptr<Expression>> right_columns,
                       unique_ptr<LogicalOperator> left, unique_ptr<LogicalOperator> right)
    : table_index(table_index), k(k), max_distance(max_distance), left_count(left_columns.size()) {
	expressions = std::move(left_columns);
	for (auto &column : right_columns) {
		expressions.push_back(std::move(column));
	}
	children.push_back(std::move(left));
	children.push_back(std::move(right));
}

string LogicalKnn::GetName() const {
	return "VIBE_KNN";
}

string LogicalKnn::GetExtensionName() const {
	return "vibespatial";
}

void LogicalKnn::Serialize(Serializer &) const {
	throw NotImplementedException("%s has no serialized form", GetName());
}

InsertionOrderPreservingMap<string> LogicalKnn::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Neighbours"] = to_string(k);
	SetParamsEstimatedCardinality(result);
	return result;
}

vector<ColumnBinding> LogicalKnn::GetColumnBindings() {
	return GenerateColumnBindings(table_index, PhysicalKnn::OWN_COLUMNS + expressions.size() - 2);
}

vector<TableIndex> LogicalKnn::GetTableIndex() const {
	return {table_index};
}

idx_t LogicalKnn::EstimateCardinality(ClientContext &context) {
	auto left = children[0]->EstimateCardinality(context);
	auto right = children[1]->EstimateCardinality(context);
	auto each = MaxValue<idx_t>(1, MinValue<idx_t>(k, right));
	auto most = NumericLimits<int64_t>::Maximum();
	SetEstimatedCardinality(left > idx_t(most) / each ? idx_t(most) : left * each);
	return estimated_cardinality;
}

void LogicalKnn::ResolveTypes() {
	types = {LogicalType::BIGINT, LogicalType::BIGINT, LogicalType::DOUBLE, LogicalType::BIGINT};
	for (idx_t i = 0; i < expressions.size(); i++) {
		// The geometries come first on each side
		if (i != 0 && i != left_count) {
			types.push_back(ReturnTypeOf(*expressions[i]));
		}
	}
}

void LogicalKnn::ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) {
	for (idx_t side = 0; side < 2; side++) {
		resolver.VisitOperator(*children[side]);
		for (idx_t i = side == 0 ? 0 : left_count; i < (side == 0 ? left_count : expressions.size()); i++) {
			resolver.VisitExpression(&expressions[i]);
		}
	}
	bindings = GetColumnBindings();
}

PhysicalOperator &LogicalKnn::CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) {
	auto deterministic = GetDeterministic(context);
	vector<idx_t> columns[2];
	for (idx_t i = 0; i < expressions.size(); i++) {
		columns[i < left_count ? 0 : 1].push_back(IndexOf(expressions[i]->Cast<BoundReferenceExpression>()));
	}
	auto collect = [&](idx_t side) -> PhysicalOperator & {
		auto &child = planner.CreatePlan(*children[side]);
		return planner.Make<PhysicalCollectRows>(context, child, std::move(columns[side]), deterministic);
	};
	auto &left = collect(0);
	auto &right = collect(1);
	KnnRequest request {k, max_distance};
	request.kernels = kernels;
	return planner.Make<PhysicalKnn>(*this, std::move(request),
	                                 KnnDispatch::DescribePlan(context, left.estimated_cardinality, k), left, right,
	                                 deterministic);
}

} // namespace duckdb
