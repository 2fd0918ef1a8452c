"""Native GeoArrow in and out: shapely, pyarrow and geoarrow-pyarrow say what is right."""
import json
import math
import pathlib
import struct
import subprocess
import sys
import textwrap

import duckdb
import geoarrow.pyarrow as ga
import geopandas
import numpy as np
import pyarrow as pa
import pytest
import shapely

KINDS = ["point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"]
DIMENSIONS = {"": ga.Dimensions.XY, "_z": ga.Dimensions.XYZ, "_m": ga.Dimensions.XYM, "_zm": ga.Dimensions.XYZM}
LAYOUTS = {"": ga.CoordType.SEPARATED, "_interleaved": ga.CoordType.INTERLEAVED}


def native_type(kind, dimensions="", layout=""):
    return getattr(ga, kind)().with_dimensions(DIMENSIONS[dimensions]).with_coord_type(LAYOUTS[layout])


class Shapes:
    """Random geometries of one kind, with NULL and EMPTY ones among them, as well-known text."""

    def __init__(self, seed, kind, dimensions=""):
        self.rng, self.kind = np.random.default_rng(seed), kind
        self.tag = {"": "", "_z": " Z", "_m": " M", "_zm": " ZM"}[dimensions]
        self.width = 2 + len(dimensions.strip("_"))

    def vertex(self):
        return " ".join(repr(float(v)) for v in self.rng.normal(0, 100, self.width).round(3))

    def line(self, least=2):
        return "(" + ", ".join(self.vertex() for _ in range(self.rng.integers(least, 8))) + ")"

    def ring(self):
        vertices = [self.vertex() for _ in range(self.rng.integers(3, 8))]
        return "(" + ", ".join([*vertices, vertices[0]]) + ")"

    def polygon(self):
        return "(" + ", ".join(self.ring() for _ in range(self.rng.integers(1, 4))) + ")"

    def body(self):
        many = range(self.rng.integers(1, 5))
        if self.kind == "point":
            return f"({self.vertex()})"
        if self.kind == "linestring":
            return self.line()
        if self.kind == "polygon":
            return self.polygon()
        part = {"multipoint": lambda: f"({self.vertex()})", "multilinestring": self.line, "multipolygon": self.polygon}
        return "(" + ", ".join(part[self.kind]() for _ in many) + ")"

    def row(self):
        chance = self.rng.random()
        if chance < 0.1:
            return None
        return f"{self.kind.upper()}{self.tag} {'EMPTY' if chance < 0.2 else self.body()}"

    def rows(self, count):
        return [self.row() for _ in range(count)]


def empty_wkb(text):
    """shapely forgets the dimensions of some EMPTY geometries."""
    kind, *tag = text.split()[:-1]
    dimensions = ["", "Z", "M", "ZM"].index("".join(tag))
    header = struct.pack("<BI", 1, KINDS.index(kind.lower()) + 1 + 1000 * dimensions)
    width = 2 + len("".join(tag))
    return header + (struct.pack("<d", math.nan) * width if kind == "POINT" else struct.pack("<I", 0))


def wkb_of(wkts):
    """The WKB of well-known text by shapely, as DuckDB writes it: little-endian, ISO."""

    def one(text):
        return empty_wkb(text) if text.endswith("EMPTY") else shapely.to_wkb(shapely.from_wkt(text), byte_order=1, flavor="iso")

    return [None if text is None else one(text) for text in wkts]


def native(wkts, kind, dimensions="", layout=""):
    return ga.as_geoarrow(ga.as_wkt(pa.array(wkts, pa.string())), type=native_type(kind, dimensions, layout))


def read(con, table, column="g"):
    """What DuckDB makes of a column: its WKB, in order."""
    con.register("read_table", table)
    try:
        return [row[0] for row in con.execute(f"SELECT ST_AsWKB({column}) FROM read_table").fetchall()]
    finally:
        con.unregister("read_table")


def storage(array):
    return array.storage if isinstance(array, pa.ExtensionArray) else array


