"""Plans of vibespatial.ray: queries that tasks cannot answer alone, plans that run twice, mistakes, and a cluster without a node for the tasks."""
import collections
import sys

import pytest

from test_ray_inputs import LOCAL, arrow, bag, vibe  # noqa: F401 (fixture)


@pytest.fixture(scope="module")
def tables(connect):
    """Points and zones, with few zones so that some have no point."""
    with connect() as con:
        points = arrow(con.execute("SELECT i AS id, i % 7 AS zone, ST_Point(i % 10, i // 10) AS geom FROM range(100) t(i)"))
        zones = arrow(con.execute("SELECT i AS id, ST_MakeEnvelope(i * 4, 0, i * 4 + 2.5, 3) AS geom FROM range(6) t(i)"))
    return {"p": points, "z": zones}


MEETS = "ST_Intersects(z.geom, p.geom)"


@pytest.mark.parametrize("query", [
    f"SELECT z.id, p.id AS pid FROM z LEFT JOIN p ON {MEETS}",
    f"SELECT z.id FROM z SEMI JOIN p ON {MEETS}",
    f"SELECT z.id FROM z ANTI JOIN p ON {MEETS}",
    f"SELECT z.id FROM z WHERE EXISTS (SELECT 1 FROM p WHERE {MEETS})",
    "SELECT z.id FROM z WHERE z.id NOT IN (SELECT zone FROM p)",
    "SELECT z.id, (SELECT any_value(p.id) FROM p WHERE p.zone = z.id) AS one FROM z",
    f"WITH w AS (SELECT * FROM p) SELECT z.id FROM z LEFT JOIN w p ON {MEETS}",
    f"SELECT z.id FROM z LEFT JOIN (SELECT * FROM p WHERE zone > 2) p ON {MEETS}",
    "SELECT z.id, p.id AS pid FROM z ASOF JOIN p ON z.id >= p.id",
    "SELECT z.id, p.id AS pid FROM z POSITIONAL JOIN p",
    "SELECT id FROM z EXCEPT SELECT id FROM p",
    "WITH RECURSIVE r AS (SELECT id FROM p UNION ALL SELECT id + 1 FROM r WHERE id < 3) FROM r",
])
def test_queries_whose_rows_would_depend_on_the_tasks(vibe, tables, query):
    for partition_by in ("p", {"p": "geom", "z": "geom"})[: 2 if " z" in query else 1]:
        with pytest.raises(ValueError, match="its rows must come first"):
            vibe.ray.plan("sql", query, tables, partition_by, combine="FROM parts", **LOCAL)


@pytest.mark.parametrize("query, times", [
    ("WITH w AS (SELECT * FROM p) SELECT a.id, b.id AS o FROM w a JOIN w b ON a.zone = b.zone", 2),
    ("WITH w AS (SELECT * FROM p), v AS (SELECT * FROM w) SELECT v.id FROM v JOIN w ON v.id = w.id", 2),
    ("WITH w AS (SELECT * FROM p) SELECT id FROM z", 0),
    ("WITH p AS (SELECT * FROM z) SELECT id FROM p", 0),
])
def test_a_table_is_counted_through_names_of_with(vibe, tables, query, times):
    with pytest.raises(ValueError, match=f"exactly once, not {times} times"):
        vibe.ray.plan("sql", query, tables, "p", **LOCAL)


@pytest.mark.parametrize("query", [
    f"SELECT p.id, z.id AS zid FROM p LEFT JOIN z ON {MEETS}",
    f"SELECT p.id, z.id AS zid FROM z JOIN p ON {MEETS}",
    f"SELECT p.id, z.id AS zid FROM z, p WHERE {MEETS}",
    f"SELECT p.id FROM p ANTI JOIN z ON {MEETS}",
    f"SELECT p.id FROM p WHERE NOT EXISTS (SELECT 1 FROM z WHERE {MEETS})",
    f"WITH w AS (SELECT * FROM p WHERE zone > 1), v AS (FROM w) SELECT v.id, z.id AS zid FROM v LEFT JOIN z ON ST_Intersects(z.geom, v.geom)",
    f"WITH p AS (SELECT * FROM p WHERE zone > 1) SELECT p.id, z.id AS zid FROM (SELECT * FROM z) z JOIN p ON {MEETS}",
])
def test_queries_that_tasks_can_answer(vibe, con, tables, query):
    for name, table in tables.items():
        con.register(name, table)
    expected = bag(arrow(con.execute(query)))
    for partition_by in ("p", {"p": "geom", "z": "geom"}):
        assert bag(vibe.ray.sql(query, tables, partition_by, partitions=3, **LOCAL).to_arrow()) == expected, partition_by


