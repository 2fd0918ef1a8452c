"""Fixtures: the built extension in the real DuckDB, as a Python connection and in the shell."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import duckdb
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def fetched(what):
    """The path of a pinned dependency."""
    command = [sys.executable, str(ROOT / "scripts" / "fetch.py"), what]
    return pathlib.Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


@pytest.fixture(scope="session")
def extension():
    """The path of the built extension: VIBESPATIAL_EXTENSION, else the release build of this checkout."""
    path = os.environ.get("VIBESPATIAL_EXTENSION", ROOT / "build" / "release" / "vibespatial.duckdb_extension")
    path = pathlib.Path(path).absolute()
    assert path.exists(), f"{path} is not there: run make first, or set VIBESPATIAL_EXTENSION"
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
    """The path of the DuckDB shell: VIBESPATIAL_CLI, else the pinned one."""
    path = os.environ.get("VIBESPATIAL_CLI")
    return pathlib.Path(path).absolute() if path else fetched("cli")


@pytest.fixture(scope="session")
def spatial_path():
    """The path of DuckDB's own spatial extension, from the package duckdb-extension-spatial."""
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
