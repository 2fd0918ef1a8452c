"""KDB splits: the plane cut into rectangles of about the same work.

Every rectangle is half open, and the outer ones reach to infinity, so each point of the plane lies in exactly one of them. A row belongs to
every rectangle that its box touches. Two rows whose boxes meet are both in the rectangle that holds the lower left corner of the shared
box, and only there the pair counts: none is lost, none is doubled, wherever the borders are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import numpy

Box = tuple[float, float, float, float]
_INFINITE = float("inf")
PLANE: Box = (-_INFINITE, -_INFINITE, _INFINITE, _INFINITE)
# A vertex costs less than a row: most of them are only copied
_VERTEX = 0.05
_PAIRS = 512


def hilbert(x: Any, y: Any, order: int = 16) -> Any:
    """The place of integer coordinates below 2**order on the Hilbert curve."""
    x = numpy.array(x, dtype=numpy.int64)
    y = numpy.array(y, dtype=numpy.int64)
    place = numpy.zeros(x.shape, dtype=numpy.int64)
    side = 1 << (order - 1)
    while side:
        right = (x & side) > 0
        upper = (y & side) > 0
        place += side * side * ((3 * right.astype(numpy.int64)) ^ upper.astype(numpy.int64))
        # The curve inside a lower quadrant is turned
        turned = ~upper
        flip = turned & right
        x, y = numpy.where(flip, side * 2 - 1 - x, x) & (2 * side - 1), numpy.where(flip, side * 2 - 1 - y, y) & (2 * side - 1)
        x, y = numpy.where(turned, y, x), numpy.where(turned, x, y)
        side >>= 1
    return place


def hilbert_of(x: Any, y: Any, extent: Box) -> Any:
    """The place of points on the Hilbert curve over an extent."""
    scale = (1 << 16) - 1

    def cell(values: Any, low: float, high: float) -> Any:
        span = high - low
        share = (numpy.asarray(values, dtype=float) - low) / span if span > 0 else numpy.zeros(len(values))
        return numpy.clip(numpy.nan_to_num(share), 0, 1) * scale

    return hilbert(cell(x, extent[0], extent[2]), cell(y, extent[1], extent[3]))


@dataclass
class Sample:
    """Boxes of some rows of a side, the vertices of each, and how many rows each stands for."""

    boxes: Any = field(default_factory=lambda: numpy.empty((0, 4)))
    vertices: Any = field(default_factory=lambda: numpy.empty(0))
    weights: Any = field(default_factory=lambda: numpy.empty(0))

    @property
    def work(self) -> Any:
        return self.weights * (1 + _VERTEX * self.vertices)

    def take(self, which: Any) -> "Sample":
        return Sample(self.boxes[which], self.vertices[which], self.weights[which])

    def __len__(self) -> int:
        return len(self.weights)


def touching(boxes: Any, region: Box) -> Any:
    """Which boxes touch a half-open region."""
    return (boxes[:, 0] < region[2]) & (boxes[:, 2] >= region[0]) & (boxes[:, 1] < region[3]) & (boxes[:, 3] >= region[1])


def candidates(left: Sample, right: Sample) -> float:
    """An estimate of the pairs of rows whose boxes meet."""
    if not len(left) or not len(right):
        return 0.0
    some_left = left.boxes[numpy.linspace(0, len(left) - 1, min(len(left), _PAIRS)).astype(int)]
    some_right = right.boxes[numpy.linspace(0, len(right) - 1, min(len(right), _PAIRS)).astype(int)]
    a, b = some_left[:, None, :], some_right[None, :, :]
    meet = (a[..., 0] <= b[..., 2]) & (a[..., 2] >= b[..., 0]) & (a[..., 1] <= b[..., 3]) & (a[..., 3] >= b[..., 1])
    return float(meet.mean() * left.weights.sum() * right.weights.sum())


@dataclass
class Leaf:
    """A partition: its region, and what the sample says about it."""

    region: Box
    rows: tuple[float, float] = (0.0, 0.0)
    candidates: float = 0.0
    work: float = 0.0


@dataclass
class _Node:
    axis: int
    value: float
    low: Any
    high: Any


class Splits:
    """The partitions, and which rows go where. Leaves are numbered along a Hilbert curve, so neighbours have near numbers."""

    def __init__(self, root: Any, leaves: list[Leaf]) -> None:
        self._root = root
        self.leaves = leaves

    def __len__(self) -> int:
        return len(self.leaves)

    def _walk(self, visit: Callable[[int, Any], None], rows: Any, goes: Callable[[_Node, Any], tuple[Any, Any]]) -> None:
        stack = [(self._root, rows)]
        while stack:
            node, which = stack.pop()
            if not len(which):
                continue
            if isinstance(node, _Node):
                low, high = goes(node, which)
                stack += [(node.low, which[low]), (node.high, which[high])]
            else:
                visit(node, which)

    def cut(self, boxes: Any) -> list[Any]:
        """The rows that touch each leaf. A row without a box (NaN), of a NULL or empty geometry, goes to leaf 0."""
        found: list[Any] = [numpy.empty(0, dtype=numpy.int64) for _ in self.leaves]
        boxless = numpy.isnan(boxes[:, 0])

        def goes(node: _Node, which: Any) -> tuple[Any, Any]:
            return boxes[which, node.axis] < node.value, boxes[which, node.axis + 2] >= node.value

        def visit(leaf: int, which: Any) -> None:
            found[leaf] = which

        self._walk(visit, numpy.flatnonzero(~boxless), goes)
        if boxless.any():
            found[0] = numpy.sort(numpy.concatenate([found[0], numpy.flatnonzero(boxless)]))
        return found

    def home(self, x: Any, y: Any) -> Any:
        """The leaf that holds each point; 0 for NaN."""
        points = numpy.column_stack([numpy.asarray(x, dtype=float), numpy.asarray(y, dtype=float)])
        homes = numpy.zeros(len(points), dtype=numpy.int64)

        def goes(node: _Node, which: Any) -> tuple[Any, Any]:
            low = points[which, node.axis] < node.value
            return low, ~low

        def visit(leaf: int, which: Any) -> None:
            homes[which] = leaf

        self._walk(visit, numpy.flatnonzero(~numpy.isnan(points).any(axis=1)), goes)
        return homes

    def leaves_of(self, box: Optional[Box]) -> list[int]:
        """The leaves that a box touches: all of them for a box that is not known."""
        if box is None:
            return list(range(len(self)))
        return [number for number, leaf in enumerate(self.leaves) if touching(numpy.array([box]), leaf.region)[0]]


def _best_cut(region: Box, left: Sample, right: Sample, share: float) -> Optional[tuple[int, float]]:
    """The axis and the coordinate that leave this share of the work below, with the fewest rows on both sides; None if nothing is gained."""
    if not len(left) and not len(right):
        return None
    total = left.work.sum() + right.work.sum()
    best: Optional[tuple[float, int, float]] = None
    for axis in (0, 1):
        middles = numpy.concatenate([(side.boxes[:, axis] + side.boxes[:, axis + 2]) / 2 for side in (left, right)])
        work = numpy.concatenate([left.work, right.work])
        order = numpy.argsort(middles, kind="stable")
        reached = numpy.cumsum(work[order])
        at = int(numpy.searchsorted(reached, total * share))
        value = float(middles[order[min(at, len(order) - 1)]])
        if not (region[axis] < value < region[axis + 2]):
            continue
        low = sum(side.work[side.boxes[:, axis] < value].sum() for side in (left, right))
        high = sum(side.work[side.boxes[:, axis + 2] >= value].sum() for side in (left, right))
        largest = max(low / share, high / (1 - share))
        if max(low, high) < total and (best is None or largest < best[0]):
            best = (largest, axis, value)
    return None if best is None else (best[1], best[2])


class _Slot:
    """A place in the tree: a leaf, or the node that it was cut into."""

    node: Any = None


def split(left: Sample, right: Sample, count: int) -> Splits:
    """At most `count` partitions. A region that is to have several is cut in two, and each half gets as many as its share of the work."""

    def leaf_of(region: Box, a: Sample, b: Sample) -> Leaf:
        pairs = candidates(a, b)
        return Leaf(region, (float(a.weights.sum()), float(b.weights.sum())), pairs, float(a.work.sum() + b.work.sum() + pairs))

    top = _Slot()
    top.node = leaf_of(PLANE, left, right)
    todo: list[tuple[_Slot, Sample, Sample, int]] = [(top, left, right, count)]
    while todo:
        slot, a, b, wanted = todo.pop()
        region = slot.node.region
        cut = _best_cut(region, a, b, (wanted // 2) / wanted) if wanted > 1 else None
        if cut is None:
            continue
        axis, value = cut
        halves = []
        for kept in (axis + 2, axis):
            part: Box = tuple(value if at == kept else edge for at, edge in enumerate(region))  # type: ignore[assignment]
            inner = _Slot()
            rows = a.take(touching(a.boxes, part)), b.take(touching(b.boxes, part))
            inner.node = leaf_of(part, *rows)
            halves.append((inner, *rows))
        slot.node = _Node(axis, value, halves[0][0], halves[1][0])
        work = [half[0].node.work for half in halves]
        below = min(max(round(wanted * work[0] / (sum(work) or 1)), 1), wanted - 1)
        todo += [(*halves[0], below), (*halves[1], wanted - below)]

    leaves: list[Leaf] = []

    def collect(slot: Any) -> None:
        if isinstance(slot.node, _Node):
            collect(slot.node.low)
            collect(slot.node.high)
        else:
            leaves.append(slot.node)

    collect(top)
    boxes = numpy.concatenate([left.boxes, right.boxes])
    extent: Box = (0.0, 0.0, 1.0, 1.0)
    if len(boxes):
        extent = (*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist())
    centres = [
        [(max(leaf.region[axis], extent[axis]) + min(leaf.region[axis + 2], extent[axis + 2])) / 2 for axis in (0, 1)] for leaf in leaves
    ]
    places = hilbert_of([x for x, _ in centres], [y for _, y in centres], extent)
    order = numpy.argsort(places, kind="stable")
    number = {id(leaves[old]): new for new, old in enumerate(order.tolist())}

    def build(slot: Any) -> Any:
        if isinstance(slot.node, _Node):
            return _Node(slot.node.axis, slot.node.value, build(slot.node.low), build(slot.node.high))
        return number[id(slot.node)]

    return Splits(build(top), [leaves[old] for old in order.tolist()])
