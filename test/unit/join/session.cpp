#include "engine/join/session/pinned.hpp"
#include "engine/join/session/stream.hpp"

#include "catch.hpp"

#include "engine/dispatch/needs.hpp"
#include "engine/gpu/interface/neighbours.hpp"
#include "engine/gpu/interface/overlay.hpp"
#include "engine/gpu/interface/shared_memory.hpp"
#include "engine/relate/prepared.hpp"
#include "geometry/wkb.hpp"
#include "three_threads.hpp"
#include "vibe/distance.h"
#include "wkt_rows.hpp"

#include <map>
#include <random>
#include <set>

using namespace vibespatial;

namespace {

using Pair = std::pair<uint32_t, uint32_t>;

//! A geometry on a small grid; empty text for NULL. The device does not read collections.
std::string RandomText(std::mt19937 &random, bool points) {
	auto number = [&] { return std::to_string(random() % 90); };
	const auto x = number(), y = number(), corner = x + " " + y;
	const auto kind = points ? 0 : random() % 5;
	if (random() % 30 == 0) {
		return points || random() % 2 ? "" : "POLYGON EMPTY";
	}
	if (kind == 0) {
		return "POINT (" + corner + ")";
	}
	if (kind == 1) {
		return "LINESTRING (" + corner + ", " + number() + " " + number() + ")";
	}
	if (kind == 2) {
		return "GEOMETRYCOLLECTION (POINT (" + corner + "))";
	}
	return "POLYGON ((" + corner + ", " + x + ".5 " + y + ", " + x + ".5 " + y + ".5, " + corner + "))";
}

struct Rows {
	std::vector<std::string> wkb;
	JoinRows rows;
	std::vector<double> limits;

	Rows(uint32_t seed, size_t count, bool points) {
		std::mt19937 random(seed);
		for (size_t i = 0; i < count; i++) {
			limits.push_back(random() % 9 == 0 ? JoinCondition::NO_LIMIT : double(random() % 3));
			wkb.emplace_back();
			const auto text = RandomText(random, points);
			if (!text.empty()) {
				GeometryBatch batch;
				wkt_test::ReadWkt(text, batch);
				wkb.back() = WriteWkb(batch, 0);
			}
		}
		for (auto &bytes : wkb) {
			auto data = reinterpret_cast<const uint8_t *>(bytes.data());
			rows.push_back(JoinRow {bytes.empty() ? nullptr : data, static_cast<uint32_t>(bytes.size())});
		}
	}
};

std::set<Pair> AllPairs(const JoinCondition &condition, const Rows &probe, const Rows &build) {
	auto read = [](const Rows &from) {
		std::vector<Shape> shapes(from.rows.size());
		GeometryBatch batch;
		for (size_t i = 0; i < shapes.size(); i++) {
			if (from.rows[i].data) {
				BuildShape(from.rows[i].data, from.rows[i].size, batch, shapes[i]);
			}
		}
		return shapes;
	};
	const auto left = read(probe), right = read(build);
	std::set<Pair> result;
	RelateScratch scratch;
	for (uint32_t i = 0; i < left.size(); i++) {
		for (uint32_t k = 0; k < right.size(); k++) {
			if (!probe.rows[i].data || !build.rows[k].data) {
				continue;
			}
			auto &a = left[i].View();
			auto &b = right[k].View();
			const bool empty = a.dimension < 0 || b.dimension < 0;
			const auto &term = condition.any_of[0];
			const bool holds = term.kind == JoinTerm::RELATE
			                       ? Evaluate(term.predicate, a, b, scratch)
			                       : !empty && vibe::ShapeDistance(a, b, -1) <= probe.limits[i] + build.limits[k];
			if (holds) {
				result.insert(Pair(i, k));
			}
		}
	}
	return result;
}

enum class Fault : uint8_t {
	NONE,
	OPEN,       // leaves pairs and rows to the CPU
	NO_ROOM,    // has memory for few rows at a time
	NEVER_ROOM, // has memory for none
	BEGIN,      // fails at the start of a tile
	FINISH,     // fails at the end of the second tile
	NEW_TILE,   // fails before the first
	UPLOAD,     // fails with the rows of the build side
	UPLOAD_ROOM // has no memory for them
};

bool Passes(const PinnedTerms &filter, size_t row) {
	return std::all_of(filter.begin(), filter.end(), [&](const PinnedTerm &term) {
		return term.low <= static_cast<int64_t>(row) && static_cast<int64_t>(row) <= term.high;
	});
}

//! Rows of a table in segments, of points or of shapes. The filter of the tests keeps the rows of each segment whose number is within a
//! term.
struct FakePinned : PinnedRows {
	size_t Segments() const override {
		return segments.size();
	}
	size_t Count(size_t segment) const override {
		return segments[segment].size();
	}
	PinnedKind Kind(size_t) const override {
		return PinnedKind {are_shapes, true, true};
	}
	//! As the device has it
	JoinRow Row(size_t segment, size_t row, const PinnedTerms &filter) const {
		return Passes(filter, row) ? segments[segment][row] : JoinRow {nullptr, 0};
	}
	vibe::Vec2 Point(size_t segment, size_t row, const PinnedTerms &filter) const {
		const auto wkb = Row(segment, row, filter);
		vibe::Vec2 point {NAN, NAN};
		if (wkb.data) {
			REQUIRE(vibe::TryReadPoint(wkb.data, wkb.size, point));
		}
		return point;
	}
	bool are_shapes = false;
	std::vector<std::vector<JoinRow>> segments;
};

//! A device that finds its pairs with a probe of the CPU
struct FakeDevice : GpuEngine {
	struct Build : GpuBuild {
		explicit Build(FakeDevice &device) : device(device) {
		}
		bool HasRows() const override {
			return has_rows;
		}
		bool HasCells() const override {
			return has_cells;
		}
		//! Leaves every third row, and counts the shapes that come for them
		struct Upload : GpuRowUpload {
			Upload(Build &build, const GpuRows &rows) : build(build) {
				for (uint32_t row = 0; !rows.points && row < rows.count; row += 3) {
					if (rows.wkb[row].data) {
						left.push_back(row);
					}
				}
			}
			const std::vector<uint32_t> &LeftRows() const override {
				return left;
			}
			void AddShapes(const std::vector<PackedShapes> &pieces, Parallel &) override {
				for (auto &piece : pieces) {
					shapes += piece.views.size();
				}
			}
			void AddBytes(GpuTimes &times) override {
				times.bytes_to_device += 1000;
			}
			void Finish() override {
				CHECK(shapes == left.size());
				build.has_rows = true;
			}
			Build &build;
			std::vector<uint32_t> left;
			size_t shapes = 0;
		};
		std::unique_ptr<GpuRowUpload> BeginRows(const GpuRows &rows, Parallel &, GpuTimes &) override {
			device.uploads++;
			if (device.fault == Fault::UPLOAD) {
				throw GpuError("upload");
			}
			if (device.fault == Fault::UPLOAD_ROOM) {
				throw GpuMemoryError("upload");
			}
			return std::make_unique<Upload>(*this, rows);
		}
		void SetCells(const CellIndex::Pieces &, size_t, Parallel &, GpuTimes &times) override {
			times.bytes_to_device += 100;
			device.uploads++;
			has_cells = true;
		}
		uint64_t Bytes() const override {
			return 0;
		}
		FakeDevice &device;
		std::atomic<bool> has_rows {false};
		std::atomic<bool> has_cells {false};
	};

