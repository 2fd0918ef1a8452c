"""DuckDB in a worker: a connection with the budget of the task, the rows of blocks as SQL, and which row group an error came from."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import os
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Optional, Sequence

import duckdb

from .._extension import connect
from ._inputs import HIDDEN, Block, Group, Source, number, quote, text
from ._options import InputError, Report, Settings
from ._splits import Box

_INFINITE = float("inf")
BOX = tuple(f"{HIDDEN}{name}" for name in ("x0", "y0", "x1", "y1"))
# These say something about the machine or the network, not about the data
_NOT_THE_DATA = (duckdb.OutOfMemoryException, duckdb.InterruptException, duckdb.HTTPException)
# What is to be left out is looked at again after a pause: a fault of a storage or of a full disk may pass
_AGAIN_S = 2.0


_open: dict[Any, Any] = {}
_MODE = "VIBESPATIAL_EXECUTION_MODE"
_GPUS = "CUDA_VISIBLE_DEVICES"
# How long the first task of a process waits for its GPU and the kernels of joins; after that the CPU does what they are missing for
_WARM_S = 60


def _database(key: Any, config: dict[str, Any]) -> Any:
    """The database of this process for a kind of task. It is kept for the next one: opening it takes as long as a small join."""
    if key not in _open:
        for other in [one for one in _open if isinstance(one, Settings) and isinstance(key, Settings)]:
            _open.pop(other).close()
        given = os.environ.get(_MODE)
        # LOAD begins to open a GPU if the mode lets it: in a process that has reserved none, it would take that of others
        os.environ[_MODE] = "auto" if isinstance(key, Settings) and key.gpu else "cpu"
        try:
            _open[key] = connect(config=config)
        finally:
            os.environ.pop(_MODE)
            if given is not None:
                os.environ[_MODE] = given
    return _open[key]


_device: dict[str, Optional[str]] = {}


def _open_gpu(con: Any, settings: Settings) -> str:
    """Waits for the GPU that Ray has given to this process; returns what it is."""
    given = os.environ.get(_GPUS)
    if _device.setdefault("given", given) != given:
        raise RuntimeError(f"this process has opened the GPU {_device['given']} and cannot change to {given}, which its task was given")
    if settings.gpu_memory:
        con.execute(f"SET vibe_gpu_memory_limit = {text(settings.gpu_memory)}")
    con.execute(f"FROM vibe_ensure_warm({_WARM_S})").fetchall()
    (detail,) = con.execute("SELECT detail FROM vibe_gpu_info() WHERE component = 'device'").fetchall()[0]
    return f"{_GPUS}={given}: {detail}"


def _node() -> str:
    """Ray's name of the node that this process is on."""
    ray = sys.modules.get("ray")
    return str(ray.get_runtime_context().get_node_id()) if ray is not None and ray.is_initialized() else ""


_SPILL = "vibespatial-ray-"


