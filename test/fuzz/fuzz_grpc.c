/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: wire/grpc/session. The input is what a server sends: a byte for the size of the pieces it comes in, a
 * byte that says which call is cancelled after which piece, then the bytes. Whatever comes, a call ends once, with a
 * reply inside its limit and a printable text. */
#include <stdlib.h>
#include <string.h>

#include "wire/grpc/session.h"

enum { CALLS = 3, REPLY_MAX = 4096, OUT_MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const GrpcExchange *call)
{
    GrpcReply reply = grpc_exchange_reply(call);

    if (!call->finished)
        return;
    if (reply.outcome >= GRPC_OUTCOME_END || reply.status >= GRPC_STATUS_END || reply.len > REPLY_MAX)
        abort();
    if ((reply.outcome == GRPC_ANSWERED && reply.status == GRPC_OK) != !reply.text[0])
        abort();
    for (const char *c = reply.text; *c; c++) {
        if (*c < ' ' || *c > '~')
            abort();
    }
}

/* False where the connection is to be closed. */
static int pump(GrpcSession *session, const uint8_t *bytes, size_t len)
{
    const uint8_t *out;
    size_t out_len = 1, all = 0;

    if (grpc_session_receive(session, bytes, len, NULL) < 0)
        return 0;
    while (out_len) {
        if (grpc_session_send(session, &out, &out_len, NULL) < 0)
            return 0;
        all += out_len;
        if (all > OUT_MAX)
            abort();
    }
    return !grpc_session_is_over(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const GrpcSessionConfig config = {"localhost", "fuzz"};
    GrpcExchange calls[CALLS];
    GrpcSession *session;
    size_t piece, cancel, n = 0;

    if (size < 2)
        return 0;
    piece = (size_t)data[0] + 1;
    cancel = data[1];
    session = grpc_session_new(&config);
    for (size_t i = 0; i < CALLS; i++) {
        grpc_exchange_init(&calls[i], "/v1.PodResourcesLister/List", (const uint8_t *)"request", 7, REPLY_MAX);
        grpc_session_submit(session, &calls[i], 1000000000);
    }
    for (size_t at = 2; at <= size; at += piece, n++) {
        size_t len = size - at < piece ? size - at : piece;

        if (cancel / CALLS == n)
            grpc_session_cancel(session, &calls[cancel % CALLS]);
        if (!pump(session, data + at, len))
            break;
        for (size_t i = 0; i < CALLS; i++)
            check(&calls[i]);
    }
    grpc_session_end(session, GRPC_UNREACHABLE, "the end");
    if (grpc_session_calls(session))
        abort();
    grpc_session_free(session);
    for (size_t i = 0; i < CALLS; i++) {
        if (!calls[i].finished && cancel % CALLS != i)
            abort();
        check(&calls[i]);
        grpc_exchange_done(&calls[i]);
    }
    return 0;
}
