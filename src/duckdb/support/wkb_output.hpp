//===----------------------------------------------------------------------===//
// duckdb/support/wkb_output.hpp
//
// WKB into result vectors
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_edit.hpp"
#include "geometry/work_scope.hpp"

#include <cstring>

namespace duckdb {

inline const uint8_t *WkbData(const string_t &wkb) {
	return reinterpret_cast<const uint8_t *>(wkb.GetData());
}

inline vibespatial::WkbSlice Slice(const string_t &wkb) {
	return vibespatial::WkbSlice {WkbData(wkb), wkb.GetSize()};
}

//! Throws where a geometry is too large for a value
inline void RequireValueSize(size_t size) {
	if (size > NumericLimits<uint32_t>::Maximum()) {
		throw OutOfRangeException("A geometry of %llu bytes: a value has at most 4,294,967,295", size);
	}
}

//! Memory for a value of a result, which DuckDB does not count: as long as the function runs, its QueryScope does
inline void CountValue(size_t size) {
	if (size >= vibespatial::LEAST_COUNTED) {
		if (auto scope = vibespatial::WorkScope::Current()) {
			scope->Hold(size);
		}
	}
}

//! A finished WKB as a string of `vector`
inline string_t EmitWkb(Vector &vector, const std::string &wkb) {
	RequireValueSize(wkb.size());
	CountValue(wkb.size());
	return StringVector::AddStringOrBlob(vector, wkb.data(), wkb.size());
}

//! Writes WKB front to back into memory of the right size
class WkbOutput {
public:
	explicit WkbOutput(char *out) : out(out) {
	}
	void Header(vibespatial::GeometryType type, uint8_t vertex_type) {
		*out++ = 1;
		Put(uint32_t(type) + 1000u * vertex_type);
	}
	void Count(uint32_t count) {
		Put(count);
	}
	void Ordinate(double value) {
		Put(value);
	}
	void Bytes(const void *data, size_t size) {
		if (size > 0) {
			std::memcpy(out, data, size);
		}
		out += size;
	}
	//! For those who write the rest by themselves
	uint8_t *Position() const {
		return data_ptr_cast(out);
	}

private:
	template <class T>
	void Put(T value) {
		std::memcpy(out, &value, sizeof(value));
		out += sizeof(value);
	}

	char *out;
};

constexpr idx_t WKB_HEADER_SIZE = 5;
constexpr idx_t WKB_COUNT_SIZE = 4;

//! The WKB of a geometry as a string of `vector`, filled by `write(WkbOutput)`
template <class WRITE>
string_t EmitWkb(Vector &vector, idx_t size, WRITE &&write) {
	CountValue(size);
	auto result = StringVector::EmptyString(vector, size);
	write(WkbOutput(result.GetDataWriteable()));
	result.Finalize();
	return result;
}

//! What ST_Collect makes of geometries, from which it takes NULL and EMPTY ones, as a string of `vector`
inline string_t EmitCollection(Vector &vector, std::vector<vibespatial::WkbSlice> &geometries) {
	const vibespatial::Collection collection(geometries);
	RequireValueSize(collection.Size());
	return EmitWkb(vector, collection.Size(), [&](WkbOutput out) { collection.Write(out.Position()); });
}

//! The WKB of a row of a batch as a string of `vector`
inline string_t EmitRow(Vector &vector, const vibespatial::GeometryBatch &batch, idx_t row = 0) {
	const auto size = vibespatial::WkbSize(batch, row);
	RequireValueSize(size);
	CountValue(size);
	auto result = StringVector::EmptyString(vector, size);
	vibespatial::WriteWkb(batch, row, reinterpret_cast<uint8_t *>(result.GetDataWriteable()));
	result.Finalize();
	return result;
}

//! Strings of one size for all rows of a vector in a single allocation. Filling is the caller's business and comes
//! before Row(), which takes the first bytes into the string_t.
class WkbColumn {
public:
	WkbColumn(Vector &vector, idx_t rows, idx_t size)
	    : size(size), data(StringVector::EmptyString(vector, rows * size).GetDataWriteable()) {
	}
	char *Data(idx_t row) {
		return data + row * size;
	}
	string_t Row(idx_t row) {
		return string_t(data + row * size, UnsafeNumericCast<uint32_t>(size));
	}

private:
	idx_t size;
	char *data;
};

//! The rectangle as `spatial` writes it: from the lower left corner, clockwise
inline void PutEnvelope(WkbOutput out, double min_x, double min_y, double max_x, double max_y) {
	out.Header(vibespatial::GeometryType::POLYGON, vibespatial::VERTEX_XY);
	out.Count(1);
	out.Count(5);
	const double corners[] = {min_x, min_y, min_x, max_y, max_x, max_y, max_x, min_y, min_x, min_y};
	out.Bytes(corners, sizeof(corners));
}
constexpr idx_t ENVELOPE_SIZE = WKB_HEADER_SIZE + 2 * WKB_COUNT_SIZE + 10 * sizeof(double);

} // namespace duckdb
