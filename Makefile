# SPDX-License-Identifier: Apache-2.0
# The scripts do the work; `make help` lists the targets.
.PHONY: test check lint fuzz spec mutants bench bench-doc microbench prepare build full image man clean help

help: ## print this list
	@sed -nE 's/^([a-z-]+):.*## /\1\t/p' Makefile | expand -t 12

test: ## run every test; prepares the machine first (Debian 12 or newer)
	@scripts/test.sh

check: ## run test and all else that a merge needs: linters, race detector, other systems, packages, TLC, README, fuzzing, mutants, benchmarks
	@scripts/test.sh check

lint: ## check formatting, golangci-lint, actionlint, goreleaser check and tools/rules
	@scripts/lint.sh

fuzz: ## run every fuzz target for FUZZTIME (default: a minute)
	@FUZZTIME=$${FUZZTIME:-60s} scripts/test.sh fuzz

mutants: ## run every mutant: a small change of the source that a named test must notice
	@MUTANTS=$${MUTANTS:-all} scripts/test.sh mutants

bench: prepare ## compare the locks with bare redigo and other libraries; BENCH_SCENARIO, BENCH_ADAPTER and BENCH_ROUNDS narrow it
	@scripts/bench.sh

bench-doc: prepare ## run bench and write its tables into docs/internals/performance.md
	@scripts/bench.sh -doc docs/internals/performance.md

microbench: ## run every Go benchmark for BENCHTIME (default: a second)
	@BENCHTIME=$${BENCHTIME:-1s} scripts/test.sh prepare bench

spec: ## check the TLA+ specification by TLC; prints the trace that each rule prevents
	@scripts/test.sh prepare
	@go test -tags real -count=1 -v ./proof/spec

prepare: ## install and download what the tests need
	@scripts/prepare.sh

build: ## build the command as bin/getsetlock
	@go build -o bin/ ./cmd/getsetlock

full: ## build the command with etcd and ZooKeeper as bin/full/getsetlock
	@go build -o bin/full/ ./cmd/getsetlock/full/getsetlock

image: ## build the container image as getsetlock:latest; ENGINE=podman for another engine than docker
	@$${ENGINE:-docker} build --build-arg VERSION="$$(git describe --tags --match 'v*' --always --dirty)" -t getsetlock .

man: ## write manual pages and completion scripts below bin/pages, or below PAGES
	@rm -rf "$${PAGES:-bin/pages}"
	@go run ./cmd/getsetlock/internal/manual "$${PAGES:-bin/pages}"

clean: ## delete what was built here; downloads stay in the cache folder
	@rm -rf bin dist java/dual/target java/etcd/target java/interop/target java/zookeeper/target
	@go clean -testcache
