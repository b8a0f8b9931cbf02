/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A grid of cells on a terminal, and the user's input. One at a time in a process, one thread. Only cells
 * that changed are sent (ncurses finds the shortest way); the screen is erased at the start and when it is drawn anew.
 *
 * The terminal is as it was before terminal_open again after terminal_close, while the program is stopped (Ctrl-Z,
 * which terminal_wait does), and when it is ended by a crash (assert, abort, a bad address) without terminal_close.
 * SIGINT, SIGTERM and SIGHUP end terminal_wait with TERMINAL_END; the second one ends the program, terminal restored,
 * whatever it does meanwhile. While it is open, stderr that is a terminal is kept aside and written out after it is
 * restored, so that nothing writes into the picture and nothing is lost.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "service/screen/grid.h"
#include "service/top/top.h"

/* Smaller terminals show that they are too small. */
enum { TERMINAL_WIDTH_MIN = 60, TERMINAL_HEIGHT_MIN = 15 };

typedef struct Terminal Terminal;

typedef struct TerminalOptions {
    Theme theme;
    bool colourless;
    bool ascii;    /* even where the locale says UTF-8 */
    bool no_mouse; /* leaves the mouse to the terminal: text can be selected without a modifier */
} TerminalOptions;

typedef enum TerminalWhat {
    TERMINAL_TIMEOUT, /* the deadline has come */
    TERMINAL_READY,   /* `other` can be read */
    TERMINAL_KEY,     /* .key */
    TERMINAL_MOUSE,   /* .mouse at .x, .y of the screen */
    TERMINAL_RESIZE,  /* another size, or back from Ctrl-Z: terminal_fit, draw, terminal_show */
    TERMINAL_END,     /* .signal, 0: the terminal is gone. Close and leave; comes again when waited again */
} TerminalWhat;

typedef struct TerminalNews {
    TerminalWhat what;
    uint32_t key; /* TopKey or a character. Alt with a key and unknown sequences are dropped */
    TopMouse mouse;
    int x, y;
    int signal;
} TerminalNews;

/* Takes the terminal that stdout is, and keys from stdin or, where that is none, /dev/tty. -ENOTTY and -ENOTSUP with
 * what to do where it is no terminal or one that cannot place its cursor.  Sets the process's
 * LC_CTYPE. A TERM that this machine does not know is taken for xterm-256color. */
int terminal_open(const TerminalOptions *options, Terminal **ret, Err *err);
void terminal_close(Terminal *terminal); /* accepts NULL */

/* Gives a grid the terminal's size and characters: at the start (of an empty one) and after TERMINAL_RESIZE. */
void terminal_fit(const Terminal *terminal, Grid *grid);

/* Shows it in other colours from now on. */
void terminal_set_theme(Terminal *terminal, Theme theme);

/* Shows the grid; sends only changed cells. Ctrl-L draws everything anew at once, without the caller. */
void terminal_show(Terminal *terminal, const Grid *grid);

/* Waits for one thing until deadline_ns of clock_monotonic(clock_kernel()), 0: does not wait. Keys that are already
 * there come before the descriptor `other` (-1: none). */
void terminal_wait(Terminal *terminal, uint64_t deadline_ns, int other, TerminalNews *ret);
