# make demo | make test [ARGS="-k gates"] | make lint     (PYTHON=... and VENV=... choose interpreter and environment)
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/.ready
PIP := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-input --no-compile -c constraints.txt
TOO_OLD := ecdysis_lab needs Python 3.11 or newer, for example: make PYTHON=python3.12
export PATH := $(CURDIR)/build/opencode/node_modules/.bin:$(PATH)
.PHONY: demo test lint

demo: $(READY)
	$(VENV)/bin/ecdysis-lab demo $(ARGS)

test: $(READY)
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(READY)
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy

$(READY): pyproject.toml constraints.txt # set-up, once and again when either changes
	@$(PYTHON) -c 'import sys; sys.exit("$(TOO_OLD)" if sys.version_info < (3, 11) else 0)'
	@echo "set-up 1/3: environment in $(VENV)" && $(PYTHON) -m venv $(VENV) && $(PIP) pip
	@echo "set-up 2/3: packages (a few minutes)" && $(PIP) -e '.[tau2,mariadb,offline,test]'
	@echo "set-up 3/3: byte code" && $(VENV)/bin/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@ && echo "set-up done"
