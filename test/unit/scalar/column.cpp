// A function over the rows of a batch, with the kernels of the device run on the host, and with faults.
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/overlay.hpp"
#include "engine/gpu/machine/scalar.hpp"
#include "engine/measure/measure.hpp"
#include "engine/overlay/overlay.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/relate/relate.hpp"
#include "engine/scalar/column.hpp"
#include "engine/scalar/overlay_batch.hpp"
#include "geometry/wkb.hpp"
#include "three_threads.hpp"
#include "wkb_bytes.hpp"

#include <atomic>
#include <cmath>
#include <random>

using namespace vibespatial;
using wkb_test::Wkb;

namespace {

enum class Fault : uint8_t {
	NONE,
	NEW,        // no batch on the device
	KERNELS,    // no kernels
	BEGIN,      // fails at the start
	FINISH,     // fails at the end
	NO_ROOM,    // has memory for few rows at a time
	NEVER_ROOM, // has memory for none
	SECOND      // has memory for few rows, and fails with the second piece
};

//! Overlays are sent in several pieces
std::atomic<size_t> overlays_begun {0};

std::unique_ptr<GpuScalarBatch> HostBatch(const ScalarTask &task) {
	auto machine = std::make_unique<host_cuda::Machine>();
	if (!task.IsOverlay()) {
		return MakeScalarBatch(std::move(machine), task);
	}
	return MakeOverlayBatch(
	    task,
	    [](const OverlayNet &net, Parallel &parallel) {
		    overlays_begun++;
		    return std::make_unique<GpuOverlay>(std::make_unique<host_cuda::Machine>(), net, parallel);
	    },
	    [](const std::function<void(Parallel &)> &work) {
		    ThreeThreads three;
		    work(three);
	    },
	    500);
}

struct FakeBatch : GpuScalarBatch {
	FakeBatch(const ScalarTask &task, Fault fault) : fault(fault), batch(HostBatch(task)) {
	}
	uint8_t *Block(bool left, size_t number) override {
		return batch->Block(left, number);
	}
	uint64_t HostBytes() const override {
		return batch->HostBytes();
	}
	void Begin(const ScalarInput &input) override {
		begun++;
		if (fault == Fault::BEGIN || (fault == Fault::SECOND && begun > 2)) {
			throw GpuError("begin");
		}
		if (fault == Fault::NEVER_ROOM || ((fault == Fault::NO_ROOM || fault == Fault::SECOND) && input.count > 40)) {
			throw GpuMemoryError("begin");
		}
		batch->Begin(input);
	}
	const ScalarResult &Finish() override {
		if (fault == Fault::FINISH) {
			throw GpuError("finish");
		}
		return batch->Finish();
	}
	const Fault fault;
	const std::unique_ptr<GpuScalarBatch> batch;
	int begun = 0;
};

struct Host : ScalarHost {
	explicit Host(Fault fault) : fault(fault) {
	}
	void Poll() override {
		polls++;
	}
	bool IsActive() const override {
		return active;
	}
	void WaitForKernels(const std::vector<std::string> &names) override {
		kernels.insert(kernels.end(), names.begin(), names.end());
		if (fault == Fault::KERNELS) {
			throw GpuError("kernels");
		}
	}
	std::unique_ptr<GpuScalarBatch> NewDeviceBatch(const ScalarTask &task) override {
		if (fault == Fault::NEW) {
			throw GpuError("new");
		}
		return std::make_unique<FakeBatch>(task, fault);
	}
	void DeviceFailed(const GpuError &) override {
		active = false;
		failures++;
	}
	void DeviceFinished(size_t done, size_t left, std::chrono::system_clock::time_point begin,
	                    const GpuTimes &) override {
		CHECK(begin.time_since_epoch().count() > 0);
		rows += done;
		open += left;
	}
	void LackedMemory(size_t some) override {
		lacks++;
		lacked += some;
	}
	const Fault fault;
	bool active = true;
	size_t polls = 0, failures = 0, rows = 0, open = 0, lacks = 0, lacked = 0;
	std::vector<std::string> kernels;
};

JoinRow RowOf(const std::string &wkb) {
	return JoinRow {wkb.empty() ? nullptr : reinterpret_cast<const uint8_t *>(wkb.data()),
	                static_cast<uint32_t>(wkb.size())};
}

std::string Square(double x, double y, double side) {
	return Wkb()
	    .Header(GeometryType::POLYGON)
	    .Count(1)
	    .Count(5)
	    .Doubles({x, y, x + side, y, x + side, y + side, x, y + side, x, y})
	    .bytes;
}

//! Squares, NULLs, points, a collection, and rows that are damaged
std::vector<std::string> SomeRows(unsigned seed) {
	std::mt19937 random(seed);
	std::vector<std::string> rows;
	for (int i = 0; i < 300; i++) {
		const double x = random() % 5, y = random() % 5;
		switch (random() % 12) {
		case 0:
			rows.emplace_back();
			break;
		case 1:
			rows.push_back(Wkb().Header(GeometryType::POINT).Doubles({x, y}).bytes);
			break;
		case 2:
			rows.push_back(Wkb().Header(GeometryType::GEOMETRYCOLLECTION).Count(1).Append(Square(x, y, 1)).bytes);
			break;
		case 3:
			rows.push_back(Square(x, y, 1).substr(0, 30));
			break;
		default:
			rows.push_back(Square(x, y, 1 + random() % 2));
		}
	}
	return rows;
}

const Fault FAULTS[] = {Fault::NONE,   Fault::NEW,     Fault::KERNELS,    Fault::BEGIN,
                        Fault::FINISH, Fault::NO_ROOM, Fault::NEVER_ROOM, Fault::SECOND};

} // namespace

