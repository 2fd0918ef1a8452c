#include "duckdb/spatial_join/physical.hpp"

#include "duckdb/common/types/row/tuple_data_collection.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/function_binder.hpp"
#include "duckdb/operators/chunk_exchange.hpp"
#include "duckdb/spatial_join/index_dispatch.hpp"
#include "duckdb/operators/row_geometry.hpp"
#include "duckdb/spatial_join/build.hpp"
#include "duckdb/spatial_join/groups.hpp"
#include "duckdb/spatial_join/partitions.hpp"
#include "duckdb/spatial_join/device_join.hpp"
#include "duckdb/spatial_join/probe.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/filter/optional_filter.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/storage/temporary_memory_manager.hpp"
#include "duckdb/support/wkb_output.hpp"

#include <cmath>

namespace duckdb {

using vibespatial::JoinLimit;

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//
PhysicalSpatialJoin::PhysicalSpatialJoin(PhysicalPlan &plan, ClientContext &context, LogicalSpatialJoin &join,
                                         PhysicalOperator &left, PhysicalOperator &right)
    : ReportingOperator(plan, join, PhysicalOperatorType::EXTENSION, join.join_type, join.estimated_cardinality),
      condition(join.spatial.condition), predicate_text(join.spatial.text), layout(make_shared_ptr<TupleDataLayout>()),
      limit_column(DConstants::INVALID_INDEX), left_columns(join.left_columns), left_is_unread(join.left_is_unread),
      kernel(join.kernel), has_aggregate(join.aggregate != nullptr), probe_scans(std::move(join.probe_scans)),
      deterministic(GetDeterministic(context)),
      planned_engine(
          DeviceJoin::DescribePlan(context, join.kernel, left.estimated_cardinality, right.estimated_cardinality)),
      has_batches(DeviceJoin::IsPlanned(context, join.kernel, left.estimated_cardinality) &&
                  right.AllSourcesSupportBatchIndex()) {
	children.push_back(left);
	children.push_back(right);

	// The layout: columns of the right child that come out or that the residual reads, then the keys
	unordered_map<idx_t, column_t> kept;
	vector<LogicalType> kept_types;
	auto keep = [&](idx_t column) {
		auto entry = kept.find(column);
		if (entry != kept.end()) {
			return entry->second;
		}
		column_t position = kept_columns.size();
		kept_columns.push_back(column);
		kept_types.push_back(right.types[column]);
		kept.emplace(column, position);
		return position;
	};
	for (auto column : join.right_columns) {
		right_columns.push_back(keep(column));
	}
	if (join.spatial.residual) {
		residual = std::move(join.spatial.residual);
		residual_text = residual->ToString();
		auto left_count = left.types.size();
		vector<idx_t> lefts, rights;
		ExpressionIterator::VisitExpressionMutable<BoundReferenceExpression>(
		    residual, [&](BoundReferenceExpression &reference, unique_ptr<Expression> &) {
			    auto &list = IndexOf(reference) < left_count ? lefts : rights;
			    auto column = IndexOf(reference) < left_count ? IndexOf(reference) : IndexOf(reference) - left_count;
			    if (std::find(list.begin(), list.end(), column) == list.end()) {
				    list.push_back(column);
			    }
		    });
		residual_left = lefts;
		for (auto column : rights) {
			residual_right.push_back(keep(column));
		}
		ExpressionIterator::VisitExpressionMutable<BoundReferenceExpression>(
		    residual, [&](BoundReferenceExpression &reference, unique_ptr<Expression> &) {
			    bool is_left = IndexOf(reference) < left_count;
			    auto &list = is_left ? lefts : rights;
			    auto column = is_left ? IndexOf(reference) : IndexOf(reference) - left_count;
			    auto position = std::find(list.begin(), list.end(), column) - list.begin();
			    IndexOf(reference) = NumericCast<idx_t>(position) + (is_left ? 0 : lefts.size());
		    });
	}
	auto keep_key = [&](unique_ptr<Expression> key) {
		column_t position = kept_types.size();
		kept_types.push_back(ReturnTypeOf(*key));
		build_keys.push_back(std::move(key));
		return position;
	};
	probe_keys.push_back(std::move(join.spatial.left));
	// A geometry that is a column of the right child is kept once, though it may come out as well
	auto &geometry = *join.spatial.right;
	geometry_column = geometry.GetExpressionClass() == ExpressionClass::BOUND_REF
	                      ? keep(IndexOf(geometry.Cast<BoundReferenceExpression>()))
	                      : keep_key(std::move(join.spatial.right));
	if (join.spatial.left_limit) {
		probe_keys.push_back(std::move(join.spatial.left_limit));
	}
	if (join.spatial.right_limit) {
		limit_column = keep_key(std::move(join.spatial.right_limit));
	}
	if (has_aggregate) {
		auto &aggregate = *join.aggregate;
		for (auto &group : aggregate.groups) {
			group_types.push_back(ReturnTypeOf(*group));
			if (aggregate.groups_from_left) {
				probe_groups.push_back(std::move(group));
			} else {
				build_groups.push_back(keep_key(std::move(group)));
			}
		}
		for (auto &expr : aggregate.aggregates) {
			for (auto &argument : ChildrenOf(expr->Cast<BoundAggregateExpression>())) {
				bool from_probe = aggregate.argument_from_left[arguments.size()];
				argument_types.push_back(ReturnTypeOf(*argument));
				arguments.push_back(
				    Argument {from_probe, from_probe ? probe_arguments.size() : build_arguments.size()});
				if (from_probe) {
					probe_arguments.push_back(argument->Copy());
				} else {
					build_arguments.push_back(keep_key(argument->Copy()));
					build_argument_expressions.push_back(argument->Copy());
				}
			}
		}
		aggregates = std::move(aggregate.aggregates);
	}
	number_column = DConstants::INVALID_INDEX;
	if (MarksBuild()) {
		number_column = kept_types.size();
		kept_types.push_back(LogicalType::UBIGINT);
	}
	layout->Initialize(kept_types, TupleDataValidityType::CAN_HAVE_NULL_VALUES);

	buffered_columns.resize(left.types.size());
	for (auto column : has_aggregate || left_is_unread ? residual_left : left_columns) {
		buffered_columns[column] = true;
	}
	for (auto column : residual_left) {
		buffered_columns[column] = true;
	}
	for (auto expressions : {&probe_arguments, &probe_groups}) {
		for (auto &expr : *expressions) {
			ExpressionIterator::VisitExpression<BoundReferenceExpression>(
			    *expr, [&](const BoundReferenceExpression &reference) { buffered_columns[IndexOf(reference)] = true; });
		}
	}
}

vibespatial::JoinRow PhysicalSpatialJoin::GeometryOf(data_ptr_t row) const {
	return RowGeometry(*layout, geometry_column, row);
}

double PhysicalSpatialJoin::LimitOf(data_ptr_t row) const {
	if (!TupleDataLayout::ValidityBytes(row, layout->ColumnCount()).RowIsValidUnsafe(limit_column)) {
		return vibespatial::JoinCondition::NO_LIMIT;
	}
	return Load<double>(row + layout->GetOffsets()[limit_column]);
}

bool PhysicalSpatialJoin::MarksBuild() const {
	switch (join_type) {
	case JoinType::RIGHT:
	case JoinType::OUTER:
	case JoinType::RIGHT_SEMI:
	case JoinType::RIGHT_ANTI:
		return true;
	default:
		return false;
	}
}

bool PhysicalSpatialJoin::KeepsProbe() const {
	switch (join_type) {
	case JoinType::LEFT:
	case JoinType::OUTER:
	case JoinType::ANTI:
	case JoinType::MARK:
		return true;
	default:
		return false;
	}
}

bool PhysicalSpatialJoin::OnlyCounts() const {
	bool counts = has_aggregate && !residual && join_type == JoinType::INNER && probe_groups.empty();
	for (auto &argument : arguments) {
		counts &= !argument.from_probe;
	}
	return counts;
}

string PhysicalSpatialJoin::GetName() const {
	return "VIBE_SPATIAL_JOIN";
}

//===----------------------------------------------------------------------===//
// Sink
//===----------------------------------------------------------------------===//
namespace {

//! Of the rows of the build side, one in so many is looked at while they come
constexpr idx_t SAMPLED_ROWS = 61;
//! Bytes of geometry from which a thread that nobody else sinks beside has help in copying a chunk
constexpr idx_t BYTES_TO_SHARE = idx_t(256) << 10;
//! Chunks of the probe side that are held back: bytes of each thread, and one part in so many of the memory for all
constexpr idx_t MAX_HELD_BYTES = idx_t(32) << 20;
constexpr idx_t HELD_OF_MEMORY = 16;

//! Where the rows of the build side are, in case they must be cut into parts
struct BuildSample {
	std::vector<vibe::Box> boxes;
	std::vector<double> weights;
};

class SpatialJoinGlobalSink : public GlobalSinkState {
public:
	SpatialJoinGlobalSink(ClientContext &context, const PhysicalSpatialJoin &op)
	    : threads(context), dispatch(context), device(context, op, threads),
	      rows(make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION)),
	      temporary_memory(TemporaryMemoryManager::Get(context).Register(context)) {
		if (op.has_aggregate) {
			groups = make_uniq<SpatialGroups>(context, op);
		}
	}

