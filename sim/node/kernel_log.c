/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer. Past events never move in the image, so the index of the next one is all there is to remember; what went
 * before (record numbers, GPUs introduced) is counted again from the events when a writer starts in the middle.
 */
#include "sim/node/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owner.h"
#include "sim/core/state.h"

enum {
    EVENT_XID = 0x8,
    PRIORITY = 4,      /* kernel, warning: what the driver's lines carry */
    DEVICE_LINE = 900, /* /dev/kmsg refuses longer lines */
};
#define MARK " (stoker-sim)"
#define AWAY ".away"

static void add_line(KernelLog *log, const char *text, size_t len, uint64_t us)
{
    Str *out = &log->text;
    switch (log->format) {
    case KERNEL_LOG_KMSG:
        str_addf(out, "%d,%llu,%llu,-;", PRIORITY, (unsigned long long)log->lines, (unsigned long long)us);
        str_addn(out, text, len);
        break;
    case KERNEL_LOG_DMESG:
        str_addf(out, "[%5llu.%06u] ", (unsigned long long)(us / 1000000), (unsigned)(us % 1000000));
        str_addn(out, text, len);
        break;
    case KERNEL_LOG_DEVICE:
        str_addf(out, "<%d>", PRIORITY);
        str_addn(out, text, len < DEVICE_LINE ? len : DEVICE_LINE);
        str_add(out, MARK);
        break;
    }
    str_addc(out, '\n');
    log->lines++;
}

static void add_lines(KernelLog *log, const char *text, uint64_t us)
{
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        add_line(log, p, len, us);
        p += len + (p[len] == '\n');
    }
}

/* Puts what an event prints into log->text. */
static void render(KernelLog *log, const SimEvent *event)
{
    char lines[KERNEL_LINES_MAX];
    uint64_t us = log->boot_us + event->t_ns / 1000;
    str_clear(&log->text);
    if (event->type == 0)
        log->lines += event->extra; /* overwritten: their numbers are gone */
    int n = kernel_log_line(log->image, event, lines, sizeof lines);
    if (n == 0)
        return;
    if (event->type == EVENT_XID && !(log->seen >> event->gpu & 1)) {
        char first[KERNEL_LINES_MAX];
        kernel_log_first_seen(log->image, (uint32_t)event->gpu, first, sizeof first);
        add_lines(log, first, us);
        log->seen |= 1u << event->gpu;
    }
    add_lines(log, lines, us);
}

int kernel_log_open(KernelLog *log, SimImage *image, const KernelLogSpec *spec, Err *err)
{
    SimEvent event;
    *log = (KernelLog){.image = image, .fd = -1, .format = spec->format, .boot_us = spec->boot_us};
    str_init(&log->text, 16 * KERNEL_LINES_MAX);
    while (log->next < spec->from && sim_event_next(image, log->next, SIM_FOREVER, &event, NULL)) {
        render(log, &event);
        log->next++;
    }
    int flags = spec->format == KERNEL_LOG_DEVICE ? O_WRONLY : O_WRONLY | O_CREAT | O_APPEND;
    if (spec->format != KERNEL_LOG_DEVICE &&
        snprintf(log->path, sizeof log->path, "%s", spec->path) >= (int)sizeof log->path - (int)strlen(AWAY))
        return err_set(err, -ENAMETOOLONG, "'%.40s...' is too long for a kernel log", spec->path);
    log->fd = open(spec->path, flags | O_CLOEXEC | O_NOCTTY, 0644);
    return log->fd < 0 ? err_errno(err, "open kernel log '%s'", spec->path) : 0;
}

void kernel_log_done(KernelLog *log)
{
    if (!log->image)
        return;
    owner_close(&log->fd);
    str_done(&log->text);
    log->image = NULL;
}

/* /dev/kmsg takes one line per write; a file gets all or nothing. */
static int device_write(KernelLog *log, Err *err)
{
    for (const char *p = log->text.text; *p;) {
        size_t len = strcspn(p, "\n") + 1;
        ssize_t n = write(log->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, "write kernel log");
        p += len;
    }
    return 0;
}

static int file_append(KernelLog *log, Err *err)
{
    struct stat st;
    size_t done = 0;
    bool regular = fstat(log->fd, &st) == 0 && S_ISREG(st.st_mode);
    while (done < log->text.len) {
        ssize_t n = write(log->fd, log->text.text + done, log->text.len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno != EINTR)
            break;
    }
    if (done == log->text.len)
        return 0;
    int rc = err_errno(err, "write kernel log");
    if (regular && done > 0 && ftruncate(log->fd, st.st_size) < 0)
        err_add(err, "a line is cut");
    return rc;
}

/* A log that cannot be opened has another name for that time; what is written meanwhile is in it. */
static int hide(KernelLog *log, uint64_t t_ns, Err *err)
{
    char aside[KERNEL_PATH_MAX + sizeof AWAY];
    SimNodeSeg node;
    sim_node_at(log->image, t_ns, &node);
    const bool away = node.key[SIM_NODE_LOG_AWAY] != 0;
    if (!log->path[0] || away == log->away)
        return 0;
    snprintf(aside, sizeof aside, "%s" AWAY, log->path);
    if (rename(away ? log->path : aside, away ? aside : log->path) < 0)
        return err_errno(err, "rename kernel log '%s'", log->path);
    log->away = away;
    return 0;
}

int kernel_log_write(KernelLog *log, uint64_t until_ns, uint64_t *ret_next_ns, Err *err)
{
    SimEvent event;
    uint64_t next_ns = SIM_FOREVER;
    int written = 0;
    TRY(hide(log, until_ns, err));
    while (sim_event_next(log->image, log->next, until_ns, &event, &next_ns)) {
        uint64_t lines = log->lines;
        uint32_t seen = log->seen;
        const uint64_t lost = event.type == 0 ? event.extra : 0;
        render(log, &event);
        int rc = log->text.len == 0                 ? 0
                 : log->format == KERNEL_LOG_DEVICE ? device_write(log, err)
                                                    : file_append(log, err);
        if (rc < 0) {
            log->lines = lines;
            log->seen = seen;
            return rc;
        }
        log->next++;
        written += (int)(log->lines - lines - lost);
    }
    if (ret_next_ns)
        *ret_next_ns = next_ns;
    return written;
}

uint32_t kernel_log_next(const KernelLog *log)
{
    return log->next;
}
