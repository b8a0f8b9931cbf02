/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a source, and the place where it and who draws hand things over. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/owner.h"
#include "verb/agent/control.h"
#include "verb/top/source_kind.h"

enum { JOIN_MS = 700, PAST_MAX = 1 << 22 };

Parcel *parcel_new(void)
{
    Parcel *parcel = xcalloc(1, sizeof *parcel);

    look_init(&parcel->look);
    str_init(&parcel->text, CONTROL_REPLY_MAX);
    return parcel;
}

void parcel_free(Parcel *parcel)
{
    if (!parcel)
        return;
    look_done(&parcel->look);
    str_done(&parcel->text);
    free(parcel);
}

static void lock(Source *source)
{
    pthread_mutex_lock(&source->lock);
}

static void unlock(Source *source)
{
    pthread_mutex_unlock(&source->lock);
}

static void ring(const Source *source)
{
    const uint64_t one = 1;

    while (write(source->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* --- the thread ----------------------------------------------------------------------------------------------------
 */

/* Waits until then or until woken; whether to go on. */
static bool wait_until(Source *source, uint64_t due_ns)
{
    bool go_on;

    lock(source);
    while (!source->stopping && !source->wake) {
        const uint64_t now = clock_monotonic(clock_kernel());
        struct timespec until;

        if (now >= due_ns)
            break;
        if (due_ns == UINT64_MAX) {
            pthread_cond_wait(&source->woken, &source->lock);
            continue;
        }
        /* the condition's clock stands still while the machine sleeps; ours does not: only the way is taken over */
        clock_gettime(CLOCK_MONOTONIC, &until);
        const uint64_t at = (uint64_t)until.tv_sec * NS_PER_S + (uint64_t)until.tv_nsec + (due_ns - now);
        until = (struct timespec){.tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S)};
        pthread_cond_timedwait(&source->woken, &source->lock, &until);
    }
    source->wake = false;
    go_on = !source->stopping;
    unlock(source);
    return go_on;
}

static void *work(void *self)
{
    Source *source = self;

    while (wait_until(source, source->ops->turn(source)))
        ;
    if (source->ops->end)
        source->ops->end(source);
    return NULL;
}

bool source_stopping(Source *source)
{
    lock(source);
    const bool stopping = source->stopping;
    unlock(source);
    return stopping;
}

PRINTF_LIKE(3, 0)
static void say(Source *source, char text[SOURCE_TEXT_CAP], const char *fmt, va_list args)
{
    char said[SOURCE_TEXT_CAP];

    assert(fmt);
    vsnprintf(said, sizeof said, fmt, args);
    lock(source);
    const bool news = strcmp(text, said) != 0;
    memcpy(text, said, sizeof said);
    unlock(source);
    if (news)
        ring(source);
}

void source_says(Source *source, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(source, source->state.trouble, fmt, args);
    va_end(args);
}

void source_fails(Source *source, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(source, source->state.trouble, fmt, args);
    va_end(args);
    lock(source);
    source->state.failed = true; /* last: who sees it finds why */
    unlock(source);
    ring(source);
}

void source_is_at(Source *source, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(source, source->state.where, fmt, args);
    va_end(args);
}

void source_give(Source *source)
{
    lock(source);
    Parcel *mine = source->mine;
    source->mine = source->fresh;
    source->fresh = mine;
    source->fresh_there = true;
    source->last_ns = clock_monotonic(clock_kernel());
    source->state.looks++;
    source->state.trouble[0] = '\0';
    unlock(source);
    ring(source);
}

static void name_place(Source *source)
{
    const char *host = source->mine->look.read.node.hostname;

    if (source->state.kind == TOP_AGENT)
        source_is_at(source, "agent on %s", host);
    else if (source->state.kind == TOP_ALONE)
        source_is_at(source, "%s, no agent", host);
}

static void record(Source *source, const char *text, size_t len)
{
    Err err;

    if (!source->recorder || source->state.record[0] || recorder_write(source->recorder, text, len, &err) == 0)
        return;
    lock(source);
    snprintf(source->state.record, sizeof source->state.record, "%.300s", err.text);
    unlock(source);
    ring(source);
}

int source_tell(Source *source, const char *text, size_t len, bool recorded)
{
    Err err;
    const int rc = look_read(&source->mine->look, text, len, &err);

    if (rc < 0) {
        source_says(source, "%s", err.text);
        return rc;
    }
    str_clear(&source->mine->text);
    str_addn(&source->mine->text, text, len);
    if (recorded)
        record(source, text, len);
    name_place(source);
    source_give(source);
    return 0;
}

void source_wanted(Source *source, SourceWants *ret)
{
    lock(source);
    for (; source->taken < source->asked.len; source->taken++)
        vec_push(ret, source->asked.at[source->taken]);
    unlock(source);
}

static void add_past(Source *source, const SourcePast *past)
{
    lock(source);
    if (source->past.len < PAST_MAX || past->done)
        vec_push(&source->past, *past);
    unlock(source);
}

void source_add_past(Source *source, const SourceWant *of, uint64_t real_ns, bool minute, PlotPoint point)
{
    add_past(source, &(SourcePast){.want = of->number, .minute = minute, .real_ns = real_ns, .point = point});
}

void source_past_done(Source *source, const SourceWant *of)
{
    add_past(source, &(SourcePast){.want = of->number, .done = true});
    ring(source);
}

uint64_t source_at(Source *source, Play *ret_play)
{
    lock(source);
    const uint64_t at = play_turn(&source->play, clock_monotonic(clock_kernel()));
    *ret_play = source->play;
    unlock(source);
    return at;
}

/* --- who draws -----------------------------------------------------------------------------------------------------
 */

void *source_new(size_t size, const SourceOps *ops, TopSource kind)
{
    Source *source = xcalloc(1, size);
    pthread_condattr_t attr;

    source->ops = ops;
    source->state.kind = kind;
    source->state.speed = 1;
    source->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&source->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&source->woken, &attr);
    pthread_condattr_destroy(&attr);
    source->fresh = parcel_new();
    source->mine = parcel_new();
    str_init(&source->line, CONTROL_REPLY_MAX);
    return source;
}

void source_start(Source *source, Recorder *recorder)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t all, old;

    source->recorder = recorder;
    sigfillset(&all); /* signals are for who draws, but for those that this thread itself has made */
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    source->started = pthread_create(&source->thread, NULL, work, source) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!source->started)
        source_fails(source, "no thread can be started");
}