	TaskThreads threads;
	IndexDispatch dispatch;
	DeviceJoin device;
	mutex lock;
	unique_ptr<TupleDataCollection> rows;
	std::atomic<idx_t> row_count {0};
	//! Threads that sink
	std::atomic<idx_t> sinks {0};
	vector<BuildRun> runs;
	BuildSample sample;
	unique_ptr<TemporaryMemoryState> temporary_memory;
	RowFlags matched;
	//! The whole build side, or its parts
	unique_ptr<SpatialBuild> build;
	unique_ptr<SpatialPartitions> partitions;
	unique_ptr<SpatialGroups> groups;
	//! Chunks of the probe side may be left to all threads, and are: fewer threads scan it than there are
	bool may_hold = false;
	atomic<bool> holds {false};
	//! That each thread may have of them
	idx_t max_held_bytes = 0;
	unique_ptr<ColumnDataCollection> held;
	//! Where pairs are only counted
	ChunkExchange exchange;

	// What happened, for EXPLAIN ANALYZE
	idx_t built_rows = 0;
	idx_t index_bytes = 0;
	double build_seconds = 0;
	string built_index;
	vibespatial::JoinCounts counts;
	idx_t probed_rows = 0;
	idx_t pairs = 0;
	double probe_seconds = 0;

	//! One index of perhaps many
	void Describe(SpatialBuild &built) {
		lock_guard<mutex> guard(lock);
		built_index = built.Index().Describe();
		build_seconds += built.seconds + built.Index().CellSeconds();
		index_bytes = MaxValue<idx_t>(index_bytes, built.Index().MemoryUsage());
	}
	void Add(const SpatialProbe &probe) {
		probe.AddTo(counts);
		probed_rows += probe.probed_rows;
		pairs += probe.pairs;
		probe_seconds += probe.seconds;
	}
};

//! Rows of the build side, as one thread copies them
struct CopiedRows {
	CopiedRows(ClientContext &context, const PhysicalSpatialJoin &op)
	    : rows(make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION)) {
		rows->InitializeAppend(append_state);
	}

	unique_ptr<TupleDataCollection> rows;
	TupleDataAppendState append_state;
};

class SpatialJoinLocalSink : public LocalSinkState {
public:
	SpatialJoinLocalSink(ClientContext &context, const PhysicalSpatialJoin &op)
	    : executor(context, op.build_keys), numbers(LogicalType::UBIGINT) {
		vector<LogicalType> types;
		for (auto &key : op.build_keys) {
			types.push_back(ReturnTypeOf(*key));
		}
		if (!types.empty()) {
			keys.Initialize(Allocator::Get(context), types);
		}
		chunk.InitializeEmpty(op.layout->GetTypes());
		copies.push_back(make_uniq<CopiedRows>(context, op));
	}

	ExpressionExecutor executor;
	DataChunk keys;
	DataChunk chunk;
	//! Its own, and those of threads that help
	vector<unique_ptr<CopiedRows>> copies;
	bool counted = false;
	Vector numbers;
	vector<BuildRun> runs;
	idx_t until_sample = 0;
	BuildSample sample;
};

//! Copies some rows of a chunk by several threads: few rows may be many bytes, and DuckDB scans them with one thread
void CopyShared(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads,
                SpatialJoinLocalSink &local, const SelectionVector &kept, idx_t count, idx_t shares) {
	while (local.copies.size() < shares) {
		local.copies.push_back(make_uniq<CopiedRows>(context, op));
	}
	local.chunk.Flatten(); // what others read is not changed by reading
	threads.Run([&](vibespatial::Parallel &parallel) {
		parallel.For(shares, [&](size_t share) {
			auto begin = count * share / shares, end = count * (share + 1) / shares;
			SelectionVector some(end - begin);
			for (auto i = begin; i < end; i++) {
				some.set_index(i - begin, kept.get_index(i));
			}
			auto &copy = *local.copies[share];
			copy.rows->Append(copy.append_state, local.chunk, some, end - begin);
		});
	});
}

} // namespace

