"""Input that makes algorithms quadratic, side by side with GEOS: how time grows from 1,000 vertices up.

usage: hostile.py [--extension FILE] [--quick] [--least 1024] [--most 1048576] [--timeout 30] [--only REGEX] [--json FILE]

Every case is one call on one geometry, or on two, of n vertices or parts; n grows by four. vibespatial runs it on DuckDB's threads, GEOS (shapely)
on its one. Each engine has a process of its own. One that takes longer than the timeout is stopped, and gets no larger n. Times are CPU
seconds of all threads, of the fastest of the runs that fit into half a second. "growth" is the exponent of time between the last two sizes: 1 is linear, 2 is quadratic.
The ratio is our time over that of GEOS; above 2 it is marked with !. GEOS has its geometries in memory, with their boxes; vibespatial reads
WKB, as every function of DuckDB does. So "reads" is what GEOS takes to read the WKB of the input, and the last ratio is to both together. Memory is what the process had at most beside what it had before, in MiB.
Answers are compared, areas and lengths to a share that the case names; a difference is listed below the table, and ends with status 1.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import re
import sys
import time
import typing

import numpy

from common import EXTENSION, OURS, Engine, open_duckdb, short, timed

GEOS = "GEOS"
BAR = 2


# Input: each function makes a geometry of n vertices or parts with shapely


def circle(n):
    import shapely

    angle = numpy.arange(n) * (2 * math.pi / n)
    return shapely.polygons(numpy.column_stack([numpy.cos(angle), numpy.sin(angle)]))


def noisy(n, seed=1):
    """A ring around the origin whose radius varies from vertex to vertex by a tenth, and slowly by a third."""
    import shapely

    random = numpy.random.default_rng(seed)
    angle = numpy.arange(n) * (2 * math.pi / n)
    radius = 1 + 0.3 * numpy.sin(5 * angle) + random.uniform(-0.1, 0.1, n)
    return shapely.polygons(numpy.column_stack([radius * numpy.cos(angle), radius * numpy.sin(angle)]))


def walk(n):
    """A line that goes on in random steps of about 1."""
    import shapely

    return shapely.linestrings(numpy.cumsum(numpy.random.default_rng(2).uniform(-1, 1, (n, 2)), axis=0))


def scatter(n):
    """A line from one random place of the unit square to the next."""
    import shapely

    return shapely.linestrings(numpy.random.default_rng(3).uniform(0, 1, (n, 2)))


def segments(a, b):
    import shapely

    return shapely.multilinestrings(shapely.linestrings(numpy.stack([a, b], axis=1)))


def verticals(n):
    i = numpy.arange(float(n))
    return segments(numpy.column_stack([i, 0 * i]), numpy.column_stack([i, 0 * i + 1]))


def horizontals(n):
    i = numpy.arange(float(n))
    return segments(numpy.column_stack([0 * i, i]), numpy.column_stack([0 * i + 1, i]))


def diagonals(n):
    """Parallel, all as long as the whole."""
    i = numpy.arange(float(n)) / n
    return segments(numpy.column_stack([0 * i, i]), numpy.column_stack([0 * i + 1, i + 1]))


def fan(n):
    """Lines that nearly meet in the origin."""
    angle = numpy.arange(n) * (2 * math.pi / n) + 0.1
    ray = numpy.column_stack([numpy.cos(angle), numpy.sin(angle)])
    return segments(ray * 0.001, ray)


def bars(n, slant=0.0):
    """Polygons that are high and thin, each overlapping the next."""
    import shapely

    i = numpy.arange(float(n // 4))
    width, height = numpy.array([1.5, 1.5, 0, 0]), numpy.array([0, 1, 1, 0]) * len(i)
    return shapely.multipolygons(shapely.polygons(numpy.stack([i[:, None] + width + slant * height, 0 * i[:, None] + height], axis=2)))


def zigzag(n, turned=False):
    import shapely

    i = numpy.arange(float(n))
    xy = numpy.column_stack([i / n, i % 2])
    return shapely.linestrings(xy[:, ::-1] if turned else xy)


def wave(n, phase):
    import shapely

    x = numpy.arange(n) / n
    return shapely.linestrings(numpy.column_stack([x, numpy.sin(x * n / 5 + phase)]))


def on_a_line(n):
    import shapely

    return shapely.multipoints(numpy.column_stack([numpy.arange(float(n)), numpy.arange(float(n)) * 3]))


def one_place(n):
    import shapely

    return shapely.multipoints(numpy.full((n, 2), 0.3))


def chained(n):
    """Segments of one line that each overlap the next four."""
    i = numpy.arange(float(n))
    return segments(numpy.column_stack([i, i]), numpy.column_stack([i + 4.5, i + 4.5]))


def coincident(n):
    """One square, again and again."""
    import shapely

    return shapely.multipolygons(numpy.repeat(shapely.box(0, 0, 1, 1), n // 4))


def squares(n):
    """A multipolygon of n squares, apart from each other."""
    import shapely

    i = numpy.arange(n)
    side = int(math.ceil(math.sqrt(n)))
    x, y = (i % side) * 1.0, (i // side) * 1.0
    return shapely.multipolygons(shapely.box(x, y, x + 0.5, y + 0.5))


def box_of(geometry):
    """The middle of its extent."""
    import shapely

    low_x, low_y, high_x, high_y = shapely.bounds(geometry)
    return shapely.box(low_x + (high_x - low_x) / 4, low_y + (high_y - low_y) / 4, high_x - (high_x - low_x) / 4, high_y - (high_y - low_y) / 4)


def small_box_of(geometry):
    """A millionth of its extent, off the middle."""
    import shapely

    low_x, low_y, high_x, high_y = shapely.bounds(geometry)
    x, y = low_x + (high_x - low_x) * 0.6, low_y + (high_y - low_y) * 0.55
    return shapely.box(x, y, x + (high_x - low_x) / 1000, y + (high_y - low_y) / 1000)


def point_of(geometry):
    """A point off the middle."""
    import shapely

    low_x, low_y, high_x, high_y = shapely.bounds(geometry)
    return shapely.Point(low_x + (high_x - low_x) * 0.6, low_y + (high_y - low_y) * 0.55)


# Answers: a number that both engines give


@dataclasses.dataclass
class Case:
    name: str
    make: typing.Callable
    sql: str
    geos: typing.Callable
    other: typing.Callable = None
    tolerance: float = 1e-9
    most: int = 65_536
    quick: bool = False


def buffer_case(name, make, distance, join="ROUND", **more):
    import shapely

    style = join.lower()
    # Areas differ by the vertices of arcs, and as GEOS simplifies its input by a hundredth of the distance
    return Case(f"ST_Buffer, {name}", make, f"ST_Area(ST_Buffer(a, {distance}, 8, 'CAP_ROUND', 'JOIN_{join}', 5.0))",
                lambda a, _: shapely.area(shapely.buffer(a, distance, quad_segs=8, join_style=style, mitre_limit=5.0)), **{"tolerance": 0.05, **more})


def cases():
    import shapely

    length = lambda f: lambda a, b: shapely.length(f(a, b))
    area = lambda f: lambda a, b: shapely.area(f(a, b))
    union = area(lambda a, _: shapely.union_all(shapely.get_parts(a)))
    node = length(lambda a, _: shapely.node(a))
    relate = lambda a, b: shapely.relate(a, b)
    parts_union = "ST_Area(ST_Union(a, ST_GeomFromText('POLYGON EMPTY')))"
    yield buffer_case("circle, all of it gone", circle, -1.5, quick=True)
    yield buffer_case("circle, half of it gone", circle, -0.5)
    yield buffer_case("noisy ring, all of it gone", noisy, -1.2)
    yield buffer_case("noisy ring, -0.3", noisy, -0.3, quick=True)
    yield buffer_case("noisy ring, -0.03", noisy, -0.03)
    yield buffer_case("noisy ring, 0.3", noisy, 0.3)
    for join in ("MITRE", "BEVEL"):
        yield buffer_case(f"random walk, 100, {join}", walk, 100, join, most=16_384, tolerance=0.2)
        yield buffer_case(f"random vertices, 100, {join}", scatter, 100, join, most=16_384, tolerance=0.5, quick=join == "BEVEL")
        yield buffer_case(f"noisy ring, -0.3, {join}", noisy, -0.3, join, tolerance=0.2)
        yield buffer_case(f"noisy ring, 0.3, {join}", noisy, 0.3, join, tolerance=0.2)
    for name, make in (("vertical", verticals), ("horizontal", horizontals), ("long diagonal", diagonals), ("a fan of", fan)):
        yield Case(f"ST_Node, {name} lines", make, "ST_Length(ST_Node(a))", node, quick=name == "vertical")
    yield Case("union, vertical bars", bars, "ST_Area(ST_Union_Agg(a))", union, most=262_144)
    yield Case("union, slanted bars", lambda n: bars(n, 1.0), "ST_Area(ST_Union_Agg(a))", union, most=262_144)
    yield Case("union, lines that overlap", chained, "ST_Length(ST_Union_Agg(a))", length(lambda a, _: shapely.union_all(shapely.get_parts(a))))
    yield Case("union, equal squares", coincident, "ST_Area(ST_Union_Agg(a))", union)
    yield Case("ST_Relate, zigzags that cross everywhere", zigzag, "ST_Relate(a, b)", relate, lambda n: zigzag(n, True), most=4096, quick=True)
    yield Case("ST_Crosses, zigzags that cross everywhere", zigzag, "ST_Crosses(a, b)", lambda a, b: shapely.crosses(a, b), lambda n: zigzag(n, True), most=4096)
    yield Case("ST_Relate, waves", lambda n: wave(n, 0), "ST_Relate(a, b)", relate, lambda n: wave(n, 0.7), most=1_048_576)
    yield Case("ST_Intersection, waves", lambda n: wave(n, 0), "ST_NPoints(ST_Intersection(a, b))",
               lambda a, b: int(shapely.get_num_coordinates(shapely.intersection(a, b))), lambda n: wave(n, 0.7), most=262_144)
    yield Case("ST_ConvexHull, points on a line", on_a_line, "ST_Length(ST_ConvexHull(a))", length(lambda a, _: shapely.convex_hull(a)), most=1_048_576)
    yield Case("ST_ConvexHull, one place", one_place, "ST_NPoints(ST_ConvexHull(a))", lambda a, _: int(shapely.get_num_coordinates(shapely.convex_hull(a))),
               most=1_048_576)
    for name, make in (("multipolygon", squares), ("ring", noisy)):
        more = dict(most=1_048_576)
        with_box = dict(other=lambda n, make=make: box_of(make(n)), **more)
        yield Case(f"ST_Area, {name}", make, "ST_Area(a)", lambda a, _: shapely.area(a), **more)
        yield Case(f"ST_Envelope, {name}", make, "ST_Area(ST_Envelope(a))", area(lambda a, _: shapely.envelope(a)), **more)
        yield Case(f"ST_Centroid, {name}", make, "ST_X(ST_Centroid(a))", lambda a, _: shapely.get_x(shapely.centroid(a)), **more)
        yield Case(f"ST_IsValid, {name}", make, "ST_IsValid(a)", lambda a, _: bool(shapely.is_valid(a)), **more)
        yield Case(f"ST_IsSimple, {name}", make, "ST_IsSimple(a)", lambda a, _: bool(shapely.is_simple(a)), **more)
        for other, of in (("a box", box_of), ("a small box", small_box_of), ("a point", point_of)):
            against = dict(other=lambda n, make=make, of=of: of(make(n)), **more)
            for function in ("Intersects", "Contains", "Within", "Touches"):
                predicate = getattr(shapely, function.lower())
                yield Case(f"ST_{function} with {other}, {name}", make, f"ST_{function}(a, b)", lambda a, b, predicate=predicate: bool(predicate(a, b)), **against)
            yield Case(f"ST_Relate with {other}, {name}", make, "ST_Relate(a, b)", relate, **against)
            yield Case(f"ST_Distance to {other}, {name}", make, "ST_Distance(a, b)", lambda a, b: shapely.distance(a, b), **against)
        yield Case(f"ST_Intersection with a box, {name}", make, "ST_Area(ST_Intersection(a, b))", area(lambda a, b: shapely.intersection(a, b)), **with_box)
        yield Case(f"ST_Union with a box, {name}", make, "ST_Area(ST_Union(a, b))", area(lambda a, b: shapely.union(a, b)), **with_box)
        yield Case(f"ST_MakeValid, {name}", make, "ST_Area(ST_MakeValid(a))", area(lambda a, _: shapely.make_valid(a)), **more)
        yield Case(f"ST_Simplify, {name}", make, "ST_NPoints(ST_Simplify(a, 0.001)) > 0", lambda a, _: bool(shapely.get_num_coordinates(shapely.simplify(a, 0.001, preserve_topology=False)) > 0), **more)
        yield Case(f"ST_ConvexHull, {name}", make, "ST_Area(ST_ConvexHull(a))", area(lambda a, _: shapely.convex_hull(a)), **more)
        yield Case(f"ST_Distance to itself, moved, {name}", make, "ST_Distance(a, b)", lambda a, b: shapely.distance(a, b),
                   lambda n, make=make: shapely.transform(make(n), lambda xy: xy + [numpy.ptp(xy[:, 0]) + 1, 0.1]), tolerance=1e-9, **more)
        yield buffer_case(f"{name}, 0.00001", make, 0.00001, tolerance=1e-6, **more)
        yield buffer_case(f"{name}, -0.00001", make, -0.00001, tolerance=1e-6, **more)


# Engines


def peak_memory():
    status = pathlib.Path("/proc/self/status").read_text()
    return tuple(int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) >> 10 for name in ("VmHWM", "VmRSS"))


def serve(pipe, engine, extension):
    """A process that answers cases, given by name and size."""
    import shapely

    known = {case.name: case for case in cases()}
    connection = open_duckdb(extension) if engine == OURS else None
    while True:
        name, n = pipe.recv()
        case = known[name]
        try:
            a, b = case.make(n), case.other(n) if case.other else None
            if connection:
                rows = shapely.get_parts(a) if "_Agg" in case.sql else [a]
                import pyarrow

                table = pyarrow.table({"a": pyarrow.array(shapely.to_wkb(rows), pyarrow.binary()), "b": pyarrow.array([shapely.to_wkb(b)] * len(rows), pyarrow.binary())})
                connection.register("input", table)
                connection.execute("CREATE OR REPLACE TABLE t AS SELECT ST_GeomFromWKB(a) AS a, ST_GeomFromWKB(b) AS b FROM input")
                run = lambda: connection.execute(f"SELECT {case.sql} FROM t").fetchone()[0]
            else:
                shapely.destroy_prepared(a)
                run = lambda: case.geos(a, b)
                wkb = shapely.to_wkb([a] if b is None else [a, b])
                _, _, reading = timed(lambda: shapely.from_wkb(wkb))
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            before = peak_memory()[1]
            pipe.send("ready")
            begin = time.perf_counter()
            best, answer = math.inf, None
            while answer is None or time.perf_counter() - begin < 0.5:
                answer, _, cpu = timed(run)
                best = min(best, cpu)
            answer = answer if isinstance(answer, (str, bool)) else float(answer)
            pipe.send((answer, best, max(0, peak_memory()[0] - before), 0 if connection else reading))
        except Exception as error:  # whatever an engine throws is its answer
            pipe.send(f"{type(error).__name__}: {error}".splitlines()[0][:150])


def same(case, one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=case.tolerance, abs_tol=1e-9)
    return one == other


def seconds(value):
    return f"{value[1]:.4f}" if isinstance(value, tuple) else value if value and value.startswith("> ") else "failed" if value else "-"


def growth(now, before):
    if not isinstance(now, tuple) or not isinstance(before, tuple):
        return "-"
    return f"{math.log(now[1] / before[1], 4):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extension", default=EXTENSION)
    parser.add_argument("--quick", action="store_true", help="a few cases, up to 4,096 vertices")
    parser.add_argument("--least", type=int, default=1024, help="vertices or parts at least")
    parser.add_argument("--most", type=int, default=1_048_576, help="vertices or parts at most")
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--only", default="", help="cases whose name this matches")
    parser.add_argument("--json", help="file for what was measured")
    arguments = parser.parse_args()
    engines = [Engine(name, serve, str(arguments.extension)) for name in (OURS, GEOS)]
    print("| case | n | vibespatial, s | growth | MiB | GEOS, s | growth | MiB | ratio | reads, s | ratio |")
    print("|---" * 11 + "|", flush=True)
    measured, notes, odd = [], [], False
    for case in cases():
        if not re.search(arguments.only, case.name) or (arguments.quick and not case.quick):
            continue
        before, n = {}, arguments.least
        while n <= min(case.most, 4096 if arguments.quick else arguments.most):
            found = {}
            for engine in engines:
                if n > arguments.least and not isinstance(before.get(engine.name), tuple):
                    continue
                found[engine.name] = engine.ask((case.name, n), arguments.timeout)
            ours, geos = found.get(OURS), found.get(GEOS)
            ratio = with_reading = ""
            if isinstance(ours, tuple) and isinstance(geos, tuple):
                ratio = f"{ours[1] / geos[1]:.2f}" + (" !" if ours[1] > BAR * geos[1] and ours[1] > 0.001 else "")
                with_reading = f"{ours[1] / (geos[1] + geos[3]):.2f}"
                if not same(case, ours[0], geos[0]):
                    notes.append(f"{case.name}, {n}: {ours[0]} and {geos[0]}")
                    odd = True
            notes += [f"{case.name}, {n}: {name} {value}" for name, value in found.items() if isinstance(value, str) and not value.startswith("> ")]
            mib = lambda value: f"{value[2]}" if isinstance(value, tuple) else "-"
            print(f"| {case.name} | {short(n) if n % 1000 == 0 else f'{n:,}'} | {seconds(ours)} | {growth(ours, before.get(OURS))} | {mib(ours)} | {seconds(geos)} | "
                  f"{growth(geos, before.get(GEOS))} | {mib(geos)} | {ratio} | {f'{geos[3]:.4f}' if isinstance(geos, tuple) else '-'} | {with_reading} |",
                  flush=True)
            measured.append({"case": case.name, "n": n, **found})
            if not any(isinstance(value, tuple) for value in found.values()):
                break
            before, n = found, n * 4
    for engine in engines:
        engine.stop()
    print("\n" + "\n".join(notes))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(measured, indent=1) + "\n")
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
