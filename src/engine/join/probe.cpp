#include "engine/join/probe.hpp"

#include "engine/measure/distance.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/shape/part_boxes.hpp"
#include "geometry/lanes.hpp"
#include "geometry/wkb_visit.hpp"

#include <algorithm>

namespace vibespatial {

using namespace join_tuning;
using vibe::Box;
using vibe::ShapeView;
using vibe::Vec2;

namespace {

inline void Prefetch(const JoinRow &row) {
	for (uint32_t at = 0; at < row.size && at < PREFETCH_BYTES; at += 64) {
		__builtin_prefetch(row.data + at);
	}
}

//! For VisitWkb: finds one vertex of a line or polygon. `sound`: a Shape can be built of it, given finite coordinates.
struct OneVertex {
	Vec2 vertex {};
	bool found = false;
	bool sound = true;
	vibe::Family family = vibe::FAMILY_POINT;

	void Part(vibe::Family of_part) {
		family = of_part;
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		const bool is_area = family == vibe::FAMILY_POLYGON;
		sound = sound && family != vibe::FAMILY_POINT && count >= (is_area ? 4 : 2);
		if (!sound) {
			return;
		}
		const Lanes first = LoadLanes(coords), last = LoadLanes(coords + (count - 1) * stride);
		sound = !is_area || (first[0] == last[0] && first[1] == last[1]);
		vertex = Vec2 {first[0], first[1]};
		found = true;
	}
};

} // namespace

JoinProbe::JoinProbe(JoinIndex &index_p, std::function<void()> poll_p) : index(index_p), poll(std::move(poll_p)) {
}

size_t JoinProbe::ReadRows() {
	row = 0;
	taken = 0;
	order.clear();
	candidate = 0;
	candidates.clear();
	kinds.resize(count);
	hits.clear();
	next_hit = 0;
	size_t point_count = 0;
	Kind *const kind = kinds.data();
	if (xs) {
		std::fill(kind, kind + count, POINT);
		return count;
	}
	own_x.resize(count);
	own_y.resize(count);
	double *const x = own_x.data(), *const y = own_y.data();
	xs = x;
	ys = y;
	for (size_t i = 0; i < count; i++) {
		__builtin_prefetch(tile[std::min(i + PREFETCH_ROWS, count - 1)].data);
		Vec2 point;
		if (!tile[i].data) {
			kind[i] = ABSENT;
			continue;
		}
		PlainPoints plain;
		if (plain.Read(tile[i], x[i], y[i]) && plain.All()) {
			kind[i] = POINT;
			point_count++;
		} else if (TryReadPoint(tile[i].data, tile[i].size, point)) {
			kind[i] = POINT;
			x[i] = point.x;
			y[i] = point.y;
			point_count++;
		} else {
			kind[i] = OTHER;
		}
	}
	return point_count;
}

void JoinProbe::Begin(const JoinRow *tile_p, size_t count_p, const double *row_limits_p, const bool *done_p,
                      const double *x, const double *y) {
	tile = tile_p;
	count = count_p;
	xs = x;
	ys = y;
	row_limits = row_limits_p;
	done = done_p;
	tile_points = ReadRows();
	tests_before = counts.exact_tests;
	nanoseconds_before = lookup.nanoseconds;
	cells = tile_points > 0 ? index.Cells() : nullptr;
	polygons = tile_points > 0 && !cells ? index.Polygons() : nullptr;
	if (!ordered && !cells && !polygons && count >= ROWS_TO_SORT && index.rows.size() >= ROWS_TO_SORT) {
		SortRows();
	}
}

void JoinProbe::BeginTests(const JoinRow *tile_p, size_t count_p, const double *row_limits_p,
                           const ShapeView *shape_p) {
	tile = tile_p;
	count = count_p;
	row_limits = row_limits_p;
	done = nullptr;
	xs = nullptr;
	cells = nullptr;
	polygons = nullptr;
	tile_points = 0;
	has_shape = false;
	given_shape = shape_p;
	locator.reset();
	ReadRows();
}

bool JoinProbe::Test(size_t tile_row, uint32_t build_row) {
	if (row != tile_row) {
		row = tile_row;
		has_shape = false;
		locator.reset();
	}
	return Matches(build_row);
}

//! The first vertex of a point, line or polygon, which stands for its position; the origin for other types
static Vec2 FirstVertex(const JoinRow &row) {
	const uint32_t type = vibe::WkbTypeOf(vibe::LoadCount(row.data + 1));
	// After the header, and the counts of vertices and rings
	const size_t counts = type == vibe::WKB_POINT ? 0 : type == vibe::WKB_LINESTRING ? 1 : 2;
	const size_t offset = vibe::WKB_HEADER_BYTES + counts * sizeof(uint32_t);
	if (type > vibe::WKB_POLYGON || row.size < offset + 2 * sizeof(double)) {
		return Vec2 {0, 0};
	}
	return Vec2 {LoadDouble(row.data + offset), LoadDouble(row.data + offset + sizeof(double))};
}

//! Orders the rows along a Z curve over the build side: neighbours read the same nodes of the tree and the same build rows
void JoinProbe::SortRows() {
	constexpr uint32_t BITS = 8, PLACES = 1u << BITS;
	auto &bounds = index.bounds;
	double per_x = PLACES / (bounds.max_x - bounds.min_x), per_y = PLACES / (bounds.max_y - bounds.min_y);
	auto place = [](double at) { return at >= PLACES ? PLACES - 1 : at > 0 ? static_cast<uint32_t>(at) : 0; };
	auto spread = [](uint32_t v) {
		v = (v | v << 4) & 0x0f0f;
		v = (v | v << 2) & 0x3333;
		return (v | v << 1) & 0x5555;
	};
	keys.resize(count);
	uint32_t low[PLACES + 1] = {}, high[PLACES + 1] = {};
	for (size_t i = 0; i < count; i++) {
		uint32_t key = 0;
		if (kinds[i] != ABSENT) {
			Vec2 at = kinds[i] == POINT ? Vec2 {xs[i], ys[i]} : FirstVertex(tile[i]);
			key = spread(place((at.x - bounds.min_x) * per_x)) | spread(place((at.y - bounds.min_y) * per_y)) << 1;
		}
		keys[i] = key;
		low[key % PLACES + 1]++;
		high[key / PLACES + 1]++;
	}
	for (uint32_t i = 0; i < PLACES; i++) {
		low[i + 1] += low[i];
		high[i + 1] += high[i];
	}
	sorted.resize(count);
	order.resize(count);
	for (uint32_t i = 0; i < count; i++) {
		sorted[low[keys[i] % PLACES]++] = i;
	}
	for (auto i : sorted) {
		order[high[keys[i] / PLACES]++] = i;
	}
}

//! Looks up a run of points at once, in the cells or the polygon scan, so that their memory accesses overlap
void JoinProbe::LocateRun() {
	size_t end = std::min(count, row + POINTS_PER_RUN);
	if (tile_points < count) {
		end = static_cast<size_t>(std::find_if(kinds.begin() + static_cast<ptrdiff_t>(row),
		                                       kinds.begin() + static_cast<ptrdiff_t>(end),
		                                       [](Kind kind) { return kind != POINT; }) -
		                          kinds.begin());
	}
	hits.clear();
	next_hit = 0;
	auto first = static_cast<uint32_t>(row);
	if (cells) {
		cells->LocateMany(xs + row, ys + row, end - row, [&](size_t point, uint32_t area, vibe::Location location) {
			if (!index.answers.point_probes[location]) {
				return false;
			}
			hits.push_back(Hit {first + static_cast<uint32_t>(point), area});
			return first_only;
		});
	} else {
		const auto tests = lookup.tests, nanoseconds = lookup.nanoseconds;
		polygons->Locate(xs + row, ys + row, end - row, located, lookup);
		hits.resize(located.size());
		Hit *const begin = hits.data(), *next = begin;
		for (auto &found : located) {
			const uint32_t probe = first + found.point;
			const bool again = first_only && next > begin && next[-1].probe == probe;
			*next = Hit {probe, found.row};
			next += index.answers.point_probes[found.location] & !again;
		}
		hits.resize(static_cast<size_t>(next - begin));
		counts.candidates += lookup.tests - tests;
		counts.exact_tests += lookup.tests - tests;
		work += (lookup.nanoseconds - nanoseconds) / 8;
		if (work >= work_per_poll) {
			work = 0;
			poll();
		}
	}
	if (ordered) {
		for (size_t i = 0, k; i < hits.size(); i = k) {
			for (k = i + 1; k < hits.size() && hits[k].probe == hits[i].probe;) {
				k++;
			}
			std::sort(hits.begin() + static_cast<ptrdiff_t>(i), hits.begin() + static_cast<ptrdiff_t>(k),
			          [](const Hit &a, const Hit &b) { return a.build < b.build; });
		}
	}
	work += 2 * (end - row) + hits.size();
	taken = end;
}

bool JoinProbe::NextRow() {
	candidates.clear();
	candidate = 0;
	do {
		row = taken < count && !order.empty() ? order[taken] : taken;
		if (taken++ >= count) {
			if (tile_points > 0 && !cells) {
				const double spent =
				    polygons ? static_cast<double>(lookup.nanoseconds - nanoseconds_before)
				             : TREE_COST_PER_POINT * static_cast<double>(tile_points) +
				                   index.TestCost() * static_cast<double>(counts.exact_tests - tests_before);
				index.point_nanoseconds += static_cast<uint64_t>(spent);
				index.nanoseconds_spent += static_cast<uint64_t>(polygons ? SAVED_OF_POLYGON_SCAN * spent : spent);
				index.points_seen += tile_points;
			}
			tile_points = 0;
			return false;
		}
	} while (kinds[row] == ABSENT || (done && done[row]));
	if (kinds[row] == POINT && (polygons || (cells && !index.others))) {
		LocateRun();
		return true;
	}
	if (work >= work_per_poll) {
		work = 0;
		poll();
	}
	has_shape = false;
	certain = false;
	locator.reset();
	if (taken < count) {
		size_t next = order.empty() ? taken : order[taken];
		if (kinds[next] == OTHER) {
			Prefetch(tile[next]);
		}
	}
	FindCandidates(row);
	return true;
}

void JoinProbe::FindCandidates(size_t current) {
	if (cells && kinds[current] == POINT) {
		certain = true;
		cells->Locate(Vec2 {xs[current], ys[current]}, [&](uint32_t area, vibe::Location location) {
			if (index.answers.point_probes[location]) {
				candidates.push_back(area);
			}
			return false;
		});
		work++;
		if (index.others) {
			size_t from = candidates.size();
			Box around {xs[current], ys[current], xs[current], ys[current]};
			if (index.reach.limit > 0) {
				around = Grow(around, index.reach.limit);
			}
			index.others->Visit(around, [&](uint32_t item) {
				candidates.push_back(item);
				return false;
			});
			auto keep = std::remove_if(candidates.begin() + static_cast<ptrdiff_t>(from), candidates.end(),
			                           [&](uint32_t build_row) { return !Matches(build_row); });
			candidates.erase(keep, candidates.end());
		}
		if (candidates.size() > 1) {
			std::sort(candidates.begin(), candidates.end());
		}
		counts.cell_hits += candidates.size();
		return;
	}

	Box box = Box::Empty();
	bool empty = false;
	if (kinds[current] == POINT) {
		box.Add(xs[current], ys[current]);
	} else {
		PartBoxes reader;
		reader.parts = nullptr;
		VisitWkb(tile[current].data, tile[current].size, reader);
		if (!reader.finite && !index.only_boxes) {
			ProbeShape(); // throws the error
		}
		empty = reader.vertices == 0;
		box = reader.whole;
		work += reader.vertices / 4;
	}
	auto limit_from = index.condition.limit_from;
	double limit = limit_from == JoinLimit::CONSTANT ? index.condition.Effective(index.condition.limit)
	               : row_limits                      ? index.condition.Effective(row_limits[current])
	                                                 : 0;
	if (empty) {
		kinds[current] = EMPTY;
		if (index.empty_is_near) {
			for (uint32_t i = 0; i < index.rows.size(); i++) {
				if (index.rows[i].data) {
					candidates.push_back(i);
				}
			}
		} else if (index.empty_equals_empty) {
			candidates = index.empties;
		}
		return;
	}
	if (!(limit >= 0) && index.condition.any_of.size() == 1 && limit_from != JoinLimit::SUM) {
		return;
	}
	if (limit > 0) {
		box = Grow(box, limit);
	}
	auto row_count = static_cast<uint32_t>(index.rows.size());
	index.Tree().Visit(box, [&](uint32_t item) {
		uint32_t build_row = item < row_count ? item : index.part_row[item - row_count];
		candidates.push_back(build_row);
		__builtin_prefetch(&index.rows[build_row]);
		if (build_row < index.shapes.size()) {
			__builtin_prefetch(&index.shapes[build_row]);
		}
		return false;
	});
	if (index.empty_is_near) {
		candidates.insert(candidates.end(), index.empties.begin(), index.empties.end());
	}
	if (candidates.size() > 1) {
		std::sort(candidates.begin(), candidates.end());
		if (!index.part_row.empty()) {
			candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
		}
	}
	counts.candidates += candidates.size();
	work += 8 + candidates.size();
	// Their bytes are scattered in memory: they arrive while the probe's own shape is built
	for (size_t i = 0; i < candidates.size() && i < PREFETCH_CANDIDATES; i++) {
		Prefetch(index.rows[candidates[i]]);
	}
}

size_t JoinProbe::Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity) {
	size_t found = 0;
	while (found < capacity) {
		if (next_hit < hits.size()) {
			size_t some = std::min(capacity - found, hits.size() - next_hit);
			for (size_t i = 0; i < some; i++) {
				probe_rows[found + i] = hits[next_hit + i].probe;
				build_rows[found + i] = hits[next_hit + i].build;
			}
			found += some;
			next_hit += some;
			counts.cell_hits += cells ? some : 0;
			continue;
		}
		if (candidate == candidates.size()) {
			if (taken > count || !NextRow()) {
				break;
			}
			continue;
		}
		auto build_row = candidates[candidate++];
		if (certain || Matches(build_row)) {
			probe_rows[found] = static_cast<uint32_t>(row);
			build_rows[found] = build_row;
			found++;
			if (first_only) {
				candidate = candidates.size();
			}
		}
	}
	return found;
}

