"""vibespatial.ray: neighbours, dissolve, overlays and queries give the rows of one process."""
import random

import pyarrow
import pytest
import vibespatial
import vibespatial.ray
from conftest import arrow, bag, lattice

WAYS = [("never", "shuffle", 1), ("never", "shuffle", 2), ("never", "direct", 3), ("never", "shuffle", 7), ("right", "auto", 3)]


# ---- neighbours

def one_knn(con, left, right, k, limit=""):
    return bag(arrow(con.execute(f"SELECT id, other, distance, rank FROM vibe_knn('{left}', 'SELECT id AS other, geom FROM {right}', {k}, "
                                 f"left_columns := ['id'], right_columns := ['other']{limit})")))


@pytest.mark.parametrize("k", [1, 3, 40])
def test_neighbours_with_many_equally_far(con, pair, k):
    """On the lattice many rows are equally far, often on both sides of a border: the first ones count."""
    expected = one_knn(con, "a", "b", k)
    for broadcast, exchange, partitions in WAYS:
        result = vibespatial.ray.knn(*pair, k, ["l.id", "r.id AS other"], executor="local", broadcast=broadcast, exchange=exchange, partitions=partitions)
        assert bag(result.to_arrow()) == expected, (broadcast, exchange, partitions)
        assert result.rows == sum(expected.values())


def test_neighbours_within_a_distance_and_fewer_than_asked_for(con, pair):
    expected = one_knn(con, "a", "b", 5, ", max_distance := 2.5")
    for partitions in (2, 5):
        result = vibespatial.ray.knn(*pair, 5, ["l.id", "r.id AS other"], max_distance=2.5, executor="local", broadcast="never", partitions=partitions)
        assert bag(result.to_arrow()) == expected
    few = pair[1].slice(100, 3)
    con.register("few", few)
    expected = one_knn(con, "a", "few", 5)
    assert bag(vibespatial.ray.knn(pair[0], few, 5, ["l.id", "r.id AS other"], executor="local", broadcast="never", partitions=4).to_arrow()) == expected


def test_neighbours_of_real_data(con, shared_data):
    """Clustered places whose nearest airport is often in another partition."""
    cities = arrow(con.execute(f"SELECT id, ST_GeomFromWKB(geom) AS geom FROM '{shared_data}/cities500_geonames.parquet' WHERE id % 40 = 0"))
    airports = arrow(con.execute(f"SELECT id, ST_GeomFromWKB(geom) AS geom FROM '{shared_data}/airports.parquet' WHERE id % 10 = 0"))
    con.register("cities", cities)
    con.register("airports", airports)
    expected = one_knn(con, "cities", "airports", 4)
    for partitions in (3, 7):
        result = vibespatial.ray.knn(cities, airports, 4, ["l.id", "r.id AS other"], executor="local", broadcast="never", partitions=partitions)
        assert bag(result.to_arrow()) == expected
        assert sum(report.facts.get("asked", 0) for report in result.reports) < cities.num_rows


def test_mistakes_of_neighbours(pair):
    with pytest.raises(ValueError, match="k must be"):
        vibespatial.ray.knn(*pair, 0, executor="local")
    with pytest.raises(ValueError, match="another name with AS"):
        vibespatial.ray.knn(*pair, 1, ["l.id AS rank"], executor="local")
    with pytest.raises(ValueError, match="cannot broadcast its left side"):
        vibespatial.ray.knn(*pair, 1, executor="local", broadcast="left")


# ---- dissolve

@pytest.mark.parametrize("by", ["kind", ["kind", "amount"], None])
def test_dissolve(con, pair, by):
    names = [by] if isinstance(by, str) else list(by or [])
    keys = f", by := [{', '.join(repr(name) for name in names)}]" if names else ""
    for aggregates, text in ((None, ""), ({"id": "max"}, ", aggregates := {'id': 'max'}")):
        expected = arrow(con.execute(f"FROM vibe_dissolve('SELECT * FROM a ORDER BY id'{keys}{text})"))
        for partitions in (1, 2, 7):
            result = vibespatial.ray.dissolve(pair[0], by, aggregates, executor="local", partitions=partitions)
            found = result.to_arrow()
            assert found.schema.names == expected.schema.names
            # To the bit: bytes of the geometries, and the first value of each other column
            assert bag(found) == bag(expected)


def test_dissolve_of_real_data(con, shared_data, tmp_path):
    source = shared_data / "us_counties.parquet"
    expected = arrow(con.execute(
        f"FROM vibe_dissolve('SELECT state, id, ST_GeomFromWKB(geom) AS geom FROM ''{source}''', by := 'state', aggregates := {{'id': 'count'}})"))
    result = vibespatial.ray.dissolve(source, "state", {"id": "count"}, executor="local", partitions=3)
    assert bag(result.to_arrow()) == bag(expected) and expected.num_rows > 50
    result = vibespatial.ray.dissolve(source, "state", {"id": "count"}, executor="local", partitions=3, output=tmp_path / "states")
    assert bag(arrow(con.execute(f"SELECT * EXCLUDE (bbox) FROM '{tmp_path}/states/*.parquet'"))) == bag(expected)


# ---- overlay

