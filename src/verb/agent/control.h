/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's control socket: how `stoker status` and `stoker release` reach it. A unix socket; the request is one line
 * of words, the answer a line "CODE LENGTH" and LENGTH bytes. Everybody who can connect may read; changes are for
 * root and the agent's own user (SO_PEERCRED). The agent's side runs on its loop; control_ask is for other processes
 * and blocks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { CONTROL_WORDS_MAX = 40, CONTROL_LINE_MAX = 1024, CONTROL_REPLY_MAX = 64 << 20 };

/* Answers a request: appends to `out`, returns the code (an exit code). `owner`: root or the agent's user asks. */
typedef int (*ControlHandler)(void *self, const char *const *words, size_t count, bool owner, Str *out);

/* What a handler returns whose answer waits until control_wake: it is asked again then, and after 20 s the answer is
 * empty. */
enum { CONTROL_HOLD = -1 };

typedef struct Control Control;

/* Listens at `path`, whose folder is made where it is missing. A socket that nobody listens on is replaced. -EADDRINUSE
 * where another agent has it. */
int control_listen(uv_loop_t *loop, const char *path, ControlHandler handler, void *self, Control **ret, Err *err);
/* Removes the socket and frees when the loop has closed its handles. Accepts NULL. */
void control_close(Control *control);

/* Something has changed for those whose answer waits. */
void control_wake(Control *control);

/* Asks the agent at `path`: 0 and its answer in *out, its code in *ret_code. -ENOENT or -ECONNREFUSED where none runs,
 * -ETIMEDOUT where it does not answer in timeout_ms. */
int control_ask(const char *path, const char *line, int timeout_ms, Str *out, int *ret_code, Err *err);

/* The same without waiting, in a loop: `done` comes once, later, with the answer or -errno, unless the call is
 * cancelled; the call is valid until then. */
typedef struct ControlCall ControlCall;
typedef void (*ControlDone)(void *self, int rc, const Str *answer, const Err *err);
int control_call_new(uv_loop_t *loop, const char *path, const char *line, uint64_t timeout_ms, ControlDone done,
                     void *self, ControlCall **ret, Err *err);
void control_call_cancel(ControlCall *call);

/* What was said (NULL or "": nothing), else $STOKER_CONTROL, /run/stoker/control.sock for root and wherever it is
 * there, else below $XDG_RUNTIME_DIR, else in /tmp by user id. */
const char *control_path(const char *said, Arena *arena);
