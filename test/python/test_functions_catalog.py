"""What duckdb_functions() says about the functions: all are there, described, with examples that hold."""
import pathlib
import subprocess
import sys

import duckdb
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

NAMES = """
ST_Within ST_Contains ST_Intersects ST_Disjoint ST_Equals ST_Touches ST_Crosses ST_Overlaps ST_Covers ST_CoveredBy
ST_ContainsProperly ST_WithinProperly ST_Relate ST_DWithin ST_Distance
ST_Area ST_Length ST_Perimeter ST_Centroid ST_Envelope ST_Extent
ST_XMin ST_XMax ST_YMin ST_YMax ST_ZMin ST_ZMax ST_MMin ST_MMax
ST_Point ST_MakePoint ST_MakeEnvelope ST_MakeLine ST_MakePolygon ST_Collect
ST_GeomFromText ST_GeomFromGeoJSON ST_AsGeoJSON
ST_X ST_Y ST_Z ST_M ST_NPoints ST_NumPoints ST_NumGeometries ST_NGeometries ST_GeometryType ST_Dimension ST_IsEmpty
ST_IsValid ST_IsValidReason ST_IsSimple ST_IsClosed ST_IsRing ST_StartPoint ST_EndPoint ST_PointN
ST_ExteriorRing ST_InteriorRingN ST_NumInteriorRings ST_NInteriorRings ST_Dump
ST_Boundary ST_Reverse ST_FlipCoordinates ST_Force2D ST_Multi ST_ConvexHull ST_Simplify
ST_Union ST_Intersection ST_Difference ST_SymDifference ST_UnaryUnion
ST_Buffer ST_MakeValid ST_ReducePrecision ST_Node
""".split()

AGGREGATES = ["ST_Union_Agg", "ST_CoverageUnion_Agg", "ST_Intersection_Agg", "ST_Extent_Agg", "ST_Envelope_Agg",
              "ST_Collect_Agg"]

VIBE = ["vibe_version", "vibe_buffer_intersects", "vibe_buffer_reach", "vibe_union_area", "vibe_intersection_area",
        "vibe_difference_area", "vibe_symdifference_area", "vibe_from_native", "vibe_geoarrow"]

TABLES = ["vibe_gpu_info", "vibe_precompile_status", "vibe_ensure_warm", "vibe_kernels", "vibe_dispatch_log",
          "vibe_memory_status", "vibe_timeline"]

EVERY = NAMES + AGGREGATES

# With the names of their relations
RELATIONS = {"vibe_knn": ["left", "right"], "vibe_sjoin": ["left", "right"], "vibe_overlay": ["left", "right"],
             "vibe_dissolve": ["relation"]}

# They need files, and call them so
FILES = {"vibe_read_geoparquet": "path", "vibe_read_arrow": "files"}

# Since 2.0 DuckDB has these itself
SINCE_2 = not duckdb.__version__.startswith("1.")
REGISTERED = [name for name in EVERY if not (SINCE_2 and name in ("ST_GeomFromGeoJSON", "ST_AsGeoJSON"))]

# What spatial 1.5.5 does not have
OURS = {"ST_Relate", "ST_IsValidReason", "ST_UnaryUnion", "ST_Collect_Agg"}


def vibe_name(name):
    return "vibe_" + name.removeprefix("ST_").lower()


def catalog(connection, name, kind=None):
    """The overloads of a function: dictionaries by parameter types"""
    kind = kind or ("aggregate" if name.lower().endswith("_agg") else "scalar")
    query = """SELECT parameter_types, parameters, return_type, description, examples, categories
               FROM duckdb_functions() WHERE function_name = ? AND function_type = ?"""
    names = [column[0] for column in connection.execute(query, [name, kind]).description]
    rows = [dict(zip(names, row)) for row in connection.fetchall()]
    return {tuple(row["parameter_types"]): row for row in rows}


@pytest.fixture(scope="module")
def vibe(connect):
    with connect() as connection:
        yield connection


@pytest.fixture(scope="module")
def spatial(connect, spatial_path):
    with connect(load=False) as connection:
        connection.execute(f"LOAD '{spatial_path}'")
        yield connection


