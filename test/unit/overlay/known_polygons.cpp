// Overlays of polygons that are known, with rings that stay on the device of the host: nothing is read again, and the results are those of
// the CPU, bit by bit.
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/overlay.hpp"
#include "engine/overlay/tuning.hpp"
#include "union_groups.hpp"

#include <cmath>

using namespace overlay_test; // NOLINT: a test

namespace {

//! Rows of a table, and their rings on a device
class Table : public OverlayDevice {
public:
	explicit Table(Members rows_p) : rows(std::move(rows_p)), wkb(Slices(rows)), known(Read()) {
		std::vector<vibe::NetRing> net_rings;
		const auto net = known.All(wkb.data(), net_rings);
		host_cuda::Machine on_host(false);
		Machine &machine = on_host;
		auto vertices = machine.New<Vec2>(net.vertex_count);
		WriteRings(net, machine, vertices.at, threads);
		GpuTimes times;
		machine.AddBytes(times);
		CHECK(times.bytes_to_device == known.Vertices() * sizeof(Vec2));
		resident = std::make_shared<MachineRings>(std::move(vertices));
	}

	bool Takes(size_t) override {
		return true;
	}
	std::shared_ptr<const GpuRings> Resident(const KnownPolygons &polygons, Parallel &) override {
		CHECK(&polygons == &known);
		return resident;
	}
	bool Unite(const OverlayNet &net, Parallel &parallel, const Steps &steps) override {
		auto watched = net;
		watched.read = [&](size_t ring, Vec2 *out) {
			rings_read++;
			return net.read(ring, out);
		};
		Watched on_host(std::make_unique<host_cuda::Machine>(false), watched, parallel);
		steps(on_host);
		nets++;
		checked += on_host.checked;
		bytes += on_host.times.bytes_to_device;
		return true;
	}

	KnownRows Rows() const {
		return KnownRows {&known, wkb.data()};
	}
	//! The union of all rows, by their numbers or by their WKB
	std::string Unite(bool by_number, bool with_device) {
		Overlay overlay;
		overlay.UseDevice(with_device ? this : nullptr);
		if (by_number) {
			std::vector<uint32_t> numbers;
			for (uint32_t row = 0; row < rows.size(); row++) {
				numbers.push_back(row);
			}
			REQUIRE(overlay.AddKnown(Overlay::LEFT, Rows(), numbers.data(), numbers.size(), threads));
		} else {
			REQUIRE(overlay.AddPolygons(Overlay::LEFT, wkb.data(), wkb.size(), threads));
		}
		std::string made;
		overlay.Run(OverlayRule {}, threads, [&](size_t size) {
			made.resize(size);
			return reinterpret_cast<uint8_t *>(&made[0]);
		});
		return made;
	}

	ThreeThreads threads;
	const Members rows;
	const std::vector<WkbSlice> wkb;
	const KnownPolygons known;
	std::shared_ptr<const GpuRings> resident;
	size_t nets = 0, checked = 0, bytes = 0;
	std::atomic<size_t> rings_read {0};

private:
	class Watched : public GpuOverlay {
	public:
		using GpuOverlay::GpuOverlay;
		std::vector<uint8_t> FindDoubtful(size_t polygons) override {
			checked += polygons;
			return GpuOverlay::FindDoubtful(polygons);
		}
		size_t checked = 0;
	};

	KnownPolygons Read() {
		return KnownPolygons(wkb.data(), wkb.size(), threads);
	}
};

std::vector<Vec2> Repeated(std::vector<Vec2> ring) {
	ring.insert(ring.begin() + 2, ring[2]);
	ring.insert(ring.begin(), ring[0]);
	return ring;
}

//! Stars that overlap, some of which repeat vertices, have holes, or are clockwise
Members Stars(size_t count, int corners) {
	std::mt19937 random(7);
	std::uniform_real_distribution<double> place(0, 40);
	Members rows;
	for (size_t i = 0; i < count; i++) {
		const double x = place(random), y = place(random);
		auto ring = Star(random, x, y, 2, corners, false);
		if (i % 3 == 0) {
			ring = Repeated(ring);
		}
		if (i % 4 == 0) {
			std::reverse(ring.begin(), ring.end());
		}
		Rings rings {ring};
		if (i % 5 == 0) {
			for (auto &p : ring) {
				p = Vec2 {(p.x + 3 * x) / 4, (p.y + 3 * y) / 4};
			}
			rings.push_back(ring);
		}
		rows.push_back(Polygon(rings));
	}
	return rows;
}

} // namespace

