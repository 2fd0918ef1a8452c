"""Unions of the geometries of a pinned table, on a GPU engine whose kernels run on the host: the bytes of the CPU, and nothing of the table is sent but once."""
import json

import duckdb
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)
from test_pin import connections  # noqa: F401 (a fixture)

#: Polygons that overlap: with holes, Z, many parts, NULL, EMPTY, invalid ones, clockwise ones, repeated vertices
LAND = """CASE WHEN i % 61 = 5 THEN NULL WHEN i % 97 = 11 THEN ST_GeomFromText('POLYGON EMPTY') WHEN i % 101 = 3 THEN ST_GeomFromText('MULTIPOLYGON EMPTY')
  WHEN i % 389 = 7 THEN ST_Buffer(ST_Point(i % 40, i % 38), 2.5, 300)
  ELSE CASE i % 8
    WHEN 0 THEN ST_MakeEnvelope(i % 41, i % 37, i % 41 + 0.5 + i % 2, i % 37 + 0.75)
    WHEN 1 THEN ST_GeomFromText(format('POLYGON (({0} {1}, {2} {1}, {2} {3}, {0} {3}, {0} {1}), ({0}.25 {1}.25, {0}.25 {1}.75, {0}.75 {1}.75, {0}.25 {1}.25))', i % 43, i % 37, i % 43 + 2, i % 37 + 1))
    WHEN 2 THEN ST_Buffer(ST_Point(i % 35 + 0.5, i % 39), 0.75)
    WHEN 3 THEN ST_GeomFromText(format('POLYGON Z (({0} {1} 7, {0}.5 {1} 8, {0}.5 {1}.5 9, {0} {1} 7))', i % 33, i % 31))
    WHEN 4 THEN ST_GeomFromText(format('POLYGON (({0} {1}, {0} {1}, {2} {3}, {0} {3}, {0} {3}, {2} {1}, {0} {1}))', i % 40, i % 38, i % 40 + 1, i % 38 + 1))
    WHEN 5 THEN ST_GeomFromText(format('MULTIPOLYGON ((({0} {1}, {0}.5 {1}, {0}.5 {1}.5, {0} {1})), (({0}.75 {1}, {0}.9 {1}, {0}.9 {1}.5, {0}.75 {1})))', i % 39, i % 36))
    WHEN 6 THEN ST_Reverse(ST_Buffer(ST_Point(i % 30, i % 29), 1.25, 5))
    ELSE ST_MakeEnvelope(i % 40, i % 38, i % 40 + 1, i % 38 + 1) END END"""
