#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/crs.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/query_scope.hpp"
#include "duckdb/support/wkb_output.hpp"

namespace duckdb {

namespace {

//! One geometry of a group, or several points that lie one after the other as they do in a MULTIPOINT. In the aggregate's arena,
//! which DuckDB counts; the bytes follow.
struct CollectBlock {
	CollectBlock *next;
	uint32_t used;
	//! 0: one geometry of any kind
	uint32_t capacity;

	uint8_t *Data() {
		return reinterpret_cast<uint8_t *>(this + 1);
	}
};

//! A group: its geometries as they came. Most groups of a large table are small, and DuckDB first makes several of each: the first
//! geometry is kept in the state where it is a point.
struct CollectState {
	double point[2];
	CollectBlock *first;
	CollectBlock *last;
	bool has_point;
	//! Whether there was a row, NULL or not
	bool any;

	bool IsEmpty() const {
		return !has_point && !first;
	}
	void Append(CollectBlock *begin, CollectBlock *end) {
		(last ? last->next : first) = begin;
		last = end;
	}
	CollectBlock &AddBlock(ArenaAllocator &arena, uint32_t capacity, idx_t bytes) {
		auto block = reinterpret_cast<CollectBlock *>(arena.AllocateAligned(sizeof(CollectBlock) + bytes));
		block->next = nullptr;
		block->used = 0;
		block->capacity = capacity;
		Append(block, block);
		return *block;
	}
	//! Of a point in XY that is not EMPTY
	void AddPoint(ArenaAllocator &arena, const void *coords) {
		constexpr uint32_t SIZE = vibespatial::WKB_POINT_SIZE;
		constexpr uint32_t MOST = 1024 * SIZE;
		if (IsEmpty()) {
			memcpy(point, coords, sizeof(point));
			has_point = true;
			return;
		}
		auto block = last;
		if (!block || block->used + SIZE > block->capacity) {
			const auto capacity = block && block->capacity ? MinValue(2 * block->capacity, MOST) : SIZE;
			block = &AddBlock(arena, capacity, capacity);
		}
		PutPoint(WkbOutput(char_ptr_cast(block->Data() + block->used)), coords);
		block->used += SIZE;
	}
	void Add(ArenaAllocator &arena, const uint8_t *wkb, uint32_t size) {
		if (vibespatial::IsPlainPoint(wkb, size)) {
			AddPoint(arena, wkb + WKB_HEADER_SIZE);
			return;
		}
		auto &block = AddBlock(arena, 0, size);
		memcpy(block.Data(), wkb, size);
		block.used = size;
	}
	static void PutPoint(WkbOutput out, const void *coords) {
		out.Header(vibespatial::GeometryType::POINT, vibespatial::VERTEX_XY);
		out.Bytes(coords, sizeof(point));
	}
};

struct CollectBindData : public FunctionData {
	explicit CollectBindData(ClientContext &context) : context(context) {
	}
	ClientContext &context;

	unique_ptr<FunctionData> Copy() const override {
		return make_uniq<CollectBindData>(context);
	}
	bool Equals(const FunctionData &) const override {
		return true;
	}
};

unique_ptr<FunctionData> BindCollect(ClientContext &context, BoundFunction &function,
                                     const vector<unique_ptr<Expression>> &arguments) {
	PropagateCrs(function, arguments);
	RequireGpu(context, "vibe_collect_list", "vibe_collect_list has no GPU variant");
	return make_uniq<CollectBindData>(context);
}

struct Vibe_CollectList {
	static constexpr const char *NAME = "vibe_collect_list";

