//===----------------------------------------------------------------------===//
// measures
//
// Promise: bounded, the CPU's bits (vibe/measure.h). Points and numbers made out of rows. One thread a row.
//===----------------------------------------------------------------------===//
#include "vibe/measure.h"
#include "vibe/thread.h"

//! The centroids of rows; NaN in both coordinates, that is POINT EMPTY, where there is none
extern "C" __global__ void row_centroids(vibe::RowsView rows, vibe::u32 count, double *x, double *y) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	vibe::Vec2 centroid;
	if (!vibe::ViewCentroid(rows.Row(i)).Finish(centroid)) {
		centroid.x = centroid.y = vibe::Infinity() - vibe::Infinity();
	}
	x[i] = centroid.x;
	y[i] = centroid.y;
}

//! The areas of rows, 0 without polygons
extern "C" __global__ void row_areas(vibe::RowsView rows, vibe::u32 count, double *areas) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		areas[i] = vibe::ViewArea(rows.Row(i));
	}
}

//! The lengths of the lines of rows, or of the rings of their polygons (vibe::Family)
extern "C" __global__ void row_lengths(vibe::RowsView rows, vibe::u32 count, vibe::u32 family, double *lengths) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		lengths[i] = vibe::ViewLength(rows.Row(i), (vibe::Family)family);
	}
}
