#!/usr/bin/env bash
# Checks the format of the C++ sources and analyses them; silent but for a last line when all is well.
set -euo pipefail

cd "$(dirname "$0")/.."
scripts/format.sh --check
clang_tidy=$(python3 scripts/fetch.py clang-tidy)
# The sources are the same for every version of DuckDB: one is enough
prefix=$(python3 scripts/fetch.py prefix)
# A configuration of its own: clang cannot read the headers g++ precompiled, nor take all of its options.
build=build/lint
cuda=$(python3 scripts/fetch.py cuda)
cmake -S . -B "$build" "-DVIBESPATIAL_DUCKDB_PREFIXES=$prefix" "-DVIBESPATIAL_CUDA_PREFIX=$cuda" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
sed -i 's/ -fno-gnu-unique//' "$build/compile_commands.json"

analyse() {
	xargs -0 -r -n 1 -P "${JOBS:-$(nproc)}" "$clang_tidy" -p "$build" --quiet "$@" 2>"$build/stderr.log" || {
		grep -v -E '^[0-9]+ warnings? ' "$build/stderr.log" >&2
		exit 1
	}
}
# What includes Arrow C++ is C++20 and has a build of its own
find src/geometry src/engine src/compile_helper test/unit -name '*.cpp' ! -path '*/unit/arrow/*' -print0 | analyse
# Checks that follow every function of DuckDB's headers take minutes a file; these take seconds.
find src/duckdb src/vibespatial_extension.cpp test/sqllogic -name '*.cpp' ! -path '*/linked/*' -print0 | analyse \
	--checks='-*,clang-diagnostic-*,modernize-use-nullptr,modernize-use-override,readability-braces-around-statements'
echo "lint: clean"
