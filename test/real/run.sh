#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures Stoker on this machine's GPUs: at most ten minutes, nobody has to look on, no setting is changed.
# usage: run [OPTION of stoker-real...] [FOLDER]       FOLDER for the results, stoker-real-DATE by default
set -u
here=$(cd "$(dirname "$0")" && pwd)
case ${1-} in
-h | --help)
    sed -n '3,4s/^# //p' "$0"
    exit 0
    ;;
esac
[ $# -gt 0 ] || set -- "stoker-real-$(date -u +%Y-%m-%d)"

# Where drivers put their library and nvidia-smi when the linker does not know the place.
own=${LD_LIBRARY_PATH-}
for place in /usr/local/nvidia /usr/lib/x86_64-linux-gnu/nvidia/current /usr/lib/nvidia /run/opengl-driver /usr/lib/wsl; do
    for folder in "$place/lib64" "$place/lib" "$place"; do
        [ -e "$folder/libnvidia-ml.so.1" ] && own=${own:+$own:}$folder
    done
    [ -x "$place/bin/nvidia-smi" ] && PATH=$PATH:$place/bin
done
export PATH
# nvidia-smi gets this one: the bundle's libraries are for the bundle's programs.
export STOKER_REAL_LIBRARY_PATH="$own"
export LD_LIBRARY_PATH="${own:+$own:}$here/lib"
export STOKER_DATA="$here/share/stoker"
export STOKER_REAL_KERNELS="$here/kernels"
export TERM="${TERM:-dumb}"

chmod 755 "$here"/bin/* "$here"/own/* "$here"/libexec/stoker/* "$here"/libc/ld-* 2>/dev/null # lost by some ways of copying
bin=$here/bin
if [ -n "${STOKER_REAL_OWN_LIBC-}" ] || ! "$bin/stoker" version >/dev/null 2>&1; then
    # The machine's C library is too old: the programs are started by the bundle's own loader (own.sh).
    bin=$here/own
    export STOKER_REAL_HERE="$here" STOKER_SAMPLER_PROGRAM="$bin/stoker-sampler"
    unset LD_LIBRARY_PATH # else /bin/sh would meet the bundle's libraries
fi
exec "$bin/stoker-real" --bin "$bin" "$@"
