"""ST_Relate and every predicate against exact rational arithmetic, on small and mostly degenerate geometries."""

import os

import numpy as np
import pytest
import shapely

from exact import exact_relate, generators, with_vibespatial

FULL = 10 if os.environ.get("VIBESPATIAL_FULL") else 1
COUNTS = {"grid": 8000, "rotated": 2500, "offset": 2500, "wiggled": 3500, "exponents": 2500, "scattered": 1000}
assert sum(COUNTS.values()) >= 20_000
assert set(COUNTS) == set(generators.FAMILIES)


def differences(left, right, ours):
    """Where our answers are not the exact ones, as text."""
    wrong = []
    for at, (a, b) in enumerate(zip(left, right)):
        exact = exact_relate.decide(shapely.to_wkb(a), shapely.to_wkb(b))
        found = {name: (ours[name][at], exact[name]) for name in exact if ours[name][at] != exact[name]}
        if found:
            wrong.append((len(a.wkt) + len(b.wkt), f"(ours, exact) {found}\n  {a.wkt}\n  {b.wkt}"))
    return [text for _, text in sorted(wrong)]


@pytest.mark.parametrize("family", COUNTS)
def test_relate(con, family):
    left, right = generators.pairs(family, "relate", COUNTS[family] * FULL)
    with_vibespatial.load(con, "pool", np.concatenate([left, right]))
    ours = with_vibespatial.decide(con, np.arange(len(left)), np.arange(len(left)) + len(left))
    wrong = differences(left, right, ours)
    assert not wrong, f"{len(wrong)} of {len(left)} wrong\n" + "\n".join(wrong[:5])


@pytest.mark.parametrize("family", ["grid", "rotated", "wiggled"])
@pytest.mark.parametrize("constant_first", [True, False])
def test_relate_constant(con, family, constant_first):
    """A constant argument, which may be prepared once for the query, gives the same answers as a column."""
    pool = generators.pool(family, "constant", 12)
    with_vibespatial.load(con, "pool", pool)
    maker = generators.Maker(family, "constant")
    for kind in generators.KINDS:
        for constant in [maker.geometry(kind), pool[maker.rng.randrange(len(pool))]]:
            ours = with_vibespatial.decide_constant(con, constant, constant_first)
            constants = [constant] * len(pool)
            left, right = (constants, pool) if constant_first else (pool, constants)
            wrong = differences(left, right, ours)
            assert not wrong, "\n".join(wrong[:5])


EXPONENTS = [
    (-1074, -1074),
    (-1074, 0),
    (-1020, 1020),
    (1020, 1020),
    (1020, -600),
    (-540, -540),
    (510, 510),
    (-270, 300),
]


def is_single_on_nodes(geometry):
    """No collection, and integers only: these stay what they are even as the smallest doubles."""
    coords = shapely.get_coordinates(geometry)
    return geometry.geom_type != "GeometryCollection" and (coords == np.round(coords)).all()


@pytest.mark.parametrize("x_exponent, y_exponent", EXPONENTS)
def test_relate_at_the_ends_of_the_range(con, x_exponent, y_exponent):
    """Coordinates so large or small that products and even differences over- and underflow. Areas of a collection must
    not overlap there: the order of their crossings is exact between 1e-70 and 1e70 only."""
    left, right = generators.pairs("grid", f"ends/{x_exponent}/{y_exponent}", 400 * FULL)
    usable = [all(is_single_on_nodes(g) for g in pair) for pair in zip(left, right)]
    left, right = (generators.stretched(side[usable], x_exponent, y_exponent) for side in (left, right))
    assert len(left) > 100
    with_vibespatial.load(con, "pool", np.concatenate([left, right]))
    ours = with_vibespatial.decide(con, np.arange(len(left)), np.arange(len(left)) + len(left))
    wrong = differences(left, right, ours)
    assert not wrong, f"{len(wrong)} of {len(left)} wrong\n" + "\n".join(wrong[:5])


def test_relate_pattern(con):
    """The three-argument form agrees with the matrix."""
    left, right = generators.pairs("grid", "pattern", 500)
    with_vibespatial.load(con, "pool", np.concatenate([left, right]))
    patterns = "T******** FF*FF**** T*F**FFF* 212101212 ********* 0******** 1*T***T** tf******* FT*******".split()
    asked = {f"p{at}": f"vibe_relate(a, b, '{pattern}')" for at, pattern in enumerate(patterns)}
    found = with_vibespatial.select(con, np.arange(500), np.arange(500) + 500, {"matrix": "vibe_relate(a, b)", **asked})
    for at, pattern in enumerate(patterns):
        expected = [exact_relate.matches(matrix, pattern.upper()) for matrix in found["matrix"]]
        assert found[f"p{at}"].tolist() == expected, pattern


def test_long_lines_and_rings(con):
    """Geometries with many vertices, where an implementation may switch to an index."""
    rng = np.random.default_rng(4)
    shapes = []
    for count in (40, 150, 600):
        angle = np.linspace(0, 2 * np.pi, count, endpoint=False)
        for radius in (5.0, 3.0):
            wave = radius + rng.uniform(-0.5, 0.5, count)
            ring = np.column_stack([np.cos(angle) * wave, np.sin(angle) * wave])
            shapes.append(shapely.Polygon(ring))
            shapes.append(shapely.Polygon(ring, [ring[::-1] * 0.5]))
            shapes.append(shapely.LineString(ring))
            shapes.append(shapely.MultiPoint(ring[::3]))
            # Grid-snapped walks overlap each other and themselves
            shapes.append(shapely.LineString(np.cumsum(rng.integers(-1, 2, (count, 2)), axis=0)))
            mixed = [shapely.Polygon(ring), shapely.LineString(ring * 1.1), shapely.box(0, 0, 9, 9)]
            shapes.append(shapely.GeometryCollection(mixed))
    pool = np.array(shapes, dtype=object)
    assert shapely.is_valid(pool).all()
    with_vibespatial.load(con, "pool", pool)
    l, r = (side.ravel() for side in np.meshgrid(np.arange(len(pool)), np.arange(len(pool))))
    chosen = rng.choice(len(l), 80, replace=False)
    wrong = differences(pool[l[chosen]], pool[r[chosen]], with_vibespatial.decide(con, l[chosen], r[chosen]))
    assert not wrong, f"{len(wrong)} wrong\n" + wrong[0]
