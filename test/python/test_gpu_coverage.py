"""Mode gpu is never silent about work of the CPU: one event for each function and query, an error with vibe_gpu_strict."""
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

ROWS = 5000
TABLES = [
    f"CREATE TABLE boxes AS SELECT i AS id, ST_MakeEnvelope(i, 0, i + 1 + i % 3, 1) AS g, ST_MakeEnvelope(i, 0.5, i + 2, 3) AS h "
    f"FROM range({ROWS}) t(i)",
    f"CREATE TABLE points AS SELECT i AS id, ST_Point(i % 5000 + 0.5, 0.5) AS g FROM range({2 * ROWS}) t(i)",
    # Two groups that are enough for the GPU, two that are not by themselves, and one that is not for it
    "CREATE TABLE circles AS SELECT i % 2 AS k, ST_Buffer(ST_Point(i % 50, i // 50), 0.7, 100) AS g FROM range(400) t(i) "
    "UNION ALL SELECT 2 + i % 2, ST_MakeEnvelope(i, 0, i + 2, 1) FROM range(100) t(i) "
    "UNION ALL SELECT 4, 'LINESTRING (0 0, 1 1)'::GEOMETRY FROM range(5)",
]
MODE = "SET vibe_execution_mode = 'gpu'"
# What the last statement left
LOG = ("SELECT operator, operation, requested, selected, actual, reason, rows, rows_on_device, rows_on_cpu FROM vibe_dispatch_log() "
       "WHERE sequence > {} AND operator IN ('FUNCTION', 'AGGREGATE') ORDER BY operation")


