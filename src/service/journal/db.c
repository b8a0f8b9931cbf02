/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the file, its schema, and putting rows into it. */
#include "service/journal/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "service/journal/db_inside.h"

enum { SQL_MAX = 16 << 10, EVIDENCE_MAX = 64 << 10, BUSY_MS = 2000 };

static const char settings[] = "PRAGMA auto_vacuum=INCREMENTAL;"
                               "PRAGMA journal_mode=WAL;"
                               "PRAGMA synchronous=FULL;"
                               "PRAGMA cache_size=-256;" /* KiB */
                               "PRAGMA wal_autocheckpoint=256;"
                               "PRAGMA journal_size_limit=2097152;"
                               "PRAGMA temp_store=MEMORY;";

int db_fail(Db *db, int rc, Err *err, const char *what)
{
    static const struct {
        int sqlite, code;
    } codes[] = {
        {SQLITE_CORRUPT, DB_DAMAGED}, {SQLITE_NOTADB, DB_DAMAGED}, {SQLITE_FULL, -ENOSPC},
        {SQLITE_IOERR, -EIO},         {SQLITE_READONLY, -EROFS},   {SQLITE_PERM, -EACCES},
        {SQLITE_BUSY, -EBUSY},        {SQLITE_CANTOPEN, -ENOENT},  {SQLITE_NOMEM, -ENOMEM},
    };
    const char *text = db && db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(rc);

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].sqlite == (rc & 0xff))
            return err_set(err, codes[i].code, "%s: %s", what, text);
    return err_set(err, -EIO, "%s: %s", what, text);
}

int db_run(Db *db, const char *sql, Err *err)
{
    const int rc = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : db_fail(db, rc, err, "the journal");
}

int db_transact(Db *db, const char *sql, Err *err)
{
    int rc = db_begin(db, err);

    if (rc == 0)
        rc = db_run(db, sql, err);
    if (rc == 0)
        rc = db_commit(db, err);
    if (rc < 0)
        db_rollback(db);
    return rc;
}

int db_prepare(Db *db, const char *sql, sqlite3_stmt **ret, Err *err)
{
    const int rc = sqlite3_prepare_v2(db->sql, sql, -1, ret, NULL);

    return rc == SQLITE_OK ? 0 : db_fail(db, rc, err, "the journal");
}

