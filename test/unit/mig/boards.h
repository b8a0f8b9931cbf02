/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The boards of data/mig/boards.yaml for tests: the file is the program's first argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/mig/mig.h"

static Arena board_arena;
static const MigTable *tables;
static size_t table_count;

static void load_tables(const char *path)
{
    Err err = {0};
    const YamlNode *root;
    if (yaml_load_file(path, &board_arena, &root, &err) < 0 ||
        mig_tables_read(root, &board_arena, &tables, &table_count, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

static inline const MigBoard *board_of(const char *name)
{
    for (size_t i = 0; i < table_count; i++)
        if (strcmp(tables[i].board.name, name) == 0)
            return &tables[i].board;
    fail_msg("no board %s", name);
    abort();
}

/* A wanted layout of names, as "2 3g.40gb, 1 1c.2g.20gb" in order: count and name in turn, NULL at the end. */
static inline MigLayout layout_of(const MigBoard *board, const char *first, ...)
{
    MigLayout layout = {.enabled = true};
    Err err = {0};
    va_list args;
    va_start(args, first);
    for (const char *name = first; name; name = va_arg(args, const char *))
        if (mig_layout_add(board, &layout, name, 1, &err) < 0)
            fail_msg("%s", err.text);
    va_end(args);
    return layout;
}