ROWS = "i AS id, (i % 12)::TINYINT AS kind, CASE WHEN i % 7 <> 0 THEN i / 4 END::DOUBLE AS d, 'x' || i % 3 AS text"
TABLES = [
    f"CREATE TABLE land AS SELECT {ROWS}, {LAND} AS g FROM range(5000) t(i)",
    # Lines among them, which the device does not unite
    f"CREATE TABLE mixed AS SELECT {ROWS}, CASE WHEN i % 12 = 4 AND i % 50 = 3 THEN ST_MakeLine(ST_Point(i % 20, 0), ST_Point(3, i % 30)) ELSE {LAND} END AS g FROM range(4000) t(i)",
    # Groups that are large
    "CREATE TABLE crowd AS SELECT i AS id, (CASE WHEN i % 9 = 0 THEN 4 ELSE i % 4 END)::TINYINT AS kind, ST_Buffer(ST_Point(i % 61, i % 53), 0.6, 16) AS g FROM range(2700) t(i)",
    "CREATE VIEW seen AS SELECT g AS geom, kind, id FROM land WHERE id >= 100",
    "CREATE VIEW bare AS SELECT g, kind FROM land",
]
LAND_PIN = "CALL vibe_pin('land', columns := ['g', 'id', 'kind', 'd'])"
PINS = [LAND_PIN, "CALL vibe_pin('crowd')", "CALL vibe_pin('crowd', columns := ['g', 'kind'])", "CALL vibe_pin('mixed', columns := ['g', 'id', 'kind', 'd'])"]
UNION = "hex(ST_AsWKB(ST_Union_Agg(g)))"
QUERIES = [
    f"SELECT {UNION} FROM land",
    "SELECT hex(ST_AsWKB(ST_CoverageUnion_Agg(g))) FROM land",
    f"SELECT kind, {UNION} FROM land GROUP BY kind",
    f"SELECT kind, count(*), count(d), sum(id), min(d), {UNION} FROM land GROUP BY kind",
    f"SELECT id % 5 AS part, kind > 3, {UNION} FROM land GROUP BY ALL",
    f"SELECT d, {UNION} FROM land WHERE d < 100 GROUP BY ALL",
    f"SELECT {UNION} FROM land WHERE kind = 3",
    f"SELECT kind, {UNION} FROM land WHERE id < 3000 AND d IS NOT NULL GROUP BY kind",
    f"SELECT {UNION}, count(*) FROM land WHERE g IS NOT NULL AND kind IN (1, 5)",
    f"SELECT {UNION}, count(*) FROM land WHERE id = 3 AND kind = 9",
    "SELECT kind, hex(ST_AsWKB(ST_Union_Agg(g) FILTER (WHERE id % 2 = 0))), hex(ST_AsWKB(ST_Union_Agg(g) FILTER (WHERE d > 500))), count(*) FROM land GROUP BY kind",
    "SELECT kind, hex(ST_AsWKB(ST_Union_Agg(geom))) FROM seen GROUP BY kind",
    "SELECT kind, hex(ST_AsWKB(ST_Union_Agg(geom))) FROM (SELECT kind + 1 AS kind, g AS geom FROM (SELECT * FROM land WHERE d > 20)) GROUP BY kind HAVING count(*) > 10 ORDER BY kind",
    "SELECT sum(ST_Area(u)), sum(ST_NPoints(u)) FROM (SELECT ST_Union_Agg(g) AS u FROM land GROUP BY kind)",
    "SELECT kind, hex(ST_AsWKB(ST_Union_Agg(g))), ST_Area(ST_CoverageUnion_Agg(g)) FROM land GROUP BY kind",
    "SELECT kind, hex(ST_AsWKB(ST_Union_Agg(DISTINCT g))) FROM land GROUP BY kind",
    f"SELECT kind, id % 2 AS odd, {UNION} FROM land GROUP BY ROLLUP (kind, odd)",
    f"SELECT kind, {UNION} FROM land GROUP BY kind UNION ALL SELECT kind, {UNION} FROM mixed GROUP BY kind",
    f"SELECT kind, {UNION} FROM mixed GROUP BY kind",
    f"SELECT {UNION} FROM mixed",
    f"SELECT kind, {UNION} FROM crowd GROUP BY kind",
    f"SELECT {UNION} FROM crowd",
    "SELECT kind, hex(ST_AsWKB(g)) FROM vibe_dissolve('bare', by := ['kind'], geometry := 'g')",
]
#: Read the table
OTHERS = [
    # DuckDB tells the scan which groups the join wants
    f"SELECT a.kind, a.u, b.n FROM (SELECT kind, {UNION} AS u FROM land GROUP BY kind) a JOIN (SELECT kind, count(*) AS n FROM mixed GROUP BY kind) b USING (kind)",
    f"SELECT text, {UNION} FROM land GROUP BY text",
    f"SELECT {UNION} FROM land WHERE id % 2 = 0",
    f"SELECT {UNION} FROM land WHERE text = 'x1'",
    f"SELECT {UNION}, count(g) FROM land",
    "SELECT kind, hex(ST_AsWKB(ST_Union_Agg(ST_FlipCoordinates(g)))) FROM land GROUP BY kind",
    f"SELECT kind, {UNION}, sum(ST_Area(g)) FROM land GROUP BY kind",
    f"SELECT {UNION} FROM (SELECT g FROM land ORDER BY id LIMIT 700)",
    f"SELECT ST_GeometryType(g), {UNION} FROM land GROUP BY ALL",
    f"SELECT {UNION} FROM (SELECT g FROM land USING SAMPLE 100 ROWS) WHERE false",
    "SELECT hex(ST_AsWKB(ST_Intersection_Agg(g))), count(*) FROM land WHERE kind = 7",
    "SELECT id, hex(ST_AsWKB(ST_Union_Agg(g) OVER (PARTITION BY kind ORDER BY id ROWS 2 PRECEDING))) FROM land WHERE kind = 3",
]
EVENT = ("SELECT actual, bytes_to_device, reason FROM vibe_dispatch_log() WHERE operation LIKE 'union%' AND query_id = (SELECT max(query_id) FROM vibe_dispatch_log() "
         "WHERE operation LIKE 'union%') ORDER BY sequence")
MEMORY = "SELECT bytes FROM vibe_memory_status() WHERE name = 'pinned tables'"


def ordered(rows):
    assert isinstance(rows, list), rows
    return sorted(json.loads(json.dumps(rows, default=str)), key=json.dumps)


