"""Joins on a time axis, drawn as vibespatial.write_timeline() draws any query."""
import importlib.util

from style import FOLDER, ROOT

DATA = FOLDER / "data"
#: A file of steps, and what they are of
COUNT = "10M points in 642 provinces (H200, 16 cores, mode auto): "
QUERIES = {
    "timeline": "One join of 2M x 2M boxes, right after LOAD (H200, 16 cores, mode gpu)",
    "timeline-cold": COUNT + "right after LOAD, kernels compiled meanwhile",
    "timeline-warm": COUNT + "warm",
    "timeline-resident": COUNT + "warm, and the points pinned",
}


def drawing():
    """The package's own module, without the package, which needs DuckDB"""
    spec = importlib.util.spec_from_file_location("vibespatial_timeline", ROOT / "python" / "vibespatial" / "_timeline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(name):
    module = drawing()
    return module.draw(module.read(DATA / f"{name}.csv"), QUERIES[name])
