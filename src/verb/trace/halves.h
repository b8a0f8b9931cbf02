/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Begins and ends (phases B and E) of a trace, kept until all are there and then paired: those of one thread nest. */

#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "engine/trace/scan/scan.h"

typedef struct HalfEvent {
    const char *text; /* of the event */
    size_t len;
    int64_t start;
    uint64_t order;     /* in the file */
    const char *thread; /* "PID\0TID" as in the text */
    size_t thread_len;
    const char *name;
    bool begin, named, wanted;
    ProfileKind kind;
    uint32_t link;
    int32_t device;
    int64_t stream;
} HalfEvent;

typedef struct Halves {
    VEC(HalfEvent) events;
    Arena arena;
} Halves;

void halves_add(Halves *halves, const TraceRaw *raw); /* copies the text; one without a time is left out */
/* Pairs them, and calls `put` for those that `want` says are meant, in the order of the file. One without a partner is
 * left out. */
typedef bool HalvesWant(void *context, const HalfEvent *begin, const HalfEvent *end);
void halves_write(Halves *halves, HalvesWant *want, void (*put)(void *context, const HalfEvent *event), void *context);
void halves_done(Halves *halves); /* accepts a zeroed one */
