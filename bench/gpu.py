#!/usr/bin/env python3
"""Joins and unions on the GPU, on our CPU engine, in mode auto, in SedonaDB and in DuckDB's spatial, on the same rows, in one run.

usage: gpu.py [--out FOLDER] [--cases REGEX] [--modes cpu,gpu,auto] [--peers sedona,spatial] [--points 50000000] [--no-sweep]
              [--budget-seconds 570] [--peer-timeout 120] [--extension FILE] [--data FOLDER] [--layers]
       gpu.py --render FOLDER/gpu.json [--out FOLDER]

It needs Python, duckdb, and for the peers sedonadb and duckdb-extension-spatial; where a folder `python` lies beside this one, they are
taken from there (scripts/bench_bundle.py makes one for a machine without a network).

Our engine comes first: every case in every mode, and a sweep over the number of points; then each peer by itself, its slow cases last.
Every engine has a process of its own with the tables in memory. A case is run once in each mode (`first`), and then in rounds that
take the modes in turn; the medians of the rounds count, wall seconds from the query text to the row of results. A peer that ran into
its time limit is stopped. Results of all engines and modes have to be the same: where they are not, the run ends with status 1.

The floor of a case is DuckDB's own scan of the left geometry column, reading every geometry, and the coordinates of both sides over a
bus of 55 GB/s; a pinned case is not bound by it. What the operators did, with bytes and the times of their stages, is what vibe_dispatch_log() said of the last run.

--layers: instead of these cases every layer of real data joined with every other by each predicate and join kind, a few rounds each, our
engine alone: what mode auto costs against the better of cpu and gpu, case by case and in the sum.

gpu.json and gpu.md in the folder --out are written anew after each step, gpu.svg at the end.
"""
import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import os
import pathlib
import platform
import re
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
if (ROOT / "python").is_dir():
    sys.path.insert(0, str(ROOT / "python"))

from common import (EXTENSION, FILES, draw_lines, made_points, open_duckdb, open_sedona, real_table, shared_data, short,  # noqa: E402
                    spatial_path, timed)

FULL, MILLION = 50_000_000, 1_000_000
OUT_OF_TIME, OURS_TIMEOUT, LAYER_ROUNDS = "out of time", 60, 3
SWEEP = [1_000, 10_000, 100_000, MILLION, 5_000_000, FULL]
BUS, DEVICE = 55e9, 4.8e12  # bytes a second: measured to the device, and of an H200's memory by its data sheet
PEERS = ("sedona", "spatial")
LOG = "* EXCLUDE (time, query)"  # Python has no time zones of its own
CIRCLES = {"circles": 1.0, "dense": 3.9}  # how wide: the first seldom meet, the others overlap ten more each
BUILDINGS = "buildings"  # small boxes, wherever the points are
LAYERS = ("provinces", "counties", "rivers", "shores", "cities")
REAL = (*LAYERS, "shore")
LAYER_PREDICATES = ("ST_Intersects", "ST_Touches", "ST_Crosses", "ST_Overlaps", "ST_Within", "ST_Contains", "ST_CoveredBy", "ST_Equals",
                    "ST_DWithin(l.geom, r.geom, 0.01)")

#: The right table is pinned
PINNED_RIGHT = "pinned neighbours"
#: One table is pinned before the first run, in the mode that is asked for; the cpu reads it as ever
PINNED_JOINS = ("pinned count", "pinned grouped", "pinned filtered", "pinned pairs", "pinned semi")
PINNED = (PINNED_RIGHT, *PINNED_JOINS, "pinned union", "pinned groups")
#: Those that return rows: they have no bar yet
PINNED_ROWS = ("pinned pairs", "pinned semi")
SHAPES = {
    "count": "SELECT count(*) FROM {left} l JOIN {right} r ON {on}",
    "grouped": "SELECT count(*), sum(n), sum(n * (g % 97)) FROM "
               "(SELECT r.id AS g, count(*) AS n FROM {left} l JOIN {right} r ON {on} GROUP BY r.id) s",
    "pinned count": "SELECT count(*) FROM {left} l JOIN {right} r ON {on}",
    "pinned grouped": "SELECT count(*), sum(n), sum(n * (g % 97)) FROM "
                      "(SELECT r.id AS g, count(*) AS n FROM {left} l JOIN {right} r ON {on} GROUP BY r.id) s",
    "pinned filtered": "SELECT count(*) FROM {left} l JOIN {right} r ON {on} WHERE l.id >= 1000000 AND l.id < 30000000",
    "pinned pairs": "SELECT count(*), sum((l.id * 31 + r.id) % 1000003) FROM {left} l JOIN {right} r ON {on}",
    PINNED_RIGHT: "SELECT count(*), sum((l.id * 31 + r.id) % 1000003) FROM {left} l JOIN {right} r ON {on}",
    "pinned semi": "SELECT count(*), sum(l.id) FROM {left} l SEMI JOIN {right} r ON {on}",
    "pairs": "SELECT count(*), sum((l.id * 31 + r.id) % 1000003) FROM {left} l JOIN {right} r ON {on}",
    "union": "SELECT sum(ST_NPoints(u)), sum(ST_Area(u)) FROM (SELECT ST_Union_Agg(geom) AS u FROM {left}) s",
    "groups": "SELECT sum(ST_NPoints(u)), sum(ST_Area(u)) FROM (SELECT ST_Union_Agg(geom) AS u FROM {left} GROUP BY id // {on}) s",
    "pinned union": "SELECT sum(ST_NPoints(u)), sum(ST_Area(u)) FROM (SELECT ST_Union_Agg(geom) AS u FROM {left}) s",
    "pinned groups": "SELECT sum(ST_NPoints(u)), sum(ST_Area(u)) FROM (SELECT ST_Union_Agg(geom) AS u FROM {left} GROUP BY id // {on}) s",
    "left": "SELECT count(*), count(r.id) FROM {left} l LEFT JOIN {right} r ON {on}",
    "semi": "SELECT count(*), sum(l.id) FROM {left} l SEMI JOIN {right} r ON {on}",
    "anti": "SELECT count(*), sum(l.id) FROM {left} l ANTI JOIN {right} r ON {on}",
    "kNN": "SELECT count(*), sum(ST_Distance(l.geom, r.geom)) FROM {left} l JOIN {right} r ON {on}",
}


