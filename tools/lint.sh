#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Looks at src/ and sim/ with clang-tidy (.clang-tidy), clang-format (.clang-format) and gcc's analyzer. Exit code 1 where
# one of them finds something. What a tool says stands before its heading's count.
#
#   tools/lint.sh [--since REV] [BUILD] [tidy|format|analyzer]...      all three by default; BUILD has compile_commands.json
#
# --since: only files that differ from that commit; clang-tidy then stops after LINT_LIMIT seconds (120).
set -eu
cd "$(dirname "$0")/.."
since=
[ "${1:-}" != --since ] || { since=$2; shift 2; }
build=${1:-build}
[ $# = 0 ] || shift
which=${*:-format tidy analyzer}
jobs=${LINT_JOBS:-2}
findings=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

need() { # need PROGRAM PACKAGE
    command -v "$1" >/dev/null && return
    echo "lint: $1 is missing; install $2 (Debian: apt-get install $2)" >&2
    exit 2
}
report() { # report NAME COUNT
    echo "$1: $2 findings"
    findings=$((findings + $2))
}

for step in $which; do
    case $step in
    format)
        need clang-format clang-format
        if [ "$since" ]; then
            files=$(git diff --name-only --diff-filter=d "$since" -- 'src/*.[ch]' 'sim/*.[ch]' 'test/*.[ch]')
        else
            files=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'sim/*.[ch]' 'test/*.[ch]')
        fi
        [ "$files" ] || continue
        # shellcheck disable=SC2086 # file names have no blanks
        clang-format --dry-run -Werror $files >"$log" 2>&1 || true
        grep -E 'error:' "$log" | sed 's/: error:.*//; s/:[0-9]*:[0-9]*$//' | sort | uniq -c || true
        report clang-format "$(grep -c 'error:' "$log" || true)"
        ;;
    tidy)
        need clang-tidy clang-tidy
        [ -f "$build/compile_commands.json" ] || { echo "lint: no build in '$build'; meson setup $build" >&2; exit 2; }
        ninja -C "$build" >/dev/null # what is generated must be there
        # Files that are generated are judged by their generators' tests.
        clang-tidy --verify-config >/dev/null 2>"$log" || clang-tidy --list-checks >/dev/null 2>"$log" ||
            { cat "$log" >&2; exit 2; }
        /usr/bin/python3 - "$build" "$since" >"$log.files" <<'PY'
import json, os, subprocess, sys
build, since = sys.argv[1:]
root = os.getcwd()
changed = None
if since:
    names = subprocess.run(["git", "diff", "--name-only", since], capture_output=True, text=True, check=True).stdout.split()
    changed = {os.path.splitext(name)[0] for name in names}
seen = set()
for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
    wanted = changed is None or os.path.splitext(path)[0] in changed
    if path.startswith(("src/", "sim/")) and path not in seen and wanted:
        seen.add(path)
        print(path)
PY
        # gcc's own warning flags mean nothing to clang.
        echo "clang-tidy: $(wc -l <"$log.files") files"
        rc=0
        timeout "${LINT_LIMIT:-$([ "$since" ] && echo 120 || echo 7200)}" xargs -r -a "$log.files" -P "$jobs" -n 4 clang-tidy -p "$build" \
            --quiet --extra-arg=-Wno-unknown-warning-option >"$log" 2>/dev/null || rc=$?
        [ "$rc" != 124 ] || echo "clang-tidy: stopped at its time limit; the rest was not looked at"
        rm -f "$log.files"
        grep -E '(warning|error):' "$log" | sort -u || true
        report clang-tidy "$(grep -E '(warning|error):' "$log" | sort -u | wc -l)"
        ;;
    analyzer)
        need gcc gcc
        dir=$build-analyzer
        [ -f "$dir/build.ninja" ] || CC=gcc CFLAGS=-fanalyzer meson setup "$dir" -Dbuildtype=debug >/dev/null
        targets=$(ninja -C "$dir" -t targets all | sed -n 's/^\(\(src\|sim\)\/.*\.c\.o\): .*/\1/p' |
            grep -v 'meson-generated')
        # shellcheck disable=SC2086
        timeout 1200 ninja -C "$dir" -j "$jobs" -k 0 $targets >"$log" 2>&1 || echo "lint: the analyzer's build did not end well" >&2
        grep -E 'warning:' "$log" | sort -u || true
        report 'gcc -fanalyzer' "$(grep -E 'warning:' "$log" | sort -u | wc -l)"
        ;;
    *)
        echo "lint: unknown step '$step'; tidy, format, analyzer" >&2
        exit 2
        ;;
    esac
done
[ "$findings" = 0 ]
