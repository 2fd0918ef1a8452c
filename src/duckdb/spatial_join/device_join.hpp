//===----------------------------------------------------------------------===//
// duckdb/spatial_join/device_join.hpp
//
// The pairs of a spatial join on the GPU: rows of the probe side are collected into tiles that the device works on while the
// next ones come. What it cannot do, or fails to, is done again here by the CPU engine.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/spatial_join/index_dispatch.hpp"
#include "duckdb/spatial_join/kept_rows.hpp"
#include "duckdb/spatial_join/probe.hpp"
#include "engine/gpu/interface/join.hpp"
#include "engine/join/probe.hpp"

#include <deque>

namespace duckdb {

class DeviceTile;
class DeviceJoin;

//! A build side, or a part of it, on the device. What is asked of it comes when it is asked first.
class DeviceBuild {
public:
	DeviceBuild(DeviceJoin &join, SpatialBuild &build);

	//! All throw GpuError. With cells points ask these; they may be refused.
	void Prepare();
	bool PrepareCells();
	void PrepareRows();
	std::unique_ptr<vibespatial::GpuTile> NewTile();

	SpatialBuild &Build() {
		return build;
	}

private:
	DeviceJoin &join;
	SpatialBuild &build;
	//! Done by the threads that ask, and by those that have nothing else to do
	typedef std::shared_ptr<vibespatial::SharedWork> Work;
	void Run(const Work &work, const std::function<void(vibespatial::Parallel &)> &steps);
	Work NewWork() const;

	const Work key_work;
	const Work cell_work;
	const Work row_work;
	vibespatial::BuildKey key;
	//! Until they are on the device
	unique_ptr<vibespatial::WkbLayout> layout;
	std::shared_ptr<vibespatial::GpuBuild> device_build;
};

//! Of all threads
class DeviceJoin : public OperatorDispatch {
public:
	DeviceJoin(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads);
	~DeviceJoin();

	//! When the build side is known and before it is built; `probe_rows` is a guess
	void Decide(idx_t build_rows, idx_t probe_rows);
	//! When the first rows of the probe side are seen
	void DecideKind(bool points);
	bool KindIsKnown() const {
		return kind_is_known;
	}
	//! Into how many parts the build side must be cut to fit on the device
	idx_t PartCount(idx_t build_bytes, idx_t build_rows) const;
	//! Rows go to the device
	bool IsActive() const {
		return active;
	}
	//! Nothing can be asked of the device yet: rows are collected meanwhile
	bool IsAwaited();
	//! Waits for all that it needs, where rows go there
	void Require();
	//! The build side that tiles are held against, where it is not in parts
	void SetBuild(SpatialBuild &build);
	//! Of another part; null where the device is not asked about it
	unique_ptr<DeviceBuild> NewBuild(SpatialBuild &build);
	DeviceBuild &Build() {
		return *build;
	}
	vibespatial::GpuOutput Output() const {
		return output;
	}

	//! Of one thread that is done: what it has collected and not given out
	void AddTiles(vector<unique_ptr<DeviceTile>> tiles);
	vector<unique_ptr<DeviceTile>> &Tiles() {
		return rest;
	}
	//! How many pairs each build row has
	void AddCounts(const vector<uint64_t> &counts);
	const vector<uint64_t> &Counts() const {
		return counts;
	}

	//! When all rows have passed: one event
	void Finish();
	//! For EXPLAIN ANALYZE
	string Describe();
	void AddTo(vibespatial::JoinCounts &total);
	//! Rows and pairs that were only counted
	void CountedRows(idx_t &rows, idx_t &pairs);
	//! What would be decided now; for EXPLAIN, in words
	static bool IsPlanned(ClientContext &context, const char *kernel, idx_t probe_rows);
	static string DescribePlan(ClientContext &context, const char *kernel, idx_t probe_rows, idx_t build_rows);

private:
	friend class DeviceTile;
	friend class DeviceBuild;

	//! The device in mode gpu, and the kernels. Throws GpuError.
	void Wait();
	//! The device failed: in mode gpu an error, else the CPU does the rest
	void Fail(const std::exception &error);

	const PhysicalSpatialJoin &op;
	TaskThreads &threads;
	vibespatial::GpuOutput output = vibespatial::GpuOutput::PAIRS;
	vibespatial::Decision decision;
	std::atomic<bool> active {false};
	std::atomic<bool> kind_is_known {false};
	std::atomic<bool> is_there {false};
	idx_t expected_rows = 0;
	unique_ptr<DeviceBuild> build;
	std::atomic<bool> was_resident {false};
	//! From when on the device could look for pairs
	TimePoint ready;

	mutex lock;
	vector<unique_ptr<DeviceTile>> rest;
	vector<uint64_t> counts;
	vibespatial::DispatchEvent event;
	vibespatial::JoinCounts join_counts;
	idx_t tiles_done = 0;
	idx_t tiles_on_cpu = 0;
	idx_t open_pairs = 0;
	idx_t left_rows = 0;
	string failure;
	bool finished = false;
	std::chrono::steady_clock::time_point begin;
};

//! Some rows of the probe side: collected, held against the build side, given out
class DeviceTile {
public:
	DeviceTile(ClientContext &context, const PhysicalSpatialJoin &op, DeviceJoin &join, DeviceBuild &build,
	           vibespatial::GpuOutput output);
	~DeviceTile();

