"""The unit tests of the device, on an engine without a GPU: its chains of kernels run on the host and give what the CPU engine gives."""
import os
import subprocess

import pytest

from conftest import BUILD
from test_gpu_runtime import fake  # noqa: F401 (a fixture)

UNIT = BUILD / "test" / "vibespatial_unit"


@pytest.mark.parametrize("tests", ["device: *", "The device unites*", "A union with a device*"])
def test_the_host_is_a_device(fake, tests):  # noqa: F811
    if not UNIT.exists():
        pytest.skip(f"{UNIT} is not there")
    environment = {**os.environ, "VIBESPATIAL_GPU_FOLDER": str(fake), "VIBESPATIAL_TEST_PAIRS": "2000", "VIBESPATIAL_TEST_RINGS": "2000"}
    result = subprocess.run([str(UNIT), tests], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:]
    assert "All tests passed" in result.stdout and "no device" not in result.stdout and "is not set" not in result.stdout


def test_a_device_that_is_slow_in_double_precision(fake):  # noqa: F811
    """Floats in front of the exact tests give the rows of the CPU"""
    if not UNIT.exists():
        pytest.skip(f"{UNIT} is not there")
    environment = {**os.environ, "VIBESPATIAL_GPU_FOLDER": str(fake), "VIBESPATIAL_TEST_PAIRS": "2000", "FAKE_GPU_ROUGH": "1"}
    result = subprocess.run([str(UNIT), "device: joins*"], env=environment, capture_output=True, text=True)
    assert result.returncode == 0 and "All tests passed" in result.stdout, result.stdout[-4000:]


@pytest.mark.parametrize("processors", [1, 20, 132])
def test_a_device_of_any_size(fake, processors):  # noqa: F811
    """The rows of joins and functions do not depend on the number of multiprocessors"""
    if not UNIT.exists():
        pytest.skip(f"{UNIT} is not there")
    environment = {**os.environ, "VIBESPATIAL_GPU_FOLDER": str(fake), "VIBESPATIAL_TEST_PAIRS": "2000", "FAKE_GPU_PROCESSORS": str(processors)}
    result = subprocess.run([str(UNIT), "device: joins*"], env=environment, capture_output=True, text=True)
    assert result.returncode == 0 and "All tests passed" in result.stdout, result.stdout[-4000:]