	struct OneTile : GpuTile {
		explicit OneTile(FakeDevice &device) : device(device) {
		}
		vibe::Vec2 *Points(size_t capacity) override {
			points.resize(capacity);
			return points.data();
		}
		uint8_t *Block(size_t number) override {
			auto &block = blocks[number];
			block.resize(ShapeRows::BLOCK_BYTES);
			return block.data();
		}
		uint64_t HostBytes() const override {
			return 1000;
		}
		void Begin(const GpuTileInput &begun) override {
			input = begun;
			device.begun++;
			if (device.fault == Fault::BEGIN) {
				throw GpuError("begin");
			}
		}
		const GpuTileResult &Finish() override;
		void ReadPinned(const GpuTileInput &from, vibe::Vec2 *to) override {
			if (device.fault == Fault::FINISH) {
				throw GpuError("read");
			}
			const auto &pinned = static_cast<const FakePinned &>(*from.pinned);
			REQUIRE(!pinned.are_shapes);
			for (size_t i = 0; i < from.count; i++) {
				to[i] = pinned.Point(from.segment, from.offset + from.first + i, *from.filter);
			}
		}

		FakeDevice &device;
		std::vector<vibe::Vec2> points;
		std::map<size_t, std::vector<uint8_t>> blocks;
		GpuTileInput input;
		GpuTileResult result;
		std::vector<uint32_t> probe, build, open_probe, open_build, left, counts;
		std::vector<uint8_t> found;
	};

	explicit FakeDevice(JoinIndex &index, Fault fault) : index(index), fault(fault) {
	}
	std::shared_ptr<GpuBuild> FindBuild(const BuildKey &key) override {
		return kept.count(key) ? kept[key] : nullptr;
	}
	std::shared_ptr<GpuBuild> NewBuild() override {
		return std::make_shared<Build>(*this);
	}
	void KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) override {
		kept[key] = build;
	}
	std::unique_ptr<GpuTile> NewTile(const std::shared_ptr<GpuBuild> &, const JoinCondition &) override {
		if (fault == Fault::NEW_TILE) {
			throw GpuError("new tile");
		}
		return std::make_unique<OneTile>(*this);
	}

