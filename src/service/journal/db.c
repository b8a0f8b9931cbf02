/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/db.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/gzip.h"
#include "base/cleanup.h"
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
CLEANUP_POINTER(Db, db_close);

static void finalize_statement(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

enum {
    SQL_MAX = 16 << 10,
    EVIDENCE_MAX = 64 << 10,
    BUSY_MS = 2000,
    LIMIT_MAX = 10000,
    PRUNE_SHARE = 10,
    PRUNE_ROUNDS = 20,
};

static const char settings[] = "PRAGMA auto_vacuum=INCREMENTAL;"
                               "PRAGMA journal_mode=WAL;"
                               "PRAGMA synchronous=FULL;"
                               "PRAGMA cache_size=-256;" /* KiB */
                               "PRAGMA wal_autocheckpoint=256;"
                               "PRAGMA journal_size_limit=2097152;"
                               "PRAGMA temp_store=MEMORY;";

/* SQLite's error as one of ours: "<what>: database or disk is full". */
static int fail_sql(Db *db, int rc, Err *err, const char *what)
{
    static const struct {
        int sqlite, code;
    } codes[] = {
        {SQLITE_CORRUPT, DB_DAMAGED}, {SQLITE_NOTADB, DB_DAMAGED}, {SQLITE_FULL, -ENOSPC},
        {SQLITE_IOERR, -EIO},         {SQLITE_READONLY, -EROFS},   {SQLITE_PERM, -EACCES},
        {SQLITE_BUSY, -EBUSY},        {SQLITE_CANTOPEN, -ENOENT},  {SQLITE_NOMEM, -ENOMEM},
    };
    const char *text = db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(rc);

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].sqlite == (rc & 0xff))
            return err_set(err, codes[i].code, "%s: %s", what, text);
    return err_set(err, -EIO, "%s: %s", what, text);
}

static int run_sql(Db *db, const char *sql, Err *err)
{
    const int rc = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : fail_sql(db, rc, err, "the journal");
}

/* Several statements, all or none; outside of a transaction. */
static int run_transaction(Db *db, const char *sql, Err *err)
{
    int rc = db_begin(db, err);

    if (rc == 0)
        rc = run_sql(db, sql, err);
    if (rc == 0)
        rc = db_commit(db, err);
    if (rc < 0)
        db_rollback(db);
    return rc;
}

/* A statement for one use, finalised by finalize_statement. */
static int prepare_sql(Db *db, const char *sql, sqlite3_stmt **ret, Err *err)
{
    const int rc = sqlite3_prepare_v2(db->sql, sql, -1, ret, NULL);

    return rc == SQLITE_OK ? 0 : fail_sql(db, rc, err, "the journal");
}

static int read_version(Db *db, int *ret, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, "PRAGMA user_version", &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return fail_sql(db, rc, err, "the journal");
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
    return run_sql(db, sql.text, err);
}

static int add_gpus(Db *db, Err *err)
{
    CLEANUP(str_done) Str sql = {0};

    str_init(&sql, SQL_MAX);
    row_create(&table_gpus, &sql);
    return run_sql(db, sql.text, err);
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
    TRY(run_sql(db, sql, err));
    return db_commit(db, err);
}

static int migrate_schema(Db *db, Err *err)
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
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, "PRAGMA quick_check(1)", &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return fail_sql(db, rc, err, "the journal");
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    if (!text || strcmp(text, "ok") != 0)
        return err_set(err, DB_DAMAGED, "the journal is damaged: %s", text ? text : "unknown");
    return 0;
}

