"""What is read: Parquet files, GeoDataFrames, Arrow tables and Ray Datasets, as blocks with row counts, sizes and boxes.

A block is what one task reads at a time: some row groups of one file, or one Arrow table. Every row of an input has a number, its place in
the order of files and rows. It does not depend on how the blocks are distributed, so it identifies the row in all later steps.
"""

from __future__ import annotations

import concurrent.futures
import glob
import json
import os
import re
from dataclasses import dataclass, replace
from typing import Any, Iterable, Optional, Sequence

from ._options import InputError, absolute
from ._splits import Box

# Columns of ours have this prefix, so that they meet none of the user's
HIDDEN = "_vibe_"
_PLAIN_NAMES = ("geometry", "geom", "wkb_geometry", "wkb")
_FOOTERS = 16
_LEAST_BLOCK = 2**20


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def number(value: float) -> str:
    """A double as SQL. A literal such as 0.1 would be a DECIMAL, whose way to a double may round once more."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"


@dataclass(frozen=True)
class Group:
    """A row group: its number in the file, the place of its first row there, its rows and uncompressed bytes, its box if the file has one."""

    number: int
    start: int
    rows: int
    bytes: int
    box: Optional[Box] = None


@dataclass(frozen=True)
class Block:
    """Rows that are read together. `first` is the number in the whole input of its first row, or of the first row of its file."""

    first: int
    rows: int
    bytes: int
    box: Optional[Box] = None
    path: Optional[str] = None
    groups: tuple[Group, ...] = ()
    table: Any = None

    @property
    def label(self) -> str:
        if self.path is None:
            return f"rows {self.first} to {self.first + self.rows - 1}"
        return f"{self.path}, row groups {self.groups[0].number} to {self.groups[-1].number}" if self.groups else self.path


@dataclass(frozen=True)
class Source:
    """An input without its blocks: all that a task has to know to read one of them."""

    name: str
    columns: tuple[tuple[str, str], ...]
    geometry: Optional[str]
    reader: str = "read_parquet"
    protocol: Optional[str] = None
    storage: tuple[tuple[str, Any], ...] = ()
    hive: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]


@dataclass(frozen=True)
class Input:
    """A source and its blocks."""

    source: Source
    blocks: tuple[Block, ...]
    files: int = 0
    empty: Any = None
    skipped: tuple[tuple[str, Optional[int], str], ...] = ()

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def bytes(self) -> int:
        return sum(block.bytes for block in self.blocks)

    def __str__(self) -> str:
        what = f"{self.files} file{'s' * (self.files != 1)}, " if self.files else ""
        return f"{what}{len(self.blocks)} block{'s' * (len(self.blocks) != 1)}, {self.rows:,} rows, {self.bytes / 1e6:,.1f} MB"


def needed_columns(names: Sequence[str], texts: Iterable[Optional[str]]) -> list[str]:
    """The columns that SQL texts may use: those whose name is a word or a quoted name in one of them, and all of them for a star."""
    words: set[str] = set()
    for sql in texts:
        if sql is None:
            continue
        if re.search(r"\*|\bcolumns\s*\(", re.sub(r"count\s*\(\s*\*\s*\)", "", sql, flags=re.IGNORECASE), re.IGNORECASE):
            return list(names)
        words.update(word.lower() for word in re.findall(r"\w+", sql))
        words.update(word.replace('""', '"').lower() for word in re.findall(r'"((?:[^"]|"")+)"', sql))
    return [name for name in names if name.lower() in words]


# ---- files


def _filesystem(path: str) -> tuple[Any, str, Optional[str]]:
    """The file system of a path, the path in it, and its protocol; None is the machine's own."""
    if "://" not in path:
        return None, path, None
    protocol = path.split("://", 1)[0]
    if protocol == "file":
        return None, path.split("://", 1)[1], None
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(f"fsspec is needed for {protocol}://: 'pip install \"vibespatial[ray]\"' gets it") from error
    filesystem, inner = fsspec.core.url_to_fs(path)
    return filesystem, inner, protocol


