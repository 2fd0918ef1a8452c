"""vibespatial.ray.sjoin gives the rows of one process: all kinds of joins, predicates and exchanges, for any number of partitions."""
import collections
import json
import math
import os
import random
import shutil
from fractions import Fraction

import pyarrow
import pyarrow.parquet
import pytest
import vibespatial
import vibespatial.ray

HOW = ["inner", "left", "right", "full", "semi", "anti"]
PREDICATES = ["intersects", "within", "contains", "covers", "coveredby", "touches", "crosses", "overlaps", "equals", "contains_properly", "dwithin"]
SQL = {"contains_properly": "ST_ContainsProperly", "coveredby": "ST_CoveredBy"}
# How the rows get to their tasks
WAYS = [("never", "shuffle", 1), ("never", "shuffle", 2), ("never", "direct", 3), ("never", "shuffle", 7), ("left", "auto", 3), ("right", "auto", 3)]


def bag(table):
    return collections.Counter(tuple(row.values()) for row in table.to_pylist())


def arrow(result):
    return (getattr(result, "to_arrow_table", None) or result.fetch_arrow_table)()


@pytest.fixture(scope="module")
def one(pair):
    """One process: the same query on the whole of both layers."""
    con = vibespatial.connect(threads=2)
    con.register("a", pair[0])
    con.register("b", pair[1])

    def ask(predicate, how, items="l.id, r.id AS other", tables=("a", "b")):
        on = "ST_DWithin(l.geom, r.geom, 1.5)" if predicate == "dwithin" else f"{SQL.get(predicate, f'ST_{predicate}')}(l.geom, r.geom)"
        items = "l.id" if how in ("semi", "anti") and items.startswith("l.id, r") else items
        return arrow(con.execute(f"SELECT {items} FROM {tables[0]} l {how} JOIN {tables[1]} r ON {on}"))

    return ask


def ray_join(pair, predicate, how, **options):
    select = ["l.id"] if how in ("semi", "anti") else ["l.id", "r.id AS other"]
    distance = {"distance": 1.5} if predicate == "dwithin" else {}
    return vibespatial.ray.sjoin(*pair, predicate, how, select, **distance, **{"executor": "local", **options})


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("predicate", ["intersects", "touches", "dwithin"])
def test_every_join_on_every_way(pair, one, predicate, how):
    expected = bag(one(predicate, how))
    assert len(expected) > 10
    for broadcast, exchange, partitions in WAYS:
        result = ray_join(pair, predicate, how, broadcast=broadcast, exchange=exchange, partitions=partitions)
        assert bag(result.to_arrow()) == expected, (broadcast, exchange, partitions)
        assert result.rows == sum(expected.values())


@pytest.mark.parametrize("how", HOW)
def test_the_smaller_side_may_be_any(pair, how):
    """The index is on the side of fewer rows, whichever is kept: here on the left one, and on some partitions' right one."""
    few = pair[0].slice(0, 60)
    for tables in ((few, pair[1]), (pair[0], pair[1].slice(0, 30))):
        con = vibespatial.connect(threads=1)
        con.register("a", tables[0])
        con.register("b", tables[1])
        items = "l.id" if how in ("semi", "anti") else "l.id, r.id AS other"
        expected = bag(arrow(con.execute(f"SELECT {items} FROM a l {how} JOIN b r ON ST_Intersects(l.geom, r.geom)")))
        assert len(expected) > 10
        for broadcast, exchange, partitions in WAYS:
            assert bag(ray_join(tables, "intersects", how, broadcast=broadcast, exchange=exchange, partitions=partitions).to_arrow()) == expected


def test_points_need_no_second_round(pair):
    """Each of them is in one partition, so a left join with them is settled in the first round."""
    con = vibespatial.connect(threads=1)
    con.register("a", pair[0])
    points = arrow(con.execute("SELECT id, ST_Point(id % 40, id // 40) AS geom FROM a"))
    for tables, how, settles in (((points, pair[1]), "left", False), ((points, pair[1]), "anti", False), ((points, pair[1]), "right", True), (pair, "left", True)):
        result = ray_join(tables, "intersects", how, broadcast="never", exchange="shuffle", partitions=5)
        assert any(report.label.startswith("settle") for report in result.reports) == settles


