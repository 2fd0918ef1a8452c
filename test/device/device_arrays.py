#!/usr/bin/env python3
"""Reads results on a device back through the Arrow C device interface and compares every value with DuckDB's own; needs Python, DuckDB's
module and a device, nothing else.

usage: device_arrays.py --extension FILE [--package FOLDER] [--rows 2000000]

FOLDER holds the Python package vibespatial; by default it is found in a checkout or in a bundle. Where the engine is one without a device, as in the tests, its memory is
the host's, and all is checked but the copies. CuPy is asked too where it is installed. The last line is "device arrays: passed".
"""
import argparse
import array
import ctypes
import datetime
import gc
import os
import pathlib
import struct
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CUDA, CUDA_MANAGED = 2, 13

TYPES = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "f": "f", "g": "d", "tdD": "i", "tsu": "q"}

QUERIES = {
    # columns of numbers, texts and lists
    "columns": "SELECT i AS id, CASE WHEN i % 3 <> 1 THEN i / 7 END AS d, (i % 200 - 100)::TINYINT AS tiny, i % 5 = 0 AS flag, "
    "CASE WHEN i % 4 <> 2 THEN 'text ' || i END AS t, CASE WHEN i % 5 <> 3 THEN range(i % 4) END AS l, {'a': i, 'b': 'x' || i} AS s, "
    "DATE '2020-01-01' + (i % 1000)::INTEGER AS day, TIMESTAMP '2020-01-01' + to_seconds(i) AS moment FROM range(20011) t(i)",
    "no rows": "SELECT i AS id, 'x' AS t FROM range(0) t(i)",
}
POINT = "ST_Point(i * 0.5, i % 1000 - 3)"
BOX = "ST_MakeEnvelope(i, i, i + 1 + i % 3, i + 2)"
GEOMETRIES = {
    "point": POINT,
    "point_z": "('POINT Z (' || i || ' 2 ' || i % 9 || ')')::GEOMETRY",
    "linestring": f"ST_MakeLine({POINT}, ST_Point(7, i))",
    "polygon": BOX,
    "multipoint": "('MULTIPOINT (' || i || ' 1, 2 ' || i || ')')::GEOMETRY",
    "multilinestring": "('MULTILINESTRING ((' || i || ' 1, 2 3), (4 5, 6 ' || i || ', 7 7))')::GEOMETRY",
    "multipolygon": f"CASE WHEN i % 2 = 0 THEN {BOX} ELSE ('MULTIPOLYGON (((' || i || ' 0, 1 0, 1 1, ' || i || ' 0)))')::GEOMETRY END",
}


class Reader:
    """Copies memory of a device to the host, by the driver alone."""

    def __init__(self, device_type, device):
        self.cuda = None
        self.copied = 0
        if device_type in (CUDA, CUDA_MANAGED):
            self.cuda = ctypes.CDLL("libcuda.so.1")
            context, handle = ctypes.c_void_p(), ctypes.c_int()
            self.call("cuInit", 0)
            self.call("cuDeviceGet", ctypes.byref(handle), int(device))
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
            self.call("cuCtxSetCurrent", context)
        elif device_type != 1:
            raise SystemExit(f"device type {device_type} is none that was expected")

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise SystemExit(f"{name}: error {status} of the driver")

    def read(self, address, size):
        if size == 0:
            return b""
        if not self.cuda:
            return ctypes.string_at(address, size)
        kind = ctypes.c_uint()
        # 2: CU_POINTER_ATTRIBUTE_MEMORY_TYPE, which has to be 2: a device
        self.call("cuPointerGetAttribute", ctypes.byref(kind), 2, ctypes.c_uint64(address))
        if kind.value != 2:
            raise SystemExit(f"memory of type {kind.value}, not of a device")
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(address), ctypes.c_size_t(size))
        self.copied += size
        return buffer.raw


def numbers(code, data):
    values = array.array(code)
    values.frombytes(data)
    return values


