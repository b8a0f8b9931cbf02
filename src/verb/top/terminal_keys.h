/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Keys and the mouse from ncurses. One thread. */

#include <stdbool.h>
#include <stdint.h>

#include "service/top/top.h"

enum { KEY_CTRL_L = 0x0c, KEY_ESCAPE_MS = 50 };

typedef struct KeyPress {
    uint32_t key; /* 0: the mouse */
    TopMouse mouse;
    int x, y;
} KeyPress;

typedef struct KeyReader {
    uint64_t click_ns; /* the last click, for a double one */
    int click_x, click_y;
    bool ascii; /* drop characters beyond ASCII */
} KeyReader;

/* After newterm: adds common key sequences that the terminal's TERM does not define. The mouse is read here, because
 * ncurses merges quick clicks. */
void keys_define(void);

/* The next key or mouse event that is available; false: none. now_ns: monotonic. */
bool keys_read(KeyReader *reader, uint64_t now_ns, KeyPress *ret);
