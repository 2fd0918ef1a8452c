"""Hostile geometries: every function keeps to the memory limit, and ends soon after it is cancelled (docs/use/reliability.md).

A statement under a limit of 500 MB either gives its rows or DuckDB's out-of-memory error, and the process never has more than the
limit and 300 MB resident. A cancelled statement ends within half a second; the tests allow for a machine that is busy.
"""
import json
import subprocess
import sys
import threading
import time

import duckdb
import pytest

LIMIT_MB = 500
SLACK_MB = 300
CANCEL_SECONDS = 1.5

# A process of its own, because the peak of resident memory is one of a process. It ends by itself where a function goes on.
CHILD = r"""
import json, re, sys, threading, duckdb
extension, limit, statement = sys.argv[1:]
con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
con.execute(f"LOAD '{extension}'")
con.execute(f"SET memory_limit = '{limit}MB'")
con.execute("SET temp_directory = ''")
# It goes to the output, too
con.execute("SET enable_progress_bar = false")
stop = threading.Timer(60, con.interrupt)
stop.start()
try:
    con.execute(statement).fetchall()
    answer = {"end": "rows"}
except duckdb.OutOfMemoryException as error:
    answer = {"end": "out of memory"}
except duckdb.InterruptException as error:
    answer = {"end": "time"}
stop.cancel()
# Not ru_maxrss, which begins at what the parent had
answer["peak"] = int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) // 1024
# What was reserved is free again
answer["left"] = con.execute("SELECT coalesce(sum(memory_usage_bytes), 0) FROM duckdb_memory() WHERE tag = 'EXTENSION'").fetchone()[0]
print(json.dumps(answer))
"""


def number(seed):
    """A number of row i in [0, 1) that is random, and the same everywhere"""
    return f"((hash(i + {seed}) % 1000000007) / 1000000007.0)"


def vertices(count, x, y):
    return f"(SELECT list(ST_Point({x}, {y}) ORDER BY i) FROM range({count}) t(i))"


def tangle(count, seed):
    """A line whose edges cross each other nearly everywhere"""
    return f"ST_MakeLine({vertices(count, number(seed), number(seed + 1000000))})"


def ring_of(line_vertices):
    return f"ST_MakePolygon(ST_MakeLine(list_append({line_vertices}, {line_vertices}[1])))"


def tangled_polygon(count, seed):
    """A polygon whose ring crosses itself nearly everywhere"""
    return ring_of(vertices(count, number(seed), number(seed + 1000000)))


def zigzag(count, across):
    """Up and down, or left and right: the edges of one all cross those of the other"""
    along, swing = "i / " + f"{count}.0", "i % 2"
    return f"ST_MakeLine({vertices(count, along, swing) if across else vertices(count, swing, along)})"


def circle(count, size):
    angle = f"(2 * pi() * i / {count})"
    return vertices(count, f"{size} * cos{angle}", f"{size} * sin{angle}")


def saw(count):
    """Teeth that get smaller: Douglas-Peucker cuts off one at a time"""
    return f"ST_MakeLine({vertices(count, 'i', f'({count} - i) * (1 - 2 * (i % 2))')})"


def segments(count):
    return (f"(SELECT ST_MakeLine(ST_Point({number(1)}, {number(2000000)}), ST_Point({number(3000000)}, {number(4000000)})) AS g "
            f"FROM range({count}) t(i))")


def geojson(count):
    return "'{\"type\":\"LineString\",\"coordinates\":[' || repeat('[0,1],', " + str(count) + ") || '[0,0]]}'"


def wkt(count):
    return f"'LINESTRING (' || repeat('0 1,', {count}) || '0 0)'"


def polygons(count):
    """Triangles of all sizes that cross each other"""
    corner = ", ".join(f"ST_Point({number(s)}, {number(s + 500000)})" for s in (1, 2000000, 3000000))
    return (f"(SELECT ST_MakePolygon(ST_MakeLine([a, b, c, a])) AS g FROM (SELECT {corner} FROM range({count}) t(i)) t(a, b, c))")


