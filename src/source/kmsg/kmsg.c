/* SPDX-License-Identifier: Apache-2.0 */
/* Where lines come from: the device of the kernel log, a file in its format, or systemd's journal (journalctl as a
 * child that follows this boot's messages) where the device is denied. What they say is line.c's business. */
#include "source/kmsg/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/subproc.h"
#include "source/kmsg/follow.h"
#include "source/kmsg/line.h"
#include "source/kmsg/stamp.h"
#include "source/proc/task.h"

CLEANUP_POINTER(json_t, json_decref);

enum {
    RECORD_MAX = 8192, /* the kernel gives no longer one */
    RECORDS_AT_ONCE = 2048,
    RETRY_MS = 5000,
    JOURNAL_LINE_MAX = 256 << 10,
    JOURNAL_READ_BYTES = 64 << 10,
    QUIET_MS = 300,
    GRACE_MS = 100,
    GIVEN_KEPT = 256,
    TAIL_BYTES = 64 << 10, /* of a file, in which its newest time is looked for */
};

/* The age of an old line that has no time. */
#define AGE_UNKNOWN UINT64_MAX
#define FRESH_NS (60 * NS_PER_S) /* a file written since is one that grows: its newest line is of now */

/* In LogPosition.next: it is of systemd's journal, microseconds since boot. The kernel's own numbers start at 0. */
#define JOURNAL_SEQUENCE (1ULL << 62)

typedef struct KmsgJournal KmsgJournal;

struct Kmsg {
    KmsgConfig config;
    char *path, *journalctl;
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
    uint64_t newest_ns[STAMP_KIND_END]; /* of a file as it is opened: its newest times */
    uint64_t unwritten_ns;              /* how long ago the file was written then */
    uint64_t last_age_ns;               /* of the line of a file before */
    bool last_is_older;                 /* that is the least: of the newest line it is not known */
    uint64_t given[GIVEN_KEPT]; /* of a file: hashes of records that had events or were processed before, by sequence */
};

static void handle_retry(uv_timer_t *timer);

static void set_log_state(Kmsg *k, FactsLog log, const char *why)
{
    k->state.log = log;
    snprintf(k->state.why, sizeof k->state.why, "%.*s", FACTS_WHY_CAP - 1, why);
}

