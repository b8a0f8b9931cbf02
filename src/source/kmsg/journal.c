/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kmsg/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/subproc.h"

enum { LINE_MAX_BYTES = 256 << 10, READ_BYTES = 64 << 10, QUIET_MS = 300, GRACE_MS = 100, HANDLES = 2 };

struct KmsgJournal {
    Subproc child;
    uv_poll_t poll;
    uv_timer_t timer; /* quiet for a moment: it has given what was there */
    int open_handles;
    bool polling;
    uint64_t started_real_ns;
    Str rest;
    char why[160];
    KmsgJournalLine line;
    KmsgJournalState state;
    void *self;
};

static uint64_t number_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? strtoull(text, NULL, 10) : 0;
}

/* A text, or an array of its bytes where it is not UTF-8. */
static size_t message_of(const json_t *message, char *out, size_t cap)
{
    const json_t *byte;
    size_t i, n = 0;

    if (json_is_string(message)) {
        n = json_string_length(message) < cap ? json_string_length(message) : cap;
        memcpy(out, json_string_value(message), n);
        return n;
    }
    json_array_foreach(message, i, byte)
    {
        if (n == cap)
            break;
        out[n++] = (char)json_integer_value(byte);
    }
    return n;
}

static void take_line(KmsgJournal *j, const char *bytes, size_t len)
{
    char text[8192];
    json_t *object = json_loadb(bytes, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

    if (!json_is_object(object)) {
        json_decref(object);
        return;
    }
    const size_t n = message_of(json_object_get(object, "MESSAGE"), text, sizeof text);
    uint64_t usec = number_at(object, "_SOURCE_MONOTONIC_TIMESTAMP");
    const uint64_t real_ns = number_at(object, "__REALTIME_TIMESTAMP") * 1000;

    if (usec == 0)
        usec = number_at(object, "__MONOTONIC_TIMESTAMP");
    if (n)
        j->line(j->self, text, n, usec, real_ns, real_ns < j->started_real_ns);
    json_decref(object);
}

static void report_end(KmsgJournal *j, const char *why)
{
    uv_poll_stop(&j->poll);
    uv_timer_stop(&j->timer);
    j->state(j->self, false, true, why); /* may close us */
}

static void take_bytes(KmsgJournal *j, const char *bytes, size_t len)
{
    const char *newline;

    while ((newline = memchr(bytes, '\n', len))) {
        str_addn(&j->rest, bytes, (size_t)(newline - bytes));
        if (!j->rest.overflow)
            take_line(j, j->rest.text, j->rest.len);
        str_clear(&j->rest);
        len -= (size_t)(newline - bytes) + 1;
        bytes = newline + 1;
    }
    str_addn(&j->rest, bytes, len);
}

static void handle_quiet(uv_timer_t *timer)
{
    KmsgJournal *j = timer->data;

    j->state(j->self, true, true, "");
}

static void handle_readable(uv_poll_t *poll, int status, int events)
{
    KmsgJournal *j = poll->data;
    char buffer[READ_BYTES];
    const ssize_t n = read(j->child.out_fd, buffer, sizeof buffer);

    (void)status;
    (void)events;
    if (n > 0) {
        take_bytes(j, buffer, (size_t)n);
        j->state(j->self, true, false, "");
        uv_timer_start(&j->timer, handle_quiet, QUIET_MS, 0);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        report_end(j, "journalctl has ended");
    }
}

static void handle_failed_start(uv_timer_t *timer)
{
    KmsgJournal *j = timer->data;

    j->state(j->self, false, true, j->why);
}

static void start_child(KmsgJournal *j, uv_loop_t *loop, const char *program)
{
    const char *const argv[] = {program,         "--dmesg", "--boot",     "--follow", "--lines=all",
                                "--output=json", "--quiet", "--no-pager", NULL};
    const SubprocSpec spec = {.argv = argv, .pipe_out = true, .pipe_err = false, .die_with_us = true};
    struct timespec now;
    Err err;

    clock_gettime(CLOCK_REALTIME, &now);
    j->started_real_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    if (subproc_start(&spec, &j->child, &err) < 0) {
        snprintf(j->why, sizeof j->why, "%.150s", err.text);
        uv_timer_start(&j->timer, handle_failed_start, 0, 0);
        return;
    }
    if (uv_poll_init(loop, &j->poll, j->child.out_fd) == 0) {
        j->poll.data = j;
        j->polling = true;
        j->open_handles++;
        uv_poll_start(&j->poll, UV_READABLE, handle_readable);
    }
    uv_timer_start(&j->timer, handle_quiet, 10 * QUIET_MS, 0);
}

KmsgJournal *kmsg_journal_open(uv_loop_t *loop, const char *program, KmsgJournalLine line, KmsgJournalState state,
                               void *self)
{
    KmsgJournal *j = xcalloc(1, sizeof *j);

    j->child = (Subproc){.pid_fd = -1, .out_fd = -1, .err_fd = -1};
    j->line = line;
    j->state = state;
    j->self = self;
    str_init(&j->rest, LINE_MAX_BYTES);
    uv_timer_init(loop, &j->timer);
    j->timer.data = j;
    j->open_handles = 1;
    start_child(j, loop, program);
    return j;
}

static void handle_closed(uv_handle_t *handle)
{
    KmsgJournal *j = handle->data;

    if (--j->open_handles > 0)
        return;
    SubprocEnd end;
    Err err;
    if (j->child.pid)
        subproc_stop(&j->child, GRACE_MS, &end, &err);
    subproc_done(&j->child);
    str_done(&j->rest);
    free(j);
}

void kmsg_journal_close(KmsgJournal *j)
{
    if (!j)
        return;
    if (j->polling)
        uv_close((uv_handle_t *)&j->poll, handle_closed);
    uv_close((uv_handle_t *)&j->timer, handle_closed);
}
