#!/usr/bin/env python3
"""A join over a Ray cluster of two workers on this machine: prints the plan and the progress, compares the rows with one process, and ends the cluster.

usage: ray_demo.py PLATFORM BUILD_FOLDER [--program FILE] [ARGUMENT...]

The package is laid out in BUILD_FOLDER/ray-demo as a wheel would install it, and the program, by default this one, runs with the interpreter
that 'fetch.py ray-python' makes. ARGUMENTs go to it; of this one: --points N (default: 300000).
"""
import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

# Of Ray, which reads them when it is imported. It takes the address of a network card for 127.0.0.1, unless it is told that there is no cluster
# beyond this machine.
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def lay_out(platform, build):
    """The package with its extension: a copy of the sources, and links to what was built."""
    import wheel

    folder = build / "ray-demo"
    shutil.rmtree(folder, ignore_errors=True)
    for name, source in wheel.contents(build, platform).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, bytes):
            path.write_bytes(source)
        elif source.suffix == ".py":
            shutil.copyfile(source, path)
        else:
            path.symlink_to(source.resolve())
    return folder


def start(platform, build, program, arguments):
    sys.path.insert(0, str(ROOT / "scripts"))
    import fetch

    try:
        folder = lay_out(platform, build)
        python = fetch.environment("ray", fetch.host_platform())
    except fetch.Failure as failure:
        fetch.say(str(failure))
        return 1
    environment = {**os.environ, "PYTHONPATH": str(folder), **SETTINGS}
    command = [str(python), str(program), *arguments]
    if program == pathlib.Path(__file__).resolve():
        command.insert(2, "--run")
    os.execve(python, command, environment)


def cluster(workers=2, store=500 * 2**20, gpus=0):
    """Starts a cluster that only this machine can reach; returns what ends it."""
    import ray

    # Room for processes of both kinds of tasks, with a GPU and without: Ray ends those that wait if there are more than CPUs
    more = {"_system_config": {"num_workers_soft_limit": 2 * workers}} if gpus else {}
    folder = tempfile.mkdtemp(prefix="vibe-ray-", dir="/tmp")
    ray.init(num_cpus=workers, num_gpus=gpus, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=folder, log_to_driver=False, configure_logging=False,
             object_store_memory=store, **more)

    def end():
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)

    return end


def make_points(con, path, count, groups=100_000, crs="OGC:CRS84"):
    """Points around the cities of the example data, more where more people live, as GPS points are; in row groups."""
    import vibespatial

    point = "ST_Point(x + (u - 0.5) * 3, y + (v - 0.5) * 3)"
    if crs:
        point = f"ST_SetCRS({point}, '{crs}')"
    con.execute("SELECT setseed(0.25)")
    con.execute(f"""COPY (
        WITH city AS (SELECT ST_X(geom) AS x, ST_Y(geom) AS y, sum(population) OVER (ORDER BY population, name) AS until FROM '{vibespatial.example("cities")}'),
        drawn AS (SELECT i, random() * (SELECT max(until) FROM city) AS at, random() AS u, random() AS v FROM range({count}) t(i))
        SELECT i AS id, (i % 1000) / 7.0 AS amount, {point} AS geom
        FROM drawn ASOF JOIN city ON drawn.at <= city.until
    ) TO '{path}' (ROW_GROUP_SIZE {groups})""")


def run(points):
    import vibespatial
    import vibespatial.ray

    folder = pathlib.Path(tempfile.mkdtemp(prefix="vibespatial-demo-"))
    con = vibespatial.connect(threads=2)
    print(f"Making {points:,} points around the cities of the example data ...", flush=True)
    make_points(con, folder / "points.parquet", points)
    countries = vibespatial.example("countries")
    print("Starting a Ray cluster of two workers on 127.0.0.1 ...", flush=True)
    end = cluster()
    try:
        arguments = (folder / "points.parquet", countries, "within")
        keywords = {"select": ["r.name"], "aggregate": {"points": "count(*)", "amount": "sum(l.amount)"}, "memory": "1500MB"}
        for title, options in (("The countries fit, so they go to every node:", {}), ("As if they did not: partitions of both sides:", {"broadcast": "never", "partitions": 6})):
            print(f"\n{title}\n")
            plan = vibespatial.ray.plan("sjoin", *arguments, **keywords, **options, progress=lambda one: print(f"  {one}", flush=True))
            print(plan, "\n", flush=True)
            begin = time.monotonic()
            result = plan.run()
            seconds = time.monotonic() - begin
            rows = sorted(result.to_arrow().to_pylist(), key=lambda row: -row["points"])
            expected = dict(con.execute(f"""SELECT r.name, count(*) FROM '{arguments[0]}' l JOIN '{countries}' r ON ST_Within(l.geom, r.geom)
                                            GROUP BY ALL""").fetchall())
            same = {row["name"]: row["points"] for row in rows} == expected
            print(f"\n  {len(rows)} countries in {seconds:.1f} s; {'the same as' if same else 'NOT what'} one process finds. The first:")
            for row in rows[:3]:
                print(f"    {row['name']:<20} {row['points']:>9,} points, amount {row['amount']!r}")
            if not same:
                return 1
        return 0
    finally:
        end()
        shutil.rmtree(folder, ignore_errors=True)
        print("\nThe cluster has ended.")


def main():
    words = sys.argv[1:]
    if words[:1] == ["--run"]:
        parser = argparse.ArgumentParser()
        parser.add_argument("--points", type=int, default=300_000)
        return run(parser.parse_args(words[1:]).points)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platform")
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--program", type=lambda text: pathlib.Path(text).resolve(), default=pathlib.Path(__file__).resolve())
    given, arguments = parser.parse_known_args(words)
    return start(given.platform, given.build, given.program, arguments)


if __name__ == "__main__":
    sys.exit(main())