const ShapeView &JoinProbe::ProbeShape() {
	if (kinds[row] == POINT) {
		probe_point = Vec2 {xs[row], ys[row]};
		point_view = vibe::ShapeOfPoint(&probe_point, &zero);
		return point_view;
	}
	if (given_shape) {
		return *given_shape;
	}
	if (!has_shape) {
		BuildShape(tile[row].data, tile[row].size, batch, shape);
		has_shape = true;
	}
	return shape.View();
}

const ShapeView &JoinProbe::BuildShapeOf(uint32_t build_row) {
	if (auto view = index.CachedShape(build_row)) {
		return *view;
	}
	auto &bytes = index.rows[build_row];
	if (built_row != build_row && bytes.size >= BYTES_TO_KEEP_SHAPE && build_row < index.shapes.size() &&
	    index.shape_bytes < index.shape_memory && (keeps_shapes || index.IsAskedAgain(build_row))) {
		return index.KeepShape(build_row);
	}
	if (built_row != build_row) {
		built_row = UINT32_MAX;
		BuildShape(bytes.data, bytes.size, build_batch, build_shape);
		built_row = build_row;
	}
	return build_shape.View();
}

bool JoinProbe::BuildPoint(uint32_t build_row, Vec2 &point) const {
	if (index.all_points) {
		point = index.points[build_row];
		return point.x == point.x;
	}
	auto &wkb = index.rows[build_row];
	return TryReadPoint(wkb.data, wkb.size, point);
}

