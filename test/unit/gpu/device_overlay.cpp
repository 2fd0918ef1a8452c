// Needs a device and the plug-in in the folder that VIBESPATIAL_GPU_FOLDER names: without, these cases say so and pass over.
// VIBESPATIAL_TEST_RINGS is how many rings are united (40,000), VIBESPATIAL_TEST_PAIRS how many pairs there are (40,000, at most 200,000):
// fewer for the tools that watch every access.
#include "device_engine.hpp"
#include "overlay_pairs.hpp"

#include "engine/overlay/overlay.hpp"
#include "geometry/wkb.hpp"

using namespace overlay_test; // NOLINT: a test

namespace {

constexpr int ALL_RINGS = 40000;

int Wanted(const char *variable, int otherwise) {
	const char *text = std::getenv(variable);
	return text ? std::atoi(text) : otherwise;
}

int WantedRings() {
	return Wanted("VIBESPATIAL_TEST_RINGS", ALL_RINGS);
}

Compared RequireSameOnDevice(GpuEngine &engine, Parts &parts) {
	return RequireSame(parts, [&](const OverlayNet &net, Parallel &parallel, UnitedNet &united) {
		const auto on_device = engine.BeginUnion(net, parallel);
		auto failed = on_device->UniteParts();
		on_device->Finish({}, false, united);
		REQUIRE(on_device->times.bytes_to_device >= net.vertex_count * sizeof(Vec2));
		return failed;
	});
}

class EngineDevice : public OverlayDevice {
public:
	explicit EngineDevice(GpuEngine &engine) : engine(engine) {
	}
	bool Takes(size_t) override {
		return true;
	}
	bool Unite(const OverlayNet &net, Parallel &parallel, const Steps &steps) override {
		Watched watched(engine.BeginUnion(net, parallel), state);
		steps(watched);
		calls++;
		return true;
	}
	size_t calls = 0;
	UnitedNet::State state = UnitedNet::State::PARTS;

private:
	//! Takes down how far the device came
	class Watched : public GpuUnion {
	public:
		Watched(std::unique_ptr<GpuUnion> own, UnitedNet::State &state) : own(std::move(own)), state(state) {
		}
		std::vector<uint8_t> FindDoubtful(size_t polygons) override {
			return own->FindDoubtful(polygons);
		}
		std::vector<uint8_t> UniteParts() override {
			return own->UniteParts();
		}
		void Finish(OverlayNet::Edges &&others, bool whole, UnitedNet &united) override {
			own->Finish(std::move(others), whole, united);
			state = united.state;
		}
		void FinishParts(UnitedNet &united) override {
			own->FinishParts(united);
		}

	private:
		const std::unique_ptr<GpuUnion> own;
		UnitedNet::State &state;
	};

	GpuEngine &engine;
};

} // namespace

TEST_CASE("The device unites the parts of a net as the CPU does", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	const int rings = WantedRings();
	std::mt19937 random(7);
	std::uniform_real_distribution<double> place(0, 40);
	Parts stars, raster, bricks, shaken, none;
	for (uint32_t part = 0; part < 40; part++) {
		const auto count = std::max(4, (part % 10 == 0 ? 600 : 100) * rings / ALL_RINGS);
		for (int i = 0; i < count; i++) {
			stars.Add(part, Star(random, place(random), place(random), part % 10 == 0 ? 1 : 3, 3 + int(random() % 40),
			                     i % 2));
			const auto size = part % 3 == 0 ? 4 : 40;
			const double x = double(random() % size), y = double(random() % size);
			raster.Add(part, Box(x, y, x + 1 + double(random() % 3), y + 1 + double(random() % 3)));
			raster.Add(part, {{x, y}, {double(random() % size), double(random() % size)}, {x + 1, y + 5}});
			auto ring = Box(x / 3, y / 3, x / 3 + 1, y / 3 + 2.0 / 3);
			for (auto &p : ring) {
				p = Vec2 {Shaken(random, p.x), Shaken(random, p.y)};
			}
			shaken.Add(part, ring);
			const int row = i / 30;
			const double left = i % 30 + row % 2 * 0.5, low = (part + 1) * 0.1 * row;
			bricks.Add(part, Box(left, low, left + 1, (part + 1) * 0.1 * (row + 1)));
		}
	}
	for (auto *parts : {&stars, &raster, &bricks, &shaken}) {
		const auto compared = RequireSameOnDevice(*engine, *parts);
		CHECK(compared.parts == 40);
		// Rounded crossings make edges meet anew mostly where borders nearly coincide
		CHECK((parts == &shaken || compared.failed < 10));
		CHECK((parts == &shaken || rings < ALL_RINGS || compared.edges > 2000));
	}
	CHECK(RequireSameOnDevice(*engine, bricks).failed == 0);
	CHECK(RequireSameOnDevice(*engine, none).parts == 0);
}

