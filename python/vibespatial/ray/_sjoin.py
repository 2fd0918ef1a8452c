"""Spatial joins: of blocks with a side that every node has, or of partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

import numpy

from ._engine import Side, engine, guarded, point_in, schema_connection, table_of
from ._exchange import (
    Places,
    Planned,
    describe_job,
    describe_splits,
    extent_of,
    opening_of,
    partition_count,
    place,
    repeated_reads,
    settings_of,
    shuffle,
    streamed,
    tables_of,
)
from ._executor import Call, Run, executor_of
from ._inputs import HIDDEN, Block, Input, number, open_input
from ._options import Options, Settings
from ._output import Result
from ._rows import Plan, Shape, Sink, finish, shape_of, sink_of
from ._splits import Box, Splits

PREDICATES = {
    "intersects": "ST_Intersects",
    "within": "ST_Within",
    "contains": "ST_Contains",
    "covers": "ST_Covers",
    "coveredby": "ST_CoveredBy",
    "containsproperly": "ST_ContainsProperly",
    "withinproperly": "ST_WithinProperly",
    "touches": "ST_Touches",
    "crosses": "ST_Crosses",
    "overlaps": "ST_Overlaps",
    "equals": "ST_Equals",
}
HOW = ("inner", "left", "right", "full", "semi", "anti")
# Which sides' rows must be known to have found no partner anywhere, or one
_KEPT = {"inner": "", "left": "l", "right": "r", "full": "lr", "semi": "l", "anti": "l"}


def word(predicate: str) -> str:
    """A predicate as vibe_sjoin takes it, in any case and with any underscores, or as the function: ST_CoveredBy."""
    return predicate.lower().removeprefix("st_").replace("_", "")


def join_condition(predicate: str, distance: Optional[float], extra: Optional[str]) -> str:
    """The condition of the join over the aliases l and r."""
    name = word(predicate)
    if name == "dwithin":
        if distance is None or not distance >= 0 or distance == float("inf"):
            raise ValueError("predicate='dwithin' needs distance=, a number that is not negative")
        on = f"ST_DWithin(l.{HIDDEN}g, r.{HIDDEN}g, {number(distance)})"
    else:
        if distance is not None:
            raise ValueError("distance= goes with predicate='dwithin'")
        if name not in PREDICATES:
            known = ", ".join([*PREDICATES, "dwithin"])
            raise ValueError(
                f"predicate must be one of {known}, not {predicate!r}; 'disjoint' compares all pairs, which partitions cannot help"
            )
        on = f"{PREDICATES[name]}(l.{HIDDEN}g, r.{HIDDEN}g)"
    return on if extra is None else f"{on} AND ({extra})"


@dataclass(frozen=True)
class Spec:
    """What every task of a join has to know. `splits` is None if a side is broadcast, and `broadcast` is then its alias."""

    on: str
    how: str
    sink: Sink
    splits: Optional[Splits] = None
    broadcast: str = ""


# ---- tasks


def _ids(con: Any, spec: Spec, sql: str) -> dict[int, Any]:
    """Row numbers by the partition that their row's lower left corner is in; all in 0 if there are no partitions."""
    if spec.splits is None:
        return {0: table_of(con, f"SELECT DISTINCT {HIDDEN}id FROM ({sql})")}
    table = table_of(con, f"SELECT DISTINCT {HIDDEN}id, {HIDDEN}x0, {HIDDEN}y0 FROM ({sql})")
    homes = spec.splits.home(table.column(f"{HIDDEN}x0").to_numpy(), table.column(f"{HIDDEN}y0").to_numpy())
    return {int(home): table.select([f"{HIDDEN}id"]).take(numpy.flatnonzero(homes == home)) for home in numpy.unique(homes)}


def join_rows(settings: Settings, spec: Spec, part: int, left: Side, right: Side, *tables: Any) -> tuple[Any, ...]:
    """Joins two sides. Returns the report, the rows, the rows of l and r that wait for other partitions, and the row numbers of l and r
    that found a partner here and are at home elsewhere."""
    label = f"join part {part}"
    with engine(settings, label, written=True) as (con, report):
        rest = iter(tables)
        left.fill(rest)
        right.fill(rest)

        def work() -> tuple[int, Any, Any, Any, Any, Any]:
            left.view(con, "l_rows", settings.gpu)
            right.view(con, "r_rows", settings.gpu)
            return _join(con, spec, part, left, right)

        report.rows, out, *others = guarded(con, settings, report, [left, right], work)
        report.read = sum(block.rows for side in (left, right) for block in side.blocks)
        report.facts["away"] = [sorted(away) for away in others[2:]]
        report.facts["waiting"] = [0 if table is None else table.num_rows for table in others[:2]]
    return (report, out, *others)


