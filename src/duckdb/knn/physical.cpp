#include "duckdb/knn/physical.hpp"

#include "duckdb/common/types/row/tuple_data_collection.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/knn/dispatch.hpp"
#include "duckdb/operators/row_geometry.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "engine/join/knn.hpp"
#include "engine/common/shared_work.hpp"
#include "geometry/wkb.hpp"

#include <chrono>

namespace duckdb {

using vibespatial::JoinRow;
using vibespatial::KnnIndex;
using vibespatial::KnnSearch;
using vibespatial::Neighbour;
using vibespatial::PackedNeighbours;

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
	    : op(op), right(context, op), dispatch(context), build(ThreadCount(context), CancelPoll(context)) {
		// Many points at once for a device, but something for each thread
		constexpr idx_t LEAST = 8, MOST = 64;
		auto chunks = op.Left().Rows().ChunkCount();
		device_chunks = MaxValue<idx_t>(LEAST, MinValue<idx_t>(MOST, chunks / ThreadCount(context) + 1));
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
			right.Build(parallel);
			dispatch.Decide(*right.index, op.Left().Rows().Count(), op.request.k, parallel);
		});
	}
	//! Chunks of the left side that a thread takes at a time
	idx_t TileChunks() const {
		return dispatch.OnGpu() ? device_chunks : 1;
	}

	const PhysicalKnn &op;
	KnnRight right;
	//! After the index, which it may use until the end
	KnnDispatch dispatch;
	vibespatial::SharedWork build;
	ColumnDataParallelScanState scan;
	idx_t device_chunks;
	std::atomic<idx_t> rows_done {0};
};

//! A chunk of the left side
class LeftChunk {
public:
	explicit LeftChunk(const ColumnDataCollection &rows) {
		rows.InitializeScanChunk(chunk);
	}

	bool Fetch(const ColumnDataCollection &rows, ColumnDataParallelScanState &next) {
		if (!rows.Scan(next, scan, chunk)) {
			return false;
		}
		chunk.data[0].ToUnifiedFormat(chunk.size(), geometries);
		queries.clear();
		return true;
	}
	JoinRow GeometryOf(idx_t row) const {
		auto at = geometries.sel->get_index(row);
		if (!geometries.validity.RowIsValid(at)) {
			return JoinRow {nullptr, 0};
		}
		auto &wkb = UnifiedVectorFormat::GetData<string_t>(geometries)[at];
		return JoinRow {const_data_ptr_cast(wkb.GetData()), NumericCast<uint32_t>(wkb.GetSize())};
	}
	idx_t FirstRow() const {
		return scan.current_row_index;
	}
	//! Adds the points to those that a device searches for
	void AddQueries(std::vector<vibe::Vec2> &points) {
		for (idx_t row = 0; row < chunk.size(); row++) {
			auto geometry = GeometryOf(row);
			vibe::Vec2 point;
			bool is_point = geometry.data && vibespatial::TryReadPoint(geometry.data, geometry.size, point);
			queries.push_back(is_point ? NumericCast<uint32_t>(points.size()) : NONE);
			if (is_point) {
				points.push_back(point);
			}
		}
	}

	//! No point: the CPU's
	static constexpr uint32_t NONE = NumericLimits<uint32_t>::Maximum();