@pytest.mark.parametrize("predicate", PREDICATES)
def test_every_predicate(pair, one, predicate):
    for how in ("full", "anti"):
        assert bag(ray_join(pair, predicate, how, broadcast="never", partitions=5).to_arrow()) == bag(one(predicate, how))


@pytest.mark.parametrize("seed", range(4))
def test_random_points_and_boxes(seed):
    """Coordinates that are no round numbers, a self join, and more partitions than there is use for."""
    numbers = random.Random(seed)
    centres = [(numbers.gauss(0, 1), numbers.gauss(0, 1)) for _ in range(200)]
    texts = [f"POLYGON (({x} {y}, {x + w} {y}, {x + w} {y + w}, {x} {y}))" for (x, y), w in ((c, numbers.expovariate(3)) for c in centres)]
    con = vibespatial.connect(threads=1)
    con.register("t", pyarrow.table({"id": range(len(texts)), "text": texts}))
    table = arrow(con.execute("SELECT id, CAST(text AS GEOMETRY) AS geom FROM t"))
    con.register("boxes", table)
    expected = bag(arrow(con.execute("SELECT l.id, r.id AS other FROM boxes l JOIN boxes r ON ST_Intersects(l.geom, r.geom)")))
    for partitions in (2, 7, 40):
        assert bag(ray_join((table, table), "intersects", "inner", broadcast="never", partitions=partitions).to_arrow()) == expected


def test_a_further_condition_is_part_of_the_join(pair):
    con = vibespatial.connect(threads=1)
    con.register("a", pair[0])
    con.register("b", pair[1])
    expected = bag(arrow(con.execute("SELECT l.id, r.id AS other FROM a l LEFT JOIN b r ON ST_Intersects(l.geom, r.geom) AND l.kind = r.kind")))
    for broadcast in ("never", "right"):
        result = ray_join(pair, "intersects", "left", condition="l.kind = r.kind", broadcast=broadcast, partitions=4)
        assert bag(result.to_arrow()) == expected


# ---- aggregates

AGGREGATES = {"n": "count(*)", "some": "count(r.id)", "ids": "count(DISTINCT l.id)", "total": "sum(l.amount)", "mean": "avg(l.amount)",
              "least": "min(r.kind)", "most": "max(l.id)", "whole": "sum(l.id)", "whole_mean": "avg(l.id)"}


