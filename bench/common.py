"""What the benchmarks share: where things are, how an engine is opened and asked, how a query is timed, how a plot is drawn."""
import collections
import importlib.util
import math
import multiprocessing
import os
import pathlib
import statistics
import struct
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = "vibespatial"
ENGINES = [OURS, "spatial", "SedonaDB", "GeoPandas"]
EXTENSION = ROOT / "build" / "release" / "v1.5.5" / "vibespatial.duckdb_extension"  # the one that `spatial` is there for
FILES = {
    "cities": "cities500_geonames.parquet",
    "countries": "ne10m_countries.parquet",
    "provinces": "ne10m_states_provinces.parquet",
    "counties": "us_counties.parquet",
    "rivers": "wdb_rivers_f.parquet",
    "shore": "gshhs_h.parquet",
    "shores": "gshhs_h.parquet",
}


def spatial_path():
    """DuckDB's own spatial extension, from the package duckdb-extension-spatial."""
    import duckdb

    package = pathlib.Path(importlib.util.find_spec("duckdb_extension_spatial").origin).parent
    return package / "extensions" / f"v{duckdb.__version__}" / "spatial.duckdb_extension"


def open_duckdb(*extensions):
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for path in extensions:
        connection.execute(f"LOAD '{path}'")
    return connection


def open_sedona():
    import warnings

    # It looks for GDAL and PROJ, and says at length that there is none.
    warnings.filterwarnings("ignore", message="Failed to configure (GDAL|PROJ)")
    import sedonadb

    return sedonadb.connect()


