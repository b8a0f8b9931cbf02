/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal: what must survive the process, in one SQLite file (WAL, STRICT tables): incidents at every change and
 * events, as the API's JSON, bundles of evidence, maintenance windows, positions in logs, GPUs that were present,
 * counters that go on, notifications that are not delivered yet, the ledger and job reports. A thread of its own
 * writes; the loop only queues, so a slow or dead disk blocks nothing.
 *
 * Each put is acknowledged by a callback once it is on disk (committed, synchronous=FULL), or once the journal gave up
 * for now: then it continues in memory (state and reason are reported), keeps at most JOURNAL_BACKLOG changes and
 * catches up when the disk is back. A damaged file is set aside (".damaged-<time>") and begun anew; an older schema is
 * migrated in one transaction; a newer one is left alone and the journal stays in memory.
 *
 * One process has the file at a time (a lock beside it). Verbs may read it while the agent writes (journal_read_*).
 */

#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/health/maintenance.h"
#include "engine/ledger/ledger.h"
#include "model/device.h"
#include "model/facts.h"
#include "model/node.h"
#include "service/incident/incident.h"

enum {
    JOURNAL_SCHEMA = 11,
    JOURNAL_BACKLOG = 8192,
    JOURNAL_KEPT = 256,
    JOURNAL_READ_MAX = 10000,
    JOURNAL_BENCH_KEPT = 256,    /* runs of active tests in the file */
    JOURNAL_BENCH_RESTORED = 16, /* of them in JournalKept */
    JOURNAL_KEY_CAP = 192
};

typedef enum JournalHealth {
    JOURNAL_OFF,    /* configured off */
    JOURNAL_FINE,   /* every change is on disk, or on its way in time */
    JOURNAL_MEMORY, /* the disk refuses or does not answer: see why */
} JournalHealth;

typedef struct JournalConfig {
    const char *path;        /* "" none: everything is acknowledged at once */
    uint64_t keep_ns;        /* cleared incidents, events, bundles and GPUs older than this are deleted; 0: none */
    uint64_t keep_ledger_ns; /* the same of the ledger's rows */
    uint64_t keep_jobs_ns;   /* the same of job reports, which have a quarter of the file at most */
    uint64_t max_bytes;      /* of the file: the oldest cleared are deleted first; 0: no limit */
    uint64_t patience_ns;    /* how long an acknowledgement may wait for the disk; real time */
} JournalConfig;

typedef struct Journal Journal;
/* Everything put up to this ticket is on disk, or cannot be for now. */
typedef void (*JournalAcked)(void *self, uint64_t ticket);

/* Opens or makes the file, sets a damaged one aside, and reads what it holds: waits for that for patience_ns at most. A
 * file that cannot be opened is no error but a state. -EBUSY if another process has it. */
int journal_open(uv_loop_t *loop, const JournalConfig *config, JournalAcked acked, void *self, Journal **ret, Err *err);
/* Writes what is queued (at most for patience_ns) and closes; accepts NULL. */
void journal_close(Journal *journal);

/* A GPU that was present: its address, UUID (its identity), serial number, name, index and minor number. */
typedef struct JournalGpu {
    Device device;
    uint64_t first_real_ns, last_real_ns; /* when it was seen, to about an hour */
    bool drained;                         /* by an operator, at the last sight */
    uint64_t energy_mj;               /* its energy counter at last_real_ns, which a reset begins anew; 0: not known */
    uint64_t idle_mw;                 /* what it takes while nothing runs on it; 0: not known */
    bool idle_held;                   /* as was measured while it was held */
    char mig_layout[MIG_LAYOUT_CAP];  /* the last one that was known; "" none */
    char mig_changed[CLOCK_TEXT_MAX]; /* when that was changed, RFC 3339, and the text of the event; "" not known */
    char mig_change[NODE_CHANGE_CAP];
} JournalGpu;

/* A counter, which a restart does not end. */
typedef struct JournalCount {
    char key[JOURNAL_KEY_CAP];
    uint64_t value;
    uint64_t real_ns; /* when it was put last */
} JournalCount;

typedef VEC(JournalCount) JournalCounts;

/* A notification on its way. */
typedef struct JournalNews {
    char *receiver, *key, *text;
} JournalNews;

/* What the file held when it was opened; freed with journal_kept_done. */
typedef struct JournalKept {
    IncidentList incidents; /* open ones, and the JOURNAL_KEPT that were cleared last */
    VEC(MaintenanceWindow) windows;
    VEC(JournalGpu) gpus; /* by address; at most JOURNAL_KEPT, the last seen */
    JournalCounts counts;
    VEC(JournalNews) outbox; /* in the order in which they were put */
    LogPosition position;
    LedgerRows ledger;  /* of each GPU the row that ends last */
    uint64_t ledger_id; /* the largest of its rows; 0: there are none */
    VEC(char *) jobs;   /* JSON of reports: those that ran, then those that ended last */
    VEC(char *) bench;  /* JSON of active tests, the last first */
} JournalKept;
/* Hands it over, once. Fails where the file could not be opened or read in time: *ret is empty then. */
int journal_kept(Journal *journal, JournalKept *ret, Err *err);
void journal_kept_done(JournalKept *kept);

