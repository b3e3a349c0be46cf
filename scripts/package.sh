#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what a release hands on into the folder dist, by goreleaser.
#
#   scripts/package.sh          a snapshot of this commit; the image only where
#                               docker works
#   scripts/package.sh v1.2.3   the release of this tag, uploaded as a draft. It
#                               needs docker and GITHUB_TOKEN.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

builder=$(go_tool "$goreleaser")
lister=$(go_tool github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0)
export PATH="${lister%/*}:$PATH"

if [ $# = 1 ]; then
  notes=$(mktemp)
  trap 'rm -f "$notes"' EXIT
  scripts/release.sh notes "$1" >"$notes"
  GORELEASER_CURRENT_TAG=$1 "$builder" release --clean --release-notes "$notes"
  exit
fi

skipped=publish
quietly docker info || skipped+=,docker
"$builder" release --snapshot --clean --skip "$skipped"

# packed PART: succeeds if the list on stdin has a line with the part.
packed() { grep -qF -- "$1" || die 1 "a package lacks $1"; }

# Two systems times two processors, and Windows.
[ "$(find dist -maxdepth 1 -name '*.tar.gz' | wc -l)/$(find dist -maxdepth 1 -name '*.zip' | wc -l)" = 4/2 ] ||
  die 1 "not every archive was built"
(cd dist && sha256sum --quiet -c checksums.txt)
for part in amd64.deb arm64.deb x86_64.rpm aarch64.rpm linux_amd64.cdx.json; do
  packed "$part" <dist/checksums.txt
done
files=$(dpkg-deb -c dist/*_amd64.deb)
for part in /usr/bin/getsetlock /man1/getsetlock-run.1 /bash-completion/completions/getsetlock /_getsetlock; do
  packed "$part" <<<"$files"
done
packed gomodule/redigo <"$(find dist -name '*_linux_amd64.cdx.json')"
