"""What vibespatial.ray reads: files whose boxes are of another column, names that look like patterns, types that differ, and faults that pass."""
import collections
import os
import socket
import sys
import threading

import duckdb
import pyarrow
import pytest

from conftest import ROOT

LOCAL = {"executor": "local"}
WAYS = [{"broadcast": "never", "partitions": 4, "exchange": "shuffle"}, {"broadcast": "never", "partitions": 4, "exchange": "direct"}]


def arrow(result):
    return (getattr(result, "to_arrow_table", None) or result.fetch_arrow_table)()


def bag(table):
    return collections.Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture(scope="session")
def vibe(extension, tmp_path_factory):
    """The Python package of this checkout, with the extension that was built for this version of DuckDB."""
    folder = tmp_path_factory.mktemp("extensions")
    (folder / f"v{duckdb.__version__}").mkdir()
    (folder / f"v{duckdb.__version__}" / "vibespatial.duckdb_extension").symlink_to(extension)
    sys.path.insert(0, str(ROOT / "python"))
    try:
        import vibespatial.ray
    finally:
        sys.path.remove(str(ROOT / "python"))
    vibespatial._extension._FOLDER = folder
    yield vibespatial
    databases = vibespatial.ray._engine._open
    for one in databases.values():
        one.close()
    databases.clear()


# ---- boxes

@pytest.fixture(scope="module")
def boxed(vibe, con_of_module, tmp_path_factory):
    """Two folders of GeoParquet with a box of `geom` for each row; in the first, `other` lies elsewhere."""
    place = tmp_path_factory.mktemp("boxed")
    for name, columns in (("a", "ST_Point(i % 40, i // 40) AS geom, ST_Point(39 - i % 40, 39 - i // 40) AS other"), ("b", "ST_Point(i % 40 + 0.5, i // 40) AS geom")):
        (place / name).mkdir()
        for part in range(8):
            with open(place / name / f"{part}.parquet", "wb") as file:
                sql = f"SELECT i AS id, {columns} FROM range({part * 200}, {part * 200 + 200}) t(i)"
                vibe.ray._output.write_parquet(con_of_module, sql, file, None)
    return place


@pytest.fixture(scope="module")
def con_of_module(connect):
    with connect() as connection:
        yield connection


@pytest.mark.parametrize("geometry", ["geom", "other", "ST_Buffer(geom, 4.0)", "ST_FlipCoordinates(geom)"])
def test_boxes_count_for_their_own_column_alone(vibe, con_of_module, boxed, geometry):
    """A row group is not left out by the boxes of another column, or of what an expression starts from."""
    (one,) = [group.box for group in vibe.ray._inputs._footer(None, str(boxed / "a" / "1.parquet")).groups]
    assert one == (0, 5, 39, 9)
    moved = geometry.replace("geom", "l.geom").replace("other", "l.other")
    on = f"ST_DWithin({moved}, r.geom, 0.6)"
    for how in ("inner", "left"):
        expected = bag(arrow(con_of_module.execute(f"SELECT l.id, r.id AS other_id FROM '{boxed}/a/*.parquet' l {how} JOIN '{boxed}/b/*.parquet' r ON {on}")))
        for way in WAYS:
            result = vibe.ray.sjoin(boxed / "a", boxed / "b", "dwithin", how, ["l.id", "r.id AS other_id"], distance=0.6, left_geometry=geometry,
                                    right_geometry="geom", **way, **LOCAL)
            assert bag(result.to_arrow()) == expected, (how, way)


def test_neighbours_and_queries_of_another_column(vibe, con_of_module, boxed):
    left = f"SELECT id, other AS geom FROM ''{boxed}/a/*.parquet''"
    right = f"SELECT id AS near, geom FROM ''{boxed}/b/*.parquet''"
    expected = bag(arrow(con_of_module.execute(f"SELECT id, distance FROM vibe_knn('{left}', '{right}', 1, left_columns := ['id'], right_columns := ['near'])")))
    result = vibe.ray.knn(boxed / "a", boxed / "b", 1, ["l.id"], left_geometry="other", **WAYS[1], **LOCAL)
    assert bag(result.to_arrow().select(["id", "distance"])) == expected
    query = "SELECT p.id, z.id AS z FROM p JOIN z ON ST_DWithin(p.other, z.geom, 0.6)"
    tables = {"p": boxed / "a", "z": boxed / "b"}
    expected = bag(arrow(con_of_module.execute(query.replace("FROM p", f"FROM '{boxed}/a/*.parquet' p").replace("JOIN z", f"JOIN '{boxed}/b/*.parquet' z"))))
    assert bag(vibe.ray.sql(query, tables, {"p": "other", "z": "geom"}, distance=0.6, partitions=4, **LOCAL).to_arrow()) == expected


