# One front door. Every target makes its own virtual environment when there is none.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXTRAS_STAMP := $(VENV)/.installed-extras
DOCS_STAMP := $(VENV)/.installed-docs
RELEASE_STAMP := $(VENV)/.installed-release
PAGE_STAMP := $(VENV)/.installed-page
PAGE := src/quorate/dashboard/static
NPM := PATH="$(abspath $(BIN)):$$PATH" $(abspath $(BIN))/npm --prefix dashboard --silent
CORES  := $(shell getconf _NPROCESSORS_ONLN)
MYPY_WORKERS ?= $(CORES)
# Two workers a core.
PARALLEL := -n $(shell expr $(CORES) \* 2) --dist worksteal
# Four workers a core: a story waits for its cluster for two thirds of its time. tests/conftest.py puts the modules of
# stories first, and a worker runs whole modules: stories that a module starts side by side are started once.
STORIES := --workers $(shell expr $(CORES) \* 4)
# Modules are compiled when they are imported first: most are never imported.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
CURRENT = $(shell $(BIN)/python -c 'import quorate; print(quorate.__version__)')
COMMITTED = $(shell git log -1 --format=%ct)
IMAGE ?= quorate:$(CURRENT)
CONTAINER ?= docker
CORES_TESTS := $(addprefix tests/,api quota placement queueing gang)
UNMEASURED := conformance docs e2e faults
LINTS := lint-types lint-tests lint-format lint-style lint-layers lint-dead-code lint-spelling lint-language
# What the tests do not find by themselves, in a second process with the lowest priority: stories wait for a tenth of their time.
LINT_BESIDE = { nice -n 19 $(MAKE) --no-print-directory lint LINTS='$(filter-out lint-tests lint-language,$(LINTS))' \
    MYPY_WORKERS=0 >$(VENV)/lint.log 2>&1 || { cat $(VENV)/lint.log; exit 1; }; } & lint=$$!;
# Keep compiled modules: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo lint check quick test test-extras test-long failed-alone coverage docs docs-serve wheel requirements image chart release $(LINTS) search rest loops vectors mutations test-real test-faults crashes fuzz bench bench-admission bench-binding bench-dispatch bench-scale bench-simulate crds manifests helm reference dashboard dashboard-check test-browser test-clients test-newcomer screenshots clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

$(STAMP): pyproject.toml constraints.txt
	@echo "==> preparing $(VENV) (once; about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) --progress-bar on --editable '.[test]'
	@touch $@

$(EXTRAS_STAMP): $(STAMP)
	@$(INSTALL) --editable '.[extras]'
	@touch $@

$(DOCS_STAMP): $(STAMP)
	@$(INSTALL) --editable '.[docs]'
	@touch $@

$(RELEASE_STAMP): $(STAMP)
	@$(INSTALL) --editable '.[release]'
	@touch $@

$(PAGE_STAMP): $(STAMP) dashboard/package.json dashboard/package-lock.json
	@echo "==> preparing dashboard/node_modules (a quarter of a minute)"
	@$(INSTALL) --editable '.[page]'
	@$(NPM) ci --loglevel error
	@touch $@

install: $(STAMP) ## make the virtual environment

demo: $(STAMP) ## watch two jobs deadlock, then the same jobs complete, in two ways; names how to open the dashboard
	@$(BIN)/quorate demo

lint: $(STAMP) ## format, lint, layers, strict types, dead code, spelling, language
	@$(MAKE) --no-print-directory --keep-going --jobs $(CORES) $(filter --output-sync,$(.FEATURES:%=--%)) $(LINTS)

$(LINTS): $(STAMP)

lint-format:
	@$(BIN)/ruff format --check .

lint-style:
	@$(BIN)/ruff check .

lint-layers:
	@$(BIN)/lint-imports

# On a busy machine a process of mypy may not start within its 3 s, which ends mypy with 2: then without such processes.
lint-types:
	@MYPY_NUM_WORKERS=$(MYPY_WORKERS) $(BIN)/mypy || { test $$? = 2 && MYPY_NUM_WORKERS=0 $(BIN)/mypy; }

# Each worker of pytest would compile all test modules if they were not compiled before; nothing to do while they are unchanged.
lint-tests:
	@test -z "$$(find tests -name '*.py' -newer $(VENV)/collected.log 2>&1)" || \
	    $(BIN)/pytest --collect-only -qq >$(VENV)/collected.log || { cat $(VENV)/collected.log; rm -f $(VENV)/collected.log; exit 1; }

lint-dead-code:
	@$(BIN)/python -m tests.dead_code

lint-spelling:
	@$(BIN)/codespell

lint-language:
	@$(BIN)/python -m tests.language

quick: $(STAMP) ## the tests of the cores: quota, placement, queueing, gangs (about half a minute of CPU)
	@HYPOTHESIS_PROFILE=quick $(BIN)/pytest -q -p no:benchmark -m 'not slow and not long and not large' $(CORES_TESTS) $(ARGS)

