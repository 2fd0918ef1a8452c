"""The answers of shapely (GEOS), vectorised, under the names the oracle uses."""

import numpy as np
import shapely

CALLS = {
    "relate": shapely.relate,
    "intersects": shapely.intersects,
    "disjoint": shapely.disjoint,
    "contains": shapely.contains,
    "within": shapely.within,
    "covers": shapely.covers,
    "coveredby": shapely.covered_by,
    "containsproperly": shapely.contains_properly,
    "withinproperly": lambda a, b: shapely.contains_properly(b, a),
    "equals": shapely.equals,
    "touches": shapely.touches,
    "crosses": shapely.crosses,
    "overlaps": shapely.overlaps,
}


def _clean(geometry):
    if geometry.geom_type == "Polygon":
        return shapely.remove_repeated_points(geometry)
    if not hasattr(geometry, "geoms"):
        return geometry
    members = [_clean(member) for member in geometry.geoms if not member.is_empty]
    return type(geometry)(members)


def clean(geometries):
    """The same point sets in a form that GEOS 3.14 can relate.

    A collection with polygons and an empty polygon crashes its relate (shapely 2.2.0), and a repeated vertex in a
    polygon of a collection makes it fail ("Cannot compute the quadrant"). Neither changes the point set, so for shapely
    they are taken out.
    """
    cleaned = geometries.copy()
    areal = shapely.get_type_id(cleaned) >= 6
    areal |= shapely.get_type_id(cleaned) == 3
    for at in np.flatnonzero(areal):
        cleaned[at] = _clean(cleaned[at])
    return cleaned


def decide(left, right):
    """{"relate": array of str, "intersects": array of bool, ...}"""
    with np.errstate(invalid="ignore"):
        return {name: call(left, right) for name, call in CALLS.items()}
