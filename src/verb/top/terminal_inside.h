/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A terminal from the inside: for terminal.c, which opens it and waits, and terminal_show.c. */

#include <ncurses.h>
#include <stdio.h>

#include "verb/top/terminal.h"
#include "verb/top/terminal_keys.h"

struct Terminal {
    SCREEN *screen;
    FILE *in; /* stdin, or /dev/tty, which is closed at the end */
    int width, height, colours;
    bool utf8, own_in, mouse, gone;
    unsigned empty_reads; /* of the input, one after another */
    bool small;           /* what is shown is that it is too small */
    KeyReader keys;
    Cell *shown; /* what ncurses was told, row by row; a cell of zeroes: unknown */
    attr_t attributes[INK_END];
};

/* Cells of which nobody knows what is there are all drawn by the next terminal_show. */
void terminal_forget_shown(Terminal *terminal);
