# make demo: classify a picture. make test: everything that is checked. Both make what they need:
# a virtual environment (.venv), the native library, and for tests a second environment with
# ai-edge-litert (.venv-litert). Nothing is installed outside this folder.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help demo check test nightly board sanitize fuzz numerics test-litert test-alone conformance conformance-sample \
	wheels check-wheels conformance-half random-graphs mixed-graphs region-graphs fused-graphs float-graphs memory-graphs changed-models worse-chips lint format \
	native clean FORCE

# The first Python from 3.10 on that really starts; 3.11 first, the last one with a tflite-runtime.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.10 python3; do \
	"$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$$p" && break; done)

VENV := .venv
LITERT := .venv-litert
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check
# zig is pinned: it is the compiler and the C++ library of what users install.
WHEEL_TOOLS := 'scikit-build-core>=1.0' 'auditwheel>=6.2' 'ziglang==0.17.1'
BUILD_TOOLS := 'scikit-build-core>=0.10' 'pybind11>=2.13' 'cmake>=3.18' 'ninja>=1.11'
# The folders are there because a file that is gone leaves no other trace.
NATIVE_SOURCES := CMakeLists.txt $(shell find native/. -type d -o -name '*.cpp' -o -name '*.h')
PACKAGES := delegate rk3588_conformance rk3588_vision
FORMATTED_SOURCES := $(shell find native tools/board/native -name '*.cpp' -o -name '*.h')
# Three workers for two cores: tests of drivers wait for much of their time.
PYTEST_FLAGS ?= -n 3
# What meets a runtime runs under both: the plugin, commands, the package. Not the C host, which brings
# its own TensorFlow Lite 2.9, nor detections, whose CPU nodes run on kernels that differ, nor what
# compiles and simulates alone.
LITERT_TESTS := $(patsubst %,tests/native/test_%.py,dynamic_outputs end_to_end exit graph_order \
		new_shapes overwritten_constants plugin stats wild_names) \
	$(patsubst %,tests/cli/test_%.py,bad_input commands detect files interruption measurements) \
	$(patsubst %,tests/package/test_%.py,api cached classification inferences start_up strict workers) \
	$(patsubst %,tests/e2e/test_%.py,float_classifier mediapipe memory photographs selfie) \
	$(patsubst %,tests/hosts/test_%.py,behaviour compiled_model embedding frigate kernels litert \
		litert_dispatch litert_processes litert_program loader) \
	tests/aot/test_rewrite.py

help:
	@echo 'make demo         classify a picture through the delegate'
	@echo 'make check        in a minute: structure, lowering, simulator, a model from end to end'
	@echo 'make test         lint, types, tests under tflite-runtime and ai-edge-litert'
	@echo 'make test-alone   all tests in a copy of this tree, with no ../shared beside it'
	@echo 'make nightly      the tests that only repeat what others claim, or take many minutes'
	@echo 'make conformance  the whole operator suite against the reference kernels'
	@echo 'make conformance-half  the families of float operators, in fp16 against float64'
	@echo 'make random-graphs   GRAPHS random models (default 20000) against the reference kernels'
	@echo 'make fused-graphs    GRAPHS random models with numerics=auto (default 20000), as near as they say'
	@echo 'make mixed-graphs    GRAPHS models of several types and ranks (default 20000), likewise'
	@echo 'make region-graphs   GRAPHS models that are channels first for a while, likewise'
	@echo 'make float-graphs    GRAPHS random models with float=fp16 (default 20000), as their operators alone'
	@echo 'make memory-graphs   MEMORY_GRAPHS graphs that crowd memory (default 1000), also cut after every task'
	@echo 'make worse-chips  whole models on chips that break each stage: never a wrong result'
	@echo 'make changed-models  MUTANTS damaged models (default 20000): no crash, no wrong result'
	@echo 'make board        the real kernel and driver in QEMU on emulated NPU cores, the product in it'
	@echo 'make numerics     NUMERICS_MODELS extreme operators against the reference kernels'
	@echo 'make sanitize     the simulator under sanitizers, on mutated command streams'
	@echo 'make fuzz         the same with libFuzzer (clang), FUZZ_RUNS streams (default 1000000)'
	@echo 'make lint         ruff, clang-format, mypy'
	@echo 'make format       rewrite sources as ruff and clang-format want them'
	@echo 'make native       build the native library and install the package into $(VENV)'
	@echo 'make wheels       wheels for aarch64 and x86-64, a source distribution, Debian packages: dist'
	@echo 'make check-wheels    install and run them, aarch64 under emulation'
	@echo 'make clean        remove environments and builds'

define create
	@if [ -z '$(PYTHON)' ]; then echo 'make: error: no Python from 3.10 on was found; set PYTHON=' >&2; exit 1; fi
	@echo 'creating $(1) with $(PYTHON)'
	$(PYTHON) -m venv --clear $(1)
	$(1)/bin/python -m pip install $(PIP_FLAGS) $(BUILD_TOOLS)
	@touch $(1)/created
