#!/usr/bin/env python3
"""Writes the tables of src/engine/dispatch/kernel_registry.hpp from kernels/units.json and the kernels' text.

usage: embed_kernels.py KERNELS_FOLDER OUTPUT.cpp
"""
import json
import pathlib
import sys

# A string literal may be no longer than this for every compiler to take it
PIECE = 8000


def literal(text):
    pieces = [text[i:i + PIECE] for i in range(0, len(text), PIECE)] or [""]
    return "\n".join(f'R"~~~({piece})~~~"' for piece in pieces)


def names(items):
    return "{" + ", ".join(json.dumps(item) for item in items) + "}"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__.strip())
    folder, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    registry = json.loads((folder / "units.json").read_text())
    lines = ["// Written by scripts/embed_kernels.py", '#include "engine/dispatch/kernel_registry.hpp"', "", "namespace vibespatial {", ""]
    lines.append("const std::vector<KernelUnit> &KernelUnits() {\n\tstatic const auto &units = *new std::vector<KernelUnit> {")
    for unit in registry["units"]:
        text = (folder / unit["source"]).read_text()
        lines.append(f'{{"{unit["name"]}", {literal(text)}, {names(unit["entry_points"])}, {names(unit["needed_by"])}}},')
    lines.append("};\n\treturn units;\n}\n")
    lines.append("const std::vector<KernelSpec> &KernelSpecs() {\n\tstatic const auto &specs = *new std::vector<KernelSpec> {")
    for spec in registry["specs"]:
        lines.append(f'{{"{spec["name"]}", "{spec["algorithm"]}", {names(spec["types"])}, "{spec.get("op", "")}", {names(spec["needed_by"])}, '
                     f'{"true" if spec.get("on_demand") else "false"}}},')
    lines.append("};\n\treturn specs;\n}\n")
    lines.append("const std::vector<KernelHeader> &KernelHeaders() {\n\tstatic const auto &headers = *new std::vector<KernelHeader> {")
    include = folder / "include"
    for path in sorted(include.rglob("*.h")):
        lines.append(f'{{"{path.relative_to(include)}", {literal(path.read_text())}}},')
    lines.append("};\n\treturn headers;\n}\n")
    lines.append("} // namespace vibespatial")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
