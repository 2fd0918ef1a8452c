"""The generators hand out what the other tests rely on: valid polygons, every type, every kind of contact."""

import collections

import numpy as np
import pytest
import shapely

from exact import exact_relate, generators, wkb


def polygons_of(geometry):
    if geometry.geom_type == "Polygon":
        yield geometry
    elif hasattr(geometry, "geoms"):
        for member in geometry.geoms:
            yield from polygons_of(member)


@pytest.mark.parametrize("family", generators.FAMILIES)
def test_pool(family):
    pool = generators.pool(family, "test", 25)
    assert set(shapely.get_type_id(pool)) == {0, 1, 3, 4, 5, 6, 7}
    assert np.isfinite(shapely.get_coordinates(pool)).all()
    for geometry in pool:
        assert all(shapely.is_valid(polygon) for polygon in polygons_of(geometry))
        if geometry.geom_type == "MultiPolygon":
            assert shapely.is_valid(geometry)
        # The exact check: no polygon whose rings cross or overlap
        exact_relate.relate(shapely.to_wkb(geometry), shapely.to_wkb(shapely.Point()))


def test_seeds():
    """The same seed gives the same geometries, another one others."""
    first, again, other = (shapely.to_wkb(generators.pool("wiggled", seed, 10)).tolist() for seed in ("a", "a", "b"))
    assert first == again != other


def test_what_is_in_a_pool():
    """Empty and nested members, closed and self-crossing lines, zero lengths, holes and parts that touch."""
    seen = collections.Counter()
    for geometry in generators.pool("grid", "contents", 150):
        parts = wkb.read(shapely.to_wkb(geometry))
        seen["empty"] += geometry.is_empty
        if geometry.geom_type == "GeometryCollection":
            seen["nested"] += any(m.geom_type == "GeometryCollection" and not m.is_empty for m in geometry.geoms)
            seen["partly empty"] += not geometry.is_empty and any(m.is_empty for m in geometry.geoms)
            members = [m for m in geometry.geoms if m.geom_type == "Polygon" and not m.is_empty]
            for at, a in enumerate(members):
                for b in members[:at]:
                    seen["overlapping members"] += a.overlaps(b)
                    seen["adjacent members"] += a.touches(b) and a.intersection(b).length > 0
                    seen["contained members"] += a.contains(b) or b.contains(a)
            seen["mixed dimensions"] += bool(parts.points) + bool(parts.lines) + bool(parts.polygons) > 1
        for line in parts.lines:
            seen["closed line"] += line[0] == line[-1] and len(set(line)) > 1
            seen["zero length"] += len(set(line)) == 1
            seen["not simple"] += not shapely.is_simple(shapely.LineString(line))
        for rings in parts.polygons:
            seen["hole"] += len(rings) > 1
            shell = shapely.LineString(rings[0])
            for hole in rings[1:]:
                touch = shapely.LineString(hole).intersection(shell)
                if not touch.is_empty:
                    seen["hole on shell"] += 1
                    at = shapely.get_coordinates(touch)[0].tolist()
                    seen["hole within an edge"] += tuple(at) not in rings[0]
        if geometry.geom_type == "MultiPolygon":
            seen["parts that touch"] += any(
                a.touches(b) for at, a in enumerate(geometry.geoms) for b in list(geometry.geoms)[:at]
            )
    missing = [name for name, count in seen.items() if not count]
    assert not missing and len(seen) == 14, (missing, seen)


def test_pairs_meet():
    """Grid pairs reach far more of the possible matrices than random ones do."""
    left, right = generators.pairs("grid", "meet", 3000)
    pairs = zip(shapely.to_wkb(left), shapely.to_wkb(right))
    matrices = collections.Counter(exact_relate.relate(a, b) for a, b in pairs)
    assert len(matrices) > 120
    assert sum(count for matrix, count in matrices.items() if not exact_relate.matches(matrix, "FF*FF****")) > 1500
