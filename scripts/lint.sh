#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks everything about the code that needs no run of it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

golangci=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

formatted() {
  local files
  files=$(gofmt -l .)
  [ -z "$files" ] || die 1 "not formatted: ${files//$'\n'/ }"
}

# A program that was built in the tree is easily committed with it.
without_programs() {
  local files
  files=$(git ls-files -z | xargs -0 -r sh -c 'find "$@" -type f -size +200k' sh)
  [ -z "$files" ] || die 1 "too large to be a source: ${files//$'\n'/ }"
}

# A commit that a go.mod names must stay in the history, or nobody can get the
# module. A shallow clone does not know.
in_history() {
  local version
  version=$(awk -v root="$(module)" '$1 == root { print $2; exit }' go.work)
  [[ $version == *-*-* ]] && [ "$(git rev-parse --is-shallow-repository)" = false ] || return 0
  git merge-base --is-ancestor "${version##*-}" HEAD || die 1 "the modules require $version, which is not in the history: scripts/release.sh require HEAD"
}

# checked checks the module in the present folder, with the tag too where a file
# has it.
checked() {
  "$tool" run ./...
  ! grep -rq --include='*.go' '^//go:build.*real' . || "$tool" run --build-tags real ./...
}

export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
formatted
without_programs
in_history
# It takes vet and staticcheck with it; .golangci.yml says what it checks.
tool=$(go_tool "$golangci")
in_modules checked
# Without these two programs, which not every machine has, actionlint finds the
# same everywhere.
tool=$(go_tool "$actionlint")
"$tool" -shellcheck= -pyflakes=
tool=$(go_tool "$goreleaser")
"$tool" check -q
go run ./tools/rules
