#!/bin/sh
# tag-go.sh TAG: tag what `release.py go` changed as a commit of its own, and push the tag, and nothing else, to $REMOTE.
set -eu
git -c user.name="github-actions[bot]" -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
  commit --quiet --all --message "${1##*/} of the Go module, under the path that it is found by"
git tag "$1"
git push --quiet "$REMOTE" "refs/tags/$1"
