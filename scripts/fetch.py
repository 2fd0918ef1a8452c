#!/usr/bin/env python3
"""Brings the pinned dependencies of deps.lock into a cache outside the clone and prints where they are.

usage: fetch.py WHAT [--duckdb VERSION] [--platform linux_amd64|linux_arm64]

WHAT    prefix        DuckDB's headers and static archives, built once from its source distribution, or taken from
                      the tarball in the folder VIBESPATIAL_PREBUILT when that is set
        source        DuckDB's source distribution
        cli           the DuckDB command line shell
        python        the interpreter of the environment the Python tests run in
        duckdb-wheel  DuckDB's Python package, as a file (--python cp312: for another Python)
        bench-python  the interpreter of the environment the benchmarks run in
        ray-python    the interpreter of the environment the Ray demo runs in
        docs-python   the interpreter of the environment the documentation is built in
        spatial       DuckDB's own spatial extension, as the tests take it
        spatialbench  the program that makes the tables of SpatialBench
        cuda          the folder of what the GPU plug-in is built from and runs with: CUDA headers, RMM, CCCL, NVRTC
        arrow         the folder that holds Apache Arrow C++ (headers and libarrow), what the Arrow plug-in is built from
        clang-format, clang-tidy

VERSION is one of scripts/duckdb.versions, by default the first. prefix, source, cli, python and spatial are of that version.
The cache is the folder VIBESPATIAL_BUILD_CACHE, by default vibespatial in the user's cache folder.
Progress goes to standard error; the last thing on standard output is the path asked for.
"""
import argparse
import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
LOCK = HERE / "deps.lock"
VERSIONS = HERE / "duckdb.versions"
PYTHON_TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"


class Failure(Exception):
    """What went wrong, in one line for the user."""


def say(text):
    print(f"vibespatial: {text}", file=sys.stderr, flush=True)


def cache():
    folder = os.environ.get("VIBESPATIAL_BUILD_CACHE")
    if not folder:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.path.join(home, "vibespatial")
    path = pathlib.Path(folder).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def host_platform():
    machine = platform.machine()
    known = {"aarch64": "linux_arm64", "arm64": "linux_arm64", "x86_64": "linux_amd64"}
    if platform.system() != "Linux" or machine not in known:
        raise Failure(f"no DuckDB platform is known for {platform.system()} on {machine}")
    return known[machine]


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


class DuckDB:
    """One line of duckdb.versions."""

    def __init__(self, line):
        self.version, self.source_id, *self.targets = line.split()


def duckdbs():
    """The versions of DuckDB that the extension is built for, the default first."""
    lines = VERSIONS.read_text().splitlines()
    return {found.version: found for found in map(DuckDB, (line for line in lines if line and not line.startswith("#")))}


def python_version(tag):
    """cp311 as numbers."""
    return int(tag[2]), int(tag[3:])


class Locked:
    """One file of deps.lock."""

    def __init__(self, name, version, digest, target, file):
        self.name, self.version, self.digest, self.target, self.file = name, version, digest, target, file

    def rank(self, target, python):
        """0 where the file does not fit; of those that do, the highest is the one made for this Python."""
        if self.target not in ("any", target):
            return 0
        tag, abi = self.file[:-4].split("-")[-3:-1] if self.file.endswith(".whl") else ("py3", "none")
        if not tag.startswith("cp"):
            return 1
        if tag == python:
            return 1000
        # The stable ABI of one Python is there in all later ones
        fits = abi == "abi3" and python_version(tag) < python_version(python)
        return python_version(tag)[1] if fits else 0


def locked(use, target, python=PYTHON_TAG, duckdb=None):
    """The files of deps.lock for one use on one platform and Python, one of each package. A use may be that of one version
    of DuckDB alone: test-2.0.0 is part of test where duckdb is 2.0.0."""
    found, best = {}, {}
    package = None
    for line in LOCK.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if not line[0].isspace():
            uses = words[1].split(",")
            package = tuple(words[0].split("==")) if use in uses or f"{use}-{duckdb}" in uses else None
            if package:
                found[package], best[package] = None, 0
        elif package:
            entry = Locked(*package, *words)
            rank = entry.rank(target, python)
            if rank > best[package]:
                found[package], best[package] = entry, rank
    missing = [name for (name, _), entry in found.items() if not entry]
    if missing:
        raise Failure(f"deps.lock has no {', '.join(missing)} for {target} and {python}")
    if not found:
        raise Failure(f"deps.lock has nothing for the use {use}" + (f" with DuckDB {duckdb}" if duckdb else ""))
    return list(found.values())


def is_locked(use, name, duckdb):
    """Whether deps.lock has that package for a use with that version of DuckDB; spatial and the shell are not there for all."""
    try:
        return any(entry.name == name for entry in locked(use, host_platform(), duckdb=duckdb))
    except Failure:
        return False


_threads = threading.RLock()
_depth = 0


@contextlib.contextmanager
def exclusive():
    """Only one thread of one process changes the cache at a time: test suites run side by side."""
    global _depth
    with _threads, open(cache() / "lock", "w") as file:
        if _depth == 0:
            fcntl.flock(file, fcntl.LOCK_EX)
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


