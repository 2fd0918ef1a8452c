#!/usr/bin/env python3
"""The twelve queries of SpatialBench: vibespatial, DuckDB's spatial, SedonaDB and GeoPandas, on the same Parquet files, in one run.

usage: spatialbench.py [--sf 1] [--zones real|large] [--queries 1,2,12] [--engines A,B] [--modes auto] [--floor] [--rounds 3] [--seconds 0.5]
                       [--limit 60] [--threads N] [--data FOLDER] [--answers FOLDER] [--extension FILE] [--generator FILE] [--json FILE]
                       [--markdown FILE]
       spatialbench.py --prepare FOLDER

Apache Sedona's SpatialBench asks twelve questions of trips, customers, buildings and zones. Its own generator makes the tables (the
pinned package spatialbench-cli; below scale 1 it makes no buildings, and the first of those of scale 1 are taken). The zones are not
generated but downloaded, so others stand in for them: `real`, 7,777 provinces and US counties, or `large`, 150,000 polygons of 80
million vertices: those and real shorelines, each edge divided. Geometry is WKB in BLOB columns, and queries read the files.

Every engine has a process of its own, on the first N cores. A round runs one query on every engine, for --seconds or once; the best
counts, CPU and wall seconds from the text of the query to its rows. An engine that needs longer than the limit is ended, and not asked that query
again; one that needs more than a quarter of it is asked once. Ratios are the best peer's time over ours (mode auto, where several modes
are asked for). --floor adds DuckDB without an extension on the same query, with its geometry functions replaced by a hash of the bytes.

At scale 1 the answers to the queries without zones are compared with the published ones, in the folder --answers (by default
spatialbench/answers-sf1 beside the folder of the large data), and all others with each other. A difference ends the run with status 1.

--prepare writes what the zones are made of into a folder, for a machine without the large data (scripts/bench_bundle.py).
"""
import argparse
import csv
import datetime
import decimal
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
if (ROOT / "python").is_dir():
    sys.path.insert(0, str(ROOT / "python"))

from common import CANNOT, EXTENSION, FILES, OURS, Engine, cell, measure, open_duckdb, open_sedona, ratio, shared_data, spatial_path  # noqa: E402
from spatialbench_queries import QUERIES  # noqa: E402

FLOOR = "floor"
PEERS = ["spatial", "SedonaDB", "GeoPandas"]
MODES = ["cpu", "gpu", "auto"]
TABLES = ["trip", "building", "customer", "driver", "vehicle"]
BUILDINGS = 20_000  # at scale 1
LARGE_ROWS, LARGE_VERTICES = 150_000, 80_000_000
PARTS = "zone_parts.parquet"
TOLERANCE = 1e-6


def find_generator():
    """The pinned program: of a bundle, or fetched."""
    carried = sorted((ROOT / "python").glob("spatialbench_cli-*.data/scripts/spatialbench-cli"))
    if carried:
        return carried[0]
    sys.path.insert(0, str(ROOT / "scripts"))
    import fetch

    return fetch.spatialbench(fetch.host_platform())


def generate(generator, scale, folder, threads):
    """The tables of that scale, which stay in the folder for the next run."""
    if all((folder / f"{name}.parquet").exists() for name in TABLES):
        return

    def call(scale, tables, target):
        subprocess.run([generator, "-s", str(scale), "-T", ",".join(tables), "-n", str(threads), "-o", target], check=True)

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        work = pathlib.Path(work)
        if scale >= 1:
            call(scale, TABLES, work)
        else:
            call(scale, [name for name in TABLES if name != "building"], work)
            call(1, ["building"], work / "all")
            with open_duckdb() as duck:
                duck.execute(f"COPY (FROM '{work}/all/building.parquet' WHERE b_buildingkey <= {math.ceil(BUILDINGS * scale)}) "
                             f"TO '{work}/building.parquet'")
        folder.mkdir(exist_ok=True)
        for name in TABLES:
            (work / f"{name}.parquet").replace(folder / f"{name}.parquet")


