"""Rewrites: the rows are the same without them, on pairs made to lie where a rewrite could change an answer."""
import math
import random

import numpy
import pytest
import shapely
from shapely import affinity
from shapely.geometry import LineString, MultiLineString, MultiPoint, MultiPolygon, Point, Polygon, box

SEEDS = range(6)


def plain(con):
    con.execute("SET vibe_rewrites = false")


def rewritten(con):
    con.execute("SET vibe_rewrites = true")


def plan(con, sql):
    return con.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()[1]


def both(con, sql, *expected):
    """The rows of a query, which must be the same in both modes; the plan of one has the names, that of the other none"""
    rewritten(con)
    rows = con.execute(sql).fetchall()
    text = plan(con, sql)
    for name in expected:
        assert name in text, text
    plain(con)
    assert not any(name in plan(con, sql) for name in expected if name.startswith("vibe_"))
    without = con.execute(sql).fetchall()
    rewritten(con)
    assert sorted(rows, key=repr) == sorted(without, key=repr)
    return rows


def star(rng, vertices, low=0.3):
    """A polygon around the origin, of about size 1, whose corners turn either way"""
    turns = sorted(rng.random() for _ in range(vertices))
    return Polygon([(r * math.cos(2 * math.pi * t), r * math.sin(2 * math.pi * t))
                    for t in turns for r in [rng.uniform(low, 1)]])


