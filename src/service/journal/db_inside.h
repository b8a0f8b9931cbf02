/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files that work on the journal's file share; not for others. */

#include <errno.h>
#include <sqlite3.h>

#include "base/owner.h"
#include "service/journal/db.h"
#include "service/journal/tables.h"

typedef enum DbStatement {
    DB_PUT_INCIDENT,
    DB_PUT_EVENT,
    DB_PUT_BUNDLE,
    DB_PUT_WINDOW,
    DB_END_WINDOW,
    DB_PUT_GPU,
    DB_END_GPU,
    DB_PUT_META,
    DB_PUT_OUTBOX,
    DB_END_OUTBOX,
    DB_STATEMENTS,
} DbStatement;

struct Db {
    sqlite3 *sql;
    sqlite3_stmt *statements[DB_STATEMENTS]; /* prepared on first use */
};

/* What SQLite says as one of our errors: "<what>: database or disk is full". */
int db_fail(Db *db, int rc, Err *err, const char *what);
int db_run(Db *db, const char *sql, Err *err);
/* Several statements, all or none; outside of a transaction. */
int db_transact(Db *db, const char *sql, Err *err);
/* A statement of one use, finalised with sqlite3_finalize. */
int db_prepare(Db *db, const char *sql, sqlite3_stmt **ret, Err *err);

static inline void db_statement_done(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}
