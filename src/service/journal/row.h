/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Structs as rows of SQLite: one table of columns says which member is which, for creating, writing and reading. Words
 * are kept by their keys, so that their numbers may change; a number that is unknown (DEVICE_NO_NUMBER) is NULL. Not
 * for others. */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef enum RowType { ROW_TEXT, ROW_U64, ROW_U32, ROW_I32, ROW_BOOL, ROW_WORD } RowType;

typedef struct RowColumn {
    const char *name;
    RowType type;
    size_t off, size;          /* in the struct */
    const char *(*key)(int i); /* ROW_WORD: of an enum */
    int count;
    const char *more; /* behind its type when the table is made; NULL */
} RowColumn;

typedef struct RowTable {
    const char *name;
    const RowColumn *columns;
    size_t count;
    const char *more; /* further columns and constraints; "" */
} RowTable;

void row_create(const RowTable *table, Str *sql);
/* "INSERT OR REPLACE INTO t(a, b, extra...) VALUES(?1, ?2, ...)" with `extra` further columns, named in `names`. */
void row_insert(const RowTable *table, const char *names, int extra, Str *sql);
/* "a, b, c" */
void row_names(const RowTable *table, Str *sql);
/* Parameters from 1 on. */
void row_bind(const RowTable *table, sqlite3_stmt *statement, const void *row);
/* Columns from 0 on, into a struct that holds its defaults. What does not fit is cut, a word that is not known is the
 * first. */
void row_read(const RowTable *table, sqlite3_stmt *statement, void *row);
