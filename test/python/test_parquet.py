"""GeoParquet: row groups are left out by the boxes of a covering, and the rows are those of a scan of all."""
import json
import os
import random
import re
import time

import duckdb
import geopandas
import numpy
import pyarrow
import pyarrow.parquet
import pytest
import shapely

ROWS = 20000
GROUP = 500
GROUPS = ROWS // GROUP
PREDICATES = ["Intersects", "Within", "Contains", "Covers", "CoveredBy", "Touches", "Crosses", "Overlaps", "Equals"]


def shapes(rng, count):
    """Small boxes, points and lines all over the world, in the order of a curve"""
    x, y = rng.uniform(-180, 179, count), rng.uniform(-90, 89, count)
    width, height = rng.uniform(0.01, 0.5, count), rng.uniform(0.01, 0.5, count)
    kind = rng.integers(0, 3, count)
    result = numpy.where(kind == 0, shapely.box(x, y, x + width, y + height), shapely.points(x, y))
    lines = shapely.linestrings(numpy.stack([numpy.stack([x, y], 1), numpy.stack([x + width, y + height], 1)], 1))
    result = numpy.where(kind == 2, lines, result)
    frame = geopandas.GeoDataFrame(geometry=result, crs="OGC:CRS84")
    return result[numpy.argsort(frame.hilbert_distance().values)]


@pytest.fixture(scope="module")
def geometries():
    return shapes(numpy.random.default_rng(22), ROWS)


@pytest.fixture(scope="module")
def covered(geometries, tmp_path_factory):
    """Written by geopandas: a column bbox of doubles"""
    path = tmp_path_factory.mktemp("covered") / "covered.parquet"
    frame = geopandas.GeoDataFrame({"id": numpy.arange(len(geometries))}, geometry=geometries, crs="OGC:CRS84")
    frame.to_parquet(path, write_covering_bbox=True, schema_version="1.1.0", row_group_size=GROUP)
    return path


def write(path, geometries, *, number=pyarrow.float64(), box="bbox", fields=("xmin", "ymin", "xmax", "ymax"), ids=None,
          covering=True, keep_box=True, crs=False, group=GROUP, extra=(), nulls=(), outward=True, geometry="geometry"):
    """A GeoParquet file by pyarrow alone; boxes of floats are rounded outward, or to the nearest"""
    geometries = numpy.asarray(geometries, dtype=object)
    bounds = shapely.bounds(geometries)
    columns = []
    for side in range(4):
        values = bounds[:, side]
        if number == pyarrow.float32():
            rounded = values.astype(numpy.float32)
            if outward:
                wrong = rounded > values if side < 2 else rounded < values
                limit = numpy.float32(-numpy.inf if side < 2 else numpy.inf)
                rounded = numpy.where(wrong, numpy.nextafter(rounded, limit), rounded)
            values = rounded
        columns.append(pyarrow.array(values, number))
    mask = numpy.array([g is None or i in nulls for i, g in enumerate(geometries)])
    boxes = pyarrow.StructArray.from_arrays(columns, names=list(fields), mask=pyarrow.array(mask))
    table = {"id": pyarrow.array(ids if ids is not None else numpy.arange(len(geometries))),
             geometry: pyarrow.array(shapely.to_wkb(geometries), pyarrow.binary())}
    table.update(extra)
    if keep_box:
        table[box] = boxes
    column = {"encoding": "WKB", "geometry_types": []}
    if crs is not False:
        column["crs"] = crs
    if covering:
        sides = ["xmin", "ymin", "xmax", "ymax"]
        column["covering"] = {"bbox": {side: [box, field] for side, field in zip(sides, fields)}}
    geo = {"version": "1.1.0", "primary_column": geometry, "columns": {geometry: column}}
    result = pyarrow.table(table).replace_schema_metadata({"geo": json.dumps(geo)})
    pyarrow.parquet.write_table(result, path, row_group_size=group)
    return path


def scans(con, sql, tmp_path):
    """The rows of a query, and how many row groups each scan of Parquet files read"""
    output = tmp_path / "profile.json"
    con.execute("PRAGMA enable_profiling = 'json'")
    con.execute(f"SET profiling_output = '{output}'")
    if duckdb.__version__ < "2":
        con.execute("""SET custom_profiling_settings = '{"OPERATOR_ROW_GROUPS_SCANNED": "true", "EXTRA_INFO": "true"}'""")
    else:
        con.execute("SET profiling_mode = 'detailed'")
    rows = con.execute(sql).fetchall()
    con.execute("PRAGMA disable_profiling")
    found = []

    def walk(node):
        if "PARQUET" in str(node.get("extra_info", {}).get("Function", "")):
            found.append(node.get("row_groups_scanned", node.get("operator_row_groups_scanned", 0)))
        for child in node.get("children", []):
            walk(child)

    profile = json.loads(output.read_text())
    for root in profile.get("operator", [profile]):
        walk(root)
    return rows, found


def same(con, sql, tmp_path, most=None, all_of=None):
    """The rows of a query, which do not depend on what is left out; `most` row groups are read, or `all_of` them"""
    con.execute("SET vibe_rewrites = false")
    expected, everything = scans(con, sql, tmp_path)
    con.execute("SET vibe_rewrites = true")
    rows, read = scans(con, sql, tmp_path)
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    read, everything = (max(found, default=0) for found in (read, everything))
    if most is not None:
        assert read <= most < everything, con.execute("EXPLAIN " + sql).fetchone()[1]
    if all_of is not None:
        assert read == all_of
    return rows


