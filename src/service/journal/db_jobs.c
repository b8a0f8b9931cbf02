/* SPDX-License-Identifier: Apache-2.0 */
/* Job reports in the journal: the JSON of each, packed, under the name by which people ask for it. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/gzip.h"
#include "service/journal/db.h"

enum { SHARE_OF_FILE = 4 };

const char db_job_tables[] =
    "CREATE TABLE job_reports(id TEXT PRIMARY KEY, name TEXT, running INTEGER, last_ns INTEGER, gz BLOB) STRICT;"
    "CREATE INDEX job_reports_last ON job_reports(last_ns);";

const char db_job_put[] = "INSERT OR REPLACE INTO job_reports(id, name, running, last_ns, gz)"
                          " VALUES(?1, ?2, ?3, ?4, CAST(?5 AS BLOB))";

bool db_job_unpack(sqlite3_stmt *row, Str *json)
{
    str_clear(json);
    return gzip_unpack(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0), json, NULL) == 0 &&
           json->len > 0;
}

void db_job_add_kept(void *self, sqlite3_stmt *row)
{
    Str json = str_limited(DB_JOB_MAX);
    JournalKept *kept = self;

    if (db_job_unpack(row, &json))
        vec_push(&kept->jobs, xmemdup0(json.text, json.len));
    str_done(&json);
}

void db_job_prune_older(char sql[DB_LEDGER_SQL], uint64_t before_real_ns)
{
    snprintf(sql, DB_LEDGER_SQL, "DELETE FROM job_reports WHERE running = 0 AND last_ns < %" PRIu64, before_real_ns);
}

void db_job_prune_oldest(char sql[DB_LEDGER_SQL], uint64_t max_bytes)
{
    snprintf(sql, DB_LEDGER_SQL,
             "DELETE FROM job_reports WHERE running = 0 AND id IN (SELECT id FROM (SELECT id, sum(length(gz)) OVER"
             " (ORDER BY last_ns DESC, id) AS total FROM job_reports) WHERE total > %" PRIu64 ")",
             max_bytes / SHARE_OF_FILE);
}
