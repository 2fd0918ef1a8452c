#include "duckdb/operators/spatial_join_physical.hpp"

#include "duckdb/common/types/row/tuple_data_collection.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/function_binder.hpp"
#include "duckdb/operators/spatial_build.hpp"
#include "duckdb/operators/spatial_groups.hpp"
#include "duckdb/operators/spatial_probe.hpp"
#include "duckdb/operators/task_parallel.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/filter/optional_filter.hpp"
#include "duckdb/wkb_output.hpp"

namespace duckdb {

using vibespatial::JoinLimit;

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//
static bool GetFlag(ClientContext &context, const string &name) {
	Value value;
	return context.TryGetCurrentSetting(name, value) && !value.IsNull() && BooleanValue::Get(value);
}

PhysicalSpatialJoin::PhysicalSpatialJoin(PhysicalPlan &plan, ClientContext &context, LogicalSpatialJoin &join,
                                         PhysicalOperator &left, PhysicalOperator &right)
    : PhysicalJoin(plan, join, PhysicalOperatorType::EXTENSION, join.join_type, join.estimated_cardinality),
      condition(join.spatial.condition), predicate_text(join.spatial.text), layout(make_shared_ptr<TupleDataLayout>()),
      limit_column(DConstants::INVALID_INDEX), left_columns(join.left_columns),
      has_aggregate(join.aggregate != nullptr), probe_scans(std::move(join.probe_scans)),
      deterministic(GetFlag(context, "vibe_deterministic")) {
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
			    auto &list = reference.index < left_count ? lefts : rights;
			    auto column = reference.index < left_count ? reference.index : reference.index - left_count;
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
			    bool is_left = reference.index < left_count;
			    auto &list = is_left ? lefts : rights;
			    auto column = is_left ? reference.index : reference.index - left_count;
			    auto position = std::find(list.begin(), list.end(), column) - list.begin();
			    reference.index = NumericCast<idx_t>(position) + (is_left ? 0 : lefts.size());
		    });
	}
	auto keep_key = [&](unique_ptr<Expression> key) {
		column_t position = kept_types.size();
		kept_types.push_back(key->return_type);
		build_keys.push_back(std::move(key));
		return position;
	};
	probe_keys.push_back(std::move(join.spatial.left));
	geometry_column = keep_key(std::move(join.spatial.right));
	if (join.spatial.left_limit) {
		probe_keys.push_back(std::move(join.spatial.left_limit));
	}
	if (join.spatial.right_limit) {
		limit_column = keep_key(std::move(join.spatial.right_limit));
	}
	if (has_aggregate) {
		auto &aggregate = *join.aggregate;
		for (auto &group : aggregate.groups) {
			group_types.push_back(group->return_type);
			if (aggregate.groups_from_left) {
				probe_groups.push_back(std::move(group));
			} else {
				build_groups.push_back(keep_key(std::move(group)));
			}
		}
		for (auto &expr : aggregate.aggregates) {
			for (auto &argument : expr->Cast<BoundAggregateExpression>().children) {
				bool from_probe = aggregate.argument_from_left[arguments.size()];
				argument_types.push_back(argument->return_type);
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
	layout->Initialize(kept_types, TupleDataValidityType::CAN_HAVE_NULL_VALUES);
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

string PhysicalSpatialJoin::GetName() const {
	return "VIBE_SPATIAL_JOIN";
}

//===----------------------------------------------------------------------===//
// Sink
//===----------------------------------------------------------------------===//
namespace {

class SpatialJoinGlobalSink : public GlobalSinkState {
public:
	SpatialJoinGlobalSink(ClientContext &context, const PhysicalSpatialJoin &op)
	    : rows(make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION)) {
		if (op.has_aggregate) {
			groups = make_uniq<SpatialGroups>(context, op);
		}
	}

	mutex lock;
	unique_ptr<TupleDataCollection> rows;
	unique_ptr<SpatialBuild> build;
	unique_ptr<SpatialGroups> groups;

	// What happened, for EXPLAIN ANALYZE
	vibespatial::JoinCounts counts;
	idx_t probed_rows = 0;
	idx_t pairs = 0;
	double probe_seconds = 0;
};

class SpatialJoinLocalSink : public LocalSinkState {
public:
	SpatialJoinLocalSink(ClientContext &context, const PhysicalSpatialJoin &op)
	    : executor(context, op.build_keys),
	      rows(make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION)) {
		vector<LogicalType> types;
		for (auto &key : op.build_keys) {
			types.push_back(key->return_type);
		}
		keys.Initialize(Allocator::Get(context), types);
		chunk.InitializeEmpty(op.layout->GetTypes());
		rows->InitializeAppend(append_state);
	}

	ExpressionExecutor executor;
	DataChunk keys;
	DataChunk chunk;
	unique_ptr<TupleDataCollection> rows;
	TupleDataAppendState append_state;
};

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

SinkResultType PhysicalSpatialJoin::Sink(ExecutionContext &, DataChunk &chunk, OperatorSinkInput &input) const {
	auto &local = input.local_state.Cast<SpatialJoinLocalSink>();
	local.keys.Reset();
	local.executor.Execute(chunk, local.keys);
	for (idx_t i = 0; i < kept_columns.size(); i++) {
		local.chunk.data[i].Reference(chunk.data[kept_columns[i]]);
	}
	for (idx_t i = 0; i < build_keys.size(); i++) {
		local.chunk.data[kept_columns.size() + i].Reference(local.keys.data[i]);
	}
	local.chunk.SetCardinality(chunk);

	// NULL matches nothing: such rows are kept only where rows without a match come out
	SelectionVector valid(STANDARD_VECTOR_SIZE);
	idx_t count = 0;
	bool keep_all = MarksBuild() && join_type != JoinType::RIGHT_SEMI;
	UnifiedVectorFormat format;
	local.chunk.data[geometry_column].ToUnifiedFormat(chunk.size(), format);
	for (idx_t i = 0; i < chunk.size(); i++) {
		if (keep_all || format.validity.RowIsValid(format.sel->get_index(i))) {
			valid.set_index(count++, i);
		}
	}
	if (count > 0) {
		local.rows->Append(local.append_state, local.chunk, valid, count);
	}
	return SinkResultType::NEED_MORE_INPUT;
}

SinkCombineResultType PhysicalSpatialJoin::Combine(ExecutionContext &, OperatorSinkCombineInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSink>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSink>();
	local.rows->FinalizePinState(local.append_state.pin_state);
	lock_guard<mutex> guard(global.lock);
	global.rows->Combine(std::move(local.rows));
	return SinkCombineResultType::FINISHED;
}

void PhysicalSpatialJoin::PrepareFinalize(ClientContext &, GlobalSinkState &) const {
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
	auto result = Value::GEOMETRY(const_data_ptr_cast(wkb), sizeof(wkb));
	result.Reinterpret(type);
	return result;
}

static void PushBox(ClientContext &context, const PhysicalSpatialJoin &op, vibe::Box box) {
	if (box.IsEmpty()) {
		return;
	}
	if (op.condition.limit_from == JoinLimit::CONSTANT) {
		auto by = op.condition.limit * (1 + 1e-9);
		constexpr double INF = std::numeric_limits<double>::infinity();
		box = vibe::Box {std::nextafter(box.min_x - by, -INF), std::nextafter(box.min_y - by, -INF),
		                 std::nextafter(box.max_x + by, INF), std::nextafter(box.max_y + by, INF)};
	}
	for (auto &scan : op.probe_scans) {
		vector<unique_ptr<Expression>> arguments;
		arguments.push_back(make_uniq<BoundReferenceExpression>(scan.type, 0ULL));
		arguments.push_back(make_uniq<BoundConstantExpression>(BoxValue(box, scan.type)));
		FunctionBinder binder(context);
		ErrorData error;
		auto expr = binder.BindScalarFunction(DEFAULT_SCHEMA, "st_intersects_extent", std::move(arguments), error);
		if (error.HasError()) {
			error.Throw();
		}
		auto filter = make_uniq<OptionalFilter>(make_uniq<ExpressionFilter>(std::move(expr)));
		scan.filters->PushFilter(op, scan.column_index, std::move(filter));
	}
}

SinkFinalizeType PhysicalSpatialJoin::Finalize(Pipeline &, Event &, ClientContext &context,
                                               OperatorSinkFinalizeInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSink>();
	bool empty = global.rows->Count() == 0;
	global.build = make_uniq<SpatialBuild>(context, *this, std::move(global.rows));
	RunOnTasks(context, [&](vibespatial::Parallel &parallel) {
		global.build->Build(parallel, children[0].get().estimated_cardinality);
	});
	if (has_aggregate) {
		global.groups->NumberBuild(*global.build);
	}
	PushBox(context, *this, global.build->Index().Bounds());
	return empty && EmptyResultIfRHSIsEmpty() && !has_aggregate ? SinkFinalizeType::NO_OUTPUT_POSSIBLE
	                                                            : SinkFinalizeType::READY;
}

//===----------------------------------------------------------------------===//
// Operator
//===----------------------------------------------------------------------===//
namespace {

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
	bool begun = false;

	void Finalize(const PhysicalOperator &op, ExecutionContext &) override {
		auto &global = op.sink_state->Cast<SpatialJoinGlobalSink>();
		lock_guard<mutex> guard(global.lock);
		if (groups) {
			global.groups->Combine(*groups);
		}
		probe.AddTo(global.counts);
		global.probed_rows += probe.probed_rows;
		global.pairs += probe.pairs;
		global.probe_seconds += probe.seconds;
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
	          optional_ptr<SpatialGroups> groups)
	    : op(op), probe(probe), gather(gather), groups(groups) {
	}

	//! Whether there may be more for this input
	bool Next(DataChunk &result) {
		if (groups) {
			groups->AddPairs(probe);
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
			Mark(result);
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

private:
	void Pairs(DataChunk &result, idx_t count) {
		idx_t column = 0;
		for (auto left : op.left_columns) {
			result.data[column++].Slice(probe.Input().data[left], probe.probe_rows, count);
		}
		auto &gathered = gather.Gather(probe.Build(), probe.build_rows, count);
		for (idx_t i = 0; i < op.right_columns.size(); i++) {
			result.data[column++].Reference(gathered.data[i]);
		}
		result.SetCardinality(count);
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
		if (count == 0) {
			return;
		}
		idx_t column = 0;
		for (auto left : op.left_columns) {
			result.data[column++].Slice(probe.Input().data[left], rows, count);
		}
		for (; column < result.ColumnCount(); column++) {
			SetNull(result.data[column]);
		}
		result.SetCardinality(count);
	}

	void Mark(DataChunk &result) {
		idx_t column = 0;
		for (auto left : op.left_columns) {
			result.data[column++].Reference(probe.Input().data[left]);
		}
		auto &mark = result.data[column];
		mark.SetVectorType(VectorType::FLAT_VECTOR);
		auto data = FlatVector::GetData<bool>(mark);
		for (idx_t i = 0; i < probe.Input().size(); i++) {
			data[i] = probe.found[i];
		}
		result.SetCardinality(probe.Input().size());
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

OperatorResultType PhysicalSpatialJoin::ExecuteInternal(ExecutionContext &, DataChunk &input, DataChunk &chunk,
                                                        GlobalOperatorState &, OperatorState &state_p) const {
	auto &state = state_p.Cast<SpatialJoinOperatorState>();
	auto &global = sink_state->Cast<SpatialJoinGlobalSink>();
	if (!state.begun) {
		state.probe.Begin(input, *global.build);
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

class SpatialJoinGlobalSource : public GlobalSourceState {
public:
	explicit SpatialJoinGlobalSource(const PhysicalSpatialJoin &op)
	    : op(op), sink(op.sink_state->Cast<SpatialJoinGlobalSink>()) {
		if (op.has_aggregate) {
			if (op.join_type == JoinType::RIGHT) {
				sink.groups->AddUnmatched(*sink.build);
			}
			total = sink.groups->Count();
		} else if (op.MarksBuild()) {
			total = sink.build->Count();
		}
	}

	idx_t MaxThreads() override {
		return op.deterministic || op.has_aggregate ? 1 : MaxValue<idx_t>(1, total / (10 * STANDARD_VECTOR_SIZE));
	}

	const PhysicalSpatialJoin &op;
	SpatialJoinGlobalSink &sink;
	idx_t total = 0;
	std::atomic<idx_t> next {0};
};

class SpatialJoinLocalSource : public LocalSourceState {
public:
	explicit SpatialJoinLocalSource(const PhysicalSpatialJoin &op) : gather(*op.layout, op.right_columns) {
	}
	BuildGather gather;
};

} // namespace

unique_ptr<GlobalSourceState> PhysicalSpatialJoin::GetGlobalSourceState(ClientContext &) const {
	return make_uniq<SpatialJoinGlobalSource>(*this);
}

unique_ptr<LocalSourceState> PhysicalSpatialJoin::GetLocalSourceState(ExecutionContext &, GlobalSourceState &) const {
	return make_uniq<SpatialJoinLocalSource>(*this);
}

ProgressData PhysicalSpatialJoin::GetProgress(ClientContext &, GlobalSourceState &gstate) const {
	auto &global = gstate.Cast<SpatialJoinGlobalSource>();
	ProgressData result;
	result.total = static_cast<double>(MaxValue<idx_t>(1, global.total));
	result.done = MinValue(result.total, static_cast<double>(global.next.load()));
	return result;
}

SourceResultType PhysicalSpatialJoin::GetDataInternal(ExecutionContext &context, DataChunk &chunk,
                                                      OperatorSourceInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinGlobalSource>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSource>();
	auto &sink = global.sink;
	uint32_t rows[STANDARD_VECTOR_SIZE];
	while (true) {
		if (context.client.IsInterrupted()) {
			throw InterruptException();
		}
		auto begin = global.next.fetch_add(STANDARD_VECTOR_SIZE);
		if (begin >= global.total) {
			return SourceResultType::FINISHED;
		}
		auto end = MinValue<idx_t>(begin + STANDARD_VECTOR_SIZE, global.total);
		idx_t count = 0;
		if (has_aggregate) {
			if (sink.groups->Emit(begin, chunk) == 0) {
				continue;
			}
			return SourceResultType::HAVE_MORE_OUTPUT;
		}
		bool wanted = join_type == JoinType::RIGHT_SEMI;
		for (auto row = begin; row < end; row++) {
			if (sink.build->IsMatched(row) == wanted) {
				rows[count++] = NumericCast<uint32_t>(row);
			}
		}
		if (count == 0) {
			continue;
		}
		idx_t column = 0;
		for (; column < left_columns.size(); column++) {
			SetNull(chunk.data[column]);
		}
		auto &gathered = local.gather.Gather(*sink.build, rows, count);
		for (idx_t i = 0; i < right_columns.size(); i++) {
			chunk.data[column++].Reference(gathered.data[i]);
		}
		chunk.SetCardinality(count);
		return SourceResultType::HAVE_MORE_OUTPUT;
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
	result["Engine"] = "cpu (no GPU engine in this build)";
	SetEstimatedCardinality(result, estimated_cardinality);
	return result;
}

InsertionOrderPreservingMap<string> PhysicalSpatialJoin::ExtraSourceParams(GlobalSourceState &gstate,
                                                                           LocalSourceState &) const {
	auto &sink = gstate.Cast<SpatialJoinGlobalSource>().sink;
	InsertionOrderPreservingMap<string> result;
	auto milliseconds = [](double seconds) { return StringUtil::Format("%.1f ms", seconds * 1e3); };
	result["Built"] = to_string(sink.build->Count()) + " rows, " +
	                  milliseconds(sink.build->seconds + sink.build->Index().CellSeconds());
	result["Built Index"] = sink.build->Index().Describe();
	result["Probed"] = to_string(sink.probed_rows) + " rows, " + milliseconds(sink.probe_seconds);
	result["Candidates"] = to_string(sink.counts.candidates);
	result["True Hits"] = to_string(sink.counts.true_hits);
	result["Exact Tests"] = to_string(sink.counts.exact_tests);
	result["Pairs"] = to_string(sink.pairs);
	return result;
}

} // namespace duckdb
