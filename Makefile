# make demo    set up .venv and run the demonstration, which writes catena-demo.png
# make quick   set up .venv and run the checks and the tests that find most mistakes: an answer in two minutes
# make test    set up .venv and run the checks and all tests that guard a change: ten minutes
# make tiers   set up .venv and run the other tiers of tests, or one of them: make peers, browser, pages, long, fuzz, brief, targets
# make aarch64 set up .venv and run tests of machine code on an emulated aarch64, whose files go to ROOT=build/aarch64 (needs root)
# make win64   set up .venv and run the core of the tests on machine code that is called as on 64-bit Windows (x86-64 Linux, gcc)
# make wheel   build the package into dist/ and try it in empty environments of PYTHONS="python3.10 python3.13"
# make bench   set up .venv, measure against the peers, and write benchmarks/results.json and the pages: 20 minutes, alone on the machine
# make docs    set up .venv and build the documentation into site/
# make soak    set up .venv and explore mechanisms and pairs of features, with new seeds: for SECONDS=600, or until Ctrl-C
# make notebooks set up .venv and write tutorials as notebooks into notebooks/
# make gallery set up .venv and draw the pictures of docs/gallery.md again

PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 2
BIN      = $(VENV)/bin
PYTEST   = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
TIERS    = peers browser pages long fuzz brief targets
ROOT     = build/aarch64
PYTHONS  = $(PYTHON)

# what depends on the processor: machine code, its loops over batches and steps, simulation, and files of numbers; and what of it an
# emulated processor does in twenty minutes
CORE     = $(addprefix tests/test_,operation_table native elimination linear_system iteration kernel_laws simulate loops_simulation files)
EMULATED = $(addprefix tests/test_,operation_table native linear_system iteration spatial smoke)

# ruff, then pyright beside the tests of $(1); what pyright finds comes last
checked = $(BIN)/ruff check . && { $(BIN)/pyright --pythonpath $(BIN)/python >$(VENV)/pyright.log & types=$$!; \
	$(PYTEST) -m $(1); tests=$$?; wait $$types || { cat $(VENV)/pyright.log; exit 1; }; exit $$tests; }

.PHONY: demo quick test tiers $(TIERS) aarch64 win64 wheel soak bench docs notebooks gallery clean

demo: $(VENV)/.ready
	$(BIN)/catena demo

quick: $(VENV)/.ready-test
	$(call checked,quick)

test: $(VENV)/.ready-test
	$(call checked,"not tier")

tiers: $(VENV)/.ready-test
	$(PYTEST) -m tier

$(TIERS): $(VENV)/.ready-test
	$(PYTEST) -m $@

aarch64: $(VENV)/.ready
	tests/aarch64.sh $(ROOT) $(BIN)/python $(EMULATED:=.py)

win64: $(VENV)/.ready-test
	$(BIN)/python -m pytest -p tests.win64 $(CORE:=.py)

wheel: $(VENV)/bin/python
	$(BIN)/python tests/wheel.py dist $(PYTHONS)

soak: $(VENV)/.ready-test
	CATENA_CACHE_DIR=off OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.soak $(if $(SECONDS),--seconds $(SECONDS))

bench: $(VENV)/.ready-test
	$(BIN)/python benchmarks/all.py
	$(BIN)/python benchmarks/ladder.py --plot docs/pictures/ladder.png
	$(BIN)/python benchmarks/pages.py

docs: $(VENV)/.ready-docs
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs site
	@echo "the documentation is in site/; open site/index.html"

notebooks: $(VENV)/.ready-docs
	$(BIN)/python docs/notebooks.py notebooks

gallery: $(VENV)/.ready
	$(BIN)/python docs/gallery.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and f"catena needs Python 3.10 or newer, {sys.executable} is {v[0]}.{v[1]}; call make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plot]'
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plot,docs]'
	@touch $@

$(VENV)/.ready-test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'  # on top: old pips take minutes for both at once
	@touch $(VENV)/.ready $@

clean:
	rm -rf $(VENV) build dist site notebooks