def _rule(spec: Spec, part: int, left: Side, right: Side) -> str:
    """The condition that counts a pair once: here, if the lower left corner of the shared box is here."""
    if spec.splits is None or left.once or right.once:
        return "true"
    corner = point_in(f"greatest(l.{HIDDEN}x0, r.{HIDDEN}x0)", f"greatest(l.{HIDDEN}y0, r.{HIDDEN}y0)", spec.splits.leaves[part].region)
    # A row that is in no other partition has all its pairs here
    return f"(l.{HIDDEN}one OR r.{HIDDEN}one OR ({corner}))"


def _from(kept: str, on: str, left: Side, right: Side) -> str:
    """The join that keeps the rows of these sides without a partner. The side of fewer rows comes last: it gets the index."""
    sides = ("r", "l") if left.count < right.count else ("l", "r")
    kind = {"": "JOIN", sides[0]: "LEFT JOIN", sides[1]: "RIGHT JOIN", "lr": "FULL JOIN"}[kept]
    return f"{sides[0]}_rows {sides[0]} {kind} {sides[1]}_rows {sides[1]} ON {on}"


def _join(con: Any, spec: Spec, part: int, left: Side, right: Side) -> tuple[int, Any, Any, Any, Any, Any]:
    sink, name = spec.sink, f"{part:05d}"
    rule = _rule(spec, part, left, right)
    on = spec.on if rule == "true" else f"{spec.on} AND {rule}"
    if spec.how in ("semi", "anti"):
        if spec.broadcast == "l":
            matched = f"SELECT DISTINCT l.{HIDDEN}id FROM {_from('', spec.on, left, right)}"
            return 0, None, None, None, _ids(con, spec, matched), {}
        return _semi(con, spec, name, left, right)
    kept = _KEPT[spec.how]
    # A side that is broadcast is looked at by all tasks; only their union knows which of its rows have found nobody
    here = kept.replace(spec.broadcast, "") if spec.broadcast else kept
    # The sides with rows whose partner may be in another task
    elsewhere = {"l": spec.splits and not left.once, "r": spec.splits and not right.once, spec.broadcast: True}
    open_sides = [side for side in kept if elsewhere[side]]
    joined = _from(here, on, left, right)
    if not open_sides:
        rows, out = sink.emit(con, f"SELECT {sink.shape.select} FROM {joined}", name)
        return rows, out, None, None, {}, {}
    if spec.splits is None and sink.shape.summed:
        # By row of the side that is broadcast as well: then the groups say which of its rows have a partner
        mine = f"{spec.broadcast}.{HIDDEN}id"
        rows, (table,) = sink.emit(con, f"SELECT {sink.shape.select}, {mine} FROM {joined}", name, [f"{HIDDEN}id"])
        con.register(f"{HIDDEN}groups", table)
        found = _ids(con, spec, f"SELECT {HIDDEN}id FROM {HIDDEN}groups WHERE {HIDDEN}id IS NOT NULL")
        table = table.drop_columns([f"{HIDDEN}id"])
        return rows, [table], None, None, *((found, {}) if spec.broadcast == "l" else ({}, found))
    facts = ", ".join(
        f"{side}.{HIDDEN}{fact} AS {HIDDEN}{side}_{fact}"
        for side in "lr"
        for fact in (("id", "one", "home", "x0", "y0") if spec.splits and side in open_sides else ("id",))
    )
    con.execute(f"CREATE OR REPLACE TEMP TABLE {HIDDEN}joined AS SELECT {sink.shape.select}, {facts} FROM {joined}")
    pair = f"({HIDDEN}l_id IS NOT NULL AND {HIDDEN}r_id IS NOT NULL)"
    emitted, waiting, away = [pair], {}, {}
    for side, other in (("l", "r"), ("r", "l")):
        if side not in kept:
            continue
        alone = f"{HIDDEN}{other}_id IS NULL"
        if side not in open_sides:
            emitted.append(f"({alone})")
        elif spec.splits is None:
            away[side] = _ids(con, spec, f"SELECT {HIDDEN}{side}_id AS {HIDDEN}id FROM {HIDDEN}joined WHERE {pair}")
        else:
            one, home = f"{HIDDEN}{side}_one", f"{HIDDEN}{side}_home"
            emitted.append(f"({alone} AND {one})")
            waiting[side] = table_of(
                con,
                f"SELECT {sink.shape.columns}, {HIDDEN}{side}_id AS {HIDDEN}id FROM {HIDDEN}joined WHERE {alone} AND NOT {one} AND {home}",
            )
            edges = f"{HIDDEN}{side}_id AS {HIDDEN}id, {HIDDEN}{side}_x0 AS {HIDDEN}x0, {HIDDEN}{side}_y0 AS {HIDDEN}y0"
            away[side] = _ids(con, spec, f"SELECT {edges} FROM {HIDDEN}joined WHERE {pair} AND NOT {one} AND NOT {home}")
    rows, out = sink.emit(con, f"SELECT {sink.shape.columns} FROM {HIDDEN}joined WHERE {' OR '.join(emitted)}", name)
    return rows, out, waiting.get("l"), waiting.get("r"), away.get("l", {}), away.get("r", {})


