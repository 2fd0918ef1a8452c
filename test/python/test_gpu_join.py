"""Spatial joins on a GPU engine whose kernels run on the host: the same rows as the CPU's, also where the device fails."""
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

TABLES = [
    "CREATE TABLE areas AS SELECT i AS id, CASE WHEN i % 50 = 7 THEN NULL WHEN i % 50 = 8 THEN ST_GeomFromText('POLYGON EMPTY') "
    "ELSE ST_MakeEnvelope(i % 40, i // 40, i % 40 + 1 + i % 3, i // 40 + 1) END AS g FROM range(1600) t(i)",
    "CREATE TABLE points AS SELECT i AS id, CASE WHEN i % 99 = 5 THEN NULL ELSE "
    "ST_Point((i * 7919 % 8600) / 200, (i * 104729 % 8200) / 200) END AS g FROM range(300000) t(i)",
    "CREATE TABLE mixed AS SELECT i AS id, CASE i % 5 WHEN 0 THEN ST_MakeEnvelope(i % 37, i % 41, i % 37 + 2, i % 41 + 1.5) "
    "WHEN 1 THEN NULL WHEN 2 THEN ST_MakeLine(ST_Point(i % 37, i % 41), ST_Point(i % 31, i % 39 + 0.5)) "
    "ELSE ST_Point((i % 86) / 2, (i % 82) / 2) END AS g FROM range(40000) t(i)",
]
QUERIES = [
    "SELECT count(*) FROM points p JOIN areas a ON ST_Within(p.g, a.g)",
    "SELECT a.id % 10 AS k, count(*), min(a.id), sum(a.id), avg(a.id) FROM points p JOIN areas a ON ST_Intersects(p.g, a.g) "
    "GROUP BY k ORDER BY k",
    "SELECT count(*), sum(p.id * 31 + a.id) FROM points p JOIN areas a ON ST_Within(p.g, a.g) AND p.id % 3 < a.id % 5",
    "SELECT count(*), sum(p.id), count(a.id) FROM points p LEFT JOIN areas a ON ST_Touches(p.g, a.g)",
    "SELECT count(*), sum(a.id), count(p.id) FROM points p RIGHT JOIN areas a ON ST_Contains(a.g, p.g) AND p.id % 1000 = 1",
    "SELECT count(*), sum(p.id) FROM points p SEMI JOIN areas a ON ST_Within(p.g, a.g)",
    "SELECT count(*), sum(p.id) FROM points p ANTI JOIN areas a ON ST_Within(p.g, a.g)",
    "SELECT count(*), sum(m.id), sum(a.id) FROM mixed m JOIN areas a ON ST_Overlaps(m.g, a.g)",
    "SELECT count(*), sum(m.id) FROM mixed m WHERE NOT EXISTS (SELECT 1 FROM areas a WHERE ST_Intersects(m.g, a.g))",
    "SELECT count(*), sum(m.id * 7 + a.id) FROM mixed m JOIN areas a ON ST_DWithin(m.g, a.g, (m.id % 3) / 4)",
    "SELECT p.id % 4 AS k, count(*), sum(p.id) FROM points p JOIN areas a ON ST_Covers(a.g, p.g) GROUP BY k ORDER BY k",
    "SELECT count(*) FROM mixed m JOIN mixed n ON m.g && n.g AND m.id < n.id AND n.id < 2000",
]
EVENT = ("SELECT selected, actual, fallback, reason, rows FROM vibe_dispatch_log() WHERE operation LIKE 'join_%' "
         "ORDER BY sequence DESC LIMIT 1")


@pytest.fixture(scope="session")
def expected(extension):
    import duckdb
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET vibe_execution_mode = 'cpu'")
        for sql in TABLES:
            connection.execute(sql)
        return [[list(row) for row in connection.execute(sql).fetchall()] for sql in QUERIES]


def as_lists(rows):
    # sum() of integers is a HUGEINT, which JSON has as text or number
    return [[int(value) if isinstance(value, str) else value for value in row] for row in rows]


