#include "duckdb/scalar_batch/calls.hpp"

#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "geometry/wkb.hpp"

namespace duckdb {

using vibespatial::ScalarTask;

ScalarCalls::ScalarCalls(ClientContext &context, const PhysicalScalarBatch &op) : op(op), arguments_executor(context) {
	vector<LogicalType> types;
	for (auto &call : op.calls) {
		for (auto &argument : ChildrenOf(call->Cast<BoundFunctionExpression>())) {
			arguments_executor.AddExpression(*argument);
			types.push_back(ReturnTypeOf(*argument));
		}
		executors.push_back(make_uniq<ExpressionExecutor>(context, *call));
	}
	arguments.Initialize(Allocator::Get(context), types);
}

DataChunk &ScalarCalls::Arguments(DataChunk &input) {
	arguments.Reset();
	arguments_executor.Execute(input, arguments);
	return arguments;
}

bool ScalarCalls::ArePoints(DataChunk &input) {
	auto &all = Arguments(input);
	vibe::Vec2 point;
	idx_t first = 0;
	for (idx_t i = 0; i < op.calls.size(); i++) {
		auto &children = ChildrenOf(op.calls[i]->Cast<BoundFunctionExpression>());
		for (idx_t side = 0; side < (op.tasks[i].IsOfPairs() ? 2 : 1); side++) {
			bool is_constant = IsConstantGeometry(*children[side]);
			if (is_constant && op.tasks[i].kind == ScalarTask::RELATE) {
				continue;
			}
			UnifiedVectorFormat format;
			all.data[first + side].ToUnifiedFormat(all.size(), format);
			auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
			for (idx_t row = 0; row < (is_constant ? 1 : all.size()); row++) {
				auto at = format.sel->get_index(row);
				if (format.validity.RowIsValid(at) &&
				    !vibespatial::TryReadPoint(WkbData(geometries[at]), geometries[at].GetSize(), point)) {
					return false;
				}
			}
		}
		first += children.size();
	}
	return true;
}

void ScalarCalls::Execute(idx_t call, DataChunk &input, Vector &result) {
	const CpuWorkOfOperator logged;
	executors[call]->ExecuteExpression(input, result);
}

void ScalarCalls::Execute(DataChunk &input, DataChunk &output) {
	idx_t column = 0;
	for (auto below : op.columns) {
		output.data[column++].Reference(input.data[below]);
	}
	for (idx_t i = 0; i < op.calls.size(); i++) {
		Execute(i, input, output.data[column++]);
	}
	SetRowCount(output, input.size());
}

} // namespace duckdb
