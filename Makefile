# vibespatial: make help

SHELL := /bin/bash
HOST := $(subst aarch64,linux_arm64,$(subst x86_64,linux_amd64,$(shell uname -m)))
PLATFORM ?= $(HOST)
BUILD := $(if $(filter $(HOST),$(PLATFORM)),build/release,build/$(PLATFORM))
# The versions of DuckDB: DUCKDB=2.0.0 is that one alone. Without it all are built and tested, and the first is run.
VERSIONS := $(shell sed -n 's/^\([0-9][^ ]*\) .*/\1/p' scripts/duckdb.versions)
override DUCKDB := $(or $(DUCKDB),$(VERSIONS))
ONE := $(firstword $(DUCKDB))
EXTENSION := $(BUILD)/v$(ONE)/vibespatial.duckdb_extension
FETCH := python3 scripts/fetch.py
BUILD_ALL := DUCKDB="$(DUCKDB)" scripts/build.sh $(PLATFORM) $(BUILD)
BUILD_ONE := DUCKDB="$(ONE)" scripts/build.sh $(PLATFORM) $(BUILD)
TEST := python3 scripts/run_tests.py $(BUILD) $(DUCKDB:%=--duckdb %)
# SANITIZE=1: addresses and undefined behaviour; SANITIZE=thread: data races
SANITIZER := $(if $(filter thread,$(SANITIZE)),thread,ON)
SANITIZED := build/sanitize$(if $(filter thread,$(SANITIZE)),-thread)
.DEFAULT_GOAL := all

.PHONY: all
all: ## build the extension and the tests, for every version of DuckDB or for DUCKDB=2.0.0 (PLATFORM=linux_amd64 or linux_arm64 cross builds)
	@$(BUILD_ALL)

.PHONY: demo
demo: extension ## answer a question on the data in data/, in the DuckDB shell
	@scripts/demo.sh $(ONE) $(EXTENSION)

.PHONY: ray-demo
ray-demo: extension ## start a Ray cluster of two workers on loopback, plan and run a join of points and countries, and end it (ARGS="--points 1000000" goes to it)
	@python3 scripts/ray_demo.py $(PLATFORM) $(BUILD) $(ARGS)

.PHONY: extension
extension: ## build the extension alone, for the first version of DuckDB or for DUCKDB=2.0.0
	@$(BUILD_ONE) extension

.PHONY: test
test: all ## check the sources and run all tests: unit, SQL (also under query verification), fuzzers, Python and the Python package, with every version of DuckDB or with DUCKDB=2.0.0
	@$(TEST) check unit fuzz sql verify python package

.PHONY: check
check: ## check the sources: format, layers, a test for each, sizes, links of the docs, clang-tidy on what differs from main
	@$(TEST) check

.PHONY: unit
unit: $(if $(SANITIZE),,all) ## run the unit tests (SANITIZE=1: with AddressSanitizer and UndefinedBehaviorSanitizer; SANITIZE=thread: with ThreadSanitizer)
ifdef SANITIZE
	@DUCKDB="$(ONE)" scripts/build.sh $(PLATFORM) $(SANITIZED) vibespatial_unit -DVIBESPATIAL_SANITIZE=$(SANITIZER)
	@python3 scripts/run_tests.py $(SANITIZED) unit
else
	@$(TEST) unit
endif

.PHONY: sqltest
sqltest: $(if $(SANITIZE),,all) ## run the SQL tests (SANITIZE=1: extension and runner with the sanitizers, for one version of DuckDB)
ifdef SANITIZE
	@DUCKDB="$(ONE)" scripts/build.sh $(PLATFORM) $(SANITIZED) extension -DVIBESPATIAL_SANITIZE=$(SANITIZER)
	@DUCKDB="$(ONE)" scripts/build.sh $(PLATFORM) $(SANITIZED) sqllogic-$(ONE)
	@python3 scripts/run_tests.py $(SANITIZED) --duckdb $(ONE) sql
else
	@$(TEST) sql
endif

.PHONY: verifytest
verifytest: all ## run the SQL tests under PRAGMA enable_verification: DuckDB runs each query in several ways and compares the results
	@$(TEST) verify

.PHONY: fuzz
fuzz: ## run the coverage-guided fuzzers; needs clang (ARGS="--seconds 600 overlay" goes to scripts/fuzz.py)
	@python3 scripts/fuzz.py $(ARGS)

MINUTES ?= 30
.PHONY: soak
soak: all ## run mixed queries with cancels, small memory limits and failing calls for MINUTES=30, then all SQL tests under verification
	@JOBS=1 VIBESPATIAL_SOAK_MINUTES=$(MINUTES) $(TEST) python -- -s -k test_soak
	@$(TEST) verify

.PHONY: pytest
pytest: all ## run the Python tests (ARGS="-k name" goes to pytest)
	@$(TEST) python -- $(ARGS)

.PHONY: packagetest
packagetest: all ## test the wheel in fresh virtual environments (ARGS="-k name" goes to pytest)
	@$(TEST) package -- $(ARGS)

.PHONY: shell
shell: extension ## open the DuckDB shell with the extension loaded (DuckDB 1.5.5: 2.0.0 has no shell that can be pinned)
	@cli=$$($(FETCH) cli --duckdb $(ONE)) && $$cli -unsigned -cmd "LOAD '$(EXTENSION)'"

