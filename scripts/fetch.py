#!/usr/bin/env python3
"""Brings the pinned dependencies of deps.lock into a cache outside the clone and prints where they are.

usage: fetch.py WHAT [--platform linux_amd64|linux_arm64]

WHAT    prefix        DuckDB's headers and static archives, built once from its source distribution, or taken from
                      the tarball in the folder VIBESPATIAL_PREBUILT when that is set
        source        DuckDB's source distribution
        cli           the DuckDB command line shell
        python        the interpreter of the environment the Python tests run in
        bench-python  the interpreter of the environment the benchmarks run in
        spatial       DuckDB's own spatial extension, as the tests take it
        cuda          the folder of what the GPU plug-in is built from and runs with: CUDA headers, RMM, CCCL, NVRTC
        clang-format, clang-tidy

The cache is the folder VIBESPATIAL_CACHE, by default vibespatial in the user's cache folder.
Progress goes to standard error; the last thing on standard output is the path asked for.
"""
import argparse
import contextlib
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
LOCK = HERE / "deps.lock"
PYTHON_TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"


class Failure(Exception):
    """What went wrong, in one line for the user."""


def say(text):
    print(f"vibespatial: {text}", file=sys.stderr, flush=True)


def cache():
    folder = os.environ.get("VIBESPATIAL_CACHE")
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


class Locked:
    """One file of deps.lock."""

    def __init__(self, name, version, digest, target, file):
        self.name, self.version, self.digest, self.target, self.file = name, version, digest, target, file

    def fits(self, target, python):
        if self.target not in ("any", target):
            return False
        tag = self.file.split("-")[2] if self.file.endswith(".whl") else "py3"
        return not tag.startswith("cp") or tag == python


def locked(use, target, python=PYTHON_TAG):
    """The files of deps.lock for one use on one platform and Python, one of each package."""
    found, missing, package = [], [], None
    for line in LOCK.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if not line[0].isspace():
            name, version = words[0].split("==")
            package = (name, version) if use in words[1].split(",") else None
            if package:
                missing.append(name)
        elif package:
            entry = Locked(*package, *words)
            if entry.fits(target, python):
                found.append(entry)
                missing.remove(entry.name)
    if missing:
        raise Failure(f"deps.lock has no {', '.join(missing)} for {target} and {python}")
    return found


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


def wheel_options(use, target, python=PYTHON_TAG):
    """The wheels of that use, and what pip has to be told to get them."""
    entries = locked(use, target, python)
    tags = sorted({tag for entry in entries for tag in entry.file[:-4].split("-")[-1].split(".") if tag != "any"})
    options = ["--only-binary=:all:", "--python-version", f"{python[2]}.{python[3:]}"]
    for tag in tags:
        options += ["--platform", tag]
    return entries, options


def wheels(use, target):
    entries, options = wheel_options(use, target)
    return entries, lambda: download(entries, *options)


def unpacked(use, target):
    """The folder with the contents of the wheels of that use, all in one tree."""
    entries, fetch = wheels(use, target)
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


def source():
    """DuckDB's source distribution."""
    (entry,) = locked("source", "any")
    path = cache() / "downloads" / entry.file
    if path.exists():
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


def prefix(target):
    (entry,) = locked("source", "any")
    folder = os.environ.get("VIBESPATIAL_PREBUILT")
    if folder:
        return prebuilt(folder, entry.version, target)
    recipe = hashlib.sha256(entry.digest.encode() + (HERE / "build_duckdb.sh").read_bytes()).hexdigest()[:12]
    built = cache() / f"duckdb-{entry.version}-{target}-{recipe}"
    if not built.exists():
        others = [path for path in cache().glob(f"duckdb-{entry.version}-{target}-????????????") if path.is_dir()]
        if others:
            return max(others, key=lambda path: path.stat().st_mtime)
        run([HERE / "build_duckdb.sh", source(), target, built])
    return built


def environment(use, target):
    """The interpreter of an environment that holds the packages of that use."""
    if target != host_platform():
        raise Failure("a Python environment is for this machine's own platform only")
    entries, fetch = wheels(use, target)
    key = hashlib.sha256("".join(sorted(entry.digest for entry in entries)).encode()).hexdigest()[:12]
    folder = cache() / f"{use}-{PYTHON_TAG}-{key}"
    python = folder / "bin" / "python"
    stamp = folder / "complete"
    if not stamp.exists():
        files = fetch()
        shutil.rmtree(folder, ignore_errors=True)
        make_venv(folder)
        install(python, files)
        stamp.touch()
    return python


def spatial(target):
    folder = environment("test", target).parent.parent
    (path,) = folder.glob("lib/python*/site-packages/duckdb_extension_spatial/extensions/*/spatial.duckdb_extension")
    return path


def main():
    finders = {
        "prefix": prefix,
        "source": lambda target: source(),
        "cli": lambda target: unpacked("cli", target) / "duckdb_cli" / "duckdb",
        "python": lambda target: environment("test", target),
        "bench-python": lambda target: environment("bench", target),
        "spatial": spatial,
        "cuda": lambda target: unpacked("cuda", target),
        "clang-format": lambda target: unpacked("clang-format", target) / "clang_format" / "data" / "bin" / "clang-format",
        "clang-tidy": lambda target: unpacked("clang-tidy", target) / "clang_tidy" / "data" / "bin" / "clang-tidy",
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(finders), metavar="WHAT")
    parser.add_argument("--platform", choices=["linux_amd64", "linux_arm64"])
    arguments = parser.parse_args()
    try:
        if sys.version_info < (3, 11):
            raise Failure(f"Python 3.11 or newer is needed, found {platform.python_version()}")
        print(finders[arguments.what](arguments.platform or host_platform()))
    except Failure as failure:
        say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
