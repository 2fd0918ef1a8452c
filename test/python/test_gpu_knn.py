"""Nearest neighbours on a GPU engine whose kernels run on the host: the same rows and distances as the CPU's, also where the device fails."""
import random
import re

import pytest

from test_gpu_runtime import PLUGIN, fake, process  # noqa: F401 (fixtures)
from test_knn_random import geometry

EVENTS = ("SELECT operation, requested, selected, actual, reason, fallback, rows_on_cpu FROM vibe_dispatch_log() WHERE operation LIKE 'knn%' "
          "ORDER BY sequence")
#: Points and, in between, NULL, EMPTY and areas; small areas and lines; points alone; rows of several parts and rows too large for the device
TABLES = [
    "CREATE TABLE many AS SELECT CASE i % 1000 WHEN 7 THEN NULL WHEN 8 THEN 'POINT EMPTY'::GEOMETRY WHEN 9 THEN "
    "ST_MakeEnvelope(i % 97, i % 89, i % 97 + 3, i % 89 + 2) ELSE ST_Point(hash(i) % 500, hash(i + 1) % 500) END AS g, "
    "i FROM range(110000) t(i)",
    "CREATE TABLE points AS SELECT i, ST_Point((hash(i) % 50000) / 100, (hash(i + 1) % 50000) / 100) AS g FROM range(110000) t(i)",
    "CREATE TABLE few AS SELECT i, ST_Point(hash(-i) % 500, hash(-i - 1) % 500) AS g FROM range(20000) t(i)",
    "CREATE TABLE buildings AS SELECT i, CASE i % 50 WHEN 3 THEN NULL WHEN 4 THEN 'POLYGON EMPTY'::GEOMETRY "
    "WHEN 5 THEN ST_MakeLine(ST_Point(hash(i) % 500, hash(i + 1) % 500), ST_Point(hash(i) % 490, hash(i + 1) % 490)) "
    "ELSE ST_MakeEnvelope(hash(i) % 500, hash(i + 1) % 500, hash(i) % 500 + 1 + i % 3, hash(i + 1) % 500 + 1 + i % 2) END AS g "
    "FROM range(4000) t(i)",
    "CREATE TABLE odd AS SELECT i, CASE i % 4 WHEN 0 THEN ST_Buffer(ST_Point(hash(i) % 500, hash(i + 1) % 500), 4, 400) "
    "WHEN 1 THEN ST_Collect([ST_Point(hash(i) % 500, hash(i + 1) % 500), ST_MakeEnvelope(i % 400, 7, i % 400 + 3, 9)]) "
    "ELSE ST_Collect([ST_Point(hash(i + 2) % 500, hash(i + 3) % 500), ST_Point(hash(i + 4) % 500, hash(i + 5) % 500)]) END AS g "
    "FROM range(300) t(i)",
]


def knn(left, right, k, most="'inf'::DOUBLE"):
    return (f"SELECT count(*), sum(hash(left_row, right_row, distance, rank, l, r))::VARCHAR FROM vibe_knn("
            f"'SELECT i AS l, g FROM {left}', 'SELECT i AS r, g FROM {right}', {k}, max_distance := {most}, "
            "left_columns := ['l'], right_columns := ['r'])")


def lateral(left, right, k):
    return (f"SELECT count(*), sum(hash(l.i, n.i, n.d))::VARCHAR FROM {left} l LEFT JOIN LATERAL "
            f"(SELECT i, ST_Distance(l.g, r.g) AS d FROM {right} r ORDER BY d LIMIT {k}) n ON true")


QUERIES = [knn("many", "few", 7, 5), knn("many", "buildings", 5), knn("points", "buildings", 5), lateral("many", "buildings", 3),
           lateral("points", "odd", 4), knn("(FROM points LIMIT 3000)", "buildings", 100), knn("(FROM many LIMIT 2500)", "few", 1000),
           knn("buildings", "points", 6), knn("odd", "buildings", 40), knn("buildings", "odd", 500), lateral("(FROM odd LIMIT 50)", "odd", 3)]


@pytest.fixture(scope="session")
def expected(extension):
    import duckdb
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET vibe_execution_mode = 'cpu'")
        for sql in TABLES:
            connection.execute(sql)
        return [[list(row) for row in connection.execute(sql).fetchall()] for sql in QUERIES]