@dataclasses.dataclass
class Case:
    """`expected` is the known first number of the result at full scale; `spatial` says that DuckDB's spatial is worth asking. A union has
    no right side, and no peer is asked: they take half a minute and more (overlay.py)."""

    left: str
    right: str
    function: str
    shape: str
    expected: int = None
    spatial: bool = True
    bar: dict = None

    @property
    def tables(self):
        return [name for name in (self.left, self.right) if name]

    @property
    def pinned(self):
        return self.right if self.shape == PINNED_RIGHT else self.left

    @property
    def name(self):
        if not self.right:
            pinned = ", pinned" if self.shape in PINNED else ""
            return f"{self.left} " + (f"in groups of {self.function}" if self.function else "to one") + f", ST_Union_Agg{pinned}"
        return f"{self.left} x {self.right}, {self.function.replace('(l.geom, r.geom, ', '(')}, {self.shape}"

    @property
    def sql(self):
        on = self.function if "(" in self.function or not self.right else f"{self.function}(l.geom, r.geom)"
        return SHAPES[self.shape].format(left=self.left, right=self.right, on=on)


def cases(points):
    """The cases in the order of their worth."""
    def table(count, name="points"):
        return f"{name}_{short(min(count, points))}"

    most, some, million = table(FULL), table(5_000_000), table(MILLION)
    usual = {"peer": 5, "floor": 4}
    yield Case(most, "provinces", "ST_Within", "count", 16_504_302, False, {"sedona": 20, "and floor": 4})
    yield Case(most, "provinces", "ST_Within", "grouped", None, False, usual)
    yield Case(table(MILLION, "others"), most, "ST_KNN(l.geom, r.geom, 5)", PINNED_RIGHT, None, False)
    for shape in PINNED_JOINS:
        expected = 16_504_302 if shape in ("pinned count", "pinned pairs") else None
        yield Case(most, "provinces", "ST_Within", shape, expected, False, None if shape in PINNED_ROWS else {"seconds": 0.01})
    # Other geometries than points
    for shape in ("count", *PINNED_JOINS):
        yield Case(table(5_000_000, BUILDINGS), "provinces", "ST_Within", shape, None, False)
    for shape in ("count", "pinned count", "pinned pairs"):
        yield Case("shores", "provinces", "ST_Within", shape, None, False)
    yield Case(most, "counties", "ST_Within", "count", None, False, usual)
    yield Case(most, "counties", "ST_Within", "grouped", None, False, usual)
    yield Case("provinces", "provinces", "ST_Intersects", "count", 26_356, True, usual)
    yield Case("rivers", "provinces", "ST_Intersects", "count", 30_516, True, usual)
    yield Case(million, table(MILLION, "others"), "ST_DWithin(l.geom, r.geom, 0.05)", "count", 121_161, True, usual)
    yield Case(million, "cities", "ST_KNN(l.geom, r.geom, 5, false)", "kNN", None, False, usual)
    buildings = table(20_000, BUILDINGS)
    yield Case(some, buildings, "ST_KNN(l.geom, r.geom, 5, false)", "kNN", None, False, usual)
    yield Case(table(100_000), buildings, "ST_KNN(l.geom, r.geom, 100, false)", "kNN", None, False, usual)
    yield Case(table(100_000, "circles"), buildings, "ST_KNN(l.geom, r.geom, 5, false)", "kNN", None, False, usual)
    yield Case(some, "shore", "ST_Within", "count", 492_740, False, usual)
    yield Case(some, "provinces", "ST_Within", "count", 1_651_410, True, {"spatial": 500})
    for name, bar in (("counties", None), (table(100_000, "circles"), {"cpu": 3}), (table(100_000, "dense"), {"cpu": 3})):
        yield Case(name, "", "", "union", None, False, bar)
        yield Case(name, "", "", "pinned union", None, False, bar)
    # As many as a country or a state has, and groups of a few
    for name, size in (("provinces", 20), ("counties", 60), (table(MILLION, "dense"), 10)):
        yield Case(name, "", str(size), "groups", None, False, {"cpu": 3})
        yield Case(name, "", str(size), "pinned groups", None, False, {"cpu": 3})


