"""vibe_read_arrow and COPY (FORMAT vibe_arrow), both ways against pyarrow: what one writes the other reads."""
import datetime
import decimal
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid

import duckdb
import pytest

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, ipc  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def plugin(extension):
    """The plug-in of the build; a build without it skips this file."""
    path = extension.parent / "vibespatial" / "libvibespatial_arrow.so"
    if not path.exists():
        pytest.skip(f"{path} was not built")
    return path


def write(table, path, kind="file", rows=None, compression=None):
    """Writes as pyarrow does: kind is file, stream or feather"""
    if kind == "feather":
        feather.write_feather(table, str(path), compression=compression or "uncompressed", chunksize=rows)
        return path
    make = ipc.new_file if kind == "file" else ipc.new_stream
    with make(str(path), table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def rows_of(connection, query):
    return connection.execute(query).fetchall()


#
# Every type
#
N = 5000


def with_nulls(values, generator):
    return [None if generator.random() < 0.2 else value for value in values]


def make_columns(seed):
    """name -> array of N values for every type of Arrow that DuckDB has one for"""
    g = random.Random(seed)
    some = lambda make: with_nulls([make() for _ in range(N)], g)  # noqa: E731
    text = lambda: "".join(g.choice("aé🙂z ") for _ in range(g.choice([0, 1, 5, 12, 13, 40])))  # noqa: E731
    blob = lambda: g.randbytes(g.choice([0, 3, 12, 13, 30]))  # noqa: E731
    columns = {}
    for bits in (8, 16, 32, 64):
        signed, unsigned = getattr(pa, f"int{bits}")(), getattr(pa, f"uint{bits}")()
        columns[f"int{bits}"] = pa.array(some(lambda: g.randint(-(1 << bits - 1), (1 << bits - 1) - 1)), signed)
        columns[f"uint{bits}"] = pa.array(some(lambda: g.randint(0, (1 << bits) - 1)), unsigned)
    columns["bool"] = pa.array(some(lambda: g.random() < 0.5), pa.bool_())
    columns["float"] = pa.array(some(lambda: g.choice([0.5, -1.25, 1e10, float("inf")])), pa.float32())
    columns["double"] = pa.array(some(lambda: g.uniform(-1e9, 1e9)), pa.float64())
    columns["null"] = pa.nulls(N)
    day = lambda: datetime.date(1970, 1, 1) + datetime.timedelta(days=g.randint(-100000, 100000))  # noqa: E731
    columns["date32"] = pa.array(some(day), pa.date32())
    columns["date64"] = pa.array(some(day), pa.date64())
    for unit, per in (("s", 1), ("ms", 1000)):
        columns[f"time32_{unit}"] = pa.array(some(lambda: g.randrange(86400 * per)), pa.int32()).view(pa.time32(unit))
    columns["time64_us"] = pa.array(some(lambda: g.randrange(86400 * 10**6)), pa.int64()).view(pa.time64("us"))
    for unit, per in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        ticks = pa.array(some(lambda: g.randint(-(2**31) * per, 2**31 * per) // (1000 if unit == "ns" else 1) * (1000 if unit == "ns" else 1)), pa.int64())
        columns[f"timestamp_{unit}"] = ticks.view(pa.timestamp(unit))
        columns[f"timestamptz_{unit}"] = ticks.view(pa.timestamp(unit, "UTC"))
        columns[f"duration_{unit}"] = pa.array(some(lambda: g.randrange(10**9) * 1000), pa.int64()).view(pa.duration(unit))
    columns["interval"] = pa.array(some(lambda: pa.MonthDayNano([g.randint(-50, 50), g.randint(-50, 50), g.randrange(10**9) * 1000])))
    for name, kind, precision in (("decimal32", pa.decimal32(7, 2), 7), ("decimal64", pa.decimal64(15, 3), 15), ("decimal128", pa.decimal128(38, 10), 38)):
        columns[name] = pa.array(some(lambda: decimal.Decimal(g.randint(-10**precision + 1, 10**precision - 1)).scaleb(-kind.scale, decimal.Context(prec=60))), kind)
    for name in ("string", "large_string", "string_view"):
        columns[name] = pa.array(some(text), getattr(pa, name)())
    for name in ("binary", "large_binary", "binary_view"):
        columns[name] = pa.array(some(blob), getattr(pa, name)())
    columns["fixed_binary"] = pa.array(some(lambda: g.randbytes(7)), pa.binary(7))
    few = lambda make: with_nulls([make() for _ in range(g.choice([0, 0, 1, 2, 5]))], g)  # noqa: E731
    integer = lambda: g.randrange(1000)  # noqa: E731
    for name in ("list_", "large_list", "list_view", "large_list_view"):
        columns[name] = pa.array(some(lambda: few(text)), getattr(pa, name)(pa.string()))
    columns["list_of_lists"] = pa.array(some(lambda: few(lambda: few(integer))), pa.list_(pa.list_(pa.int32())))
    columns["views_of_views"] = pa.array(some(lambda: few(lambda: few(text))), pa.list_view(pa.list_view(pa.string_view())))
    columns["fixed_list"] = pa.array(some(lambda: [g.random(), None, g.random()]), pa.list_(pa.float64(), 3))
    pair = lambda: {"a": g.choice([None, 1, 2]), "b": few(text)}  # noqa: E731
    columns["struct"] = pa.array(some(pair), pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]))
    columns["list_of_structs"] = pa.array(some(lambda: few(pair)), pa.list_(columns["struct"].type))
    columns["map"] = pa.array(some(lambda: [(f"k{i}", text()) for i in range(g.choice([0, 1, 3]))]), pa.map_(pa.string(), pa.string()))
    words = pa.array(["north", "", "a longer word than twelve bytes", None, "é"])
    for index in (pa.int8(), pa.uint16(), pa.int32(), pa.int64()):
        columns[f"dictionary_{index}"] = pa.DictionaryArray.from_arrays(pa.array(some(lambda: g.randrange(5)), index), words)
    columns["dictionary_of_doubles"] = pa.array(some(lambda: float(g.randrange(4)))).dictionary_encode()
    # Nested encodings; the first lists are empty, which DuckDB's own scan reads wrongly
    codes = pa.DictionaryArray.from_arrays(pa.array([g.randrange(5) for _ in range(4000)], pa.int8()), words)
    lengths = [0] * 2500 + [g.choice([0, 1, 2]) for _ in range(N - 2500)]
    offsets = [0]
    for length in lengths:
        offsets.append(min(offsets[-1] + length, 4000))
    columns["list_of_dictionary"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), codes)
    columns["struct_of_dictionary"] = pa.StructArray.from_arrays(
        [pa.DictionaryArray.from_arrays(pa.array(some(lambda: g.randrange(5)), pa.int8()), words)], ["d"])
    ends, values = [], []
    while not ends or ends[-1] < N:
        ends.append(min(N, (ends[-1] if ends else 0) + g.choice([1, 2, 500])))
        values.append(g.choice([None, "x", "yy"]))
    columns["runs"] = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values))
    columns["struct_of_runs"] = pa.StructArray.from_arrays([columns["runs"]], ["r"])
    columns["uuid"] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(some(lambda: g.randbytes(16)), pa.binary(16)))
    columns["json"] = pa.ExtensionArray.from_storage(pa.json_(), pa.array(some(lambda: json.dumps({"a": integer()}))))
    return columns


