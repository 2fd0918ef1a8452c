#include "engine/dispatch/thresholds.hpp"
#include "engine/join/session/forecast.hpp"

#include "catch.hpp"

#include "engine/join/tuning.hpp"
#include "geometry/wkb.hpp"
#include "three_threads.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <cstring>

using namespace vibespatial;

namespace {

struct Rows {
	std::vector<std::string> wkb;
	JoinRows rows;

	void Add(const std::string &bytes) {
		wkb.push_back(bytes);
	}
	void AddText(const std::string &text) {
		GeometryBatch batch;
		wkt_test::ReadWkt(text, batch);
		Add(WriteWkb(batch, 0));
	}
	const JoinRows &Get() {
		rows.clear();
		for (auto &bytes : wkb) {
			rows.push_back(
			    JoinRow {reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<uint32_t>(bytes.size())});
		}
		return rows;
	}
	JoinInput Input() {
		Get();
		JoinInput input;
		input.rows = rows.data();
		input.count = rows.size();
		for (auto &row : rows) {
			input.bytes += row.size;
		}
		return input;
	}
};

std::string Square(size_t x, size_t size) {
	const auto a = std::to_string(x), b = std::to_string(x + size), c = std::to_string(size);
	return "POLYGON ((" + a + " 0, " + b + " 0, " + b + " " + c + ", " + a + " " + c + ", " + a + " 0))";
}

JoinCondition Touches() {
	JoinCondition condition;
	condition.any_of.push_back(JoinTerm {JoinTerm::RELATE, vibe::PREDICATE_TOUCHES, false});
	return condition;
}

//! So many threads as far as the forecast is told
struct Host : JoinHost {
	explicit Host(size_t threads) : threads(threads) {
	}
	void Poll() override {
	}
	size_t Threads() const override {
		return threads;
	}
	void Run(const std::function<void(Parallel &)> &work) override {
		ThreeThreads three;
		work(three);
	}
	void Invite(const std::shared_ptr<SharedWork> &) override {
	}
	std::unique_ptr<TilePayload> NewPayload() override {
		return nullptr;
	}
	bool DeviceIsStarting() override {
		return false;
	}
	void WaitForDevice() override {
	}
	void WaitForKernels(const std::vector<std::string> &) override {
	}
	void TileFinished(std::chrono::system_clock::time_point, const GpuTimes &) override {
	}
	void DeviceFailed(const std::string &) override {
	}
	void LeftToCpu(size_t, const char *, const char *) override {
	}

	const size_t threads;
};

std::unique_ptr<JoinIndex> IndexOf(Rows &build, const JoinCondition &condition = Touches()) {
	Serial serial;
	auto index = std::make_unique<JoinIndex>(condition, build.Get(), std::vector<double>(), 1, [] {});
	index->Build(serial);
	return index;
}

//! The shortest of several: other work of the machine only adds
Forecast Shortest(Host &host, JoinIndex &index, const JoinInput &rows, const ForecastInput &input) {
	Forecast shortest;
	REQUIRE(ForecastJoin(host, index, rows, input, shortest));
	for (int i = 0; i < 9; i++) {
		Forecast next;
		REQUIRE(ForecastJoin(host, index, rows, input, next));
		shortest = next.cpu_ms < shortest.cpu_ms ? next : shortest;
	}
	return shortest;
}

} // namespace

TEST_CASE("forecast: more work takes longer, and more threads less", "[join]") {
	Rows build, few, many;
	for (size_t i = 0; i < 2000; i++) {
		build.AddText(Square(2 * i, 1));
	}
	for (size_t i = 0; i < 100; i++) {
		few.AddText(Square(2 * i, 1));
		many.AddText(Square(i, 4000));
	}
	Host host(1);
	auto index = IndexOf(build);
	ForecastInput input;
	input.probe_rows = 100000;
	input.build_bytes = 1000000;
	const auto light = Shortest(host, *index, few.Input(), input), heavy = Shortest(host, *index, many.Input(), input);
	CHECK(light.cpu_ms > 0);
	CHECK(heavy.cpu_ms > 20 * light.cpu_ms);
	// The device must take in the bytes of both sides, whatever the work is
	CHECK(heavy.gpu_from_ms == light.gpu_from_ms);
	CHECK(light.gpu_from_ms ==
	      Approx(Thresholds::DEVICE_MS + (100000.0 * 93 + 1000000) / Thresholds::DEVICE_BYTES_PER_MS));
	Host eight(8);
	CHECK(Shortest(eight, *index, many.Input(), input).cpu_ms < heavy.cpu_ms / 3);
	input.probe_rows *= 10;
	CHECK(Shortest(host, *index, many.Input(), input).cpu_ms > 4 * heavy.cpu_ms);
}

