# Every target works from a fresh clone: the environment is made on the first call and again only
# when pyproject.toml or constraints.txt changed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The build tools are pinned like everything else, so the package is built without isolation.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
BUILD_TOOLS := hatchling editables

USER_STAMP := $(VENV)/.installed-user
DEV_STAMP := $(VENV)/.installed-dev
# Where the development environment is there, a plain one need not be made.
DEMO_STAMP := $(if $(wildcard $(DEV_STAMP)),$(DEV_STAMP),$(USER_STAMP))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check lint types bench docs format clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hwbench needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(USER_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) $(BUILD_TOOLS)
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) $(BUILD_TOOLS)
	$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(DEMO_STAMP)  ## answer a query for several devices
	$(BIN)/hwbench query --space s --arch random --seed 0 \
		--device h100,a100,rtx2080,cpu_xeon_gold --metric latency,energy

test: $(DEV_STAMP)  ## run the tests
	$(BIN)/python -m pytest

lint: $(DEV_STAMP)  ## check style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(DEV_STAMP)  ## check types
	$(BIN)/mypy

check: lint types test  ## lint, types, tests and docs: what CI runs

bench: $(DEV_STAMP)  ## measure speeds, into benchmarks.json
	$(BIN)/python -m pytest bench --benchmark-json=benchmarks.json

docs: $(DEV_STAMP)  ## regenerate the generated blocks of the docs
	$(BIN)/python scripts/generate_docs.py

format: $(DEV_STAMP)  ## format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## remove the environment and all that tools left
	rm -rf $(VENV) build dist benchmarks.json .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find hwbench tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