def _listed(filesystem: Any, path: str) -> list[str]:
    """The Parquet files that a path, a folder or a glob stands for, in the order of their names."""

    def wanted(names: Iterable[str], folder: str) -> list[str]:
        # Files and folders that begin with _ or . are no data: _SUCCESS, _temporary
        return sorted(
            name for name in names if not any(part.startswith(("_", ".")) for part in os.path.relpath(name, folder).split(os.sep))
        )

    # What is there by this very name is no pattern
    if filesystem is None:
        if os.path.isdir(path):
            return wanted(glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True), path)
        if any(mark in path for mark in "*?[") and not os.path.isfile(path):
            return sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
        return [path]
    # To ask HTTP for a folder would be to read the whole file
    if not path.endswith("/") and filesystem.isfile(path):
        return [path]
    if filesystem.isdir(path):
        return wanted((name for name in filesystem.find(path) if name.endswith(".parquet")), path)
    if any(mark in path for mark in "*?["):
        return sorted(filesystem.glob(path))
    return [path]


def _hive(path: str) -> tuple[str, ...]:
    """The names in folders of the kind name=value."""
    parts = (part.split("=") for part in path.split("/")[:-1])
    return tuple(part[0] for part in parts if len(part) == 2 and all(part))


def _covering(geo: dict[str, Any], column: Optional[str]) -> Optional[tuple[str, ...]]:
    box = geo.get("columns", {}).get(column, {}).get("covering", {}).get("bbox")
    if not box:
        return None
    return tuple(".".join(box[name]) for name in ("xmin", "ymin", "xmax", "ymax"))


def _group_box(group: Any, covering: Optional[tuple[str, ...]], column: Optional[str]) -> Optional[Box]:
    """The box of a row group, from the statistics of a covering or of Parquet's own geometry type."""
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    if covering and all(name in columns for name in covering):
        found = [columns[name].statistics for name in covering]
        if all(one is not None and one.has_min_max for one in found):
            return (float(found[0].min), float(found[1].min), float(found[2].max), float(found[3].max))
    own = getattr(columns.get(column), "geo_statistics", None)
    if own is not None and own.xmin is not None:
        return (own.xmin, own.ymin, own.xmax, own.ymax)
    return None


@dataclass(frozen=True)
class _Footer:
    """What a file says about itself. The boxes of its row groups are those of the geometry `column`."""

    path: str
    names: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]
    geo: dict[str, Any]
    column: Optional[str]


def _footer(filesystem: Any, path: str) -> _Footer:
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        file = pyarrow.parquet.ParquetFile(path if filesystem is None else filesystem.open(path))
        meta = file.metadata
        geo = json.loads((meta.metadata or {}).get(b"geo", b"{}"))
        names = tuple(field.name for field in file.schema_arrow)
        kinds = tuple(sorted((field.name, str(field.type)) for field in file.schema_arrow))
        column = geo.get("primary_column") or next((name for name in _PLAIN_NAMES if name in names), None)
        covering = _covering(geo, column)
        groups: list[Group] = []
        start = 0
        for number in range(meta.num_row_groups):
            group = meta.row_group(number)
            box = _group_box(group, covering, column)
            groups.append(Group(number, start, group.num_rows, group.total_byte_size, box))
            start += group.num_rows
        file.close()
    except Exception as error:  # whatever pyarrow or the file system says is about this file
        raise InputError(path, None, f"cannot be read as Parquet: {error}") from error
    return _Footer(path, names, kinds, tuple(groups), geo, column)


def _merge(boxes: Sequence[Optional[Box]]) -> Optional[Box]:
    known = [box for box in boxes if box is not None]
    if not known or len(known) < len(boxes):
        return None
    lows, highs = zip(*((box[:2], box[2:]) for box in known))
    return (*(min(axis) for axis in zip(*lows)), *(max(axis) for axis in zip(*highs)))  # type: ignore[return-value]


def _blocks_of(footer: _Footer, first: int, block_bytes: int, geometry: Optional[str]) -> list[Block]:
    """Row groups that follow each other, up to the size of a block. `geometry` is the SQL expression whose boxes are wanted."""
    runs: list[list[Group]] = []
    boxed = footer.column is not None and geometry in (quote(footer.column), f"ST_GeomFromWKB({quote(footer.column)})")
    for group in footer.groups:
        if not group.rows:
            continue
        if not boxed:
            # The boxes of another column, or of what an expression makes of it, are not known
            group = replace(group, box=None)
        if not runs or sum(one.bytes for one in runs[-1]) + group.bytes > block_bytes:
            runs.append([])
        runs[-1].append(group)
    return [
        Block(first, sum(one.rows for one in run), sum(one.bytes for one in run), _merge([one.box for one in run]), footer.path, tuple(run))
        for run in runs
    ]


