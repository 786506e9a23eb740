# Two commands do everything on a machine with python3 (3.11 or newer) and a C++ compiler:
#   make demo    two agents optimise a kernel together on this machine's CPU (about 5 minutes)
#   make test    style, types and tests
# and one more where there is npm too:
#   make conformance    the official MCP conformance suite and Inspector (some minutes)
# The first of them installs into .venv: that downloads torch, about 1.2 GB, and takes minutes.
PYTHON ?= python3
VENV ?= .venv
NODE ?= .node
BIN := $(VENV)/bin
# Test processes side by side. Each keeps device locks of its own, so none waits for another's measurement.
WORKERS ?= 2

.PHONY: demo test check tests conformance test-browser test-gpu wheel clean

demo: $(VENV)/.guard
	$(BIN)/kernelarc-mcp demo

# Types are checked while the tests wait for their processes.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 check tests

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Servers and guards are started hundreds of times: what they import is compiled once.
tests: $(VENV)/.dev
	@$(BIN)/python -m compileall -q kernelarc_mcp guard memory clients
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 40

conformance: $(VENV)/.dev $(NODE)/.installed
	$(BIN)/python -m benchmarks.conformance.run --node $(NODE)

# The dashboard in the Chromium that is on the PATH.
test-browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	$(BIN)/python -m pytest tests/browser

# Where there is an NVIDIA GPU; one result per test in gpu-tests.xml.
test-gpu: $(VENV)/.dev
	$(BIN)/python -m pytest tests/gpu -m needs_gpu --junitxml=gpu-tests.xml

wheel: $(VENV)/.dev
	$(BIN)/python -m build --outdir dist .

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "kernelarc-mcp needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.guard: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV): torch alone is about 1.2 GB to download; this takes minutes."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[guard]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV): torch alone is about 1.2 GB to download; this takes minutes."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[guard,dev]'
	@touch $(VENV)/.guard $@

# Node 22 is one of the packages; npm itself may be of any version.
$(NODE)/.installed: benchmarks/conformance/package.json benchmarks/conformance/package-lock.json
	@command -v npm > /dev/null || { echo "make conformance needs npm on the PATH" >&2; exit 1; }
	@mkdir -p $(NODE)
	cp $^ $(NODE)
	npm ci --prefix $(NODE) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

clean:
	rm -rf $(VENV) $(NODE) dist build
