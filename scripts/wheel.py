#!/usr/bin/env python3
"""Makes the wheel of the Python package: the extension for every DuckDB version that was built, the plug-ins, the example data.

usage: wheel.py PLATFORM BUILD_FOLDER [--out dist] [--check]

PLATFORM      linux_amd64 or linux_arm64
BUILD_FOLDER  holds vX.Y.Z/vibespatial.duckdb_extension for each version (or vibespatial.duckdb_extension alone), and the folder
              vibespatial of the plug-ins
--check       has auditwheel confirm the tag

The tag names the oldest glibc on which every binary in the wheel loads: it is computed from the versions of the symbols that they need.
"""
import argparse
import base64
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import zipfile

import fetch

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "vibespatial"
EXTENSION = "vibespatial.duckdb_extension"
MACHINES = {"linux_amd64": ("x86_64", 62), "linux_arm64": ("aarch64", 183)}
# CUDA's compilers are packages of their own: the extra gpu
NOT_OURS = ("libnvrtc", "libnvJitLink")
# Releases between the supported ones for which there is no binary
UNSUPPORTED = ["1.5.6"]
LIMIT = 100 * 1000 * 1000
# What distributions with a glibc of that age have of libstdc++ and libgcc at least (the policies of PEP 600)
POLICIES = [
    ("2.17", {"GLIBCXX": "3.4.19", "CXXABI": "1.3.7", "GCC": "4.8.0"}),
    ("2.24", {"GLIBCXX": "3.4.22", "CXXABI": "1.3.10", "GCC": "6.1.0"}),
    ("2.26", {"GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}),
    ("2.27", {"GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}),
    ("2.28", {"GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}),
    ("2.31", {"GLIBCXX": "3.4.28", "CXXABI": "1.3.12", "GCC": "9.0.0"}),
    ("2.34", {"GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "11.0.0"}),
    ("2.35", {"GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"}),
    ("2.36", {"GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"}),
    ("2.39", {"GLIBCXX": "3.4.33", "CXXABI": "1.3.15", "GCC": "14.0.0"}),
]


# Of glibc 2.26 there was a distribution with an older compiler on x86-64
POLICIES_X86 = {"2.26": {"GLIBCXX": "3.4.22", "CXXABI": "1.3.10", "GCC": "4.8.0"}}


def key(version):
    return tuple(int(part) for part in version.split("."))


def project_version():
    return re.search(r"project\(vibespatial VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def pinned(name):
    """The version of a package in deps.lock."""
    return re.search(rf"^{re.escape(name)}==(\S+)", (ROOT / "scripts" / "deps.lock").read_text(), re.MULTILINE)[1]


def footer(path):
    """The platform and the DuckDB version that an extension says it is for."""
    fields = path.read_bytes()[-512:-256]
    texts = [fields[at : at + 32].rstrip(b"\0").decode() for at in range(0, 256, 32)]
    return texts[6], texts[5].removeprefix("v")


def extensions(build, platform):
    """The extension's file for each version of DuckDB."""
    found = {}
    for path in sorted(build.glob(f"v*/{EXTENSION}")) or [build / EXTENSION]:
        if not path.is_file():
            raise fetch.Failure(f"{build} holds no {EXTENSION}: run make first")
        built_for, version = footer(path)
        if built_for != platform:
            raise fetch.Failure(f"{path} is for {built_for}, not {platform}")
        if path.parent != build and path.parent.name != f"v{version}":
            raise fetch.Failure(f"{path} is for DuckDB {version}")
        found[version] = path
    return dict(sorted(found.items(), key=lambda item: key(item[0])))


def needed(path):
    """The symbol versions that an ELF file asks for, the highest of each kind: {"GLIBC": "2.28", ...}"""
    found = {}
    for line in subprocess.run(["readelf", "-W", "-V", path], capture_output=True, text=True, check=True).stdout.splitlines():
        if match := re.search(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+) ", line):
            name, version = match.groups()
            found[name] = max(found.get(name, "0"), version, key=key)
    return found


def glibc(files, name):
    """The oldest glibc on which all the files load, and what each of them needs."""
    policies = [(version, POLICIES_X86.get(version, has) if name == "x86_64" else has) for version, has in POLICIES]
    lowest, table = "2.17", {}
    for path in files:
        table[path] = needs = needed(path)
        fitting = [version for version, has in policies
                   if key(version) >= key(needs.get("GLIBC", "0"))
                   and all(key(has[kind]) >= key(needs.get(kind, "0")) for kind in has)]
        if not fitting:
            raise fetch.Failure(f"{path} needs newer libraries than any manylinux tag promises: {needs}")
        lowest = max(lowest, fitting[0], key=key)
    return lowest, table


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def machine(path):
    with open(path, "rb") as file:
        return int.from_bytes(file.read(20)[18:20], "little")


def licenses(platform, versions, plugins):
    """The licences of what the wheel has of others: DuckDB in the extension, and the libraries beside the GPU plug-in."""
    found = {f"duckdb-{version}": fetch.prefix(platform, version) / "LICENSE" for version in versions}
    if (plugins / "libvibespatial_cuda.so").exists():
        for path in sorted(fetch.unpacked("cuda", platform).glob("*.dist-info/licenses/LICENSE")):
            found[path.parent.parent.name.removesuffix(".dist-info")] = path
    return {name: path for name, path in found.items() if path.is_file()}


def contents(build, platform):
    """What goes into the wheel: the name there, and the file or the bytes."""
    found = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and (path.suffix == ".py" or path.name == "py.typed"):
            found[f"vibespatial/{path.relative_to(PACKAGE)}"] = path
    found["vibespatial/_version.py"] = (
        f'"""The version of the package and of the extension."""\n\n__version__ = "{project_version()}"\n'.encode()
    )
    for path in sorted((ROOT / "data").glob("*")):
        if path.suffix in (".parquet", ".md"):
            found[f"vibespatial/data/{path.name}"] = path
    for version, path in extensions(build, platform).items():
        found[f"vibespatial/extensions/v{version}/{EXTENSION}"] = path
    plugins = build / "vibespatial"
    if plugins.is_dir():
        # rglob does not go into links to folders, and CCCL's headers are one
        def walk(folder, name):
            for child in sorted(folder.iterdir()):
                if child.name.startswith(NOT_OURS) or child.name == "__pycache__":
                    continue
                if child.is_dir():
                    walk(child, f"{name}/{child.name}")
                else:
                    found[f"{name}/{child.name}"] = child

        walk(plugins, "vibespatial/extensions/vibespatial")
    return found


def requirement(versions):
    listed = sorted(versions, key=key)
    if len(listed) == 1:
        return f"duckdb=={listed[0]}"
    gaps = "".join(f",!={version}" for version in UNSUPPORTED
                   if version not in listed and key(listed[0]) < key(version) < key(listed[-1]))
    return f"duckdb>={listed[0]},<={listed[-1]}{gaps}"


def metadata(versions):
    lines = [
        "Metadata-Version: 2.3",
        "Name: vibespatial",
        f"Version: {project_version()}",
        "Summary: Exact spatial SQL for DuckDB on CPU and NVIDIA GPU, with GeoPandas on both ends",
        "License: MIT",
        "Keywords: duckdb,geospatial,gis,sql,geopandas,gpu",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Topic :: Scientific/Engineering :: GIS",
        "Classifier: Typing :: Typed",
        "Requires-Python: >=3.10",
        f"Requires-Dist: {requirement(versions)}",
        "Provides-Extra: geopandas",
        *(f'Requires-Dist: {package}; extra == "geopandas"' for package in ("geopandas>=1.0", "pyarrow>=15")),
        "Provides-Extra: ray",
        *(f'Requires-Dist: {package}; extra == "ray"' for package in ("ray>=2.40", "pyarrow>=17", "numpy", "fsspec")),
        "Provides-Extra: gpu",
        *(f'Requires-Dist: {package}>={pinned(package)},<14; extra == "gpu"' for package in ("nvidia-cuda-nvrtc", "nvidia-nvjitlink")),
        "Description-Content-Type: text/markdown",
    ]
    return ("\n".join(lines) + "\n\n" + (ROOT / "python" / "README.md").read_text()).encode()


def write(path, entries):
    """A wheel is a zip file whose last member lists the others with their hashes. The same input gives the same bytes."""
    record = []
    info_folder = next(name for name in entries if name.endswith(".dist-info/METADATA")).rpartition("/")[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name, data, mode):
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100000 | mode) << 16
            archive.writestr(info, data, compresslevel=9)

        for name, source in entries.items():
            data = source if isinstance(source, bytes) else source.read_bytes()
            runs = not isinstance(source, bytes) and data[:4] == b"\x7fELF" and source.stat().st_mode & 0o100
            add(name, data, 0o755 if runs else 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
        add(f"{info_folder}/RECORD", ("".join(record) + f"{info_folder}/RECORD,,\n").encode(), 0o644)


def check(path, tag):
    """Has auditwheel say which tag the symbols allow. The libraries that are opened at run time, CUDA's and the driver's, are none of it."""
    python = fetch.environment("wheel", fetch.host_platform())
    done = subprocess.run([python, "-m", "auditwheel", "show", "--json", path], capture_output=True, text=True)
    if done.returncode:
        raise fetch.Failure(f"auditwheel failed: {done.stderr.strip()}")
    allowed = json.loads(done.stdout)["sym_tag"]
    if allowed != tag:
        raise fetch.Failure(f"the wheel is tagged {tag}, and auditwheel says {allowed}")


def make(platform, build, out):
    name, code = MACHINES[platform]
    entries = contents(build, platform)
    binaries = [path for path in entries.values() if not isinstance(path, bytes) and is_elf(path)]
    for path in binaries:
        if machine(path) != code:
            raise fetch.Failure(f"{path} is not for {name}")
    lowest, table = glibc(binaries, name)
    tag = f"manylinux_{lowest.replace('.', '_')}_{name}"
    version = project_version()
    info = f"vibespatial-{version}.dist-info"
    entries[f"{info}/METADATA"] = metadata(extensions(build, platform))
    entries[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: vibespatial\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode()
    entries[f"{info}/licenses/LICENSE"] = ROOT / "LICENSE"
    for owner, path in licenses(platform, extensions(build, platform), build / "vibespatial").items():
        entries[f"{info}/licenses/{owner}/LICENSE"] = path
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"vibespatial-*_{name}.whl"):
        old.unlink()
    path = out / f"vibespatial-{version}-py3-none-{tag}.whl"
    write(path, entries)
    size = path.stat().st_size
    if size >= LIMIT:
        raise fetch.Failure(f"{path} has {size:,} bytes, more than the {LIMIT:,} that package indexes take")
    return path, tag, table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platform", choices=list(MACHINES))
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("-v", action="store_true", help="show what every binary needs")
    arguments = parser.parse_args()
    try:
        path, tag, table = make(arguments.platform, arguments.build, arguments.out)
        if arguments.v:
            for file, needs in table.items():
                fetch.say(f"{file.name}: " + ", ".join(f"{kind} {version}" for kind, version in sorted(needs.items())))
        if arguments.check:
            check(path, tag)
    except fetch.Failure as failure:
        fetch.say(str(failure))
        return 1
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
