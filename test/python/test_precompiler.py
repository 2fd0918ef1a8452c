"""The precompiler without a device: vibespatial-compile does what the GPU engine does in the background."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from conftest import BUILD, ROOT

REGISTRY = json.loads((ROOT / "kernels" / "units.json").read_text())
UNITS = [unit["name"] for unit in REGISTRY["units"]]
SPECS = [spec["name"] for spec in REGISTRY["specs"]]
# Units that compile in a moment
QUICK = ["bounds", "hilbert_codes", "indexing"]


@pytest.fixture(scope="session")
def folder():
    path = BUILD / "vibespatial"
    if not (path / "vibespatial-compile").exists():
        pytest.skip("built without the GPU plug-in")
    return path


class Kernel:
    def __init__(self, line):
        words = line.split(" ", 7)
        self.kind, self.name, self.state, self.source = words[:4]
        self.queue_ms, self.wall_ms, self.bytes = float(words[4]), float(words[5]), int(words[6])
        self.error = words[7] if len(words) > 7 else ""


def warm(folder, cache, *words, capability=90, environment=None, source="jit", timeout=300):
    """Runs the precompiler on the named kernels; its exit status, kernels by name, and the line about the cache."""
    command = [folder / "vibespatial-compile", "warm", "--capability", capability, "--cache", cache, "--source", source, *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(environment or {})})
    kernels = [Kernel(line) for line in done.stdout.splitlines() if re.match("(unit|spec) ", line)]
    (cache_line,) = [line for line in done.stdout.splitlines() if line.startswith("disk cache:")]
    return done.returncode, {kernel.name: kernel for kernel in kernels}, cache_line


def test_all_specs_are_declared():
    assert len(SPECS) == 18 and len(UNITS) == 22


@pytest.mark.parametrize("capability", [80, 90, 100, 120, 86, 103, 121])
def test_pack_has_everything(folder, tmp_path, capability):
    """make compiled every unit and spec for four architectures; a device of the same major version takes them."""
    status, kernels, _ = warm(folder, tmp_path / "c", capability=capability, source="pack")
    assert status == 0, {name: kernel.error for name, kernel in kernels.items() if kernel.error}
    assert sorted(kernels) == sorted(UNITS + SPECS)
    assert {kernel.source for kernel in kernels.values()} == {"pack"}
    assert all(kernel.bytes > 1000 for kernel in kernels.values())


def test_specs_carry_no_unused_variables(folder, tmp_path):
    """CCCL's headers define a thousand, which would take the driver milliseconds to load: with them the smallest has 159 kB."""
    cache = tmp_path / "c"
    status, kernels, _ = warm(folder, cache, "exclusive_scan_i32", "unique_by_key_i32_i32")
    assert status == 0 and all(10_000 < kernel.bytes < 100_000 for kernel in kernels.values())
    files = list(cache.glob("**/*.kernel"))
    assert len(files) == 2
    for file in files:
        assert b".nv.global" not in file.read_bytes(), file
    _, kernels, _ = warm(folder, tmp_path / "d", source="pack")
    assert all(kernels[name].bytes < 100_000 for name in SPECS if "radix" not in name)


@pytest.mark.parametrize("capability", [75, 70, 110])
def test_pack_refuses_other_devices(folder, tmp_path, capability):
    status, kernels, _ = warm(folder, tmp_path / "c", "bounds", capability=capability, source="pack")
    assert status == 1
    assert f"sm_{capability}" in kernels["bounds"].error and "vibe_kernel_source" in kernels["bounds"].error


def test_second_process_reads_the_cache(folder, tmp_path):
    status, kernels, _ = warm(folder, tmp_path / "c", *QUICK, "merge_sort_u64_i32")
    assert status == 0 and {kernel.source for kernel in kernels.values()} == {"jit"}
    first = {name: kernel.bytes for name, kernel in kernels.items()}
    status, kernels, line = warm(folder, tmp_path / "c", *QUICK, "merge_sort_u64_i32")
    assert status == 0 and {kernel.source for kernel in kernels.values()} == {"disk"}
    assert {name: kernel.bytes for name, kernel in kernels.items()} == first
    assert "4 kernels" in line
    # The cache is asked before the pack
    _, kernels, _ = warm(folder, tmp_path / "c", *QUICK, source="auto")
    assert {kernel.source for kernel in kernels.values()} == {"disk"}
    # Another architecture is another kernel
    _, kernels, _ = warm(folder, tmp_path / "c", "bounds", capability=80)
    assert kernels["bounds"].source == "jit"


def test_damaged_files_are_made_anew(folder, tmp_path):
    cache = tmp_path / "c"
    warm(folder, cache, *QUICK)
    for name, damage in zip(QUICK, ["flip", "cut", "empty"]):
        (path,) = cache.glob(f"{name}-*.kernel")
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 1
        path.write_bytes({"flip": bytes(content), "cut": bytes(content[:-10]), "empty": b""}[damage])
    status, kernels, line = warm(folder, cache, *QUICK)
    assert status == 0 and {kernel.source for kernel in kernels.values()} == {"jit"}
    assert "was removed" in line
    _, kernels, _ = warm(folder, cache, *QUICK)
    assert {kernel.source for kernel in kernels.values()} == {"disk"}