def exact(rows):
    """The aggregates by rational arithmetic."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["kind"]].append(row)
    result = []
    for kind, found in sorted(groups.items()):
        amounts = [Fraction(row["amount"]) for row in found if row["amount"] is not None]
        others = [row["other_kind"] for row in found if row["other_kind"] is not None]
        ids = [row["id"] for row in found]
        result.append((kind, len(found), sum(row["other"] is not None for row in found), len(set(ids)), float(sum(amounts)),
                       float(sum(amounts) / len(amounts)), min(others), max(ids), sum(ids), sum(ids) / len(ids)))
    return result


def test_aggregates_are_exact_and_the_same_for_any_distribution(pair, one):
    items = "l.kind, l.id, l.amount, r.id AS other, r.kind AS other_kind"
    for how in ("inner", "left", "full"):
        expected = exact([row for row in one("intersects", how, items).to_pylist() if row["id"] is not None])
        for broadcast, exchange, partitions in WAYS:
            table = vibespatial.ray.sjoin(*pair, "intersects", how, ["l.kind"], AGGREGATES, executor="local", broadcast=broadcast,
                                          exchange=exchange, partitions=partitions).to_arrow()
            rows = [tuple(int(value) if name == "whole" else value for name, value in row.items()) for row in table.to_pylist() if row["kind"] is not None]
            assert rows == expected, (how, broadcast, partitions)
    # The sums would differ if they were added in doubles
    assert len({math.fsum([1e16, 0.1, -1e16]), (1e16 + 0.1) - 1e16}) == 2


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("key", ["l.kind", "r.kind"])
def test_aggregates_of_one_pass(pair, how, key):
    """Without sums of doubles: rows of a side that is broadcast are settled by the groups alone."""
    con = vibespatial.connect(threads=1)
    con.register("a", pair[0])
    con.register("b", pair[1])
    expected = bag(arrow(con.execute(f"SELECT {key}, count(*) AS n, count(r.id) AS some, count(DISTINCT l.id) AS ids, max(r.id) AS most "
                                     f"FROM a l {how} JOIN b r ON ST_Intersects(l.geom, r.geom) GROUP BY ALL")))
    for broadcast, exchange, partitions in WAYS:
        table = vibespatial.ray.sjoin(*pair, "intersects", how, [key], {"n": "count(*)", "some": "count(r.id)", "ids": "count(DISTINCT l.id)", "most": "max(r.id)"},
                                      executor="local", broadcast=broadcast, exchange=exchange, partitions=partitions).to_arrow()
        assert bag(table) == expected, (broadcast, exchange, partitions)


def test_sums_of_what_is_no_number():
    values = [1.0, float("inf"), 2.0, None, float("nan"), float("-inf"), 5e-324, -0.0]
    con = vibespatial.connect(threads=1)
    con.register("t", pyarrow.table({"v": values, "k": [0, 0, 1, 1, 2, 3, 4, 5]}))
    table = arrow(con.execute("SELECT v, k, ST_Point(k, k) AS geom FROM t"))
    rows = vibespatial.ray.sjoin(table, table, "equals", "inner", ["l.k"], {"s": "sum(l.v)"}, executor="local", broadcast="never", partitions=3)
    found = {row["k"]: row["s"] for row in rows.to_arrow().to_pylist()}
    # 0: 1 + inf, twice; 1: 2 and NULL; the rest alone
    assert found[0] == math.inf and found[1] == 4.0 and math.isnan(found[2]) and found[3] == -math.inf and found[4] == 5e-324 and found[5] == 0.0


def test_no_rows_and_no_groups(pair):
    far = pair[1].slice(0, 0)
    for broadcast in ("never", "right"):
        table = vibespatial.ray.sjoin(pair[0], far, "intersects", "inner", aggregate={"n": "count(*)", "s": "sum(l.amount)"}, executor="local",
                                      broadcast=broadcast).to_arrow()
        assert table.to_pylist() == [{"n": 0, "s": None}]
        assert vibespatial.ray.sjoin(pair[0], far, executor="local", broadcast=broadcast).to_arrow().num_rows == 0
        assert vibespatial.ray.sjoin(pair[0], far, "intersects", "left", executor="local", broadcast=broadcast).rows == pair[0].num_rows


# ---- files in, files out

@pytest.fixture(scope="module")
def folder(tmp_path_factory, pair):
    """The layers as folders of Parquet: one of small row groups with boxes, one plain."""
    place = tmp_path_factory.mktemp("layers")
    con = vibespatial.connect(threads=1)
    for name, table in zip("ab", pair):
        con.register("t", table)
        (place / name).mkdir()
        half = table.num_rows // 2
        for part, where in enumerate((f"id < {half}", f"id >= {half}")):
            con.execute(f"COPY (SELECT * FROM t WHERE {where} ORDER BY id) TO '{place}/{name}/{part}.parquet' (ROW_GROUP_SIZE 2048)")
        con.unregister("t")
    return place


def test_files_folders_and_globs(folder, pair, one):
    expected = bag(one("intersects", "full"))
    for left in (str(folder / "a"), f"{folder}/a/*.parquet", [folder / "a" / "0.parquet", folder / "a" / "1.parquet"]):
        for options in ({"broadcast": "never", "partitions": 3, "exchange": "direct"}, {"broadcast": "never", "partitions": 3}, {"broadcast": "right"}):
            assert bag(ray_join((left, folder / "b"), "intersects", "full", **options).to_arrow()) == expected


def test_a_file_system_of_fsspec(folder, one):
    import fsspec

    memory = fsspec.filesystem("memory")
    for path in sorted((folder / "a").iterdir()):
        memory.pipe_file(f"/layer/{path.name}", path.read_bytes())
    for options in ({"broadcast": "never", "partitions": 3}, {"broadcast": "right"}):
        result = ray_join(("memory://layer", folder / "b"), "intersects", "left", **options)
        assert bag(result.to_arrow()) == bag(one("intersects", "left"))
    result = vibespatial.ray.sjoin("memory://layer", folder / "b", executor="local", output="memory://out", broadcast="never", partitions=3)
    assert "_SUCCESS" in {path.rsplit("/", 1)[-1] for path in memory.ls("/out", detail=False)}
    assert vibespatial.ray.sjoin("memory://out", folder / "b", left_geometry="left_geom", aggregate={"n": "count(DISTINCT l.left_id)"},
                                 executor="local").to_arrow().num_rows == 1 and result.rows > 0


def test_a_folder_of_geoparquet_is_written(folder, one, tmp_path):
    expected = one("intersects", "left")
    for options in ({"broadcast": "never", "partitions": 4}, {"broadcast": "right", "partitions": 2}):
        out = tmp_path / options["broadcast"]
        result = vibespatial.ray.sjoin(folder / "a", folder / "b", "intersects", "left", ["l.id", "r.id AS other", "l.geom"], executor="local",
                                       output=out, **options)
        names = sorted(path.name for path in out.iterdir())
        assert names[0] == "_SUCCESS" and all(name.startswith("part-") for name in names[1:])
        assert json.loads((out / "_SUCCESS").read_text())["rows"] == result.rows == expected.num_rows
        con = vibespatial.connect(threads=1)
        rows = arrow(con.execute(f"SELECT id, other FROM '{out}/*.parquet'"))
        assert bag(rows) == bag(expected)
        for path in sorted(out.glob("part-*")):
            geo = json.loads(pyarrow.parquet.read_metadata(path).metadata[b"geo"])
            column = geo["columns"]["geom"]
            assert geo["primary_column"] == "geom" and column["covering"]["bbox"]["xmin"] == ["bbox", "xmin"]
            lows = con.execute(f"SELECT min(ST_XMin(geom)), min(ST_YMin(geom)), max(ST_XMax(geom)), max(ST_YMax(geom)) FROM '{path}'").fetchall()[0]
            assert lows[0] is None or tuple(column["bbox"]) == lows
        with pytest.raises(FileExistsError, match="overwrite=True"):
            vibespatial.ray.sjoin(folder / "a", folder / "b", executor="local", output=out)
        vibespatial.ray.sjoin(folder / "a", folder / "b", executor="local", output=out, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="notes.txt"):
        vibespatial.ray.sjoin(folder / "a", folder / "b", executor="local", output=tmp_path / "mine")


def test_an_output_folder_that_nodes_do_not_share(folder, tmp_path):
    """A task on another machine would not find the folder, or its part would not be here at the end."""
    for stage, lost, message in (("done", "part-00001.parquet", "part-00001.parquet, which a task has written, is not here"), ("join", "", "is not there on")):
        out = tmp_path / f"out{stage}"

        def progress(one, out=out, stage=stage, lost=lost):
            if one.stage == "join" and one.tasks_done == (one.tasks if stage == "done" else 1):
                (out / lost).unlink() if lost else shutil.rmtree(out)

        with pytest.raises(FileNotFoundError, match=f"{message}.*all nodes of the cluster share"):
            vibespatial.ray.sjoin(folder / "a", folder / "b", executor="local", broadcast="never", partitions=3, output=out, progress=progress)
        assert not (out / "_SUCCESS").exists()


def test_paths_are_those_of_this_process(folder, one, tmp_path, monkeypatch):
    """Workers have other working directories."""
    monkeypatch.chdir(tmp_path)
    plan = vibespatial.ray.plan("sjoin", os.path.relpath(folder / "a"), [os.path.relpath(folder / "b")], executor="local", output="out", temp_directory="spilled/here")
    monkeypatch.chdir("/")
    result = plan.run()
    assert result.path == str(tmp_path / "out") and plan.settings.temp_directory == str(tmp_path / "spilled" / "here")
    assert result.rows == one("intersects", "inner").num_rows and (tmp_path / "out" / "_SUCCESS").exists() and (tmp_path / "spilled" / "here").is_dir()


def test_a_broadcast_side_is_read_once(folder, one):
    """By a task of its own, also a side whose geometries are made by an expression; an error names the row group."""
    def run(**options):
        return ray_join((folder / "a", folder / "b"), "intersects", "full", **options)

    result = run(broadcast="right", partitions=3)
    read = collections.Counter()
    for report in result.reports:
        read[report.label.split()[0]] += report.read
    assert bag(result.to_arrow()) == bag(one("intersects", "full")) and read == {"read": 180, "join": 260, "settle": 0}
    with pytest.raises(vibespatial.ray.InputError, match="row group 0: .*bad row"):
        run(broadcast="right", right_geometry="CASE WHEN id = 77 THEN error('bad row') ELSE geom END")


def test_rows_that_move_keep_their_types(tmp_path):
    con = vibespatial.connect(threads=1)
    made = """SELECT i AS id, ('00000000-0000-0000-0000-' || lpad(i::VARCHAR, 12, '0'))::UUID AS u, i::DECIMAL(9, 2) AS d, ('{"i": ' || i || '}')::JSON AS j,
              {'u': uuid(), 'n': [i]} AS s, make_timestamptz(i) AS t, ST_SetCRS(ST_Point(i % 9, i % 7), 'OGC:CRS84') AS geom FROM range(90) r(i)"""
    con.execute(f"COPY ({made}) TO '{tmp_path}/a.parquet'")
    types = [f"typeof({side}.{name}) AS {side}{name}" for side in "lr" for name in ("id", "u", "d", "j", "s", "t", "geom")]
    pairs = f"FROM '{tmp_path}/a.parquet' l JOIN '{tmp_path}/a.parquet' r ON ST_Equals(l.geom, r.geom)"
    expected = bag(arrow(con.execute(f"SELECT {', '.join(types)}, r.u::VARCHAR AS u, r.j->>'i' AS i {pairs}")))
    for options in ({"broadcast": "right"}, {"broadcast": "never", "partitions": 3}):
        result = vibespatial.ray.sjoin(tmp_path / "a.parquet", tmp_path / "a.parquet", "equals", select=[*types, "r.u::VARCHAR AS u", "r.j->>'i' AS i"],
                                       executor="local", **options)
        assert bag(result.to_arrow()) == expected and "UUID" in next(iter(expected)), options


def test_parts_are_along_a_curve(tmp_path):
    """Rows that follow each other are near each other: much nearer than in the order of the input."""
    con = vibespatial.connect(threads=1)
    con.execute("SELECT setseed(0.5)")
    table = arrow(con.execute("SELECT i AS id, ST_Point(random(), random()) AS geom FROM range(3000) t(i)"))
    vibespatial.ray.sjoin(table, table, "equals", select=["l.id", "l.geom"], executor="local", broadcast="never", partitions=2, output=tmp_path / "o")
    for path in sorted((tmp_path / "o").glob("part-*")):
        points = con.execute(f"SELECT ST_X(geom), ST_Y(geom) FROM '{path}'").fetchall()
        steps = [math.dist(a, b) for a, b in zip(points, points[1:])]
        assert sum(steps) / len(steps) < 0.06 and len(points) > 1000


# ---- what goes wrong

@pytest.fixture
def broken(folder, tmp_path):
    """Three files: the second has a row group with bytes that are no WKB, the third is no Parquet."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "a" / "0.parquet")
    bad = table.to_pydict()
    bad["geom"] = [b"\x01\x02" if at == 45 else value for at, value in enumerate(bad["geom"])]
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet", row_group_size=20)
    pyarrow.parquet.write_table(pyarrow.table(bad, schema=table.schema), tmp_path / "1.parquet", row_group_size=20)
    return tmp_path


