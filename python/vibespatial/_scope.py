"""GeoDataFrames as tables of a query: ``con.sql("FROM gdf")``.

DuckDB looks up a table that it does not know among the variables of the calling frame. A GeoDataFrame it takes for a pandas DataFrame and then
does not know the type of its geometries. So the methods that run SQL are watched: where the caller has a GeoDataFrame whose name the query
has, DuckDB is called from a frame in which that name is the Arrow table of it. Everything else is DuckDB's own doing, and where the caller
has no GeoDataFrame the method is DuckDB's own.
"""

from __future__ import annotations

import functools
import re
import sys
import types
from typing import Any, Callable, Mapping

import duckdb

_METHODS = ("sql", "query", "from_query", "execute")
_CALL = "__vibespatial_call"
_CODE = compile(f"{_CALL}()", "<vibespatial>", "eval")


def _frame_type() -> Any:
    """GeoDataFrame, or None as long as nobody has imported GeoPandas: then nobody has one either."""
    module = sys.modules.get("geopandas")
    return getattr(module, "GeoDataFrame", None)


def _has_frames(namespaces: tuple[Mapping[str, Any], ...]) -> bool:
    kind = _frame_type()
    return kind is not None and any(isinstance(value, kind) for names in namespaces for value in list(names.values()))


def _tables(query: Any, local: Mapping[str, Any], outer: Mapping[str, Any]) -> dict[str, Any]:
    """An Arrow table for each GeoDataFrame whose name is a word of the query."""
    from ._frames import to_table

    kind = _frame_type()
    text = query if isinstance(query, str) else getattr(query, "query", "")
    if kind is None or not isinstance(text, str):
        return {}
    found = {}
    for name in set(re.findall(r"\w+", text)):
        value = local[name] if name in local else outer.get(name)
        if isinstance(value, kind):
            found[name] = to_table(value)
    return found


def call_in(frame: types.FrameType, method: Callable[..., Any], query: Any, *arguments: Any, **keywords: Any) -> Any:
    """Calls a method that runs a query, as if from that frame, with its GeoDataFrames as Arrow tables."""
    local = dict(frame.f_locals)
    local.update(_tables(query, frame.f_locals, frame.f_globals))
    local[_CALL] = functools.partial(method, query, *arguments, **keywords)
    return eval(_CODE, frame.f_globals, local)


class _Watched:
    """A method of DuckDB's connection, looked at when it is asked for."""

    def __init__(self, method: Any) -> None:
        self.method = method
        self.__doc__ = getattr(method, "__doc__", None)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        bound = self.method.__get__(instance, owner)
        if instance is None:
            return bound
        caller = sys._getframe(1)
        if not _has_frames((caller.f_locals, caller.f_globals)):
            return bound

        @functools.wraps(bound)
        def with_frames(*arguments: Any, **keywords: Any) -> Any:
            if not arguments:
                query = keywords.pop("query", None)
                if query is None:
                    return bound(**keywords)
                arguments = (query,)
            return call_in(sys._getframe(1), bound, *arguments, **keywords)

        return with_frames


def watch() -> None:
    """Watches the methods of DuckDB's connections that run SQL; once is enough."""
    for name in _METHODS:
        method = duckdb.DuckDBPyConnection.__dict__.get(name)
        if method is not None and not isinstance(method, _Watched):
            setattr(duckdb.DuckDBPyConnection, name, _Watched(method))
