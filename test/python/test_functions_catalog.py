"""What duckdb_functions() says about the functions: all are there, described, with examples that hold and tests of their own.

The registered functions are the list: nothing here names them, so a new function is covered once it is registered.
"""
import pathlib
import re
import subprocess
import sys

import duckdb
import fetch
import functions as manifest
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Lists are written with the first version: a later DuckDB may have functions of our names itself
IS_FIRST = duckdb.__version__ == next(iter(fetch.duckdbs()))


@pytest.fixture(scope="module")
def vibe(connect):
    with connect() as connection:
        yield connection


@pytest.fixture(scope="module")
def ours(vibe):
    """name -> its overloads, of every function that is ours; at least those of all files of src"""
    functions = manifest.registered(vibe)
    assert len(manifest.primary(functions)) > 100
    return functions


@pytest.fixture(scope="module")
def duckdbs(connect):
    """The names that DuckDB has itself"""
    with connect(load=False) as plain:
        yield {name for name, in plain.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()}


@pytest.fixture(scope="module")
def spatial(connect, spatial_path):
    with connect(load=False) as connection:
        connection.execute(f"LOAD '{spatial_path}'")
        yield connection


def described(ours, duckdbs):
    """Every overload that we registered"""
    return [(name, row) for name, rows in ours.items() for row in rows if name not in duckdbs]


def overloads(rows):
    """Argument types -> result"""
    return {tuple(row["parameter_types"]): row["return_type"] for row in rows}


def test_described(ours, duckdbs):
    for name, row in described(ours, duckdbs):
        what = manifest.signature(row)
        assert (row["description"] or "").endswith("."), what
        assert len(row["categories"]) == 1 and row["categories"][0] in manifest.CATEGORIES, what
        assert len(row["parameters"]) == len(row["parameter_types"]), what
        assert not any(re.fullmatch(r"col\d+", parameter) for parameter in row["parameters"]), what
        assert row["examples"] and all(name + "(" in example for example in row["examples"]), what


def test_examples_hold(vibe, ours, duckdbs):
    for example in {example for _, row in described(ours, duckdbs) if row["function_type"] != "table" for example in row["examples"]}:
        expression, expected = example.split(" -- ")
        result = vibe.execute(f"SELECT CAST({expression} AS VARCHAR)").fetchone()[0]
        assert (result if result is not None else "NULL") == expected, example


def test_examples_of_tables_run(vibe, ours, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name, rows in ours.items():
        if name in ("vibe_pin", "vibe_unpin"):
            continue  # of a table on a GPU: test_pin.py
        for example in {example for row in rows if row["function_type"] == "table" for example in row["examples"]}:
            paths = re.findall(r"'(data/[^']*)'", example)
            if all(list(ROOT.glob(path)) for path in paths):
                found = vibe.execute(f"SELECT {example}")
                assert found.description, example
                assert rows[0]["categories"] != ["relation"] or found.fetchall(), example


def test_named_arguments_of_relations(ours):
    relations = {name: rows for name, rows in ours.items() if rows[0]["categories"] == ["relation"]}
    assert len(relations) >= 5
    for name, (row,) in relations.items():
        named = dict(zip(row["parameters"], row["parameter_types"]))
        if row["parameters"][:2] == ["left", "right"]:
            assert named["left_geometry"] == "VARCHAR" and named["right_columns"] == "VARCHAR[]", name
        assert 1 <= manifest.positional(row) < len(row["parameters"]), name


def test_same_signatures_as_spatial(ours, spatial, duckdbs):
    query = "SELECT function_name, function_type, parameter_types, return_type FROM duckdb_functions()"
    theirs = {}
    for name, kind, types, result in spatial.execute(query).fetchall():
        if kind in ("scalar", "aggregate"):
            theirs.setdefault((name, kind), {})[tuple(types)] = result
    # every overload of spatial on GEOMETRY, text and numbers is ours too
    plain = {"GEOMETRY", "GEOMETRY[]", "DOUBLE", "INTEGER", "BIGINT", "VARCHAR", "BOOLEAN", "JSON"}
    compared = 0
    for name, rows in ours.items():
        other = theirs.get((name, rows[0]["function_type"]))
        if name.startswith("ST_") and other and name not in duckdbs:
            compared += 1
            for types, result in overloads(rows).items():
                assert other.get(types) == result, (name, types)
            assert {types for types in other if plain.issuperset(types)} <= set(overloads(rows)), name
    assert compared > 70


def test_vibe_name_has_the_same_overloads(vibe, ours, duckdbs):
    query = "SELECT parameter_types, return_type FROM duckdb_functions() WHERE function_name = $1 AND function_type = $2"
    for name, rows in ours.items():
        if name.startswith("ST_") and name not in duckdbs:
            own = "vibe_" + name.removeprefix("ST_").lower()
            same_kind = vibe.execute(query, [own, rows[0]["function_type"]]).fetchall()
            assert {tuple(types): result for types, result in same_kind} == overloads(rows), name


@pytest.mark.parametrize(
    "expression",
    ["ST_GeometryType('POINT (1 2)'::GEOMETRY)", "ST_Extent('POINT (1 2)'::GEOMETRY)", "ST_MakePoint(1, 2)",
     "ST_MakePoint(1, 2, 3)", "ST_MakePoint(1, 2, 3, 4)", "ST_Dump('POINT (1 2)'::GEOMETRY)",
     "ST_AsGeoJSON('POINT (1 2)'::GEOMETRY)", "ST_Centroid('POINT (1 2)'::GEOMETRY('OGC:CRS84'))",
     "ST_Dump('POINT (1 2)'::GEOMETRY('OGC:CRS84'))", "enum_range(ST_GeometryType('POINT (1 2)'::GEOMETRY))"],
)
def test_same_result_types_as_spatial(vibe, spatial, expression):
    query = f"SELECT typeof({expression}), CAST({expression} AS VARCHAR)"
    assert vibe.execute(query).fetchone() == spatial.execute(query).fetchone()


def test_nothing_else_is_registered(vibe, ours, duckdbs):
    now = {name for name, in vibe.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()}
    assert now - duckdbs == set(ours) - duckdbs


def test_every_function_has_a_sql_test(ours):
    assert manifest.without_test(ours) == []


def test_released_functions_are_there(ours, duckdbs):
    known = {name.lower() for name in duckdbs}
    assert [text for text in manifest.lost(ours) if text.split("(")[0].lower() not in known] == []


def test_a_lost_function_is_noticed(ours):
    gone = {name: rows for name, rows in ours.items() if name != "ST_Area"}
    assert any("ST_Area(GEOMETRY) -> DOUBLE is no longer registered" in text for text in manifest.lost(gone))


@pytest.mark.skipif(not IS_FIRST, reason="written with the first version, whose catalog has more of our names")
def test_generated_lists_are_current(extension):
    script = ROOT / "scripts" / "functions.py"
    result = subprocess.run(
        [sys.executable, str(script), str(extension), "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert result.returncode == 0, result.stdout
