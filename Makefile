# make demo    set up .venv and run the demonstration, which writes catena-demo.png
# make test    set up .venv and run all checks and tests
# make bench   set up .venv and measure against the peers (minutes)

PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: demo test bench clean

demo: $(VENV)/.ready
	$(BIN)/catena demo

test: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest -n 2 --dist loadfile

bench: $(VENV)/.ready-test
	$(BIN)/python benchmarks/dynamics.py
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/operators.py
	$(BIN)/python benchmarks/loops.py
	$(BIN)/python benchmarks/ladder.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and f"catena needs Python 3.10 or newer, {sys.executable} is {v[0]}.{v[1]}; call make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plot]'
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,peers]'  # on top: old pips take minutes for both at once
	@touch $@

clean:
	rm -rf $(VENV) build dist
