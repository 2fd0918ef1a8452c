#include "duckdb/pinned/physical.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/transaction/duck_transaction.hpp"
#include "engine/dispatch/needs.hpp"
#include "engine/gpu/interface/join.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/shape/part_boxes.hpp"
#include "geometry/error.hpp"
#include "vibe/curve.h"
#include "vibe/wkb.h"

#include <numeric>

namespace duckdb {

using vibespatial::ExecutionMode;
using vibespatial::GpuError;

namespace {

//! Rows that a thread sends at once: they join others
constexpr idx_t ROWS_AT_ONCE = 32 * STANDARD_VECTOR_SIZE;
//! With shapes they are a segment of their own: enough to fill the device
constexpr idx_t SHAPES_AT_ONCE = 128 * STANDARD_VECTOR_SIZE;
constexpr idx_t SHAPE_BYTES_AT_ONCE = 16 << 20;

class PinState : public GlobalSinkState, private OperatorDispatch {
public:
	PinState(ClientContext &context, const PhysicalPin &op)
	    : OperatorDispatch(context, "VIBE_PIN"), op(op), dispatch(NewDispatch(vibespatial::Operation::PIN)) {
		auto &engine = RequireEngine();
		auto database = op.request.table.database.lock();
		auto watch = TransactionWatch::Get(context);
		uint64_t began_at = 0;
		if (!database || !watch->BeganAt(context, began_at)) {
			throw InvalidInputException(
			    "vibe_pin: the transaction began before vibespatial was loaded; COMMIT, and call it again");
		}
		auto &transaction = DuckTransaction::Get(context, *database);
		if (transaction.ChangesMade()) {
			throw InvalidInputException(
			    "vibe_pin: the transaction has changed database \"%s\"; COMMIT first, for others see nothing of "
			    "its changes",
			    NameOf(database->GetName()));
		}
		Try([&] { WaitForKernels(*dispatch, KernelNeeds(vibespatial::Operation::PIN)); });
		PinnedTables::Get(context)->FreeInvalid(); // before tables that queries can use are evicted
		vibespatial::PinnedLayout layout;
		for (auto &type : op.request.Types()) {
			layout.widths.push_back(PinnedWidth(type));
		}
		layout.rows = op.children[0].get().estimated_cardinality;
		for (auto &geometry : op.request.geometries) {
			auto table = make_shared_ptr<PinnedTable>();
			table->table = op.request.table;
			table->geometry = geometry;
			table->columns = op.request.columns;
			table->host_rows = make_uniq<HostRows>(op.request.Types());
			table->start_time = transaction.start_time;
			table->began_at = began_at;
			table->watch = watch;
			Try([&] { on_device.push_back(engine.NewPinned(layout)); });
			tables.push_back(std::move(table));
		}
	}

	//! Errors of the device as those of the query
	template <class WORK>
	void Try(const WORK &work) {
		try {
			work();
		} catch (const vibespatial::GpuMemoryError &error) {
			throw OutOfMemoryException("vibe_pin: %s does not fit on the GPU: %s", op.request.table.text, error.what());
		} catch (const GpuError &error) {
			throw IOException("vibe_pin: the GPU did not take %s: %s", op.request.table.text, error.what());
		} catch (const vibespatial::GeometryError &error) {
			throw InvalidInputException("vibe_pin: %s: %s", op.request.table.text, error.what());
		}
	}
	unique_ptr<ColumnDataCollection> NewRows(const vector<LogicalType> &types) {
		return HostRows::NewRows(context, types);
	}
	//! Runs work that needs so much memory beside DuckDB's own. Threads that cannot have it counted take turns.
	template <class WORK>
	void WithMemory(idx_t bytes, const WORK &work) {
		CountedMemory memory(context);
		unique_lock<mutex> turn(turn_lock, std::defer_lock);
		if (!memory.TryResize(bytes)) {
			turn.lock();
		}
		work();
	}
	//! Before the device makes shapes
	void WaitForShapes() {
		lock_guard<mutex> guard(shapes_lock);
		if (!waited_for_shapes) {
			const auto kinds = vibespatial::SideKinds::Shapes(false, false);
			WaitForKernels(*dispatch, vibespatial::BuildNeeds(kinds, false));
			waited_for_shapes = true;
		}
	}
	void Finish() {
		for (idx_t i = 0; i < tables.size(); i++) {
			auto &table = *tables[i];
			vibespatial::GpuTimes times;
			Try([&] {
				on_device[i]->Finish(
				    [this] {
					    if (context.IsInterrupted()) {
						    throw InterruptException();
					    }
				    },
				    times);
			});
			table.rows = on_device[i]->Rows();
			table.SetOnDevice(on_device[i]);
			dispatch->AddTimes(times);
		}
		dispatch->AddRows(tables[0]->rows);
		auto pinned = PinnedTables::Get(context);
		for (auto &table : tables) {
			pinned->Add(table);
		}
		dispatch->Finish();
	}

