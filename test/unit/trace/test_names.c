/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from words: the steps of inference engines (inference.def), and what an option chooses (pick.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "build.h"
#include "engine/trace/inference.h"
#include "engine/trace/pick.h"

static void names_of_engine_steps(void **state)
{
    static const struct {
        const char *name;
        TraceStepKind kind;
        int64_t sequences, tokens;
    } cases[] = {
        {"execute_context_2(6144)_generation_3(3)", TRACE_STEP_MIXED, 5, 6147},
        {"execute_context_0(0)_generation_64(128)", TRACE_STEP_DECODE, 64, 128},
        {"execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk5sqsq3sqsk6)", TRACE_STEP_DECODE, 32, 32},
        {"execute_16_context_1(sq16sk16sqsq256sqsk256)_generation_0(sq0sk0sqsq0sqsk0)", TRACE_STEP_PREFILL, 1, 16},
        {"execute_new_2_cached_0", TRACE_STEP_PREFILL, 2, -1},
        {"execute_new_0_cached_7", TRACE_STEP_DECODE, 7, 7},
        {"execute_new_1_cached_7", TRACE_STEP_MIXED, 8, -1},
        {"step[DECODE bs=32]", TRACE_STEP_DECODE, 32, 32},
        {"step[DECODE bs=999999999]", TRACE_STEP_DECODE, 999999999, 999999999},
        {"step[EXTEND bs=2 toks=14721]", TRACE_STEP_PREFILL, 2, 14721},
        {"step[MIXED bs=2]", TRACE_STEP_MIXED, 2, -1},
        {"step[TARGET_VERIFY bs=3]", TRACE_STEP_DECODE, 3, -1},
        {"[Executor] _forward_step 12: 1 ctx reqs, 500 ctx tokens, 0 gen reqs", TRACE_STEP_PREFILL, 1, 500},
        {"[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", TRACE_STEP_DECODE, 32, 32},
        {"[Executor] _forward_step 12: 1 ctx reqs, 8 gen reqs", TRACE_STEP_MIXED, 9, -1},
        {"[Executor] _forward_step: 0 ctx reqs, 8 gen reqs", TRACE_STEP_DECODE, 8, 8},
    };
    static const char *const none[] = {
        "execute_context_0(0)_generation_0(0)", /* nobody in it */
        "execute_context_2(6)_generation_3(3) more",
        "execute_context_2(6)",
        "execute_new_2_cached_",
        "step[IDLE bs=0]",
        "step[MIXED bs=0]",
        "step[DECODE bs=]",
        "step[DECODE bs=1000000000]",
        "step[DECODE bs=1",
        "",
    };
    TraceBatch batch;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(trace_read_batch(cases[i].name, &batch));
        if (batch.kind != cases[i].kind || batch.sequences != cases[i].sequences || batch.tokens != cases[i].tokens)
            fail_msg("%s: %d %lld %lld", cases[i].name, batch.kind, (long long)batch.sequences,
                     (long long)batch.tokens);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (trace_read_batch(none[i], &batch))
            fail_msg("%s", none[i]);
}

static void sets_of_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t has[4], lacks[4]; /* ended by -1 */
    } cases[] = {
        {NULL, {0, 7, -1}, {-1}},           {"0", {0, -1}, {1, -1}},
        {"3-7", {3, 5, 7, -1}, {2, 8, -1}}, {"0,4-6,9", {0, 4, 9, -1}, {1, 3, 7, -1}},
        {"5-5", {5, -1}, {4, 6, -1}},       {"2305843009213693952", {INT64_C(1) << 61, -1}, {0, -1}},
    };
    static const char *const wrong[] = {"", "x", "-1", "3-", "3-2", "1,", ",1", "1 2", "1-2-3", "2305843009213693953"};
    char text[512] = "0";
    TraceNumbers numbers;
    Err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(trace_numbers_parse(cases[i].text, "--rank", &numbers, &err), 0);
        for (const int64_t *n = cases[i].has; *n >= 0; n++)
            assert_true(trace_numbers_has(&numbers, *n));
        for (const int64_t *n = cases[i].lacks; *n >= 0; n++)
            assert_false(trace_numbers_has(&numbers, *n));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        numbers.len = 77;
        assert_int_equal(trace_numbers_parse(wrong[i], "--rank", &numbers, &err), -EINVAL);
        assert_memory_equal(err.text, "--rank: '", 9);
        assert_int_equal(numbers.len, 77); /* untouched */
    }
    for (int i = 1; i < TRACE_RANGES_MAX; i++)
        strcat(text, ",0");
    assert_int_equal(trace_numbers_parse(text, "--rank", &numbers, &err), 0);
    assert_int_equal(numbers.len, TRACE_RANGES_MAX);
    assert_int_equal(trace_numbers_parse(strcat(text, ",0"), "--rank", &numbers, &err), -EINVAL);
    assert_string_equal(err.text, "--rank: more than 64 ranges");
}

