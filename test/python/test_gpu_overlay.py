"""Unions of many polygons on a GPU engine whose kernels run on the host: the same geometries as the CPU's, also where the device fails."""
import pathlib

import pytest

from test_gpu_scalar_batch import event
from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
RANDOM = "CREATE MACRO random_of(i, n) AS (hash(i * 1000003 + n) % 1000000) / 1000000"
TRIANGLE = ("printf('POLYGON((%.17g %.17g, %.17g %.17g, %.17g %.17g, %.17g %.17g))', x, y, x + 1, y + z, x + z, y + 1, x, y)"
            "::GEOMETRY")
TABLES = [
    RANDOM,
    # Triangles that overlap, two groups that are large enough and one that is not
    f"CREATE TABLE triangles AS SELECT CASE WHEN i < 50 THEN 'few' WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS name, {TRIANGLE} AS g "
    "FROM (SELECT i, random_of(i, 1) * 200 AS x, random_of(i, 2) * 200 AS y, random_of(i, 3) / 2 AS z FROM range(25000) t(i))",
    # A coverage, whose rows do not fit to each other
    "CREATE TABLE bricks AS SELECT ST_MakeEnvelope(i + j % 3 / 3, j / 7, i + 1 + j % 3 / 3, (j + 1) / 7) AS g "
    "FROM range(100) a(i), range(100) b(j)",
    # Among boxes, some that cross themselves
    "CREATE TABLE crossed AS FROM bricks UNION ALL "
    "SELECT 'POLYGON ((0 0, 9 9, 9 0, 0 9, 0 0))'::GEOMETRY UNION ALL SELECT 'POLYGON ((50 5, 60 7, 60 5, 50 7, 50 5))'::GEOMETRY",
    # Borders of countries and of their provinces, which are not quite the same
    f"CREATE TABLE world AS SELECT geom AS g FROM '{DATA}/provinces.parquet' UNION ALL SELECT geom FROM '{DATA}/countries.parquet'",
]
UNIONS = [
    "SELECT name, md5(ST_AsText(u)), ST_Area(u), ST_NPoints(u) FROM "
    "(SELECT name, ST_Union_Agg(g) AS u FROM triangles GROUP BY name) ORDER BY name",
    *(f"SELECT md5(ST_AsText(u)), ST_Area(u), ST_NPoints(u) FROM (SELECT ST_Union_Agg(g) AS u FROM {table})"
      for table in ["bricks", "crossed", "world"]),
]
# Groups that are small, some of them not for the device: a single polygon, lines, polygons that cross themselves or have no area
MANY = [
    f"CREATE TABLE parcels AS SELECT i % 700 AS k, {TRIANGLE} AS g FROM (SELECT i, random_of(i, 1) * 20 AS x, random_of(i, 2) * 20 AS y, "
    "random_of(i, 3) / 2 AS z FROM range(7000) t(i)) UNION ALL "
    "SELECT k, g::GEOMETRY FROM (VALUES (3, 'LINESTRING (0 0, 30 30)'), (4, 'POLYGON ((0 0, 9 9, 9 0, 0 9, 0 0))'), (900, 'POINT (1 2)'), "
    "(901, 'POLYGON ((0 0, 1 0, 0 1, 0 0))'), (902, 'POLYGON ((0 0, 1 1, 2 2, 0 0))'), (902, 'POLYGON ((0 0, 1 1, 3 3, 0 0))'), "
    "(903, 'POLYGON EMPTY'), (904, NULL), (905, 'MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)), ((0 0, 2 0, 0 2, 0 0)))')) t(k, g)",
    f"CREATE TABLE by_country AS SELECT country AS k, geom AS g FROM '{DATA}/provinces.parquet'",
]
DISSOLVE = ["SELECT k, md5(ST_AsText(u)), ST_Area(u), ST_NPoints(u) FROM (SELECT k, ST_Union_Agg(g) AS u FROM parcels GROUP BY k) ORDER BY k",
            "SELECT k, md5(ST_AsText(geom)) FROM (FROM vibe_dissolve('SELECT k, g AS geom FROM by_country', by := 'k')) ORDER BY k"]
EVENTS = "SELECT selected, actual, fallback, reason FROM vibe_dispatch_log() WHERE operation LIKE 'union%' ORDER BY sequence"