def _semi(con: Any, spec: Spec, name: str, left: Side, right: Side) -> tuple[int, Any, Any, Any, Any, Any]:
    """Rows of l that have a partner, or none. Those on a border wait at home for what other partitions have found."""
    sink, semi = spec.sink, spec.how == "semi"
    kind = "SEMI" if semi else "ANTI"
    joined = f"l_rows l {kind} JOIN r_rows r ON {spec.on}"
    if left.count < right.count:
        # The index is on the side of fewer rows
        joined = f"l_rows l {kind} JOIN (SELECT l.{HIDDEN}id FROM {_from('', spec.on, left, right)}) r ON l.{HIDDEN}id = r.{HIDDEN}id"
    if spec.splits is None or left.once:
        rows, out = sink.emit(con, f"SELECT {sink.shape.select} FROM {joined}", name)
        return rows, out, None, None, {}, {}
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {HIDDEN}joined AS SELECT {sink.shape.select}, l.{HIDDEN}id, l.{HIDDEN}one, l.{HIDDEN}home, l.{HIDDEN}x0, l.{HIDDEN}y0 "
        f"FROM {joined}"
    )
    # Rows on a border that the join has not returned
    border = f"l_rows l WHERE NOT l.{HIDDEN}one AND l.{HIDDEN}id NOT IN (SELECT {HIDDEN}id FROM {HIDDEN}joined)"
    if semi:
        waiting = table_of(con, f"SELECT {sink.shape.select}, l.{HIDDEN}id FROM {border} AND l.{HIDDEN}home")
        away = _ids(con, spec, f"SELECT {HIDDEN}id, {HIDDEN}x0, {HIDDEN}y0 FROM {HIDDEN}joined WHERE NOT {HIDDEN}home")
        emitted = f"{HIDDEN}home"
    else:
        waiting = table_of(con, f"SELECT {sink.shape.columns}, {HIDDEN}id FROM {HIDDEN}joined WHERE {HIDDEN}home AND NOT {HIDDEN}one")
        away = _ids(con, spec, f"SELECT l.{HIDDEN}id, l.{HIDDEN}x0, l.{HIDDEN}y0 FROM {border} AND NOT l.{HIDDEN}home")
        emitted = f"{HIDDEN}one"
    rows, out = sink.emit(con, f"SELECT {sink.shape.columns} FROM {HIDDEN}joined WHERE {emitted}", name)
    return rows, out, waiting, None, away, {}


def settle_rows(settings: Settings, spec: Spec, part: int, side: str, waiting: Any, *away: Any) -> tuple[Any, ...]:
    """The second round of a partition: rows that waited are returned if the other partitions have found a partner (semi), or none."""
    with engine(settings, f"settle part {part} of {side}") as (con, report):
        import pyarrow  # type: ignore[import-untyped]

        found = [ids[part] for ids in away if part in ids]
        con.register("waiting", waiting)
        con.register("found", pyarrow.concat_tables(found) if found else pyarrow.table({f"{HIDDEN}id": pyarrow.array([], pyarrow.int64())}))
        kind = "SEMI" if spec.how == "semi" else "ANTI"
        sql = f"SELECT {spec.sink.shape.columns} FROM waiting {kind} JOIN found USING ({HIDDEN}id)"
        report.rows, out = spec.sink.emit(con, sql, f"{part:05d}-{side}")
    return report, out


