#!/usr/bin/env python3
"""Prints the lines of deps.lock for one package: downloads its wheels for every platform and Python and hashes them.

usage: lock.py NAME==VERSION USE
"""
import pathlib
import subprocess
import sys
import tempfile

import fetch

PLATFORMS = {"linux_amd64": "x86_64", "linux_arm64": "aarch64"}
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
GLIBC = [f"manylinux_2_{minor}" for minor in range(36, 16, -1)] + ["manylinux2014"]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__.strip())
    requirement, use = sys.argv[1:]
    found = {}
    for target, machine in PLATFORMS.items():
        for python in PYTHONS:
            with tempfile.TemporaryDirectory() as work:
                command = [fetch.pip(), "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", work]
                command += ["--python-version", python, requirement]
                for glibc in GLIBC:
                    command += ["--platform", f"{glibc}_{machine}"]
                subprocess.run(command, check=True)
                for path in pathlib.Path(work).iterdir():
                    found[path.name] = ("any" if path.name.endswith("-any.whl") else target, fetch.sha256(path))
    print(f"{requirement}  {use}")
    for name, (target, digest) in sorted(found.items(), key=lambda item: (item[1][0], item[0])):
        print(f"    {digest}  {target:<11}  {name}")


if __name__ == "__main__":
    main()
