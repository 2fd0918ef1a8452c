"""Mixed queries for a while, with cancels, small memory limits and calls of the system that fail: no wrong rows, no crash, no growth.

Answers are computed once without faults. A long-lived process then runs random statements, some of them cancelled or short of memory; beside
it short-lived processes run them with calls that fail (failing_calls.cpp), on the CPU and with the test engine of the GPU. Whatever gives
rows has to give those rows. The last line counts. 30 seconds by default; make soak MINUTES=30 takes longer.

On a machine with a GPU, VIBESPATIAL_SOAK_DEVICE names the folder of the plug-in: then it takes the place of the test engine, and the
long-lived process uses it, too.
"""
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import time

from test_gpu_runtime import fake  # noqa: F401
from test_system_failures import JOIN, PAIRS, TABLES, UNION, failing_calls, is_of_duckdb  # noqa: F401

SECONDS = float(os.environ.get("VIBESPATIAL_SOAK_MINUTES", "0.5")) * 60
SEED = int(os.environ.get("VIBESPATIAL_SEED", "1"))
# What may be left of a process that has run for a while: caches of the allocator
GROWTH_MB = 150
DEVICE = os.environ.get("VIBESPATIAL_SOAK_DEVICE")

STATEMENTS = [
    JOIN,
    PAIRS,
    UNION,
    "SELECT count(*), sum(hash(p.i))::VARCHAR FROM points p WHERE EXISTS (FROM boxes b WHERE b.i % 7 = 0 AND ST_Within(p.g, b.g))",
    "SELECT count(*), sum(hash(p.i))::VARCHAR FROM points p ANTI JOIN (FROM boxes WHERE i % 3 = 0) b ON ST_Intersects(p.g, b.g)",
    "SELECT count(*), count(b.i) FROM points p LEFT JOIN (FROM boxes WHERE i % 5 = 0) b ON ST_Intersects(p.g, b.g)",
    "SELECT count(*), sum(hash(a.i, b.i))::VARCHAR FROM boxes a JOIN boxes b ON ST_DWithin(a.g, b.g, 0.25) AND a.i < b.i",
    "SELECT sum(n)::BIGINT, max(n) FROM (SELECT b.i, count(*) AS n FROM points p JOIN boxes b ON ST_Contains(b.g, p.g) GROUP BY b.i)",
    "SELECT md5(string_agg(md5(ST_AsWKB(g)), '' ORDER BY k)) FROM (SELECT i % 40 AS k, ST_Union_Agg(g) AS g FROM boxes GROUP BY k)",
    "SELECT md5(string_agg(md5(ST_AsWKB(ST_Buffer(g, 0.3))), '' ORDER BY i)) FROM boxes WHERE i < 400",
    "SELECT count(*), sum(hash(left_row, right_row))::VARCHAR FROM vibe_knn('SELECT * FROM points WHERE i % 20 = 0', 'boxes', 3)",
    "SELECT ST_AsText(ST_Extent_Agg(g)), round(sum(ST_Area(g)), 6) FROM boxes",
]

# One process: reads a plan, a JSON line for each statement, and answers with a JSON line for each
WORKER = r"""
import ctypes, json, random, sys, threading, time
import duckdb
case = json.loads(sys.argv[1])
chance = random.Random(case["seed"])
calls = ctypes.CDLL(None) if case["faults"] else None
connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2", "temp_directory": case["folder"]})
connection.execute("SET enable_progress_bar = false")
for statement in case["setup"]:
    connection.execute(statement).fetchall()

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // (1 << 20)

def say(**what):
    print(json.dumps(what, default=str), flush=True)

say(ready=True)
durations = {}
end = time.monotonic() + case["seconds"]
number = 0
while time.monotonic() < end and number < case["most"]:
    which = number if case["in_order"] else chance.randrange(len(case["statements"]))
    number += 1
    trouble = chance.choice(case["troubles"])
    timer = None
    say(begin=which, trouble=trouble)
    if trouble == "cancel":
        timer = threading.Timer(chance.random() * durations.get(which, 0.3), connection.interrupt)
    elif trouble == "limit":
        try:
            connection.execute(f"SET memory_limit = '{chance.choice([4, 8, 12, 20])}MB'")
        except duckdb.OutOfMemoryException:
            # More is in use already
            pass
    elif trouble != "none":
        calls.failing_calls_arm(trouble.encode(), ctypes.c_long(int(10 ** (2.5 * chance.random()))), chance.randrange(2),
                                ctypes.c_size_t(chance.choice([512, 4096, 65536])), 0)
    start = time.monotonic()
    if timer:
        timer.start()
    try:
        answer, error = connection.execute(case["statements"][which]).fetchall(), None
        durations.setdefault(which, time.monotonic() - start)
    except (duckdb.Error, MemoryError, RuntimeError) as problem:
        answer, error = None, f"{type(problem).__name__}: {problem}"
    if calls:
        calls.failing_calls_disarm()
    if timer:
        timer.cancel()
        timer.join()
    if trouble == "limit":
        connection.execute("SET memory_limit = '4GB'")
    say(which=which, trouble=trouble, answer=answer, error=error, resident=resident())
"""


