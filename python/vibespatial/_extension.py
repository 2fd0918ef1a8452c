"""Which binary of the extension a DuckDB needs, and how it gets into a connection."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Mapping, Optional, Union

import duckdb

from ._scope import watch

_FOLDER = pathlib.Path(__file__).resolve().parent / "extensions"
_FILE = "vibespatial.duckdb_extension"
_UNSIGNED = "allow_unsigned_extensions"


class UnsupportedDuckDB(RuntimeError):
    """This installation holds no binary for that version of DuckDB."""


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def supported_versions() -> list[str]:
    """The versions of DuckDB that this installation has a binary for, oldest first: ``["1.5.5", "2.0.0"]``."""
    return sorted((path.parent.name[1:] for path in _FOLDER.glob(f"v*/{_FILE}")), key=_key)


def _choose(version: str) -> pathlib.Path:
    path = _FOLDER / f"v{version.removeprefix('v')}" / _FILE
    if path.is_file():
        return path
    supported = supported_versions()
    if not supported:
        raise UnsupportedDuckDB(f"{_FOLDER} holds no extension: install the package from its wheel, not from a checkout")
    raise UnsupportedDuckDB(
        f"this vibespatial supports DuckDB {', '.join(supported)}, not {version.removeprefix('v')}. "
        f"'pip install duckdb=={supported[-1]}' gets one of them; a newer vibespatial may support more."
    )


def _ask(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    """One value, asked on a connection of its own: a result that is still being fetched from this one stays whole."""
    with con.cursor() as cursor:
        return cursor.execute(query).fetchall()[0][0]


def _running(con: duckdb.DuckDBPyConnection) -> str:
    return str(_ask(con, "SELECT library_version FROM pragma_version()"))


def extension_path(version: Optional[str] = None) -> pathlib.Path:
    """The file of the extension for a version of DuckDB, by default the one that Python has.

    Raises `UnsupportedDuckDB`, which lists the versions there are, if there is none.
    """
    return _choose(duckdb.__version__ if version is None else version)


def _is_loaded(con: duckdb.DuckDBPyConnection) -> bool:
    return bool(_ask(con, "SELECT count(*) > 0 FROM duckdb_extensions() WHERE extension_name = 'vibespatial' AND loaded"))


def load(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Loads the extension into the database of a connection and returns the connection.

    The binary is the one for the DuckDB that is running. It is not signed by DuckDB's makers, so the database must have been opened with
    ``duckdb.connect(..., config={"allow_unsigned_extensions": True})``: DuckDB takes that setting only then. `connect` does it by itself.
    """
    if not _is_loaded(con):
        path = _choose(_running(con))
        try:
            con.execute("LOAD '{}'".format(str(path).replace("'", "''")))
        except duckdb.IOException as error:
            if _UNSIGNED not in str(error):
                raise
            raise RuntimeError(
                "this database was opened without the right to load extensions that DuckDB's makers did not sign, and DuckDB gives it at "
                'the start only: open it with vibespatial.connect(...), or with duckdb.connect(..., config={"allow_unsigned_extensions": '
                "True})"
            ) from error
    watch()
    return con


def connect(
    database: Union[str, os.PathLike[str]] = ":memory:",
    *,
    read_only: bool = False,
    config: Optional[Mapping[str, Any]] = None,
    **settings: Any,
) -> duckdb.DuckDBPyConnection:
    """Opens a database as `duckdb.connect` does, with the extension loaded. Keywords are settings of DuckDB: ``connect(threads=4)``.

    The right to load unsigned extensions is asked for, used for this one, and given back before the connection is returned. To keep it,
    ask for it: ``connect(allow_unsigned_extensions=True)``.
    """
    merged: dict[str, Any] = {**(config or {}), **settings}
    keep = _UNSIGNED in merged
    merged.setdefault(_UNSIGNED, True)
    # Before a database file is made that nothing could then be loaded into
    extension_path()
    con = duckdb.connect(os.fspath(database), read_only=read_only, config=merged)
    try:
        load(con)
        if not keep:
            con.execute(f"SET {_UNSIGNED} = false")
    except BaseException:
        con.close()
        raise
    return con
