"""Dissolve: the rows of a group meet in one task, so the geometry of a group is that of one process to the bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

import numpy

from ._engine import Side, empty_view, engine, guarded, packed, reader_of, schema_connection, table_of
from ._exchange import Planned, describe_job, opening_of, partition_count, settings_of, tables_of
from ._executor import Call, Run, executor_of
from ._inputs import HIDDEN, open_input, quote, text
from ._options import Options, Settings
from ._output import Result
from ._rows import Plan, Shape, Sink, finish, sink_of


@dataclass(frozen=True)
class Spec:
    """What every task has to know: the query of the rows, and the call that dissolves them."""

    by: tuple[str, ...]
    items: str
    arguments: str
    sink: Sink
    count: int

    def call(self, view: str) -> str:
        return f"FROM vibe_dissolve({text(f'SELECT {self.items} FROM {view} ORDER BY {HIDDEN}id')}{self.arguments})"


def group_block(settings: Settings, spec: Spec, side: Side, *tables: Any) -> tuple[Any, ...]:
    """The rows of a block by their group: a table for each task of the next stage."""
    import pyarrow  # type: ignore[import-untyped]

    with engine(settings, f"group {side.blocks[0].label}") as (con, report):
        side.fill(iter(tables))
        place = f"hash({', '.join(quote(name) for name in spec.by)}) % {spec.count}" if spec.by else "0"

        def work() -> tuple[Any, list[list[Any]]]:
            parts: list[list[Any]] = [[] for _ in range(spec.count)]
            rows = f"SELECT *, CAST({place} AS INTEGER) AS {HIDDEN}place FROM ({side.rows(con, 'g')})"
            reader = reader_of(con, packed(side.source, side.columns, rows))
            for batch in reader:
                places = numpy.asarray(batch.column(batch.num_columns - 1).to_numpy())
                for one in numpy.unique(places):
                    parts[one].append(batch.take(pyarrow.array(numpy.flatnonzero(places == one))))
            return reader.schema, parts

        schema, parts = guarded(con, settings, report, [side], work)
        cut = [pyarrow.Table.from_batches(batches, schema=schema).combine_chunks() for batches in parts]
        report.facts["rows"] = [table.num_rows for table in cut]
    return (report, *cut)


def dissolve_rows(settings: Settings, spec: Spec, part: int, side: Side, *tables: Any) -> tuple[Any, ...]:
    with engine(settings, f"dissolve part {part}", ordered=True) as (con, report):
        side.fill(iter(tables))
        side.view(con, "d_rows", settings.gpu)
        report.rows, out = spec.sink.emit(con, spec.call("d_rows"), f"{part:05d}")
    return report, out


@dataclass(repr=False)
class DissolvePlan(Plan):
    """How a dissolve will run. Print it, or call `run`."""

    job: Run
    settings: Settings
    data: Planned
    by: tuple[str, ...]
    items: str
    arguments: str
    count: int
    empty: Any

    @property
    def skipped(self) -> list[Any]:
        return list(self.data.input.skipped)

    def __str__(self) -> str:
        lines = [
            f"dissolve by {', '.join(self.by) or 'nothing: all rows are one group'}",
            *describe_job(self.job, self.settings, [self.data]),
        ]
        lines.append(
            f"  rows are shuffled by their group to {self.count} task{'s' * (self.count != 1)}; a group is dissolved in one of them"
        )
        return "\n".join(lines)

    def run(self) -> Result:
        with sink_of(self.job, Shape((), tuple(self.empty.schema.names))) as sink:
            return finish(self.job, self, sink, self._found(sink), self.empty)

    def _found(self, sink: Sink) -> list[Any]:
        spec = Spec(self.by, self.items, self.arguments, sink, self.count)
        calls = []
        for block in self.data.input.blocks:
            calls.append(
                Call(
                    f"group {block.label}", group_block, [self.settings.on_cpu, spec, self.data.side([block]), *tables_of([block])], 1 + self.count
                )
            )
        cut = self.job.stage("group", calls)
        counts = [self.job.executor.get(reference[0]).facts["rows"] for reference in cut]
        calls = []
        for part in range(self.count):
            pieces = [reference[1 + part] for reference, rows in zip(cut, counts) if rows[part]]
            if pieces:
                side = self.data.side([], piece_count=len(pieces))
                calls.append(Call(f"dissolve part {part}", dissolve_rows, [self.settings, spec, part, side, *pieces], 2))
        return [reference[1] for reference in self.job.stage("dissolve", calls, counts=True)]


def plan_dissolve(
    data: Any,
    by: Union[str, Sequence[str], None] = None,
    aggregates: Optional[Mapping[str, str]] = None,
    *,
    geometry: Optional[str] = None,
    options: Options,
) -> DissolvePlan:
    job = Run("dissolve", executor_of(options), options)
    settings = settings_of(job)
    given = open_input(data, "data", geometry, **opening_of(job, settings))
    source = given.source
    names = {name.lower(): name for name in source.names}
    keys = [by] if isinstance(by, str) else list(by or [])
    for name in [*keys, *(aggregates or {})]:
        if name.lower() not in names and name in (aggregates or {}):
            raise ValueError(
                f"there is no column {name}: aggregates= has columns, and the name of an aggregate for each, such as {{'population': 'sum'}}; "
                f"the columns are {', '.join(source.names)}"
            )
        if name.lower() not in names:
            raise ValueError(f"there is no column {name}; those are {', '.join(source.names)}")
    keys = [names[name.lower()] for name in keys]
    # The geometry has the name of its column, or of what GeoPandas calls it
    plain = next((name for name, kind in source.columns if source.geometry in (quote(name), f"ST_GeomFromWKB({quote(name)})")), None)
    shape_name = plain or "geometry"
    others = (
        [names[name.lower()] for name in aggregates]
        if aggregates is not None
        else [name for name in source.names if name not in keys and name != plain]
    )
    columns = list(dict.fromkeys([*keys, *(name for name in others if name != shape_name)]))
    items = ", ".join([*(quote(name) for name in columns), f"{HIDDEN}g AS {quote(shape_name)}"])
    arguments = f", geometry := {text(shape_name)}"
    if keys:
        arguments += f", by := [{', '.join(text(name) for name in keys)}]"
    if aggregates is not None:
        arguments += ", aggregates := {" + ", ".join(f"{text(name)}: {text(str(how))}" for name, how in aggregates.items()) + "}"
    if aggregates is not None and not aggregates:
        raise ValueError("aggregates names columns and how each is combined; leave it out for the first value of each")
    planned = Planned.of(given, [*(quote(name) for name in columns)])
    count = partition_count(job, settings, [planned]) if keys else 1
    with schema_connection() as con:
        empty_view(con, "d_rows", source)
        con.execute(f"CREATE OR REPLACE TEMP VIEW d_numbered AS SELECT *, NULL::BIGINT AS {HIDDEN}id FROM d_rows")
        empty = table_of(con, f"{Spec(tuple(keys), items, arguments, Sink(Shape((), ())), 1).call('d_numbered')} LIMIT 0")
    return DissolvePlan(job, settings, planned, tuple(keys), items, arguments, count, empty)
