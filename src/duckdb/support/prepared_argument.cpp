#include "duckdb/support/prepared_argument.hpp"

#include "duckdb/support/crs.hpp"
#include "duckdb/execution/expression_executor_state.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/measure/distance.hpp"

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

void GeometryArgument::Begin(Vector &vector, bool repeated, PreparedCache &cache_p) {
	cache = cache_p;
	built = nullptr;
	passed = nullptr;
	constant = repeated && vector.GetVectorType() == VectorType::CONSTANT_VECTOR && !ConstantVector::IsNull(vector);
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

const vibe::ShapeView &GeometryArgument::GetShapeIn(const vibe::Box &window, const string_t &wkb,
                                                    vibespatial::Shape::WindowProbe *probe) {
	built = nullptr;
	if (shape.BuildInWindow(WkbData(wkb), wkb.GetSize(), window, probe)) {
		passed = wkb.GetData();
		return shape.View();
	}
	return GetShape(wkb);
}

using Pair = PreparedLocalState::Pair;

Pair PreparedLocalState::WindowPair(const string_t &geom1, const string_t &geom2, double reach) {
	const auto window = [&](const vibe::Box &box) { return reach > 0 ? vibespatial::NearWindow(box, reach) : box; };
	const bool left_large = left.IsLarge(geom1), right_large = right.IsLarge(geom2);
	if (left_large && right_large) {
		auto box1 = vibe::Box::Empty(), box2 = vibe::Box::Empty();
		vibespatial::WkbBounds(WkbData(geom1), geom1.GetSize(), box1);
		vibespatial::WkbBounds(WkbData(geom2), geom2.GetSize(), box2);
		return Pair {left.GetShapeIn(window(box2), geom1), right.GetShapeIn(window(box1), geom2)};
	}
	if (left_large) {
		auto &small = right.GetShape(geom2);
		return Pair {left.GetShapeIn(window(small.box), geom1), small};
	}
	auto &small = left.GetShape(geom1);
	return Pair {small, right_large ? right.GetShapeIn(window(small.box), geom2) : right.GetShape(geom2)};
}

Pair PreparedLocalState::GetPair(const string_t &geom1, const string_t &geom2) {
	return WindowPair(geom1, geom2, 0);
}

std::optional<Pair> PreparedLocalState::FindPair(const string_t &geom1, const string_t &geom2, Question question) {
	const bool left_large = left.IsLarge(geom1);
	if (left_large == right.IsLarge(geom2)) {
		return WindowPair(geom1, geom2, 0);
	}
	auto &small = left_large ? right.GetShape(geom2) : left.GetShape(geom1);
	using Probe = vibespatial::Shape::WindowProbe;
	const auto until = question == Question::MEET                           ? Probe::MEET
	                   : question == Question::INTERIORS                    ? Probe::INTERIORS
	                   : left_large == (question == Question::LEFT_OUTSIDE) ? Probe::GEOMETRY_OUTSIDE
	                                                                        : Probe::AREA_OUTSIDE;
	Probe probe {small, until};
	auto &large = left_large ? left.GetShapeIn(small.box, geom1, &probe) : right.GetShapeIn(small.box, geom2, &probe);
	reach = probe.reach;
	if (probe.found) {
		return {};
	}
	return left_large ? Pair {large, small} : Pair {small, large};
}

std::optional<Pair> PreparedLocalState::FindNear(const string_t &geom1, const string_t &geom2, double limit) {
	const bool left_large = left.IsLarge(geom1);
	if (left_large == right.IsLarge(geom2)) {
		return Pair {left.GetShape(geom1), right.GetShape(geom2)};
	}
	if (limit >= 0) {
		return WindowPair(geom1, geom2, limit);
	}
	// What they have in common first: where there is nothing, the same pass has told how far to look
	const auto pair = FindPair(geom1, geom2, Question::MEET);
	if (!pair || vibespatial::Evaluate(vibe::PREDICATE_INTERSECTS, pair->left, pair->right, scratch)) {
		return {};
	}
	auto &large = left_large ? left : right;
	auto &large_wkb = left_large ? geom1 : geom2;
	auto &small = left_large ? pair->right : pair->left;
	if (!large.IsPartOf(large_wkb) || small.dimension < 0) {
		return pair;
	}
	auto &shape = large.GetShapeIn(vibespatial::NearWindow(small.box, reach), large_wkb);
	return left_large ? Pair {shape, small} : Pair {small, shape};
}

PreparedLocalState &PreparedLocalState::Begin(DataChunk &args, ExpressionState &state) {
	auto &local = ExecuteFunctionState::GetFunctionState(state)->Cast<PreparedLocalState>();
	auto &cache = *BindDataOf(state.expr.Cast<BoundFunctionExpression>())->Cast<PreparedBindData>().cache;
	// One pair of constants is not worth preparing either
	const bool repeated = args.size() > 1 || args.data[0].GetVectorType() != VectorType::CONSTANT_VECTOR ||
	                      args.data[1].GetVectorType() != VectorType::CONSTANT_VECTOR;
	local.left.Begin(args.data[0], repeated, cache);
	local.right.Begin(args.data[1], repeated, cache);
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