def validity(reader, data):
    address = data.buffers[0]
    if not address:
        if data.null_count:
            raise SystemExit("NULLs without a validity")
        return [True] * data.length
    bits = reader.read(address, (data.length + 7) // 8)
    valid = [bits[i >> 3] >> (i & 7) & 1 == 1 for i in range(data.length)]
    if valid.count(False) != data.null_count:
        raise SystemExit(f"{valid.count(False)} NULLs, and a null_count of {data.null_count}")
    return valid


def decode(reader, schema, data):
    """The values of an array, as DuckDB returns them"""
    form, valid = schema.format.decode(), validity(reader, data)
    if form == "+s":
        names = [schema.children[i][0].name.decode() for i in range(schema.n_children)]
        fields = [decode(reader, schema.children[i][0], data.children[i][0]) for i in range(schema.n_children)]
        values = [dict(zip(names, row)) for row in zip(*fields)]
    elif form in ("+l", "u"):
        ends = numbers("i", reader.read(data.buffers[1], 4 * (data.length + 1)))
        if form == "u":
            whole = reader.read(data.buffers[2], ends[-1])
            values = [whole[ends[i]:ends[i + 1]].decode() for i in range(data.length)]
        else:
            whole = decode(reader, schema.children[0][0], data.children[0][0])
            values = [whole[ends[i]:ends[i + 1]] for i in range(data.length)]
    elif form == "b":
        bits = reader.read(data.buffers[1], (data.length + 7) // 8)
        values = [bits[i >> 3] >> (i & 7) & 1 == 1 for i in range(data.length)]
    else:
        code = TYPES[form.rstrip(":")]
        values = list(numbers(code, reader.read(data.buffers[1], data.length * struct.calcsize("=" + code))))
        if form == "tdD":
            values = [datetime.date(1970, 1, 1) + datetime.timedelta(days=value) for value in values]
        elif form == "tsu:":
            values = [datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value) for value in values]
    return [value if is_valid else None for value, is_valid in zip(values, valid)]


class Check:
    def __init__(self, arguments):
        import duckdb

        self.arguments = arguments
        self.con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        self.con.execute(f"LOAD '{arguments.extension}'")
        self.wrong = []

    def send(self, query):
        import vibespatial

        return vibespatial.to_device(query, self.con)

    def open(self, result):
        """The structs that a consumer sees, and the capsules that keep them"""
        from vibespatial import _device

        capsules = result.__arrow_c_device_array__()
        schema = _device._Schema.from_address(_device._pointer_of(capsules[0], b"arrow_schema"))
        taken = _device._DeviceArray.from_address(_device._pointer_of(capsules[1], b"arrow_device_array"))
        return capsules, schema, taken

    def memory(self):
        (row,) = self.con.execute("SELECT bytes, count FROM vibe_memory_status() WHERE name = 'device arrays'").fetchall()
        return row

    def expect(self, name, is_good, detail=""):
        print(f"{'passed' if is_good else 'FAILED'}: {name} {detail}".rstrip(), flush=True)
        if not is_good:
            self.wrong.append(name)

    def values(self, name, query, expected_query=None):
        capsules, schema, taken = self.open(self.send(query))
        reader = Reader(taken.device_type, taken.device_id)
        rows = [tuple(row.values()) for row in decode(reader, schema, taken.array)]
        expected = self.con.execute(expected_query or query).fetchall()
        first = next((i for i, (one, other) in enumerate(zip(rows, expected)) if one != other), None)
        detail = f"{len(rows)} rows, {reader.copied} bytes read from the device"
        if first is not None:
            detail += f"; row {first}: {rows[first]} is not {expected[first]}"
        self.expect(name, rows == expected and not taken.sync_event, detail)
        return taken.device_type

    def large(self):
        rows = self.arguments.rows
        self.con.execute(f"CREATE TABLE points AS SELECT i AS id, {POINT} AS g FROM range({rows}) t(i)")
        begin = time.perf_counter()
        result = self.send("FROM points")
        seconds = time.perf_counter() - begin
        bytes_now, _ = self.memory()
        capsules, schema, taken = self.open(result)
        reader = Reader(taken.device_type, taken.device_id)
        ids = numbers("q", reader.read(taken.array.children[0][0].buffers[1], 8 * rows))
        point = taken.array.children[1][0]
        x, y = (numbers("d", reader.read(point.children[axis][0].buffers[1], 8 * rows)) for axis in range(2))
        # The order of a table is that of its rows
        good = all(ids[i] == i and x[i] == i * 0.5 and y[i] == i % 1000 - 3 for i in range(rows))
        self.expect("many points", good, f"{rows} rows, {bytes_now / 1e6:.0f} MB on the device, sent in {seconds:.2f} s")
        buffer = result.buffer("g", "x")
        same = (buffer.address, buffer.shape) == (point.children[0][0].buffers[1], (rows,))
        self.expect("a single buffer", same and reader.read(buffer.address, 8 * rows) == x.tobytes())
        self.libraries(result, x, ids)

    def libraries(self, result, x, ids):
        try:
            import cupy
        except ImportError:
            print("skipped: CuPy is not installed", flush=True)
        else:
            values = cupy.asarray(result.buffer("g", "x"))
            self.expect("CuPy reads x", cupy.asnumpy(values).tobytes() == x.tobytes())
        try:
            import pylibcudf
        except ImportError:
            print("skipped: cuDF is not installed", flush=True)
        else:
            table = pylibcudf.Table.from_arrow(result)
            found = table.columns()[0].to_arrow().to_pylist()
            self.expect("cuDF reads ids", found == list(ids), f"{table.num_rows()} rows, {table.num_columns()} columns")

    def owners(self):
        gc.collect()
        self.expect("all memory is back", self.memory() == (0, 0), str(self.memory()))
        result = self.send("SELECT i, 'x' || i AS t FROM range(1000) t(i)")
        capsules, schema, taken = self.open(result)
        before = self.memory()
        child = os.fork()
        if child == 0:
            # What a forked process drops stays with its parent
            del result, capsules
            gc.collect()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        self.expect("a forked process frees nothing", status == 0 and self.memory() == before, f"{status} {before}")
        del result
        reader = Reader(taken.device_type, taken.device_id)
        rows = decode(reader, schema, taken.array)
        self.expect("the array outlives its maker", rows[999] == {"i": 999, "t": "x999"} and self.memory() == before)
        del capsules, taken, schema
        gc.collect()
        self.expect("all memory is back", self.memory() == (0, 0), str(self.memory()))

    def too_large(self):
        self.con.execute("SET GLOBAL vibe_gpu_memory_limit = '64MB'")
        try:
            self.send("SELECT i, i + 1 AS k, i + 2 AS l FROM range(20000000) t(i)")
            self.expect("too many rows are an error", False)
        except MemoryError as error:
            self.expect("too many rows are an error", "bytes" in str(error), str(error))
        gc.collect()
        self.expect("all memory is back", self.memory() == (0, 0), str(self.memory()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extension", required=True)
    parser.add_argument("--package")
    parser.add_argument("--rows", type=int, default=2_000_000)
    arguments = parser.parse_args()
    folders = [arguments.package] if arguments.package else [HERE.parents[1] / "python", HERE.parent / "package"]
    sys.path[:0] = [str(folder) for folder in folders if (pathlib.Path(folder) / "vibespatial" / "_device.py").is_file()]
    arguments.extension = str(pathlib.Path(arguments.extension).resolve())
    check = Check(arguments)
    device_type = 0
    for name, query in QUERIES.items():
        device_type = check.values(name, query)
    for encoding, geometry in GEOMETRIES.items():
        table = f"(SELECT CASE WHEN i % 7 <> 3 THEN {geometry} END AS g, i FROM range(3001) t(i))"
        check.values(encoding, f"SELECT g, i FROM {table}", f"SELECT vibe_geoarrow(g, '{encoding}') AS g, i FROM {table}")
    check.large()
    check.owners()
    if device_type == CUDA:
        check.too_large()
    print(f"device type {device_type}")
    print("device arrays: passed" if not check.wrong else f"device arrays: failed: {check.wrong}")
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
