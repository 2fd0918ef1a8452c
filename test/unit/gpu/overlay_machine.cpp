// Unions of many polygons with the kernels of a device, run on the host: the CPU's own edges and geometries, bit by bit.
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/overlay.hpp"
#include "engine/overlay/overlay.hpp"
#include "geometry/wkb.hpp"
#include "overlay_parts.hpp"

using namespace overlay_test; // NOLINT: a test

namespace {

Compared RequireSame(Parts &parts, bool backwards, uint32_t most_entries = GpuOverlay::MOST_ENTRIES) {
	return overlay_test::RequireSame(parts, [&](const OverlayNet &net, Parallel &parallel, UnitedNet &united) {
		GpuOverlay on_host(std::make_unique<host_cuda::Machine>(backwards), net, parallel, most_entries);
		auto failed = on_host.UniteParts();
		on_host.Finish({}, false, united);
		return failed;
	});
}

} // namespace

TEST_CASE("overlay on a device: a crossing is one point, whichever way it is looked at", "[overlay]") {
	CHECK(vibe::CrossingPoint({0, 0}, {4, 4}, {0, 4}, {4, 0}) == Vec2 {2, 2});
	std::mt19937 random(2);
	size_t crossings = 0, wrong = 0;
	for (int i = 0; i < 20000; i++) {
		Vec2 p[4];
		for (auto &end : p) {
			end = Vec2 {static_cast<double>(random() % 9) / 7, static_cast<double>(random() % 9) / 7};
		}
		if (vibe::Contact(p[0], p[1], p[2], p[3]).kind != vibe::CONTACT_CROSS) {
			continue;
		}
		crossings++;
		const auto crossing = vibe::CrossingPoint(p[0], p[1], p[2], p[3]);
		wrong += crossing != vibe::CrossingPoint(p[3], p[2], p[0], p[1]);
		wrong += !vibe::BoxCovers(p[0], p[1], crossing) || !vibe::BoxCovers(p[2], p[3], crossing);
	}
	CHECK(wrong == 0);
	CHECK(crossings > 1000);
}

TEST_CASE("overlay on a device: coverages vanish but for their outline", "[overlay]") {
	Parts parts;
	for (uint32_t part = 0; part < 3; part++) {
		for (int i = 0; i < 20; i++) {
			for (int k = 0; k < 20; k++) {
				const double x = i * 0.1 + part, y = k * 0.1 * (1 + part);
				parts.Add(part, Box(x, y, (i + 1) * 0.1 + part, (k + 1) * 0.1 * (1 + part)));
			}
		}
	}
	// Rounded or not, neighbours have the same corners
	CHECK(RequireSame(parts, false).failed == 0);
	CHECK(RequireSame(parts, true).edges == 3 * 80);
}

TEST_CASE("overlay on a device: bricks meet within edges", "[overlay]") {
	Parts parts;
	for (uint32_t part = 0; part < 2; part++) {
		for (int row = 0; row < 25; row++) {
			for (int i = 0; i < 25; i++) {
				const double shift = row % 2 * 0.5 + row % 3 * 0.25;
				auto brick = Box(i + shift, row, i + shift + 1, row + 1);
				if (part == 1) {
					for (auto &p : brick) {
						std::swap(p.x, p.y);
					}
				}
				parts.Add(part, brick);
			}
		}
	}
	const auto compared = RequireSame(parts, true);
	CHECK(compared.failed == 0);
	CHECK(compared.edges > 200);
}

TEST_CASE("overlay on a device: polygons that overlap anyhow", "[overlay]") {
	std::mt19937 random(3);
	std::uniform_real_distribution<double> place(0, 20);
	for (double magnitude : {1.0, 1e6, 1e-60}) {
		Parts parts;
		for (uint32_t part = 0; part < 8; part++) {
			for (int i = 0; i < 60; i++) {
				const double x = place(random), y = place(random) * (part % 2 ? 1 : 1e-3);
				const int corners = 3 + int(random() % 30);
				auto ring = Star(random, x, y, part < 4 ? 1 : 8, corners, random() % 2);
				for (auto &p : ring) {
					p = Vec2 {(p.x + part * 100) * magnitude, p.y * magnitude};
				}
				parts.Add(part, ring);
				if (random() % 3 == 0) {
					// A hole: its centre shrunk
					for (auto &p : ring) {
						p = Vec2 {(p.x + (x + part * 100) * magnitude) / 2, (p.y + y * magnitude) / 2};
					}
					parts.Add(part, ring, Kind::HOLE);
				}
				if (random() % 5 == 0) {
					parts.Add(part, ring);
				}
			}
		}
		const auto compared = RequireSame(parts, magnitude == 1.0);
		CHECK(compared.failed < compared.parts);
		CHECK(compared.edges > 500);
	}
}

