"""The units compile with NVRTC, as the GPU engine will compile them, and units.json says what is in them. No GPU is needed."""
import ctypes
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
UNITS = json.loads((KERNELS / "units.json").read_text())
ARCHITECTURES = ["sm_80", "sm_90", "sm_100", "sm_120"]
OPERATORS = {"box_index", "spatial_join", "knn", "knn_shapes", "knn_pinned", "union_agg", "scalar_pairs", "scalar_rows", "pin", "calibration"}
#: In the place of another, where the device asks for it: no operator needs both
ALTERNATIVES = {"point_in_polygon_rough"}
#: Names of units and specs in the engine's code, but for its test of itself
RUN = set(re.findall(r'"(\w+)"', "".join(
    path.read_text() for folder in ("src/engine", "src/gpu_plugin/device") for path in (ROOT / folder).rglob("*.cpp") if path.stem != "self_test")))
ALGORITHMS = {
    "scan", "three_way_partition", "reduce", "segmented_reduce", "binary_search", "radix_sort", "merge_sort",
    "unique_by_key",
}


class Nvrtc:
    def __init__(self, folder):
        # The builtins library lies beside it and must be found by name
        for name in sorted(folder.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(sorted(folder.glob("libnvrtc.so.*"))[0]))

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    def compile(self, source, options):
        program = ctypes.c_void_p()
        status = self.library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"unit.cu", 0, None, None
        )
        assert status == 0
        options = [option.encode() for option in options]
        array = (ctypes.c_char_p * len(options))(*options)
        status = self.library.nvrtcCompileProgram(program, len(options), array)
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode()
        return status, log, self.text(program, "CUBIN") if status == 0 else b""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("unit", UNITS["units"], ids=lambda unit: unit["name"])
def test_unit_compiles(nvrtc, unit, architecture):
    options = [
        f"--gpu-architecture={architecture}",
        f"--include-path={KERNELS / 'include'}",
        "--std=c++17",
        "--fmad=false",
    ]
    status, log, cubin = Nvrtc(nvrtc).compile((KERNELS / unit["source"]).read_text(), options)
    assert status == 0, log
    assert "warning" not in log, log
    assert cubin[:4] == b"\x7fELF"
    for name in unit["entry_points"]:
        assert name.encode() in cubin


def test_an_error_is_reported(nvrtc):
    status, log, _ = Nvrtc(nvrtc).compile("#include <vector>\n", ["--gpu-architecture=sm_90"])
    assert status != 0
    assert "vector" in log


def test_units_are_the_files():
    assert UNITS["format"] == 1
    assert sorted(unit["source"] for unit in UNITS["units"]) == sorted(path.name for path in KERNELS.glob("*.cu"))
    names = [entry["name"] for entry in UNITS["units"] + UNITS["specs"]]
    names += [name for unit in UNITS["units"] for name in unit["entry_points"] if name != unit["name"]]
    assert len(names) == len(set(names))
    for unit in UNITS["units"]:
        assert set(unit) == {"name", "source", "entry_points", "needed_by"}
        assert unit["source"] == unit["name"] + ".cu"
        text = (KERNELS / unit["source"]).read_text()
        assert re.findall(r"__global__\s+void\s+(\w+)", text) == unit["entry_points"]
        assert text.count("__global__") == text.count('extern "C" __global__ void ') == len(unit["entry_points"])


def test_specs_and_operators():
    assert len(UNITS["specs"]) == 18
    for spec in UNITS["specs"]:
        assert set(spec) - {"op", "on_demand"} == {"name", "algorithm", "types", "needed_by"}
        assert spec.get("on_demand", False) == (not spec["needed_by"])
        assert spec["algorithm"] in ALGORITHMS
        assert spec["name"].endswith("_".join(spec["types"]))
    for entry in UNITS["units"] + UNITS["specs"]:
        needed_by = entry["needed_by"]
        # A query waits for all that its operators declare: no more, and no less, than what the engine runs
        assert (entry["name"] in RUN - ALTERNATIVES) == bool(needed_by), entry["name"]
        assert len(needed_by) == len(set(needed_by)) and set(needed_by) <= OPERATORS
        # A join builds an index
        assert "box_index" not in needed_by or "spatial_join" in needed_by