unique_ptr<GlobalSinkState> PhysicalSpatialJoin::GetGlobalSinkState(ClientContext &context) const {
	for (auto &scan : probe_scans) {
		scan.filters->ClearFilters(*this);
	}
	return make_uniq<SpatialJoinGlobalSink>(context, *this);
}

unique_ptr<LocalSinkState> PhysicalSpatialJoin::GetLocalSinkState(ExecutionContext &context) const {
	return make_uniq<SpatialJoinLocalSink>(context.client, *this);
}

SinkResultType PhysicalSpatialJoin::Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSink>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSink>();
	if (!build_keys.empty()) {
		local.keys.Reset();
		local.executor.Execute(chunk, local.keys);
	}
	for (idx_t i = 0; i < kept_columns.size(); i++) {
		local.chunk.data[i].Reference(chunk.data[kept_columns[i]]);
	}
	for (idx_t i = 0; i < build_keys.size(); i++) {
		local.chunk.data[kept_columns.size() + i].Reference(local.keys.data[i]);
	}
	auto first = global.row_count.fetch_add(chunk.size());
	if (MarksBuild()) {
		for (idx_t i = 0; i < chunk.size(); i++) {
			MutableData<uint64_t>(local.numbers)[i] = first + i;
		}
		local.chunk.data[number_column].Reference(local.numbers);
	}
	SetRowCount(local.chunk, chunk.size());

	// NULL matches nothing: such rows are kept only where rows without a match come out
	SelectionVector kept(STANDARD_VECTOR_SIZE);
	idx_t count = 0;
	bool keep_all = MarksBuild() && join_type != JoinType::RIGHT_SEMI;
	UnifiedVectorFormat format;
	local.chunk.data[geometry_column].ToUnifiedFormat(chunk.size(), format);
	auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
	idx_t bytes = 0;
	for (idx_t i = 0; i < chunk.size(); i++) {
		auto at = format.sel->get_index(i);
		bool valid = format.validity.RowIsValid(at);
		if (!valid && !keep_all) {
			continue;
		}
		kept.set_index(count++, i);
		auto size = valid ? geometries[at].GetSize() : 0;
		bytes += size;
		if (valid && local.until_sample-- == 0) {
			local.until_sample = SAMPLED_ROWS - 1;
			vibespatial::JoinRow row {const_data_ptr_cast(geometries[at].GetData()), NumericCast<uint32_t>(size)};
			local.sample.boxes.push_back(condition.Reach(row, 0));
			local.sample.weights.push_back(double(size + layout->GetRowWidth()));
		}
	}
	if (count == 0) {
		return SinkResultType::NEED_MORE_INPUT;
	}
	global.sinks += !local.counted;
	local.counted = true;
	auto shares = MinValue<idx_t>(bytes / BYTES_TO_SHARE, global.threads.Count() / global.sinks);
	if (shares > 1 && !deterministic && !has_batches) {
		CopyShared(context.client, *this, global.threads, local, kept, count, MinValue(shares, count));
		return SinkResultType::NEED_MORE_INPUT;
	}
	auto &own = *local.copies[0];
	own.rows->Append(own.append_state, local.chunk, kept, count);
	if (has_batches) {
		auto batch = local.partition_info.batch_index.GetIndex();
		if (local.runs.empty() || local.runs.back().batch != batch) {
			local.runs.push_back(BuildRun {batch, own.rows->Count() - count, 0});
		}
		local.runs.back().count += count;
	}
	return SinkResultType::NEED_MORE_INPUT;
}

SinkCombineResultType PhysicalSpatialJoin::Combine(ExecutionContext &, OperatorSinkCombineInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSink>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSink>();
	for (auto &copy : local.copies) {
		copy->rows->FinalizePinState(copy->append_state.pin_state);
	}
	lock_guard<mutex> guard(global.lock);
	for (auto &run : local.runs) {
		global.runs.push_back(BuildRun {run.batch, global.rows->Count() + run.first, run.count});
	}
	for (auto &copy : local.copies) {
		global.rows->Combine(std::move(copy->rows));
	}
	auto &sample = global.sample;
	sample.boxes.insert(sample.boxes.end(), local.sample.boxes.begin(), local.sample.boxes.end());
	sample.weights.insert(sample.weights.end(), local.sample.weights.begin(), local.sample.weights.end());
	return SinkCombineResultType::FINISHED;
}

static idx_t NeededMemory(const TupleDataCollection &rows) {
	return rows.SizeInBytes() + SpatialBuild::EstimateMemory(rows.Count());
}

void PhysicalSpatialJoin::PrepareFinalize(ClientContext &context, GlobalSinkState &sink) const {
	auto &global = sink.Cast<SpatialJoinGlobalSink>();
	global.temporary_memory->SetRemainingSizeAndUpdateReservation(context, NeededMemory(*global.rows));
}

//! How many parts the build side must be cut into; 1 when it fits into memory
static idx_t PartCount(ClientContext &context, const SpatialJoinGlobalSink &global) {
	//! A part is smaller than its share of memory: parts are not equal, and rows are in several of them
	constexpr idx_t PARTS_PER_SHARE = 4;
	//! A thread that cuts holds a block of rows and one of their heap for each part
	constexpr idx_t BLOCKS_PER_PART = 2;
	Value forced;
	if (context.TryGetCurrentSetting("vibe_join_partitions", forced) && UBigIntValue::Get(forced) > 0) {
		return MinValue<idx_t>(UBigIntValue::Get(forced), vibespatial::PartitionGrid::MAX_PARTS);
	}
	auto needed = NeededMemory(*global.rows);
	auto available = MaxValue<idx_t>(1, global.temporary_memory->GetReservation());
	if (needed <= available) {
		return 1;
	}
	auto &manager = BufferManager::GetBufferManager(context);
	auto threads = ThreadCount(context);
	auto most = manager.GetMaxMemory() / 2 / (threads * BLOCKS_PER_PART * manager.GetBlockSize());
	auto wanted = PARTS_PER_SHARE * (needed / available + 1);
	return MaxValue<idx_t>(2, MinValue<idx_t>(MinValue<idx_t>(wanted, most), vibespatial::PartitionGrid::MAX_PARTS));
}

//! A geometry whose box is this one
static Value BoxValue(const vibe::Box &box, const LogicalType &type) {
	char wkb[WKB_HEADER_SIZE + WKB_COUNT_SIZE + 4 * sizeof(double)];
	WkbOutput out(wkb);
	out.Header(vibespatial::GeometryType::LINESTRING, 0);
	out.Count(2);
	for (auto value : {box.min_x, box.min_y, box.max_x, box.max_y}) {
		out.Ordinate(value);
	}
	return GeometryValue(const_data_ptr_cast(wkb), sizeof(wkb), type);
}

