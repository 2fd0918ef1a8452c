"""What the benchmarks share: where things are, how an engine is opened, and how a query is timed."""
import importlib.util
import os
import pathlib
import struct
import sys
import time

import numpy
import pyarrow

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "build" / "release" / "vibespatial.duckdb_extension"


def spatial_path():
    """DuckDB's own spatial extension, from the package duckdb-extension-spatial."""
    import duckdb

    package = pathlib.Path(importlib.util.find_spec("duckdb_extension_spatial").origin).parent
    return package / "extensions" / f"v{duckdb.__version__}" / "spatial.duckdb_extension"


def open_duckdb(*extensions):
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for path in extensions:
        connection.execute(f"LOAD '{path}'")
    return connection


def open_sedona():
    import warnings

    # It looks for GDAL, to read files with, and says at length that there is none.
    warnings.filterwarnings("ignore", message="Failed to configure GDAL")
    import sedonadb

    return sedonadb.connect()


def shared_data(*files):
    """The folder of the large real data, and which of the files are not in it. Ends the run where there is no such folder."""
    folder = pathlib.Path(os.environ.get("VIBESPATIAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"no large data: {folder} is not there (VIBESPATIAL_SHARED_DATA names another folder)\nneeded: {', '.join(files)}")
    return folder, [file for file in files if not (folder / file).exists()]


def timed(run, *arguments):
    """The result, wall seconds, and CPU seconds of all threads of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = run(*arguments)
    return value, time.perf_counter() - wall, time.process_time() - cpu


def wkb_column(array):
    """An Arrow column of the items of a packed numpy array, each of them one WKB."""
    offsets = numpy.arange(len(array) + 1, dtype=numpy.int32) * array.dtype.itemsize
    return pyarrow.Array.from_buffers(pyarrow.binary(), len(array), [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(array)])


def circles(random, count):
    """Polygons of 33 vertices over Europe, 0.02 to 0.1 degrees wide."""
    centre = numpy.column_stack([random.uniform(-10, 40, count), random.uniform(35, 70, count)])
    radius = random.uniform(0.01, 0.05, count)
    angle = numpy.linspace(0, 2 * numpy.pi, 33)
    ring = numpy.stack([numpy.cos(angle), numpy.sin(angle)], axis=1)
    ring[-1] = ring[0]
    polygon = numpy.zeros(count, dtype=[("head", "V13"), ("ring", "<f8", (33, 2))])
    polygon["head"] = numpy.void(struct.pack("<BIII", 1, 3, 1, 33))
    polygon["ring"] = centre[:, None, :] + radius[:, None, None] * ring[None, :, :]
    return wkb_column(polygon)


def points(random, count):
    """Points over the same area."""
    point = numpy.zeros(count, dtype=[("head", "V5"), ("xy", "<f8", 2)])
    point["head"] = numpy.void(struct.pack("<BI", 1, 1))
    point["xy"] = numpy.column_stack([random.uniform(-10, 40, count), random.uniform(35, 70, count)])
    return wkb_column(point)
