//===----------------------------------------------------------------------===//
// calibration
//
// Promise: the counts that the host finds. Work to measure a device by: which side of edges points lie on, the exact test that most of the
// kernels spend their time on, with edges that are read from memory one after the other.
//===----------------------------------------------------------------------===//
#include "vibe/orient2d.h"
#include "vibe/thread.h"

//! Each thread visits `steps` edges of a ring of `size` vertices, a power of two. `next` has the edge to visit after each.
extern "C" __global__ void edge_sides(const vibe::Vec2 *ring, const vibe::u32 *next, vibe::u32 size, vibe::u32 steps,
                                      vibe::u32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	vibe::u32 at = (vibe::u32)i & (size - 1), count = 0;
	const vibe::Vec2 point {ring[at].x * 0.5, ring[at].y * 0.25};
	for (vibe::u32 step = 0; step < steps; step++) {
		count += vibe::Orient2d(ring[at], ring[(at + 1) & (size - 1)], point) > 0 ? 1 : 0;
		at = next[at];
	}
	counts[i] = count;
}