static void moments(void **state)
{
    static const struct {
        const char *text;
        TraceMoment moment;
    } cases[] = {
        {NULL, {0}},
        {"0", {.given = true}},
        {"1700000000000000000", {.given = true, .ns = INT64_C(1700000000000000000)}},
        {"-5", {.given = true, .ns = -5}},
        {"1.5s", {.given = true, .relative = true, .ns = 1500000000}},
        {"200ms", {.given = true, .relative = true, .ns = 200000000}},
        {"2.5us", {.given = true, .relative = true, .ns = 2500}},
        {"7ns", {.given = true, .relative = true, .ns = 7}},
        {"2m", {.given = true, .relative = true, .ns = INT64_C(120000000000)}},
        {"1.5h", {.given = true, .relative = true, .ns = INT64_C(5400000000000)}},
        {"1m30s", {.given = true, .relative = true, .ns = INT64_C(90000000000)}},
        {"2305843009213693952ns", {.given = true, .relative = true, .ns = INT64_C(1) << 61}},
    };
    static const char *const wrong[] = {"",     "x",      "-1s", "1.5", ".5s",          "1e3s",
                                        "0x5s", "1.5.2s", "5 s", "1q",  "999999999999s"};
    TraceMoment moment;
    Err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(trace_moment_parse(cases[i].text, "--from", &moment, &err), 0);
        if (moment.given != cases[i].moment.given || moment.relative != cases[i].moment.relative ||
            moment.ns != cases[i].moment.ns)
            fail_msg("%s: %d %lld", cases[i].text, moment.relative, (long long)moment.ns);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (trace_moment_parse(wrong[i], "--from", &moment, &err) != -EINVAL)
            fail_msg("%s: %lld", wrong[i], (long long)moment.ns);
}

static void what_was_chosen_in_words(void **state)
{
    TraceAsk ask = {.no_host = true, .no_python = true};
    char words[128];
    Err err;

    (void)state;
    trace_ask_words(&(TraceAsk){0}, words, sizeof words);
    assert_string_equal(words, "");
    trace_ask_words(&ask, words, sizeof words);
    assert_string_equal(words, "without CPU events");
    ask.no_host = false;
    ask.step = "3-7";
    assert_int_equal(trace_moment_parse("1.5s", "", &ask.from, &err), 0);
    assert_int_equal(trace_moment_parse("-9", "", &ask.to, &err), 0);
    assert_int_equal(trace_numbers_parse("0,4-6", "", &ask.ranks, &err), 0);
    assert_int_equal(trace_numbers_parse("1-2", "", &ask.devices, &err), 0);
    assert_int_equal(trace_numbers_parse("7", "", &ask.streams, &err), 0);
    trace_ask_words(&ask, words, sizeof words);
    assert_string_equal(words,
                        "step 3-7, from 1s500ms, to -9 ns, rank 0,4-6, device 1-2, stream 7, without Python functions");
}

static bool is_some(const TraceAsk *ask)
{
    return trace_ask_some(ask);
}

static void ranks_alone_choose_no_events(void **state)
{
    TraceAsk ranks = {0}, streams = {0}, devices = {0};
    Err err;

    (void)state;
    assert_int_equal(trace_numbers_parse("3", "", &ranks.ranks, &err), 0);
    assert_int_equal(trace_numbers_parse("3", "", &streams.streams, &err), 0);
    assert_int_equal(trace_numbers_parse("3", "", &devices.devices, &err), 0);
    assert_false(is_some(&ranks));
    assert_true(is_some(&streams) && is_some(&devices));
    assert_true(is_some(&(TraceAsk){.step = "1"}) && is_some(&(TraceAsk){.from = {.given = true}}));
    assert_true(is_some(&(TraceAsk){.to = {.given = true}}) && is_some(&(TraceAsk){.no_host = true}));
    assert_true(is_some(&(TraceAsk){.no_python = true}));
}

/* Steps of 100 ns from 1000 on, a kernel and its call in each; the call of the last one lies in the step before. */
static void build_steps(Build *b)
{
    build_init(b);
    build_range(b, 1, 1000, 100, "ProfilerStep#4");
    build_range(b, 1, 1100, 100, "ProfilerStep#5");
    build_range(b, 1, 1200, 100, "ProfilerStep#6");
    build_launch(b, 1, 1010, 5, 0, 7, 1020, 10, "first");
    build_launch(b, 1, 1110, 5, 0, 7, 1120, 10, "second");
    build_launch(b, 1, 1150, 5, 0, 8, 1220, 10, "third");
    build_seal(b);
}