# --- in ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dimensions", DIMENSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_come_in(con, kind, dimensions, layout):
    wkts = Shapes(1, kind, dimensions).rows(2500)
    array = native(wkts, kind, dimensions, layout)
    expected = wkb_of(wkts)
    assert read(con, pa.table({"g": array})) == expected
    # slices, also ones that begin inside a byte of the validity, and chunks
    for first, count in [(1, 2100), (8, 100), (2493, 7), (13, 0)]:
        assert read(con, pa.table({"g": array.slice(first, count)})) == expected[first : first + count]
    chunks = pa.chunked_array([array.slice(3, 10), array.slice(0, 0), array.slice(100, 2200), array.slice(2490)])
    assert read(con, pa.table({"g": chunks})) == expected[3:13] + expected[100:2300] + expected[2490:]


@pytest.mark.parametrize("kind", KINDS)
def test_streams(con, kind):
    """A RecordBatchReader, and an object that is no more than an Arrow C stream."""
    wkts = Shapes(2, kind).rows(6000)
    table = pa.table({"i": range(6000), "g": native(wkts, kind)})
    expected = wkb_of(wkts)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1000))
    assert read(con, reader) == expected

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    assert read(con, Stream()) == expected


def with_storage(array, stored):
    return pa.ExtensionArray.from_storage(array.type, stored)


def shifted(array, by):
    """The same rows in an array that begins `by` elements into its buffers, at every level below the first."""
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        values = shifted(array.values, by)
        front = pa.concat_arrays([values.slice(0, 1)] * by + [values]) if len(values) else values
        moved = front.slice(by) if len(values) else values
        # the offsets stay: they count from the begin of the slice
        return type(array).from_arrays(array.offsets, moved, type=array.type, mask=array.is_null() if array.null_count else None)
    if pa.types.is_struct(array.type):
        fields = [shifted(array.field(i), by) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(array.type), mask=array.is_null() if array.null_count else None)
    if pa.types.is_fixed_size_list(array.type):
        values = array.values
        padding = pa.array(np.full(by, 77.0), pa.float64())
        moved = pa.concat_arrays([padding, values]).slice(by)
        return pa.FixedSizeListArray.from_arrays(moved, type=array.type, mask=array.is_null() if array.null_count else None)
    return pa.concat_arrays([pa.array(np.full(by, 77.0), array.type), array]).slice(by)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_offsets_at_every_level(con, kind, layout):
    wkts = [w for w in Shapes(3, kind, "_z").rows(500) if w]
    array = native(wkts, kind, "_z", layout)
    expected = wkb_of(wkts)
    for by in (1, 3, 8):
        moved = with_storage(array, shifted(storage(array), by))
        moved.validate(full=True)
        assert read(con, pa.table({"g": moved})) == expected
        assert read(con, pa.table({"g": moved.slice(5, 200)})) == expected[5:205]


def test_columns_that_share_buffers(con):
    lines = native([w for w in Shapes(4, "linestring").rows(4000) if w], "linestring")
    expected = read(con, pa.table({"g": lines}))
    n = len(lines)
    pairs = pa.table({"a": lines.slice(0, n - 1), "b": lines.slice(1), "c": lines.slice(0, n - 1)})
    assert read(con, pairs, "a") == expected[:-1]
    assert read(con, pairs, "b") == expected[1:]
    assert read(con, pairs, "c") == expected[:-1]
    # the same offsets over other coordinates, as a change of the CRS makes them
    store = lines.storage
    x, y = store.values.field("x"), store.values.field("y")
    other = pa.ListArray.from_arrays(store.offsets, pa.StructArray.from_arrays([y, x], fields=list(store.type.value_type)), type=store.type)
    both = pa.table({"a": lines, "b": with_storage(lines, other)})
    con.register("two", both)
    assert con.execute("SELECT count(*) FROM two WHERE ST_AsWKB(ST_FlipCoordinates(a)) <> ST_AsWKB(b)").fetchall()[0] == (0,)
    assert con.execute("SELECT count(*) FROM two WHERE ST_AsWKB(b) <> ST_AsWKB(a)").fetchall()[0][0] > 3000
    # other offsets over the same coordinates cannot be told from the first ones
    halves = pa.ListArray.from_arrays(pa.array([0] + [2] * n, pa.int32()), store.values, type=store.type)
    con.register("two", pa.table({"a": lines, "b": with_storage(lines, halves)}))
    assert con.execute("SELECT sum(ST_NPoints(b)) FROM two").fetchall()[0] == (2,)
    with pytest.raises(duckdb.InvalidInputException, match="Copy one of them"):
        con.execute("SELECT sum(ST_NPoints(a)), sum(ST_NPoints(b)) FROM two")
    # unless they say the same
    empty = native(["LINESTRING EMPTY"] * 5, "linestring")
    assert read(con, pa.table({"a": empty, "b": native(["LINESTRING EMPTY"] * 5, "linestring")}), "b") == wkb_of(["LINESTRING EMPTY"] * 5)