@pytest.mark.parametrize("source", ["jit", "pack"])
def test_a_failure_on_demand(folder, tmp_path, source):
    """VIBESPATIAL_GPU_FAULT: the second kernel that is there fails, or all of them; the others do not notice"""
    fault = "a failed compile (VIBESPATIAL_GPU_FAULT)"
    status, kernels, _ = warm(folder, tmp_path / "c", *QUICK, source=source, environment={"VIBESPATIAL_GPU_FAULT": "compile:2"})
    assert status != 0
    assert sorted(kernel.state for kernel in kernels.values()) == ["failed", "ready", "ready"]
    assert [kernel.error for kernel in kernels.values() if kernel.state == "failed"] == [fault]
    _, kernels, _ = warm(folder, tmp_path / "c", *QUICK, source=source, environment={"VIBESPATIAL_GPU_FAULT": "compile:1/1"})
    assert {(kernel.state, kernel.error) for kernel in kernels.values()} == {("failed", fault)}
    status, kernels, _ = warm(folder, tmp_path / "c", *QUICK, source=source)
    assert status == 0 and {kernel.state for kernel in kernels.values()} == {"ready"}


def test_folder_of_others_is_refused(folder, tmp_path):
    cache = tmp_path / "c"
    cache.mkdir()
    cache.chmod(0o777)
    status, kernels, line = warm(folder, cache, "bounds")
    assert status == 0 and kernels["bounds"].source == "jit"
    assert "can be written by others" in line
    assert not list(cache.iterdir())


@pytest.mark.parametrize("fault,error", [("crash", "signal 6"), ("hang", "was ended"), ("garbage", "no kernel")])
def test_bad_helper_costs_its_kernel_alone(folder, tmp_path, fault, error):
    begin = time.monotonic()
    status, kernels, _ = warm(folder, tmp_path / "c", "--compile-timeout", 2, "bounds", "select_i32", "select_i64",
                              environment={"VIBESPATIAL_COMPILE_FAULT": fault})
    assert status == 1
    assert kernels["bounds"].state == "ready"
    assert kernels["select_i32"].state == kernels["select_i64"].state == "failed"
    assert error in kernels["select_i32"].error and error in kernels["select_i64"].error
    assert time.monotonic() - begin < 30


def test_missing_helper_is_named(folder, tmp_path):
    status, kernels, _ = warm(folder, tmp_path / "c", "bounds", "select_i32",
                              environment={"VIBESPATIAL_COMPILE_HELPER": str(tmp_path / "nowhere")})
    assert status == 1
    assert kernels["bounds"].state == "ready"
    assert "nowhere" in kernels["select_i32"].error


def test_a_group_shares_one_process(folder, tmp_path):
    """Few workers: specs of one algorithm are compiled by one helper, with precompiled headers."""
    status, kernels, _ = warm(folder, tmp_path / "c", "--workers", 1, "select_i32", "select_i64", "merge_sort_u64_i32")
    assert status == 0
    assert {kernel.source for kernel in kernels.values()} == {"jit"}


def test_a_consumer_does_not_wait_longer_than_it_wants(folder, tmp_path):
    begin = time.monotonic()
    status, kernels, _ = warm(folder, tmp_path / "c", "--timeout", 0.5, "radix_sort_i32_i32")
    assert status == 1
    assert kernels["radix_sort_i32_i32"].state in ("pending", "compiling")
    assert time.monotonic() - begin < 5


def test_helpers_end_with_their_parent(folder, tmp_path):
    """A process that is killed leaves no compiler behind."""
    marker = str(tmp_path / "c")
    command = [folder / "vibespatial-compile", "warm", "--capability", "90", "--cache", marker, "--source", "jit",
               "radix_sort_i32_i32"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        def helpers():
            found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
            return [int(word) for word in found.stdout.split()]
        deadline = time.monotonic() + 10
        while not helpers() and time.monotonic() < deadline:
            time.sleep(0.02)
        children = helpers()
        assert children
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while any(pathlib.Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    alive = [child for child in children if pathlib.Path(f"/proc/{child}").exists()
             and "Z" not in pathlib.Path(f"/proc/{child}/stat").read_text().split(")")[1].split()[0]]
    assert not alive


def test_ten_processes_at_once(folder, tmp_path):
    cache = tmp_path / "c"
    command = [folder / "vibespatial-compile", "warm", "--capability", "90", "--cache", cache, "--source", "jit", *QUICK]
    processes = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) for _ in range(10)]
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        assert len(re.findall("^unit .* ready ", output, re.MULTILINE)) == len(QUICK), output
    assert len(list(cache.glob("*.kernel"))) == len(QUICK)
    assert not list(cache.glob("*.part"))
    _, kernels, line = warm(folder, cache, *QUICK)
    assert {kernel.source for kernel in kernels.values()} == {"disk"} and "removed" not in line
