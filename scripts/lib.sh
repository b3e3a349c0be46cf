# What the scripts share. Sourced, from the repository's root.
# shellcheck shell=bash

# A container may start without HOME, which go asks for too.
export HOME="${HOME:-$(cd ~ && pwd)}"
cache="${GETSETLOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/getsetlock}"
java_dir=java
java_jar=$java_dir/interop/target/interop.jar

say() { printf '%s\n' "$*"; }

# die STATUS WORDS…: says why on stderr and ends the script.
die() {
  local status=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$status"
}

quietly() { "$@" >/dev/null 2>&1; }

# modules: the folders of all Go modules, the root first. Those with heavy dependencies are apart.
modules() { find . -name go.mod -not -path '*/.*/*' -printf '%h\n' | sort; }

# in_modules COMMAND…: runs it in the folder of every module.
in_modules() {
  local module
  for module in $(modules); do
    (cd "$module" && "$@")
  done
}

# of_root: passes on the lines whose folder, the first word, is of the root's own module.
of_root() {
  local line module nested
  nested=$(modules | tail -n +2)
  while read -r line; do
    for module in $nested; do
      [[ ${line%% *}/ != "$module"/* ]] || continue 2
    done
    say "$line"
  done
}

# test_files [FLAG…]: every test file that go admits with these flags, one a line.
test_files() {
  go list "$@" -f '{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}
{{end}}' ./... | sed "/^$/d; s|^$PWD/|./|" | sort
}

# tests_with_tag TAG: folder and name of every test in the files that only this build tag admits, one pair
# a line. Which files those are go says itself, so that no constraint is misread here.
tests_with_tag() {
  comm -13 <(test_files) <(test_files -tags "$1") |
    xargs -r grep -HoE '^func (Test|Example|Fuzz)([^a-z(][^(]*)?\(' |
    sed -E 's|^(.*)/[^/]*:func (.*)\($|\1 \2|' | grep -v ' TestMain$' | sort -u
}

# outlined FILE: of the output of go test -v what it says without -v of packages that did well, and all of the
# others. FILE gets folder and name of every test that passed.
outlined() {
  awk -v file="$1" -v module="$(go list -m)" '
    { text = text $0 "\n" }
    match($0, /--- PASS: [^ \/]+ \(/) { passed[substr($0, RSTART + 10, RLENGTH - 12)] }
    /^(ok  |FAIL|\?   )\t/ {
      folder = "." substr($2, length(module) + 1)
      for (name in passed) print folder, name >file
      printf "%s", /^FAIL/ ? text : $0 "\n"
      fflush()
      text = ""
      delete passed
    }
    END { printf "%s", text }'
}

# again COMMAND…: runs it up to three times, for what a network may lack for a moment.
again() {
  "$@" || { say "once more: $*" >&2 && sleep 5 && "$@"; } || { say "and once more: $*" >&2 && sleep 20 && "$@"; }
}

# maven ARGUMENTS…: says nothing unless something is wrong. Maven ends with a code that sets a
# terminal's colour back, even where there is no terminal and colours are off.
maven() { mvn -q -B -Dstyle.color=never "$@" 2>&1 | sed 's/\x1b\[[0-9;]*m//g'; }

# each KIND: folder and name of every test function of that kind, one pair a line. Read from the
# sources: to ask the test binaries would build all of them in yet another way.
each() {
  grep -roE --include='*_test.go' "^func $1[A-Z0-9_][A-Za-z0-9_]*" . |
    sed -E 's|^(.*)/[^/]*:func (.*)$|\1 \2|' | sort -u | of_root || true
}