def settle_broadcast(settings: Settings, spec: Spec, given: Side, empty: Side, count: int, *arguments: Any) -> tuple[Any, ...]:
    """The second round of a side that was broadcast: its rows that have found a partner in some task (semi), or none."""
    with engine(settings, "settle the broadcast side") as (con, report):
        import pyarrow  # type: ignore[import-untyped]

        away, rest = arguments[:count], iter(arguments[count:])
        given.fill(rest)
        mine, other = spec.broadcast, "r" if spec.broadcast == "l" else "l"

        def work() -> tuple[int, Any]:
            given.view(con, f"{mine}_rows")
            empty.fill(iter(())).view(con, f"{other}_rows")
            found = [ids[0] for ids in away if 0 in ids]
            con.register(
                "found", pyarrow.concat_tables(found) if found else pyarrow.table({f"{HIDDEN}id": pyarrow.array([], pyarrow.int64())})
            )
            kind = "" if spec.how == "semi" else "NOT "
            join = "" if spec.how in ("semi", "anti") else f" LEFT JOIN {other}_rows {other} ON false"
            sql = f"SELECT {spec.sink.shape.select} FROM {mine}_rows {mine}{join} WHERE {mine}.{HIDDEN}id {kind}IN (SELECT {HIDDEN}id FROM found)"
            return spec.sink.emit(con, sql, "broadcast")

        report.rows, out = guarded(con, settings, report, [given], work)
    return report, out


# ---- the plan


def choose_broadcast(run: Run, settings: Settings, left: Input, right: Input, allowed: str = "lr") -> str:
    """The alias of the side that is sent to every node: the smaller one that fits; empty if there is none."""
    wanted = {"left": "l", "right": "r", "never": "", "auto": "auto"}[run.options.broadcast]
    if wanted != "auto":
        if wanted and wanted not in allowed:
            raise ValueError(f"this operation cannot broadcast its {run.options.broadcast} side")
        return wanted
    limit = run.options.broadcast_limit if isinstance(run.options.broadcast_limit, int) else settings.memory // 4
    fitting = [(side.bytes, alias) for alias, side in (("r", right), ("l", left)) if alias in allowed and side.bytes <= limit]
    return min(fitting)[1] if fitting else ""


@dataclass(repr=False)
class SJoinPlan(Plan):
    """How a join will run. Print it, or call `run`."""

    job: Run
    settings: Settings
    left: Planned
    right: Planned
    on: str
    how: str
    shape: Shape
    broadcast: str = ""
    splits: Optional[Splits] = None
    groups: list[list[Block]] = field(default_factory=list)
    extent: Optional[Box] = None

    @property
    def skipped(self) -> list[Any]:
        return [*self.left.input.skipped, *self.right.input.skipped]

    def __str__(self) -> str:
        return describe(self)

    def run(self) -> Result:
        with sink_of(self.job, self.shape, self.extent) as sink:
            spec = Spec(self.on, self.how, sink, self.splits, self.broadcast)
            found = self._broadcast(spec) if self.splits is None else self._partitions(spec)
            return finish(self.job, self, sink, found, self._empty(sink))

    def _empty(self, sink: Sink) -> Any:
        """The result of no rows."""
        with schema_connection() as con:
            for planned, name in ((self.left, "l_rows"), (self.right, "r_rows")):
                planned.side([]).view(con, name)
            right = "" if self.how in ("semi", "anti") else " LEFT JOIN r_rows r ON false"
            return Sink(sink.shape).emit(con, f"SELECT {sink.shape.select} FROM l_rows l{right}", "0")[1]

    def _broadcast(self, spec: Spec) -> list[Any]:
        sent, read = (self.left, self.right) if spec.broadcast == "l" else (self.right, self.left)
        whole, whole_tables = sent.whole(self.job, self.settings)
        calls = []
        for part, group in enumerate(self.groups):
            stream, stream_tables = read.side(group), tables_of(group)
            sides, tables = ([whole, stream], [*whole_tables, *stream_tables])
            if spec.broadcast == "r":
                sides, tables = [stream, whole], [*stream_tables, *whole_tables]
            calls.append(Call(f"join part {part}", join_rows, [self.settings, spec, part, *sides, *tables], 6))
        references = self.job.stage("join", calls, counts=True)
        found = [reference[1] for reference in references]
        if spec.how in ("semi", "anti") and spec.broadcast == "l":
            found = []
        if spec.broadcast in _KEPT[self.how]:
            away = [reference[4 if spec.broadcast == "l" else 5] for reference in references]
            call = Call("settle", settle_broadcast, [self.settings.on_cpu, spec, whole, read.side([]), len(away), *away, *whole_tables], 2)
            found.append(self.job.stage("settle", [call], counts=True)[0][1])
        return found

    def _partitions(self, spec: Spec) -> list[Any]:
        splits = self.splits
        assert splits is not None
        for side, name in ((self.left, "left"), (self.right, "right")):
            if not side.direct:
                shuffle(self.job, self.settings, side, Places(splits), name)
        # Boxes say which pairs count here, and whose rows may have partners elsewhere
        both = not self.left.once and not self.right.once
        calls = []
        for part in range(len(splits)):
            left, left_tables = self.left.leaf(splits, part, both or ("l" in _KEPT[self.how] and not self.left.once))
            right, right_tables = self.right.leaf(splits, part, both or ("r" in _KEPT[self.how] and not self.right.once))
            calls.append(
                Call(
                    f"join part {part}",
                    join_rows,
                    [self.settings, spec, part, left, right, *left_tables, *right_tables],
                    6,
                    splits.leaves[part].work,
                )
            )
        references = self.job.stage("join", calls, counts=True)
        found = [reference[1] for reference in references]
        settle = []
        reports = [self.job.executor.get(reference[0]) for reference in references]
        for at, alias in enumerate("lr"):
            if alias not in _KEPT[self.how]:
                continue
            for part, reference in enumerate(references):
                if reports[part].facts["waiting"][at]:
                    away = [other[4 + at] for other, report in zip(references, reports) if part in report.facts["away"][at]]
                    settle.append(
                        Call(f"settle part {part} of {alias}", settle_rows, [self.settings.on_cpu, spec, part, alias, reference[2 + at], *away], 2)
                    )
        if settle:
            found += [reference[1] for reference in self.job.stage("settle", settle, counts=True)]
        return found


