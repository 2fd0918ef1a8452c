"""vibespatial and DuckDB's own spatial extension in one database, loaded in either order."""
import subprocess

import duckdb
import pytest

POLYGON = "'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))'::GEOMETRY"


@pytest.fixture(scope="module", params=["spatial first", "vibespatial first"])
def both(request, connect, extension, spatial_path):
    """A connection with both extensions"""
    paths = [spatial_path, extension] if request.param == "spatial first" else [extension, spatial_path]
    with connect(load=False) as connection:
        for path in paths:
            connection.execute(f"LOAD '{path}'")
        yield connection


def signatures(connection):
    """(name, argument types, return type) of every function, as often as it is there"""
    query = "SELECT function_name, function_type, parameter_types, return_type FROM duckdb_functions()"
    return sorted((name, kind, tuple(types), str(result)) for name, kind, types, result in
                  connection.execute(query).fetchall())


def value(connection, expression):
    return connection.execute(f"SELECT {expression}").fetchone()[0]


def test_all_functions_of_both(both, connect, spatial_path):
    with connect() as alone:
        ours = set(signatures(alone))
    with connect(load=False) as alone:
        alone.execute(f"LOAD '{spatial_path}'")
        theirs = set(signatures(alone))
    # An aggregate of a name that both have is one of them
    names = {name for name, kind, *_ in theirs if kind == "aggregate"}
    ours = {entry for entry in ours if entry[0] not in names}
    assert set(signatures(both)) == ours | theirs


def test_no_overload_twice(both):
    calls = [(name.lower(), types) for name, kind, types, _ in signatures(both)
             if kind == "scalar" and name.lower().startswith(("st_", "vibe_"))]
    assert len(calls) == len(set(calls))


def test_spatial_keeps_its_names(both):
    # spatial refuses an ordinate of a line in its own words
    with pytest.raises(duckdb.InvalidInputException, match="^(?!.*ST_X: )"):
        value(both, "ST_X('LINESTRING (0 0, 1 1)'::GEOMETRY)")
    with pytest.raises(duckdb.InvalidInputException, match="vibe_x: a POINT is needed"):
        value(both, "vibe_x('LINESTRING (0 0, 1 1)'::GEOMETRY)")


def test_what_only_one_has(both):
    assert value(both, f"ST_IsValidReason({POLYGON})") == "Valid Geometry"
    assert value(both, f"ST_Relate({POLYGON}, {POLYGON})") == "2FFF1FFF2"
    assert value(both, f"ST_Area(ST_Buffer({POLYGON}, 1))") > 16
    assert value(both, "ST_AsText(ST_Rotate(ST_Point(1, 0), pi() / 2))").startswith("POINT (")
    assert value(both, "ST_AsText(ST_Union_Agg(g)) FROM (VALUES (vibe_point(1, 2)), (ST_Point(3, 4))) t(g)") == (
        "MULTIPOINT (1 2, 3 4)")


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("ST_AsText(ST_MakePoint(1, 2))", "POINT (1 2)"),
        ("ST_AsText(vibe_makepoint(1, 2))", "POINT (1 2)"),
        ("ST_AsText(vibe_makepoint(1, 2, 3)::GEOMETRY)", "POINT Z (1 2 3)"),
        ("ST_AsText(vibe_makepoint(1, 2, 3, 4)::GEOMETRY)", "POINT ZM (1 2 3 4)"),
        ("vibe_x(ST_MakePoint(1, 2))", 1.0),
        ("ST_X(vibe_makepoint(1, 2))", 1.0),
        ("ST_Distance(vibe_makepoint(1, 2), ST_MakePoint(1, 3))", 1.0),
        ("vibe_distance(vibe_makepoint(1, 2), ST_MakePoint(1, 3))", 1.0),
        (f"ST_Area(vibe_extent({POLYGON}))", 16.0),
        (f"vibe_area(ST_Extent({POLYGON}))", 16.0),
        (f"ST_XMax(vibe_extent({POLYGON}))", 4.0),
        (f"vibe_extent({POLYGON})::VARCHAR", "BOX(0 0, 4 4)"),
        (f"ST_AsText(vibe_extent({POLYGON}))", "BOX(0 0, 4 4)"),
        (f"vibe_astext(ST_Extent({POLYGON}))", "BOX(0 0, 4 4)"),
        (f"vibe_astext({POLYGON})", "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"),
        (f"vibe_extent({POLYGON}) = ST_Extent({POLYGON})", True),
        (f"vibe_geometrytype({POLYGON}) = ST_GeometryType({POLYGON})", True),
        (f"typeof(ST_GeometryType({POLYGON}))", "GEOMETRY_TYPE"),
        ("ST_GeometryType(ST_Point2D(1, 2))", "POINT"),
        ("ST_AsText(ST_GeomFromGeoJSON(vibe_asgeojson(ST_Point(1, 2))))", "POINT (1 2)"),
        ("ST_AsText(vibe_geomfromgeojson(ST_AsGeoJSON(ST_Point(1, 2))))", "POINT (1 2)"),
        (f"ST_Within(vibe_point(1, 2), {POLYGON})", True),
        (f"vibe_within(ST_Point(1, 2), {POLYGON})", True),
        ("ST_Contains(ST_MakePolygon('LINESTRING (0 0, 4 0, 4 4, 0 0)'::GEOMETRY)::POLYGON_2D, ST_Point2D(2, 1))", True),
        ("typeof(vibe_centroid('POINT (1 2)'::GEOMETRY('EPSG:4326')))", "GEOMETRY('EPSG:4326')"),
        ("len(vibe_dump('MULTIPOINT (1 2, 3 4)'::GEOMETRY))", 2),
        ("vibe_version() LIKE 'v%'", True),
    ],
)
def test_mixed_calls(both, expression, expected):
    assert value(both, expression) == expected


