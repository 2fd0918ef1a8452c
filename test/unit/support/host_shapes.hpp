//===----------------------------------------------------------------------===//
// host_shapes.hpp
//
// What a device makes of ShapeRows, on the host. Include it after the unit wkb_encode.
//===----------------------------------------------------------------------===//
#pragma once

#include "host_cuda.hpp"

#include "engine/gpu/interface/join.hpp"

#include <vector>

namespace vibespatial {

//! Shapes made by the device's kernel
struct HostShapes {
	std::vector<uint8_t> wkb;
	std::vector<vibe::WkbRow> rows;
	std::vector<PackedShapes> packed;
	std::vector<vibe::ShapeView> views;
	std::vector<uint32_t> left;
	//! Some of the WKB are points; some rows are large
	bool has_points = false;
	bool has_large = false;

	//! All rows; the packed ones stay where they are
	void Make(const ShapeRows &from, size_t first, size_t count, bool leave_empty) {
		const auto &all = from.Rows();
		rows.assign(all.begin() + first, all.begin() + first + count);
		wkb.clear();
		for (size_t i = 0; i < count; i++) {
			if (rows[i].size > 0 && rows[i].size != vibe::WkbRow::PACKED) {
				rows[i].begin = static_cast<uint32_t>(wkb.size());
				wkb.insert(wkb.end(), from.Wkb(first + i), from.Wkb(first + i) + rows[i].size);
			}
		}
		views.assign(count, vibe::ShapeView {});
		Run(from.packed, leave_empty);
	}
	void Make(const GpuRows &from) {
		auto &layout = *from.layout;
		rows.assign(layout.numbers.begin(), layout.numbers.end());
		wkb.clear();
		std::vector<uint32_t> odd;
		for (auto &group : layout.groups) {
			const auto at = static_cast<uint32_t>(wkb.size());
			wkb.resize(at + group.bytes);
			for (size_t i = layout.Begin(group.begin); i < layout.End(group.end - 1); i++) {
				rows[i].begin += at;
				if (rows[i].size != vibe::WkbRow::PRESENT && rows[i].size > 0) {
					std::copy_n(from.wkb[i].data, rows[i].size, wkb.data() + rows[i].begin);
				}
			}
		}
		for (auto &part : layout.parts) {
			odd.insert(odd.end(), part.packed.begin(), part.packed.end());
			has_points = has_points || part.has_points;
			has_large = has_large || part.has_large;
		}
		views.assign(from.count, vibe::ShapeView {});
		Run({}, false);
		odd.insert(odd.end(), left.begin(), left.end());
		packed.assign(1, PackedShapes());
		for (auto &row : rows) {
			row.size = vibe::WkbRow::PRESENT;
		}
		for (size_t i = 0; i < odd.size(); i++) {
			from.pack(odd[i], packed[0]);
			rows[odd[i]] = vibe::WkbRow {static_cast<uint32_t>(i), vibe::WkbRow::PACKED};
		}
		auto made = std::move(memory);
		Run(packed, false);
		memory = std::move(made); // the shapes that stay are there
	}

private:
	void Run(const std::vector<PackedShapes> &pieces, bool leave_empty) {
		std::vector<vibe::ShapeView> packed_views;
		for (auto &piece : pieces) {
			for (auto &view : piece.views) {
				packed_views.push_back(PackedShapes::At(view, piece.bytes.data()));
			}
		}
		const auto count = static_cast<uint32_t>(rows.size());
		vibe::u64 used = 0, left_count = 0;
		left.assign(count, 0);
		// In exactly as much as the kernel itself says
		auto run = [&](vibe::u8 *at) {
			const vibe::u64 capacity = used;
			used = left_count = 0;
			host_cuda::Launch(wkb_encode_unit::wkb_shapes, count, true, wkb.data(), rows.data(), count,
			                  packed_views.data(), vibe::ShapeMemory {at, &used, capacity}, leave_empty ? 1u : 0u,
			                  views.data(), left.data(), &left_count);
		};
		run(nullptr);
		memory.assign(used / 8 + 1, 0);
		run(reinterpret_cast<vibe::u8 *>(memory.data()));
		left.resize(left_count);
	}

	std::vector<uint64_t> memory;
};

} // namespace vibespatial
