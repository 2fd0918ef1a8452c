#include "geometry/checks.hpp"

#include "geometry/error.hpp"
#include "geometry/lanes.hpp"
#include "geometry/number.hpp"

namespace vibespatial {

static constexpr uint32_t MIN_RING_VERTICES = 4;

//===----------------------------------------------------------------------===//
// Yes or no, fast
//===----------------------------------------------------------------------===//

//! v - v is 0 for a finite v and NaN for all others: the sum of them says it for a whole column
static bool AllFinite(const double *values, size_t count) {
	Lanes even {0, 0};
	Lanes odd {0, 0};
	size_t i = 0;
	for (; i + 4 <= count; i += 4) {
		const auto first = LoadLanes(values + i);
		const auto second = LoadLanes(values + i + 2);
		even += first - first;
		odd += second - second;
	}
	for (; i < count; i++) {
		even += values[i] - values[i];
	}
	even += odd;
	return even[0] + even[1] == 0;
}

static bool IsClosed(const GeometryBatch &batch, uint32_t begin, uint32_t end) {
	return (batch.x[begin] == batch.x[end - 1]) & (batch.y[begin] == batch.y[end - 1]);
}

static bool IsUsablePolygon(const GeometryBatch &batch, uint32_t ring_begin, uint32_t ring_end) {
	const bool has_shell = ring_begin < ring_end && batch.ring_start[ring_begin] < batch.ring_start[ring_begin + 1];
	for (auto ring = ring_begin; ring < ring_end; ring++) {
		const auto begin = batch.ring_start[ring];
		const auto end = batch.ring_start[ring + 1];
		if (begin == end) {
			continue;
		}
		if (!has_shell || end - begin < MIN_RING_VERTICES || !IsClosed(batch, begin, end)) {
			return false;
		}
	}
	return true;
}

bool IsUsable(const GeometryBatch &batch, size_t row) {
	const auto part_begin = batch.row_part[row];
	const auto part_end = batch.row_part[row + 1];
	for (auto part = part_begin; part < part_end; part++) {
		const auto ring_begin = batch.part_ring[part];
		const auto ring_end = batch.part_ring[part + 1];
		if (batch.part_family[part] == vibe::FAMILY_POLYGON) {
			if (!IsUsablePolygon(batch, ring_begin, ring_end)) {
				return false;
			}
		} else if (batch.part_family[part] == vibe::FAMILY_LINE) {
			if (batch.ring_start[ring_end] - batch.ring_start[ring_begin] == 1) {
				return false;
			}
		}
	}
	const auto begin = batch.ring_start[batch.part_ring[part_begin]];
	const auto end = batch.ring_start[batch.part_ring[part_end]];
	return AllFinite(batch.x.data() + begin, end - begin) && AllFinite(batch.y.data() + begin, end - begin);
}

//===----------------------------------------------------------------------===//
// What and where, in words
//===----------------------------------------------------------------------===//
namespace {

constexpr const char *NOT_FINITE = " is NaN or infinite: ";

class ProblemFinder {
public:
	ProblemFinder(const GeometryBatch &batch, size_t row) : batch(batch), row(row) {
	}

	std::string Find() {
		uint32_t seen[3] = {0, 0, 0};
		std::string problem;
		for (auto part = batch.row_part[row]; part < batch.row_part[row + 1] && problem.empty(); part++) {
			const auto family = batch.part_family[part];
			const auto number = std::to_string(++seen[family]);
			if (family == vibe::FAMILY_POLYGON) {
				problem = InPolygon(part, "polygon " + number);
			} else if (family == vibe::FAMILY_LINE) {
				problem = InLine(part, "line " + number);
			} else {
				problem = InPoint(part, "point " + number);
			}
		}
		return problem;
	}

private:
	std::string Vertex(uint32_t i) const {
		return "(" + FormatNumber(batch.x[i]) + " " + FormatNumber(batch.y[i]) + ")";
	}
	bool IsFinite(uint32_t i) const {
		return vibe::IsFinite(batch.x[i]) && vibe::IsFinite(batch.y[i]);
	}
	uint32_t RingBegin(uint32_t part) const {
		return batch.part_ring[part];
	}
	uint32_t RingEnd(uint32_t part) const {
		return batch.part_ring[part + 1];
	}

	std::string InVertices(uint32_t begin, uint32_t end, const std::string &place) const {
		for (auto i = begin; i < end; i++) {
			if (!IsFinite(i)) {
				return "vertex " + std::to_string(i - begin + 1) + " of " + place + NOT_FINITE + Vertex(i);
			}
		}
		return std::string();
	}

	std::string InPoint(uint32_t part, const std::string &place) const {
		const auto begin = batch.ring_start[RingBegin(part)];
		const auto end = batch.ring_start[RingEnd(part)];
		if (begin < end && !IsFinite(begin)) {
			return place + NOT_FINITE + Vertex(begin);
		}
		return std::string();
	}

	std::string InLine(uint32_t part, const std::string &place) const {
		const auto begin = batch.ring_start[RingBegin(part)];
		const auto end = batch.ring_start[RingEnd(part)];
		auto problem = InVertices(begin, end, place);
		if (problem.empty() && end - begin == 1) {
			problem = place + " has only 1 vertex: " + Vertex(begin);
		}
		return problem;
	}

	std::string InPolygon(uint32_t part, const std::string &polygon) const {
		const auto shell = RingBegin(part);
		for (auto ring = shell; ring < RingEnd(part); ring++) {
			const auto begin = batch.ring_start[ring];
			const auto end = batch.ring_start[ring + 1];
			if (begin == end) {
				continue;
			}
			const auto place = "ring " + std::to_string(ring - shell + 1) + " of " + polygon;
			auto problem = InVertices(begin, end, place);
			if (!problem.empty()) {
				return problem;
			}
			if (batch.ring_start[shell] == batch.ring_start[shell + 1]) {
				return place + " is a hole, but the shell of the polygon is empty";
			}
			if (!IsClosed(batch, begin, end)) {
				return place + " is not closed: it starts at " + Vertex(begin) + " and ends at " + Vertex(end - 1);
			}
			if (end - begin < MIN_RING_VERTICES) {
				return place + " has fewer than 4 vertices: " + std::to_string(end - begin);
			}
		}
		return std::string();
	}

	const GeometryBatch &batch;
	const size_t row;
};

} // namespace

std::string UsabilityProblem(const GeometryBatch &batch, size_t row) {
	return ProblemFinder(batch, row).Find();
}

void CheckUsable(const GeometryBatch &batch, size_t row) {
	if (!IsUsable(batch, row)) {
		throw GeometryError(UsabilityProblem(batch, row));
	}
}

} // namespace vibespatial
