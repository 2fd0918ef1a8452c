"""Nearest neighbours from plain SQL against DuckDB's own plan: random tables of all types, with NULL, EMPTY, ties and duplicates."""
import functools
import os
import random

import duckdb
import pytest

SEEDS = 12 * max(int(os.environ.get("VIBESPATIAL_LONG", "0")), 1)


def geometry(rng):
    """On a small grid, so that many distances are equal."""
    x, y = rng.randrange(12), rng.randrange(12)
    kind = rng.randrange(12)
    if kind == 0:
        return None
    if kind == 1:
        return rng.choice(["POINT EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY"])
    if kind == 2:
        return f"LINESTRING ({x} {y}, {x + rng.randrange(1, 4)} {y + rng.randrange(4)})"
    if kind == 3:
        return f"POLYGON (({x} {y}, {x + 3} {y}, {x + 3} {y + 3}, {x} {y + 3}, {x} {y}))"
    if kind == 4:
        return f"MULTIPOINT ({x} {y}, {rng.randrange(12)} {rng.randrange(12)})"
    return f"POINT ({x} {y})"


def fill(connection, rng):
    for name in "ab":
        key = "INTEGER PRIMARY KEY" if rng.randrange(2) else "INTEGER"
        connection.execute(f"CREATE OR REPLACE TABLE {name} (id {key}, x INTEGER, s VARCHAR, g GEOMETRY, w BLOB)")
        only_points = rng.randrange(3) == 0
        rows = []
        for i in range(rng.choice([0, 1, 5, 40, 200])):
            wkt = f"POINT ({rng.randrange(30)} {rng.randrange(30)})" if only_points else geometry(rng)
            rows.append((i, rng.choice([None, 0, 1, 2, 3]), rng.choice([None, "x" * 20, "y"]), wkt))
        if rows:
            connection.executemany(f"INSERT INTO {name} SELECT $1, $2, $3, $4::GEOMETRY, ST_AsWKB($4::GEOMETRY)", rows)


def query(rng):
    """A query with columns aid, bid and d, and the distance in it."""
    k = rng.choice([1, 1, 2, 3, 5, 30, 40, 1000])
    left, right = rng.choice([("a.g", "b.g"), ("ST_GeomFromWKB(a.w)", "ST_GeomFromWKB(b.w)"), ("ST_Centroid(a.g)", "b.g")])
    distance = f"ST_Distance({left}, {right})" if rng.randrange(2) else f"ST_Distance({right}, {left})"
    inside = [rng.choice(["b.x > 1", "b.s = 'y'", "b.x IS NULL OR b.x < 2", f"{distance} <= 3", f"{distance} < 2.5",
                          f"{distance} IS NOT NULL", "a.x < 2", f"{distance.replace('ST_Distance(', 'ST_DWithin(')[:-1]}, 2)",
                          "a.x = b.x", "b.x > a.x"])
              for _ in range(rng.choice([0, 0, 1, 2]))]
    outside = [rng.choice(["a.x > 0", "a.s = 'y'", "a.id % 2 = 0"]) for _ in range(rng.choice([0, 0, 1]))]
    where = lambda terms: f"WHERE {' AND '.join(f'({term})' for term in terms)}" if terms else ""  # noqa: E731
    form = rng.choice(["lateral", "lateral", "left", "scalar", "qualify", "window", "offset"])
    columns = rng.choice(["b.id AS bid", "b.id AS bid, b.s, b.x + a.x AS both, 7 AS seven", "b.id AS bid, coalesce(b.s, 'none') AS s"])
    if form in ("lateral", "left", "offset"):
        join = "LEFT JOIN LATERAL" if form == "left" else rng.choice(["CROSS JOIN LATERAL", "JOIN LATERAL"])
        on = "" if join.startswith("CROSS") else "ON true"
        cut = f"LIMIT {k} OFFSET {rng.randrange(3)}" if form == "offset" else f"LIMIT {k}"
        return (f"SELECT a.id AS aid, n.* FROM a {join} (SELECT {columns}, {distance} AS d FROM b {where(inside)} "
                f"ORDER BY d {cut}) n {on} {where(outside)}"), distance
    if form == "scalar":
        return (f"SELECT a.id AS aid, (SELECT {{'bid': b.id, 'd': {distance}}} FROM b {where(inside)} ORDER BY {distance} LIMIT 1) n "
                f"FROM a {where(outside)}"), distance
    key = rng.choice(["a.id", "a.id, a.x", "a.x", "a.s, a.x"])
    number = f"row_number() OVER (PARTITION BY {key} ORDER BY {distance})"
    if form == "qualify":
        return (f"SELECT {key.split(', ')[-1]} AS part, a.id AS aid, {columns}, {distance} AS d FROM a, b "
                f"{where(inside + outside)} QUALIFY {number} <= {k}"), distance
    return (f"SELECT * FROM (SELECT {key.split(', ')[-1]} AS part, a.id AS aid, {columns}, {distance} AS d, {number} AS rank "
            f"FROM a JOIN b ON true {where(inside + outside)}) WHERE rank < {k + 1}"), distance


