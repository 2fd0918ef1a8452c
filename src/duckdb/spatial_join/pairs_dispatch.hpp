//===----------------------------------------------------------------------===//
// duckdb/spatial_join/pairs_dispatch.hpp
//
// Which engine looks for the pairs of a spatial join: decided once for the operator, reported in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/pinned/side.hpp"
#include "duckdb/spatial_join/build.hpp"
#include "engine/join/session/pinned.hpp"

namespace duckdb {

//! A probe side that is on the device, and whose rows come out piece by piece
struct PinnedWork {
	//! The table may become invalid meanwhile: the rows stay those of the query
	std::shared_ptr<vibespatial::GpuPinned> device;
	vibespatial::PinnedProbe probe;
	shared_ptr<const HostColumn> shapes;
	unique_ptr<PinnedSide> side;
	//! None where rows are only counted
	std::vector<vibespatial::PinnedPiece> pieces;
};

//! Shared by all threads. The engine's session does the work, and DuckDB is its host.
class PairsDispatch : public OperatorDispatch, private vibespatial::JoinHost {
public:
	PairsDispatch(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads);
	~PairsDispatch() override;

	//! When the build side is known and before it is built; `probe_rows` is an estimate
	void Decide(idx_t build_rows, idx_t build_bytes, idx_t probe_rows);
	//! When the first rows of the probe side are seen: decides anew. If they are not points, in mode auto the CPU joins some of them with
	//! the build side, where it is not partitioned, to see how long it would take for all. It does so with few rows, and where fewer points
	//! are the build side: most of the work is then to read the rows, whatever their number.
	void DecideAgain(const vibespatial::JoinInput &first_rows, optional_ptr<SpatialBuild> build);
	//! After Decide(): an estimate, or the rows of a pinned probe side
	idx_t ExpectedRows() const {
		return expected_rows;
	}
	bool KindIsKnown() const {
		return kind_is_known;
	}
	//! What the build side is for. The CPU needs its tree where it may join some rows first.
	SpatialBuild::Use UseOfBuild() const {
		return !IsActive()     ? SpatialBuild::Use::CPU
		       : !may_forecast ? SpatialBuild::Use::DEVICE
		                       : SpatialBuild::Use::DEVICE_AND_TREE;
	}
	//! How many parts the build side must be cut into to fit on the device
	idx_t PartCount(idx_t build_bytes, idx_t build_rows) const;
	//! Rows go to the device
	bool IsActive() const {
		return session.IsActive();
	}
	//! The device is still starting: rows are collected meanwhile
	bool IsAwaited() {
		return session.IsAwaited();
	}
	//! Waits for the device and its kernels, where rows go there
	void Require() {
		session.RequireDevice();
	}
	//! The whole build side, or one part of it, takes probes from now on
	void SetBuild(SpatialBuild &build);
	void SetPart(SpatialBuild &part);

	//! After SetBuild(), or before there are parts: uses a probe side that is pinned. Counts its pairs, where no more is asked for, or leaves
	//! its pieces to the source. False where it is not pinned, or cannot be read on the device: the probe side has to be scanned.
	bool UsePinned(optional_ptr<SpatialBuild> build);
	//! It has done so: rows of the scan are not needed
	bool NeedsNoScan() const {
		return uses_pin;
	}
	//! The pieces that are left to the source; null where there are none
	optional_ptr<const PinnedWork> Pinned() const {
		return pinned_work.pieces.empty() ? nullptr : &pinned_work;
	}

	//! How many tiles are left to the source
	idx_t TileCount() const {
		return Pinned() ? pinned_work.pieces.size() : session.LeftTiles();
	}
	//! How many pairs each build row has, where only that was asked
	const std::vector<uint64_t> &Counts() const {
		return session.Counts();
	}

	//! When the probe side has been read; rows of it may still be in tiles
	void EndProbe();
	//! When all rows have passed, so many on the CPU alone: adds one event to the log
	void Finish(idx_t probed_rows = 0);
	//! For EXPLAIN ANALYZE
	string Describe();
	void AddTo(vibespatial::JoinCounts &total) const {
		total.Add(session.Report().counts);
	}
	//! Adds the rows and pairs that were only counted
	void CountedRows(idx_t &rows, idx_t &pairs) const;
	//! What would be decided now; for EXPLAIN, in words
	static string DescribePin(ClientContext &context, const PhysicalSpatialJoin &op);
	static bool IsPlanned(ClientContext &context, vibespatial::Operation operation, idx_t probe_rows);
	static string DescribePlan(ClientContext &context, vibespatial::Operation operation, idx_t probe_rows,
	                           idx_t build_rows);

private:
	// What the engine asks of DuckDB
	void Poll() override;
	size_t Threads() const override {
		return threads.Count();
	}
	void Run(const std::function<void(vibespatial::Parallel &)> &work) override {
		threads.Run(work);
	}
	void Invite(const std::shared_ptr<vibespatial::SharedWork> &work) override {
		threads.Invite(work);
	}
	std::unique_ptr<vibespatial::TilePayload> NewPayload() override;
	bool DeviceIsStarting() override;
	//! In mode gpu
	void WaitForDevice() override;
	void WaitForKernels(const std::vector<std::string> &names) override;
	void TileFinished(TimePoint begin, const vibespatial::GpuTimes &times) override;
	//! An error in mode gpu
	void DeviceFailed(const string &reason) override;
	void LeftToCpu(size_t count, const char *what, const char *why) override;

	//! Looks for the probe side on the device, as the transaction of the query sees it
	void FindPinned();
	void NoteUnused(const PinnedTable &table, const string &why);
	//! Decides as if there was no pin
	void LeavePin(const string &why);
	void DecideScanned();
	//! Lets the host read what it needs of the rows; false where that cannot be had
	bool BringPinned();
	//! False where only the CPU can be asked about it
	bool Attach(SpatialBuild &build);

	const PhysicalSpatialJoin &op;
	TaskThreads &threads;
	vibespatial::Dispatch dispatch;
	vibespatial::JoinSession session;
	std::atomic<bool> kind_is_known {false};
	//! The probe side, where it is on the device
	shared_ptr<PinnedTable> pinned;
	PinnedWork pinned_work;
	bool uses_pin = false;
	idx_t expected_rows = 0;
	idx_t build_rows = 0;
	idx_t build_bytes = 0;
	//! The CPU may join some rows first; the number of rows does not decide, so the work has to
	bool may_sample = false;
	bool may_forecast = false;
	//! Whether the whole build side is for the device, and when it was there to be probed
	bool has_build = false;
	TimePoint ready;
	//! When the first tile was finished
	TimePoint first_result;

	//! Guards `first_result` and what is decided or finished once
	mutex lock;
	bool finished = false;
};

} // namespace duckdb
