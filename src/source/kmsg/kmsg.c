/* SPDX-License-Identifier: Apache-2.0 */
/* Where lines come from: the device of the kernel log, a file in its format, or journalctl where the device is denied.
 * What they say is line.c's business. */
#include "source/kmsg/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "source/kmsg/follow.h"
#include "source/kmsg/journal.h"
#include "source/kmsg/line.h"

enum {
    RECORD_MAX = 8192,
    /* the kernel gives no longer one */ RECORDS_AT_ONCE = 2048,
    RETRY_MS = 5000,
    BOOT_ID_MAX = 64
};

#define NS_PER_US UINT64_C(1000)

struct Kmsg {
    KmsgConfig config;
    char *path, *journalctl, *root;
    KmsgEvent give;
    void *self;
    uv_loop_t *loop;
    uv_timer_t retry; /* for what cannot be read now */
    uv_idle_t busy;   /* runs while the device had more than was taken at once */
    uv_poll_t poll;
    int handles;  /* that have to be closed before it can be freed */
    bool polling; /* `poll` is in use or being closed */
    int fd;       /* the device, -1 none */
    Follow *file, *fabric;
    KmsgJournal *journal;
    LineReader *reader;
    KmsgState state;
    bool sequenced; /* a sequence was seen, so that gaps can be told */
};

static void set_log_state(Kmsg *k, FactsLog log, const char *why)
{
    k->state.log = log;
    snprintf(k->state.why, sizeof k->state.why, "%s", why);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void give_event(Kmsg *k, Event *event, uint64_t age_ns)
{
    const uint64_t now = k->config.now_ns(k->config.clock), real = k->config.real_ns(k->config.clock);

    if (event->before) {
        event->time_ns = now > age_ns ? now - age_ns : 0;
        event->real_ns = real > age_ns ? real - age_ns : 0;
    } else {
        event->time_ns = now;
        event->real_ns = real;
    }
    k->state.lines++;
    k->give(k->self, event);
}

/* Escapes of the device ("\x0a") as the bytes that they stand for. */
static size_t unescape_text(const char *text, size_t len, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned int byte;

        if (text[i] == '\\' && len - i >= 4 && text[i + 1] == 'x' && sscanf(text + i + 2, "%2x", &byte) == 1) {
            out[n++] = (char)byte;
            i += 3;
        } else {
            out[n++] = text[i];
        }
    }
    return n;
}

static void take_text(Kmsg *k, const KmsgRecord *record, EventOrigin origin, bool before, uint64_t age_ns)
{
    char text[RECORD_MAX + 1];
    const size_t len = unescape_text(record->text, record->len < RECORD_MAX ? record->len : RECORD_MAX, text);

    for (size_t at = 0; at < len;) {
        const char *newline = memchr(text + at, '\n', len - at);
        const size_t part = newline ? (size_t)(newline - text) - at : len - at;
        Event event;

        if (line_read(k->reader, text + at, part, &event)) {
            event.origin = origin;
            event.sequence = record->sequence;
            event.before = before;
            give_event(k, &event, age_ns);
        }
        at += part + 1;
    }
}

static void tell_lost(Kmsg *k, uint64_t count)
{
    Event event;

    event_init(&event, EVENT_LOG_LOST, EVENT_FROM_AGENT);
    event.before = !k->state.caught_up;
    snprintf(event.text, sizeof event.text, "%llu records of the kernel log were overwritten before they were read",
             (unsigned long long)count);
    k->state.lost += count;
    give_event(k, &event, 0);
}

static uint64_t age_of(uint64_t usec)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    return now_ns > usec * NS_PER_US ? now_ns - usec * NS_PER_US : 0;
}

/* A record of the device or of a file like it. Those that an agent of before has processed are passed over. */
static void take_record(Kmsg *k, const KmsgRecord *record, EventOrigin origin, bool old, bool aged)
{
    k->state.records++;
    if (k->sequenced && record->sequence > k->state.sequence + 1 && origin == EVENT_FROM_KMSG)
        tell_lost(k, record->sequence - k->state.sequence - 1);
    if (k->sequenced && record->sequence <= k->state.sequence && (old || aged))
        return;
    k->sequenced = true;
    k->state.sequence = record->sequence;
    take_text(k, record, origin, old, aged ? age_of(record->usec) : 0);
}

/* --- the device --------------------------------------------------------------------------------------------------- */

static void read_records(Kmsg *k);
static void handle_retry(uv_timer_t *timer);

