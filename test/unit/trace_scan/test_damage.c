/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged texts: what is between the faults is read, what was lost is said, and where. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kit.h"

static Profile profile;

/* Whole, in single bytes, and in parts: all must say the same. */
static void scan_n(const char *text, size_t len)
{
    const KitWay ways[] = {{.piece = 0}, {.piece = 1}, {.threads = 2, .part_bytes = 1 + len / 4}};
    Str first = {0};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        Err err = {0};
        Str out;

        profile_done(&profile);
        assert_int_equal(kit_scan(text, len, NULL, &ways[i], &profile, &err), 0);
        str_init(&out, 64 << 20);
        kit_print(&profile, &out);
        if (i > 0) {
            assert_string_equal(out.text, first.text);
            str_done(&out);
        } else {
            first = out;
        }
    }
    str_done(&first);
}

static void scan(const char *text)
{
    scan_n(text, strlen(text));
}

static int done(void **state)
{
    (void)state;
    profile_done(&profile);
    return 0;
}

static const char *host_name(size_t row)
{
    assert_true(row < profile.host.len);
    return profile_text(&profile, profile.host.name[row], NULL);
}

static uint64_t lost(ProfileLossReason reason)
{
    return profile.lost_by_reason[reason];
}

#define EVENT(name, ts)                                                                                                \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" ts ",\"dur\":1}"
#define FIRST "{\"traceEvents\":[" EVENT("first", "1") ","
#define LAST "," EVENT("last", "9") "],\"traceName\":\"x\"}"

/* A damaged event between two good ones is lost, once, and reading goes on with the next. */
static void one_is_lost(const char *event)
{
    Str text;

    str_init(&text, 1 << 20);
    str_addf(&text, FIRST "%s" LAST, event);
    scan(text.text);
    assert_int_equal(profile.events, 3);
    assert_int_equal(profile.host.len, 2);
    assert_string_equal(host_name(0), "first");
    assert_string_equal(host_name(1), "last");
    assert_int_equal(lost(PROFILE_LOSS_SYNTAX), 1);
    assert_int_equal(profile_lost(&profile), 1);
    assert_int_equal(profile.losses.at[0].byte, strlen(FIRST));
    assert_int_equal(profile.losses.at[0].event, 1);
    str_done(&text);
}

