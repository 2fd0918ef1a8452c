#!/usr/bin/env python3
"""Writes the version of a plug-in's interface: a hash of its headers, and of all headers of the repository that they include.

usage: hash_interface.py ROOT OUTPUT.hpp [engine|arrow]

The extension and the plug-in are built apart and compare it first, so a plug-in that was built from other headers is refused. The
output stays untouched where the hash is the same. engine, the default, is the GPU plug-in, and arrow is the Arrow plug-in.
"""
import hashlib
import pathlib
import re
import sys

INTERFACES = {"engine": "src/engine/gpu/interface", "arrow": "src/engine/arrow"}
FOLDERS = ("src", "kernels/include")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def headers(root, interface):
    """The headers of the interface and what they include, as paths in the repository"""
    found, left = set(), sorted((root / INTERFACES[interface]).glob("*.hpp"))
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        for name in INCLUDE.findall(path.read_text()):
            left += [root / folder / name for folder in FOLDERS if (root / folder / name).is_file()]
    return sorted(path.relative_to(root).as_posix() for path in found)


def interface_hash(root, interface):
    hashed = hashlib.sha256()
    for name in headers(root, interface):
        content = (root / name).read_bytes()
        hashed.update(f"{name} {len(content)}\n".encode() + content)
    return hashed.hexdigest()[:16]


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], *([name] for name in INTERFACES)):
        raise SystemExit(__doc__.strip())
    root, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    name = (sys.argv[3:] or ["engine"])[0]
    text = ("// Written by scripts/hash_interface.py\n#pragma once\n\n"
            f'#define VIBESPATIAL_{name.upper()}_INTERFACE "vibespatial-{name}-" VIBESPATIAL_VERSION "-{interface_hash(root, name)}"\n')
    if not output.is_file() or output.read_text() != text:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)


if __name__ == "__main__":
    main()
