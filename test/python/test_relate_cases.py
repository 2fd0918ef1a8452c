"""DE-9IM cases known from the literature (OGC Simple Features, Egenhofer and Herring, JTS), on geometries of our own.

Each case: two geometries, the matrix, and the names that hold. What is not named must not hold. Every case is asked in
both orders, so the mirrored names are checked too, and is first put to the exact oracle.
"""

import pytest
import shapely

from exact import exact_relate

SQUARE = "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))"
DONUT = "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (3 3, 6 3, 6 6, 3 6, 3 3))"
NOTCHED = "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (5 0, 6 4, 4 4, 5 0))"
CORNERS = "MULTIPOLYGON(((0 0, 2 0, 2 2, 0 2, 0 0)), ((2 2, 4 2, 4 4, 2 4, 2 2)))"
ISLAND = "MULTIPOLYGON(((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 8 1, 8 8, 1 8, 1 1)), ((3 3, 5 3, 5 5, 3 5, 3 3)))"
HALVES = "GEOMETRYCOLLECTION(POLYGON((0 0, 2 0, 2 4, 0 4, 0 0)), POLYGON((2 0, 4 0, 4 4, 2 4, 2 0)))"
MIRROR = {
    "contains": "within",
    "within": "contains",
    "covers": "coveredby",
    "coveredby": "covers",
    "containsproperly": "withinproperly",
    "withinproperly": "containsproperly",
}

# What often holds together
SAME_ALL = "intersects equals contains within covers coveredby containsproperly withinproperly"
SAME = "intersects equals contains within covers coveredby"
INSIDE = "intersects contains covers containsproperly"
HELD = "intersects contains covers"
ON_EDGE = "intersects touches covers"