static void PushBox(ClientContext &context, const PhysicalSpatialJoin &op, vibe::Box box) {
	if (box.IsEmpty()) {
		return;
	}
	if (op.condition.limit_from == JoinLimit::CONSTANT) {
		box = vibe::Grow(box, op.condition.limit);
	}
	// DuckDB takes a box without end for an empty one
	for (auto limit : {box.min_x, box.min_y, box.max_x, box.max_y}) {
		if (!std::isfinite(limit)) {
			return;
		}
	}
	for (auto &scan : op.probe_scans) {
		if (scan.covering_index.IsValid()) {
			scan.filters->PushFilter(op, ProjectionIndex(scan.covering_index.GetIndex()),
			                         scan.covering.Filter(context, box));
		}
		if (scan.type.id() != LogicalTypeId::GEOMETRY) {
			continue;
		}
		vector<unique_ptr<Expression>> arguments;
		arguments.push_back(make_uniq<BoundReferenceExpression>(scan.type, 0ULL));
		arguments.push_back(make_uniq<BoundConstantExpression>(BoxValue(box, scan.type)));
		FunctionBinder binder(context);
		ErrorData error;
		auto expr =
		    binder.BindScalarFunction(Identifier(DEFAULT_SCHEMA), "st_intersects_extent", std::move(arguments), error);
		if (error.HasError()) {
			error.Throw();
		}
		// A cast that drops the CRS would hide the column from its statistics
		for (auto &argument : ChildrenOf(expr->Cast<BoundFunctionExpression>())) {
			if (IsCast(*argument)) {
				auto geometry = std::move(CastChild(*argument));
				argument = std::move(geometry);
			}
		}
		scan.filters->PushFilter(op, scan.column_index, MakeOptionalFilter(std::move(expr), scan.type));
	}
}

SinkFinalizeType PhysicalSpatialJoin::Finalize(Pipeline &, Event &, ClientContext &context,
                                               OperatorSinkFinalizeInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSink>();
	global.built_rows = global.rows->Count();
	if (MarksBuild()) {
		global.matched.Resize(global.row_count);
	}
	global.dispatch.Decide(global.built_rows);
	global.device.Decide(global.built_rows, children[0].get().estimated_cardinality);
	auto parts = MaxValue(PartCount(context, global),
	                      MinValue<idx_t>(global.device.PartCount(global.rows->SizeInBytes(), global.built_rows),
	                                      vibespatial::PartitionGrid::MAX_PARTS));
	// A device that is still coming up does so beside what is done without it: the index but for its tree, and the scan of the probe
	// side
	if (parts > 1 || !global.dispatch.DeviceIsComing()) {
		global.dispatch.RequireDevice();
		global.device.Require();
	}
	if (parts > 1) {
		global.partitions =
		    make_uniq<SpatialPartitions>(context, *this, global.sample.boxes, global.sample.weights, parts);
		global.threads.Run(
		    [&](vibespatial::Parallel &parallel) { global.partitions->CutBuild(parallel, std::move(global.rows)); });
		return SinkFinalizeType::READY;
	}
	global.may_hold = !deterministic && global.threads.Count() > 1;
	global.max_held_bytes = MinValue(MAX_HELD_BYTES, BufferManager::GetBufferManager(context).GetMaxMemory() /
	                                                     (HELD_OF_MEMORY * global.threads.Count()));
	global.holds = global.may_hold &&
	               children[0].get().estimated_cardinality / DEFAULT_ROW_GROUP_SIZE < global.threads.Count() / 2;
	global.build = make_uniq<SpatialBuild>(context, *this, std::move(global.rows), global.matched);
	global.threads.Run([&](vibespatial::Parallel &parallel) {
		std::function<void()> number;
		if (!build_groups.empty()) {
			number = [&] { global.groups->NumberBuild(*global.build); };
		}
		global.build->Build(parallel, global.dispatch, global.threads, children[0].get().estimated_cardinality,
		                    global.device.IsActive(), std::move(global.runs), std::move(number));
	});
	global.device.SetBuild(*global.build);
	if (!global.device.IsAwaited()) {
		global.dispatch.RequireDevice();
	}
	PushBox(context, *this, global.build->Index().Bounds());
	return global.built_rows == 0 && EmptyResultIfRHSIsEmpty() && !has_aggregate ? SinkFinalizeType::NO_OUTPUT_POSSIBLE
	                                                                             : SinkFinalizeType::READY;
}

//===----------------------------------------------------------------------===//
// Operator
//===----------------------------------------------------------------------===//
namespace {

//! Of each thread
constexpr idx_t CHUNKS_BEFORE_HELD = 2;
constexpr idx_t MAX_HELD_ROWS = DEFAULT_ROW_GROUP_SIZE;

class SpatialJoinOperatorState : public CachingOperatorState {
public:
	SpatialJoinOperatorState(ClientContext &context, const PhysicalSpatialJoin &op)
	    : probe(context, op), gather(*op.layout, op.right_columns) {
		if (op.has_aggregate) {
			groups = make_uniq<SpatialGroups>(context, op);
		}
	}

	SpatialProbe probe;
	BuildGather gather;
	unique_ptr<SpatialGroups> groups;
	//! Chunks are collected for the GPU
	bool device = false;
	bool in_chunk = false;
	//! Rows that wait for the parts of the build side
	unique_ptr<PartRows> part_rows;
	//! Chunks that wait for other threads
	unique_ptr<ColumnDataCollection> held;
	ColumnDataAppendState held_append;
	idx_t chunks_probed = 0;
	bool begun = false;