static int read_version(Db *db, int *ret, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;

    TRY(db_prepare(db, "PRAGMA user_version", &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return db_fail(db, rc, err, "the journal");
    *ret = sqlite3_column_int(statement, 0);
    return 0;
}

static int make_tables(Db *db, Err *err)
{
    CLEANUP(str_done) Str sql = {0};

    str_init(&sql, SQL_MAX);
    row_create(&table_incidents, &sql);
    row_create(&table_events, &sql);
    row_create(&table_windows, &sql);
    str_add(&sql, tables_rest);
    return db_run(db, sql.text, err);
}

static int add_gpus(Db *db, Err *err)
{
    CLEANUP(str_done) Str sql = {0};

    str_init(&sql, SQL_MAX);
    row_create(&table_gpus, &sql);
    return db_run(db, sql.text, err);
}

/* Step i leads from version i to i + 1. */
static int (*const steps[JOURNAL_SCHEMA])(Db *db, Err *err) = {make_tables, add_gpus};

static int step_up(Db *db, int version, Err *err)
{
    char sql[48];

    TRY(db_begin(db, err));
    for (; version < JOURNAL_SCHEMA; version++)
        TRY(steps[version](db, err));
    snprintf(sql, sizeof sql, "PRAGMA user_version=%d", JOURNAL_SCHEMA);
    TRY(db_run(db, sql, err));
    return db_commit(db, err);
}

static int migrate(Db *db, Err *err)
{
    int version = 0;

    TRY(read_version(db, &version, err));
    if (version > JOURNAL_SCHEMA)
        return err_set(err, DB_NEWER,
                       "the journal was written by a newer Stoker (schema %d, this one knows %d); it is left as it is",
                       version, JOURNAL_SCHEMA);
    if (version == JOURNAL_SCHEMA)
        return 0;
    const int rc = step_up(db, version, err);
    if (rc < 0)
        db_rollback(db);
    return rc;
}

static int quick_check(Db *db, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;

    TRY(db_prepare(db, "PRAGMA quick_check(1)", &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return db_fail(db, rc, err, "the journal");
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    if (!text || strcmp(text, "ok") != 0)
        return err_set(err, DB_DAMAGED, "the journal is damaged: %s", text ? text : "unknown");
    return 0;
}

static int open_it(Db *db, const char *path, bool read_only, Err *err)
{
    const int flags = (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int rc = sqlite3_open_v2(path, &db->sql, flags, NULL);

    if (rc != SQLITE_OK)
        return db_fail(db, rc, err, "the journal");
    sqlite3_busy_timeout(db->sql, BUSY_MS);
    if (read_only)
        return 0;
    TRY(db_run(db, settings, err));
    TRY(quick_check(db, err));
    return migrate(db, err);
}

int db_open(const char *path, bool read_only, Db **ret, Err *err)
{
    Db *db = xcalloc(1, sizeof *db);
    const int rc = open_it(db, path, read_only, err);

    if (rc < 0) {
        err_add(err, "'%s'", path);
        db_close(db);
        return rc;
    }
    *ret = db;
    return 0;
}

void db_close(Db *db)
{
    if (!db)
        return;
    for (int i = 0; i < DB_STATEMENTS; i++)
        sqlite3_finalize(db->statements[i]);
    sqlite3_close(db->sql);
    free(db);
}

int db_set_aside(const char *path, char aside[256], Err *err)
{
    static const char *const tails[] = {"-wal", "-shm"};
    char stamp[32], from[4096], to[4096];
    const time_t now = time(NULL);
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    snprintf(to, sizeof to, "%s.damaged-%s", path, stamp);
    if (rename(path, to) < 0)
        return err_errno(err, "set '%s' aside", path);
    snprintf(aside, 256, "%.255s", to);
    for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
        snprintf(from, sizeof from, "%s%s", path, tails[i]);
        snprintf(to, sizeof to, "%s.damaged-%s%s", path, stamp, tails[i]);
        (void)rename(from, to); /* it may not be there */
    }
    return 0;
}

int db_begin(Db *db, Err *err)
{
    return db_run(db, "BEGIN IMMEDIATE", err);
}

int db_commit(Db *db, Err *err)
{
    return db_run(db, "COMMIT", err);
}

void db_rollback(Db *db)
{
    sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
}

/* --- putting ------------------------------------------------------------------------------------------------------ */

static void text_of(DbStatement which, Str *sql)
{
    switch (which) {
    case DB_PUT_INCIDENT:
        row_insert(&table_incidents, ", pci, device, evidence", 3, sql);
        return;
    case DB_PUT_EVENT:
        row_insert(&table_events, ", pci, incident", 2, sql);
        return;
    case DB_PUT_WINDOW:
        row_insert(&table_windows, ", uuids", 1, sql);
        return;
    case DB_PUT_GPU:
        row_insert(&table_gpus, ", pci", 1, sql);
        return;
    case DB_END_GPU:
        str_add(sql, "DELETE FROM gpu_seen WHERE uuid = ?1");
        return;
    case DB_PUT_BUNDLE:
        str_add(sql, "INSERT OR REPLACE INTO bundles(incident, real_ns, gz) VALUES(?1, ?2, ?3)");
        return;
    case DB_END_WINDOW:
        str_add(sql, "DELETE FROM windows WHERE id = ?1");
        return;
    case DB_PUT_META:
        str_add(sql, "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)");
        return;
    case DB_PUT_OUTBOX: /* what is put anew keeps its place */
        str_add(sql, "INSERT INTO outbox(receiver, key, text) VALUES(?1, ?2, ?3)"
                     " ON CONFLICT(receiver, key) DO UPDATE SET text = ?3");
        return;
    case DB_END_OUTBOX:
        str_add(sql, "DELETE FROM outbox WHERE receiver = ?1 AND key = ?2");
        return;
    case DB_STATEMENTS:
        return;
    }
}

static int statement_of(Db *db, DbStatement which, sqlite3_stmt **ret, Err *err)
{
    CLEANUP(str_done) Str sql = {0};

    if (!db->statements[which]) {
        str_init(&sql, SQL_MAX);
        text_of(which, &sql);
        TRY(db_prepare(db, sql.text, &db->statements[which], err));
    }
    *ret = db->statements[which];
    return 0;
}

static int step(Db *db, sqlite3_stmt *statement, Err *err)
{
    const int rc = sqlite3_step(statement);
    const int result = rc == SQLITE_DONE ? 0 : db_fail(db, rc, err, "the journal");

    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return result;
}

static void bind_text(sqlite3_stmt *statement, size_t at, const char *text)
{
    sqlite3_bind_text(statement, (int)at, text, -1, SQLITE_STATIC);
}

int db_incident(Db *db, const Incident *incident, Err *err)
{
    CLEANUP(str_done) Str evidence = {0};
    char key[DEVICE_KEY_CAP] = "", pci[PCI_TEXT_CAP] = "";
    const size_t next = table_incidents.count + 1;
    sqlite3_stmt *statement;

    TRY(statement_of(db, DB_PUT_INCIDENT, &statement, err));
    str_init(&evidence, EVIDENCE_MAX);
    table_evidence_write(incident, &evidence);
    if (device_key(&incident->device, key) < 0)
        key[0] = '\0';
    if (incident->device.has_pci)
        pci_format(incident->device.pci, PCI_FORM_SYSFS, pci);
    row_bind(&table_incidents, statement, incident);
    bind_text(statement, next, pci);
    bind_text(statement, next + 1, key);
    bind_text(statement, next + 2, evidence.text);
    return step(db, statement, err);
}

int db_event(Db *db, const Event *event, const char *incident_id, Err *err)
{
    char pci[PCI_TEXT_CAP] = "";
    sqlite3_stmt *statement;

    TRY(statement_of(db, DB_PUT_EVENT, &statement, err));
    if (event->has_pci)
        pci_format(event->pci, PCI_FORM_SYSFS, pci);
    row_bind(&table_events, statement, event);
    bind_text(statement, table_events.count + 1, pci);
    bind_text(statement, table_events.count + 2, incident_id);
    return step(db, statement, err);
}

int db_bundle(Db *db, const char *incident_id, uint64_t real_ns, const char *gz, size_t len, Err *err)
{
    sqlite3_stmt *statement;

    TRY(statement_of(db, DB_PUT_BUNDLE, &statement, err));
    bind_text(statement, 1, incident_id);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)real_ns);
    sqlite3_bind_blob64(statement, 3, gz, len, SQLITE_STATIC);
    return step(db, statement, err);
}

static void join_uuids(const MaintenanceWindow *window, Str *out)
{
    for (size_t i = 0; i < ARRAY_LEN(window->uuids) && window->uuids[i][0]; i++)
        str_addf(out, "%s%s", i ? " " : "", window->uuids[i]);
}

int db_window(Db *db, const MaintenanceWindow *window, bool ended, Err *err)
{
    CLEANUP(str_done) Str uuids = {0};
    sqlite3_stmt *statement;

    TRY(statement_of(db, ended ? DB_END_WINDOW : DB_PUT_WINDOW, &statement, err));
    if (ended) {
        bind_text(statement, 1, window->id);
        return step(db, statement, err);
    }
    str_init(&uuids, sizeof window->uuids + ARRAY_LEN(window->uuids));
    join_uuids(window, &uuids);
    row_bind(&table_windows, statement, window);
    bind_text(statement, table_windows.count + 1, uuids.text);
    return step(db, statement, err);
}

int db_gpu(Db *db, const JournalGpu *gpu, bool forgotten, Err *err)
{
    char pci[PCI_TEXT_CAP] = "";
    sqlite3_stmt *statement;

    TRY(statement_of(db, forgotten ? DB_END_GPU : DB_PUT_GPU, &statement, err));
    if (forgotten) {
        bind_text(statement, 1, gpu->device.uuid);
        return step(db, statement, err);
    }
    if (gpu->device.has_pci)
        pci_format(gpu->device.pci, PCI_FORM_SYSFS, pci);
    row_bind(&table_gpus, statement, gpu);
    bind_text(statement, table_gpus.count + 1, pci);
    return step(db, statement, err);
}

int db_meta(Db *db, const char *key, const char *value, Err *err)
{
    sqlite3_stmt *statement;

    TRY(statement_of(db, DB_PUT_META, &statement, err));
    bind_text(statement, 1, key);
    bind_text(statement, 2, value);
    return step(db, statement, err);
}

int db_outbox(Db *db, const char *receiver, const char *key, const char *text, size_t len, Err *err)
{
    sqlite3_stmt *statement;

    TRY(statement_of(db, len ? DB_PUT_OUTBOX : DB_END_OUTBOX, &statement, err));
    bind_text(statement, 1, receiver);
    bind_text(statement, 2, key);
    if (len)
        sqlite3_bind_text64(statement, 3, text, len, SQLITE_STATIC, SQLITE_UTF8);
    return step(db, statement, err);
}
