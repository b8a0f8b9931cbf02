/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: wire/grpc. The input is what a server sends: a byte for the size of the pieces it comes in, a
 * byte that says after which piece the connection closes, then the bytes. Whatever comes, the call ends, with a reply
 * inside its limit and a printable text. */
#include <stdlib.h>
#include <string.h>

#include "wire/grpc/grpc.h"

enum { REPLY_MAX = 4096, OUT_MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_reply(const GrpcReply *reply)
{
    if (reply->outcome >= GRPC_OUTCOME_END || reply->status >= GRPC_STATUS_END || reply->len > REPLY_MAX)
        abort();
    if ((reply->outcome == GRPC_ANSWERED && reply->status == GRPC_OK) != !reply->text[0])
        abort();
    for (const char *c = reply->text; *c; c++)
        if (*c < ' ' || *c > '~')
            abort();
}

static void send_all(GrpcExchange *exchange)
{
    const uint8_t *out;
    size_t len, all = 0;

    while ((len = grpc_exchange_send(exchange, &out)) > 0)
        if ((all += len) > OUT_MAX)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const GrpcRequest request = {.method = "/v1.PodResourcesLister/List",
                                        .bytes = (const uint8_t *)"request",
                                        .len = 7,
                                        .timeout_ns = 1000000000,
                                        .reply_max = REPLY_MAX};
    GrpcExchange *exchange;
    GrpcReply reply;
    size_t piece, last, n = 0;

    if (size < 2)
        return 0;
    piece = (size_t)data[0] + 1;
    last = data[1];
    exchange = grpc_exchange_new(&request);
    send_all(exchange);
    for (size_t at = 2; at <= size && n <= last && !grpc_exchange_reply(exchange, &reply); at += piece, n++) {
        grpc_exchange_receive(exchange, data + at, size - at < piece ? size - at : piece);
        send_all(exchange);
    }
    grpc_exchange_closed(exchange, "the end");
    if (!grpc_exchange_reply(exchange, &reply))
        abort();
    check_reply(&reply);
    grpc_exchange_free(exchange);
    return 0;
}
