# The one task runner; `make` alone lists the targets.
PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
CONSTRAINTS := constraints.txt
# uv installs in half of pip's time. pip does it where uv cannot: without a wheel of uv for this
# machine, or with an index that only pip's settings name.
install = { $(PIP) install uv && $(BIN)/uv pip install --quiet --system-certs \
	--python $(BIN)/python -c $(CONSTRAINTS) $(1); } \
	|| $(PIP) install --use-pep517 -c $(CONSTRAINTS) $(1)
NEEDED_MB := 2500

# Tests wait as much as they compute: four workers keep two cores busy. Each may have a cluster,
# and two have Spark: they fit into 8 GB. The quick ones compute alone.
WORKERS := 4
quick: WORKERS := 2
# nbval, which takes seconds to import, is started by the tests that need it.
PYTEST = $(BIN)/python -m pytest -p no:nbval -p tests.without_iris -n $(WORKERS) --durations=10
# The tests start some hundred processes, each of which would compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

# deno.json says which files; what deno keeps stays in the environment, and it fetches nothing.
DENO := DENO_DIR=$(abspath $(VENV))/.deno DENO_NO_UPDATE_CHECK=1 $(BIN)/deno
javascript = if [ -x $(BIN)/deno ]; then echo "$(BIN)/deno $(1)"; $(DENO) $(1); \
	elif [ -n "$$CI" ]; then echo "JavaScript is not checked: there is no deno" >&2; exit 1; \
	else echo "JavaScript is not checked: deno has no wheel for this machine"; fi

# Stamps: an environment is filled again only when one of these files has changed.
LAB := $(VENV)/.lab-installed
TEST := $(VENV)/.test-installed
PINS := pyproject.toml $(CONSTRAINTS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test quick test-all test-slow test-long mutants bench check fmt notebooks slides site offline release address constraints proto clean

help: ## List the targets
	@echo "usage: make TARGET [PYTHON=python3.12] [WORKERS=4] [ARGS='-x tests/system/storage']"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

lab: $(LAB) ## Open JupyterLab on the tour
	@$(BIN)/labkit lab

test: check ## Check the code, then show each capability once: about 8 minutes on two cores
	$(PYTEST) -m "not (long or further) and (core or not (slow or java or browser))" $(ARGS)

quick: $(TEST) ## The system's tests, in memory: about a minute (ARGS=tests/views for others)
	$(PYTEST) -m "not (long or further or slow or java or browser)" $(or $(ARGS),tests/golden tests/system)

test-all: test test-slow test-long ## All tests: hours

test-slow: $(TEST) ## The tests that `make test` leaves out because they take long: about half an hour
	$(PYTEST) -m "not long and (further or not core and (slow or java or browser))" $(ARGS)

test-long: $(TEST) ## What repeats a promise: more seeds, examples, rounds, versions of a peer
	$(PYTEST) -m "long or hypothesis" --hypothesis-profile=many $(ARGS)

mutants: $(TEST) ## Plant mistakes in a copy of the protocol's code: the quick tests must notice each
	$(BIN)/python -m tests.mutants $(ARGS)

bench: $(TEST) ## Run the benchmarks and renew docs/performance.md: at most two hours (ARGS=storage: 13 minutes)
	@$(call install,-e '.[bench]')
	$(BIN)/python -m benchmarks $(ARGS)

check: $(TEST) ## Lint, formatting and types of Python and JavaScript, and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(call javascript,fmt --check)
	@$(call javascript,lint)
	@$(call javascript,check 'labkit/views/widgets/browser/*.js' 'tools/site/theme/*.js')

fmt: $(TEST) ## Format the code and correct what ruff can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	@$(call javascript,fmt)

notebooks: $(LAB) ## Build the lessons, run all notebooks and store their outputs
	@$(call install,-e '.[dev]')
	$(BIN)/python -m labkit.course.lessons.build
	$(BIN)/python -m nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.store_widget_state=False \
		--ExecutePreprocessor.record_timing=False \
		notebooks/00-tour.ipynb

slides: $(LAB) ## Make a talk of each lesson in build/slides
	$(BIN)/jupyter nbconvert --to slides --output-dir build/slides \
		--TemplateExporter.extra_template_basedirs=docs --template talk \
		--SlidesExporter.reveal_width=1600 --SlidesExporter.reveal_height=1000 \
		$(ARGS) $(filter-out %-tour.ipynb,$(wildcard notebooks/*.ipynb))

site: $(LAB) ## Build the static site into site/, with the lab in a browser tab; needs npm
	@$(call install,-e '.[site]')
	$(BIN)/python -m tools.site site

offline: $(LAB) ## The site, all wheels and a page for teachers in build/offline, for a class without internet
	@$(call install,-e '.[site]')
	$(BIN)/python -m tools.site.offline build/offline

release: $(LAB) ## Build wheel, sdist, site, offline pack and notes in build/release, and check each
	@$(call install,-e '.[site]')
	$(BIN)/python -m tools.release $(ARGS)

address: $(LAB) ## Say where this is published: REPOSITORY=https://github.com/owner/name
	$(BIN)/python -m tools.site.address $(REPOSITORY)

constraints: $(BIN)/python ## Pin again, keeping what still fits (UPGRADE=--upgrade renews all)
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --system-certs --universal --all-extras --no-annotate \
		--custom-compile-command "make constraints" $(UPGRADE) -o $(CONSTRAINTS) pyproject.toml

proto: $(LAB) ## Generate the protobuf code again
	@$(call install,-e '.[dev]')
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. labkit/system/model/proto/*.proto

clean: ## Remove the environment, the caches and what tests left
	rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf build dist site tests/artifacts
	find . -name __pycache__ -prune -exec rm -rf {} +

$(LAB): $(PINS) | $(BIN)/python
	@echo "Installing labkit and all it needs into $(VENV): about a minute."
	@$(call install,-e .)
	@touch $@

$(TEST): $(PINS) | $(BIN)/python
	@echo "Installing labkit and all that its tests need into $(VENV): about a minute."
	@$(call install,-e '.[test]')
	@touch $(LAB) $@

stop = { echo "labkit: $(strip $(1))" >&2; exit 1; }

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || $(call stop,\
		there is no $(PYTHON). Install Python 3.11 or newer or name one: make PYTHON=/its/path)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || $(call stop,\
		$$("$(PYTHON)" --version 2>&1) is too old. Name a Python 3.11 or newer: make PYTHON=/its/path)
	@"$(PYTHON)" -c 'import ensurepip; import venv' 2>/dev/null || $(call stop,\
		$(PYTHON) cannot make a virtual environment. As root: apt install \
		$$("$(PYTHON)" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'))
	@df -Pk . | awk 'NR == 2 { exit $$4 < $(NEEDED_MB) * 1024 }' || $(call stop,\
		the installation takes $(NEEDED_MB) MB and less is free in this folder. Make room)
	@"$(PYTHON)" -m venv --clear $(VENV)
