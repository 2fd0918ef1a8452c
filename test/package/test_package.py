"""The wheel itself, what it installs, and its commands. Runs in an environment that has the wheel; the bare one has DuckDB and it alone."""
import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import duckdb
import pytest
import vibespatial

WHEEL = pathlib.Path(os.environ["VIBESPATIAL_WHEEL"])
BARE = os.environ["VIBESPATIAL_BARE_PYTHON"]
VERSION = os.environ["VIBESPATIAL_DUCKDB"]


def bare(*words, **environment):
    return subprocess.run([BARE, *words], capture_output=True, text=True, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def archive():
    with zipfile.ZipFile(WHEEL) as opened:
        yield opened


# ---- the file

def test_the_record_lists_every_file_with_its_hash(archive):
    (record,) = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
    lines = [line.rsplit(",", 2) for line in archive.read(record).decode().splitlines()]
    assert sorted(line[0] for line in lines) == sorted(archive.namelist())
    for name, digest, size in lines:
        if name != record:
            data = archive.read(name)
            assert len(data) == int(size)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def test_it_is_small_enough_typed_and_has_no_links(archive):
    assert WHEEL.stat().st_size < 100e6
    names = archive.namelist()
    assert "vibespatial/py.typed" in names and len(names) == len(set(names))
    assert not any((info.external_attr >> 28) == 0xA for info in archive.infolist())
    # CUDA's compilers are packages of their own
    assert not any("nvrtc" in name.lower() or "nvjitlink" in name.lower() for name in names)
    helper = [info for info in archive.infolist() if info.filename.endswith("/vibespatial-compile")]
    assert all((info.external_attr >> 16) & 0o111 for info in helper)


def test_every_version_is_named_in_folder_footer_and_requirement(archive):
    versions = vibespatial.supported_versions()
    assert VERSION in versions
    for version in versions:
        data = archive.read(f"vibespatial/extensions/v{version}/vibespatial.duckdb_extension")
        assert data[-512:-256][5 * 32 : 6 * 32].rstrip(b"\0").decode() == f"v{version}"
    metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
    wanted = re.search(r"^Requires-Dist: (duckdb.*)$", metadata, re.MULTILINE)[1]
    assert versions[0] in wanted and versions[-1] in wanted
    from packaging.requirements import Requirement

    assert all(Requirement(wanted).specifier.contains(version) for version in versions)
    assert f"Version: {vibespatial.__version__}\n" in metadata
    for extra, package in (("gpu", "nvidia-cuda-nvrtc"), ("gpu", "nvidia-nvjitlink"), ("geopandas", "geopandas"), ("geopandas", "pyarrow"),
                           ("ray", "ray"), ("ray", "pyarrow"), ("ray", "numpy"), ("ray", "fsspec")):
        assert re.search(rf'^Requires-Dist: {package}\S*; extra == "{extra}"$', metadata, re.MULTILINE), package


def test_the_tag_is_not_older_than_the_symbols_need(archive, tmp_path):
    """Said by readelf, file by file; `make wheel` asks auditwheel besides."""
    promised = tuple(int(part) for part in re.search(r"manylinux_(\d+)_(\d+)_", WHEEL.name).groups())
    assert promised <= (2, 28), "DuckDB's own wheels reach back so far"
    count = 0
    for name in archive.namelist():
        if archive.open(name).read(4) != b"\x7fELF":
            continue
        path = archive.extract(name, tmp_path)
        text = subprocess.run(["readelf", "-W", "-V", path], capture_output=True, text=True, check=True).stdout
        needs = [tuple(int(part) for part in found.split(".")) for found in re.findall(r"Name: GLIBC_([0-9.]+) ", text)]
        assert max(needs, default=(0,)) <= promised, name
        count += 1
    assert count >= len(vibespatial.supported_versions())


# ---- the binary for the running DuckDB

def test_the_running_version_gets_its_binary():
    assert duckdb.__version__ == VERSION
    path = vibespatial.extension_path()
    assert path.parent.name == f"v{VERSION}" and path.is_file()
    with vibespatial.connect() as con:
        assert con.execute("SELECT ST_Area('POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))'::GEOMETRY)").fetchall() == [(4.0,)]


def test_another_version_gets_the_list_of_those_supported(monkeypatch):
    monkeypatch.setattr(duckdb, "__version__", "9.9.9")
    listed = ", ".join(vibespatial.supported_versions())
    with pytest.raises(vibespatial.UnsupportedDuckDB, match=re.escape(f"this vibespatial supports DuckDB {listed}, not 9.9.9.")):
        vibespatial.connect()
    with pytest.raises(vibespatial.UnsupportedDuckDB, match="not 1.4.0"):
        vibespatial.extension_path("v1.4.0")


def test_load_asks_the_connection_for_its_version(monkeypatch):
    from vibespatial import _extension

    con = duckdb.connect(config={"allow_unsigned_extensions": True})
    monkeypatch.setattr(_extension, "_running", lambda given: "v9.9.9")
    with pytest.raises(vibespatial.UnsupportedDuckDB, match="not 9.9.9"):
        vibespatial.load(con)
    monkeypatch.undo()
    assert vibespatial.load(con) is con and vibespatial.load(con) is con


# ---- what DuckDB allows, and nothing more

def test_the_right_to_load_unsigned_extensions_is_given_back():
    setting = "SELECT current_setting('allow_unsigned_extensions')"
    assert vibespatial.connect().execute(setting).fetchall() == [(False,)]
    assert vibespatial.connect(allow_unsigned_extensions=True).execute(setting).fetchall() == [(True,)]


def test_a_database_that_must_not_load_it_gets_an_error_that_says_what_to_do():
    with pytest.raises(RuntimeError, match="open it with vibespatial.connect"):
        vibespatial.load(duckdb.connect())
    with pytest.raises(RuntimeError, match="open it with vibespatial.connect"):
        vibespatial.connect(allow_unsigned_extensions=False)


def test_settings_files_and_second_connections(tmp_path):
    path = tmp_path / "it's a.db"
    with vibespatial.connect(path, threads=1, config={"memory_limit": "1GB"}) as con:
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
        con.execute("CREATE TABLE t AS SELECT ST_Point(1, 2) AS g")
        second = vibespatial.connect(str(path), threads=1, config={"memory_limit": "1GB"})
        assert second.execute("SELECT ST_X(g) FROM t").fetchall() == [(1.0,)]
        second.close()
    with vibespatial.connect(path, read_only=True) as con:
        assert con.execute("SELECT ST_Y(g) FROM t").fetchall() == [(2.0,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            con.execute("CREATE TABLE u AS FROM t")


# ---- commands, in an environment without GeoPandas

def test_info():
    done = bare("-m", "vibespatial", "info")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"DuckDB       {VERSION} (supported: {', '.join(vibespatial.supported_versions())})" in done.stdout
    assert "pip install 'vibespatial[geopandas]'" in done.stdout and "ready: queries run on the CPU" in done.stdout
    facts = json.loads(bare("-m", "vibespatial", "info", "--json").stdout)
    assert facts["duckdb"] == VERSION and facts["problems"] == [] and facts["packages"]["geopandas"] is None
    found = {row["component"]: row for row in facts["gpu"]}
    plugin = pathlib.Path(facts["extension"]).parent.parent / "vibespatial" / "libvibespatial_cuda.so"
    # The plug-in is found where the wheel has it, without any variable
    if plugin.exists():
        assert found["plug-in"]["found"] and found["plug-in"]["path"] == str(plugin)
        assert found["librmm"]["found"] and found["vibespatial-compile"]["found"] and found["release pack"]["found"]


def test_info_of_a_version_that_is_not_supported():
    code = "import duckdb, sys; duckdb.__version__ = '9.9.9'; from vibespatial._commands import main; sys.exit(main(['info']))"
    done = bare("-c", code)
    assert done.returncode == 1 and "problem: this vibespatial supports DuckDB 1.5.5, 2.0.0, not 9.9.9" in done.stdout
    done = bare("-c", code.replace("info", "demo"))
    assert done.returncode == 1 and done.stderr.startswith("vibespatial: this vibespatial supports DuckDB")


def test_demo_works_without_the_repository():
    done = bare("-m", "vibespatial", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("VIBE.SPATIAL.JOIN", done.stdout, re.IGNORECASE) and re.search(r"Berlin +Berlin +Germany", done.stdout)


def test_warm_ends_well_without_a_gpu():
    done = bare("-m", "vibespatial", "warm", "--seconds", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to warm" in done.stdout or "warm after" in done.stdout


def test_a_picture_of_a_query(tmp_path):
    squares = "SELECT ST_MakeEnvelope(i, 0, i + 1, 1) AS g FROM range(100) t(i)"
    query = f"WITH s AS ({squares}) SELECT count(*) FROM s a JOIN s b ON ST_Touches(a.g, b.g)"
    done = bare("-m", "vibespatial", "timeline", str(tmp_path / "query.svg"), "--sql", query)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "query.svg").read_text()
    assert text.startswith("<svg ") and "ST_Touches" in text and "build side: " in text
    (tmp_path / "steps.csv").write_text("lane,step,begin_ms,end_ms,bytes\nscan,left,1,2,\nupload,tile,2,3,400\n")
    done = bare("-m", "vibespatial", "timeline", str(tmp_path / "steps.svg"), "--steps", str(tmp_path / "steps.csv"))
    assert done.returncode == 0 and "400 B" in (tmp_path / "steps.svg").read_text()
    for wrong in (["--sql", "SELECT 1"], ["--sql", "SELECT nothing"], ["--steps", "none.csv"], ["--sql", query, "--database", "none.db"]):
        done = bare("-m", "vibespatial", "timeline", str(tmp_path / "wrong.svg"), *wrong)
        assert done.returncode == 1 and done.stderr.startswith("vibespatial: ") and "Traceback" not in done.stderr


def test_without_geopandas_the_error_says_how_to_get_it():
    done = bare("-c", "import vibespatial; vibespatial.to_geopandas('SELECT 1', vibespatial.connect())")
    assert done.returncode == 1 and "is needed for GeoDataFrames: 'pip install \"vibespatial[geopandas]\"' gets it" in done.stderr
    # And nothing of it is imported before it is needed
    done = bare("-X", "importtime", "-c", "import vibespatial; vibespatial.connect().sql('FROM range(3)').fetchall()")
    assert done.returncode == 0 and "geopandas" not in done.stderr


def test_results_on_a_gpu_need_one_and_nothing_else():
    done = bare("-c", "import vibespatial; vibespatial.to_device('SELECT 1', vibespatial.connect())", VIBESPATIAL_EXECUTION_MODE="cpu")
    assert done.returncode == 1
    assert "RuntimeError: there is no GPU to put the rows on: vibe_execution_mode is 'cpu'" in done.stderr


def test_it_is_loaded_from_the_wheel_and_not_from_a_checkout():
    assert "site-packages" in vibespatial.__file__
    assert sys.prefix in vibespatial.__file__
