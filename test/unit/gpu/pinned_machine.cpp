// Pinned tables on the host's machine: what a filter keeps, and who makes room for whom
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/join.hpp"
#include "engine/gpu/interface/neighbours.hpp"
#include "engine/gpu/machine/pinned.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <tuple>

using namespace vibespatial;

namespace {

std::unique_ptr<vibespatial::Machine> NewMachine() {
	return std::make_unique<host_cuda::Machine>(true);
}

//! Rows with a number of two bytes and one of eight, some of which are NULL
struct Table {
	explicit Table(size_t count) {
		std::mt19937 random(5);
		for (size_t i = 0; i < count; i++) {
			const auto at = [&] { return double(random() % 1000) / 8; };
			points.push_back(i % 17 == 3 ? vibe::Vec2 {NAN, NAN} : vibe::Vec2 {at(), at() + double(i)});
			small.push_back(static_cast<int16_t>(random() % 200) - 100);
			large.push_back((int64_t(random() % 7) - 3) << 40);
			nulls.push_back(i % 5 == 2 ? 1 : 0);
		}
	}
	void AddTo(GpuPinned &pinned, size_t begin, size_t end) const {
		PinnedInput input;
		input.count = end - begin;
		input.points = points.data() + begin;
		input.columns.push_back({reinterpret_cast<const uint8_t *>(small.data() + begin), nullptr});
		// The first rows have no NULL
		const bool has_nulls = begin > 0;
		input.columns.push_back(
		    {reinterpret_cast<const uint8_t *>(large.data() + begin), has_nulls ? nulls.data() + begin : nullptr});
		pinned.Add(input);
	}
	//! The y of the rows that pass: they differ from row to row
	template <class PASSES>
	std::multiset<double> Passing(size_t first_null, PASSES &&passes) const {
		std::multiset<double> result;
		for (size_t i = 0; i < points.size(); i++) {
			if (points[i].x == points[i].x && passes(small[i], large[i], i >= first_null && nulls[i] != 0)) {
				result.insert(points[i].y);
			}
		}
		return result;
	}

	std::vector<vibe::Vec2> points;
	std::vector<int16_t> small;
	std::vector<int64_t> large;
	std::vector<uint8_t> nulls;
};

std::multiset<double> Read(const PinnedRows &rows, const PinnedTerms &filter) {
	const auto build = std::make_shared<MachineBuild>(NewMachine);
	const auto tile = MakeTile(NewMachine(), build, JoinCondition());
	std::multiset<double> result;
	for (size_t segment = 0; segment < rows.Segments(); segment++) {
		// In two pieces
		const size_t half = rows.Count(segment) / 2;
		for (size_t begin : {size_t(0), half}) {
			GpuTileInput input;
			input.pinned = &rows;
			input.segment = segment;
			input.filter = &filter;
			// A tile may begin within its segment
			input.offset = begin / 2;
			input.first = begin - begin / 2;
			input.count = begin == 0 ? half : rows.Count(segment) - half;
			std::vector<vibe::Vec2> points(input.count);
			tile->ReadPinned(input, points.data());
			for (auto &point : points) {
				if (point.x == point.x) {
					result.insert(point.y);
				}
			}
		}
	}
	return result;
}

PinnedTerm Range(uint32_t column, int64_t low, int64_t high, bool ends_clause = true) {
	PinnedTerm term;
	term.column = column;
	term.low = low;
	term.high = high;
	term.ends_clause = ends_clause;
	return term;
}

std::shared_ptr<GpuPinned> Pin(MachinePins &pins, const Table &table) {
	PinnedLayout layout;
	layout.widths = {2, 8};
	layout.rows = table.points.size() / 2;
	auto pinned = pins.New(NewMachine, layout);
	const size_t count = table.points.size();
	for (size_t begin = 0; begin < count; begin += 3000) {
		table.AddTo(*pinned, begin, std::min(count, begin + 3000));
	}
	CHECK(!pinned->Use());
	GpuTimes times;
	pinned->Finish(nullptr, times);
	CHECK(times.bytes_to_device >= count * (sizeof(vibe::Vec2) + 2 + 8));
	return pinned;
}

} // namespace

