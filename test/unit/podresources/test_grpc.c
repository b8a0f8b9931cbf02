/* SPDX-License-Identifier: Apache-2.0 */
/* Covers the exchange of src/wire/grpc/grpc.c, without a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "wire/grpc/grpc.h"

enum { REPLY_MAX = 10, END_STREAM = 1, END_HEADERS = 4 };

static void test_status_names(void **state)
{
    (void)state;
    for (int i = 0; i < GRPC_STATUS_END; i++)
        assert_non_null(grpc_status_name((GrpcStatus)i));
    assert_string_equal(grpc_status_name(GRPC_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
    assert_string_equal(grpc_status_name((GrpcStatus)99), "UNKNOWN");
}

/* -- what a server sends --------------------------------------------------------------------------------------------
 */

static void add_frame(Str *wire, char kind, char flags, const char *payload, size_t len)
{
    const char head[] = {0, (char)(len >> 8), (char)len, kind, flags, 0, 0, 0, kind == 4 || kind == 7 ? 0 : 1};

    str_addn(wire, head, sizeof(head));
    str_addn(wire, payload, len);
}

/* HPACK: literals without indexing. */
static void add_field(Str *block, const char *name, const char *value)
{
    str_addc(block, 0);
    str_addc(block, (char)strlen(name));
    str_add(block, name);
    str_addc(block, (char)strlen(value));
    str_add(block, value);
}

static void add_head(Str *wire, const char *status, const char *type)
{
    char room[200];
    Str block;

    str_init_room(&block, room, sizeof(room));
    add_field(&block, ":status", status);
    add_field(&block, "content-type", type);
    add_frame(wire, 1, END_HEADERS, block.text, block.len);
}

static void add_trailers(Str *wire, const char *status, const char *message)
{
    char room[200];
    Str block;

    str_init_room(&block, room, sizeof(room));
    if (status)
        add_field(&block, "grpc-status", status);
    if (message)
        add_field(&block, "grpc-message", message);
    add_field(&block, "x", "y");
    add_frame(wire, 1, END_HEADERS | END_STREAM, block.text, block.len);
}

#define BYTES(text) (text), sizeof(text) - 1

/* Plays the wire into a call in pieces of this size; the reply must be this one. */
static void play(const Str *wire, size_t piece, GrpcOutcome outcome, GrpcStatus status, const char *text)
{
    const GrpcRequest request = {
        .method = "/a/B", .bytes = (const uint8_t *)"hi", .len = 2, .timeout_ns = NS_PER_S, .reply_max = REPLY_MAX};
    GrpcExchange *exchange = grpc_exchange_new(&request);
    const uint8_t *out;
    GrpcReply reply;
    size_t sent = 0, len;

    while ((len = grpc_exchange_send(exchange, &out)) > 0)
        sent += len;
    assert_true(sent > 24 + 7);
    assert_false(grpc_exchange_reply(exchange, &reply));
    for (size_t at = 0; at < wire->len; at += piece) {
        grpc_exchange_receive(exchange, (const uint8_t *)wire->text + at,
                              wire->len - at < piece ? wire->len - at : piece);
        while (grpc_exchange_send(exchange, &out) > 0) {
        }
    }
    grpc_exchange_closed(exchange, "the server closed the connection");
    assert_true(grpc_exchange_reply(exchange, &reply));
    assert_string_equal(reply.text, text);
    assert_int_equal(reply.outcome, outcome);
    assert_int_equal(reply.status, status);
    if (status == GRPC_OK) {
        assert_int_equal(reply.len, 3);
        assert_memory_equal(reply.bytes, "yes", 3);
    }
    grpc_exchange_finish(exchange, GRPC_TIMED_OUT, GRPC_DEADLINE_EXCEEDED, "late"); /* the first verdict stays */
    assert_true(grpc_exchange_reply(exchange, &reply));
    assert_int_equal(reply.outcome, outcome);
    grpc_exchange_free(exchange);
    grpc_exchange_free(NULL);
}

static void start(Str *wire)
{
    str_clear(wire);
    add_frame(wire, 4, 0, "", 0);
}

static int set_up(void **state)
{
    static Str wire;

    str_init(&wire, 1 << 16);
    start(&wire);
    *state = &wire;
    return 0;
}

static int tear_down(void **state)
{
    str_done(*state);
    return 0;
}

static void test_answer_in_pieces_of_any_size(void **state)
{
    Str *wire = *state;

    add_head(wire, "200", "Application/GRPC+proto");
    add_frame(wire, 0, 0, BYTES("\0\0\0\0\3ye"));
    add_frame(wire, 0, 0, BYTES("s"));
    add_trailers(wire, "0", NULL);
    for (size_t piece = 1; piece <= wire->len; piece++)
        play(wire, piece, GRPC_ANSWERED, GRPC_OK, "");
}

static void test_interim_answer(void **state)
{
    Str *wire = *state;

    add_head(wire, "100", "text/plain");
    add_head(wire, "200", "application/grpc;x=1");
    add_frame(wire, 0, 0, BYTES("\0\0\0\0\3yes"));
    add_trailers(wire, "0", NULL);
    play(wire, wire->len, GRPC_ANSWERED, GRPC_OK, "");
}

