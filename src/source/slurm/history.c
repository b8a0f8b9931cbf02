/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/history.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"

enum { COLUMNS_MAX = 256, JOBS_MAX = 1 << 22 };

/* The REQUIRED ones first. */
#define COLUMN_TABLE(COLUMN)                                                                                           \
    COLUMN(COL_ID, "JobID")                                                                                            \
    COLUMN(COL_SUBMIT, "Submit")                                                                                       \
    COLUMN(COL_START, "Start")                                                                                         \
    COLUMN(COL_ELAPSED, "ElapsedRaw")                                                                                  \
    COLUMN(COL_NODES, "NNodes")                                                                                        \
    COLUMN(COL_CPUS, "NCPUS")                                                                                          \
    COLUMN(COL_ACCOUNT, "Account")                                                                                     \
    COLUMN(COL_PRIORITY, "Priority")                                                                                   \
    COLUMN(COL_ALLOC, "AllocTRES")                                                                                     \
    COLUMN(COL_REQ, "ReqTRES")                                                                                         \
    COLUMN(COL_REQ_MEM, "ReqMem")

#define COLUMN_ID(id, name) id,
#define COLUMN_NAME(id, name) name,
enum Column { COLUMN_TABLE(COLUMN_ID) COL_COUNT };
static const char *const columns[COL_COUNT] = {COLUMN_TABLE(COLUMN_NAME)};
enum { REQUIRED = COL_ALLOC }; /* those before it */

typedef struct Table {
    const SlurmText *text;
    SlurmWord rest;
    unsigned long line;
    int place[COL_COUNT]; /* in a line; -1: none */
    SlurmWord cells[COL_COUNT];
    const Cluster *cluster;
    Arena *arena;
    Map accounts; /* each name once */
    Err *err;
} Table;

static int read_head(Table *t, SlurmWord line)
{
    CLEANUP(str_done) Str missing = str_limited(512);
    SlurmWord name;

    for (size_t i = 0; i < COL_COUNT; i++)
        t->place[i] = -1;
    for (int column = 0; column < COLUMNS_MAX && slurm_word_next(&line, '|', &name); column++)
        for (size_t i = 0; i < COL_COUNT; i++)
            if (strlen(columns[i]) == name.len && strncasecmp(columns[i], name.at, name.len) == 0)
                t->place[i] = column;
    for (size_t i = 0; i < REQUIRED; i++)
        if (t->place[i] < 0)
            str_addf(&missing, "%s%s", missing.len ? ", " : "", columns[i]);
    if (t->place[COL_ALLOC] < 0 && t->place[COL_REQ] < 0)
        str_addf(&missing, "%sAllocTRES (or ReqTRES)", missing.len ? ", " : "");
    if (missing.len)
        return err_set(t->err, -EINVAL, "%s:%lu: no column %s; name them in sacct's --format and keep its header",
                       t->text->name, t->line, missing.text);
    return 0;
}

static int read_cells(Table *t, SlurmWord line)
{
    SlurmWord cell;

    memset(t->cells, 0, sizeof t->cells);
    for (int column = 0; column < COLUMNS_MAX && slurm_word_next(&line, '|', &cell); column++)
        for (size_t i = 0; i < COL_COUNT; i++)
            if (t->place[i] == column)
                t->cells[i] = cell;
    for (size_t i = 0; i < REQUIRED; i++)
        if (!t->cells[i].at)
            return err_set(t->err, -EINVAL, "%s:%lu: no value of %s", t->text->name, t->line, columns[i]);
    return 0;
}

/* A whole number; 0 for none. */
static int read_number(const Table *t, enum Column column, uint64_t *ret)
{
    const SlurmWord cell = t->cells[column];
    Err why;

    *ret = 0;
    if (cell.len && number_parsen_u64(cell.at, cell.len, 0, UINT32_MAX, ret, &why) < 0)
        return err_set(t->err, -EINVAL, "%s:%lu: %s: %s", t->text->name, t->line, columns[column], why.text);
    return 0;
}

/* Of a node: mem of the TRES, else ReqMem, of the job, of each node ("4Gn") or of each CPU ("4Gc"). */
static double read_memory(const Table *t, SlurmWord tres, double nodes, double cpus)
{
    const SlurmWord asked = t->cells[COL_REQ_MEM];
    const char last = asked.len ? asked.at[asked.len - 1] : '\0';
    double mib;

    if (slurm_read_mib(slurm_find_tres(tres, "mem"), &mib))
        return mib / nodes;
    if (!slurm_read_mib(asked, &mib))
        return 0;
    return last == 'n' ? mib : last == 'c' ? mib * cpus / nodes : mib / nodes;
}