# ---- names

def ids(vibe, source, **options):
    """The numbers of the rows that are read of a table or of files."""
    return sorted(row["id"] for row in vibe.ray.sql("SELECT id FROM t", {"t": source}, "t", **options, **LOCAL).to_arrow().to_pylist())


def test_a_name_that_looks_like_a_pattern(vibe, con, tmp_path):
    for folder, first in (("x[1]", 0), ("x1", 100)):
        (tmp_path / folder).mkdir()
        con.execute(f"COPY (SELECT i AS id FROM range({first}, {first + 5}) t(i)) TO '{tmp_path}/{folder}/a?.parquet'")
    con.execute(f"COPY (SELECT 200 AS id) TO '{tmp_path}/x1/ab.parquet'")
    for path in (tmp_path / "x[1]", tmp_path / "x[1]" / "a?.parquet"):
        assert ids(vibe, path) == [0, 1, 2, 3, 4]
    assert ids(vibe, tmp_path / "x1" / "a?.parquet") == [100, 101, 102, 103, 104]
    # What is there by no such name is a pattern
    assert ids(vibe, tmp_path / "x1" / "*b.parquet") == [200]


def test_a_name_that_looks_like_a_pattern_of_fsspec(vibe, con, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for folder, first in (("x[1]", 0), ("x1", 100)):
        con.execute(f"COPY (SELECT {first} AS id) TO '{tmp_path}/a.parquet'")
        memory.pipe_file(f"/names/{folder}/a.parquet", (tmp_path / "a.parquet").read_bytes())
    assert ids(vibe, "memory://names/x[1]") == ids(vibe, "memory://names/x[1]/a.parquet") == [0]
    assert ids(vibe, "memory://names/x?/a.parquet") == [100]


def test_paths_that_have_their_protocol(vibe):
    """The file system of HTTP in fsspec keeps it."""
    Source, scan = vibe.ray._inputs.Source, vibe.ray._engine._file_scan

    class Connection:
        def list_filesystems(self):
            return ["https", "s3"]

    assert "'https://host/a.parquet'" in scan(Connection(), Source("t", (), None, protocol="https"), ["https://host/a.parquet"])
    assert "'https://host/a[[]1].parquet?key=1'" in scan(Connection(), Source("t", (), None, protocol="https"), ["https://host/a[1].parquet?key=1"])
    assert "'s3://lake/a.parquet'" in scan(Connection(), Source("t", (), None, protocol="s3"), ["lake/a.parquet"])


# ---- types

@pytest.mark.parametrize("way", [*WAYS, {"broadcast": "right"}, {"broadcast": "left"}])
def test_files_whose_types_differ(vibe, con, tmp_path, way):
    for part, kind, first in ((0, "INTEGER", 0), (1, "BIGINT", 5_000_000_000)):
        con.execute(f"COPY (SELECT ({first} + i)::{kind} AS id, (i % 5)::{kind} AS kind, ST_Point(i % 20, i // 20) AS geom FROM range(200) t(i)) TO '{tmp_path}/{part}.parquet'")
    points = arrow(con.execute("SELECT ST_Point(i % 20, i // 20) AS geom FROM range(200) t(i)"))
    found = vibe.ray.sjoin(tmp_path, points, "equals", "left", ["l.id", "l.kind"], **way, **LOCAL).to_arrow()
    assert bag(found) == bag(arrow(con.execute(f"SELECT id, kind FROM read_parquet('{tmp_path}/*.parquet', union_by_name = true)")))
    assert found.schema.types == [pyarrow.int64(), pyarrow.int64()]


def test_folders_that_name_values(vibe, con, tmp_path):
    """Their type is that of all values, though some of them look like numbers."""
    for value in ("1", "02", "x"):
        (tmp_path / "all" / f"k={value}").mkdir(parents=True)
        con.execute(f"COPY (SELECT i AS id, ST_Point(i, i) AS geom FROM range(10) t(i)) TO '{tmp_path}/all/k={value}/a.parquet'")
    points = arrow(con.execute("SELECT ST_Point(i, i) AS geom FROM range(8) t(i)"))
    for way in ({"broadcast": "right"}, *WAYS):
        result = vibe.ray.sjoin(tmp_path / "all", points, "intersects", select=["l.k"], aggregate={"n": "count(*)"}, **way, **LOCAL)
        assert bag(result.to_arrow()) == {("1", 8): 1, ("02", 8): 1, ("x", 8): 1}, way
    # Where some folders name none, none is a column
    con.execute(f"COPY (SELECT i AS id, ST_Point(i, i) AS geom FROM range(10) t(i)) TO '{tmp_path}/all/a.parquet'")
    assert vibe.ray.plan("sql", "SELECT * FROM t", {"t": tmp_path / "all"}, "t", **LOCAL).empty.schema.names == ["id", "geom"]


def test_columns_with_names_of_ours_are_refused(vibe, con):
    table = arrow(con.execute("SELECT 1 AS _vibe_id, ST_Point(0, 0) AS geom"))
    with pytest.raises(ValueError, match="left: the column _vibe_id must have another name"):
        vibe.ray.plan("sjoin", table, table, **LOCAL)


# ---- faults

@pytest.mark.parametrize("error", [duckdb.HTTPException("HTTP GET error 503"), duckdb.IOException("Could not write file: No space left on device"), None])
def test_a_fault_that_is_not_of_the_data_leaves_nothing_out(vibe, con, tmp_path, monkeypatch, error):
    """A storage that answers no more, a disk that is full, and a fault that has passed when the row group is looked at again."""
    engine = vibe.ray._engine
    con.execute(f"COPY (SELECT i AS id, ST_Point(i, i) AS geom FROM range(10) t(i)) TO '{tmp_path}/a.parquet'")
    passing = iter([duckdb.IOException("the storage has not answered")] * 2)
    rows, looked, paused = engine.block_rows, [], []

    def faulty(*arguments, **keywords):
        if arguments[2].path:
            looked.append(arguments[2].path)
            fault = error or next(passing, None)
            if fault:
                raise fault
        return rows(*arguments, **keywords)

    monkeypatch.setattr(engine, "block_rows", faulty)
    monkeypatch.setattr(engine.time, "sleep", paused.append)
    with pytest.raises(duckdb.Error, match=str(error or "the storage has not answered").split(":")[0]):
        vibe.ray.sql("SELECT id FROM t", {"t": tmp_path / "a.parquet"}, "t", on_error="skip", **LOCAL)
    assert (len(looked), len(paused)) == ((1, 0) if error else (3, 1))


def test_a_row_group_that_cannot_be_read_is_looked_at_twice(vibe, con, tmp_path, monkeypatch):
    con.execute(f"COPY (SELECT i AS id, ST_Point(i, i) AS geom FROM range(10) t(i)) TO '{tmp_path}/a.parquet'")
    paused = []
    monkeypatch.setattr(vibe.ray._engine.time, "sleep", paused.append)
    result = vibe.ray.sjoin(tmp_path / "a.parquet", tmp_path / "a.parquet", "equals", select=["l.id"], broadcast="right", on_error="skip",
                            left_geometry="CASE WHEN id = 7 THEN error('bad row') ELSE geom END", **LOCAL)
    assert result.rows == 0 and [(os.path.basename(path), group) for path, group, _ in result.skipped] == [("a.parquet", 0)] and len(paused) == 1


def test_locks_of_others_are_left_alone(vibe, tmp_path):
    """What is no file would keep the task waiting, and a link may lead anywhere."""
    folders = [tmp_path / f"vibespatial-ray-{socket.gethostname()}-{name}" for name in ("pipe", "link", "dead")]
    for folder in folders:
        folder.mkdir()
    os.mkfifo(folders[0] / "lock")
    (tmp_path / "theirs").touch()
    (folders[1] / "lock").symlink_to(tmp_path / "theirs")
    (folders[2] / "lock").touch()
    found = []
    settings = vibe.ray._options.Settings(2**30, temp_directory=str(tmp_path))
    thread = threading.Thread(target=lambda: found.append(vibe.ray._engine._temporary(settings)), daemon=True)
    thread.start()
    thread.join(20)
    assert found and folders[0].exists() and folders[1].exists() and not folders[2].exists()