	// What a join does not ask for
	bool WaitForDevice(double, std::string &) override {
		return true;
	}
	GpuDevice Device() override {
		return {};
	}
	bool UsesRoughEdges() override {
		return false;
	}
	const GpuFigures *Figures() override {
		return nullptr;
	}
	std::vector<GpuComponent> Components() override {
		return {};
	}
	void Configure(const GpuOptions &) override {
	}
	void Request(const std::vector<std::string> &, const std::string &, bool) override {
	}
	std::vector<std::string> EnsureWarm(const std::vector<std::string> &, double) override {
		return {};
	}
	std::vector<KernelStatus> Status() override {
		return {};
	}
	std::vector<GpuMemoryRow> Memory() override {
		return {};
	}
	uint64_t MemoryLimit() override {
		return 0;
	}
	void Quiesce(double) override {
	}
	std::vector<GpuStep> Steps() override {
		return {};
	}
	void AddStep(const GpuStep &) override {
	}
	PackedBoxes PackBoxes(const vibe::Box *, size_t, Parallel &, GpuTimes &) override {
		return {};
	}
	std::shared_ptr<GpuPinned> NewPinned(const PinnedLayout &) override {
		return nullptr;
	}
	std::unique_ptr<GpuSharedMemory> NewSharedMemory() override;
	std::unique_ptr<GpuSearch> NewSearch(const std::shared_ptr<GpuBuild> &, uint32_t, double) override;
	std::unique_ptr<GpuScalarBatch> NewScalarBatch(const ScalarTask &) override;
	std::unique_ptr<GpuUnion> BeginUnion(const OverlayNet &, Parallel &) override;
	std::vector<std::string> SelfTest() override {
		return {};
	}

	JoinIndex &index;
	const Fault fault;
	//! Pinned memory that the pairs of a row take
	uint64_t bytes_per_row = 0;
	std::map<BuildKey, std::shared_ptr<GpuBuild>> kept;
	std::atomic<size_t> uploads {0};
	std::atomic<size_t> begun {0};
	std::atomic<size_t> finished {0};
};

const GpuTileResult &FakeDevice::OneTile::Finish() {
	constexpr size_t ROOM = 600;
	if (device.fault == Fault::NEVER_ROOM || (device.fault == Fault::NO_ROOM && input.count > ROOM)) {
		throw GpuMemoryError("no room");
	}
	if (input.output == GpuOutput::PAIRS) {
		input.reserve(device.bytes_per_row * input.count);
	}
	if (device.fault == Fault::FINISH && ++device.finished > 1) {
		throw GpuError("finish");
	}
	for (auto list : {&probe, &build, &open_probe, &open_build, &left}) {
		list->clear();
	}
	const auto *pinned = static_cast<const FakePinned *>(input.pinned);
	counts.assign(input.output == GpuOutput::COUNTS ? device.index.RowCount() : 0, 0);
	found.assign(input.output == GpuOutput::FOUND ? input.count : 0, 0);
	std::vector<vibe::ShapeView> packed;
	for (size_t piece = 0; input.shapes && piece < input.shapes->packed.size(); piece++) {
		auto &views = input.shapes->packed[piece].views;
		packed.insert(packed.end(), views.begin(), views.end());
	}
	JoinProbe prober(device.index, [] {});
	for (auto row = static_cast<uint32_t>(input.first); row < input.first + input.count; row++) {
		PointBytes buffer;
		JoinRow wkb {nullptr, 0};
		if (pinned) {
			wkb = pinned->Row(input.segment, input.offset + row, *input.filter);
		} else if (!input.shapes) {
			buffer = WritePoint(points[row]);
			wkb = points[row].x == points[row].x ? JoinRow {buffer.data(), sizeof(buffer)} : wkb;
		} else if (input.shapes->Rows()[row].size == vibe::WkbRow::PACKED) {
			if (packed[input.shapes->Rows()[row].begin].dimension >= 0) {
				left.push_back(row);
			}
		} else if (device.fault == Fault::OPEN && row % 11 == 0) {
			left.push_back(row);
		} else {
			wkb = JoinRow {input.shapes->Wkb(row), input.shapes->Rows()[row].size};
		}
		prober.Begin(&wkb, 1, input.limits ? input.limits + row : nullptr, nullptr);
		uint32_t probe_row, build_row;
		bool leaves_open = device.fault == Fault::OPEN && row % 3 == 0 && wkb.data;
		while (prober.Next(&probe_row, &build_row, 1) > 0) {
			if (leaves_open) {
				open_probe.push_back(row);
				open_build.push_back(build_row);
			} else if (input.output == GpuOutput::PAIRS) {
				probe.push_back(row);
				build.push_back(build_row);
			} else if (input.output == GpuOutput::COUNTS) {
				counts[build_row]++;
			} else {
				found[row - input.first] = 1;
			}
		}
		if (leaves_open && (open_probe.empty() || open_probe.back() != row)) {
			open_probe.push_back(row); // not a pair
			open_build.push_back(1);
		}
	}
	result = GpuTileResult {};
	result.probe = probe.data();
	result.build = build.data();
	result.pairs = probe.size();
	result.open_probe = open_probe.data();
	result.open_build = open_build.data();
	result.open = open_probe.size();
	result.left = left.data();
	result.left_count = left.size();
	result.counts = counts.empty() ? nullptr : counts.data();
	result.found = found.empty() ? nullptr : found.data();
	return result;
}

