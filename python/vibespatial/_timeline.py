"""A picture of one query: its steps on one axis, as an SVG that needs nothing else."""

from __future__ import annotations

import csv
import html
import os
from typing import Any, NamedTuple, Optional, Sequence, Union

#: From the top down; what a query does, then what the device does for it
LANES = {
    "scan": "#2f855a",
    "sink": "#4a9f76",
    "index": "#6b8e23",
    "wait": "#c05621",
    "start": "#2b6cb0",
    "compile": "#b7791f",
    "upload": "#6b46c1",
    "kernels": "#97266d",
    "download": "#805ad5",
    "emit": "#276749",
}
_OTHER = "#4a5568"
_WIDTH, _LEFT, _RIGHT = 1000, 96, 24
_ROW, _BAR, _GAP = 17, 13, 8
#: Bars of one lane that are drawn below each other; more share the last row
_MOST_ROWS = 12


class Step(NamedTuple):
    """A row of vibe_timeline(), in milliseconds of one clock"""

    lane: str
    name: str
    begin: float
    end: float
    bytes: int = 0


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def _time(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.2f} ms"


def _tick(span: float) -> float:
    tick = 1e-3
    while True:
        for factor in (1, 2, 5):
            if span <= 10 * tick * factor:
                return tick * factor
        tick *= 10


def _stack(steps: Sequence[Step]) -> list[list[Step]]:
    """Rows of steps that do not overlap, in the order they begin"""
    rows: list[list[Step]] = []
    for step in sorted(steps, key=lambda step: (step.begin, -step.end)):
        free = next((row for row in rows if row[-1].end <= step.begin), None)
        if free is None and len(rows) == _MOST_ROWS:
            free = rows[-1]
        if free is None:
            rows.append([step])
        else:
            free.append(step)
    return rows


def draw(steps: Sequence[Step], title: str = "") -> str:
    """The SVG. Every bar has its name, length and bytes as a tooltip; waiting is hatched."""
    if not steps:
        raise ValueError("there are no steps to draw: the query left none, or others have taken their place since")
    origin = min(step.begin for step in steps)
    span = max(max(step.end for step in steps) - origin, 1e-3)
    scale = (_WIDTH - _LEFT - _RIGHT) / span
    names = [lane for lane in LANES if any(step.lane == lane for step in steps)]
    names += sorted({step.lane for step in steps} - set(names))
    bars: list[str] = []
    y = 40.0
    for lane in names:
        some = [step for step in steps if step.lane == lane]
        rows = _stack(some)
        total = sum(step.bytes for step in some)
        text = html.escape(lane)
        bars.append(f'<text x="{_LEFT - 8}" y="{y + 11:.0f}" class="lane">{text}</text>')
        if total:
            bars.append(f'<text x="{_LEFT - 8}" y="{y + 22:.0f}" class="bytes">{_size(total)}</text>')
        for number, row in enumerate(rows):
            top = y + number * _ROW
            for step in row:
                left, width = _LEFT + (step.begin - origin) * scale, max((step.end - step.begin) * scale, 1.0)
                about = f"{step.name}: {_time(step.end - step.begin)}, from {_time(step.begin - origin)}"
                about += f", {_size(step.bytes)}" if step.bytes else ""
                fill = "url(#waiting)" if lane == "wait" else LANES.get(lane, _OTHER)
                bars.append(
                    f'<rect x="{left:.2f}" y="{top:.0f}" width="{width:.2f}" height="{_BAR}" rx="1.5" fill="{fill}"><title>{html.escape(about)}</title></rect>'
                )
                label = f"{step.name}, {_time(step.end - step.begin)}" + (f", {_size(step.bytes)}" if step.bytes else "")
                if len(label) * 5.4 < width:
                    kind = "dark" if lane == "wait" else "light"
                    bars.append(f'<text x="{left + 4:.2f}" y="{top + 10:.0f}" class="{kind}">{html.escape(label)}</text>')
                elif len(rows) <= 3 and len(row) == 1 and left + width + len(label) * 5.4 < _WIDTH:
                    bars.append(f'<text x="{left + width + 4:.2f}" y="{top + 10:.0f}" class="dark">{html.escape(label)}</text>')
        y += max(len(rows) * _ROW, 26 if total else _ROW) + _GAP
    bottom = y
    tick = _tick(span)
    axis = []
    for number in range(int(span / tick) + 1):
        x = _LEFT + number * tick * scale
        axis.append(f'<line x1="{x:.2f}" y1="34" x2="{x:.2f}" y2="{bottom:.0f}" class="grid"/>')
        axis.append(f'<text x="{x:.2f}" y="{bottom + 13:.0f}" class="tick">{number * tick:g}</text>')
    axis.append(f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 27:.0f}" class="axis">milliseconds; hatched: waiting</text>')
    heading = html.escape(" ".join(title.split())[:150])
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 36:.0f}" font-family="sans-serif" role="img">',
            f"<title>{heading or 'timeline of a query'}</title>",
            "<style>.lane{font-size:11px;font-weight:bold;text-anchor:end;fill:#1a202c}.bytes{font-size:9px;text-anchor:end;fill:#718096}"
            ".light{font-size:9px;fill:#fff}.dark{font-size:9px;fill:#4a5568}.tick{font-size:9px;text-anchor:middle;fill:#718096}"
            ".axis{font-size:9px;text-anchor:end;fill:#718096}.grid{stroke:#e2e8f0}.heading{font-size:12px;fill:#1a202c}</style>",
            '<defs><pattern id="waiting" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<rect width="6" height="6" fill="#feebc8"/><rect width="2" height="6" fill="{LANES["wait"]}"/></pattern></defs>',
            '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text x="{_LEFT}" y="20" class="heading">{heading}</text>',
            *axis,
            *bars,
            "</svg>",
            "",
        ]
    )


