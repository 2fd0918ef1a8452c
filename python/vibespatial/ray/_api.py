"""The operations, and `plan`, which shows one before it runs."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ._dissolve import plan_dissolve
from ._home import plan_overlay, plan_sql
from ._knn import plan_knn
from ._options import Options
from ._output import Result
from ._sjoin import plan_sjoin

_PLANS: dict[str, Callable[..., Any]] = {
    "sjoin": plan_sjoin,
    "knn": plan_knn,
    "dissolve": plan_dissolve,
    "overlay": plan_overlay,
    "sql": plan_sql,
}
_OPTIONS = set(Options.__dataclass_fields__)


def plan(operation: str, *arguments: Any, **keywords: Any) -> Any:
    """How an operation would run, without running it: ``print(plan("sjoin", left, right, "within"))``. `.run()` runs it.

    Footers of the files are read, and a sample of the rows if partitions have to be placed.
    """
    if operation not in _PLANS:
        raise ValueError(f"operation must be one of {', '.join(_PLANS)}, not {operation!r}")
    known = [name for name in inspect.signature(_PLANS[operation]).parameters if name != "options"]
    unknown = next((name for name in keywords if name not in known and name not in _OPTIONS), None)
    if unknown is not None:
        raise TypeError(f"{operation} has no keyword {unknown}; those are {', '.join([*known, *Options.__dataclass_fields__])}")
    options = Options(**{name: value for name, value in keywords.items() if name in _OPTIONS})
    return _PLANS[operation](*arguments, **{name: value for name, value in keywords.items() if name not in _OPTIONS}, options=options)


def _run(operation: str, *arguments: Any, **keywords: Any) -> Result:
    result: Result = plan(operation, *arguments, **keywords).run()
    return result


def sjoin(
    left: Any,
    right: Any,
    predicate: str = "intersects",
    how: str = "inner",
    select: Optional[Sequence[str]] = None,
    aggregate: Optional[Mapping[str, str]] = None,
    **keywords: Any,
) -> Result:
    """Joins the rows of two inputs by a spatial predicate.

    predicate   'intersects', 'within', 'contains', 'covers', 'coveredby', 'contains_properly', 'within_properly', 'touches', 'crosses',
                'overlaps', 'equals', or 'dwithin' with distance=; also with other underscores, or as 'ST_Intersects'
    how         'inner', 'left', 'right', 'full', 'semi', 'anti'
    select      SQL expressions over the rows l and r; by default all columns, with the prefixes left_ and right_ where names clash
    aggregate   names and aggregates, such as {'n': 'count(*)', 'total': 'sum(l.amount)'}; `select` is then what to group by
    condition   a further condition of the join in SQL
    left_geometry, right_geometry   a column or an SQL expression, such as 'ST_Point(lon, lat)'

    All other keywords are those of `Options`.
    """
    return _run("sjoin", left, right, predicate, how, select, aggregate, **keywords)


def knn(left: Any, right: Any, k: int = 1, select: Optional[Sequence[str]] = None, **keywords: Any) -> Result:
    """Finds the k rows of the right input that are nearest to each row of the left one, with their `distance` and `rank`.

    They are those of vibe_knn: of rows that are equally far, the ones that come first in the right input. NULL and empty geometries have
    no neighbours.

    select         SQL expressions over the rows l and r; by default all columns
    max_distance   neighbours that are farther away do not count
    left_geometry, right_geometry   a column or an SQL expression

    All other keywords are those of `Options`; the side that can be broadcast is the right one.
    """
    return _run("knn", left, right, k, select, **keywords)


def dissolve(
    data: Any, by: Union[str, Sequence[str], None] = None, aggregates: Optional[Mapping[str, str]] = None, **keywords: Any
) -> Result:
    """Merges the geometries of rows that agree in the columns `by`, as vibe_dissolve does.

    aggregates   the other columns to return and how, such as {'population': 'sum'}; by default the first value of each
    geometry     the geometry column, or an SQL expression

    A group is dissolved in one task, with the result of one process. All other keywords are those of `Options`.
    """
    return _run("dissolve", data, by, aggregates, **keywords)


def overlay(left: Any, right: Any, how: str = "intersection", **keywords: Any) -> Result:
    """Cuts two layers with each other, as vibe_overlay does.

    how              'intersection', 'difference', 'identity', 'symdifference', 'union'
    keep_geom_type   whether parts of a lower dimension are dropped (default: True)
    left_geometry, right_geometry   a column or an SQL expression

    All other keywords are those of `Options`.
    """
    return _run("overlay", left, right, how, **keywords)


def sql(query: str, tables: Mapping[str, Any], partition_by: Union[str, Mapping[str, str]], **keywords: Any) -> Result:
    """Runs a query in every task, on its part of the tables.

    tables         the names that the query uses, and the inputs they stand for
    partition_by   one table, whose rows are divided while all others go to every node; or two with their geometries,
                   {'trips': 'geom', 'zones': 'geom'}: each row of the first is in one task, together with all rows of the second whose
                   box meets its own, so that a join of the two by a predicate is whole
    distance       how far apart rows of the two may be that the query joins
    combine        a query over the table `parts`, the rows of all tasks; needed if the query has aggregates, ORDER BY, LIMIT, DISTINCT,
                   window functions or set operations

    All other keywords are those of `Options`.
    """
    return _run("sql", query, tables, partition_by, **keywords)
