"""One join right after LOAD on a time axis: what the query does, and how the device comes up beside it."""
import csv

import matplotlib.pyplot as plt

from style import BLUE, FOLDER, GREEN, INK, MUTED, ORANGE

DATA = FOLDER / "data" / "timeline.csv"
COLOURS = {"query": GREEN, "start": BLUE, "kernels": ORANGE}
TITLES = {
    "query": [("scan of the build side", "scan build side"), ("scan of the probe side", "scan probe side into tiles"), ("wait for the device", "wait"),
              ("build side to device", "upload build side, pack tree"), ("pairs", "tiles: find pairs")],
    "start": [("plug-in", "open plug-in"), ("driver", "driver (cuInit)"), ("context", "CUDA context"), ("libraries", "open NVRTC, nvJitLink, CCCL"),
              ("pinned memory", "pinned memory"), ("memory", "memory pool")],
}


def read():
    with open(DATA) as file:
        return [(row["lane"], row["step"], float(row["begin_ms"]), float(row["end_ms"])) for row in csv.DictReader(file)]


def draw():
    steps = read()
    by_name = {(lane, step): (begin, end) for lane, step, begin, end in steps}
    bars = [(lane, title, *by_name[lane, step]) for lane in ("query", "start") for step, title in TITLES[lane]]
    kernels = [(begin, end) for lane, _, begin, end in steps if lane == "kernels"]
    bars.append(("kernels", f"{len(kernels)} kernels from the pack", min(b for b, _ in kernels), max(e for _, e in kernels)))

    last = max(bar[3] for bar in bars)
    figure, axes = plt.subplots(figsize=(9.6, 4.3))
    heading = {"query": "CPU: the query", "start": "GPU: start, in the background", "kernels": ""}
    y, ticks, labels = 0.0, [], []
    before = None
    for lane, title, begin, end in bars:
        if lane != before and heading[lane]:
            y += 0.9
            axes.text(-2, y - 0.78, heading[lane], fontsize=9.5, fontweight="bold", color=COLOURS[lane], ha="left", va="center", clip_on=False)
        before = lane
        axes.barh(y, max(end - begin, 0.8), left=begin, height=0.62, color=COLOURS[lane])
        length = f"{end - begin:.0f} ms" if end - begin >= 10 else f"{end - begin:.1f} ms"
        if end - begin >= 40:
            axes.text((begin + end) / 2, y, length, va="center", ha="center", fontsize=8.5, color="white")
        else:
            axes.text(end + 3, y, length, va="center", fontsize=8.5, color=MUTED)
        ticks.append(y)
        labels.append(title)
        y += 0.86
    ready = by_name["query", "wait for the device"][1]
    axes.axvline(ready, color=INK, linewidth=0.9, linestyle=":")
    axes.text(ready - 3, y - 0.25, "device ready", ha="right", va="center", fontsize=8.5)
    axes.set_ylim(y + 0.1, -0.2)
    axes.set_xlim(0, last + 22)
    axes.set_yticks(ticks, labels, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("milliseconds since the process was started")
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.set_title("One join of 2M x 2M boxes, right after LOAD (H200, 16 cores, mode gpu)")
    return figure