/* Put: copied and queued; returns a ticket (> 0), acknowledged in order, or 0: it is not kept, as the backlog is full.
 * What is put later about the same incident, window, GPU, counter, position or notification replaces what is still
 * queued. */
uint64_t journal_put_incident(Journal *journal, const Incident *incident);
/* `incident_id`: "" none; `node`: for its GPU's index. */
uint64_t journal_put_event(Journal *journal, const Event *event, const char *incident_id, const Node *node);
uint64_t journal_put_bundle(Journal *journal, const char *incident_id, const char *json, size_t len); /* packed here */
uint64_t journal_put_window(Journal *journal, const MaintenanceWindow *window, bool ended);
uint64_t journal_put_position(Journal *journal, const LogPosition *position);
/* `gpu` needs its UUID; a `forgotten` one is deleted. */
uint64_t journal_put_gpu(Journal *journal, const JournalGpu *gpu, bool forgotten);
/* A counter's value as of this instant of the wall clock, after which one that no longer counts is deleted in the end.
 * It shares the commit of the event that it counts. */
uint64_t journal_put_count(Journal *journal, const char *key, uint64_t value, uint64_t real_ns);
/* Notifications on their way: a text per (receiver, key); an empty text removes it. */
uint64_t journal_put_outbox(Journal *journal, const char *receiver, const char *key, const char *text, size_t len);
/* A row of the ledger, new or grown. After a 0 put it again. */
uint64_t journal_put_ledger(Journal *journal, const LedgerRow *row);

/* A job report as JSON, which this file does not read. */
typedef struct JournalJob {
    const char *id, *name; /* name: for those who ask for it */
    bool running;
    uint64_t last_real_ns;
    const char *json;
    size_t len;
} JournalJob;
uint64_t journal_put_job(Journal *journal, const JournalJob *job); /* packed here */

/* A run of active tests as JSON, which this file does not read. */
uint64_t journal_put_bench(Journal *journal, uint64_t real_ns, const char *rung, const char *json, size_t len);

typedef struct JournalState {
    JournalHealth health;
    char why[192];            /* of MEMORY, and of a file that was set aside */
    int error;                /* of the last failure, -ENOSPC where the disk is full */
    char set_aside[256];      /* where a damaged file lies, "" none */
    uint64_t queued, dropped; /* waiting; given up as the backlog was full */
    uint64_t on_disk;         /* all tickets up to this one */
    uint64_t written, commits, failures;
    uint64_t file_bytes;
    uint64_t last_commit_ns; /* how long it took */
} JournalState;
void journal_state(const Journal *journal, JournalState *ret);

/* Read from the file, read-only, in the calling thread: for verbs, whether or not an agent writes meanwhile. -ENOENT
 * for no such file or bundle; lists get at most JOURNAL_READ_MAX more. */
/* Incidents in `state` (-1: any) that changed since, the last opened first. */
int journal_read_incidents(const char *path, int state, uint64_t since_real_ns, IncidentList *ret, Err *err);
/* The last events since, in the order in which they came. */
int journal_read_events(const char *path, uint64_t since_real_ns, EventSeenList *ret, Err *err);
/* Appends the bundle's JSON to `out`. */
int journal_read_bundle(const char *path, const char *incident_id, Str *out, Err *err);

typedef void (*JournalLedgerAdd)(void *self, const LedgerRow *row);
/* Calls `add` for the rows of the ledger that overlap [from, to) of the wall clock and have an id from `from_id` on, by
 * id, at most `limit` (0: all). Rows of the same owner, device, kind of share, quality and price are one where `merge`:
 * then each row is cut to [from, to) by the share of its time; its peaks are not. */
typedef struct JournalLedgerQuery {
    uint64_t from_real_ns, to_real_ns, from_id, limit;
    bool merge;
} JournalLedgerQuery;
int journal_read_ledger(const char *path, const JournalLedgerQuery *query, JournalLedgerAdd add, void *self, Err *err);

typedef void (*JournalJobAdd)(void *self, const char *json, size_t len);
/* Calls `add` for the job reports since, at most `limit`: those that run, then the last that ended. */
int journal_read_jobs(const char *path, uint64_t since_real_ns, uint64_t limit, JournalJobAdd add, void *self,
                      Err *err);
/* The last one with this id, number, pod (with its namespace or without) or container; none calls nothing. */
int journal_read_job(const char *path, const char *name, JournalJobAdd add, void *self, Err *err);
