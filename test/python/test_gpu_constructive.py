"""Geometries that a GPU engine makes of the vertices of others, its kernels run on the host: the bytes of the CPU, of real layers too."""
import pytest

from conftest import ROOT
from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

DATA = ROOT / "data"
# Countries are large, pieces of them are not; one row in so many is NULL, EMPTY, a collection, has Z, or is too large for the device
TABLES = [
    f"CREATE TABLE provinces AS SELECT row_number() OVER () AS id, geom AS g FROM '{DATA}/provinces.parquet'",
    f"CREATE TABLE pieces AS SELECT row_number() OVER () AS id, UNNEST(ST_Dump(geom)).geom AS g FROM '{DATA}/countries.parquet'",
    f"CREATE TABLE cities AS SELECT row_number() OVER () AS id, geom AS g FROM '{DATA}/cities.parquet'",
    "CREATE TABLE lines AS SELECT id, ST_ExteriorRing(g) AS g FROM pieces",
    "CREATE TABLE nearby AS SELECT id // 7 AS id, ST_Collect(list(g ORDER BY id)) AS g FROM cities GROUP BY ALL",
    "CREATE TABLE odd AS SELECT row_number() OVER () AS id, wkt::GEOMETRY AS g FROM (SELECT unnest(["
    "'POINT (1 2)', 'POINT Z (1 2 3)', 'POINT EMPTY', 'LINESTRING EMPTY', 'POLYGON EMPTY', 'MULTIPOINT EMPTY', 'MULTIPOINT (1 2, EMPTY, 3 4)', "
    "'MULTIPOINT (5 5, 0 10, 10 0, 1 9)', 'LINESTRING (3 4, 1 2)', 'LINESTRING (1 1, 1 1, 1 1)', 'LINESTRING (-0.0 0, 0 -0.0, 5 -0.0)', "
    "'LINESTRING M (0 0 1, 3 4 2)', 'POLYGON Z ((0 0 1, 4 0 1, 4 4 1, 0 4 1, 0 0 1))', 'POLYGON ((0 0, 2 2, 0 0, 0 0))', "
    "'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))', 'POLYGON ((0 0, 1e300 0, 1e300 1e300, 0 0))', "
    "'MULTILINESTRING ((0 0, 3 4), EMPTY, (1 1, 1 1))', 'MULTIPOLYGON (((0 0, 2 0, 2 2, 0 0)), EMPTY, ((5 5, 5 9, 9 9, 5 5)))', "
    "'GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 3 4))', 'GEOMETRYCOLLECTION EMPTY', NULL]) AS wkt)"]
NAMES = ["provinces", "pieces", "cities", "lines", "nearby", "odd"]
#: Function -> its operation, and calls of it
CALLS = {"ST_ConvexHull": ("scalar_hulls", ["ST_ConvexHull(g)"]),
         "ST_Simplify": ("scalar_simplify", ["ST_Simplify(g, 0.2)", "ST_Simplify(g, 0)", "ST_Simplify(g, 'infinity')", "ST_Simplify(g, NULL)",
                                             "ST_Simplify(g, CASE WHEN id % 5 > 0 THEN id % 5 / 10 END)", "vibe_simplify(g, id % 3)",
                                             "ST_Simplify(ST_ConvexHull(g), 0.5)"])}


def event(operation):
    return ("SELECT selected, actual, fallback, rows, rows_on_device, rows_on_cpu FROM vibe_dispatch_log() "
            f"WHERE operation = '{operation}' ORDER BY sequence DESC LIMIT 1")


def statements_of(calls):
    for table in NAMES:
        for call in calls:
            yield f"SELECT list(hex(ST_AsWKB({call})) ORDER BY id) FROM {table}"
        call = calls[0]
        # Above others and below them, in filters and groups, and the function twice
        yield f"SELECT sum(ST_Area({call})), count(*), count(ST_Length({call})) FROM {table}"
        yield f"SELECT list(id ORDER BY id) FROM {table} WHERE ST_NPoints({call}) > 4 AND id % 3 < 2"
        yield f"SELECT ST_GeometryType({call}) AS t, count(*), sum(ST_NPoints({call}) + ST_NPoints(g)) FROM {table} GROUP BY t ORDER BY t"
        yield f"SELECT CASE WHEN id % 2 = 0 THEN ST_AsText({call}) END AS a FROM {table} ORDER BY id LIMIT 20"
        yield f"SELECT id, ST_AsText({call}) FROM {table} LIMIT 30"


