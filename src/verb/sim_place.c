/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/sim_place.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/scenario/scenario.h"
#include "verb/verb.h"
#include "version.h"

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int sim_place_find(Arena *arena, SimPlace *ret, Err *err)
{
    const char *dir = verb_program_dir(arena), *own = getenv("STOKER_SIM_DATA");
    const char *data = arena_printf(arena, "%s/sim/data", dir); /* a build tree */
    SimPlace place = {.programs = dir};
    size_t n = 0;
    if (is_folder(data)) {
        place.libraries = arena_printf(arena, "%s/sim/nvml", dir);
        place.tools = arena_printf(arena, "%s/sim/smi", dir);
    } else {
        data = arena_printf(arena, "%s/../share/stoker/sim", dir);
        place.libraries = arena_printf(arena, "%s/../" STOKER_LIBDIR "/stoker/sim", dir);
        place.tools = arena_printf(arena, "%s/../" STOKER_LIBEXECDIR "/stoker/sim", dir);
    }
    if (!is_folder(data))
        return err_set(err, -ENOENT, "the simulator's boards and scenarios are not in '%s'; install Stoker whole",
                       data);
    if (own) {
        place.scenario_dirs[n] = arena_printf(arena, "%s/scenarios", own);
        place.board_dirs[n++] = arena_printf(arena, "%s/boards", own);
    }
    place.scenario_dirs[n] = arena_printf(arena, "%s/scenarios", data);
    place.board_dirs[n] = arena_printf(arena, "%s/boards", data);
    *ret = place;
    return 0;
}

/* The folder of images of running nodes, made if missing: private to this user. */
static int sim_place_images(Arena *arena, const char **ret, Err *err)
{
    const char *runtime = getenv("STOKER_SIM_RUNTIME");
    const char *dir = runtime ? runtime
                              : arena_printf(arena, "%s/stoker-sim-%u", is_folder("/dev/shm") ? "/dev/shm" : "/tmp",
                                             (unsigned)getuid());
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_errno(err, "make '%s'", dir);
    struct stat st;
    if (lstat(dir, &st) < 0)
        return err_errno(err, "look at '%s'", dir);
    if (!S_ISDIR(st.st_mode) || st.st_uid != getuid())
        return err_set(err, -EPERM, "'%s' belongs to someone else; name another folder in STOKER_SIM_RUNTIME", dir);
    *ret = dir;
    return 0;
}

/* Removes the image NAME.PID.img of a `sim run` that was killed, and its tree; 1 when it did. */
static int remove_dead(const char *dir, const char *file)
{
    const char *dot = strchr(file, '.');
    long pid = dot ? strtol(dot + 1, NULL, 10) : 0;
    if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        return 0;
    char path[4096];
    snprintf(path, sizeof path, "%s.tree", file);
    (void)file_remove_tree(dir, path, NULL);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return unlink(path) == 0;
}

/* The only image of the folder; *ret NULL when there is none. */
static int find_only_image(Arena *arena, const char **ret, Err *err)
{
    const char *dir = "", *found = NULL, *all = "";
    int count = 0;
    TRY(sim_place_images(arena, &dir, err));
    CLEANUP(closedir_at) DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        if (!end || end == e->d_name || strcmp(end, ".img") != 0 || remove_dead(dir, e->d_name))
            continue;
        found = arena_printf(arena, "%s/%s", dir, e->d_name);
        all = arena_printf(arena, "%s\n  %s", all, found);
        count++;
    }
    if (count > 1)
        return err_set(err, -EINVAL, "several simulated nodes run; name one with --image or STOKER_SIM:%s", all);
    *ret = found;
    return 0;
}

int sim_place_open(Arena *arena, const char *path, SimImage **ret, Err *err)
{
    if (!path)
        path = getenv("STOKER_SIM");
    if (!path || !*path) {
        TRY(find_only_image(arena, &path, err));
        if (!path)
            return err_set(err, -ENOENT, "no simulated node runs; start one with 'stoker sim run SCENARIO'");
    }
    *ret = sim_image_open(path);
    if (!*ret && errno == EPROTO)
        return err_set(err, -EPROTO, "'%s' is not the image of a simulated node of this version", path);
    if (!*ret)
        return err_errno(err, "open '%s'", path);
    return 0;
}

static const char *make_absolute(Arena *arena, const char *path)
{
    CLEANUP_FREE char *real = realpath(path, NULL);
    return real ? arena_strdup(arena, real) : path;
}