	const PhysicalPin &op;
	vector<shared_ptr<PinnedTable>> tables;
	std::vector<std::shared_ptr<vibespatial::GpuPinned>> on_device;

private:
	vibespatial::GpuEngine &RequireEngine() {
		if (mode == ExecutionMode::CPU) {
			throw InvalidInputException(
			    "vibe_pin: vibe_execution_mode is 'cpu', which never reads what is on the GPU; SET "
			    "vibe_execution_mode = 'auto' or 'gpu'");
		}
		string why_not;
		if (!WaitForGpu(context, GPU_PATIENCE_SECONDS, why_not)) {
			throw IOException(
			    "vibe_pin: there is no GPU to keep %s on: %s. FROM vibe_gpu_info() shows all that was looked for",
			    op.request.table.text, why_not);
		}
		vibespatial::Decision decision;
		decision.selected = ExecutionMode::GPU;
		decision.reason = "vibe_pin";
		decision.engine = vibespatial::GpuRuntime::Get().IfOpen();
		dispatch->SetDecision(decision);
		return dispatch->Engine();
	}

	unique_ptr<vibespatial::Dispatch> dispatch;
	mutex shapes_lock;
	bool waited_for_shapes = false;
	mutex turn_lock;
};

//! Geometries of a segment, in the order of a Hilbert curve: threads of a warp look at the same part of the other side then, and do the same
class ShapeBatch {
public:
	explicit ShapeBatch(ColumnDataCollection &from) : types(from.Types()) {
		for (idx_t i = 0; i < from.ChunkCount(); i++) {
			chunks.push_back(make_uniq<DataChunk>());
			auto &chunk = *chunks.back();
			chunk.Initialize(Allocator::DefaultAllocator(), types);
			from.FetchChunk(i, chunk);
			auto geometries = FlatVector::GetData<string_t>(chunk.data[0]);
			auto &validity = FlatVector::Validity(chunk.data[0]);
			for (idx_t row = 0; row < chunk.size(); row++) {
				Add(validity.RowIsValid(row) ? &geometries[row] : nullptr);
			}
		}
		Sort();
	}

	//! In order
	const vector<vibespatial::JoinRow> &Rows() const {
		return rows;
	}
	const vibe::Box &BoxOf(idx_t row) const {
		return boxes[order[row]];
	}
	//! Values of the same rows, each of so many bytes
	vector<uint8_t> InOrder(const uint8_t *values, idx_t width) const {
		vector<uint8_t> result(order.size() * width);
		for (idx_t i = 0; i < order.size(); i++) {
			std::memcpy(result.data() + i * width, values + order[i] * width, width);
		}
		return result;
	}
	void AppendTo(ColumnDataCollection &to) const {
		DataChunk chunk;
		chunk.Initialize(Allocator::DefaultAllocator(), types);
		for (idx_t begin = 0; begin < order.size(); begin += STANDARD_VECTOR_SIZE) {
			const auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, order.size() - begin);
			chunk.Reset();
			auto geometries = MutableData<string_t>(chunk.data[0]);
			for (idx_t i = 0; i < count; i++) {
				if (auto *geometry = strings[order[begin + i]]) {
					geometries[i] = *geometry;
				} else {
					MutableValidity(chunk.data[0]).SetInvalid(i);
				}
			}
			SetRowCount(chunk, count);
			to.Append(chunk);
		}
	}

private:
	//! Null: NULL
	void Add(const string_t *geometry) {
		strings.push_back(geometry);
		vibespatial::PartBoxes box {vibe::Box::Empty(), nullptr};
		if (geometry) {
			vibespatial::VisitWkb(const_data_ptr_cast(geometry->GetData()), geometry->GetSize(), box);
			extent.Add(box.whole);
		}
		boxes.push_back(box.whole);
	}
	void Sort() {
		const auto grid = vibe::CurveGrid<16>::Over(extent);
		vector<uint32_t> codes;
		codes.reserve(boxes.size());
		for (auto &box : boxes) {
			// Rows without a box meet nothing
			codes.push_back(box.min_x <= box.max_x ? vibe::HilbertCodeOf(grid, box)
			                                       : NumericLimits<uint32_t>::Maximum());
		}
		order.resize(boxes.size());
		std::iota(order.begin(), order.end(), 0);
		std::sort(order.begin(), order.end(),
		          [&](uint32_t l, uint32_t r) { return codes[l] != codes[r] ? codes[l] < codes[r] : l < r; });
		rows.reserve(order.size());
		for (auto row : order) {
			vibespatial::JoinRow wkb {nullptr, 0};
			if (auto *geometry = strings[row]) {
				wkb.data = const_data_ptr_cast(geometry->GetData());
				wkb.size = static_cast<uint32_t>(geometry->GetSize());
			}
			rows.push_back(wkb);
		}
	}