def run(process, fake, *statements, **environment):  # noqa: F811
    load, results = process(*TABLES, *statements, VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    return results[len(TABLES):]


@pytest.fixture(scope="module")
def expected():
    return {}


def cpu_unions(process, fake, expected):  # noqa: F811
    if not expected:
        rows = run(process, fake, "SET vibe_execution_mode = 'cpu'", *UNIONS, EVENTS)[1:]
        wrong = [row for row in rows if isinstance(row, str)]
        assert not wrong, wrong[0]
        assert rows.pop() == []
        expected["rows"] = rows
        assert rows[0][0][3] > 1000 and rows[1][0][2] > 200
    return expected["rows"]


@pytest.mark.parametrize("threads", [1, 4])
def test_unions(process, fake, expected, threads):  # noqa: F811
    cpu = cpu_unions(process, fake, expected)
    *rows, events = run(process, fake, "SET vibe_execution_mode = 'gpu'", f"SET threads = {threads}", *UNIONS, EVENTS)[2:]
    assert rows == cpu
    # One for each group that is large enough, and one for the group that is not
    assert [row[:3] for row in events] == [["gpu", "gpu", False]] * 6, events
    assert all(row[3].startswith("vibe_execution_mode is gpu") for row in events)
    assert events[3][3] == "vibe_execution_mode is gpu"


def test_auto(process, fake, expected):  # noqa: F811
    cpu = cpu_unions(process, fake, expected)
    results = run(process, fake, "FROM vibe_ensure_warm(5)", UNIONS[1], event("union_agg"), "SET vibe_gpu_min_rows = 50000", UNIONS[1],
                  event("union_agg"), "SET vibe_gpu_min_rows = 0", UNIONS[1], event("union_agg"))
    assert results[1] == results[4] == results[7] == cpu[1]
    assert results[2] == [["gpu", "gpu", False, "40000 rows: not below the threshold of 10000", 40000]]
    assert results[5] == [["cpu", "cpu", False, "40000 rows: below the threshold of 50000", 40000]]
    assert results[8] == [["gpu", "gpu", False, "40000 rows: not below the threshold of 0", 40000]]


@pytest.mark.parametrize("fault, why", [("failure", "the fake device fell off"), ("late failure", "the fake device fell off"),
                                        ("no room", "the fake device has no room"), ("cold", "was not ready after")])
def test_a_device_that_fails(process, fake, expected, fault, why):  # noqa: F811
    cpu = cpu_unions(process, fake, expected)
    results = run(process, fake, "FROM vibe_ensure_warm(1, 'union_agg')", "SET vibe_gpu_min_rows = 0", "SET vibe_kernel_timeout = 0.1",
                  UNIONS[1], event("union_agg"), "SET vibe_execution_mode = 'gpu'",
                  *([] if fault == "cold" else [UNIONS[1], event("union_agg")]), FAKE_GPU=fault)
    assert results[3] == cpu[1]
    selected, actual, fallback, reason, rows = results[4][0]
    assert (selected, actual, fallback) == ("gpu", "cpu", True) and why in reason
    if fault == "no room":
        assert results[6] == cpu[1]
        assert results[7][0][:3] == ["gpu", "cpu", True]
    elif fault != "cold":
        assert results[6].startswith("IOException") and why in results[6] and "'auto' lets the CPU do it" in results[6]
        assert results[7][0][:3] == ["gpu", "none", False]


def many(process, fake, *statements, **environment):  # noqa: F811
    load, results = process(RANDOM, *MANY, *statements, VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    return results[1 + len(MANY):]


@pytest.mark.parametrize("threads", [1, 4])
def test_many_groups_at_once(process, fake, threads):  # noqa: F811
    counted = "SELECT sum(rows), sum(rows_on_cpu) FROM vibe_dispatch_log() WHERE operation LIKE 'union%' AND actual = 'gpu'"
    one = "SELECT ST_AsText(ST_Union_Agg(g)) FROM parcels WHERE k = 905"
    results = many(process, fake, f"SET threads = {threads}", "SET vibe_execution_mode = 'cpu'", *DISSOLVE, "SET vibe_execution_mode = 'gpu'",
                   DISSOLVE[0], EVENTS, counted, DISSOLVE[1], EVENTS, one,
                   "SET vibe_gpu_strict = true", "SELECT count(u) FROM (SELECT ST_Union_Agg(g) AS u FROM parcels WHERE k > 4 AND k < 700 GROUP BY k)",
                   "SELECT count(u) FROM (SELECT ST_Union_Agg(g) AS u FROM parcels GROUP BY k)")
    parcels, countries = results[2], results[3]
    assert len(parcels) == 706 and len(countries) == 17
    assert results[5] == parcels
    events = results[6]
    assert 1 <= len(events) < 30 and all(row[:3] == ["gpu", "gpu", False] for row in events), events
    assert any("groups at once" in row[3] for row in events) and any("groups left to the CPU" in row[3] for row in events), events
    rows, on_cpu = results[7][0]
    # A triangle has three vertices
    assert 3 * 6990 <= rows <= 3 * 7010 and on_cpu < 100
    assert results[8] == countries
    assert len(results[9]) > len(events)
    assert results[10] == [["POLYGON ((0 0, 1 0, 2 0, 0 2, 0 1, 0 0))"]]
    assert results[12] == [[695]]
    assert results[13].startswith("NotImplementedException") and "groups of two or more polygons" in results[13]


def test_many_groups_in_mode_auto(process, fake):  # noqa: F811
    results = many(process, fake, "FROM vibe_ensure_warm(5)", DISSOLVE[0], EVENTS, "SET vibe_gpu_min_rows = 3000", DISSOLVE[0], EVENTS)
    assert results[1] == results[4]
    # 21,000 vertices are not enough
    assert results[2] == []
    assert results[5] and all(row[:3] == ["gpu", "gpu", False] and "groups at once" in row[3] for row in results[5]), results[5]


@pytest.mark.parametrize("fault, why", [("failure", "the fake device fell off"), ("late failure", "the fake device fell off"),
                                        ("no room", "the fake device has no room")])
def test_many_groups_and_a_device_that_fails(process, fake, fault, why):  # noqa: F811
    results = many(process, fake, "FROM vibe_ensure_warm(1, 'union_agg')", "SET vibe_execution_mode = 'cpu'", DISSOLVE[0],
                   "SET vibe_execution_mode = 'auto'", "SET vibe_gpu_min_rows = 0", DISSOLVE[0], EVENTS, "SET vibe_execution_mode = 'gpu'",
                   DISSOLVE[0], FAKE_GPU=fault)
    assert results[5] == results[2]
    assert results[6] and all(row[:3] == ["gpu", "cpu", True] and why in row[3] for row in results[6]), results[6]
    if fault == "no room":
        assert results[8] == results[2]
    else:
        assert results[8].startswith("IOException") and why in results[8]