TEST_CASE("A union with a device is the CPU's", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	const int count = WantedRings();
	std::mt19937 random(8);
	std::uniform_real_distribution<double> place(0, 500);
	std::vector<std::vector<Vec2>> stars, circles, rows, bricks, shaken;
	for (auto *rings : {&stars, &circles, &rows, &bricks, &shaken}) {
		rings->reserve(static_cast<size_t>(count));
	}
	for (int i = 0; i < count; i++) {
		stars.push_back(Star(random, place(random), place(random), 2, 24, false));
		circles.push_back(Circle(place(random), place(random), 1 + double(i % 7) / 3, 32));
		const int column = i % 200, row = i / 200;
		const double x = column * 0.7, y = row * 0.7, shift = row % 2 * 0.35;
		// Every other one: they touch in their corners
		rows.push_back((column + row) % 2 == 0 ? Box(x, y, x + 0.7, y + 0.7) : Box(x + 0.2, y + 0.2, x + 0.3, y + 0.3));
		bricks.push_back(Box(x + shift, y, (column + 1) * 0.7 + shift, (row + 1) * 0.7));
		shaken.push_back(Box(column / 3.0, row / 3.0, (column + 1) / 3.0, (row + 1) / 3.0));
		for (auto &p : shaken.back()) {
			p = Vec2 {Shaken(random, p.x), Shaken(random, p.y)};
		}
	}
	for (auto *rings : {&stars, &circles, &rows, &bricks, &shaken}) {
		std::string wkb[2];
		EngineDevice device(*engine);
		for (auto with : {0, 1}) {
			Overlay overlay;
			overlay.UseDevice(with ? &device : nullptr);
			GeometryBatch batch;
			for (auto &ring : *rings) {
				batch.Clear();
				batch.BeginRow(GeometryType::POLYGON, 0);
				batch.BeginNode(GeometryType::POLYGON, 0);
				batch.BeginPart(vibe::FAMILY_POLYGON);
				batch.BeginRing();
				for (size_t i = 0; i <= ring.size(); i++) {
					batch.AddVertex(ring[i % ring.size()].x, ring[i % ring.size()].y, 0, 0);
				}
				batch.EndRow();
				overlay.Add(Overlay::LEFT, batch, 0);
			}
			batch.Clear();
			ThreeThreads threads;
			overlay.Run(OverlayRule {}, threads, batch);
			wkb[with] = WriteWkb(batch, 0);
		}
		if (count >= ALL_RINGS) {
			CHECK(device.calls == 1);
			CHECK((rings != &circles || device.state == UnitedNet::State::RINGS));
			CHECK((rings != &rows || device.state == UnitedNet::State::LINKED));
			CHECK((rings == &shaken || rings == &bricks || wkb[0].size() > 1000000));
		}
		CHECK(wkb[0] == wkb[1]);
	}
}

TEST_CASE("The device unites many groups at once as the CPU does", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	// About 13 rings a group
	const auto groups = Groups(size_t(std::max(WantedRings() / 13, 10)));
	EngineDevice device(*engine);
	CHECK(RequireSame(groups, device) == 0);
	CHECK(device.calls == 1);
}

TEST_CASE("The device makes the overlays of many pairs at once as the CPU does", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	constexpr size_t AT_ONCE = 16384, MOST = 200000;
	const auto wanted = std::min(MOST, size_t(Wanted("VIBESPATIAL_TEST_PAIRS", 40000)));
	for (size_t done = 0; done < wanted; done += AT_ONCE) {
		const auto pairs = Pairs(std::min(AT_ONCE, wanted - done), unsigned(done));
		for (auto kind : {NetRule::INTERSECTION, NetRule::UNION, NetRule::DIFFERENCE, NetRule::SYM_DIFFERENCE}) {
			for (uint32_t areas_only : {0u, 1u}) {
				EngineDevice device(*engine);
				const auto left = RequireSame(pairs, NetRule {kind, areas_only}, device).left;
				const bool has_lines = kind == NetRule::INTERSECTION && areas_only == 0;
				CHECK(left <= (has_lines ? pairs.size() * 4 / 10 : pairs.size() / 100));
				CHECK(device.calls == 2);
			}
		}
	}
}