std::unique_ptr<GpuUnion> FakeDevice::BeginUnion(const OverlayNet &, Parallel &) {
	return nullptr;
}
std::unique_ptr<GpuSharedMemory> FakeDevice::NewSharedMemory() {
	throw GpuError("not in a join");
}
std::unique_ptr<GpuSearch> FakeDevice::NewSearch(const std::shared_ptr<GpuBuild> &, uint32_t, double) {
	throw GpuError("not in a join");
}
std::unique_ptr<GpuScalarBatch> FakeDevice::NewScalarBatch(const ScalarTask &) {
	throw GpuError("not in a join");
}

struct NumberedInput : JoinInput {
	uint32_t first = 0;
};

//! Keeps the number of each row
struct NumberPayload : TilePayload {
	NumberPayload(bool has_memory, uint64_t most_bytes) : has_memory(has_memory), most_bytes(most_bytes) {
	}
	void Keep(const JoinInput &input, size_t begin, size_t count, size_t at) override {
		CHECK(at == numbers.size());
		for (size_t i = 0; i < count; i++) {
			numbers.push_back(static_cast<uint32_t>(static_cast<const NumberedInput &>(input).first + begin + i));
		}
	}
	void Clear() override {
		numbers.clear();
	}
	bool CountMemory(uint64_t bytes) override {
		return has_memory && bytes <= most_bytes;
	}
	void RequireMemory(uint64_t bytes) override {
		if (!CountMemory(bytes)) {
			throw std::runtime_error("no memory");
		}
	}
	uint64_t CountedBytes() const override {
		return 1;
	}
	const bool has_memory;
	const uint64_t most_bytes;
	std::vector<uint32_t> numbers;
};

struct TestHost : JoinHost {
	void Poll() override {
		if (is_cancelled) {
			throw std::runtime_error("cancelled");
		}
	}
	size_t Threads() const override {
		return 3;
	}
	void Run(const std::function<void(Parallel &)> &work) override {
		ThreeThreads threads;
		work(threads);
	}
	void Invite(const std::shared_ptr<SharedWork> &) override {
	}
	std::unique_ptr<TilePayload> NewPayload() override {
		return std::make_unique<NumberPayload>(has_memory, most_bytes);
	}
	bool DeviceIsStarting() override {
		return is_starting;
	}
	void WaitForDevice() override {
		is_starting = false;
	}
	void WaitForKernels(const std::vector<std::string> &names) override {
		std::lock_guard<std::mutex> guard(kernel_lock);
		if (std::find(names.begin(), names.end(), missing_kernel) != names.end()) {
			throw GpuError("no " + missing_kernel);
		}
		kernels.insert(kernels.end(), names.begin(), names.end());
	}
	void TileFinished(std::chrono::system_clock::time_point begin, const GpuTimes &) override {
		tiles++;
		CHECK(begin.time_since_epoch().count() > 0);
	}
	void DeviceFailed(const std::string &reason) override {
		failures++;
		if (needs_device) {
			throw std::runtime_error("the device is needed: " + reason);
		}
	}
	void LeftToCpu(size_t count, const char *what, const char *) override {
		(std::string(what) == "pairs" ? left_pairs : left_rows) += count;
	}
	//! Threads call it at the same time
	std::atomic<size_t> left_pairs {0};
	std::atomic<size_t> left_rows {0};
	bool is_cancelled = false;
	bool has_memory = true;
	uint64_t most_bytes = UINT64_MAX;
	bool is_starting = false;
	bool needs_device = false;
	size_t failures = 0;
	std::atomic<size_t> tiles {0};
	std::string missing_kernel;
	std::mutex kernel_lock;
	std::vector<std::string> kernels;
};

struct Answer {
	std::set<Pair> pairs;
	std::vector<uint64_t> counts;
	std::set<uint32_t> found;
	JoinReport report;
};

struct Case {
	bool points = false;
	bool limits = false;
	bool ordered = false;
	Fault fault = Fault::NONE;
	JoinOutput output = JoinOutput::PAIRS;
};

class Join {
public:
	Join(const Case &of, size_t probe_rows = 6000) : of(of), probe(17, probe_rows, of.points), build(23, 300, false) {
		condition.any_of = {JoinTerm {JoinTerm::RELATE, vibe::PREDICATE_INTERSECTS, false}};
		if (of.limits) {
			condition.any_of[0].kind = JoinTerm::DISTANCE;
			condition.limit_from = JoinLimit::SUM;
		}
		index = std::make_unique<JoinIndex>(condition, build.rows, of.limits ? build.limits : std::vector<double>());
		index->KeepForDevice();
		Serial serial;
		index->Build(serial);
		device = std::make_unique<FakeDevice>(*index, of.fault);
	}