static int open_database(Db *db, const char *path, bool read_only, Err *err)
{
    const int flags = (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int rc = sqlite3_open_v2(path, &db->sql, flags, NULL);

    if (rc != SQLITE_OK)
        return fail_sql(db, rc, err, "the journal");
    sqlite3_busy_timeout(db->sql, BUSY_MS);
    if (read_only)
        return 0;
    TRY(run_sql(db, settings, err));
    TRY(quick_check(db, err));
    return migrate_schema(db, err);
}

int db_open(const char *path, bool read_only, Db **ret, Err *err)
{
    Db *db = xcalloc(1, sizeof *db);
    const int rc = open_database(db, path, read_only, err);

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
    return run_sql(db, "BEGIN IMMEDIATE", err);
}

int db_commit(Db *db, Err *err)
{
    return run_sql(db, "COMMIT", err);
}

void db_rollback(Db *db)
{
    sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
}

/* --- putting ------------------------------------------------------------------------------------------------------ */

static void write_statement(DbStatement which, Str *sql)
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
    case DB_PUT_OUTBOX: /* a text that is replaced keeps its place */
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

static int find_statement(Db *db, DbStatement which, sqlite3_stmt **ret, Err *err)
{
    CLEANUP(str_done) Str sql = {0};

    if (!db->statements[which]) {
        str_init(&sql, SQL_MAX);
        write_statement(which, &sql);
        TRY(prepare_sql(db, sql.text, &db->statements[which], err));
    }
    *ret = db->statements[which];
    return 0;
}

static int run_statement(Db *db, sqlite3_stmt *statement, Err *err)
{
    const int rc = sqlite3_step(statement);
    const int result = rc == SQLITE_DONE ? 0 : fail_sql(db, rc, err, "the journal");

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

    TRY(find_statement(db, DB_PUT_INCIDENT, &statement, err));
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
    return run_statement(db, statement, err);
}

int db_event(Db *db, const Event *event, const char *incident_id, Err *err)
{
    char pci[PCI_TEXT_CAP] = "";
    sqlite3_stmt *statement;

    TRY(find_statement(db, DB_PUT_EVENT, &statement, err));
    if (event->has_pci)
        pci_format(event->pci, PCI_FORM_SYSFS, pci);
    row_bind(&table_events, statement, event);
    bind_text(statement, table_events.count + 1, pci);
    bind_text(statement, table_events.count + 2, incident_id);
    return run_statement(db, statement, err);
}

int db_bundle(Db *db, const char *incident_id, uint64_t real_ns, const char *gz, size_t len, Err *err)
{
    sqlite3_stmt *statement;

    TRY(find_statement(db, DB_PUT_BUNDLE, &statement, err));
    bind_text(statement, 1, incident_id);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)real_ns);
    sqlite3_bind_blob64(statement, 3, gz, len, SQLITE_STATIC);
    return run_statement(db, statement, err);
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

    TRY(find_statement(db, ended ? DB_END_WINDOW : DB_PUT_WINDOW, &statement, err));
    if (ended) {
        bind_text(statement, 1, window->id);
        return run_statement(db, statement, err);
    }
    str_init(&uuids, sizeof window->uuids + ARRAY_LEN(window->uuids));
    join_uuids(window, &uuids);
    row_bind(&table_windows, statement, window);
    bind_text(statement, table_windows.count + 1, uuids.text);
    return run_statement(db, statement, err);
}

int db_gpu(Db *db, const JournalGpu *gpu, bool forgotten, Err *err)
{
    char pci[PCI_TEXT_CAP] = "";
    sqlite3_stmt *statement;

    TRY(find_statement(db, forgotten ? DB_END_GPU : DB_PUT_GPU, &statement, err));
    if (forgotten) {
        bind_text(statement, 1, gpu->device.uuid);
        return run_statement(db, statement, err);
    }
    if (gpu->device.has_pci)
        pci_format(gpu->device.pci, PCI_FORM_SYSFS, pci);
    row_bind(&table_gpus, statement, gpu);
    bind_text(statement, table_gpus.count + 1, pci);
    return run_statement(db, statement, err);
}

int db_meta(Db *db, const char *key, const char *value, Err *err)
{
    sqlite3_stmt *statement;

    TRY(find_statement(db, DB_PUT_META, &statement, err));
    bind_text(statement, 1, key);
    bind_text(statement, 2, value);
    return run_statement(db, statement, err);
}