def both_ways(process, fake, statements, prepare, **environment):  # noqa: F811
    """What each statement gives in mode cpu, and after `prepare`"""
    load, results = process(*TABLES, "SET vibe_execution_mode = 'cpu'", *statements, *prepare, *statements,
                            VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    wrong = [result for result in results if isinstance(result, str)]
    assert not wrong, wrong[0]
    results = results[len(TABLES) + 1:]
    return results[:len(statements)], results[len(statements) + len(prepare):]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("function", CALLS)
def test_the_bytes_of_the_cpu(process, fake, function, threads):  # noqa: F811
    operation, calls = CALLS[function]
    statements = [f"SET threads = {threads}", *statements_of(calls)]
    cpu, gpu = both_ways(process, fake, statements, ["SET vibe_execution_mode = 'gpu'"])
    for sql, expected, rows in zip(statements, cpu, gpu):
        assert str(rows) == str(expected), sql


@pytest.mark.parametrize("function", CALLS)
def test_most_rows_are_on_the_device(process, fake, function):  # noqa: F811
    """All rows of a layer are in the event, and those that are too large, or have Z, are counted as the CPU's"""
    operation, calls = CALLS[function]
    for name in NAMES:
        call = f"SELECT count({calls[0]}) FROM {name}"
        count = f"SELECT count(*), count(g), count(*) FILTER (WHERE octet_length(ST_AsWKB(g)) > 16384) FROM {name}"
        load, results = process(*TABLES, "SET vibe_execution_mode = 'gpu'", call, event(operation), "SET vibe_execution_mode = 'cpu'", count,
                                VIBESPATIAL_GPU_FOLDER=str(fake))
        (counted,), (logged,), _, (sizes,) = results[-4:]
        rows, valid, large = sizes
        assert counted == [valid] and logged[:4] == ["gpu", "gpu", False, rows], name
        assert logged[4] + logged[5] == rows, name
        if name == "odd":
            assert logged[5] == 5  # three with Z or M, two collections
        else:
            assert logged[5] == large and logged[4] > rows * 0.9, name


@pytest.mark.parametrize("fault", ["failed launch", "lost", "no room", "late no room", "never room"])
def test_faults(process, fake, fault):  # noqa: F811
    for operation, calls in CALLS.values():
        statements = [*list(statements_of(calls))[::4], event(operation)]
        cpu, gpu = both_ways(process, fake, statements, ["FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0",
                                                         "SET vibe_execution_mode = 'auto'"], FAKE_GPU=fault)
        assert str(gpu[:-1]) == str(cpu[:-1])
        assert gpu[-1][0][0] == "gpu"


@pytest.mark.parametrize("function", CALLS)
def test_plans(process, fake, function):  # noqa: F811
    """Mode auto leaves few rows to the CPU; in mode gpu an area of what the device makes is an operator above it"""
    operation, calls = CALLS[function]
    explain = f"EXPLAIN (FORMAT json) SELECT sum(ST_Area({calls[0]})) FROM provinces"
    constant = f"EXPLAIN (FORMAT json) SELECT {calls[0].replace('g', 'ST_MakeEnvelope(0, 0, 1, 1)', 1)} FROM range(9)"
    load, results = process(*TABLES, "FROM vibe_ensure_warm(5)", explain, event(operation),
                            "SET vibe_execution_mode = 'gpu'", explain, constant, VIBESPATIAL_GPU_FOLDER=str(fake))
    plain, logged, _, asked, folded = results[len(TABLES) + 1:]
    assert "VIBE_SCALAR_BATCH" not in plain[0][1] and logged[0][:2] == ["cpu", "cpu"]
    assert asked[0][1].count("VIBE_SCALAR_BATCH") == 2 and "VIBE_SCALAR_BATCH" not in folded[0][1]


@pytest.mark.parametrize("function", CALLS)
def test_errors_are_those_of_the_function(process, fake, function):  # noqa: F811
    operation, (call, *_) = CALLS[function]
    table = ("CREATE TABLE t AS SELECT i AS id, CASE WHEN i = 77 THEN 'LINESTRING (0 0, 1 nan)'::GEOMETRY ELSE ST_MakeEnvelope(i, 0, i + 1, i) "
             "END AS g FROM range(1, 5000) t(i)")
    statements = [f"SELECT count(ST_NPoints({call})) FROM t", f"SELECT count(ST_NPoints({call})) FROM t WHERE id <> 77"]
    load, results = process(table, "SET vibe_execution_mode = 'cpu'", *statements, "SET vibe_execution_mode = 'gpu'", *statements,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    cpu, gpu = results[2:4], results[5:]
    assert cpu == gpu and cpu[0].startswith("InvalidInput") and isinstance(cpu[1], list)


@pytest.mark.parametrize("tolerance, error", [("-1", "must be non-negative"), ("'nan'", "must not be NaN"), ("CASE WHEN id = 77 THEN -1 ELSE 1 END", "must be")])
def test_no_tolerance(process, fake, tolerance, error):  # noqa: F811
    """The error of the CPU, constant or in one row"""
    query = f"SELECT count(ST_Simplify(g, {tolerance})) FROM provinces"
    load, results = process(*TABLES, "SET vibe_execution_mode = 'cpu'", query, "SET vibe_execution_mode = 'gpu'", query,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    cpu, _, gpu = results[-3:]
    assert cpu == gpu and error in cpu
