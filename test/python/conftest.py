"""Fixtures: the built extension in the real DuckDB, as a Python connection and in the shell."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import duckdb
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What was built: VIBESPATIAL_BUILD, else the release build of this checkout; in it a folder for each version of DuckDB
BUILD = pathlib.Path(os.environ.get("VIBESPATIAL_BUILD", ROOT / "build" / "release")).absolute()
VERSION_BUILD = BUILD / f"v{duckdb.__version__}"


sys.path.insert(0, str(ROOT / "scripts"))
import fetch  # noqa: E402

HAS_SPATIAL = fetch.is_locked("test", "duckdb-extension-spatial", duckdb.__version__)


def fetched(what):
    """The path of a pinned dependency, that of this version of DuckDB."""
    command = [sys.executable, str(ROOT / "scripts" / "fetch.py"), what, "--duckdb", duckdb.__version__]
    return pathlib.Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


@pytest.fixture(scope="session")
def extension():
    """The path of the extension that was built for this version of DuckDB; VIBESPATIAL_EXTENSION names another one."""
    path = os.environ.get("VIBESPATIAL_EXTENSION", VERSION_BUILD / "vibespatial.duckdb_extension")
    path = pathlib.Path(path).absolute()
    assert path.exists(), f"{path} is not there: run make DUCKDB={duckdb.__version__} first, or set VIBESPATIAL_EXTENSION"
    return path


@pytest.fixture(scope="session")
def connect(extension):
    """A function that opens a new in-memory database; vibespatial is loaded unless it is told otherwise."""

    def open_database(load=True, **config):
        connection = duckdb.connect(config={"allow_unsigned_extensions": "true", **config})
        if load:
            connection.execute(f"LOAD '{extension}'")
        return connection

    return open_database


@pytest.fixture
def con(connect):
    """A connection to a fresh in-memory database with vibespatial loaded."""
    with connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def cli():
    """The path of the DuckDB shell: VIBESPATIAL_CLI, else the pinned one; not every version has one."""
    path = os.environ.get("VIBESPATIAL_CLI")
    if not path and not fetch.is_locked("cli", "duckdb-cli", duckdb.__version__):
        pytest.skip(f"no shell of DuckDB {duckdb.__version__} is pinned")
    return pathlib.Path(path).absolute() if path else fetched("cli")


@pytest.fixture(scope="session")
def spatial_path():
    """The path of DuckDB's own spatial extension, from the package duckdb-extension-spatial; not every version has one."""
    if not HAS_SPATIAL:
        pytest.skip(f"no spatial for DuckDB {duckdb.__version__} is pinned")
    package = importlib.util.find_spec("duckdb_extension_spatial")
    assert package, "the package duckdb-extension-spatial is not installed"
    folder = pathlib.Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}"
    return folder / "spatial.duckdb_extension"


@pytest.fixture(scope="session")
def nvrtc():
    """The folder of libnvrtc: VIBESPATIAL_NVRTC, else the pinned one."""
    path = os.environ.get("VIBESPATIAL_NVRTC")
    return pathlib.Path(path).absolute() if path else fetched("cuda") / "nvidia" / "cu13" / "lib"


@pytest.fixture(scope="session")
def data():
    """The folder of the small real data that ships with the project."""
    return ROOT / "data"


@pytest.fixture(scope="session")
def shared_data():
    """The folder of the large real data: VIBESPATIAL_SHARED_DATA, else shared/data beside the checkout."""
    folder = pathlib.Path(os.environ.get("VIBESPATIAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no large data: {folder} is not there (VIBESPATIAL_SHARED_DATA names another folder)")
    return folder
