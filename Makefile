# Every target makes .venv and installs what it needs; a second run installs nothing.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test fuzz lint bench bench-quality docs clean

demo: .venv/.have-all  ## sample a planted mixture, fit it, print what was found
	$(BIN)/bitmix demo

test: .venv/.have-test  ## the test suite, on all cores
	$(BIN)/python -m pytest

fuzz: .venv/.have-test  ## odd and hostile inputs for FUZZ_SECONDS (default 120)
	$(BIN)/python tests/fuzz.py

lint: .venv/.have-test  ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.have-test  ## time and memory beside what people use; how honest the certificates are
	$(BIN)/bitmix bench
	$(BIN)/python benchmarks/trust.py

bench-quality: .venv/.have-test  ## exact recovery against the original EM and an oracle; resumable
	$(BIN)/python benchmarks/quality.py

docs: .venv/.have-docs  ## the documentation site, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf .venv docs/_build docs/api/generated docs/gallery

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.have-all: EXTRAS = all
.venv/.have-test: EXTRAS = all,test
.venv/.have-docs: EXTRAS = all,docs
.venv/.have-%: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[$(EXTRAS)]'
	@touch $@
