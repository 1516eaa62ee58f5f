# Builds, runs and tests Forebay. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help deps build release install deb run test swift-test test-tsan test-asan wire-test soak crashes cluster faults budget bench
.PHONY: docs lint format clean fuzz simulate coverage

# In every build, importing a module that Package.swift does not declare is an error.
SWIFT_FLAGS := --explicit-target-dependency-import-check error

# A crash must end a test; it must not wait for the backtracer.
export SWIFT_BACKTRACE := enable=no

# Arguments for the broker: make run ARGS="--listen 127.0.0.1:7000 --http off"
ARGS ?=
# Arguments for the benchmark: make bench BENCH="--quick --case fanout-10,acked-64"
BENCH ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\n  make run ARGS="--listen 127.0.0.1:7000 --http off" passes arguments to the broker.\n'

deps: ## install any missing Debian packages, and check for Swift
	@.ci/deps

build: deps release ## build .build/release/forebayd (the broker) and .build/release/forebay (the client)

# Builds are reproducible in any folder, except for debug information, which the package does not include.
RELEASE_FLAGS := --static-swift-stdlib -Xlinker -z -Xlinker now -Xlinker --build-id=none \
	-Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=/forebay \
	-Xcc -ffile-prefix-map=$(CURDIR)=/forebay -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen

# Like build, but without checking dependencies.
release:
	@sources=$$(Packaging/sources) && \
		swift build -c release $(RELEASE_FLAGS) $(SWIFT_FLAGS) && \
		echo "$$sources" >.build/release/sources

# The folders for make install; DESTDIR is prepended to every path.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
export PREFIX SYSCONFDIR DESTDIR

install: ## install the build under PREFIX (/usr/local): programs, units, manual pages, completions
	@Packaging/install

deb: build ## make a Debian package in .build
	@Packaging/deb

run: build ## start the broker in the foreground; Ctrl-C stops it
	@exec .build/release/forebayd $(ARGS)

test: deps ## run all tests and style checks, and print the totals
	@.ci/test

swift-test: deps ## run only the Swift tests: make swift-test FILTER=RSocketTests
	@swift build --build-tests $(SWIFT_FLAGS)
	@timeout $(or $(LIMIT),600) swift test --skip-build $(SWIFT_FLAGS) --disable-xctest \
		$(if $(FILTER),--filter $(FILTER),--skip '^ForebayTests\.')
	$(if $(FILTER),,@timeout $(or $(LIMIT),600) swift test --skip-build $(SWIFT_FLAGS) --disable-xctest \
		--filter '^ForebayTests\.')

# StoreDamageTests are skipped, because the sanitizer does not let a handler of SIGBUS jump.
test-tsan: deps ## run the Swift tests that involve threads or shards under the thread sanitizer
	@swift build --build-tests --sanitize thread --scratch-path .build/tsan $(SWIFT_FLAGS)
	@for tests in $(or $(FILTER),StreamsTests ForebayTests EventLoopTests ServerTests CoreTests HTTP2Tests StoreTests); do \
		TSAN_OPTIONS="$$TSAN_OPTIONS exitcode=66 suppressions=$(CURDIR)/.ci/tsan.supp" timeout 900 \
			swift test --skip-build --sanitize thread $(SWIFT_FLAGS) --scratch-path .build/tsan --disable-xctest \
			--skip 'Allocation|StoreDamage' --filter $$tests || exit; \
	done

# Tests that count allocations are skipped, because they would count the sanitizer's own. In the wire tests, the broker
# runs under the sanitizer, and checks for leaks when it exits.
test-asan: deps .venv/ready ## run the Swift tests, and some of the wire tests, under the address sanitizer
	@swift build --build-tests --sanitize address --scratch-path .build/asan $(SWIFT_FLAGS)
	@ASAN_OPTIONS="detect_leaks=0 exitcode=66 $$ASAN_OPTIONS" timeout 2400 swift test --skip-build --sanitize address \
		$(SWIFT_FLAGS) --scratch-path .build/asan --disable-xctest \
		$(if $(FILTER),--skip "Allocation|PacingTests" --filter $(FILTER),--skip "Allocation|^ForebayTests\.")
	$(if $(FILTER),,@ASAN_OPTIONS="detect_leaks=0 exitcode=66 $$ASAN_OPTIONS" timeout 1200 swift test --skip-build \
		--sanitize address $(SWIFT_FLAGS) --scratch-path .build/asan --disable-xctest --skip PacingTests \
		--filter '^ForebayTests\.')
	@ASAN_OPTIONS="exitcode=66 $$ASAN_OPTIONS" FOREBAYD=$(CURDIR)/.build/asan/debug/forebayd timeout 1200 \
		.venv/bin/python -m pytest $(foreach tests,$(ASAN_WIRE),Tests/EndToEnd/test_$(tests).py)

