//===----------------------------------------------------------------------===//
// geometries.cpp
//
// Relate, overlays, buffers and validity of small geometries, against what must hold for any of them
//===----------------------------------------------------------------------===//
#include "targets.hpp"

#include "reader_checks.hpp"
#include "shape_source.hpp"

#include "engine/constructive/buffer.hpp"
#include "engine/constructive/make_valid.hpp"
#include "engine/measure/measure.hpp"
#include "engine/relate/intersects.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/relate/relate.hpp"
#include "engine/relate/validity.hpp"

namespace vibespatial {
namespace fuzz {

namespace {

void NoteInput(const uint8_t *data, size_t size) {
	current_input.assign(reinterpret_cast<const char *>(data), size);
}

//! Sizes of numbers for which squares are neither zero nor infinite
bool CanMeasure(double reach) {
	return reach == 0 || (reach > 1e-100 && reach < 1e100);
}

//! What rounding may do to an area: a few units of the last place at each of some hundred vertices
double AreaTolerance(double reach) {
	return 1e-11 * reach * reach;
}

//! The polygons of one operation on two rows
double OverlayArea(const GeometryBatch &batch, size_t a, size_t b, OverlayOp op, Overlay &overlay, GeometryBatch &out) {
	Serial serial;
	overlay.Add(Overlay::LEFT, batch, a);
	overlay.Add(Overlay::RIGHT, batch, b);
	OverlayRule rule;
	rule.op = op;
	overlay.Run(rule, serial, out);
	Require(IsValid(out, out.RowCount() - 1), "the result of an overlay is valid");
	return Area(out.View(out.RowCount() - 1));
}

} // namespace

void FuzzRelate(const uint8_t *data, size_t size) {
	NoteInput(data, size);
	ShapeSource source(data, size);
	GeometryBatch batch;
	source.Geometry(batch);
	source.Geometry(batch);
	if (!IsUsable(batch, 0) || !IsUsable(batch, 1)) {
		return;
	}
	Shape a, b;
	a.Build(batch.View(0));
	b.Build(batch.View(1));
	static RelateScratch scratch;
	const auto matrix = Relate(a.View(), b.View(), scratch);
	const auto transposed = Relate(b.View(), a.View(), scratch);
	if (!IsValid(batch, 0) || !IsValid(batch, 1)) {
		// The matrix of a polygon that is none says nothing; it must not take the process with it
		return;
	}
	Require(vibe::Transpose(matrix) == transposed, "the matrix of b and a is that of a and b, transposed");
	for (int number = vibe::PREDICATE_INTERSECTS; number <= vibe::PREDICATE_EQUALS; number++) {
		const auto predicate = static_cast<vibe::Predicate>(number);
		Require(Evaluate(predicate, a.View(), b.View(), scratch) ==
		            vibe::Holds(predicate, matrix, a.View().dimension, b.View().dimension),
		        "a predicate is that of the whole matrix");
	}
	if (IsLinesOrArea(a.View()) && IsLinesOrArea(b.View())) {
		Require(Intersect(a.View(), b.View()) ==
		            vibe::Holds(vibe::PREDICATE_INTERSECTS, matrix, a.View().dimension, b.View().dimension),
		        "both ways to say that geometries intersect agree");
	}
	// Built from bytes, and asked for points
	const auto wkb = WriteWkb(batch, 0);
	Shape plain;
	if (plain.BuildPlain(Data(wkb), wkb.size())) {
		Require(Relate(plain.View(), b.View(), scratch) == matrix, "a shape from bytes is that from columns");
	}
	const PreparedGeometry prepared(Data(wkb), wkb.size());
	Require(Relate(prepared.View(), b.View(), scratch) == matrix, "a prepared geometry gives the same matrix");
	for (auto i = batch.ring_start[batch.part_ring[batch.row_part[1]]]; prepared.IsArea() && i < batch.x.size(); i++) {
		const vibe::Vec2 point {batch.x[i], batch.y[i]};
		Require(prepared.Locate(point) == Locate(a.View(), point, scratch), "both ways to locate a point agree");
	}
}

void FuzzOverlay(const uint8_t *data, size_t size) {
	NoteInput(data, size);
	ShapeSource source(data, size);
	GeometryBatch input, batch, out;
	Overlay overlay;
	Serial serial;
	source.Polygons(input);
	source.Polygons(input);
	MakeValid(input, 0, overlay, serial, batch);
	MakeValid(input, 1, overlay, serial, batch);
	const auto a = Area(batch.View(0)), b = Area(batch.View(1));
	const auto both = OverlayArea(batch, 0, 1, OverlayOp::INTERSECTION, overlay, out);
	const auto any = OverlayArea(batch, 0, 1, OverlayOp::UNION, overlay, out);
	const auto left = OverlayArea(batch, 0, 1, OverlayOp::DIFFERENCE, overlay, out);
	const auto one = OverlayArea(batch, 0, 1, OverlayOp::SYM_DIFFERENCE, overlay, out);
	// The other order gives the same bits
	OverlayArea(batch, 1, 0, OverlayOp::UNION, overlay, out);
	Require(WriteWkb(out, 1) == WriteWkb(out, 4), "a union is the same in both orders");
	if (!CanMeasure(source.Reach())) {
		return;
	}
	const auto tolerance = AreaTolerance(source.Reach());
	Require(std::fabs(any + both - a - b) <= tolerance, "union and intersection have the area of both");
	Require(std::fabs(left + both - a) <= tolerance, "difference and intersection have the area of the first");
	Require(std::fabs(one + both - any) <= tolerance,
	        "symmetric difference and intersection have the area of the union");
	GeometryBatch pair, rest;
	pair.BeginRow(out.type[0], VERTEX_XY);
	pair.CopyNodes(out, out.row_node[0], out.row_node[1], out.row_part[0]);
	pair.EndRow();
	pair.BeginRow(batch.type[0], VERTEX_XY);
	pair.CopyNodes(batch, batch.row_node[0], batch.row_node[1], batch.row_part[0]);
	pair.EndRow();
	Require(OverlayArea(pair, 0, 1, OverlayOp::DIFFERENCE, overlay, rest) <= tolerance,
	        "an intersection lies within the first");
}

void FuzzBuffer(const uint8_t *data, size_t size) {
	NoteInput(data, size);
	ShapeSource source(data, size);
	BufferStyle style;
	style.quad_segs = 1 + source.Byte() % 8;
	style.cap = static_cast<BufferCap>(source.Byte() % 3);
	style.join = static_cast<BufferJoin>(source.Byte() % 3);
	const auto quarters = static_cast<int8_t>(source.Byte());
	GeometryBatch input, batch, out;
	Overlay overlay;
	Serial serial;
	source.Geometry(input);
	MakeValid(input, 0, overlay, serial, batch);
	const auto reach = source.Reach();
	const auto distance = quarters / 4.0 * (reach > 100 || (reach > 0 && reach < 0.01) ? reach / 16 : 1);
	const auto problem = ErrorOf([&]() { Buffer(batch, 0, distance, style, overlay, serial, out); });
	if (!problem.empty()) {
		Require(!CanMeasure(reach), "a buffer is refused only where numbers end");
		return;
	}
	Require(IsValid(out, 0), "a buffer is valid");
	if (!CanMeasure(reach)) {
		return;
	}
	if (distance > 0 && style.cap == BufferCap::ROUND && style.join == BufferJoin::ROUND) {
		Shape buffer, inside;
		buffer.Build(out.View(0));
		inside.Build(batch.View(0));
		RelateScratch scratch;
		Require(batch.IsEmpty(0) || Evaluate(vibe::PREDICATE_COVERS, buffer.View(), inside.View(), scratch),
		        "a buffer covers what it is around");
	}
	if (distance < 0) {
		Require(Area(out.View(0)) <= Area(batch.View(0)) + AreaTolerance(reach), "a negative buffer is no larger");
	}
}

void FuzzValidity(const uint8_t *data, size_t size) {
	NoteInput(data, size);
	ShapeSource source(data, size);
	GeometryBatch batch;
	Overlay overlay;
	Serial serial;
	source.Geometry(batch);
	const auto valid = IsValid(batch, 0);
	Require(valid == (ValidityReason(batch, 0) == "Valid Geometry"), "the reason agrees");
	GeometryBatch out;
	MakeValid(batch, 0, overlay, serial, out);
	Require(IsValid(out, 0), "what was made valid is valid");
	if (valid && CanMeasure(source.Reach())) {
		Require(std::fabs(Area(out.View(0)) - Area(batch.View(0))) <= AreaTolerance(source.Reach()),
		        "what was valid keeps its area");
	}
	// What is valid stays as it is, in normal form
	GeometryBatch again;
	MakeValid(out, 0, overlay, serial, again);
	Require(std::fabs(Area(again.View(0)) - Area(out.View(0))) <= AreaTolerance(source.Reach()) ||
	            !CanMeasure(source.Reach()),
	        "to make valid twice is to make valid once");
}

} // namespace fuzz
} // namespace vibespatial