def cpu_events(process, fake, *statements, setup=(MODE,), **environment):  # noqa: F811
    """What each statement left in the log of functions that the CPU computed, in a process of its own"""
    given = []
    for sql in statements:
        given += ["CREATE OR REPLACE TEMP TABLE before AS SELECT coalesce(max(sequence), 0) AS n FROM vibe_dispatch_log()", sql,
                  LOG.format("(FROM before)")]
    load, results = process(*TABLES, *setup, *given, VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    results = results[len(TABLES) + len(setup):]
    for sql, result in zip(statements, results[1::3]):
        assert isinstance(result, list), (sql, result)
    return results[2::3]


def test_one_event_for_each_function_and_query(process, fake):  # noqa: F811
    statements = ["SELECT sum(ST_NPoints(ST_Buffer(g, 1))), max(ST_NPoints(ST_ReducePrecision(g, 0.1))) FROM boxes",
                  "SELECT sum(vibe_npoints(g)) FROM boxes WHERE id < 3000",
                  "SELECT sum(len(list_transform([g], lambda x: ST_Buffer(x, 1)))) FROM boxes",
                  # By an operator that the GPU has: no function of the CPU
                  "SELECT sum(ST_Distance(g, h)), sum(ST_Area(g)) FROM boxes",
                  # A constant is computed while the query is planned
                  "SELECT count(*), ST_AsText(ST_Buffer(ST_Point(1, 2), 3)) FROM boxes",
                  "SELECT count(*) FROM boxes WHERE id < 0 AND ST_NPoints(g) > 3"]
    buffers, few, transformed, batch, constant, empty = cpu_events(process, fake, *statements)
    assert [row[:6] for row in buffers] == [["FUNCTION", name, "gpu", "cpu", "cpu", f"{name} has no GPU variant"]
                                            for name in ("ST_Buffer", "ST_NPoints", "ST_ReducePrecision")]
    assert [row[6:] for row in buffers] == [[ROWS, 0, ROWS], [2 * ROWS, 0, 2 * ROWS], [ROWS, 0, ROWS]]
    assert [(row[1], row[6]) for row in few] == [("ST_NPoints", 3000)]
    assert [(row[1], row[6]) for row in transformed] == [("ST_Buffer", ROWS)]
    assert batch == constant == empty == []


def test_functions_with_a_variant_where_the_plan_has_no_place_for_it(process, fake):  # noqa: F811
    """In a filter that DuckDB has pushed into the scan, in CASE, as an argument, in a join's further conditions"""
    statements = ["SELECT count(*) FROM boxes WHERE ST_Area(g) > 2", "SELECT sum(CASE WHEN id % 2 = 0 THEN ST_Area(g) END) FROM boxes",
                  "SELECT sum(ST_Distance(ST_Centroid(g), h)) FROM boxes",
                  "SELECT count(*) FROM boxes a JOIN boxes b ON ST_Intersects(a.g, b.g) AND ST_Area(ST_Intersection(a.g, b.g)) > 1"]
    load, (*_, plan) = process(*TABLES, MODE, "EXPLAIN (FORMAT json) " + statements[0], VIBESPATIAL_GPU_FOLDER=str(fake))
    pushed = "FILTER" not in plan[0][1]
    scanned, cases, argument, residual = cpu_events(process, fake, *statements)
    assert [(row[1], row[6] >= ROWS) for row in scanned] == ([("ST_Area", True)] if pushed else [])
    assert [(row[1], row[6]) for row in cases] == [("ST_Area", ROWS / 2)] and "inside of CASE" in cases[0][5]
    assert [(row[1], row[6]) for row in argument] == [("ST_Centroid", ROWS)]
    assert "vibe_intersection_area" in [row[1] for row in residual] or "ST_Intersection" in [row[1] for row in residual]


def test_aggregates_and_small_unions(process, fake):  # noqa: F811
    statements = ["SELECT ST_AsText(ST_Extent_Agg(g)) FROM boxes", "SELECT k, ST_Area(ST_Union_Agg(g)) FROM circles GROUP BY k",
                  "SELECT count(c) FROM (SELECT vibe_collect_agg(g) AS c FROM boxes GROUP BY id % 10)",
                  "SELECT ST_Area(ST_UnaryUnion(ST_Collect(list(g)))) FROM circles WHERE k < 4",
                  "SELECT count(g) FROM vibe_dissolve('SELECT k, g FROM circles WHERE k >= 2', by := 'k')"]
    extent, union, collect, unary, dissolve = (
        {row[1]: row for row in rows} for rows in cpu_events(process, fake, *statements))
    assert extent["ST_Extent_Agg"][0] == "AGGREGATE" and extent["ST_Extent_Agg"][6] == ROWS
    # The group of lines only; the GPU has united the others, which have events of their own
    assert union["ST_Union_Agg"][6:] == [5, 0, 5] and "groups of two or more polygons" in union["ST_Union_Agg"][5]
    assert collect["ST_Collect_Agg"][6] == ROWS
    assert "ST_UnaryUnion" not in unary
    assert dissolve["ST_Union_Agg"][6] == 5


def test_many_groups_are_one_event(process, fake):  # noqa: F811
    """Groups are logged vector by vector, of several threads and of two aggregates side by side"""
    statements = ["SELECT count(c), count(e) FROM (SELECT ST_Collect(array_agg(g)) AS c, ST_Extent_Agg(h) AS e FROM boxes GROUP BY id // 2)",
                  "SELECT count(c) FROM (SELECT vibe_collect_agg(g) AS c FROM boxes WHERE id < 3 GROUP BY id)",
                  # A window has no vector of groups
                  "SELECT count(c) FROM (SELECT vibe_collect_agg(g) OVER (ORDER BY id ROWS 1 PRECEDING) AS c FROM boxes WHERE id < 100)"]
    many, few, window = ([(row[1], row[6]) for row in rows if row[0] == "AGGREGATE"] for rows in cpu_events(process, fake, *statements))
    assert many == [("ST_Extent_Agg", ROWS), ("vibe_collect_list", ROWS)]
    assert few == [("ST_Collect_Agg", 3)]
    assert window == [("ST_Collect_Agg", 199)]


@pytest.mark.parametrize("mode", ["auto", "cpu"])
def test_other_modes_log_no_functions(process, fake, mode):  # noqa: F811
    statements = ["SELECT sum(ST_NPoints(ST_Buffer(g, 1))) FROM boxes", "SELECT ST_Extent_Agg(g) IS NULL FROM boxes"]
    # Also after a query in mode gpu, and with vibe_gpu_strict, which is for that mode
    setup = [MODE, "SELECT sum(ST_NPoints(g)) FROM boxes", f"SET vibe_execution_mode = '{mode}'", "SET vibe_gpu_strict = true"]
    assert cpu_events(process, fake, *statements, setup=setup) == [[], []]


def test_prepared_statements_log_every_execution(process, fake):  # noqa: F811
    setup = [MODE, "PREPARE p AS SELECT sum(ST_NPoints(ST_Buffer(g, $1))) FROM boxes"]
    first, second = cpu_events(process, fake, "EXECUTE p(1)", "EXECUTE p(2)", setup=setup)
    assert first == second and [(row[1], row[6]) for row in first] == [("ST_Buffer", ROWS), ("ST_NPoints", ROWS)]


def test_texts_of_queries(process, fake):  # noqa: F811
    query = "SELECT sum(ST_NPoints(ST_Buffer(g, 1))) FROM boxes"
    load, results = process(*TABLES, MODE, query, "SELECT DISTINCT query FROM vibe_dispatch_log() WHERE operator = 'FUNCTION'",
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[-1] == [[query]]


# ---------------------------------------------------------------------------------------------------------------------
# Strict
# ---------------------------------------------------------------------------------------------------------------------
COLLECTION = "'GEOMETRYCOLLECTION (POINT (1 2), POLYGON ((0 0, 3 0, 3 3, 0 0)))'::GEOMETRY"
STRICT = [
    # statement, what is named, why; whether the plan says so
    ("SELECT sum(ST_NPoints(g)) FROM boxes", "ST_NPoints", "ST_NPoints has no GPU variant", True),
    ("SELECT vibe_buffer(g, 1) FROM boxes", "ST_Buffer", "ST_Buffer has no GPU variant", True),
    ("SELECT sum(CASE WHEN id % 2 = 0 THEN ST_Area(g) END) FROM boxes", "ST_Area", "inside of CASE", True),
    ("SELECT sum(ST_Distance(ST_Centroid(g), h)) FROM boxes", "ST_Centroid", "another call", True),
    ("SELECT count(*) FROM boxes a JOIN boxes b ON ST_Intersects(a.g, b.g) AND ST_NPoints(a.g) + ST_NPoints(b.g) > 9", "ST_NPoints",
     "no GPU variant", True),
    ("SELECT count(*) FROM boxes WHERE ST_NPoints(g) > 4", "ST_NPoints", "no GPU variant", True),
    ("SELECT sum(len(list_transform([g], lambda x: ST_Buffer(x, 1)))) FROM boxes", "ST_Buffer", "no GPU variant", False),
    ("SELECT ST_Extent_Agg(g) FROM boxes", "ST_Extent_Agg", "no GPU variant", True),
    ("SELECT k, ST_Union_Agg(g) FROM circles WHERE k > 1 GROUP BY k", "ST_Union_Agg", "groups of two or more polygons", False),
    ("SELECT count(*) FROM vibe_knn('SELECT g FROM boxes', 'points', 2000)", "VIBE_KNN", "at most 1000 neighbours", True),
    (f"SELECT count(*) FROM vibe_knn('SELECT {COLLECTION} AS g UNION ALL SELECT g FROM boxes', 'points', 2)".replace("'GEO", "''GEO")
     .replace("))'::", "))''::"), "VIBE_KNN", "1 left rows are EMPTY, collections", False),
    ("SELECT sum(ST_Distance(g, h)) FROM (SELECT g, h FROM boxes UNION ALL SELECT 'POINT EMPTY'::GEOMETRY, ST_Point(1, 2))",
     "VIBE_SCALAR_BATCH (", "1 rows have a geometry", False),
    ("SELECT count(*) FROM boxes b JOIN (SELECT g FROM points UNION ALL SELECT 'POINT EMPTY'::GEOMETRY) p ON ST_Distance(b.g, p.g) < 1",
     "VIBE_SPATIAL_JOIN", "", False),
]


def test_strict_names_what_the_cpu_would_do(process, fake):  # noqa: F811
    statements = [sql for sql, *_ in STRICT]
    load, results = process(*TABLES, MODE, "SET vibe_gpu_strict = true", *statements, *("EXPLAIN " + sql for sql in statements),
                            "SET vibe_gpu_strict = false", *statements, VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[len(TABLES) + 2:]
    count = len(statements)
    for (sql, what, why, planned), failed, explained, loose in zip(STRICT, results, results[count:], results[2 * count + 1:]):
        assert isinstance(failed, str) and failed.startswith("NotImplementedException"), (sql, failed)
        assert f"{what}" in failed and why in failed and "SET vibe_gpu_strict = false lets the CPU do it" in failed, (sql, failed)
        assert isinstance(explained, str) == planned, (sql, explained)
        assert isinstance(loose, list), (sql, loose)


def test_strict_lets_the_gpu_work(process, fake):  # noqa: F811
    statements = ["SELECT count(*) FROM points p JOIN boxes b ON ST_Within(p.g, b.g)", "SELECT sum(ST_Distance(g, h)), sum(ST_Area(g)) FROM boxes",
                  "SELECT count(*) FROM boxes a JOIN boxes b ON ST_Intersects(a.g, b.g)",
                  "SELECT count(*) FROM points WHERE ST_Within(g, ST_Buffer(ST_Point(10, 0), 5))",
                  "SELECT count(*), sum(distance) FROM vibe_knn('points', 'SELECT g FROM boxes', 3)",
                  "SELECT k, ST_Union_Agg(g) IS NULL FROM circles WHERE k < 2 GROUP BY k ORDER BY k",
                  "SELECT count(*) FROM boxes WHERE id < 0 AND ST_Intersects(g, h)",
                  "SELECT count(*) FROM points p JOIN (FROM boxes WHERE id < 0) b ON ST_Within(p.g, b.g)",
                  "SELECT count(*) FROM (FROM points WHERE id < 0) p JOIN boxes b ON ST_Within(p.g, b.g)",
                  "SELECT count(*) FROM vibe_knn('FROM points WHERE id < 0', 'SELECT g FROM boxes', 3)"]
    load, results = process(*TABLES, "SET vibe_execution_mode = 'cpu'", *statements, MODE, "SET vibe_gpu_strict = true", *statements,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    cpu, gpu = results[len(TABLES) + 1:len(TABLES) + 1 + len(statements)], results[-len(statements):]
    for sql, expected, rows in zip(statements, cpu, gpu):
        assert rows == expected, sql


def test_strict_has_no_room(process, fake):  # noqa: F811
    """Device memory that runs out is no failure in mode gpu, but work of the CPU"""
    statements = ["SELECT sum(ST_Distance(g, h)) FROM boxes", "SELECT count(*) FROM points p JOIN boxes b ON ST_Within(p.g, b.g)",
                  "SELECT count(*) FROM vibe_knn('points', 'SELECT g FROM boxes', 3)"]
    load, results = process(*TABLES, MODE, *statements, "SET vibe_gpu_strict = true", *statements, VIBESPATIAL_GPU_FOLDER=str(fake),
                            FAKE_GPU="never room")
    assert all(isinstance(rows, list) for rows in results[len(TABLES) + 1:-len(statements)])
    for sql, result in zip(statements, results[-len(statements):]):
        assert "vibe_gpu_strict is on" in result and "room" in result, (sql, result)


# ---------------------------------------------------------------------------------------------------------------------
# Columns
# ---------------------------------------------------------------------------------------------------------------------
def test_coverage_sums_up_the_log(process, fake):  # noqa: F811
    statements = ["SELECT count(*) FROM points p JOIN boxes b ON ST_Within(p.g, b.g)", "SELECT sum(ST_Distance(g, h)) FROM boxes",
                  "SELECT sum(ST_NPoints(g)) FROM boxes",
                  "SELECT sum(ST_Distance(g, h)) FROM (SELECT g, h FROM boxes UNION ALL SELECT 'POINT EMPTY'::GEOMETRY, ST_Point(1, 2))"]
    by_hand = ("SELECT operation, count(*), sum(rows), sum(rows_on_device), sum(rows_on_cpu), "
               "sum(rows_on_device) / nullif(sum(rows_on_device) + sum(rows_on_cpu), 0), sum(open_pairs), sum(bytes_to_device), "
               "sum(bytes_from_device), count(*) FILTER (fallback) FROM vibe_dispatch_log() GROUP BY operation ORDER BY operation")
    load, results = process(*TABLES, MODE, *statements, "SELECT * EXCLUDE (wait_ms, kernel_ms, total_ms) FROM vibe_gpu_coverage()", by_hand,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[-2] == results[-1]
    rows = {row[0]: row for row in results[-2]}
    assert rows["scalar_pairs"][1:6] == [2, 2 * ROWS + 1, 2 * ROWS, 1, 2 * ROWS / (2 * ROWS + 1)]
    assert rows["ST_NPoints"][1:7] == [1, ROWS, 0, ROWS, 0.0, 0] and rows["ST_NPoints"][7:9] == [0, 0]
    assert rows["join_points"][3] == 2 * ROWS and rows["join_points"][5] == 1.0
    assert min(rows["join_points"][7], rows["join_points"][8], rows["scalar_pairs"][7], rows["scalar_pairs"][8]) > 0


def test_bytes_of_build_sides(process, fake):  # noqa: F811
    """Shapes and cells are counted where they go up, and not where they are on the device already"""
    sizes = "SELECT sum(octet_length(ST_AsWKB(g))) FROM boxes"
    by = "SELECT bytes_to_device FROM vibe_dispatch_log() WHERE operation = '{}' ORDER BY sequence"
    shapes = "SELECT count(*) FROM boxes a JOIN boxes b ON ST_Touches(a.g, b.g)"
    # Cells, which need many points and few areas
    cells = ("SELECT count(*) FROM (SELECT ST_Point(i % 4999 + 0.3, 0.4) AS g FROM range(300000) t(i)) p "
             "JOIN boxes b ON ST_Within(p.g, b.g)")
    load, results = process(*TABLES, sizes, MODE, shapes, shapes, by.format("join_shapes"), cells, cells, by.format("join_points"),
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    (((size,),), _, _, _, joins, _, _, points) = results[len(TABLES):]
    first, second = (row[0] for row in joins)
    # Both sides, then the probe side alone
    assert size <= second < 1.5 * size and first - second >= size
    first, second = (row[0] for row in points)
    assert second >= 300000 * 16 and first - second >= size / 2


@pytest.mark.parametrize("kind", ["collections", "circles"])
def test_rows_and_pairs_of_a_join(process, fake, kind):  # noqa: F811
    """Collections of so many vertices are left open, and the columns say how many pairs; of circles none is"""
    rows = ("SELECT rows, rows_on_device, rows_on_cpu, open_pairs, reason FROM vibe_dispatch_log() WHERE operation = 'join_shapes' "
            "ORDER BY sequence DESC LIMIT 1")
    circle = "ST_Buffer(ST_Point(i, 0), 2, 300)"
    large = f"SELECT {circle if kind == 'circles' else f'ST_Collect([{circle}, ST_Point(i, 5)])'} AS g FROM range(30) t(i)"
    load, results = process(f"CREATE TABLE large AS {large}", "SET vibe_execution_mode = 'cpu'",
                            "SELECT count(*) FROM large a JOIN large b ON ST_Overlaps(a.g, b.g)", MODE,
                            "SELECT count(*) FROM large a JOIN large b ON ST_Overlaps(a.g, b.g)", rows, VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[2] == results[4] and results[2][0][0] > 100
    count, on_device, on_cpu, pairs, reason = results[5][0]
    assert (count, on_device, on_cpu) == (30, 30, 0)
    if kind == "circles":
        assert pairs == 0
    else:
        assert pairs >= results[2][0][0] and "pairs that the device left open" in reason


# ---------------------------------------------------------------------------------------------------------------------
# Plans
# ---------------------------------------------------------------------------------------------------------------------
def test_explain_names_the_engine(process, fake):  # noqa: F811
    union = "EXPLAIN (FORMAT json) SELECT k, ST_Union_Agg(g) AS u FROM circles GROUP BY k"
    all_of_them = "EXPLAIN (FORMAT json) SELECT vibe_coverageunion_agg(g) FROM circles"
    dissolve = "EXPLAIN (FORMAT json) FROM vibe_dissolve('circles', by := 'k')"
    knn = "EXPLAIN (FORMAT json) FROM vibe_knn('points', 'SELECT g FROM boxes', 3)"
    statements = [union, all_of_them, dissolve, knn]
    load, results = process(*TABLES, "SET vibe_execution_mode = 'cpu'", *statements, MODE, *statements, "FROM vibe_ensure_warm(5)",
                            "SET vibe_execution_mode = 'auto'", *statements, "SET vibe_gpu_min_rows = 200000", union,
                            "SELECT k, ST_Union_Agg(g) IS NULL AS u FROM circles WHERE k > 1 GROUP BY k ORDER BY k",
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    results = results[len(TABLES):]
    for plan in results[1:4]:
        assert "cpu (vibe_execution_mode is cpu)" in plan[0][1]
    for plan in results[6:9]:
        assert "on gpu (groups of two or more polygons)" in plan[0][1]
    for plan in results[12:15]:
        assert "on gpu (polygons of 10000 vertices, or of 30000 in several groups)" in plan[0][1]
    for plan in (results[4], results[9], results[15]):
        assert '"VIBE_KNN"' in plan[0][1] and '"Engine"' in plan[0][1]
    assert "polygons of 200000 vertices" in results[17][0][1]
    assert results[18] == [[2, False], [3, False], [4, False]]


def test_the_log_knows_what_has_a_variant(process, fake):  # noqa: F811
    """Every function of one or two geometries: what VIBE_SCALAR_BATCH takes has a GPU variant, and nothing else"""
    names = ("SELECT DISTINCT function_name, parameter_types::VARCHAR FROM duckdb_functions() WHERE function_type = 'scalar' "
             "AND starts_with(function_name, 'vibe_') AND parameter_types::VARCHAR IN "
             "('[GEOMETRY]', '[GEOMETRY, DOUBLE]', '[GEOMETRY, GEOMETRY]', '[GEOMETRY, GEOMETRY, DOUBLE]') ORDER BY ALL")
    load, (names,) = process(names, VIBESPATIAL_GPU_FOLDER=str(fake))
    assert len(names) > 40
    calls = [f"{name}({', '.join(['g', 'h'][:types.count('GEOMETRY')] + ['1'] * types.count('DOUBLE'))})" for name, types in names]
    load, results = process(*TABLES, MODE, *(f"EXPLAIN (FORMAT json) SELECT {call} FROM boxes" for call in calls),
                            "SET vibe_gpu_strict = true", *(f"SELECT CASE WHEN id > 3 THEN {call} END FROM boxes" for call in calls),
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    plans, errors = results[len(TABLES) + 1:len(TABLES) + 1 + len(calls)], results[-len(calls):]
    batches = 0
    for call, plan, error in zip(calls, plans, errors):
        batch = "VIBE_SCALAR_BATCH" in plan[0][1]
        batches += batch
        assert "NotImplemented" in error or call.startswith("vibe_unaryunion"), (call, error)
        assert batch == ("the GPU computes it in filters" in error), (call, error)
    assert batches >= 18