int db_outbox(Db *db, const char *receiver, const char *key, const char *text, size_t len, Err *err)
{
    sqlite3_stmt *statement;

    TRY(find_statement(db, len ? DB_PUT_OUTBOX : DB_END_OUTBOX, &statement, err));
    bind_text(statement, 1, receiver);
    bind_text(statement, 2, key);
    if (len)
        sqlite3_bind_text64(statement, 3, text, len, SQLITE_STATIC, SQLITE_UTF8);
    return run_statement(db, statement, err);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int fail_step(Db *db, int rc, Err *err)
{
    return rc == SQLITE_DONE ? 0 : fail_sql(db, rc, err, "the journal");
}

static const char *text_at(sqlite3_stmt *statement, size_t column)
{
    const char *text = (const char *)sqlite3_column_text(statement, (int)column);

    return text ? text : "";
}

static void read_incident(sqlite3_stmt *statement, Incident *into)
{
    const char *pci = text_at(statement, table_incidents.count);
    const char *evidence = text_at(statement, table_incidents.count + 1);

    table_incident_init(into);
    row_read(&table_incidents, statement, into);
    if (pci[0] && pci_parse(pci, &into->device.pci) < 0)
        into->device.has_pci = false;
    table_evidence_read(evidence, strlen(evidence), into);
}

typedef VEC(Incident) DbIncidents;
typedef struct DbEvent {
    Event event;
    char incident[INCIDENT_ID_CAP];
} DbEvent;
typedef VEC(DbEvent) DbEvents;

/* Rows of "SELECT <columns> FROM incidents <rest>". */
static int read_incidents(Db *db, const char *rest, const JournalQuery *query, DbIncidents *ret, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT ");
    row_names(&table_incidents, &sql);
    str_addf(&sql, ", pci, evidence FROM incidents %s", rest);
    TRY(prepare_sql(db, sql.text, &statement, err));
    if (query) {
        sqlite3_bind_text(statement, 1, query->device, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 2, query->class, -1, SQLITE_STATIC);
        if (query->state >= 0)
            sqlite3_bind_text(statement, 3, incident_state_key((IncidentState)query->state), -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 4, (sqlite3_int64)query->from_real_ns);
        sqlite3_bind_int64(statement, 5, query->to_real_ns > INT64_MAX ? INT64_MAX : (sqlite3_int64)query->to_real_ns);
        sqlite3_bind_int64(statement, 6, query->limit < LIMIT_MAX ? (sqlite3_int64)query->limit : LIMIT_MAX);
    }
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
        read_incident(statement, vec_add(ret));
    return fail_step(db, rc, err);
}

/* substr: a prefix without the wildcards of LIKE. */
static const char asked_where[] =
    "WHERE (?1 IS NULL OR substr(device, 1, length(?1)) = ?1) AND (?2 IS NULL OR class = ?2)"
    " AND (?3 IS NULL OR state = ?3) AND updated_ns BETWEEN ?4 AND ?5"
    " ORDER BY opened_ns DESC, id DESC LIMIT ?6";

static int read_asked_incidents(Db *db, const JournalQuery *query, DbIncidents *ret, Err *err)
{
    return read_incidents(db, asked_where, query, ret, err);
}

static int read_asked_events(Db *db, const JournalQuery *query, DbEvents *ret, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT ");
    row_names(&table_events, &sql);
    str_add(&sql, ", pci, incident FROM events WHERE real_ns BETWEEN ?1 AND ?2 ORDER BY seq DESC LIMIT ?3");
    TRY(prepare_sql(db, sql.text, &statement, err));
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)query->from_real_ns);
    sqlite3_bind_int64(statement, 2, query->to_real_ns > INT64_MAX ? INT64_MAX : (sqlite3_int64)query->to_real_ns);
    sqlite3_bind_int64(statement, 3, query->limit < LIMIT_MAX ? (sqlite3_int64)query->limit : LIMIT_MAX);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        DbEvent *into = vec_add(ret);

        event_init(&into->event, EVENT_XID, EVENT_FROM_KMSG);
        row_read(&table_events, statement, &into->event);
        into->event.has_pci = pci_parse(text_at(statement, table_events.count), &into->event.pci) == 0;
        snprintf(into->incident, sizeof into->incident, "%s", text_at(statement, table_events.count + 1));
    }
    return fail_step(db, rc, err);
}

static int read_asked_bundle(Db *db, const char *incident_id, Str *ret, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, "SELECT gz FROM bundles WHERE incident = ?1", &statement, err));
    sqlite3_bind_text(statement, 1, incident_id, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    if (rc == SQLITE_DONE)
        return err_set(err, -ENOENT, "the journal has no bundle of incident %s", incident_id);
    if (rc != SQLITE_ROW)
        return fail_sql(db, rc, err, "the journal");
    return gzip_unpack(sqlite3_column_blob(statement, 0), (size_t)sqlite3_column_bytes(statement, 0), ret, err);
}

