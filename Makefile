# Needs Rust 1.89 or newer, a C compiler, and Python 3.9 or newer. Everything else that a goal
# uses is fetched and built below target/.

CARGO ?= cargo
PYTHON ?= python3
# The scripts of the evaluation use what all scripts share.
EVALUATE = PYTHONPATH=scripts $(PYTHON) evaluation/scripts
# Seconds that each fuzz target runs: `make fuzz` for long, `make fuzz-smoke` for a look.
FUZZ_SECONDS ?= 600
FUZZ_SMOKE_SECONDS ?= 5
# What `make campaign` draws its pairs of tables from, and how many.
SEED ?= 1
PAIRS ?= 500
# Where the suites of `make test-suites` are; they are no part of this repository.
SUITES ?=
# `make papers PAPERS=full` runs the largest sizes too.
PAPERS ?=

.DEFAULT_GOAL := help
.PHONY: help demo build test test-slow slow-tests test-heavy test-databases test-reach test-spark scale-out test-object-stores test-suites campaign test-portable test-aarch64 test-windows miri reliability papers peers plan format lint msrv bench bench-kernels docs fuzz fuzz-smoke fuzz-seeds compare-profiles lock audit semver minimal-versions release python test-python wheels

help:
	@echo 'make demo        two parties on this machine find the rows that they share'
	@echo 'make build       the command, optimised: target/release/vesica'
	@echo 'make test        tests that are quick; make test-slow the others'
	@echo 'make lint        formatting, clippy, rustdoc, layers, links, minimum Rust version, Python'
	@echo 'make format      rustfmt, in both workspaces'
	@echo 'make python      the Python package, in the virtual environment target/python/venv'
	@echo 'make docs        the API documentation, in target/doc'
	@echo 'make bench       whole runs of every protocol; make bench-kernels for the arithmetic'
	@echo
	@echo 'For maintainers:'
	@echo 'make fuzz-smoke  a few seconds of every fuzz target'
	@echo 'make test-heavy  the tests that need more than this repository, optimised'
	@echo 'make test-databases  queries of PostgreSQL and SQLite, a part of test-heavy'
	@echo 'make test-reach  runs through proxies that others wrote, a part of test-heavy'
	@echo 'make test-spark  jobs on two clusters of Spark, a part of test-heavy'
	@echo 'make scale-out ROWS=N  times of jobs on Spark against a plain join, in evaluation/scale-out.md'
	@echo 'make test-object-stores  tables and results in stores that others wrote, a part of test-heavy'
	@echo 'make test-suites SUITES=DIR  tables of four suites that others wrote, read as pyarrow does'
	@echo 'make campaign    random pairs of tables against an oracle in Python; SEED and PAIRS say which and how many'
	@echo 'make test-portable  protocols and what they stand on without any kernel for a processor'
	@echo 'make test-aarch64  what has kernels for processors, emulated, on Debian on x86-64'
	@echo 'make test-windows  the command for Windows, built here and run under wine, on Debian on x86-64'
	@echo 'make miri        the same kernels under Miri, with a nightly toolchain'
	@echo 'make test-python its tests, on a wheel in an environment of its own; make wheels to give away'
	@echo 'make reliability random runs and the fault matrix, with the tables of docs/reliability.md'
	@echo 'make papers      every table of the papers beside ours, in evaluation/papers; PAPERS=full for the largest sizes'
	@echo 'make peers       what PyPI offers for private set intersection beside ours, in evaluation/peers.md'
	@echo 'make plan        what vesica plan goes by, and what it says beside what was measured, in evaluation/planner.md'
	@echo 'make fuzz        every fuzz target for FUZZ_SECONDS (now $(FUZZ_SECONDS)) seconds each'
	@echo 'make compare-profiles  normalisation against implementations in Python, from PyPI'
	@echo 'make msrv        the declared minimum Rust version, with that toolchain if it is installed'
	@echo 'make audit       licences, versions and known vulnerabilities of what we depend on'
	@echo 'make semver      the public API against the last tag, by cargo-semver-checks'
	@echo 'make minimal-versions  the oldest versions that Cargo.toml allows of what we name'
	@echo 'make release     what a release gives away for Linux, in target/dist, and a trial of it'
	@echo 'make lock        both lock files, after a change of dependencies'

demo:
	@$(PYTHON) scripts/demo.py

build:
	$(CARGO) build --release --locked --package vesica-cli

test:
	@$(PYTHON) scripts/run_tests.py

test-slow:
	@$(PYTHON) scripts/run_tests.py slow

# Which tests are slow: on a machine that does nothing else.
slow-tests:
	@$(PYTHON) scripts/run_tests.py measure

test-heavy:
	$(CARGO) test --release --locked --package vesica-cli --package vesica-encodings --package vesica-lookup --package vesica-research -- --ignored --skip databases:: --skip objects::
	@$(PYTHON) scripts/databases.py
	@$(PYTHON) scripts/reach.py --build
	@$(PYTHON) scripts/spark.py
	@$(EVALUATE)/scale_out.py --rows 1048576 --no-page
	@$(PYTHON) scripts/object_stores.py
	$(if $(SUITES),@$(PYTHON) scripts/suites.py $(SUITES))

