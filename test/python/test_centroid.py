"""ST_Centroid against shapely, on random geometries, many of them without a measure of their own dimension."""
import math
import random

import pytest

shapely = pytest.importorskip("shapely")


class Drawn:
    """WKT on a small grid: zero-length lines, rings without area, holes as large as their shell and empty parts are common"""

    def __init__(self, seed, empty=0.1):
        self.random = random.Random(seed)
        self.empty = empty

    def place(self):
        return f"{self.random.randint(0, 4)} {self.random.randint(0, 4)}"

    def places(self, least):
        chain = [self.place() for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.4:
            chain = chain[:1]
        while len(chain) < least:
            chain.append(self.random.choice(chain))
        return chain

    def line(self):
        return "(" + ", ".join(self.places(2)) + ")"

    def ring(self):
        chain = self.places(3)
        if self.random.random() < 0.4:
            chain = chain + chain[-2::-1]
        return "(" + ", ".join(chain + chain[:1]) + ")"

    def polygon(self):
        shell = self.ring()
        holes = [shell if self.random.random() < 0.5 else self.ring() for _ in range(self.random.randint(0, 1))]
        return "(" + ", ".join([shell, *holes]) + ")"

    def many(self, part):
        return "(" + ", ".join("EMPTY" if self.random.random() < self.empty else part() for _ in range(self.random.randint(1, 3))) + ")"

    def geometry(self, depth=0):
        kinds = {"POINT": lambda: f"({self.place()})", "LINESTRING": self.line, "POLYGON": self.polygon,
                 "MULTIPOINT": lambda: self.many(lambda: f"({self.place()})"), "MULTILINESTRING": lambda: self.many(self.line),
                 "MULTIPOLYGON": lambda: self.many(self.polygon)}
        if depth < 3 and self.random.random() < 0.4:
            members = [self.geometry(depth + 1) for _ in range(self.random.randint(1, 3))]
            return "GEOMETRYCOLLECTION (" + ", ".join(members) + ")"
        kind = self.random.choice(list(kinds))
        return f"{kind} EMPTY" if self.random.random() < self.empty else f"{kind} {kinds[kind]()}"


def same(ours, theirs):
    if ours.is_empty or theirs.is_empty:
        return ours.is_empty and theirs.is_empty
    return math.isclose(ours.x, theirs.x, rel_tol=1e-12, abs_tol=1e-12) and math.isclose(ours.y, theirs.y, rel_tol=1e-12, abs_tol=1e-12)


def weighs_rings_alike(geometry):
    """GEOS takes the direction of a ring from its highest vertex, we from the sign of its area; the two may differ for a
    ring that crosses itself, and then rings and parts weigh in with other signs."""
    parts = shapely.get_parts(geometry)
    if len(parts) > 1 or geometry.geom_type.startswith(("Multi", "GeometryC")):
        return all(weighs_rings_alike(part) for part in parts)
    if geometry.geom_type != "Polygon" or geometry.is_empty:
        return True
    rings = [geometry.exterior, *geometry.interiors]
    return all(ring.is_simple or shapely.polygonize([shapely.node(ring)]).is_empty for ring in rings)


def test_random_geometries(con):
    drawn = Drawn(5)
    texts = [drawn.geometry() for _ in range(6000)]
    geometries = shapely.from_wkt(texts)
    con.execute("CREATE TABLE shapes (i INTEGER, g BLOB)")
    con.executemany("INSERT INTO shapes VALUES (?, ?)", [(i, g) for i, g in enumerate(shapely.to_wkb(geometries))])
    rows = con.execute("SELECT ST_AsWKB(ST_Centroid(ST_GeomFromWKB(g))) FROM shapes ORDER BY i").fetchall()
    fallen = compared = 0
    for (ours,), geometry, theirs, text in zip(rows, geometries, shapely.centroid(geometries), texts):
        if not weighs_rings_alike(geometry):
            continue
        assert same(shapely.from_wkb(bytes(ours)), theirs), text
        compared += 1
        dimension = shapely.get_dimensions(geometry)
        fallen += not geometry.is_empty and ((dimension == 2 and geometry.area == 0) or (dimension == 1 and geometry.length == 0))
    assert compared > 4000 and fallen > 1000


def test_heights_stay_on_a_plane(con):
    """Z = 1 + x + 2y of the vertices holds for the centroid, whatever dimension it is taken from"""
    drawn = Drawn(6, empty=0)
    geometries = shapely.from_wkt([drawn.geometry() for _ in range(2000)])
    con.execute("CREATE TABLE shapes (i INTEGER, g BLOB)")
    con.executemany("INSERT INTO shapes VALUES (?, ?)", [(i, g) for i, g in enumerate(shapely.to_wkb(
        [shapely.transform(shapely.force_3d(g), lambda xyz: [[x, y, 1 + x + 2 * y] for x, y, _ in xyz], include_z=True)
         for g in geometries], flavor="iso"))])
    rows = con.execute("""SELECT ST_X(c), ST_Y(c), ST_Z(c), ST_AsText(g) FROM (
        SELECT i, g, ST_Centroid(g) AS c FROM (SELECT i, ST_GeomFromWKB(g) AS g FROM shapes)) ORDER BY i""").fetchall()
    for x, y, z, text in rows:
        assert " Z (" in text
        assert math.isclose(z, 1 + x + 2 * y, rel_tol=1e-9, abs_tol=1e-9), text
    assert len(rows) > 1500