	//! Leaves a chunk to a thread that waits for one, or to the time when all threads have scanned theirs
	bool Leave(ClientContext &context, SpatialJoinGlobalSink &global, DataChunk &input) {
		// The first ones may be all that is asked for
		if (chunks_probed < CHUNKS_BEFORE_HELD || !probe.IsLight()) {
			return false;
		}
		if (groups && global.exchange.Give(context, input)) {
			return true;
		}
		if (!global.holds ||
		    (held && (held->Count() >= MAX_HELD_ROWS || held->SizeInBytes() >= global.max_held_bytes))) {
			return false;
		}
		if (!held) {
			held = make_uniq<ColumnDataCollection>(context, input.GetTypes());
			held->InitializeAppend(held_append);
		}
		held->Append(held_append, input);
		return true;
	}
	//! Takes what others leave, where nothing comes out of it yet
	void Help(SpatialJoinGlobalSink &global) {
		if (groups && chunks_probed > 0) {
			global.exchange.End();
		}
		if (!groups || !global.may_hold || global.holds) {
			return;
		}
		global.exchange.Take([&](DataChunk &chunk) {
			probe.SetInput(chunk);
			probe.Begin(*global.build);
			groups->AddPairs(probe, true);
			global.build->CountMemory();
		});
	}
	void Finalize(const PhysicalOperator &op, ExecutionContext &) override {
		auto &global = op.sink_state->Cast<SpatialJoinGlobalSink>();
		if (device) {
			probe.EndCollecting();
		}
		// This thread has nothing left to scan, and time for what others have
		Help(global);
		global.holds = global.may_hold;
		lock_guard<mutex> guard(global.lock);
		if (held && global.held) {
			global.held->Combine(*held);
		} else if (held) {
			global.held = std::move(held);
		}
		if (groups) {
			global.groups->Combine(*groups);
		}
		if (part_rows) {
			part_rows->Flush();
			global.partitions->probe_rows.Combine(*part_rows);
		}
		global.Add(probe);
	}
};

void SetNull(Vector &vector) {
	vector.SetVectorType(VectorType::CONSTANT_VECTOR);
	ConstantVector::SetNull(vector, true);
}

//! What one thread makes of the pairs of a chunk: its next output, or none when the chunk is done
class ChunkJoin {
public:
	ChunkJoin(const PhysicalSpatialJoin &op, SpatialProbe &probe, BuildGather &gather,
	          optional_ptr<SpatialGroups> groups = nullptr)
	    : op(op), probe(probe), gather(gather), groups(groups) {
	}

	//! Whether there may be more for this input
	bool Next(DataChunk &result) {
		if (groups) {
			groups->AddPairs(probe, true);
			return false;
		}
		switch (op.join_type) {
		case JoinType::SEMI:
		case JoinType::ANTI:
			probe.FindAll();
			Select(result, op.join_type == JoinType::SEMI);
			return false;
		case JoinType::MARK:
			probe.FindAll();
			Rest(result, *FlatVector::IncrementalSelectionVector(), probe.Input().size());
			return false;
		case JoinType::RIGHT_SEMI:
		case JoinType::RIGHT_ANTI:
			probe.FindAll();
			return false;
		default:
			break;
		}
		auto count = probe.Next();
		if (count > 0) {
			Pairs(result, count);
			return true;
		}
		if (op.join_type == JoinType::LEFT || op.join_type == JoinType::OUTER) {
			Select(result, false);
		}
		return false;
	}

	void Pairs(DataChunk &result, idx_t count) {
		idx_t column = 0;
		Left(result, column, probe.probe_rows, count);
		auto &gathered = gather.Gather(probe.Build(), probe.build_rows, count);
		for (idx_t i = 0; i < op.right_columns.size(); i++) {
			result.data[column++].Reference(gathered.data[i]);
		}
		SetRowCount(result, count);
	}

	//! Rows of the input that met something, or nothing
	void Select(DataChunk &result, bool found) {
		SelectionVector rows(STANDARD_VECTOR_SIZE);
		idx_t count = 0;
		for (idx_t i = 0; i < probe.Input().size(); i++) {
			if (probe.found[i] == found) {
				rows.set_index(count++, i);
			}
		}
		if (count > 0) {
			Rest(result, rows, count);
		}
	}

	//! Rows of the input, with their mark or with NULLs for the build side
	void Rest(DataChunk &result, const SelectionVector &rows, idx_t count) {
		idx_t column = 0;
		Left(result, column, rows, count);
		if (op.join_type == JoinType::MARK) {
			auto &mark = result.data[column++];
			mark.SetVectorType(VectorType::FLAT_VECTOR);
			for (idx_t i = 0; i < count; i++) {
				MutableData<bool>(mark)[i] = probe.found[rows.get_index(i)];
			}
		}
		for (; column < result.ColumnCount(); column++) {
			SetNull(result.data[column]);
		}
		SetRowCount(result, count);
	}

private:
	void Left(DataChunk &result, idx_t &column, const SelectionVector &rows, idx_t count) {
		for (auto left : op.left_columns) {
			auto &vector = result.data[column++];
			if (op.left_is_unread) {
				SetNull(vector);
			} else {
				vector.Slice(probe.Input().data[left], rows, count);
			}
		}
	}

	const PhysicalSpatialJoin &op;
	SpatialProbe &probe;
	BuildGather &gather;
	optional_ptr<SpatialGroups> groups;
};

} // namespace

unique_ptr<OperatorState> PhysicalSpatialJoin::GetOperatorState(ExecutionContext &context) const {
	return make_uniq<SpatialJoinOperatorState>(context.client, *this);
}

OperatorResultType PhysicalSpatialJoin::ExecuteInternal(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
                                                        GlobalOperatorState &, OperatorState &state_p) const {
	auto &state = state_p.Cast<SpatialJoinOperatorState>();
	auto &global = sink_state->Cast<SpatialJoinGlobalSink>();
	if (global.partitions) {
		auto &partitions = *global.partitions;
		if (!state.part_rows) {
			state.part_rows = make_uniq<PartRows>(context.client, partitions.probe_layout, partitions.grid.PartCount());
		}
		state.probe.SetInput(input);
		partitions.CutProbe(input, state.probe.Geometries(), state.probe.Limits(), *state.part_rows);
		return OperatorResultType::NEED_MORE_INPUT;
	}
	if (!state.device && !state.begun && global.device.IsActive() && !global.device.KindIsKnown()) {
		state.probe.SetInput(input);
		global.device.DecideKind(state.probe.ArePoints());
	}
	if (!state.device && !state.begun && global.device.IsActive()) {
		state.device = true;
	}
	if (state.device) {
		if (!state.begun) {
			state.probe.SetInput(input);
			state.probe.Collect(*global.build);
			state.begun = true;
		}
		while (state.in_chunk || state.probe.NextChunk()) {
			state.in_chunk = ChunkJoin(*this, state.probe, state.gather, state.groups.get()).Next(chunk);
			if (chunk.size() > 0) {
				return OperatorResultType::HAVE_MORE_OUTPUT;
			}
		}
		state.begun = false;
		return OperatorResultType::NEED_MORE_INPUT;
	}
	if (!state.begun) {
		state.probe.SetInput(input);
		if (state.Leave(context.client, global, input)) {
			return OperatorResultType::NEED_MORE_INPUT;
		}
		if (state.groups && state.chunks_probed == 0) {
			global.exchange.Begin();
		}
		state.probe.Begin(*global.build);
		state.chunks_probed++;
		global.build->CountMemory();
		state.begun = true;
	}
	if (ChunkJoin(*this, state.probe, state.gather, state.groups.get()).Next(chunk)) {
		return OperatorResultType::HAVE_MORE_OUTPUT;
	}
	state.begun = false;
	return OperatorResultType::NEED_MORE_INPUT;
}

