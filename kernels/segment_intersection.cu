//===----------------------------------------------------------------------===//
// segment_intersection
//
// Promise: exact. How segments meet (vibe/segment.h). Segment i runs from segments[2 * i] to segments[2 * i + 1] and has a
// positive length. One thread a segment or a pair.
//===----------------------------------------------------------------------===//
#include "vibe/segment.h"
#include "vibe/thread.h"

//! The boxes of segments, to index them by
extern "C" __global__ void segment_boxes(const vibe::Vec2 *segments, vibe::u32 count, vibe::Box *boxes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		vibe::Box box = vibe::Box::Empty();
		box.Add(segments[2 * i].x, segments[2 * i].y);
		box.Add(segments[2 * i + 1].x, segments[2 * i + 1].y);
		boxes[i] = box;
	}
}

//! vibe::ContactKind of each pair, and where: `first` and `second` are input vertices, and say nothing of a crossing
extern "C" __global__ void segment_contacts(const vibe::Vec2 *left, const vibe::Vec2 *right, const vibe::i32 *left_ids,
                                            const vibe::i32 *right_ids, vibe::u64 count, vibe::u8 *kinds,
                                            vibe::Vec2 *first, vibe::Vec2 *second) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		const vibe::Vec2 *a = left + 2 * (vibe::u64)left_ids[i], *b = right + 2 * (vibe::u64)right_ids[i];
		const vibe::SegmentContact contact = vibe::Contact(a[0], a[1], b[0], b[1]);
		kinds[i] = contact.kind;
		first[i] = contact.first;
		second[i] = contact.second;
	}
}

//! The sign of orient2d for points 3 * i, 3 * i + 1 and 3 * i + 2
extern "C" __global__ void orientations(const vibe::Vec2 *points, vibe::u32 count, vibe::i32 *signs) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		signs[i] = vibe::Orient2d(points[3 * i], points[3 * i + 1], points[3 * i + 2]);
	}
}
