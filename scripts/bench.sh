#!/usr/bin/env bash
# Compares the locks with bare redigo and other libraries. Client and server run
# on one CPU, which measures the sum of their work. That is repeatable within a
# few per cent if nothing else runs.
#
#   scripts/bench.sh [-doc FILE] [-quick] [-list]
#
# BENCH_SCENARIO (names separated by commas), BENCH_ADAPTER (separated by
# semicolons) and BENCH_ROUNDS narrow it. BENCH_CPU is the CPU (0), BENCH_SERVER
# the server program (redis-server).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ -n "$(command -v "${BENCH_SERVER:-redis-server}")" ] && [ -f "$java_jar" ] || scripts/prepare.sh

arguments=()
for word in "$@"; do
  case $word in
    -*) arguments+=("$word") ;;
    *) arguments+=("$(realpath -m "$word")") ;;
  esac
done

program=$(mktemp)
trap 'rm -f "$program"' EXIT
cd bench
go build -o "$program" .
pin=()
if quietly command -v taskset; then
  pin=(taskset -c "${BENCH_CPU:-0}")
else
  say "bench: taskset is missing, so nothing is pinned to a CPU and the figures will vary"
fi
"${pin[@]}" "$program" "${arguments[@]}"
