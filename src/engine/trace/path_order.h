/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the walk of the critical path looks up, going back in time: the last operation of a stream that had ended by a
 * moment, what a host thread did. All look-ups ask for moments that never grow, so that cursors move one way and the
 * whole walk is linear. Borrowed index. One thread at a time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "engine/trace/index.h"

enum { PATH_STREAMS_MAX = 64, PATH_THREADS_MAX = 16 };

typedef struct PathSpan {
    int64_t start, end;
} PathSpan;

/* A host thread that launches work, and when it does anything but wait in Python or an annotation. */
typedef struct PathThread {
    uint32_t lane;
    uint64_t launches;
    VEC(PathSpan) busy; /* disjoint, by time */
    size_t cursor;      /* spans that start before the last moment asked for */
} PathThread;

/* "Stream Wait Event": what `lane` starts after it waits for `other`. */
typedef struct PathWait {
    uint32_t lane, other;
    int64_t start;
} PathWait;

typedef struct PathOrder {
    const TraceIndex *index;
    const Profile *profile;
    const uint32_t *rows;       /* of the gpu table, by stream, by end */
    uint32_t *own_rows;         /* the same, where the index's are in another order; else NULL */
    const size_t *stream_first; /* lane -> first of its rows; one more at the end */
    size_t *stream_next;        /* lane -> one behind the last that may still be asked for */
    size_t *host_next;          /* lane -> one behind the last host row that may still be asked for */
    VEC(uint32_t) streams;      /* lanes with operations, at most PATH_STREAMS_MAX: those with most */
    VEC(PathThread) threads;
    VEC(PathWait) waits; /* by lane, start */
    uint8_t *in_data;    /* bit per host row: inside data loading; NULL: none is */
} PathOrder;

void path_order_init(PathOrder *order, const TraceIndex *index);
void path_order_done(PathOrder *order);

/* The operation of the stream with the latest end <= time that was not handed out yet; PROFILE_NONE. */
uint32_t path_order_last(PathOrder *order, uint32_t stream, int64_t time);
/* The same over the streams of a device (-1: of all). */
uint32_t path_order_last_of_device(PathOrder *order, int64_t device, int64_t time);
/* The operation that runs at `time` or ends there: start < time <= end; of several compute before communication before
 * copies, then the one that started last. */
uint32_t path_order_running(PathOrder *order, int64_t time);
/* Hands an operation out: neither it nor what ended after it on its stream is found again. */
void path_order_use(PathOrder *order, uint32_t row);

/* The last row of a host lane that starts before `time`, PROFILE_NONE. */
uint32_t path_order_host(PathOrder *order, uint32_t lane, int64_t time);
/* Makes host rows from `row` on unavailable. */
void path_order_host_use(PathOrder *order, uint32_t lane, uint32_t row);

/* Until when, at most `time`, the thread was busy; INT64_MIN where it was not before. */
int64_t path_order_busy(PathThread *thread, int64_t time);

/* The stream that the last wait of `stream` in (after, before] is for, PROFILE_NONE. */
uint32_t path_order_wait(const PathOrder *order, uint32_t stream, int64_t after, int64_t before);

static inline bool path_order_in_data(const PathOrder *order, uint32_t host_row)
{
    return order->in_data && (order->in_data[host_row / 8] >> host_row % 8 & 1);
}
