"""Spatial joins under a memory limit, cancelled, on any number of threads, and in a stable order.

VIBESPATIAL_LONG=1 adds joins that are far larger than their memory limit: minutes, and gigabytes in the temporary folder.
"""
import json
import os
import subprocess
import sys
import threading
import time

import duckdb
import pytest

from test_gpu_runtime import fake  # noqa: F401

LONG = int(os.environ.get("VIBESPATIAL_LONG", "0"))
long = pytest.mark.skipif(not LONG, reason="VIBESPATIAL_LONG=1 runs it")

# A process of its own, because the peak of resident memory is one of a process.
CHILD = r"""
import json, re, sys, duckdb
extension, limit, folder, threads, *statements = sys.argv[1:]
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{extension}'")
# Standard output is the answer
con.execute("SET enable_progress_bar = false")
con.execute(f"SET temp_directory = '{folder}'")
con.execute(f"SET threads = {threads}")
if limit:
    con.execute(f"SET memory_limit = '{limit}'")
try:
    for statement in statements:
        rows = con.execute(statement).fetchall()
    answer = {"rows": rows}
except duckdb.OutOfMemoryException as error:
    answer = {"error": str(error)}
# Not ru_maxrss, which begins at what the parent had
answer["peak"] = int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) // 1024
print(json.dumps(answer))
"""


@pytest.fixture
def in_child(extension, tmp_path, capsys):
    """Runs statements in a process with a memory limit; the rows of the last, or None where memory did not do."""

    def run(name, limit, *statements, threads=2):
        command = [sys.executable, "-c", CHILD, str(extension), limit, str(tmp_path / "spill"), str(threads), *statements]
        begin = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, f"{name}: status {done.returncode}\n{done.stderr}"
        answer = json.loads(done.stdout.splitlines()[-1])
        run.peak = answer["peak"]
        with capsys.disabled():
            print(f"\n{name}, limit {limit or 'none'}: {time.monotonic() - begin:.1f} s, peak {answer['peak']} MiB"
                  + (", out of memory" if "error" in answer else ""))
        return [tuple(row) for row in answer["rows"]] if "rows" in answer else None

    return run


def boxes(count, shift):
    """A lattice of boxes with gaps, in no order; those of two shifts below 1 meet one to one."""
    return (f"(SELECT i, ST_MakeEnvelope(x + {shift}, y + {shift}, x + {shift} + 1, y + {shift} + 1) AS g FROM "
            f"(SELECT i, 2.0 * (i * 7919 % {count} % 1000) AS x, 2.0 * (i * 7919 % {count} // 1000) AS y FROM range({count}) t(i)))")


def points(count):
    return (f"(SELECT i, ST_Point((hash(i) % 3600000000) / 1e7 - 180.0, (hash(i + 1000000007) % 1800000000) / 1e7 - 90.0) AS g "
            f"FROM range({count}) t(i))")


def box_join(count):
    """Pairs that have to be made, and what comes out."""
    query = ("SELECT count(*), sum(a.i * 3 - b.i), count(*) FILTER (a.i = b.i) "
             f"FROM {boxes(count, 0)} a JOIN {boxes(count, 0.5)} b ON ST_Intersects(a.g, b.g)")
    return query, [(count, count * (count - 1), count)]


@pytest.mark.parametrize("kind", ["", "LEFT", "FULL"])
def test_small_limit(in_child, kind):
    query, expected = box_join(300_000)
    rows = in_child(f"300,000 x 300,000 boxes {kind}", "60MB", query.replace("JOIN", f"{kind} JOIN"))
    assert rows == expected


def test_no_limit(in_child):
    query, expected = box_join(300_000)
    assert in_child("300,000 x 300,000 boxes", "", query) == expected


def test_small_limit_counted(in_child, data):
    """The probe side is not kept, so it does not count."""
    query = f"SELECT count(*), count(DISTINCT p.name) FROM {points(2_000_000)} a JOIN '{data}/provinces.parquet' p ON ST_Within(a.g, p.geom)"
    unlimited = in_child("2 million points in provinces", "", query)
    limited = in_child("2 million points in provinces", "80MB", query)
    assert limited == unlimited


# 16 circles of 100,000 vertices, which fill a quarter of a lattice
CIRCLES = "(SELECT i, ST_Buffer(ST_Point(i % 4 * 10 + 5, i // 4 * 10 + 5), 4.99, 25000) AS g FROM range(16) t(i))"


