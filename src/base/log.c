/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line is built in a Str of fixed ceiling and leaves in one call. The journal's native protocol is
 * systemd's "Native Journal Protocol": fields KEY=value\n, or KEY\n, 64-bit little-endian length, value, \n. */
#include "base/log.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

_Static_assert(LOG_TEXT_MAX * 6 + 1024 < LOG_LINE_MAX, "a text of escapes still fits");

const char *const log_level_names[] = {"error", "warn", "info", "debug", NULL};
const char *const log_format_names[] = {"text", "json", "journal", NULL};

/* syslog(3) priorities by LogLevel. */
static const char priorities[] = {'3', '4', '6', '7'};

typedef struct Message {
    const Log *log;
    LogLevel level;
    const char *text;
} Message;

void log_init(Log *log, LogLevel level, LogFormat format, const char *name, const Clock *clock)
{
    *log = (Log){.level = level, .format = format, .fd = STDERR_FILENO, .clock = clock, .name = name};
}

int log_open_journal(Log *log, const char *path, Err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = -1;

    if (strlen(path) >= sizeof(address.sun_path))
        return err_set(err, -ENAMETOOLONG, "socket path '%s' is too long", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(err, "socket for journald");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return err_errno(err, "connect to journald at '%s'", path);
    log_done(log);
    log->fd = fd_take(&fd);
    log->own_fd = true;
    log->format = LOG_FORMAT_JOURNAL;
    return 0;
}

void log_done(Log *log)
{
    if (log->own_fd)
        fd_close(&log->fd);
    log->own_fd = false;
    log->fd = STDERR_FILENO;
    if (log->format == LOG_FORMAT_JOURNAL)
        log->format = LOG_FORMAT_TEXT;
}

/* Line breaks and other control characters would let a value forge a line of its own. */
static void add_printable(Str *line, const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            str_addf(line, "\\x%02x", (unsigned)(unsigned char)*text);
        else
            str_addc(line, *text);
}

static void build_text(const Message *message, Str *line)
{
    char when[CLOCK_TEXT_MAX];

    clock_format(when, clock_real(message->log->clock));
    str_addf(line, "%s %-5s ", when, log_level_names[message->level]);
    add_printable(line, message->text);
    str_addc(line, '\n');
}

static void build_json(const Message *message, Str *line)
{
    char when[CLOCK_TEXT_MAX];

    clock_format(when, clock_real(message->log->clock));
    str_addf(line, "{\"time\":\"%s\",\"level\":\"%s\",\"program\":", when, log_level_names[message->level]);
    str_add_json(line, message->log->name);
    str_add(line, ",\"message\":");
    str_add_json(line, message->text);
    str_add(line, "}\n");
}

static void add_journal_value(Str *line, const char *value)
{
    uint64_t len = htole64(strlen(value));

    if (!strchr(value, '\n')) {
        str_addc(line, '=');
    } else {
        str_addc(line, '\n');
        str_addn(line, (const char *)&len, sizeof(len));
    }
    str_add(line, value);
    str_addc(line, '\n');
}

static void build_journal(const Message *message, Str *line)
{
    str_add(line, "MESSAGE");
    add_journal_value(line, message->text);
    str_addf(line, "PRIORITY=%c\n", priorities[message->level]);
    str_add(line, "SYSLOG_IDENTIFIER");
    add_journal_value(line, message->log->name);
}

static void send_message(const Message *message)
{
    char room[LOG_LINE_MAX + 1];
    ssize_t sent;
    Str line;

    str_init_room(&line, room, sizeof(room));
    if (message->log->format == LOG_FORMAT_JSON)
        build_json(message, &line);
    else if (message->log->format == LOG_FORMAT_JOURNAL)
        build_journal(message, &line);
    else
        build_text(message, &line);
    sent = message->log->format == LOG_FORMAT_JOURNAL ? send(message->log->fd, line.text, line.len, MSG_NOSIGNAL)
                                                      : write(message->log->fd, line.text, line.len);
    (void)sent;
}

void log_write(const Log *log, LogLevel level, const char *fmt, ...)
{
    char text[LOG_TEXT_MAX];
    int saved = errno, len;
    va_list args;

    if (!log || level > log->level)
        return;
    va_start(args, fmt);
    len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    else if ((size_t)len >= sizeof(text))
        memcpy(text + sizeof(text) - 7, " [cut]", 7);
    send_message(&(Message){.log = log, .level = level, .text = text});
    errno = saved;
}

bool log_limit(LogLimit *limit, uint64_t now_ns, uint64_t *ret_held)
{
    if (!limit->start_ns || now_ns - limit->start_ns >= limit->window_ns) {
        limit->start_ns = now_ns ? now_ns : 1;
        limit->passed = 0;
    }
    if (limit->passed >= limit->burst) {
        limit->held++;
        return false;
    }
    limit->passed++;
    *ret_held = limit->held;
    limit->held = 0;
    return true;
}
