#include "duckdb/expressions/aggregate_names.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/functions/functions.hpp"
#include "duckdb/planner/expression/bound_aggregate_expression.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/crs.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/query_scope.hpp"
#include "duckdb/overlay/pinned_union.hpp"
#include "duckdb/overlay/work.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/shape/edge_set.hpp"

namespace duckdb {

namespace {

//===----------------------------------------------------------------------===//
// Bind
//===----------------------------------------------------------------------===//
//! What a thread keeps from group to group
struct AggregateScratch {
	explicit AggregateScratch(ClientContext &context) : overlay(context) {
	}
	void Clear() {
		members.clear();
		pinned = nullptr;
		numbers.clear();
	}

	vector<vibespatial::WkbSlice> members;
	//! The members are rows of it, by these numbers, or it says why they are not; may be null
	optional_ptr<const PinnedPolygons> pinned;
	vector<uint32_t> numbers;
	OverlayWork overlay;
};

//! Those that no thread is using. DuckDB gives the callbacks of an aggregate nowhere else to keep them.
class ScratchPool {
public:
	explicit ScratchPool(ClientContext &context) : context(context) {
	}
	unique_ptr<AggregateScratch> Take() {
		lock_guard<mutex> guard(lock);
		if (idle.empty()) {
			return make_uniq<AggregateScratch>(context);
		}
		auto scratch = std::move(idle.back());
		idle.pop_back();
		return scratch;
	}
	void Give(unique_ptr<AggregateScratch> scratch) {
		// One that has grown large is not kept
		if (scratch->overlay.IsLarge() || scratch->members.capacity() > STANDARD_VECTOR_SIZE) {
			return;
		}
		lock_guard<mutex> guard(lock);
		idle.push_back(std::move(scratch));
	}

private:
	ClientContext &context;
	mutex lock;
	vector<unique_ptr<AggregateScratch>> idle;
};

//! By the name of its documentation, where it was called by its vibe_ name
CpuFunction OnCpu(const string &name) {
	for (auto known : {"ST_Extent_Agg", "ST_Envelope_Agg", "ST_Collect_Agg", "ST_Union_Agg", "ST_CoverageUnion_Agg",
	                   "ST_Intersection_Agg"}) {
		if (StringUtil::CIEquals(SqlFunction::VibeName(known), SqlFunction::VibeName(name))) {
			return CpuFunction::Aggregate(known);
		}
	}
	return CpuFunction::Aggregate(name);
}

struct AggregateBindData : public FunctionData {
	AggregateBindData(ClientContext &context, string name_p)
	    : context(context), name(std::move(name_p)), on_cpu(OnCpu(name)), pool(make_shared_ptr<ScratchPool>(context)) {
	}
	ClientContext &context;
	const string name;
	const CpuFunction on_cpu;
	shared_ptr<ScratchPool> pool;
	//! Where the rows of the query that runs may be those of a pinned table
	shared_ptr<PinnedUnion> pinned;

	//! What the query has found; may be null
	shared_ptr<PinnedPolygons> Pinned() const {
		return pinned ? pinned->Get() : nullptr;
	}
	unique_ptr<FunctionData> Copy() const override {
		auto copy = make_uniq<AggregateBindData>(context, name);
		copy->pinned = pinned;
		return std::move(copy);
	}
	bool Equals(const FunctionData &other) const override {
		return name == other.Cast<AggregateBindData>().name;
	}
};

const AggregateBindData &Bound(const AggregateInputData &input) {
	return input.bind_data->Cast<AggregateBindData>();
}

//! Makes a result of so many rows. In mode gpu that is logged, as work of the CPU where the device does not do it.
template <class MAKE>
auto Logged(const AggregateBindData &bind, idx_t rows, MAKE &&make) -> decltype(make()) {
	if (!CpuWork::IsLogged(bind.context)) {
		return make();
	}
	CpuWork work(bind.context, bind.on_cpu);
	auto made = make();
	work.Finish(rows, rows);
	return made;
}

unique_ptr<FunctionData> BindAggregate(ClientContext &context, BoundFunction &function,
                                       const vector<unique_ptr<Expression>> &arguments) {
	PropagateCrs(function, arguments);
	auto &name = NameOf(function);
	if (StringUtil::EndsWith(StringUtil::Lower(name), "union_agg")) {
		OverlayDispatch::RequestKernels(context);
	}
	auto data = make_uniq<AggregateBindData>(context, name);
	if (!data->on_cpu.may_use_device) {
		RequireGpu(context, data->on_cpu.name, data->on_cpu.reason);
	}
	return std::move(data);
}

//===----------------------------------------------------------------------===//
// The box of all
//===----------------------------------------------------------------------===//
struct ExtentAggregate {
	struct State {
		vibe::Box box;
		idx_t rows;
	};

