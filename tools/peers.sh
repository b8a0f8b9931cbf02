#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches programs that the tests run Stoker against, as packages of this machine's Debian archive, and unpacks them below
# a folder. Nothing is installed and no root is needed. What is there already is kept.
#
#   tools/peers.sh [FOLDER]      build-peers by default; the programs are then in FOLDER/root/usr/bin
#
# prometheus-alertmanager must be started in FOLDER/root/usr/share/prometheus/alertmanager.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build-peers}
packages="prometheus-alertmanager prometheus"

for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null || { echo "peers: no $tool here; only Debian's archive has the packages" >&2; exit 3; }
done
mkdir -p "$folder/debs" "$folder/root"
cd "$folder"
exec 9>lock
flock 9 # tests that run side by side all come here
for package in $packages; do
    [ -e "debs/$package.unpacked" ] && continue
    # Without root apt-get cannot refresh its lists; those that are there must do.
    (cd debs && rm -f "${package}"_*.deb && timeout 240 apt-get -q -o APT::Sandbox::User="$(id -un)" download "$package") ||
        { echo "peers: '$package' cannot be had; is the archive in reach (apt-get update)?" >&2; exit 3; }
    dpkg-deb -x debs/"${package}"_*.deb root
    # Debian's build reads its templates from /usr/share, where they are not: from the working directory instead (a path of
    # the same length, as the text lies inside the program).
    if [ "$package" = prometheus-alertmanager ]; then
        LC_ALL=C sed -i 's|/usr/share/prometheus/alertmanager|./././././././././././././././././|g' \
            root/usr/bin/prometheus-alertmanager
    fi
    touch "debs/$package.unpacked"
done
for package in $packages; do
    ls -d "$PWD"/debs/"${package}"_*.deb
done
