#include "duckdb/scalar_batch/logical.hpp"

#include "duckdb/support/function_builder.hpp"
#include "duckdb/scalar_batch/physical.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/support/prepared_argument.hpp"

namespace duckdb {

using vibespatial::ScalarTask;

LogicalScalarBatch::LogicalScalarBatch(TableIndex table_index, unique_ptr<LogicalOperator> child)
    : table_index(table_index) {
	estimated_cardinality = child->estimated_cardinality;
	has_estimated_cardinality = child->has_estimated_cardinality;
	children.push_back(std::move(child));
}

string LogicalScalarBatch::GetName() const {
	return "VIBE_SCALAR_BATCH";
}

string LogicalScalarBatch::GetExtensionName() const {
	return "vibespatial";
}

InsertionOrderPreservingMap<string> LogicalScalarBatch::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	string calls;
	for (auto &call : expressions) {
		calls += (calls.empty() ? "" : "\n") + call->ToString();
	}
	result["Calls"] = calls;
	SetParamsEstimatedCardinality(result);
	return result;
}

vector<ColumnBinding> LogicalScalarBatch::GetColumnBindings() {
	auto below = children[0]->GetColumnBindings();
	vector<ColumnBinding> result;
	for (auto column : columns) {
		result.push_back(below[column]);
	}
	for (idx_t i = 0; i < expressions.size(); i++) {
		result.emplace_back(table_index, ProjectionIndex(i));
	}
	return result;
}

void LogicalScalarBatch::ResolveTypes() {
	types.clear();
	for (auto column : columns) {
		types.push_back(children[0]->types[column]);
	}
	for (auto &call : expressions) {
		types.push_back(ReturnTypeOf(*call));
	}
}

PhysicalOperator &LogicalScalarBatch::CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) {
	auto &child = planner.CreatePlan(*children[0]);
	return planner.Make<PhysicalScalarBatch>(context, *this, child);
}

bool IsConstantGeometry(const Expression &argument) {
	return argument.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT &&
	       !ValueOf(argument.Cast<BoundConstantExpression>()).IsNull();
}

//! A call of a function of one geometry, and of a number where it takes one
static bool FindRowTask(const BoundFunctionExpression &function, ScalarTask &task) {
	static constexpr struct {
		const char *name;
		ScalarTask::Kind kind;
		idx_t arguments;
	} TASKS[] = {{"area", ScalarTask::AREA, 1},
	             {"length", ScalarTask::LENGTH, 1},
	             {"perimeter", ScalarTask::PERIMETER, 1},
	             {"centroid", ScalarTask::CENTROID, 1},
	             {"flipcoordinates", ScalarTask::FLIP, 1},
	             {"convexhull", ScalarTask::HULL, 1},
	             {"simplify", ScalarTask::SIMPLIFY, 2}};
	auto &arguments = ChildrenOf(function);
	if (!SqlFunction::IsOurs(FunctionOf(function)) || arguments[0]->IsFoldable() ||
	    ReturnTypeOf(*arguments[0]).id() != LogicalTypeId::GEOMETRY) {
		return false;
	}
	auto name = SpatialFunctionName(FunctionName(function));
	for (auto &known : TASKS) {
		if (name == known.name && arguments.size() == known.arguments) {
			task.kind = known.kind;
			return true;
		}
	}
	return false;
}

//! A call of ST_Intersection and its kin, or of the functions of their areas
static bool FindOverlayTask(const BoundFunctionExpression &function, ScalarTask &task) {
	using vibe::NetRule;
	static constexpr struct {
		const char *name;
		NetRule::Kind kind;
	} OVERLAYS[] = {{"intersection", NetRule::INTERSECTION},
	                {"union", NetRule::UNION},
	                {"difference", NetRule::DIFFERENCE},
	                {"symdifference", NetRule::SYM_DIFFERENCE}};
	static constexpr const char *AREA = "_area";
	if (!SqlFunction::IsOurs(FunctionOf(function)) ||
	    ReturnTypeOf(*ChildrenOf(function)[0]).id() != LogicalTypeId::GEOMETRY ||
	    ReturnTypeOf(*ChildrenOf(function)[1]).id() != LogicalTypeId::GEOMETRY) {
		return false;
	}
	auto name = SpatialFunctionName(FunctionName(function));
	const bool area = StringUtil::EndsWith(name, AREA);
	if (area) {
		name = name.substr(0, name.size() - strlen(AREA));
	}
	for (auto &known : OVERLAYS) {
		if (name == known.name) {
			task.kind = area ? ScalarTask::OVERLAY_AREA : ScalarTask::OVERLAY;
			task.overlay = NetRule {known.kind, area ? 1u : 0u};
			return true;
		}
	}
	return false;
}

//! At least one of the two geometries of a call is a column, and the other one that or a constant
static bool HasColumn(const BoundFunctionExpression &function) {
	idx_t constants = 0;
	for (idx_t i = 0; i < 2; i++) {
		if (IsConstantGeometry(*ChildrenOf(function)[i])) {
			constants++;
		} else if (ChildrenOf(function)[i]->IsFoldable()) {
			return false;
		}
	}
	return constants < 2;
}

bool FindScalarTask(const Expression &call, ScalarTask &task) {
	if (call.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION || call.IsVolatile()) {
		return false;
	}
	auto &function = call.Cast<BoundFunctionExpression>();
	auto count = ChildrenOf(function).size();
	if (count > 0 && FindRowTask(function, task)) {
		return true;
	}
	if (count < 2 || count > 3 || !HasColumn(function)) {
		return false;
	}
	if (count == 2 && FindOverlayTask(function, task)) {
		return true;
	}
	// Only our functions have this bind data: `spatial` has functions with the same names
	if (!dynamic_cast<PreparedBindData *>(BindDataOf(function).get())) {
		return false;
	}
	auto name = SpatialFunctionName(FunctionName(function));
	if (count == 2 && FindSpatialPredicate(name, task.predicate)) {
		task.kind = ScalarTask::RELATE;
		return true;
	}
	if (count == 2 && name == "hausdorffdistance") {
		task.kind = ScalarTask::HAUSDORFF;
		return true;
	}
	task.kind = count == 2 ? ScalarTask::DISTANCE : ScalarTask::WITHIN;
	return name == (count == 2 ? "distance" : "dwithin");
}

} // namespace duckdb
