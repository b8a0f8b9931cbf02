/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as a table, which the foot and the help are made from too. They are those of htop, nvtop and nvitop where these
 * agree; where a letter means two things there, the help says which one it is here. */
#include <string.h>

#include "base/owner.h"
#include "service/top/view.h"

enum {
    IN_GPUS = 1 << VIEW_GPUS,
    IN_GPU = 1 << VIEW_GPU,
    IN_PROCESSES = 1 << VIEW_PROCESSES,
    IN_INCIDENTS = 1 << VIEW_INCIDENTS,
    EVERYWHERE = (1 << VIEW_END) - 1,
    CONTROL_C = 3,
    CONTROL_L = 12,
};

static TopWish run_help(Top *top, uint32_t key UNUSED)
{
    top_open(top, OVERLAY_HELP);
    return TOP_WISH_NONE;
}

static TopWish run_setup(Top *top, uint32_t key UNUSED)
{
    top_open(top, OVERLAY_SETUP);
    return TOP_WISH_NONE;
}

static TopWish run_search(Top *top, uint32_t key UNUSED)
{
    top->prompt = PROMPT_SEARCH;
    top->search[0] = '\0';
    return TOP_WISH_NONE;
}

static TopWish run_filter(Top *top, uint32_t key UNUSED)
{
    top->prompt = PROMPT_FILTER;
    return TOP_WISH_NONE;
}

static void order_anew(Top *top)
{
    processes_see(top);
}

static TopWish run_tree(Top *top, uint32_t key UNUSED)
{
    top->tree = (top->tree + 1) % TREE_END;
    order_anew(top);
    return TOP_WISH_NONE;
}

static TopWish run_sort(Top *top, uint32_t key UNUSED)
{
    top_open(top, OVERLAY_SORT);
    return TOP_WISH_NONE;
}

static TopWish run_sort_by(Top *top, uint32_t key)
{
    static const struct {
        uint32_t key;
        const char *column;
    } letters[] = {{'N', "pid"}, {'M', "memory"}, {'P', "sm"}, {'T', "age"}, {'U', "user"}, {'C', "cpu"}};

    for (size_t i = 0; i < ARRAY_LEN(letters); i++)
        for (size_t k = 0; letters[i].key == key && k < process_column_count(); k++)
            if (strcmp(process_column_key(k), letters[i].column) == 0)
                top->sort = k;
    top->reverse = false;
    order_anew(top);
    return TOP_WISH_NONE;
}

static TopWish run_reverse(Top *top, uint32_t key UNUSED)
{
    top->reverse = !top->reverse;
    order_anew(top);
    return TOP_WISH_NONE;
}

static TopWish run_signal(Top *top, uint32_t key UNUSED)
{
    overlay_signal_open(top);
    return TOP_WISH_NONE;
}

static TopWish run_quit(Top *top UNUSED, uint32_t key UNUSED)
{
    return TOP_WISH_QUIT;
}

static TopWish run_view(Top *top, uint32_t key)
{
    const ViewId last = VIEW_END - 1;

    if (key == TOP_KEY_TAB)
        top_go(top, top->view == last ? 0 : top->view + 1);
    else if (key == TOP_KEY_BACK_TAB)
        top_go(top, top->view == 0 ? last : top->view - 1);
    return TOP_WISH_NONE;
}

static TopWish run_number(Top *top, uint32_t key)
{
    if (key >= '1' && key < '1' + VIEW_END)
        top_go(top, key - '1');
    return TOP_WISH_NONE;
}

static TopWish run_enter(Top *top, uint32_t key UNUSED)
{
    if (top_views[top->view].enter && top->snapshot->node)
        top_views[top->view].enter(top);
    return TOP_WISH_NONE;
}

static TopWish run_escape(Top *top, uint32_t key UNUSED)
{
    if (top->filter[0]) {
        top->filter[0] = '\0';
        order_anew(top);
    } else if (top->back_count > 0) {
        top->view = top->back[--top->back_count];
    }
    return TOP_WISH_NONE;
}

static TopWish run_pause(Top *top UNUSED, uint32_t key UNUSED)
{
    return TOP_WISH_PAUSE;
}

/* The device before or after the one that is followed, instances too. */
static TopWish run_other(Top *top, uint32_t key)
{
    const GpuRow *row = top_followed(top);
    const size_t at = row ? (size_t)(row - top->gpus.at) : 0, count = top->gpus.len;

    if (count > 0)
        top_follow(top, &top->gpus.at[(at + (key == TOP_KEY_RIGHT ? 1 : count - 1)) % count].reading->device);
    return TOP_WISH_NONE;
}

static TopWish run_span(Top *top, uint32_t key)
{
    if (key == '-' && top->span + 1 < SPAN_END)
        top->span++;
    else if ((key == '+' || key == '=') && top->span > 0)
        top->span--;
    return TOP_WISH_NONE;
}

static TopWish run_style(Top *top, uint32_t key UNUSED)
{
    top->plot_style = top->plot_style == PLOT_BRAILLE ? PLOT_BLOCK : PLOT_BRAILLE;
    return TOP_WISH_NONE;
}

