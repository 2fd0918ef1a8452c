"""The queries of SpatialBench in our words: for DuckDB, for SedonaDB where that differs, and with geometry functions replaced by a hash of
the bytes, which is the floor: scan, filter, join, group and sort remain, with about as many rows in each."""
import dataclasses

SEDONA_WKT = "POINT (-111.761 34.8697)"
AROUND_WKT = "POLYGON ((-111.906 34.7347, -111.616 34.7347, -111.616 35.0047, -111.906 35.0047, -111.906 34.7347))"
REGION_WKT = "POLYGON ((-112.211 34.4197, -111.311 34.4197, -111.311 35.3197, -112.211 35.3197, -112.211 34.4197))"
SEDONA, AROUND, REGION = (f"ST_GeomFromText('{wkt}')" for wkt in (SEDONA_WKT, AROUND_WKT, REGION_WKT))
PICKUP = "ST_GeomFromWKB(t_pickuploc)"
DROPOFF = "ST_GeomFromWKB(t_dropoffloc)"
BUILDING = "ST_GeomFromWKB(b_boundary)"
ZONE = "ST_GeomFromWKB(z_boundary)"


@dataclasses.dataclass
class Query:
    """`zones`: it asks for zones, so that there is no published answer to it. `order`: the column by which rows are sorted first. Rows that
    are equal there to the last digits may change places, since sums of floats depend on their order."""

    number: int
    title: str
    order: int
    sql: str
    floor: str
    sedona: str = None
    zones: bool = False

    @property
    def name(self):
        return f"Q{self.number}"

    def text(self, engine):
        """What the engine is asked: SQL, or the name of a function of spatialbench_geopandas; None where it has no way to do it"""
        if engine == "GeoPandas":
            return self.name.lower() if self.number != 12 else None
        return self.floor if engine == "floor" else self.sedona if engine == "SedonaDB" and self.sedona else self.sql


def both(template, **words):
    """(query, floor): `words` are pairs of what stands for {name} in either."""
    return tuple(template.format(**{name: pair[at] for name, pair in words.items()}) for at in (0, 1))


def near_a_point():
    return both(
        """SELECT t_tripkey, {x} AS pickup_lon, {y} AS pickup_lat, t_pickuptime, {distance} AS distance_to_center
        FROM trip WHERE {near} ORDER BY distance_to_center, t_tripkey LIMIT 100""",
        x=(f"ST_X({PICKUP})", "hash(t_pickuploc) & 1023"), y=(f"ST_Y({PICKUP})", "hash(t_pickuploc) & 255"),
        distance=(f"ST_Distance({PICKUP}, {SEDONA})", "hash(t_pickuploc) >> 32"),
        near=(f"ST_DWithin({PICKUP}, {SEDONA}, 0.45)", "hash(t_pickuploc) % 65536 = 0"))


def in_one_zone():
    return both(
        "SELECT count(*) AS trip_count_in_coconino_county FROM trip WHERE {inside}",
        inside=(f"ST_Intersects({PICKUP}, (SELECT {ZONE} FROM zone WHERE z_name = 'Coconino County' LIMIT 1))",
                "hash(t_pickuploc) % 10000 = (SELECT hash(z_boundary) % 10000 FROM zone WHERE z_name = 'Coconino County' LIMIT 1)"))


def by_month():
    return both(
        """SELECT date_trunc('month', t_pickuptime) AS pickup_month, count(t_tripkey) AS total_trips, avg(t_distance) AS avg_distance,
            avg(t_dropofftime - t_pickuptime) AS avg_duration, avg(t_fare) AS avg_fare
        FROM trip WHERE {near} GROUP BY pickup_month ORDER BY pickup_month""",
        near=(f"ST_DWithin({PICKUP}, {AROUND}, 0.045)", "hash(t_pickuploc) % 200000 = 0"))


def zones_of_tips():
    return both(
        """SELECT z_zonekey, z_name, count(*) AS trip_count
        FROM (SELECT t_pickuploc FROM trip ORDER BY t_tip DESC, t_tripkey LIMIT 1000) best JOIN {zones} ON {inside}
        GROUP BY z_zonekey, z_name ORDER BY trip_count DESC, z_zonekey""",
        zones=("zone", "(FROM zone WHERE hash(z_boundary) > 0)"),
        inside=(f"ST_Within({PICKUP}, {ZONE})", "(hash(t_pickuploc) % 7777)::BIGINT = z_zonekey"))


