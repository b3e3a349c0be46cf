# What the scripts share. Sourced, from the repository's root.
# shellcheck shell=bash

cache="${GETSETLOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/getsetlock}"
java_dir=internal/interop/java
java_jar=$java_dir/target/interop.jar

say() { printf '%s\n' "$*"; }

# die STATUS WORDS…: says why on stderr and ends the script.
die() {
  local status=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$status"
}

quietly() { "$@" >/dev/null 2>&1; }

# packages_with_tag TAG: the folders that have Go files which only that build tag admits.
packages_with_tag() {
  grep -rlE --include='*.go' "^//go:build (.*[^!a-z])?$1\b" . | xargs -r -n1 dirname | sort -u
}

# maven ARGUMENTS…: says nothing unless something is wrong. Maven ends with a code that sets a
# terminal's colour back, even where there is no terminal and colours are off.
maven() { mvn -q -B -Dstyle.color=never "$@" | sed 's/\x1b\[[0-9;]*m//g'; }