	template <class STATE>
	static void Initialize(STATE &state) {
		state.box = vibe::Box::Empty();
		state.rows = 0;
	}
	static bool IgnoreNull() {
		return true;
	}
	template <class INPUT, class STATE, class OP>
	static void Operation(STATE &state, const INPUT &wkb, AggregateUnaryInput &input) {
		constexpr idx_t LONG = 1 << 16;
		if (wkb.GetSize() >= LONG) {
			CancelPoll(Bound(input.input).context)();
		}
		vibe::Box box;
		WithFunctionName(Bound(input.input).name, [&]() { vibespatial::WkbBounds(WkbData(wkb), wkb.GetSize(), box); });
		state.box.Add(box);
		state.rows++;
	}
	template <class INPUT, class STATE, class OP>
	static void ConstantOperation(STATE &state, const INPUT &wkb, AggregateUnaryInput &input, idx_t count) {
		Operation<INPUT, STATE, OP>(state, wkb, input);
		state.rows += count - 1;
	}
	template <class STATE, class OP>
	static void Combine(const STATE &source, STATE &target, AggregateInputData &) {
		target.box.Add(source.box);
		target.rows += source.rows;
	}
	template <class RESULT, class STATE>
	static void Finalize(STATE &state, RESULT &target, AggregateFinalizeData &finalize) {
		auto &box = state.box;
		if (!(box.min_x <= box.max_x && box.min_y <= box.max_y)) {
			finalize.ReturnNull();
			return;
		}
		target = Logged(Bound(finalize.input), state.rows, [&] {
			return EmitWkb(finalize.result, ENVELOPE_SIZE,
			               [&](WkbOutput out) { PutEnvelope(out, box.min_x, box.min_y, box.max_x, box.max_y); });
		});
	}

	static AggregateFunction Function() {
		auto function = AggregateFunction::UnaryAggregate<State, string_t, string_t, ExtentAggregate>(
		    LogicalType::GEOMETRY(), LogicalType::GEOMETRY());
		function.SetBindCallback(AggregateBind<BindAggregate>);
		function.SetStateFinalizeCallback(FinalizeGroups<State, string_t, ExtentAggregate>);
		return function;
	}
};

//===----------------------------------------------------------------------===//
// Geometries of all
//===----------------------------------------------------------------------===//
//! A geometry of a group in the aggregate's arena, which DuckDB counts. The WKB follows.
struct Member {
	Member *next;
	idx_t size;

	const uint8_t *Data() const {
		return reinterpret_cast<const uint8_t *>(this + 1);
	}
};

//! A group: its members as they came
struct MemberList {
	Member *first;
	Member *last;