TEST_CASE("overlay on a device: a raster, where everything meets", "[overlay]") {
	std::mt19937 random(4);
	Parts parts;
	for (uint32_t part = 0; part < 60; part++) {
		for (int i = 0; i < 12; i++) {
			const int size = part % 3 == 0 ? 4 : 12;
			std::vector<Vec2> ring(3);
			for (auto &p : ring) {
				p = Vec2 {double(random() % size), double(random() % size)};
			}
			parts.Add(part, ring); // some of them without an area
			const double x = double(random() % size), y = double(random() % size);
			parts.Add(part, Box(x, y, x + 1 + double(random() % 3), y + 1 + double(random() % 3)));
		}
	}
	const auto compared = RequireSame(parts, true);
	CHECK(compared.failed == 0);
	CHECK(compared.edges > 1000);
}

TEST_CASE("overlay on a device: borders that nearly coincide", "[overlay]") {
	std::mt19937 random(5);
	Parts parts;
	for (uint32_t part = 0; part < 30; part++) {
		const double unit = 1.0 / 3;
		for (uint32_t i = 0; i < 2 + part; i++) {
			const double x = double(random() % 9) * unit, y = double(random() % 9) * unit;
			std::vector<Vec2> ring = Box(x, y, x + unit, y + 2 * unit);
			if (i % 3 == 0) {
				ring = {{x, y}, {x + 5 * unit, y + 3 * unit}, {x + 2 * unit, y + 4 * unit}};
			}
			for (auto &p : ring) {
				p = Vec2 {Shaken(random, p.x), Shaken(random, p.y)};
			}
			parts.Add(part, ring);
		}
	}
	const auto compared = RequireSame(parts, false);
	CHECK(compared.failed < 25);
	CHECK(compared.edges > 50);
}

TEST_CASE("overlay on a device: what is left to the CPU", "[overlay]") {
	Parts parts;
	// Crosses itself: half of it is one deeper, half one less
	parts.Add(0, {{0, 0}, {2, 2}, {2, 0}, {0, 2}});
	parts.Add(0, Box(5, 5, 6, 6));
	parts.Add(1, Box(0, 0, 1, 1));
	parts.Add(2, {{0, 0}, {1, 0}});         // no area
	parts.Add(3, {{7, 7}, {7, 7}, {7, 7}}); // a point
	parts.Add(4, {{0, 0}, {0, 0}, {3, 0}, {3, 3}, {3, 3}});
	const auto compared = RequireSame(parts, false);
	CHECK(compared.failed == 0);
	CHECK(compared.edges == 3 + 4 + 4 + 3);

	Parts crowded;
	for (int i = 0; i < 200; i++) {
		crowded.Add(0, Box(i, 0, i + 0.5, 1));
		crowded.Add(1, Box(0, i, 1000, i + 0.5));
	}
	CHECK(RequireSame(crowded, true, 100).failed == 1);
	CHECK(RequireSame(crowded, true).failed == 0);

	Parts none;
	CHECK(RequireSame(none, false).parts == 0);
}

TEST_CASE("overlay on a device: a ring larger than what is written at once", "[overlay]") {
	std::mt19937 random(6);
	Parts parts;
	parts.Add(0, Box(-3, -3, 0, 0));
	parts.Add(0, Star(random, 0, 0, 2, 70001, true));
	parts.Add(0, Box(0, 0, 3, 3));
	parts.Add(1, Star(random, 9, 9, 1, 5, false));
	REQUIRE(70001 * sizeof(Vec2) > 2 * RINGS_AT_ONCE);
	const auto compared = RequireSame(parts, false);
	CHECK(compared.failed == 0);
	CHECK(compared.edges > 10000);
}

TEST_CASE("overlay on a device: one edge with many cuts", "[overlay]") {
	Parts parts;
	parts.Add(0, Box(-1, 0, 2000, 0.25));
	parts.Add(0, {{-1, 3}, {2000, -2}, {2000, -1}});
	for (int i = 0; i < 500; i++) {
		// Not in their order
		const double x = (i * 187) % 500 * 3.7;
		parts.Add(0, {{x, -1}, {x + 1.3, 0.1}, {x + 0.3, 1}});
	}
	CHECK(RequireSame(parts, true).failed == 0);
}

TEST_CASE("overlay on a device: stopped between its kernels", "[overlay]") {
	struct Stopped {};
	std::mt19937 random(7);
	Parts parts;
	for (uint32_t part = 0; part < 4; part++) {
		for (int x = 0; x < 5; x++) {
			for (int y = 0; y < 4; y++) {
				parts.Add(part, Star(random, x, y, 1, 20, false));
			}
		}
	}
	int stops = 0;
	const auto compared = overlay_test::RequireSame(parts, [&](OverlayNet net, Parallel &parallel, UnitedNet &united) {
		for (int stop = 1;; stop++) {
			int asked = 0;
			net.poll = [&] {
				if (++asked == stop) {
					throw Stopped();
				}
			};
			try {
				GpuOverlay on_host(std::make_unique<host_cuda::Machine>(false), net, parallel);
				auto failed = on_host.UniteParts();
				on_host.Finish({}, false, united);
				return failed;
			} catch (const Stopped &) {
				stops++;
			}
		}
	});
	CHECK(compared.failed == 0);
	CHECK(stops > 15);
}