# What is asked, with the size of a geometry that memory does not do for, or that takes long
CASES = {
    "ST_Node": lambda n: f"SELECT ST_NumGeometries(ST_Node({tangle(n, 1)}))",
    "ST_UnaryUnion": lambda n: f"SELECT ST_NumGeometries(ST_UnaryUnion({tangle(n, 1)}))",
    "ST_Union": lambda n: f"SELECT ST_NPoints(ST_Union({zigzag(n, True)}, {zigzag(n, False)}))",
    "ST_Intersection": lambda n: f"SELECT ST_NPoints(ST_Intersection({zigzag(n, True)}, {zigzag(n, False)}))",
    "ST_SymDifference": lambda n: f"SELECT ST_NPoints(ST_SymDifference({tangled_polygon(n, 1)}, {tangled_polygon(n, 7000000)}))",
    "ST_MakeValid": lambda n: f"SELECT ST_NPoints(ST_MakeValid({tangled_polygon(n, 1)}))",
    "ST_ReducePrecision": lambda n: f"SELECT ST_NPoints(ST_ReducePrecision({tangled_polygon(n, 1)}, 1e-9))",
    "ST_Buffer": lambda n: f"SELECT ST_NPoints(ST_Buffer({tangle(n, 1)}, 1e-6))",
    "ST_Buffer, bevel": lambda n: f"SELECT ST_NPoints(ST_Buffer({tangle(n, 1)}, 1e-6, 8, 'CAP_FLAT', 'JOIN_BEVEL', 5.0))",
    "ST_Relate": lambda n: f"SELECT ST_Relate({zigzag(n, True)}, {zigzag(n, False)})",
    "ST_Crosses": lambda n: f"SELECT ST_Crosses({tangled_polygon(n, 1)}, {tangle(n, 9000000)}), ST_Equals({tangle(n, 1)}, {tangle(n, 1)})",
    "ST_Distance": lambda n: f"SELECT ST_Distance(ST_MakeLine({circle(n, 1)}), ST_MakeLine({circle(n, 2)}))",
    # Columns of points beside each other: their order by x is of no help
    "ST_HausdorffDistance": lambda n: f"SELECT ST_HausdorffDistance(ST_Collect(list(ST_Point(0, i))), ST_Collect(list(ST_Point(1, i)))) "
                                      f"FROM range({n}) t(i)",
    "ST_IsValid": lambda n: f"SELECT ST_IsValid({ring_of(circle(n, 1))})",
    "ST_IsSimple": lambda n: f"SELECT ST_IsSimple(ST_MakeLine({circle(n, 1)}))",
    "ST_ConvexHull": lambda n: f"SELECT ST_NPoints(ST_ConvexHull(ST_MakeLine({circle(n, 1)})))",
    "ST_Simplify": lambda n: f"SELECT ST_NPoints(ST_Simplify({saw(n)}, 0))",
    "ST_GeomFromGeoJSON": lambda n: f"SELECT ST_NPoints(ST_GeomFromGeoJSON({geojson(n)}))",
    "ST_GeomFromText": lambda n: f"SELECT ST_NPoints(ST_GeomFromText({wkt(n)}))",
    "ST_AsGeoJSON": lambda n: f"SELECT length(ST_AsGeoJSON(ST_MakeLine({circle(n, 1)})))",
    "ST_Union_Agg": lambda n: f"SELECT ST_NumGeometries(ST_Union_Agg(g)) FROM {segments(n)}",
    "ST_Union_Agg of polygons": lambda n: f"SELECT ST_NPoints(ST_Union_Agg(g)) FROM {polygons(n)}",
    "ST_Intersection_Agg": lambda n: f"SELECT ST_NPoints(ST_Intersection_Agg(g)) FROM "
                                     f"(VALUES ({zigzag(n, True)}), ({zigzag(n, False)})) t(g)",
    "ST_Collect_Agg": lambda n: f"SELECT ST_NPoints(ST_Collect_Agg(ST_MakeLine([ST_Point(i, 0), ST_Point(i, 1), ST_Point(i, 2)]))) "
                                f"FROM range({n}) t(i)",
    "join": lambda n: f"SELECT count(*) FROM (SELECT {zigzag(n, True)} AS g) a JOIN (SELECT {zigzag(n, False)} AS g) b "
                      f"ON ST_Crosses(a.g, b.g)",
}

