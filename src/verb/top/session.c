/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"

enum { SILENT_MS = 5000, FRAME_MS = 100, JUMP = 20, REFRESH_MS = 1000, POLL_MS = 500 };
enum { FIRST_SNAPSHOT_MS = 20000, PAST_MS = 3000 };

static bool is_live(const Session *s)
{
    return s->state.kind == FEED_AGENT || s->state.kind == FEED_LOCAL;
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

/* A live feed that gives nothing and reports no trouble hangs. */
static void read_state(Session *s)
{
    const uint64_t most = number_max_u64(4 * s->interval_ns, SILENT_MS * NS_PER_MS);

    feed_state(s->feed, &s->state);
    if (is_live(s))
        s->state.paused = s->frozen;
    if (is_live(s) && !s->state.trouble[0] && s->state.snapshots > 0 && s->state.age_ns > most)
        snprintf(s->state.trouble, sizeof s->state.trouble, "the %s does not answer",
                 s->state.kind == FEED_AGENT ? "agent" : "driver");
    if (!s->state.trouble[0])
        s->state.age_ns = 0;
}

/* A replay that jumped wants its past again; a live feed with a gap has none to offer. */
static void keep_past(Session *s, const Node *node)
{
    const uint64_t pace = s->state.pace_ns ? s->state.pace_ns : NS_PER_S;
    const double factor = is_live(s) ? 0 : s->state.speed;
    uint64_t jump_ns = UINT64_MAX;

    if (s->state.kind == FEED_HISTORY) /* its past is complete from the start */
        return;
    history_set_pace(s->history, number_max_u64(pace, (uint64_t)(factor * FRAME_MS * (double)NS_PER_MS)));
    if (s->state.kind == FEED_RECORDING)
        jump_ns = (uint64_t)((double)JUMP * (double)pace * (factor > 1 ? factor : 1));
    history_add(s->history, node, jump_ns);
}

static void take_snapshot(Session *s)
{
    SnapshotBuffer *fresh = s->spare;

    if (is_live(s))
        command_lines_fill(s->commands, fresh->boot_id, fresh->processes.at, fresh->processes.len);
    keep_past(s, &fresh->node);
    if (s->frozen)
        return;
    s->spare = s->shown;
    s->shown = fresh;
}

/* Whether the head of the screen reads the same. */
static bool is_same_state(const FeedState *a, const FeedState *b)
{
    return a->paused == b->paused && a->from_ns == b->from_ns && a->to_ns == b->to_ns && !(a->speed < b->speed) &&
           !(a->speed > b->speed) && a->age_ns / NS_PER_S == b->age_ns / NS_PER_S &&
           strcmp(a->trouble, b->trouble) == 0;
}

/* Takes what the feed has. Whether the screen has to be drawn. */
static bool take_news(Session *s)
{
    const FeedState before = s->state;
    const bool came = feed_take(s->feed, &s->spare);

    read_state(s);
    if (came)
        take_snapshot(s);
    const bool changed = (came && !s->frozen) || !is_same_state(&before, &s->state);
    if (changed)
        top_see(s->top, &s->shown->snapshot, &s->state);
    const bool filled = feed_fill(s->feed, s->history);
    if (s->state.record_trouble[0] && !s->record_trouble_told) {
        s->record_trouble_told = true;
        top_say(s->top, INK_BAD, s->state.record_trouble);
    }
    return changed || filled;
}

/* Draws, and asks for the past of what is drawn. */
static void draw_screen(Session *s, Grid *grid)
{
    HistoryWant want;

    grid_clear(grid);
    top_draw(s->top, grid);
    while (history_next_wanted(s->history, &want))
        feed_want(s->feed, &want);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static void send_signal(Session *s)
{
    const TopSignal signal = top_signal(s->top);
    char text[ERR_TEXT_MAX];
    Err err;

    if (!is_live(s)) {
        top_say(s->top, INK_BAD, "this is a replay: no signal was sent");
        return;
    }
    if (process_signal(&signal, s->shown->snapshot.boot_id, &err) < 0) {
        top_say(s->top, INK_BAD, err.text);
        return;
    }
    snprintf(text, sizeof text, "%s was sent to process %d", signal.name, (int)signal.pid);
    top_say(s->top, INK_GOOD, text);
}

static void obey_wish(Session *s, TopWish wish)
{
    switch (wish) {
    case TOP_WISH_NONE:
        return;
    case TOP_WISH_QUIT:
        s->over = true;
        return;
    case TOP_WISH_REDRAW:
        s->redraw = true;
        return;
    case TOP_WISH_SIGNAL:
        send_signal(s);
        break;
    case TOP_WISH_PAUSE:
        if (is_live(s))
            s->frozen = !s->frozen;
        else
            feed_pause(s->feed, !s->state.paused);
        break;
    case TOP_WISH_SEEK:
        if (!is_live(s))
            feed_seek(s->feed, top_seek(s->top));
        break;
    case TOP_WISH_SPEED:
        if (!is_live(s))
            feed_set_speed(s->feed, s->state.speed * top_speed(s->top));
        break;
    }
    (void)take_news(s);
}

/* --- on a terminal ------------------------------------------------------------------------------------------------ */

static void show_screen(Session *s, Terminal *terminal, Grid *grid)
{
    if (s->redraw)
        terminal_redraw(terminal);
    s->redraw = false;
    draw_screen(s, grid);
    terminal_show(terminal, grid);
}

/* Whether the screen has to be drawn. */
static bool handle_news(Session *s, const TerminalNews *news, Grid *grid, int *ret_signal)
{
    switch (news->what) {
    case TERMINAL_KEY:
        obey_wish(s, top_key(s->top, news->key));
        return true;
    case TERMINAL_MOUSE:
        obey_wish(s, top_mouse(s->top, news->mouse, news->x, news->y));
        return true;
    case TERMINAL_RESIZE:
        grid_resize(grid, news->width, news->height);
        return true;
    case TERMINAL_END:
        *ret_signal = news->signal;
        s->over = true;
        return false;
    case TERMINAL_TIMEOUT:
    case TERMINAL_READY:
        break;
    }
    return take_news(s);
}

int session_run(Session *s, const TerminalOptions *options, uint64_t for_ns, int *ret_signal, Err *err)
{
    const uint64_t end_ns = for_ns ? clock_monotonic(clock_kernel()) + for_ns : UINT64_MAX;
    struct pollfd other = {.fd = feed_fd(s->feed), .events = POLLIN};
    Terminal *terminal;
    TerminalNews news;
    Grid grid;

    TRY(terminal_open(options, &terminal, err));
    grid_init(&grid, terminal_width(terminal), terminal_height(terminal), terminal_utf8(terminal));
    *ret_signal = 0;
    (void)take_news(s);
    show_screen(s, terminal, &grid);
    while (!s->over && !(s->state.failed && s->state.snapshots == 0)) {
        const uint64_t now = clock_monotonic(clock_kernel());

        if (now >= end_ns)
            break;
        terminal_wait(terminal, number_min_u64(now + REFRESH_MS * NS_PER_MS, end_ns), &other, 1, &news);
        if (handle_news(s, &news, &grid, ret_signal) && !s->over)
            show_screen(s, terminal, &grid);
    }
    terminal_close(terminal);
    grid_done(&grid);
    return 0;
}

/* --- without a terminal ------------------------------------------------------------------------------------------- */

static uint64_t deadline_in(uint64_t ms)
{
    return clock_monotonic(clock_kernel()) + ms * NS_PER_MS;
}

/* Waits a while for news of the feed; false where the deadline has passed. */
static bool wait_for_feed(const Feed *feed, uint64_t deadline_ns)
{
    struct pollfd fd = {.fd = feed_fd(feed), .events = POLLIN};
    const uint64_t now = clock_monotonic(clock_kernel());
    const uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / NS_PER_MS + 1 : 0;

    (void)poll(&fd, 1, (int)number_min_u64(left_ms, POLL_MS));
    return now < deadline_ns;
}

static int report_none(const FeedState *state, Err *err)
{
    return err_set(err, state->failed ? -EIO : -ETIMEDOUT, "%s", state->trouble[0] ? state->trouble : "no sample came");
}

/* An agent that does not answer is asked once. */
static bool is_hopeless(const FeedState *state)
{
    return state->failed || (state->kind == FEED_AGENT && state->trouble[0]);
}

static void press_key(Session *s, Grid *grid, uint32_t key)
{
    const TopWish wish = top_key(s->top, key);

    if (wish == TOP_WISH_SIGNAL)
        top_say(s->top, INK_BAD, "one screen for a pipe sends no signals");
    else if (wish != TOP_WISH_QUIT)
        obey_wish(s, wish);
    draw_screen(s, grid);
}

static void wait_for_past(Session *s)
{
    const uint64_t deadline = deadline_in(PAST_MS);

    while (!feed_filled(s->feed) && wait_for_feed(s->feed, deadline))
        (void)feed_fill(s->feed, s->history);
    (void)feed_fill(s->feed, s->history);
}

int session_print(Session *s, const ScreenOptions *options, Str *out, Err *err)
{
    CLEANUP(grid_done) Grid grid = {0};
    const uint64_t deadline = deadline_in(FIRST_SNAPSHOT_MS);

    while (take_news(s), !s->shown->snapshot.node)
        if (is_hopeless(&s->state) || !wait_for_feed(s->feed, deadline))
            return report_none(&s->state, err);
    grid_init(&grid, options->width, options->height, options->utf8);
    draw_screen(s, &grid);
    for (size_t i = 0; i < options->key_count; i++)
        press_key(s, &grid, options->keys[i]);
    wait_for_past(s);
    draw_screen(s, &grid);
    grid_print_ansi(&grid, options->coloured, out);
    return 0;
}

int session_print_json(Feed *feed, Str *out, int *ret_code, Err *err)
{
    const uint64_t deadline = deadline_in(FIRST_SNAPSHOT_MS);
    SnapshotBuffer *buffer = snapshot_buffer_new();
    FeedState state;
    int rc = 0;

    while (!feed_take(feed, &buffer)) {
        feed_state(feed, &state);
        if (!is_hopeless(&state) && wait_for_feed(feed, deadline))
            continue;
        rc = report_none(&state, err);
        break;
    }
    if (rc == 0) {
        *ret_code = status_code(&buffer->snapshot);
        if (buffer->text.len > 0)
            str_addn(out, buffer->text.text, buffer->text.len);
        else
            status_json(&buffer->snapshot, out);
        if (out->len > 0 && out->text[out->len - 1] != '\n')
            str_addc(out, '\n');
    }
    snapshot_buffer_free(buffer);
    return rc;
}

static volatile sig_atomic_t end_signal;

static void note_end(int number)
{
    (void)number;
    end_signal = 1;
}

int session_record(Feed *feed, uint64_t for_ns, Err *err)
{
    const struct sigaction action = {.sa_handler = note_end, .sa_flags = (int)SA_RESETHAND};
    const uint64_t deadline = for_ns ? clock_monotonic(clock_kernel()) + for_ns : UINT64_MAX;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    SnapshotBuffer *buffer = snapshot_buffer_new();
    FeedState state;

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        sigaction(numbers[i], &action, NULL);
    do {
        (void)feed_take(feed, &buffer);
        feed_state(feed, &state);
    } while (!end_signal && !state.failed && !state.record_trouble[0] && wait_for_feed(feed, deadline));
    snapshot_buffer_free(buffer);
    if (state.record_trouble[0])
        return err_set(err, -EIO, "%s", state.record_trouble);
    return state.snapshots == 0 ? report_none(&state, err) : 0;
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

int session_init(Session *s, Feed *feed, const SessionOptions *options, Err *err)
{
    *s = (Session){.feed = feed, .interval_ns = options->interval_ns, .history = history_new()};
    const int rc = top_new(&options->top, s->history, &s->top, err);
    if (rc < 0) {
        history_free(s->history);
        feed_free(feed);
        return rc;
    }
    s->commands = command_lines_new(options->root);
    s->shown = snapshot_buffer_new();
    s->spare = snapshot_buffer_new();
    return 0;
}

bool session_done(Session *s)
{
    const bool ended = feed_free(s->feed);

    top_free(s->top);
    history_free(s->history);
    command_lines_free(s->commands);
    snapshot_buffer_free(s->shown);
    snapshot_buffer_free(s->spare);
    return ended;
}
