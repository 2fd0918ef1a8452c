"""Layers and link targets: what may include what, and what is linked into which file."""
from style import BLUE, GREEN, GREY, INK, MUTED, ORANGE, VIOLET, arrow, box, canvas


def draw():
    figure, axes = canvas(1020, 640)

    def target(x, y, width, height, title, note, colour):
        box(axes, x, y, width, height, colour=colour, fill="#ffffff", style="--")
        axes.text(x + 12, y + 18, title, fontsize=10.5, fontweight="bold", color=colour, va="center")
        axes.text(x + 12, y + 35, note, fontsize=8.5, color=MUTED, va="center")

    target(20, 60, 560, 500, "vibespatial.duckdb_extension", "one per DuckDB version; DuckDB opens it at LOAD", BLUE)
    target(640, 60, 360, 250, "libvibespatial_cuda.so", "opened in the background if there may be a GPU", ORANGE)
    target(640, 330, 360, 106, "vibespatial-compile", "a program; compiles kernels, makes kernels.pack", ORANGE)
    target(640, 456, 360, 104, "libvibespatial_arrow.so", "opened by the first query on an Arrow file", VIOLET)

    box(axes, 40, 112, 520, 62, "src/duckdb", ["functions, tables, arrow, parquet: what a user calls",
                                              "spatial_join, knn, scalar_batch, overlay: one operator each"], BLUE)
    box(axes, 40, 204, 520, 132, colour=GREEN)
    axes.text(300, 222, "src/engine", ha="center", va="center", fontsize=9.5, fontweight="bold", color=INK)
    for number, (name, note) in enumerate([("join", "pairs, neighbours"), ("overlay, relate", "and other functions"), ("index, shape", "input, common"),
                                           ("gpu, dispatch", "interface, runtime")]):
        box(axes, 52 + number * 125, 238, 121, 44, colour=GREEN, fill="#ffffff")
        axes.text(112 + number * 125, 252, name, ha="center", va="center", fontsize=8.5, fontweight="bold")
        axes.text(112 + number * 125, 268, note, ha="center", va="center", fontsize=8, color="#3c4a56")
    axes.text(300, 306, "knows no DuckDB and no CUDA; one static library, libvibespatial_core.a,", ha="center", va="center", fontsize=8.5)
    axes.text(300, 321, "together with src/geometry", ha="center", va="center", fontsize=8.5)
    box(axes, 40, 366, 520, 56, "src/geometry", ["WKB, GeoJSON, GeoArrow, GeoParquet metadata: bytes in and out"], GREEN)
    box(axes, 40, 452, 520, 88, "kernels/include/vibe", ["the geometry core: exact predicates, relate, distance, measures",
                                                        "compiled by g++ for the CPU and by NVRTC for the GPU"], GREY)
    for y in (174, 336, 422):
        arrow(axes, (300, y + 2), (300, y + 28))

    box(axes, 656, 112, 328, 66, "src/gpu_plugin/device", ["CUDA, RMM, CCCL: streams, memory, launches", "box index, join, knn, unions, functions"], ORANGE)
    box(axes, 656, 196, 328, 44, "src/gpu_plugin/compile", ["libraries, compilers, cache, pack, precompiler"], ORANGE)
    box(axes, 656, 254, 328, 42, "libvibespatial_core.a", ["src/engine and src/geometry again"], GREEN)
    arrow(axes, (820, 178), (820, 195))
    arrow(axes, (820, 240), (820, 253))
    box(axes, 656, 380, 328, 44, "src/compile_helper", ["with src/gpu_plugin/compile; NVRTC, CCCL"], ORANGE)
    box(axes, 656, 506, 328, 42, "src/arrow_plugin", ["Apache Arrow C++"], VIOLET)

    arrow(axes, (560, 250), (638, 230), BLUE, line="--")
    arrow(axes, (560, 320), (638, 508), BLUE, line="--")
    axes.text(584, 218, "dlopen", fontsize=8.5, color=BLUE, ha="left")
    axes.text(592, 378, "dlopen", fontsize=8.5, color=BLUE, ha="left")
    arrow(axes, (990, 310), (990, 329), ORANGE, line="--")
    axes.text(980, 320, "starts", fontsize=8.5, color=ORANGE, ha="right", va="center")

    axes.text(20, 24, "Layers and link targets", fontsize=13, fontweight="bold", va="center")
    axes.text(20, 44, "Solid arrows: may include. Dashed boxes: files. Dashed arrows: opened or started at run time, never linked.", fontsize=9, color=MUTED, va="center")
    axes.text(20, 585, "kernels/*.cu: GPU entry points over the core, compiled by NVRTC into kernels.pack; kernels/units.json says which operator needs which.", fontsize=9,
              color="#3c4a56", va="center")
    axes.text(20, 605, "scripts/check_layers.py enforces the direction of includes.", fontsize=9, color="#3c4a56", va="center")
    return figure