def layer_cases():
    """Every layer with every other."""
    pairs = [(left, right) for left in LAYERS for right in LAYERS]
    for left, right in pairs:
        for function in LAYER_PREDICATES:
            yield Case(left, right, function, "count")
    for left, right in pairs:
        for shape in ("left", "semi", "anti"):
            yield Case(left, right, "ST_Intersects", shape)


def sweep_cases(points):
    sizes = [size for size in SWEEP if size <= points] or [points]
    for shape in ("count", "pairs"):
        for size in sizes:
            yield size, Case(f"points_{short(size)}", "provinces", "ST_Within", shape, spatial=size <= 100_000)


class Tables:
    """The Parquet files every engine loads from: the real data, prepared, and one file of points that all tables of points begin."""

    def __init__(self, folder, data, points):
        self.folder, self.data, self.points = pathlib.Path(folder), data, points
        with open_duckdb() as duck:
            if self.data is None:
                source, missing = shared_data(*(FILES[name] for name in REAL))
                self.data = self.folder
                prepare(duck, source, self.data, [name for name in REAL if FILES[name] not in missing])
            rows = max(points, 2 * min(points, MILLION))
            duck.execute(f"COPY ({made_points(rows)}) TO '{self.folder}/points.parquet' (FORMAT parquet, ROW_GROUP_SIZE 122880)")

    def has(self, name):
        return name.startswith(("points_", "others_", BUILDINGS, *CIRCLES)) or (self.data / f"{name}.parquet").exists()

    def source(self, name):
        """(file, columns, condition) of one table."""
        if name in REAL:
            geometry = "ST_Point(x, y)" if name == "cities" else "ST_GeomFromWKB(geom)"
            return self.data / f"{name}.parquet", f"id, {geometry} AS geom", "true"
        kind, size = name.split("_")
        count = int(size[:-1]) * {"k": 1000, "M": MILLION}[size[-1]] if size[-1] in "kM" else int(size)
        if kind in CIRCLES:
            # Over Europe, as those of overlay.py
            radius = f"{CIRCLES[kind]} * (0.01 + 0.04 * (hash(id + 7) % 1000) / 1000)"
            geometry = f"ST_Buffer(ST_Point((x + 180) / 360 * 50 - 10, (y + 90) / 180 * 35 + 35), {radius})"
            return self.folder / "points.parquet", f"id, {geometry} AS geom", f"id < {count}"
        if kind == BUILDINGS:
            geometry = "ST_Envelope(ST_Buffer(ST_Point(x, y), 0.001 + 0.004 * (hash(id + 7) % 1000) / 1000))"
            return self.folder / "points.parquet", f"id, {geometry} AS geom", f"id < {count}"
        first = count if kind == "others" else 0
        return self.folder / "points.parquet", "id, ST_Point(x, y) AS geom", f"id >= {first} AND id < {first + count}"


def prepare(duck, source, target, names):
    """One Parquet file for each table of real data, not compressed: a tarball does that better."""
    for name in names:
        duck.execute(f"COPY ({real_table(name, source / FILES[name])}) TO '{target}/{name}.parquet' (FORMAT parquet, COMPRESSION uncompressed)")


class Duck:
    def __init__(self, extension):
        self.connection = open_duckdb(extension)

    def load(self, name, file, columns, condition):
        self.connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM '{file}' WHERE {condition}")

    def run(self, sql):
        return timed(lambda: self.connection.execute(sql).fetchone())[:2]

    def rows(self, sql):
        """Every row as a dictionary of what JSON knows."""
        found = self.connection.execute(sql)
        names = [column[0] for column in found.description]
        plain = (int, float, str, bool, type(None))
        return [dict(zip(names, (v if isinstance(v, plain) else str(v) for v in row))) for row in found.fetchall()]

    def execute(self, sql):
        self.connection.execute(sql)

    def version(self):
        """DuckDB's version, and the version of the extension that was loaded."""
        names = "SELECT string_agg(extension_version) FROM duckdb_extensions() WHERE loaded AND extension_name IN ('spatial', 'vibespatial')"
        return [*self.connection.execute("SELECT version()").fetchone(), *self.connection.execute(names).fetchone()]