def envelope(x, y, size):
    return f"ST_MakeEnvelope({x!r}, {y!r}, {x + size!r}, {y + size!r})"


# --- filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("predicate", PREDICATES)
def test_filter(con, covered, geometries, tmp_path, predicate):
    rng = random.Random(predicate)
    some = 0
    for _ in range(8):
        x, y = rng.uniform(-175, 170), rng.uniform(-85, 80)
        shape = envelope(x, y, 6)
        if predicate in ("Equals", "Contains", "Covers"):
            shape = f"'{rng.choice(geometries).wkt}'::GEOMETRY"
        for call in (f"geometry, {shape}", f"{shape}, geometry"):
            sql = f"SELECT id FROM '{covered}' WHERE ST_{predicate}({call})"
            some += len(same(con, sql, tmp_path, most=GROUPS // 4))
    assert some > 0 or predicate == "Touches"


def test_filter_rows_are_shapelys(con, covered, geometries):
    for x, y in [(0, 0), (-120.5, 33.25), (151, -80)]:
        box = shapely.box(x, y, x + 4, y + 4)
        rows = con.execute(f"SELECT id FROM '{covered}' WHERE ST_Intersects(geometry, {envelope(x, y, 4)}) ORDER BY id")
        assert [row[0] for row in rows.fetchall()] == numpy.flatnonzero(shapely.intersects(geometries, box)).tolist()


@pytest.mark.parametrize("condition", [
    "ST_DWithin(geometry, ST_Point(10, 20), 1.5)",
    "ST_DWithin(ST_Point(10, 20), geometry, 0.5 + 1)",
    "geometry && ST_MakeEnvelope(10, 20, 12, 22)",
    "vibe_intersects(geometry, ST_MakeEnvelope(10, 20, 12, 22))",
    "ST_Within(geometry, ST_MakeEnvelope(10, 20, 12, 22)) AND id % 2 = 0",
    "ST_Intersects(geometry, ST_Point(10, 20)) OR ST_DWithin(geometry, ST_Point(11, 21), 1)",
    "id % 3 = 0 AND (geometry && ST_Point(10, 20) OR geometry && ST_MakeEnvelope(12, 20, 13, 22))",
    "ST_Intersects(ST_MakeEnvelope(10, 20, 12, 22), geometry) AND bbox.xmin > 10.5",
    "ST_Intersects(geometry, ST_Buffer(ST_Point(10, 20), 2))",
])
def test_conditions(con, covered, tmp_path, condition):
    for columns in ("count(*)", "id", "geometry", "bbox", "id, bbox.ymin", "*", "bbox.xmax, geometry, id", "1"):
        same(con, f"SELECT {columns} FROM '{covered}' WHERE {condition}", tmp_path, most=GROUPS // 4)


@pytest.mark.parametrize("condition", [
    "ST_Disjoint(geometry, ST_MakeEnvelope(10, 20, 12, 22))",
    "NOT ST_Intersects(geometry, ST_MakeEnvelope(10, 20, 12, 22))",
    "ST_Distance(geometry, ST_Point(10, 20)) < 1",
    "ST_Intersects(geometry, ST_MakeEnvelope(10, 20, 12, 22)) OR id = 7",
    "ST_Intersects(geometry, ST_MakeEnvelope(10, 20, 12, 22)) IS NULL",
    "ST_Intersects(geometry, NULL)",
    "ST_DWithin(geometry, ST_Point(10, 20), id / 1000.0)",
    "ST_Intersects(ST_Buffer(geometry, 10), ST_Point(0, 0))",
])
def test_conditions_that_need_all(con, covered, tmp_path, condition):
    same(con, f"SELECT id FROM '{covered}' WHERE {condition}", tmp_path)


def test_far_boxes_of_a_large_geometry(con, tmp_path):
    """A geometry can meet two boxes that do not meet each other"""
    geometries = [shapely.box(i, 0, i + 10, 1) for i in range(0, 1000)]
    path = write(tmp_path / "large.parquet", geometries, group=20)
    sql = f"""SELECT id FROM '{path}' WHERE ST_Intersects(geometry, ST_Point(500, 0.5))
              AND ST_Intersects(geometry, ST_Point(505, 0.5))"""
    assert len(same(con, sql, tmp_path, most=5)) == 6


def test_views_subqueries_and_unions(con, covered, tmp_path):
    shape = envelope(10, 20, 2)
    con.execute(f"CREATE VIEW places AS SELECT geometry AS g, id + 1 AS id1 FROM '{covered}'")
    same(con, f"SELECT id1 FROM places WHERE ST_Intersects(g, {shape})", tmp_path, most=GROUPS // 4)
    same(con, f"SELECT count(*) FROM (SELECT * FROM places WHERE id1 > 5) WHERE ST_Within(g, {shape})", tmp_path,
         most=GROUPS // 4)
    same(con, f"WITH p AS (FROM places) SELECT id1 FROM p WHERE g && {shape} ORDER BY id1 LIMIT 3", tmp_path,
         most=GROUPS // 4)
    same(con, f"""SELECT count(*) FROM (FROM places UNION ALL FROM places) WHERE ST_Intersects(g, {shape})""", tmp_path,
         most=GROUPS // 4)
    # A limit below the filter takes rows that the filter drops
    same(con, f"SELECT count(*) FROM (FROM places LIMIT 1000) WHERE ST_Intersects(g, {shape})", tmp_path)
    same(con, f"""SELECT count(*) FILTER (ST_Intersects(g, {shape})), count(*) FROM places""", tmp_path, all_of=GROUPS)


def plan(con, explain):
    """The text of a plan without spaces; a field is written alike for all versions"""
    text = "".join(con.execute(explain).fetchone()[1].split())
    return re.sub(r"struct_extract\(bbox,\\?'(\w+)\\?'\)", r"bbox.\1", text)


def test_explain(con, covered):
    sql = f"SELECT id FROM '{covered}' WHERE ST_Intersects(geometry, ST_MakeEnvelope(10, 20, 12, 22))"
    text = plan(con, f"EXPLAIN (FORMAT json) {sql}")
    assert "bbox.xmin<=12.0" in text and "bbox.ymax>=20.0" in text
    con.execute("SET vibe_rewrites = false")
    assert "bbox" not in con.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()[1]


# --- joins -----------------------------------------------------------------------------------------------------------

AREAS = """(SELECT i AS area, ST_MakeEnvelope(10 + 3 * i, 20, 12.9 + 3 * i, 25) AS g FROM range(4) t(i)
            UNION ALL SELECT 9, NULL UNION ALL SELECT 10, 'POLYGON EMPTY'::GEOMETRY)"""


@pytest.mark.parametrize("join", [
    "SELECT id, area FROM '{}' p JOIN {} a ON ST_Intersects(p.geometry, a.g)",
    "SELECT id, area FROM {1} a JOIN '{0}' p ON ST_Within(p.geometry, a.g)",
    "SELECT area, count(*) FROM '{}' p JOIN {} a ON ST_Intersects(p.geometry, a.g) GROUP BY area",
    "SELECT count(*) FROM '{}' p SEMI JOIN {} a ON ST_DWithin(p.geometry, a.g, 0.25)",
    "SELECT id, area FROM '{}' p RIGHT JOIN {} a ON ST_Intersects(p.geometry, a.g)",
    "SELECT id FROM '{}' p WHERE EXISTS (FROM {} a WHERE ST_Intersects(a.g, p.geometry))",
    "SELECT bbox.xmin, area FROM '{}' p JOIN {} a ON ST_Intersects(p.geometry, a.g) AND area < 3",
    "SELECT id, area FROM (SELECT geometry AS h, id FROM '{}' WHERE id > 100) p JOIN {} a ON ST_Covers(a.g, h)",
    "SELECT id FROM '{}' WHERE ST_Intersects(geometry, (SELECT g FROM {} WHERE area = 1))",
])
def test_join(con, covered, tmp_path, join):
    # DuckDB 2.0 plans EXISTS as a join that marks rows, which needs them all
    marks = "EXISTS" in join and duckdb.__version__ >= "2"
    assert same(con, join.format(covered, AREAS), tmp_path, most=None if marks else GROUPS // 4)


@pytest.mark.parametrize("join", [
    "SELECT count(*) FROM '{}' p LEFT JOIN {} a ON ST_Intersects(p.geometry, a.g)",
    "SELECT count(*) FROM '{}' p ANTI JOIN {} a ON ST_Intersects(p.geometry, a.g)",
    "SELECT count(*) FROM '{}' p FULL JOIN {} a ON ST_Intersects(p.geometry, a.g)",
])
def test_join_that_keeps_all(con, covered, tmp_path, join):
    same(con, join.format(covered, AREAS), tmp_path, all_of=GROUPS)


def test_join_of_two_files(con, covered, tmp_path):
    """Both sides have boxes; only the probe side can use those of the other"""
    small = write(tmp_path / "small.parquet", shapely.box(numpy.arange(5), 0, numpy.arange(5) + 0.5, 2))
    sql = f"SELECT p.id, a.id FROM '{covered}' p JOIN '{small}' a ON ST_Intersects(p.geometry, a.geometry)"
    same(con, sql, tmp_path, most=GROUPS // 4)
    assert "left out by bbox" in con.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()[1]


def test_explain_analyze(con, covered):
    sql = f"SELECT count(*) FROM '{covered}' p JOIN {AREAS} a ON ST_Intersects(p.geometry, a.g)"
    assert "bbox.xmin<=" in plan(con, f"EXPLAIN (ANALYZE, FORMAT json) {sql}")


def test_random_joins(con, covered, tmp_path):
    rng = random.Random(5)
    for _ in range(8):
        areas = " UNION ALL ".join(
            f"SELECT {envelope(rng.uniform(-180, 175), rng.uniform(-90, 85), rng.uniform(0, 8))} AS g"
            for _ in range(rng.randint(1, 3)))
        same(con, f"SELECT id, g FROM '{covered}' p JOIN ({areas}) a ON ST_Intersects(p.geometry, a.g)", tmp_path)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outward", [True, False])
def test_floats(con, tmp_path, outward):
    """As Overture Maps has them. The boxes of the filter begin and end exactly where geometries do."""
    rng = numpy.random.default_rng(4)
    geometries = shapes(rng, 4000)
    path = write(tmp_path / "floats.parquet", geometries, number=pyarrow.float32(), group=40, outward=outward)
    assert con.execute(f"SELECT typeof(bbox.xmin) FROM '{path}' LIMIT 1").fetchone()[0] == "FLOAT"
    bounds = shapely.bounds(geometries)
    for i in rng.integers(0, len(geometries), 40):
        left, bottom, right, top = (float(value) for value in bounds[i])
        for box in [(right, top, right + 1, top + 1), (left - 1, bottom - 1, left, bottom), (left - 1, top, left, top + 1)]:
            shape = "ST_MakeEnvelope({!r}, {!r}, {!r}, {!r})".format(*box)
            rows = same(con, f"SELECT id FROM '{path}' WHERE geometry && {shape}", tmp_path, most=50)
            assert (int(i),) in rows


def test_large_and_small_numbers(con, tmp_path):
    values = [0.0, 5e-324, 1e-46, 1e-40, 1.1, 16777217.0, 1e30, 3.5e38, 1e300]
    values = sorted([-v for v in values if v] + values)
    points = shapely.points(values, values)
    path = write(tmp_path / "extreme.parquet", points, number=pyarrow.float32(), group=1)
    doubles = write(tmp_path / "doubles.parquet", points, group=1)
    for x in values:
        for file in (path, doubles):
            rows = same(con, f"SELECT id FROM '{file}' WHERE ST_Intersects(geometry, ST_Point({x!r}, {x!r}))", tmp_path)
            assert rows == [(values.index(x),)]
            same(con, f"SELECT id FROM '{file}' WHERE geometry && ST_MakeEnvelope({x!r}, {x!r}, 1e308, 1e308)", tmp_path)


# --- NULL and EMPTY --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [pyarrow.float64(), pyarrow.float32()])
def test_null_and_empty(con, tmp_path, number):
    geometries = list(shapes(numpy.random.default_rng(3), 3000))
    empties = [shapely.from_wkt(t) for t in ("POINT EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY")]
    for i in range(0, 3000, 7):
        geometries[i] = None
    for i in range(0, 3000, 11):
        geometries[i] = empties[i % 3]
    for i in range(200, 300):  # whole row groups without a box
        geometries[i] = None if i < 250 else empties[0]
    path = write(tmp_path / "holes.parquet", geometries, number=number, group=50)
    shape = envelope(10, 20, 30)
    for condition in (f"ST_Intersects(geometry, {shape})", f"ST_Within(geometry, {shape})", f"geometry && {shape}",
                      f"ST_Equals(geometry, {shape})", f"ST_DWithin(geometry, {shape}, 1)"):
        same(con, f"SELECT id FROM '{path}' WHERE {condition}", tmp_path, most=40)
    for condition in ("ST_Equals(geometry, 'POINT EMPTY'::GEOMETRY)", "ST_Disjoint(geometry, ST_Point(0, 0))",
                      "ST_Distance(geometry, ST_Point(0, 0)) <= 1", "geometry IS NULL", "ST_IsEmpty(geometry)",
                      "ST_Intersects(geometry, 'POLYGON EMPTY'::GEOMETRY)", "geometry && 'POINT EMPTY'::GEOMETRY"):
        same(con, f"SELECT id FROM '{path}' WHERE {condition}", tmp_path)
    same(con, f"SELECT id, area FROM '{path}' p JOIN {AREAS} a ON ST_Intersects(p.geometry, a.g)", tmp_path)
    same(con, f"SELECT id, area FROM '{path}' p JOIN {AREAS} a ON ST_Equals(p.geometry, a.g)", tmp_path)
    same(con, f"SELECT id, area FROM '{path}' p JOIN {AREAS} a ON ST_Distance(p.geometry, a.g) < 1", tmp_path)


# --- files -----------------------------------------------------------------------------------------------------------

SHAPE = envelope(10, 20, 10)


@pytest.fixture
def halves(geometries):
    return geometries[: ROWS // 4], geometries[ROWS // 2: 3 * ROWS // 4]


def test_other_names(con, geometries, tmp_path):
    path = write(tmp_path / "names.parquet", geometries, box="the box's \"ünï\"", fields=("w", "s", "e", "n é"),
                 geometry="the geom")
    same(con, f"""SELECT id FROM '{path}' WHERE ST_Intersects("the geom", {SHAPE})""", tmp_path, most=GROUPS // 4)


def test_two_columns_of_geometries(con, geometries, tmp_path):
    """A covering speaks of its own column alone"""
    other = pyarrow.array(shapely.to_wkb(geometries[::-1]), pyarrow.binary())
    path = write(tmp_path / "two.parquet", geometries, extra={"other": other})
    metadata = pyarrow.parquet.read_schema(path).metadata
    geo = json.loads(metadata[b"geo"])
    geo["columns"]["other"] = {"encoding": "WKB", "geometry_types": []}
    table = pyarrow.parquet.read_table(path).replace_schema_metadata({"geo": json.dumps(geo)})
    pyarrow.parquet.write_table(table, path, row_group_size=GROUP)
    same(con, f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, most=GROUPS // 4)
    same(con, f"SELECT id FROM '{path}' WHERE ST_Intersects(other, {SHAPE})", tmp_path, all_of=GROUPS)


def test_boxes_of_geopandas(con, geometries, tmp_path):
    """It names the boxes of the active column for all columns"""
    path = tmp_path / "both.parquet"
    frame = geopandas.GeoDataFrame({"id": numpy.arange(len(geometries)), "other": geopandas.GeoSeries(geometries[::-1], crs="OGC:CRS84")},
                                   geometry=geometries, crs="OGC:CRS84")
    frame.to_parquet(path, write_covering_bbox=True, schema_version="1.1.0", row_group_size=GROUP)
    same(con, f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, most=GROUPS // 4)
    same(con, f"SELECT id FROM '{path}' WHERE ST_Intersects(other, {SHAPE})", tmp_path, all_of=GROUPS)


def test_aliases(con, geometries, tmp_path):
    """The boxes are those of the columns of the file, whatever the query calls them"""
    other = pyarrow.array(shapely.to_wkb(geometries[::-1]), pyarrow.binary())
    path = write(tmp_path / "two.parquet", geometries, extra={"other": other})
    names = pyarrow.parquet.read_schema(path).names
    called = [{"geometry": "a", "other": "geometry"}.get(name, name) for name in names]
    source = f"read_parquet('{path}') t({', '.join(called)})"
    same(con, f"SELECT id FROM {source} WHERE ST_Intersects(a, {SHAPE})", tmp_path, most=GROUPS // 4)
    for sql in (f"SELECT id FROM {source} WHERE ST_Intersects(ST_GeomFromWKB(geometry::BLOB), {SHAPE})",
                f"SELECT t.id FROM {source} JOIN (SELECT {SHAPE} AS zone) ON ST_Intersects(a, zone)"):
        same(con, sql, tmp_path)
    called = ["box" if name == "bbox" else name for name in names]
    same(con, f"SELECT id FROM '{path}' t({', '.join(called)}) WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, most=GROUPS // 4)


def test_a_file_that_is_written_again_at_once(con, geometries, tmp_path):
    """Time stamps may count whole seconds, and the size may be the same"""
    path = tmp_path / "again.parquet"
    for number, box in enumerate(("box1", "box2") * 3):
        write(path, geometries if number % 2 else geometries[::-1], box=box)
        os.utime(path, (1e9, time.time() // 1))
        same(con, f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, most=GROUPS // 2)


def test_file_without_covering(con, geometries, tmp_path):
    for name, how in {"none": {"covering": False}, "dropped": {"keep_box": False}}.items():
        path = write(tmp_path / f"{name}.parquet", geometries, **how)
        same(con, f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, all_of=GROUPS)


def test_several_files(con, halves, tmp_path):
    for i, half in enumerate(halves):
        write(tmp_path / f"part{i}.parquet", half, ids=numpy.arange(len(half)) + 100000 * i)
    rows = same(con, f"SELECT id, filename FROM read_parquet('{tmp_path}/*.parquet') WHERE ST_Intersects(geometry, {SHAPE})",
                tmp_path, most=GROUPS // 8)
    assert rows
    sql = f"SELECT id, area FROM '{tmp_path}/*.parquet' p JOIN {AREAS} a ON ST_Intersects(p.geometry, a.g)"
    same(con, sql, tmp_path, most=GROUPS // 8)


@pytest.mark.parametrize("how", [{"covering": False}, {"keep_box": False}, {"covering": False, "keep_box": False},
                                 {"box": "other"}])
@pytest.mark.parametrize("first", [0, 1])
def test_files_that_do_not_agree(con, halves, tmp_path, how, first):
    """No row group is left out, no row is missing, and no column is asked for that a file does not have"""
    write(tmp_path / f"part{first}.parquet", halves[0])
    write(tmp_path / f"part{1 - first}.parquet", halves[1], ids=numpy.arange(len(halves[1])) + 100000, **how)
    for source in (f"'{tmp_path}/*.parquet'", f"read_parquet('{tmp_path}/*.parquet', union_by_name := true)"):
        same(con, f"SELECT id FROM {source} WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, all_of=GROUPS // 2)
        same(con, f"SELECT id FROM {source} p JOIN {AREAS} a ON ST_Intersects(p.geometry, a.g)", tmp_path)


def test_floats_and_doubles(con, halves, tmp_path):
    write(tmp_path / "part0.parquet", halves[0])
    write(tmp_path / "part1.parquet", halves[1], ids=numpy.arange(len(halves[1])) + 100000, number=pyarrow.float32())
    for source in (f"'{tmp_path}/*.parquet'", f"read_parquet('{tmp_path}/*.parquet', union_by_name := true)"):
        same(con, f"SELECT id FROM {source} WHERE ST_Intersects(geometry, {SHAPE})", tmp_path)
        same(con, f"SELECT id FROM {source} p JOIN {AREAS} a ON ST_Intersects(p.geometry, a.g)", tmp_path)


def test_hive_partitions(con, halves, tmp_path):
    for i, half in enumerate(halves):
        (tmp_path / f"part={i}").mkdir()
        write(tmp_path / f"part={i}" / "data.parquet", half)
    sql = f"SELECT id, part FROM read_parquet('{tmp_path}/*/*.parquet') WHERE ST_Intersects(geometry, {SHAPE})"
    same(con, sql, tmp_path, most=GROUPS // 8)
    same(con, sql + " AND part = 1", tmp_path)


def test_file_is_written_again(con, halves, tmp_path):
    """What was known of a file is forgotten"""
    path = tmp_path / "again.parquet"
    sql = f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})"
    write(path, halves[1])
    same(con, sql, tmp_path, most=GROUPS // 8)
    write(path, halves[1], covering=False)
    same(con, sql, tmp_path, all_of=GROUPS // 4)
    write(path, halves[1], box="square")
    same(con, sql, tmp_path, most=GROUPS // 8)


def test_paths(con, halves, tmp_path):
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    quoted = str(folder).replace("'", "''")
    write(folder / "x.parquet", halves[1])
    write(folder / "x[1].parquet", halves[1])
    same(con, f"SELECT id FROM '{quoted}/x.parquet' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, most=GROUPS // 8)
    same(con, f"SELECT id FROM '{quoted}/x*.parquet' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path)
    path = write(tmp_path / "y.parquet", halves[1])
    same(con, f"SELECT id FROM 'file://{path}' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, most=GROUPS // 8)


def test_metadata_that_make_no_sense(con, halves, tmp_path):
    path = write(tmp_path / "odd.parquet", halves[1])
    table = pyarrow.parquet.read_table(path)
    right = json.loads(table.schema.metadata[b"geo"])
    odd = [{}, {"bbox": {}}, {"bbox": []}, {"bbox": None}, 3, {"bbox": {"xmin": ["bbox", "xmin"]}},
           {"bbox": {side: ["bbox", side, "deep"] for side in ("xmin", "ymin", "xmax", "ymax")}},
           {"bbox": {side: [side, 1] for side in ("xmin", "ymin", "xmax", "ymax")}},
           {"bbox": {side: ["id", side] for side in ("xmin", "ymin", "xmax", "ymax")}},
           {"bbox": {side: ["bbox", "nothing"] for side in ("xmin", "ymin", "xmax", "ymax")}}]
    for i, covering in enumerate(odd):
        right["columns"]["geometry"]["covering"] = covering
        path = tmp_path / f"odd{i}.parquet"
        pyarrow.parquet.write_table(table.replace_schema_metadata({"geo": json.dumps(right)}), path, row_group_size=GROUP)
        same(con, f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})", tmp_path, all_of=GROUPS // 4)


def test_no_external_access(connect, halves, tmp_path):
    path = write(tmp_path / "inside.parquet", halves[1])
    with connect() as con:
        con.execute(f"SET allowed_directories = ['{tmp_path}']")
        con.execute("SET enable_external_access = false")
        rows = con.execute(f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})").fetchall()
        con.execute("SET vibe_rewrites = false")
        assert rows == con.execute(f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})").fetchall()


def test_prepared_and_tables(con, halves, tmp_path):
    path = write(tmp_path / "prepared.parquet", halves[1])
    con.execute(f"CREATE TABLE kept AS FROM '{path}'")
    same(con, f"SELECT id FROM kept WHERE ST_Intersects(geometry, {SHAPE})", tmp_path)
    for x in (10, 12):
        sql = f"SELECT id FROM '{path}' WHERE ST_Intersects(geometry, ST_MakeEnvelope(?, 20, 18, 25)) ORDER BY id"
        rows = con.execute(sql, [x]).fetchall()
        expected = con.execute(sql.replace(f"'{path}'", "kept"), [x]).fetchall()
        assert rows == expected
    con.execute(f"INSERT INTO kept SELECT * FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})")
    con.execute(f"COPY (FROM '{path}' WHERE ST_Intersects(geometry, {SHAPE})) TO '{tmp_path}/copy.parquet'")


# --- native encodings ------------------------------------------------------------------------------------------------


def of_kind(kind, count=600):
    rng = numpy.random.default_rng(len(kind))
    x, y = rng.uniform(-180, 170, count), rng.uniform(-90, 80, count)
    lines = shapely.linestrings(numpy.stack([x, y, x + 1, y + 2, x + 3, y], 1).reshape(count, 3, 2))
    areas = shapely.buffer(shapely.points(x, y), rng.uniform(0.1, 2, count), quad_segs=3)
    holes = shapely.difference(areas, shapely.buffer(shapely.points(x, y), 0.05, quad_segs=2))
    pairs = numpy.arange(count) // 3
    if kind == "point":
        return shapely.points(x, y)
    if kind == "linestring":
        return lines
    if kind == "polygon":
        return holes
    if kind == "multipoint":
        return shapely.multipoints(shapely.points(x, y), indices=pairs)
    if kind == "multilinestring":
        return shapely.multilinestrings(lines, indices=pairs)
    return shapely.multipolygons(holes, indices=pairs)


KINDS = ["point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flat", [True, False])
def test_native(con, tmp_path, kind, flat):
    """Written by geopandas in a native encoding: the same geometries as in WKB, also Z, NULL and EMPTY"""
    geometries = of_kind(kind)
    if not flat:
        geometries = shapely.force_3d(geometries, 7.5)
    empty = type(geometries[0])()
    if not flat and kind == "point":
        empty = None  # geopandas cannot write POINT Z EMPTY
    geometries = list(geometries)
    geometries[3] = None
    geometries[5] = empty if empty is not None and flat else geometries[5]
    frame = geopandas.GeoDataFrame({"id": numpy.arange(len(geometries))}, geometry=geometries, crs="OGC:CRS84")
    native, wkb = tmp_path / "native.parquet", tmp_path / "wkb.parquet"
    frame.to_parquet(native, geometry_encoding="geoarrow", schema_version="1.1.0")
    frame.to_parquet(wkb, schema_version="1.1.0")
    assert json.loads(pyarrow.parquet.read_schema(native).metadata[b"geo"])["columns"]["geometry"]["encoding"] == kind
    columns = con.execute(f"DESCRIBE FROM vibe_read_geoparquet('{native}')").fetchall()
    assert columns == con.execute(f"DESCRIBE FROM read_parquet('{wkb}')").fetchall()
    rows = con.execute(f"SELECT id, ST_AsWKB(geometry) FROM vibe_read_geoparquet('{native}') ORDER BY id").fetchall()
    assert rows == con.execute(f"SELECT id, ST_AsWKB(geometry) FROM '{wkb}' ORDER BY id").fetchall()
    assert rows == con.execute(f"SELECT id, ST_AsWKB(geometry) FROM vibe_read_geoparquet('{wkb}') ORDER BY id").fetchall()
    assert sum(row[1] is None for row in rows) == 1


@pytest.fixture(scope="module")
def native_points(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "points.parquet"
    rng = numpy.random.default_rng(9)
    frame = geopandas.GeoDataFrame(geometry=shapely.points(rng.uniform(-180, 180, ROWS), rng.uniform(-90, 90, ROWS)),
                                   crs="OGC:CRS84")
    frame = frame.iloc[numpy.argsort(frame.hilbert_distance().values)].reset_index(drop=True)
    frame["id"] = numpy.arange(ROWS)
    frame.to_parquet(path, geometry_encoding="geoarrow", schema_version="1.1.0", row_group_size=GROUP)
    return path


@pytest.mark.parametrize("sql", [
    "SELECT id FROM {} p WHERE ST_Within(geometry, ST_MakeEnvelope(10, 20, 15, 25))",
    "SELECT * FROM {} p WHERE ST_DWithin(ST_Point(10, 20), geometry, 4) AND id % 2 = 0",
    "SELECT count(*) FROM {} p WHERE geometry && ST_MakeEnvelope(10, 20, 15, 25)",
    "SELECT id, area FROM {} p JOIN " + AREAS + " a ON ST_Intersects(p.geometry, a.g)",
    "SELECT area, count(*) FROM {} p JOIN " + AREAS + " a ON ST_DWithin(p.geometry, a.g, 1) GROUP BY area",
    "SELECT p.id FROM {} p SEMI JOIN " + AREAS + " a ON ST_Within(p.geometry, a.g)",
])
def test_native_points_leave_out_row_groups(con, native_points, tmp_path, sql):
    assert same(con, sql.format(f"vibe_read_geoparquet('{native_points}')"), tmp_path, most=GROUPS // 4)


def test_native_rows_are_shapelys(con, native_points):
    points = geopandas.read_parquet(native_points)
    box = shapely.box(10, 20, 40, 50)
    rows = con.execute(f"""SELECT id FROM vibe_read_geoparquet('{native_points}')
                           WHERE ST_Intersects(geometry, ST_MakeEnvelope(10, 20, 40, 50)) ORDER BY id""").fetchall()
    assert [row[0] for row in rows] == points.id[points.intersects(box)].tolist()


def test_read_geoparquet_parameters(con, native_points, covered, data, tmp_path):
    source = f"vibe_read_geoparquet('{native_points}', filename := true, file_row_number := true)"
    names = [row[0] for row in con.execute(f"DESCRIBE FROM {source}").fetchall()]
    assert sorted(names) == ["file_row_number", "filename", "geometry", "id"]
    twice = f"vibe_read_geoparquet(['{native_points}', '{native_points}'])"
    assert con.execute(f"SELECT count(*) FROM {twice}").fetchone()[0] == 2 * ROWS
    same(con, f"SELECT id FROM vibe_read_geoparquet('{covered}') WHERE ST_Within(geometry, {SHAPE})", tmp_path,
         most=GROUPS // 4)
    for file in ("cities", "countries"):
        sql = "SELECT count(*), sum(hash(columns(*)::VARCHAR)) FROM {}('{}')"
        assert (con.execute(sql.format("vibe_read_geoparquet", data / f"{file}.parquet")).fetchall()
                == con.execute(sql.format("read_parquet", data / f"{file}.parquet")).fetchall())


def test_read_geoparquet_errors(con, tmp_path, native_points):
    with pytest.raises(Exception, match="No files found"):
        con.execute(f"FROM vibe_read_geoparquet('{tmp_path}/nothing*.parquet')")
    with pytest.raises(Exception, match="a name or a list"):
        con.execute("FROM vibe_read_geoparquet(1)")
    for kind in ("linestring", "multipoint"):
        frame = geopandas.GeoDataFrame(geometry=of_kind(kind), crs="OGC:CRS84")
        frame.to_parquet(tmp_path / f"{kind}.parquet", geometry_encoding="geoarrow", schema_version="1.1.0")
    with pytest.raises(Exception, match="encoded as multipoint"):
        con.execute(f"FROM vibe_read_geoparquet('{tmp_path}/*.parquet')")
    (tmp_path / "no.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(Exception, match="(?i)parquet"):
        con.execute(f"FROM vibe_read_geoparquet('{tmp_path}/no.parquet')")


def test_from_native(con):
    """Values of SQL, not of a file"""
    line = "[{'x': 1, 'y': 2, 'm': 9.5}, {'x': 3, 'y': 4, 'm': 8}]"
    cases = {
        "{'x': 1, 'y': 2}, 'point'": "POINT (1 2)",
        "{'x': 1, 'y': 2::FLOAT, 'z': 3, 'm': 4}, 'Point'": "POINT ZM (1 2 3 4)",
        "{'x': 1, 'y': NULL}, 'point'": None,
        "NULL, 'polygon'": None,
        f"{line}, 'linestring'": "LINESTRING M (1 2 9.5, 3 4 8)",
        f"{line}, 'multipoint'": "MULTIPOINT M (1 2 9.5, 3 4 8)",
        f"[{line}, []], 'multilinestring'": "MULTILINESTRING M ((1 2 9.5, 3 4 8), EMPTY)",
        "[]::STRUCT(x DOUBLE, y DOUBLE)[][], 'polygon'": "POLYGON EMPTY",
    }
    for call, expected in cases.items():
        assert con.execute(f"SELECT vibe_from_native({call})::VARCHAR").fetchone()[0] == expected, call
    for call in ("[{'x': 1, 'y': 2}, NULL], 'linestring'", "[NULL, [{'x': 1, 'y': 2}]], 'polygon'",
                 "[{'x': 1, 'y': NULL}], 'multipoint'"):
        with pytest.raises(Exception, match="a part of a geometry is NULL"):
            con.execute(f"SELECT vibe_from_native({call})").fetchall()
    for call, message in {"1, 'point'": "a struct of x, y", "{'x': 1, 'y': 2}, 'box'": "is no encoding",
                          "{'x': 1, 'y': 2}, 'linestring'": "a linestring is a", "{'y': 1, 'x': 2}, 'point'": "a struct of x, y"
                          }.items():
        with pytest.raises(Exception, match=message):
            con.execute(f"SELECT vibe_from_native({call})")
    # Beside the value that it is made of, which it leaves as it is
    con.execute("CREATE TABLE halves AS SELECT {'x': i, 'y': CASE WHEN i % 3 > 0 THEN i END} AS p FROM range(5000) t(i)")
    rows = con.execute("SELECT p, vibe_from_native(p, 'point') IS NULL FROM halves").fetchall()
    assert all((p["y"] is None) == null and p["x"] == i for i, (p, null) in enumerate(rows))


def native_file(path, crs="EPSG:3857", **columns):
    frame = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=[shapely.Point(1, 2), shapely.Point(3, 4)], crs=crs)
    frame.to_parquet(path, geometry_encoding="geoarrow", schema_version="1.1.0")
    return path


def test_native_files_that_differ(con, tmp_path):
    """The column may come from any of the files, and has one CRS"""
    points = native_file(tmp_path / "points.parquet")
    bare, nothing, stale = (tmp_path / f"{name}.parquet" for name in ("bare", "nothing", "stale"))
    table = pyarrow.parquet.read_table(points)
    pyarrow.parquet.write_table(table.replace_schema_metadata(None), bare)
    pyarrow.parquet.write_table(table.select(["id"]).replace_schema_metadata(None), nothing)
    pyarrow.parquet.write_table(table.select(["id"]).replace_schema_metadata(table.schema.metadata), stale)
    for files in ((points, bare), (bare, points), (points, nothing), (nothing, points), (stale, points)):
        listed = ", ".join(f"'{path}'" for path in files)
        rows = con.execute(f"SELECT typeof(geometry), count(geometry) FROM vibe_read_geoparquet([{listed}], union_by_name := true) GROUP BY ALL").fetchall()
        assert len(rows) == 1 and "3857" in rows[0][0] and rows[0][1] == 2 * sum(path in (points, bare) for path in files)
    assert con.execute(f"FROM vibe_read_geoparquet('{stale}')").fetchall() == [(1,), (2,)]
    other = native_file(tmp_path / "other.parquet", "EPSG:32633")
    with pytest.raises(duckdb.BinderException, match='"geometry" has the CRS EPSG:32633 in .* but EPSG:3857 in another file'):
        con.execute(f"FROM vibe_read_geoparquet(['{points}', '{other}'])")


def test_search_path(con, tmp_path):
    native_file(tmp_path / "points.parquet", "OGC:CRS84")
    con.execute(f"SET file_search_path = '{tmp_path}'")
    try:
        assert con.execute("SELECT typeof(geometry) FROM vibe_read_geoparquet('points.parquet') LIMIT 1").fetchall() == [("GEOMETRY('OGC:CRS84')",)]
    finally:
        con.execute("RESET file_search_path")