COLUMNS = sorted(make_columns(0)) if not isinstance(pa, type(None)) else []


def decoded(array):
    """The same values without dictionaries and runs, wherever they are"""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return decoded(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return decoded(pa.compute.run_end_decode(array))
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([decoded(array.field(i)) for i in range(kind.num_fields)],
                                          [kind.field(i).name for i in range(kind.num_fields)], mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        return pa.ListArray.from_arrays(array.offsets, decoded(array.values))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.array(array.to_pylist(), pa.list_(decoded(pa.array([], kind.value_type)).type))
    return array


def assert_same(connection, query, array):
    """The column c of a query has the values of an array, as DuckDB reads it from memory, and as Python has it"""
    reference = pa.table({"c": decoded(array)})  # noqa: F841: found by its name
    differing = connection.execute(
        f"SELECT count(*) FROM (SELECT c FROM ({query})) a POSITIONAL JOIN (SELECT c, true AS there FROM reference) b "
        "WHERE a.c IS DISTINCT FROM b.c OR there IS NULL").fetchone()[0]
    assert differing == 0
    assert connection.execute(f"SELECT count(*), count(c) FROM ({query})").fetchone() == \
        (len(array), len(array) - decoded(array).null_count if not pa.types.is_null(array.type) else 0)


@pytest.fixture(scope="module")
def columns():
    import pyarrow.compute  # noqa: F401: decodes runs
    return make_columns(1)


@pytest.mark.parametrize("name", COLUMNS)
def test_types(con, tmp_path, columns, name):
    array = columns[name]
    table = pa.table({"c": array})
    cases = [("file", None, None), ("file", 700, "zstd"), ("stream", 700, "lz4"), ("stream", None, None)]
    if name not in ("runs", "struct_of_runs"):  # Arrow C++ writes a slice of runs whole
        cases.append(("feather", 1000, "lz4"))
    for kind, rows, compression in cases:
        if rows and "run" in name:
            rows = None
        path = write(table, tmp_path / f"{kind}.arrow", kind, rows, compression)
        assert_same(con, f"SELECT c FROM vibe_read_arrow('{path}')", array)


@pytest.mark.parametrize("name", COLUMNS)
def test_types_without_rows(con, tmp_path, columns, name):
    table = pa.table({"c": columns[name].slice(0, 0)})
    for kind in ("file", "stream"):
        path = write(table, tmp_path / f"{kind}.arrow", kind)
        assert rows_of(con, f"SELECT c FROM vibe_read_arrow('{path}')") == []
        assert rows_of(con, f"SELECT count(*) FROM vibe_read_arrow('{path}')") == [(0,)]


def test_values_as_python_has_them(con, tmp_path, columns):
    # Not by DuckDB's own scan of pyarrow's memory, which is the oracle above
    for name in ("int64", "uint8", "bool", "double", "string", "string_view", "binary", "fixed_binary", "date32",
                 "decimal128", "list_", "large_list_view", "views_of_views", "struct", "list_of_structs", "fixed_list",
                 "dictionary_int8", "list_of_dictionary", "struct_of_dictionary", "runs", "struct_of_runs"):
        path = write(pa.table({"c": columns[name]}), tmp_path / "x.arrow")
        found = [row[0] for row in rows_of(con, f"SELECT c FROM vibe_read_arrow('{path}')")]
        expected = decoded(columns[name]).to_pylist()
        if name == "fixed_list":
            found = [None if value is None else list(value) for value in found]
        assert found == expected, name


@pytest.mark.parametrize("name", COLUMNS)
def test_types_in_one_large_batch(connect, tmp_path, columns, name):
    # Cut into parts that begin in the middle of bytes, lists and runs
    if name in ("runs", "struct_of_runs"):
        runs = columns["runs"]
        ends = pa.array([end + N * i for i in range(80) for end in runs.run_ends.to_pylist()], pa.int32())
        array = pa.RunEndEncodedArray.from_arrays(ends, pa.concat_arrays([runs.values] * 80))
        array = array if name == "runs" else pa.StructArray.from_arrays([array], ["r"])
    else:
        array = pa.concat_arrays([columns[name].slice(3)] + [columns[name]] * 79)
    path = write(pa.table({"c": array}), tmp_path / "large.arrow")
    assert ipc.open_file(str(path)).num_record_batches == 1
    with connect(threads=3) as con:
        assert_same(con, f"SELECT c FROM vibe_read_arrow('{path}')", array)


def test_the_whole_table_at_once(con, tmp_path, columns):
    names = [name for name in COLUMNS if "run" not in name]
    table = pa.table({name: columns[name] for name in names})
    path = write(table, tmp_path / "all.arrow", rows=999, compression="zstd")
    assert con.execute(f"SELECT * FROM vibe_read_arrow('{path}')").to_arrow_table().num_columns == len(names)
    for name in random.Random(3).sample(names, 12):
        assert_same(con, f'SELECT "{name}" AS c FROM vibe_read_arrow(\'{path}\')', columns[name])


#
# Columns, batches, files
#
@pytest.fixture
def table():
    return pa.table({"i": pa.array(range(100000)), "s": [f"row {i}" for i in range(100000)],
                     "x": [i / 7 for i in range(100000)]})


@pytest.mark.parametrize("kind", ["file", "stream", "feather"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_columns_in_any_order(con, tmp_path, table, kind, compression):
    path = write(table, tmp_path / "t.arrow", kind, 3000, compression)
    scan = f"vibe_read_arrow('{path}')"
    assert rows_of(con, f"SELECT count(*) FROM {scan}") == [(100000,)]
    assert rows_of(con, f"SELECT x, i FROM {scan} WHERE s = 'row 4711'") == [(4711 / 7, 4711)]
    assert rows_of(con, f"SELECT sum(i), min(x), max(s) FROM {scan}") == [(4999950000, 0.0, "row 99999")]
    assert rows_of(con, f"SELECT s, s, i FROM {scan} WHERE i = 5") == [("row 5", "row 5", 5)]
    # In the order of the file, whatever the threads
    assert [row[0] for row in rows_of(con, f"SELECT i FROM {scan}")] == list(range(100000))
    assert rows_of(con, f"SELECT i FROM {scan} LIMIT 3 OFFSET 50000") == [(50000,), (50001,), (50002,)]


def test_only_the_columns_asked_for_are_read(con, tmp_path):
    # The second column is damaged: a query that does not ask for it does not see it
    text = pa.array([f"word {i}" for i in range(1000)])
    offsets = bytearray(text.buffers()[1].to_pybytes()[:4004])
    offsets[2000:2400] = b"\x7f" * 400
    broken = pa.StringArray.from_buffers(1000, pa.py_buffer(bytes(offsets)), text.buffers()[2])
    path = write(pa.table({"i": range(1000), "s": broken}), tmp_path / "t.arrow")
    assert rows_of(con, f"SELECT sum(i) FROM vibe_read_arrow('{path}')") == [(499500,)]
    with pytest.raises(duckdb.Error, match="t.arrow"):
        con.execute(f"SELECT s FROM vibe_read_arrow('{path}')").fetchall()


def test_batches_of_all_sizes(con, tmp_path):
    sizes = [0, 1, 2047, 2048, 2049, 0, 0, 5000, 1, 0]
    schema = pa.schema([("i", pa.int64()), ("d", pa.dictionary(pa.int32(), pa.string()))])
    for kind in (ipc.new_file, ipc.new_stream):
        path, begin = tmp_path / "sizes.arrow", 0
        with kind(str(path), schema) as writer:
            for size in sizes:
                codes = pa.array([i % 3 for i in range(size)], pa.int32())
                dictionary = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b", "c"]))
                writer.write_batch(pa.record_batch([pa.array(range(begin, begin + size), pa.int64()), dictionary], schema=schema))
                begin += size
        assert [row[0] for row in rows_of(con, f"SELECT i FROM vibe_read_arrow('{path}')")] == list(range(begin))


def test_dictionaries_that_grow_and_change(con, tmp_path):
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string())), ("l", pa.list_(pa.dictionary(pa.int8(), pa.string())))])
    expected = []

    def batches():
        for step in range(40):
            words = [f"w{i}" for i in range(step + 1)] if step < 20 else [f"other {step} {i}" for i in range(5)]
            codes = pa.array([i % len(words) for i in range(300)], pa.int8())
            d = pa.DictionaryArray.from_arrays(codes, pa.array(words))
            l = pa.ListArray.from_arrays(pa.array(range(0, 301), pa.int32()), d)
            expected.extend((words[i % len(words)], [words[i % len(words)]]) for i in range(300))
            yield pa.record_batch([d, l], schema=schema)

    for deltas in (False, True):
        expected.clear()
        path = tmp_path / "changing.arrow"
        with ipc.new_stream(str(path), schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)) as writer:
            for batch in batches():
                writer.write_batch(batch)
        assert rows_of(con, f"SELECT d, l FROM vibe_read_arrow('{path}')") == expected
    # The file format takes dictionaries that grow
    expected.clear()
    path = tmp_path / "growing.arrow"
    with ipc.new_file(str(path), schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for _, batch in zip(range(20), batches()):
            writer.write_batch(batch)
    del expected[6000:]
    assert rows_of(con, f"SELECT d, l FROM vibe_read_arrow('{path}')") == expected


def test_many_files(con, tmp_path):
    for i in range(30):
        kind = ("file", "stream", "feather")[i % 3]
        write(pa.table({"f": [i] * 1000, "r": range(1000)}), tmp_path / f"part_{i:02}.arrow", kind, 100)
    scan = f"vibe_read_arrow('{tmp_path}/part_*.arrow')"
    assert rows_of(con, f"SELECT f, r FROM {scan}") == [(f, r) for f in range(30) for r in range(1000)]
    assert rows_of(con, f"SELECT count(*) FROM {scan}") == [(30000,)]
    listed = [str(tmp_path / "part_07.arrow"), str(tmp_path / "part_03.arrow")]
    assert rows_of(con, f"SELECT DISTINCT f FROM vibe_read_arrow({listed}) ORDER BY 1") == [(3,), (7,)]
    named = rows_of(con, f"SELECT filename, min(f), count(*) FROM vibe_read_arrow('{tmp_path}/part_*.arrow', "
                         "filename := true) GROUP BY 1 ORDER BY 1")
    assert named == [(str(tmp_path / f"part_{i:02}.arrow"), i, 1000) for i in range(30)]
    assert rows_of(con, f"SELECT count(DISTINCT path) FROM vibe_read_arrow('{tmp_path}/*.arrow', filename := 'path')") == [(30,)]
    plan = con.execute(f"EXPLAIN SELECT f FROM {scan}").fetchall()[0][1]
    assert "VIBE_READ_ARROW" in plan.upper() and "and 25" in plan


def test_files_with_other_columns(con, tmp_path):
    write(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "p1.arrow")
    write(pa.table({"b": ["z"], "a": [3]}), tmp_path / "p2.arrow")
    assert rows_of(con, f"SELECT a, b FROM vibe_read_arrow('{tmp_path}/p*.arrow')") == [(1, "x"), (2, "y"), (3, "z")]
    write(pa.table({"a": [4]}), tmp_path / "p3.arrow")
    with pytest.raises(duckdb.Error, match=r"p3.arrow.*no column b.*union_by_name"):
        con.execute(f"SELECT a FROM vibe_read_arrow('{tmp_path}/p*.arrow')").fetchall()
    write(pa.table({"c": [1.5], "a": [5]}), tmp_path / "p4.arrow")
    assert rows_of(con, f"SELECT a, b, c FROM vibe_read_arrow('{tmp_path}/p*.arrow', union_by_name := true)") == \
        [(1, "x", None), (2, "y", None), (3, "z", None), (4, None, None), (5, None, 1.5)]
    assert rows_of(con, f"SELECT c FROM vibe_read_arrow('{tmp_path}/p*.arrow', union_by_name := true)") == \
        [(None,)] * 4 + [(1.5,)]
    write(pa.table({"a": ["text"]}), tmp_path / "p5.arrow")
    for option in ("", ", union_by_name := true"):
        with pytest.raises(duckdb.Error, match=r"p[345].arrow"):
            con.execute(f"SELECT a FROM vibe_read_arrow('{tmp_path}/p*.arrow'{option})").fetchall()
    with pytest.raises(duckdb.Error, match=r"column a is of type string, which is int64"):
        con.execute(f"SELECT a FROM vibe_read_arrow(['{tmp_path}/p1.arrow', '{tmp_path}/p5.arrow'], union_by_name := true)").fetchall()


def test_names(con, tmp_path):
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3]), pa.array([4])], names=["a", "a", "", 'q"uote'])
    path = write(table, tmp_path / "n.arrow")
    assert rows_of(con, f"FROM vibe_read_arrow('{path}')") == [(1, 2, 3, 4)]
    with pytest.raises(duckdb.Error, match='have a column "A" already'):
        con.execute(f"FROM vibe_read_arrow('{path}', filename := 'A')")


