"""Pinned tables of other geometries than points, on a GPU engine whose kernels run on the host: the rows of the CPU, without a scan and without bytes to the device."""
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)
from test_pin import TABLES, connections  # noqa: F401 (a fixture)
from test_pin_rows import EVENT, SIDES, ordered

#: All kinds of geometry: also NULL, EMPTY, collections, with Z, and more vertices than the device reads. The numbers are those of a test of points.
SHAPE = """CASE WHEN i % 61 = 5 THEN NULL WHEN i % 97 = 11 THEN ST_GeomFromText('POLYGON EMPTY') WHEN i % 101 = 3 THEN ST_GeomFromText('POINT EMPTY')
  WHEN i % 389 = 7 THEN ST_Buffer(ST_Point(i % 40, i % 38), 2.5, 300)
  ELSE CASE i % 8
    WHEN 0 THEN ST_MakeEnvelope(i % 41, i % 37, i % 41 + 0.5 + i % 2, i % 37 + 0.75)
    WHEN 1 THEN ST_MakeLine(ST_Point(i % 43, i % 37), ST_Point(i % 43 + 1.5, i % 37 + i % 3))
    WHEN 2 THEN ST_Point(i % 35 + 0.5, i % 39)
    WHEN 3 THEN ST_GeomFromText(format('MULTIPOINT ({} {}, {} {})', i % 33, i % 31, i % 33 + 2, i % 31 + 0.5))
    WHEN 4 THEN ST_GeomFromText(format('GEOMETRYCOLLECTION (POINT ({} {}), LINESTRING (1 1, {} {}))', i % 40, i % 38, i % 40, i % 38))
    WHEN 5 THEN ST_GeomFromText(format('MULTIPOLYGON ((({0} {1}, {0}.5 {1}, {0}.5 {1}.5, {0} {1})), (({0}.75 {1}, {0}.9 {1}, {0}.9 {1}.5, {0}.75 {1})))', i % 39, i % 36))
    WHEN 6 THEN ST_GeomFromText(format('LINESTRING Z ({} {} 7, {} {} 8, {} {} 9)', i % 40, i % 37, i % 40 + 1, i % 37 + 1, i % 40 + 1, i % 37))
    ELSE ST_MakeEnvelope(i % 40, i % 38, i % 40 + 1, i % 38 + 1) END END"""
SHAPES = [*TABLES, f"CREATE TABLE shapes AS SELECT i AS id, (i % 12)::TINYINT AS kind, CASE WHEN i % 7 <> 0 THEN i / 4 END::DOUBLE AS d, 'x' || i % 3 AS text, {SHAPE} AS g "
          "FROM range(5000) t(i)"]
