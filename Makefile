# What there is to do: run `make` or `make help`.
# Works with GNU make 3.81 and later; needs Python 3.11 or later.

VENV := .venv
BIN := $(VENV)/bin
OLDEST := 3.11
# The first of these that is new enough builds the environment; `make PYTHON=...` overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# Without byte-compiling all of torch beforehand, the installation takes half the time.
INSTALL := $(BIN)/python -m pip install --no-compile --disable-pip-version-check -c constraints.txt
# Many tests start processes; with byte code on the disk each takes seconds less to begin.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-slow study-report skactiveml check lint fix lines docs wheel clean

help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ------------------------------------------------------------------ the environment
# Each stamp is written after its step has succeeded, so an interrupted step is simply
# done again. The first step clears whatever half an environment it finds.

$(VENV)/.created:
	@if [ -z "$(PYTHON)" ]; then \
		echo "fewlabels needs Python $(OLDEST) or later, and no such python3 is on the PATH"; \
		echo "(python3 here is: $$(python3 --version 2>&1)). Install one, or name it: make PYTHON=/path/to/python3"; \
		exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); fewlabels needs Python $(OLDEST) or later."; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV) || { \
		echo "The environment could not be created; on Debian and Ubuntu install python3-venv."; exit 1; }
	@touch $@

# The demo needs the package alone, so that a newcomer waits for nothing else.
$(VENV)/.package: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing fewlabels (once; 1.7 GB, or 5.7 GB where pip's default torch has CUDA: see README)"
	$(INSTALL) -e .
	@touch $@

# Development tools come on top, in the same environment. timm comes without torchvision,
# which has to be built for the very torch that is there.
$(VENV)/.installed: $(VENV)/.package
	@echo "Installing the development tools (about 1.5 GB with the rest, once)"
	$(INSTALL) -e '.[dev]'
	$(INSTALL) --no-deps timm
	@touch $@

setup: $(VENV)/.installed ## Create .venv with the pinned versions and the development tools.

# --------------------------------------------------------------------- run and test

demo: $(VENV)/.package ## Which labels are worth asking for, on the embedded digits; writes a report.
	$(BIN)/fewlabels demo

test: setup ## All tests that take no more than seconds, on two processes.
	$(PYTEST) -n 2 --dist loadfile -m "not slow"

test-slow: setup ## The tests that take minutes, and properties with many examples.
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile thorough

study-report: setup ## Make tables and pictures of both studies from their records.
	$(BIN)/python -m benchmarks.study_report

skactiveml: setup ## scikit-activeml's own tests on our strategies; fetches them.
	OMP_NUM_THREADS=1 $(BIN)/python scripts/skactiveml_suite.py

# ------------------------------------------------------------------------- the house

check: lint docs test ## Everything a change must pass: lint, docs and tests.

lint: setup ## Format, style, types, layers, docstrings, dead code, code budget.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/interrogate --quiet src
	$(BIN)/vulture
	$(BIN)/python scripts/lines.py --check

fix: setup ## Format the code and apply the safe corrections.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lines: setup ## Lines of code and documentation of each package, and its limit.
	$(BIN)/python scripts/lines.py

docs: setup ## Build the documentation strictly into site/.
	$(BIN)/mkdocs build --strict

wheel: setup ## Build the wheel and the source archive into dist/.
	$(BIN)/python -m build

clean: ## Remove everything that can be made again, the environment included.
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
