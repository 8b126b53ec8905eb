# One entry point for everything; `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= $(shell scripts/pythons --oldest)
VENV ?= .venv
BIN := $(VENV)/bin
IS_LINUX := $(filter Linux,$(shell uname -s))
# For kubectl, where the machine has none of its own.
export PATH := $(PATH):$(or $(HAMID_CLUSTER_CACHE),$(HOME)/.cache/hamid-cluster)/bin

.DEFAULT_GOAL := help
.PHONY: help setup run run-ready native-library test test-fast test-python test-cluster cluster-build test-gpu check format native bench lock generate clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.installed ## create the virtual environment from the lock file

$(VENV)/.installed: requirements-dev.lock
	@echo "setting up $(VENV), once" >&2
	scripts/ensure-venv $(PYTHON) $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

PODS ?= $(sort $(wildcard examples/*.yaml))
SIMULATE = exec $(BIN)/python -m hamid simulate $(addprefix --pods ,$(PODS)) $(addprefix --nodes ,$(NODES)) $(if $(ONCE),--once)

# Where make can load functions, the simulation takes its place, for the sake of exit codes.
ifneq ($(and $(filter run,$(MAKECMDGOALS)),$(filter load,$(.FEATURES))),)
-load build/run_in_place.so
build/run_in_place.so: scripts/run_in_place.c
	@mkdir -p $(@D) && $(CC) -O2 -Wall -Wextra -shared -fPIC -o $@ $< >&2
endif
IN_PLACE = $(and $(.LOADED),$(if $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),,yes))

run: run-ready ## a cluster in one process: PODS="a.yaml b.yaml", NODES=nodes.yaml, ONCE=1 for JSON lines
	@$(if $(IN_PLACE),$(run-in-place $(SIMULATE)),$(SIMULATE))

# On stderr: stdout is for the answer.
run-ready:
	@$(MAKE) --no-print-directory -s setup native-library >&2

native-library:
	$(MAKE) --no-print-directory -C native library

native: ## build the hook library and the simulated drivers
	$(if $(IS_LINUX),$(MAKE) --no-print-directory -C native all,@echo "not Linux: the native part is left out" >&2)

check: setup ## lint, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The inner loop: units and fakes, on one Python, without the slow ones. The library's own is
# make -C native check, the chart's pytest tests/deploy; of native/ the tests build what they need.
test-fast: setup ## units and fakes, under a minute
	$(BIN)/pytest --ignore tests/deploy -m "not slow and not cluster and not gpu and not native"

# What is native runs once: it is C, whichever Python starts it.
test-python: setup native ## everything that needs no cluster, on $(PYTHON)
	$(BIN)/pytest -m "not cluster and not gpu $(if $(and $(IS_LINUX),$(if $(NOT_NATIVE),,yes)),,and not native)"

# The cluster's programs first: some tests that need no cluster need its kubectl and helm.
test: check cluster-build test-python ## everything: lint, types, tests on the oldest and newest Python, the real cluster
	@oldest=$$(scripts/pythons --oldest) newest=$$(scripts/pythons --newest); \
	if [ "$$newest" != "$$oldest" ]; then \
	    $(MAKE) --no-print-directory test-python NOT_NATIVE=1 PYTHON="$$newest" VENV=.venv-newest; \
	fi
	$(MAKE) --no-print-directory test-cluster

test-gpu: setup native ## what needs a real GPU
	$(BIN)/pytest tests/gpu -rsP --junitxml build/test-gpu.xml

# 3: not on this machine; the tests then say why, or fail where HAMID_REQUIRE_ALL is set. helm alone takes no root.
cluster-build: setup ## build the Kubernetes that test-cluster starts, and the chart's images (minutes, once)
	PYTHON=$(abspath $(BIN))/python tests/cluster/up/build.sh || [ $$? = 3 ]
	PYTHON=$(abspath $(BIN))/python tests/cluster/up/chart-images.sh || [ $$? = 3 ]

test-cluster: setup native cluster-build ## the daemon on a real API server, scheduler, kubelet and containerd
	$(BIN)/pytest tests/cluster tests/deploy

format: setup ## format the code and mend what lint can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# JSON lines on stdout and nothing else. 3: not on this machine, and stderr says why.
BENCHES := footprint allocate bind extender codec packing packing2d placement explain burst wakeup \
    cluster one-node coldstart

bench: ## all benchmarks, as JSON lines; one alone: make -s bench-allocate
	@for name in $(BENCHES); do $(MAKE) --no-print-directory -s bench-$$name || echo "no $$name" >&2; done

.PHONY: $(addprefix bench-,$(BENCHES))
$(addprefix bench-,$(BENCHES)): bench-%:
	@$(MAKE) --no-print-directory -s setup native >&2
	@$(BIN)/python -m benchmarks.bench_$(subst -,_,$*) $(BENCH_ARGS)

# TRACE: a name, or the path of a list in openb's format. ALL=1: the baselines, too. ABLATIONS=1: what lies between FGD and
# ours. FIRST_SEED: 42 unless given.
# CPU_BY_KUBE=1: tasks without GPU go where kube-scheduler places them, as in a cluster.
PACKING_ARGS = $(if $(TRACE),--trace $(TRACE)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(ALL),--all) $(if $(ABLATIONS),--ablations) \
    $(if $(FIRST_SEED),--first-seed $(FIRST_SEED)) $(if $(CPU_BY_KUBE),--cpu-by-kube)
bench-packing: BENCH_ARGS = $(PACKING_ARGS)
bench-packing2d: BENCH_ARGS = $(PACKING_ARGS)

lock: setup ## resolve the dependencies anew
	scripts/lock $(PYTHON)

generate: setup ## regenerate the kubelet's messages from the vendored protos
	$(MAKE) --no-print-directory -C hamid/kubelet/proto PYTHON=$(abspath $(BIN))/python

clean: ## remove what was built
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache native/build
