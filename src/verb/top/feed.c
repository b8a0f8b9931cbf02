/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a feed, what it and the drawing thread hand over, the clock of a replay, questions to the agent. */
#include "verb/top/feed.h"

#include <errno.h>
#include <math.h>
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
#include "base/cleanup.h"
#include "verb/agent/control.h"
#include "verb/verb.h"

enum { JOIN_MS = 700 };

/* --- replay ------------------------------------------------------------------------------------------------------- */

static uint64_t clamp_instant(const Play *play, double at)
{
    if (!(at > (double)play->from_ns))
        return play->from_ns;
    if (at >= (double)play->to_ns)
        return play->to_ns;
    const uint64_t ns = (uint64_t)at;
    return ns < play->from_ns ? play->from_ns : ns > play->to_ns ? play->to_ns : ns;
}

void play_begin(Play *play, uint64_t from_ns, uint64_t to_ns, uint64_t at_ns, uint64_t now_ns)
{
    play->from_ns = from_ns;
    play->to_ns = to_ns > from_ns ? to_ns : from_ns;
    play->at_ns = clamp_instant(play, (double)at_ns);
    play->last_ns = now_ns;
    if (!(play->speed > 0))
        play->speed = 1;
}

uint64_t play_advance(Play *play, uint64_t now_ns)
{
    if (!play->paused && now_ns > play->last_ns) {
        const double passed = (double)(now_ns - play->last_ns) * play->speed;
        const double left = (double)(play->to_ns - play->at_ns);

        play->at_ns = passed >= left ? play->to_ns : play->at_ns + (uint64_t)passed;
    }
    play->last_ns = now_ns;
    return play->at_ns;
}

void play_pause(Play *play, bool paused, uint64_t now_ns)
{
    play_advance(play, now_ns);
    play->paused = paused;
}

void play_set_speed(Play *play, double speed, uint64_t now_ns)
{
    play_advance(play, now_ns);
    if (isfinite(speed) && speed > 0)
        play->speed = fmin(speed, PLAY_SPEED_MAX);
}

void play_seek(Play *play, double seconds, uint64_t now_ns)
{
    play_advance(play, now_ns);
    if (!isfinite(seconds))
        return;
    /* nanoseconds since 1970 are no exact doubles: the way is added, not the place */
    const double way = seconds * (double)NS_PER_S, back = (double)(play->at_ns - play->from_ns),
                 ahead = (double)(play->to_ns - play->at_ns);
    if (way < 0)
        play->at_ns = -way >= back ? play->from_ns : play->at_ns - (uint64_t)-way;
    else
        play->at_ns = way >= ahead ? play->to_ns : play->at_ns + (uint64_t)way;
}