def test_a_file_of_whole_pages(con, tmp_path):
    # Such a file is not mapped: the byte after it is nobody's
    for kind in ("stream", "file"):
        path = write(pa.table({"i": pa.array(range(4000), pa.int64())}), tmp_path / "p.arrow", kind)
        size = path.stat().st_size
        if kind == "stream":
            with open(path, "ab") as file:
                file.write(b"\0" * (-size % 65536))
        assert rows_of(con, f"SELECT sum(i) FROM vibe_read_arrow('{path}')") == [(7998000,)]


def test_geometry_of_core(con, tmp_path, data):
    con.execute(f"CREATE TABLE t AS SELECT name, geom FROM '{data}/countries.parquet'")
    path = tmp_path / "c.arrow"
    con.execute(f"COPY t TO '{path}' (FORMAT vibe_arrow)")
    field = ipc.open_file(str(path)).schema.field("geom")
    # As an extension type where another test has registered those of geoarrow-pyarrow
    name = getattr(field.type, "extension_name", None) or field.metadata[b"ARROW:extension:name"].decode()
    assert name == "geoarrow.wkb"
    before = rows_of(con, "SELECT name, typeof(geom), ST_AsWKB(geom) FROM t")
    assert rows_of(con, f"SELECT name, typeof(geom), ST_AsWKB(geom) FROM vibe_read_arrow('{path}')") == before
    assert rows_of(con, f"SELECT sum(ST_Area(geom)) FROM vibe_read_arrow('{path}')") == \
        rows_of(con, "SELECT sum(ST_Area(geom)) FROM t")


