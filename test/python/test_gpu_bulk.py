"""Filters on a GPU engine whose kernels run on the host: the same rows as the CPU's, also where the device fails."""
import itertools

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


def event(kernel):
    return ("SELECT selected, actual, fallback, reason, rows FROM vibe_dispatch_log() WHERE kernel = "
            f"'{kernel}' ORDER BY sequence DESC LIMIT 1")


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


def both_ways(process, fake, statements, prepare, **environment):  # noqa: F811
    """What each statement gives in mode cpu, and after `prepare`"""
    load, results = process(*TABLES, "SET vibe_execution_mode = 'cpu'", *statements, *prepare, *statements,
                            VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    wrong = [result for result in results if isinstance(result, str)]
    assert not wrong, wrong[0]
    results = results[len(TABLES) + 1:]
    return results[:len(statements)], results[len(statements) + len(prepare):]


def test_constant_filters(process, fake):  # noqa: F811
    statements = list(constant_filters())
    cpu, gpu = both_ways(process, fake, statements + [event("scalar_filter")], ["SET vibe_execution_mode = 'gpu'"])
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
    explain = f"EXPLAIN SELECT id FROM points WHERE ST_Within(g, {area})"
    load, results = process(*TABLES, "FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 0", explain, event("scalar_filter"),
                            f"EXPLAIN SELECT count(id) FROM points WHERE ST_Within(g, {area})",
                            f"EXPLAIN SELECT id FROM points WHERE ST_Within(g, {area}) ORDER BY id",
                            "SET preserve_insertion_order = false", explain, VIBESPATIAL_GPU_FOLDER=str(fake))
    plain, logged, counted, ordered, _, any_order = results[len(TABLES) + 2:]
    assert "VIBE_SPATIAL_JOIN" not in plain[0][1] and "order" in logged[0][3]
    for plan in (counted, ordered, any_order):
        assert "VIBE_SPATIAL_JOIN" in plan[0][1]
