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
	void Begin(Vector &vector, PreparedCache &cache);

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

	bool constant = false;
	string_t constant_wkb;
	bool constant_is_point = false;
	vibe::Vec2 constant_point {};
	optional_ptr<PreparedCache> cache;
	shared_ptr<const vibespatial::PreparedGeometry> prepared;
	// The last value that was not constant; dictionaries repeat them
	const char *built = nullptr;
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
};

//! For SqlFunction::Overload: the two arguments may have a CRS, and constants are prepared
void PreparedArguments(ScalarFunction &function);

} // namespace duckdb