const char *sim_place_library(Arena *arena, const SimPlace *place, const SimImage *image)
{
    return arena_printf(arena, "%s/r%u/libnvidia-ml.so.1", place->libraries, image->generation);
}

/* What a client needs: the value, and whether an old one stays behind it. */
typedef struct Setting {
    const char *name, *value;
    bool keeps;
} Setting;
enum { SETTINGS = 5 };

static void fill_settings(Arena *arena, const SimPlace *place, const SimImage *image, const SimClient *client,
                          Setting out[SETTINGS])
{
    const char *libraries = arena_printf(arena, "%s/r%u", place->libraries, image->generation);
    const char *programs = arena_printf(arena, "%s:%s", make_absolute(arena, place->tools), place->programs);
    out[0] = (Setting){"STOKER_SIM", make_absolute(arena, client->image), false};
    out[1] = (Setting){"LD_LIBRARY_PATH", make_absolute(arena, libraries), true};
    out[2] = (Setting){"PATH", programs, true};
    out[3] = (Setting){"STOKER_ROOT", client->root ? make_absolute(arena, client->root) : NULL, false};
    out[4] = (Setting){"STOKER_SIM_STRICT", client->strict, false};
}

const char *const *sim_place_env(Arena *arena, const SimPlace *place, const SimImage *image, const SimClient *client)
{
    Setting all[SETTINGS];
    const char **env = arena_calloc(arena, SETTINGS + 1, sizeof *env);
    fill_settings(arena, place, image, client, all);
    for (size_t i = 0, n = 0; i < SETTINGS; i++) {
        const char *old = all[i].keeps ? getenv(all[i].name) : NULL;
        if (all[i].value)
            env[n++] = arena_printf(arena, "%s=%s%s%s", all[i].name, all[i].value, old && *old ? ":" : "",
                                    old && *old ? old : "");
    }
    return env;
}

/* 'text' for any POSIX shell. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

void sim_place_exports(Arena *arena, const SimPlace *place, const SimImage *image, const SimClient *client,
                       const char *indent)
{
    Setting all[SETTINGS];
    fill_settings(arena, place, image, client, all);
    for (size_t i = 0; i < SETTINGS; i++) {
        if (!all[i].value)
            continue;
        printf("%sexport %s=", indent, all[i].name);
        print_quoted(all[i].value);
        if (all[i].keeps)
            printf("\"${%s:+:$%s}\"", all[i].name, all[i].name);
        putchar('\n');
    }
}

/* --- starting a node -----------------------------------------------------------------------------------------------
 */

/* Where the image goes: as asked, or NAME[.PID].img among this user's. */
static int choose_image_path(VerbCall *call, const StartOptions *o, const char *name, bool running, const char **ret)
{
    const char *dir;
    *ret = o->image;
    if (o->image)
        return 0;
    TRY(sim_place_images(call->arena, &dir, &call->err));
    *ret = running ? arena_printf(call->arena, "%s/%s.%d.img", dir, name, (int)getpid())
                   : arena_printf(call->arena, "%s/%s.img", dir, name);
    return 0;
}

static int parse_start(VerbCall *call, const char *text, uint64_t *ret)
{
    uint64_t ns;
    *ret = 0;
    if (!text)
        return 0;
    if (strcmp(text, "now") == 0) {
        *ret = clock_real(clock_kernel()) / 1000;
        return 0;
    }
    if (clock_parse(text, &ns, &call->err) < 0)
        return err_add(&call->err, "--start '%s'", text);
    *ret = ns / 1000;
    return 0;
}

int sim_start(VerbCall *call, const StartOptions *o, const char *scenario, bool running, const SimPlace *place,
              SimImage **ret, const char **ret_path)
{
    CLEANUP(board_set_done) BoardSet boards;
    board_set_init(&boards, place->board_dirs);
    const Scenario *s;
    uint64_t epoch_us;
    if (scenario_load(place->scenario_dirs, scenario, &boards, call->arena, &s, &call->err) < 0 ||
        parse_start(call, o->start, &epoch_us) < 0)
        return verb_fail(call, EXIT_USAGE);
    ScenarioBuild how = {.seed = o->seed, .driver = o->driver};
    if (choose_image_path(call, o, s->name, running, ret_path) < 0 ||
        scenario_build(s, &how, *ret_path, ret, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (epoch_us)
        (*ret)->epoch_us = epoch_us;
    return 0;
}
