# schedkit: `make up` and `make test` need nothing before them but Python >= 3.11, make and the package registries.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: help install lock up test check format docs sim chaos mutants fuzz bench

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

install: $(STAMP) ## Make .venv with everything in it, at the exact versions of requirements.txt

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "schedkit needs Python >= 3.11, and $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lock: ## Compile requirements.txt anew from pyproject.toml (needs uv)
	uv pip compile --universal --python-version 3.11 --extra dev pyproject.toml --generate-hashes --no-header --no-annotate --fork-strategy fewest -o requirements.txt

up: install ## Start the embedded scheduler with its demo jobs
	@exec $(BIN)/schedkit up

test: install ## Run the tests
	@$(BIN)/python -m pytest -n auto

check: install ## Format, lint, types, imports, 20 simulations, generated docs, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/schedkit sim swarm --seeds 20
	$(BIN)/schedkit sim swarm --seeds-file tests/sim/seeds.txt
	$(BIN)/python -m docs.generate --check
	$(BIN)/python -m pytest -n auto

docs: install ## Write the pages of docs/ that follow from the code
	@$(BIN)/python -m docs.generate

chaos: install ## Three runs of real processes that are killed and stopped (ten minutes)
	@$(BIN)/python -m tests.chaos --runs 3 --seconds 120

mutants: install ## Which one-line bugs the simulator's checker notices (a quarter of an hour)
	@$(BIN)/python -m tests.sim.mutants

sim: install ## Simulate 200 seeds with faults
	@$(BIN)/schedkit sim swarm --from 1 --seeds 200 --workers 2

fuzz: install ## Fuzz the API by its OpenAPI document, with and without keys (some minutes)
	@$(BIN)/python -m tests.fuzz

bench: install ## Measure the figures of the README on this machine
	@$(BIN)/python -m benchmarks.embedded

format: install ## Format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
