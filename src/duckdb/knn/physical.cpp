#include "duckdb/knn/physical.hpp"

#include "duckdb/common/types/row/tuple_data_collection.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/knn/left_tile.hpp"
#include "duckdb/knn/parts.hpp"
#include "duckdb/knn/pinned_right.hpp"
#include "duckdb/operators/row_geometry.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "engine/join/knn.hpp"
#include "engine/shape/part_boxes.hpp"
#include "engine/common/shared_work.hpp"

#include <array>
#include <chrono>

namespace duckdb {

using vibespatial::JoinRow;
using vibespatial::KnnIndex;
using vibespatial::KnnSearch;
using vibespatial::Neighbour;

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//
PhysicalKnn::PhysicalKnn(PhysicalPlan &plan, LogicalOperator &knn, KnnRequest request, string planned_engine,
                         PhysicalOperator &left, PhysicalOperator &right, bool deterministic,
                         unique_ptr<Expression> residual)
    : ReportingOperator(plan, PhysicalOperatorType::EXTENSION, knn.types, knn.estimated_cardinality),
      request(std::move(request)), planned_engine(std::move(planned_engine)), deterministic(deterministic),
      residual(std::move(residual)), layout(make_shared_ptr<TupleDataLayout>()) {
	children.push_back(left);
	children.push_back(right);
	layout->Initialize(right.types, TupleDataValidityType::CAN_HAVE_NULL_VALUES);
}

string PhysicalKnn::GetName() const {
	return "VIBE_KNN";
}

InsertionOrderPreservingMap<string> PhysicalKnn::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	if (!request.distance.empty()) {
		result["Distance"] = request.distance;
	}
	result["Neighbours"] = to_string(request.k);
	if (!Value::IsFinite(request.max_distance)) {
		result["Max Distance"] = "none";
	} else {
		result["Max Distance"] = Value::DOUBLE(request.max_distance).ToString();
	}
	if (request.outer) {
		result["Join Type"] = "LEFT";
	}
	if (residual) {
		result["Residual"] = residual->ToString();
	}
	result["Index"] = "tree of boxes";
	result["Engine"] = planned_engine;
	SetEstimatedCardinality(result, estimated_cardinality);
	return result;
}

vector<const_reference<PhysicalOperator>> PhysicalKnn::GetSources() const {
	return {*this};
}

void PhysicalKnn::BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) {
	if (meta_pipeline.HasRecursiveCTE()) {
		throw NotImplementedException("%s: not inside of a recursive CTE", request.function);
	}
	meta_pipeline.GetState().SetPipelineSource(current, *this);
	for (auto &child : children) {
		child.get().sink_state.reset();
		auto &pipeline = meta_pipeline.CreateChildMetaPipeline(current, child);
		pipeline.Build(child.get().children[0]);
	}
}

//===----------------------------------------------------------------------===//
// Source
//===----------------------------------------------------------------------===//
namespace {

//! The right side: its index, and its rows where something of them comes out
class KnnRight {
public:
	KnnRight(ClientContext &context, const PhysicalKnn &op) : context(context), op(op), memory(context) {
	}

	void Build(vibespatial::Parallel &parallel) {
		auto begin = std::chrono::steady_clock::now();
		auto &collected = op.Right().Rows();
		auto count = collected.Count();
		if (count >= NumericLimits<uint32_t>::Maximum()) {
			throw OutOfRangeException("%s: at most 4 billion rows can be searched", op.request.function);
		}
		memory.Resize(KnnIndex::EstimateMemory(count) + count * sizeof(data_ptr_t));
		Load(parallel, collected);
		op.Right().Clear();
		vibespatial::JoinRows geometries(count);
		parallel.For((count + ROWS_PER_STEP - 1) / ROWS_PER_STEP, [&](size_t step) {
			for (idx_t i = step * ROWS_PER_STEP; i < MinValue<idx_t>(count, (step + 1) * ROWS_PER_STEP); i++) {
				geometries[i] = RowGeometry(*op.layout, 0, locations[i]);
			}
		});
		index = make_uniq<KnnIndex>(std::move(geometries));
		index->Build(parallel);
		if (index->AllPoints() && op.layout->ColumnCount() == 1) {
			rows.clear();
			locations = vector<data_ptr_t>();
		}
		CountMemory();
		seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
	}

