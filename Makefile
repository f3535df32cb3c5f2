# Commands for developers. Each target creates its own environment, and again when pyproject.toml
# changes. `make help` lists the targets.
#
# VENV      folder of the environment
# EDITABLE  if empty, a built wheel is installed instead of the working tree (as in .ci/run)
PYTHON   ?= python3
VENV     ?= .venv
EDITABLE ?= --editable

STAMP := $(VENV)/.installed
BIN   := $(VENV)/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test slow lowest extras docs bench reproduce reproduce-quick lint types layers clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# pip 25.1 is the first version that installs dependency groups.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet $(EDITABLE) . --group dev
	@touch $@

demo: $(STAMP)  ## Simulate 1,000 x 10,000 genotypes, select 50 variants, find pairs, write a report
	@mkdir -p demo
	@printf '\n== Select variants, each scored together with all others\n'
	$(BIN)/dhsic simulate demo/genotypes.vcz --samples 1000 --variants 10000 \
	    --trait quantitative --seed 7 --force
	$(BIN)/dhsic select demo/genotypes.vcz --target sample_trait -n 50 \
	    --truth demo/genotypes.truth.tsv --out demo/selection.zarr --force
	@printf '\n== Test each variant separately, as in an association study\n'
	$(BIN)/dhsic test demo/genotypes.vcz --target sample_trait -n 14 --truth demo/genotypes.truth.tsv
	@printf '\n== Scan all pairs, adjusted for the selected variants\n'
	$(BIN)/dhsic pairs demo/genotypes.vcz --target sample_trait -n 10 --out demo/pairs.tsv --force \
	    --selection demo/selection.zarr --truth demo/genotypes.truth.tsv
	$(BIN)/dhsic report demo/selection.zarr --pairs demo/pairs.tsv -o demo/report.html --force

# Processes of tests load the same modules: without compiled ones, each takes seconds longer.
unexport PYTHONDONTWRITEBYTECODE

# Every test process uses one thread. There is one process more than cores, because some tests wait
# for other processes.
test: export OMP_NUM_THREADS = 1
test: $(STAMP)  ## Run the tests and doctests, except the slow ones
	$(BIN)/python -m pytest --dist loadfile \
	    --numprocesses $$($(BIN)/python -c 'import os; print(1 + (os.cpu_count() or 1))')

slow: $(STAMP)  ## Run the slow tests: memory measurements, large data, real clusters
	$(BIN)/python -m pytest -m slow --timeout 1800

# The oldest versions that pyproject.toml allows.
$(VENV)-lowest/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet "uv>=0.8"
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python \
	    --resolution lowest-direct --editable . --group test
	@touch $@

# They emit deprecation warnings of newer dependencies, scikit-learn 1.6 has a check with a repeated
# name, and plots of matplotlib 3.10 differ from the stored ones.
OF_FLOORS = -W ignore::DeprecationWarning -o strict_parametrization_ids=false \
    --deselect tests/test_plot.py::test_pictures_are_those_kept

lowest: export OMP_NUM_THREADS = 1
lowest: $(VENV)-lowest/.installed  ## Run the tests with the oldest supported dependencies
	$(VENV)-lowest/bin/python -m pytest --numprocesses logical --dist loadfile $(OF_FLOORS)

extras:  ## Install and use the wheel with each extra alone, in new environments
	PYTHON=$(PYTHON) .ci/extras

$(VENV)-docs/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-docs/bin/python -m pip install --quiet $(EDITABLE) . --group docs
	@touch $@

docs: $(VENV)-docs/.installed  ## Build the documentation in docs/_build
	rm -rf docs/api docs/_build docs/jupyter_execute docs/deploy.zip
	$(VENV)-docs/bin/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build

# The other selectors that the benchmarks measure are not in the environment of the tests.
$(VENV)-bench/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-bench/bin/python -m pip install --quiet $(EDITABLE) . --group bench
	@touch $@

bench: $(VENV)-bench/.installed  ## Run the benchmarks: roofline, scaling, other packages (15 minutes)
	$(VENV)-bench/bin/python benchmarks/suite.py

# DATA is the folder of real data; without it, only simulated data are used.
REPRODUCE = cd benchmarks && $(abspath $(VENV)-bench/bin/python) -W ignore -m reproduce $(if $(DATA),--data $(abspath $(DATA)))

reproduce: $(VENV)-bench/.installed  ## Reproduce the papers' tables, with all other methods, DATA=folder (6 hours)
	$(REPRODUCE)

reproduce-quick: $(VENV)-bench/.installed  ## The same with small data sets, DATA=folder (10 minutes)
	$(REPRODUCE) --quick

lint: $(STAMP)  ## Check style, formatting and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell dhsic tests deploy docs/*.md *.md

types: $(STAMP)  ## Check types (mypy --strict)
	$(BIN)/mypy

layers: $(STAMP)  ## Check that lower layers never import higher ones, and that there are no circular imports
	$(BIN)/lint-imports --no-cache  # the cache does not include new modules
	$(BIN)/python tests/circles.py

clean:  ## Remove the environments, the demo and all caches
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-bench $(VENV)-docs docs/api docs/_build docs/jupyter_execute docs/deploy.zip benchmarks/out demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
