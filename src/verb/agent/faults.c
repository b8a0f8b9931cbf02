/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/faults.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "base/str.h"

typedef struct Files {
    Arena *arena;
    size_t count;
    const YamlNode *roots[FAULTS_FILES_MAX];
} Files;

static int add_file(Files *files, const char *path, Err *err)
{
    CLEANUP(str_done) Str text = {0};

    if (files->count == FAULTS_FILES_MAX)
        return err_set(err, -E2BIG, "'%s': more than %d files of faults", path, FAULTS_FILES_MAX);
    str_init(&text, FAULTS_BYTES_MAX);
    TRY(file_read(path, FAULTS_BYTES_MAX, &text, err));
    return yaml_load(path, text.text, text.len, files->arena, &files->roots[files->count++], err);
}

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static int add_folder(Files *files, const char *path, Err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_yaml, alphasort), rc = 0;

    if (count < 0)
        return err_errno(err, "read folder '%s'", path);
    for (int i = 0; i < count; i++) {
        if (rc == 0)
            rc = add_file(files, arena_printf(files->arena, "%s/%s", path, entries[i]->d_name), err);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int faults_load(const char *const *paths, size_t count, Catalogue **ret, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    Files files = {.arena = &arena};
    struct stat about;

    for (size_t i = 0; i < count; i++) {
        if (stat(paths[i], &about) < 0)
            return err_errno(err, "open '%s'", paths[i]);
        TRY(S_ISDIR(about.st_mode) ? add_folder(&files, paths[i], err) : add_file(&files, paths[i], err));
    }
    return catalogue_new(files.roots, files.count, ret, err);
}