def test_crs_survives(con, tmp_path):
    con.execute("CREATE TABLE t AS SELECT ST_Point(i, i)::GEOMETRY('OGC:CRS84') AS g, [ST_Point(i, 0)] AS l FROM range(10) r(i)")
    path = tmp_path / "c.arrow"
    con.execute(f"COPY t TO '{path}' (FORMAT vibe_arrow)")
    assert rows_of(con, f"SELECT DISTINCT typeof(g), typeof(l) FROM vibe_read_arrow('{path}')") == \
        rows_of(con, "SELECT DISTINCT typeof(g), typeof(l) FROM t")
    # Another CRS is another type
    con.execute(f"COPY (SELECT g::GEOMETRY AS g, l FROM t) TO '{tmp_path}/d.arrow' (FORMAT vibe_arrow)")
    with pytest.raises(duckdb.Error, match="column g is of type geoarrow.wkb"):
        con.execute(f"FROM vibe_read_arrow(['{path}', '{tmp_path}/d.arrow'])").fetchall()


#
# Native GeoArrow
#
@pytest.fixture
def native(con):
    if not con.execute("SELECT count(*) FROM duckdb_settings() WHERE name = 'vibe_arrow_encoding'").fetchone()[0]:
        pytest.skip("this build has no native GeoArrow")
    return con


NATIVE = {
    "point": ["POINT (1 2)", None, "POINT (3 4)"],
    "point_z": ["POINT Z (1 2 3)", "POINT Z (3 4 5)", None],
    "linestring": ["LINESTRING (0 0, 1 1)", "LINESTRING EMPTY", None, "LINESTRING (0 0, 1 1, 2 5)"],
    "polygon": ["POLYGON ((0 0, 1 0, 1 1, 0 0))", None, "POLYGON ((0 0, 9 0, 9 9, 0 0), (2 1, 3 1, 3 2, 2 1))", "POLYGON EMPTY"],
    "multipoint": ["MULTIPOINT (1 1, 2 2)", "MULTIPOINT (3 3)"],
    "multilinestring": ["MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))", None],
    "multipolygon_zm": ["MULTIPOLYGON ZM (((0 0 1 2, 1 0 1 2, 1 1 1 2, 0 0 1 2)))"],
}


