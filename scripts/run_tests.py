#!/usr/bin/env python3
"""Runs the test suites of a build and ends with one line that sums them up.

usage: run_tests.py BUILD_FOLDER [--duckdb VERSION]... [check] [unit] [sql] [verify] [fuzz] [python] [package] [-- PYTEST_ARGUMENT...]

Checks, unit tests and fuzzers run once; the others run with each version of DuckDB, by default all of scripts/duckdb.versions.
Two suites run at a time, since most tests keep one core busy: JOBS=1 runs them one after the other. What a suite prints appears when
it has ended; until then it is in a file of BUILD_FOLDER/test/running.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import fetch

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Python tests that run with the first version alone. What they look at is the same with any other: no DuckDB takes part,
# or it only hands geometries to the engine and back, by ways that the other tests take with every version.
ONCE = [
    # no DuckDB
    "test_checks.py", "test_generators.py", "test_nvrtc.py", "test_orient2d.py", "test_precompiler.py", "test_relate_oracle.py",
    "test_wkb_fuzz.py",
    # what the engine answers, against oracles
    "test_buffer.py", "test_distance.py", "test_overlay_cases.py", "test_overlay_shapely.py", "test_relate_exact.py",
    "test_relate_shapely.py",
]

# What is checked of the sources themselves; needs no build
CHECKS = {
    "format": ["scripts/format.sh", "--check"],
    "layers": [sys.executable, "scripts/check_layers.py"],
    "tests": [sys.executable, "scripts/check_tests.py"],
    "sizes": [sys.executable, "scripts/check_sizes.py"],
    "links": [sys.executable, "scripts/check_links.py"],
    "clang-tidy": ["scripts/lint.sh", "--changed"],
}

SUITES = ["check", "unit", "fuzz", "sql", "verify", "python", "package"]

# Inputs for each target of the fuzzers, and where they start: a test, no search
FUZZ = ["--runs", "500", "--seed", "1"]


# Suites that run at a time
LANES = min(2, int(os.environ.get("JOBS") or os.cpu_count() or 1))

# Of a thread that runs a suite beside others: the file that it prints to
lane = threading.local()


def say(line):
    print(line, end="", flush=True, file=getattr(lane, "file", None))


def stream(command, **options):
    """Runs a command, shows what it prints, and returns its exit status and output."""
    lines = []
    with subprocess.Popen([str(word) for word in command], text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **{"cwd": ROOT, **options}) as process:
        for line in process.stdout:
            say(line)
            lines.append(line)
    return process.returncode, "".join(lines)


def check():
    """Counts checks; one that says it is skipped, for lack of a tool, counts as that."""
    status = passed = failed = skipped = 0
    for name, command in CHECKS.items():
        say(f"{name}:\n")
        ended, output = stream(command)
        status = status or ended
        if ended:
            failed += 1
        elif ": skipped, " in output:
            skipped += 1
        else:
            passed += 1
    return status, passed, failed, skipped


def unit(build):
    """Catch2: counts test cases, of the Arrow plug-in too where it was built."""
    status = passed = failed = 0
    for name in ("vibespatial_unit", "vibespatial_arrow_unit"):
        program = build / "test" / name
        if name != "vibespatial_unit" and not program.exists():
            continue
        ended, output = stream([program])
        status = status or ended
        if match := re.search(r"All tests passed \(\d+ assertions? in (\d+) test cases?\)", output):
            passed += int(match[1])
        elif match := re.search(r"^test cases:.*$", output, re.MULTILINE):
            counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", match[0])}
            passed, failed = passed + counts.get("passed", 0), failed + counts.get("failed", 0)
    return status, passed, failed, 0


def counted(suite, command, **options):
    """A command whose last line counts: SUITE: N passed, N failed, N skipped"""
    status, output = stream(command, **options)
    match = re.search(rf"^{suite}: (\d+) passed, (\d+) failed, (\d+) skipped$", output, re.MULTILINE)
    return (status, *map(int, match.groups())) if match else (status or 1, 0, 0, 0)


def sql(build, version, options=()):
    """sqllogictests: counts files, once for each engine. Those that want spatial are skipped where there is none."""
    folder = build / f"v{version}"
    command = [folder / "test" / "vibespatial_sqllogic", "--extension", folder / "vibespatial.duckdb_extension"]
    if fetch.is_locked("test", "duckdb-extension-spatial", version):
        command += ["--spatial", fetch.spatial(fetch.host_platform(), version)]
    environment = dict(os.environ)
    if (build / "vibespatial" / "libvibespatial_arrow.so").exists():
        environment["VIBESPATIAL_ARROW_LIBRARY"] = str(fetch.unpacked("arrow", fetch.host_platform()) / "pyarrow")
    return counted("sqllogic", [*command, *options, "test/sql"], env=environment)


def python(build, version, is_first, arguments):
    """pytest, with the real DuckDB of that version: its Python package, and its shell where there is one."""
    interpreter = fetch.environment("test", fetch.host_platform(), version)
    report = build / f"v{version}" / "test" / "pytest.xml"
    report.unlink(missing_ok=True)
    tests = ROOT / "test" / "python"
    left_out = [] if is_first else [f"--ignore={tests / name}" for name in ONCE]
    # A folder of its own: databases in memory spill into .tmp where they are started
    folder = build / f"v{version}" / "test" / "python"
    folder.mkdir(parents=True, exist_ok=True)
    status, _ = stream([interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", f"--junitxml={report}", tests,
                        *left_out, *arguments], cwd=folder, env=dict(os.environ, VIBESPATIAL_BUILD=str(build)))
    if status == 5 and arguments:
        # What was asked for by name is among the tests that run once, or with another version
        return 0, 0, 0, 0
    if not report.exists():
        return status or 1, 0, 0, 0
    suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    tests, failures, errors, skipped = (int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped"))
    return status, tests - failures - errors - skipped, failures + errors, skipped


def package(build, versions, arguments):
    """The wheel of this build, in fresh environments."""
    out = build / "test" / "dist"
    status, output = stream([sys.executable, "scripts/wheel.py", fetch.host_platform(), build, "--out", out, "--check"])
    if status:
        return status, 0, 0, 0
    (wheel,) = out.glob("*.whl")
    return counted("package", [sys.executable, "scripts/run_package_tests.py", wheel, *(word for version in versions for word in ("--duckdb", version)),
                               "--junit", out, *(["--", *arguments] if arguments else [])])


def parsed(words):
    """Build folder, versions, suites and what goes to pytest."""
    arguments = []
    if "--" in words:
        at = words.index("--")
        words, arguments = words[:at], words[at + 1:]
    versions = []
    while "--duckdb" in words[:-1]:
        at = words.index("--duckdb")
        versions.append(words[at + 1])
        words = words[:at] + words[at + 2:]
    known = list(fetch.duckdbs())
    if not words or any(word not in SUITES for word in words[1:]) or not set(versions) <= set(known):
        raise SystemExit(__doc__.strip())
    return pathlib.Path(words[0]).resolve(), versions or known, words[1:] or SUITES, arguments


def main():
    build, versions, suites, arguments = parsed(sys.argv[1:])
    runs = []
    if "check" in suites:
        runs.append(("check", check))
    if "unit" in suites:
        runs.append(("unit", lambda: unit(build)))
    if "fuzz" in suites:
        runs.append(("fuzz", lambda: counted("fuzz", [sys.executable, "scripts/fuzz.py", *FUZZ])))
    for version in versions:
        if "sql" in suites:
            runs.append((f"sql, DuckDB {version}", lambda version=version: sql(build, version)))
        if "verify" in suites:
            # DuckDB runs each query in several ways and compares the results: no engine of its own is needed for that
            runs.append((f"verify, DuckDB {version}", lambda version=version: sql(build, version, ["--verify", "--engine", "cpu"])))
        if "python" in suites:
            runs.append((f"python, DuckDB {version}",
                         lambda version=version: python(build, version, version == versions[0], arguments)))
    if "package" in suites:
        runs.append(("package", lambda: package(build, versions, arguments)))
    if LANES == 1 or len(runs) == 1:
        results = [attempt(name, run) for name, run in runs]
    else:
        # The longest first
        runs.sort(key=lambda named: not named[0].startswith("python"))
        with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
            results = list(lanes.map(lambda named: beside_others(build / "test" / "running", *named), runs))
    passed, failed, skipped = (sum(counts[i] for _, counts in results) for i in range(3))
    print("--", *(line for line, _ in results), f"{passed} passed, {failed} failed, {skipped} skipped", sep="\n")
    return 1 if failed else 0


def attempt(name, run):
    """Runs a suite: the line that sums it up, and its counts of passed, failed and skipped tests."""
    begin = time.monotonic()
    say(f"-- {name}\n")
    try:
        status, good, bad, left = run()
    except (OSError, fetch.Failure) as error:
        say(f"{error}\n")
        status, good, bad, left = 1, 0, 0, 0
    if status and not bad:
        # It ended badly without naming a failed test: a crash, or a suite that could not start.
        say(f"{name}: ended with status {status}\n")
        bad = 1
    return f"{name}: {good} passed, {bad} failed, {left} skipped ({time.monotonic() - begin:.0f} s)", (good, bad, left)


def beside_others(folder, name, run):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(', DuckDB', '').replace(' ', '-')}.log"
    try:
        with open(path, "w") as lane.file:
            result = attempt(name, run)
        print(path.read_text(), end="", flush=True)
        return result
    finally:
        lane.file = None
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
