"""GeoDataFrames into DuckDB and back. Arrow is the way: WKB with its coordinate reference system in the metadata."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Any, Optional, Sequence

import duckdb

from ._scope import call_in

if TYPE_CHECKING:
    import geopandas  # type: ignore[import-untyped]
    import pyarrow  # type: ignore[import-untyped]

_DATA = pathlib.Path(__file__).resolve().parent / "data"
_HOW = "'pip install \"vibespatial[geopandas]\"' gets it"


def _geopandas() -> Any:
    try:
        import geopandas
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{error.name} is needed for GeoDataFrames: {_HOW}") from error
    if not hasattr(geopandas.GeoDataFrame, "from_arrow"):
        raise ImportError(f"GeoPandas {geopandas.__version__} cannot exchange Arrow data, 1.0 and newer can: {_HOW}")
    return geopandas


def to_table(frame: Any, index: bool = False) -> "pyarrow.Table":
    """The Arrow table of a GeoDataFrame or GeoSeries: geoarrow.wkb with the CRS of each column."""
    import pyarrow

    geopandas = _geopandas()
    if isinstance(frame, geopandas.GeoSeries):
        frame = frame.to_frame("geometry" if frame.name is None else frame.name)
    if not isinstance(frame, geopandas.GeoDataFrame):
        raise TypeError(f"a GeoDataFrame or GeoSeries is needed, not {type(frame).__name__}; con.register takes other tables")
    if index:
        # As columns with names that SQL can use, not pandas' own
        frame = frame.reset_index()
    if not all(isinstance(name, str) for name in frame.columns):
        frame = frame.rename(columns={name: str(name) for name in frame.columns})
    if not any(frame.dtypes == "geometry"):
        # GeoPandas would ask for an active geometry
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    table = pyarrow.table(frame.to_arrow(index=False, geometry_encoding="WKB"))
    # What pandas would restore from it means nothing to SQL, and would come back wrong
    return table.replace_schema_metadata(None)


def register(con: duckdb.DuckDBPyConnection, name: str, frame: Any, *, index: bool = False) -> duckdb.DuckDBPyConnection:
    """Makes a GeoDataFrame (or GeoSeries) a view of a connection, and returns the connection.

    Every geometry column becomes GEOMETRY with the frame's CRS, None becomes NULL. The view holds a copy of the geometries as they are
    now. The index is left out, as DuckDB leaves it out of a DataFrame; `index=True` makes columns of it, as ``reset_index`` does.
    """
    con.register(name, to_table(frame, index))
    return con


def _arrow(source: Any) -> Any:
    """The Arrow data of what DuckDB returned; a connection stands for the query that it executed last."""
    import pyarrow

    if isinstance(source, duckdb.DuckDBPyConnection):
        fetch = getattr(source, "to_arrow_table", None) or source.fetch_arrow_table
        return fetch()
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"a relation, a query or Arrow data is needed, not {type(source).__name__}")
    return pyarrow.table(source)


def to_geopandas(
    source: Any,
    con: Optional[duckdb.DuckDBPyConnection] = None,
    *,
    geometry: Optional[str] = None,
    params: Any = None,
) -> "geopandas.GeoDataFrame":
    """A GeoDataFrame of a relation, of a query on `con`, of what ``con.execute`` returned, or of Arrow data.

    Every GEOMETRY column becomes a column of geometries with its CRS; `geometry` names the active one, by default the first. NULL
    becomes None. DECIMAL and HUGEINT become float64, as in ``relation.df()``. `params` are the values of a query's parameters.
    """
    geopandas = _geopandas()
    import pyarrow

    if isinstance(source, str):
        if con is None:
            raise ValueError("a query needs a connection: to_geopandas(query, con)")
        source = call_in(sys._getframe(1), con.sql, source, **({} if params is None else {"params": params}))
        if source is None:
            raise ValueError("the statement returns no rows: a GeoDataFrame needs a query")
    elif params is not None:
        raise ValueError("params go with a query, not with a relation")
    table = _arrow(source)
    table = table.rename_columns(_unique(table.column_names))
    columns = []
    for field, column in zip(table.schema, table.columns):
        columns.append(column.cast(pyarrow.float64()) if pyarrow.types.is_decimal(field.type) else column)
    schema = pyarrow.schema(
        [
            pyarrow.field(field.name, pyarrow.float64()) if pyarrow.types.is_decimal(field.type) else field
            for field in table.schema
        ]
    )
    table = pyarrow.Table.from_arrays(columns, schema=schema)
    found = [field.name for field in table.schema if _is_geometry(field)]
    if not found:
        raise ValueError(
            f"no column of the result is GEOMETRY (columns: {', '.join(table.column_names)}); relation.df() makes a DataFrame of it"
        )
    if geometry is not None and geometry not in found:
        raise ValueError(f"'{geometry}' is no geometry column of the result; those are {', '.join(found)}")
    return geopandas.GeoDataFrame.from_arrow(table, geometry=geometry)


def _unique(names: Sequence[str]) -> list[str]:
    """The names as ``relation.df()`` has them: those that are there already get a number."""
    found: list[str] = []
    used: dict[str, int] = {}
    for name in names:
        own = name
        while own.lower() in used:
            own = f"{name}_{used[name.lower()]}"
            used[name.lower()] += 1
        used[own.lower()] = 1
        found.append(own)
    return found


def _is_geometry(field: Any) -> bool:
    name = getattr(field.type, "extension_name", None) or (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    return bool(name.startswith("geoarrow.")) and name != "geoarrow.box"


def example(name: str) -> str:
    """The path of a Parquet file with example data: ``cities``, ``countries`` or ``provinces``."""
    path = _DATA / f"{name}.parquet"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in _DATA.glob("*.parquet")))
        raise ValueError(f"there is no example '{name}', only {known}")
    return str(path)