namespace {

using State = UnitedNet::State;

//! As the plug-in does it
class HostDevice : public OverlayDevice {
public:
	bool Takes(size_t) override {
		asked++;
		return takes;
	}
	bool Unite(const OverlayNet &net, Parallel &parallel, const Steps &steps) override {
		calls++;
		if (fails_early) {
			return false;
		}
		OnHost on_host(std::make_unique<host_cuda::Machine>(true), net, parallel, most_entries);
		on_host.device = this;
		steps(on_host);
		if (fails) {
			return false;
		}
		failed += on_host.parts_left;
		parts += on_host.parts_united;
		return true;
	}
	bool takes = true, fails_early = false, fails = false, whole = true;
	uint32_t most_entries = GpuOverlay::MOST_ENTRIES;
	size_t asked = 0, calls = 0, failed = 0, parts = 0;
	State state = State::PARTS;

private:
	class OnHost : public GpuOverlay {
	public:
		using GpuOverlay::GpuOverlay;
		std::vector<uint8_t> UniteParts() override {
			auto flags = GpuOverlay::UniteParts();
			parts_united = flags.size();
			return flags;
		}
		void Finish(OverlayNet::Edges &&others, bool whole, UnitedNet &united) override {
			GpuOverlay::Finish(std::move(others), whole && device->whole, united);
			device->state = united.state;
		}
		HostDevice *device = nullptr;
		size_t parts_united = 0;
	};
};

using Rings = std::vector<std::vector<Vec2>>;

//! Each polygon a shell with its holes
std::string Union(const std::vector<Rings> &polygons, OverlayDevice *device, bool points = false) {
	Overlay overlay;
	overlay.UseDevice(device);
	GeometryBatch batch;
	for (auto &rings : polygons) {
		batch.Clear();
		batch.BeginRow(GeometryType::POLYGON, 0);
		batch.BeginNode(GeometryType::POLYGON, 0);
		batch.BeginPart(vibe::FAMILY_POLYGON);
		for (auto &ring : rings) {
			batch.BeginRing();
			for (size_t i = 0; i <= ring.size(); i++) {
				const auto &p = ring[i % ring.size()];
				batch.AddVertex(p.x, p.y, 0, 0);
			}
		}
		batch.EndRow();
		overlay.Add(Overlay::LEFT, batch, 0);
	}
	if (points) {
		overlay.AddPoint(Overlay::LEFT, Vec2 {50, 50});
		overlay.AddPoint(Overlay::LEFT, Vec2 {-1000, 0});
	}
	batch.Clear();
	ThreeThreads threads;
	overlay.Run(OverlayRule {}, threads, batch);
	return WriteWkb(batch, 0);
}

} // namespace