def describe(plan: SJoinPlan) -> str:
    lines = [f"{plan.job.operation}, {plan.how}: {plan.on.replace(HIDDEN + 'g', 'geometry')}"]
    lines += describe_job(plan.job, plan.settings, [plan.left, plan.right])
    if plan.splits is None:
        name, sent = ("left", plan.left) if plan.broadcast == "l" else ("right", plan.right)
        more = ", and one more settles its rows without a partner" if plan.broadcast in _KEPT[plan.how] else ""
        lines.append(
            f"  the {name} side ({sent.input.bytes / 1e6:,.1f} MB) is read once and goes to every node; the other side is read by {len(plan.groups)} task{'s' * (len(plan.groups) != 1)}{more}"
        )
        return "\n".join(lines)
    lines += describe_splits(plan.splits)
    for name, side, at in (("left", plan.left, 0), ("right", plan.right, 1)):
        rows = sum(leaf.rows[at] for leaf in plan.splits.leaves)
        copies = rows / side.input.rows if side.input.rows else 1.0
        how = f"read directly, each byte by {repeated_reads(plan.splits, side):.2f} tasks" if side.direct else "shuffled"
        lines.append(f"  {name:<8} {how}; a row is in {max(copies, 1.0):.3f} partitions")
    if _KEPT[plan.how]:
        lines.append("  a second round settles rows on borders that have found no partner")
    return "\n".join(lines)


def plan_sjoin(
    left: Any,
    right: Any,
    predicate: str = "intersects",
    how: str = "inner",
    select: Optional[Sequence[str]] = None,
    aggregate: Optional[Mapping[str, str]] = None,
    *,
    distance: Optional[float] = None,
    condition: Optional[str] = None,
    left_geometry: Optional[str] = None,
    right_geometry: Optional[str] = None,
    options: Options,
) -> SJoinPlan:
    if how not in HOW:
        raise ValueError(f"how must be one of {', '.join(HOW)}, not {how!r}")
    if aggregate is not None and options.folder is not None:
        raise ValueError("aggregate= makes the result in this process: write it from there, without output=")
    on = join_condition(predicate, distance, condition)
    job = Run("sjoin", executor_of(options), options)
    settings = settings_of(job)
    opening = opening_of(job, settings)
    left_input = open_input(left, "left", left_geometry, **opening)
    right_input = open_input(right, "right", right_geometry, **opening)
    shape = shape_of(left_input.source, None if how in ("semi", "anti") else right_input.source, select, aggregate)
    # Binds the condition as well
    shape_of(left_input.source, right_input.source, ["1"], None, on)
    texts = [*shape.items, *(one.argument for one in shape.aggregates or ()), condition]
    planned = [Planned.of(left_input, texts, distance or 0.0), Planned.of(right_input, texts)]
    plan = SJoinPlan(job, settings, planned[0], planned[1], on, how, shape)
    plan.broadcast = choose_broadcast(job, settings, left_input, right_input)
    if plan.broadcast:
        plan.groups = streamed(job, settings, right_input if plan.broadcast == "l" else left_input)
        return plan
    # Empty geometries may equal each other, so all of them must be in one partition
    direct = word(predicate) != "equals"
    plan.splits, samples = place(job, settings, planned, partition_count(job, settings, planned), [direct, direct])
    plan.extent = extent_of(samples)
    return plan