endef

$(VENV)/created:
	$(call create,$(VENV))

$(LITERT)/created:
	$(call create,$(LITERT))

# An editable installation finds modules by the list it was made with: one that was moved or added
# needs another installation.
build/modules: FORCE
	@mkdir -p build
	@find $(PACKAGES) -name '*.py' | LC_ALL=C sort | cmp -s - $@ || find $(PACKAGES) -name '*.py' | LC_ALL=C sort > $@

FORCE:

$(VENV)/installed: $(VENV)/created pyproject.toml $(NATIVE_SOURCES) build/modules
	@echo 'building the native library and installing it into $(VENV): some minutes at first'
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-build-isolation -C build-dir=build/venv -e '.[runtime,dev]'
	@touch $@

# The packages alone: its native library and its list of modules are those of the first environment.
$(LITERT)/installed: $(LITERT)/created $(VENV)/installed
	$(LITERT)/bin/python -m pip install $(PIP_FLAGS) --no-build-isolation -C wheel.cmake=false -e '.[litert,test]'
	cp -r $(VENV)/lib/python*/site-packages/{_editable_*.py,delegate} $(LITERT)/lib/python*/site-packages
	@touch $@

native: $(VENV)/installed

demo: $(VENV)/installed
	@$(BIN)/python -m models.demo

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED_SOURCES)
	$(BIN)/mypy

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED_SOURCES)

test-litert: $(LITERT)/installed
	$(LITERT)/bin/python -m pytest $(PYTEST_FLAGS) -q -m 'not slow and not exhaustive' $(LITERT_TESTS)

test-alone: $(VENV)/installed
	$(BIN)/python tools/alone.py $(PYTEST_FLAGS) -m 'not exhaustive'

# What to run after each edit: less than a minute on two cores.
CHECK_TESTS := tests/package/test_structure.py tests/package/test_options.py tests/graph/test_tflite_reader.py \
	tests/partition/test_partitioner.py tests/lower/test_tiling.py tests/ops/test_functions.py \
	tests/npu/test_encode.py tests/sim/test_conv_oracle.py tests/sim/test_elementwise_oracle.py \
	tests/native/test_end_to_end.py tests/cli/test_first_words.py
check: $(VENV)/installed
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -q -m 'not exhaustive' $(CHECK_TESTS)

nightly: $(VENV)/installed
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -q -m exhaustive

# What CI runs of the suite: the same cases every time, of every family.
conformance-sample: $(VENV)/installed
	$(BIN)/python -m delegate conformance --device simulator --sample 600 --seed 1 --gtest_brief
	$(BIN)/python -m delegate conformance --device simulator --sample 400 --seed 2 --gtest_brief \
		-O numerics=exact

conformance: $(VENV)/installed
	$(BIN)/python -m delegate conformance --device simulator --gtest_brief \
		--gtest_output=json:build/conformance.json --summary build/conformance_summary.json

conformance-half: $(VENV)/installed
	$(BIN)/python -m delegate conformance --device simulator --gtest_brief --gtest_filter='Half.*:*type_fp16*' \
		--summary build/conformance_half.json

# The large editions of rk3588_conformance/generated: case number SEED is the first, each is repeated by its seed
# (python -m rk3588_conformance.generated graphs --seed N --count 1 --keep FOLDER). GRAPH_OPTIONS: of the delegate
# (GRAPH_OPTIONS="chip=rk3576 cores=all").
GRAPHS ?= 20000
MUTANTS ?= 20000
SEED ?= 0
JOBS ?= 2
random-graphs: $(VENV)/installed
	nice $(BIN)/python -m rk3588_conformance.generated graphs --count $(GRAPHS) --seed $(SEED) --jobs $(JOBS) \
		$(addprefix --option ,$(GRAPH_OPTIONS))

mixed-graphs: $(VENV)/installed
	nice $(BIN)/python -m rk3588_conformance.generated mixed --count $(GRAPHS) --seed $(SEED) --jobs $(JOBS) \
		$(addprefix --option ,$(GRAPH_OPTIONS))

region-graphs: $(VENV)/installed
	nice $(BIN)/python -m rk3588_conformance.generated regions --count $(GRAPHS) --seed $(SEED) --jobs $(JOBS) \
		$(addprefix --option ,$(GRAPH_OPTIONS))

fused-graphs: $(VENV)/installed
	nice $(BIN)/python -m rk3588_conformance.generated fused --count $(GRAPHS) --seed $(SEED) --jobs $(JOBS)

float-graphs: $(VENV)/installed
	nice $(BIN)/python -m rk3588_conformance.generated floats --count $(GRAPHS) --seed $(SEED) --jobs $(JOBS)

