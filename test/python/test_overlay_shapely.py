"""Unions and overlays against shapely (GEOS), and against rational arithmetic where that fails or differs; and what holds for every result:
it is valid, in normal form, and the same bits however the input is ordered.

VIBESPATIAL_LONG=N makes N times as many generated cases. What was seen of shapely is printed (pytest -rP or -s). The real data needs the
shared data folder.
"""

import collections
import os
import random

import numpy as np
import pytest
import shapely

from exact import overlay_checks, overlay_inputs, with_vibespatial

LONG = max(int(os.environ.get("VIBESPATIAL_LONG", "0")), 1)
SEED = os.environ.get("VIBESPATIAL_SEED", "0")
PAIRS = 40
UNIONS = 12
# Interior rings have to be this many ulps of the largest coordinate thick
THICKNESS = 4


class Run:
    """Operations on one connection, and what was found in them."""

    def __init__(self, con):
        self.con, self.count, self.notes, self.problems = con, 0, collections.Counter(), []

    def overlay(self, op, cases):
        coded = [[shapely.to_wkb(geometry) for geometry in case] for case in cases]
        return with_vibespatial.overlay(self.con, op, coded)

    def check(self, op, cases, exact_lower=False, judged=True, thin=None):
        """Every case of an operation, its result held against shapely's, and once more with the input rewritten."""
        results = self.overlay(op, cases)
        rng = random.Random(f"rewritten/{op}/{self.count}")
        again = self.overlay(op, [self.reordered(op, case, rng) for case in cases])
        for case, result, other in zip(cases, results, again):
            self.count += 1
            geometry = shapely.from_wkb(result)
            kind = op.split("_")[0].replace("coverage", "union")
            operands = [[member] for member in case] if op in with_vibespatial.OVERLAYS or kind == "intersection" else [case]
            if judged:
                verdict = overlay_checks.judge(kind, operands, geometry, exact_lower)
                self.notes.update(verdict.notes)
                problems = verdict.problems
            else:
                problems = overlay_checks.shape_problems(geometry)
            if result != other:
                problems = [*problems, f"not the same bits for the input in another order: {shapely.from_wkb(other).wkt}"]
            if thin is not None:
                count = overlay_checks.thin_holes(geometry, thin * overlay_checks.ulp(case))
                if count:
                    problems = [*problems, f"{count} interior rings thinner than the coordinates"]
            if problems:
                self.problems.append((op, case, geometry, problems))
        return [shapely.from_wkb(result) for result in results]

    def reordered(self, op, case, rng):
        """The same input, written otherwise."""
        case = [overlay_checks.rewritten(geometry, rng) for geometry in case]
        if op != "difference":
            rng.shuffle(case)
        return case

    def finish(self, what):
        print(f"{what}: {self.count} operations, {dict(self.notes)}")
        self.problems.sort(key=lambda problem: sum(len(geometry.wkt) for geometry in problem[1]))
        texts = []
        for op, case, result, problems in self.problems[:5]:
            texts.append("\n  ".join([f"{op}: {'; '.join(problems)}", *(geometry.wkb_hex for geometry in case), *(geometry.wkt for geometry in case),
                                      "gives " + result.wkt])[:6000])
        assert not self.problems, f"{len(self.problems)} of {self.count} wrong\n" + "\n".join(texts)


@pytest.mark.parametrize("family", overlay_inputs.FAMILIES)
def test_pairs(con, family):
    run = Run(con)
    cases = overlay_inputs.pairs(family, SEED, PAIRS * LONG)
    for op in with_vibespatial.OVERLAYS:
        run.check(op, cases, family in overlay_inputs.PLAIN, family not in overlay_inputs.INVALID)
    run.finish(family)


@pytest.mark.parametrize("family", overlay_inputs.FAMILIES)
def test_unions(con, family):
    run = Run(con)
    cases = [overlay_inputs.members(family, f"{SEED}/{number}") for number in range(UNIONS * LONG)]
    for op in ("union_agg", "intersection_agg"):
        run.check(op, cases, family in overlay_inputs.PLAIN, family not in overlay_inputs.INVALID)
    run.finish(family)


@pytest.mark.parametrize("loose", [False, True])
def test_coverages(con, loose):
    """One polygon is left, without holes; its vertices are as few as shapely's."""
    run = Run(con)
    cases = [overlay_inputs.coverage(f"{SEED}/{number}", 40 + 60 * (number % 5), loose) for number in range(8 * LONG)]
    for op in ("union_agg", "coverage_agg"):
        for case, result in zip(cases, run.check(op, cases, thin=THICKNESS)):
            theirs = shapely.union_all(case)
            ours, most = shapely.get_num_coordinates(result), shapely.get_num_coordinates(theirs)
            if ours > 1.01 * most + 1:
                run.problems.append((op, case, result, [f"{ours} vertices, shapely has {most}"]))
    run.finish("loose coverages" if loose else "coverages")


