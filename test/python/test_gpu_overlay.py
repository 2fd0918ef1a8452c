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
EVENTS = "SELECT selected, actual, fallback, reason FROM vibe_dispatch_log() WHERE operation = 'union_agg' ORDER BY sequence"


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
    # One for each group that is large enough
    assert [row[:3] for row in events] == [["gpu", "gpu", False]] * 5, events
    assert all(row[3].startswith("vibe_execution_mode is gpu") for row in events)
    assert events[2][3] == "vibe_execution_mode is gpu"


def test_auto(process, fake, expected):  # noqa: F811
    cpu = cpu_unions(process, fake, expected)
    results = run(process, fake, "FROM vibe_ensure_warm(5)", UNIONS[1], event("union_agg"), "SET vibe_gpu_min_rows = 50000", UNIONS[1],
                  event("union_agg"), "SET vibe_gpu_min_rows = 0", UNIONS[1], event("union_agg"))
    assert results[1] == results[4] == results[7] == cpu[1]
    assert results[2] == [["cpu", "cpu", False, "40000 rows: below the threshold of 100000", 40000]]
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