@pytest.mark.parametrize("name", REGISTERED + [vibe_name(name) for name in EVERY] + VIBE)
def test_described(vibe, name):
    overloads = catalog(vibe, name)
    assert overloads, f"{name} is not there"
    for types, overload in overloads.items():
        assert overload["description"].endswith("."), types
        assert len(overload["categories"]) == 1, types
        assert len(overload["parameters"]) == len(types)
        assert not any(parameter.startswith("col") for parameter in overload["parameters"]), overload["parameters"]
        assert overload["examples"] and all(name + "(" in example for example in overload["examples"]), types


@pytest.mark.parametrize("name", EVERY + [vibe_name(name) for name in EVERY] + VIBE)
def test_examples_hold(vibe, name):
    examples = {example for overload in catalog(vibe, name).values() for example in overload["examples"]}
    for example in examples:
        expression, expected = example.split(" -- ")
        result = vibe.execute(f"SELECT CAST({expression} AS VARCHAR)").fetchone()[0]
        assert (result if result is not None else "NULL") == expected, example


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_described(vibe, name):
    overloads = catalog(vibe, name, "table")
    assert () in overloads
    for types, overload in overloads.items():
        assert overload["description"].endswith("."), types
        assert overload["categories"] == ["diagnostic"] and len(overload["parameters"]) == len(types)
        for example in overload["examples"]:
            assert vibe.execute(f"SELECT {example}").description, example


@pytest.mark.parametrize("name", FILES)
def test_readers_are_described(vibe, name):
    for types, overload in catalog(vibe, name, "table").items():
        assert types[0] in ("VARCHAR", "VARCHAR[]", "ANY") and overload["parameters"][0] == FILES[name]
        assert overload["description"].endswith(".") and overload["examples"]


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_are_described(vibe, name):
    (types, overload), = catalog(vibe, name, "table").items()
    relations = RELATIONS[name]
    assert set(types[:len(relations)]) == {"VARCHAR"} and overload["parameters"][:len(relations)] == relations
    assert overload["description"].endswith(".") and overload["categories"] == ["relation"]
    named = dict(zip(overload["parameters"], types))
    if relations == ["left", "right"]:
        assert named["left_geometry"] == "VARCHAR" and named["right_columns"] == "VARCHAR[]"
    else:
        assert named["geometry"] == "VARCHAR"
    for example in overload["examples"]:
        assert len(vibe.execute(f"SELECT {example}").fetchall()) > 1, example


@pytest.mark.parametrize("name", [name for name in EVERY if name not in OURS])
def test_same_signatures_as_spatial(vibe, spatial, name):
    ours, theirs = catalog(vibe, name), catalog(spatial, name)
    assert ours
    for types, overload in ours.items():
        assert types in theirs, f"spatial has no {name}{types}"
        assert overload["return_type"] == theirs[types]["return_type"], types
    # every overload of spatial on GEOMETRY, text and numbers is ours too
    plain = {"GEOMETRY", "GEOMETRY[]", "DOUBLE", "INTEGER", "BIGINT", "VARCHAR", "BOOLEAN", "JSON"}
    assert {types for types in theirs if plain.issuperset(types)} <= set(ours)


@pytest.mark.parametrize("name", REGISTERED)
def test_vibe_name_has_the_same_overloads(vibe, name):
    st, own = catalog(vibe, name), catalog(vibe, vibe_name(name))
    assert {types: row["return_type"] for types, row in st.items()} == {
        types: row["return_type"] for types, row in own.items()
    }


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


def test_nothing_else_is_registered(vibe, connect):
    query = "SELECT DISTINCT function_name FROM duckdb_functions()"
    with connect(load=False) as plain:
        before = {row[0] for row in plain.execute(query).fetchall()}
    new = {row[0] for row in vibe.execute(query).fetchall()} - before
    assert new == set(REGISTERED) | {vibe_name(name) for name in EVERY} | set(VIBE) | set(TABLES) | set(RELATIONS) | set(FILES)


@pytest.mark.skipif(SINCE_2, reason="written with the first version, whose catalog has more of our names")
def test_documentation_is_current(extension):
    script = ROOT / "scripts" / "functions_doc.py"
    result = subprocess.run(
        [sys.executable, str(script), str(extension), "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert result.returncode == 0, result.stdout