	idx_t Count() const {
		return count;
	}
	//! Takes rows of a chunk from `begin` on, as many as there is room for; returns how many
	idx_t Add(DataChunk &input, const vibespatial::JoinRow *rows, const double *row_limits, idx_t begin);
	bool IsFull() const;
	//! What DuckDB was told of
	idx_t MemoryBytes() const {
		return memory.Size();
	}
	bool HasRoom() const {
		return has_room;
	}
	//! All rows of a chunk at once, of which nothing is kept: the pairs are those of its rows
	void Run(DataChunk &input, const vibespatial::JoinRow *rows, const double *row_limits);
	//! Of such a chunk
	const vector<uint32_t> &ProbeRows() const {
		return chunk_probe;
	}
	const vector<uint32_t> &BuildRows() const {
		return chunk_build;
	}

	//! Starts the device on it
	void Launch();
	//! Starts the device if it was not, waits, and decides what is left. Afterwards the pairs are known.
	void Finish(optional_ptr<vector<uint64_t>> counts);

	//! With pairs, chunk by chunk: the rows that were collected, and their pairs
	idx_t ChunkCount() const;
	void BeginChunk(SpatialProbe &probe, idx_t chunk);
	void Clear();

private:
	enum class Kind : uint8_t { NOTHING, POINTS, SHAPES };
	struct Pair {
		uint32_t probe;
		uint32_t build;
	};

	idx_t PointRows() const;
	void Begin(const vibespatial::JoinRow *rows, idx_t begin, idx_t end);
	void AddRow(const vibespatial::JoinRow &row);
	void BuildShapes();
	void AddShape(idx_t row, vibespatial::PackedShapes &shapes, vibespatial::GeometryBatch &batch,
	              vibespatial::Shape &shape, vector<uint32_t> &for_cpu);
	//! Tells DuckDB of the memory of the tile; without room for more it is full
	void CountMemory();
	vibespatial::JoinRow Row(idx_t row);
	void RunHalves(idx_t first, idx_t size, idx_t depth);
	void Use(const vibespatial::GpuTileResult &result, idx_t first, idx_t size);
	void Decide(vector<Pair> open);
	void RunOnCpu(idx_t first, idx_t size);
	void RunRowsOnCpu(const vector<uint32_t> &rows);
	void AddPair(uint32_t probe, uint32_t build);
	vibespatial::GpuTileInput Input(idx_t first, idx_t size) const;
	void SortPairs();

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	DeviceJoin &join;
	DeviceBuild &build;
	const vibespatial::GpuOutput output;
	std::unique_ptr<vibespatial::GpuTile> tile;
	Kind kind = Kind::NOTHING;
	idx_t count = 0;
	//! The device was asked; what it needs is there; it has begun
	bool asked = false;
	bool prepared = false;
	bool launched = false;
	bool use_cells = false;

	//! Points, where the device can read them, or in memory of our own when there is no device
	vibe::Vec2 *points = nullptr;
	std::vector<vibe::Vec2> own_points;
	vibespatial::ShapeRows shapes;
	//! The bytes of those that the device does not read
	vector<string> odd_wkb;
	//! Of all shapes
	idx_t bytes = 0;
	//! The tile is full with so many
	idx_t max_shapes = 0;
	std::vector<double> limits;
	//! That the device would not know
	vector<uint32_t> cpu_rows;

	KeptRows kept;
	CountedMemory memory;
	bool has_room = true;

	//! What the device found, and what the CPU did
	const uint32_t *device_probe = nullptr;
	const uint32_t *device_build = nullptr;
	idx_t device_pairs = 0;
	vector<Pair> pairs;
	vector<idx_t> chunk_begin;
	vector<uint32_t> chunk_probe;
	vector<uint32_t> chunk_build;
	vector<uint8_t> found;
	optional_ptr<vector<uint64_t>> counted;
};

//! One thread's tiles: one collects while the other is worked on
class DeviceProbe {
public:
	DeviceProbe(ClientContext &context, const PhysicalSpatialJoin &op, DeviceJoin &join);
	~DeviceProbe();

	//! Takes a chunk, of which `probe` knows the keys
	void Add(SpatialProbe &probe, DataChunk &input);
	//! Are the rows of a chunk, of which `probe` knows the keys, points?
	static bool ArePoints(const SpatialProbe &probe, idx_t count);
	//! The next chunk to give out is begun in `probe`; false when there is none
	bool NextChunk(SpatialProbe &probe);
	//! At the end of the thread
	void Finalize();

private:
	//! What was filled is done, or waits for a device that is still coming up
	void EndTile();
	bool MayWait() const;
	//! The tile goes to the device; the one that was there comes back
	void Swap(unique_ptr<DeviceTile> tile);

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	DeviceJoin &join;
	unique_ptr<DeviceTile> filling;
	//! For the device to come up, first to last
	std::deque<unique_ptr<DeviceTile>> waiting;
	idx_t waiting_bytes = 0;
	unique_ptr<DeviceTile> flying;
	//! First to last; there may be several, where kinds of rows change
	std::deque<unique_ptr<DeviceTile>> giving;
	unique_ptr<DeviceTile> spare;
	idx_t next_chunk = 0;
	vector<uint64_t> counts;
};

} // namespace duckdb