TEST_CASE("The device tells which pinned rows pass", "[pin]") {
	const Table table(20000);
	MachinePins pins([] { return uint64_t(1) << 30; });
	const auto pinned = Pin(pins, table);
	const auto rows = pinned->Use();
	const auto reader = pinned->NewReader(rows);
	auto present = Range(1, 0, int64_t(2) << 40);
	auto null = present;
	null.null_passes = true;
	size_t passing = 0;
	for (const auto &filter : {PinnedTerms {Range(0, -50, 10)}, PinnedTerms {Range(0, -50, 10), present},
	                           PinnedTerms {null}, PinnedTerms()}) {
		for (size_t segment = 0; segment < rows->Segments(); segment++) {
			const auto count = rows->Count(segment);
			std::vector<int16_t> small(count);
			std::vector<int64_t> large(count);
			std::vector<uint8_t> small_nulls(count), large_nulls(count), passes(count, 7);
			PinnedOutput output;
			output.segment = segment;
			output.count = count;
			output.columns = {{0, reinterpret_cast<uint8_t *>(small.data()), small_nulls.data()},
			                  {1, reinterpret_cast<uint8_t *>(large.data()), large_nulls.data()}};
			reader->Read(output);
			reader->ReadPassing(segment, filter, passes.data());
			size_t wrong = 0;
			for (size_t i = 0; i < count; i++) {
				bool expected = true;
				for (const auto &term : filter) {
					const bool is_null = term.column == 1 && large_nulls[i] != 0;
					const int64_t value = term.column == 0 ? small[i] : large[i];
					expected = expected && (is_null ? term.null_passes : term.low <= value && value <= term.high);
				}
				wrong += passes[i] != (expected ? 1 : 0);
				passing += passes[i];
			}
			CHECK(wrong == 0);
		}
	}
	CHECK(passing > 20000);
}

TEST_CASE("A filter keeps the pinned rows that SQL keeps", "[pin]") {
	MachinePins pins([] { return uint64_t(0); });
	const Table table(11000);
	const auto pinned = Pin(pins, table);
	const auto rows = pinned->Use();
	REQUIRE(rows);
	CHECK(rows->Segments() >= 3);
	CHECK(pinned->Rows() == table.points.size());
	const size_t first_null = 3000;
	const auto all = [](int16_t, int64_t, bool) { return true; };
	CHECK((Read(*rows, {}) == table.Passing(first_null, all)));
	CHECK((Read(*rows, {Range(0, -20, 35)}) ==
	       table.Passing(first_null, [](int16_t s, int64_t, bool) { return s >= -20 && s <= 35; })));
	// A number that is NULL is in no range
	CHECK((Read(*rows, {Range(1, INT64_MIN, INT64_MAX)}) ==
	       table.Passing(first_null, [](int16_t, int64_t, bool null) { return !null; })));
	auto is_null = Range(1, 1, 0);
	is_null.null_passes = true;
	CHECK((Read(*rows, {is_null}) == table.Passing(first_null, [](int16_t, int64_t, bool null) { return null; })));
	// Two clauses, one of them of two ranges
	const PinnedTerms both {Range(1, -(int64_t(3) << 40), -(int64_t(3) << 40), false),
	                        Range(1, int64_t(1) << 40, INT64_MAX), Range(0, 0, 100)};
	CHECK((Read(*rows, both) == table.Passing(first_null, [](int16_t s, int64_t l, bool null) {
		return !null && (l == -(int64_t(3) << 40) || l >= int64_t(1) << 40) && s >= 0;
	})));
	CHECK_THROWS_AS(Read(*rows, PinnedTerms(vibe::PinnedFilter::MAX_RANGES + 1, Range(0, 0, 1))), GpuError);
}

TEST_CASE("Pinned rows come back as they were added, in the order of the device", "[pin]") {
	MachinePins pins([] { return uint64_t(0); });
	const Table table(11000);
	const auto pinned = Pin(pins, table);
	const auto rows = pinned->Use();
	const auto reader = pinned->NewReader(rows);
	typedef std::tuple<double, int16_t, int64_t, bool> Row;
	std::multiset<Row> read, added;
	uint64_t bytes = 0;
	for (size_t segment = 0; segment < rows->Segments(); segment++) {
		constexpr size_t AT_ONCE = 700;
		for (size_t begin = 0; begin < rows->Count(segment); begin += AT_ONCE) {
			PinnedOutput output;
			output.segment = segment;
			output.begin = begin;
			output.count = std::min(AT_ONCE, rows->Count(segment) - begin);
			std::vector<vibe::Vec2> points(AT_ONCE);
			std::vector<int16_t> small(AT_ONCE);
			std::vector<int64_t> large(AT_ONCE);
			std::vector<uint8_t> small_nulls(AT_ONCE, 7), large_nulls(AT_ONCE, 7);
			output.points = points.data();
			output.columns.push_back({1, reinterpret_cast<uint8_t *>(large.data()), large_nulls.data()});
			output.columns.push_back({0, reinterpret_cast<uint8_t *>(small.data()), small_nulls.data()});
			reader->Read(output);
			bytes += output.count * (sizeof(vibe::Vec2) + 2 + 8);
			for (size_t i = 0; i < output.count; i++) {
				CHECK(small_nulls[i] == 0);
				const double y = points[i].x == points[i].x ? points[i].y : -1;
				read.insert(Row(y, small[i], large[i], large_nulls[i] != 0));
			}
		}
	}
	for (size_t i = 0; i < table.points.size(); i++) {
		const bool has_point = table.points[i].x == table.points[i].x;
		added.insert(
		    Row(has_point ? table.points[i].y : -1, table.small[i], table.large[i], i >= 3000 && table.nulls[i] != 0));
	}
	CHECK((read == added));
	GpuTimes times;
	reader->AddBytes(times);
	// And those of the NULLs
	CHECK(times.bytes_from_device >= bytes);
	CHECK(times.bytes_from_device <= bytes + table.points.size());
}

