//===----------------------------------------------------------------------===//
// duckdb/prepared_argument.hpp
//
// The geometry arguments of functions on two geometries. A constant one is prepared once for the whole query.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/function/scalar_function.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "engine/cpu/prepared.hpp"
#include "engine/cpu/relate.hpp"

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
	void Begin(Vector &vector, idx_t count, PreparedCache &cache);

	bool IsNull(idx_t row) const {
		return !format.validity.RowIsValid(format.sel->get_index(row));
	}
	const string_t &Bytes(idx_t row) const {
		return values[format.sel->get_index(row)];
	}
	const uint8_t *Data(idx_t row) const {
		return const_data_ptr_cast(Bytes(row).GetData());
	}
	idx_t Size(idx_t row) const {
		return Bytes(row).GetSize();
	}
	//! The argument has one value for the whole chunk
	bool IsConstant() const {
		return constant;
	}
	//! The row is a POINT with finite coordinates
	bool GetPoint(idx_t row, vibe::Vec2 &point) const {
		auto &wkb = Bytes(row);
		auto data = wkb.GetData();
		// Little-endian and code 1, 1001, 2001 or 3001: a POINT, its X and Y first. Sizes of other types differ or
		// their codes do.
		if (wkb.GetSize() < POINT_SIZE || wkb.GetSize() > POINT_SIZE + 2 * sizeof(double) || data[0] != 1 ||
		    Load<uint32_t>(const_data_ptr_cast(data + 1)) % 1000 != 1) {
			return false;
		}
		point.x = Load<double>(const_data_ptr_cast(data + 5));
		point.y = Load<double>(const_data_ptr_cast(data + 13));
		return vibe::IsFinite(point.x) && vibe::IsFinite(point.y);
	}
	//! Throws vibespatial::GeometryError. Valid until the next call.
	const vibe::ShapeView &GetShape(idx_t row);
	//! The prepared constant, if the argument is one in this chunk
	const vibespatial::PreparedGeometry *GetPrepared();

private:
	static constexpr idx_t POINT_SIZE = 21;

	UnifiedVectorFormat format;
	const string_t *values = nullptr;
	bool constant = false;
	optional_ptr<PreparedCache> cache;
	shared_ptr<const vibespatial::PreparedGeometry> prepared;
	// The last row that was not constant; dictionaries repeat them
	const uint8_t *built = nullptr;
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