@pytest.mark.parametrize("union", ["SELECT zone FROM p UNION SELECT id FROM z", "SELECT zone FROM p EXCEPT SELECT id FROM z", "SELECT id FROM z UNION SELECT zone FROM p"])
def test_set_operations_are_put_together(vibe, con, tables, union):
    for name, table in tables.items():
        con.register(name, table)
    found = vibe.ray.sql(union, tables, "p", combine="SELECT DISTINCT * FROM parts", partitions=3, **LOCAL).to_arrow()
    assert bag(found) == bag(arrow(con.execute(union)))


@pytest.mark.parametrize("operation, keywords", [
    ("sjoin", {"predicate": "dwithin", "distance": 1.0, "select": ["l.id", "r.id AS other"]}),
    ("knn", {"k": 2, "select": ["l.id", "r.id AS other"]}),
    ("overlay", {"how": "intersection", "keep_geom_type": False}),
])
def test_a_plan_that_runs_twice(vibe, tables, operation, keywords):
    plan = vibe.ray.plan(operation, tables["p"], tables["p"], broadcast="never", exchange="shuffle", partitions=3, **keywords, **LOCAL)
    first, second = plan.run(), plan.run()
    assert bag(first.to_arrow()) == bag(second.to_arrow()) and first.rows == second.rows == first.to_arrow().num_rows
    labels = [[report.label for report in result.reports] for result in (first, second)]
    assert labels[0] == labels[1] and any(label.startswith("sample") for label in labels[0])


@pytest.mark.parametrize("call", ["sum(l.id) + (10)", "sum(l.id) * (r.id)", "count(l.id) FILTER (WHERE l.id > (2))", "sum(l.id))", "max(l.id) || ')' || (1)"])
def test_what_is_no_single_aggregate_is_refused(vibe, tables, call):
    with pytest.raises(ValueError, match="is no aggregate that can be computed in parts"):
        vibe.ray.plan("sjoin", tables["p"], tables["z"], aggregate={"s": call}, **LOCAL)


def test_brackets_of_an_argument(vibe, con, tables):
    for name, table in tables.items():
        con.register(name, table)
    calls = {"a": "max((l.id + 1) * (l.zone + 1))", "b": "max(l.id || ')')", "c": "min(')(' || l.id)", "d": "max({')': l.id}[')'])"}
    items = ", ".join(f"{call} AS {name}" for name, call in calls.items()).replace("l.", "p.")
    expected = arrow(con.execute(f"SELECT {items} FROM p JOIN z ON {MEETS}")).to_pylist()
    assert vibe.ray.sjoin(tables["p"], tables["z"], aggregate=calls, partitions=2, broadcast="never", **LOCAL).to_arrow().to_pylist() == expected


# ---- select

@pytest.mark.parametrize("select, names", [
    (["l.*"], ["id", "zone", "geom"]),
    (["COLUMNS(l.*)"], ["id", "zone", "geom"]),
    (["l.* EXCLUDE (geom)", "r.id AS other"], ["id", "zone", "other"]),
    (["L . * exclude zone"], ["id", "geom"]),
    (["l.zone", "COLUMNS('^i.*')"], ["zone", "id"]),
])
@pytest.mark.parametrize("way", [{"broadcast": "never", "partitions": 2}, {"broadcast": "right"}, {"broadcast": "left"}])
def test_a_star_stands_for_the_columns_of_the_input(vibe, con, tables, select, names, way):
    right = tables["z"].select(["geom"]) if "COLUMNS('" in select[-1] else tables["z"]
    con.register("p", tables["p"])
    con.register("z", right)
    for how in ("left",) if "other" in names else ("left", "anti"):
        found = vibe.ray.sjoin(tables["p"], right, "intersects", how, select, **way, **LOCAL).to_arrow()
        items = ", ".join("z.id AS other" if name == "other" else f"p.{name}" for name in names)
        assert found.schema.names == names and bag(found) == bag(arrow(con.execute(f"SELECT {items} FROM p {how} JOIN z ON {MEETS}")))


@pytest.mark.parametrize("item", ["l", "COLUMNS(l.*)::VARCHAR", "COLUMNS('.*')", "l.* REPLACE (1 AS id)"])
def test_other_expressions_of_all_columns_are_refused(vibe, tables, item):
    with pytest.raises(ValueError, match="stands for all columns of a row"):
        vibe.ray.plan("sjoin", tables["p"], tables["z"], "intersects", "anti", [item], **LOCAL)


# ---- words and mistakes

@pytest.mark.parametrize("predicate", ["covered_by", "CoveredBy", "ST_CoveredBy", "containsproperly", "contains_properly", "ST_ContainsProperly", "within_properly",
                                       "withinproperly", "ST_Within", "d_within"])
def test_predicates_are_spelled_as_for_vibe_sjoin(vibe, con, tables, predicate):
    for name, table in tables.items():
        con.register(name, table)
    word = predicate.removeprefix("ST_")
    distance = {"distance": 0.5} if word == "d_within" else {}
    more = ", distance := 0.5" if distance else ""
    expected = con.execute(f"SELECT count(*) FROM vibe_sjoin('p', 'z', predicate := '{word}'{more})").fetchall()[0][0]
    assert vibe.ray.sjoin(tables["p"], tables["z"], predicate, select=["l.id"], **distance, **LOCAL).rows == expected


