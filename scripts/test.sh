#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs stages of the tests one after the other, each in its own shell. It prints
# how many seconds each took, and ends with status 1 if one failed. Each stage
# has a time budget on two cores, and so do all of `make test` and all of `make
# check`. Exceeding a budget only prints a warning, since a machine may be slow
# or busy. go test itself ends tests that hang.
#
#   scripts/test.sh what a newcomer runs: everything that a change can break
#   here
#   scripts/test.sh check that, and everything else that a merge needs
#   scripts/test.sh STAGE… only these stages
#
# GETSETLOCK_SEED (default: from the last commit's hash) is a second seed for
# the random tests; see CONTRIBUTING.md.
#
# FUZZTIME (default 10000x) applies to each fuzz target, BENCHTIME (default 1x)
# to each Go benchmark. FUZZTIME is a number of inputs, because at the end of a
# time span Go's fuzzer sometimes reports its own deadline as a failure of the
# target.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# Each line: name, set, budget in seconds, description. Preparing is mostly
# downloads, so it counts in no total.
stages() {
  cat <<'END'
prepare test  300 install and download what is missing
vet     test   60 go vet for this system, including the tests with real servers
test    test  400 every test once: embedded and real servers, the original Java lock
lint    check 300 formatting, golangci-lint, actionlint, goreleaser check, tools/rules
other   check 120 library, command and tests compile for macOS and Windows
paired  check  60 the last tagged etcd, zookeeper and full command with the root of today
package check 300 archives, deb, rpm, checksums and lists of contents, as a release has them
race    check 420 the tests on the embedded server under the race detector
seeds   check 420 5,400 more seeds of the simulation
spec    check 120 the TLA+ specification, checked by TLC and against the model
readme  check  60 the commands of the README
fuzz    check  90 every fuzz target for a moment
mutants check 180 small changes that a named test must notice: those of the last commit's files, and a twelfth of the rest
bench   check 180 every benchmark once
targets check 300 locks in other stores: faults in rounds, full counts beside foreign clients
END
}

# Totals in seconds, without prepare.
budget_test=480
budget_check=1800

export CGO_ENABLED=1
# Tests and checks do not need the commit they are built from, and asking for it
# fails in folders of other users. No debugger is used, and without its data the
# programs are linked in two thirds of the time.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false -ldflags=-w"

stage_prepare() { scripts/prepare.sh; }

stage_vet() { in_modules go vet -tags real ./...; }

stage_lint() { scripts/lint.sh; }

# Tests, too, must compile for systems on which they are not run here. The root
# is compiled without the workspace, with the versions that its importers get.
stage_other() {
  local system
  for system in darwin windows; do
    say "  $system"
    CGO_ENABLED=0 GOOS=$system GOWORK=off go vet ./...
  done
}

stage_paired() { scripts/pair.sh; }

stage_package() { scripts/package.sh; }

# The embedded servers make much garbage and keep little, so the collector runs
# less often: the tests take a quarter less time. -vet=off, because the stage
# vet has already vetted them.
patient() { GOGC=400 "$@"; }

# The specification and the README have their own stages.
elsewhere='proof/spec|tools/readme'

# Each package is built once, including the tests with real servers. Those
# mostly wait for leases and windows in real time, so more of them run in
# parallel than there are cores, and the packages that take longest start first.
# Every test with real servers must appear by name among the passed ones. The
# other modules' tests run at the same time and are printed at the end.
stage_test() {
  local longest wanted passed left others their_job failed=0
  others=$(mktemp)
  other_modules >"$others" 2>&1 &
  their_job=$!
  wanted=$(tests_with_tag real | grep -vE "^\\./($elsewhere) ")
  longest=(./tools/release ./migrate ./cmd/getsetlock/internal/rehearse ./modern ./internal/testing/interop ./internal/operator/fleet ./internal/operator/audit ./cmd/getsetlock/internal/{cli,verbs/skewverb,verbs/migrateverb,verbs/auditverb,verbs/runverb} ./proof/internal/model ./skew)
  passed=$(mktemp)
  # shellcheck disable=SC2046 # one word per package
  patient go test -tags real -vet=off -v -count=1 -timeout 30m -p 6 -parallel 8 "${longest[@]}" \
    $(go list ./... | sed "s|^$(module)|.|" | grep -vE "^\\./($elsewhere)\$" | grep -vxF "${longest[@]/#/-e}") | outlined "$passed" || failed=1
  left=$(comm -23 <(sort <<<"$wanted") <(sort -u "$passed"))
  wait "$their_job" || failed=1
  cat "$others"
  rm -f "$passed" "$others"
  [ -z "$left" ] || die 1 "these tests with real servers failed or did not run: ${left//$'\n'/, }"
  return "$failed"
}

