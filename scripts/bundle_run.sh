#!/usr/bin/env bash
# For each version of DuckDB that is here: asks its shell something, where there is one, and runs the SQL tests; the unit tests once.
set -euo pipefail

cd "$(dirname "$0")"
status=0
VIBESPATIAL_GPU_FOLDER=$PWD/vibespatial test/vibespatial_unit || status=1
for folder in v*/; do
	echo "-- DuckDB ${folder%/}"
	extension=$PWD/${folder}vibespatial.duckdb_extension
	if [ -x "${folder}duckdb" ]; then
		"${folder}duckdb" -unsigned -init /dev/null -batch -echo -cmd "LOAD '$extension'" <data/demo.sql || status=1
	fi
	"${folder}test/vibespatial_sqllogic" --extension "$extension" test/sql || status=1
done
exit $status
