#!/usr/bin/env bash
# Puts the extension, the DuckDB shell, the tests and the data into one folder and a tarball of it.
# usage: bundle.sh PLATFORM BUILD_FOLDER
set -euo pipefail

platform=$1 build=$2
cd "$(dirname "$0")/.."
cli=$(python3 scripts/fetch.py cli --platform "$platform")
bundle=build/bundle/$platform
tarball=build/bundle/vibespatial-$platform.tar.xz

rm -rf "$bundle" "$tarball"
mkdir -p "$bundle/test"
cp "$build/vibespatial.duckdb_extension" "$bundle/"
if [ -d "$build/vibespatial" ]; then
	# With what is a link there, but for CUDA's compilers: a machine with a device has the toolkit or pip's packages
	mkdir "$bundle/vibespatial"
	for path in "$build"/vibespatial/*; do
		case ${path##*/} in
		libnvrtc* | libnvJitLink*) ;;
		*) cp -rL "$path" "$bundle/vibespatial/" ;;
		esac
	done
	mkdir -p "$bundle/bench"
	cp bench/cold_start.py "$bundle/bench/"
fi
cp "$cli" "$bundle/duckdb"
cp "$build/test/vibespatial_unit" "$build/test/vibespatial_sqllogic" "$bundle/test/"
cp test/device/memory_pressure.py "$bundle/test/"
cp -r test/sql "$bundle/test/sql"
cp -r data "$bundle/data"
cp LICENSE "$bundle/"
cp scripts/bundle_run.sh "$bundle/run.sh"
chmod +x "$bundle/run.sh" "$bundle/duckdb"
XZ_OPT="-T0 -3" tar cJf "$tarball" -C build/bundle --transform "s,^$platform,vibespatial-$platform," "$platform"
echo "$bundle, $tarball ($(du -m "$tarball" | cut -f1) MiB)"