@pytest.mark.parametrize("mode, threads", [("gpu", 1), ("auto", 3)])
def test_same_bytes(process, fake, mode, threads):  # noqa: F811
    asked = [*QUERIES, *OTHERS]
    statements = [f"SET threads = {threads}", f"SET vibe_execution_mode = '{mode}'", "SET vibe_gpu_min_rows = 100", *TABLES, *PINS]
    steps = [step for sql in asked for step in (sql, sql, EVENT, "SELECT sum(hits) FROM vibe_pins()")]
    load, results = process(*statements, *steps, "SET vibe_execution_mode = 'cpu'", *asked, VIBESPATIAL_GPU_FOLDER=str(fake))
    found, right = results[len(statements):-len(asked) - 1], results[-len(asked):]
    hits = 0
    for number, sql in enumerate(asked):
        first, second, events, [[now]] = found[4 * number:4 * number + 4]
        assert ordered(first) == ordered(right[number]) and ordered(second) == ordered(right[number]), sql
        # A scan without rows looks for no pin
        scans = 2 if "UNION ALL" in sql else 0 if sql in OTHERS or "id = 3" in sql else 1
        if "ROLLUP" in sql and duckdb.__version__ >= "2":
            scans = 0  # planned as aggregates over a common table expression
        assert now == hits + 2 * scans, (sql, events)
        hits = now
        if scans:
            assert any("the geometries are pinned: memory.main." in reason for _, _, reason in events), (sql, events)
    # 36 bytes for each of 5,000 polygons or so, where the vertices are 16 bytes each; a group that is small sends its own
    whole = found[2]
    assert whole[-1][0] == "gpu" and whole[-1][1] < 36 * 7000, whole
    assert all(right[number] for number in range(len(QUERIES)))


