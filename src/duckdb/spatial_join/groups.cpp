#include "duckdb/spatial_join/groups.hpp"

#include <algorithm>

namespace duckdb {

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//
//! The hash table keeps each group's number where the state of an aggregate would be
static vector<AggregateObject> NumberOnly() {
	vector<AggregateObject> result;
	result.push_back(NumberState());
	return result;
}

GroupNumbers::GroupNumbers(ClientContext &context, const vector<LogicalType> &types)
    : table(context, Allocator::Get(context), types, vector<LogicalType>(), NumberOnly()), values(context, types) {
}

void GroupNumbers::Number(DataChunk &groups, uint32_t *numbers) {
	Vector addresses(LogicalType::POINTER);
	SelectionVector new_groups(STANDARD_VECTOR_SIZE);
	auto new_count = table.FindOrCreateGroups(groups, addresses, new_groups);
	auto pointers = MutableData<data_ptr_t>(addresses);
	const auto offset = table.GetLayout().GetAggrOffset();
	if (new_count > 0) {
		DataChunk fresh;
		fresh.InitializeEmpty(groups.GetTypes());
		fresh.Slice(groups, new_groups, new_count);
		for (idx_t i = 0; i < new_count; i++) {
			Store<uint32_t>(NumericCast<uint32_t>(count++), pointers[new_groups.get_index(i)] + offset);
		}
		values.Append(fresh);
	}
	for (idx_t i = 0; i < groups.size(); i++) {
		numbers[i] = Load<uint32_t>(pointers[i] + offset);
	}
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//
GroupStates::GroupStates(ClientContext &context, const vector<unique_ptr<Expression>> &aggregates)
    : arena(Allocator::Get(context)), states(LogicalType::POINTER) {
	vector<BoundAggregateExpression *> bound;
	for (auto &expr : aggregates) {
		bound.push_back(&expr->Cast<BoundAggregateExpression>());
	}
	objects = AggregateObject::CreateAggregateObjects(bound);
	for (auto &object : objects) {
		offsets.push_back(width);
		width += object.payload_size; // aligned
	}
}

GroupStates::~GroupStates() {
	auto pointers = MutableData<data_ptr_t>(states);
	for (idx_t i = 0; i < objects.size(); i++) {
		if (!HasDestructor(objects[i])) {
			continue;
		}
		auto input = InputOf(objects[i], arena);
		for (auto &block : blocks) {
			for (idx_t group = 0; group < GROUPS_PER_BLOCK; group++) {
				pointers[group] = block.get() + group * width + offsets[i];
			}
			DestroyStates(objects[i], states, input, GROUPS_PER_BLOCK);
		}
	}
}

void GroupStates::Fit(idx_t group) {
	static_assert(GROUPS_PER_BLOCK <= STANDARD_VECTOR_SIZE, "the states of a block fit into a vector");
	while (group >= blocks.size() * GROUPS_PER_BLOCK) {
		auto block = make_unsafe_uniq_array_uninitialized<data_t>(GROUPS_PER_BLOCK * MaxValue<idx_t>(1, width));
		for (idx_t k = 0; k < GROUPS_PER_BLOCK; k++) {
			for (idx_t i = 0; i < objects.size(); i++) {
				InitializeState(objects[i], block.get() + k * width + offsets[i]);
			}
		}
		blocks.push_back(std::move(block));
		touched.resize(blocks.size() * GROUPS_PER_BLOCK);
	}
}

void GroupStates::Update(DataChunk &arguments, const uint32_t *groups, idx_t count) {
	if (count == 0) {
		return;
	}
	Fit(groups ? *std::max_element(groups, groups + count) : 0);
	for (idx_t k = 0; k < (groups ? count : 1); k++) {
		touched[groups ? groups[k] : 0] = 1;
	}
	auto pointers = MutableData<data_ptr_t>(states);
	idx_t column = 0;
	for (idx_t i = 0; i < objects.size(); i++) {
		auto &object = objects[i];
		auto data = InputOf(object, arena);
		auto inputs = object.child_count == 0 ? nullptr : &arguments.data[column];
		column += object.child_count;
		if (!groups && UpdateState(object, inputs, data, State(0) + offsets[i], count)) {
			continue;
		}
		for (idx_t k = 0; k < count; k++) {
			pointers[k] = State(groups ? groups[k] : 0) + offsets[i];
		}
		UpdateStates(object, inputs, data, states, count);
	}
}

void GroupStates::UpdateOften(DataChunk &arguments, uint32_t group, uint64_t times) {
	Fit(group);
	auto state = State(group);
	touched[group] = 1;
	auto pointers = MutableData<data_ptr_t>(states);
	idx_t column = 0;
	for (idx_t i = 0; i < objects.size(); i++) {
		auto &object = objects[i];
		auto data = InputOf(object, arena);
		auto inputs = object.child_count == 0 ? nullptr : &arguments.data[column];
		column += object.child_count;
		uint64_t left = times;
		for (bool any = true; any && left > 0;) {
			auto some = MinValue<uint64_t>(left, ROWS_OF_ONE_UPDATE);
			SetRowCount(arguments, some);
			any = UpdateState(object, inputs, data, state + offsets[i], some);
			left -= any ? some : 0;
		}
		for (idx_t k = 0; k < MinValue<uint64_t>(left, STANDARD_VECTOR_SIZE); k++) {
			pointers[k] = state + offsets[i];
		}
		while (left > 0) {
			auto some = MinValue<uint64_t>(left, STANDARD_VECTOR_SIZE);
			SetRowCount(arguments, some);
			UpdateStates(object, inputs, data, states, some);
			left -= some;
		}
	}
}

void GroupStates::Combine(GroupStates &other, const vector<uint32_t> &mapped) {
	Vector sources(LogicalType::POINTER);
	auto from = MutableData<data_ptr_t>(sources);
	auto to = MutableData<data_ptr_t>(states);
	idx_t theirs[STANDARD_VECTOR_SIZE], ours[STANDARD_VECTOR_SIZE];
	for (idx_t group = 0; group < other.touched.size();) {
		idx_t count = 0;
		for (; group < other.touched.size() && count < STANDARD_VECTOR_SIZE; group++) {
			if (other.touched[group]) {
				theirs[count] = group;
				ours[count++] = mapped.empty() ? group : mapped[group];
			}
		}
		for (idx_t k = 0; k < count; k++) {
			Fit(ours[k]);
			touched[ours[k]] = 1;
		}
		for (idx_t i = 0; i < objects.size() && count > 0; i++) {
			for (idx_t k = 0; k < count; k++) {
				from[k] = other.State(theirs[k]) + offsets[i];
				to[k] = State(ours[k]) + offsets[i];
			}
			auto data = InputOf(objects[i], arena);
			CombineStates(objects[i], sources, states, data, count);
		}
	}
}

void GroupStates::Finalize(const uint32_t *groups, idx_t count, DataChunk &result, idx_t column) {
	auto pointers = MutableData<data_ptr_t>(states);
	for (idx_t i = 0; i < objects.size(); i++) {
		for (idx_t k = 0; k < count; k++) {
			Fit(groups[k]);
			pointers[k] = State(groups[k]) + offsets[i];
		}
		FinalizeStates(objects[i], states, arena, result.data[column + i], count);
	}
}

//===----------------------------------------------------------------------===//
// The aggregate of a join
//===----------------------------------------------------------------------===//
static vector<LogicalType> TypesOf(const vector<unique_ptr<Expression>> &expressions) {
	vector<LogicalType> result;
	for (auto &expr : expressions) {
		result.push_back(ReturnTypeOf(*expr));
	}
	return result;
}

//! What expressions give for a row of NULLs
static void EvaluateNulls(ClientContext &context, const vector<unique_ptr<Expression>> &expressions,
                          const vector<LogicalType> &types, DataChunk &result) {
	if (expressions.empty()) {
		return;
	}
	DataChunk nulls;
	nulls.Initialize(Allocator::Get(context), types, 1);
	for (auto &column : nulls.data) {
		column.SetVectorType(VectorType::CONSTANT_VECTOR);
		ConstantVector::SetNull(column, true);
	}
	SetRowCount(nulls, 1);
	result.Initialize(Allocator::Get(context), TypesOf(expressions));
	ExpressionExecutor executor(context, expressions);
	executor.Execute(nulls, result);
	result.Flatten();
}

SpatialGroups::SpatialGroups(ClientContext &context, const PhysicalSpatialJoin &op)
    : context(context), op(op), states(context, op.aggregates), probe_executor(context), group_executor(context),
      gather(*op.layout, op.build_arguments), zeros(STANDARD_VECTOR_SIZE) {
	for (auto &argument : op.probe_arguments) {
		probe_executor.AddExpression(*argument);
	}
	for (auto &group : op.probe_groups) {
		group_executor.AddExpression(*group);
	}
	if (!op.probe_arguments.empty()) {
		probe_arguments.Initialize(Allocator::Get(context), TypesOf(op.probe_arguments));
	}
	if (!op.probe_groups.empty()) {
		group_chunk.Initialize(Allocator::Get(context), op.group_types);
	}
	if (!op.arguments.empty()) {
		arguments.InitializeEmpty(op.argument_types);
	}
	EvaluateNulls(context, op.probe_arguments, op.children[0].get().types, null_probe);
	EvaluateNulls(context, op.build_argument_expressions, op.children[1].get().types, null_build);
	for (idx_t i = 0; i < STANDARD_VECTOR_SIZE; i++) {
		zeros.set_index(i, 0);
	}
}

bool SpatialGroups::HasGroups() const {
	return !op.group_types.empty();
}

//! Those of a build side are numbered once for all threads
GroupNumbers &SpatialGroups::Numbers() {
	if (!numbers) {
		numbers = make_uniq<GroupNumbers>(context, op.group_types);
	}
	return *numbers;
}

void SpatialGroups::NumberBuild(SpatialBuild &build) {
	if (op.build_groups.empty()) {
		return;
	}
	build.groups.resize(build.Count());
	BuildGather group_gather(*op.layout, op.build_groups);
	uint32_t rows[STANDARD_VECTOR_SIZE];
	for (idx_t begin = 0; begin < build.Count(); begin += STANDARD_VECTOR_SIZE) {
		auto size = MinValue<idx_t>(STANDARD_VECTOR_SIZE, build.Count() - begin);
		for (idx_t i = 0; i < size; i++) {
			rows[i] = NumericCast<uint32_t>(begin + i);
		}
		Numbers().Number(group_gather.Gather(build, rows, size), build.groups.data() + begin);
	}
}

void SpatialGroups::Evaluate(DataChunk &input) {
	if (!op.probe_arguments.empty()) {
		probe_arguments.Reset();
		probe_executor.Execute(input, probe_arguments);
	}
	if (!op.probe_groups.empty()) {
		group_chunk.Reset();
		group_executor.Execute(input, group_chunk);
		Numbers().Number(group_chunk, row_groups);
	}
}

void SpatialGroups::Add(const SelectionVector &rows, optional_ptr<SpatialBuild> build, const uint32_t *build_rows,
                        idx_t count) {
	auto gathered = build && !op.build_arguments.empty() ? &gather.Gather(*build, build_rows, count) : nullptr;
	for (idx_t i = 0; i < op.arguments.size(); i++) {
		auto &argument = op.arguments[i];
		if (argument.from_probe) {
			arguments.data[i].Slice(probe_arguments.data[argument.index], rows, count);
		} else if (gathered) {
			arguments.data[i].Reference(gathered->data[argument.index]);
		} else {
			arguments.data[i].Slice(null_build.data[argument.index], zeros, count);
		}
	}
	uint32_t groups[STANDARD_VECTOR_SIZE];
	for (idx_t i = 0; HasGroups() && i < count; i++) {
		groups[i] = op.probe_groups.empty() ? build->groups[build_rows[i]] : row_groups[rows.get_index(i)];
	}
	states.Update(arguments, HasGroups() ? groups : nullptr, count);
}

void SpatialGroups::AddPairs(SpatialProbe &probe, bool rest) {
	auto &input = probe.Input();
	bool evaluated = false;
	while (auto count = probe.Next()) {
		if (!evaluated) {
			Evaluate(input);
			evaluated = true;
		}
		Add(probe.probe_rows, probe.Build(), probe.build_rows, count);
	}
	if (!rest || op.join_type != JoinType::LEFT) {
		return;
	}
	SelectionVector rows(STANDARD_VECTOR_SIZE);
	idx_t count = 0;
	for (idx_t i = 0; i < input.size(); i++) {
		if (!probe.found[i] && !probe.IsDropped(i)) {
			rows.set_index(count++, i);
		}
	}
	AddRest(input, rows, count);
}

void SpatialGroups::AddRest(DataChunk &input, const SelectionVector &rows, idx_t count) {
	if (count > 0) {
		Evaluate(input);
		Add(rows, nullptr, nullptr, count);
	}
}

void SpatialGroups::AddRest(SpatialBuild &build, const uint32_t *rows, idx_t count) {
	if (count == 0) {
		return;
	}
	auto gathered = op.build_arguments.empty() ? nullptr : &gather.Gather(build, rows, count);
	for (idx_t i = 0; i < op.arguments.size(); i++) {
		auto &argument = op.arguments[i];
		if (argument.from_probe) {
			arguments.data[i].Slice(null_probe.data[argument.index], zeros, count);
		} else {
			arguments.data[i].Reference(gathered->data[argument.index]);
		}
	}
	uint32_t groups[STANDARD_VECTOR_SIZE];
	for (idx_t i = 0; HasGroups() && i < count; i++) {
		groups[i] = build.groups[rows[i]];
	}
	states.Update(arguments, HasGroups() ? groups : nullptr, count);
}

void SpatialGroups::AddCounted(SpatialBuild &build, const std::vector<uint64_t> &pairs) {
	DataChunk one;
	if (!op.arguments.empty()) {
		one.InitializeEmpty(op.argument_types);
		SetRowCount(one, 1);
	}
	uint32_t rows[STANDARD_VECTOR_SIZE];
	for (idx_t begin = 0; begin < pairs.size();) {
		idx_t count = 0;
		for (; begin < pairs.size() && count < STANDARD_VECTOR_SIZE; begin++) {
			if (pairs[begin] > 0) {
				rows[count++] = NumericCast<uint32_t>(begin);
			}
		}
		auto gathered = op.build_arguments.empty() || count == 0 ? nullptr : &gather.Gather(build, rows, count);
		for (idx_t i = 0; i < count; i++) {
			for (idx_t k = 0; k < op.arguments.size(); k++) {
				ReferenceRow(one.data[k], gathered->data[op.arguments[k].index], i, count, 1);
			}
			states.UpdateOften(one, HasGroups() ? build.groups[rows[i]] : 0, pairs[rows[i]]);
		}
	}
}

void SpatialGroups::Combine(SpatialGroups &other) {
	vector<uint32_t> mapped;
	if (!op.probe_groups.empty()) {
		// The other has numbered its groups by itself
		mapped.resize(other.Count());
		idx_t done = 0;
		for (auto &chunk : other.Numbers().Values().Chunks()) {
			Numbers().Number(chunk, mapped.data() + done);
			done += chunk.size();
		}
		if (mapped.empty()) {
			return;
		}
	}
	states.Combine(other.states, mapped);
}

idx_t SpatialGroups::Emit(idx_t begin, DataChunk &result) {
	uint32_t groups[STANDARD_VECTOR_SIZE];
	idx_t count = 0;
	if (!HasGroups()) {
		// Without groups there is a result even of no pairs
		groups[count++] = 0;
	} else {
		for (auto group = begin; group < MinValue<idx_t>(begin + STANDARD_VECTOR_SIZE, Count()); group++) {
			if (states.Has(group)) {
				groups[count++] = NumericCast<uint32_t>(group);
			}
		}
		if (count == 0) {
			return 0;
		}
		DataChunk values;
		Numbers().Values().InitializeScanChunk(values);
		SelectionVector rows(STANDARD_VECTOR_SIZE);
		for (idx_t i = 0; i < count; i++) {
			rows.set_index(i, groups[i] - begin);
		}
		Numbers().Values().FetchChunk(begin / STANDARD_VECTOR_SIZE, values);
		for (idx_t i = 0; i < op.group_types.size(); i++) {
			VectorOperations::Copy(values.data[i], result.data[i], rows, count, 0, 0);
		}
	}
	states.Finalize(groups, count, result, op.group_types.size());
	SetRowCount(result, count);
	return count;
}

} // namespace duckdb