PIN = "CALL vibe_pin('shapes', columns := ['g', 'id', 'kind', 'd'])"
ON = "ST_Intersects(s.g, a.g)"
INNER = f"SELECT s.id, a.zone FROM shapes s JOIN areas a ON {ON}"
FILTERS = ["s.kind = 3", "s.id < 900 AND s.d IS NOT NULL", "s.d IS NULL", "s.g IS NOT NULL", "s.kind IN (1, 5) AND s.g IS NOT NULL"]
QUERIES = [
    "SELECT count(*) FROM shapes s JOIN areas a ON ST_Within(s.g, a.g)",
    f"SELECT a.zone, count(*) FROM shapes s JOIN areas a ON {ON} GROUP BY ALL",
    f"SELECT count(*), sum(s.id), sum(a.zone) FROM shapes s JOIN areas a ON {ON}",
    INNER,
    *(f"SELECT s.id, a.zone FROM shapes s JOIN areas a ON {name}(s.g, a.g)" for name in ["ST_Touches", "ST_Crosses", "ST_Overlaps", "ST_Contains", "ST_CoveredBy", "ST_Covers"]),
    "SELECT s.id, r.road FROM shapes s JOIN roads r ON ST_Crosses(s.g, r.g)",
    "SELECT s.id, r.road FROM shapes s JOIN roads r ON ST_Intersects(s.g, r.g) AND s.id % 50 < r.road % 50",
    "SELECT count(*) FROM shapes s JOIN (SELECT * FROM points WHERE id < 4000) p ON ST_Contains(s.g, p.g)",
    "SELECT s.id, a.zone FROM shapes s JOIN (SELECT * FROM areas WHERE NOT ST_IsEmpty(g)) a ON ST_DWithin(s.g, a.g, 0.25)",
    "SELECT s.id, p.id FROM shapes s JOIN (SELECT * FROM points WHERE id < 800) p ON ST_Covers(s.g, p.g)",
    f"SELECT s.id, ST_AsText(s.g), a.zone FROM shapes s JOIN areas a ON {ON} WHERE a.zone < 400",
    f"SELECT s.id FROM shapes s SEMI JOIN areas a ON {ON}",
    f"SELECT s.id, ST_AsText(s.g) FROM shapes s ANTI JOIN areas a ON {ON}",
    f"SELECT s.id, s.d, a.zone FROM shapes s LEFT JOIN areas a ON {ON}",
    f"SELECT s.id, a.zone FROM shapes s RIGHT JOIN areas a ON {ON}",
    f"SELECT s.id, EXISTS (SELECT 1 FROM areas a WHERE {ON}) AS inside FROM shapes s",
    *(f"SELECT count(*) FROM shapes s JOIN areas a ON {ON} WHERE {text}" for text in FILTERS),
    *(f"SELECT s.id, {what} FROM shapes s {kind} JOIN areas a ON {ON} WHERE {text}" for text in FILTERS
      for kind, what in [("", "a.zone"), ("SEMI", "s.d"), ("ANTI", "ST_AsText(s.g)"), ("LEFT", "a.zone")]),
    "SELECT count(*) FROM shapes s WHERE ST_Within(s.g, ST_GeomFromText('POLYGON ((1 1, 20 3, 25 30, 2 20, 1 1))'))",
]
#: EMPTY geometries are equal to one another, which only the CPU finds; and what the device's copy does not have
OTHERS = {
    "SELECT s.id, a.zone FROM shapes s JOIN areas a ON ST_Equals(s.g, a.g)": "it has EMPTY geometries",
    f"SELECT s.text, a.zone FROM shapes s JOIN areas a ON {ON}": 'column "text", which is not pinned',
    f"{INNER} WHERE s.id % 2 = 0": "is no comparison of pinned columns and constants",
}
NEAR = [sql.replace("FROM shapes s", "FROM shapes s ") for sql in [
    "SELECT s.id, r.road FROM shapes s JOIN roads r ON ST_DWithin(s.g, r.g, 0.25)", "SELECT count(*) FROM shapes s JOIN points p ON ST_DWithin(s.g, p.g, 0.1) WHERE s.kind = 3"]]


