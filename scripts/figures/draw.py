#!/usr/bin/env python3
"""Draws the figures of the documentation into docs/figures.

usage: draw.py [NAME]...

NAME is a figure (layers, timeline, timeline-cold, timeline-warm, timeline-resident, cells, tile, joins, cost-per-point, overlays, gpu,
spatialbench); without one, all are drawn. Charts read their numbers from the tables of docs/measurements. The cells come from the engine itself: that figure needs build/release and a C++ compiler.
"""
import functools
import sys

import cells
import charts
import layers
import tile
import timeline
from style import FOLDER, save

FIGURES = {
    "layers": layers.draw,
    **{name: functools.partial(timeline.draw, name) for name in timeline.QUERIES},
    "cells": cells.draw,
    "tile": tile.draw,
    "joins": charts.draw_joins,
    "cost-per-point": charts.draw_cost_per_point,
    "overlays": charts.draw_overlays,
    "gpu": charts.draw_gpu,
    "spatialbench": charts.draw_spatialbench,
}


def main():
    names = sys.argv[1:] or list(FIGURES)
    if unknown := [name for name in names if name not in FIGURES]:
        raise SystemExit(f"no figure is called {', '.join(unknown)}\n\n{__doc__.strip()}")
    for name in names:
        save(FIGURES[name](), name)
        print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
