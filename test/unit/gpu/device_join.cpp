// Joins, and functions row by row, on the device against the CPU engine. Needs what device.cpp needs. VIBESPATIAL_TEST_PAIRS is how many pairs each
// predicate is asked about.
#include "constructive_rows.hpp"
#include "device_engine.hpp"
#include "many_vertices.hpp"
#include "wkb_bytes.hpp"

#include "engine/join/probe.hpp"
#include "engine/measure/distance.hpp"
#include "engine/measure/measure.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/relate/relate.hpp"
#include "engine/gpu/interface/join.hpp"
#include "engine/gpu/interface/scalar.hpp"
#include "vibe/hausdorff.h"
#include "engine/dispatch/needs.hpp"
#include "engine/dispatch/operation.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_edit.hpp"
#include "geometry/wkb_visit.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <set>
#include <thread>

using namespace vibespatial; // NOLINT: a test
using wkb_test::Wkb;

namespace {

size_t WantedPairs() {
	const char *text = std::getenv("VIBESPATIAL_TEST_PAIRS");
	return text ? std::strtoull(text, nullptr, 10) : 200000;
}

//! All cores
class AllThreads : public Parallel {
public:
	size_t Threads() const override {
		return std::max(1u, std::thread::hardware_concurrency());
	}
	void For(size_t count, const std::function<void(size_t)> &step) override {
		std::atomic<size_t> next {0};
		std::vector<std::thread> threads;
		threads.reserve(Threads());
		for (size_t t = 0; t < Threads(); t++) {
			threads.emplace_back([&] {
				for (size_t i = next++; i < count; i = next++) {
					step(i);
				}
			});
		}
		for (auto &thread : threads) {
			thread.join();
		}
	}
};

//! Geometries that touch, share edges and vertices, are EMPTY or not quite what they should be
class Menagerie {
public:
	Menagerie(unsigned seed, double side) : random(seed), side(side) {
	}

	std::string Make(bool only_points) {
		if (only_points) {
			return Point();
		}
		if (random() % 150 == 0) {
			return Large();
		}
		switch (random() % 12) {
		case 0:
		case 1:
			return Point();
		case 2:
			return Many(GeometryType::MULTIPOINT, [&] { return Point(); });
		case 3:
		case 4:
			return Line();
		case 5:
			return Many(GeometryType::MULTILINESTRING, [&] { return Line(); });
		case 6:
		case 7:
		case 8:
			return Polygon();
		case 9:
			return Apart();
		case 10:
			return Many(GeometryType::GEOMETRYCOLLECTION, [&] { return random() % 2 ? Polygon() : Line(); });
		default:
			return random() % 4 ? Polygon() : Wkb().Header(GeometryType::MULTIPOLYGON).Count(0).bytes;
		}
	}

private:
	//! Mostly on a raster, sometimes a hair beside it
	double Ordinate() {
		double at = static_cast<double>(random() % static_cast<uint64_t>(2 * side)) / 2;
		if (random() % 8 == 0) {
			at = std::nextafter(at, random() % 2 ? 1e9 : -1e9);
		} else if (random() % 8 == 0) {
			at += std::uniform_real_distribution<double>(-0.3, 0.3)(random);
		}
		return at;
	}
	std::string Point() {
		return Wkb().Header(GeometryType::POINT).Doubles({Ordinate(), Ordinate()}).bytes;
	}
	std::string Line() {
		const uint32_t count = 2 + random() % 6;
		Wkb wkb;
		wkb.Header(GeometryType::LINESTRING).Count(count);
		double x = Ordinate(), y = Ordinate();
		for (uint32_t i = 0; i < count; i++) {
			wkb.Doubles({x, y});
			x += static_cast<double>(random() % 7) / 2 - 1.5;
			y += static_cast<double>(random() % 7) / 2 - 1.5;
		}
		return wkb.bytes;
	}
	void Ring(Wkb &wkb, double x, double y, double size) {
		// A star around its middle: simple, and often with vertices of others on it
		const uint32_t count = 3 + random() % 9;
		wkb.Count(count + 1);
		double first_x = 0, first_y = 0;
		for (uint32_t i = 0; i <= count; i++) {
			const double angle = 6.283185307179586 * i / count;
			const double radius = size * static_cast<double>(1 + random() % 4) / 4;
			double px = x + radius * std::cos(angle), py = y + radius * std::sin(angle);
			if (random() % 3) {
				px = std::round(px * 2) / 2;
				py = std::round(py * 2) / 2;
			}
			if (i == 0) {
				first_x = px;
				first_y = py;
			} else if (i == count) {
				px = first_x;
				py = first_y;
			}
			wkb.Doubles({px, py});
		}
	}
	void Box(Wkb &wkb, double x, double y, double w, double h) {
		wkb.Count(5).Doubles({x, y, x + w, y, x + w, y + h, x, y + h, x, y});
	}
	std::string Polygon() {
		Wkb wkb;
		wkb.Header(GeometryType::POLYGON);
		const double x = Ordinate(), y = Ordinate();
		if (random() % 2) {
			wkb.Count(1);
			Ring(wkb, x, y, 1.5);
		} else {
			const double w = 1 + static_cast<double>(random() % 4), h = 1 + static_cast<double>(random() % 4);
			const bool hole = random() % 3 == 0;
			wkb.Count(hole ? 2 : 1);
			Box(wkb, x, y, w, h);
			if (hole) {
				Box(wkb, x + 0.25, y + 0.25, w - 0.5, h - 0.5);
			}
		}
		return wkb.bytes;
	}
	//! More than one thread walks alone: made by the device or, if it is larger still, by the CPU
	std::string Large() {
		const uint32_t count = random() % 2 ? 1000 : 1500 + random() % 3000;
		const double x = Ordinate(), y = Ordinate(), size = 1 + static_cast<double>(random() % 3);
		Wkb wkb;
		const bool line = random() % 3 == 0;
		wkb.Header(line ? GeometryType::LINESTRING : GeometryType::POLYGON);
		if (!line) {
			wkb.Count(1);
		}
		wkb.Count(count + 1);
		for (uint32_t i = 0; i <= count; i++) {
			const double angle = 6.283185307179586 * (i % count) / count;
			// Every fourth vertex on a raster, which others are on, too
			double px = x + size * std::cos(angle), py = y + size * std::sin(angle);
			if (line && i % 4 == 0) {
				px = std::round(px * 2) / 2;
				py = std::round(py * 2) / 2;
			}
			wkb.Doubles({px, py});
		}
		return wkb.bytes;
	}
	//! Parts that do not meet
	std::string Apart() {
		Wkb wkb;
		const uint32_t count = 2 + random() % 3;
		wkb.Header(GeometryType::MULTIPOLYGON).Count(count);
		const double x = Ordinate(), y = Ordinate();
		for (uint32_t i = 0; i < count; i++) {
			Wkb part;
			part.Header(GeometryType::POLYGON).Count(1);
			Box(part, x + 2 * i, y + (i % 2), 1.5, 1);
			wkb.Append(part.bytes);
		}
		return wkb.bytes;
	}
	template <class MAKE>
	std::string Many(GeometryType type, MAKE &&make) {
		Wkb wkb;
		const uint32_t count = 1 + random() % 3;
		wkb.Header(type).Count(count);
		for (uint32_t i = 0; i < count; i++) {
			wkb.Append(make());
		}
		return wkb.bytes;
	}

