/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/db.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/gzip.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/number.h"

/* The tables, and what is done with their rows. */
static const struct {
    const char *sql, *table;
    size_t keys; /* values that name the row; 0: there is one. Events are never replaced */
} statements[DB_STATEMENT_END] = {
    [DB_PUT_INCIDENT] = {"INSERT OR REPLACE INTO incidents(id, state, opened_ns, updated_ns, cleared_ns, json)"
                         " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                         "incidents", 1},
    [DB_PUT_EVENT] = {"INSERT INTO events(real_ns, sequence, json) VALUES(?1, ?2, ?3)", NULL, 0},
    [DB_PUT_BUNDLE] = {"INSERT OR REPLACE INTO bundles(incident, gz) VALUES(?1, CAST(?2 AS BLOB))", "bundles", 1},
    [DB_PUT_WINDOW] = {"INSERT OR REPLACE INTO windows(id, reason, who, gpus, from_ns, until_ns, uuids)"
                       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                       "windows", 1},
    [DB_END_WINDOW] = {"DELETE FROM windows WHERE id = ?1", "windows", 1},
    [DB_PUT_GPU] = {"INSERT OR REPLACE INTO gpu_seen(uuid, serial, name, first_real_ns, last_real_ns, drained, pci,"
                    " energy_mj, gpu_index, minor, idle_mw, idle_held, mig_layout, mig_changed, mig_change)"
                    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
                    "gpu_seen", 1},
    [DB_END_GPU] = {"DELETE FROM gpu_seen WHERE uuid = ?1", "gpu_seen", 1},
    [DB_PUT_POSITION] = {"INSERT OR REPLACE INTO meta(key, value)"
                         " VALUES('boot_id', ?1), ('sequence', ?2), ('fabric_offset', ?3), ('fabric_inode', ?4)",
                         "meta", 0},
    /* one that could not be read at the start was begun at 0, and must not bring it back to that */
    [DB_PUT_COUNT] = {"INSERT INTO counts(key, value, changed_ns) VALUES(?1, ?2, ?3)"
                      " ON CONFLICT(key) DO UPDATE SET value = max(value, ?2), changed_ns = ?3",
                      "counts", 1},
    /* a text that is replaced keeps its place */
    [DB_PUT_OUTBOX] = {"INSERT INTO outbox(receiver, key, text) VALUES(?1, ?2, ?3)"
                       " ON CONFLICT(receiver, key) DO UPDATE SET text = ?3",
                       "outbox", 2},
    [DB_END_OUTBOX] = {"DELETE FROM outbox WHERE receiver = ?1 AND key = ?2", "outbox", 2},
    [DB_PUT_LEDGER] = {db_ledger_put, "ledger", 1},
    [DB_PUT_JOB] = {db_job_put, "job_reports", 1},
    [DB_PUT_BENCH] = {db_bench_put, "bench_runs", 1},
};

struct Db {
    sqlite3 *sql;
    sqlite3_stmt *prepared[DB_STATEMENT_END]; /* on first use */
    sqlite3_stmt *put_name;
    Map names;    /* of the ledger: text -> its number, as far as they were put and not pruned */
    bool relaxed; /* commits are not synced now */
};
CLEANUP_POINTER(Db, db_close);
CLEANUP_POINTER(sqlite3_stmt, sqlite3_finalize);

enum {
    SQL_MAX = 16 << 10,
    BUSY_MS = 2000,
    INCIDENTS_KEPT = 512,
    COUNTS_KEPT = 4096,
    LEDGER_READ = 4096, /* rows among which each GPU's last is */
    NAMES_KEPT = 512,
    JOBS_READ = 64, /* running ones; of those that have ended, the last */
    PRUNE_SHARE = 10,
    PRUNE_ROUNDS = 20,
    RETRY_FIRST_MS = 500,
    RETRY_MAX_MS = 10000,
};

uint64_t db_next_retry_ms(uint64_t last_ms)
{
    if (last_ms < RETRY_FIRST_MS)
        return RETRY_FIRST_MS;
    return last_ms * 2 < RETRY_MAX_MS ? last_ms * 2 : RETRY_MAX_MS;
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

DbValue db_bytes(const char *bytes, size_t len)
{
    return (DbValue){.text = xmemdup0(bytes, len), .len = len};
}

DbValue db_text(const char *text)
{
    return db_bytes(text, strlen(text));
}

DbValue db_number(uint64_t number)
{
    return (DbValue){.number = (int64_t)number};
}

void db_change_done(DbChange *change)
{
    for (size_t i = 0; i < DB_VALUES_MAX; i++)
        free(TAKE(change->values[i].text));
}

bool db_change_replaces(const DbChange *newer, const DbChange *older)
{
    const char *table = statements[newer->statement].table;

    if (!table || !statements[older->statement].table || strcmp(table, statements[older->statement].table) != 0)
        return false;
    for (size_t i = 0; i < statements[newer->statement].keys; i++)
        if (newer->values[i].text ? strcmp(newer->values[i].text, older->values[i].text) != 0
                                  : newer->values[i].number != older->values[i].number)
            return false;
    return true;
}

uint64_t db_change_key(const DbChange *change)
{
    const char *table = statements[change->statement].table;
    uint64_t key = table ? map_hash(table, strlen(table), 0) : 0;

    for (size_t i = 0; i < statements[change->statement].keys; i++) {
        const DbValue *value = &change->values[i];

        key = value->text ? map_hash(value->text, strlen(value->text), key)
                          : map_hash(&value->number, sizeof value->number, key);
    }
    return key;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const char json_tables[] =
    "CREATE TABLE incidents(id TEXT PRIMARY KEY, state TEXT, opened_ns INTEGER, updated_ns INTEGER,"
    " cleared_ns INTEGER, json TEXT) STRICT;"
    "CREATE TABLE events(seq INTEGER PRIMARY KEY AUTOINCREMENT, real_ns INTEGER, sequence INTEGER, json TEXT) STRICT;"
    "CREATE INDEX incidents_state ON incidents(state);"
    "CREATE INDEX incidents_updated ON incidents(updated_ns);"
    "CREATE INDEX events_time ON events(real_ns);";
static const char other_tables[] =
    "CREATE TABLE windows(id TEXT PRIMARY KEY, reason TEXT, who TEXT, gpus INTEGER, from_ns INTEGER, until_ns INTEGER,"
    " uuids TEXT) STRICT;"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) STRICT;"
    "CREATE TABLE bundles(incident TEXT PRIMARY KEY, gz BLOB) STRICT;"
    "CREATE TABLE outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT, key TEXT, text TEXT,"
    " UNIQUE(receiver, key)) STRICT;";
static const char gpu_table[] =
    "CREATE TABLE gpu_seen(uuid TEXT PRIMARY KEY, serial TEXT, name TEXT, first_real_ns INTEGER, last_real_ns INTEGER,"
    " drained INTEGER, pci TEXT) STRICT;";
static const char gpu_energy[] = "ALTER TABLE gpu_seen ADD COLUMN energy_mj INTEGER;";
static const char gpu_numbers[] =
    "ALTER TABLE gpu_seen ADD COLUMN gpu_index INTEGER;"
    "ALTER TABLE gpu_seen ADD COLUMN minor INTEGER;"
    "CREATE TABLE counts(key TEXT PRIMARY KEY, value INTEGER, changed_ns INTEGER) STRICT;";
static const char gpu_idle[] = "ALTER TABLE gpu_seen ADD COLUMN idle_mw INTEGER;"
                               "ALTER TABLE gpu_seen ADD COLUMN idle_held INTEGER;";
static const char gpu_mig[] = "ALTER TABLE gpu_seen ADD COLUMN mig_layout TEXT;"
                              "ALTER TABLE gpu_seen ADD COLUMN mig_changed TEXT;"
                              "ALTER TABLE gpu_seen ADD COLUMN mig_change TEXT;";

/* Until version 2 incidents and events were a column per member. */
#define TIME_OF(ns) "iif(" ns ", strftime('%Y-%m-%dT%H:%M:%fZ', " ns " / 1e9, 'unixepoch'), NULL)"
#define BOOL_OF(column) "json(iif(" column ", 'true', 'false'))"
static const char columns_away[] =
    "ALTER TABLE incidents RENAME TO old_incidents;"
    "ALTER TABLE events RENAME TO old_events;"
    "DROP INDEX incidents_state; DROP INDEX incidents_updated; DROP INDEX events_time; DROP INDEX events_incident;";
static const char columns_to_json[] =
    "INSERT INTO incidents SELECT id, state, opened_ns, updated_ns, cleared_ns, json_object('id', id,"
    " 'revision', revision, 'state', state, 'class', class, 'rule', rule, 'code', code,"
    " 'codes', json_extract(evidence, '$.codes'), 'cause', cause, 'severity', severity, 'scope', scope,"
    " 'action', action, 'route', route, 'title', title, 'verdict', verdict, 'runbook', runbook,"
    " 'device', json_object('key', device, 'kind', device_kind, 'index', device_index,"
    " 'uuid', iif(uuid <> '', uuid, parent_uuid), 'serial', serial, 'pci', pci, 'model', model, 'link', link),"
    " 'instance', json_object('gpu_instance', gpu_instance, 'compute_instance', compute_instance),"
    " 'process', json_object('pid', pid, 'name', process), 'job', job, 'driver', driver_version,"
    " 'count', count, 'echo_count', echo_count, 'first', " TIME_OF("first_ns") ", 'opened', " TIME_OF("opened_ns") ","
    " 'updated', " TIME_OF("updated_ns") ", 'cleared', " TIME_OF("cleared_ns") ", 'ended_by', ended_by,"
    " 'escalations', escalations, 'reopened', reopened, 'before_start', " BOOL_OF("before") ","
    " 'maintenance', iif(silenced, maintenance, ''), 'evidence', (SELECT json_group_array(json_set(item.value, '$.at', "
    TIME_OF("json_extract(item.value, '$.at')") "))"
    " FROM json_each(json_array('$.first', '$.last')) AS part, json_each(evidence, part.value) AS item),"
    " 'counters', json_extract(evidence, '$.counters')) FROM old_incidents;"
    "INSERT INTO events SELECT seq, real_ns, sequence, json_object('kind', kind, 'time', " TIME_OF("real_ns") ","
    " 'origin', origin, 'code', code, 'pci', pci, 'uuid', uuid, 'gpu_instance', gpu_instance,"
    " 'compute_instance', compute_instance, 'link', link, 'pid', pid, 'process', process, 'word', word, 'text', text,"
    " 'incident', incident, 'before_start', " BOOL_OF("before") ") FROM old_events;"
    "DROP TABLE old_incidents;"
    "DROP TABLE old_events;";

/* What leads from a version to the present one. */
static const char *const migrations[JOURNAL_SCHEMA][13] = {
    {json_tables, other_tables, gpu_table, gpu_energy, gpu_numbers, db_ledger_tables, db_job_tables, db_clock_table, gpu_idle, gpu_mig, db_bench_table},
    {gpu_table, gpu_energy, gpu_numbers, columns_away, json_tables, columns_to_json, db_ledger_tables, db_job_tables,
     db_clock_table, gpu_idle, gpu_mig, db_bench_table},
    {gpu_energy, gpu_numbers, columns_away, json_tables, columns_to_json, db_ledger_tables, db_job_tables,
     db_clock_table, gpu_idle, gpu_mig, db_bench_table},
    {gpu_energy, gpu_numbers, db_ledger_tables, db_job_tables, db_clock_table, gpu_idle, gpu_mig, db_bench_table},
    {gpu_numbers, db_ledger_tables, db_job_tables, db_clock_table, gpu_idle, gpu_mig, db_bench_table},
    {db_ledger_tables, db_job_tables, db_clock_table, gpu_idle, gpu_mig, db_bench_table},
    {db_job_tables, db_clock_table, gpu_idle, db_ledger_peaks, gpu_mig, db_bench_table},
    {db_clock_table, gpu_idle, db_ledger_peaks, gpu_mig, db_bench_table},
    {gpu_idle, db_ledger_peaks, gpu_mig, db_bench_table},
    {db_ledger_peaks, gpu_mig, db_bench_table},
    {db_bench_table},
};
/* clang-format on */

static const char settings[] = "PRAGMA auto_vacuum=INCREMENTAL;"
                               "PRAGMA journal_mode=WAL;"
                               "PRAGMA synchronous=FULL;"
                               "PRAGMA cache_size=-256;" /* KiB */
                               "PRAGMA wal_autocheckpoint=256;"
                               "PRAGMA journal_size_limit=2097152;"
                               "PRAGMA temp_store=MEMORY;";

/* SQLite's error as one of ours: "the journal: database or disk is full". */
static int fail_sql(Db *db, int rc, Err *err)
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
            return err_set(err, codes[i].code, "the journal: %s", text);
    return err_set(err, -EIO, "the journal: %s", text);
}

static int run_sql(Db *db, const char *sql, Err *err)
{
    const int rc = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : fail_sql(db, rc, err);
}

static void forget_names(Db *db)
{
    map_done(&db->names);
    map_init(&db->names);
}

/* Ends a transaction: everything if all went well, else nothing of it. */
static int end_transaction(Db *db, int rc, Err *err)
{
    if (rc == 0)
        rc = run_sql(db, "COMMIT", err);
    if (rc == 0)
        return 0;
    sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    forget_names(db);
    return rc;
}

/* Several statements, all or none; outside of a transaction. */
static int run_transaction(Db *db, const char *sql, Err *err)
{
    int rc = run_sql(db, "BEGIN IMMEDIATE", err);

    return end_transaction(db, rc == 0 ? run_sql(db, sql, err) : rc, err);
}

static int prepare_sql(Db *db, const char *sql, sqlite3_stmt **ret, Err *err)
{
    const int rc = sqlite3_prepare_v2(db->sql, sql, -1, ret, NULL);

    return rc == SQLITE_OK ? 0 : fail_sql(db, rc, err);
}

static int read_number(Db *db, const char *sql, uint64_t *ret, Err *err)
{
    CLEANUP(sqlite3_finalize_at) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, sql, &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return fail_sql(db, rc, err);
    *ret = (uint64_t)sqlite3_column_int64(statement, 0);
    return 0;
}

static int migrate_schema(Db *db, Err *err)
{
    CLEANUP(str_done) Str sql = {0};
    uint64_t version = 0;

    TRY(read_number(db, "PRAGMA user_version", &version, err));
    if (version > JOURNAL_SCHEMA)
        return err_set(err, DB_NEWER,
                       "the journal was written by a newer Stoker (schema %d, this one knows %d); it is left as it is",
                       (int)version, JOURNAL_SCHEMA);
    if (version == JOURNAL_SCHEMA)
        return 0;
    str_init(&sql, SQL_MAX);
    for (const char *const *step = migrations[version]; *step; step++)
        str_add(&sql, *step);
    str_addf(&sql, "PRAGMA user_version=%d", JOURNAL_SCHEMA);
    return run_transaction(db, sql.text, err);
}

static int quick_check(Db *db, Err *err)
{
    CLEANUP(sqlite3_finalize_at) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, "PRAGMA quick_check(1)", &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return fail_sql(db, rc, err);
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    if (!text || strcmp(text, "ok") != 0)
        return err_set(err, DB_DAMAGED, "the journal is damaged: %s", text ? text : "unknown");
    return 0;
}

enum { JOURNAL_MODE = 0640 };

/* The file, and those that SQLite keeps beside it. */
static const char *const tails[] = {"", "-wal", "-shm"};

/* SQLite would make them readable for everybody, as older versions of ours are, and they name users and processes. */
static void hide_files(const char *path)
{
    const int fresh = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, JOURNAL_MODE);
    char name[4096];
    struct stat about;

    if (fresh >= 0)
        close(fresh);
    for (size_t i = 0; i < ARRAY_LEN(tails); i++)
        if (snprintf(name, sizeof name, "%s%s", path, tails[i]) < (int)sizeof name && stat(name, &about) == 0 &&
            (about.st_mode & 0777) != (about.st_mode & JOURNAL_MODE))
            (void)chmod(name, about.st_mode & JOURNAL_MODE);
}

