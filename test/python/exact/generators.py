"""Seeded generators of test geometries: all seven types, empty and nested ones included.

Shapes are drawn on a small integer grid, so that shared vertices, collinear overlaps, touching rings and the like are
common, and then placed: a placement maps each grid node to one pair of doubles. Placements other than the identity
turn exact contacts into near ones. Every polygon a generator hands out is valid.

FAMILIES: name -> placement; pool(family, seed, n) -> geometries; pairs(family, seed, n) -> two arrays of geometries;
stretched(...) -> the same at the ends of the range of doubles.
"""

import math
import random

import numpy as np
import shapely
from shapely import GeometryCollection, LineString, MultiLineString, MultiPoint, MultiPolygon, Point, Polygon

SIZE = 6
KINDS = ("point", "line", "polygon", "multipoint", "multiline", "multipolygon", "collection")

EMPTIES = [
    shapely.from_wkt(text)
    for text in (
        "POINT EMPTY",
        "LINESTRING EMPTY",
        "POLYGON EMPTY",
        "MULTIPOINT EMPTY",
        "MULTILINESTRING EMPTY",
        "MULTIPOLYGON EMPTY",
        "GEOMETRYCOLLECTION EMPTY",
        "GEOMETRYCOLLECTION(POINT EMPTY, LINESTRING EMPTY)",
        "GEOMETRYCOLLECTION(GEOMETRYCOLLECTION EMPTY, POLYGON EMPTY)",
        "MULTIPOINT(EMPTY, EMPTY)",
    )
]


# ---------------------------------------------------------------------------------------------------------------------
# Placements: node (i, j) of the grid -> (x, y)
# ---------------------------------------------------------------------------------------------------------------------
def _step(value, ulps):
    for _ in range(abs(ulps)):
        value = math.nextafter(value, math.inf if ulps > 0 else -math.inf)
    return value


class Grid:
    """The grid itself: every contact is exact."""

    def __init__(self, rng):
        pass

    def __call__(self, i, j):
        return float(i), float(j)


class Rotated:
    """A rotated and scaled grid, rounded: nodes that were collinear are so only nearly."""

    def __init__(self, rng, x0=0.0, y0=0.0):
        angle, size = rng.uniform(0, math.pi), rng.choice([0.1, 1.0, 1 / 3, 12.34])
        self.c, self.s, self.x0, self.y0 = math.cos(angle) * size, math.sin(angle) * size, x0, y0

    def __call__(self, i, j):
        return self.x0 + (i * self.c - j * self.s), self.y0 + (i * self.s + j * self.c)


class Offset(Rotated):
    """Metres in a projected system: a rotated grid far from the origin, so few bits are left for the shape."""

    def __init__(self, rng):
        super().__init__(rng, 500000.0 + rng.uniform(-2e5, 2e5), rng.uniform(0, 9e6))


class Wiggled:
    """Nodes moved by at most one ulp, anew at each use: shared vertices are so only nearly."""

    def __init__(self, rng):
        self.rng = rng
        self.base = rng.choice([1.0, 0.1, 100.1])

    def __call__(self, i, j):
        def move(value):
            return _step(value, self.rng.choice((0, 0, 0, 1, -1)))

        return move((i + 1) * self.base), move((j + 1) * self.base)


class Exponents:
    """Grid lines at distances of very different magnitude."""

    def __init__(self, rng):
        most = rng.choice((20, 40, 40, 200))

        def axis():
            return sorted(
                rng.choice((-1, 1)) * rng.uniform(1, 2) * 2.0 ** rng.randint(-most, most) for _ in range(SIZE + 1)
            )

        self.xs, self.ys = axis(), axis()

    def __call__(self, i, j):
        return self.xs[i], self.ys[j]


class Scattered:
    """No grid at all: uniform random coordinates, general position."""

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, i, j):
        return i + self.rng.uniform(-0.5, 0.5), j + self.rng.uniform(-0.5, 0.5)


FAMILIES = {
    "grid": Grid,
    "rotated": Rotated,
    "offset": Offset,
    "wiggled": Wiggled,
    "exponents": Exponents,
    "scattered": Scattered,
}


# ---------------------------------------------------------------------------------------------------------------------
# Shapes on the grid
# ---------------------------------------------------------------------------------------------------------------------
def _cells():
    """Unit squares and their halves."""
    shapes = []
    for i in range(SIZE):
        for j in range(SIZE):
            corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
            shapes.append(Polygon(corners))
            for skip in range(4):
                shapes.append(Polygon(corners[:skip] + corners[skip + 1 :]))
    return shapes


_CELLS = _cells()