def _temporary(settings: Settings) -> str:
    """A folder of this process to spill into. It holds a file that is locked as long as the process lives; those that killed workers of
    this machine have left are removed. Of other machines, which may share the parent, a lock need not say whether they live."""
    parent = settings.temp_directory or tempfile.gettempdir()
    os.makedirs(parent, exist_ok=True)
    prefix = f"{_SPILL}{socket.gethostname()}-"
    for path in glob.glob(os.path.join(glob.escape(parent), f"{glob.escape(prefix)}*", "lock")):
        # Others may write here, too: a pipe would keep this process waiting
        with contextlib.suppress(OSError), open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid():
                continue
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
    descriptor = os.open(os.path.join(folder, "new"), os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # Others see it when it is locked
    os.rename(os.path.join(folder, "new"), os.path.join(folder, "lock"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.path.join(folder, "spilled")


class _Memory:
    """The most memory that this process has had, as often as it is looked at, without what it shares: Ray's objects are mapped into all
    workers of a node, and pages that a process has touched stay among its own until it ends."""

    _EVERY_S = 0.05

    def __enter__(self) -> "_Memory":
        self.peak = self._now()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()
        self.peak = max(self.peak, self._now())

    def _watch(self) -> None:
        while not self._ended.wait(self._EVERY_S):
            self.peak = max(self.peak, self._now())

    @staticmethod
    def _now() -> int:
        with open("/proc/self/status") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("RssAnon:", "RssFile:")))


@contextlib.contextmanager
def schema_connection() -> Iterator[Any]:
    """A connection for questions about types."""
    with _database("schema", {"threads": 1}).cursor() as con:
        yield con


@contextlib.contextmanager
def engine(settings: Settings, label: str, ordered: bool = False, written: bool = False) -> Iterator[tuple[Any, Report]]:
    """A connection with the budget of a task, and the report that is filled in when it ends. `ordered` keeps rows in the order in which
    they are scanned. `written` keeps the sides of a join as they are written: DuckDB does not know how many rows an Arrow table has."""
    begin, cpu = time.monotonic(), time.process_time()
    report = Report(label, host=socket.gethostname(), node=_node(), process=os.getpid())
    config: dict[str, Any] = {
        "threads": settings.threads,
        "memory_limit": f"{settings.memory_limit // 2**20}MiB",
    }
    if settings not in _open:
        config["temp_directory"] = _temporary(settings)
    with _Memory() as memory, _database(settings, config).cursor() as con:
        con.execute(f"SET preserve_insertion_order = {'true' if ordered else 'false'}")
        con.execute(f"SET disabled_optimizers = '{'build_side_probe_side' if written else ''}'")
        con.execute(f"SET vibe_execution_mode = '{'auto' if settings.gpu else 'cpu'}'")
        if settings.gpu:
            report.device = _open_gpu(con, settings)
        # Where no GPU is asked for there is nothing to decide, and nothing is logged
        report.engines = {("all", "cpu", "the task has reserved no GPU"): 1}
        last = con.execute("SELECT coalesce(max(sequence), 0) FROM vibe_dispatch_log()").fetchall()[0][0]
        yield con, report
        rows = con.execute(
            "SELECT operation, actual, coalesce(reason, ''), count(*) FROM vibe_dispatch_log() WHERE sequence > ? GROUP BY ALL ORDER BY ALL",
            [last],
        ).fetchall()
        if settings.gpu:
            report.engines = {(operation, actual, reason): count for operation, actual, reason, count in rows}
    report.seconds = time.monotonic() - begin
    report.cpu_seconds = time.process_time() - cpu
    report.peak_memory = memory.peak


def reader_of(con: Any, sql: str, rows: int = 65536) -> Any:
    """The result of a query as Arrow batches."""
    result = con.execute(sql)
    fetch = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
    return fetch(rows)


def table_of(con: Any, sql: str) -> Any:
    """The result of a query as an Arrow table."""
    result = con.execute(sql)
    fetch = getattr(result, "to_arrow_table", None) or result.fetch_arrow_table
    return fetch()


def _file_scan(con: Any, source: Source, paths: Sequence[str], options: str = "") -> str:
    if source.protocol is not None and source.protocol not in con.list_filesystems():
        import fsspec  # type: ignore[import-untyped]

        con.register_filesystem(fsspec.filesystem(source.protocol, **dict(source.storage)))
    # DuckDB takes a path for a pattern. The file system of HTTP keeps the protocol in its paths, and a question mark is no pattern there
    wheres = []
    for path in paths:
        where = glob.escape(path)
        if "://" in path:
            where = where.replace("[?]", "?")
        elif source.protocol is not None:
            where = f"{source.protocol}://{where}"
        wheres.append(text(where))
    listed = ", ".join(wheres)
    return f"{source.reader}([{listed}], file_row_number = true, hive_partitioning = {'true' if source.hive else 'false'}{options})"


def describe_source(con: Any, source: Source, empty: Any, paths: Sequence[str]) -> list[tuple[str, str]]:
    """The columns of an input and their types in SQL: those that some of its files have together, or those of `empty`, an Arrow table without
    rows, if the input is no file."""
    if paths:
        try:
            scan = _file_scan(con, source, paths, ", union_by_name = true")
            rows = con.execute(f"DESCRIBE SELECT * EXCLUDE (file_row_number) FROM {scan}").fetchall()
        except duckdb.Error as error:
            raise InputError(paths[0], None, str(error)) from error
    elif empty is not None:
        con.register(f"{HIDDEN}schema", empty)
        rows = con.execute(f"DESCRIBE FROM {HIDDEN}schema").fetchall()
        con.unregister(f"{HIDDEN}schema")
    else:
        raise InputError(source.name, None, "holds no rows and no columns")
    return [(row[0], row[1]) for row in rows]


def empty_view(con: Any, name: str, source: Source) -> None:
    """A view without rows that has the columns of an input, and its geometry under our name."""
    columns = ", ".join(f"NULL::{kind} AS {quote(column)}" for column, kind in source.columns)
    geometry = "" if source.geometry is None else f", ({source.geometry}) AS {HIDDEN}g"
    con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT *{geometry} FROM (SELECT {columns}) LIMIT 0")


def _registered(con: Any, name: str, table: Any, stored: bool) -> str:
    """The name of an Arrow table in SQL. `stored` copies it into a table of DuckDB's, which knows how many rows it has."""
    con.register(name, table)
    if not stored:
        return name
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name}_stored AS FROM {name}")
    return f"{name}_stored"