	//! Chunk by chunk, on the device or not
	Answer RunChunks(bool on_device) {
		JoinSession session(host, condition, of.output, of.ordered);
		if (on_device) {
			session.UseDevice(device.get(), build.rows.size());
		}
		auto joined = session.NewBuild(*index, on_device, [](const UploadReport &) {});
		JoinStream stream(*joined);
		Answer answer;
		for (uint32_t first = 0; first < probe.rows.size(); first += JOIN_CHUNK_ROWS) {
			auto input = Input(first);
			stream.Begin(input);
			std::vector<uint32_t> numbers(input.count);
			for (size_t i = 0; i < input.count; i++) {
				numbers[i] = first + static_cast<uint32_t>(i);
			}
			ReadPairs(stream, numbers.data(), answer);
		}
		answer.report = session.Report();
		return answer;
	}

	//! All chunks in tiles. The first stream ends with tiles that were not emitted; the second one resumes them.
	Answer RunTiles() {
		JoinSession session(host, condition, of.output, of.ordered);
		session.UseDevice(device.get(), build.rows.size());
		auto joined = session.NewBuild(*index, true, [](const UploadReport &) {});
		Answer answer;
		{
			JoinStream stream(*joined);
			for (uint32_t first = 0; first < probe.rows.size(); first += JOIN_CHUNK_ROWS) {
				stream.Collect(Input(first));
				Emit(stream, answer);
			}
			stream.EndCollecting();
		}
		JoinStream rest(*joined);
		for (size_t i = 0; i < session.LeftTiles(); i++) {
			rest.Resume(i);
			Emit(rest, answer);
		}
		answer.counts = session.Counts();
		answer.report = session.Report();
		if (of.output != JoinOutput::COUNTS) {
			CHECK(emitted_rows == probe.rows.size());
		}
		return answer;
	}

	//! The probe side in segments on the device, with a filter by the number of a row in its segment, or without
	Answer RunPinned(size_t segments, const PinnedTerms &filter) {
		const auto rows = Pinned(segments);
		JoinSession session(host, condition, of.output, of.ordered);
		session.UseDevice(device.get(), build.rows.size());
		auto joined = session.NewBuild(*index, true, [](const UploadReport &) {});
		Answer answer;
		try {
			CountPinned(*joined, PinnedProbe {rows, filter, nullptr, ReaderOfShapes(*rows, filter)});
		} catch (const GpuError &) {
			CHECK(!session.IsActive());
		}
		answer.counts = session.Counts();
		answer.report = session.Report();
		return answer;
	}

	//! The same, with the rows piece by piece, and a copy on the host where the device fails
	Answer StreamPinned(size_t segments, size_t most, const PinnedTerms &filter) {
		const auto rows = Pinned(segments);
		const auto read = [&](size_t segment, size_t begin, size_t count, vibe::Vec2 *to) {
			for (size_t i = begin; i < begin + count; i++) {
				*to++ = rows->Point(segment, i, filter);
			}
		};
		const PinnedProbe pinned {rows, filter, read, ReaderOfShapes(*rows, filter)};
		JoinSession session(host, condition, of.output, of.ordered);
		session.UseDevice(device.get(), build.rows.size());
		auto joined = session.NewBuild(*index, true, [](const UploadReport &) {});
		JoinStream stream(*joined);
		Answer answer;
		for (auto &piece : CutPinned(*rows, most)) {
			CHECK((piece.count > 0 && piece.count <= most));
			stream.BeginPinned(pinned, piece);
			JoinChunk chunk;
			while (stream.NextChunk(chunk)) {
				std::vector<uint32_t> numbers(chunk.count);
				for (size_t i = 0; i < chunk.count; i++) {
					const size_t row = piece.begin + chunk.number * JOIN_CHUNK_ROWS + i;
					numbers[i] = static_cast<uint32_t>(row * segments + piece.segment);
					if (chunk.found && chunk.found[i]) {
						answer.found.insert(numbers[i]);
					}
				}
				emitted_rows += chunk.count;
				const size_t before = answer.pairs.size();
				ReadPairs(stream, numbers.data(), answer);
				CHECK(answer.pairs.size() - before == chunk.pairs);
			}
		}
		CHECK(emitted_rows == probe.rows.size());
		answer.report = session.Report();
		return answer;
	}

	void Check(const Answer &answer) const {
		const auto expected = AllPairs(condition, probe, build);
		CHECK(expected.size() > 100);
		std::set<uint32_t> found;
		std::vector<uint64_t> counts(build.rows.size());
		for (auto &pair : expected) {
			found.insert(pair.first);
			counts[pair.second]++;
		}
		switch (of.output) {
		case JoinOutput::PAIRS:
			CHECK((answer.pairs == expected));
			break;
		case JoinOutput::COUNTS:
			CHECK((answer.counts == counts));
			break;
		case JoinOutput::FOUND:
			CHECK((answer.found == found));
			break;
		}
	}

