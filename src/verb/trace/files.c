/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments to files. */
#include "verb/trace/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/owner.h"

OWNER_POINTER(DIR, closedir);

static const char *const endings[] = {".json", ".json.gz", ".sqlite", ".csv"};

static bool is_profile_name(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        size_t end = strlen(endings[i]);
        if (name[0] != '.' && len > end && strcmp(name + len - end, endings[i]) == 0)
            return true;
    }
    return false;
}

static int compare_names(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int by_number = strverscmp(x, y);

    return by_number ? by_number : strcmp(x, y);
}

int trace_files_add(TraceFiles *files, const char *path, Arena *arena, Err *err)
{
    const size_t before = files->len;
    const struct dirent *entry;
    struct stat st;

    if (strcmp(path, "-") == 0 || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        vec_push(files, arena_strdup(arena, path)); /* one that is not there is told of when it is opened */
        return 0;
    }
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    if (!dir)
        return err_errno(err, "open folder '%s'", path);
    while ((entry = readdir(dir))) {
        size_t len = strlen(path);
        if (is_profile_name(entry->d_name))
            vec_push(files, arena_printf(arena, "%s%s%s", path, len && path[len - 1] == '/' ? "" : "/", entry->d_name));
    }
    if (files->len == before)
        return err_set(
            err, -ENOENT,
            "no profile in folder '%s' (*.json, *.json.gz, *.sqlite, *.csv; folders in it are not searched: name them)",
            path);
    qsort(files->at + before, files->len - before, sizeof *files->at, compare_names);
    return 0;
}
