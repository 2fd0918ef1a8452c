"""Fixtures of the tests of vibespatial.ray: random inputs with many geometries on borders, real data, and a cluster on this machine."""
import collections
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def lattice(count, seed, points=False):
    """Geometries with small whole coordinates, so that most borders of partitions run along edges and through vertices."""
    import pyarrow
    import vibespatial

    numbers = random.Random(seed)
    rows = []
    for number in range(count):
        x, y = numbers.randrange(40), numbers.randrange(40)
        w, h = numbers.choice([1, 1, 2, 3, 8]), numbers.choice([1, 2, 2, 4])
        kind = numbers.random()
        if kind < 0.03:
            text = None
        elif kind < 0.06:
            text = "POLYGON EMPTY"
        elif points or kind < 0.25:
            text = f"POINT ({x} {y})"
        elif kind < 0.4:
            text = f"LINESTRING ({x} {y}, {x + w} {y + h}, {x + w} {y})"
        elif kind < 0.45:
            text = f"MULTIPOINT ({x} {y}, {x + 20} {y + 15})"
        else:
            text = f"POLYGON (({x} {y}, {x + w} {y}, {x + w} {y + h}, {x} {y + h}, {x} {y}))"
        rows.append((number, numbers.choice([0.1, 1e16, -1e16, 3.3, 1e-300, None]), numbers.randrange(5), text))
    with vibespatial.connect(threads=1) as con:
        con.register("given", pyarrow.table(dict(zip(("id", "amount", "kind", "text"), map(list, zip(*rows))))))
        result = con.execute("SELECT id, amount, kind, CAST(text AS GEOMETRY) AS geom FROM given ORDER BY id")
        return (getattr(result, "to_arrow_table", None) or result.fetch_arrow_table)()


@pytest.fixture(scope="session")
def pair():
    """Two layers of all kinds of geometries."""
    return lattice(260, 1), lattice(180, 2)


def arrow(result):
    """The result of a query as an Arrow table, with either version of DuckDB."""
    return (getattr(result, "to_arrow_table", None) or result.fetch_arrow_table)()


def bag(table):
    """The rows, in no order."""
    return collections.Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture(scope="module")
def con(pair):
    """One process with both layers."""
    import vibespatial

    with vibespatial.connect(threads=2) as opened:
        opened.register("a", pair[0])
        opened.register("b", pair[1])
        yield opened


@pytest.fixture(scope="session")
def shared_data():
    """The folder of the large real data: VIBESPATIAL_SHARED_DATA, else shared/data beside the checkout."""
    folder = pathlib.Path(os.environ.get("VIBESPATIAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no large data: {folder} is not there (VIBESPATIAL_SHARED_DATA names another folder)")
    return folder


@pytest.fixture(scope="session")
def cluster():
    """A Ray cluster of two workers that only this machine can reach."""
    # Read when Ray is imported: without it, Ray takes the address of a network card for 127.0.0.1
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray = pytest.importorskip("ray")
    folder = tempfile.mkdtemp(prefix="vibe-ray-", dir="/tmp")
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=folder, log_to_driver=False,
             object_store_memory=200 * 2**20, configure_logging=False)
    yield ray
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def fake_gpu(tmp_path_factory):
    """The folder of a GPU plug-in that works without a GPU, for the build that the wheel was made of."""
    build = pathlib.Path(os.environ["VIBESPATIAL_WHEEL"]).parents[2]
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if not (build / "libvibespatial_core.a").exists() or not compiler:
        pytest.skip(f"no compiler, or the engine's library is not in {build}")
    version = re.search(r"^project\(vibespatial VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    folder = tmp_path_factory.mktemp("fake")
    subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", "-O1", "-o", folder / "libvibespatial_cuda.so", "test/python/fake_engine.cpp",
                    build / "libvibespatial_core.a", "-ffp-contract=off", f'-DVIBESPATIAL_VERSION="{version}"', "-Isrc", "-Ikernels/include",
                    f"-I{build / 'generated'}", "-I.", "-Itest/unit/support"], check=True, cwd=ROOT)
    return folder
