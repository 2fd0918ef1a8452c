#include "geometry/wkb.hpp"

#include "geometry/error.hpp"
#include "geometry/lanes.hpp"
#include "geometry/wkb_visit.hpp"

#include <limits>

namespace vibespatial {

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//
const char *TypeName(GeometryType type) {
	switch (type) {
	case GeometryType::POINT:
		return "POINT";
	case GeometryType::LINESTRING:
		return "LINESTRING";
	case GeometryType::POLYGON:
		return "POLYGON";
	case GeometryType::MULTIPOINT:
		return "MULTIPOINT";
	case GeometryType::MULTILINESTRING:
		return "MULTILINESTRING";
	case GeometryType::MULTIPOLYGON:
		return "MULTIPOLYGON";
	case GeometryType::GEOMETRYCOLLECTION:
		return "GEOMETRYCOLLECTION";
	default:
		return "INVALID";
	}
}

static const char *DimensionName(uint8_t vertex_type) {
	static const char *const NAMES[] = {"XY", "XYZ", "XYM", "XYZM"};
	return NAMES[vertex_type];
}

static std::string At(size_t offset) {
	return " at byte " + std::to_string(offset);
}

namespace wkb_error {

void Truncated(size_t offset, size_t size, uint64_t needed) {
	throw GeometryError("WKB ends too early: " + std::to_string(needed) + " bytes needed" + At(offset) + ", " +
	                    std::to_string(size - offset) + " left");
}

void ByteOrder(size_t offset, uint8_t found) {
	if (found == 0) {
		throw GeometryError("WKB is big-endian" + At(offset) + "; only little-endian WKB is read");
	}
	throw GeometryError("WKB has no byte order mark" + At(offset) + ": 1 expected, " + std::to_string(found) +
	                    " found");
}

void TypeCode(size_t offset, uint32_t found) {
	constexpr uint32_t EWKB_FLAGS = 0xE0000000;
	if (found & EWKB_FLAGS) {
		throw GeometryError("WKB has the flags of extended WKB" + At(offset) + "; only ISO WKB is read");
	}
	throw GeometryError("WKB has the unknown geometry type " + std::to_string(found) + At(offset));
}

void Member(size_t offset, GeometryType parent, GeometryType found) {
	throw GeometryError(std::string("WKB has a ") + TypeName(found) + " inside a " + TypeName(parent) + At(offset));
}

void Dimensions(size_t offset, uint8_t parent, uint8_t found) {
	throw GeometryError(std::string("WKB mixes dimensions: ") + DimensionName(found) + " inside " +
	                    DimensionName(parent) + At(offset));
}

void TooDeep(size_t offset) {
	throw GeometryError("WKB nests collections more than " + std::to_string(WKB_MAX_DEPTH) + " deep" + At(offset));
}

void Trailing(size_t offset, size_t size) {
	throw GeometryError("WKB goes on after its geometry: " + std::to_string(size - offset) + " bytes more" +
	                    At(offset));
}

} // namespace wkb_error

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//
namespace {

struct RowBuilder {
	GeometryBatch &batch;

	void Row(WkbHeader header) {
		batch.BeginRow(header.type, header.vertex_type);
	}
	void Node(GeometryType type, uint32_t children) {
		batch.BeginNode(type, children);
	}
	void Part(vibe::Family family) {
		batch.BeginPart(family);
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		batch.BeginRing();
		batch.AddVertices(count, coords, stride);
	}
};

struct BoundsVisitor {
	LaneRange range;
	uint64_t vertices = 0;