CASES = [
    # The eight relations of two simple areas
    (SQUARE, "POLYGON((6 0, 8 0, 8 4, 6 4, 6 0))", "FF2FF1212", "disjoint"),
    (SQUARE, "POLYGON((4 0, 8 0, 8 4, 4 4, 4 0))", "FF2F11212", "intersects touches"),
    (SQUARE, "POLYGON((4 4, 8 4, 8 8, 4 8, 4 4))", "FF2F01212", "intersects touches"),
    (SQUARE, "POLYGON((2 2, 6 2, 6 6, 2 6, 2 2))", "212101212", "intersects overlaps"),
    (SQUARE, "POLYGON((1 1, 3 1, 3 3, 1 3, 1 1))", "212FF1FF2", INSIDE),
    (SQUARE, "POLYGON((0 0, 2 0, 2 2, 0 2, 0 0))", "212F11FF2", HELD),
    (SQUARE, "POLYGON((4 4, 0 4, 0 0, 2 0, 4 0, 4 4))", "2FFF1FFF2", SAME),
    (SQUARE, "POLYGON((-1 -1, 5 -1, 5 5, -1 5, -1 -1))", "2FF1FF212", "intersects within coveredby withinproperly"),
    (SQUARE, "POLYGON((0 0, 8 0, 8 4, 0 4, 0 0))", "2FF11F212", "intersects within coveredby"),
    # Two areas that cross in a plus: their boundaries cross, neither has a vertex in the other
    ("POLYGON((0 2, 6 2, 6 4, 0 4, 0 2))", "POLYGON((2 0, 4 0, 4 6, 2 6, 2 0))", "212101212", "intersects overlaps"),
    # Holes
    (DONUT, "POLYGON((4 4, 5 4, 5 5, 4 5, 4 4))", "FF2FF1212", "disjoint"),
    (DONUT, "POLYGON((3 3, 6 3, 6 6, 3 6, 3 3))", "FF2F112F2", "intersects touches"),
    (DONUT, "POLYGON((3 3, 4 5, 5 4, 3 3))", "FF2F01212", "intersects touches"),
    (DONUT, "POLYGON((1 1, 8 1, 8 8, 1 8, 1 1))", "2121F12F2", "intersects overlaps"),
    (DONUT, "POLYGON((1 1, 8 1, 8 8, 1 8, 1 1), (2 2, 7 2, 7 7, 2 7, 2 2))", "212FF1FF2", INSIDE),
    (DONUT, "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0))", "2FF11F2F2", "intersects within coveredby"),
    (DONUT, "POINT(4.5 4.5)", "FF2FF10F2", "disjoint"),
    (DONUT, "POINT(3 4)", "FF20F1FF2", ON_EDGE),
    (DONUT, "LINESTRING(3 3, 6 6)", "FF2F011F2", "intersects touches"),
    (DONUT, "LINESTRING(3 3, 6 3, 6 6, 3 6, 3 3)", "FF21F1FF2", ON_EDGE),
    (DONUT, "LINESTRING(1 4, 8 4)", "1020F11F2", "intersects crosses"),
    # Holes that touch the shell: a vertex of the hole on the shell, and in the middle of an edge
    ("POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (0 0, 4 2, 2 4, 0 0))", "POINT(0 0)", "FF20F1FF2", ON_EDGE),
    (NOTCHED, "LINESTRING(0 0, 9 0)", "FF2101FF2", ON_EDGE),
    (NOTCHED, "LINESTRING(5 0, 5 4)", "FF2F011F2", "intersects touches"),
    (NOTCHED, "POLYGON((5 0, 6 4, 4 4, 5 0))", "FF2F112F2", "intersects touches"),
    # Points
    ("POINT(1 2)", "POINT(1 2)", "0FFFFFFF2", SAME_ALL),
    ("POINT(1 2)", "POINT(2 1)", "FF0FFF0F2", "disjoint"),
    ("MULTIPOINT(1 1, 2 2)", "MULTIPOINT(2 2, 3 3)", "0F0FFF0F2", "intersects overlaps"),
    ("MULTIPOINT(1 1, 2 2)", "POINT(2 2)", "0F0FFFFF2", INSIDE),
    ("MULTIPOINT(1 1, 2 2)", "MULTIPOINT(2 2, 1 1, 1 1)", "0FFFFFFF2", SAME_ALL),
    (SQUARE, "POINT(2 2)", "0F2FF1FF2", INSIDE),
    (SQUARE, "POINT(4 2)", "FF20F1FF2", ON_EDGE),
    (SQUARE, "POINT(0 0)", "FF20F1FF2", ON_EDGE),
    (SQUARE, "POINT(5 2)", "FF2FF10F2", "disjoint"),
    (SQUARE, "MULTIPOINT(2 2, 5 5)", "0F2FF10F2", "intersects crosses"),
    (SQUARE, "MULTIPOINT(4 2, 5 5)", "FF20F10F2", "intersects touches"),
    (SQUARE, "MULTIPOINT(2 2, 4 2)", "0F20F1FF2", HELD),
    ("LINESTRING(0 0, 4 4)", "POINT(2 2)", "0F1FF0FF2", INSIDE),
    ("LINESTRING(0 0, 4 4)", "POINT(4 4)", "FF10F0FF2", ON_EDGE),
    ("LINESTRING(0 0, 4 4)", "MULTIPOINT(0 0, 4 4)", "FF10FFFF2", ON_EDGE),
    ("LINESTRING(0 0, 4 4)", "MULTIPOINT(2 2, 3 0)", "0F1FF00F2", "intersects crosses"),
    # Lines
    ("LINESTRING(0 0, 4 4)", "LINESTRING(0 4, 4 0)", "0F1FF0102", "intersects crosses"),
    ("LINESTRING(0 0, 4 4)", "LINESTRING(2 2, 4 0)", "F01FF0102", "intersects touches"),
    ("LINESTRING(0 0, 4 4)", "LINESTRING(4 4, 8 0)", "FF1F00102", "intersects touches"),
    ("LINESTRING(0 0, 4 4)", "LINESTRING(2 2, 6 6)", "1010F0102", "intersects overlaps"),
    ("LINESTRING(0 0, 4 4)", "LINESTRING(1 1, 3 3)", "101FF0FF2", INSIDE),
    ("LINESTRING(0 0, 4 4)", "LINESTRING(0 0, 2 2)", "101F00FF2", HELD),
    ("LINESTRING(0 0, 4 4)", "LINESTRING(4 4, 2 2, 0 0)", "1FFF0FFF2", SAME),
    ("LINESTRING(0 0, 4 4)", "LINESTRING(0 1, 4 5)", "FF1FF0102", "disjoint"),
    ("LINESTRING(0 0, 4 0)", "LINESTRING(1 0, 2 1, 3 0)", "F01FF01F2", "intersects touches"),
    ("LINESTRING(0 0, 4 0)", "LINESTRING(1 1, 2 0, 3 1)", "0F1FF0102", "intersects crosses"),
    # Closed lines have no boundary; the ring's start is an interior point
    ("LINESTRING(0 0, 4 0, 4 4, 0 0)", "POINT(0 0)", "0F1FFFFF2", INSIDE),
    ("LINESTRING(0 0, 4 0, 4 4, 0 0)", "LINESTRING(0 0, -4 0)", "F01FFF102", "intersects touches"),
    ("LINESTRING(0 0, 4 0, 4 4, 0 0)", "LINESTRING(4 4, 0 0, 4 0, 4 4)", "1FFFFFFF2", SAME_ALL),
    # Mod-2: two ends that meet are interior, three are a boundary
    ("MULTILINESTRING((0 0, 2 2), (2 2, 4 0))", "POINT(2 2)", "0F1FF0FF2", INSIDE),
    ("MULTILINESTRING((0 0, 2 2), (2 2, 4 0), (2 2, 2 5))", "POINT(2 2)", "FF10F0FF2", ON_EDGE),
    ("MULTILINESTRING((0 0, 2 2), (2 2, 4 0))", "LINESTRING(0 0, 2 2, 4 0)", "1FFF0FFF2", SAME),
    # An end in the middle of the other line of the same geometry stays a boundary
    ("MULTILINESTRING((0 0, 4 0), (2 0, 2 3))", "POINT(2 0)", "FF10F0FF2", ON_EDGE),
    # Lines that cross themselves
    ("LINESTRING(0 0, 4 4, 4 0, 0 4)", "POINT(2 2)", "0F1FF0FF2", INSIDE),
    ("LINESTRING(0 0, 4 0, 2 0)", "POINT(2 0)", "FF10F0FF2", ON_EDGE),
    # Lines and areas
    (SQUARE, "LINESTRING(1 1, 3 3)", "102FF1FF2", INSIDE),
    (SQUARE, "LINESTRING(0 0, 4 4)", "1F2F01FF2", HELD),
    (SQUARE, "LINESTRING(0 0, 4 0)", "FF2101FF2", ON_EDGE),
    (SQUARE, "LINESTRING(1 0, 6 0)", "FF2101102", "intersects touches"),
    (SQUARE, "LINESTRING(4 2, 6 2)", "FF2F01102", "intersects touches"),
    (SQUARE, "LINESTRING(-1 2, 5 2)", "1F20F1102", "intersects crosses"),
    (SQUARE, "LINESTRING(2 2, 5 2)", "1020F1102", "intersects crosses"),
    (SQUARE, "LINESTRING(-1 5, 2 4, 5 5)", "FF20F1102", "intersects touches"),
    (SQUARE, "LINESTRING(0 0, 4 0, 4 4, 0 4, 0 0)", "FF21FFFF2", ON_EDGE),
    (SQUARE, "LINESTRING(0 2, 2 2, 0 3)", "1F2F01FF2", HELD),
    (SQUARE, "LINESTRING(0 0, 2 2, 4 0, 4 4)", "1F2101FF2", HELD),
    # Multipolygons that touch at a point, and what passes through it
    (CORNERS, "POINT(2 2)", "FF20F1FF2", ON_EDGE),
    (CORNERS, "LINESTRING(1 1, 3 3)", "1020F1FF2", HELD),
    (CORNERS, "LINESTRING(0 4, 4 0)", "FF20F1102", "intersects touches"),
    (CORNERS, SQUARE, "2FF11F212", "intersects within coveredby"),
    # A part of a multipolygon in the hole of another
    (ISLAND, "POINT(4 4)", "0F2FF1FF2", INSIDE),
    (ISLAND, "POINT(2 2)", "FF2FF10F2", "disjoint"),
    # Collections are unions: a shared edge of two polygons is inside
    (HALVES, SQUARE, "2FFF1FFF2", SAME),
    (HALVES, "POINT(2 2)", "0F2FF1FF2", INSIDE),
    (HALVES, "POINT(2 0)", "FF20F1FF2", ON_EDGE),
    (
        "GEOMETRYCOLLECTION(POLYGON((0 0, 3 0, 3 4, 0 4, 0 0)), POLYGON((1 0, 4 0, 4 4, 1 4, 1 0)))",
        "LINESTRING(1 0, 1 4)",
        "1F2F01FF2",
        HELD,
    ),
    # An area takes precedence over a line, a line over a point
    (f"GEOMETRYCOLLECTION({SQUARE}, LINESTRING(1 1, 3 3))", SQUARE, "2FFF1FFF2", SAME),
    (f"GEOMETRYCOLLECTION({SQUARE}, LINESTRING(2 2, 6 2))", "POINT(2 2)", "0F2FF1FF2", INSIDE),
    (f"GEOMETRYCOLLECTION({SQUARE}, LINESTRING(2 2, 6 2))", "POINT(6 2)", "FF20F1FF2", ON_EDGE),
    (f"GEOMETRYCOLLECTION({SQUARE}, LINESTRING(2 2, 6 2))", "POINT(4 2)", "FF20F1FF2", ON_EDGE),
    ("GEOMETRYCOLLECTION(LINESTRING(0 0, 4 0), POINT(0 0))", "POINT(0 0)", "FF10F0FF2", ON_EDGE),
    ("GEOMETRYCOLLECTION(LINESTRING(0 0, 4 0), POINT(1 0))", "LINESTRING(0 0, 4 0)", "1FFF0FFF2", SAME),
    (
        f"GEOMETRYCOLLECTION(GEOMETRYCOLLECTION({SQUARE}), POINT(9 9), POINT EMPTY)",
        "MULTIPOINT(9 9, 2 2)",
        "0F2FF1FF2",
        INSIDE,
    ),
    (f"GEOMETRYCOLLECTION({SQUARE}, POINT(9 9))", SQUARE, "2F0F1FFF2", HELD),
    # Zero-length lines are points, repeated vertices do not matter
    ("LINESTRING(1 2, 1 2)", "POINT(1 2)", "0FFFFFFF2", SAME_ALL),
    ("LINESTRING(2 2, 2 2)", SQUARE, "0FFFFF212", "intersects within coveredby withinproperly"),
    ("LINESTRING(0 0, 0 0, 4 4, 4 4)", "LINESTRING(0 0, 4 4)", "1FFF0FFF2", SAME),
    # Empty geometries: equal to each other, disjoint from everything
    ("POINT EMPTY", "GEOMETRYCOLLECTION EMPTY", "FFFFFFFF2", "disjoint equals"),
    ("POLYGON EMPTY", SQUARE, "FFFFFF212", "disjoint"),
    ("LINESTRING EMPTY", "LINESTRING(0 0, 1 1)", "FFFFFF102", "disjoint"),
    ("MULTIPOINT EMPTY", "LINESTRING(0 0, 1 0, 1 1, 0 0)", "FFFFFF1F2", "disjoint"),
    ("GEOMETRYCOLLECTION(POINT EMPTY)", "POINT(1 1)", "FFFFFF0F2", "disjoint"),
    ("MULTIPOLYGON(EMPTY, ((0 0, 4 0, 4 4, 0 4, 0 0)))", SQUARE, "2FFF1FFF2", SAME),
]