	DataChunk chunk;
	//! Where a device searched: the numbers of the rows among what it searched for
	vector<uint32_t> queries;

private:
	ColumnDataLocalScanState scan;
	UnifiedVectorFormat geometries;
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
		if (search) {
			return;
		}
		auto &index = *global.right.index;
		auto bytes = KnnSearch::EstimateMemory(index, op.request.k);
		if (op.request.empty_is_near || op.request.null_is_last) {
			bytes += MinValue<idx_t>(op.request.k, index.RowCount()) * sizeof(Neighbour);
		}
		if (global.dispatch.OnGpu()) {
			auto rows = global.TileChunks() * STANDARD_VECTOR_SIZE;
			bytes +=
			    rows * (sizeof(vibe::Vec2) + 2 * sizeof(uint32_t) + op.request.k * (sizeof(uint32_t) + sizeof(double)));
		}
		memory.Resize(bytes);
		search = make_uniq<KnnSearch>(index, op.request.k, op.request.max_distance, CancelPoll(context));
	}

	//! The next chunks of the left side
	bool Fetch(KnnGlobalSource &global) {
		auto &rows = op.Left().Rows();
		for (idx_t i = 0; i < tile_size; i++) {
			global.rows_done += tile[i]->chunk.size();
		}
		at = next = tile_size = 0;
		for (auto most = global.TileChunks(); tile_size < most; tile_size++) {
			if (tile_size == tile.size()) {
				tile.push_back(make_uniq<LeftChunk>(rows));
			}
			if (!tile[tile_size]->Fetch(rows, global.scan)) {
				break;
			}
		}
		if (global.dispatch.OnGpu()) {
			points.clear();
			for (idx_t i = 0; i < tile_size; i++) {
				tile[i]->AddQueries(points);
			}
			if (!points.empty() && !global.dispatch.Find(points, op.request.k, op.request.max_distance, packed)) {
				for (idx_t i = 0; i < tile_size; i++) {
					tile[i]->queries.clear();
				}
			}
		}
		return tile_size > 0;
	}

	//! Neighbours of rows of one chunk, as many as fit into the result
	void Emit(KnnRight &right, DataChunk &result) {
		auto left_row = MutableData<int64_t>(result.data[0]);
		auto right_row = MutableData<int64_t>(result.data[1]);
		auto distance = MutableData<double>(result.data[2]);
		auto rank = MutableData<int64_t>(result.data[3]);
		auto location = MutableData<data_ptr_t>(locations);
		auto &left = *tile[at];
		first_row = left.FirstRow();
		idx_t count = 0;
		idx_t matched = 0;
		while (count < STANDARD_VECTOR_SIZE && next < left.chunk.size()) {
			if (!neighbours) {
				neighbours = &Neighbours(left, next);
				position = 0;
				found = neighbours->size();
				AddOthers(*right.index, left, next);
			}
			if (neighbours->empty() && op.request.outer) {
				left_row[count] = NumericCast<int64_t>(first_row + next);
				for (idx_t own = 1; own < PhysicalKnn::OWN_COLUMNS; own++) {
					FlatVector::SetNull(result.data[own], count, true);
				}
				left_rows.set_index(count++, next);
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
				if (!columns.empty()) {
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
		if (!columns.empty() && count > 0) {
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
		return at == tile_size;
	}

private:
	//! Among the columns that come out
	static constexpr idx_t RANK = 3;

	const std::vector<Neighbour> &Neighbours(const LeftChunk &left, idx_t row) {
		if (left.queries.empty() || left.queries[row] == LeftChunk::NONE) {
			auto &result = search->Find(left.GeometryOf(row));
			left_is_empty = search->WasEmpty();
			return result;
		}
		left_is_empty = false;
		auto query = left.queries[row];
		unpacked.clear();
		for (idx_t n = 0; n < packed.found[query]; n++) {
			auto place = n * packed.count + query;
			unpacked.push_back(Neighbour {packed.distances[place], packed.rows[place]});
		}
		return unpacked;
	}

	//! Adds the rows that the search does not know of to the neighbours that it found
	void AddOthers(const KnnIndex &index, const LeftChunk &left, idx_t row) {
		auto &request = op.request;
		auto &null_rows = index.NullRows();
		auto &empty_rows = index.EmptyRows();
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
			for (idx_t i = 0; request.null_is_last && i < MinValue<idx_t>(request.k, index.RowCount()); i++) {
				add(0, i);
			}
			neighbours = &completed;
			return;
		}
		if (request.empty_is_near && found == 0 && left_is_empty) {
			idx_t next_null = 0;
			for (idx_t i = 0; completed.size() < request.k && i < index.RowCount(); i++) {
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
	unique_ptr<KnnSearch> search;

	// Chunks of the left side, and where they are: the chunk, and its next row
	vector<unique_ptr<LeftChunk>> tile;
	idx_t tile_size = 0;
	idx_t at = 0;
	idx_t next = 0;
	idx_t first_row = 0;
	//! Of the next row, from `position` on
	const std::vector<Neighbour> *neighbours = nullptr;
	idx_t position = 0;
	//! So many of them have a distance
	idx_t found = 0;
	bool left_is_empty = false;
	std::vector<Neighbour> completed;

	// What a device found
	std::vector<vibe::Vec2> points;
	PackedNeighbours packed;
	std::vector<Neighbour> unpacked;

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
				global.right.CountMemory();
			}
			local.Emit(global.right, chunk);
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
	result.done = MinValue(result.total, static_cast<double>(gstate.Cast<KnnGlobalSource>().rows_done.load()));
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
		result["Engine"] = global.dispatch.Describe();
	}
	return result;
}

} // namespace duckdb
