/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as a table, from which dispatch, the foot and the help are made; the prompt; overlays: help, setup, signals.
 * Keys are those of htop, nvtop and nvitop where these agree; where a letter means two things there, the help says
 * which one it is here. */
#include "service/top/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/utf8.h"

/* --- help --------------------------------------------------------------------------------------------------------- */

static const char *const notes[] = {
    ("SM is the share of time in which the multiprocessors really worked; UTIL only says that some kernel ran. The bar "
     "is SM with a mark at UTIL, or UTIL where SM is not reported."),
    ("- is a value that is not there, never zero; the view of one GPU says why. Limits are the GPU's own: its slowdown "
     "temperature, its power limit."),
    "h j k l g G move as in vi. Signals are refused in read-only mode and in a replay.",
};

static void draw_help_row(Pen *pen, Grid *grid, const char *label, const char *text)
{
    const Area line = pen_line(pen, false);

    grid_text(grid, line, 1, 0, INK_KEY, label);
    grid_text(grid, line, 18, 0, INK_PLAIN, text);
}

static void draw_help(Top *top, Grid *grid, Area area)
{
    Pen pen = pen_begin(&top->overlay_list, area, 1);
    char label[32];

    pen_title(&pen, grid, "Views");
    for (size_t i = 0; i < VIEW_END; i++) {
        snprintf(label, sizeof label, "%zu %s", i + 1, top_views[i].title);
        draw_help_row(&pen, grid, label, top_views[i].about);
    }
    pen_title(&pen, grid, "Keys");
    for (size_t i = 0; i < top_key_count; i++)
        if (top_keys[i].help) /* else described by the row before */
            draw_help_row(&pen, grid, top_keys[i].label, top_keys[i].help);
    draw_help_row(&pen, grid, "mouse",
                  "a row selects, again opens; heads sort; the foot's keys and the views' names work");
    pen_title(&pen, grid, "To know");
    for (size_t i = 0; i < ARRAY_LEN(notes); i++)
        for (const char *text = notes[i]; *text;) {
            const size_t len = grid_text_fit(text, area.width > 20 ? area.width - 2 : 18, 1);

            grid_textf(grid, pen_line(&pen, false), 1, 0, INK_PLAIN, "%.*s", (int)len, text);
            text += len + (text[len] == ' ');
        }
    pen_end(&pen, &top->overlay_list);
}

/* --- lists to choose from ----------------------------------------------------------------------------------------- */

/* The switches behind the plots; the last row is the theme. */
static const struct {
    size_t offset;
    const char *text;
} switches[] = {
    {offsetof(Top, list_processes), "processes below the GPUs"},
    {offsetof(Top, tree), "processes by job, pod, container, user"},
};

/* The switch of a row of the setup; NULL: the theme. */
static bool *find_switch(Top *top, size_t row)
{
    if (row < top_plot_count)
        return &top->plotted[row];
    row -= top_plot_count;
    return row < ARRAY_LEN(switches) ? (bool *)((char *)top + switches[row].offset) : NULL;
}

static void draw_setup_row(Top *top, Grid *grid, Area line, size_t row, const void *context UNUSED)
{
    const bool *is = find_switch(top, row);

    if (!is) {
        grid_textf(grid, line, 1, 0, INK_PLAIN, "colours: %s", theme_names[top->theme]);
        return;
    }
    const int x = grid_text(grid, line, 1, 0, INK_KEY, *is ? "[x]" : "[ ]");

    if (row < top_plot_count)
        grid_textf(grid, line, x + 1, 0, INK_PLAIN, "plot %s", top_plots[row].title);
    else
        grid_text(grid, line, x + 1, 0, INK_PLAIN, switches[row - top_plot_count].text);
}

static void draw_setup(Top *top, Grid *grid, Area area)
{
    grid_text(grid, area_bottom(&area, 1), 1, 0, INK_DIM, "Space changes it, Escape closes");
    list_draw(top, &top->overlay_list, grid, area, 0, 0, draw_setup_row, NULL);
}