	std::mt19937_64 random;
	const double side;
};

struct Rows {
	std::vector<std::string> bytes;
	JoinRows rows;

	Rows(unsigned seed, size_t count, double side, bool only_points) {
		Menagerie zoo(seed, side);
		for (size_t i = 0; i < count; i++) {
			bytes.push_back(zoo.Make(only_points));
		}
		for (size_t i = 0; i < count; i++) {
			const auto *data = reinterpret_cast<const uint8_t *>(bytes[i].data());
			const bool is_null = i % 97 == 13;
			rows.push_back(JoinRow {is_null ? nullptr : data, static_cast<uint32_t>(bytes[i].size())});
		}
	}
};

typedef std::vector<std::pair<uint32_t, uint32_t>> PairVector;

PairVector OnCpu(JoinIndex &index, const Rows &probes, const double *limits) {
	AllThreads parallel;
	constexpr size_t STEP = 64;
	const size_t steps = (probes.rows.size() + STEP - 1) / STEP;
	std::vector<PairVector> found(steps);
	parallel.For(steps, [&](size_t step) {
		JoinProbe probe(index, [] {});
		const size_t begin = step * STEP, size = std::min(STEP, probes.rows.size() - begin);
		probe.Begin(probes.rows.data() + begin, size, limits ? limits + begin : nullptr, nullptr);
		uint32_t left[1024], right[1024];
		while (const size_t some = probe.Next(left, right, 1024)) {
			for (size_t i = 0; i < some; i++) {
				found[step].emplace_back(static_cast<uint32_t>(begin + left[i]), right[i]);
			}
		}
	});
	PairVector all;
	for (auto &some : found) {
		all.insert(all.end(), some.begin(), some.end());
	}
	std::sort(all.begin(), all.end());
	return all;
}

struct DeviceAnswer {
	PairVector pairs;
	std::vector<uint64_t> counts;
	std::vector<bool> found;
	uint64_t candidates = 0;
	uint64_t open = 0;
};

DeviceAnswer OnDevice(GpuEngine &engine, JoinIndex &index, const Rows &probes, const double *limits, bool points,
                      bool cells, const std::shared_ptr<GpuBuild> &build) {
	DeviceAnswer answer;
	const size_t count = probes.rows.size();
	ShapeRows shapes;
	GeometryBatch batch;
	Shape shape;
	auto tile = engine.NewTile(build, index.Condition());
	const double nowhere = std::numeric_limits<double>::quiet_NaN();
	auto *to = tile->Points(count);
	shapes.Clear([&](size_t block) { return tile->Block(block); });
	//! Rows that are for the CPU as a whole
	std::set<uint32_t> left;
	for (size_t i = 0; i < count; i++) {
		auto &row = probes.rows[i];
		if (points) {
			to[i] = vibe::Vec2 {nowhere, nowhere};
			if (row.data) {
				REQUIRE(TryReadPoint(row.data, row.size, to[i]));
			}
			continue;
		}
		if (!row.data) {
			shapes.AddNothing();
		} else if (i % 7 > 0 && ShapeRows::IsForDevice(row.data, row.size)) {
			shapes.AddWkb(row.data, row.size);
		} else {
			// In pieces of any size
			if (i % 43 == 0 || shapes.packed.empty()) {
				shapes.packed.emplace_back();
			}
			BuildShape(row.data, row.size, batch, shape);
			shapes.AddPacked();
			shapes.packed.back().Add(shape.View());
			if (shape.View().dimension < 0 && index.EmptyProbesMatter()) {
				left.insert(static_cast<uint32_t>(i));
			}
		}
	}
	JoinProbe decide(index, [] {});
	decide.BeginTests(probes.rows.data(), count, limits);
	for (auto output : {GpuOutput::PAIRS, GpuOutput::COUNTS, GpuOutput::FOUND}) {
		GpuTileInput input;
		input.count = count;
		input.shapes = points ? nullptr : &shapes;
		input.leave_empty = index.EmptyProbesMatter();
		input.limits = limits;
		input.output = output;
		input.use_cells = cells;
		PairVector open;
		if (output == GpuOutput::COUNTS) {
			// In two halves, as when memory is short
			answer.counts.assign(index.RowCount(), 0);
			for (size_t half = 0; half < 2; half++) {
				input.first = half * (count / 2);
				input.count = half == 0 ? count / 2 : count - count / 2;
				tile->Begin(input);
				auto &result = tile->Finish();
				for (size_t i = 0; i < index.RowCount(); i++) {
					answer.counts[i] += result.counts[i];
				}
				for (size_t i = 0; i < result.open; i++) {
					open.emplace_back(result.open_probe[i], result.open_build[i]);
				}
			}
		} else {
			tile->Begin(input);
			auto &result = tile->Finish();
			left.insert(result.left, result.left + result.left_count);
			for (size_t i = 0; i < result.pairs; i++) {
				answer.pairs.emplace_back(result.probe[i], result.build[i]);
			}
			for (size_t i = 0; i < result.open; i++) {
				open.emplace_back(result.open_probe[i], result.open_build[i]);
			}
			if (output == GpuOutput::FOUND) {
				answer.found.assign(result.found, result.found + count);
			}
			answer.candidates = std::max(answer.candidates, result.candidates);
			answer.open = std::max<uint64_t>(answer.open, result.open);
		}
		for (auto &pair : open) {
			if (decide.Test(pair.first, pair.second)) {
				if (output == GpuOutput::PAIRS) {
					answer.pairs.push_back(pair);
				} else if (output == GpuOutput::COUNTS) {
					answer.counts[pair.second]++;
				} else {
					answer.found[pair.first] = true;
				}
			}
		}
	}
	for (auto i : left) {
		JoinProbe probe(index, [] {});
		probe.Begin(&probes.rows[i], 1, limits ? limits + i : nullptr, nullptr);
		uint32_t first, right;
		while (probe.Next(&first, &right, 1) > 0) {
			answer.pairs.emplace_back(i, right);
			answer.counts[right]++;
			answer.found[i] = true;
		}
	}
	std::sort(answer.pairs.begin(), answer.pairs.end());
	return answer;
}

//! The rows of the probe side where they are on the device before they are asked for: the pairs of those that pass a filter
class PinnedProbes {
public:
	PinnedProbes(GpuEngine &engine, const Rows &probes) : probes(probes) {
		PinnedLayout layout;
		layout.widths = {2};
		pinned = engine.NewPinned(layout);
		for (size_t half = 0; half < 2; half++) {
			const size_t begin = Begin(half);
			std::vector<int16_t> numbers;
			for (size_t i = begin; i < Begin(half + 1); i++) {
				numbers.push_back(NumberOf(i));
			}
			PinnedInput input;
			input.count = numbers.size();
			input.wkb = probes.rows.data() + begin;
			input.pack = [&](uint32_t row, PackedShapes &packed) {
				vibe::Box box;
				const auto &wkb = probes.rows[begin + row];
				WkbBounds(wkb.data, wkb.size, box);
				packed.AddWkb(wkb, box);
			};
			input.columns.push_back({reinterpret_cast<const uint8_t *>(numbers.data()), nullptr});
			REQUIRE(pinned->Add(input) == half);
		}
		GpuTimes times;
		pinned->Finish(nullptr, times);
		REQUIRE(times.bytes_to_device > 0);
		rows = pinned->Use();
		REQUIRE(rows);
	}

