#!/usr/bin/env python3
"""Writes the lists of functions from the registration of the functions, which is the only list that is kept by hand.

usage: functions.py EXTENSION [--check | --release VERSION]

EXTENSION          the built vibespatial.duckdb_extension, for the first version of scripts/duckdb.versions
--check            write nothing; fail where a file is not what would be written, or where a released function is gone
--release VERSION  write the list of released functions, too: part of making a release

The extension is loaded and asked through duckdb_functions(), so that a new function needs no entry here. Written are the page
of functions (PAGE) and the table in README.md between the lines TABLE_BEGIN and TABLE_END.
"""
import argparse
import pathlib
import re
import sys

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "functions.md"
README = ROOT / "README.md"
RELEASED = ROOT / "test" / "released_functions.txt"
SQL_TESTS = ROOT / "test" / "sql"

TABLE_BEGIN = "<!-- functions: written by make functions -->"
TABLE_END = "<!-- /functions -->"

HEADER = """# Functions

Every `ST_X` exists also as `vibe_x` (`ST_MakeEnvelope`: `vibe_makeenvelope`). Beside DuckDB's `spatial` extension the `ST_`
names it has are its own, whichever was loaded first; the `vibe_` names are always these.

NULL in any argument gives NULL; aggregates leave NULL out. EMPTY is not NULL. A result has the coordinate reference system of its arguments;
arguments in different ones are refused.

This page is generated: `make functions` writes it from the registered functions.
"""

RELEASED_HEADER = """\
# The functions of release {version}, with the types of their arguments and results: `make functions ARGS="--release VERSION"`.
# A test fails where one is no longer registered. To remove or change one, put a minus and the reason on its line:
#   - ST_Name(GEOMETRY) -> DOUBLE: replaced by ST_Other
"""

# Title of each category, in the order of the page. A category that is not here is an error.
CATEGORIES = {
    "predicate": "Predicates",
    "distance": "Distance",
    "measure": "Measures",
    "accessor": "Accessors",
    "validity": "Validity",
    "construction": "Constructors",
    "constructive": "Constructive",
    "overlay": "Overlay",
    "aggregate": "Aggregates",
    "conversion": "Conversion",
    "relation": "Tables: joins, neighbours, layers",
    "arrow": "Files",
    "information": "About the extension",
    "diagnostic": "Diagnostics",
}

QUERY = """
WITH entries AS (
    SELECT function_name, parameters, parameter_types, return_type, description, examples, categories, alias_of, function_type
    FROM duckdb_functions()),
named AS (SELECT function_name, alias_of FROM entries WHERE starts_with(function_name, 'vibe_'))
SELECT * FROM entries
WHERE function_name IN (SELECT function_name FROM named) OR function_name IN (SELECT alias_of FROM named)
    OR alias_of IN (SELECT alias_of FROM named)
ORDER BY lower(function_name), len(parameters), parameter_types
"""


def load(extension):
    """A connection with the extension"""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{pathlib.Path(extension).absolute()}'")
    return connection


def registered(connection):
    """name -> its overloads, as rows of duckdb_functions(): every name of ours, aliases and vibe_ names included"""
    names = [column[0] for column in connection.execute(QUERY).description]
    result = {}
    for row in connection.fetchall():
        row = dict(zip(names, row))
        result.setdefault(row["function_name"], []).append(row)
    return result


def primary(functions):
    """Those that are no second name of another"""
    return {name: rows for name, rows in functions.items() if not rows[0]["alias_of"]}


def positional(row):
    """How many arguments of a table function have no name. None of them is optional, so they are those of its example."""
    example = re.sub(r"'[^']*'", "''", row["examples"][0])
    (text,) = re.search(row["function_name"] + r"\(([^)]*)\)", example).groups()
    return sum(1 for argument in text.split(",") if argument and ":=" not in argument)


def arguments(row, write):
    """The arguments of an overload: write(name, type), then the named ones in the order of their names"""
    parameters = list(zip(row["parameters"], row["parameter_types"]))
    # The catalog has the named ones last, in no order
    count = positional(row) if row["categories"] in (["relation"], ["arrow"]) else len(parameters)
    named = sorted(f"{name} := {kind}" for name, kind in parameters[count:])
    return ", ".join([write(name, kind) for name, kind in parameters[:count]] + named)


def signature(row):
    """ST_Area(GEOMETRY) -> DOUBLE"""
    result = "TABLE" if row["function_type"] == "table" else row["return_type"]
    return f"{row['function_name']}({arguments(row, lambda name, kind: kind)}) -> {result}"