TEST_CASE("scalar column: every row has a result or is left to the CPU", "[scalar]") {
	const auto lefts = SomeRows(1), rights = SomeRows(2);
	ScalarTask task;
	task.kind = ScalarTask::RELATE;
	GeometryBatch batch;
	RelateScratch scratch;
	for (auto fault : FAULTS) {
		for (int constant = 0; constant < 3; constant++) {
			INFO("fault " << static_cast<int>(fault) << ", constant " << constant);
			Host host(fault);
			ScalarColumn column(host, task, constant == 1, constant == 2);
			const std::string one = Square(1.5, 1.5, 2);
			// A batch that is used again is as new
			for (int round = 0; round < 2; round++) {
				column.Clear();
				if (constant > 0) {
					column.SetConstant(constant == 1, RowOf(one));
				}
				for (size_t i = 0; i < lefts.size(); i++) {
					column.AddPair(RowOf(constant == 1 ? one : lefts[i]), RowOf(constant == 2 ? one : rights[i]),
					               nullptr);
				}
				REQUIRE(column.Count() == lefts.size());
				CHECK(column.HostBytes() > 0);
				column.Launch();
				const auto left_rows = column.Finish();
				REQUIRE(std::is_sorted(left_rows.begin(), left_rows.end()));
				size_t next = 0, answered = 0, holding = 0;
				for (size_t i = 0; i < lefts.size(); i++) {
					const auto &a = constant == 1 ? one : lefts[i], &b = constant == 2 ? one : rights[i];
					REQUIRE(column.IsNull(i) == (a.empty() || b.empty()));
					if (next < left_rows.size() && left_rows[next] == i) {
						REQUIRE_FALSE(column.IsNull(i));
						next++;
						continue;
					}
					if (column.IsNull(i)) {
						continue;
					}
					Shape shapes[2];
					BuildShape(RowOf(a).data, RowOf(a).size, batch, shapes[0]);
					BuildShape(RowOf(b).data, RowOf(b).size, batch, shapes[1]);
					const bool expected = Evaluate(task.predicate, shapes[0].View(), shapes[1].View(), scratch);
					REQUIRE(column.Answers()[i] == static_cast<uint8_t>(expected));
					answered++;
					holding += expected;
				}
				REQUIRE(next == left_rows.size());
				const bool works = fault == Fault::NONE || fault == Fault::NO_ROOM;
				CHECK((answered > 0) == (works || (fault == Fault::SECOND && round == 0 && answered > 0)));
				CHECK((holding > 0 || !works));
			}
			const bool fails =
			    fault == Fault::NEW || fault == Fault::KERNELS || fault == Fault::BEGIN || fault == Fault::FINISH;
			if (fault == Fault::NONE) {
				// Once, although there are two batches
				CHECK(host.kernels == std::vector<std::string> {"wkb_codec", "polygon_predicates",
				                                                "multipoint_binary_relations", "segment_distance"});
			}
			CHECK((host.failures > 0) == (fails || fault == Fault::SECOND));
			CHECK((host.lacks > 0) == (fault == Fault::NEVER_ROOM));
			CHECK((host.lacked > 0) == (fault == Fault::NEVER_ROOM));
			CHECK((host.polls > 0) ==
			      (fault == Fault::NO_ROOM || fault == Fault::NEVER_ROOM || fault == Fault::SECOND));
			if (fault == Fault::NONE) {
				CHECK(host.rows == 2 * lefts.size());
				CHECK(host.open > 0);
			}
		}
	}
}

