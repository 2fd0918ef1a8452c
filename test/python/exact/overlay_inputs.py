"""Seeded input for overlays. FAMILIES: name -> maker of pairs; members(family, seed) -> many geometries for one union; coverages."""

import math
import random

import numpy as np
import shapely
from shapely import GeometryCollection, LineString, MultiLineString, MultiPoint, MultiPolygon, Polygon

from . import generators


# ---------------------------------------------------------------------------------------------------------------------
# General position
# ---------------------------------------------------------------------------------------------------------------------
def star(rng, x, y, radius, count):
    """A ring around a centre, wild or smooth."""
    wild = rng.choice((0.1, 0.5, 0.9))
    angles = sorted(rng.uniform(0, 2 * math.pi) for _ in range(count))
    return [(x + math.cos(a) * r, y + math.sin(a) * r) for a in angles for r in (radius * rng.uniform(1 - wild, 1),)]


def holed_star(rng, x=0.0, y=0.0, radius=1.0):
    """A polygon with up to three holes."""
    while True:
        holes = []
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            angle = rng.uniform(0, 2 * math.pi)
            at = x + math.cos(angle) * radius * 0.3, y + math.sin(angle) * radius * 0.3
            holes.append(star(rng, *at, radius * rng.uniform(0.02, 0.25), rng.randint(3, 12)))
        made = Polygon(star(rng, x, y, radius, rng.choice((3, 5, 10, 20, 60))), holes)
        if shapely.is_valid(made):
            return made


def walk(rng, x, y, radius):
    points = [(x + rng.uniform(-radius, radius), y + rng.uniform(-radius, radius)) for _ in range(rng.choice((2, 2, 3, 8, 20)))]
    if rng.random() < 0.2:
        points.append(points[0])
    return LineString(points)


def scattered(rng, depth=0):
    """Any type, coordinates with all their bits."""
    x, y, radius = rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(0.3, 2)
    kind = rng.random()
    if kind < 0.5:
        return holed_star(rng, x, y, radius)
    if kind < 0.6:
        parts = [holed_star(rng, x + 4 * n * radius, y, radius) for n in range(rng.randint(1, 3))]
        return MultiPolygon(parts)
    if kind < 0.75:
        return walk(rng, x, y, radius)
    if kind < 0.82:
        return MultiLineString([walk(rng, x, y, radius) for _ in range(rng.randint(1, 4))])
    if kind < 0.88:
        return MultiPoint([(rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(rng.randint(1, 9))])
    if depth:
        return walk(rng, x, y, radius)
    return GeometryCollection([scattered(rng, 1) for _ in range(rng.randint(1, 3))])


# ---------------------------------------------------------------------------------------------------------------------
# Nearly coincident
# ---------------------------------------------------------------------------------------------------------------------
def moved(geometry, move):
    """The geometry with its vertices, an array for each ring, line and point, put elsewhere. Rings stay closed."""

    def ring(coords):
        return shapely.LinearRing(move(shapely.get_coordinates(coords)[:-1]))

    if geometry.is_empty:
        return geometry
    if geometry.geom_type == "Polygon":
        return Polygon(ring(geometry.exterior), [ring(hole) for hole in geometry.interiors])
    if hasattr(geometry, "geoms"):
        return type(geometry)([moved(member, move) for member in geometry.geoms])
    return type(geometry)(move(shapely.get_coordinates(geometry)))


def nudged(geometry, rng):
    """A copy moved by next to nothing."""
    seeds = np.random.default_rng(rng.randrange(2**32))
    kind = rng.random()
    if kind < 0.35:  # each coordinate by a few ulps, or by none
        most, share = rng.choice((1, 2, 4)), rng.choice((0.1, 0.5, 1))

        def move(xy):
            return xy + seeds.integers(-most, most + 1, xy.shape) * np.spacing(np.abs(xy)) * (seeds.random(xy.shape) < share)

    elif kind < 0.6:  # all of it
        by = np.abs(shapely.get_coordinates(geometry)).max() * 10.0 ** rng.uniform(-16, -12) * seeds.uniform(-1, 1, 2)

        def move(xy):
            return xy + by

    elif kind < 0.85:  # turned
        angle = 10.0 ** rng.uniform(-16, -9)

        def move(xy):
            return xy @ np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])

    else:  # more vertices on the same edges, as near as rounding allows
        try:
            return shapely.segmentize(geometry, rng.choice((0.1, 0.3, 1.0)))
        except shapely.errors.GEOSException:  # of lines of no length it makes single points, and refuses them
            return geometry
    return moved(geometry, move)


