"""ST_RemoveRepeatedPoints against shapely, byte for byte."""
import random

import pytest
import shapely


def random_path(generator, size):
    """A path on a grid that often stays where it is; squared distances on it are exact"""
    path = [(generator.randrange(6), generator.randrange(6))]
    while len(path) < size:
        path.append(path[-1] if generator.random() < 0.4 else (generator.randrange(6), generator.randrange(6)))
    return path


def random_ring(generator):
    path = random_path(generator, generator.randrange(3, 12))
    return path + path[:1]


def random_geometry(generator):
    kind = generator.randrange(5)
    if kind == 0:
        return shapely.LineString(random_path(generator, generator.randrange(2, 12)))
    if kind == 1:
        return shapely.Polygon(random_ring(generator), [random_ring(generator) for _ in range(generator.randrange(3))])
    if kind == 2:
        return shapely.MultiLineString([random_path(generator, generator.randrange(2, 9)) for _ in range(3)])
    if kind == 3:
        return shapely.MultiPoint(random_path(generator, 5))
    return shapely.GeometryCollection([shapely.Point(1, 1), shapely.LineString(random_path(generator, 6))])


def expected(geometry, tolerance):
    """Of shapely, but rings stay that would have fewer than four vertices: it makes invalid ones of them, or none"""
    if geometry.geom_type != "Polygon":
        return shapely.remove_repeated_points(geometry, tolerance)
    rings = []
    for ring in [geometry.exterior, *geometry.interiors]:
        less = shapely.remove_repeated_points(shapely.LineString(ring.coords), tolerance)
        rings.append(less.coords if len(less.coords) >= 4 else ring.coords)
    return shapely.Polygon(rings[0], rings[1:])


@pytest.mark.parametrize("tolerance", [0, 1, 1.5, 2, 5, 100])
def test_random_geometries(con, tolerance):
    generator = random.Random(int(tolerance * 10))
    geometries = [random_geometry(generator) for _ in range(500)]
    con.execute("CREATE TABLE raw (i INTEGER, w BLOB)")
    con.executemany("INSERT INTO raw VALUES (?, ?)", list(enumerate(geometry.wkb for geometry in geometries)))
    rows = con.execute("SELECT i, ST_AsWKB(ST_RemoveRepeatedPoints(ST_GeomFromWKB(w), ?)) FROM raw ORDER BY i", [tolerance])
    for i, wkb in rows.fetchall():
        assert shapely.from_wkb(bytes(wkb)).wkt == expected(geometries[i], tolerance).wkt, geometries[i].wkt


@pytest.mark.parametrize("tolerance", [0, 0.01, 0.5])
def test_real_polygons(con, data, tolerance):
    query = f"SELECT ST_AsWKB(geom), ST_AsWKB(ST_RemoveRepeatedPoints(geom, ?)) FROM '{data}/provinces.parquet'"
    fewer = 0
    for before, after in con.execute(query, [tolerance]).fetchall():
        before, after = shapely.from_wkb(bytes(before)), shapely.from_wkb(bytes(after))
        parts = [expected(part, tolerance) for part in shapely.get_parts(before)]
        assert [part.wkb for part in shapely.get_parts(after)] == [part.wkb for part in parts]
        fewer += shapely.get_num_coordinates(before) - shapely.get_num_coordinates(after)
    assert (fewer > 0) == (tolerance > 0)