	//! Counts memory that grew while searching
	void CountMemory() {
		auto bytes = index->MemoryUsage() + locations.capacity() * sizeof(data_ptr_t);
		if (bytes == memory.Size()) {
			return;
		}
		lock_guard<mutex> guard(memory_lock);
		memory.Resize(bytes);
	}

	//! Any collection can gather rows of all
	const TupleDataCollection &Rows() const {
		return *rows[0];
	}

	vector<data_ptr_t> locations;
	unique_ptr<KnnIndex> index;
	double seconds = 0;

private:
	static constexpr idx_t ROWS_PER_STEP = 32768;

	//! Moves the rows to where each can be found
	void Load(vibespatial::Parallel &parallel, const ColumnDataCollection &collected) {
		auto poll = CancelPoll(context);
		locations.resize(collected.Count());
		rows.resize(parallel.Threads());
		ColumnDataParallelScanState scan;
		collected.InitializeScan(scan);
		parallel.For(rows.size(), [&](size_t step) {
			rows[step] = make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION);
			TupleDataAppendState append;
			rows[step]->InitializeAppend(append, TupleDataPinProperties::KEEP_EVERYTHING_PINNED);
			ColumnDataLocalScanState local;
			DataChunk chunk;
			collected.InitializeScanChunk(chunk);
			while (collected.Scan(scan, local, chunk)) {
				poll();
				rows[step]->Append(append, chunk);
				auto pointers = FlatVector::GetData<data_ptr_t>(append.chunk_state.row_locations);
				std::copy_n(pointers, chunk.size(), locations.begin() + NumericCast<int64_t>(local.current_row_index));
			}
			rows[step]->FinalizePinState(append.pin_state);
		});
	}

	ClientContext &context;
	const PhysicalKnn &op;
	vector<unique_ptr<TupleDataCollection>> rows;
	CountedMemory memory;
	mutex memory_lock;
};

class KnnGlobalSource : public GlobalSourceState {
public:
	KnnGlobalSource(ClientContext &context, const PhysicalKnn &op)
	    : op(op), elsewhere(shared_ptr_cast<RowsElsewhere, PinnedRight>(op.Right().Elsewhere())), right(context, op),
	      dispatch(context, op.request.k, op.request.max_distance, op.request.kernels),
	      parts(context, dispatch, op.request.k), build(ThreadCount(context), CancelPoll(context)) {
		// Many rows at once for a device, but two tiles for each thread, and results that stay small
		constexpr idx_t LEAST = 2, MOST = 16, MOST_BYTES = idx_t(8) << 20;
		auto chunks = op.Left().Rows().ChunkCount() / (2 * ThreadCount(context)) + 1;
		auto bytes = BytesOnDevice(STANDARD_VECTOR_SIZE);
		device_chunks = MinValue<idx_t>(MaxValue<idx_t>(1, MOST_BYTES / bytes),
		                                MaxValue<idx_t>(LEAST, MinValue<idx_t>(MOST, chunks)));
		op.Left().Rows().InitializeScan(scan);
	}

	idx_t MaxThreads() override {
		// Rows of the right side that are worth a thread while the index is built
		constexpr idx_t ROWS_TO_INDEX = 65536;
		return MaxValue<idx_t>(
		    1, MaxValue<idx_t>(op.Left().Rows().ChunkCount(), op.Right().Rows().Count() / ROWS_TO_INDEX));
	}

	void Build() {
		build.Run([&](vibespatial::Parallel &parallel) {
			unique_ptr<LeftChunk> first;
			auto first_rows = LeftTile::FirstRows(op.Left().Rows(), first);
			if (auto pinned = Pinned()) {
				dispatch.DecidePinned(*pinned, op.Left().Rows().Count(), first_rows);
				return;
			}
			auto begin = OperatorDispatch::Now();
			right.Build(parallel);
			dispatch.AddStep("index", "right side", begin, OperatorDispatch::Now());
			auto &rows = op.Left().Rows();
			if (elsewhere) {
				dispatch.AddNote(elsewhere->Note());
			}
			dispatch.Decide(*right.index, rows.Count(), first_rows, parallel);
			if (dispatch.PartCount() > 1) {
				passes = dispatch.PartCount() + 1;
				parts.Search(*right.index, rows, device_chunks, TileBytes(), parallel);
			}
		});
	}
	//! Chunks of the left side that a thread takes at a time
	idx_t TileChunks() const {
		return dispatch.OnGpu() ? device_chunks : 1;
	}
	//! Of the two tiles of a thread
	idx_t TileBytes() const {
		return 2 * (BytesOnDevice(device_chunks * STANDARD_VECTOR_SIZE) +
		            (dispatch.LeftHasShapes() ? LeftTile::MOST_BYTES : 0));
	}
	double Progress() const {
		return static_cast<double>(parts.RowsDone() + rows_done) / static_cast<double>(passes);
	}
	//! What a device is given for so many rows, and what it finds
	idx_t BytesOnDevice(idx_t rows) const {
		const auto k = MinValue<idx_t>(op.request.k, vibespatial::GpuSearch::MAX_K);
		const auto column_bytes = Pinned() ? elsewhere->ColumnBytes() : 0;
		return rows * (sizeof(vibe::Vec2) + sizeof(uint32_t) + k * (sizeof(uint32_t) + sizeof(double) + column_bytes));
	}
	//! The right side, where it is not collected
	optional_ptr<PinnedRight> Pinned() const {
		return elsewhere && elsewhere->HasRows() ? elsewhere.get() : nullptr;
	}