@pytest.mark.parametrize("kind", sorted(NATIVE))
def test_native_both_ways(native, tmp_path, kind):
    native.execute("CREATE TABLE t (id INTEGER, g GEOMETRY('OGC:CRS84'), h GEOMETRY)")
    # Several batches, of which each has all rows
    values = NATIVE[kind] * 3000
    native.execute("INSERT INTO t SELECT i, v::GEOMETRY, v::GEOMETRY FROM (SELECT unnest(?) AS v, unnest(range(?)) AS i)",
                   [values, len(values)])
    name = "geoarrow." + kind.split("_")[0]
    for options in ("ENCODING 'native'", "ENCODING native, BATCH_SIZE 1000, COMPRESSION zstd", f"ENCODING '{kind}'",
                    f"ENCODING '{kind}_interleaved', STREAM"):
        path = tmp_path / "n.arrow"
        native.execute(f"COPY t TO '{path}' (FORMAT vibe_arrow, {options})")
        table = (ipc.open_stream if "STREAM" in options else ipc.open_file)(str(path)).read_all()
        table.validate(full=True)
        for column in ("g", "h"):
            # A registered type of geoarrow-pyarrow knows itself, else the metadata do
            field = table.schema.field(column)
            found = getattr(field.type, "extension_name", None) or field.metadata[b"ARROW:extension:name"].decode()
            assert found == name
        query = "SELECT id, ST_AsText(g), ST_AsText(h), typeof(g), typeof(h) FROM {} ORDER BY id"
        assert rows_of(native, query.format(f"vibe_read_arrow('{path}')")) == rows_of(native, query.format("t"))


def test_native_of_several_kinds(native, tmp_path, data):
    path = tmp_path / "n.arrow"
    # Polygons beside multipolygons are multipolygons
    native.execute(f"COPY (SELECT name, geom FROM '{data}/countries.parquet') TO '{path}' (FORMAT vibe_arrow, ENCODING 'native')")
    assert rows_of(native, f"SELECT DISTINCT ST_GeometryType(geom)::VARCHAR FROM vibe_read_arrow('{path}')") == [("MULTIPOLYGON",)]
    assert rows_of(native, f"SELECT name, ST_AsWKB(geom) FROM vibe_read_arrow('{path}') ORDER BY name") == \
        rows_of(native, f"SELECT name, ST_AsWKB(ST_Multi(geom)) FROM '{data}/countries.parquet' ORDER BY name")
    os.remove(path)
    for values in (["POINT (1 1)", "LINESTRING (0 0, 1 1)"], ["POINT (1 1)", "POINT Z (1 1 1)"], ["GEOMETRYCOLLECTION (POINT (1 1))"]):
        with pytest.raises(duckdb.InvalidInputException, match="column g .*ENCODING 'wkb'"):
            native.execute(f"COPY (SELECT unnest({values})::GEOMETRY AS g) TO '{path}' (FORMAT vibe_arrow, ENCODING 'native')")
        assert os.listdir(tmp_path) == []
    # Nothing that has a kind
    native.execute(f"COPY (SELECT NULL::GEOMETRY AS g, 1 AS i) TO '{path}' (FORMAT vibe_arrow, ENCODING 'native')")
    assert rows_of(native, f"SELECT g, i, typeof(g) FROM vibe_read_arrow('{path}')") == [(None, 1, "GEOMETRY")]
    native.execute(f"COPY (SELECT 'POINT (1 1)'::GEOMETRY AS g WHERE false) TO '{path}' (FORMAT vibe_arrow, ENCODING 'native')")
    assert rows_of(native, f"SELECT g FROM vibe_read_arrow('{path}')") == []


def test_native_by_setting_and_function(native, tmp_path):
    path = tmp_path / "n.arrow"
    native.execute("SET vibe_arrow_encoding = 'point'")
    native.execute(f"COPY (SELECT ST_Point(i, i) AS g FROM range(10) r(i)) TO '{path}' (FORMAT vibe_arrow)")
    assert pa.types.is_struct(getattr(ipc.open_file(str(path)).schema.field("g").type, "storage_type", ipc.open_file(str(path)).schema.field("g").type))
    native.execute(f"COPY (SELECT ST_Point(i, i) AS g FROM range(10) r(i)) TO '{path}' (FORMAT vibe_arrow, ENCODING 'wkb')")
    assert b"geoarrow.wkb" in path.read_bytes()
    native.execute("RESET vibe_arrow_encoding")
    native.execute(f"COPY (SELECT vibe_geoarrow(ST_Point(i, i), 'point_interleaved') AS g, ST_Point(i, 0) AS h FROM range(10) r(i)) TO '{path}' (FORMAT vibe_arrow)")
    assert b"geoarrow.wkb" in path.read_bytes() and b"geoarrow.point" in path.read_bytes()
    assert rows_of(native, f"SELECT sum(ST_X(g)), sum(ST_Y(h)) FROM vibe_read_arrow('{path}')") == [(45.0, 0.0)]


def test_native_keeps_the_order(native, tmp_path):
    native.execute("SET threads = 4")
    native.execute("CREATE TABLE big AS SELECT i, ST_Point(i, -i) AS g FROM range(500000) r(i)")
    native.execute(f"COPY big TO '{tmp_path}/n.arrow' (FORMAT vibe_arrow, ENCODING 'native')")
    assert ipc.open_file(f"{tmp_path}/n.arrow").read_all().column("i").to_pylist() == list(range(500000))
    native.execute(f"COPY big TO '{tmp_path}/n.arrow' (FORMAT vibe_arrow, ENCODING 'native', BATCH_SIZE 20480)")
    reader = ipc.open_file(f"{tmp_path}/n.arrow")
    assert max(reader.get_batch(i).num_rows for i in range(reader.num_record_batches)) == 20480
    assert rows_of(native, f"SELECT count(*) FROM vibe_read_arrow('{tmp_path}/n.arrow') WHERE ST_X(g) = i AND ST_Y(g) = -i") == [(500000,)]


