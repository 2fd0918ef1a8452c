"""The GPU plug-in as the extension sees it: absent, broken, or a fake that needs no GPU. Each case in a process of its own."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

PLUGIN = "libvibespatial_cuda.so"

SCRIPT = """
import duckdb, json, os, sys, time
connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "temp_directory": os.environ["TEMPORARY_FOLDER"]})
connection.execute("SET enable_progress_bar = false")
begin = time.perf_counter()
connection.execute(f"LOAD '{sys.argv[1]}'")
results = [(time.perf_counter() - begin) * 1e3]
for sql in sys.argv[2:]:
    try:
        results.append(connection.execute(sql).fetchall())
    except duckdb.Error as error:
        results.append(f"{type(error).__name__}: {error}")
print(json.dumps(results, default=str))
"""

TABLES = ["CREATE TABLE boxes AS SELECT ST_MakeEnvelope(i, 0, i + 1, 1) AS g FROM range(300) t(i)",
          # No points, which would ask no tree
          "CREATE TABLE points AS SELECT ST_MakeLine(ST_Point(i / 2, 0.4), ST_Point(i / 2, 0.6)) AS g FROM range(1000) t(i)"]
JOIN = "SELECT count(*) FROM points p JOIN boxes b ON ST_Intersects(p.g, b.g)"
PAIRS = [[900]]
EVENTS = ("SELECT operation, requested, selected, actual, reason, fallback FROM vibe_dispatch_log() "
          "WHERE operation = 'box_index' ORDER BY sequence")
# So many boxes are for the GPU in mode auto
LARGE = ["CREATE TABLE boxes AS SELECT ST_Point(i, 0) AS g FROM range(1000000) t(i)",
         "CREATE TABLE points AS SELECT ST_Point(i, 0) AS g FROM range(2000000) t(i)"]


@pytest.fixture
def process(extension, tmp_path):
    """Runs SQL in a process of its own: the milliseconds of LOAD, and what each statement gave"""
    # Databases in memory share .tmp where they are started, and processes would read each other's files
    temporary = {"TEMPORARY_FOLDER": str(tmp_path / "temporary")}

    def run(*statements, extension=extension, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("VIBESPATIAL_") and name != "FAKE_GPU"}
        command = [sys.executable, "-c", SCRIPT, str(extension), *statements]
        result = subprocess.run(command, env={**clean, **temporary, **environment}, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
        load, *results = json.loads(result.stdout)
        return load, results

    return run


def compiled(folder, source, *options):
    path = folder / PLUGIN
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if not compiler:
        pytest.skip("no compiler")
    subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", "-O1", "-o", str(path), *map(str, source), *options],
                   check=True, cwd=ROOT)
    return folder


#: The folder of the plug-in that works without a GPU, once it is compiled: several files use it
FAKE = []


@pytest.fixture(scope="session")
def fake(tmp_path_factory):
    """The folder of a plug-in that works without a GPU"""
    if FAKE:
        return FAKE[0]
    version = project_version()
    core = BUILD / "libvibespatial_core.a"
    if not core.exists():
        pytest.skip(f"the engine's library is not in {BUILD}")
    FAKE.append(compiled(tmp_path_factory.mktemp("fake"),
                         [ROOT / "test/python/fake_engine.cpp", core],
                         "-ffp-contract=off", f'-DVIBESPATIAL_VERSION="{version}"', "-Isrc", "-Ikernels/include",
                         f"-I{BUILD / 'generated'}", "-I.", "-Itest/unit/support"))
    return FAKE[0]


def interface_of_the_build():
    """A line of C++ with the interface that the extension was built with, without which no plug-in is opened"""
    text = (BUILD / "generated/engine/gpu/interface/version.hpp").read_text()
    return f'extern const char vibespatial_interface[] = "vibespatial-engine-{project_version()}-{re.search(r"-([0-9a-f]{16})", text)[1]}";\n'


def project_version():
    return re.search(r"^project\(vibespatial VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def info(rows, component):
    (row,) = [row for row in rows if row[0] == component]
    return row


def test_load_is_quick(process):
    loads, bare = [], []
    script = ("import time, duckdb; c = duckdb.connect(); c.execute('SELECT 1'); b = time.perf_counter(); "
              "c.execute('LOAD core_functions'); print((time.perf_counter() - b) * 1e3)")
    for _ in range(7):
        loads.append(process()[0])
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        bare.append(float(result.stdout) if result.returncode == 0 else 0)
    print(f"LOAD: {min(loads):.1f} ms, of an extension that is linked in: {min(bare):.1f} ms")
    assert min(loads) < 20  # other processes may keep the machine busy


def test_no_plugin(process, tmp_path):
    load, (rows, status, warm, memory, mode) = process(
        "FROM vibe_gpu_info()", "FROM vibe_precompile_status()", "FROM vibe_ensure_warm(0.1, 'box_index')",
        "FROM vibe_memory_status()", "SET vibe_execution_mode = 'gpu'", VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert load < 1000
    reason = f"{PLUGIN} was not found in {tmp_path}: this installation has no GPU plug-in; 'make' builds it"
    assert info(rows, "plug-in")[1] is False and info(rows, "plug-in")[4] == reason
    assert all(row[2] == "idle" and row[8] == reason for row in status[:-1])
    assert status[-1][8] == "submitted 0, compiled 0, pending 0, failed 0"
    assert warm and all(row[1] == reason for row in warm)
    assert reason in memory[0][1]
    assert mode.startswith("InvalidInputException") and reason in mode and "vibe_gpu_info()" in mode


def test_mode_gpu_from_the_environment_fails_at_the_query(process, tmp_path):
    load, results = process(*TABLES, f"EXPLAIN {JOIN}", JOIN, EVENTS, "SET vibe_execution_mode = 'cpu'", JOIN,
                            VIBESPATIAL_EXECUTION_MODE="gpu", VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert "gpu (vibe" in results[2][0][1]
    assert results[3].startswith("IOException") and PLUGIN in results[3] and "'auto' or 'cpu' go without" in results[3]
    assert results[4][0][:4] == ["box_index", "gpu", "gpu", "none"]
    assert results[6] == PAIRS


def test_mode_auto_goes_without(process, tmp_path):
    load, results = process(*TABLES, JOIN, EVENTS, VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert results[2] == PAIRS
    (event,) = results[3]
    assert event[:4] + event[5:] == ["box_index", "auto", "cpu", "cpu", False]
    # The second on a machine with a GPU
    assert event[4] in ("there is no NVIDIA GPU", "300 rows: below the threshold of 1000000")


def test_found_beside_the_extension(process, extension, tmp_path):
    shutil.copy(extension, tmp_path)
    copy = tmp_path / extension.name
    for folder in (tmp_path, tmp_path / "vibespatial"):
        folder.mkdir(exist_ok=True)
        (folder / PLUGIN).write_text("nothing")
        load, (rows,) = process("FROM vibe_gpu_info()", extension=copy)
        assert info(rows, "plug-in")[2] == str(folder / PLUGIN)


@pytest.mark.parametrize("source, reason", [
    (None, "is no GPU plug-in of vibespatial, or was built with another interface"),
    ("", "could not be loaded: .*(invalid ELF header|file too short)"),
    ("int nothing;", "is no GPU plug-in of vibespatial: .*undefined symbol: vibespatial_open_engine"),
    ('extern "C" void *vibespatial_open_engine(const char *, const void *, const char **error) '
     '{ *error = "made for another version"; return nullptr; }', "made for another version"),
    ('extern "C" void *vibespatial_open_engine(const char *, const void *, const char **) { return nullptr; }',
     "does not say why"),
    ('extern "C" void *vibespatial_open_engine(const char *, const void *, const char **) { throw 1; }',
     "opening the GPU plug-in failed"),
    ('extern "C" void rmm_is_missing(); void *user = (void *)rmm_is_missing;', "undefined symbol: rmm_is_missing"),
], ids=["no plug-in", "no ELF", "no symbol", "other interface", "silent", "throws", "undefined"])
def test_broken_plugin(process, tmp_path, source, reason):
    if not source:
        (tmp_path / PLUGIN).write_text("this is no library" * 100 + (interface_of_the_build() if source == "" else ""))
    else:
        (tmp_path / "plugin.cpp").write_text(interface_of_the_build() + source)
        compiled(tmp_path, [tmp_path / "plugin.cpp"])
    load, results = process("FROM vibe_gpu_info()", "SET vibe_execution_mode = 'gpu'", "FROM vibe_precompile_status()",
                            *TABLES, JOIN, VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert re.search(reason, info(results[0], "plug-in")[4])
    assert re.search(reason, results[1]) and re.search(reason, results[2][0][8])
    assert results[-1] == PAIRS


def test_libraries_of_the_plugin(process, tmp_path):
    """librmm is looked for where pip puts it; without it the reason says what to do"""
    library = tmp_path / "site" / "librmm" / "lib64"
    library.mkdir(parents=True)
    (tmp_path / "rmm.cpp").write_text("extern \"C\" int rmm_symbol() { return 1; }")
    compiled(library, [tmp_path / "rmm.cpp"], "-Wl,-soname,librmm.so")
    (library / PLUGIN).rename(library / "librmm.so")
    (tmp_path / "plugin.cpp").write_text(
        interface_of_the_build() + 'extern "C" int rmm_symbol(); extern "C" void *vibespatial_open_engine(const char *, const void *, '
        'const char **error) { *error = rmm_symbol() ? "librmm is here" : ""; return nullptr; }')
    compiled(tmp_path, [tmp_path / "plugin.cpp"], f"-L{library}", "-l:librmm.so")
    load, (rows,) = process("FROM vibe_gpu_info()", VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert "pip install librmm-cu13==26.8.0" in info(rows, "plug-in")[4]
    for name, folder in (("PYTHONPATH", tmp_path / "site"), ("VIBESPATIAL_LIBRARY_PATH", library)):
        load, (rows,) = process("FROM vibe_gpu_info()", VIBESPATIAL_GPU_FOLDER=str(tmp_path), **{name: str(folder)})
        assert "librmm is here" in info(rows, "plug-in")[4]


def test_fake_engine_builds_the_index(process, fake):
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, f"EXPLAIN {JOIN}", JOIN,
                            "SET vibe_join_partitions = 3", JOIN, "RESET vibe_join_partitions", EVENTS,
                            f"EXPLAIN ANALYZE {JOIN}", "FROM vibe_precompile_status()", "FROM vibe_memory_status()",
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    assert "gpu (vibe_execution_mode" in re.sub(r"\s+", " ", results[3][0][1])
    assert results[4] == PAIRS and results[6] == PAIRS
    index = [event for event in results[8] if event[0] == "box_index"]
    assert len(index) == 4 and all(event[1:4] == ["gpu", "gpu", "gpu"] and not event[5] for event in index)
    assert "Index Engine" in results[9][0][1]
    ready = [row for row in results[10] if row[2] == "ready"]
    assert {"bounds", "indexing"} <= {row[1] for row in ready} and results[10][-1][0] == "total"
    assert results[11][0] == ["pool", "fake", 1, 2, 3]


def test_mode_auto_uses_an_open_engine_for_many_rows(process, fake):
    load, results = process("FROM vibe_ensure_warm(5)", *LARGE, JOIN, EVENTS, VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[0] == [] and results[3] == [[1000000]]
    assert results[4] == [["box_index", "auto", "gpu", "gpu", "1000000 rows: not below the threshold of 1000000", False]]


def test_who_looks_for_pairs_packs_the_tree(process, fake):
    """40,000 boxes are no index for the GPU, but enough pairs for it: it has the tree then, and the CPU has none"""
    boxes = "SELECT ST_MakeEnvelope(i, 0, i + 1.5, 1) AS g FROM range(40000) t(i)"
    load, results = process("FROM vibe_ensure_warm(5)", f"CREATE TABLE boxes AS {boxes}",
                            f"CREATE TABLE points AS {boxes}", JOIN, EVENTS, EVENTS.replace("box_index", "join_shapes"), f"EXPLAIN ANALYZE {JOIN}", VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[3] == [[40000 + 2 * 39999]]
    below, above = results[4]
    assert below[1:4] == ["auto", "cpu", "cpu"] and "below the threshold" in below[4]
    assert above == ["box_index", "auto", "gpu", "gpu", "the GPU looks for the pairs", False]
    assert results[5][0][1:4] == ["auto", "gpu", "gpu"]
    assert re.search(r"Built Index:\s+boxes", re.sub(r"[│\s]+", " ", results[6][0][1]))


def test_mode_auto_measures_some_rows_of_shapes(process, fake):
    """Circles that all meet are work for the GPU, although they are fewer than it takes of others; boxes far from all others are not"""
    circles = "SELECT ST_Buffer(ST_Point(i % 7, i % 5), 10, 60) AS g FROM range({}) t(i)"
    boxes = "SELECT ST_MakeEnvelope(10 * i, 500, 10 * i + 1, 501) AS g FROM range(2000) t(i)"
    far = JOIN.replace("points", "boxes_far")
    corner = "SELECT ST_MakeEnvelope(30000, 490, 30001, 510)"  # no scan skips the boxes
    load, results = process("FROM vibe_ensure_warm(5)", f"CREATE TABLE boxes AS {circles.format(60)} UNION ALL {corner}",
                            f"CREATE TABLE points AS {circles.format(12000)}", f"CREATE TABLE boxes_far AS {boxes}",
                            JOIN.replace("ST_Intersects", "ST_Overlaps"), far, EVENTS.replace("box_index", "join_shapes"),
                            "SET vibe_execution_mode = 'cpu'", JOIN.replace("ST_Intersects", "ST_Overlaps"), VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[4] == results[8] and results[5] == [[0]]
    assert [event[1:4] for event in results[6]] == [["auto", "gpu", "gpu"], ["auto", "cpu", "cpu"]]
    for event, rows, sign in zip(results[6], (12000, 2000), ("not below the", "below the")):
        assert re.fullmatch(rf"{rows} rows: about [\d.]+ ms on the CPU, {sign} [\d.]+ from which the GPU pays(; .*)?", event[4]), event


def test_errors_of_joins_that_only_count(process, fake):
    """Rows that the device leaves to the CPU may be looked at when the scan has ended"""
    join = "SELECT count(*) FROM bad b JOIN points p ON ST_Intersects(b.g, p.g)"
    for mode in ("gpu", "cpu"):
        load, results = process(f"SET vibe_execution_mode = '{mode}'", "CREATE TABLE bad AS SELECT 'LINESTRING (inf 0, 1 1)'::GEOMETRY AS g",
                                "CREATE TABLE points AS SELECT 'POINT (1 1)'::GEOMETRY AS g", join, VIBESPATIAL_GPU_FOLDER=str(fake))
        assert results[3].startswith("InvalidInputException: Invalid Input Error: ST_Intersects: vertex 1 of line 1 is NaN or infinite"), (mode, results[3])


def test_areas_that_meet_few_points_stay_on_the_cpu(process, fake):
    """Most of the work is to read the areas, whatever their number"""
    join = "SELECT count(*) FROM areas a JOIN points p ON ST_Within(p.g, a.g)"
    load, results = process("FROM vibe_ensure_warm(5)", "SET threads = 16",
                            "CREATE TABLE points AS SELECT ST_Point(i * 7.5, 0.01) AS g FROM range(500) t(i)",
                            "CREATE TABLE areas AS SELECT ST_Buffer(ST_Point(i / 10, 0), 0.02, 64) AS g FROM range(40000) t(i)",
                            join, EVENTS.replace("box_index", "join_shapes"), VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[4] == [[500]]
    (event,) = results[5]
    assert event[1:4] == ["auto", "cpu", "cpu"], event
    assert re.match(r"40000 rows: about [\d.]+ ms on the CPU, below the ", event[4]), event


@pytest.mark.parametrize("fault, reason", [("failure", "the fake device fell off"), ("nonsense", "BoxTree"),
                                           ("cold", "was not ready after 0.2 seconds")])
def test_faults(process, fake, fault, reason):
    setup = ["FROM vibe_ensure_warm(0.1)", "SET vibe_kernel_timeout = 0.2", "SET vibe_compile_timeout = 1"]
    load, results = process(*setup, *LARGE, JOIN, EVENTS, "SET vibe_execution_mode = 'gpu'", JOIN, JOIN,
                            "SELECT requested, actual, reason FROM vibe_dispatch_log() WHERE actual = 'none'",
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU=fault)
    assert results[5] == [[1000000]]
    (event,) = results[6]
    assert event[:4] == ["box_index", "auto", "gpu", "cpu"] and reason in event[4] and event[5]
    assert results[8].startswith("IOException") and results[9].startswith("IOException")
    assert results[10] and all(event[0] == "gpu" for event in results[10])
    assert any(reason.replace("0.2", "1.0") in event[2] for event in results[10])


def test_no_device(process, fake):
    load, results = process("SET vibe_execution_mode = 'gpu'", "FROM vibe_ensure_warm(0.1, 'box_index')",
                            "FROM vibe_gpu_info()", "FROM vibe_precompile_status()", *LARGE, JOIN, EVENTS,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="no device")
    assert "the fake device is not there" in results[0] and results[1][0][1] == "the fake device is not there"
    assert info(results[2], "device")[1] is False and info(results[2], "plug-in")[1] is True
    assert results[3][0][2] == "idle" and results[3][0][8] == "the fake device is not there"
    assert results[6] == [[1000000]]
    assert results[7][0][2:4] == ["cpu", "cpu"] and "the fake device is not there" in results[7][0][4]


def test_settings_reach_the_engine(process, fake):
    load, results = process("SET vibe_gpu_memory_limit = '1GB'", "FROM vibe_gpu_info()", "SET vibe_gpu_memory_limit = '2GB'",
                            "FROM vibe_gpu_info()", "SET vibe_gpu_device = 1",
                            VIBESPATIAL_GPU_FOLDER=str(fake), VIBESPATIAL_CACHE_DIR="/tmp/k")
    assert info(results[1], "options")[4] == "1000000000 /tmp/k 2.000000"
    assert info(results[3], "options")[4] == "2000000000 /tmp/k 2.000000"
    assert "open on device 0" in results[4]


@pytest.mark.parametrize("precompile", ["auto", "all", "off"])
def test_plans_ask_for_their_kernels(process, fake, precompile):
    ready = "SELECT name FROM vibe_precompile_status() WHERE state = 'ready' AND kind <> 'total'"
    load, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, f"EXPLAIN {JOIN}", ready,
                            "SET vibe_execution_mode = 'cpu'", "SET vibe_precompile = 'all'",
                            VIBESPATIAL_GPU_FOLDER=str(fake), VIBESPATIAL_PRECOMPILE=precompile)
    assert (["indexing"] in results[4]) == (precompile != "off")


def test_the_device_can_change_before_the_engine_is_open(process, tmp_path):
    load, results = process("SET vibe_gpu_device = 1", "SELECT current_setting('vibe_gpu_device')",
                            VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert results[1] == [[1]]


def test_a_device_that_is_slow(process, fake):
    load, results = process("FROM vibe_ensure_warm(0.3, 'box_index')", *LARGE, JOIN, EVENTS,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="slow device")
    assert results[0][0][1] == "the device was not up after 0.3 seconds"
    assert results[3] == [[1000000]]
    assert results[4][0][2:5] == ["cpu", "cpu", "no device: it is not up yet"]


def test_a_second_database_changes_nothing(extension, fake):
    script = """
