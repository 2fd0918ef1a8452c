"""ST_Buffer, ST_MakeValid, ST_ReducePrecision and ST_Node against their definitions, and shapely where it keeps them."""

import itertools
import math
import random

import numpy as np
import pytest
import shapely

from exact import generators, with_vibespatial

CAPS = ["round", "flat", "square"]
JOINS = ["round", "mitre", "bevel"]


def apply(con, geometries, call, **columns):
    """call(g) for each geometry; more columns, one value a geometry, may be named"""
    with_vibespatial.load(con, "pool", np.asarray(geometries, dtype=object))
    con.register("more", {"k": np.arange(len(geometries)), **{name: np.asarray(v) for name, v in columns.items()}})
    query = f"SELECT ST_AsWKB({call}), vibe_isvalid({call}) FROM pool, more WHERE i = k ORDER BY i"
    found = con.execute(query).fetchall()
    assert all(valid for _, valid in found)
    results = shapely.from_wkb([bytes(wkb) for wkb, _ in found])
    assert shapely.is_valid(results).all()
    return results


def star(rng, vertices, size=10.0, x=0.0, y=0.0):
    angles = sorted(rng.uniform(0, 2 * math.pi) for _ in range(vertices))
    radii = [size * rng.uniform(0.2, 1) for _ in angles]
    return shapely.Polygon([(x + r * math.cos(a), y + r * math.sin(a)) for r, a in zip(radii, angles)])


def stars(rng, count):
    found = []
    while len(found) < count:
        polygon = star(rng, rng.randint(3, 30))
        if polygon.is_valid:
            found.append(polygon)
    return found


def holed(rng, count):
    found = []
    while len(found) < count:
        holes = [star(rng, rng.randint(3, 9), 4, rng.uniform(-8, 8), rng.uniform(-8, 8)) for _ in range(4)]
        shell = star(rng, 12)
        if shell.is_valid and all(hole.is_valid for hole in holes):
            polygon = shell.difference(shapely.union_all(holes))
            if polygon.geom_type == "Polygon":
                found.append(polygon)
    return found


def lines(rng, count):
    def vertex():
        draw = rng.randint if rng.random() < 0.5 else rng.uniform
        return draw(0, 9), draw(0, 9)

    return [shapely.LineString([vertex() for _ in range(rng.randint(2, 12))]) for _ in range(count)]


def edges(geometry):
    for ring in shapely.get_parts(geometry.boundary if geometry.geom_type == "Polygon" else geometry):
        points = shapely.get_coordinates(ring)
        yield from (shapely.LineString(pair) for pair in zip(points, points[1:]))


def true_buffer(geometry, distance):
    """From the outside, edge by edge: shapely's own buffer of a line simplifies it"""
    pieces = [edge.buffer(distance / math.cos(math.pi / 256), quad_segs=64) for edge in edges(geometry)]
    return shapely.union_all([geometry, *pieces] if geometry.geom_type == "Polygon" else pieces)


#
# ST_Buffer
#


