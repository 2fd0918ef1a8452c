"""GeoDataFrames in and out, against GeoPandas and shapely themselves. Runs in an environment that has the wheel and GeoPandas."""
import decimal
import re

import duckdb
import geopandas
import numpy
import pandas
import pyarrow
import pyproj
import pytest
import shapely
import vibespatial
from shapely.geometry import LineString, MultiPoint, MultiPolygon, Point, Polygon, box

CRS = ["EPSG:4326", "EPSG:3857", "OGC:CRS84", "EPSG:25832", "+proj=laea +lat_0=52 +lon_0=10 +ellps=GRS80 +units=m", None]


@pytest.fixture
def con():
    with vibespatial.connect() as connection:
        yield connection


def frame_of(name):
    """Example data as a GeoDataFrame, read without any code of ours."""
    rows = duckdb.connect().sql(f"SELECT * EXCLUDE geom, ST_AsWKB(geom) AS wkb FROM '{vibespatial.example(name)}'").df()
    geometry = shapely.from_wkb([bytes(value) for value in rows.pop("wkb")])
    return geopandas.GeoDataFrame(rows, geometry=geometry, crs="OGC:CRS84")


def kinds():
    hole = Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(1, 1), (2, 1), (2, 2), (1, 2)]])
    collection = shapely.from_wkt("GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1 1))")
    return [Point(1, 2), LineString([(0, 0), (1, 1)]), hole, MultiPoint([(0, 0), (1, 1)]), MultiPolygon([hole, box(20, 20, 21, 21)]),
            shapely.from_wkt("MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))"), collection, Point(), Polygon(), None]


@pytest.mark.parametrize("crs", CRS, ids=str)
def test_the_crs_survives_both_ways(con, crs):
    frame = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=[Point(1, 2), None], crs=crs)
    vibespatial.register(con, "places", frame)
    back = vibespatial.to_geopandas(con.sql("FROM places"))
    assert back.crs == frame.crs
    # In a table of the database too, not only through a view of Arrow data
    con.execute("CREATE TABLE kept AS FROM places")
    assert vibespatial.to_geopandas("FROM kept WHERE id = 7", con).crs == frame.crs
    assert vibespatial.to_geopandas("SELECT ST_Centroid(geometry) AS c FROM kept", con).crs == frame.crs


@pytest.mark.parametrize("name", ["EPSG:4326", "EPSG:3857"])
def test_a_crs_given_as_projjson_survives(con, name):
    crs = pyproj.CRS.from_json(pyproj.CRS(name).to_json())
    frame = geopandas.GeoDataFrame(geometry=[Point(1, 2)], crs=crs)
    back = vibespatial.to_geopandas(vibespatial.register(con, "t", frame).sql("FROM t"))
    assert back.crs == pyproj.CRS(name) and back.crs.to_epsg() == int(name[5:])


def test_every_kind_of_geometry_is_the_same_after_the_way_there_and_back(con):
    frame = geopandas.GeoDataFrame({"id": range(len(kinds()))}, geometry=kinds(), crs="EPSG:3857")
    back = vibespatial.to_geopandas(vibespatial.register(con, "t", frame).sql("FROM t ORDER BY id"))
    assert list(back.geometry.isna()) == list(frame.geometry.isna())
    for old, new in zip(frame.geometry, back.geometry):
        assert old is None and new is None or shapely.to_wkb(old) == shapely.to_wkb(new)


def test_repeated_names_get_a_number(con):
    con.execute("CREATE TABLE twice AS SELECT 1 AS id, ST_Point(1, 2) AS geom")
    sql = "SELECT *, 7 AS ID FROM twice l JOIN twice r ON ST_Intersects(l.geom, r.geom)"
    back = vibespatial.to_geopandas(sql, con)
    assert list(back.columns) == list(con.sql(sql).df().columns) == ["id", "geom", "id_1", "geom_1", "ID_2"]
    assert back.geometry.name == "geom" and list(back.geom_1) == [shapely.Point(1, 2)]
    assert vibespatial.to_geopandas(sql, con, geometry="geom_1").geometry.name == "geom_1"


