#!/usr/bin/env python3
"""Checks that no source is too long to read and no folder holds too many of them.

usage: check_sizes.py

The limits are a guide: what has a reason to be larger is in EXCEPTIONS, with that reason. Tests are free, since a list of cases
may be long. A header and the source of the same name count as one.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ["src", "kernels", "python"]
SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".cu", ".py"}
MOST_LINES = 700
MOST_SOURCES = 20

EXCEPTIONS = {
    "kernels": "a source is a unit, and a query compiles and loads the units that it needs: fewer would have it wait for more",
    "kernels/include/vibe": "one core: its headers include each other, and a unit is compiled from all of them",
    "kernels/include/vibe/relate.h": "one algorithm, compiled by the host compiler and by NVRTC as it stands",
    "src/duckdb/support/compat.hpp": "the one place for what differs between the versions of DuckDB",
}


def oversized():
    """path -> what is too much about it"""
    result = {}
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    names = {}
    for path in files:
        names.setdefault(path.parent, set()).add(path.stem)
        lines = len(path.read_text().splitlines())
        if lines > MOST_LINES:
            result[path.relative_to(ROOT).as_posix()] = f"{lines} lines, the guide is {MOST_LINES}"
    for folder, stems in names.items():
        if len(stems) > MOST_SOURCES:
            result[folder.relative_to(ROOT).as_posix()] = f"{len(stems)} sources, the guide is {MOST_SOURCES}"
    return result, len(files)


def main():
    found, count = oversized()
    problems = [f"{path}: {text}" for path, text in found.items() if path not in EXCEPTIONS]
    problems += [f"{path}: within the guide or gone, remove it from EXCEPTIONS of scripts/check_sizes.py"
                 for path in EXCEPTIONS if path not in found]
    print("\n".join(problems) if problems else f"{count} files, {len(found)} larger than the guide for a reason")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
