"""Mutated WKB and GeoJSON against every reader, under AddressSanitizer and UndefinedBehaviorSanitizer."""
import os
import pathlib
import subprocess

import pytest

from conftest import BUILD


@pytest.mark.parametrize("seed", [1, 2])
def test_no_reader_crashes_or_reads_past_the_end(seed):
    path = os.environ.get("VIBESPATIAL_FUZZ_WKB", BUILD / "test" / "vibespatial_fuzz_wkb")
    if not pathlib.Path(path).exists():
        pytest.skip(f"{path} is not there: this compiler has no sanitizers (or set VIBESPATIAL_FUZZ_WKB)")
    result = subprocess.run([path, "150000", str(seed)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    assert result.stdout.endswith("no failure\n")