	const PhysicalKnn &op;
	//! The right side, or why it is collected although it is pinned; null where it is not pinned
	const shared_ptr<PinnedRight> elsewhere;
	KnnRight right;
	//! After the index, which it may use until the end
	KnnDispatch dispatch;
	KnnParts parts;
	vibespatial::SharedWork build;
	ColumnDataParallelScanState scan;
	idx_t device_chunks;
	//! Over the left side
	std::atomic<idx_t> passes {1};
	std::atomic<idx_t> rows_done {0};
};

class KnnLocalSource : public LocalSourceState {
public:
	KnnLocalSource(ExecutionContext &context, const PhysicalKnn &op)
	    : op(op), memory(context.client), locations(LogicalType::POINTER), left_rows(STANDARD_VECTOR_SIZE),
	      matched_rows(STANDARD_VECTOR_SIZE), passed_rows(STANDARD_VECTOR_SIZE), kept_rows(STANDARD_VECTOR_SIZE) {
		vector<LogicalType> types;
		for (column_t column = 1; column < op.layout->ColumnCount(); column++) {
			columns.push_back(column);
			types.push_back(op.layout->GetTypes()[column]);
		}
		if (!columns.empty()) {
			TupleDataCollection::InitializeChunkState(gather_state, op.layout->GetTypes(), columns);
			gathered.Initialize(context.client, types);
		}
		if (op.residual) {
			residual = make_uniq<ExpressionExecutor>(context.client, *op.residual);
		}
	}

	//! When the index is there
	void Start(ClientContext &context, KnnGlobalSource &global) {
		if (is_started) {
			return;
		}
		is_started = true;
		pinned = global.Pinned();
		parts = &global.parts;
		if (pinned) {
			values = make_uniq<PinnedValues>(*pinned);
		} else {
			index = global.right.index.get();
		}
		memory.Resize(SearchBytes() + (global.dispatch.OnGpu() ? global.TileBytes() : 0));
		if (index) {
			StartSearch(context);
		}
	}

	//! The next chunks of the left side. A device works on those after them meanwhile.
	bool Fetch(KnnGlobalSource &global) {
		auto &rows = op.Left().Rows();
		auto &done = tiles[current];
		global.rows_done += done.RowCount();
		global.dispatch.AddCpuRows(cpu_rows);
		cpu_rows = 0;
		done.Clear();
		auto load = [&](LeftTile &tile) {
			if (tile.Size() == 0) {
				tile.Load(rows, global.scan, global.TileChunks(), global.dispatch);
			}
		};
		current = 1 - current;
		load(tiles[current]);
		if (global.dispatch.OnGpu()) {
			load(done);
		}
		tiles[current].Finish(global.dispatch);
		at = next = 0;
		return tiles[current].Size() > 0;
	}

