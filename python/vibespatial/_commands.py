"""What ``python -m vibespatial`` does."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
import time
from typing import Any, Optional, Sequence

from ._version import __version__

_PACKAGES = {"geopandas": "geopandas", "pyarrow": "geopandas", "shapely": "geopandas"}


def _version(package: str) -> Optional[str]:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _rows(con: Any, query: str) -> list[dict[str, Any]]:
    cursor = con.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def collect() -> dict[str, Any]:
    """All that `info` says, as plain data; `problems` are what keeps the package from working, `hints` what more there could be."""
    problems: list[str] = []
    hints: list[str] = []
    result: dict[str, Any] = {
        "vibespatial": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "problems": problems,
        "hints": hints,
    }
    missing = [name for name, version in result["packages"].items() if version is None]
    if missing:
        hints.append(f"{', '.join(missing)} not installed, needed for GeoDataFrames: pip install 'vibespatial[geopandas]'")
    try:
        import duckdb
    except ImportError:
        problems.append("duckdb is not installed: pip install duckdb")
        return result
    from ._extension import UnsupportedDuckDB, connect, extension_path, supported_versions

    result["duckdb"] = duckdb.__version__
    result["supported duckdb"] = supported_versions()
    try:
        result["extension"] = str(extension_path())
        con = connect()
    except UnsupportedDuckDB as error:
        problems.append(str(error))
        return result
    except Exception as error:  # whatever keeps DuckDB from loading it is what the user has to see
        problems.append(f"the extension does not load: {error}")
        return result
    components = _rows(con, "FROM vibe_gpu_info()")
    result["gpu"] = components
    found = {row["component"]: row["found"] for row in components}
    if not found.get("plug-in"):
        hints.append("this wheel was built without the GPU plug-in; everything runs on the CPU")
    elif not found.get("device"):
        detail = next((row["detail"] for row in components if row["component"] == "device"), "")
        hints.append(f"no GPU: {detail}")
    # CUDA's compilers are only of use where there is a device
    if found.get("device") and not (found.get("libnvrtc") and found.get("libnvJitLink")):
        hints.append("libnvrtc or libnvJitLink of CUDA 13 is missing: pip install 'vibespatial[gpu]'")
    con.close()
    return result


def info(as_json: bool) -> int:
    """Versions, what DuckDB loads, the GPU, and what is missing and how to get it; 1 if the package cannot work as it is."""
    facts = collect()
    if as_json:
        print(json.dumps(facts, indent=2))
        return 1 if facts["problems"] else 0
    packages = ", ".join(f"{name} {version or 'missing'}" for name, version in facts["packages"].items())
    lines = [
        ("vibespatial", facts["vibespatial"]),
        ("Python", f"{facts['python']}, {facts['platform']}"),
        ("DuckDB", f"{facts.get('duckdb', 'missing')} (supported: {', '.join(facts.get('supported duckdb', [])) or 'none'})"),
        ("extension", facts.get("extension", "none")),
        ("packages", packages),
    ]
    for label, text in lines:
        print(f"{label:<12} {text}")
    if "gpu" in facts:
        print("GPU")
        for row in facts["gpu"]:
            if str(row["detail"]).startswith("not looked for"):
                continue  # without a plug-in that is all there is to say
            text = " ".join(str(row[key]) for key in ("version", "detail") if row[key])
            print(f"  {row['component']:<20} {'yes' if row['found'] else 'no ':<4} {text}".rstrip())
    for text in facts["hints"]:
        print(f"hint: {text}")
    for text in facts["problems"]:
        print(f"problem: {text}")
    if not facts["problems"]:
        device = next((row for row in facts.get("gpu", []) if row["component"] == "device"), None)
        print("ready: queries run on the CPU" + (" and the GPU" if device and device["found"] else ""))
    return 1 if facts["problems"] else 0


def warm(seconds: float) -> int:
    """Loads or compiles every kernel, so that the next process finds them in its disk cache; 1 if a kernel is still cold."""
    from ._extension import connect

    con = connect()
    device = _rows(con, "FROM vibe_gpu_info() WHERE component = 'device'")
    if not device or not device[0]["found"]:
        print(f"no GPU, so there is nothing to warm: {device[0]['detail'] if device else 'no plug-in'}")
        return 0
    begin = time.monotonic()
    con.execute("SET vibe_precompile = 'all'")
    cold = _rows(con, f"FROM vibe_ensure_warm({float(seconds)})")
    for row in _rows(con, "SELECT source, count(*) AS kernels FROM vibe_precompile_status() WHERE state = 'ready' AND kind <> 'total' GROUP BY source ORDER BY source"):
        print(f"{row['kernels']} kernels from {row['source']}")
    for row in cold:
        print(f"still cold: {row['name']}: {row['reason']}")
    print(f"{'warm' if not cold else f'{len(cold)} kernels are not warm'} after {time.monotonic() - begin:.1f} s")
    return 1 if cold else 0


_DEMO = """
SELECT city.name AS city, province.name AS province, province.country, city.population
FROM '{cities}' city
JOIN '{provinces}' province ON ST_Within(city.geom, province.geom)
ORDER BY city.population DESC
"""


def demo() -> int:
    """Finds the province that each city lies in, on data that the package brings."""
    from ._extension import connect
    from ._frames import example

    con = connect()
    query = _DEMO.format(cities=example("cities").replace("'", "''"), provinces=example("provinces").replace("'", "''")).strip()
    print(_DEMO.format(cities="cities.parquet", provinces="provinces.parquet").strip() + ";")
    begin = time.monotonic()
    rows = con.execute(query).fetchall()
    took = time.monotonic() - begin
    print(f"\n{len(rows)} cities of 100,000 people and more in {took * 1000:.0f} ms; the largest:")
    for city, province, country, population in rows[:8]:
        print(f"  {city:<16} {province:<24} {country:<16} {population:>12,}")
    plan = con.execute("EXPLAIN " + query).fetchall()[0][1]
    print("\nThe join in its plan:")
    lines = plan.splitlines()
    # DuckDB 2.0 writes the names of operators as words
    at = next((number for number, line in enumerate(lines) if "VIBE SPATIAL JOIN" in line.upper().replace("_", " ")), None)
    if at is None:
        print(plan)
        return 1
    end = next((number for number in range(at, len(lines)) if "└" in lines[number]), len(lines) - 1)
    for line in lines[max(at - 1, 0) : end + 1]:
        print(line)
    return 0


def timeline(output: str, sql: Optional[str], database: str, steps: Optional[str]) -> int:
    """Runs a query and draws what it spent its time on; or draws steps that were saved from vibe_timeline()."""
    from ._timeline import draw, read, write_timeline

    if steps:
        with open(output, "w", encoding="utf-8") as file:
            file.write(draw(read(steps), steps))
    else:
        import duckdb

        from ._extension import connect

        try:
            con = connect(database, read_only=database != ":memory:")
            con.execute(sql or sys.stdin.read()).fetchall()
            write_timeline(con, output)
        except duckdb.Error as error:
            raise RuntimeError(str(error)) from error
    print(output)
    return 0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m vibespatial", description="Spatial SQL for DuckDB.")
    parser.add_argument("--version", action="version", version=f"vibespatial {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("info", help="versions, the GPU, what is missing and how to get it")
    command.add_argument("--json", action="store_true", help="as JSON")
    command = commands.add_parser("warm", help="load or compile all kernels for the GPU")
    command.add_argument("--seconds", type=float, default=300, help="how long to wait at most (default: 300)")
    commands.add_parser("demo", help="a spatial join on data that the package brings")
    command = commands.add_parser("timeline", help="run a query and write a picture of what it spent its time on")
    command.add_argument("output", help="the SVG file to write")
    command.add_argument("--sql", help="the query; without one it is read from the standard input")
    command.add_argument("--database", default=":memory:", help="a database file, opened for reading (default: in memory)")
    command.add_argument("--steps", help="draw these steps instead: a CSV file with lane, step, begin_ms, end_ms and bytes")
    given = parser.parse_args(arguments)
    if given.command == "info":
        return info(given.json)
    try:
        if given.command == "timeline":
            return timeline(given.output, given.sql, given.database, given.steps)
        return warm(given.seconds) if given.command == "warm" else demo()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"vibespatial: {error}", file=sys.stderr)
        return 1
