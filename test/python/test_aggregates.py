"""Aggregates of geometries: memory, threads, many groups, windows, cancelling; against shapely and against numbers."""
import json
import math
import random
import subprocess
import sys
import threading
import time
from fractions import Fraction

import duckdb
import pytest
import shapely

# A process of its own, because the peak of resident memory is one of a process.
CHILD = r"""
import json, re, sys, duckdb
extension, limit, folder, statement = sys.argv[1:]
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{extension}'")
# Standard output is the answer
con.execute("SET enable_progress_bar = false")
con.execute(f"SET temp_directory = '{folder}'")
con.execute("SET threads = 2")
con.execute(f"SET memory_limit = '{limit}'")
answer = {}
try:
    answer["rows"] = con.execute(statement).fetchall()
except duckdb.OutOfMemoryException as error:
    answer["error"] = str(error)
    # What was counted is given back
    answer["left"] = con.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchone()[0]
answer["peak"] = int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) // 1024
print(json.dumps(answer))
"""

STRIPS = "SELECT ST_MakeEnvelope(i % 1000, i // 1000, i % 1000 + 1, i // 1000 + 1) AS g, i % 3 AS k FROM range({}) t(i)"


@pytest.fixture
def limited(extension, tmp_path, capsys):
    """Runs a statement in a process with a memory limit; what became of it"""

    def run(limit, statement):
        command = [sys.executable, "-c", CHILD, str(extension), limit, str(tmp_path / "spill"), statement]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.splitlines()[-1])
        with capsys.disabled():
            print(f"\nlimit {limit}: peak {answer['peak']} MiB" + (", out of memory" if "error" in answer else ""))
        return answer

    return run


@pytest.mark.parametrize("name", ["vibe_union_agg", "vibe_coverageunion_agg", "vibe_intersection_agg", "vibe_collect_agg"])
@pytest.mark.parametrize("grouping", ["", "GROUP BY k"])
def test_a_group_too_large_for_memory(limited, name, grouping):
    answer = limited("40MB", f"SELECT sum(a) FROM (SELECT ST_Area({name}(g)) AS a FROM ({STRIPS.format(1000000)}) {grouping})")
    assert answer["error"].startswith("Out of Memory Error")
    assert answer["left"] < 20e6


def test_the_work_on_a_group_is_counted(limited):
    # 28 MB of WKB, which fit; what the union of them takes does not
    query = f"SELECT ST_Area(vibe_union_agg(g)) FROM ({STRIPS.format(300000)})"
    assert "error" in limited("80MB", query)
    answer = limited("1GB", query)
    assert answer["rows"] == [[300000.0]] and answer["peak"] < 1000


def test_windows_keep_a_partition_once(limited):
    # 20,000 frames of 200 rows: each holds 18 kB, all of them 370 MB
    query = ("SELECT count(*), sum(ST_NumGeometries(u)) FROM (SELECT vibe_collect_agg(g) OVER (ORDER BY i ROWS 199 PRECEDING) AS u "
             "FROM (SELECT i, ST_MakeEnvelope(i, 0, i + 1, 1) AS g FROM range(20000) t(i)))")
    answer = limited("1GB", query)
    assert answer["rows"] == [[20000, 20000 * 200 - 199 * 100]]


def test_a_million_groups(con):
    # Each has two boxes of the width of 2, one shifted by 1
    rows = con.execute("""
        SELECT count(*), sum(a), min(a), max(a), sum(b), max(n), min(n) FROM (
            SELECT k, ST_Area(vibe_union_agg(g)) AS a, ST_Area(vibe_intersection_agg(g)) AS b, ST_NumGeometries(vibe_collect_agg(g)) AS n
            FROM (SELECT i % 1000000 AS k, (i // 1000000) % 2 AS s, ST_MakeEnvelope(k + s, 0, k + s + 2, 1) AS g FROM range(2000000) t(i))
            GROUP BY k)""").fetchall()
    assert rows == [(1000000, 3e6, 3.0, 3.0, 1e6, 2, 2)]


def star(generator, x, y, size):
    """A polygon around a centre"""
    count = generator.randrange(3, 12)
    angles = sorted(generator.uniform(0, 6.283) for _ in range(count))
    radii = [size * generator.uniform(0.2, 1) for _ in angles]
    ring = [(x + r * math.cos(a), y + r * math.sin(a)) for r, a in zip(radii, angles)]
    return shapely.make_valid(shapely.Polygon(ring))


