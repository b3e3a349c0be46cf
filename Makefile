# Everything is done by the scripts; `make help` says what there is.
.PHONY: test check lint fuzz spec mutants bench bench-doc microbench prepare build clean help

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## /\1\t/p' Makefile | expand -t 12

test: ## every test, on a machine that it prepares by itself (Debian 12 or newer)
	@scripts/test.sh

check: ## that and the rest, which a merge needs: linters, race detector, other systems, TLC, README, fuzzing, mutants, benchmarks
	@scripts/test.sh check

lint: ## formatting, vet, staticcheck, the rules of the house
	@scripts/lint.sh

fuzz: ## every fuzz target for FUZZTIME, a minute by default
	@FUZZTIME=$${FUZZTIME:-60s} scripts/test.sh fuzz

mutants: ## every mutant: small changes of the source, each of which one named test must notice
	@MUTANTS=$${MUTANTS:-all} scripts/test.sh mutants

bench: prepare ## ours beside bare redigo and other libraries; BENCH_SCENARIO, BENCH_ADAPTER, BENCH_ROUNDS narrow it
	@scripts/bench.sh

bench-doc: prepare ## the same, into the tables and pictures of docs/performance.md
	@scripts/bench.sh -doc docs/performance.md

microbench: ## every Go benchmark for BENCHTIME, a second by default
	@BENCHTIME=$${BENCHTIME:-1s} scripts/test.sh prepare bench

spec: ## the specification in TLA+, checked by TLC; prints the trace that each rule prevents
	@scripts/test.sh prepare
	@go test -tags real -count=1 -v ./proof/spec

prepare: ## install and fetch what the tests need
	@scripts/prepare.sh

build: ## the command, as bin/getsetlock
	@go build -o bin/ ./cmd/getsetlock

clean: ## what was built here; fetched things stay in the cache folder
	@rm -rf bin java/dual/target java/interop/target
	@go clean -testcache