uint64_t play_due(const Play *play, uint64_t real_ns)
{
    if (real_ns <= play->at_ns)
        return 0;
    if (play->paused || real_ns > play->to_ns)
        return UINT64_MAX;
    return play->last_ns + (uint64_t)ceil((double)(real_ns - play->at_ns) / play->speed);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static void lock_feed(Feed *feed)
{
    pthread_mutex_lock(&feed->lock);
}

static void unlock_feed(Feed *feed)
{
    pthread_mutex_unlock(&feed->lock);
}

void feed_signal(const Feed *feed)
{
    const uint64_t one = 1;

    while (write(feed->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Waits until then or until woken; whether to go on. */
static bool wait_until(Feed *feed, uint64_t due_ns)
{
    lock_feed(feed);
    while (!feed->stopping && !feed->wake) {
        const uint64_t now = clock_monotonic(clock_kernel());
        struct timespec until;

        if (now >= due_ns)
            break;
        if (due_ns == UINT64_MAX) {
            pthread_cond_wait(&feed->woken, &feed->lock);
            continue;
        }
        /* conditions use CLOCK_MONOTONIC, our deadlines CLOCK_BOOTTIME: convert the remaining time */
        clock_gettime(CLOCK_MONOTONIC, &until);
        const uint64_t at = (uint64_t)until.tv_sec * NS_PER_S + (uint64_t)until.tv_nsec + (due_ns - now);
        until = (struct timespec){.tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S)};
        pthread_cond_timedwait(&feed->woken, &feed->lock, &until);
    }
    feed->wake = false;
    const bool go_on = !feed->stopping;
    unlock_feed(feed);
    return go_on;
}

static void *run_thread(void *self)
{
    Feed *feed = self;

    while (wait_until(feed, feed->ops->work(feed)))
        ;
    if (feed->ops->end)
        feed->ops->end(feed);
    return NULL;
}

bool feed_is_stopping(Feed *feed)
{
    lock_feed(feed);
    const bool stopping = feed->stopping;
    unlock_feed(feed);
    return stopping;
}

void feed_set_text(Feed *feed, FeedText what, const char *fmt, ...)
{
    char *text = what == FEED_WHERE ? feed->state.where : feed->state.trouble, now[FEED_TEXT_CAP];
    va_list args;

    va_start(args, fmt);
    vsnprintf(now, sizeof now, fmt, args);
    va_end(args);
    lock_feed(feed);
    const bool news = what == FEED_FAILED || strcmp(text, now) != 0;
    memcpy(text, now, sizeof now);
    feed->state.failed |= what == FEED_FAILED;
    unlock_feed(feed);
    if (news)
        feed_signal(feed);
}

void feed_give(Feed *feed)
{
    lock_feed(feed);
    SnapshotBuffer *mine = feed->mine;
    feed->mine = feed->fresh;
    feed->fresh = mine;
    feed->fresh_there = true;
    feed->last_ns = clock_monotonic(clock_kernel());
    feed->state.snapshots++;
    feed->state.trouble[0] = '\0';
    unlock_feed(feed);
    feed_signal(feed);
}

static void record_line(Feed *feed, const char *text, size_t len)
{
    Err err;

    if (!feed->recorder || feed->state.record_trouble[0] || recorder_write(feed->recorder, text, len, &err) == 0)
        return;
    lock_feed(feed);
    snprintf(feed->state.record_trouble, sizeof feed->state.record_trouble, "%.300s", err.text);
    unlock_feed(feed);
}

int feed_give_json(Feed *feed, const char *text, size_t len, bool record)
{
    SnapshotBuffer *mine = feed->mine;
    Err err;
    const int rc = snapshot_read(mine, text, len, &err);

    if (rc < 0) {
        feed_set_text(feed, FEED_TROUBLE, "%s", err.text);
        return rc;
    }
    str_clear(&mine->text);
    str_addn(&mine->text, text, len);
    if (record)
        record_line(feed, text, len);
    if (feed->state.kind == FEED_AGENT)
        feed_set_text(feed, FEED_WHERE, "agent on %s", mine->node.hostname);
    else if (feed->state.kind == FEED_LOCAL)
        feed_set_text(feed, FEED_WHERE, "%s, no agent", mine->node.hostname);
    feed_give(feed);
    return 0;
}

void feed_end_wants(Feed *feed)
{
    HistoryWant want;

    while (history_next_wanted(feed->history, &want)) {
        history_end_fill(feed->history, want.ref);
        feed_signal(feed);
    }
}

void feed_begin_play(Feed *feed, uint64_t from_ns, uint64_t to_ns, bool at_end, uint64_t pace_ns)
{
    lock_feed(feed);
    play_begin(&feed->play, from_ns, to_ns, at_end ? to_ns : from_ns, clock_monotonic(clock_kernel()));
    feed->state.pace_ns = pace_ns;
    unlock_feed(feed);
}

uint64_t feed_play(Feed *feed, Play *ret_play)
{
    lock_feed(feed);
    const uint64_t at = play_advance(&feed->play, clock_monotonic(clock_kernel()));
    *ret_play = feed->play;
    unlock_feed(feed);
    return at;
}

/* --- questions to the agent --------------------------------------------------------------------------------------- */

int feed_ask_status(Feed *feed, Err *err)
{
    Str *out = &feed->line;
    int code;

    str_clear(out);
    TRY(control_ask(feed->control, "status json", FEED_ASK_MS, out, &code, err));
    if (out->len > 0 && out->text[0] == '{')
        return 0;
    return err_set(err, -EPROTO, "the agent says: %.*s", (int)strcspn(out->text, "\n"), out->text);
}

void feed_ask_history(Feed *feed, const FeedQuestion *question, HistoryPoints *points)
{
    char line[CONTROL_LINE_MAX], pci[PCI_TEXT_CAP];
    Str words;
    int code;

    str_init_room(&words, line, sizeof line);
    str_addf(&words, "history %s ",
             question->device->uuid[0] ? question->device->uuid
                                       : pci_format(question->device->pci, PCI_FORM_NVML, pci));
    for (size_t i = 0; i < question->metric_count; i++)
        str_addf(&words, "%s%s", i ? "," : "", metric_get(question->metrics[i])->name);
    str_addf(&words, " %s %s %s", question->minutes ? "minute" : "second", question->from, question->to);
    str_clear(&feed->line);
    if (!words.overflow && control_ask(feed->control, line, question->timeout_ms, &feed->line, &code, NULL) == 0 &&
        code == EXIT_FINE)
        (void)history_read(feed->line.text, feed->line.len, points, NULL);
}

/* --- the drawing thread ------------------------------------------------------------------------------------------- */

void *feed_new(size_t size, const FeedOps *ops, FeedKind kind, const char *control)
{
    Feed *feed = xcalloc(1, size);
    pthread_condattr_t attr;

    feed->ops = ops;
    feed->control = control ? xstrdup(control) : NULL;
    feed->state.kind = kind;
    feed->state.speed = 1;
    feed->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&feed->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&feed->woken, &attr);
    pthread_condattr_destroy(&attr);
    feed->history = history_new();
    feed->fresh = snapshot_buffer_new();
    feed->mine = snapshot_buffer_new();
    str_init(&feed->line, CONTROL_REPLY_MAX);
    return feed;
}

void feed_start(Feed *feed, Recorder *recorder)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t all, old;

    feed->recorder = recorder;
    sigfillset(&all); /* the drawing thread gets all signals but those that this thread causes */
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    feed->started = pthread_create(&feed->thread, NULL, run_thread, feed) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!feed->started)
        feed_set_text(feed, FEED_FAILED, "no thread can be started");
}

