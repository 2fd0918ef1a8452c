"""vibespatial.ray on clusters of 1, 2, 3 and 7 workers: the rows of one process for all joins, predicates, neighbours and dissolve.

It takes minutes, so it runs on demand: VIBESPATIAL_RAY_WORKERS=1,2,3,7. Each cluster has a process of its own, which this file is the program of:
test_ray_workers.py WORKERS [FOLDER OF THE LARGE DATA]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

WORKERS = [int(word) for word in os.environ.get("VIBESPATIAL_RAY_WORKERS", "").split(",") if word]
HOW = ["inner", "left", "right", "full", "semi", "anti"]
SQL = {"contains_properly": "ST_ContainsProperly", "within_properly": "ST_WithinProperly", "coveredby": "ST_CoveredBy"}
PREDICATES = ["intersects", "within", "contains", "covers", "coveredby", "contains_properly", "within_properly", "touches", "crosses", "overlaps",
              "equals", "dwithin"]


@pytest.mark.skipif(not WORKERS, reason="takes minutes: VIBESPATIAL_RAY_WORKERS=1,2,3,7 runs it")
@pytest.mark.parametrize("workers", WORKERS or [0])
def test_same_rows_for_any_number_of_workers(workers, shared_data):
    environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run([sys.executable, __file__, str(workers), str(shared_data)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout.splitlines()[-1])


def compare(workers, data):
    """Compares all operations on random and on real layers; returns how many, and how many rows they had."""
    import vibespatial
    import vibespatial.ray
    from conftest import arrow, bag, lattice

    con = vibespatial.connect(threads=1)
    read = f"SELECT id, ST_GeomFromWKB(geom) AS geom FROM '{data}/{{}}.parquet' WHERE id % {{}} = 0 ORDER BY id"
    rivers, counties, places = (arrow(con.execute(read.format(*one))) for one in (("wdb_rivers_f", 8), ("us_counties", 4), ("cities500_geonames", 60)))
    airports = arrow(con.execute(read.format("airports", 20)))
    states = arrow(con.execute(f"SELECT id, state AS kind, ST_GeomFromWKB(geom) AS geom FROM '{data}/us_counties.parquet' WHERE id % 4 = 0 ORDER BY id"))
    random_pair = lattice(260, 1), lattice(180, 2)
    ways = ({"broadcast": "never", "partitions": workers}, {"broadcast": "right"})
    compared = rows = 0

    def same(result, expected, what):
        nonlocal compared, rows
        found = bag(result.to_arrow())
        assert found == bag(expected), (workers, what)
        compared += 1
        rows += sum(found.values())

    for name, (left, right) in (("random", random_pair), ("real", (counties, rivers)), ("counties", (counties, counties))):
        con.register("a", left)
        con.register("b", right)
        for predicate in PREDICATES:
            for how in HOW if predicate in ("intersects", "touches") else ["full", "anti"]:
                distance = {"distance": 0.25} if predicate == "dwithin" else {}
                on = "ST_DWithin(l.geom, r.geom, 0.25)" if distance else f"{SQL.get(predicate, f'ST_{predicate}')}(l.geom, r.geom)"
                items = ["l.id"] if how in ("semi", "anti") else ["l.id", "r.id AS other"]
                expected = arrow(con.execute(f"SELECT {', '.join(items)} FROM a l {how} JOIN b r ON {on}"))
                for way in ways:
                    same(vibespatial.ray.sjoin(left, right, predicate, how, items, memory="1GB", **distance, **way), expected, (name, predicate, how, way))
    for name, (left, right) in (("random", random_pair), ("real", (places, airports))):
        con.register("a", left)
        con.register("b", right)
        for k in (1, 5):
            expected = arrow(con.execute(f"SELECT id, other, distance, rank FROM vibe_knn('a', 'SELECT id AS other, geom FROM b', {k}, left_columns := ['id'], "
                                         "right_columns := ['other'])"))
            for way in ways:
                same(vibespatial.ray.knn(left, right, k, ["l.id", "r.id AS other"], memory="1GB", **way), expected, (name, k, way))
    for name, layer in (("random", random_pair[0]), ("real", states)):
        con.register("a", layer)
        expected = arrow(con.execute("FROM vibe_dissolve('SELECT * FROM a ORDER BY id', by := 'kind', aggregates := {'id': 'sum'})"))
        same(vibespatial.ray.dissolve(layer, "kind", {"id": "sum"}, memory="1GB", partitions=workers), expected, (name, "dissolve"))
    return compared, rows


def main():
    import ray

    workers, data = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder = tempfile.mkdtemp(prefix="vibe-ray-", dir="/tmp")
    ray.init(num_cpus=workers, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=folder, log_to_driver=False, configure_logging=False,
             object_store_memory=200 * 2**20)
    try:
        compared, rows = compare(workers, data)
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{workers} workers: {compared} operations, {rows} rows, all as in one process")


if __name__ == "__main__":
    main()
