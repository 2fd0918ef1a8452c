#!/usr/bin/env python3
"""How long a fresh process takes to its first result from the GPU; needs Python alone, the DuckDB shell and a device.

usage: cold_start.py --cli DUCKDB --extension FILE [--rounds 5] [--rows 2000000] [--threads] [--timeline FILE.csv] [--markdown FILE]

Every figure is the median of fresh processes. The query joins two tables of small boxes that lie in a database file, so it
scans, builds the index of one side (on the GPU) and probes it. Build sides are not kept on the device (vibe_cache is 0), so that the
third query does all that the first one does. "GPU in use": another process has called cuInit and stays. Kernels come from the release pack, from the disk cache, or
are compiled. "waited" is what the operator still had to wait for the device and its kernels when the scans were done; "index" is
what the tree took, copies included, and what it waited itself.
"""
import argparse
import csv
import io
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

QUERY = "SELECT count(*) FROM a JOIN b ON ST_Intersects(a.g, b.g)"


class Shell:
    def __init__(self, cli, extension, work):
        self.cli, self.extension, self.work = cli, extension, work

    def run(self, statements, cache, **environment):
        """One process: the seconds of each statement, the results of the last, and the seconds of the whole process."""
        script = ".mode json\n.timer on\n" + "".join(statement if statement[0] == "." else f"{statement};\n" for statement in statements)
        full = {**os.environ, "XDG_CACHE_HOME": str(cache), **{key: str(value) for key, value in environment.items()}}
        begin = time.time()
        done = subprocess.run([self.cli, "-unsigned", "-init", "/dev/null", "-batch", str(self.work / "boxes.duckdb"), "-readonly"],
                              input=script, capture_output=True, text=True, env=full, timeout=180)
        whole = time.time() - begin
        if done.returncode or "Error" in done.stderr:
            raise SystemExit(f"{done.stderr}\n{done.stdout}")
        times = [float(line.split("real")[1].split()[0]) for line in done.stdout.splitlines() if "Run Time" in line]
        text = [line for line in done.stdout.splitlines() if "Run Time" not in line]
        chunks, depth = [], ""
        for line in text:
            depth += line
            if line.endswith("]"):
                chunks.append(json.loads(depth))
                depth = ""
        return times, chunks, whole, begin


