#include "engine/join/shares.hpp"

#include "catch.hpp"

#include "engine/relate/prepared.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "three_threads.hpp"
#include "vibe/distance.h"
#include "wkt_rows.hpp"

#include <climits>
#include <cmath>
#include <random>
#include <set>

using namespace vibespatial;

namespace {

using Pair = std::pair<uint32_t, uint32_t>;

//! Geometries on a small grid of integers, so that they meet in all ways; NULL (no text) and EMPTY among them
std::vector<std::string> RandomRows(uint32_t seed, size_t count, bool points) {
	std::mt19937 random(seed);
	auto at = [&] { return std::to_string(random() % 12); };
	std::vector<std::string> rows;
	for (size_t i = 0; i < count; i++) {
		auto kind = points ? 0 : random() % 8;
		auto x = random() % 10, y = random() % 10, w = 1 + random() % 4, h = 1 + random() % 4;
		auto box = "((" + std::to_string(x) + " " + std::to_string(y) + ", " + std::to_string(x + w) + " " +
		           std::to_string(y) + ", " + std::to_string(x + w) + " " + std::to_string(y + h) + ", " +
		           std::to_string(x) + " " + std::to_string(y + h) + ", " + std::to_string(x) + " " +
		           std::to_string(y) + "))";
		if (random() % 20 == 0) {
			rows.push_back(random() % 2 ? "" : "POINT EMPTY");
		} else if (kind == 0 || kind == 1) {
			rows.push_back("POINT (" + at() + " " + at() + ")");
		} else if (kind == 2) {
			rows.push_back("LINESTRING (" + at() + " " + at() + ", " + at() + " 13)");
		} else if (kind == 3) {
			rows.push_back("MULTIPOLYGON (" + box + ", ((20 20, 22 20, 22 22, 20 20)))");
		} else if (kind == 4) {
			rows.push_back("POLYGON ((1 1, 1 1, 5 1, 5 1, 1 1))");
		} else {
			rows.push_back("POLYGON " + box);
		}
	}
	return rows;
}

struct Rows {
	std::vector<std::string> wkb;
	JoinRows rows;

	explicit Rows(const std::vector<std::string> &texts) {
		for (auto &text : texts) {
			wkb.emplace_back();
			if (!text.empty()) {
				GeometryBatch batch;
				wkt_test::ReadWkt(text, batch);
				wkb.back() = WriteWkb(batch, 0);
			}
		}
		for (auto &bytes : wkb) {
			auto data = reinterpret_cast<const uint8_t *>(bytes.data());
			rows.push_back(JoinRow {bytes.empty() ? nullptr : data, static_cast<uint32_t>(bytes.size())});
		}
	}
};

//! Every pair asked alone
std::set<Pair> AllPairs(const JoinCondition &condition, const Rows &probe, const Rows &build,
                        const std::vector<double> &probe_limits, const std::vector<double> &build_limits) {
	std::set<Pair> result;
	RelateScratch scratch;
	GeometryBatch batch;
	for (uint32_t i = 0; i < probe.rows.size(); i++) {
		for (uint32_t k = 0; k < build.rows.size(); k++) {
			if (!probe.rows[i].data || !build.rows[k].data) {
				continue;
			}
			Shape a, b;
			BuildShape(probe.rows[i].data, probe.rows[i].size, batch, a);
			BuildShape(build.rows[k].data, build.rows[k].size, batch, b);
			double limit = condition.limit_from == JoinLimit::SUM     ? probe_limits[i] + build_limits[k]
			               : condition.limit_from == JoinLimit::PROBE ? probe_limits[i]
			               : condition.limit_from == JoinLimit::BUILD ? build_limits[k]
			                                                          : condition.limit;
			for (auto &term : condition.any_of) {
				bool empty = a.View().dimension < 0 || b.View().dimension < 0;
				double distance = empty ? 0 : vibe::ShapeDistance(a.View(), b.View(), -1);
				bool near = std::isnan(limit)  ? condition.compared
				            : condition.strict ? distance < limit
				                               : distance <= limit;
				bool holds = term.kind == JoinTerm::RELATE  ? Evaluate(term.predicate, a.View(), b.View(), scratch)
				             : term.kind == JoinTerm::BOXES ? a.View().box.Intersects(b.View().box)
				                                            : near && (!empty || term.empty_is_near);
				if (holds) {
					result.insert(Pair(i, k));
				}
			}
		}
	}
	return result;
}

struct Join {
	Rows probe;
	Rows build;
	std::vector<double> probe_limits;
	std::vector<double> build_limits;
	uint64_t expected_points = 0;
	//! When cells are built
	size_t free_memory = SIZE_MAX;
	//! How many requests of the cells for memory are granted
	int grants = INT_MAX;
	int requests = 0;
	bool is_settled = true;
	bool known_before = false;
	bool found_by_cells = false;
	std::string index_text;

