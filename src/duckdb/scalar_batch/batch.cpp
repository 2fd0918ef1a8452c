#include "duckdb/scalar_batch/batch.hpp"

#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/support/query_scope.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/wkb_output.hpp"

#include <optional>

namespace duckdb {

using vibespatial::JoinRow;
using vibespatial::ScalarColumn;
using vibespatial::ScalarTask;

//! A batch is full with this many rows of points, or with this many rows or bytes of other geometries
static constexpr idx_t POINT_ROWS = 64 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_ROWS = 8 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_BYTES = 32 << 20;

ScalarBatch::ScalarBatch(ClientContext &context, const PhysicalScalarBatch &op, ScalarBatchDispatch &dispatch,
                         ScalarCalls &cpu_calls)
    : context(context), op(op), cpu_calls(cpu_calls), kept(context, op.buffered_columns), memory(context) {
	for (idx_t i = 0; i < op.calls.size(); i++) {
		auto &children = ChildrenOf(op.calls[i]->Cast<BoundFunctionExpression>());
		bool of_pairs = op.tasks[i].IsOfPairs();
		columns.push_back(make_uniq<ScalarColumn>(dispatch, op.tasks[i], of_pairs && IsConstantGeometry(*children[0]),
		                                          of_pairs && IsConstantGeometry(*children[1])));
	}
}

ScalarBatch::~ScalarBatch() = default;

bool ScalarBatch::IsFull() const {
	bool points = true;
	idx_t bytes = 0;
	for (auto &column : columns) {
		points &= column->ArePoints();
		bytes += column->Bytes();
	}
	if (!has_room) {
		return true;
	}
	return points ? count >= POINT_ROWS : count >= SHAPE_ROWS || bytes >= SHAPE_BYTES;
}

idx_t ScalarBatch::ChunkCount() const {
	return (count + STANDARD_VECTOR_SIZE - 1) / STANDARD_VECTOR_SIZE;
}

void ScalarBatch::Clear() {
	count = 0;
	for (auto &column : columns) {
		column->Clear();
	}
	kept.Clear();
	has_room = true;
}

void ScalarBatch::Add(DataChunk &input) {
	auto &arguments = cpu_calls.Arguments(input);
	idx_t first = 0;
	for (idx_t i = 0; i < columns.size(); i++) {
		if (op.tasks[i].IsOfPairs()) {
			AddPairs(i, arguments, first);
		} else {
			AddRows(i, arguments, first);
		}
		first += ChildrenOf(op.calls[i]->Cast<BoundFunctionExpression>()).size();
	}
	kept.Add(input, 0, input.size(), count);
	count += input.size();
	CountMemory();
}

void ScalarBatch::CountMemory() {
	//! Reservations are made in steps of this size
	constexpr idx_t STEP = 256 << 10;
	auto bytes = kept.Bytes();
	for (auto &column : columns) {
		bytes += column->HostBytes();
	}
	has_room = memory.TryResize((bytes + STEP - 1) / STEP * STEP);
}

//! One argument of a chunk
struct GeometryArgument {
	GeometryArgument(Vector &vector, idx_t size) {
		vector.ToUnifiedFormat(size, format);
		geometries = UnifiedVectorFormat::GetData<string_t>(format);
	}
	JoinRow operator[](idx_t row) const {
		auto at = format.sel->get_index(row);
		if (!format.validity.RowIsValid(at)) {
			return JoinRow {nullptr, 0};
		}
		return JoinRow {WkbData(geometries[at]), NumericCast<uint32_t>(geometries[at].GetSize())};
	}

	UnifiedVectorFormat format;
	const string_t *geometries;
};

//! A number for each row of a chunk
struct NumberArgument {
	NumberArgument(Vector &vector, idx_t size) {
		vector.ToUnifiedFormat(size, format);
		numbers = UnifiedVectorFormat::GetData<double>(format);
	}
	//! Null for NULL
	const double *operator[](idx_t row) const {
		auto at = format.sel->get_index(row);
		return format.validity.RowIsValid(at) ? numbers + at : nullptr;
	}

