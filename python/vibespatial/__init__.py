"""Exact and fast spatial SQL for DuckDB, with GeoPandas on both ends.

>>> import vibespatial
>>> con = vibespatial.connect()
>>> con.execute("SELECT ST_Area('POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))'::GEOMETRY)").fetchall()
[(4.0,)]

`connect` opens a database with the extension loaded, `load` loads it into a connection that is there. `register` makes a GeoDataFrame a
view, `to_geopandas` makes a GeoDataFrame of a relation or a query; after `connect` or `load`, `con.sql("FROM gdf")` reads a GeoDataFrame
that is in scope. `to_device` puts the rows of a query into the memory of the GPU, as an Arrow array. `write_timeline` draws what the last query spent its time on. `python -m vibespatial info` says what is installed, which GPU is seen, and what is missing.
"""

from ._device import DeviceArray, DeviceBuffer, to_device
from ._extension import UnsupportedDuckDB, connect, extension_path, load, supported_versions
from ._frames import example, register, to_geopandas
from ._timeline import write_timeline
from ._version import __version__

__all__ = [
    "DeviceArray",
    "DeviceBuffer",
    "UnsupportedDuckDB",
    "__version__",
    "connect",
    "example",
    "extension_path",
    "load",
    "register",
    "supported_versions",
    "to_device",
    "to_geopandas",
    "write_timeline",
]