	void Append(Member *begin, Member *end) {
		(last ? last->next : first) = begin;
		last = end;
	}
	void List(vector<vibespatial::WkbSlice> &members) const {
		members.clear();
		for (auto member = first; member; member = member->next) {
			// They lie one after the other, and are mostly about as large
			__builtin_prefetch(member->Data() + 8 * (sizeof(Member) + member->size));
			members.push_back(vibespatial::WkbSlice {member->Data(), member->size});
		}
	}
	void Add(ArenaAllocator &arena, const void *data, idx_t size) {
		auto member = reinterpret_cast<Member *>(arena.AllocateAligned(sizeof(Member) + size));
		member->next = nullptr;
		member->size = size;
		memcpy(member + 1, data, size);
		Append(member, member);
	}
};

//! The rows of a window's partition
struct PartitionRows {
	//! One for each row; no data for NULL and for what FILTER leaves out
	const vibespatial::WkbSlice *rows;
};
static_assert(sizeof(PartitionRows) <= sizeof(MemberList), "it lies in the state of the partition");

//! Of rows of a pinned table, whose members are their numbers: the operator above the aggregate unites them (duckdb/overlay/pinned_union.hpp)
struct RowNumbers {
	static bool IgnoreNull() {
		return true;
	}
	template <class RESULT, class STATE>
	static void Finalize(STATE &state, RESULT &target, AggregateFinalizeData &finalize) {
		idx_t bytes = 0;
		for (auto member = state.first; member; member = member->next) {
			bytes += member->size;
		}
		if (bytes == 0) {
			finalize.ReturnNull();
			return;
		}
		target = EmitWkb(finalize.result, bytes, [&](WkbOutput out) {
			for (auto member = state.first; member; member = member->next) {
				out.Bytes(member->Data(), member->size);
			}
		});
	}
};

//! What a device has made of many groups at once, while DuckDB asks this thread for the groups of a vector one by one
class UnitedGroups {
public:
	//! Unites as many as the device takes; none in mode cpu and without a device
	UnitedGroups(const AggregateBindData &bind, MemberList *const *states, idx_t count, idx_t offset) : offset(offset) {
		idx_t bytes = 0;
		if (!OverlayDispatch::WouldTake(bind.context, count, vibespatial::OverlayNet::MAX_COUNT)) {
			return;
		}
		for (idx_t i = 0; i < count; i++) {
			for (auto member = states[i]->first; member; member = member->next) {
				bytes += member->size;
			}
		}
		if (!OverlayDispatch::WouldTake(bind.context, count, bytes / sizeof(vibe::Vec2))) {
			return;
		}
		QueryScope scope(bind.context);
		made.resize(count, vibespatial::WkbSlice {nullptr, 0});
		vibespatial::GroupedOverlay groups;
		vector<idx_t> numbers;
		vector<vibespatial::WkbSlice> members;
		for (idx_t i = 0; i < count; i++) {
			scope.Check();
			states[i]->List(members);
			WithFunctionName(bind.name, [&]() {
				if (!members.empty() && !vibespatial::GroupedOverlay::IsTooLarge(members.data(), members.size()) &&
				    groups.Add(members.data(), members.size())) {
					numbers.push_back(i);
				}
			});
			if (groups.Vertices() >= vibespatial::GroupedOverlay::ENOUGH || i + 1 == count) {
				Unite(bind, groups, numbers);
			}
		}
	}
	UnitedGroups(const UnitedGroups &) = delete;
	UnitedGroups &operator=(const UnitedGroups &) = delete;

	//! The result of a row, or null
	const vibespatial::WkbSlice *Find(idx_t row) const {
		return made.empty() || made[row - offset].size == 0 ? nullptr : &made[row - offset];
	}

	//! Those of the vector that the calling thread finalizes
	static thread_local const UnitedGroups *current;

private:
	void Unite(const AggregateBindData &bind, vibespatial::GroupedOverlay &groups, vector<idx_t> &numbers) {
		if (groups.Groups() > 0 && OverlayDispatch::WouldTake(bind.context, groups.Groups(), groups.Vertices())) {
			const auto pinned = bind.Pinned();
			OverlayDispatch device(bind.context, pinned.get());
			vibespatial::PagesVector<uint8_t> wkb;
			const auto begins = device.Unite(groups, wkb);
			for (idx_t i = 0; i + 1 < begins.size(); i++) {
				made[numbers[i]] = vibespatial::WkbSlice {wkb.data() + begins[i], begins[i + 1] - begins[i]};
			}
			united.push_back(std::move(wkb));
		}
		groups = vibespatial::GroupedOverlay();
		numbers.clear();
	}