def test_threads(connect):
    """The same bits on one thread as on four, where a union is large enough to be shared."""
    rng = random.Random("threads")
    case = [overlay_inputs.holed_star(rng, rng.uniform(0, 40), rng.uniform(0, 40), 1.0).wkb for _ in range(2000)]
    found = set()
    for threads in (1, 2, 4):
        with connect(threads=threads) as con:
            found.add(with_vibespatial.overlay(con, "union_agg", [case])[0])
    assert len(found) == 1


# ---------------------------------------------------------------------------------------------------------------------
# Real data
# ---------------------------------------------------------------------------------------------------------------------
def read(con, folder, name, where="true", columns="NULL"):
    """Geometries, and a key for each."""
    rows = con.execute(f"SELECT geom, {columns} FROM read_parquet('{folder}/{name}.parquet') WHERE {where} ORDER BY id").fetchall()
    geometries = shapely.from_wkb([row[0] for row in rows])
    valid = shapely.is_valid(geometries)
    return geometries[valid], np.array([row[1] for row in rows], dtype=object)[valid]


def groups(geometries, keys):
    return {key: list(geometries[keys == key]) for key in sorted(set(keys))}


def touching(left, right, count, most_vertices, seed):
    """Pairs that meet, none too large for rational arithmetic."""
    l, r = shapely.STRtree(right).query(left, predicate="intersects")
    small = shapely.get_num_coordinates(left)[l] + shapely.get_num_coordinates(right)[r] <= most_vertices
    if left is right:
        small &= l < r
    l, r = l[small], r[small]
    chosen = np.random.default_rng(seed).permutation(len(l))[: count * LONG]
    return list(zip(left[l[chosen]], right[r[chosen]]))


@pytest.mark.parametrize("name", ["us_counties", "ne10m_states_provinces", "gshhs_h"])
def test_real_pairs(con, shared_data, name):
    rows, _ = read(con, shared_data, name, "octet_length(geom) < 60000 AND id % 20 < 5" if name == "gshhs_h" else "true")
    run = Run(con)
    cases = touching(rows, rows, 60, 1500, 7)
    assert len(cases) >= 40
    for op in with_vibespatial.OVERLAYS:
        run.check(op, cases)
    run.finish(name)


def test_provinces_and_counties(con, shared_data):
    counties, _ = read(con, shared_data, "us_counties")
    provinces, _ = read(con, shared_data, "ne10m_states_provinces", "iso_a2 = 'US'")
    run = Run(con)
    for op in with_vibespatial.OVERLAYS:
        run.check(op, touching(counties, provinces, 40, 3000, 8))
    run.finish("counties x provinces")


@pytest.mark.parametrize("name, key, where", [
    ("us_counties", "state", "true" if LONG > 1 else "state IN ('CO', 'DE', 'HI', 'MD', 'UT')"),
    ("ne10m_states_provinces", "admin", "true" if LONG > 1 else "id % 5 = 0"),
    ("gshhs_h", "level", "octet_length(geom) < 20000" if LONG > 1 else "octet_length(geom) < 20000 AND id % 40 = 1"),
])
def test_real_groups(con, shared_data, name, key, where):
    rows, keys = read(con, shared_data, name, where, key)
    assert len(rows) > 50
    run = Run(con)
    cases = list(groups(rows, keys).values())
    for case, result in zip(cases, run.check("union_agg", cases, thin=THICKNESS)):
        vertices, theirs = shapely.get_num_coordinates(result), shapely.get_num_coordinates(shapely.union_all(case))
        if vertices > 1.01 * theirs + 1:
            run.problems.append(("union_agg", case, result, [f"{vertices} vertices, shapely has {theirs}"]))
    run.finish(f"{name} by {key}")


def test_rivers_buffered(con, shared_data):
    rivers, _ = read(con, shared_data, "wdb_rivers_f", "id % 60 = 0")
    run = Run(con)
    run.check("union_agg", [list(shapely.buffer(rivers, 0.2, quad_segs=4))])
    run.check("union_agg", [list(rivers)], exact_lower=True)
    run.finish("rivers")


@pytest.mark.skipif(LONG == 1, reason="minutes: VIBESPATIAL_LONG=2 runs it")
def test_all_counties(con, shared_data):
    counties, _ = read(con, shared_data, "us_counties")
    run = Run(con)
    run.check("union_agg", [list(counties)], thin=THICKNESS)
    run.finish("all counties")
