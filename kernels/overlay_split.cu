//===----------------------------------------------------------------------===//
// overlay_split
//
// Promise: which segments are split, and how often, is exact; crossings are bounded (vibe/split.h). Segments that meet are
// cut at their contacts: count, then write, then sort by segment and key. Segment i runs from segments[2 * i] to
// segments[2 * i + 1] and has a positive length. One thread a pair.
//===----------------------------------------------------------------------===//
#include "vibe/split.h"
#include "vibe/thread.h"

struct CountSplits {
	vibe::i32 count;

	VIBE_HD void operator()(const vibe::Vec2 &) {
		count++;
	}
};

struct WriteSplits {
	vibe::Vec2 p, q;
	vibe::i32 segment;
	vibe::Vec2 *points;
	vibe::i32 *segments;
	vibe::u64 *keys;

	VIBE_HD void operator()(const vibe::Vec2 &point) {
		*points++ = point;
		*segments++ = segment;
		*keys++ = vibe::SplitKey(p, q, point);
	}
};

//! At how many points each pair splits its left and its right segment
extern "C" __global__ void split_counts(const vibe::Vec2 *left, const vibe::Vec2 *right, const vibe::i32 *left_ids,
                                        const vibe::i32 *right_ids, vibe::u64 count, vibe::i32 *left_counts,
                                        vibe::i32 *right_counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::Vec2 *a = left + 2 * (vibe::u64)left_ids[i], *b = right + 2 * (vibe::u64)right_ids[i];
	const vibe::SegmentContact contact = vibe::Contact(a[0], a[1], b[0], b[1]);
	CountSplits of_left {0}, of_right {0};
	vibe::VisitSplits(contact, a[0], a[1], a[0], of_left);
	vibe::VisitSplits(contact, b[0], b[1], b[0], of_right);
	left_counts[i] = of_left.count;
	right_counts[i] = of_right.count;
}

//! The points, each with its segment and a key that grows along it; positions are the exclusive scans of the counts
extern "C" __global__ void split_points(const vibe::Vec2 *left, const vibe::Vec2 *right, const vibe::i32 *left_ids,
                                        const vibe::i32 *right_ids, vibe::u64 count, const vibe::i32 *left_position,
                                        const vibe::i32 *right_position, vibe::Vec2 *left_points,
                                        vibe::i32 *left_segments, vibe::u64 *left_keys, vibe::Vec2 *right_points,
                                        vibe::i32 *right_segments, vibe::u64 *right_keys) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::Vec2 *a = left + 2 * (vibe::u64)left_ids[i], *b = right + 2 * (vibe::u64)right_ids[i];
	const vibe::SegmentContact contact = vibe::Contact(a[0], a[1], b[0], b[1]);
	const vibe::Vec2 crossing =
	    contact.kind == vibe::CONTACT_CROSS ? vibe::CrossingPoint(a[0], a[1], b[0], b[1]) : a[0];
	const vibe::i32 l = left_position[i], r = right_position[i];
	WriteSplits of_left {a[0], a[1], left_ids[i], left_points + l, left_segments + l, left_keys + l};
	WriteSplits of_right {b[0], b[1], right_ids[i], right_points + r, right_segments + r, right_keys + r};
	vibe::VisitSplits(contact, a[0], a[1], crossing, of_left);
	vibe::VisitSplits(contact, b[0], b[1], crossing, of_right);
}
