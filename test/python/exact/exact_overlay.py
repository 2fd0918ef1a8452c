"""Overlays by exact rational arithmetic: how much area a result has wrong, and which lines and points belong to it.

As in exact_relate.py the plane is cut by all segments into nodes, atomic edges and faces. A face belongs to the result where the operation
says so of the operands that it lies in. An area is half the sum of the cross products of the edges that have it on one side only. What an
edge or a node belongs to is decided the same way, operands being closed sets; it counts for itself where nothing of a higher dimension
beside it belongs to the result.
"""

from fractions import Fraction

from . import exact_relate, wkb
from .exact_relate import Segment, midpoint, orientation

RULES = {
    "union": any,
    "intersection": all,
    "difference": lambda inside: inside[0] and not any(inside[1:]),
    "symdifference": lambda inside: sum(inside) % 2 == 1,
}


class _Edge:
    __slots__ = ("on_line", "sides")

    def __init__(self, owners):
        self.on_line = [False] * owners
        self.sides = [{} for _ in range(owners)]  # polygon -> (left inside, right inside)


def _read(operand):
    """The parts of an operand, which is a list of WKB: the union of its members."""
    parts = wkb.Parts()
    for data in operand:
        more = wkb.read(data)
        parts.points += more.points
        parts.lines += more.lines
        parts.polygons += more.polygons
    return parts


def _arrangement(shapes):
    """Yields for each atomic edge: its lower and upper node, and per shape whether its left, its right and itself are inside."""
    segments = []
    for owner, shape in enumerate(shapes):
        for line in shape.lines:
            segments += [Segment(p, q, owner, None) for p, q in zip(line, line[1:]) if p != q]
        for index, polygon in enumerate(shape.polygons):
            segments += [Segment(p, q, owner, index) for p, q in polygon.edges]
    for point in set().union(*(shape.points for shape in shapes)):
        for s in segments:
            if s.x0 <= point[0] <= s.x1 and s.y0 <= point[1] <= s.y1 and orientation(s.p, s.q, point) == 0:
                s.nodes.add(point)
    exact_relate._cut_all(segments)
    edges = {}
    for s in segments:
        nodes = sorted(s.nodes)
        for key in zip(nodes, nodes[1:]):
            if key not in edges:
                edges[key] = _Edge(len(shapes))
            edge = edges[key]
            if s.polygon is None:
                edge.on_line[s.owner] = True
            elif s.polygon in edge.sides[s.owner]:
                raise exact_relate.InvalidPolygon("edges of one polygon overlap")
            else:
                edge.sides[s.owner][s.polygon] = (s.p < s.q, s.p > s.q)
    for (low, high), edge in edges.items():
        middle = midpoint(low, high)
        left, right, on = [], [], []
        for owner, shape in enumerate(shapes):
            borders = edge.sides[owner]
            l = any(border[0] for border in borders.values())
            r = any(border[1] for border in borders.values())
            if not (l and r) and any(index not in borders and polygon.has_inside(middle) for index, polygon in enumerate(shape.polygons)):
                l = r = True
            left.append(l)
            right.append(r)
            on.append(l or r or edge.on_line[owner])
        yield low, high, left, right, on


def _shapes(*operands):
    parts = [_read(operand) for operand in operands]
    scale = exact_relate._scale(*parts)
    return [exact_relate.Shape(p, scale) for p in parts], scale


def wrong_area(op, operands, result):
    """The area of all that is in the result and should not be, or should be and is not, and the area that it should have."""
    shapes, scale = _shapes(*operands, [result])
    rule = RULES[op]
    wrong = right_area = 0
    for low, high, left, right, _ in _arrangement(shapes):
        cross = low[0] * high[1] - low[1] * high[0]
        in_left, in_right = rule(left[:-1]), rule(right[:-1])
        right_area += cross * (in_left - in_right)
        wrong += cross * ((in_left != left[-1]) - (in_right != right[-1]))
    return Fraction(wrong) / 2 / scale**2, Fraction(right_area) / 2 / scale**2


def is_ccw(ring):
    """Whether a ring, which does not cross itself, runs counterclockwise."""
    return exact_relate.twice_area([(Fraction(x), Fraction(y)) for x, y in ring]) > 0


def is_simple(data):
    """Whether no ring crosses or overlaps itself or another one of its polygon. shapely cannot tell near the smallest doubles."""
    try:
        return all(True for _ in _arrangement(_shapes([data])[0]))
    except exact_relate.InvalidPolygon:
        return False


def lines_and_points(op, operands):
    """The parts of the result that are no areas: segments and points, as close as doubles are."""
    shapes, scale = _shapes(*operands)
    rule = RULES[op]
    lines, seen, covered = [], {}, set()
    for low, high, left, right, on in _arrangement(shapes):
        for node in (low, high):
            at = seen.setdefault(node, [False] * len(shapes))
            seen[node] = [a or b for a, b in zip(at, on)]
        if rule(left) or rule(right):
            covered |= {low, high}
        elif rule(on):
            covered |= {low, high}
            lines.append((low, high))
    for owner, shape in enumerate(shapes):
        for point in shape.points:
            if point not in seen:
                seen[point] = [any(polygon.has_inside(point) for polygon in other.polygons) for other in shapes]
                if rule(seen[point]) and any(seen[point]):
                    covered.add(point)
            seen[point][owner] = True
    points = [node for node, inside in seen.items() if node not in covered and rule(inside)]

    def place(node):
        return float(Fraction(node[0]) / scale), float(Fraction(node[1]) / scale)

    return [(place(p), place(q)) for p, q in lines], [place(p) for p in points]