def test_z_and_m_survive(con):
    texts = ["POINT Z (1 2 3)", "POINT M (1 2 4)", "POINT ZM (1 2 3 4)", "LINESTRING Z (0 0 1, 1 1 2)", "POLYGON Z ((0 0 1, 1 0 1, 1 1 1, 0 0 1))"]
    frame = geopandas.GeoDataFrame({"id": range(len(texts))}, geometry=shapely.from_wkt(texts))
    back = vibespatial.to_geopandas(vibespatial.register(con, "t", frame).sql("FROM t ORDER BY id"))
    assert [shapely.to_wkt(value) for value in back.geometry] == [shapely.to_wkt(value) for value in frame.geometry]
    assert con.execute("SELECT ST_Z(geometry) FROM t WHERE id = 0").fetchall() == [(3.0,)]


def test_several_geometry_columns_each_with_its_crs(con):
    frame = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=[Point(1, 2), Point(3, 4)], crs="EPSG:4326")
    frame["area"] = geopandas.GeoSeries([box(0, 0, 1, 1), None], crs="EPSG:3857")
    vibespatial.register(con, "t", frame)
    back = vibespatial.to_geopandas("FROM t ORDER BY id", con)
    assert back.geometry.name == "geometry" and back.crs.to_epsg() == 4326
    assert back["area"].crs.to_epsg() == 3857 and back["area"].iloc[0].equals(box(0, 0, 1, 1)) and back["area"].iloc[1] is None
    chosen = vibespatial.to_geopandas("FROM t ORDER BY id", con, geometry="area")
    assert chosen.geometry.name == "area" and chosen.crs.to_epsg() == 3857
    with pytest.raises(ValueError, match="'id' is no geometry column of the result; those are geometry, area"):
        vibespatial.to_geopandas("FROM t", con, geometry="id")


@pytest.mark.parametrize("frame", [
    geopandas.GeoDataFrame({"id": numpy.array([], dtype="int64")}, geometry=[], crs="EPSG:4326"),
    geopandas.GeoDataFrame({"id": [1, 2]}, geometry=[None, None], crs="EPSG:4326"),
    geopandas.GeoDataFrame(geometry=[Point(), None], crs="EPSG:4326"),
], ids=["no rows", "all missing", "no other columns"])
def test_empty_frames(con, frame):
    back = vibespatial.to_geopandas(vibespatial.register(con, "t", frame).sql("FROM t"))
    assert back.crs == frame.crs and len(back) == len(frame) and list(back.columns) == list(frame.columns)
    assert list(back.geometry.isna()) == list(frame.geometry.isna())


def test_the_index_is_left_out_unless_it_is_asked_for(con):
    frame = geopandas.GeoDataFrame({"a": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], index=pandas.Index(["x", "y"], name="key"))
    assert vibespatial.register(con, "t", frame).sql("FROM t").columns == ["a", "geometry"]
    vibespatial.register(con, "t", frame, index=True)
    assert con.sql("SELECT key, a FROM t ORDER BY a").fetchall() == [("x", 1), ("y", 2)]
    vibespatial.register(con, "t", frame.set_index("a", append=True), index=True)
    assert con.sql("FROM t").columns == ["key", "a", "geometry"]
    vibespatial.register(con, "t", frame.rename_axis(None), index=True)
    assert con.sql("FROM t").columns == ["index", "a", "geometry"]
    # A frame with an index that is not 0, 1, ..: rows come with a new one
    back = vibespatial.to_geopandas(vibespatial.register(con, "t", frame).sql("FROM t"))
    assert list(back.index) == [0, 1] and list(back.columns) == ["a", "geometry"]


def test_columns_of_other_types(con):
    frame = geopandas.GeoDataFrame({
        "whole": [1, 2], "real": [0.5, numpy.nan], "text": ["a", None], "flag": [True, False],
        "day": pandas.to_datetime(["2024-01-01", "2024-01-02"]), "kind": pandas.Categorical(["x", "y"]), 7: ["number", "as name"],
    }, geometry=[Point(0, 0), Point(1, 1)])
    vibespatial.register(con, "t", frame)
    assert con.sql('SELECT whole, text, flag, kind, "7" FROM t ORDER BY whole').fetchall() == [
        (1, "a", True, "x", "number"), (2, None, False, "y", "as name")]
    back = vibespatial.to_geopandas("SELECT sum(whole) AS s, 1.50 AS d, any_value(geometry) AS g FROM t", con)
    assert back["s"].dtype == "float64" and back["s"][0] == 3.0 and back["d"][0] == 1.5
    assert decimal.Decimal not in {type(value) for value in back.drop(columns="g").iloc[0]}


