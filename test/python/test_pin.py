"""Pinned tables on a GPU engine whose kernels run on the host: the rows of the CPU, no bytes to the device, and no stale answer."""
import json
import os
import subprocess
import sys

import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

TABLES = [
    "CREATE TABLE areas AS SELECT i AS zone, CASE WHEN i % 50 = 7 THEN NULL WHEN i % 50 = 8 THEN ST_GeomFromText('POLYGON EMPTY') "
    "ELSE ST_MakeEnvelope(i % 40, i // 40, i % 40 + 1 + i % 3, i // 40 + 1) END AS g FROM range(1600) t(i)",
    "CREATE TABLE roads AS SELECT i AS road, ST_MakeLine(ST_Point(i % 37, i % 41), ST_Point(i % 31, i % 39 + 0.5)) AS g FROM range(500) t(i)",
    # Of each type some values at the ends of their ranges, and NULLs
    "CREATE TABLE points AS SELECT i AS id, (i % 100 - 50)::TINYINT AS tiny, CASE WHEN i % 7 <> 0 THEN (i % 256)::UTINYINT END AS utiny, "
    "(i % 3 = 0) AS flag, (i % 2000 - 1000)::SMALLINT AS small, CASE i % 5 WHEN 0 THEN 18446744073709551615 WHEN 1 THEN NULL ELSE i END::UBIGINT AS ubig, "
    "CASE i % 4 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807 WHEN 2 THEN NULL ELSE i END::BIGINT AS big, "
    "CASE i % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-inf' WHEN 2 THEN 'inf' WHEN 3 THEN '-0.0' WHEN 4 THEN '0.0' WHEN 5 THEN NULL ELSE i / 1000 - 3 END::DOUBLE AS d, "
    "(i / 100)::FLOAT AS f, DATE '2020-01-01' + (i % 400)::INTEGER AS day, TIMESTAMP '2020-01-01' + to_minutes(i % 5000) AS moment, "
    "(i % 777 / 10)::DECIMAL(9, 2) AS dec, 'x' || i % 3 AS text, "
    "CASE WHEN i % 99 = 5 THEN NULL ELSE ST_Point((i * 7919 % 8600) / 200, (i * 104729 % 8200) / 200) END AS g FROM range(12000) t(i)",
]
COLUMNS = "['g', 'id', 'tiny', 'utiny', 'flag', 'small', 'ubig', 'big', 'd', 'f', 'day', 'moment', 'dec']"
PIN = f"CALL vibe_pin('points', columns := {COLUMNS})"
COUNT = "SELECT count(*) FROM points p JOIN areas a ON ST_Within(p.g, a.g)"
QUERIES = [
    COUNT,
    "SELECT count(*) FROM points p, areas a WHERE ST_Intersects(a.g, p.g)",
    "SELECT a.zone, count(*) FROM points p JOIN areas a ON ST_Intersects(p.g, a.g) GROUP BY ALL ORDER BY ALL",
    "SELECT a.zone % 10 AS k, count(*), min(a.zone), sum(a.zone), avg(a.zone) FROM points p JOIN areas a ON ST_Covers(a.g, p.g) GROUP BY k ORDER BY k",
    "SELECT r.road, count(*) FROM points p JOIN roads r ON ST_DWithin(p.g, r.g, 0.25) GROUP BY ALL ORDER BY ALL",
    "SELECT count(*) FROM points p JOIN roads r ON ST_Intersects(p.g, r.g)",
    "SELECT count(*) FROM (SELECT g AS geom, id + 1 AS next, small FROM points) p JOIN areas a ON ST_Within(p.geom, a.g) WHERE p.small > 17",
    "SELECT count(*) FROM points p JOIN areas a ON ST_Within(p.g, a.g) WHERE p.g IS NOT NULL AND a.zone > 100",
]
# DuckDB plans no join for these
NOTHING = ["id = NULL", "id > 5 AND id < 3"]
# Above the join, or a residual of it
ABOVE = ["random() < 2", "id IN (SELECT zone FROM areas WHERE zone < 90)"]
FILTERS = [
    "id < 700", "id <= 700", "id > 11000", "id >= 11000", "id = 4711", "id <> 4711", "700 > id", "id BETWEEN 100 AND 900", "id IN (1, 77, 4000)",
    "id < 2000 AND tiny >= 0 AND flag", "NOT flag", "flag IS NOT NULL", "tiny = -50", "tiny < -49 OR tiny > 47", "utiny IS NULL", "utiny IS NOT NULL",
    "utiny IS NULL OR utiny > 250", "utiny >= 128", "utiny < 128", "ubig = 18446744073709551615", "ubig > 11000", "ubig <= 9223372036854775807",
    "big = -9223372036854775808", "big < 0", "big > 9223372036854775806", "big <> 9223372036854775807", "d = 'NaN'", "d > 1e300", "d = 0", "d < 0", "d >= -0.0", "d <= '-inf'",
    "d < 'NaN'", "f > 50.5", "f = 0.25", *ABOVE, "day >= DATE '2020-12-24'", "day = DATE '2020-02-29'", "moment < TIMESTAMP '2020-01-02 03:04:05'", "dec = 12.3",
    "dec > 70.05 AND dec < 71", "small IN (1, -1000, 999) AND id > 50", "id + 1 < 700", *NOTHING,
]
# What is not for the device
OTHERS = ["text = 'x1'", "id IN (1, 5, 77, 4000, 11999)", "id < tiny", "id % 2 = 0", "tiny = 1 OR small = 1"]
EVENT = ("SELECT operation, actual, bytes_to_device, rows, reason FROM vibe_dispatch_log() WHERE operation LIKE 'join_%' ORDER BY sequence DESC LIMIT 1")