@contextlib.contextmanager
def fresh(folder):
    """A folder that appears under its name only when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        yield work
        work.chmod(0o755)
        try:
            work.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run(command, **options):
    try:
        subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, **options)
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise Failure(f"'{' '.join(str(word) for word in command[:5])} ...' failed ({error.returncode})") from None


def make_venv(folder):
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True)
    if made.returncode != 0:
        raise Failure("python3 -m venv does not work: install python3-venv")


def pip():
    """The interpreter of an environment that has pip and what the sdist's build backend needs."""
    folder = cache() / f"pip-{PYTHON_TAG}"
    python = folder / "bin" / "python"
    if not python.exists():
        # A virtual environment holds absolute paths, so it is made in place and begun anew if it was cut short.
        shutil.rmtree(folder, ignore_errors=True)
        make_venv(folder)
    return python


def install(python, files):
    run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", *files])


def download(entries, *options):
    """Downloads what is not in the cache yet, by name, version and hash; returns the files' paths."""
    with exclusive():
        return download_alone(entries, *options)


def download_alone(entries, *options):
    folder = cache() / "downloads"
    folder.mkdir(exist_ok=True)
    wanted = [entry for entry in entries if not (folder / entry.file).exists()]
    if wanted:
        say("fetching " + ", ".join(f"{entry.name} {entry.version}" for entry in wanted))
        python = pip()
        with tempfile.TemporaryDirectory(dir=folder) as work:
            requirements = pathlib.Path(work) / "requirements.txt"
            requirements.write_text(
                "".join(f"{entry.name}=={entry.version} --hash=sha256:{entry.digest}\n" for entry in wanted)
            )
            quiet = [] if sys.stderr.isatty() else ["-q"]
            run([python, "-m", "pip", "download", *quiet, "--disable-pip-version-check", "--no-deps",
                 "--require-hashes", "-d", work, "-r", requirements, *options])
            for entry in wanted:
                if not (pathlib.Path(work) / entry.file).exists():
                    raise Failure(f"the package index gave another file than {entry.file}")
                os.replace(pathlib.Path(work) / entry.file, folder / entry.file)
    for entry in entries:
        if sha256(folder / entry.file) != entry.digest:
            (folder / entry.file).unlink()
            raise Failure(f"{entry.file} in the cache did not have the sha256 of deps.lock and was removed; run again")
    return [folder / entry.file for entry in entries]


def wheel_options(use, target, python=PYTHON_TAG, duckdb=None):
    """The wheels of that use, and what pip has to be told to get them."""
    entries = locked(use, target, python, duckdb)
    tags = sorted({tag for entry in entries for tag in entry.file[:-4].split("-")[-1].split(".") if tag != "any"})
    options = ["--only-binary=:all:", "--python-version", f"{python[2]}.{python[3:]}"]
    for tag in tags:
        options += ["--platform", tag]
    return entries, options


def wheels(use, target, duckdb=None):
    entries, options = wheel_options(use, target, duckdb=duckdb)
    return entries, lambda: download(entries, *options)


def unpacked(use, target, duckdb=None):
    """The folder with the contents of the wheels of that use, all in one tree."""
    entries, fetch = wheels(use, target, duckdb)
    if len(entries) == 1:
        name, key = f"{entries[0].name}-{entries[0].version}", entries[0].digest
    else:
        name, key = use, hashlib.sha256("".join(sorted(entry.digest for entry in entries)).encode()).hexdigest()
    folder = cache() / f"{name}-{target}-{key[:12]}"
    if not folder.exists():
        files = fetch()
        with fresh(folder) as work:
            for wheel in files:
                extract(wheel, work)
    return folder