def test_large_lists(con):
    wkts = Shapes(5, "multipolygon").rows(300)
    array = native(wkts, "multipolygon")

    def large(array):
        if pa.types.is_list(array.type):
            values = large(array.values)
            kind = pa.large_list(pa.field(array.type.value_field.name, values.type, nullable=False))
            return pa.LargeListArray.from_arrays(array.offsets.cast(pa.int64()), values, type=kind, mask=array.is_null() if array.null_count else None)
        return array

    stored = large(array.storage)
    metadata = {"ARROW:extension:name": "geoarrow.multipolygon", "ARROW:extension:metadata": "{}"}
    schema = pa.schema([pa.field("g", stored.type, metadata=metadata)])
    # geoarrow-pyarrow itself knows no large lists
    ga.unregister_extension_types()
    try:
        assert read(con, pa.Table.from_arrays([stored], schema=schema)) == wkb_of(wkts)
    finally:
        ga.register_extension_types()


def extension_table(name, stored, metadata="{}"):
    field = pa.field("g", stored.type, metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": metadata})
    return pa.Table.from_arrays([stored], schema=pa.schema([field]))


def test_box(con):
    names = ["xmin", "ymin", "xmax", "ymax"]
    columns = [pa.array(v, pa.float64()) for v in ([0, 1, np.nan, 5], [0, 2, np.nan, 5], [2, 3, np.nan, 5], [1, 4, np.nan, 5])]
    stored = pa.StructArray.from_arrays(columns, names, mask=pa.array([False, True, False, False]))
    con.register("boxes", extension_table("geoarrow.box", stored))
    assert con.execute("SELECT g::VARCHAR FROM boxes").fetchall() == [
        ("POLYGON ((0 0, 0 1, 2 1, 2 0, 0 0))",), (None,), ("POLYGON EMPTY",), ("POLYGON ((5 5, 5 5, 5 5, 5 5, 5 5))",)]
    names = ["xmin", "ymin", "zmin", "xmax", "ymax", "zmax"]
    stored = pa.StructArray.from_arrays([pa.array([float(v)]) for v in range(6)], names)
    con.register("boxes", extension_table("geoarrow.box", stored))
    assert con.execute("SELECT g::VARCHAR FROM boxes").fetchall() == [("POLYGON Z ((0 1 2, 0 4 2, 3 4 2, 3 1 2, 0 1 2))",)]


def test_text_and_binary(con):
    """geoarrow.wkt is ours, geoarrow.wkb DuckDB's, each with 32-bit and 64-bit offsets and as views."""
    wkts = Shapes(6, "polygon").rows(3000)
    expected = wkb_of(wkts)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert read(con, extension_table("geoarrow.wkt", pa.array(wkts, kind))) == expected
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert read(con, extension_table("geoarrow.wkb", pa.array(expected, kind))) == expected
    with pytest.raises(duckdb.Error, match="POLYGON|WKT|Expected"):
        read(con, extension_table("geoarrow.wkt", pa.array(["POLYGON ((0 0"])))


def test_crs(connect):
    """The metadata means what it means to DuckDB's own geoarrow.wkb."""

    def type_of(metadata):
        tables = {
            "points": extension_table("geoarrow.point", native(["POINT (1 2)"], "point").storage, metadata),
            "wkbs": extension_table("geoarrow.wkb", pa.array(wkb_of(["POINT (1 2)"])), metadata),
        }
        types = []
        for name, table in tables.items():
            with connect() as con:
                con.register(name, table)
                types.append(con.execute(f"SELECT typeof(g) FROM {name}").fetchall()[0][0])
        assert types[0] == types[1]
        return types[0]

    assert type_of("{}") == "GEOMETRY"
    assert type_of("") == "GEOMETRY"
    assert type_of('{"crs": "OGC:CRS84", "crs_type": "authority_code"}') == "GEOMETRY('OGC:CRS84')"
    assert type_of('{"crs": null}') == "GEOMETRY"
    crs = geopandas.GeoSeries([], crs=3857).crs
    assert "3857" in type_of(json.dumps({"crs": json.loads(crs.to_json()), "crs_type": "projjson"}))
    assert "3857" in type_of(json.dumps({"crs": crs.to_wkt("WKT2_2019"), "crs_type": "wkt2:2019"}))
    for bad, message in [('{"edges": "spherical"}', "planar"), ("[]", "JSON"), ("{", "JSON")]:
        with pytest.raises(duckdb.Error, match=message):
            type_of(bad)


@pytest.mark.parametrize("stored, message", [
    (pa.array([1.0]), "structs of the doubles"),
    (pa.array([{"y": 1.0, "x": 1.0}]), "structs of the doubles"),
    (pa.array([{"x": 1.0, "y": 1.0, "z": 2.0, "w": 3.0}]), "structs of the doubles"),
    (pa.array([{"x": 1, "y": 1}]), "structs of the doubles"),
    (pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), "structs of the doubles"),
    (pa.array([[1.0] * 5], pa.list_(pa.float64(), 5)), "structs of the doubles"),
])
def test_other_storage_is_refused(con, stored, message):
    with pytest.raises(duckdb.InvalidInputException, match=message):
        read(con, extension_table("geoarrow.point", stored))