/* Under the lock. */
static void wake_thread(Feed *feed)
{
    feed->wake = true;
    pthread_cond_signal(&feed->woken);
}

void feed_wake(Feed *feed)
{
    lock_feed(feed);
    wake_thread(feed);
    unlock_feed(feed);
}

/* Whether the thread has ended. */
static bool join_thread(Feed *feed)
{
    struct timespec until;

    lock_feed(feed);
    feed->stopping = true;
    wake_thread(feed);
    unlock_feed(feed);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += JOIN_MS * (long)NS_PER_MS;
    until.tv_sec += until.tv_nsec / (long)NS_PER_S;
    until.tv_nsec %= (long)NS_PER_S;
    return pthread_timedjoin_np(feed->thread, NULL, &until) == 0;
}

bool feed_free(Feed *feed)
{
    if (!feed)
        return true;
    if (feed->started && !join_thread(feed)) {
        pthread_detach(feed->thread);
        return false; /* it hangs in a call and keeps what it uses until the process ends */
    }
    feed->ops->free(feed);
    snapshot_buffer_free(feed->fresh);
    snapshot_buffer_free(feed->mine);
    str_done(&feed->line);
    history_free(feed->history);
    pthread_cond_destroy(&feed->woken);
    pthread_mutex_destroy(&feed->lock);
    fd_close(&feed->fd);
    free(feed->control);
    free(feed);
    return true;
}

int feed_fd(const Feed *feed)
{
    return feed->fd;
}

bool feed_take(Feed *feed, SnapshotBuffer **buffer)
{
    uint64_t count;

    (void)!read(feed->fd, &count, sizeof count);
    lock_feed(feed);
    const bool there = feed->fresh_there;
    if (there) {
        SnapshotBuffer *taken = feed->fresh;

        feed->fresh = *buffer;
        *buffer = taken;
        feed->fresh_there = false;
    }
    unlock_feed(feed);
    return there;
}

void feed_state(Feed *feed, FeedState *ret)
{
    const uint64_t now = clock_monotonic(clock_kernel());

    lock_feed(feed);
    *ret = feed->state;
    ret->age_ns = feed->last_ns && now > feed->last_ns ? now - feed->last_ns : 0;
    if (ret->kind == FEED_RECORDING || ret->kind == FEED_HISTORY) {
        ret->paused = feed->play.paused;
        ret->speed = feed->play.speed;
        ret->from_ns = feed->play.from_ns;
        ret->to_ns = feed->play.to_ns;
    }
    unlock_feed(feed);
}

History *feed_history(Feed *feed)
{
    return feed->history;
}

void feed_steer(Feed *feed, TopWish wish, double amount)
{
    const uint64_t now = clock_monotonic(clock_kernel());

    lock_feed(feed);
    if (wish == TOP_WISH_PAUSE)
        play_pause(&feed->play, !feed->play.paused, now);
    else if (wish == TOP_WISH_SEEK)
        play_seek(&feed->play, amount, now);
    else if (wish == TOP_WISH_SPEED)
        play_set_speed(&feed->play, feed->play.speed * amount, now);
    wake_thread(feed);
    unlock_feed(feed);
}
