"""The queries of SpatialBench with GeoPandas, as its users would write them: a function each, from Parquet files to the rows of the answer.
There is no q12: GeoPandas finds the nearest geometry, not the five nearest."""
import geopandas
import numpy
import pandas
import pyarrow
import pyarrow.parquet
import shapely

from spatialbench_queries import AROUND_WKT, REGION_WKT, SEDONA_WKT


def read(file, columns, geometry=()):
    """Columns of a file, DECIMAL as floats, WKB as geometries."""
    table = pyarrow.parquet.read_table(file, columns=[*columns, *geometry])
    for at, field in enumerate(table.schema):
        if pyarrow.types.is_decimal(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pyarrow.float64()))
    frame = table.to_pandas()
    for name in geometry:
        frame[name] = shapely.from_wkb(frame[name].to_numpy())
    return frame


def zones(files):
    frame = read(files["zone"], ["z_zonekey", "z_name"], ["z_boundary"])
    return geopandas.GeoDataFrame(frame, geometry="z_boundary")


def trips(files, columns, geometry="t_pickuploc"):
    return geopandas.GeoDataFrame(read(files["trip"], columns, [geometry]), geometry=geometry)


def rows(frame):
    """Tuples; what is missing is None"""
    return [tuple(None if pandas.isna(value) else value for value in row) for row in frame.itertuples(index=False)]


def with_duration(frame):
    frame["duration"] = frame["t_dropofftime"] - frame["t_pickuptime"]
    return frame


def q1(files):
    center = shapely.from_wkt(SEDONA_WKT)
    trip = trips(files, ["t_tripkey", "t_pickuptime"])
    near = trip[trip.dwithin(center, 0.45)].copy()
    near["x"], near["y"], near["distance"] = near.geometry.x, near.geometry.y, near.distance(center)
    return rows(near.sort_values(["distance", "t_tripkey"]).head(100)[["t_tripkey", "x", "y", "t_pickuptime", "distance"]])


def q2(files):
    zone = zones(files)
    county = zone.loc[zone["z_name"] == "Coconino County", "z_boundary"].iloc[0]
    shapely.prepare(county)
    return [(int(trips(files, []).intersects(county).sum()),)]


def q3(files):
    area = shapely.from_wkt(AROUND_WKT)
    shapely.prepare(area)
    trip = trips(files, ["t_tripkey", "t_pickuptime", "t_dropofftime", "t_distance", "t_fare"])
    near = with_duration(trip[trip.dwithin(area, 0.045)].copy())
    near["month"] = near["t_pickuptime"].dt.to_period("M").dt.to_timestamp()
    result = near.groupby("month").agg(trips=("t_tripkey", "count"), distance=("t_distance", "mean"), duration=("duration", "mean"),
                                       fare=("t_fare", "mean"))
    return rows(result.sort_index().reset_index())


def q4(files):
    trip = trips(files, ["t_tripkey", "t_tip"])
    best = trip.sort_values(["t_tip", "t_tripkey"], ascending=[False, True]).head(1000)
    joined = best.sjoin(zones(files), predicate="within")
    result = joined.groupby(["z_zonekey", "z_name"]).size().reset_index(name="trips")
    return rows(result.sort_values(["trips", "z_zonekey"], ascending=[False, True]))


def q5(files):
    trip = read(files["trip"], ["t_custkey", "t_pickuptime"], ["t_dropoffloc"])
    customer = read(files["customer"], ["c_custkey", "c_name"])
    trip["month"] = trip["t_pickuptime"].dt.to_period("M").dt.to_timestamp()
    joined = trip.merge(customer, left_on="t_custkey", right_on="c_custkey")
    groups = joined.groupby(["c_custkey", "c_name", "month"])
    number = groups.ngroup().to_numpy()
    order = numpy.argsort(number, kind="stable")
    points = shapely.multipoints(joined["t_dropoffloc"].to_numpy()[order], indices=number[order])
    result = groups.size().reset_index(name="trips")
    result["area"] = shapely.area(shapely.convex_hull(points))
    result = result[result["trips"] > 5].sort_values(["area", "c_custkey", "month"], ascending=[False, True, True]).head(100)
    return rows(result[["c_custkey", "c_name", "month", "area", "trips"]])


