"""DE-9IM of two geometries by exact rational arithmetic.

Written to be obviously right rather than quick. The plane is cut by every segment of both geometries into nodes,
atomic edges and faces; each of them lies wholly in the interior, the boundary or the exterior of A and of B. The
matrix entry is the largest dimension found in its pair of locations: 0 from nodes, 1 from edges, 2 from the two sides
of edges (every face has an edge on its border; without any edge the only face is the common exterior).

Where a place lies in a geometry, the geometry being the union of its parts:
  1. areas first: inside when polygons cover its whole neighbourhood, boundary when they cover a part of it;
  2. else lines: boundary when an odd number of line ends meet there (the mod-2 rule), interior anywhere else on a line;
  3. else points: interior.
Empty parts do not count, a line of zero length is a point. Polygons must be valid, but those of one collection may
overlap.

All coordinates are scaled by one power of two to integers. Fractions appear only where two segments cross.
"""

from fractions import Fraction

from . import wkb

INTERIOR, BOUNDARY, EXTERIOR = 0, 1, 2


class InvalidPolygon(ValueError):
    """A polygon whose rings cross or overlap: its sides are not defined."""


# ---------------------------------------------------------------------------------------------------------------------
# Exact arithmetic on points, which are (x, y) tuples of int or Fraction
# ---------------------------------------------------------------------------------------------------------------------
def orientation(a, b, c):
    """Positive when a, b, c turn counter-clockwise, zero when they are collinear."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def halve(value):
    if type(value) is int and value % 2 == 0:
        return value // 2
    return Fraction(value) / 2


def midpoint(a, b):
    return halve(a[0] + b[0]), halve(a[1] + b[1])


def twice_area(ring):
    return sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(ring, ring[1:]))


def crosses_ray(p, q, point):
    """Does the ray from point to the right cross the segment pq? Its lower end belongs to it, its upper end not."""
    if (p[1] > point[1]) == (q[1] > point[1]):
        return False
    if q[1] > p[1]:
        return orientation(p, q, point) > 0
    return orientation(p, q, point) < 0


def in_box(point, p, q):
    return (
        min(p[0], q[0]) <= point[0] <= max(p[0], q[0]) and min(p[1], q[1]) <= point[1] <= max(p[1], q[1])
    )


# ---------------------------------------------------------------------------------------------------------------------
# Geometries
# ---------------------------------------------------------------------------------------------------------------------
class Polygon:
    """Rings oriented so that the interior is on the left of every edge: shell counter-clockwise, holes clockwise."""

    def __init__(self, rings):
        self.edges = []
        for index, ring in enumerate(rings):
            if ring[0] != ring[-1]:
                raise InvalidPolygon("ring is not closed")
            area = twice_area(ring)
            if area == 0:
                raise InvalidPolygon("ring without area")
            if (area > 0) != (index == 0):
                ring = ring[::-1]
            self.edges += [(p, q) for p, q in zip(ring, ring[1:]) if p != q]
        xs = [p[0] for p, _ in self.edges]
        ys = [p[1] for p, _ in self.edges]
        self.box = (min(xs), min(ys), max(xs), max(ys))
        # Edges by the horizontal slabs they reach into, so that large polygons stay usable
        self.slab_height = (max(ys) - min(ys)) * 4 // len(self.edges) + 1
        self.slabs = {}
        for edge in self.edges:
            low, high = sorted((edge[0][1], edge[1][1]))
            for slab in range(low // self.slab_height, high // self.slab_height + 1):
                self.slabs.setdefault(slab, []).append(edge)

    def has_inside(self, point):
        """Only for points off the boundary."""
        x, y = point
        x0, y0, x1, y1 = self.box
        if x < x0 or x > x1 or y < y0 or y > y1:
            return False
        return sum(crosses_ray(p, q, point) for p, q in self.slabs.get(y // self.slab_height, ())) % 2 == 1


class Shape:
    """A geometry in integer coordinates."""

    def __init__(self, parts, scale):
        def integer(value):
            numerator, denominator = value.as_integer_ratio()
            return numerator * (scale // denominator)

        def whole(vertices):
            return [(integer(x), integer(y)) for x, y in vertices]

        self.points = set(whole(parts.points))
        self.lines = []
        for line in map(whole, parts.lines):
            if all(vertex == line[0] for vertex in line):
                self.points.add(line[0])
            else:
                self.lines.append(line)
        self.polygons = [Polygon([whole(ring) for ring in rings]) for rings in parts.polygons]
        odd_ends = set()
        for line in self.lines:
            odd_ends ^= {line[0]}
            odd_ends ^= {line[-1]}
        self.odd_ends = odd_ends

    def dimension(self):
        """-1 for an empty geometry."""
        return 2 if self.polygons else 1 if self.lines else 0 if self.points else -1


def _scale(*all_parts):
    """The factor that turns every coordinate into an even integer, so that midpoints of vertices are integers too."""
    scale = 1
    for parts in all_parts:
        for vertices in [parts.points, *parts.lines, *(ring for rings in parts.polygons for ring in rings)]:
            for x, y in vertices:
                scale = max(scale, x.as_integer_ratio()[1], y.as_integer_ratio()[1])
    return 2 * scale


# ---------------------------------------------------------------------------------------------------------------------
# The arrangement
# ---------------------------------------------------------------------------------------------------------------------
class Segment:
    """A directed edge of a line (polygon is None) or of a ring (interior of the polygon on its left)."""

    __slots__ = ("p", "q", "owner", "polygon", "nodes", "x0", "x1", "y0", "y1")

    def __init__(self, p, q, owner, polygon):
        self.p, self.q, self.owner, self.polygon = p, q, owner, polygon
        self.nodes = {p, q}
        self.x0, self.x1 = (p[0], q[0]) if p[0] < q[0] else (q[0], p[0])
        self.y0, self.y1 = (p[1], q[1]) if p[1] < q[1] else (q[1], p[1])


class Edge:
    """An atomic edge from its lexicographically lower to its upper node."""

    __slots__ = ("on_line", "sides")

    def __init__(self):
        self.on_line = [False, False]  # per geometry: lies on one of its lines
        self.sides = [{}, {}]  # per geometry: polygon index -> (left inside, right inside) where it is on that boundary


def _segments(shapes):
    for owner, shape in enumerate(shapes):
        for line in shape.lines:
            for p, q in zip(line, line[1:]):
                if p != q:
                    yield Segment(p, q, owner, None)
        for index, polygon in enumerate(shape.polygons):
            for p, q in polygon.edges:
                yield Segment(p, q, owner, index)


def _cut(s, t):
    """Add to both segments the nodes where they meet."""
    a, b, c, d = s.p, s.q, t.p, t.q
    to_c, to_d = orientation(a, b, c), orientation(a, b, d)
    if (to_c > 0 and to_d > 0) or (to_c < 0 and to_d < 0):
        return
    to_a, to_b = orientation(c, d, a), orientation(c, d, b)
    if (to_a > 0 and to_b > 0) or (to_a < 0 and to_b < 0):
        return
    if to_a and to_b and to_c and to_d:
        if s.polygon is not None and (s.owner, s.polygon) == (t.owner, t.polygon):
            raise InvalidPolygon("edges of one polygon cross")
        along = Fraction(to_c, to_c - to_d)
        node = (c[0] + along * (d[0] - c[0]), c[1] + along * (d[1] - c[1]))
        s.nodes.add(node)
        t.nodes.add(node)
        return
    if to_c == 0 and in_box(c, a, b):
        s.nodes.add(c)
    if to_d == 0 and in_box(d, a, b):
        s.nodes.add(d)
    if to_a == 0 and in_box(a, c, d):
        t.nodes.add(a)
    if to_b == 0 and in_box(b, c, d):
        t.nodes.add(b)


def _cut_all(segments):
    """All pairs whose boxes meet, by a sweep over x."""
    segments.sort(key=lambda s: s.x0)
    active = []
    for s in segments:
        x0, y0, y1 = s.x0, s.y0, s.y1
        active = [t for t in active if t.x1 >= x0]
        for t in active:
            if t.y0 <= y1 and y0 <= t.y1:
                _cut(s, t)
        active.append(s)


def _edges(segments):
    edges = {}
    for s in segments:
        nodes = sorted(s.nodes)
        forward = s.p < s.q
        for key in zip(nodes, nodes[1:]):
            edge = edges.get(key)
            if edge is None:
                edge = edges[key] = Edge()
            if s.polygon is None:
                edge.on_line[s.owner] = True
            else:
                if s.polygon in edge.sides[s.owner]:
                    raise InvalidPolygon("edges of one polygon overlap")
                edge.sides[s.owner][s.polygon] = (forward, not forward)
    return edges


class Neighbourhood:
    """What is seen around a node, per geometry."""

    __slots__ = ("inside", "outside", "on_line")

    def __init__(self):
        self.inside = [False, False]
        self.outside = [False, False]
        self.on_line = [False, False]


class _Matrix:
    def __init__(self):
        self.cells = [[-1, -1, -1], [-1, -1, -1], [-1, -1, 2]]

    def see(self, in_a, in_b, dimension):
        row = self.cells[in_a]
        if row[in_b] < dimension:
            row[in_b] = dimension

    def __str__(self):
        return "".join("F012"[cell + 1] for row in self.cells for cell in row)


def relate_shapes(shapes):
    matrix = _Matrix()
    segments = list(_segments(shapes))
    places = shapes[0].points | shapes[1].points
    for s in segments:
        for point in places:
            if s.x0 <= point[0] <= s.x1 and s.y0 <= point[1] <= s.y1 and orientation(s.p, s.q, point) == 0:
                s.nodes.add(point)
    _cut_all(segments)

    around = {}
    for (low, high), edge in _edges(segments).items():
        middle = midpoint(low, high)
        in_low = around.setdefault(low, Neighbourhood())
        in_high = around.setdefault(high, Neighbourhood())
        location, left_location, right_location = [], [], []
        for owner, shape in enumerate(shapes):
            left = right = False
            borders = edge.sides[owner]
            for index, polygon in enumerate(shape.polygons):
                if index in borders:
                    left |= borders[index][0]
                    right |= borders[index][1]
                elif not (left and right) and polygon.has_inside(middle):
                    left = right = True
            if left and right:
                location.append(INTERIOR)
            elif left or right:
                location.append(BOUNDARY)
            elif edge.on_line[owner]:
                location.append(INTERIOR)
            else:
                location.append(EXTERIOR)
            left_location.append(INTERIOR if left else EXTERIOR)
            right_location.append(INTERIOR if right else EXTERIOR)
            for node in (in_low, in_high):
                node.inside[owner] |= left or right
                node.outside[owner] |= not (left and right)
                node.on_line[owner] |= edge.on_line[owner]
        matrix.see(*location, 1)
        matrix.see(*left_location, 2)
        matrix.see(*right_location, 2)

    for node in places - around.keys():  # points on no segment
        seen = around[node] = Neighbourhood()
        for owner, shape in enumerate(shapes):
            seen.inside[owner] = any(polygon.has_inside(node) for polygon in shape.polygons)
            seen.outside[owner] = not seen.inside[owner]

    for node, seen in around.items():
        location = []
        for owner, shape in enumerate(shapes):
            if seen.inside[owner]:
                location.append(BOUNDARY if seen.outside[owner] else INTERIOR)
            elif node in shape.odd_ends:
                location.append(BOUNDARY)
            elif seen.on_line[owner] or node in shape.points:
                location.append(INTERIOR)
            else:
                location.append(EXTERIOR)
        matrix.see(*location, 0)
    return str(matrix)


# ---------------------------------------------------------------------------------------------------------------------
# Answers
# ---------------------------------------------------------------------------------------------------------------------
def shapes_of(wkb_a, wkb_b):
    parts = wkb.read(wkb_a), wkb.read(wkb_b)
    scale = _scale(*parts)
    return [Shape(p, scale) for p in parts]


def relate(wkb_a, wkb_b):
    """The DE-9IM matrix as nine characters of F012."""
    return relate_shapes(shapes_of(wkb_a, wkb_b))


def matches(matrix, *patterns):
    """Does the matrix match one of the patterns of T, F, *, 0, 1, 2?"""
    return any(
        all(p == "*" or p == m or (p == "T" and m != "F") for m, p in zip(matrix, pattern)) for pattern in patterns
    )


def transpose(matrix):
    return "".join(matrix[3 * column + row] for row in range(3) for column in range(3))


PREDICATES = (
    "intersects",
    "disjoint",
    "contains",
    "within",
    "covers",
    "coveredby",
    "containsproperly",
    "withinproperly",
    "equals",
    "touches",
    "crosses",
    "overlaps",
)


def predicates(matrix, dim_a, dim_b):
    """Every named predicate from the matrix and the dimensions of the geometries (-1 when empty)."""
    turned = transpose(matrix)
    contains, covers, properly = ("T*****FF*",), ("T*****FF*", "*T****FF*", "***T**FF*", "****T*FF*"), ("T**FF*FF*",)
    disjoint = matches(matrix, "FF*FF****")
    empty_a, empty_b = dim_a < 0, dim_b < 0
    if dim_a < dim_b:
        crosses = matches(matrix, "T*T******")
    elif dim_a > dim_b:
        crosses = matches(matrix, "T*****T**")
    else:
        crosses = dim_a == 1 and matches(matrix, "0********")
    if dim_a != dim_b:
        overlaps = False
    else:
        overlaps = matches(matrix, "1*T***T**" if dim_a == 1 else "T*T***T**")
    touches = max(dim_a, dim_b) > 0 and matches(matrix, "FT*******", "F**T*****", "F***T****")
    # Two empty geometries are the same point set, so they are equal; their matrix alone would say no.
    equals = empty_a and empty_b or matches(matrix, "T*F**FFF*")
    return {
        "intersects": not disjoint,
        "disjoint": disjoint,
        "contains": matches(matrix, *contains),
        "within": matches(turned, *contains),
        "covers": matches(matrix, *covers),
        "coveredby": matches(turned, *covers),
        "containsproperly": matches(matrix, *properly),
        "withinproperly": matches(turned, *properly),
        "equals": equals,
        "touches": touches,
        "crosses": crosses,
        "overlaps": overlaps,
    }


def decide(wkb_a, wkb_b):
    """The matrix and all predicates: {"relate": "212101212", "intersects": True, ...}."""
    shapes = shapes_of(wkb_a, wkb_b)
    matrix = relate_shapes(shapes)
    return {"relate": matrix, **predicates(matrix, shapes[0].dimension(), shapes[1].dimension())}