TEST_CASE("a union of known polygons reads none of them", "[overlay]") {
	for (const int corners : {33, 130}) {
		Table table(Stars(overlay_tuning::LEAST_VERTICES / size_t(corners) * 2, corners));
		REQUIRE(table.known.Vertices() > overlay_tuning::LEAST_VERTICES);
		const auto expected = table.Unite(false, false);
		CHECK(table.Unite(true, false) == expected);
		CHECK(table.nets == 0);
		CHECK(table.Unite(false, true) == expected);
		CHECK(table.rings_read == table.known.Rings().size());
		// The first union finds out which are valid, the second knows
		table.rings_read = 0;
		CHECK(table.Unite(true, true) == expected);
		table.checked = table.bytes = 0;
		CHECK(table.Unite(true, true) == expected);
		CHECK(table.nets == 3);
		CHECK(table.rings_read == 0);
		CHECK(table.checked == 0);
		CHECK(table.bytes < table.known.Rings().size() * 40);
	}
}

TEST_CASE("polygons that are known to be invalid are mended", "[overlay]") {
	auto rows = Stars(1500, 33);
	for (size_t i = 0; i < rows.size(); i += 50) {
		const auto x = double(i) / 50;
		rows[i] = Polygon({{{x, 0}, {x + 2, 2}, {x + 2, 0}, {x, 2}}}); // a bow tie
	}
	Table table(rows);
	const auto expected = table.Unite(false, false);
	CHECK(table.Unite(true, true) == expected);
	CHECK(table.Unite(true, false) == expected);
	table.rings_read = 0;
	CHECK(table.Unite(true, true) == expected);
	CHECK(table.rings_read == 2 * 30); // two triangles each
	for (uint32_t row = 0; row < rows.size(); row++) {
		CHECK(table.known.IsValid(table.known.FirstRing(row)) == (row % 50 != 0));
	}
}

TEST_CASE("groups of known polygons are those of the CPU", "[overlay]") {
	const auto groups = Groups(300);
	Members rows;
	std::vector<std::vector<uint32_t>> numbers(groups.size());
	for (size_t i = 0; i < groups.size(); i++) {
		for (auto &member : groups[i]) {
			numbers[i].push_back(static_cast<uint32_t>(rows.size()));
			rows.push_back(member);
		}
	}
	Table table(rows);
	for (const bool again : {false, true}) {
		GroupedOverlay grouped;
		grouped.AddKnown(
		    table.Rows(), numbers.size(),
		    [&](size_t i) {
			    return GroupedOverlay::KnownGroup {numbers[i].data(), numbers[i].size()};
		    },
		    table.threads);
		table.checked = 0;
		std::vector<uint8_t> wkb;
		const auto begins = grouped.Run(table, table.threads, Into(wkb));
		CHECK(table.rings_read == 0);
		CHECK((table.checked > 0) != again);
		size_t same = 0;
		for (size_t i = 0; i < groups.size(); i++) {
			const auto at = wkb.begin() + std::ptrdiff_t(begins[i]), end = wkb.begin() + std::ptrdiff_t(begins[i + 1]);
			same += std::string(at, end) == OnCpu(groups[i]);
		}
		CHECK(same == groups.size());
	}
}

