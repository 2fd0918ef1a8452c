#!/usr/bin/env bash
# Puts the extensions, the DuckDB shell, the tests and the data into one folder and tarballs of it.
# usage: bundle.sh PLATFORM BUILD_FOLDER DUCKDB_VERSION...
# BUNDLE_PYTHON=cp312 adds DuckDB's Python modules of these versions for that Python, in python/v1.5.5 and so on.
set -euo pipefail

platform=$1 build=$2
versions=("${@:3}")
cd "$(dirname "$0")/.."
bundle=build/bundle/$platform
tarballs=build/bundle/vibespatial-$platform

rm -rf "$bundle" "$tarballs"*.tar.xz
mkdir -p "$bundle/test"
for version in "${versions[@]}"; do
	mkdir -p "$bundle/v$version/test"
	cp "$build/v$version/vibespatial.duckdb_extension" "$bundle/v$version/"
	cp "$build/v$version/test/vibespatial_sqllogic" "$bundle/v$version/test/"
	# One folder of plug-ins for all versions: each looks beside itself
	ln -s ../vibespatial "$bundle/v$version/vibespatial"
	if cli=$(python3 scripts/fetch.py cli --duckdb "$version" --platform "$platform"); then
		cp "$cli" "$bundle/v$version/duckdb"
		chmod +x "$bundle/v$version/duckdb"
	fi
	if [ -n "${BUNDLE_PYTHON:-}" ]; then
		wheel=$(python3 scripts/fetch.py duckdb-wheel --duckdb "$version" --platform "$platform" --python "$BUNDLE_PYTHON")
		mkdir -p "$bundle/python/v$version"
		python3 -m zipfile -e "$wheel" "$bundle/python/v$version"
	fi
done
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
cp "$build/test/vibespatial_unit" "$bundle/test/"
cp test/device/*.py "$bundle/test/"
# What test/device_arrays.py imports
mkdir -p "$bundle/package/vibespatial"
cp python/vibespatial/*.py "$bundle/package/vibespatial/"
cp -r test/sql "$bundle/test/sql"
cp -r data "$bundle/data"
cp LICENSE "$bundle/"
cp scripts/bundle_run.sh "$bundle/run.sh"
chmod +x "$bundle/run.sh"
# One tarball of what all versions share and one for each version, which unpack into one folder: what is needed can be sent alone.
# Packed hard, as a machine to send to may take little.
filter=()
if [ "$platform" = linux_amd64 ]; then
	filter=(--x86)
fi
pack() {
	local tarball=$1
	shift
	tar cf - -C build/bundle --transform "s,^$platform,vibespatial-$platform,S" "$@" |
		xz -T0 --block-size=64MiB "${filter[@]}" --lzma2=preset=6,dict=64MiB >"$tarball"
	echo "$tarball ($(du -m "$tarball" | cut -f1) MiB)"
}
echo "$bundle"
pack "$tarballs.tar.xz" --exclude="$platform/v[0-9]*" --exclude="$platform/python/*" "$platform"
for version in "${versions[@]}"; do
	parts=("$platform/v$version")
	if [ -d "$bundle/python/v$version" ]; then
		parts+=("$platform/python/v$version")
	fi
	pack "$tarballs-v$version.tar.xz" "${parts[@]}"
done