# other_modules runs the tests of every module but the first, and returns 1 if
# some failed.
other_modules() {
  local module failed=0
  for module in $(modules | tail -n +2); do
    (cd "$module" && patient go test -tags real -vet=off -count=1 -timeout 30m -parallel 8 ./...) || failed=1
  done
  return "$failed"
}

# Under the race detector some tests use only the first entry of each of their
# lists, see skew/race_test.go; the stage test uses all. The searches and
# simulations of package skew, of its subpackages and of the model, and
# tools/rules, share nothing that could race.
stage_race() {
  local module longest=(./cmd/getsetlock/internal/{verbs/skewverb,verbs/runverb} ./internal/operator/fleet ./migrate ./cmd/getsetlock/internal/rehearse ./proof)
  # shellcheck disable=SC2046 # one word per package
  patient go test -race -vet=off -timeout 30m -p 3 "${longest[@]}" $(go list ./... | grep -vE '/(skew|internal/operator/simulate|internal/operator/offset|proof/internal/model|tools/rules)$')
  patient go test -race -vet=off -run 'Concurrent' ./skew ./internal/operator/simulate ./proof/internal/model
  for module in $(modules | tail -n +2); do
    (cd "$module" && patient go test -race -vet=off -timeout 30m ./...)
  done
}

# The stage test plays the 600 seeds before these. A run uses one processor, so
# there are two. Fresh seeds are played by hand: a few in a thousand complain.
stage_seeds() {
  local job failed=0
  played 601 &
  job=$!
  played 3301 || failed=1
  wait "$job" || failed=1
  return "$failed"
}

played() { GETSETLOCK_SEED='' go test -vet=off -count=1 -timeout 30m -run '^TestNoSeedBreaksAPromise$' ./internal/sim -first "$1" -seeds 2700; }

stage_spec() { go test -tags real -count=1 -timeout 20m ./proof/spec; }

stage_readme() { go test -tags real -count=1 -timeout 20m ./tools/readme; }

# fuzz FOLDER NAME…: runs a package's targets one after the other, each with one
# worker. It prints all output at the end, since another package is fuzzed at
# the same time.
fuzz() {
  local folder=$1 name status=0 output=
  shift
  for name; do
    output+=$(go test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10000x}" -fuzzminimizetime 100x -parallel 1 "$folder" 2>&1) || status=1
    output+=$'\n'
  done
  printf '%s' "$output"
  return "$status"
}

# Two packages run at a time, since building a target and starting its worker
# use one core. Packages with the most targets start first.
stage_fuzz() {
  export -f fuzz
  each Fuzz | awk '{ names[$1] = names[$1] " " $2 } END { for (f in names) print gsub(/ /, " ", names[f]), f names[f] }' |
    sort -rn | cut -d' ' -f2- | xargs -P 2 -L 1 bash -c 'fuzz "$@"' fuzz
}

# The last commit's changes are those against its first parent. In a clone
# without that parent, only the twelfth is run.
stage_mutants() { go test -v -vet=off -count=1 -timeout 30m -run '^TestMutants$' ./proof/mutants -mutants "${MUTANTS:-changed}"; }

# Runs Go's own benchmarks once, briefly unless BENCHTIME asks for figures, and
# then those of `make bench`. No figure is checked here. The stage test contains
# the proof that getsetlock and other libraries exclude each other.
stage_bench() {
  local folders brief=-short
  [ -z "${BENCHTIME:-}" ] || brief=-short=false
  folders=$(each Benchmark | cut -d' ' -f1 | sort -u)
  # shellcheck disable=SC2086 # one word per folder
  [ -z "$folders" ] || go test -tags real -run '^$' -bench . -benchmem -benchtime "${BENCHTIME:-1x}" -timeout 30m "$brief" $folders
  [ -n "${BENCHTIME:-}" ] || scripts/bench.sh -short
}