	const Case of;
	Rows probe;
	Rows build;
	JoinCondition condition;
	std::unique_ptr<JoinIndex> index;
	std::unique_ptr<FakeDevice> device;
	TestHost host;

private:
	//! Row i is the row i / segments of segment i % segments
	std::shared_ptr<FakePinned> Pinned(size_t segments) const {
		auto rows = std::make_shared<FakePinned>();
		rows->are_shapes = !of.points;
		rows->segments.resize(segments);
		for (size_t i = 0; i < probe.rows.size(); i++) {
			rows->segments[i % segments].push_back(probe.rows[i]);
		}
		return rows;
	}
	//! Whose rows are gone when they have been visited
	static decltype(PinnedProbe::read_shapes) ReaderOfShapes(const FakePinned &pinned, const PinnedTerms &filter) {
		return [&pinned, filter](size_t segment, const std::vector<size_t> &rows, const PinnedProbe::Visit &visit) {
			REQUIRE(pinned.are_shapes);
			CHECK(std::is_sorted(rows.begin(), rows.end()));
			for (auto row : rows) {
				const auto wkb = pinned.Row(segment, row, filter);
				std::vector<uint8_t> copy(wkb.data, wkb.data + wkb.size);
				visit(row, JoinRow {wkb.data ? copy.data() : nullptr, wkb.size});
			}
		};
	}
	NumberedInput Input(uint32_t first) {
		NumberedInput input;
		input.first = first;
		input.rows = probe.rows.data() + first;
		input.count = std::min<size_t>(JOIN_CHUNK_ROWS, probe.rows.size() - first);
		input.limits = of.limits ? probe.limits.data() + first : nullptr;
		for (size_t i = 0; i < input.count; i++) {
			input.bytes += input.rows[i].size;
		}
		x.resize(JOIN_CHUNK_ROWS);
		y.resize(JOIN_CHUNK_ROWS);
		if (ReadPoints(input.rows, input.count, x.data(), y.data(), input.has_nulls)) {
			input.x = x.data();
			input.y = y.data();
		}
		CHECK((input.x != nullptr) == of.points);
		return input;
	}
	void Emit(JoinStream &stream, Answer &answer) {
		JoinChunk chunk;
		while (stream.NextChunk(chunk)) {
			auto numbers = static_cast<NumberPayload &>(*chunk.payload).numbers.data() + chunk.number * JOIN_CHUNK_ROWS;
			emitted_rows += chunk.count;
			for (size_t i = 0; chunk.found && i < chunk.count; i++) {
				if (chunk.found[i]) {
					answer.found.insert(numbers[i]);
				}
			}
			ReadPairs(stream, numbers, answer);
		}
	}
	void ReadPairs(JoinStream &stream, const uint32_t *numbers, Answer &answer) {
		uint32_t left[50], right[50];
		while (auto count = stream.Next(left, right, 50)) {
			for (size_t i = 0; i < count; i++) {
				const Pair pair(numbers[left[i]], right[i]);
				CHECK((!of.ordered || answer.pairs.empty() || *answer.pairs.rbegin() < pair));
				CHECK(answer.pairs.insert(pair).second);
			}
		}
	}
	std::vector<double> x;
	std::vector<double> y;
	size_t emitted_rows = 0;
};

} // namespace

TEST_CASE("A stream finds all pairs of a chunk, on the CPU and on the device", "[join]") {
	for (bool points : {false, true}) {
		for (bool limits : {false, true}) {
			for (bool ordered : {false, true}) {
				Join join(Case {points, limits, ordered});
				join.Check(join.RunChunks(false));
				CHECK(join.device->begun == 0);
				join.Check(join.RunChunks(true));
				CHECK(join.device->begun == 3);
			}
		}
	}
}

TEST_CASE("Tiles have the same pairs, counts and flags, whatever the device leaves open or fails to do", "[join]") {
	for (auto fault : {Fault::NONE, Fault::OPEN, Fault::NO_ROOM, Fault::NEVER_ROOM, Fault::BEGIN, Fault::FINISH,
	                   Fault::NEW_TILE, Fault::UPLOAD, Fault::UPLOAD_ROOM}) {
		for (auto output : {JoinOutput::PAIRS, JoinOutput::COUNTS, JoinOutput::FOUND}) {
			for (bool points : {false, true}) {
				const bool ordered = fault == Fault::OPEN || fault == Fault::FINISH;
				Join join(Case {points, points, ordered, fault, output});
				const auto answer = join.RunTiles();
				join.Check(answer);
				auto &report = answer.report;
				const bool failed = fault >= Fault::BEGIN && fault != Fault::UPLOAD_ROOM;
				CHECK(join.host.failures == (failed ? 1 : 0));
				CHECK(report.failure.empty() == !failed);
				CHECK((report.open_pairs > 0) == (fault == Fault::OPEN));
				CHECK((report.tiles_on_cpu > 0) == (fault == Fault::NEVER_ROOM || fault == Fault::UPLOAD_ROOM));
				if (fault == Fault::NONE || fault == Fault::OPEN || fault == Fault::NO_ROOM) {
					CHECK(report.rows == join.probe.rows.size());
				}
				CHECK((fault == Fault::NO_ROOM ? report.tiles > 4 : true));
				// The build side is among the bytes, once
				if (fault == Fault::NONE) {
					const auto bytes = report.times.bytes_to_device;
					CHECK((bytes == 1000 || bytes == 100));
					// Some shapes are not for the device
					CHECK((report.cpu_rows == 0) == points);
				}
				CHECK(join.host.left_pairs == report.open_pairs);
				const bool no_room = fault == Fault::NEVER_ROOM || fault == Fault::UPLOAD_ROOM;
				if (points) {
					CHECK((join.host.left_rows > 0) == no_room);
				}
				CHECK((report.cpu_rows == join.probe.rows.size()) ==
				      (no_room || fault == Fault::BEGIN || fault == Fault::NEW_TILE || fault == Fault::UPLOAD));
			}
		}
	}
}