def shape(rng):
    """A valid geometry of any type, of about size 1"""
    def walk(count):
        return [(rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(count)]

    kind = rng.randrange(9)
    if kind == 0:
        return Point(rng.uniform(-1, 1), rng.uniform(-1, 1))
    if kind == 1:
        return LineString(walk(rng.choice([2, 3, 7])))
    if kind == 2:
        return MultiPoint(walk(4))
    if kind == 3:
        return MultiLineString([walk(2), walk(3)])
    if kind == 4:  # turns back on itself, nearly
        x = rng.uniform(0.5, 1)
        return LineString([(0, 0), (x, 0), (rng.uniform(-0.5, 0.4), rng.choice([0, 1e-9, 1e-5, 0.01]))])
    if kind == 5:
        return LineString([(0, 0), (1, 0), (1, 1), (0, 0)])
    polygon = star(rng, rng.choice([4, 6, 15]))
    if not polygon.is_valid or polygon.area < 1e-6:
        return box(0, 0, 1, 0.5)
    if kind == 6:
        hole = affinity.scale(polygon, 0.5, 0.5, origin=polygon.representative_point())
        holed = Polygon(polygon.exterior, [hole.exterior])
        return holed if holed.is_valid else polygon
    if kind == 7:
        pair = MultiPolygon([polygon, affinity.translate(polygon, 3, 0)])
        return pair if pair.is_valid else polygon
    return polygon


def near(point, rng):
    """The point, a few units in the last place or a share away"""
    x, y = point
    step = rng.randrange(4)
    if step == 0:
        return x, y
    if step == 1:
        return (numpy.nextafter(x, rng.choice([-1e9, 1e9])), numpy.nextafter(y, rng.choice([-1e9, 1e9])))
    if step == 2:
        return x + rng.uniform(-1, 1) * 1e-9 * max(abs(x), 1e-9), y
    return x * (1 + rng.uniform(-1, 1) * 1e-3), y * (1 + rng.uniform(-1, 1) * 1e-3)


def buffers(con, rows):
    """The buffers that ST_Buffer makes: of rows (i, wkt, distance)"""
    con.execute("CREATE OR REPLACE TABLE shapes (i INTEGER, g GEOMETRY, r DOUBLE)")
    con.executemany("INSERT INTO shapes VALUES (?, ?, ?)", rows)
    return dict(con.execute("SELECT i, ST_Buffer(g, r)::VARCHAR FROM shapes").fetchall())


def rim_pairs(con, seed, count):
    """(i, a, b, r): b is at the rim of the buffer of a, across, beside, inside or away from it"""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        a = affinity.translate(affinity.rotate(shape(rng), rng.uniform(0, 360)),
                               *(rng.choice([0, 0, 5, 1e3, 1e6, -4.5e7]) * rng.uniform(0.5, 1) for _ in "xy"))
        a = affinity.scale(a, *[rng.choice([1, 1, 1e-3, 1e4])] * 2, origin=(0, 0))
        size = max(a.bounds[2] - a.bounds[0], a.bounds[3] - a.bounds[1], 1e-3)
        r = size * rng.choice([1e-10, 1e-6, 1e-3, 0.05, 0.3, 1, 1, 3, 100])
        rows.append((i, a, r))
    made = buffers(con, [(i, shapely.to_wkt(a, rounding_precision=-1), r) for i, a, r in rows])
    pairs = []
    for i, a, r in rows:
        buffer = shapely.from_wkt(made[i])
        if buffer.is_empty:
            continue
        ring = rng.choice([part.exterior for part in getattr(buffer, "geoms", [buffer])])
        vertices = list(ring.coords)
        k = rng.randrange(len(vertices) - 1)
        (ax, ay), (bx, by) = vertices[k], vertices[k + 1]
        t = rng.choice([0, 0.5, rng.random()])
        x, y = near((ax + (bx - ax) * t, ay + (by - ay) * t), rng)
        # from the rim outwards
        length = math.hypot(bx - ax, by - ay) or 1
        ox, oy = (by - ay) / length * r, -(bx - ax) / length * r
        others = [Point(x, y), LineString([(x, y), (x + ox, y + oy)]),
                  LineString([(x + oy, y - ox), (x - oy, y + ox)]),
                  Polygon([(x, y), (x + ox - oy, y + oy + ox), (x + ox + oy, y + oy - ox)]),
                  Point(x + rng.uniform(-1, 1) * ox, y + rng.uniform(-1, 1) * oy), Point(x + 2 * ox, y + 2 * oy),
                  buffer, box(*a.bounds)]
        for b in others:
            if b.is_valid and not b.is_empty:
                pairs.append((len(pairs), shapely.to_wkt(a, rounding_precision=-1),
                              shapely.to_wkt(b, rounding_precision=-1), r))
    return pairs


def fill(con, pairs):
    con.execute("CREATE OR REPLACE TABLE texts (i INTEGER, a VARCHAR, b VARCHAR, r DOUBLE)")
    con.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", pairs)
    con.execute("CREATE OR REPLACE TABLE pairs AS SELECT i, a::GEOMETRY AS a, b::GEOMETRY AS b, r FROM texts")


@pytest.mark.parametrize("seed", SEEDS)
def test_buffers_at_their_rim(con, seed):
    fill(con, rim_pairs(con, seed, 150))
    for call in ("ST_Intersects(ST_Buffer(a, r), b)", "ST_Intersects(b, ST_Buffer(a, r))"):
        rows = both(con, f"SELECT i, {call} FROM pairs", "vibe_buffer_intersects")
        answers = [answer for _, answer in rows]
        # the pairs are worth looking at
        assert min(answers.count(True), answers.count(False)) > len(answers) / 10


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_with_buffers_at_their_rim(con, seed):
    fill(con, rim_pairs(con, 100 + seed, 25))
    con.execute("CREATE TABLE a AS SELECT i, a AS g, r FROM pairs WHERE i % 8 = 0")
    con.execute("CREATE TABLE b AS SELECT i, b AS g, r / 2 AS r FROM pairs")
    used = "vibe_dwithin", "vibe_buffer_intersects", "vibe_buffer_reach"
    for join in ("JOIN", "LEFT JOIN", "FULL JOIN"):
        for distance in ("a.r", "b.r", "0.125", "a.r + b.r"):
            both(con, f"SELECT a.i, b.i FROM a {join} b ON ST_Intersects(ST_Buffer(a.g, {distance}), b.g)", *used)
    for join in ("SEMI", "ANTI"):
        both(con, f"SELECT a.i FROM a {join} JOIN b ON ST_Intersects(b.g, ST_Buffer(a.g, a.r))", *used)
    assert "VIBE_SPATIAL_JOIN" in plan(con, "SELECT 1 FROM a JOIN b ON ST_Intersects(ST_Buffer(a.g, b.r), b.g)")


@pytest.mark.parametrize("seed", SEEDS)
def test_buffers_of_polygons_that_are_not_valid(con, seed):
    rng = random.Random(seed)
    pairs = []
    for i in range(300):
        rings = ["(" + ", ".join(f"{x} {y}" for x, y in [*ring, ring[0]]) + ")"
                 for ring in [[(rng.randrange(9), rng.randrange(9)) for _ in range(rng.choice([4, 5, 7]))]
                              for _ in range(rng.choice([1, 2, 2]))]]
        a = f"MULTIPOLYGON (({'), ('.join(rings)}))" if i % 2 else f"POLYGON ({', '.join(rings)})"
        b = f"POINT ({rng.uniform(-1, 10)!r} {rng.uniform(-1, 10)!r})"
        if i % 3 == 0:
            b = rng.choice(pairs)[1] if pairs else b
        pairs.append((i, a, b, rng.choice([0.01, 0.25, 1.5])))
    fill(con, pairs)
    both(con, "SELECT i, ST_Intersects(ST_Buffer(a, r), b) FROM pairs", "vibe_buffer_intersects")
    both(con, "SELECT p.i, q.i FROM pairs p JOIN pairs q ON ST_Intersects(ST_Buffer(p.a, p.r), q.b)", "vibe_dwithin")


@pytest.mark.parametrize("seed", SEEDS)
def test_buffers_keep_their_reach(con, seed):
    fill(con, rim_pairs(con, 200 + seed, 60))
    con.execute("CREATE TABLE rims AS SELECT a, r, unnest(ST_Dump(ST_Boundary(ST_Buffer(a, r)))).geom AS rim FROM pairs")
    con.execute("""CREATE TABLE corners AS SELECT a, r, ST_Distance(a, ST_PointN(rim, k::INTEGER)) AS d
                   FROM rims, range(1, ST_NPoints(rim) + 1) t(k)""")
    count, beyond = con.execute("""SELECT count(*), count(*) FILTER (d > vibe_buffer_reach(r) + vibe_buffer_reach(a))
                                   FROM corners""").fetchone()
    assert count > 1000 and beyond == 0


def test_distances_and_geometries_out_of_the_ordinary(con):
    con.execute("""CREATE TABLE shapes AS SELECT row_number() OVER () AS i, g::GEOMETRY AS g FROM (VALUES (NULL), ('POINT EMPTY'),
        ('POLYGON EMPTY'), ('GEOMETRYCOLLECTION EMPTY'), ('POINT (1 1)'), ('LINESTRING (0 0, 3 0)'), ('LINESTRING (1 1, 1 1)'),
        ('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))'), ('POLYGON ((2 0, 2 0, 2 4, 2 4, 2 0))'),
        ('MULTIPOLYGON (((0 0, 2 0, 2 2, 0 2, 0 0)), ((1 1, 3 1, 3 3, 1 3, 1 1)))'),
        ('GEOMETRYCOLLECTION (POINT (9 9), POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0)))'), ('POINT Z (1 2 3)')) t(g)""")
    con.execute("""CREATE TABLE pairs AS SELECT a.i AS i, b.i AS j, a.g AS a, b.g AS b, r FROM shapes a, shapes b,
        (VALUES (NULL), (0.0), (-0.0), (-0.5), (-3.0), (1e-300), (1e-16), (0.5), (1.0), (1e200)) t(r)""")
    rows = both(con, "SELECT i, j, r, ST_Intersects(ST_Buffer(a, r), b) FROM pairs", "vibe_buffer_intersects")
    assert {answer for *_, answer in rows} == {True, False, None}
    for distance in ("NULL", "0", "-0.5", "0.5", "1e-300", "x.i - 5"):
        both(con, f"SELECT x.i, y.i FROM shapes x JOIN shapes y ON ST_Intersects(ST_Buffer(x.g, {distance}), y.g)")
    for distance in ("'nan'", "'inf'"):
        for setting in (True, False):
            con.execute(f"SET vibe_rewrites = {setting}")
            with pytest.raises(Exception, match="must be finite"):
                con.execute(f"SELECT ST_Intersects(ST_Buffer(g, {distance}::DOUBLE), g) FROM shapes").fetchall()


def test_a_buffer_of_no_row_stays(con):
    con.execute("CREATE TABLE t AS SELECT ST_Point(i, 0) AS g FROM range(10) t(i)")
    sql = "SELECT count(*) FROM t WHERE ST_Intersects(ST_Buffer('POINT (3 0)'::GEOMETRY, 2.5), g)"
    assert both(con, sql) == [(5,)] and "vibe_buffer_intersects" not in plan(con, sql)


@pytest.mark.parametrize("buffer", ["ST_Buffer(ST_Reverse(a.g), 2.5)", "ST_Buffer('POINT (5 0)'::GEOMETRY, a.i)"])
def test_a_buffer_of_an_expression_is_made_once_a_row(con, buffer):
    con.execute("CREATE TABLE t AS SELECT i, ST_Point(i, 0) AS g FROM range(10) t(i)")
    sql = f"SELECT a.i, b.i FROM t a JOIN t b ON ST_Intersects({buffer}, b.g)"
    both(con, sql)
    text = plan(con, sql)
    assert "VIBE_SPATIAL_JOIN" in text and "vibe_dwithin" not in text and "Residual" not in text


def test_parameters_are_not_taken_for_constants(con):
    con.execute("CREATE TABLE t AS SELECT i, ST_Point(i, 0) AS g FROM range(10) t(i)")
    con.execute("PREPARE pairs AS SELECT count(*) FROM t a JOIN t b ON ST_Intersects(ST_Buffer(a.g, $1), b.g)")
    con.execute("PREPARE sizes AS SELECT sum(ST_Area(ST_Buffer(ST_Buffer(g, $1), $2))) FROM t")
    for r in (0.5, 1.25, 3.5, -1):
        for setting in (True, False):
            con.execute(f"SET vibe_rewrites = {setting}")
            expected = sum(abs(i - k) <= r for i in range(10) for k in range(10))
            assert con.execute(f"EXECUTE pairs({r})").fetchone() == (expected,)
            if r > 0:
                area = con.execute(f"EXECUTE sizes({r}, 2)").fetchone()[0] / 10
                assert area == pytest.approx(math.pi * (r + 2) ** 2, rel=0.01)


def test_exists_and_equalities_beside_a_buffer(con):
    con.execute("CREATE TABLE t AS SELECT i, i % 3 AS k, ST_Point(i % 17, i // 17) AS g FROM range(300) t(i)")
    met = "ST_Intersects(ST_Buffer(a.g, 1.5), b.g)"
    both(con, f"SELECT i FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE {met} AND a.i < b.i)", "vibe_dwithin",
         "VIBE_SPATIAL_JOIN")
    both(con, f"SELECT i FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE {met} AND a.i < b.i)", "vibe_dwithin")
    for join in ("JOIN", "LEFT JOIN", "RIGHT JOIN"):
        both(con, f"SELECT a.i, b.i FROM t a {join} t b ON a.k = b.k AND {met}", "vibe_dwithin")
    both(con, f"SELECT a.i, b.i FROM t a, t b WHERE {met} OR a.i = b.i + 200", "vibe_buffer_intersects")
    both(con, f"SELECT a.i, b.i FROM t a, t b WHERE NOT {met} AND a.i < 20", "vibe_buffer_intersects")
    both(con, f"SELECT a.i, CASE WHEN {met} THEN b.i END FROM t a, t b WHERE a.i < 20", "vibe_buffer_intersects")


def overlay_pairs(con, seed, count):
    rng = random.Random(seed)
    pairs = []
    for i in range(count):
        a, b = shape(rng), affinity.translate(shape(rng), rng.uniform(-0.7, 0.7), rng.uniform(-0.7, 0.7))
        if i % 4 == 0:  # on a grid, where boundaries meet
            a, b = (shapely.set_precision(g, 0.25) for g in (a, b))
        if i % 4 == 1:
            a, b = (affinity.scale(g, 1e5, 1e5, origin=(0, 0)) for g in (a, b))
        if i % 8 == 2:
            b = affinity.translate(a, 1e-12, 0)
        if a.is_valid and b.is_valid:
            pairs.append((i, shapely.to_wkt(a, rounding_precision=-1), shapely.to_wkt(b, rounding_precision=-1), 0))
    return pairs


@pytest.mark.parametrize("seed", SEEDS)
def test_areas_of_overlays(con, seed):
    pairs = overlay_pairs(con, seed, 400)
    fill(con, pairs)
    for name in ("Intersection", "Union", "Difference", "SymDifference"):
        function = f"vibe_{name.lower()}_area"
        rows = both(con, f"SELECT i, ST_Area(ST_{name}(a, b)) FROM pairs", function)
        areas = dict(rows)
        assert sum(area > 0 for area in areas.values()) > len(areas) / 10
        for i, a, b, _ in pairs[::5]:
            expected = getattr(shapely, {"SymDifference": "symmetric_difference"}.get(name, name.lower()))(
                shapely.from_wkt(a), shapely.from_wkt(b)).area
            assert areas[i] == pytest.approx(expected, rel=1e-9, abs=1e-9 * max(shapely.from_wkt(a).area, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_whether_overlays_are_empty(con, seed):
    fill(con, overlay_pairs(con, 50 + seed, 400))
    for negation in ("", "NOT "):
        rows = both(con, f"SELECT i, {negation}ST_IsEmpty(ST_Intersection(a, b)) FROM pairs", "vibe_intersects")
        assert {answer for _, answer in rows} == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_by_overlays(con, seed):
    fill(con, overlay_pairs(con, 70 + seed, 80))
    con.execute("CREATE TABLE a AS SELECT i, a AS g FROM pairs")
    con.execute("CREATE TABLE b AS SELECT i, b AS g FROM pairs")
    area = "ST_Area(ST_Intersection(a.g, b.g))"
    for condition in ("NOT ST_IsEmpty(ST_Intersection(a.g, b.g))", f"{area} > 0", f"{area} >= 0.125", f"0.25 < {area}",
                      f"{area} > 0.5 * ST_Area(a.g)", f"{area} > 0 OR ST_Equals(a.g, b.g)"):
        for join in ("JOIN", "LEFT JOIN"):
            sql = f"SELECT a.i, b.i FROM a {join} b ON {condition}"
            assert both(con, sql, "vibe_intersects")
            assert "VIBE_SPATIAL_JOIN" in plan(con, sql)
            plain(con)
            assert "VIBE_SPATIAL_JOIN" not in plan(con, sql)
        both(con, f"SELECT a.i, b.i FROM a, b WHERE {condition}", "VIBE_SPATIAL_JOIN")
    # Also true where nothing is shared
    for condition in (f"{area} >= 0", f"{area} > -1", f"{area} < 1", f"{area} > a.i - 10", f"NOT ({area} > 0)"):
        sql = f"SELECT a.i, b.i FROM a JOIN b ON {condition}"
        both(con, sql, "vibe_intersection_area")
        assert "vibe_intersects" not in plan(con, sql)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_done_already(con, seed):
    fill(con, rim_pairs(con, 300 + seed, 60) + overlay_pairs(con, seed, 100))
    calls = {"ST_Buffer(ST_Buffer(a, r), 0)": "ST_Buffer(a, r)",
             "ST_Buffer(ST_Buffer(a, -r, 4), 0)": "ST_Buffer(a, -r, 4)",
             "ST_UnaryUnion(ST_Union(a, b))": "ST_Union(a, b)",
             "ST_UnaryUnion(ST_UnaryUnion(ST_Collect([a, b])))": "ST_UnaryUnion(ST_Collect([a, b]))",
             "ST_UnaryUnion(ST_Buffer(a, r))": "ST_Buffer(a, r)"}
    for call, shorter in calls.items():
        both(con, f"SELECT i, {call} FROM pairs")
        assert plan(con, f"SELECT {call} FROM pairs") == plan(con, f"SELECT {shorter} FROM pairs")


@pytest.mark.parametrize("first,second,segments", [((0.25,), (0.5,), 16), ((0.5,), (0.25,), 16), ((0.01,), (1,), 16),
                                                   ((0.5, 3), (0.25,), 11), ((0.25,), (0.5, 20), 28), ((1, 2), (1, 2), 4)])
def test_buffers_of_buffers(con, first, second, segments):
    rng = random.Random(1)
    con.execute("CREATE TABLE texts (g VARCHAR)")
    con.executemany("INSERT INTO texts VALUES (?)",
                    [(shapely.to_wkt(shape(rng), rounding_precision=-1),) for _ in range(40)])
    con.execute("CREATE TABLE t AS SELECT g::GEOMETRY AS g FROM texts")
    arguments = [", ".join(map(str, values)) for values in (first, second)]
    twice = f"SELECT ST_Buffer(ST_Buffer(g, {arguments[0]}), {arguments[1]})::VARCHAR, g::VARCHAR FROM t"
    distance = first[0] + second[0]
    rewritten(con)
    once = con.execute(twice).fetchall()
    assert once == con.execute(f"SELECT ST_Buffer(g, {distance}, {segments})::VARCHAR, g::VARCHAR FROM t").fetchall()
    plain(con)
    for (one, text), (two, _) in zip(once, con.execute(twice).fetchall()):
        one, two = shapely.from_wkt(one), shapely.from_wkt(two)
        exact = shapely.from_wkt(text).buffer(distance, quad_segs=2000)
        # as near to the circle, or nearer
        assert one.symmetric_difference(exact).area <= two.symmetric_difference(exact).area * (1 + 1e-9)


@pytest.mark.parametrize("first", ["spatial", "vibespatial"])
def test_functions_of_spatial_are_left_alone(connect, spatial_path, extension, first):
    with connect(load=False) as con:
        for path in sorted([spatial_path, extension], key=lambda path: (path == spatial_path) != (first == "spatial")):
            con.execute(f"LOAD '{path}'")
        con.execute("CREATE TABLE t AS SELECT i, ST_Point(i, 0) AS g FROM range(10) t(i)")
        for expression in ("ST_Intersects(ST_Buffer(g, i), g)", "ST_Area(ST_Intersection(g, g))",
                           "ST_IsEmpty(ST_Intersection(g, g))", "ST_Buffer(ST_Buffer(g, 0.125), 0.5)"):
            text = plan(con, f"SELECT {expression} FROM t")
            assert "vibe_" not in text and "0.625" not in text
        assert "vibe_buffer_intersects" in plan(con, "SELECT vibe_intersects(vibe_buffer(g, i), g) FROM t")
        both(con, "SELECT a.i, b.i FROM t a JOIN t b ON vibe_intersects(vibe_buffer(a.g, 1.5), b.g)",
             "VIBE_SPATIAL_JOIN", "vibe_dwithin")


GEOMETRIES = ["POINT (1 2)", "POINT (3 4)", "POINT (-0.0 0)", "POINT EMPTY", None, "LINESTRING (0 0, 1 1)", "LINESTRING EMPTY",
              "POINT Z (7 8 9)", "POINT M (1 2 3)", "POINT ZM (1 2 3 4)", "POINT Z EMPTY", "MULTIPOINT (5 6, 7 7)",
              "POLYGON ((0 0, 4 0, 4 4, 0 0))", "POLYGON Z ((0 0 1, 4 0 2, 4 4 3, 0 0 1))", "GEOMETRYCOLLECTION (POINT (9 9), LINESTRING (1 0, 2 5))"]


def groups_of_geometries(con, seed, rows=4000):
    """g (id, k, g): groups of points alone, of a few kinds, and of all kinds"""
    rng = random.Random(seed)
    con.execute("CREATE TABLE texts (id INTEGER, k INTEGER, w VARCHAR)")
    choices = [GEOMETRIES[:2], GEOMETRIES[:5], [None], ["POINT EMPTY", None], GEOMETRIES]
    kinds = [rng.choice(choices) for _ in range(300)]
    groups = [rng.randrange(300) for _ in range(rows)]
    texts = [f"POINT ({rng.uniform(-9, 9)} {rng.uniform(-9, 9)})" if rng.random() < 0.3 and kinds[k][0] else rng.choice(kinds[k]) for k in groups]
    con.executemany("INSERT INTO texts VALUES (?, ?, ?)", list(zip(range(rows), groups, texts)))
    con.execute("CREATE TABLE g AS SELECT id, k, w::GEOMETRY AS g FROM texts ORDER BY id")


COLLECTED = ["ST_AsWKB(ST_Collect({}))::BLOB", "ST_AsText(ST_ConvexHull(ST_Collect({})))", "ST_Area(ST_ConvexHull(ST_Collect({})))",
             "ST_Extent(ST_Collect({}))::VARCHAR", "ST_AsText(ST_Envelope(ST_Collect({})))", "ST_XMin(ST_Collect({})) + ST_ZMax(ST_Collect({}))",
             "ST_NPoints(vibe_collect({}))", "CASE WHEN ST_IsEmpty(ST_Collect({})) THEN 1 ELSE 2 END"]


@pytest.mark.parametrize("seed", SEEDS)
def test_collected_lists(con, seed):
    """The order of a list is that of the rows, so one thread: with more, both plans may give any"""
    con.execute("SET threads = 1")
    groups_of_geometries(con, seed)
    for number, collected in enumerate(COLLECTED):
        for aggregate in ("list(g)", "array_agg(g)", "list(g) FILTER (WHERE id % 3 = 0)", "array_agg(g) FILTER (WHERE g IS NOT NULL)")[number % 2::2]:
            call = collected.replace("{}", aggregate)
            both(con, f"SELECT k, {call}, count(*) FROM g GROUP BY k", "vibe_collect_list")
            both(con, f"SELECT {call} FROM g", "vibe_collect_list")
            both(con, f"SELECT {call} FROM g WHERE id < 0", "vibe_collect_list")
            # DuckDB 2 makes the total of the lists of the groups, in their order: what does not depend on it
            total = f"ST_NPoints(ST_Collect({aggregate})), ST_Extent(ST_Collect({aggregate}))::VARCHAR"
            both(con, f"SELECT k % 7, {total} FROM g GROUP BY ROLLUP (k % 7) HAVING count(*) > 3 AND NOT ST_IsEmpty(ST_Collect({aggregate}))", "vibe_collect_list")
    rows = both(con, "SELECT k, ST_AsText(ST_Collect(list(g))) FROM g GROUP BY k", "vibe_collect_list")
    texts = [text for _, text in rows]
    assert any(text.startswith("MULTIPOINT (") for text in texts) and any(text.startswith("GEOMETRYCOLLECTION ZM (") for text in texts)
    assert "GEOMETRYCOLLECTION EMPTY" in texts and None not in texts


def test_collected_lists_of_many_threads(con):
    """What does not depend on the order of a list"""
    con.execute("SET threads = 4")
    con.execute("CREATE TABLE p AS SELECT i, hash(i) % 100000 AS k, ST_Point((hash(i) % 3600) / 10, (hash(i + 7) % 1800) / 10) AS g FROM range(500000) t(i)")
    both(con, "SELECT k, ST_AsText(ST_ConvexHull(ST_Collect(array_agg(g)))), ST_NPoints(ST_Collect(array_agg(g))) FROM p GROUP BY k HAVING count(*) > 3", "vibe_collect_list")
    both(con, "SELECT ST_AsText(ST_ConvexHull(ST_Collect(list(g)))), ST_NPoints(ST_Collect(list(g))) FROM p", "vibe_collect_list")


@pytest.mark.parametrize("query", [
    "SELECT ST_Collect(list(g ORDER BY id DESC)) FROM g GROUP BY k",
    "SELECT ST_NPoints(ST_Collect(list(DISTINCT g))) FROM g GROUP BY k",
    "SELECT ST_Collect(list(g)), len(list(g)) FROM g GROUP BY k",
    "SELECT ST_Collect(list(g)[1:2]) FROM g GROUP BY k",
    "SELECT ST_Collect(l), l FROM (SELECT list(g) AS l FROM g GROUP BY k)",
    "SELECT len(list(g)) FROM g GROUP BY k",
    "SELECT ST_Collect(list(ST_AsText(g))::GEOMETRY[]) FROM g GROUP BY k",
])
def test_lists_that_stay(con, query):
    con.execute("SET threads = 1")
    groups_of_geometries(con, 1)
    both(con, query)
    assert "vibe_collect_list" not in plan(con, query)


def test_collected_lists_beside_others(con):
    """Of several lists of a query those become collections that are nothing else"""
    con.execute("SET threads = 1")
    groups_of_geometries(con, 2)
    con.execute("CREATE TABLE crs AS SELECT id, k, ST_SetCRS(g, 'EPSG:4326') AS g FROM g" if con.execute(
        "SELECT count(*) FROM duckdb_functions() WHERE function_name = 'st_setcrs'").fetchone()[0] else "CREATE TABLE crs AS FROM g")
    for table in ("g", "crs"):
        query = f"SELECT ST_Collect(list(g)), len(list(g) FILTER (WHERE id > 9)), ST_Collect(list(ST_Centroid(g))) FROM {table} GROUP BY k"
        both(con, query, "vibe_collect_list")
        assert plan(con, query).count("vibe_collect_list") >= 2 and "list(" in plan(con, query).replace("vibe_collect_list(", "")
    both(con, "WITH c AS MATERIALIZED (SELECT k, ST_Collect(list(g)) AS c FROM g GROUP BY k) SELECT a.k, a.c FROM c a JOIN c b USING (k)", "vibe_collect_list")
    both(con, "SELECT k, (SELECT ST_AsText(ST_Collect(list(g))) FROM g b WHERE b.k = a.k) FROM g a")


def test_length_of_two_points(con):
    """The same bits as those of the line: of any size, NULL, EMPTY, with Z and M, and the same errors"""
    rng = random.Random(5)
    texts = [f"POINT ({rng.uniform(-1, 1) * 10.0 ** rng.randrange(-200, 200)!r} {rng.uniform(-1, 1) * 10.0 ** rng.randrange(-200, 200)!r})" for _ in range(300)]
    texts += ["POINT (1 2)", "POINT (4 6)", None, "POINT Z (1 2 3)", "POINT M (4 6 9)", "POINT ZM (1 2 3 4)", "POINT (inf 2)", "POINT (-0.0 0.0)", "POINT (nan 2)"]
    con.execute("CREATE TABLE points (g GEOMETRY)")
    con.executemany("INSERT INTO points VALUES (?)", [(text,) for text in texts])
    both(con, "SELECT ST_AsText(a.g), ST_AsText(b.g), hash(ST_Length(ST_MakeLine(a.g, b.g))), ST_Length(ST_MakeLine(a.g, b.g))::VARCHAR FROM points a, points b", "vibe_segment_length")
    both(con, "SELECT ST_Length(ST_MakeLine('POINT EMPTY', 'POINT EMPTY')) FROM points")
    both(con, "SELECT sum(ST_Length(ST_MakeLine(g, 'POINT (3 4)'))) FROM points WHERE ST_Length(ST_MakeLine(ST_Point(1, 1), g)) < 9", "vibe_segment_length")
    assert "vibe_segment_length" not in plan(con, "SELECT ST_Length(ST_MakeLine([g, g])) FROM points")
    for other in ("LINESTRING (0 0, 1 1)", "POINT EMPTY"):
        messages = []
        for mode in (rewritten, plain):
            mode(con)
            with pytest.raises(Exception) as error:
                con.execute(f"SELECT ST_Length(ST_MakeLine(g, '{other}'::GEOMETRY)) FROM points").fetchall()
            messages.append(str(error.value))
        assert messages[0] == messages[1] and "ST_MakeLine" in messages[0]
