//===----------------------------------------------------------------------===//
// duckdb/knn/dispatch.hpp
//
// Which engine searches for neighbours: decided once for the operator, and logged in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "engine/gpu/interface/neighbours.hpp"
#include "engine/join/knn.hpp"

#include <atomic>
#include <functional>

namespace duckdb {

class PinnedRight;

class KnnDispatch : public OperatorDispatch {
public:
	//! `kernels`: what the search may need
	KnnDispatch(ClientContext &context, uint64_t k, double max_distance, const vibespatial::KernelNames &kernels);
	//! Writes the event
	~KnnDispatch();

	//! Once both sides are known: the right one, how many rows the left one has, and the first of them. Uploads the index if the GPU is
	//! selected; mode gpu waits for the device.
	void Decide(const vibespatial::KnnIndex &index, idx_t left_rows,
	            const std::vector<vibespatial::JoinRow> &first_rows, vibespatial::Parallel &parallel);
	//! The same where the right side is a pinned table, which has to stay until the end
	void DecidePinned(const PinnedRight &right, idx_t left_rows, const std::vector<vibespatial::JoinRow> &first_rows);
	//! Says in the log what became of a pinned table
	void AddNote(const string &note) {
		dispatch.AddNote(note);
	}
	//! Rows go to searches of NewSearch()
	bool OnGpu() const {
		return (build || pinned) && dispatch.OnGpu();
	}
	//! The right side is too large for the device: parts of it go there one after the other. 1 where it is not.
	idx_t PartCount() const {
		return part_count;
	}
	//! Searches of NewSearch() are among that part from now on. False where there are none any more: the CPU does all.
	bool UploadPart(const vibespatial::KnnIndex &part, vibespatial::Parallel &parallel);
	//! There was no memory for what was found in parts
	void LeaveParts(const string &why);
	//! All parts were searched
	void FinishParts();
	//! Other geometries than points go there, too
	bool TakesShapes() const {
		return dispatch.GetOperation() == vibespatial::Operation::KNN_SHAPES || (pinned && left_has_shapes);
	}
	//! There are some among the first rows
	bool LeftHasShapes() const {
		return left_has_shapes;
	}
	//! Throws GpuError
	std::unique_ptr<vibespatial::GpuSearch> NewSearch();
	//! Does something with a tile. False where the device failed: the CPU searches from then on, or for this tile where memory is short. In
	//! mode gpu a failure is an IOException. Any thread, several at a time.
	bool Try(const std::function<void()> &work);
	//! A tile that began then was searched for on the device; the CPU searched for so many rows of others, and of tiles
	void AddTile(TimePoint begin, const vibespatial::GpuTimes &times);
	void AddCpuRows(idx_t rows);

	//! Why a search for so many neighbours is not for the GPU
	static string TooMany();
	//! For EXPLAIN
	static string DescribePlan(ClientContext &context, idx_t left_rows, uint64_t k);
	//! For EXPLAIN ANALYZE
	string Describe() const {
		return dispatch.Describe();
	}

private:
	bool Upload(const vibespatial::KnnIndex &index, vibespatial::Parallel &parallel);
	idx_t CountParts(const vibespatial::KnnIndex &index) const;
	void Fail(const std::exception &error);

	const uint64_t k;
	const double max_distance;
	uint32_t device_k = 0;
	idx_t part_count = 1;
	bool left_has_shapes = false;
	vibespatial::Dispatch dispatch;
	std::shared_ptr<vibespatial::GpuBuild> build;
	optional_ptr<const PinnedRight> pinned;
	std::atomic<idx_t> cpu_rows {0};
	//! When rows could come out
	TimePoint ready;
};

} // namespace duckdb
