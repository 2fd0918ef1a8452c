#include "engine/index/cell_reach.hpp"

#include "engine/index/cell_edges.hpp"

#include <cmath>

namespace vibespatial {
namespace cell_build {

using vibe::SquareMetric;
using vibe::Vec2;

//! Room for rounding: of a bound, and of distances whose squares underflow
static constexpr double BOUND_ROOM = 1 + 1e-9;
static constexpr double LEAST_HALF = 1e-135;

NearReader::NearReader(const PointGrid &grid, const vibe::CellReach &reach, const Vec2 *vertices)
    : grid(grid), reach(reach), vertices(vertices) {
	half = (0.5 + EDGE_ROOM) * std::sqrt(grid.width * grid.width + grid.height * grid.height) + LEAST_HALF;
}

void NearReader::Read(uint32_t column, uint32_t row, const ItemSpan &items, const AreaSet &active, NearCell &cell,
                      ItemList &kept) {
	const Vec2 centre = grid.Reference(column, row);
	const double bound = (reach.outer + half) * BOUND_ROOM;
	cell.near.clear();
	cell.inside.areas.clear();
	cell.edges = 0;
	auto next_active = active.areas.begin();
	for (const Item *item = items.begin; item < items.end;) {
		const Item *const first = item;
		const uint32_t area = item->area;
		double nearest = HUGE_VAL;
		distances.clear();
		for (; item < items.end && item->area == area; item++) {
			Vec2 a = vertices[item->begin];
			for (uint32_t i = 1; i <= item->Count(); i++) {
				const Vec2 b = vertices[item->begin + i];
				const double distance = std::sqrt(SquareMetric::PointSegment(centre, a, b));
				distances.push_back(distance);
				nearest = std::min(nearest, distance);
				a = b;
			}
		}
		for (; next_active != active.areas.end() && *next_active < area; next_active++) {
			cell.inside.areas.push_back(*next_active);
		}
		const bool inside = next_active != active.areas.end() && *next_active == area;
		next_active += inside;
		if (nearest + half <= reach.inner || (inside && nearest > half)) {
			cell.near.push_back(area);
			continue;
		}
		if (inside) {
			cell.inside.areas.push_back(area);
		}
		const double *distance = distances.data();
		for (const Item *from = first; from < item; from++) {
			const uint32_t count = from->Count();
			for (uint32_t i = 0; i < count;) {
				const uint32_t begin = i;
				while (i < count && !(distance[i] > bound)) {
					i++;
				}
				if (i > begin) {
					kept.Reserve(1);
					*kept.end() = Item {from->cell, from->begin + begin, i - begin, area};
					kept.count++;
					cell.edges += i - begin;
				}
				i += i < count;
			}
			distance += count;
		}
	}
	cell.inside.areas.insert(cell.inside.areas.end(), next_active, active.areas.end());
}

} // namespace cell_build
} // namespace vibespatial
