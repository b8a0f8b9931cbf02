/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the file, and taking away what is old. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "service/journal/db_inside.h"

enum { LIMIT_MAX = 10000, SQL_MAX = 4096, BUNDLE_MAX = 16 << 20, PRUNE_SHARE = 10, PRUNE_TURNS = 20 };

static int fail_step(Db *db, int rc, Err *err)
{
    return rc == SQLITE_DONE ? 0 : db_fail(db, rc, err, "the journal");
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

/* Rows of "SELECT <columns> FROM incidents <rest>". */
static int read_incidents(Db *db, const char *rest, const JournalQuery *query, DbIncidents *ret, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT ");
    row_names(&table_incidents, &sql);
    str_addf(&sql, ", pci, evidence FROM incidents %s", rest);
    TRY(db_prepare(db, sql.text, &statement, err));
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
static const char asked[] = "WHERE (?1 IS NULL OR substr(device, 1, length(?1)) = ?1) AND (?2 IS NULL OR class = ?2)"
                            " AND (?3 IS NULL OR state = ?3) AND updated_ns BETWEEN ?4 AND ?5"
                            " ORDER BY opened_ns DESC, id DESC LIMIT ?6";

int db_ask_incidents(Db *db, const JournalQuery *query, DbIncidents *ret, Err *err)
{
    return read_incidents(db, asked, query, ret, err);
}

int db_ask_events(Db *db, const JournalQuery *query, DbEvents *ret, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT ");
    row_names(&table_events, &sql);
    str_add(&sql, ", pci, incident FROM events WHERE real_ns BETWEEN ?1 AND ?2 ORDER BY seq DESC LIMIT ?3");
    TRY(db_prepare(db, sql.text, &statement, err));
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

int db_ask_bundle(Db *db, const char *incident_id, Str *ret, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;

    TRY(db_prepare(db, "SELECT gz FROM bundles WHERE incident = ?1", &statement, err));
    sqlite3_bind_text(statement, 1, incident_id, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    if (rc == SQLITE_DONE)
        return err_set(err, -ENOENT, "the journal has no bundle of incident %s", incident_id);
    if (rc != SQLITE_ROW)
        return db_fail(db, rc, err, "the journal");
    return gzip_unpack(sqlite3_column_blob(statement, 0), (size_t)sqlite3_column_bytes(statement, 0), ret, err);
}

int db_each_outbox(Db *db, void (*fn)(void *self, const char *receiver, const char *key, const char *text, size_t len),
                   void *self, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;
    int rc;

    TRY(db_prepare(db, "SELECT receiver, key, text FROM outbox ORDER BY seq", &statement, err));
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
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;
    int rc;

    TRY(db_prepare(db, "SELECT key, value FROM meta", &statement, err));
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
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT ");
    row_names(&table_windows, &sql);
    str_add(&sql, ", uuids FROM windows ORDER BY from_ns");
    TRY(db_prepare(db, sql.text, &statement, err));
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

/* What has no address cannot be missed. */
static int read_gpus(Db *db, JournalKept *kept, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;
    CLEANUP(str_done) Str sql = {0};
    int rc;

    str_init(&sql, SQL_MAX);
    str_add(&sql, "SELECT * FROM (SELECT ");
    row_names(&table_gpus, &sql);
    str_addf(&sql, ", pci FROM gpu_seen ORDER BY last_real_ns DESC LIMIT %d) ORDER BY pci", JOURNAL_KEPT);
    TRY(db_prepare(db, sql.text, &statement, err));
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

/* --- taking away -------------------------------------------------------------------------------------------------- */

static int number_of(Db *db, const char *sql, uint64_t *ret, Err *err)
{
    CLEANUP(db_statement_done) sqlite3_stmt *statement = NULL;

    TRY(db_prepare(db, sql, &statement, err));
    const int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW)
        return db_fail(db, rc, err, "the journal");
    *ret = (uint64_t)sqlite3_column_int64(statement, 0);
    return 0;
}

int db_count(Db *db, const char *table, uint64_t *ret, Err *err)
{
    char sql[64];

    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    return number_of(db, sql, ret, err);
}

static int bytes_of(Db *db, uint64_t *ret, Err *err)
{
    uint64_t pages = 0, unused = 0, size = 0;

    TRY(number_of(db, "PRAGMA page_count", &pages, err));
    TRY(number_of(db, "PRAGMA freelist_count", &unused, err));
    TRY(number_of(db, "PRAGMA page_size", &size, err));
    *ret = (pages - unused) * size;
    return 0;
}

/* What is over and among the oldest, with what belongs to it. */
static int take_oldest(Db *db, Err *err)
{
    char sql[512];

    snprintf(sql, sizeof sql,
             "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE state = 'cleared' ORDER BY cleared_ns"
             " LIMIT 1 + (SELECT count(*) FROM incidents) / %d);"
             "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT 1 + (SELECT count(*) FROM"
             " events) / %d);"
             "DELETE FROM bundles WHERE incident NOT IN (SELECT id FROM incidents)",
             PRUNE_SHARE, PRUNE_SHARE);
    return db_transact(db, sql, err);
}

static int take_older(Db *db, uint64_t newest_ns, uint64_t keep_ns, Err *err)
{
    uint64_t newest = 0;
    char sql[512];

    TRY(number_of(db,
                  "SELECT max((SELECT ifnull(max(updated_ns), 0) FROM incidents),"
                  " (SELECT ifnull(max(real_ns), 0) FROM events))",
                  &newest, err));
    newest = newest > newest_ns ? newest : newest_ns;
    if (newest <= keep_ns)
        return 0;
    const unsigned long long before = newest - keep_ns;
    snprintf(sql, sizeof sql,
             "DELETE FROM incidents WHERE state = 'cleared' AND cleared_ns < %llu;"
             "DELETE FROM events WHERE real_ns < %llu;"
             "DELETE FROM gpu_seen WHERE last_real_ns < %llu;"
             "DELETE FROM bundles WHERE incident NOT IN (SELECT id FROM incidents)",
             before, before, before);
    return db_transact(db, sql, err);
}

int db_prune(Db *db, uint64_t newest_ns, uint64_t keep_ns, uint64_t max_bytes, uint64_t *ret_bytes, Err *err)
{
    uint64_t bytes = 0;

    if (keep_ns)
        TRY(take_older(db, newest_ns, keep_ns, err));
    TRY(bytes_of(db, &bytes, err));
    for (int i = 0; max_bytes && bytes > max_bytes && i < PRUNE_TURNS; i++) {
        TRY(take_oldest(db, err));
        TRY(bytes_of(db, &bytes, err));
    }
    TRY(db_run(db, "PRAGMA incremental_vacuum", err));
    return bytes_of(db, ret_bytes, err);
}