class Maker:
    """Draws shapes on the grid and places them."""

    def __init__(self, family, seed):
        self.rng = random.Random(f"{family}/{seed}")
        self.family = family
        self.place = FAMILIES[family](self.rng)

    # places -----------------------------------------------------------------------------------------------------
    def node(self):
        return self.rng.randint(0, SIZE), self.rng.randint(0, SIZE)

    def put(self, nodes):
        return [self.place(i, j) for i, j in nodes]

    def put_ring(self, nodes):
        ring = self.put(nodes[:-1])
        return ring + ring[:1]

    # parts ------------------------------------------------------------------------------------------------------
    def point(self):
        if self.rng.random() < 0.3:  # on an edge between nodes, as near as rounding allows
            (ax, ay), (bx, by) = self.put([self.node(), self.node()])
            along = self.rng.choice((0.5, 0.25, 1 / 3, self.rng.random()))
            return Point(ax + along * (bx - ax), ay + along * (by - ay))
        return Point(self.put([self.node()])[0])

    def line_nodes(self):
        rng = self.rng
        nodes = [self.node() for _ in range(rng.choice((2, 2, 2, 3, 3, 4, 5, 6)))]
        shape = rng.random()
        if shape < 0.15 and len(nodes) > 2:  # closed
            nodes.append(nodes[0])
        elif shape < 0.25:  # back along itself, or an end on itself
            nodes.append(nodes[rng.randrange(len(nodes))])
        elif shape < 0.30:  # repeated vertex
            nodes.insert(0, nodes[0])
        elif shape < 0.33:  # zero length
            nodes = [nodes[0]] * 2
        elif shape < 0.45:  # an axis-parallel staircase, overlaps others often
            nodes = nodes[:1]
            for _ in range(rng.randint(1, 5)):
                i, j = nodes[-1]
                nodes.append((rng.randint(0, SIZE), j) if rng.random() < 0.5 else (i, rng.randint(0, SIZE)))
        return nodes

    def line(self):
        nodes = self.line_nodes()
        places = self.put(nodes)
        if nodes[0] == nodes[-1]:
            places[-1] = places[0]
        return LineString(places)

    def _grid_polygon(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.25:
            return Polygon([self.node() for _ in range(rng.choice((3, 3, 4, 4, 5, 6)))])
        if kind < 0.40:
            i, j = sorted(rng.sample(range(SIZE + 1), 2))
            k, l = sorted(rng.sample(range(SIZE + 1), 2))
            return Polygon([(i, k), (j, k), (j, l), (i, l)])
        if kind < 0.65:  # a shell with holes, which may touch it and each other
            shell = [(0, 0), (SIZE, 0), (SIZE, SIZE), (0, SIZE)]
            if rng.random() < 0.5:
                shell = [(0, 0), (3, 0), (SIZE, 0), (SIZE, SIZE), (2, SIZE), (0, SIZE), (0, rng.randint(1, 5))]
            holes = [[self.node() for _ in range(rng.choice((3, 3, 4)))] for _ in range(rng.choice((1, 1, 2, 2, 3)))]
            return Polygon(shell, holes)
        return self._blob(rng.randint(2, 12))

    def _blob(self, cells):
        """A union of cells near each other: holes, holes that touch the shell, parts that touch at a node."""
        rng = self.rng
        at = rng.randrange(SIZE), rng.randrange(SIZE)
        chosen = []
        for _ in range(cells):
            i = min(SIZE - 1, max(0, at[0] + rng.randint(-2, 2)))
            j = min(SIZE - 1, max(0, at[1] + rng.randint(-2, 2)))
            chosen.append(_CELLS[(i * SIZE + j) * 5 + rng.choice((0, 0, 0, 1, 2, 3, 4))])
        blob = shapely.union_all(chosen)
        if rng.random() < 0.5:
            blob = shapely.segmentize(blob, 1.0) if rng.random() < 0.5 else shapely.simplify(blob, 0)
        return blob

    def _placed(self, polygon):
        """The polygon in its place, rings turned and started at random; None when it is not valid there."""

        def ring(coords):
            nodes = [(round(x), round(y)) for x, y in coords[:-1]]
            start = self.rng.randrange(len(nodes))
            nodes = nodes[start:] + nodes[:start]
            if self.rng.random() < 0.5:
                nodes.reverse()
            return self.put_ring(nodes + nodes[:1])

        placed = Polygon(ring(polygon.exterior.coords), [ring(hole.coords) for hole in polygon.interiors])
        return placed if shapely.is_valid(placed) and shapely.area(placed) > 0 else None

    def polygon(self):
        while True:
            drawn = self._grid_polygon()
            if not shapely.is_valid(drawn) or drawn.is_empty:
                continue
            if drawn.geom_type == "MultiPolygon":
                drawn = max(drawn.geoms, key=lambda p: len(p.exterior.coords))
            if drawn.geom_type != "Polygon" or drawn.area == 0:
                continue
            placed = self._placed(drawn)
            if placed is not None:
                return placed

    # whole geometries -------------------------------------------------------------------------------------------
    def multipoint(self):
        return MultiPoint([self.point() for _ in range(self.rng.choice((1, 2, 3, 4, 5)))])

    def multiline(self):
        lines = [self.line() for _ in range(self.rng.choice((1, 2, 2, 3, 4)))]
        if self.rng.random() < 0.3:  # a shared end, a shared line
            first = lines[0].coords
            other = self.put([self.node()])[0]
            lines.append(LineString([first[-1], other]))
        return MultiLineString(lines)

    def multipolygon(self):
        while True:
            if self.rng.random() < 0.5:
                drawn = self._blob(self.rng.randint(2, 8))
                drawn = list(drawn.geoms) if drawn.geom_type == "MultiPolygon" else [drawn]
                members = [self._placed(polygon) for polygon in drawn if polygon.area > 0]
            else:
                members = [self.polygon() for _ in range(self.rng.choice((1, 2, 2, 3)))]
            if not members or any(member is None for member in members):
                continue
            multi = MultiPolygon(members)
            if shapely.is_valid(multi):
                return multi

    def collection(self, depth=0):
        rng = self.rng
        members = []
        for _ in range(rng.choice((1, 2, 2, 3, 4))):
            kind = rng.random()
            if kind < 0.08:
                members.append(rng.choice(EMPTIES))
            elif kind < 0.2 and depth < 2:
                members.append(self.collection(depth + 1))
            elif kind < 0.6:
                members.append(self.polygon())
            else:
                members.append(getattr(self, rng.choice(KINDS[:-1]))())
        if rng.random() < 0.2:  # a line along a ring, the ends of it on the boundary
            polygons = [m for m in members if m.geom_type == "Polygon" and not m.is_empty]
            if polygons:
                coords = list(polygons[0].exterior.coords)
                members.append(LineString(coords[: rng.randint(2, len(coords))]))
        return GeometryCollection(members)

    def geometry(self, kind=None):
        if kind is None and self.rng.random() < 0.01:
            return self.rng.choice(EMPTIES)
        return getattr(self, kind or self.rng.choice(KINDS))()

    # relatives --------------------------------------------------------------------------------------------------
    def relative(self, geometry):
        """A geometry made of pieces of another: same vertices, same edges, same rings."""
        rng = self.rng
        coords = shapely.get_coordinates(geometry).tolist()
        if not coords:
            return rng.choice(EMPTIES)
        kind = rng.random()
        if kind < 0.15:
            return MultiPoint(rng.sample(coords, min(len(coords), rng.randint(1, 4))))
        if kind < 0.3:  # points on edges, as near as rounding allows
            at = rng.randrange(len(coords))
            (ax, ay), (bx, by) = coords[at], coords[(at + 1) % len(coords)]
            along = rng.random()
            return Point(ax + along * (bx - ax), ay + along * (by - ay))
        if kind < 0.5:
            start = rng.randrange(len(coords))
            run = coords[start : start + rng.randint(2, 5)]
            return LineString(run) if len(run) > 1 else Point(run[0])
        if kind < 0.6:
            return LineString([rng.choice(coords), rng.choice(coords)])
        if kind < 0.7:
            return shapely.boundary(geometry) if geometry.geom_type != "GeometryCollection" else geometry
        if kind < 0.8:
            return shapely.normalize(geometry) if rng.random() < 0.5 else shapely.reverse(geometry)
        if kind < 0.9:
            for _ in range(10):
                triangle = Polygon([rng.choice(coords) for _ in range(3)])
                if shapely.is_valid(triangle) and triangle.area > 0:
                    return triangle
            return Point(coords[0])
        return GeometryCollection([geometry, self.geometry()])


def pool(family, seed, per_kind):
    """per_kind geometries of each kind, the empty ones, and as many relatives of those as there are of a kind."""
    maker = Maker(family, seed)
    made = [maker.geometry(kind) for kind in KINDS for _ in range(per_kind)]
    made += [maker.relative(maker.rng.choice(made)) for _ in range(per_kind)]
    return np.array(made + EMPTIES, dtype=object)


def pairs(family, seed, count):
    """count fresh pairs: half of them independent, half relatives."""
    left, right = [], []
    maker = None
    for number in range(count):
        if number % 50 == 0:  # a new placement now and then
            maker = Maker(family, f"{seed}/{number}")
        a = maker.geometry()
        b = maker.relative(a) if maker.rng.random() < 0.4 else maker.geometry()
        if maker.rng.random() < 0.5:
            a, b = b, a
        left.append(a)
        right.append(b)
    return np.array(left, dtype=object), np.array(right, dtype=object)


def stretched(geometries, x_exponent, y_exponent):
    """x and y each times a power of two: the same topology, at any magnitude that doubles have."""
    return shapely.transform(geometries, lambda xy: np.ldexp(xy, [x_exponent, y_exponent]))
