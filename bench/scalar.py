"""Scalar functions side by side: vibespatial, DuckDB's spatial and SedonaDB, on the same rows, in one run.

usage: scalar.py --extension FILE [--rows 1000000] [--rounds 5] [--json FILE]

Every engine holds the same table in memory. A round runs every query once on every engine, so that a disturbance of the machine
meets them alike; the least CPU time and the least wall time of the rounds count. The ratio is the faster peer's CPU
time over ours. Results are compared too: a fast wrong answer ends the run.
"""
import argparse
import importlib.util
import json
import pathlib
import struct
import time

import duckdb
import numpy
import pyarrow
import sedonadb

ROOT = pathlib.Path(__file__).resolve().parents[1]

# name, what it does, aggregate over the rows (P: the function prefix, AREA and POINT: the constants)
QUERIES = [
    ("area", "sum(P_Area(poly))"),
    ("distance point to constant", "sum(P_Distance(pt, POINT))"),
    ("intersects point and constant polygon", "sum(CASE WHEN P_Intersects(pt, AREA) THEN 1 ELSE 0 END)"),
    ("distance polygon to point", "sum(P_Distance(poly, pt))"),
    ("centroid", "sum(ST_X(P_Centroid(poly)))"),
]


def rows(count):
    """WKB of polygons of 33 vertices, and of points: two columns."""
    random = numpy.random.default_rng(42)
    centre = numpy.column_stack([random.uniform(-10, 40, count), random.uniform(35, 70, count)])
    radius = random.uniform(0.01, 0.05, count)
    angle = numpy.linspace(0, 2 * numpy.pi, 33)
    ring = numpy.stack([numpy.cos(angle), numpy.sin(angle)], axis=1)
    ring[-1] = ring[0]
    polygon = numpy.zeros(count, dtype=[("head", "V13"), ("ring", "<f8", (33, 2))])
    polygon["head"] = numpy.void(struct.pack("<BIII", 1, 3, 1, 33))
    polygon["ring"] = centre[:, None, :] + radius[:, None, None] * ring[None, :, :]
    point = numpy.zeros(count, dtype=[("head", "V5"), ("xy", "<f8", 2)])
    point["head"] = numpy.void(struct.pack("<BI", 1, 1))
    point["xy"] = numpy.column_stack([random.uniform(-10, 40, count), random.uniform(35, 70, count)])

    def column(array):
        offsets = numpy.arange(count + 1, dtype=numpy.int32) * array.dtype.itemsize
        return pyarrow.Array.from_buffers(
            pyarrow.binary(), count, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(array)]
        )

    return pyarrow.table({"poly": column(polygon), "pt": column(point)})


class Duck:
    def __init__(self, extension, table):
        self.connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        package = pathlib.Path(importlib.util.find_spec("duckdb_extension_spatial").origin).parent
        self.connection.execute(f"LOAD '{package}/extensions/v{duckdb.__version__}/spatial.duckdb_extension'")
        self.connection.execute(f"LOAD '{extension}'")
        self.connection.register("arrow_rows", table)
        self.connection.execute(
            "CREATE TABLE t AS SELECT ST_GeomFromWKB(poly) AS poly, ST_GeomFromWKB(pt) AS pt FROM arrow_rows"
        )
        self.connection.unregister("arrow_rows")

    def constants(self):
        """The largest province of the demo data, and a point."""
        text = self.connection.execute(
            f"SELECT ST_AsText(geom) FROM '{ROOT}/data/provinces.parquet' ORDER BY ST_NPoints(geom) DESC LIMIT 1"
        ).fetchone()[0]
        return text, "POINT (10 50)"

    def run(self, query):
        return self.connection.execute(query).fetchone()[0]


class Sedona:
    def __init__(self, table):
        self.connection = sedonadb.connect()
        self.connection.create_data_frame(table).to_view("raw_rows")
        frame = self.connection.sql("SELECT ST_GeomFromWKB(poly) AS poly, ST_GeomFromWKB(pt) AS pt FROM raw_rows")
        frame.to_memtable().to_view("t")

    def run(self, query):
        return pyarrow.table(self.connection.sql(query)).column(0)[0].as_py()


def timed(engine, query):
    wall, cpu = time.perf_counter(), time.process_time()
    value = engine.run(query)
    return value, time.perf_counter() - wall, time.process_time() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extension", default=ROOT / "build" / "release" / "vibespatial.duckdb_extension")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()

    table = rows(arguments.rows)
    duck = Duck(arguments.extension, table)
    sedona = Sedona(table)
    area, point = duck.constants()
    engines = {"vibespatial": (duck, "vibe"), "spatial": (duck, "ST"), "SedonaDB": (sedona, "ST")}
    print(f"{arguments.rows:,} rows, {arguments.rounds} rounds, constant polygon of {area.count(',') + 1:,} vertices; milliseconds")
    print(f"{'':<40}" + "".join(f"{name + ' cpu':>17}{'wall':>8}" for name in engines) + f"{'ratio':>9}")
    results = []
    for name, aggregate in QUERIES:
        best = {engine: (float("inf"), float("inf")) for engine in engines}
        values = {}
        for _ in range(arguments.rounds):
            for engine, (runner, prefix) in engines.items():
                make = "ST_GeomFromText('{}')" if engine == "SedonaDB" else "'{}'::GEOMETRY"
                query = "SELECT " + aggregate.replace("P_", prefix + "_") + " FROM t"
                query = query.replace("AREA", make.format(area)).replace("POINT)", make.format(point) + ")")
                values[engine], wall, cpu = timed(runner, query)
                best[engine] = (min(best[engine][0], wall), min(best[engine][1], cpu))
        for engine, value in values.items():
            assert abs(float(value) - float(values["vibespatial"])) <= 1e-9 * abs(float(value)), (name, values)
        peer = min(best[engine][1] for engine in engines if engine != "vibespatial")
        ratio = peer / best["vibespatial"][1]
        results.append({"query": name, "ratio": ratio, "best": best})
        print(f"{name:<40}" + "".join(f"{cpu * 1e3:>17.1f}{wall * 1e3:>8.1f}" for wall, cpu in best.values()) + f"{ratio:>8.2f}x",
              flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
