#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing for what is named, and says which: build, arm64 (a build for that), test, peer (for
# the slow tests), deb (the packages), clang (the other compiler), fuzz (its fuzzers), lint.
set -eu
packages=
tools="gcc libc6-dev meson ninja-build pkg-config python3 python3-yaml protobuf-c-compiler cmark esbuild"
libraries="libyaml-dev libcmocka-dev libuv1-dev libmicrohttpd-dev libgnutls28-dev libcrypt-dev libisal-dev libncurses-dev libnghttp2-dev
    libprotobuf-c-dev libjansson-dev libexpat1-dev libsqlite3-dev libcurl4-gnutls-dev"
command -v npm >/dev/null || tools="$tools npm" # the page's chart library; any npm will do
foreign=
for what in "${@:-build}"; do
    case $what in
    build) packages="$packages $tools $libraries" ;;
    arm64) # the same for a build for arm64 on this machine; programs run under qemu-user
        foreign=arm64
        packages="$packages $tools crossbuild-essential-arm64 qemu-user"
        for each in $libraries; do packages="$packages $each:arm64"; done
        ;;
    test) packages="$packages binutils python3-pytest python3-pytest-xdist python3-grpcio python3-protobuf python3-jsonschema openssl curl tmux" ;;
    peer) packages="$packages python3-prometheus-client zsh fish debootstrap rpm cpio golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev" ;;
    clang) packages="$packages clang" ;;
    fuzz) packages="$packages libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev" ;; # once clang is there
    deb) packages="$packages build-essential debhelper dpkg-dev fakeroot lintian" ;;
    lint) packages="$packages clang-tidy clang-format" ;;
    *)
        echo "deps: no such set '$what'; there are build, arm64, test, peer, deb, clang, fuzz, lint" >&2
        exit 2
        ;;
    esac
done
missing=
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here; install by hand what matches these Debian packages:$missing" >&2
    exit 1
fi
as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
    echo "deps: these Debian packages are missing and only root can install them:$missing" >&2
    exit 1
fi
echo "deps: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
[ -z "$foreign" ] || $as_root dpkg --add-architecture "$foreign"
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; }
if ! { $as_root apt-get update && install; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "deps: apt-get failed; the lines above say why" >&2
    exit 1
fi
