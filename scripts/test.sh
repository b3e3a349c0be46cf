#!/usr/bin/env bash
# Runs the stages named, or all of them, one after the other, each in a shell of its own; prints the
# seconds each took and ends with 1 if one failed. A stage has a budget on two cores: over it there
# is a warning and no more, since a machine may be slow or busy. What hangs is ended by go test.
#
#   scripts/test.sh [STAGE…]
#
# FUZZTIME (default 10000x) is given to each fuzz target, BENCHTIME (default 1x) to each Go benchmark. So
# many inputs and not so long: at the end of a span of time Go's fuzzer now and then takes its own deadline
# for a failure of the target.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# name, budget in seconds, what it does
stages() {
  cat <<'END'
prepare 300 install and fetch what is missing
build   120 library and command for Linux, macOS and Windows
vet      60 go vet, for each system, and with the tests of real servers
unit    180 every test on the embedded server, with the race detector
model   150 what the race detector makes slow and learns little from, whole: searches, walks, histories, fleets
real    300 every test with real servers and the original Java lock
spec    120 the specification in TLA+, by TLC, against package skew
readme   60 the commands of the README
fuzz     90 every fuzz target for a moment
bench   180 every benchmark once; other libraries beside ours on one key
END
}

export CGO_ENABLED=1
# Tests and checks don't ask what commit they are from, and asking fails in other people's folders.
# Nobody debugs these programs, and without what a debugger needs they are linked in two thirds of the time.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false -ldflags=-w"

stage_prepare() { scripts/prepare.sh; }

stage_build() {
  local target
  for target in linux/amd64 darwin/arm64 windows/amd64; do
    say "  $target"
    CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build ./...
  done
}

stage_vet() {
  in_modules go vet ./...
  in_modules go vet -tags real ./...
  # Tests too must compile where nobody here can run them.
  CGO_ENABLED=0 GOOS=darwin go vet ./...
  CGO_ENABLED=0 GOOS=windows go vet ./...
}

# The embedded servers make much garbage and keep little, so the collector is told to wait: the tests take a
# quarter less time. What they are vetted for, the stage before has seen.
patient() { GOGC=400 "$@"; }

# What takes longest is begun first, and some of it waits, so three packages run at a time. The searches of
# package skew and the reading of this repository's sources share nothing that could race, and are whole in the
# stage behind this one: here is only what asks many questions at once.
stage_unit() {
  local module longest=(./internal/cli ./migrate ./internal/rehearse .)
  # shellcheck disable=SC2046 # one word a package
  patient go test -race -vet=off -timeout 30m -p 3 "${longest[@]}" $(go list ./... | grep -vE '/(skew|tools/rules)$')
  patient go test -race -vet=off -run 'BesideEachOther' ./skew
  for module in $(modules | tail -n +2); do
    (cd "$module" && patient go test -race -vet=off -timeout 30m ./...)
  done
}

# Under the race detector these tests make do with the first of each list of theirs, see
# skew/race_test.go; internal/replay walks fewer traces, fleets are of fewer dialects, faults fall on fewer
# messages, and the histories of this module's root are a third as long.
stage_model() {
  patient go test -vet=off -count=1 -timeout 20m ./migrate ./skew . ./tools/rules ./internal/replay ./internal/rehearse ./legacy ./modern ./lock
  patient go test -vet=off -count=1 -timeout 20m -run 'Skew|Explorer|Simulation' ./internal/cli
}

# Much of what these tests do is to wait, for leases and windows of real time: so more of them run side
# by side than there are cores, and the packages that take longest are begun first. What runs without a
# real server has run before; of the others each must have passed, by its name.
stage_real() {
  local longest packages wanted passed left
  wanted=$(tests_with_tag real | grep -vE '^\./(tools/readme|docs/spec) ')
  longest=(./internal/rehearse ./internal/cli ./audit ./internal/interop ./migrate)
  packages=$(cut -d' ' -f1 <<<"$wanted" | sort -u | grep -vxF "${longest[@]/#/-e}")
  passed=$(mktemp)
  # shellcheck disable=SC2086 # one word a package
  go test -tags real -vet=off -v -count=1 -timeout 30m -p 3 -parallel 8 \
    -run "^($(cut -d' ' -f2 <<<"$wanted" | sort -u | paste -sd'|'))\$" "${longest[@]}" $packages | outlined "$passed"
  left=$(comm -23 <(sort <<<"$wanted") <(sort -u "$passed"))
  rm -f "$passed"
  [ -z "$left" ] || die 1 "of the tests with real servers these did not pass, or did not run: ${left//$'\n'/, }"
}

stage_spec() { go test -tags real -count=1 -timeout 20m ./docs/spec; }

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

# Go's own benchmarks once, briefly if no BENCHTIME asks for figures, then the comparison with other libraries for a
# moment, and the proof that they and ours exclude each other. Nothing here looks at a figure.
stage_bench() {
  local folders brief=-short
  [ -z "${BENCHTIME:-}" ] || brief=-short=false
  folders=$(each Benchmark | cut -d' ' -f1 | sort -u)
  # shellcheck disable=SC2086 # one word a folder
  [ -z "$folders" ] || go test -tags real -run '^$' -bench . -benchmem -benchtime "${BENCHTIME:-1x}" -timeout 30m "$brief" $folders
  cd bench
  go test -tags real -count=1 -timeout 20m ./...
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

# Without preparation or a build nothing else can be right.
must_not_fail() { [ "$1" = prepare ] || [ "$1" = build ]; }

known() {
  local stage all
  all=$(stages | cut -d' ' -f1 | xargs)
  for stage in "$@"; do
    [[ " $all " == *" $stage "* ]] || die 2 "no stage is called $stage; there are: $all"
  done
}

main() {
  known "$@"
  local wanted=" $* " name budget what failed=0
  log=$(mktemp -d)
  trap 'rm -rf "$log"' EXIT
  rows=
  while read -r name budget what <&3; do
    [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || continue
    local status=0
    run "$name" "$budget" "$what" || status=$?
    [ "$status" = 0 ] && continue
    failed=1
    if must_not_fail "$name"; then
      printf '\n%s' "$rows"
      exit "$status"
    fi
  done 3< <(stages)
  closing
  exit "$failed"
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