import duckdb, sys
def connect():
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{sys.argv[1]}'")
    return connection
first = connect()
first.execute("SET vibe_gpu_memory_limit = '1GB'")
first.execute("SET vibe_gpu_device = 1")
info = "SELECT detail FROM vibe_gpu_info() WHERE component = 'options'"
before = first.execute(info).fetchall()
second = connect()
assert second.execute(info).fetchall() == before and before[0][0].startswith("1000000000 "), before
"""
    result = subprocess.run([sys.executable, "-c", script, str(extension)], capture_output=True, text=True,
                            env={**os.environ, "VIBESPATIAL_GPU_FOLDER": str(fake)})
    assert result.returncode == 0, result.stderr


def test_ends_while_the_plugin_opens(process, fake):
    process("FROM vibe_ensure_warm(0.1, 'box_index')", VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="slow")


# ---------------------------------------------------------------------------------------------------------------------
# Which device
# ---------------------------------------------------------------------------------------------------------------------
def test_a_device_that_does_not_exist(process, fake):
    load, results = process("FROM vibe_ensure_warm(0.1, 'box_index')", "SET vibe_gpu_min_rows = 0", *TABLES, JOIN, EVENTS,
                            "SET vibe_execution_mode = 'gpu'", "SET vibe_gpu_device = 0",
                            VIBESPATIAL_GPU_FOLDER=str(fake), VIBESPATIAL_GPU_DEVICE="7")
    assert results[0][0][1] == "vibe_gpu_device is 7"
    assert results[4] == PAIRS
    assert results[5] == [["box_index", "auto", "cpu", "cpu", "no device: vibe_gpu_device is 7", False]]
    assert results[6].startswith("InvalidInputException") and "vibe_gpu_device is 7" in results[6]
    assert "open on device 7" in results[7] and "VIBESPATIAL_GPU_DEVICE" in results[7]


def test_another_device_is_used(process, fake):
    load, results = process("SET vibe_gpu_device = 1", "SET vibe_execution_mode = 'gpu'", *TABLES, JOIN, EVENTS,
                            "SET vibe_gpu_device = 1", "SET vibe_gpu_device = 0", "SET vibe_gpu_device = -1",
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[4] == PAIRS and results[5][0][1:4] == ["gpu", "gpu", "gpu"]
    assert results[6] == [] and "open on device 1" in results[7]
    assert results[8].startswith("InvalidInputException") and "the number of a GPU" in results[8]


def test_a_device_that_does_not_exist_fails_at_the_query(process, fake):
    load, results = process(*TABLES, JOIN, EVENTS, VIBESPATIAL_GPU_FOLDER=str(fake), VIBESPATIAL_GPU_DEVICE="2",
                            VIBESPATIAL_EXECUTION_MODE="gpu")
    assert results[2].startswith("IOException") and "vibe_gpu_device is 2" in results[2]
    assert results[3][0][1:4] == ["gpu", "gpu", "none"]


# ---------------------------------------------------------------------------------------------------------------------
# Cancelled while it waits
# ---------------------------------------------------------------------------------------------------------------------
CANCEL = """
import duckdb, json, sys, threading, time
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute("SET enable_progress_bar = false")
connection.execute(f"LOAD '{sys.argv[1]}'")
*setup, last = sys.argv[2:]
for sql in setup:
    connection.execute(sql)