	//! Neighbours of rows of one chunk, as many as fit into the result
	void Emit(ClientContext &context, KnnRight &right, DataChunk &result) {
		auto left_row = MutableData<int64_t>(result.data[0]);
		auto right_row = MutableData<int64_t>(result.data[1]);
		auto distance = MutableData<double>(result.data[2]);
		auto rank = MutableData<int64_t>(result.data[3]);
		auto location = MutableData<data_ptr_t>(locations);
		auto &left = tiles[current].Chunk(at);
		first_row = left.FirstRow();
		idx_t count = 0;
		idx_t matched = 0;
		if (pinned) {
			values->Clear();
		}
		while (count < STANDARD_VECTOR_SIZE && next < left.chunk.size()) {
			if (!neighbours) {
				neighbours = &Neighbours(context, left, next);
				position = 0;
				found = neighbours->size();
				AddOthers(left, next);
			}
			if (neighbours->empty() && op.request.outer) {
				left_row[count] = NumericCast<int64_t>(first_row + next);
				for (idx_t own = 1; own < PhysicalKnn::OWN_COLUMNS; own++) {
					FlatVector::SetNull(result.data[own], count, true);
				}
				left_rows.set_index(count++, next);
				if (pinned) {
					values->AddNone();
				}
			}
			for (; count < STANDARD_VECTOR_SIZE && position < neighbours->size(); count++, position++) {
				auto &neighbour = (*neighbours)[position];
				left_row[count] = NumericCast<int64_t>(first_row + next);
				right_row[count] = neighbour.row;
				distance[count] = neighbour.distance;
				if (position >= found) {
					FlatVector::SetNull(result.data[2], count, true);
				}
				rank[count] = NumericCast<int64_t>(position + 1);
				left_rows.set_index(count, next);
				if (pinned && is_from_tile) {
					values->AddFound(tiles[current].Found(), left.queries[next], position);
				} else if (pinned) {
					values->AddOnHost(host->numbers[neighbour.row]);
				} else if (!columns.empty()) {
					location[count] = right.locations[neighbour.row];
					matched_rows.set_index(matched++, count);
				}
			}
			if (position == neighbours->size()) {
				neighbours = nullptr;
				next++;
			}
		}
		auto column = PhysicalKnn::OWN_COLUMNS;
		for (idx_t i = 1; i < left.chunk.ColumnCount(); i++) {
			result.data[column++].Slice(left.chunk.data[i], left_rows, count);
		}
		if (pinned) {
			values->Write(context, result, column);
		} else if (!columns.empty() && count > 0) {
			gathered.Reset();
			TupleDataCollection::ResetCachedCastVectors(gather_state, columns);
			if (matched > 0) {
				right.Rows().Gather(locations, matched_rows, matched, columns, gathered, matched_rows,
				                    gather_state.cached_cast_vectors);
			}
			SetRowCount(gathered, count);
			idx_t next_match = 0;
			for (idx_t row = 0; matched < count && row < count; row++) {
				if (next_match < matched && matched_rows.get_index(next_match) == row) {
					next_match++;
					continue;
				}
				for (auto &values : gathered.data) {
					FlatVector::SetNull(values, row, true);
				}
			}
			for (auto &values : gathered.data) {
				result.data[column++].Reference(values);
			}
		}
		SetRowCount(result, count);
		if (next == left.chunk.size()) {
			next = 0;
			at++;
		}
	}

	//! Keeps the neighbours that pass the residual. A left row that none of them is left for comes out once, as one without neighbours.
	void FilterOuter(DataChunk &result) {
		const auto count = result.size();
		if (!residual || count == 0) {
			return;
		}
		const auto passed = residual->SelectExpression(result, passed_rows);
		auto left_row = FlatVector::GetData<int64_t>(result.data[0]);
		const auto right_columns = result.ColumnCount() - columns.size();
		idx_t next_passed = 0;
		idx_t kept = 0;
		for (idx_t row = 0; row < count; row++) {
			bool passes = next_passed < passed && passed_rows.get_index(next_passed) == row;
			next_passed += passes;
			passes = passes && !FlatVector::IsNull(result.data[RANK], row);
			// The next neighbours of the last row may come with the next chunk
			const bool is_last = row + 1 == count ? !neighbours : left_row[row + 1] != left_row[row];
			has_passed = has_passed || passes;
			if (passes || (is_last && !has_passed)) {
				kept_rows.set_index(kept++, row);
			}
			if (is_last && !has_passed) {
				for (idx_t column = 1; column < result.ColumnCount(); column++) {
					if (column < PhysicalKnn::OWN_COLUMNS || column >= right_columns) {
						FlatVector::SetNull(result.data[column], row, true);
					}
				}
			}
			has_passed = has_passed && !is_last;
		}
		if (kept < count) {
			result.Slice(kept_rows, kept);
		}
	}

	//! Of what was emitted last
	idx_t FirstRow() const {
		return first_row;
	}
	bool Done() const {
		return at == tiles[current].Size();
	}

private:
	//! Among the columns that come out
	static constexpr idx_t RANK = 3;