AGGREGATES = ["ST_Union_Agg", "ST_CoverageUnion_Agg", "ST_Intersection_Agg", "ST_Extent_Agg", "ST_Envelope_Agg"]


def owner(connection, name):
    """Whose aggregate it is: the parameters of ours have names"""
    query = "SELECT parameters FROM duckdb_functions() WHERE function_name = ? AND function_type = 'aggregate'"
    (parameters,), = connection.execute(query, [name]).fetchall()
    return {"geom": "vibespatial", "col0": "spatial"}[parameters[0]]


def test_aggregates_of_spatial_are_its_own(both):
    assert [owner(both, name) for name in AGGREGATES] == ["spatial"] * 5
    assert owner(both, "ST_Collect_Agg") == "vibespatial"
    # Its union of no rows is a collection, ours is NULL
    rows = "FROM (SELECT ST_Point(1, 2) AS g LIMIT 0)"
    assert value(both, f"ST_AsText(ST_Union_Agg(g)) {rows}") == "GEOMETRYCOLLECTION EMPTY"
    assert value(both, f"vibe_union_agg(g) {rows}") is None
    squares = "FROM (VALUES (ST_MakeEnvelope(0, 0, 2, 2)), (ST_MakeEnvelope(1, 1, 3, 3))) t(g)"
    for name in AGGREGATES:
        own = "vibe_" + name.removeprefix("ST_").lower()
        if name != "ST_CoverageUnion_Agg":  # which is wrong where there is no coverage
            assert value(both, f"ST_Equals({name}(g), {own}(g)) {squares}") is True, name


def test_aggregates_alone(connect):
    with connect() as connection:
        assert [owner(connection, name) for name in AGGREGATES] == ["vibespatial"] * 5
        assert value(connection, "ST_Union_Agg(g) FROM (SELECT ST_Point(1, 2) AS g LIMIT 0)") is None


def test_spatial_comes_while_an_aggregate_is_in_use(connect, spatial_path):
    with connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 3 AS k, ST_MakeEnvelope(i, 0, i + 2, 1) AS g FROM range(30) r(i)")
        connection.execute("CREATE VIEW v AS SELECT k, ST_Area(ST_Union_Agg(g)) AS a FROM t GROUP BY k")
        connection.execute("PREPARE q AS SELECT ST_Area(ST_Union_Agg(g)) FROM t WHERE k < $1")
        before = connection.execute("FROM v ORDER BY k").fetchall()
        assert connection.execute("EXECUTE q(9)").fetchone() == (31.0,)
        result = connection.cursor().execute("SELECT k, ST_Area(ST_Union_Agg(g)) FROM t GROUP BY k ORDER BY k")
        # In a transaction that began before
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t SELECT 0, ST_MakeEnvelope(0, 0, 1, 1)")
        connection.execute(f"LOAD '{spatial_path}'")
        assert owner(connection, "ST_Union_Agg") == "spatial"
        connection.execute("COMMIT")
        assert result.fetchall() == before
        assert connection.execute("FROM v ORDER BY k").fetchall() == before
        assert connection.execute("EXECUTE q(9)").fetchone() == (31.0,)