def zone_parts(duck, target):
    """What both tables of zones are made of: provinces, counties, and as many shorelines, the largest, as make 150,000 rows."""
    names = ("provinces", "counties", "shores")
    data, missing = shared_data(*(FILES[name] for name in names))
    if missing:
        sys.exit(f"no zones without {', '.join(missing)} in {data}")
    provinces, counties, shores = (f"'{data / FILES[name]}'" for name in names)
    duck.execute(f"""COPY (
        WITH named AS (
            SELECT 0 AS source, id, iso_a2 AS country, adm0_a3 AS region, name, 'region' AS subtype, geom FROM {provinces}
            UNION ALL SELECT 1, id, 'US', state, name || ' County', 'county', geom FROM {counties}),
        shore AS (
            SELECT 2 AS source, id, NULL AS country, NULL AS region, 'Shore ' || id AS name, 'shore' AS subtype, geom FROM {shores}
            ORDER BY octet_length(geom) DESC, id LIMIT {LARGE_ROWS} - (SELECT count(*) FROM named))
        SELECT row_number() OVER (ORDER BY source, id) AS z_zonekey, format('{{}}-{{}}', subtype, id) AS z_gersid, country AS z_country,
            region AS z_region, name AS z_name, subtype AS z_subtype, geom AS z_boundary
        FROM (FROM named UNION ALL FROM shore) ORDER BY z_zonekey
    ) TO '{target}' (FORMAT parquet, COMPRESSION zstd)""")


def rings(wkb):
    """Where the coordinates of each ring of a polygon or multipolygon begin, and how many vertices it has."""
    at = 0

    def polygon():
        nonlocal at
        order, kind, count = struct.unpack_from("<BII", wkb, at)
        if (order, kind) != (1, 3):
            raise SystemExit("zones are little-endian polygons of two dimensions")
        at += 9
        for _ in range(count):
            (vertices,) = struct.unpack_from("<I", wkb, at)
            yield at + 4, vertices
            at += 4 + 16 * vertices

    (kind,) = struct.unpack_from("<I", wkb, 1)
    if kind == 6:
        (polygons,) = struct.unpack_from("<I", wkb, 5)
        at = 9
        for _ in range(polygons):
            yield from polygon()
    else:
        yield from polygon()


def divided(wkb, pieces):
    """The same area with every edge in so many pieces."""
    import numpy

    result, copied = [], 0
    steps = (numpy.arange(pieces) / pieces)[None, :, None]
    for begin, vertices in rings(wkb):
        line = numpy.frombuffer(wkb, "<f8", 2 * vertices, begin).reshape(-1, 2)
        between = (line[:-1, None, :] + (line[1:] - line[:-1])[:, None, :] * steps).reshape(-1, 2)
        between[::pieces] = line[:-1]
        result += [wkb[copied:begin - 4], struct.pack("<I", len(between) + 1), between.tobytes(), line[-1].tobytes()]
        copied = begin + 16 * vertices
    return b"".join([*result, wkb[copied:]])


def write_large(duck, parts, target):
    """All parts with their edges divided, so that there are 80 million vertices."""
    import numpy

    everything = duck.execute(f"SELECT z_zonekey, z_boundary FROM '{parts}' ORDER BY z_zonekey").fetchall()
    edges = sum(vertices - 1 for _, wkb in everything for _, vertices in rings(wkb))
    pieces = round(LARGE_VERTICES / edges)
    duck.execute("CREATE TEMP TABLE large (z_zonekey BIGINT, z_boundary BLOB)")
    for begin in range(0, len(everything), 2000):
        keys, areas = zip(*everything[begin:begin + 2000])
        batch = {"z_zonekey": numpy.array(keys), "z_boundary": numpy.array([divided(wkb, pieces) for wkb in areas], dtype=object)}  # noqa: F841
        duck.execute("INSERT INTO large FROM batch")
    duck.execute(f"""COPY (SELECT p.* REPLACE (l.z_boundary AS z_boundary) FROM '{parts}' p JOIN large l USING (z_zonekey) ORDER BY z_zonekey)
        TO '{target}' (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 10240)""")
    duck.execute("DROP TABLE large")


