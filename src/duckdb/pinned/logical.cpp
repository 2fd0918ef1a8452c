#include "duckdb/pinned/logical.hpp"

#include "duckdb/execution/column_binding_resolver.hpp"
#include "duckdb/pinned/physical.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"

namespace duckdb {

LogicalPin::LogicalPin(TableIndex table_index, PinRequest request_p, unique_ptr<LogicalOperator> child,
                       const vector<LogicalType> &types)
    : table_index(table_index), request(std::move(request_p)) {
	auto bindings = child->GetColumnBindings();
	for (idx_t i = 0; i < types.size(); i++) {
		expressions.push_back(make_uniq<BoundColumnRefExpression>(types[i], bindings[i]));
	}
	children.push_back(std::move(child));
}

void LogicalPin::Serialize(Serializer &) const {
	throw NotImplementedException("%s has no serialized form", GetName());
}

InsertionOrderPreservingMap<string> LogicalPin::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Table"] = request.table.text;
	return result;
}

vector<ColumnBinding> LogicalPin::GetColumnBindings() {
	return GenerateColumnBindings(table_index, Names().size());
}

void LogicalPin::ResolveTypes() {
	types = {LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::LIST(LogicalType::VARCHAR), LogicalType::UBIGINT,
	         LogicalType::UBIGINT};
}

void LogicalPin::ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) {
	resolver.VisitOperator(*children[0]);
	for (auto &column : expressions) {
		resolver.VisitExpression(&column);
	}
	bindings = GetColumnBindings();
}

PhysicalOperator &LogicalPin::CreatePlan(ClientContext &, PhysicalPlanGenerator &planner) {
	auto &child = planner.CreatePlan(*children[0]);
	vector<idx_t> columns;
	for (auto &column : expressions) {
		columns.push_back(IndexOf(column->Cast<BoundReferenceExpression>()));
	}
	return planner.Make<PhysicalPin>(*this, child, std::move(columns));
}

} // namespace duckdb
