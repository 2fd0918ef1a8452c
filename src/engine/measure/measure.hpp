//===----------------------------------------------------------------------===//
// engine/measure/measure.hpp
//
// Area, length, perimeter and centroid. Formulas, order of operations and error
// bounds: vibe/measure.h. Both inputs give the same bits.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! Area of all polygons: |shell| minus the |holes|, parts summed in order. 0 without polygons.
double Area(const uint8_t *wkb, size_t size);
double Area(const vibe::GeometryView &view);

//! Length of all lines, in XY. 0 without lines.
double Length(const uint8_t *wkb, size_t size);
double Length(const vibe::GeometryView &view);

//! Length of all rings of polygons, in XY. 0 without polygons.
double Perimeter(const uint8_t *wkb, size_t size);
double Perimeter(const vibe::GeometryView &view);

//! A point or, when `empty`, POINT EMPTY. `extra` are the ordinates after x and y, in the order of the vertex
//! type (z, m, or z and m); NaN where there are none.
struct CentroidPoint {
	bool empty;
	double x;
	double y;
	double extra[2];
};

//! The centroid of the parts of the highest dimension that has a weight: area, length, or number of points. Polygons of no
//! area count as lines, lines and rings of no length as points. EMPTY without vertices and where coordinates are not
//! finite. Z and M are weighted alike; a polygon is for them the fan of triangles from the first vertex of its shell, a
//! line of no length the mean of its vertices.
CentroidPoint Centroid(const uint8_t *wkb, size_t size);
CentroidPoint Centroid(const vibe::GeometryView &view);

} // namespace vibespatial
