/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite export. A table is a row of a const list: its columns by name, and what is done with a row of it
 * (sqlite_rows.c). Columns that are missing read as NULL. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "base/owner.h"
#include "base/str.h"
#include "source/nsys/sqlite_rows.h"

enum { SQL_MAX = 4096, CHECK_EVERY = 4096 };

bool nsys_is_sqlite(const char *bytes, size_t len)
{
    return len >= 16 && memcmp(bytes, "SQLite format 3", 16) == 0;
}

static int query_failed(Reader *reader, const char *what, Err *err)
{
    const int code = sqlite3_errcode(reader->db);

    if (code == SQLITE_NOMEM)
        return err_set(err, -ENOMEM, "%s: out of memory", what);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return err_set(err, -EBADMSG, "%s: the file is damaged: %s", what, sqlite3_errmsg(reader->db));
    return err_set(err, -EIO, "%s: %s", what, sqlite3_errmsg(reader->db));
}

/* Names of a table's columns, each between commas; empty where there is no such table. */
static int columns_of(Reader *reader, const char *table, Str *names, Err *err)
{
    char sql[128];
    sqlite3_stmt *query = NULL;
    int rc;

    snprintf(sql, sizeof(sql), "PRAGMA table_info(%s)", table);
    if (sqlite3_prepare_v2(reader->db, sql, -1, &query, NULL) != SQLITE_OK)
        return query_failed(reader, table, err);
    while ((rc = sqlite3_step(query)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(query, 1);

        str_addf(names, ",%s", name ? name : "");
    }
    if (names->len)
        str_addc(names, ',');
    sqlite3_finalize(query);
    return rc == SQLITE_DONE ? 0 : query_failed(reader, table, err);
}

static void write_query(const Table *table, const Str *have, Str *sql)
{
    char sought[64];

    str_add(sql, "SELECT ");
    for (size_t i = 0; table->columns[i]; i++) {
        snprintf(sought, sizeof(sought), ",%s,", table->columns[i]);
        const bool there = strstr(have->text, sought) != NULL;

        str_addf(sql, "%s%s%s%s", i ? ", " : "", there ? "\"" : "", there ? table->columns[i] : "NULL",
                 there ? "\"" : "");
    }
    str_addf(sql, " FROM %s", table->name);
}

static int read_rows(Reader *reader, const Table *table, sqlite3_stmt *query, Err *err)
{
    int rc;

    for (uint64_t rows = 1; (rc = sqlite3_step(query)) == SQLITE_ROW; rows++) {
        TRY(table->row(reader, (Row){query}, err));
        if (rows % CHECK_EVERY)
            continue;
        if (reader->stop && *reader->stop)
            return err_set(err, -EINTR, "interrupted");
        if (reader->memory_max && profile_bytes(reader->into) > reader->memory_max)
            return err_set(err, -ENOSPC, "%s: over %zu bytes of memory", table->name, reader->memory_max);
    }
    return rc == SQLITE_DONE ? 0 : query_failed(reader, table->name, err);
}

/* Outcome 1: there is no such table. */
static int read_table(Reader *reader, const Table *table, Err *err)
{
    CLEANUP(str_done) Str have = {0}, sql = {0};
    sqlite3_stmt *query = NULL;

    str_init(&have, SQL_MAX);
    str_init(&sql, SQL_MAX);
    TRY(columns_of(reader, table->name, &have, err));
    if (!have.len)
        return 1;
    write_query(table, &have, &sql);
    if (sqlite3_prepare_v2(reader->db, sql.text, -1, &query, NULL) != SQLITE_OK)
        return query_failed(reader, table->name, err);
    const int rc = read_rows(reader, table, query, err);

    sqlite3_finalize(query);
    return rc;
}

/* More than one process: correlations have to be told apart. */
static void count_processes(Reader *reader)
{
    sqlite3_stmt *query = NULL;

    if (sqlite3_prepare_v2(reader->db,
                           "SELECT COUNT(DISTINCT globalPid / 16777216 % 16777216) FROM CUPTI_ACTIVITY_KIND_KERNEL", -1,
                           &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        reader->several = sqlite3_column_int64(query, 0) > 1;
    sqlite3_finalize(query);
}

static int read_all(Reader *reader, const char *path, Err *err)
{
    size_t known = 0;

    if (sqlite3_open_v2(path, &reader->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return query_failed(reader, "open", err);
    count_processes(reader);
    for (const Table *table = nsys_tables; table->name; table++) {
        const int rc = read_table(reader, table, err);

        TRY(rc);
        known += rc == 0 && (strncmp(table->name, "CUPTI_", 6) == 0 || strcmp(table->name, "NVTX_EVENTS") == 0);
    }
    return known ? 0
                 : err_set(err, -EBADMSG,
                           "a database, but no export of Nsight Systems: none of its tables of events is in "
                           "it; make one with: nsys export --type sqlite REPORT");
}

int nsys_read_sqlite(const char *path, size_t memory_max, const bool *stop, Profile *into, Err *err)
{
    Reader reader = {.into = into, .memory_max = memory_max, .stop = stop};

    map_u64_init(&reader.strings);
    map_u64_init(&reader.links);
    map_u64_init(&reader.gpus);
    into->framework = profile_name(into, "nsys", 4);
    const int rc = read_all(&reader, path, err);

    sqlite3_close(reader.db);
    map_done(&reader.strings);
    map_done(&reader.links);
    map_done(&reader.gpus);
    return rc;
}
