#!/usr/bin/env bash
# Fetches the DuckDB prefix, configures where that is new, and builds.
# usage: build.sh PLATFORM BUILD_FOLDER [TARGET] [CMAKE_OPTION...]
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

prefix=$(python3 scripts/fetch.py prefix --platform "$platform")
cuda=
if [ "${VIBESPATIAL_CUDA:-ON}" != OFF ]; then
	cuda=$(python3 scripts/fetch.py cuda --platform "$platform")
	if [ "$platform" != "$host" ] && [ -f build/release/vibespatial/kernels.pack ]; then
		# Kernels are the same for every host
		options+=("-DVIBESPATIAL_KERNEL_PACK=$PWD/build/release/vibespatial/kernels.pack")
	fi
fi
if ! grep -qsFx "VIBESPATIAL_DUCKDB_PREFIX:PATH=$prefix" "$build/CMakeCache.txt" ||
	! grep -qsFx "VIBESPATIAL_CUDA_PREFIX:PATH=$cuda" "$build/CMakeCache.txt"; then
	mkdir -p "$build"
	cmake -S . -B "$build" -G "$generator" "-DVIBESPATIAL_DUCKDB_PREFIX=$prefix" "-DVIBESPATIAL_CUDA_PREFIX:PATH=$cuda" "${options[@]}" \
		>"$build/configure.log" 2>&1 || {
		tail -n 20 "$build/configure.log" >&2
		rm -f "$build/CMakeCache.txt"
		fail "configuring failed"
	}
fi
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "$target"