ASAN_WIRE := streams publish overflow block end drain fragments invalid connection http http1 http2_attacks grpc_wire \
	tls access limits admin faults_process faults_network faults_floods

soak: build .venv/ready ## use all features of the broker together, and check that nothing grows: make soak SECONDS=1200
	@FOREBAY_SOAK=$(or $(SECONDS),1200) .venv/bin/python -m pytest -n 0 -s Tests/EndToEnd/heavy/test_soak.py

crashes: build .venv/ready ## kill a broker with stored topics N times under load, and check its topics: make crashes N=1000 SEED=1
	@FOREBAY_KILLS=$(or $(N),1000) FOREBAY_SEED=$(SEED) .venv/bin/python -m pytest -n 0 -s \
		Tests/EndToEnd/heavy/test_heavy_crashes.py

cluster: build .venv/ready ## let servers and nodes of a cluster fail one after the other, for SECONDS: make cluster SECONDS=600 SEED=1
	@FOREBAY_CLUSTER=$(or $(SECONDS),600) FOREBAY_SEED=$(SEED) .venv/bin/python -m pytest -n 0 -s \
		Tests/EndToEnd/heavy/test_heavy_cluster.py

wire-test: build .venv/ready ## run the tests that talk to a running broker: make wire-test FILTER=overflow
	@timeout 900 .venv/bin/python -m pytest Tests/EndToEnd $(if $(FILTER),-k '$(FILTER)')

faults: deps .venv/ready ## plant each fault of Tests/Faults in a copy, report what catches it: make faults ONLY=credit
	@python3 .ci/faults.py $(if $(ONLY),--only '$(ONLY)') $(if $(NEW),--new) $(if $(SIM),--simulator)

simulate: deps ## run the simulator with new seeds, one process for each core: make simulate SECONDS=600
	@swift build -c release $(RELEASE_FLAGS) --product forebay-sim $(SWIFT_FLAGS)
	@.ci/simulate $(or $(SECONDS),60)

coverage: deps ## run the Swift tests and print their line coverage; MISSING=Core lists the uncovered lines of Core
	@python3 .ci/coverage.py $(if $(FILTER),--filter $(FILTER)) $(if $(MISSING),--missing $(MISSING))

budget: build ## count the engine's instructions and allocations, compare with the record; RECORD=1 records them
	@python3 .ci/budget.py $(if $(RECORD),--record)

fuzz: deps ## run the fuzzers for SECONDS each, or only TARGET; STILL=600 ends without progress; SCOUT=1 is fast; KEEP=1 saves inputs
	@python3 .ci/fuzz.py --seconds $(or $(SECONDS),60) $(if $(STILL),--still $(STILL)) $(if $(TARGET),--target $(TARGET)) $(if $(SCOUT),--scout) $(if $(KEEP),--keep)

bench: build .venv-bench/ready ## compare with NATS, Redis, grpcio and others: make bench BENCH="--quick --case fanout-10"
	@.ci/bench-peers
	@.build/release/bench --json .build/bench.json $(BENCH)

docs: deps ## build the libraries' documentation, and compile and run the code in it
	@swift build $(SWIFT_FLAGS)
	@python3 .ci/docs.py
	@printf '%s\n' 'To view it:' '  python3 -m http.server --bind 127.0.0.1 --directory .build/docs 8000' \
		'and open http://127.0.0.1:8000/documentation/ in a browser.'

lint: deps ## check formatting and style
	@swift format lint --strict --recursive --parallel Sources Tests Examples Package.swift
	@python3 .ci/style.py
	@python3 .ci/prose.py
	@python3 .ci/faults.py --check

format: deps ## format the Swift sources in place
	@swift format --in-place --recursive --parallel Sources Tests Examples Package.swift

# The Python packages for the wire tests, in a separate virtual environment, recreated when the list changes.
.venv/ready: Tests/EndToEnd/requirements.txt
	@rm -rf .venv
	@python3 -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check -r Tests/EndToEnd/requirements.txt
	@touch $@

# nats-server, which this version of Debian does not provide.
.venv-bench/ready: Bench/requirements.txt
	@rm -rf .venv-bench
	@python3 -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r Bench/requirements.txt
	@touch $@

clean: ## remove everything that was built
	rm -rf .build .venv .venv-bench .pytest_cache
