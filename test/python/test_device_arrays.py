"""Results as Arrow arrays in the memory of a device whose memory is the host's: every value against pyarrow, who owns what, and errors.

Each test runs in a process of its own, since the engine is one for a process; its body is the text of a program.
"""
import os
import subprocess
import sys
import textwrap

import pytest

from conftest import ROOT
from test_gpu_runtime import fake  # noqa: F401 (a fixture)

BEGIN = """
import ctypes, gc, sys, warnings, duckdb, pyarrow as pa
import vibespatial
from vibespatial import _device

con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{sys.argv[1]}'")

def memory():
    return con.execute("SELECT bytes, count FROM vibe_memory_status() WHERE name = 'device arrays'").fetchall()[0]

def read(array):
    batch = pa.RecordBatch._import_from_c_device_capsule(*array.__arrow_c_device_array__())
    batch.validate(full=True)
    return batch

def host(query):
    return con.sql(query).to_arrow_table().combine_chunks()

def rows(table):
    # By their bits: NaN is itself, -0.0 is not 0.0
    return [tuple(map(repr, row.values())) for row in table.to_pylist()]

def same(query, native=None):
    '''The rows of a query on the device are those of the host; `native` is the query with the encodings that are expected.'''
    expected = host(native or query)
    found = read(vibespatial.to_device(query, con))
    assert found.schema.equals(expected.schema, check_metadata=True), f"{found.schema}\\n{expected.schema}"
    assert found.num_rows == expected.num_rows
    assert rows(pa.Table.from_batches([found])) == rows(expected)
    return found

def fails(kind, *texts, source=None, **options):
    try:
        vibespatial.to_device(source, con, **options)
    except kind as error:
        assert all(text in str(error) for text in texts), error
    else:
        assert False, "no error"
"""


@pytest.fixture
def program(extension, fake):
    """Runs the text of a program with the fake engine; the text that it prints"""

    def run(text, folder=fake, code=0, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("VIBESPATIAL_", "FAKE_GPU"))}
        environment = {**clean, "PYTHONPATH": str(ROOT / "python"), "VIBESPATIAL_GPU_FOLDER": str(folder), **environment}
        result = subprocess.run([sys.executable, "-c", BEGIN + textwrap.dedent(text), str(extension)], env=environment, cwd=ROOT,
                                capture_output=True, text=True, timeout=300)
        assert result.returncode == code and result.stderr == "", result.stderr + result.stdout
        return result.stdout

    return run


def test_geometries_of_every_kind_and_dimension(program):
    program("""
    SHAPES = {
        "point": ["({0})", "EMPTY"],
        "linestring": ["({0}, {1}, {2})", "EMPTY", "({1}, {3})"],
        "polygon": ["(({0}, {1}, {2}, {0}))", "EMPTY", "(({0}, {1}, {2}, {0}), ({3}, {4}, {5}, {3}))"],
        "multipoint": ["({0}, {1})", "EMPTY", "({5})"],
        "multilinestring": ["(({0}, {1}), ({2}, {3}, {4}))", "EMPTY", "(({0}, {1}))"],
        "multipolygon": ["((({0}, {1}, {2}, {0})), (({3}, {4}, {5}, {3})))", "EMPTY",
                         "((({0}, {1}, {2}, {0}), ({3}, {4}, {5}, {3})))"],
    }
    XY = [(0, 0), (9.5, 0), (0, 1e300), (1, 1), (2, 1), (1, -2.5)]
    for kind, shapes in SHAPES.items():
        for suffix, words in (("", ""), ("_z", "Z "), ("_m", "M "), ("_zm", "ZM ")):
            more = len(suffix) - 1 if suffix else 0
            vertices = [" ".join(map(str, (*at, *range(i, i + more)))) for i, at in enumerate(XY)]
            values = [f"({i}, '{kind.upper()} {words}{shape.format(*vertices)}'::GEOMETRY)" for i, shape in enumerate(shapes)]
            values.insert(1, "(17, NULL)")
            table = f"(VALUES {', '.join(values)}) t(id, g)"
            found = same(f"SELECT * FROM {table}", f"SELECT id, vibe_geoarrow(g, '{kind}{suffix}') AS g FROM {table}")
            assert found.schema.field("g").metadata[b"ARROW:extension:name"] == b"geoarrow." + kind.encode()
            assert found.column("g").null_count == 1
    # A single one beside a multi one
    for kind in ("point", "linestring", "polygon"):
        multi = SHAPES["multi" + kind][0].format(*vertices), SHAPES[kind][0].format(*vertices)
        table = f"(VALUES ('MULTI{kind.upper()} ZM {multi[0]}'::GEOMETRY), (NULL), ('{kind.upper()} ZM {multi[1]}'::GEOMETRY)) t(g)"
        same(f"SELECT g FROM {table}", f"SELECT vibe_geoarrow(g, 'multi{kind}_zm') AS g FROM {table}")
    del found
    assert memory() == (0, 0)
    """)