TEST_CASE("Pinned rows have the same counts, or none where the device is lost", "[join]") {
	for (auto fault : {Fault::NONE, Fault::OPEN, Fault::NO_ROOM, Fault::NEVER_ROOM, Fault::BEGIN, Fault::FINISH,
	                   Fault::NEW_TILE, Fault::UPLOAD_ROOM}) {
		for (bool points : {true, false}) {
			for (size_t segments : {1, 2, 7}) {
				Join join(Case {points, false, false, fault, JoinOutput::COUNTS});
				const auto answer = join.RunPinned(segments, {});
				// The host has a copy of shapes: it does what there is no room for, and the tile that fails first at its end
				const bool lost = fault == Fault::NEW_TILE || fault == Fault::BEGIN ||
				                  (fault == Fault::UPLOAD_ROOM && points) ||
				                  (fault == Fault::FINISH && segments > (points ? 1 : 2));
				if (lost) {
					CHECK(answer.counts.empty());
					CHECK(answer.report.rows == 0);
					CHECK(join.host.failures > 0);
					continue;
				}
				join.Check(answer);
				CHECK(answer.report.rows == join.probe.rows.size());
				CHECK((answer.report.open_pairs > 0) == (fault == Fault::OPEN));
			}
		}
	}
}

TEST_CASE("Rows that a filter drops have no pairs, whichever engine looks for them", "[join]") {
	for (auto fault : {Fault::NONE, Fault::OPEN, Fault::NEVER_ROOM}) {
		for (bool points : {true, false}) {
			Join join(Case {points, false, false, fault, JoinOutput::COUNTS});
			PinnedTerm term;
			term.low = 100;
			term.high = 999;
			const auto answer = join.RunPinned(2, {term});
			std::vector<uint64_t> counts(join.build.rows.size());
			for (auto &pair : AllPairs(join.condition, join.probe, join.build)) {
				counts[pair.second] += pair.first / 2 >= 100 && pair.first / 2 <= 999 ? 1 : 0;
			}
			CHECK((answer.counts == counts));
			auto &kernels = join.host.kernels;
			CHECK(std::find(kernels.begin(), kernels.end(), "pinned_rows") != kernels.end());
		}
	}
}

TEST_CASE("Pinned rows come out piece by piece, each once, whatever the device fails to do", "[join]") {
	for (auto fault : {Fault::NONE, Fault::OPEN, Fault::NO_ROOM, Fault::NEVER_ROOM, Fault::BEGIN, Fault::FINISH,
	                   Fault::NEW_TILE, Fault::UPLOAD_ROOM}) {
		for (auto output : {JoinOutput::PAIRS, JoinOutput::FOUND}) {
			for (size_t segments : {1, 2, 3}) {
				for (size_t most : {JOIN_CHUNK_ROWS, 2 * JOIN_CHUNK_ROWS, PINNED_PIECE_ROWS}) {
					Join join(Case {segments < 3, false, false, fault, output});
					const auto answer = join.StreamPinned(segments, most, {});
					join.Check(answer);
					CHECK(answer.report.rows == join.probe.rows.size());
					const bool fails = fault == Fault::BEGIN || fault == Fault::NEW_TILE ||
					                   (fault == Fault::FINISH && (segments > 1 || most < PINNED_PIECE_ROWS));
					CHECK(join.host.failures == (fails ? 1 : 0));
				}
			}
		}
	}
}

TEST_CASE("Pieces of pinned rows have the pairs of the rows that pass, whichever engine looks for them", "[join]") {
	for (auto fault : {Fault::NONE, Fault::OPEN, Fault::NEVER_ROOM, Fault::FINISH}) {
		for (bool points : {true, false}) {
			Join join(Case {points, false, false, fault, JoinOutput::PAIRS});
			PinnedTerm term;
			term.low = 100;
			term.high = 2600;
			const auto answer = join.StreamPinned(2, JOIN_CHUNK_ROWS, {term});
			auto expected = AllPairs(join.condition, join.probe, join.build);
			for (auto pair = expected.begin(); pair != expected.end();) {
				const bool passes = pair->first / 2 >= 100 && pair->first / 2 <= 2600;
				pair = passes ? std::next(pair) : expected.erase(pair);
			}
			CHECK((answer.pairs == expected));
		}
	}
}

