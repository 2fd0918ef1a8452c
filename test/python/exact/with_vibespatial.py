"""The answers of the extension, vectorised, under the names the oracle uses."""

import numpy as np
import shapely

from .exact_relate import PREDICATES

NAMES = ("relate", *PREDICATES)


def load(con, table, geometries):
    """A table of geometries (i INTEGER, g GEOMETRY), i being the position in the array."""
    rows = {"i": np.arange(len(geometries), dtype=np.int32), "wkb": shapely.to_wkb(geometries)}
    con.register("vibe_rows", rows)
    con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT i, ST_GeomFromWKB(wkb::BLOB) AS g FROM vibe_rows")
    con.unregister("vibe_rows")


def select(con, left, right, expressions, **more):
    """Expressions over a and b for the pairs (geometry left[n], geometry right[n]) of the table pool, in that order.

    More columns, one value a pair, may be named.
    """
    pairs = {
        "n": np.arange(len(left), dtype=np.int32),
        "l": np.asarray(left, dtype=np.int32),
        "r": np.asarray(right, dtype=np.int32),
        **more,
    }
    con.register("vibe_pairs", pairs)
    columns = ", ".join(f"{text} AS {name}" for name, text in expressions.items())
    source = "SELECT p.*, x.g AS a, y.g AS b FROM vibe_pairs p, pool x, pool y WHERE x.i = p.l AND y.i = p.r"
    found = con.execute(f"SELECT n, {columns} FROM ({source})").fetchnumpy()
    con.unregister("vibe_pairs")
    order = np.argsort(found["n"])
    assert len(order) == len(left)
    return {name: found[name][order] for name in expressions}


def decide(con, left, right):
    """{"relate": array of str, "intersects": array of bool, ...} for pairs of the table pool."""
    return select(con, left, right, {name: f"vibe_{name}(a, b)" for name in NAMES})


def decide_constant(con, constant, constant_first):
    """The same for one constant geometry against the whole table pool."""
    text = f"ST_GeomFromWKB(from_hex('{shapely.to_wkb(constant, hex=True)}'))"
    arguments = f"{text}, g" if constant_first else f"g, {text}"
    columns = ", ".join(f"vibe_{name}({arguments}) AS {name}" for name in NAMES)
    found = con.execute(f"SELECT i, {columns} FROM pool").fetchnumpy()
    order = np.argsort(found["i"])
    return {name: found[name][order] for name in NAMES}


OVERLAYS = {"union": "ST_Union", "intersection": "ST_Intersection", "difference": "ST_Difference", "symdifference": "ST_SymDifference"}
AGGREGATES = {"union_agg": "ST_Union_Agg", "intersection_agg": "ST_Intersection_Agg", "coverage_agg": "ST_CoverageUnion_Agg"}


def overlay(con, op, cases):
    """The results, as WKB, of an operation on pairs of WKB, or of an aggregate on lists of WKB, in the order given."""
    n = np.repeat(np.arange(len(cases), dtype=np.int32), [len(case) for case in cases])
    at = np.concatenate([np.arange(len(case), dtype=np.int32) for case in cases])
    con.register("vibe_rows", {"n": n, "i": at, "wkb": np.array([wkb for case in cases for wkb in case], dtype=object)})
    con.execute("CREATE OR REPLACE TEMP TABLE overlays AS SELECT n, i, ST_GeomFromWKB(wkb::BLOB) AS g FROM vibe_rows ORDER BY n, i")
    con.unregister("vibe_rows")
    if op in OVERLAYS:
        found = f"SELECT n, {OVERLAYS[op]}(a.g, b.g) AS u FROM overlays a JOIN overlays b USING (n) WHERE a.i = 0 AND b.i = 1"
    else:
        found = f"SELECT n, {AGGREGATES[op]}(g) AS u FROM overlays GROUP BY n"
    return [row[0] for row in con.execute(f"SELECT ST_AsWKB(u)::BLOB FROM ({found}) ORDER BY n").fetchall()]
