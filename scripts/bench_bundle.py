#!/usr/bin/env python3
"""Packs the benchmark of the GPU and SpatialBench, with the peers and their data, for a machine that has Python and no network.

usage: bench_bundle.py [--platform linux_amd64] [--python cp312] [--build build/release] [--send build/send/bench] [--only NAME,...]
                       [--spatialbench]

Tarballs that unpack into one folder, vibespatial-bench, which runs with `python3 vibespatial-bench/bench/gpu.py` or `bench/spatialbench.py`:

    ours         the extension, its GPU plug-in, the benchmarks
    duckdb       DuckDB's Python module, and its spatial extension, which has much code in common with it
    sedona       SedonaDB
    tables       the real data, from the folder VIBESPATIAL_SHARED_DATA, for gpu.py
    generator    what makes the tables of SpatialBench there, at any scale
    zones        what its zones are made of, from the same folder

--spatialbench packs what SpatialBench needs: all but tables. Without it all but generator and zones are packed.

Wheels are those of deps.lock. Symbol tables are stripped from their libraries, and xz gets all the memory it likes: a wheel is
packed for speed. What does not change with our sources is kept in the cache and packed once, in minutes.
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import fetch

ROOT = fetch.HERE.parent
FOLDER = "vibespatial-bench"
CODE = "--x86 --lzma2=preset=9e,dict=256MiB"
PLAIN = "--lzma2=preset=9e,dict=64MiB"
PACKAGES = {"duckdb": ("duckdb", "duckdb-extension-spatial"), "sedona": ("sedonadb",), "generator": ("spatialbench-cli", "numpy")}
# The benchmark that prepares them, and what else than common.py decides what they are
TABLES = {"tables": ("gpu.py",), "zones": ("spatialbench.py", "spatialbench.py")}
GPU, SPATIALBENCH = "ours,duckdb,sedona,tables", "ours,duckdb,sedona,generator,zones"
FOOTER = 512  # DuckDB's own bytes at the end of an extension: what it is, and a signature


def strip(path):
    """Removes the symbol table of a library, and keeps what DuckDB appends to an extension."""
    tail = path.read_bytes()[-FOOTER:] if path.suffix == ".duckdb_extension" else b""
    if subprocess.run(["strip", "--strip-unneeded", path], capture_output=True).returncode == 0 and tail:
        with open(path, "ab") as file:
            file.write(tail)


def pack(folder, tarball, options):
    """A tarball whose bytes depend on nothing but the files."""
    tar = ["tar", "-cf", "-", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=2020-01-01", "-C", folder, FOLDER]
    part = tarball.with_suffix(".part")
    with open(part, "wb") as file, subprocess.Popen([str(word) for word in tar], stdout=subprocess.PIPE) as source:
        fetch.say(f"packing {tarball.name}")
        if subprocess.run(["xz", "-c", *options.split()], stdin=source.stdout, stdout=file).returncode or source.wait():
            raise fetch.Failure(f"{tarball.name} could not be packed")
    part.replace(tarball)


def ours(work, arguments):
    inner = work / FOLDER
    (inner / "bench").mkdir(parents=True)
    # The version that the peers have: spatial is there for no other
    (version,) = {entry.version for entry in fetch.locked("peers", arguments.platform, arguments.python) if entry.name == "duckdb"}
    shutil.copy(arguments.build / f"v{version}" / "vibespatial.duckdb_extension", inner)
    if (arguments.build / "vibespatial").is_dir():
        # As bundle.sh does: CUDA's compilers are on a machine with a device
        shutil.copytree(arguments.build / "vibespatial", inner / "vibespatial",
                        ignore=shutil.ignore_patterns("libnvrtc*", "libnvJitLink*", "no-driver"))
    for name in ("common.py", "gpu.py", "spatialbench.py", "spatialbench_queries.py"):
        shutil.copy(ROOT / "bench" / name, inner / "bench")
    shutil.copy(ROOT / "LICENSE", inner)


def wheels(work, name, arguments):
    target = work / FOLDER / "python"
    target.mkdir(parents=True)
    for wheel in fetch.download(*chosen(name, arguments)):
        fetch.extract(wheel, target)
    for path in sorted(target.rglob("*")):
        if path.is_file() and (".so" in path.name or path.suffix == ".duckdb_extension"):
            strip(path)


def chosen(name, arguments):
    """The wheels of one tarball, and what pip has to be told to get them."""
    entries, options = fetch.wheel_options("peers", arguments.platform, arguments.python)
    return [entry for entry in entries if entry.name in PACKAGES[name]], *options


def tables(work, script):
    target = work / FOLDER / "tables"
    target.mkdir(parents=True)
    fetch.run([fetch.environment("bench", fetch.host_platform()), ROOT / "bench" / script, "--prepare", target])


def kept(name, key, make, options):
    """A tarball that the cache has, or gets now."""
    tarball = fetch.cache() / f"bench-{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.tar.xz"
    if not tarball.exists():
        with tempfile.TemporaryDirectory() as work:
            make(pathlib.Path(work))
            pack(work, tarball, options)
    return tarball


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", choices=["linux_amd64", "linux_arm64"], default="linux_amd64")
    parser.add_argument("--python", default="cp312")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--send", type=pathlib.Path, default=ROOT / "build" / "send" / "bench")
    parser.add_argument("--only")
    parser.add_argument("--spatialbench", action="store_true")
    arguments = parser.parse_args()
    code = CODE if arguments.platform == "linux_amd64" else CODE.replace("--x86", "--arm64")
    arguments.send.mkdir(parents=True, exist_ok=True)
    try:
        for name in (arguments.only or (SPATIALBENCH if arguments.spatialbench else GPU)).split(","):
            if name not in ("ours", *TABLES, *PACKAGES):
                raise fetch.Failure(f"there is no {name}")
            sent = arguments.send / f"{name}.tar.xz"
            if name == "ours":
                with tempfile.TemporaryDirectory() as work:
                    ours(pathlib.Path(work), arguments)
                    pack(work, sent, code)
            elif name in TABLES:
                data = pathlib.Path(os.environ.get("VIBESPATIAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
                key = "".join(f"{path.name} {path.stat().st_size}" for path in sorted(data.glob("*.parquet")))
                # Which tables there are, and how they are made
                key += "".join((ROOT / "bench" / script).read_text() for script in ("common.py", *TABLES[name][1:]))
                shutil.copy(kept(name, key, lambda work, name=name: tables(work, TABLES[name][0]), PLAIN), sent)
            else:
                key = "".join(entry.digest for entry in chosen(name, arguments)[0]) + code
                shutil.copy(kept(name, key, lambda work, name=name: wheels(work, name, arguments), code), sent)
            print(f"{sent} ({sent.stat().st_size / (1 << 20):.1f} MiB)", flush=True)
    except fetch.Failure as failure:
        fetch.say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
