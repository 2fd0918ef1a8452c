"""vibespatial.ray on a real cluster of two workers on this machine: same rows, progress, cancel, budgets, and workers that are killed.

VIBESPATIAL_RAY_KILLS=50 runs the test with killed workers so many times (default: 2).
"""
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
import vibespatial
import vibespatial.ray
from conftest import arrow, bag, lattice

KILLS = int(os.environ.get("VIBESPATIAL_RAY_KILLS", "2"))


def joined(con, how):
    return bag(arrow(con.execute(f"SELECT l.id, r.id AS other FROM a l {how} JOIN b r ON ST_Intersects(l.geom, r.geom)")))


def test_joins_progress_and_the_log_of_engines(cluster, con, pair):
    told = []
    for how in ("inner", "full"):
        expected = joined(con, how)
        for options in ({"broadcast": "never", "partitions": 3}, {"broadcast": "right"}):
            result = vibespatial.ray.sjoin(*pair, "intersects", how, ["l.id", "r.id AS other"], progress=told.append, memory="1GB", **options)
            assert bag(result.to_arrow()) == expected
            assert result.log() and {(operation, engine) for _, operation, engine, _, _ in result.log()} == {("all", "cpu")}
            assert all(report.process != os.getpid() and report.peak_memory < 10**9 for report in result.reports)
    stages = {one.stage for one in told}
    assert {"sample", "cut left", "cut right", "join", "settle"} <= stages
    last = [one for one in told if one.stage == "join"][-1]
    assert last.tasks_done == last.tasks and last.rows > 0 and last.eta_s == 0 and "tasks" in str(last)


def test_datasets_in_and_out(cluster, con, pair):
    from ray import data

    blocks = data.from_arrow([pair[0].slice(0, 100), pair[0].slice(100)])
    result = vibespatial.ray.sjoin(blocks, pair[1], "intersects", "left", ["l.id", "r.id AS other", "l.geom"], broadcast="never", partitions=3)
    out = result.dataset()
    assert out.count() == result.rows == sum(joined(con, "left").values())
    assert collections.Counter((row["id"], row["other"]) for row in out.take_all()) == joined(con, "left")
    assert vibespatial.ray.sjoin(out, pair[1], aggregate={"n": "count(DISTINCT l.id)"}).to_arrow().to_pylist()[0]["n"] > 100


def test_neighbours_dissolve_overlay_and_sql(cluster, con, pair, tmp_path):
    expected = bag(arrow(con.execute("SELECT id, other FROM vibe_knn('a', 'SELECT id AS other, geom FROM b', 2, left_columns := ['id'], right_columns := ['other'])")))
    found = vibespatial.ray.knn(*pair, 2, ["l.id", "r.id AS other"], broadcast="never", partitions=3).to_arrow()
    assert bag(found.select(["id", "other"])) == expected
    assert bag(vibespatial.ray.dissolve(pair[0], "kind", {"id": "sum"}, partitions=2).to_arrow()) == bag(
        arrow(con.execute("FROM vibe_dissolve('a', by := 'kind', aggregates := {'id': 'sum'})")))
    result = vibespatial.ray.overlay(*pair, "difference", broadcast="never", partitions=3, output=tmp_path / "out")
    assert result.rows == con.execute("SELECT count(*) FROM vibe_overlay('a', 'b', how := 'difference')").fetchall()[0][0]
    assert con.execute(f"SELECT count(*) FROM '{tmp_path}/out/*.parquet'").fetchall()[0][0] == result.rows
    rows = vibespatial.ray.sql("SELECT p.id FROM p SEMI JOIN z ON ST_Intersects(p.geom, z.geom)", {"p": pair[0], "z": pair[1]}, "p")
    assert rows.rows == con.execute("SELECT count(*) FROM a SEMI JOIN b ON ST_Intersects(a.geom, b.geom)").fetchall()[0][0]


def test_an_error_of_a_task_comes_out_as_it_is(cluster, pair):
    # Often: to cancel the failed task while Ray takes in its error would end this process
    for _ in range(40):
        with pytest.raises(vibespatial.ray.InputError, match="left, rows 0 to 259"):
            vibespatial.ray.sjoin(*pair, left_geometry="CASE WHEN id = 77 THEN error('bad row') ELSE geom END")


