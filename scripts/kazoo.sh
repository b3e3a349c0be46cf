#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts kazoo, the ZooKeeper client for Python, into the cache folder: a wheel
# from PyPI, pinned by checksum. Python imports from the wheel; nothing is
# installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

wheel=kazoo-2.10.0-py2.py3-none-any.whl
sum=de2d69168de432ff66b457a26c727a5bf7ff53af5806653fd1df7f04b6a5483c
file=$cache/$wheel

right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$sum" ]; }

right "$file" && exit 0
[ "${1:-}" != --list ] || { say "$wheel pypi" && exit 1; }
say "fetching kazoo from pypi: kazoo==2.10.0"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
again python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$tmp" kazoo==2.10.0
right "$tmp/$wheel" || die 3 "$wheel does not have the pinned checksum; nothing is installed"
mkdir -p "$cache"
mv "$tmp/$wheel" "$file"
