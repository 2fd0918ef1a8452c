"""Distances between geometries by exact rational arithmetic."""

import math
from fractions import Fraction

from . import exact_relate, wkb
from .exact_relate import in_box, orientation


def point_point(p, q):
    return (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2


def point_segment(p, a, b):
    """The squared distance of p from the segment ab."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    along = (p[0] - a[0]) * dx + (p[1] - a[1]) * dy
    length = dx * dx + dy * dy
    if along <= 0:
        return point_point(p, a)
    if along >= length:
        return point_point(p, b)
    return Fraction(orientation(a, b, p) ** 2, length)


def segments_meet(a, b, c, d):
    to_c, to_d, to_a, to_b = orientation(a, b, c), orientation(a, b, d), orientation(c, d, a), orientation(c, d, b)
    if to_a and to_b and to_c and to_d:
        return (to_c > 0) != (to_d > 0) and (to_a > 0) != (to_b > 0)
    return (
        (to_c == 0 and in_box(c, a, b))
        or (to_d == 0 and in_box(d, a, b))
        or (to_a == 0 and in_box(a, c, d))
        or (to_b == 0 and in_box(b, c, d))
    )


def segment_segment(a, b, c, d):
    if segments_meet(a, b, c, d):
        return 0
    return min(point_segment(a, c, d), point_segment(b, c, d), point_segment(c, a, b), point_segment(d, a, b))


def _segments(shape):
    for line in shape.lines:
        yield from ((p, q) for p, q in zip(line, line[1:]) if p != q)
    for polygon in shape.polygons:
        yield from polygon.edges


def _a_point_of_each_part(shape):
    yield from shape.points
    yield from (line[0] for line in shape.lines)
    yield from (polygon.edges[0][0] for polygon in shape.polygons)


def squared_distance(wkb_a, wkb_b):
    """The exact squared distance; None when a geometry is empty."""
    parts = wkb.read(wkb_a), wkb.read(wkb_b)
    scale = exact_relate._scale(*parts)
    a, b = (exact_relate.Shape(p, scale) for p in parts)
    if a.dimension() < 0 or b.dimension() < 0:
        return None
    edges_a, edges_b = list(_segments(a)), list(_segments(b))
    best = min(
        [point_point(p, q) for p in a.points for q in b.points]
        + [point_segment(p, *edge) for p in a.points for edge in edges_b]
        + [point_segment(p, *edge) for p in b.points for edge in edges_a]
        + [segment_segment(*edge, *other) for edge in edges_a for other in edges_b]
    )
    # Apart from the boundaries, they meet only when a whole part of one lies inside a polygon of the other
    if best and (
        any(polygon.has_inside(p) for polygon in a.polygons for p in _a_point_of_each_part(b))
        or any(polygon.has_inside(p) for polygon in b.polygons for p in _a_point_of_each_part(a))
    ):
        best = 0
    return Fraction(best) / scale**2


def ulps_off(value, squared):
    """How many ulps of value lie between it and the square root of an exact number: 0, 0.5, 1, 2, 4, ... rounded up."""
    if value < 0 or not math.isfinite(value):
        return math.inf
    if squared == 0:
        return 0 if value == 0 else math.inf
    exact, ulp = Fraction(value), Fraction(math.ulp(value))
    if exact**2 == squared:
        return 0
    bound = Fraction(1, 2)
    while bound < 2**60:
        if max(exact - bound * ulp, 0) ** 2 <= squared <= (exact + bound * ulp) ** 2:
            return float(bound)
        bound *= 2
    return math.inf
