/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The terminal's terminfo entry. Apart from terminal.c, because <term.h> defines hundreds of common words as macros. */

#include <stdbool.h>

#include "base/err.h"

/* Switch on reports of the mouse's buttons, in SGR form if supported (xterm's modes 1000 and 1006). */
#define MOUSE_ON "\033[?1000h\033[?1006h"
#define MOUSE_OFF "\033[?1006l\033[?1000l"

/* The name, borrowed, of a terminal in terminfo: TERM's, else xterm-256color, which newer terminals emulate. -ENOTSUP
 * if there is none or it cannot place its cursor. */
int type_find(int fd, const char **ret, Err *err);

/* After newterm: gives the guard the bytes to write if endwin cannot be called. */
void type_prepare_restore(bool mouse);

/* After newterm: whether it has a mouse. */
bool type_has_mouse(void);
