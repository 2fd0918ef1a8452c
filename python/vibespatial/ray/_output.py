"""Where rows go: Arrow tables that stay in the cluster, or a folder of GeoParquet."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import uuid
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from ._engine import extent as box_of
from ._engine import reader_of, table_of
from ._inputs import HIDDEN, _filesystem, quote
from ._splits import Box, hilbert_of

SUCCESS = "_SUCCESS"
_TEMPORARY = re.compile(r"_temporary-[0-9a-f]{32}")
# In the temporary folder of a run: as long as it is there, the folder is of that run
_OWNER = "owner"
_PART = re.compile(r"part-(?:[ab]-)?(?:\d{5,}(?:-(?:l|r|asked))?|broadcast)\.parquet")
_ROW_GROUP = 50_000


@dataclass(frozen=True)
class Folder:
    """A folder of GeoParquet. A part gets its name when it is whole, and _SUCCESS, with the names of all parts, is written when they are there.
    Until then it is in a folder of this run, so that a task that goes on, on a node that was lost, changes nothing after the end."""

    path: str
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def _temporary(self) -> str:
        return f"_temporary-{self.run}"

    def _open(self) -> tuple[Any, str]:
        filesystem, inner, _ = _filesystem(self.path)
        return filesystem, inner.rstrip("/")

    def prepare(self, overwrite: bool) -> None:
        filesystem, inner = self._open()
        names = self._names(filesystem, inner)
        temporary = [name for name in names if _TEMPORARY.fullmatch(name)]
        finished = self._is_finished(filesystem, inner)
        # Others name their files part-, too, and write a _SUCCESS
        ours = [SUCCESS] * finished + temporary + [name for name in names if _PART.fullmatch(name) and (finished or temporary)]
        if len(ours) < len(names):
            raise FileExistsError(
                f"{self.path} holds other files ({next(name for name in names if name not in ours)}): choose an empty folder"
            )
        if finished and not overwrite:
            raise FileExistsError(f"{self.path} holds a finished result: overwrite=True replaces it")
        self._put(filesystem, f"{inner}/{self._temporary}/{_OWNER}", b"")
        # What a run left that did not finish is no result
        for name in ours:
            self._remove(filesystem, f"{inner}/{name}")

    @staticmethod
    def _names(filesystem: Any, inner: str) -> list[str]:
        if filesystem is None:
            return sorted(os.listdir(inner)) if os.path.isdir(inner) else []
        # Not from its cache: tasks have written there
        filesystem.invalidate_cache()
        return sorted(name.rsplit("/", 1)[-1] for name in filesystem.ls(inner, detail=False)) if filesystem.exists(inner) else []

    @staticmethod
    def _put(filesystem: Any, path: str, data: bytes) -> None:
        if filesystem is not None:
            filesystem.pipe_file(path, data)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        partial = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}")
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, path)

    @staticmethod
    def _is_finished(filesystem: Any, inner: str) -> bool:
        """Whether the folder holds a result of ours: other programs leave a _SUCCESS that says nothing."""
        try:
            with open(f"{inner}/{SUCCESS}", "rb") if filesystem is None else filesystem.open(f"{inner}/{SUCCESS}", "rb") as file:
                summary = json.load(file)
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(summary, dict) and {"rows", "parts"} <= set(summary)

    def _check(self, filesystem: Any, inner: str) -> None:
        """Raises an error if the folder is no longer of this run."""
        owner = f"{inner}/{self._temporary}/{_OWNER}"
        if filesystem is not None:
            filesystem.invalidate_cache()
        if os.path.exists(owner) if filesystem is None else filesystem.exists(owner):
            return
        names = self._names(filesystem, inner)
        if SUCCESS in names or any(_TEMPORARY.fullmatch(name) for name in names):
            raise FileExistsError(f"another run has taken {self.path}: its rows replace those of this one")
        raise FileNotFoundError(f"{inner} is not there on {socket.gethostname()}: output= must be a folder that all nodes of the cluster share")

    @staticmethod
    def _remove(filesystem: Any, path: str) -> None:
        if filesystem is not None:
            # An object store has no folders that are empty
            if filesystem.exists(path):
                filesystem.rm(path, recursive=True)
        elif os.path.isdir(path):
            # Such a task may put a file there meanwhile
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)

    def discard(self) -> None:
        """Removes what a run has written that has failed."""
        filesystem, inner = self._open()
        names = self._names(filesystem, inner)
        if self._temporary not in names or SUCCESS in names:
            return
        for name in [*(name for name in names if _PART.fullmatch(name)), self._temporary]:
            self._remove(filesystem, f"{inner}/{name}")

    def finish(self, rows: int, parts: Sequence[str]) -> None:
        """Ends the result. `parts` are the files that tasks have written: all of them must be here."""
        filesystem, inner = self._open()
        self._check(filesystem, inner)
        missing = sorted(set(parts) - set(self._names(filesystem, inner)))
        if missing:
            raise FileNotFoundError(
                f"{inner}/{missing[0]}, which a task has written, is not here: output= must be a folder that all nodes of the cluster share"
            )
        self._put(filesystem, f"{inner}/{SUCCESS}", json.dumps({"rows": rows, "parts": sorted(parts)}).encode())
        self._remove(filesystem, f"{inner}/{self._temporary}")

    def write(self, con: Any, sql: str, part: str, extent: Optional[Box]) -> tuple[int, list[str]]:
        """Writes the rows of a query as one part along a Hilbert curve; returns how many, and the name of the part. A query without rows
        writes nothing."""
        filesystem, inner = self._open()
        temporary = f"{inner}/{self._temporary}/{part}-{uuid.uuid4().hex}"
        name = f"part-{part}.parquet"
        final = f"{inner}/{name}"
        self._check(filesystem, inner)
        with open(temporary, "wb") if filesystem is None else filesystem.open(temporary, "wb") as file:
            rows = write_parquet(con, sql, file, extent)
        if not rows:
            self._remove(filesystem, temporary)
            return 0, []
        # It may have been taken meanwhile
        self._check(filesystem, inner)
        if filesystem is None:
            os.replace(temporary, final)
        else:
            filesystem.mv(temporary, final)
        return rows, [name]


def _geometries(schema: Any) -> dict[str, dict[str, Any]]:
    """The geometry columns of an Arrow schema, and the coordinate reference system of each."""
    found = {}
    for field in schema:
        metadata = field.metadata or {}
        name = getattr(field.type, "extension_name", None) or metadata.get(b"ARROW:extension:name", b"").decode()
        if name == "geoarrow.wkb":
            details = metadata.get(b"ARROW:extension:metadata", b"{}")
            if hasattr(field.type, "extension_name"):
                details = field.type.__arrow_ext_serialize__()
            found[field.name] = json.loads(details or b"{}")
    return found


def _order(con: Any, extent: Box) -> str:
    """The name of a function of SQL that places points on a Hilbert curve. Functions belong to all connections of a database."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.compute  # type: ignore[import-untyped]

    def place(x: Any, y: Any) -> Any:
        return pyarrow.array(
            hilbert_of(pyarrow.compute.fill_null(x, extent[0]).to_numpy(), pyarrow.compute.fill_null(y, extent[1]).to_numpy(), extent)
        )

    name = f"{HIDDEN}hilbert_{uuid.uuid4().hex}"
    con.create_function(name, place, ["DOUBLE", "DOUBLE"], "BIGINT", type="arrow", null_handling="special")
    return name


