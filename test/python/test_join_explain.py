"""What a plan says of a join that has run, and what the scan of its probe side was spared."""
import json

import pytest


def operators(con, sql):
    plan = json.loads(con.execute(f"EXPLAIN (ANALYZE, FORMAT json) {sql}").fetchone()[1])
    found = []

    def visit(node):
        found.append(node)
        for child in node.get("children", []):
            visit(child)

    # Since DuckDB 2.0 the operators stand beside the figures of the whole query
    for root in plan.get("operator", [plan]):
        visit(root)
    return found


def join_of(con, sql):
    (node,) = [node for node in operators(con, sql) if node.get("extra_info", {}).get("Operator") == "VIBE_SPATIAL_JOIN"]
    return node["extra_info"]


def scanned(con, sql, table):
    (node,) = [node for node in operators(con, sql) if node.get("extra_info", {}).get("Table", "").endswith(table)]
    return node["operator_cardinality"] if "operator_cardinality" in node else node["intermediate_rows"]


@pytest.fixture
def tables(con):
    con.execute("CREATE TABLE points AS SELECT i, ST_Point(i // 1000, i % 1000) AS g FROM range(1000000) t(i)")
    con.execute("CREATE TABLE boxes AS SELECT i, ST_MakeEnvelope(i, 10.5, i + 3.5, 20.5) AS g FROM range(5) t(i)")
    return con


JOIN = "FROM points p JOIN boxes b ON ST_Intersects(p.g, b.g)"


def test_counters(tables):
    pairs = tables.execute(f"SELECT count(*) {JOIN}").fetchone()[0]
    assert pairs == 5 * 4 * 10
    for parts in (0, 3):
        tables.execute(f"SET vibe_join_partitions = {parts}")
        info = join_of(tables, f"SELECT p.i, b.i {JOIN}")
        assert int(info["Pairs"]) == pairs
        assert info["Built"].startswith("5 rows") and ("3 parts" in info["Built"]) == (parts == 3)
        assert " ms" in info["Probed"]
        assert int(info["Cell Hits"]) + int(info["Candidates"]) >= pairs
        assert int(info["Exact Tests"]) <= int(info["Candidates"])
        assert "cells" in info["Built Index"] and "tree" not in info["Built Index"]  # points do without


def test_a_tree_is_built_when_it_is_asked(tables):
    """Points alone use the polygon scan; the first line among them needs the tree."""
    tables.execute("CREATE TABLE mixed AS SELECT i, CASE WHEN i % 1000 = 7 THEN ST_MakeLine(g, ST_Point(ST_X(g) + 1, ST_Y(g))) ELSE g END AS g "
                   "FROM points")
    query = "SELECT count(*), sum(m.i), sum(b.i) FROM mixed m JOIN boxes b ON ST_Intersects(m.g, b.g)"
    found = tables.execute(query).fetchone()
    assert "tree" in join_of(tables, query)["Built Index"]
    tables.execute("SET disabled_optimizers = 'extension'")
    assert tables.execute(query).fetchone() == found and found[0] > 0


@pytest.mark.parametrize("parts", [0, 4])
def test_counters_with_an_aggregate(tables, parts):
    tables.execute(f"SET vibe_join_partitions = {parts}")
    info = join_of(tables, f"SELECT b.i, count(*) {JOIN} GROUP BY b.i")
    assert int(info["Pairs"]) == 200 and "count_star" in str(info["Aggregates"])


def test_row_groups_are_skipped(tables):
    """All boxes lie in the first of nine row groups."""
    everything = tables.execute("SELECT count(*) FROM points").fetchone()[0]
    assert scanned(tables, f"SELECT p.i, b.i {JOIN}", "points") < everything / 4
    assert scanned(tables, "SELECT p.i FROM points p SEMI JOIN boxes b ON ST_Within(p.g, b.g)", "points") < everything / 4
    assert scanned(tables, "SELECT p.i, b.i FROM points p JOIN boxes b ON ST_DWithin(p.g, b.g, 2)", "points") < everything / 4
    # Rows that match nothing come out of these
    assert scanned(tables, "SELECT p.i, b.i FROM points p LEFT JOIN boxes b ON ST_Within(p.g, b.g)", "points") == everything
    assert scanned(tables, "SELECT p.i FROM points p ANTI JOIN boxes b ON ST_Within(p.g, b.g)", "points") == everything


def test_the_box_of_one_run_does_not_stay_for_the_next(tables):
    tables.execute("PREPARE near AS SELECT count(*) FROM points p JOIN (FROM boxes WHERE i >= $1) b ON ST_Intersects(p.g, b.g)")
    assert tables.execute("EXECUTE near(4)").fetchone()[0] == 40
    tables.execute("UPDATE boxes SET g = ST_MakeEnvelope(900, 0, 901, 9) WHERE i = 4")
    assert tables.execute("EXECUTE near(4)").fetchone()[0] == 20
    assert tables.execute("EXECUTE near(0)").fetchone()[0] == 180
