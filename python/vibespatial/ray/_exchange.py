"""Partitions: where the splits are placed, and how rows get to their partition.

A side is read directly if its row groups, by their boxes, lie in few partitions: then each task reads the row groups that it needs from the
files. Otherwise it is shuffled: a task for each block cuts its rows and leaves a table for every partition that it touches.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Optional, Sequence

import numpy

from ._engine import BOX, Side, engine, guarded, packed, reader_of, table_of
from ._executor import Call, Run
from ._inputs import HIDDEN, Block, Input, Source, merged, needed_columns
from ._options import Report, Settings
from ._splits import Box, Sample, Splits, split

# More partitions need a larger sample, so that chance does not decide their sizes
_SAMPLED_GROUPS = (24, 256)
_SAMPLED_ROWS = 64
# Of a row group, so many rows in its middle are looked at
_SAMPLED_RANGE = 8192
# Pieces of fewer rows are put together
_CHUNK_ROWS = 8192
# A row group may be read by so many tasks, on average, before moving its rows is cheaper
_DIRECT = 1.5


def bare(block: Block) -> Block:
    """A block as it travels to a task; its table is an argument of its own."""
    return replace(block, table=None)


def boxes_of(batch: Any) -> Any:
    """The boxes of rows as an array of four columns, each of them in one piece; NaN where there is none."""
    return numpy.stack([numpy.asarray(batch.column(name), dtype=float) for name in BOX]).T


# ---- tasks


def read_blocks(settings: Settings, side: Side) -> tuple[Any, ...]:
    """The rows of blocks of files as one table, for all tasks that need them. Boxes are only computed: that finds geometries that cannot be read."""
    with engine(settings, f"read {side.source.name}", ordered=True) as (con, report):
        side.fill(iter(()))

        def work() -> Any:
            table = table_of(con, packed(side.source, side.columns, side.rows(con, "b")))
            return table.drop_columns(list(BOX)) if side.boxes else table

        table = guarded(con, settings, report, [side], work)
        report.read = side.count
        report.facts["bytes"] = table.nbytes
    return report, table


def sample_block(settings: Settings, side: Side, step: int, *tables: Any) -> tuple[Any, ...]:
    """Boxes and vertex counts of every step-th row."""
    with engine(settings, f"sample {side.source.name}") as (con, report):
        side.fill(iter(tables))

        def work() -> Any:
            rows = f"SELECT *, ST_NPoints({side.source.geometry}) AS {HIDDEN}n FROM ({side.rows(con, 's')}) WHERE {HIDDEN}id % {step} = 0"
            return table_of(con, f"SELECT {', '.join(BOX)}, {HIDDEN}n FROM ({rows})")

        table = guarded(con, settings, report, [side], work)
        report.read = side.count
        boxes = boxes_of(table)
        vertices = numpy.asarray(table.column(f"{HIDDEN}n").to_numpy(), dtype=float)
        # Not by SQL: DuckDB would compute the boxes of whole row groups in the scan
        known = ~numpy.isnan(boxes[:, 0])
    return report, (boxes[known], vertices[known])


@dataclass(frozen=True)
class Places:
    """Where the rows of a block go: to every leaf they touch, to the leaf of their lower left corner, or to every leaf whose reach they meet."""

    splits: Splits
    rule: str = "touch"
    reaches: tuple[Optional[Box], ...] = ()

    def of(self, boxes: Any) -> list[Any]:
        if self.rule == "touch":
            return self.splits.cut(boxes)
        if self.rule == "home":
            homes = self.splits.home(boxes[:, 0], boxes[:, 1])
            return [numpy.flatnonzero(homes == leaf) for leaf in range(len(self.splits))]
        found = []
        for reach in self.reaches:
            if reach is None:
                found.append(numpy.empty(0, dtype=numpy.int64))
                continue
            meets = (boxes[:, 0] <= reach[2]) & (boxes[:, 2] >= reach[0]) & (boxes[:, 1] <= reach[3]) & (boxes[:, 3] >= reach[1])
            found.append(numpy.flatnonzero(meets))
        return found


def cut_block(settings: Settings, side: Side, places: Places, leaves: Sequence[int], *tables: Any) -> tuple[Any, ...]:
    """A table for each of the leaves. The report has the rows of each, whether no row is in two (`once`), and, for rows that go home,
    the box of those of each leaf (`reach`)."""
    import pyarrow  # type: ignore[import-untyped]

    with engine(settings, f"cut {side.blocks[0].label}") as (con, report):
        side.fill(iter(tables))

        def work() -> tuple[Any, list[list[Any]], dict[int, Any], int]:
            parts: list[list[Any]] = [[] for _ in leaves]
            reach: dict[int, Any] = {}
            reader = reader_of(con, packed(side.source, side.columns, side.rows(con, "c")))
            moved = [name for name in reader.schema.names if name not in BOX]
            read = 0
            for batch in reader:
                boxes = boxes_of(batch)
                read += batch.num_rows
                found = places.of(boxes)
                rows = batch.select(moved)
                for number, leaf in enumerate(leaves):
                    if not len(found[leaf]):
                        continue
                    parts[number].append(rows.take(pyarrow.array(found[leaf])))
                    if places.rule == "home" and not numpy.isnan(inner := boxes[found[leaf]]).all():
                        box = (*numpy.nanmin(inner[:, :2], axis=0).tolist(), *numpy.nanmax(inner[:, 2:], axis=0).tolist())
                        reach[leaf] = box if leaf not in reach else wider(reach[leaf], box)
            return pyarrow.schema([reader.schema.field(name) for name in moved]), parts, reach, read

        schema, parts, reach, report.read = guarded(con, settings, report, [side], work)
        cut = [pyarrow.Table.from_batches(batches, schema=schema) for batches in parts]
        cut = [table.combine_chunks() if table.num_rows < len(batches) * _CHUNK_ROWS else table for table, batches in zip(cut, parts)]
        report.facts["reach"] = reach
        report.facts["bytes"] = sum(table.nbytes for table in cut)
        report.facts["rows"] = {leaf: table.num_rows for leaf, table in zip(leaves, cut) if table.num_rows}
        report.facts["once"] = places.rule != "reach" and sum(table.num_rows for table in cut) == report.read
    return (report, *cut)


def wider(one: Box, other: Box) -> Box:
    return (min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3]))


# ---- the plan


@dataclass
class Planned:
    """An input with what of it is needed, and how its rows get to their partition. `once` is whether each is in one of them alone."""

    input: Input
    columns: list[str]
    reach: float = 0.0
    direct: bool = False
    once: bool = False
    pieces: dict[int, list[Any]] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        return self.input.source

    @classmethod
    def of(cls, given: Input, texts: Sequence[Optional[str]], reach: float = 0.0) -> "Planned":
        return cls(given, needed_columns(given.source.names, [*texts, given.source.geometry]), reach)

    def side(self, blocks: Sequence[Block], **keywords: Any) -> Side:
        return Side(self.source, list(self.columns), [bare(block) for block in blocks], reach=self.reach, **keywords)

    def whole(self, run: Run, settings: Settings) -> tuple[Side, list[Any]]:
        """All rows, for a side that is broadcast, and the Arrow tables that each task is given for them. Files are read once: Ray brings the tables to
        every node that needs them, and the tasks of a node share them there."""
        if not self.input.files:
            return self.side(self.input.blocks), tables_of(self.input.blocks)
        calls = []
        settings = settings.on_cpu
        for group in grouped(self.input.blocks, run.executor.slots(settings)):
            one = self.side(merged(group), boxes=self.source.geometry is not None)
            calls.append(Call(f"read {self.source.name}", read_blocks, [settings, one], 2))
        pieces = [reference[1] for reference in run.stage(f"read {self.source.name}", calls)]
        return self.side([], piece_count=len(pieces)), pieces

    def leaf(self, splits: Splits, leaf: int, boxes: bool) -> tuple[Side, list[Any]]:
        """The rows of a partition, and the Arrow tables that the task is given for them. `boxes` is whether the task needs theirs."""
        region = splits.leaves[leaf].region
        if self.direct:
            touched = [(block, splits.leaves_of(_grown(block.box, self.reach))) for block in self.input.blocks]
            blocks = [block for block, leaves in touched if leaf in leaves]
            # Rows without a box are taken by the first task that reads their block
            boxless = [leaf == leaves[0] for _, leaves in touched if leaf in leaves]
            return self.side(blocks, boxes=True, region=region, boxless=boxless), tables_of(blocks)
        pieces = self.pieces.get(leaf, [])
        return self.side([], boxes=boxes, region=region, once=self.once, piece_count=len(pieces)), list(pieces)


def tables_of(blocks: Sequence[Block]) -> list[Any]:
    return [block.table for block in blocks if block.path is None]


def _grown(box: Optional[Box], reach: float) -> Optional[Box]:
    """The box of a row group, outward by the reach and by what the statistics of floats may have rounded."""
    if box is None:
        return None
    slack = reach + 1e-6 * max(abs(edge) for edge in box)
    return (box[0] - slack, box[1] - slack, box[2] + slack, box[3] + slack)


def streamed(run: Run, settings: Settings, given: Input) -> list[list[Block]]:
    """The blocks of an input in as many groups as there are tasks to read it: two for each that can run at a time, as every task has to
    make its own index of the other side; fewer if they would be small."""
    groups = grouped(given.blocks, run.options.partitions or max(1, min(2 * run.executor.slots(settings), 1 + given.rows // 20_000)))
    return [merged(group) for group in groups]


def grouped(blocks: Sequence[Block], count: int) -> list[list[Block]]:
    """Blocks that follow each other, in at most `count` groups of about the same size."""
    total = sum(block.bytes for block in blocks)
    groups: list[list[Block]] = []
    done = 0
    for block in blocks:
        at = int(done * count / total) if total else 0
        while len(groups) <= at:
            groups.append([])
        groups[-1].append(block)
        done += block.bytes
    return [group for group in groups if group]


def _evenly(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted({round(number * (count - 1) / (most - 1)) for number in range(most)})


def _units(blocks: Sequence[Block]) -> list[Block]:
    """The row groups of files, each as a block, and Arrow tables as they are."""
    units: list[Block] = []
    for block in blocks:
        if block.path is None:
            units.append(block)
        units += [replace(block, rows=group.rows, bytes=group.bytes, box=group.box, groups=(group,)) for group in block.groups]
    return units


def _middle(unit: Block) -> Block:
    """The rows of a row group that are looked at."""
    if unit.path is None:
        return unit
    (group,) = unit.groups
    rows = min(group.rows, _SAMPLED_RANGE)
    return replace(unit, rows=rows, groups=(replace(group, start=group.start + (group.rows - rows) // 2, rows=rows),))


def sample(run: Run, settings: Settings, planned: Sequence[Planned], count: int) -> list[Sample]:
    """A sample of each side for so many partitions: rows of some row groups, and the boxes of the others where the files have them."""
    settings = settings.on_cpu
    calls: list[Call] = []
    chosen: list[tuple[list[Block], list[Block], list[int]]] = []
    for side in planned:
        units = _units(side.input.blocks)
        numbers = _evenly(len(units), min(max(_SAMPLED_GROUPS[0], count), _SAMPLED_GROUPS[1]))
        some = [_middle(units[number]) for number in numbers]
        step = max(1, sum(unit.rows for unit in some) // max(run.options.sample_rows, _SAMPLED_ROWS * count))
        others = [unit for number, unit in enumerate(units) if number not in set(numbers)]
        begin = len(calls)
        for group in grouped(some, run.executor.slots(settings)):
            columns = needed_columns(side.source.names, [side.source.geometry])
            one = Side(side.source, columns, [bare(unit) for unit in group], boxes=True, reach=side.reach)
            calls.append(Call(f"sample {side.source.name}", sample_block, [settings, one, step, *tables_of(group)], 2))
        chosen.append(([units[number] for number in numbers], others, list(range(begin, len(calls)))))
    references = run.stage("sample", calls)
    found = []
    for looked_at, others, numbers in chosen:
        parts = [run.executor.get(references[number][1]) for number in numbers]
        boxes = [numpy.empty((0, 4)), *(some for some, _ in parts)]
        vertices = [numpy.empty(0), *(points for _, points in parts)]
        # Row groups without a box, too, are what the sample says
        rows = sum(unit.rows for unit in [*looked_at, *(unit for unit in others if unit.box is None)])
        size = sum(len(some) for some in boxes)
        weights = [numpy.full(size, rows / max(1, size))]
        mean = float(numpy.concatenate(vertices).mean()) if size else 1.0
        for unit in others:
            if unit.box is not None:
                # A row group whose rows were not looked at stands in the middles of the quarters of its box
                x, y = (unit.box[0] * 3 + unit.box[2]) / 4, (unit.box[1] * 3 + unit.box[3]) / 4
                u, v = (unit.box[0] + unit.box[2] * 3) / 4, (unit.box[1] + unit.box[3] * 3) / 4
                boxes.append(numpy.array([(a, b, a, b) for a in (x, u) for b in (y, v)]))
                vertices.append(numpy.full(4, mean))
                weights.append(numpy.full(4, unit.rows / 4))
        found.append(Sample(numpy.concatenate(boxes), numpy.concatenate(vertices), numpy.concatenate(weights)))
    return found


def partition_count(run: Run, settings: Settings, planned: Sequence[Planned]) -> int:
    """As many as memory asks for, and three for each task that can run at a time, so that the last ones do not take long."""
    if run.options.partitions is not None:
        return run.options.partitions
    size = sum(side.input.bytes for side in planned)
    rows = sum(side.input.rows for side in planned)
    by_memory = -(-4 * size // settings.memory_limit)
    by_workers = min(3 * run.executor.slots(settings), 1 + rows // 20_000)
    return int(max(1, by_memory, by_workers))


def place(run: Run, settings: Settings, planned: Sequence[Planned], count: int, direct: Sequence[bool]) -> tuple[Splits, list[Sample]]:
    """Places the splits, and decides for each side that may be read directly whether it is."""
    samples = sample(run, settings, planned, count)
    splits = split(samples[0], samples[1] if len(samples) > 1 else Sample(), count)
    for side, allowed in zip(planned, direct):
        wanted = run.options.exchange
        side.direct = allowed and (wanted == "direct" or (wanted == "auto" and repeated_reads(splits, side) <= _DIRECT))
    return splits, samples


def repeated_reads(splits: Splits, side: Planned) -> float:
    """How many tasks read a byte of a side, on average, if it is read directly."""
    total = side.input.bytes
    if not total:
        return 0.0
    return sum(len(splits.leaves_of(_grown(block.box, side.reach))) * block.bytes for block in side.input.blocks) / total


def shuffle(run: Run, settings: Settings, side: Planned, places: Places, name: str) -> list[Optional[Box]]:
    """Cuts the blocks of a side. Returns the box of the rows of each leaf."""
    side.pieces = {}
    calls = []
    leaves_of = []
    for block in side.input.blocks:
        known = _grown(block.box, side.reach)
        leaves = places.splits.leaves_of(known) if places.rule != "reach" else list(range(len(places.splits)))
        if 0 not in leaves:
            # Rows without a box go there
            leaves = [0, *leaves]
        one = side.side([block], boxes=True)
        leaves_of.append(leaves)
        calls.append(Call(f"cut {block.label}", cut_block, [settings.on_cpu, one, places, leaves, *tables_of([block])], 1 + len(leaves)))
    references = run.stage(f"cut {name}", calls)
    reaches: list[Optional[Box]] = [None] * len(places.splits)
    side.once = True
    for leaves, found in zip(leaves_of, references):
        report: Report = run.executor.get(found[0])
        side.once = side.once and report.facts["once"]
        for leaf, reference in zip(leaves, found[1:]):
            if report.facts["rows"].get(leaf):
                side.pieces.setdefault(leaf, []).append(reference)
        for leaf, box in report.facts["reach"].items():
            known_box = reaches[leaf]
            reaches[leaf] = box if known_box is None else wider(known_box, box)
    return reaches


def settings_of(run: Run) -> Settings:
    options = run.options
    memory = options.memory if isinstance(options.memory, int) else run.executor.memory()
    return Settings(memory, options.threads, options.num_gpus > 0, options.gpu_memory, options.temp_directory, options.on_error)


def opening_of(run: Run, settings: Settings) -> dict[str, Any]:
    """How inputs are opened: a block is a small part of the memory of a task, and every task has one."""
    return {
        "put": run.executor.put,
        "block_bytes": min(max(settings.memory // 16, 8 * 2**20), 256 * 2**20),
        "blocks": max(4 * run.executor.slots(settings.on_cpu), run.options.partitions or 1),
        "on_error": run.options.on_error,
        "output": run.options.folder,
    }


def extent_of(samples: Sequence[Sample]) -> Optional[Box]:
    """The box of what was sampled."""
    boxes = numpy.concatenate([one.boxes for one in samples])
    return (*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist()) if len(boxes) else None


def describe_job(run: Run, settings: Settings, inputs: Sequence[Planned]) -> list[str]:
    """What all plans print: the inputs and the tasks."""
    lines = [f"  {side.source.name:<8} {side.input}; columns: {', '.join(side.columns) or 'none'}" for side in inputs]
    threads = f"{settings.threads} thread{'s' * (settings.threads != 1)}"
    nodes = f"{run.executor.nodes} node{'s' * (run.executor.nodes != 1)}"
    lines.append(f"  tasks    {threads}, {settings.memory / 1e6:,.0f} MB each, {run.executor.slots(settings.on_cpu)} at a time on {nodes}")
    if settings.gpu:
        lines.append(
            f"  GPUs     {run.options.num_gpus:g} for each task but those that read, cut or settle rows for others; {run.executor.slots(settings)} such tasks at a time"
        )
    return lines


def describe_splits(splits: Splits) -> list[str]:
    """The partitions and the work that is estimated for each."""
    work = [leaf.work for leaf in splits.leaves]
    share = max(work) / (sum(work) / len(work) or 1)
    lines = [f"  {len(splits)} partition{'s' * (len(splits) != 1)}; estimated work of the largest is {share:.2f} times the mean"]
    lines.append(f"  {'part':>6} {'left rows':>12} {'right rows':>12} {'candidates':>12}  region")
    for at, leaf in enumerate(splits.leaves[:20]):
        region = ", ".join(f"{edge:g}" for edge in leaf.region)
        lines.append(f"  {at:>6} {leaf.rows[0]:>12,.0f} {leaf.rows[1]:>12,.0f} {leaf.candidates:>12,.0f}  [{region})")
    if len(splits) > 20:
        lines.append(f"  {'..':>6} {len(splits) - 20} more")
    return lines