	template <class STATE>
	static void Initialize(STATE &state) {
		state.first = nullptr;
		state.last = nullptr;
		state.has_point = false;
		state.any = false;
	}
	//! A list has them
	static bool IgnoreNull() {
		return false;
	}
	template <class INPUT, class STATE, class OP>
	static void Operation(STATE &state, const INPUT &wkb, AggregateUnaryInput &input) {
		state.any = true;
		if (input.RowIsValid()) {
			state.Add(input.input.allocator, WkbData(wkb), UnsafeNumericCast<uint32_t>(wkb.GetSize()));
		}
	}
	template <class INPUT, class STATE, class OP>
	static void ConstantOperation(STATE &state, const INPUT &wkb, AggregateUnaryInput &input, idx_t count) {
		for (idx_t i = 0; i < count; i++) {
			Operation<INPUT, STATE, OP>(state, wkb, input);
		}
	}
	template <class STATE, class OP>
	static void Combine(const STATE &source, STATE &target, AggregateInputData &input) {
		target.any = target.any || source.any;
		if (source.has_point) {
			target.AddPoint(input.allocator, source.point);
		}
		if (!source.first) {
			return;
		}
		if (input.combine_type == AggregateCombineType::ALLOW_DESTRUCTIVE) {
			// The arenas of both live until the end
			target.Append(source.first, source.last);
			return;
		}
		const auto last = source.last;
		for (auto block = source.first;; block = block->next) {
			auto &copy = target.AddBlock(input.allocator, block->capacity ? block->used : 0, block->used);
			memcpy(copy.Data(), block->Data(), block->used);
			copy.used = block->used;
			if (block == last) {
				return;
			}
		}
	}
	template <class RESULT, class STATE>
	static void Finalize(STATE &state, RESULT &target, AggregateFinalizeData &finalize) {
		if (!state.any) {
			finalize.ReturnNull();
			return;
		}
		idx_t bytes = state.has_point ? vibespatial::WKB_POINT_SIZE : 0;
		bool points = !state.IsEmpty();
		for (auto block = state.first; block; block = block->next) {
			bytes += block->used;
			points = points && block->capacity;
		}
		auto &context = finalize.input.bind_data->template Cast<CollectBindData>().context;
		if (CpuWork::IsLogged(context)) {
			static const auto ON_CPU = CpuFunction::Aggregate(NAME);
			idx_t rows = state.has_point ? 1 : 0;
			for (auto block = state.first; block; block = block->next) {
				rows += block->capacity ? block->used / vibespatial::WKB_POINT_SIZE : 1;
			}
			CpuWork(context, ON_CPU).Finish(rows);
		}
		if (points && bytes < vibespatial::LEAST_COUNTED) {
			target = MakePoints(state, bytes, finalize.result);
			return;
		}
		QueryScope scope(context);
		scope.Check();
		target = WithFunctionName(NAME, [&]() {
			return points ? MakePoints(state, bytes, finalize.result) : MakeCollection(state, finalize.result);
		});
	}

	static string_t MakePoints(const CollectState &state, idx_t bytes, Vector &result) {
		const auto size = WKB_HEADER_SIZE + WKB_COUNT_SIZE + bytes;
		RequireValueSize(size);
		return EmitWkb(result, size, [&](WkbOutput out) {
			out.Header(vibespatial::GeometryType::MULTIPOINT, vibespatial::VERTEX_XY);
			out.Count(UnsafeNumericCast<uint32_t>(bytes / vibespatial::WKB_POINT_SIZE));
			if (state.has_point) {
				CollectState::PutPoint(out, state.point);
				out = WkbOutput(char_ptr_cast(out.Position() + vibespatial::WKB_POINT_SIZE));
			}
			for (auto block = state.first; block; block = block->next) {
				out.Bytes(block->Data(), block->used);
			}
		});
	}

	static string_t MakeCollection(const CollectState &state, Vector &result) {
		std::vector<vibespatial::WkbSlice> members;
		char point[vibespatial::WKB_POINT_SIZE];
		if (state.has_point) {
			CollectState::PutPoint(WkbOutput(point), state.point);
			members.push_back(vibespatial::WkbSlice {const_data_ptr_cast(point), sizeof(point)});
		}
		for (auto block = state.first; block; block = block->next) {
			const size_t step = block->capacity ? vibespatial::WKB_POINT_SIZE : block->used;
			for (size_t at = 0; at < block->used; at += step) {
				members.push_back(vibespatial::WkbSlice {block->Data() + at, step});
			}
		}
		return EmitCollection(result, members);
	}

	static void Register(ExtensionLoader &loader) {
		auto function = AggregateFunction::UnaryAggregate<CollectState, string_t, string_t, Vibe_CollectList>(
		    LogicalType::GEOMETRY(), LogicalType::GEOMETRY());
		function.SetBindCallback(AggregateBind<BindCollect>);
		function.SetStateFinalizeCallback(FinalizeGroups<CollectState, string_t, Vibe_CollectList>);
		SqlFunction(NAME, "The same as ST_Collect(list(geom)), without a list: NULL where there is no row, an EMPTY "
		                  "collection where all are NULL or EMPTY. Queries with such a list run it by themselves.")
		    .Category("aggregate")
		    .Example("(SELECT vibe_collect_list(g) FROM (VALUES ('POINT (0 1)'::GEOMETRY), ('POINT (2 3)')) t(g))",
		             "MULTIPOINT (0 1, 2 3)")
		    .Aggregate({{"geom", LogicalType::GEOMETRY()}}, std::move(function))
		    .Register(loader);
	}
};

} // namespace

void RegisterCollectList(ExtensionLoader &loader) {
	Vibe_CollectList::Register(loader);
}

} // namespace duckdb