class Sedona:
    def __init__(self):
        self.connection, self.reader = open_sedona(), open_duckdb()

    def load(self, name, file, columns, condition):
        self.connection.read_parquet(str(file)).to_view(f"{name}_file")
        self.connection.sql(f"SELECT {columns} FROM {name}_file WHERE {condition}").to_memtable().to_view(name)

    def run(self, sql):
        # Its own table first: DuckDB, which reads the row without pyarrow, may ask for the stream more than once.
        table, seconds = timed(lambda: self.connection.sql(sql).to_memtable())[:2]
        return self.reader.from_arrow(table).fetchone(), seconds

    def version(self):
        import sedonadb

        return sedonadb.__version__


def serve(pipe, engine, extension):
    """A process that answers one call at a time."""
    makers = {"ours": lambda: Duck(extension), "spatial": lambda: Duck(spatial_path()), "sedona": Sedona}
    runner = None
    while True:
        call, *arguments = pipe.recv()
        try:
            runner = runner or makers[engine]()
            pipe.send((True, getattr(runner, call)(*arguments)))
        except Exception as error:  # whatever an engine throws is its answer
            pipe.send((False, f"{type(error).__name__}: {error}".splitlines()[0][:200]))


class Failed(Exception):
    """What an engine said instead of a result, in one line."""


class Engine:
    """The parent's end of one engine's process, started when it is needed."""

    def __init__(self, name, run):
        self.arguments, self.run_left, self.tables = (name, str(run.arguments.extension)), run.left, run.tables
        self.process, self.loaded = None, set()

    def ask(self, call, *arguments, timeout=None):
        timeout = timeout or max(self.run_left(), 10)
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=serve, args=(other, *self.arguments), daemon=True)
            self.process.start()
            other.close()
        try:
            self.pipe.send((call, *arguments))
            if not self.pipe.poll(timeout):
                self.stop()
                raise Failed(f"> {timeout:.0f} s")
            good, answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            raise Failed(f"ended with status {self.stop()}") from None
        if not good:
            raise Failed(answer)
        return answer

    def load(self, *names):
        for name in names:
            if name not in self.loaded:
                self.ask("load", name, *self.tables.source(name))
                self.loaded.add(name)

    def run(self, sql, timeout=None):
        value, seconds = self.ask("run", sql, timeout=timeout)
        return [float(v) if isinstance(v, float) else int(v or 0) for v in value], seconds

    def stop(self):
        if self.process is None:
            return None
        self.process.kill()
        self.process.join()
        code, self.process = self.process.exitcode, None
        self.loaded = set()
        return code


def same(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-9 * max(abs(x), abs(y)) for x, y in zip(a, b))


def rounds_for(seconds):
    """More rounds for what is short, so that a disturbance of a millisecond does not show."""
    return 15 if seconds < 0.05 else 9 if seconds < 0.3 else 5 if seconds < 2 else 3


