"""vibe::Orient2d and vibe::CrossSign give the sign of the exact expression on every finite input.

The header is compiled with the host compiler and compared with integer arithmetic: no wrong sign in 2.7 million cases,
each in all six orders of its points.
"""

import ctypes
import itertools
import os
import pathlib
import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pytest

from exact import exact_orient

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wextra"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = os.environ.get("CXX", "g++").split()
    if shutil.which(compiler[0]) is None:
        pytest.skip("no C++ compiler")
    target = tmp_path_factory.mktemp("orient2d") / "orient2d.so"
    source = ROOT / "test" / "fuzz" / "orient2d.cpp"
    subprocess.run([*compiler, *FLAGS, f"-I{ROOT / 'kernels' / 'include'}", str(source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def signs(function, cases):
    cases = np.ascontiguousarray(cases, dtype=np.float64)
    result = np.full(len(cases), 99, dtype=np.int8)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (cases, result)]
    function(pointers[0], ctypes.c_longlong(len(cases)), pointers[1])
    return result


# ---------------------------------------------------------------------------------------------------------------------
# Families of cases: rng, count -> rows of ax ay bx by cx cy
# ---------------------------------------------------------------------------------------------------------------------
def on_edge(rng, ax, ay, bx, by, along):
    """c on ab as near as rounding allows, then moved by up to two ulps in half of the cases."""
    cx, cy = ax + along * (bx - ax), ay + along * (by - ay)
    moves = rng.integers(0, 5, len(cx))
    cx = np.where(moves >= 3, np.nextafter(cx, np.inf), cx)
    cx = np.where(moves >= 4, np.nextafter(cx, np.inf), cx)
    return np.column_stack([ax, ay, bx, by, cx, cy])


def lon_lat(rng, n):
    ax, ay = rng.uniform(-180, 180, n), rng.uniform(-90, 90, n)
    return on_edge(rng, ax, ay, ax + rng.uniform(-1, 1, n), ay + rng.uniform(-1, 1, n), rng.random(n))


def shewchuk_grid(rng, n):
    c = 0.5 + rng.integers(0, 256, (n, 2)) * 2.0**-53
    return np.column_stack([np.full((n, 2), 12.0), np.full((n, 2), 24.0), c])


def projected_metres(rng, n):
    ax, ay = rng.uniform(2e5, 8e5, n), rng.uniform(0, 9e6, n)
    return on_edge(rng, ax, ay, ax + rng.uniform(-50, 50, n), ay + rng.uniform(-50, 50, n), rng.random(n))


def powers(rng, shape, low, high):
    """Random signs and mantissas, binary exponents from low to high; may be subnormal, never infinite."""
    return np.ldexp(rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape), rng.integers(low, high + 1, shape))


def mixed_exponents(rng, n):
    ax, ay, bx, by = powers(rng, (4, n), -30, 30)
    return on_edge(rng, ax, ay, bx, by, rng.uniform(-2, 2, n))


def long_edge(rng, n):
    ax, bx = rng.uniform(-180, -100, n), rng.uniform(100, 180, n)
    ay, by = rng.uniform(-60, 60, (2, n))
    return on_edge(rng, ax, ay, bx, by, -ax / (bx - ax) + rng.uniform(-1e-4, 1e-4, n))


def any_exponent(rng, n):
    return powers(rng, (n, 6), -1073, 1024)


def subnormal(rng, n):
    return powers(rng, (n, 6), -1076, -1015)


def subnormal_collinear(rng, n):
    return exact_multiples(rng, n, 8) * 2.0**-1074


def huge(rng, n):
    """Differences and products overflow."""
    return powers(rng, (n, 6), 1000, 1024)


def huge_collinear(rng, n):
    return np.ldexp(exact_multiples(rng, n, 20), 980)


def underflowing_products(rng, n):
    """Near-collinear, with products about where the tails of the adaptive stages lose bits."""
    exponent = rng.integers(-540, -420, n)
    ax, ay, bx, by = powers(rng, (4, n), -20, 20)
    return np.ldexp(on_edge(rng, ax, ay, bx, by, rng.random(n)), exponent[:, None])


def uneven_axes(rng, n):
    """x and y of opposite extreme magnitudes, so that products are ordinary and their tails are not."""
    ax, ay, bx, by = powers(rng, (4, n), -20, 20)
    cases = on_edge(rng, ax, ay, bx, by, rng.random(n))
    exponent = rng.integers(-950, 950, (n, 1))
    cases[:, 0::2] = np.ldexp(cases[:, 0::2], exponent)
    cases[:, 1::2] = np.ldexp(cases[:, 1::2], -exponent - rng.integers(-30, 30, (n, 1)))
    return cases


def exact_multiples(rng, n, bits):
    """Collinear by construction in integers: a + i d, a + j d, a + k d; one in three moved by one."""
    start, step = rng.integers(-(2**bits), 2**bits, (2, n, 2))
    cases = np.column_stack([start + step * factor for factor in rng.integers(-(2**bits), 2**bits, (3, n, 1))])
    cases[:, 4] += rng.integers(0, 3, n) == 0
    return cases.astype(np.float64)


def collinear_far(rng, n):
    """Exactly collinear, far from the origin."""
    cases = exact_multiples(rng, n, 20)
    cases[:, 0::2] += rng.integers(0, 2**51, (n, 1))
    cases[:, 1::2] += rng.integers(0, 2**51, (n, 1))
    return cases


def collinear_integers(rng, n):
    return exact_multiples(rng, n, 25)


def small_grid(rng, n):
    """Repeated points, axis-parallel edges, zeros of both signs."""
    cases = rng.integers(-2, 3, (n, 6)).astype(np.float64)
    cases[(cases == 0) & (rng.random((n, 6)) < 0.5)] = -0.0
    return cases


def one_ulp_apart(rng, n):
    """Three points within a few ulps of each other."""
    base = powers(rng, (n, 2), -60, 60)
    return np.column_stack([base * (1 + rng.integers(-4, 5, (n, 2)) * 2.0**-52) for _ in range(3)])


def random_uniform(rng, n):
    return rng.uniform(-1, 1, (n, 6))


FAMILIES = {
    lon_lat: 300_000,
    shewchuk_grid: 300_000,
    projected_metres: 300_000,
    mixed_exponents: 300_000,
    long_edge: 300_000,
    any_exponent: 100_000,
    subnormal: 100_000,
    subnormal_collinear: 100_000,
    huge: 100_000,
    huge_collinear: 100_000,
    underflowing_products: 100_000,
    uneven_axes: 100_000,
    collinear_far: 100_000,
    collinear_integers: 100_000,
    small_grid: 100_000,
    one_ulp_apart: 100_000,
    random_uniform: 100_000,
}
assert sum(FAMILIES.values()) >= 2_700_000


def make(family, seed=0):
    rng = np.random.default_rng([seed, *family.__name__.encode()])
    cases = family(rng, FAMILIES[family])
    assert cases.shape == (FAMILIES[family], 6) and np.isfinite(cases).all()
    return rng, cases


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_orient2d(library, family):
    rng, cases = make(family)
    expected = exact_orient.orient2d(cases)
    for order in itertools.permutations(range(3)):
        parity = 1 if order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) else -1
        turned = np.column_stack([cases[:, 2 * at : 2 * at + 2] for at in order])
        got = signs(library.vibe_orient2d, turned)
        wrong = np.flatnonzero(got != parity * expected)
        assert len(wrong) == 0, f"{len(wrong)} wrong, first {[v.hex() for v in turned[wrong[0]]]}: {got[wrong[0]]}"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_cross_sign(library, family):
    rng, cases = make(family, 1)
    cases = cases[:50_000]
    # d: a vertex of the case, another case's, or c moved along ab, so that parallel vectors are common
    d = cases[np.arange(len(cases)), 4:6].copy()
    choice = rng.integers(0, 3, len(cases))
    d[choice == 0] = cases[choice == 0, 2:4]
    d[choice == 1] = np.roll(cases[:, 0:2], 1, axis=0)[choice == 1]
    along = choice == 2
    with np.errstate(over="ignore"):
        d[along] += cases[along, 2:4] - cases[along, 0:2]
    d[~np.isfinite(d)] = 1.0
    cases = np.column_stack([cases, d])
    expected = exact_orient.cross_sign(cases)
    got = signs(library.vibe_cross_sign, cases)
    wrong = np.flatnonzero(got != expected)
    assert len(wrong) == 0, f"{len(wrong)} wrong, first {[v.hex() for v in cases[wrong[0]]]}: {got[wrong[0]]}"


def test_exact_side_by_fractions():
    """The integer arithmetic above is itself right: against fractions, and it sees all three signs."""
    rng = np.random.default_rng(3)
    seen = set()
    for family in (any_exponent, subnormal_collinear, collinear_far, small_grid, uneven_axes):
        cases = family(rng, 300)
        for case, sign in zip(cases, exact_orient.orient2d(cases)):
            ax, ay, bx, by, cx, cy = map(Fraction, case.tolist())
            determinant = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
            assert sign == (determinant > 0) - (determinant < 0)
            seen.add(int(sign))
    assert seen == {-1, 0, 1}


def test_plain_determinant_is_not_enough():
    """The families are hard: the determinant in doubles gets many of these signs wrong."""
    wrong = 0
    for family in (lon_lat, shewchuk_grid, long_edge, mixed_exponents):
        cases = make(family)[1][:20_000]
        ax, ay, bx, by, cx, cy = cases.T
        plain = exact_orient.sign((ax - cx) * (by - cy) - (ay - cy) * (bx - cx))
        wrong += np.count_nonzero(plain != exact_orient.orient2d(cases))
    assert wrong > 1000