	Join(uint32_t seed, bool probe_points, bool build_points)
	    : probe(RandomRows(seed, 150, probe_points)), build(RandomRows(seed + 1000, 90, build_points)) {
		std::mt19937 random(seed);
		for (size_t i = 0; i < probe.rows.size(); i++) {
			probe_limits.push_back(random() % 9 == 0 ? JoinCondition::NO_LIMIT : double(random() % 4));
		}
		for (size_t i = 0; i < build.rows.size(); i++) {
			build_limits.push_back(random() % 9 == 0 ? JoinCondition::NO_LIMIT : double(random() % 3));
		}
	}

	//! In tiles, a few pairs at a time, without repeats, and in order where that is asked for
	std::set<Pair> Run(const JoinCondition &condition, bool ordered, bool first_only = false) {
		bool of_probe = condition.limit_from == JoinLimit::PROBE || condition.limit_from == JoinLimit::SUM;
		bool of_build = condition.limit_from == JoinLimit::BUILD || condition.limit_from == JoinLimit::SUM;
		JoinIndex index(condition, build.rows, of_build ? build_limits : std::vector<double>());
		ThreeThreads threads;
		index.ExpectPoints(known_before ? expected_points : 0);
		index.Build(threads);
		index.ExpectPoints(expected_points);
		std::atomic<int> asked {0};
		index.SetCellMemory({[this] { return free_memory; },
		                     [&](size_t) {
			                     is_settled = false;
			                     return asked++ < grants;
		                     },
		                     [this] { is_settled = true; }});
		std::set<Pair> result;
		JoinProbe prober(index, [] {});
		prober.SetFirstOnly(first_only);
		prober.SetOrdered(ordered);
		for (uint32_t begin = 0; begin < probe.rows.size(); begin += 70) {
			auto size = std::min<size_t>(70, probe.rows.size() - begin);
			prober.Begin(probe.rows.data() + begin, size, of_probe ? probe_limits.data() + begin : nullptr, nullptr);
			uint32_t left[7], right[7];
			Pair last(0, 0);
			bool any = false;
			while (auto count = prober.Next(left, right, 7)) {
				for (size_t i = 0; i < count; i++) {
					Pair pair(begin + left[i], right[i]);
					CHECK((!any || last < pair || !ordered));
					last = pair;
					any = true;
					CHECK(result.insert(pair).second);
				}
			}
			CHECK(prober.Next(left, right, 7) == 0);
		}
		found_by_cells |= prober.counts.cell_hits > 0;
		index_text = index.Describe();
		requests = asked;
		return result;
	}

	void Check(const JoinCondition &condition, bool must_find = true) {
		auto expected = AllPairs(condition, probe, build, probe_limits, build_limits);
		CHECK((!must_find || !expected.empty()));
		CHECK((Run(condition, true) == expected));
		CHECK((Run(condition, false) == expected));
		std::set<uint32_t> rows, first;
		for (auto &pair : expected) {
			rows.insert(pair.first);
		}
		for (auto &pair : Run(condition, false, true)) {
			CHECK(expected.count(pair) == 1);
			CHECK(first.insert(pair.first).second);
		}
		CHECK((rows == first));
	}
};

JoinTerm Relating(vibe::Predicate predicate) {
	return JoinTerm {JoinTerm::RELATE, predicate, false};
}

} // namespace

TEST_CASE("A join finds the pairs that asking about all pairs finds", "[join]") {
	for (uint32_t seed = 0; seed < 6; seed++) {
		Join join(seed, seed % 3 == 1, seed % 3 == 2);
		for (auto predicate : {vibe::PREDICATE_INTERSECTS, vibe::PREDICATE_WITHIN, vibe::PREDICATE_CONTAINS,
		                       vibe::PREDICATE_COVERED_BY, vibe::PREDICATE_TOUCHES, vibe::PREDICATE_EQUALS}) {
			JoinCondition condition;
			condition.any_of = {Relating(predicate)};
			// A point contains no area, and has no boundary to touch another point with
			join.Check(condition, predicate == vibe::PREDICATE_INTERSECTS || predicate == vibe::PREDICATE_EQUALS);
		}
		JoinCondition either;
		either.any_of = {Relating(vibe::PREDICATE_TOUCHES), Relating(vibe::PREDICATE_EQUALS)};
		join.Check(either);
		JoinCondition boxes;
		boxes.any_of = {JoinTerm {JoinTerm::BOXES, vibe::PREDICATE_INTERSECTS, false}};
		join.Check(boxes);
	}
}