#
# COPY
#
SOURCE = """SELECT i, i % 7 = 0 AS b, i::UTINYINT AS u, i / 3 AS d, 'text ' || i AS s, i::VARCHAR::BLOB AS blob,
    DATE '2020-01-01' + i::INTEGER AS day, TIMESTAMP '2020-01-01' + to_seconds(i) AS at, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS tz,
    TIME '12:00:00' AS t, INTERVAL (i) DAY AS v, i::DECIMAL(30, 3) AS dec, CASE WHEN i % 5 > 0 THEN [i, NULL, i + 1] END AS l,
    {'a': i, 'b': ['x', NULL]} AS st, MAP {'k': i} AS m, (CASE i % 3 WHEN 0 THEN 'red' WHEN 1 THEN 'blue' END)::colour AS e,
    [(CASE i % 2 WHEN 0 THEN 'red' ELSE 'green' END)::colour] AS le, array_value(i, i + 1) AS fixed, NULL AS n
    FROM range(200) r(i)"""


def with_colours(con):
    con.execute("CREATE TYPE colour AS ENUM ('red', 'green', 'blue')")
    con.execute(f"CREATE TABLE source AS {SOURCE}")


@pytest.mark.parametrize("options", ["", "COMPRESSION 'zstd'", "COMPRESSION lz4, BATCH_SIZE 33", "STREAM true",
                                     "STREAM, COMPRESSION 'ZSTD', ROW_GROUP_SIZE 7", "COMPRESSION none, ENCODING 'wkb'"])
def test_copy_is_what_pyarrow_reads(con, tmp_path, options):
    with_colours(con)
    path = tmp_path / "out.arrow"
    count = con.execute(f"COPY source TO '{path}' (FORMAT vibe_arrow{', ' + options if options else ''})").fetchone()[0]
    assert count == 200
    table = (ipc.open_stream if "STREAM" in options else ipc.open_file)(str(path)).read_all()
    table.validate(full=True)
    # DuckDB's own Arrow result is the oracle: same types, same values
    expected = con.execute("FROM source").to_arrow_table()
    assert table.schema.equals(expected.schema), (table.schema, expected.schema)
    assert table.to_pylist() == expected.to_pylist()
    # Python's own form of a TIMESTAMPTZ asks for another package
    same = "SELECT * REPLACE (epoch_us(tz) AS tz), typeof(tz)"
    assert rows_of(con, f"{same} FROM vibe_read_arrow('{path}')") == rows_of(con, f"{same} FROM source")
    assert os.listdir(tmp_path) == ["out.arrow"]


def test_copy_of_nothing(con, tmp_path):
    with_colours(con)
    for options in ("", ", STREAM"):
        path = tmp_path / "none.arrow"
        con.execute(f"COPY (FROM source WHERE false) TO '{path}' (FORMAT vibe_arrow{options})")
        table = (ipc.open_stream if options else ipc.open_file)(str(path)).read_all()
        assert table.num_rows == 0 and table.num_columns == 19
        assert rows_of(con, f"FROM vibe_read_arrow('{path}')") == []


# Since 2.0 DuckDB itself makes batches of this size, of whole vectors
SINCE_2 = not duckdb.__version__.startswith("1.")
BATCH = 10240 if SINCE_2 else 10000


@pytest.mark.parametrize("threads", [1, 4])
def test_copy_keeps_the_order(connect, tmp_path, threads):
    with connect(threads=threads) as con:
        con.execute("CREATE TABLE big AS SELECT i, 'row ' || i AS s FROM range(1000000) r(i)")
        for options, rows in (("", 122880), (", BATCH_SIZE 10000, COMPRESSION zstd", BATCH)):
            path = tmp_path / "big.arrow"
            con.execute(f"COPY big TO '{path}' (FORMAT vibe_arrow{options})")
            reader = ipc.open_file(str(path))
            assert reader.read_all().column("i").to_pylist() == list(range(1000000))
            sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
            assert max(sizes) <= rows and len(sizes) < 2 * 1000000 / rows + 2
        con.execute("SET preserve_insertion_order = false")
        con.execute(f"COPY big TO '{tmp_path}/other.arrow' (FORMAT vibe_arrow)")
        assert rows_of(con, f"SELECT count(*), sum(i), count(DISTINCT s) FROM vibe_read_arrow('{tmp_path}/other.arrow')") == \
            [(1000000, 499999500000, 1000000)]


def test_copy_in_parts(con, tmp_path):
    con.execute("CREATE TABLE t AS SELECT i, i % 3 AS k FROM range(1000) r(i)")
    con.execute(f"COPY t TO '{tmp_path}/parts' (FORMAT vibe_arrow, PARTITION_BY (k))")
    assert rows_of(con, f"SELECT count(*), sum(i) FROM vibe_read_arrow('{tmp_path}/parts/*/*.arrow')") == [(1000, 499500)]
    con.execute(f"COPY t TO '{tmp_path}/threads' (FORMAT vibe_arrow, PER_THREAD_OUTPUT)")
    assert rows_of(con, f"SELECT count(*), sum(i) FROM vibe_read_arrow('{tmp_path}/threads/*.arrow')") == [(1000, 499500)]


def test_copy_over_the_file_that_is_read(con, tmp_path):
    path = tmp_path / "x.arrow"
    con.execute(f"COPY (SELECT i FROM range(100000) r(i)) TO '{path}' (FORMAT vibe_arrow)")
    con.execute(f"COPY (SELECT i + 1 AS i FROM vibe_read_arrow('{path}')) TO '{path}' (FORMAT vibe_arrow)")
    assert rows_of(con, f"SELECT min(i), max(i), count(*) FROM vibe_read_arrow('{path}')") == [(1, 100000, 100000)]


def test_a_copy_that_fails_leaves_nothing(con, tmp_path):
    path = tmp_path / "x.arrow"
    for over in (False, True):
        if over:
            path.write_bytes(b"the old file")
        with pytest.raises(duckdb.Error, match="not a number"):
            con.execute(f"""COPY (SELECT CASE WHEN i < 900000 THEN i ELSE error('not a number') END AS i
                            FROM range(1000000) r(i)) TO '{path}' (FORMAT vibe_arrow)""")
        assert os.listdir(tmp_path) == (["x.arrow"] if over else [])
    assert path.read_bytes() == b"the old file"


