"""Operations that need all partners of a row in one task: overlays, and queries with a spatial join in them.

Every row of the first table is in exactly one partition, the one that holds the lower left corner of its box. Every row of the second table is
in all partitions that have a row of the first whose box comes near it. So a task sees each of its rows together with all that it can meet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, Optional, Sequence, Union

from ._engine import Side, empty_view, engine, guarded, schema_connection, table_of
from ._exchange import (
    Places,
    Planned,
    describe_job,
    describe_splits,
    opening_of,
    partition_count,
    place,
    settings_of,
    shuffle,
    streamed,
    tables_of,
)
from ._executor import Call, Run, executor_of
from ._inputs import HIDDEN, Block, needed_columns, open_input, quote, text
from ._options import Options, Settings
from ._output import Result
from ._rows import Plan, Shape, Sink, finish, sink_of
from ._sjoin import choose_broadcast
from ._splits import Splits

OVERLAYS = ("intersection", "difference", "identity", "symdifference", "union")


@dataclass(frozen=True)
class Spec:
    """A query over views: the name and the columns of each, in the order of the sides that a task is given."""

    query: str
    views: tuple[tuple[str, str], ...]
    sink: Sink
    prefix: str = ""


def query_rows(settings: Settings, spec: Spec, part: int, sides: Sequence[Side], *tables: Any) -> tuple[Any, ...]:
    """Runs the query on the rows of a task."""
    with engine(settings, f"{spec.prefix or 'query'} part {part}", ordered=True) as (con, report):
        rest = iter(tables)
        for side in sides:
            side.fill(rest)

        def work() -> tuple[int, Any]:
            for at, (side, (name, columns)) in enumerate(zip(sides, spec.views)):
                side.view(con, f"{HIDDEN}side_{at}", settings.gpu)
                con.execute(f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS SELECT {columns} FROM {HIDDEN}side_{at}")
            return spec.sink.emit(con, spec.query, f"{spec.prefix}{part:05d}")

        report.rows, out = guarded(con, settings, report, sides, work)
        report.read = sum(block.rows for side in sides for block in side.blocks)
    return report, out


def run_partitions(
    job: Run, settings: Settings, spec: Spec, splits: Splits, first: Planned, second: Planned, others: Sequence[Planned], name: str
) -> list[Any]:
    """One pass: the rows of `first` at home, those of `second` wherever they can meet one, the others everywhere."""
    reaches = shuffle(job, settings, first, Places(splits, "home"), f"{name} {first.source.name}")
    shuffle(job, settings, second, Places(splits, "reach", tuple(reaches)), f"{name} {second.source.name}")
    wholes = [side.whole(job, settings) for side in others]
    calls = []
    for part in range(len(splits)):
        if not first.pieces.get(part):
            continue
        sides, tables = [], []
        for side in (first, second):
            pieces = side.pieces.get(part, [])
            sides.append(side.side([], piece_count=len(pieces)))
            tables += pieces
        for whole, whole_tables in wholes:
            sides.append(whole)
            tables += whole_tables
        calls.append(
            Call(f"{spec.prefix or 'query'} part {part}", query_rows, [settings, spec, part, sides, *tables], 2, splits.leaves[part].work)
        )
    return [reference[1] for reference in job.stage(name, calls, counts=True)]


def run_blocks(
    job: Run, settings: Settings, spec: Spec, first: Planned, groups: Sequence[Sequence[Block]], others: Sequence[Planned], name: str
) -> list[Any]:
    """One pass: the blocks of one side, with all of the others everywhere."""
    wholes = [side.whole(job, settings) for side in others]
    calls = []
    for part, group in enumerate(groups):
        sides = [first.side(group), *(side for side, _ in wholes)]
        tables = [*tables_of(group), *(table for _, given in wholes for table in given)]
        calls.append(Call(f"{spec.prefix or 'query'} part {part}", query_rows, [settings, spec, part, sides, *tables], 2))
    return [reference[1] for reference in job.stage(name, calls, counts=True)]


# ---- overlay


@dataclass(repr=False)
class OverlayPlan(Plan):
    """How an overlay will run. Print it, or call `run`."""

    job: Run
    settings: Settings
    left: Planned
    right: Planned
    how: str
    columns: tuple[str, str]
    passes: list[tuple[str, bool]]
    empty: Any
    splits: Optional[Splits] = None
    groups: list[list[Block]] = field(default_factory=list)

    @property
    def skipped(self) -> list[Any]:
        return [*self.left.input.skipped, *self.right.input.skipped]

    def __str__(self) -> str:
        lines = [f"overlay, {self.how}", *describe_job(self.job, self.settings, [self.left, self.right])]
        if self.splits is None:
            lines.append(
                f"  the right side is read once and goes to every node; the left side is read by {len(self.groups)} task{'s' * (len(self.groups) != 1)}"
            )
            return "\n".join(lines)
        lines += describe_splits(self.splits)
        for _, swapped in self.passes:
            names = ("right", "left") if swapped else ("left", "right")
            lines.append(f"  one pass with the {names[0]} rows in one partition each, and the {names[1]} rows wherever they can meet one")
        return "\n".join(lines)

    def run(self) -> Result:
        with sink_of(self.job, Shape((), tuple(self.empty.schema.names))) as sink:
            return finish(self.job, self, sink, self._found(sink), self.empty)

    def _found(self, sink: Sink) -> list[Any]:
        found: list[Any] = []
        for at, (query, swapped) in enumerate(self.passes):
            views = (("l_rows", self.columns[0]), ("r_rows", self.columns[1]))
            spec = Spec(query, views[::-1] if swapped else views, sink, f"{'ab'[at]}-")
            first, second = (self.right, self.left) if swapped else (self.left, self.right)
            if self.splits is None:
                found += run_blocks(self.job, self.settings, spec, first, self.groups, [second], "overlay")
            else:
                found += run_partitions(self.job, self.settings, spec, self.splits, first, second, [], "overlay")
        return found


def _columns(planned: Planned) -> tuple[str, str]:
    """The view of a side for vibe_overlay, with the geometry under the name of its column; and that name."""
    source = planned.source
    name = next((one for one, _ in source.columns if source.geometry in (quote(one), f"ST_GeomFromWKB({quote(one)})")), "geometry")
    others = [quote(one) for one in source.names if one != name]
    return ", ".join([*others, f"{HIDDEN}g AS {quote(name)}"]), name


def plan_overlay(
    left: Any,
    right: Any,
    how: str = "intersection",
    *,
    keep_geom_type: bool = True,
    left_geometry: Optional[str] = None,
    right_geometry: Optional[str] = None,
    options: Options,
) -> OverlayPlan:
    if how not in OVERLAYS:
        raise ValueError(f"how must be one of {', '.join(OVERLAYS)}, not {how!r}")
    job = Run("overlay", executor_of(options), options)
    settings = settings_of(job)
    opening = opening_of(job, settings)
    inputs = [open_input(left, "left", left_geometry, **opening), open_input(right, "right", right_geometry, **opening)]
    planned = [Planned.of(one, ["*"]) for one in inputs]
    views = [_columns(one) for one in planned]

    def call(first: int, kind: str) -> str:
        names = ("l_rows", "r_rows")
        geometry = f", left_geometry := {text(views[first][1])}, right_geometry := {text(views[1 - first][1])}"
        keep = "" if keep_geom_type else ", keep_geom_type := false"
        return f"vibe_overlay('{names[first]}', '{names[1 - first]}', how := {text(kind)}{geometry}{keep})"

    with schema_connection() as con:
        for name, side, (listed, _) in zip(("l_rows", "r_rows"), planned, views):
            empty_view(con, f"{HIDDEN}whole", side.source)
            con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {listed} FROM {HIDDEN}whole")
        empty = table_of(con, f"FROM {call(0, how)} LIMIT 0")
        columns = [(row[0], row[1]) for row in con.execute(f"DESCRIBE FROM {call(0, how)}").fetchall()]
    middle = len(planned[0].source.names) - (views[0][1] in planned[0].source.names)
    passes = [(f"FROM {call(0, 'identity' if how == 'union' else how)}", False)]
    if how == "symdifference":
        passes = [(_widened(call(0, "difference"), columns, range(middle)), False)]
    if how in ("symdifference", "union"):
        passes.append((_widened(call(1, "difference"), columns, range(middle, len(columns) - 1)), True))
    plan = OverlayPlan(job, settings, planned[0], planned[1], how, (views[0][0], views[1][0]), passes, empty)
    if len(passes) == 1 and choose_broadcast(job, settings, inputs[0], inputs[1], "r"):
        plan.groups = streamed(job, settings, inputs[0])
        return plan
    plan.splits, _ = place(job, settings, planned, partition_count(job, settings, planned), [False, False])
    return plan


def _widened(call: str, columns: Sequence[tuple[str, str]], own: range) -> str:
    """The rows of one side as rows of the result: its columns are at the places `own`, NULL is in those of the other, the geometry is last."""
    names = [columns[at][0] for at in own] + [columns[-1][0]]
    items = [
        quote(name) if at in own or at == len(columns) - 1 else f"NULL::{kind} AS {quote(name)}" for at, (name, kind) in enumerate(columns)
    ]
    return f"SELECT {', '.join(items)} FROM {call} AS o({', '.join(quote(name) for name in names)})"


# ---- sql


@dataclass(repr=False)
class SqlPlan(Plan):
    """How a query will run. Print it, or call `run`."""

    job: Run
    settings: Settings
    query: str
    combine: Optional[str]
    tables: dict[str, Planned]
    order: list[str]
    empty: Any
    splits: Optional[Splits] = None
    groups: list[list[Block]] = field(default_factory=list)

    @property
    def skipped(self) -> list[Any]:
        return [entry for side in self.tables.values() for entry in side.input.skipped]

    def __str__(self) -> str:
        lines = [f"sql: {' '.join(self.query.split())}", *describe_job(self.job, self.settings, list(self.tables.values()))]
        sent = [name for name in self.order[1 if self.splits is None else 2 :]]
        if self.splits is None:
            lines.append(f"  {self.order[0]} is read by {len(self.groups)} task{'s' * (len(self.groups) != 1)}")
        else:
            lines += describe_splits(self.splits)
            lines.append(f"  each row of {self.order[0]} is in one partition, rows of {self.order[1]} wherever they can meet one")
        if sent:
            lines.append(f"  {', '.join(sent)}: read once, to every node")
        if self.combine:
            lines.append(f"  then, here: {' '.join(self.combine.split())}")
        return "\n".join(lines)

    def run(self) -> Result:
        job = self.job
        with sink_of(job, Shape((), tuple(self.empty.schema.names))) as sink:
            result = finish(job, self, sink, self._found(sink), self.empty)
        if self.combine is None:
            return result
        parts = result.to_arrow()
        with schema_connection() as con:
            con.register("parts", parts)
            table = table_of(con, self.combine)
        return Result(table.num_rows, self, job.reports, result.skipped, None, [job.executor.put(table)], job.executor, table)

    def _found(self, sink: Sink) -> list[Any]:
        job = self.job
        views = tuple(
            (name, ", ".join(quote(column) for column in self.tables[name].columns) or f"1 AS {HIDDEN}none") for name in self.order
        )
        spec = Spec(self.query, views, sink)
        sides = [self.tables[name] for name in self.order]
        if self.splits is None:
            return run_blocks(job, self.settings, spec, sides[0], self.groups, sides[1:], "query")
        return run_partitions(job, self.settings, spec, self.splits, sides[0], sides[1], sides[2:], "query")


def _nodes(tree: Any) -> Any:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _reads(tree: Any, name: str, ctes: Mapping[str, list[bool]], kept: bool = True) -> list[bool]:
    """An entry for every time that a query reads a table: whether the rows that it gives are those of all parts of the table together.
    `kept` is whether they are if what is looked at is a table; `ctes` has the entries of the names that WITH has defined."""
    if isinstance(tree, list):
        return [one for value in tree for one in _reads(value, name, ctes, kept)]
    if not isinstance(tree, dict):
        return []
    kind = tree.get("type")
    if kind == "BASE_TABLE":
        table = str(tree.get("table_name")).lower()
        if not tree.get("schema_name") and table in ctes:
            return [kept and one for one in ctes[table]]
        return [kept] if table == name else []
    # Recursion reads its own name
    ctes = {**ctes, str(tree.get("cte_name")).lower(): []} if kind == "RECURSIVE_CTE_NODE" else dict(ctes)
    for entry in (tree.get("cte_map") or {}).get("map", []):
        ctes[entry["key"].lower()] = _reads(entry["value"], name, ctes)
    # What a part of the query must be for its rows to be kept: the FROM clause, a subquery in it, a side of a join
    keeps: tuple[str, ...] = ()
    if kind == "SELECT_NODE":
        keeps = ("from_table",)
    elif kind == "JOIN" and tree.get("ref_type") in ("REGULAR", "NATURAL", "CROSS"):
        keeps = ("left", "right") if tree.get("join_type") == "INNER" else ("left",)
    elif kind == "JOIN" and tree.get("ref_type") == "ASOF":
        keeps = ("left",)
    elif kind == "SET_OPERATION_NODE":
        keeps = ("left",) if tree.get("setop_type") == "EXCEPT" else ("left", "right")
        # DuckDB 2.0 lists the sides
        first, *others = tree.get("children") or [tree["left"], tree["right"]]
        tree = {**tree, "left": first, "right": others, "children": []}
    elif kind == "SUBQUERY" and tree.get("class") is None:
        keeps = ("subquery",)
    elif kind is None:
        keeps = tuple(tree)
    return [one for key, value in tree.items() if key != "cte_map" for one in _reads(value, name, ctes, kept and key in keeps)]


def check_query(con: Any, query: str, once: Sequence[str], combine: Optional[str]) -> None:
    """Refuses a query whose rows, task by task, would not be those of the whole."""
    tree = json.loads(con.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0])
    if tree.get("error"):
        raise ValueError(f"not a single SELECT: {tree.get('error_message', query)}")
    aggregates = {
        row[0] for row in con.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'").fetchall()
    }
    why = None
    for node in _nodes(tree):
        if node.get("join_type") in ("RIGHT", "OUTER"):
            raise ValueError(
                "RIGHT and FULL joins keep rows of a table that several tasks have: write it as a LEFT JOIN from the partitioned table, or use sjoin"
            )
        if node.get("class") == "WINDOW":
            why = "a window function"
        elif node.get("class") == "FUNCTION" and node.get("function_name") in aggregates:
            why = f"the aggregate {node['function_name']}"
        elif node.get("group_expressions") or node.get("group_sets"):
            why = "GROUP BY"
        elif str(node.get("type")) in ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"):
            why = str(node["type"]).split("_")[0]
        elif str(node.get("type")) == "ORDER_MODIFIER" and node.get("orders"):
            why = "ORDER BY"
        elif str(node.get("type")) == "SET_OPERATION_NODE":
            why = "a set operation"
    for name in once:
        reads = _reads(tree["statements"][0]["node"], name.lower(), {})
        if len(reads) != 1:
            raise ValueError(f"{name} is partitioned, so the query must name it exactly once, not {len(reads)} times")
        if name == once[0] and not reads[0]:
            raise ValueError(
                f"every task has a part of {name}, so its rows must come first: {name} has to be in the FROM clause, on the left side of LEFT, SEMI "
                "and ANTI joins, and not in a subquery of an expression"
            )
    if why and combine is None:
        raise ValueError(
            f"the query has {why}, so the rows of the tasks have to be put together: give combine=, a query over the table parts, such as "
            "'SELECT zone, sum(n) AS n FROM parts GROUP BY zone', or 'FROM parts' if they already are the result"
        )


def plan_sql(
    query: str,
    tables: Mapping[str, Any],
    partition_by: Union[str, Mapping[str, str]],
    *,
    distance: float = 0.0,
    combine: Optional[str] = None,
    options: Options,
) -> SqlPlan:
    names = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    if len(names) not in (1, 2):
        raise ValueError("partition_by is one table, or two with their geometries: {'trips': 'geom', 'zones': 'geom'}")
    for name in names:
        if name not in tables:
            raise ValueError(f"partition_by names {name}, which is none of the tables ({', '.join(tables)})")
    if not distance >= 0:
        raise ValueError("distance must not be negative")
    if combine is not None and options.folder is not None:
        raise ValueError("combine= makes the result in this process: write it from there, without output=")
    job = Run("sql", executor_of(options), options)
    settings = settings_of(job)
    opening = opening_of(job, settings)
    planned = {}
    for name, given in tables.items():
        geometry = partition_by.get(name) if isinstance(partition_by, Mapping) else None
        spatial = isinstance(partition_by, Mapping) and name in names and len(names) == 2
        one = open_input(given, name, geometry, spatial=spatial, **opening)
        reach = float(distance) if spatial and name == names[0] else 0.0
        planned[name] = Planned(one, needed_columns(one.source.names, [query, one.source.geometry]), reach)
    order = [*names, *(name for name in tables if name not in names)]
    with schema_connection() as con:
        for name, side in planned.items():
            # With its own columns alone, as the tasks see it
            empty_view(con, quote(name), replace(side.source, geometry=None))
        check_query(con, query, names, combine)
        empty = table_of(con, f"SELECT * FROM ({query}) LIMIT 0")
        if combine is not None:
            con.register("parts", empty)
            con.execute(f"DESCRIBE {combine}")
    plan = SqlPlan(job, settings, query, combine, planned, order, empty)
    if len(names) == 1:
        plan.groups = streamed(job, settings, planned[names[0]].input)
    else:
        both = [planned[name] for name in names]
        plan.splits, _ = place(job, settings, both, partition_count(job, settings, both), [False, False])
    return plan