TEST_CASE("A join by distance takes its limit from a constant, a side or both", "[join]") {
	for (uint32_t seed = 10; seed < 14; seed++) {
		Join join(seed, seed % 2 == 1, seed % 4 > 1);
		for (auto from : {JoinLimit::CONSTANT, JoinLimit::PROBE, JoinLimit::BUILD, JoinLimit::SUM}) {
			for (bool compared : {false, true}) {
				JoinCondition condition;
				condition.limit_from = from;
				condition.limit = 2;
				condition.compared = compared;
				condition.strict = compared;
				condition.any_of = {JoinTerm {JoinTerm::DISTANCE, vibe::PREDICATE_INTERSECTS, compared}};
				join.Check(condition);
				condition.any_of.push_back(Relating(vibe::PREDICATE_EQUALS));
				join.Check(condition);
			}
		}
	}
}

TEST_CASE("Points that are worth cells find the same pairs in them", "[join]") {
	for (uint32_t seed = 20; seed < 24; seed++) {
		Join join(seed, true, false);
		join.expected_points = 1000000000;
		for (auto predicate : {vibe::PREDICATE_INTERSECTS, vibe::PREDICATE_WITHIN, vibe::PREDICATE_TOUCHES}) {
			JoinCondition condition;
			condition.any_of = {Relating(predicate)};
			join.Check(condition);
		}
		CHECK(join.found_by_cells);
	}
}

TEST_CASE("There are no cells where memory ran short since the join began", "[join]") {
	Join join(20, true, false);
	join.expected_points = 1000000000;
	join.free_memory = 1000;
	JoinCondition condition;
	condition.any_of = {Relating(vibe::PREDICATE_WITHIN)};
	join.Check(condition);
	CHECK_FALSE(join.found_by_cells);
}

TEST_CASE("Cells that are refused memory at any moment leave the pairs to other indexes", "[join]") {
	Join join(20, true, false);
	join.expected_points = 1000000000;
	JoinCondition condition;
	condition.any_of = {Relating(vibe::PREDICATE_WITHIN)};
	const auto expected = join.Run(condition, true);
	REQUIRE(join.found_by_cells);
	const int requests = join.requests;
	REQUIRE(requests > 50); // for shapes, and for the cells
	for (join.grants = 0; join.grants < requests; join.grants++) {
		join.found_by_cells = false;
		CHECK((join.Run(condition, true) == expected));
		CHECK_FALSE(join.found_by_cells);
		CHECK(join.is_settled);
	}
	CHECK((join.Run(condition, true) == expected));
	CHECK(join.found_by_cells);
}

TEST_CASE("Points find areas and lines that are near in cells", "[join]") {
	for (uint32_t seed = 60; seed < 64; seed++) {
		Join join(seed, true, false);
		join.expected_points = 1000000000;
		for (const double limit : {0.0, 0.5, 2.0, 1000.0, 1e300, double(NAN), double(INFINITY), -1.0}) {
			for (bool compared : {false, true}) {
				JoinCondition condition;
				condition.limit_from = JoinLimit::CONSTANT;
				condition.limit = limit;
				condition.compared = compared;
				condition.strict = compared && seed % 2 == 0;
				condition.any_of = {JoinTerm {JoinTerm::DISTANCE, vibe::PREDICATE_INTERSECTS, compared}};
				join.Check(condition, limit >= 0 && (limit > 0 || !condition.strict));
			}
		}
		CHECK(join.found_by_cells);
	}
}

TEST_CASE("Points that are too few for cells find the same pairs by the polygon scan", "[join]") {
	for (uint32_t seed = 50; seed < 54; seed++) {
		Join join(seed, true, false);
		std::vector<std::string> areas;
		for (auto &text : RandomRows(seed, 120, false)) {
			if (text.empty() ||
			    (text.find("POLYGON") != std::string::npos && text.find("1 1, 1 1") == std::string::npos)) {
				areas.push_back(text);
			}
		}
		join.build = Rows(areas);
		join.expected_points = 300;
		join.known_before = seed % 2 == 0;
		for (auto predicate : {vibe::PREDICATE_INTERSECTS, vibe::PREDICATE_WITHIN, vibe::PREDICATE_TOUCHES}) {
			JoinCondition condition;
			condition.any_of = {Relating(predicate)};
			join.Check(condition);
			CHECK(join.index_text.find("polygon scan") != std::string::npos);
		}
	}
}