check: $(STAMP) ## lint and the fast tests (over a minute)
	@$(LINT_BESIDE) $(BIN)/pytest -q -m 'not slow and not long' $(STORIES); tests=$$?; wait $$lint && exit $$tests

test: $(STAMP) ## lint and the tests, end-to-end ones included (under ten minutes)
	@$(LINT_BESIDE) $(BIN)/pytest -m 'not long' $(STORIES) --durations 15 --durations-min 5; tests=$$?; wait $$lint && \
	    case $$tests in 1) $(MAKE) --no-print-directory failed-alone;; *) exit $$tests;; esac

test-extras: $(EXTRAS_STAMP) ## the tests of data frames, Parquet and reports, which `make test` skips without pandas, pyarrow and plotly
	@$(BIN)/pytest -q -m extra $(ARGS)

test-long: $(STAMP) ## more seeds of faults, restarts, histories and loops than `make test` (minutes)
	@$(BIN)/pytest -m long $(PARALLEL) $(ARGS)

failed-alone: $(STAMP) ## run the tests that failed last again, one at a time
	@echo "==> tests failed; once more, one at a time: one that passes now depends on timing and is to be repaired"
	@$(BIN)/pytest --last-failed --last-failed-no-failures none --exitfirst --verbose $(ARGS)

coverage: $(STAMP) ## the lines and branches that tests do not run, without most stories; below 90 % it fails (minutes)
	@$(BIN)/pytest -q -m 'not long' $(PARALLEL) $(UNMEASURED:%=--ignore=tests/%) --cov --cov-report= --cov-fail-under 0
	@$(BIN)/pytest -q -m measured $(PARALLEL) --cov --cov-append

search: $(STAMP) ## look for counterexamples to the laws, at random and for longer
	@HYPOTHESIS_PROFILE=search $(BIN)/pytest -q $(PARALLEL) --timeout 0 -k 'laws or oracle or history or machine' $(ARGS)

vectors: $(STAMP) ## run a file of test vectors: make vectors CASES=FILE
	@$(BIN)/python -m tests.run_vectors $(CASES)

rest: $(STAMP) ## search 60,000 worlds at rest for one in which a new process would decide something (long)
	@$(BIN)/python -m tests.rest_search queueing $(ARGS)
	@$(BIN)/python -m tests.rest_search queueing-blocked $(ARGS)
	@$(BIN)/python -m tests.rest_search queueing-searching $(ARGS)
	@$(BIN)/python -m tests.rest_search queueing-backfilling $(ARGS)
	@$(BIN)/python -m tests.rest_search queueing-planning $(ARGS)
	@$(BIN)/python -m tests.rest_search queueing-aging $(ARGS)
	@$(BIN)/python -m tests.rest_search queueing-slicing $(ARGS)
	@$(BIN)/python -m tests.rest_search gangs $(ARGS)

loops: $(STAMP) ## search all small worlds for preemption loops (long)
	@$(BIN)/python -m tests.queueing.loop_search
	@$(BIN)/python -m tests.gang.loop_search

mutations: $(STAMP) ## break the core's rules one at a time; each must be caught (minutes)
	@$(BIN)/python -m tests.mutations

test-real: $(STAMP) ## the stories on the kube-apiserver in the folder KUBEBUILDER_ASSETS (minutes)
	@$(BIN)/pytest tests/e2e --real $(ARGS)

test-faults: $(STAMP) ## 200 seeded runs through a proxy that does its worst (minutes); REAL=1: kills at size on KUBEBUILDER_ASSETS (hours)
	@$(BIN)/python -m $(if $(REAL),tests.faults.at_size --real,tests.faults) $(ARGS)

crashes: $(STAMP) ## kill a cluster 50 times under 50 pods that run as processes; none may be lost or left (minutes)
	@$(BIN)/python -m tests.local.runtime.crashes $(ARGS)

fuzz: $(STAMP) ## 10,000 seeded hostile objects against controllers, scheduler and webhooks (minutes)
	@$(BIN)/python -m tests.fuzz $(ARGS)

bench: $(STAMP) ## measure, and hold to the limits of bench/limits.yaml (minutes)
	@$(BIN)/python -m bench.queueing
	@$(BIN)/python -m bench.placement
	@$(BIN)/python -m bench.gang
	@$(BIN)/python -m bench.topology
	@$(BIN)/pytest bench --benchmark-only -o python_files='bench_*.py'
	@$(BIN)/python -m bench.admission --scale 0.1
	@$(BIN)/python -m bench.admission.estimates
	@$(BIN)/python -m bench.simulate --most 100_000
	@$(BIN)/python -m bench.backfill
	@$(BIN)/python -m bench.clusters
	@$(BIN)/python -m bench.dispatch.copies
	@$(BIN)/python -m bench.dispatch --jobs 60 --workers 2
	@$(BIN)/python -m bench.dashboard
	@$(BIN)/python -m bench.dashboard.streams
	@$(BIN)/python -m bench.dashboard.admission
	@$(BIN)/python -m bench.pods

