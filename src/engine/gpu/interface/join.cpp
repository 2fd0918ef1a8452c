#include "engine/gpu/interface/join.hpp"

#include "engine/relate/prepared.hpp"
#include "geometry/error.hpp"
#include "vibe/pairs.h"

#include <cstring>

namespace vibespatial {

template <class T>
const T *PackedShapes::Append(const T *items, size_t count) {
	const size_t at = bytes.size(), size = (count * sizeof(T) + 7) / 8 * 8;
	if (bytes.capacity() - at < size) {
		// The vector itself would move its bytes one by one
		UninitializedVector<uint8_t> larger;
		larger.reserve(std::max(2 * bytes.capacity(), at + size));
		larger.resize(at);
		if (at > 0) {
			std::memcpy(larger.data(), bytes.data(), at);
		}
		bytes.swap(larger);
	}
	bytes.resize(at + size);
	if (count > 0) {
		std::memcpy(bytes.data() + at, items, count * sizeof(T));
	}
	return reinterpret_cast<const T *>(at); // NOLINT: an offset, where a pointer will be
}

void PackedShapes::Add(const vibe::ShapeView &view) {
	vibe::ShapeView packed = view;
	packed.x = Append(view.x, view.vertex_count);
	packed.y = Append(view.y, view.vertex_count);
	packed.vertex_ring = Append(view.vertex_ring, view.vertex_count);
	packed.rings = Append(view.rings, view.ring_count);
	packed.element_begin = Append(view.element_begin, size_t(view.element_count) + 1);
	packed.element_box = Append(view.element_box, view.element_count);
	packed.points = Append(view.points, view.point_count);
	packed.ends = Append(view.ends, view.end_count);
	packed.boxes = Append(view.boxes, view.level_begin[view.level_count]);
	views.push_back(packed);
}

void PackedShapes::AddBare(const vibe::Box &box, int dimension) {
	const vibe::u32 zero = 0;
	vibe::ShapeView bare {};
	bare.element_begin = &zero;
	bare.box = box;
	bare.dimension = dimension;
	Add(bare);
}

void PackedShapes::AddNothing() {
	AddBare(vibe::Box::Empty(), -1);
}

void PackedShapes::AddBox(const vibe::Box &box) {
	AddBare(box, 0);
}

void PackedShapes::AddUnknown(const vibe::Box &box) {
	AddBare(box, vibe::DIMENSION_UNKNOWN);
}

void PackedShapes::AddWkb(const JoinRow &row, const vibe::Box &box) {
	GeometryBatch scratch;
	Shape shape;
	try {
		BuildShape(row.data, row.size, scratch, shape);
	} catch (const GeometryError &) {
		AddUnknown(box);
		return;
	}
	Add(shape.View());
}

std::vector<size_t> PackedShapes::CutPieces(size_t begin, size_t end,
                                            const std::function<size_t(size_t row)> &bytes_of) {
	constexpr size_t MAX_ROWS = 128, ENOUGH_BYTES = 128 << 10;
	std::vector<size_t> cuts;
	size_t bytes = 0;
	for (size_t row = begin; row < end; row++) {
		if (row == begin || row - cuts.back() == MAX_ROWS || bytes >= ENOUGH_BYTES) {
			cuts.push_back(row);
			bytes = 0;
		}
		bytes += bytes_of(row);
	}
	cuts.push_back(end);
	return cuts;
}

vibe::ShapeView PackedShapes::At(vibe::ShapeView view, const uint8_t *base) {
	auto move = [&](auto *&pointer) {
		using Pointer = std::remove_reference_t<decltype(pointer)>;
		pointer = reinterpret_cast<Pointer>(base + reinterpret_cast<uintptr_t>(pointer));
	};
	move(view.x);
	move(view.y);
	move(view.vertex_ring);
	move(view.rings);
	move(view.element_begin);
	move(view.element_box);
	move(view.points);
	move(view.ends);
	move(view.boxes);
	return view;
}

bool ShapeRows::IsForDevice(const uint8_t *wkb, size_t size) {
	return size >= vibe::WKB_LEAST_MEMBER && size <= MAX_WKB_BYTES &&
	       vibe::WkbTypeOf(vibe::LoadCount(wkb + 1)) != vibe::WKB_COLLECTION;
}

bool ShapeRows::ArePoints(const uint8_t *wkb) {
	const auto type = vibe::WkbTypeOf(vibe::LoadCount(wkb + 1));
	return type == vibe::WKB_POINT || type == vibe::WKB_MULTIPOINT;
}

void WkbLayout::Read(size_t number, const JoinRow *rows) {
	auto &part = parts[number];
	for (size_t i = Begin(number); i < End(number); i++) {
		auto &row = rows[i];
		if (!row.data) {
			numbers[i] = vibe::WkbRow {static_cast<uint32_t>(part.bytes), 0};
			continue;
		}
		part.has_large = part.has_large || row.size > ShapeRows::LARGE_WKB_BYTES;
		if (!ShapeRows::IsForDevice(row.data, row.size)) {
			numbers[i] = vibe::WkbRow {static_cast<uint32_t>(part.bytes), vibe::WkbRow::PRESENT};
			part.packed.push_back(static_cast<uint32_t>(i));
			continue;
		}
		part.has_points = part.has_points || ShapeRows::ArePoints(row.data);
		if (part.last_bytes + row.size > STEP_BYTES) {
			part.cuts.push_back(i);
			part.last_bytes = 0;
		}
		numbers[i] = vibe::WkbRow {static_cast<uint32_t>(part.bytes), row.size};
		part.bytes += row.size;
		part.last_bytes += row.size;
	}
}

void WkbLayout::MakeGroups(Parallel &parallel) {
	std::vector<size_t> begins(parts.size());
	for (size_t i = 0; i < parts.size(); i++) {
		if (groups.empty() || groups.back().bytes + parts[i].bytes > GROUP_BYTES) {
			groups.push_back(Group {i, i, 0});
		}
		begins[i] = groups.back().bytes;
		groups.back().bytes += parts[i].bytes;
		groups.back().end = i + 1;
	}
	parallel.For(parts.size(), [&](size_t part) {
		for (size_t row = Begin(part); row < End(part); row++) {
			numbers[row].begin += static_cast<uint32_t>(begins[part]);
		}
	});
}

void AddLeftShapes(const std::vector<uint32_t> &left, const JoinRow *rows, const ShapePacker &pack, Parallel &parallel,
                   const std::function<void(const std::vector<PackedShapes> &pieces)> &add) {
	//! A round of pieces ends with the row that brings it to this size
	constexpr size_t BYTES_PER_ROUND = WkbLayout::GROUP_BYTES;
	for (size_t begin = 0, end = 0; begin < left.size(); begin = end) {
		size_t bytes = 0;
		while (end < left.size() && bytes < BYTES_PER_ROUND) {
			bytes += rows[left[end++]].size;
		}
		const auto cuts = PackedShapes::CutPieces(begin, end, [&](size_t i) { return rows[left[i]].size; });
		std::vector<PackedShapes> pieces(cuts.size() - 1);
		parallel.For(pieces.size(), [&](size_t piece) {
			for (size_t i = cuts[piece]; i < cuts[piece + 1]; i++) {
				pack(left[i], pieces[piece]);
			}
		});
		add(pieces);
	}
}

void AddLeftShapes(GpuRowUpload &upload, const JoinRow *rows, const ShapePacker &pack, Parallel &parallel) {
	AddLeftShapes(upload.LeftRows(), rows, pack, parallel,
	              [&](const std::vector<PackedShapes> &pieces) { upload.AddShapes(pieces, parallel); });
}

void ShapeRows::Clear(Memory memory_p) {
	memory = std::move(memory_p);
	if (memory) {
		own_blocks.clear();
	}
	blocks.clear();
	rows.clear();
	packed.clear();
	packed_rows.clear();
	used = 0;
	wkb_bytes = 0;
	has_points = false;
	has_large = false;
}

void ShapeRows::AddWkb(const uint8_t *wkb, size_t size) {
	if (used + size > blocks.size() * BLOCK_BYTES) {
		const size_t number = blocks.size();
		uint8_t *block = memory ? memory(number) : nullptr;
		if (!block) {
			if (own_blocks.size() <= number) {
				own_blocks.resize(number + 1);
			}
			if (!own_blocks[number]) {
				own_blocks[number].reset(new uint8_t[BLOCK_BYTES]); // NOLINT: written before it is read
			}
			block = own_blocks[number].get();
		}
		used = number * BLOCK_BYTES;
		blocks.push_back(block);
	}
	std::memcpy(blocks.back() + used % BLOCK_BYTES, wkb, size);
	rows.push_back(vibe::WkbRow {static_cast<uint32_t>(used), static_cast<uint32_t>(size)});
	used += size;
	wkb_bytes += size;
	has_points = has_points || ArePoints(wkb);
	has_large = has_large || size > LARGE_WKB_BYTES;
}

void ShapeRows::AddPacked() {
	packed_rows.push_back(static_cast<uint32_t>(rows.size()));
	rows.push_back(vibe::WkbRow {static_cast<uint32_t>(packed_rows.size() - 1), vibe::WkbRow::PACKED});
}

size_t ShapeRows::Bytes() const {
	size_t bytes = wkb_bytes + rows.size() * sizeof(vibe::WkbRow);
	for (auto &piece : packed) {
		bytes += piece.bytes.size() + piece.views.size() * sizeof(vibe::ShapeView);
	}
	return bytes;
}

size_t ShapeRows::OwnBytes() const {
	size_t bytes = rows.capacity() * sizeof(vibe::WkbRow);
	for (auto &block : own_blocks) {
		bytes += block ? BLOCK_BYTES : 0;
	}
	for (auto &piece : packed) {
		bytes += piece.bytes.capacity() + piece.views.capacity() * sizeof(vibe::ShapeView);
	}
	return bytes;
}

const uint8_t *ShapeRows::Wkb(size_t row) const {
	const auto at = rows[row];
	return at.size > 0 ? blocks[at.begin / BLOCK_BYTES] + at.begin % BLOCK_BYTES : nullptr;
}

} // namespace vibespatial