def test_the_crs_comes_along(program):
    program("""
    query = "SELECT {} AS g FROM (SELECT ST_SetCRS(ST_Point(1, 2), 'OGC:CRS84') AS g)"
    found = same(query.format("g"), query.format("vibe_geoarrow(g, 'point')"))
    assert b"CRS84" in found.schema.field("g").metadata[b"ARROW:extension:metadata"]
    """)


def test_columns_of_all_types(program):
    program("""
    types = ["BOOLEAN", "TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE",
             "DECIMAL(4, 1)", "DECIMAL(30, 3)", "VARCHAR", "BLOB"]
    columns = [f"CASE WHEN i % 7 <> {n % 7} THEN (i % 2)::{name} END AS c{n}" for n, name in enumerate(types) if name != "BLOB"]
    columns += ["CASE WHEN i % 3 = 0 THEN NULL ELSE ('x' || i)::BLOB END AS blob", "repeat('text', i::INTEGER % 5) AS text",
                "i % 3 = 0 AS flag", "(i / 3)::DOUBLE AS d", "DATE '2020-01-01' + i::INTEGER AS day", "TIME '10:00:00' + to_minutes(i) AS t",
                "TIMESTAMP '2020-01-01' + to_minutes(i) AS moment", "(TIMESTAMP '2020-01-01' + to_minutes(i))::TIMESTAMP_S AS s",
                "(TIMESTAMP '2020-01-01')::TIMESTAMP_NS AS ns", "(TIMESTAMP '2020-01-01')::TIMESTAMPTZ AS tz", "to_minutes(i) AS span",
                "CASE WHEN i % 5 <> 2 THEN [i, NULL, i + 1] END AS list", "[[i], [], NULL, [i, i]] AS lists", "{'a': i, 'b': 'x' || i} AS s2",
                "CASE WHEN i % 5 = 2 THEN {'a': i, 'b': [i]} END AS s3", "[i, i + 1]::BIGINT[2] AS pair", "MAP {i: 'v' || i} AS map", "NULL AS nothing",
                "NULL::VARCHAR AS no_text", "gen_random_uuid()::VARCHAR IS NULL AS never"]
    for count in (0, 1, 7, 8, 9, 2048, 5000):
        same(f"SELECT {', '.join(columns)} FROM range({count}) t(i)")
    assert memory() == (0, 0)
    """)


def test_many_rows_in_several_batches(program):
    program("""
    table = "range(2300001) t(i)"
    point = "CASE WHEN i % 11 <> 3 THEN ST_Point(i, -i / 3) END"
    found = read(vibespatial.to_device(f"SELECT i, {point} AS g, i % 3 = 0 AS flag, 't' || i % 1000 AS text FROM {table}", con))
    expected = host(f"SELECT i, vibe_geoarrow({point}, 'point') AS g, i % 3 = 0 AS flag, 't' || i % 1000 AS text FROM {table}")
    assert found.num_rows == 2300001
    assert pa.Table.from_batches([found]).drop_columns("g").equals(expected.drop_columns("g"))
    valid = expected.column("g").is_valid()
    assert found.column("g").is_valid().equals(valid.combine_chunks())
    for axis in range(2):
        one, other = found.column("g").field(axis), expected.column("g").combine_chunks().field(axis)
        assert one.filter(valid.combine_chunks()).equals(other.filter(valid.combine_chunks()))
    # Lists over the borders of batches
    line = "ST_MakeLine(list_transform(range(i % 4 + 2), lambda k: ST_Point(i + k, k)))"
    small = "range(150001) t(i)"
    found = read(vibespatial.to_device(f"SELECT {line} AS g, range(i % 3) AS l FROM {small}", con))
    expected = host(f"SELECT vibe_geoarrow({line}, 'linestring') AS g, range(i % 3) AS l FROM {small}")
    assert pa.Table.from_batches([found]).equals(expected)
    """)