def test_series_and_other_things(con):
    series = geopandas.GeoSeries([Point(1, 2)], crs="EPSG:3857")
    assert vibespatial.to_geopandas(vibespatial.register(con, "s", series).sql("FROM s")).geometry.name == "geometry"
    with pytest.raises(TypeError, match="a GeoDataFrame or GeoSeries is needed, not DataFrame; con.register"):
        vibespatial.register(con, "s", pandas.DataFrame({"a": [1]}))
    with pytest.raises(ValueError, match=r"no column of the result is GEOMETRY \(columns: a, b\); relation.df\(\)"):
        vibespatial.to_geopandas("SELECT 1 AS a, 2 AS b", con)
    with pytest.raises(ValueError, match="a query needs a connection"):
        vibespatial.to_geopandas("SELECT 1")
    with pytest.raises(ValueError, match="returns no rows|no column of the result is GEOMETRY"):
        vibespatial.to_geopandas("CREATE TABLE x (a INTEGER)", con)
    with pytest.raises(TypeError, match="a relation, a query or Arrow data is needed, not int"):
        vibespatial.to_geopandas(1)
    with pytest.raises(ValueError, match="there is no example 'rivers', only cities, countries, provinces"):
        vibespatial.example("rivers")


def test_everything_that_holds_a_result_becomes_a_frame(con):
    query = "SELECT 1 AS a, ST_Point(1, 2) AS g"
    table = pyarrow.table(con.sql(query))
    for source in (lambda: con.sql(query), lambda: con.execute(query), lambda: table, table.to_reader):
        frame = vibespatial.to_geopandas(source())
        assert list(frame.columns) == ["a", "g"] and frame.geometry[0] == Point(1, 2)
    frame = vibespatial.to_geopandas("SELECT ST_Point(?, $2) AS g", con, params=[3, 4])
    assert frame.geometry[0] == Point(3, 4)


@pytest.mark.parametrize("predicate, function", [("within", "ST_Within"), ("intersects", "ST_Intersects")])
def test_a_join_of_two_frames_has_the_rows_of_sjoin(con, predicate, function):
    cities, countries = frame_of("cities"), frame_of("countries")
    cities["city"], countries["country"] = range(len(cities)), range(len(countries))
    expected = geopandas.sjoin(cities[["city", "geometry"]], countries[["country", "geometry"]], predicate=predicate)
    rows = con.sql(f"SELECT city, country FROM cities c JOIN countries k ON {function}(c.geometry, k.geometry)")
    assert re.search("VIBE.SPATIAL.JOIN", rows.explain(), re.IGNORECASE)
    assert sorted(rows.fetchall()) == sorted(zip(expected["city"].tolist(), expected["country"].tolist())) and len(expected) > 5000
    back = vibespatial.to_geopandas("SELECT c.* FROM cities c SEMI JOIN countries k ON ST_Within(c.geometry, k.geometry)", con)
    assert back.crs == cities.crs and set(back["city"]) <= set(expected["city"])


def test_left_join_and_areas_of_provinces(con):
    provinces, cities = frame_of("provinces"), frame_of("cities")
    counts = con.sql("""SELECT p.name, p.country, count(c.name) AS n FROM provinces p
                        LEFT JOIN cities c ON ST_Contains(p.geometry, c.geometry) GROUP BY ALL""").df()
    joined = geopandas.sjoin(provinces, cities[["geometry"]], predicate="contains", how="left")
    expected = joined.groupby(["name", "country"], dropna=False)["index_right"].count()
    assert counts["n"].sum() == expected.sum() and len(counts) == len(expected)
    areas = con.sql("SELECT ST_Area(geometry) FROM provinces").fetchall()
    assert numpy.allclose([row[0] for row in areas], shapely.area(provinces.geometry.array), rtol=1e-12)


# ---- a GeoDataFrame in scope

