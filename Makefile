# Every target makes the virtual environment it needs in .venv and touches nothing outside this
# folder. Needed to start: Python 3.11 or newer with venv and pip, and make.
#
#   make test PYTHON=python3.14      another interpreter (after `make clean`)
#   make test ARGS="-k add -x"       more arguments for the tool behind a target

PYTHON ?= python3
ARGS ?=
# Worker processes for pytest. Each takes a stretch of neighbouring tests, so that what JAX and Numba
# compile for one of them serves the next.
WORKERS ?= auto
# Where `make gpu-check` writes.
OUT ?= build/gpu-check
# What `make conformance` tests, how hard, and a checkout of array-api-tests (empty: clone it).
BACKENDS ?= numpy reference
EXAMPLES ?= 100
SUITE ?=

# Without bytecode each process that a test starts would compile torch and JAX from source again.
unexport PYTHONDONTWRITEBYTECODE
# tinygrad reads variables by the names of its devices, and has one of that name.
unexport PYTHON

VENV := .venv
COMPILED := $(wildcard corepy/*/*.pyx corepy/*/*.pxi)
PY := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench bench-dispatch bench-program conformance gpu-check sanitize clean
# Two targets that install into one environment at once would tread on each other.
.NOTPARALLEL:

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.has-demo  ## See what corepy does on this machine
	$(VENV)/bin/corepy demo $(ARGS)

test: $(VENV)/.has-test  ## Run the tests
	$(PY) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: $(VENV)/.has-lint  ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.has-bench  ## Measure operations beside NumPy, torch, JAX and others (20 to 35 minutes)
	$(PY) benchmarks/grid.py $(ARGS)

bench-dispatch: $(VENV)/.has-bench  ## Measure the cost of dispatch
	$(PY) benchmarks/dispatch.py $(ARGS)

bench-program: $(VENV)/.has-bench  ## Measure a whole program beside NumPy: time and peak memory
	$(PY) benchmarks/program.py $(ARGS)

conformance: $(VENV)/.has-conformance  ## Run array-api-tests on BACKENDS and publish the matrix
	@status=0; for backend in $(BACKENDS); do \
	    $(PY) conformance/run.py --backend $$backend --max-examples $(EXAMPLES) \
	        $(if $(SUITE),--suite "$(SUITE)") $(ARGS) || status=1; \
	done; exit $$status

gpu-check: $(VENV)/.has-test $(VENV)/.has-conformance  ## Run on a GPU what waits for one; results in OUT
	PYTHON="$(abspath $(PY))" SUITE="$(SUITE)" scripts/gpu_check.sh "$(OUT)" $(ARGS)

sanitize: $(VENV)/.has-test  ## Run tests of the modules in C under GCC's sanitizers
	PYTHON="$(abspath $(PY))" scripts/sanitize.sh $(ARGS)

clean:  ## Remove the virtual environment and everything that tools left behind
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find corepy -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "corepy needs Python 3.11 or newer, and \"$(PYTHON)\" is" \
	        "$$($(PYTHON) --version 2>&1 | head -n 1). Name another one: make PYTHON=python3.12 ..." >&2; \
	    exit 1; }
	@# Without ensurepip (Debian: apt install python3-venv) half an environment would stay behind.
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# One stamp for each extra of pyproject.toml: installed once, and again when that file changes, or
# one that is compiled. Python's bytecode is left to the first import of each module: most of what
# these libraries bring is never imported, and compiling it takes a third of the installation.
$(VENV)/.has-%: pyproject.toml hatch_build.py $(COMPILED) | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[$*]"
	@# pip hides the warning of the build.
	@[ "$$COREPY_COMPILE" = never ] || $(PY) -c 'from corepy.dispatch._hot import PURE; \
	    PURE and print(f"corepy: the hot path is not compiled: {PURE}")'
	@touch $@
