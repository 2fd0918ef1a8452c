#!/usr/bin/env bash
# Builds DuckDB's static archives from its source distribution into a prefix an extension links against.
# usage: build_duckdb.sh SDIST VERSION SOURCE_ID PLATFORM DESTINATION TARGET...   (scripts/fetch.py prefix gives them)
# CXX names the compiler when it is not the default of PLATFORM, JOBS the number of parallel compilers.
set -euo pipefail

sdist=$1 version=$2 source_id=$3 platform=$4 destination=$5
targets=("${@:6}")
here=$(cd "$(dirname "$0")" && pwd)

options=(-DCMAKE_BUILD_TYPE=Release -DBUILD_SHELL=0 -DBUILD_UNITTESTS=0
	"-DBUILD_EXTENSIONS=core_functions;parquet" -DENABLE_JEMALLOC=OFF -DEXTENSION_STATIC_BUILD=1
	# The version alone is what extensions are checked against; 1.5 takes the commit from the third, 2.0 from the second
	"-DDUCKDB_EXPLICIT_VERSION=v$version" "-DGIT_COMMIT_HASH=$source_id" "-DOVERRIDE_GIT_DESCRIBE=v$version-0-g$source_id"
	"-DDUCKDB_EXPLICIT_PLATFORM=$platform")

case "$(uname -m)" in
aarch64) host=linux_arm64 ;;
x86_64) host=linux_amd64 ;;
*) host=unknown ;;
esac
if [ "$platform" != "$host" ]; then
	options+=("-DCMAKE_TOOLCHAIN_FILE=$here/../cmake/$platform.cmake")
elif [ -n "${CXX:-}" ]; then
	options+=("-DCMAKE_CXX_COMPILER=$CXX")
fi
if command -v ninja >/dev/null; then
	options+=(-G Ninja)
fi
if command -v ccache >/dev/null; then
	options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi

# The build tree stays until the prefix is whole, so that an interrupted build goes on where it stopped.
work=$destination.build
mkdir -p "$work"
if [ ! -d "$work/source" ]; then
	echo "unpacking $(basename "$sdist")"
	rm -rf "$work/unpack"
	mkdir "$work/unpack"
	tar xf "$sdist" -C "$work/unpack" --strip-components=1
	mv "$work/unpack" "$work/source"
fi
duckdb=$work/source/external/duckdb

echo "configuring DuckDB $version for $platform"
cmake -S "$duckdb" -B "$work/build" "${options[@]}" >"$work/configure.log" 2>&1 || {
	tail -n 30 "$work/configure.log"
	exit 1
}
echo "building DuckDB $version for $platform, once: about 40 CPU minutes"
cmake --build "$work/build" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"

prefix=$work/prefix
rm -rf "$prefix"
mkdir -p "$prefix/lib" "$prefix/third_party"
find "$work/build" -name '*.a' -exec cp {} "$prefix/lib/" \;
cp -r "$duckdb/src/include" "$prefix/include"
# Third-party headers that DuckDB's own may include; those of the parquet extension's private libraries stay out.
(cd "$duckdb/third_party" && find . -type f \( -name '*.h' -o -name '*.hpp' \) \
	! -path './brotli/*' ! -path './imdb/*' ! -path './lz4/*' ! -path './parquet/*' ! -path './snowball/*' \
	! -path './thrift/*' -print0 | tar cf - --null -T -) | tar xf - -C "$prefix/third_party"
cp "$duckdb/LICENSE" "$prefix/LICENSE"
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$work/build/CMakeCache.txt")
{
	echo "DuckDB $version (source distribution, sha256 $(sha256sum "$sdist" | cut -d' ' -f1))"
	echo "platform $platform"
	echo "compiler $("$compiler" --version | head -n 1)"
	echo "cmake ${options[*]}"
	echo "targets ${targets[*]}"
} >"$prefix/BUILD-INFO"
rm -rf "$destination"
mv "$prefix" "$destination"
rm -rf "$work"