	//! What the search on the host allocates
	idx_t SearchBytes() const {
		if (!index) {
			return 0;
		}
		auto bytes = KnnSearch::EstimateMemory(*index, op.request.k);
		if (op.request.empty_is_near || op.request.null_is_last) {
			bytes += MinValue<idx_t>(op.request.k, index->RowCount()) * sizeof(Neighbour);
		}
		return bytes;
	}
	void StartSearch(ClientContext &context) {
		search = make_uniq<KnnSearch>(*index, op.request.k, op.request.max_distance, CancelPoll(context));
	}
	//! Brings pinned points, which the device does not search among for this row. NULL and EMPTY have no neighbours, unless all rows are
	//! as near to them.
	bool BringHost(ClientContext &context, const JoinRow &geometry) {
		vibespatial::PartBoxes boxes {vibe::Box::Empty(), nullptr};
		if (geometry.data) {
			vibespatial::VisitWkb(geometry.data, geometry.size, boxes);
		}
		left_is_empty = geometry.data && boxes.finite && boxes.vertices == 0;
		if (!geometry.data ? !op.request.null_is_last : left_is_empty && !op.request.empty_is_near) {
			return false;
		}
		if (host) {
			return true;
		}
		try {
			host = pinned->Host(context);
		} catch (const vibespatial::GpuError &error) {
			throw IOException(
			    "the GPU has failed, and lost the pinned rows: %s. Run the query again: it reads the table",
			    error.what());
		}
		index = host->index.get();
		memory.Resize(memory.Size() + SearchBytes());
		StartSearch(context);
		return true;
	}

	const std::vector<Neighbour> &Neighbours(ClientContext &context, const LeftChunk &left, idx_t row) {
		left_is_empty = false;
		is_from_tile = tiles[current].Neighbours(left, row, unpacked);
		if (is_from_tile || parts->Find(left.FirstRow() + row, unpacked)) {
			return unpacked;
		}
		auto geometry = left.GeometryOf(row);
		if (pinned && !BringHost(context, geometry)) {
			unpacked.clear();
			return unpacked;
		}
		cpu_rows += geometry.data ? 1 : 0;
		auto &result = search->Find(geometry);
		left_is_empty = search->WasEmpty();
		return result;
	}

	//! Adds the rows that the search does not know of to the neighbours that it found
	void AddOthers(const LeftChunk &left, idx_t row) {
		auto &request = op.request;
		if (!index || (pinned && is_from_tile)) {
			return;
		}
		auto &null_rows = index->NullRows();
		auto &empty_rows = index->EmptyRows();
		bool add_empty = request.empty_is_near && !empty_rows.empty();
		bool add_null = request.null_is_last && found < request.k && !null_rows.empty();
		bool is_near_or_null = found == 0 && (request.empty_is_near || request.null_is_last);
		if (!add_empty && !add_null && !is_near_or_null) {
			return;
		}
		completed.clear();
		auto add = [&](double distance, idx_t right_row) {
			completed.push_back(Neighbour {distance, NumericCast<uint32_t>(right_row)});
		};
		if (!left.GeometryOf(row).data) {
			for (idx_t i = 0; request.null_is_last && i < MinValue<idx_t>(request.k, index->RowCount()); i++) {
				add(0, i);
			}
			neighbours = &completed;
			return;
		}
		if (request.empty_is_near && found == 0 && left_is_empty) {
			idx_t next_null = 0;
			for (idx_t i = 0; completed.size() < request.k && i < index->RowCount(); i++) {
				if (next_null < null_rows.size() && null_rows[next_null] == i) {
					next_null++;
				} else {
					add(0, i);
				}
			}
		} else if (request.empty_is_near) {
			for (idx_t i = 0; i < MinValue<idx_t>(request.k, empty_rows.size()); i++) {
				add(0, empty_rows[i]);
			}
		}
		for (idx_t i = 0; completed.size() < request.k && i < found; i++) {
			completed.push_back((*neighbours)[i]);
		}
		found = completed.size();
		for (idx_t i = 0; request.null_is_last && completed.size() < request.k && i < null_rows.size(); i++) {
			add(0, null_rows[i]);
		}
		neighbours = &completed;
	}

	const PhysicalKnn &op;
	CountedMemory memory;
	bool is_started = false;
	//! The right side where it is collected, or brought to the host
	optional_ptr<const KnnIndex> index;
	unique_ptr<KnnSearch> search;
	//! The right side where it is a pinned table
	optional_ptr<PinnedRight> pinned;
	optional_ptr<const PinnedRight::HostPoints> host;
	unique_ptr<PinnedValues> values;
	const KnnParts *parts = nullptr;