def answer(connection, sql):
    """The rows of each left row or partition, as the sorted distances; ties may be cut anywhere."""
    rows = connection.execute(sql).fetchall()
    names = [column[0] for column in connection.description]
    result = {}
    for row in rows:
        values = dict(zip(names, row))
        if "n" in values:  # the scalar subquery
            values.update(values.pop("n") or {"bid": None, "d": None})
        group = values["part"] if "part" in values else values["aid"]
        others = (values.get("seven"), values.get("rank"))
        result.setdefault(group, []).append((values["d"] is None, values["d"] or 0, values["bid"] is None) + others)
    order = functools.partial(sorted, key=lambda entry: tuple((value is None, value or 0) for value in entry))
    return {group: order(entries) for group, entries in result.items()}, rows, names


def check_pairs(connection, sql, rows, names, distance):
    """No pair comes twice, and each has its own distance."""
    if "bid" not in names:
        return
    pairs = [(row[names.index("aid")], row[names.index("bid")], row[names.index("d")]) for row in rows]
    pairs = [pair for pair in pairs if pair[1] is not None]
    assert len({pair[:2] for pair in pairs}) == len(pairs), sql
    if pairs:
        connection.execute("CREATE OR REPLACE TEMP TABLE pairs (aid INTEGER, bid INTEGER, d DOUBLE)")
        connection.executemany("INSERT INTO pairs VALUES ($1, $2, $3)", pairs)
        wrong = connection.execute(f"SELECT count(*) FROM pairs JOIN a ON a.id = aid JOIN b ON b.id = bid "
                                   f"WHERE d IS DISTINCT FROM {distance}").fetchone()
        assert wrong == (0,), sql


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_queries(con, seed):
    rng = random.Random(seed)
    taken = 0
    for _ in range(6):
        fill(con, rng)
        for _ in range(6):
            sql, distance = query(rng)
            con.execute(f"SET threads = {rng.choice([1, 4])}")
            # Where rows are equally far, that rule of DuckDB mixes columns of several
            con.execute("SET disabled_optimizers = 'extension,top_n_window_elimination'")
            expected, _, _ = answer(con, sql)
            con.execute("SET disabled_optimizers = ''")
            plan = con.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()[1]
            taken += "VIBE_KNN" in plan
            found, rows, names = answer(con, sql)
            assert found == expected, sql
            check_pairs(con, sql, rows, names, distance)
    assert taken > 0


