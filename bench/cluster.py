#!/usr/bin/env python3
"""Joins over two Ray workers of one thread beside one process of two threads, and a simulation of partitions for 10, 100 and 1,000 workers.

usage: cluster.py [--points N] [--spatialbench FOLDER] [--repeat N] [--budget 1500MB] [--only measure|simulate]

Run it with 'make bench-ray', which lays out the package. Points lie around cities, more where more people live; they are joined with the
provinces that the package brings, or with those of --provinces. With --spatialbench it runs queries 10 and 11 of SpatialBench instead, on the
tables that 'make bench-spatialbench ARGS="--sf 10"' has left in build/spatialbench/sf10.
"""
import argparse
import decimal
import heapq
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))


# SpatialBench's queries 10 and 11, all groups of 10 without its order. Durations are numbers: intervals cannot be averaged in parts.
ZONE_STATISTICS = """SELECT z_zonekey, z_name AS pickup_zone, avg(epoch_us(t_dropofftime) - epoch_us(t_pickuptime)) AS avg_duration,
        avg(t_distance) AS avg_distance, count(t_tripkey) AS num_trips
    FROM zone LEFT JOIN trip ON ST_Within(ST_GeomFromWKB(t_pickuploc), ST_GeomFromWKB(z_boundary)) GROUP BY z_zonekey, z_name"""
BETWEEN_ZONES = """SELECT count(*) AS n FROM trip JOIN zone a ON ST_Within(ST_GeomFromWKB(t_pickuploc), ST_GeomFromWKB(a.z_boundary))
        JOIN zone b ON ST_Within(ST_GeomFromWKB(t_dropoffloc), ST_GeomFromWKB(b.z_boundary))
    WHERE a.z_zonekey <> b.z_zonekey"""


