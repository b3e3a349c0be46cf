#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pairs the last tagged etcd, zookeeper and full command with the root of today:
# that is what a service gets which raises the root's version alone. They must
# compile, and the full command must start. Before the first tag there is
# nothing to pair.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

here=$PWD
path=$(module)
tag=$(git -c versionsort.suffix=- tag --list 'etcd/v*' --sort=-v:refname | sed 1q)
[ -n "$tag" ] || { say "nothing is tagged yet, so nothing is paired"; exit; }
version=${tag#etcd/}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive "$tag" "${published[@]}" | tar x -C "$work"
cd "$work"
go work init "$here" "${published[@]/#/./}"
go work edit -replace="$path@$version=$here" -replace="$path/etcd@$version=./etcd" -replace="$path/zookeeper@$version=./zookeeper"
for folder in "${published[@]}"; do
  say "$folder $version with the root of $(git -C "$here" describe --tags --match 'v*' --always --dirty)"
  go -C "$folder" build ./...
done
go run "./${published[-1]}" version
