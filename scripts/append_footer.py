#!/usr/bin/env python3
"""Appends to a shared library the footer by which DuckDB recognises a loadable extension.

usage: append_footer.py FILE PLATFORM DUCKDB_VERSION EXTENSION_VERSION
"""
import sys

FIELD = 32
SIGNATURE = 256

# The footer is a WebAssembly custom section of this name, so that one reader serves every platform:
# section id 0, its size and the name with its length, then the payload's size.
SECTION = b"\x00\x93\x04\x10duckdb_signature\x80\x04"


def field(text):
    data = text.encode()
    if len(data) > FIELD:
        raise SystemExit(f"append_footer.py: '{text}' is longer than {FIELD} bytes")
    return data.ljust(FIELD, b"\0")


def footer(platform, duckdb_version, extension_version):
    # DuckDB reads the eight fields from the end: format, platform, DuckDB version, extension version, ABI, three spare.
    fields = ["", "", "", "CPP", extension_version, duckdb_version, platform, "4"]
    return SECTION + b"".join(map(field, fields)) + bytes(SIGNATURE)


def main():
    if len(sys.argv) != 5:
        raise SystemExit(__doc__.strip())
    path = sys.argv[1]
    with open(path, "ab") as file:
        file.write(footer(*sys.argv[2:]))


if __name__ == "__main__":
    main()
