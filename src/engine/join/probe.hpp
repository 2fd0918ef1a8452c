//===----------------------------------------------------------------------===//
// engine/join/probe.hpp
//
// Promise: exact. Finds the pairs of probe and build rows that meet a spatial condition: the same pairs as calling the
// scalar functions for all of them. The index of the build side yields candidates, and each is decided exactly.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/point_locator.hpp"
#include "engine/join/index.hpp"
#include "engine/join/tuning.hpp"
#include "engine/relate/relate.hpp"
#include "geometry/geometry_batch.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

//! Work done by the probes of one thread, or of all
struct JoinCounts {
	uint64_t candidates = 0;
	uint64_t cell_hits = 0; // pairs found in the cells
	uint64_t exact_tests = 0;

	void Add(const JoinCounts &other) {
		candidates += other.candidates;
		cell_hits += other.cell_hits;
		exact_tests += other.exact_tests;
	}
};

//! Probes a JoinIndex with one tile of rows at a time; used by one thread
class JoinProbe {
public:
	//! `poll` is called regularly, and throws to cancel
	JoinProbe(JoinIndex &index, std::function<void()> poll);

	//! The rows must stay valid until the tile is finished. `row_limits`: the distance limits of the rows, where the condition
	//! takes them from the probe side. Rows marked in `done` are skipped; rows may be marked while the tile is processed. `x`
	//! and `y`: the coordinates, where all rows are points and have been read already.
	void Begin(const JoinRow *tile, size_t count, const double *row_limits, const bool *done, const double *x = nullptr,
	           const double *y = nullptr);
	//! Instead of Begin(), for a caller that has candidates of its own: Test() decides one of them. `shape`: that of the only row, where the
	//! caller has it.
	void BeginTests(const JoinRow *tile, size_t count, const double *row_limits,
	                const vibe::ShapeView *shape = nullptr);
	bool Test(size_t tile_row, uint32_t build_row);
	//! Ends a row after its first pair
	void SetFirstOnly(bool value) {
		first_only = value;
	}
	//! Rows are probed in the order of the tile. Otherwise in an order that saves time.
	void SetOrdered(bool value) {
		ordered = value;
	}
	//! The next pairs, those of a probe row together, ordered by build row where SetOrdered(). 0 at the end of the tile.
	size_t Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity);
	//! How many candidates the row at hand has, and how many of them were looked at
	size_t Candidates() const {
		return candidates.size();
	}
	size_t CandidatesSeen() const {
		return candidate;
	}
	//! Keeps shapes of the build side when they are met for the first time, not the second
	void SetKeepShapes(bool value) {
		keeps_shapes = value;
	}
	//! Polls after so many units of work, about as many as 8 nanoseconds
	void SetWorkPerPoll(uint64_t value) {
		work_per_poll = value;
	}

	JoinCounts counts;

private:
	enum Kind : uint8_t { ABSENT, EMPTY, POINT, OTHER };

	size_t ReadRows();
	void SortRows();
	void LocateRun();
	bool NextRow();
	void FindCandidates(size_t row);
	bool Matches(uint32_t build_row);
	vibe::Location LocateInProbe(const vibe::ShapeView &probe, const vibe::Vec2 &point);
	bool HasVertexIn(const vibe::ShapeView &probe, uint32_t build_row);
	bool MatchesRelate(uint32_t build_row);
	bool MatchesDistance(const JoinTerm &term, uint32_t build_row);
	bool MatchesBoxes(uint32_t build_row);
	const vibe::ShapeView &ProbeShape();
	const vibe::ShapeView &BuildShapeOf(uint32_t build_row);
	bool BuildPoint(uint32_t build_row, vibe::Vec2 &point) const;
	double LimitOf(uint32_t build_row) const;

	JoinIndex &index;
	std::function<void()> poll;
	bool first_only = false;
	bool ordered = true;

	const JoinRow *tile = nullptr;
	size_t count = 0;
	const double *row_limits = nullptr;
	const bool *done = nullptr;
	std::vector<Kind> kinds;
	//! Coordinates of the rows that are points
	const double *xs = nullptr;
	const double *ys = nullptr;
	std::vector<double> own_x;
	std::vector<double> own_y;
	const CellIndex *cells = nullptr;
	const PolygonScan *polygons = nullptr;
	PolygonScan::FoundRows located;
	struct Hit {
		uint32_t probe;
		uint32_t build;
	};
	//! The pairs of a run of points, which need no further test
	UninitializedVector<Hit> hits;
	size_t next_hit = 0;
	size_t tile_points = 0;
	uint64_t tests_before = 0;
	PolygonScan::Lookup lookup;
	uint64_t nanoseconds_before = 0;

	//! The order in which rows are probed; empty: the order of the tile
	std::vector<uint32_t> order;
	std::vector<uint32_t> keys;
	std::vector<uint32_t> sorted;
	//! Number of rows probed so far
	size_t taken = 0;

	// The current row
	size_t row = 0;
	size_t candidate = 0;
	std::vector<uint32_t> candidates;
	//! The candidates need no further test
	bool certain = false;
	bool has_shape = false;
	const vibe::ShapeView *given_shape = nullptr;
	GeometryBatch batch;
	Shape shape;
	vibe::u32 zero = 0;
	vibe::Vec2 probe_point {};
	vibe::ShapeView point_view {};
	std::unique_ptr<PointLocator> locator;

	GeometryBatch build_batch;
	Shape build_shape;
	uint32_t built_row = UINT32_MAX;
	RelateScratch scratch;
	//! Units of work since the last poll
	uint64_t work = 0;
	uint64_t work_per_poll = join_tuning::WORK_PER_POLL;
	bool keeps_shapes = false;
};

} // namespace vibespatial
