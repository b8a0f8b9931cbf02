/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/viewer.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "verb/top/signal_send.h"

enum { SILENT_MS = 5000, FRAME_MS = 100, JUMP = 20 };

static bool is_live(const Viewer *v)
{
    return v->state.kind == TOP_AGENT || v->state.kind == TOP_ALONE;
}

static bool has_recording(const Viewer *v)
{
    return v->state.kind == TOP_RECORDING || v->state.kind == TOP_STORE;
}

/* --- what is seen --------------------------------------------------------------------------------------------------
 */

/* A source that gives nothing and says nothing hangs. */
static void say_trouble(Viewer *v)
{
    const uint64_t most = number_max_u64(4 * v->interval_ns, SILENT_MS * NS_PER_MS);

    memcpy(v->line, v->state.trouble, sizeof v->line);
    if (!v->line[0] && is_live(v) && v->state.looks > 0 && v->state.age_ns > most)
        snprintf(v->line, sizeof v->line, "%s",
                 v->state.kind == TOP_AGENT ? "the agent does not answer" : "the driver does not answer");
    v->seen.source = v->state.kind;
    v->seen.where = v->state.where;
    v->seen.trouble = v->line;
    v->seen.age_ns = v->line[0] ? v->state.age_ns : 0;
    v->seen.paused = is_live(v) ? v->frozen : v->state.paused;
    v->seen.speed = v->state.speed;
    v->seen.from_ns = v->state.from_ns;
    v->seen.to_ns = v->state.to_ns;
}

static void set_pace(Viewer *v)
{
    uint64_t pace = v->state.pace_ns ? v->state.pace_ns : NS_PER_S;

    if (has_recording(v))
        pace = number_max_u64(pace, (uint64_t)(v->state.speed * FRAME_MS * (double)NS_PER_MS));
    top_history_pace(v->history, pace);
}

/* A replay that was sent elsewhere: what is plotted there has to be asked for anew. */
static void notice_jump(Viewer *v, uint64_t real_ns)
{
    const uint64_t before = v->seen.real_ns, pace = v->state.pace_ns ? v->state.pace_ns : NS_PER_S;
    const double most = (double)JUMP * (double)pace * (v->state.speed > 1 ? v->state.speed : 1);

    if (v->state.kind == TOP_RECORDING && before && (real_ns < before || (double)(real_ns - before) > most))
        top_history_unfilled(v->history);
}

static void keep_past(Viewer *v, const TopSeen *seen)
{
    if (v->state.kind != TOP_STORE) /* its past is complete from the start */
        top_history_add(v->history, seen);
}

static void take_look(Viewer *v)
{
    TopSeen next = v->seen;

    look_seen(&v->spare->look, &next);
    if (next.boot_ns == 0 && is_live(v)) /* a look of one's own does not tell */
        next.boot_ns = clock_real(clock_kernel()) - clock_monotonic(clock_kernel());
    notice_jump(v, next.real_ns);
    if (is_live(v))
        commands_put(v->commands, next.status.boot_id, v->spare->look.read.processes.at,
                     v->spare->look.read.processes.len);
    keep_past(v, &next);
    if (v->frozen)
        return;
    v->seen = next;
    top_see(v->top, &v->seen);
    Parcel *old = v->shown;
    v->shown = v->spare;
    v->spare = old;
}

/* What the head of the screen says, but for the look. */
static bool same_words(const TopSeen *a, const TopSeen *b)
{
    return a->paused == b->paused && a->source == b->source && a->from_ns == b->from_ns && a->to_ns == b->to_ns &&
           !(a->speed < b->speed) && !(a->speed > b->speed) && a->age_ns / NS_PER_S == b->age_ns / NS_PER_S;
}

bool viewer_news(Viewer *v)
{
    const TopSeen before = v->seen;
    const bool came = source_take(v->source, &v->spare);
    char line[SOURCE_TEXT_CAP];

    memcpy(line, v->line, sizeof line);
    source_state(v->source, &v->state);
    say_trouble(v);
    set_pace(v);
    if (came)
        take_look(v);
    const bool shown = came && !v->frozen;
    const bool words = !same_words(&before, &v->seen) || strcmp(line, v->line) != 0;
    if (words && !shown)
        top_see(v->top, &v->seen);
    const bool filled = source_fill(v->source, v->history);
    if (v->state.record[0] && !v->told_record) {
        v->told_record = true;
        top_say(v->top, INK_BAD, v->state.record);
    }
    return shown || words || filled;
}

void viewer_draw(Viewer *v, Grid *grid)
{
    const Device *device;
    MetricId metric;

    grid_clear(grid);
    top_draw(v->top, grid);
    while (top_history_missing(v->history, &device, &metric)) {
        source_want(v->source, device, metric);
        top_history_filled(v->history, device, metric);
    }
}

bool viewer_is_stale(const Viewer *v)
{
    return v->line[0] || is_live(v);
}

bool viewer_has_look(const Viewer *v)
{
    return v->seen.status.node != NULL;
}

/* --- what is wished ------------------------------------------------------------------------------------------------
 */

static void send_signal(Viewer *v)
{
    const TopSignal signal = top_signal(v->top);
    char text[ERR_TEXT_MAX];
    Err err;

    if (!is_live(v)) {
        top_say(v->top, INK_BAD, "this is not of now: no signal was sent");
        return;
    }
    if (signal_send(&signal, v->seen.status.boot_id, &err) < 0) {
        top_say(v->top, INK_BAD, err.text);
        return;
    }
    snprintf(text, sizeof text, "%s was sent to process %d", signal.name, (int)signal.pid);
    top_say(v->top, INK_GOOD, text);
}

static void pause_or_go_on(Viewer *v)
{
    if (is_live(v))
        v->frozen = !v->frozen;
    else
        source_pause(v->source, !v->state.paused);
}

ViewerDo viewer_wish(Viewer *v, TopWish wish)
{
    switch (wish) {
    case TOP_WISH_NONE:
        return VIEWER_GO_ON;
    case TOP_WISH_QUIT:
        return VIEWER_QUIT;
    case TOP_WISH_SIGNAL:
        send_signal(v);
        break;
    case TOP_WISH_PAUSE:
        pause_or_go_on(v);
        break;
    case TOP_WISH_SEEK:
        if (has_recording(v))
            source_seek(v->source, top_seek(v->top));
        break;
    case TOP_WISH_SPEED:
        if (has_recording(v))
            source_speed(v->source, v->state.speed * top_speed(v->top));
        break;
    case TOP_WISH_REDRAW:
        return VIEWER_REDRAW;
    }
    (void)viewer_news(v);
    return VIEWER_GO_ON;
}

/* --- its life ------------------------------------------------------------------------------------------------------
 */

int viewer_init(Viewer *v, Source *source, const ViewerOptions *options, Err *err)
{
    *v = (Viewer){.source = source, .interval_ns = options->interval_ns, .seen = {.trouble = "", .where = ""}};
    v->history = top_history_new();
    const int rc = top_new(&options->top, v->history, &v->top, err);
    if (rc < 0) {
        top_history_free(v->history);
        source_free(source);
        return rc;
    }
    v->commands = commands_new(options->root);
    v->shown = parcel_new();
    v->spare = parcel_new();
    return 0;
}

bool viewer_done(Viewer *v)
{
    const bool ended = source_free(v->source);

    top_free(v->top);
    top_history_free(v->history);
    commands_free(v->commands);
    parcel_free(v->shown);
    parcel_free(v->spare);
    return ended;
}