def test_what_a_source_can_be(program):
    program("""
    con.execute("CREATE TABLE t AS SELECT i AS id, ST_Point(i, i) AS g FROM range(10) t(i)")
    query = "SELECT id, g FROM t WHERE id > 5"
    expected = rows(host("SELECT id, vibe_geoarrow(g, 'point') AS g FROM t WHERE id > 5"))
    relation = con.sql(query)
    for _ in range(2):
        assert rows(read(vibespatial.to_device(relation, con))) == expected
    assert rows(read(vibespatial.to_device("SELECT id, g FROM t WHERE id > ?", con, params=[5]))) == expected
    with warnings.catch_warnings():
        # DuckDB 2.0 knows a better way
        warnings.simplefilter("ignore", UserWarning)
        assert rows(read(vibespatial.to_device(con.execute(query), con))) == expected
    table = con.sql("SELECT id, g FROM t").to_arrow_table()
    assert rows(read(vibespatial.to_device(table.slice(6), con))) == expected
    # An encoding of the query's own
    own = "SELECT vibe_geoarrow(g, 'multipoint_interleaved') AS g FROM t"
    assert rows(read(vibespatial.to_device(own, con))) == rows(host(own))
    empty = read(vibespatial.to_device("SELECT vibe_geoarrow(g, 'polygon') AS g FROM t WHERE id < 0", con))
    assert empty.num_rows == 0 and empty.schema.field("g").metadata[b"ARROW:extension:name"] == b"geoarrow.polygon"
    # WKB
    found = read(vibespatial.to_device("SELECT g FROM (VALUES (ST_Point(1, 2)), (ST_MakeEnvelope(0, 0, 1, 1))) t(g)", con, encoding="wkb"))
    assert found.schema.field("g").metadata[b"ARROW:extension:name"] == b"geoarrow.wkb"
    assert found.column("g").to_pylist()[0] == bytes(con.execute("SELECT ST_AsWKB(ST_Point(1, 2))").fetchall()[0][0])
    found = read(vibespatial.to_device("SELECT NULL::GEOMETRY AS g", con))
    assert found.schema.field("g").metadata[b"ARROW:extension:name"] == b"geoarrow.wkb" and found.column("g").to_pylist() == [None]
    """)


def test_a_transaction_of_its_own(program):
    program("""
    con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS a")
    con.execute("BEGIN")
    con.execute("INSERT INTO mine VALUES (2)")
    assert read(vibespatial.to_device("FROM mine ORDER BY a", con)).to_pylist() == [{"a": 1}, {"a": 2}]
    con.execute("ROLLBACK")
    """)


def test_the_structs_themselves(program):
    program("""
    array = vibespatial.to_device("SELECT ST_Point(1, 2) AS g, 'abc' AS t FROM range(3)", con)
    assert len(array) == 3 and (array.device_type, array.device_id) == (1, -1) and "3 rows" in repr(array)
    schema, device = array.__arrow_c_device_array__()
    taken = _device._DeviceArray.from_address(_device._pointer_of(device, b"arrow_device_array"))
    assert (taken.device_type, taken.device_id, taken.sync_event, list(taken.reserved)) == (1, -1, None, [0, 0, 0])
    assert taken.array.length == 3 and taken.array.n_children == 2 and taken.array.offset == 0
    types = _device._Schema.from_address(_device._pointer_of(schema, b"arrow_schema"))
    assert types.format == b"+s" and types.children[0][0].name == b"g"
    # A schema that is asked for is one that there is
    imported = pa.schema(array)
    assert imported.names == ["g", "t"]
    assert len(array.__arrow_c_device_array__(imported.__arrow_c_schema__())) == 2
    try:
        array.__arrow_c_device_array__(pa.schema([("g", pa.int8())]).__arrow_c_schema__())
        assert False
    except NotImplementedError as error:
        assert "cast them in the query" in str(error)
    try:
        array.__arrow_c_device_array__(stream=7)
        assert False
    except NotImplementedError as error:
        assert "stream" in str(error)
    assert pa.record_batch(array).num_rows == 3
    """)