@pytest.mark.parametrize("options", [{"broadcast": "never", "partitions": 3}, {"broadcast": "never", "partitions": 3, "exchange": "direct"}, {"broadcast": "right"}])
def test_an_error_names_the_file_and_the_row_group(broken, folder, options):
    with pytest.raises(vibespatial.ray.InputError, match="on_error='skip'") as raised:
        ray_join((broken, folder / "b"), "intersects", "inner", **options)
    assert raised.value.path.endswith("1.parquet") and raised.value.row_group == 2
    result = ray_join((broken, folder / "b"), "intersects", "semi", on_error="skip", **options)
    assert [(path.rsplit("/", 1)[-1], group) for path, group, _ in result.skipped] == [("1.parquet", 2)]
    # Every row of the first file, and of the second those outside of that row group
    con = vibespatial.connect(threads=1)
    good = f"""SELECT l.id FROM (SELECT * FROM '{broken}/0.parquet' UNION ALL SELECT * FROM '{broken}/0.parquet' WHERE id NOT BETWEEN 40 AND 59) l
               SEMI JOIN '{folder}/b/*.parquet' r ON ST_Intersects(l.geom, r.geom)"""
    assert bag(result.to_arrow()) == bag(arrow(con.execute(good)))


def test_a_file_that_is_no_parquet(broken, folder):
    (broken / "1.parquet").write_bytes(b"no parquet")
    with pytest.raises(vibespatial.ray.InputError, match="1.parquet: cannot be read as Parquet") as raised:
        ray_join((broken, folder / "b"), "intersects", "inner")
    assert raised.value.row_group is None
    result = ray_join((broken, folder / "b"), "intersects", "inner", on_error="skip")
    assert [(path.rsplit("/", 1)[-1], group) for path, group, _ in result.skipped] == [("1.parquet", None)]


