"""What all figures share: colours, fonts, and SVG files that are the same each time they are drawn."""
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "figures"

INK, MUTED, LINE, PAPER = "#22303c", "#66737f", "#c9d1d8", "#ffffff"
BLUE, ORANGE, GREEN, GREY, RED, VIOLET = "#2f6fab", "#e08a2c", "#3f9254", "#98a4af", "#c2504c", "#7d62a8"
PALE = {BLUE: "#e3eef8", ORANGE: "#fcf0e0", GREEN: "#e5f3e8", GREY: "#f1f4f6", RED: "#fae6e5", VIOLET: "#efeaf6"}

plt.rcParams.update({
    "svg.fonttype": "none",
    "svg.hashsalt": "vibespatial",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": "#e6eaee",
    "legend.frameon": False,
    "figure.facecolor": PAPER,
})


def save(figure, name):
    """A figure of matplotlib, or the text of an SVG"""
    FOLDER.mkdir(exist_ok=True)
    if isinstance(figure, str):
        (FOLDER / f"{name}.svg").write_text(figure)
        return
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.12)
    plt.close(figure)


def canvas(width, height):
    """A drawing area in which one unit is a hundredth of an inch, with y pointing down."""
    figure = plt.figure(figsize=(width / 100, height / 100))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return figure, axes


def box(axes, x, y, width, height, title="", lines=(), colour=GREY, fill=None, align="center", size=9.5, style="-"):
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=6", linewidth=1.2, linestyle=style,
                                  edgecolor=colour, facecolor=PALE.get(colour, PAPER) if fill is None else fill))
    at = x + width / 2 if align == "center" else x + 10
    total = (1 if title else 0) + len(lines)
    step = size * 1.72
    first = y + height / 2 - (total - 1) * step / 2 if align == "center" else y + 17
    for number, text in enumerate([title] * bool(title) + list(lines)):
        is_title = bool(title) and number == 0
        axes.text(at, first + number * step, text, ha=align if align == "center" else "left", va="center", fontsize=size if is_title else size - 1,
                  fontweight="bold" if is_title else "normal", color=INK if is_title else "#3c4a56")


def arrow(axes, start, end, colour=MUTED, style="-|>", bend=0.0, line="-", width=1.3):
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=11, linewidth=width, linestyle=line, color=colour, shrinkA=0, shrinkB=0,
                                   connectionstyle=f"arc3,rad={bend}"))