//===----------------------------------------------------------------------===//
// Source
//===----------------------------------------------------------------------===//
namespace {

//! One part, while it is joined
struct PartJoin {
	PartJoin(ClientContext &context, SpatialJoinGlobalSink &sink, uint32_t part)
	    : sink(sink), part(part), work(ThreadCount(context), CancelPoll(context)) {
	}
	SpatialJoinGlobalSink &sink;
	const uint32_t part;
	unique_ptr<SpatialBuild> build;
	vibespatial::SharedWork work;
	std::atomic<idx_t> next_chunk {0};
	//! Threads that work on it (under the lock of the source)
	idx_t users = 0;
};

class SpatialJoinGlobalSource : public GlobalSourceState {
public:
	//! What is left to do when the probe side has passed, one after the other
	enum class Phase : uint8_t { PARTS, TILES, HELD, PROBE_REST, BUILD_REST, GROUPS, DONE };

	SpatialJoinGlobalSource(ClientContext &context, const PhysicalSpatialJoin &op)
	    : context(context), op(op), sink(op.sink_state->Cast<SpatialJoinGlobalSink>()), threads(ThreadCount(context)),
	      tiles(sink.device.TileCount()) {
		if (sink.partitions) {
			found.Resize(sink.partitions->probe_count);
			unit_count = sink.partitions->grid.PartCount();
		} else {
			NextPhase();
		}
	}

	//! Units of work: parts, chunks of parts, chunks of the build side, chunks of groups
	void NextPhase() {
		next_unit = 0;
		unit_count = 0;
		while (unit_count == 0 && phase != Phase::DONE) {
			phase = Phase(uint8_t(phase) + 1);
			switch (phase) {
			case Phase::TILES:
				unit_count = sink.device.TileCount();
				break;
			case Phase::HELD:
				if (sink.held) {
					sink.held->InitializeScan(held_scan);
					unit_count = sink.held->ChunkCount();
				}
				break;
			case Phase::PROBE_REST:
				unit_count = op.KeepsProbe() && sink.partitions ? sink.partitions->grid.PartCount() : 0;
				break;
			case Phase::BUILD_REST:
				if (op.MarksBuild()) {
					unit_count = sink.partitions
					                 ? sink.partitions->grid.PartCount()
					                 : (sink.build->Count() + STANDARD_VECTOR_SIZE - 1) / STANDARD_VECTOR_SIZE;
				}
				break;
			case Phase::GROUPS:
				sink.device.Finish();
				if (op.has_aggregate) {
					if (!sink.device.Counts().empty()) {
						sink.groups->AddCounted(*sink.build, sink.device.Counts());
					}
					unit_count = (sink.groups->Count() + STANDARD_VECTOR_SIZE - 1) / STANDARD_VECTOR_SIZE;
				}
				break;
			default:
				break;
			}
		}
	}

	idx_t MaxThreads() override {
		return op.deterministic   ? 1
		       : sink.partitions  ? threads
		       : tiles > 0        ? MinValue(threads, tiles)
		       : sink.held        ? MinValue(threads, sink.held->ChunkCount())
		       : op.has_aggregate ? 1
		                          : MaxValue<idx_t>(1, unit_count / 10);
	}

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	SpatialJoinGlobalSink &sink;
	const idx_t threads;
	//! That were not given out while the probe side passed
	const idx_t tiles;
	Phase phase = Phase::PARTS;
	//! Written under the lock
	std::atomic<idx_t> unit_count {0};
	std::atomic<idx_t> next_unit {0};
	//! Threads with work of this phase
	idx_t busy = 0;
	shared_ptr<PartJoin> current;
	ColumnDataParallelScanState held_scan;
	//! Rows of the probe side, by number, that met something
	RowFlags found;
};

using Phase = SpatialJoinGlobalSource::Phase;

class SpatialJoinLocalSource : public LocalSourceState {
public:
	SpatialJoinLocalSource(ClientContext &context, const PhysicalSpatialJoin &op, SpatialJoinGlobalSource &global)
	    : gather(*op.layout, op.right_columns), context(context), op(op) {
		if (!global.sink.partitions && global.tiles == 0 && !global.sink.held) {
			return;
		}
		probe = make_uniq<SpatialProbe>(context, op);
		if (global.sink.held) {
			global.sink.held->InitializeScanChunk(chunk);
		}
		if (!global.sink.partitions) {
			return;
		}
		reader = make_uniq<RowReader>(*global.sink.partitions->probe_layout);
		chunk.InitializeEmpty(op.children[0].get().types);
	}

	BuildGather gather;
	// With parts, tiles or chunks that were held
	unique_ptr<SpatialProbe> probe;
	unique_ptr<RowReader> reader;
	DataChunk chunk;
	ColumnDataLocalScanState held_scan;
	int64_t *numbers = nullptr;
	shared_ptr<PartJoin> part;
	bool in_chunk = false;
	// The unit at hand
	bool busy = false;
	bool has_unit = false;
	idx_t unit = 0;
	idx_t position = 0;
	unique_ptr<SpatialBuild> rest;

	//! Of a join with an aggregate: this thread's, of the current phase
	optional_ptr<SpatialGroups> Groups() {
		if (op.has_aggregate && !groups) {
			groups = make_uniq<SpatialGroups>(context, op);
		}
		return groups.get();
	}
	unique_ptr<SpatialGroups> TakeGroups() {
		return std::move(groups);
	}

	//! The next chunk of probe rows of a part: those columns that came from the left child
	bool Fetch(TupleDataCollection &rows, idx_t index) {
		if (index >= rows.ChunkCount()) {
			return false;
		}
		auto &fetched = reader->Fetch(rows, index);
		for (idx_t i = 0; i < chunk.ColumnCount(); i++) {
			chunk.data[i].Reference(fetched.data[i]);
		}
		SetRowCount(chunk, fetched.size());
		numbers = MutableData<int64_t>(fetched.data[chunk.ColumnCount()]);
		return true;
	}

private:
	ClientContext &context;
	const PhysicalSpatialJoin &op;
	unique_ptr<SpatialGroups> groups;
};

//! One thread's share of the source
class SourceWork {
public:
	SourceWork(SpatialJoinGlobalSource &global, SpatialJoinLocalSource &local)
	    : global(global), local(local), op(global.op), sink(global.sink) {
	}

