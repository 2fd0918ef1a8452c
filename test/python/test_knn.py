"""vibe_knn against shapely's distances; under a memory limit, cancelled, on any number of threads, beside `spatial`."""
import threading
import time

import duckdb
import numpy
import pytest
import shapely

# ST_Distance promises 1e-12; GEOS has rounding of its own
TOLERANCE = 1e-11


def put(connection, name, geometries):
    """A table of geometries, NULL for None, in their order."""
    texts = [None if geometry is None else shapely.to_wkb(geometry, hex=True) for geometry in geometries]
    connection.execute(f"CREATE OR REPLACE TABLE {name} (i BIGINT, g GEOMETRY)")
    connection.execute(
        f"INSERT INTO {name} SELECT i - 1, ST_GeomFromWKB(unhex(texts[i])) FROM (SELECT $1::VARCHAR[] AS texts), range(1, $2) t(i)",
        [texts, len(texts) + 1],
    )


def mixed(random, count, extent):
    """Geometries of all types, with NULL and EMPTY."""
    result = []
    for _ in range(count):
        x, y = random.uniform(0, extent, 2)
        kind = random.integers(9)
        if kind == 0:
            result.append(None if random.integers(2) else shapely.from_wkt("MULTIPOINT EMPTY"))
        elif kind == 1:
            result.append(shapely.LineString(numpy.c_[x + random.uniform(-2, 2, 6), y + random.uniform(-2, 2, 6)]))
        elif kind == 2:
            result.append(shapely.Point(x, y).buffer(random.uniform(0.1, 3), quad_segs=int(random.integers(1, 30))))
        elif kind == 3:
            hole = shapely.box(x + 1, y + 1, x + 4, y + 4)
            result.append(shapely.box(x, y, x + 5, y + 5).difference(hole))
        elif kind == 4:
            result.append(shapely.MultiPoint([(x, y), tuple(random.uniform(0, extent, 2))]))
        elif kind == 5:
            result.append(shapely.MultiPolygon([shapely.box(x, y, x + 1, y + 1), shapely.box(x + 3, y, x + 4, y + 2)]))
        else:
            result.append(shapely.Point(x, y))
    return result


def check(connection, left, right, k, most=numpy.inf):
    """Every row of the answer against all distances of shapely."""
    rows = connection.execute(
        "FROM vibe_knn('a', 'b', $1, max_distance := $2)", [k, float(most)]
    ).fetchnumpy()
    usable = numpy.array([i for i, geometry in enumerate(right) if geometry is not None and not geometry.is_empty], int)
    geometries = numpy.array([right[i] for i in usable], object)
    begin = 0
    for i, geometry in enumerate(left):
        found = int(numpy.searchsorted(rows["left_row"], i, "right")) - begin
        mine = slice(begin, begin + found)
        begin += found
        if geometry is None or geometry.is_empty or len(usable) == 0:
            assert found == 0
            continue
        distances = shapely.distance(geometry, geometries)
        expected = numpy.sort(distances[distances <= most])[:k]
        assert found == len(expected), i
        assert list(rows["rank"][mine]) == list(range(1, found + 1))
        numpy.testing.assert_allclose(rows["distance"][mine], expected, rtol=TOLERANCE, atol=1e-300)
        chosen = rows["right_row"][mine]
        assert len(set(chosen)) == found
        theirs = distances[numpy.searchsorted(usable, chosen)]
        numpy.testing.assert_allclose(theirs, rows["distance"][mine], rtol=TOLERANCE, atol=1e-300)
        # Ties by row number, by the very distances of the answer
        pairs = list(zip(rows["distance"][mine], chosen))
        assert pairs == sorted(pairs)
    assert begin == len(rows["left_row"])


@pytest.mark.parametrize("k", [1, 3, 20, 500])
@pytest.mark.parametrize("kind", ["points", "duplicates", "lines", "mixed", "points in mixed", "mixed in points"])
def test_shapely(con, kind, k):
    random = numpy.random.default_rng(k)

    def points(count):
        return list(shapely.points(random.uniform(-180, 180, (count, 2))))

    if kind == "points":
        left, right = points(150), points(2000)
    elif kind == "duplicates":
        left = list(shapely.points(random.integers(0, 12, (150, 2))))
        right = list(shapely.points(random.integers(0, 12, (900, 2))))
    elif kind == "lines":
        right = [shapely.LineString(random.uniform(0, 50, (2, 2)) + (0, i % 7)) for i in range(300)]
        left = right[:80]
    else:
        left = mixed(random, 120, 60) if kind.startswith("mixed") else points(120)
        right = points(400) if kind == "mixed in points" else mixed(random, 400, 60)
    put(con, "a", left)
    put(con, "b", right)
    check(con, left, right, k)
    check(con, left, right, k, most=4.0)


