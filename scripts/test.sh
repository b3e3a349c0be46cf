#!/usr/bin/env bash
# Runs stages of the tests, one after the other, each in a shell of its own;
# prints the seconds that each took and ends with 1 if one failed. A stage has a
# budget on two cores, and so have all of `make test` and all of `make check`.
# Over it there is a warning and no more, since a machine may be slow or busy.
# What hangs is ended by go test.
#
#   scripts/test.sh           what a newcomer runs: all that a change can break here
#   scripts/test.sh check     that and the rest, which a merge needs
#   scripts/test.sh STAGE…    some of it
#
# GETSETLOCK_SEED (default: of the last commit's hash) is a second seed of the
# random tests, see CONTRIBUTING.md.
#
# FUZZTIME (default 10000x) is given to each fuzz target, BENCHTIME (default 1x)
# to each Go benchmark. So many inputs and not so long: at the end of a span of
# time Go's fuzzer now and then takes its own deadline for a failure of the
# target.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# name, who runs it, budget in seconds, what it does. Preparing is mostly
# downloads, which count in no total.
stages() {
  cat <<'END'
prepare test  300 install and fetch what is missing
vet     test   60 go vet for this system, with the tests of real servers
test    test  420 every test once: embedded and real servers, the original Java lock
lint    check  90 formatting, staticcheck, the rules of the house
other   check 120 library, command and tests compile for macOS and Windows
race    check 240 the tests on the embedded server under the race detector
spec    check 120 the specification in TLA+, by TLC, against package skew
readme  check  60 the commands of the README
fuzz    check  90 every fuzz target for a moment
mutants check 180 small changes that a named test must notice: of the last commit's files, and a twelfth
bench   check 180 every benchmark once; other libraries beside ours on one key
END
}

# totals in seconds, prepare apart
budget_test=480
budget_check=1200

export CGO_ENABLED=1
# Tests and checks don't ask what commit they are from, and asking fails in other people's folders.
# Nobody debugs these programs, and without what a debugger needs they are linked in two thirds of the time.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false -ldflags=-w"

stage_prepare() { scripts/prepare.sh; }

stage_vet() { in_modules go vet -tags real ./...; }

stage_lint() { scripts/lint.sh; }

# Tests too must compile where nobody here can run them.
stage_other() {
  local system
  for system in darwin windows; do
    say "  $system"
    CGO_ENABLED=0 GOOS=$system go vet ./...
  done
}

# The embedded servers make much garbage and keep little, so the collector is
# told to wait: the tests take a quarter less time. What they are vetted for, the
# stage before has seen.
patient() { GOGC=400 "$@"; }

# The specification and the README have stages of their own.
elsewhere='proof/spec|tools/readme'

# Each package is built once, with the tests of real servers. Much of what those
# do is to wait, for leases and windows of real time: so more of them run side by
# side than there are cores, and the packages that take longest are begun first.
# Of the tests with real servers each must have passed, by its name.
stage_test() {
  local longest wanted passed left module
  wanted=$(tests_with_tag real | grep -vE "^\\./($elsewhere) ")
  longest=(./cmd/getsetlock/internal/{cli,verbs/skewverb,verbs/migrateverb,verbs/auditverb,verbs/runverb,rehearse} ./audit ./internal/testing/interop ./migrate/fleet ./migrate ./skew)
  passed=$(mktemp)
  # shellcheck disable=SC2046 # one word a package
  patient go test -tags real -vet=off -v -count=1 -timeout 30m -p 3 -parallel 8 "${longest[@]}" \
    $(go list ./... | sed "s|^$(go list -m)|.|" | grep -vE "^\\./($elsewhere)\$" | grep -vxF "${longest[@]/#/-e}") | outlined "$passed"
  left=$(comm -23 <(sort <<<"$wanted") <(sort -u "$passed"))
  rm -f "$passed"
  [ -z "$left" ] || die 1 "of the tests with real servers these did not pass, or did not run: ${left//$'\n'/, }"
  for module in $(modules | tail -n +2); do
    (cd "$module" && patient go test -tags real -vet=off -count=1 -timeout 30m ./...)
  done
}

