#!/usr/bin/env bash
# Analyses the C++ sources with clang-tidy; --changed: only those that differ from the branch main, or on that branch those of the
# last commits, and no more of them than a check has time for.
set -euo pipefail

cd "$(dirname "$0")/.."

# Folders whose sources may use all checks, and those that include DuckDB's headers. What includes Arrow C++ is C++20 and has a
# build of its own; src/gpu_plugin/device needs CUDA's headers, which clang takes for its own dialect.
plain='^(src/(geometry|engine|compile_helper|gpu_plugin/compile)|test/unit)/.*\.cpp$'
with_duckdb='^(src/duckdb/.*|src/vibespatial_extension|test/sqllogic/[^/]*)\.cpp$'
apart='^test/unit/arrow/'

most=12
recent=20
if [ "${1:-}" = --changed ]; then
	base=$(git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null) || {
		echo "clang-tidy: skipped, there is no branch main to compare with"
		exit 0
	}
	if [ "$base" = "$(git rev-parse HEAD)" ]; then
		base=$(git rev-list --first-parent --max-count=$((recent + 1)) HEAD | tail -n 1)
	fi
	# Uncommitted files first, then those of the newest commits. A header is analysed with the source of the same name.
	files=$({
		git ls-files --others --exclude-standard -- src test
		git diff --name-only HEAD -- src test
		git log --first-parent -m --name-only --format= "$base..HEAD" -- src test
	} | sed 's/\.hpp$/.cpp/' | awk '!seen[$0]++')
else
	files=$(git ls-files --cached --others --exclude-standard -- src test)
fi
files=$(for file in $files; do if [ -f "$file" ]; then echo "$file"; fi; done | grep -E "$plain|$with_duckdb" | grep -vE "$apart" || true)
if [ -z "$files" ]; then
	echo "clang-tidy: no source has changed"
	exit 0
fi
if [ "${1:-}" = --changed ] && [ "$(wc -l <<<"$files")" -gt "$most" ]; then
	echo "clang-tidy: the newest $most of $(wc -l <<<"$files") changed sources; make lint analyses all"
	files=$(head -n "$most" <<<"$files")
fi
clang_tidy=$(python3 scripts/fetch.py clang-tidy) || {
	echo "clang-tidy: skipped, it cannot be fetched here"
	exit 0
}

# The sources are the same for every version of DuckDB: one is enough. A configuration of its own: clang cannot read the headers
# that g++ precompiled, nor take all of its options.
build=build/lint
cmake -S . -B "$build" "-DVIBESPATIAL_DUCKDB_PREFIXES=$(python3 scripts/fetch.py prefix)" \
	"-DVIBESPATIAL_CUDA_PREFIX=$(python3 scripts/fetch.py cuda)" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
cmake --build "$build" --target vibespatial_generated >/dev/null
sed -i 's/ -fno-gnu-unique//; s/ -fstack-clash-protection//' "$build/compile_commands.json"

# analyse PATTERN OPTION...: the files that match
analyse() {
	local pattern=$1
	shift
	grep -E "$pattern" <<<"$files" | xargs -r -n 1 -P "${JOBS:-$(nproc)}" "$clang_tidy" -p "$build" --quiet "$@" 2>"$build/stderr.log" || {
		grep -v -E '^[0-9]+ warnings? ' "$build/stderr.log" >&2
		return 1
	}
}
status=0
if grep -qE "$plain" <<<"$files"; then
	analyse "$plain" || status=1
fi
if grep -qE "$with_duckdb" <<<"$files"; then
	# Checks that follow every function of DuckDB's headers take minutes a file; these take seconds.
	analyse "$with_duckdb" \
		--checks='-*,clang-diagnostic-*,modernize-use-nullptr,modernize-use-override,readability-braces-around-statements' || status=1
fi
if [ "$status" = 0 ]; then
	echo "clang-tidy: $(wc -l <<<"$files") sources, clean"
fi
exit "$status"