TEST_CASE("scalar column: numbers and geometries, and those of the CPU among them", "[scalar]") {
	const auto rows = SomeRows(3);
	for (auto kind : {ScalarTask::AREA, ScalarTask::FLIP}) {
		ScalarTask task;
		task.kind = kind;
		Host host(Fault::NO_ROOM);
		ScalarColumn column(host, task, false, false);
		for (auto &row : rows) {
			column.AddRow(RowOf(row));
		}
		column.Launch();
		const auto left_rows = column.Finish();
		REQUIRE_FALSE(left_rows.empty());
		const std::string mine = "mine";
		for (auto row : left_rows) {
			if (kind == ScalarTask::AREA) {
				column.SetNumber(row, -1);
			} else {
				column.SetGeometry(row, reinterpret_cast<const uint8_t *>(mine.data()), mine.size());
			}
		}
		column.SetNull(left_rows[0]);
		CHECK(column.IsNull(left_rows[0]));
		size_t squares = 0;
		for (size_t i = 0; i < rows.size(); i++) {
			const bool was_left = std::binary_search(left_rows.begin(), left_rows.end(), static_cast<uint32_t>(i));
			if (column.IsNull(i)) {
				continue;
			}
			if (kind == ScalarTask::AREA) {
				const double area = column.Numbers()[i];
				REQUIRE(area == (was_left ? -1 : rows[i].size() == 21 ? 0 : area == 4 ? 4 : 1));
				squares += area > 0;
			} else {
				const auto wkb = column.Geometry(i);
				const std::string bytes(reinterpret_cast<const char *>(wkb.data), wkb.size);
				REQUIRE((bytes == mine) == was_left);
				if (!was_left) {
					// x and y of the first vertex have changed places
					const size_t at = rows[i].size() == 21 ? 5 : 13;
					REQUIRE(bytes.size() == rows[i].size());
					REQUIRE(bytes.substr(at, 8) == rows[i].substr(at + 8, 8));
					REQUIRE(bytes.substr(at + 8, 8) == rows[i].substr(at, 8));
					squares++;
				}
			}
		}
		CHECK(squares > 100);
	}
}