@pytest.mark.parametrize("quad_segs", [1, 2, 8, 33])
def test_points(con, quad_segs):
    rng = random.Random(quad_segs)
    points = shapely.points([(rng.uniform(-180, 180), rng.uniform(-90, 90)) for _ in range(500)])
    distances = np.array([10 ** rng.uniform(-6, 3) for _ in points])
    found = apply(con, points, f"vibe_buffer(g, d, {quad_segs})", d=distances)
    expected = shapely.buffer(points, distances, quad_segs=quad_segs)
    assert np.allclose(shapely.area(found), shapely.area(expected), rtol=1e-8, atol=0)
    # the same vertices
    for a, b, d in zip(found, expected, distances):
        x, y = (np.array(sorted(np.round(shapely.get_coordinates(g)[:-1], 9).tolist())) for g in (a, b))
        assert x.shape == y.shape
        assert shapely.hausdorff_distance(shapely.multipoints(x), shapely.multipoints(y)) < 2e-9
        assert shapely.get_coordinates(a)[0].tolist() == min(shapely.get_coordinates(a).tolist())


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("cap", CAPS)
def test_convex(con, cap, join):
    """Where shapely does not simplify: no two edges nearly in line. No arc is of so many steps and a half."""
    rng = random.Random(cap + join)
    shapes, distances, limits = [], [], []
    for _ in range(300):
        turn, x, y = rng.uniform(0, 7), rng.uniform(-50, 50), rng.uniform(-50, 50)
        sides = rng.randint(2, 10)
        angles = [turn + 2 * math.pi * i / sides for i in range(sides)]
        corners = [(x + math.cos(a), y + math.sin(a)) for a in angles]
        shapes.append(shapely.LineString(corners) if sides == 2 else shapely.Polygon(corners))
        distances.append(10 ** rng.uniform(-3, 2))
        limits.append(rng.choice([0, 0.5, 1, 1.2, 2, 5]))
    call = f"vibe_buffer(g, d, 6, 'CAP_{cap}', 'join_{join}', l)"
    found = apply(con, shapes, call, d=distances, l=np.array(limits, dtype=float))
    for g, d, l, result in zip(shapes, distances, limits, found):
        expected = shapely.buffer(g, d, quad_segs=6, cap_style=cap, join_style=join, mitre_limit=l)
        assert result.area == pytest.approx(expected.area, rel=1e-9)
        assert shapely.hausdorff_distance(result, expected) < 1e-9 * (1 + d)


@pytest.mark.parametrize("make", [stars, holed, lines])
@pytest.mark.parametrize("quad_segs", [1, 8])
def test_round(con, make, quad_segs):
    """Between the circles and the polygons that stand for them, whose edges are of at most one and a half steps"""
    rng = random.Random(f"{make.__name__}{quad_segs}")
    shapes = make(rng, 150)
    distances = [rng.choice([0.01, 0.1, 0.5, 1, 3, 20]) for _ in shapes]
    found = apply(con, shapes, f"vibe_buffer(g, d, {quad_segs})", d=distances)
    least = math.cos(1.5 * math.pi / (4 * quad_segs))
    for g, d, result in zip(shapes, distances, found):
        off = shapely.distance(g, shapely.points(shapely.get_coordinates(result)))
        assert off.min() > d * least - 1e-9 and off.max() < d + 1e-9
        assert result.difference(true_buffer(g, d)).area < 1e-7
        inner = true_buffer(g, d * least * math.cos(math.pi / 256) - 1e-9)
        assert inner.difference(result).area < 1e-7
        assert result.buffer(1e-9).covers(g)


def walk(rng, vertices):
    steps = np.array([[rng.gauss(0, 0.01), rng.gauss(0, 0.01)] for _ in range(vertices)])
    return np.cumsum(steps, axis=0)


def test_far_above_the_distance_between_vertices(con):
    """All vertices lie where those of arcs may lie, and nothing is missing: not by one curve, whose edges would all cross each other."""
    rng = random.Random(16)
    far = [shapely.LineString(walk(rng, n)) for n in (64, 65, 300, 900)]
    far += [shapely.LinearRing(walk(rng, 400)), shapely.LineString(np.repeat(walk(rng, 200), 3, axis=0))]
    far += [star(rng, 300, 5).buffer(0.01), shapely.Polygon(star(rng, 500, 9).buffer(1).exterior, [star(rng, 400, 0.3).convex_hull.exterior])]
    far += [shapely.MultiLineString([walk(rng, 100), walk(rng, 100) + 50]), shapely.union(far[0], shapely.Point(9, 9))]
    least = math.cos(3 / 4 * math.pi / 16)
    for distance in (2, 30):
        far = far if distance == 2 else far[:3]
        found = apply(con, far, f"ST_Buffer(g, {distance})")
        for geometry, result in zip(far, found):
            around = shapely.distance(geometry, shapely.points(shapely.get_coordinates(result)))
            assert distance * (least - 1e-9) <= around.min() and around.max() <= distance * (1 + 1e-9)
            assert geometry.simplify(distance * 1e-3).buffer(distance * (least - 0.01)).difference(result).area <= 1e-9 * result.area
        for ends in ("FLAT", "SQUARE"):
            styled = apply(con, far[:1] + far[2:3], f"ST_Buffer(g, {distance}, 8, 'CAP_{ends}', 'JOIN_ROUND', 5.0)")
            inner, outer = (styled, found[[0, 2]]) if ends == "FLAT" else (found[[0, 2]], styled)
            assert (shapely.area(shapely.difference(inner, outer)) <= 0.01 * shapely.area(outer)).all()
            assert (shapely.area(inner) < shapely.area(outer) * (1 + 1e-6)).all()


