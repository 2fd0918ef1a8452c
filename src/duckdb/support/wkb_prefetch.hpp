//===----------------------------------------------------------------------===//
// duckdb/support/wkb_prefetch.hpp
//
// Asks for the bytes of rows before they are needed. DuckDB lays the strings of a segment out from its end, so a scan
// meets geometries at falling addresses, each read upwards: no hardware prefetcher follows that, and a measure of a
// few dozen vertices takes longer to load than to compute.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/support/wkb_output.hpp"

namespace duckdb {

//! Call Next() once for every row of an executor over `input`, in order. It does nothing for vectors that are not flat
//! or have NULLs, where executors leave rows out.
class WkbPrefetch {
public:
	//! What is needed of a row
	enum Part { ALL, HEAD, HEAD_AND_TAIL };

	WkbPrefetch(Vector &input, idx_t count_p, Part part = ALL) : part(part), count(0) {
		if (input.GetVectorType() == VectorType::FLAT_VECTOR && FlatVector::Validity(input).CheckAllValid(count_p)) {
			rows = FlatVector::GetData<string_t>(input);
			count = count_p;
			for (const auto ahead = part == ALL ? AHEAD : AHEAD_OF_FEW; next < ahead && next < count; next++) {
				Fetch(rows[next]);
			}
		}
	}
	void Next() {
		if (next < count) {
			Fetch(rows[next++]);
		}
	}

private:
	static constexpr idx_t AHEAD = 3;
	//! Rows of which a line or two are asked for: memory takes longer than the work on three of them
	static constexpr idx_t AHEAD_OF_FEW = 8;
	static constexpr idx_t LINE = 64;
	//! Beyond this the hardware has caught up within the row
	static constexpr idx_t MOST = 1024;

	//! Inlined by force: a function that only prefetches has no effect that g++ knows of, and it drops the call
	__attribute__((always_inline)) void Fetch(const string_t &wkb) const {
		const auto data = WkbData(wkb);
		const auto size = MinValue<idx_t>(wkb.GetSize(), part == ALL ? MOST : 1);
		for (idx_t at = 0; at < size; at += LINE) {
			__builtin_prefetch(data + at);
		}
		if (part == HEAD_AND_TAIL) {
			__builtin_prefetch(data + wkb.GetSize() - 1);
		}
	}

	const Part part;
	const string_t *rows = nullptr;
	idx_t count;
	idx_t next = 0;
};

} // namespace duckdb