def cpu_seconds():
    """CPU time of this process and of all that it has started."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found[int(name)] = pathlib.Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
    ours = {os.getpid()}
    while more := {process for process, words in found.items() if int(words[1]) in ours} - ours:
        ours |= more
    return sum(int(found[process][11]) + int(found[process][12]) for process in ours) / os.sysconf("SC_CLK_TCK")


def table(result):
    return (getattr(result, "to_arrow_table", None) or result.fetch_arrow_table)()


def rows_of(found):
    """Rows in an order, with numbers of ten digits: an average of one process is rounded at every step."""
    return sorted(str([float(f"{float(value):.10g}") if isinstance(value, (int, float, decimal.Decimal)) else value for value in row.values()])
                  for row in found.to_pylist())


def compare(title, ways, repeat):
    """Runs one process and the ways over the cluster in turn, and prints the least times of each. The first way is one process."""
    print(title, flush=True)
    times, last = {name: [] for name, _ in ways}, {}
    for number in range(repeat + 1):
        for name, work in ways:
            cpu, begin = cpu_seconds(), time.monotonic()
            last[name] = work()
            # Workers that have not run yet have to be started and to load the extension
            times[name] += [(time.monotonic() - begin, cpu_seconds() - cpu)] if number else []
    whole = [min(column) for column in zip(*times[ways[0][0]])]
    expected = rows_of(last[ways[0][0]])
    for name, _ in ways:
        wall, cpu = (min(column) for column in zip(*times[name]))
        middle = statistics.median(one for one, _ in times[name])
        print(f"  {name:<26} {wall:8.2f} s ({middle:.2f}), CPU {cpu:.2f} s", end="")
        result = last[name]
        if name == ways[0][0]:
            print(flush=True)
            continue
        assert rows_of(result.to_arrow()) == expected, "the rows are not those of one process"
        peak = max(report.peak_memory for report in result.reports)
        moved = sum(report.facts.get("bytes", 0) for report in result.reports)
        print(f"; of one process: {wall / whole[0]:.2f}, CPU {cpu / whole[1]:.2f}; peak of a worker {peak / 1e6:,.0f} MB, moved {moved / 1e6:,.0f} MB")
        stages = {}
        for report in result.reports:
            tasks, seconds = stages.get(report.label.split()[0], (0, 0.0))
            stages[report.label.split()[0]] = (tasks + 1, seconds + report.cpu_seconds)
        print("    " + "; ".join(f"{stage}: {tasks} tasks, CPU {seconds:.2f} s" for stage, (tasks, seconds) in stages.items()), flush=True)


def measure(points, repeat, budget, provinces, spatialbench):
    import ray_demo
    import vibespatial
    import vibespatial.ray

    con = vibespatial.connect(threads=2)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vibespatial-bench-"))
    end = ray_demo.cluster(store=2 * 2**30)
    print(f"one process of two threads beside two workers of one thread and {budget}; {repeat} runs in turn: least (median) wall seconds")
    try:
        if spatialbench:
            trip, zone = spatialbench / "trip.parquet", spatialbench.parent / "zone_real.parquet"
            con.execute(f"CREATE VIEW trip AS FROM '{trip}'; CREATE VIEW zone AS FROM '{zone}'")
            count = con.execute("SELECT count(*) FROM trip").fetchall()[0][0]
            compare(f"SpatialBench Q10, {count:,} trips", [
                ("one process", lambda: table(con.execute(ZONE_STATISTICS))),
                ("two workers", lambda: vibespatial.ray.sjoin(
                    zone, trip, "contains", "left", ["l.z_zonekey", "l.z_name AS pickup_zone"],
                    {"avg_duration": "avg(epoch_us(r.t_dropofftime) - epoch_us(r.t_pickuptime))", "avg_distance": "avg(r.t_distance)",
                     "num_trips": "count(r.t_tripkey)"}, left_geometry="z_boundary", right_geometry="t_pickuploc", memory=budget)),
            ], repeat)
            compare(f"SpatialBench Q11, {count:,} trips", [
                ("one process", lambda: table(con.execute(BETWEEN_ZONES))),
                ("two workers", lambda: vibespatial.ray.sql(BETWEEN_ZONES, {"trip": trip, "zone": zone}, "trip", memory=budget,
                                                            combine="SELECT CAST(sum(n) AS BIGINT) AS n FROM parts")),
            ], repeat)
            return
        provinces = provinces or vibespatial.example("provinces")
        path = folder / "points.parquet"
        right = f"'{provinces}'"
        kinds = dict(con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {right})").fetchall())
        # WKB in a BLOB has no CRS, and geometries with and without one cannot be joined
        plain = kinds["geom"] == "BLOB"
        ray_demo.make_points(con, path, points, crs=None if plain else "OGC:CRS84")
        geometry = "ST_GeomFromWKB(r.geom)" if plain else "r.geom"
        query = f"SELECT r.name, count(*) AS n FROM '{path}' l JOIN {right} r ON ST_Within(l.geom, {geometry}) GROUP BY ALL"

        def join(**options):
            return vibespatial.ray.sjoin(path, provinces, "within", select=["r.name"], aggregate={"n": "count(*)"}, memory=budget, **options)

        compare(f"{points:,} points x {con.execute(f'SELECT count(*) FROM {right}').fetchall()[0][0]:,} provinces, count of points in each", [
            ("one process", lambda: table(con.execute(query))),
            ("two workers, broadcast", join),
            ("two workers, partitions", lambda: join(broadcast="never")),
        ], repeat)
    finally:
        end()
        shutil.rmtree(folder, ignore_errors=True)


def clustered(cells, total, seed):
    """Counts of points in cells of a square: half of them around 20,000 places whose sizes follow a power law, half spread over everything."""
    import numpy

    numbers = numpy.random.default_rng(seed)
    density = numpy.full((cells, cells), 0.5 * total / cells**2)
    sizes = 1 / numpy.arange(1, 20_001) ** 0.9
    sizes *= 0.5 * total / sizes.sum()
    places = numbers.random((20_000, 2)) * cells
    for size, (x, y), spread in zip(sizes, places, numbers.exponential(4, 20_000) + 1):
        # A place is a square of its own width
        x0, y0 = int(max(0, x - spread)), int(max(0, y - spread))
        x1, y1 = int(min(cells, x + spread + 1)), int(min(cells, y + spread + 1))
        density[y0:y1, x0:x1] += size / ((y1 - y0) * (x1 - x0))
    return numbers.poisson(density)


def simulate(total, cells, seconds_per_row, seconds_per_task, workers_list):
    import numpy
    from vibespatial.ray._splits import Sample, split

    counts = clustered(cells, total, 1)
    y, x = numpy.nonzero(counts)
    weights = counts[y, x]
    all_points = weights.sum()
    print(f"{all_points:,} points in {len(weights):,} cells, the fullest has {weights.max():,}")
    numbers = numpy.random.default_rng(2)
    # The points of a cell lie anywhere in it: a spot stands for 1,000 of them at most
    parts = -(-weights // 1000)
    spots = [numpy.repeat(axis, parts) + numbers.random(int(parts.sum())) for axis in (x, y)]
    shares = numpy.repeat(weights / parts, parts)
    boxes = numbers.random((200_000, 2)) * cells
    boxes = numpy.column_stack([boxes, boxes + numbers.exponential(3, (200_000, 2))])
    right = Sample(boxes, numpy.full(len(boxes), 30.0), numpy.ones(len(boxes)))
    for workers in workers_list:
        count = 3 * workers
        size = max(20_000, 64 * count)
        begin = time.monotonic()
        chosen = numbers.choice(len(weights), size, p=weights / all_points)
        inside = numbers.random((size, 2))
        points = numpy.column_stack([x[chosen], y[chosen]]) + inside
        left = Sample(numpy.column_stack([points, points]), numpy.ones(size), numpy.full(size, all_points / size))
        some = numbers.choice(len(boxes), min(size, len(boxes)), replace=False)
        splits = split(left, right.take(some), count)
        planning = time.monotonic() - begin
        homes = splits.home(spots[0], spots[1])
        rows = numpy.bincount(homes, weights=shares, minlength=len(splits))
        copies = sum(len(one) for one in splits.cut(boxes)) / len(boxes)
        # Those with the most estimated work first, each to the worker that is free first
        free = [0.0] * workers
        for one in rows[numpy.argsort([-leaf.work for leaf in splits.leaves], kind="stable")]:
            heapq.heappush(free, heapq.heappop(free) + one * seconds_per_row + seconds_per_task)
        ideal = all_points * seconds_per_row / workers
        print(f"  {workers:>5} workers, {len(splits):>5} partitions: largest {rows.max() / rows.mean():.2f} of the mean, a polygon in {copies:.3f} partitions, "
              f"join {max(free):,.1f} s for an ideal of {ideal:,.1f} s ({max(free) / ideal:.2f}), splits placed in {planning:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--budget", default="1500MB")
    parser.add_argument("--provinces", help="a Parquet file with the columns name and geom")
    parser.add_argument("--spatialbench", type=pathlib.Path, metavar="FOLDER", help="the tables of one scale; the zones are beside the folder")
    parser.add_argument("--only", choices=["measure", "simulate"])
    parser.add_argument("--total", type=int, default=1_000_000_000, help="points of the simulation")
    parser.add_argument("--cells", type=int, default=4096, help="cells of a side of its square")
    parser.add_argument("--row", type=float, default=1e-6, help="seconds that a row takes in a join task")
    parser.add_argument("--task", type=float, default=0.1, help="seconds that a task takes without rows")
    given = parser.parse_args()
    if given.only != "simulate":
        measure(given.points, given.repeat, given.budget, given.provinces, given.spatialbench)
    if given.only != "measure":
        simulate(given.total, given.cells, given.row, given.task, [10, 100, 1000])
    return 0


if __name__ == "__main__":
    sys.exit(main())
