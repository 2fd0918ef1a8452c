"""Coordinate reference systems: columns that have one are read without a cast, and results keep it."""
import duckdb
import functions
import pytest

CRS84 = "GEOMETRY('OGC:CRS84')"


@pytest.fixture(scope="module")
def column(connect, tmp_path_factory):
    """A connection with a GeoParquet file, whose geometries have a CRS, as view `t`"""
    path = tmp_path_factory.mktemp("crs") / "points.parquet"
    with connect() as connection:
        connection.execute(f"COPY (SELECT ST_Point(i, i) AS g FROM range(10) r(i)) TO '{path}'")
        connection.execute(f"CREATE VIEW t AS SELECT * FROM '{path}'")
        assert connection.execute("SELECT DISTINCT typeof(g) FROM t").fetchall() == [(CRS84,)]
        yield connection


@pytest.mark.parametrize("call", ["ST_Area(g)", "ST_X(g)", "ST_Within(g, ST_Point(1, 1))", "ST_Distance(g, g)",
                                  "ST_GeometryType(g)", "ST_Collect([g])", "ST_MakeLine(g, g)", "ST_Dump(g)"])
def test_no_cast_around_a_column(column, call):
    plan = column.execute(f"EXPLAIN SELECT {call} FROM t").fetchone()[1]
    assert "CAST" not in plan.upper()


def test_result_keeps_it(column):
    """Every function that makes a geometry of one, by its examples"""
    kept = set()
    for name, overloads in functions.registered(column).items():
        if overloads[0]["function_type"] != "scalar":
            continue
        for example in {example for overload in overloads for example in overload["examples"]}:
            call = example.split(" -- ")[0]
            if "::GEOMETRY" in call and column.execute(f"SELECT typeof({call})").fetchone() == ("GEOMETRY",):
                call = call.replace("::GEOMETRY", f"::{CRS84}")
                assert column.execute(f"SELECT typeof({call})").fetchone() == (CRS84,), call
                kept.add(name)
    assert len(kept) > 40


@pytest.mark.parametrize("call", ["ST_Buffer(g, 1)", "ST_Buffer(g, 1, 2)", "ST_Collect([g])", "ST_MakeLine(g, g)",
                                  "ST_MakeLine(ST_Point(1, 2), g)", "ST_MakeLine([g, g])"])
def test_result_of_a_column_keeps_it(column, call):
    assert column.execute(f"SELECT DISTINCT typeof({call}) FROM t").fetchall() == [(CRS84,)]


def test_result_keeps_it_inside(column):
    query = "SELECT DISTINCT typeof(ST_Dump(g)), typeof(unnest(ST_Dump(g)).geom) FROM t"
    assert column.execute(query).fetchall() == [(f"STRUCT(geom {CRS84}, path INTEGER[])[]", CRS84)]


@pytest.mark.parametrize("name", ["ST_Within", "vibe_within", "ST_Intersects", "ST_Relate", "ST_Distance", "ST_MakeLine"])
def test_two_are_refused(column, name):
    with pytest.raises(duckdb.BinderException, match=f"{name}: .*'OGC:CRS84' and 'OGC:CRS83'"):
        column.execute(f"SELECT {name}(g, 'POINT (1 2)'::GEOMETRY('OGC:CRS83')) FROM t")


def test_two_are_refused_in_lists(column):
    shell = "'LINESTRING (0 0, 9 0, 9 9, 0 0)'::GEOMETRY('OGC:CRS84')"
    hole = "'LINESTRING (4 1, 5 1, 5 2, 4 1)'::GEOMETRY('OGC:CRS83')"
    with pytest.raises(duckdb.BinderException, match="ST_MakePolygon: .*'OGC:CRS84' and 'OGC:CRS83'"):
        column.execute(f"SELECT ST_MakePolygon({shell}, [{hole}])")


def test_one_and_none_go_together(column):
    assert column.execute("SELECT count(*) FROM t WHERE ST_Intersects(g, 'POINT (1 1)'::GEOMETRY)").fetchone() == (1,)
    assert column.execute("SELECT count(*) FROM t WHERE ST_Intersects(g, 'POINT (1 1)')").fetchone() == (1,)