def slow(cluster):
    """An operation of many tasks, each of which takes a while."""
    table = lattice(400, 11)
    query = "SELECT p.id, sum(sqrt(i)) AS s FROM p, range(3000000) t(i) WHERE p.id % 100 = 0 GROUP BY p.id"
    return table, query


def test_cancel_ends_the_tasks(cluster):
    table, query = slow(cluster)
    tables = [table.slice(at, 20) for at in range(0, 400, 20)]
    from ray import data

    cancel, told = vibespatial.ray.Cancel(), []

    def progress(one):
        told.append(one)
        if one.tasks_done == 1:
            threading.Timer(0.05, cancel.cancel).start()

    begin = time.monotonic()
    with pytest.raises(vibespatial.ray.Cancelled, match="sql was cancelled"):
        vibespatial.ray.sql(query, {"p": data.from_arrow(tables)}, "p", combine="FROM parts", partitions=20, progress=progress, cancel=cancel)
    assert time.monotonic() - begin < 60 and max(one.tasks_done for one in told) < 20
    # The workers are free again
    assert vibespatial.ray.sql("SELECT id FROM p", {"p": table}, "p").rows == 400


@pytest.fixture(params=["lattice", "real"])
def layers(request, pair):
    """Two layers: all kinds of geometries on borders, or rivers and counties."""
    if request.param == "lattice":
        return pair
    data = request.getfixturevalue("shared_data")
    with vibespatial.connect(threads=2) as opened:
        return [arrow(opened.execute(f"SELECT id, ST_GeomFromWKB(geom) AS geom FROM '{data}/{name}.parquet' WHERE id % 4 = 0 ORDER BY id"))
                for name in ("wdb_rivers_f", "us_counties")]


def test_workers_that_are_killed_change_nothing(cluster, layers, tmp_path):
    """Up to three workers are killed at random moments of each run, while tasks read, cut, join, settle and write."""
    con = vibespatial.connect(threads=2)
    con.register("a", layers[0])
    con.register("b", layers[1])
    expected = joined(con, "full")
    killed = collections.Counter()
    for run in range(KILLS):
        numbers = random.Random(run)
        victims, timers = [], []

        def kill(stage, numbers=numbers, victims=victims):
            found = workers()
            if found:
                victims.append(stage)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(numbers.choice(found), signal.SIGKILL)

        def progress(one, numbers=numbers, timers=timers, kill=kill):
            # Ray starts a task four times at most
            if len(timers) < 3 and numbers.random() < 0.2:
                timers.append(threading.Timer(numbers.random() * 0.1, kill, [one.stage]))
                timers[-1].start()

        out = tmp_path / f"run{run}"
        result = vibespatial.ray.sjoin(*layers, "intersects", "full", ["l.id", "r.id AS other", "l.geom"], broadcast="never", partitions=7, output=out,
                                       progress=progress)
        for timer in timers:
            timer.join()
        assert result.rows == sum(expected.values())
        assert bag(arrow(con.execute(f"SELECT id, other FROM '{out}/*.parquet'"))) == expected
        assert sorted(path.name for path in out.iterdir())[0] == "_SUCCESS" and not list(out.glob("_temporary*"))
        killed.update(victims)
    print(f"{sum(killed.values())} workers killed in {KILLS} runs: {dict(killed)}")
    assert sum(killed.values()) > 0


