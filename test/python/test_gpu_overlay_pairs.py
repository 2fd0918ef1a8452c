"""Overlays of two columns on a GPU engine whose kernels run on the host: the geometries of the CPU to the byte, also where the device fails."""
import pathlib

import pytest

from test_gpu_runtime import fake, process, require_cancel  # noqa: F401 (fixtures)
from test_gpu_scalar_batch import event

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
OVERLAYS = ["Intersection", "Union", "Difference", "SymDifference"]
TABLES = [
    "CREATE MACRO random_of(i, n) AS (hash(i * 1000003 + n) % 1000000) / 1000000",
    f"CREATE TABLE countries AS SELECT row_number() OVER () AS c, geom AS g FROM '{DATA}/countries.parquet'",
    f"CREATE TABLE provinces AS SELECT row_number() OVER () AS p, geom AS h FROM '{DATA}/provinces.parquet'",
    # On a small grid, so that much touches; NULL, EMPTY, collections, lines, and what crosses itself
    "CREATE TABLE shapes AS SELECT i AS id, CASE floor(random_of(i, 1) * 10) WHEN 0 THEN NULL WHEN 1 THEN 'POLYGON EMPTY'::GEOMETRY "
    "WHEN 2 THEN 'MULTIPOLYGON (((1 1, 4 1, 4 4, 1 4, 1 1), (2 2, 2 3, 3 3, 3 2, 2 2)), ((3 3, 9 6, 9 9, 3 3)))'::GEOMETRY "
    "WHEN 3 THEN 'POLYGON ((1 1, 7 7, 7 1, 1 7, 1 1))'::GEOMETRY WHEN 4 THEN ST_Buffer(ST_Point(random_of(i, 2) * 9, 4), 2) "
    "WHEN 5 THEN CASE WHEN i % 2 = 0 THEN ST_MakeLine(ST_Point(0, 0), ST_Point(5, 7)) ELSE ST_Collect([ST_Point(1, 2)]) END "
    "ELSE ST_MakeEnvelope(floor(random_of(i, 3) * 9), floor(random_of(i, 4) * 9), 11 - floor(random_of(i, 5) * 4), 11 - floor(random_of(i, 6) * 4)) "
    "END AS g, CASE WHEN i % 17 = 3 THEN NULL WHEN i % 5 = 0 THEN ST_Buffer(ST_Point(5, random_of(i, 7) * 9), 3) "
    "ELSE ST_MakeEnvelope(floor(random_of(i, 8) * 9), floor(random_of(i, 9) * 9), 11, 12 - floor(random_of(i, 10) * 4)) END AS h "
    "FROM range(3000) t(i)",
]
COUNTS = ("SELECT rows_on_device, rows_on_cpu, operator FROM vibe_dispatch_log() WHERE operation = 'overlay_pairs' "
          "ORDER BY sequence DESC LIMIT 1")


def statements():
    for name in OVERLAYS:
        yield f"SELECT list(hex(ST_AsWKB(ST_{name}(g, h))) ORDER BY id) FROM shapes"
        yield f"SELECT list(ST_Area(ST_{name}(g, h)) ORDER BY id), sum(vibe_{name.lower()}_area(h, g)) FROM shapes"
        yield f"SELECT id, ST_AsText(vibe_{name.lower()}(h, g)) FROM shapes"
        for wkt in ("POLYGON ((2 2, 8 2, 8 8, 2 8, 2 2), (3 3, 3 5, 5 5, 5 3, 3 3))", "LINESTRING (2 2, 6 6, 11 3)", "POLYGON EMPTY"):
            yield f"SELECT list(hex(ST_AsWKB(ST_{name}(g, '{wkt}'::GEOMETRY))) ORDER BY id) FROM shapes"
            yield f"SELECT sum(ST_Area(ST_{name}('{wkt}'::GEOMETRY, h))) FROM shapes"
        # Above a join
        yield (f"SELECT c, p, md5(ST_AsWKB(ST_{name}(g, h))), ST_Area(ST_{name}(g, h)) FROM countries JOIN provinces "
               "ON ST_Intersects(g, h) ORDER BY c, p")
    # What is around a call, and calls of calls
    yield "SELECT count(*) FROM shapes WHERE ST_Area(ST_Intersection(g, h)) > 3 AND id % 3 < 2"
    yield "SELECT ST_Perimeter(ST_Union(g, h)) AS k, count(*), sum(ST_Area(ST_Difference(g, h))) FROM shapes GROUP BY k ORDER BY k"
    yield "SELECT list(hex(ST_AsWKB(ST_Union(ST_Intersection(g, h), ST_Difference(g, h)))) ORDER BY id) FROM shapes"
    yield "SELECT id, CASE WHEN id % 2 = 0 THEN ST_Area(ST_Union(g, h)) END FROM shapes ORDER BY id LIMIT 30"
    yield "SELECT count(*) FROM shapes WHERE ST_Intersects(ST_Difference(g, h), ST_Point(3, 3))"


