#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of this checkout in a folder of their own, without root. Debian wants debian/ at the top, so
# the sources are copied first.
#
#   deploy/deb.sh [FOLDER [ARCH]]     build/deb by default; the packages are there afterwards. ARCH: arm64, on another machine with what
#                                     `tools/deps.sh arm64 deb` installs
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/deb}
arch=${2:-$(dpkg --print-architecture)}
for program in dpkg-buildpackage dh fakeroot; do
    command -v "$program" >/dev/null || {
        echo "deb: $program is missing (Debian: apt-get install debhelper dpkg-dev fakeroot)" >&2
        exit 2
    }
done
rm -rf "$folder"
tools/tree.sh "$folder/stoker"
folder=$(cd "$folder" && pwd)
cp -R "$folder/stoker/deploy/debian" "$folder/stoker/debian"
log=$folder/build.log
if ! (cd "$folder/stoker" && dpkg-buildpackage -b -us -uc -a "$arch") >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "deb: dpkg-buildpackage failed; the whole of what it said is in $log" >&2
    exit 1
fi
rm -rf "$folder/stoker"
ls "$folder"/*.deb
