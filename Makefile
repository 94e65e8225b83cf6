# Two commands matter: `make demo` and `make test`. Both set themselves up.

PYTHON ?= python3
VENV ?= .venv
MINIMUM_VENV ?= .venv-minimum
NEWEST_VENV ?= .venv-newest
BARE_VENV ?= .venv-without-torch
# The oldest Python that pyproject.toml allows, and the newest that wheels are built for, as far as this machine has them.
MINIMUM_PYTHON ?= $(shell .ci/first-python python3.11 $(PYTHON))
NEWEST_PYTHON ?= $(shell .ci/first-python python3.14 python3.13 python3.12 $(PYTHON))
COMPOSER_VENV ?= .venv-composer
# Interpreters of other machines, 200 MB, are kept here.
ELSEWHERE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mvcs-elsewhere
AS_ROOT = $(if $(filter 0,$(shell id -u)),,sudo)
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
NATIVE := $(wildcard mvcs_native/CMakeLists.txt mvcs_native/src/*/*)

# Seen by pip and by the build environments pip makes.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

# Tests start hundreds of programs; where nothing is kept, each compiles all of mvcs again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test lint format test-slow test-minimum test-newest test-without-torch test-adapters test-optimizers test-report test-composer test-elsewhere soak demo bench bench-docs bench-kernels bench-commits wheel wheels dist changelog clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## create .venv with mvcs (editable) and the tools

# Python files are used in place; only these need an installation to be seen.
$(INSTALLED): pyproject.toml constraints.txt $(NATIVE)
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@.ci/quietly "setting up $(VENV): torch and a C++ build, a minute or two" $(PY) -m pip install --progress-bar off --editable '.[dev]'
	@touch $@

test: lint ## linters, types, the import rule, then every test but the slow ones
	$(PY) -m pytest

lint: setup ## ruff, mypy --strict, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: setup ## let ruff lay out the code
	$(VENV)/bin/ruff format .

test-slow: setup ## the tests that take minutes
	$(PY) -m pytest -m slow

# One test folder for each library that has a lowest version: stores, settings, lineage, files, ids, the command line.
test-minimum: setup ## the lowest versions that pyproject.toml allows, Python's too, in an environment of their own
	@test -x $(MINIMUM_VENV)/bin/python || $(MINIMUM_PYTHON) -m venv $(MINIMUM_VENV)
	$(PY) tests/minimum.py > $(MINIMUM_VENV)/lowest.txt
	$(MINIMUM_VENV)/bin/python -m pip install --progress-bar off --editable '.[test]' --constraint $(MINIMUM_VENV)/lowest.txt
	$(MINIMUM_VENV)/bin/python -m pytest tests/store tests/local tests/lineage tests/checkpoint tests/objects tests/cli/test_files.py tests/cli/test_sharing.py tests/cli/test_own_settings.py

test-newest: ## the tests of `make test` under the newest Python of this machine, in an environment of its own
	@test -x $(NEWEST_VENV)/bin/python || $(NEWEST_PYTHON) -m venv $(NEWEST_VENV)
	$(NEWEST_VENV)/bin/python -m pip install --progress-bar off --editable '.[dev]'
	$(NEWEST_VENV)/bin/python -m pytest

# A Python may be newer than any build of torch, and who restores needs none.
test-without-torch: ## mvcs without torch under the newest Python of this machine: files committed and restored, old ones read
	@test -x $(BARE_VENV)/bin/python || $(NEWEST_PYTHON) -m venv $(BARE_VENV)
	$(BARE_VENV)/bin/python tests/minimum.py --any > $(BARE_VENV)/others.txt
	$(BARE_VENV)/bin/python -m pip install --progress-bar off --requirement $(BARE_VENV)/others.txt
	$(BARE_VENV)/bin/python -m pip install --progress-bar off --no-deps --force-reinstall .
	! $(BARE_VENV)/bin/python -c 'import torch' 2>/dev/null
	PATH="$(abspath $(BARE_VENV))/bin:$$PATH" bash .ci/use '$(CURDIR)'

test-adapters: setup ## the callbacks for training frameworks, against the frameworks
	$(PY) -m pip install --progress-bar off --editable '.[dev,adapters]'
	$(PY) -m pytest -n 0 -m adapters tests/train/adapters tests/docs

test-optimizers: setup ## what is rounded of the state of optimizers, against the packages that ship them
	$(PY) -m pip install --progress-bar off --editable '.[dev,optimizers]'
	$(PY) -m pytest -n 0 -m optimizers tests/train/optimizers

test-report: setup ## the page of `mvcs bench report` in Chromium without a network; it installs Chromium
	command -v chromium >/dev/null || $(AS_ROOT) sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core'
	$(PY) -m pip install --progress-bar off --editable '.[dev]' playwright
	$(PY) -m pytest -n 0 -m 'slow or not slow' tests/ui/test_bench_page.py tests/ui/test_bench_page_in_browser.py

# Composer's metadata asks for an older torch, and it wants an older numpy than the other tests have.
test-composer: ## the callback for MosaicML Composer, in an environment of its own
	@test -x $(COMPOSER_VENV)/bin/python || $(PYTHON) -m venv $(COMPOSER_VENV)
	$(COMPOSER_VENV)/bin/python -m pip install --progress-bar off --editable '.[test]' --requirement tests/train/composer/requirements.txt
	$(COMPOSER_VENV)/bin/python -m pip install --progress-bar off --no-deps mosaicml==0.32.1 torchvision==0.28.0
	$(COMPOSER_VENV)/bin/python -m pytest -n 0 -m composer tests/train/composer

test-elsewhere: setup ## the same values on aarch64 and big-endian s390x, under qemu, which it installs; on x86-64 at every level
	.ci/elsewhere '$(ELSEWHERE)'
	ELSEWHERE='$(ELSEWHERE)' $(PY) -m pytest -n 0 -m elsewhere --timeout 3600 tests/elsewhere

soak: setup ## kills, rot and strangers by the hundred; tensors of more than 2^31 elements (20 GB of memory)
	$(PY) -m pytest -m soak -n 0 -s --timeout 7200

demo: setup ## train, crash, resume, look back, branch, push, clone: two minutes (DEMO_STEPS makes it longer, DEMO_DIR names its folder)
	$(PY) docs/demo/run.py

bench: setup ## time `mvcs log`, and how long training stands still for a commit
	$(PY) -m tests.bench.blocked
	$(PY) -m tests.bench.log_speed

bench-docs: setup ## write docs/benchmarks.md from docs/benchmarks/results, unless code changed since (ALLOW_OLDER=1: but for long runs)
	$(PY) docs/benchmarks/ledger.py check $(if $(ALLOW_OLDER),--allow-older)
	$(PY) docs/benchmarks/ledger.py page

bench-kernels: setup ## time the native kernels at each instruction level against memcpy
	$(PY) -m tests.bench.kernels

bench-commits: setup ## time whole commits and restores of states in memory beside torch.save and torch.load
	$(PY) -m tests.bench.commit_speed

wheel: setup ## build the wheel of this machine, and use it in an environment without a compiler
	rm -rf dist
	$(PY) -m build --wheel --outdir dist .
	.ci/smoke dist/*.whl

wheels: setup ## build the wheels of a release for x86-64 and aarch64 with zig, which it installs, and use them without a compiler, aarch64 under qemu
	rm -rf dist
	PYTHON=$(abspath $(PY)) .ci/wheels dist '$(ELSEWHERE)'

dist: setup ## build sdist and wheel; install each into a clean environment and use it from another folder
	rm -rf dist
	$(PY) -m build --outdir dist .
	.ci/smoke dist/*

changelog: setup ## show what the next release's changelog will say
	$(VENV)/bin/towncrier build --draft

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) $(COMPOSER_VENV) $(MINIMUM_VENV) $(NEWEST_VENV) $(BARE_VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find mvcs mvcs_native migrations tests docs -name __pycache__ -prune -exec rm -rf {} +
