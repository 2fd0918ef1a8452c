"""Every code block of docs/use/python.md, and the first example of README.md, in the order in which they stand."""
import os
import pathlib
import re
import subprocess
import sys

import pytest
import vibespatial

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERSION = os.environ["VIBESPATIAL_DUCKDB"]
BLOCK = re.compile(r"(<!-- DuckDB 2\.0 -->\n)?```(\w+)\n(.*?)```", re.DOTALL)


def run_shell(text, environment):
    for line in text.splitlines():
        # What these install is what this environment has
        if not line.startswith("pip install "):
            done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that has what the examples name: scripts and build of a checkout."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    for version in vibespatial.supported_versions():
        build = tmp_path / "build" / "release" / f"v{version}"
        build.mkdir(parents=True)
        (build / "vibespatial.duckdb_extension").symlink_to(vibespatial.extension_path(version))
    # DuckDB keeps repositories and extensions below the home folder
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_examples_of_the_docs(folder):
    blocks = BLOCK.findall((ROOT / "docs" / "use" / "python.md").read_text())
    assert {kind for _, kind, _ in blocks} == {"sh", "python"} and len(blocks) >= 12
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    space = {"__name__": "__main__"}
    for newer, kind, text in blocks:
        if newer and VERSION.startswith("1."):
            continue
        if kind == "python":
            exec(compile(text, "docs/use/python.md", "exec"), space)
        elif "v2.0.0" not in text or "2.0.0" in vibespatial.supported_versions():
            run_shell(text, environment)


def test_the_first_example_of_the_readme_leaves_a_picture(folder):
    text = (ROOT / "README.md").read_text()
    example = next(text for _, kind, text in BLOCK.findall(text) if kind == "python")
    assert "vibespatial.connect()" in example
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search("VIBE.SPATIAL.JOIN", done.stdout, re.IGNORECASE) and "China" in done.stdout
    (picture,) = folder.glob("*.png")
    from PIL import Image

    with Image.open(picture) as image:
        assert image.size[0] > 300 and len(image.convert("RGB").getcolors(1 << 24)) > 50
