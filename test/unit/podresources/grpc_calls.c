/* SPDX-License-Identifier: Apache-2.0 */
/* Makes gRPC calls as it is told, for test_grpc_client.py:  grpc_calls SOCKET CALLS_MAX
 * Commands: call ID METHOD TIMEOUT_MS BYTES, cancel ID, reset, again ID (the reply to ID makes it call once more),
 * close_in ID (the reply to ID closes the client), stat, quit. Prints "reply ID OUTCOME STATUS LEN SUM TEXT". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/err.h"
#include "commands.h"
#include "wire/grpc/client.h"

enum { SLOTS = 256 };

typedef struct Slot {
    struct Calls *calls;
    int id;
    GrpcCall *call;
    char method[64];
    unsigned long timeout_ms;
    unsigned bytes;
} Slot;

typedef struct Calls {
    uv_loop_t loop;
    Commands commands;
    GrpcClient *client;
    Slot slots[SLOTS];
    int again, close_in;
} Calls;

static void on_closed(void *self)
{
    Calls *calls = self;

    printf("closed\n");
    commands_stop(&calls->commands);
}

static void close_client(Calls *calls)
{
    if (calls->client)
        grpc_client_close(calls->client, on_closed, calls);
    calls->client = NULL;
}

static void on_reply(void *self, const GrpcReply *reply);

static void call(Slot *slot)
{
    uint8_t *bytes = malloc(slot->bytes + 1);
    Err err = {0};

    if (!bytes)
        abort();
    for (unsigned i = 0; i < slot->bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + (unsigned)slot->id);
    if (grpc_client_call(slot->calls->client, slot->method, bytes, slot->bytes, slot->timeout_ms * NS_PER_MS, on_reply,
                         slot, &slot->call, &err) < 0)
        printf("refused %d %s\n", slot->id, err.text);
    free(bytes);
}

static void on_reply(void *self, const GrpcReply *reply)
{
    Slot *slot = self;
    Calls *calls = slot->calls;
    unsigned sum = 0;

    for (size_t i = 0; i < reply->len; i++)
        sum = sum * 31 + reply->bytes[i];
    printf("reply %d %s %s %zu %u %s\n", slot->id, grpc_outcome_key(reply->outcome), grpc_status_name(reply->status),
           reply->len, sum, reply->text);
    slot->call = NULL;
    if (calls->again == slot->id) {
        calls->again = -1;
        call(slot);
    }
    if (calls->close_in == slot->id)
        close_client(calls);
}

static void on_line(void *self, char *line)
{
    Calls *calls = self;
    Slot slot = {.calls = calls};

    if (strcmp(line, "quit") == 0) {
        close_client(calls);
    } else if (!calls->client) {
        return;
    } else if (sscanf(line, "call %d %63s %lu %u", &slot.id, slot.method, &slot.timeout_ms, &slot.bytes) == 4) {
        calls->slots[slot.id % SLOTS] = slot;
        call(&calls->slots[slot.id % SLOTS]);
    } else if (sscanf(line, "cancel %d", &slot.id) == 1) {
        if (calls->slots[slot.id % SLOTS].call)
            grpc_call_cancel(calls->slots[slot.id % SLOTS].call);
        calls->slots[slot.id % SLOTS].call = NULL;
        printf("cancelled %d\n", slot.id);
    } else if (strcmp(line, "reset") == 0) {
        grpc_client_reset(calls->client);
    } else if (strcmp(line, "stat") == 0) {
        printf("stat");
        commands_print_cost();
        printf("\n");
    } else if (sscanf(line, "again %d", &calls->again) != 1 && sscanf(line, "close_in %d", &calls->close_in) != 1) {
        printf("what? %s\n", line);
    }
}

int main(int argc, char **argv)
{
    static Calls calls = {.again = -1, .close_in = -1};
    GrpcClientConfig config = {
        .reply_bytes = 8 << 20, .backoff_min_ns = 50 * NS_PER_MS, .backoff_max_ns = 200 * NS_PER_MS};
    Err err = {0};

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3)
        return 2;
    config.socket = argv[1];
    config.calls_max = (size_t)atoi(argv[2]);
    uv_loop_init(&calls.loop);
    if (grpc_client_new(&calls.loop, &config, &calls.client, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    commands_start(&calls.commands, &calls.loop, on_line, &calls);
    uv_run(&calls.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&calls.loop) == 0 ? 0 : 3;
}
