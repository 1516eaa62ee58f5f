# Builds, runs and tests Forebay. `make help` lists what there is.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help deps build release install deb run test swift-test test-tsan test-asan wire-test soak faults budget bench
.PHONY: docs lint format clean fuzz simulate coverage

# An import that Package.swift does not declare is an error in every build.
SWIFT_FLAGS := --explicit-target-dependency-import-check error

# A crash in a test must end the test, not wait in the backtracer.
export SWIFT_BACKTRACE := enable=no

# Arguments for the broker: make run ARGS="--listen 127.0.0.1:7000 --http off"
ARGS ?=
# Arguments for the measurements: make bench BENCH="--quick --case fanout-10,acked-64"
BENCH ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\n  make run ARGS="--listen 127.0.0.1:7000 --http off" hands arguments to the broker.\n'

deps: ## install the Debian packages that are missing, and check for Swift
	@.ci/deps

build: deps release ## build .build/release/forebayd (the broker) and .build/release/forebay (the client)

# What ships is the same bytes whatever folder it was built in. (Debug information, which the package leaves out, is not.)
RELEASE_FLAGS := --static-swift-stdlib -Xlinker -z -Xlinker now -Xlinker --build-id=none \
	-Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=/forebay \
	-Xcc -ffile-prefix-map=$(CURDIR)=/forebay -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen

# As build, where it is known what is there.
release:
	@sources=$$(Packaging/sources) && \
		swift build -c release $(RELEASE_FLAGS) $(SWIFT_FLAGS) && \
		echo "$$sources" >.build/release/sources

# Where make install puts things; DESTDIR is put before every path.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
export PREFIX SYSCONFDIR DESTDIR

install: ## put what make build built under PREFIX (/usr/local): programs, units, manual pages, completions
	@Packaging/install

deb: build ## make a Debian package of it in .build
	@Packaging/deb

run: build ## start the broker in the foreground; Ctrl-C ends it
	@exec .build/release/forebayd $(ARGS)

test: deps ## run every test and every check of style, and tell the totals
	@.ci/test

swift-test: deps ## run the Swift tests alone: make swift-test FILTER=RSocketTests
	@swift build --build-tests $(SWIFT_FLAGS)
	@timeout $(or $(LIMIT),600) swift test --skip-build $(SWIFT_FLAGS) --disable-xctest \
		$(if $(FILTER),--filter $(FILTER),--skip '^ForebayTests\.')
	$(if $(FILTER),,@timeout $(or $(LIMIT),600) swift test --skip-build $(SWIFT_FLAGS) --disable-xctest \
		--filter '^ForebayTests\.')

test-tsan: deps ## run the Swift tests of what has threads or shards under the thread sanitizer
	@swift build --build-tests --sanitize thread --scratch-path .build/tsan $(SWIFT_FLAGS)
	@for tests in $(or $(FILTER),StreamsTests ForebayTests EventLoopTests ServerTests CoreTests HTTP2Tests); do \
		TSAN_OPTIONS="$$TSAN_OPTIONS exitcode=66 suppressions=$(CURDIR)/.ci/tsan.supp" timeout 900 \
			swift test --skip-build --sanitize thread $(SWIFT_FLAGS) --scratch-path .build/tsan --disable-xctest \
			--skip Allocation --filter $$tests || exit; \
	done

# Tests that count allocations find the sanitizer's; in those of the wire the broker runs under it, and looks for leaks
# when it has ended.
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

soak: build .venv/ready ## use everything of the broker at once, and see that nothing grows: make soak SECONDS=1200
	@FOREBAY_SOAK=$(or $(SECONDS),1200) .venv/bin/python -m pytest -n 0 -s Tests/EndToEnd/heavy/test_soak.py

wire-test: build .venv/ready ## run the tests that talk to a running broker: make wire-test FILTER=overflow
	@timeout 900 .venv/bin/python -m pytest Tests/EndToEnd $(if $(FILTER),-k '$(FILTER)')

faults: deps .venv/ready ## plant each fault of Tests/Faults in a copy, tell what catches it: make faults ONLY=credit
	@python3 .ci/faults.py $(if $(ONLY),--only '$(ONLY)') $(if $(NEW),--new) $(if $(SIM),--simulator)

simulate: deps ## run the simulator with new seeds, a process for each core: make simulate SECONDS=600
	@swift build -c release $(RELEASE_FLAGS) --product forebay-sim $(SWIFT_FLAGS)
	@.ci/simulate $(or $(SECONDS),60)

coverage: deps ## run the Swift tests and tell which share of the lines they reach; MISSING=Core lists what Core's do not
	@python3 .ci/coverage.py $(if $(FILTER),--filter $(FILTER)) $(if $(MISSING),--missing $(MISSING))

budget: build ## count the engine's instructions and allocations, compare with the figures kept; RECORD=1 keeps these
	@python3 .ci/budget.py $(if $(RECORD),--record)

fuzz: deps ## let the fuzzers look for SECONDS each, or one TARGET alone; STILL=600 ends when nothing is new; SCOUT=1 is fast; KEEP=1 keeps it
	@python3 .ci/fuzz.py --seconds $(or $(SECONDS),60) $(if $(STILL),--still $(STILL)) $(if $(TARGET),--target $(TARGET)) $(if $(SCOUT),--scout) $(if $(KEEP),--keep)

bench: build .venv-bench/ready ## measure beside NATS, Redis, grpcio and others: make bench BENCH="--quick --case fanout-10"
	@.ci/bench-peers
	@.build/release/bench --json .build/bench.json $(BENCH)

docs: deps ## build the libraries' documentation, and compile and run the code in it
	@swift build $(SWIFT_FLAGS)
	@python3 .ci/docs.py
	@printf '%s\n' 'To look at it:' '  python3 -m http.server --bind 127.0.0.1 --directory .build/docs 8000' \
		'and open http://127.0.0.1:8000/documentation/ in a browser.'

lint: deps ## check format and style
	@swift format lint --strict --recursive --parallel Sources Tests Examples Package.swift
	@python3 .ci/style.py
	@python3 .ci/faults.py --check

format: deps ## format the Swift sources in place
	@swift format --in-place --recursive --parallel Sources Tests Examples Package.swift

# The Python packages that the wire tests use, in a virtual environment of their own; made anew when the list changes.
.venv/ready: Tests/EndToEnd/requirements.txt
	@rm -rf .venv
	@python3 -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check -r Tests/EndToEnd/requirements.txt
	@touch $@

# nats-server, which Debian does not have in this version.
.venv-bench/ready: Bench/requirements.txt
	@rm -rf .venv-bench
	@python3 -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r Bench/requirements.txt
	@touch $@

clean: ## remove everything that was built
	rm -rf .build .venv .venv-bench .pytest_cache
