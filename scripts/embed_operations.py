#!/usr/bin/env python3
"""Writes the operations of kernels/operations.json as C++: an enum, and the table behind it.

usage: embed_operations.py KERNELS_FOLDER NAMES.hpp TABLE.cpp

An operation is a piece of work that the CPU or the GPU does. A kernel set is what an operator needs on the device: the units and specs
of kernels/units.json that name it in needed_by. A name that does not match is an error here, when the project is built.
"""
import json
import pathlib
import sys

FIELDS = {"name", "description", "precision", "guarantee"}
GPU_FIELDS = {"gpu_from_rows", "kernels"}
# Where the threshold depends on the device
SHARES = {"copy_share", "kernel_share"}


def check(operations, registry):
    sets = operations["kernel_sets"]
    used = {name for entry in registry["units"] + registry["specs"] for name in entry["needed_by"]}
    if used != set(sets):
        raise SystemExit(f"kernel sets of operations.json and units.json differ in {sorted(used ^ set(sets))}")
    for operation in operations["operations"]:
        if set(operation) not in (FIELDS, FIELDS | GPU_FIELDS, FIELDS | GPU_FIELDS | SHARES):
            raise SystemExit(f"operations.json: {operation.get('name')} has the fields {sorted(operation)}")
        if operation.get("kernels", sets[0]) not in sets:
            raise SystemExit(f"operations.json: {operation['name']} needs {operation['kernels']}, which is no kernel set")


def threshold(operation):
    rows = operation.get("gpu_from_rows")
    return {"never": "OperationInfo::NEVER", None: "OperationInfo::NO_GPU"}.get(rows, str(rows))


def write(path, lines):
    """Leaves a file alone that is right already: what depends on it is not built again"""
    text = "\n".join(lines) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__.strip())
    folder, names, table = map(pathlib.Path, sys.argv[1:])
    operations = json.loads((folder / "operations.json").read_text())
    check(operations, json.loads((folder / "units.json").read_text()))
    sets = operations["kernel_sets"]
    write(names, ["// Written by scripts/embed_operations.py", "#pragma once", "", "#include <cstdint>", "", "namespace vibespatial {", "",
                  "enum class Operation : uint8_t {", *(f"\t{entry['name'].upper()}," for entry in operations["operations"]), "};", "",
                  "enum class KernelSet : uint8_t {", "\tNONE,", *(f"\t{name.upper()}," for name in sets), "};", "",
                  "} // namespace vibespatial"])
    lines = ["// Written by scripts/embed_operations.py", '#include "engine/dispatch/operation.hpp"', "", "namespace vibespatial {", "",
             "const std::vector<OperationInfo> &Operations() {", "\tstatic const auto &operations = *new std::vector<OperationInfo> {"]
    for entry in operations["operations"]:
        texts = ", ".join(json.dumps(entry[field]) for field in ("name", "description", "precision", "guarantee"))
        shares = f"{float(entry.get('copy_share', 0))}, {float(entry.get('kernel_share', 0))}"
        lines.append(f"\t    {{{texts}, {threshold(entry)}, KernelSet::{entry.get('kernels', 'none').upper()}, {shares}}},")
    lines += ["\t};", "\treturn operations;", "}", "", "const std::vector<const char *> &KernelSetNames() {",
              "\tstatic const auto &names = *new std::vector<const char *> {" + ", ".join(json.dumps(name) for name in ["", *sets]) + "};", "\treturn names;", "}", "",
              "} // namespace vibespatial"]
    write(table, lines)


if __name__ == "__main__":
    main()
