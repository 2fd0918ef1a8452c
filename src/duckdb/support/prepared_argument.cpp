#include "duckdb/support/prepared_argument.hpp"

#include "duckdb/support/crs.hpp"
#include "duckdb/execution/expression_executor_state.hpp"
#include "duckdb/support/wkb_output.hpp"

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

void GeometryArgument::Begin(Vector &vector, PreparedCache &cache_p) {
	cache = cache_p;
	built = nullptr;
	constant = vector.GetVectorType() == VectorType::CONSTANT_VECTOR && !ConstantVector::IsNull(vector);
	if (constant) {
		constant_wkb = *ConstantVector::GetData<string_t>(vector);
		constant_is_point = ReadPoint(constant_wkb, constant_point);
	}
	if (prepared && (!constant || !prepared->Is(WkbData(constant_wkb), constant_wkb.GetSize()))) {
		prepared.reset();
	}
}

const PreparedGeometry *GeometryArgument::Prepare() {
	prepared = cache->Get(constant_wkb);
	return prepared.get();
}

const vibe::ShapeView &GeometryArgument::GetShape(const string_t &wkb) {
	if (constant) {
		return GetPrepared()->View();
	}
	if (ReadPoint(wkb, point)) {
		point_view = vibe::ShapeOfPoint(&point, &zero);
		return point_view;
	}
	if (built != wkb.GetData() || wkb.IsInlined()) {
		built = nullptr;
		vibespatial::BuildShape(WkbData(wkb), wkb.GetSize(), scratch, shape);
		built = wkb.GetData();
	}
	return shape.View();
}

PreparedLocalState &PreparedLocalState::Begin(DataChunk &args, ExpressionState &state) {
	auto &local = ExecuteFunctionState::GetFunctionState(state)->Cast<PreparedLocalState>();
	auto &cache = *BindDataOf(state.expr.Cast<BoundFunctionExpression>())->Cast<PreparedBindData>().cache;
	local.left.Begin(args.data[0], cache);
	local.right.Begin(args.data[1], cache);
	return local;
}

static unique_ptr<FunctionData> MakePrepared(ClientContext &) {
	return make_uniq<PreparedBindData>(make_shared_ptr<PreparedCache>());
}

static unique_ptr<FunctionLocalState> InitPrepared(ExpressionState &, const BoundFunctionExpression &, FunctionData *) {
	return make_uniq<PreparedLocalState>();
}

void PreparedArguments(ScalarFunction &function) {
	SetBind<PropagateCrs, MakePrepared>(function);
	SetInitLocalState(function, InitPrepared);
}

} // namespace duckdb
