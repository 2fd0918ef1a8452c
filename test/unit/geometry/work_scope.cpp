#include "catch.hpp"

#include "engine/common/shared_work.hpp"
#include "engine/constructive/boundary.hpp"
#include "engine/constructive/buffer.hpp"
#include "engine/constructive/hull.hpp"
#include "engine/constructive/make_valid.hpp"
#include "engine/constructive/node_lines.hpp"
#include "engine/constructive/precision.hpp"
#include "engine/constructive/simplify.hpp"
#include "engine/measure/distance.hpp"
#include "engine/relate/relate.hpp"
#include "engine/relate/simple.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/geojson.hpp"
#include "geometry/wkb.hpp"
#include "geometry/work_scope.hpp"

#include <cmath>
#include <random>
#include <thread>

using namespace vibespatial;
using vibe::Vec2;

namespace {

struct Cancelled {};
struct NoMemory {};

//! What the host was asked for
struct Host {
	std::atomic<size_t> reserved {0};
	std::atomic<size_t> most {0};
	std::atomic<size_t> reservations {0};
	std::atomic<size_t> checks {0};
	std::atomic<size_t> accounts {0};
	size_t limit = SIZE_MAX;
	//! The check that throws
	size_t cancel_at = SIZE_MAX;
};

class TestAccount final : public MemoryAccount {
public:
	explicit TestAccount(Host &host_p) : host(host_p) {
		host.accounts++;
	}
	~TestAccount() override {
		host.accounts--;
	}

private:
	void Reserve(size_t bytes) override {
		if (host.reserved + bytes > host.limit) {
			throw NoMemory();
		}
		host.reserved += bytes;
		host.reservations++;
		host.most = std::max<size_t>(host.most, host.reserved);
	}
	void Free(size_t bytes) noexcept override {
		host.reserved -= bytes;
	}

	Host &host;
};

class TestScope final : public WorkScope {
public:
	explicit TestScope(Host &host_p) : host(host_p), use(this) {
	}
	void Check() override {
		if (++host.checks >= host.cancel_at) {
			throw Cancelled();
		}
	}

private:
	MemoryAccount *MakeAccount() override {
		return new TestAccount(host);
	}

	Host &host;
	const Use use;
};

constexpr size_t MEGABYTE = size_t(1) << 20;

} // namespace

TEST_CASE("Without a scope nothing is counted and nothing is asked", "[work_scope]") {
	CHECK(WorkScope::Current() == nullptr);
	CountedVector<double> numbers(MEGABYTE);
	HeldMemory held;
	held.Reach(MEGABYTE);
	Poll poll;
	for (int i = 0; i < 100000; i++) {
		poll();
	}
	PollCall(MEGABYTE);
	CHECK(numbers.back() == 0);
}

TEST_CASE("Small memory costs the host nothing", "[work_scope]") {
	Host host;
	TestScope scope(host);
	CountedVector<double> numbers(1000);
	CountedVector<double> more(100000);
	CHECK(host.reservations == 0);
	CHECK(host.reserved == 0);
}

TEST_CASE("Memory is reserved before it is used, and given back", "[work_scope]") {
	Host host;
	{
		TestScope scope(host);
		CountedVector<char> bytes;
		for (size_t i = 0; i < 64 * MEGABYTE; i++) {
			bytes.push_back(1);
		}
		// The old array and the new one, and no more than a step beyond
		CHECK(host.reserved + MemoryAccount::FREE >= bytes.capacity());
		CHECK(host.most + MemoryAccount::FREE >= bytes.capacity() + bytes.capacity() / 2);
		CHECK(host.most <= bytes.capacity() + bytes.capacity() / 2 + bytes.capacity() / 8 + 4 * MemoryAccount::STEP);
		CHECK(host.reservations < 64);
		bytes = CountedVector<char>();
		CHECK(host.reserved <= 3 * MemoryAccount::STEP);
	}
	CHECK(host.reserved == 0);
	CHECK(host.accounts == 0);
}

TEST_CASE("What outlives its scope stays counted", "[work_scope]") {
	Host host;
	CountedVector<char> kept;
	{
		TestScope scope(host);
		kept.resize(16 * MEGABYTE);
		HeldMemory held;
		held.Reach(16 * MEGABYTE);
		scope.Hold(16 * MEGABYTE);
		CHECK(host.reserved >= 47 * MEGABYTE);
	}
	CHECK(host.reserved >= 15 * MEGABYTE);
	CHECK(host.reserved <= 32 * MEGABYTE);
	CHECK(host.accounts == 1);
	{
		TestScope scope(host);
		kept = CountedVector<char>();
	}
	CHECK(host.reserved == 0);
	CHECK(host.accounts == 0);
}