	const vector<LogicalType> types;
	vector<unique_ptr<DataChunk>> chunks;
	//! In the chunks, as they came
	vector<const string_t *> strings;
	vector<vibe::Box> boxes;
	vibe::Box extent = vibe::Box::Empty();
	vector<uint32_t> order;
	vector<vibespatial::JoinRow> rows;
};

//! The values of one geometry column that a thread has not sent yet: points, as long as all of them are, or WKB
class LocalGeometries {
public:
	//! Whether the rows of a chunk are points, NULL, or EMPTY points, which go with the points before them
	bool ArePoints(const PhysicalPin &op, Vector &column, idx_t rows, idx_t number) {
		chunk_points.clear();
		chunk_has_empty = chunk_has_more_ordinates = false;
		bool are_points = true;
		UnifiedVectorFormat format;
		ToUnified(column, rows, format);
		auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
		for (idx_t i = 0; i < rows; i++) {
			const auto at = format.sel->get_index(i);
			vibe::Vec2 point {vibe::NoCoordinate(), vibe::NoCoordinate()};
			if (!format.validity.RowIsValid(at)) {
				has_null = true;
			} else {
				auto data = const_data_ptr_cast(geometries[at].GetData());
				const auto size = geometries[at].GetSize();
				if (vibe::TryReadPoint(data, size, point)) {
					chunk_has_more_ordinates =
					    chunk_has_more_ordinates || size > vibe::WKB_HEADER_BYTES + sizeof(point);
				} else {
					are_points = are_points && IsPoint(data, size);
					chunk_has_empty = IsEmpty(op, data, size, number) || chunk_has_empty;
					point = vibe::Vec2 {vibe::NoCoordinate(), vibe::NoCoordinate()};
				}
			}
			chunk_points.push_back(point);
		}
		return are_points;
	}
	//! Whether rows like these may follow those that are here
	bool MayAdd(bool are_points) const {
		return are_points || points.empty();
	}
	//! Adds the rows that ArePoints() has seen
	void Add(PinState &global, Vector &column, idx_t rows, bool are_points) {
		has_empty = has_empty || chunk_has_empty;
		if (are_points && !shapes) {
			points.insert(points.end(), chunk_points.begin(), chunk_points.end());
			has_empty_points = has_empty_points || chunk_has_empty;
			has_more_ordinates = has_more_ordinates || chunk_has_more_ordinates;
			return;
		}
		has_shapes = true;
		const vector<LogicalType> types {column.GetType()};
		if (!shapes) {
			shapes = global.NewRows(types);
		}
		DataChunk chunk;
		chunk.InitializeEmpty(types);
		chunk.data[0].Reference(column);
		SetRowCount(chunk, rows);
		shapes->Append(chunk);
	}
	bool HasShapes() const {
		return shapes != nullptr;
	}
	idx_t ShapeBytes() const {
		return shapes ? shapes->SizeInBytes() : 0;
	}

	//! The rows go to the device, and shapes to the host's copy. The input has the columns beside them.
	void Send(PinState &global, idx_t number, const vibespatial::PinnedInput &columns) {
		if (shapes) {
			// The WKB once more, boxes and numbers of rows, and what is packed of large ones
			global.WithMemory(3 * ShapeBytes(), [&] { SendShapes(global, number, columns); });
			return;
		}
		auto input = columns;
		input.points = points.data();
		global.Try([&] { global.on_device[number]->Add(input); });
		points.clear();
	}

