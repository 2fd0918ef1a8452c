#!/usr/bin/env python3
"""Packs the benchmark of the GPU, SpatialBench with the peers and their data, or a Ray cluster, for a machine that has Python and no network.

usage: bench_bundle.py [--platform linux_amd64] [--python cp312] [--build build/release] [--send build/send/bench] [--only NAME,...]
                       [--spatialbench | --ray]

Tarballs that unpack into one folder, vibespatial-bench, which runs with `python3 vibespatial-bench/bench/gpu.py`, `bench/spatialbench.py` or
`test/device/ray_gpu.py`:

    ours         the extension, its GPU plug-in, the Python package with its examples, the benchmarks
    duckdb       DuckDB's Python module, and its spatial extension, which has much code in common with it
    sedona       SedonaDB
    tables       the real data, from the folder VIBESPATIAL_SHARED_DATA, for gpu.py
    generator    what makes the tables of SpatialBench there, at any scale
    zones        what its zones are made of, from the same folder
    ray          Ray and what it asks for, without its libraries and its dashboard
    rows         what its tasks hold rows in: DuckDB's Python module, pyarrow and NumPy

--spatialbench packs what SpatialBench needs (ours, duckdb, sedona, generator, zones), --ray what a cluster needs (ours, ray, rows). Without
them it is what the benchmark of the GPU needs (ours, duckdb, sedona, tables).

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
import wheel

ROOT = fetch.HERE.parent
FOLDER = "vibespatial-bench"
CODE = "--x86 --lzma2=preset=9e,dict=256MiB"
PLAIN = "--lzma2=preset=9e,dict=64MiB"
# The use in deps.lock, and which of its packages
PACKAGES = {
    "duckdb": ("peers", ("duckdb", "duckdb-extension-spatial")),
    "sedona": ("peers", ("sedonadb",)),
    "generator": ("peers", ("spatialbench-cli", "numpy")),
    "ray": ("ray", ("ray", "attrs", "certifi", "charset-normalizer", "click", "filelock", "fsspec", "idna", "jsonschema", "jsonschema-specifications",
                    "msgpack", "packaging", "protobuf", "pyyaml", "referencing", "requests", "rpds-py", "typing-extensions", "urllib3")),
    "rows": ("ray", ("duckdb", "pyarrow", "numpy")),
}
# What of these packages nobody needs to run tasks
LEFT_OUT = {
    "ray": [f"ray/{name}" for name in ("dashboard/client", "data", "jars", "llm", "rllib", "serve", "train", "tune")],
    "rows": [f"pyarrow/{name}" for name in ("include", "tests", "*arrow_flight*", "*arrow_s3*", "_flight*", "_s3fs*")],
}
STRIP = {"linux_amd64": "x86_64-linux-gnu-strip", "linux_arm64": "aarch64-linux-gnu-strip"}
# The benchmark that prepares them, and what else than common.py decides what they are
TABLES = {"tables": ("gpu.py",), "zones": ("spatialbench.py", "spatialbench.py")}
GPU, SPATIALBENCH, RAY = "ours,duckdb,sedona,tables", "ours,duckdb,sedona,generator,zones", "ours,ray,rows"
FOOTER = 512  # DuckDB's own bytes at the end of an extension: what it is, and a signature


def strip(path, program):
    """Removes the symbol table of a library or program, and keeps what DuckDB appends to an extension."""
    tail = path.read_bytes()[-FOOTER:] if path.suffix == ".duckdb_extension" else b""
    if subprocess.run([program, "--strip-unneeded", path], capture_output=True).returncode == 0 and tail:
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
    for name in ("test/device/ray_gpu.py", "scripts/ray_demo.py"):
        (inner / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, inner / name)
    package(inner / "python", inner / "vibespatial", inner / "vibespatial.duckdb_extension", version, arguments)
    shutil.copy(ROOT / "LICENSE", inner)


def package(target, plugins, extension, version, arguments):
    """The Python package as its wheel has it, with links to the extension and the plug-ins."""
    for name, source in wheel.contents(arguments.build, arguments.platform).items():
        if name.startswith("vibespatial/extensions/"):
            continue
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source if isinstance(source, bytes) else source.read_bytes())
    extensions = target / "vibespatial" / "extensions"
    for path, source in ((extensions / f"v{version}" / extension.name, extension), (extensions / "vibespatial", plugins)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(source, path.parent))


def wheels(work, name, arguments):
    target = work / FOLDER / "python"
    target.mkdir(parents=True)
    for path in fetch.download(*chosen(name, arguments)):
        fetch.extract(path, target)
    for path in sorted(path for pattern in LEFT_OUT.get(name, []) for path in target.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # auditwheel has added segments to the libraries of a package with such a folder; strip would move them, and they could not be loaded
    patched = {name for folder in target.glob("*.libs") for name in (folder.name, folder.stem)}
    for path in sorted(target.rglob("*")):
        if path.is_file() and path.relative_to(target).parts[0] not in patched and (wheel.is_elf(path) or path.suffix == ".duckdb_extension"):
            strip(path, STRIP[arguments.platform])


def chosen(name, arguments):
    """The wheels of one tarball, and what pip has to be told to get them."""
    use, names = PACKAGES[name]
    entries, options = fetch.wheel_options(use, arguments.platform, arguments.python)
    return [entry for entry in entries if entry.name in names], *options


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
    parser.add_argument("--spatialbench", action="store_const", dest="parts", const=SPATIALBENCH)
    parser.add_argument("--ray", action="store_const", dest="parts", const=RAY)
    arguments = parser.parse_args()
    code = CODE if arguments.platform == "linux_amd64" else CODE.replace("--x86", "--arm64")
    arguments.send.mkdir(parents=True, exist_ok=True)
    try:
        for name in (arguments.only or arguments.parts or GPU).split(","):
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
                key = "".join(entry.digest for entry in chosen(name, arguments)[0]) + code + "".join(LEFT_OUT.get(name, []))
                shutil.copy(kept(name, key, lambda work, name=name: wheels(work, name, arguments), code), sent)
            print(f"{sent} ({sent.stat().st_size / (1 << 20):.1f} MiB)", flush=True)
    except fetch.Failure as failure:
        fetch.say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
