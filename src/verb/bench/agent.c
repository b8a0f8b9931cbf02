/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's side is verb/agent/bench.c. A result is larger than a request may be: it goes through a file beside the
 * agent's socket, which both can reach. */
#include "verb/bench/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "service/bench/bench_report.h"
#include "verb/agent/control.h"
#include "verb/verb.h"

enum { ASK_MS = 5000, AT_ONCE = 8 }; /* GPUs named in one request: CONTROL_LINE_MAX */

static bool runs_no_agent(int rc)
{
    return rc == -ENOENT || rc == -ECONNREFUSED || rc == -EACCES || rc == -ETIMEDOUT;
}

/* Its answer in *out, of a history; else NULL. */
static int ask_agent(const char *path, const char *line, Str *out, Err *err)
{
    CLEANUP(str_done) Str room = str_limited(CONTROL_REPLY_MAX);
    Str *answer = out ? out : &room;
    int code;

    const int rc = control_ask(path, line, ASK_MS, answer, &code, err);
    if (rc < 0)
        return runs_no_agent(rc) ? 0 : rc;
    if (code == EXIT_FINE)
        return 0;
    err_set(err, -EPERM, "the agent: %.*s", (int)strcspn(answer->text, "\n"), answer->text);
    str_clear(answer);
    return -EPERM;
}

int bench_agent_begin(const LookOptions *look, Arena *arena, const BenchRun *run, uint64_t seconds, Err *err)
{
    CLEANUP(str_done) Str line = str_limited(CONTROL_LINE_MAX);
    int rc = 0;

    for (size_t i = 0; i < run->gpus.len && !look->alone && rc == 0; i++) {
        if (line.len == 0)
            str_addf(&line, "bench begin %" PRIu64, seconds);
        str_addf(&line, " %s", run->gpus.at[i].device.uuid);
        if ((i + 1) % AT_ONCE != 0 && i + 1 < run->gpus.len)
            continue;
        rc = ask_agent(control_path(look->control, arena), line.text, NULL, err);
        str_clear(&line);
    }
    return rc;
}

/* For whoever runs the agent: root, who tests, may be another one. */
static int write_result(int fd, const char *socket, const char *json, size_t len)
{
    struct stat st;

    if (geteuid() == 0 && stat(socket, &st) == 0 && st.st_uid != 0 && fchown(fd, st.st_uid, (gid_t)-1) < 0)
        return -1;
    return file_write_all(fd, json, len);
}

int bench_agent_end(const LookOptions *look, Arena *arena, const char *json, size_t len, Err *err)
{
    const char *path = control_path(look->control, arena), *slash = strrchr(path, '/');
    int rc;

    if (look->alone || access(path, F_OK) < 0)
        return 0;
    char *folder = realpath(slash == path ? "/"
                            : slash       ? arena_printf(arena, "%.*s", (int)(slash - path), path)
                                          : ".",
                            NULL);
    if (!folder)
        return err_errno(err, "find '%s'", path);
    char *file = arena_printf(arena, "%s/bench-XXXXXX", folder);
    free(folder);
    CLEANUP_FD int fd = mkostemp(file, O_CLOEXEC); /* of mode 0600 */
    if (fd < 0)
        return err_errno(err, "write '%s'", file);
    if (write_result(fd, path, json, len) < 0)
        rc = err_errno(err, "write '%s'", file);
    else
        rc = ask_agent(path, arena_printf(arena, "bench end %s", file), NULL, err);
    (void)unlink(file);
    return rc;
}

int bench_agent_history(const LookOptions *look, Arena *arena, BenchHistory *ret, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(CONTROL_REPLY_MAX);

    *ret = (BenchHistory){.count = 0};
    if (look->alone)
        return 0;
    TRY(ask_agent(control_path(look->control, arena), "bench history", &text, err));
    for (char *line = text.text, *end; text.len > 0 && ret->count < BENCH_HISTORY_MAX; line = end + 1) {
        if (!(end = strchr(line, '\n')))
            break;
        /* of another version it is none */
        if (bench_read_json(line, (size_t)(end - line), &ret->runs[ret->count], NULL) < 0)
            continue;
        ret->list[ret->count] = &ret->runs[ret->count];
        ret->count++;
    }
    return 0;
}

void bench_history_done(BenchHistory *history)
{
    for (size_t i = 0; i < history->count; i++)
        bench_run_done(&history->runs[i]);
    history->count = 0;
}
