//===----------------------------------------------------------------------===//
// engine/device_arrays/pieces.hpp
//
// Ranges of Arrow arrays of one type, which together are the rows of a column
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/device_arrays/arrow_c.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace vibespatial {

class ArrowPieces {
public:
	//! Bytes of a buffer
	struct Span {
		const uint8_t *at;
		size_t bytes;
	};

	//! The rows of an array
	void Add(const ArrowArray &array) {
		Add(array, array.offset, array.length);
	}
	size_t Count() const {
		return count;
	}
	//! The rows in groups of at most so many, each within one array
	std::vector<ArrowPieces> Cut(size_t rows) const;

	bool MayHaveNulls() const;
	//! A buffer of bits, without those of other rows; bits that are not there are 1, as those of a validity, those behind the last are 0
	std::vector<uint8_t> Bits(size_t buffer) const;
	//! Values of so many bytes
	std::vector<Span> Fixed(size_t width) const;
	//! The offsets of lists or bytes, from 0 on, with one more than there are rows
	std::vector<int64_t> Offsets(bool is_large) const;
	//! What the offsets lead to, in bytes or in the child
	std::vector<Span> Bytes(bool is_large) const;
	ArrowPieces Elements(bool is_large) const;
	//! The rows of a child that has `times` rows for one
	ArrowPieces Child(size_t child, size_t times) const;

	//! Calls value(row, bytes, size) or null(row)
	template <class VALUE, class NONE>
	void ForEachValue(bool is_large, VALUE &&value, NONE &&null) const {
		size_t row = 0;
		for (auto &piece : pieces) {
			const auto *validity = static_cast<const uint8_t *>(piece.array->buffers[0]);
			const auto *bytes = static_cast<const uint8_t *>(piece.array->buffers[2]);
			for (auto i = piece.begin; i < piece.begin + piece.count; i++, row++) {
				if (validity && (validity[i >> 3] >> (i & 7) & 1) == 0) {
					null(row);
					continue;
				}
				const auto begin = OffsetAt(*piece.array, is_large, i);
				value(row, bytes + begin, static_cast<size_t>(OffsetAt(*piece.array, is_large, i + 1) - begin));
			}
		}
	}

private:
	struct Piece {
		const ArrowArray *array;
		//! In the buffers of the array
		int64_t begin;
		int64_t count;
	};

	void Add(const ArrowArray &array, int64_t begin, int64_t rows);
	static int64_t OffsetAt(const ArrowArray &array, bool is_large, int64_t row) {
		if (is_large) {
			return static_cast<const int64_t *>(array.buffers[1])[row];
		}
		return static_cast<const int32_t *>(array.buffers[1])[row];
	}

	std::vector<Piece> pieces;
	size_t count = 0;
};

//! How many bits are 1
int64_t CountBits(const std::vector<uint8_t> &bits);

} // namespace vibespatial
