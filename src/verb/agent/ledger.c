/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's account: each tick goes to the ledger, whose rows go to the journal. And /api/v1/ledger, which reads them
 * from there: in a thread, as a disk may hang, looked after at each tick. */
#include "verb/agent/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "base/worker.h"
#include "service/cost/cost.h"

enum { PULLS_MAX = 8, PULL_ROWS = 1000, PULL_BYTES = 4 << 20 };

/* A client that waits for rows. */
typedef struct Pull {
    HttpStream *stream;
    uint64_t since;
} Pull;

/* What the thread does. */
typedef struct PullJob {
    char *path;
    uint64_t since, below, last;
    size_t count;
    Str out;
    Err err;
    int rc;
} PullJob;

struct LedgerPulls {
    Worker *worker;
    PullJob *job; /* the worker's while it is busy */
    bool running;
    HttpStream *served; /* NULL: its client went */
    VEC(Pull) waiting;
};

/* The boot whose clock the agent's is; "" for a clock of a test, which begins anew with each agent. */
static const char *find_boot_id(const Agent *agent)
{
    return agent->started->o.clock_speed == 1 ? host_facts(agent->triage.host)->boot_id : "";
}

void agent_open_ledger(Agent *agent)
{
    Triage *triage = &agent->triage;
    /* by the clock too: where the journal could not be read, its rows must not be overwritten */
    const uint64_t next_id = number_max_u64(triage->ledger_id + 1, agent->start_real_ns / NS_PER_MS);

    agent->ledger = ledger_new(&triage->ledger, find_boot_id(agent), next_id);
    vec_done(&triage->ledger);
    for (size_t i = 0; i < triage->remembered.gpus.len; i++) {
        const JournalGpu *gpu = &triage->remembered.gpus.at[i].row;

        ledger_set_idle(agent->ledger, gpu->device.uuid, (LedgerIdle){(double)gpu->idle_mw, gpu->idle_held});
    }
}

static bool put_row(void *self, const LedgerRow *row)
{
    Agent *agent = self;
    const uint64_t ticket = journal_put_ledger(agent->triage.journal, row);

    if (ticket)
        agent->ledger_closed.last_put = ticket;
    return ticket != 0;
}

/* A row that was closed may still wait for the disk. */
static void note_closed(Agent *agent)
{
    LedgerClosed *closed = &agent->ledger_closed;
    JournalState state;

    journal_state(agent->triage.journal, &state);
    if (state.on_disk < closed->next_put)
        return;
    closed->below = closed->next;
    closed->next = ledger_closed_id(agent->ledger);
    closed->next_put = closed->last_put;
}

/* --- rows for others ---------------------------------------------------------------------------------------------- */

static void add_row(void *self, const LedgerRow *row)
{
    PullJob *job = self;

    if (row->id >= job->below) /* it may still grow, or is not written yet; so are those behind it */
        return;
    cost_row_json(row, &job->out);
    job->last = row->id;
    job->count++;
}

static void run_pull(void *self)
{
    PullJob *job = self;
    const JournalLedgerQuery query = {.to_real_ns = UINT64_MAX, .from_id = job->since, .limit = PULL_ROWS};

    str_clear(&job->out);
    json_open(&job->out, NULL, '{');
    json_open(&job->out, "rows", '[');
    job->count = 0;
    job->rc = journal_read_ledger(job->path, &query, add_row, job, &job->err);
    json_close(&job->out, ']');
    json_add_u64(&job->out, "next", job->count > 0 ? job->last + 1 : job->since);
    str_add(&job->out, "}\n");
    if (job->rc == 0 && !job->out.overflow)
        return;
    str_clear(&job->out);
    json_open(&job->out, NULL, '{');
    json_add_text(&job->out, "error", job->rc < 0 ? job->err.text : "too large");
    str_add(&job->out, "}\n");
}

static void free_job(void *self)
{
    PullJob *job = self;

    str_done(&job->out);
    free(job->path);
    free(job);
}

static void finish_pull(LedgerPulls *pulls)
{
    PullJob *job = pulls->job;
    const size_t len = job->out.len;

    pulls->running = false;
    if (!pulls->served)
        return;
    HttpBody *body = http_body_new(str_take(&job->out), len);
    str_init(&job->out, PULL_BYTES);
    http_stream_send(pulls->served, body);
    http_stream_close(pulls->served);
    http_body_unref(body);
    pulls->served = NULL;
}

/* Sends what was read, and begins the next reading. */
static void serve_pulls(Agent *agent)
{
    LedgerPulls *pulls = agent->pulls;

    if (!pulls || (pulls->running && worker_is_busy(pulls->worker)))
        return;
    if (pulls->running)
        finish_pull(pulls);
    if (pulls->waiting.len == 0)
        return;
    pulls->served = pulls->waiting.at[0].stream;
    pulls->job->since = pulls->waiting.at[0].since;
    pulls->job->below = agent->ledger_closed.below;
    vec_remove(&pulls->waiting, 0);
    pulls->running = true;
    worker_start(pulls->worker);
}

static void stream_gone(void *self, HttpStream *stream)
{
    LedgerPulls *pulls = ((Agent *)self)->pulls;

    if (pulls->served == stream)
        pulls->served = NULL;
    for (size_t i = pulls->waiting.len; i-- > 0;)
        if (pulls->waiting.at[i].stream == stream)
            vec_remove(&pulls->waiting, i);
}

static int make_pulls(Agent *agent, Err *err)
{
    const char *path = agent_journal_path(agent->started);
    PullJob *job;

    if (!path[0])
        return err_set(err, -ENOENT, "the agent keeps no journal, and so no ledger");
    if (agent->pulls)
        return 0;
    job = xcalloc(1, sizeof *job);
    job->path = xstrdup(path);
    str_init(&job->out, PULL_BYTES);
    agent->pulls = xcalloc(1, sizeof *agent->pulls);
    agent->pulls->job = job;
    const int rc = worker_new(run_pull, free_job, job, &agent->pulls->worker, err);
    if (rc < 0)
        free(TAKE(agent->pulls));
    return rc;
}

int agent_pull_ledger(Agent *agent, HttpRequest *request, uint64_t since, Err *err)
{
    TRY(make_pulls(agent, err));
    if (agent->pulls->waiting.len == PULLS_MAX)
        return err_set(err, -EBUSY, "as many readers of the ledger as there may be are waiting");
    HttpStream *stream = http_stream(request, "application/json", NULL, 1, stream_gone, agent);
    if (stream)
        vec_push(&agent->pulls->waiting, ((Pull){stream, since}));
    return 0;
}

void agent_close_ledger(Agent *agent)
{
    if (agent->pulls) {
        worker_free(agent->pulls->worker);
        vec_done(&agent->pulls->waiting);
        free(TAKE(agent->pulls));
    }
    ledger_free(TAKE(agent->ledger));
}

static void keep_idle(Agent *agent, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const char *uuid = node->gpus[i].reading.device.uuid;
        const LedgerIdle idle = ledger_idle(agent->ledger, uuid);

        remembered_set_idle(&agent->triage.remembered, uuid, (uint64_t)(idle.mw + 0.5), idle.held);
    }
}

void agent_tick_ledger(Agent *agent, const Snapshot *snapshot)
{
    ledger_update(agent->ledger, snapshot->node, snapshot->holdings, snapshot->holding_count, put_row, agent);
    keep_idle(agent, snapshot->node);
    note_closed(agent);
    serve_pulls(agent);
}