double JoinProbe::LimitOf(uint32_t build_row) const {
	auto &condition = index.condition;
	switch (condition.limit_from) {
	case JoinLimit::PROBE:
		return condition.Effective(row_limits[row]);
	case JoinLimit::BUILD:
		return condition.Effective(index.limits[build_row]);
	case JoinLimit::SUM: {
		double mine = row_limits[row], theirs = index.limits[build_row];
		return mine == JoinCondition::NO_LIMIT || theirs == JoinCondition::NO_LIMIT
		           ? -1
		           : condition.Effective(mine + theirs);
	}
	default:
		return condition.Effective(condition.limit);
	}
}

bool JoinProbe::MatchesDistance(const JoinTerm &term, uint32_t build_row) {
	double limit = LimitOf(build_row);
	if (!(limit >= 0)) {
		return false;
	}
	Vec2 point;
	bool build_point = BuildPoint(build_row, point);
	if (kinds[row] == POINT && build_point) {
		return vibe::PointDistance(Vec2 {xs[row], ys[row]}, point) <= limit;
	}
	counts.exact_tests++;
	auto &probe = ProbeShape();
	auto &build = BuildShapeOf(build_row);
	work += 16;
	if (probe.dimension < 0 || build.dimension < 0) {
		return term.empty_is_near;
	}
	return vibespatial::ShapeDistance(probe, build, limit) <= limit;
}