def test_real_data(con, data):
    """The cities nearest to each other and to each country; the same as the order of all distances."""
    con.execute(f"CREATE TABLE cities AS SELECT * FROM '{data}/cities.parquet' LIMIT 3000")
    con.execute(f"CREATE TABLE countries AS FROM '{data}/countries.parquet'")
    for left, right in [("cities", "countries"), ("countries", "cities"), ("countries", "countries")]:
        geometry = {}
        for name in (left, right):
            columns = con.execute(f"DESCRIBE {name}").fetchall()
            geometry[name] = next(column[0] for column in columns if column[1].startswith("GEOMETRY"))
        limit = "LIMIT 200" if left == "cities" else ""
        con.execute(f"CREATE OR REPLACE TABLE a AS SELECT {geometry[left]} AS g FROM {left} {limit}")
        con.execute(f"CREATE OR REPLACE TABLE b AS SELECT {geometry[right]} AS g FROM {right}")
        expected = con.execute("""
            SELECT l.rowid, r.rowid, vibe_distance(l.g, r.g) AS d FROM a l, b r
            QUALIFY row_number() OVER (PARTITION BY l.rowid ORDER BY d, r.rowid) <= 4 ORDER BY l.rowid, d, r.rowid""").fetchall()
        assert con.execute("SELECT left_row, right_row, distance FROM vibe_knn('a', 'b', 4)").fetchall() == expected


def test_beside_spatial(connect, spatial_path):
    with connect() as connection:
        connection.execute(f"LOAD '{spatial_path}'")
        connection.execute("CREATE TABLE a AS SELECT ST_Point(i % 7, i // 7) AS g FROM range(49) t(i)")
        assert connection.execute("SELECT sum(distance) FROM vibe_knn('a', 'a', 2)").fetchone() == (49.0,)
        plan = connection.execute("EXPLAIN FROM vibe_sjoin('a', 'a', predicate := 'equals')").fetchone()[1]
        assert "VIBE_SPATIAL_JOIN" in plan
        assert connection.execute("SELECT count(*) FROM vibe_sjoin('a', 'a')").fetchone() == (49,)


def test_memory(connect, tmp_path):
    """The left side spills; the right one, which is indexed, must fit, and says so where it does not."""
    points = "(SELECT ST_Point((hash(i) % 3600000000) / 1e7, (hash(i + 1000000007) % 1800000000) / 1e7) AS g FROM range({}) t(i))"
    with connect(memory_limit="100MB", temp_directory=str(tmp_path)) as connection:
        connection.execute(f"CREATE TABLE few AS FROM {points.format(1000)}")
        query = "SELECT count(*), count(DISTINCT left_row) FROM vibe_knn('{}', '{}', 1)"
        many = f"FROM {points.format(3_000_000)}"
        assert connection.execute(query.format(many, "few")).fetchone() == (3_000_000, 3_000_000)
        with pytest.raises(duckdb.OutOfMemoryException):
            connection.execute(query.format("few", many))
        assert connection.execute(query.format("few", "few")).fetchone() == (1000, 1000)
        used = connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'EXTENSION'").fetchone()
        assert used == (0,)


def test_huge_k_counts(connect):
    with connect(memory_limit="60MB", threads=1) as connection:
        connection.execute("CREATE TABLE r AS SELECT ST_Point(i, 0) AS g FROM range(200000) t(i)")
        query = "SELECT max(distance), count(*) FROM vibe_knn('FROM r LIMIT 2', 'r', 1000000)"
        assert connection.execute(query).fetchone() == (199999.0, 400000)


@pytest.mark.parametrize("threads", [1, 4])
def test_cancel(connect, threads):
    """While searching, within a second"""
    with connect(threads=threads) as connection:
        connection.execute("CREATE TABLE r AS SELECT ST_Point(hash(i) % 100000, hash(i + 1) % 100000) AS g FROM range(200000) t(i)")
        begin = time.monotonic()
        timer = threading.Timer(0.5, connection.interrupt)
        timer.start()
        with pytest.raises(duckdb.InterruptException):
            connection.execute("SELECT sum(distance) FROM vibe_knn('r', 'r', 2000)")
        assert time.monotonic() - begin < 3
        timer.join()
        assert connection.execute("SELECT count(*) FROM vibe_knn('FROM r LIMIT 5', 'r', 2)").fetchone() == (10,)


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_threads(connect, threads):
    """The same rows in the same order, with columns of both sides"""
    with connect(threads=threads) as connection:
        connection.execute("CREATE TABLE r AS SELECT i, ST_Point(hash(i) % 1000, hash(i + 1) % 1000) AS g FROM range(130000) t(i)")
        rows = connection.execute(
            "SELECT left_row, right_row, rank, l, i FROM vibe_knn('SELECT i AS l, g FROM r', 'r', 3, left_columns := ['l'], right_columns := ['i'])"
        ).fetchnumpy()
        assert (rows["left_row"] * 3 + rows["rank"] == numpy.arange(1, 390001)).all()
        assert (rows["l"] == rows["left_row"]).all() and (rows["i"] == rows["right_row"]).all()


def test_file_and_other_types(con, tmp_path):
    """Names of files; columns of nested types come through"""
    path = tmp_path / "r.parquet"
    con.execute(f"COPY (SELECT i, [i, i + 1] AS l, {{'a': i, 'b': 'text that is long enough ' || i}} AS s, ST_Point(i, 0) AS g FROM range(5000) t(i)) TO '{path}'")
    rows = con.execute(
        f"SELECT i, l, s FROM vibe_knn('SELECT ST_Point(7.2, 0) AS g', '{path}', 2, right_columns := ['i', 'l', 's'])").fetchall()
    assert rows == [(7, [7, 8], {"a": 7, "b": "text that is long enough 7"}), (8, [8, 9], {"a": 8, "b": "text that is long enough 8"})]