class Run:
    """What is measured, and the two files it is kept in."""

    def __init__(self, arguments, tables):
        self.arguments, self.tables, self.begin = arguments, tables, time.monotonic()
        self.scans, self.modes = {}, list(arguments.modes)
        self.result = {
            "method": " ".join(__doc__.split("\n\n")[2].split()), "arguments": {k: str(v) for k, v in vars(arguments).items()},
            "machine": machine(), "versions": {}, "full_scale": arguments.points >= FULL, "tables": {}, "cases": [], "sweep": [],
            "problems": [], "bars": [], "complete": False,
        }

    def left(self):
        return self.arguments.budget_seconds - (time.monotonic() - self.begin)

    def problem(self, text):
        if text not in self.result["problems"]:
            print(f"!!! {text}", flush=True)
            self.result["problems"].append(text)

    def say(self, text):
        print(f"{time.monotonic() - self.begin:6.1f} s  {text}", flush=True)

    def save(self):
        self.result["bars"], self.result["seconds"] = bars(self.result), round(time.monotonic() - self.begin, 1)
        for name, text in (("gpu.json", json.dumps(self.result, indent=1)), ("gpu.md", markdown(self.result))):
            path = self.arguments.out / name
            path.with_suffix(".part").write_text(text)
            path.with_suffix(".part").replace(path)

    def entry(self, case, **extra):
        return {"case": case.name, "left": case.left, "right": case.right, "sql": case.sql, "bar": case.bar, "results": {}, "first": {},
                "warm": {}, "runs": {}, "failed": {}, "log": {}, **extra}

    def check(self, entry, case, who, value):
        """Compares a result with the first one there was, and with the known one."""
        found = entry["results"]
        if who in found and not same(found[who], value):
            self.problem(f"MISMATCH in {case.name}: {who} gave {found[who]} and then {value}")
        found.setdefault(who, value)
        other = next(iter(found))
        if not same(found[other], value):
            self.problem(f"MISMATCH in {case.name}: {other} {found[other]}, {who} {value}")
        if case.expected is not None and (self.result["full_scale"] or case.left in REAL) and value[0] != case.expected:
            self.problem(f"MISMATCH in {case.name}: {who} {value}, known is {case.expected}")

    def open_ours(self, engine):
        """Waits until the device is warm, and leaves out the modes that cannot be."""
        self.result["versions"]["duckdb"], self.result["versions"]["vibespatial"] = engine.ask("version")
        begin = time.monotonic()
        cold = engine.ask("rows", "FROM vibe_ensure_warm(60)")
        self.result["warm_up"] = {"seconds": round(time.monotonic() - begin, 3), "still_cold": cold}
        self.result["gpu_info"] = engine.ask("rows", "FROM vibe_gpu_info()")
        for mode in list(self.modes):
            try:
                engine.ask("execute", f"SET vibe_execution_mode = '{mode}'")
            except Failed as failed:
                self.problem(f"no mode {mode}: {failed}")
                self.modes.remove(mode)

    def describe(self, engine, name):
        """Rows, vertices and bytes of a table, and how long DuckDB takes to read its geometries."""
        if name in self.scans:
            return
        engine.ask("execute", "SET vibe_execution_mode = 'cpu'")
        (facts,) = engine.ask("rows", f"""SELECT count(*) AS rows, sum(ST_NPoints(geom))::BIGINT AS vertices,
            sum(octet_length(ST_AsWKB(geom)::BLOB))::BIGINT AS wkb_bytes FROM {name}""")
        point = "points" in name or "others" in name or name == "cities"
        scan = f"SELECT sum({'ST_X' if point else 'ST_XMax'}(geom)) FROM {name}"
        times = [engine.run(scan)[1] for _ in range(1 + rounds_for(engine.run(scan)[1]))]
        facts.update(scan=statistics.median(times), scan_sql=scan)
        self.scans[name] = facts
        self.result["tables"][name] = facts

    def floor(self, engine, entry, case):
        for name in case.tables:
            self.describe(engine, name)
        left = self.scans[case.left]
        coordinates = 16 * sum(self.scans[name]["vertices"] for name in case.tables)
        entry["floor"] = {"scan": left["scan"], "coordinate_bytes": coordinates, "bus": coordinates / BUS, "device": coordinates / DEVICE,
                          "total": left["scan"] + coordinates / BUS}

    def ours(self, engine, entry, case):
        """All modes of our engine on one case."""
        sql = case.sql
        if case.shape == "kNN":
            sql = knn(engine, case)
            if sql is None:
                for mode in self.modes:
                    entry["failed"][mode] = "no vibe_knn"
                return
            entry["sql"] = sql
        if case.shape in PINNED:
            engine.ask("execute", "SET vibe_execution_mode = 'auto'")
            begin = time.monotonic()
            (pinned,) = engine.ask("rows", f"FROM vibe_pin('{case.pinned}', columns := ['geom', 'id'])")
            entry["pin"] = {"seconds": round(time.monotonic() - begin, 4), "rows": pinned["rows"], "bytes": pinned["bytes"]}
        modes = []

        def once(mode):
            engine.ask("execute", f"SET vibe_execution_mode = '{mode}'")
            value, seconds = engine.run(sql, timeout=OURS_TIMEOUT)
            self.check(entry, case, mode, value)
            return seconds

        for mode in self.modes:
            try:
                entry["first"][mode] = once(mode)
                modes.append(mode)
            except Failed as failed:
                entry["failed"][mode] = str(failed)
                self.problem(f"{case.name}, mode {mode}: {failed}")
                engine.load(*case.tables)
        # The first run may have waited for what a second finds warm.
        again = {mode: once(mode) for mode in modes}
        if not modes:
            return
        count = LAYER_ROUNDS if self.arguments.layers else rounds_for(max(again.values()))
        times = {mode: [] for mode in modes}
        for number in range(count):
            last = number == count - 1
            for mode in modes[number % len(modes):] + modes[:number % len(modes)]:
                before = engine.ask("rows", "SELECT max(sequence) AS last FROM vibe_dispatch_log()")[0]["last"] if last else None
                times[mode].append(once(mode))
                if last:
                    since = "" if before is None else f"WHERE sequence > {before}"
                    entry["log"][mode] = engine.ask("rows", f"SELECT {LOG} FROM vibe_dispatch_log() {since}")
        for mode in modes:
            entry["warm"][mode], entry["runs"][mode] = statistics.median(times[mode]), times[mode]
        if case.shape in PINNED:
            entry["pin"]["state"] = engine.ask("rows", "SELECT state, hits, host_bytes FROM vibe_pins()")
            engine.ask("execute", f"CALL vibe_unpin('{case.pinned}')")
        others = [entry["warm"][mode] for mode in ("cpu", "gpu") if mode in modes]
        if "auto" in modes and others:
            entry["auto_ratio"] = entry["warm"]["auto"] / min(others)

    def peer(self, engine, entry, case, name):
        """One peer on one case: a first run, and where that is short two more."""
        limit = min(self.arguments.peer_timeout, self.left())
        if limit < 1:
            entry["failed"][name] = OUT_OF_TIME
            return
        try:
            engine.load(*case.tables)
            value, first = engine.run(case.sql, timeout=limit)
            self.check(entry, case, name, value)
            times = []
            while len(times) < 2 and first < 15 and self.left() > 2 * first:
                value, seconds = engine.run(case.sql, timeout=limit)
                self.check(entry, case, name, value)
                times.append(seconds)
            entry["first"][name], entry["warm"][name], entry["runs"][name] = first, min([first, *times]), times
        except Failed as failed:
            entry["failed"][name] = str(failed)


