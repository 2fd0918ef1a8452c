#include "duckdb/scalar_batch/batch.hpp"

#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/relate/prepared.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"

#include <algorithm>

namespace duckdb {

using vibespatial::BulkSide;
using vibespatial::BulkTask;
using vibespatial::GpuError;
using vibespatial::GpuMemoryError;

//! A batch is full with this many rows of points, or with this many rows or bytes of other geometries
static constexpr idx_t POINT_ROWS = 64 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_ROWS = 8 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_BYTES = 32 << 20;
//! How often a batch is halved that is too large for the memory of the device
static constexpr idx_t MAX_HALVES = 4;

ScalarBatch::ScalarBatch(ClientContext &context, const PhysicalScalarBatch &op, ScalarBatchDispatch &dispatch,
                         ScalarCalls &cpu_calls)
    : context(context), op(op), dispatch(dispatch), cpu_calls(cpu_calls), calls(op.calls.size()),
      kept(context, op.buffered_columns), memory(context) {
}

ScalarBatch::~ScalarBatch() = default;

bool ScalarBatch::IsFull() const {
	bool points = true;
	idx_t bytes = 0;
	for (auto &call : calls) {
		points &= call.left.IsPoints() && call.right.IsPoints();
		bytes += call.left.Bytes() + call.right.Bytes();
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
	for (auto &call : calls) {
		call.left.Clear();
		call.right.Clear();
		call.limits.clear();
		call.is_null.clear();
		call.cpu_rows.clear();
		call.launched = false;
		call.geometries.clear();
		call.heap.Destroy();
	}
	kept.Clear();
	has_room = true;
}

void ScalarBatch::Add(DataChunk &input) {
	auto &arguments = cpu_calls.Arguments(input);
	idx_t first = 0;
	for (idx_t i = 0; i < calls.size(); i++) {
		if (op.tasks[i].IsOfPairs()) {
			AddPairs(i, arguments, first);
		} else {
			AddRows(i, arguments.data[first], arguments.size());
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
	for (auto &call : calls) {
		bytes += call.left.OwnBytes() + call.right.OwnBytes() + call.limits.capacity() * sizeof(double) +
		         call.answers.capacity() + call.numbers.capacity() * sizeof(double) +
		         call.geometries.capacity() * sizeof(string_t) + call.heap.AllocationSize() +
		         (call.device ? call.device->HostBytes() : 0);
	}
	has_room = memory.TryResize((bytes + STEP - 1) / STEP * STEP);
}

void ScalarBatch::Prepare(idx_t number) {
	auto &call = calls[number];
	if (!call.device && dispatch.IsActive()) {
		try {
			call.device = dispatch.NewDeviceBatch(op.tasks[number]);
		} catch (const GpuError &error) {
			dispatch.Fail(error);
		}
	}
	auto memory_of = [&](bool left) -> vibespatial::ShapeRows::Memory {
		if (!call.device) {
			return nullptr;
		}
		return [this, &call, left](size_t block) -> uint8_t * {
			try {
				return call.device->Block(left, block);
			} catch (const GpuError &error) {
				dispatch.Fail(error);
				return nullptr;
			}
		};
	};
	call.left.Clear(memory_of(true));
	call.right.Clear(memory_of(false));
}

void ScalarBatch::AddPairs(idx_t number, DataChunk &arguments, idx_t first) {
	auto &call = calls[number];
	auto &children = ChildrenOf(op.calls[number]->Cast<BoundFunctionExpression>());
	bool left_varies = !IsConstantGeometry(*children[0]), right_varies = !IsConstantGeometry(*children[1]);
	bool has_limit = op.tasks[number].kind == BulkTask::WITHIN;
	UnifiedVectorFormat left, right, limit;
	arguments.data[first].ToUnifiedFormat(arguments.size(), left);
	arguments.data[first + 1].ToUnifiedFormat(arguments.size(), right);
	if (has_limit) {
		arguments.data[first + 2].ToUnifiedFormat(arguments.size(), limit);
	}
	auto lefts = UnifiedVectorFormat::GetData<string_t>(left), rights = UnifiedVectorFormat::GetData<string_t>(right);
	if (count == 0) {
		Prepare(number);
		call.constant_is_known = left_varies || AddGeometry(call.left, lefts[left.sel->get_index(0)]);
		call.constant_is_known &= right_varies || AddGeometry(call.right, rights[right.sel->get_index(0)]);
	}
	for (idx_t i = 0; i < arguments.size(); i++) {
		auto l = left.sel->get_index(i), r = right.sel->get_index(i);
		bool is_null = !left.validity.RowIsValid(l) || !right.validity.RowIsValid(r);
		if (has_limit) {
			auto at = limit.sel->get_index(i);
			is_null |= !limit.validity.RowIsValid(at);
			call.limits.push_back(is_null ? 0 : UnifiedVectorFormat::GetData<double>(limit)[at]);
		}
		call.is_null.push_back(is_null);
		bool known = call.constant_is_known;
		if (left_varies && is_null) {
			call.left.AddNothing();
		} else if (left_varies) {
			known &= AddGeometry(call.left, lefts[l]);
		}
		if (right_varies && is_null) {
			call.right.AddNothing();
		} else if (right_varies) {
			known &= AddGeometry(call.right, rights[r]);
		}
		if (!known && !is_null) {
			call.cpu_rows.push_back(NumericCast<uint32_t>(count + i));
		}
	}
}

void ScalarBatch::AddRows(idx_t number, Vector &argument, idx_t size) {
	auto &call = calls[number];
	if (count == 0) {
		Prepare(number);
		call.left.BeginShapes();
	}
	UnifiedVectorFormat format;
	argument.ToUnifiedFormat(size, format);
	auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
	for (idx_t i = 0; i < size; i++) {
		auto at = format.sel->get_index(i);
		bool is_null = !format.validity.RowIsValid(at);
		call.is_null.push_back(is_null);
		if (!is_null && op.tasks[number].IsForDevice(WkbData(geometries[at]), geometries[at].GetSize())) {
			call.left.AddWkb(WkbData(geometries[at]), geometries[at].GetSize());
			continue;
		}
		call.left.AddNothing();
		if (!is_null) {
			call.cpu_rows.push_back(NumericCast<uint32_t>(count + i));
		}
	}
}

//! False for a geometry that is left to the function itself, which also reports what is wrong with it
bool ScalarBatch::AddGeometry(BulkSide &side, const string_t &wkb) {
	auto data = WkbData(wkb);
	vibe::Vec2 point;
	if (vibespatial::TryReadPoint(data, wkb.GetSize(), point)) {
		side.AddPoint(point);
		return true;
	}
	try {
		// Not POINT EMPTY: the others stay points
		if (vibespatial::ReadWkbHeader(data, wkb.GetSize()).type != vibespatial::GeometryType::POINT) {
			if (vibespatial::ShapeRows::IsForDevice(data, wkb.GetSize())) {
				side.AddWkb(data, wkb.GetSize());
				return true;
			}
			vibespatial::BuildShape(data, wkb.GetSize(), scratch, shape);
			side.AddShape(shape.View());
			return true;
		}
	} catch (const vibespatial::GeometryError &) {
	}
	side.AddNothing();
	return false;
}

vibespatial::BulkInput ScalarBatch::Input(idx_t number, idx_t first, idx_t size) const {
	auto &call = calls[number];
	auto &children = ChildrenOf(op.calls[number]->Cast<BoundFunctionExpression>());
	vibespatial::BulkInput input;
	input.first = first;
	input.count = size;
	input.left = &call.left;
	if (op.tasks[number].IsOfPairs()) {
		input.right = &call.right;
		input.left_is_constant = IsConstantGeometry(*children[0]);
		input.right_is_constant = IsConstantGeometry(*children[1]);
	}
	input.limits = call.limits.empty() ? nullptr : call.limits.data();
	return input;
}

void ScalarBatch::Launch() {
	for (idx_t i = 0; i < calls.size() && dispatch.IsActive(); i++) {
		auto &call = calls[i];
		try {
			call.device->Begin(Input(i, 0, count));
			call.launched = true;
		} catch (const GpuMemoryError &) {
			// Finish() tries again with fewer rows
		} catch (const GpuError &error) {
			dispatch.Fail(error);
		}
	}
}

void ScalarBatch::Finish() {
	for (idx_t i = 0; i < calls.size(); i++) {
		auto &call = calls[i];
		auto &task = op.tasks[i];
		call.answers.assign(task.GivesNumbers() || task.GivesGeometries() ? 0 : count, 0);
		call.numbers.assign(task.GivesNumbers() ? count : 0, 0);
		call.geometries.assign(task.GivesGeometries() ? count : 0, string_t());
		if (call.launched) {
			call.launched = false;
			try {
				Use(i, call.device->Finish(), 0, count);
			} catch (const GpuMemoryError &) {
				RunHalves(i, 0, count, 0);
			} catch (const GpuError &error) {
				dispatch.Fail(error);
				RunOnCpu(i, 0, count);
			}
		} else {
			RunHalves(i, 0, count, 0);
		}
	}
	CountMemory();
}

void ScalarBatch::RunHalves(idx_t number, idx_t first, idx_t size, idx_t depth) {
	bool is_active = dispatch.IsActive();
	if (depth >= MAX_HALVES || size < 2 || !is_active) {
		RunOnCpu(number, first, size);
		if (is_active) {
			dispatch.AddForLackOfMemory();
		}
		return;
	}
	for (auto half : {idx_t(0), size / 2}) {
		auto begin = first + half, some = half == 0 ? size / 2 : size - size / 2;
		try {
			CancelPoll(context)();
			calls[number].device->Begin(Input(number, begin, some));
			Use(number, calls[number].device->Finish(), begin, some);
		} catch (const GpuMemoryError &) {
			RunHalves(number, begin, some, depth + 1);
		} catch (const GpuError &error) {
			dispatch.Fail(error);
			RunOnCpu(number, begin, some);
		}
	}
}

void ScalarBatch::Use(idx_t number, const vibespatial::BulkResult &result, idx_t first, idx_t size) {
	auto &call = calls[number];
	bool is_distance = op.tasks[number].kind == BulkTask::DISTANCE;
	vector<uint32_t> left_over;
	auto next_cpu_row = std::lower_bound(call.cpu_rows.begin(), call.cpu_rows.end(), first);
	for (idx_t i = 0; i < size; i++) {
		auto row = first + i;
		bool is_for_cpu = next_cpu_row != call.cpu_rows.end() && *next_cpu_row == row;
		next_cpu_row += is_for_cpu;
		if (call.is_null[row]) {
			continue;
		}
		if (is_for_cpu || result.results[i] == vibe::PAIR_OPEN) {
			left_over.push_back(NumericCast<uint32_t>(row));
		} else if (!call.answers.empty()) {
			call.answers[row] = result.results[i] == vibe::PAIR_TRUE;
		} else if (!call.geometries.empty()) {
			auto begin = result.wkb_begin[i], end = result.wkb_begin[i + 1];
			call.geometries[row] =
			    call.heap.AddBlob(const_char_ptr_cast(result.wkb + begin), NumericCast<idx_t>(end - begin));
		} else if (result.numbers[i] == result.numbers[i]) {
			call.numbers[row] = result.numbers[i];
		} else if (!is_distance) {
			left_over.push_back(NumericCast<uint32_t>(row)); // the bits of a NaN are those of the CPU
		}
	}
	dispatch.AddDone(size, left_over.size(), result.times);
	RunOnCpu(number, left_over);
}

void ScalarBatch::RunOnCpu(idx_t number, idx_t first, idx_t size) {
	vector<uint32_t> all(size);
	for (idx_t i = 0; i < size; i++) {
		all[i] = NumericCast<uint32_t>(first + i);
	}
	RunOnCpu(number, all);
}

void ScalarBatch::RunOnCpu(idx_t number, const vector<uint32_t> &some) {
	auto &call = calls[number];
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
		for (idx_t column = 0; column < chunk.ColumnCount(); column++) {
			if (op.buffered_columns[column]) {
				sliced.data[column].Slice(chunk.data[column], selection, end - begin);
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
				call.is_null[some[i]] = true;
			} else if (!call.answers.empty()) {
				call.answers[some[i]] = UnifiedVectorFormat::GetData<bool>(format)[at];
			} else if (!call.geometries.empty()) {
				call.geometries[some[i]] = call.heap.AddBlob(UnifiedVectorFormat::GetData<string_t>(format)[at]);
			} else {
				call.numbers[some[i]] = UnifiedVectorFormat::GetData<double>(format)[at];
			}
		}
	}
}

void ScalarBatch::Emit(idx_t number, DataChunk &output) {
	auto &chunk = kept.Chunk(number);
	auto first = number * STANDARD_VECTOR_SIZE;
	idx_t column = 0;
	for (auto below : op.columns) {
		output.data[column++].Reference(chunk.data[below]);
	}
	for (auto &call : calls) {
		auto &vector = output.data[column++];
		vector.SetVectorType(VectorType::FLAT_VECTOR);
		if (!call.answers.empty()) {
			memcpy(MutableData<bool>(vector), call.answers.data() + first, chunk.size() * sizeof(bool));
		} else if (!call.numbers.empty()) {
			memcpy(MutableData<double>(vector), call.numbers.data() + first, chunk.size() * sizeof(double));
		}
		for (idx_t i = 0; i < chunk.size(); i++) {
			if (call.is_null[first + i]) {
				FlatVector::SetNull(vector, i, true);
			} else if (!call.geometries.empty()) {
				MutableData<string_t>(vector)[i] = StringVector::AddStringOrBlob(vector, call.geometries[first + i]);
			}
		}
	}
	SetRowCount(output, chunk.size());
}

} // namespace duckdb
