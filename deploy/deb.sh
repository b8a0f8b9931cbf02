#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of this checkout in a folder of their own, without root. Debian wants debian/ at the top, so
# what git has, and what is new and not ignored, is copied first; a tree without git is copied whole but for its builds.
#
#   deploy/deb.sh [FOLDER]     build/deb by default; the packages are there afterwards
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/deb}
for program in dpkg-buildpackage dh fakeroot; do
    command -v "$program" >/dev/null || {
        echo "deb: $program is missing (Debian: apt-get install debhelper dpkg-dev fakeroot)" >&2
        exit 2
    }
done
rm -rf "$folder"
mkdir -p "$folder/stoker"
folder=$(cd "$folder" && pwd)
if [ -e .git ] && git ls-files -co --exclude-standard >"$folder/files"; then
    :
else
    find . -path './build*' -prune -o ! -type d -print >"$folder/files"
fi
# a file that was deleted and not yet committed is still on git's list
while IFS= read -r file; do
    [ ! -e "$file" ] || printf '%s\n' "$file"
done <"$folder/files" | tar -cf - -T - | tar -xf - -C "$folder/stoker"
rm -f "$folder/files"
cp -R "$folder/stoker/deploy/debian" "$folder/stoker/debian"
log=$folder/build.log
if ! (cd "$folder/stoker" && dpkg-buildpackage -b -us -uc) >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "deb: dpkg-buildpackage failed; the whole of what it said is in $log" >&2
    exit 1
fi
rm -rf "$folder/stoker"
ls "$folder"/*.deb