everywhere = geopandas.GeoDataFrame({"id": [1, 2, 3]}, geometry=[Point(0, 0), Point(5, 5), None])
plain = pandas.DataFrame({"z": [10]})


def test_a_frame_in_scope_is_a_table(con):
    here = geopandas.GeoDataFrame({"id": [1]}, geometry=[box(-1, -1, 1, 1)])
    other = pandas.DataFrame({"y": [20]})
    assert con.sql("SELECT e.id FROM everywhere e JOIN here h ON ST_Within(e.geometry, h.geometry)").fetchall() == [(1,)]
    assert con.execute("SELECT count(*) FROM everywhere WHERE id > ?", [1]).fetchall() == [(2,)]
    assert con.query("SELECT e.id, y, z FROM everywhere e, other, plain WHERE e.id = 3").fetchall() == [(3, 20, 10)]
    assert con.sql(query="FROM here").columns == ["id", "geometry"]
    assert con.execute("SELECT 42").fetchall() == [(42,)]
    assert con.sql("SELECT $a", params={"a": 5}).fetchall() == [(5,)]
    assert len(vibespatial.to_geopandas("FROM here", con)) == 1


def test_a_local_name_hides_a_global_one(con):
    everywhere = pandas.DataFrame({"only": [1]})
    assert con.sql("FROM everywhere").columns == ["only"]


def test_a_relation_outlives_its_frame(con):
    def make():
        short_lived = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=[Point(1, 1), Point(2, 2)], crs="EPSG:3857")
        return con.sql("FROM short_lived")

    relation = make()
    assert relation.filter("id = 2").fetchall()[0][0] == 2
    assert vibespatial.to_geopandas(relation).crs.to_epsg() == 3857
    assert con.execute("SELECT count(*) FROM relation").fetchall() == [(2,)]


def test_a_frame_that_changed_is_read_as_it_is(con):
    frame = geopandas.GeoDataFrame({"id": [1]}, geometry=[Point(1, 1)])
    assert con.sql("SELECT id FROM frame").fetchall() == [(1,)]
    frame = geopandas.GeoDataFrame({"id": [2]}, geometry=[Point(1, 1)])
    assert con.sql("SELECT id FROM frame").fetchall() == [(2,)]


def test_cursors_and_closures(con):
    inner = geopandas.GeoDataFrame({"id": [9]}, geometry=[Point(1, 1)])

    def ask():
        assert len(inner) == 1  # a closure over the frame
        return con.cursor().execute("SELECT id FROM inner_frame").fetchall()

    with pytest.raises(duckdb.CatalogException, match="inner_frame"):
        ask()

    def ask_well():
        frame = inner
        return con.cursor().execute("SELECT id FROM frame").fetchall()

    assert ask_well() == [(9,)]


def test_where_nobody_has_a_frame_the_methods_are_those_of_duckdb(con):
    space = {"con": con}
    exec("method = con.sql", space)
    assert not hasattr(space["method"], "__wrapped__")
    exec("error = None\ntry:\n    con.sql('SELEC')\nexcept Exception as problem:\n    error = problem", space)
    assert isinstance(space["error"], duckdb.ParserException)


# ---- files of Arrow, by the plug-in of the wheel and the libarrow of pyarrow

def test_an_arrow_file_is_read_by_the_plug_in_of_the_wheel(con, tmp_path):
    if not (vibespatial.extension_path().parent.parent / "vibespatial" / "libvibespatial_arrow.so").exists():
        pytest.skip("this wheel was built without the Arrow plug-in")
    frame = geopandas.GeoDataFrame({"id": [1, 2, 3]}, geometry=[Point(1, 2), None, Point(3, 4)], crs="EPSG:3857")
    table = pyarrow.table(frame.to_arrow(index=False, geometry_encoding="WKB"))
    with pyarrow.ipc.new_file(tmp_path / "points.arrow", table.schema) as file:
        file.write_table(table)
    back = vibespatial.to_geopandas(f"FROM vibe_read_arrow('{tmp_path}/points.arrow') ORDER BY id", con)
    assert back.crs == frame.crs and list(back["id"]) == [1, 2, 3]
    assert back.geometry[0] == Point(1, 2) and back.geometry[1] is None
