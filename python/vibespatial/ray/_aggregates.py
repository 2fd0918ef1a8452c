"""Aggregates in parts: what a task computes of its rows, and how the parts become the result.

Counts, sums of integers and decimals, minima and maxima combine exactly by themselves. A sum of doubles does not: every addition rounds, so it
would depend on how the rows were distributed. Here a double is split into its 53-bit integer and its power of two. Integers of one power are
added as HUGEINT, which is exact for 2^74 rows. The sum is rounded once, at the end: it is the double nearest to the true sum, for any number of
tasks. avg divides that true sum by the count and rounds once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Mapping, Optional, Sequence

from ._inputs import HIDDEN, quote

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(distinct\s+)?(.*?)\s*\)\s*", re.IGNORECASE | re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_SIMPLE = {"count", "sum", "avg", "min", "max", "bool_and", "bool_or"}
# Keys of what is not a number, beside the powers of two
_PLUS, _MINUS, _NAN = 5000, 5001, 5002


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a result: sum(l.value) is the function sum of the argument l.value."""

    name: str
    function: str
    argument: Optional[str]
    distinct: bool
    type: str
    exact: bool  # of doubles, so added by powers of two

    @property
    def column(self) -> str:
        """The argument as a column of the joined rows."""
        return f"{HIDDEN}a_{self.name}"


def _is_one_argument(argument: str) -> bool:
    """Whether the brackets around it are those of one call: no bracket inside closes them."""
    depth = 0
    for mark in re.findall(r"[()]", _QUOTED.sub("", argument)):
        depth += 1 if mark == "(" else -1
        if depth < 0:
            return False
    return depth == 0


def parse(aggregates: Mapping[str, str]) -> list[tuple[str, str, Optional[str], bool]]:
    """Name, function, argument and DISTINCT of each; the functions are those whose parts can be combined exactly."""
    found = []
    for name, call in aggregates.items():
        match = _CALL.fullmatch(call)
        function = match[1].lower() if match else ""
        if not match or function not in _SIMPLE or not match[3] or not _is_one_argument(match[3]) or (match[2] and function != "count"):
            raise ValueError(
                f"'{call}' is no aggregate that can be computed in parts: use count(*), count(x), count(DISTINCT x), sum(x), avg(x), min(x), "
                "max(x), bool_and(x) or bool_or(x)"
            )
        if match[3] == "*" and (function != "count" or match[2]):
            raise ValueError(f"'{call}': only count takes *")
        found.append((name, function, None if match[3] == "*" else match[3], bool(match[2])))
    return found


def typed(con: Any, parsed: Sequence[tuple[str, str, Optional[str], bool]], source: str) -> list[Aggregate]:
    """With the types that DuckDB gives the arguments; `source` is the FROM clause that they are bound in."""
    found = []
    for name, function, argument, distinct in parsed:
        kind = "BIGINT"
        if argument is not None:
            kind = con.execute(f"DESCRIBE SELECT ({argument}) AS a FROM {source}").fetchall()[0][1]
        if function == "avg" and kind == "INTERVAL":
            raise ValueError(f"avg({argument}) is one of intervals, which cannot be computed in parts: use avg of the difference of epoch_us")
        exact = function in ("sum", "avg") and kind in ("DOUBLE", "FLOAT")
        if function == "avg" and not exact:
            # avg of any number is that of its double in DuckDB as well; integers and decimals are added exactly before
            kind = con.execute(f"DESCRIBE SELECT sum({argument}) AS a FROM {source}").fetchall()[0][1]
        found.append(Aggregate(name, function, argument, distinct, kind, exact))
    return found


def arguments(aggregates: Sequence[Aggregate]) -> list[str]:
    """The select list that makes columns of the arguments."""
    return [f"({aggregate.argument}) AS {quote(aggregate.column)}" for aggregate in aggregates if aggregate.argument is not None]


def _plain(aggregates: Sequence[Aggregate]) -> list[tuple[str, str, str]]:
    """Columns that combine by themselves: name, how a task computes it, how two of them combine."""
    found = []
    for aggregate in aggregates:
        name, column = f"{HIDDEN}p_{aggregate.name}", quote(aggregate.column)
        if aggregate.argument is None:
            found.append((name, "count(*)", "sum({})"))
        elif aggregate.distinct:
            found.append((name, f"list(DISTINCT {column}) FILTER ({column} IS NOT NULL)", "list_distinct(flatten(list({})))"))
        elif aggregate.function == "count":
            found.append((name, f"count({column})", "sum({})"))
        elif aggregate.exact:
            found.append((f"{name}_n", f"count({column})", "sum({})"))
        elif aggregate.function == "avg":
            found.append((f"{name}_n", f"count({column})", "sum({})"))
            found.append((name, f"sum({column})", "sum({})"))
        else:
            found.append((name, f"{aggregate.function}({column})", f"{aggregate.function}({{}})"))
    return found


def plain_query(keys: Sequence[str], aggregates: Sequence[Aggregate], source: str) -> str:
    """What a task computes of its rows, without the sums of doubles."""
    listed = [quote(key) for key in keys]
    columns = [*listed, *(f"{how} AS {quote(name)}" for name, how, _ in _plain(aggregates))]
    return f"SELECT {', '.join(columns) or '1 AS _vibe_none'} FROM {source}" + (f" GROUP BY {', '.join(listed)}" if listed else "")


