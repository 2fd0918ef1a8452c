"""Filters and projections on a GPU engine whose kernels run on the host: the same rows as the CPU's, also where the device fails."""
import itertools
import re

import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

PREDICATES = ["Intersects", "Disjoint", "Contains", "Within", "Covers", "CoveredBy", "ContainsProperly", "WithinProperly", "Touches",
              "Crosses", "Overlaps", "Equals"]
# On a small grid, so that much touches; one row in so many is NULL, EMPTY, a collection
RANDOM = "CREATE MACRO random_of(i, n) AS (hash(i * 1000003 + n) % 1000000) / 1000000"
POINT = "ST_Point(floor(random_of(i, {0}) * 12), floor(random_of(i, {1}) * 12))"
SHAPE = ("CASE floor(random_of(i, {0}) * 12) WHEN 0 THEN NULL WHEN 1 THEN 'POINT EMPTY'::GEOMETRY "
         "WHEN 2 THEN 'MULTIPOLYGON EMPTY'::GEOMETRY "
         "WHEN 3 THEN ST_Collect([" + POINT.format("{0} + 3", "{0} + 4") + ", ST_MakeEnvelope(3, 3, 5, 6)]) "
         "WHEN 4 THEN 'MULTIPOLYGON (((1 1, 4 1, 4 4, 1 4, 1 1), (2 2, 2 3, 3 3, 3 2, 2 2)), ((6 6, 9 6, 9 9, 6 6)))'::GEOMETRY "
         "WHEN 5 THEN 'MULTIPOINT (2 2, 3 4, 8 8)'::GEOMETRY "
         "WHEN 6 THEN ST_MakeLine(" + POINT.format("{0} + 5", "{0} + 6") + ", " + POINT.format("{0} + 7", "{0} + 8") + ") "
         "WHEN 7 THEN ST_MakeLine([" + POINT.format("{0} + 5", "{0} + 6") + ", ST_Point(6, 6), " +
         POINT.format("{0} + 7", "{0} + 8") + "]) "
         "WHEN 8 THEN " + POINT.format("{0} + 1", "{0} + 2") + " "
         "ELSE ST_MakeEnvelope(floor(random_of(i, {0} + 1) * 10), floor(random_of(i, {0} + 2) * 10), "
         "11 - floor(random_of(i, {0} + 3) * 4), 11 - floor(random_of(i, {0} + 4) * 4)) END")
TABLES = [
    RANDOM,
    f"CREATE TABLE points AS SELECT i AS id, CASE WHEN i % 31 = 3 THEN NULL ELSE {POINT.format(1, 2)} END AS g, "
    f"CASE WHEN i % 29 = 3 THEN NULL ELSE {POINT.format(3, 4)} END AS h, "
    "CASE WHEN i % 23 = 1 THEN NULL ELSE i % 5 END AS near FROM range(4000) t(i)",
    f"CREATE TABLE shapes AS SELECT i AS id, {SHAPE.format(10)} AS g, {SHAPE.format(20)} AS h, "
    "CASE WHEN i % 23 = 1 THEN NULL WHEN i % 23 = 2 THEN -1 ELSE i % 5 END AS near FROM range(4000) t(i)",
]
CONSTANTS = ["POLYGON ((2 2, 8 2, 8 8, 2 8, 2 2), (3 3, 3 5, 5 5, 5 3, 3 3))", "LINESTRING (2 2, 6 6, 11 3)", "POINT (3 4)",
             "MULTIPOLYGON (((1 1, 4 1, 4 4, 1 4, 1 1)), ((6 6, 9 6, 9 9, 6 6)))", "POLYGON EMPTY",
             "GEOMETRYCOLLECTION (POINT (3 4), LINESTRING (5 5, 7 9))"]


def event(operation):
    return ("SELECT selected, actual, fallback, reason, rows FROM vibe_dispatch_log() WHERE operation = "
            f"'{operation}' ORDER BY sequence DESC LIMIT 1")


def filtered(table, condition):
    return f"SELECT list(id ORDER BY id) FROM {table} WHERE {condition}"