	static int16_t NumberOf(size_t row) {
		return static_cast<int16_t>(row % 10);
	}

	DeviceAnswer Ask(GpuEngine &engine, JoinIndex &index, const std::shared_ptr<GpuBuild> &build,
	                 const PinnedTerms &filter) const {
		DeviceAnswer answer;
		answer.counts.assign(index.RowCount(), 0);
		answer.found.assign(probes.rows.size(), false);
		auto tile = engine.NewTile(build, index.Condition());
		JoinProbe decide(index, [] {});
		decide.BeginTests(probes.rows.data(), probes.rows.size(), nullptr);
		for (auto output : {GpuOutput::PAIRS, GpuOutput::COUNTS, GpuOutput::FOUND}) {
			for (size_t half = 0; half < 2; half++) {
				const auto first = static_cast<uint32_t>(Begin(half));
				REQUIRE(rows->Count(half) == Begin(half + 1) - first);
				REQUIRE(rows->Kind(half).are_shapes);
				// Without the first rows of the segment
				GpuTileInput input;
				input.pinned = rows.get();
				input.segment = half;
				input.offset = SKIPPED;
				input.count = rows->Count(half) - SKIPPED;
				input.filter = &filter;
				input.output = output;
				tile->Begin(input);
				const auto &result = tile->Finish();
				auto add = [&](uint32_t row, uint32_t build_row) {
					if (output == GpuOutput::PAIRS) {
						answer.pairs.emplace_back(first + SKIPPED + row, build_row);
					} else if (output == GpuOutput::COUNTS) {
						answer.counts[build_row]++;
					} else {
						answer.found[first + SKIPPED + row] = true;
					}
				};
				for (size_t i = 0; i < result.pairs; i++) {
					add(result.probe[i], result.build[i]);
				}
				for (size_t i = 0; result.counts && i < index.RowCount(); i++) {
					answer.counts[i] += result.counts[i];
				}
				for (size_t i = 0; result.found && i < input.count; i++) {
					answer.found[first + SKIPPED + i] = result.found[i] != 0;
				}
				for (size_t i = 0; i < result.open; i++) {
					if (decide.Test(first + SKIPPED + result.open_probe[i], result.open_build[i])) {
						add(result.open_probe[i], result.open_build[i]);
					}
				}
			}
		}
		std::sort(answer.pairs.begin(), answer.pairs.end());
		return answer;
	}
	//! What Ask() should find among the pairs of all rows
	DeviceAnswer Expect(const PairVector &pairs, size_t build_rows, bool filtered) const {
		DeviceAnswer answer;
		answer.counts.assign(build_rows, 0);
		answer.found.assign(probes.rows.size(), false);
		for (auto &pair : pairs) {
			const size_t in_half = pair.first - (pair.first < Begin(1) ? 0 : Begin(1));
			if (in_half >= SKIPPED && (!filtered || NumberOf(pair.first) >= 3)) {
				answer.pairs.push_back(pair);
				answer.counts[pair.second]++;
				answer.found[pair.first] = true;
			}
		}
		return answer;
	}

private:
	static constexpr uint32_t SKIPPED = 5;
	size_t Begin(size_t half) const {
		return half == 0 ? 0 : half == 1 ? probes.rows.size() / 3 : probes.rows.size();
	}

