/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of YAML files, seen as names. */
#include "sim/scenario/library.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "sim/scenario/field.h"

typedef VEC(const char *) Names;

bool library_name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= LIBRARY_NAME_MAX && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == len;
}

const char *library_name_of(const char *path, Arena *arena)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    bool yaml = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    return arena_strndup(arena, base, yaml ? (size_t)(dot - base) : strlen(base));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void dir_names(const char *path, Arena *arena, Names *names)
{
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) && names->len < LIBRARY_FILES_MAX) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".yaml") != 0)
            continue;
        const char *name = library_name_of(entry->d_name, arena);
        if (library_name_ok(name))
            vec_push(names, name);
    }
}

const char *const *library_names(const char *const *dirs, Arena *arena, size_t *ret_count)
{
    Names names = {0};
    for (; dirs && *dirs; dirs++)
        dir_names(*dirs, arena, &names);
    if (names.len)
        qsort(names.at, names.len, sizeof *names.at, by_text);
    const char **out = arena_calloc(arena, names.len + 1, sizeof *out);
    size_t n = 0;
    for (size_t i = 0; i < names.len; i++)
        if (n == 0 || strcmp(out[n - 1], names.at[i]) != 0)
            out[n++] = names.at[i];
    vec_done(&names);
    *ret_count = n;
    return out;
}

int library_find(const char *const *dirs, const char *what, Arena *arena, const char **ret_path, Err *err)
{
    const char *dot = strrchr(what, '.');
    if (strchr(what, '/') || (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0))) {
        *ret_path = arena_strdup(arena, what);
        return 0;
    }
    for (const char *const *dir = dirs; dir && *dir && library_name_ok(what); dir++) {
        const char *path = arena_printf(arena, "%s/%s.yaml", *dir, what);
        if (access(path, F_OK) == 0) {
            *ret_path = path;
            return 0;
        }
    }
    size_t count = 0;
    const char *const *names = library_names(dirs, arena, &count);
    if (count == 0)
        return err_set(err, -ENOENT, "no scenario '%.60s': there is no scenario file in %s", what,
                       dirs && *dirs ? *dirs : "(no directory)");
    field_unknown(NULL, err, "scenario", what, names);
    if (err)
        err->code = -ENOENT;
    return -ENOENT;
}
