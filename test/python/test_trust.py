"""What is not trusted: settings that reach files, libraries, plug-ins, the texts of other connections. And where the helper must run: under
process 1, without /dev, /proc and /tmp, with closed descriptors, where the host reaps its children."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import duckdb
import pytest

from conftest import BUILD
from test_gpu_runtime import JOIN, PAIRS, PLUGIN, TABLES, compiled, fake, info, process  # noqa: F401

REAL = BUILD / "vibespatial"


@pytest.fixture
def real():
    """The folder of the GPU plug-in that was built; it opens without a device"""
    if not (REAL / PLUGIN).exists():
        pytest.skip("built without the GPU plug-in")
    return REAL


# ---------------------------------------------------------------------------------------------------------------------
# Settings
# ---------------------------------------------------------------------------------------------------------------------
def test_the_cache_folder_is_external_access(con, tmp_path):
    con.execute(f"SET GLOBAL vibe_cache_dir = '{tmp_path}/before'")
    con.execute(f"SET allowed_directories = ['{tmp_path}/allowed']")
    con.execute("SET enable_external_access = false")
    for path in (tmp_path / "other", f"{tmp_path}/allowed/../other", f"{tmp_path}/allowed2", "/", tmp_path):
        with pytest.raises(duckdb.PermissionException, match="vibe_cache_dir.*enable_external_access is off"):
            con.execute(f"SET GLOBAL vibe_cache_dir = '{path}'")
    assert con.execute("SELECT current_setting('vibe_cache_dir')").fetchall() == [(f"{tmp_path}/before",)]
    con.execute(f"SET GLOBAL vibe_cache_dir = '{tmp_path}/allowed/kernels'")
    assert con.execute("SELECT current_setting('vibe_cache_dir')").fetchall() == [(f"{tmp_path}/allowed/kernels",)]
    # Who started the process chose the default
    con.execute("RESET GLOBAL vibe_cache_dir")
    con.execute("SET GLOBAL vibe_cache_dir = ''")


def test_the_cache_folder_is_an_absolute_path(con):
    for path in ("kernels", "./kernels", "~/kernels"):
        with pytest.raises(duckdb.InvalidInputException, match="expected an absolute path"):
            con.execute(f"SET GLOBAL vibe_cache_dir = '{path}'")


def test_a_locked_configuration(connect):
    with connect() as con:
        names = [name for name, in con.execute("SELECT name FROM duckdb_settings() WHERE name LIKE 'vibe_%'").fetchall()]
        assert len(names) > 15
        con.execute("SET lock_configuration = true")
        for name in names:
            for statement in (f"SET {name} = '0'", f"SET GLOBAL {name} = '0'", f"RESET {name}"):
                with pytest.raises(duckdb.InvalidInputException, match="configuration has been locked"):
                    con.execute(statement)


def test_files_of_others_in_the_cache_folder(process, real, tmp_path):  # noqa: F811
    tmp_path.chmod(0o700)
    others = [tmp_path / name for name in ("movie.part", "movie.kernel")]
    for file in others:
        file.write_text("a film")
        os.utime(file, (1, 1))
    _, (_, _, rows) = process(f"SET GLOBAL vibe_cache_dir = '{tmp_path}'", "SET GLOBAL vibe_cache_limit = '1B'", "FROM vibe_gpu_info()",
                              VIBESPATIAL_GPU_FOLDER=str(real))
    assert info(rows, "disk cache")[2] == str(tmp_path) and info(rows, "disk cache")[4].startswith("0 kernels")
    assert all(file.read_text() == "a film" for file in others)


@pytest.mark.parametrize("home", ["/proc", "/dev/null", "relative", ""])
def test_a_home_that_cannot_be_written(process, real, home):  # noqa: F811
    _, results = process("FROM vibe_gpu_info()", *TABLES, JOIN, VIBESPATIAL_GPU_FOLDER=str(real), HOME=home, XDG_CACHE_HOME="")
    assert info(results[0], "disk cache")[1] is False and info(results[0], "disk cache")[4]
    assert results[-1] == PAIRS


def test_no_library_is_opened_without_external_access(process, fake):  # noqa: F811
    off = "SET enable_external_access = false"
    reason = "is not opened while enable_external_access is off"
    _, results = process(off, "SET vibe_execution_mode = 'gpu'", "FROM vibe_gpu_info()", "FROM vibe_ensure_warm(1, 'box_index')", *TABLES, JOIN,
                         VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[1].startswith("InvalidInputException") and reason in results[1]
    assert reason in info(results[2], "plug-in")[4] and reason in results[3][0][1]
    assert results[-1] == PAIRS
    # A query whose mode comes from elsewhere fails with that reason
    _, results = process(*TABLES, off, JOIN, VIBESPATIAL_GPU_FOLDER=str(fake), VIBESPATIAL_EXECUTION_MODE="gpu", VIBESPATIAL_PRECOMPILE="off")
    assert results[-1].startswith("IOException") and reason in results[-1]
    # One that is open already stays in use
    _, results = process("SET vibe_execution_mode = 'gpu'", *TABLES, off, JOIN, "SELECT DISTINCT actual FROM vibe_dispatch_log() WHERE operator <> 'FUNCTION'",
                         VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[-2] == PAIRS and results[-1] == [["gpu"]]


# ---------------------------------------------------------------------------------------------------------------------
# The texts of queries
# ---------------------------------------------------------------------------------------------------------------------
def test_who_sees_the_text_of_a_query(connect):
    texts = "SELECT DISTINCT query FROM vibe_dispatch_log() WHERE query IS NULL OR query LIKE '%secret%' ORDER BY ALL"
    query = "SELECT count(*) AS secret FROM vibe_knn('SELECT ST_Point(i, 0) AS g FROM range(10) t(i)', 'SELECT ST_Point(1, 1) AS g', 1)"
    with connect() as first, connect() as stranger:
        first.execute(query).fetchall()
        assert (query,) in first.execute(texts).fetchall()
        second = first.cursor()
        # Of the same database, and of another one in the same process: the row is there, the text is not
        for other in (second, stranger):
            assert other.execute(texts).fetchall() == [(None,)]
        second.execute("SET GLOBAL vibe_log_queries = 'ALL'")
        assert (query,) in second.execute(texts).fetchall()
        stranger.execute("SET GLOBAL vibe_log_queries = 'all'")
        assert stranger.execute(texts).fetchall() == [(None,)]
        second.execute("RESET GLOBAL vibe_log_queries")
        assert second.execute(texts).fetchall() == [(None,)]
        second.execute("SET lock_configuration = true")
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            second.execute("SET GLOBAL vibe_log_queries = 'all'")
        with pytest.raises(duckdb.InvalidInputException, match="SET GLOBAL vibe_log_queries"):
            stranger.execute("SET SESSION vibe_log_queries = 'all'")
        with pytest.raises(duckdb.InvalidInputException, match="'own', 'all'"):
            stranger.execute("SET GLOBAL vibe_log_queries = 'mine'")


# ---------------------------------------------------------------------------------------------------------------------
# Plug-ins and libraries
# ---------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def copied(fake, tmp_path):  # noqa: F811
    """A plug-in of its own, to be changed"""
    folder = tmp_path / "plugin"
    folder.mkdir()
    shutil.copy(fake / PLUGIN, folder)
    return folder


def plugin_detail(process, folder, **environment):  # noqa: F811
    _, results = process("FROM vibe_gpu_info()", *TABLES, JOIN, VIBESPATIAL_GPU_FOLDER=str(folder), **environment)
    assert results[-1] == PAIRS
    return info(results[0], "plug-in")[4]


def test_a_plugin_that_everybody_can_write(process, copied):  # noqa: F811
    assert plugin_detail(process, copied) == "open"
    (copied / PLUGIN).chmod(0o666)
    assert "can be written by everybody" in plugin_detail(process, copied)
    (copied / PLUGIN).chmod(0o644)
    copied.chmod(0o777)
    assert "can be written by everybody" in plugin_detail(process, copied)
    copied.chmod(0o1777)
    assert plugin_detail(process, copied) == "open"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_plugin_of_another_user(process, copied):  # noqa: F811
    os.chown(copied / PLUGIN, 65534, 65534)
    assert "belongs to another user (id 65534): it must belong to you or to root" in plugin_detail(process, copied)


def test_a_plugin_of_another_interface_is_not_even_opened(process, copied, tmp_path):  # noqa: F811
    """What runs when a library is opened does not run"""
    mark = tmp_path / "opened"
    (copied / "plugin.cpp").write_text(f'#include <cstdio>\nstatic FILE *opened = fopen("{mark}", "w");\n'
                                       'const char *version = "vibespatial-engine-0.1.0-0123456789abcdef";')
    compiled(copied, [copied / "plugin.cpp"])
    assert "was built with another interface than the extension" in plugin_detail(process, copied)
    assert not mark.exists()


def test_relative_folders_are_not_searched(process, fake, tmp_path, monkeypatch):  # noqa: F811
    """A library in the current folder is found by none of the variables"""
    mark = tmp_path / "opened"
    (tmp_path / "library.cpp").write_text(f'#include <cstdio>\nstatic FILE *opened = fopen("{mark}", "w");')
    places = [".", "librmm/lib64", "lib", "lib/python3.11/site-packages/librmm/lib64", "lib64", "vibespatial/extensions/vibespatial"]
    compiled(tmp_path, [tmp_path / "library.cpp"])
    for place in places:
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        for name in (PLUGIN, "librmm.so", "librapids_logger.so", "libnvrtc.so.13", "libnvJitLink.so.13", "libcuda.so.1", "libarrow.so.2600"):
            if not (tmp_path / place / name).exists():
                shutil.copy(tmp_path / PLUGIN, tmp_path / place / name)
    monkeypatch.chdir(tmp_path)
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME", "CUDA_HOME", "VIBESPATIAL_LIBRARY_PATH", "LD_LIBRARY_PATH"):
        for value in (".", "", "lib/../."):
            for folder in (fake, REAL):
                if (folder / PLUGIN).exists():
                    process("FROM vibe_gpu_info()", VIBESPATIAL_GPU_FOLDER=str(folder), **{name: value})
                    assert not mark.exists(), (name, value, folder)
    _, (rows,) = process("FROM vibe_gpu_info()", VIBESPATIAL_GPU_FOLDER=".")
    assert "'./libvibespatial_cuda.so' is not an absolute path" in info(rows, "plug-in")[4]
    assert not mark.exists()


def test_a_library_that_is_not_the_pinned_one_is_not_opened(process, real, tmp_path):  # noqa: F811
    """CCCL is compared with its hash before it is opened"""
    mark = tmp_path / "opened"
    (tmp_path / "library.cpp").write_text(f'#include <cstdio>\nstatic FILE *opened = fopen("{mark}", "w");')
    compiled(tmp_path, [tmp_path / "library.cpp"])
    (tmp_path / PLUGIN).rename(tmp_path / "libcccl.c.parallel.so")
    warm = [str(real / "vibespatial-compile"), "warm", "--capability", "90", "--source", "pack", "--library-folder", str(tmp_path),
            "--cache", str(tmp_path / "cache"), "exclusive_scan_i32"]
    done = subprocess.run(warm, capture_output=True, text=True)
    # The one beside the plug-in is taken instead
    assert done.returncode == 0, done.stdout + done.stderr
    assert not mark.exists()


def test_dlclose_leaves_the_extension(extension, real):
    """Its threads and handlers of exit and fork would run into nothing"""
    script = ("import ctypes, sys\nfrom _ctypes import dlclose\nfor path in sys.argv[1:]:\n    dlclose(ctypes.CDLL(path)._handle)\n"
              "    assert path in open('/proc/self/maps').read(), path\n")
    result = subprocess.run([sys.executable, "-c", script, str(extension.resolve()), str((real / PLUGIN).resolve())],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


# ---------------------------------------------------------------------------------------------------------------------
# The helper
# ---------------------------------------------------------------------------------------------------------------------
SPEC = "exclusive_scan_i32"
CONTAINER = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]


def can_unshare():
    return shutil.which("unshare") and subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0


container = pytest.mark.skipif(not can_unshare(), reason="this system gives no namespaces to this user")


def compile_command(real, cache):
    return [str(real / "vibespatial-compile"), "warm", "--capability", "90", "--folder", str(real), "--source", "jit", "--cache", str(cache), SPEC]


def assert_compiled(done):
    assert done.returncode == 0 and re.search(f"spec {SPEC} ready jit", done.stdout), done.stdout + done.stderr


@container
def test_the_helper_of_process_1(real, tmp_path):
    """As in every container: the parent of the helper is process 1"""
    assert_compiled(subprocess.run([*CONTAINER, "--mount-proc", *compile_command(real, tmp_path)], capture_output=True, text=True))


@container
def test_the_helper_in_a_minimal_container(real, tmp_path):
    """Without /dev, /proc and /tmp"""
    cache = pathlib.Path.home() / ".cache" / f"vibespatial-test-{os.getpid()}"
    if str(real).startswith("/tmp") or str(cache).startswith("/tmp"):
        pytest.skip("the build or the cache is in /tmp")
    hide = "for folder in /dev /proc /tmp; do mount -t tmpfs -o ro none $folder || exit 99; done; exec \"$@\""
    try:
        done = subprocess.run([*CONTAINER, "sh", "-c", hide, "sh", *compile_command(real, cache)], capture_output=True, text=True)
        if done.returncode == 99:
            pytest.skip("this system mounts nothing in a namespace")
        assert_compiled(done)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


@container
def test_queries_in_a_minimal_container(extension, fake, tmp_path):  # noqa: F811
    """Without /dev, /proc and a /tmp to write to"""
    if any(str(path.resolve()).startswith("/tmp") for path in (extension, pathlib.Path(sys.executable))):
        pytest.skip("the build is in /tmp")
    script = ("import duckdb, sys\ncon = duckdb.connect(config={'allow_unsigned_extensions': 'true', 'threads': '2'})\n"
              "con.execute(f\"LOAD '{sys.argv[1]}'\")\n"
              "for sql in sys.argv[2:]:\n    rows = con.execute(sql).fetchall()\nassert rows == [(900,)], rows\n")
    hide = "for folder in /dev /proc /tmp; do mount -t tmpfs -o ro none $folder || exit 99; done; exec \"$@\""
    done = subprocess.run([*CONTAINER, "sh", "-c", hide, "sh", sys.executable, "-c", script, str(extension), "FROM vibe_gpu_info()", *TABLES, JOIN],
                          capture_output=True, text=True)
    if done.returncode == 99:
        pytest.skip("this system mounts nothing in a namespace")
    assert done.returncode == 0, done.stderr


def test_the_helper_where_the_host_ignores_its_children(real, tmp_path):
    assert_compiled(subprocess.run(compile_command(real, tmp_path), capture_output=True, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)))


def test_the_helper_with_closed_descriptors(real, tmp_path):
    done = subprocess.run(["sh", "-c", "exec \"$@\" 0<&- 2>&- 3>&-", "sh", *compile_command(real, tmp_path)], capture_output=True, text=True)
    assert_compiled(done)


def processes(name):
    """The numbers of processes whose command line has that text"""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if name in (folder / "cmdline").read_bytes().decode(errors="replace").split("\0"):
                found.append(int(folder.name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_helper_ends_with_its_host(real, tmp_path, how):
    host = subprocess.Popen(compile_command(real, tmp_path / "cache"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env={**os.environ, "VIBESPATIAL_COMPILE_FAULT": "hang", "TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 30
    while len(helpers := [pid for pid in processes(str(host.pid)) if pid != host.pid]) == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert helpers, "the helper did not start"
    host.send_signal(how)
    host.wait()
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in helpers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in helpers)