@pytest.mark.parametrize("limit", ["200MB", "350MB", "1GB"])
def test_large_polygons_below_a_second_join(in_child, tmp_path, limit):
    """The geometries of the first join are not copied with each of its pairs, and the cells count while they are built."""
    # Three row groups for two threads: the one that ends first takes chunks from the other
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT i, hash(i) % 40000 / 1e3 AS x, hash(i + 77) % 40000 / 1e3 AS y FROM range(1200000) t(i)) "
                           f"TO '{tmp_path}/points.parquet' (ROW_GROUP_SIZE 409600)")
    query = (f"WITH circles AS MATERIALIZED {CIRCLES} SELECT count(*), sum(a.i - b.i), sum(p.i % 97) FROM "
             f"(SELECT i, ST_Point(x, y) AS g, ST_Point(y, x / 2) AS h FROM '{tmp_path}/points.parquet') p "
             "JOIN circles a ON ST_Within(p.g, a.g) JOIN circles b ON ST_Within(p.h, b.g) WHERE a.i <> b.i")
    expected = in_child("1 million points in two circles", "", query)
    assert in_child("1 million points in two circles", limit, query) == expected
    assert in_child.peak * 1024**2 <= (int(limit[:-2]) * (1000 if limit.endswith("GB") else 1) + 300) * 1e6


@long
def test_many_points(in_child, shared_data):
    provinces = f"(SELECT ST_GeomFromWKB(geom) AS g, id FROM '{shared_data}/ne10m_states_provinces.parquet')"
    query = f"SELECT count(*), sum(p.id), sum(a.i % 1000 * p.id) FROM {points(10_000_000)} a JOIN {provinces} p ON ST_Within(a.g, p.g)"
    unlimited = in_child("10 million points in provinces", "", query)
    assert in_child("10 million points in provinces", "300MB", query) == unlimited


@long
@pytest.mark.parametrize("kind", ["", "LEFT"])
def test_many_boxes(in_child, kind):
    query, expected = box_join(20_000_000)
    assert in_child(f"20 million x 20 million boxes {kind}", "1GB", query.replace("JOIN", f"{kind} JOIN")) == expected


@long
def test_many_boxes_from_disk(in_child, tmp_path):
    """Both sides in a database file, as users have them."""
    query, expected = box_join(5_000_000)
    statements = [f"ATTACH '{tmp_path}/boxes.db' AS f (STORAGE_VERSION 'v1.5.0')"]
    for name, shift in (("a", 0), ("b", 0.5)):
        statements.append(f"CREATE TABLE f.{name} AS FROM {boxes(5_000_000, shift)}")
        query = query.replace(f"{boxes(5_000_000, shift)} {name}", f"f.{name} {name}")
    assert in_child("5 million x 5 million boxes from disk", "400MB", *statements, query) == expected


CROWD = "(SELECT i, ST_Point(i % 500 / 500, i // 500 / 500) AS g FROM range(250000) t(i))"

# Joins that would run for minutes. What is asked of each pair cannot be known without the pair.
ENDLESS = {
    "pairs": f"SELECT count(*) FROM {CROWD} a JOIN {CROWD} b ON ST_DWithin(a.g, b.g, 2) AND a.i * b.i % 1000003 = 7",
    "anti": f"SELECT count(*) FROM {CROWD} a ANTI JOIN {CROWD} b ON ST_DWithin(a.g, b.g, 2) AND a.i + b.i < 0",
    "full": f"SELECT count(*) FROM {CROWD} a FULL JOIN {CROWD} b ON ST_DWithin(a.g, b.g, 2) AND a.i + b.i < 0",
    "column distance": f"SELECT max(a.i * b.i % 1000003) FROM {CROWD} a JOIN {CROWD} b ON ST_DWithin(a.g, b.g, 2 + a.i % 2)",
    "polygons": "SELECT max(a.i * b.i % 1000003) FROM (SELECT i, ST_MakeEnvelope(-i, -i, i, i) AS g FROM range(1, 60000) t(i)) a "
                "JOIN (SELECT i, ST_MakeEnvelope(-i, -i - 1, i, i) AS g FROM range(1, 60000) t(i)) b ON ST_Overlaps(a.g, b.g)",
    "build": f"SELECT count(*) FROM {boxes(3_000_000, 0)} a JOIN {boxes(3_000_000, 0.5)} b ON ST_Intersects(a.g, b.g) AND a.i <> b.i",
}


