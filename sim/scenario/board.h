/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Boards: one YAML file each (sim/data/boards), read into the SimBoard of the image by a table of fields. A BoardSet
 * keeps the boards of one run, so that each file is read once. One thread at a time.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/yaml.h"
#include "sim/core/image.h"

enum { BOARD_DIR_MAX = 8, BOARD_BYTES_MAX = 64 * 1024 };

/* Reads a board from `len` bytes; `key` becomes ret->key. -EINVAL with file, line and column. *ret is untouched then.
 */
int board_parse(const char *file, const char *key, const char *text, size_t len, SimBoard *ret, Err *err);

typedef struct BoardSet {
    const char *dirs[BOARD_DIR_MAX]; /* borrowed; searched in this order */
    size_t dir_count;
    SimBoard *boards[32]; /* owned; stay where they are */
    size_t count;
} BoardSet;

/* Looks in `dirs` (NULL-ended, at most BOARD_DIR_MAX; the texts must outlive the set). */
void board_set_init(BoardSet *set, const char *const *dirs);
void board_set_done(BoardSet *set);

/* The board of that key; `node` is where it was asked for. An unknown one is an error at that place that lists those
 * that exist. The pointer lives as long as the set. */
int board_set_get(BoardSet *set, const char *key, const YamlNode *node, const SimBoard **ret, Err *err);

/* Keys of all boards found in the directories, sorted, NULL-ended; the array and the texts lie in the arena. */
const char *const *board_set_names(const BoardSet *set, Arena *arena);

/* Position of a MIG profile in the board's list by name, or -1. */
int board_profile_find(const SimBoard *board, const char *name);

/* Appends the documentation of the file format as Markdown tables. */
void board_page(Str *out);