static void wake(Source *source)
{
    source->wake = true;
    pthread_cond_signal(&source->woken);
}

/* Whether its thread has ended. */
static bool joined(Source *source)
{
    struct timespec until;

    lock(source);
    source->stopping = true;
    wake(source);
    unlock(source);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += JOIN_MS * (long)NS_PER_MS;
    until.tv_sec += until.tv_nsec / (long)NS_PER_S;
    until.tv_nsec %= (long)NS_PER_S;
    return pthread_timedjoin_np(source->thread, NULL, &until) == 0;
}

bool source_free(Source *source)
{
    if (!source)
        return true;
    if (source->started && !joined(source)) {
        pthread_detach(source->thread);
        return false; /* it hangs in a call, and all that is its own goes with the process */
    }
    if (source->ops->free)
        source->ops->free(source);
    parcel_free(source->fresh);
    parcel_free(source->mine);
    str_done(&source->line);
    vec_done(&source->asked);
    vec_done(&source->past);
    pthread_cond_destroy(&source->woken);
    pthread_mutex_destroy(&source->lock);
    owner_close(&source->fd);
    free(source);
    return true;
}

int source_fd(const Source *source)
{
    return source->fd;
}

bool source_take(Source *source, Parcel **parcel)
{
    uint64_t count;

    (void)!read(source->fd, &count, sizeof count);
    lock(source);
    const bool there = source->fresh_there;
    if (there) {
        Parcel *taken = source->fresh;

        source->fresh = *parcel;
        *parcel = taken;
        source->fresh_there = false;
    }
    unlock(source);
    return there;
}

void source_state(Source *source, SourceState *ret)
{
    const uint64_t now = clock_monotonic(clock_kernel());

    lock(source);
    *ret = source->state;
    ret->age_ns = source->last_ns && now > source->last_ns ? now - source->last_ns : 0;
    if (ret->kind == TOP_RECORDING || ret->kind == TOP_STORE) {
        ret->paused = source->play.paused;
        ret->speed = source->play.speed;
        ret->from_ns = source->play.from_ns;
        ret->to_ns = source->play.to_ns;
        ret->ended = source->play.to_ns && play_ended(&source->play);
    }
    unlock(source);
}

void source_want(Source *source, const Device *device, MetricId metric)
{
    lock(source);
    if (source->asked.len < SOURCE_WANTS_MAX) {
        const SourceWant want = {.device = *device, .metric = metric, .number = (uint32_t)source->asked.len};

        vec_push(&source->asked, want);
        source->pending++;
    }
    wake(source);
    unlock(source);
}

bool source_fill(Source *source, TopHistory *history)
{
    lock(source);
    for (size_t i = 0; i < source->past.len; i++) {
        const SourcePast *past = &source->past.at[i];
        const SourceWant *of = &source->asked.at[past->want];

        if (past->done)
            source->pending--;
        else
            top_history_fill(history, &of->device, of->metric, past->real_ns, past->minute ? NS_PER_MIN : NS_PER_S,
                             past->point);
    }
    const bool some = source->past.len > 0;
    vec_clear(&source->past);
    if (source->pending == 0) {
        vec_clear(&source->asked);
        source->taken = 0;
    }
    unlock(source);
    return some;
}

bool source_filled(Source *source)
{
    lock(source);
    const bool filled = source->pending == 0;
    unlock(source);
    return filled;
}

void source_pause(Source *source, bool paused)
{
    lock(source);
    play_pause(&source->play, paused, clock_monotonic(clock_kernel()));
    wake(source);
    unlock(source);
}

void source_speed(Source *source, double speed)
{
    lock(source);
    play_speed(&source->play, speed, clock_monotonic(clock_kernel()));
    wake(source);
    unlock(source);
}

void source_seek(Source *source, double seconds)
{
    lock(source);
    play_seek(&source->play, seconds, clock_monotonic(clock_kernel()));
    wake(source);
    unlock(source);
}