def write_zones(which, folder):
    """The file of zones, which stays in the folder for the next run."""
    target = folder / f"zone_{which}.parquet"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with open_duckdb() as duck, tempfile.TemporaryDirectory(dir=folder) as work:
        parts = ROOT / "tables" / PARTS
        if not parts.exists():
            parts = pathlib.Path(work) / PARTS
            zone_parts(duck, parts)
        made = pathlib.Path(work) / "zone.parquet"
        if which == "large":
            write_large(duck, parts, made)
        else:
            duck.execute(f"COPY (FROM '{parts}' WHERE z_subtype <> 'shore' ORDER BY z_zonekey) TO '{made}' (FORMAT parquet, ROW_GROUP_SIZE 10240)")
        made.replace(target)
    return target


class Duck:
    """DuckDB with our extension, with spatial, or with none for the floor."""

    def __init__(self, extensions, files, threads, mode=None):
        self.connection = open_duckdb(*extensions)
        self.connection.execute(f"SET threads = {threads}")
        if mode:
            self.connection.execute(f"SET vibe_execution_mode = '{mode}'")
            self.connection.execute("FROM vibe_ensure_warm(60)").fetchall()
        for name, file in files.items():
            self.connection.execute(f"CREATE VIEW {name} AS FROM '{file}'")

    def run(self, sql):
        return self.connection.execute(sql).fetchall()


class Sedona:
    def __init__(self, files):
        self.connection, self.reader = open_sedona(), open_duckdb()
        for name, file in files.items():
            self.connection.read_parquet(str(file)).to_view(name)

    def run(self, sql):
        # Its own table first: DuckDB, which reads the rows without pyarrow, may ask for the stream more than once.
        return self.reader.from_arrow(self.connection.sql(sql).to_memtable()).fetchall()


class GeoPandas:
    def __init__(self, files):
        import spatialbench_geopandas

        self.queries, self.files = spatialbench_geopandas, files

    def run(self, name):
        return getattr(self.queries, name)(self.files)


def serve(pipe, engine, files, extension, threads, seconds):
    """A process that answers one query at a time."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    runner = None
    while True:
        query = pipe.recv()
        try:
            if runner is None:
                if engine == "SedonaDB":
                    runner = Sedona(files)
                elif engine == "GeoPandas":
                    runner = GeoPandas(files)
                elif engine == "spatial":
                    runner = Duck([spatial_path()], files, threads)
                elif engine == FLOOR:
                    runner = Duck([], files, threads)
                else:
                    runner = Duck([extension], files, threads, mode_of(engine))
            pipe.send("ready")
            pipe.send(best(runner, query.text(engine), seconds))
        except Exception as error:  # whatever an engine throws is its answer
            pipe.send(f"{type(error).__name__}: {error}".splitlines()[0][:200])


def best(runner, sql, seconds):
    """(rows, wall, CPU) of the fastest of as many runs as begin within so many seconds."""
    found, begin = None, time.perf_counter()
    while found is None or time.perf_counter() - begin < seconds:
        wall, cpu = time.perf_counter(), time.process_time()
        rows = runner.run(sql)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if found is None or wall < found[1]:
            found = rows, wall, cpu
    return found


def mode_of(engine):
    return engine.removeprefix(OURS).strip() or "auto"


def number_of(value):
    """A value as a number and how far it may be off, or None where it is no number."""
    if isinstance(value, datetime.timedelta):
        return value.total_seconds(), 1e-3  # SedonaDB's average of durations has no finer parts
    if isinstance(value, decimal.Decimal):
        # An average of DECIMAL ends at some digit, and may be cut there
        return float(value), 10.0 ** value.as_tuple().exponent
    return (float(value), 0.0) if isinstance(value, (int, float)) else None


def same_value(a, b):
    if a is None or b is None:
        return a is b
    left, right = number_of(a), number_of(b)
    if left and right:
        return abs(left[0] - right[0]) <= TOLERANCE * max(abs(left[0]), abs(right[0])) + max(left[1], right[1])
    return not left and not right and a == b


def difference(query, expected, found):
    """What differs in two answers, or None. A tie at the end may go either way."""
    if len(expected) != len(found):
        return f"{len(found)} rows for {len(expected)}"
    for at, (a, b) in enumerate(zip(expected, found)):
        if len(a) != len(b):
            return f"{len(b)} columns for {len(a)}"
        if not all(map(same_value, a, b)) and not (len(found) == 100 and at == 99 and same_value(a[query.order], b[query.order])):
            return f"row {at + 1}: {b} for {a}"
    return None


def published(query, folder):
    """The rows of a published answer, each value of the type that its column has in our answer; None where there is none."""
    path = folder / f"q{query.number}.csv"
    if query.zones or not path.exists():
        return None

    def value(column, text):
        if text == "":
            return None
        if column.endswith(("_month", "time")):
            return datetime.datetime.fromisoformat(text)
        if column.endswith("_name"):
            return text
        # SedonaDB's average of DECIMAL ends at nine digits
        return decimal.Decimal(text).quantize(decimal.Decimal("1e-9")) if column.startswith("avg_") else float(text)

    with open(path, newline="") as file:
        names, *rows = csv.reader(file)
        return [tuple(map(value, names, row)) for row in rows]


def check(query, found, answers):
    """Lines on answers that differ from the published one, or from the first engine's where there is none."""
    given = {name: value[0] for name, value in found.items() if isinstance(value, tuple) and name != FLOOR}
    expected = published(query, answers) if answers else None
    source = "the published answer" if expected is not None else next(iter(given), None)
    if expected is None and given:
        expected = given[source]
    lines = []
    for name, rows in given.items():
        text = difference(query, expected, rows) if name != source else None
        if text:
            lines.append(f"{query.name}: {name} differs from {source}: {text}")
    return lines