bool JoinProbe::MatchesBoxes(uint32_t build_row) {
	Box a = Box::Empty(), b = Box::Empty();
	WkbBounds(tile[row].data, tile[row].size, a);
	WkbBounds(index.rows[build_row].data, index.rows[build_row].size, b);
	return a.Intersects(b);
}

vibe::Location JoinProbe::LocateInProbe(const ShapeView &probe, const Vec2 &point) {
	work += 4;
	if (!locator && candidates.size() >= POINTS_FOR_LOCATOR && probe.vertex_count >= VERTICES_FOR_LOCATOR) {
		locator = std::make_unique<PointLocator>(probe);
		work += probe.vertex_count;
	}
	return locator ? locator->Locate(point) : vibe::LocateInElement(probe, 0, point);
}

//! A large area with many candidates contains most of those that it intersects: testing one vertex avoids building their shapes
bool JoinProbe::HasVertexIn(const ShapeView &probe, uint32_t build_row) {
	if (candidates.size() < POINTS_FOR_LOCATOR || index.CachedShape(build_row)) {
		return false;
	}
	OneVertex one;
	VisitWkb(index.rows[build_row].data, index.rows[build_row].size, one);
	return one.found && one.sound && LocateInProbe(probe, one.vertex) != vibe::LOC_EXTERIOR;
}