def hold_device():
    """Another process that uses the GPU."""
    call = "import ctypes, time; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0; print('up', flush=True); time.sleep(600)"
    process = subprocess.Popen(["python3", "-c", call], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def median(values):
    return statistics.median(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cli", required=True)
    parser.add_argument("--extension", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--threads", action="store_true", help="all specs by threads of one process, too, for comparison")
    parser.add_argument("--timeline")
    parser.add_argument("--markdown")
    arguments = parser.parse_args()
    lines = []

    def say(text):
        print(text, flush=True)
        lines.append(text)

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        load = f"LOAD '{pathlib.Path(arguments.extension).resolve()}'"
        boxes = ("SELECT ST_MakeEnvelope(x, y, x + 0.01, y + 0.01) AS g FROM (SELECT (hash(i + {0}) % 3600000) / 1e4 - 180 AS x, "
                 "(hash(i + {0} + 7) % 1800000) / 1e4 - 90 AS y FROM range({1}) t(i))")
        subprocess.run([arguments.cli, "-unsigned", "-init", "/dev/null", str(work / "boxes.duckdb"), "-c", load,
                        "-c", "SET vibe_execution_mode = 'cpu'",
                        "-c", f"CREATE TABLE a AS {boxes.format(0, arguments.rows)}",
                        "-c", f"CREATE TABLE b AS {boxes.format(10**9, arguments.rows)}"], check=True, capture_output=True)
        shell = Shell(arguments.cli, arguments.extension, work)

        def loads(**environment):
            return median([shell.run([load], work / "load", **environment)[0][0] for _ in range(arguments.rounds)]) * 1e3

        say("| LOAD, fresh process | ms |")
        say("|---|---|")
        say(f"| nothing in the background (`VIBESPATIAL_PRECOMPILE=off`) | {loads(VIBESPATIAL_PRECOMPILE='off'):.1f} |")
        say(f"| device and kernels come up in the background | {loads():.1f} |")
        say("")

        # The disk cache that a process before this one left
        warm_cache = work / "warm"
        full = dict(VIBESPATIAL_EXECUTION_MODE="gpu")
        shell.run([load, "FROM vibe_ensure_warm(120)"], warm_cache, VIBESPATIAL_KERNEL_SOURCE="jit", VIBESPATIAL_PRECOMPILE="all")
        log = "SELECT operation, wait_ms, total_ms FROM vibe_dispatch_log() ORDER BY sequence"
        sources = {
            "release pack": (lambda: work / "empty", dict(VIBESPATIAL_KERNEL_SOURCE="pack")),
            "disk cache": (lambda: warm_cache, dict(VIBESPATIAL_KERNEL_SOURCE="auto")),
            "compiled, empty cache": (lambda: pathlib.Path(tempfile.mkdtemp(dir=work)), dict(VIBESPATIAL_KERNEL_SOURCE="jit")),
        }
        sources["release pack, mode auto"] = (lambda: work / "empty", dict(VIBESPATIAL_KERNEL_SOURCE="pack", VIBESPATIAL_EXECUTION_MODE="auto"))
        sources["(CPU engine)"] = (lambda: work / "empty", dict(VIBESPATIAL_EXECUTION_MODE="cpu"))
        in_use = "at once, GPU in use"
        keep_none = "SET vibe_cache = '0'"
        say("| kernels from | LOAD and query | first query, ms | third query, ms | first - third, ms | waited, ms | index, first / third, ms |")
        say("|---|---|---|---|---|---|---|")
        # Round by round, since the machine is not equally fast all the time
        rows = {(name, when): [] for name in sources for when in ("at once", in_use, "a second apart")
                if when != in_use or name in ("release pack", "disk cache")}
        for number in range(arguments.rounds):
            for (name, when), found in rows.items():
                if "compiled" in name and number >= 2:
                    continue
                cache, environment = sources[name]
                pause = [".shell sleep 1\n"] if when == "a second apart" else []
                other = hold_device() if when == in_use else None
                times, chunks, _, _ = shell.run([load, keep_none, *pause, QUERY, QUERY, QUERY, log], cache(), **{**full, **environment})
                if other:
                    other.kill()
                    other.wait()
                # The index and the pairs of each query, where it had a choice of engine
                events = chunks[-1] if chunks and "wait_ms" in (chunks[-1] or [{}])[0] else []
                indexes = [event["total_ms"] for event in events if event["operation"] == "box_index"] or [0]
                found.append((times[2] * 1e3, times[4] * 1e3, (times[2] - times[4]) * 1e3,
                              sum(event["wait_ms"] for event in events[:len(events) // 3]), indexes[0], indexes[-1]))
        for (name, when), found in rows.items():
            cells = [f"{median(column):.0f}" for column in zip(*found)]
            say(f"| {name} | {when} | " + " | ".join(cells[:4]) + f" | {cells[4]} / {cells[5]} |")
        del sources["(CPU engine)"], sources["release pack, mode auto"]
        say("")

        say("| all kernels, fresh process | ready after, ms (total wall of loading or compiling) |")
        say("|---|---|")
        status = "SELECT wall_ms, error FROM vibe_precompile_status() WHERE kind = 'total'"
        for name, (cache, environment) in sources.items():
            walls = []
            for _ in range(min(3, arguments.rounds)):
                _, chunks, _, _ = shell.run([load, "SELECT count(*) AS cold FROM vibe_ensure_warm(120)", status], cache(),
                                            VIBESPATIAL_PRECOMPILE="all", **environment)
                if chunks[-2][0]["cold"]:
                    raise SystemExit(f"{name}: {chunks[-1][0]['error']}")
                walls.append(chunks[-1][0]["wall_ms"])
            say(f"| {name} | {median(walls):.0f} |")
        if arguments.threads:
            compare_threads(arguments, shell, load, work, say)

        if arguments.timeline:
            steps = "SELECT lane, step, epoch_us(begin_time) AS b, epoch_us(end_time) AS e, bytes FROM vibe_timeline() ORDER BY b"
            _, chunks, _, began = shell.run([load, QUERY, steps], work / "empty", VIBESPATIAL_KERNEL_SOURCE="pack", **full)
            pathlib.Path(arguments.timeline).write_text(timeline(chunks[-1], began))
        if arguments.markdown:
            pathlib.Path(arguments.markdown).write_text("\n".join(lines) + "\n")
        shutil.rmtree(warm_cache, ignore_errors=True)


def compare_threads(arguments, shell, load, work, say):
    """All specs by the threads of one process."""
    helper = pathlib.Path(arguments.extension).resolve().parent / "vibespatial" / "vibespatial-compile"
    registry = "SELECT name FROM vibe_precompile_status() WHERE kind = 'spec'"
    _, chunks, _, _ = shell.run([load, registry], work / "empty", VIBESPATIAL_PRECOMPILE="off")
    specs = [row["name"] for row in chunks[-1]]
    threads = os.cpu_count()
    begin = time.time()
    subprocess.run(f"'{helper}' specs --capability 90 --threads {threads} {' '.join(specs)} 3>/dev/null >/dev/null 2>&1",
                   shell=True, check=True)
    say(f"| the {len(specs)} specs by {threads} threads of one process, for comparison | {(time.time() - begin) * 1e3:.0f} |")


def timeline(steps, began):
    """The steps as CSV, in milliseconds since the process was started; scripts/figures/timeline.py draws it."""
    origin = began * 1e6
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["lane", "step", "begin_ms", "end_ms", "bytes"])
    for step in steps:
        rows.writerow([step["lane"], step["step"], f'{(step["b"] - origin) / 1e3:.1f}', f'{(step["e"] - origin) / 1e3:.1f}', step["bytes"]])
    return text.getvalue()


if __name__ == "__main__":
    main()