def test_single_buffers(program):
    program("""
    line = "CASE WHEN i <> 2 THEN ST_MakeLine(ST_Point(i, 5), ST_Point(7, i)) END"
    array = vibespatial.to_device(f"SELECT i::SMALLINT AS i, ST_Point(i, -i) AS p, {line} AS l, 'ab' AS t, TIMESTAMP '1970-01-01' AS m, "
                                  "i = 1 AS b FROM range(4) t(i)", con)
    def values(*path, **options):
        buffer = array.buffer(*path, **options)
        code = {"<i2": "h", "<i4": "i", "<i8": "q", "<f8": "d", "|u1": "B"}[buffer.typestr]
        size = {"h": 2, "i": 4, "q": 8, "d": 8, "B": 1}[code]
        return list(memoryview(ctypes.string_at(buffer.address, buffer.shape[0] * size)).cast(code))
    assert values("i") == [0, 1, 2, 3]
    assert values("p", "y") == [0, -1, -2, -3]
    assert values("l", "vertices", "x") == [0, 7, 1, 7, 3, 7]
    assert values("l", kind="offsets") == [0, 2, 4, 4, 6]
    assert values("l", kind="validity") == [0b1011]
    assert values("t", kind="offsets") == [0, 2, 4, 6, 8]
    assert values("m") == [0, 0, 0, 0]
    def refused(error_type, text, *path, **options):
        try:
            array.buffer(*path, **options)
            assert False, path
        except error_type as error:
            assert text in str(error), error
    refused(KeyError, "'i', 'p', 'l', 't', 'm', 'b'", "nothing")
    refused(KeyError, "none", "i", "x")
    refused(ValueError, "has no values", "p")
    refused(ValueError, "has no values", "b")
    refused(ValueError, "has no offsets", "i", kind="offsets")
    refused(ValueError, "no row of it is NULL", "i", kind="validity")
    # It keeps the memory
    kept, before = array.buffer("i"), memory()
    assert before[0] > 0 and not hasattr(kept, "__cuda_array_interface__")
    del array
    gc.collect()
    assert memory() == before
    del kept
    gc.collect()
    assert memory() == (0, 0)
    """)


def test_memory_goes_with_its_last_owner(program):
    program("""
    array = vibespatial.to_device("SELECT i, ST_Point(i, i) AS g FROM range(1000) t(i)", con)
    bytes, buffers = memory()
    assert bytes >= 1000 * 24 and buffers == 3
    # As often as one likes, and without more memory
    capsules = array.__arrow_c_device_array__()
    one, other = read(array), read(array)
    assert memory() == (bytes, buffers)
    del capsules
    del array
    gc.collect()
    assert memory() == (bytes, buffers)
    assert one.equals(other)
    del one
    column = other.column("i")
    del other
    # One column is kept, its buffers alone, or all of them: pyarrow's choice
    assert memory()[0] >= 8000
    # After the connection, too
    con.close()
    con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    con.execute(f"LOAD '{sys.argv[1]}'")
    assert column.to_pylist() == list(range(1000))
    del column
    gc.collect()
    assert memory() == (0, 0)
    # Capsules that nobody takes
    for _ in range(100):
        vibespatial.to_device("SELECT 1 AS a", con).__arrow_c_device_array__()
    assert memory() == (0, 0)
    peak = con.execute("SELECT peak_bytes FROM vibe_memory_status() WHERE name = 'device arrays'").fetchall()[0][0]
    assert peak >= bytes
    """)


def test_the_end_of_the_process(program):
    program("""
    array = vibespatial.to_device("SELECT i, 'x' AS t FROM range(1000) t(i)", con)
    capsules = array.__arrow_c_device_array__()
    batch = read(array)
    sys.kept = capsules, batch, array
    class Late:
        pass
    Late.kept = array.__arrow_c_device_array__()
    late = Late()
    late.itself = late
    """)


def test_a_forked_process(program):
    program("""
    import os
    array = vibespatial.to_device("SELECT i FROM range(1000) t(i)", con)
    capsules, before = array.__arrow_c_device_array__(), memory()
    child = os.fork()
    if child == 0:
        del capsules, array
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert memory() == before
    assert read(array).num_rows == 1000
    """)


def test_threads(program):
    program("""
    import concurrent.futures
    def work(n):
        with con.cursor() as own:
            return sum(read(vibespatial.to_device(f"SELECT i FROM range({n * 1000}) t(i)", own)).column("i").to_pylist())
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == [n * 1000 * (n * 1000 - 1) // 2 for n in range(24)]
    gc.collect()
    assert memory() == (0, 0)
    """)


