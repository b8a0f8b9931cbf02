/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/slurm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/worker.h"
#include "source/slurm/command.h"
#include "source/slurm/format.h"

/* The worker's job. */
typedef struct Question {
    char *program;
    uint64_t timeout_ms;
    char job[PROCESS_JOB_CAP];
    JobInfo info;
    int rc;
    Err err;
} Question;

/* A job on this node. */
typedef struct Known {
    JobInfo info;
    bool told;
    bool wanted;
    uint64_t next_ns; /* when to ask again; 0: not asked yet */
} Known;

struct Slurm {
    const Log *log;
    Worker *worker;
    Question *question;
    bool running, missing; /* a question is under way; there is no such program */
    LogLimit limit;
    VEC(Known) jobs;
    VEC(JobInfo) told;
};

/* --- an answer ---------------------------------------------------------------------------------------------------- */

/* Where the value of ` key=` begins in a line; NULL where it is missing or comes twice. */
static const char *find_value(const char *text, const char *key)
{
    const size_t len = strlen(key), line = strcspn(text, "\n");
    const char *found = NULL;

    for (const char *at = text; (at = strstr(at, key)) && at < text + line; at += len) {
        if (at[len] != '=' || (at != text && at[-1] != ' '))
            continue;
        if (found)
            return NULL;
        found = at + len + 1;
    }
    return found;
}

/* What a terminal would obey becomes '?'. */
static void copy_text(const char *value, size_t len, char *out, size_t cap)
{
    if (strncmp(value, "(null)", 6) == 0)
        return;
    snprintf(out, cap, "%.*s", (int)number_min_u64(len, cap - 1), value);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

/* A value without blanks, up to one of the bytes in `end` too. */
static void copy_value(const char *text, const char *key, const char *end, char *out, size_t cap)
{
    const char *value = find_value(text, key);

    if (value)
        copy_text(value, number_min_u64(strcspn(value, " \n"), strcspn(value, end)), out, cap);
}

/* A name may have blanks: it ends before the key that follows, where that is there once. */
static void copy_name(const char *text, char *out, size_t cap)
{
    static const char *const after[] = {"HetJobIdSet", "UserId"};
    const char *name = find_value(text, "JobName");
    size_t len = name ? strcspn(name, " \n") : 0;

    for (size_t i = 0; name && i < ARRAY_LEN(after); i++) {
        const char *value = find_value(text, after[i]);
        const char *end = value ? value - strlen(after[i]) - 2 : NULL;

        if (!end || end < name)
            continue;
        len = (size_t)(end - name);
        break;
    }
    if (name)
        copy_text(name, len, out, cap);
}

/* The line of this job: of an array's id Slurm lists each task, one of which has that id itself. Else the first line;
 * "" where two say that they are it: a job's name may hold a line. */
static const char *find_line(const char *text, const char *job)
{
    const size_t len = strlen(job);
    const char *found = NULL;

    for (const char *at = text; (at = strstr(at, "JobId=")); at += 6) {
        if ((at != text && at[-1] != '\n') || strncmp(at + 6, job, len) != 0 || at[6 + len] != ' ')
            continue;
        if (found)
            return "";
        found = at;
    }
    return found ? found : text;
}

/* "4700_3"; "" for a job that is no task of an array, and for one that stands for several tasks. */
static void copy_array(const char *line, char out[PROCESS_JOB_CAP])
{
    char array[PROCESS_JOB_CAP] = "", task[PROCESS_JOB_CAP] = "";

    copy_value(line, "ArrayJobId", "", array, sizeof array);
    copy_value(line, "ArrayTaskId", "", task, sizeof task);
    if (array[0] && task[0] && !array[strspn(array, "0123456789")] && !task[strspn(task, "0123456789")] &&
        strlen(array) + strlen(task) + 1 < PROCESS_JOB_CAP)
        snprintf(out, PROCESS_JOB_CAP, "%.*s_%.*s", PROCESS_JOB_CAP / 2 - 1, array, PROCESS_JOB_CAP / 2 - 1, task);
}

/* "2026-03-01T12:00:00" in this machine's zone, as Slurm's commands write it; 0 for words and other forms. */
static uint64_t parse_start(const char *text)
{
    struct tm at = {.tm_isdst = -1};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &at);
    const time_t seconds = end && !*end ? mktime(&at) : -1;

    return seconds > 0 ? (uint64_t)seconds * NS_PER_S : 0;
}

/* 0 where there is none. */
static uint32_t read_count(const char *line, const char *key)
{
    const char *value = find_value(line, key);
    uint64_t count;

    return value && number_parsen_u64(value, strspn(value, "0123456789"), 0, UINT32_MAX, &count, NULL) == 0
               ? (uint32_t)count
               : 0;
}

int slurm_parse(const char *text, JobInfo *ret)
{
    const char *line = find_line(text, ret->job);
    const char *limit = find_value(line, "TimeLimit");
    JobInfo info = {.nodes = read_count(line, "NumNodes"), .cpus = read_count(line, "NumCPUs")};

    if (strncmp(line, "JobId=", 6) != 0)
        return -EBADMSG;
    memcpy(info.job, ret->job, sizeof info.job);
    copy_name(line, info.name, sizeof info.name);
    copy_value(line, "UserId", "(", info.user, sizeof info.user);
    copy_value(line, "Account", "", info.account, sizeof info.account);
    copy_array(line, info.array);
    copy_value(line, "StartTime", "", info.started, sizeof info.started);
    info.started_real_ns = parse_start(info.started);
    copy_value(line, "Partition", "", info.partition, sizeof info.partition);
    info.limit_s = limit ? slurm_read_limit(limit) : 0;
    *ret = info;
    return 0;
}

