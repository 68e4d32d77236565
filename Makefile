# Every job of this repository. `make help` lists them.
#
# Two of them are all the set-up there is: `make demo` and `make test`. Each makes .venv and
# installs what it needs the first time; after that it installs nothing and needs no network.

SHELL := /bin/sh
PYTHON ?=
BIN := .venv/bin
PYTEST_ARGS ?=
# Processes that run tests. Each that meets a test of ingest starts a JVM.
WORKERS ?= 2
BENCH_ARGS ?=
ROOM ?= replay

# Both names: pip 25.3 stopped applying the first to what packages are built with.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The tests start a hundred processes: each would compile the sources anew, which takes half a second.
unexport PYTHONDONTWRITEBYTECODE

INSTALL := $(BIN)/python -m pip install --quiet --no-warn-script-location -c constraints.txt
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest test-slow campaign fuzz test-nojit lint types contracts check bench map docs lock clean \
        prerequisites

help: ## list the jobs
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) \
	    | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: prerequisites .venv/.installed ## set up, ingest twelve years of crime reports, ask three questions
	@$(BIN)/chronicle demo

test: prerequisites .venv/.installed-dev ## set up, run the test suite
	@$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-oldest: prerequisites ## run it with the oldest NumPy, pandas, PyArrow and SciPy that pyproject.toml takes
	@python=$$(sh scripts/prerequisites.sh "$(PYTHON)") && "$$python" -m venv .venv-oldest
	@PIP_CONSTRAINT= .venv-oldest/bin/python -m pip install --quiet -e '.[dev]' \
	    'numpy==2.0.*' 'pandas==2.2.2' 'pyarrow==24.*' 'scipy==1.15.*'
	@.venv-oldest/bin/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-slow: prerequisites .venv/.installed-dev ## run the long campaigns too
	@HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

campaign: prerequisites .venv/.installed-dev ## kill, race and append at random, for long: nothing may be lost
	@HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/campaigns \
	    tests/property/test_store_machine.py $(PYTEST_ARGS)

fuzz: prerequisites .venv/.installed-dev ## read 20,000 CSV files by every door, answer 20,000 random patterns, sums over them, situations, windows, joins and plans as the oracles do, 20,000 mutated queries at all
	@$(BIN)/python -m pytest -o faulthandler_timeout=0 tests/campaigns/test_pattern_fuzz.py tests/campaigns/test_situation_fuzz.py \
	    tests/campaigns/test_trend_fuzz.py tests/campaigns/test_mutated_queries.py tests/campaigns/test_text_doors.py \
	    -m "slow or not slow" $(PYTEST_ARGS)
	@HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -o faulthandler_timeout=0 $(PYTEST_ARGS) \
	    tests/property/test_windows_agree.py::test_windows_are_those_of_the_oracle \
	    tests/property/test_joins_agree.py tests/property/test_join_plans_agree.py \
	    tests/property/test_plans_agree.py::test_every_plan_gives_the_answer_of_the_oracle

# Compiled arithmetic wraps and gives NaN without a word, where NumPy's scalars warn.
test-nojit: prerequisites .venv/.installed-dev ## run the kernels' tests as plain Python, and patterns against the oracle
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m "not slow" -p no:cacheprovider -W ignore::RuntimeWarning \
	    tests/unit/expressions tests/unit/joins tests/unit/operators tests/unit/patterns tests/unit/windows \
	    -n $(WORKERS) --dist worksteal tests/campaigns/test_pattern_fuzz.py \
	    tests/campaigns/test_trend_fuzz.py $(PYTEST_ARGS)

lint: prerequisites .venv/.installed-dev ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: prerequisites .venv/.installed-dev ## mypy, strict
	@$(BIN)/mypy

contracts: prerequisites .venv/.installed-dev ## who may import whom
	@$(BIN)/lint-imports

check: lint types contracts test ## everything that must be green before a commit

bench: prerequisites .venv/.installed-dev ## measure, small sizes (BENCH_ARGS="--events 10000000" for more)
	@$(BIN)/python -m benchmarks.full_replay $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.row_patterns $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.relevant_rows
	@$(BIN)/python -m benchmarks.situations --seconds 300 --switching 100000
	@$(BIN)/python -m benchmarks.trends $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.trend_figures --scale 0.5
	@$(BIN)/python -m benchmarks.small_append $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.flushing $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.text_append $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.ingest $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.memory $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.ordinary_sql $(BENCH_ARGS)

map: ## print what each file of a room is for (ROOM=replay/patterns)
	@git ls-files '$(ROOM)/*.py' | xargs grep -H -m1 '^"""' | sed 's/:"""/: /; s/"""$$//'

docs: prerequisites .venv/.installed-dev ## write docs/cli.md anew from the commands' own help
	@$(BIN)/python scripts/write_cli_reference.py

lock: prerequisites ## look up newer versions and write constraints.txt anew
	@python=$$(sh scripts/prerequisites.sh "$(PYTHON)") && "$$python" scripts/write_constraints.py

clean: ## remove the environment, caches, the demo's store and measurements
	rm -rf .venv .venv-oldest build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	    .import_linter_cache benchmarks/results demo-store
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

prerequisites:
	@sh scripts/prerequisites.sh "$(PYTHON)" >/dev/null

# The stamps below are newer than their inputs once an install has succeeded.

.venv/.created: | prerequisites
	@echo "Setting up .venv (once)"
	@python=$$(sh scripts/prerequisites.sh "$(PYTHON)") && "$$python" -m venv --clear .venv
	@touch $@

.venv/.installed: $(INPUTS) | .venv/.created
	@echo "Installing Chronicle into .venv (1.3 GB, most of it Spark)"
	@$(INSTALL) -e .
	@touch $@

.venv/.installed-dev: $(INPUTS) | .venv/.installed
	@echo "Installing what the tests need into .venv"
	@$(INSTALL) -e '.[dev]'
	@touch $@