def test_mistakes_say_what_is_right(vibe, tables):
    with pytest.raises(TypeError, match="sjoin has no keyword foo; those are left, right, predicate.*left_geometry.*partitions") as raised:
        vibe.ray.sjoin(tables["p"], tables["z"], foo=1, **LOCAL)
    assert "plan_" not in str(raised.value) and "options" not in str(raised.value)
    with pytest.raises(ValueError, match="there is no column n: aggregates= has columns, and the name of an aggregate for each"):
        vibe.ray.dissolve(tables["p"], "zone", {"n": "count(*)"}, **LOCAL)
    with pytest.raises(ValueError, match="there is no column n; those are id, zone, geom"):
        vibe.ray.dissolve(tables["p"], "n", **LOCAL)


def test_results_and_plans_have_short_names(vibe, tables):
    for arguments in (("sjoin", tables["p"], tables["z"]), ("knn", tables["p"], tables["z"]), ("dissolve", tables["p"], "zone"), ("overlay", tables["z"], tables["z"]),
                      ("sql", "SELECT id FROM p", {"p": tables["p"]}, "p")):
        plan = vibe.ray.plan(*arguments, **LOCAL)
        assert repr(plan).startswith(f"<plan of {arguments[0]}") and len(repr(plan)) < 100
        result = plan.run()
        assert repr(result) == f"<result of {arguments[0]}: {result.rows:,} rows>"


# ---- the cluster

class Cluster:
    """Ray, as far as an executor asks for its nodes and starts tasks on them."""

    ObjectRef = int

    def __init__(self, *nodes):
        self.found = list(nodes)
        self.options = []

    def is_initialized(self):
        return True

    def nodes(self):
        return [{"Alive": True, "Resources": dict(zip(("CPU", "memory"), node))} for node in self.found]

    def remote(self, **_):
        return lambda task: self

    def wait(self, references, num_returns=1, timeout=0, fetch_local=False):
        return [], references

    def cancel(self, *_, **__):
        pass

    def get(self, *_, **__):
        raise RuntimeError("cancelled")


@pytest.fixture
def cluster(monkeypatch, vibe):
    def start(*nodes, **options):
        ray = Cluster(*nodes)
        monkeypatch.setitem(sys.modules, "ray", ray)
        chosen = vibe.ray.Options(**options)
        return ray, vibe.ray._executor.Run("sjoin", vibe.ray._executor.RayExecutor(chosen), chosen)

    return start


def test_tasks_that_no_node_can_run_do_not_wait_forever(vibe, cluster, monkeypatch):
    executor = vibe.ray._executor
    monkeypatch.setattr(executor, "_SILENT_S", 0.1)
    monkeypatch.setattr(executor, "_POLL_S", 0.02)
    told = []
    ray, job = cluster((2, 2**33), node_timeout=0.5, progress=told.append)
    monkeypatch.setattr(job.executor, "submit", lambda call: [1])
    waits = []

    def wait(references, timeout):
        executor.time.sleep(timeout)
        waits.append(timeout)
        if len(waits) == 20:
            # Until now it had something to run on: other tasks may have had it
            assert len(told) == 1
            ray.found = [(0, 2**33), (1, 2**33)]
        return []

    monkeypatch.setattr(job.executor, "wait", wait)
    settings = vibe.ray._options.Settings(2**30, threads=2)
    job.executor.options.threads = 2
    with pytest.raises(RuntimeError, match="join: no living node of the cluster could run a task for .* node_timeout="):
        job.stage("join", [executor.Call("join part 0", None, [settings])])
    assert len(told) > 2 and all(one.waiting_s > 0 for one in told[1:]) and "for a node that can run the tasks" in str(told[-1])


def test_memory_that_was_chosen_is_reserved(vibe, cluster):
    """The default is a guess: it decides how much DuckDB takes, and keeps no task waiting."""
    def submitted(ray, job):
        ray.options = lambda **keywords: collections.namedtuple("Task", "remote")(lambda *_: keywords)
        settings = vibe.ray._options.Settings(job.executor._memory or 2**30)
        return job.executor.submit(vibe.ray._executor.Call("a", None, [settings]))[0]["memory"], job.executor.slots(settings)

    assert submitted(*cluster((4, 3 * 2**30), (1, 2**40))) == (None, 5)
    assert submitted(*cluster((4, 3 * 2**30), (1, 2**40), memory=2**30)) == (2**30, 4)
    with pytest.raises(ValueError, match="no node of the cluster has 1 CPUs and 4,295 MB of memory"):
        cluster((4, 3 * 2**30), memory=2**32)


@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_time_to_wait_for_nodes(vibe, value):
    with pytest.raises(ValueError, match="node_timeout must be"):
        vibe.ray.Options(node_timeout=value)
