"""vibe_timeline() tells one query's steps from another's, and write_timeline() draws them."""
import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

from conftest import ROOT
from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)
from test_gpu_warm import COUNT, TABLES

PACKAGE = ROOT / "python" / "vibespatial"
SVG = "{http://www.w3.org/2000/svg}"
STEPS = ("SELECT query_id, list_sort(list(DISTINCT lane)), sum(bytes) FILTER (lane = 'upload'), sum(bytes) FILTER (lane = 'download'), "
         "bool_and(begin_time <= end_time) FROM vibe_timeline() WHERE query_id IS NOT NULL GROUP BY query_id ORDER BY query_id")
LANES = ["download", "emit", "index", "kernels", "scan", "sink", "upload", "wait"]


@pytest.fixture(scope="module")
def timeline():
    spec = importlib.util.spec_from_file_location("vibespatial_timeline", PACKAGE / "_timeline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bars(svg):
    """The tooltips, by the row that a bar is drawn in"""
    rows = {}
    for rectangle in xml.fromstring(svg).iter(SVG + "rect"):
        about = rectangle.find(SVG + "title")
        if about is not None:
            rows.setdefault(float(rectangle.get("y")), []).append((about.text, rectangle.get("fill"), float(rectangle.get("width"))))
    return rows


@pytest.mark.parametrize("what, operation, lanes", [
    (COUNT, "join_points", LANES),
    ("SELECT count(*) FROM roads r JOIN areas a ON ST_Crosses(r.g, a.g)", "join_shapes", LANES),
    ("SELECT count(*) FROM vibe_knn('points', 'roads', 2)", "knn_shapes", ["download", "emit", "index", "kernels", "upload", "wait"]),
    ("SELECT count(*) FROM paired WHERE ST_Intersects(p, q)", "scalar_pairs", ["download", "emit", "kernels", "upload", "wait"]),
])
def test_steps_of_each_query(process, fake, what, operation, lanes):  # noqa: F811
    log = f"SELECT query_id, query FROM vibe_dispatch_log() WHERE operation = '{operation}' ORDER BY sequence"
    # Nothing stays on the device, so that both queries upload
    load, results = process("SET vibe_cache = 0", "SET vibe_execution_mode = 'gpu'", *TABLES, what, what, STEPS, log,
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    steps, events = results[-2:]
    assert len(steps) == 2 and steps[0][0] < steps[1][0]
    for (query, found, uploaded, downloaded, ordered), (logged, text) in zip(steps, events):
        assert logged == query and text == what and ordered
        assert set(found) - {"wait"} == set(lanes) - {"wait"}
        assert uploaded > 100 and downloaded > 0


def test_the_cpu_leaves_steps_without_a_log(process, tmp_path):  # noqa: F811
    load, results = process("SET vibe_execution_mode = 'cpu'", *TABLES, COUNT, STEPS, "SELECT count(*) FROM vibe_dispatch_log()",
                            VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    ((_, lanes, uploaded, _, _),), ((events,),) = results[-2:]
    assert lanes == ["emit", "index", "scan", "sink"] and uploaded is None and events == 0


def test_waits_are_steps(process, fake):  # noqa: F811
    load, results = process("FROM vibe_ensure_warm(0.1, 'knn')", "SET vibe_kernel_timeout = 0.3", "SET vibe_gpu_min_rows = 0", *TABLES, COUNT,
                            "SELECT step, ms FROM vibe_timeline() WHERE lane = 'wait'", VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="cold")
    (step, ms), = results[-1]
    assert step == "kernels: point_in_polygon" and ms > 250


def test_a_picture(timeline):
    step = timeline.Step
    svg = timeline.draw([step("scan", "build side", 100, 140), step("wait", "device", 140, 150), step("upload", "tile", 150, 152, 3_000_000),
                         step("upload", "tile", 151, 154, 1_000), step("upload", "tile", 154, 155, 0), step("odd", "<b>", 100, 101)], "SELECT 1 < 2")
    rows = bars(svg)
    texts = [text for row in rows.values() for text, *_ in row]
    assert "build side: 40 ms, from 0.00 ms" in texts and "tile: 2.00 ms, from 50 ms, 3.0 MB" in texts and "<b>: 1.00 ms, from 0.00 ms" in texts
    # Bars that overlap are in rows of their own, others share one
    assert sorted(len(row) for row in rows.values()) == [1, 1, 1, 1, 2]
    assert [fill for row in rows.values() for text, fill, _ in row if text.startswith("device")] == ["url(#waiting)"]
    widths = {text: width for row in rows.values() for text, _, width in row}
    assert widths["build side: 40 ms, from 0.00 ms"] == pytest.approx(4 * widths["device: 10 ms, from 40 ms"], rel=1e-3)
    words = [element.text for element in xml.fromstring(svg).iter(SVG + "text")]
    assert "SELECT 1 < 2" in words and "3.0 MB" in words and words.index("scan") < words.index("wait") < words.index("upload") < words.index("odd")
    # Nothing is loaded from elsewhere
    assert not re.search(r"(href|src|url)\s*[=(]\s*[\"']?(http|//)", svg.replace("url(#waiting)", ""))


def test_many_steps_stay_readable(timeline):
    steps = [timeline.Step("kernels", f"tile {i}", i * 0.1, i * 0.1 + 100) for i in range(500)]
    assert len(bars(timeline.draw(steps))) == 12
    with pytest.raises(ValueError, match="no steps to draw"):
        timeline.draw([])


WRITE = """
import duckdb, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("timeline", sys.argv[2])
timeline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(timeline)
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{sys.argv[1]}'")
errors = []
def refused(*arguments):
    try:
        timeline.write_timeline(con, *arguments)
    except ValueError as error:
        errors.append(str(error))
refused("none.svg")
con.execute("CREATE TABLE squares AS SELECT ST_MakeEnvelope(i, 0, i + 1, 1) AS g FROM range(1000) t(i)")
for predicate in ("ST_Touches", "ST_Equals"):
    con.execute(f"SELECT count(*) FROM squares a JOIN squares b ON {predicate}(a.g, b.g)").fetchall()
last = timeline.write_timeline(con, "last.svg")
first = con.execute("SELECT min(query_id) FROM vibe_timeline()").fetchone()[0]
assert timeline.write_timeline(con, "first.svg", first) == first < last
refused("none.svg", 10 ** 9)
print(json.dumps(errors))
"""


def test_one_call_writes_it(extension, tmp_path):
    result = subprocess.run([sys.executable, "-c", WRITE, str(extension), str(PACKAGE / "_timeline.py")], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    errors = json.loads(result.stdout)
    assert "no query has left steps" in errors[0] and "query 1000000000 has left no steps" in errors[1]
    for name, predicate in (("first.svg", "ST_Touches"), ("last.svg", "ST_Equals")):
        text = (tmp_path / name).read_text()
        titles = [element.text for element in xml.fromstring(text).iter(SVG + "title")]
        assert predicate in titles[0] and any(title.startswith("build side: ") for title in titles[1:])
    assert not (tmp_path / "none.svg").exists()


def test_the_figures_of_the_documentation(timeline):
    """Drawn by the same code, from steps that were measured"""
    source = re.search(r"^COUNT = .*?^}$", (ROOT / "scripts" / "figures" / "timeline.py").read_text(), re.M | re.S)[0]
    titles = {}
    exec(source, titles)
    for name, title in titles["QUERIES"].items():
        steps = timeline.read(ROOT / "docs" / "figures" / "data" / f"{name}.csv")
        assert (ROOT / "docs" / "figures" / f"{name}.svg").read_text() == timeline.draw(steps, title)
        assert {step.lane for step in steps} <= set(timeline.LANES)
