# make run    the shortest way to see it work: the model inside the package looks at its pictures
# make test   the whole test suite
# make machines  the test suite on machines other than this one: instruction sets, CPUs, caches, load
# make arm    a part of the test suite on an Arm CPU that QEMU emulates (tests/arm; about half an hour)
# make pythons  the test suite under each Python from 3.11 on that is installed here, free-threaded ones too
# make fuzz   random cases that must not crash, hang or answer wrongly: MINUTES=10, or ARGS="--full"
# make check  formatting, lint, types, layout of the source
# make wheel  wheels in dist/: cenote, with compiled kernels of common networks (takes minutes), and cenote-runtime
# make release  the source distribution and the wheels in dist/, checked, installed in empty environments and tried (minutes)
# make docs   the pages that are made from the code, and the documentation as a site, in site/
# make bench  Cenote and its peers, measured side by side (takes long; see bench/README.md)
#
# Each makes .venv on first use and installs what it needs; afterwards that costs nothing.

SHELL := /bin/sh
# Any Python of 3.11 or newer, the plain name first. `make PYTHON=/path/to/python` chooses another.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# Workers of the test suite.
JOBS ?= auto
ARGS ?=
# How long `make fuzz` takes.
MINUTES ?= 10

.PHONY: run test machines arm pythons fuzz check format bench docs wheel release clean

run: $(VENV)/.run
	$(BIN)/cenote run $(ARGS)
	@echo
	@echo "The command is $(BIN)/cenote; to have it and Cenote's Python at hand in this shell:"
	@echo "    . $(BIN)/activate"

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

# `make machines ARGS="--target avx2 --l3 4M tests/kernels"` imagines one, for a part of the tests.
machines: $(VENV)/.test
	$(BIN)/python -m tests.machines -n $(JOBS) $(ARGS)

# `make arm ARGS="tests/functional -k pool"` runs another part.
arm: $(VENV)/.test
	$(BIN)/python -m tests.arm -n $(JOBS) $(ARGS)

# `make pythons ARGS="--python /path/to/python3.14t tests/runtime"` names one, and a part of the tests.
pythons:
	$(PYTHON) -m tests.pythons -n $(JOBS) $(ARGS)

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

# The type checker reads torch and onnxruntime, which come with the tests.
check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layout.py

format: $(VENV)/.check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench
	$(BIN)/python -m bench.models $(ARGS)

# The pages that are made from the code, then the site of all pages, in site/. A warning or a broken link is an error.
docs: $(VENV)/.docs
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html"

# The kernels lie in the package only while the wheel is packed: a checkout compiles its own.
wheel: $(VENV)/.run
	$(BIN)/python -m bundle
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist . ./packaging/runtime
	rm src/cenote/data/kernels.bundle
	@ls -l dist

# `make release ARGS="--no-kernels"` rehearses it without the minutes of compiling.
release: $(VENV)/.release
	$(BIN)/python -m release $(ARGS)

clean:
	rm -rf $(VENV) .arm build dist site .ruff_cache .mypy_cache .pytest_cache .hypothesis

# Stamps: made once, made again when the list of dependencies changes.
$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it with: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	@echo "installing Cenote into $(VENV)"
	$(PIP) --editable .
	@touch $@

$(VENV)/.check: pyproject.toml | $(VENV)/.run
	$(PIP) --editable '.[check]' 'pytest>=8'
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.run
	@echo "installing what the tests need (several hundred megabytes: PyTorch is one of the oracles)"
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.check

$(VENV)/.release: pyproject.toml | $(VENV)/.run
	$(PIP) --editable '.[release]'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.run
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.run
	@echo "installing the engines to compare with (more than a gigabyte)"
	$(PIP) --editable '.[bench]'
	@touch $@