at = []
def interrupt():
    at.append(time.perf_counter())
    connection.interrupt()
timer = threading.Timer(0.4, interrupt)
timer.start()
try:
    connection.execute(last).fetchall()
    how = "was not interrupted"
except duckdb.Error as error:
    how = type(error).__name__
timer.join()
took = time.perf_counter() - at[0]
print(json.dumps([how, took, connection.execute("SELECT 42").fetchall()]))
"""
PAIRED = "CREATE TABLE paired AS SELECT ST_Point(i, 0) AS p, ST_MakeEnvelope(i, -1, i + 1, 1) AS q FROM range(1000) t(i)"
CIRCLES = ("CREATE TABLE circles AS SELECT ST_Buffer(ST_Point(i % 50, i // 50), 0.7, 100) AS g FROM range(200) t(i)")
WAITING = {
    "join": (TABLES, JOIN),
    "pairs": ([PAIRED], "SELECT count(*) FROM paired WHERE ST_Intersects(p, q)"),
    "neighbours": ([PAIRED], "SELECT count(*) FROM vibe_knn('SELECT p FROM paired', 'SELECT p FROM paired', 2)"),
    "union": ([CIRCLES], "SELECT ST_Union_Agg(g) FROM circles"),
    "warm": ([], "FROM vibe_ensure_warm(60)"),
    "mode": ([], "SET vibe_execution_mode = 'gpu'"),
    "info": ([], "FROM vibe_gpu_info()"),
}


def require_cancel(extension, fake, statements, **environment):  # noqa: F811
    """The last statement ends within half a second of a cancel, and the connection goes on. Other processes may keep the machine busy."""
    times = []
    for _ in range(3):
        result = subprocess.run([sys.executable, "-c", CANCEL, str(extension), *statements], capture_output=True, text=True,
                                env={**os.environ, "VIBESPATIAL_GPU_FOLDER": str(fake), **environment}, timeout=120)
        assert result.returncode == 0, result.stderr
        how, took, after = json.loads(result.stdout)
        assert how == "InterruptException" and after == [[42]]
        times.append(took)
        if took < 0.5:
            break
    assert min(times) < 0.5


@pytest.mark.parametrize("fault, what", [("cold", "join"), ("cold", "pairs"), ("cold", "neighbours"), ("cold", "union"),
                                         ("cold", "warm"), ("slow device", "join"), ("slow device", "union"),
                                         ("slow device", "mode"), ("slow device", "info"), ("slow", "mode"), ("slow", "info"),
                                         ("slow", "join"), ("slow", "union")])
def test_what_waits_can_be_cancelled(extension, fake, fault, what):
    """For a kernel, for the device, for the plug-in"""
    setup, statement = WAITING[what]
    mode = {} if what == "mode" else {"VIBESPATIAL_EXECUTION_MODE": "gpu"}
    require_cancel(extension, fake, [*setup, statement], FAKE_GPU=fault, **mode)


def test_a_pair_that_is_only_counted_can_be_cancelled(extension, fake):
    """The device leaves it to the CPU, which looks at it when the scan has ended"""
    zigzag = "ST_Point(i // 2 * 2 + (i + 1) // 2 % 2, (i % 4 IN (1, 2))::INT * 20000.0)"
    require_cancel(extension, fake, ["SET threads = 1", "SET vibe_execution_mode = 'gpu'",
                                     f"CREATE TABLE a AS SELECT ST_MakeLine(list({zigzag} ORDER BY i)) AS g FROM range(24000) t(i)",
                                     "CREATE TABLE b AS SELECT ST_FlipCoordinates(g) AS g FROM a", "SELECT count(*) FROM a JOIN b ON ST_Overlaps(a.g, b.g)"])


# ---------------------------------------------------------------------------------------------------------------------
# Forked
# ---------------------------------------------------------------------------------------------------------------------
FORK = """
import duckdb, json, multiprocessing, os, sys
def connect():
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{sys.argv[1]}'")
    connection.execute("SET vibe_gpu_min_rows = 0")
    return connection