TEST_CASE("Pinned rows lie along a curve, and take the bytes of their values", "[pin]") {
	MachinePins pins([] { return uint64_t(0); });
	const Table table(4000);
	const auto pinned = Pin(pins, table);
	// The second column has NULLs in the last thousand rows, which lie in segments of their own
	const uint64_t least = table.points.size() * (sizeof(vibe::Vec2) + 2 + 8);
	CHECK(pinned->Bytes() >= least);
	CHECK(pinned->Bytes() <= least + table.points.size());
	const auto rows = std::static_pointer_cast<const MachinePinnedRows>(pinned->Use());
	double steps = 0, unsorted = 0;
	for (auto &segment : rows->segments) {
		for (size_t i = 1; i < segment.count; i++) {
			const double step = std::abs(segment.points.at[i].y - segment.points.at[i - 1].y);
			steps += step == step ? step : 0;
		}
	}
	std::mt19937 random(3);
	for (size_t i = 1; i < 4000; i++) {
		unsorted += std::abs(double(random() % 4000) - double(random() % 4000));
	}
	CHECK(steps < unsorted / 4);
	std::vector<GpuMemoryRow> report;
	pins.Report(report);
	REQUIRE(report.size() == 1);
	CHECK(report[0].bytes == pinned->Bytes());
	CHECK(report[0].count == 1);
}

TEST_CASE("The pinned table that was not used for longest makes room", "[pin]") {
	const Table table(2000);
	uint64_t limit = 0;
	MachinePins pins([&] { return limit; });
	const auto first = Pin(pins, table), second = Pin(pins, table);
	CHECK(first->IsResident());
	first->Use();
	limit = (first->Bytes() + second->Bytes()) * 2;
	const auto third = Pin(pins, table);
	CHECK(first->IsResident());
	CHECK(!second->IsResident());
	CHECK(second->Bytes() == 0);
	CHECK(!second->Use());
	CHECK(second->Rows() == table.points.size());
	// Nobody evicts what is being read
	const auto reading = first->Use();
	CHECK(pins.Free() > 0);
	CHECK(!third->IsResident());
	CHECK(pins.Free() == 0);
	CHECK(first->IsResident());
	// Nothing is left to evict
	limit = first->Bytes();
	CHECK_THROWS_AS(Pin(pins, table), GpuMemoryError);
}

namespace {

//! Points on a small grid, so that many are equally near, with their place in the table and a value that is sometimes NULL
struct Places {
	explicit Places(size_t count) {
		std::mt19937 random(11);
		for (size_t i = 0; i < count; i++) {
			const auto at = [&] { return double(random() % 60) / 4; };
			points.push_back(i % 23 == 5 ? vibe::Vec2 {NAN, NAN} : vibe::Vec2 {at(), at()});
			// As those of a column of UINTEGER
			places.push_back(static_cast<int32_t>(static_cast<uint32_t>(i) ^ 0x80000000U));
			values.push_back(int64_t(i) * 1000003);
			nulls.push_back(i % 7 == 3 ? 1 : 0);
		}
	}
	//! In an order that is not that of the table, as from several threads
	std::shared_ptr<GpuPinned> Pin(MachinePins &pins) const {
		PinnedLayout layout;
		layout.widths = {8, 4};
		auto pinned = pins.New(NewMachine, layout);
		constexpr size_t STEP = 700;
		for (size_t end = points.size(); end > 0; end -= std::min(end, STEP)) {
			const size_t begin = end - std::min(end, STEP);
			PinnedInput input;
			input.count = end - begin;
			input.points = points.data() + begin;
			input.columns.push_back({reinterpret_cast<const uint8_t *>(values.data() + begin),
			                         begin < 2000 ? nulls.data() + begin : nullptr});
			input.columns.push_back({reinterpret_cast<const uint8_t *>(places.data() + begin), nullptr});
			pinned->Add(input);
		}
		GpuTimes times;
		pinned->Finish(nullptr, times);
		return pinned;
	}
	bool IsNull(size_t row) const {
		return nulls[row] != 0 && row < 2000;
	}