namespace {

//! A host of one thread, with a clock that counts the work: that of a row before its polls, and what a poll stands for
struct CountingHost : Host {
	CountingHost() : Host(1) {
	}
	void Poll() override {
		now += 0.02;
	}
	void Run(const std::function<void(Parallel &)> &work) override {
		Serial serial;
		work(serial);
	}
	std::function<double()> Clock() {
		return [this] { return now += 0.001; };
	}

	double now = 0;
};

} // namespace

TEST_CASE("forecast: one huge row says nothing about the others", "[join]") {
	Rows build, small, mixed, huge;
	for (size_t i = 0; i < 20000; i++) {
		build.AddText(Square(2 * i, 1));
	}
	for (size_t i = 0; i < 320; i++) {
		small.AddText(Square(2 * i, 1));
		mixed.AddText(Square(2 * i, i == 2 ? 40000 : 1)); // the first of the sample
		huge.AddText(Square(2 * i, 39000));
	}
	auto index = IndexOf(build);
	const auto forecast = [&](Rows &rows, CountingHost &host) {
		ForecastInput input;
		input.probe_rows = 320;
		input.now_ms = host.Clock();
		Forecast result;
		REQUIRE(ForecastJoin(host, *index, rows.Input(), input, result));
		return result.cpu_ms;
	};
	CountingHost first, second, third;
	const double without = forecast(small, first);
	CHECK(forecast(mixed, second) == Approx(without));
	CHECK(second.now < 2 * join_tuning::FORECAST_MS);
	// Where all are huge, some have their parts of the time, and all candidates count: a poll for 60 of 20000
	const double all = forecast(huge, third);
	CHECK(third.now < 2 * join_tuning::FORECAST_MS);
	CHECK(all / 320 > 3);
	CHECK(all / 320 < 15);
}

TEST_CASE("forecast: a row of many vertices is looked at last", "[join]") {
	Rows build, rows;
	for (size_t i = 0; i < 100; i++) {
		build.AddText(Square(2 * i, 1));
	}
	std::string wave = "LINESTRING (";
	for (int i = 0; i < 20000; i++) {
		wave += std::to_string(i % 300) + " " + std::to_string(i % 7 + 10) + ", ";
	}
	wave += "0 0)";
	for (size_t i = 0; i < 64; i++) {
		rows.AddText(i == 0 ? wave : Square(2 * i, 1));
	}
	auto index = IndexOf(build);
	CountingHost host;
	ForecastInput input;
	input.probe_rows = 64;
	input.now_ms = host.Clock();
	Forecast result;
	REQUIRE(ForecastJoin(host, *index, rows.Input(), input, result));
	// One step of the clock a row; the wave is among those that are dropped
	CHECK(result.cpu_ms == Approx(64 * 0.001));
}

TEST_CASE("forecast: pairs that only a device looks at count against it", "[join]") {
	// Each row meets all of them, and one is enough
	Rows build, rows;
	for (size_t i = 0; i < 3000; i++) {
		build.AddText(Square(0, 10 + i));
	}
	for (size_t i = 0; i < 64; i++) {
		rows.AddText(Square(1, 2));
	}
	JoinCondition condition;
	condition.any_of.push_back(JoinTerm {JoinTerm::RELATE, vibe::PREDICATE_INTERSECTS, false});
	auto index = IndexOf(build, condition);
	Host host(1);
	ForecastInput input;
	input.probe_rows = 20000;
	Forecast all, first;
	REQUIRE(ForecastJoin(host, *index, rows.Input(), input, all));
	input.first_only = true;
	REQUIRE(ForecastJoin(host, *index, rows.Input(), input, first));
	REQUIRE(all.gpu_from_ms == Approx(Thresholds::DEVICE_MS + 20000.0 * 93 / Thresholds::DEVICE_BYTES_PER_MS));
	CHECK(first.cpu_ms < all.cpu_ms / 2);
	REQUIRE(first.cpu_ms > all.gpu_from_ms);
	CHECK(first.gpu_from_ms > all.gpu_from_ms + 0.2 * (all.cpu_ms - first.cpu_ms));
	CHECK(first.gpu_from_ms < all.gpu_from_ms + all.cpu_ms);
}

TEST_CASE("forecast: joins by distance count twice", "[join]") {
	Rows build, rows;
	build.AddText(Square(0, 1));
	rows.AddText(Square(100, 1));
	JoinCondition near;
	near.any_of.push_back(JoinTerm {JoinTerm::DISTANCE, vibe::Predicate(), false});
	near.limit_from = JoinLimit::CONSTANT;
	near.limit = 1;
	auto index = IndexOf(build, near);
	CountingHost host;
	ForecastInput input;
	input.probe_rows = 10;
	input.now_ms = host.Clock();
	Forecast result;
	REQUIRE(ForecastJoin(host, *index, rows.Input(), input, result));
	CHECK(result.cpu_ms == Approx(2 * 10 * 0.001));
}

