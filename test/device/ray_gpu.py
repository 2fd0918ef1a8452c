#!/usr/bin/env python3
"""Joins points and provinces over a Ray cluster on this machine, with tasks that share its GPU and without, and compares the rows with one process.

usage: ray_gpu.py [--points 20000000] [--workers 4] [--share 0.5] [--gpu-memory 8GB] [--repeat 3] [--expect gpu]

Python needs vibespatial, Ray, pyarrow and NumPy: 'bench_bundle.py --ray' packs them for a machine without a network. Prints the least wall time
of each way, and of its last run the plan and what each kind of task did on which engine. It ends with an error if rows differ, or if no join ran
on a GPU in a way that has asked for one (--expect any: where there is none).
"""
import argparse
import collections
import os
import pathlib
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE.parents[1] / "scripts", HERE.parents[1] / "python"):
    # The packages are there in the bundle; in a checkout, python holds sources alone
    if folder.name == "scripts" or (folder / "ray").is_dir():
        sys.path.insert(0, str(folder))

import ray_demo  # noqa: E402


def timed(work):
    begin = time.monotonic()
    return work(), time.monotonic() - begin


def tell(result):
    """What the tasks of each kind did: how many there were, on which GPUs, in how many processes, and the engines with their reasons."""
    kinds = collections.defaultdict(list)
    for report in result.reports:
        kinds[report.label.split()[0]].append(report)
    for kind, reports in kinds.items():
        busy, cpu = sum(report.seconds for report in reports), sum(report.cpu_seconds for report in reports)
        processes = len({report.process for report in reports})
        peak = max(report.peak_memory for report in reports)
        print(f"    {kind}: tasks {len(reports)}, processes {processes}, {busy:.2f} s in all, CPU {cpu:.2f} s, peak of a process {peak / 1e6:,.0f} MB")
        for device in sorted({report.device for report in reports if report.device}):
            print(f"      {device}")
        engines = collections.Counter()
        for report in reports:
            for (operation, engine, reason), times in report.engines.items():
                engines[operation, engine, reason] += times
        for (operation, engine, reason), times in sorted(engines.items()):
            print(f"      {operation} on {engine} ({times}){': ' * bool(reason)}{reason}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--gpu-memory", default="8GB")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--expect", choices=["gpu", "any"], default="gpu")
    given = parser.parse_args()
    os.environ.update({name: os.environ.get(name, value) for name, value in ray_demo.SETTINGS.items()})
    # Workers find what this process finds
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)

    # The GPU is for the workers
    os.environ["VIBESPATIAL_EXECUTION_MODE"] = "cpu"
    import vibespatial
    import vibespatial.ray

    folder = pathlib.Path(tempfile.mkdtemp(prefix="vibespatial-ray-gpu-"))
    points, provinces = folder / "points.parquet", vibespatial.example("provinces")
    con = vibespatial.connect()
    os.environ.pop("VIBESPATIAL_EXECUTION_MODE")
    wrong = []
    try:
        _, seconds = timed(lambda: ray_demo.make_points(con, points, given.points))
        print(f"{given.points:,} points around cities made in {seconds:.1f} s, {points.stat().st_size / 1e6:,.0f} MB of Parquet")
        query = f"SELECT r.name, count(*) FROM '{points}' l JOIN '{provinces}' r ON ST_Within(l.geom, r.geom) GROUP BY ALL"
        runs = [timed(lambda: sorted(con.execute(query).fetchall())) for _ in range(given.repeat)]
        expected = runs[0][0]
        (threads,) = con.execute("SELECT current_setting('threads')").fetchone()
        print(f"one process, {threads} threads, CPU: {min(seconds for _, seconds in runs):.2f} s, {len(expected)} provinces", flush=True)
        end, seconds = timed(lambda: ray_demo.cluster(given.workers, 4 * 2**30, gpus=1))
        print(f"Ray with {given.workers} CPUs and 1 GPU started in {seconds:.1f} s", flush=True)
        try:
            for share in (0, given.share):
                for way in ("right", "never"):
                    gpu = {"num_gpus": share, "gpu_memory": given.gpu_memory} if share else {}
                    keywords = {"select": ["r.name"], "aggregate": {"n": "count(*)"}, "memory": given.memory, "broadcast": way, **gpu}
                    times = []
                    for _ in range(given.repeat + 1):
                        plan, planning = timed(lambda: vibespatial.ray.plan("sjoin", points, provinces, "within", **keywords))
                        result, running = timed(plan.run)
                        times.append(planning + running)
                        if sorted(tuple(row.values()) for row in result.to_arrow().to_pylist()) != expected:
                            wrong.append(f"the rows of num_gpus={share:g}, broadcast={way!r} are not those of one process")
                    print(f"\nnum_gpus={share:g}, broadcast={way!r}: first run {times[0]:.2f} s, then at least {min(times[1:]):.2f} s; "
                          f"{'NOT ' * bool(wrong)}the rows of one process")
                    print(plan)
                    tell(result)
                    on_gpu = any(engine == "gpu" for task, _, engine, _, _ in result.log() if task.startswith("join"))
                    if given.expect == "gpu" and on_gpu != bool(share):
                        wrong.append(f"num_gpus={share:g}, broadcast={way!r}: {'a' if on_gpu else 'no'} join ran on the GPU")
        finally:
            end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n" + ("\n".join(wrong) or "all rows are those of one process"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
