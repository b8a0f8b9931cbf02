/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tables of an export that are read, and what is done with a row of each; for sqlite.c. */

#include <sqlite3.h>

#include "base/map.h"
#include "source/nsys/nsys.h"

enum { COLUMNS_MAX = 24 };

typedef struct Reader {
    sqlite3 *db;
    Profile *into;
    Map strings;  /* id -> name + 1 */
    Map links;    /* process and correlation -> link + 1, where there are several processes */
    Map gpus;     /* process and CUDA device -> GPU + 1 */
    bool several; /* processes */
    size_t memory_max;
    const bool *stop;
} Reader;

typedef struct Row {
    sqlite3_stmt *query;
} Row;

typedef struct Table {
    const char *name;
    const char *columns[COLUMNS_MAX]; /* NULL-ended; row callbacks take them by their place */
    int (*row)(Reader *reader, Row row, Err *err);
} Table;

/* In the order of reading: names first. The last one has no name. */
extern const Table nsys_tables[];
