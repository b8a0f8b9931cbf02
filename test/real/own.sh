#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program of this name, with the bundle's own C library where run.sh says so. Also the sampler of libexec/, two folders
# below the bundle.
if [ -z "${STOKER_REAL_HERE-}" ]; then
    exec "$(dirname "$0")/../../bin/${0##*/}" "$@"
fi
exec "$STOKER_REAL_HERE"/libc/ld-* --library-path \
    "$STOKER_REAL_HERE/libc:${STOKER_REAL_LIBRARY_PATH:+$STOKER_REAL_LIBRARY_PATH:}$STOKER_REAL_HERE/lib" \
    --argv0 "${0##*/}" "$STOKER_REAL_HERE/bin/${0##*/}" "$@"