# The stage test runs these tests briefly. One line per package. etcd's take
# longest and mostly wait, so the others run at the same time.
stage_targets() {
  local etcd their_job failed=0
  etcd=$(mktemp)
  long etcd/internal/etcdtest 'HistoriesUnder|LoseNoUpdate' -fault-rounds 3 -jetcd 2000 -etcdctl 300 >"$etcd" 2>&1 &
  their_job=$!
  long zookeeper 'CutFollower|HistoriesUnder|LoseNoUpdate' -cuts 10 -each 2000 || failed=1
  wait "$their_job" || failed=1
  cat "$etcd"
  rm -f "$etcd"
  return "$failed"
}

# long FOLDER TESTS FLAG…: runs tests with real servers of the package in FOLDER,
# with the package's own flags.
long() {
  local folder=$1 tests=$2
  shift 2
  (cd "$folder" && patient go test -tags real -vet=off -count=1 -timeout 30m -parallel 8 -run "$tests" . -args "$@")
}

# run NAME BUDGET WHAT: runs one stage in its own shell, where a failing line
# ends it. It adds a line to $rows and returns the stage's status.
run() {
  local name=$1 budget=$2 began=$SECONDS status=0 word=ok
  say "== $name: $3"
  bash "$0" --alone "$name" 2>&1 | tee "$log/$name" || status=$?
  local took=$((SECONDS - began))
  if [ "$status" != 0 ]; then
    word=FAILED
  elif [ "$took" -gt "$budget" ]; then
    word="warning: over its budget of ${budget} s"
  fi
  say "== $name: ${took} s, $word"
  rows+=$(printf '%-8s %5d s  %s' "$name" "$took" "$word")$'\n'
  return "$status"
}

# If preparing fails, nothing else can be right.
must_not_fail() { [ "$1" = prepare ]; }

known() {
  local stage all
  all=$(stages | cut -d' ' -f1 | xargs)
  for stage in "$@"; do
    [[ " $all " == *" $stage "* ]] || die 2 "there is no stage $stage; the stages are: check $all"
  done
}

# wanted NAME SET: succeeds if the stage is to run. $asked contains the words of
# the command line.
wanted() {
  case $asked in
    "") [ "$2" = test ] ;;
    check) true ;;
    *) [[ " $asked " == *" $1 "* ]] ;;
  esac
}

# draw derives the random tests' second seed from the last commit, unless the
# caller set one. Outside a clone there are only the fixed seeds.
draw() {
  local hash
  if [ -z "${GETSETLOCK_SEED:-}" ] && hash=$(git rev-parse --verify --quiet HEAD); then
    GETSETLOCK_SEED=$((16#${hash:0:15}))
  fi
  export GETSETLOCK_SEED
  [ -z "${GETSETLOCK_SEED:-}" ] || say "== random tests use GETSETLOCK_SEED=$GETSETLOCK_SEED in addition to their fixed seeds"
}

main() {
  asked="$*"
  [ "$asked" = check ] || known "$@"
  draw
  local name set budget what failed=0 took=0
  log=$(mktemp -d)
  trap 'rm -rf "$log"' EXIT
  rows=
  while read -r name set budget what <&3; do
    wanted "$name" "$set" || continue
    local status=0 began=$SECONDS
    run "$name" "$budget" "$what" || status=$?
    [ "$name" = prepare ] || took=$((took + SECONDS - began))
    [ "$status" = 0 ] && continue
    failed=1
    if must_not_fail "$name"; then
      printf '\n%s' "$rows"
      exit "$status"
    fi
  done 3< <(stages)
  total "$took"
  closing
  exit "$failed"
}

# total SECONDS: adds a line with the total time if all stages of a set ran.
total() {
  local budget
  case $asked in
    "") budget=$budget_test ;;
    check) budget=$budget_check ;;
    *) return 0 ;;
  esac
  local word=ok
  [ "$1" -le "$budget" ] || word="warning: over the budget of ${budget} s"
  rows+=$(printf '%-8s %5d s  %s' together "$1" "$word")$'\n'
}

# closing ends the output with the table and with go test's own lines, from
# which a program can tell what ran.
closing() {
  printf '\n%s\n' "$rows"
  cat "$log"/* | grep -hE '^(ok|FAIL|---|panic:|\?) ?' || true
}

if [ "${1:-}" = --alone ]; then
  "stage_$2"
else
  main "$@"
fi