def geometries(count, seed):
    """Polygons, lines, points, collections; some EMPTY or NULL"""
    generator = random.Random(seed)
    result = []
    for i in range(count):
        x, y = generator.uniform(0, 10), generator.uniform(0, 10)
        kind = generator.randrange(12)
        if kind == 0:
            result.append(None)
        elif kind == 1:
            result.append(shapely.from_wkt("POLYGON EMPTY"))
        elif kind == 2:
            result.append(shapely.Point(x, y))
        elif kind == 3:
            result.append(shapely.LineString([(x, y), (generator.uniform(0, 10), y), (x, generator.uniform(0, 10))]))
        else:
            result.append(star(generator, x, y, generator.uniform(0.5, 3)))
    return result


def load(connection, shapes):
    connection.execute("CREATE OR REPLACE TABLE shapes (i INTEGER, k INTEGER, g GEOMETRY)")
    rows = [(i, i % 7, None if g is None else g.wkb) for i, g in enumerate(shapes)]
    connection.execute("CREATE OR REPLACE TEMP TABLE raw (i INTEGER, k INTEGER, w BLOB)")
    connection.executemany("INSERT INTO raw VALUES (?, ?, ?)", rows)
    connection.execute("INSERT INTO shapes SELECT i, k, ST_GeomFromWKB(w) FROM raw")


def assert_same(ours, expected):
    """Equal as point sets, but for the rounding of crossings"""
    ours = shapely.from_wkb(bytes(ours))
    assert ours.is_valid
    assert ours.area == pytest.approx(expected.area, rel=1e-9, abs=1e-9)
    assert ours.length == pytest.approx(expected.length, rel=1e-9, abs=1e-9)
    assert ours.hausdorff_distance(expected) < 1e-9 if not expected.is_empty else ours.is_empty


@pytest.mark.parametrize("seed", range(5))
def test_groups_against_shapely(con, seed):
    shapes = geometries(200, seed)
    load(con, shapes)
    rows = con.execute("SELECT k, ST_AsWKB(vibe_union_agg(g)) FROM shapes GROUP BY k ORDER BY k").fetchall()
    assert len(rows) == 7
    for k, union in rows:
        assert_same(union, shapely.union_all([g for g in shapes[k::7] if g is not None]))


def test_windows_against_shapely(con):
    shapes = geometries(120, 99)
    load(con, shapes)
    rows = con.execute("""
        SELECT i, ST_AsWKB(vibe_union_agg(g) OVER (ORDER BY i ROWS BETWEEN 4 PRECEDING AND 3 FOLLOWING EXCLUDE CURRENT ROW)),
            ST_AsWKB(vibe_intersection_agg(g) FILTER (WHERE ST_Area(g) > 0) OVER (ORDER BY i ROWS 2 PRECEDING))
        FROM shapes ORDER BY i""").fetchall()
    for i, union, common in rows:
        frame = [g for j, g in enumerate(shapes) if i - 4 <= j <= i + 3 and j != i and g is not None]
        assert_same(union, shapely.union_all(frame))
        areas = [g for g in shapes[max(0, i - 2):i + 1] if g is not None and g.area > 0]
        assert (common is None) == (not areas)
        if areas:
            assert_same(common, shapely.intersection_all(areas) if len(areas) > 1 else areas[0])


def line_through(point, rng):
    """A line between grid nodes that contains a rational point"""
    while True:
        start = [rng.randint(0, 8), rng.randint(0, 8)]
        steps = [at - from_ for at, from_ in zip(point, start)]
        stretch = steps[0].denominator * steps[1].denominator
        end = [from_ + stretch * step for from_, step in zip(start, steps)]
        if any(steps) and max(map(abs, end)) < 100:
            return f"LINESTRING ({start[0]} {start[1]}, {end[0]} {end[1]})"


@pytest.mark.parametrize("denominators", [(1, 2, 4), (3, 5, 7)])
def test_common_point_of_three_lines(con, denominators):
    """It is found if its coordinates are doubles. If not, the crossing of two of them is rounded and may miss the third; what is
    found is near it all the same."""
    rng = random.Random(3)
    points, rows = [], []
    for i in range(1000):
        denominator = rng.choice(denominators)
        points.append([Fraction(rng.randint(0, 8 * denominator), denominator) for _ in range(2)])
        rows += [(i, line_through(points[-1], rng)) for _ in range(3)]
    con.execute("CREATE TABLE lines (i INTEGER, w VARCHAR)")
    con.executemany("INSERT INTO lines VALUES (?, ?)", rows)
    found = con.execute("SELECT i, ST_AsWKB(vibe_intersection_agg(w::GEOMETRY)) FROM lines GROUP BY i ORDER BY i").fetchall()
    missed = 0
    for (_, common), point in zip(found, points):
        common, at = shapely.from_wkb(bytes(common)), shapely.Point(*map(float, point))
        exact = all(Fraction(float(value)) == value for value in point)
        missed += common.is_empty
        assert common.intersects(at) if exact else common.is_empty or common.distance(at) < 1e-14, point
    assert missed == 0 if 2 in denominators else missed > 0


