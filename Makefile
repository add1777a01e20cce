# Everything sets itself up from nothing but Python 3.11-3.13 and make: no root, no server from outside.
# A Python of your choice: make PYTHON=/path/to/python3.12 test

SHELL := /bin/sh
BIN := .venv/bin
QUICK := "not real and not spark and not slow and not search"
# So many processes for two cores, each with the tests of whole files: many tests wait for processes that they started. In the
# order of the files: by the number of tests, as would be the rule, files of few long ones come last.
PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder
# Quick tests wait for little, and each process takes five seconds of CPU to collect them: two took 65 s, three 51.
FEWER := -n 3 --dist loadfile --no-loadscope-reorder
export PYTHON
# Where this is set, as in many containers, every Python that a test starts compiles all it loads.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-real test-clusters coverage mutations safety real-parts lint types format bench bench-full bench-plots docs site wheel packed-env clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## .venv with the pinned packages, Java for Spark, jitted code compiled; quick when done before
	@sh tools/setup.sh

demo: setup  ## the whole story on an embedded lake, in about a minute
	@$(BIN)/lakesweep demo

test: setup  ## every test that needs no server from outside Python
	$(BIN)/pytest -m "not real and not search" --ignore=tests/real $(PARALLEL) $(ARGS)

test-fast: setup  ## unit and property tests without the slow ones, few examples, no JVM: under a minute
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-fast} $(BIN)/pytest -q -m $(QUICK) $(FEWER) tests/unit tests/property --durations=9 --durations-min=1 $(ARGS)

test-real: setup real-parts  ## long searches, and tests against real lakeFS, Nessie, MinIO, Azurite, fake-gcs-server, PostgreSQL, MariaDB, Spark with Iceberg
	$(BIN)/pytest -m "(real or search) and not cluster" -n 2 --dist loadfile $(ARGS)

test-clusters: setup real-parts  ## executors that are killed, and keys that end, on a cluster of processes; minutes each
	$(BIN)/pytest -m cluster $(ARGS)

coverage: setup  ## every test without a JVM in one process: fails if they run less of the product than the floor
	$(BIN)/pytest -m "not real and not spark and not search" tests/unit tests/property tests/contract tests/e2e --cov --cov-report=term $(ARGS)

mutations: setup  ## put known mistakes into a copy of the source one by one; each must make a named test fail
	$(BIN)/python tools/mutations.py --page docs/reference/mutations.md $(ARGS)

safety: setup  ## schedules, faults, kills and mutations, and docs/explanation/safety.md from what they found; hours
	$(BIN)/python tools/safety.py $(ARGS)

real-parts: setup  ## build and install those servers into the cache folder (Go, npm, Maven and apt needed; minutes, once)
	@$(BIN)/python tools/real_parts.py

lint: setup  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup  ## let ruff put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup  ## mypy, strict
	PYTHONHASHSEED=0 $(BIN)/mypy  # what it infers of mixed types follows the order of its sets: the same everywhere

bench: setup  ## how fast, how much, compared with what; minutes
	$(BIN)/python benchmarks/run.py $(ARGS)

bench-full: setup  ## the same at full size; long
	$(BIN)/python benchmarks/run.py --full $(ARGS)

bench-plots: setup  ## how cost grows, drawn: docs/explanation/scale.md from what is measured; a quarter of an hour
	$(BIN)/python benchmarks/growth.py $(ARGS)

docs: setup  ## write docs/reference from the commands' own help
	$(BIN)/python tools/make_docs.py

site: setup  ## the documentation as a site in build/site
	$(BIN)/python tools/make_site.py

wheel: setup  ## dist/lakesweep-….whl, the package that pip installs
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

packed-env: setup  ## dist/environment.tar.gz: Python, lakesweep and its packages, for nodes of a cluster that have none
	@mkdir -p dist
	$(BIN)/python tools/packed_env.py $(ARGS)

clean:  ## remove what make made here; built servers stay in the cache folder
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage htmlcov build dist artifacts
	rm -rf src/*.egg-info testing/*.egg-info spark-warehouse metastore_db derby.log
	find src testing tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