def block_rows(con: Any, source: Source, block: Block, table: Any, columns: Sequence[str], name: str, stored: bool = False) -> str:
    """A query for the rows of a block: the columns, and the number of each row."""
    if block.path is None:
        import numpy
        import pyarrow  # type: ignore[import-untyped]

        listed = "".join(f"{quote(column)}, " for column in columns)
        numbers = pyarrow.array(numpy.arange(block.first, block.first + block.rows))
        return f"SELECT {listed}{HIDDEN}id FROM {_registered(con, name, table.append_column(f'{HIDDEN}id', numbers), stored)}"
    # Row numbers of the file leave out row groups before they are read
    runs: list[list[int]] = []
    for group in block.groups:
        if runs and runs[-1][1] == group.start - 1:
            runs[-1][1] += group.rows
        else:
            runs.append([group.start, group.start + group.rows - 1])
    # Files of one input may have different types, of columns and of what their folders say
    kinds = {name.lower(): kind for name, kind in source.columns}
    listed = "".join(f"CAST({quote(column)} AS {kinds[column.lower()]}) AS {quote(column)}, " for column in columns)
    folders = ", ".join(f"{text(name)}: {text(kinds[name.lower()])}" for name in source.hive)
    # What reads native encodings leaves it to the cast
    options = f", hive_types = {{{folders}}}" * bool(folders and source.reader == "read_parquet")
    files = _file_scan(con, source, [block.path], options)
    scan = f"SELECT {listed}file_row_number + {block.first} AS {HIDDEN}id FROM {files}"
    # One scan a run: DuckDB leaves out row groups for a range, not for one range or another
    return " UNION ALL ".join(f"{scan} WHERE file_row_number BETWEEN {low} AND {high}" for low, high in runs) or f"{scan} LIMIT 0"


def extent(geometry: str) -> str:
    """The box of a geometry as a struct whose fields SQL can name."""
    return f"CAST(ST_Extent({geometry}) AS STRUCT(min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE))"


def with_boxes(rows: str, geometry: str, reach: float) -> str:
    """The rows of a query with the box of each, grown by `reach`: _vibe_x0, y0, x1, y1, NULL for NULL and empty geometries."""

    def edge(name: str, sign: str) -> str:
        value = f"{HIDDEN}e.{name}"
        if reach:
            # Outward by a little more than all roundings of distances, so that the box holds all that is so near
            value = f"{value} {sign} {number(reach)} {sign} (abs({value}) + {number(reach)}) * 4e-16"
        return value

    unknown = " OR ".join(f"isnan({HIDDEN}e.{name})" for name in ("min_x", "min_y", "max_x", "max_y"))
    edges = ", ".join(
        f"CASE WHEN {unknown} THEN NULL ELSE {edge(name, sign)} END AS {HIDDEN}{short}"
        for name, sign, short in (("min_x", "-", "x0"), ("min_y", "-", "y0"), ("max_x", "+", "x1"), ("max_y", "+", "y1"))
    )
    return f"SELECT * EXCLUDE ({HIDDEN}e), {edges} FROM (SELECT *, {extent(geometry)} AS {HIDDEN}e FROM ({rows}))"


def _inside(column: str, low: float, high: float) -> list[str]:
    found = [] if low == -_INFINITE else [f"{column} >= {number(low)}"]
    return found if high == _INFINITE else [*found, f"{column} < {number(high)}"]


def point_in(x: str, y: str, region: Box) -> str:
    """Whether a point lies in a half-open region."""
    return " AND ".join([*_inside(x, region[0], region[2]), *_inside(y, region[1], region[3])]) or "true"


