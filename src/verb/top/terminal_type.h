/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What terminfo knows of the terminal. Apart from terminal.c, as <term.h> takes hundreds of plain words for itself. */

#include <stdbool.h>

#include "base/err.h"

/* What makes a terminal tell of the mouse's buttons, with numbers where it can (xterm's modes 1000 and 1006). */
#define MOUSE_ON "\033[?1000h\033[?1006h"
#define MOUSE_OFF "\033[?1006l\033[?1000l"

/* The name, borrowed, of a terminal that is known here: TERM's, else xterm-256color, as those that are newer than this
 * machine's list all speak as xterm does. -ENOTSUP where there is none or it cannot place its cursor. */
int type_find(int fd, const char **ret, Err *err);

/* After newterm: hands the guard what is to be written where nobody can call endwin any more. */
void type_prepare_restore(bool mouse);

/* After newterm: whether it can tell of a mouse. */
bool type_has_mouse(void);
