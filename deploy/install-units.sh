#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the folder that this file lies in a service of systemd: units that name this folder, the user, and an example
# configuration unless there is one. Run it again after the folder was moved or replaced. Needs root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
etc=${1:-/etc} # another one for tests
for unit in "$here"/lib/systemd/system/*; do
    mkdir -p "$etc/systemd/system"
    sed "s,/opt/stoker/,$here/,g" "$unit" >"$etc/systemd/system/${unit##*/}"
done
mkdir -p "$etc/stoker" "$etc/sysusers.d" "$etc/tmpfiles.d"
cp "$here/lib/sysusers.d/stoker.conf" "$etc/sysusers.d/stoker.conf"
cp "$here/lib/tmpfiles.d/stoker.conf" "$etc/tmpfiles.d/stoker.conf"
[ -e "$etc/stoker/stoker.yaml" ] || cp "$here/share/stoker/stoker.yaml" "$etc/stoker/stoker.yaml"
if [ "$etc" = /etc ] && [ -d /run/systemd/system ]; then
    systemd-sysusers stoker.conf
    systemd-tmpfiles --create stoker.conf
    systemctl daemon-reload
fi
echo "systemctl enable --now stoker    # starts it, now and at boot"
