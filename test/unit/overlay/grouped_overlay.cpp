// Many unions at once with the kernels of a device, run on the host: each is that of the CPU, bit by bit.
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/overlay.hpp"
#include "engine/overlay/tuning.hpp"
#include "geometry/error.hpp"
#include "overlay_pairs.hpp"

using namespace overlay_test; // NOLINT: a test

namespace {

class HostDevice : public OverlayDevice {
public:
	bool Takes(size_t) override {
		return true;
	}
	bool Unite(const OverlayNet &net, Parallel &parallel, const Steps &steps) override {
		Watched on_host(std::make_unique<host_cuda::Machine>(backwards), net, parallel, most_entries);
		steps(on_host);
		rings = on_host.rings_made;
		edges = on_host.edges_made;
		return !fails;
	}
	uint32_t most_entries = GpuOverlay::MOST_ENTRIES;
	bool backwards = false, fails = false;
	//! Parts that came back as rings, and as edges
	size_t rings = 0, edges = 0;

private:
	class Watched : public GpuOverlay {
	public:
		using GpuOverlay::GpuOverlay;
		void FinishParts(UnitedNet &united) override {
			GpuOverlay::FinishParts(united);
			rings_made = size_t(std::count(united.parts.begin(), united.parts.end(), UnitedNet::State::RINGS));
			edges_made = united.parts.size() - rings_made;
		}
		size_t rings_made = 0, edges_made = 0;
	};
};

} // namespace

TEST_CASE("many unions at once are those of the CPU", "[overlay]") {
	const auto groups = Groups(400);
	for (bool backwards : {false, true}) {
		HostDevice device;
		device.backwards = backwards;
		CHECK(RequireSame(groups, device) == 0);
		CHECK(device.rings > 150);
		CHECK(device.edges > 80);
	}
	HostDevice one;
	CHECK(RequireSame({groups[3]}, one) == 0);
	HostDevice none;
	CHECK(RequireSame({}, none) == 0);
}

TEST_CASE("many unions at once: coordinates near one another, large and small", "[overlay]") {
	std::mt19937 random(12);
	std::vector<Members> groups;
	for (double magnitude : {1.0, 1e6, 1e60, 1e-60}) {
		for (int i = 0; i < 40; i++) {
			Members members;
			for (int k = 0; k < 6; k++) {
				auto ring = Star(random, 5 + k % 3, 5 + k % 2, 2, 12, false);
				for (auto &p : ring) {
					p = Vec2 {Shaken(random, p.x * magnitude), Shaken(random, p.y * magnitude)};
				}
				members.push_back(Polygon({ring}));
			}
			groups.push_back(members);
		}
	}
	HostDevice device;
	CHECK(RequireSame(groups, device) < 8);
}

TEST_CASE("many unions at once: what is left to the CPU", "[overlay]") {
	auto groups = Groups(50);
	HostDevice fails;
	fails.fails = true;
	CHECK(RequireSame(groups, fails) == groups.size());
	HostDevice crowded;
	crowded.most_entries = 3;
	CHECK(RequireSame(groups, crowded) > 10);
	// Invalid polygons are mended first
	groups[7].push_back(Polygon({{{0, 0}, {4, 4}, {4, 0}, {0, 4}}}));
	groups[8].push_back(Polygon({Box(0, 0, 4, 4), Box(9, 9, 10, 10)}));
	// Nothing is left of polygons without an area
	groups[9] = {Polygon({{{0, 0}, {4, 4}, {2, 2}}}), Polygon({{{0, 0}, {4, 0}, {2, 0}}})};
	HostDevice device;
	CHECK(RequireSame(groups, device) == 3);
	// A fan of wedges in one point, too many for a thread to sort
	Members fan;
	for (int i = 0; i < 1100; i++) {
		fan.push_back(Polygon({{{0, 0}, {900, i + 0.25}, {900, i + 0.75}}}));
	}
	HostDevice sorts;
	CHECK(RequireSame({fan, groups[0], groups[1]}, sorts) == 0);
	CHECK(sorts.edges == 3);
}