def cpu_ratio(found):
    """Nothing where no peer finished: how much CPU time it would have taken is not known."""
    return ratio({name: value for name, value in found.items() if isinstance(value, tuple)}, 2)


def over_floor(found, ours):
    values = found.get(ours), found.get(FLOOR)
    return f"{values[0][2] / values[1][2]:.1f}x" if all(isinstance(value, tuple) for value in values) else ""


def run(engines, chosen, arguments, say):
    """Runs the queries, prints the table as it grows; returns what was measured, and what differed or failed."""
    names = [engine.name for engine in engines if engine.name != FLOOR]
    with_floor = len(names) < len(engines)
    ours = next((name for name in names if name.startswith(OURS) and mode_of(name) == "auto"), names[0])
    heads = ["query", "", *names, "CPU ratio", "wall ratio", *(["floor", "ours / floor, CPU"] if with_floor else []), "rows"]
    say("| " + " | ".join(heads) + " |")
    say("|---" * len(heads) + "|")
    measured, wrong, failed = [], [], []
    for query in chosen:
        found = {engine.name: CANNOT for engine in engines}
        found.update(measure([engine for engine in engines if query.text(engine.name)], query, arguments.rounds, arguments.limit, min))
        compared = {OURS: found[ours], **{name: found[name] for name in names if not name.startswith(OURS)}}
        rows = next((len(found[name][0]) for name in names if isinstance(found[name], tuple)), "")
        say("| " + " | ".join([query.name, query.title, *(cell(found[name]) for name in names), cpu_ratio(compared), ratio(compared, 1),
                               *([cell(found[FLOOR]), over_floor(found, ours)] if with_floor else []), str(rows)]) + " |")
        wrong += check(query, found, arguments.answers)
        failed += [f"{query.name}: {name}: {value}" for name, value in found.items() if isinstance(value, str) and value != CANNOT and not value.startswith("> ")]
        measured.append({
            "query": query.name, "title": query.title, "sql": query.sql,
            "published": bool(arguments.answers and published(query, arguments.answers) is not None),
            "engines": {name: {"wall": value[1], "cpu": value[2], "rounds": value[3]} if isinstance(value, tuple) else value
                        for name, value in found.items()},
        })
    return measured, wrong, failed


