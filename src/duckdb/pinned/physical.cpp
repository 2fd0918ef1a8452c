#include "duckdb/pinned/physical.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/transaction/duck_transaction.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "vibe/wkb.h"

#include <cmath>

namespace duckdb {

using vibespatial::ExecutionMode;
using vibespatial::GpuError;

namespace {

//! Rows that a thread sends at once
constexpr idx_t ROWS_AT_ONCE = 32 * STANDARD_VECTOR_SIZE;

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
		vibespatial::PinnedLayout layout;
		for (auto &column : op.request.columns) {
			layout.widths.push_back(PinnedWidth(column.type));
		}
		layout.rows = op.children[0].get().estimated_cardinality;
		for (auto &geometry : op.request.geometries) {
			auto table = make_shared_ptr<PinnedTable>();
			table->table = op.request.table;
			table->geometry = geometry;
			table->columns = op.request.columns;
			vector<LogicalType> types;
			for (auto &column : table->columns) {
				types.push_back(column.type);
			}
			table->host_rows = make_uniq<HostRows>(std::move(types));
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
};

//! A thread's rows until they are sent
class LocalPinState : public LocalSinkState {
public:
	explicit LocalPinState(const PhysicalPin &op)
	    : values(op.request.columns.size()), nulls(op.request.columns.size()), points(op.request.geometries.size()),
	      has_empty(op.request.geometries.size()), has_more_ordinates(op.request.geometries.size()) {
	}

	void Add(const PhysicalPin &op, DataChunk &chunk) {
		for (idx_t i = 0; i < points.size(); i++) {
			AddPoints(op, chunk.data[op.columns[i]], chunk.size(), i);
		}
		for (idx_t i = 0; i < values.size(); i++) {
			AppendPinned(chunk.data[op.columns[points.size() + i]], chunk.size(), values[i], nulls[i]);
		}
		count += chunk.size();
	}

	void Send(PinState &global) {
		if (count == 0) {
			return;
		}
		for (idx_t i = 0; i < points.size(); i++) {
			vibespatial::PinnedInput input;
			input.count = count;
			input.points = points[i].data();
			for (idx_t column = 0; column < values.size(); column++) {
				auto &flags = nulls[column];
				const bool has_nulls = std::find(flags.begin(), flags.end(), 1) != flags.end();
				input.columns.push_back({values[column].data(), has_nulls ? flags.data() : nullptr});
			}
			global.Try([&] { global.on_device[i]->Add(input); });
			points[i].clear();
		}
		for (idx_t column = 0; column < values.size(); column++) {
			values[column].clear();
			nulls[column].clear();
		}
		count = 0;
	}

	vector<vector<uint8_t>> values;
	vector<vector<uint8_t>> nulls;
	vector<vector<vibe::Vec2>> points;
	vector<bool> has_empty;
	vector<bool> has_more_ordinates;
	idx_t count = 0;

private:
	void AddPoints(const PhysicalPin &op, Vector &column, idx_t rows, idx_t number) {
		UnifiedVectorFormat format;
		column.ToUnifiedFormat(rows, format);
		auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
		for (idx_t i = 0; i < rows; i++) {
			auto at = format.sel->get_index(i);
			vibe::Vec2 point {vibe::NoCoordinate(), vibe::NoCoordinate()};
			if (format.validity.RowIsValid(at)) {
				auto data = const_data_ptr_cast(geometries[at].GetData());
				auto size = geometries[at].GetSize();
				if (!vibe::TryReadPoint(data, size, point)) {
					RequireEmpty(op, data, size, number);
					point = vibe::Vec2 {vibe::NoCoordinate(), vibe::NoCoordinate()};
					has_empty[number] = true;
				} else if (size > vibe::WKB_HEADER_BYTES + sizeof(point)) {
					has_more_ordinates[number] = true;
				}
			}
			points[number].push_back(point);
		}
	}

	static void RequireEmpty(const PhysicalPin &op, const_data_ptr_t data, idx_t size, idx_t number) {
		auto type = size >= vibe::WKB_HEADER_BYTES ? vibe::WkbTypeOf(vibe::LoadCount(data + 1)) : 0;
		if (type != vibe::WKB_POINT) {
			throw InvalidInputException(
			    "vibe_pin: column \"%s\" of %s has other geometries than points, which is all that can be "
			    "pinned",
			    op.request.geometries[number], op.request.table.text);
		}
		// A header and two ordinates at least
		if (size < vibe::WKB_HEADER_BYTES + 16 || !std::isnan(vibe::LoadDouble(data + vibe::WKB_HEADER_BYTES)) ||
		    !std::isnan(vibe::LoadDouble(data + vibe::WKB_HEADER_BYTES + 8))) {
			throw InvalidInputException(
			    "vibe_pin: column \"%s\" of %s has a point whose coordinates are no finite numbers",
			    op.request.geometries[number], op.request.table.text);
		}
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
	local.Add(*this, chunk);
	if (local.count >= ROWS_AT_ONCE) {
		local.Send(input.global_state.Cast<PinState>());
	}
	return SinkResultType::NEED_MORE_INPUT;
}

SinkCombineResultType PhysicalPin::Combine(ExecutionContext &, OperatorSinkCombineInput &input) const {
	auto &global = input.global_state.Cast<PinState>();
	auto &local = input.local_state.Cast<LocalPinState>();
	local.Send(global);
	auto guard = LockState(global);
	for (idx_t i = 0; i < local.has_empty.size(); i++) {
		auto &table = *global.tables[i];
		table.has_empty = table.has_empty || local.has_empty[i];
		table.has_more_ordinates = table.has_more_ordinates || local.has_more_ordinates[i];
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