def hulls(collect):
    return both(
        """SELECT c_custkey, c_name AS customer_name, date_trunc('month', t_pickuptime) AS pickup_month,
            {area} AS monthly_travel_hull_area, count(*) AS dropoff_count
        FROM trip JOIN customer ON t_custkey = c_custkey
        GROUP BY c_custkey, c_name, pickup_month HAVING count(*) > 5
        ORDER BY monthly_travel_hull_area DESC, c_custkey, pickup_month LIMIT 100""",
        area=(f"ST_Area(ST_ConvexHull({collect}))", "max(hash(t_dropoffloc))"))


def zones_of_a_region():
    return both(
        """SELECT z_zonekey, z_name, count(t_tripkey) AS total_pickups, avg(t_distance) AS avg_distance,
            avg(t_dropofftime - t_pickuptime) AS avg_duration
        FROM zone JOIN trip ON {inside} WHERE {meets} GROUP BY z_zonekey, z_name ORDER BY total_pickups DESC, z_zonekey""",
        inside=(f"ST_Within({PICKUP}, {ZONE})", "(hash(t_pickuploc) % 20000)::BIGINT = z_zonekey"),
        meets=(f"ST_Intersects({REGION}, {ZONE})", "hash(z_boundary) % 2000 = 0"))


def detours():
    return both(
        """SELECT t_tripkey, reported_distance_m, line_distance_m, reported_distance_m / nullif(line_distance_m, 0) AS detour_ratio
        FROM (SELECT t_tripkey, t_distance AS reported_distance_m, {length} / 0.000009 AS line_distance_m FROM trip) lengths
        ORDER BY detour_ratio DESC NULLS LAST, reported_distance_m DESC, t_tripkey LIMIT 100""",
        length=(f"ST_Length(ST_MakeLine({PICKUP}, {DROPOFF}))", "(hash(t_pickuploc) ^ hash(t_dropoffloc))::DOUBLE"))


def near_buildings():
    return both(
        """SELECT b_buildingkey, b_name, count(*) AS nearby_pickup_count FROM trip JOIN {buildings} ON {near}
        GROUP BY b_buildingkey, b_name ORDER BY nearby_pickup_count DESC, b_buildingkey LIMIT 100""",
        buildings=("building", "(FROM building WHERE hash(b_boundary) > 0)"),
        near=(f"ST_DWithin({PICKUP}, {BUILDING}, 0.0045)", "(hash(t_pickuploc) % 4000000)::BIGINT = b_buildingkey"))


def overlaps():
    return both(
        """WITH area AS (SELECT b_buildingkey AS id, {geometry} AS g FROM building),
        pair AS (SELECT a.id AS building_1, b.id AS building_2, {area1} AS area1, {area2} AS area2, {overlap} AS overlap_area
            FROM area a JOIN area b ON {meets} AND a.id < b.id)
        SELECT *, CASE WHEN overlap_area = 0 THEN 0.0 WHEN area1 + area2 - overlap_area = 0 THEN 1.0
            ELSE overlap_area / (area1 + area2 - overlap_area) END AS iou
        FROM pair ORDER BY iou DESC, building_1, building_2 LIMIT 100""",
        geometry=(BUILDING, "hash(b_boundary) >> 32"), area1=("ST_Area(a.g)", "a.g / 3"), area2=("ST_Area(b.g)", "b.g / 7"),
        overlap=("ST_Area(ST_Intersection(a.g, b.g))", "(a.g + b.g) / 50"),
        meets=("ST_Intersects(a.g, b.g)", "a.g % 4000000 = b.g % 4000000"))