static void choose_setup(Top *top)
{
    bool *is = find_switch(top, top->overlay_list.selected);

    if (is)
        *is = !*is;
    else
        top->theme = (top->theme + 1) % THEME_END;
    top_order(top);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static const struct {
    int number;
    const char *name, *text;
} signals[] = {
    {SIGTERM, "SIGTERM", "asks it to end"},
    {SIGINT, "SIGINT", "as Control-C"},
    {SIGKILL, "SIGKILL", "ends it at once, nothing is saved"},
    {SIGHUP, "SIGHUP", "hang up; many programs read their settings again"},
    {SIGQUIT, "SIGQUIT", "ends it with a core dump"},
    {SIGABRT, "SIGABRT", "ends it with a core dump"},
    {SIGUSR1, "SIGUSR1", "as the program has it"},
    {SIGUSR2, "SIGUSR2", "as the program has it"},
    {SIGSTOP, "SIGSTOP", "stops it; it keeps its GPU memory"},
    {SIGCONT, "SIGCONT", "lets it go on"},
};

/* Opens the dialog for the process under the cursor, or says why not. */
static void open_signals(Top *top)
{
    const ProcessRow *row = top_process(top);

    if (top->read_only)
        top_say(top, INK_WARN, "read only: no signals are sent");
    else if (top->feed->kind == FEED_RECORDING || top->feed->kind == FEED_HISTORY)
        top_say(top, INK_WARN, "this is the past: its processes cannot be signalled");
    else if (!row)
        top_say(top, INK_WARN, "choose a process first: arrows, or 3 for all processes");
    else if (!row->owner || row->owner->start_ns == 0)
        top_say(top, INK_WARN, "this process is not seen here (another pid namespace, or it has ended)");
    else {
        top->target = process_row_thing(row);
        top->target_owner = *row->owner;
        top_open(top, OVERLAY_SIGNAL);
    }
}

/* Removes its rows and a blank one from the area. */
static void draw_target(const Top *top, Grid *grid, Area *area)
{
    const ProcessOwner *owner = &top->target_owner;
    const bool roomy = area->height > 8;
    int x = grid_text(grid, *area, 0, 0, INK_DIM, "process "), rows = 2;
    Area three = *area;

    x = grid_textf(grid, *area, x, 0, INK_STRONG, "%" PRIu32, top->target.pid);
    x = grid_text(grid, *area, x, 0, INK_DIM, " of ");
    grid_text(grid, *area, x, 0, INK_STRONG, owner->user[0] ? owner->user : "an unknown user");
    three.height = 3;
    if (area->height > 12)
        rows = text_wrap(grid, three, 1, INK_PLAIN, owner_command(owner));
    else
        grid_text(grid, *area, 0, 1, INK_PLAIN, owner_command(owner));
    area_top(area, rows + roomy);
}

static void draw_signal_row(Top *top UNUSED, Grid *grid, Area line, size_t i, const void *context UNUSED)
{
    grid_textf(grid, line, 1, 0, INK_KEY, "%2d %s", signals[i].number, signals[i].name);
    grid_text(grid, line, 13, 0, INK_PLAIN, signals[i].text);
}

static void draw_signals(Top *top, Grid *grid, Area area)
{
    draw_target(top, grid, &area);
    list_draw(top, &top->overlay_list, grid, area, 0, 0, draw_signal_row, NULL);
}

static void choose_signal(Top *top)
{
    top_open(top, OVERLAY_CONFIRM);
}

static void draw_confirm(Top *top, Grid *grid, Area area)
{
    const size_t chosen = top->overlay_list.selected;

    draw_target(top, grid, &area);
    grid_textf(grid, area, 0, 0, INK_WARN, "Send %s to it? It %s.", signals[chosen].name, signals[chosen].text);
    int x = grid_text(grid, area, 0, 2, INK_KEY, "y");
    x = grid_text(grid, area, x, 2, INK_PLAIN, " sends it   ");
    x = grid_text(grid, area, x, 2, INK_KEY, "n");
    grid_text(grid, area, x, 2, INK_PLAIN, " or Escape does not");
}

static void answer_confirm(Top *top, uint32_t key)
{
    const size_t chosen = top->overlay_list.selected;
    const bool yes = key == 'y' || key == 'Y';

    if (!yes && key != 'n' && key != 'N')
        return;
    top_open(top, OVERLAY_NONE);
    if (!yes)
        return;
    top->signal = (TopSignal){.pid = (pid_t)top->target.pid,
                              .start_ns = top->target_owner.start_ns,
                              .number = signals[chosen].number,
                              .name = signals[chosen].name};
    top->wish = TOP_WISH_SIGNAL;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

typedef struct Overlay {
    void (*draw)(Top *top, Grid *grid, Area area); /* within a frame that is drawn already */
    void (*choose)(Top *top);                      /* Enter or Space; NULL: closes it */
    const char *title;
    int width, height; /* wanted inside; 0: all there is */
} Overlay;

static const Overlay overlays[OVERLAY_END] = {
    [OVERLAY_HELP] = {draw_help, NULL, "help", 0, 0},
    [OVERLAY_SETUP] = {draw_setup, choose_setup, "setup", 54, 15},
    [OVERLAY_SIGNAL] = {draw_signals, choose_signal, "send a signal", 70, 16},
    [OVERLAY_CONFIRM] = {draw_confirm, NULL, "send a signal", 70, 16},
    [OVERLAY_PROCESS] = {overlay_process_draw, NULL, "process", 110, 16},
    [OVERLAY_INCIDENT] = {overlay_incident_draw, NULL, "incident", 0, 0},
};

/* What there is to choose from, known before it is drawn: keys may come faster. */
static void count_rows(Top *top)
{
    if (top->overlay == OVERLAY_SETUP)
        top->overlay_list.count = top_plot_count + ARRAY_LEN(switches) + 1;
    else if (top->overlay == OVERLAY_SIGNAL)
        top->overlay_list.count = ARRAY_LEN(signals);
}

void overlay_draw(Top *top, Grid *grid)
{
    const Overlay *overlay = &overlays[top->overlay];
    const Area all = grid_area(grid);
    const int width = overlay->width && overlay->width + 4 < all.width ? overlay->width + 4 : all.width;
    const int height = overlay->height && overlay->height + 2 < all.height ? overlay->height + 2 : all.height;
    const Area place = {.x = (all.width - width) / 2, .y = (all.height - height) / 2, .width = width, .height = height};

    top->zone_count = 0; /* the view below does not react */
    grid_fill(grid, place, INK_PLAIN, " ");
    Area inside = grid_box(grid, place, INK_TITLE, overlay->title);
    if (inside.width > 4) {
        inside.x++;
        inside.width -= 2;
    }
    count_rows(top);
    overlay->draw(top, grid, inside);
}

void overlay_key(Top *top, uint32_t key)
{
    const Overlay *overlay = &overlays[top->overlay];
    const bool enter = key == TOP_KEY_ENTER || (key == ' ' && top->overlay != OVERLAY_SIGNAL);

    count_rows(top);
    if (key == TOP_KEY_ESCAPE || key == TOP_KEY_F1 + 9 || key == 'q' ||
        (top->overlay == OVERLAY_HELP && (key == TOP_KEY_F1 || key == '?')))
        top_open(top, OVERLAY_NONE);
    else if (top->overlay == OVERLAY_CONFIRM)
        answer_confirm(top, key);
    else if (enter && overlay->choose)
        overlay->choose(top);
    else if (enter)
        top_open(top, OVERLAY_NONE);
    else if (top->overlay == OVERLAY_PROCESS && (key == 'K' || key == TOP_KEY_F1 + 8))
        open_signals(top);
    else if (!list_key(&top->overlay_list, key))
        for (size_t i = 0; i < ARRAY_LEN(signals) && top->overlay == OVERLAY_SIGNAL; i++)
            if (key >= '1' && key <= '9' && signals[i].number == (int)(key - '0'))
                top->overlay_list.selected = i;
}

/* --- the keys ----------------------------------------------------------------------------------------------------- */

enum {
    IN_GPUS = 1 << VIEW_GPUS,
    IN_GPU = 1 << VIEW_GPU,
    IN_TABLES = IN_GPUS | 1 << VIEW_PROCESSES, /* of processes */
    EVERYWHERE = (1 << VIEW_END) - 1,
    CONTROL_C = 3,
    CONTROL_L = 12,
};

static void run_overlay(Top *top, uint32_t key UNUSED, int overlay)
{
    if (overlay == OVERLAY_SIGNAL)
        open_signals(top);
    else
        top_open(top, (OverlayId)overlay);
}

static void run_filter(Top *top, uint32_t key UNUSED, int value UNUSED)
{
    top->prompt = true;
}

static void run_wish(Top *top, uint32_t key UNUSED, int wish)
{
    top->wish = (TopWish)wish;
}

/* Views by number, or the next and the one before. */
static void run_view(Top *top, uint32_t key, int step)
{
    top_go(top, step ? (ViewId)(((int)top->view + step + VIEW_END) % VIEW_END) : (ViewId)(key - '1'));
}

static void run_sort(Top *top, uint32_t key, int value UNUSED)
{
    for (size_t i = 0; i < process_column_count; i++)
        if (process_columns[i].letter == (char)key)
            top->sort = i;
    top->reverse = false;
    top_order(top);
}

static void run_sort_next(Top *top, uint32_t key, int value UNUSED)
{
    char text[TOP_TEXT_CAP];

    top->sort = (top->sort + (key == '<' ? process_column_count - 1 : 1)) % process_column_count;
    snprintf(text, sizeof text, "sorted by %s", process_columns[top->sort].column.key);
    top_say(top, INK_PLAIN, text);
    top->reverse = false;
    top_order(top);
}

/* A switch of Top, by its offset. */
static void run_switch(Top *top, uint32_t key UNUSED, int offset)
{
    bool *is = (bool *)((char *)top + offset);

    *is = !*is;
    top_order(top);
}

static void run_enter(Top *top, uint32_t key UNUSED, int value UNUSED)
{
    if (top->snapshot->node)
        top_enter(top);
}

static void run_escape(Top *top, uint32_t key UNUSED, int value UNUSED)
{
    if (top->filter[0]) {
        top->filter[0] = '\0';
        top_order(top);
    } else {
        top->view = top->back;
        top->back = VIEW_GPUS;
    }
}

/* The device before or after the one that is followed, instances too. */
static void run_other(Top *top, uint32_t key, int value UNUSED)
{
    const GpuRow *row = top_followed(top);
    const size_t at = row ? (size_t)(row - top->gpus.at) : 0, count = top->gpus.len;

    if (count > 0)
        top_follow(top, &top->gpus.at[(at + (key == TOP_KEY_RIGHT ? 1 : count - 1)) % count].reading->device);
}

static void run_span(Top *top, uint32_t key, int value UNUSED)
{
    if (key == '-' && top->span + 1 < SPAN_END)
        top->span++;
    else if (key != '-' && top->span > 0)
        top->span--;
}

/* The keys of a replay: seconds to seek by, factors of its speed. */
static void run_replay(Top *top, uint32_t key, int wish)
{
    static const char keys[] = ",.{}[]";
    static const double amounts[] = {-10, 10, -60, 60, 0.5, 2};

    top->amount = amounts[strchr(keys, (int)key) - keys];
    top->wish = (TopWish)wish;
}

/* A function key by its number. */
#define F(number) (TOP_KEY_F1 + (number)-1)

const KeyRow top_keys[] = {
    {{F(1), '?'}, "F1 ?", "Help", EVERYWHERE, run_overlay, OVERLAY_HELP, "this page"},
    {{F(2), 'S'}, "F2 S", "Setup", EVERYWHERE, run_overlay, OVERLAY_SETUP, "what is plotted and listed; colours"},
    {{F(4), F(3), '/', '\\'}, "F4 /", "Filter", IN_TABLES, run_filter, 0, "shows matching processes alone"},
    {{F(5), 't'},
     "F5 t",
     "Group",
     IN_TABLES,
     run_switch,
     offsetof(Top, tree),
     "processes by job, pod, container, user, or one by one"},
    {{F(6), '<', '>'}, "F6 < >", "Sort", IN_TABLES, run_sort_next, 0, "sorts by the next column or the one before"},
    {{F(9), 'K'}, "F9 K", "Kill", IN_TABLES, run_overlay, OVERLAY_SIGNAL, "sends a signal, after a question"},
    {{F(10), 'q', CONTROL_C}, "F10 q", "Quit", EVERYWHERE, run_wish, TOP_WISH_QUIT, "quits"},
    {{TOP_KEY_RIGHT, TOP_KEY_LEFT}, "Left Right", NULL, IN_GPU, run_other, 0, "the GPU or instance before or after"},
    {{'-', '+', '='}, "+/-", "Span", IN_GPU | IN_GPUS, run_span, 0, "plots 1 min, 10 min, 1 h or 24 h"},
    {{'b'}, "b", "Dots", IN_GPU, run_switch, offsetof(Top, dots), "plots of dots or of blocks"},
    {{'1', '2', '3', '4', '5'}, "1 - 5", NULL, EVERYWHERE, run_view, 0, "the views"},
    {{TOP_KEY_TAB}, "Tab", NULL, EVERYWHERE, run_view, 1, "the next view; Shift-Tab: the one before"},
    {{TOP_KEY_BACK_TAB}, "", NULL, EVERYWHERE, run_view, -1, NULL},
    {{TOP_KEY_ENTER}, "Enter", NULL, EVERYWHERE, run_enter, 0, "opens what is under the cursor"},
    {{TOP_KEY_ESCAPE}, "Escape", NULL, EVERYWHERE, run_escape, 0, "closes, ends the filter, goes back"},
    {{'N', 'P', 'M', 'T', 'U', 'C'},
     "N P M T U C",
     NULL,
     IN_TABLES,
     run_sort,
     0,
     "sort by pid, utilisation, GPU memory, age, user, CPU"},
    {{'I'}, "I", NULL, IN_TABLES, run_switch, offsetof(Top, reverse), "reverse order"},
    {{' '}, "Space", NULL, EVERYWHERE, run_wish, TOP_WISH_PAUSE, "holds the picture, goes on"},
    {{',', '.', '{', '}'},
     ", . { }",
     NULL,
     EVERYWHERE,
     run_replay,
     TOP_WISH_SEEK,
     "of a replay: 10 s or a minute back or on"},
    {{'[', ']'}, "[ ]", NULL, EVERYWHERE, run_replay, TOP_WISH_SPEED, "of a replay: slower, faster"},
    {{CONTROL_L}, "Ctrl-L", NULL, EVERYWHERE, run_wish, TOP_WISH_NONE, "draws the screen anew"},
};
const size_t top_key_count = ARRAY_LEN(top_keys);

void keys_run(Top *top, uint32_t key)
{
    for (size_t i = 0; i < ARRAY_LEN(top_keys); i++)
        for (size_t k = 0; k < ARRAY_LEN(top_keys[i].keys) && top_keys[i].keys[k]; k++)
            if (top_keys[i].keys[k] == key && (top_keys[i].views >> top->view & 1))
                top_keys[i].run(top, key, top_keys[i].value);
}

/* --- prompts ------------------------------------------------------------------------------------------------------ */

/* Adds a character or, at Backspace, takes the last one off; other keys do nothing. */
static void edit_text(char text[TOP_TEXT_CAP], uint32_t key)
{
    const bool character = key >= ' ' && key != 0x7f && !(key >= 0xd800 && key < 0xe000) && key < TOP_KEY_UP;
    size_t len = strlen(text);
    char bytes[UTF8_MAX];

    if (character) {
        const size_t count = utf8_write(bytes, key);

        if (len + count < TOP_TEXT_CAP)
            memcpy(text + len, bytes, count);
        text[len + count < TOP_TEXT_CAP ? len + count : len] = '\0';
    } else if (key == TOP_KEY_BACKSPACE && len > 0) {
        while (len > 1 && ((unsigned char)text[len - 1] & 0xc0) == 0x80)
            len--;
        text[len - 1] = '\0';
    }
}

/* Edits the filter, and shows at once what it leaves. */
void prompt_key(Top *top, uint32_t key)
{
    top->prompt = key != TOP_KEY_ENTER && key != TOP_KEY_ESCAPE;
    if (key == TOP_KEY_ESCAPE)
        top->filter[0] = '\0';
    edit_text(top->filter, key);
    top_order(top);
}

/* --- the foot ----------------------------------------------------------------------------------------------------- */

/* "F1Help": the first of its keys, and its word. */
static int draw_key(Top *top, Grid *grid, Area area, int x, const KeyRow *row)
{
    const int key = (int)strcspn(row->label, " "), width = key + (int)strlen(row->foot);

    if (x + width > area.width)
        return x;
    grid_textf(grid, area, x, 0, INK_KEY, "%.*s", key, row->label);
    grid_text(grid, area, x + key, 0, INK_PLAIN, row->foot);
    area_left(&area, x);
    const Area place = area_left(&area, width);
    area = place;
    area_left(&area, key);
    grid_reverse(grid, area);
    top_zone(top, place, ZONE_KEY, row->keys[0]);
    return x + width + 1;
}

void foot_draw(Top *top, Grid *grid, Area area)
{
    int x = 0;

    if (top->prompt) {
        x = grid_text(grid, area, 0, 0, INK_KEY, "Filter: ");
        x = grid_text(grid, area, x, 0, INK_STRONG, top->filter);
        grid_reverse(grid, (Area){.x = area.x + x, .y = area.y, .width = x < area.width, .height = area.height});
        grid_right(grid, area, area.width, 0, INK_DIM, "Enter: keep, Escape: none");
        return;
    }
    if (top->said_left > 0) {
        grid_text(grid, area, 0, 0, top->said_ink, top->said);
        return;
    }
    for (size_t i = 0; i < top_key_count; i++)
        if (top_keys[i].foot && (top_keys[i].views >> top->view & 1))
            x = draw_key(top, grid, area, x, &top_keys[i]);
}

/* --- by their names ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t key;
} key_names[] = {
    {"up", TOP_KEY_UP},
    {"down", TOP_KEY_DOWN},
    {"left", TOP_KEY_LEFT},
    {"right", TOP_KEY_RIGHT},
    {"pgup", TOP_KEY_PAGE_UP},
    {"pgdn", TOP_KEY_PAGE_DOWN},
    {"home", TOP_KEY_HOME},
    {"end", TOP_KEY_END},
    {"enter", TOP_KEY_ENTER},
    {"esc", TOP_KEY_ESCAPE},
    {"backspace", TOP_KEY_BACKSPACE},
    {"tab", TOP_KEY_TAB},
    {"backtab", TOP_KEY_BACK_TAB},
    {"space", ' '},
};

static int parse_key(const char *word, size_t len, uint32_t *ret, Err *err)
{
    uint64_t number;
    uint32_t key;

    if (utf8_read(word, len, &key) == len) {
        *ret = key;
        return 0;
    }
    if ((word[0] == 'F' || word[0] == 'f') && number_parsen_u64(word + 1, len - 1, 1, 12, &number, NULL) == 0) {
        *ret = TOP_KEY_F1 + (uint32_t)number - 1;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(key_names); i++)
        if (strlen(key_names[i].name) == len && strncasecmp(key_names[i].name, word, len) == 0) {
            *ret = key_names[i].key;
            return 0;
        }
    return err_set(
        err, -EINVAL,
        "'%.*s' is no key: single characters are, F1 to F12, space, enter, esc, tab, backtab, up, down, left, "
        "right, pgup, pgdn, home, end, backspace",
        (int)(len < 40 ? len : 40), word);
}

int keys_parse(const char *text, KeyList *ret, Err *err)
{
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        const size_t len = strcspn(at, " ");
        uint32_t key = 0;

        TRY(parse_key(at, len, &key, err));
        vec_push(ret, key);
        at += len;
    }
    return 0;
}