TEST_CASE("groups with invalid polygons are checked, though they are known", "[overlay]") {
	Table table({Polygon({Box(0, 0, 2, 2)}), Polygon({{{0, 0}, {2, 2}, {2, 0}, {0, 2}}}), Polygon({Box(1, 1, 3, 3)})});
	GroupedOverlay grouped;
	// The last group is one geometry, which has a rule of its own
	const uint32_t numbers[] = {0, 1, 2, 0, 2, 2};
	grouped.AddKnown(
	    table.Rows(), 3,
	    [&](size_t i) {
		    return GroupedOverlay::KnownGroup {numbers + 2 * i, size_t(i < 2 ? 2 : 1)};
	    },
	    table.threads);
	std::vector<uint8_t> wkb;
	const auto begins = grouped.Run(table, table.threads, Into(wkb));
	CHECK(table.checked > 0);
	CHECK(begins[0] == begins[1]); // left to the CPU
	CHECK(begins[2] == begins[3]);
	CHECK(std::string(wkb.begin(), wkb.end()) == OnCpu({table.rows[2], table.rows[0]}));
}

TEST_CASE("groups that are too large are known by their bytes", "[overlay]") {
	for (const int corners : {33, 500, 3000}) {
		for (const size_t count : {20, 80, 1000}) {
			if (size_t(corners) * count > 1000000) {
				continue;
			}
			const auto rows = Stars(count, corners);
			const auto wkb = Slices(rows);
			GroupedOverlay grouped;
			const bool added = grouped.Add(wkb.data(), wkb.size());
			const bool too_large = GroupedOverlay::IsTooLarge(wkb.data(), wkb.size());
			CHECK_FALSE((added && too_large));
			CHECK((added || too_large || size_t(corners) * count < 3 * overlay_tuning::LEAST_VERTICES));
		}
	}
}

TEST_CASE("rows that are no polygons, or need a closer look, are not known", "[overlay]") {
	const auto empty = Polygon({});
	const Rings tiny {{{0, 0}, {1e-200, 0}, {0, 1}}}, large {{{0, 0}, {1e80, 0}, {0, 1}}},
	    infinite {{{0, 0}, {HUGE_VAL, 0}, {0, 1}}};
	auto open = Polygon({Box(0, 0, 1, 1)});
	open[open.size() - 1]++; // the last vertex is not the first
	GeometryBatch batch;
	batch.BeginRow(GeometryType::LINESTRING, 0);
	batch.BeginNode(GeometryType::LINESTRING, 0);
	batch.BeginPart(vibe::FAMILY_LINE);
	batch.BeginRing();
	batch.AddVertex(0, 0, 0, 0);
	batch.AddVertex(1, 1, 0, 0);
	batch.EndRow();
	const auto line = WriteWkb(batch, 0);
	const Members rows {Polygon({Box(0, 0, 1, 1), Box(0.25, 0.25, 0.5, 0.5)}),
	                    empty,
	                    Polygon(tiny),
	                    Polygon(large),
	                    Polygon(infinite),
	                    open,
	                    line,
	                    line.substr(0, 12)};
	auto wkb = Slices(rows);
	wkb.push_back(WkbSlice {nullptr, 0});
	Serial serial;
	const KnownPolygons known(wkb.data(), wkb.size(), serial);
	KnownPolygons::Counts counts;
	CHECK(known.Rows() == 9);
	CHECK(known.Count(0, counts));
	CHECK(known.Count(1, counts));
	CHECK((counts.rings == 2 && counts.polygons == 1 && counts.members == 2 && counts.vertices == 8));
	for (size_t row = 2; row < known.Rows(); row++) {
		CHECK_FALSE(known.Count(row, counts));
	}
	OverlayInput input;
	const uint32_t numbers[] = {0, 6};
	CHECK_FALSE(input.AddKnown(Overlay::LEFT, KnownRows {&known, wkb.data()}, numbers, 2, serial));
	CHECK(input.chains.empty());
	CHECK(input.AddKnown(Overlay::LEFT, KnownRows {&known, wkb.data()}, numbers, 1, serial));
	CHECK(input.known == &known);
	CHECK_FALSE(input.AreKnownValid());
	input.NoteValid();
	CHECK(input.AreKnownValid());
	input.Clear();
	CHECK_FALSE(input.known);
}