def read(path: Union[str, os.PathLike[str]]) -> list[Step]:
    """Steps from a CSV file: lane, step, begin_ms, end_ms and, where there are some, bytes"""
    with open(path, newline="") as file:
        return [Step(row["lane"], row["step"], float(row["begin_ms"]), float(row["end_ms"]), int(row.get("bytes") or 0)) for row in csv.DictReader(file)]


def steps_of(con: Any, query: Optional[int] = None) -> tuple[int, list[Step]]:
    """The steps of a query, by its query_id, or of the last one; and what the device did for all of them meanwhile"""
    if query is None:
        found = con.execute("SELECT max(query_id) FROM vibe_timeline()").fetchone()[0]
        if found is None:
            raise ValueError("no query has left steps in vibe_timeline(): only queries with operators of vibespatial do")
        query = int(found)
    rows = con.execute(
        "WITH own AS (FROM vibe_timeline() WHERE query_id = ?), bounds AS (SELECT min(begin_time) AS b, max(end_time) AS e FROM own) "
        "SELECT lane, step, epoch_us(begin_time), epoch_us(end_time), bytes FROM own UNION ALL "
        "SELECT lane, step, epoch_us(begin_time), epoch_us(end_time), bytes FROM vibe_timeline(), bounds "
        "WHERE query_id IS NULL AND end_time >= b AND begin_time <= e ORDER BY 3",
        [query],
    ).fetchall()
    if not rows:
        raise ValueError(f"query {query} has left no steps in vibe_timeline(), or others have taken their place since")
    return query, [Step(lane, name, begin / 1e3, end / 1e3, size) for lane, name, begin, end, size in rows]


def write_timeline(con: Any, path: Union[str, os.PathLike[str]], query: Optional[int] = None) -> int:
    """Writes a picture of a query as an SVG, and returns the query_id.

    The last query of the process that ran an operator of vibespatial, or the one with this query_id of vibe_timeline(). Bars are what it
    spent its time on: scan, sink, index, wait, upload, kernels, download and emit, and beside them how the device came up and which of its
    kernels were loaded or compiled meanwhile.

    >>> con.execute("SELECT count(*) FROM points p JOIN areas a ON ST_Within(p.geom, a.geom)")
    >>> vibespatial.write_timeline(con, "query.svg")
    """
    query, steps = steps_of(con, query)
    text = con.execute("SELECT max(query) FROM vibe_dispatch_log() WHERE query_id = ?", [query]).fetchone()[0]
    with open(path, "w", encoding="utf-8") as file:
        file.write(draw(steps, text or f"query {query}"))
    return query
