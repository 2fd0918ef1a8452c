#!/usr/bin/env bash
# Formats the C++ sources; with --check only says what is not formatted.
set -euo pipefail

cd "$(dirname "$0")/.."
clang_format=$(python3 scripts/fetch.py clang-format)
mode=(-i)
if [ "${1:-}" = --check ]; then
	mode=(--dry-run --Werror)
fi
find src kernels test \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' \) -print0 |
	xargs -0 -r "$clang_format" "${mode[@]}"