@pytest.mark.parametrize("join", JOINS)
def test_other_corners(con, join):
    """What the pieces cover: each edge's strip is in it; nothing lies beyond the mitre limit"""
    rng = random.Random(join)
    shapes = lines(rng, 150) + stars(rng, 150)
    distances = [rng.choice([0.01, 0.1, 1, 3]) for _ in shapes]
    found = apply(con, shapes, f"vibe_buffer(g, d, 8, 'CAP_FLAT', 'JOIN_{join}', 3)", d=distances)
    reach = {"round": 1, "bevel": 1, "mitre": 3 / math.cos(math.pi / 4)}[join]
    for g, d, result in zip(shapes, distances, found):
        strips = [edge.buffer(d, cap_style="flat") for edge in edges(g) if edge.length > 0]
        if g.geom_type == "LineString":
            assert shapely.union_all(strips).difference(result).area < 1e-7
        assert result.buffer(1e-9).covers(g)
        assert shapely.distance(g, shapely.points(shapely.get_coordinates(result))).max() < d * reach + 1e-9


@pytest.mark.parametrize("make", [stars, holed])
def test_margins(con, make):
    rng = random.Random(make.__name__)
    shapes = make(rng, 300)
    distances = [rng.choice([0.001, 0.1, 0.5, 1, 2]) for _ in shapes]
    found = apply(con, shapes, "vibe_buffer(g, -d, 8)", d=distances)
    least = math.cos(1.5 * math.pi / 32)
    left = 0
    for g, d, result in zip(shapes, distances, found):
        border = shapely.union_all([edge.buffer(d * least, quad_segs=64) for edge in edges(g)])
        assert result.intersection(border).area < 1e-7
        border = shapely.union_all([edge.buffer(d / math.cos(math.pi / 256), quad_segs=64) for edge in edges(g)])
        assert g.difference(border).difference(result).area < 1e-7
        left += not result.is_empty
    assert left > 100


def corner(v, before, after, distance, join, limit):
    """What a join adds at a corner, between the right-hand normals of two directions that turn left"""
    turn = math.atan2(before[0] * after[1] - before[1] * after[0], before @ after)
    start = math.atan2(-before[0], before[1])

    def at(angle, reach=1.0):
        return v + distance * reach * np.array([math.cos(angle), math.sin(angle)])

    inner = []
    if join == "round":
        inner = [at(start + turn * n / 64) for n in range(1, 64)]
    elif join == "mitre" and limit * math.cos(turn / 2) >= 1:
        inner = [at(start + turn / 2, 1 / math.cos(turn / 2))]
    elif join == "mitre":
        along = distance * (limit - math.cos(turn / 2)) / math.sin(turn / 2)
        inner = [at(start) + along * before, at(start + turn) - along * after]
    return shapely.Polygon([v, at(start), *inner, at(start + turn)])


