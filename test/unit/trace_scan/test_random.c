/* SPDX-License-Identifier: Apache-2.0 */
/* Random traces, whole and damaged: pieces, ways of walking, parts and threads change nothing in the sealed profile. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"
#include "kit.h"
#include "../slow.h"

static uint32_t seed;

static uint32_t below(uint32_t count)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 9) % count;
}

#define PICK(list) ((list)[below(ARRAY_LEN(list))])

static void add_value(Str *out, const char *const *texts, size_t count)
{
    str_add(out, texts[below((uint32_t)count)]);
}

static void add_number(Str *out)
{
    static const char *const odd[] = {
        "0", "-1", "null", "NaN", "1e3", "\"12\"", "4294967299", "-0.0005", "18446744073709551615"};

    if (below(12) == 0)
        add_value(out, odd, ARRAY_LEN(odd));
    else if (below(2))
        str_addf(out, "%u.%03u", below(5000), below(1000));
    else
        str_addf(out, "%u", below(100));
}

static void add_text(Str *out)
{
    static const char *const texts[] = {
        "aten::mm",
        "cudaLaunchKernel",
        "void k<1, {lambda()#1}>(float*)",
        "a\\\"b",
        "\\u00e9\\n",
        "Memcpy HtoD (Pageable -> Device)",
        "",
        "x]}, {",
        "Stream Sync",
        "\xc3\xa9\x01",
        "a name that is longer than a vector of sixty-four bytes, whatever it is that stands in it"};

    str_addf(out, "\"%s\"", PICK(texts));
}

static void add_args(Str *out, const char *gap)
{
    static const char *const keys[] = {
        "stream",         "device",   "correlation",    "External id", "bytes",         "registers per thread",
        "Ev Idx",         "Seq",      "wait_on_stream", "Bytes",       "graph node id", "sort_index",
        "correlation_id", "step_num", "occupancy_pct",  "regs"};
    static const char *const details[] = {"\"kernel_details\": \"regs:32 grid:4,1,1 block:64,2,1 occ_pct:25\"",
                                          "\"memcpy_details\": \"kind_src:device kind_dst:pinned size:4096 async:1\"",
                                          "\"kernel_details\": \"grid:,1 block:\"",
                                          "\"name\": \"/device:GPU:1\"",
                                          "\"name\": \"/device:GPU:0\"",
                                          "\"name\": \"Stream #7(Compute)\"",
                                          "\"name\": \"XLA Ops\"",
                                          "\"name\": \"Steps\"",
                                          "\"name\": \"rank 1\"",
                                          "\"name\": \"Rank 20 (host)\""};
    static const char *const lists[] = {"[1, 2, 3]", "[[], [\"a]\", {\"b\": \"}\"}]]", "{}", "[\"\\\\\", \"\\\"\"]"};
    const uint32_t count = below(6);

    str_add(out, "{");
    for (uint32_t i = 0; i < count; i++) {
        str_addf(out, "%s%s", i ? "," : "", gap);
        switch (below(6)) {
        case 5:
            str_add(out, PICK(details));
            break;
        case 0:
            str_addf(out, "\"%s\": %s", below(2) ? "grid" : "Input Dims", PICK(lists));
            break;
        case 1:
            str_addf(out, "\"%s\": ", below(2) ? "Collective name" : "name");
            add_text(out);
            break;
        default:
            str_addf(out, "\"%s\": ", PICK(keys));
            add_number(out);
        }
    }
    str_add(out, "}");
}

static void add_event(Str *out, const char *gap)
{
    static const char *const phases[] = {"X", "X", "X", "X", "X", "B", "E", "M", "i", "s"};
    static const char *const categories[] = {
        "cpu_op",          "kernel",          "gpu_memcpy",          "cuda_runtime", "cuda_sync",
        "python_function", "user_annotation", "gpu_user_annotation", "Trace",        "new"};
    static const char *const names[] = {"thread_name",  "thread_sort_index", "[memory]",
                                        "process_name", "process_name",      "MemcpyD2H",
                                        "Memset",       "$a.py:1 f",         "12"};
    static const char *const threads[] = {
        "1", "2", "\"2\"", "\"stream 7\"", "0", "9000000000", "\"[TP01] 1\"", "\"[TP02] 1\"", "\"[TP02] 7\""};

    str_addf(out, "{%s\"ph\": \"%s\",%s", gap, PICK(phases), gap);
    if (below(3))
        str_addf(out, "\"cat\": \"%s\",%s", PICK(categories), gap);
    str_add(out, "\"name\": ");
    if (below(4) == 0)
        str_addf(out, "\"%s\"", PICK(names));
    else
        add_text(out);
    str_addf(out, ", \"pid\": %s, \"tid\": %s,%s\"ts\": ", PICK(threads), PICK(threads), gap);
    add_number(out);
    if (below(10)) {
        str_add(out, ", \"dur\": ");
        add_number(out);
    }
    if (below(4)) {
        str_addf(out, ",%s\"args\": ", gap);
        add_args(out, gap);
    }
    str_addf(out, "%s}", gap);
}

static Str random_trace(void)
{
    static const char *const gaps[] = {"", " ", "\n    ", "\r\n\t"};
    const char *gap = PICK(gaps);
    const uint32_t events = below(60);
    Str out;

    str_init(&out, 1 << 20);
    str_add(&out, below(5) ? "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 2}, \"traceEvents\": [" : "[");
    for (uint32_t i = 0; i < events; i++) {
        str_addf(&out, "%s%s", i ? "," : "", gap);
        add_event(&out, gap);
    }
    str_add(&out,
            *out.text == '['
                ? "]"
                : "], \"INFO\": [\"x Record counts: Invalid ext correlations = 2,\"], \"baseTimeNanoseconds\": 5}");
    return out;
}

/* A few bytes changed, taken out, put in, doubled; or the end cut off. */
static void damage(Str *text)
{
    static const char marks[] = "\"\"\"\"{}[],:\\\n x0\x01\xff";

    for (uint32_t i = below(6); i > 0 && text->len > 40; i--) {
        const size_t at = below((uint32_t)text->len - 32), n = 1 + below(30);

        switch (below(5)) {
        case 0:
            text->text[at] = PICK(marks);
            break;
        case 1:
            memmove(text->text + at, text->text + at + n, text->len - at - n);
            str_cut(text, text->len - n);
            break;
        case 2:
            memmove(text->text + at, text->text + below((uint32_t)text->len - 32), n);
            break;
        case 3:
            text->text[at] = '"';
            break;
        default:
            if (below(4) == 0)
                str_cut(text, at);
        }
    }
}