def time_to_cancel(connect, query, after):
    """Seconds from the interrupt to the end of the query; None if it had ended before."""
    with connect(threads=2) as connection:
        moment = []

        def interrupt():
            moment.append(time.monotonic())
            connection.interrupt()

        timer = threading.Timer(after, interrupt)
        timer.start()
        try:
            connection.execute(query).fetchall()
            ended = True
        except duckdb.InterruptException:
            ended = False
        end = time.monotonic()
        timer.cancel()
        # It answers the next query as if nothing had been.
        assert connection.execute("SELECT 42").fetchone() == (42,)
        return None if ended else end - moment[0]


@pytest.mark.parametrize("after", [0.05, 0.4, 1.2])
@pytest.mark.parametrize("name", ENDLESS)
def test_cancel(connect, name, after):
    """Half a second at most, in the best of three: the machine may be busy."""
    times = []
    while len(times) < 3 and (not times or min(times) > 0.5):
        seconds = time_to_cancel(connect, ENDLESS[name], after)
        if seconds is None:
            # Only the building of an index may have been done by then.
            assert name == "build"
            return
        times.append(seconds)
    assert min(times) <= 0.5, times


@pytest.fixture(scope="module")
def shapes(connect):
    """Points in several row groups, and boxes that overlap."""
    with connect() as connection:
        connection.execute("""CREATE TABLE p AS SELECT i, i % 11 AS k, i % 8 / 4 AS d,
            CASE WHEN i % 50 > 0 THEN ST_Point(hash(i) % 100000 / 100, hash(i + 1000000007) % 100000 / 100) END AS g FROM range(300000) t(i)""")
        connection.execute("""CREATE TABLE r AS SELECT i, i % 11 AS k, ST_MakeEnvelope(x, y, x + 30, y + 20) AS g FROM (SELECT i,
            (hash(i * 3) % 1000)::DOUBLE AS x, (hash(i * 5 + 1) % 1000)::DOUBLE AS y FROM range(900) t(i))""")
        yield connection


KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on", ["ST_Intersects(p.g, r.g)", "ST_Within(p.g, r.g) AND p.k <> r.k", "ST_DWithin(p.g, r.g, p.d)"])
def test_threads(shapes, kind, on):
    """The same rows on any number of threads."""
    row = f"hash({columns(kind)})"
    found = {}
    for threads in (1, 2, 3, 8):
        shapes.execute(f"SET threads = {threads}")
        pairs = shapes.execute(f"SELECT count(*), sum({row}::HUGEINT) FROM p {kind} r ON {on}").fetchall()
        counts = shapes.execute(f"SELECT p.k, count(*), sum(p.i), min(p.i), max(p.d) FROM p {kind} r ON {on} GROUP BY p.k ORDER BY ALL").fetchall()
        found[threads] = (pairs, counts)
    assert all(rows == found[1] for rows in found.values())
    assert found[1][0][0][0] > 0
    assert sum(count for _, count, *_ in found[1][1]) == found[1][0][0][0]


def columns(kind):
    return "p.i" if kind[:4] in ("SEMI", "ANTI") else "p.i, r.i"


@pytest.mark.parametrize("query", [f"SELECT {columns(kind)} FROM p {kind} r ON ST_Intersects(p.g, r.g)" for kind in KINDS] + [
    "SELECT p.i, r.i FROM p, r WHERE ST_Within(p.g, r.g) AND p.k = r.k",
    "SELECT r.i, p.i FROM r JOIN p ON ST_DWithin(p.g, r.g, 1) LIMIT 5000",
    "SELECT r.i, count(*), sum(p.d) FROM r JOIN p ON ST_Intersects(p.g, r.g) GROUP BY r.i"])
def test_stable_order(shapes, query):
    """vibe_deterministic: the same rows in the same order, again and on other numbers of threads."""
    shapes.execute("SET vibe_deterministic = true")
    try:
        found = []
        for threads in (4, 4, 1, 2):
            shapes.execute(f"SET threads = {threads}")
            found.append(shapes.execute(query).fetchall())
        assert len(found[0]) > 0
        assert all(rows == found[0] for rows in found[1:])
    finally:
        shapes.execute("RESET vibe_deterministic")


