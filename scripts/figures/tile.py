"""A tile on its way through the GPU: what is copied, which kernels run, what comes back."""
from style import BLUE, GREEN, GREY, MUTED, ORANGE, arrow, box, canvas


def draw():
    figure, axes = canvas(1020, 560)
    axes.text(20, 24, "A tile on its way through the GPU", fontsize=13, fontweight="bold", va="center")
    axes.text(20, 44, "Each thread fills one tile while the device works on another. Nothing is returned before its tile is final.", fontsize=9, color=MUTED, va="center")

    axes.text(20, 78, "CPU", fontsize=11, fontweight="bold", color=BLUE, va="center")
    axes.text(322, 264, "GPU, one stream per tile", fontsize=11, fontweight="bold", color=ORANGE, va="center")
    axes.plot([20, 1000], [240, 240], color="#c9d1d8", linewidth=1, linestyle=":")

    box(axes, 20, 96, 170, 92, "scan", ["chunks of 2,048 rows", "from DuckDB"], BLUE)
    box(axes, 230, 96, 200, 92, "fill a tile", ["65,536 points, 16 bytes each,", "or 16,384 shapes as WKB,", "in pinned memory"], BLUE)
    box(axes, 610, 96, 180, 92, "finish the tile", ["decide open pairs,", "redo rows that were left,", "on failure: the whole tile"], BLUE)
    box(axes, 830, 96, 170, 92, "emit", ["residual, aggregates,", "rows"], BLUE)
    arrow(axes, (190, 142), (229, 142))
    arrow(axes, (790, 142), (829, 142))

    y, height = 285, 84
    box(axes, 20, y, 130, height, "upload", ["points, or WKB in", "blocks of 1 MiB"], GREY)
    box(axes, 176, y, 120, height, "decode", ["wkb_shapes:", "WKB to shapes"], ORANGE)
    box(axes, 322, y, 138, height, "candidates", ["tree_pairs: search", "the box tree"], ORANGE)
    box(axes, 486, y, 206, height, "refine", ["relate_pairs, point_relations,", "shape_distances, ..:", "true, false or open"], ORANGE)
    box(axes, 718, y, 138, height, "output", ["keep_pairs: pairs,", "counts or flags"], ORANGE)
    box(axes, 882, y, 118, height, "download", ["results, open", "pairs, rows left"], GREY)
    for x0, x1 in ((150, 175), (296, 321), (460, 485), (692, 717), (856, 881)):
        arrow(axes, (x0, y + height / 2), (x1, y + height / 2))
    box(axes, 322, 400, 370, 62, "cells", ["points in areas: cell_pairs, cell_counts or cell_found", "look up the cell, which is already the answer"], GREEN)
    arrow(axes, (85, y + height), (321, 431), bend=0.22)
    arrow(axes, (692, 431), (941, y + height), bend=0.22)
    axes.text(120, 440, "points in areas", fontsize=8.5, color=MUTED, ha="left")

    arrow(axes, (300, 188), (85, y - 1), BLUE)
    axes.text(248, 222, "the thread starts the device and fills the next tile", fontsize=8.5, color=MUTED, ha="left")
    arrow(axes, (941, y), (720, 189), ORANGE)
    axes.text(770, 222, "the thread waits for an earlier tile", fontsize=8.5, color=MUTED, ha="right")

    axes.text(20, 495, "If a list was too small, the kernels run again with enough room. If device memory runs out, the tile is halved, up to four times, then done by the CPU.", fontsize=9,
              va="center", color="#3c4a56")
    axes.text(20, 515, "A build side goes to the device once and stays for the next query with the same bytes (vibe_cache).", fontsize=9, va="center", color="#3c4a56")
    axes.text(20, 535, "Up to 32 tiles are in flight at the same time.", fontsize=9, va="center", color="#3c4a56")
    return figure