@pytest.mark.parametrize("keywords, message", [
    ({"predicate": "disjoint"}, "compares all pairs"),
    ({"predicate": "dwithin"}, "needs distance="),
    ({"how": "outer"}, "how must be one of"),
    ({"select": ["l.nothing"]}, "nothing"),
    ({"select": ["l.id", "r.id"]}, "several columns of the name id"),
    ({"aggregate": {"m": "median(l.id)"}}, "no aggregate that can be computed in parts"),
    ({"aggregate": {"m": "avg(to_seconds(l.id))"}}, "use avg of the difference of epoch_us"),
    ({"left_geometry": "nothing"}, "nothing"),
    ({"broadcast": "both"}, "broadcast must be one of"),
    ({"memory": "much"}, "no amount of memory"),
    ({"executor": "dask"}, "executor must be"),
])
def test_mistakes_are_told_before_anything_runs(pair, keywords, message):
    with pytest.raises(Exception, match=message):
        vibespatial.ray.plan("sjoin", *pair, **{"executor": "local", **keywords})


def test_geometry_columns_and_expressions(pair):
    con = vibespatial.connect(threads=1)
    con.register("a", pair[0])
    plain = arrow(con.execute("SELECT id, ST_AsWKB(geom) AS geometry FROM a"))
    points = arrow(con.execute("SELECT id, ST_X(geom) AS lon, ST_Y(geom) AS lat FROM a WHERE ST_GeometryType(geom) = 'POINT'"))
    expected = con.execute("SELECT count(*) FROM a l JOIN a r ON ST_Intersects(l.geom, r.geom) WHERE ST_GeometryType(l.geom) = 'POINT'").fetchall()[0][0]
    for broadcast in ("never", "right"):
        result = vibespatial.ray.sjoin(points, plain, left_geometry="ST_Point(lon, lat)", aggregate={"n": "count(*)"}, executor="local", broadcast=broadcast,
                                       partitions=3)
        assert result.to_arrow().to_pylist() == [{"n": expected}]
    with pytest.raises(ValueError, match="left_geometry= takes a column or an SQL expression"):
        vibespatial.ray.sjoin(points, plain, executor="local")
    frame = vibespatial.to_geopandas("FROM a", con)
    assert vibespatial.ray.sjoin(frame, plain, aggregate={"n": "count(*)"}, executor="local").to_arrow().to_pylist()[0]["n"] > expected