def zone_statistics():
    return both(
        """SELECT z_zonekey, z_name AS pickup_zone, avg(t_dropofftime - t_pickuptime) AS avg_duration, avg(t_distance) AS avg_distance,
            count(t_tripkey) AS num_trips
        FROM {zones} LEFT JOIN trip ON {inside} GROUP BY z_zonekey, z_name ORDER BY avg_duration DESC NULLS LAST, z_zonekey LIMIT 100""",
        zones=("zone", "(FROM zone WHERE hash(z_boundary) > 0)"),
        inside=(f"ST_Within({PICKUP}, {ZONE})", "(hash(t_pickuploc) % 25000)::BIGINT = z_zonekey"))


def between_zones():
    return both(
        """SELECT count(*) AS cross_zone_trip_count FROM trip JOIN {zones} a ON {begins} JOIN {zones} b ON {ends}
        WHERE {differ}""",
        zones=("zone", "(FROM zone WHERE hash(z_boundary) > 0)"),
        begins=(f"ST_Within({PICKUP}, ST_GeomFromWKB(a.z_boundary))", "(hash(t_pickuploc) % 25000)::BIGINT = a.z_zonekey"),
        ends=(f"ST_Within({DROPOFF}, ST_GeomFromWKB(b.z_boundary))", "(hash(t_dropoffloc) % 25000)::BIGINT = b.z_zonekey"),
        # Of columns of trip: the other way, DuckDB would begin with all pairs of zones
        differ=("a.z_zonekey <> b.z_zonekey", "hash(t_pickuploc) % 25000 <> hash(t_dropoffloc) % 25000"))


def neighbours():
    return both(
        """SELECT t_tripkey, avg(distance) AS avg_distance_to_5_nearest
        FROM trip CROSS JOIN LATERAL (SELECT {distance} AS distance FROM building {order} LIMIT 5) nearest
        GROUP BY t_tripkey ORDER BY avg_distance_to_5_nearest DESC, t_tripkey LIMIT 100""",
        distance=(f"ST_Distance({PICKUP}, {BUILDING})", "hash(b_boundary) ^ hash(t_pickuploc)"), order=("ORDER BY distance", ""))


NEIGHBOURS_SEDONA = f"""SELECT t_tripkey, avg(distance) AS avg_distance_to_5_nearest
    FROM (SELECT t_tripkey, ST_Distance(a.g, b.g) AS distance FROM (SELECT t_tripkey, {PICKUP} AS g FROM trip) a
        JOIN (SELECT {BUILDING} AS g FROM building) b ON ST_KNN(a.g, b.g, 5, false)) nearest
    GROUP BY t_tripkey ORDER BY avg_distance_to_5_nearest DESC, t_tripkey LIMIT 100"""
# The floor has no building to choose: five rows for every trip are all that is left of the join.
NEIGHBOURS_FLOOR = """SELECT t_tripkey, avg(hash(t_pickuploc) ^ h) AS avg_distance_to_5_nearest
    FROM trip CROSS JOIN (SELECT hash(b_boundary) AS h FROM building ORDER BY h LIMIT 5) nearest
    GROUP BY t_tripkey ORDER BY avg_distance_to_5_nearest DESC, t_tripkey LIMIT 100"""

QUERIES = [
    Query(1, "trips within 0.45 of a point, by distance", 4, *near_a_point()),
    Query(2, "count of trips from one county", 0, *in_one_zone(), zones=True),
    Query(3, "trips within 0.045 of a box, by month", 0, *by_month()),
    Query(4, "zones of the 1,000 highest tips", 2, *zones_of_tips(), zones=True),
    Query(5, "hulls of each customer's month", 3, *hulls(f"ST_Collect(array_agg({DROPOFF}))"), hulls(f"ST_Collect_Agg({DROPOFF})")[0]),
    Query(6, "trips in the zones of a box", 2, *zones_of_a_region(), zones=True),
    Query(7, "trips by reported over straight distance", 3, *detours()),
    Query(8, "trips within 0.0045 of each building", 2, *near_buildings()),
    Query(9, "overlapping buildings", 5, *overlaps()),
    Query(10, "statistics of the trips of each zone", 2, *zone_statistics(), zones=True),
    Query(11, "count of trips from one zone to another", 0, *between_zones(), zones=True),
    Query(12, "mean distance to the five nearest buildings", 1, neighbours()[0], NEIGHBOURS_FLOOR, NEIGHBOURS_SEDONA),
]