def knn(engine, case):
    """Our way to ask for neighbours, or None where this build has none."""
    k = re.search(r", (\d+), false\)", case.function).group(1)
    call = f"vibe_knn('{case.left}', '{case.right}', {k})"
    try:
        columns = engine.ask("rows", f"DESCRIBE FROM {call}")
    except Failed:
        return None
    distance = next(column["column_name"] for column in columns if column["column_type"] == "DOUBLE")
    return f"SELECT count(*), sum({distance}) FROM {call}"


def machine():
    """What was measured on, without its name."""
    facts = {"machine": platform.machine(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    with contextlib.suppress(OSError, AttributeError):
        facts["cpu"] = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    with contextlib.suppress(OSError, AttributeError):
        facts["memory_gib"] = int(re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) >> 20
    with contextlib.suppress(OSError, AttributeError):
        facts["system"] = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text()).group(1)
    return facts


def default_time(entry):
    """The time of mode auto, which is what a user gets, or of the mode that was measured instead."""
    return next((entry["warm"][mode] for mode in ("auto", "gpu", "cpu") if mode in entry["warm"]), None)


def at_least(entry, name):
    """The time limit that a peer ran into, or None."""
    text = entry["failed"].get(name, "")
    return float(text[2:-2]) if text.startswith("> ") else None


def bars(result):
    """Which of the aims each case meets: (case, aim, found, met)."""
    rows = []
    for entry in result["cases"]:
        ours, bar = default_time(entry), entry["bar"]
        if ours is None or not bar:
            continue
        peers = {name: entry["warm"].get(name) or at_least(entry, name) for name in PEERS}
        peers = {name: seconds for name, seconds in peers.items() if seconds}
        to_floor = ours / entry["floor"]["total"]
        if "seconds" in bar:
            rows.append((entry["case"], f"<= {bar['seconds'] * 1e3:.0f} ms", f"{ours * 1e3:.1f} ms", ours <= bar["seconds"]))
        if "cpu" in bar and {"cpu", "gpu"} <= entry["warm"].keys():
            ahead = entry["warm"]["cpu"] / entry["warm"]["gpu"]
            rows.append((entry["case"], f"gpu >= {bar['cpu']}x cpu", f"{ahead:.1f}x", ahead >= bar["cpu"]))
        for name in PEERS:
            if name in bar and name in peers:
                rows.append((entry["case"], f">= {bar[name]}x {name}", f"{peers[name] / ours:.1f}x", peers[name] / ours >= bar[name]))
        if "and floor" in bar:
            rows.append((entry["case"], f"<= {bar['and floor']}x its floor", f"{to_floor:.1f}x", to_floor <= bar["and floor"]))
        if "floor" in bar:
            ahead = min(peers.values(), default=0) / ours
            rows.append((entry["case"], f">= {bar['peer']}x the best peer or <= {bar['floor']}x its floor", f"{ahead:.1f}x, {to_floor:.1f}x",
                         ahead >= bar["peer"] or to_floor <= bar["floor"]))
    for entry in result["cases"] + result["sweep"]:
        if "auto_ratio" in entry:
            rows.append((entry["case"], "auto <= 1.1x the better of cpu and gpu", f"{entry['auto_ratio']:.2f}x", entry["auto_ratio"] <= 1.1))
    return rows


def seconds_cell(entry, name):
    if name in entry["warm"]:
        return f"{entry['warm'][name]:.4f} ({entry['first'][name]:.4f})"
    text = entry["failed"].get(name, "")
    return text if len(text) < 25 else "failed"


def ratio_cell(above, below):
    return f"{above / below:.1f}x" if above and below else ""


def stages(entry, mode):
    """Each operator of the last run in one text: what ran where, bytes to the device, and the times of the stages."""
    texts = []
    for event in entry["log"].get(mode, []):
        text = f"{event['operation'] or event['operator']}: {event['actual']}"
        if event["bytes_to_device"]:
            text += (f", {event['bytes_to_device'] / 1e6:.1f} MB in {event['to_device_ms']:.1f} ms, kernels {event['kernel_ms']:.1f} ms, "
                     f"back {event['from_device_ms']:.1f} ms")
        texts.append(f"{text}, waited {event['wait_ms']:.1f} ms, in all {event['total_ms']:.1f} ms" + (" (fallback)" if event["fallback"] else ""))
    return "; ".join(texts)


def markdown(result):
    """All tables, from what there is so far."""
    modes = [m for m in ("cpu", "gpu", "auto") if any(m in e["warm"] or m in e["failed"] for e in result["cases"] + result["sweep"])]
    peers = [p for p in PEERS if any(p in e["warm"] or p in e["failed"] for e in result["cases"])]
    facts = result["machine"]
    device = next((f"{row['detail'].split(',')[0]}, {row['version']}; " for row in result.get("gpu_info", [])
                   if row["component"] == "device" and row["found"]), "")
    lines = [f"{facts.get('cpu', facts['machine'])}, {facts['cores']} cores, {facts.get('system', '')}; {device}"
             + ", ".join(f"{name} {version}" for name, version in result["versions"].items()) + ".", "",
             "Warm medians, in brackets the first run; seconds of wall time.", "",
             "| case | " + " | ".join(modes + peers) + " | best peer / auto | floor | auto / floor | auto / better | rows |",
             "|---" * (len(modes + peers) + 6) + "|"]
    for entry in result["cases"]:
        ours = default_time(entry)
        best = min((entry["warm"][peer] for peer in peers if peer in entry["warm"]), default=None)
        floor = entry.get("floor", {}).get("total")
        first = next(iter(entry["results"].values()), None)
        lines.append(f"| {entry['case']} | " + " | ".join(seconds_cell(entry, name) for name in modes + peers)
                     + f" | {ratio_cell(best, ours)} | " + (f"{floor:.4f}" if floor else "") + f" | {ratio_cell(ours, floor)} | "
                     + (f"{entry['auto_ratio']:.2f}" if "auto_ratio" in entry else "") + " | " + (f"{first[0]:,}" if first else "") + " |")
    sums = {mode: sum(entry["warm"].get(mode, 0) for entry in result["cases"]) for mode in modes}
    lines += ["", "In the sum: " + ", ".join(f"{mode} {seconds:.3f} s" for mode, seconds in sums.items()) + "."]
    if result["sweep"]:
        lines += ["", "| sweep | " + " | ".join(modes + peers) + " | auto / better | auto ran on |", "|---" * (len(modes + peers) + 3) + "|"]
        for entry in result["sweep"]:
            ran = sorted({event["actual"] for event in entry["log"].get("auto", [])})
            lines.append(f"| {entry['case']} | " + " | ".join(seconds_cell(entry, name) for name in modes + peers) + " | "
                         + (f"{entry['auto_ratio']:.2f}" if "auto_ratio" in entry else "") + f" | {', '.join(ran)} |")
    if result["tables"]:
        lines += ["", "| table | rows | vertices | WKB bytes | DuckDB's scan, s |", "|---|---|---|---|---|"]
        lines += [f"| {name} | {t['rows']:,} | {t['vertices']:,} | {t['wkb_bytes']:,} | {t['scan']:.4f} |" for name, t in result["tables"].items()]
    logs = [(entry["case"], mode, stages(entry, mode)) for entry in result["cases"] for mode in modes if mode != "cpu"]
    if any(text for _, _, text in logs):
        lines += ["", "| case | mode | last run |", "|---|---|---|"]
        lines += [f"| {case} | {mode} | {text} |" for case, mode, text in logs if text]
    if result["bars"]:
        lines += ["", "Aims" + ("" if result["full_scale"] else " (not at full scale)"), "", "| case | aim | found | |", "|---|---|---|---|"]
        lines += [f"| {case} | {aim} | {found} | {'met' if met else 'MISSED'} |" for case, aim, found, met in result["bars"]]
    if result["problems"]:
        lines += ["", "Problems", ""] + [f"- {text}" for text in result["problems"]]
    if not result["complete"]:
        lines += ["", "(not complete)"]
    return "\n".join(lines) + "\n"


def draw(result):
    """The sweep of counts as an SVG, or None where there is no sweep."""
    colours = {"our CPU engine": "#c2410c", "GPU": "#7c3aed", "auto": "#111111", "SedonaDB": "#15803d", "spatial": "#2563eb", "scan": "#999999"}
    names = {"cpu": "our CPU engine", "gpu": "GPU", "auto": "auto", "sedona": "SedonaDB", "spatial": "spatial"}
    lines = {}
    for entry in result["sweep"]:
        if entry["shape"] == "count":
            for key, name in names.items():
                if key in entry["warm"]:
                    lines.setdefault(name, []).append((entry["points"], entry["warm"][key] * 1e3))
            if "floor" in entry:
                lines.setdefault("scan", []).append((entry["points"], entry["floor"]["scan"] * 1e3))
    return draw_lines("points in 4,556 provinces, count: milliseconds", "points", lines, colours) if lines else None


def arguments_of_call():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = EXTENSION if EXTENSION.exists() else ROOT / EXTENSION.name
    carried = ROOT / "tables"
    parser.add_argument("--extension", type=pathlib.Path, default=built)
    parser.add_argument("--data", type=pathlib.Path, default=carried if carried.is_dir() else None, help="a folder of prepared tables")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--points", type=int, default=FULL, help="the most points in any table")
    parser.add_argument("--cases", default="", help="a regular expression that the case has to match")
    parser.add_argument("--modes", default="cpu,gpu,auto")
    parser.add_argument("--peers", default=",".join(PEERS), help="empty: none")
    parser.add_argument("--no-sweep", action="store_true")
    parser.add_argument("--layers", action="store_true", help="every layer of real data with every other")
    parser.add_argument("--budget-seconds", type=float, default=570, help="what is not done by then is left out")
    parser.add_argument("--peer-timeout", type=float, default=120)
    parser.add_argument("--render", type=pathlib.Path, help="draw and tabulate what an earlier run left, and measure nothing")
    parser.add_argument("--prepare", type=pathlib.Path, help="only write the prepared tables of the real data into this folder")
    arguments = parser.parse_args()
    arguments.modes = arguments.modes.split(",")
    arguments.peers = [peer for peer in arguments.peers.split(",") if peer]
    if set(arguments.modes) - {"cpu", "gpu", "auto"} or set(arguments.peers) - set(PEERS):
        parser.error(f"modes are cpu, gpu and auto, peers are {' and '.join(PEERS)}")
    if arguments.layers:
        arguments.no_sweep, arguments.peers, arguments.points = True, [], min(arguments.points, MILLION)
    return arguments


def measure(run):
    """Our engine, and then the peers, as far as the time goes."""
    arguments, tables, result = run.arguments, run.tables, run.result
    work = []
    for kind, chosen in (("cases", ((None, case) for case in (layer_cases() if arguments.layers else cases(arguments.points)))),
                         ("sweep", () if arguments.no_sweep else sweep_cases(arguments.points))):
        for points, case in chosen:
            missing = [name for name in case.tables if not tables.has(name)]
            if missing:
                run.say(f"no {', '.join(missing)}: without {case.name}")
            elif re.search(arguments.cases, case.name):
                entry = run.entry(case, shape=case.shape, **({"points": points} if points else {}))
                work.append((kind, case, entry))
                result[kind].append(entry)
    ours = Engine("ours", run)
    try:
        run.open_ours(ours)
        for kind, case, entry in work:
            if run.left() < 5:
                entry["failed"] = {mode: OUT_OF_TIME for mode in run.modes}
                continue
            try:
                ours.load(*case.tables)
                if not arguments.layers:
                    run.floor(ours, entry, case)
                run.ours(ours, entry, case)
            except Failed as failed:
                run.problem(f"{case.name}: {failed}")
            run.say(f"{case.name}: " + ", ".join(f"{mode} {seconds:.4f}" for mode, seconds in entry["warm"].items())
                    + (f", floor {entry['floor']['total']:.4f}" if "floor" in entry else ""))
            if not arguments.layers:
                run.save()
        with contextlib.suppress(Failed):
            result["memory"] = ours.ask("rows", "FROM vibe_memory_status()")
    except Failed as failed:
        run.problem(f"our engine: {failed}")
    finally:
        ours.stop()
    for name in arguments.peers:
        engine = Engine(name, run)
        try:
            version = engine.ask("version")
            result["versions"][name] = version[-1] if isinstance(version, list) else version
        except Failed as failed:
            run.say(f"no {name}: {failed}")
            engine.stop()
            continue
        for kind, case, entry in sorted(work, key=lambda item: "spatial" in (item[1].bar or {})):
            wanted = case.spatial if name == "spatial" else case.shape not in ("pairs", "union", "groups", *PINNED)
            if wanted and not (kind == "sweep" and case.shape == "pairs"):
                run.peer(engine, entry, case, name)
                run.say(f"{case.name}: {name} " + (f"{entry['warm'][name]:.4f}" if name in entry["warm"] else entry["failed"][name]))
                run.save()
        engine.stop()
    result["complete"] = not any(OUT_OF_TIME in entry["failed"].values() for _, _, entry in work)


def main():
    arguments = arguments_of_call()
    if arguments.prepare:
        source, missing = shared_data(*(FILES[name] for name in REAL))
        with open_duckdb() as duck:
            prepare(duck, source, arguments.prepare, [name for name in REAL if FILES[name] not in missing])
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.render:
        result = json.loads(arguments.render.read_text())
    else:
        arguments.extension = arguments.extension.absolute()
        with tempfile.TemporaryDirectory(prefix="vibespatial-gpu-") as folder:
            begin = time.monotonic()
            tables = Tables(folder, arguments.data and arguments.data.absolute(), arguments.points)
            run = Run(arguments, tables)
            run.begin = begin
            run.say(f"{short(arguments.points)} points are made")
            measure(run)
            run.save()
            result = run.result
    text = markdown(result)
    (arguments.out / "gpu.md").write_text(text)
    drawing = draw(result)
    if drawing:
        (arguments.out / "gpu.svg").write_text(drawing)
    print("\n" + text)
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