int db_each_outbox(Db *db, void (*fn)(void *self, const char *receiver, const char *key, const char *text, size_t len),
                   void *self, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;
    int rc;

    TRY(prepare_sql(db, "SELECT receiver, key, text FROM outbox ORDER BY seq", &statement, err));
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = text_at(statement, 2);

        fn(self, text_at(statement, 0), text_at(statement, 1), text, strlen(text));
    }
    return fail_step(db, rc, err);
}

static int read_meta(Db *db, JournalKept *kept, Err *err)
{
    const struct {
        const char *key;
        uint64_t *into;
    } numbers[] = {
        {"sequence", &kept->sequence}, {"fabric_offset", &kept->fabric_offset}, {"fabric_inode", &kept->fabric_inode}};
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;
    int rc;

    TRY(prepare_sql(db, "SELECT key, value FROM meta", &statement, err));
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *key = text_at(statement, 0), *value = text_at(statement, 1);

        if (strcmp(key, "boot_id") == 0)
            snprintf(kept->boot_id, sizeof kept->boot_id, "%s", value);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
            if (strcmp(key, numbers[i].key) == 0)
                *numbers[i].into = strtoull(value, NULL, 10);
    }
    return fail_step(db, rc, err);
}

static int read_windows(Db *db, JournalKept *kept, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT ");
    row_names(&table_windows, &sql);
    str_add(&sql, ", uuids FROM windows ORDER BY from_ns");
    TRY(prepare_sql(db, sql.text, &statement, err));
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        MaintenanceWindow *window = vec_add(&kept->windows);
        const char *uuids = text_at(statement, table_windows.count);

        row_read(&table_windows, statement, window);
        for (size_t i = 0; i < ARRAY_LEN(window->uuids) && *uuids; i++) {
            const size_t len = strcspn(uuids, " ");

            snprintf(window->uuids[i], sizeof window->uuids[i], "%.*s", (int)len, uuids);
            uuids += len + (uuids[len] == ' ');
        }
    }
    return fail_step(db, rc, err);
}

/* Skips GPUs without an address: those cannot be reported missing. */
static int read_gpus(Db *db, JournalKept *kept, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT * FROM (SELECT ");
    row_names(&table_gpus, &sql);
    str_addf(&sql, ", pci FROM gpu_seen ORDER BY last_real_ns DESC LIMIT %d) ORDER BY pci", JOURNAL_KEPT);
    TRY(prepare_sql(db, sql.text, &statement, err));
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        JournalGpu gpu = {0};

        device_init(&gpu.device, DEVICE_GPU);
        row_read(&table_gpus, statement, &gpu);
        gpu.device.has_pci = pci_parse(text_at(statement, table_gpus.count), &gpu.device.pci) == 0;
        if (gpu.device.has_pci && gpu.device.uuid[0])
            vec_push(&kept->gpus, gpu);
    }
    return fail_step(db, rc, err);
}

int db_kept(Db *db, JournalKept *ret, Err *err)
{
    DbIncidents incidents = {0};
    char over[128];
    int rc = read_incidents(db, "WHERE state <> 'cleared' ORDER BY opened_ns, id LIMIT 512", NULL, &incidents, err);

    snprintf(over, sizeof over, "WHERE state = 'cleared' ORDER BY cleared_ns DESC LIMIT %d", JOURNAL_KEPT);
    if (rc == 0)
        rc = read_incidents(db, over, NULL, &incidents, err);
    ret->incidents.at = incidents.at;
    ret->incidents.len = incidents.len;
    ret->incidents.cap = incidents.cap;
    TRY(rc);
    TRY(read_meta(db, ret, err));
    TRY(read_windows(db, ret, err));
    return read_gpus(db, ret, err);
}

void journal_kept_done(JournalKept *kept)
{
    vec_done(&kept->incidents);
    vec_done(&kept->windows);
    vec_done(&kept->gpus);
}

/* --- pruning ----------------------------------------------------------------------------------------------------- */

static int read_number(Db *db, const char *sql, uint64_t *ret, Err *err)
{
    CLEANUP(finalize_statement) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, sql, &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return fail_sql(db, rc, err, "the journal");
    *ret = (uint64_t)sqlite3_column_int64(statement, 0);
    return 0;
}

