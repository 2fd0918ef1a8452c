"""The cell index over a real map: the cells that the engine builds for the European provinces of data/provinces.parquet."""
import csv
import io
import pathlib
import subprocess
import tempfile

import duckdb
import matplotlib.pyplot as plt
import shapely
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from style import BLUE, GREEN, INK, ORANGE, PALE, ROOT

BUILD = ROOT / "build" / "release"
PROVINCES, CITIES = ROOT / "data" / "provinces.parquet", ROOT / "data" / "cities.parquet"
POINTS = 0    # unknown, which the engine takes as many
EUROPE = (-12, 34, 30, 60)
WINDOW = (11.4, 45.0, 16.7, 47.4)


def engine_cells(areas):
    """Compiles cells.cpp against the built engine and asks it for the cells of the window."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "cells"
        subprocess.run(["g++", "-std=c++17", "-O1", "-ffp-contract=off", f"-I{ROOT / 'src'}", f"-I{ROOT / 'kernels' / 'include'}",
                        pathlib.Path(__file__).with_name("cells.cpp"), BUILD / "libvibespatial_core.a", "-o", program, "-lpthread", "-ldl"], check=True)
        text = subprocess.run([program, str(POINTS), *map(str, WINDOW)], input="\n".join(wkb.hex() for wkb in areas), capture_output=True, text=True,
                              check=True).stdout
    return [(int(depth), kind, int(edges), *map(float, corners)) for depth, kind, edges, *corners in csv.reader(io.StringIO(text))]


def as_path(rings):
    """All rings as one path, which makes a small file."""
    codes = [code for ring in rings for code in [Path.MOVETO] + [Path.LINETO] * (len(ring) - 2) + [Path.CLOSEPOLY]]
    return Path([vertex for ring in rings for vertex in ring], codes)


def draw():
    con = duckdb.connect()
    areas = [bytes(row[0]) for row in con.execute(f"SELECT ST_AsWKB(geom) FROM '{PROVINCES}'").fetchall()]
    areas = [wkb for wkb in areas if shapely.box(*EUROPE).covers(shapely.from_wkb(wkb))]
    cities = [shapely.from_wkb(bytes(row[0])) for row in con.execute(f"SELECT ST_AsWKB(geom) FROM '{CITIES}'").fetchall()]
    cells = engine_cells(areas)

    figure, axes = plt.subplots(figsize=(9.6, 7.2))
    colours = {"empty": "#ffffff", "full": PALE[GREEN], "edges": PALE[ORANGE]}
    for kind, colour in colours.items():
        rings = [[(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)] for _, k, _, x0, y0, x1, y1 in cells if k == kind]
        if rings:
            axes.add_patch(PathPatch(as_path(rings), facecolor=colour, edgecolor="#b9c3cc", linewidth=0.4))
    window = shapely.box(*WINDOW)
    lines = []
    for wkb in areas:
        clipped = shapely.intersection(shapely.simplify(shapely.from_wkb(wkb), 0.004), window.buffer(0.1))
        for part in getattr(clipped, "geoms", [clipped]):
            if part.geom_type == "Polygon" and not part.is_empty:
                lines += [list(ring.coords) for ring in (part.exterior, *part.interiors)]
    axes.add_patch(PathPatch(as_path(lines), facecolor="none", edgecolor=INK, linewidth=0.8))
    inside = [city for city in cities if window.covers(city)]
    axes.plot([city.x for city in inside], [city.y for city in inside], "o", color=BLUE, markersize=4)
    axes.set_xlim(WINDOW[0], WINDOW[2])
    axes.set_ylim(WINDOW[1], WINDOW[3])
    axes.set_aspect(1.43)
    axes.set_xlabel("longitude")
    axes.set_ylabel("latitude")
    axes.set_title(f"The cell index over {len(areas)} provinces: from Venice to Slovenia")
    counts = {kind: sum(cell[1] == kind for cell in cells) for kind in colours}
    mean = sum(cell[2] for cell in cells) / max(counts["edges"], 1)
    handles = [Patch(facecolor=colours["full"], edgecolor="#b9c3cc", label=f"filled by one area: a point here is a hit at once ({counts['full']:,} cells)"),
               Patch(facecolor=colours["edges"], edgecolor="#b9c3cc", label=f"edges pass through: a point looks at these, {mean:.0f} on average ({counts['edges']:,} cells)"),
               Patch(facecolor=colours["empty"], edgecolor="#b9c3cc", label=f"no area: no hit ({counts['empty']:,} cells)"),
               plt.Line2D([], [], color=BLUE, marker="o", linestyle="", markersize=4, label=f"cities of 100,000 people and more ({len(inside)})")]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=1, fontsize=9)
    return figure
