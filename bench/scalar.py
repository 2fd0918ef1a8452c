"""Scalar functions side by side: vibespatial, DuckDB's spatial and SedonaDB, on the same rows, in one run.

usage: scalar.py --extension FILE [--rows 1000000] [--rounds 5] [--json FILE]

Every engine holds the same table in memory. A round runs every query once on every engine, so that a disturbance of the machine
meets them alike; the least CPU time and the least wall time of the rounds count. The ratio is the faster peer's CPU
time over ours. Results are compared too: a fast wrong answer ends the run.
"""
import argparse
import json
import pathlib

import numpy
import pyarrow

from common import EXTENSION, ROOT, circles, open_duckdb, open_sedona, points, spatial_path, timed

# name, what it does, aggregate over the rows (P: the function prefix, AREA and POINT: the constants)
QUERIES = [
    ("area", "sum(P_Area(poly))"),
    ("distance point to constant", "sum(P_Distance(pt, POINT))"),
    ("intersects point and constant polygon", "sum(CASE WHEN P_Intersects(pt, AREA) THEN 1 ELSE 0 END)"),
    ("distance polygon to point", "sum(P_Distance(poly, pt))"),
    ("centroid", "sum(ST_X(P_Centroid(poly)))"),
]


def rows(count):
    random = numpy.random.default_rng(42)
    return pyarrow.table({"poly": circles(random, count), "pt": points(random, count)})


class Duck:
    def __init__(self, extension, table):
        self.connection = open_duckdb(spatial_path(), extension)
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
        self.connection = open_sedona()
        self.connection.create_data_frame(table).to_view("raw_rows")
        frame = self.connection.sql("SELECT ST_GeomFromWKB(poly) AS poly, ST_GeomFromWKB(pt) AS pt FROM raw_rows")
        frame.to_memtable().to_view("t")

    def run(self, query):
        return pyarrow.table(self.connection.sql(query)).column(0)[0].as_py()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extension", default=EXTENSION)
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
                values[engine], wall, cpu = timed(runner.run, query)
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