def arguments_of_call():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sf", type=float, default=1, help="the scale: 1 is six million trips")
    parser.add_argument("--zones", choices=["real", "large"], default="real")
    parser.add_argument("--queries", default=",".join(str(query.number) for query in QUERIES))
    parser.add_argument("--engines", default=",".join([OURS, *PEERS]))
    parser.add_argument("--modes", default="auto", help="modes of ours, each a column")
    parser.add_argument("--floor", action="store_true", help="add the same queries without geometry")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one round of a query that is shorter")
    parser.add_argument("--limit", type=int, default=60, help="seconds for one query")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build" / "spatialbench", help="where the tables are kept")
    parser.add_argument("--answers", type=pathlib.Path, help="a folder of published answers for this scale")
    parser.add_argument("--extension", type=pathlib.Path, default=EXTENSION if EXTENSION.exists() else ROOT / EXTENSION.name)
    parser.add_argument("--generator", type=pathlib.Path, help="the program spatialbench-cli; by default the pinned one")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--prepare", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.engines, arguments.modes = arguments.engines.split(","), arguments.modes.split(",")
    if unknown := set(arguments.engines) - {OURS, *PEERS}:
        parser.error(f"there is no engine {', '.join(sorted(unknown))}: they are {', '.join([OURS, *PEERS])}")
    if set(arguments.modes) - set(MODES):
        parser.error(f"modes are {', '.join(MODES)}")
    wanted = set(arguments.queries.split(","))
    if unknown := wanted - {str(query.number) for query in QUERIES}:
        parser.error(f"there is no query {', '.join(sorted(unknown))}")
    arguments.queries = [query for query in QUERIES if str(query.number) in wanted]
    if arguments.sf <= 0:
        parser.error("the scale is positive")
    if OURS in arguments.engines and not arguments.prepare and not arguments.extension.exists():
        parser.error(f"{arguments.extension} is not there: run make, or name another with --extension")
    if arguments.answers and not arguments.answers.is_dir():
        parser.error(f"{arguments.answers} is no folder")
    if not arguments.answers and arguments.sf == 1:
        beside = pathlib.Path(os.environ.get("VIBESPATIAL_SHARED_DATA", ROOT.parent / "shared" / "data")).parent / "spatialbench" / "answers-sf1"
        arguments.answers = beside if beside.is_dir() else None
    return arguments


def main():
    arguments = arguments_of_call()
    if arguments.prepare:
        with open_duckdb() as duck:
            zone_parts(duck, arguments.prepare / PARTS)
        return 0
    lines = []

    def say(text):
        print(text, flush=True)
        lines.append(text)

    folder = arguments.data / f"sf{arguments.sf:g}"
    generate(arguments.generator or find_generator(), arguments.sf, folder, arguments.threads)
    files = {name: folder / f"{name}.parquet" for name in TABLES}
    if any(query.zones for query in arguments.queries):
        files["zone"] = write_zones(arguments.zones, arguments.data)
    modes = [OURS if len(arguments.modes) == 1 and mode == "auto" else f"{OURS} {mode}" for mode in arguments.modes]
    names = [name for engine in arguments.engines for name in (modes if engine == OURS else [engine])] + [FLOOR] * arguments.floor
    engines = [Engine(name, serve, files, arguments.extension.absolute(), arguments.threads, arguments.seconds) for name in names]
    say(f"scale {arguments.sf:g}, zones: {arguments.zones}, {arguments.threads} threads; "
        f"CPU / wall seconds, the best of {arguments.rounds} rounds; ratio: best peer / ours\n")
    try:
        measured, wrong, failed = run(engines, arguments.queries, arguments, say)
    finally:
        for engine in engines:
            engine.stop()
    if failed:
        say("\nFailures:\n" + "\n".join(f"- {text}" for text in failed))
    if wrong:
        say("\nWrong answers:\n" + "\n".join(f"- {text}" for text in wrong))
    else:
        say(f"\nThe answers agree, with one another{' and with the published ones' if any(m['published'] for m in measured) else ''}.")
    if arguments.json:
        facts = {"scale": arguments.sf, "zones": arguments.zones, "threads": arguments.threads, "limit": arguments.limit}
        arguments.json.write_text(json.dumps({**facts, "queries": measured, "wrong": wrong, "failed": failed}, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")
    return 1 if wrong or any(f": {OURS}" in text for text in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
