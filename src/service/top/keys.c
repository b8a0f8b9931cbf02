/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as a table, from which dispatch, the foot and the help are made; prompts. Keys are those of htop, nvtop and
 * nvitop where these agree; where a letter means two things there, the help says which one it is here. */
#include "service/top/inside.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/utf8.h"

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
        overlay_signal_open(top);
    else
        top_open(top, (OverlayId)overlay);
}

static void run_prompt(Top *top, uint32_t key UNUSED, int kind)
{
    top->prompt = (PromptKind)kind;
    if (top->prompt == PROMPT_SEARCH)
        top->search[0] = '\0';
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

static void run_tree(Top *top, uint32_t key UNUSED, int value UNUSED)
{
    top->tree = (top->tree + 1) % TREE_END;
    top_order(top);
}

static void run_sort(Top *top, uint32_t key, int value UNUSED)
{
    for (size_t i = 0; i < process_column_count; i++)
        if (process_columns[i].letter == (char)key)
            top->sort = i;
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
    if (top_views[top->view].enter && top->snapshot->node)
        top_views[top->view].enter(top);
}

static void run_escape(Top *top, uint32_t key UNUSED, int value UNUSED)
{
    if (top->filter[0]) {
        top->filter[0] = '\0';
        top_order(top);
    } else if (top->back_count > 0) {
        top->view = top->back[--top->back_count];
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

static void run_seek(Top *top, uint32_t key, int value UNUSED)
{
    top->amount = key == ',' ? -10 : key == '.' ? 10 : key == '{' ? -60 : 60;
    top->wish = TOP_WISH_SEEK;
}

static void run_speed(Top *top, uint32_t key, int value UNUSED)
{
    top->amount = key == '[' ? 0.5 : 2;
    top->wish = TOP_WISH_SPEED;
}

/* A function key by its number. */
#define F(number) (TOP_KEY_F1 + (number)-1)

const KeyRow top_keys[] = {
    {{F(1), '?', 'h'}, "F1 ? h", "Help", EVERYWHERE, run_overlay, OVERLAY_HELP, "this page"},
    {{F(2), 'S'}, "F2 S", "Setup", EVERYWHERE, run_overlay, OVERLAY_SETUP, "what is plotted, how rows are shown"},
    {{F(3), '/'}, "F3 /", "Find", EVERYWHERE & ~IN_GPU, run_prompt, PROMPT_SEARCH, "finds a row; F3 again: the next"},
    {{F(4), '\\'}, "F4 \\", "Filter", IN_TABLES, run_prompt, PROMPT_FILTER, "shows matching processes alone"},
    {{F(5), 't'}, "F5 t", "Tree", IN_TABLES, run_tree, 0, "processes by owner, by GPU, plain"},
    {{F(6), '<', '>'}, "F6 < >", "Sort", IN_TABLES, run_overlay, OVERLAY_SORT, "chooses the column to sort by"},
    {{F(9), 'k'}, "F9 k", "Kill", IN_TABLES, run_overlay, OVERLAY_SIGNAL, "sends a signal, after a question"},
    {{F(10), 'q', CONTROL_C}, "F10 q", "Quit", EVERYWHERE, run_wish, TOP_WISH_QUIT, "quits"},
    {{TOP_KEY_RIGHT, TOP_KEY_LEFT}, "Left Right", NULL, IN_GPU, run_other, 0, "the GPU or instance before or after"},
    {{'-', '+', '='}, "+/-", "Span", IN_GPU | IN_GPUS, run_span, 0, "plots 1 min, 10 min, 1 h or 24 h"},
    {{'b'}, "b", "Dots", IN_GPU, run_switch, offsetof(Top, dots), "plots of dots or of blocks"},
    {{'1', '2', '3', '4', '5'}, "1 - 5", NULL, EVERYWHERE, run_view, 0, "the views"},
    {{TOP_KEY_TAB}, "Tab", NULL, EVERYWHERE, run_view, 1, "the next view; Shift-Tab: the one before"},
    {{TOP_KEY_BACK_TAB}, "", NULL, EVERYWHERE, run_view, -1, NULL},
    {{TOP_KEY_ENTER}, "Enter", NULL, EVERYWHERE, run_enter, 0, "opens what is under the cursor"},
    {{'F'}, "F", NULL, IN_TABLES, run_enter, 0, "follows the process under the cursor"},
    {{TOP_KEY_ESCAPE}, "Escape", NULL, EVERYWHERE, run_escape, 0, "closes, ends the filter, goes back"},
    {{'N', 'P', 'M', 'T', 'U', 'C'},
     "N P M T U C",
     NULL,
     IN_TABLES,
     run_sort,
     0,
     "sort by pid, SM share, GPU memory, age, user, CPU"},
    {{'I'}, "I", NULL, IN_TABLES, run_switch, offsetof(Top, reverse), "reverse order"},
    {{'c'}, "c", NULL, IN_GPUS, run_switch, offsetof(Top, compact), "one line for a GPU"},
    {{' '}, "Space", NULL, EVERYWHERE, run_wish, TOP_WISH_PAUSE, "holds the picture, goes on"},
    {{',', '.', '{', '}'}, ", . { }", NULL, EVERYWHERE, run_seek, 0, "of a replay: 10 s or a minute back or on"},
    {{'[', ']'}, "[ ]", NULL, EVERYWHERE, run_speed, 0, "of a replay: slower, faster"},
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

/* --- prompts -------------------------------------------------------------------------------------------------------
 */

static void append_key(char *text, uint32_t key)
{
    const size_t len = strlen(text);
    char bytes[UTF8_MAX];

    if (key < ' ' || key == 0x7f || (key >= 0xd800 && key < 0xe000) || key >= TOP_KEY_UP)
        return;
    const size_t count = utf8_write(bytes, key);
    if (len + count < TOP_TEXT_CAP) {
        memcpy(text + len, bytes, count);
        text[len + count] = '\0';
    }
}

static void drop_last(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && ((unsigned char)text[len - 1] & 0xc0) == 0x80)
        len--;
    text[len > 0 ? len - 1 : 0] = '\0';
}

/* The first row from `from` on, all the way round, that holds the text. */
static void find_text(Top *top, size_t from)
{
    List *list = top_list(top);

    for (size_t i = 0; top->search[0] && i < list->count; i++) {
        const size_t row = (from + i) % list->count;

        if (!top_row_has(top, row, top->search))
            continue;
        list->selected = row;
        top_moved(top, top->view);
        return;
    }
}

/* Of an open prompt: edits its text, and shows at once what it finds or leaves. */
void prompt_key(Top *top, uint32_t key)
{
    const bool search = top->prompt == PROMPT_SEARCH, next = search && key == TOP_KEY_F1 + 2;
    const bool ends = key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE;
    char *text = search ? top->search : top->filter;

    if (ends)
        top->prompt = PROMPT_NONE;
    if (key == TOP_KEY_ESCAPE && !search)
        text[0] = '\0';
    else if (key == TOP_KEY_BACKSPACE)
        drop_last(text);
    else if (!next)
        append_key(text, key);
    if (!search)
        top_order(top);
    else if (!ends)
        find_text(top, top_list(top)->selected + next);
}

/* --- the foot ------------------------------------------------------------------------------------------------------
 */

static void draw_prompt(const Top *top, Grid *grid, Area area)
{
    const bool search = top->prompt == PROMPT_SEARCH;
    int x = grid_text(grid, area, 0, 0, INK_KEY, search ? "Search: " : "Filter: ");

    x = grid_text(grid, area, x, 0, INK_STRONG, search ? top->search : top->filter);
    if (x < area.width)
        grid_reverse(grid, (Area){.x = area.x + x, .y = area.y, .width = 1, .height = area.height});
    grid_right(grid, area, area.width, 0, INK_DIM, search ? "F3: next, Enter: stay" : "Enter: keep, Escape: none");
}

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

    if (top->prompt != PROMPT_NONE) {
        draw_prompt(top, grid, area);
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
    {"delete", TOP_KEY_DELETE},
    {"space", ' '},
};

static bool parse_function(const char *word, size_t len, uint32_t *ret)
{
    uint64_t number;

    if (len < 2 || (word[0] != 'F' && word[0] != 'f') || number_parsen_u64(word + 1, len - 1, 1, 12, &number, NULL) < 0)
        return false;
    *ret = TOP_KEY_F1 + (uint32_t)number - 1;
    return true;
}

static int parse_key(const char *word, size_t len, uint32_t *ret, Err *err)
{
    uint32_t character;

    if (utf8_read(word, len, &character) == len) {
        *ret = character;
        return 0;
    }
    if (parse_function(word, len, ret))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(key_names); i++)
        if (strlen(key_names[i].name) == len && strncasecmp(key_names[i].name, word, len) == 0) {
            *ret = key_names[i].key;
            return 0;
        }
    return err_set(
        err, -EINVAL,
        "'%.*s' is no key: single characters are, F1 to F12, space, enter, esc, tab, backtab, up, down, left, "
        "right, pgup, pgdn, home, end, backspace, delete",
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