	bool has_null = false;
	bool has_empty = false;
	bool has_empty_points = false;
	bool has_more_ordinates = false;
	bool has_shapes = false;

private:
	void SendShapes(PinState &global, idx_t number, const vibespatial::PinnedInput &columns) {
		const ShapeBatch batch(*shapes);
		auto sorted = global.NewRows(shapes->Types());
		shapes.reset();
		batch.AppendTo(*sorted);
		vibespatial::PinnedInput input;
		input.count = columns.count;
		input.wkb = batch.Rows().data();
		input.pack = [&](uint32_t row, vibespatial::PackedShapes &packed) {
			packed.AddWkb(batch.Rows()[row], batch.BoxOf(row));
		};
		vector<vector<uint8_t>> values;
		const auto types = global.op.request.Types();
		for (idx_t i = 0; i < columns.columns.size(); i++) {
			const auto &column = columns.columns[i];
			const auto width = PinnedWidth(types[i]);
			values.push_back(batch.InOrder(column.values, width));
			values.push_back(column.nulls ? batch.InOrder(column.nulls, 1) : vector<uint8_t>());
			input.columns.push_back({values[2 * i].data(), column.nulls ? values[2 * i + 1].data() : nullptr});
		}
		size_t segment = 0;
		global.Try([&] {
			global.WaitForShapes();
			segment = global.on_device[number]->Add(input);
		});
		global.tables[number]->host_rows->AddShapes(segment, std::move(sorted));
	}
	static bool IsPoint(const_data_ptr_t data, idx_t size) {
		return size >= vibe::WKB_HEADER_BYTES && vibe::WkbTypeOf(vibe::LoadCount(data + 1)) == vibe::WKB_POINT;
	}
	//! Throws where a coordinate is no finite number
	static bool IsEmpty(const PhysicalPin &op, const_data_ptr_t data, idx_t size, idx_t number) {
		vibespatial::PartBoxes boxes {vibe::Box::Empty(), nullptr};
		vibespatial::VisitWkb(data, size, boxes);
		if (!boxes.finite) {
			throw InvalidInputException(
			    "vibe_pin: column \"%s\" of %s has a geometry whose coordinates are no finite numbers",
			    op.request.geometries[number], op.request.table.text);
		}
		return boxes.vertices == 0;
	}

	vector<vibe::Vec2> points;
	unique_ptr<ColumnDataCollection> shapes;
	//! Of the last chunk
	vector<vibe::Vec2> chunk_points;
	bool chunk_has_empty = false;
	bool chunk_has_more_ordinates = false;
};

//! A thread's rows until they are sent
class LocalPinState : public LocalSinkState {
public:
	explicit LocalPinState(const PhysicalPin &op)
	    : values(op.request.Types().size()), nulls(values.size()), geometries(op.request.geometries.size()),
	      has_order(op.request.has_places) {
	}

	void Add(const PhysicalPin &op, DataChunk &chunk, PinState &global) {
		vector<bool> are_points;
		bool may_add = true;
		for (idx_t i = 0; i < geometries.size(); i++) {
			are_points.push_back(geometries[i].ArePoints(op, chunk.data[op.columns[i]], chunk.size(), i));
			may_add = may_add && geometries[i].MayAdd(are_points[i]);
		}
		if (!may_add) {
			Send(global);
		}
		for (idx_t i = 0; i < geometries.size(); i++) {
			geometries[i].Add(global, chunk.data[op.columns[i]], chunk.size(), are_points[i]);
		}
		for (idx_t i = 0; i < values.size(); i++) {
			AppendPinned(chunk.data[op.columns[geometries.size() + i]], chunk.size(), values[i], nulls[i]);
		}
		count += chunk.size();
		if (IsFull()) {
			Send(global);
		}
	}

	void Send(PinState &global) {
		if (count == 0) {
			return;
		}
		for (idx_t i = 0; i < geometries.size(); i++) {
			vibespatial::PinnedInput input;
			input.count = count;
			for (idx_t column = 0; column < values.size(); column++) {
				auto &flags = nulls[column];
				const bool has_nulls = std::find(flags.begin(), flags.end(), 1) != flags.end();
				input.columns.push_back({values[column].data(), has_nulls ? flags.data() : nullptr});
			}
			geometries[i].Send(global, i, input);
		}
		has_order = has_order && std::find(nulls.back().begin(), nulls.back().end(), 1) == nulls.back().end();
		for (idx_t column = 0; column < values.size(); column++) {
			values[column].clear();
			nulls[column].clear();
		}
		count = 0;
	}