def join_condition(rng):
    """A join by ST_KNN, and the same question with all pairs ranked: neighbours first, other conditions after them."""
    k = rng.choice([1, 1, 2, 3, 5, 30, 1000])
    left, right = rng.choice([("a.g", "b.g"), ("ST_GeomFromWKB(a.w)", "ST_GeomFromWKB(b.w)"), ("ST_Centroid(a.g)", "b.g")])
    distance = rng.choice([f"ST_Distance({left}, {right})", f"ST_Distance({right}, {left})"])
    within = distance.replace("ST_Distance(", "ST_DWithin(")[:-1]
    on = [rng.choice(["b.x > 1", "a.x < 2", "b.x IS NULL OR b.x < a.x", "a.x = b.x", "b.s = 'y'", f"{distance} <= 3", f"{within}, 2)",
                      f"{distance} < a.x"]) for _ in range(rng.choice([0, 0, 1, 2]))]
    # No distance in a condition on NULLs: what ST_Distance of EMPTY is does not matter then
    where = [rng.choice(["a.x > 0", "a.id % 2 = 0", "b.id IS NULL OR b.id % 3 > 0"]) for _ in range(rng.choice([0, 0, 1]))]
    objects = rng.choice(["b", "b", "(SELECT * FROM b WHERE x > 0)", "(SELECT * FROM b ORDER BY id LIMIT 30)"])
    kind = rng.choice(["JOIN", "JOIN", "LEFT JOIN"])
    both = lambda terms: " AND ".join(f"({term})" for term in terms) or "true"  # noqa: E731
    # Equally far rows: the operator takes those that were scanned first
    ranked = (f"SELECT a.rowid AS r, b.id AS bid FROM a, {objects} b WHERE NOT ST_IsEmpty({left}) AND NOT ST_IsEmpty({right}) "
              f"QUALIFY row_number() OVER (PARTITION BY a.rowid ORDER BY {distance}, b.id) <= {k}")
    columns = f"a.id AS aid, b.id AS bid, b.s AS s, {distance} AS d"
    expected = (f"SELECT {columns} FROM a {kind} (SELECT n.r, b.* FROM ({ranked}) n JOIN b ON b.id = n.bid) b "
                f"ON a.rowid = b.r AND {both(on)} WHERE {both(where)}")
    condition = f"ST_KNN({left}, {right}, {k})"
    if kind == "JOIN" and rng.randrange(2):
        tables = rng.choice([f"a, {objects} b", f"{objects} b, a"])
        return f"SELECT {columns} FROM {tables} WHERE {both([condition] + on + where)}", expected
    tables = f"a {kind} {objects} b"
    if rng.randrange(3) == 0:
        tables = f"{objects} b {kind.replace('LEFT', 'RIGHT')} a"
    return f"SELECT {columns} FROM {tables} ON {both([condition] + on)} WHERE {both(where)}", expected


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_join_conditions(con, seed):
    rng = random.Random(1000 + seed)
    found = 0
    for _ in range(6):
        fill(con, rng)
        for _ in range(6):
            sql, expected = join_condition(rng)
            con.execute(f"SET threads = {rng.choice([1, 4])}")
            con.execute(f"SET disabled_optimizers = '{rng.choice(['', '', 'extension'])}'")
            rows = con.execute(sql).fetchall()
            con.execute("SET disabled_optimizers = 'extension,top_n_window_elimination'")
            assert sorted(rows, key=repr) == sorted(con.execute(expected).fetchall(), key=repr), sql
            con.execute("SET disabled_optimizers = ''")
            found += len(rows)
    assert found > 0


@pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="DuckDB 2.0 brought NEAREST")
@pytest.mark.parametrize("k", [1, 3])
def test_nearest_by_distance(con, k):
    fill(con, random.Random(3))
    sql = f"SELECT a.id AS aid, b.id AS bid, ST_Distance(a.g, b.g) AS d FROM a JOIN b NEAREST {k} BY DISTANCE ST_Distance(a.g, b.g)"
    con.execute("SET disabled_optimizers = 'extension,top_n_window_elimination'")
    expected, _, _ = answer(con, sql)
    con.execute("SET disabled_optimizers = ''")
    assert "VIBE_KNN" in con.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()[1]
    found, rows, names = answer(con, sql)
    assert found == expected
    assert len(rows) > 0
    check_pairs(con, sql, rows, names, "ST_Distance(a.g, b.g)")
