# make demo | make test [ARGS="-k gates"] | make lint     (PYTHON=... and VENV=... choose interpreter and environment)
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/.ready
PIP := -m pip install -qq --disable-pip-version-check --no-input -c constraints.txt
TOO_OLD := ecdysis_lab needs Python 3.11 or newer: make PYTHON=python3.12
DOC_RULES := --isolated --select=DOC --ignore=DOC101,DOC111,DOC201,DOC203 --style=numpy --exclude=harnesses \
	--skip-checking-raises=True --skip-checking-private-functions=True --arg-type-hints-in-docstring=False
export PATH := $(CURDIR)/build/opencode/node_modules/.bin:$(PATH)
.PHONY: demo test lint

demo: $(READY)
	$(VENV)/bin/ecdysis-lab demo $(ARGS)

test: $(READY)
	$(VENV)/bin/python -m pytest -n 2 --cov --cov-report=term $(ARGS)

lint: $(READY) $(VENV)/lint/.ready
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy
	$(VENV)/lint/bin/flake8 $(DOC_RULES) ecdysis_lab

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("$(TOO_OLD)" if sys.version_info < (3, 11) else 0)'
	@echo "set-up 1/3: environment in $(VENV)" && $(PYTHON) -m venv $(VENV)
	@echo "set-up 2/3: PyTorch" && $(VENV)/bin/python $(PIP) torch
	@echo "set-up 3/3: the lab and its packages (a few minutes)" && $(VENV)/bin/python $(PIP) -e '.[tau2,offline,test]'
	@touch $@ && echo "set-up done"

$(VENV)/lint/.ready: pyproject.toml constraints.txt # apart: see the lint extra in pyproject.toml
	@$(PYTHON) -m venv $(VENV)/lint && $(VENV)/lint/bin/python $(PIP) flake8 pydoclint && touch $@