def test_progress(connect):
    """A long join says how far it is."""
    with connect(threads=2) as connection:
        connection.execute("SET enable_progress_bar = true")
        connection.execute("SET enable_progress_bar_print = false")
        connection.execute("SET progress_bar_time = 1")
        connection.execute("CREATE TABLE p AS SELECT i, ST_Point(i % 1000, i // 1000) AS g FROM range(600000) t(i)")
        seen, done = [], threading.Event()

        def watch():
            while not done.wait(0.005):
                seen.append(connection.query_progress())

        watcher = threading.Thread(target=watch)
        timer = threading.Timer(30, connection.interrupt)
        timer.start()
        watcher.start()
        try:
            rows = connection.execute("SELECT count(*), max(a.i * b.i % 1000003) FROM p a JOIN p b ON ST_DWithin(a.g, b.g, 1.5)").fetchone()
        finally:
            done.set()
            timer.cancel()
            watcher.join()
        # 3 x 3 points around each, fewer at the rim
        assert rows[0] == (3 * 1000 - 2) * (3 * 600 - 2)
        known = [value for value in seen if value >= 0]
        assert known == sorted(known) and known[-1] <= 100
        assert len({value for value in known if 0 < value < 100}) > 2, known


ASKED = """
import sys, duckdb
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{sys.argv[1]}'")
con.execute("SET threads = 4; SET enable_progress_bar = true; SET enable_progress_bar_print = false; SET progress_bar_time = 0")
con.execute("SET vibe_join_partitions = 4")
con.execute("CREATE TABLE p AS SELECT ST_MakeEnvelope(i % 50, i // 50, i % 50 + 0.5, i // 50 + 0.5) AS g FROM range(3000) t(i)")
for _ in range(100):
    print(con.execute("SELECT count(*) FROM p a FULL JOIN p b ON ST_Intersects(a.g, b.g)").fetchone()[0])
"""


def test_progress_of_parts(extension):
    """Asking how far a join is while its threads wake each other does not stop them."""
    done = subprocess.run([sys.executable, "-c", ASKED, str(extension)], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout.split() == ["3000"] * 100


# The same with the test engine of the GPU, and what its pool of pinned memory has afterwards
DEVICE_CHILD = r"""
import json, re, sys, duckdb
extension, limit, statement = sys.argv[1:]
con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
con.execute(f"LOAD '{extension}'")
con.execute("SET enable_progress_bar = false")
con.execute("SET vibe_execution_mode = 'gpu'")
con.execute("CREATE TABLE points AS SELECT i, ST_Point(i % 200 * 0.5, i // 200 * 0.5) AS g FROM range(40000) t(i)")
con.execute("CREATE TABLE areas AS SELECT i, ST_MakeEnvelope(-1 - i / 1e4, -1, 101, 101 + i / 1e4) AS g FROM range(1000) t(i)")
con.execute(f"SET memory_limit = '{limit}'")
try:
    answer = {"rows": con.execute(statement).fetchall()}
except duckdb.OutOfMemoryException as error:
    answer = {"error": str(error)}
answer["peak"] = int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) // 1024
answer["pinned"] = con.execute("SELECT bytes, peak_bytes FROM vibe_memory_status() WHERE name = 'pinned staging'").fetchone()
answer["used"] = con.execute("SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory() WHERE tag = 'EXTENSION'").fetchone()[0]
print(json.dumps(answer))
"""


@pytest.mark.parametrize("limit, fits", [("200MB", True), ("30MB", False)])
def test_high_fan_out_on_the_device(extension, fake, limit, fits):  # noqa: F811
    """A tile of 32,768 points has 33 million pairs here: 250 MB of pinned memory, and as much again. DuckDB is asked before they are taken;
    a chunk of 2,048 points fits into the first limit, and not into the second. Afterwards the pool has what it may keep."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VIBESPATIAL_") and name != "FAKE_GPU"}
    statement = "SELECT count(*), sum(p.i * 3 - a.i) FROM points p JOIN areas a ON ST_Intersects(p.g, a.g)"
    done = subprocess.run([sys.executable, "-c", DEVICE_CHILD, str(extension), limit, statement], capture_output=True, text=True,
                          env={**clean, "VIBESPATIAL_GPU_FOLDER": str(fake)})
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    print(answer)
    if fits:
        assert answer["rows"] == [[40_000_000, 1000 * 3 * 40000 * 39999 // 2 - 40000 * 1000 * 999 // 2]]
    else:
        assert "failed to reserve" in answer["error"], answer
    assert answer["peak"] < int(limit[:-2]) + 300, answer
    now, peak = answer["pinned"]
    assert 0 < peak < 150 << 20 and now <= 32 << 20, answer
    assert answer["used"] < 4 << 20, answer
