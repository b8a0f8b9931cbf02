/* SPDX-License-Identifier: Apache-2.0 */
/* Folders are searched downwards. Each folder counts once, so links that lead back end the search. */
#include "source/profile/paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"

enum { DEPTH_MAX = 8, FOLDERS_MAX = 4096 };

static const char xplane_end[] = ".xplane.pb", json_end[] = ".trace.json.gz", sessions_end[] = "plugins/profile";
static const char *const endings[] = {".json", ".json.gz", ".json.zst", xplane_end, ".sqlite", ".csv"};

typedef struct Folder {
    dev_t device;
    ino_t number;
} Folder;

typedef struct Search {
    ProfilePaths *paths;
    Arena *arena;
    VEC(Folder) seen;
} Search;

typedef VEC(const char *) Names;

static void search_done(Search *search)
{
    vec_done(&search->seen);
}

static void names_done(Names *names)
{
    vec_done(names);
}

static bool is_profile_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(endings); i++)
        if (strlen(name) > strlen(endings[i]) && str_ends_with(name, endings[i]))
            return true;
    return false;
}

static int compare_names(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int by_number = strverscmp(x, y);

    return by_number ? by_number : strcmp(x, y);
}

#define NOTE(search, ...) vec_push(&(search)->paths->notes, arena_printf((search)->arena, __VA_ARGS__))

/* Sorts an entry of a folder. A file that is gone, or a link to nothing, is reported when it is opened. */
static void add_entry(Search *search, const char *path, const char *name, Names *folders)
{
    const size_t len = strlen(path);
    struct stat st;

    if (name[0] == '.')
        return;
    const char *whole = arena_printf(search->arena, "%s%s%s", path, len && path[len - 1] == '/' ? "" : "/", name);
    const bool there = stat(whole, &st) == 0;

    if (there && S_ISDIR(st.st_mode))
        vec_push(folders, whole);
    else if (is_profile_name(name) && (!there || S_ISREG(st.st_mode)))
        vec_push(&search->paths->files, whole);
    else if (is_profile_name(name))
        NOTE(search, "%s is %s and was left out; name it alone to have it read", whole,
             S_ISFIFO(st.st_mode)   ? "a pipe"
             : S_ISSOCK(st.st_mode) ? "a socket"
                                    : "a device");
}

/* The profiler of JAX writes a session twice, in two formats. */
static bool is_written_twice(const Search *search, size_t first, const char *path)
{
    const size_t stem = strlen(path) - strlen(xplane_end);

    for (size_t i = first; str_ends_with(path, xplane_end) && i < search->paths->files.len; i++)
        if (strncmp(search->paths->files.at[i], path, stem) == 0 &&
            strcmp(search->paths->files.at[i] + stem, json_end) == 0)
            return true;
    return false;
}

static void drop_second_formats(Search *search, size_t first)
{
    for (size_t i = first; i < search->paths->files.len;)
        if (is_written_twice(search, first, search->paths->files.at[i]))
            vec_remove(&search->paths->files, i);
        else
            i++;
}

/* Of JAX's sessions, folders named by date and time, the newest. */
static void choose_session(Search *search, const char *path, Names *folders)
{
    if (folders->len < 2 || !str_ends_with(path, sessions_end))
        return;
    NOTE(search, "%s has %zu sessions: the newest, %s, is shown; name another folder to see that one", path,
         folders->len, strrchr(folders->at[folders->len - 1], '/') + 1);
    folders->at[0] = folders->at[folders->len - 1];
    folders->len = 1;
}

static bool is_seen(const Search *search, const struct stat *st)
{
    for (size_t i = 0; i < search->seen.len; i++)
        if (search->seen.at[i].number == st->st_ino && search->seen.at[i].device == st->st_dev)
            return true;
    return false;
}

static int search_folder(Search *search, const char *path, unsigned int depth, Err *err) /* NOLINT(misc-no-recursion) */
{
    const size_t first = search->paths->files.len;
    CLEANUP(names_done) Names folders = {0};
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    const struct dirent *entry;
    struct stat st;

    if (!dir || fstat(dirfd(dir), &st) < 0)
        return err_errno(err, "open folder '%s'", path);
    if (is_seen(search, &st))
        return 0;
    if (search->seen.len == FOLDERS_MAX)
        return err_set(err, -E2BIG, "more than %d folders below '%s'; name the one that has the profiles", FOLDERS_MAX,
                       path);
    vec_push(&search->seen, ((Folder){st.st_dev, st.st_ino}));
    while ((entry = readdir(dir)))
        add_entry(search, path, entry->d_name, &folders);
    drop_second_formats(search, first);
    vec_sort(&folders, compare_names);
    choose_session(search, path, &folders);
    if (folders.len && depth == DEPTH_MAX)
        NOTE(search, "%s has folders in it that are too deep to be searched", path);
    for (size_t i = 0; i < folders.len && depth < DEPTH_MAX; i++)
        if (search_folder(search, folders.at[i], depth + 1, err) < 0)
            NOTE(search, "%s was not searched: %s", folders.at[i], err->text);
    return 0;
}

int profile_paths_add(ProfilePaths *paths, const char *path, Arena *arena, Err *err)
{
    const size_t before = paths->files.len, notes = paths->notes.len;
    CLEANUP(search_done) Search search = {.paths = paths, .arena = arena};
    struct stat st;

    if (strcmp(path, "-") == 0 || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        vec_push(&paths->files, arena_strdup(arena, path)); /* a missing file is reported when it is opened */
        return 0;
    }
    TRY(search_folder(&search, path, 0, err));
    if (paths->files.len == before)
        return err_set(
            err, -ENOENT, "no profile in folder '%s' (*.json, *.json.gz, *.json.zst, *.xplane.pb, *.sqlite, *.csv)%s%s",
            path, paths->notes.len > notes ? "; " : "", paths->notes.len > notes ? paths->notes.at[notes] : "");
    qsort(paths->files.at + before, paths->files.len - before, sizeof *paths->files.at, compare_names);
    return 0;
}

void profile_paths_done(ProfilePaths *paths)
{
    vec_done(&paths->files);
    vec_done(&paths->notes);
}