	const Rows &probes;
	std::shared_ptr<GpuPinned> pinned;
	std::shared_ptr<const PinnedRows> rows;
};

//! Both engines, whatever the sides are made of; the candidates that the device looked at
uint64_t RequireSame(GpuEngine &engine, const JoinCondition &condition, size_t count, unsigned seed, const char *name) {
	AllThreads parallel;
	uint64_t candidates = 0, open = 0, pairs = 0;
	for (int mix = 0; mix < 4; mix++) {
		const bool probe_points = mix & 1, build_points = mix & 2;
		// So dense that a row has many neighbours, so sparse that some have none
		const double side = std::max(4.0, std::sqrt(static_cast<double>(count)) / 3);
		const Rows probes(seed + 1, count, side, probe_points), builds(seed + 2, count, side, build_points);
		std::vector<double> probe_limits, build_limits;
		std::mt19937_64 random(seed);
		for (size_t i = 0; i < count; i++) {
			const double some = static_cast<double>(random() % 6) / 2 - 0.5;
			probe_limits.push_back(i % 31 == 0 ? JoinCondition::NO_LIMIT : i % 37 == 0 ? wkb_test::NaN : some);
			build_limits.push_back(i % 29 == 0 ? JoinCondition::NO_LIMIT : static_cast<double>(random() % 5) / 2);
		}
		const bool by_probe = condition.limit_from == JoinLimit::PROBE || condition.limit_from == JoinLimit::SUM;
		const bool by_build = condition.limit_from == JoinLimit::BUILD || condition.limit_from == JoinLimit::SUM;
		JoinIndex index(condition, builds.rows, by_build ? build_limits : std::vector<double>());
		index.KeepForDevice();
		index.ExpectPoints(1u << 30);
		index.Build(parallel);
		if (index.EmptyRowsMatter()) {
			continue; // never asked of a device
		}
		const auto build = engine.NewBuild();
		GpuRows rows;
		index.ExportRows(rows);
		WkbLayout layout(rows.count);
		if (!rows.points) {
			parallel.For(layout.parts.size(), [&](size_t part) { layout.Read(part, rows.wkb); });
			layout.MakeGroups(parallel);
			rows.layout = &layout;
		}
		// Packed by the host, or by the device
		GpuTimes tree_times;
		if (mix % 3 == 0) {
			rows.tree = nullptr;
		}
		const auto upload = build->BeginRows(rows, parallel, tree_times);
		REQUIRE(upload);
		// Some pieces without shapes, some with several
		std::vector<PackedShapes> pieces(3);
		for (size_t i = 0; i < upload->LeftRows().size(); i++) {
			index.PackRow(upload->LeftRows()[i], pieces[2 * i / upload->LeftRows().size()]);
		}
		upload->AddShapes(pieces, parallel);
		upload->Finish();
		GpuTimes row_times;
		upload->AddBytes(row_times);
		REQUIRE(row_times.bytes_to_device > 0);
		REQUIRE(build->HasRows());
		REQUIRE_FALSE(build->BeginRows(rows, parallel, tree_times));
		const auto expected = OnCpu(index, probes, by_probe ? probe_limits.data() : nullptr);
		std::vector<uint64_t> counts(index.RowCount());
		std::vector<bool> found(count);
		for (auto &pair : expected) {
			counts[pair.second]++;
			found[pair.first] = true;
		}
		auto check = [&](bool cells) {
			const auto answer =
			    OnDevice(engine, index, probes, by_probe ? probe_limits.data() : nullptr, probe_points, cells, build);
			INFO(name << ", probe points " << probe_points << ", build points " << build_points << ", cells " << cells);
			REQUIRE(answer.pairs.size() == expected.size());
			REQUIRE(answer.pairs == expected);
			REQUIRE(answer.counts == counts);
			REQUIRE(answer.found == found);
			candidates += answer.candidates;
			open += answer.open;
		};
		check(false);
		if (probe_points && !build_points) {
			if (const auto *cells = index.CellsForDevice()) {
				GpuTimes cell_times;
				build->SetCells(cells->GetPieces(), index.RowCount(), parallel, cell_times);
				REQUIRE(cell_times.bytes_to_device > 0);
				check(true);
			}
		}
		if (!by_probe && !index.EmptyProbesMatter()) {
			const PinnedProbes pinned(engine, probes);
			PinnedTerm from_three;
			from_three.low = 3;
			from_three.high = 9;
			for (bool filtered : {false, true}) {
				const auto answer =
				    pinned.Ask(engine, index, build, filtered ? PinnedTerms {from_three} : PinnedTerms());
				const auto right = pinned.Expect(expected, index.RowCount(), filtered);
				INFO(name << ", pinned shapes, probe points " << probe_points << ", filtered " << filtered);
				REQUIRE(answer.pairs == right.pairs);
				REQUIRE(answer.counts == right.counts);
				REQUIRE(answer.found == right.found);
			}
		}
		pairs += expected.size();
	}
	WARN(name << ": " << candidates << " candidates, " << pairs << " pairs, " << open << " left open");
	REQUIRE(pairs > 0);
	return candidates;
}

const char *const NAMES[] = {"relate",     "intersects",        "disjoint",        "contains", "within",  "covers",
                             "covered by", "contains properly", "within properly", "touches",  "crosses", "overlaps",
                             "equals"};

void RequireSameOften(GpuEngine &engine, const JoinCondition &condition, const char *name) {
	uint64_t candidates = 0;
	for (unsigned seed = 1; candidates < WantedPairs(); seed++) {
		// Few pairs are wanted under a sanitizer, where everything takes a thousand times as long
		const size_t rows = WantedPairs() < 10000 ? 150 : seed % 3 == 0 ? 700 : 4000;
		candidates += RequireSame(engine, condition, rows, 100 * seed, name);
	}
}

//! A row, and behind every ninth the same once more, damaged
void AddRow(const Rows &sound, size_t i, std::mt19937_64 &random, std::vector<std::string> &wkb) {
	wkb.push_back(sound.rows[i].data ? sound.bytes[i] : "");
	if (i % 9 == 0) {
		auto bytes = sound.bytes[i];
		bytes[random() % bytes.size()] = static_cast<char>(random());
		wkb.push_back(random() % 2 ? bytes : bytes.substr(0, random() % bytes.size()));
	}
}

} // namespace

