/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/session.h"

#include "base/clock.h"
#include "base/number.h"

enum { AGE_MS = 1000 };

typedef struct Session {
    Viewer *viewer;
    Terminal *terminal;
    Grid grid;
    uint64_t end_ns;
    int signal;
    bool over;
} Session;

static void draw(Session *s)
{
    viewer_draw(s->viewer, &s->grid);
    terminal_show(s->terminal, &s->grid);
}

static void obey(Session *s, TopWish wish)
{
    switch (viewer_wish(s->viewer, wish)) {
    case VIEWER_QUIT:
        s->over = true;
        return;
    case VIEWER_REDRAW:
        terminal_redraw(s->terminal);
        break;
    case VIEWER_GO_ON:
        break;
    }
    draw(s);
}

static void take(Session *s, const TerminalNews *news)
{
    switch (news->what) {
    case TERMINAL_KEY:
        obey(s, top_key(s->viewer->top, news->key));
        return;
    case TERMINAL_MOUSE:
        obey(s, top_mouse(s->viewer->top, news->mouse, news->x, news->y));
        return;
    case TERMINAL_RESIZE:
        grid_resize(&s->grid, news->width, news->height);
        draw(s);
        return;
    case TERMINAL_END:
        s->signal = news->signal;
        s->over = true;
        return;
    case TERMINAL_TIMEOUT:
    case TERMINAL_READY:
        if (viewer_news(s->viewer))
            draw(s);
        return;
    }
}

static bool never(const Viewer *viewer)
{
    return viewer->state.failed && viewer->state.looks == 0;
}

static void go(Session *s)
{
    struct pollfd other = {.fd = source_fd(s->viewer->source), .events = POLLIN};
    TerminalNews news;

    draw(s);
    while (!s->over && !never(s->viewer)) {
        const uint64_t now = clock_monotonic(clock_kernel());
        uint64_t deadline = now + AGE_MS * NS_PER_MS;

        if (s->end_ns)
            deadline = number_min_u64(deadline, s->end_ns);
        if (s->end_ns && now >= s->end_ns)
            return;
        terminal_wait(s->terminal, deadline, &other, 1, &news);
        take(s, &news);
    }
}

int session_run(Viewer *viewer, const SessionOptions *options, int *ret_signal, Err *err)
{
    Session s = {.viewer = viewer};

    TRY(terminal_open(&options->terminal, &s.terminal, err));
    if (options->for_ns)
        s.end_ns = clock_monotonic(clock_kernel()) + options->for_ns;
    grid_init(&s.grid, terminal_width(s.terminal), terminal_height(s.terminal), terminal_utf8(s.terminal));
    (void)viewer_news(viewer);
    go(&s);
    terminal_close(s.terminal);
    grid_done(&s.grid);
    *ret_signal = s.signal;
    return 0;
}
