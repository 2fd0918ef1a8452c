#!/usr/bin/env bash
# Adds to a prefix of DuckDB 2.0 what an older recipe left out: the archive without which a program cannot LOAD an extension.
# usage: complete_prefix.sh SDIST PLATFORM PREFIX
set -euo pipefail

sdist=$1 platform=$2 prefix=$3
case "$platform-$(uname -m)" in
linux_amd64-x86_64 | linux_arm64-aarch64) compiler=${CXX:-g++} ar=ar ;;
linux_amd64-*) compiler=x86_64-linux-gnu-g++ ar=x86_64-linux-gnu-ar ;;
linux_arm64-*) compiler=aarch64-linux-gnu-g++ ar=aarch64-linux-gnu-ar ;;
esac
work=$(mktemp -d "$prefix/lib/complete.XXXXXX")
trap 'rm -rf "$work"' EXIT
tar xf "$sdist" -C "$work" --wildcards --strip-components=6 '*/external/duckdb/src/main/extension/*_dynamic.cpp'
for source in "$work"/*.cpp; do
	"$compiler" -std=c++17 -O2 -DNDEBUG -fPIC "-I$prefix/include" -c "$source" -o "${source%.cpp}.o"
done
"$ar" rcs "$work/libduckdb_loadable_extensions.a" "$work"/*.o
mv "$work/libduckdb_loadable_extensions.a" "$prefix/lib/"