TEST_CASE("A piece whose pairs the host has no memory for is done chunk by chunk", "[join]") {
	constexpr uint64_t BYTES_PER_ROW = 4096, CHUNK = 2 * BYTES_PER_ROW * JOIN_CHUNK_ROWS;
	Join join(Case {true, false, false, Fault::NONE});
	join.device->bytes_per_row = BYTES_PER_ROW;
	join.host.most_bytes = CHUNK + (2 << 20);
	const auto answer = join.StreamPinned(1, PINNED_PIECE_ROWS, {});
	join.Check(answer);
	CHECK(answer.report.tiles >= 3);
}

TEST_CASE("A join without a device for its tiles goes on with the CPU, or ends where that is not allowed", "[join]") {
	Join join(Case {false, false, false, Fault::FINISH}, 60000);
	join.Check(join.RunTiles());
	CHECK(join.host.failures > 0);
	Join strict(Case {false, false, false, Fault::FINISH}, 60000);
	strict.host.needs_device = true;
	CHECK_THROWS_WITH(strict.RunTiles(), "the device is needed: finish");
	Join cancelled(Case {false, false, false, Fault::NO_ROOM});
	cancelled.host.is_cancelled = true;
	CHECK_THROWS_WITH(cancelled.RunTiles(), "cancelled");
}

TEST_CASE("Tiles wait for a device that is starting, and are small where there is no memory", "[join]") {
	for (auto output : {JoinOutput::PAIRS, JoinOutput::FOUND}) {
		for (bool points : {false, true}) {
			Join late(Case {points, false, false, Fault::NONE, output}, 40000);
			late.host.is_starting = true;
			late.Check(late.RunTiles());
			Join small(Case {points, false, false, Fault::NONE, output});
			small.host.has_memory = false;
			const auto answer = small.RunTiles();
			small.Check(answer);
			CHECK(answer.report.tiles > 1);
		}
	}
}

TEST_CASE("A tile whose pairs the host has no memory for is done chunk by chunk", "[join]") {
	constexpr uint64_t BYTES_PER_ROW = 4096, CHUNK = 2 * BYTES_PER_ROW * JOIN_CHUNK_ROWS;
	for (auto fault : {Fault::NONE, Fault::OPEN, Fault::NO_ROOM, Fault::FINISH}) {
		for (bool points : {false, true}) {
			Join join(Case {points, points, false, fault});
			join.device->bytes_per_row = BYTES_PER_ROW;
			join.host.most_bytes = CHUNK + (2 << 20);
			const auto answer = join.RunTiles();
			join.Check(answer);
			CHECK((fault == Fault::FINISH || answer.report.tiles >= 3));
			CHECK(join.host.failures == (fault == Fault::FINISH ? 1 : 0));
			if (fault == Fault::NO_ROOM) {
				continue; // its pieces are so small that nobody is asked
			}
			Join without(Case {points, points, false, fault});
			without.device->bytes_per_row = BYTES_PER_ROW;
			without.host.most_bytes = 1 << 20;
			CHECK_THROWS_WITH(without.RunTiles(), "no memory");
		}
	}
}

TEST_CASE("Tiles wait for the kernels that they launch, once for all of them", "[join]") {
	Join join(Case {}, 60000);
	const auto answer = join.RunTiles();
	join.Check(answer);
	REQUIRE(answer.report.tiles > 1);
	CHECK(join.host.tiles == answer.report.tiles);
	CHECK(join.host.kernels == KernelNames {"wkb_codec", "spatial_query", "polygon_predicates",
	                                        "multipoint_binary_relations", "segment_distance"});
	for (auto missing : {"wkb_codec", "polygon_predicates"}) {
		Join without(Case {});
		without.host.missing_kernel = missing;
		without.Check(without.RunTiles());
		CHECK(without.host.failures > 0);
		Join strict(Case {});
		strict.host.missing_kernel = missing;
		strict.host.needs_device = true;
		CHECK_THROWS_WITH(strict.RunTiles(), std::string("the device is needed: no ") + missing);
	}
}

TEST_CASE("A build side that is on the device is not uploaded again", "[join]") {
	Join join(Case {});
	CHECK_FALSE(join.RunTiles().report.was_resident);
	CHECK(join.device->uploads == 1);
	CHECK(join.RunChunks(true).report.was_resident);
	CHECK(join.device->uploads == 1);
	// One byte of one row is enough
	for (auto &bytes : join.build.wkb) {
		if (!bytes.empty()) {
			bytes.back() ^= 1;
			break;
		}
	}
	CHECK_FALSE(join.RunChunks(true).report.was_resident);
	CHECK(join.device->uploads == 2);
}
