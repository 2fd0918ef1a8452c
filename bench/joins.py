"""Spatial joins side by side: vibespatial, DuckDB's spatial, SedonaDB and GeoPandas, on the same rows, in one run.

usage: joins.py [--extension FILE] [--quick] [--rounds 3] [--timeout 120] [--points 5000000] [--only REGEX] [--engines A,B]
                [--json FILE] [--plot FILE.svg [--sizes 100000,1000000]]

Every engine has a process of its own and holds the tables in memory. A round runs one query once on every engine, so that a disturbance
of the machine meets them alike; the medians of the rounds count. An engine that needs longer than the timeout is stopped, and not asked
that query again; one that needs more than a quarter of it is asked once. The ratio is the best peer's time over ours. Results are
compared: a difference is listed below the table, and ends with status 1 where ours is the odd one.

--plot draws the CPU time per point of a count of points in provinces against the number of points, instead of the table.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import re
import sys
import tempfile

import numpy
import pyarrow
import pyarrow.parquet

from common import (ENGINES, EXTENSION, FILES, OURS, Engine, cell, circles, draw_lines, made_points, measure, open_duckdb, open_sedona, ratio,
                    real_table, shared_data, spatial_path, timed_again)

SIZES = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 50_000_000]
POINT_TABLES = ("cities", "points", "million", "coast")

# One row of integers that no engine can find without the pairs it speaks of; L, R and ON are filled in, l and r are the aliases.
SHAPES = {
    "count": "SELECT count(*) FROM L l JOIN R r ON ON_",
    "grouped": "SELECT count(*), sum(n), sum(n * (g % 97)) FROM "
               "(SELECT r.id AS g, count(*) AS n FROM L l JOIN R r ON ON_ GROUP BY r.id) s",
    "ids": "SELECT count(*), sum((l.id * 31 + r.id) % 1000003) FROM L l JOIN R r ON ON_",
    "equal": "SELECT count(*) FROM L l JOIN R r ON ON_ AND l.k = r.k",
    "semi": "SELECT count(*), sum(l.id) FROM L l SEMI JOIN R r ON ON_",
    "anti": "SELECT count(*), sum(l.id) FROM L l ANTI JOIN R r ON ON_",
    "exists": "SELECT count(*), sum(l.id) FROM L l WHERE EXISTS (SELECT 1 FROM R r WHERE ON_)",
    "not exists": "SELECT count(*), sum(l.id) FROM L l WHERE NOT EXISTS (SELECT 1 FROM R r WHERE ON_)",
}


@dataclasses.dataclass
class Case:
    """`tree` is the side GeoPandas indexes, and `predicate` what it asks of (other side, indexed side)."""

    left: str
    right: str
    shape: str
    on: str
    tree: str
    predicate: str
    distance: object = None
    quick: bool = False

    def name(self):
        return f"{self.left} x {self.right}, {self.on.replace('l.geom, r.geom', '').replace('(, ', '(').replace('()', '')}, {self.shape}"

    def sql(self, engine):
        text = SHAPES[self.shape].replace("ON_", self.on).replace("FROM L ", f"FROM {self.left} ")
        text = re.sub(r"\bR r\b", f"{self.right} r", text)
        return re.sub("(SEMI|ANTI) JOIN", r"LEFT \1 JOIN", text) if engine == "SedonaDB" else text


def cases():
    within = ("ST_Within(l.geom, r.geom)", "left", "contains")
    intersects = ("ST_Intersects(l.geom, r.geom)", "left", "intersects")
    for points in ("cities", "points"):
        for areas in ("countries", "provinces", "counties"):
            for shape in ("count", "grouped", "ids"):
                yield Case(points, areas, shape, *within, quick=points == "cities" and areas != "countries")
    yield Case("rivers", "provinces", "count", *intersects, quick=True)
    yield Case("counties", "counties", "count", "ST_Touches(l.geom, r.geom)", "left", "touches", quick=True)
    yield Case("buffers", "buffers", "count", *intersects, quick=True)
    yield Case("buffers", "buffers", "ids", *intersects)
    near = "ST_DWithin(l.geom, r.geom, {})"
    yield Case("cities", "cities", "count", near.format("0.01"), "right", "dwithin", 0.01, quick=True)
    yield Case("cities", "cities", "ids", near.format("0.01"), "right", "dwithin", 0.01)
    yield Case("million", "cities", "count", near.format("0.02"), "right", "dwithin", 0.02)
    yield Case("cities", "rivers", "count", near.format("0.01"), "right", "dwithin", 0.01, quick=True)
    # What nearness costs beside containment: points everywhere, and twice as many along the shores
    for points in ("points", "coast"):
        yield Case(points, "provinces", "count", near.format("0.001"), "right", "dwithin", 0.001)
        yield Case(points, "rivers", "count", near.format("0.001"), "right", "dwithin", 0.001)
        yield Case(points, "rivers", "count", *intersects)
    yield Case("coast", "provinces", "count", *within)
    yield Case("cities", "cities", "count", near.format("l.d"), "right", "dwithin", "d", quick=True)
    yield Case("cities", "cities", "count", "ST_Distance(l.geom, r.geom) <= 0.01", "right", "dwithin", 0.01)
    for shape in ("semi", "anti", "exists", "not exists", "equal"):
        yield Case("points", "provinces", shape, *within, quick=shape in ("semi", "equal"))
    yield Case("points", "shore", "count", *within, quick=True)


def write_tables(folder, count):
    """One Parquet file a table: id, k, d, and x and y or WKB. Returns what cannot be made, and why."""
    data, missing = shared_data(*FILES.values())
    with open_duckdb() as duck:
        extra = "(id % 50)::INTEGER AS k, (id % 5) * 0.005 AS d"

        def write(name, query):
            duck.execute(f"COPY ({query}) TO '{folder}/{name}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 100000)")

        for name, file in FILES.items():
            if file in missing:
                continue
            write(name, f"SELECT id, {extra}, * EXCLUDE (id) FROM ({real_table(name, data / file)})")
        for name, rows in (("points", count), ("million", min(count, 1_000_000))):
            write_points(duck, folder, name, rows)
        if FILES["shores"] not in missing:
            x, y = near_shores(duck, data / FILES["shores"], 2 * count)
            coast = pyarrow.table({"id": pyarrow.array(range(len(x))), "x": x, "y": y})
            duck.register("coast", coast)
            write("coast", f"SELECT id, {extra}, x, y FROM coast")
        buffers = pyarrow.table({"id": pyarrow.array(range(100_000)), "geom": circles(numpy.random.default_rng(42), 100_000)})
        duck.register("buffers", buffers)
        write("buffers", f"SELECT id, {extra}, geom FROM buffers")
    return {name: file for name, file in {**FILES, "coast": FILES["shores"]}.items() if file in missing}


def near_shores(duck, path, count):
    """Points no farther than 0.001 from the edges of shores, in x and in y."""
    import shapely

    shores = shapely.from_wkb([bytes(row[0]) for row in duck.execute(f"SELECT geom FROM '{path}'").fetchall()])
    vertices, shore = shapely.get_coordinates(shores, return_index=True)
    random = numpy.random.default_rng(1)
    edge = random.integers(0, len(vertices) - 1, count)
    # From the last vertex of a ring there is no edge
    along = numpy.where(shore[edge] == shore[edge + 1], random.random(count), 0)[:, None]
    places = vertices[edge] + (vertices[edge + 1] - vertices[edge]) * along + random.uniform(-0.001, 0.001, (count, 2))
    return places[:, 0], places[:, 1]


def write_points(duck, folder, name, count):
    duck.execute(f"""COPY (SELECT id, (id % 50)::INTEGER AS k, (id % 5) * 0.005 AS d, x, y FROM ({made_points(count)}))
        TO '{folder}/{name}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 100000)""")


