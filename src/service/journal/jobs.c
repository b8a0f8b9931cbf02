/* SPDX-License-Identifier: Apache-2.0 */
/* Putting job reports, and reading them beside the agent. */
#include <errno.h>
#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/gzip.h"
#include "base/number.h"
#include "service/journal/db.h"

CLEANUP_POINTER(Db, db_close);

DbChange db_job_change(const JournalJob *job)
{
    CLEANUP(str_done) Str gz = {0};

    str_init(&gz, DB_JOB_MAX);
    if (gzip_pack(job->json, job->len, &gz, NULL) < 0)
        str_clear(&gz); /* larger than any that we make */
    return (DbChange){DB_PUT_JOB,
                      {db_text(job->id), db_text(job->name), db_number(job->running), db_number(job->last_real_ns),
                       db_bytes(gz.text ? gz.text : "", gz.len)}};
}

/* Calls back with the JSON of a row; one that cannot be unpacked is left out. */
typedef struct Reader {
    JournalJobAdd add;
    void *self;
    Str json;
} Reader;

static void give_row(void *self, sqlite3_stmt *row)
{
    Reader *r = self;

    if (db_job_unpack(row, &r->json))
        r->add(r->self, r->json.text ? r->json.text : "", r->json.len);
}

static void note_table(void *self, sqlite3_stmt *row UNUSED)
{
    *(bool *)self = true;
}

static int open_jobs(const char *path, Db **ret, Err *err)
{
    bool found = false;

    TRY(db_open_for_reading(path, ret, err));
    TRY(db_read_rows(*ret, "SELECT 1 FROM sqlite_master WHERE name = 'job_reports'", NULL, note_table, &found, err));
    return found
               ? 0
               : err_set(err, -ENODATA,
                         "no job reports in it; an agent that is started with a journal of an older Stoker adds them");
}

int journal_read_jobs(const char *path, uint64_t since_real_ns, uint64_t limit, JournalJobAdd add, void *self, Err *err)
{
    const uint64_t numbers[] = {since_real_ns, number_min_u64(limit, JOURNAL_READ_MAX)};
    CLEANUP(db_close_at) Db *db = NULL;

    TRY(open_jobs(path, &db, err));
    Reader r = {.add = add, .self = self, .json = str_limited(DB_JOB_MAX)};
    const int rc = db_read_rows(
        db, "SELECT gz FROM job_reports WHERE last_ns >= ?1 ORDER BY running DESC, last_ns DESC, id LIMIT ?2", numbers,
        give_row, &r, err);
    str_done(&r.json);
    return rc;
}

int journal_read_job(const char *path, const char *name, JournalJobAdd add, void *self, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;

    TRY(open_jobs(path, &db, err));
    Reader r = {.add = add, .self = self, .json = str_limited(DB_JOB_MAX)};
    const int rc = db_read_text(db,
                                "SELECT gz FROM job_reports WHERE id = ?1 OR name = ?1 OR (length(?1) > 12 AND name ="
                                " substr(?1, 1, 12)) OR substr(name, -length(?1) - 1) IN ('/' || ?1, ' ' || ?1)"
                                " OR substr(name, 1, length(?1) + 1) = ?1 || ' '"
                                " ORDER BY id = ?1 DESC, last_ns DESC LIMIT 1",
                                name, give_row, &r, err);
    str_done(&r.json);
    return rc;
}