def section(name, overloads, aliases):
    """The entry of one function on the page"""
    lines = [f"### {name}", ""]
    for overload in overloads:
        parameters = arguments(overload, lambda parameter, kind: f"{parameter} {kind}")
        is_table = overload["function_type"] == "table"
        kind = "ENUM" if overload["return_type"] == "ANY" else overload["return_type"]
        lines.append(f"    FROM {name}({parameters})" if is_table else f"    {name}({parameters}) -> {kind}")
    lines += ["", overloads[0]["description"]]
    if aliases:
        lines[-1] += f" Also `{'`, `'.join(aliases)}`."
    lines += ["", "```sql"]
    lines += [f"SELECT {example}" for example in overloads[0]["examples"]]
    lines += ["```", ""]
    return lines


def by_category(functions):
    result = {category: [] for category in CATEGORIES}
    for name, rows in primary(functions).items():
        result[rows[0]["categories"][0]].append(name)
    return result


def page(functions):
    """The text of PAGE"""
    aliases = {}
    for name, rows in functions.items():
        if rows[0]["alias_of"] and name.startswith("ST_"):
            aliases.setdefault(rows[0]["alias_of"], []).append(name)
    lines = HEADER.split("\n")
    names = by_category(functions)
    for category, title in CATEGORIES.items():
        links = " ".join(f"[{name}](#{name.lower()})" for name in names[category])
        lines += [f"{title}: {links}", ""] if links else []
    for category, title in CATEGORIES.items():
        if names[category]:
            lines += [f"## {title}", ""]
        for name in names[category]:
            lines += section(name, functions[name], aliases.get(name, []))
    return "\n".join(lines).rstrip() + "\n"


def readme(functions):
    """README.md with its table: what users know by name, so no diagnostics and no helpers of the rewrites"""
    lines = ["| area | functions |", "|---|---|"]
    for category, names in by_category(functions).items():
        shown = [name for name in names if name.startswith("ST_") or category in ("relation", "arrow")]
        if shown:
            lines.append(f"| {CATEGORIES[category].lower()} | `{'` `'.join(shown)}` |")
    text = README.read_text()
    if text.count(TABLE_BEGIN) != 1 or text.count(TABLE_END) != 1:
        sys.exit(f"{README.name} needs the lines {TABLE_BEGIN} and {TABLE_END} around its table of functions")
    before, rest = text.split(TABLE_BEGIN)
    after = rest.split(TABLE_END)[1]
    return before + "\n".join([TABLE_BEGIN, *lines, TABLE_END]) + after


def released():
    """The signatures of the last release, and those of them that are gone on purpose"""
    kept, removed = set(), set()
    for line in RELEASED.read_text().splitlines():
        if line.startswith("- "):
            line, _, reason = line[2:].partition(": ")
            if not reason:
                sys.exit(f"{RELEASED.name}: {line} is removed without a reason")
            removed.add(line)
        elif not line.startswith("#"):
            kept.add(line)
    return kept, removed


def release(functions, version):
    """The text of RELEASED: ST_ names, and vibe_ names that have no other"""
    rows = [row for name, rows in functions.items() for row in rows if name.startswith("ST_") or not row["alias_of"]]
    return RELEASED_HEADER.format(version=version) + "\n".join(sorted(map(signature, rows))) + "\n"


def lost(functions):
    """What is wrong with the functions of the last release: gone unnoticed, or there although marked as removed"""
    now = {signature(row) for rows in functions.values() for row in rows}
    kept, removed = released()
    return ([f"{name} is no longer registered: mark its line in {RELEASED.name} if that is meant" for name in sorted(kept - now)]
            + [f"{name} is marked as removed in {RELEASED.name}, but registered" for name in sorted(removed & now)])


def without_test(functions):
    """The functions that have no SQL test of their own: a file of that name, or one that lists them as `# functions: A B`"""
    tested = set()
    for path in SQL_TESTS.rglob("*.test"):
        tested.add(path.stem)
        for line in re.findall(r"^# functions: (.*)$", path.read_text(), re.M):
            tested.update(line.lower().split())
    return [name for name in primary(functions)
            if not {name.lower(), re.sub("^(st|vibe)_", "", name.lower())} & tested]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("extension")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--check", action="store_true")
    modes.add_argument("--release", metavar="VERSION")
    arguments = parser.parse_args()

    with load(arguments.extension) as connection:
        functions = registered(connection)
    texts = {PAGE: page(functions), README: readme(functions)}
    if arguments.release:
        texts[RELEASED] = release(functions, arguments.release)
    if not arguments.check:
        for path, text in texts.items():
            path.write_text(text)
        return
    problems = [f"{path.relative_to(ROOT)} is not current: run make functions" for path, text in texts.items()
                if not path.exists() or path.read_text() != text]
    problems += lost(functions)
    problems += [f"{name} has no SQL test of its own" for name in without_test(functions)]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