static TopWish run_compact(Top *top, uint32_t key UNUSED)
{
    top->compact = !top->compact;
    return TOP_WISH_NONE;
}

static TopWish run_seek(Top *top, uint32_t key)
{
    top->seek_s = key == ',' ? -10 : key == '.' ? 10 : key == '{' ? -60 : 60;
    return TOP_WISH_SEEK;
}

static TopWish run_speed(Top *top, uint32_t key)
{
    top->speed = key == '[' ? 0.5 : 2;
    return TOP_WISH_SPEED;
}

static TopWish run_redraw(Top *top UNUSED, uint32_t key UNUSED)
{
    return TOP_WISH_REDRAW;
}

const KeyRow top_keys[] = {
    {{TOP_KEY_F1, '?', 'h'}, "F1 ? h", "Help", EVERYWHERE, run_help, "this page"},
    {{TOP_KEY_F1 + 1, 'S'}, "F2 S", "Setup", EVERYWHERE, run_setup, "what is plotted, how rows are shown"},
    {{TOP_KEY_F1 + 2, '/'}, "F3 /", "Find", EVERYWHERE & ~IN_GPU, run_search, "finds a row; F3 again: the next"},
    {{TOP_KEY_F1 + 3, '\\'}, "F4 \\", "Filter", IN_GPUS | IN_PROCESSES, run_filter, "shows matching processes alone"},
    {{TOP_KEY_F1 + 4, 't'}, "F5 t", "Tree", IN_GPUS | IN_PROCESSES, run_tree, "processes by owner, by GPU, plain"},
    {{TOP_KEY_F1 + 5, '<', '>'}, "F6 < >", "Sort", IN_GPUS | IN_PROCESSES, run_sort, "chooses the column to sort by"},
    {{TOP_KEY_F1 + 8, 'k'}, "F9 k", "Kill", IN_GPUS | IN_PROCESSES, run_signal, "sends a signal, after a question"},
    {{TOP_KEY_F1 + 9, 'q', CONTROL_C}, "F10 q", "Quit", EVERYWHERE, run_quit, "ends it"},
    {{TOP_KEY_RIGHT, TOP_KEY_LEFT}, "Left Right", NULL, IN_GPU, run_other, "the GPU or instance before or after"},
    {{'-', '+', '='}, "+/-", "Span", IN_GPU | IN_GPUS, run_span, "plots 1 min, 10 min, 1 h or 24 h"},
    {{'b'}, "b", "Dots", IN_GPU, run_style, "plots of dots or of blocks"},
    {{'1', '2', '3'}, "1 - 5", NULL, EVERYWHERE, run_number, "the views"},
    {{'4', '5'}, "", NULL, EVERYWHERE, run_number, NULL},
    {{TOP_KEY_TAB, TOP_KEY_BACK_TAB}, "Tab", NULL, EVERYWHERE, run_view, "the next view; Shift-Tab: the one before"},
    {{TOP_KEY_ENTER}, "Enter", NULL, EVERYWHERE, run_enter, "opens what is under the cursor"},
    {{'F'}, "F", NULL, IN_PROCESSES | IN_GPUS, run_enter, "follows the process under the cursor"},
    {{TOP_KEY_ESCAPE}, "Escape", NULL, EVERYWHERE, run_escape, "closes, ends the filter, goes back"},
    {{'N', 'P', 'M', 'T'},
     "N P M T U C",
     NULL,
     IN_GPUS | IN_PROCESSES,
     run_sort_by,
     "sort by pid, SM share, GPU memory, age, user, CPU"},
    {{'U', 'C'}, "", NULL, IN_GPUS | IN_PROCESSES, run_sort_by, NULL},
    {{'I'}, "I", NULL, IN_GPUS | IN_PROCESSES, run_reverse, "the other way round"},
    {{'c'}, "c", NULL, IN_GPUS, run_compact, "one line for a GPU"},
    {{' '}, "Space", NULL, EVERYWHERE, run_pause, "holds the picture, goes on"},
    {{',', '.', '{', '}'}, ", . { }", NULL, EVERYWHERE, run_seek, "of a replay: 10 s or a minute back or on"},
    {{'[', ']'}, "[ ]", NULL, EVERYWHERE, run_speed, "of a replay: slower, faster"},
    {{CONTROL_L}, "Ctrl-L", NULL, EVERYWHERE, run_redraw, "draws the screen anew"},
};
const size_t top_key_count = ARRAY_LEN(top_keys);

TopWish keys_run(Top *top, uint32_t key)
{
    for (size_t i = 0; i < ARRAY_LEN(top_keys); i++)
        for (size_t k = 0; k < ARRAY_LEN(top_keys[i].keys) && top_keys[i].keys[k]; k++)
            if (top_keys[i].keys[k] == key && (top_keys[i].views >> top->view & 1))
                return top_keys[i].run(top, key);
    return TOP_WISH_NONE;
}
