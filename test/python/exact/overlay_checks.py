"""What every overlay's result has to be, whatever the input: valid, in normal form, made of the input's vertices and crossings; and as large
as shapely's, or where shapely fails or differs, as rational arithmetic says."""

import collections
import functools
import itertools

import numpy as np
import shapely

from . import exact_overlay
from .exact_relate import InvalidPolygon

RELATIVE = 1e-9
# More vertices than this are too many for rational arithmetic
MOST_EXACT = 1500


def ulp(geometries):
    """The distance between doubles at the largest coordinate."""
    coords = shapely.get_coordinates(geometries)
    return float(np.spacing(np.abs(coords).max())) if len(coords) else 0.0


def parts(geometry):
    """Polygons, lines and points of a result, each as a list."""
    found = collections.defaultdict(list)
    for part in shapely.get_parts(shapely.get_parts(geometry)):
        if not part.is_empty:
            found[part.geom_type].append(part)
    return found["Polygon"], found["LineString"], found["Point"]


def rings(polygon):
    return [polygon.exterior, *polygon.interiors]


def shape_problems(geometry):
    """Why it is not a result in normal form; nothing when it is."""
    problems = []
    if geometry.has_z or geometry.has_m:
        problems.append("has Z or M")
    polygons, lines, points = parts(geometry)
    dimensions = [bool(points), bool(lines), bool(polygons)]
    kind = geometry.geom_type
    if geometry.is_empty:
        if kind not in ("Polygon", "LineString", "Point", "GeometryCollection"):
            problems.append(f"empty {kind}")
        return problems
    if sum(dimensions) > 1:
        wanted = "GeometryCollection"
    else:
        wanted = "Polygon" if polygons else "LineString" if lines else "Point"
        if len(polygons + lines + points) > 1:
            wanted = "Multi" + wanted
    if kind != wanted:
        problems.append(f"a {kind} and not a {wanted}")
    if any(member.is_empty for member in shapely.get_parts(geometry)):
        problems.append("an empty member")
    order = [part.geom_type for part in shapely.get_parts(shapely.get_parts(geometry))]
    if len(set(order)) != len(list(itertools.groupby(order))):
        problems.append(f"members of a dimension are not together: {order}")
    reason = shapely.is_valid_reason(geometry)
    if reason != "Valid Geometry" and not ("Self-intersection" in reason and exact_overlay.is_simple(shapely.to_wkb(geometry))):
        problems.append(f"invalid: {reason}")
    for polygon in polygons:
        for index, ring in enumerate(rings(polygon)):
            coords = shapely.get_coordinates(ring)
            if (coords[1:] == coords[:-1]).all(axis=1).any():
                problems.append("repeated vertex in a ring")
            if shapely.is_ccw(ring) != (index == 0) and exact_overlay.is_ccw(coords.tolist()) != (index == 0):
                problems.append("ring turns the wrong way")
            if tuple(coords[0]) != min(map(tuple, coords)):
                problems.append("ring does not begin at its least vertex")
        starts = [ring.coords[0] for ring in polygon.interiors]
        if starts != sorted(starts):
            problems.append("holes are not sorted")
    for line in lines:
        coords = shapely.get_coordinates(line)
        if (coords[1:] == coords[:-1]).all(axis=1).any():
            problems.append("repeated vertex in a line")
    for members in (polygons, lines, points):
        starts = [tuple(shapely.get_coordinates(member)[0]) for member in members]
        if starts != sorted(starts):
            problems.append("members are not sorted")
    if len({point.wkb for point in points}) != len(points):
        problems.append("a point twice")
    return problems


def thin_holes(geometry, width):
    """The number of interior rings thinner than the width."""
    holes = np.array([ring for polygon in parts(geometry)[0] for ring in polygon.interiors], dtype=object)
    if not len(holes):
        return 0
    area = shapely.area(shapely.polygons(holes))
    return int(np.count_nonzero(2 * area < width * shapely.length(holes)))


def segments(geometries):
    """The edges of rings and lines, each a line of its own."""
    flat = shapely.get_parts(geometries)
    while (shapely.get_type_id(flat) > 3).any():
        flat = shapely.get_parts(flat)
    lines = np.concatenate([shapely.get_rings(flat), flat[shapely.get_type_id(flat) == 1]])
    coords, owner = shapely.get_coordinates(lines, return_index=True)
    same = owner[1:] == owner[:-1]
    return shapely.linestrings(np.stack([coords[:-1][same], coords[1:][same]], axis=1))


def far_vertices(geometry, operands):
    """How far, in ulps, the farthest vertex lies from the linework of the input."""
    step = ulp(operands)
    coords = shapely.get_coordinates(geometry)
    given = np.unique(shapely.get_coordinates(operands), axis=0)
    known = {tuple(c) for c in given.tolist()}
    new = [c for c in coords.tolist() if tuple(c) not in known]
    if not new:
        return 0.0
    _, distance = shapely.STRtree(segments(operands)).query_nearest(shapely.points(new), return_distance=True, all_matches=False)
    return float(distance.max()) / step


SHAPELY = {
    "union": shapely.union,
    "intersection": shapely.intersection,
    "difference": shapely.difference,
    "symdifference": shapely.symmetric_difference,
}