def test_aggregates_stay_where_spatial_does_not_come(connect, tmp_path):
    with connect() as connection:
        broken = tmp_path / "spatial.duckdb_extension"
        broken.write_bytes(b"nothing")
        for _ in range(2):
            with pytest.raises(duckdb.Error):
                connection.execute(f"LOAD '{broken}'")
            assert [owner(connection, name) for name in AGGREGATES] == ["vibespatial"] * 5
            assert value(connection, "ST_AsText(ST_Union_Agg(ST_Point(1, 2)))") == "POINT (1 2)"


def test_spatial_comes_at_the_second_try(connect, spatial_path, tmp_path):
    with connect() as connection:
        broken = tmp_path / "spatial.duckdb_extension"
        broken.write_bytes(b"nothing")
        with pytest.raises(duckdb.Error):
            connection.execute(f"LOAD '{broken}'")
        connection.execute(f"LOAD '{spatial_path}'")
        assert owner(connection, "ST_Union_Agg") == "spatial"


def test_crs(both):
    points = "'POINT (1 2)'::GEOMETRY('EPSG:4326'), 'POINT (1 2)'::GEOMETRY('EPSG:3857')"
    for name in ("ST_Intersects", "vibe_intersects", "ST_MakeLine", "vibe_makeline"):
        with pytest.raises(duckdb.BinderException, match=f"{name}.*different coordinate reference systems"):
            value(both, f"{name}({points})")
    assert value(both, "vibe_intersects('POINT (1 2)'::GEOMETRY('EPSG:4326'), 'POINT (1 2)'::GEOMETRY)")


def test_a_table_written_before_is_read_after(connect, extension, spatial_path):
    with connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT ST_MakePoint(i, i + 1) p, ST_Point(i, i) g, "
                           "ST_Extent(ST_Point(i, i)) b FROM range(10) r(i)")
        connection.execute("CREATE VIEW v AS SELECT ST_X(p) x, ST_Area(b) a, ST_GeometryType(g) k FROM t")
        before = connection.execute("SELECT * FROM v ORDER BY x").fetchall()
        connection.execute(f"LOAD '{spatial_path}'")
        assert connection.execute("SELECT * FROM v ORDER BY x").fetchall() == before


def test_prepared_statement_across_load(connect, extension, spatial_path):
    with connect() as connection:
        connection.execute(f"PREPARE q AS SELECT ST_Within(ST_Point($1, 1), {POLYGON})")
        assert connection.execute("EXECUTE q(1)").fetchone()[0] is True
        connection.execute(f"LOAD '{spatial_path}'")
        assert connection.execute("EXECUTE q(5)").fetchone()[0] is False


def test_macros_and_views_of_the_user_stay(connect, extension):
    with connect(load=False) as connection:
        connection.execute("CREATE MACRO ST_Area(g) AS 42")
        connection.execute(f"LOAD '{extension}'")
        assert value(connection, f"ST_Area({POLYGON})") == 42
        assert value(connection, f"vibe_area({POLYGON})") == 16.0


@pytest.mark.parametrize("first, second", [("spatial", "vibespatial"), ("vibespatial", "spatial")])
def test_in_the_shell(cli, extension, spatial_path, first, second):
    paths = {"spatial": spatial_path, "vibespatial": extension}
    sql = (f"LOAD '{paths[first]}'; LOAD '{paths[second]}';"
           f"SELECT ST_Within(vibe_point(1, 2), {POLYGON}) AND vibe_within(ST_Point(1, 2), {POLYGON}) AS ok,"
           f" vibe_extent({POLYGON}) AS box, ST_MakePoint(1, 2) AS point;")
    result = subprocess.run([str(cli), "-unsigned", "-csv", "-noheader", "-c", sql], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    assert result.stdout.strip() == 'true,"BOX(0 0, 4 4)",POINT (1 2)'
