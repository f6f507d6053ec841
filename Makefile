# Everything a fresh Debian or Ubuntu with Python >= 3.11 needs to try notleader and to work on it.
#   make demo [INCIDENT=leader-lost]   a real Kafka, a real client, one incident, and what Spark says of it
#   make test                          lint, types, import rules and all tests
#   make test-outages                 real outages against their replays (wants a quiet machine)
#   make test-live                    a live analysis, killed and started again
#   make test-compose                 compose.yaml played through, in its images
#   make test-toxiproxy                Toxiproxy's own test suite against ours, and its server beside it (Go)
#   make test-workers                  every fault once more, with two worker processes
#   make test-cuts                     every frame of the corpus cut at every place (a quarter of an hour)
#   make test-incidents               the five incidents at full length and ten times each, and real outages beside
#                                      them (root, for network namespaces; some 40 minutes)
#   make test-truth                    every scenario of which the truth is known, and what the analysis says of it
#   make test-truth-mutants            would that suite notice a wrong condition? Edits each, and judges again
#   make test-clients                  every pinned client, directly and through the proxy (needs the toolchains that
#                                      docs/clients.md names, and most of an hour)
#   make docs                          the documentation as a site, in out/site
#   make lint | make format | make clean

PYTHON ?= python3
INCIDENT ?=
TRUTH ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Tests that nobody's timing decides: they run beside the others, with what these leave of the machine. Each part ends
# at about the same time: of one that is left over the second core has nothing.
JUDGED := tests/spark_analysis tests/truth
BESIDE := tests/benchmarks tests/docker tests/docs tests/faults tests/proxy tests/release

.PHONY: demo test test-beside test-judged test-timed test-clients test-outages test-incidents test-live test-compose \
	test-toxiproxy test-workers test-cuts test-truth test-truth-mutants docs lint format clean
.DELETE_ON_ERROR:

demo: $(INSTALLED)
	@$(BIN)/notleader demo $(INCIDENT)

test: $(INSTALLED)
	@sh scripts/test-tools.sh
	@$(MAKE) --no-print-directory -k -j4 lint test-timed test-judged test-beside

test-timed: $(INSTALLED)
	@$(BIN)/python -m pytest -q --durations=20 $(JUDGED:%=--ignore=%) $(BESIDE:%=--ignore=%)

test-judged test-beside: test-%: $(INSTALLED)
	@echo 'notleader: what the tests in $(TESTS) print comes at their end'
	@nice -n 10 $(BIN)/python -m pytest -q --durations=20 -o cache_dir=.pytest_cache/$* $(TESTS) \
		> $(VENV)/$*.txt 2>&1; code=$$?; cat $(VENV)/$*.txt; exit $$code

test-judged: TESTS = $(JUDGED)
test-beside: TESTS = $(BESIDE)

# Builds take longer than a test may without being suspected of hanging.
test-clients: $(INSTALLED)
	@sh scripts/test-tools.sh
	@$(BIN)/python -m pytest -q -o faulthandler_timeout=0 tests/clients/every_client.py tests/clients

# Real outages and their replays: what they compare takes a quiet machine.
test-outages: $(INSTALLED)
	@$(BIN)/python -m pytest -q -m outage

# Spark judges the recording several times over.
test-live: $(INSTALLED)
	@$(BIN)/python -m pytest -q -o faulthandler_timeout=0 -m live

# The analysis in its image takes minutes.
test-compose: $(INSTALLED)
	@sh scripts/test-tools.sh
	@$(BIN)/python -m pytest -q -o faulthandler_timeout=0 -m rehearsal

# Toxiproxy is built, and its tests go by time.
test-toxiproxy: $(INSTALLED)
	@sh scripts/test-tools.sh
	@$(BIN)/python -m pytest -q -m toxiproxy tests/toxiproxy

# Every script of a fault, and every fault before a real broker, with two processes that carry the traffic.
test-workers: $(INSTALLED)
	@sh scripts/test-tools.sh
	@NOTLEADER_TEST_WORKERS=2 $(BIN)/python -m pytest -q -m 'not outage' tests/faults tests/integration/faults \
		tests/integration/proxy/test_effects.py tests/integration/proxy/test_workers.py \
		tests/integration/capture/test_durability.py

test-cuts: $(INSTALLED)
	@$(BIN)/python -m tests.proxy.session.cutting all
	@NOTLEADER_PURE=1 $(BIN)/python -m tests.proxy.session.cutting all

# What the clients of the five incidents do takes them minutes.
test-incidents: $(INSTALLED)
	@sh scripts/test-tools.sh
	@$(BIN)/python -m pytest -q -o faulthandler_timeout=0 -m incidents

# The matrix goes into docs/held-to-the-truth.md. Recordings stay in build/truth: a run that was broken off goes on, and
# TRUTH=--again plays all of them anew (python -m tests.truth --help).
test-truth: $(INSTALLED)
	@sh scripts/test-tools.sh
	@$(BIN)/python -m tests.truth --page $(TRUTH)

# Judges the recordings of make test-truth again, with each condition of each check edited.
test-truth-mutants: $(INSTALLED)
	@$(BIN)/python -m tests.truth.mutants --page $(TRUTH)

# Without its generator's advertisement of a successor.
docs: $(INSTALLED)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: $(INSTALLED)
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(INSTALLED)
	@$(BIN)/ruff check -q --fix .
	@$(BIN)/ruff format -q .

# Set up again only when what is to be installed has changed.
$(INSTALLED): pyproject.toml src/notleader/__init__.py scripts/setup.sh scripts/build_native.py proxy/record/block_writer.pyx \
  proxy/pump/probe.pyx proxy/pump/probe.pxd proxy/pump/pump.pyx proxy/pump/pump.pxd proxy/recorder/pages.pyx
	@sh scripts/setup.sh '$(PYTHON)' '$(VENV)'
	@touch $@

clean:
	rm -rf $(VENV) build dist notleader-demo out capture .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f proxy/*/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
