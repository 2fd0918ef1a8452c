"""Damaged Arrow files give rows or an error (arrow_fuzz.py, in a process of its own)."""
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")
HERE = pathlib.Path(__file__).resolve().parent
LONG = int(os.environ.get("VIBESPATIAL_LONG", "1"))
SEED = int(os.environ.get("VIBESPATIAL_SEED", "22"))


@pytest.mark.parametrize("part", range(2 * LONG))
def test_damaged_files(extension, tmp_path, part):
    if not (extension.parent / "vibespatial" / "libvibespatial_arrow.so").exists():
        pytest.skip("the Arrow plug-in was not built")
    command = [sys.executable, HERE / "arrow_fuzz.py", extension, tmp_path, SEED + part, 2000]
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=600)
    case = (tmp_path / "case").read_text() if (tmp_path / "case").exists() else "none"
    assert done.returncode == 0, f"case {case} of seed {SEED + part}: {done.stdout}{done.stderr}"
    rows, errors = map(int, done.stdout.split())
    # Neither is rare: a reader that refuses everything would pass otherwise
    assert rows > 500 and errors > 500