def shared_data(*files):
    """The folder of the large real data, and which of the files are not in it. Ends the run where there is no such folder."""
    folder = pathlib.Path(os.environ.get("VIBESPATIAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"no large data: {folder} is not there (VIBESPATIAL_SHARED_DATA names another folder)\nneeded: {', '.join(files)}")
    return folder, [file for file in files if not (folder / file).exists()]


def real_table(name, path):
    """SQL for a table of the real data: id, and x and y or WKB. The shore is the one polygon with the most vertices."""
    columns = "lon AS x, lat AS y" if name == "cities" else "geom"
    order = "ORDER BY octet_length(geom) DESC LIMIT 1" if name == "shore" else ""
    return f"SELECT row_number() OVER () - 1 AS id, {columns} FROM (FROM '{path}' {order})"


def made_points(count):
    """SQL for a table of points: id, x and y, uniform in longitude and latitude. The first rows are the same for any count."""
    return ("SELECT i AS id, (hash(i) % 3600000000) / 1e7 - 180.0 AS x, (hash(i + 1000000007) % 1800000000) / 1e7 - 90.0 AS y "
            f"FROM range({count}) t(i)")


def timed(run, *arguments):
    """The result, wall seconds, and CPU seconds of all threads of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = run(*arguments)
    return value, time.perf_counter() - wall, time.process_time() - cpu


def timed_again(run, *arguments, seconds=0.5):
    """As timed(), the medians of as many runs as begin within so many seconds: a process that was idle while others worked wakes slowly."""
    begin = time.perf_counter()
    value, *times = timed(run, *arguments)
    runs = [times]
    while time.perf_counter() - begin < seconds:
        runs.append(timed(run, *arguments)[1:])
    return value, *(statistics.median(column) for column in zip(*runs))


class Engine:
    """The parent's end of one engine's process, started when it is needed. There, `serve` takes a pipe, the engine's name and the
    arguments; for every case from the pipe it sends "ready" once the tables are there, and then what it found."""

    def __init__(self, name, serve, *arguments):
        self.name, self.serve, self.arguments, self.process = name, serve, (name, *arguments), None

    def ask(self, case, timeout):
        """What it sent: (result, wall, CPU, ..), or a text that says why there is none."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=self.serve, args=(other, *self.arguments), daemon=True)
            self.process.start()
            other.close()
        try:
            self.pipe.send(case)
            answer = self.pipe.recv()
            if answer == "ready":
                if not self.pipe.poll(timeout):
                    self.stop()
                    return f"> {timeout} s"
                answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            code = self.stop()
            return f"ended with status {code}"
        return answer

    def stop(self):
        if self.process is None:
            return None
        self.process.kill()
        self.process.join()
        code, self.process = self.process.exitcode, None
        return code


def measure(engines, case, rounds, timeout, pick=statistics.median):
    """Every engine's (result, wall, CPU, runs, the largest of what else it sent), or the reason for none. `pick` chooses among the rounds."""
    runs, failed = collections.defaultdict(list), {}
    for _ in range(rounds):
        for engine in engines:
            if engine.name in failed or (runs[engine.name] and runs[engine.name][0][1] > timeout / 4):
                continue
            answer = engine.ask(case, timeout)
            if isinstance(answer, str):
                failed[engine.name] = answer
            else:
                runs[engine.name].append(answer)
    found = dict(failed)
    for name, answers in runs.items():
        if name not in failed and answers:
            most = (max(values) for values in zip(*(a[3:] for a in answers)))
            found[name] = (answers[0][0], pick(a[1] for a in answers), pick(a[2] for a in answers), len(answers), *most)
    return {engine.name: found[engine.name] for engine in engines}


def ratio(found, at):
    """The best peer's time over ours; with a > where no peer finished."""
    ours, peers = found.get(OURS), [value for name, value in found.items() if name != OURS]
    if not isinstance(ours, tuple) or not peers:
        return ""
    finished = [value[at] for value in peers if isinstance(value, tuple)]
    if finished:
        return f"{min(finished) / ours[at]:.1f}x"
    slow = [float(value[2:-2]) for value in peers if value.startswith("> ")]
    return f"> {min(slow) / ours[at]:.0f}x" if slow else ""


# What there is in place of times where an engine has no way to ask
CANNOT = "-"


def cell(value):
    if isinstance(value, tuple):
        return f"{value[2]:.3f} / {value[1]:.3f}"
    return value if value.startswith("> ") or value == CANNOT else "failed"


def wkb_column(array):
    """An Arrow column of the items of a packed numpy array, each of them one WKB."""
    import numpy
    import pyarrow

    offsets = numpy.arange(len(array) + 1, dtype=numpy.int32) * array.dtype.itemsize
    return pyarrow.Array.from_buffers(pyarrow.binary(), len(array), [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(array)])


def circles(random, count, scale=1.0):
    """Polygons of 33 vertices over Europe, 0.02 to 0.1 degrees wide, or `scale` times that."""
    import numpy

    centre = numpy.column_stack([random.uniform(-10, 40, count), random.uniform(35, 70, count)])
    radius = random.uniform(0.01, 0.05, count) * scale
    angle = numpy.linspace(0, 2 * numpy.pi, 33)
    ring = numpy.stack([numpy.cos(angle), numpy.sin(angle)], axis=1)
    ring[-1] = ring[0]
    polygon = numpy.zeros(count, dtype=[("head", "V13"), ("ring", "<f8", (33, 2))])
    polygon["head"] = numpy.void(struct.pack("<BIII", 1, 3, 1, 33))
    polygon["ring"] = centre[:, None, :] + radius[:, None, None] * ring[None, :, :]
    return wkb_column(polygon)


def points(random, count):
    """Points over the same area."""
    import numpy

    point = numpy.zeros(count, dtype=[("head", "V5"), ("xy", "<f8", 2)])
    point["head"] = numpy.void(struct.pack("<BI", 1, 1))
    point["xy"] = numpy.column_stack([random.uniform(-10, 40, count), random.uniform(35, 70, count)])
    return wkb_column(point)


def short(number):
    """1000 as 1k, 5000000 as 5M."""
    return f"{number // 1_000_000}M" if number >= 1_000_000 else f"{number // 1000}k" if number >= 1000 else str(number)


def draw_lines(title, axis, lines, colours):
    """An SVG of lines {name: [(count, value)]}, both axes logarithmic."""
    values = [value for line in lines.values() for _, value in line]
    sizes = sorted({size for line in lines.values() for size, _ in line})
    left, top, width, height = 70, 30, 560, 320
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(min(sizes)), max(math.log10(max(sizes)), math.log10(min(sizes)) + 1e-9)

    def at(size, value):
        return (left + width * (math.log10(size) - first) / (last - first),
                top + height * (high - math.log10(value)) / max(high - low, 1))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" height="{top + height + 50}" font-family="sans-serif" '
             'font-size="12"><rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="18" font-size="13">{title}</text>']
    for exponent in range(low, high + 1):
        y = at(min(sizes), 10.0 ** exponent)[1]
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** exponent:g}</text>')
    for size in sizes:
        x = at(size, 10.0 ** low)[0]
        parts.append(f'<line x1="{x:.1f}" y1="{top + height}" x2="{x:.1f}" y2="{top + height + 5}" stroke="#666"/>'
                     f'<text x="{x:.1f}" y="{top + height + 20}" text-anchor="middle">{short(size)}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">{axis}</text>')
    taken = []
    for name, line in lines.items():
        places = [at(*point) for point in line]
        parts.append(f'<polyline fill="none" stroke="{colours[name]}" stroke-width="2" points="'
                     + " ".join(f"{x:.1f},{y:.1f}" for x, y in places) + '"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[name]}"/>' for x, y in places]
        y = places[-1][1] + 4
        while any(abs(y - other) < 13 for other in taken):
            y += 1
        taken.append(y)
        parts.append(f'<text x="{places[-1][0] + 8:.1f}" y="{y:.1f}" fill="{colours[name]}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