def ask(con, a, b):
    columns = ", ".join(f"vibe_{name}(a, b)" for name in ("relate", *exact_relate.PREDICATES))
    row = con.execute(f"SELECT {columns} FROM (SELECT '{a}'::GEOMETRY AS a, '{b}'::GEOMETRY AS b)").fetchone()
    return {"relate": row[0], **dict(zip(exact_relate.PREDICATES, row[1:]))}


@pytest.fixture(scope="module")
def shared_con(connect):
    with connect() as connection:
        yield connection


@pytest.mark.parametrize("a, b, matrix, names", CASES)
def test_oracle(a, b, matrix, names):
    holds = set(names.split())
    found = exact_relate.decide(*shapely.to_wkb(shapely.from_wkt([a, b])))
    assert found == {"relate": matrix, **{name: name in holds for name in exact_relate.PREDICATES}}


@pytest.mark.parametrize("a, b, matrix, names", CASES)
def test_case(shared_con, a, b, matrix, names):
    holds = set(names.split())
    assert ask(shared_con, a, b) == {"relate": matrix, **{name: name in holds for name in exact_relate.PREDICATES}}
    turned = {MIRROR.get(name, name) for name in holds}
    mirrored = {"relate": exact_relate.transpose(matrix), **{name: name in turned for name in exact_relate.PREDICATES}}
    assert ask(shared_con, b, a) == mirrored
