//===----------------------------------------------------------------------===//
// engine/gpu/interface/neighbours.hpp
//
// Nearest neighbours on the GPU, tile by tile. What is searched among is a build side (engine/gpu/interface/join.hpp), or a pinned table
// (engine/gpu/interface/pinned.hpp).
// Promise: the rows and distances of engine/join/knn.hpp, except for rows that the device leaves to the CPU.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/join.hpp"
#include "vibe/nearest.h"

#include <vector>

namespace vibespatial {

//! What was found for the rows of a tile; valid until the next Begin()
struct GpuNeighbours {
	struct Column {
		const uint8_t *values;
		//! Not 0 where a row is NULL; null for points
		const uint8_t *nulls;
	};
	//! Neighbours number [n * ranks, (n + 1) * ranks) of all rows
	struct Block {
		const double *distances;
		const uint32_t *rows;
		//! Of pinned rows: the columns that were asked for
		std::vector<Column> columns;
	};

	//! Rows of the tile
	size_t count = 0;
	//! How many neighbours each row has; vibe::NEAREST_OPEN: the CPU has to search
	const uint32_t *found = nullptr;
	size_t ranks = 1;
	std::vector<Block> blocks;
	GpuTimes times;

	double Distance(size_t row, size_t n) const {
		return blocks[n / ranks].distances[n % ranks * count + row];
	}
	//! Of pinned rows, a PinnedNumbers
	uint32_t Row(size_t row, size_t n) const {
		return blocks[n / ranks].rows[n % ranks * count + row];
	}
	//! The value of a pinned column, of so many bytes, or null
	const uint8_t *Value(size_t row, size_t n, size_t column, size_t width) const {
		const auto &from = blocks[n / ranks].columns[column];
		const size_t at = n % ranks * count + row;
		return from.nulls && from.nulls[at] != 0 ? nullptr : from.values + at * width;
	}
};

//! A search for neighbours: one tile at a time, for one thread. The first k by (distance, row), none farther away than `most`.
class GpuSearch {
public:
	virtual ~GpuSearch() = default;

	//! The results of a tile take 12 bytes for each of its rows and neighbours
	static constexpr uint32_t MAX_K = 1000;

	//! Pinned memory for so many points; valid as long as the search
	virtual vibe::Vec2 *Points(size_t capacity) = 0;
	//! Pinned memory for a block of ShapeRows. Throws GpuError.
	virtual uint8_t *Block(size_t number) = 0;
	//! Pinned memory of arguments and results
	virtual uint64_t HostBytes() const = 0;
	//! Starts to search for the points that were written to Points(), or for these shapes, which must not change until Finish(). Returns at
	//! once. Throws GpuError.
	virtual void BeginPoints(size_t count) = 0;
	virtual void BeginShapes(const ShapeRows &shapes) = 0;
	//! Waits for it. Throws GpuError.
	virtual const GpuNeighbours &Finish() = 0;
};

} // namespace vibespatial