bench-admission: $(STAMP) ## measure admission over HTTP, two whole worlds, and hold them to their limits (minutes)
	@$(BIN)/python -m bench.admission
	@$(BIN)/python -m bench.admission --world topology

bench-simulate: $(STAMP) ## measure simulations of up to a million jobs, and hold them to their limits (a quarter of an hour)
	@$(BIN)/python -m bench.simulate

bench-binding: $(STAMP) ## measure how fast gangs are bound over HTTP, beside bare bind calls (a minute)
	@$(BIN)/python -m bench.binding

bench-dispatch: $(STAMP) ## measure a manager that gives 10,000 jobs to 5 worker clusters (half an hour)
	@$(BIN)/python -m bench.dispatch

bench-scale: $(STAMP) ## measure the processes with 5,000 nodes and 150,000 pods, and hold them to their limits (minutes)
	@$(BIN)/python -m bench.scale

crds: $(STAMP) ## write deploy/crds/ from the field lists and their descriptions
	@$(BIN)/quorate crds --conversion-webhook --output deploy/crds

manifests: $(STAMP) ## write deploy/ from the tables in src/quorate/install
	@$(BIN)/quorate manifests --output deploy --with-chart

helm: $(BIN)/helm ## install the real Helm, with which the tests render the chart

$(BIN)/helm: $(STAMP)
	@$(BIN)/python -m tests.install.install_helm $@

reference: $(STAMP) ## write the pages of docs/reference that are made from the code
	@$(BIN)/python -m reference docs/reference

dashboard: $(PAGE_STAMP) ## check, test and build the page of the dashboard into the package, from the types of its API
	@$(BIN)/python -m quorate.dashboard.serving.operations >dashboard/openapi.json
	@$(NPM) run types
	@$(NPM) run lint
	@$(NPM) test
	@$(NPM) run build

dashboard-check: dashboard ## fail if the built page that is committed is not that of its sources
	@test -z "$$(git status --porcelain -- $(PAGE) dashboard)" || \
	    { git status --short -- $(PAGE) dashboard; echo "commit what 'make dashboard' has built"; exit 1; }

test-browser: $(PAGE_STAMP) ## the page of the dashboard in Chromium, on clusters of `quorate local up` (minutes)
	@$(BIN)/pytest tests/dashboard_browser --browser -n $(CORES) --dist loadfile $(ARGS); tests=$$?; \
	    case $$tests in 1) $(MAKE) --no-print-directory failed-alone ARGS='tests/dashboard_browser --browser';; *) exit $$tests;; esac

test-clients: $(STAMP) ## other clients and operators on local clusters, each installed once into .clients (an hour)
	@$(BIN)/pytest tests/clients --clients -n $(CORES) --dist loadgroup $(ARGS)

test-newcomer: $(STAMP) ## type every command of README.md and of docs/tasks in a fresh environment with the wheel (minutes)
	@$(BIN)/pytest tests/newcomer --newcomer $(PARALLEL) $(ARGS)

screenshots: $(PAGE_STAMP) ## write the pictures of the dashboard's views into docs/images
	@$(BIN)/python -m tests.dashboard_browser.screenshots docs/images

docs: $(DOCS_STAMP) ## build the documentation site into site/; a broken link or a page outside the navigation fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(DOCS_STAMP) ## show the documentation site on 127.0.0.1:8000 and follow changes
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

wheel: $(STAMP) ## build the wheel into dist/, from a commit always the same
	@rm -rf build dist/quorate-*.whl src/*.egg-info
	@SOURCE_DATE_EPOCH=$(COMMITTED) $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

requirements: wheel ## write deploy/requirements.txt, the files that the image installs, from constraints.txt
	@$(BIN)/python .ci/requirements

image: wheel ## build the container image, and its bill of materials into dist/; IMAGE=NAME CONTAINER=podman BASE=OTHER
	@.ci/sbom $(CURRENT) >dist/quorate-$(CURRENT).cdx.json
	@command -v $(CONTAINER) >/dev/null || { echo "there is no $(CONTAINER): name docker, podman or buildah with CONTAINER="; exit 1; }
	@SOURCE_DATE_EPOCH=$(COMMITTED) $(CONTAINER) build --file deploy/Dockerfile --build-arg SOURCE_DATE_EPOCH=$(COMMITTED) $(BASE:%=--build-arg BASE=%) --tag $(IMAGE) .

chart: $(BIN)/helm ## package the Helm chart into dist/, for `helm push` to an OCI registry
	@$(BIN)/helm package deploy/helm/quorate --destination dist

release: $(RELEASE_STAMP) ## cut a release: make release VERSION=0.2.0
	@BIN=$(BIN) PYTHON=$(PYTHON) .ci/release "$(VERSION)"

clean: ## remove the virtual environment and what tools left behind
	rm -rf $(VENV) .clients dashboard/node_modules .coverage* site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache build src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