.PHONY: install
install: ## put the extension and its GPU plug-in where LOAD vibespatial finds them in DuckDB 1.5.5
	@$(BUILD_ONE)
	@cli=$$($(FETCH) cli --duckdb $(ONE)) && $$cli -unsigned -init /dev/null -c "FORCE INSTALL '$(EXTENSION)'" \
		&& path=$$($$cli -unsigned -init /dev/null -noheader -list -c \
			"SELECT install_path FROM duckdb_extensions() WHERE extension_name = 'vibespatial'") \
		&& if [ -d $(BUILD)/vibespatial ]; then rm -rf "$${path%/*}/vibespatial" && cp -r $(BUILD)/vibespatial "$${path%/*}/"; fi \
		&& echo "installed: start duckdb with -unsigned, then LOAD vibespatial"

.PHONY: bundle
bundle: all ## make a folder and tarballs that run on a bare machine, one of what is shared and one for each version of DuckDB (PLATFORM=..., BUNDLE_PYTHON=cp312 adds DuckDB's Python modules)
	@scripts/bundle.sh $(PLATFORM) $(BUILD) $(DUCKDB)

.PHONY: wheel
wheel: all ## make the wheel of the Python package in dist/ (PLATFORM=...)
	@python3 scripts/wheel.py $(PLATFORM) $(BUILD) --check

.PHONY: bench
bench: bench-scalar bench-joins bench-overlay bench-arrow ## run all benchmarks beside the peers

.PHONY: bench-scalar
bench-scalar: extension ## run the benchmark of scalar functions (ARGS="--rows 100000" goes to it)
	@python=$$($(FETCH) bench-python) && $$python bench/scalar.py --extension $(EXTENSION) $(ARGS)

.PHONY: bench-joins
bench-joins: extension ## run the benchmark of spatial joins (ARGS="--quick" goes to it)
	@python=$$($(FETCH) bench-python) && $$python bench/joins.py --extension $(EXTENSION) $(ARGS)

.PHONY: bench-overlay
bench-overlay: extension ## run the benchmark of unions and overlays (ARGS="--quick" goes to it)
	@python=$$($(FETCH) bench-python) && $$python bench/overlay.py --extension $(EXTENSION) $(ARGS)

.PHONY: bench-arrow
bench-arrow: extension ## run the benchmark of native GeoArrow points beside two DOUBLE columns (ARGS="--rows 1000000" goes to it)
	@python=$$($(FETCH) bench-python) && $$python bench/arrow.py --extension $(EXTENSION) $(ARGS)

.PHONY: bench-ray
bench-ray: extension ## run joins in two Ray workers beside one process of two threads, and simulate partitions of a billion points (ARGS="--points 5000000" goes to it)
	@python3 scripts/ray_demo.py $(PLATFORM) $(BUILD) --program bench/cluster.py $(ARGS)

.PHONY: bench-hostile
bench-hostile: extension ## run the benchmark of input that makes algorithms quadratic, beside GEOS (ARGS="--quick" goes to it)
	@python=$$($(FETCH) bench-python) && $$python bench/hostile.py --extension $(EXTENSION) $(ARGS)

.PHONY: bench-gpu
bench-gpu: extension ## run the benchmark of joins and unions on the GPU beside the CPU engine and the peers (ARGS="--points 1000000" goes to it)
	@python=$$($(FETCH) bench-python) && $$python bench/gpu.py --extension $(EXTENSION) --out build/bench-gpu $(ARGS)

.PHONY: bench-spatialbench
bench-spatialbench: extension ## run the twelve queries of SpatialBench beside the peers (ARGS="--sf 0.1 --floor" goes to it)
	@python=$$($(FETCH) bench-python) && $$python bench/spatialbench.py --extension $(EXTENSION) $(ARGS)

.PHONY: bench-bundle
bench-bundle: all ## pack these two benchmarks, the peers and the data, or with ARGS=--ray a Ray cluster, for a machine without a network
	@python3 scripts/bench_bundle.py --platform $(PLATFORM) --build $(BUILD) $(ARGS)

.PHONY: functions
functions: extension ## write the lists of functions in docs and README from the extension (ARGS="--release 0.2.0": the released list, too)
	@python=$$($(FETCH) python) && $$python scripts/functions.py $(EXTENSION) $(ARGS)

.PHONY: docs
docs: ## build the documentation as a web site in build/docs
	@python=$$($(FETCH) docs-python) && NO_MKDOCS_2_WARNING=1 $$python -m mkdocs build --strict --site-dir build/docs && echo "build/docs/index.html"

.PHONY: figures
figures: all ## draw the figures of the documentation again
	@python=$$($(FETCH) docs-python) && $$python scripts/figures/draw.py $(ARGS)

.PHONY: format
format: ## format the C++ sources
	@scripts/format.sh

.PHONY: lint
lint: ## analyse all C++ sources with clang-tidy (minutes; make check takes those that differ from main)
	@scripts/lint.sh

.PHONY: clean
clean: ## remove what was built here; the cache of dependencies stays
	@rm -rf build

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 14
