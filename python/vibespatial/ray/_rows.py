"""What becomes of the rows that a task has found: a part of a folder, an Arrow table, or parts of aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

from ._aggregates import Aggregate, arguments, combine, parse, partial, typed
from ._engine import empty_view, schema_connection, table_of
from ._executor import Run
from ._inputs import HIDDEN, Source, quote
from ._options import Options
from ._output import Folder, Result
from ._splits import Box


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


def sink_of(options: Options, shape: Shape, extent: Optional[Box] = None) -> Sink:
    """Where the rows of an operation go; a folder is made ready."""
    if options.output in (None, "table", "dataset") or shape.aggregates is not None:
        return Sink(shape)
    folder = Folder(str(options.output))
    folder.prepare(options.overwrite)
    return Sink(shape, folder, extent)


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
        sink.folder.finish({"rows": run.rows, "parts": len(parts)}, parts)
        return Result(run.rows, plan, run.reports, skipped, sink.folder.path)
    return Result(run.rows, plan, run.reports, skipped, None, list(references), run.executor, schema)
