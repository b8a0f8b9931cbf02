/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's job reports: each tick goes to those that run, which go to the journal now and then and when they end.
 * The last that ended are kept here, packed, for /api/v1/jobs; the journal has all. */
#include "verb/agent/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/gzip.h"
#include "service/jobs/job_report.h"
#include "verb/verb.h"

enum { ENDED_MAX = 32, JSON_MAX = 1 << 20 };

/* One that ended. */
typedef struct Ended {
    Str gz;
} Ended;

struct JobRoom {
    Jobs *open;
    VEC(Ended) ended;   /* the oldest first */
    uint64_t lost_told; /* works that had no room, as logged last */
};

static void keep_ended(JobRoom *room, const char *json, size_t len)
{
    Ended one = {.gz = str_limited(JSON_MAX)};

    if (gzip_pack(json, len, &one.gz, NULL) < 0) {
        str_done(&one.gz);
        return;
    }
    if (room->ended.len == ENDED_MAX) {
        str_done(&room->ended.at[0].gz);
        vec_remove(&room->ended, 0);
    }
    vec_push(&room->ended, one);
}

static void restore_one(Agent *agent, const char *json)
{
    JobReports read = {0};
    Err err;

    if (jobs_read(json, strlen(json), &read, &err) < 0)
        log_write(&agent->log, LOG_LEVEL_WARN, "a job report in the journal is left out: %s", err.text);
    for (size_t i = 0; i < read.len; i++) {
        if (read.at[i].ending == JOB_RUNS)
            jobs_restore(agent->jobs_room->open, &read.at[i]);
        else
            keep_ended(agent->jobs_room, json, strlen(json));
    }
    job_reports_done(&read);
}

void agent_open_jobs(Agent *agent)
{
    Triage *triage = &agent->triage;

    agent->jobs_room = xcalloc(1, sizeof *agent->jobs_room);
    agent->jobs_room->open = jobs_new();
    for (size_t i = triage->jobs.len; i-- > 0;) { /* the newest last */
        restore_one(agent, triage->jobs.at[i]);
        free(triage->jobs.at[i]);
    }
    vec_done(&triage->jobs);
}

static void put_report(void *self, const JobReport *report)
{
    CLEANUP(str_done) Str json = str_limited(JSON_MAX), name = str_limited(512);
    Agent *agent = self;

    job_json(report, &json);
    job_add_name(report, &name);
    if (report->info.array[0])
        str_addf(&name, " %s", report->owner.job); /* by either */
    if (json.overflow)
        return;
    if (report->ending != JOB_RUNS && agent->triage.alerts)
        alerts_report(agent->triage.alerts, report->id, board_reader_node(agent->sampling.reader)->real_ns, json.text,
                      json.len);
    journal_put_job(agent->triage.journal, &(JournalJob){.id = report->id,
                                                         .name = name.text ? name.text : "",
                                                         .running = report->ending == JOB_RUNS,
                                                         .last_real_ns = report->last_real_ns,
                                                         .json = json.text,
                                                         .len = json.len});
    if (report->ending != JOB_RUNS)
        keep_ended(agent->jobs_room, json.text, json.len);
}

void agent_tick_jobs(Agent *agent, const Snapshot *snapshot)
{
    JobRoom *room = agent->jobs_room;

    jobs_update(room->open, snapshot, ledger_charges(agent->ledger), agent->config->prices, put_report, agent);
    const uint64_t lost = jobs_lost(room->open);
    if (lost <= 2 * room->lost_told) /* each time that they are twice as many */
        return;
    log_write(&agent->log, LOG_LEVEL_WARN,
              "%" PRIu64 " jobs, pods or containers have no report since the start: %d others held GPUs", lost,
              JOBS_OPEN_MAX);
    room->lost_told = lost;
}

void agent_stop_jobs(Agent *agent)
{
    if (agent->jobs_room && agent->triage.journal)
        jobs_save(agent->jobs_room->open, put_report, agent);
}

void agent_close_jobs(Agent *agent)
{
    if (!agent->jobs_room)
        return;
    for (size_t i = 0; i < agent->jobs_room->ended.len; i++)
        str_done(&agent->jobs_room->ended.at[i].gz);
    vec_done(&agent->jobs_room->ended);
    jobs_free(agent->jobs_room->open);
    free(TAKE(agent->jobs_room));
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void read_ended(const JobRoom *room, JobReports *ret)
{
    CLEANUP(str_done) Str json = str_limited(JSON_MAX);

    for (size_t i = room->ended.len; i-- > 0;) {
        str_clear(&json);
        if (gzip_unpack(room->ended.at[i].gz.text, room->ended.at[i].gz.len, &json, NULL) == 0)
            (void)jobs_read(json.text, json.len, ret, NULL);
    }
}

bool agent_jobs_json(const Agent *agent, const char *name, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    const JobRoom *room = agent->jobs_room;
    VEC(const JobReport *) list = {0};
    JobReports ended = {0};

    read_ended(room, &ended);
    for (size_t i = 0; i < jobs_count(room->open); i++)
        vec_push(&list, jobs_at(room->open, i));
    for (size_t i = 0; i < ended.len; i++)
        vec_push(&list, &ended.at[i]);
    for (size_t i = list.len; name && i-- > 0;)
        if (!job_is_named(list.at[i], name))
            vec_remove(&list, i);
    const bool found = list.len > 0;
    if (!name)
        jobs_json(list.at, list.len, node->hostname, node->real_ns, out);
    else if (found) {
        job_json(list.at[0], out);
        str_addc(out, '\n');
    }
    vec_done(&list);
    job_reports_done(&ended);
    return found;
}