def swept(points, closed, distance, cap, join, limit):
    """What the right-hand side of a chain of edges sweeps, piece by piece"""
    steps = [(q - p) / math.dist(p, q) for p, q in zip(points, points[1:])]
    for p, q, step in zip(points, points[1:], steps):
        out = distance * np.array([step[1], -step[0]])
        yield shapely.Polygon([p, p + out, q + out, q])
    for v, before, after in zip(points[1:], steps, steps[1:] + steps[:1] if closed else steps[1:]):
        if before[0] * after[1] - before[1] * after[0] > 1e-12:
            yield corner(v, before, after, distance, join, limit)
    if not closed and cap != "flat":
        v, step = points[-1], steps[-1]
        if cap == "round":
            yield corner(v, step, -step, distance, "round", limit)
        else:
            out = distance * np.array([step[1], -step[0]])
            yield shapely.Polygon([v - out, v + out, v + out + distance * step, v - out + distance * step])


def united(pieces):
    """On a grid: without, shapely sometimes loses one of pieces that share edges but for rounding"""
    return shapely.union_all(pieces, grid_size=1e-10)


def by_pieces(geometry, distance, *style):
    if geometry.geom_type == "LineString":
        points = [p for p, before in zip(geometry.coords, [None, *geometry.coords]) if p != before]
        points = np.array(points)
        return united([*swept(points, False, distance, *style), *swept(points[::-1], False, distance, *style)])
    pieces = []
    for n, ring in enumerate([geometry.exterior, *geometry.interiors]):
        points = np.array(ring.coords)
        outwards = shapely.is_ccw(ring) == (n == 0)
        pieces += swept(points if outwards == (distance > 0) else points[::-1], True, abs(distance), *style)
    return united([geometry, *pieces]) if distance > 0 else shapely.difference(geometry, united(pieces), grid_size=1e-10)


@pytest.mark.parametrize("cap, join", list(itertools.product(CAPS, JOINS)))
def test_every_style_at_every_distance(con, cap, join):
    """Each edge's rectangle, each corner's join and each end's cap, put together by others; up to distances beyond the input's size"""
    rng = random.Random(f"{cap} {join}")
    walks = []
    while len(walks) < 25:
        walks.append(shapely.LineString([(rng.uniform(0, 9), rng.uniform(0, 9)) for _ in range(rng.randint(2, 9))]))
    inputs = [*walks, *stars(rng, 15), *holed(rng, 10)]
    limit = 3.0
    distances = [rng.choice((0.05, 0.5, 2.0, 9.0, 40.0)) for _ in inputs]
    distances = [-d / 8 if g.geom_type == "Polygon" and rng.random() < 0.4 else d for g, d in zip(inputs, distances)]
    call = f"ST_Buffer(g, d, 16, 'CAP_{cap.upper()}', 'JOIN_{join.upper()}', {limit})"
    for geometry, distance, found in zip(inputs, distances, apply(con, inputs, call, d=distances)):
        expected = by_pieces(geometry, distance, cap, join, limit)
        off = found.symmetric_difference(expected)
        # Arcs that are drawn with fewer segments lie inside of those with more
        thin = 0.011 * abs(distance) if "round" in (cap, join) else 1e-8
        assert off.area <= thin * (found.length + expected.length), (geometry.wkt, distance)
        assert off.buffer(-thin).is_empty or off.area < 1e-9 * (1 + expected.area), (geometry.wkt, distance)


def test_collections(con):
    rng = random.Random(1)
    shapes = []
    for _ in range(200):
        parts = rng.sample(lines(rng, 2) + stars(rng, 2), 3)
        parts.append(shapely.MultiPoint([(rng.uniform(-9, 9), rng.uniform(-9, 9)) for _ in range(5)]))
        shapes.append(shapely.GeometryCollection(parts))
    found = apply(con, shapes, "vibe_buffer(g, 0.7)")
    parts = [apply(con, shapely.get_parts(g), "vibe_buffer(g, 0.7)") for g in shapes[:30]]
    for result, pieces in zip(found, parts):
        assert result.symmetric_difference(shapely.union_all(pieces)).area < 1e-9