TEST_CASE("Rows that are done are passed over, and cancelling stops a probe", "[join]") {
	Join join(30, false, false);
	JoinCondition condition;
	condition.any_of = {Relating(vibe::PREDICATE_INTERSECTS)};
	JoinIndex index(condition, join.build.rows, {});
	Serial serial;
	index.Build(serial);
	bool done[150] = {};
	for (int i = 0; i < 150; i += 2) {
		done[i] = true;
	}
	uint32_t left[64], right[64];
	JoinProbe prober(index, [] {});
	prober.Begin(join.probe.rows.data(), 150, nullptr, done);
	size_t found = 0;
	while (auto count = prober.Next(left, right, 64)) {
		for (size_t i = 0; i < count; i++) {
			CHECK(left[i] % 2 == 1);
		}
		found += count;
	}
	CHECK(found > 0);

	// Polls come with work: enough tiles bring one
	struct Cancelled {};
	JoinProbe cancelled(index, [] { throw Cancelled(); });
	auto probe_for_ever = [&] {
		for (int tile = 0; tile < 1000000; tile++) {
			cancelled.Begin(join.probe.rows.data(), 150, nullptr, nullptr);
			while (cancelled.Next(left, right, 64)) {
			}
		}
	};
	CHECK_THROWS_AS(probe_for_ever(), Cancelled);
}

TEST_CASE("Threads that share a tile find what one finds", "[join]") {
	Rows probe(RandomRows(40, 700, false)), build(RandomRows(41, 90, false));
	std::vector<double> limits(probe.rows.size());
	for (size_t i = 0; i < limits.size(); i++) {
		limits[i] = double(i % 40); // the large ones are near everything: more pairs than a share finds at once
	}
	bool done[700];
	for (size_t i = 0; i < 700; i++) {
		done[i] = i % 3 == 0;
	}
	for (bool near : {false, true}) {
		JoinCondition condition;
		condition.any_of = {Relating(vibe::PREDICATE_INTERSECTS)};
		if (near) {
			condition.limit_from = JoinLimit::PROBE;
			condition.any_of = {JoinTerm {JoinTerm::DISTANCE, vibe::PREDICATE_INTERSECTS, false}};
		}
		JoinIndex index(condition, build.rows, {});
		ThreeThreads threads;
		index.Build(threads);
		std::multiset<Pair> expected;
		JoinProbe alone(index, [] {});
		JoinShares together(
		    index, [] {}, [&](const std::function<void(Parallel &)> &work) { work(threads); });
		uint32_t left[300], right[300];
		for (int tile = 0; tile < 2; tile++) { // a second one finds nothing left of the first
			const size_t rows = tile == 0 ? 700 : 300;
			expected.clear();
			alone.Begin(probe.rows.data(), rows, limits.data(), done);
			while (auto count = alone.Next(left, right, 300)) {
				for (size_t i = 0; i < count; i++) {
					expected.insert(Pair(left[i], right[i]));
				}
			}
			CHECK(expected.size() > (near ? rows * 30 : rows));
			together.Begin(probe.rows.data(), rows, limits.data(), done);
			std::multiset<Pair> found;
			while (auto count = together.Next(left, right, 300)) {
				for (size_t i = 0; i < count; i++) {
					found.insert(Pair(left[i], right[i]));
				}
			}
			CHECK((found == expected));
			CHECK(together.Next(left, right, 300) == 0);
		}
		if (near) { // else there are cells after a while
			CHECK(together.Counts().candidates == alone.counts.candidates);
			CHECK(together.Counts().exact_tests == alone.counts.exact_tests);
		}

		std::set<uint32_t> rows_expected, rows_found;
		for (auto &pair : expected) {
			rows_expected.insert(pair.first);
		}
		together.SetFirstOnly(true);
		together.Begin(probe.rows.data(), 300, limits.data(), done);
		while (auto count = together.Next(left, right, 300)) {
			for (size_t i = 0; i < count; i++) {
				CHECK(rows_found.insert(left[i]).second);
			}
		}
		CHECK((rows_found == rows_expected));
	}
	CHECK_FALSE(JoinShares::Pays(10, 1 << 20));
	auto size_of = [](const std::string &text) { return Rows({text}).rows[0].size; };
	CHECK_FALSE(JoinShares::Pays(2048, 2048 * size_of("POINT (1 2)")));
	CHECK(JoinShares::Pays(2048, 2048 * size_of("POLYGON ((0 0, 4 0, 4 4, 0 0))")));
}

TEST_CASE("Unusable geometries are an error on either side", "[join]") {
	Rows good({"POLYGON ((0 0, 4 0, 4 4, 0 0))"});
	Rows bad({"POLYGON ((0 0, 4 0, nan 4, 0 0))"});
	JoinCondition condition;
	condition.any_of = {Relating(vibe::PREDICATE_INTERSECTS)};
	Serial serial;
	CHECK_THROWS_AS(JoinIndex(condition, bad.rows, {}).Build(serial), GeometryError);
	JoinIndex index(condition, good.rows, {});
	index.Build(serial);
	JoinProbe prober(index, [] {});
	prober.Begin(bad.rows.data(), 1, nullptr, nullptr);
	uint32_t left[4], right[4];
	CHECK_THROWS_AS(prober.Next(left, right, 4), GeometryError);
}
