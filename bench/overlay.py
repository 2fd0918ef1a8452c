"""Unions and overlays side by side: vibespatial, DuckDB's spatial, SedonaDB and GeoPandas, on the same rows, in one run.

usage: overlay.py [--extension FILE] [--quick] [--rounds 3] [--timeout 120] [--only REGEX] [--engines A,B] [--json FILE]

Every case has a process of its own for every engine, which holds the tables in memory. A round runs the query once on every engine, so that
a disturbance of the machine meets them alike; the medians of the rounds count. An engine that needs longer than the timeout is stopped,
and not asked again; one that needs more than a quarter of it is asked once. The ratio is the best peer's wall time over ours; below
3x it is marked with !. Peak memory is that of the process while the query runs, with the tables in it. Results are compared: the
number of rows has to be the same, areas to 1e-9. A difference is listed below the table, and ends with status 1 where ours is the odd one.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import re
import sys
import tempfile

import numpy
import pyarrow
import pyarrow.parquet

from common import (ENGINES, EXTENSION, FILES, OURS, Engine, cell, circles, measure, open_duckdb, open_sedona, ratio, shared_data, spatial_path,
                    timed)

BAR = 3
# The groups of the tables, where they have any
GROUPS = {"counties": "state", "provinces": "admin"}
# Circles over Europe: rows, and how many times as wide as in the other benchmarks. Those as wide seldom meet; the others overlap ten
# more each.
CIRCLES = {"10k buffers": (10_000, 1.0), "100k buffers": (100_000, 1.0), "10k dense buffers": (10_000, 12.4), "100k dense buffers": (100_000, 3.9)}


@dataclasses.dataclass
class Case:
    """A union of a table's rows, by group or of all; or, where there is another table, the area that the rows of both share."""

    table: str
    union: str = "ST_Union_Agg"
    grouped: bool = False
    other: str = ""
    quick: bool = False

    def name(self):
        if self.other:
            return f"{self.table} x {self.other}, area of ST_Intersection"
        return f"{self.table}{' by ' + GROUPS[self.table].replace('admin', 'country') if self.grouped else ' to one'}, {self.union}"

    def sql(self):
        """One row: rows, area, vertices."""
        if self.other:
            return (f'SELECT count(*), sum(ST_Area(ST_Intersection(l.geom, r.geom))), 0 FROM "{self.table}" l JOIN "{self.other}" r '
                    "ON ST_Intersects(l.geom, r.geom)")
        group = " GROUP BY k" if self.grouped else ""
        return f'SELECT count(*), sum(ST_Area(u)), sum(ST_NPoints(u)) FROM (SELECT {self.union}(geom) AS u FROM "{self.table}"{group}) s'


def cases():
    yield Case("counties", grouped=True, quick=True)
    yield Case("provinces", grouped=True, quick=True)
    yield Case("counties", quick=True)
    yield Case("counties", "ST_CoverageUnion_Agg")
    for name in CIRCLES:
        yield Case(name, quick=name.startswith("10k"))
    yield Case("provinces", other="counties", quick=True)


def write_tables(folder):
    """One Parquet file a table: the key of its group, and WKB. Returns what cannot be made, and why."""
    files = {name: FILES[name] for name in GROUPS}
    data, missing = shared_data(*files.values())
    with open_duckdb() as duck:
        for name, file in files.items():
            if file not in missing:
                duck.execute(f"COPY (SELECT {GROUPS[name]} AS k, geom FROM '{data / file}') TO '{folder}/{name}.parquet' (FORMAT parquet)")
    for name, (count, scale) in CIRCLES.items():
        made = pyarrow.table({"k": pyarrow.array([""] * count), "geom": circles(numpy.random.default_rng(42), count, scale)})
        pyarrow.parquet.write_table(made, f"{folder}/{name}.parquet")
    return {name: file for name, file in files.items() if file in missing}


COLUMNS = "k, ST_GeomFromWKB(geom) AS geom"


class Duck:
    def __init__(self, folder, extension):
        self.folder, self.connection = folder, open_duckdb(extension)

    def load(self, name):
        self.connection.execute(f"""CREATE TABLE "{name}" AS SELECT {COLUMNS} FROM '{self.folder}/{name}.parquet'""")

    def run(self, case):
        return self.connection.execute(case.sql()).fetchone()


class Sedona:
    def __init__(self, folder):
        self.folder, self.connection = folder, open_sedona()

    def load(self, name):
        self.connection.read_parquet(f"{self.folder}/{name}.parquet").to_view("file", overwrite=True)
        self.connection.sql(f"SELECT {COLUMNS} FROM file").to_memtable().to_view(name)

    def run(self, case):
        table = pyarrow.table(self.connection.sql(case.sql()))
        return tuple(column[0].as_py() for column in table.columns)


class Pandas:
    """dissolve for groups, the union under it where there are none, and for two tables the intersections of the pairs that an index finds:
    the faster way than geopandas.overlay, which makes a table of them."""

    def __init__(self, folder):
        self.folder, self.tables = folder, {}

    def load(self, name):
        import geopandas
        import shapely

        table = pyarrow.parquet.read_table(f"{self.folder}/{name}.parquet")
        geometry = shapely.from_wkb(table["geom"].to_pandas())
        self.tables[name] = geopandas.GeoDataFrame({"k": table["k"].to_pandas()}, geometry=geometry)

    def run(self, case):
        import shapely

        rows = self.tables[case.table]
        if case.other:
            left, right = rows.geometry.values, self.tables[case.other].geometry.values
            l, r = self.tables[case.other].sindex.query(left, predicate="intersects")
            return len(l), shapely.area(shapely.intersection(left[l], right[r])).sum(), 0
        method = "coverage" if "Coverage" in case.union else "unary"
        found = rows.dissolve("k", method=method).geometry.values if case.grouped else numpy.array([rows.geometry.union_all(method=method)])
        return len(found), shapely.area(found).sum(), int(shapely.get_num_coordinates(found).sum())