def with_shapely(op, operands):
    """shapely's result; None where it fails or gives something invalid."""
    try:
        if op == "union":
            sides = [member for operand in operands for member in operand]
            found = shapely.union_all(sides) if len(sides) != 2 else shapely.union(*sides)
        else:
            found = functools.reduce(SHAPELY[op], (operand[0] if len(operand) == 1 else shapely.union_all(operand) for operand in operands))
    except shapely.errors.GEOSException:
        return None
    return found if shapely.is_valid(found) else None


def lower_differs(lines, points, other_lines, other_points, width):
    """Whether lines and points are not the same up to a width: vertices and middles of edges far from the others' edges, more length."""
    if len(points) != len(other_points) or bool(lines) != bool(other_lines):
        return True
    if points:
        apart = shapely.get_coordinates(points)[:, None, :] - shapely.get_coordinates(other_points)[None, :, :]
        apart = np.abs(apart).max(axis=2)
        if max(apart.min(axis=0).max(), apart.min(axis=1).max()) > width:
            return True
    if not lines:
        return False
    ours, theirs = segments(lines), segments(other_lines)
    if abs(shapely.length(ours).sum() - shapely.length(theirs).sum()) > width * (len(ours) + len(theirs)):
        return True
    for one, two in ((ours, theirs), (theirs, ours)):
        places = np.concatenate([shapely.line_interpolate_point(one, along, normalized=True) for along in (0, 0.5, 1)])
        _, distance = shapely.STRtree(two).query_nearest(places, return_distance=True, all_matches=False)
        if distance.max() > width:
            return True
    return False


class Verdict:
    """problems: what is wrong with our result, as text. notes: what was seen on the way, to be counted."""

    def __init__(self):
        self.problems, self.notes = [], []


def judge(op, operands, result, exact_lower=True):
    """A result held against shapely and, where that differs, against rational arithmetic. Operands are lists of shapely geometries, the
    result is one. With exact_lower lines and points have to be the same too; they need not be where edges run closer to each other
    than their coordinates can say."""
    verdict = Verdict()
    verdict.problems += shape_problems(result)
    members = [member for operand in operands for member in operand]
    step = ulp(members)
    size = max((float(shapely.area(operand).sum()) for operand in operands), default=0.0)
    around = float(shapely.length(members).sum())
    allowed = RELATIVE * size + 8 * step * around
    width = max(1e-9 * float(np.abs(shapely.get_coordinates(members)).max()), 64 * step) if step else 0.0
    far = far_vertices(result, members)
    if far > 64:
        verdict.problems.append(f"a vertex {far:.0f} ulps from any edge of the input")
    polygons, lines, points = parts(result)
    theirs = with_shapely(op, operands)
    reason = "shapely fails" if theirs is None else None
    if theirs is not None:
        other = parts(theirs)
        try:
            ours_area, their_area = shapely.MultiPolygon(polygons), shapely.MultiPolygon(other[0])
            if abs(ours_area.area - their_area.area) > allowed:
                reason = f"area {ours_area.area!r}, shapely's {their_area.area!r}"
            elif shapely.area(shapely.symmetric_difference(ours_area, their_area)) > allowed:
                reason = "area elsewhere than shapely's"
            elif exact_lower and lower_differs(lines, points, other[1], other[2], width):
                reason = "lines or points are not shapely's"
        except shapely.errors.GEOSException:
            reason = "shapely cannot compare"
    if reason is None:
        return verdict
    if shapely.get_num_coordinates(members).sum() > MOST_EXACT:
        verdict.notes.append(f"undecided: {reason.split(',')[0]}")
        return verdict
    try:
        coded = [[shapely.to_wkb(member) for member in operand] for operand in operands]
        wrong, area = exact_overlay.wrong_area(op, coded, shapely.to_wkb(result))
        if wrong > allowed:
            verdict.problems.append(f"{reason}; exact area {float(area)!r}, {float(wrong)!r} of the result wrong, allowed {allowed!r}")
        elif exact_lower:
            true_lines, true_points = exact_overlay.lines_and_points(op, coded)
            true_lines = [shapely.LineString(line) for line in true_lines]
            if lower_differs(lines, points, true_lines, shapely.points(true_points).tolist() if true_points else [], width):
                verdict.problems.append(f"{reason}; exact lines {shapely.MultiLineString(true_lines).wkt}, points {true_points}")
            else:
                verdict.notes.append(f"shapely is wrong: {reason.split(',')[0]}")
        else:
            verdict.notes.append(f"shapely is wrong: {reason.split(',')[0]}")
    except InvalidPolygon as error:
        verdict.problems.append(f"{reason}; {error} (exact)")
    return verdict


# ---------------------------------------------------------------------------------------------------------------------
# The same input, written otherwise
# ---------------------------------------------------------------------------------------------------------------------
def rewritten(geometry, rng):
    """The same point set with its members, rings, starts and directions in another order."""

    def turned(coords):
        inner = coords[:-1]
        at = rng.randrange(len(inner))
        inner = inner[at:] + inner[:at]
        if rng.random() < 0.5:
            inner = inner[::-1]
        return inner + inner[:1]

    kind = geometry.geom_type
    if geometry.is_empty or kind == "Point":
        return geometry
    if kind == "LineString":
        return shapely.reverse(geometry) if rng.random() < 0.5 else geometry
    if kind == "Polygon":
        holes = [turned(list(hole.coords)) for hole in geometry.interiors]
        rng.shuffle(holes)
        return shapely.Polygon(turned(list(geometry.exterior.coords)), holes)
    members = [rewritten(member, rng) for member in geometry.geoms]
    rng.shuffle(members)
    return type(geometry)(members)