static void test_errors_of_the_server(void **state)
{
    static const struct {
        const char *status, *message, *text;
        GrpcOutcome outcome;
        GrpcStatus wanted;
    } rows[] = {
        {"14", "a%20b%2Fc%2fd", "UNAVAILABLE: a b/c/d", GRPC_ANSWERED, GRPC_UNAVAILABLE},
        {"9", "100%2", "FAILED_PRECONDITION: 100%2", GRPC_ANSWERED, (GrpcStatus)9},
        {"9", "%zz%4%0x", "FAILED_PRECONDITION: %zz%4%0x", GRPC_ANSWERED, (GrpcStatus)9},
        {"5", "%00%0a%7f%ff", "NOT_FOUND: ????", GRPC_ANSWERED, (GrpcStatus)5},
        {"17", NULL, "UNKNOWN: ", GRPC_ANSWERED, GRPC_UNKNOWN},
        {"-1", NULL, "the reply ends without a grpc-status", GRPC_BAD_REPLY, GRPC_UNKNOWN},
        {"99999999999", NULL, "the reply ends without a grpc-status", GRPC_BAD_REPLY, GRPC_UNKNOWN},
        {NULL, NULL, "the reply ends without a grpc-status", GRPC_BAD_REPLY, GRPC_UNKNOWN},
        {"0", NULL, "status OK, but no message", GRPC_BAD_REPLY, GRPC_INTERNAL},
    };
    Str *wire = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start(wire);
        add_head(wire, "200", "application/grpc");
        add_trailers(wire, rows[i].status, rows[i].message);
        play(wire, wire->len, rows[i].outcome, rows[i].wanted, rows[i].text);
    }
}

static void test_bad_messages(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *text;
        GrpcStatus status;
    } rows[] = {
        {BYTES("\1\0\0\0\1a"), "the message is compressed", GRPC_INTERNAL},
        {BYTES("\2\0\0\0\1a"), "a message begins with flag 2", GRPC_INTERNAL},
        {BYTES("\0\0\0\0\x0b"), "a message of 11 bytes, and 10 are the most", GRPC_RESOURCE_EXHAUSTED},
        {BYTES("\0\377\377\377\377a"), "a message of 4294967295 bytes, and 10 are the most", GRPC_RESOURCE_EXHAUSTED},
        {BYTES("\0\0\0\0\0a"), "more than one message", GRPC_INTERNAL},
        {BYTES("\0\0\0\0\3yes\0"), "more than one message", GRPC_INTERNAL},
        {BYTES("\0\0\0\0\12abcdefghij\0\0\0\0\12abcdefghij"), "more than one message", GRPC_INTERNAL},
        {BYTES("\0\0\0\0\3ye"), "the message is cut short", GRPC_INTERNAL},
        {BYTES("\0\0"), "the message is cut short", GRPC_INTERNAL},
    };
    Str *wire = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start(wire);
        add_head(wire, "200", "application/grpc");
        add_frame(wire, 0, 0, rows[i].bytes, rows[i].len);
        add_trailers(wire, "0", NULL);
        play(wire, wire->len, GRPC_BAD_REPLY, rows[i].status, rows[i].text);
        play(wire, 1, GRPC_BAD_REPLY, rows[i].status, rows[i].text);
    }
}

static void test_no_grpc(void **state)
{
    static const struct {
        const char *status, *type, *text;
    } rows[] = {
        {"404", "application/grpc", "no gRPC: HTTP status 404"},
        {"200", "application/grpc-web", "no gRPC: HTTP status 200, another content-type than application/grpc"},
        {"200", "application/grp", "no gRPC: HTTP status 200, another content-type than application/grpc"},
    };
    Str *wire = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start(wire);
        add_head(wire, rows[i].status, rows[i].type);
        add_frame(wire, 0, 0, BYTES("\0\0\0\0\3yes"));
        add_trailers(wire, "0", NULL);
        play(wire, wire->len, GRPC_BAD_REPLY, GRPC_UNKNOWN, rows[i].text);
    }
}

static void test_the_end_of_a_stream_and_of_a_connection(void **state)
{
    Str *wire = *state;

    add_head(wire, "200", "application/grpc");
    play(wire, wire->len, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "the server closed the connection");
    add_frame(wire, 7, 0, BYTES("\0\0\0\1\0\0\0\0bye"));
    play(wire, wire->len, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "the server closed the connection: NO_ERROR, bye");
    add_frame(wire, 3, 0, BYTES("\0\0\0\x08"));
    play(wire, wire->len, GRPC_UNREACHABLE, GRPC_CANCELLED, "the server dropped the call: CANCEL");
    start(wire);
    add_frame(wire, 3, 0, BYTES("\0\0\0\x07"));
    play(wire, wire->len, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "the server turned the call away: REFUSED_STREAM");
    start(wire);
    add_frame(wire, 7, 0, BYTES("\0\0\0\0\0\0\0\0")); /* it has not begun with the call */
    play(wire, wire->len, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "the server turned the call away: REFUSED_STREAM");
    str_clear(wire);
    str_add(wire, "HTTP/1.1 400 Bad Request\r\n\r\n");
    play(wire, wire->len, GRPC_BAD_REPLY, GRPC_INTERNAL, "no sound HTTP/2: PROTOCOL_ERROR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),
        cmocka_unit_test_setup_teardown(test_answer_in_pieces_of_any_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interim_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_of_the_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_grpc, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_end_of_a_stream_and_of_a_connection, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
