/* SPDX-License-Identifier: Apache-2.0 */
/* Makes gRPC calls as it is told, for test_grpc_client.py:  grpc_calls SOCKET
 * Commands: call ID METHOD TIMEOUT_MS BYTES, cancel ID, again ID (the reply to ID makes it call once more), close_in ID
 * (the reply to ID cancels all others and ends the program), stat, quit. Prints "reply ID OUTCOME STATUS LEN SUM TEXT".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/err.h"
#include "commands.h"
#include "wire/grpc/grpc.h"

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
    const char *socket;
    bool closed;
    Slot slots[SLOTS];
    int again, close_in;
} Calls;

static const char *const outcomes[GRPC_OUTCOME_END] = {"answered", "no_socket", "unreachable", "timed_out",
                                                       "bad_reply"};

static void close_calls(Calls *calls)
{
    if (calls->closed)
        return;
    calls->closed = true;
    for (size_t i = 0; i < SLOTS; i++)
        if (calls->slots[i].call)
            grpc_call_cancel(calls->slots[i].call);
    printf("closed\n");
    commands_stop(&calls->commands);
}

static void on_reply(void *self, const GrpcReply *reply);

static void call(Slot *slot)
{
    uint8_t *bytes = malloc(slot->bytes + 1);

    if (!bytes)
        abort();
    for (unsigned i = 0; i < slot->bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + (unsigned)slot->id);
    slot->call = grpc_call_new(&slot->calls->loop, slot->calls->socket,
                               &(GrpcRequest){.method = slot->method,
                                              .bytes = bytes,
                                              .len = slot->bytes,
                                              .timeout_ns = slot->timeout_ms * NS_PER_MS,
                                              .reply_max = 8 << 20},
                               on_reply, slot);
    free(bytes);
}

static void on_reply(void *self, const GrpcReply *reply)
{
    Slot *slot = self;
    Calls *calls = slot->calls;
    unsigned sum = 0;

    for (size_t i = 0; i < reply->len; i++)
        sum = sum * 31 + reply->bytes[i];
    printf("reply %d %s %s %zu %u %s\n", slot->id, outcomes[reply->outcome], grpc_status_name(reply->status),
           reply->len, sum, reply->text);
    slot->call = NULL;
    if (calls->again == slot->id) {
        calls->again = -1;
        call(slot);
    }
    if (calls->close_in == slot->id)
        close_calls(calls);
}

static void on_line(void *self, char *line)
{
    Calls *calls = self;
    Slot slot = {.calls = calls};

    if (strcmp(line, "quit") == 0) {
        close_calls(calls);
    } else if (calls->closed) {
        return;
    } else if (sscanf(line, "call %d %63s %lu %u", &slot.id, slot.method, &slot.timeout_ms, &slot.bytes) == 4) {
        calls->slots[slot.id % SLOTS] = slot;
        call(&calls->slots[slot.id % SLOTS]);
    } else if (sscanf(line, "cancel %d", &slot.id) == 1) {
        if (calls->slots[slot.id % SLOTS].call)
            grpc_call_cancel(calls->slots[slot.id % SLOTS].call);
        calls->slots[slot.id % SLOTS].call = NULL;
        printf("cancelled %d\n", slot.id);
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

    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2)
        return 2;
    calls.socket = argv[1];
    uv_loop_init(&calls.loop);
    commands_start(&calls.commands, &calls.loop, on_line, &calls);
    uv_run(&calls.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&calls.loop) == 0 ? 0 : 3;
}
