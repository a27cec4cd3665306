# The one task runner; `make` alone lists the targets.
PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
CONSTRAINTS := constraints.txt
# uv takes half as long as pip. If uv fails, because it has no wheel for this machine or because the
# package index is configured only for pip, pip installs the packages.
install = { $(PIP) install uv && $(BIN)/uv pip install --quiet --system-certs \
	--python $(BIN)/python -c $(CONSTRAINTS) $(1); } \
	|| $(PIP) install --use-pep517 -c $(CONSTRAINTS) $(1)
NEEDED_MB := 2500

# Tests wait about half of the time, so four workers keep two cores busy. Each worker may start a
# cluster, and two start Spark; together they fit into 8 GB. Quick tests do not wait.
WORKERS := 4
quick: WORKERS := 2
# Do not load nbval, which takes seconds to import: the tests that need it start it themselves.
PYTEST = $(BIN)/python -m pytest -p no:nbval -p tests.without_iris -n $(WORKERS) --durations=10
# Write bytecode: the tests start hundreds of processes, each of which would compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

# deno.json lists the files. deno keeps its cache in the environment and downloads nothing.
DENO := DENO_DIR=$(abspath $(VENV))/.deno DENO_NO_UPDATE_CHECK=1 $(BIN)/deno
javascript = if [ -x $(BIN)/deno ]; then echo "$(BIN)/deno $(1)"; $(DENO) $(1); \
	elif [ -n "$$CI" ]; then echo "JavaScript is not checked: deno is missing" >&2; exit 1; \
	else echo "JavaScript is not checked: deno has no wheel for this machine"; fi

# Stamp files: `make` installs everything again only if one of the files in PINS has changed.
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

quick: $(TEST) ## Run the tests of the system, in memory: about a minute (ARGS=tests/views runs others)
	$(PYTEST) -m "not (long or further or slow or java or browser)" $(or $(ARGS),tests/golden tests/system)

test-all: test test-slow test-long ## Run all tests: several hours

test-slow: $(TEST) ## Run the tests that `make test` leaves out because they take long: about half an hour
	$(PYTEST) -m "not long and (further or not core and (slow or java or browser))" $(ARGS)

test-long: $(TEST) ## Repeat tests with more seeds, examples, rounds or versions: several hours
	$(PYTEST) -m "long or hypothesis" --hypothesis-profile=many $(ARGS)

mutants: $(TEST) ## Plant bugs in a copy of the protocol code, and check that a quick test catches each one
	$(BIN)/python -m tests.mutants $(ARGS)

bench: $(TEST) ## Run the benchmarks and update docs/performance.md: at most three and a half hours (ARGS=storage: 13 minutes)
	@$(call install,-e '.[bench]')
	$(BIN)/python -m benchmarks $(ARGS)

check: $(TEST) ## Check style, formatting and types of Python and JavaScript, and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(call javascript,fmt --check)
	@$(call javascript,lint)
	@$(call javascript,check 'labkit/views/widgets/browser/*.js' 'tools/site/theme/*.js')

fmt: $(TEST) ## Format the code, and fix what ruff can fix
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

slides: $(LAB) ## Create slides for each lesson in build/slides
	$(BIN)/jupyter nbconvert --to slides --output-dir build/slides \
		--TemplateExporter.extra_template_basedirs=docs --template talk \
		--SlidesExporter.reveal_width=1600 --SlidesExporter.reveal_height=1000 \
		$(ARGS) $(filter-out %-tour.ipynb,$(wildcard notebooks/*.ipynb))

site: $(LAB) ## Build what has changed of the static site into site/, with the lab in a tab; needs npm
	@$(call install,-e '.[site]')
	$(BIN)/python -m tools.site site

offline: $(LAB) ## Build a pack for classes without internet in build/offline: site, wheels, page for teachers
	@$(call install,-e '.[site]')
	$(BIN)/python -m tools.site.offline build/offline

release: $(LAB) ## Build wheel, sdist, site, offline pack and release notes in build/release, and check them
	@$(call install,-e '.[site]')
	$(BIN)/python -m tools.release $(ARGS)

address: $(LAB) ## Set the address of the published repository: REPOSITORY=https://github.com/owner/name
	$(BIN)/python -m tools.site.address $(REPOSITORY)

constraints: $(BIN)/python ## Pin all versions, keeping pins that are still valid (UPGRADE=--upgrade renews all)
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --system-certs --universal --all-extras --no-annotate \
		--custom-compile-command "make constraints" $(UPGRADE) -o $(CONSTRAINTS) pyproject.toml

proto: $(LAB) ## Regenerate the protobuf code
	@$(call install,-e '.[dev]')
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. labkit/system/model/proto/*.proto

clean: ## Delete the environment, the caches, and files that tests have left behind
	rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf build dist site tests/artifacts
	find . -name __pycache__ -prune -exec rm -rf {} +

$(LAB): $(PINS) | $(BIN)/python
	@echo "Installing labkit and its dependencies into $(VENV): about a minute."
	@$(call install,-e .)
	@touch $@

$(TEST): $(PINS) | $(BIN)/python
	@echo "Installing labkit and everything that its tests need into $(VENV): about a minute."
	@$(call install,-e '.[test]')
	@touch $(LAB) $@

stop = { echo "labkit: $(strip $(1))" >&2; exit 1; }

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || $(call stop,\
		$(PYTHON) was not found. Install Python 3.11 or newer or give its path: make PYTHON=/its/path)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || $(call stop,\
		$$("$(PYTHON)" --version 2>&1) is too old. Use Python 3.11 or newer: make PYTHON=/its/path)
	@"$(PYTHON)" -c 'import ensurepip; import venv' 2>/dev/null || $(call stop,\
		$(PYTHON) cannot create a virtual environment. Run as root: apt install \
		$$("$(PYTHON)" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'))
	@df -Pk . | awk 'NR == 2 { exit $$4 < $(NEEDED_MB) * 1024 }' || $(call stop,\
		the installation needs $(NEEDED_MB) MB and this folder has less free space. Free some disk space)
	@"$(PYTHON)" -m venv --clear $(VENV)