def _extent(con: Any, sql: str, column: str) -> Box:
    """The box of all rows."""
    edges = ", ".join(f"{pick}(e.{name})" for pick, name in (("min", "min_x"), ("min", "min_y"), ("max", "max_x"), ("max", "max_y")))
    row = con.execute(f"SELECT {edges} FROM (SELECT {box_of(quote(column))} AS e FROM ({sql}))").fetchall()[0]
    return (0.0, 0.0, 1.0, 1.0) if row[0] is None else row


def write_parquet(con: Any, sql: str, file: Any, extent: Optional[Box]) -> int:
    """Writes the rows of a query as GeoParquet 1.1: in Hilbert order, with a box for each row and for the whole. Returns the rows.

    The curve runs over `extent`; if that is not known, the rows are collected first."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    schema = table_of(con, f"SELECT * FROM ({sql}) LIMIT 0").schema
    geometries = _geometries(schema)
    primary = next(iter(geometries), None)
    query, box_name, function = sql, None, ""
    if primary is not None:
        box_name = next(name for name in ("bbox", *(f"bbox_{number}" for number in range(1, 1000))) if name not in schema.names)
        if extent is None:
            con.execute(f"CREATE OR REPLACE TEMP TABLE {HIDDEN}written AS {sql}")
            sql = f"FROM {HIDDEN}written"
            extent = _extent(con, sql, primary)
        function = _order(con, extent)
        fields = ", ".join(
            f"'{name}': {HIDDEN}e.{theirs}" for name, theirs in (("xmin", "min_x"), ("ymin", "min_y"), ("xmax", "max_x"), ("ymax", "max_y"))
        )
        query = (
            f"SELECT * EXCLUDE ({HIDDEN}e), CASE WHEN {HIDDEN}e IS NULL THEN NULL ELSE {{{fields}}} END AS {quote(box_name)} "
            f"FROM (SELECT *, {box_of(quote(primary))} AS {HIDDEN}e FROM ({sql})) "
            f"ORDER BY {function}(({HIDDEN}e.min_x + {HIDDEN}e.max_x) / 2, ({HIDDEN}e.min_y + {HIDDEN}e.max_y) / 2)"
        )
    rows, whole = 0, None
    try:
        reader = reader_of(con, query, _ROW_GROUP)
        plain = pyarrow.schema([_stored(field) for field in reader.schema])
        with pyarrow.parquet.ParquetWriter(file, plain, compression="zstd", write_statistics=True) as writer:
            for batch in reader:
                batch = pyarrow.RecordBatch.from_arrays([_storage(column) for column in batch.columns], schema=plain)
                if not batch.num_rows:
                    continue
                writer.write_batch(batch, row_group_size=_ROW_GROUP)
                rows += batch.num_rows
                if box_name is not None:
                    whole = _wider(whole, batch.column(batch.schema.get_field_index(box_name)))
            if primary is not None:
                writer.add_key_value_metadata({"geo": json.dumps(_geo(geometries, primary, str(box_name), whole))})
    finally:
        if primary is not None:
            con.remove_function(function)
    return rows


def _stored(field: Any) -> Any:
    import pyarrow  # type: ignore[import-untyped]

    kind = getattr(field.type, "storage_type", field.type)
    return pyarrow.field(field.name, kind, field.nullable)


def _storage(column: Any) -> Any:
    return getattr(column, "storage", column)


def _wider(whole: Optional[list[float]], boxes: Any) -> Optional[list[float]]:
    import pyarrow.compute  # type: ignore[import-untyped]

    edges: list[float] = []
    for name, pick in (("xmin", min), ("ymin", min), ("xmax", max), ("ymax", max)):
        found = pyarrow.compute.min_max(pyarrow.compute.struct_field(boxes, name))["min" if pick is min else "max"].as_py()
        if found is None:
            return whole
        edges.append(found if whole is None else pick(found, whole[len(edges)]))
    return edges


def _projjson(crs: Any) -> Any:
    """GeoParquet names a CRS by its whole definition."""
    if crs is None or isinstance(crs, dict):
        return crs
    try:
        import pyproj  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(
            f"pyproj is needed to write the CRS {crs} into GeoParquet: 'pip install \"vibespatial[geopandas]\"' gets it"
        ) from error
    return pyproj.CRS.from_user_input(crs).to_json_dict()


def _geo(geometries: dict[str, dict[str, Any]], primary: str, box_name: str, whole: Optional[list[float]]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, details in geometries.items():
        columns[name] = {"encoding": "WKB", "geometry_types": []}
        crs = details.get("crs")
        # A file without a crs would be one in OGC:CRS84
        if crs != "OGC:CRS84":
            columns[name]["crs"] = _projjson(crs)
    columns[primary]["covering"] = {"bbox": {edge: [box_name, edge] for edge in ("xmin", "ymin", "xmax", "ymax")}}
    if whole is not None:
        columns[primary]["bbox"] = whole
    return {"version": "1.1.0", "primary_column": primary, "columns": columns}


@dataclass
class Result:
    """What an operation gives back.

    rows       how many rows there are
    plan       what was planned
    reports    what each task says: rows, seconds, the engines used, peak memory of its process
    skipped    what could not be read: (file, row group, reason)
    path       the folder that was written, or None
    """

    rows: int
    plan: Any
    reports: list[Any]
    skipped: list[tuple[str, Optional[int], str]]
    path: Optional[str] = None
    _references: Sequence[Any] = ()
    _executor: Any = None
    _schema: Any = None

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path is not None else ""
        left_out = f", {len(self.skipped)} row groups or files left out" if self.skipped else ""
        return f"<result of {self.plan.job.operation}: {self.rows:,} rows{where}{left_out}>"

    def to_arrow(self) -> Any:
        """All rows as one Arrow table in this process."""
        import pyarrow  # type: ignore[import-untyped]

        if self.path is not None:
            raise ValueError(f"the rows are in {self.path}: read the folder")
        tables = [self._executor.get(reference) for reference in self._references]
        return pyarrow.concat_tables([table for table in tables if table.num_rows] or tables[:1] or [self._schema])

    def to_geopandas(self, geometry: Optional[str] = None) -> Any:
        """All rows as one GeoDataFrame in this process."""
        from .._frames import to_geopandas

        return to_geopandas(self.to_arrow(), geometry=geometry)

    def dataset(self) -> Any:
        """The rows as a Ray Dataset; they stay where they are."""
        if self.path is not None:
            raise ValueError(f"the rows are in {self.path}: ray.data.read_parquet reads the folder")
        return self._executor.dataset(self._references)

    def log(self) -> list[tuple[str, str, str, str, int]]:
        """Which engine did what in each task: (task, operation, engine, reason, times)."""
        return [
            (report.label, operation, engine, reason, times)
            for report in self.reports
            for (operation, engine, reason), times in report.engines.items()
        ]