int db_count(Db *db, const char *table, uint64_t *ret, Err *err)
{
    char sql[64];

    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    return read_number(db, sql, ret, err);
}

static int read_file_bytes(Db *db, uint64_t *ret, Err *err)
{
    uint64_t pages = 0, unused = 0, size = 0;

    TRY(read_number(db, "PRAGMA page_count", &pages, err));
    TRY(read_number(db, "PRAGMA freelist_count", &unused, err));
    TRY(read_number(db, "PRAGMA page_size", &size, err));
    *ret = (pages - unused) * size;
    return 0;
}

/* Deletes the oldest tenth of the cleared incidents and of the events, and bundles without an incident. */
static int delete_oldest(Db *db, Err *err)
{
    char sql[512];

    snprintf(sql, sizeof sql,
             "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE state = 'cleared' ORDER BY cleared_ns"
             " LIMIT 1 + (SELECT count(*) FROM incidents) / %d);"
             "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT 1 + (SELECT count(*) FROM"
             " events) / %d);"
             "DELETE FROM bundles WHERE incident NOT IN (SELECT id FROM incidents)",
             PRUNE_SHARE, PRUNE_SHARE);
    return run_transaction(db, sql, err);
}

static int delete_older(Db *db, uint64_t keep_ns, Err *err)
{
    uint64_t newest = 0;
    char sql[512];

    TRY(read_number(db,
                    "SELECT max((SELECT ifnull(max(updated_ns), 0) FROM incidents),"
                    " (SELECT ifnull(max(real_ns), 0) FROM events))",
                    &newest, err));
    if (newest <= keep_ns)
        return 0;
    const unsigned long long before = newest - keep_ns;
    snprintf(sql, sizeof sql,
             "DELETE FROM incidents WHERE state = 'cleared' AND cleared_ns < %llu;"
             "DELETE FROM events WHERE real_ns < %llu;"
             "DELETE FROM gpu_seen WHERE last_real_ns < %llu;"
             "DELETE FROM bundles WHERE incident NOT IN (SELECT id FROM incidents)",
             before, before, before);
    return run_transaction(db, sql, err);
}

int db_prune(Db *db, uint64_t keep_ns, uint64_t max_bytes, uint64_t *ret_bytes, Err *err)
{
    uint64_t bytes = 0;

    if (keep_ns)
        TRY(delete_older(db, keep_ns, err));
    TRY(read_file_bytes(db, &bytes, err));
    for (int i = 0; max_bytes && bytes > max_bytes && i < PRUNE_ROUNDS; i++) {
        TRY(delete_oldest(db, err));
        TRY(read_file_bytes(db, &bytes, err));
    }
    TRY(run_sql(db, "PRAGMA incremental_vacuum", err));
    return read_file_bytes(db, ret_bytes, err);
}

/* --- readers beside the agent ------------------------------------------------------------------------------------- */

static int open_for_reading(const char *path, Db **ret, Err *err)
{
    if (access(path, R_OK) < 0) {
        const int rc = errno == ENOENT ? -ENOENT : -EACCES;

        (void)err_errno(err, "read the journal '%s'", path);
        return rc;
    }
    return db_open(path, true, ret, err);
}

int journal_read_incidents(const char *path, const JournalQuery *query, JournalIncidents answer, void *self, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;
    DbIncidents incidents = {0};

    TRY(open_for_reading(path, &db, err));
    const int rc = read_asked_incidents(db, query, &incidents, err);
    if (rc == 0)
        answer(self, incidents.at, incidents.len);
    vec_done(&incidents);
    return rc;
}

int journal_read_events(const char *path, const JournalQuery *query, JournalEvent each, void *self, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;
    DbEvents events = {0};

    TRY(open_for_reading(path, &db, err));
    const int rc = read_asked_events(db, query, &events, err);
    for (size_t i = 0; rc == 0 && i < events.len; i++)
        each(self, &events.at[i].event, events.at[i].incident);
    vec_done(&events);
    return rc;
}

int journal_read_bundle(const char *path, const char *incident_id, Str *out, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;

    TRY(open_for_reading(path, &db, err));
    return read_asked_bundle(db, incident_id, out, err);
}