def test_what_a_killed_worker_has_spilled_is_removed(tmp_path):
    code = """if True:
        import os, signal, sys, vibespatial.ray._engine as engine
        from vibespatial.ray._options import Settings
        spilled = engine._temporary(Settings(2**30, temp_directory=sys.argv[1]))
        os.mkdir(spilled)
        print(spilled, flush=True)
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        input()
    """

    def start(how):
        return subprocess.Popen([sys.executable, "-c", code, tmp_path, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    # Whether a process of another machine lives is not known here
    other_machine = tmp_path / "vibespatial-ray-another.machine-1"
    other_machine.mkdir()
    (other_machine / "lock").touch()
    living = start("lives")
    kept = living.stdout.readline().strip()
    dead = start("killed")
    left = dead.stdout.readline().strip()
    assert dead.wait() == -signal.SIGKILL and os.path.isdir(kept) and os.path.isdir(left)
    other = start("lives")
    other.stdout.readline()
    assert os.path.isdir(kept) and not os.path.exists(left)
    for process in (living, other):
        process.communicate("\n")
    assert list(tmp_path.iterdir()) == [other_machine]


def workers():
    """The processes of this cluster that run tasks: children of its raylet."""
    import ray

    session = os.path.basename(ray._private.worker._global_node.get_session_dir_path()).encode()
    parents, titles = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    titles[int(name)] = file.read()
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    raylets = {process for process, title in titles.items() if session in title and b"raylet/raylet" in title}
    agents = (b"ray::RuntimeEnv", b"ray::Dashboard")
    return [process for process, parent in parents.items()
            if parent in raylets and titles.get(process, b"").startswith(b"ray::") and not titles[process].startswith(agents)]


GPUS = """if True:
    import json, ray, shutil, sys, tempfile, vibespatial, vibespatial.ray
    con = vibespatial.connect(threads=1)
    fetch = lambda result: (getattr(result, "to_arrow_table", None) or result.fetch_arrow_table)()
    points = fetch(con.execute("SELECT i AS id, ST_Point((i * 7919 % 8600) / 200, (i * 104729 % 8200) / 200) AS geom FROM range(20000) t(i)"))
    areas = fetch(con.execute("SELECT i AS id, ST_MakeEnvelope(i % 40 * 2, i // 40, i % 40 * 2 + 1 + i % 3, i // 40 + 1) AS geom FROM range(1600) t(i)"))
    found = []

    def join(gpus, **options):
        plan = vibespatial.ray.plan("sjoin", points, areas, "within", "full", aggregate={"n": "count(*)", "s": "sum(l.id * 7 + r.id)"}, partitions=4,
                                    memory="1GB", **options)
        result = plan.run()
        (row,) = result.to_arrow().to_pylist()
        found.append({"gpus": gpus, "asked": options.get("num_gpus", 0), "rows": [int(value) for value in row.values()], "log": result.log(),
                      "plan": str(plan), "tasks": [(one.label.split()[0], one.device, one.process) for one in result.reports]})

    for gpus in (1, 2):
        folder = tempfile.mkdtemp(prefix="vibe-ray-", dir="/tmp")
        ray.init(num_cpus=2, num_gpus=gpus, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=folder, log_to_driver=False,
                 object_store_memory=200 * 2**20, configure_logging=False)
        try:
            for options in ({"num_gpus": gpus / 2, "gpu_memory": "1GB"}, {}):
                for way in ({"broadcast": "right"}, {"broadcast": "never"}):
                    join(gpus, **options, **way)
            if gpus == 1:
                # While another holds the GPU: what needs none is done meanwhile, and the join waits until it is free
                holder = ray.remote(num_gpus=1, num_cpus=0)(type("Holder", (), {"ready": lambda self: True})).remote()
                ray.get(holder.ready.remote())
                free = lambda one: ray.kill(holder) if one.stage == "join" and one.tasks_done == 0 else None
                join(gpus, num_gpus=1, broadcast="never", progress=free)
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
    # In one process, which has run tasks without a GPU before
    join(1, num_gpus=1, broadcast="never", executor="local")
    print(json.dumps(found))
"""


def test_a_task_uses_the_gpu_that_it_was_given(fake_gpu):
    """On a plug-in without a GPU: workers that share one, workers with one each, workers that have reserved none, and a GPU that is taken."""
    environment = {**os.environ, "VIBESPATIAL_GPU_FOLDER": str(fake_gpu), "VIBESPATIAL_GPU_MIN_ROWS": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
                   "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run([sys.executable, "-c", GPUS], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 10 and len({tuple(one["rows"]) for one in found}) == 1 and found[0]["rows"][0] > 20000
    local = found.pop()
    used = collections.defaultdict(set)
    for one in [*found, local]:
        # Of each kind of task: the GPUs, the processes, the engines
        devices, processes, engines = (collections.defaultdict(set) for _ in range(3))
        for kind, device, process in one["tasks"]:
            devices[kind].add(device)
            processes[kind].add(process)
        for task, operation, engine, reason, _ in one["log"]:
            engines[task.split()[0]].add((operation, engine, reason))
        assert {"sample", "cut", "join", "settle"} == set(devices) or {"join", "settle"} == set(devices)
        for kind in devices:
            if kind != "join" or not one["asked"]:
                assert devices[kind] == {""} and engines[kind] == {("all", "cpu", "the task has reserved no GPU")}, one
        if not one["asked"]:
            assert "GPU" not in one["plan"]
            continue
        assert any(operation.startswith("join_") and engine == "gpu" for operation, engine, _ in engines["join"]), one["log"]
        assert all("Fake" in device for device in devices["join"])
        if one is local:
            continue
        used[one["gpus"]].update(device.split(":")[0] for device in devices["join"])
        # A process that has run tasks without a GPU is given none later
        assert not processes["join"] & {process for kind in devices if kind != "join" for process in processes[kind]}
        # A process keeps its GPU: with several to be given, it ends after its task
        assert one["gpus"] == 1 or len(processes["join"]) == sum(kind == "join" for kind, _, _ in one["tasks"])
        at_a_time = one["gpus"] / one["asked"]
        assert "2 at a time on 1 node" in one["plan"] and f"GPUs     {one['asked']:g} for each task" in one["plan"] and f"; {at_a_time:g} such tasks" in one["plan"]
    assert used == {1: {"CUDA_VISIBLE_DEVICES=0"}, 2: {"CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"}}


class _Nodes:
    """Ray, as far as the executor asks it about the nodes of a cluster."""

    def __init__(self, *nodes):
        self.nodes = lambda: [{"Alive": alive, "Resources": {"CPU": cpus, "GPU": gpus}} for cpus, gpus, alive in nodes]
        self.is_initialized = lambda: True


def test_how_many_tasks_run_at_a_time(monkeypatch):
    """By node, as a task runs on one: those with a GPU by GPUs, the others by CPUs."""
    from vibespatial.ray import Options
    from vibespatial.ray._executor import RayExecutor
    from vibespatial.ray._options import Settings

    def slots(nodes, **options):
        monkeypatch.setitem(sys.modules, "ray", _Nodes(*nodes))
        executor = RayExecutor(Options(**options))
        return [executor.slots(Settings(2**30, gpu=gpu)) for gpu in (False, True)], executor.nodes, executor._once

    cluster = [(8, 0, True), (3, 1, True), (16, 4, True), (100, 8, False)]
    assert slots(cluster) == ([27, 0], 3, {})
    assert slots(cluster, num_gpus=1) == ([27, 5], 3, {"max_calls": 1})
    assert slots(cluster, num_gpus=0.4) == ([27, 10], 3, {"max_calls": 1})
    assert slots(cluster, num_gpus=0.2, threads=2) == ([13, 9], 3, {"max_calls": 1})
    assert slots(cluster[:2], num_gpus=0.1) == ([11, 3], 2, {})
    for nodes, options in (([(8, 0, True), (8, 0, True)], {"num_gpus": 0.5}), ([(8, 0, True), (1, 1, True)], {"num_gpus": 1, "threads": 2})):
        with pytest.raises(ValueError, match="no node of the cluster has . CPUs and"):
            slots(nodes, **options)
    with pytest.raises(ValueError, match="no node of the cluster has 9 CPUs"):
        slots([(8, 0, True), (8, 0, True)], threads=9)


def test_without_a_cluster_the_error_says_what_to_do():
    code = "import vibespatial.ray, pyarrow; vibespatial.ray.sjoin(pyarrow.table({'a': [1]}), pyarrow.table({'a': [1]}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "call ray.init() first" in done.stderr
    bare = os.environ["VIBESPATIAL_BARE_PYTHON"]
    done = subprocess.run([bare, "-c", "import vibespatial; import vibespatial.ray"], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install \"vibespatial[ray]\"" in done.stderr
