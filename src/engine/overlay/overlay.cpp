#include "engine/overlay/overlay.hpp"

#include "engine/overlay/input.hpp"
#include "engine/overlay/parted_union.hpp"
#include "engine/overlay/repair.hpp"
#include "engine/overlay/rings.hpp"
#include "engine/overlay/tuning.hpp"
#include "geometry/wkb.hpp"

namespace vibespatial {

struct Overlay::Work {
	OverlayInput input;
	OverlayArrangement arrangement;
	OverlayRings rings;
	OverlayDevice *device = nullptr;

	//! From the input to rings
	void Arrange(const OverlayRule &rule, Parallel &parallel) {
		input.Prepare(parallel);
		arrangement.grid = input.grid;
		// The rings of one geometry define its inside by parity, valid or not. Of several geometries each polygon must count
		// exactly once.
		auto &net = arrangement.net;
		for (auto side : {LEFT, RIGHT}) {
			net.odd[side] = rule.fill == FillRule::ODD || (input.IsOnePolygonal(side) && rule.least == 1);
		}
		PartedUnion parted(input, arrangement, rings, device, parallel);
		if (PartedUnion::IsFor(input, arrangement, rule) && !input.AreKnownValid() &&
		    input.vertex_count / input.polygons >= overlay_tuning::LARGE_POLYGON && parted.Run(rule, true)) {
			return;
		}
		if (!net.odd[0] || !net.odd[1]) {
			RepairPolygons(input, net.odd, parallel);
		}
		if (PartedUnion::IsFor(input, arrangement, rule)) {
			parted.Run(rule, false);
			return;
		}
		input.ReadAll(parallel);
		arrangement.Arrange(input.chains, input.boxes, input.points, rule, parallel);
		rings.Build(net.edges, arrangement.sweep, input.line_ends, parallel);
		arrangement.Trim();
	}
};

Overlay::Overlay() : work(new Work()) {
}
Overlay::~Overlay() = default;

void Overlay::Add(Side side, const GeometryBatch &batch, size_t row) {
	work->input.Add(side, batch, row);
}

void Overlay::AddWkb(Side side, const uint8_t *wkb, size_t size) {
	work->input.AddWkb(side, wkb, size);
}

bool Overlay::AddPolygons(Side side, const WkbSlice *geometries, size_t count, Parallel &parallel) {
	return work->input.AddPolygons(side, geometries, count, parallel);
}

bool Overlay::AddKnown(Side side, const KnownRows &rows, const uint32_t *numbers, size_t count, Parallel &parallel) {
	return work->input.AddKnown(side, rows, numbers, count, parallel);
}

void Overlay::AddRing(Side side, const vibe::Vec2 *points, size_t count) {
	work->input.AddRing(side, points, count);
}

void Overlay::AddLine(Side side, const vibe::Vec2 *points, size_t count) {
	work->input.AddLine(side, points, count);
}

void Overlay::AddPoint(Side side, const vibe::Vec2 &point) {
	work->input.AddPoint(side, point);
}

void Overlay::Run(const OverlayRule &rule, Parallel &parallel, GeometryBatch &out) {
	work->Arrange(rule, parallel);
	work->rings.Write(work->input.ResultDimension(rule.op), 1 / work->input.scale, out);
	work->input.Clear();
}

void Overlay::Run(const OverlayRule &rule, Parallel &parallel, const std::function<uint8_t *(size_t)> &allocate) {
	work->Arrange(rule, parallel);
	if (work->rings.AreasOnly()) {
		work->rings.WriteWkb(1 / work->input.scale, allocate(work->rings.WkbSize()), parallel);
	} else {
		GeometryBatch batch;
		work->rings.Write(work->input.ResultDimension(rule.op), 1 / work->input.scale, batch);
		vibespatial::WriteWkb(batch, 0, allocate(vibespatial::WkbSize(batch, 0)));
	}
	work->input.Clear();
}

void Overlay::Clear() {
	work->input.Clear();
}

void Overlay::UseDevice(OverlayDevice *device) {
	work->device = device;
}

} // namespace vibespatial
