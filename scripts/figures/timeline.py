"""One join right after LOAD on a time axis, drawn as vibespatial.write_timeline() draws any query."""
import importlib.util

from style import FOLDER, ROOT

DATA = FOLDER / "data" / "timeline.csv"


def drawing():
    """The package's own module, without the package, which needs DuckDB"""
    spec = importlib.util.spec_from_file_location("vibespatial_timeline", ROOT / "python" / "vibespatial" / "_timeline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw():
    module = drawing()
    return module.draw(module.read(DATA), "One join of 2M x 2M boxes, right after LOAD (H200, 16 cores, mode gpu)")
