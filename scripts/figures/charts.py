"""Charts of the numbers in docs/measurements. The tables there are the only source: a chart cannot disagree with its page."""
import re

import matplotlib.pyplot as plt

from style import BLUE, GREEN, GREY, INK, ORANGE, RED, ROOT, VIOLET

PAGES = ROOT / "docs" / "measurements"
ENGINES = {"vibespatial": BLUE, "spatial": ORANGE, "SedonaDB": GREEN, "GeoPandas": VIOLET, "cpu": GREY, "gpu": BLUE, "auto": RED}


def table(page, first_column):
    """The rows of the table whose first column has that heading, as dictionaries."""
    rows = []
    heading = None
    for line in (PAGES / page).read_text().splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if not cells:
            if rows:
                return rows
            heading = None
        elif heading is None:
            heading = cells
        elif heading[0] == first_column and not set(line) <= set("|- "):
            rows.append(dict(zip(heading, cells)))
    if not rows:
        raise SystemExit(f"{page} has no table whose first column is '{first_column}'")
    return rows


def number(text):
    """The first number of a cell; None where there is none, or only a bound."""
    match = re.match(r"[\d.,]+", text)
    return float(match[0].replace(",", "")) if match else None


def ratio_chart(rows, labels, column, title):
    """Bars with how many times as fast as the best peer"""
    ratios = [number(row[column]) for row in rows]
    figure, axes = plt.subplots(figsize=(9.6, 0.27 * len(rows) + 1.3))
    positions = range(len(rows))
    axes.barh(positions, ratios, color=BLUE, height=0.66)
    for position, ratio in zip(positions, ratios):
        axes.text(ratio * 1.04, position, f"{ratio:.0f}x" if ratio >= 20 else f"{ratio:.1f}x", va="center", fontsize=8.5, color=INK)
    axes.set_xscale("log")
    axes.set_xlim(1, max(ratios) * 1.6)
    axes.set_xticks([tick for tick in (1, 2, 5, 10, 20, 50, 100) if tick < max(ratios) * 1.6])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.minorticks_off()
    axes.set_yticks(list(positions), labels, color=INK, fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.set_xlabel("wall time of the best peer divided by ours, logarithmic")
    axes.set_title(title)
    return figure


def draw_joins():
    rows = table("joins.md", "left x right, condition, result")
    return ratio_chart(rows, [row["left x right, condition, result"] for row in rows], "wall ratio",
                       "Joins: speed-up over the best of spatial, SedonaDB and GeoPandas (2 cores)")


def draw_overlays():
    rows = [row for row in table("overlays.md", "case") if number(row.get("wall ratio", "")) is not None]
    return ratio_chart(rows, [row["case"] for row in rows], "wall ratio", "Unions and overlays: speed-up over the best peer (2 cores)")


def lines_chart(series, title, x_label, y_label):
    figure, axes = plt.subplots(figsize=(9.6, 4.4))
    for name, points in series.items():
        x, y = zip(*points)
        label = f"vibespatial, mode {name}" if name in ("cpu", "gpu", "auto") else name
        axes.plot(x, y, "o-", color=ENGINES[name], label=label, linewidth=1.8, markersize=4.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(which="major")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title)
    axes.legend(loc="best")
    return figure


def count(text):
    return float(text[:-1]) * {"k": 1e3, "M": 1e6}[text[-1]]


def draw_cost_per_point():
    rows = [row for row in table("joins.md", "points") if row["points"] in ENGINES]
    series = {row["points"]: [(count(size), number(value)) for size, value in row.items() if size != "points"] for row in rows}
    return lines_chart(series, "Points in provinces: CPU time per point (2 cores)", "points", "microseconds of CPU per point")


def draw_gpu():
    rows = [row for row in table("gpu.md", "points in provinces") if row["points in provinces"].endswith(", count")]
    series = {}
    for row in rows:
        points = count(row["points in provinces"].split(",")[0])
        for engine in ("cpu", "gpu", "auto", "SedonaDB", "spatial"):
            if (value := number(row[engine])) is not None:
                series.setdefault(engine, []).append((points, value))
    return lines_chart(series, "Counting points in 4,556 provinces (H200 and 16 cores)", "points", "milliseconds")


def draw_spatialbench():
    """CPU seconds of each engine, and a line where the same query without geometry ends; one that was stopped has a pale bar"""
    rows = table("spatialbench.md", "query")
    names = [name for name in rows[0] if name in ENGINES]
    figure, axes = plt.subplots(figsize=(9.6, 0.62 * len(rows) + 1.3))
    height = 0.8 / len(names)
    for at, row in enumerate(rows):
        for position, name in enumerate(names):
            # CPU / wall, or > limit
            bound = row[name].startswith(">")
            seconds = number(row[name].strip("> "))
            if seconds is None:
                continue
            y = at - 0.4 + (position + 0.5) * height
            axes.barh(y, seconds, color=ENGINES[name], height=height * 0.9, alpha=0.35 if bound else 1, label=name if at == 0 else None)
            axes.text(seconds * 1.06, y, f"stopped after {seconds:g} s" if bound else f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}", va="center",
                      fontsize=7.5, color=INK)
        if "/" in row.get("floor", ""):
            floor = number(row["floor"])
            axes.plot([floor, floor], [at - 0.42, at + 0.42], color=INK, linewidth=1.2, label="without geometry" if at == 0 else None)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(range(len(rows)), [row["query"] for row in rows], color=INK)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.set_xlabel("CPU seconds, logarithmic")
    axes.set_title("SpatialBench, scale 1: six million trips (2 cores)")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.08), ncols=4)
    return figure
