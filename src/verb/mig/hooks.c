/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/mig/hooks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/str.h"
#include "base/yaml.h"

enum { HOOK_TIMEOUT_MS = 3600 * 1000, STOP_MS = 2000, POLL_MS = 100, OUTPUT_MAX = 64 << 10 };

typedef struct Hook {
    const char *const *argv, *const *env;
} Hook;

struct MigHooks {
    size_t count[MIG_HOOK_END];
    Hook *at[MIG_HOOK_END];
};

static const char *const point_names[MIG_HOOK_END] = {"apply-start", "pre-apply-mode", "pre-apply-config",
                                                      "apply-exit"};

/* "NAME=value" of each pair of a mapping, NULL-ended. */
static int read_env(const YamlNode *node, Arena *arena, const char *const **ret, Err *err)
{
    if (yaml_is_null(node))
        return 0;
    TRY(yaml_want(node, YAML_MAP, "envs", err));
    const char **env = arena_calloc(arena, node->len + 1, sizeof *env);
    for (size_t i = 0; i < node->len; i++) {
        TRY(yaml_want(node->pairs[i].value, YAML_SCALAR, node->pairs[i].key->text, err));
        env[i] = arena_printf(arena, "%s=%s", node->pairs[i].key->text, node->pairs[i].value->text);
    }
    *ret = env;
    return 0;
}

/* The command with its arguments; where it has a working directory, behind env(1), which goes there first. */
static int read_command(const YamlNode *node, Arena *arena, const char *const **ret, Err *err)
{
    const YamlNode *args = yaml_get(node, "args");
    const char *command = yaml_text(yaml_get(node, "command")), *workdir = yaml_text(yaml_get(node, "workdir"));
    if (!command || !command[0])
        return yaml_fail(node, err, "a hook needs 'command'");
    if (args && !yaml_is_null(args))
        TRY(yaml_want(args, YAML_SEQ, "args", err));
    const size_t count = args && args->kind == YAML_SEQ ? args->len : 0;
    const char **argv = arena_calloc(arena, count + 5, sizeof *argv);
    size_t at = 0;
    if (workdir && workdir[0]) {
        argv[at++] = "env";
        argv[at++] = arena_printf(arena, "--chdir=%s", workdir);
    }
    argv[at++] = command;
    for (size_t i = 0; i < count; i++) {
        TRY(yaml_want(args->items[i], YAML_SCALAR, "args", err));
        argv[at++] = args->items[i]->text;
    }
    *ret = argv;
    return 0;
}

static int read_point(const YamlNode *list, Arena *arena, MigHooks *hooks, size_t point, Err *err)
{
    TRY(yaml_want(list, YAML_SEQ, point_names[point], err));
    hooks->at[point] = arena_calloc(arena, list->len + 1, sizeof(Hook));
    for (size_t i = 0; i < list->len; i++) {
        const YamlNode *node = list->items[i];
        Hook *hook = &hooks->at[point][hooks->count[point]++];
        TRY(yaml_want(node, YAML_MAP, "a hook", err));
        for (size_t k = 0; k < node->len; k++) {
            const char *key = node->pairs[k].key->text;
            if (strcmp(key, "command") != 0 && strcmp(key, "args") != 0 && strcmp(key, "envs") != 0 &&
                strcmp(key, "workdir") != 0)
                return yaml_fail(node->pairs[k].key, err, "unknown key '%.40s'", key);
        }
        TRY(read_command(node, arena, &hook->argv, err));
        TRY(read_env(yaml_get(node, "envs"), arena, &hook->env, err));
    }
    return 0;
}

int mig_hooks_read(const char *path, Arena *arena, const MigHooks **ret, Err *err)
{
    const YamlNode *root;
    TRY(yaml_load_file(path, arena, &root, err));
    if (!root)
        return err_set(err, -EINVAL, "%s: the file is empty", path);
    TRY(yaml_want(root, YAML_MAP, "the file", err));
    const char *version = yaml_text(yaml_get(root, "version"));
    const YamlNode *points = yaml_get(root, "hooks");
    if (!version || strcmp(version, "v1") != 0 || !points)
        return yaml_fail(root, err, "'version: v1' and 'hooks' are needed");
    TRY(yaml_want(points, YAML_MAP, "hooks", err));
    MigHooks *hooks = arena_alloc(arena, sizeof *hooks);
    for (size_t i = 0; i < points->len; i++) {
        size_t point = 0;
        while (point < MIG_HOOK_END && strcmp(point_names[point], points->pairs[i].key->text) != 0)
            point++;
        if (point == MIG_HOOK_END)
            return yaml_fail(points->pairs[i].key, err,
                             "unknown hook '%.40s': apply-start, pre-apply-mode, pre-apply-config or apply-exit",
                             points->pairs[i].key->text);
        TRY(read_point(points->pairs[i].value, arena, hooks, point, err));
    }
    *ret = hooks;
    return 0;
}

/* Reads what there is. What is more than `to` takes is dropped, so that the program never waits for us. */
static void read_output(int fd, Str *to)
{
    char room[4096];
    ssize_t n;
    while (fd >= 0 && (n = read(fd, room, sizeof room)) > 0)
        str_addn(to, room, (size_t)n);
}

static int run_to_end(const SubprocSpec *spec, uint64_t timeout_ms, Str *output, Err *err)
{
    CLEANUP(subproc_done) Subproc child = {0};
    SubprocEnd end;
    char text[SUBPROC_TEXT_MAX];
    const uint64_t until = clock_monotonic(clock_kernel()) + timeout_ms * NS_PER_MS;
    TRY(subproc_start(spec, &child, err));
    int rc;
    do {
        rc = subproc_wait(&child, POLL_MS, &end, err);
        read_output(child.out_fd, output);
    } while (rc == SUBPROC_RUNNING && clock_monotonic(clock_kernel()) < until);
    if (rc == SUBPROC_RUNNING)
        rc = subproc_stop(&child, STOP_MS, &end, err);
    if (rc < 0)
        return rc;
    if (rc == SUBPROC_STUCK)
        return err_set(err, -EIO, "%s: it does not end", spec->argv[0]);
    subproc_describe(&end, text);
    return end.exited && !end.exit_code ? 0 : err_set(err, -EIO, "%s: %s", spec->argv[0], text);
}

int mig_run_program(const SubprocSpec *spec, uint64_t timeout_ms, Err *err)
{
    CLEANUP(str_done) Str output = str_limited(OUTPUT_MAX);
    const int rc = run_to_end(spec, timeout_ms, &output, err);
    if (rc < 0 && output.len)
        fwrite(output.text, 1, output.len, stderr);
    return rc;
}

int mig_hooks_run(const MigHooks *hooks, MigHookPoint point, Err *err)
{
    for (size_t i = 0; hooks && i < hooks->count[point]; i++) {
        const Hook *hook = &hooks->at[point][i];
        if (mig_run_program(&(SubprocSpec){.argv = hook->argv, .env = hook->env}, HOOK_TIMEOUT_MS, err) < 0)
            return err_add(err, "hook %s", point_names[point]);
    }
    return 0;
}