changed-models: $(VENV)/installed
	nice $(BIN)/python -m rk3588_conformance.generated mutations --count $(MUTANTS) --seed $(SEED) --jobs $(JOBS)
# Models of one operator with coarse, saturated and extreme channels, drawn and solved.
NUMERICS_MODELS ?= 100000
NUMERICS_SEED ?= 1
NUMERICS_JOBS ?= $(shell nproc)

numerics: $(VENV)/installed
	nice $(BIN)/python -m tests.lower.numerics.campaign --models $(NUMERICS_MODELS) \
		--seed $(NUMERICS_SEED) --jobs $(NUMERICS_JOBS)

# The simulator and its fuzzer under AddressSanitizer and UndefinedBehaviorSanitizer, on a sample:
# mutated command streams of our own digits programs, and of captures of another driver.
SANITIZE := build/sanitize
SANITIZE_RUNS ?= 3000
CAPTURES := $(firstword $(wildcard ../shared/captures) tests/captures/recorded)

# $(1): build folder, $(2): more options of cmake. Seeds: programs of the simulator's own tests, our
# digits programs, and the captures.
define fuzzer
	$(BIN)/cmake -S . -B $(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
		-DRK3588_SANITIZE=ON -DRK3588_PYTHON_MODULE=OFF -DRK3588_FUZZ=ON $(2)
	$(BIN)/ninja -C $(1) fuzz_stream
	$(BIN)/python -m delegate compile models/digits/digits_int8.tflite -O deny_ops=NONE \
		--dump $(1)/programs > $(1)/compile.log
	$(BIN)/python tools/fuzz_seeds.py $(1)/programs $(1)/seeds --own
	$(BIN)/python tools/fuzz_seeds.py $(CAPTURES) $(1)/seeds
endef

MEMORY_GRAPHS ?= 1000
memory-graphs: $(VENV)/installed
	RK3588_MEMORY_GRAPHS=$(MEMORY_GRAPHS) $(BIN)/python -m pytest $(PYTEST_FLAGS) \
		tests/lower/test_memory_graphs.py tests/lower/test_memory_check.py tests/kernel/test_cuts.py

worse-chips: $(VENV)/installed
	$(BIN)/python -m tests.kernel.worse_chips

sanitize: $(VENV)/installed
	$(call fuzzer,$(SANITIZE),)
	$(SANITIZE)/fuzz_stream --runs $(SANITIZE_RUNS) --seed 1 $(SANITIZE)/seeds/*

# Guided by coverage; what it finds is in $(FUZZ)/corpus, an input that fails in $(FUZZ)/failed-*.
FUZZ := build/fuzz
FUZZ_RUNS ?= 1000000
# The newest clang there is; Debian: apt-get install clang-19 libclang-rt-19-dev
CLANG ?= $(lastword $(sort $(notdir $(wildcard /usr/bin/clang++ /usr/bin/clang++-[12][0-9]))))

fuzz: $(VENV)/installed
	@if [ -z '$(CLANG)' ]; then echo 'make: error: no clang++ was found; set CLANG=' >&2; exit 1; fi
	$(call fuzzer,$(FUZZ),-DCMAKE_CXX_COMPILER=$(CLANG))
	mkdir -p $(FUZZ)/corpus
	nice -n 19 $(FUZZ)/fuzz_stream $(FUZZ)/corpus $(FUZZ)/seeds -artifact_prefix=$(FUZZ)/failed- \
		-runs=$(FUZZ_RUNS) -max_len=16384 -timeout=20 -print_final_stats=1

# Where ../shared is, every test runs as in a clone without it, and those that read it here, too.
test: lint sanitize test-litert conformance-sample $(VENV)/installed
	if [ -d ../shared ]; then $(MAKE) test-alone; fi
	$(BIN)/python -m pytest $(PYTEST_FLAGS) \
		-m "not exhaustive$$(if [ -d ../shared ]; then echo ' and shared'; fi)"

# docs/emulated_board.md. Exit code 3: a kernel or packages are not to be had.
board: $(VENV)/wheel-tools
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m tools.board $(CASES)

# PYTHONS="3.11 3.13", MACHINES=aarch64: fewer wheels than all. Exit code 3: something that it needs
# is not to be had (a Python, a package, a kernel that emulates).
$(VENV)/wheel-tools: $(VENV)/installed
	$(BIN)/python -m pip install $(PIP_FLAGS) $(WHEEL_TOOLS)
	@touch $@

WHEELS = nice $(BIN)/python -m tools.wheels $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(MACHINES),--machines $(MACHINES))

wheels: $(VENV)/wheel-tools
	$(WHEELS)

check-wheels: wheels
	$(WHEELS) --check

clean:
	rm -rf $(VENV) $(LITERT) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
