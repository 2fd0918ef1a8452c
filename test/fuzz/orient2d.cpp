// The exact predicates of the geometry core behind a C interface, for test/python/test_orient2d.py, which compiles this
// file with the host compiler and compares every sign with integer arithmetic.
#include "vibe/orient2d.h"

extern "C" {

//! cases: count rows of ax ay bx by cx cy
void vibe_orient2d(const double *cases, long long count, signed char *signs) {
	for (long long i = 0; i < count; i++, cases += 6) {
		signs[i] = (signed char)vibe::Orient2d(cases[0], cases[1], cases[2], cases[3], cases[4], cases[5]);
	}
}

//! cases: count rows of ax ay bx by cx cy dx dy; the sign of (b - a) x (d - c)
void vibe_cross_sign(const double *cases, long long count, signed char *signs) {
	for (long long i = 0; i < count; i++, cases += 8) {
		vibe::Vec2 a {cases[0], cases[1]}, b {cases[2], cases[3]}, c {cases[4], cases[5]}, d {cases[6], cases[7]};
		signs[i] = (signed char)vibe::CrossSign(a, b, c, d);
	}
}
}