@pytest.mark.parametrize("family", generators.FAMILIES)
def test_anything_is_valid(con, family):
    shapes = generators.pool(family, "buffer", 30)
    shapes = [g for g in shapes if np.abs(shapely.get_coordinates(g)).max(initial=0) < 1e300]
    size = np.array([np.abs(shapely.get_coordinates(g)).max(initial=0) or 1 for g in shapes])
    rng = random.Random(family)
    for scale in (1e-17, 1e-15, 1e-9, 1e-3, 0.1, 1):
        distances = size * scale * np.array([rng.choice([1, 1, -1]) for _ in shapes])
        join = rng.choice(JOINS)
        calls = [f"vibe_buffer(g, d, {rng.choice([1, 8])}, 'CAP_{rng.choice(CAPS)}', 'JOIN_{join}', 5)",
                 "vibe_makevalid(g)"]
        if scale > 1e-12:
            calls.append("vibe_reduceprecision(g, abs(d))")
        with_vibespatial.load(con, "pool", np.asarray(shapes, dtype=object))
        con.register("more", {"k": np.arange(len(shapes)), "d": distances})
        for call in calls:
            bad = con.execute(f"SELECT g::VARCHAR, d FROM pool, more WHERE i = k AND NOT vibe_isvalid({call})").fetchall()
            assert bad == [], call


def real(con, shared_data, name, limit):
    query = f"SELECT ST_AsWKB(ST_GeomFromWKB(geom)) FROM '{shared_data}/{name}.parquet' LIMIT {limit}"
    return shapely.from_wkb([bytes(row[0]) for row in con.execute(query).fetchall()])


@pytest.mark.parametrize("distance", [0.001, 0.1, -0.01])
def test_provinces(con, shared_data, distance):
    provinces = real(con, shared_data, "ne10m_states_provinces", 300)
    found = apply(con, provinces, f"vibe_buffer(g, {distance})")
    expected = shapely.buffer(provinces, distance)
    length = shapely.length(provinces)
    assert (np.abs(shapely.area(found) - shapely.area(expected)) <= 0.01 * abs(distance) * length).all()
    assert shapely.area(found).sum() == pytest.approx(shapely.area(expected).sum(), rel=1e-5)


def test_rivers(con, shared_data):
    rivers = real(con, shared_data, "wdb_rivers_f", 2000)
    found = apply(con, rivers, "vibe_buffer(g, 0.01)")
    assert shapely.area(found).sum() == pytest.approx(shapely.area(shapely.buffer(rivers, 0.01)).sum(), rel=1e-3)


#
# ST_MakeValid
#


def broken_ring(rng, size):
    def vertex():
        draw = rng.randint if rng.random() < 0.8 else rng.uniform
        return draw(0, size), draw(0, size)

    ring = []
    for _ in range(rng.randint(2, 9)):
        ring.append(vertex())
        if rng.random() < 0.1:
            ring.append(ring[-1])
        if rng.random() < 0.1:
            ring.append(ring[max(0, len(ring) - 2)])
    while len(ring) < 3:
        ring.append(ring[0])
    return ring + ring[:1]


def odd_area(polygons):
    """Of what an odd number of rings runs around"""
    rings = [ring for rings in polygons for ring in rings]
    total = 0
    for face in shapely.get_parts(shapely.polygonize([shapely.union_all([shapely.LineString(ring) for ring in rings])])):
        p = face.representative_point()
        crossings = sum((a[1] <= p.y) != (b[1] <= p.y) and p.x < a[0] + (p.y - a[1]) * (b[0] - a[0]) / (b[1] - a[1])
                        for ring in rings for a, b in zip(ring, ring[1:]))
        total += face.area if crossings % 2 else 0
    return total