TEST_CASE("device: joins by relation are the CPU's", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	REQUIRE(engine->EnsureWarm(KernelNeeds(KernelSet::SPATIAL_JOIN), 120).empty());
	REQUIRE(engine->EnsureWarm(FilterNeeds(), 120).empty());
	for (uint32_t k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
		if (k == vibe::PREDICATE_DISJOINT) {
			continue; // no index
		}
		JoinCondition condition;
		condition.any_of.push_back(JoinTerm {JoinTerm::RELATE, static_cast<vibe::Predicate>(k), false});
		RequireSameOften(*engine, condition, NAMES[k]);
	}
	JoinCondition either;
	either.any_of.push_back(JoinTerm {JoinTerm::RELATE, vibe::PREDICATE_TOUCHES, false});
	either.any_of.push_back(JoinTerm {JoinTerm::RELATE, vibe::PREDICATE_EQUALS, false});
	RequireSameOften(*engine, either, "touches or equals");
}

TEST_CASE("device: joins by distance and box are the CPU's", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	REQUIRE(engine->EnsureWarm(KernelNeeds(KernelSet::SPATIAL_JOIN), 120).empty());
	REQUIRE(engine->EnsureWarm(FilterNeeds(), 120).empty());
	const char *const limits[] = {"none", "constant", "by probe", "by build", "sum"};
	for (auto from : {JoinLimit::CONSTANT, JoinLimit::PROBE, JoinLimit::BUILD, JoinLimit::SUM}) {
		for (bool strict : {false, true}) {
			JoinCondition condition;
			condition.any_of.push_back(JoinTerm {JoinTerm::DISTANCE, vibe::PREDICATE_INTERSECTS, false});
			condition.limit_from = from;
			condition.limit = 0.75;
			condition.compared = condition.strict = strict;
			RequireSameOften(*engine, condition, limits[static_cast<int>(from)]);
		}
	}
	JoinCondition boxes;
	boxes.any_of.push_back(JoinTerm {JoinTerm::BOXES, vibe::PREDICATE_INTERSECTS, false});
	RequireSameOften(*engine, boxes, "boxes");
	boxes.any_of.push_back(JoinTerm {JoinTerm::DISTANCE, vibe::PREDICATE_INTERSECTS, false});
	boxes.limit_from = JoinLimit::CONSTANT;
	boxes.limit = 1.5;
	RequireSameOften(*engine, boxes, "boxes or near");
}

