"""One large polygon or multipolygon against a small geometry: of a value that is seen once, only what the other one can see is built.

The answers are those of the whole geometry, which a constant of a query is built as, and those of GEOS where that is valid. The time is
compared with that of ST_Area, which is one pass over the same bytes, with a wide margin.
"""
import math
import random
import time

import duckdb
import pytest
import shapely

PREDICATES = ["Intersects", "Disjoint", "Contains", "Within", "Covers", "CoveredBy", "Touches", "Crosses", "Overlaps", "Equals"]
PATTERNS = {"Touches": ("FT*******", "F**T*****", "F***T****"), "Contains": ("T*****FF*",), "Within": ("T*F**F***",)}


def squares(side, size=0.5):
    """A multipolygon of squares on a raster."""
    return shapely.multipolygons([shapely.box(x, y, x + size, y + size) for x in range(side) for y in range(side)])


def star(rng, n, x, y, radius):
    """A ring around a place; valid."""
    turn = [2 * math.pi * i / n for i in range(n)]
    return shapely.Polygon([(x + r * math.cos(t), y + r * math.sin(t)) for t, r in ((t, radius * rng.uniform(0.6, 1)) for t in turn)])


def tangle(rng, n, most):
    """A polygon that crosses itself."""
    return shapely.Polygon([(rng.randint(0, most), rng.randint(0, most)) for _ in range(n)])


def small(rng, most, valid):
    x, y = rng.randint(0, most), rng.randint(0, most)
    size = rng.choice([0.25, 0.5, 1, 3, most / 4])
    return rng.choice([
        lambda: shapely.Point(x, y),
        lambda: shapely.LineString([(x, y), (x + size, y + size / 2), (x, y + size)]),
        lambda: shapely.box(x, y, x + size, y + size),
        lambda: star(rng, 7, x, y, size) if valid else tangle(rng, 5, most),
    ])()


def pairs(seed, valid):
    rng = random.Random(seed)
    for _ in range(150):
        kind = rng.randrange(4)
        if kind == 0:
            large = squares(20, rng.choice([0.5, 0.25]))
        elif kind == 1:
            large = star(rng, 1500, 10, 10, 10)
        elif kind == 2:
            large = shapely.Polygon(star(rng, 1500, 10, 10, 10).exterior, [star(rng, 200, 10, 10, 4).exterior])
        else:
            large = shapely.multipolygons([star(rng, 300, 4 * x + 2, 4 * y + 2, 1.9) for x in range(3) for y in range(3)])
        if not valid:
            large = shapely.multipolygons([tangle(rng, 400, 20), *shapely.get_parts(large)])
        yield large, small(rng, 20, valid)


def load(con, rows):
    con.execute("CREATE OR REPLACE TABLE pairs (id INTEGER, a GEOMETRY, b GEOMETRY)")
    for i, (a, b) in enumerate(rows):
        con.execute("INSERT INTO pairs VALUES (?, ST_GeomFromWKB(?), ST_GeomFromWKB(?))", [i, shapely.to_wkb(a), shapely.to_wkb(b)])


@pytest.mark.parametrize("valid", [True, False])
def test_answers(con, valid):
    rows = list(pairs(3, valid))
    load(con, rows)
    calls = [f"ST_{p}(a, b)" for p in PREDICATES] + [f"ST_{p}(b, a)" for p in PREDICATES]
    calls += ["ST_Relate(a, b)", "ST_Relate(b, a)", "ST_Distance(a, b)", "ST_Distance(b, a)", "ST_DWithin(a, b, 0.3)", "ST_DWithin(b, a, 2)"]
    once = con.execute(f"SELECT {', '.join(calls)} FROM pairs ORDER BY id").fetchall()
    for i, row in enumerate(once):
        # Two rows with the same geometry: it is a constant, and built as a whole
        whole = con.execute(f"SELECT {', '.join(calls)} FROM (SELECT * FROM pairs WHERE id = {i}) p, range(2)").fetchall()
        assert whole[0] == row, (i, shapely.to_wkt(rows[i][1]))
        matrix = row[calls.index("ST_Relate(a, b)")]
        if valid:
            assert matrix == shapely.relate(*rows[i])
            assert row[calls.index("ST_Distance(a, b)")] == pytest.approx(shapely.distance(*rows[i]), abs=1e-12)
        for name, patterns in PATTERNS.items():
            holds = any(all(p == "*" or (p == "F") == (m == "F") for p, m in zip(pattern, matrix)) for pattern in patterns)
            assert row[calls.index(f"ST_{name}(a, b)")] == holds
        assert row[calls.index("ST_Touches(a, b)")] == row[calls.index("ST_Touches(b, a)")]


def test_errors_at_the_end(con):
    """What an early answer does not need is checked all the same."""
    nan = shapely.multipolygons([*shapely.get_parts(squares(40)), shapely.Polygon([(90, 90), (91, 90), (math.nan, 91)])])
    load(con, [(nan, shapely.box(0, 0, 30, 30))])
    for call in ("ST_Intersects(a, b)", "ST_Touches(b, a)", "ST_Distance(a, b)", "ST_Relate(a, b)"):
        with pytest.raises(duckdb.Error, match="NaN or infinite"):
            con.execute(f"SELECT {call} FROM pairs").fetchall()


def seconds(con, call):
    best = math.inf
    for _ in range(5):
        begin = time.process_time()
        con.execute(f"SELECT {call} FROM pairs").fetchall()
        best = min(best, time.process_time() - begin)
    return best


@pytest.mark.parametrize("call, most", [("ST_Intersects(a, b)", 8), ("ST_Touches(b, a)", 8), ("ST_Contains(a, b)", 8), ("ST_Distance(a, b)", 15),
                                        ("ST_ConvexHull(a) IS NULL", 20)])
def test_time_of_a_pass(con, call, most):
    load(con, [(squares(400), shapely.box(200.6, 200.6, 201.2, 201.2))])
    assert seconds(con, call) < most * seconds(con, "ST_Area(a)")


def test_time_of_the_hull_of_one_place(con):
    load(con, [(shapely.multipoints([(0.3, 0.3)] * 300_000), shapely.Point(0, 0))])
    assert seconds(con, "ST_ConvexHull(a) IS NULL") < 20 * seconds(con, "ST_Envelope(a) IS NULL")
