/* SPDX-License-Identifier: Apache-2.0 */
/* src/engine/nccl/pickle.c: what TorchScript's pickler writes, and what must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"
#include "engine/nccl/pickle.h"

static const PickleLimits limits = {.values = 8 << 20, .expanded = 8 << 20};

#define PICKLE(bytes) ((Span){"\x80\x02" bytes, sizeof("\x80\x02" bytes) - 1})

static void check(Span in, const char *expected)
{
    const char *why = NULL;
    CLEANUP(json_decref_at) json_t *value = nccl_parse_pickle(in, &limits, &why);
    CLEANUP_FREE char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    assert_null(why);
    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void refused(Span in, const char *reason)
{
    const char *why = NULL;

    assert_null(nccl_parse_pickle(in, &limits, &why));
    assert_non_null(why);
    assert_non_null(strstr(why, reason));
}

static void test_values(void **state)
{
    (void)state;
    check(PICKLE("K\x07."), "7");
    check(PICKLE("M\x34\x12."), "4660");
    check(PICKLE("J\xfe\xff\xff\xff."), "-2");
    check(PICKLE("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), "-9223372036854775808");
    check(PICKLE("\x8a\x01\xff."), "-1");
    check(PICKLE("\x8a\x00."), "0");
    check(PICKLE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."), "9.2233720368547758e18");
    check(PICKLE("G\x3f\xf8\x00\x00\x00\x00\x00\x00."), "1.5");
    check(PICKLE("G\x7f\xf8\x00\x00\x00\x00\x00\x00."), "null");
    check(PICKLE("X\x02\x00\x00\x00hi."), "\"hi\"");
    check(PICKLE("N."), "null");
    check(PICKLE("\x88."), "true");
    check(PICKLE("]q\x00(K\x01K\x02"
                 "e."),
          "[1,2]");
    check(PICKLE("}q\x00(X\x01\x00\x00\x00kq\x01"
                 "K\x01h\x01K\x02u."),
          "{\"k\":2}");
    check(PICKLE("}K\x05K\x06s."), "{\"5\":6}");
    check(PICKLE("K\x01K\x02\x86."), "[1,2]");
    check(PICKLE("(K\x01t."), "[1]");
    check(PICKLE("]K\x01"
                 "a."),
          "[1]");
    check(PICKLE("ctorch.jit._pickle\nbuild_intlist\n(](K\x01K\x02"
                 "etR."),
          "[1,2]");
}

static void test_refused(void **state)
{
    (void)state;
    refused(PICKLE("cos\nsystem\nX\x04\x00\x00\x00true\x85R."), "refused");
    refused(PICKLE("ctorch.jit._pickle\nbuild_intlist\n."), "function");
    refused(PICKLE("]ctorch.jit._pickle\nbuild_intlist\na."), "function");
    refused(PICKLE("K\x01)R."), "refused");
    refused(PICKLE("X\xff\xff\xff\xffhi."), "middle");
    refused(PICKLE("K\x01"), "middle");
    refused(PICKLE("."), "empty");
    refused(PICKLE("a."), "empty");
    refused(PICKLE("e."), "mark");
    refused(PICKLE("(."), "empty");
    refused(PICKLE("K\x01K\x02"
                   "a."),
            "no list");
    refused(PICKLE("}NK\x02s."), "key");
    refused(PICKLE("h\x07."), "never kept");
    refused(PICKLE("]r\xff\xff\xff\xff."), "memo");
    refused(PICKLE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "64 bits");
    refused(PICKLE("i."), "operation");
    refused(PICKLE("]q\x00q\x01."), "twice");
}

/* A list that is put into itself holds a copy of what it was. */
static void test_no_cycles(void **state)
{
    (void)state;
    check(PICKLE("]q\x00(K\x01h\x00"
                 "e."),
          "[1,[]]");
}

/* What the memo gives back may be used often, but not changed: neither directly nor as the result of a call. */
static void test_shared(void **state)
{
    static const PickleLimits few = {.values = 100, .expanded = 5};
    const Span four = PICKLE("(]q\x00(K\x01K\x02"
                             "eh\x00t."); /* 1 + 3 + 3 values */
    const char *why = NULL;

    (void)state;
    check(four, "[[1,2],[1,2]]");
    assert_null(nccl_parse_pickle(four, &few, &why));
    assert_string_equal(why, "it holds too many values");
    refused(PICKLE("(]q\x00\x85h\x00K\x01"
                   "at."),
            "used elsewhere");
    refused(PICKLE("(ctorch.jit._pickle\nbuild_intlist\n]q\x00\x85Rh\x00"
                   "at."),
            "used elsewhere");
}

/* Each list holds the last one twice: 2^60 values if nobody counted. And one in the other a thousand times. */
static void test_bombs(void **state)
{
    enum { ROUNDS = 40, DEPTH = 1000 };
    char room[ROUNDS * 16 + DEPTH * 2 + 16];
    size_t len = 0;

    (void)state;
    memcpy(room,
           "\x80\x02]q\x00(K\x01K\x01"
           "e0",
           11);
    len = 10;
    for (int i = 0; i < ROUNDS; i++) {
        static const char round[] = "h\x00h\x00\x86q\x00";
        memcpy(room + len, round, sizeof round - 1);
        len += sizeof round - 1;
    }
    room[len++] = '.';
    refused((Span){room, len}, "too many values");
    len = 2;
    for (int i = 0; i < DEPTH; i++)
        room[len++] = ']';
    for (int i = 1; i < DEPTH; i++)
        room[len++] = 'a';
    room[len++] = '.';
    refused((Span){room, len}, "deeply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_refused), cmocka_unit_test(test_no_cycles),
        cmocka_unit_test(test_shared), cmocka_unit_test(test_bombs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