TEST_CASE("many unions at once: what is not for it", "[overlay]") {
	GroupedOverlay grouped;
	const auto add = [&](const Members &members) {
		const auto slices = Slices(members);
		return grouped.Add(slices.data(), slices.size());
	};
	const auto square = Polygon({Box(0, 0, 1, 1)});
	GeometryBatch batch;
	batch.BeginRow(GeometryType::POINT, 0);
	batch.BeginNode(GeometryType::POINT, 0);
	batch.BeginPart(vibe::FAMILY_POINT);
	batch.AddVertex(1, 2, 0, 0);
	batch.EndRow();
	CHECK(!add({}));
	CHECK(!add({square}));
	CHECK(!add({square, WriteWkb(batch, 0)}));
	CHECK_THROWS_AS(add({square, square.substr(0, 20)}), GeometryError);
	CHECK(grouped.Groups() == 0);
	// In parts
	std::mt19937 random(13);
	Members many;
	for (size_t i = 0; i < overlay_tuning::LEAST_POLYGONS; i++) {
		many.push_back(Polygon({Star(random, double(i), 0, 2, int(overlay_tuning::LEAST_VERTICES / 64), false)}));
	}
	CHECK(!add(many));
	many.pop_back();
	CHECK(add(many));
	CHECK(add({square, square}));
	CHECK(grouped.Groups() == 2);
	CHECK(grouped.Vertices() == 63 * overlay_tuning::LEAST_VERTICES / 64 + 8);
}

TEST_CASE("many pairs at once are those of the CPU", "[overlay]") {
	constexpr size_t COUNT = 10000;
	const auto pairs = Pairs(COUNT);
	for (auto kind : {NetRule::INTERSECTION, NetRule::UNION, NetRule::DIFFERENCE, NetRule::SYM_DIFFERENCE}) {
		for (uint32_t areas_only : {0u, 1u}) {
			HostDevice device;
			device.backwards = areas_only != 0;
			const auto compared = RequireSame(pairs, NetRule {kind, areas_only}, device);
			CAPTURE(int(kind), areas_only, compared.left, compared.empty);
			// Intersections that have lines or points, and borders that nearly coincide
			const bool has_lines = kind == NetRule::INTERSECTION && areas_only == 0;
			CHECK(compared.left < (has_lines ? COUNT * 4 / 10 : COUNT / 100));
			CHECK((!has_lines || compared.left > COUNT / 10));
			CHECK((kind == NetRule::UNION || compared.empty > COUNT / 100));
			CHECK(device.rings > COUNT * 4 / 10);
			CHECK(device.edges > COUNT / 100);
		}
	}
}