def test_common_edges_and_corners_of_boxes(con):
    """Borders that meet in doubles: what boxes have in common is found in every dimension"""
    rng = random.Random(4)
    con.execute("CREATE TABLE boxes (i INTEGER, x0 INTEGER, y0 INTEGER, x1 INTEGER, y1 INTEGER)")
    expected = []
    for i in range(1000):
        low, high = [0, 0], [8, 8]
        for _ in range(rng.randint(3, 5)):
            x, y = (sorted(rng.sample(range(9), 2)) for _ in range(2))
            con.execute("INSERT INTO boxes VALUES (?, ?, ?, ?, ?)", [i, x[0], y[0], x[1], y[1]])
            low, high = [max(low[0], x[0]), max(low[1], y[0])], [min(high[0], x[1]), min(high[1], y[1])]
        expected.append((low, high) if low[0] <= high[0] and low[1] <= high[1] else None)
    found = con.execute("SELECT i, ST_Dimension(c), ST_IsEmpty(c), ST_XMin(c), ST_YMin(c), ST_XMax(c), ST_YMax(c) FROM (SELECT i, "
                        "vibe_intersection_agg(ST_MakeEnvelope(x0, y0, x1, y1)) AS c FROM boxes GROUP BY i) ORDER BY i").fetchall()
    dimensions = [0, 0, 0]
    for (_, dimension, empty, *limits), box in zip(found, expected):
        assert empty == (box is None)
        if box:
            assert limits == [*box[0], *box[1]] and dimension == (box[0][0] < box[1][0]) + (box[0][1] < box[1][1])
            dimensions[dimension] += 1
    assert min(dimensions) > 10


@pytest.mark.parametrize("name", ["vibe_union_agg", "vibe_intersection_agg"])
def test_same_bits_on_any_threads_in_any_order(con, name):
    # Large enough for all threads to come
    table = "SELECT ST_MakeEnvelope(x / 7, y / 11, x / 7 + 1.3, y / 11 + 1.7) AS g, hash(x * 1000 + y) AS h FROM range(90) t(x), range(90) u(y)"
    if name == "vibe_intersection_agg":
        table = "SELECT ST_MakeEnvelope(x / 700, y / 1100, 1 + x / 900, 1 + y / 700) AS g, hash(x * 1000 + y) AS h FROM range(40) t(x), range(40) u(y)"
    con.execute(f"CREATE TABLE forward AS SELECT g FROM ({table}) ORDER BY h")
    con.execute(f"CREATE TABLE backward AS SELECT g FROM ({table}) ORDER BY h DESC")
    seen = set()
    for threads in (1, 2, 4):
        con.execute(f"SET threads = {threads}")
        for relation in ("forward", "backward"):
            seen.add(con.execute(f"SELECT md5(ST_AsWKB({name}(g))), ST_NPoints({name}(g)) FROM {relation}").fetchone())
    assert len(seen) == 1 and seen.pop()[1] > 4


def test_cancel(con):
    con.execute("CREATE TABLE many AS SELECT ST_MakeEnvelope(hash(i) % 1000, hash(i + 0.5) % 1000, hash(i) % 1000 + 1.5, "
                "hash(i + 0.5) % 1000 + 1.5) AS g, i FROM range(2000000) t(i)")
    for query in ("SELECT ST_Area(vibe_union_agg(g)) FROM many",
                  "SELECT max(ST_Area(a)) FROM (SELECT vibe_union_agg(g) AS a FROM many GROUP BY i % 100000)",
                  "SELECT max(ST_Area(a)) FROM (SELECT vibe_union_agg(g) OVER (ORDER BY i ROWS 50 PRECEDING) AS a FROM many)",
                  "SELECT max(ST_Area(vibe_union(g, g))) FROM many"):
        timer = threading.Timer(1.5, con.interrupt)
        begin = time.monotonic()
        timer.start()
        with pytest.raises(duckdb.InterruptException):
            con.execute(query).fetchall()
        assert time.monotonic() - begin < 8, query
        timer.join()
    assert con.execute("SELECT count(*) FROM many").fetchone() == (2000000,)


def test_one_statement_from_many_threads(con):
    """Each connection has its own statement; all of them work at once"""
    con.execute("CREATE TABLE strips AS " + STRIPS.format(30000))
    results, errors = [], []

    def work():
        try:
            cursor = con.cursor()
            for _ in range(5):
                results.append(cursor.execute("SELECT sum(ST_Area(u)) FROM (SELECT vibe_union_agg(g) AS u FROM strips GROUP BY k)").fetchone()[0])
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and results == [30000.0] * 20
