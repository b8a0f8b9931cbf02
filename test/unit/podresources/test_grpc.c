/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/grpc: field.c, message.c, exchange.c, reply.c, session.c without a socket. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/owner.h"
#include "wire/grpc/exchange.h"
#include "wire/grpc/field.h"
#include "wire/grpc/message.h"
#include "wire/grpc/session.h"

static void test_timeout(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {
        {0, "0n"},
        {1, "1n"},
        {99999998, "99999998n"},
        {NS_PER_S, "1000000u"},
        {NS_PER_S + 1, "1000001u"},
        {5 * NS_PER_S, "5000000u"},
        {100 * NS_PER_S, "100000m"},
        {NS_PER_DAY, "86400000m"},
        {30 * NS_PER_DAY, "2592000S"},
        {99999999 * NS_PER_S, "1666667M"},
        {UINT64_MAX, "5124096H"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[GRPC_TIMEOUT_MAX + 1] = "";

        text[grpc_field_timeout(text, rows[i].ns)] = '\0';
        assert_string_equal(text, rows[i].text);
    }
}

/* Never sooner than what was asked for, and hardly later. */
static void test_timeout_rounds_up(void **state)
{
    static const char units[] = "numSMH";
    static const uint64_t unit_ns[] = {1, NS_PER_US, NS_PER_MS, NS_PER_S, NS_PER_MIN, NS_PER_H};

    (void)state;
    for (uint64_t ns = 3; ns < UINT64_MAX / 7; ns = ns * 7 + 1) {
        char text[GRPC_TIMEOUT_MAX];
        size_t len = grpc_field_timeout(text, ns);
        uint64_t value = 0, unit = unit_ns[strchr(units, text[len - 1]) - units];

        for (size_t i = 0; i + 1 < len; i++)
            value = value * 10 + (uint64_t)(text[i] - '0');
        assert_true(len <= 9);
        assert_true(value >= ns / unit && (value - ns / unit <= 1));
        assert_true(ns % unit == 0 || value == ns / unit + 1);
    }
}

static void test_status(void **state)
{
    GrpcStatus status = GRPC_ABORTED;

    (void)state;
    assert_true(grpc_field_status("0", 1, &status));
    assert_int_equal(status, GRPC_OK);
    assert_true(grpc_field_status("14junk", 2, &status));
    assert_int_equal(status, GRPC_UNAVAILABLE);
    assert_true(grpc_field_status("17", 2, &status));
    assert_int_equal(status, GRPC_UNKNOWN);
    assert_false(grpc_field_status("", 0, &status));
    assert_false(grpc_field_status("-1", 2, &status));
    assert_false(grpc_field_status("99999999999", 11, &status));
    for (int i = 0; i < GRPC_STATUS_END; i++)
        assert_non_null(grpc_status_name((GrpcStatus)i));
    assert_string_equal(grpc_status_name(GRPC_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
    assert_string_equal(grpc_status_name((GrpcStatus)99), "UNKNOWN");
    for (int i = 0; i < GRPC_OUTCOME_END; i++)
        assert_non_null(grpc_outcome_key((GrpcOutcome)i));
}

static void message(const char *in, const char *wanted, size_t cap)
{
    char out[64];

    grpc_field_message(in, strlen(in), out, cap);
    assert_string_equal(out, wanted);
}

static void test_message_text(void **state)
{
    (void)state;
    message("", "", 64);
    message("plain", "plain", 64);
    message("a%20b%2Fc%2fd", "a b/c/d", 64);
    message("100%", "100%", 64);
    message("100%2", "100%2", 64);
    message("%zz%4", "%zz%4", 64);
    message("%00%0a%7f%ff", "????", 64);
    message("cut here", "cut", 4);
    message("x%41", "x", 2);
    message("anything", "", 1);
}

static void test_content_type(void **state)
{
    (void)state;
    assert_true(grpc_field_is_grpc("application/grpc", 16));
    assert_true(grpc_field_is_grpc("Application/GRPC+proto", 22));
    assert_true(grpc_field_is_grpc("application/grpc;x=1", 20));
    assert_false(grpc_field_is_grpc("application/grpc-web", 20));
    assert_false(grpc_field_is_grpc("application/grp", 15));
    assert_false(grpc_field_is_grpc("", 0));
}

/* Any cut into two gives the same message, and byte by byte too. */
static void test_framing_in_pieces(void **state)
{
    static const uint8_t wire[] = "\0\0\0\0\6abcdef";
    enum { LEN = sizeof(wire) - 1 };

    (void)state;
    for (size_t cut = 0; cut <= LEN; cut++) {
        GrpcMessage all;

        grpc_message_init(&all, 6);
        assert_int_equal(grpc_message_add(&all, wire, cut, NULL), 0);
        assert_int_equal(grpc_message_is_empty(&all), cut == 0);
        assert_int_equal(grpc_message_is_whole(&all), cut == LEN);
        assert_int_equal(grpc_message_add(&all, wire + cut, LEN - cut, NULL), 0);
        assert_true(grpc_message_is_whole(&all));
        assert_int_equal(all.len, 6);
        assert_memory_equal(all.bytes, "abcdef", 6);
        assert_int_equal(grpc_message_add(&all, wire, 1, NULL), -EBADMSG);
        grpc_message_done(&all);
    }
}

static void refused(const char *wire, size_t len, size_t max, int rc)
{
    GrpcMessage all;
    Err err = {0};

    grpc_message_init(&all, max);
    assert_int_equal(grpc_message_add(&all, (const uint8_t *)wire, len, &err), rc);
    assert_int_equal(err.code, rc);
    assert_int_equal(all.cap, 0); /* nothing is allocated for what is only announced */
    grpc_message_done(&all);
}

static void test_framing_refuses(void **state)
{
    (void)state;
    refused("\1\0\0\0\1a", 6, 10, -ENOTSUP);
    refused("\2\0\0\0\1a", 6, 10, -EBADMSG);
    refused("\0\0\0\0\2ab", 7, 1, -EMSGSIZE);
    refused("\0\377\377\377\377a", 6, 1 << 20, -EMSGSIZE);
    refused("\0\0\0\0\0a", 6, 10, -EBADMSG);
}

static void test_prefix(void **state)
{
    uint8_t prefix[GRPC_PREFIX_BYTES];

    (void)state;
    grpc_message_prefix(prefix, 0x01020304);
    assert_memory_equal(prefix, "\0\1\2\3\4", 5);
}

static void field(GrpcExchange *exchange, const char *name, const char *value)
{
    grpc_exchange_field(exchange, name, strlen(name), value, strlen(value));
}

static void start(GrpcExchange *exchange)
{
    grpc_exchange_init(exchange, "/a/B", (const uint8_t *)"hi", 2, 100);
    assert_int_equal(exchange->request_len, 7);
    assert_memory_equal(exchange->request, "\0\0\0\0\2hi", 7);
    field(exchange, ":status", "200");
    field(exchange, "content-type", "application/grpc");
}

static void test_exchange_answered(void **state)
{
    GrpcExchange exchange;
    GrpcReply reply;

    (void)state;
    start(&exchange);
    assert_int_equal(grpc_exchange_data(&exchange, (const uint8_t *)"\0\0\0\0\3yes", 8), 0);
    field(&exchange, "grpc-status", "0");
    grpc_exchange_end(&exchange, 0);
    reply = grpc_exchange_reply(&exchange);
    assert_int_equal(reply.outcome, GRPC_ANSWERED);
    assert_int_equal(reply.len, 3);
    assert_memory_equal(reply.bytes, "yes", 3);
    assert_string_equal(reply.text, "");
    grpc_exchange_finish(&exchange, GRPC_TIMED_OUT, GRPC_DEADLINE_EXCEEDED, "late"); /* the first verdict stays */
    assert_int_equal(exchange.outcome, GRPC_ANSWERED);
    grpc_exchange_done(&exchange);
    grpc_exchange_done(&exchange);
}

static void test_exchange_rewound(void **state)
{
    GrpcExchange exchange;

    (void)state;
    start(&exchange);
    assert_int_equal(grpc_exchange_data(&exchange, (const uint8_t *)"\0\0\0\0\3y", 6), 0);
    exchange.request_sent = 7;
    exchange.stream = 3;
    grpc_exchange_end(&exchange, 7); /* REFUSED_STREAM */
    assert_true(exchange.finished && exchange.unprocessed);
    assert_int_equal(exchange.outcome, GRPC_UNREACHABLE);
    grpc_exchange_rewind(&exchange);
    assert_false(exchange.finished || exchange.unprocessed);
    assert_int_equal(exchange.request_sent, 0);
    assert_int_equal(exchange.stream, 0);
    assert_true(grpc_message_is_empty(&exchange.message));
    assert_int_equal(exchange.message.max, 100);
    assert_string_equal(exchange.method, "/a/B");
    grpc_exchange_done(&exchange);
}

static void test_text_join(void **state)
{
    char text[GRPC_TEXT_CAP], longer[2 * GRPC_TEXT_CAP];

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    grpc_text_join(text, "ab", "cd");
    assert_string_equal(text, "abcd");
    grpc_text_join(text, text, "ef");
    assert_string_equal(text, "abcdef");
    grpc_text_join(text, text, longer);
    assert_int_equal(strlen(text), GRPC_TEXT_CAP - 1);
    grpc_text_join(text, longer, "z");
    assert_int_equal(strlen(text), GRPC_TEXT_CAP - 1);
}

static size_t drain(GrpcSession *session)
{
    const uint8_t *bytes;
    size_t len = 1, all = 0;

    while (len) {
        assert_int_equal(grpc_session_send(session, &bytes, &len, NULL), 0);
        all += len;
    }
    return all;
}

static void test_session_goaway_and_cancel(void **state)
{
    static const GrpcSessionConfig config = {"localhost", "test"};
    static const uint8_t settings[] = "\0\0\0\4\0\0\0\0\0", goaway[] = "\0\0\x0b\7\0\0\0\0\0\0\0\0\1\0\0\0\0bye";
    GrpcSession *session = grpc_session_new(&config);
    GrpcExchange calls[4];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        grpc_exchange_init(&calls[i], "/a/B", NULL, 0, 100);
    for (size_t i = 0; i < 3; i++)
        grpc_session_submit(session, &calls[i], NS_PER_S);
    assert_true(drain(session) > 24);
    assert_int_equal(drain(session), 0);
    assert_int_equal(grpc_session_calls(session), 3);
    grpc_session_cancel(session, &calls[2]);
    grpc_session_cancel(session, &calls[2]);
    assert_false(calls[2].finished);
    assert_int_equal(grpc_session_receive(session, settings, sizeof(settings) - 1, NULL), 0);
    assert_true(grpc_session_is_open(session));
    /* the server has begun with stream 1 alone */
    assert_int_equal(grpc_session_receive(session, goaway, sizeof(goaway) - 1, NULL), 0);
    assert_false(grpc_session_is_open(session));
    assert_string_equal(grpc_session_farewell(session), "NO_ERROR, bye");
    assert_true(calls[1].finished && calls[1].unprocessed);
    assert_false(calls[0].finished);
    grpc_session_submit(session, &calls[3], NS_PER_S);
    assert_true(calls[3].finished && calls[3].unprocessed);
    grpc_session_end(session, GRPC_UNREACHABLE, "gone");
    assert_true(calls[0].finished);
    assert_string_equal(calls[0].text, "gone");
    assert_int_equal(grpc_session_calls(session), 0);
    grpc_session_free(session);
    grpc_session_free(NULL);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        grpc_exchange_done(&calls[i]);
}

static void test_session_of_no_http2(void **state)
{
    static const GrpcSessionConfig config = {"localhost", "test"};
    static const uint8_t http1[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    GrpcSession *session = grpc_session_new(&config);
    const uint8_t *bytes;
    size_t len = 1;
    Err err = {0};
    int rc = grpc_session_receive(session, http1, sizeof(http1) - 1, &err);

    (void)state;
    while (!rc && len)
        rc = grpc_session_send(session, &bytes, &len, &err);
    assert_int_equal(rc, -EPROTO);
    assert_non_null(strstr(err.text, "no sound HTTP/2"));
    grpc_session_free(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_timeout_rounds_up),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_message_text),
        cmocka_unit_test(test_content_type),
        cmocka_unit_test(test_framing_in_pieces),
        cmocka_unit_test(test_framing_refuses),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_exchange_answered),
        cmocka_unit_test(test_exchange_rewound),
        cmocka_unit_test(test_text_join),
        cmocka_unit_test(test_session_goaway_and_cancel),
        cmocka_unit_test(test_session_of_no_http2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