	const idx_t offset;
	std::vector<vibespatial::PagesVector<uint8_t>> united;
	//! Of each group, in `united`
	vector<vibespatial::WkbSlice> made;
};

thread_local const UnitedGroups *UnitedGroups::current = nullptr;

//! The geometry of scratch.members, of which there is at least one, as a string of `result`
using make_geometry_t = string_t (*)(const AggregateBindData &bind, AggregateScratch &scratch, Vector &result);

string_t MakeUnion(const AggregateBindData &, AggregateScratch &scratch, Vector &result) {
	scratch.overlay.Begin();
	return scratch.overlay.Unite(scratch.members, result, scratch.pinned, scratch.numbers);
}

//! An aggregate that keeps all geometries of a group and makes one of them at the end
template <make_geometry_t MAKE>
struct GeometryAggregate {
	template <class STATE>
	static void Initialize(STATE &state) {
		state.first = nullptr;
		state.last = nullptr;
	}
	static bool IgnoreNull() {
		return true;
	}
	template <class INPUT, class STATE, class OP>
	static void Operation(STATE &state, const INPUT &wkb, AggregateUnaryInput &input) {
		state.Add(input.input.allocator, wkb.GetData(), wkb.GetSize());
	}
	template <class INPUT, class STATE, class OP>
	static void ConstantOperation(STATE &state, const INPUT &wkb, AggregateUnaryInput &input, idx_t count) {
		for (idx_t i = 0; i < count; i++) {
			Operation<INPUT, STATE, OP>(state, wkb, input);
		}
	}
	template <class STATE, class OP>
	static void Combine(const STATE &source, STATE &target, AggregateInputData &input) {
		if (!source.first) {
			return;
		}
		if (input.combine_type == AggregateCombineType::ALLOW_DESTRUCTIVE) {
			// The arenas of both live until the end
			target.Append(source.first, source.last);
			return;
		}
		const auto last = source.last;
		for (auto member = source.first;; member = member->next) {
			target.Add(input.allocator, member->Data(), member->size);
			if (member == last) {
				return;
			}
		}
	}
	template <class RESULT, class STATE>
	static void Finalize(STATE &state, RESULT &target, AggregateFinalizeData &finalize) {
		if (!state.first) {
			finalize.ReturnNull();
			return;
		}
		auto united = UnitedGroups::current;
		if (auto wkb = united ? united->Find(finalize.result_idx) : nullptr) {
			target = EmitWkb(finalize.result, wkb->size, [&](WkbOutput out) { out.Bytes(wkb->data, wkb->size); });
			return;
		}
		auto &bind = Bound(finalize.input);
		const auto pinned = bind.Pinned();
		target = Make(bind, finalize.result, [&](AggregateScratch &scratch) {
			scratch.pinned = pinned.get();
			state.List(scratch.members);
		});
	}
	//! Groups that are too small for a device by themselves are united many at once. The type of the input differs between versions of
	//! DuckDB.
	template <class INPUT>
	static void FinalizeTogether(Vector &states, INPUT &input, Vector &result, idx_t count, idx_t offset) {
		const auto pinned = Bound(input).Pinned();
		if (pinned && pinned->HasRows()) {
			FinalizeGroups<MemberList, string_t, RowNumbers>(states, input, result, count, offset);
			return;
		}
		// A query without groups has one state
		const bool many = states.GetVectorType() == VectorType::FLAT_VECTOR;
		const UnitedGroups united(Bound(input),
		                          many ? FlatVector::GetData<MemberList *>(states)
		                               : ConstantVector::GetData<MemberList *>(states),
		                          many ? count : 1, many ? offset : 0);
		struct Current {
			explicit Current(const UnitedGroups &united) {
				UnitedGroups::current = &united;
			}
			~Current() {
				UnitedGroups::current = nullptr;
			}
		} current(united);
		FinalizeGroups<MemberList, string_t, GeometryAggregate>(states, input, result, count, offset);
	}

	// A segment tree would copy the rows of a frame for every row; here they are kept once for the whole partition
	static void InitWindow(AggregateInputData &input, const WindowPartitionInput &partition, data_ptr_t state) {
		auto rows = reinterpret_cast<vibespatial::WkbSlice *>(
		    input.allocator.AllocateAligned(MaxValue<idx_t>(partition.count, 1) * sizeof(vibespatial::WkbSlice)));
		reinterpret_cast<PartitionRows *>(state)->rows = rows;
		ColumnDataScanState scan;
		DataChunk chunk;
		partition.inputs->InitializeScan(scan, partition.column_ids);
		partition.inputs->InitializeScanChunk(scan, chunk);
		idx_t row = 0;
		while (partition.inputs->Scan(scan, chunk)) {
			UnifiedVectorFormat format;
			chunk.data[0].ToUnifiedFormat(chunk.size(), format);
			auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
			for (idx_t i = 0; i < chunk.size(); i++, row++) {
				const auto index = format.sel->get_index(i);
				rows[row] = vibespatial::WkbSlice {nullptr, 0};
				if (format.validity.RowIsValid(index) && partition.filter_mask.RowIsValid(row)) {
					auto &wkb = geometries[index];
					auto copy = input.allocator.Allocate(wkb.GetSize());
					memcpy(copy, wkb.GetData(), wkb.GetSize());
					rows[row] = vibespatial::WkbSlice {copy, wkb.GetSize()};
				}
			}
		}
	}
	static void Window(AggregateInputData &input, const WindowPartitionInput &, const_data_ptr_t partition, data_ptr_t,
	                   const SubFrames &frames, Vector &result, idx_t row) {
		auto rows = reinterpret_cast<const PartitionRows *>(partition)->rows;
		bool any = false;
		for (auto &frame : frames) {
			for (auto i = frame.start; i < frame.end && !any; i++) {
				any = rows[i].data != nullptr;
			}
		}
		if (!any) {
			FlatVector::SetNull(result, row, true);
			return;
		}
		MutableData<string_t>(result)[row] = Make(Bound(input), result, [&](AggregateScratch &scratch) {
			for (auto &frame : frames) {
				for (auto i = frame.start; i < frame.end; i++) {
					if (rows[i].data) {
						scratch.members.push_back(rows[i]);
					}
				}
			}
		});
	}

