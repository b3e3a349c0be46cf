#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the locks with bare redigo and other libraries, in rounds. Client and
# server run on one CPU, which measures the sum of their work. That is
# repeatable within a few per cent if nothing else runs.
#
#   scripts/bench.sh [-short] [-doc FILE]
#
# BENCH_SCENARIO and BENCH_ADAPTER are patterns, as those of go test -bench, for
# the names of benchmarks and of locks. BENCH_ROUNDS is how often each is
# measured (3), BENCH_CPU the CPU (0), BENCH_SERVER the server program
# (redis-server). The figures of all rounds are in bin/bench.txt, in Go's
# format. -short checks that everything works; the figures then mean nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ -n "$(command -v "${BENCH_SERVER:-redis-server}")" ] && [ -f "$java_jar" ] || scripts/prepare.sh

rounds=${BENCH_ROUNDS:-3}
short=()
doc=()
while [ $# -gt 0 ]; do
  case $1 in
    -short) short=(-test.short) rounds=1 ;;
    -doc) doc=(-doc "$(realpath -m "$2")") && shift ;;
    *) die 2 "usage: scripts/bench.sh [-short] [-doc FILE]" ;;
  esac
  shift
done
pin=()
if quietly command -v taskset; then
  pin=(taskset -c "${BENCH_CPU:-0}")
else
  say "bench: taskset is missing, so nothing is pinned to a CPU and the figures will vary"
fi

mkdir -p bin
go -C bench test -c -o ../bin/bench.test .
go -C bench build -o ../bin/table ./table
cd bench
# bare always runs, for the ratios.
locks="^lock=bare\$|${BENCH_ADAPTER:-.}"
# measure prints the figures of every round. It returns 1 if something failed.
measure() {
  local round failed=0
  for ((round = 0; round < rounds; round++)); do
    say "round: $round"
    BENCH_ROUND=$round "${pin[@]}" ../bin/bench.test -test.run '^$' -test.bench "(${BENCH_SCENARIO:-.})/($locks)" \
      -test.benchtime 1x -test.timeout 1h "${short[@]}" || failed=1
  done
  return "$failed"
}

failed=0
measure | tee ../bin/bench.txt || failed=1
say ''
../bin/table "${doc[@]}" <../bin/bench.txt
exit "$failed"