bool JoinProbe::MatchesRelate(uint32_t build_row) {
	Vec2 point;
	bool build_point = kinds[row] != EMPTY && BuildPoint(build_row, point);
	if (kinds[row] == POINT && build_point) {
		return index.answers.equal_points && Vec2 {xs[row], ys[row]} == point;
	}
	counts.exact_tests++;
	auto &probe = ProbeShape();
	if (build_point && JoinIndex::IsSingleArea(probe)) {
		const auto location = LocateInProbe(probe, point);
		return location != vibe::LOC_EXTERIOR && index.answers.area_probes[location];
	}
	if (index.intersects_is_enough && JoinIndex::IsSingleArea(probe) && HasVertexIn(probe, build_row)) {
		return true;
	}
	auto &build = BuildShapeOf(build_row);
	if (kinds[row] == POINT && JoinIndex::IsSingleArea(build)) {
		work += 4;
		auto location = vibe::LocateInElement(build, 0, Vec2 {xs[row], ys[row]});
		return location != vibe::LOC_EXTERIOR && index.answers.point_probes[location];
	}
	work += 16 + (probe.vertex_count + build.vertex_count) / 8;
	for (auto &term : index.condition.any_of) {
		if (term.kind == JoinTerm::RELATE && Evaluate(term.predicate, probe, build, scratch)) {
			return true;
		}
	}
	return false;
}

bool JoinProbe::Matches(uint32_t build_row) {
	if (work >= work_per_poll) {
		work = 0;
		poll();
	}
	if (index.only_relate) {
		return MatchesRelate(build_row);
	}
	bool relate = false;
	for (auto &term : index.condition.any_of) {
		if (term.kind == JoinTerm::DISTANCE ? MatchesDistance(term, build_row)
		    : term.kind == JoinTerm::BOXES  ? MatchesBoxes(build_row)
		                                    : false) {
			return true;
		}
		relate |= term.kind == JoinTerm::RELATE;
	}
	return relate && MatchesRelate(build_row);
}

} // namespace vibespatial
