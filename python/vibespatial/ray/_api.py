"""The operations, and `plan`, which shows one before it runs."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

from ._options import Options
from ._output import Result
from ._sjoin import plan_sjoin


def _sjoin(left: Any, right: Any, predicate: str = "intersects", how: str = "inner", select: Optional[Sequence[str]] = None,
           aggregate: Optional[dict[str, str]] = None, *, distance: Optional[float] = None, condition: Optional[str] = None,
           left_geometry: Optional[str] = None, right_geometry: Optional[str] = None, **options: Any) -> Any:
    return plan_sjoin(left, right, predicate, how, select, aggregate, distance=distance, condition_sql=condition,
                      left_geometry=left_geometry, right_geometry=right_geometry, options=Options(**options))


_PLANS: dict[str, Callable[..., Any]] = {"sjoin": _sjoin}


def plan(operation: str, *arguments: Any, **keywords: Any) -> Any:
    """How an operation would run, without running it: ``print(plan("sjoin", left, right, "within"))``. `.run()` runs it.

    Footers of the files are read, and a sample of the rows if partitions have to be placed.
    """
    if operation not in _PLANS:
        raise ValueError(f"operation must be one of {', '.join(_PLANS)}, not {operation!r}")
    return _PLANS[operation](*arguments, **keywords)


def sjoin(left: Any, right: Any, predicate: str = "intersects", how: str = "inner", select: Optional[Sequence[str]] = None,
          aggregate: Optional[dict[str, str]] = None, **keywords: Any) -> Result:
    """Joins the rows of two inputs by a spatial predicate.

    predicate   'intersects', 'within', 'contains', 'covers', 'coveredby', 'contains_properly', 'within_properly', 'touches', 'crosses',
                'overlaps', 'equals', or 'dwithin' with distance=
    how         'inner', 'left', 'right', 'full', 'semi', 'anti'
    select      SQL expressions over the rows l and r; by default all columns, with the prefixes left_ and right_ where names clash
    aggregate   names and aggregates, such as {'n': 'count(*)', 'total': 'sum(l.amount)'}; `select` is then what to group by
    condition   a further condition of the join in SQL
    left_geometry, right_geometry   a column or an SQL expression, such as 'ST_Point(lon, lat)'

    All other keywords are those of `Options`.
    """
    result: Result = _sjoin(left, right, predicate, how, select, aggregate, **keywords).run()
    return result
