#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test and says "ok" for what was skipped, as TAP wants it: cmocka 1.1.5 writes "not ok 3 # SKIP", which Meson
# takes for a failure.
set -o pipefail
"$@" | sed -u 's/^not ok \([0-9]* # SKIP\)/ok \1/'