def test_cancelled_queries(connect, tmp_path):
    with connect(threads=2) as con:
        big = tmp_path / "big.arrow"
        con.execute(f"COPY (SELECT i, 'row ' || i AS s FROM range(3000000) r(i)) TO '{big}' (FORMAT vibe_arrow, BATCH_SIZE 10000)")
        for query in (f"COPY (SELECT a.i, b.s FROM vibe_read_arrow('{big}') a, range(1000) c, (SELECT 'x' AS s) b) TO '{tmp_path}/o.arrow' (FORMAT vibe_arrow)",
                      f"SELECT sum(length(a.s) + c.range) FROM vibe_read_arrow('{big}') a, range(1000) c"):
            timer = threading.Timer(0.5, con.interrupt)
            timer.start()
            begin = time.monotonic()
            with pytest.raises(duckdb.InterruptException):
                con.execute(query).fetchall()
            timer.cancel()
            assert time.monotonic() - begin < 10
            assert os.listdir(tmp_path) == ["big.arrow"]
        assert rows_of(con, f"SELECT count(*) FROM vibe_read_arrow('{big}')") == [(3000000,)]


@pytest.mark.parametrize("options,message", [
    ("COMPRESSION 'gzip'", "'zstd', 'lz4' and 'none'"), *([] if SINCE_2 else [("BATCH_SIZE 0", "at least 1")]), ("BATCH_SIZE -1", "-1"),
    ("ENCODING 'wkx'", "(?i)encoding"), ("COLOUR 'red'", "(?i)colour"), ("STREAM 'perhaps'", "perhaps"),
    ("COMPRESSION NULL", "(?i)compression")])
def test_options_that_are_wrong(con, tmp_path, options, message):
    with pytest.raises(duckdb.Error, match=message):
        con.execute(f"COPY (SELECT 1 AS i) TO '{tmp_path}/x.arrow' (FORMAT vibe_arrow, {options})")
    assert os.listdir(tmp_path) == []


def test_prepared_statements_see_the_file_of_today(con, tmp_path):
    path = write(pa.table({"i": [1, 2]}), tmp_path / "x.arrow")
    con.execute(f"PREPARE p AS SELECT sum(i) FROM vibe_read_arrow('{path}')")
    assert rows_of(con, "EXECUTE p") == [(3,)]
    write(pa.table({"i": [10, 20, 30]}), tmp_path / "new.arrow").rename(path)
    assert rows_of(con, "EXECUTE p") == [(60,)]
    write(pa.table({"j": ["other"]}), tmp_path / "new.arrow").rename(path)
    with pytest.raises(duckdb.Error, match="no column i"):
        con.execute("EXECUTE p").fetchall()


#
# What is no Arrow file
#
@pytest.mark.parametrize("content,message", [
    (b"", "no Arrow IPC file or stream"), (b"hello", "no Arrow IPC file or stream"),
    (b"PAR1" + b"\0" * 100, "."), (b"FEA1" + b"\0" * 100, "Feather V1"), (b"ARROW1\0\0", "."),
    (b"ARROW1\0\0" + b"\xff" * 64, "."), (b"\xff" * 100, "."), (b"\xff\xff\xff\xff\x10\0\0\0" + b"\0" * 16, ".")])
def test_no_arrow_file(con, tmp_path, content, message):
    path = tmp_path / "x.arrow"
    path.write_bytes(content)
    with pytest.raises((duckdb.IOException, duckdb.InvalidInputException), match=message) as raised:
        con.execute(f"FROM vibe_read_arrow('{path}')").fetchall()
    assert "x.arrow" in str(raised.value)


def test_types_that_duckdb_has_not(con, tmp_path):
    for array, message in ((pa.array([[]], pa.list_(pa.int32(), 0)), "column c has lists of 0 values"),
                           (pa.array([[0] * 100001], pa.list_(pa.int8(), 100001)), "column c has lists of 100001 values"),
                           (pa.array([None], pa.decimal128(5, 7)), "column c is a decimal of 5 digits with 7"),
                           (pa.array([None], pa.decimal128(5, -2)), "column c is a decimal of 5 digits with -2"),
                           (pa.array([None], pa.decimal256(60, 2)), "60")):
        path = write(pa.table({"c": array}), tmp_path / "x.arrow")
        with pytest.raises(duckdb.Error, match=message) as raised:
            con.execute(f"FROM vibe_read_arrow('{path}')").fetchall()
        assert "INTERNAL" not in str(raised.value)


def test_files_that_are_not_there(con, tmp_path):
    for path in (f"{tmp_path}/none.arrow", f"{tmp_path}/*.arrow"):
        with pytest.raises(duckdb.IOException, match="No files found"):
            con.execute(f"FROM vibe_read_arrow('{path}')")
    with pytest.raises(duckdb.Error):
        con.execute(f"FROM vibe_read_arrow('{tmp_path}')")
    with pytest.raises(duckdb.BinderException, match="NULL"):
        con.execute("FROM vibe_read_arrow(NULL::VARCHAR)")
    with pytest.raises(duckdb.Error):
        con.execute(f"COPY (SELECT 1 AS i) TO '{tmp_path}/no/folder/x.arrow' (FORMAT vibe_arrow)")


def test_external_access(connect, tmp_path):
    path = write(pa.table({"i": [1]}), tmp_path / "x.arrow")
    with connect() as con:
        con.execute("SET enable_external_access = false")
        with pytest.raises(duckdb.PermissionException):
            con.execute(f"FROM vibe_read_arrow('{path}')")
        with pytest.raises(duckdb.PermissionException):
            con.execute(f"COPY (SELECT 1 AS i) TO '{tmp_path}/y.arrow' (FORMAT vibe_arrow)")
        with pytest.raises(duckdb.PermissionException):
            con.execute("SET GLOBAL vibe_arrow_library = '/usr/lib'")
    assert os.listdir(tmp_path) == ["x.arrow"]


