"""Overlays that are known to be hard: the kinds of input that made other libraries fail, on geometries of our own; and, where it lies in the
shared data folder, a file of published cases: overlay_cases.tsv, a line each of source, operation, and one or two geometries as WKT or WKB.

None may fail, take long, or give something invalid. Areas are held against shapely's, and against rational arithmetic where that differs.
"""

import collections
import contextlib
import math
import threading
import time

import numpy as np
import pytest
import shapely
from shapely import LineString, MultiLineString, Polygon

from exact import generators, overlay_checks, overlay_inputs, with_vibespatial

PATIENCE = 10  # seconds until an operation counts as hanging
OPERATIONS = tuple(with_vibespatial.OVERLAYS)


@contextlib.contextmanager
def patience(con):
    """Interrupts what takes too long."""
    timer = threading.Timer(PATIENCE, con.interrupt)
    timer.start()
    start = time.monotonic()
    try:
        yield
    finally:
        timer.cancel()
    assert time.monotonic() - start < PATIENCE


def problems(con, op, case):
    """What is wrong with a result, and what was noted."""
    with patience(con):
        result = shapely.from_wkb(with_vibespatial.overlay(con, op, [[shapely.to_wkb(geometry) for geometry in case]])[0])
    if not shapely.is_valid(case).all():
        return overlay_checks.shape_problems(result), ["invalid input"]
    operands = [[geometry] for geometry in case] if op in OPERATIONS else [case]
    verdict = overlay_checks.judge(op.split("_")[0], operands, result, exact_lower=False)
    return verdict.problems, verdict.notes


# ---------------------------------------------------------------------------------------------------------------------
# Of our own
# ---------------------------------------------------------------------------------------------------------------------
def turned(geometry, angle, centre=(0, 0)):
    c, s = math.cos(angle), math.sin(angle)
    return overlay_inputs.moved(geometry, lambda xy: (xy - centre) @ np.array([[c, s], [-s, c]]) + centre)


def strip(count, angle, x, y):
    """Rectangles in a row, each with corners computed for itself: neighbours share them up to an ulp."""
    return [turned(shapely.box(x + n * 19.56, y, x + (n + 1) * 19.56, y + 6.54), angle) for n in range(count)]


def pencil(count, centre):
    """Needles that all pass through nearly one point."""
    return [turned(Polygon([(-1, -1e-9), (1, -1e-9), (1, 1e-9), (-1, 1e-9)]), math.pi * n / count + 0.1, centre) for n in range(count)]


def comb(count, height, width):
    """A polygon with many thin teeth."""
    teeth = [(x + side * width, height * (1 - side)) for x in range(count) for side in (0, 1)]
    return Polygon([(0, -1), *teeth, (count, -1)])


def circle(x, y, radius, count):
    return Polygon([(x + radius * math.cos(2 * math.pi * n / count), y + radius * math.sin(2 * math.pi * n / count)) for n in range(count)])


def spiral(turns, phase):
    """A band that winds around the origin."""
    angles = np.linspace(0, 2 * math.pi * turns, 40 * turns)
    out = np.column_stack([np.cos(angles + phase), np.sin(angles + phase)]) * (1 + angles)[:, None]
    back = np.column_stack([np.cos(angles + phase), np.sin(angles + phase)]) * (1.9 + angles)[:, None]
    return Polygon(np.concatenate([out, back[::-1]]))