def columns(name):
    return "id, k, d, " + ("ST_Point(x, y)" if name in POINT_TABLES else "ST_GeomFromWKB(geom)") + " AS geom"


class Duck:
    def __init__(self, folder, extension):
        self.folder, self.connection = folder, open_duckdb(extension)

    def load(self, name):
        self.connection.execute(f"CREATE TABLE {name} AS SELECT {columns(name)} FROM '{self.folder}/{name}.parquet'")

    def run(self, case):
        return self.connection.execute(case.sql("DuckDB")).fetchone()


class Sedona:
    def __init__(self, folder):
        self.folder, self.connection = folder, open_sedona()

    def load(self, name):
        self.connection.read_parquet(f"{self.folder}/{name}.parquet").to_view(f"{name}_file")
        self.connection.sql(f"SELECT {columns(name)} FROM {name}_file").to_memtable().to_view(name)

    def run(self, case):
        table = pyarrow.table(self.connection.sql(case.sql("SedonaDB")))
        return tuple(column[0].as_py() for column in table.columns)


class Pandas:
    """The index query under geopandas.sjoin, which is its fastest way to pairs; the index is built anew each time, as the others do."""

    def __init__(self, folder):
        self.folder, self.tables = folder, {}

    def load(self, name):
        import shapely

        table = pyarrow.parquet.read_table(f"{self.folder}/{name}.parquet")
        numbers = {column: table[column].to_numpy() for column in table.column_names if column != "geom"}
        if name in POINT_TABLES:
            numbers["geom"] = shapely.points(numbers["x"], numbers["y"])
        else:
            numbers["geom"] = shapely.from_wkb(table["geom"].to_pandas())
        self.tables[name] = numbers

    def run(self, case):
        import geopandas

        left, right = self.tables[case.left], self.tables[case.right]
        asked, tree = (right, left) if case.tree == "left" else (left, right)
        distance = {"distance": asked["d"] if case.distance == "d" else case.distance} if case.distance else {}
        pairs = geopandas.GeoSeries(tree["geom"]).sindex.query(asked["geom"], predicate=case.predicate, **distance)
        l, r = (pairs[1], pairs[0]) if case.tree == "left" else pairs
        if case.shape == "grouped":
            counts = numpy.bincount(right["id"][r])
            groups = numpy.flatnonzero(counts)
            return len(groups), int(counts.sum()), int((counts[groups] * (groups % 97)).sum())
        if case.shape == "ids":
            return len(l), int(((left["id"][l] * 31 + right["id"][r]) % 1000003).sum())
        if case.shape == "equal":
            return (int((left["k"][l] == right["k"][r]).sum()),)
        if case.shape != "count":
            found = numpy.zeros(len(left["id"]), dtype=bool)
            found[l] = True
            kept = left["id"][~found if case.shape in ("anti", "not exists") else found]
            return len(kept), int(kept.sum())
        return (len(l),)


