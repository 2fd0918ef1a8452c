#!/usr/bin/env python3
"""Joins while another process holds nearly all of the device's memory; needs Python alone, the DuckDB shell and a device.

usage: memory_pressure.py --cli DUCKDB --extension FILE [--rows 2000000] [--left 1000]

Memory tier 'safe'. The other process takes all but --left megabytes either before the engine starts, which then has a limit that fits, or
after, when the limit is far above what can be had and allocations fail. Each join has to give the rows of the CPU engine or, in
mode 'gpu', to say why not. The last line is "memory pressure: passed"; the exit code is 1 otherwise.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

QUERY = "SELECT count(*) AS n, sum(a.i * 7 + b.i) AS s FROM a JOIN b ON ST_Intersects(a.g, b.g)"

# Holds memory until its input ends
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status:
        raise SystemExit(f"{name}: {status}")
context, device, at = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
step = 1 << 30
while step >= 1 << 22:
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    if free.value - step < int(sys.argv[1]) << 20 or cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(step)):
        step //= 2
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
print(free.value >> 20, flush=True)
sys.stdin.read()
"""


class Holder:
    def __init__(self, left):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, str(left)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("no memory could be held")
        self.free = int(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


class Shell:
    """A session that is asked statement by statement."""

    def __init__(self, arguments, database, mode):
        self.process = subprocess.Popen([arguments.cli, "-unsigned", "-init", "/dev/null", "-batch", "-json", database, "-readonly"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.ask(f"LOAD '{arguments.extension}'")
        self.ask(f"SET vibe_execution_mode = '{mode}'")
        self.ask("SET vibe_memory_tier = 'safe'")

    def ask(self, statement):
        """The rows, or the text of the error."""
        self.process.stdin.write(f"{statement};\n.print done\n")
        self.process.stdin.flush()
        text = ""
        for line in self.process.stdout:
            if line == "done\n":
                break
            text += line
        else:
            raise SystemExit(f"the shell ended: {text}")
        return json.loads(text) if text.startswith("[") else text

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cli", required=True)
    parser.add_argument("--extension", required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--left", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.extension = str(pathlib.Path(arguments.extension).resolve())
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        database = f"{folder}/boxes.duckdb"
        boxes = ("SELECT i, ST_MakeEnvelope(x, y, x + 0.01, y + 0.01) AS g FROM (SELECT i, (hash(i + {0}) % 3600000) / 1e4 - 180 AS x, "
                 f"(hash(i + {{0}} + 7) % 1800000) / 1e4 - 90 AS y FROM range({arguments.rows}) t(i))")
        subprocess.run([arguments.cli, "-unsigned", "-init", "/dev/null", database, "-c", f"LOAD '{arguments.extension}'",
                        "-c", "SET vibe_execution_mode = 'cpu'", "-c", f"CREATE TABLE a AS {boxes.format(0)}",
                        "-c", f"CREATE TABLE b AS {boxes.format(10**9)}"], check=True, capture_output=True)
        shell = Shell(arguments, database, "cpu")
        expected = shell.ask(QUERY)
        shell.close()
        for when in ("before", "after"):
            for mode in ("gpu", "auto"):
                if when == "before":
                    with Holder(arguments.left) as holder:
                        free, found, rows, log = joined(arguments, database, mode, holder)
                else:
                    free, found, rows, log = joined(arguments, database, mode, None)
                retries = [row for row in rows if row["name"] == "failed allocations"]
                clear = isinstance(found, str) and mode == "gpu" and "memory" in found
                good = found == expected or clear
                failed = int(retries[0]["count"]) if retries else 0
                print(f"held {when} the engine starts, {free} MB left, mode {mode}: "
                      f"{'the CPU rows' if found == expected else found}; {failed} allocations failed, "
                      f"{retries[0]['bytes'] if retries else 0} bytes freed to try again; {log}", flush=True)
                if not good:
                    wrong.append((when, mode))
                if when == "after" and failed == 0:
                    wrong.append((when, mode, "no allocation failed: nothing was tested"))
    if wrong:
        print(f"memory pressure: failed: {wrong}")
        return 1
    print("memory pressure: passed")
    return 0


def joined(arguments, database, mode, holder):
    shell = Shell(arguments, database, mode)
    cold = shell.ask("FROM vibe_ensure_warm(60)")
    if isinstance(cold, list) and cold:
        raise SystemExit(f"no kernels: {cold}")

    def join(free):
        found = shell.ask(QUERY)
        again = shell.ask(QUERY)
        if again != found and not isinstance(found, str):
            found = f"not the same twice: {found}, {again}"
        log = shell.ask("SELECT kernel, actual, reason FROM vibe_dispatch_log() LIMIT 2")
        return free, found, shell.ask("FROM vibe_memory_status()"), log

    try:
        if holder:
            return join(holder.free)
        with Holder(arguments.left) as late:
            return join(late.free)
    finally:
        shell.close()


if __name__ == "__main__":
    sys.exit(main())
