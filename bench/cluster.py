#!/usr/bin/env python3
"""Joins over two Ray workers of one thread beside one process of two threads, and a simulation of partitions for 10, 100 and 1,000 workers.

usage: cluster.py [--points N] [--repeat N] [--budget 1500MB] [--only measure|simulate]

Run it with 'make bench-ray', which lays out the package. Points lie around cities, more where more people live; they are joined with the
provinces that the package brings, or with those of --provinces.
"""
import argparse
import heapq
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))


def best(work, repeat):
    """The least and the median of the times that the work takes, and what it returned last."""
    times, value = [], None
    for _ in range(repeat):
        begin = time.monotonic()
        value = work()
        times.append(time.monotonic() - begin)
    return min(times), statistics.median(times), value


def measure(points, repeat, budget, provinces):
    import ray_demo
    import vibespatial
    import vibespatial.ray

    folder = pathlib.Path(tempfile.mkdtemp(prefix="vibespatial-bench-"))
    provinces = provinces or vibespatial.example("provinces")
    con = vibespatial.connect(threads=2)
    path = folder / "points.parquet"
    right = f"'{provinces}'"
    kinds = dict(con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {right})").fetchall())
    # WKB in a BLOB has no CRS, and geometries with and without one cannot be joined
    plain = kinds["geom"] == "BLOB"
    ray_demo.make_points(con, path, points, crs=None if plain else "OGC:CRS84")
    geometry = "ST_GeomFromWKB(r.geom)" if plain else "r.geom"
    query = f"SELECT r.name, count(*) FROM '{path}' l JOIN {right} r ON ST_Within(l.geom, {geometry}) GROUP BY ALL"
    print(f"{points:,} points x {con.execute(f'SELECT count(*) FROM {right}').fetchall()[0][0]:,} provinces, count of points in each; {repeat} runs: least (median) seconds")
    least, middle, expected = best(lambda: con.execute(query).fetchall(), repeat)
    print(f"  one process, two threads      {least:8.2f} ({middle:.2f})")
    con.close()
    whole = least
    end = ray_demo.cluster(store=2 * 2**30)
    try:
        for title, options in (("two workers, broadcast", {"broadcast": "right"}), ("two workers, 6 partitions", {"broadcast": "never", "partitions": 6})):
            def work(options=options):
                return vibespatial.ray.sjoin(path, provinces, "within", select=["r.name"], aggregate={"n": "count(*)"}, memory=budget, **options)

            work()  # workers that have not run yet have to be started and to load the extension
            least, middle, result = best(work, repeat)
            rows = {row["name"]: row["n"] for row in result.to_arrow().to_pylist()}
            assert rows == dict(expected), "the rows are not those of one process"
            peak = max(report.peak_memory for report in result.reports)
            moved = sum(report.facts.get("bytes", 0) for report in result.reports)
            print(f"  {title:<29} {least:8.2f} ({middle:.2f}), {least / whole:.2f} of one process; peak of a worker {peak / 1e6:,.0f} MB, moved {moved / 1e6:,.0f} MB")
            stages = {}
            for report in result.reports:
                stage = report.label.split()[0]
                seconds, tasks = stages.get(stage, (0.0, 0))
                stages[stage] = (seconds + report.seconds, tasks + 1)
            print("    " + "; ".join(f"{stage}: {tasks} tasks, {seconds:.2f} s" for stage, (seconds, tasks) in stages.items()))
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
    parser.add_argument("--only", choices=["measure", "simulate"])
    parser.add_argument("--total", type=int, default=1_000_000_000, help="points of the simulation")
    parser.add_argument("--cells", type=int, default=4096, help="cells of a side of its square")
    parser.add_argument("--row", type=float, default=1e-6, help="seconds that a row takes in a join task")
    parser.add_argument("--task", type=float, default=0.1, help="seconds that a task takes without rows")
    given = parser.parse_args()
    if given.only != "simulate":
        measure(given.points, given.repeat, given.budget, given.provinces)
    if given.only != "measure":
        simulate(given.total, given.cells, given.row, given.task, [10, 100, 1000])
    return 0


if __name__ == "__main__":
    sys.exit(main())