TEST_CASE("forecast: a row of the build side is prepared once", "[join]") {
	Rows build, rows;
	constexpr size_t POLYGONS = 32, VERTICES = 20000, PROBES = 200000;
	for (size_t i = 0; i < POLYGONS; i++) {
		std::string text = "POLYGON ((";
		const double x = 10.0 * double(i);
		for (size_t k = 0; k < VERTICES; k++) {
			const double angle = 6.283185307179586 * double(k) / double(VERTICES);
			text += std::to_string(x + 4 * std::cos(angle)) + " " + std::to_string(4 * std::sin(angle)) + ", ";
		}
		build.AddText(text + std::to_string(x + 4) + " 0))");
		for (size_t k = 0; k < 2; k++) {
			const auto left = std::to_string(x + double(k) / 4), right = std::to_string(x + double(k) / 4 + 0.1);
			rows.AddText("LINESTRING (" + left + " 3.9, " + right + " 3.95)");
		}
	}
	Host host(1);
	auto index = IndexOf(build);
	ForecastInput input;
	input.probe_rows = PROBES;
	Forecast cold;
	REQUIRE(ForecastJoin(host, *index, rows.Input(), input, cold));
	const auto warm = Shortest(host, *index, rows.Input(), input);
	// Half of the rows of the sample prepare one of 32 polygons. If each row did, it would take more than a second.
	CHECK(cold.cpu_ms > warm.cpu_ms);
	CHECK(cold.cpu_ms < 3 * warm.cpu_ms + 300);
}

TEST_CASE("forecast: none for invalid rows, no rows and large build sides", "[join]") {
	Rows build, invalid, none;
	build.AddText(Square(0, 1));
	invalid.Add(std::string(30, '\x7f'));
	Host host(1);
	auto index = IndexOf(build);
	Forecast forecast;
	CHECK_FALSE(ForecastJoin(host, *index, none.Input(), ForecastInput(), forecast));
	CHECK_FALSE(ForecastJoin(host, *index, invalid.Input(), ForecastInput(), forecast));
	for (size_t i = 0; i <= join_tuning::MAX_FORECAST_BUILD_ROWS; i++) {
		build.Add(build.wkb[0]);
	}
	auto large = IndexOf(build);
	Rows one;
	one.AddText(Square(0, 1));
	CHECK_FALSE(ForecastJoin(host, *large, one.Input(), ForecastInput(), forecast));
}

TEST_CASE("forecast: neighbours", "[join]") {
	Rows right, left;
	for (size_t i = 0; i < 3000; i++) {
		right.AddText(Square(2 * i, 1));
	}
	for (size_t i = 0; i < 100; i++) {
		left.AddText("POINT (" + std::to_string(i) + " 7)");
	}
	KnnIndex index(right.Get());
	Serial serial;
	index.Build(serial);
	const auto &rows = left.Get();
	const std::vector<JoinRow> first_rows(rows.begin(), rows.end());
	auto shortest = [&](uint64_t k, uint64_t left_rows, size_t threads) {
		KnnSearch search(index, k, HUGE_VAL, [] {});
		Forecast least;
		REQUIRE(ForecastNeighbours(search, index, first_rows, left_rows, threads, least));
		for (int i = 0; i < 9; i++) {
			Forecast next;
			REQUIRE(ForecastNeighbours(search, index, first_rows, left_rows, threads, next));
			least.cpu_ms = std::min(least.cpu_ms, next.cpu_ms);
		}
		return least;
	};
	const auto one = shortest(1, 100000, 1);
	CHECK(one.cpu_ms > 0);
	CHECK(one.gpu_from_ms == Approx(Thresholds::DEVICE_MS + (100000.0 * 21 + 3000 * (93 + sizeof(vibe::Box))) /
	                                                            Thresholds::DEVICE_BYTES_PER_MS));
	CHECK(shortest(1000, 100000, 1).cpu_ms > 10 * one.cpu_ms);
	CHECK(shortest(1, 100000, 8).cpu_ms < one.cpu_ms / 3);
	CHECK(shortest(1, 1000000, 1).cpu_ms > 4 * one.cpu_ms);
	// Nothing to go by
	KnnSearch search(index, 1, HUGE_VAL, [] {});
	Forecast unknown;
	CHECK(!ForecastNeighbours(search, index, {}, 100000, 1, unknown));
	GeometryBatch line;
	wkt_test::ReadWkt("LINESTRING (0 0, 1 1)", line);
	auto broken = WriteWkb(line, 0);
	const double nan = std::nan("");
	std::memcpy(&broken[9], &nan, sizeof(nan));
	const std::vector<JoinRow> invalid {
	    JoinRow {reinterpret_cast<const uint8_t *>(broken.data()), static_cast<uint32_t>(broken.size())}};
	CHECK(!ForecastNeighbours(search, index, invalid, 100000, 1, unknown));
}