static int open_database(Db *db, const char *path, bool read_only, Err *err)
{
    const int flags = (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;

    if (!read_only)
        hide_files(path);
    const int rc = sqlite3_open_v2(path, &db->sql, flags, NULL);
    if (rc != SQLITE_OK)
        return fail_sql(db, rc, err);
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
    map_init(&db->names);
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
    for (int i = 0; i < DB_STATEMENT_END; i++)
        sqlite3_finalize(db->prepared[i]);
    sqlite3_finalize(db->put_name);
    map_done(&db->names);
    sqlite3_close(db->sql);
    free(db);
}

/* Removes all but the newest files that were set aside: whatever damages them may do so at each start. */
static void prune_asides(const char *path)
{
    enum { KEPT = 3 };
    char pattern[4096], name[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s.damaged-????????T??????Z", path);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i + KEPT < found.gl_pathc; i++)
        for (size_t k = 0; k < ARRAY_LEN(tails); k++) {
            snprintf(name, sizeof name, "%s%s", found.gl_pathv[i], tails[k]);
            (void)unlink(name); /* it may not be there */
        }
    globfree(&found);
}

int db_set_aside(const char *path, char aside[256], Err *err)
{
    char stamp[32], from[4096], to[4096];
    const time_t now = time(NULL);
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    snprintf(to, sizeof to, "%s.damaged-%s", path, stamp);
    if (rename(path, to) < 0)
        return err_errno(err, "set '%s' aside", path);
    snprintf(aside, 256, "%.255s", to);
    for (size_t i = 1; i < ARRAY_LEN(tails); i++) {
        snprintf(from, sizeof from, "%s%s", path, tails[i]);
        snprintf(to, sizeof to, "%s.damaged-%s%s", path, stamp, tails[i]);
        (void)rename(from, to); /* it may not be there */
    }
    prune_asides(path);
    return 0;
}

/* The number of a text of the ledger. Rows are put each second with the same few texts. */
static int find_name(Db *db, const DbValue *text, sqlite3_int64 *ret, Err *err)
{
    const uintptr_t known = (uintptr_t)map_getn(&db->names, text->text, text->len);

    *ret = (sqlite3_int64)known;
    if (known)
        return 0;
    if (!db->put_name)
        TRY(prepare_sql(db, db_ledger_put_name, &db->put_name, err));
    sqlite3_bind_text64(db->put_name, 1, text->text, text->len, SQLITE_STATIC, SQLITE_UTF8);
    const int rc = sqlite3_step(db->put_name);
    const int result = rc == SQLITE_ROW ? 0 : fail_sql(db, rc, err);
    *ret = sqlite3_column_int64(db->put_name, 0);
    sqlite3_reset(db->put_name);
    sqlite3_clear_bindings(db->put_name);
    if (result < 0)
        return result;
    if (db->names.len == NAMES_KEPT)
        forget_names(db);
    map_putn(&db->names, text->text, text->len, (void *)(uintptr_t)*ret);
    return 0;
}

static int apply_change(Db *db, const DbChange *change, Err *err)
{
    sqlite3_stmt **statement = &db->prepared[change->statement];

    if (!*statement)
        TRY(prepare_sql(db, statements[change->statement].sql, statement, err));
    for (int i = 0; i < sqlite3_bind_parameter_count(*statement); i++) {
        const DbValue *value = &change->values[i];
        sqlite3_int64 number = value->number;

        if (value->text && change->statement == DB_PUT_LEDGER)
            TRY(find_name(db, value, &number, err));
        if (value->text && change->statement != DB_PUT_LEDGER)
            sqlite3_bind_text64(*statement, i + 1, value->text, value->len, SQLITE_STATIC, SQLITE_UTF8);
        else
            sqlite3_bind_int64(*statement, i + 1, number);
    }
    const int rc = sqlite3_step(*statement);
    const int result = rc == SQLITE_DONE ? 0 : fail_sql(db, rc, err);

    sqlite3_reset(*statement);
    sqlite3_clear_bindings(*statement);
    return result;
}

/* Whether the next commit is synced to the disk. */
static int set_sync(Db *db, bool relaxed, Err *err)
{
    if (db->relaxed != relaxed)
        TRY(run_sql(db, relaxed ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL", err));
    db->relaxed = relaxed;
    return 0;
}

int db_write(Db *db, const DbChange *changes, size_t count, Err *err)
{
    bool relaxed = count > 0;

    for (size_t i = 0; i < count; i++)
        relaxed &= changes[i].statement == DB_PUT_LEDGER || changes[i].statement == DB_PUT_JOB;
    TRY(set_sync(db, relaxed, err));
    int rc = run_sql(db, "BEGIN IMMEDIATE", err);

    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = apply_change(db, &changes[i], err);
    return end_transaction(db, rc, err);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static const char *text_at(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    return text ? text : "";
}

static int add_rows(Db *db, sqlite3_stmt *statement, DbAdd add, void *self, Err *err)
{
    int rc;

    while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
        add(self, statement);
    return rc == SQLITE_DONE ? 0 : fail_sql(db, rc, err);
}

int db_read_rows(Db *db, const char *sql, const uint64_t *numbers, DbAdd add, void *self, Err *err)
{
    CLEANUP(sqlite3_finalize_at) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, sql, &statement, err));
    for (int i = 0; i < sqlite3_bind_parameter_count(statement); i++)
        sqlite3_bind_int64(statement, i + 1, (sqlite3_int64)numbers[i]);
    return add_rows(db, statement, add, self, err);
}

int db_read_text(Db *db, const char *sql, const char *text, DbAdd add, void *self, Err *err)
{
    CLEANUP(sqlite3_finalize_at) sqlite3_stmt *statement = NULL;

    TRY(prepare_sql(db, sql, &statement, err));
    sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
    return add_rows(db, statement, add, self, err);
}

/* Leaves out what is no incident: another program's row. */
static void add_incident(void *self, sqlite3_stmt *row)
{
    const char *json = text_at(row, 0);

    (void)incidents_read(json, strlen(json), self, NULL, NULL);
}

static void add_event(void *self, sqlite3_stmt *row)
{
    const char *json = text_at(row, 0);

    (void)events_read(json, strlen(json), self, NULL, NULL);
}

static void add_news(void *self, sqlite3_stmt *row)
{
    JournalKept *kept = self;

    vec_push(&kept->outbox,
             ((JournalNews){xstrdup(text_at(row, 0)), xstrdup(text_at(row, 1)), xstrdup(text_at(row, 2))}));
}

static void set_position(void *self, sqlite3_stmt *row)
{
    LogPosition *position = &((JournalKept *)self)->position;

    snprintf(position->boot_id, sizeof position->boot_id, "%s", text_at(row, 0));
    position->read = text_at(row, 1)[0] != '\0';
    position->next = position->read ? (uint64_t)(sqlite3_column_int64(row, 1) + 1) : 0;
    position->fabric_offset = (uint64_t)sqlite3_column_int64(row, 2);
    position->fabric_inode = (uint64_t)sqlite3_column_int64(row, 3);
}

static void add_window(void *self, sqlite3_stmt *row)
{
    JournalKept *kept = self;
    MaintenanceWindow *window = vec_add(&kept->windows);
    const char *uuids = text_at(row, 6);

    snprintf(window->id, sizeof window->id, "%s", text_at(row, 0));
    snprintf(window->reason, sizeof window->reason, "%s", text_at(row, 1));
    snprintf(window->who, sizeof window->who, "%s", text_at(row, 2));
    window->gpus = (uint64_t)sqlite3_column_int64(row, 3);
    window->from_real_ns = (uint64_t)sqlite3_column_int64(row, 4);
    window->until_real_ns = (uint64_t)sqlite3_column_int64(row, 5);
    for (size_t i = 0; i < ARRAY_LEN(window->uuids) && *uuids; i++) {
        const size_t len = strcspn(uuids, " ");

        snprintf(window->uuids[i], sizeof window->uuids[i], "%.*s", (int)len, uuids);
        uuids += len + (uuids[len] == ' ');
    }
}

/* A number that a device may not have. */
static uint32_t device_number_at(sqlite3_stmt *row, int column)
{
    const int64_t number = sqlite3_column_int64(row, column);

    return sqlite3_column_type(row, column) == SQLITE_INTEGER && number >= 0 && number < DEVICE_NO_NUMBER
               ? (uint32_t)number
               : DEVICE_NO_NUMBER;
}

static void add_count(void *self, sqlite3_stmt *row)
{
    JournalKept *kept = self;
    JournalCount *count = vec_add(&kept->counts);

    snprintf(count->key, sizeof count->key, "%s", text_at(row, 0));
    count->value = (uint64_t)sqlite3_column_int64(row, 1);
    count->real_ns = (uint64_t)sqlite3_column_int64(row, 2);
}

/* Skips GPUs without an address: those cannot be reported missing. */
static void add_gpu(void *self, sqlite3_stmt *row)
{
    JournalKept *kept = self;
    JournalGpu gpu = {.first_real_ns = (uint64_t)sqlite3_column_int64(row, 3),
                      .last_real_ns = (uint64_t)sqlite3_column_int64(row, 4),
                      .drained = sqlite3_column_int(row, 5) != 0,
                      .energy_mj = (uint64_t)sqlite3_column_int64(row, 7),
                      .idle_mw = (uint64_t)sqlite3_column_int64(row, 10),
                      .idle_held = sqlite3_column_int(row, 11) != 0};

    device_init(&gpu.device, DEVICE_GPU);
    snprintf(gpu.device.uuid, sizeof gpu.device.uuid, "%s", text_at(row, 0));
    snprintf(gpu.device.serial, sizeof gpu.device.serial, "%s", text_at(row, 1));
    snprintf(gpu.device.name, sizeof gpu.device.name, "%s", text_at(row, 2));
    snprintf(gpu.mig_layout, sizeof gpu.mig_layout, "%s", text_at(row, 12));
    snprintf(gpu.mig_changed, sizeof gpu.mig_changed, "%s", text_at(row, 13));
    snprintf(gpu.mig_change, sizeof gpu.mig_change, "%s", text_at(row, 14));
    gpu.device.index = device_number_at(row, 8);
    gpu.device.minor = device_number_at(row, 9);
    gpu.device.has_pci = pci_parse(text_at(row, 6), &gpu.device.pci) == 0;
    if (gpu.device.has_pci && gpu.device.uuid[0])
        vec_push(&kept->gpus, gpu);
}

int db_read_kept(Db *db, JournalKept *ret, Err *err)
{
    const uint64_t open_limit[] = {INCIDENTS_KEPT}, limit[] = {JOURNAL_KEPT};

    TRY(db_read_rows(db, "SELECT json FROM incidents WHERE state <> 'cleared' ORDER BY opened_ns, id LIMIT ?1",
                     open_limit, add_incident, &ret->incidents, err));
    TRY(db_read_rows(db, "SELECT json FROM incidents WHERE state = 'cleared' ORDER BY cleared_ns DESC LIMIT ?1", limit,
                     add_incident, &ret->incidents, err));
    TRY(db_read_rows(db, "SELECT id, reason, who, gpus, from_ns, until_ns, uuids FROM windows ORDER BY from_ns", NULL,
                     add_window, ret, err));
    TRY(db_read_rows(db,
                     "SELECT * FROM (SELECT uuid, serial, name, first_real_ns, last_real_ns, drained, pci, energy_mj,"
                     " gpu_index, minor, idle_mw, idle_held, mig_layout, mig_changed, mig_change FROM gpu_seen ORDER "
                     "BY last_real_ns DESC LIMIT ?1) ORDER BY pci",
                     limit, add_gpu, ret, err));
    TRY(db_read_rows(db, "SELECT key, value, changed_ns FROM counts ORDER BY changed_ns DESC LIMIT ?1",
                     (uint64_t[]){COUNTS_KEPT}, add_count, ret, err));
    TRY(db_read_rows(db, "SELECT receiver, key, text FROM outbox ORDER BY seq", NULL, add_news, ret, err));
    TRY(db_read_rows(db, "SELECT * FROM ledger_rows ORDER BY id DESC LIMIT ?1", (uint64_t[]){LEDGER_READ},
                     db_ledger_add_last, ret, err));
    TRY(db_read_rows(db, "SELECT gz FROM job_reports WHERE running ORDER BY last_ns DESC LIMIT ?1",
                     (uint64_t[]){JOBS_READ}, db_job_add_kept, ret, err));
    TRY(db_read_rows(db, "SELECT gz FROM job_reports WHERE NOT running ORDER BY last_ns DESC LIMIT ?1",
                     (uint64_t[]){JOBS_READ}, db_job_add_kept, ret, err));
    TRY(db_read_rows(db, db_bench_read, (uint64_t[]){JOURNAL_BENCH_RESTORED}, db_bench_add_kept, ret, err));
    return db_read_rows(
        db,
        "SELECT max(value) FILTER (WHERE key = 'boot_id'), max(value) FILTER (WHERE key = 'sequence'),"
        " max(value) FILTER (WHERE key = 'fabric_offset'), max(value) FILTER (WHERE key = 'fabric_inode')"
        " FROM meta",
        NULL, set_position, ret, err);
}

void journal_kept_done(JournalKept *kept)
{
    vec_done(&kept->incidents);
    vec_done(&kept->windows);
    vec_done(&kept->gpus);
    vec_done(&kept->counts);
    vec_done(&kept->ledger);
    for (size_t i = 0; i < kept->outbox.len; i++) {
        free(kept->outbox.at[i].receiver);
        free(kept->outbox.at[i].key);
        free(kept->outbox.at[i].text);
    }
    vec_done(&kept->outbox);
    for (size_t i = 0; i < kept->jobs.len; i++)
        free(kept->jobs.at[i]);
    vec_done(&kept->jobs);
    for (size_t i = 0; i < kept->bench.len; i++)
        free(kept->bench.at[i]);
    vec_done(&kept->bench);
}

/* --- pruning ------------------------------------------------------------------------------------------------------ */

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

int db_note_clock(Db *db, const DbClock *before, const DbClock *now, Err *err)
{
    char sql[DB_CLOCK_SQL];

    db_clock_note(sql, before, now);
    return run_transaction(db, sql, err);
}

static int find_limit(Db *db, uint64_t keep_ns, uint64_t *ret_real_ns, Err *err)
{
    char sql[DB_CLOCK_SQL];

    *ret_real_ns = 0;
    if (keep_ns == 0)
        return 0;
    db_clock_find(sql, keep_ns);
    return read_number(db, sql, ret_real_ns, err);
}

static int delete_older(Db *db, uint64_t before_real_ns, Err *err)
{
    const unsigned long long before = before_real_ns;
    char sql[512];

    if (before == 0)
        return 0;
    snprintf(sql, sizeof sql,
             "DELETE FROM incidents WHERE state = 'cleared' AND cleared_ns < %llu;"
             "DELETE FROM events WHERE real_ns < %llu;"
             "DELETE FROM gpu_seen WHERE last_real_ns < %llu;"
             "DELETE FROM counts WHERE changed_ns < %llu;"
             "DELETE FROM bundles WHERE incident NOT IN (SELECT id FROM incidents)",
             before, before, before, before);
    return run_transaction(db, sql, err);
}

/* By age. */
static int prune_older(Db *db, const JournalConfig *config, Err *err)
{
    char sql[DB_LEDGER_SQL];
    uint64_t before = 0, jobs_before = 0;

    TRY(find_limit(db, config->keep_ns, &before, err));
    TRY(find_limit(db, config->keep_jobs_ns, &jobs_before, err));
    TRY(delete_older(db, before, err));
    db_job_prune_older(sql, jobs_before);
    TRY(run_transaction(db, sql, err));
    db_bench_prune(sql);
    TRY(run_transaction(db, sql, err));
    if (config->keep_ledger_ns) {
        db_ledger_prune_older(sql, config->keep_ledger_ns);
        TRY(run_transaction(db, sql, err));
    }
    if (config->keep_ns == 0 && config->keep_jobs_ns == 0)
        return 0;
    db_clock_prune(sql, number_max_u64(config->keep_ns, config->keep_jobs_ns));
    return run_transaction(db, sql, err);
}

int db_prune(Db *db, const JournalConfig *config, uint64_t *ret_bytes, Err *err)
{
    char sql[DB_LEDGER_SQL];
    uint64_t bytes = 0;

    forget_names(db); /* those that no row has any more go */
    TRY(prune_older(db, config, err));
    if (config->max_bytes) {
        db_job_prune_oldest(sql, config->max_bytes);
        TRY(run_transaction(db, sql, err));
    }
    TRY(read_file_bytes(db, &bytes, err));
    db_ledger_prune_oldest(sql, config->max_bytes);
    for (int i = 0; config->max_bytes && bytes > config->max_bytes && i < PRUNE_ROUNDS; i++) {
        TRY(delete_oldest(db, err));
        TRY(run_transaction(db, sql, err));
        TRY(read_file_bytes(db, &bytes, err));
    }
    TRY(run_sql(db, "PRAGMA incremental_vacuum", err));
    return read_file_bytes(db, ret_bytes, err);
}

/* --- readers beside the agent ------------------------------------------------------------------------------------- */

int db_open_for_reading(const char *path, Db **ret, Err *err)
{
    if (access(path, R_OK) < 0) {
        const int rc = errno == ENOENT ? -ENOENT : -EACCES;

        (void)err_errno(err, "read the journal '%s'", path);
        return rc;
    }
    return db_open(path, true, ret, err);
}

int journal_read_incidents(const char *path, int state, uint64_t since_real_ns, IncidentList *ret, Err *err)
{
    const uint64_t numbers[] = {since_real_ns, JOURNAL_READ_MAX};
    CLEANUP(db_close_at) Db *db = NULL;
    char sql[256];

    TRY(db_open_for_reading(path, &db, err));
    snprintf(sql, sizeof sql,
             "SELECT json FROM incidents WHERE updated_ns >= ?1%s%s%s ORDER BY opened_ns DESC, id DESC LIMIT ?2",
             state < 0 ? "" : " AND state = '", state < 0 ? "" : incident_states[state].key, state < 0 ? "" : "'");
    return db_read_rows(db, sql, numbers, add_incident, ret, err);
}

int journal_read_events(const char *path, uint64_t since_real_ns, EventSeenList *ret, Err *err)
{
    const uint64_t numbers[] = {since_real_ns, JOURNAL_READ_MAX};
    CLEANUP(db_close_at) Db *db = NULL;

    TRY(db_open_for_reading(path, &db, err));
    return db_read_rows(db,
                        "SELECT json FROM (SELECT seq, json FROM events WHERE real_ns >= ?1 ORDER BY seq DESC LIMIT ?2)"
                        " ORDER BY seq",
                        numbers, add_event, ret, err);
}

int journal_read_bundle(const char *path, const char *incident_id, Str *out, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;
    CLEANUP(sqlite3_finalize_at) sqlite3_stmt *statement = NULL;

    TRY(db_open_for_reading(path, &db, err));
    TRY(prepare_sql(db, "SELECT gz FROM bundles WHERE incident = ?1", &statement, err));
    sqlite3_bind_text(statement, 1, incident_id, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    if (rc == SQLITE_DONE)
        return err_set(err, -ENOENT, "the journal has no bundle of incident %s", incident_id);
    if (rc != SQLITE_ROW)
        return fail_sql(db, rc, err);
    return gzip_unpack(sqlite3_column_blob(statement, 0), (size_t)sqlite3_column_bytes(statement, 0), out, err);
}