def constant_filters():
    for table, wkt in itertools.product(["points", "shapes"], CONSTANTS):
        constant = f"'{wkt}'::GEOMETRY"
        for name in PREDICATES:
            yield filtered(table, f"ST_{name}(g, {constant})")
            yield filtered(table, f"ST_{name}({constant}, g)")
        yield filtered(table, f"ST_DWithin(g, {constant}, 2)")
        yield filtered(table, f"vibe_dwithin({constant}, g, near)")
        yield filtered(table, f"ST_Distance(g, {constant}) < 2")
        yield filtered(table, f"2 >= ST_Distance({constant}, g)")
        yield filtered(table, f"ST_Intersects(g, {constant}) AND id % 3 = 1 AND ST_DWithin(h, {constant}, 1)")
        yield filtered(table, f"ST_Within(g, {constant}) OR ST_Touches(g, {constant})")


def both_ways(process, fake, statements, prepare, tables=(), **environment):  # noqa: F811
    """What each statement gives in mode cpu, and after `prepare`"""
    tables = [*TABLES, *tables]
    load, results = process(*tables, "SET vibe_execution_mode = 'cpu'", *statements, *prepare, *statements,
                            VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    wrong = [result for result in results if isinstance(result, str)]
    assert not wrong, wrong[0]
    results = results[len(tables) + 1:]
    return results[:len(statements)], results[len(statements) + len(prepare):]


def test_constant_filters(process, fake):  # noqa: F811
    statements = list(constant_filters())
    cpu, gpu = both_ways(process, fake, statements + [event("filter_shapes")], ["SET vibe_execution_mode = 'gpu'"])
    for sql, expected, rows in zip(statements, cpu, gpu):
        assert rows == expected, sql
    assert sum(rows != [[None]] for rows in cpu) > len(cpu) / 2
    assert gpu[-1][0][:3] == ["gpu", "gpu", False]


@pytest.mark.parametrize("fault", ["failed rows", "failed cells", "failed launch", "lost", "no room", "late no room"])
def test_faults_of_constant_filters(process, fake, fault):  # noqa: F811
    statements = list(constant_filters())[::7]
    cpu, gpu = both_ways(process, fake, statements, ["FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0",
                                                     "SET vibe_execution_mode = 'auto'"], FAKE_GPU=fault)
    assert gpu == cpu


def test_order_keeps_a_filter_on_the_cpu(process, fake):  # noqa: F811
    """In mode auto rows whose order can be seen are not taken out of it"""
    area = "ST_MakeEnvelope(2, 2, 8, 8)"
    explain = f"EXPLAIN (FORMAT json) SELECT id FROM points WHERE ST_Within(g, {area})"
    load, results = process(*TABLES, "FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0", explain, event("filter_points"),
                            f"EXPLAIN (FORMAT json) SELECT count(id) FROM points WHERE ST_Within(g, {area})",
                            f"EXPLAIN (FORMAT json) SELECT id FROM points WHERE ST_Within(g, {area}) ORDER BY id",
                            "SET preserve_insertion_order = false", explain, VIBESPATIAL_GPU_FOLDER=str(fake))
    plain, logged, counted, ordered, _, any_order = results[len(TABLES) + 2:]
    assert "VIBE_SPATIAL_JOIN" not in plain[0][1] and "order" in logged[0][3]
    for plan in (counted, ordered, any_order):
        assert "VIBE_SPATIAL_JOIN" in plan[0][1]


def test_mode_auto_leaves_small_constants_to_the_scan(process, fake):  # noqa: F811
    """A distance from a point is less work than reading the row; a polygon of a thousand vertices is more"""
    near, inside = "ST_DWithin(g, ST_Point(500, 300), 10)", "ST_Within(g, ST_Buffer(ST_Point(500, 300), 10, 250))"
    count = "SELECT count(*) FROM many WHERE {}".format
    log = "SELECT operation, selected, reason FROM vibe_dispatch_log() ORDER BY sequence DESC LIMIT 1"
    load, results = process("CREATE TABLE many AS SELECT ST_Point(i % 1009, i % 701) AS g FROM range(3000000) t(i)", "FROM vibe_ensure_warm(5)",
                            "EXPLAIN (FORMAT json) " + count(near), log, "EXPLAIN (FORMAT json) " + count(inside), count(near), count(inside),
                            "SET vibe_execution_mode = 'cpu'", count(near), count(inside), VIBESPATIAL_GPU_FOLDER=str(fake))
    assert "VIBE_SPATIAL_JOIN" not in results[2][0][1] and "VIBE_SPATIAL_JOIN" in results[4][0][1]
    assert results[3] == [["filter_points", "cpu", "3000000 rows: a constant of so few vertices takes less than the scan"]]
    assert results[5] == results[8] and results[6] == results[9] and results[5][0][0] > results[6][0][0] > 0


def calls(swap=False):
    first, second = ("h", "g") if swap else ("g", "h")
    for name in PREDICATES:
        yield f"ST_{name}({first}, {second})"
    yield f"vibe_distance({first}, {second})"
    yield f"vibe_hausdorffdistance({first}, {second})"
    yield f"ST_DWithin({first}, {second}, near)"
    yield f"ST_DWithin({first}, {second}, 1.5)"


def pair_statements():
    for table in ("points", "shapes", "mixed"):
        for swap in (False, True):
            for call in calls(swap):
                yield f"SELECT list({call} ORDER BY id) FROM {table}"
                if "distance" not in call:
                    yield filtered(table, call)
                    yield filtered(table, f"NOT {call} AND id % 3 = 1")
        for wkt in CONSTANTS:
            for call in (*calls(), *calls(True)):
                call = re.sub(r"\bh\b", f"'{wkt}'::GEOMETRY", call)
                yield f"SELECT list({call} ORDER BY id) FROM {table}"
            yield filtered(table, f"NOT ST_Touches('{wkt}'::GEOMETRY, g) AND ST_Distance('{wkt}'::GEOMETRY, h) > 1")
        # Several calls, what is around them, and columns that only they read
        yield f"SELECT sum(ST_Distance(g, h)), count(*) FILTER (ST_Within(g, h)), max(ST_Touches(h, g)) FROM {table}"
        yield f"SELECT ST_Intersects(g, h) AS k, count(*), sum(ST_Distance(g, h)) FROM {table} GROUP BY k ORDER BY k"
        yield f"SELECT count(*) FROM {table} WHERE ST_Intersects(g, h) OR ST_Distance(g, h) > near"
        yield f"SELECT count(*) FROM {table} WHERE ST_Intersects(g, h) IS NULL"
        yield (f"SELECT id, ST_AsText(g), ST_Distance(g, h) + 1 AS d, ST_Distance(g, h) * 2 FROM {table} "
               "WHERE ST_DWithin(h, g, 3) AND id % 7 < 3 ORDER BY d, id LIMIT 50")
        yield f"SELECT CASE WHEN id % 2 = 0 THEN ST_Distance(g, h) END AS d, id FROM {table} ORDER BY id LIMIT 20"
        yield f"SELECT sum(ST_Distance(ST_Centroid(g), h)) FROM {table} WHERE NOT ST_IsEmpty(g)"
        yield f"SELECT id, ST_Distance(g, h) FROM {table}"
        yield f"SELECT id, ST_Intersects(g, h) FROM {table} WHERE ST_DWithin(g, h, 2) LIMIT 100"
        yield f"FROM {table} WHERE ST_Overlaps(g, h)"
        yield f"SELECT * FROM (SELECT id, ST_Within(g, h) AS w FROM {table} UNION ALL SELECT id, ST_Covers(g, h) FROM {table}) ORDER BY ALL"


MIXED = "CREATE TABLE mixed AS SELECT p.id, p.g, s.h, p.near FROM points p JOIN shapes s USING (id) ORDER BY p.id"


@pytest.mark.parametrize("threads", [1, 3])
def test_pairs(process, fake, threads):  # noqa: F811
    statements = [f"SET threads = {threads}", *pair_statements(), event("scalar_pairs")]
    cpu, gpu = both_ways(process, fake, statements, ["SET vibe_execution_mode = 'gpu'"], tables=[MIXED])
    for sql, expected, rows in zip(statements[:-1], cpu, gpu):
        assert rows == expected, sql
    assert gpu[-1][0][:3] == ["gpu", "gpu", False]


@pytest.mark.parametrize("fault", ["failed launch", "lost", "no room", "late no room"])
def test_faults_of_pairs(process, fake, fault):  # noqa: F811
    statements = [*list(pair_statements())[::5], event("scalar_pairs")]
    cpu, gpu = both_ways(process, fake, statements, ["FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0",
                                                     "SET vibe_execution_mode = 'auto'"], FAKE_GPU=fault, tables=[MIXED])
    assert gpu[:-1] == cpu[:-1]
    assert gpu[-1][0][0] == "gpu" and "device" in gpu[-1][0][3]


@pytest.mark.parametrize("fault", ["failed launch", "lost"])
def test_mode_gpu_fails_on_pairs(process, fake, fault):  # noqa: F811
    query = "SELECT sum(ST_Distance(g, h)) FROM shapes"
    load, results = process(*TABLES, "SET vibe_execution_mode = 'gpu'", query, query, event("scalar_pairs"),
                            "SET vibe_execution_mode = 'cpu'", query, VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    failed, logged, _, after = results[-4:]
    assert failed.startswith("IOException") and "the fake device" in failed and "'auto' lets the CPU do it" in failed
    assert logged[0][1] == "none" and isinstance(after, list)


# Of one geometry: as values and as what others are made of, in filters, groups and below functions of two
def row_statements():
    calls = [f"ST_{name}(g)" for name in ("Area", "Length", "Perimeter")]
    shapes = ["hex(ST_AsWKB(ST_Centroid(g)))", "hex(ST_AsWKB(ST_FlipCoordinates(g)))", "ST_AsText(vibe_centroid(g))"]
    for table in ("points", "shapes", "lines", "odd"):
        for call in (*calls, *shapes):
            yield f"SELECT list({call} ORDER BY id) FROM {table}"
        for call in calls:
            yield filtered(table, f"{call} > 2 AND id % 3 < 2")
        yield f"SELECT id, ST_Area(g), ST_AsText(ST_Centroid(g)), ST_Length(g) + ST_Perimeter(g) FROM {table}"
        yield f"SELECT ST_Area(g) AS a, count(*), sum(ST_Length(g)), any_value(ST_AsText(ST_Centroid(g))) FROM {table} GROUP BY a ORDER BY a"
        yield f"SELECT count(*) FROM {table} WHERE ST_Area(g) > 1 OR ST_IsEmpty(ST_Centroid(g))"
        yield f"SELECT hex(ST_AsWKB(ST_FlipCoordinates(g))) FROM {table} WHERE ST_Perimeter(g) < 20 LIMIT 100"
        yield f"SELECT CASE WHEN id % 2 = 0 THEN ST_Area(g) END AS a FROM {table} ORDER BY id LIMIT 20"
    for table in ("points", "shapes"):
        yield f"SELECT sum(ST_Distance(ST_Centroid(g), h)), sum(ST_Area(g)), count(*) FILTER (ST_Touches(g, h)) FROM {table}"
        yield f"SELECT list(ST_Distance(g, h) + ST_Area(h) ORDER BY id) FROM {table} WHERE ST_Area(g) > 3 AND ST_DWithin(g, h, 2)"


ROW_TABLES = [
    "CREATE TABLE lines AS SELECT i AS id, CASE WHEN i % 17 = 3 THEN NULL WHEN i % 500 = 7 THEN "
    "(SELECT ST_MakeLine(list(ST_Point(random_of(i, k) * 9, random_of(k, i)) ORDER BY k)) FROM range(1500) r(k)) "
    "ELSE ST_MakeLine([ST_Point(random_of(i, 1), i), ST_Point(i / 7, random_of(i, 2)), ST_Point(3, i / 3)]) END AS g FROM range(3000) t(i)",
    "CREATE TABLE odd AS SELECT row_number() OVER () AS id, wkt::GEOMETRY AS g FROM (SELECT unnest(["
    "'POINT Z (1 2 3)', 'POINT EMPTY', 'POINT (nan 1)', 'POINT (1 nan)', 'POINT (inf 2)', 'MULTIPOINT (1 2, EMPTY, 3 4)', 'MULTIPOINT EMPTY', "
    "'LINESTRING EMPTY', 'LINESTRING (0 0, nan 1)', 'LINESTRING M (0 0 1, 3 4 2)', 'POLYGON Z ((0 0 1, 4 0 1, 4 4 1, 0 4 1, 0 0 1))', "
    "'POLYGON EMPTY', 'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))', 'POLYGON ((0 0, 1 0, 0 0, 0 0))', "
    "'POLYGON ((0 0, 1e300 0, 1e300 1e300, 0 0))', 'POLYGON ((0 0, nan 0, 1 1, 0 0))', 'MULTILINESTRING ((0 0, 3 4), EMPTY, (1 1, 1 1))', "
    "'MULTIPOLYGON (((0 0, 2 0, 2 2, 0 0)), EMPTY, ((5 5, 5 9, 9 9, 5 5)))', 'GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 3 4))', "
    "'GEOMETRYCOLLECTION EMPTY', 'LINESTRING (-0.0 0, 0 -0.0, 5 -0.0)', NULL]) AS wkt)"]


@pytest.mark.parametrize("threads", [1, 3])
def test_rows(process, fake, threads):  # noqa: F811
    """To the last bit: numbers as DuckDB compares them, geometries by their bytes"""
    statements = [f"SET threads = {threads}", *row_statements(), event("scalar_rows")]
    cpu, gpu = both_ways(process, fake, statements, ["SET vibe_execution_mode = 'gpu'"], tables=ROW_TABLES)
    for sql, expected, rows in zip(statements[:-1], cpu, gpu):
        assert str(rows) == str(expected), sql
    assert gpu[-1][0][:3] == ["gpu", "gpu", False]


@pytest.mark.parametrize("fault", ["failed launch", "lost", "no room", "late no room", "never room"])
def test_faults_of_rows(process, fake, fault):  # noqa: F811
    statements = [*list(row_statements())[::3], "SELECT sum(ST_Area(g)) FROM shapes", event("scalar_rows")]
    cpu, gpu = both_ways(process, fake, statements, ["FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0",
                                                     "SET vibe_execution_mode = 'auto'"], FAKE_GPU=fault, tables=ROW_TABLES)
    assert str(gpu[:-1]) == str(cpu[:-1])
    assert gpu[-1][0][0] == "gpu" and "device" in gpu[-1][0][3]


def test_batches_without_room_are_halved(process, fake):  # noqa: F811
    """Four times, then the CPU does what is left of them"""
    statements = ["CREATE OR REPLACE TABLE few AS FROM shapes WHERE id < 40", "SELECT sum(ST_Distance(g, h)) FROM few", event("scalar_pairs"),
                  "SELECT sum(ST_Area(g)) FROM few", event("scalar_rows")]
    for fault, reason in (("no room", None), ("never room", "16 batches on the CPU, for lack of device memory")):
        cpu, gpu = both_ways(process, fake, statements, ["SET vibe_execution_mode = 'gpu'"], FAKE_GPU=fault)
        assert gpu[1] == cpu[1] and gpu[3] == cpu[3]
        for row in (gpu[2][0], gpu[4][0]):
            assert row[1] == ("gpu" if reason is None else "cpu") and ("lack" not in row[3] if reason is None else reason in row[3])


def test_rows_stay_on_the_cpu_by_themselves(process, fake):  # noqa: F811
    load, results = process(*TABLES, "FROM vibe_ensure_warm(5)", "EXPLAIN (FORMAT json) SELECT sum(ST_Area(g)) FROM shapes", event("scalar_rows"),
                            "SELECT threshold_rows, variants FROM vibe_kernels() WHERE operation = 'scalar_rows'",
                            "SET vibe_gpu_min_rows = 0", "EXPLAIN (FORMAT json) SELECT sum(ST_Area(g)) FROM shapes", VIBESPATIAL_GPU_FOLDER=str(fake))
    plain, logged, operation, _, asked = results[len(TABLES) + 1:]
    assert "VIBE_SCALAR_BATCH" not in plain[0][1] and "VIBE_SCALAR_BATCH" in asked[0][1]
    assert logged[0][:4] == ["cpu", "cpu", False, "4000 rows: the CPU is faster at any number of rows"]
    assert operation == [[None, "cpu, gpu"]]


def test_errors_are_those_of_the_function(process, fake):  # noqa: F811
    """A geometry that no function takes: seen where a row asks for it, and nowhere else"""
    tables = ["CREATE TABLE t AS SELECT i AS id, CASE WHEN i = 77 THEN 'LINESTRING (0 0, 1 nan)'::GEOMETRY ELSE ST_Point(i, i) END AS g, "
              "CASE WHEN i = 78 THEN NULL ELSE ST_MakeEnvelope(i, 0, i + 1, i) END AS h FROM range(5000) t(i)"]
    statements = ["SELECT sum(ST_Distance(g, h)) FROM t", "SELECT count(*) FROM t WHERE ST_Intersects(g, h)",
                  "SELECT count(*) FROM t WHERE ST_Intersects(g, h) AND id <> 77",
                  "SELECT sum(CASE WHEN id <> 77 THEN ST_Distance(h, g) END) FROM t"]
    load, results = process(*tables, "SET vibe_execution_mode = 'cpu'", *statements, "SET vibe_execution_mode = 'gpu'", *statements,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    cpu, gpu = results[2:6], results[7:]
    assert cpu == gpu
    assert cpu[0].startswith("InvalidInput") and isinstance(cpu[2], list) and isinstance(cpu[3], list)


def test_plan_of_pairs(process, fake):  # noqa: F811
    load, results = process(*TABLES, "EXPLAIN (FORMAT json) SELECT sum(ST_Distance(g, h)) FROM points", event("scalar_pairs"),
                            "SET vibe_execution_mode = 'gpu'", "EXPLAIN (FORMAT json) SELECT sum(ST_Distance(g, h)) FROM points",
                            "EXPLAIN (FORMAT json) SELECT count(*) FROM points WHERE ST_Touches(g, h)",
                            "EXPLAIN (FORMAT json) SELECT ST_Distance(ST_Point(3, 4), ST_Point(1, 2)) FROM points", VIBESPATIAL_GPU_FOLDER=str(fake))
    small, logged, _, projected, counted, constant = results[len(TABLES):]
    assert "VIBE_SCALAR_BATCH" not in small[0][1]
    # The second where nobody has opened the engine and there is no device
    assert logged[0][3] == "there is no NVIDIA GPU" or "below the threshold of 300000" in logged[0][3]
    assert "VIBE_SCALAR_BATCH" in projected[0][1] and "VIBE_SCALAR_BATCH" in counted[0][1]
    assert "VIBE_SCALAR_BATCH" not in constant[0][1]


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows(process, fake, threads):  # noqa: F811
    """Full batches and the rest of each thread; rows keep their order; points among which a shape comes late"""
    tables = ["CREATE TABLE big AS SELECT i AS id, CASE WHEN i % 90001 = 90000 THEN ST_MakeEnvelope(1, 1, 3, 3) "
              "WHEN i % 1000 = 7 THEN 'POINT EMPTY'::GEOMETRY ELSE ST_Point(i % 17, i % 13) END AS g, "
              "CASE WHEN i % 1000 = 8 THEN NULL ELSE ST_Point(i % 19, i % 11) END AS h FROM range(300000) t(i)",
              "CREATE TABLE pieces AS SELECT id, ST_MakeEnvelope(id % 7, id % 5, id % 7 + 2, id % 5 + 1) AS g, h FROM big "
              "WHERE id % 6 = 0"]
    statements = [f"SET threads = {threads}"]
    for table in ("big", "pieces"):
        statements += [
            f"SELECT count(*), sum(id), sum(ST_Distance(g, h)::DECIMAL(18, 6)) FROM {table} WHERE ST_DWithin(g, h, 6)",
            f"SELECT count(*), sum(id) FROM {table} WHERE ST_Intersects(g, h)",
            f"CREATE OR REPLACE TABLE result AS SELECT id, ST_Distance(g, h) AS d FROM {table}",
            "SELECT count(*), sum(d::DECIMAL(18, 6)), count(*) FILTER (id < previous) "
            "FROM (SELECT *, lag(id) OVER (ORDER BY rowid) AS previous FROM result)",
            f"CREATE OR REPLACE TABLE result AS SELECT id FROM {table} WHERE ST_DWithin(g, h, 6)",
            "SELECT count(*), sum(id), count(*) FILTER (id < previous) "
            "FROM (SELECT *, lag(id) OVER (ORDER BY rowid) AS previous FROM result)",
            f"SELECT id FROM {table} WHERE ST_DWithin(g, h, 6) LIMIT 5"]
    statements.append(event("scalar_pairs"))
    cpu, gpu = both_ways(process, fake, statements, ["SET vibe_execution_mode = 'gpu'"], tables=tables)
    for sql, expected, rows in zip(statements[:-1], cpu, gpu):
        assert rows == expected, sql
    assert gpu[4][0][2] == 0 and gpu[-1][0][1] == "gpu"
