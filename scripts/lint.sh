#!/usr/bin/env bash
# Checks everything about the code that needs no run of it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

formatted() {
  local files
  files=$(gofmt -l .)
  [ -z "$files" ] || die 1 "not formatted: ${files//$'\n'/ }"
}

# lint_tool PACKAGE@VERSION: builds a linter once, into a cache folder named
# after its version, and prints its path.
lint_tool() {
  local bin=$cache/tools/${1##*@} name=${1%@*}
  name=${name##*/}
  [ -x "$bin/$name" ] || GOBIN=$bin go install "$1"
  say "$bin/$name"
}

export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
formatted
in_modules go vet ./...
in_modules go vet -tags real ./...
tool=$(lint_tool "$staticcheck")
in_modules "$tool" ./...
in_modules "$tool" -tags real ./...
# Without these two programs, which not every machine has, actionlint finds the
# same everywhere.
tool=$(lint_tool "$actionlint")
"$tool" -shellcheck= -pyflakes=
go run ./tools/rules