static void stray_quotes(void **state)
{
    (void)state;
    one_is_lost("{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"f {\"device\": \"cpu\"}\", \"pid\": 1, "
                "\"tid\": 8, \"ts\": 5, "
                "\"dur\": 2, \"args\": {\"Python id\": 1}}");
    one_is_lost(
        "{\n  \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"\"a\", \"b\" \"\",\n \"pid\": 1, \"tid\": "
        "8,\n \"ts\": 5, \"dur\": 2\n}");
    one_is_lost("{\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2,\"ph\":\"X\",\"name\":\"say \"hi\"\"}");
    one_is_lost(
        "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2,\"args\":{\"Call stack\":\"a \"b\" "
        "c\",\"External id\":3}}");
    /* the stray one is hidden by a backslash before it */
    one_is_lost("{\"ph\":\"X\",\"name\":\"C:\\dir\\\", \"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2}");
}

static void missing_and_spare_marks(void **state)
{
    static const char *const events[] = {
        "{\"ph\":\"X\",\"name\":\"n\" \"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2}", /* no comma */
        "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1 \"tid\":8,\"ts\":5,\"dur\":2}",
        "{\"ph\":\"X\",,\"name\":\"n\",\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2}",        /* two */
        "{,\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2,}",       /* at the ends */
        "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,tid\": 8,\"ts\":5,\"dur\":2}",          /* no quote before a key */
        "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid: 8,\"ts\":5,\"dur\":2}",          /* behind it */
        "{ph:\"X\",name:\"n\",pid:1,tid:8,ts:5,dur:2}",                                 /* none at all */
        "{\"ph\":\"X\",\"name\":\"n,\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2}",           /* behind a text */
        "{\"ph\":\"X\",\"name\":n\",\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2}",           /* before it */
        "{\"ph\":\"X\",\"name\":\"n\",\"id\":,\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2}", /* no value */
        "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":8,\"ts\":5,\"dur\":2,\"args\":{\"a\":[1,\"x\"y],\"b\":2,}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        one_is_lost(events[i]);
}

/* What is odd but can be read in one way only is no loss. */
static void odd_values_are_read(void **state)
{
    (void)state;
    scan("{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\\qb\x01\x02\nc\",\"pid\":N/"
         "A,\"tid\":nan,\"ts\":1,\"dur\":2,\"args\":{\"x\":-Infinity,"
         "\"External id\":inf,\"Concrete Inputs\":[inf, -nan, N/A]}},,," EVENT("b", "5") EVENT("c", "7") ",]}");
    assert_int_equal(profile.host.len, 3);
    for (int i = 0; i < PROFILE_LOSS_COUNT; i++)
        assert_int_equal(profile.lost_by_reason[i], 0);
}

/* A fault that leaves nothing to use: one loss, and on with the next event. */
static void lost_event(const char *damaged, ProfileLossReason reason, uint64_t events)
{
    Str text;

    str_init(&text, 1 << 20);
    str_addf(&text, FIRST "%s" LAST, damaged);
    scan(text.text);
    assert_int_equal(profile.host.len, 2);
    assert_string_equal(host_name(1), "last");
    assert_int_equal(lost(reason), 1);
    assert_int_equal(profile.events, events);
    assert_int_equal(profile.losses.at[0].byte, strlen(FIRST));
    str_done(&text);
}

static void lost_events(void **state)
{
    (void)state;
    lost_event("{\"ph\":\"X\",\"name\":\"cut", PROFILE_LOSS_SYNTAX, 3);
    lost_event("{\"ph\":\"X\",\"name\":\"cut\",\"pid\":1,\"tid\":", PROFILE_LOSS_SYNTAX, 3);
    lost_event("{\"ph\"", PROFILE_LOSS_SYNTAX, 3);
    lost_event("{{{{", PROFILE_LOSS_SYNTAX, 3);
    lost_event("[W socket.cpp] a warning in the middle", PROFILE_LOSS_SYNTAX, 2);
    lost_event("\xff\xfe garbage }", PROFILE_LOSS_SYNTAX, 2);
    lost_event("null", PROFILE_LOSS_SYNTAX, 2);
}

/* Two writers at one file, line by line and within a line. */
static void interleaved_writers(void **state)
{
    (void)state;
    scan("{\"traceEvents\":[\n" EVENT("a", "1") ",\n{\"traceEvents\":[\n" EVENT("b", "2") ",\n" EVENT(
        "c", "3") ",\n{\"ph\":\"X\",\"name\":\"to" EVENT("d", "4") ",\n]}\n," EVENT("e", "5") "\n]}");
    assert_int_equal(profile.host.len, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(host_name(i)[0], 'a' + (int)i);
    assert_true(lost(PROFILE_LOSS_SYNTAX) >= 2);
}

static void one_file_behind_another(void **state)
{
    (void)state;
    scan("{\"distributedInfo\":{\"rank\":1},\"traceEvents\":[" EVENT(
        "a", "1") "],\"x\":1}\n{\"distributedInfo\":{\"rank\":2},\"traceEvents\":[" EVENT("b",
                                                                                          "2") "]}[" EVENT("c",
                                                                                                           "3") "]");
    assert_int_equal(profile.host.len, 3);
    assert_int_equal(profile.rank, 2);
    assert_int_equal(profile_lost(&profile), 0);
    /* the first one cut */
    scan("{\"traceEvents\":[" EVENT("a", "1") ",{\"ph\":\"X\",\"na{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":2}"
                                              ",\"traceEvents\":[" EVENT("b", "2") "]}");
    assert_int_equal(profile.host.len, 2);
    assert_int_equal(lost(PROFILE_LOSS_SYNTAX), 1);
}

/* A trace cut at any byte: all events before the cut are there, and the cut is said exactly when something is missing.
 */
static void cut_anywhere(void **state)
{
    static const char text[] = "{\"schemaVersion\": 1, \"traceEvents\": [" EVENT("a\\\"\\u0041", "1.5") ",\n" EVENT(
        "b", "2e1") "\n], \"x\": [{\"y\": \"]}\"}]}";
    const size_t list = (size_t)(strstr(text, "[") - text) + 1;

    (void)state;
    for (size_t len = list; len < sizeof text; len++) {
        size_t whole = 0;
        char *cut = malloc(len + 1); /* what is behind the cut must not be read */

        assert_non_null(cut);
        memcpy(cut, text, len);
        cut[len] = 0;
        for (const char *p = cut; (p = strstr(p, "\"dur\":1}")); p++)
            whole++;
        scan_n(cut, len);
        assert_int_equal(profile.host.len, whole);
        assert_int_equal(lost(PROFILE_LOSS_TRUNCATED), len < sizeof text - 1);
        assert_int_equal(profile_lost(&profile), len < sizeof text - 1);
        free(cut);
    }
}

/* `count` times a byte within an event's args, closed or not. */
static void with_run(const char *open, char c, size_t count, const char *close)
{
    const size_t len = strlen(FIRST) + strlen(open) + count + strlen(close) + strlen(LAST);
    char *text = malloc(len + 1), *p = text;

    assert_non_null(text);
    p = stpcpy(stpcpy(p, FIRST), open);
    memset(p, c, count);
    strcpy(stpcpy(p + count, close), LAST);
    scan_n(text, len);
    free(text);
}

#define OPEN "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"n\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":1,\"args\":{\"a\":"

static void hostile_runs(void **state)
{
    const size_t over = TRACE_EVENT_BYTES_MAX;

    (void)state;
    with_run(OPEN, '[', 1000000, "}}"); /* never closed: it and what it seems to hold end at the next event */
    assert_int_equal(profile.host.len, 2);
    with_run(OPEN, '{', 1000000, "1}}");
    assert_true(profile.host.len >= 2);
    with_run(OPEN "\"", 'x', 3000000, "\"}}");
    assert_int_equal(profile.host.len, 3);
    with_run(OPEN "\"", '"', 100000, "\"}}");
    assert_true(profile.host.len >= 2);
    with_run(OPEN "1", ' ', 100000, "}}");
    assert_int_equal(profile.host.len, 3);
    with_run(OPEN "1,", ',', 100000, "}}");
    assert_true(profile.host.len >= 2);
    with_run(OPEN "\"", 'x', over - strlen(OPEN) - 4, "\"}}"); /* as long as may be */
    assert_int_equal(profile.host.len, 3);
    assert_int_equal(profile_lost(&profile), 0);
    with_run(OPEN "\"", 'x', over - strlen(OPEN) - 3, "\"}}"); /* a byte longer */
    assert_int_equal(profile.host.len, 2);
    assert_int_equal(lost(PROFILE_LOSS_TOO_LONG), 1);
    assert_int_equal(profile.events, 3);
    with_run("", 'x', 2 * over, "");
    assert_int_equal(profile.host.len, 2);
    assert_int_equal(lost(PROFILE_LOSS_SYNTAX), 1);
}

/* Faults that each seem to reach to the end of the text: what is looked at in vain is limited, and all ways of reading
 * still agree on where the limit was. */
static void faults_without_end(void **state)
{
    static const char *const units[] = {
        "{\"ph\":\"X\",\"args\":{\"a\":[", "{\"ph\":\"X\",\"args\":{\"a\":[1 \"b\",",
        "],\"x\":[\"traceEvents\":[",      "{\"id\":1 \"x\":2}",
        "{\"ph\":\"X\",\"name\":\"a\" b ", "{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"a\":\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        Str text;

        str_init(&text, 1 << 20);
        str_add(&text, FIRST);
        while (text.len < 200000)
            str_add(&text, units[i]);
        for (int k = 0; k < 1000; k++) /* enough to be trusted again */
            str_add(&text, "," EVENT("good", "5"));
        str_add(&text, LAST);
        scan_n(text.text, text.len);
        assert_true(profile.host.len > 900);
        assert_string_equal(host_name(profile.host.len - 1), "last");
        str_done(&text);
    }
}

/* More keys and layouts than the walk learns. */
static void endless_variety(void **state)
{
    Str text;

    (void)state;
    str_init(&text, 64 << 20);
    str_add(&text, "[");
    for (int i = 0; i < 3000; i++)
        str_addf(&text,
                 "%s{\"ph\":%*s\"X\",\"key%d\":%d,\"name\":\"n%d\",\"pid\":1,\"tid\":1,%*s\"ts\":%d,\"dur\":1,\"args\":"
                 "{\"other%d\":[%d]}}",
                 i ? "," : "", i % 90, "", i, i, i % 7, i % 13, "", i, i, i);
    str_add(&text, "]");
    scan_n(text.text, text.len);
    assert_int_equal(profile.host.len, 3000);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(profile.host.start[i], i * 1000);
    str_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stray_quotes),        cmocka_unit_test(missing_and_spare_marks),
        cmocka_unit_test(odd_values_are_read), cmocka_unit_test(lost_events),
        cmocka_unit_test(interleaved_writers), cmocka_unit_test(one_file_behind_another),
        cmocka_unit_test(cut_anywhere),

        cmocka_unit_test(hostile_runs),        cmocka_unit_test(faults_without_end),
        cmocka_unit_test(endless_variety),
    };

    return cmocka_run_group_tests(tests, NULL, done);
}