# ---- real data

@pytest.mark.parametrize("names, predicate", [(("cities500_geonames", "ne10m_states_provinces"), "within"), (("wdb_rivers_f", "us_counties"), "crosses")])
def test_real_data(shared_data, names, predicate):
    """Shared borders, islands, and rivers through many counties; the geometries are WKB in a BLOB column."""
    left, right = (shared_data / f"{name}.parquet" for name in names)
    con = vibespatial.connect(threads=2)
    some = arrow(con.execute(f"FROM '{left}' WHERE id % {20 if 'cities' in names[0] else 4} = 0"))
    con.register("chosen", some)
    con.execute("CREATE TABLE a AS SELECT id, ST_GeomFromWKB(geom) AS geom FROM chosen")
    con.execute(f"CREATE TABLE b AS SELECT id, ST_GeomFromWKB(geom) AS geom FROM '{right}'")
    for how in ("inner", "full", "anti"):
        items = ["l.id"] if how == "anti" else ["l.id", "r.id AS other"]
        expected = bag(arrow(con.execute(f"SELECT {', '.join(items)} FROM a l {how} JOIN b r ON ST_{predicate}(l.geom, r.geom)")))
        assert len(expected) > 50
        for partitions in (3, 7):
            result = vibespatial.ray.sjoin(some, right, predicate, how, items, executor="local", broadcast="never", partitions=partitions)
            assert bag(result.to_arrow()) == expected
