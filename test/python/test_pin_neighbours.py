"""Searches for neighbours among a pinned table, on a GPU engine whose kernels run on the host: the rows of the CPU, also where many are equally near, without a scan of the
table."""
import json

import duckdb
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)
from test_pin import COLUMNS, TABLES

TABLES = [
    *TABLES,
    # On a grid, so that many rows are equally near, and with holes in the row ids; no NULL and no EMPTY
    "CREATE TABLE stops AS SELECT * REPLACE (ST_Point((id * 7919 % 43) / 2, (id * 104729 % 37) / 2) AS g) FROM points",
    "DELETE FROM stops WHERE id % 3 = 1 AND id BETWEEN 2000 AND 9000",
    "CREATE TABLE spots AS SELECT i AS spot, CASE WHEN i % 20 = 3 THEN NULL WHEN i % 20 = 4 THEN ST_GeomFromText('POINT EMPTY') "
    "ELSE ST_Point((i * 31 % 90) / 4, (i * 17 % 80) / 4) END AS g FROM range(300) t(i)",
    "CREATE TABLE marks AS SELECT i AS spot, CASE i % 6 WHEN 0 THEN ST_MakeEnvelope(i % 40, i % 7, i % 40 + 1, i % 7 + 1.5) WHEN 1 THEN ST_MakeLine(ST_Point(i % 9, 3), ST_Point(4, i % 11)) "
    "WHEN 2 THEN ST_GeomFromText('GEOMETRYCOLLECTION (POINT (' || i % 13 || ' 4), LINESTRING (1 1, 2 2))') WHEN 3 THEN ST_GeomFromText('MULTIPOINT (3 ' || i % 17 || ', 20 20)') "
    "WHEN 4 THEN ST_GeomFromText('POLYGON EMPTY') ELSE ST_Buffer(ST_Point(i % 20, 9), 2, 600) END AS g FROM range(120) t(i)",
]
STOPS = f"CALL vibe_pin('stops', columns := {COLUMNS})"
POINTS = f"CALL vibe_pin('points', columns := {COLUMNS})"
ALL = "b.id, b.tiny, b.utiny, b.flag, b.small, b.ubig, b.big, b.d::VARCHAR, b.f::VARCHAR, b.day, b.moment, b.dec"
NEAREST = "ORDER BY ST_Distance(a.g, s.g) LIMIT"
QUERIES = [
    "SELECT a.spot, b.id FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 1)",
    f"SELECT a.spot, {ALL} FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 5)",
    "SELECT a.spot, ST_AsText(b.g), ST_Distance(a.g, b.g) FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 40)",
    "SELECT a.spot, b.g, b.id FROM marks a JOIN stops b ON ST_KNN(a.g, b.g, 7)",
    "SELECT a.spot, b.id, b.utiny FROM marks a LEFT JOIN stops b ON ST_KNN(a.g, b.g, 3)",
    "SELECT a.spot, b.id FROM spots a LEFT JOIN stops b ON ST_KNN(a.g, b.g, 3) AND b.id % 2 = 0",
    "SELECT count(*), sum(a.spot) FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 3)",
    "SELECT b.id, count(*) FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 2) GROUP BY ALL",
    "SELECT a.spot, b.id FROM spots a JOIN (SELECT * FROM stops WHERE small > 17) b ON ST_KNN(a.g, b.g, 4)",
    "SELECT a.spot, b.id FROM marks a JOIN (SELECT g AS geom, id, utiny FROM stops WHERE utiny IS NULL OR utiny > 250) b ON ST_KNN(a.g, b.geom, 4)",
    "SELECT a.spot, b.id FROM spots a JOIN (SELECT * FROM stops WHERE small = 999 AND tiny = 0) b ON ST_KNN(a.g, b.g, 4)",
    f"SELECT a.spot, n.id, n.d FROM spots a, LATERAL (SELECT s.id, ST_Distance(a.g, s.g) AS d FROM stops s {NEAREST} 3) n",
    f"SELECT a.spot, n.id FROM marks a, LATERAL (SELECT s.id FROM stops s WHERE s.small > 17 {NEAREST} 3) n",
    f"SELECT a.spot, n.id FROM spots a LEFT JOIN LATERAL (SELECT s.id FROM stops s WHERE ST_Distance(a.g, s.g) <= 0.3 {NEAREST} 3) n ON true",
    "SELECT a.spot, b.id FROM spots a JOIN points b ON ST_KNN(a.g, b.g, 2)",
    "SELECT a.spot, b.id FROM (SELECT * FROM spots WHERE spot < 0) a JOIN stops b ON ST_KNN(a.g, b.g, 2)",
]
#: What a search on the device does not know, and the reason that the log gives
OTHERS = {
    "SELECT a.spot, b.text FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 1)": 'column "text", which is not pinned',
    "SELECT a.spot, b.rowid FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 1)": "row ids",
    "SELECT a.spot, b.id FROM spots a JOIN (SELECT * FROM stops WHERE id % 2 = 0) b ON ST_KNN(a.g, b.g, 1)": "is no comparison of pinned columns and constants",
    f"SELECT a.spot, n.id FROM spots a, LATERAL (SELECT s.id FROM points s {NEAREST} 3) n": "NULL or EMPTY geometries",
    "SELECT a.spot, count(b.id) FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 1001) GROUP BY ALL": "at most 1000 neighbours",
}
EVENT = ("SELECT operation, actual, bytes_to_device, bytes_from_device, rows, rows_on_cpu, reason FROM vibe_dispatch_log() "
         "WHERE operation LIKE 'knn%' ORDER BY sequence DESC LIMIT 1")


MEMORY = "SELECT bytes FROM vibe_memory_status() WHERE name = 'pinned tables'"


