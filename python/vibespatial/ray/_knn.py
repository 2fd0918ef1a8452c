"""Nearest neighbours: each left row looks in its own partition first, and then as far as the distance found into others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

import numpy

from ._engine import Side, empty_view, engine, guarded, packed, schema_connection, table_of
from ._exchange import (
    Places,
    Planned,
    describe_job,
    describe_splits,
    extent_of,
    opening_of,
    partition_count,
    place,
    settings_of,
    shuffle,
    streamed,
    tables_of,
)
from ._executor import Call, Run, executor_of
from ._inputs import HIDDEN, Block, number, open_input, quote
from ._options import Options, Settings
from ._output import Result
from ._rows import Plan, Shape, Sink, finish, shape_of, sink_of
from ._sjoin import choose_broadcast
from ._splits import Splits

_PAIR = f"{HIDDEN}lid, {HIDDEN}rid, distance"


@dataclass(frozen=True)
class Spec:
    """What every task has to know."""

    k: int
    max_distance: Optional[float]
    sink: Sink
    splits: Optional[Splits] = None

    @property
    def limit(self) -> str:
        return "" if self.max_distance is None else f", max_distance := {number(self.max_distance)}"


# ---- tasks


def _search(con: Any, spec: Spec) -> None:
    """The neighbours among the rows of this task, with what is selected of both rows: the table _vibe_pairs."""
    # Of rows that are equally far, the first counts: the one with the smallest number
    left, right = (
        f"SELECT {HIDDEN}id AS {HIDDEN}lid, {HIDDEN}g FROM l_rows",
        f"SELECT {HIDDEN}id AS {HIDDEN}rid, {HIDDEN}g FROM r_rows ORDER BY {HIDDEN}rid",
    )
    call = f"vibe_knn('{left}', '{right}', {spec.k}, left_columns := ['{HIDDEN}lid'], right_columns := ['{HIDDEN}rid']{spec.limit})"
    con.execute(f"CREATE OR REPLACE TEMP TABLE {HIDDEN}found AS SELECT {_PAIR} FROM {call}")
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {HIDDEN}pairs AS SELECT {spec.sink.shape.select}, {', '.join(f'f.{one}' for one in _PAIR.split(', '))} "
        f"FROM {HIDDEN}found f JOIN l_rows l ON l.{HIDDEN}id = f.{HIDDEN}lid JOIN r_rows r ON r.{HIDDEN}id = f.{HIDDEN}rid"
    )


def _nearest(spec: Spec, source: str) -> str:
    """The k nearest of each left row, with their rank."""
    once = f"SELECT DISTINCT ON ({HIDDEN}lid, {HIDDEN}rid) * FROM ({source})"
    rank = f"row_number() OVER (PARTITION BY {HIDDEN}lid ORDER BY distance, {HIDDEN}rid)"
    return f"SELECT {spec.sink.shape.columns}, distance, {rank} AS rank FROM ({once}) QUALIFY rank <= {spec.k}"


def find_neighbours(settings: Settings, spec: Spec, part: int, left: Side, right: Side, *tables: Any) -> tuple[Any, ...]:
    """The first round. Returns the report, the rows that are final, the pairs of rows that have to ask elsewhere, and those rows by
    the partitions that they have to ask."""
    with engine(settings, f"neighbours in part {part}", ordered=True) as (con, report):
        rest = iter(tables)
        left.fill(rest)
        right.fill(rest)

        def work() -> tuple[int, Any, Any, dict[int, Any]]:
            left.view(con, "l_rows", settings.gpu)
            right.view(con, "r_rows", settings.gpu)
            _search(con, spec)
            if spec.splits is None:
                rows, out = spec.sink.emit(con, _nearest(spec, f"FROM {HIDDEN}pairs"), f"{part:05d}")
                return rows, out, None, {}
            return _first_round(con, spec, part, left)

        report.rows, out, waiting, asked = guarded(con, settings, report, [left, right], work)
        report.facts["asks"] = sorted(asked)
    return report, out, waiting, asked


def _first_round(con: Any, spec: Spec, part: int, left: Side) -> tuple[int, Any, Any, dict[int, Any]]:
    splits = spec.splits
    assert splits is not None
    far = "CAST('inf' AS DOUBLE)" if spec.max_distance is None else number(spec.max_distance)
    bounds = f"SELECT {HIDDEN}lid, count(*) AS n, max(distance) AS d FROM {HIDDEN}found GROUP BY ALL"
    # As far as another neighbour could be: as the k-th that was found, or as far as is asked for at all
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {HIDDEN}reach AS SELECT l.*, CASE WHEN b.n >= {spec.k} THEN b.d ELSE {far} END AS {HIDDEN}d "
        f"FROM l_rows l LEFT JOIN ({bounds}) b ON b.{HIDDEN}lid = l.{HIDDEN}id WHERE l.{HIDDEN}x0 IS NOT NULL"
    )
    edges = table_of(con, f"SELECT {HIDDEN}id, {HIDDEN}x0, {HIDDEN}y0, {HIDDEN}x1, {HIDDEN}y1, {HIDDEN}d FROM {HIDDEN}reach")
    ids, *box, distance = (numpy.asarray(edges.column(at).to_numpy()) for at in range(6))
    # Outward by more than the distance can have been rounded
    slack = distance * (1 + 1e-12)
    grown = numpy.column_stack(
        [edge + (slack if at > 1 else -slack) + (1 if at > 1 else -1) * numpy.abs(edge) * 1e-12 for at, edge in enumerate(box)]
    )
    cuts = splits.cut(grown)
    others = {leaf: ids[rows] for leaf, rows in enumerate(cuts) if leaf != part and len(rows)}
    asking = numpy.unique(numpy.concatenate(list(others.values()))) if others else numpy.empty(0, dtype=numpy.int64)
    import pyarrow  # type: ignore[import-untyped]

    con.register(f"{HIDDEN}asking", pyarrow.table({f"{HIDDEN}id": pyarrow.array(asking, pyarrow.int64())}))
    chosen = f"{HIDDEN}lid IN (SELECT {HIDDEN}id FROM {HIDDEN}asking)"
    waiting = table_of(con, f"FROM {HIDDEN}pairs WHERE {chosen}")
    names = ", ".join([*(quote(name) for name in left.columns), f"{HIDDEN}id", f"{HIDDEN}d"])
    asked = {}
    for leaf, rows in others.items():
        con.register(f"{HIDDEN}to", pyarrow.table({f"{HIDDEN}id": pyarrow.array(rows, pyarrow.int64())}))
        chosen_rows = f"SELECT {names} FROM {HIDDEN}reach SEMI JOIN {HIDDEN}to USING ({HIDDEN}id)"
        asked[leaf] = table_of(con, packed(left.source, left.columns, chosen_rows))
    rows_, out = spec.sink.emit(con, _nearest(spec, f"FROM {HIDDEN}pairs WHERE NOT {chosen}"), f"{part:05d}")
    return rows_, out, waiting, asked


def answer_neighbours(
    settings: Settings, spec: Spec, part: int, homes: Sequence[int], left: Side, right: Side, *tables: Any
) -> tuple[Any, ...]:
    """The second round of a partition: neighbours for rows of others, as far as each has found its own. Returns them by home."""
    with engine(settings, f"neighbours from part {part}", ordered=True) as (con, report):
        asking = [asked[part] for asked in tables[: len(homes)]]
        right.fill(iter(tables[len(homes) :]))
        left.pieces = asking

        def work() -> dict[int, Any]:
            left.view(con, "l_rows", settings.gpu)
            right.view(con, "r_rows", settings.gpu)
            _search(con, spec)
            found = {}
            for home, rows in zip(homes, asking):
                con.register(f"{HIDDEN}of", rows.select([f"{HIDDEN}id", f"{HIDDEN}d"]))
                pairs = f"SELECT p.* FROM {HIDDEN}pairs p JOIN {HIDDEN}of o ON o.{HIDDEN}id = p.{HIDDEN}lid WHERE p.distance <= o.{HIDDEN}d"
                table = table_of(con, pairs)
                if table.num_rows:
                    found[home] = table
            return found

        found = guarded(con, settings, report, [right], work)
        report.facts["answers"] = sorted(found)
        report.facts["asked"] = sum(table.num_rows for table in asking)
        report.read = sum(table.num_rows for table in asking)
    return report, found


def settle_neighbours(settings: Settings, spec: Spec, part: int, waiting: Any, *answers: Any) -> tuple[Any, ...]:
    """The k nearest of the rows that have asked: of what they had found, and of what others have answered."""
    import pyarrow  # type: ignore[import-untyped]

    with engine(settings, f"settle neighbours of part {part}") as (con, report):
        con.register("found", pyarrow.concat_tables([waiting, *(answer[part] for answer in answers)]))
        report.rows, out = spec.sink.emit(con, _nearest(spec, "FROM found"), f"{part:05d}-asked")
    return report, out


# ---- the plan


@dataclass(repr=False)
class KnnPlan(Plan):
    """How a search for neighbours will run. Print it, or call `run`."""

    job: Run
    settings: Settings
    left: Planned
    right: Planned
    k: int
    max_distance: Optional[float]
    shape: Shape
    splits: Optional[Splits] = None
    groups: list[list[Block]] = field(default_factory=list)
    extent: Any = None

    @property
    def skipped(self) -> list[Any]:
        return [*self.left.input.skipped, *self.right.input.skipped]

    def __str__(self) -> str:
        lines = [f"knn: {self.k} nearest" + ("" if self.max_distance is None else f" within {self.max_distance:g}")]
        lines += describe_job(self.job, self.settings, [self.left, self.right])
        if self.splits is None:
            lines.append(
                f"  the right side ({self.right.input.bytes / 1e6:,.1f} MB) is read once and goes to every node; the left side is read by {len(self.groups)} task{'s' * (len(self.groups) != 1)}"
            )
        else:
            lines += describe_splits(self.splits)
            lines.append("  left     shuffled, each row to one partition")
            lines.append(f"  right    {'read directly' if self.right.direct else 'shuffled'}")
            lines.append(
                "  rows whose neighbours may be across a border ask there in a second round, and a third puts the answers together"
            )
        return "\n".join(lines)

    def run(self) -> Result:
        with sink_of(self.job, self.shape, self.extent) as sink:
            spec = Spec(self.k, self.max_distance, sink, self.splits)
            found = self._broadcast(spec) if self.splits is None else self._partitions(spec)
            return finish(self.job, self, sink, found, self._empty(sink))

    def _empty(self, sink: Sink) -> Any:
        with schema_connection() as con:
            empty_view(con, "l_rows", self.left.source)
            empty_view(con, "r_rows", self.right.source)
            return table_of(
                con, f"SELECT {sink.shape.select}, NULL::DOUBLE AS distance, NULL::BIGINT AS rank FROM l_rows l, r_rows r LIMIT 0"
            )

    def _broadcast(self, spec: Spec) -> list[Any]:
        whole, whole_tables = self.right.whole(self.job, self.settings)
        calls = [
            Call(
                f"neighbours in part {part}",
                find_neighbours,
                [self.settings, spec, part, self.left.side(group), whole, *tables_of(group), *whole_tables],
                4,
            )
            for part, group in enumerate(self.groups)
        ]
        return [reference[1] for reference in self.job.stage("neighbours", calls, counts=True)]

    def _partitions(self, spec: Spec) -> list[Any]:
        splits, get = self.splits, self.job.executor.get
        assert splits is not None
        shuffle(self.job, self.settings, self.left, Places(splits, "home"), "left")
        if not self.right.direct:
            shuffle(self.job, self.settings, self.right, Places(splits), "right")
        calls = []
        for part in range(len(splits)):
            left, left_tables = self.left.leaf(splits, part, boxes=True)
            right, right_tables = self.right.leaf(splits, part, boxes=False)
            calls.append(
                Call(
                    f"neighbours in part {part}",
                    find_neighbours,
                    [self.settings, spec, part, left, right, *left_tables, *right_tables],
                    4,
                    splits.leaves[part].work,
                )
            )
        first = self.job.stage("neighbours", calls, counts=True)
        asks = [get(reference[0]).facts["asks"] for reference in first]
        calls = []
        for part in range(len(splits)):
            homes = [home for home, leaves in enumerate(asks) if part in leaves]
            if homes:
                right, right_tables = self.right.leaf(splits, part, boxes=False)
                left = self.left.side([])
                calls.append(
                    Call(
                        f"neighbours from part {part}",
                        answer_neighbours,
                        [self.settings, spec, part, homes, left, right, *(first[home][3] for home in homes), *right_tables],
                        2,
                    )
                )
        second = self.job.stage("across borders", calls)
        answers = [get(reference[0]).facts["answers"] for reference in second]
        calls = [
            Call(
                f"settle neighbours of part {home}",
                settle_neighbours,
                [self.settings.on_cpu, spec, home, first[home][2], *(reference[1] for reference, homes in zip(second, answers) if home in homes)],
                2,
            )
            for home, leaves in enumerate(asks)
            if leaves
        ]
        third = self.job.stage("settle", calls, counts=True)
        return [reference[1] for reference in [*first, *third]]


def plan_knn(
    left: Any,
    right: Any,
    k: int = 1,
    select: Optional[Sequence[str]] = None,
    *,
    max_distance: Optional[float] = None,
    left_geometry: Optional[str] = None,
    right_geometry: Optional[str] = None,
    options: Options,
) -> KnnPlan:
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"k must be a whole number above 0, not {k!r}")
    if max_distance is not None and not max_distance >= 0:
        raise ValueError("max_distance must not be negative")
    job = Run("knn", executor_of(options), options)
    settings = settings_of(job)
    opening = opening_of(job, settings)
    left_input = open_input(left, "left", left_geometry, **opening)
    right_input = open_input(right, "right", right_geometry, **opening)
    shape = shape_of(left_input.source, right_input.source, select, None)
    reserved = [name for name in shape.names if name.lower() in ("distance", "rank")]
    if reserved:
        raise ValueError(f"knn adds the columns distance and rank: give {', '.join(reserved)} another name with AS in select")
    planned = [Planned.of(left_input, shape.items), Planned.of(right_input, shape.items)]
    plan = KnnPlan(job, settings, planned[0], planned[1], k, max_distance, shape)
    if choose_broadcast(job, settings, left_input, right_input, "r"):
        plan.groups = streamed(job, settings, left_input)
        return plan
    plan.splits, samples = place(job, settings, planned, partition_count(job, settings, planned), [False, True])
    plan.extent = extent_of(samples)
    return plan