def layer(count, seed, size):
    """Boxes of a layer that do not overlap each other: cells of a lattice, some of them left out."""
    numbers = random.Random(seed)
    cells = [(x, y) for x in range(0, 40, size) for y in range(0, 40, size)]
    chosen = sorted(numbers.sample(cells, min(count, len(cells))))
    con = vibespatial.connect(threads=1)
    con.register("t", pyarrow.table({"id": range(len(chosen)), "x": [x + seed / 4 for x, _ in chosen], "y": [y + seed / 8 for _, y in chosen]}))
    return arrow(con.execute(f"SELECT id, ST_MakeEnvelope(x, y, x + {size}, y + {size}) AS geom FROM t"))


@pytest.mark.parametrize("how", ["intersection", "difference", "identity", "symdifference", "union"])
def test_overlay(con, how):
    left, right = layer(60, 1, 5), layer(90, 2, 3)
    con.register("zones", left)
    con.register("parcels", right)
    expected = arrow(con.execute(f"FROM vibe_overlay('zones', 'parcels', how := '{how}')"))
    assert expected.num_rows > 40
    for broadcast, _, partitions in WAYS:
        found = vibespatial.ray.overlay(left, right, how, executor="local", partitions=partitions,
                                        broadcast="auto" if broadcast == "right" else broadcast).to_arrow()
        assert found.schema.names == expected.schema.names
        assert bag(found) == bag(expected), (broadcast, partitions)


def test_overlay_of_all_kinds_of_geometries(con, pair):
    for how in ("intersection", "difference"):
        expected = arrow(con.execute(f"FROM vibe_overlay('a', 'b', how := '{how}', keep_geom_type := false)"))
        found = vibespatial.ray.overlay(*pair, how, keep_geom_type=False, executor="local", broadcast="never", partitions=5).to_arrow()
        assert bag(found) == bag(expected)


# ---- sql

def test_a_query_with_one_table_divided(con, pair, tmp_path):
    query = "SELECT p.id, z.id AS zone FROM points p LEFT JOIN zones z ON ST_Intersects(p.geom, z.geom) WHERE p.kind <> 2"
    expected = bag(arrow(con.execute(query.replace("points p", "a p").replace("zones z", "b z"))))
    tables = {"points": pair[0], "zones": pair[1]}
    for partition_by in ("points", {"points": "geom", "zones": "geom"}):
        for partitions in (1, 3, 7):
            result = vibespatial.ray.sql(query, tables, partition_by, executor="local", partitions=partitions)
            assert bag(result.to_arrow()) == expected, (partition_by, partitions)
    vibespatial.ray.sql("SELECT p.id, p.geom FROM points p", {"points": pair[0]}, "points", executor="local", output=tmp_path / "out")
    assert con.execute(f"SELECT count(*) FROM '{tmp_path}/out/*.parquet'").fetchall()[0][0] == pair[0].num_rows


def test_a_query_by_distance_with_aggregates_combined(con, pair):
    query = "SELECT p.kind, count(*) AS n FROM points p JOIN zones z ON ST_DWithin(p.geom, z.geom, 3) GROUP BY p.kind"
    expected = bag(arrow(con.execute(query.replace("points p", "a p").replace("zones z", "b z"))))
    for partitions in (1, 4):
        result = vibespatial.ray.sql(query, {"points": pair[0], "zones": pair[1]}, {"points": "geom", "zones": "geom"}, distance=3.0,
                                     combine="SELECT kind, sum(n)::BIGINT AS n FROM parts GROUP BY kind", executor="local", partitions=partitions)
        assert bag(result.to_arrow()) == expected


@pytest.mark.parametrize("query, message", [
    ("SELECT count(*) FROM points p JOIN zones z ON ST_Intersects(p.geom, z.geom)", "give combine="),
    ("SELECT id FROM points ORDER BY id", "give combine="),
    ("SELECT DISTINCT kind FROM points", "give combine="),
    ("SELECT id, row_number() OVER () FROM points", "give combine="),
    ("SELECT z.id FROM points p RIGHT JOIN zones z ON ST_Intersects(p.geom, z.geom)", "RIGHT and FULL"),
    ("SELECT z.id FROM points p, points q, zones z", "exactly once, not 2 times"),
    ("SELECT id FROM zones", "exactly once, not 0 times"),
    ("SELECT nothing FROM points", "nothing"),
    ("DROP TABLE points", "SELECT"),
])
def test_queries_that_tasks_cannot_answer_alone(pair, query, message):
    with pytest.raises(Exception, match=message):
        vibespatial.ray.plan("sql", query, {"points": pair[0], "zones": pair[1]}, "points", executor="local")


# ---- plans

def test_plans_can_be_printed(pair):
    points = lattice(50, 3, points=True)
    for arguments, words in (
        (("sjoin", *pair, "within", "left"), ["sjoin, left: ST_Within", "4 partitions", "a second round", "shuffled"]),
        (("knn", points, pair[1], 2), ["knn: 2 nearest", "4 partitions", "across a border"]),
        (("overlay", *pair, "union"), ["overlay, union", "one pass with the right rows"]),
    ):
        text = str(vibespatial.ray.plan(*arguments, executor="local", broadcast="never", partitions=4))
        assert all(word in text for word in words), text
    assert "goes to every node" in str(vibespatial.ray.plan("sjoin", *pair, executor="local"))
    assert "shuffled by their group" in str(vibespatial.ray.plan("dissolve", pair[0], "kind", executor="local"))
    assert "one task" not in str(vibespatial.ray.plan("sql", "SELECT id FROM t", {"t": pair[0]}, "t", executor="local"))
    with pytest.raises(ValueError, match="operation must be one of"):
        vibespatial.ray.plan("join", *pair)