MEMORY = {
    "ST_Node": 8000, "ST_UnaryUnion": 8000, "ST_Union": 4000, "ST_Intersection": 4000, "ST_SymDifference": 3000, "ST_MakeValid": 5000,
    "ST_ReducePrecision": 4000, "ST_Buffer": 3000, "ST_Buffer, bevel": 3000, "ST_Relate": 5000, "ST_Crosses": 5000,
    "ST_Distance": 30_000, "ST_IsValid": 1_000_000, "ST_IsSimple": 1_000_000, "ST_ConvexHull": 1_000_000, "ST_Simplify": 20_000,
    "ST_GeomFromGeoJSON": 8_000_000, "ST_GeomFromText": 20_000_000, "ST_AsGeoJSON": 1_000_000, "ST_Union_Agg": 8000,
    "ST_Union_Agg of polygons": 4000, "ST_Intersection_Agg": 4000, "ST_Collect_Agg": 3_000_000, "join": 5000,
}

# Crossings of lines are not kept, so there is memory for all of them
FITS = {"ST_Relate", "join"}

# Those of them that are sure to take seconds, however good the algorithm: their results, or what they have to look at, are large
CANCEL = {
    "ST_Node": 20_000, "ST_UnaryUnion": 20_000, "ST_Union": 10_000, "ST_Intersection": 10_000, "ST_SymDifference": 10_000,
    "ST_MakeValid": 20_000, "ST_ReducePrecision": 20_000, "ST_Buffer": 12_000, "ST_Buffer, bevel": 12_000, "ST_Relate": 20_000,
    "ST_Distance": 200_000, "ST_HausdorffDistance": 400_000, "ST_Simplify": 200_000, "ST_Union_Agg": 20_000, "ST_Union_Agg of polygons": 10_000,
    "ST_Intersection_Agg": 10_000, "join": 20_000,
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory(extension, capsys, name):
    statement = CASES[name](MEMORY[name])
    command = [sys.executable, "-c", CHILD, str(extension), str(LIMIT_MB), statement]
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stderr}"
    answer = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\n{name}: {answer['end']} after {time.monotonic() - begin:.1f} s, peak {answer['peak']} MiB")
    assert answer["peak"] * 1024**2 <= (LIMIT_MB + SLACK_MB) * 1e6
    assert answer["end"] in (("rows",) if name in FITS else ("rows", "out of memory"))
    assert answer["left"] == 0


@pytest.mark.parametrize("name", CANCEL)
def test_cancel(connect, capsys, name):
    with connect(threads=2) as con:
        statement = CASES[name](CANCEL[name])
        cancelled = []

        def cancel():
            cancelled.append(time.monotonic())
            con.interrupt()

        timer = threading.Timer(1.0, cancel)
        timer.start()
        with pytest.raises(duckdb.InterruptException):
            con.execute(statement).fetchall()
        waited = time.monotonic() - cancelled[0]
        timer.cancel()
        with capsys.disabled():
            print(f"\n{name}: ended {1000 * waited:.0f} ms after it was cancelled")
        assert waited < CANCEL_SECONDS
        assert con.execute("SELECT coalesce(sum(memory_usage_bytes), 0) FROM duckdb_memory() WHERE tag = 'EXTENSION'").fetchone()[0] == 0
        # The connection goes on
        assert con.execute("SELECT ST_Area(ST_Buffer(ST_Point(0, 0), 1)) > 3").fetchone() == (True,)