def test_make_valid(con):
    rng = random.Random(5)
    shapes, inputs = [], []
    while len(shapes) < 1500:
        size = rng.choice([3, 5, 8, 20])
        polygons = [[broken_ring(rng, size) for _ in range(rng.choice([1, 1, 2, 3]))] for _ in range(rng.choice([1, 1, 2]))]
        shape = shapely.MultiPolygon([(rings[0], rings[1:]) for rings in polygons])
        if not shape.is_valid:
            shapes.append(shape)
            inputs.append(polygons)
    found = apply(con, shapes, "vibe_makevalid(g)")
    for polygons, result in zip(inputs, found):
        assert result.area == pytest.approx(odd_area(polygons), rel=1e-9, abs=1e-9)
        # nothing of the rings is lost
        drawn = shapely.union_all([shapely.LineString(ring) for rings in polygons for ring in rings])
        assert drawn.difference(result.buffer(1e-9)).length < 1e-6


def test_make_valid_as_shapely(con):
    """Where no two edges lie on each other both follow the same rule"""
    rng = random.Random(6)
    vertices = [[(rng.uniform(0, 9), rng.uniform(0, 9)) for _ in range(rng.randint(4, 20))] for _ in range(500)]
    shapes = [shapely.Polygon(ring) for ring in vertices]
    found = apply(con, shapes, "vibe_makevalid(g)")
    for g, result in zip(shapes, found):
        expected = shapely.make_valid(g)
        assert result.area == pytest.approx(expected.area, rel=1e-9)
        assert shapely.get_num_geometries(result) == shapely.get_num_geometries(expected)


#
# ST_ReducePrecision, ST_Node
#


@pytest.mark.parametrize("grid", [1, 0.5, 0.3, 0.1, 1e-3])
def test_reduce_precision(con, grid):
    rng = random.Random(str(grid))
    shapes = stars(rng, 300) + holed(rng, 100)
    shapes += [shapely.union_all(stars(rng, 2) + [star(rng, 5, 3, 20, 0).convex_hull]) for _ in range(50)]
    found = apply(con, shapes, f"vibe_reduceprecision(g, {grid})")
    again = apply(con, found, f"vibe_reduceprecision(g, {grid})")
    assert shapely.equals_identical(found, again).all()
    expected = shapely.set_precision(shapes, grid)
    for g, result, other in zip(shapes, found, expected):
        steps = shapely.get_coordinates(result) / grid
        assert np.abs(steps - np.round(steps)).max(initial=0) < 1e-6
        # no border moves by more than a cell's diagonal
        assert result.symmetric_difference(g).area < grid * math.sqrt(2) * (g.length + 4 * grid)
        assert result.symmetric_difference(other).area < grid * math.sqrt(2) * (g.length + 4 * grid)


def test_reduce_precision_of_real_borders(con, shared_data):
    provinces = real(con, shared_data, "ne10m_states_provinces", 300)
    found = apply(con, provinces, "vibe_reduceprecision(g, 0.01)")
    expected = shapely.set_precision(provinces, 0.01)
    assert shapely.area(found).sum() == pytest.approx(shapely.area(expected).sum(), rel=1e-5)


def test_node(con):
    rng = random.Random(9)
    shapes = [shapely.MultiLineString(lines(rng, rng.randint(1, 4))) for _ in range(300)]
    # shapely keeps lines of no length
    shapes = [g for g in shapes if all(line.length > 0 for line in g.geoms)]
    found = apply(con, shapes, "vibe_node(g)")
    for g, result in zip(shapes, found):
        expected = shapely.node(g)
        assert result.length == pytest.approx(expected.length, rel=1e-9)
        assert shapely.equals_exact(shapely.line_merge(result), shapely.line_merge(expected), 1e-9, normalize=True)
        # any two meet in their ends only
        for a, b in itertools.pairwise(result.geoms):
            assert a.intersection(b).length < 1e-9
