#!/usr/bin/env bash
# Answers the questions of data/demo.sql in the DuckDB shell.
# usage: demo.sh EXTENSION
set -euo pipefail

extension=$(realpath "$1")
cd "$(dirname "$0")/.."
cli=$(python3 scripts/fetch.py cli)
"$cli" -unsigned -init /dev/null -batch -echo -cmd "LOAD '$extension'" <data/demo.sql