static uint64_t find_model(const Cluster *cluster, SlurmWord type)
{
    for (size_t i = 0; cluster && i < cluster->model_count; i++)
        if (slurm_word_is(type, cluster->models[i]))
            return UINT64_C(1) << i;
    return 0;
}

static int add_shares(const Table *t, ClusterJob *job)
{
    const SlurmWord tres = t->cells[COL_ALLOC].len ? t->cells[COL_ALLOC] : t->cells[COL_REQ];
    const SlurmGpus gpus = slurm_read_gpus(tres);
    uint64_t nodes, cpus;

    TRY(read_number(t, COL_NODES, &nodes));
    TRY(read_number(t, COL_CPUS, &cpus));
    nodes = nodes ? nodes : 1;
    const ClusterRequest base = {
        .cpu_milli = (uint32_t)number_min_u64((cpus + nodes - 1) / nodes * 1000, UINT32_MAX),
        .memory_mib = (uint32_t)fmin(ceil(read_memory(t, tres, (double)nodes, (double)cpus)), UINT32_MAX),
        .models = find_model(t->cluster, gpus.type)};
    slurm_add_shares(job, &base, (uint32_t)nodes, gpus.count);
    return 0;
}

static const char *find_account(Table *t, SlurmWord name)
{
    const char *kept = map_getn(&t->accounts, name.at, name.len);

    if (!kept) {
        kept = arena_strndup(t->arena, name.at, name.len);
        map_putn(&t->accounts, name.at, name.len, (void *)(uintptr_t)kept);
    }
    return kept;
}

/* 1: it is a job that ran. */
static int read_job(Table *t, ClusterJob *ret)
{
    ClusterJob job = {.kind = "Slurm job", .tier = CLUSTER_TIER_END, .apart = true};
    const SlurmWord *c = t->cells;
    uint64_t elapsed, priority;

    TRY(read_number(t, COL_ELAPSED, &elapsed));
    TRY(read_number(t, COL_PRIORITY, &priority));
    job.submitted_s = slurm_read_time(c[COL_SUBMIT]);
    job.started_s = slurm_read_time(c[COL_START]);
    if (!job.submitted_s)
        return err_set(t->err, -EINVAL, "%s:%lu: Submit is no time such as 2026-03-01T12:00:00", t->text->name,
                       t->line);
    if (!job.started_s || !elapsed)
        return 0;
    job.name = arena_strndup(t->arena, c[COL_ID].at, c[COL_ID].len);
    job.queue = c[COL_ACCOUNT].len ? find_account(t, c[COL_ACCOUNT]) : NULL;
    job.duration_s = elapsed;
    job.priority = (int32_t)number_min_u64(priority, INT32_MAX);
    TRY(add_shares(t, &job));
    *ret = job;
    return 1;
}

static int read_lines(Table *t, SlurmHistory *ret)
{
    CLEANUP_VEC VEC(ClusterJob) jobs = {0};
    SlurmHistory history = {0};
    SlurmWord line;

    if (!slurm_next_line(&t->rest, &t->line, &line)) {
        *ret = history;
        return 0;
    }
    TRY(read_head(t, line));
    while (slurm_next_line(&t->rest, &t->line, &line)) {
        ClusterJob job;

        TRY(read_cells(t, line));
        if (memchr(t->cells[COL_ID].at, '.', t->cells[COL_ID].len)) {
            history.steps++;
            continue;
        }
        const int rc = read_job(t, &job);
        TRY(rc);
        if (rc == 0) {
            history.never_ran++;
            continue;
        }
        if (jobs.len == JOBS_MAX)
            return err_set(t->err, -E2BIG, "%s:%lu: more than %d jobs", t->text->name, t->line, JOBS_MAX);
        vec_push(&jobs, job);
    }
    history.count = jobs.len;
    history.jobs = jobs.len ? arena_memdup(t->arena, jobs.at, jobs.len * sizeof *jobs.at) : NULL;
    *ret = history;
    return 0;
}

int slurm_history_read(const SlurmText *text, const Cluster *cluster, Arena *arena, SlurmHistory *ret, Err *err)
{
    Table t = {.text = text, .rest = {text->text, text->len}, .cluster = cluster, .arena = arena, .err = err};

    map_init(&t.accounts);
    const int rc = read_lines(&t, ret);
    map_done(&t.accounts);
    return rc;
}