	// Chunks of the left side, and where they are: the tile, its chunk, and the next row
	std::array<LeftTile, 2> tiles;
	idx_t current = 0;
	idx_t at = 0;
	idx_t next = 0;
	idx_t first_row = 0;
	//! Of the next row, from `position` on
	const std::vector<Neighbour> *neighbours = nullptr;
	idx_t position = 0;
	//! So many of them have a distance
	idx_t found = 0;
	bool left_is_empty = false;
	//! The device has found them
	bool is_from_tile = false;
	std::vector<Neighbour> completed;

	//! What a device found for a row
	std::vector<Neighbour> unpacked;
	//! Rows that the CPU searched for
	idx_t cpu_rows = 0;

	// Columns of the right side
	vector<column_t> columns;
	Vector locations;
	TupleDataChunkState gather_state;
	DataChunk gathered;
	SelectionVector left_rows;
	//! The places of rows that have a neighbour
	SelectionVector matched_rows;

	// The residual of an outer join
	unique_ptr<ExpressionExecutor> residual;
	SelectionVector passed_rows;
	SelectionVector kept_rows;
	//! One of the neighbours of the last left row has passed, and there are more of them
	bool has_passed = false;
};

} // namespace

unique_ptr<GlobalSourceState> PhysicalKnn::GetGlobalSourceState(ClientContext &context) const {
	return make_uniq<KnnGlobalSource>(context, *this);
}

unique_ptr<LocalSourceState> PhysicalKnn::GetLocalSourceState(ExecutionContext &context, GlobalSourceState &) const {
	return make_uniq<KnnLocalSource>(context, *this);
}

SourceResultType PhysicalKnn::GetDataInternal(ExecutionContext &context, DataChunk &chunk,
                                              OperatorSourceInput &input) const {
	auto &global = input.global_state.Cast<KnnGlobalSource>();
	auto &local = input.local_state.Cast<KnnLocalSource>();
	const QueryScope scope(context.client);
	return WithFunctionName(request.function, [&] {
		global.Build();
		local.Start(context.client, global);
		while (true) {
			if (context.client.IsInterrupted()) {
				throw InterruptException();
			}
			if (local.Done()) {
				if (!local.Fetch(global)) {
					SourceFinished(context, global);
					return SourceResultType::FINISHED;
				}
				if (global.right.index) {
					global.right.CountMemory();
				}
			}
			local.Emit(context.client, global.right, chunk);
			local.FilterOuter(chunk);
			if (chunk.size() > 0) {
				return SourceResultType::HAVE_MORE_OUTPUT;
			}
			chunk.Reset();
		}
	});
}

OperatorPartitionData PhysicalKnn::GetPartitionData(ExecutionContext &, DataChunk &, GlobalSourceState &,
                                                    LocalSourceState &lstate, const OperatorPartitionInfo &) const {
	// Chunks of the left side are handed out in the order of their rows
	return OperatorPartitionData(lstate.Cast<KnnLocalSource>().FirstRow());
}

ProgressData PhysicalKnn::GetProgress(ClientContext &, GlobalSourceState &gstate) const {
	ProgressData result;
	result.total = static_cast<double>(MaxValue<idx_t>(1, Left().Rows().Count()));
	result.done = MinValue(result.total, gstate.Cast<KnnGlobalSource>().Progress());
	return result;
}

InsertionOrderPreservingMap<string> PhysicalKnn::Report(GlobalSourceState &gstate) const {
	auto &global = gstate.Cast<KnnGlobalSource>();
	auto &right = global.right;
	InsertionOrderPreservingMap<string> result;
	result["Operator"] = GetName(); // DuckDB's text has no names of extension operators
	if (right.index) {
		result["Index"] = StringUtil::Format("%llu rows%s, %.1f ms, %s", right.index->RowCount(),
		                                     right.index->AllPoints() ? " of points" : "", right.seconds * 1e3,
		                                     StringUtil::BytesToHumanReadableString(right.index->MemoryUsage()));
	}
	if (global.Pinned()) {
		result["Index"] = global.Pinned()->Note();
	}
	if (right.index || global.Pinned()) {
		result["Engine"] = global.dispatch.Describe();
	}
	return result;
}

} // namespace duckdb