TEST_CASE("Where there is no memory, nothing has changed", "[work_scope]") {
	Host host;
	host.limit = 20 * MEGABYTE;
	{
		TestScope scope(host);
		CountedVector<char> bytes(10 * MEGABYTE, 'x');
		CHECK_THROWS_AS(bytes.resize(40 * MEGABYTE), NoMemory);
		CHECK(bytes.size() == 10 * MEGABYTE);
		CHECK(bytes.back() == 'x');
		HeldMemory held;
		CHECK_THROWS_AS(held.Reach(40 * MEGABYTE), NoMemory);
		CHECK_THROWS_AS(scope.Hold(40 * MEGABYTE), NoMemory);
		held.Reach(2 * MEGABYTE);
	}
	CHECK(host.reserved == 0);
	CHECK(host.accounts == 0);
}

TEST_CASE("Scopes nest, and each thread has its own", "[work_scope]") {
	Host outer_host, inner_host;
	TestScope outer(outer_host);
	{
		TestScope inner(inner_host);
		CHECK(WorkScope::Current() == &inner);
		std::thread([] { CHECK(WorkScope::Current() == nullptr); }).join();
		const WorkScope::Use none(nullptr);
		CHECK(WorkScope::Current() == nullptr);
	}
	CHECK(WorkScope::Current() == &outer);
}

TEST_CASE("Threads that help work for the scope of the one who leads", "[work_scope]") {
	Host host;
	SharedWork work(2);
	std::thread helper;
	std::atomic<int> wrong {0}, done {0};
	{
		TestScope scope(host);
		work.Run([&](Parallel &parallel) {
			helper = std::thread([&] { work.Help(std::chrono::milliseconds(10000), [] {}); });
			parallel.For(64, [&](size_t) {
				wrong += WorkScope::Current() != &scope;
				CountedVector<char> bytes(MEGABYTE);
				done++;
				std::this_thread::sleep_for(std::chrono::milliseconds(1));
			});
		});
	}
	helper.join();
	CHECK(done == 64);
	CHECK(wrong == 0);
	CHECK(host.reserved == 0);
	CHECK(host.accounts == 0);
}

TEST_CASE("A long sort stops", "[work_scope]") {
	Host host;
	host.cancel_at = 10;
	TestScope scope(host);
	std::vector<int> numbers(1 << 20);
	for (size_t i = 0; i < numbers.size(); i++) {
		numbers[i] = int(i * 2654435761u % 1000003);
	}
	CHECK_THROWS_AS(PolledSort(numbers.begin(), numbers.end(), std::less<int>()), Cancelled);
	CHECK(host.checks == 10);
}

//===----------------------------------------------------------------------===//
// Every function of the engine, stopped anywhere
//===----------------------------------------------------------------------===//
namespace {

void AddRow(GeometryBatch &batch, GeometryType type, const std::vector<Vec2> &points) {
	batch.BeginRow(type, VERTEX_XY);
	batch.BeginNode(type, 0);
	batch.BeginPart(FamilyOf(type));
	batch.BeginRing();
	for (auto &p : points) {
		batch.AddVertex(p.x, p.y, 0, 0);
	}
	batch.EndRow();
}

//! A line, and a polygon that crosses itself everywhere
GeometryBatch Tangle(size_t vertices, GeometryType type, unsigned seed) {
	std::mt19937 random(seed);
	std::uniform_real_distribution<double> place(0, 1);
	std::vector<Vec2> points;
	for (size_t i = 0; i < vertices; i++) {
		points.push_back(Vec2 {place(random), place(random)});
	}
	if (type == GeometryType::POLYGON) {
		points.push_back(points[0]);
	}
	GeometryBatch batch;
	AddRow(batch, type, points);
	return batch;
}

//! A valid polygon with a rough border
GeometryBatch Star(size_t vertices, double size) {
	std::vector<Vec2> points;
	for (size_t i = 0; i < vertices; i++) {
		const double angle = 6.283185307179586 * double(i) / double(vertices), reach = size * (i % 2 ? 0.9 : 1);
		points.push_back(Vec2 {reach * std::cos(angle), reach * std::sin(angle)});
	}
	points.push_back(points[0]);
	GeometryBatch batch;
	AddRow(batch, GeometryType::POLYGON, points);
	return batch;
}

//! Runs `work`, in which no CHECK may catch what stops it, with every limit on checks, then on memory, that stops it. It ends when asked, and leaves nothing behind.
template <class WORK>
void StopAnywhere(WORK &&work) {
	Host all;
	{
		TestScope scope(all);
		work();
	}
	CHECK(all.checks > 2);
	CHECK(all.reserved == 0);
	CHECK(all.accounts == 0);
	constexpr size_t TRIES = 12;
	for (size_t i = 1; i <= TRIES; i++) {
		Host host;
		host.cancel_at = std::max<size_t>(1, all.checks * i / (TRIES + 1));
		{
			TestScope scope(host);
			CHECK_THROWS_AS(work(), Cancelled);
		}
		CHECK(host.checks == host.cancel_at);
		CHECK(host.reserved == 0);
		CHECK(host.accounts == 0);
	}
	for (size_t i = 0; i < TRIES && all.reservations > 0; i++) {
		Host host;
		host.limit = all.most * i / TRIES;
		{
			TestScope scope(host);
			CHECK_THROWS_AS(work(), NoMemory);
		}
		CHECK(host.most <= host.limit);
		CHECK(host.reserved == 0);
		CHECK(host.accounts == 0);
	}
}

} // namespace

