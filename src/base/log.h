/* SPDX-License-Identifier: Apache-2.0 */
/* The program's log: one line per message to stderr (or another descriptor) as text or JSON, or one datagram to
 * journald. Only verbs, the loop and thread entry functions write to it. A message is formatted on the stack and
 * leaves in one system call: any thread, without a lock, as long as nobody changes the Log meanwhile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attribute.h"
#include "base/clock.h"
#include "base/err.h"

enum { LOG_LINE_MAX = 16 * 1024, LOG_TEXT_MAX = 2048 }; /* a longer message is cut, and says so */

typedef enum LogLevel { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } LogLevel;
typedef enum LogFormat { LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_JOURNAL } LogFormat;

/* For option tables: the texts of LogLevel and LogFormat, NULL-terminated. */
extern const char *const log_level_names[];
extern const char *const log_format_names[];

typedef struct Log {
    LogLevel level; /* the least important one that is written */
    LogFormat format;
    int fd;             /* stderr, or the journal's socket */
    bool own_fd;        /* log_done closes it */
    const Clock *clock; /* the real instant of each line */
    const char *name;   /* SYSLOG_IDENTIFIER and the JSON field "program"; borrowed */
} Log;

/* Lets at most `burst` messages pass per `window_ns` and counts the others. Zeroed `start_ns`, `passed`, `held`. */
typedef struct LogLimit {
    uint64_t window_ns;
    uint32_t burst;
    uint32_t passed;
    uint64_t start_ns;
    uint64_t held;
} LogLimit;

/* A log on stderr. `name` and `clock` are borrowed and outlive it. */
void log_init(Log *log, LogLevel level, LogFormat format, const char *name, const Clock *clock);

/* Connects to journald's socket at `path` and turns to LOG_FORMAT_JOURNAL.
 * -errno where that is not possible; the log then stays as it was. */
int log_open_journal(Log *log, const char *path, Err *err);

/* Closes the journal's socket, where there is one. */
void log_done(Log *log);

/* Writes one message. A failing write is not reported. NULL log writes nothing. */
void log_write(const Log *log, LogLevel level, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* True if a message may pass at monotonic instant now_ns. *ret_held is then the number held back since the last
 * one that passed, 0 usually; say it in the message. */
bool log_limit(LogLimit *limit, uint64_t now_ns, uint64_t *ret_held);