static Str scanned(const Str *text, const TraceScanOptions *options, const KitWay *way)
{
    Profile profile;
    Err err = {0};
    Str out;

    str_init(&out, 64 << 20);
    if (kit_scan(text->text, text->len, options, way, &profile, &err) < 0)
        str_add(&out, err.text);
    else
        kit_print(&profile, &out);
    profile_done(&profile);
    return out;
}

static void all_ways_are_one(const Str *text, const TraceScanOptions *options)
{
    const KitWay one = {0};
    Str whole = scanned(text, options, &one);

    for (size_t i = 0; i < walkers_count + 6; i++) {
        KitWay way = {.piece = i == 0 ? 1 : SIZE_MAX, .seed = seed, .walker = i};

        if (i >= walkers_count)
            way = (KitWay){.threads = 1 + below(4), .part_bytes = 1 + below((uint32_t)text->len + 1)};
        Str other = scanned(text, options, &way);

        if (strcmp(whole.text, other.text) != 0)
            print_message("walker %zu, %u threads, parts of %zu, text:\n%s\n", way.walker, way.threads, way.part_bytes,
                          text->text);
        assert_string_equal(whole.text, other.text);
        str_done(&other);
    }
    str_done(&whole);
}

static void sound_traces(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200 / TEST_SLOW; round++) {
        seed = round;
        Str text = random_trace();

        all_ways_are_one(&text, NULL);
        str_done(&text);
    }
}

static void damaged_traces(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 600 / TEST_SLOW; round++) {
        seed = round * 7919 + 1;
        Str text = random_trace();

        damage(&text);
        all_ways_are_one(&text, NULL);
        str_done(&text);
    }
}

static void with_options(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 100 / TEST_SLOW; round++) {
        seed = round * 104729 + 3;
        const TraceScanOptions options = {
            .skip_host = below(2), .skip_python = below(2), .from = 1000, .to = below(5000000)};
        Str text = random_trace();

        damage(&text);
        all_ways_are_one(&text, &options);
        str_done(&text);
    }
}

/* What one reading learns another one uses, the same in every way. */
static void with_knowledge(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200 / TEST_SLOW; round++) {
        TraceKnown *known = trace_known_new();
        const TraceScanOptions look = {.learn = known}, options = {.known = known};
        const KitWay parts = {.threads = 3, .part_bytes = 1 + round * 7};

        seed = round * 31337 + 5;
        Str text = random_trace();

        if (round % 2)
            damage(&text);
        Str first = scanned(&text, &look, &parts);

        all_ways_are_one(&text, &options);
        str_done(&first);
        str_done(&text);
        trace_known_free(known);
    }
}

/* Many parts of one block each and more. */
static void long_traces(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        Str text;

        seed = round + 77;
        str_init(&text, 8 << 20);
        str_add(&text, "[");
        while (text.len < 1500000) {
            add_event(&text, round ? " " : "\n  ");
            str_add(&text, ",");
        }
        for (int i = 0; i < 20 && round == 2; i++)
            text.text[below((uint32_t)text.len)] = '"';
        all_ways_are_one(&text, NULL);
        str_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_traces),   cmocka_unit_test(damaged_traces), cmocka_unit_test(with_options),
        cmocka_unit_test(with_knowledge), cmocka_unit_test(long_traces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
