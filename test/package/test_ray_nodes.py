"""vibespatial.ray on a cluster of three nodes, each with a raylet, an object store and a working directory of its own, on this machine: the rows of
one process, a broadcast side that is read once, and nodes that are lost.

VIBESPATIAL_RAY_NODES=50 runs the part with lost nodes so many times (default: 1). The cluster has a process of its own, which this file is the
program of: test_ray_nodes.py RUNS
"""
import collections
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import pytest

RUNS = int(os.environ.get("VIBESPATIAL_RAY_NODES", "1"))
PAIRS = "SELECT l.id, r.id AS other FROM a l {} JOIN b r ON ST_Intersects(l.geom, r.geom)"
SQL = "SELECT p.id, z.id AS other FROM p JOIN z ON ST_Intersects(p.geom, z.geom)"


def test_several_nodes():
    pytest.importorskip("ray")
    folder = tempfile.mkdtemp(prefix="vibe-ray-", dir="/tmp")
    # Where Ray notes the address of the cluster
    os.mkdir(f"{folder}/ray")
    environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
    try:
        done = subprocess.run([sys.executable, __file__, str(RUNS)], env=environment, capture_output=True, text=True, timeout=300 + 60 * RUNS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


class Nodes:
    """A cluster of three nodes with one CPU each; the driver is on the first."""

    def __init__(self):
        import ray
        from ray.cluster_utils import Cluster

        # A lost node is noticed within seconds
        noticed = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_timeout_ms": 2000, "health_check_failure_threshold": 4}
        self.node = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.1"}
        self.cluster = Cluster(initialize_head=True, head_node_args={**self.node, "include_dashboard": False, "_system_config": noticed})
        self.others = [self.cluster.add_node(**self.node) for _ in range(2)]
        ray.init(address=self.cluster.address, log_to_driver=False, configure_logging=False, _node_ip_address="127.0.0.1")
        self.ray = ray
        self.lost = 0

    def lose(self, which):
        self.cluster.remove_node(self.others.pop(which), allow_graceful=False)
        self.lost += 1

    def replace(self):
        while len(self.others) < 2:
            self.others.append(self.cluster.add_node(**self.node))

    def alive(self):
        return {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}

    def end(self):
        self.ray.shutdown()
        self.cluster.shutdown()


def layers(con, folder):
    """Two layers, the first in a folder of files, and what one process finds."""
    from conftest import arrow, bag, lattice

    for name, count, seed in (("a", 2600, 1), ("b", 2400, 2)):
        con.register(name, lattice(count, seed))
    os.mkdir(f"{folder}/a")
    for part in range(6):
        con.execute(f"COPY (FROM a WHERE id // 434 = {part} ORDER BY id) TO '{folder}/a/{part}.parquet'")
    con.execute(f"COPY (FROM b ORDER BY id) TO '{folder}/b.parquet'")
    return {
        **{how: bag(arrow(con.execute(PAIRS.format(how)))) for how in ("inner", "full")},
        "knn": bag(arrow(con.execute("SELECT id, other FROM vibe_knn('a', 'SELECT id AS other, geom FROM b', 2, left_columns := ['id'], "
                                     "right_columns := ['other'])"))),
        "dissolve": bag(arrow(con.execute("FROM vibe_dissolve('a', by := 'kind', aggregates := {'id': 'sum'})"))),
        "sql": bag(arrow(con.execute(SQL.replace("FROM p", "FROM a p").replace("JOIN z", "JOIN b z")))),
    }


def same_rows(nodes, con, expected):
    """All operations, with paths that are relative to this process alone; returns how many, their rows, and the nodes that ran a task."""
    import vibespatial.ray
    from conftest import arrow, bag

    select = ["l.id", "r.id AS other"]
    work = [("inner", "sjoin", ("a", "b.parquet", "intersects", how, select), way)
            for how, way in (("inner", {"broadcast": "right"}), ("inner", {"broadcast": "never", "partitions": 5}))]
    work += [("full", "sjoin", ("a", "b.parquet", "intersects", "full", select), way) for way in (
        {"broadcast": "right", "partitions": 2}, {"broadcast": "never", "partitions": 5}, {"broadcast": "never", "partitions": 4, "output": "out"})]
    work += [("knn", "knn", ("a", "b.parquet", 2, select), way) for way in ({"broadcast": "never", "partitions": 5}, {"broadcast": "right"})]
    work += [("dissolve", "dissolve", ("a", "kind", {"id": "sum"}), {"partitions": 3})]
    work += [("sql", "sql", (SQL, {"p": "a", "z": "b.parquet"}, by), {"partitions": 3}) for by in ("p", {"p": "geom", "z": "geom"})]
    used, rows = collections.Counter(), 0
    for name, operation, arguments, options in work:
        result = vibespatial.ray.plan(operation, *arguments, memory="1GB", temp_directory="spilled", **options).run()
        if "output" in options:
            # The workers' working directories are elsewhere
            assert result.path == os.path.abspath("out") and sorted(os.listdir("out"))[0] == "_SUCCESS" and not list(pathlib.Path("out").glob("_temporary*"))
            found = arrow(con.execute("SELECT id, other FROM 'out/*.parquet'"))
        else:
            found = result.to_arrow()
        if name == "knn":
            found = found.select(["id", "other"])
        assert bag(found) == expected[name], (operation, options)
        rows += result.rows
        used.update(report.node for report in result.reports)
    assert set(used) == nodes.alive() and len(used) == 3, used
    return len(work), rows


def broadcast_is_read_once(nodes, expected):
    """The file is gone when the join begins, and its rows are in the object store of each node once."""
    import vibespatial.ray
    from conftest import bag
    from vibespatial.ray._exchange import Planned

    given, whole = [], Planned.whole

    def spied(self, *arguments):
        side, tables = whole(self, *arguments)
        given.extend(tables)
        return side, tables

    shutil.copy("b.parquet", "gone.parquet")
    Planned.whole = spied
    try:
        result = vibespatial.ray.sjoin("a", "gone.parquet", "intersects", "full", ["l.id", "r.id AS other"], broadcast="right", partitions=6,
                                       memory="1GB", progress=lambda one: os.unlink("gone.parquet") if (one.stage, one.tasks_done) == ("join", 0) else None)
    finally:
        Planned.whole = whole
    assert bag(result.to_arrow()) == expected["full"] and not os.path.exists("gone.parquet")
    reads = [report for report in result.reports if report.label == "read right"]
    joins = {report.node for report in result.reports if report.label.startswith("join")}
    assert sum(report.read for report in reads) == 2400 and len(joins) > 1
    assert all(sum(report.read for report in result.reports if report.label == f"join part {part}") < 2600 for part in range(6))
    copies = nodes.ray.experimental.get_object_locations(given)
    assert given and all(joins <= set(copies[table]["node_ids"]) <= nodes.alive() for table in given), copies
    return len(reads), sum(len(copies[table]["node_ids"]) for table in given)


def nodes_are_lost(nodes, con, expected, run):
    """A node ends at a random moment of a join that writes a folder, and another one after a join whose rows are in the cluster."""
    import vibespatial.ray
    from conftest import arrow, bag

    numbers = random.Random(run)
    how, select = numbers.choice(["inner", "full"]), ["l.id", "r.id AS other", "l.geom"]
    way = numbers.choice([{"broadcast": "never", "partitions": 7}, {"broadcast": "never", "partitions": 7}, {"broadcast": "right", "partitions": 7}])
    # Progress is told at the beginning of a stage and when a task has ended
    at, told = numbers.randrange(9 if way["broadcast"] == "right" else 24 + 8 * (how == "full")), []

    def progress(one):
        told.append(one.stage)
        if len(told) == at + 1:
            nodes.lose(numbers.randrange(2))

    out = f"lost{run}"
    result = vibespatial.ray.sjoin("a", "b.parquet", "intersects", how, select, memory="1GB", output=out, progress=progress, **way)
    assert result.rows == sum(expected[how].values())
    assert bag(arrow(con.execute(f"SELECT id, other FROM '{out}/*.parquet'"))) == expected[how]
    assert sorted(os.listdir(out))[0] == "_SUCCESS" and not list(pathlib.Path(out).glob("_temporary*"))
    nodes.replace()
    rows = result.rows
    result = vibespatial.ray.knn("a", "b.parquet", 2, ["l.id", "r.id AS other", "repeat('x', 1000) AS more"], memory="1GB", broadcast="never", partitions=5)
    nodes.lose(numbers.randrange(2))
    # What the lost node had is computed again
    assert bag(result.to_arrow().select(["id", "other"])) == expected["knn"]
    nodes.replace()
    return (told[at] if at < len(told) else "none"), rows + result.rows


def main(runs):
    import vibespatial

    work = pathlib.Path(tempfile.mkdtemp(prefix="vibespatial-nodes-"))
    con = vibespatial.connect(threads=1)
    nodes = Nodes()
    os.chdir(work)
    try:
        expected = layers(con, work)
        count, rows = same_rows(nodes, con, expected)
        print(f"{count} operations on 3 nodes, {rows:,} rows", flush=True)
        reads, copies = broadcast_is_read_once(nodes, expected)
        print(f"a broadcast side read by {reads} tasks, {copies} copies on 3 nodes", flush=True)
        lost, rows = collections.Counter(), 0
        for run in range(runs):
            stage, found = nodes_are_lost(nodes, con, expected, run)
            lost[stage] += 1
            rows += found
        print(f"{nodes.lost} nodes lost in {runs} runs of two operations, {rows:,} rows; the first of a run in: {dict(lost)}", flush=True)
    finally:
        nodes.end()
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