/* --- the worker's thread ------------------------------------------------------------------------------------------ */

static int ask_scontrol(const Question *q, Str *out, Err *err)
{
    const char *const argv[] = {q->program, "show", "job", q->job, "-o", NULL};

    return slurm_command_run(argv, false, q->timeout_ms, out, err);
}

static void run_question(void *job)
{
    Question *q = job;
    CLEANUP(str_done) Str out = str_limited(SLURM_ANSWER_MAX);

    memcpy(q->info.job, q->job, sizeof q->info.job);
    q->rc = ask_scontrol(q, &out, &q->err);
    if (q->rc == 0 && (q->rc = slurm_parse(out.len ? out.text : "", &q->info)) < 0)
        (void)err_set(&q->err, q->rc, "the answer is no job");
}

static void free_question(void *job)
{
    Question *q = job;

    free(q->program);
    free(q);
}

/* --- the jobs ----------------------------------------------------------------------------------------------------- */

int slurm_new(const char *program, uint64_t timeout_ms, const Log *log, Slurm **ret, Err *err)
{
    Question *question = xcalloc(1, sizeof *question);
    Worker *worker;

    question->program = xstrdup(program);
    question->timeout_ms = timeout_ms;
    TRY(worker_new(run_question, free_question, question, &worker, err));
    *ret = xcalloc(1, sizeof **ret);
    (*ret)->log = log;
    (*ret)->worker = worker;
    (*ret)->question = question;
    (*ret)->limit = (LogLimit){.window_ns = NS_PER_H, .burst = 1};
    return 0;
}

void slurm_free(Slurm *slurm)
{
    if (!slurm)
        return;
    worker_free(slurm->worker);
    vec_done(&slurm->jobs);
    vec_done(&slurm->told);
    free(slurm);
}

static Known *find_job(Slurm *slurm, const char *job)
{
    for (size_t i = 0; i < slurm->jobs.len; i++)
        if (strcmp(slurm->jobs.at[i].info.job, job) == 0)
            return &slurm->jobs.at[i];
    return NULL;
}

static bool is_job_id(const char *text)
{
    const char digits[] = "0123456789";
    const size_t len = strspn(text, digits), more = len + (text[len] == '_' || text[len] == '+');

    return len > 0 && (!text[len] || (more > len && text[more] && !text[more + strspn(text + more, digits)]));
}

static void note_jobs(Slurm *slurm, const Holding *holdings, size_t count)
{
    for (size_t i = 0; i < slurm->jobs.len; i++)
        slurm->jobs.at[i].wanted = false;
    for (size_t i = 0; i < count; i++) {
        const char *job = holdings[i].owner.job;
        Known *known = find_job(slurm, job);

        if (!known && is_job_id(job) && slurm->jobs.len < SLURM_JOBS_MAX) {
            known = vec_add(&slurm->jobs);
            snprintf(known->info.job, sizeof known->info.job, "%s", job);
        }
        if (known)
            known->wanted = true;
    }
    for (size_t i = slurm->jobs.len; i-- > 0;)
        if (!slurm->jobs.at[i].wanted)
            vec_remove(&slurm->jobs, i);
}

static void take_answer(Slurm *slurm, uint64_t now_ns)
{
    const Question *q = slurm->question;
    Known *known = find_job(slurm, q->job);

    slurm->running = false;
    slurm->missing = q->rc == -ENOENT || q->rc == -EACCES;
    if (q->rc < 0 && log_limit(&slurm->limit, now_ns, &(uint64_t){0}))
        log_write(slurm->log, slurm->missing ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
                  "'%s show job %s -o': %s; names and accounts of Slurm's jobs stay unknown", q->program, q->job,
                  q->err.text);
    if (!known)
        return;
    known->next_ns = now_ns + SLURM_AGAIN_NS;
    known->told = q->rc == 0;
    if (known->told)
        known->info = q->info;
}

static void ask_next(Slurm *slurm, uint64_t now_ns)
{
    for (size_t i = 0; i < slurm->jobs.len; i++) {
        const Known *known = &slurm->jobs.at[i];

        if (known->told || known->next_ns > now_ns)
            continue;
        memcpy(slurm->question->job, known->info.job, sizeof slurm->question->job);
        slurm->running = true;
        worker_start(slurm->worker);
        return;
    }
}

void slurm_tick(Slurm *slurm, const Holding *holdings, size_t count, uint64_t now_ns)
{
    note_jobs(slurm, holdings, count);
    if (slurm->running && !worker_is_busy(slurm->worker))
        take_answer(slurm, now_ns);
    if (!slurm->running && !slurm->missing)
        ask_next(slurm, now_ns);
    vec_clear(&slurm->told);
    for (size_t i = 0; i < slurm->jobs.len; i++)
        if (slurm->jobs.at[i].told)
            vec_push(&slurm->told, slurm->jobs.at[i].info);
}

JobInfoList slurm_jobs(const Slurm *slurm)
{
    return (JobInfoList){slurm->told.at, slurm->told.len};
}
