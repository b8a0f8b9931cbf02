/* SPDX-License-Identifier: Apache-2.0 */
/* One screen or look for a pipe, and recording without a screen. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "verb/top/session.h"

enum { FIRST_LOOK_MS = 20000, PAST_MS = 3000, TURN_MS = 500 };

static bool wait_for_source(const Source *source, uint64_t deadline_ns)
{
    struct pollfd fd = {.fd = source_fd(source), .events = POLLIN};
    const uint64_t now = clock_monotonic(clock_kernel());
    uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / NS_PER_MS + 1 : 0;

    if (left_ms > TURN_MS)
        left_ms = TURN_MS;
    (void)poll(&fd, 1, (int)left_ms);
    return now < deadline_ns;
}

static uint64_t in_ms(uint64_t ms)
{
    return clock_monotonic(clock_kernel()) + ms * NS_PER_MS;
}

static int no_look(const SourceState *state, Err *err)
{
    return err_set(err, state->failed ? -EIO : -ETIMEDOUT, "%s", state->trouble[0] ? state->trouble : "no look came");
}

static int wait_for_look(Viewer *viewer, Err *err)
{
    const uint64_t deadline = in_ms(FIRST_LOOK_MS);

    while (!viewer_has_look(viewer)) {
        (void)viewer_news(viewer);
        if (viewer_has_look(viewer))
            break;
        /* an agent that does not answer is not waited for any longer than it is asked once */
        const bool refused = viewer->state.kind == TOP_AGENT && viewer->state.trouble[0];
        if (viewer->state.failed || refused || !wait_for_source(viewer->source, deadline))
            return no_look(&viewer->state, err);
    }
    return 0;
}

static void wait_for_past(Viewer *viewer)
{
    const uint64_t deadline = in_ms(PAST_MS);

    while (!source_filled(viewer->source) && wait_for_source(viewer->source, deadline))
        (void)source_fill(viewer->source, viewer->history);
    (void)source_fill(viewer->source, viewer->history);
}

static void press(Viewer *viewer, Grid *grid, uint32_t key)
{
    const TopWish wish = top_key(viewer->top, key);

    if (wish == TOP_WISH_SIGNAL)
        top_say(viewer->top, INK_BAD, "one screen for a pipe sends no signals");
    else if (wish != TOP_WISH_QUIT)
        (void)viewer_wish(viewer, wish);
    viewer_draw(viewer, grid);
}

int batch_screen(Viewer *viewer, const BatchOptions *options, Str *out, Err *err)
{
    CLEANUP(grid_done) Grid grid = {0};

    TRY(wait_for_look(viewer, err));
    grid_init(&grid, options->width, options->height, options->utf8);
    viewer_draw(viewer, &grid);
    for (size_t i = 0; i < options->key_count; i++)
        press(viewer, &grid, options->keys[i]);
    wait_for_past(viewer);
    viewer_draw(viewer, &grid);
    grid_print_ansi(&grid, options->coloured, out);
    return 0;
}

int batch_json(Source *source, Str *out, int *ret_code, Err *err)
{
    const uint64_t deadline = in_ms(FIRST_LOOK_MS);
    Parcel *parcel = parcel_new();
    SourceState state;
    TopSeen seen = {0};
    int rc = 0;

    while (!source_take(source, &parcel)) {
        source_state(source, &state);
        const bool refused = state.kind == TOP_AGENT && state.trouble[0];
        if (!state.failed && !refused && wait_for_source(source, deadline))
            continue;
        rc = no_look(&state, err);
        break;
    }
    if (rc == 0) {
        look_seen(&parcel->look, &seen);
        *ret_code = status_code(&seen.status);
        if (parcel->text.len > 0)
            str_addn(out, parcel->text.text, parcel->text.len);
        else
            status_json(&seen.status, out);
        if (out->len > 0 && out->text[out->len - 1] != '\n')
            str_addc(out, '\n');
    }
    parcel_free(parcel);
    return rc;
}

static volatile sig_atomic_t ended;

static void end_it(int number)
{
    (void)number;
    ended = 1;
}

int batch_record(Source *source, uint64_t for_ns, Err *err)
{
    const struct sigaction action = {.sa_handler = end_it, .sa_flags = (int)SA_RESETHAND};
    const uint64_t deadline = for_ns ? clock_monotonic(clock_kernel()) + for_ns : UINT64_MAX;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    Parcel *parcel = parcel_new();
    SourceState state;

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        sigaction(numbers[i], &action, NULL);
    do {
        (void)source_take(source, &parcel);
        source_state(source, &state);
    } while (!ended && !state.failed && !state.record[0] && wait_for_source(source, deadline));
    parcel_free(parcel);
    if (state.record[0])
        return err_set(err, -EIO, "%s", state.record);
    if (state.looks == 0)
        return no_look(&state, err);
    return 0;
}