def touches(region: Box, prefix: str = HIDDEN) -> str:
    """Whether a row's box touches a half-open region."""
    found = []
    for low, high, begin, end in ((region[0], region[2], "x0", "x1"), (region[1], region[3], "y0", "y1")):
        found += [] if high == _INFINITE else [f"{prefix}{begin} < {number(high)}"]
        found += [] if low == -_INFINITE else [f"{prefix}{end} >= {number(low)}"]
    return " AND ".join(found) or "true"


def inside(region: Box) -> str:
    """Whether a row's box touches no other region."""
    return f"{point_in(f'{HIDDEN}x0', f'{HIDDEN}y0', region)} AND {point_in(f'{HIDDEN}x1', f'{HIDDEN}y1', region)}"


def _geometries(source: Source, columns: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in source.columns if name in columns and kind.startswith("GEOMETRY")]


def packed(source: Source, columns: Sequence[str], rows: str) -> str:
    """Rows of an input as they move between tasks: geometries as WKB, which DuckDB reads from Arrow faster than its own type."""
    replaced = ", ".join(f"ST_AsWKB({quote(name)}) AS {quote(name)}" for name, _ in _geometries(source, columns))
    return f"SELECT *{f' REPLACE ({replaced})' * bool(replaced)} FROM ({rows})"


def unpacked(source: Source, columns: Sequence[str], rows: str) -> str:
    """Rows that have moved, with the types that they had: of some, such as UUID, Arrow knows only a text."""
    kinds, geometries = dict(source.columns), dict(_geometries(source, columns))
    listed = [
        f"CAST({f'ST_GeomFromWKB({quote(name)})' if name in geometries else quote(name)} AS {kinds[name]}) AS {quote(name)}" for name in columns
    ]
    return f"SELECT {', '.join([*listed, f'{HIDDEN}id'])} FROM {rows}"


@dataclass
class Side:
    """The rows of one input that a task works on: blocks that it reads itself, and rows that other tasks have cut for it.

    `boxes` is whether the rows need their boxes. `region` keeps the rows of one partition, and `boxless` says of each block whether its
    rows without a box are of it, too. `once` is whether no row is in another partition.
    """

    source: Source
    columns: list[str]
    blocks: list[Block] = field(default_factory=list)
    boxes: bool = False
    reach: float = 0.0
    region: Optional[Box] = None
    boxless: list[bool] = field(default_factory=list)
    once: bool = False
    piece_count: int = 0
    tables: list[Any] = field(default_factory=list)
    pieces: list[Any] = field(default_factory=list)

    def fill(self, tables: Iterator[Any]) -> "Side":
        """Takes the Arrow tables of its blocks and pieces from the arguments of a task."""
        self.tables = [next(tables) if block.path is None else None for block in self.blocks]
        self.pieces = [next(tables) for _ in range(self.piece_count)]
        return self

    @property
    def count(self) -> int:
        """How many rows there are, before those of other partitions are left out."""
        return sum(block.rows for block in self.blocks) + sum(piece.num_rows for piece in self.pieces)

    def rows(self, con: Any, name: str, stored: bool = False) -> str:
        """A query for the rows. Arrow data is registered under names that begin with `name`, or stored in tables of them."""
        import pyarrow  # type: ignore[import-untyped]

        kept = list(self.columns)
        # By whether rows without a box are of this partition; those of cut rows are
        read: dict[bool, list[str]] = {}
        for at, (block, table) in enumerate(zip(self.blocks, self.tables)):
            rows = block_rows(con, self.source, block, table, kept, f"{HIDDEN}{name}_{at}", stored)
            read.setdefault(self.region is None or self.boxless[at], []).append(f"({rows})")
        if self.pieces:
            whole = pyarrow.concat_tables(self.pieces, promote_options="permissive")
            moved = _registered(con, f"{HIDDEN}{name}_cut", whole, stored)
            read.setdefault(True, []).append(f"({unpacked(self.source, kept, moved)})")
        found = []
        for boxless, parts in read.items():
            rows = " UNION ALL ".join(parts)
            if self.boxes:
                rows = with_boxes(rows, str(self.source.geometry), self.reach)
            if self.region is not None and self.blocks:
                rows = f"SELECT * FROM ({rows}) WHERE ({touches(self.region)}){f' OR {HIDDEN}x0 IS NULL' * boxless}"
            found.append(f"({rows})")
        if not found:
            listed = ", ".join(f"NULL::{kind} AS {quote(column)}" for column, kind in self.source.columns if column in kept)
            boxes = "".join(f", NULL::DOUBLE AS {one}" for one in BOX) if self.boxes else ""
            found.append(f"SELECT {listed}{', ' if listed else ''}NULL::BIGINT AS {HIDDEN}id{boxes} WHERE false")
        return " UNION ALL ".join(found)

    def view(self, con: Any, name: str, stored: bool = False) -> None:
        """A view of the rows with their geometry as _vibe_g, and of a partition whose rows have boxes: _vibe_one, whether a row is in
        no other one, and _vibe_home, whether this one has the lower left corner of its box. `stored` is for tasks with a GPU: how many
        rows there are decides whether it is used, and DuckDB takes every Arrow table for one of a single row."""
        extra = "" if self.source.geometry is None else f", ({self.source.geometry}) AS {HIDDEN}g"
        if self.region is not None and self.boxes:
            extra += f", ({HIDDEN}x0 IS NULL OR ({inside(self.region)})) AS {HIDDEN}one"
            extra += f", ({HIDDEN}x0 IS NULL OR ({point_in(f'{HIDDEN}x0', f'{HIDDEN}y0', self.region)})) AS {HIDDEN}home"
        con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT *{extra} FROM ({self.rows(con, name, stored)})")