TEST_CASE("overlay on a device: a union of many is the CPU's", "[overlay]") {
	std::mt19937 random(6);
	std::uniform_real_distribution<double> place(0, 100);
	std::vector<Rings> stars, bricks, circles, corners;
	for (int i = 0; i < 1500; i++) {
		Rings rings {Star(random, place(random), place(random), 2, 24, i % 2)};
		if (i % 4 == 0) {
			auto hole = rings[0];
			for (auto &p : hole) {
				p = Vec2 {p.x * 0.5 + rings[0][0].x * 0.25 + rings[0][12].x * 0.25,
				          p.y * 0.5 + rings[0][0].y * 0.25 + rings[0][12].y * 0.25};
			}
			rings.push_back(hole);
		}
		stars.push_back(rings);
	}
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < 100; k++) {
			const double x = i * 0.7 + (k % 2) * 0.35, y = k * 0.7;
			bricks.push_back({Box(x, y, (i + 1) * 0.7 + (k % 2) * 0.35, (k + 1) * 0.7)});
		}
	}
	for (int i = 0; i < 3000; i++) {
		// Large ones leave holes between them, with islands
		circles.push_back({Circle(place(random), place(random), i % 9 == 0 ? 2 : 0.2, 16 + i % 9)});
	}
	for (int i = 0; i < 10000; i++) {
		// A chessboard, whose fields touch in their corners
		const int row = i / 100;
		const double x = i % 100, y = row;
		corners.push_back({(i + row) % 2 == 0 ? Box(x, y, x + 1, y + 1) : Box(x + 0.25, y + 0.25, x + 0.5, y + 0.5)});
	}
	for (auto *polygons : {&stars, &bricks, &circles, &corners}) {
		const auto expected = Union(*polygons, nullptr);
		CHECK(expected.size() > 2000);
		HostDevice device;
		CHECK(Union(*polygons, &device) == expected);
		CHECK(device.asked == 1);
		CHECK(device.calls == 1);
		CHECK(device.state == (polygons == &stars || polygons == &corners ? State::LINKED : State::RINGS));
		CHECK(device.parts > 4);
		CHECK(device.failed == 0);
		HostDevice fails;
		fails.fails = true;
		CHECK(Union(*polygons, &fails) == expected);
		CHECK(fails.calls == 1);
		HostDevice halfway;
		halfway.whole = false;
		CHECK(Union(*polygons, &halfway) == expected);
		CHECK(halfway.state == State::PARTS);
		// Too many entries in the strips of some parts and of the whole, or of all parts
		for (uint32_t most : {60, 10}) {
			HostDevice crowded;
			crowded.most_entries = most;
			CHECK(Union(*polygons, &crowded) == expected);
			CHECK((most > 10 || crowded.failed == crowded.parts));
		}
		HostDevice refuses;
		refuses.takes = false;
		CHECK(Union(*polygons, &refuses) == expected);
		CHECK(refuses.calls == 0);
	}
	// Many wedges in one point are the CPU's to sort, and so they are where only ends meet there
	for (bool left : {false, true}) {
		std::vector<Rings> fan;
		for (int i = 0; i < 800; i++) {
			const double low = i - 400 + 0.25, high = i - 400 + 0.75, far = left ? -900 : 900;
			std::vector<Vec2> wedge {{0, 0}, {far, low}};
			for (int k = 1; k < 40; k++) {
				wedge.push_back(Vec2 {far, low + (high - low) * k / 40});
			}
			wedge.push_back(Vec2 {far, high});
			fan.push_back({wedge});
		}
		HostDevice many;
		CHECK(Union(fan, &many) == Union(fan, nullptr));
		CHECK(many.state == State::WHOLE);
	}
	// Too few for parts
	bricks.resize(100);
	HostDevice device;
	Union(bricks, &device);
	CHECK(device.asked == 0);
	// Among points the last step is the CPU's
	HostDevice reduces;
	CHECK(Union(stars, &reduces, true) == Union(stars, nullptr, true));
	CHECK(reduces.state == State::PARTS);
	// Polygons that cross themselves are mended by the CPU first, those without an area vanish
	stars[700] = {{{10, 10}, {30, 30}, {30, 10}, {10, 30}}};
	HostDevice mends;
	CHECK(Union(stars, &mends) == Union(stars, nullptr));
	CHECK(mends.state == State::LINKED);
	stars[700] = {{{10, 10}, {30, 30}, {20, 20}}};
	CHECK(Union(stars, &mends) == Union(stars, nullptr));
	CHECK(mends.calls == 2);
}

TEST_CASE("overlay on a device: large polygons, valid or not", "[overlay]") {
	std::mt19937 random(9);
	std::uniform_real_distribution<double> place(0, 60);
	std::vector<Rings> large;
	large.reserve(401);
	for (int i = 0; i < 400; i++) {
		large.push_back({Star(random, place(random), place(random), 2, 100 + i % 50, i % 2)});
	}
	large.push_back({Box(70, 0, 80, 10), Box(71, 1, 79, 9)});
	// A vertex twice, which is allowed
	large[17][0].push_back(large[17][0].back());
	const auto compare = [&](size_t calls) {
		const auto expected = Union(large, nullptr);
		HostDevice device;
		CHECK(Union(large, &device) == expected);
		CHECK(device.asked == 1);
		CHECK(device.calls == calls);
		CHECK(device.parts > 4);
		HostDevice fails;
		fails.fails_early = true;
		CHECK(Union(large, &fails) == expected);
		CHECK(fails.calls == 1);
	};
	compare(1);
	const auto valid = large;
	// Crosses itself; touches itself; has a spike; is outside of its shell; is there twice
	const auto ring = large[5][0];
	for (int fault = 0; fault < 5; fault++) {
		large = valid;
		auto &bad = large[5];
		if (fault == 0) {
			std::swap(bad[0][20], bad[0][60]);
		} else if (fault == 1) {
			bad[0][60] = bad[0][20];
		} else if (fault == 2) {
			bad[0].insert(bad[0].begin() + 1, {{bad[0][0].x + 9, bad[0][0].y}, bad[0][0]});
		} else if (fault == 3) {
			bad.push_back(Box(200, 200, 201, 201));
		} else {
			bad[0].insert(bad[0].end(), ring.begin(), ring.end());
		}
		compare(2);
	}
}
