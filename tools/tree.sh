#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copies the sources into a folder: what git has, and what is new and not ignored; a tree without git is copied whole but for
# its builds.
#
#   tools/tree.sh FOLDER
set -eu
mkdir -p "$1"
to=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
list=$(mktemp)
trap 'rm -f "$list"' EXIT
if [ -e .git ] && git ls-files -co --exclude-standard >"$list"; then
    :
else
    find . -path './build*' -prune -o ! -type d -print >"$list"
fi
# a file that was deleted and not yet committed is still on git's list
while IFS= read -r file; do
    [ ! -e "$file" ] || printf '%s\n' "$file"
done <"$list" | tar -cf - -T - | tar -xf - -C "$to"
