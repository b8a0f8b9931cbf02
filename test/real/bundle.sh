#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts stoker-real into one folder with what it needs on a machine that has NVIDIA's driver, a shell and nothing else: the
# programs, the libraries they are linked with, the C library for a machine whose own is older, kernels and runbooks.
# usage: bundle.sh BUILD FOLDER        FOLDER is made anew; it was made by this script or is not there
set -eu
build=$1
folder=$2
source=$(cd "$(dirname "$0")" && pwd)
if [ -e "$folder" ] && [ ! -f "$folder/run" ]; then
    echo "bundle: '$folder' is there and is no bundle: remove it" >&2
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/own" "$folder/kernels" "$folder/lib" "$folder/libc" "$folder/libexec/stoker" "$folder/share/stoker"

for program in stoker src/source/nvml/stoker-sampler src/source/cuda/stoker-bench test/record/nvml-record test/real/stoker-real; do
    cp "$build/$program" "$folder/bin/"
    strip --strip-unneeded "$folder/bin/${program##*/}"
    cp "$source/own.sh" "$folder/own/${program##*/}"
done
for child in stoker-sampler stoker-bench; do # where a program looks whose loader lies in libc/
    cp "$source/own.sh" "$folder/libexec/stoker/$child"
done
cp "$source"/kernels/*.ptx "$folder/kernels/"
cp "$build"/data/runbooks* "$folder/share/stoker/"
cp "$source/run.sh" "$folder/run"
chmod 755 "$folder/run" "$folder"/own/* "$folder"/libexec/stoker/*

# The C library's parts go together with their loader; the machine's own serve where they are new enough.
ldd "$folder"/bin/stoker "$folder"/bin/stoker-sampler "$folder"/bin/stoker-bench "$folder"/bin/nvml-record "$folder"/bin/stoker-real |
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | sort -u |
    while read -r library; do
        case ${library##*/} in
        ld-linux* | ld64* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so*)
            cp -L "$library" "$folder/libc/" ;;
        *) cp -L "$library" "$folder/lib/" ;;
        esac
    done
# What the driver's libraries want of the C library, which ours do not.
place=$(dirname "$(ldd "$folder/bin/stoker" | sed -n 's/.*libc.so.6 => \([^ ]*\) .*/\1/p')")
for part in libdl.so.2 libpthread.so.0 librt.so.1; do
    [ -e "$folder/libc/$part" ] || cp -L "$place/$part" "$folder/libc/"
done
size=$(du -sm "$folder" | cut -f1)
if [ "$size" -gt 64 ]; then
    echo "bundle: $size MiB, more than 64" >&2
    exit 1
fi
echo "$folder: $size MiB. On a machine with NVIDIA's driver: $folder/run [FOLDER]"