static void handle_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    read_records(poll->data);
}

static void end_reading(Kmsg *k)
{
    line_reader_free(k->reader);
    free(k->path);
    free(k->journalctl);
    free(k->root);
    free(k);
}

static void handle_closed(uv_handle_t *handle)
{
    Kmsg *k = handle->data;

    k->polling &= handle != (uv_handle_t *)&k->poll;
    if (--k->handles == 0)
        end_reading(k);
}

static void close_device(Kmsg *k)
{
    k->handles++;
    uv_close((uv_handle_t *)&k->poll, handle_closed);
    close(k->fd);
    k->fd = -1;
}

static void device_gone(Kmsg *k, int error)
{
    char why[FACTS_WHY_CAP];

    snprintf(why, sizeof why, "read '%s': %s", k->path, strerror(error));
    set_log_state(k, FACTS_LOG_DENIED, why);
    close_device(k);
    uv_timer_start(&k->retry, handle_retry, RETRY_MS, RETRY_MS);
}

static void caught_up(Kmsg *k)
{
    k->state.caught_up = true;
    uv_idle_stop(&k->busy);
}

/* All that is there, but no more at once than leaves the loop time for others. */
static void read_records(Kmsg *k)
{
    char bytes[RECORD_MAX + 1];
    KmsgRecord record;

    for (int i = 0; i < RECORDS_AT_ONCE && k->fd >= 0; i++) {
        const ssize_t n = read(k->fd, bytes, sizeof bytes - 1);

        if (n < 0 && errno == EPIPE) /* overwritten: the next record's number says how many */
            continue;
        if (n < 0 && (errno == EINTR || errno == EINVAL))
            continue;
        if (n < 0 && errno == EAGAIN) {
            caught_up(k);
            return;
        }
        if (n <= 0) {
            device_gone(k, n < 0 ? errno : ENODATA);
            return;
        }
        bytes[n] = '\0';
        if (kmsg_record(bytes, (size_t)n, &record) == 0)
            take_record(k, &record, EVENT_FROM_KMSG, !k->state.caught_up, true);
    }
}

static void handle_idle(uv_idle_t *idle)
{
    read_records(idle->data);
}