	vector<vector<uint8_t>> values;
	vector<vector<uint8_t>> nulls;
	vector<LocalGeometries> geometries;
	idx_t count = 0;
	//! The places of all rows are known
	bool has_order;

private:
	bool IsFull() const {
		bool has_shapes = false;
		for (auto &column : geometries) {
			if (column.ShapeBytes() >= SHAPE_BYTES_AT_ONCE) {
				return true;
			}
			has_shapes = has_shapes || column.HasShapes();
		}
		return count >= (has_shapes ? SHAPES_AT_ONCE : ROWS_AT_ONCE);
	}
};

class PinSource : public GlobalSourceState {
public:
	idx_t next = 0;
};

} // namespace

PhysicalPin::PhysicalPin(PhysicalPlan &plan, LogicalPin &pin, PhysicalOperator &child, vector<idx_t> columns_p)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, pin.types, 1), request(pin.request),
      columns(std::move(columns_p)) {
	children.push_back(child);
}

InsertionOrderPreservingMap<string> PhysicalPin::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Table"] = request.table.text;
	return result;
}

unique_ptr<GlobalSinkState> PhysicalPin::GetGlobalSinkState(ClientContext &context) const {
	return make_uniq<PinState>(context, *this);
}

unique_ptr<LocalSinkState> PhysicalPin::GetLocalSinkState(ExecutionContext &) const {
	return make_uniq<LocalPinState>(*this);
}

SinkResultType PhysicalPin::Sink(ExecutionContext &, DataChunk &chunk, OperatorSinkInput &input) const {
	auto &local = input.local_state.Cast<LocalPinState>();
	auto &global = input.global_state.Cast<PinState>();
	global.Try([&] { local.Add(*this, chunk, global); });
	return SinkResultType::NEED_MORE_INPUT;
}

SinkCombineResultType PhysicalPin::Combine(ExecutionContext &, OperatorSinkCombineInput &input) const {
	auto &global = input.global_state.Cast<PinState>();
	auto &local = input.local_state.Cast<LocalPinState>();
	local.Send(global);
	auto guard = LockState(global);
	for (idx_t i = 0; i < local.geometries.size(); i++) {
		auto &from = local.geometries[i];
		auto &table = *global.tables[i];
		table.has_null = table.has_null || from.has_null;
		table.has_order = table.has_order && local.has_order;
		table.has_empty = table.has_empty || from.has_empty;
		table.has_empty_points = table.has_empty_points || from.has_empty_points;
		table.has_more_ordinates = table.has_more_ordinates || from.has_more_ordinates;
		table.has_shapes = table.has_shapes || from.has_shapes;
	}
	return SinkCombineResultType::FINISHED;
}

SinkFinalizeType PhysicalPin::Finalize(Pipeline &, Event &, ClientContext &, OperatorSinkFinalizeInput &input) const {
	input.global_state.Cast<PinState>().Finish();
	return SinkFinalizeType::READY;
}

unique_ptr<GlobalSourceState> PhysicalPin::GetGlobalSourceState(ClientContext &) const {
	return make_uniq<PinSource>();
}

SourceResultType PhysicalPin::GetDataInternal(ExecutionContext &, DataChunk &chunk, OperatorSourceInput &input) const {
	auto &source = input.global_state.Cast<PinSource>();
	auto &state = sink_state->Cast<PinState>();
	auto &tables = state.tables;
	idx_t count = 0;
	for (; source.next < tables.size() && count < STANDARD_VECTOR_SIZE; source.next++, count++) {
		auto &table = *tables[source.next];
		vector<Value> names;
		for (auto &column : table.columns) {
			names.emplace_back(column.name);
		}
		chunk.SetValue(0, count, Value(table.table.text));
		chunk.SetValue(1, count, Value(table.geometry));
		chunk.SetValue(2, count, Value::LIST(LogicalType::VARCHAR, std::move(names)));
		chunk.SetValue(3, count, Value::UBIGINT(table.rows));
		chunk.SetValue(4, count, Value::UBIGINT(state.on_device[source.next]->Bytes()));
	}
	SetRowCount(chunk, count);
	return source.next < tables.size() ? SourceResultType::HAVE_MORE_OUTPUT : SourceResultType::FINISHED;
}

} // namespace duckdb
