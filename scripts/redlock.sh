#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the Redlock libraries of npm and PyPI, and the Redis clients that they
# use, into the cache folder. scripts/redlock holds their versions and checksums.
# Nothing is installed elsewhere: NODE_PATH and PYTHONPATH name the folders.
#
#   scripts/redlock.sh          download what is missing
#   scripts/redlock.sh --list   list what is missing; status 1 if anything is
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# The folders' names contain the pins' checksum, so that two clones of different
# age can use one cache.
pinned() { cat "$@" | sha256sum | cut -c1-12; }
npm=$cache/redlock/npm-$(pinned scripts/redlock/package.json scripts/redlock/package-lock.json)
pypi=$cache/redlock/pypi-$(pinned scripts/redlock/requirements.txt)

# ready ORIGIN: succeeds if the libraries from there can be loaded.
ready() {
  case $1 in
    npm) quietly env NODE_PATH="$npm" node -e 'require("redlock"); require("ioredis")' ;;
    pypi) quietly env PYTHONPATH="$pypi" python3 -c 'import redlock' ;;
  esac
}

# fetch_npm FOLDER, fetch_pypi FOLDER: install below the folder.
fetch_npm() {
  cp scripts/redlock/package.json scripts/redlock/package-lock.json "$1"
  npm --prefix "$1" ci --silent --ignore-scripts --no-audit --no-fund
}

fetch_pypi() {
  python3 -m pip install -q --disable-pip-version-check --no-deps --require-hashes --no-compile --upgrade \
    --root-user-action=ignore --target "$1/python" -r scripts/redlock/requirements.txt
}

# fetch ORIGIN FOLDER PART: installs and moves the part into place, so that a
# parallel run never loads an incomplete library.
fetch() {
  local origin=$1 to=$2 part=$3
  say "fetching redlock from $origin"
  mkdir -p "$cache/redlock"
  tmp=$(mktemp -d -p "$cache/redlock")
  trap 'rm -rf "$tmp"' EXIT
  again "fetch_$origin" "$tmp"
  rm -rf "$to"
  mv "$tmp/$part" "$to"
  rm -rf "$tmp"
  ready "$origin" || die 3 "redlock from $origin is in $to and cannot be loaded"
}

missing=0
for origin in npm pypi; do
  ready "$origin" && continue
  missing=1
  if [ "${1:-}" = --list ]; then
    say "redlock $origin"
    continue
  fi
  case $origin in
    npm) fetch npm "$npm" node_modules ;;
    pypi) fetch pypi "$pypi" python ;;
  esac
done
[ "${1:-}" != --list ] || exit "$missing"
