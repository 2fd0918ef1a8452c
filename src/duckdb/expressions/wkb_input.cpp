#include "duckdb/expressions/wkb_input.hpp"

#include "duckdb/common/types/geometry.hpp"
#include "duckdb/support/compat.hpp"
#include "geometry/wkb.hpp"

namespace duckdb {

namespace {

bool IsStored(Vector &source, idx_t count) {
	UnifiedVectorFormat format;
	ToUnified(source, count, format);
	auto rows = UnifiedVectorFormat::GetData<string_t>(format);
	const idx_t distinct = source.GetVectorType() == VectorType::CONSTANT_VECTOR ? MinValue<idx_t>(count, 1) : count;
	for (idx_t i = 0; i < distinct; i++) {
		auto row = format.sel->get_index(i);
		if (format.validity.RowIsValid(row) &&
		    !vibespatial::IsStoredWkb(const_data_ptr_cast(rows[row].GetData()), rows[row].GetSize())) {
			return false;
		}
	}
	return true;
}

void FromWkb(DataChunk &args, ExpressionState &, Vector &result) {
	auto &source = args.data[0];
	// Looking at the rows makes a vector of a rarer kind flat
	if (IsStored(source, args.size()) &&
	    (source.GetVectorType() == VectorType::FLAT_VECTOR || source.GetVectorType() == VectorType::CONSTANT_VECTOR ||
	     source.GetVectorType() == VectorType::DICTIONARY_VECTOR)) {
		result.Reinterpret(source);
		return;
	}
	Geometry::FromBinary(source, result, args.size(), true);
}

} // namespace

void ReadWkbInPlace(BoundFunctionExpression &call) {
	// In lower case it is DuckDB's own
	auto &arguments = ChildrenOf(call);
	if (FunctionName(call) == "st_geomfromwkb" && arguments.size() == 1 &&
	    ReturnTypeOf(*arguments[0]).id() == LogicalTypeId::BLOB && ReturnTypeOf(call).id() == LogicalTypeId::GEOMETRY) {
		SetExecute(MutableFunctionOf(call), FromWkb);
	}
}

} // namespace duckdb
