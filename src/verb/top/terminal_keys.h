/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What ncurses reads as TopKey and mouse. One thread. */

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
    bool ascii; /* characters beyond are nothing */
} KeyReader;

/* After newterm: adds what terminals send that are other than their TERM says, where that is nothing else there. The
 * mouse is read here and not by ncurses, which puts clicks that come close after one another together. */
void keys_define(void);

/* The next key or mouse event that is there already; false: none. now_ns: monotonic. */
bool keys_read(KeyReader *reader, uint64_t now_ns, KeyPress *ret);
