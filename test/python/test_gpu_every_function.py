"""Every function of ours in mode gpu: the device computes it, or the log has an event and vibe_gpu_strict an error that names it."""
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

ROWS = 40
# Polygons g and h, points p and q, a closed line l, texts in two formats, numbers
TABLE = (f"CREATE TABLE shapes AS SELECT i, i::DOUBLE AS d, ST_MakeEnvelope(i, 0, i + 1.5, 2) AS g, ST_MakeEnvelope(i + 1, 1, i + 3, 4) AS h, "
         f"ST_Point(i, 1) AS p, ST_Point(i + 1, 2) AS q, format('LINESTRING ({{0}} 0, {{1}} 0, {{1}} 1, {{0}} 0)', i, i + 1)::GEOMETRY AS l, "
         f"format('POINT ({{}} 2)', i) AS wkt, format('{{{{\"type\":\"Point\",\"coordinates\":[{{}},2]}}}}', i) AS geojson, "
         f"{{'x': i::DOUBLE, 'y': 1::DOUBLE}} AS native, ST_Extent(g) AS box FROM range({ROWS}) t(i)")
ARGUMENTS = {"DOUBLE": ["d"] * 4, "INTEGER": ["3"] * 2, "BIGINT": ["1"] * 2, "VARCHAR": ["wkt"], "BOOLEAN": ["true"], "GEOMETRY[]": ["[p, q]"],
             "JSON": ["geojson::JSON"], "BOX_2D": ["box"]}
#: Calls that the types alone do not tell
CALLS = {"vibe_buffer(GEOMETRY, DOUBLE, INTEGER, VARCHAR, VARCHAR, DOUBLE)": "vibe_buffer(g, d, 3, 'CAP_ROUND', 'JOIN_ROUND', 1.0)",
         "vibe_geomfromgeojson(VARCHAR)": "vibe_geomfromgeojson(geojson)",
         "vibe_makeline(GEOMETRY, GEOMETRY)": "vibe_makeline(p, q)", "vibe_makepolygon(GEOMETRY)": "vibe_makepolygon(l)",
         "vibe_makepolygon(GEOMETRY, GEOMETRY[])": "vibe_makepolygon(l, [l])",
         "vibe_relate(GEOMETRY, GEOMETRY, VARCHAR)": "vibe_relate(g, h, 'T********')",
         "vibe_geoarrow(GEOMETRY, VARCHAR)": "vibe_geoarrow(p, 'point')",
         "vibe_from_native(ANY, VARCHAR)": "vibe_from_native(native, 'point')",
         "vibe_from_native(ANY, VARCHAR, VARCHAR)": "vibe_from_native(native, 'point', 'EPSG:4326')"}
#: A condition of joins alone
STATEMENTS = {"vibe_knn(GEOMETRY, GEOMETRY, BIGINT)": "SELECT count(*) FROM shapes a JOIN shapes b ON vibe_knn(a.g, b.p, 2)",
              "vibe_knn(GEOMETRY, GEOMETRY, BIGINT, BOOLEAN)": "SELECT count(*) FROM shapes a JOIN shapes b ON vibe_knn(a.g, b.p, 2, false)"}
OF_POINTS = {"vibe_segment_length", "vibe_x", "vibe_y", "vibe_z", "vibe_m"}
OF_LINES = {"vibe_isclosed", "vibe_isring", "vibe_startpoint", "vibe_endpoint", "vibe_pointn"}
#: The log has one name for both
SECOND_NAMES = {"st_ngeometries": "st_numgeometries", "st_ninteriorrings": "st_numinteriorrings", "st_numpoints": "st_npoints"}
#: Tables about the engine, which do no work on geometries, and readers of files: docs/use/gpu.md says so
NO_WORK = {"vibe_device_interface", "vibe_dispatch_log", "vibe_ensure_warm", "vibe_gpu_coverage", "vibe_gpu_info", "vibe_kernels",
           "vibe_memory_status", "vibe_pins", "vibe_precompile_status", "vibe_read_arrow", "vibe_read_geoparquet", "vibe_timeline", "vibe_unpin",
           "vibe_version"}
TABLES = {"vibe_knn": "vibe_knn('SELECT g FROM shapes', 'SELECT p FROM shapes', 3)",
          "vibe_sjoin": "vibe_sjoin('SELECT g FROM shapes', 'SELECT p FROM shapes')",
          "vibe_overlay": "vibe_overlay('SELECT g FROM shapes', 'SELECT h FROM shapes')",
          "vibe_dissolve": "vibe_dissolve('SELECT g FROM shapes')",
          "vibe_pin": "vibe_pin('shapes', columns := ['p'])"}
