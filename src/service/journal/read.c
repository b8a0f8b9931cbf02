/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's file for those who only read it. */
#include <errno.h>
#include <unistd.h>

#include "base/owner.h"
#include "service/journal/db.h"

OWNER_POINTER(Db, db_close);

static int open_file(const char *path, Db **ret, Err *err)
{
    if (access(path, R_OK) < 0)
        return err_errno(err, "read the journal '%s'", path);
    return db_open(path, true, ret, err);
}

int journal_read_incidents(const char *path, const JournalQuery *query, JournalIncidents answer, void *self, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;
    DbIncidents incidents = {0};

    TRY(open_file(path, &db, err));
    const int rc = db_ask_incidents(db, query, &incidents, err);
    if (rc == 0)
        answer(self, incidents.at, incidents.len);
    vec_done(&incidents);
    return rc;
}

int journal_read_events(const char *path, const JournalQuery *query, JournalEvent each, void *self, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;
    DbEvents events = {0};

    TRY(open_file(path, &db, err));
    const int rc = db_ask_events(db, query, &events, err);
    for (size_t i = 0; rc == 0 && i < events.len; i++)
        each(self, &events.at[i].event, events.at[i].incident);
    vec_done(&events);
    return rc;
}

int journal_read_bundle(const char *path, const char *incident_id, Str *out, Err *err)
{
    CLEANUP(db_close_at) Db *db = NULL;

    TRY(open_file(path, &db, err));
    return db_ask_bundle(db, incident_id, out, err);
}
