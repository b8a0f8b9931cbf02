#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers of test/fuzz with clang's libFuzzer, ASan and UBSan, and runs each for a bounded time or number of
# executions. What crashes, hangs or leaks is kept in test/fuzz/corpus/<target>, where the tests replay it.
#
#   tools/fuzz.sh [SECONDS] [TARGET...]      seconds for each target; 20 by default
#   tools/fuzz.sh -runs=N [TARGET...]        executions of each target
#   tools/fuzz.sh --keep ...                 also adds the inputs that reach new code to the corpus (merged, minimal)
set -eu
cd "$(dirname "$0")/.."
root=$PWD
all=${FUZZ_BUILD:-build-fuzz}
keep=
[ "${1:-}" != --keep ] || { keep=1; shift; }
bound=-max_total_time=20
case ${1:-} in
-runs=*) bound=$1; shift ;;
[0-9]*) bound=-max_total_time=$1; shift ;;
esac

clang=${CC:-clang}
if ! echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n){(void)d;(void)n;return 0;}' |
    "$clang" -x c -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null; then
    echo "fuzz: $clang cannot link libFuzzer; install clang and its libclang-rt-N-dev (Debian), or name another in CC" >&2
    exit 1
fi
# Prepares a build folder with the coverage that its options choose.
prepare() {
    [ ! -f "$1/build.ninja" ] || return 0
    CC=$clang CFLAGS="-fsanitize=fuzzer-no-link $2 -fno-sanitize-recover=undefined" \
        meson setup "$1" -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false >"$1.log" 2>&1 ||
        { tail -n 20 "$1.log" >&2; exit 1; }
    rm -f "$1.log"
}

# Less memory between a free and its being given out again (an input's worth or more, which the second cache holds), and
# short stacks of allocations: three times as fast.
export ASAN_OPTIONS="quarantine_size_mb=1:thread_local_quarantine_size_kb=256:malloc_context_size=2${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
targets=${*:-$(cd test/fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')}
findings=0
total=0
printf '%-10s %12s %9s %8s %8s  %s\n' target executions per_s covered corpus findings
for t in $targets; do
    case $t in
    trace) # its bytes choose from tables: no operand of a comparison is worth noting, which would take half of the time
        build=$all-edges
        prepare "$build" -fno-sanitize-coverage=trace-cmp,stack-depth
        ;;
    *)
        build=$all
        prepare "$build" ""
        ;;
    esac
    ninja -C "$build" "test/fuzz/fuzz_$t" >"$build/ninja.log" 2>&1 || { cat "$build/ninja.log" >&2; exit 1; }
    corpus=test/fuzz/corpus/$t
    grown=$build/corpus/$t
    found=$build/found/$t
    log=$build/$t.log
    mkdir -p "$corpus" "$grown" "$found"
    case $t in
    board) seeds="$corpus sim/data/boards" ;;
    scenario) seeds="$corpus sim/data/scenarios" ;;
    *) seeds=$corpus ;;
    esac
    case $t in
    kernel_line | process) longest=700 ;; # a line or a few
    gzip | inflate) longest=1000 ;;
    trace) longest=148 ;; # eighteen events of its grammar, for each rank
    trace_scan | nccl_* | recording) longest=2000 ;; # a dozen events or lines
    *) longest=5000 ;;
    esac
    dict=
    [ "$t" != trace ] || dict=-entropic=0 # a tenth of the time, with so many features
    [ ! -f "test/fuzz/$t.dict" ] || dict=-dict=test/fuzz/$t.dict
    rc=0
    # shellcheck disable=SC2086 # seeds are several folders without blanks, dict may be none
    "$build/test/fuzz/fuzz_$t" "$grown" $seeds $dict "$bound" -timeout=10 -rss_limit_mb=2048 -max_len=$longest \
        -print_final_stats=1 -verbosity=1 -reload=0 "-artifact_prefix=$root/$found/" >"$log" 2>&1 || rc=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    speed=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    cover=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    new=0
    for f in "$found"/*; do
        [ -f "$f" ] || continue
        mv "$f" "$corpus/$(basename "$f")"
        echo "$corpus/$(basename "$f")" >>"$build/$t.findings"
        new=$((new + 1))
    done
    [ "$rc" = 0 ] || [ "$new" != 0 ] || new=1
    [ -z "$keep" ] || "$build/test/fuzz/fuzz_$t" -merge=1 "$corpus" "$grown" >>"$log" 2>&1 || true
    printf '%-10s %12s %9s %8s %8s  %s\n' "$t" "${runs:-?}" "${speed:-?}" "${cover:-?}" \
        "$(find "$corpus" -type f | wc -l)" "$new"
    if [ "$new" != 0 ]; then
        grep -m 3 -E 'ERROR:|runtime error|SUMMARY' "$log" | sed 's/^/    /'
        echo "    log: $log"
    fi
    findings=$((findings + new))
    total=$((total + ${runs:-0}))
done
echo "$total executions, $findings findings"
[ "$findings" = 0 ]