def _is_of_the_data(error: duckdb.Error) -> bool:
    if isinstance(error, duckdb.IOException) and ("No space left" in str(error) or f"{_SPILL}{socket.gethostname()}-" in str(error)):
        return False
    return not isinstance(error, _NOT_THE_DATA)


def _fails(con: Any, source: Source, block: Block, table: Any, columns: Sequence[str]) -> Optional[str]:
    """What is wrong with a block: None if all its columns and geometries can be read."""
    geometry = "" if source.geometry is None else f", ST_NPoints({source.geometry}) AS {HIDDEN}n, ST_Extent({source.geometry}) AS {HIDDEN}e"
    try:
        rows = block_rows(con, source, block, table, columns, f"{HIDDEN}probe")
        con.execute(f"CREATE OR REPLACE TEMP TABLE {HIDDEN}probe_rows AS SELECT *{geometry} FROM ({rows})")
        con.execute(f"DROP TABLE {HIDDEN}probe_rows")
    except duckdb.Error as error:
        if not _is_of_the_data(error):
            raise
        return str(error)
    return None


def _failing(con: Any, side: Side, block: Block, table: Any, groups: Sequence[Optional[Group]]) -> list[tuple[Optional[Group], str]]:
    """Which of these row groups of a block cannot be read, and why; None is the whole of an Arrow table."""
    found = []
    for group in groups:
        reason = _fails(con, side.source, block if group is None else replace(block, groups=(group,)), table, side.columns)
        found += [] if reason is None else [(group, reason)]
    return found


def _exclude(con: Any, side: Side, report: Report, on_error: str) -> bool:
    """Finds the row groups of a side that cannot be read and leaves them out, or raises an error that names the first."""
    found = False
    for at, (block, table) in enumerate(zip(side.blocks, side.tables)):
        bad = _failing(con, side, block, table, [None] if block.path is None else block.groups)
        if bad and on_error == "skip":
            time.sleep(_AGAIN_S)
            bad = _failing(con, side, block, table, [group for group, _ in bad])
        for group, reason in bad:
            row_group = None if group is None else group.number
            path = block.path or f"{side.source.name}, {block.label}"
            if on_error == "raise":
                raise InputError(path, row_group, reason)
            report.skipped.append((path, row_group, reason))
            found = True
        if bad and block.path is not None:
            left_out = [group for group, _ in bad]
            side.blocks[at] = replace(block, groups=tuple(group for group in block.groups if group not in left_out))
        elif bad:
            side.blocks[at] = replace(block, rows=0)
            side.tables[at] = table.slice(0, 0)
    return found


def guarded(con: Any, settings: Settings, report: Report, sides: Sequence[Side], work: Callable[[], Any]) -> Any:
    """Runs the work of a task. If DuckDB reports an error, the row group behind it is named, or left out and the work begun again."""
    while True:
        try:
            return work()
        except duckdb.Error as error:
            if not _is_of_the_data(error):
                raise
            if not any([_exclude(con, side, report, settings.on_error) for side in sides]):
                raise
