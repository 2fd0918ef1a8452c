"""What the build leaves and what it is built from: footer, installation, pinned dependencies."""
import json
import os
import re
import shutil
import subprocess

import duckdb
import pytest
import yaml

import fetch
import run_tests
from conftest import BUILD, ROOT


def project_version():
    return re.search(r"^project\(vibespatial VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def test_footer(extension):
    footer = extension.read_bytes()[-534:]
    assert footer[4:20] == b"duckdb_signature"
    fields = [footer[22 + 32 * i : 54 + 32 * i].rstrip(b"\0").decode() for i in range(8)]
    assert fields == ["", "", "", "CPP", f"v{project_version()}", f"v{duckdb.__version__}", fetch.host_platform(), "4"]


SHIPPED = ["vibespatial.duckdb_extension", "libvibespatial_cuda.so", "libvibespatial_arrow.so", "vibespatial-compile"]
# What else a file may show to others: functions that their libraries look up, and what their libraries define inline, too
EXPORTED = {
    "vibespatial.duckdb_extension": r"vibespatial_duckdb_cpp_init",
    "libvibespatial_cuda.so": r"vibespatial_open_engine|\w*(3rmm|4cuda|13rapids_logger)\w*",
    "libvibespatial_arrow.so": r"vibespatial_open_arrow|\w*5arrow\w*",
    "vibespatial-compile": r"nvJitLinkCreate|_Z\w*St\w*",
}


@pytest.fixture(scope="session")
def readelf():
    """A function that reads an ELF file: options of readelf, then the file"""
    if not shutil.which("readelf"):
        pytest.skip("readelf of binutils is not there")

    def read(*words):
        return subprocess.run(["readelf", "-W", *map(str, words)], capture_output=True, text=True, check=True).stdout

    return read


@pytest.fixture(params=SHIPPED)
def shipped(request, extension):
    path = extension if request.param.startswith("vibespatial.") else BUILD / "vibespatial" / request.param
    if not path.exists():
        pytest.skip(f"{path} was not built")
    return path


def test_shipped_files_are_hardened(shipped, readelf):
    dynamic, segments, symbols = readelf("-d", shipped), readelf("-l", shipped), readelf("--dyn-syms", shipped)
    # The table of imported functions is complete at the start and read-only from then on
    assert re.search(r"FLAGS_1.*\bNOW\b", dynamic)
    assert re.search(r"^ *GNU_RELRO ", segments, re.M)
    assert "TEXTREL" not in dynamic
    # No memory is both written and run
    (stack,) = re.findall(r"^ *GNU_STACK .*", segments, re.M)
    assert " RW " in stack and "RWE" not in segments
    # Frames have a guard
    assert re.search(r" UND __stack_chk_fail", symbols)


def test_copies_are_fortified(extension, readelf):
    assert re.search(r" UND __mem\w+_chk@", readelf("--dyn-syms", extension))


def test_shipped_files_export_no_more_than_they_must(shipped, readelf):
    # A name with a version is a library's: a program on x86-64 has copies of its variables, such as stderr
    exported = [words[7] for words in map(str.split, readelf("--dyn-syms", shipped).splitlines())
                if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK", "UNIQUE") and words[6] not in ("UND", "Ndx") and "@" not in words[7]]
    assert exported
    assert [name for name in exported if not re.fullmatch(EXPORTED[shipped.name], name)] == []


def test_returns_and_jumps_are_protected(readelf):
    """The linker keeps the mark of a file only where all of its objects have it, and DuckDB's do not: looks at our objects."""
    archive = BUILD / "libvibespatial_core.a"
    if not archive.exists():
        pytest.skip(f"{archive} was not built")
    mark = "BTI, PAC" if fetch.host_platform() == "linux_arm64" else "IBT, SHSTK"
    members = re.split(r"^File: ", readelf("-n", archive), flags=re.M)[1:]
    assert len(members) > 50
    assert [member.splitlines()[0] for member in members if mark not in member] == []


def test_installed_extension_loads_by_name(cli, extension, tmp_path):
    def shell(sql):
        command = [cli, "-unsigned", "-init", "/dev/null", "-csv", "-noheader", "-c", sql]
        return subprocess.run(command, env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True)

    assert "not found" in shell("LOAD vibespatial").stderr
    assert shell(f"INSTALL '{extension}'").returncode == 0
    result = shell("LOAD vibespatial; SELECT vibe_area('POLYGON ((0 0, 2 0, 2 3, 0 3, 0 0))'::GEOMETRY)")
    assert (result.returncode, result.stdout.split()) == (0, ["6.0"])


PYTHONS = ["cp311", "cp312", "cp313", "cp314"]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", ["linux_amd64", "linux_arm64"])
@pytest.mark.parametrize("use", ["source", "source-backend", "test", "bench", "peers", "spatialbench", "cuda", "clang-format", "clang-tidy"])
def test_lock_has_every_platform(use, platform, python):
    for version in fetch.duckdbs():
        entries = fetch.locked(use, platform, python, version)
        assert entries and all(re.fullmatch("[0-9a-f]{64}", entry.digest) for entry in entries)
        assert len({entry.name for entry in entries}) == len(entries)


def test_a_use_of_one_version_has_that_version():
    for version in fetch.duckdbs():
        for use in ("source", "test"):
            entries = fetch.locked(use, "linux_amd64", duckdb=version)
            assert {entry.version for entry in entries if entry.name.startswith("duckdb")} == {version}
    assert duckdb.__version__ in fetch.duckdbs()
    assert [entry.version for entry in fetch.locked("cli", "linux_amd64", duckdb="1.5.5")] == ["1.5.5"]
    with pytest.raises(fetch.Failure, match="cli with DuckDB 2.0.0"):
        fetch.locked("cli", "linux_amd64", duckdb="2.0.0")


def test_stable_abi_fits_later_pythons(tmp_path, monkeypatch):
    lock = tmp_path / "deps.lock"
    lock.write_text("some==1.0  test\n" + "".join(f"    {'0' * 64}  linux_amd64  some-1.0-{tags}-manylinux_2_28_x86_64.whl\n"
                                                  for tags in ("cp313-cp313", "cp39-abi3", "cp312-abi3", "cp311-cp311")))
    monkeypatch.setattr(fetch, "LOCK", lock)

    def chosen(python):
        (entry,) = fetch.locked("test", "linux_amd64", python)
        return "-".join(entry.file.split("-")[2:4])

    assert [chosen(python) for python in ("cp310", *PYTHONS)] == ["cp39-abi3", "cp311-cp311", "cp312-abi3", "cp313-cp313", "cp312-abi3"]
    with pytest.raises(fetch.Failure, match="has no some for linux_amd64 and cp38"):
        chosen("cp38")


def test_altered_prebuilt_prefix_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("VIBESPATIAL_BUILD_CACHE", str(tmp_path / "cache"))
    name = "duckdb-1.5.5-linux_amd64.tar.xz"
    (tmp_path / name).write_bytes(b"not what was built")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  {name}\n")
    with pytest.raises(fetch.Failure, match="does not have the sha256"):
        fetch.prebuilt(tmp_path, "1.5.5", "linux_amd64")
    with pytest.raises(fetch.Failure, match="holds no"):
        fetch.prebuilt(tmp_path, "1.5.5", "linux_arm64")


def test_altered_download_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("VIBESPATIAL_BUILD_CACHE", str(tmp_path))
    (entry,) = fetch.locked("cli", "linux_amd64", duckdb="1.5.5")
    (tmp_path / "downloads").mkdir()
    file = tmp_path / "downloads" / entry.file
    file.write_bytes(b"something else")
    with pytest.raises(fetch.Failure, match="did not have the sha256"):
        fetch.unpacked("cli", "linux_amd64", "1.5.5")
    assert not file.exists()


def test_altered_source_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("VIBESPATIAL_BUILD_CACHE", str(tmp_path))
    (entry,) = fetch.locked("source", "any", duckdb="1.5.5")
    (tmp_path / "downloads").mkdir()
    file = tmp_path / "downloads" / entry.file
    file.write_bytes(b"something else")
    with pytest.raises(fetch.Failure, match="did not have the sha256"):
        fetch.source("1.5.5")
    assert not file.exists()


def test_only_the_prefix_of_this_recipe_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("VIBESPATIAL_BUILD_CACHE", str(tmp_path))
    monkeypatch.delenv("VIBESPATIAL_PREBUILT", raising=False)
    other = tmp_path / "duckdb-1.5.5-linux_amd64-0123456789ab"
    for target in fetch.duckdbs()["1.5.5"].targets:
        (other / "lib").mkdir(parents=True, exist_ok=True)
        (other / "lib" / f"lib{target}.a").touch()
    built = []
    monkeypatch.setattr(fetch, "source", lambda version: tmp_path / "source")
    monkeypatch.setattr(fetch, "run", lambda command: built.append(command))
    assert fetch.prefix("linux_amd64", "1.5.5") != other
    assert len(built) == 1


def test_descriptors_have_the_version_of_the_build():
    port = json.loads((ROOT / "vcpkg.json").read_text())
    descriptor = yaml.safe_load((ROOT / "description.yml").read_text())
    assert port["version-semver"] == str(descriptor["extension"]["version"]) == project_version()
    assert descriptor["repo"]["ref"] == f"v{project_version()}"


def test_community_descriptor():
    descriptor = yaml.safe_load((ROOT / "description.yml").read_text())
    extension = descriptor["extension"]
    assert {"name", "description", "version", "language", "build", "license", "maintainers"} <= set(extension)
    assert (extension["name"], extension["build"], extension["license"]) == ("vibespatial", "cmake", "MIT")
    built = {"linux_amd64", "linux_arm64"}
    assert not built & set(extension["excluded_platforms"].split(";"))
    for path in re.findall(r"/blob/main/(\S+)\)", descriptor["docs"]["extended_description"]):
        assert (ROOT / path).exists(), path


def test_hello_world_of_the_descriptor(con):
    text = yaml.safe_load((ROOT / "description.yml").read_text())["docs"]["hello_world"]
    results = [con.execute(statement).fetchall() for statement in con.extract_statements(text)]
    assert results[0] == [(False, True, "F0FFFF212")]
    # Counted without the index: cells are squares of the grid, and a point on an edge is within none
    rows = con.execute("""SELECT floor(y)::INT * 10 + floor(x)::INT AS cell, count(*)
        FROM (SELECT ST_X(geom) AS x, ST_Y(geom) AS y FROM points) WHERE x > floor(x) AND y > floor(y)
        GROUP BY cell ORDER BY cell LIMIT 5""").fetchall()
    assert results[3] == rows
    assert results[4] == [(100.0,)]
    (plan,) = con.execute("EXPLAIN (FORMAT json) SELECT count(*) FROM points JOIN cells ON ST_Within(points.geom, cells.geom)").fetchall()
    assert "VIBE_SPATIAL_JOIN" in plan[1]


def test_files_that_run_once_are_there():
    assert all((ROOT / "test" / "python" / name).exists() for name in run_tests.ONCE)
