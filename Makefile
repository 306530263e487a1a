PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WIRE := src/headwater/wire

.DEFAULT_GOAL := list
.DELETE_ON_ERROR:
.PHONY: list demo test check interop bench torture docs sync lock proto clean

list:
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Run the demo: write tables, read and follow them, fill a lake, kill a server
	$(BIN)/python examples/demo.py

test: $(READY) ## Run every test except the long ones
	$(BIN)/python -m scripts.run_tests

check: $(READY) ## Lint, format, types, layers and tidiness
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_paths.py tests/test_mirrors.py

interop: $(READY) ## Test against an Apache Fluss cluster, and with clients and readers of others
	$(BIN)/python -m scripts.interop $(INTEROP)

bench: $(READY) ## Measure throughput and latency on this machine
	$(BIN)/python -m benchmarks

torture: $(READY) ## Try to break it for hours: seeds, kills, faults, full disks, a soak; prints a table
	$(BIN)/python -m scripts.torture $(TORTURE)

docs: $(READY) ## Generate the reference pages, layers and paths from the code
	$(BIN)/python -m scripts.generate_reference
	$(BIN)/python -m scripts.generate_architecture

sync: $(READY) ## Generate the blocking API from the one that awaits
	$(BIN)/python -m scripts.generate_sync

lock: $(READY) ## Pin every dependency anew in requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --all-extras --universal --python-version 3.11 \
		--fork-strategy fewest --generate-hashes --no-emit-index-url --no-annotate --upgrade --quiet \
		--custom-compile-command "make lock" --output-file requirements.lock

proto: $(READY) ## Generate the protobuf code from fluss.proto
	$(BIN)/python -m grpc_tools.protoc -I $(WIRE) --python_out=$(WIRE) --pyi_out=$(WIRE) $(WIRE)/fluss.proto

clean: ## Remove the environment, caches and build output
	rm -rf $(VENV) build dist .torture .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Headwater needs Python 3.11 or newer; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