def peak_memory():
    """The most memory of this process since it was last asked to forget, in MiB."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) >> 10


def serve(pipe, engine, folder, extension):
    """A process that answers one case, as often as it is asked."""
    makers = {
        OURS: lambda: Duck(folder, extension),
        "spatial": lambda: Duck(folder, spatial_path()),
        "SedonaDB": lambda: Sedona(folder),
        "GeoPandas": lambda: Pandas(folder),
    }
    runner, loaded = makers[engine](), set()
    while True:
        case = pipe.recv()
        try:
            for name in {case.table, case.other} - {""} - loaded:
                runner.load(name)
                loaded.add(name)
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            pipe.send("ready")
            (rows, area, vertices), wall, cpu = timed(runner.run, case)
            pipe.send(((int(rows), float(area), int(vertices)), wall, cpu, peak_memory()))
        except Exception as error:  # whatever an engine throws is its answer
            pipe.send(f"{type(error).__name__}: {error}".splitlines()[0][:150])


def same(one, other):
    return one[0] == other[0] and math.isclose(one[1], other[1], rel_tol=1e-9)


def differences(name, found):
    """Lines on results that are not the same, and whether ours is the odd one."""
    answers = {engine: value[0] for engine, value in found.items() if isinstance(value, tuple)}
    lines = [f"{name}: {engine} {value}" for engine, value in found.items() if isinstance(value, str) and not value.startswith("> ")]
    alike = []
    for engine, answer in answers.items():
        group = next((group for group in alike if same(answers[group[0]], answer)), None)
        if group is None:
            alike.append([engine])
        else:
            group.append(engine)
    if len(alike) > 1:
        lines.append(f"{name}: " + "; ".join(f"{' and '.join(group)} {answers[group[0]]}" for group in alike))
    return lines, len(alike) > 1 and [OURS] in alike


def marked(text):
    """A ratio, with ! where it is below the bar."""
    return text + " !" if re.fullmatch(r"[\d.]+x", text) and float(text[:-1]) < BAR else text


def table(engines, chosen, arguments):
    """Runs the cases, prints the table as it grows; returns what was measured and whether ours was the odd one."""
    names = [engine.name for engine in engines]
    print(f"CPU / wall seconds, medians of {arguments.rounds} rounds; ratio: best peer / ours; peak memory in MiB\n")
    print("| case | " + " | ".join(names) + " | CPU ratio | wall ratio | peak memory | vertices | rows |")
    print("|---" * (len(names) + 6) + "|", flush=True)
    measured, notes, odd = [], [], False
    for case in chosen:
        found = measure(engines, case, arguments.rounds, arguments.timeout)
        for engine in engines:
            engine.stop()
        answers = [value[0] for value in found.values() if isinstance(value, tuple)]
        memory = " / ".join(f"{value[4]:,}" if isinstance(value, tuple) else "-" for value in found.values())
        vertices = " / ".join(f"{value[0][2]:,}" if isinstance(value, tuple) and value[0][2] else "-" for value in found.values())
        print(f"| {case.name()} | " + " | ".join(cell(found[name]) for name in names)
              + f" | {ratio(found, 2)} | {marked(ratio(found, 1))} | {memory} | {vertices} | {f'{answers[0][0]:,}' if answers else ''} |", flush=True)
        lines, wrong = differences(case.name(), found)
        notes, odd = notes + lines, odd or wrong
        measured.append({"case": case.name(), "sql": case.sql(), "found": found})
    if notes:
        print("\nDifferences and failures (rows, area, vertices):\n" + "\n".join(f"- {note}" for note in notes))
    return measured, odd


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extension", default=EXTENSION)
    parser.add_argument("--quick", action="store_true", help="fewer cases, one round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--timeout", type=int)
    parser.add_argument("--only", default="", help="a regular expression that the case has to match")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.timeout = arguments.timeout or (20 if arguments.quick else 120)
    names = arguments.engines.split(",")
    if set(names) - set(ENGINES):
        parser.error(f"the engines are {', '.join(ENGINES)}")
    extension = str(pathlib.Path(arguments.extension).absolute())
    if OURS in names and not pathlib.Path(extension).exists():
        parser.error(f"{extension} is not there: run make, or name another with --extension")

    with tempfile.TemporaryDirectory(prefix="vibespatial-overlay-") as folder:
        missing = write_tables(folder)
        chosen = [case for case in cases() if (case.quick or not arguments.quick) and re.search(arguments.only, case.name())]
        for name, file in missing.items():
            print(f"{file} is not there: no cases with {name}")
        chosen = [case for case in chosen if not {case.table, case.other} & set(missing)]
        engines = [Engine(name, serve, folder, extension) for name in names]
        try:
            measured, odd = table(engines, chosen, arguments)
        finally:
            for engine in engines:
                engine.stop()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(measured, indent=1))
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