	//! Rows of the unit at hand; false when it is done
	bool Next(DataChunk &result) {
		switch (global.phase) {
		case Phase::PARTS:
			return NextOfPart(result);
		case Phase::TILES:
			return NextOfTile(result);
		case Phase::HELD:
			return NextOfHeld(result);
		case Phase::PROBE_REST:
			return NextProbeRest(result);
		case Phase::BUILD_REST:
			return NextBuildRest(result);
		case Phase::GROUPS: {
			lock_guard<mutex> guard(sink.lock);
			sink.groups->Emit(local.unit * STANDARD_VECTOR_SIZE, result);
			return false;
		}
		default:
			return false;
		}
	}

private:
	//===------------------------------------------------------------------===//
	// Parts
	//===------------------------------------------------------------------===//
	bool NextOfPart(DataChunk &result) {
		auto &part = *local.part;
		part.work.Run([&](vibespatial::Parallel &parallel) {
			auto &rows = sink.partitions->probe_rows.Part(part.part);
			part.build = make_uniq<SpatialBuild>(global.context, op,
			                                     std::move(sink.partitions->build_rows.Part(part.part)), sink.matched);
			part.build->Build(parallel, sink.dispatch, sink.threads, rows->Count(), sink.device.IsActive());
			sink.device.SetPart(*part.build);
			if (op.has_aggregate) {
				lock_guard<mutex> guard(sink.lock);
				sink.groups->NumberBuild(*part.build);
			}
			sink.Describe(*part.build);
		});
		if (!local.in_chunk) {
			if (!local.Fetch(*sink.partitions->probe_rows.Part(part.part), part.next_chunk++)) {
				return false;
			}
			local.probe->SetInput(local.chunk);
			if (part.build->Join().OnDevice() && !sink.device.KindIsKnown()) {
				sink.device.DecideKind(local.probe->ArePoints());
			}
			local.probe->Begin(*part.build, sink.partitions.get(), part.part);
			part.build->CountMemory();
			local.in_chunk = true;
		}
		local.in_chunk = NextOfChunk(result);
		return true;
	}

	//! Returns whether there may be more of the chunk
	bool NextOfChunk(DataChunk &result) {
		auto &probe = *local.probe;
		if (auto groups = local.Groups()) {
			groups->AddPairs(probe, false);
		} else if (op.join_type == JoinType::INNER || op.join_type == JoinType::LEFT ||
		           op.join_type == JoinType::RIGHT || op.join_type == JoinType::OUTER) {
			auto count = probe.Next();
			if (count > 0) {
				ChunkJoin(op, probe, local.gather).Pairs(result, count);
				return true;
			}
		} else {
			probe.FindAll();
		}
		if (op.join_type == JoinType::SEMI) {
			// Now, and in this part, if in no other before
			for (idx_t i = 0; i < probe.Input().size(); i++) {
				probe.found[i] = probe.found[i] && !global.found.Set(NumericCast<idx_t>(local.numbers[i]));
			}
			ChunkJoin(op, probe, local.gather).Select(result, true);
		} else if (op.KeepsProbe()) {
			for (idx_t i = 0; i < probe.Input().size(); i++) {
				if (probe.found[i]) {
					global.found.Set(NumericCast<idx_t>(local.numbers[i]));
				}
			}
		}
		return false;
	}

	//! A tile that was not emitted while the probe side passed
	bool NextOfTile(DataChunk &result) {
		if (!local.in_chunk) {
			if (local.position++ == 0) {
				local.probe->Resume(*sink.build, local.unit);
			}
			if (!local.probe->NextChunk()) {
				return false;
			}
		}
		local.in_chunk = ChunkJoin(op, *local.probe, local.gather, local.Groups()).Next(result);
		return true;
	}

	//! One of the chunks that are left to all threads
	bool NextOfHeld(DataChunk &result) {
		if (!local.in_chunk) {
			if (!sink.held->Scan(global.held_scan, local.held_scan, local.chunk)) {
				return false;
			}
			local.probe->SetInput(local.chunk);
			local.probe->Begin(*sink.build);
			sink.build->CountMemory();
		}
		local.in_chunk = ChunkJoin(op, *local.probe, local.gather, local.Groups()).Next(result);
		return local.in_chunk;
	}

	//===------------------------------------------------------------------===//
	// Rows without a match
	//===------------------------------------------------------------------===//
	//! Rows of the probe side, each where it is at home
	bool NextProbeRest(DataChunk &result) {
		auto part = NumericCast<uint32_t>(local.unit);
		auto &probe = *local.probe;
		if (!local.Fetch(*sink.partitions->probe_rows.Part(part), local.position++)) {
			return false;
		}
		probe.SetInput(local.chunk);
		SelectionVector rows(STANDARD_VECTOR_SIZE);
		idx_t count = 0;
		for (idx_t i = 0; i < local.chunk.size(); i++) {
			auto reach =
			    sink.partitions->ProbeReach(probe.Geometries()[i], probe.Limits() ? probe.Limits() + i : nullptr);
			bool found = global.found.Has(NumericCast<idx_t>(local.numbers[i]));
			if (sink.partitions->HomeOf(reach) == part && (op.join_type == JoinType::MARK || !found)) {
				probe.found[i] = found;
				rows.set_index(count++, i);
			}
		}
		if (auto groups = local.Groups()) {
			groups->AddRest(local.chunk, rows, count);
		} else if (count > 0) {
			ChunkJoin(op, probe, local.gather).Rest(result, rows, count);
		}
		return true;
	}

	//! Rows of the build side: those that matched for RIGHT_SEMI, else those that did not
	bool NextBuildRest(DataChunk &result) {
		auto build = sink.build.get();
		idx_t begin = local.unit * STANDARD_VECTOR_SIZE;
		if (sink.partitions) {
			if (local.position == 0) {
				auto &rows = sink.partitions->build_rows.Part(local.unit);
				local.rest = make_uniq<SpatialBuild>(global.context, op, std::move(rows), sink.matched);
				vibespatial::Serial serial;
				local.rest->Load(serial);
				if (op.has_aggregate) {
					lock_guard<mutex> guard(sink.lock);
					sink.groups->NumberBuild(*local.rest);
				}
			}
			build = local.rest.get();
			begin = local.position;
			local.position += STANDARD_VECTOR_SIZE;
		}
		if (begin >= build->Count()) {
			local.rest.reset();
			return false;
		}
		uint32_t rows[STANDARD_VECTOR_SIZE];
		idx_t count = 0;
		for (auto row = begin; row < MinValue<idx_t>(begin + STANDARD_VECTOR_SIZE, build->Count()); row++) {
			if (build->IsMatched(row) == (op.join_type == JoinType::RIGHT_SEMI)) {
				rows[count++] = NumericCast<uint32_t>(row);
			}
		}
		if (auto groups = local.Groups()) {
			groups->AddRest(*build, rows, count);
		} else if (count > 0) {
			idx_t column = 0;
			for (; column < op.left_columns.size(); column++) {
				SetNull(result.data[column]);
			}
			auto &gathered = local.gather.Gather(*build, rows, count);
			for (idx_t i = 0; i < op.right_columns.size(); i++) {
				result.data[column++].Reference(gathered.data[i]);
			}
			SetRowCount(result, count);
		}
		return sink.partitions != nullptr;
	}