# Under the race detector some tests make do with the first of each list of
# theirs, see skew/race_test.go: the stage test has them whole. The searches and
# simulations of package skew and those below it and the reading of this repository's sources share nothing that
# could race.
stage_race() {
  local module longest=(./cmd/getsetlock/internal/{verbs/skewverb,verbs/runverb} ./migrate/fleet ./migrate ./cmd/getsetlock/internal/rehearse ./proof)
  # shellcheck disable=SC2046 # one word a package
  patient go test -race -vet=off -timeout 30m -p 3 "${longest[@]}" $(go list ./... | grep -vE '/(skew|skew/simulate|skew/offset|tools/rules)$')
  patient go test -race -vet=off -run 'BesideEachOther' ./skew ./skew/simulate
  for module in $(modules | tail -n +2); do
    (cd "$module" && patient go test -race -vet=off -timeout 30m ./...)
  done
}

stage_spec() { go test -tags real -count=1 -timeout 20m ./proof/spec; }

stage_readme() { go test -tags real -count=1 -timeout 20m ./tools/readme; }

# fuzz FOLDER NAME…: a package's targets, one after the other, each with one worker. Says what they said when
# all is done, since another package is fuzzed meanwhile.
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

# Two packages at a time: what a target spends on its build and on its worker's start uses one core. Those of
# most targets are begun first.
stage_fuzz() {
  export -f fuzz
  each Fuzz | awk '{ names[$1] = names[$1] " " $2 } END { for (f in names) print gsub(/ /, " ", names[f]), f names[f] }' |
    sort -rn | cut -d' ' -f2- | xargs -P 2 -L 1 bash -c 'fuzz "$@"' fuzz
}

# What the last commit changed is by its first parent; a clone without one has a
# twelfth and no more.
stage_mutants() { go test -v -vet=off -count=1 -timeout 30m -run '^TestMutants$' ./proof/mutants -mutants "${MUTANTS:-changed}"; }

# Go's own benchmarks once, briefly if no BENCHTIME asks for figures. The proof
# that other libraries and ours exclude each other is in the stage test. Nothing
# here looks at a figure.
stage_bench() {
  local folders brief=-short
  [ -z "${BENCHTIME:-}" ] || brief=-short=false
  folders=$(each Benchmark | cut -d' ' -f1 | sort -u)
  # shellcheck disable=SC2086 # one word a folder
  [ -z "$folders" ] || go test -tags real -run '^$' -bench . -benchmem -benchtime "${BENCHTIME:-1x}" -timeout 30m "$brief" $folders
}

# run NAME BUDGET WHAT: one stage in a shell of its own, where a failing line ends it. Adds a line to
# $rows; its status is the stage's.
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

# Without preparation nothing else can be right.
must_not_fail() { [ "$1" = prepare ]; }

known() {
  local stage all
  all=$(stages | cut -d' ' -f1 | xargs)
  for stage in "$@"; do
    [[ " $all " == *" $stage "* ]] || die 2 "no stage is called $stage; there are: check $all"
  done
}

# wanted NAME SET: whether a stage runs. $asked are the words of the command line.
wanted() {
  case $asked in
    "") [ "$2" = test ] ;;
    check) true ;;
    *) [[ " $asked " == *" $1 "* ]] ;;
  esac
}

# draw gives random tests a seed of the last commit beside their fixed ones,
# unless the caller named one. Outside a clone there are only the fixed ones.
draw() {
  local hash
  if [ -z "${GETSETLOCK_SEED:-}" ] && hash=$(git rev-parse --verify --quiet HEAD); then
    GETSETLOCK_SEED=$((16#${hash:0:15}))
  fi
  export GETSETLOCK_SEED
  [ -z "${GETSETLOCK_SEED:-}" ] || say "== random tests use GETSETLOCK_SEED=$GETSETLOCK_SEED beside their fixed seeds"
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

# total SECONDS: adds what all stages took together, where all of a set ran.
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

# closing ends the output with the table, and with go test's own lines, by which a program that reads
# them knows what ran.
closing() {
  printf '\n%s\n' "$rows"
  cat "$log"/* | grep -hE '^(ok|FAIL|---|panic:|\?) ?' || true
}

if [ "${1:-}" = --alone ]; then
  "stage_$2"
else
  main "$@"
fi