@pytest.mark.parametrize("threads", [1, 3])
def test_same_rows(process, fake, expected, threads):  # noqa: F811
    statements = [f"SET threads = {threads}", "SET vibe_execution_mode = 'gpu'", *TABLES]
    for sql in QUERIES:
        statements += [sql, EVENT]
    load, results = process(*statements, VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[2 + len(TABLES):]
    for i, rows in enumerate(expected):
        assert as_lists(results[2 * i]) == rows, QUERIES[i]
        (selected, actual, fallback, reason, count), = results[2 * i + 1]
        assert (selected, actual, fallback) == ("gpu", "gpu", False), (QUERIES[i], reason)
        assert count > 0


@pytest.mark.parametrize("fault", ["failed rows", "failed cells", "failed launch", "lost", "no room", "late no room"])
def test_faults_lose_no_row(process, fake, expected, fault):  # noqa: F811
    """In mode auto the CPU does what the device did not"""
    statements = ["SET threads = 2", "FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0", *TABLES]
    for sql in QUERIES:
        statements += [sql, EVENT]
    load, results = process(*statements, VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    results = results[3 + len(TABLES):]
    reasons = []
    for i, rows in enumerate(expected):
        assert as_lists(results[2 * i]) == rows, QUERIES[i]
        (selected, actual, fallback, reason, count), = results[2 * i + 1]
        assert selected == "gpu"
        reasons.append(reason)
    assert any("device" in reason for reason in reasons), reasons


@pytest.mark.parametrize("fault", ["failed rows", "failed launch", "lost"])
def test_mode_gpu_fails_and_the_database_goes_on(process, fake, fault):  # noqa: F811
    query = "SELECT count(*) FROM mixed m JOIN areas a ON ST_Overlaps(m.g, a.g)"
    many = "SELECT count(*) FROM mixed m JOIN mixed n ON ST_Overlaps(m.g, n.g) AND n.id < 500"
    load, results = process("SET threads = 2", *TABLES, "SET vibe_execution_mode = 'cpu'", query,
                            "SET vibe_execution_mode = 'gpu'", many, EVENT, "SET vibe_execution_mode = 'cpu'", query,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    before, _, failed, event, _, after = results[-6:]
    assert failed.startswith("IOException") and "the fake device" in failed and "'auto' lets the CPU do it" in failed
    assert event[0][1] == "none"
    assert before == after


def test_a_device_that_is_lost(process, fake):  # noqa: F811
    """The query that lost it, those after it, and what says so"""
    query = "SELECT count(*) FROM mixed m JOIN areas a ON ST_Overlaps(m.g, a.g)"
    other = "SELECT sum(ST_Distance(m.g, ST_Centroid(m.g))) FROM mixed m"
    batch = EVENT.replace("LIKE 'join_%'", "= 'scalar_pairs'")
    info = "SELECT found, detail FROM vibe_gpu_info() WHERE component = 'device'"
    load, results = process("SET threads = 2", *TABLES, "SET vibe_execution_mode = 'cpu'", query, other,
                            "FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0", "SET vibe_execution_mode = 'auto'", info, query, EVENT,
                            info, query, EVENT, other, batch, "SET vibe_execution_mode = 'gpu'", "SET vibe_execution_mode = 'cpu'", query,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="lost for good")
    cpu, cpu_other, _, _, _, before, first, event, after, second, second_event, third, third_event, refused, _, last = results[5:]
    lost = "the device was lost: it is a fake; restart the process to use it again"
    assert first == second == last == cpu and third == cpu_other
    assert event[0][:3] == ["gpu", "cpu", True] and lost in event[0][3]
    for later in (second_event, third_event):
        assert later[0][:4] == ["cpu", "cpu", False, "no device: " + lost]
    assert before[0][0] is True and after[0][0] is False and lost in after[0][1]
    assert refused.startswith("InvalidInput") and lost in refused


def test_a_device_that_is_lost_in_mode_gpu(process, fake):  # noqa: F811
    query = "SELECT count(*) FROM mixed m JOIN areas a ON ST_Overlaps(m.g, a.g)"
    load, results = process(*TABLES, "SET vibe_execution_mode = 'gpu'", query, query, EVENT, "SELECT 42", "SET vibe_execution_mode = 'auto'",
                            query, VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="lost for good")
    first, second, event, usable, _, after = results[4:]
    for failed in (first, second):
        assert failed.startswith("IOException") and "the device was lost" in failed and "restart the process" in failed
    assert event[0][:2] == ["gpu", "none"] and usable == [[42]] and isinstance(after, list)


def test_a_kernel_that_does_not_compile(process, fake):  # noqa: F811
    join = "SELECT count(*) FROM mixed m JOIN areas a ON ST_Overlaps(m.g, a.g)"
    batch = "SELECT sum(ST_Distance(m.g, ST_Centroid(m.g))) FROM mixed m"
    batch_event = EVENT.replace("LIKE 'join_%'", "= 'scalar_pairs'")
    load, results = process(*TABLES, "SET vibe_execution_mode = 'cpu'", join, batch, "SET vibe_execution_mode = 'auto'", "FROM vibe_ensure_warm(1)",
                            "SET vibe_gpu_min_rows = 0", join, EVENT, batch, batch_event, "SET vibe_execution_mode = 'gpu'", join, EVENT, batch,
                            "SET vibe_execution_mode = 'cpu'", join, VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="failed kernel")
    cpu, cpu_batch, _, _, _, rows, event, batch_rows, batch_logged, _, failed, failed_event, failed_batch, _, after = results[4:]
    assert rows == after == cpu and batch_rows == cpu_batch
    for logged in (event, batch_logged):
        assert logged[0][:3] == ["gpu", "cpu", True] and "the fake compiler gave up" in logged[0][3]
    for error in (failed, failed_batch):
        assert error.startswith("IOException") and "the fake compiler gave up" in error
    assert failed_event[0][1] == "none"


def test_host_memory_counts(process, fake):  # noqa: F811
    """Where memory_limit has no room for tiles they are as small as can be, and no row is lost"""
    join = "SELECT count(*), sum(m.id) FROM mixed m JOIN areas a ON ST_Overlaps(m.g, a.g)"
    batch = "SELECT sum(ST_Distance(m.g, ST_Centroid(m.g))), count(*) FROM mixed m"
    tiles = []
    for fault in ("none", "large host memory"):
        load, results = process("SET threads = 1", *TABLES, "SET vibe_execution_mode = 'cpu'", join, batch, "SET vibe_execution_mode = 'gpu'", join,
                                batch, f"EXPLAIN ANALYZE {join}", VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
        cpu, cpu_batch, _, rows, batch_rows, plan = results[len(TABLES) + 2:]
        assert rows == cpu and batch_rows == cpu_batch
        tiles.append(int(re.search(r"(\d+) tiles", re.sub(r"[\s│]+", " ", plan[0][1]))[1]))
    assert tiles[0] <= 4 and tiles[1] >= 15, tiles


def test_build_side_is_kept_and_never_stale(process, fake):  # noqa: F811
    query = "SELECT count(*) FROM points p JOIN areas a ON ST_Within(p.g, a.g)"
    other = "SELECT count(*) FROM points p JOIN areas a ON ST_Touches(p.g, a.g)"
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, query, EVENT, query, EVENT,
                            "UPDATE areas SET g = ST_MakeEnvelope(0, 0, 40, 40) WHERE id = 1", query, EVENT,
                            "SET vibe_execution_mode = 'cpu'", query, "SET vibe_execution_mode = 'gpu'", other,
                            "SET vibe_execution_mode = 'cpu'", other, VIBESPATIAL_GPU_FOLDER=str(fake))
    first, first_event, second, second_event, _, third, third_event, _, cpu, _, touching, _, cpu_touching = results[4:]
    assert first == second and "was on the device" not in first_event[0][3] and "was on the device" in second_event[0][3]
    assert third == cpu != first and "was on the device" not in third_event[0][3]
    assert touching == cpu_touching


@pytest.mark.parametrize("rows, area", [(300000, "ST_MakeEnvelope(i % 997, i // 997, i % 997 + 0.5, i // 997 + 0.5)"),
                                        (20000, "ST_Buffer(ST_Point(i % 997 + 0.25, i // 997 + 0.25), 0.3, 15)")])
def test_build_side_of_several_threads_is_kept(process, fake, rows, area):  # noqa: F811
    """More than one row group, whose order is another in every scan; and one of many bytes, which several threads copy"""
    tables = [f"CREATE TABLE many AS SELECT i AS id, {area} AS g FROM range({rows}) t(i)",
              "CREATE TABLE points AS SELECT i AS id, ST_Point(i % 997 + 0.25, i // 997 + 0.25) AS g FROM range(400000) t(i)"]
    query = "SELECT count(*), sum(m.id * (p.id % 7)) FROM points p JOIN many m ON ST_Within(p.g, m.g)"
    both = ("SELECT count(*) FROM points p JOIN (FROM many UNION ALL (FROM many WHERE id % 1000 = 1)) m ON ST_Within(p.g, m.g)")
    load, results = process("SET threads = 4", *tables, "SET vibe_execution_mode = 'cpu'", query, both, "SET vibe_execution_mode = 'gpu'",
                            *[query, EVENT] * 3, *[both, EVENT] * 2, "DELETE FROM many WHERE id = 5001", query, EVENT,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    cpu, cpu_both = results[4:6]
    rows, events = results[7:17:2], results[8:17:2]
    assert rows == [cpu] * 3 + [cpu_both] * 2
    assert ["was on the device" in event[0][3] for event in events] == [False, True, True, False, True], events
    assert results[-2] != cpu and "was on the device" not in results[-1][0][3]


# What the device makes shapes of, what the CPU packs, and what the CPU does as a whole
ODD = ["'POLYGON Z ((0 0 1, 3 0 1, 3 3 1, 0 3 1, 0 0 1))'", "'LINESTRING M (0 0 1, 3 3 2, 3 3 nan, 5 1 1)'", "'POINT ZM (2 2 1 1)'",
       "'MULTIPOLYGON (((0 0, 0 2, 2 2, 2 0, 0 0), (0.5 0.5, 1 0.5, 1 1, 0.5 0.5)), EMPTY, ((4 4, 6 4, 6 6, 6 6, 4 4)))'",
       "'MULTILINESTRING ((0 0, 1 1), EMPTY, (1 1, 2 0), (2 0, 0 0))'", "'MULTIPOINT (1 1, 1 1, 0 3, EMPTY, 2 2)'",
       "'POLYGON ((1 1, 2 2, 1 1, 1 1))'", "'LINESTRING (2 2, 2 2)'", "'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (9 9, 9 9, 9 9, 9 9))'",
       "'MULTILINESTRING ((1 1, 1 1), (0 0, 3 0))'", "'GEOMETRYCOLLECTION (POINT (5 5), POLYGON ((0 0, 2 0, 2 2, 0 0)))'",
       "'GEOMETRYCOLLECTION EMPTY'", "'POLYGON EMPTY'", "'MULTIPOINT EMPTY'", "NULL",
       "'POLYGON ((' || (SELECT string_agg((3 + 2 * cos(6.283185307 * k / 1200)) || ' ' || (3 + 2 * sin(6.283185307 * k / 1200)), ', ' "
       "ORDER BY k) FROM range(1200) t(k)) || ', 5 3))'"]


def test_odd_rows(process, fake):  # noqa: F811
    """On either side, alone and among boxes"""
    odd = " UNION ALL ".join(f"SELECT {i} AS id, ({text})::GEOMETRY AS g" for i, text in enumerate(ODD))
    tables = [f"CREATE TABLE odd AS {odd}",
              "CREATE TABLE boxes AS SELECT 100 + i AS id, ST_MakeEnvelope(i % 8, i // 8, i % 8 + 1 + i % 3, i // 8 + 1) AS g FROM range(64) t(i) "
              "UNION ALL FROM odd"]
    conditions = [f"ST_{name}(l.g, r.g)" for name in ("Intersects", "Contains", "Within", "Touches", "Crosses", "Overlaps", "Equals")]
    conditions += ["l.g && r.g", "ST_DWithin(l.g, r.g, 1.5)", "ST_Distance(l.g, r.g) < 1", "ST_DWithin(l.g, r.g, 0.5) OR ST_Equals(l.g, r.g)"]
    queries = [f"SELECT list((l.id, r.id) ORDER BY l.id, r.id) FROM {left} l {kind} JOIN {right} r ON {condition}"
               for condition in conditions for left, kind, right in
               [("odd", "", "boxes"), ("boxes", "", "odd"), ("boxes", "", "boxes"), ("odd", "LEFT", "boxes")]]
    load, results = process(*tables, "SET vibe_execution_mode = 'cpu'", *queries, "SET vibe_execution_mode = 'gpu'", *queries, EVENT,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[len(tables) + 1:]
    cpu, gpu, event = results[:len(queries)], results[len(queries) + 1:-1], results[-1]
    for sql, rows, found in zip(queries, cpu, gpu):
        assert isinstance(rows, list), rows
        assert rows == found, sql
    assert event[0][:3] == ["gpu", "gpu", False] and "rows that the device could not read done by the CPU" in event[0][3]


def test_errors_are_those_of_the_cpu(process, fake):  # noqa: F811
    """Of rows that are of no use, on either side; one that is only looked at where it is met"""
    tables = ["CREATE TABLE bad AS SELECT i AS id, CASE WHEN i = 40 THEN 'LINESTRING (0 0, 1 nan)'::GEOMETRY "
              "WHEN i = 41 THEN 'POLYGON ((0 0, 1 0, 1 1))'::GEOMETRY ELSE ST_MakeEnvelope(i, 0, i + 1, 1) END AS g FROM range(100) t(i)"]
    queries = [f"SELECT count(*) FROM bad l JOIN {right} r ON {condition}"
               for right in ("(FROM bad WHERE id < 40)", "(FROM bad WHERE id > 50)") for condition in
               ("ST_Intersects(l.g, r.g)", "ST_Intersects(l.g, r.g) AND l.id <> 40", "l.g && r.g", "ST_DWithin(l.g, r.g, 2) AND l.id <> 40")]
    queries += ["SELECT count(*) FROM (FROM bad WHERE id < 40) l JOIN bad r ON ST_Touches(l.g, r.g)",
                "SELECT count(*) FROM (FROM bad WHERE id < 40) l JOIN (FROM bad WHERE id <> 40) r ON ST_Touches(l.g, r.g)"]
    load, results = process(*tables, "SET vibe_execution_mode = 'cpu'", *queries, "SET vibe_execution_mode = 'gpu'", *queries,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    cpu, gpu = results[2:2 + len(queries)], results[3 + len(queries):]
    for sql, expected_rows, found in zip(queries, cpu, gpu):
        assert expected_rows == found, sql
    assert "NaN or infinite" in cpu[0] and any(isinstance(rows, list) for rows in cpu)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_device_that_comes_late(process, fake, expected, threads):  # noqa: F811
    """Rows of the probe side are collected until the device is up, which nobody waits for before they are"""
    many = ("SELECT count(*), sum(m.id * 3 + a.id) FROM (SELECT i AS id, ST_MakeEnvelope(i % 37, i % 41, i % 37 + 2, i % 41 + 1.5) AS g "
            "FROM range(400000) t(i)) m JOIN areas a ON ST_Overlaps(m.g, a.g)")
    waits = ("SELECT (SELECT max(wait_ms) FROM vibe_dispatch_log() WHERE operation LIKE 'join_%') > 10, "
             "(SELECT count(*) FROM vibe_dispatch_log() WHERE operation = 'box_index' AND actual != 'gpu')")
    statements = [f"SET threads = {threads}", *TABLES]
    for sql in QUERIES + [many]:
        statements += [sql, EVENT]
    load, results = process(*statements, waits, f"EXPLAIN ANALYZE {QUERIES[0]}", "SET vibe_execution_mode = 'cpu'", many,
                            VIBESPATIAL_GPU_FOLDER=str(fake), VIBESPATIAL_EXECUTION_MODE="gpu", FAKE_GPU="late device")
    results = results[1 + len(TABLES):]
    for i, rows in enumerate(expected + [as_lists(results[-1])]):
        assert as_lists(results[2 * i]) == rows, i
        (selected, actual, fallback, reason, count), = results[2 * i + 1]
        assert (selected, actual, fallback) == ("gpu", "gpu", False), (i, reason)
        assert count > 0
    assert results[-4] == [[True, 0]]
    # The build side is on the device from before, and nobody asks for more than its boxes
    plan = re.sub(r"[\s│]+", " ", results[-3][0][1])
    assert re.search(r"Built Index: boxes, ", plan), plan


def test_deterministic_order(process, fake):  # noqa: F811
    query = ("SELECT string_agg(p.id || '-' || a.id, ',') FROM points p JOIN areas a ON ST_Within(p.g, a.g) "
             "WHERE p.id < 30000")
    load, results = process("SET vibe_deterministic = true", *TABLES, "SET vibe_execution_mode = 'cpu'", query,
                            "SET vibe_execution_mode = 'gpu'", query, query, VIBESPATIAL_GPU_FOLDER=str(fake))
    cpu, _, gpu, again = results[-4:]
    assert cpu == gpu == again and len(cpu[0][0]) > 1000


def test_random_joins(fake, extension):  # noqa: F811
    """The random joins of test_join_random.py in mode gpu"""
    environment = {**os.environ, "VIBESPATIAL_EXECUTION_MODE": "gpu", "VIBESPATIAL_GPU_FOLDER": str(fake)}
    result = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "test_join_random.py", "-k", "test_random_joins",
                             "-p", "no:cacheprovider"],
                            cwd=ROOT / "test/python", env=environment, capture_output=True, text=True, timeout=1200)
    assert result.returncode == 0, result.stdout[-5000:]