def exact_query(keys: Sequence[str], aggregate: Aggregate, source: str) -> str:
    """A sum of doubles by powers of two: the keys, the power e, and the sum m of the integers that stand for m * 2^e."""
    listed = "".join(f"{quote(key)}, " for key in keys)
    bits = f"SELECT {listed}CAST({quote(aggregate.column)} AS DOUBLE) AS v, CAST(CAST(v AS BIT) AS UBIGINT) AS b FROM {source} WHERE {quote(aggregate.column)} IS NOT NULL"
    power = "CAST((b >> 52) & 2047 AS INTEGER)"
    kind = f"CASE WHEN isnan(v) THEN {_NAN} WHEN isinf(v) THEN CASE WHEN v > 0 THEN {_PLUS} ELSE {_MINUS} END ELSE greatest({power}, 1) - 1075 END"
    # A subnormal number has no leading one
    digits = f"CAST(b & 4503599627370495 AS HUGEINT) + CASE WHEN {power} > 0 THEN 4503599627370496 ELSE 0 END"
    signed = f"CASE WHEN v < 0 THEN -({digits}) ELSE {digits} END"
    return f"SELECT {listed}{kind} AS {HIDDEN}e, sum({signed}) AS {HIDDEN}m FROM ({bits}) GROUP BY ALL"


def partial(con: Any, keys: Sequence[str], aggregates: Sequence[Aggregate], source: str) -> list[Any]:
    """The parts of a task: a table of the plain aggregates, and one for each sum of doubles."""
    from ._engine import table_of

    found = [table_of(con, plain_query(keys, aggregates, source))]
    for aggregate in aggregates:
        if aggregate.exact:
            # HUGEINT has no Arrow type of its own
            found.append(
                table_of(con, f"SELECT * REPLACE (CAST({HIDDEN}m AS VARCHAR) AS {HIDDEN}m) FROM ({exact_query(keys, aggregate, source)})")
            )
    return found


def _rounded(parts: Optional[list[dict[str, Any]]], count: Optional[int]) -> Optional[float]:
    """The double nearest to the sum of all m * 2^e, divided by a count."""
    if not parts:
        return None
    powers = {int(part["e"]): int(part["m"]) for part in parts}
    if _NAN in powers or (_PLUS in powers and _MINUS in powers):
        return float("nan")
    if _PLUS in powers or _MINUS in powers:
        return float("inf") if _PLUS in powers else float("-inf")
    lowest = min(powers)
    total = sum(digits << (power - lowest) for power, digits in powers.items())
    value = Fraction(total * 2**lowest) if lowest >= 0 else Fraction(total, 2**-lowest)
    try:
        return float(value / count if count else value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def combine(con: Any, keys: Sequence[str], aggregates: Sequence[Aggregate], parts: Sequence[Sequence[Any]]) -> Any:
    """The result of all parts, as an Arrow table in the order of its keys."""
    import pyarrow  # type: ignore[import-untyped]

    from ._engine import table_of

    con.register(f"{HIDDEN}plain", pyarrow.concat_tables([part[0] for part in parts]))
    listed = [f"p.{quote(key)}" for key in keys]
    plain = ", ".join(
        [*(quote(key) for key in keys), *(f"{how.format(quote(name))} AS {quote(name)}" for name, _, how in _plain(aggregates))]
    )
    group = f" GROUP BY {', '.join(quote(key) for key in keys)}" if keys else ""
    source = f"(SELECT {plain} FROM {HIDDEN}plain{group}) p"
    columns = list(listed)
    exact = [aggregate for aggregate in aggregates if aggregate.exact]
    for number, aggregate in enumerate(exact):
        con.register(f"{HIDDEN}exact_{number}", pyarrow.concat_tables([part[1 + number] for part in parts]))
        inner = "".join(f"{quote(key)}, " for key in keys)
        summed = f"SELECT {inner}{HIDDEN}e, sum(CAST({HIDDEN}m AS HUGEINT)) AS m FROM {HIDDEN}exact_{number} GROUP BY ALL"
        lists = f"SELECT {inner}list({{'e': {HIDDEN}e, 'm': CAST(m AS VARCHAR)}}) AS parts FROM ({summed})" + group
        same = " AND ".join(f"p.{quote(key)} IS NOT DISTINCT FROM x{number}.{quote(key)}" for key in keys) or "true"
        source += f" LEFT JOIN ({lists}) x{number} ON {same}"
    for aggregate in aggregates:
        name, out = f"p.{quote(f'{HIDDEN}p_{aggregate.name}')}", quote(aggregate.name)
        if aggregate.exact:
            columns += [
                f"x{exact.index(aggregate)}.parts AS {out}",
                f"CAST(p.{quote(f'{HIDDEN}p_{aggregate.name}_n')} AS BIGINT) AS {quote(f'{HIDDEN}n_{aggregate.name}')}",
            ]
        elif aggregate.distinct:
            columns.append(f"coalesce(len({name}), 0) AS {out}")
        elif aggregate.function == "count":
            columns.append(f"CAST({name} AS BIGINT) AS {out}")
        elif aggregate.function == "avg":
            columns.append(f"CAST({name} AS DOUBLE) / p.{quote(f'{HIDDEN}p_{aggregate.name}_n')} AS {out}")
        else:
            columns.append(f"{name} AS {out}")
    table = table_of(con, f"SELECT {', '.join(columns)} FROM {source} ORDER BY {', '.join(listed) or '1'}")
    for aggregate in exact:
        counts = table.column(f"{HIDDEN}n_{aggregate.name}").to_pylist()
        divide = aggregate.function == "avg"
        values = [_rounded(one, count if divide else None) for one, count in zip(table.column(aggregate.name).to_pylist(), counts)]
        at = table.schema.get_field_index(aggregate.name)
        table = table.set_column(at, aggregate.name, pyarrow.array(values, pyarrow.float64()))
        table = table.drop_columns([f"{HIDDEN}n_{aggregate.name}"])
    return table