def check(statements, tables, asked, process, fake, why_not=(), threads=1, mode="gpu"):
    """Each query three times: on the device with and without a build side there, and on the CPU"""
    steps = [step for sql in asked for step in (sql, sql, EVENT)]
    load, results = process(SIDES, f"SET threads = {threads}", f"SET vibe_execution_mode = '{mode}'", *tables, *statements, *steps, "SET vibe_execution_mode = 'cpu'", *asked,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[3 + len(tables):]
    found, right = results[len(statements):-len(asked) - 1], results[-len(asked):]
    for number, sql in enumerate(asked):
        first, second, event = found[3 * number:3 * number + 3]
        assert ordered(first) == ordered(right[number]) and ordered(second) == ordered(right[number]), (sql, len(first), len(right[number]))
        [[operation, actual, to_device, from_device, rows, reason]] = event
        if sql in why_not:
            assert operation != "join_pinned" and why_not[sql] in reason and "are pinned" not in reason, (sql, event)
        else:
            assert [operation, actual] == ["join_pinned", "gpu"] and to_device <= 16 and "the geometries are pinned: " in reason, (sql, event)
    return results[:len(statements)], right


@pytest.mark.parametrize("mode, threads", [("gpu", 1), ("auto", 3)])
def test_same_rows(process, fake, mode, threads):  # noqa: F811
    [pinned], right = check([PIN], SHAPES, [*QUERIES, *OTHERS], process, fake, OTHERS, threads, mode)
    assert pinned[0][:4] == ["memory.main.shapes", "g", ["id", "kind", "d"], 5000]
    assert all(right)
    # At least the coordinates, and 8 + 1 + 8 + 1 of the columns
    assert pinned[0][4] > 5000 * (16 + 18)


def test_distances(process, fake):  # noqa: F811
    tables = [*SHAPES, "DELETE FROM shapes WHERE ST_IsEmpty(g)", "DELETE FROM areas WHERE ST_IsEmpty(g)"]
    near = [*NEAR, "SELECT s.id, a.zone FROM shapes s JOIN areas a ON ST_DWithin(s.g, a.g, 0.25)", "SELECT s.id FROM shapes s ANTI JOIN areas a ON ST_Distance(s.g, a.g) < 0.1"]
    check([PIN], tables, near, process, fake)


def test_points_before_shapes(process, fake):  # noqa: F811
    """A table whose first rows are points has segments of both; a second geometry column goes along"""
    tables = [*TABLES, f"CREATE TABLE shapes AS SELECT i AS id, (i % 12)::TINYINT AS kind, i / 4::DOUBLE AS d, ST_Point(i % 40, i % 41 + 0.5) AS h, "
              f"CASE WHEN i < 3000 THEN CASE WHEN i % 50 = 3 THEN NULL ELSE ST_Point(i % 43, i % 37) END ELSE {SHAPE} END AS g FROM range(8000) t(i)"]
    other = ["SELECT s.id, a.zone FROM shapes s JOIN areas a ON ST_Within(s.h, a.g) WHERE s.kind = 3"]
    asked = [sql for sql in QUERIES[::2] if "s.d IS" not in sql]
    statements = ["CALL vibe_pin('shapes', columns := ['g', 'h', 'id', 'kind', 'd'])"]
    [pinned], _ = check(statements, tables, asked, process, fake)
    assert [row[1:4] for row in pinned] == [[name, ["id", "kind", "d"], 8000] for name in "gh"]
    load, results = process(SIDES, "SET threads = 1", *tables, *statements, *other, EVENT, "SET vibe_execution_mode = 'cpu'", *other, VIBESPATIAL_GPU_FOLDER=str(fake))
    first, [event], _, right = results[2 + len(tables) + 1:]
    assert ordered(first) == ordered(right) and event[0] == "join_pinned" and "the points are pinned" in event[5]


def test_status(process, fake):  # noqa: F811
    count = QUERIES[0]
    load, results = process(*SHAPES, PIN, f"EXPLAIN {count}", count, "SELECT rows, state, hits, host_bytes > 100000, bytes FROM vibe_pins()",
                            "SELECT bytes, count FROM vibe_memory_status() WHERE name = 'pinned tables'", "FROM vibe_unpin('shapes')",
                            "SELECT bytes, count FROM vibe_memory_status() WHERE name = 'pinned tables'", VIBESPATIAL_GPU_FOLDER=str(fake))
    pin, explain, _, [status], memory, unpin, nothing = results[len(SHAPES):]
    assert "the geometries are pinned" in " ".join(explain[0][1].replace("│", " ").split())
    assert status[:4] == [5000, "resident", 1, True] and status[4] == pin[0][4] == memory[0][0] == unpin[0][2]
    assert nothing == [[0, 0]]


def test_errors(process, fake):  # noqa: F811
    load, results = process("CREATE TABLE bad AS SELECT ST_GeomFromText('LINESTRING (0 0, 1 1)') AS g UNION ALL SELECT ST_GeomFromText('LINESTRING (0 0, inf 1)')",
                            "CALL vibe_pin('bad')", "FROM vibe_pins()", VIBESPATIAL_GPU_FOLDER=str(fake))
    created, error, pins = results
    assert "finite" in (created if isinstance(created, str) else error), results
    assert pins == [] or isinstance(pins, str)


#: For connections(): the table, and a check of queries whose rows come in any order
SETUP = f"""
for sql in {SHAPES[len(TABLES):]!r} + [{SIDES!r}, "SET enable_progress_bar = false"]:
    database.execute(sql)
def check_rows(name, sql):
    rows = sorted(database.execute(sql).fetchall(), key=repr)
    operation, actual, moved, count, reason = database.execute(EVENT).fetchone()
    database.execute("SET vibe_execution_mode = 'cpu'")
    right = sorted(database.execute(sql).fetchall(), key=repr)
    database.execute("SET vibe_execution_mode = 'auto'")
    assert rows == right, (name, len(rows), len(right))
    results.append([name, operation == 'join_pinned', reason, []])
def check_all(name):
    for number, sql in enumerate({[QUERIES[0], QUERIES[1], INNER, *(sql for sql in QUERIES if "s.id < 900" in sql)]!r}):
        check_rows(f'{{name}} {{number}}', sql)
"""


@pytest.mark.parametrize("fault", ["no room", "late no room", "never room", "failed launch", "lost", "lost for good", "failed rows"])
def test_a_device_that_fails(connections, fault):  # noqa: F811
    """Also after rows have come out: the rest of them comes from the host's copy"""
    results = connections(SETUP + f"database.execute({PIN!r})\nfor number in range(3):\n    check_all(number)\n", FAKE_GPU=fault)
    assert len(results) == 3 * 8


def test_changes(connections):  # noqa: F811
    results = connections(SETUP + f"""
database.execute({PIN!r})
check_rows('pinned', {INNER!r})
database.execute("UPDATE shapes SET g = ST_MakeEnvelope(0, 0, 1, 1) WHERE id < 50")
check_rows('changed', {INNER!r})
assert database.execute("SELECT state, host_bytes FROM vibe_pins()").fetchall() == [('invalid: its database has changed', 0)]
database.execute({PIN!r})
check_rows('again', {INNER!r})
database.execute("SET memory_limit = '60MB'")
check_rows('with little memory', {INNER!r})
# More than the limit is needed to send 16 MB
database.execute("CREATE TABLE circles AS SELECT ST_Buffer(ST_Point(i % 40, i % 38), 1, 15) AS g FROM range(22000) t(i)")
database.execute("SET memory_limit = '50MB'")
assert database.execute("SELECT rows FROM vibe_pin('circles')").fetchall() == [(22000,)]
check_rows('pinned with little memory', "SELECT count(*) FROM circles c JOIN (SELECT * FROM areas WHERE zone = 77) a ON ST_Intersects(c.g, a.g)")
database.execute("CALL vibe_unpin('circles')")
database.execute({PIN!r})
check_rows('pinned once more', {INNER!r})
database.execute("SET vibe_gpu_memory_limit = '100KB'")
try:
    database.execute({PIN!r})
    raise AssertionError("pinned")
except duckdb.OutOfMemoryException as error:
    assert "vibe_gpu_memory_limit" in str(error)
check_rows('evicted', {INNER!r})
assert database.execute("SELECT state, host_bytes FROM vibe_pins()").fetchall() == [('evicted: memory', 0)]
""")
    assert {name: row[0] for name, row in results.items()} == {"pinned": True, "changed": False, "again": True, "with little memory": True,
                                                               "pinned with little memory": True, "pinned once more": True, "evicted": False}