def test_errors(program):
    program("""
    mixed = "SELECT g AS place FROM (VALUES (ST_Point(1, 2)), (ST_MakeEnvelope(0, 0, 1, 1))) t(g)"
    fails(ValueError, '"place"', "POINT, POLYGON", "encoding='wkb'", source=mixed)
    fails(ValueError, "GEOMETRYCOLLECTION", source="SELECT 'GEOMETRYCOLLECTION (POINT (1 2))'::GEOMETRY AS g")
    fails(ValueError, "XY XYZ", "ST_Force2D", source="SELECT g FROM (VALUES ('POINT (1 2)'::GEOMETRY), ('POINT Z (1 2 3)'::GEOMETRY)) t(g)")
    fails(ValueError, '"word"', "cast it to VARCHAR", source="SELECT 'a'::ENUM('a', 'b') AS word")
    fails(ValueError, '"u"', "leave it out", source="SELECT union_value(a := 1) AS u")
    fails(ValueError, "native", source="SELECT 1", encoding="point")
    fails(ValueError, "params", source=con.sql("SELECT 1"), params=[1])
    if con.sql("CREATE TABLE q (a INTEGER)") is None:
        # DuckDB 2.0 has a relation without rows for it
        fails(ValueError, "no rows", source="CREATE TABLE p (a INTEGER)")
    fails(TypeError, "int", source=5)
    fails(duckdb.Error, "Could not convert", source="SELECT (CASE WHEN i = 500000 THEN 'x' ELSE '1' END)::INTEGER AS a FROM range(1000000) t(i)")
    fails(duckdb.Error, "nowhere", source="FROM nowhere")
    con.execute("SET vibe_execution_mode = 'cpu'")
    fails(RuntimeError, "vibe_execution_mode is 'cpu'", "vibe_gpu_info()", source="SELECT 1")
    con.execute("SET vibe_execution_mode = 'auto'")
    # A database could have a macro of that name
    con.execute("CREATE MACRO vibe_device_interface() AS TABLE SELECT 1 AS address, NULL AS reason")
    assert con.execute("FROM main.vibe_device_interface()").fetchall() == [(1, None)]
    assert len(vibespatial.to_device("SELECT 1", con)) == 1
    gc.collect()
    assert memory() == (0, 0)
    """)


def test_a_device_without_room(program):
    # The first buffer fits, a later one does not
    program("""
    fails(MemoryError, "the fake device has no room", source="SELECT 1 AS a, repeat('x', 5000) AS b")
    gc.collect()
    assert memory() == (0, 0)
    assert len(vibespatial.to_device("SELECT 1 AS a", con)) == 1
    """, FAKE_GPU="no room")


def test_a_device_that_fails(program):
    program("""
    fails(RuntimeError, "the fake device fell off", source="SELECT 1 AS a")
    assert memory() == (0, 0)
    """, FAKE_GPU="failure")


def test_no_gpu(program, tmp_path):
    program("""
    fails(RuntimeError, "there is no GPU to put the rows on", "libvibespatial_cuda.so was not found", "vibe_gpu_info()", source="SELECT 1")
    """, folder=tmp_path)
    program("""
    fails(RuntimeError, "the fake device is not there", source="SELECT 1")
    """, FAKE_GPU="no device")


def test_a_large_result_is_read_again_and_again(program):
    """No memory is lost on the way: the process does not grow."""
    program("""
    import resource
    con.execute("CREATE TABLE t AS SELECT i, ST_Point(i, i) AS g, 'x' || i AS t FROM range(300000) t(i)")
    def once():
        read(vibespatial.to_device("FROM t", con))
    for _ in range(3):
        once()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        once()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    """)


def test_the_check_for_a_device(extension, fake):
    """The program that is run on a machine with a GPU; here it reads the memory of the host."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VIBESPATIAL_", "FAKE_GPU"))}
    result = subprocess.run([sys.executable, ROOT / "test/device/device_arrays.py", "--extension", extension, "--rows", "100000"],
                            env={**clean, "VIBESPATIAL_GPU_FOLDER": str(fake)}, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and result.stdout.endswith("device type 1\ndevice arrays: passed\n"), result.stdout + result.stderr
    assert result.stdout.count("passed: ") == 15 and "FAILED" not in result.stdout
