"""ST_Distance and ST_DWithin against exact rational arithmetic: at most 4 ulps off, zero exactly where they meet."""

import math
import os

import numpy as np
import pytest
import shapely

from exact import exact_distance, generators, with_vibespatial

FULL = 10 if os.environ.get("VIBESPATIAL_FULL") else 1
COUNT = 1500
ULPS = 4


def load(con, left, right):
    with_vibespatial.load(con, "pool", np.concatenate([left, right]))
    return np.arange(len(left)), np.arange(len(left)) + len(left)


def is_empty(a, b):
    return shapely.is_empty(a) or shapely.is_empty(b)


@pytest.mark.parametrize("family", generators.FAMILIES)
def test_distance(con, family):
    left, right = generators.pairs(family, "distance", COUNT * FULL)
    l, r = load(con, left, right)
    found = with_vibespatial.select(con, l, r, {"d": "vibe_distance(a, b)", "turned": "vibe_distance(b, a)"})
    worst, positive = 0, 0
    for a, b, distance, turned in zip(left, right, found["d"].tolist(), found["turned"].tolist()):
        assert distance == turned, (a.wkt, b.wkt)
        squared = exact_distance.squared_distance(shapely.to_wkb(a), shapely.to_wkb(b))
        if squared is None:
            assert distance == 0.0, (a.wkt, b.wkt)  # an empty geometry, as spatial answers
            continue
        off = exact_distance.ulps_off(distance, squared)
        assert off <= ULPS, f"{off} ulps: {distance} for {math.sqrt(squared)}\n  {a.wkt}\n  {b.wkt}"
        worst, positive = max(worst, off), positive + (squared > 0)
    print(f"{family}: {len(left)} pairs, {positive} apart, at most {worst} ulps off")
    assert positive > len(left) // 10


