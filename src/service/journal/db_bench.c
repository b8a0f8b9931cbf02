/* SPDX-License-Identifier: Apache-2.0 */
/* Results of active tests in the journal: the JSON of each run, packed. */
#include <sqlite3.h>
#include <stdio.h>

#include "base/alloc.h"
#include "service/journal/db.h"

const char db_bench_table[] = "CREATE TABLE bench_runs(real_ns INTEGER PRIMARY KEY, rung TEXT, gz BLOB) STRICT;";

const char db_bench_put[] = "INSERT OR REPLACE INTO bench_runs(real_ns, rung, gz) VALUES(?1, ?2, CAST(?3 AS BLOB))";

/* What a test found is in force until it is run again: of each the last is read, however old. */
const char db_bench_read[] =
    "SELECT gz FROM bench_runs WHERE real_ns IN (SELECT real_ns FROM bench_runs ORDER BY real_ns DESC LIMIT ?1) OR "
    "real_ns IN (SELECT max(real_ns) FROM bench_runs GROUP BY rung) ORDER BY real_ns DESC";

void db_bench_prune(char sql[DB_LEDGER_SQL])
{
    snprintf(sql, DB_LEDGER_SQL,
             "DELETE FROM bench_runs WHERE real_ns NOT IN (SELECT real_ns FROM bench_runs ORDER BY real_ns DESC LIMIT "
             "%d)",
             JOURNAL_BENCH_KEPT);
}

void db_bench_add_kept(void *self, sqlite3_stmt *row)
{
    Str json = str_limited(DB_BENCH_MAX);
    JournalKept *kept = self;

    if (db_job_unpack(row, &json))
        vec_push(&kept->bench, xmemdup0(json.text, json.len));
    str_done(&json);
}
