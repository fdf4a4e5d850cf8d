# Two commands for a newcomer: `make demo` and `make test`. Everything lives in .venv*; nothing outside is changed.

# The first Python of 3.11 or newer that runs.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,\
  $(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))))
TORCH ?= torch==2.13.0
JOBS ?= 2
# For each fuzzer.
FUZZ_SECONDS ?= 10
PEERS ?= zipnn==0.5.4 openzl==0.3.0 pcodec==1.1.0 blosc2==4.14.1

BIN := .venv/bin
NATIVE := $(wildcard native/*.* native/*/*.*)
FUZZERS := $(wildcard tests/fuzz/*.?pp)
PYTHONS := codec proxy src tests benchmarks examples

.PHONY: help demo test test-fast fuzz check format stubs bench clean

help:
	@echo "make demo        run the product on a local directory: a real checkpoint there and back"
	@echo "make test        all tests (starts the S3 server and clients they need)"
	@echo "make test-fast   the tests that need neither"
	@echo "make fuzz        mutants for the kernels, built with sanitizers, and for the parsers"
	@echo "make check       ruff, mypy, import-linter, clang-format, stubs, module sizes"
	@echo "make format      let ruff and clang-format write"
	@echo "make bench       rewrite benchmarks/RESULTS.md"

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: .venv/installed .venv-awscli/installed .venv-s3fs/installed .venv-frameworks/installed
	$(BIN)/pytest -n $(JOBS) --dist loadfile

test-fast: .venv/installed
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not e2e and not slow"

# The input of a failure lies in build/fuzz/crash-input.
fuzz: .venv/installed
	$(BIN)/cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN)/ninja)" \
	  -DPython_EXECUTABLE="$(abspath $(BIN)/python)" -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)"
	$(BIN)/cmake --build build/fuzz --target fuzz_payload fuzz_round_trip
	$(BIN)/python -m tests.fuzz.seeds build/fuzz/seeds
	cd build/fuzz && for fuzzer in payload round_trip; do \
	  ./fuzz_$$fuzzer seeds/$$fuzzer $(FUZZ_SECONDS) || exit 1; done
	cd build/fuzz && for target in bodies containers engines; do \
	  PYTHONPATH="$(CURDIR)" "$(CURDIR)/$(BIN)/python" -m tests.fuzz $$target $(FUZZ_SECONDS) || exit 1; done

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(filter %.cpp %.hpp %.h,$(NATIVE) $(FUZZERS))
	$(BIN)/python tests/check_stub.py
	$(BIN)/python tests/check_sizes.py

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(filter %.cpp %.hpp %.h,$(NATIVE) $(FUZZERS))

stubs: .venv/installed
	$(BIN)/python tests/check_stub.py --write

bench: .venv/peers
	$(BIN)/python benchmarks/run_all.py

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "s4weights needs Python 3.11 or newer: install one, or name it: make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

# torch first and pinned: a range would bring the newest GPU build, some gigabytes.
.venv/tools: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

.venv/installed: .venv/tools pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --no-build-isolation -e ".[proxy,torch]"
	touch $@

# What the codec is compared with, in the versions that the tables name.
.venv/peers: .venv/installed
	$(BIN)/python -m pip install --quiet $(PEERS)
	touch $@

# Clients in their newest versions, apart: their botocore pins disagree with each other and with aioboto3.
.venv-awscli/installed:
	$(PYTHON) -m venv .venv-awscli
	.venv-awscli/bin/python -m pip install --quiet awscli boto3
	touch $@

.venv-s3fs/installed:
	$(PYTHON) -m venv .venv-s3fs
	.venv-s3fs/bin/python -m pip install --quiet s3fs
	touch $@

# What trains and saves in tests/e2e/frameworks.
.venv-frameworks/installed:
	$(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-frameworks/bin/python -m pip install --quiet "$(TORCH)" s3fs "s3torchconnector[dcp]"
	touch $@

clean:
	rm -rf build dist demo .venv .venv-awscli .venv-s3fs .venv-frameworks .mypy_cache .ruff_cache .pytest_cache .hypothesis
