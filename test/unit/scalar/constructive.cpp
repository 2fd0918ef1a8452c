// Geometries made of the vertices of others (kernels/constructive.cu), by the chain of a device with its kernels run on the host
#include "constructive_rows.hpp"
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/scalar.hpp"

using namespace vibespatial;
using constructive_test::Compare;

static void CheckBatch(ScalarTask::Kind kind, const std::vector<std::string> &rows, bool backwards) {
	ScalarTask task;
	task.kind = kind;
	const auto batch = MakeScalarBatch(std::make_unique<host_cuda::Machine>(backwards), task);
	const auto compared = Compare(*batch, task, rows);
	CHECK(compared.wrong == 0);
	CHECK(compared.accepted == 0);
	// The device leaves nothing that the CPU does not refuse
	CHECK(compared.sound == 0);
	CHECK(compared.same > rows.size() * 8 / 10);
	CHECK(compared.not_asked > rows.size() / 100);
	CHECK(compared.open > rows.size() / 100);
	CHECK(compared.changed > rows.size() / 2);
	for (auto type : {vibe::WKB_POINT, vibe::WKB_LINESTRING, vibe::WKB_POLYGON}) {
		CHECK(compared.types[type] > rows.size() / 50);
	}
}

TEST_CASE("constructive: hulls are the CPU's, byte by byte", "[scalar]") {
	CheckBatch(ScalarTask::HULL, constructive_test::Rows(1, 40000), false);
	CheckBatch(ScalarTask::HULL, constructive_test::Rows(2, 10000), true);
}

TEST_CASE("constructive: simplified rows are the CPU's, byte by byte", "[scalar]") {
	CheckBatch(ScalarTask::SIMPLIFY, constructive_test::Rows(3, 40000), false);
	CheckBatch(ScalarTask::SIMPLIFY, constructive_test::Rows(4, 10000), true);
}

TEST_CASE("constructive: a batch may have no row, one without bytes, and the most vertices that there are",
          "[scalar]") {
	ScalarTask task;
	task.kind = ScalarTask::HULL;
	const auto batch = MakeScalarBatch(std::make_unique<host_cuda::Machine>(), task);
	ScalarSide side;
	side.BeginShapes();
	side.AddNothing();
	ScalarInput input;
	input.left = &side;
	batch->Begin(input);
	batch->Finish();
	input.count = 1;
	batch->Begin(input);
	const auto &result = batch->Finish();
	CHECK(result.results[0] == vibe::PAIR_FALSE);
	CHECK(result.wkb_begin[1] == 0);

	// All of them corners of a curve, from the last to the first, so that the hull has one vertex more than the line
	constexpr uint32_t MOST = (ShapeRows::MAX_WKB_BYTES - 9) / 16;
	wkb_test::Wkb line;
	line.Header(GeometryType::LINESTRING).Count(MOST);
	for (uint32_t i = MOST; i > 0; i--) {
		line.Doubles({double(i), double(i) * i});
	}
	const std::vector<std::string> rows {line.bytes, line.bytes};
	const auto compared = Compare(*batch, task, rows);
	CHECK(compared.same == 2);
	std::string hull;
	REQUIRE(constructive_test::MakeOnCpu(task, rows[0], 0, hull));
	CHECK(hull.size() == rows[0].size() + 20);
}
