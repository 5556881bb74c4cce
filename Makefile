# make demo   trains on an embedded click stream and shows what it found
# make test   runs every test
# Both set up .venv by themselves; a second run does not install again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard csrc/*.* csrc/bind/*)
# An editable install knows the files it found: a new or a missing one means installing again.
STAMP := $(VENV)/.installed-$(firstword $(shell find src -name '*.py' | sort | cksum))

.PHONY: setup check test demo clean

setup: $(STAMP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Build tools go into the environment first, so that rebuilding after a change in csrc/ is quick.
$(VENV)/.tools: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		"scikit-build-core>=1,<2" "nanobind>=3,<4" "cmake>=3.26" "ninja>=1.11"
	touch $@

$(STAMP): $(NATIVE) | $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--config-settings=cmake.define.PQR_WERROR=ON --editable ".[dev]"
	touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror csrc/*.hpp csrc/*.cpp csrc/bind/*
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile

demo: setup
	$(BIN)/pqr demo

clean:
	rm -rf $(VENV) build dist