/* It cannot be read now, and why. */
PRINTF_LIKE(2, 3) static void try_later(Kmsg *k, const char *fmt, ...)
{
    char why[FACTS_WHY_CAP];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    set_log_state(k, FACTS_LOG_DENIED, why);
    uv_timer_start(&k->retry, handle_retry, RETRY_MS, RETRY_MS);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* When it was: now or, of what the log held already, `age_ns` ago. One that has no time is dated now, and undated. */
static void set_event_times(Kmsg *k, Event *event, uint64_t age_ns)
{
    const uint64_t now = clock_monotonic(k->config.clock), real = clock_real(k->config.clock);
    const uint64_t ago = event->before && age_ns != AGE_UNKNOWN ? age_ns : 0;

    event->undated = event->before && age_ns == AGE_UNKNOWN;
    event->time_ns = now > ago ? now - ago : 0;
    event->real_ns = real > ago ? real - ago : 0;
    k->state.lines++;
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

/* Whether a record of the file was given before: the file was written anew, with what it held. */
static bool is_given_again(Kmsg *k, const KmsgRecord *record)
{
    uint64_t *slot = &k->given[record->sequence % GIVEN_KEPT];
    const uint64_t hash = map_hash(record->text, record->len, record->sequence ^ record->usec << 32) | 1;

    if (*slot == hash)
        return true;
    *slot = hash;
    return false;
}

/* Gives the events of a record, line by line. */
static void give_record(Kmsg *k, const KmsgRecord *record, EventOrigin origin, bool before, uint64_t age_ns)
{
    char text[RECORD_MAX + 1];
    const size_t len = unescape_text(record->text, record->len < RECORD_MAX ? record->len : RECORD_MAX, text);
    bool is_first = k->file && record->numbered;

    for (size_t at = 0; at < len;) {
        const char *newline = memchr(text + at, '\n', len - at);
        const size_t part = newline ? (size_t)(newline - text) - at : len - at;
        Event event;

        if (line_read(k->reader, text + at, part, &event)) {
            if (is_first && is_given_again(k, record))
                return;
            is_first = false;
            event.origin = origin;
            event.sequence = record->sequence;
            event.before = before;
            event.older = before && k->file && k->last_is_older;
            set_event_times(k, &event, age_ns);
            k->give(k->self, &event);
        }
        at += part + 1;
    }
}

static void report_lost(Kmsg *k, uint64_t count)
{
    Event event;

    event_init(&event, EVENT_LOG_LOST, EVENT_FROM_AGENT);
    event.before = !k->state.caught_up;
    snprintf(event.text, sizeof event.text, "%llu records of the kernel log were overwritten before they were read",
             (unsigned long long)count);
    k->state.lost += count;
    set_event_times(k, &event, 0);
    k->give(k->self, &event);
}

static uint64_t find_age(uint64_t usec)
{
    const uint64_t now_ns = clock_read(CLOCK_MONOTONIC);

    return now_ns > usec * NS_PER_US ? now_ns - usec * NS_PER_US : 0;
}

/* Counts a record of the device or of a file like it. False: an agent of before has processed it; `repeats`: such ones
 * may come. Before the first record it is not known whether one is missing. */
static bool is_new_record(Kmsg *k, const KmsgRecord *record, bool repeats)
{
    LogPosition *position = &k->state.position;
    const uint64_t next = position->next & JOURNAL_SEQUENCE ? 0 : position->next;

    k->state.records++;
    if (next > 0 && record->sequence > next)
        report_lost(k, record->sequence - next);
    if (record->sequence < next && repeats)
        return false;
    position->next = record->sequence + 1;
    return true;
}

/* --- the device --------------------------------------------------------------------------------------------------- */

static void handle_closed(uv_handle_t *handle)
{
    Kmsg *k = handle->data;

    k->polling &= handle != (uv_handle_t *)&k->poll;
    if (--k->handles > 0)
        return;
    line_reader_free(k->reader);
    free(k->path);
    free(k->journalctl);
    free(k);
}

static void close_device(Kmsg *k)
{
    k->handles++;
    uv_close((uv_handle_t *)&k->poll, handle_closed);
    close(k->fd);
    k->fd = -1;
}

/* All that is there, but no more at once than leaves the loop time for others. */
static void read_records(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    Kmsg *k = poll->data;
    char bytes[RECORD_MAX + 1];
    KmsgRecord record;

    for (int i = 0; i < RECORDS_AT_ONCE && k->fd >= 0; i++) {
        const ssize_t n = read(k->fd, bytes, sizeof bytes - 1);

        if (n < 0 && errno == EPIPE) /* overwritten: the next record's number says how many */
            continue;
        if (n < 0 && (errno == EINTR || errno == EINVAL))
            continue;
        if (n < 0 && errno == EAGAIN) {
            k->state.caught_up = true;
            uv_idle_stop(&k->busy);
            return;
        }
        if (n <= 0) {
            try_later(k, "read '%s': %s", k->path, strerror(n < 0 ? errno : ENODATA));
            close_device(k);
            return;
        }
        bytes[n] = '\0';
        if (kmsg_record(bytes, (size_t)n, &record) == 0 && is_new_record(k, &record, true))
            give_record(k, &record, EVENT_FROM_KMSG, !k->state.caught_up, find_age(record.usec));
    }
}

static void handle_idle(uv_idle_t *idle)
{
    Kmsg *k = idle->data;

    read_records(&k->poll, 0, 0);
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
    k->state.caught_up = false; /* also where it was denied before: what it holds is not of now */
    set_log_state(k, FACTS_LOG_KMSG, "");
    uv_poll_start(&k->poll, UV_READABLE, read_records);
    uv_idle_start(&k->busy, handle_idle);
    return 0;
}

/* --- a file ------------------------------------------------------------------------------------------------------- */

/* When a line was written, as its record's number or the time in front of it says. */
static Stamp find_stamp(const Kmsg *k, const char *line, size_t len)
{
    KmsgRecord record;

    if (kmsg_record(line, len, &record) == 0)
        return (Stamp){STAMP_BOOT, record.usec * NS_PER_US};
    return stamp_read(line, len, clock_real(k->config.clock));
}

static uint64_t find_unwritten(const struct stat *st)
{
    const uint64_t now_ns = clock_read(CLOCK_REALTIME),
                   then_ns = (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;

    return st->st_mtim.tv_sec > 0 && now_ns > then_ns + FRESH_NS ? now_ns - then_ns : 0;
}

/* The newest times that the file has now: its clock since boot may be another one than this machine's, or one that a
 * simulation pushes, so that only differences count. */
static void find_newest(Kmsg *k)
{
    CLEANUP_FD int fd = open(k->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEANUP_FREE char *tail = xcalloc(TAIL_BYTES, 1);
    struct stat st;

    memset(k->newest_ns, 0, sizeof k->newest_ns);
    k->unwritten_ns = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    k->unwritten_ns = find_unwritten(&st);
    const ssize_t n = pread(fd, tail, TAIL_BYTES, st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0);
    const char *end = tail + (n > 0 ? n : 0), *newline;
    for (const char *at = tail; (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
        const Stamp stamp = find_stamp(k, at, (size_t)(newline - at));

        k->newest_ns[stamp.kind] = stamp.ns;
    }
}

/* How old an old line of a file is: by the wall clock, or beside the newest line, which is as old as the file. One
 * without a time belongs to the line before it (a message of several lines); if that has none either its age is not
 * known, nor is that of one that is newer than the newest (of another boot). */
static uint64_t find_line_age(Kmsg *k, const char *line, size_t len)
{
    const Stamp stamp = find_stamp(k, line, len);
    const uint64_t real = clock_real(k->config.clock);
    uint64_t newest = k->newest_ns[stamp.kind];

    if (stamp.kind == STAMP_NONE)
        return k->last_age_ns;
    if (stamp.kind == STAMP_REAL && real > newest)
        newest = real;
    else if (stamp.kind == STAMP_BOOT && newest >= stamp.ns)
        newest += k->unwritten_ns;
    k->last_is_older = stamp.kind == STAMP_BOOT;
    k->last_age_ns = newest >= stamp.ns ? newest - stamp.ns : AGE_UNKNOWN;
    return k->last_age_ns;
}

static void file_line(void *self, const char *line, size_t len, bool old)
{
    Kmsg *k = self;
    const uint64_t age_ns = old ? find_line_age(k, line, len) : 0;
    KmsgRecord record;
    bool fresh = true;

    if (kmsg_record(line, len, &record) == 0) {
        fresh = is_new_record(k, &record, old);
    } else if (line[0] != ' ') { /* not the dictionary of a record: a line of syslog or dmesg */
        k->state.records++;
        record = (KmsgRecord){.text = line, .len = len};
    } else {
        return;
    }
    if (fresh)
        give_record(k, &record, EVENT_FROM_KMSG, old, age_ns);
    else
        (void)is_given_again(k, &record); /* by an agent of before: it is known should the file be written anew */
}

static void fabric_line(void *self, const char *line, size_t len, bool old)
{
    Kmsg *k = self;
    uint64_t at = 0;
    Event event;

    if (!line_read_fabric(line, len, &event, &at))
        return;
    const uint64_t real = clock_real(k->config.clock);

    event.before = old;
    set_event_times(k, &event, old && at && at < real ? real - at : 0);
    k->give(k->self, &event);
}

/* --- the journal -------------------------------------------------------------------------------------------------- */

struct KmsgJournal {
    Subproc child;
    uv_poll_t poll;
    uv_timer_t timer; /* quiet for a moment: it has given what was there */
    int open_handles;
    bool polling;
    uint64_t started_real_ns;
    Str rest;
    char why[160];
    Kmsg *kmsg;
};

static void close_journal(KmsgJournal *j);

static void end_journal(Kmsg *k, const char *why)
{
    try_later(k, "'%s' is denied, and %s", k->path, why);
    k->state.caught_up = true;
    close_journal(TAKE(k->journal));
}

static uint64_t number_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? strtoull(text, NULL, 10) : 0;
}

/* A text, or an array of its bytes where it is not UTF-8. */
static size_t read_message(const json_t *message, char *out, size_t cap)
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

/* Messages from before the child was started may have been processed already. */
static void read_journal_line(KmsgJournal *j, const char *bytes, size_t len)
{
    CLEANUP(json_decref_at) json_t *object = json_loadb(bytes, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    KmsgState *state = &j->kmsg->state;
    uint64_t *next = &state->position.next;
    char text[RECORD_MAX];

    if (!json_is_object(object))
        return;
    const size_t n = read_message(json_object_get(object, "MESSAGE"), text, sizeof text);
    const uint64_t real_ns = number_at(object, "__REALTIME_TIMESTAMP") * NS_PER_US;
    const uint64_t now_ns = clock_real(j->kmsg->config.clock);
    const bool old = real_ns < j->started_real_ns;
    uint64_t usec = number_at(object, "_SOURCE_MONOTONIC_TIMESTAMP");

    if (usec == 0)
        usec = number_at(object, "__MONOTONIC_TIMESTAMP");
    if (n == 0)
        return;
    state->records++;
    if (old && (usec | JOURNAL_SEQUENCE) < *next)
        return;
    *next = (usec | JOURNAL_SEQUENCE) + 1;
    give_record(j->kmsg, &(KmsgRecord){.sequence = usec, .usec = usec, .text = text, .len = n}, EVENT_FROM_JOURNAL, old,
                real_ns && real_ns < now_ns ? now_ns - real_ns : 0);
}

static void take_journal_bytes(KmsgJournal *j, const char *bytes, size_t len)
{
    const char *newline;

    while ((newline = memchr(bytes, '\n', len))) {
        str_addn(&j->rest, bytes, (size_t)(newline - bytes));
        if (!j->rest.overflow)
            read_journal_line(j, j->rest.text, j->rest.len);
        str_clear(&j->rest);
        len -= (size_t)(newline - bytes) + 1;
        bytes = newline + 1;
    }
    str_addn(&j->rest, bytes, len);
}

static void handle_quiet(uv_timer_t *timer)
{
    Kmsg *k = ((KmsgJournal *)timer->data)->kmsg;

    set_log_state(k, FACTS_LOG_JOURNAL, ""); /* it has given what was there */
    k->state.caught_up = true;
}

static void handle_journal_readable(uv_poll_t *poll, int status, int events)
{
    KmsgJournal *j = poll->data;
    char buffer[JOURNAL_READ_BYTES];
    const ssize_t n = read(j->child.out_fd, buffer, sizeof buffer);

    (void)status;
    (void)events;
    if (n > 0) {
        take_journal_bytes(j, buffer, (size_t)n);
        set_log_state(j->kmsg, FACTS_LOG_JOURNAL, "");
        uv_timer_start(&j->timer, handle_quiet, QUIET_MS, 0);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        end_journal(j->kmsg, "journalctl has ended");
    }
}

static void handle_failed_start(uv_timer_t *timer)
{
    KmsgJournal *j = timer->data;

    end_journal(j->kmsg, j->why);
}

static void start_child(KmsgJournal *j, uv_loop_t *loop, const char *program)
{
    const char *const argv[] = {program,         "--dmesg", "--boot",     "--follow", "--lines=all",
                                "--output=json", "--quiet", "--no-pager", NULL};
    const SubprocSpec spec = {.argv = argv, .pipe_out = true, .pipe_err = false, .die_with_us = true};
    Err err;

    j->started_real_ns = clock_read(CLOCK_REALTIME);
    if (subproc_start(&spec, &j->child, &err) < 0) {
        snprintf(j->why, sizeof j->why, "%.150s", err.text);
        uv_timer_start(&j->timer, handle_failed_start, 0, 0);
        return;
    }
    if (uv_poll_init(loop, &j->poll, j->child.out_fd) == 0) {
        j->poll.data = j;
        j->polling = true;
        j->open_handles++;
        uv_poll_start(&j->poll, UV_READABLE, handle_journal_readable);
    }
    uv_timer_start(&j->timer, handle_quiet, 10 * QUIET_MS, 0);
}

/* What goes wrong is reported by end_journal, from the loop. */
static KmsgJournal *open_journal(Kmsg *k)
{
    KmsgJournal *j = xcalloc(1, sizeof *j);

    j->child = (Subproc){.pid_fd = -1, .out_fd = -1, .err_fd = -1};
    j->kmsg = k;
    str_init(&j->rest, JOURNAL_LINE_MAX);
    uv_timer_init(k->loop, &j->timer);
    j->timer.data = j;
    j->open_handles = 1;
    start_child(j, k->loop, k->journalctl);
    return j;
}

static void handle_journal_closed(uv_handle_t *handle)
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

static void close_journal(KmsgJournal *j)
{
    if (!j)
        return;
    if (j->polling)
        uv_close((uv_handle_t *)&j->poll, handle_journal_closed);
    uv_close((uv_handle_t *)&j->timer, handle_journal_closed);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void open_log(Kmsg *k)
{
    struct stat st;
    const bool there = stat(k->path, &st) == 0;

    if (there && S_ISREG(st.st_mode)) {
        uv_timer_stop(&k->retry);
        set_log_state(k, FACTS_LOG_KMSG, "");
        find_newest(k);
        k->last_age_ns = AGE_UNKNOWN;
        k->file = follow_open(k->loop, k->path, 0, 0, file_line, k);
        return;
    }
    const int rc = there ? open_device(k) : -errno;
    if (rc == 0) {
        uv_timer_stop(&k->retry);
        return;
    }
    try_later(k, "open '%s': %s", k->path, strerror(-rc));
    if (k->journalctl[0]) {
        uv_timer_stop(&k->retry);
        k->journal = open_journal(k);
    } else {
        k->state.caught_up = true;
    }
}

static void handle_retry(uv_timer_t *timer)
{
    Kmsg *k = timer->data;

    if (!k->polling && !k->file && !k->journal)
        open_log(k);
}

static void read_boot(Kmsg *k)
{
    LogPosition *position = &k->state.position;
    char *id = position->boot_id;

    if (proc_text(k->config.root, "sys/kernel/random", "boot_id", id, sizeof position->boot_id, NULL) < 0)
        id[0] = '\0';
    id[strcspn(id, "\n")] = '\0';
    if (!id[0] || strcmp(id, k->config.position.boot_id) != 0)
        return;
    position->read = k->config.position.read;
    position->next = k->config.position.next;
}

Kmsg *kmsg_open(uv_loop_t *loop, const KmsgConfig *config, KmsgEvent give, void *self)
{
    Kmsg *k = xcalloc(1, sizeof *k);

    k->config = *config;
    k->path = xstrdup(config->kmsg);
    k->journalctl = xstrdup(config->journalctl);
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
        k->fabric = follow_open(loop, config->fabric_log, config->position.fabric_inode, config->position.fabric_offset,
                                fabric_line, k);
    return k;
}

void kmsg_look(Kmsg *k)
{
    if (!k)
        return;
    if (k->fd >= 0)
        read_records(&k->poll, 0, 0);
    if (k->file)
        follow_look(k->file);
    if (k->fabric)
        follow_look(k->fabric);
}

void kmsg_close(Kmsg *k)
{
    if (!k)
        return;
    follow_close(TAKE(k->file));
    follow_close(TAKE(k->fabric));
    close_journal(TAKE(k->journal));
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
    ret->position.read |= ret->caught_up && (ret->log == FACTS_LOG_KMSG || ret->log == FACTS_LOG_JOURNAL);
    if (k->fabric) {
        FollowState fabric;

        follow_state(k->fabric, &fabric);
        ret->fabric_log = fabric.there;
        ret->position.fabric_inode = fabric.inode;
        ret->position.fabric_offset = fabric.offset;
    }
}