	void Part(vibe::Family) {
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		vertices += count;
		range.Add(VertexRange(coords, count, stride, [](Lanes) {}));
	}
};

} // namespace

void ReadWkb(const uint8_t *data, size_t size, GeometryBatch &batch) {
	// No node, ring or vertex takes less than 4 bytes
	batch.RequireRoom(size / 4);
	const auto mark = batch.GetMark();
	try {
		RowBuilder builder {batch};
		WalkWkb(data, size, builder);
		batch.EndRow();
	} catch (...) {
		batch.Rollback(mark);
		throw;
	}
}

void RequireType(GeometryType type, GeometryType needed) {
	if (type != needed) {
		throw GeometryError(std::string("a ") + TypeName(needed) + " is needed, not a " + TypeName(type));
	}
}

WkbHeader ReadWkbHeader(const uint8_t *data, size_t size) {
	return WkbCursor(data, size).TakeHeader();
}

bool ReadWkbPoint(const uint8_t *data, size_t size, double &x, double &y) {
	WkbCursor cursor(data, size);
	const auto header = cursor.TakeHeader();
	RequireType(header.type, GeometryType::POINT);
	const auto stride = VertexWidth(header.vertex_type) * sizeof(double);
	const auto coords = cursor.Take(stride);
	cursor.RequireEnd();
	x = LoadDouble(coords);
	y = LoadDouble(coords + sizeof(double));
	return !IsEmptyPoint(coords, stride);
}

uint64_t WkbBounds(const uint8_t *data, size_t size, vibe::Box &box) {
	if (IsPlainPoint(data, size)) {
		const auto x = LoadDouble(data + vibe::WKB_HEADER_BYTES);
		const auto y = LoadDouble(data + vibe::WKB_HEADER_BYTES + sizeof(double));
		box = vibe::Box {x, y, x, y};
		return 1;
	}
	BoundsVisitor visitor;
	VisitWkb(data, size, visitor);
	box = vibe::Box {visitor.range.min[0], visitor.range.min[1], visitor.range.max[0], visitor.range.max[1]};
	return visitor.vertices;
}

//===----------------------------------------------------------------------===//
// Writer
//===----------------------------------------------------------------------===//
namespace {

//! Where a point, line or polygon of that code ends; null when its bytes end before. `at` is behind its header.
const uint8_t *EndOfPart(const uint8_t *at, const uint8_t *end, uint32_t code) {
	const size_t stride = VertexWidth(static_cast<uint8_t>(vibe::WkbVertexTypeOf(code))) * sizeof(double);
	const auto vertices = [&](const uint8_t *from, size_t count) {
		return count <= static_cast<size_t>(end - from) / stride ? from + count * stride : nullptr;
	};
	const auto type = vibe::WkbTypeOf(code);
	if (type == vibe::WKB_POINT) {
		return vertices(at, 1);
	}
	const auto has_count = [&] { return end - at >= static_cast<ptrdiff_t>(sizeof(uint32_t)); };
	uint32_t lines = 1;
	if (type == vibe::WKB_POLYGON) {
		if (!has_count()) {
			return nullptr;
		}
		lines = vibe::LoadCount(at);
		at += sizeof(uint32_t);
	}
	for (; lines > 0; lines--) {
		if (!has_count()) {
			return nullptr;
		}
		at = vertices(at + sizeof(uint32_t), vibe::LoadCount(at));
		if (!at) {
			return nullptr;
		}
	}
	return at;
}

} // namespace

bool IsStoredWkb(const uint8_t *data, size_t size) {
	const auto end = data + size;
	const auto has_header = [&](const uint8_t *at) {
		return end - at >= static_cast<ptrdiff_t>(vibe::WKB_HEADER_BYTES) && at[0] == 1;
	};
	if (!has_header(data)) {
		return false;
	}
	const auto code = vibe::LoadCount(data + 1);
	if (!vibe::IsWkbCode(code) || vibe::WkbTypeOf(code) == vibe::WKB_COLLECTION) {
		return false;
	}
	auto at = data + vibe::WKB_HEADER_BYTES;
	if (vibe::WkbTypeOf(code) <= vibe::WKB_POLYGON) {
		return EndOfPart(at, end, code) == end;
	}
	if (end - at < static_cast<ptrdiff_t>(sizeof(uint32_t))) {
		return false;
	}
	const uint32_t part_code = code - (vibe::WKB_MULTIPOINT - vibe::WKB_POINT);
	auto parts = vibe::LoadCount(at);
	at += sizeof(uint32_t);
	for (; parts > 0; parts--) {
		if (!has_header(at) || vibe::LoadCount(at + 1) != part_code) {
			return false;
		}
		at = EndOfPart(at + vibe::WKB_HEADER_BYTES, end, part_code);
		if (!at) {
			return false;
		}
	}
	return at == end;
}

static void RequireGeometry(const GeometryBatch &batch, size_t row) {
	if (!batch.valid[row]) {
		throw GeometryError("NULL has no WKB");
	}
}

size_t WkbSize(const GeometryBatch &batch, size_t row) {
	RequireGeometry(batch, row);
	const auto stride = VertexWidth(batch.vertex_type[row]) * sizeof(double);
	const auto first_ring = batch.part_ring[batch.row_part[row]];
	const auto last_ring = batch.part_ring[batch.row_part[row + 1]];
	size_t size = (batch.ring_start[last_ring] - batch.ring_start[first_ring]) * stride;
	auto part = batch.row_part[row];
	for (auto node = batch.row_node[row]; node < batch.row_node[row + 1]; node++) {
		const auto type = batch.node_type[node];
		size += 1 + sizeof(uint32_t);
		if (!IsLeaf(type)) {
			size += sizeof(uint32_t);
			continue;
		}
		const auto begin = batch.part_ring[part];
		const auto end = batch.part_ring[++part];
		if (type == GeometryType::POINT) {
			size += batch.ring_start[begin] == batch.ring_start[end] ? stride : 0;
		} else {
			size += sizeof(uint32_t) + (type == GeometryType::POLYGON ? (end - begin) * sizeof(uint32_t) : 0);
		}
	}
	return size;
}

namespace {

class WkbWriter {
public:
	WkbWriter(const GeometryBatch &batch, size_t row, uint8_t *out) : batch(batch), row(row), out(out) {
	}

