#!/usr/bin/env bash
# Checks everything about the code that needs no run of it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

formatted() {
  local files
  files=$(gofmt -l .)
  [ -z "$files" ] || die 1 "not formatted: ${files//$'\n'/ }"
}

# lint_tool builds the linter once, into a cache folder named after its version.
lint_tool() {
  local bin=$cache/tools/${staticcheck##*@}
  [ -x "$bin/staticcheck" ] || GOBIN=$bin go install "$staticcheck"
  say "$bin/staticcheck"
}

export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
formatted
in_modules go vet ./...
in_modules go vet -tags real ./...
tool=$(lint_tool)
in_modules "$tool" ./...
in_modules "$tool" -tags real ./...
go run ./tools/rules
