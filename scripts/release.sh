#!/usr/bin/env bash
# Checks and prepares a release; docs/release.md is the list of its steps.
#
#   scripts/release.sh check v1.2.3   whether this commit may get the tag
#   scripts/release.sh notes v1.2.3   prints the changelog's chapter
#   scripts/release.sh keep v1.2.3    keeps the vectors of the wire in
#                                     proof/testdata/released
#   scripts/release.sh require v1.2.3 lets the other published modules require
#                                     this version, and prints their tags
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# A tag is what Go calls a semantic version. A pre-release has one word and one
# number, such as -rc.1.
form='^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-(alpha|beta|rc)\.[1-9][0-9]*)?$'

# notes TAG: prints the chapter of a version, without its heading.
notes() {
  awk -v heading="## [${1#v}] - " '
    /^## / { on = index($0, heading) == 1; next }
    on && NF { seen = 1 }
    on && seen
  ' CHANGELOG.md
}

# check TAG: prints nothing if all is right.
check() {
  local tag=$1 major module newest
  [ -z "$(git status --porcelain)" ] || die 1 "the work tree has changes; commit them first: git status"
  ! quietly git rev-parse -q --verify "refs/tags/$tag" || die 1 "the tag $tag exists; a published version never changes, so choose the next one"
  grep -qE "^## \\[${tag#v}\\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
    die 1 "CHANGELOG.md has no heading '## [${tag#v}] - YYYY-MM-DD'; give what is under Unreleased that heading"
  [ -n "$(notes "$tag")" ] || die 1 "the chapter of $tag in CHANGELOG.md is empty"
  newest=$(git tag --list 'v*' | sorted | tail -1)
  if [ -n "$newest" ] && [ "$(printf '%s\n%s\n' "$newest" "$tag" | sorted | tail -1)" != "$tag" ]; then
    die 1 "$tag comes before $newest, which is tagged already"
  fi
  major=${tag%%.*}
  module=$(awk '$1 == "module" { print $2; exit }' go.mod)
  case $major in
    v0 | v1) [[ $module != */v[0-9]* ]] || die 1 "the module path $module has a suffix that $tag must not have" ;;
    *) [[ $module == */$major ]] || die 1 "the module path in go.mod must end with /$major for $tag" ;;
  esac
}

# sorted: sorts versions, a pre-release before its release.
sorted() { sed 's/-/~/' | sort -V | sed 's/~/-/'; }

# keep TAG: the tests of proof and internal/operator/fleet read what is kept.
keep() {
  local to=proof/testdata/released/$1
  mkdir -p "$to"
  cp modern/testdata/vectors/wire.txt migrate/testdata/vectors/*.txt "$to"
  find internal/dialect/testdata/vectors -maxdepth 1 -name '*.txt' -not -name 'recorded-*' -exec cp {} "$to" \;
  say "kept $(find "$to" -type f | wc -l) files in $to"
}

# published are the folders of the modules that are released besides the root.
published=(etcd zookeeper cmd/getsetlock/full)

# require TAG: in the repository these modules replace each other by folders.
# go install refuses a module that replaces another, and nobody publishes the
# version v0.0.0 that they require here.
require() {
  local root folder other
  root=$(awk '$1 == "module" { print $2; exit }' go.mod)
  for folder in "${published[@]}"; do
    for other in "" "${published[@]/#//}"; do
      grep -qE "^[[:space:]]*(require )?$root$other v0\\.0\\.0$" "$folder/go.mod" || continue
      go -C "$folder" mod edit -dropreplace="$root$other" -require="$root$other@$1"
    done
    say "$folder/$1"
  done
}

[ $# = 2 ] || die 2 "say what to do and for which tag: check, notes, keep or require, and a tag such as v1.2.3"
[[ $2 =~ $form ]] || die 2 "$2 is no tag of a release: v1.2.3, or v1.2.3-rc.1 for a pre-release"
case $1 in
  check | notes | keep | require) "$1" "$2" ;;
  *) die 2 "there is no $1; say check, notes, keep or require" ;;
esac
