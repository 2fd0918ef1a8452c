"""Spatial joins, neighbours, dissolve and overlays over a Ray cluster: the same engine in every worker.

>>> import ray, vibespatial.ray
>>> ray.init()
>>> result = vibespatial.ray.sjoin("points/", "zones.parquet", "within", select=["r.name"], aggregate={"n": "count(*)"})
>>> result.to_arrow()

Inputs are Parquet and GeoParquet files, folders and globs (also of fsspec file systems), GeoDataFrames, Arrow tables and Ray Datasets. `plan`
shows how an operation would run. `Options` lists the keywords that all operations take. docs/scale.md says when a cluster is worth it.
"""

try:
    import numpy  # noqa: F401
    import pyarrow  # type: ignore[import-untyped]  # noqa: F401
except ImportError as error:
    raise ImportError(f"{error.name} is needed for vibespatial.ray: 'pip install \"vibespatial[ray]\"' gets it") from error

from ._api import dissolve, knn, overlay, plan, sjoin, sql
from ._options import Cancel, Cancelled, InputError, Options, Progress
from ._output import Result

__all__ = [
    "Cancel",
    "Cancelled",
    "InputError",
    "Options",
    "Progress",
    "Result",
    "dissolve",
    "knn",
    "overlay",
    "plan",
    "sjoin",
    "sql",
]