def merged(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of one file that follow each other, as one: a scan of them costs less than several."""
    found: list[Block] = []
    for block in blocks:
        last = found[-1] if found else None
        if last is None or block.path is None or last.path != block.path or last.first != block.first:
            found.append(block)
        else:
            rows, size, groups = last.rows + block.rows, last.bytes + block.bytes, last.groups + block.groups
            found[-1] = replace(last, rows=rows, bytes=size, box=_merge([last.box, block.box]), groups=groups)
    return found


def _block_size(total: int, block_bytes: int, count: int) -> int:
    """The size of blocks that makes at least `count` of them, if they are not too small then."""
    return min(block_bytes, max(total // count, _LEAST_BLOCK))


def _file_blocks(footers: Sequence[_Footer], block_bytes: int, count: int, geometry: Optional[str]) -> list[Block]:
    blocks: list[Block] = []
    first = 0
    block_bytes = _block_size(sum(group.bytes for footer in footers for group in footer.groups), block_bytes, count)
    for footer in footers:
        blocks += _blocks_of(footer, first, block_bytes, geometry)
        first += sum(group.rows for group in footer.groups)
    return blocks


def _refuse_overlap(output: Optional[str], inputs: Sequence[str], protocol: Optional[str]) -> None:
    """Refuses to write into a folder that is, holds or lies in an input: what is there may be replaced."""
    if output is None:
        return
    _, folder, its_protocol = _filesystem(output)
    if its_protocol != protocol:
        return

    def parts(path: str) -> list[str]:
        return (path if protocol else os.path.realpath(path)).rstrip("/").split("/")

    ours = parts(folder)
    for path in inputs:
        theirs = parts(path)
        shared = min(len(ours), len(theirs))
        if ours[:shared] == theirs[:shared]:
            raise ValueError(f"output={output!r} is, holds or lies in the input {path}: choose another folder")


def _open_files(paths: Sequence[str], name: str, on_error: str, output: Optional[str]) -> tuple[Source, list[_Footer], int, list[Any]]:
    filesystem, _, protocol = _filesystem(paths[0])
    files: list[str] = []
    for path in paths:
        itself, inner, its_protocol = _filesystem(path)
        if its_protocol != protocol:
            raise ValueError(f"the files of one input must be on one file system: {paths[0]}, {path}")
        found = _listed(itself, inner)
        if not found:
            raise FileNotFoundError(f"there is no Parquet file at {path}")
        files += found
        _refuse_overlap(output, [inner] if found[0].startswith(f"{inner.rstrip('/')}/") else found, protocol)
    skipped: list[Any] = []
    footers: list[_Footer] = []
    with concurrent.futures.ThreadPoolExecutor(_FOOTERS) as pool:
        for future in [pool.submit(_footer, filesystem, path) for path in files]:
            try:
                footers.append(future.result())
            except InputError as error:
                if on_error == "raise":
                    raise
                skipped.append((error.path, None, error.reason))
    if not footers:
        raise InputError(files[0], None, "and no other file of the input can be read")
    same = footers[0]
    for footer in list(footers):
        if set(footer.names) != set(same.names):
            other = InputError(
                footer.path, None, f"its columns ({', '.join(footer.names)}) are not those of {same.path} ({', '.join(same.names)})"
            )
            if on_error == "raise":
                raise other
            skipped.append((other.path, None, other.reason))
            footers.remove(footer)
    native = any(column.get("encoding", "WKB") != "WKB" for column in same.geo.get("columns", {}).values())
    reader = "vibe_read_geoparquet" if native else "read_parquet"
    storage = tuple(getattr(filesystem, "storage_options", {}).items()) if filesystem is not None else ()
    hive = _hive(same.path)
    if any(set(_hive(footer.path)) != set(hive) for footer in footers):
        hive = ()
    return Source(name, (), None, reader, protocol, storage, hive), footers, len(files), skipped


# ---- tables


def _table_blocks(table: Any, put: Any, block_bytes: int, blocks_wanted: int) -> list[Block]:
    blocks = []
    block_bytes = _block_size(table.nbytes, block_bytes, blocks_wanted)
    count = max(1, min(table.num_rows, -(-table.nbytes // block_bytes)))
    for number in range(count):
        begin, end = table.num_rows * number // count, table.num_rows * (number + 1) // count
        part = table.slice(begin, end - begin)
        if count > 1:
            # Without what other blocks hold of the same buffers
            part = part.take(list(range(part.num_rows))) if part.num_rows < 1024 else part.combine_chunks()
        blocks.append(Block(begin, end - begin, part.nbytes, None, None, (), put(part)))
    return blocks


def _dataset_blocks(dataset: Any) -> tuple[list[Block], Any]:
    """The blocks of a Ray Dataset stay where they are; only their row counts and the first schema come here."""
    import ray  # type: ignore[import-untyped]

    @ray.remote(num_cpus=0)
    def look(table: Any) -> tuple[int, int, Any]:
        return table.num_rows, table.nbytes, table.schema.empty_table()

    references = dataset.to_arrow_refs()
    facts = ray.get([look.remote(reference) for reference in references])
    blocks, first, empty = [], 0, None
    for reference, (rows, size, schema) in zip(references, facts):
        if rows or empty is None:
            empty = schema if empty is None or not len(empty.schema) else empty
        if rows:
            blocks.append(Block(first, rows, size, None, None, (), reference))
        first += rows
    return blocks, empty


# ---- what was given


def open_input(
    given: Any,
    name: str,
    geometry: Optional[str],
    *,
    put: Any,
    block_bytes: int,
    blocks: int,
    on_error: str,
    output: Optional[str],
    spatial: bool = True,
) -> Input:
    """Opens a path, a list of paths, a GeoDataFrame, an Arrow table or a Ray Dataset. `geometry` is a column or an SQL
    expression. Blocks have at most `block_bytes`, and there are at least so many, if they are not too small then. `output` is the folder
    that the rows of the operation go into."""
    from .._frames import to_table
    from ._engine import describe_source, schema_connection

    empty: Any = None
    files = 0
    found: list[Block] = []
    footers: list[_Footer] = []
    described: list[str] = []
    skipped: list[Any] = []
    if isinstance(given, (str, os.PathLike)) or (
        isinstance(given, (list, tuple)) and given and all(isinstance(one, (str, os.PathLike)) for one in given)
    ):
        paths = [absolute(one) for one in (given if isinstance(given, (list, tuple)) else [given])]
        source, footers, files, skipped = _open_files(paths, name, on_error, output)
        # One file for all that agree with it in their types, and in the values that their folders name
        differing: dict[Any, str] = {}
        for footer in footers:
            differing.setdefault((footer.kinds, os.path.dirname(footer.path) if source.hive else ""), footer.path)
        described = list(differing.values())
    else:
        import pyarrow  # type: ignore[import-untyped]

        source = Source(name, (), None)
        if hasattr(given, "to_arrow_refs"):
            found, empty = _dataset_blocks(given)
        else:
            if hasattr(given, "to_arrow") and hasattr(given, "geometry"):
                table = to_table(given)
            elif isinstance(given, pyarrow.Table):
                table = given
            else:
                raise TypeError(
                    f"{name}: a path, a list of paths, a GeoDataFrame, an Arrow table or a Ray Dataset is needed, not {type(given).__name__}"
                )
            empty = table.schema.empty_table()
            found = _table_blocks(table, put, block_bytes, blocks)
    with schema_connection() as con:
        columns = describe_source(con, source, empty, described)
        ours = next((column for column, _ in columns if column.lower().startswith(HIDDEN)), None)
        if ours is not None:
            raise ValueError(f"{name}: the column {ours} must have another name: those that begin with {HIDDEN} are taken")
        source = replace(source, columns=tuple(columns))
        if spatial:
            source = replace(source, geometry=_geometry_of(source, geometry))
    if footers:
        found = _file_blocks(footers, block_bytes, blocks, source.geometry)
    return Input(source, tuple(found), files, empty, tuple(skipped))


def _geometry_of(source: Source, wanted: Optional[str]) -> str:
    """The SQL expression of the geometry: what the caller named, else the only GEOMETRY column, else a BLOB column with a usual name."""
    by_name = {name.lower(): (name, kind) for name, kind in source.columns}
    if wanted is not None:
        if wanted.lower() not in by_name:
            return wanted
        name, kind = by_name[wanted.lower()]
        return f"ST_GeomFromWKB({quote(name)})" if kind == "BLOB" else quote(name)
    found = [name for name, kind in source.columns if kind.startswith("GEOMETRY")]
    if len(found) == 1:
        return quote(found[0])
    side = f"{source.name}_geometry"
    if len(found) > 1:
        raise ValueError(f"{source.name} has several geometry columns ({', '.join(found)}): name one with {side}=")
    for name in _PLAIN_NAMES:
        if name in by_name and by_name[name][1] == "BLOB":
            return f"ST_GeomFromWKB({quote(by_name[name][0])})"
    raise ValueError(
        f"{source.name} has no geometry column ({', '.join(source.names)}): {side}= takes a column or an SQL expression, such as 'ST_Point(lon, lat)'"
    )
