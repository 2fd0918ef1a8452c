//===----------------------------------------------------------------------===//
// duckdb/overlay/work.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/overlay/dispatch.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/overlay/overlay.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb_edit.hpp"

namespace duckdb {

//! The overlays of one thread, one after the other, in the QueryScope of the function that asks for them. Large ones run on all
//! threads, and unions of many polygons on a device where that was chosen.
class OverlayWork {
public:
	explicit OverlayWork(ClientContext &context) : context(context), overlay(make_uniq<vibespatial::Overlay>()) {
	}

	//! Forgets what was added and not run
	void Begin() {
		if (IsLarge()) {
			// So much memory is not kept
			overlay = make_uniq<vibespatial::Overlay>();
			output = vibespatial::GeometryBatch();
		}
		overlay->Clear();
		bytes = 0;
	}
	//! May throw vibespatial::GeometryError
	void Add(vibespatial::Overlay::Side side, vibespatial::WkbSlice geometry) {
		overlay->AddWkb(side, geometry.data, geometry.size);
		bytes += geometry.size;
	}
	//! Each member of a geometry by itself, so that those that overlap are united
	void AddMembers(vibespatial::Overlay::Side side, vibespatial::WkbSlice geometry) {
		idx_t members = 0;
		try {
			vibespatial::Dump(geometry, [&](vibespatial::WkbSlice member, const int32_t *, size_t) {
				members++;
				Add(side, member);
			});
		} catch (const vibespatial::GeometryError &) {
			// Says which member it is
			Add(side, geometry);
			throw;
		}
		if (members == 0) {
			// EMPTY has a type
			Add(side, geometry);
		}
	}
	//! The EMPTY geometry of a leaf type, until the next call
	const vibespatial::GeometryBatch &Empty(vibespatial::GeometryType type) {
		output.Clear();
		output.BeginRow(type, vibespatial::VERTEX_XY);
		output.BeginNode(type, 0);
		output.BeginPart(vibespatial::FamilyOf(type));
		output.EndRow();
		return output;
	}
	//! The result, until the next call
	const vibespatial::GeometryBatch &Run(const vibespatial::OverlayRule &rule) {
		output.Clear();
		if (!IsLarge()) {
			vibespatial::Serial serial;
			overlay->UseDevice(nullptr);
			overlay->Run(rule, serial, output);
			return output;
		}
		OverlayDispatch device(context);
		overlay->UseDevice(&device);
		TaskThreads(context).Run([&](vibespatial::Parallel &parallel) { overlay->Run(rule, parallel, output); });
		CountDevice(device);
		return output;
	}
	//! The union of all members of these geometries as a string of `result`, after Begin(). `pinned`: they are rows of it, by these
	//! numbers, or it says why not; may be null.
	string_t Unite(const vector<vibespatial::WkbSlice> &geometries, Vector &result,
	               optional_ptr<const PinnedPolygons> pinned, const vector<uint32_t> &numbers) {
		constexpr auto LEFT = vibespatial::Overlay::LEFT;
		idx_t all = 0;
		for (auto &geometry : geometries) {
			all += geometry.size;
		}
		if (all < LARGE) {
			for (auto &geometry : geometries) {
				AddMembers(LEFT, geometry);
			}
			return EmitRow(result, Run(vibespatial::OverlayRule {}));
		}
		string_t made;
		OverlayDispatch device(context, pinned);
		overlay->UseDevice(&device);
		const bool by_number = pinned && pinned->HasRows();
		TaskThreads(context).Run([&](vibespatial::Parallel &parallel) {
			if ((by_number && overlay->AddKnown(LEFT, pinned->Rows(), numbers.data(), numbers.size(), parallel)) ||
			    overlay->AddPolygons(LEFT, geometries.data(), geometries.size(), parallel)) {
				bytes = all;
			} else {
				for (auto &geometry : geometries) {
					AddMembers(LEFT, geometry);
				}
			}
			overlay->Run(vibespatial::OverlayRule {}, parallel, [&](size_t size) {
				RequireValueSize(size);
				CountValue(size);
				made = StringVector::EmptyString(result, size);
				return data_ptr_cast(made.GetDataWriteable());
			});
		});
		made.Finalize();
		CountDevice(device);
		return made;
	}
	bool IsLarge() const {
		return bytes >= LARGE;
	}
	//! Bytes of WKB from which on other threads are called
	static constexpr idx_t LARGE = 1 << 18;

private:
	static void CountDevice(const OverlayDispatch &device) {
		if (device.IsLogged()) {
			CpuWork::CountDeviceCall();
		}
	}

	ClientContext &context;
	unique_ptr<vibespatial::Overlay> overlay;
	vibespatial::GeometryBatch output;
	//! Of WKB since Begin
	idx_t bytes = 0;
};

} // namespace duckdb