def coincident(rng):
    while True:
        if rng.random() < 0.3:
            one = generators.Maker("rotated", rng.random()).geometry(rng.choice(("polygon", "multipolygon", "polygon", "multiline")))
        else:
            far = rng.choice((0.0, 0.0, 10.0, 1e6))
            one = holed_star(rng, far, far / 3, rng.choice((1.0, 100.0)))
        two = nudged(one, rng)
        if shapely.is_valid(two) and shapely.is_valid(one):
            return one, two


# ---------------------------------------------------------------------------------------------------------------------
# Not valid
# ---------------------------------------------------------------------------------------------------------------------
def anything(rng):
    """Rings that cross and overlap themselves and each other."""
    place = rng.choice((lambda: float(rng.randint(0, 5)), lambda: rng.uniform(0, 5), lambda: rng.randint(0, 5) * 0.1))

    def ring():
        points = [(place(), place()) for _ in range(rng.randint(3, 9))]
        return points + points[:1]

    made = [Polygon(ring(), [ring() for _ in range(rng.choice((0, 0, 1, 2)))]) for _ in range(rng.choice((1, 1, 2, 3)))]
    return made[0] if len(made) == 1 else MultiPolygon(made) if rng.random() < 0.5 else GeometryCollection(made)


def _scattered_pair(rng):
    return scattered(rng), scattered(rng)


def _anything_pair(rng):
    return anything(rng), anything(rng)


def _generated(family):
    def make(rng):
        one, two = generators.pairs(family, rng.random(), 1)
        return one[0], two[0]

    return make


# The families whose lines and points are decided by far more than rounding
PLAIN = ("scattered", "grid")
INVALID = ("anything",)
FAMILIES = {
    "scattered": _scattered_pair,
    "coincident": coincident,
    "anything": _anything_pair,
    **{family: _generated(family) for family in generators.FAMILIES if family != "scattered"},
}


def pairs(family, seed, count):
    rng = random.Random(f"{family}/{seed}")
    return [FAMILIES[family](rng) for _ in range(count)]


def members(family, seed):
    """A few to many geometries for one union."""
    rng = random.Random(f"members/{family}/{seed}")
    count = rng.choice((1, 2, 3, 5, 8, 20))
    found = []
    while len(found) < count:
        found += FAMILIES[family](rng)
    return found[:count]


# ---------------------------------------------------------------------------------------------------------------------
# Coverages
# ---------------------------------------------------------------------------------------------------------------------
def coverage(seed, count, loose):
    """Polygons that tile an area: Voronoi cells or Delaunay triangles. With `loose` some edges have a vertex, rounded onto them, in one of
    their two polygons only."""
    rng = random.Random(f"coverage/{seed}")
    seeds = np.random.default_rng(rng.randrange(2**32)).uniform(0, rng.choice((1.0, 100.0, 5e5)), (count, 2))
    cloud = MultiPoint(seeds)
    made = shapely.voronoi_polygons(cloud) if rng.random() < 0.5 else shapely.delaunay_triangles(cloud)
    cells = list(made.geoms)
    if not loose:
        return cells

    def split(coords):
        found = []
        for (ax, ay), (bx, by) in zip(coords, coords[1:]):
            found.append((ax, ay))
            if rng.random() < 0.2:
                along = rng.random()
                found.append((ax + along * (bx - ax), ay + along * (by - ay)))
        return found

    moved = [Polygon(split(list(cell.exterior.coords))) for cell in cells]
    return [new if shapely.is_valid(new) else old for new, old in zip(moved, cells)]
