"""Native GeoArrow points, side by side with the two DOUBLE columns that they consist of.

usage: arrow.py [--extension FILE] [--rows 5000000] [--runs 15] [--batch 1000000] [--bar 2]

One Arrow table with the same coordinates as two DOUBLE columns, as geoarrow.point (separated and interleaved) and as geoarrow.wkb. Times
are CPU milliseconds of all threads, the least of the runs, which take turns. If native points cost more than `bar` times the two columns,
the run ends with status 1.
"""
import argparse
import sys

from common import EXTENSION, open_duckdb, timed

COLUMNS = "sum(x), sum(y) of two DOUBLE columns"
QUERIES = {
    COLUMNS: "SELECT sum(x), sum(y) FROM columns_of_doubles",
    "geoarrow.point, separated": "SELECT count(geom) FROM separated",
    "geoarrow.point, interleaved": "SELECT count(geom) FROM interleaved",
    "geoarrow.wkb": "SELECT count(geom) FROM wkb",
}
NATIVE = [name for name in QUERIES if name.startswith("geoarrow.point")]


def tables(rows, batch):
    import numpy
    import pyarrow
    import shapely

    def table(column, name):
        field = pyarrow.field("geom", column.type, metadata={"ARROW:extension:name": name})
        return chunked(pyarrow.table([column], schema=pyarrow.schema([field])))

    def chunked(whole):
        return pyarrow.Table.from_batches(whole.to_batches(max_chunksize=batch))

    random = numpy.random.default_rng(1)
    x, y = random.uniform(-180, 180, rows), random.uniform(-90, 90, rows)
    pairs = pyarrow.list_(pyarrow.field("xy", pyarrow.float64()), 2)
    both = numpy.column_stack([x, y]).ravel()
    return {
        "columns_of_doubles": chunked(pyarrow.table({"x": x, "y": y})),
        "separated": table(pyarrow.StructArray.from_arrays([pyarrow.array(x), pyarrow.array(y)], ["x", "y"]), "geoarrow.point"),
        "interleaved": table(pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(both), type=pairs), "geoarrow.point"),
        "wkb": table(pyarrow.array(shapely.to_wkb(shapely.points(x, y)), pyarrow.binary()), "geoarrow.wkb"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extension", default=EXTENSION)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--bar", type=float, default=2)
    arguments = parser.parse_args()
    connection = open_duckdb(arguments.extension)
    for name, table in tables(arguments.rows, arguments.batch).items():
        connection.register(name, table)
    best = {}
    for _ in range(arguments.runs):
        for name, query in QUERIES.items():
            value, _wall, cpu = timed(lambda text: connection.sql(text).fetchall(), query)
            if name != COLUMNS and value != [(arguments.rows,)]:
                sys.exit(f"{name}: {value} for {arguments.rows} points")
            best[name] = min(best.get(name, cpu), cpu)
    print(f"{arguments.rows:,} points, batches of {arguments.batch:,}, {arguments.runs} runs; CPU milliseconds")
    for name, cpu in best.items():
        print(f"{name:<40}{cpu * 1e3:>10.1f}{cpu / best[COLUMNS]:>9.2f}x")
    if max(best[name] for name in NATIVE) > arguments.bar * best[COLUMNS]:
        sys.exit(f"native points cost more than {arguments.bar:g} times the two columns")


if __name__ == "__main__":
    main()
