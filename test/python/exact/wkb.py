"""A reader of well-known binary, so that the oracles do not depend on any geometry library."""

import math
import struct

POINT, LINESTRING, POLYGON, MULTIPOINT, MULTILINESTRING, MULTIPOLYGON, COLLECTION = range(1, 8)
NAMES = {
    POINT: "POINT",
    LINESTRING: "LINESTRING",
    POLYGON: "POLYGON",
    MULTIPOINT: "MULTIPOINT",
    MULTILINESTRING: "MULTILINESTRING",
    MULTIPOLYGON: "MULTIPOLYGON",
    COLLECTION: "GEOMETRYCOLLECTION",
}


class Parts:
    """The atomic parts of a geometry, whatever the nesting they came in. Empty parts are left out."""

    def __init__(self):
        self.points = []  # (x, y)
        self.lines = []  # [(x, y), ...]
        self.polygons = []  # [ring, ...], ring = [(x, y), ...], first and last vertex equal


def read(data):
    """The Parts of a geometry in WKB; Z and M are dropped."""
    parts = Parts()
    end = _read(data, 0, parts)
    if end != len(data):
        raise ValueError("bytes left over after the geometry")
    return parts


def _read(data, at, parts):
    order = "<" if data[at] else ">"
    (code,) = struct.unpack_from(order + "I", data, at + 1)
    at += 5
    kind = code % 1000
    width = (2, 3, 3, 4)[code // 1000]

    def count():
        nonlocal at
        (n,) = struct.unpack_from(order + "I", data, at)
        at += 4
        return n

    def vertices(n):
        nonlocal at
        flat = struct.unpack_from(order + "%dd" % (n * width), data, at)
        at += 8 * n * width
        return list(zip(flat[0::width], flat[1::width]))

    if kind == POINT:
        (point,) = vertices(1)
        if not (math.isnan(point[0]) and math.isnan(point[1])):
            parts.points.append(point)
    elif kind == LINESTRING:
        line = vertices(count())
        if line:
            parts.lines.append(line)
    elif kind == POLYGON:
        rings = [vertices(count()) for _ in range(count())]
        if rings and rings[0]:
            parts.polygons.append([ring for ring in rings if ring])
    elif kind in NAMES:
        for _ in range(count()):
            at = _read(data, at, parts)
    else:
        raise ValueError("unknown geometry type %d" % code)
    return at
