"""The geometry core compiles with NVRTC, as the GPU engine will compile it: no GPU is needed for that."""
import ctypes
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "test" / "kernels" / "headers.cu"
ENTRY_POINTS = ["orient2d", "relate", "distance", "ring_area"]


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
            ctypes.byref(program), source.encode(), b"headers.cu", 0, None, None
        )
        assert status == 0
        options = [option.encode() for option in options]
        array = (ctypes.c_char_p * len(options))(*options)
        status = self.library.nvrtcCompileProgram(program, len(options), array)
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode()
        return status, log, self.text(program, "CUBIN") if status == 0 else b""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_headers_compile(nvrtc, architecture):
    options = [
        f"--gpu-architecture={architecture}",
        f"--include-path={ROOT / 'kernels' / 'include'}",
        "--std=c++17",
        "--fmad=false",
    ]
    status, log, cubin = Nvrtc(nvrtc).compile(SOURCE.read_text(), options)
    assert status == 0, log
    assert "warning" not in log, log
    assert cubin[:4] == b"\x7fELF"
    for name in ENTRY_POINTS:
        assert name.encode() in cubin


def test_an_error_is_reported(nvrtc):
    status, log, _ = Nvrtc(nvrtc).compile("#include <vector>\n", ["--gpu-architecture=sm_90"])
    assert status != 0
    assert "vector" in log
