#!/usr/bin/env python3
"""Builds the coverage-guided fuzzers with clang and runs them, under AddressSanitizer and UndefinedBehaviorSanitizer.

usage: fuzz.py [--seconds N] [--runs N] [--seed N] [--keep] [TARGET...]

--seconds N   for each target, default 60
--runs N      so many inputs for each target instead, from the corpus alone: with a seed, the same ones each time
--seed N      default: another one each time
--keep        adds what was found and covers more to test/fuzz/corpus, as few inputs as that takes
TARGET        wkb, geojson, relate, overlay, buffer, validity; default: all

The targets are in test/fuzz/targets. Inputs that reach new code are collected in build/fuzz/corpus; an input that breaks a promise, or
that a sanitizer objects to, is left in build/fuzz/found and is the failure of its target. The last line counts targets.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "test" / "fuzz" / "corpus"
TARGETS = ["wkb", "geojson", "relate", "overlay", "buffer", "validity"]
# Larger inputs find no more, only later
LARGEST = {"wkb": 1024, "geojson": 512}


def clang():
    """A clang++ that links libFuzzer, or None"""
    names = [os.environ["CLANGXX"]] if "CLANGXX" in os.environ else ["clang++", *(f"clang++-{version}" for version in range(22, 13, -1))]
    for name in names:
        path = shutil.which(name)
        if not path:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "empty.cpp"
            source.write_text('extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }\n')
            command = [path, "-fsanitize=fuzzer,address,undefined", str(source), "-o", str(source.with_suffix(".out"))]
            if subprocess.run(command, capture_output=True).returncode == 0:
                return path
    return None


def build(compiler):
    """The program of all targets"""
    if not (BUILD / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(BUILD), *generator, "-DVIBESPATIAL_FUZZ=ON", f"-DCMAKE_CXX_COMPILER={compiler}",
                        f"-DCMAKE_C_COMPILER={compiler.replace('clang++', 'clang')}"], check=True, stdout=subprocess.DEVNULL)
    jobs = os.environ.get("JOBS", str(os.cpu_count() or 1))
    subprocess.run(["cmake", "--build", str(BUILD), "--parallel", jobs, "--target", "vibespatial_fuzz"], check=True)
    return BUILD / "vibespatial_fuzz"


def fuzz(program, target, words):
    """Whether nothing was found"""
    found = BUILD / "found"
    collected = BUILD / ("corpus-runs" if words.runs else "corpus") / target
    if words.runs:
        shutil.rmtree(collected, ignore_errors=True)
    collected.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    kept = [str(CORPUS / target)] if (CORPUS / target).is_dir() else []
    limit = f"-runs={words.runs}" if words.runs else f"-max_total_time={words.seconds}"
    # A hang is a failure, too: no input of this size takes seconds
    command = [str(program), f"-seed={words.seed}", limit, f"-max_len={LARGEST.get(target, 256)}", "-len_control=0", "-timeout=60",
               "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={found}/{target}-", str(collected), *kept]
    done = subprocess.run(command, env={**os.environ, "FUZZ_TARGET": target, "UBSAN_OPTIONS": "print_stacktrace=1"}, cwd=BUILD,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    executed = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    covered = re.findall(r"cov: (\d+)", done.stdout)
    if done.returncode == 0 and executed and int(executed[1]) > 0:
        print(f"{target}: {executed[1]} inputs, {covered[-1] if covered else 0} edges covered, nothing found", flush=True)
        return True
    print(f"{target}: FAILED\n{done.stdout[-8000:]}", flush=True)
    return False


def keep(program, target):
    """Adds to the corpus what covers more than it does"""
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    subprocess.run([str(program), "-merge=1", str(CORPUS / target), str(BUILD / "corpus" / target)], check=True, cwd=BUILD,
                   env={**os.environ, "FUZZ_TARGET": target}, capture_output=True)
    print(f"{target}: {len(list((CORPUS / target).iterdir()))} inputs in test/fuzz/corpus")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    words = parser.parse_args()
    targets = words.targets or TARGETS
    if not set(targets) <= set(TARGETS):
        parser.error("the targets are " + ", ".join(TARGETS))
    compiler = clang()
    if not compiler:
        print("fuzz: skipped, there is no clang with libFuzzer: install Debian's packages clang and libclang-rt-dev (or set CLANGXX)")
        print(f"fuzz: 0 passed, 0 failed, {len(targets)} skipped")
        return 0
    program = build(compiler)
    good = [fuzz(program, target, words) for target in targets]
    if words.keep:
        for target in targets:
            keep(program, target)
    print(f"fuzz: {sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