def extract(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            path = archive.extract(member, folder)
            if mode & 0o111:
                os.chmod(path, 0o755)


def source(version):
    """DuckDB's source distribution."""
    (entry,) = locked("source", "any", duckdb=version)
    if (cache() / "downloads" / entry.file).exists():
        (path,) = download([entry])  # which compares its hash
        return path
    # pip asks a source distribution for its metadata, so its backend must be there: ours, not the newest of the day.
    _, fetch = wheels("source-backend", host_platform())
    install(pip(), fetch())
    # That backend wants a newer cmake for a build of the Python module, which is never built here.
    os.environ["SKBUILD_CMAKE_VERSION"] = ">=3.25"
    (path,) = download([entry], "--no-binary=:all:", "--no-build-isolation")
    return path


def prebuilt(folder, version, target):
    """Unpacks the prefix of a tarball whose sha256 stands in SHA256SUMS beside it."""
    name = f"duckdb-{version}-{target}.tar.xz"
    tarball, sums = pathlib.Path(folder) / name, pathlib.Path(folder) / "SHA256SUMS"
    if not tarball.exists() or not sums.exists():
        raise Failure(f"VIBESPATIAL_PREBUILT={folder} holds no {name} with its SHA256SUMS")
    wanted = dict(reversed(line.split(maxsplit=1)) for line in sums.read_text().splitlines() if line.strip())
    digest = wanted.get(name)
    if not digest:
        raise Failure(f"{sums} does not name {name}")
    prefix = cache() / f"duckdb-{version}-{target}-{digest[:12]}"
    if not prefix.exists():
        if sha256(tarball) != digest:
            raise Failure(f"{tarball} does not have the sha256 that stands in {sums}")
        say(f"unpacking {name}")
        with fresh(prefix) as work, tarfile.open(tarball) as archive:
            options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(work, **options)
            inner = work / name[: -len(".tar.xz")]
            for child in inner.iterdir():
                child.rename(work / child.name)
            inner.rmdir()
    return prefix


def whole(prefix, duckdb, target):
    """A prefix that somebody else made, with all that this recipe makes."""
    missing = [name for name in duckdb.targets if not (prefix / "lib" / f"lib{name}.a").exists()]
    if missing == ["duckdb_loadable_extensions"]:
        say(f"adding what loads extensions to {prefix.name}")
        run([HERE / "complete_prefix.sh", source(duckdb.version), target, prefix])
    elif missing:
        raise Failure(f"{prefix} lacks {', '.join(missing)}")
    return prefix


def prefix(target, version):
    (entry,) = locked("source", "any", duckdb=version)
    duckdb = duckdbs()[version]
    folder = os.environ.get("VIBESPATIAL_PREBUILT")
    if folder:
        return whole(prebuilt(folder, version, target), duckdb, target)
    inputs = " ".join([entry.digest, duckdb.source_id, *duckdb.targets]).encode()
    recipe = hashlib.sha256(inputs + (HERE / "build_duckdb.sh").read_bytes()).hexdigest()[:12]
    built = cache() / f"duckdb-{version}-{target}-{recipe}"
    if not built.exists():
        run([HERE / "build_duckdb.sh", source(version), version, duckdb.source_id, target, built, *duckdb.targets])
    return built


def environment(use, target, duckdb=None):
    """The interpreter of an environment that holds the packages of that use."""
    if target != host_platform():
        raise Failure("a Python environment is for this machine's own platform only")
    entries, fetch = wheels(use, target, duckdb)
    key = hashlib.sha256("".join(sorted(entry.digest for entry in entries)).encode()).hexdigest()[:12]
    folder = cache() / f"{use}-{PYTHON_TAG}-{key}"
    python = folder / "bin" / "python"
    stamp = folder / "complete"
    with exclusive():
        if not stamp.exists():
            files = fetch()
            shutil.rmtree(folder, ignore_errors=True)
            make_venv(folder)
            install(python, files)
            stamp.touch()
    return python


def duckdb_wheel(target, version, python):
    entries, options = wheel_options("test", target, python, version)
    (path,) = download([entry for entry in entries if entry.name == "duckdb"], *options)
    return path


def cli(target, version):
    if not is_locked("cli", "duckdb-cli", version):
        having = [other for other in duckdbs() if is_locked("cli", "duckdb-cli", other)]
        raise Failure(f"the package index has no shell of DuckDB {version}: use the Python package duckdb=={version}, "
                      f"or the shell of DuckDB {', '.join(having)} (DUCKDB={having[0]})")
    return unpacked("cli", target, version) / "duckdb_cli" / "duckdb"


def spatial(target, version):
    folder = environment("test", target, version).parent.parent
    found = folder.glob(f"lib/python*/site-packages/duckdb_extension_spatial/extensions/v{version}/spatial.duckdb_extension")
    for path in found:
        return path
    raise Failure(f"the package index has no spatial for DuckDB {version}")


def spatialbench(target):
    (path,) = unpacked("spatialbench", target).glob("*.data/scripts/spatialbench-cli")
    return path


def main():
    finders = {
        "prefix": prefix,
        "source": lambda target, version: source(version),
        "cli": cli,
        "python": lambda target, version: environment("test", target, version),
        "duckdb-wheel": lambda target, version: duckdb_wheel(target, version, arguments.python),
        "bench-python": lambda target, _: environment("bench", target),
        "ray-python": lambda target, _: environment("ray", target),
        "docs-python": lambda target, _: environment("docs", target),
        "spatial": spatial,
        "spatialbench": lambda target, _: spatialbench(target),
        "cuda": lambda target, _: unpacked("cuda", target),
        "arrow": lambda target, _: unpacked("arrow", target) / "pyarrow",
        "clang-format": lambda target, _: unpacked("clang-format", target) / "clang_format" / "data" / "bin" / "clang-format",
        "clang-tidy": lambda target, _: unpacked("clang-tidy", target) / "clang_tidy" / "data" / "bin" / "clang-tidy",
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(finders), metavar="WHAT")
    parser.add_argument("--duckdb", choices=list(duckdbs()), default=next(iter(duckdbs())))
    parser.add_argument("--platform", choices=["linux_amd64", "linux_arm64"])
    parser.add_argument("--python", default=PYTHON_TAG)
    arguments = parser.parse_args()
    try:
        if sys.version_info < (3, 11):
            raise Failure(f"Python 3.11 or newer is needed, found {platform.python_version()}")
        print(finders[arguments.what](arguments.platform or host_platform(), arguments.duckdb))
    except Failure as failure:
        say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