FUNCTIONS = ("SELECT DISTINCT function_name, parameter_types::VARCHAR, function_type FROM duckdb_functions() "
             "WHERE starts_with(function_name, 'vibe_') AND function_type <> 'pragma' ORDER BY ALL")
BEFORE = "CREATE OR REPLACE TEMP TABLE before AS SELECT coalesce(max(sequence), 0) AS n FROM vibe_dispatch_log()"
LOG = ("SELECT operator, operation, rows_on_device, rows_on_cpu FROM vibe_dispatch_log() WHERE sequence > (FROM before) "
       "AND operation <> 'box_index'")


def call_of(name, types):
    """An expression that calls the function with columns of `shapes`"""
    signature = f"{name}({types})"
    if signature in CALLS:
        return CALLS[signature]
    geometries = iter(["p", "q"] if name in OF_POINTS else ["l"] if name in OF_LINES else ["g", "h"])
    others = {type: iter(columns) for type, columns in ARGUMENTS.items()}
    return f"{name}({', '.join(next(geometries) if type == 'GEOMETRY' else next(others[type]) for type in types.split(', ') if type)})"


@pytest.fixture
def statements(process, fake):  # noqa: F811
    """function -> a statement that calls it for every row"""
    load, (functions,) = process(FUNCTIONS, VIBESPATIAL_GPU_FOLDER=str(fake))
    result = {}
    for name, types, kind in functions:
        if name in NO_WORK:
            continue
        types = types[1:-1].replace("'", "")
        if f"{name}({types})" in STATEMENTS:
            result[f"{name}({types})"] = STATEMENTS[f"{name}({types})"]
        elif kind == "table":
            result[name] = f"SELECT max(hash(COLUMNS(*))) FROM {TABLES[name]}" if name != "vibe_pin" else f"CALL {TABLES[name]}"
        elif kind == "aggregate":
            result[f"{name}({types})"] = f"SELECT count(x) FROM (SELECT {call_of(name, types)} AS x FROM shapes GROUP BY i % 2)"
        else:
            result[f"{name}({types})"] = f"SELECT count(x) FROM (SELECT {call_of(name, types)} AS x FROM shapes)"
    assert len(result) > 110
    return result


def test_every_function_leaves_an_event(process, fake, statements):  # noqa: F811
    given = [part for sql in statements.values() for part in (BEFORE, sql, LOG)]
    load, results = process(TABLE, "SET vibe_execution_mode = 'gpu'", *given, VIBESPATIAL_GPU_FOLDER=str(fake))
    failed, silent = [], []
    for i, (name, sql) in enumerate(statements.items()):
        rows, events = results[2 + 3 * i + 1], results[2 + 3 * i + 2]
        if not isinstance(rows, list):
            failed.append((sql, rows))
            continue
        # By the function itself, or by an operator
        own = name.split("(")[0].replace("vibe_", "st_")
        names = {own, own.replace("st_", "vibe_"), SECOND_NAMES.get(own)}
        named = [event for event in events if event[0] not in ("FUNCTION", "AGGREGATE") or event[1].lower() in names]
        if not any(on_device + on_cpu > 0 for *_, on_device, on_cpu in named):
            silent.append((sql, rows, events))
    assert failed == [] and silent == []


def test_every_function_is_strict(process, fake, statements):  # noqa: F811
    """With vibe_gpu_strict no event of the CPU is left: what leaves one without it is an error"""
    given = [part for sql in statements.values() for part in (BEFORE, sql, LOG)]
    load, results = process(TABLE, "SET vibe_execution_mode = 'gpu'", "SET vibe_gpu_strict = true", *given,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    computed, silent = set(), []
    for i, (name, sql) in enumerate(statements.items()):
        rows, events = results[3 + 3 * i + 1], results[3 + 3 * i + 2]
        if isinstance(rows, list):
            computed.add(name.split("(")[0])
            if not events or any(on_cpu > 0 for *_, on_cpu in events):
                silent.append((sql, events))
        elif "vibe_gpu_strict is on" not in rows:
            silent.append((sql, rows))
    assert silent == []
    on_device = {"vibe_area", "vibe_convexhull", "vibe_intersects", "vibe_knn", "vibe_sjoin", "vibe_pin", "vibe_simplify", "vibe_union_agg"}
    assert on_device <= computed
    for name in ("intersection", "union", "difference", "symdifference"):
        assert {f"vibe_{name}", f"vibe_{name}_area"} <= computed