	SpatialJoinGlobalSource &global;
	SpatialJoinLocalSource &local;
	const PhysicalSpatialJoin &op;
	SpatialJoinGlobalSink &sink;
};

} // namespace

unique_ptr<GlobalSourceState> PhysicalSpatialJoin::GetGlobalSourceState(ClientContext &context) const {
	return make_uniq<SpatialJoinGlobalSource>(context, *this);
}

unique_ptr<LocalSourceState> PhysicalSpatialJoin::GetLocalSourceState(ExecutionContext &context,
                                                                      GlobalSourceState &gstate) const {
	return make_uniq<SpatialJoinLocalSource>(context.client, *this, gstate.Cast<SpatialJoinGlobalSource>());
}

ProgressData PhysicalSpatialJoin::GetProgress(ClientContext &, GlobalSourceState &gstate) const {
	// Without the lock: DuckDB asks under the one of its executor, which a thread takes that wakes others under ours
	auto &global = gstate.Cast<SpatialJoinGlobalSource>();
	ProgressData result;
	result.total = static_cast<double>(MaxValue<idx_t>(1, global.unit_count.load()));
	result.done = MinValue(result.total, static_cast<double>(global.next_unit.load()));
	return result;
}

SourceResultType PhysicalSpatialJoin::GetDataInternal(ExecutionContext &context, DataChunk &chunk,
                                                      OperatorSourceInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSource>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSource>();
	while (true) {
		if (context.client.IsInterrupted()) {
			throw InterruptException();
		}
		if (local.has_unit) {
			local.has_unit = SourceWork(global, local).Next(chunk);
			if (chunk.size() > 0) {
				return SourceResultType::HAVE_MORE_OUTPUT;
			}
			continue;
		}
		auto last_part = std::move(local.part);
		if (last_part) {
			local.probe->EndBuild();
		}
		auto guard = LockState(global);
		if (last_part) {
			if (global.current == last_part) {
				global.current.reset(); // all its chunks are taken
			}
			if (--last_part->users == 0 && MarksBuild()) {
				guard.unlock();
				global.sink.partitions->KeepRest(*last_part->build, last_part->part);
				guard.lock();
			}
		}
		if (global.phase == Phase::PARTS) {
			if (!global.current && global.next_unit < global.unit_count) {
				auto part = NumericCast<uint32_t>(global.next_unit++);
				global.current = make_shared_ptr<PartJoin>(context.client, global.sink, part);
			}
			local.part = global.current;
			local.has_unit = local.part != nullptr;
			if (local.part) {
				local.part->users++;
			}
		} else if (global.next_unit < global.unit_count) {
			local.unit = global.next_unit++;
			local.position = 0;
			local.has_unit = true;
		}
		if (local.has_unit) {
			global.busy += !local.busy;
			local.busy = true;
			guard.unlock();
			continue;
		}
		if (global.phase == Phase::DONE) {
			guard.unlock();
			SourceFinished(context, global);
			return SourceResultType::FINISHED;
		}
		// The next phase begins when all are done with this one
		if (local.busy) {
			local.busy = false;
			global.busy--;
			last_part.reset();
			if (auto groups = local.TakeGroups()) {
				lock_guard<mutex> sink_guard(global.sink.lock);
				global.sink.groups->Combine(*groups);
			}
			if (local.probe && global.phase <= Phase::HELD) {
				lock_guard<mutex> sink_guard(global.sink.lock);
				global.sink.Add(*local.probe);
				if (global.phase == Phase::TILES) {
					local.probe = make_uniq<SpatialProbe>(context.client, *this); // counts anew
				}
			}
		}
		if (global.busy == 0) {
			global.NextPhase();
			UnblockTasks(global, guard);
			continue;
		}
		return BlockSource(global, guard, input.interrupt_state);
	}
}

//===----------------------------------------------------------------------===//
// EXPLAIN
//===----------------------------------------------------------------------===//
InsertionOrderPreservingMap<string> PhysicalSpatialJoin::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Join Type"] = EnumUtil::ToString(join_type);
	result["Predicate"] = predicate_text;
	if (!residual_text.empty()) {
		result["Residual"] = residual_text;
	}
	if (has_aggregate) {
		string names;
		for (auto &expr : aggregates) {
			names += (names.empty() ? "" : "\n") + expr->GetName();
		}
		result["Aggregates"] = names;
	}
	bool only_relate = true;
	for (auto &term : condition.any_of) {
		only_relate &= term.kind == vibespatial::JoinTerm::RELATE;
	}
	result["Index"] = only_relate ? "tree of boxes; cells once many points meet areas" : "tree of boxes";
	result["Engine"] = planned_engine;
	string coverings;
	for (auto &scan : probe_scans) {
		if (scan.covering_index.IsValid() && coverings.find(scan.covering.name) == string::npos) {
			coverings += (coverings.empty() ? "left out by " : ", ") + scan.covering.name;
		}
	}
	if (!coverings.empty()) {
		result["Row Groups"] = coverings;
	}
	SetEstimatedCardinality(result, estimated_cardinality);
	return result;
}

InsertionOrderPreservingMap<string> PhysicalSpatialJoin::Report(GlobalSourceState &gstate) const {
	auto &sink = gstate.Cast<SpatialJoinGlobalSource>().sink;
	InsertionOrderPreservingMap<string> result;
	auto milliseconds = [](double seconds) { return StringUtil::Format("%.1f ms", seconds * 1e3); };
	if (sink.build) {
		sink.Describe(*sink.build);
	}
	auto parts = sink.partitions ? ", " + to_string(sink.partitions->grid.PartCount()) + " parts" : string();
	result["Operator"] = GetName(); // DuckDB's text has no names of extension operators
	result["Built"] = to_string(sink.built_rows) + " rows, " + milliseconds(sink.build_seconds) + parts;
	result["Built Index"] = sink.built_index + ", " + StringUtil::BytesToHumanReadableString(sink.index_bytes);
	result["Index Engine"] = sink.dispatch.Describe();
	result["Pairs Engine"] = sink.device.Describe();
	auto probed_rows = sink.probed_rows, pairs = sink.pairs;
	sink.device.CountedRows(probed_rows, pairs);
	result["Probed"] = to_string(probed_rows) + " rows, " + milliseconds(sink.probe_seconds);
	auto counts = sink.counts;
	sink.device.AddTo(counts);
	result["Candidates"] = to_string(counts.candidates);
	result["Cell Hits"] = to_string(counts.cell_hits);
	result["Exact Tests"] = to_string(counts.exact_tests);
	result["Pairs"] = to_string(pairs);
	return result;
}

} // namespace duckdb
