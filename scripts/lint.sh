#!/usr/bin/env bash
# Everything about the code that can be judged without running it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

formatted() {
  local files
  files=$(gofmt -l .)
  [ -z "$files" ] || die 1 "not formatted: ${files//$'\n'/ }"
}

# The linter is built once into the cache, in a folder named after its version.
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
