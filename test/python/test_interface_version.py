"""The version of the GPU plug-in's interface changes with every header that crosses it."""
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

SCRIPT = ROOT / "scripts" / "hash_interface.py"


def version(root, output):
    subprocess.run([sys.executable, str(SCRIPT), str(root), str(output)], check=True)
    return output.read_text()


@pytest.fixture
def tree(tmp_path):
    """A repository whose interface includes two headers, one of them through the other, and not a third"""
    files = {"src/engine/gpu/interface/engine.hpp": '#include "engine/common/parallel.hpp"\n#include <vector>\n',
             "src/engine/common/parallel.hpp": '  # include "vibe/real.h"\n',
             "kernels/include/vibe/real.h": "// a number\n",
             "kernels/include/vibe/other.h": "// not included\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name, changes", [("src/engine/gpu/interface/engine.hpp", True), ("src/engine/common/parallel.hpp", True),
                                           ("kernels/include/vibe/real.h", True), ("kernels/include/vibe/other.h", False)])
def test_a_changed_header(tree, name, changes):
    before = version(tree, tree / "version.hpp")
    with (tree / name).open("a") as file:
        file.write("int changed;\n")
    assert (version(tree, tree / "version.hpp") != before) == changes


def test_a_new_header(tree):
    before = version(tree, tree / "version.hpp")
    (tree / "src/engine/gpu/interface/join.hpp").write_text("")
    assert version(tree, tree / "version.hpp") != before


def test_the_same_headers_leave_the_file(tree):
    version(tree, tree / "version.hpp")
    before = (tree / "version.hpp").stat().st_mtime_ns
    version(tree, tree / "version.hpp")
    assert (tree / "version.hpp").stat().st_mtime_ns == before


def test_the_build_has_the_version_of_its_sources(tmp_path):
    built = BUILD / "generated/engine/gpu/interface/version.hpp"
    if not built.exists():
        pytest.skip(f"{built} is not there")
    assert built.read_text() == version(ROOT, tmp_path / "version.hpp")