TEST_CASE("scalar column: overlays of polygons, and pairs that are left to the CPU", "[scalar]") {
	const auto lefts = SomeRows(4), rights = SomeRows(5);
	// Too large for the kernels of other functions, and for a block
	std::string large = Wkb().Header(GeometryType::POLYGON).Count(1).Count(4001).bytes, huge;
	Wkb circle;
	for (int i = 0; i <= 4000; i++) {
		circle.Doubles(
		    {2 + std::cos(i % 4000 * 1.5707963267948966e-3), 2 + std::sin(i % 4000 * 1.5707963267948966e-3)});
	}
	large += circle.bytes;
	huge = Wkb().Header(GeometryType::POLYGON).Count(1).Count(80001).bytes;
	for (int i = 0; i < 20; i++) {
		huge += circle.bytes.substr(0, 4000 * 16);
	}
	huge += circle.bytes.substr(0, 16);
	REQUIRE(huge.size() > ShapeRows::BLOCK_BYTES);
	const auto square = Square(1, 1, 2);
	for (auto kind : {ScalarTask::OVERLAY, ScalarTask::OVERLAY_AREA}) {
		for (auto fault : FAULTS) {
			for (int constant = 0; constant < 3; constant++) {
				ScalarTask task;
				task.kind = kind;
				task.overlay = vibe::NetRule {vibe::NetRule::UNION, kind == ScalarTask::OVERLAY_AREA ? 1u : 0u};
				Host host(fault);
				ScalarColumn column(host, task, constant == 1, constant == 2);
				if (constant > 0) {
					column.SetConstant(constant == 1, RowOf(square));
				}
				auto left = lefts, right = rights;
				left[7] = large;
				right[7] = square;
				left[8] = square;
				right[8] = huge;
				for (size_t i = 0; i < left.size(); i++) {
					left[i] = constant == 1 ? square : left[i];
					right[i] = constant == 2 ? square : right[i];
					column.AddPair(RowOf(left[i]), RowOf(right[i]), nullptr);
				}
				CHECK_FALSE(column.ArePoints());
				overlays_begun = 0;
				column.Launch();
				const auto left_rows = column.Finish();
				size_t computed = 0;
				GeometryBatch batch;
				for (size_t i = 0; i < left.size(); i++) {
					REQUIRE(column.IsNull(i) == (left[i].empty() || right[i].empty()));
					const bool was_left =
					    std::binary_search(left_rows.begin(), left_rows.end(), static_cast<uint32_t>(i));
					if (was_left || column.IsNull(i)) {
						continue;
					}
					Overlay overlay;
					overlay.AddWkb(Overlay::LEFT, RowOf(left[i]).data, left[i].size());
					overlay.AddWkb(Overlay::RIGHT, RowOf(right[i]).data, right[i].size());
					OverlayRule rule;
					Serial serial;
					batch.Clear();
					overlay.Run(rule, serial, batch);
					if (kind == ScalarTask::OVERLAY) {
						const auto wkb = column.Geometry(i);
						REQUIRE(std::string(reinterpret_cast<const char *>(wkb.data), wkb.size) == WriteWkb(batch, 0));
					} else {
						REQUIRE(column.Numbers()[i] == Area(batch.View(0)));
					}
					computed++;
				}
				const bool works = fault == Fault::NONE || fault == Fault::NO_ROOM;
				CHECK((computed > 100 || !works));
				CHECK((overlays_begun > 2) == (computed > 0));
				CHECK((constant == 0 || fault != Fault::NONE || column.Bytes() > left.size() * square.size()));
				CHECK((computed == 0 || works || fault == Fault::SECOND));
				// Points, collections and rows that are damaged
				CHECK(left_rows.size() > 40);
				if (works && constant == 0) {
					CHECK_FALSE(std::binary_search(left_rows.begin(), left_rows.end(), 7u));
					CHECK(std::binary_search(left_rows.begin(), left_rows.end(), 8u));
				}
			}
		}
	}
}

TEST_CASE("scalar column: a row without a tolerance is NULL, and one that is none is for the CPU", "[scalar]") {
	const auto line = Wkb().Header(GeometryType::LINESTRING).Count(3).Doubles({0, 0, 1, 0.5, 2, 0}).bytes;
	const auto short_line = Wkb().Header(GeometryType::LINESTRING).Count(2).Doubles({0, 0, 2, 0}).bytes;
	ScalarTask task;
	task.kind = ScalarTask::SIMPLIFY;
	Host host(Fault::NONE);
	ScalarColumn column(host, task, false, false);
	const double tolerances[] = {0, 1, -1, wkb_test::NaN, wkb_test::INF, -0.0};
	// A batch that is used again is as new
	for (int round = 0; round < 2; round++) {
		column.Clear();
		for (auto &tolerance : tolerances) {
			column.AddRow(RowOf(line), &tolerance);
		}
		column.AddRow(RowOf(line), nullptr);
		column.AddRow(RowOf(std::string()), tolerances);
		column.Launch();
		CHECK(column.Finish() == std::vector<uint32_t> {2, 3});
		for (size_t row = 0; row < column.Count(); row++) {
			INFO(row);
			CHECK(column.IsNull(row) == (row > 5));
		}
		for (const size_t row : {0, 1, 4, 5}) {
			INFO(row);
			const auto found = column.Geometry(row);
			CHECK(std::string(reinterpret_cast<const char *>(found.data), found.size) ==
			      (row == 1 || row == 4 ? short_line : line));
		}
	}
}
