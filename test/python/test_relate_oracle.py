"""The oracle of the relate tests, checked on its own: against shapely, against a plain point locator, against itself.

GEOS 3.14.1 (shapely 2.2.0) was compared with it on 150,000 generated pairs, 25,000 of each family. It disagreed on some
5,800 of them, each a pair of one of these kinds, and wherever a pair was worked out by hand the oracle was right:
  - a line of zero length: relate gives its interior dimension 1 where the boxes are disjoint, and intersects says no to
    LINESTRING(0 5, 0 5) on LINESTRING(0 0, 0 5) while the relate of the same pair says yes;
  - several lines, an even number of whose ends meet somewhere: the boundary is sometimes taken for empty, as in
    MULTILINESTRING((0 2, 5 4), (4 1, 3 2), (5 4, 2 1)) against LINESTRING(0 2, 1 6);
  - collections with polygons: POLYGON p against GEOMETRYCOLLECTION(p, POINT elsewhere) is said to overlap it, the
    boundary of overlapping polygons far away is taken for empty, and crossings with a line of the same collection are
    located off the polygon they lie on;
  - polygons that touch: POLYGON((5 4, 1 4, 1 3, 5 4)) is said to overlap, rather than to lie within,
    MULTIPOLYGON(((4 4, 3 5, 4 5, 4 4)), ((1 3, 1 4, 5 4, 5 3, 1 3)));
  - near-degenerate coordinates: crossing points are rounded before they are located.
Without these, on the grid and on scattered coordinates, there is no disagreement: that is the first test.
"""

import itertools
import random
from collections import Counter

import numpy as np
import pytest
import shapely

from exact import exact_relate, generators, wkb, with_shapely
from exact.exact_relate import BOUNDARY, EXTERIOR, INTERIOR


def matrix(a, b):
    return exact_relate.relate(shapely.to_wkb(a), shapely.to_wkb(b))


def is_hard_for_geos(geometry):
    if geometry.geom_type == "GeometryCollection":
        return True
    parts = wkb.read(shapely.to_wkb(geometry))
    lines = parts.lines
    if any(all(vertex == line[0] for vertex in line) for line in lines):
        return True
    ends = Counter(end for line in lines for end in (line[0], line[-1]))
    if len(lines) > 1 and any(count % 2 == 0 for count in ends.values()):
        return True
    rings = [shapely.LinearRing(ring) for rings in parts.polygons for ring in rings]
    return any(shapely.intersects(r, s) for r, s in itertools.combinations(rings, 2))


@pytest.mark.parametrize("family, count", [("grid", 5000), ("scattered", 2000)])
def test_agrees_with_shapely(family, count):
    """Where GEOS computes without trouble, all thirteen answers are the same."""
    left, right = generators.pairs(family, "oracle", count)
    easy = np.array([not is_hard_for_geos(a) and not is_hard_for_geos(b) for a, b in zip(left, right)])
    assert easy.sum() > count // 3
    left, right = left[easy], right[easy]
    theirs = with_shapely.decide(with_shapely.clean(left), with_shapely.clean(right))
    for at, (a, b) in enumerate(zip(left, right)):
        ours = exact_relate.decide(shapely.to_wkb(a), shapely.to_wkb(b))
        assert ours == {name: theirs[name][at] for name in ours}, (a.wkt, b.wkt)


def test_collection_of_polygons_is_their_union():
    """Overlapping and adjacent polygons in a collection relate as the one area they cover."""
    rng = random.Random(5)
    merged = 0
    for number in range(800):
        maker = generators.Maker("grid", f"union/{number}")
        collection = shapely.GeometryCollection([maker.polygon() for _ in range(rng.choice((2, 2, 3)))])
        union = shapely.union_all(list(collection.geoms))
        # Only where no vertex of the union had to be rounded
        if any(value != round(value) for value in shapely.get_coordinates(union).ravel()):
            continue
        merged += 1
        other = maker.geometry()
        assert matrix(collection, other) == matrix(union, other), (collection.wkt, other.wkt)
        assert exact_relate.decide(shapely.to_wkb(collection), shapely.to_wkb(union))["equals"]
    assert merged > 150


def locate(parts, point):
    """Where a point lies, by the definition and without an arrangement. Polygons must not touch each other."""
    for rings in parts.polygons:
        crossings = 0
        for ring in rings:
            for p, q in zip(ring, ring[1:]):
                if exact_relate.orientation(p, q, point) == 0 and exact_relate.in_box(point, p, q):
                    return BOUNDARY
                crossings += exact_relate.crosses_ray(p, q, point)
        if crossings % 2:
            return INTERIOR
    ends = sum((line[0] == point) + (line[-1] == point) for line in parts.lines)
    if ends % 2:
        return BOUNDARY
    for line in parts.lines:
        for p, q in zip(line, line[1:]):
            if exact_relate.orientation(p, q, point) == 0 and exact_relate.in_box(point, p, q):
                return INTERIOR
    return INTERIOR if point in parts.points else EXTERIOR


def test_sampled_places_are_in_the_matrix():
    """Any place found at a pair of locations makes that entry of the matrix non-empty."""
    rng = random.Random(6)
    places = [(i / 4, j / 4) for i in range(-4, 29) for j in range(-4, 29)]
    filled = Counter()
    for number in range(400):
        maker = generators.Maker("grid", f"sample/{number}")
        a, b = (maker.geometry(rng.choice(generators.KINDS[:-1])) for _ in range(2))
        if any(g.geom_type == "MultiPolygon" for g in (a, b)):
            continue
        found = matrix(a, b)
        parts = [wkb.read(shapely.to_wkb(g)) for g in (a, b)]
        for place in places:
            at = 3 * locate(parts[0], place) + locate(parts[1], place)
            assert found[at] != "F", (a.wkt, b.wkt, place, found)
            filled[at] += 1
    assert len(filled) == 9


@pytest.mark.parametrize("family", generators.FAMILIES)
def test_symmetries(family):
    """Swapped, reversed, normalised, wrapped in a collection or mirrored, the answer is the same."""
    left, right = generators.pairs(family, "symmetry", 150)
    for a, b in zip(left, right):
        found = matrix(a, b)
        assert matrix(b, a) == exact_relate.transpose(found)
        assert matrix(shapely.reverse(a), shapely.normalize(b)) == found
        assert matrix(shapely.GeometryCollection([a]), b) == found
        mirrored = [shapely.transform(g, lambda xy: xy[:, ::-1] * [1.0, -1.0]) for g in (a, b)]
        assert matrix(*mirrored) == found


def test_refuses_what_has_no_sides():
    bow_tie = shapely.from_wkt("POLYGON((0 0, 2 2, 2 0, 0 2, 0 0))")
    with pytest.raises(exact_relate.InvalidPolygon):
        matrix(bow_tie, shapely.Point(0, 0))
