// Needs a device and the plug-in in the folder that VIBESPATIAL_GPU_FOLDER names: without, these cases say so and pass over.
// VIBESPATIAL_TEST_RINGS is how many rings are united (40,000), VIBESPATIAL_TEST_PAIRS how many pairs there are (40,000, at most 200,000):
// fewer for the tools that watch every access.
#include "device_engine.hpp"
#include "overlay_pairs.hpp"

#include "engine/dispatch/needs.hpp"
#include "engine/dispatch/operation.hpp"
#include "engine/gpu/interface/join.hpp"
#include "engine/gpu/interface/pinned.hpp"
#include "engine/overlay/overlay.hpp"
#include "engine/shape/part_boxes.hpp"
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
		Watched watched(engine.BeginUnion(net, parallel), state, bytes);
		steps(watched);
		calls++;
		return true;
	}
	std::shared_ptr<const GpuRings> Resident(const KnownPolygons &, Parallel &) override {
		return resident;
	}
	//! Those of known polygons
	std::shared_ptr<const GpuRings> resident;
	size_t calls = 0;
	//! To the device when the last union began
	size_t bytes = 0;
	UnitedNet::State state = UnitedNet::State::PARTS;

private:
	//! Takes down how far the device came
	class Watched : public GpuUnion {
	public:
		Watched(std::unique_ptr<GpuUnion> own_p, UnitedNet::State &state, size_t &bytes)
		    : own(std::move(own_p)), state(state) {
			bytes = own->times.bytes_to_device;
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

//! A table of polygons that stays on the device, with their rings
struct PinnedPolygonRows {
	PinnedPolygonRows(GpuEngine &engine, Members members_p)
	    : members(std::move(members_p)), wkb(Slices(members)), known(wkb.data(), wkb.size(), threads) {
		auto kernels = KernelNeeds(Operation::PIN);
		AddNames(kernels, BuildNeeds(SideKinds::Shapes(false, false), false));
		REQUIRE(engine.EnsureWarm(kernels, 60).empty());
		pinned = engine.NewPinned(PinnedLayout());
		std::vector<JoinRow> join_rows;
		join_rows.reserve(wkb.size());
		for (auto &slice : wkb) {
			join_rows.push_back(JoinRow {slice.data, static_cast<uint32_t>(slice.size)});
		}
		PinnedInput input;
		input.count = join_rows.size();
		input.wkb = join_rows.data();
		input.pack = [&](uint32_t row, PackedShapes &packed) {
			vibe::Box box;
			WkbBounds(wkb[row].data, wkb[row].size, box);
			packed.AddWkb(join_rows[row], box);
		};
		pinned->Add(input);
		GpuTimes times;
		pinned->Finish(nullptr, times);
		rows = pinned->Use();
		REQUIRE(rows);
		CHECK_FALSE(pinned->Rings(rows));
		const auto before = pinned->Bytes();
		std::vector<vibe::NetRing> net_rings;
		rings = pinned->SendRings(rows, known.All(wkb.data(), net_rings), threads, times);
		CHECK(pinned->Rings(rows) == rings);
		CHECK(pinned->Bytes() - before == known.Vertices() * sizeof(Vec2));
	}
	KnownRows Rows() const {
		return KnownRows {&known, wkb.data()};
	}

	ThreeThreads threads;
	const Members members;
	const std::vector<WkbSlice> wkb;
	const KnownPolygons known;
	std::shared_ptr<GpuPinned> pinned;
	std::shared_ptr<const PinnedRows> rows;
	std::shared_ptr<const GpuRings> rings;
};

TEST_CASE("The device unites polygons that it keeps as the CPU does", "[device]") {
	auto *engine = Device();
	if (!engine) {
		return;
	}
	const int count = WantedRings();
	std::mt19937 random(9);
	std::uniform_real_distribution<double> place(0, 400);
	Members members;
	for (int i = 0; i < count; i++) {
		const double x = place(random), y = place(random);
		Rings of_polygon {i % 3 == 0 ? Circle(x, y, 1 + double(i % 7) / 3, 64)
		                             : Star(random, x, y, 2, 3 + int(random() % 40), false)};
		if (i % 5 == 0) {
			of_polygon = {Box(x, y, x + 2, y + 2), Box(x + 0.5, y + 0.5, x + 1, y + 1)};
		} else if (i % 101 == 0) {
			of_polygon = {{{x, y}, {x + 2, y + 2}, {x + 2, y}, {x, y + 2}}}; // crosses itself
		}
		members.push_back(Polygon(of_polygon));
	}
	PinnedPolygonRows table(*engine, std::move(members));
	EngineDevice device(*engine);
	device.resident = table.rings;
	const auto unite = [&](size_t begin, size_t end, bool with_device) {
		std::vector<uint32_t> numbers;
		for (auto row = begin; row < end; row++) {
			numbers.push_back(static_cast<uint32_t>(row));
		}
		Overlay overlay;
		overlay.UseDevice(with_device ? &device : nullptr);
		if (with_device) {
			REQUIRE(overlay.AddKnown(Overlay::LEFT, table.Rows(), numbers.data(), numbers.size(), table.threads));
		} else {
			REQUIRE(overlay.AddPolygons(Overlay::LEFT, table.wkb.data() + begin, end - begin, table.threads));
		}
		GeometryBatch batch;
		overlay.Run(OverlayRule {}, table.threads, batch);
		return WriteWkb(batch, 0);
	};
	const auto rows = table.wkb.size();
	for (auto [begin, end] : {std::make_pair(size_t(0), rows), std::make_pair(rows / 3, rows)}) {
		const auto expected = unite(begin, end, false);
		CHECK(unite(begin, end, true) == expected);
		CHECK(unite(begin, end, true) == expected);
		// Addresses of rings, and what was mended
		CHECK((device.bytes == 0 || device.bytes < table.known.Vertices() * 4));
	}
	CHECK((count < ALL_RINGS || device.calls == 4));
	// In groups of about 13
	GroupedOverlay grouped;
	std::vector<std::pair<size_t, size_t>> groups;
	std::vector<uint32_t> numbers;
	for (size_t row = 0; row + 20 < rows; row += 7 + row % 12) {
		groups.emplace_back(row, row + 7 + row % 12);
	}
	for (uint32_t row = 0; row < rows; row++) {
		numbers.push_back(row);
	}
	grouped.AddKnown(
	    table.Rows(), groups.size(),
	    [&](size_t i) {
		    return GroupedOverlay::KnownGroup {numbers.data() + groups[i].first, groups[i].second - groups[i].first};
	    },
	    table.threads);
	std::vector<uint8_t> wkb;
	const auto begins = grouped.Run(device, table.threads, Into(wkb));
	size_t left = 0, differs = 0;
	for (size_t i = 0; i < groups.size(); i++) {
		const auto at = wkb.begin() + std::ptrdiff_t(begins[i]), end = wkb.begin() + std::ptrdiff_t(begins[i + 1]);
		left += at == end;
		differs += at != end && std::string(at, end) != unite(groups[i].first, groups[i].second, false);
	}
	CHECK(differs == 0);
	CHECK(left < groups.size() / 4); // those with a polygon that crosses itself
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
