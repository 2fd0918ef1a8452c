"""What becomes of the rows that a task has found: a part of a folder, an Arrow table, or parts of aggregates."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import Any, Iterator, Mapping, Optional, Sequence

from ._aggregates import Aggregate, arguments, combine, parse, partial, typed
from ._engine import BOX, empty_view, schema_connection, table_of
from ._executor import Run
from ._inputs import HIDDEN, Source, quote
from ._output import Folder, Result
from ._splits import Box


# All columns of one side or of both: l.*, * EXCLUDE (a, b), COLUMNS(r.*)
_EXCLUDE = r"exclude\s*(?:\([^()]*\)|\w+)"
_STAR = re.compile(rf"\s*(?:columns\s*\(\s*)?(?:([lr])\s*\.\s*)?\*\s*(?:{_EXCLUDE}\s*)?\)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Shape:
    """The rows of a result: SQL items over the aliases l and r, their names, and the aggregates over them if there are any."""

    items: tuple[str, ...]
    names: tuple[str, ...]
    aggregates: Optional[tuple[Aggregate, ...]] = None

    @property
    def select(self) -> str:
        """The select list of the rows, with the arguments of the aggregates."""
        return ", ".join([*self.items, *arguments(self.aggregates or ())]) or f"1 AS {HIDDEN}none"

    @property
    def columns(self) -> str:
        """The names of the columns of that list."""
        names = [*self.names, *(aggregate.column for aggregate in self.aggregates or () if aggregate.argument is not None)]
        return ", ".join(quote(name) for name in names) or f"{HIDDEN}none"

    @property
    def materialized(self) -> bool:
        """Whether the rows are looked at more than once."""
        return any(aggregate.exact for aggregate in self.aggregates or ())

    @property
    def summed(self) -> bool:
        """Whether all that is wanted of the rows are aggregates that one look at them gives."""
        return self.aggregates is not None and not self.materialized


@dataclass(frozen=True)
class Sink:
    """Where a task puts its rows: a folder, or nowhere (they are returned)."""

    shape: Shape
    folder: Optional[Folder] = None
    extent: Optional[Box] = None

    def emit(self, con: Any, sql: str, part: str, also: Sequence[str] = ()) -> tuple[int, Any]:
        """Takes the rows of a query; returns how many there are and what the task returns for them. Aggregates are grouped by the columns
        `also` besides."""
        if self.shape.aggregates is not None:
            source = f"({sql})"
            if self.shape.materialized:
                con.execute(f"CREATE OR REPLACE TEMP TABLE {HIDDEN}rows AS {sql}")
                source = f"{HIDDEN}rows"
            parts = partial(con, [*self.shape.names, *also], self.shape.aggregates, source)
            return parts[0].num_rows, parts
        if self.folder is not None:
            return self.folder.write(con, sql, part, self.extent)
        table = table_of(con, sql)
        return table.num_rows, table


def shape_of(
    left: Source, right: Optional[Source], select: Optional[Sequence[str]], aggregate: Optional[Mapping[str, str]], on: str = "true"
) -> Shape:
    """Binds what is selected, so that names, types and mistakes are known before anything runs. `on` is bound with it."""
    if select is None:
        if aggregate is not None:
            select = []
        else:
            both = set(left.names) & set(right.names if right is not None else [])
            select = []
            for alias, prefix, source in (("l", "left", left), ("r", "right", right)):
                for name in source.names if source is not None else []:
                    # WKB in a BLOB column becomes the geometry that it is
                    decoded = source is not None and source.geometry == f"ST_GeomFromWKB({quote(name)})"
                    column = f"{HIDDEN}g" if decoded else quote(name)
                    select.append(f"{alias}.{column} AS {quote(f'{prefix}_{name}' if name in both else name)}")
    elif isinstance(select, str):
        raise TypeError("select is a list of SQL expressions, such as ['l.name', 'r.zone AS zone']")
    else:
        select = [one for item in select for one in _own(item, left, right)]
    parsed = None if aggregate is None else parse(aggregate)
    with schema_connection() as con:
        empty_view(con, f"{HIDDEN}l", left)
        bound = f"{HIDDEN}l l"
        if right is not None:
            empty_view(con, f"{HIDDEN}r", right)
            bound += f" JOIN {HIDDEN}r r ON {on}"
        names = []
        if select:
            names = [row[0] for row in con.execute(f"DESCRIBE SELECT {', '.join(select)} FROM {bound}").fetchall()]
        else:
            con.execute(f"DESCRIBE SELECT 1 FROM {bound}")
        aggregates = None if parsed is None else tuple(typed(con, parsed, bound))
    every = [*names, *(aggregates and [one.name for one in aggregates] or [])]
    twice = sorted({name for name in every if [one.lower() for one in every].count(name.lower()) > 1})
    if twice:
        raise ValueError(f"the result would have several columns of the name {', '.join(twice)}: give them names with AS")
    return Shape(tuple(select), tuple(names), aggregates)


def _own(item: str, left: Source, right: Optional[Source]) -> list[str]:
    """An expression of `select` as tasks can evaluate it, whose rows have columns of ours besides: a star is replaced by what it stands for."""
    sources = [("l", left)] if right is None else [("l", left), ("r", right)]
    ours = ", ".join([f"0::BIGINT AS {HIDDEN}id", *(f"0::DOUBLE AS {one}" for one in BOX), *(f"true AS {HIDDEN}{one}" for one in ("one", "home"))])
    with schema_connection() as con:
        for alias, source in sources:
            empty_view(con, f"{HIDDEN}{alias}", replace(source, geometry=None))
            empty_view(con, f"{HIDDEN}{alias}_g", source)
            con.execute(f"CREATE OR REPLACE TEMP VIEW {HIDDEN}{alias}_all AS SELECT *, {ours} FROM {HIDDEN}{alias}_g")
        theirs, every = (
            con.execute(f"DESCRIBE SELECT {item} FROM {', '.join(f'{HIDDEN}{alias}{which} {alias}' for alias, _ in sources)}").fetchall()
            for which in ("", "_all")
        )
    if theirs == every:
        return [item]
    star = _STAR.fullmatch(item)
    if star is None:
        raise ValueError(f"select: {item} stands for all columns of a row: name them, or write l.* or r.*")
    alias = star[1] and star[1].lower()
    return [f"{alias or ('l' if name in left.names else 'r')}.{quote(name)}" for name, *_ in theirs]


@contextlib.contextmanager
def sink_of(job: Run, shape: Shape, extent: Optional[Box] = None) -> Iterator[Sink]:
    """Where the rows of a plan that begins to run go. A folder is made ready, and what was written there is removed if the run fails."""
    job.start()
    if job.options.folder is None:
        yield Sink(shape)
        return
    folder = Folder(job.options.folder)
    folder.prepare(job.options.overwrite)
    try:
        yield Sink(shape, folder, extent)
    except BaseException:
        with contextlib.suppress(Exception):  # it is the error of the run that is raised
            folder.discard()
        raise


class Plan:
    """What all plans have: a short name for where they are part of something else."""

    def __repr__(self) -> str:
        return f"<plan of {str(self).splitlines()[0]}>"


def finish(run: Run, plan: Any, sink: Sink, references: Sequence[Any], schema: Any) -> Result:
    """The result of all that tasks have returned for their rows."""
    skipped = sorted({*plan.skipped, *run.skipped()}, key=lambda entry: (entry[0], entry[1] or 0))
    if sink.shape.aggregates is not None:
        with schema_connection() as con:
            parts = [run.executor.get(reference) for reference in references]
            table = combine(con, sink.shape.names, sink.shape.aggregates, parts or [schema])
        held = run.executor.put(table)
        return Result(table.num_rows, plan, run.reports, skipped, None, [held], run.executor, table)
    if sink.folder is not None:
        parts = [name for reference in references for name in run.executor.get(reference)]
        sink.folder.finish(run.rows, parts)
        return Result(run.rows, plan, run.reports, skipped, sink.folder.path)
    return Result(run.rows, plan, run.reports, skipped, None, list(references), run.executor, schema)