	void Write() {
		auto part = batch.row_part[row];
		for (auto node = batch.row_node[row]; node < batch.row_node[row + 1]; node++) {
			const auto type = batch.node_type[node];
			*out++ = 1;
			Put(static_cast<uint32_t>(type) + 1000u * batch.vertex_type[row]);
			if (IsLeaf(type)) {
				PutPart(type, part++);
			} else {
				Put(batch.node_children[node]);
			}
		}
	}

private:
	template <class T>
	void Put(T value) {
		std::memcpy(out, &value, sizeof(value));
		out += sizeof(value);
	}

	void PutPart(GeometryType type, uint32_t part) {
		const auto begin = batch.part_ring[part];
		const auto end = batch.part_ring[part + 1];
		switch (type) {
		case GeometryType::POLYGON:
			Put(end - begin);
			for (auto ring = begin; ring < end; ring++) {
				Put(batch.ring_start[ring + 1] - batch.ring_start[ring]);
				PutVertices(batch.ring_start[ring], batch.ring_start[ring + 1]);
			}
			break;
		case GeometryType::LINESTRING:
			Put(batch.ring_start[end] - batch.ring_start[begin]);
			PutVertices(batch.ring_start[begin], batch.ring_start[end]);
			break;
		default:
			if (batch.ring_start[begin] == batch.ring_start[end]) {
				for (size_t axis = 0; axis < VertexWidth(batch.vertex_type[row]); axis++) {
					Put(std::numeric_limits<double>::quiet_NaN());
				}
			}
			PutVertices(batch.ring_start[begin], batch.ring_start[end]);
			break;
		}
	}

	void PutVertices(uint32_t begin, uint32_t end) {
		const auto bits = batch.vertex_type[row];
		const auto stride = VertexWidth(bits) * sizeof(double);
		PutAxis(batch.x.data(), begin, end, out, stride);
		PutAxis(batch.y.data(), begin, end, out + sizeof(double), stride);
		if (bits & VERTEX_Z) {
			PutAxis(batch.z.data(), begin, end, out + 2 * sizeof(double), stride);
		}
		if (bits & VERTEX_M) {
			PutAxis(batch.m.data(), begin, end, out + stride - sizeof(double), stride);
		}
		out += (end - begin) * stride;
	}

	static void PutAxis(const double *axis, uint32_t begin, uint32_t end, uint8_t *at, size_t stride) {
		for (auto i = begin; i < end; i++, at += stride) {
			std::memcpy(at, axis + i, sizeof(double));
		}
	}

	const GeometryBatch &batch;
	const size_t row;
	uint8_t *out;
};

} // namespace

void WriteWkb(const GeometryBatch &batch, size_t row, uint8_t *out) {
	RequireGeometry(batch, row);
	WkbWriter(batch, row, out).Write();
}

std::string WriteWkb(const GeometryBatch &batch, size_t row) {
	std::string wkb(WkbSize(batch, row), '\0');
	WriteWkb(batch, row, reinterpret_cast<uint8_t *>(&wkb[0]));
	return wkb;
}

} // namespace vibespatial