def q6(files):
    zone = zones(files)
    zone = zone[zone.intersects(shapely.from_wkt(REGION_WKT))]
    joined = with_duration(trips(files, ["t_tripkey", "t_distance", "t_pickuptime", "t_dropofftime"]).sjoin(zone, predicate="within"))
    result = joined.groupby(["z_zonekey", "z_name"]).agg(trips=("t_tripkey", "count"), distance=("t_distance", "mean"),
                                                         duration=("duration", "mean"))
    return rows(result.reset_index().sort_values(["trips", "z_zonekey"], ascending=[False, True]))


def q7(files):
    trip = read(files["trip"], ["t_tripkey", "t_distance"], ["t_pickuploc", "t_dropoffloc"])
    ends = numpy.stack([shapely.get_coordinates(trip[name].to_numpy()) for name in ("t_pickuploc", "t_dropoffloc")], axis=1)
    trip["line"] = shapely.length(shapely.linestrings(ends)) / 0.000009
    trip["ratio"] = trip["t_distance"] / trip["line"].where(trip["line"] != 0)
    result = trip.sort_values(["ratio", "t_distance", "t_tripkey"], ascending=[False, False, True], na_position="last").head(100)
    return rows(result[["t_tripkey", "t_distance", "line", "ratio"]])


def q8(files):
    building = geopandas.GeoDataFrame(read(files["building"], ["b_buildingkey", "b_name"], ["b_boundary"]), geometry="b_boundary")
    joined = trips(files, []).sjoin(building, predicate="dwithin", distance=0.0045)
    result = joined.groupby(["b_buildingkey", "b_name"]).size().reset_index(name="trips")
    return rows(result.sort_values(["trips", "b_buildingkey"], ascending=[False, True]).head(100))


def q9(files):
    building = read(files["building"], ["b_buildingkey"], ["b_boundary"])
    area = building["b_boundary"].to_numpy()
    left, right = shapely.STRtree(area).query(area, predicate="intersects")
    key = building["b_buildingkey"].to_numpy()
    kept = key[left] < key[right]
    left, right = left[kept], right[kept]
    pair = pandas.DataFrame({"a": key[left], "b": key[right], "area1": shapely.area(area[left]), "area2": shapely.area(area[right])})
    pair["overlap"] = shapely.area(shapely.intersection(area[left], area[right]))
    both = pair["area1"] + pair["area2"] - pair["overlap"]
    pair["iou"] = numpy.where(pair["overlap"] == 0, 0.0, numpy.where(both == 0, 1.0, pair["overlap"] / both.where(both != 0)))
    return rows(pair.sort_values(["iou", "a", "b"], ascending=[False, True, True]).head(100))


def q10(files):
    zone = zones(files)
    trip = with_duration(trips(files, ["t_tripkey", "t_distance", "t_pickuptime", "t_dropofftime"]))
    joined = trip.sjoin(zone[["z_zonekey", "z_boundary"]], predicate="within")
    found = joined.groupby("z_zonekey").agg(duration=("duration", "mean"), distance=("t_distance", "mean"), trips=("t_tripkey", "count"))
    result = zone[["z_zonekey", "z_name"]].merge(found, left_on="z_zonekey", right_index=True, how="left")
    result["trips"] = result["trips"].fillna(0).astype(int)
    result = result.sort_values(["duration", "z_zonekey"], ascending=[False, True], na_position="last").head(100)
    return rows(result[["z_zonekey", "z_name", "duration", "distance", "trips"]])


def q11(files):
    zone = zones(files)[["z_zonekey", "z_boundary"]]
    begins, ends = (trips(files, ["t_tripkey"], name).sjoin(zone, predicate="within")[["t_tripkey", "z_zonekey"]]
                    for name in ("t_pickuploc", "t_dropoffloc"))
    pair = begins.merge(ends, on="t_tripkey")
    return [(int((pair["z_zonekey_x"] != pair["z_zonekey_y"]).sum()),)]
