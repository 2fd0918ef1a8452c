"""The partitions: every point is in one, every row where it touches, every pair in one; and the work is shared."""
import random

import numpy
import pytest
from vibespatial.ray._exchange import Places
from vibespatial.ray._inputs import needed_columns
from vibespatial.ray._options import Options, parse_bytes
from vibespatial.ray._splits import Sample, hilbert, hilbert_of, split


def sample(count, seed, clustered=True, vertices=1.0):
    numbers = numpy.random.default_rng(seed)
    # Three of four in one hundredth of the area, as places are
    dense = numbers.random(count) < 0.75 if clustered else numpy.zeros(count, dtype=bool)
    points = numpy.where(dense[:, None], numbers.random((count, 2)) * 0.1, numbers.random((count, 2)))
    size = numbers.random((count, 2)) * 0.02
    return Sample(numpy.column_stack([points, points + size]), numpy.full(count, vertices), numpy.ones(count))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_every_point_is_in_one_partition_and_every_box_where_it_touches(count):
    left, right = sample(1500, 1), sample(700, 2)
    splits = split(left, right, count)
    assert len(splits) == count
    numbers = random.Random(3)
    # Points on the borders themselves, and beyond all that was sampled
    edges = [edge for leaf in splits.leaves for edge in leaf.region if abs(edge) < 1e300]
    points = numpy.array([(numbers.choice([*edges, 0.5]), numbers.choice([*edges, 0.3])) for _ in range(300)] + [(-9.0, 9.0), (9.0, -9.0)])
    homes = splits.home(points[:, 0], points[:, 1])
    for (x, y), home in zip(points, homes):
        inside = [at for at, leaf in enumerate(splits.leaves) if leaf.region[0] <= x < leaf.region[2] and leaf.region[1] <= y < leaf.region[3]]
        assert inside == [home]
    rows = splits.cut(right.boxes)
    members = [set(one.tolist()) for one in rows]
    for number, box in enumerate(right.boxes[:200]):
        assert [leaf for leaf in range(len(splits)) if number in members[leaf]] == splits.leaves_of(tuple(box))


def test_a_pair_is_counted_once_where_the_corner_of_the_shared_box_lies():
    left, right = sample(200, 4), sample(200, 5)
    for count in (2, 7, 23):
        splits = split(left, right, count)
        cut = [{leaf: set(rows.tolist()) for leaf, rows in enumerate(splits.cut(side.boxes))} for side in (left, right)]
        pairs = 0
        for i, a in enumerate(left.boxes):
            for j, b in enumerate(right.boxes):
                if a[0] <= b[2] and a[2] >= b[0] and a[1] <= b[3] and a[3] >= b[1]:
                    (home,) = splits.home([max(a[0], b[0])], [max(a[1], b[1])])
                    assert i in cut[0][home] and j in cut[1][home]
                    pairs += 1
        assert pairs > 100


def test_partitions_are_split_by_work_and_not_by_area():
    left, right = sample(4000, 6), sample(400, 7)
    splits = split(left, right, 32)
    work = [leaf.work for leaf in splits.leaves]
    assert max(work) < 2 * sum(work) / len(work)
    # The corner of a hundredth of the area, with three quarters of the rows, has most of the partitions
    assert sum(leaf.region[0] < 0.1 and leaf.region[1] < 0.1 for leaf in splits.leaves) > 16
    # Rows with many vertices count for more
    heavy = sample(400, 8, clustered=False, vertices=2000.0)
    heavy.boxes[:, [0, 2]] = heavy.boxes[:, [0, 2]] * 0.1 + 0.9
    splits = split(left, heavy, 16)
    assert sum(leaf.region[2] > 0.9 for leaf in splits.leaves) > 8


def test_what_cannot_be_split_is_not():
    same = Sample(numpy.tile([0.0, 0.0, 1.0, 1.0], (100, 1)), numpy.ones(100), numpy.ones(100))
    assert len(split(same, same, 8)) == 1
    assert len(split(Sample(), Sample(), 8)) == 1
    one_point = Sample(numpy.zeros((50, 4)), numpy.ones(50), numpy.ones(50))
    assert len(split(one_point, Sample(), 8)) == 1


def test_rows_without_a_box_go_to_the_first_partition():
    splits = split(sample(500, 9), Sample(), 5)
    boxes = numpy.array([[numpy.nan] * 4, [0.5, 0.5, 0.5, 0.5], [-numpy.inf, -numpy.inf, numpy.inf, numpy.inf]])
    rows = splits.cut(boxes)
    assert 0 in rows[0].tolist() and all(0 not in one.tolist() for one in rows[1:])
    assert all(2 in one.tolist() for one in rows)
    assert [0 in one.tolist() for one in Places(splits, "home").of(boxes)] == [True, False, False, False, False]


def test_the_hilbert_curve_visits_every_cell_in_steps_of_one():
    order = 5
    x, y = (axis.ravel() for axis in numpy.meshgrid(range(2**order), range(2**order)))
    places = hilbert(x, y, order)
    assert sorted(places.tolist()) == list(range(4**order))
    walk = numpy.argsort(places)
    steps = numpy.abs(numpy.diff(x[walk])) + numpy.abs(numpy.diff(y[walk]))
    assert set(steps.tolist()) == {1}
    # No extent, and coordinates outside of it, have a place, too
    assert hilbert_of([5.0, numpy.nan], [5.0, 1.0], (5.0, 5.0, 5.0, 5.0)).tolist() == [0, 0]


def test_columns_that_a_text_needs():
    names = ["id", "Name", "geom", "a b", "n"]
    assert needed_columns(names, ["l.name", 'sum(r."a b")', None]) == ["Name", "a b"]
    assert needed_columns(names, ["count(*)"]) == []
    assert needed_columns(names, ["count( * )", "l.*"]) == names


def test_options():
    assert parse_bytes("4GB") == 4 * 10**9 and parse_bytes("1.5MiB") == 3 * 2**19 and parse_bytes(7) == 7
    for keywords in ({"partitions": 0}, {"threads": 1.5}, {"num_gpus": -1}, {"num_gpus": 2}, {"on_error": "ignore"}, {"memory": "4 apples"}):
        with pytest.raises(ValueError):
            Options(**keywords)