STAR = Polygon([(math.cos(a) * r, math.sin(a) * r) for n in range(200) for a, r in ((n * math.pi / 100, 1 + n % 2),)])
PAIRS = {
    # https://github.com/shapely/shapely/issues/2368: neighbours with an edge in common that differs in the last bit
    "neighbours up to an ulp": strip(2, 0.0249, -314.8, 3.7),
    "far neighbours up to an ulp": strip(2, 1.1, 5e6, 4e6),
    "a star and itself, turned by next to nothing": [STAR, turned(STAR, 1e-15)],
    "a star and itself, turned by little": [STAR, turned(STAR, 1e-11)],
    "a circle and more of its points": [circle(0, 0, 1, 64), shapely.segmentize(circle(0, 0, 1, 64), 0.01)],
    "circles that nearly coincide": [circle(1e5, 1e5, 10, 100), circle(1e5 + 1e-11, 1e5, 10, 100)],
    "circles that touch": [circle(0, 0, 1, 100), circle(2, 0, 1, 100)],
    "combs that cross": [comb(40, 40, 1e-3), turned(comb(40, 40, 1e-3), math.pi / 2, (20, 20))],
    "combs thinner than they can be": [comb(40, 40, 1e-12), turned(comb(40, 40, 1e-12), math.pi / 2, (20, 20))],
    "spirals": [spiral(6, 0), spiral(6, 1e-9)],
    "a buffer and a buffer but little wider": [LineString([(0, 0), (3, 1), (5, -2)]).buffer(width) for width in (1, 1 + 1e-13)],
    # https://github.com/libgeos/geos/issues/1205: a line that ends at a border that its end, rounded, is not on
    "a line with its end nearly on a border": [Polygon([(2, 0), (0, 2), (2, 2)]), LineString([(0, 0), (0.3, 1.7), (1, 0)])],
    "a line along an edge, with rounded vertices": [Polygon([(0, 0), (7, 3), (2, 9)]), LineString([(7 * n / 10, 3 * n / 10) for n in range(11)])],
    "a sliver through a grid": [Polygon([(-1, -1), (9, 8.999999999999), (9, 9)]), MultiLineString([[(x, -1), (x, 10)] for x in range(9)])],
    "holes that touch": [Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(0, 0), (4, 2), (2, 4)], [(4, 2), (6, 4), (5, 5)]]), shapely.box(3, 1, 7, 5)],
    "an island in a hole": [Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(1, 1), (8, 1), (8, 8), (1, 8)]]), shapely.box(1, 1, 8, 8)],
    "a ring far larger than the other": [Polygon([(-1e15, -1e15), (1e15, -1e15), (0, 1e15)]), Polygon([(0, 0), (1e-3, 0), (0, 1e-3)])],
}
UNIONS = {
    "a strip of neighbours": strip(60, 0.0249, -314.8, 3.7),
    "needles through a point": pencil(40, (0.1, 0.3)),
    "needles through a far point": pencil(40, (1e6 + 0.1, 0.3)),
    "one thing many times": [STAR] * 50,
    "one thing turned many times": [turned(STAR, n * 1e-14) for n in range(30)],
    "nested rings": [circle(0, 0, 1 + n, 32).difference(circle(0, 0, 0.5 + n, 32)) for n in range(30)],
    "steps that share parts of edges": [shapely.box(n / 10, n / 10, n / 10 + 1, n / 10 + 1) for n in range(60)],
    "triangles of a fan": [turned(Polygon([(0, 0), (1, 0), (math.cos(1 / 30), math.sin(1 / 30))]), n / 30) for n in range(180)],
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("op", OPERATIONS)
def test_pairs(con, name, op):
    found, notes = problems(con, op, PAIRS[name])
    print(notes)
    assert not found


@pytest.mark.parametrize("exponent", [-960, -300, 300, 700, 1020])
@pytest.mark.parametrize("op", OPERATIONS)
def test_magnitudes(con, op, exponent):
    """Coordinates too large or too small to be multiplied: a power of two changes no digit of the result."""
    case = [STAR, turned(STAR, 0.01)]
    plain, stretched = (with_vibespatial.overlay(con, op, [[shapely.to_wkb(geometry) for geometry in geometries]])[0]
                        for geometries in (case, generators.stretched(np.array(case), exponent, exponent)))
    assert shapely.to_wkb(generators.stretched(shapely.from_wkb(plain), exponent, exponent)) == bytes(stretched)


@pytest.mark.parametrize("name", UNIONS)
def test_unions(con, name):
    found, notes = problems(con, "union_agg", UNIONS[name])
    print(notes)
    assert not found


# ---------------------------------------------------------------------------------------------------------------------
# Published
# ---------------------------------------------------------------------------------------------------------------------
def geometry(text):
    return shapely.from_wkb(bytes.fromhex(text)) if text[:2] in ("00", "01") else shapely.from_wkt(text)


def test_published(con, shared_data):
    file = shared_data / "overlay_cases.tsv"
    if not file.exists():
        pytest.skip(f"no published cases: {file} is not there")
    count, noted, wrong = 0, collections.Counter(), []
    for line in file.read_text().splitlines():
        source, op, *texts = line.split("\t")
        found, notes = problems(con, op, [geometry(text) for text in texts if text])
        count += 1
        noted.update(note.split(":")[0] for note in notes)
        if found:
            wrong.append(f"{source} {op}: {'; '.join(found)}")
    print(f"published cases: {count}, {dict(noted)}")
    assert not wrong, f"{len(wrong)} of {count} wrong\n" + "\n".join(text[:500] for text in wrong)