@pytest.mark.parametrize("threads", [1, 4])
def test_same_rows(process, fake, expected, threads):  # noqa: F811
    load, results = process(f"SET threads = {threads}", *TABLES, "SET vibe_execution_mode = 'gpu'", *QUERIES, EVENTS,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    begin = len(TABLES) + 2
    for sql, result, rows in zip(QUERIES, results[begin:], expected):
        assert result == rows, sql
        assert rows[0][0] > 100, sql
    events = results[-1]
    assert len(events) == len(QUERIES)
    for sql, event in zip(QUERIES, events):
        assert event[:4] == ["knn_shapes", "gpu", "gpu", "gpu"] and not event[5], sql
        assert event[4].startswith("vibe_execution_mode is gpu"), sql
    # EMPTY rows on the left, and those that the device does not read
    assert events[0][4].endswith("; rows that the device does not take searched for by the CPU") and events[0][6] == 110
    assert events[2][4] == "vibe_execution_mode is gpu" and events[2][6] == 0
    assert events[8][4].endswith("; rows that the device does not take searched for by the CPU") and events[8][6] == 150


@pytest.mark.parametrize("threads", [1, 4])
def test_a_right_side_larger_than_device_memory(process, fake, expected, threads):  # noqa: F811
    """Parts of it are searched one after the other, and ties between parts are those of the whole."""
    load, results = process(f"SET threads = {threads}", "SET vibe_gpu_memory_limit = '256KB'", *TABLES, "SET vibe_execution_mode = 'gpu'", *QUERIES,
                            EVENTS, VIBESPATIAL_GPU_FOLDER=str(fake))
    begin = len(TABLES) + 3
    for sql, result, rows in zip(QUERIES, results[begin:], expected):
        assert result == rows, sql
    parts = [int(re.search(r"among (\d+) parts of the right side", event[4])[1]) for event in results[-1] if event[3] == "gpu" and "parts" in event[4]]
    assert len(parts) == len(QUERIES) and min(parts) >= 3 and max(parts) > 30
    assert all(event[2:4] == ["gpu", "gpu"] and not event[5] for event in results[-1])


@pytest.mark.parametrize("fault, limit, reason", [
    ("failure", "2GB", "the fake device fell off"), ("late failure", "2GB", "the fake device fell off"), ("no room", "2GB", "lack of device memory"),
    ("failed rows", "2GB", "the fake device takes no rows"), ("", "80MB", "memory_limit has no room to search it in parts")])
def test_parts_that_cannot_be_searched(process, fake, fault, limit, reason):  # noqa: F811
    query = knn("many", "few", 40)
    load, results = process("FROM vibe_ensure_warm(0.1)", "SET vibe_gpu_memory_limit = '256KB'; SET vibe_gpu_min_rows = 0", *TABLES,
                            f"SET memory_limit = '{limit}'", query, EVENTS, "SET vibe_execution_mode = 'cpu'", query,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    assert results[-4] == results[-1] and results[-1][0][0] > 4000000
    (event,) = results[-3]
    assert event[:4] == ["knn_shapes", "auto", "gpu", "cpu"] and reason in event[4] and event[5]


def test_random_tables(process, fake):  # noqa: F811
    """Ties, duplicates, NULL and EMPTY on both sides, every kind of geometry, any k."""
    rng = random.Random(5)
    statements = []
    for round_number in range(6):
        for name in ("a", "b"):
            texts = [geometry(rng) for _ in range(rng.choice([1, 30, 400]))]
            rows = ", ".join(f"({i}, {'NULL' if text is None else repr(text)})" for i, text in enumerate(texts))
            statements.append(f"CREATE OR REPLACE TABLE {name} AS SELECT i, t::GEOMETRY AS g FROM (VALUES {rows}) v(i, t)")
        k = rng.choice([1, 3, 33, 1000])
        for sql in (knn("a", "b", k), knn("a", "b", k, 2.5), lateral("a", "b", k)):
            for mode in ("cpu", "gpu"):
                statements += [f"SET vibe_execution_mode = '{mode}'", sql.replace("AS l, g FROM a'", "AS l, g FROM a ORDER BY i'")]
    load, results = process(*statements, VIBESPATIAL_GPU_FOLDER=str(fake))
    compared = 0
    for at, sql in enumerate(statements):
        if sql == "SET vibe_execution_mode = 'gpu'":
            assert results[at - 1] == results[at + 1], (statements[at + 1], results[at + 1])
            compared += 1
    assert compared == 18


def test_what_runs_where(process, fake):  # noqa: F811
    points, shapes = knn("points", "few", 7), knn("points", "buildings", 7)
    too_many, nothing = knn("(FROM few LIMIT 10)", "few", 1001), knn("few", "(FROM few WHERE i < 0)", 2)
    load, results = process("SET vibe_gpu_min_rows = 100000", *TABLES, "SET vibe_execution_mode = 'gpu'", points, shapes, too_many, nothing,
                            f"EXPLAIN (FORMAT json) {too_many}", f"EXPLAIN (FORMAT json) {points}", "SET vibe_execution_mode = 'auto'", points,
                            too_many, EVENTS, f"EXPLAIN ANALYZE {shapes}", VIBESPATIAL_GPU_FOLDER=str(fake))
    begin = len(TABLES) + 2
    assert results[begin + 2][0][0] == 10010

    def engine(plan):
        return re.search(r'"Engine": "([^"]*)"', plan[0][1])[1]

    assert engine(results[begin + 4]) == "cpu (the GPU finds at most 1000 neighbours)"
    assert engine(results[begin + 5]) == "gpu (vibe_execution_mode is gpu)"
    assert [event[:6] for event in results[begin + 9]] == [
        ["knn", "gpu", "gpu", "gpu", "vibe_execution_mode is gpu", False],
        ["knn_shapes", "gpu", "gpu", "gpu", "vibe_execution_mode is gpu", False],
        ["knn", "gpu", "cpu", "cpu", "the GPU finds at most 1000 neighbours", False],
        ["knn", "gpu", "cpu", "cpu", "nothing to search among", False],
        ["knn", "auto", "gpu", "gpu", "110000 rows: not below the threshold of 100000", False],
        ["knn", "auto", "cpu", "cpu", "10 rows: below the threshold of 100000", False]]
    assert "Engine" in results[begin + 10][0][1] and "kernels" in results[begin + 10][0][1]


def test_auto_asks_how_long_the_cpu_would_take(process, fake):  # noqa: F811
    """Without a threshold that the user set: a sample of rows decides."""
    load, results = process(*TABLES, "FROM vibe_ensure_warm(0.1)", knn("points", "buildings", 5), knn("(FROM points LIMIT 900)", "buildings", 5),
                            EVENTS, VIBESPATIAL_GPU_FOLDER=str(fake))
    first, second = results[-1]
    assert first[:3] == ["knn_shapes", "auto", "gpu"] and "from which the GPU pays" in first[4] and first[4].startswith("110000 rows: about")
    assert second[:4] == ["knn_shapes", "auto", "cpu", "cpu"] and second[4] == "900 rows: below the threshold of 1000"


@pytest.mark.parametrize("right", ["few", "buildings"])
@pytest.mark.parametrize("fault, reason", [("failure", "the fake device fell off"), ("late failure", "the fake device fell off"),
                                           ("failed rows", "the fake device takes no rows"), ("failed launch", "does not start"),
                                           ("lost", "the fake device was lost"), ("cold", "was not ready after 0.2 seconds")])
def test_faults(process, fake, fault, reason, right):  # noqa: F811
    query = knn("many", right, 7, 5)
    setup = ["FROM vibe_ensure_warm(0.1)", "SET vibe_kernel_timeout = 0.2", "SET vibe_compile_timeout = 1; SET vibe_gpu_min_rows = 0"]
    load, results = process(*setup, *TABLES, query, EVENTS, "SET vibe_execution_mode = 'gpu'", query, EVENTS,
                            "SET vibe_execution_mode = 'cpu'", query, VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    begin = len(setup) + len(TABLES)
    assert results[begin] == results[-1]
    (event,) = results[begin + 1]
    assert event[:4] == ["knn_shapes", "auto", "gpu", "cpu"] and reason in event[4] and event[5]
    assert results[begin + 3].startswith("IOException")
    assert results[begin + 4][-1][1:4] == ["gpu", "gpu", "none"]


@pytest.mark.parametrize("fault", ["no room", "late no room"])
def test_no_memory_for_tiles(process, fake, fault):  # noqa: F811
    """The CPU does those tiles, in mode gpu as well, and the event says so."""
    query = knn("points", "buildings", 7, 5)
    load, results = process(*TABLES, "SET vibe_execution_mode = 'gpu'", query, EVENTS, "SET vibe_execution_mode = 'cpu'", query,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    assert results[-4] == results[-1]
    (event,) = results[-3]
    assert event[:4] == ["knn_shapes", "gpu", "gpu", "cpu"] and event[5]
    assert "tiles on the CPU, for lack of device memory" in event[4]


def test_no_device(process, tmp_path):  # noqa: F811
    load, results = process(*TABLES, QUERIES[0], EVENTS, VIBESPATIAL_EXECUTION_MODE="gpu", VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert results[-2].startswith("IOException") and PLUGIN in results[-2] and "'auto' or 'cpu' go without" in results[-2]
    assert results[-1][0][:4] == ["knn", "gpu", "gpu", "none"]