	UnifiedVectorFormat format;
	const double *numbers;
};

void ScalarBatch::AddPairs(idx_t number, DataChunk &arguments, idx_t first) {
	auto &column = *columns[number];
	auto &children = ChildrenOf(op.calls[number]->Cast<BoundFunctionExpression>());
	GeometryArgument left(arguments.data[first], arguments.size()), right(arguments.data[first + 1], arguments.size());
	if (count == 0 && IsConstantGeometry(*children[0])) {
		column.SetConstant(true, left[0]);
	}
	if (count == 0 && IsConstantGeometry(*children[1])) {
		column.SetConstant(false, right[0]);
	}
	std::optional<NumberArgument> limits;
	if (column.task.kind == ScalarTask::WITHIN) {
		limits.emplace(arguments.data[first + 2], arguments.size());
	}
	for (idx_t i = 0; i < arguments.size(); i++) {
		column.AddPair(left[i], right[i], limits ? (*limits)[i] : nullptr);
	}
}

void ScalarBatch::AddRows(idx_t number, DataChunk &arguments, idx_t first) {
	auto &column = *columns[number];
	GeometryArgument geometries(arguments.data[first], arguments.size());
	std::optional<NumberArgument> tolerances;
	if (column.task.kind == ScalarTask::SIMPLIFY) {
		tolerances.emplace(arguments.data[first + 1], arguments.size());
	}
	for (idx_t i = 0; i < arguments.size(); i++) {
		column.AddRow(geometries[i], tolerances ? (*tolerances)[i] : nullptr);
	}
}

void ScalarBatch::Launch() {
	for (auto &column : columns) {
		column->Launch();
	}
}

void ScalarBatch::Finish() {
	// Overlays are prepared and put together on the host
	const QueryScope scope(context);
	for (idx_t i = 0; i < columns.size(); i++) {
		RunOnCpu(i, columns[i]->Finish());
	}
	CountMemory();
}

void ScalarBatch::RunOnCpu(idx_t number, const std::vector<uint32_t> &some) {
	auto &column = *columns[number];
	auto poll = CancelPoll(context);
	DataChunk sliced;
	for (idx_t begin = 0, end = 0; begin < some.size(); begin = end) {
		poll();
		auto chunk_number = some[begin] / STANDARD_VECTOR_SIZE;
		auto &chunk = kept.Chunk(chunk_number);
		SelectionVector selection(STANDARD_VECTOR_SIZE);
		for (end = begin; end < some.size() && some[end] / STANDARD_VECTOR_SIZE == chunk_number; end++) {
			selection.set_index(end - begin, some[end] % STANDARD_VECTOR_SIZE);
		}
		sliced.Destroy();
		sliced.InitializeEmpty(chunk.GetTypes());
		for (idx_t i = 0; i < chunk.ColumnCount(); i++) {
			if (op.buffered_columns[i]) {
				sliced.data[i].Slice(chunk.data[i], selection, end - begin);
			}
		}
		SetRowCount(sliced, end - begin);
		Vector computed(ReturnTypeOf(*op.calls[number]));
		cpu_calls.Execute(number, sliced, computed);
		UnifiedVectorFormat format;
		computed.ToUnifiedFormat(end - begin, format);
		for (idx_t i = begin; i < end; i++) {
			auto at = format.sel->get_index(i - begin);
			if (!format.validity.RowIsValid(at)) {
				column.SetNull(some[i]);
			} else if (column.task.GivesGeometries()) {
				auto &geometry = UnifiedVectorFormat::GetData<string_t>(format)[at];
				column.SetGeometry(some[i], WkbData(geometry), geometry.GetSize());
			} else if (column.task.GivesNumbers()) {
				column.SetNumber(some[i], UnifiedVectorFormat::GetData<double>(format)[at]);
			} else {
				column.SetAnswer(some[i], UnifiedVectorFormat::GetData<bool>(format)[at]);
			}
		}
	}
}

void ScalarBatch::Emit(idx_t number, DataChunk &output) {
	auto &chunk = kept.Chunk(number);
	auto first = number * STANDARD_VECTOR_SIZE;
	idx_t position = 0;
	for (auto below : op.columns) {
		output.data[position++].Reference(chunk.data[below]);
	}
	for (auto &column : columns) {
		auto &vector = output.data[position++];
		auto &task = column->task;
		vector.SetVectorType(VectorType::FLAT_VECTOR);
		if (task.GivesNumbers()) {
			memcpy(MutableData<double>(vector), column->Numbers() + first, chunk.size() * sizeof(double));
		} else if (!task.GivesGeometries()) {
			memcpy(MutableData<bool>(vector), column->Answers() + first, chunk.size() * sizeof(bool));
		}
		for (idx_t i = 0; i < chunk.size(); i++) {
			if (column->IsNull(first + i)) {
				FlatVector::SetNull(vector, i, true);
			} else if (task.GivesGeometries()) {
				auto wkb = column->Geometry(first + i);
				MutableData<string_t>(vector)[i] =
				    StringVector::AddStringOrBlob(vector, const_char_ptr_cast(wkb.data), wkb.size);
			}
		}
	}
	SetRowCount(output, chunk.size());
}

} // namespace duckdb