#
# libarrow: in processes of their own, since a process opens it once
#
def in_process(extension, code, python=sys.executable, **environment):
    code = f"""
import duckdb, sys
con = duckdb.connect(config={{"allow_unsigned_extensions": "true"}})
con.execute("LOAD '{extension}'")
def attempt(query):
    try:
        print(con.execute(query).fetchall())
    except duckdb.Error as error:
        print("ERROR", error)
{code}"""
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")}
    done = subprocess.run([python, "-c", code], text=True, capture_output=True, env={**clean, **environment}, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def copied(extension, plugin, tmp_path):
    """The extension and its plug-in in a folder of their own, and an Arrow file"""
    folder = tmp_path / "own"
    (folder / "vibespatial").mkdir(parents=True)
    shutil.copy(extension, folder)
    shutil.copy(plugin, folder / "vibespatial")
    write(pa.table({"i": [1, 2, 3]}), tmp_path / "x.arrow")
    return folder / extension.name


def bare_site(tmp_path, *packages):
    """A folder with DuckDB's package alone, to run Python with as its only packages"""
    site = tmp_path / "site-packages"
    site.mkdir()
    source = pathlib.Path(duckdb.__file__).parent.parent
    for path in source.iterdir():
        if path.name.split(".")[0].split("-")[0] in ("duckdb", "_duckdb", *packages):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, site / path.name)
    return site


def test_pyarrow_is_found_beside_duckdb(copied, tmp_path):
    query = f"attempt(\"SELECT sum(i) FROM vibe_read_arrow('{tmp_path}/x.arrow')\")"
    assert in_process(copied, query) == "[(6,)]\n"
    assert in_process(copied, "import pyarrow\n" + query) == "[(6,)]\n"
    # What was loaded by us is what pyarrow then gets
    assert in_process(copied, query + "\nimport pyarrow as pa\nprint(con.execute('SELECT 1 AS i').to_arrow_table().num_rows)") == "[(6,)]\n1\n"


def test_without_libarrow(copied, tmp_path):
    site = bare_site(tmp_path)
    base = os.path.realpath(sys.executable)
    query = f"attempt(\"SELECT sum(i) FROM vibe_read_arrow('{tmp_path}/x.arrow')\")\n"
    home = str(tmp_path)
    out = in_process(copied, query + "attempt('SELECT ST_Area(NULL::GEOMETRY)')", base, PYTHONPATH=str(site), HOME=home)
    assert 'pip install "pyarrow==26.*"' in out and "libarrow.so.2600" in out and "vibe_arrow_library" in out
    assert out.endswith("[(None,)]\n")
    out = in_process(copied, "attempt(\"COPY (SELECT 1 AS i) TO '%s/y.arrow' (FORMAT vibe_arrow)\")" % tmp_path, base, PYTHONPATH=str(site), HOME=home)
    assert 'pip install "pyarrow==26.*"' in out and not (tmp_path / "y.arrow").exists()
    # Another version is named
    (site / "pyarrow").mkdir()
    (site / "pyarrow" / "libarrow.so.2400").write_bytes(b"not even a library")
    out = in_process(copied, query, base, PYTHONPATH=str(site), HOME=home)
    assert "libarrow.so.2400 (version 24)" in out and 'pip install "pyarrow==26.*"' in out
    # It is found by the setting, then by the variable; what is wrong with them is said
    folder = os.path.dirname(pa.__file__)
    for library in (folder, folder + "/libarrow.so.2600"):
        out = in_process(copied, f"attempt(\"SET GLOBAL vibe_arrow_library = '{library}'\")\n" + query, base, PYTHONPATH=str(site), HOME=home)
        assert out.endswith("[(6,)]\n"), out
    out = in_process(copied, query, base, PYTHONPATH=str(site), HOME=home, VIBESPATIAL_LIBRARY_PATH=folder)
    assert out == "[(6,)]\n"
    out = in_process(copied, f"attempt(\"SET GLOBAL vibe_arrow_library = '{tmp_path}'\")\n" + query, base, PYTHONPATH=str(site), HOME=home)
    assert "neither the absolute path of a libarrow.so.2600 nor of a folder" in out
    out = in_process(copied, "attempt(\"SET GLOBAL vibe_arrow_library = 'lib'\")", base, PYTHONPATH=str(site), HOME=home)
    assert "absolute path" in out
    # A library of that name that is none
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "libarrow.so.2600").write_bytes(b"not even a library")
    out = in_process(copied, f"attempt(\"SET GLOBAL vibe_arrow_library = '{fake}'\")\n" + query, base, PYTHONPATH=str(site), HOME=home)
    assert "could not be loaded" in out and 'pip install "pyarrow==26.*"' in out


def test_the_current_folder_is_not_searched(copied, tmp_path):
    site = bare_site(tmp_path)
    folder = os.path.dirname(pa.__file__)
    shutil.copy(folder + "/libarrow.so.2600", tmp_path)
    code = f"import os\nos.chdir('{tmp_path}')\nattempt(\"FROM vibe_read_arrow('{tmp_path}/x.arrow')\")"
    for extra in ({}, {"VIBESPATIAL_LIBRARY_PATH": "."}, {"CONDA_PREFIX": "."}):
        out = in_process(copied, code, os.path.realpath(sys.executable), PYTHONPATH=str(site), HOME=str(tmp_path / "none"), **extra)
        assert "was not found" in out


def test_without_the_plugin(copied, tmp_path):
    (copied.parent / "vibespatial" / "libvibespatial_arrow.so").unlink()
    out = in_process(copied, f"attempt(\"FROM vibe_read_arrow('{tmp_path}/x.arrow')\")")
    assert "this installation has no Arrow plug-in" in out
    out = in_process(copied, f"attempt(\"FROM vibe_read_arrow('{tmp_path}/none.arrow')\")")
    assert "No files found" in out


def test_nothing_is_opened_before_a_query_asks(copied):
    out = in_process(copied, "attempt('SELECT 1')\nprint('libarrow' in open('/proc/self/maps').read(), 'vibespatial_arrow' in open('/proc/self/maps').read())")
    assert out == "[(1,)]\nFalse False\n"
