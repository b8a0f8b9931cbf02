/* SPDX-License-Identifier: Apache-2.0 */
/* What is typed: a filter for processes, a text to find. */
#include <string.h>

#include "base/utf8.h"
#include "service/top/view.h"

static void append(char *text, uint32_t key)
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
static void find(Top *top, size_t from)
{
    const View *view = &top_views[top->view];
    List *list = view->list ? view->list(top) : NULL;

    for (size_t i = 0; list && view->row_has && top->search[0] && i < list->count; i++) {
        const size_t row = (from + i) % list->count;

        if (!view->row_has(top, row, top->search))
            continue;
        list->selected = row;
        if (view->moved)
            view->moved(top);
        return;
    }
}

static size_t cursor(Top *top)
{
    const View *view = &top_views[top->view];

    return view->list ? view->list(top)->selected : 0;
}

static void search_key(Top *top, uint32_t key)
{
    if (key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE) {
        top->prompt = PROMPT_NONE;
    } else if (key == TOP_KEY_F1 + 2) {
        find(top, cursor(top) + 1);
    } else {
        if (key == TOP_KEY_BACKSPACE)
            drop_last(top->search);
        else
            append(top->search, key);
        find(top, cursor(top));
    }
}

static void filter_key(Top *top, uint32_t key)
{
    if (key == TOP_KEY_ENTER)
        top->prompt = PROMPT_NONE;
    else if (key == TOP_KEY_BACKSPACE)
        drop_last(top->filter);
    else if (key != TOP_KEY_ESCAPE)
        append(top->filter, key);
    if (key == TOP_KEY_ESCAPE) {
        top->prompt = PROMPT_NONE;
        top->filter[0] = '\0';
    }
    processes_see(top);
}

TopWish prompt_key(Top *top, uint32_t key)
{
    if (top->prompt == PROMPT_SEARCH)
        search_key(top, key);
    else
        filter_key(top, key);
    return TOP_WISH_NONE;
}
