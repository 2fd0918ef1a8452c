#!/usr/bin/env python3
"""Runs the test suites of a build and ends with one line that sums them up.

usage: run_tests.py BUILD_FOLDER [unit] [sql] [python] [-- PYTEST_ARGUMENT...]
"""
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def stream(command, **options):
    """Runs a command, shows what it prints as it prints it, and returns its exit status and output."""
    lines = []
    with subprocess.Popen([str(word) for word in command], cwd=ROOT, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def fetched(what):
    """The path of a pinned dependency; fetch.py says itself why there is none."""
    found = subprocess.run([sys.executable, ROOT / "scripts" / "fetch.py", what], stdout=subprocess.PIPE, text=True)
    if found.returncode:
        raise OSError(f"no {what}")
    return found.stdout.strip()


def unit(build, _):
    """Catch2: counts test cases."""
    status, output = stream([build / "test" / "vibespatial_unit"])
    passed = failed = 0
    if match := re.search(r"All tests passed \(\d+ assertions? in (\d+) test cases?\)", output):
        passed = int(match[1])
    elif match := re.search(r"^test cases:.*$", output, re.MULTILINE):
        counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", match[0])}
        passed, failed = counts.get("passed", 0), counts.get("failed", 0)
    return status, passed, failed, 0


def sql(build, _):
    """sqllogictests: counts files, once for each engine."""
    spatial = fetched("spatial")
    status, output = stream([build / "test" / "vibespatial_sqllogic", "--extension",
                             build / "vibespatial.duckdb_extension", "--spatial", spatial, "test/sql"])
    match = re.search(r"^sqllogic: (\d+) passed, (\d+) failed, (\d+) skipped$", output, re.MULTILINE)
    return (status, *map(int, match.groups())) if match else (status or 1, 0, 0, 0)


def python(build, arguments):
    """pytest, with the real DuckDB wheel and shell."""
    interpreter = fetched("python")
    report = build / "test" / "pytest.xml"
    report.unlink(missing_ok=True)
    environment = dict(os.environ, VIBESPATIAL_EXTENSION=str(build / "vibespatial.duckdb_extension"))
    status, _ = stream([interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                        f"--junitxml={report}", "test/python", *arguments], env=environment)
    if not report.exists():
        return status or 1, 0, 0, 0
    suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    tests, failures, errors, skipped = (int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped"))
    return status, tests - failures - errors - skipped, failures + errors, skipped


def main():
    words = sys.argv[1:]
    arguments = []
    if "--" in words:
        at = words.index("--")
        words, arguments = words[:at], words[at + 1:]
    suites = {"unit": unit, "sql": sql, "python": python}
    if not words or any(word not in suites for word in words[1:]):
        raise SystemExit(__doc__.strip())
    build = pathlib.Path(words[0]).resolve()
    passed = failed = skipped = 0
    for name in words[1:] or suites:
        print(f"-- {name}", flush=True)
        try:
            status, good, bad, left = suites[name](build, arguments)
        except OSError as error:
            print(error)
            status, good, bad, left = 1, 0, 0, 0
        if status and not bad:
            # It ended badly without naming a failed test: a crash, or a suite that could not start.
            print(f"{name}: ended with status {status}")
            bad = 1
        passed, failed, skipped = passed + good, failed + bad, skipped + left
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
