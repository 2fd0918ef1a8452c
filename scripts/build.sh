#!/usr/bin/env bash
# Fetches the DuckDB prefixes, configures where they are new, and builds.
# usage: build.sh PLATFORM BUILD_FOLDER [TARGET] [CMAKE_OPTION...]
# TARGET is all (the default), extension, or a target of CMake. DUCKDB names the versions of DuckDB that are built for, by default
# all of scripts/duckdb.versions; those that the folder has already stay as they are.
set -euo pipefail

platform=$1 build=$2 target=${3:-all}
options=("${@:4}")
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

fail() {
	echo "vibespatial: $*" >&2
	exit 1
}
need() {
	command -v "$1" >/dev/null || fail "$1 is needed: install $2"
}

need python3 "python3 and python3-venv"
need cmake "cmake 3.25 or newer"
cmake_version=$(cmake --version | sed -n 's/^cmake version //p')
[ "$(printf '3.25\n%s\n' "$cmake_version" | sort -V | head -n 1)" = 3.25 ] ||
	fail "cmake 3.25 or newer is needed, found $cmake_version"
case "$(uname -m)" in
aarch64) host=linux_arm64 ;;
x86_64) host=linux_amd64 ;;
*) fail "no DuckDB platform is known for $(uname -m)" ;;
esac
if [ "$platform" = "$host" ]; then
	need "${CXX:-g++}" "g++ 12 or newer"
else
	case $platform in
	linux_amd64) need x86_64-linux-gnu-g++ "Debian's package g++-x86-64-linux-gnu" ;;
	linux_arm64) need aarch64-linux-gnu-g++ "Debian's package g++-aarch64-linux-gnu" ;;
	*) fail "PLATFORM is linux_amd64 or linux_arm64, not '$platform'" ;;
	esac
	options+=("-DCMAKE_TOOLCHAIN_FILE=$here/../cmake/$platform.cmake")
fi
if ! command -v ninja >/dev/null; then
	need make make
	generator="Unix Makefiles"
else
	generator=Ninja
fi

configured=$(sed -n 's/^VIBESPATIAL_DUCKDB_PREFIXES:STRING=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
known=$(sed -n 's/^\([0-9][^ ]*\) .*/\1/p' scripts/duckdb.versions)
wanted=${DUCKDB:-$known}
prefixes=
for version in $known; do
	prefix=
	case " ${wanted//$'\n'/ } " in
	*" $version "*) prefix=$(python3 scripts/fetch.py prefix --duckdb "$version" --platform "$platform") ;;
	*) prefix=$(tr ';' '\n' <<<"$configured" | grep -F "/duckdb-$version-" || true) ;;
	esac
	prefixes+=${prefix:+${prefixes:+;}$prefix}
done
for version in $wanted; do
	grep -qFx "$version" <<<"$known" || fail "DUCKDB is one of" $known "and not '$version'"
done
cuda=
if [ "${VIBESPATIAL_CUDA:-ON}" != OFF ]; then
	cuda=$(python3 scripts/fetch.py cuda --platform "$platform")
	if [ "$platform" != "$host" ] && [ -f build/release/vibespatial/kernels.pack ]; then
		# Kernels are the same for every host, but those of the last build may be of other sources
		cmake --build build/release --parallel "${JOBS:-$(nproc)}" --target vibespatial_pack ||
			fail "the kernels of build/release cannot be brought up to date: run make"
		options+=("-DVIBESPATIAL_KERNEL_PACK=$PWD/build/release/vibespatial/kernels.pack")
	fi
fi
arrow=
if [ "${VIBESPATIAL_ARROW:-ON}" != OFF ]; then
	arrow=$(python3 scripts/fetch.py arrow --platform "$platform")
fi
if [ "$prefixes" != "$configured" ] ||
	! grep -qsFx "VIBESPATIAL_CUDA_PREFIX:PATH=$cuda" "$build/CMakeCache.txt" ||
	! grep -qsFx "VIBESPATIAL_ARROW_PREFIX:PATH=$arrow" "$build/CMakeCache.txt"; then
	mkdir -p "$build"
	cmake -S . -B "$build" -G "$generator" "-DVIBESPATIAL_DUCKDB_PREFIXES:STRING=$prefixes" "-DVIBESPATIAL_CUDA_PREFIX:PATH=$cuda" \
		"-DVIBESPATIAL_ARROW_PREFIX:PATH=$arrow" "${options[@]}" \
		>"$build/configure.log" 2>&1 || {
		tail -n 20 "$build/configure.log" >&2
		rm -f "$build/CMakeCache.txt"
		fail "configuring failed"
	}
fi
targets=()
case $target in
all)
	targets=(all)
	for version in $wanted; do targets+=("vibespatial-$version" "sqllogic-$version"); done
	;;
extension)
	for version in $wanted; do targets+=("vibespatial-$version"); done
	;;
*) targets=("$target") ;;
esac
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"