def serve(pipe, engine, folder, extension):
    """A process that answers one case at a time."""
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
            for name in {case.left, case.right} - loaded:
                runner.load(name)
                loaded.add(name)
            pipe.send("ready")
            value, wall, cpu = timed_again(runner.run, case)
            pipe.send((tuple(int(number or 0) for number in value), wall, cpu))
        except Exception as error:  # whatever an engine throws is its answer
            pipe.send(f"{type(error).__name__}: {error}".splitlines()[0][:150])


def differences(name, found):
    """Lines on results that are not the same, and whether ours is the odd one."""
    results = collections.defaultdict(list)
    for engine, value in found.items():
        if isinstance(value, tuple):
            results[value[0]].append(engine)
    lines = [f"{name}: {engine} {value}" for engine, value in found.items() if isinstance(value, str) and not value.startswith("> ")]
    if len(results) > 1:
        lines.append(f"{name}: " + "; ".join(f"{' and '.join(who)} {value}" for value, who in results.items()))
    return lines, len(results) > 1 and any(who == [OURS] for who in results.values())


def table(engines, chosen, arguments):
    """Runs the cases, prints the table as it grows; returns what was measured and whether ours was the odd one."""
    names = [engine.name for engine in engines]
    print(f"CPU / wall seconds, medians of {arguments.rounds} rounds; ratio: best peer / ours\n")
    print("| left x right, condition, result | " + " | ".join(names) + " | CPU ratio | wall ratio | rows |")
    print("|---" * (len(names) + 4) + "|", flush=True)
    measured, notes, odd = [], [], False
    for case in chosen:
        found = measure(engines, case, arguments.rounds, arguments.timeout)
        rows = next((value[0][0] for value in found.values() if isinstance(value, tuple)), None)
        print(f"| {case.name()} | " + " | ".join(cell(found[name]) for name in names) + f" | {ratio(found, 2)} | {ratio(found, 1)} | "
              + (f"{rows:,}" if rows is not None else "") + " |", flush=True)
        lines, wrong = differences(case.name(), found)
        notes, odd = notes + lines, odd or wrong
        measured.append({"case": case.name(), "sql": case.sql("DuckDB"), "found": found})
    if notes:
        print("\nDifferences and failures:\n" + "\n".join(f"- {note}" for note in notes))
    return measured, odd


