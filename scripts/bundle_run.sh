#!/usr/bin/env bash
# Loads the extension into the DuckDB shell beside this file, asks it something, and runs the tests that are here.
set -euo pipefail

cd "$(dirname "$0")"
./duckdb -unsigned -init /dev/null -batch -echo -cmd "LOAD './vibespatial.duckdb_extension'" <data/demo.sql
status=0
VIBESPATIAL_GPU_FOLDER=$PWD/vibespatial test/vibespatial_unit || status=1
test/vibespatial_sqllogic --extension ./vibespatial.duckdb_extension test/sql || status=1
exit $status