TEST_CASE("many pairs at once: what is left to the CPU", "[overlay]") {
	const NetRule intersection {NetRule::INTERSECTION, 0}, areas {NetRule::INTERSECTION, 1}, both {NetRule::UNION, 0};
	const auto square = Polygon({Box(0, 0, 2, 2)}), far = Polygon({Box(9, 9, 10, 10)});
	const std::vector<Pair> touching {
	    {square, Polygon({Box(2, 0, 4, 2)})},                             // a line
	    {square, Polygon({Box(2, 2, 4, 4)})},                             // a point
	    {square, Polygon({{{1, 2}, {3, 4}, {0, 4}}})},                    // a point within an edge
	    {square, MultiPolygon({{Box(1, 0, 3, 1)}, {Box(-1, 2, 0, 3)}})},  // an area, and a point beside it
	    {square, MultiPolygon({{Box(1, 0, 3, 1)}, {Box(-1, 1, 0, 2)}})}}; // an area, and a line beside it
	const std::vector<Pair> others {{square, square}, {square, far}, {square, Polygon({Box(1, 1, 3, 3)})}};
	HostDevice device;
	CHECK(RequireSame(touching, intersection, device).left == 5);
	CHECK(RequireSame(touching, areas, device).left == 0);
	CHECK(RequireSame(touching, both, device).left == 0);
	CHECK(RequireSame(others, intersection, device).left == 0);
	CHECK(RequireSame({others[1]}, intersection, device).empty == 1);
	CHECK(RequireSame({}, both, device).left == 0);

	HostDevice fails;
	fails.fails = true;
	CHECK(RequireSame(others, both, fails).left == others.size());
	// No ring of it is sent
	CHECK(RequireSame({others[1]}, intersection, fails).left == 0);
	const auto pairs = Pairs(200);
	HostDevice crowded;
	crowded.most_entries = 3;
	const auto left = RequireSame(pairs, both, crowded).left;
	CHECK((left > 20 && left < 200));
	// A fan of wedges in one point, too many for a thread to look at
	std::vector<Rings> fan;
	fan.reserve(1100);
	for (int i = 0; i < 1100; i++) {
		fan.push_back({{{0, 0}, {900, i + 0.25}, {900, i + 0.75}}});
	}
	HostDevice looks;
	const auto around = MultiPolygon({{Box(-5, -5, -4, -4)}, {Box(950, 1150, 951, 1151)}});
	CHECK(RequireSame({{MultiPolygon(fan), around}}, intersection, looks).left == 1);
	CHECK(RequireSame({{MultiPolygon(fan), around}}, areas, looks).left == 0);
}

TEST_CASE("many pairs at once: what is not for it", "[overlay]") {
	const auto square = Polygon({Box(0, 0, 1, 1)});
	GeometryBatch batch;
	batch.BeginRow(GeometryType::POINT, 0);
	batch.BeginNode(GeometryType::POINT, 0);
	batch.BeginPart(vibe::FAMILY_POINT);
	batch.BeginRing();
	batch.AddVertex(1, 2, 0, 0);
	batch.EndRow();
	const auto point = WriteWkb(batch, 0), empty = MultiPolygon({});
	const std::vector<Pair> pairs {
	    {square, point},
	    {point, square},
	    {square, empty},
	    {empty, square},
	    {square, Polygon({{{0, 0}, {1, std::nan("")}, {1, 1}}})},
	    {square, square},
	    {square, Polygon({{{0, 0}, {1, 1}}})},
	    // Coordinates that only multiples of the least number tell apart
	    {Polygon({{{0, 0}, {1e-300, 0}, {0, 1e-300}}}), Polygon({{{0, 0}, {1e-300, 0}, {0, 2e-300}}})},
	    {square, square.substr(0, 20)},
	    {square.substr(0, 20), square},
	    {square, square}};
	for (auto kind : {NetRule::INTERSECTION, NetRule::UNION}) {
		GroupedOverlay grouped(NetRule {kind, 0});
		ThreeThreads threads;
		grouped.AddPairs(
		    pairs.size() + 2,
		    [&](size_t i) {
			    const auto slice = SliceOf(square);
			    const WkbSlice null {nullptr, 0};
			    return i < pairs.size() ? GroupedOverlay::Pair(SliceOf(pairs[i].first), SliceOf(pairs[i].second))
			                            : GroupedOverlay::Pair(i % 2 ? slice : null, i % 2 ? null : slice);
		    },
		    threads);
		CHECK(grouped.Groups() == pairs.size() + 2);
		CHECK(grouped.Vertices() == 16);
		HostDevice device;
		std::vector<uint8_t> wkb;
		const auto begins = grouped.Run(device, threads, Into(wkb));
		std::vector<size_t> made;
		for (size_t i = 0; i + 1 < begins.size(); i++) {
			if (begins[i + 1] > begins[i]) {
				made.push_back(i);
				CHECK(std::string(wkb.begin() + std::ptrdiff_t(begins[i]),
				                  wkb.begin() + std::ptrdiff_t(begins[i + 1])) == square);
			}
		}
		CHECK(made == std::vector<size_t> {5, 10});
	}
}
