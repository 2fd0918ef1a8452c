//===----------------------------------------------------------------------===//
// engine/join/session/session.hpp
//
// A join as all its threads share it: whether the device takes part, and what it came to.
// Promise: the pairs of engine/join/probe.hpp, whichever engine finds them and whatever fails on the device.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/join.hpp"
#include "engine/join/shares.hpp"
#include "engine/join/session/host.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace vibespatial {

class BuildUpload;
class JoinSession;
class Tile;

//! What is asked of the pairs: the pairs themselves, how many each build row has, or whether a probe row has one
using JoinOutput = GpuOutput;

//! What the device did, and what the CPU did in its place
struct JoinReport {
	//! Tiles, or pieces of tiles, that the device finished; the rows of all tiles
	uint64_t tiles = 0;
	uint64_t rows = 0;
	//! Pieces that the CPU did for lack of device memory
	uint64_t tiles_on_cpu = 0;
	//! Pairs and rows that the device left to the CPU
	uint64_t open_pairs = 0;
	uint64_t left_rows = 0;
	//! All rows of tiles that the CPU did
	uint64_t cpu_rows = 0;
	//! A build side was on the device from an earlier join
	bool was_resident = false;
	//! Why the device was given up; empty where it was not
	std::string failure;
	GpuTimes times;
	JoinCounts counts;
};

//! A build side, or a partition of it: its index, and its copy on the device where that is asked. Outlives the streams over it;
//! the index outlives the build.
class JoinBuild {
public:
	JoinBuild(JoinSession &session, JoinIndex &index, std::unique_ptr<BuildUpload> upload);
	~JoinBuild();

	//! Whether the device looks for its pairs
	bool OnDevice() const;

	JoinSession &session;
	JoinIndex &index;
	//! Null where only the CPU is asked
	const std::unique_ptr<BuildUpload> upload;
};

class JoinSession {
public:
	//! `ordered`: pairs come in the order of the probe rows, and those of a row in the order of the build rows
	JoinSession(JoinHost &host, const JoinCondition &condition, JoinOutput output, bool ordered);
	~JoinSession();

	//! Lets the device look for pairs; before there are builds and streams. May choose PAIRS in place of COUNTS.
	void UseDevice(GpuEngine *engine, size_t build_rows);
	void LeaveDevice() {
		active = false;
	}
	//! Whether the device looks for pairs
	bool IsActive() const {
		return active;
	}
	//! The device is still starting: rows are collected meanwhile
	bool IsAwaited();
	//! Waits for the device where it takes part
	void RequireDevice();
	//! Waits for kernels, for each of them once. Throws GpuError.
	void Need(const std::vector<std::string> &kernels);
	//! The CPU takes over from the device; throws what the host throws
	void Fail(const GpuError &error);

	//! `note` is called when the rows are on the device, and when the cells are
	std::unique_ptr<JoinBuild> NewBuild(JoinIndex &index, bool on_device,
	                                    std::function<void(const UploadReport &)> note);

	//! How many tiles were not emitted when all streams have ended. Any thread may resume any of them, each once.
	size_t LeftTiles() const {
		return left_tiles.size();
	}
	std::unique_ptr<Tile> TakeTile(size_t number);
	void AddTiles(std::vector<std::unique_ptr<Tile>> tiles);
	//! COUNTS: how many pairs each build row has; empty before the first thread ends
	const std::vector<uint64_t> &Counts() const {
		return counts;
	}
	void AddCounts(const std::vector<uint64_t> &more);
	JoinReport Report() const;
	//! Of a piece of work on the device
	void AddTimes(const GpuTimes &times);
	//! Changes the report, one thread at a time
	template <class CHANGE>
	void Note(CHANGE &&change) {
		std::lock_guard<std::mutex> guard(lock);
		change(report);
	}

	GpuEngine &Engine() const {
		return *engine;
	}
	JoinOutput Output() const {
		return output;
	}
	//! Calls the host's Poll()
	std::function<void()> Poll() const {
		auto &asked = host;
		return [&asked] { asked.Poll(); };
	}

	JoinHost &host;
	const JoinCondition condition;
	const bool ordered;

private:
	JoinOutput output;
	GpuEngine *engine = nullptr;
	std::atomic<bool> active {false};
	//! The device has started, or is not waited for
	std::atomic<bool> has_started {false};

	//! Held by the thread that waits for kernels: the others wait for it
	std::mutex kernel_lock;
	std::set<std::string> kernels;

	mutable std::mutex lock;
	JoinReport report;
	std::vector<std::unique_ptr<Tile>> left_tiles;
	std::vector<uint64_t> counts;
};

} // namespace vibespatial
