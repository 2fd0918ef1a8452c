"""ST_Relate and every predicate against shapely (GEOS): 204,000 generated pairs over all pairs of types, and real data.

Where the two disagree rational arithmetic decides, and ours must be right. The number of pairs where GEOS is wrong is
printed (pytest -rP or -s). Real pairs need the shared data folder.
"""

import collections
import os

import numpy as np
import pytest
import shapely

from exact import exact_relate, generators, with_shapely, with_vibespatial

FULL = 5 if os.environ.get("VIBESPATIAL_FULL") else 1
POOLS = 4
PER_KIND = 40
PAIRS = 8500
assert len(generators.FAMILIES) * POOLS * PAIRS >= 200_000


def compare(con, pool, left, right):
    """Counts of pairs and of those where GEOS is wrong; fails where ours is."""
    with_vibespatial.load(con, "pool", pool)
    ours = with_vibespatial.decide(con, left, right)
    cleaned = with_shapely.clean(pool)
    theirs = with_shapely.decide(cleaned[left], cleaned[right])
    differ = np.zeros(len(left), dtype=bool)
    for name in ours:
        differ |= ours[name] != theirs[name]
    wkb = shapely.to_wkb(pool)
    geos_wrong, wrong = collections.Counter(), []
    for at in np.flatnonzero(differ):
        a, b = left[at], right[at]
        exact = exact_relate.decide(wkb[a], wkb[b])
        found = {name: (ours[name][at], exact[name]) for name in exact if ours[name][at] != exact[name]}
        if found:
            wrong.append(f"(ours, exact) {found}\n  {pool[a].wkt}\n  {pool[b].wkt}")
        geos_wrong.update(name for name in exact if theirs[name][at] != exact[name])
        geos_wrong["any"] += any(theirs[name][at] != exact[name] for name in exact)
    wrong.sort(key=len)
    assert not wrong, f"{len(wrong)} of {len(left)} pairs wrong\n" + "\n".join(text[:4000] for text in wrong[:3])
    return ours, geos_wrong


def kinds_seen(pool, left, right):
    kinds = shapely.get_type_id(pool)
    return set(zip(kinds[left].tolist(), kinds[right].tolist()))


@pytest.mark.parametrize("family", generators.FAMILIES)
def test_generated(con, family):
    geos_wrong, seen, matrices = collections.Counter(), set(), collections.Counter()
    for number in range(POOLS):
        pool = generators.pool(family, f"shapely/{number}", PER_KIND)
        rng = np.random.default_rng([number, *family.encode()])
        left, right = rng.integers(0, len(pool), (2, PAIRS * FULL))
        ours, wrong = compare(con, pool, left, right)
        geos_wrong += wrong
        seen |= kinds_seen(pool, left, right)
        matrices.update(ours["relate"].tolist())
    pairs = POOLS * PAIRS * FULL
    print(f"{family}: {pairs} pairs, {len(matrices)} matrices, ours all right, GEOS wrong: {dict(geos_wrong)}")
    assert len(seen) == 49, "every pair of the seven types"
    assert len(matrices) > 80


# ---------------------------------------------------------------------------------------------------------------------
# Real data
# ---------------------------------------------------------------------------------------------------------------------
def read(con, folder, name, where="true"):
    rows = con.execute(f"SELECT geom FROM read_parquet('{folder}/{name}.parquet') WHERE {where} ORDER BY id").fetchall()
    geometries = shapely.from_wkb([row[0] for row in rows])
    return geometries[shapely.is_valid(geometries)]


def neighbours(left, right, count, most_vertices, seed):
    """Positions of pairs whose boxes meet, at most count of them, none too large for the exact decision."""
    l, r = shapely.STRtree(right).query(left)
    small = shapely.get_num_coordinates(left)[l] + shapely.get_num_coordinates(right)[r] <= most_vertices
    if left is right:
        small &= l != r
    l, r = l[small], r[small]
    chosen = np.random.default_rng(seed).permutation(len(l))[: count * FULL]
    return l[chosen], r[chosen]


def check_real(con, what, left, right, count, most_vertices):
    l, r = neighbours(left, right, count, most_vertices, 1)
    if left is right:
        pool = left
    else:
        pool, r = np.concatenate([left, right]), r + len(left)
    used, positions = np.unique(np.concatenate([l, r]), return_inverse=True)
    ours, geos_wrong = compare(con, pool[used], positions[: len(l)], positions[len(l) :])
    matrices = collections.Counter(ours["relate"].tolist())
    print(f"{what}: {len(l)} pairs, {len(matrices)} matrices, ours all right, GEOS wrong: {dict(geos_wrong)}")
    assert len(l) > 100 and ours["intersects"].any()


def test_provinces(con, shared_data):
    provinces = read(con, shared_data, "ne10m_states_provinces")
    check_real(con, "provinces x provinces", provinces, provinces, 8000, 2000)


def test_counties(con, shared_data):
    counties = read(con, shared_data, "us_counties")
    check_real(con, "counties x counties", counties, counties, 6000, 2000)


def test_rivers_in_provinces(con, shared_data):
    rivers = read(con, shared_data, "wdb_rivers_f", "id % 4 = 0")
    provinces = read(con, shared_data, "ne10m_states_provinces")
    check_real(con, "rivers x provinces", rivers, provinces, 8000, 2000)


def test_cities_in_countries(con, shared_data):
    cities = read(con, shared_data, "cities500_geonames", "id % 20 = 0")
    countries = read(con, shared_data, "ne110m_countries")
    check_real(con, "cities x countries", cities, countries, 20000, 20000)
    detailed = read(con, shared_data, "ne10m_countries")
    check_real(con, "cities x countries in detail", cities, detailed, 500, 20000)


def test_points_on_real_edges(con, shared_data):
    """Vertices of rings and points rounded onto their edges: the hardest points there are for a polygon."""
    countries = read(con, shared_data, "ne110m_countries")
    rng = np.random.default_rng(2)
    coords, owner = shapely.get_coordinates(countries, return_index=True)
    chosen = rng.choice(len(coords) - 1, 6000, replace=False)
    chosen = chosen[owner[chosen] == owner[chosen + 1]]
    along = np.where(rng.random(len(chosen)) < 0.2, 0.0, rng.random(len(chosen)))[:, None]
    points = shapely.points(coords[chosen] + along * (coords[chosen + 1] - coords[chosen]))
    pool = np.concatenate([countries, points])
    ours, geos_wrong = compare(con, pool, np.arange(len(points)) + len(countries), owner[chosen])
    print(f"points on edges: {len(points)} pairs, ours all right, GEOS wrong: {dict(geos_wrong)}")
    assert 0 < np.count_nonzero(ours["touches"]) < len(points)
