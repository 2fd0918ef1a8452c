#!/usr/bin/env python3
"""Checks the direction of includes between the folders of src, and that no header includes itself through others.

usage: check_layers.py

LAYERS lists the folders from the bottom up: a file includes headers of its own folder and of folders above it in the list.
Prints every include that goes the other way, and ends with status 1 if there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"

LAYERS = [
    "geometry",
    # The engine: no DuckDB, no CUDA
    "engine/common",
    "engine/arrow",
    "engine/shape",
    "engine/input",
    "engine/index",
    "engine/measure",
    "engine/relate",
    "engine/gpu/interface",
    "engine/gpu/runtime",
    "engine/gpu/machine",
    "engine/device_arrays",
    "engine/dispatch",
    "engine/overlay",
    "engine/constructive",
    "engine/scalar",
    "engine/join",
    "engine/join/session",
    # Programs and libraries of their own
    "arrow_plugin",
    "gpu_plugin/compile",
    "gpu_plugin/device",
    "compile_helper",
    # DuckDB
    "duckdb/support",
    "duckdb/operators",
    "duckdb/pinned",
    "duckdb/expressions",
    "duckdb/overlay",
    "duckdb/functions",
    "duckdb/arrow",
    "duckdb/arrow_files",
    "duckdb/parquet",
    "duckdb/knn",
    "duckdb/spatial_join",
    "duckdb/spatial_join/physical",
    "duckdb/spatial_join/rewrites",
    "duckdb/knn/rewrites",
    "duckdb/scalar_batch",
    "duckdb/planning",
    "duckdb/tables",
    ".",
]
#: Link targets that know nothing of the others in the list
APART = [("arrow_plugin", "gpu_plugin"), ("arrow_plugin", "duckdb"), ("gpu_plugin", "duckdb"), ("compile_helper", "duckdb")]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def folder_of(path):
    return pathlib.PurePosixPath(path).parent.as_posix()


def read_includes():
    """The headers of src that each file of src includes"""
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".hpp", ".cpp", ".c"))
    return {path.relative_to(SOURCE).as_posix(): [name for name in INCLUDE.findall(path.read_text()) if (SOURCE / name).is_file()]
            for path in files}


def wrong_directions(includes):
    rank = {folder: number for number, folder in enumerate(LAYERS)}
    for path, names in includes.items():
        folder = folder_of(path)
        if folder not in rank:
            yield f"src/{path}: the folder {folder} is not in LAYERS of scripts/check_layers.py"
            continue
        for name in names:
            other = folder_of(name)
            if rank.get(other, len(LAYERS)) > rank[folder]:
                yield f"src/{path}: includes {name}, but {other} comes after {folder} in LAYERS of scripts/check_layers.py"
            for pair in APART:
                here = [side for side in pair if folder == side or folder.startswith(side + "/")]
                there = [side for side in pair if other == side or other.startswith(side + "/")]
                if here and there and here != there:
                    yield f"src/{path}: includes {name}, but {here[0]} and {there[0]} are linked into different programs"


def cycles(includes):
    done, path = set(), []

    def visit(name):
        if name in path:
            yield "headers include each other: " + " -> ".join(path[path.index(name):] + [name])
            return
        if name in done:
            return
        path.append(name)
        for other in includes.get(name, []):
            yield from visit(other)
        path.pop()
        done.add(name)

    for name in includes:
        yield from visit(name)


def main():
    includes = read_includes()
    problems = [*wrong_directions(includes), *cycles(includes)]
    print("\n".join(problems) if problems else f"{len(includes)} files, no include against the layers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
