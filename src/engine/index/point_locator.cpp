#include "engine/index/point_locator.hpp"

#include <algorithm>
#include <cmath>

namespace vibespatial {

//! Entries may be this many times the edges: tall edges are in many bands
static constexpr double ENTRIES_PER_EDGE = 4.0;
static constexpr double MAX_BANDS = 65536;

PointLocator::PointLocator(const vibe::ShapeView &shape) : box(shape.box) {
	uint32_t edge_count = 0;
	double total_height = 0;
	for (uint32_t i = 0; i < shape.vertex_count; i++) {
		if (shape.IsEdge(i)) {
			edge_count++;
			total_height += std::fabs(shape.y[i + 1] - shape.y[i]);
		}
	}
	double height = box.max_y - box.min_y;
	double bands = total_height > 0 ? (ENTRIES_PER_EDGE - 1) * edge_count * (height / total_height) : 1;
	bands = std::isfinite(bands) ? std::max(1.0, std::min(MAX_BANDS, std::floor(bands))) : 1;
	last_band = static_cast<uint32_t>(bands) - 1;
	bands_per_unit = bands / height;
	if (!std::isfinite(bands_per_unit)) {
		last_band = 0;
		bands_per_unit = 0;
	}

	band_begin.assign(last_band + 2, 0);
	auto each_band = [&](uint32_t i, auto &&use) {
		uint32_t last = BandOf(std::max(shape.y[i], shape.y[i + 1]));
		for (uint32_t band = BandOf(std::min(shape.y[i], shape.y[i + 1])); band <= last; band++) {
			use(band);
		}
	};
	for (uint32_t i = 0; i < shape.vertex_count; i++) {
		if (shape.IsEdge(i)) {
			each_band(i, [&](uint32_t band) { band_begin[band + 1]++; });
		}
	}
	for (size_t band = 1; band < band_begin.size(); band++) {
		band_begin[band] += band_begin[band - 1];
	}
	edges.resize(band_begin.back());
	std::vector<uint32_t> next(band_begin.begin(), band_begin.end() - 1);
	for (uint32_t i = 0; i < shape.vertex_count; i++) {
		if (shape.IsEdge(i)) {
			each_band(i, [&](uint32_t band) { edges[next[band]++] = Edge {shape.Vertex(i), shape.Vertex(i + 1)}; });
		}
	}
}

uint32_t PointLocator::BandOf(double y) const {
	double band = (y - box.min_y) * bands_per_unit;
	return band >= last_band ? last_band : static_cast<uint32_t>(band);
}

vibe::Location PointLocator::Locate(const vibe::Vec2 &point) const {
	if (!box.Covers(point.x, point.y)) {
		return vibe::LOC_EXTERIOR;
	}
	vibe::RayCounter counter {point, false, false};
	uint32_t band = BandOf(point.y);
	for (uint32_t i = band_begin[band]; i < band_begin[band + 1]; i++) {
		if (counter.Add(edges[i].from, edges[i].to)) {
			return vibe::LOC_BOUNDARY;
		}
	}
	return counter.odd ? vibe::LOC_INTERIOR : vibe::LOC_EXTERIOR;
}

} // namespace vibespatial
