# SPDX-License-Identifier: Apache-2.0
# Functions that the scripts share. Source this file from the repository's root.
# shellcheck shell=bash

# A container may start without HOME, which go needs too.
export HOME="${HOME:-$(cd ~ && pwd)}"
cache="${GETSETLOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/getsetlock}"
java_dir=java
java_jar=$java_dir/interop/target/interop.jar

say() { printf '%s\n' "$*"; }

# die STATUS WORDS…: prints the words on stderr and ends the script with the
# status.
die() {
  local status=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$status"
}

quietly() { "$@" >/dev/null 2>&1; }

# modules: prints the folders of all Go modules, the root first. Parts with
# heavy dependencies are modules of their own.
modules() { find . -name go.mod -not -path '*/.*/*' -printf '%h\n' | sort; }

# module: prints the path of the root's module. go list -m prints those of the
# whole workspace.
module() { awk '$1 == "module" { print $2; exit }' go.mod; }

# published are the folders of the modules that are released besides the root,
# each after those that it requires.
# shellcheck disable=SC2034 # for the scripts that source this file
published=(etcd zookeeper
  adapters/{asynq,certmagic,cron,gocron,goredis,otel,prometheus,river,rueidis,valkeygo}
  cmd/getsetlock/full/getsetlock)

# cache_aside FOLDER: makes a module cache that shares everything with the usual
# one, except the modules of this project.
cache_aside() {
  local from host owner part
  from=$(go env GOMODCACHE)
  IFS=/ read -r host owner _ <<<"$(module)"
  for part in . cache/download; do
    mkdir -p "$1/$part/$host" "$from/$part/$host"
    find "$from/$part" -mindepth 1 -maxdepth 1 -not -name cache -not -name "$host" -exec ln -s -t "$1/$part" {} +
    find "$from/$part/$host" -mindepth 1 -maxdepth 1 -not -name "$owner" -exec ln -s -t "$1/$part/$host" {} +
  done
}

# in_modules COMMAND…: runs the command in the folder of every module.
in_modules() {
  local module
  for module in $(modules); do
    (cd "$module" && "$@")
  done
}

# of_root: keeps the lines whose first word is a folder of the root's own
# module.
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

# test_files [FLAG…]: prints every test file that go uses with these flags, one
# per line.
test_files() {
  go list "$@" -f '{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}
{{end}}' ./... | sed "/^$/d; s|^$PWD/|./|" | sort
}

# tests_with_tag TAG: prints folder and name of every test in the files that
# only this build tag adds, one pair per line. It asks go for those files
# instead of reading build constraints.
tests_with_tag() {
  comm -13 <(test_files) <(test_files -tags "$1") |
    xargs -r grep -HoE '^func (Test|Example|Fuzz)([^a-z(][^(]*)?\(' |
    sed -E 's|^(.*)/[^/]*:func (.*)\($|\1 \2|' | grep -v ' TestMain$' | sort -u
}

# outlined FILE: reads the output of go test -v. It prints failed packages in
# full, and all others as without -v. It writes folder and name of every passed
# test to FILE.
outlined() {
  awk -v file="$1" -v module="$(module)" '
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

goreleaser=github.com/goreleaser/goreleaser/v2@v2.15.1 # for lint and packages

# go_tool PACKAGE@VERSION: builds a tool once, into a cache folder named
# after its version, and prints its path.
go_tool() {
  local bin=$cache/tools/${1##*@} name=${1%@*}
  name=${name%/v[0-9]}
  name=${name##*/}
  [ -x "$bin/$name" ] || GOBIN=$bin GOFLAGS='' go install "$1"
  say "$bin/$name"
}

# again COMMAND…: runs the command up to three times, since a network may fail
# for a moment.
again() {
  "$@" || { say "once more: $*" >&2 && sleep 5 && "$@"; } || { say "and once more: $*" >&2 && sleep 20 && "$@"; }
}

# maven ARGUMENTS…: prints nothing unless something is wrong. Maven ends with a
# code that resets a terminal's colour, even without a terminal and with colours
# off.
maven() { mvn -q -B -Dstyle.color=never "$@" 2>&1 | sed 's/\x1b\[[0-9;]*m//g'; }

# each KIND: prints folder and name of every test function of that kind, one
# pair per line. It reads the sources, because asking the test binaries would
# build all of them in yet another way.
each() {
  grep -roE --include='*_test.go' "^func $1[A-Z0-9_][A-Za-z0-9_]*" . |
    sed -E 's|^(.*)/[^/]*:func (.*)$|\1 \2|' | sort -u | of_root || true
}