def ordered(rows):
    return sorted(json.loads(json.dumps(rows, default=str)), key=json.dumps)


@pytest.fixture(scope="session")
def expected(extension):
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for sql in (f"LOAD '{extension}'", "SET vibe_execution_mode = 'cpu'", *TABLES):
            connection.execute(sql)
        return {sql: ordered(connection.execute(sql).fetchall()) for sql in [*QUERIES, *OTHERS]}


@pytest.mark.parametrize("mode, threads", [("gpu", 1), ("auto", 3)])
def test_same_rows(process, fake, expected, mode, threads):  # noqa: F811
    asked = [*QUERIES, *OTHERS]
    statements = [f"SET threads = {threads}", f"SET vibe_execution_mode = '{mode}'", "SET vibe_gpu_min_rows = 1000", *TABLES, STOPS, POINTS]
    load, results = process(*statements, *(step for sql in asked for step in (sql, sql, EVENT)), VIBESPATIAL_GPU_FOLDER=str(fake))
    stops, points = results[len(statements) - 2:len(statements)]
    results = results[len(statements):]
    for number, sql in enumerate(asked):
        first, second, [event] = results[3 * number:3 * number + 3]
        assert ordered(first) == expected[sql] and ordered(second) == expected[sql], sql
        operation, actual, to_device, from_device, rows, rows_on_cpu, reason = event
        if sql in OTHERS:
            assert operation != "knn_pinned" and "is not used: " in reason and OTHERS[sql] in reason, (sql, event)
            continue
        assert operation == "knn_pinned" and "the points are pinned: memory.main." in reason, (sql, event)
        assert actual == ("cpu" if "spot < 0" in sql else "gpu"), (sql, event)
        # The left side and addresses go there, none of the 12,000 rows
        assert to_device < (2 << 20 if "marks" in sql else 16 << 10), (sql, event)
        if "marks" not in sql and "LATERAL" not in sql:
            assert rows_on_cpu == 0, (sql, event)
    assert all(expected[sql] for sql in QUERIES if "tiny = 0" not in sql and "spot < 0" not in sql)
    assert stops[0][3] < 12000 == points[0][3]


def test_explain_and_status(process, fake):  # noqa: F811
    sql = QUERIES[1]
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, f"EXPLAIN {sql}", STOPS, f"EXPLAIN {sql}", f"EXPLAIN ANALYZE {sql}", "SELECT hits FROM vibe_pins()",
                            "SELECT DISTINCT lane FROM vibe_timeline() WHERE query_id = (SELECT max(query_id) FROM vibe_dispatch_log() WHERE operation = 'knn_pinned') ORDER BY lane",
                            "INSERT INTO stops (id, g) VALUES (-5, ST_Point(7.75, 4.25))", f"EXPLAIN {sql}", f"{sql} AND b.id = -5", EVENT, VIBESPATIAL_GPU_FOLDER=str(fake))
    before, _, explain, analyze, hits, lanes, _, after, rows, [event] = results[1 + len(TABLES):]
    words = [" ".join(text[0][1].replace("│", " ").split()) for text in (before, explain, analyze, after)]
    assert ["points are pinned" in text for text in words] == [False, True, True, False]
    assert hits == [[1]]
    assert {"kernels", "upload", "download"} <= {lane for [lane] in lanes}
    # A new row is found at once
    assert len(rows) > 0 and event[0] == "knn" and "its database has changed" in event[6]


def test_prepared(process, fake):  # noqa: F811
    """One plan, with the pin, without it, and with another one. It keeps nothing of a pin that is gone."""
    sql = "EXECUTE near"
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, f"PREPARE near AS {QUERIES[0]}", sql, EVENT, STOPS, sql, EVENT, "FROM vibe_unpin('stops')", MEMORY, sql, EVENT,
                            STOPS, sql, EVENT, VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[2 + len(TABLES):]
    rows, events = [results[i] for i in (0, 3, 7, 10)], [results[i][0][0] for i in (1, 4, 8, 11)]
    assert results[6] == [[0]]
    assert events == ["knn", "knn_pinned", "knn", "knn_pinned"]
    assert all(ordered(some) == ordered(rows[0]) for some in rows)


def test_failed_query(process, fake):  # noqa: F811
    """A prepared statement whose left side fails keeps nothing either"""
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, "CREATE TABLE bad AS SELECT CASE WHEN i = 4000 THEN 'x' ELSE i::VARCHAR END AS t FROM range(5000) r(i)",
                            "PREPARE near AS SELECT b.id FROM (SELECT ST_Point(t::INTEGER, 0) AS g FROM bad) a JOIN stops b ON ST_KNN(a.g, b.g, 2)", STOPS, "EXECUTE near",
                            "FROM vibe_unpin('stops')", MEMORY, VIBESPATIAL_GPU_FOLDER=str(fake))
    assert "Could not convert" in results[-3] and results[-1] == [[0]]


def test_order_that_is_not_known(process, fake):  # noqa: F811
    """A column named rowid hides the row ids"""
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, "CREATE TABLE named AS SELECT id AS rowid, g FROM stops", "CALL vibe_pin('named')",
                            "SELECT a.spot, ST_AsText(b.g) FROM spots a JOIN named b ON ST_KNN(a.g, b.g, 1)", EVENT,
                            "SELECT a.spot, ST_AsText(b.g) FROM spots a JOIN stops b ON ST_KNN(a.g, b.g, 1)", VIBESPATIAL_GPU_FOLDER=str(fake))
    rows, [event], right = results[-3:]
    assert ordered(rows) == ordered(right) and event[0] == "knn" and "a column named rowid" in event[6]
