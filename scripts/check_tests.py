#!/usr/bin/env python3
"""Checks that every source has its test.

usage: check_tests.py

A source outside src/duckdb has one where
  - test/unit/<room>/<name>.cpp is there for src/.../<room>/<name>.cpp, or
  - a unit test includes its header, or
  - it is a part of a source of the same folder that has one: that source includes its header, or it implements that header, or
  - TESTED_BY names the tests of the file or of its folder, with the reason why it has none of its own.
A source of src/duckdb that registers functions has one where a SQL or Python test calls each of them; the others are part of an
operator or of the shared support, and TESTED_BY names the tests of their folder. A kernel has one where a unit test includes it.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"

# A file or a folder below src: (its tests, why it has none of its own)
TESTED_BY = {
    "arrow_plugin": (["test/unit/arrow/arrow_files.cpp", "test/python/test_arrow_files.py"], "reached through its interface, as a program is"),
    "compile_helper": (["test/python/test_precompiler.py"], "a program: run as one"),
    "engine/arrow/arrow_runtime.cpp": (["test/python/test_arrow_files.py"], "opens a library: needs a process of its own"),
    "engine/common/uninitialized.cpp": (["test/unit/geometry/geometry_batch.cpp"], "an allocator: used by everything"),
    "engine/gpu/machine": (["test/python/test_gpu_chains.py", "test/unit/gpu/overlay_machine.cpp", "test/unit/gpu/device_join.cpp"],
                           "chains of kernels: the tests of the device run them on the host, too"),
    "engine/index/cell_grid.cpp": (["test/unit/index/cell_index.cpp"], "a part of the cell index"),
    "engine/index/cell_index_builder.cpp": (["test/unit/index/cell_index.cpp"], "a part of the cell index"),
    "engine/input/condition.cpp": (["test/unit/join/join.cpp"], "a part of a join's input"),
    "engine/shape/edge_set.cpp": (["test/unit/shape/shape.cpp", "test/unit/measure/distance.cpp"], "a view of a shape"),
    "gpu_plugin/compile": (["test/python/test_precompiler.py", "test/python/test_gpu_runtime.py"], "compiles in processes of its own"),
    "gpu_plugin/device": (["test/unit/gpu/device.cpp", "test/unit/gpu/device_join.cpp", "test/unit/gpu/device_overlay.cpp"],
                          "needs a GPU: tests with the tag [device]"),
    "duckdb/arrow": (["test/python/test_geoarrow.py"], "Arrow data comes from Python"),
    "duckdb/expressions": (["test/sql/rewrites", "test/sql/join/expressions.test", "test/python/test_rewrites.py"], "seen in plans"),
    "duckdb/knn": (["test/sql/tables/knn.test", "test/sql/join/neighbours.test", "test/sql/join/st_knn.test", "test/python/test_knn.py",
                    "test/python/test_knn_random.py"], "one operator"),
    "duckdb/operators": (["test/sql/join", "test/sql/tables/knn.test", "test/sql/gpu/dispatch.test"], "shared by the operators"),
    "duckdb/overlay/pinned_scan.cpp": (["test/python/test_pin_unions.py"], "one of two operators around an aggregate"),
    "duckdb/overlay/pinned_union.cpp": (["test/python/test_pin_unions.py"], "the other one"),
    "duckdb/parquet": (["test/sql/tables/read_geoparquet.test", "test/python/test_parquet.py"], "seen in scans"),
    "duckdb/pinned": (["test/sql/gpu/pin.test", "test/python/test_pin.py", "test/python/test_pin_rows.py"], "one operator, and what joins ask of it"),
    "duckdb/planning": (["test/sql/join", "test/sql/rewrites", "test/python/test_rewrites.py", "test/python/test_gpu_coverage.py"], "seen in plans"),
    "duckdb/scalar_batch": (["test/sql/gpu/rows.test", "test/sql/gpu/pairs.test", "test/python/test_gpu_scalar_batch.py"], "one operator"),
    "duckdb/spatial_join": (["test/sql/join", "test/python/test_join_random.py", "test/python/test_gpu_join.py"], "one operator"),
    "duckdb/support": (["test/python/test_settings.py", "test/python/test_crs.py", "test/python/test_functions_catalog.py",
                        "test/python/test_gpu_coverage.py"],
                       "used by every function"),
    "duckdb/tables/relation_argument.cpp": (["test/sql/tables"], "shared by the functions of relations"),
    "duckdb/tables/table_builder.cpp": (["test/python/test_functions_catalog.py"], "shared by the diagnostic tables"),
    "vibespatial_extension.cpp": (["test/python/test_packaging.py", "test/python/test_functions_catalog.py"], "the entry point"),
}

#: How a source names a function that it registers
REGISTERED = re.compile(r'"((?:ST|vibe)_[A-Za-z0-9_]+)"')


def texts(folder, *suffixes):
    return {path: path.read_text() for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes}


def included(unit_tests):
    """What the unit tests and their support include"""
    return {name for text in unit_tests.values() for name in re.findall(r'#include "([^"]+)"', text)}


def entry(name):
    """The entry of TESTED_BY for a file or one of the folders above it"""
    while name and name != ".":
        if name in TESTED_BY:
            return name
        name = pathlib.PurePosixPath(name).parent.as_posix()
    return None


def with_parts(headers):
    """Those headers, of sources with a test of their own, and those that they or their sources include from the same folder"""
    headers = set(headers)
    for path in SOURCE.rglob("*.cpp"):
        if (ROOT / "test" / "unit" / path.parent.name / path.name).exists():
            headers.add(path.with_suffix(".hpp").relative_to(SOURCE).as_posix())
    pending = list(headers)
    while pending:
        header = SOURCE / pending.pop()
        for path in (header, header.with_suffix(".cpp")):
            for name in re.findall(r'#include "([^"]+)"', path.read_text()) if path.is_file() else []:
                if (SOURCE / name).parent == header.parent and name not in headers:
                    headers.add(name)
                    pending.append(name)
    return headers


def missing(path, text, headers, calls):
    """What a source lacks to have a test of its own; None where it has one"""
    name = path.relative_to(SOURCE)
    if name.parts[0] != "duckdb":
        # Without a header of its own it implements the first that it includes
        first = re.search(r'#include "([^"]+)"', text)
        implemented = name.with_suffix(".hpp").as_posix()
        if not (SOURCE / implemented).exists() and first and (SOURCE / first[1]).parent == path.parent:
            implemented = first[1]
        if implemented in headers:
            return None
        return f"no test/unit/{path.parent.name}/{path.name}, and no unit test includes its header"
    functions = REGISTERED.findall(text)
    for function in functions:
        own = "vibe_" + re.sub("^(st|vibe)_", "", function.lower())
        if not re.search(rf"\b({function.lower()}|{own})\b", calls):
            return f"no SQL or Python test calls {function}"
    return None if functions else "registers no function, and TESTED_BY of scripts/check_tests.py does not name its tests"


def main():
    headers = with_parts(included(texts("test/unit", ".cpp", ".hpp")))
    calls = "\n".join([*texts("test/sql", ".test").values(), *texts("test/python", ".py").values()]).lower()
    problems, used, count = [], set(), 0
    for path, text in texts("src", ".cpp", ".c").items():
        count += 1
        if problem := missing(path, text, headers, calls):
            name = path.relative_to(SOURCE).as_posix()
            if found := entry(name):
                used.add(found)
            else:
                problems.append(f"src/{name}: {problem}")
    for path in sorted((ROOT / "kernels").glob("*.cu")):
        count += 1
        if f"kernels/{path.name}" not in headers:
            problems.append(f"kernels/{path.name}: no unit test includes it")
    for name, (tests, _) in TESTED_BY.items():
        problems += [f"{test} is not there: TESTED_BY of scripts/check_tests.py names it for {name}" for test in tests
                     if not (ROOT / test).exists()]
        if name not in used:
            problems.append(f"src/{name} is gone or has a test: remove it from TESTED_BY of scripts/check_tests.py")
    print("\n".join(problems) if problems else f"{count} sources have their tests")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