TEST_CASE("Functions of one geometry stop anywhere", "[work_scope]") {
	Serial serial;
	const auto line = Tangle(600, GeometryType::LINESTRING, 1);
	const auto tangle = Tangle(400, GeometryType::POLYGON, 2);
	const auto star = Star(20000, 1);
	SECTION("nodes") {
		StopAnywhere([&] {
			Overlay overlay;
			GeometryBatch out;
			NodeLines(line, 0, overlay, serial, out);
		});
	}
	SECTION("make valid") {
		StopAnywhere([&] {
			Overlay overlay;
			GeometryBatch out;
			MakeValid(tangle, 0, overlay, serial, out);
		});
	}
	SECTION("buffer") {
		StopAnywhere([&] {
			Overlay overlay;
			GeometryBatch out;
			Buffer(line, 0, 0.001, BufferStyle(), overlay, serial, out);
		});
	}
	SECTION("precision") {
		StopAnywhere([&] {
			Overlay overlay;
			GeometryBatch out;
			ReducePrecision(star, 0, 0.001, overlay, serial, out);
		});
	}
	SECTION("hull") {
		StopAnywhere([&] {
			GeometryBatch out;
			ConvexHull(star, 0, out);
		});
	}
	SECTION("simplify") {
		StopAnywhere([&] {
			GeometryBatch out;
			Simplify(star, 0, 0.00001, out);
		});
	}
	SECTION("validity") {
		StopAnywhere([&] {
			const bool valid = IsValid(star, 0);
			CHECK(valid);
		});
	}
	SECTION("simplicity") {
		StopAnywhere([&] {
			const bool simple = IsSimple(star, 0);
			CHECK(simple);
		});
	}
	SECTION("GeoJSON") {
		StopAnywhere([&] {
			const auto text = WriteGeoJson(star, 0);
			GeometryBatch out;
			ReadGeoJson(text.data(), text.size(), out);
		});
	}
	SECTION("WKB") {
		const auto wkb = WriteWkb(Star(400000, 1), 0);
		StopAnywhere([&] {
			GeometryBatch out;
			ReadWkb(reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size(), out);
		});
	}
}

TEST_CASE("Functions of two geometries stop anywhere", "[work_scope]") {
	const auto left = Tangle(1000, GeometryType::LINESTRING, 3);
	const auto right = Tangle(1000, GeometryType::LINESTRING, 4);
	SECTION("relate") {
		StopAnywhere([&] {
			Shape a, b;
			RelateScratch scratch;
			a.Build(left.View(0));
			b.Build(right.View(0));
			const auto matrix = Relate(a.View(), b.View(), scratch);
			CHECK(MatrixToString(matrix) == "0F1FF0102");
		});
	}
	SECTION("overlay") {
		Serial serial;
		const auto ring = Tangle(300, GeometryType::POLYGON, 5);
		StopAnywhere([&] {
			Overlay overlay;
			GeometryBatch out;
			overlay.Add(Overlay::LEFT, ring, 0);
			overlay.Add(Overlay::RIGHT, left, 0);
			OverlayRule rule;
			rule.op = OverlayOp::DIFFERENCE;
			overlay.Run(rule, serial, out);
		});
	}
	SECTION("intersects") {
		const auto inner = Star(20000, 1), outer = Star(20000, 1.2);
		Shape a, b;
		a.Build(outer.View(0));
		std::vector<Vec2> around;
		for (size_t i = 0; i < inner.x.size(); i++) {
			around.push_back(Vec2 {inner.x[i] * 1.25, inner.y[i] * 1.25});
		}
		GeometryBatch line;
		AddRow(line, GeometryType::LINESTRING, around);
		StopAnywhere([&] {
			Shape c;
			c.Build(line.View(0));
			RelateScratch scratch;
			Evaluate(vibe::PREDICATE_INTERSECTS, a.View(), c.View(), scratch);
		});
	}
	SECTION("distance") {
		// Every pair of vertices is about as close as the nearest
		const auto inner = Star(20000, 1), outer = Star(20000, 2);
		Shape a, b;
		a.Build(inner.View(0));
		GeometryBatch line;
		std::vector<Vec2> around;
		for (size_t i = 0; i < outer.x.size(); i++) {
			around.push_back(Vec2 {outer.x[i], outer.y[i]});
		}
		AddRow(line, GeometryType::LINESTRING, around);
		b.Build(line.View(0));
		const auto expected = vibe::ShapeDistance(a.View(), b.View(), -1);
		StopAnywhere([&] {
			const auto distance = vibespatial::ShapeDistance(a.View(), b.View(), -1);
			CHECK(distance == expected);
		});
	}
}
