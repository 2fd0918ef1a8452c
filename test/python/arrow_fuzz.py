"""Reads Arrow files that were damaged at random: every result has to be rows or an error, never the end of the process.

usage: arrow_fuzz.py EXTENSION FOLDER SEED CASES

Run by test_arrow_fuzz.py as a process of its own. It writes the number of a case into FOLDER/case before it begins with it, and
leaves the file of the last case in FOLDER/x.arrow.
"""
import pathlib
import random
import resource
import struct
import sys

import duckdb
import pyarrow as pa
from pyarrow import ipc

INTERESTING = [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
               1 << 40, (1 << 62) + 5, (1 << 63) - 1, (1 << 64) - 1, (1 << 64) - 8]


def bases():
    """Small files that have every layout"""
    n = 60
    every = [None if i % 7 == 3 else i for i in range(n)]
    texts = [None if i is None else f"text of {i}" * (i % 3) for i in every]
    words = pa.array(["a", "bb", "a word of more than twelve", None])
    codes = pa.array([None if i is None else i % 4 for i in every], pa.int8())
    lists = [None if i is None else [i, None, i + 1][: i % 4] for i in every]
    groups = [
        {"i": pa.array(every, pa.int32()), "s": pa.array(texts), "b": pa.array([i is None for i in every]),
         "v": pa.array(texts, pa.string_view()), "bin": pa.array(texts, pa.large_binary()),
         "f": pa.array([None if t is None else (t.encode() + b"1234567")[:7] for t in texts], pa.binary(7))},
        {"d": pa.DictionaryArray.from_arrays(codes, words), "ld": pa.ListArray.from_arrays(
            pa.array(range(0, n + 1), pa.int32()), pa.DictionaryArray.from_arrays(codes, words)),
         "dd": pa.array(every).dictionary_encode()},
        {"l": pa.array(lists, pa.list_(pa.int16())), "ll": pa.array([lists] * n, pa.large_list(pa.list_(pa.int64()))),
         "lv": pa.array([texts[:i % 5] for i in range(n)], pa.list_view(pa.string())),
         "fl": pa.array([[i, i] for i in every], pa.list_(pa.float64(), 2)),
         "m": pa.array([[("k", t)] for t in texts], pa.map_(pa.string(), pa.string())),
         "st": pa.array([{"a": i, "b": {"c": t}} for i, t in zip(every, texts)])},
        {"t": pa.array(every, pa.timestamp("ms")), "tz": pa.array(every, pa.timestamp("s", "UTC")),
         "d64": pa.array(every, pa.int64()).cast(pa.timestamp("ms")).cast(pa.date64(), safe=False),
         "t32": pa.array(every, pa.time32("s")), "dur": pa.array(every, pa.duration("us")),
         "dec": pa.array(every, pa.int64()).cast(pa.decimal128(25, 2)), "n": pa.nulls(n),
         "mdn": pa.array([None if i is None else pa.MonthDayNano([i, i, i]) for i in every])},
        {"r": pa.RunEndEncodedArray.from_arrays(pa.array([10, 20, n], pa.int16()), pa.array(["x", None, "z"])),
         "u": pa.UnionArray.from_sparse(pa.array([i % 2 for i in range(n)], pa.int8()), [pa.array(range(n)), pa.array(texts)]),
         "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([i] * 16) for i in range(n)], pa.binary(16)))},
    ]
    point = struct.pack("<BIdd", 1, 1, 1.5, 2.5)
    geometry = pa.array([None if i is None else point for i in every], pa.binary())
    field = pa.field("g", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": '{"crs": "OGC:CRS84"}'})
    ring = [[{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 0.0}, {"x": 1.0, "y": 1.0}, {"x": 0.0, "y": 0.0}]]
    xy = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    natives = {"point": ([None if i is None else ring[0][1] for i in every], xy),
               "linestring": ([None if i is None else [[0.0, 1.0], [2.0, 3.0]] for i in every], pa.list_(pa.list_(pa.float64(), 2))),
               "polygon": ([None if i is None else ring for i in every], pa.list_(pa.list_(xy))),
               "multipolygon": ([None if i is None else [ring] * (i % 3) for i in every], pa.large_list(pa.large_list(pa.large_list(xy))))}
    native = pa.table([pa.array(values, kind) for values, kind in natives.values()],
                      schema=pa.schema([pa.field(name, kind, metadata={"ARROW:extension:name": f"geoarrow.{name}"})
                                        for name, (_, kind) in natives.items()]))
    tables = [pa.table(group) for group in groups] + [pa.table([geometry], schema=pa.schema([field])), native]
    for place, table in enumerate(tables):
        for kind in (ipc.new_file, ipc.new_stream):
            for compression in (None, "zstd", "lz4"):
                sink = pa.BufferOutputStream()
                with kind(sink, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
                    writer.write_table(table, max_chunksize=None if place == 4 else 25)
                yield sink.getvalue().to_pybytes()


def damage(content, g):
    content = bytearray(content)
    for _ in range(g.choice([1, 1, 1, 2, 3, 8])):
        if not content:
            break
        at = g.randrange(len(content))
        what = g.random()
        if what < 0.35:
            content[at] ^= 1 << g.randrange(8)
        elif what < 0.5:
            content[at] = g.choice([0, 1, 0x7F, 0x80, 0xFF, g.randrange(256)])
        elif what < 0.8:
            width = g.choice([2, 4, 8])
            at -= at % g.choice([1, 2, 4, 8])
            value = g.choice(INTERESTING) & ((1 << 8 * width) - 1)
            content[at:at + width] = value.to_bytes(width, "little")[: len(content) - at]
        elif what < 0.86:
            del content[at:]
        elif what < 0.9:
            del content[at:at + g.choice([1, 4, 8, 64])]
        elif what < 0.95:
            content[at:at] = g.randbytes(g.choice([1, 4, 8, 64]))
        else:
            other = g.randrange(len(content))
            content[at:at + 16] = content[other:other + 16]
    return bytes(content)


def connect(extension):
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2, "memory_limit": "512MB"})
    con.execute(f"LOAD '{extension}'")
    con.execute("SET GLOBAL arrow_lossless_conversion = true")
    return con


def main():
    extension, folder, seed, cases = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    con = connect(extension)
    contents = list(bases())
    path = folder / "x.arrow"
    counts = {"rows": 0, "error": 0}
    for number in range(cases):
        g = random.Random(seed * 1000003 + number)
        (folder / "case").write_text(f"{number}")
        path.write_bytes(damage(g.choice(contents), g))
        for query in ("SELECT count(*) FROM {}", "SELECT count(*), bit_xor(hash(t)) FROM {} t", "SELECT max(length(t::VARCHAR)) FROM {} t"):
            try:
                con.execute(query.format(f"vibe_read_arrow('{path}')")).fetchall()
                counts["rows"] += 1
            except duckdb.InternalException as error:
                # DuckDB 2.0 says so of its own casts of timestamps that are too large, and its database is unusable from then on
                if "__cast" in str(error) and "Timestamp" in str(error):
                    counts["error"] += 1
                    con = connect(extension)
                    continue
                print(f"case {number} of seed {seed}: {str(error)[:300]}")
                return 1
            except (duckdb.Error, OverflowError) as error:
                if "INTERNAL" in str(error) or "FATAL" in str(error):
                    print(f"case {number} of seed {seed}: {str(error)[:300]}")
                    return 1
                counts["error"] += 1
    print(counts["rows"], counts["error"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
