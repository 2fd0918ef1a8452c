"""ST_HausdorffDistance against shapely, on random and on real geometries."""
import math

import pytest

shapely = pytest.importorskip("shapely")
import numpy as np  # noqa: E402


def random_geometries(count, seed):
    random = np.random.default_rng(seed)

    def walk(size):
        return np.cumsum(random.integers(-4, 5, (size, 2)) / 4, axis=0) + random.integers(0, 10, 2)
    for i in range(count):
        size = int(random.integers(2, 60))
        kind = i % 5
        if kind == 0:
            yield shapely.Point(*random.integers(0, 10, 2))
        elif kind == 1:
            yield shapely.MultiPoint(np.unique(walk(size), axis=0))
        elif kind == 2:
            yield shapely.LineString(walk(size + 3) + [0, 100 if i % 3 == 0 else 0])
        elif kind == 3:
            yield shapely.Point(*random.integers(0, 10, 2)).buffer(float(random.integers(1, 5)))
        else:
            yield shapely.MultiLineString([walk(size), walk(size)])


def near(ours, theirs):
    return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-11, abs_tol=1e-13)


def test_random_geometries(con):
    geometries = [geometry for geometry in random_geometries(300, 7) if geometry.length > 0 or "Point" in geometry.geom_type]
    lefts, rights = geometries[::2], geometries[1::2]
    pairs = [(left, right) for left in lefts[:60] for right in rights[:60]]
    con.execute("CREATE TABLE pairs (i INTEGER, a BLOB, b BLOB)")
    con.executemany("INSERT INTO pairs VALUES (?, ?, ?)", [(i, a.wkb, b.wkb) for i, (a, b) in enumerate(pairs)])
    rows = con.execute("SELECT ST_HausdorffDistance(ST_GeomFromWKB(a), ST_GeomFromWKB(b)) FROM pairs ORDER BY i").fetchall()
    for (ours,), (a, b) in zip(rows, pairs):
        assert near(ours, shapely.hausdorff_distance(a, b)), (a.wkt, b.wkt)
    assert len({ours for ours, in rows}) > 100


def test_real_geometries(con, data):
    """Countries and what simplifying leaves of them"""
    rows = con.execute(f"""SELECT ST_AsWKB(geom), ST_AsWKB(s), ST_HausdorffDistance(geom, s) FROM
        (SELECT geom, ST_Simplify(geom, 0.5) AS s FROM '{data}/countries.parquet')""").fetchall()
    compared = 0
    for geometry, simple, ours in rows:
        geometry, simple = shapely.from_wkb(bytes(geometry)), shapely.from_wkb(bytes(simple))
        if simple.is_empty:
            assert ours is None
            continue
        assert near(ours, shapely.hausdorff_distance(geometry, simple))
        compared += 1
    assert compared > 100