	std::vector<vibe::Vec2> points;
	std::vector<int32_t> places;
	std::vector<int64_t> values;
	std::vector<uint8_t> nulls;
};

//! The rows of the table nearest to a point: all of them, sorted
std::vector<std::pair<double, size_t>> Nearest(const Places &table, const vibe::Vec2 &at, size_t k, double most,
                                               const std::function<bool(size_t row)> &passes) {
	std::vector<std::pair<double, size_t>> all;
	for (size_t row = 0; row < table.points.size(); row++) {
		const auto &point = table.points[row];
		const double distance = vibe::PointDistance(at, point);
		if (point.x == point.x && passes(row) && distance <= most) {
			all.emplace_back(distance, row);
		}
	}
	std::sort(all.begin(), all.end());
	all.resize(std::min(all.size(), k));
	return all;
}

} // namespace

TEST_CASE("The nearest of pinned points are those of the table, in its order where they are equally near",
          "[pin][knn]") {
	MachinePins pins([] { return uint64_t(0); });
	const Places table(9000);
	const auto pinned = table.Pin(pins);
	const auto rows = pinned->Use();
	REQUIRE(rows->Segments() >= 2);
	PinnedNumbers numbers;
	REQUIRE(PinnedNumbers::Fit(*rows, numbers));
	const auto low = Range(0, 0, int64_t(4000) * 1000003);
	const auto before = pinned->Bytes();
	for (const auto &filter : {PinnedTerms(), PinnedTerms {low}, PinnedTerms {Range(0, 1, 0)}}) {
		const auto passes = [&](size_t row) {
			return filter.empty() || (filter[0].low <= filter[0].high && !table.IsNull(row) && row <= 4000);
		};
		for (uint32_t k : {1u, 5u, 40u}) {
			const double most = k == 5 ? 0.3 : HUGE_VAL;
			const auto search = pinned->NewSearch({rows, filter, 1, {0, PinnedSearchInput::POINTS, 1}, k, most});
			const size_t count = 300;
			auto *queries = search->Points(count);
			std::mt19937 random(3);
			for (size_t i = 0; i < count; i++) {
				queries[i] = {double(random() % 70) / 4 - 1, double(random() % 70) / 4 - 1};
			}
			search->BeginPoints(count);
			const auto &found = search->Finish();
			REQUIRE(found.count == count);
			for (size_t i = 0; i < count; i++) {
				const auto expected = Nearest(table, queries[i], k, most, passes);
				INFO(filter.size() << " " << k << " " << i << " at " << queries[i].x << " " << queries[i].y);
				REQUIRE(found.found[i] == expected.size());
				for (size_t n = 0; n < expected.size(); n++) {
					const auto row = expected[n].second;
					INFO(n << " row " << row << " null " << table.IsNull(row));
					REQUIRE(found.Distance(i, n) == expected[n].first);
					int32_t place;
					std::memcpy(&place, found.Value(i, n, 2, sizeof(place)), sizeof(place));
					REQUIRE(place == table.places[row]);
					vibe::Vec2 point;
					std::memcpy(&point, found.Value(i, n, 1, sizeof(point)), sizeof(point));
					REQUIRE((point.x == table.points[row].x && point.y == table.points[row].y));
					int64_t value;
					const auto *from = found.Value(i, n, 0, sizeof(value));
					REQUIRE((from == nullptr) == table.IsNull(row));
					if (from) {
						std::memcpy(&value, from, sizeof(value));
						REQUIRE(value == table.values[row]);
					}
					// Its number is that of the host's copy
					const auto number = found.Row(i, n);
					vibe::Vec2 read;
					PinnedOutput output;
					output.segment = numbers.Segment(number);
					output.begin = numbers.Row(number);
					output.count = 1;
					output.points = &read;
					if (i < 20) {
						pinned->NewReader(rows)->Read(output);
						REQUIRE((read.x == point.x && read.y == point.y));
					}
				}
			}
		}
	}
	// The trees are counted with the table
	CHECK(pinned->Bytes() > before);
}
