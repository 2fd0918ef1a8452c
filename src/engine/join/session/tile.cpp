#include "engine/join/session/tile.hpp"

#include "engine/join/session/build_upload.hpp"
#include "engine/join/session/pinned.hpp"
#include "engine/relate/prepared.hpp"

#include <algorithm>

namespace vibespatial {

using Kind = TileRows::Kind;

//! Points of a tile. Those that wait for their pairs should stay in the processor's cache meanwhile.
static constexpr size_t COUNTED_POINTS = 32 * JOIN_CHUNK_ROWS;
static constexpr size_t PAIRED_POINTS = 16 * JOIN_CHUNK_ROWS;
//! Other geometries of a tile, and their bytes
static constexpr size_t MAX_SHAPES = 8 * JOIN_CHUNK_ROWS;
static constexpr size_t MAX_SHAPE_BYTES = 16 << 20;
//! Tiles that are collected while the device starts are larger: each launch takes the driver about 0.1 ms, and later nothing hides
//! that
static constexpr size_t MAX_AWAITING_SHAPES = 4 * MAX_SHAPES;
//! How often a tile is halved when the device has no memory for it
static constexpr size_t MAX_HALVES = 4;
//! Pinned memory of pairs below this is counted when it is there: most tiles need no more
static constexpr uint64_t MAX_UNRESERVED = 4 << 20;
//! A shape of so many bytes is built once for all pairs of its row
static constexpr size_t MIN_SHARED_BYTES = 16 << 10;

//! Why the device leaves pairs and rows to the CPU
static constexpr const char *TOO_MUCH =
    "they have too many vertices for one thread of the device, or more work than its memory holds";
static constexpr const char *UNREADABLE =
    "they are malformed, EMPTY, or have a ring without area or a line without length";

Tile::Tile(JoinBuild &build, JoinOutput output)
    : session(build.session), build(build), output(output), payload(session.host.NewPayload()) {
}

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//
size_t Tile::PointCapacity() const {
	return output == JoinOutput::COUNTS ? COUNTED_POINTS : PAIRED_POINTS;
}

bool Tile::IsFull() const {
	if (!has_room) {
		return Count() > 0;
	}
	return rows.GetKind() == Kind::SHAPES ? Count() >= max_shapes || rows.Bytes() >= MAX_SHAPE_BYTES
	                                      : Count() >= PointCapacity();
}

void Tile::Clear() {
	rows.Clear();
	pinned = nullptr;
	payload->Clear();
	has_room = true;
	was_launched = false;
	is_running = false;
	by_chunk = false;
	pairs.clear();
	found.clear();
}

void Tile::Begin(Kind kind) {
	vibe::Vec2 *points = nullptr;
	try {
		if (session.IsActive() && !device_tile && !session.IsAwaited()) {
			device_tile = build.upload->NewTile();
		}
		if (device_tile && kind == Kind::POINTS) {
			points = device_tile->Points(PointCapacity());
		}
	} catch (const GpuError &error) {
		device_tile.reset();
		session.Fail(error);
	}
	if (kind == Kind::POINTS) {
		rows.BeginPoints(points, PointCapacity());
		return;
	}
	max_shapes = !device_tile && session.IsAwaited() ? MAX_AWAITING_SHAPES : MAX_SHAPES;
	if (!device_tile) {
		rows.BeginShapes(nullptr);
		return;
	}
	rows.BeginShapes([this](size_t block) -> uint8_t * {
		try {
			return device_tile->Block(block);
		} catch (const GpuError &error) {
			session.Fail(error);
			return nullptr;
		}
	});
}

size_t Tile::Add(const JoinInput &input, size_t begin) {
	if (rows.GetKind() == Kind::NONE) {
		Begin(input.x ? Kind::POINTS : Kind::SHAPES);
	}
	const size_t before = Count();
	size_t end = input.count;
	if (rows.GetKind() == Kind::SHAPES) {
		for (size_t i = begin; i < end; i++) {
			if (IsFull()) {
				end = i;
				break;
			}
			rows.AddShape(input.rows[i]);
		}
	} else if (input.x) {
		end = std::min(end, begin + PointCapacity() - before);
		rows.AddPoints(input, begin, end);
	} else {
		return 0;
	}
	if (input.limits) {
		rows.AddLimits(input.limits + begin, end - begin);
	}
	if (output != JoinOutput::COUNTS && end > begin) {
		payload->Keep(input, begin, end - begin, before);
	}
	CountMemory();
	return end - begin;
}

void Tile::Run(const JoinInput &input) {
	Clear();
	Begin(input.x ? Kind::POINTS : Kind::SHAPES);
	if (input.x) {
		rows.AddPoints(input, 0, input.count);
	} else {
		for (size_t i = 0; i < input.count; i++) {
			rows.AddShape(input.rows[i]);
		}
	}
	if (input.limits) {
		rows.AddLimits(input.limits, input.count);
	}
	Launch();
	Finish(nullptr);
}

void Tile::SetPinned(const PinnedProbe &probe, const PinnedPiece &piece) {
	Clear();
	pinned = &probe;
	pinned_segment = piece.segment;
	pinned_begin = piece.begin;
	pinned_is_here = false;
	const bool are_shapes = probe.rows->Kind(piece.segment).are_shapes;
	rows.BeginPinned(piece.count, are_shapes ? Kind::SHAPES : Kind::POINTS);
}

void Tile::CountMemory() {
	has_room = payload->CountMemory(rows.OwnBytes() + (device_tile ? device_tile->HostBytes() : 0));
}

void Tile::Reserve(uint64_t bytes) {
	if (bytes <= MAX_UNRESERVED) {
		return;
	}
	// As much again for the pairs by chunk
	const uint64_t all = rows.OwnBytes() + device_tile->HostBytes() + 2 * bytes;
	if (by_chunk || output != JoinOutput::PAIRS || ChunkCount() <= 1) {
		payload->RequireMemory(all);
	} else if (!payload->CountMemory(all)) {
		throw HostMemoryError("the host has no memory for the pairs of a tile");
	}
}

//===----------------------------------------------------------------------===//
// On the device
//===----------------------------------------------------------------------===//
GpuTileInput Tile::Input(size_t first, size_t size) {
	GpuTileInput input;
	input.first = first;
	input.count = size;
	input.shapes = rows.Shapes();
	if (pinned) {
		input.pinned = pinned->rows.get();
		input.segment = pinned_segment;
		input.offset = pinned_begin;
		input.filter = &pinned->filter;
	}
	input.leave_empty = build.index.EmptyProbesMatter();
	input.limits = rows.Limits();
	input.output = output;
	input.use_cells = use_cells;
	input.poll = session.Poll();
	input.reserve = [this](uint64_t bytes) { Reserve(bytes); };
	return input;
}

void Tile::Start(size_t first, size_t size) {
	begun = std::chrono::system_clock::now();
	device_tile->Begin(Input(first, size));
}

std::vector<std::string> Tile::Needs() const {
	auto kinds = SideKinds::Points();
	if (const auto *shapes = rows.Shapes()) {
		kinds = SideKinds::Shapes(shapes->HasPoints(), shapes->HasLarge());
	} else if (rows.GetKind() == Kind::SHAPES) {
		const auto kind = pinned->rows->Kind(pinned_segment);
		kinds = SideKinds::Shapes(kind.has_points, kind.has_large);
	}
	auto needs = use_cells ? CellNeeds(session.condition) : TileNeeds(session.condition, kinds, build.upload->Kinds());
	if (pinned && !pinned->filter.empty()) {
		AddNames(needs, FilterNeeds());
	}
	return needs;
}

void Tile::Launch() {
	was_launched = true;
	is_prepared = false;
	if (Count() == 0 || !session.IsActive()) {
		return;
	}
	try {
		const bool are_points = rows.GetKind() == Kind::POINTS;
		use_cells = are_points && build.upload->PrepareCells();
		if (!use_cells) {
			build.upload->PrepareRows();
		}
		rows.PackShapes(session, build.index);
		session.Need(Needs());
		if (!device_tile) {
			device_tile = build.upload->NewTile();
			if (are_points && !pinned) {
				rows.MovePoints(device_tile->Points(PointCapacity()));
			}
		}
		is_prepared = true;
		Start(0, Count());
		is_running = true;
	} catch (const GpuMemoryError &) {
		is_running = false; // Finish() tries with less
	} catch (const GpuError &error) {
		session.Fail(error);
	}
}

void Tile::Finish(std::vector<uint64_t> *counts) {
	counted = counts;
	found.assign(output == JoinOutput::FOUND ? Count() : 0, 0);
	if (counted && counted->size() < build.index.RowCount()) {
		counted->resize(build.index.RowCount());
	}
	if (Count() == 0) {
		return;
	}
	if (!was_launched) {
		Launch();
	}
	try {
		FindPairs(0, Count());
	} catch (const HostMemoryError &) {
		by_chunk = true;
		CountedVector<Pair>().swap(pairs);
	}
	CountMemory();
}

void Tile::FindPairs(size_t first, size_t size) {
	pairs.clear();
	device_pairs = 0;
	if (is_running) {
		is_running = false;
		try {
			auto &result = device_tile->Finish();
			Use(result, first, size);
			device_probe = result.probe;
			device_build = result.build;
			device_pairs = result.pairs;
		} catch (const HostMemoryError &) {
			throw;
		} catch (const GpuMemoryError &) {
			RunHalves(first, size, 0);
		} catch (const GpuError &error) {
			session.Fail(error);
			RunOnCpu(first, size);
		}
	} else if (session.IsActive()) {
		RunHalves(first, size, 0);
	} else {
		RunOnCpu(first, size);
	}
	const auto &for_cpu = rows.CpuRows();
	const auto begin = std::lower_bound(for_cpu.begin(), for_cpu.end(), first);
	const auto end = std::lower_bound(begin, for_cpu.end(), first + size);
	if (begin != end) {
		session.host.LeftToCpu(static_cast<size_t>(end - begin), "rows", UNREADABLE);
		RunRowsOnCpu(std::vector<uint32_t>(begin, end));
	}
	if (output == JoinOutput::PAIRS) {
		// What was reserved beyond the pinned memory is for what is sorted now
		CountMemory();
		SortPairs();
	}
}

Tile::Pairs Tile::ChunkPairs(size_t chunk) {
	if (output != JoinOutput::PAIRS || chunk >= ChunkCount()) {
		return Pairs {nullptr, nullptr, 0};
	}
	if (by_chunk) {
		const size_t first = chunk * JOIN_CHUNK_ROWS, size = ChunkRows(chunk);
		if (session.IsActive() && is_prepared) {
			try {
				session.host.Poll();
				Start(first, size);
				is_running = true;
			} catch (const GpuMemoryError &) {
				is_running = false; // FindPairs() tries with less
			} catch (const GpuError &error) {
				session.Fail(error);
			}
		}
		FindPairs(first, size);
		CountMemory();
	}
	const size_t begin = chunk_begin[chunk];
	return Pairs {sorted_probe.data() + begin, sorted_build.data() + begin, chunk_begin[chunk + 1] - begin};
}

void Tile::RunHalves(size_t first, size_t size, size_t depth) {
	if (depth >= MAX_HALVES || size < 2 || !is_prepared || !session.IsActive()) {
		session.host.LeftToCpu(size, "rows", "the device has no room for them");
		RunOnCpu(first, size);
		session.Note([](JoinReport &report) { report.tiles_on_cpu++; });
		return;
	}
	for (auto offset : {size_t(0), size / 2}) {
		const size_t begin = first + offset, some = offset == 0 ? size / 2 : size - size / 2;
		try {
			session.host.Poll();
			Start(begin, some);
			auto &result = device_tile->Finish();
			Use(result, begin, some);
			for (size_t i = 0; i < result.pairs; i++) {
				pairs.push_back(Pair {result.probe[i], result.build[i]});
			}
		} catch (const HostMemoryError &) {
			throw;
		} catch (const GpuMemoryError &) {
			RunHalves(begin, some, depth + 1);
		} catch (const GpuError &error) {
			session.Fail(error);
			RunOnCpu(begin, some);
		}
	}
}

void Tile::Use(const GpuTileResult &result, size_t first, size_t size) {
	if (result.open > 0) {
		session.host.LeftToCpu(result.open, "pairs", TOO_MUCH);
		DecideOpen(result);
	}
	if (result.left_count > 0) {
		// In their order: an error is that of the first row
		std::vector<uint32_t> left(result.left, result.left + result.left_count);
		std::sort(left.begin(), left.end());
		session.host.LeftToCpu(left.size(), "rows", UNREADABLE);
		RunRowsOnCpu(left);
	}
	for (size_t i = 0; result.counts && i < counted->size(); i++) {
		(*counted)[i] += result.counts[i];
	}
	for (size_t i = 0; result.found && i < size; i++) {
		found[first + i] |= result.found[i];
	}
	session.host.TileFinished(begun, result.times);
	session.Note([&](JoinReport &report) {
		report.tiles++;
		report.rows += size;
		report.open_pairs += result.open;
		report.left_rows += result.left_count;
		report.counts.candidates += result.candidates;
		if (use_cells) {
			report.counts.cell_hits += result.pairs;
		} else {
			report.counts.exact_tests += result.candidates;
		}
	});
	session.AddTimes(result.times);
}

//===----------------------------------------------------------------------===//
// On the CPU
//===----------------------------------------------------------------------===//
void Tile::AddPair(uint32_t probe, uint32_t build_row) {
	if (counted) {
		(*counted)[build_row]++;
	} else if (output == JoinOutput::FOUND) {
		found[probe] = 1;
	} else {
		pairs.push_back(Pair {probe, build_row});
	}
}

void Tile::FetchPinned(const std::vector<uint32_t> &tile_rows) {
	if (!pinned || pinned_is_here) {
		return;
	}
	if (rows.GetKind() == Kind::SHAPES) {
		std::vector<size_t> numbers(tile_rows.begin(), tile_rows.end());
		for (auto &number : numbers) {
			number += pinned_begin;
		}
		rows.ClearPinnedShapes();
		pinned->read_shapes(pinned_segment, numbers, [&](size_t number, const JoinRow &wkb) {
			rows.AddPinnedShape(number - pinned_begin, wkb);
		});
		return;
	}
	if (pinned->read) {
		pinned->read(pinned_segment, pinned_begin, Count(), rows.PinnedPoints());
	} else if (device_tile) {
		device_tile->ReadPinned(Input(0, Count()), rows.PinnedPoints());
	} else {
		throw GpuError("the device does not give pinned rows back");
	}
	pinned_is_here = true;
}

void Tile::DecideOpen(const GpuTileResult &result) {
	constexpr size_t PAIRS_PER_STEP = 16;
	std::vector<Pair> open(result.open);
	for (size_t i = 0; i < open.size(); i++) {
		open[i] = Pair {result.open_probe[i], result.open_build[i]};
	}
	// By probe row: its shape is built once for all its pairs
	std::sort(open.begin(), open.end());
	std::vector<uint32_t> open_rows;
	for (auto &pair : open) {
		if (open_rows.empty() || open_rows.back() != pair.probe) {
			open_rows.push_back(pair.probe);
		}
	}
	FetchPinned(open_rows);
	std::vector<uint8_t> holds(open.size());
	// What one row left open may be shared by many threads, and building a large shape takes longer than a test
	struct SharedShape {
		uint32_t row;
		Shape shape;
	};
	CountedVector<SharedShape> shared;
	PointBytes bytes;
	for (size_t begin = 0, end; begin < open.size(); begin = end) {
		const auto row = open[begin].probe;
		end = static_cast<size_t>(
		    std::upper_bound(open.begin() + static_cast<std::ptrdiff_t>(begin), open.end(), Pair {row, UINT32_MAX}) -
		    open.begin());
		if (end - begin > PAIRS_PER_STEP && rows.Read(row, bytes).size >= MIN_SHARED_BYTES) {
			shared.push_back(SharedShape {row, Shape()});
		}
	}
	auto shape_of = [&](uint32_t row) -> const vibe::ShapeView * {
		const auto found = std::lower_bound(shared.begin(), shared.end(), row,
		                                    [](const SharedShape &s, uint32_t r) { return s.row < r; });
		return found != shared.end() && found->row == row ? &found->shape.View() : nullptr;
	};
	auto decide_some = [&](Parallel &parallel) {
		parallel.For(shared.size(), [&](size_t i) {
			GeometryBatch batch;
			PointBytes buffer;
			const auto row = rows.Read(shared[i].row, buffer);
			BuildShape(row.data, row.size, batch, shared[i].shape);
		});
		parallel.For((open.size() + PAIRS_PER_STEP - 1) / PAIRS_PER_STEP, [&](size_t step) {
			JoinProbe probe(build.index, session.Poll());
			PointBytes buffer;
			JoinRow row {nullptr, 0};
			auto last = UINT32_MAX;
			for (size_t i = step * PAIRS_PER_STEP; i < std::min(open.size(), (step + 1) * PAIRS_PER_STEP); i++) {
				if (open[i].probe != last) {
					last = open[i].probe;
					row = rows.Read(last, buffer);
					probe.BeginTests(&row, 1, rows.Limits() ? rows.Limits() + last : nullptr, shape_of(last));
				}
				holds[i] = probe.Test(0, open[i].build) ? 1 : 0;
			}
		});
	};
	if (open.size() > PAIRS_PER_STEP) {
		session.host.Run(decide_some);
	} else {
		Serial serial;
		decide_some(serial);
	}
	for (size_t i = 0; i < open.size(); i++) {
		if (holds[i]) {
			AddPair(open[i].probe, open[i].build);
		}
	}
}

void Tile::RunOnCpu(size_t first, size_t size) {
	auto &anyway = rows.CpuRows(); // Finish() runs these
	std::vector<uint32_t> tile_rows;
	tile_rows.reserve(size);
	for (auto row = static_cast<uint32_t>(first); row < first + size; row++) {
		if (!std::binary_search(anyway.begin(), anyway.end(), row)) {
			tile_rows.push_back(row);
		}
	}
	RunRowsOnCpu(tile_rows);
	session.Note([&](JoinReport &report) { report.rows += size; });
}

void Tile::RunRowsOnCpu(const std::vector<uint32_t> &tile_rows) {
	constexpr size_t AT_ONCE = JOIN_CHUNK_ROWS;
	JoinProbe probe(build.index, session.Poll());
	probe.SetFirstOnly(output == JoinOutput::FOUND);
	probe.SetOrdered(session.ordered);
	std::vector<JoinRow> chunk;
	std::vector<double> limits;
	std::vector<PointBytes> buffers(std::min(AT_ONCE, tile_rows.size()));
	uint32_t probe_rows[AT_ONCE], build_rows[AT_ONCE];
	for (size_t begin = 0; begin < tile_rows.size(); begin += AT_ONCE) {
		const size_t size = std::min(AT_ONCE, tile_rows.size() - begin);
		const auto first = tile_rows.begin() + static_cast<std::ptrdiff_t>(begin);
		FetchPinned(std::vector<uint32_t>(first, first + static_cast<std::ptrdiff_t>(size)));
		chunk.clear();
		limits.clear();
		for (size_t i = 0; i < size; i++) {
			const auto row = tile_rows[begin + i];
			chunk.push_back(rows.Read(row, buffers[i]));
			if (rows.Limits()) {
				limits.push_back(rows.Limits()[row]);
			}
		}
		probe.Begin(chunk.data(), size, limits.empty() ? nullptr : limits.data(), nullptr);
		while (auto some = probe.Next(probe_rows, build_rows, AT_ONCE)) {
			for (size_t i = 0; i < some; i++) {
				AddPair(tile_rows[begin + probe_rows[i]], build_rows[i]);
			}
		}
	}
	session.Note([&](JoinReport &report) {
		report.cpu_rows += tile_rows.size();
		report.counts.Add(probe.counts);
	});
}

//===----------------------------------------------------------------------===//
// Emitting
//===----------------------------------------------------------------------===//
size_t Tile::ChunkCount() const {
	return (Count() + JOIN_CHUNK_ROWS - 1) / JOIN_CHUNK_ROWS;
}

void Tile::SortPairs() {
	if (session.ordered) {
		for (size_t i = 0; i < device_pairs; i++) {
			pairs.push_back(Pair {device_probe[i], device_build[i]});
		}
		device_pairs = 0;
		std::sort(pairs.begin(), pairs.end());
	}
	chunk_begin.assign(ChunkCount() + 1, 0);
	for (auto &pair : pairs) {
		chunk_begin[pair.probe / JOIN_CHUNK_ROWS + 1]++;
	}
	for (size_t i = 0; i < device_pairs; i++) {
		chunk_begin[device_probe[i] / JOIN_CHUNK_ROWS + 1]++;
	}
	for (size_t i = 0; i < ChunkCount(); i++) {
		chunk_begin[i + 1] += chunk_begin[i];
	}
	sorted_probe.resize(pairs.size() + device_pairs);
	sorted_build.resize(pairs.size() + device_pairs);
	auto next = chunk_begin;
	auto add = [&](uint32_t probe, uint32_t build_row) {
		const auto at = next[probe / JOIN_CHUNK_ROWS]++;
		sorted_probe[at] = probe % JOIN_CHUNK_ROWS;
		sorted_build[at] = build_row;
	};
	for (size_t i = 0; i < device_pairs; i++) {
		add(device_probe[i], device_build[i]);
	}
	for (auto &pair : pairs) {
		add(pair.probe, pair.build);
	}
}

} // namespace vibespatial
