//===----------------------------------------------------------------------===//
// duckdb/support/prepared_argument.hpp
//
// The geometry arguments of functions on two geometries. A constant one is prepared once for the whole query.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/function/scalar_function.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/relate/relate.hpp"
#include "geometry/wkb.hpp"

#include <optional>

namespace duckdb {

//! The constants that one function call in a query has seen, shared by its threads
class PreparedCache {
public:
	shared_ptr<const vibespatial::PreparedGeometry> Get(const string_t &wkb);

private:
	static constexpr idx_t CAPACITY = 8;
	mutex lock;
	vector<shared_ptr<const vibespatial::PreparedGeometry>> entries;
	idx_t next = 0;
};

struct PreparedBindData : public FunctionData {
	explicit PreparedBindData(shared_ptr<PreparedCache> cache_p) : cache(std::move(cache_p)) {
	}
	shared_ptr<PreparedCache> cache;

	unique_ptr<FunctionData> Copy() const override {
		return make_uniq<PreparedBindData>(cache);
	}
	bool Equals(const FunctionData &) const override {
		return true;
	}
};

//! One of the two geometry arguments, over the chunks that one thread sees
class GeometryArgument {
public:
	//! `repeated`: the value of a constant vector is held against more than one other
	void Begin(Vector &vector, bool repeated, PreparedCache &cache);

	//! Large, and seen for the first time: one pass over its bytes is to do
	bool IsLarge(const string_t &wkb) const {
		return !constant && wkb.GetSize() >= LARGE && built != wkb.GetData() && passed != wkb.GetData();
	}
	//! The shape of a large value for what lies in a window (Shape::BuildInWindow)
	const vibe::ShapeView &GetShapeIn(const vibe::Box &window, const string_t &wkb,
	                                  vibespatial::Shape::WindowProbe *probe = nullptr);

	//! What was built last is not the whole of this value
	bool IsPartOf(const string_t &wkb) const {
		return passed == wkb.GetData() && built == nullptr;
	}

	//! The argument has one value for the whole chunk
	bool IsConstant() const {
		return constant;
	}
	//! The value is a POINT with finite coordinates
	bool GetPoint(const string_t &wkb, vibe::Vec2 &result) const {
		if (constant) {
			result = constant_point;
			return constant_is_point;
		}
		return ReadPoint(wkb, result);
	}
	//! Throws vibespatial::GeometryError. Valid until the next call.
	const vibe::ShapeView &GetShape(const string_t &wkb);
	//! The constant, prepared; null when the argument is none in this chunk. Throws vibespatial::GeometryError.
	const vibespatial::PreparedGeometry *GetPrepared() {
		return constant && !prepared ? Prepare() : prepared.get();
	}

private:
	static bool ReadPoint(const string_t &wkb, vibe::Vec2 &result) {
		return vibespatial::TryReadPoint(const_data_ptr_cast(wkb.GetData()), wkb.GetSize(), result);
	}
	const vibespatial::PreparedGeometry *Prepare();

	//! Bytes of a geometry that is worth a pass for one pair
	static constexpr idx_t LARGE = 16384;

	bool constant = false;
	string_t constant_wkb;
	bool constant_is_point = false;
	vibe::Vec2 constant_point {};
	optional_ptr<PreparedCache> cache;
	shared_ptr<const vibespatial::PreparedGeometry> prepared;
	// The last value that was not constant; dictionaries repeat them
	const char *built = nullptr;
	//! The last value of which a part was built. Another pair with it pays for the whole.
	const char *passed = nullptr;
	vibespatial::GeometryBatch scratch;
	vibespatial::Shape shape;
	vibe::Vec2 point {};
	vibe::u32 zero = 0;
	vibe::ShapeView point_view {};
};

//! What a thread keeps
struct PreparedLocalState : public FunctionLocalState {
	GeometryArgument left;
	GeometryArgument right;
	vibespatial::RelateScratch scratch;

	//! The state, with both arguments set to this chunk
	static PreparedLocalState &Begin(DataChunk &args, ExpressionState &state);

	//! Two geometries, of a large one that is seen once only what the question needs. Valid until the next call.
	struct Pair {
		const vibe::ShapeView &left;
		const vibe::ShapeView &right;
	};
	//! Do they meet, do their interiors, does one of them have points outside of the other?
	enum class Question : uint8_t { MEET, INTERIORS, LEFT_OUTSIDE, RIGHT_OUTSIDE };

	//! To relate. Throws vibespatial::GeometryError.
	Pair GetPair(const string_t &geom1, const string_t &geom2);
	//! The same; nothing where a look at some rings answers the question with yes
	std::optional<Pair> FindPair(const string_t &geom1, const string_t &geom2, Question question);
	//! To measure their distance, as far as a limit unless that is negative; nothing where they were seen to meet
	std::optional<Pair> FindNear(const string_t &geom1, const string_t &geom2, double limit);

private:
	//! Of large ones what the other's box shows, with a margin
	Pair WindowPair(const string_t &geom1, const string_t &geom2, double reach);

	//! WindowProbe::reach of the last contact that was not found
	double reach = 0;
};

//! For SqlFunction::Overload: the two arguments may have a CRS, and constants are prepared
void PreparedArguments(ScalarFunction &function);

} // namespace duckdb