static void windows_of_steps(void **state)
{
    static const struct {
        TraceAsk ask;
        int64_t from, to;
        size_t links;
    } cases[] = {
        {{.step = "5"}, 1100, 1200, 1},
        {{.step = "ProfilerStep#5"}, 1100, 1200, 1},
        {{.step = "last"}, 1200, 1300, 1},
        {{.step = "4-5"}, 1000, 1200, 2},
        {{.step = "4,6"}, 1000, 1300, 3},
        {{.step = "4-6", .from = {.given = true, .ns = 1020}}, 1020, 1300, 3},
        {{.step = "4-6", .from = {.given = true, .ns = 1021}}, 1021, 1300, 2},
        {{.step = "4-6", .to = {.given = true, .ns = 1220}}, 1000, 1220, 2},
        {{.from = {.given = true, .relative = true, .ns = 120}}, 1120, INT64_MAX, 2},
        {{.to = {.given = true, .relative = true, .ns = 120}}, INT64_MIN, 1120, 1},
        {{.step = "4-6", .streams = {.first = {8}, .last = {8}, .len = 1}}, 1000, 1300, 1},
    };
    static const char *const wrong[] = {"3", "7", "ProfilerStep#7", "5-4", ""};
    TracePick pick;
    Build b;
    Err err;

    (void)state;
    build_steps(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pick = (TracePick){0};
        assert_int_equal(trace_pick_init(&pick, &cases[i].ask, &b.profile, &err), 0);
        if (pick.from != cases[i].from || pick.to != cases[i].to || pick.links.len != cases[i].links)
            fail_msg("%zu: %lld to %lld, %zu links", i, (long long)pick.from, (long long)pick.to, pick.links.len);
        trace_pick_done(&pick);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pick = (TracePick){0};
        assert_int_equal(trace_pick_init(&pick, &(TraceAsk){.step = wrong[i]}, &b.profile, &err), -ENOENT);
        assert_non_null(strstr(err.text, "the profile has 3, from 'ProfilerStep#4' to 'ProfilerStep#6'"));
        trace_pick_done(&pick);
    }
    build_done(&b);
    build_init(&b);
    build_launch(&b, 1, 1010, 5, 0, 7, 1020, 10, "first");
    build_seal(&b);
    pick = (TracePick){0};
    assert_int_equal(trace_pick_init(&pick, &(TraceAsk){.step = "last"}, &b.profile, &err), -ENOENT);
    assert_non_null(strstr(err.text, "the profile has no steps"));
    trace_pick_done(&pick);
    build_done(&b);
}

/* In the window [1100, 1200) of step 5, and on stream 7 alone. */
static void which_events_are_meant(void **state)
{
    static const TraceAsk ask = {.step = "5", .streams = {.first = {7}, .last = {7}, .len = 1}};
    static const struct {
        TracePicked event;
        bool is_meant;
    } cases[] = {
        {{.kind = PROFILE_KERNEL, .start = 1100, .duration = 500, .stream = 7}, true},
        {{.kind = PROFILE_KERNEL, .start = 1199, .stream = 7}, true},
        {{.kind = PROFILE_KERNEL, .start = 1200, .stream = 7}, false},
        {{.kind = PROFILE_KERNEL, .start = 1099, .duration = 50, .stream = 7}, false},
        {{.kind = PROFILE_KERNEL, .start = 1150, .stream = 8}, false},
        {{.kind = PROFILE_KERNEL, .start = 1150, .stream = -1}, true},
        {{.kind = PROFILE_OP, .start = 1000, .duration = 101, .stream = -1, .device = -1}, true},
        {{.kind = PROFILE_OP, .start = 1000, .duration = 99, .stream = -1, .device = -1}, false},
        {{.kind = PROFILE_OP, .start = 1199, .duration = 9, .stream = -1, .device = -1}, true},
        {{.kind = PROFILE_OP, .start = 1200, .duration = 9, .stream = -1, .device = -1}, false},
        {{.kind = PROFILE_CALL, .start = 1010, .duration = 5, .link = 2, .stream = -1, .device = -1}, true},
        {{.kind = PROFILE_CALL, .start = 1010, .duration = 5, .link = 1, .stream = -1, .device = -1}, false},
        {{.kind = PROFILE_GPU_ANNOTATION, .start = 1050, .duration = 60, .stream = 7}, true},
        {{.kind = PROFILE_GPU_ANNOTATION, .start = 1050, .duration = 60, .stream = 8}, false},
    };
    TracePick pick = {0};
    Build b;
    Err err;

    (void)state;
    build_steps(&b);
    assert_int_equal(trace_pick_init(&pick, &ask, &b.profile, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (trace_pick_event(&pick, &cases[i].event) != cases[i].is_meant)
            fail_msg("%zu", i);
    assert_true(trace_pick_link(&pick, 2) && !trace_pick_link(&pick, 0) && !trace_pick_link(&pick, 3));
    assert_true(trace_pick_moment(&pick, 1100) && !trace_pick_moment(&pick, 1200) && !trace_pick_moment(&pick, 1099));
    trace_pick_done(&pick);
    build_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_engine_steps),
        cmocka_unit_test(sets_of_numbers),
        cmocka_unit_test(moments),
        cmocka_unit_test(what_was_chosen_in_words),
        cmocka_unit_test(ranks_alone_choose_no_events),
        cmocka_unit_test(windows_of_steps),
        cmocka_unit_test(which_events_are_meant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