def queries():
    return [*QUERIES, *(f"{COUNT} WHERE {text}" for text in FILTERS + OTHERS)]


@pytest.fixture(scope="session")
def expected(extension):
    import duckdb
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET vibe_execution_mode = 'cpu'")
        for sql in TABLES:
            connection.execute(sql)
        return [json.loads(json.dumps(connection.execute(sql).fetchall(), default=str)) for sql in queries()]


@pytest.mark.parametrize("mode, threads", [("gpu", 1), ("auto", 3)])
def test_same_rows(process, fake, expected, mode, threads):  # noqa: F811
    # The points stay on the left side, however few of them a filter is expected to keep
    sides = "SET disabled_optimizers = 'join_order,build_side_probe_side'"
    statements = [sides, f"SET threads = {threads}", f"SET vibe_execution_mode = '{mode}'", *TABLES, PIN]
    for sql in queries():
        statements += [sql, sql, EVENT]
    load, results = process(*statements, VIBESPATIAL_GPU_FOLDER=str(fake))
    pinned = results[3 + len(TABLES)]
    assert pinned == [["memory.main.points", "g", COLUMNS[1:-1].replace("'", "").split(", ")[1:], 12000, pinned[0][4]]]
    # 16 bytes of a point, 4 of its place, 8 + 1 + 1 + 1 + 2 + 8 + 8 + 8 + 4 + 4 + 8 + 4 of the columns, and one for each of the four with NULLs
    assert pinned[0][4] == 12000 * (16 + 57 + 4 + 4)
    results = results[4 + len(TABLES):]
    for number, sql in enumerate(queries()):
        first, second, [event] = results[3 * number:3 * number + 3]
        assert first == expected[number] and second == expected[number], sql
        operation, actual, bytes_to_device, rows, reason = event
        if any(sql.endswith(f"WHERE {text}") for text in OTHERS):
            assert operation != "join_pinned", (sql, event)
        elif not any(sql.endswith(f"WHERE {text}") for text in NOTHING):
            assert [operation, actual, bytes_to_device, rows] == ["join_pinned", "gpu", 0, 12000], (sql, event)
            assert "the points are pinned: memory.main.points" in reason


