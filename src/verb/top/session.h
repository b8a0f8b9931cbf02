/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `stoker top` on a terminal, and what it does without one. One thread; neither waits for a source. */

#include "verb/top/terminal.h"
#include "verb/top/viewer.h"

typedef struct SessionOptions {
    TerminalOptions terminal;
    uint64_t for_ns; /* ends by itself; 0: not */
} SessionOptions;

/* Until the person has had enough. 0; a signal that ended it in *ret_signal (0 none). -errno where there is no
 * terminal; a source that can never give a look is no error of the session's. */
int session_run(Viewer *viewer, const SessionOptions *options, int *ret_signal, Err *err);

typedef struct BatchOptions {
    int width, height;
    bool utf8, coloured;
    const uint32_t *keys; /* pressed one after the other before the screen is printed */
    size_t key_count;
} BatchOptions;

/* One screen, or one look as JSON, to `out`. -ETIMEDOUT where no look came, with what is known of why; -EIO where none
 * ever will. */
int batch_screen(Viewer *viewer, const BatchOptions *options, Str *out, Err *err);
int batch_json(Source *source, Str *out, int *ret_code, Err *err);
/* Waits while the source's looks are recorded: for_ns (0 without end), or until SIGINT, SIGTERM or SIGHUP. -EIO where
 * the recording could not go on. */
int batch_record(Source *source, uint64_t for_ns, Err *err);