def test_reasons(process, fake):  # noqa: F811
    """What the log says of a pin that is not used"""
    asked = {OTHERS[0]: "a join above wants some of its groups only", OTHERS[1]: 'column "text", which is not pinned', OTHERS[2]: "is no comparison of pinned columns and constants",
             "SELECT ST_NPoints(ST_Union_Agg(g)) FROM spots": "some of its rows are kept as points"}
    tables = [*TABLES, "CREATE TABLE spots AS SELECT CASE WHEN i < 70000 THEN NULL ELSE ST_MakeEnvelope(i, 0, i + 1.5, 1) END AS g FROM range(72000) t(i)"]
    load, results = process("SET threads = 1", "SET vibe_execution_mode = 'gpu'", *tables, LAND_PIN, "CALL vibe_pin('spots')",
                            *(step for sql in asked for step in (sql, EVENT)), "SET vibe_deterministic = true", QUERIES[0], EVENT, VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[4 + len(tables):]
    for number, (sql, why) in enumerate(asked.items()):
        assert any("is not used: " in reason and why in reason for _, _, reason in results[2 * number + 1]), (sql, results[2 * number + 1])
    assert "vibe_deterministic" in results[-1][-1][2]


def test_explain_and_status(process, fake):  # noqa: F811
    sql = QUERIES[0]
    load, results = process("SET threads = 1", "SET vibe_execution_mode = 'gpu'", *TABLES, f"EXPLAIN {sql}", LAND_PIN, MEMORY, "SELECT host_bytes FROM vibe_pins()", f"EXPLAIN {sql}", sql,
                            MEMORY, "SELECT host_bytes, hits FROM vibe_pins()", "SELECT bytes_to_device FROM vibe_dispatch_log() ORDER BY sequence DESC LIMIT 1", sql,
                            "SELECT bytes_to_device FROM vibe_dispatch_log() ORDER BY sequence DESC LIMIT 1", "INSERT INTO land (id, g) VALUES (-5, ST_MakeEnvelope(500, 0, 501, 1))",
                            f"EXPLAIN {sql}", "SELECT ST_XMax(ST_Union_Agg(g)) FROM land", EVENT, MEMORY, VIBESPATIAL_GPU_FOLDER=str(fake))
    before, _, [[empty]], [[host]], explain, _, [[full]], [[more, hits]], [[first]], _, [[second]], _, after, [[most]], events, [[gone]] = results[2 + len(TABLES):]
    assert "VIBE_PINNED_SCAN" not in before[0][1] and "VIBE_PINNED_SCAN" in explain[0][1] and "memory.main.land" in explain[0][1]
    # The rings are sent by the first union, and count
    vertices = (full - empty) // 16
    assert vertices > 10000 and first - second == vertices * 16 and hits == 1
    assert more > host
    # A change is seen at once, and frees the memory
    assert "VIBE_PINNED_SCAN" in after[0][1] and most == 501 and "its database has changed" in events[-1][2] and gone == 0


def test_prepared(process, fake):  # noqa: F811
    """One plan, with the pin, without it, and with another one. It keeps nothing of a pin that is gone."""
    steps = ["EXECUTE one", EVENT, "EXECUTE one"]
    load, results = process("SET threads = 2", "SET vibe_execution_mode = 'gpu'", *TABLES, LAND_PIN, f"PREPARE one AS {QUERIES[3]}", *steps, "FROM vibe_unpin('land')", MEMORY, *steps, LAND_PIN, *steps,
                            "SELECT state FROM vibe_pins()", VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[4 + len(TABLES):]
    assert results[4] == [[0]]
    first, gone, again = results[0:3], results[5:8], results[9:12]
    assert all(ordered(some[0]) == ordered(first[0]) == ordered(some[2]) for some in (first, gone, again))
    assert ["are pinned" in some[1][-1][2] for some in (first, gone, again)] == [True, False, True]
    assert results[12] == [["resident"]]


@pytest.mark.parametrize("fault", ["failure", "late failure", "no room", "room for few"])
def test_a_device_that_fails(process, fake, fault):  # noqa: F811
    """The CPU does the rest with the host's copy"""
    asked = [QUERIES[0], QUERIES[2], QUERIES[10]]
    load, results = process("SET threads = 2", *TABLES, LAND_PIN, "SET vibe_gpu_min_rows = 100", *(step for sql in asked for step in (sql, EVENT)), "SET vibe_execution_mode = 'cpu'", *asked,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    results = results[3 + len(TABLES):]
    for number in range(len(asked)):
        assert ordered(results[2 * number]) == ordered(results[2 * len(asked) + 1 + number])
        assert "are pinned" in results[2 * number + 1][0][2]


def test_little_host_memory(process, fake, tmp_path):  # noqa: F811
    """The WKB may be on disk; where it does not fit into memory, the table is scanned or the query fails as it would without a pin"""
    tables = ["CREATE TABLE land AS SELECT i AS id, ST_Buffer(ST_Point(i % 300, i // 300), 0.75, 16) AS g FROM range(40000) t(i)"]
    sql = "SELECT sum(ST_NPoints(u)) FROM (SELECT ST_Union_Agg(g) AS u FROM land WHERE id < 300)"
    load, results = process("SET threads = 1", "SET vibe_execution_mode = 'gpu'", *tables, "CALL vibe_pin('land', columns := ['g', 'id'])", "SET memory_limit = '60MB'", sql, EVENT, "SET memory_limit = '4GB'", sql, EVENT,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    short, events, _, right, others = results[5:]
    assert short == right or "Out of Memory" in short, (short, events)
    assert "are pinned" in others[-1][2]


def test_many_at_once(connections):  # noqa: F811
    """Threads unite the pinned table, while another pins it again and a third one changes it"""
    results = connections(f"""
import threading
for sql in {TABLES!r}:
    database.execute(sql)
asked = {[QUERIES[0], QUERIES[3], QUERIES[7]]!r}
database.execute("SET vibe_execution_mode = 'cpu'")
right = {{sql: sorted(map(repr, database.execute(sql).fetchall())) for sql in asked}}
wrong = []
def unite(number):
    with database.cursor() as own:
        own.execute("SET vibe_execution_mode = 'auto'; SET vibe_gpu_min_rows = 100")
        for turn in range(4):
            for sql in asked:
                if sorted(map(repr, own.execute(sql).fetchall())) != right[sql]:
                    wrong.append((number, turn, sql))
def pin_again():
    with database.cursor() as own:
        own.execute("SET vibe_execution_mode = 'auto'")
        for turn in range(6):
            own.execute({LAND_PIN!r})
def change():
    with database.cursor() as own:
        for turn in range(3):
            own.execute("INSERT INTO mixed SELECT * FROM mixed LIMIT 1")
threads = [threading.Thread(target=unite, args=(number,)) for number in range(3)] + [threading.Thread(target=pin_again), threading.Thread(target=change)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
results.append(['wrong', wrong, database.execute("SELECT count(*) FROM vibe_dispatch_log() WHERE reason LIKE '%are pinned%'").fetchone()[0]])
""")
    wrong, pinned = results["wrong"]
    assert not wrong and pinned > 0