def test_other_lists_are_refused(con):
    point = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    with pytest.raises(duckdb.InvalidInputException, match="lists nested 2 deep"):
        read(con, extension_table("geoarrow.polygon", pa.array([[]], pa.list_(point))))
    with pytest.raises(duckdb.InvalidInputException, match="lists nested 1 deep"):
        read(con, extension_table("geoarrow.linestring", pa.array([[]], pa.list_view(point))))
    with pytest.raises(duckdb.InvalidInputException, match="mixed"):
        read(con, extension_table("geoarrow.polygon", pa.array([[]], pa.list_(pa.large_list(point)))))


def test_null_inside_a_geometry_is_refused(con):
    point = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    for row in ([{"x": 1.0, "y": None}], [None, {"x": 1.0, "y": 1.0}]):
        with pytest.raises(duckdb.InvalidInputException, match="NULL among the"):
            read(con, extension_table("geoarrow.linestring", pa.array([row], pa.list_(point))))
    with pytest.raises(duckdb.InvalidInputException, match="NULL among the"):
        read(con, extension_table("geoarrow.polygon", pa.array([[None]], pa.list_(pa.list_(point)))))
    with pytest.raises(duckdb.InvalidInputException, match="NULL among the"):
        read(con, extension_table("geoarrow.point", pa.array([{"x": None, "y": 1.0}], point)))
    assert read(con, extension_table("geoarrow.point", pa.array([None, {"x": 1.0, "y": 1.0}], point))) == wkb_of([None, "POINT (1 1)"])


def test_inside_lists_and_structs(con):
    points = native(["POINT (1 2)", "POINT (3 4)", "POINT (5 6)"], "point")
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), points)
    structs = pa.StructArray.from_arrays([points.slice(0, 2)], ["p"])
    con.register("nested", pa.table({"l": lists, "s": structs}))
    assert con.execute("SELECT l::VARCHAR, s::VARCHAR FROM nested").fetchall() == [
        ("['POINT (1 2)', 'POINT (3 4)']", "{'p': 'POINT (1 2)'}"), ("['POINT (5 6)']", "{'p': 'POINT (3 4)'}")]


