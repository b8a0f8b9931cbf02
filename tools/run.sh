#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The agent on this machine's GPUs, or on the simulated node where there is none. usage: run.sh BUILD [OPTION of the agent...]
set -eu
build=$1
shift
if [ -e /proc/driver/nvidia/version ]; then
    exec "$build/stoker" agent "$@"
fi
echo "no NVIDIA driver here: a simulated node with eight GPUs"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
trap 'exit 1' HUP INT TERM # without it a signal skips the line above
"$build/stoker" sim run --tree "$tree/node" default -- "$build/stoker" agent "$@"
