"""Every function gives a row the same answer however the row comes: alone, in a column, repeated, or as a constant."""
import functions
import pytest

GEOMETRIES = [
    "POINT (1 2)", "POINT EMPTY", "POINT ZM (1 2 3 4)", "LINESTRING (0 0, 3 4)", "LINESTRING EMPTY",
    "LINESTRING Z (0 0 1, 1 0 2, 1 1 3, 0 0 1)", "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 1 2, 2 2, 1 1))",
    "POLYGON EMPTY", "MULTIPOINT (1 2, 3 4)", "MULTIPOINT EMPTY", "MULTILINESTRING ((0 0, 3 4), (0 0, 1 0))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 1, 0 0)), ((5 5, 7 5, 7 7, 5 7, 5 5)))",
    "GEOMETRYCOLLECTION (POINT (9 9), LINESTRING (0 0, 3 4))", "GEOMETRYCOLLECTION EMPTY", None,
]

# Arguments by their type; a second geometry is a point
ARGUMENTS = {"GEOMETRY": "g", "GEOMETRY[]": "[g, NULL, g]", "DOUBLE": "n", "INTEGER": "n", "BIGINT": "n", "BOOLEAN": "n = 1"}

# Calls that ARGUMENTS do not make, or that would fail for most rows
CALLS = [
    "vibe_buffer(g, n, 2, 'CAP_FLAT', 'JOIN_MITRE', n)", "vibe_simplify(g, abs(n))", "vibe_reduceprecision(g, abs(n))",
    "vibe_geomfromgeojson(vibe_asgeojson(g))", "vibe_geomfromtext(g::VARCHAR)", "vibe_geomfromtext(g::VARCHAR, n = 1)",
    "vibe_collect([g, NULL])", "vibe_makepoint(n, n + 1, 5)", "vibe_makeenvelope(n, 0, n + 1, 7)",
    "vibe_makeline(vibe_point(n, 0), vibe_point(0, n))", "vibe_makeline([vibe_point(n, 0), NULL, vibe_point(0, n)])",
    "vibe_makepolygon(vibe_exteriorring(vibe_makeenvelope(n, 0, n + 1, 7)))",
    "vibe_makepolygon(vibe_exteriorring(vibe_makeenvelope(n, 0, n + 9, 9)), "
    "[vibe_exteriorring(vibe_makeenvelope(n + 1, 1, n + 2, 2))])",
    "vibe_within(g, vibe_makeenvelope(0, 0, 4, 4))", "vibe_intersects(vibe_makeenvelope(0, 0, 4, 4), g)", "vibe_relate(g, g)",
]

ROWS = [(wkt, n) for wkt in GEOMETRIES for n in (1, 2, -1, None)]


@pytest.fixture(scope="module")
def tables(connect):
    with connect() as connection:
        connection.execute("CREATE TABLE few(i INTEGER, g GEOMETRY, n INTEGER)")
        connection.executemany("INSERT INTO few VALUES (?, ?::GEOMETRY, ?)",
                               [(i, wkt, n) for i, (wkt, n) in enumerate(ROWS)])
        # more than a vector, in storage
        connection.execute("CREATE TABLE many AS SELECT few.* FROM range(100), few")
        yield connection


def rows(connection, source, call):
    query = f"SELECT DISTINCT i, CAST({call} AS VARCHAR) FROM {source} ORDER BY ALL"
    return connection.execute(query).fetchall()


def registered_calls(connection):
    """A call of every overload that ARGUMENTS can call; NULL where it refuses the row"""
    for name, overloads in functions.registered(connection).items():
        for overload in overloads:
            types = overload["parameter_types"]
            if name.startswith("vibe_") and overload["function_type"] == "scalar" and types and set(types) <= set(ARGUMENTS):
                arguments = [ARGUMENTS[kind] for kind in types]
                if types[:2] == ["GEOMETRY", "GEOMETRY"]:
                    arguments[1] = "vibe_point(n, 0)"
                yield f"TRY({name}({', '.join(arguments)}))"


def assert_same_answer(tables, call):
    alone = []
    for i, (wkt, n) in enumerate(ROWS):
        text = "NULL" if wkt is None else f"'{wkt}'"
        constants = f"(SELECT {i} i, {text}::GEOMETRY g, {'NULL' if n is None else n}::INTEGER n)"
        alone += rows(tables, constants, call)
    assert len(alone) == len(ROWS), call
    assert rows(tables, "few", call) == alone, call
    assert rows(tables, "many", call) == alone, call
    # a join repeats the rows of its build side: dictionary vectors
    assert rows(tables, "(SELECT few.* FROM range(3000) r(k) JOIN few ON k % 60 = i)", call) == alone, call
    # a filter leaves a selection of the vector
    odd = [row for row in alone if row[0] % 2 == 1]
    assert rows(tables, "(SELECT * FROM many WHERE i % 2 = 1)", call) == odd, call


@pytest.mark.parametrize("call", CALLS)
def test_same_answer(tables, call):
    assert_same_answer(tables, call)


def test_same_answer_of_every_function(tables):
    calls = list(registered_calls(tables))
    assert len(calls) > 70
    for call in calls:
        assert_same_answer(tables, call)


def test_a_null_row_costs_no_neighbour(tables):
    query = "SELECT count(*), count(g), count(vibe_x(CASE WHEN vibe_geometrytype(g) = 'POINT' THEN g END)) FROM many"
    assert tables.execute(query).fetchone() == (100 * len(ROWS), 100 * 4 * 14, 100 * 4 * 2)
