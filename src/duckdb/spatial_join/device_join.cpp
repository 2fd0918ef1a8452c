#include "duckdb/spatial_join/device_join.hpp"

#include "duckdb/support/settings.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/dispatch/kernel_registry.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"

#include <algorithm>
#include <array>
#include <random>

namespace duckdb {

using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuError;
using vibespatial::GpuMemoryError;
using vibespatial::GpuOutput;
using vibespatial::GpuTileInput;
using vibespatial::GpuTileResult;
using vibespatial::JoinRow;
using vibespatial::Parallel;

using Clock = std::chrono::steady_clock;

//! Rows of a tile: points, other geometries and their bytes
static constexpr idx_t POINT_ROWS = 32 * STANDARD_VECTOR_SIZE;
static constexpr idx_t PAIRED_POINT_ROWS = 16 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_ROWS = 8 * STANDARD_VECTOR_SIZE;
static constexpr idx_t SHAPE_BYTES = 16 << 20;
//! Of those that wait for the device to come up: each takes the driver a tenth of a millisecond, one after the other, which nothing
//! hides by then
static constexpr idx_t WAITING_SHAPE_ROWS = 4 * SHAPE_ROWS;
//! Of a thread's tiles that wait for the device to come up
static constexpr idx_t MAX_WAITING_BYTES = 32 << 20;
//! Tiles that are too large for the device are halved so often
static constexpr idx_t MAX_HALVES = 4;
//! Counts are read for all build rows after each tile: with more of them, pairs are less to read
static constexpr idx_t MAX_COUNTED_ROWS = POINT_ROWS / 4;

//===----------------------------------------------------------------------===//
// The join
//===----------------------------------------------------------------------===//
static GpuOutput OutputOf(const PhysicalSpatialJoin &op) {
	if (op.residual) {
		return GpuOutput::PAIRS;
	}
	if (op.has_aggregate) {
		return op.OnlyCounts() ? GpuOutput::COUNTS : GpuOutput::PAIRS;
	}
	bool one_is_enough =
	    op.join_type == JoinType::SEMI || op.join_type == JoinType::ANTI || op.join_type == JoinType::MARK;
	return one_is_enough ? GpuOutput::FOUND : GpuOutput::PAIRS;
}

DeviceJoin::DeviceJoin(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads)
    : OperatorDispatch(context, "VIBE_SPATIAL_JOIN"), op(op), threads(threads), output(OutputOf(op)),
      begin(Clock::now()) {
}

DeviceJoin::~DeviceJoin() {
	Finish();
}

void DeviceJoin::Decide(idx_t build_rows, idx_t probe_rows) {
	// Which of both it is the first rows will tell
	decision = vibespatial::Decide(mode, vibespatial::FindOperation(op.kernel), probe_rows, GetGpuMinRows(context));
	event = NewEvent(op.kernel);
	event.rows = 0;
	event.selected = ToText(decision.selected);
	event.reason = decision.reason;
	if (decision.selected != ExecutionMode::GPU) {
		return;
	}
	expected_rows = probe_rows;
	if (build_rows == 0) {
		event.reason = "the build side has no rows";
		return;
	}
	if (mode == ExecutionMode::AUTO && build_rows > probe_rows) {
		event.selected = ToText(ExecutionMode::CPU);
		event.reason = "fewer rows than the build side has";
		return;
	}
	if (output == GpuOutput::COUNTS && build_rows > MAX_COUNTED_ROWS) {
		output = GpuOutput::PAIRS;
	}
	active = true;
}

void DeviceJoin::DecideKind(bool points) {
	lock_guard<mutex> guard(lock);
	if (kind_is_known || points) {
		kind_is_known = true;
		return;
	}
	kind_is_known = true;
	if (event.kernel == "join_points") {
		event.kernel = "join_shapes"; // a filter keeps its own name
	}
	auto shapes = vibespatial::Decide(mode, vibespatial::Operation::JOIN_SHAPES, expected_rows, GetGpuMinRows(context));
	event.selected = ToText(shapes.selected);
	event.reason = shapes.reason;
	active = active && shapes.selected == ExecutionMode::GPU;
}

idx_t DeviceJoin::PartCount(idx_t build_bytes, idx_t build_rows) const {
	//! Of the device's memory, for one part: others are worked on, and tiles need room too
	constexpr idx_t SHARE = 4;
	//! What a row is on the device beside its coordinates, which shapes hold about twice as large
	constexpr idx_t ROW_BYTES = sizeof(vibe::ShapeView) + 2 * sizeof(vibe::Box) + 64;
	if (!active || !decision.engine) {
		return 1;
	}
	//! Of all that is on the device of a build side that every device has room for
	constexpr idx_t SMALL = idx_t(2) << 30;
	auto limit = decision.engine->MemoryLimit();
	auto needed = 2 * build_bytes + build_rows * ROW_BYTES;
	if (limit == 0 && needed <= SMALL && vibespatial::GpuRuntime::Get().Options().memory_limit == 0) {
		return 1; // it is still coming up
	}
	if (limit == 0) {
		WaitForDevice(op.kernel);
		limit = decision.engine->MemoryLimit();
	}
	return limit == 0 || needed <= limit / SHARE ? 1 : needed / (limit / SHARE + 1) + 1;
}

bool DeviceJoin::IsAwaited() {
	if (is_there) {
		return false;
	}
	is_there = !active || mode != ExecutionMode::GPU || !IsComing(decision.engine);
	return !is_there;
}

void DeviceJoin::Wait() {
	if (!decision.engine) {
		throw GpuError("no GPU engine is open");
	}
	using std::chrono::system_clock;
	auto begin = system_clock::now();
	bool scanned = IsAwaited() && build;
	auto waited = WaitForDevice(op.kernel);
	waited += WaitForKernels(*decision.engine, vibespatial::KernelNeeds(vibespatial::KernelSet::SPATIAL_JOIN));
	lock_guard<mutex> guard(lock);
	event.wait_ms += waited;
	if (scanned) {
		AddStep(*decision.engine, "scan of the probe side", ready, begin);
		AddStep(*decision.engine, "wait for the device", begin, system_clock::now());
		ready = system_clock::now();
	}
}

void DeviceJoin::Require() {
	try {
		if (active) {
			Wait();
		}
	} catch (const GpuError &error) {
		Fail(error);
	}
}

void DeviceJoin::SetBuild(SpatialBuild &whole) {
	build = NewBuild(whole);
	active = active && build;
	ready = std::chrono::system_clock::now();
}

unique_ptr<DeviceBuild> DeviceJoin::NewBuild(SpatialBuild &part) {
	if (!active) {
		return nullptr;
	}
	if (part.Index().EmptyRowsMatter()) {
		lock_guard<mutex> guard(lock);
		event.reason = "EMPTY rows of the build side are at distance 0 of all others, which the CPU finds";
		return nullptr;
	}
	return make_uniq<DeviceBuild>(*this, part);
}

void DeviceJoin::Fail(const std::exception &error) {
	lock_guard<mutex> guard(lock);
	active = false;
	if (failure.empty()) {
		failure = error.what();
	}
	if (mode == ExecutionMode::GPU) {
		FailOnDevice("find the pairs", failure);
	}
}

//! Two products of 64 bits, folded: what all bytes that were added come to, different for different ones but for one chance
//! in 2^64 and more
class ContentHash {
public:
	explicit ContentHash(uint64_t seed) : low(seed ^ 0x9e3779b97f4a7c15ULL), high(~seed * 0xc2b2ae3d27d4eb4fULL | 1) {
	}
	void Add(uint64_t word) {
		low = Fold(low ^ word, 0xe7037ed1a0b428dbULL ^ high);
		high = Fold(high + word, 0x8ebc6af09c88c6e3ULL ^ low);
	}
	void Add(const_data_ptr_t data, idx_t size) {
		Add(size);
		for (; size >= sizeof(uint64_t); data += sizeof(uint64_t), size -= sizeof(uint64_t)) {
			Add(Load<uint64_t>(data));
		}
		uint64_t last = 0;
		memcpy(&last, data, size);
		Add(last);
	}
	vibespatial::BuildKey Key() const {
		return vibespatial::BuildKey {low, high};
	}

private:
	static uint64_t Fold(uint64_t a, uint64_t b) {
		auto product = static_cast<unsigned __int128>(a) * b;
		return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
	}
	uint64_t low;
	uint64_t high;
};

//===----------------------------------------------------------------------===//
// The build side
//===----------------------------------------------------------------------===//
DeviceBuild::DeviceBuild(DeviceJoin &join, SpatialBuild &build)
    : join(join), build(build), key_work(NewWork()), cell_work(NewWork()), row_work(NewWork()) {
}

DeviceBuild::Work DeviceBuild::NewWork() const {
	return std::make_shared<vibespatial::SharedWork>(join.threads.Count(), CancelPoll(join.context));
}

void DeviceBuild::Run(const Work &work, const std::function<void(Parallel &)> &steps) {
	work->Run([&](Parallel &parallel) {
		join.threads.Invite(work);
		steps(parallel);
	});
}

void DeviceBuild::Prepare() {
	Run(key_work, [&](Parallel &parallel) {
		auto &op = join.op;
		// Not the same in any two processes: no data can be made to clash
		static const uint64_t seed = (uint64_t(std::random_device()()) << 32) ^ std::random_device()();
		constexpr idx_t ROWS_PER_STEP = vibespatial::WkbLayout::ROWS_PER_PART;
		auto rows = build.Count();
		vector<vibespatial::BuildKey> keys((rows + ROWS_PER_STEP - 1) / ROWS_PER_STEP);
		// What needs no device and looks at every row, too
		vibespatial::GpuRows exported;
		build.Index().ExportRows(exported);
		if (!exported.points) {
			layout = make_uniq<vibespatial::WkbLayout>(rows);
		}
		parallel.For(keys.size(), [&](size_t step) {
			ContentHash hash(seed);
			for (idx_t i = step * ROWS_PER_STEP; i < MinValue<idx_t>(rows, (step + 1) * ROWS_PER_STEP); i++) {
				auto location = build.Location(i);
				auto row = op.GeometryOf(location);
				hash.Add(row.data ? row.data : const_data_ptr_cast(""), row.data ? row.size : 0);
				hash.Add(row.data != nullptr);
				if (op.limit_column != DConstants::INVALID_INDEX) {
					hash.Add(vibe::Bits(op.LimitOf(location)));
				}
			}
			keys[step] = hash.Key();
			if (layout) {
				layout->Read(step, exported.wkb);
			}
		});
		if (layout) {
			layout->MakeGroups(parallel);
		}
		ContentHash all(seed);
		for (auto &part : keys) {
			all.Add(part.low);
			all.Add(part.high);
		}
		// The boxes of the tree and what is in the cells depend on the condition, too
		auto &condition = build.Index().Condition();
		for (auto &term : condition.any_of) {
			all.Add(uint64_t(term.kind) | uint64_t(term.predicate) << 8 | uint64_t(term.empty_is_near) << 16);
		}
		all.Add(uint64_t(condition.limit_from) | uint64_t(condition.compared) << 8 | uint64_t(condition.strict) << 9);
		key = all.Key();
		join.Wait();
		device_build = join.decision.engine->FindBuild(key);
		join.was_resident = join.was_resident || device_build != nullptr;
		if (device_build && device_build->HasRows()) {
			layout.reset();
		}
		if (!device_build) {
			device_build = join.decision.engine->NewBuild();
		}
	});
}

bool DeviceBuild::PrepareCells() {
	Prepare();
	if (device_build->HasCells()) {
		return true;
	}
	auto cells = build.Index().CellsForDevice();
	if (!cells) {
		return false;
	}
	Run(cell_work, [&](Parallel &parallel) {
		device_build->SetCells(cells->GetPieces(), build.Count(), parallel);
		join.decision.engine->KeepBuild(key, device_build);
	});
	return true;
}

void DeviceBuild::PrepareRows() {
	Prepare();
	if (device_build->HasRows()) {
		return;
	}
	Run(row_work, [&](Parallel &parallel) {
		auto begin = std::chrono::system_clock::now();
		vibespatial::GpuRows rows;
		build.Index().ExportRows(rows);
		rows.layout = layout.get();
		vibespatial::GpuTimes tree_times;
		device_build->SetRows(rows, parallel, tree_times);
		layout.reset();
		// Not where another query has brought the same rows meanwhile
		if (tree_times.bytes_to_device > 0) {
			build.NoteDeviceTree(rows.boxes->size(), tree_times);
		}
		join.AddStep(*join.decision.engine, "build side to device", begin, std::chrono::system_clock::now());
		join.decision.engine->KeepBuild(key, device_build);
	});
}

std::unique_ptr<vibespatial::GpuTile> DeviceBuild::NewTile() {
	Prepare();
	return join.decision.engine->NewTile(device_build, join.op.condition);
}

//===----------------------------------------------------------------------===//
// What became of it
//===----------------------------------------------------------------------===//
void DeviceJoin::AddTiles(vector<unique_ptr<DeviceTile>> tiles) {
	lock_guard<mutex> guard(lock);
	for (auto &tile : tiles) {
		rest.push_back(std::move(tile));
	}
}

void DeviceJoin::AddCounts(const vector<uint64_t> &more) {
	lock_guard<mutex> guard(lock);
	if (counts.size() < more.size()) {
		counts.resize(more.size());
	}
	for (idx_t i = 0; i < more.size(); i++) {
		counts[i] += more[i];
	}
}

void DeviceJoin::AddTo(vibespatial::JoinCounts &total) {
	lock_guard<mutex> guard(lock);
	total.Add(join_counts);
}

void DeviceJoin::CountedRows(idx_t &rows, idx_t &pairs) {
	lock_guard<mutex> guard(lock);
	if (counts.empty()) {
		return;
	}
	rows += event.rows;
	for (auto count : counts) {
		pairs += count;
	}
}

void DeviceJoin::Finish() {
	lock_guard<mutex> guard(lock);
	if (finished || mode == ExecutionMode::CPU) {
		return;
	}
	finished = true;
	SetOutcome(event, "tiles", tiles_done, tiles_on_cpu, failure);
	if (open_pairs > 0) {
		event.reason += "; " + to_string(open_pairs) + " pairs decided by the CPU";
	}
	if (left_rows > 0) {
		event.reason += "; " + to_string(left_rows) + " rows done by the CPU";
	}
	if (was_resident) {
		event.reason += "; the build side was on the device";
	}
	if (build && tiles_done > 0) {
		AddStep(*decision.engine, "pairs", ready, std::chrono::system_clock::now());
	}
	event.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
	if (event.requested != "cpu" && !event.kernel.empty()) {
		DispatchLog::Get().Add(event);
	}
}

string DeviceJoin::Describe() {
	lock_guard<mutex> guard(lock);
	if (tiles_done == 0) {
		return "cpu (" + (failure.empty() ? event.reason : failure) + ")";
	}
	return StringUtil::Format("gpu (%s): %llu tiles, %.1f ms to the device, %.1f kernels, %.1f back, summed over "
	                          "tiles that overlap; %llu pairs left to the CPU",
	                          failure.empty() ? event.reason : failure, tiles_done, event.to_device_ms, event.kernel_ms,
	                          event.from_device_ms, open_pairs);
}

static vibespatial::Decision DecidePlan(ClientContext &context, const char *kernel, idx_t probe_rows) {
	return vibespatial::Decide(GetExecutionMode(context), vibespatial::FindOperation(kernel), probe_rows,
	                           GetGpuMinRows(context));
}

bool DeviceJoin::IsPlanned(ClientContext &context, const char *kernel, idx_t probe_rows) {
	return DecidePlan(context, kernel, probe_rows).selected == ExecutionMode::GPU;
}

string DeviceJoin::DescribePlan(ClientContext &context, const char *kernel, idx_t probe_rows, idx_t build_rows) {
	auto decision = DecidePlan(context, kernel, probe_rows);
	if (decision.selected == ExecutionMode::GPU) {
		return (GetExecutionMode(context) == ExecutionMode::AUTO ? "gpu for points (" : "gpu (") + decision.reason +
		       ")";
	}
	return IndexDispatch::DescribePlan(context, build_rows);
}

//===----------------------------------------------------------------------===//
// A tile
//===----------------------------------------------------------------------===//
DeviceTile::DeviceTile(ClientContext &context, const PhysicalSpatialJoin &op, DeviceJoin &join, DeviceBuild &build,
                       GpuOutput output)
    : context(context), op(op), join(join), build(build), output(output), kept(context, op.buffered_columns),
      memory(context) {
}

DeviceTile::~DeviceTile() = default;

bool DeviceTile::IsFull() const {
	if (!has_room) {
		return count > 0;
	}
	return kind == Kind::SHAPES ? count >= max_shapes || bytes >= SHAPE_BYTES : count >= PointRows();
}

//! Rows that wait for their pairs should stay in the processor's cache meanwhile
idx_t DeviceTile::PointRows() const {
	return output == GpuOutput::COUNTS ? POINT_ROWS : PAIRED_POINT_ROWS;
}

idx_t DeviceTile::ChunkCount() const {
	return (count + STANDARD_VECTOR_SIZE - 1) / STANDARD_VECTOR_SIZE;
}

void DeviceTile::Clear() {
	kind = Kind::NOTHING;
	count = 0;
	asked = false;
	launched = false;
	shapes.Clear();
	odd_wkb.clear();
	bytes = 0;
	limits.clear();
	cpu_rows.clear();
	pairs.clear();
	found.clear();
	kept.Clear();
	has_room = true;
}

static bool AllPoints(const JoinRow *rows, idx_t begin, idx_t end) {
	vibe::Vec2 point;
	for (idx_t i = begin; i < end; i++) {
		if (rows[i].data && !vibespatial::TryReadPoint(rows[i].data, rows[i].size, point)) {
			return false;
		}
	}
	return true;
}

//! What the tile will hold is decided by its first rows
void DeviceTile::Begin(const JoinRow *rows, idx_t begin, idx_t end) {
	kind = AllPoints(rows, begin, end) ? Kind::POINTS : Kind::SHAPES;
	try {
		if (join.IsActive() && !tile && !join.IsAwaited()) {
			tile = build.NewTile();
		}
		if (tile && kind == Kind::POINTS) {
			points = tile->Points(PointRows());
			return;
		}
	} catch (const GpuError &error) {
		tile.reset();
		join.Fail(error);
	}
	if (kind == Kind::POINTS) {
		own_points.resize(PointRows());
		points = own_points.data();
		return;
	}
	max_shapes = !tile && join.IsAwaited() ? WAITING_SHAPE_ROWS : SHAPE_ROWS;
	if (!tile) {
		shapes.Clear();
		return;
	}
	shapes.Clear([this](size_t block) -> uint8_t * {
		try {
			return tile->Block(block);
		} catch (const GpuError &error) {
			join.Fail(error);
			return nullptr;
		}
	});
}

void DeviceTile::AddRow(const JoinRow &row) {
	if (!row.data) {
		shapes.AddNothing();
	} else if (vibespatial::ShapeRows::IsForDevice(row.data, row.size)) {
		shapes.AddWkb(row.data, row.size);
	} else {
		shapes.AddPacked();
		odd_wkb.emplace_back(const_char_ptr_cast(row.data), row.size);
	}
	bytes += row.data ? row.size : 0;
}

idx_t DeviceTile::Add(DataChunk &input, const JoinRow *rows, const double *row_limits, idx_t begin) {
	auto end = input.size();
	if (kind == Kind::NOTHING) {
		Begin(rows, begin, end);
	}
	auto before = count;
	if (kind == Kind::POINTS) {
		end = MinValue<idx_t>(end, begin + PointRows() - count);
		constexpr double NOWHERE = std::numeric_limits<double>::quiet_NaN();
		for (auto i = begin; i < end; i++) {
			vibe::Vec2 point;
			if (!rows[i].data) {
				point = vibe::Vec2 {NOWHERE, NOWHERE};
			} else if (!vibespatial::TryReadPoint(rows[i].data, rows[i].size, point)) {
				end = i; // for another tile
				break;
			}
			points[count++] = point;
		}
	} else {
		for (auto i = begin; i < end; i++) {
			if (IsFull()) {
				end = i;
				break;
			}
			AddRow(rows[i]);
			count++;
		}
	}
	if (row_limits) {
		limits.insert(limits.end(), row_limits + begin, row_limits + end);
	}
	if (output != GpuOutput::COUNTS && end > begin) {
		kept.Add(input, begin, end - begin, before);
	}
	CountMemory();
	return end - begin;
}

void DeviceTile::Run(DataChunk &input, const JoinRow *rows, const double *row_limits) {
	Clear();
	Begin(rows, 0, input.size());
	count = input.size();
	constexpr double NOWHERE = std::numeric_limits<double>::quiet_NaN();
	for (idx_t i = 0; i < count; i++) {
		if (kind == Kind::POINTS) {
			points[i] = vibe::Vec2 {NOWHERE, NOWHERE};
			if (rows[i].data) {
				vibespatial::TryReadPoint(rows[i].data, rows[i].size, points[i]);
			}
		} else {
			AddRow(rows[i]);
		}
	}
	if (row_limits) {
		limits.assign(row_limits, row_limits + count);
	}
	Launch();
	Finish(nullptr);
}

//! Of the rows that the device does not read
void DeviceTile::BuildShapes() {
	constexpr idx_t ROWS_PER_PIECE = 128;
	//! What one thread has done before another could come
	constexpr idx_t BYTES_TO_SHARE = 256 << 10;
	auto &odd_rows = shapes.PackedRows();
	auto &pieces = shapes.packed;
	pieces.clear();
	pieces.resize((odd_rows.size() + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE);
	vector<vector<uint32_t>> for_cpu(pieces.size());
	auto build_some = [&](Parallel &parallel) {
		parallel.For(pieces.size(), [&](size_t step) {
			vibespatial::GeometryBatch batch;
			vibespatial::Shape shape;
			auto end = MinValue<idx_t>(odd_rows.size(), (step + 1) * ROWS_PER_PIECE);
			for (idx_t i = step * ROWS_PER_PIECE; i < end; i++) {
				AddShape(odd_rows[i], pieces[step], batch, shape, for_cpu[step]);
			}
		});
	};
	if (bytes >= BYTES_TO_SHARE) {
		join.threads.Run(build_some);
	} else {
		vibespatial::Serial serial;
		build_some(serial);
	}
	cpu_rows.clear();
	for (auto &rows : for_cpu) {
		cpu_rows.insert(cpu_rows.end(), rows.begin(), rows.end());
	}
}

void DeviceTile::AddShape(idx_t row, vibespatial::PackedShapes &packed, vibespatial::GeometryBatch &batch,
                          vibespatial::Shape &shape, vector<uint32_t> &for_cpu) {
	auto &index = build.Build().Index();
	auto wkb = Row(row);
	vibe::Box box;
	auto probe = index.ReadProbe(wkb, box);
	auto part = !limits.empty()                                               ? limits[row]
	            : op.condition.limit_from == vibespatial::JoinLimit::CONSTANT ? op.condition.limit
	                                                                          : 0;
	auto reach = op.condition.Effective(part);
	if (probe == vibespatial::JoinIndex::ProbeRow::EMPTY) {
		if (index.EmptyProbesMatter()) {
			for_cpu.push_back(NumericCast<uint32_t>(row));
		}
		packed.AddNothing();
	} else if (!(reach > 0 ? vibe::Grow(box, reach) : box).Intersects(index.Bounds())) {
		packed.AddNothing();
	} else if (probe == vibespatial::JoinIndex::ProbeRow::BOX) {
		packed.AddBox(box);
	} else {
		try {
			vibespatial::BuildShape(wkb.data, wkb.size, batch, shape);
			packed.Add(shape.View());
		} catch (const vibespatial::GeometryError &) {
			// Wrong, but perhaps never looked at: the CPU knows
			packed.AddUnknown(box);
		}
	}
}

JoinRow DeviceTile::Row(idx_t row) {
	if (kind == Kind::POINTS) {
		throw InternalException("points have no bytes");
	}
	auto &at = shapes.Rows()[row];
	if (at.size == vibe::WkbRow::PACKED) {
		auto &wkb = odd_wkb[at.begin];
		return JoinRow {const_data_ptr_cast(wkb.data()), NumericCast<uint32_t>(wkb.size())};
	}
	return JoinRow {shapes.Wkb(row), at.size};
}

GpuTileInput DeviceTile::Input(idx_t first, idx_t size) const {
	GpuTileInput input;
	input.first = first;
	input.count = size;
	input.shapes = kind == Kind::SHAPES ? &shapes : nullptr;
	input.leave_empty = build.Build().Index().EmptyProbesMatter();
	input.limits = limits.empty() ? nullptr : limits.data();
	input.output = output;
	input.use_cells = use_cells;
	input.poll = CancelPoll(context);
	return input;
}

void DeviceTile::Launch() {
	asked = true;
	prepared = false;
	if (count == 0 || !join.IsActive()) {
		return;
	}
	try {
		// Cells where points can ask them, rows otherwise
		use_cells = kind == Kind::POINTS && build.PrepareCells();
		if (!use_cells) {
			build.PrepareRows();
		}
		if (!shapes.PackedRows().empty()) {
			BuildShapes();
		}
		if (!tile) {
			tile = build.NewTile();
			if (kind == Kind::POINTS) {
				memcpy(tile->Points(PointRows()), points, count * sizeof(vibe::Vec2));
				points = tile->Points(PointRows());
			}
		}
		prepared = true;
		tile->Begin(Input(0, count));
		launched = true;
	} catch (const GpuMemoryError &) {
		launched = false; // Finish() tries with less
	} catch (const GpuError &error) {
		join.Fail(error);
	}
}

void DeviceTile::Finish(optional_ptr<vector<uint64_t>> counted_p) {
	counted = counted_p;
	pairs.clear();
	device_pairs = 0;
	found.assign(output == GpuOutput::FOUND ? count : 0, 0);
	if (counted && counted->size() < build.Build().Count()) {
		counted->resize(build.Build().Count());
	}
	if (count == 0) {
		return;
	}
	if (!asked) {
		Launch();
	}
	if (launched) {
		launched = false;
		try {
			auto &result = tile->Finish();
			Use(result, 0, count);
			// They stay where they are until the tile is begun again
			device_probe = result.probe;
			device_build = result.build;
			device_pairs = result.pairs;
		} catch (const GpuMemoryError &) {
			RunHalves(0, count, 0);
		} catch (const GpuError &error) {
			join.Fail(error);
			RunOnCpu(0, count);
		}
	} else if (join.IsActive()) {
		RunHalves(0, count, 0);
	} else {
		RunOnCpu(0, count);
	}
	if (!cpu_rows.empty()) {
		RunRowsOnCpu(cpu_rows);
	}
	if (output == GpuOutput::PAIRS) {
		SortPairs();
	}
	CountMemory();
}

void DeviceTile::CountMemory() {
	//! DuckDB is told of so much at a time
	constexpr idx_t STEP = 256 << 10;
	idx_t bytes_now = kept.Bytes() + limits.capacity() * sizeof(double) + own_points.capacity() * sizeof(vibe::Vec2) +
	                  pairs.capacity() * sizeof(Pair) +
	                  (chunk_probe.capacity() + chunk_build.capacity()) * sizeof(uint32_t);
	for (auto &wkb : odd_wkb) {
		bytes_now += wkb.capacity();
	}
	bytes_now += shapes.OwnBytes() + (tile ? tile->HostBytes() : 0);
	has_room = memory.TryResize((bytes_now + STEP - 1) / STEP * STEP);
}

//! Half as much at a time, and less, until it fits
void DeviceTile::RunHalves(idx_t first, idx_t size, idx_t depth) {
	if (depth >= MAX_HALVES || size < 2 || !prepared || !join.IsActive()) {
		RunOnCpu(first, size);
		lock_guard<mutex> guard(join.lock);
		join.tiles_on_cpu++;
		return;
	}
	for (auto half : {idx_t(0), size / 2}) {
		auto begin = first + half, some = half == 0 ? size / 2 : size - size / 2;
		try {
			if (context.IsInterrupted()) {
				throw InterruptException();
			}
			tile->Begin(Input(begin, some));
			auto &result = tile->Finish();
			Use(result, begin, some);
			for (idx_t i = 0; i < result.pairs; i++) {
				pairs.push_back(Pair {result.probe[i], result.build[i]});
			}
		} catch (const GpuMemoryError &) {
			RunHalves(begin, some, depth + 1);
		} catch (const GpuError &error) {
			join.Fail(error);
			RunOnCpu(begin, some);
		}
	}
}

void DeviceTile::AddPair(uint32_t probe, uint32_t build) {
	if (counted) {
		(*counted)[build]++;
	} else if (output == GpuOutput::FOUND) {
		found[probe] = 1;
	} else {
		pairs.push_back(Pair {probe, build});
	}
}

//! Pairs that the device left open
void DeviceTile::Decide(vector<Pair> open) {
	constexpr idx_t PAIRS_PER_STEP = 16;
	// By rows of the tile: a shape is built once for all its pairs
	std::sort(open.begin(), open.end(),
	          [](const Pair &a, const Pair &b) { return a.probe != b.probe ? a.probe < b.probe : a.build < b.build; });
	vector<uint8_t> holds(open.size());
	auto decide_some = [&](Parallel &parallel) {
		parallel.For((open.size() + PAIRS_PER_STEP - 1) / PAIRS_PER_STEP, [&](size_t step) {
			vibespatial::JoinProbe probe(build.Build().Index(), CancelPoll(context));
			vibespatial::PointBytes wkb;
			auto last = NumericLimits<uint32_t>::Maximum();
			JoinRow row {nullptr, 0};
			for (idx_t i = step * PAIRS_PER_STEP; i < MinValue<idx_t>(open.size(), (step + 1) * PAIRS_PER_STEP); i++) {
				if (open[i].probe != last) {
					last = open[i].probe;
					if (kind == Kind::POINTS) {
						wkb = vibespatial::WritePoint(points[last]);
						row = JoinRow {wkb.data(), sizeof(wkb)};
					} else {
						row = Row(last);
					}
					probe.BeginTests(&row, 1, limits.empty() ? nullptr : &limits[last]);
				}
				holds[i] = probe.Test(0, open[i].build) ? 1 : 0;
			}
		});
	};
	if (open.size() > PAIRS_PER_STEP) {
		join.threads.Run(decide_some);
	} else {
		vibespatial::Serial serial;
		decide_some(serial);
	}
	for (idx_t i = 0; i < open.size(); i++) {
		if (holds[i]) {
			AddPair(open[i].probe, open[i].build);
		}
	}
}

//! Nothing of a result is taken before all of it is known to be there
void DeviceTile::Use(const GpuTileResult &result, idx_t first, idx_t size) {
	if (result.open > 0) {
		vector<Pair> open(result.open);
		for (idx_t i = 0; i < result.open; i++) {
			open[i] = Pair {result.open_probe[i], result.open_build[i]};
		}
		Decide(std::move(open));
	}
	if (result.left_count > 0) {
		// In their order: the first error is that of the first row
		vector<uint32_t> left(result.left, result.left + result.left_count);
		std::sort(left.begin(), left.end());
		RunRowsOnCpu(left);
	}
	for (idx_t i = 0; result.counts && i < counted->size(); i++) {
		(*counted)[i] += result.counts[i];
	}
	for (idx_t i = 0; result.found && i < size; i++) {
		found[first + i] |= result.found[i];
	}
	lock_guard<mutex> guard(join.lock);
	join.tiles_done++;
	join.open_pairs += result.open;
	join.left_rows += result.left_count;
	join.join_counts.candidates += result.candidates;
	(use_cells ? join.join_counts.cell_hits : join.join_counts.exact_tests) +=
	    use_cells ? result.pairs : result.candidates;
	auto &event = join.event;
	event.rows += size;
	join.AddTimes(event, result.times);
}

void DeviceTile::RunOnCpu(idx_t first, idx_t size) {
	vector<uint32_t> rows(size);
	for (idx_t i = 0; i < size; i++) {
		rows[i] = NumericCast<uint32_t>(first + i);
	}
	// These come in any case
	idx_t kept = 0;
	for (auto row : rows) {
		if (!std::binary_search(cpu_rows.begin(), cpu_rows.end(), row)) {
			rows[kept++] = row;
		}
	}
	rows.resize(kept);
	RunRowsOnCpu(rows);
}

void DeviceTile::RunRowsOnCpu(const vector<uint32_t> &tile_rows) {
	vibespatial::JoinProbe probe(build.Build().Index(), CancelPoll(context));
	probe.SetFirstOnly(output == GpuOutput::FOUND);
	probe.SetOrdered(op.deterministic);
	std::vector<JoinRow> rows;
	std::vector<double> row_limits;
	std::vector<vibespatial::PointBytes> wkb(kind == Kind::POINTS ? STANDARD_VECTOR_SIZE : 0);
	uint32_t probe_rows[STANDARD_VECTOR_SIZE], build_rows[STANDARD_VECTOR_SIZE];
	for (idx_t begin = 0; begin < tile_rows.size(); begin += STANDARD_VECTOR_SIZE) {
		auto size = MinValue<idx_t>(STANDARD_VECTOR_SIZE, tile_rows.size() - begin);
		rows.clear();
		row_limits.clear();
		for (idx_t i = 0; i < size; i++) {
			auto row = tile_rows[begin + i];
			if (kind == Kind::SHAPES) {
				rows.push_back(Row(row));
			} else if (points[row].x != points[row].x) {
				rows.push_back(JoinRow {nullptr, 0});
			} else {
				wkb[i] = vibespatial::WritePoint(points[row]);
				rows.push_back(JoinRow {wkb[i].data(), sizeof(vibespatial::PointBytes)});
			}
			if (!limits.empty()) {
				row_limits.push_back(limits[row]);
			}
		}
		probe.Begin(rows.data(), size, row_limits.empty() ? nullptr : row_limits.data(), nullptr);
		while (auto some = probe.Next(probe_rows, build_rows, STANDARD_VECTOR_SIZE)) {
			for (idx_t i = 0; i < some; i++) {
				AddPair(tile_rows[begin + probe_rows[i]], build_rows[i]);
			}
		}
	}
	lock_guard<mutex> guard(join.lock);
	join.join_counts.Add(probe.counts);
}

//! By chunk
void DeviceTile::SortPairs() {
	chunk_begin.assign(ChunkCount() + 1, 0);
	if (op.deterministic) {
		for (idx_t i = 0; i < device_pairs; i++) {
			pairs.push_back(Pair {device_probe[i], device_build[i]});
		}
		device_pairs = 0;
		std::sort(pairs.begin(), pairs.end(), [](const Pair &a, const Pair &b) {
			return a.probe != b.probe ? a.probe < b.probe : a.build < b.build;
		});
	}
	for (auto &pair : pairs) {
		chunk_begin[pair.probe / STANDARD_VECTOR_SIZE + 1]++;
	}
	for (idx_t i = 0; i < device_pairs; i++) {
		chunk_begin[device_probe[i] / STANDARD_VECTOR_SIZE + 1]++;
	}
	for (idx_t i = 0; i < ChunkCount(); i++) {
		chunk_begin[i + 1] += chunk_begin[i];
	}
	chunk_probe.resize(pairs.size() + device_pairs);
	chunk_build.resize(pairs.size() + device_pairs);
	auto next = chunk_begin;
	for (idx_t i = 0; i < device_pairs; i++) {
		auto at = next[device_probe[i] / STANDARD_VECTOR_SIZE]++;
		chunk_probe[at] = device_probe[i] % STANDARD_VECTOR_SIZE;
		chunk_build[at] = device_build[i];
	}
	for (auto &pair : pairs) {
		auto at = next[pair.probe / STANDARD_VECTOR_SIZE]++;
		chunk_probe[at] = pair.probe % STANDARD_VECTOR_SIZE;
		chunk_build[at] = pair.build;
	}
}

void DeviceTile::BeginChunk(SpatialProbe &probe, idx_t chunk) {
	auto &input = kept.Chunk(chunk);
	if (output == GpuOutput::FOUND) {
		probe.BeginFound(build.Build(), input, found.data() + chunk * STANDARD_VECTOR_SIZE);
		return;
	}
	auto begin = chunk_begin[chunk];
	probe.BeginPairs(build.Build(), input, chunk_probe.data() + begin, chunk_build.data() + begin,
	                 chunk_begin[chunk + 1] - begin);
}

//===----------------------------------------------------------------------===//
// One thread
//===----------------------------------------------------------------------===//
DeviceProbe::DeviceProbe(ClientContext &context, const PhysicalSpatialJoin &op, DeviceJoin &join)
    : context(context), op(op), join(join) {
}

DeviceProbe::~DeviceProbe() = default;

bool DeviceProbe::MayWait() const {
	return !op.deterministic && filling->HasRoom() && waiting_bytes < MAX_WAITING_BYTES && join.IsAwaited();
}

void DeviceProbe::EndTile() {
	if (MayWait()) {
		waiting_bytes += filling->MemoryBytes();
		waiting.push_back(std::move(filling));
		return;
	}
	for (auto &tile : waiting) {
		Swap(std::move(tile));
	}
	waiting.clear();
	Swap(std::move(filling));
}

void DeviceProbe::Swap(unique_ptr<DeviceTile> tile) {
	tile->Launch();
	auto back = std::move(flying);
	flying = std::move(tile);
	if (op.deterministic) {
		// Rows come out before the next ones go in
		back = std::move(flying);
	}
	if (!back) {
		return;
	}
	if (join.Output() == GpuOutput::COUNTS) {
		back->Finish(counts);
		back->Clear();
		spare = std::move(back);
	} else {
		back->Finish(nullptr);
		giving.push_back(std::move(back));
	}
}

bool DeviceProbe::ArePoints(const SpatialProbe &probe, idx_t count) {
	return AllPoints(probe.Geometries(), 0, count);
}

void DeviceProbe::Add(SpatialProbe &probe, DataChunk &input) {
	idx_t taken = 0;
	while (taken < input.size()) {
		if (!filling) {
			filling = spare ? std::move(spare) : make_uniq<DeviceTile>(context, op, join, join.Build(), join.Output());
		}
		auto some = filling->Add(input, probe.Geometries(), probe.Limits(), taken);
		taken += some;
		if (some == 0 || filling->IsFull() || op.deterministic) {
			EndTile();
		}
	}
}

bool DeviceProbe::NextChunk(SpatialProbe &probe) {
	while (!giving.empty()) {
		auto &tile = giving.front();
		if (next_chunk < tile->ChunkCount()) {
			tile->BeginChunk(probe, next_chunk++);
			return true;
		}
		tile->Clear();
		spare = std::move(tile);
		giving.pop_front();
		next_chunk = 0;
	}
	return false;
}

void DeviceProbe::Finalize() {
	if (filling && !join.IsAwaited()) {
		filling->Launch();
	}
	vector<unique_ptr<DeviceTile>> tiles;
	auto add = [&](unique_ptr<DeviceTile> tile) {
		if (tile && tile->Count() > 0) {
			tiles.push_back(std::move(tile));
		}
	};
	add(std::move(flying));
	for (auto &tile : waiting) {
		add(std::move(tile));
	}
	add(std::move(filling));
	if (join.Output() != GpuOutput::COUNTS) {
		join.AddTiles(std::move(tiles)); // for all threads
		return;
	}
	for (auto &tile : tiles) {
		tile->Finish(counts);
	}
	join.AddCounts(counts);
}

} // namespace duckdb
