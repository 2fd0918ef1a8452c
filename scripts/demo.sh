#!/usr/bin/env bash
# Answers the questions of data/demo.sql in the DuckDB shell.
# usage: demo.sh DUCKDB_VERSION EXTENSION
set -euo pipefail

version=$1 extension=$(realpath "$2")
cd "$(dirname "$0")/.."
cli=$(python3 scripts/fetch.py cli --duckdb "$version")
"$cli" -unsigned -init /dev/null -batch -echo -cmd "LOAD '$extension'" <data/demo.sql
