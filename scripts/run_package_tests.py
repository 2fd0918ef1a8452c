#!/usr/bin/env python3
"""Tests the wheel in fresh virtual environments, one with DuckDB alone and one with GeoPandas and Ray for each version of DuckDB that it supports.

usage: run_package_tests.py WHEEL [--duckdb VERSION]... [--junit FOLDER] [-- PYTEST_ARGUMENT...]

The environments are made without a network, from the wheels of deps.lock. The last line is 'package: N passed, N failed, N skipped'.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

import fetch

ROOT = pathlib.Path(__file__).resolve().parent.parent


def versions_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        found = {name.split("/")[2][1:] for name in archive.namelist() if name.endswith("/vibespatial.duckdb_extension")}
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def make(folder, files, resolve=()):
    """An environment with those files; `resolve` are files whose requirements must be met by them."""
    fetch.make_venv(folder)
    python = folder / "bin" / "python"
    if files:
        fetch.install(python, files)
    if resolve:
        # Without --no-deps: pip refuses a wheel whose requirements are not met
        fetch.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", *resolve])
    return python


def run(wheel, version, work, junit, arguments):
    """The counts of passed, failed and skipped tests with that version of DuckDB."""
    files = fetch.wheels("test", fetch.host_platform(), version)[1]()
    # Of what is in both, DuckDB among it, the tests have theirs
    names = {path.name.split("-")[0] for path in files}
    files += [path for path in fetch.wheels("ray", fetch.host_platform())[1]() if path.name.split("-")[0] not in names]
    # DuckDB's own extensions are of no use here, and large
    files = [path for path in files if not path.name.startswith("duckdb_extension")]
    duckdb = [path for path in files if path.name.startswith("duckdb-")]
    bare = make(work / f"bare-{version}", duckdb, [wheel])
    full = make(work / f"full-{version}", files, [wheel])
    report = junit / f"package-{version}.xml"
    report.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "VIBESPATIAL_GPU_FOLDER")}
    environment.update(VIBESPATIAL_WHEEL=str(wheel), VIBESPATIAL_BARE_PYTHON=str(bare), VIBESPATIAL_DUCKDB=version, MPLBACKEND="Agg",
                       PYTHONDONTWRITEBYTECODE="1")
    print(f"-- package, DuckDB {version}", flush=True)
    # Away from the checkout, so that nothing of it is found by accident
    status = subprocess.run([full, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", f"--rootdir={ROOT}",
                             str(ROOT / "test" / "package"), *arguments], cwd=work, env=environment).returncode
    if not report.exists():
        return 0, 1, 0
    suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    tests, failures, errors, skipped = (int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped"))
    failed = failures + errors
    return tests - failed - skipped, failed or int(status != 0), skipped


def main():
    words, arguments = sys.argv[1:], []
    if "--" in words:
        at = words.index("--")
        words, arguments = words[:at], words[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--duckdb", action="append", metavar="VERSION")
    parser.add_argument("--junit", type=lambda text: pathlib.Path(text).resolve())
    given = parser.parse_args(words)
    total = [0, 0, 0]
    work = pathlib.Path(tempfile.mkdtemp(prefix="vibespatial-package."))
    try:
        for version in given.duckdb or versions_of(given.wheel):
            counts = run(given.wheel, version, work, given.junit or work, arguments)
            total = [one + other for one, other in zip(total, counts)]
    except fetch.Failure as failure:
        fetch.say(str(failure))
        total[1] += 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("package: {} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