def test_explain_and_status(process, fake):  # noqa: F811
    load, results = process(*TABLES, f"EXPLAIN {COUNT}", "CALL vibe_pin('points', columns := ['id', 'g'])", f"EXPLAIN {COUNT}", f"EXPLAIN ANALYZE {COUNT}",
                            "FROM vibe_pins()", "SELECT bytes, count FROM vibe_memory_status() WHERE name = 'pinned tables'",
                            f"EXPLAIN {COUNT} WHERE tiny = 3", "FROM vibe_unpin('points')", "FROM vibe_pins()", f"EXPLAIN {COUNT}",
                            "SELECT bytes, count FROM vibe_memory_status() WHERE name = 'pinned tables'",
                            "SELECT actual, rows, bytes_to_device FROM vibe_dispatch_log() WHERE operation = 'pin'", VIBESPATIAL_GPU_FOLDER=str(fake))
    before, pin, explain, analyze, pins, memory, other, unpin, none, after, nothing, events = results[len(TABLES):]
    words = " ".join(explain[0][1].replace("│", " ").split())
    assert "the points are pinned" in words and "pinned" not in before[0][1] + other[0][1] + after[0][1]
    assert "pinned" in " ".join(analyze[0][1].replace("│", " ").split())
    assert pins == [["memory.main.points", "g", ["id"], 12000, 12000 * 28, "resident", 1, 0]]
    assert memory == [[12000 * 28, 1]] and nothing == [[0, 0]]
    assert unpin == [["memory.main.points", "g", 12000 * 28]] and none == []
    assert events == [["gpu", 12000, events[0][2]]] and events[0][2] >= 12000 * 28