def worker(extension, folder, engine_folder, seconds, seed, preload=None, engine="cpu", troubles=("none",), most=10**9, in_order=False):
    """Runs the script; returns its lines, its exit status and what it said"""
    setup = [f"LOAD '{extension}'", *TABLES]
    if engine == "gpu":
        setup += ["SET vibe_gpu_min_rows = 0", f"SELECT count(*) >= 0 FROM vibe_ensure_warm({60 if DEVICE else 5})"]
    case = {"setup": setup, "statements": STATEMENTS, "seconds": seconds, "seed": seed, "folder": str(folder), "faults": preload is not None,
            "troubles": list(troubles), "most": most, "in_order": in_order}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VIBESPATIAL_") and name != "FAKE_GPU"}
    clean.update(VIBESPATIAL_GPU_FOLDER=str(engine_folder), HOME=str(folder))
    if DEVICE and "VIBESPATIAL_LIBRARY_PATH" in os.environ:
        clean["VIBESPATIAL_LIBRARY_PATH"] = os.environ["VIBESPATIAL_LIBRARY_PATH"]
    if preload:
        clean["LD_PRELOAD"] = str(preload)
    return subprocess.Popen([sys.executable, "-c", WORKER, json.dumps(case)], env=clean, text=True, errors="replace",
                            stdout=subprocess.PIPE, stderr=open(folder / f"stderr-{seed}", "w"))


def collect(process, folder, seed, limit):
    output = process.communicate(timeout=limit)[0]
    return [json.loads(line) for line in output.splitlines()], process.returncode, (folder / f"stderr-{seed}").read_text(errors="replace")


def is_expected(error, trouble):
    """An error of the trouble that was made, not a defect"""
    if "INTERNAL" in error or "FATAL" in error:
        return False
    if trouble == "cancel":
        return error.startswith("InterruptException")
    if trouble == "limit":
        return error.startswith("OutOfMemoryException")
    return trouble != "none"


def test_soak(extension, failing_calls, tmp_path, request):  # noqa: F811
    none = tmp_path / "none"
    plug_in = DEVICE or request.getfixturevalue("fake")
    first, status, errors = collect(worker(extension, tmp_path, none, 600, 0, most=len(STATEMENTS), in_order=True), tmp_path, 0, 600)
    assert status == 0, errors
    expected = {line["which"]: line["answer"] for line in first if "which" in line}
    assert len(expected) == len(STATEMENTS) and None not in expected.values(), first

    counts = dict.fromkeys(("queries", "right", "cancelled", "failed as expected", "wrong", "crashes", "ends of DuckDB's own"), 0)
    problems = []
    ends = collections.Counter()

    def judge(lines, status, errors, what):
        for line in lines:
            if "which" not in line:
                continue
            counts["queries"] += 1
            if line["error"] is None:
                right = line["answer"] == expected[line["which"]]
                counts["right" if right else "wrong"] += 1
                if not right:
                    problems.append((what, line))
            elif is_expected(line["error"], line["trouble"]):
                counts["cancelled" if line["trouble"] == "cancel" else "failed as expected"] += 1
            else:
                counts["wrong"] += 1
                problems.append((what, line))
        if status != 0:
            own = is_of_duckdb(errors)
            counts["ends of DuckDB's own" if own else "crashes"] += 1
            # What failed, and the libraries on the stack, innermost first
            libraries = list(dict.fromkeys(re.findall(r"([^/\s(]+)\([^)]*\)\[0x", errors)))
            ends[(lines[-1].get("trouble") if lines else None, status, " < ".join(libraries[:5]))] += 1
            if not own:
                problems.append((what, status, lines[-1:], errors[-3000:]))

    end = time.monotonic() + SECONDS
    steady = worker(extension, tmp_path, DEVICE or none, SECONDS, 1000 * SEED, engine="gpu" if DEVICE else "cpu",
                    troubles=("none", "none", "cancel", "cancel", "limit"))
    number = 1000 * SEED
    while time.monotonic() < end:
        number += 1
        engine = "gpu" if number % 2 else "cpu"
        # After a fault DuckDB's own state may be lost: a process of its own for some statements
        process = worker(extension, tmp_path, plug_in if engine == "gpu" else none, 60, number, failing_calls, engine,
                         ("none", "thread", "pages", "memory", "open", "write", "cancel"), most=12)
        judge(*collect(process, tmp_path, number, 300), f"{engine}, seed {number}")
    lines, status, errors = collect(steady, tmp_path, 1000 * SEED, 300)
    judge(lines, status, errors, "steady")
    resident = [line["resident"] for line in lines if "resident" in line]
    quarter = max(1, len(resident) // 4)
    before, after = statistics.median(resident[:quarter]), statistics.median(resident[-quarter:])
    print("soak:", ", ".join(f"{count} {name}" for name, count in counts.items()),
          f"- resident {before:.0f} MB in the first quarter, {after:.0f} MB in the last")
    for (trouble, status, libraries), count in ends.most_common():
        print(f"  {count} ended with {status} after {trouble}: {libraries}")
    for problem in problems[:20]:
        print(*problem, sep="\n    ")
    assert counts["wrong"] == 0 and counts["crashes"] == 0, "see above"
    assert counts["right"] > 0 and counts["queries"] > counts["right"]
    assert after <= before + GROWTH_MB