TEST_CASE("device: functions of two geometries are the CPU's", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	REQUIRE(engine->EnsureWarm(KernelNeeds(KernelSet::SCALAR_PAIRS), 120).empty());
	constexpr size_t COUNT = 20000;
	for (int mix = 0; mix < 4; mix++) {
		const Rows sides[2] = {Rows(71, COUNT, 6, mix & 1), Rows(72, COUNT, 6, mix & 2)};
		ScalarSide packed[2];
		std::vector<Shape> shapes[2];
		GeometryBatch batch;
		for (auto side : {0, 1}) {
			shapes[side].resize(COUNT);
			for (size_t i = 0; i < COUNT; i++) {
				auto &row = sides[side].rows[i];
				vibe::Vec2 point;
				if (!row.data) {
					packed[side].AddNothing();
					continue;
				}
				BuildShape(row.data, row.size, batch, shapes[side][i]);
				if (TryReadPoint(row.data, row.size, point)) {
					packed[side].AddPoint(point);
				} else if (i % 5 > 0 && ShapeRows::IsForDevice(row.data, row.size)) {
					packed[side].AddWkb(row.data, row.size);
				} else {
					packed[side].AddShape(shapes[side][i].View());
				}
			}
		}
		std::vector<double> limits;
		limits.reserve(COUNT);
		for (size_t i = 0; i < COUNT; i++) {
			limits.push_back(i % 31 == 0 ? wkb_test::NaN : static_cast<double>(i % 7) / 2 - 0.5);
		}
		// All rows against one geometry, too
		size_t first = 0;
		while (!sides[0].rows[first].data || shapes[0][first].View().dimension < 0) {
			first++;
		}
		ScalarSide one;
		one.AddShape(shapes[0][first].View());
		RelateScratch scratch;
		size_t open = 0, holding = 0;
		auto require_left = [&](const ScalarTask &task, const char *name, bool constant) {
			auto rows = engine->NewScalarBatch(task);
			// In two pieces, as when memory is short
			std::vector<uint8_t> results;
			std::vector<double> distances;
			for (const size_t first : {size_t(0), COUNT / 3}) {
				ScalarInput input;
				input.first = first;
				input.count = first == 0 ? COUNT / 3 : COUNT - COUNT / 3;
				input.left = constant ? &one : packed;
				input.right = packed + 1;
				input.left_is_constant = constant;
				input.limits = task.kind == ScalarTask::WITHIN ? limits.data() : nullptr;
				rows->Begin(input);
				auto &piece = rows->Finish();
				results.insert(results.end(), piece.results, piece.results + input.count);
				if (piece.numbers) {
					distances.insert(distances.end(), piece.numbers, piece.numbers + input.count);
				}
			}
			size_t wrong = 0;
			for (size_t i = 0; i < COUNT; i++) {
				const size_t l = constant ? first : i;
				if (!sides[0].rows[l].data || !sides[1].rows[i].data) {
					continue;
				}
				if (results[i] == vibe::PAIR_OPEN) {
					open++;
					continue;
				}
				const auto &a = shapes[0][l].View(), &b = shapes[1][i].View();
				const bool empty = a.dimension < 0 || b.dimension < 0;
				if (task.GivesNumbers()) {
					const double expected = empty                                ? wkb_test::NaN
					                        : task.kind == ScalarTask::HAUSDORFF ? vibe::HausdorffDistance(a, b)
					                                                             : vibe::ShapeDistance(a, b, -1);
					wrong += empty ? distances[i] == distances[i] : distances[i] != expected;
					continue;
				}
				const bool expected =
				    task.kind == ScalarTask::RELATE
				        ? Evaluate(task.predicate, a, b, scratch)
				        : limits[i] >= 0 && !empty && vibe::ShapeDistance(a, b, limits[i]) <= limits[i];
				wrong += results[i] != (expected ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
				holding += expected;
			}
			INFO(name << ", left points " << (mix & 1) << ", right points " << (mix & 2));
			REQUIRE(wrong == 0);
		};
		auto require = [&](const ScalarTask &task, const char *name) {
			require_left(task, name, false);
			require_left(task, name, true);
		};
		for (uint32_t k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
			require(ScalarTask {ScalarTask::RELATE, static_cast<vibe::Predicate>(k)}, NAMES[k]);
		}
		require(ScalarTask {ScalarTask::WITHIN, vibe::PREDICATE_INTERSECTS}, "within a distance");
		require(ScalarTask {ScalarTask::DISTANCE, vibe::PREDICATE_INTERSECTS}, "distance");
		require(ScalarTask {ScalarTask::HAUSDORFF, vibe::PREDICATE_INTERSECTS}, "Hausdorff distance");
		WARN("rows: " << holding << " hold, " << open << " left open");
		REQUIRE(holding > 0);
	}
}

TEST_CASE("device: relations of shapes of many vertices are the CPU's", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	REQUIRE(engine->EnsureWarm(KernelNeeds(KernelSet::SCALAR_PAIRS), 120).empty());
	const unsigned seeds = WantedPairs() < 10000 ? 1 : 24;
	RelateScratch scratch;
	size_t open = 0, holding = 0, pairs = 0;
	for (unsigned seed = 1; seed <= seeds; seed++) {
		const ManyVertices shapes(seed);
		ScalarSide left, right;
		std::vector<std::pair<const vibe::ShapeView *, const vibe::ShapeView *>> rows;
		for (auto &a : shapes.views) {
			for (auto &b : shapes.views) {
				left.AddShape(a);
				right.AddShape(b);
				rows.emplace_back(&a, &b);
			}
		}
		for (uint32_t k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
			const auto predicate = static_cast<vibe::Predicate>(k);
			auto batch = engine->NewScalarBatch(ScalarTask {ScalarTask::RELATE, predicate});
			ScalarInput input;
			input.count = rows.size();
			input.left = &left;
			input.right = &right;
			batch->Begin(input);
			const auto *results = batch->Finish().results;
			size_t wrong = 0;
			for (size_t i = 0; i < rows.size(); i++) {
				if (results[i] == vibe::PAIR_OPEN) {
					open++;
					continue;
				}
				const bool expected = Evaluate(predicate, *rows[i].first, *rows[i].second, scratch);
				wrong += results[i] != (expected ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
				holding += expected;
			}
			INFO(NAMES[k] << ", seed " << seed);
			REQUIRE(wrong == 0);
			pairs += rows.size();
		}
	}
	WARN(pairs << " pairs, " << holding << " hold, " << open << " left open");
	REQUIRE(holding > pairs / 20);
	REQUIRE(open < pairs / 20);
}

TEST_CASE("device: functions of one geometry are the CPU's, bit by bit", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	REQUIRE(engine->EnsureWarm(KernelNeeds(KernelSet::SCALAR_ROWS), 120).empty());
	const Rows sound(81, 60000, 40, false);
	std::mt19937_64 random(82);
	std::vector<std::string> wkb;
	for (size_t i = 0; i < sound.rows.size(); i++) {
		AddRow(sound, i, random, wkb);
	}
	auto check = [&](ScalarTask::Kind kind, const char *name) {
		ScalarTask task;
		task.kind = kind;
		auto rows = engine->NewScalarBatch(task);
		ScalarSide side;
		side.Clear([&](size_t block) { return rows->Block(true, block); });
		side.BeginShapes();
		std::vector<bool> asked;
		for (auto &row : wkb) {
			asked.push_back(task.IsForDevice(wkb_test::Data(row), row.size()));
			if (asked.back()) {
				side.AddWkb(wkb_test::Data(row), row.size());
			} else {
				side.AddNothing();
			}
		}
		size_t wrong = 0, open = 0, same = 0;
		for (size_t first = 0; first < wkb.size(); first += wkb.size() / 3 + 1) {
			ScalarInput input;
			input.first = first;
			input.count = std::min(wkb.size() / 3 + 1, wkb.size() - first);
			input.left = &side;
			rows->Begin(input);
			auto &result = rows->Finish();
			for (size_t i = 0; i < input.count; i++) {
				auto &row = wkb[first + i];
				if (!asked[first + i]) {
					continue;
				}
				const auto *data = wkb_test::Data(row);
				std::string expected;
				try {
					auto number = [&](double value) { expected.assign(reinterpret_cast<const char *>(&value), 8); };
					if (kind == ScalarTask::FLIP) {
						expected.resize(row.size());
						FlipCoordinates(WkbSlice {data, row.size()}, reinterpret_cast<uint8_t *>(&expected[0]));
					} else if (kind == ScalarTask::CENTROID) {
						const auto centroid = Centroid(data, row.size());
						const double x = centroid.empty ? wkb_test::NaN : centroid.x;
						const double y = centroid.empty ? wkb_test::NaN : centroid.y;
						expected = Wkb().Header(GeometryType::POINT).Doubles({x, y}).bytes;
					} else {
						number(kind == ScalarTask::AREA     ? Area(data, row.size())
						       : kind == ScalarTask::LENGTH ? Length(data, row.size())
						                                    : Perimeter(data, row.size()));
					}
				} catch (const GeometryError &) {
					wrong += result.results[i] != vibe::PAIR_OPEN;
					open++;
					continue;
				}
				std::string found;
				if (task.GivesGeometries()) {
					found.assign(result.wkb + result.wkb_begin[i], result.wkb + result.wkb_begin[i + 1]);
				} else if (std::isnan(result.numbers[i])) {
					found = expected; // left to the CPU
				} else {
					found.assign(reinterpret_cast<const char *>(result.numbers + i), 8);
				}
				wrong += result.results[i] == vibe::PAIR_OPEN || found != expected;
				same += found == expected;
			}
		}
		INFO(name);
		REQUIRE(wrong == 0);
		REQUIRE(open > 1000);
		REQUIRE(same > 30000);
	};
	check(ScalarTask::AREA, "area");
	check(ScalarTask::LENGTH, "length");
	check(ScalarTask::PERIMETER, "perimeter");
	check(ScalarTask::CENTROID, "centroid");
	check(ScalarTask::FLIP, "flipped");
}

TEST_CASE("device: geometries made of the vertices of others are the CPU's, byte by byte", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	REQUIRE(engine->EnsureWarm(KernelNeeds(KernelSet::SCALAR_ROWS), 120).empty());
	const auto rows = constructive_test::Rows(91, 200000);
	for (auto kind : {ScalarTask::HULL, ScalarTask::SIMPLIFY}) {
		INFO("kind " << static_cast<int>(kind));
		ScalarTask task;
		task.kind = kind;
		const auto compared = constructive_test::Compare(*engine->NewScalarBatch(task), task, rows);
		REQUIRE(compared.wrong == 0);
		REQUIRE(compared.accepted == 0);
		REQUIRE(compared.sound == 0);
		REQUIRE(compared.same > rows.size() * 8 / 10);
		REQUIRE(compared.open > rows.size() / 100);
	}
}
