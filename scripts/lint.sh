#!/usr/bin/env bash
# Checks the format of the C++ sources and analyses them; silent but for a last line when all is well.
set -euo pipefail

cd "$(dirname "$0")/.."
scripts/format.sh --check
clang_tidy=$(python3 scripts/fetch.py clang-tidy)
prefix=$(python3 scripts/fetch.py prefix)
# A configuration of its own: clang cannot read the headers g++ precompiled.
build=build/lint
cmake -S . -B "$build" "-DVIBESPATIAL_DUCKDB_PREFIX=$prefix" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
find src test -name '*.cpp' -print0 |
	xargs -0 -r -n 1 -P "${JOBS:-$(nproc)}" "$clang_tidy" -p "$build" --quiet \
		--extra-arg=-Wno-unknown-warning-option 2> >(grep -v -E '^[0-9]+ warnings? ' >&2)
echo "lint: clean"