def ask(connection, *statements):
    results = []
    for sql in statements:
        try:
            results.append(connection.execute(sql).fetchall())
        except duckdb.Error as error:
            results.append(f"{type(error).__name__}: {error}")
    return results
def child(inherited, statements, queue):
    queue.put(ask(inherited or connect(), *statements))
    queue.close()
    queue.join_thread()
    if inherited is None:
        os._exit(0)
if __name__ == "__main__":
    how, before, statements = sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
    connection = connect()
    first = ask(connection, *before)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(connection if how == "inherited" else None, statements, queue))
    process.start()
    results = queue.get(timeout=40)
    process.join(20)
    print(json.dumps([first, results, process.exitcode, ask(connection, *before)], default=str))
"""


@pytest.fixture
def forked(extension):
    def run(how, before, statements, **environment):
        result = subprocess.run([sys.executable, "-c", FORK, str(extension), how, json.dumps(before), json.dumps(statements)],
                                capture_output=True, text=True, env={**os.environ, **environment}, timeout=100)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.mark.parametrize("how", ["inherited", "own"])
def test_a_forked_child_uses_the_cpu(forked, fake, how):
    before = ["FROM vibe_ensure_warm(5)", *[sql.replace("TABLE", "OR REPLACE TABLE") for sql in TABLES], JOIN, EVENTS]
    tables = [] if how == "inherited" else TABLES
    first, results, status, again = forked(how, before, [*tables, JOIN, EVENTS, "SET vibe_execution_mode = 'gpu'", JOIN,
                                                         "FROM vibe_gpu_info()", "FROM vibe_ensure_warm(5, 'box_index')"],
                                           VIBESPATIAL_GPU_FOLDER=str(fake))
    pairs, events, mode, pairs_again, rows, warm = results[-6:]
    assert status == 0
    assert first[-2] == again[-2] == pairs == pairs_again == PAIRS
    assert first[-1][-1][1:4] == again[-1][-1][1:4] == ["auto", "gpu", "gpu"]
    reason = "this process was forked from one that had opened the GPU engine"
    assert events[-1][1:4] == ["auto", "cpu", "cpu"] and reason in events[-1][4]
    assert mode.startswith("InvalidInputException") and reason in mode
    assert reason in info(rows, "plug-in")[4] and reason in warm[0][1]


def test_a_child_forked_while_the_plugin_opens(forked, fake):
    first, results, status, again = forked("own", ["FROM vibe_ensure_warm(0.1, 'box_index')"],
                                           [*TABLES, JOIN, EVENTS, "SET vibe_execution_mode = 'gpu'"],
                                           VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="slow")
    assert "still being opened" in first[0][0][1] and status == 0
    assert results[2] == PAIRS and "was forked" in results[3][-1][4] and "was forked" in results[4]


def test_a_child_forked_before_opens_its_own(forked, fake):
    first, results, status, again = forked("own", ["SELECT 1"], ["SET vibe_execution_mode = 'gpu'", *TABLES, JOIN, EVENTS],
                                           VIBESPATIAL_GPU_FOLDER=str(fake))
    assert status == 0 and results[3] == PAIRS and results[4][-1][1:4] == ["gpu", "gpu", "gpu"]


def test_a_child_without_a_plugin(forked, tmp_path):
    first, results, status, again = forked("inherited", ["SET vibe_execution_mode = 'gpu'"], [*TABLES, JOIN],
                                           VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert PLUGIN in first[0] and status == 0 and results[2] == PAIRS