def test_filters_by_a_constant(process, fake):  # noqa: F811
    area = "ST_GeomFromText('POLYGON ((1 1, 20 3, 25 30, 2 20, 1 1))')"
    asked = [f"SELECT count(*) FROM points WHERE ST_Within(g, {area})", f"SELECT count(*) FROM points WHERE ST_Intersects({area}, g) AND tiny > 3",
             "SELECT count(*) FROM points WHERE ST_DWithin(g, ST_Point(10, 10), 3)"]
    others = [f"SELECT count(*), sum(id) FROM points WHERE ST_Within(g, {area})", f"SELECT flag, count(*) FROM points WHERE ST_Within(g, {area}) GROUP BY ALL ORDER BY ALL",
              f"SELECT count(*) FROM points WHERE ST_Within(g, {area}) AND ST_DWithin(g, ST_Point(10, 10), 9)"]
    statements = [step for sql in asked for step in (sql, sql, EVENT)] + others
    load, results = process(*TABLES, PIN, *statements, "SET vibe_execution_mode = 'cpu'", *asked, *others, VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[len(TABLES) + 1:]
    right = results[-len(asked) - len(others):]
    for number, sql in enumerate(asked):
        first, second, [event] = results[3 * number:3 * number + 3]
        assert first == second == right[number], sql
        assert event[0] == "join_pinned" and event[2] <= 16, (sql, event)
    assert results[3 * len(asked):3 * len(asked) + len(others)] == right[len(asked):]


def test_errors(process, fake, tmp_path):  # noqa: F811
    load, results = process(*TABLES, "CREATE VIEW seen AS SELECT * FROM points", "CREATE TEMP TABLE short AS SELECT * FROM points", "CALL vibe_pin('seen')",
                            "CALL vibe_pin('short')", "CALL vibe_pin('SELECT * FROM points')", "CALL vibe_pin('nowhere')", "CALL vibe_pin(NULL)",
                            "CALL vibe_pin('points', columns := ['text'])", "CALL vibe_pin('points', columns := ['none'])",
                            "CREATE TABLE bare AS SELECT 1 AS i", "CALL vibe_pin('bare')", "CALL vibe_unpin('points')",
                            "SET vibe_execution_mode = 'cpu'", "CALL vibe_pin('points')", VIBESPATIAL_GPU_FOLDER=str(fake))
    view, temporary, query, missing, null, text, none, _, bare, unpin, _, cpu = results[len(TABLES) + 2:]
    for error in (view, temporary):
        assert "is no table of a DuckDB database" in error
    assert "does not exist" in query and "does not exist" in missing
    assert "is NULL" in null
    assert 'column "text" is VARCHAR' in text and 'has no column "none"; it has id' in none
    assert "has no column of type GEOMETRY; it has i" in bare
    assert "no pinned table is called points" in unpin
    assert "vibe_execution_mode is 'cpu'" in cpu
    load, results = process(*TABLES, "CALL vibe_pin('points')", "FROM vibe_pins()", VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert "vibe_pin: there is no GPU to keep memory.main.points on" in results[-2] and results[-1] == []


def test_cpu_never_reads_it(process, fake):  # noqa: F811
    load, results = process(*TABLES, PIN, COUNT, "SET vibe_execution_mode = 'cpu'", COUNT, f"EXPLAIN {COUNT}", "SELECT state, hits FROM vibe_pins()",
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    first, _, second, explain, pins = results[len(TABLES) + 1:]
    assert first == second and "pinned" not in explain[0][1] and pins == [["resident", 1]]


#: Runs in a process of its own, with several connections: `check(name)` compares a count on the device's copy, or not, with the CPU's
SCRIPT = """
import json, sys
import duckdb
database = duckdb.connect(sys.argv[2], config={"allow_unsigned_extensions": "true"})
database.execute(f"LOAD '{sys.argv[1]}'")
for sql in json.loads(sys.argv[3]):
    database.execute(sql)
COUNT, EVENT, COLUMNS = json.loads(sys.argv[4])
results = []
def check(name, connection=None, sql=COUNT, parameters=None):
    connection = connection or database
    rows = connection.execute(sql, parameters).fetchall()
    operation, actual, moved, count, reason = connection.execute(EVENT).fetchone()
    connection.execute("SET vibe_execution_mode = 'cpu'")
    right = connection.execute(sql, parameters).fetchall()
    connection.execute("SET vibe_execution_mode = 'auto'")
    state = [row[0] for row in database.execute("SELECT state FROM vibe_pins()").fetchall()]
    assert rows == right, (name, rows, right, state)
    results.append([name, operation == 'join_pinned', reason, state])
def pin(table='points'):
    database.execute(f"CALL vibe_pin('{table}', columns := {COLUMNS})")
"""


@pytest.fixture
def connections(extension, fake, tmp_path):  # noqa: F811
    def run(body, path=":memory:", **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VIBESPATIAL_") and name != "FAKE_GPU"}
        arguments = [str(extension), path, json.dumps(TABLES), json.dumps([COUNT, EVENT, COLUMNS])]
        result = subprocess.run([sys.executable, "-c", SCRIPT + body + "\nprint(json.dumps(results))", *arguments], capture_output=True, text=True,
                                env={**clean, "VIBESPATIAL_GPU_FOLDER": str(fake), **environment}, timeout=120)
        assert result.returncode == 0, result.stderr
        return {row[0]: row[1:] for row in json.loads(result.stdout)}

    return run


@pytest.mark.parametrize("path", [":memory:", "file.db"])
def test_changes_make_it_invalid(connections, tmp_path, path):
    changes = {
        "insert": "INSERT INTO points (id, g) VALUES (99999, ST_Point(0.5, 0.5))",
        "delete": "DELETE FROM points WHERE id < 50",
        "update of a number": "UPDATE points SET id = id + 7 WHERE id < 900",
        "update of a geometry": "UPDATE points SET g = ST_Point(1.5, 1.5) WHERE id < 50",
        "merge": "MERGE INTO points USING (SELECT 5 AS k) s ON points.id = s.k WHEN MATCHED THEN DELETE",
        "alter": "ALTER TABLE points RENAME COLUMN text TO other",
        "added column": "ALTER TABLE points ADD COLUMN more INTEGER DEFAULT 7",
        "truncate": "TRUNCATE points",
        "replaced": "CREATE OR REPLACE TABLE points AS SELECT * REPLACE (id % 100 AS id), 1 AS more, 2 AS other FROM range(0) t(i) LEFT JOIN points ON true LIMIT 0",
    }
    body = "".join(f"""
pin()
check('{name}: before', sql=COUNT + " WHERE id < 3000")
database.execute({sql!r})
check('{name}: after', sql=COUNT + " WHERE id < 3000")
""" for name, sql in changes.items() if name != "replaced")
    body += """
database.execute("DROP TABLE points")
for sql in json.loads(sys.argv[3])[-1:]:
    database.execute(sql + " WHERE i % 2 = 0")
check('dropped and made again')
pin()
check('pinned again')
with database.cursor() as other:
    other.execute("INSERT INTO areas SELECT 5000, ST_MakeEnvelope(0, 0, 1, 1)")
check('another table of the database')
"""
    results = connections(body, str(tmp_path / path) if path != ":memory:" else path)
    for name in changes:
        if name == "replaced":
            continue
        assert results[f"{name}: before"][0], results[f"{name}: before"]
        used, reason, state = results[f"{name}: after"]
        assert not used and "points is not used: its database has changed" in reason
        assert state == ["invalid: its database has changed"]
    assert not results["dropped and made again"][0]
    assert results["pinned again"][0]
    assert not results["another table of the database"][0]


def test_transactions_see_their_own_rows(connections):
    results = connections("""
other = database.cursor()
# A snapshot that is older than the pin
other.execute("BEGIN"); other.execute("SELECT count(*) FROM points").fetchall()
pin()
check('older snapshot', other)
other.execute("COMMIT")
check('after it', other)
# Changes of its own
other.execute("BEGIN"); other.execute("INSERT INTO points (id, g) VALUES (7, ST_Point(0.5, 0.5))")
check('own changes', other)
check('changes of another', database)
other.execute("ROLLBACK")
check('rolled back', other)
check('rolled back, seen by another', database)
# A snapshot of before a change reads on; the pin has gone with the change
other.execute("BEGIN"); other.execute("SELECT count(*) FROM points").fetchall()
check('snapshot', other)
database.execute("DELETE FROM points WHERE id < 4000")
check('snapshot of before a change', other)
other.execute("COMMIT")
check('after the change', other)
# A transaction that began before the change pins what it sees: nobody else may read it
other.execute("BEGIN"); other.execute("SELECT count(*) FROM points").fetchall()
database.execute("DELETE FROM points WHERE id < 5000")
other.execute(f"CALL vibe_pin('points', columns := {COLUMNS})")
check('pinned from an old snapshot', database)
check('by its own transaction', other)
other.execute("COMMIT")
check('after its end', other)
# The pin of a transaction with changes
other.execute("BEGIN"); other.execute("DELETE FROM points WHERE id = 5001")
try:
    other.execute("CALL vibe_pin('points')")
    raise AssertionError("pinned")
except duckdb.InvalidInputException as error:
    assert "COMMIT first" in str(error)
other.execute("ROLLBACK")
""")
    used = {name: row[0] for name, row in results.items()}
    assert used == {"older snapshot": False, "after it": True, "own changes": False, "changes of another": False, "rolled back": True,
                    "rolled back, seen by another": True, "snapshot": True, "snapshot of before a change": False, "after the change": False,
                    "pinned from an old snapshot": False, "by its own transaction": False, "after its end": False}
    assert "began before the table was pinned" in results["older snapshot"][1]
    assert "the transaction has changed its database" in results["own changes"][1]
    assert "another transaction is changing its database" in results["changes of another"][1]


def test_prepared_statements_and_appenders(connections):
    results = connections("""
database.execute(f"PREPARE counted AS {COUNT}")
check('before it is pinned', sql="EXECUTE counted")
pin()
check('planned before', sql="EXECUTE counted")
with database.cursor() as other:
    other.execute("INSERT INTO points SELECT * FROM points WHERE id < 100")
check('after a change', sql="EXECUTE counted")
pin()
check('pinned again', sql="EXECUTE counted")
check('with a parameter', sql=COUNT + " WHERE id < ?", parameters=[500])
# A data frame goes in by another way than INSERT .. SELECT of a table
class Frame: pass
database.execute("CREATE TABLE plain AS SELECT 1 AS i")
pin()
check('again')
database.executemany("INSERT INTO points (id, g) VALUES (?, ST_Point(0.5, 0.5))", [[n] for n in range(3)])
check('after executemany')
pin()
import duckdb as d
database.execute("CHECKPOINT")
check('after a checkpoint')
database.execute("ATTACH ':memory:' AS aside"); database.execute("CREATE TABLE aside.t AS SELECT 1 AS i"); database.execute("CREATE TEMP TABLE u AS SELECT 2 AS j")
check('after changes of other databases')
database.execute("CREATE TABLE aside.points AS SELECT * FROM points")
pin('aside.points')
AREAS = "SELECT count(*) FROM aside.points p JOIN areas a ON ST_Within(p.g, a.g)"
check('attached', sql=AREAS)
database.execute("INSERT INTO areas SELECT 6000, ST_MakeEnvelope(2, 2, 9, 9)")
check('the other side has changed', sql=AREAS)
check('not the attached one')
database.execute("DELETE FROM aside.points WHERE id < 70")
check('attached, changed', sql=AREAS)
pin('aside.points')
check('attached, again', sql=AREAS)
database.execute("DETACH aside"); database.execute("ATTACH ':memory:' AS aside"); database.execute("CREATE TABLE aside.points AS SELECT * FROM points WHERE id < 900")
check('detached and attached', sql=AREAS)
""")
    used = {name: row[0] for name, row in results.items()}
    assert used == {"before it is pinned": False, "planned before": True, "after a change": False, "pinned again": True, "with a parameter": used["with a parameter"],
                    "again": True, "after executemany": False, "after a checkpoint": True, "after changes of other databases": True, "attached": True,
                    "the other side has changed": True, "not the attached one": False, "attached, changed": False, "attached, again": True,
                    "detached and attached": False}
    assert "invalid: its database was detached" in results["detached and attached"][2]


def test_memory(connections):
    results = connections("""
database.execute("INSERT INTO points SELECT p.* FROM points p, range(3)")
database.execute("CREATE TABLE more AS SELECT * FROM points"); database.execute("CREATE TABLE most AS SELECT * FROM points")
MORE, MOST = COUNT.replace("points", "more"), COUNT.replace("points", "most")
database.execute("SET vibe_gpu_memory_limit = '12MB'")
pin()
check('one')
pin('more')
check('two', sql=MORE)
check('both')
pin('most')
check('the third', sql=MOST)
check('that was not used for longest', sql=MORE)
check('that was used')
try:
    database.execute("SET vibe_gpu_memory_limit = '100KB'")
    pin()
    raise AssertionError("pinned")
except duckdb.OutOfMemoryException as error:
    assert "vibe_gpu_memory_limit" in str(error)
check('after the limit changed')
""")
    used = {name: row[0] for name, row in results.items()}
    assert used == {"one": True, "two": True, "both": True, "the third": True, "that was not used for longest": False, "that was used": True,
                    "after the limit changed": False}
    assert "evicted" in results["that was not used for longest"][1]
    assert results["after the limit changed"][2] == ["evicted: memory"] * 3


@pytest.mark.parametrize("fault", ["no room", "late no room", "never room", "failed launch", "lost", "lost for good", "failed cells"])
def test_a_device_that_fails(connections, fault):
    body = """
for number in range(3):
    check(number)
    check(f'{number} filtered', sql=COUNT + " WHERE id < 700")
"""
    results = connections("pin()\n" + body, FAKE_GPU=fault)
    assert len(results) == 6


def test_a_device_that_fails_in_mode_gpu(process, fake):  # noqa: F811
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, PIN, COUNT, VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="failed launch")
    assert "the fake device does not start" in results[-1]


def test_empty_points(process, fake):  # noqa: F811
    """EMPTY points meet no area, and are near to all"""
    near = "SELECT count(*) FROM points p JOIN areas a ON ST_DWithin(p.g, a.g, 1)"
    load, results = process(*TABLES, "INSERT INTO points (id, g) VALUES (-1, ST_GeomFromText('POINT EMPTY'))", "CALL vibe_pin('points')", COUNT, EVENT, near, near,
                            EVENT, "SET vibe_execution_mode = 'cpu'", COUNT, near, VIBESPATIAL_GPU_FOLDER=str(fake))
    pinned, count, event, first, second, other, _, count_on_cpu, near_on_cpu = results[len(TABLES) + 1:]
    assert pinned[0][3] == 12001
    assert count == count_on_cpu and event[0][0] == "join_pinned"
    assert first == second == near_on_cpu, other
