"""vibe_dissolve and vibe_overlay on real layers and on made-up ones, against shapely, row by row."""
import random

import pytest
import shapely
import shapely.ops

HOW = ["intersection", "difference", "identity", "symdifference", "union"]


def shapes(connection, query):
    """key -> geometry of the rows of a query of keys and a last column of WKB; parts of one key become one"""
    result = {}
    for *key, wkb in connection.execute(query).fetchall():
        result.setdefault(tuple(key), []).append(shapely.from_wkb(bytes(wkb)))
    return {key: parts[0] if len(parts) == 1 else shapely.union_all(parts) for key, parts in result.items()}


def expected_overlay(left, right, how):
    """(left key, right key) -> area; None stands for a side that has no part in it"""
    tree = shapely.STRtree(list(right.values()))
    keys = list(right)
    result, met = {}, {}
    for (i,), geometry in left.items():
        found = [(keys[j][0], right[keys[j]]) for j in tree.query(geometry, predicate="intersects")]
        for j, other in found:
            met.setdefault(j, []).append(geometry)
            if how in ("intersection", "identity", "union"):
                result[i, j] = shapely.intersection(geometry, other).area
        if how != "intersection":
            result[i, None] = shapely.difference(geometry, shapely.union_all([other for _, other in found])).area
    if how in ("symdifference", "union"):
        for (j,), geometry in right.items():
            result[None, j] = shapely.difference(geometry, shapely.union_all(met.get(j, []))).area
    return {key: area for key, area in result.items() if area > 1e-9}


def found_overlay(connection, how):
    columns = "i" if how == "difference" else "i, j"
    rows = connection.execute(f"SELECT {columns}, ST_AsWKB(geom) FROM vibe_overlay('a', 'b', how := '{how}')").fetchall()
    result = {}
    for *key, wkb in rows:
        geometry = shapely.from_wkb(bytes(wkb))
        assert geometry.is_valid and geometry.geom_type in ("Polygon", "MultiPolygon")
        key = tuple(key) if len(key) == 2 else (key[0], None)
        assert key not in result
        result[key] = geometry.area
    return {key: area for key, area in result.items() if area > 1e-9}


def assert_overlay(connection, how):
    left = shapes(connection, "SELECT i, ST_AsWKB(geom) FROM a")
    right = shapes(connection, "SELECT j, ST_AsWKB(geom) FROM b")
    expected, found = expected_overlay(left, right, how), found_overlay(connection, how)
    assert found.keys() == expected.keys()
    for key, area in expected.items():
        assert found[key] == pytest.approx(area, rel=1e-9, abs=1e-9), key
    return len(found)


@pytest.mark.parametrize("how", HOW)
def test_provinces_and_countries(con, data, how):
    con.execute(f"CREATE TABLE a AS SELECT row_number() OVER () AS i, geom FROM '{data}/countries.parquet'")
    con.execute(f"CREATE TABLE b AS SELECT row_number() OVER () AS j, geom FROM '{data}/provinces.parquet'")
    assert assert_overlay(con, how) > 50


def cut(box, generator, least):
    """A box cut at random into polygons that do not overlap"""
    x0, y0, x1, y1 = box.bounds
    if max(x1 - x0, y1 - y0) < least:
        return [box]
    slope = generator.uniform(-0.3, 0.3)
    if x1 - x0 > y1 - y0:
        at = generator.uniform(x0 + (x1 - x0) / 3, x1 - (x1 - x0) / 3)
        line = shapely.LineString([(at - slope, y0 - 1), (at + slope, y1 + 1)])
    else:
        at = generator.uniform(y0 + (y1 - y0) / 3, y1 - (y1 - y0) / 3)
        line = shapely.LineString([(x0 - 1, at - slope), (x1 + 1, at + slope)])
    parts = shapely.ops.split(box, line).geoms
    if len(parts) == 1:
        return [box]
    return [piece for part in parts for piece in cut(part, generator, least)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", HOW)
def test_random_coverages(con, how, seed):
    generator = random.Random(seed)
    for table, column, corner in (("a", "i", 0), ("b", "j", 4)):
        pieces = cut(shapely.box(corner, corner, corner + 12, corner + 10), generator, 2.5)
        pieces = [piece for piece in pieces if generator.random() < 0.9]
        con.execute(f"CREATE TABLE {table} ({column} INTEGER, geom GEOMETRY)")
        con.execute("CREATE OR REPLACE TEMP TABLE raw (k INTEGER, w BLOB)")
        con.executemany("INSERT INTO raw VALUES (?, ?)", [(k, piece.wkb) for k, piece in enumerate(pieces)])
        con.execute(f"INSERT INTO {table} SELECT k, ST_GeomFromWKB(w) FROM raw")
    assert assert_overlay(con, how) > 10


def test_dissolve_provinces(con, data):
    con.execute(f"CREATE TABLE provinces AS FROM '{data}/provinces.parquet'")
    rows = con.execute("SELECT country, ST_AsWKB(geom), name FROM vibe_dissolve('provinces', by := 'country', "
                       "aggregates := {'name': 'count'})").fetchall()
    parts = {}
    for country, wkb in con.execute("SELECT country, ST_AsWKB(geom) FROM provinces").fetchall():
        parts.setdefault(country, []).append(shapely.from_wkb(bytes(wkb)))
    assert {row[0] for row in rows} == set(parts) and len(rows) == len(parts)
    for country, wkb, count in rows:
        union = shapely.from_wkb(bytes(wkb))
        expected = shapely.union_all(parts[country])
        assert union.is_valid and count == len(parts[country])
        assert union.area == pytest.approx(expected.area, rel=1e-9)
        assert shapely.symmetric_difference(union, expected).area < 1e-9, country


def test_threads_do_not_matter(con, data):
    con.execute(f"CREATE TABLE a AS SELECT row_number() OVER () AS i, geom FROM '{data}/countries.parquet'")
    con.execute(f"CREATE TABLE b AS SELECT row_number() OVER () AS j, geom FROM '{data}/provinces.parquet'")
    seen = set()
    for threads in (1, 4):
        con.execute(f"SET threads = {threads}")
        rows = con.execute("SELECT i, j, ST_AsWKB(geom) FROM vibe_overlay('a', 'b', how := 'union') ORDER BY ALL").fetchall()
        seen.add(hash(tuple((i, j, bytes(wkb)) for i, j, wkb in rows)))
    assert len(seen) == 1