def series(engines, folder, sizes, arguments):
    """The count of points in provinces for growing numbers of points; every size on fresh processes."""
    measured, out = [], set()
    case = Case("points", "provinces", "count", "ST_Within(l.geom, r.geom)", "left", "contains")
    for size in sizes:
        with open_duckdb() as duck:
            write_points(duck, folder, "points", size)
        # Python objects for each point do not fit in memory beyond this.
        running = [e for e in engines if e.name not in out and not (e.name == "GeoPandas" and size > 10_000_000)]
        found = measure(running, case, arguments.rounds, arguments.timeout)
        for engine in engines:
            engine.stop()
        out |= {name for name, value in found.items() if isinstance(value, str)}
        measured.append({"points": size, "found": found})
        print(f"{size:>12,}  " + "  ".join(f"{name} {value[2] / size * 1e6:.3f}" if isinstance(value, tuple) else f"{name} {value}"
                                           for name, value in found.items()), flush=True)
        results = {value[0] for value in found.values() if isinstance(value, tuple)}
        if len(results) > 1:
            print(f"  different results: {found}")
    return measured


def draw(measured):
    """An SVG of CPU microseconds a point against the number of points, both logarithmic."""
    colours = {OURS: "#c2410c", "spatial": "#2563eb", "SedonaDB": "#15803d", "GeoPandas": "#7c3aed"}
    lines = collections.defaultdict(list)
    for entry in measured:
        for name, value in entry["found"].items():
            if isinstance(value, tuple):
                lines[name].append((entry["points"], value[2] / entry["points"] * 1e6))
    return draw_lines("points in 4,556 provinces: CPU microseconds a point", "points", lines, colours)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extension", default=EXTENSION)
    parser.add_argument("--quick", action="store_true", help="fewer cases, 200,000 points, one round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--timeout", type=int)
    parser.add_argument("--points", type=int)
    parser.add_argument("--only", default="", help="a regular expression that the case has to match")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.timeout = arguments.timeout or (20 if arguments.quick else 120)
    arguments.points = arguments.points or (200_000 if arguments.quick else 5_000_000)
    names = arguments.engines.split(",")
    if set(names) - set(ENGINES):
        parser.error(f"the engines are {', '.join(ENGINES)}")
    extension = str(pathlib.Path(arguments.extension).absolute())
    if OURS in names and not pathlib.Path(extension).exists():
        parser.error(f"{extension} is not there: run make, or name another with --extension")

    with tempfile.TemporaryDirectory(prefix="vibespatial-joins-") as folder:
        missing = write_tables(folder, 1 if arguments.plot else arguments.points)
        engines = [Engine(name, serve, folder, extension) for name in names]
        odd = False
        try:
            if arguments.plot:
                if "provinces" in missing:
                    sys.exit(f"the plot needs {missing['provinces']}")
                measured = series(engines, folder, [int(size) for size in arguments.sizes.split(",")], arguments)
                pathlib.Path(arguments.plot).write_text(draw(measured))
            else:
                chosen = [case for case in cases() if (case.quick or not arguments.quick) and re.search(arguments.only, case.name())]
                for name, file in missing.items():
                    print(f"{file} is not there: no cases with {name}")
                chosen = [case for case in chosen if not {case.left, case.right} & set(missing)]
                print(f"points: {arguments.points:,}")
                measured, odd = table(engines, chosen, arguments)
        finally:
            for engine in engines:
                engine.stop()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(measured, indent=1))
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