	static AggregateFunction Function() {
		auto function = AggregateFunction::UnaryAggregate<MemberList, string_t, string_t, GeometryAggregate>(
		    LogicalType::GEOMETRY(), LogicalType::GEOMETRY());
		function.SetBindCallback(AggregateBind<BindAggregate>);
		function.SetWindowInitCallback(InitWindow);
		function.SetWindowCallback(Window);
		if (MAKE == MakeUnion) {
			function.SetStateFinalizeCallback(FinalizeTogether);
		} else {
			function.SetStateFinalizeCallback(FinalizeGroups<MemberList, string_t, GeometryAggregate>);
		}
		return function;
	}

	//! fill(scratch) brings the members
	template <class FILL>
	static string_t Make(const AggregateBindData &bind, Vector &result, FILL &&fill) {
		QueryScope scope(bind.context);
		scope.Check();
		auto scratch = bind.pool->Take();
		scratch->Clear();
		fill(*scratch);
		auto made = Logged(bind, scratch->members.size(),
		                   [&] { return WithFunctionName(bind.name, [&]() { return MAKE(bind, *scratch, result); }); });
		bind.pool->Give(std::move(scratch));
		return made;
	}
};

string_t MakeCollection(const AggregateBindData &, AggregateScratch &scratch, Vector &result) {
	return EmitCollection(result, scratch.members);
}

//! Pair by pair, from the smallest on, so that neither the order of the rows matters nor how they are written: polygons may have
//! lines and points in common
string_t MakeIntersection(const AggregateBindData &, AggregateScratch &scratch, Vector &result) {
	using vibespatial::WkbSlice;
	auto &overlay = scratch.overlay;
	vector<std::pair<uint64_t, WkbSlice>> keyed;
	for (auto member : scratch.members) {
		vibespatial::PollCall(member.size);
		keyed.emplace_back(vibespatial::EdgeHash(member.data, member.size), member);
	}
	std::sort(keyed.begin(), keyed.end(), [](const auto &left, const auto &right) {
		if (left.second.size != right.second.size || left.first != right.first) {
			return std::tie(left.second.size, left.first) < std::tie(right.second.size, right.first);
		}
		return memcmp(left.second.data, right.second.data, left.second.size) < 0;
	});
	// Once is enough: where lines cross is rounded, and what was rounded is seldom on the same line again
	vector<WkbSlice> members;
	for (idx_t i = 0; i < keyed.size(); i++) {
		auto member = keyed[i].second;
		if (i == 0 || keyed[i].first != keyed[i - 1].first || member.size != members.back().size ||
		    !vibespatial::SameEdges(member.data, member.size, members.back().data, members.back().size)) {
			members.push_back(member);
		}
	}
	vibespatial::OverlayRule rule;
	overlay.Begin();
	overlay.Add(vibespatial::Overlay::LEFT, members[0]);
	auto common = vibespatial::WriteWkb(overlay.Run(rule), 0);
	rule.op = vibespatial::OverlayOp::INTERSECTION;
	vibespatial::Poll poll;
	for (idx_t i = 1; i < members.size(); i++) {
		poll(common.size() + members[i].size);
		overlay.Begin();
		overlay.Add(vibespatial::Overlay::LEFT,
		            vibespatial::WkbSlice {reinterpret_cast<const uint8_t *>(common.data()), common.size()});
		overlay.Add(vibespatial::Overlay::RIGHT, members[i]);
		common = vibespatial::WriteWkb(overlay.Run(rule), 0);
	}
	return EmitWkb(result, common);
}

//===----------------------------------------------------------------------===//
// Into the catalog
//===----------------------------------------------------------------------===//
//! The ST_ names are remembered
class AggregateRegistration {
public:
	explicit AggregateRegistration(ExtensionLoader &loader) : loader(loader) {
	}
	//! `example`: rows after VALUES and what is made of them
	void Add(const string &name, const string &description, const string &values, const string &example,
	         AggregateFunction function) {
		SqlFunction(name, description)
		    .Category("aggregate")
		    .Example("(SELECT " + name + "(g) FROM (VALUES " + values + ") t(g))", example)
		    .Aggregate({{"geom", LogicalType::GEOMETRY()}}, std::move(function))
		    .Register(loader);
		names.push_back(name);
	}
	//! For aggregates that neither the order nor repeats of rows change
	void AddSet(const string &name, const string &description, const string &values, const string &example,
	            AggregateFunction function) {
		function.SetOrderDependent(AggregateOrderDependent::NOT_ORDER_DEPENDENT);
		function.SetDistinctDependent(AggregateDistinctDependent::NOT_DISTINCT_DEPENDENT);
		Add(name, description, values, example, std::move(function));
	}
	vector<string> names;

private:
	ExtensionLoader &loader;
};

} // namespace

bool IsUnionAggregate(const Expression &expr) {
	if (expr.GetExpressionClass() != ExpressionClass::BOUND_AGGREGATE) {
		return false;
	}
	auto &aggregate = expr.Cast<BoundAggregateExpression>();
	const bool is_ours = FunctionOf(aggregate).GetBindCallback() == AggregateBind<BindAggregate>;
	return is_ours && OnCpu(FunctionName(aggregate)).may_use_device;
}

namespace {

class AggregateRowUnion : public RowUnion {
public:
	explicit AggregateRowUnion(const AggregateBindData &bind) : bind(bind.Copy()) {
	}
	string_t Unite(const PinnedPolygons &pinned, const uint32_t *numbers, idx_t count, Vector &result) override {
		return GeometryAggregate<MakeUnion>::Make(bind->Cast<AggregateBindData>(), result,
		                                          [&](AggregateScratch &scratch) {
			                                          scratch.pinned = pinned;
			                                          scratch.numbers.assign(numbers, numbers + count);
			                                          for (auto number : scratch.numbers) {
				                                          scratch.members.push_back(pinned.Wkb(number));
			                                          }
		                                          });
	}

private:
	const unique_ptr<FunctionData> bind;
};

} // namespace

unique_ptr<RowUnion> ReadPinnedUnion(Expression &expr, const shared_ptr<PinnedUnion> &found) {
	auto &bind = BindDataOf(expr.Cast<BoundAggregateExpression>())->Cast<AggregateBindData>();
	bind.pinned = found;
	return make_uniq<AggregateRowUnion>(bind);
}

void RegisterAggregates(ExtensionLoader &loader) {
	AggregateRegistration registration(loader);
	const string points = "('POINT (0 1)'::GEOMETRY), ('POINT (2 3)')";
	const string squares = "(ST_MakeEnvelope(0, 0, 2, 1)), (ST_MakeEnvelope(1, 0, 3, 1))";
	const string box = "POLYGON ((0 1, 0 3, 2 3, 2 1, 0 1))";
	for (auto name : {"ST_Extent_Agg", "ST_Envelope_Agg"}) {
		registration.AddSet(name,
		                    "The smallest rectangle around all geometries, as a polygon; NULL where there is no "
		                    "vertex.",
		                    points, box, ExtentAggregate::Function());
	}
	registration.Add("ST_Collect_Agg",
	                 "All geometries in one: a multi geometry of points, of lines or of polygons, else a "
	                 "collection. EMPTY ones are left out, nothing is merged.",
	                 points, "MULTIPOINT (0 1, 2 3)", GeometryAggregate<MakeCollection>::Function());
	registration.AddSet("ST_Union_Agg",
	                    "The union of all geometries: what lies in any of them, without overlaps or inner edges. "
	                    "EMPTY ones add nothing.",
	                    squares, "POLYGON ((0 0, 1 0, 2 0, 3 0, 3 1, 2 1, 1 1, 0 1, 0 0))",
	                    GeometryAggregate<MakeUnion>::Function());
	registration.AddSet("ST_CoverageUnion_Agg",
	                    "The union of the polygons of a coverage, which share edges and do not overlap. The same as "
	                    "ST_Union_Agg, even if the input is not a coverage.",
	                    "(ST_MakeEnvelope(0, 0, 1, 1)), (ST_MakeEnvelope(1, 0, 2, 1))",
	                    "POLYGON ((0 0, 1 0, 2 0, 2 1, 1 1, 0 1, 0 0))", GeometryAggregate<MakeUnion>::Function());
	registration.AddSet("ST_Intersection_Agg", "What lies in every one of the geometries.", squares,
	                    "POLYGON ((1 0, 2 0, 2 1, 1 1, 1 0))", GeometryAggregate<MakeIntersection>::Function());
	YieldAggregates(loader, std::move(registration.names), AggregateBind<BindAggregate>);
}

} // namespace duckdb
