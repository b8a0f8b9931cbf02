/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tables of the journal's file, schema version 2, and structs as their rows: one list of columns says which member
 * is which, for creating, writing and reading. Enums are kept by their keys, so that their numbers may change; a number
 * that is unknown (DEVICE_NO_NUMBER) is NULL. Not for others.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "service/journal/journal.h"

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

extern const RowTable table_incidents; /* struct Incident; one more column: evidence */
extern const RowTable table_events;    /* struct Event; one more: incident */
extern const RowTable table_windows;   /* struct MaintenanceWindow; one more: uuids */
extern const RowTable table_gpus;      /* struct JournalGpu; one more: pci. Since version 2 */
extern const char tables_rest[];       /* SQL of the tables that are no struct, and of the indexes */

/* An empty one to read into. */
void table_incident_init(Incident *incident);

/* Signs, counters and codes as JSON, and back. What cannot be read stays empty. */
void table_evidence_write(const Incident *incident, Str *out);
void table_evidence_read(const char *json, size_t len, Incident *incident);
