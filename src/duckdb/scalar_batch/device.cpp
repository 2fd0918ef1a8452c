#include "duckdb/scalar_batch/device.hpp"

#include "duckdb/support/task_parallel.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/dispatch/kernel_registry.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"

#include <algorithm>

namespace duckdb {

using vibespatial::BulkSide;
using vibespatial::BulkTask;
using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuError;
using vibespatial::GpuMemoryError;

using Clock = std::chrono::steady_clock;

//! Rows of a batch: of points alone, with other geometries and their bytes
static constexpr idx_t POINT_ROWS = 64 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_ROWS = 8 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_BYTES = 32 << 20;
//! Batches that are too large for the device are halved so often
static constexpr idx_t MAX_HALVES = 4;

//===----------------------------------------------------------------------===//
// The operator
//===----------------------------------------------------------------------===//
DeviceBulk::DeviceBulk(ClientContext &context, const PhysicalBulk &op)
    : OperatorDispatch(context, "VIBE_BULK"), op(op), begin(Clock::now()) {
}

DeviceBulk::~DeviceBulk() {
	Finish();
}

void DeviceBulk::Start() {
	if (started) {
		return;
	}
	lock_guard<mutex> guard(start_lock);
	if (started) {
		return;
	}
	auto kernel = op.tasks[0].Kernel();
	auto needs = vibespatial::KernelNeeds(vibespatial::FindKernelSet(kernel));
	if (mode == ExecutionMode::GPU) {
		vibespatial::GpuRuntime::Get().StartInBackground(needs, operator_name);
	}
	// Throws before there is an event to finish
	auto waited = WaitForDevice(kernel);
	event = NewEvent(kernel);
	event.wait_ms = waited;
	decision = vibespatial::Decide(mode, vibespatial::FindOperation(kernel), op.children[0].get().estimated_cardinality,
	                               GetGpuMinRows(context));
	event.selected = ToText(decision.selected);
	event.reason = decision.reason;
	if (decision.selected == ExecutionMode::GPU) {
		try {
			if (!decision.engine) {
				throw GpuError("no GPU engine is open");
			}
			event.wait_ms += WaitForKernels(*decision.engine, needs);
			active = true;
		} catch (const GpuError &error) {
			Fail(error);
		}
	}
	started = true;
}

std::unique_ptr<vibespatial::GpuBulk> DeviceBulk::NewBulk(const BulkTask &task) {
	return decision.engine->NewBulk(task);
}

void DeviceBulk::Fail(const std::exception &error) {
	lock_guard<mutex> guard(lock);
	active = false;
	if (failure.empty()) {
		failure = error.what();
	}
	if (mode == ExecutionMode::GPU) {
		FailOnDevice("compute the rows", failure);
	}
}

void DeviceBulk::AddDone(idx_t rows, idx_t open, const vibespatial::GpuTimes &times) {
	lock_guard<mutex> guard(lock);
	batches_done++;
	open_rows += open;
	event.rows += rows;
	AddTimes(event, times);
}

void DeviceBulk::AddForLackOfMemory() {
	lock_guard<mutex> guard(lock);
	batches_on_cpu++;
}

void DeviceBulk::AddPoints(idx_t rows) {
	point_rows += rows;
}

void DeviceBulk::Finish() {
	lock_guard<mutex> guard(lock);
	if (finished || event.kernel.empty() || mode == ExecutionMode::CPU) {
		return;
	}
	finished = true;
	SetOutcome(event, "batches", batches_done, batches_on_cpu, failure);
	if (point_rows > 0) {
		event.reason += "; " + to_string(point_rows) + " rows of points on the CPU, which has them done sooner";
	}
	if (open_rows > 0) {
		event.reason += "; " + to_string(open_rows) + " rows decided by the CPU";
	}
	event.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
	DispatchLog::Get().Add(event);
}

string DeviceBulk::DescribePlan(ClientContext &context, const char *kernel, idx_t rows) {
	auto decision = vibespatial::Decide(GetExecutionMode(context), vibespatial::FindOperation(kernel), rows,
	                                    GetGpuMinRows(context));
	return string(ToText(decision.selected)) + " (" + decision.reason + ")";
}

//===----------------------------------------------------------------------===//
// On the CPU
//===----------------------------------------------------------------------===//
BulkRows::BulkRows(ClientContext &context, const PhysicalBulk &op) : op(op), arguments_executor(context) {
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

DataChunk &BulkRows::Arguments(DataChunk &input) {
	arguments.Reset();
	arguments_executor.Execute(input, arguments);
	return arguments;
}

bool BulkRows::ArePoints(DataChunk &input) {
	auto &all = Arguments(input);
	vibe::Vec2 point;
	idx_t first = 0;
	for (idx_t i = 0; i < op.calls.size(); i++) {
		auto &children = ChildrenOf(op.calls[i]->Cast<BoundFunctionExpression>());
		for (idx_t side = 0; side < (op.tasks[i].IsOfPairs() ? 2 : 1); side++) {
			bool is_constant = IsConstantGeometry(*children[side]);
			if (is_constant && op.tasks[i].kind == BulkTask::RELATE) {
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

void BulkRows::Execute(idx_t call, DataChunk &input, Vector &result) {
	executors[call]->ExecuteExpression(input, result);
}

void BulkRows::Execute(DataChunk &input, DataChunk &output) {
	idx_t column = 0;
	for (auto below : op.columns) {
		output.data[column++].Reference(input.data[below]);
	}
	for (idx_t i = 0; i < op.calls.size(); i++) {
		Execute(i, input, output.data[column++]);
	}
	SetRowCount(output, input.size());
}

//===----------------------------------------------------------------------===//
// A batch
//===----------------------------------------------------------------------===//
BulkBatch::BulkBatch(ClientContext &context, const PhysicalBulk &op, DeviceBulk &device, BulkRows &rows)
    : context(context), op(op), device(device), rows(rows), calls(op.calls.size()), kept(context, op.buffered_columns),
      memory(context) {
}

BulkBatch::~BulkBatch() = default;

bool BulkBatch::IsFull() const {
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

idx_t BulkBatch::ChunkCount() const {
	return (count + STANDARD_VECTOR_SIZE - 1) / STANDARD_VECTOR_SIZE;
}

void BulkBatch::Clear() {
	count = 0;
	for (auto &call : calls) {
		call.left.Clear();
		call.right.Clear();
		call.limits.clear();
		call.is_null.clear();
		call.own_rows.clear();
		call.launched = false;
		call.geometries.clear();
		call.heap.Destroy();
	}
	kept.Clear();
	has_room = true;
}

void BulkBatch::Add(DataChunk &input) {
	auto &arguments = rows.Arguments(input);
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

void BulkBatch::CountMemory() {
	//! DuckDB is told of so much at a time
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

//! Memory that the device reads, where there is one
void BulkBatch::Prepare(idx_t number) {
	auto &call = calls[number];
	if (!call.device && device.IsActive()) {
		try {
			call.device = device.NewBulk(op.tasks[number]);
		} catch (const GpuError &error) {
			device.Fail(error);
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
				device.Fail(error);
				return nullptr;
			}
		};
	};
	call.left.Clear(memory_of(true));
	call.right.Clear(memory_of(false));
}

void BulkBatch::AddPairs(idx_t number, DataChunk &arguments, idx_t first) {
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
			call.own_rows.push_back(NumericCast<uint32_t>(count + i));
		}
	}
}

void BulkBatch::AddRows(idx_t number, Vector &argument, idx_t size) {
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
			call.own_rows.push_back(NumericCast<uint32_t>(count + i));
		}
	}
}

//! False for a geometry that the device shall not see: the function says what it is, or what is wrong with it
bool BulkBatch::AddGeometry(BulkSide &side, const string_t &wkb) {
	auto data = WkbData(wkb);
	vibe::Vec2 point;
	if (vibespatial::TryReadPoint(data, wkb.GetSize(), point)) {
		side.AddPoint(point);
		return true;
	}
	try {
		// POINT EMPTY among points makes no shapes of them
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

vibespatial::BulkInput BulkBatch::Input(idx_t number, idx_t first, idx_t size) const {
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

void BulkBatch::Launch() {
	for (idx_t i = 0; i < calls.size() && device.IsActive(); i++) {
		auto &call = calls[i];
		try {
			call.device->Begin(Input(i, 0, count));
			call.launched = true;
		} catch (const GpuMemoryError &) {
			// Finish() tries with less
		} catch (const GpuError &error) {
			device.Fail(error);
		}
	}
}

void BulkBatch::Finish() {
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
				device.Fail(error);
				RunOnCpu(i, 0, count);
			}
		} else {
			RunHalves(i, 0, count, 0);
		}
	}
	CountMemory();
}

void BulkBatch::RunHalves(idx_t number, idx_t first, idx_t size, idx_t depth) {
	bool is_active = device.IsActive();
	if (depth >= MAX_HALVES || size < 2 || !is_active) {
		RunOnCpu(number, first, size);
		if (is_active) {
			device.AddForLackOfMemory();
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
			device.Fail(error);
			RunOnCpu(number, begin, some);
		}
	}
}

void BulkBatch::Use(idx_t number, const vibespatial::BulkResult &result, idx_t first, idx_t size) {
	auto &call = calls[number];
	bool is_distance = op.tasks[number].kind == BulkTask::DISTANCE;
	vector<uint32_t> left_over;
	auto own = std::lower_bound(call.own_rows.begin(), call.own_rows.end(), first);
	for (idx_t i = 0; i < size; i++) {
		auto row = first + i;
		bool is_own = own != call.own_rows.end() && *own == row;
		own += is_own;
		if (call.is_null[row]) {
			continue;
		}
		if (is_own || result.results[i] == vibe::PAIR_OPEN) {
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
			left_over.push_back(NumericCast<uint32_t>(row)); // whose NaN it is the CPU knows
		}
	}
	device.AddDone(size, left_over.size(), result.times);
	RunOnCpu(number, left_over);
}

void BulkBatch::RunOnCpu(idx_t number, idx_t first, idx_t size) {
	vector<uint32_t> all(size);
	for (idx_t i = 0; i < size; i++) {
		all[i] = NumericCast<uint32_t>(first + i);
	}
	RunOnCpu(number, all);
}

void BulkBatch::RunOnCpu(idx_t number, const vector<uint32_t> &some) {
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
		rows.Execute(number, sliced, computed);
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

void BulkBatch::Emit(idx_t number, DataChunk &output) {
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
