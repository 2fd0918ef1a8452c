#include "duckdb/prepared_argument.hpp"

#include "duckdb/crs.hpp"
#include "duckdb/execution/expression_executor_state.hpp"
#include "duckdb/wkb_output.hpp"

namespace duckdb {

using vibespatial::PreparedGeometry;

shared_ptr<const PreparedGeometry> PreparedCache::Get(const string_t &wkb) {
	lock_guard<mutex> guard(lock);
	for (auto &entry : entries) {
		if (entry->Is(WkbData(wkb), wkb.GetSize())) {
			return entry;
		}
	}
	auto entry = make_shared_ptr<const PreparedGeometry>(WkbData(wkb), wkb.GetSize());
	if (entries.size() < CAPACITY) {
		entries.push_back(entry);
	} else {
		entries[next] = entry;
		next = (next + 1) % CAPACITY;
	}
	return entry;
}

void GeometryArgument::Begin(Vector &vector, idx_t count, PreparedCache &cache_p) {
	constant = vector.GetVectorType() == VectorType::CONSTANT_VECTOR;
	vector.ToUnifiedFormat(count, format);
	values = UnifiedVectorFormat::GetData<string_t>(format);
	cache = cache_p;
	built = nullptr;
	if (prepared && (!constant || IsNull(0) || !prepared->Is(Data(0), Size(0)))) {
		prepared.reset();
	}
}

const PreparedGeometry *GeometryArgument::GetPrepared() {
	if (constant && !prepared) {
		prepared = cache->Get(Bytes(0));
	}
	return prepared.get();
}

const vibe::ShapeView &GeometryArgument::GetShape(idx_t row) {
	if (constant) {
		return GetPrepared()->View();
	}
	if (GetPoint(row, point)) {
		point_view = vibe::ShapeOfPoint(&point, &zero);
		return point_view;
	}
	if (built != Data(row)) {
		built = nullptr;
		vibespatial::BuildShape(Data(row), Size(row), scratch, shape);
		built = Data(row);
	}
	return shape.View();
}

PreparedLocalState &PreparedLocalState::Begin(DataChunk &args, ExpressionState &state) {
	auto &local = ExecuteFunctionState::GetFunctionState(state)->Cast<PreparedLocalState>();
	auto &cache = *state.expr.Cast<BoundFunctionExpression>().bind_info->Cast<PreparedBindData>().cache;
	local.left.Begin(args.data[0], args.size(), cache);
	local.right.Begin(args.data[1], args.size(), cache);
	return local;
}

static unique_ptr<FunctionData> BindPrepared(ClientContext &, ScalarFunction &bound_function,
                                             vector<unique_ptr<Expression>> &arguments) {
	PropagateCrs(bound_function, arguments);
	return make_uniq<PreparedBindData>(make_shared_ptr<PreparedCache>());
}

static unique_ptr<FunctionLocalState> InitPrepared(ExpressionState &, const BoundFunctionExpression &, FunctionData *) {
	return make_uniq<PreparedLocalState>();
}

void PreparedArguments(ScalarFunction &function) {
	function.bind = BindPrepared;
	function.init_local_state = InitPrepared;
}

} // namespace duckdb
