# make demo          the main job on real digits, options in DEMO="--epochs 3"; then the first notebook opens
# make lab           JupyterLab on the first notebook
# make test          linters, spelling, types, tests
# make test-cluster  tests on a real standalone cluster, YARN and HDFS; needs Maven; options in CLUSTER=
# make test-long     the tests that make test leaves out, and more examples of properties; options in LONG=; hours
# make test-versions tests with older and newer Spark and TensorFlow; 10 GB in .versions; options in VERSIONS=spark-4.0
# make bench         benchmarks, printed as ratios; options in BENCH=--quick
# make docs          the documentation as a site, in build/docs; needs no network
# make pages         write what the pages of the documentation take from the code
# make audit         known vulnerabilities of what is installed, and of what the front end is built with
# make frontend      lint, test and build the live view's front end; needs Node.js
# All of them set up .venv first and do so only when setup.py, or what it compiles, changed.

VENV := .venv
BIN := $(VENV)/bin
# Some images set it; then each of some hundred processes would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE
SUPPORTED := import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c '$(SUPPORTED)' >/dev/null 2>&1 && { echo $$p; break; }; done)

# uv takes less than half of pip's time. But it reads no pip.conf: if that names an index of packages, or uv
# fails, pip installs. compileall then compiles on all cores, but for the packages' own tests. It may fail where
# pip's own would: some carry templates that are no Python yet.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile
UV := $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --reinstall-package tos_notebook
define INSTALL
@echo "Installing packages in $(VENV) ..."
@{ ! $(BIN)/python -m pip config list | grep -q index && $(UV) -e '.[$(EXTRAS)]'; } || \
	$(PIP) -e '.[$(EXTRAS)]'
endef
COMPILE := -$(BIN)/python -m compileall -qq -j 0 -x 'site-packages/.*/tests/' $(CURDIR)/$(VENV)/lib 2>/dev/null

# What decides what is installed.
PACKAGING := setup.py pyproject.toml $(wildcard tos_notebook/*/*.[ch])

FIRST := notebooks/00_first_steps.ipynb

# An editable installation leaves out what lies outside of the package: the plug-in for JupyterLab.
PLUGINS := $(VENV)/share/jupyter/labextensions
LINK_PLUGIN = mkdir -p $(PLUGINS) && ln -sfn $(CURDIR)/tos_notebook/labextension $(PLUGINS)/tos-notebook

# What the classes of a Spark are after they were read and verified, which is half of its start.
CLASSES := $(CURDIR)/$(VENV)/spark.jsa
WITH_CLASSES := SPARK_SUBMIT_OPTS="-XX:SharedArchiveFile=$(CLASSES) -Xlog:disable -XX:TieredStopAtLevel=1"

.PHONY: demo execute lab test test-long test-versions test-cluster test-faults bench docs pages audit frontend lint format setup clean
.NOTPARALLEL:

demo: $(VENV)/demo.stamp
	$(BIN)/python -m tos_notebook.demo $(DEMO)
	@$(MAKE) --no-print-directory $(if $(DISPLAY)$(WAYLAND_DISPLAY),lab,execute)

execute: $(VENV)/demo.stamp
	@echo "Executing $(FIRST) ..."
	TOS_NONINTERACTIVE=1 TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/jupyter execute --timeout=600 $(FIRST)
	@echo "It ran from top to bottom. Open it with: make lab"

lab: $(VENV)/lab.stamp
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) $(FIRST)

# Until the archive is there, a Spark starts more slowly, and no more. What lint says comes last: tests wait, it computes.
test: setup
	@test -f $(CLASSES) || $(BIN)/python -m tools.class_data $(CLASSES) & \
		$(MAKE) --no-print-directory lint >$(VENV)/lint.log 2>&1 & lint=$$!; \
		$(WITH_CLASSES) $(BIN)/python -m pytest -n 3 --durations=25 --durations-min=3; code=$$?; \
		wait $$lint || code=$$?; cat $(VENV)/lint.log; wait; exit $$code

# What repeats, with more options, engines, data or doors, what a shorter test protects.
test-long: setup
	@test -f $(CLASSES) || $(BIN)/python -m tools.class_data $(CLASSES)
	$(WITH_CLASSES) $(BIN)/python -m pytest -n 3 -m "long or hypothesis" --hypothesis-profile long $(LONG)

test-cluster: setup
	$(WITH_CLASSES) $(BIN)/python -m pytest tests/clusters $(CLUSTER)

# Each combination of versions has an environment of its own, which is made once.
test-versions: setup
	$(BIN)/python -m tools.versions $(VERSIONS)

# What may die, on which cluster, in which mode; an hour. FAULTS="--cluster local" for fewer.
test-faults: setup
	$(BIN)/python -m tests.faults $(FAULTS)

bench: setup
	$(BIN)/python -m benchmarks $(BENCH)

# From the beginning each time: pages are made of code, whose changes Sphinx does not look for.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet docs build/docs
	@echo "Open build/docs/index.html."

# A test checks that they are current.
pages: setup
	$(BIN)/python -m docs._ext.pages

frontend:
	cd labextension && npm ci && npm run lint && npm test && npm run build

# Asks the registries, which know of vulnerabilities that were found later.
audit: setup
	$(PIP) 'pip-audit>=2.9,<3'
	$(BIN)/python -m pip_audit --local --skip-editable --progress-spinner off
	cd labextension && npm audit --audit-level=low

lint: setup
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m codespell_lib
	$(BIN)/python -m mypy

format: setup
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

setup: $(VENV)/test.stamp

# A stamp is touched last, so an interrupted installation is done again.
$(VENV)/venv.stamp:
	@test -n "$(PYTHON)" || { echo "Expected Python 3.11 to 3.13 with venv on PATH, found none." \
		"Install it, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	-$(PIP) 'uv>=0.9,<1'
	touch $@

$(VENV)/demo.stamp: EXTRAS := demo
$(VENV)/demo.stamp: $(VENV)/venv.stamp $(PACKAGING)
	$(INSTALL)
	$(COMPILE)
	touch $@

$(VENV)/lab.stamp: EXTRAS := demo,lab
$(VENV)/lab.stamp: $(VENV)/venv.stamp $(PACKAGING)
	$(INSTALL)
	$(COMPILE)
	$(LINK_PLUGIN)
	touch $(VENV)/demo.stamp $@

$(VENV)/docs.stamp: EXTRAS := docs
$(VENV)/docs.stamp: $(VENV)/venv.stamp $(PACKAGING)
	$(INSTALL)
	$(COMPILE)
	touch $@

$(VENV)/test.stamp: EXTRAS := demo,test
$(VENV)/test.stamp: $(VENV)/venv.stamp $(PACKAGING)
	$(INSTALL)
	$(COMPILE)
	$(LINK_PLUGIN)
	touch $(VENV)/demo.stamp $(VENV)/lab.stamp $(VENV)/docs.stamp $@

clean:
	rm -rf $(VENV) .versions .cluster build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f tos_notebook/codecs/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