# A part of test-heavy. Fetches PostgreSQL from Debian unless this machine has it, and drivers from PyPI.
test-databases:
	@$(PYTHON) scripts/databases.py

# A part of test-heavy. Fetches proxies from Debian, on Debian on x86-64; needs root or user namespaces.
test-reach:
	@$(PYTHON) scripts/reach.py --build

# A part of test-heavy. Fetches Java from Debian unless this machine has it, and pyspark from PyPI.
test-spark:
	@$(PYTHON) scripts/spark.py

# Jobs of ROWS rows per side, release builds; writes into evaluation/scale-out.md. A part of test-heavy with the smallest, and no page.
scale-out:
	@$(EVALUATE)/scale_out.py $(if $(ROWS),--rows $(ROWS))

# A part of test-heavy. Fetches moto from PyPI and Azurite from npm.
test-object-stores:
	@$(PYTHON) scripts/object_stores.py

# A part of test-heavy where SUITES is given. Fetches pyarrow from PyPI.
test-suites: build
	@$(PYTHON) scripts/suites.py $(SUITES)

# Fetches pyarrow and SQLite's ADBC driver from PyPI.
campaign: build
	@$(PYTHON) scripts/campaign.py --seed $(SEED) --pairs $(PAIRS)
	@$(PYTHON) scripts/campaign_identifiers.py --seed $(SEED) --pairs $(PAIRS)

# A directory of its own, so that other builds need not start again.
test-portable:
	RUSTFLAGS='--cfg vesica_portable' $(CARGO) test --locked --target-dir target/portable \
		--package vesica-kernels --package vesica-primitives --package vesica-encodings \
		--package vesica-correlations --package vesica-oprf --package vesica-psi --package vesica-circuit \
		--package vesica-plan

# Fetches a cross compiler and an emulator from Debian: 300 MB, and 1.2 GB below target/.
test-aarch64:
	@$(PYTHON) scripts/aarch64.py

# Fetches compilers and wine from Debian: 500 MB, and 5 GB below target/.
test-windows:
	@$(PYTHON) scripts/windows.py

# These three fetch their tools and the libraries that tests use from PyPI.
python:
	@$(PYTHON) scripts/python_package.py install

test-python:
	@$(PYTHON) scripts/python_package.py test

wheels:
	@$(PYTHON) scripts/python_package.py wheels

miri:
	RUSTFLAGS='--cfg vesica_portable' $(CARGO) +nightly miri test --locked --target-dir target/miri \
		--package vesica-kernels --lib -- band:: blake3:: code:: transpose::

# A part of test-heavy; writes what it counts into docs/reliability.md.
reliability:
	@$(PYTHON) scripts/reliability.py

format:
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml

lint:
	@$(PYTHON) scripts/lint.py

msrv:
	@$(PYTHON) scripts/check_msrv.py --build

# Sizes and networks for which docs/ and the change log quote figures.
bench: build
	@$(PYTHON) scripts/bench.py

# Both go on where they were stopped. Plots are drawn by matplotlib, which comes from PyPI, as do the peers.
papers:
	@$(EVALUATE)/papers.py $(if $(filter full,$(PAPERS)),--full)

peers:
	@$(EVALUATE)/peers.py

# Goes on where it was stopped.
plan:
	@$(EVALUATE)/plan.py

bench-kernels:
	$(CARGO) bench --workspace --locked

docs:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --lib --no-deps --locked

fuzz:
	@$(PYTHON) scripts/fuzz.py run --seconds $(FUZZ_SECONDS)

fuzz-smoke:
	@$(PYTHON) scripts/fuzz.py run --seconds $(FUZZ_SMOKE_SECONDS) --fresh --driver any

fuzz-seeds:
	@$(PYTHON) scripts/fuzz.py seeds

compare-profiles:
	@$(PYTHON) scripts/compare_profiles.py

audit:
	@$(PYTHON) scripts/audit.py

# Nothing to compare with before the first release.
semver:
	@tag=$$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null) || { echo 'no release yet'; exit 0; }; \
		$(CARGO) semver-checks --workspace --exclude vesica-python --exclude vesica-research --exclude vesica-testing \
			--exclude vesica-reference --baseline-rev "$$tag"

# In a clone, whose lock file is made anew. The flag is Cargo's own and unstable.
minimal-versions:
	rm -rf target/minimal/source
	git clone --quiet . target/minimal/source
	cd target/minimal/source && RUSTC_BOOTSTRAP=1 $(CARGO) update -Z direct-minimal-versions
	cd target/minimal/source && $(CARGO) check --workspace --target-dir ../build

# Fetches compilers and an emulator from Debian and PyPI: meant for 40 minutes on two cores, and 8 GB below target/.
release:
	@$(PYTHON) scripts/release.py

# The fuzz workspace takes its versions from the root's lock file.
lock:
	$(CARGO) metadata --format-version 1 >/dev/null
	cp Cargo.lock fuzz/Cargo.lock
	$(CARGO) metadata --manifest-path fuzz/Cargo.toml --format-version 1 >/dev/null
