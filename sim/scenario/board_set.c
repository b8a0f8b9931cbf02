/* SPDX-License-Identifier: Apache-2.0 */
/* Finding boards in directories, each file once. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/owner.h"
#include "sim/scenario/board.h"
#include "sim/scenario/field.h"
#include "sim/scenario/library.h"

void board_set_init(BoardSet *set, const char *const *dirs)
{
    memset(set, 0, sizeof *set);
    for (; dirs && *dirs && set->dir_count < BOARD_DIR_MAX; dirs++)
        set->dirs[set->dir_count++] = *dirs;
}

void board_set_done(BoardSet *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->boards[i]);
    memset(set, 0, sizeof *set);
}

const char *const *board_set_names(const BoardSet *set, Arena *arena)
{
    const char *dirs[BOARD_DIR_MAX + 1] = {0};
    memcpy(dirs, set->dirs, set->dir_count * sizeof *dirs);
    size_t count = 0;
    return library_names(dirs, arena, &count);
}

/* 0 read, 1 there is no such file in that directory. */
static int board_read(const char *dir, const char *key, SimBoard *board, Err *err)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.yaml", dir, key) >= (int)sizeof path)
        return 1;
    CLEANUP(str_done) Str text;
    str_init(&text, BOARD_BYTES_MAX);
    int rc = file_read(path, BOARD_BYTES_MAX, &text, err);
    if (rc == -ENOENT)
        return 1;
    TRY(rc);
    return board_parse(path, key, text.text, text.len, board, err);
}

static int board_missing(const BoardSet *set, const char *key, const YamlNode *node, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    const char *const *names = board_set_names(set, &arena);
    if (names[0])
        return field_unknown(node, err, "board", key, names);
    return field_fail(node, err, "unknown board '%.40s': there is no board file in %s", key,
                      set->dir_count ? set->dirs[0] : "(no directory)");
}

int board_set_get(BoardSet *set, const char *key, const YamlNode *node, const SimBoard **ret, Err *err)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->boards[i]->key, key) == 0) {
            *ret = set->boards[i];
            return 0;
        }
    if (!library_name_ok(key))
        return board_missing(set, key, node, err);
    if (set->count == ARRAY_LEN(set->boards))
        return field_fail(node, err, "more than %zu boards", ARRAY_LEN(set->boards));
    CLEANUP_FREE SimBoard *board = xcalloc(1, sizeof *board);
    for (size_t i = 0; i < set->dir_count; i++) {
        int rc = board_read(set->dirs[i], key, board, err);
        TRY(rc);
        if (rc == 0) {
            *ret = set->boards[set->count++] = TAKE(board);
            return 0;
        }
    }
    return board_missing(set, key, node, err);
}
