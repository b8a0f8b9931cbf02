/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a feed, what it and the drawing thread hand over, the clock of a replay, questions to the agent; live
 * feeds. The agent is asked by its control socket, again and again where it is gone or does not answer; between two
 * snapshots its store is asked for the past of what is plotted, one question at a time. Without an agent the feed runs
 * samplers of its own and has no past.
 */
#include "verb/top/feed.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "service/status/status.h"
#include "verb/agent/control.h"
#include "verb/agent/local_node.h"
#include "verb/verb.h"

enum { JOIN_MS = 700, WAIT_S = 3600, JUMP = 20, SLICE_MS = 100, AGAIN_MS = 5000 };

/* --- replay ------------------------------------------------------------------------------------------------------- */

void play_begin(Play *play, uint64_t from_ns, uint64_t to_ns, uint64_t at_ns, uint64_t now_ns)
{
    play->from_ns = from_ns;
    play->to_ns = number_max_u64(to_ns, from_ns);
    play->at_ns = number_min_u64(number_max_u64(at_ns, from_ns), play->to_ns);
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

void feed_signal(const Feed *feed)
{
    (void)eventfd_write(feed->fd, 1); /* does not block: it fails only where it is readable already */
}

static void run_thread(void *self)
{
    Feed *feed = self;
    bool go_on = true;

    while (go_on) {
        const uint64_t due_ns = feed->ops->work(feed);
        uint64_t now;

        uv_mutex_lock(&feed->lock);
        while (!feed->stopping && !feed->wake && (now = clock_monotonic(clock_kernel())) < due_ns)
            (void)uv_cond_timedwait(&feed->woken, &feed->lock, number_min_u64(due_ns - now, WAIT_S * NS_PER_S));
        feed->wake = false;
        go_on = !feed->stopping;
        uv_mutex_unlock(&feed->lock);
    }
    if (feed->ops->end)
        feed->ops->end(feed);
    uv_mutex_lock(&feed->lock);
    feed->ended = true;
    uv_cond_signal(&feed->woken);
    uv_mutex_unlock(&feed->lock);
}

void feed_set_text(Feed *feed, FeedText what, const char *fmt, ...)
{
    char *text = what == FEED_WHERE            ? feed->state.where
                 : what == FEED_RECORD_TROUBLE ? feed->state.record_trouble
                                               : feed->state.trouble;
    char now[FEED_TEXT_CAP];
    va_list args;

    va_start(args, fmt);
    vsnprintf(now, sizeof now, fmt, args);
    va_end(args);
    uv_mutex_lock(&feed->lock);
    const bool news = what == FEED_FAILED || strcmp(text, now) != 0;
    memcpy(text, now, sizeof now);
    feed->state.failed |= what == FEED_FAILED;
    uv_mutex_unlock(&feed->lock);
    if (news)
        feed_signal(feed);
}

void feed_give(Feed *feed)
{
    uv_mutex_lock(&feed->lock);
    SnapshotBuffer *mine = feed->mine;
    feed->mine = feed->fresh;
    feed->fresh = mine;
    feed->fresh_there = true;
    feed->last_ns = clock_monotonic(clock_kernel());
    feed->state.snapshots++;
    feed->state.trouble[0] = '\0';
    uv_mutex_unlock(&feed->lock);
    feed_signal(feed);
}

bool feed_give_json(Feed *feed, bool record)
{
    SnapshotBuffer *mine = feed->mine;
    const Str *line = &feed->line;
    Play play;
    Err err;

    if (snapshot_read(mine, line->text, line->len, &err) < 0) {
        feed_set_text(feed, FEED_TROUBLE, "%s", err.text);
        return false;
    }
    str_clear(&mine->text);
    str_addn(&mine->text, line->text, line->len);
    if (record && feed->recorder && !feed->state.record_trouble[0] &&
        recorder_write(feed->recorder, line->text, line->len, &err) < 0)
        feed_set_text(feed, FEED_RECORD_TROUBLE, "%s", err.text);
    if (feed->state.kind == FEED_AGENT)
        feed_set_text(feed, FEED_WHERE, "agent on %s", mine->node.hostname);
    else if (feed->state.kind == FEED_LOCAL)
        feed_set_text(feed, FEED_WHERE, "%s, no agent", mine->node.hostname);
    (void)feed_play(feed, &play);
    const double frame_ns = (double)FEED_FRAME_MS * NS_PER_MS, factor = fmax(play.speed, 1);
    const bool replay = feed->state.kind == FEED_RECORDING;
    const uint64_t pace_ns = feed->state.pace_ns ? feed->state.pace_ns : NS_PER_S;
    const uint64_t apart_ns = replay ? number_max_u64(pace_ns, (uint64_t)(play.speed * frame_ns)) : pace_ns;
    const uint64_t jump_ns = replay ? (uint64_t)(JUMP * (double)pace_ns * factor) : UINT64_MAX;
    const bool emptied = history_add(feed->history, &mine->node, apart_ns, jump_ns);
    feed_give(feed);
    return emptied;
}

void feed_begin_play(Feed *feed, uint64_t from_ns, uint64_t to_ns, bool at_end, uint64_t pace_ns)
{
    uv_mutex_lock(&feed->lock);
    play_begin(&feed->state.play, from_ns, to_ns, at_end ? to_ns : from_ns, clock_monotonic(clock_kernel()));
    feed->state.pace_ns = pace_ns;
    uv_mutex_unlock(&feed->lock);
}

uint64_t feed_play(Feed *feed, Play *ret_play)
{
    uv_mutex_lock(&feed->lock);
    const uint64_t at = play_advance(&feed->state.play, clock_monotonic(clock_kernel()));
    *ret_play = feed->state.play;
    uv_mutex_unlock(&feed->lock);
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

void feed_ask_history(Feed *feed, const HistoryWant *series, const char *resolution, const char *span, int timeout_ms,
                      HistoryPoints *points)
{
    char line[CONTROL_LINE_MAX], pci[PCI_TEXT_CAP];
    const Device *d = &series->device;
    int code;

    snprintf(line, sizeof line, "history %s %s %s %s", d->uuid[0] ? d->uuid : pci_format(d->pci, PCI_FORM_NVML, pci),
             metric_get(series->metric)->name, resolution, span);
    vec_clear(points);
    str_clear(&feed->line);
    if (control_ask(feed->control, line, timeout_ms, &feed->line, &code, NULL) == 0 && code == EXIT_FINE)
        (void)history_read(feed->line.text, feed->line.len, points, NULL);
}

/* --- the drawing thread ------------------------------------------------------------------------------------------- */

void *feed_new(size_t size, const FeedOps *ops, FeedKind kind, const char *control)
{
    Feed *feed = xcalloc(1, size);

    feed->ops = ops;
    feed->control = control ? xstrdup(control) : NULL;
    feed->state.kind = kind;
    feed->state.play.speed = 1;
    feed->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uv_mutex_init(&feed->lock);
    uv_cond_init(&feed->woken);
    feed->history = history_new(kind == FEED_AGENT || kind == FEED_RECORDING);
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
    feed->started = uv_thread_create(&feed->thread, run_thread, feed) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!feed->started)
        feed_set_text(feed, FEED_FAILED, "no thread can be started");
}

bool feed_free(Feed *feed)
{
    if (!feed)
        return true;
    uv_mutex_lock(&feed->lock);
    feed->stopping = true;
    uv_cond_broadcast(&feed->woken);
    while (feed->started && !feed->ended && uv_cond_timedwait(&feed->woken, &feed->lock, JOIN_MS * NS_PER_MS) == 0)
        ;
    const bool hangs = feed->started && !feed->ended;
    uv_mutex_unlock(&feed->lock);
    if (hangs || (feed->started && uv_thread_join(&feed->thread) != 0))
        return false; /* it hangs in a call and keeps what it uses until the process ends */
    if (feed->ops->free)
        feed->ops->free(feed);
    snapshot_buffer_free(feed->fresh);
    snapshot_buffer_free(feed->mine);
    str_done(&feed->line);
    history_free(feed->history);
    uv_cond_destroy(&feed->woken);
    uv_mutex_destroy(&feed->lock);
    fd_close(&feed->fd);
    free(feed->control);
    free(feed);
    return true;
}

bool feed_take(Feed *feed, SnapshotBuffer **buffer)
{
    eventfd_t count;

    (void)eventfd_read(feed->fd, &count);
    uv_mutex_lock(&feed->lock);
    const bool live = feed->state.kind == FEED_AGENT || feed->state.kind == FEED_LOCAL;
    const bool there = feed->fresh_there && !(live && feed->state.play.paused);
    if (there) {
        SnapshotBuffer *taken = feed->fresh;

        feed->fresh = *buffer;
        *buffer = taken;
        feed->fresh_there = false;
    }
    uv_mutex_unlock(&feed->lock);
    return there;
}

void feed_state(Feed *feed, FeedState *ret)
{
    const uint64_t now = clock_monotonic(clock_kernel());

    uv_mutex_lock(&feed->lock);
    *ret = feed->state;
    ret->age_ns = feed->last_ns && now > feed->last_ns ? now - feed->last_ns : 0;
    uv_mutex_unlock(&feed->lock);
}

void feed_steer(Feed *feed, TopWish wish, double amount)
{
    const uint64_t now = clock_monotonic(clock_kernel());

    uv_mutex_lock(&feed->lock);
    if (wish == TOP_WISH_PAUSE)
        play_pause(&feed->state.play, !feed->state.play.paused, now);
    else if (wish == TOP_WISH_SEEK)
        play_seek(&feed->state.play, amount, now);
    else if (wish == TOP_WISH_SPEED)
        play_set_speed(&feed->state.play, feed->state.play.speed * amount, now);
    feed->wake = true;
    uv_cond_signal(&feed->woken);
    uv_mutex_unlock(&feed->lock);
}

/* --- the agent ---------------------------------------------------------------------------------------------------- */

typedef struct AgentFeed {
    Feed feed;
    uint64_t due_ns;
} AgentFeed;

/* Asks for the minutes, then for the seconds, of a series. */
static void ask_past(Feed *feed, const HistoryWant *want)
{
    static const struct {
        const char *resolution, *span;
        uint64_t length_ns;
    } spans[] = {{"minute", "-1d -0", NS_PER_MIN}, {"second", "-10m -0", NS_PER_S}};
    HistoryPoints points = {0};

    for (size_t i = 0; i < ARRAY_LEN(spans); i++) {
        feed_ask_history(feed, want, spans[i].resolution, spans[i].span, FEED_ASK_MS, &points);
        for (const HistoryPoint *p = points.at; p < points.at + points.len; p++)
            history_fill(feed->history, want, p->real_ns, p->real_ns + spans[i].length_ns,
                         (PlotPoint){p->min, p->mean, p->max});
    }
    vec_done(&points);
    history_end_fill(feed->history, want);
    feed_signal(feed);
}

static uint64_t work_agent(Feed *feed)
{
    AgentFeed *a = (AgentFeed *)feed;
    const uint64_t now = clock_monotonic(clock_kernel());
    HistoryWant want;
    Err err;

    if (now >= a->due_ns) {
        a->due_ns += feed->state.pace_ns;
        if (a->due_ns <= now)
            a->due_ns = now + feed->state.pace_ns;
        const int rc = feed_ask_status(feed, &err);
        if (rc == -ENOENT || rc == -ECONNREFUSED)
            feed_set_text(feed, FEED_TROUBLE, "the agent is gone (%s)", err.text);
        else if (rc == -ETIMEDOUT || rc == -EAGAIN)
            feed_set_text(feed, FEED_TROUBLE, "the agent does not answer");
        else if (rc < 0)
            feed_set_text(feed, FEED_TROUBLE, "%s", err.text);
        else
            (void)feed_give_json(feed, true);
    } else if (history_next_wanted(feed->history, &want)) {
        ask_past(feed, &want);
    }
    return history_count_open(feed->history) > 0 ? 0 : a->due_ns;
}

Feed *feed_agent_new(const char *control, uint64_t interval_ns)
{
    static const FeedOps ops = {.work = work_agent};
    AgentFeed *a = feed_new(sizeof *a, &ops, FEED_AGENT, control);

    a->feed.state.pace_ns = interval_ns;
    return &a->feed;
}

/* --- without an agent --------------------------------------------------------------------------------------------- */

typedef struct LocalFeed {
    Feed feed;
    char *library, *root;
    LocalNode *local;
    uint64_t due_ns;
} LocalFeed;

static uint64_t work_local(Feed *feed)
{
    LocalFeed *l = (LocalFeed *)feed;
    Err err;

    if (!l->local) {
        if (local_node_new(l->library, l->root, 0, &l->local, &err) < 0) {
            feed_set_text(feed, FEED_TROUBLE, "%s", err.text);
            return clock_monotonic(clock_kernel()) + AGAIN_MS * NS_PER_MS;
        }
        (void)local_node_wait(l->local);
    }
    const uint64_t now = clock_monotonic(clock_kernel());
    if (now < l->due_ns) {
        const uint64_t left = l->due_ns - now;

        local_node_run(l->local, left < SLICE_MS * NS_PER_MS ? left : SLICE_MS * NS_PER_MS);
        return 0;
    }
    l->due_ns = now + feed->state.pace_ns;
    str_clear(&feed->line);
    status_json(local_node_read(l->local), &feed->line);
    (void)feed_give_json(feed, true);
    return 0;
}

static void end_local(Feed *feed)
{
    LocalFeed *l = (LocalFeed *)feed;

    local_node_free(TAKE(l->local));
}

static void free_local(Feed *feed)
{
    LocalFeed *l = (LocalFeed *)feed;

    free(l->library);
    free(l->root);
}

Feed *feed_local_new(const char *library, const char *root, uint64_t interval_ns)
{
    static const FeedOps ops = {.work = work_local, .end = end_local, .free = free_local};
    LocalFeed *l = feed_new(sizeof *l, &ops, FEED_LOCAL, NULL);

    l->library = xstrdup(library ? library : "");
    l->root = root ? xstrdup(root) : NULL;
    l->feed.state.pace_ns = interval_ns;
    feed_set_text(&l->feed, FEED_WHERE, "this node, no agent");
    return &l->feed;
}
