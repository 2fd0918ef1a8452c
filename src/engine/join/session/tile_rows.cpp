#include "engine/join/session/tile_rows.hpp"

#include "engine/relate/prepared.hpp"
#include "geometry/error.hpp"

#include <algorithm>

namespace vibespatial {

void TileRows::BeginPoints(vibe::Vec2 *memory, size_t capacity) {
	kind = Kind::POINTS;
	points = memory;
	if (!memory) {
		own_points.resize(capacity);
		points = own_points.data();
	}
}

void TileRows::BeginShapes(ShapeRows::Memory memory) {
	kind = Kind::SHAPES;
	shapes.Clear(std::move(memory));
}

void TileRows::BeginPinned(size_t rows, Kind rows_kind) {
	kind = rows_kind;
	is_pinned = true;
	count = rows;
	points = nullptr;
}

vibe::Vec2 *TileRows::PinnedPoints() {
	own_points.resize(count);
	points = own_points.data();
	return points;
}

void TileRows::ClearPinnedShapes() {
	pinned_shapes.clear();
	pinned_wkb.clear();
}

void TileRows::AddPinnedShape(size_t row, const JoinRow &wkb) {
	pinned_shapes.push_back(PinnedShape {row, pinned_wkb.size(), wkb.data ? wkb.size : 0});
	if (wkb.data) {
		pinned_wkb.append(reinterpret_cast<const char *>(wkb.data), wkb.size);
	}
}

void TileRows::Clear() {
	kind = Kind::NONE;
	is_pinned = false;
	count = 0;
	shapes.Clear();
	packed_wkb.clear();
	ClearPinnedShapes();
	bytes = 0;
	limits.clear();
	cpu_rows.clear();
}

void TileRows::AddPoints(const JoinInput &input, size_t begin, size_t end) {
	vibe::Vec2 *to = points + count;
	for (size_t i = begin; i < end; i++) {
		*to++ = vibe::Vec2 {input.x[i], input.y[i]};
	}
	count += end - begin;
}

void TileRows::AddShape(const JoinRow &row) {
	count++;
	if (!row.data) {
		shapes.AddNothing();
		return;
	}
	if (ShapeRows::IsForDevice(row.data, row.size)) {
		shapes.AddWkb(row.data, row.size);
	} else {
		shapes.AddPacked();
		packed_wkb.emplace_back(reinterpret_cast<const char *>(row.data), row.size);
	}
	bytes += row.size;
}

void TileRows::AddLimits(const double *row_limits, size_t row_count) {
	limits.insert(limits.end(), row_limits, row_limits + row_count);
}

void TileRows::MovePoints(vibe::Vec2 *memory) {
	std::copy(points, points + count, memory);
	points = memory;
}

size_t TileRows::OwnBytes() const {
	size_t result = limits.capacity() * sizeof(double) + own_points.capacity() * sizeof(vibe::Vec2) + shapes.OwnBytes();
	for (auto &wkb : packed_wkb) {
		result += wkb.capacity();
	}
	return result + pinned_wkb.capacity() + pinned_shapes.capacity() * sizeof(PinnedShape);
}

JoinRow TileRows::Read(size_t row, PointBytes &buffer) const {
	if (kind == Kind::SHAPES && is_pinned) {
		const auto &at = *std::lower_bound(pinned_shapes.begin(), pinned_shapes.end(), row,
		                                   [](const PinnedShape &shape, size_t number) { return shape.row < number; });
		const auto *wkb = reinterpret_cast<const uint8_t *>(pinned_wkb.data()) + at.begin;
		return JoinRow {at.size > 0 ? wkb : nullptr, at.size};
	}
	if (kind == Kind::SHAPES) {
		auto &at = shapes.Rows()[row];
		if (at.size != vibe::WkbRow::PACKED) {
			return JoinRow {shapes.Wkb(row), at.size};
		}
		auto &wkb = packed_wkb[at.begin];
		return JoinRow {reinterpret_cast<const uint8_t *>(wkb.data()), static_cast<uint32_t>(wkb.size())};
	}
	auto &point = points[row];
	if (point.x != point.x) {
		return JoinRow {nullptr, 0};
	}
	buffer = WritePoint(point);
	return JoinRow {buffer.data(), static_cast<uint32_t>(buffer.size())};
}

void TileRows::PackShapes(const JoinSession &session, const JoinIndex &index) {
	//! With fewer bytes one thread is done before another could help
	constexpr size_t BYTES_TO_SHARE = 256 << 10;
	auto &packed_rows = shapes.PackedRows();
	if (packed_rows.empty()) {
		return;
	}
	const auto cuts = PackedShapes::CutPieces(0, packed_rows.size(), [&](size_t i) {
		PointBytes unused;
		return Read(packed_rows[i], unused).size;
	});
	auto &pieces = shapes.packed;
	pieces.clear();
	pieces.resize(cuts.size() - 1);
	std::vector<std::vector<uint32_t>> for_cpu(pieces.size());
	auto pack_some = [&](Parallel &parallel) {
		parallel.For(pieces.size(), [&](size_t step) {
			GeometryBatch batch;
			Shape shape;
			for (size_t i = cuts[step]; i < cuts[step + 1]; i++) {
				PackShape(session, index, packed_rows[i], pieces[step], batch, shape, for_cpu[step]);
			}
		});
	};
	if (bytes >= BYTES_TO_SHARE) {
		session.host.Run(pack_some);
	} else {
		Serial serial;
		pack_some(serial);
	}
	cpu_rows.clear();
	for (auto &rows : for_cpu) {
		cpu_rows.insert(cpu_rows.end(), rows.begin(), rows.end());
	}
}

void TileRows::PackShape(const JoinSession &session, const JoinIndex &index, size_t row, PackedShapes &packed,
                         GeometryBatch &batch, Shape &shape, std::vector<uint32_t> &for_cpu) const {
	PointBytes unused;
	const auto wkb = Read(row, unused);
	vibe::Box box;
	const auto probe = index.ReadProbe(wkb, box);
	auto &condition = session.condition;
	const double part = !limits.empty()                               ? limits[row]
	                    : condition.limit_from == JoinLimit::CONSTANT ? condition.limit
	                                                                  : 0;
	const double reach = condition.Effective(part);
	if (probe == JoinIndex::ProbeRow::EMPTY) {
		if (index.EmptyProbesMatter()) {
			for_cpu.push_back(static_cast<uint32_t>(row));
		}
		packed.AddNothing();
	} else if (!(reach > 0 ? vibe::Grow(box, reach) : box).Intersects(index.Bounds())) {
		packed.AddNothing();
	} else if (probe == JoinIndex::ProbeRow::BOX) {
		packed.AddBox(box);
	} else {
		try {
			BuildShape(wkb.data, wkb.size, batch, shape);
			packed.Add(shape.View());
		} catch (const GeometryError &) {
			// Invalid, but an error only where a pair asks for it: the CPU finds out
			packed.AddUnknown(box);
		}
	}
}

} // namespace vibespatial