def run(process, fake, *given, **environment):  # noqa: F811
    load, results = process(*TABLES, *given, VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    assert all(isinstance(result, list) for result in results[:len(TABLES)]), results[:len(TABLES)]
    return results[len(TABLES):]


@pytest.mark.parametrize("threads", [1, 3])
def test_overlays(process, fake, threads):  # noqa: F811
    asked = list(statements())
    results = run(process, fake, f"SET threads = {threads}", "SET vibe_execution_mode = 'cpu'", *asked, "SET vibe_execution_mode = 'gpu'",
                  *(part for sql in asked for part in (sql, COUNTS)))
    cpu, gpu, counts = results[2:2 + len(asked)], results[3 + len(asked)::2], results[4 + len(asked)::2]
    for sql, expected, rows in zip(asked, cpu, gpu):
        assert isinstance(expected, list), (sql, expected)
        assert rows == expected, sql
    # Intersections touch in lines and points often; of the others the device leaves what is not polygons
    on_device = {sql: rows[0] for sql, rows in zip(asked, counts)}
    for sql, (device, cpu_rows, operator) in on_device.items():
        assert operator == "VIBE_SCALAR_BATCH"
        if "provinces" in sql:
            assert device > (600 if "Intersection" in sql else 900), (sql, device, cpu_rows)
        if "provinces" in sql and "ST_Intersection" not in sql:
            assert cpu_rows == 0, sql


def test_areas_need_no_lines(process, fake):  # noqa: F811
    """Polygons of a grid touch in lines and points: their intersections are the CPU's, the areas of them the device's"""
    tables = ["CREATE TABLE grid AS SELECT i AS id, ST_MakeEnvelope(i % 50, i // 50, i % 50 + 1, i // 50 + 1) AS g FROM range(500) t(i)"]
    join = "FROM grid a JOIN grid b ON ST_Intersects(a.g, b.g)"
    results = run(process, fake, *tables, "SET vibe_execution_mode = 'gpu'", f"SELECT sum(ST_Area(ST_Intersection(a.g, b.g))), count(*) {join}",
                  COUNTS, f"SELECT sum((ST_GeometryType(ST_Intersection(a.g, b.g)) = 'LINESTRING')::INTEGER) {join}", COUNTS)[2:]
    (area, pairs), lines = results[0][0], results[2][0][0]
    assert area == 500 and pairs > 3000 and 1000 < lines < pairs
    assert results[1][0][:2] == [pairs, 0]
    assert results[3][0][:2] == [500, pairs - 500]


def test_strict(process, fake):  # noqa: F811
    table = ("CREATE TABLE few AS SELECT ST_MakeEnvelope(i, 0, i + 2, 2) AS g, ST_MakeEnvelope(i + 1, 1, i + 3, 3) AS near, "
             "ST_MakeEnvelope(i + 2, 0, i + 4, 2) AS beside, ST_MakeLine(ST_Point(i, 0), ST_Point(i, 1)) AS line FROM range(100) t(i)")
    count = "SELECT count(ST_Intersection(g, {})) FROM few"
    results = run(process, fake, table, "SET vibe_execution_mode = 'gpu'", "SET vibe_gpu_strict = true", count.format("near"),
                  count.format("beside"), count.format("line"), count.format("CASE WHEN g IS NULL THEN near END"),
                  "SELECT sum(CASE WHEN id > 7 THEN ST_Area(ST_Union(g, h)) END) FROM shapes")[3:]
    assert results[0] == [[100]] and results[3] == [[0]]
    for error in results[1:3]:
        assert error.startswith("NotImplementedException") and "VIBE_SCALAR_BATCH (ST_Intersection(" in error, error
        assert "100 rows" in error and "touch in lines or points" in error
    assert "vibe_union_area" in results[4] and "inside of CASE" in results[4]


@pytest.mark.parametrize("fault, why", [("failure", "the fake device fell off"), ("late failure", "the fake device fell off"),
                                        ("no room", "for lack of device memory"), ("room for few", None)])
def test_a_device_that_fails(process, fake, fault, why):  # noqa: F811
    query = "SELECT list(hex(ST_AsWKB(ST_Union(g, h))) ORDER BY id) FROM shapes WHERE id < {}"
    few, many = query.format(40), query.format(3000)
    results = run(process, fake, "SET vibe_execution_mode = 'cpu'", few, many, "SET vibe_execution_mode = 'auto'", "FROM vibe_ensure_warm(5)",
                  "SET vibe_gpu_min_rows = 0", few, many, event("overlay_pairs"), "SET vibe_execution_mode = 'gpu'", few, event("overlay_pairs"),
                  FAKE_GPU=fault)
    assert results[6:8] == results[1:3]
    if fault == "room for few":
        # Halves of halves
        assert results[10] == results[1] and results[11][0][1] == "gpu" and "lack" not in results[11][0][3]
    elif fault == "no room":
        assert why in results[8][0][3] and results[10] == results[1] and why in results[11][0][3]
    else:
        assert why in results[8][0][3]
        assert results[10].startswith("IOException") and why in results[10] and "'auto' lets the CPU do it" in results[10]


def test_plans(process, fake):  # noqa: F811
    explain = "EXPLAIN (FORMAT json) SELECT {} FROM shapes".format
    results = run(process, fake, "FROM vibe_ensure_warm(5)", explain("max(ST_Area(ST_Union(g, h)))"), event("overlay_pairs"),
                  "SET vibe_gpu_min_rows = 1000", explain("max(ST_Area(ST_Union(g, h)))"), explain("max(ST_AsText(ST_Difference(g, h)))"),
                  explain("ST_Union(ST_Point(1, 2), NULL::GEOMETRY)"), "SET vibe_execution_mode = 'cpu'", explain("max(ST_AsText(ST_Union(g, h)))"),
                  "SELECT threshold_rows, variants FROM vibe_kernels() WHERE operation = 'overlay_pairs'")
    assert "VIBE_SCALAR_BATCH" not in results[1][0][1]
    assert results[2][0][:4] == ["cpu", "cpu", False, "3000 rows: below the threshold of 300000"]
    assert "VIBE_SCALAR_BATCH" in results[4][0][1] and "vibe_union_area" in results[4][0][1]
    assert "VIBE_SCALAR_BATCH" in results[5][0][1] and "ST_Difference" in results[5][0][1]
    assert "VIBE_SCALAR_BATCH" not in results[6][0][1] and "VIBE_SCALAR_BATCH" not in results[8][0][1]
    assert results[9] == [[300000, "cpu, gpu"]]


def test_cancel(extension, fake):  # noqa: F811
    setup = "CREATE TABLE pairs AS SELECT ST_Buffer(ST_Point(i % 7, 0), 5, 200) AS g, ST_Buffer(ST_Point(0, i % 5), 5, 200) AS h FROM range(40000) t(i)"
    statement = "SELECT sum(ST_Area(ST_Union(g, h))) FROM pairs"
    require_cancel(extension, fake, [setup, statement], VIBESPATIAL_EXECUTION_MODE="gpu")