static int open_device(Kmsg *k)
{
    k->fd = open(k->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (k->fd < 0)
        return -errno;
    if (uv_poll_init(k->loop, &k->poll, k->fd) < 0) {
        close(k->fd);
        k->fd = -1;
        return -EINVAL;
    }
    k->poll.data = k;
    k->polling = true;
    set_log_state(k, FACTS_LOG_KMSG, "");
    uv_poll_start(&k->poll, UV_READABLE, handle_readable);
    if (!k->state.caught_up)
        uv_idle_start(&k->busy, handle_idle);
    return 0;
}

/* --- a file ------------------------------------------------------------------------------------------------------- */

static void file_line(void *self, const char *line, size_t len, bool old)
{
    Kmsg *k = self;
    KmsgRecord record;

    if (kmsg_record(line, len, &record) == 0) {
        take_record(k, &record, EVENT_FROM_KMSG, old, false);
    } else if (line[0] != ' ') { /* not the dictionary of a record: a line of syslog or dmesg */
        k->state.records++;
        record = (KmsgRecord){.text = line, .len = len};
        take_text(k, &record, EVENT_FROM_KMSG, old, 0);
    }
}

static void fabric_line(void *self, const char *line, size_t len, bool old)
{
    Kmsg *k = self;
    uint64_t at = 0;
    Event event;

    if (!line_read_fabric(line, len, &event, &at))
        return;
    const uint64_t real = k->config.real_ns(k->config.clock);

    event.before = old;
    give_event(k, &event, old && at && at < real ? real - at : 0);
}

/* --- the journal -------------------------------------------------------------------------------------------------- */

static void journal_line(void *self, const char *text, size_t len, uint64_t usec, uint64_t real_ns, bool old)
{
    Kmsg *k = self;
    const KmsgRecord record = {.sequence = usec, .usec = usec, .text = text, .len = len};
    const uint64_t real = k->config.real_ns(k->config.clock);

    k->state.records++;
    if (old && usec <= k->state.sequence)
        return;
    k->state.sequence = usec;
    take_text(k, &record, EVENT_FROM_JOURNAL, old, old && real_ns && real_ns < real ? real - real_ns : 0);
}

static void journal_state(void *self, bool works, bool caught, const char *why)
{
    Kmsg *k = self;

    if (works) {
        set_log_state(k, FACTS_LOG_JOURNAL, "");
        k->state.caught_up |= caught;
        return;
    }
    char both[FACTS_WHY_CAP];
    snprintf(both, sizeof both, "'%s' is denied, and %s", k->path, why);
    set_log_state(k, FACTS_LOG_DENIED, both);
    k->state.caught_up = true;
    kmsg_journal_close(TAKE(k->journal));
    uv_timer_start(&k->retry, handle_retry, RETRY_MS, RETRY_MS);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void report_denied(Kmsg *k, int error)
{
    char why[FACTS_WHY_CAP];

    snprintf(why, sizeof why, "open '%s': %s", k->path, strerror(error));
    set_log_state(k, FACTS_LOG_DENIED, why);
    if (k->journalctl[0] && !k->journal)
        k->journal = kmsg_journal_open(k->loop, k->journalctl, journal_line, journal_state, k);
    if (!k->journal) {
        k->state.caught_up = true;
        uv_timer_start(&k->retry, handle_retry, RETRY_MS, RETRY_MS);
    }
}

static void open_log(Kmsg *k)
{
    struct stat st;
    const bool there = stat(k->path, &st) == 0;

    if (there && S_ISREG(st.st_mode)) {
        uv_timer_stop(&k->retry);
        set_log_state(k, FACTS_LOG_KMSG, "");
        k->file = follow_open(k->loop, k->path, 0, 0, file_line, k);
        return;
    }
    const int rc = there ? open_device(k) : -errno;
    if (rc < 0)
        report_denied(k, -rc);
    else
        uv_timer_stop(&k->retry);
}

static void handle_retry(uv_timer_t *timer)
{
    Kmsg *k = timer->data;

    if (!k->polling && !k->file && !k->journal)
        open_log(k);
}

static void read_boot(Kmsg *k)
{
    char path[PATH_MAX];
    Str text;
    Err err;

    snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", k->root);
    str_init(&text, BOOT_ID_MAX);
    if (file_read(path, BOOT_ID_MAX, &text, &err) == 0)
        snprintf(k->state.boot_id, sizeof k->state.boot_id, "%.*s", (int)strcspn(text.text, "\n"), text.text);
    str_done(&text);
    if (k->state.boot_id[0] && strcmp(k->state.boot_id, k->config.boot_id) == 0) {
        k->state.sequence = k->config.sequence;
        k->sequenced = true;
    }
}

int kmsg_open(uv_loop_t *loop, const KmsgConfig *config, KmsgEvent give, void *self, Kmsg **ret, Err *err)
{
    Kmsg *k = xcalloc(1, sizeof *k);

    (void)err;
    k->config = *config;
    k->path = xmemdup0(config->kmsg, strlen(config->kmsg));
    k->journalctl = xmemdup0(config->journalctl, strlen(config->journalctl));
    k->root = xmemdup0(config->root, strlen(config->root));
    k->give = give;
    k->self = self;
    k->loop = loop;
    k->fd = -1;
    k->reader = line_reader_new(config->patterns, config->pattern_count);
    uv_timer_init(loop, &k->retry);
    uv_idle_init(loop, &k->busy);
    k->retry.data = k->busy.data = k;
    k->handles = 2;
    read_boot(k);
    if (k->path[0])
        open_log(k);
    else
        k->state.caught_up = true;
    if (config->fabric_log[0])
        k->fabric = follow_open(loop, config->fabric_log, config->fabric_inode, config->fabric_offset, fabric_line, k);
    *ret = k;
    return 0;
}

void kmsg_close(Kmsg *k)
{
    if (!k)
        return;
    follow_close(TAKE(k->file));
    follow_close(TAKE(k->fabric));
    kmsg_journal_close(TAKE(k->journal));
    if (k->fd >= 0)
        close_device(k);
    uv_close((uv_handle_t *)&k->retry, handle_closed);
    uv_close((uv_handle_t *)&k->busy, handle_closed);
}

void kmsg_state(const Kmsg *k, KmsgState *ret)
{
    *ret = k->state;
    if (k->file) {
        FollowState file;

        follow_state(k->file, &file);
        ret->caught_up = file.looked;
    }
    if (k->fabric) {
        FollowState fabric;

        follow_state(k->fabric, &fabric);
        ret->fabric_log = fabric.there;
        ret->fabric_inode = fabric.inode;
        ret->fabric_offset = fabric.offset;
    }
}