@pytest.mark.parametrize("family", generators.FAMILIES)
def test_dwithin(con, family):
    """Around the true distance: well below it no, well above it yes, and at most 4 ulps of doubt between."""
    left, right = generators.pairs(family, "dwithin", COUNT // 3 * FULL)
    l, r = load(con, left, right)
    squares = [exact_distance.squared_distance(shapely.to_wkb(a), shapely.to_wkb(b)) for a, b in zip(left, right)]
    near = np.array([0.0 if square is None else math.sqrt(square) for square in squares])
    for factor, expected in ((0.5, False), (1 - 2.0**-49, False), (1 + 2.0**-49, True), (2.0, True)):
        found = with_vibespatial.select(con, l, r, {"yes": "vibe_dwithin(a, b, reach)"}, reach=near * factor)
        for a, b, square, yes in zip(left, right, squares, found["yes"].tolist()):
            wanted = square is not None and (square == 0 or expected)
            assert yes == wanted, (factor, a.wkt, b.wkt)


def test_dwithin_is_exact_where_the_distance_is_a_double(con):
    """Points and axis-parallel edges at Pythagorean distances: the distance itself is within, one ulp less is not."""
    rng = np.random.default_rng(8)
    left, right, reach = [], [], []
    for p, q, h in ((3, 4, 5), (5, 12, 13), (8, 15, 17), (20, 21, 29), (0, 7, 7)):
        for scale in (1.0, 0.125, 2.0**40, 2.0**-30):
            x, y = rng.integers(-1000, 1000, 2)
            corner = np.array([x + p, y + q]) * scale
            left += [shapely.Point(x * scale, y * scale)] * 2
            right += [shapely.Point(corner), shapely.box(*corner, *(corner + scale))]
            reach += [h * scale] * 2
    left, right, reach = np.array(left, dtype=object), np.array(right, dtype=object), np.array(reach)
    l, r = load(con, left, right)
    assert with_vibespatial.select(con, l, r, {"d": "vibe_distance(a, b)"})["d"].tolist() == reach.tolist()
    for values, expected in ((reach, True), (np.nextafter(reach, 0), False), (np.nextafter(reach, np.inf), True)):
        found = with_vibespatial.select(con, l, r, {"yes": "vibe_dwithin(a, b, reach)"}, reach=values)
        assert set(found["yes"].tolist()) == {expected}


ODD = [("-1", False), ("'nan'::DOUBLE", False), ("'inf'::DOUBLE", True), ("0", False), ("-0.0", False)]


@pytest.mark.parametrize("reach, expected", ODD)
def test_dwithin_of_odd_distances(con, reach, expected):
    sql = f"SELECT vibe_dwithin('POINT(0 0)'::GEOMETRY, 'POINT(3 4)'::GEOMETRY, {reach})"
    assert con.execute(sql).fetchone() == (expected,)


def test_touching_is_within_zero(con):
    left, right = generators.pairs("grid", "zero", 2000)
    l, r = load(con, left, right)
    asked = {
        "meet": "vibe_intersects(a, b)",
        "d": "vibe_distance(a, b)",
        "zero": "vibe_dwithin(a, b, 0)",
        "minus": "vibe_dwithin(a, b, -0.0)",
    }
    found = with_vibespatial.select(con, l, r, asked)
    full = np.array([not is_empty(a, b) for a, b in zip(left, right)])
    assert (found["meet"] == found["zero"]).all() and (found["meet"] == found["minus"]).all()
    assert (found["meet"][full] == (found["d"][full] == 0)).all()


def test_against_shapely(con):
    """Close to GEOS on ordinary coordinates."""
    left, right = generators.pairs("scattered", "shapely", 3000)
    l, r = load(con, left, right)
    ours = with_vibespatial.select(con, l, r, {"d": "vibe_distance(a, b)"})["d"]
    theirs = shapely.distance(left, right)
    full = ~np.isnan(theirs)
    assert np.allclose(ours[full], theirs[full], rtol=1e-9, atol=1e-12)


def test_extreme_magnitudes(con):
    """Where squares over- or underflow and the distance does not."""
    cases = [
        ("POINT(0 0)", "POINT(3e200 4e200)", 5e200),
        ("POINT(0 0)", "POINT(3e-200 4e-200)", 5e-200),
        ("POINT(0 0)", "LINESTRING(3e200 -1e200, 3e200 1e200)", 3e200),
        ("POINT(0 0)", "LINESTRING(3e-200 -1e-200, 3e-200 1e-200)", 3e-200),
        ("POINT(0 1e-150)", "LINESTRING(-1 0, 1 0)", 1e-150),
        ("LINESTRING(0 0, 1e-170 0)", "LINESTRING(0 1e-170, 1 1)", 1e-170),
        ("POINT(1e308 0)", "POINT(-0.5e308 0)", 1.5e308),
        ("POINT(0 0)", "POINT(5e-324 0)", 5e-324),
        # Differences overflow, the distance does not
        ("POINT(0 1)", "LINESTRING(-1e308 0, 1e308 0)", 1),
        ("LINESTRING(-1e308 3, 1e308 3)", "LINESTRING(1.5e308 0, -1.5e308 0)", 3),
        ("POINT(-1e308 1e308)", "LINESTRING(-1.7e308 -1.7e308, 1.7e308 1.7e308)", 2e308 / 2**0.5),
        ("MULTIPOINT(1e308 0, -1e308 0)", "POINT(-1e308 5)", 5),
    ]
    for a, b, expected in cases:
        (found,) = con.execute(f"SELECT vibe_distance('{a}'::GEOMETRY, '{b}'::GEOMETRY)").fetchone()
        squared = exact_distance.squared_distance(*shapely.to_wkb([shapely.from_wkt(a), shapely.from_wkt(b)]))
        assert exact_distance.ulps_off(found, squared) <= ULPS, (a, b, found, expected)


@pytest.mark.parametrize("a, b", [
    ("POINT(1e308 0)", "POINT(-1e308 0)"),
    ("POINT(1e308 -1e308)", "POINT(-1e308 1e308)"),
    ("POINT(1.5e308 1.5e308)", "POINT(0 0)"),
    ("POINT(0 1e308)", "LINESTRING(1 -1e308, 2 -1e308)"),
    ("LINESTRING(1e308 0, 1e308 1)", "LINESTRING(-1e308 0, -1e308 1)"),
    ("POLYGON((1e308 0, 1.7e308 0, 1.7e308 1, 1e308 0))", "MULTIPOINT(-1e308 0, -1e308 1)"),
])
def test_distances_beyond_the_range(con, a, b):
    """They are infinite: beyond every limit, and never 0"""
    con.execute("CREATE OR REPLACE TABLE beyond AS SELECT ?::GEOMETRY AS a, ?::GEOMETRY AS b FROM range(3)", [a, b])
    for left, right in (("a", "b"), ("b", "a"), ("a", f"'{b}'::GEOMETRY"), (f"'{a}'::GEOMETRY", f"'{b}'::GEOMETRY")):
        assert con.execute(f"SELECT any_value(vibe_distance({left}, {right})) FROM beyond").fetchone() == (math.inf,)
        assert con.execute(f"SELECT bool_or(vibe_dwithin({left}, {right}, 1.7e308)) FROM beyond").fetchone() == (False,)
    joined = "SELECT count(*) FROM beyond x JOIN beyond y ON vibe_dwithin(x.a, y.b, 1.7e308)"
    assert con.execute(joined).fetchone() == (0,)
    nearest = "SELECT max(distance), count(*) FROM vibe_knn('SELECT a FROM beyond', 'SELECT b FROM beyond', 1)"
    assert con.execute(nearest).fetchone() == (math.inf, 3)


@pytest.mark.parametrize("constant", ["POLYGON ((-3 -2, 5 -2, 5 7, 0 9, -3 7, -3 -2))", "LINESTRING (-3 -2, 5 7)", "POINT (1 1)", "POLYGON EMPTY"])
def test_dwithin_of_a_constant_is_its_distance(con, constant):
    """Points are held against the box of a constant first. The limits are the distances themselves, and their neighbours."""
    con.execute(f"""CREATE TABLE p AS SELECT ST_Point((hash(i) % 40000) / 1000 - 20, (hash(i + 7) % 40000) / 1000 - 20) AS g FROM range(3000) t(i)
        UNION ALL SELECT ST_Point(x / 10, y / 10) FROM range(-120, 120, 7) t(x), range(-120, 120, 7) u(y)""")
    con.execute(f"CREATE TABLE d AS SELECT g, ST_Distance(g, '{constant}'::GEOMETRY) AS d FROM p")
    for limit in ("d", "nextafter(d, 1e9)", "nextafter(d, -1e9)", "d * (1 + 1e-13)", "3.0", "0.0", "'inf'::DOUBLE"):
        for call in (f"ST_DWithin(g, '{constant}'::GEOMETRY, {limit})", f"ST_DWithin('{constant}'::GEOMETRY, g, {limit})"):
            empty = constant.endswith("EMPTY")
            wrong = con.execute(f"SELECT count(*), count(*) FILTER ({call}) FROM d WHERE {call} IS DISTINCT FROM (d <= {limit} AND {not empty})").fetchone()
            assert wrong == (0, 0), call
    assert con.execute("SELECT count(*) FROM d").fetchone()[0] > 4000


def random_constant(rng, scale, mixed):
    """A point, line or polygon with coordinates of a scale, or each of a scale of its own"""
    def number():
        return float(rng.uniform(-1, 1) * (10.0 ** rng.integers(-300, 145) if mixed else scale))

    count = rng.choice([1, 2, 3])
    if count == 1:
        return f"POINT ({number()!r} {number()!r})"
    if count == 2:
        return f"LINESTRING ({number()!r} {number()!r}, {number()!r} {number()!r}, {number()!r} {number()!r})"
    x, y, w, h = number(), number(), abs(number()), abs(number())
    return f"POLYGON (({x!r} {y!r}, {x + w!r} {y!r}, {x + w!r} {y + h!r}, {x!r} {y + h!r}, {x!r} {y!r}))"


@pytest.mark.parametrize("exponent", [-300, -200, -150, -130, -101, -100, -99, -50, 0, 50, 99, 100, 101, 140, 150, 200, 300, None])
def test_dwithin_its_distance_of_any_size(con, exponent):
    """A pair is within its own distance, where points are held against the box of a constant first: also where squares under- or overflow"""
    rng = np.random.default_rng(1000 + (exponent or 0))
    scale = 10.0 ** (exponent or 0)
    con.execute("CREATE TABLE p (g GEOMETRY)")
    numbers = rng.uniform(-1, 1, (400, 2)) * (10.0 ** rng.integers(-300, 145, (400, 2)) if exponent is None else scale * rng.choice([1e-7, 1, 3], (400, 2)))
    con.executemany("INSERT INTO p VALUES (?)", [(f"POINT ({float(x)!r} {float(y)!r})",) for x, y in numbers])
    far = 0
    for _ in range(25):
        constant = f"'{random_constant(rng, scale, exponent is None)}'::GEOMETRY"
        con.execute(f"CREATE OR REPLACE TABLE d AS SELECT g, ST_Distance(g, {constant}) AS d FROM p")
        for first, second in (("g", constant), (constant, "g")):
            wrong = con.execute(f"SELECT ST_AsText(g), d FROM d WHERE NOT ST_DWithin({first}, {second}, d)").fetchall()
            assert not wrong, (constant, wrong[:3])
            # well below it is none, unless that is 0 too
            below = con.execute(f"SELECT count(*), count(*) FILTER (ST_DWithin({first}, {second}, d / 4)) FROM d WHERE d / 4 > 0 AND d < 'inf'::DOUBLE").fetchone()
            assert below[1] == 0, constant
            far += below[0]
    assert far > 5000