def test_in_queries(con):
    """Columns among others, projected in another order, filtered, joined and kept in a table, on all threads."""
    rng = np.random.default_rng(7)
    n = 300_000
    x, y = rng.random(n), rng.random(n)
    points = ga.point().from_geobuffers(None, x, y)
    table = pa.table({"i": np.arange(n), "g": points, "h": points, "x": x})
    con.register("points_table", table)
    assert con.execute("SELECT sum(ST_X(g)), count(h) FROM points_table WHERE i % 3 = 0").fetchall()[0] == (pytest.approx(x[::3].sum()), n // 3)
    con.execute("CREATE TABLE kept AS SELECT h, x, i, g FROM points_table")
    assert con.execute("SELECT count(*) FROM kept WHERE ST_X(g) = x AND ST_X(h) = x").fetchall()[0] == (n,)
    inside = con.execute("SELECT count(*) FROM points_table p, (SELECT ST_MakeEnvelope(0.25, 0.25, 0.5, 0.75) AS b) WHERE ST_Within(p.g, b)").fetchall()[0][0]
    assert inside == np.count_nonzero((x > 0.25) & (x < 0.5) & (y > 0.25) & (y < 0.75))


# --- out -----------------------------------------------------------------------------------------------------------


def arrow(con, query):
    return con.execute(query).to_arrow_table()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dimensions", DIMENSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_go_out(con, kind, dimensions, layout):
    wkts = Shapes(8, kind, dimensions).rows(2500)
    expected = wkb_of(wkts)
    con.register("rows_table", pa.table({"i": range(2500), "w": pa.array(expected, pa.binary())}))
    con.execute("CREATE TABLE shapes AS SELECT i, ST_GeomFromWKB(w) AS g FROM rows_table")
    encoding = kind + dimensions + layout
    result = arrow(con, f"SELECT i, vibe_geoarrow(g, '{encoding}') AS g FROM shapes ORDER BY i")
    result.validate(full=True)
    assert result["g"].type == native_type(kind, dimensions, layout)
    assert result["g"].null_count == wkts.count(None)
    back = [w for chunk in ga.as_wkb(result["g"]).chunks for w in chunk.storage.to_pylist()]
    assert back == expected
    # by the setting, in batches, and back in
    con.execute(f"SET vibe_arrow_encoding = '{encoding}'")
    reader = con.execute("SELECT i, g FROM shapes ORDER BY i").to_arrow_reader(700)
    assert reader.schema.field("g").type == native_type(kind, dimensions, layout)
    whole = reader.read_all()
    con.execute("RESET vibe_arrow_encoding")
    assert read(con, whole) == expected
    assert arrow(con, "SELECT g FROM shapes").schema.field("g").type.extension_name == "geoarrow.wkb"


@pytest.mark.parametrize("kind", KINDS[:3])
def test_single_kinds_widen(con, kind):
    shapes, multis = Shapes(9, kind), Shapes(10, "multi" + kind)
    wkts = [w for pair in zip(shapes.rows(300), multis.rows(300)) for w in pair]
    con.register("rows_table", pa.table({"w": pa.array(wkts)}))
    result = arrow(con, f"SELECT vibe_geoarrow(w::GEOMETRY, 'multi{kind}') AS g FROM rows_table")["g"]
    got = [w for chunk in ga.as_wkb(result).chunks for w in chunk.storage.to_pylist()]
    make = {"point": shapely.MultiPoint, "linestring": shapely.MultiLineString, "polygon": shapely.MultiPolygon}[kind]
    for text, wkb in zip(wkts, got):
        if text is None:
            assert wkb is None
            continue
        geometry = shapely.from_wkt(text)
        expected = geometry if geometry.geom_type.startswith("Multi") else make([] if geometry.is_empty else [geometry])
        assert shapely.from_wkb(wkb).wkt == expected.wkt


def test_other_kinds_are_refused(con):
    con.execute("CREATE TABLE mixed AS SELECT unnest(['POINT (1 2)', NULL, 'POLYGON ((0 0, 1 0, 1 1, 0 0))'])::GEOMETRY AS g")
    for encoding, message in [
        ("point", "a POLYGON in a column of POINT"),
        ("multipolygon", "a POINT in a column of MULTIPOLYGON"),
        ("point_z", "a POINT in a column of POINT Z"),
    ]:
        with pytest.raises(duckdb.InvalidInputException, match=message) as caught:
            arrow(con, f"SELECT vibe_geoarrow(g, '{encoding}') FROM mixed")
        assert "vibe_arrow_encoding" in str(caught.value) and "'wkb'" in str(caught.value)
    with pytest.raises(duckdb.InvalidInputException, match="GEOMETRYCOLLECTION in a column of MULTIPOINT"):
        arrow(con, "SELECT vibe_geoarrow('GEOMETRYCOLLECTION EMPTY'::GEOMETRY, 'multipoint')")
    with pytest.raises(duckdb.InvalidInputException, match="no GeoArrow encoding.*multipolygon_z_interleaved"):
        con.execute("SET vibe_arrow_encoding = 'collection'")
    with pytest.raises(duckdb.BinderException, match="constant"):
        con.execute("SELECT vibe_geoarrow(g, g::VARCHAR) FROM mixed")
    assert con.execute("SELECT vibe_geoarrow(g, NULL) FROM mixed").fetchall() == [(None,)] * 3


def test_the_crs_goes_out(con):
    con.execute("SET vibe_arrow_encoding = 'POINT'")
    table = arrow(con, "SELECT ST_SetCRS(ST_Point(1, 2), 'OGC:CRS84') AS g, ST_Point(3, 4) AS h")
    assert table["g"].type.extension_name == "geoarrow.point"
    frame = geopandas.GeoDataFrame.from_arrow(table)
    assert frame["g"].crs is not None and frame["g"].crs.to_authority() == ("OGC", "CRS84")
    assert frame["h"].crs is None
    projjson = json.loads(geopandas.GeoSeries([], crs=3857).crs.to_json())
    stored = native(["POINT (1 2)"], "point").storage
    con.register("mercator", extension_table("geoarrow.point", stored, json.dumps({"crs": projjson})))
    assert geopandas.GeoDataFrame.from_arrow(arrow(con, "SELECT g FROM mercator")).crs == 3857


def test_the_setting(con):
    con.execute("CREATE TABLE places AS SELECT i, ST_Point(i, i) AS g FROM range(5) r(i)")
    con.execute("SET vibe_arrow_encoding = 'point_interleaved'")
    # statements that give no geometry are as they were
    con.execute("CREATE TABLE copy AS FROM places")
    assert con.execute("SELECT typeof(g) FROM copy LIMIT 1").fetchall()[0] == ("GEOMETRY",)
    con.execute("INSERT INTO copy SELECT 7, ST_Point(7, 7)")
    assert con.execute("EXPLAIN SELECT g FROM copy").fetchall()
    con.execute("PREPARE q AS SELECT g FROM copy WHERE i = $1")
    assert arrow(con, "EXECUTE q(7)")["g"].type.extension_name == "geoarrow.point"
    assert arrow(con, "FROM places ORDER BY i DESC LIMIT 2")["i"].to_pylist() == [4, 3]
    assert con.sql("FROM places").to_arrow_table()["g"].type.extension_name == "geoarrow.point"
    assert arrow(con, "SELECT g FROM places UNION ALL SELECT ST_Point(0, 0)").num_rows == 6
    # what is encoded already stays
    assert arrow(con, "SELECT vibe_geoarrow(g, 'multipoint') AS m FROM places")["m"].type.extension_name == "geoarrow.multipoint"
    con.execute("SET vibe_arrow_encoding = 'multipoint'")
    con.execute("SET arrow_large_buffer_size = true")
    with pytest.raises(duckdb.InvalidInputException, match="arrow_large_buffer_size"):
        arrow(con, "SELECT g FROM places")
    con.execute("SET arrow_large_buffer_size = false")
    con.execute("SET arrow_output_list_view = true; SET arrow_output_version = '1.4'")
    with pytest.raises(duckdb.InvalidInputException, match="arrow_output_list_view"):
        arrow(con, "SELECT g FROM places")
    con.execute("SET arrow_output_list_view = false")
    assert read(con, arrow(con, "SELECT g FROM places")) == wkb_of([f"MULTIPOINT ({i} {i})" for i in range(5)])


# --- real data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("name", ["cities", "countries"])
def test_real_data(con, data, name, interleaved):
    frame = geopandas.read_parquet(data / f"{name}.parquet")
    column = frame.geometry.name
    if name == "countries":
        frame = frame.set_geometry(frame.geometry.apply(lambda g: shapely.MultiPolygon([g]) if g.geom_type == "Polygon" else g))
    table = pa.table(frame.to_arrow(geometry_encoding="geoarrow", interleaved=interleaved))
    assert table[column].type.extension_name != "geoarrow.wkb"
    expected = shapely.to_wkb(frame.geometry.values, byte_order=1, flavor="iso").tolist()
    assert read(con, table, column) == expected
    encoding = table[column].type.extension_name.split(".")[1] + ("_interleaved" if interleaved else "")
    con.execute(f"SET vibe_arrow_encoding = '{encoding}'")
    con.register("frame_table", table)
    back = geopandas.GeoDataFrame.from_arrow(con.execute("FROM frame_table").to_arrow_table())
    assert back.crs == frame.crs
    assert shapely.to_wkb(back.geometry.values, byte_order=1, flavor="iso").tolist() == expected


# --- malformed arrays ----------------------------------------------------------------------------------------------

FUZZ = textwrap.dedent(
    """
    import sys
    import duckdb, numpy as np, pyarrow as pa

    con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    con.execute(f"LOAD '{sys.argv[1]}'")
    rng = np.random.default_rng(int(sys.argv[2]))
    POINT = pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64(), False)])
    PAIR = pa.list_(pa.field("xy", pa.float64(), False), 2)
    KINDS = {"point": 0, "linestring": 1, "multipoint": 1, "polygon": 2, "multilinestring": 2, "multipolygon": 3}
    BAD = [-1, -(2**31), 2**31 - 1, 10**6, 10**9, 17, 3]

    def vertices(count, interleaved):
        doubles = lambda n: pa.Array.from_buffers(pa.float64(), n, [None, pa.py_buffer(np.zeros(n).tobytes())])
        if interleaved:
            return pa.Array.from_buffers(PAIR, count, [None], children=[doubles(2 * count)])
        return pa.Array.from_buffers(POINT, count, [None], children=[doubles(count), doubles(count)])

    def lists(kind, count, child):
        offsets = np.sort(rng.integers(0, len(child) + 1, count + 1)).astype(np.int32)
        written.append(offsets)
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets)], children=[child])

    def spoil():
        # pyarrow refuses some of this when it makes an array, so it comes afterwards, into the same memory
        for offsets in written:
            for _ in range(rng.integers(0, 2)):
                offsets[rng.integers(0, len(offsets))] = BAD[rng.integers(0, len(BAD))]

    fine = refused = 0
    for case in range(int(sys.argv[3])):
        name = list(KINDS)[rng.integers(0, len(KINDS))]
        interleaved = bool(rng.random() < 0.5)
        written = []
        array = vertices(int(rng.integers(0, 30)), interleaved)
        kind = array.type
        for _ in range(KINDS[name]):
            kind = pa.list_(kind)
            array = lists(kind, int(rng.integers(0, 12)), array)
        if len(array) and rng.random() < 0.3:
            array = array.slice(int(rng.integers(0, len(array))))
        field = pa.field("g", kind, metadata={"ARROW:extension:name": f"geoarrow.{name}"})
        arrow_table = pa.Table.from_arrays([array], schema=pa.schema([field]))
        spoil()
        try:
            arrow_table.validate(full=True)
            valid = True
        except pa.ArrowInvalid:
            valid = False
        try:
            rows = con.sql("SELECT ST_AsWKB(g) FROM arrow_table").fetchall()
            assert len(rows) == len(array)
            fine += 1
        except duckdb.InvalidInputException as error:
            assert "INTERNAL" not in str(error) and "GeoArrow" in str(error), error
            assert not valid, error
            refused += 1
    print(fine, refused)
    """
)


def test_malformed_arrays(extension, tmp_path):
    """Offsets that fall or lead out of their child are errors."""
    script = tmp_path / "fuzz.py"
    script.write_text(FUZZ)
    done = subprocess.run([sys.executable, str(script), str(extension), "20261116", "1500"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    fine, refused = map(int, done.stdout.split())
    assert fine > 300 and refused > 300


def test_native_points_are_cheap(extension):
    """The benchmark with a wider bar (make bench-arrow has 2): CPU time, which other work on the machine disturbs least."""
    script = pathlib.Path(__file__).parents[2] / "bench" / "arrow.py"
    run = subprocess.run([sys.executable, script, "--extension", extension, "--rows", "2000000", "--bar", "3"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "geoarrow.point, interleaved" in run.stdout
