#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks and prepares a release; docs/internals/release.md is the list of its steps.
#
#   scripts/release.sh check v1.2.3   whether this commit may get the tag
#   scripts/release.sh notes v1.2.3   prints the changelog's chapter
#   scripts/release.sh keep v1.2.3    keeps the vectors of the wire in
#                                     proof/testdata/released
#   scripts/release.sh require v1.2.3 lets the modules require each other at
#                                     the tag that is to come
#   scripts/release.sh tag v1.2.3     tags this commit for every module
#
# After other changes, the modules require each other at the last commit:
#
#   scripts/release.sh require HEAD
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
  local tag=$1 major path newest prefix
  [ -z "$(git status --porcelain)" ] || die 1 "the work tree has changes; commit them first: git status"
  for prefix in "" "${published[@]/%//}"; do
    ! quietly git rev-parse -q --verify "refs/tags/$prefix$tag" ||
      die 1 "the tag $prefix$tag exists; a published version never changes, so choose the next one"
  done
  grep -qE "^## \\[${tag#v}\\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
    die 1 "CHANGELOG.md has no heading '## [${tag#v}] - YYYY-MM-DD'; give what is under Unreleased that heading"
  [ -n "$(notes "$tag")" ] || die 1 "the chapter of $tag in CHANGELOG.md is empty"
  newest=$(git tag --list 'v*' | sorted | tail -1)
  if [ -n "$newest" ] && [ "$(printf '%s\n%s\n' "$newest" "$tag" | sorted | tail -1)" != "$tag" ]; then
    die 1 "$tag comes before $newest, which is tagged already"
  fi
  major=${tag%%.*}
  path=$(module)
  case $major in
    v0 | v1) [[ $path != */v[0-9]* ]] || die 1 "the module path $path has a suffix that $tag must not have" ;;
    *) [[ $path == */$major ]] || die 1 "the module path in go.mod must end with /$major for $tag" ;;
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

# from FOLDER COMMAND…: runs a go command outside the workspace. It gets the
# modules of this project from the clone FOLDER/repo, into FOLDER/modules.
from() {
  local host=$1 path
  shift
  path=$(module)
  env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$host/repo.insteadOf" GIT_CONFIG_VALUE_0="https://$path" \
    GOPRIVATE="$path" GOMODCACHE="$host/modules" GOFLAGS=-modcacherw GOWORK=off "$@" \
    2> >(grep -v '^go: downloading ' >&2)
}

# require TAG or require HEAD: lets every module require the others at a tag
# that is to come, or at the last commit, and completes its go.sum. A tag's sums
# hold as long as no file of the root's module changes.
require() {
  local tag=$1 path version folder host old
  [ -z "$(git status --porcelain)" ] || die 1 "the work tree has changes; commit them first: git status"
  host=$(realpath "$(mktemp -d)")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$host'" EXIT
  git clone -q . "$host/repo"
  cache_aside "$host/modules"
  path=$(module)
  old=$(awk -v root="$path" '$1 == root { print $2; exit }' go.work)
  version=$tag
  [ "$tag" != HEAD ] || version=$(from "$host" go list -m -f '{{.Version}}' "$path@$(git rev-parse HEAD)")
  (
    cd "$host/repo"
    sed -i "\\|$path|s|${old//./\\.}|$version|" go.work $(modules | tail -n +2 | sed 's|$|/go.mod|')
    [ "$tag" = HEAD ] || sed -i "/<artifactId>getsetlock-dual</{n;s|>.*<|>${tag#v}<|}" java/*/pom.xml
    # The modules are tagged one after the other, as each is complete. Those that
    # only tests need come last.
    [ "$tag" = HEAD ] || tagged "" "$tag"
    for folder in "${published[@]}" $(comm -23 <(modules | tail -n +2) <(printf './%s\n' "${published[@]}" | sort)); do
      sed -i "\\|^$path[ /]|d" "$folder/go.sum"
      from "$host" go -C "$folder" mod tidy
      [ "$tag" = HEAD ] || tagged "${folder#./}/" "$tag"
    done
  )
  git -C "$host/repo" diff --name-only "$(git rev-parse HEAD)" -- | while read -r file; do
    cp "$host/repo/$file" "$file"
  done
  say "$version"
}

# tagged PREFIX TAG: commits what there is and gives it a tag.
tagged() {
  git -c user.name=release -c user.email=release@localhost commit -q --allow-empty -a -m "$1$2"
  git tag "$1$2"
}

# tag TAG: tags this commit for every published module, and prints the tags.
tag() {
  local prefix
  check "$1"
  (require "$1") >/dev/null
  [ -z "$(git status --porcelain)" ] ||
    die 1 "the modules did not require $1 with complete sums; now they do. Commit that, and tag again"
  for prefix in "" "${published[@]/%//}"; do
    git tag -m "getsetlock ${prefix%/} $1" "$prefix$1"
    say "$prefix$1"
  done
}

[ $# = 2 ] || die 2 "say what to do and for which tag: check, notes, keep, require or tag, and a tag such as v1.2.3"
[[ $2 =~ $form || "$*" = "require HEAD" ]] || die 2 "$2 is no tag of a release: v1.2.3, or v1.2.3-rc.1 for a pre-release"
case $1 in
  check | notes | keep | require | tag) "$1" "$2" ;;
  *) die 2 "there is no $1; say check, notes, keep, require or tag" ;;
esac
