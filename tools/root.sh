#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Roots of other Debian releases, for builds and tests; needs root.
#
#   tools/root.sh make FOLDER SUITE [PACKAGE,...]     debootstraps it, with these packages, unless it is there; exit code 3: it
#                                                     cannot be had
#   tools/root.sh enter FOLDER SCRIPT                 runs a shell script in it
#
# Mounts are those of a namespace of their own, which ends with the command. The root is a mount point, as that of a container is.
set -eu
verb=$1 root=$2 what=$3
case $verb in
make)
    if [ ! -e "$root/etc/debian_version" ]; then
        rm -rf "$root"
        mkdir -p "$root"
        if ! debootstrap --variant=minbase --include="${4:-ca-certificates,make,git,curl}" "$what" "$root" >"$root.log" 2>&1; then
            tail -n 3 "$root.log" >&2
            rm -rf "$root"
            exit 3
        fi
    fi
    ;;
enter)
    # how this machine reaches the archive; packages in the root write their own
    for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$file" ] || { mkdir -p "$root${file%/*}" && cp "$file" "$root$file"; }
    done
    # $1 and $2 are those of the inner shell
    exec unshare --mount --propagation private sh -euc '
        mount --bind "$1" "$1"
        for each in proc sys dev; do mount --rbind "/$each" "$1/$each"; done
        exec env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$1" sh -euc "$2"
    ' enter "$root" "$what"
    ;;
esac
