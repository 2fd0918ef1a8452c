#!/usr/bin/env python3
"""Writes docs/functions.md from what the built extension says about its functions in duckdb_functions().

usage: functions_doc.py EXTENSION [--check]

EXTENSION   the built vibespatial.duckdb_extension
--check     write nothing; fail when docs/functions.md is not what would be written
"""
import argparse
import pathlib
import sys

import duckdb

TARGET = pathlib.Path(__file__).resolve().parents[1] / "docs" / "functions.md"

HEADER = """# Functions

Every `ST_X` exists also as `vibe_x` (`ST_MakeEnvelope`: `vibe_makeenvelope`). Beside DuckDB's `spatial` extension the `ST_`
names it has are its own, whichever was loaded first; the `vibe_` names are always these.

NULL in any argument gives NULL; aggregates leave NULL out. EMPTY is not NULL. A result has the coordinate reference system of its arguments;
arguments in different ones are refused.

This page is generated: `scripts/functions_doc.py build/release/v1.5.5/vibespatial.duckdb_extension`.
"""

# the order of the page; a category that is not here is an error
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
SELECT function_name, parameters, parameter_types, return_type, description, examples, categories, alias_of,
    function_type
FROM duckdb_functions()
WHERE starts_with(function_name, 'vibe_') OR function_name IN (
    SELECT alias_of FROM duckdb_functions() WHERE starts_with(function_name, 'vibe_'))
    OR alias_of IN (SELECT alias_of FROM duckdb_functions() WHERE starts_with(function_name, 'vibe_'))
ORDER BY lower(function_name), len(parameters), parameter_types
"""


def functions(connection):
    """name -> its overloads, as rows of duckdb_functions()"""
    names = [column[0] for column in connection.execute(QUERY).description]
    result = {}
    for row in connection.fetchall():
        row = dict(zip(names, row))
        result.setdefault(row["function_name"], []).append(row)
    return result


def section(name, overloads, aliases):
    """The entry of one function"""
    lines = [f"### {name}", ""]
    for overload in overloads:
        parameters = [f"{parameter} {kind}" for parameter, kind in zip(overload["parameters"], overload["parameter_types"])]
        if overload["categories"] in (["relation"], ["arrow"]):
            # after the relations and k come the named ones, in no order
            named = len(parameters) - {"vibe_knn": 3, "vibe_dissolve": 1, "vibe_read_arrow": 1, "vibe_read_geoparquet": 1}.get(name, 2)
            parameters = parameters[:-named] + sorted(text.replace(" ", " := ", 1) for text in parameters[-named:])
        parameters = ", ".join(parameters)
        kind = "ENUM" if overload["return_type"] == "ANY" else overload["return_type"]
        is_table = overload["function_type"] == "table"
        lines.append(f"    FROM {name}({parameters})" if is_table else f"    {name}({parameters}) -> {kind}")
    lines += ["", overloads[0]["description"]]
    if aliases:
        lines[-1] += f" Also `{'`, `'.join(aliases)}`."
    lines += ["", "```sql"]
    lines += [f"SELECT {example}" for example in overloads[0]["examples"]]
    lines += ["```", ""]
    return lines


def document(connection):
    """The text of docs/functions.md"""
    everything = functions(connection)
    primary = {name: rows for name, rows in everything.items() if not rows[0]["alias_of"]}
    aliases = {}
    for name, rows in everything.items():
        if rows[0]["alias_of"] and name.startswith("ST_"):
            aliases.setdefault(rows[0]["alias_of"], []).append(name)
    lines = HEADER.split("\n")
    by_category = {category: [] for category in CATEGORIES}
    for name, rows in primary.items():
        by_category[rows[0]["categories"][0]].append(name)
    for category, title in CATEGORIES.items():
        links = " ".join(f"[{name}](#{name.lower()})" for name in by_category[category])
        lines += [f"{title}: {links}", ""] if links else []
    for category, title in CATEGORIES.items():
        if by_category[category]:
            lines += [f"## {title}", ""]
        for name in by_category[category]:
            lines += section(name, primary[name], aliases.get(name, []))
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("extension")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()

    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{pathlib.Path(arguments.extension).absolute()}'")
        text = document(connection)
    if not arguments.check:
        TARGET.write_text(text)
    elif not TARGET.exists() or TARGET.read_text() != text:
        sys.exit(f"{TARGET} is not current: run scripts/functions_doc.py")


if __name__ == "__main__":
    main()
