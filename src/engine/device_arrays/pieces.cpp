#include "engine/device_arrays/pieces.hpp"

namespace vibespatial {

void ArrowPieces::Add(const ArrowArray &array, int64_t begin, int64_t rows) {
	// An array without rows may be without buffers
	if (rows > 0) {
		pieces.push_back(Piece {&array, begin, rows});
		count += static_cast<size_t>(rows);
	}
}

std::vector<ArrowPieces> ArrowPieces::Cut(size_t rows) const {
	std::vector<ArrowPieces> result;
	const auto most = static_cast<int64_t>(rows);
	for (auto &piece : pieces) {
		for (int64_t done = 0; done < piece.count; done += most) {
			result.emplace_back();
			result.back().Add(*piece.array, piece.begin + done, std::min(most, piece.count - done));
		}
	}
	return result;
}

bool ArrowPieces::MayHaveNulls() const {
	return std::any_of(pieces.begin(), pieces.end(), [](const Piece &piece) {
		return piece.array->null_count != 0 && piece.array->n_buffers > 0 && piece.array->buffers[0];
	});
}

std::vector<uint8_t> ArrowPieces::Bits(size_t buffer) const {
	std::vector<uint8_t> result((count + 7) / 8);
	size_t row = 0;
	for (auto &piece : pieces) {
		const auto *bits = static_cast<const uint8_t *>(piece.array->buffers[buffer]);
		for (int64_t i = 0; i < piece.count;) {
			const auto from = piece.begin + i;
			// Whole bytes where both are at the begin of one
			if ((row & 7) == 0 && (from & 7) == 0 && piece.count - i >= 8) {
				const auto bytes = static_cast<size_t>(piece.count - i) / 8;
				if (bits) {
					std::memcpy(result.data() + row / 8, bits + from / 8, bytes);
				} else {
					std::memset(result.data() + row / 8, 0xff, bytes);
				}
				row += bytes * 8;
				i += static_cast<int64_t>(bytes * 8);
				continue;
			}
			const uint8_t bit = bits ? bits[from >> 3] >> (from & 7) & 1 : 1;
			result[row >> 3] = static_cast<uint8_t>(result[row >> 3] | bit << (row & 7));
			row++;
			i++;
		}
	}
	return result;
}

std::vector<ArrowPieces::Span> ArrowPieces::Fixed(size_t width) const {
	std::vector<Span> spans;
	spans.reserve(pieces.size());
	for (auto &piece : pieces) {
		spans.push_back(
		    Span {static_cast<const uint8_t *>(piece.array->buffers[1]) + static_cast<size_t>(piece.begin) * width,
		          static_cast<size_t>(piece.count) * width});
	}
	return spans;
}

std::vector<int64_t> ArrowPieces::Offsets(bool is_large) const {
	std::vector<int64_t> offsets;
	offsets.reserve(count + 1);
	offsets.push_back(0);
	for (auto &piece : pieces) {
		const auto shift = offsets.back() - OffsetAt(*piece.array, is_large, piece.begin);
		for (int64_t i = 1; i <= piece.count; i++) {
			offsets.push_back(OffsetAt(*piece.array, is_large, piece.begin + i) + shift);
		}
	}
	return offsets;
}

std::vector<ArrowPieces::Span> ArrowPieces::Bytes(bool is_large) const {
	std::vector<Span> spans;
	for (auto &piece : pieces) {
		const auto begin = OffsetAt(*piece.array, is_large, piece.begin);
		const auto end = OffsetAt(*piece.array, is_large, piece.begin + piece.count);
		if (end > begin) {
			spans.push_back(
			    Span {static_cast<const uint8_t *>(piece.array->buffers[2]) + begin, static_cast<size_t>(end - begin)});
		}
	}
	return spans;
}

ArrowPieces ArrowPieces::Elements(bool is_large) const {
	ArrowPieces elements;
	for (auto &piece : pieces) {
		const auto &child = *piece.array->children[0];
		const auto begin = OffsetAt(*piece.array, is_large, piece.begin);
		elements.Add(child, child.offset + begin, OffsetAt(*piece.array, is_large, piece.begin + piece.count) - begin);
	}
	return elements;
}

ArrowPieces ArrowPieces::Child(size_t number, size_t times) const {
	ArrowPieces result;
	const auto each = static_cast<int64_t>(times);
	for (auto &piece : pieces) {
		const auto &child = *piece.array->children[number];
		result.Add(child, child.offset + piece.begin * each, piece.count * each);
	}
	return result;
}

int64_t CountBits(const std::vector<uint8_t> &bits) {
	int64_t count = 0;
	for (auto byte : bits) {
		count += __builtin_popcount(byte);
	}
	return count;
}

} // namespace vibespatial
